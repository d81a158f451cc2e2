"""A connection is accepted by any of the server's threads and moves to the
thread of its user after authentication: nothing that the client sends meanwhile
may be lost."""

import asyncio

import pytest

from raw import BIND, HEADER, Raw, plain

#: Logins at once: with several shards most of them move.
LOGINS = 40


async def test_many_log_in_at_once(world):
    """RFC 6120 6.4.6: each new header comes as soon as <success/> is read."""

    async def login():
        raw = await Raw(world).open()
        raw.send(plain(world.server.fresh()))
        await raw.until("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>")
        raw.send(HEADER)
        await raw.until("</stream:features>")
        raw.send(BIND)
        await raw.until("</iq>")
        return raw

    for raw in await asyncio.gather(*(login() for _ in range(LOGINS))):
        raw.close()


@pytest.mark.parametrize("pieces", [1, 7])
async def test_what_follows_the_login_at_once_is_kept(world, pieces):
    """A client that does not wait for answers gets all of them, in order: more
    than RFC 6120 6.4.6 asks of a server, and what XEP-0305 hopes for."""
    if world.server.driver == "prosody":
        pytest.skip("Prosody looks at nothing that comes before its <success/>")
    ping = "<iq type='get' id='last'><ping xmlns='urn:xmpp:ping'/></iq>"

    async def login():
        account = world.server.fresh()
        raw = await Raw(world).open()
        text = plain(account) + HEADER + BIND + ping
        size = len(text) // pieces + 1
        for at in range(0, len(text), size):
            raw.send(text[at:at + size])
            if pieces > 1:
                await asyncio.sleep(0.001)
        answers = await raw.until("id='last'")
        order = ["<success", "<stream:stream", "<bind", "id='bind'", "id='last'"]
        places = [answers.find(what) for what in order]
        assert -1 not in places and places == sorted(places), answers
        raw.close()

    await asyncio.gather(*(login() for _ in range(LOGINS // 2)))
