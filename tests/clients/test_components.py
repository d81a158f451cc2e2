"""External components (XEP-0114): slixmpp's ComponentXMPP, the example in
contrib/components, and one of a few lines that says what it should not."""

import asyncio
import hashlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from slixmpp import ComponentXMPP
from slixmpp.exceptions import IqError

from events import WAIT, Message
from servers import COMPONENTS, DOMAIN, throng

# The subject are components: one client is enough to talk to them.
pytestmark = pytest.mark.needs("push")

HEADER = "<stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' to='{}'>"


@pytest.fixture
def own(server):
    """Only Throng is set up with components."""
    if server.driver == "prosody":
        pytest.skip("set up for Throng only")
    return server


class Echo(ComponentXMPP):
    """slixmpp's component, which answers messages with their text."""

    def __init__(self, server, domain, secret=None):
        super().__init__(domain, secret or server.component_secret, "127.0.0.1", server.component)
        for plugin in ("xep_0030", "xep_0199"):
            self.register_plugin(plugin)
        self["xep_0030"].add_identity("component", "generic", jid=domain, name="Echo")
        self.seen, self.arrived = [], asyncio.Event()
        self.ended = asyncio.Event()
        self.started = asyncio.Event()
        self.add_event_handler("session_start", lambda _: self.started.set())
        self.add_event_handler("disconnected", lambda _: self.ended.set())
        self.add_event_handler("message", self._on_message)
        for event in ("presence_available", "presence_unavailable", "presence_subscribe", "presence_probe"):
            self.add_event_handler(event, self._on_presence)
        self.auto_authorize = self.auto_subscribe = None

    def _on_message(self, message):
        self._note("message", message)
        if message["type"] != "error":
            message.reply(message["body"]).send()

    def _on_presence(self, presence):
        self._note(presence["type"], presence)

    def _note(self, what, stanza):
        self.seen.append((what, stanza["from"].bare, str(stanza["to"])))
        self.arrived.set()

    async def until(self, what):
        """Waits until this was seen."""
        async with asyncio.timeout(WAIT):
            while what not in self.seen:
                self.arrived.clear()
                await self.arrived.wait()

    async def connected(self):
        """Connects and waits until the secret was taken."""
        self.connect()
        await asyncio.wait_for(self.started.wait(), WAIT)
        return self

    async def gone(self):
        """Disconnects."""
        await self.disconnect()
        await asyncio.wait_for(self.ended.wait(), WAIT)


@pytest.fixture
def echo(own, loop):
    """A connected component of slixmpp's."""
    component = Echo(own, COMPONENTS[0])
    for _ in range(50):
        # The one of the test before may not have gone.
        try:
            loop.run_until_complete(component.connected())
            break
        except TimeoutError:
            component = Echo(own, COMPONENTS[0])
    yield component
    loop.run_until_complete(component.gone())


class RawComponent:
    """A connection where components connect that says what it is told."""

    async def open(self, server, domain=COMPONENTS[1]):
        """Connects and sends a header; returns the answer."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", server.component)
        self.send(HEADER.format(domain))
        return await self.until(">") + await self.until(">")

    async def seated(self, server, domain=COMPONENTS[1]):
        """Shows the secret; returns the answer."""
        header = await self.open(server, domain)
        stream = header.split(" id='")[1].split("'")[0]
        proof = hashlib.sha1((stream + server.component_secret).encode()).hexdigest()
        self.send(f"<handshake>{proof}</handshake>")
        return await self.until(">")

    async def sit(self, server, domain=COMPONENTS[1]):
        """The same until the one before has gone."""
        for _ in range(200):
            if await self.seated(server, domain) == "<handshake/>":
                return self
            self.close()
            await asyncio.sleep(0.1)
        raise AssertionError("the domain is never free")

    def send(self, text):
        """Writes."""
        self.writer.write(text.encode())

    async def until(self, end):
        """All that comes up to this text."""
        return (await asyncio.wait_for(self.reader.readuntil(end.encode()), WAIT)).decode()

    async def rest(self):
        """All that comes until the server closes."""
        return (await asyncio.wait_for(self.reader.read(), 2 * WAIT)).decode(errors="replace")

    def close(self):
        """Aborts."""
        self.writer.transport.abort()


async def test_messages_and_queries_both_ways(own, echo, world, kind):
    """XEP-0114 3: from and to any address of the domain; XEP-0030: found by the server's items."""
    romeo = await world.online(kind)
    items = await romeo.client["xep_0030"].get_items(jid=DOMAIN)
    assert COMPONENTS[0] in {jid for jid, _, _ in items["disco_items"]["items"]}
    romeo.send_message(f"anyone@{COMPONENTS[0]}", "hello there")
    await romeo.wait_message("hello there", sender=f"anyone@{COMPONENTS[0]}")
    info = await romeo.client["xep_0030"].get_info(jid=COMPONENTS[0])
    assert ("component", "generic", None, "Echo") in info["disco_info"]["identities"]
    # The component asks the server, and a session of the user.
    info = await echo["xep_0030"].get_info(jid=DOMAIN, ifrom=COMPONENTS[0])
    assert any(identity[:2] == ("server", "im") for identity in info["disco_info"]["identities"])
    assert await echo["xep_0199"].send_ping(romeo.jid, ifrom=f"x@{COMPONENTS[0]}") is not None


async def test_subscriptions_in_both_directions(own, echo, world, kind):
    """RFC 6121 3, 4: a contact at a component is a contact."""
    romeo = await world.online(kind)
    contact = f"friend@{COMPONENTS[0]}"
    romeo.client.send_presence_subscription(pto=contact)
    await echo.until(("subscribe", romeo.bare, contact))
    echo.send_presence(pto=romeo.bare, pfrom=contact, ptype="subscribed")
    echo.send_presence(pto=romeo.bare, pfrom=f"{contact}/phone", pshow="away")
    echo.send_presence(pto=romeo.bare, pfrom=contact, ptype="subscribe")
    async with asyncio.timeout(WAIT):
        while romeo.client.client_roster[contact]["subscription"] != "to":
            await asyncio.sleep(0.05)
    romeo.client.send_presence_subscription(pto=contact, ptype="subscribed")
    await echo.until(("available", romeo.bare, contact))
    romeo.client.send_presence(ptype="unavailable")
    await echo.until(("unavailable", romeo.bare, contact))
    romeo.client.send_presence()
    await echo.until(("probe", romeo.bare, contact))


async def test_messages_wait_for_users(own, echo, world, kind):
    """XEP-0160: a component's message waits like any other."""
    account = own.fresh()
    echo.send_message(mto=account.jid, mbody="while you were away", mfrom=f"x@{COMPONENTS[0]}", mtype="chat")
    juliet = await world.online(kind, account=account)
    await juliet.wait_message("while you were away", sender=f"x@{COMPONENTS[0]}")


async def test_a_component_that_is_away(own, world, kind):
    """RFC 6120 8.3.3.17: an error to try again, and no item of the server's."""
    romeo = await world.online(kind)
    for _ in range(100):
        items = await romeo.client["xep_0030"].get_items(jid=DOMAIN)
        there = {jid for jid, _, _ in items["disco_items"]["items"]}
        if COMPONENTS[0] not in there:
            break
        await asyncio.sleep(0.1)
    assert COMPONENTS[0] not in there
    with pytest.raises(IqError) as refused:
        await romeo.client["xep_0199"].send_ping(COMPONENTS[0])
    assert (refused.value.condition, refused.value.etype) == ("remote-server-timeout", "wait")


async def test_a_component_wakes_phones(own, echo, world, kind):
    """XEP-0357: the push service is a component; the phone is told of by it."""
    from test_push import Service, change

    class Pushes(Service):
        """The service behind a component's stream."""

        def __init__(self, component):
            self.client, self.jid = component, COMPONENTS[0]
            super().__init__(self)

    service = Pushes(echo)
    romeo, phone = await world.online(kind), await world.online(kind)
    await change(phone, "enable", service, "node-1")
    await phone.close()
    romeo.send_message(phone.bare, "wake up")
    assert (await service.wait(1))["message-count"] == "1"
    assert service.told[0][:2] == (DOMAIN, "node-1")


async def test_the_example_answers(own, world, kind):
    """contrib/components/echo.py, as docs/components.md starts it."""
    script = Path(__file__).parents[2] / "contrib" / "components" / "echo.py"
    command = [sys.executable, str(script), "--domain", COMPONENTS[2], "--port", str(own.component),
               "--secret-file", str(own.component_secret_file)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        said = await asyncio.wait_for(process.stdout.readline(), WAIT)
        assert said.decode().strip() == f"{COMPONENTS[2]} is connected"
        romeo = await world.online(kind)
        romeo.send_message(f"x@{COMPONENTS[2]}", "<&> \u2764")
        await romeo.wait_message("<&> \u2764", sender=f"x@{COMPONENTS[2]}")
        info = await romeo.client["xep_0030"].get_info(jid=COMPONENTS[2])
        assert ("component", "generic", None, "Echo") in info["disco_info"]["identities"]
        with pytest.raises(IqError) as refused:
            await romeo.client["xep_0092"].get_version(COMPONENTS[2])
        assert refused.value.condition == "service-unavailable"
        shown = subprocess.run(
            [own.binary, "ctl", "components", "--json", "--data", str(own.data)], capture_output=True, text=True, timeout=30)
        assert f'"domain":"{COMPONENTS[2]}"' in shown.stdout and '"connected":true' in shown.stdout, shown
        assert own.component_secret not in shown.stdout + own.log()
    finally:
        process.terminate()
        await process.wait()


async def test_wrong_secrets_and_domains(own, world, kind):
    """XEP-0114 3: not-authorized, host-unknown, invalid-namespace, conflict; the server goes on."""
    raw = RawComponent()
    await raw.open(own)
    raw.send(f"<handshake>{'0' * 40}</handshake>")
    assert "<not-authorized" in await raw.rest()
    await raw.open(own, DOMAIN)
    assert "<host-unknown" in await raw.rest()
    raw.reader, raw.writer = await asyncio.open_connection("127.0.0.1", own.component)
    raw.send(HEADER.format(COMPONENTS[1]).replace("component:accept", "client"))
    assert "<invalid-namespace" in await raw.rest()
    await raw.open(own)
    raw.send(f"<message from='x@{COMPONENTS[1]}' to='a@{DOMAIN}'/>")
    assert "<not-authorized" in await raw.rest()
    first, second = await RawComponent().sit(own), RawComponent()
    assert "<conflict" in await second.seated(own) + await second.rest()
    first.close()


async def test_addresses_of_others_and_stanzas_too_long(own, world, kind):
    """XEP-0114 3, RFC 6120 4.9.3: each ends the stream, and nobody hears of it."""
    romeo = await world.online(kind)
    for text, condition in [
        (f"<message from='{romeo.bare}' to='{romeo.bare}'><body>forged</body></message>", "invalid-from"),
        (f"<message from='{DOMAIN}' to='{romeo.bare}'><body>forged</body></message>", "invalid-from"),
        (f"<message to='{romeo.bare}'><body>forged</body></message>", "improper-addressing"),
        (f"<message from='{COMPONENTS[1]}' to='{romeo.bare}'><body>{'x' * 300_000}</body></message>", "policy-violation"),
        ("<a></b>", "not-well-formed"),
    ]:
        raw = await RawComponent().sit(own)
        raw.send(text)
        said = await raw.rest()
        assert f"<{condition}" in said, (condition, said)
    await romeo.settle(romeo)
    assert not [body for body in romeo.bodies() if "forged" in body]


async def test_a_component_that_does_not_read_holds_nobody_up(own, world, kind):
    """The sender gets <resource-constraint/> and goes on; others are served meanwhile."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    # What it sends at once is more than an account may.
    throng(own, "ctl", "knob", "set", "busy_accounts", romeo.bare)
    raw = await RawComponent().sit(own)
    raw.writer.transport.pause_reading()
    raw.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    long, to = "x" * 100_000, f"x@{COMPONENTS[1]}"
    # Until the buffers of both sockets and the server's queue are full, however large they are.
    for number in range(40):
        for _ in range(20):
            romeo.client.send_message(mto=to, mbody=long, mtype="chat")
        romeo.send_message(juliet.bare, f"and {number} arrives")
        await juliet.wait_message(f"and {number} arrives")
        juliet.send_message(romeo.bare, f"so does the answer to {number}")
        await romeo.wait_message(f"so does the answer to {number}")
        refused = [event for event in romeo.log.of(Message) if event.type == "error" and event.sender == to]
        if refused:
            break
    assert [event.error for event in refused] and {event.error for event in refused} == {"resource-constraint"}, refused
    raw.close()


async def test_a_storm_of_reconnections(own, world, kind):
    """Two hundred connections that prove themselves or not: the last one that does is served."""
    raws = [RawComponent() for _ in range(200)]
    await asyncio.gather(*(raw.seated(own, COMPONENTS[3]) for raw in raws[:100]), *(raw.open(own, COMPONENTS[3]) for raw in raws[100:]),
                         return_exceptions=True)
    for raw in raws:
        raw.close()
    raw = await RawComponent().sit(own, COMPONENTS[3])
    romeo = await world.online(kind)
    romeo.send_message(f"x@{COMPONENTS[3]}", "after the storm")
    assert "after the storm" in await raw.until("</message>")
    raw.close()
