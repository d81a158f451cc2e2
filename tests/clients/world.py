"""All clients of one test on one server: makes them, and closes them after it."""

import pytest

from actor_converse import Converse
from actor_dino import Dino
from actor_gajim import Gajim
from actor_profanity import Profanity
from actors import ALL
from proxy import Proxy


class World:
    """Hands out sessions with fresh accounts."""

    def __init__(self, server, tls):
        self.server = server
        self.tls = tls
        self.actors = []
        self.terminals = []
        self.proxies = []
        self.log_since = 0

    @property
    def port(self):
        """The port for this TLS mode."""
        return self.port_of(self.tls)

    def port_of(self, tls):
        """The port for a TLS mode."""
        server = self.server
        return {"direct": server.c2s_tls, "ws": server.http, "wss": server.https}.get(tls, server.c2s)

    async def proxy(self):
        """A relay to the server that can break connections."""
        proxy = await Proxy(self.port).start()
        self.proxies.append(proxy)
        return proxy

    def make(self, kind, account=None, resource="first", priority=0, proxy=None, tls=None):
        """A session that has not connected yet."""
        tls = tls or self.tls
        if tls in ("ws", "wss") and "websocket" not in ALL[kind].capabilities:
            tls = "starttls"
        actor = ALL[kind](
            self.server, tls, account or self.server.fresh(), resource,
            proxy.port if proxy else self.port_of(tls), priority,
        )
        self.actors.append(actor)
        return actor

    async def terminal(self, account=None, proxy=None):
        """Profanity in a terminal, not connected yet."""
        client = Profanity(
            self.server, self.tls, account or self.server.fresh(),
            proxy.port if proxy else self.port,
        )
        self.terminals.append(client)
        client.start()
        return client

    async def gajim(self, account=None):
        """Gajim on a screen of its own, logged in."""
        client = Gajim(self.server, account or self.server.fresh())
        self.terminals.append(client)
        return await client.start()

    async def dino(self, account=None):
        """Dino on a screen of its own, started."""
        client = Dino(self.server, account or self.server.fresh())
        self.terminals.append(client)
        return await client.start()

    async def converse(self, account=None):
        """Converse.js in a browser of its own, logged in."""
        client = Converse(self.server, account or self.server.fresh())
        self.terminals.append(client)
        return await client.start()

    async def bound(self, kind, **options):
        """A session with a bound resource, without presence."""
        actor = self.make(kind, **options)
        await actor.connect()
        return actor

    async def online(self, kind, **options):
        """A session that is available."""
        return await (await self.bound(kind, **options)).online()

    def departs(self, how):
        """Skips the test on Prosody, which departs from the text or does more
        than the text asks for."""
        if self.server.driver == "prosody":
            pytest.skip(f"Prosody {how}")

    async def devices(self, kind, *resources, **options):
        """Available sessions of one account, one of each resource."""
        account = options.pop("account", None) or self.server.fresh()
        return [await self.online(kind, account=account, resource=r, **options) for r in resources]

    async def friends(self, kind, other=None):
        """Two available sessions subscribed to each other."""
        one, two = await self.online(kind), await self.online(other or kind)
        await befriend(one, two)
        return one, two

    def describe(self):
        """What each client saw."""
        lines = []
        for actor in self.actors:
            lines.append(f"{actor.log.name} bound as {actor.jid}")
            lines += [f"    {e}" for e in actor.log.events]
        return "\n".join(lines + [t.at_the_end for t in self.terminals])

    async def close(self):
        """Close everything; the first error is raised after all is closed."""
        errors = []
        for actor in self.terminals + self.actors:
            try:
                await actor.close()
            except Exception as error:  # all others still have to be closed
                errors.append(error)
        for proxy in self.proxies:
            await proxy.close()
        if errors:
            raise errors[0]


async def befriend(one, two):
    """Subscribe both ways; both see each other available (RFC 6121 3.1)."""
    for asks, answers in ((one, two), (two, one)):
        asks.send_presence(to=answers.bare, type="subscribe")
        await answers.wait_presence(asks.bare, "subscribe")
        answers.send_presence(to=asks.bare, type="subscribed")
        await asks.wait_presence(answers.bare, "subscribed")
    await one.wait_push(two.bare, "both")
    await two.wait_push(one.bare, "both")
    await one.wait_presence(two.jid)
    await two.wait_presence(one.jid)
