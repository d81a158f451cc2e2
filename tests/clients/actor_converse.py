"""Converse.js in Chromium, on the page of docs/chat-page.md, which `converse.mjs` clicks and reads."""

import asyncio

from actor_xmppjs import Agent
from events import WAIT
from servers import DOMAIN


class Converse:
    """One browser with one page."""

    def __init__(self, server, account):
        self.server = server
        self.account = account
        self._agent = None
        self._shown = ""

    @property
    def bare(self):
        """The account's address."""
        return self.account.jid

    @property
    def at_the_end(self):
        """What it has shown last, for the report of a failure."""
        return f"converse {self.bare}\n{self._shown}"

    async def start(self):
        """Start the browser and log in."""
        self._agent = await Agent("converse.mjs").start(self.server.cafile)
        await self._order("login", websocket=f"wss://{DOMAIN}:{self.server.https}/xmpp-websocket", domain=DOMAIN,
                          certificate=str(self.server.cafile), name=self.account.name, password=self.account.password,
                          patience=WAIT)
        return self

    async def _order(self, do, **arguments):
        try:
            answer = await asyncio.wait_for(self._agent.order(do, **arguments), 2 * WAIT)
        except asyncio.TimeoutError:
            raise AssertionError(f"Converse.js in Chromium, {do}: no answer from node in {2 * WAIT:.0f} s") from None
        if "failed" in answer:
            self._shown = "\n".join(answer["printed"])
            raise AssertionError(f"Converse.js in Chromium, {do}: {answer['failed']}")
        return answer["value"]

    async def enter(self, room, nick=None):
        """Enter a room for the first time with a nick, or again with the nick that it has registered."""
        await self._order("enter", room=room, nick=nick)

    async def leave(self, room):
        """Leave a room, or what is left of it on the page."""
        await self._order("leave", room=room)

    async def say(self, room, body):
        """Write a line into a room."""
        await self._order("say", room=room, body=body)

    async def lines(self, room):
        """The lines of a room with the nicks of their authors, as the page shows them."""
        return [tuple(line) for line in await self._order("lines", room=room)]

    async def text(self, room):
        """All that the page shows of a room."""
        self._shown = await self._order("text", room=room)
        return self._shown

    async def sessions(self):
        """How many sessions (XEP-0198) it has begun or resumed."""
        return await self._order("sessions")

    async def missing(self):
        """The addresses at the page's own web server that were not found."""
        return await self._order("missing")

    async def close(self):
        """Close the browser."""
        if self._agent is not None:
            await self._agent.close()
