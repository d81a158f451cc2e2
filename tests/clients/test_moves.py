"""A connection is accepted by any of the server's threads and moves to the
thread of its user after authentication: nothing that the client sends meanwhile
may be lost."""

import asyncio
import time

import pytest

from raw import BIND, HEADER, Raw, plain, scram_final

#: Logins at once: with several shards most of them move.
LOGINS = 40


async def login(world):
    """A session, each step as soon as the one before is answered."""
    raw = await Raw(world).open()
    raw.send(plain(world.server.fresh()))
    await raw.until("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>")
    raw.send(HEADER)
    await raw.until("</stream:features>")
    raw.send(BIND)
    await raw.until("</iq>")
    raw.close()


async def test_each_header_follows_its_success_at_once(world):
    """RFC 6120 6.4.6: the new header may come as soon as <success/> is read, one
    login after the other so that nothing delays it, then all at once."""
    for _ in range(LOGINS):
        await login(world)
    await asyncio.gather(*(login(world) for _ in range(LOGINS)))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-1"])
async def test_what_follows_the_login_at_once_is_kept(world, mechanism):
    """A client that does not wait for answers gets all of them, in order: more
    than RFC 6120 6.4.6 asks of a server. What it sends comes with the login, or
    up to two milliseconds after it, while the connection moves."""
    if world.server.driver == "prosody":
        pytest.skip("Prosody looks at nothing that comes before its <success/>")
    ping = "<iq type='get' id='last'><ping xmlns='urn:xmpp:ping'/></iq>"
    for n in range(LOGINS):
        account = world.server.fresh()
        raw = await Raw(world).open()
        raw.send(plain(account) if mechanism == "PLAIN" else await scram_final(raw, account))
        # Not asyncio's, which rounds up to milliseconds.
        time.sleep(n * 0.002 / LOGINS)
        raw.send(HEADER + BIND + ping)
        answers = await raw.until("id='last'")
        order = ["<success", "<stream:stream", "<bind", "id='bind'", "id='last'"]
        places = [answers.find(what) for what in order]
        assert -1 not in places and places == sorted(places), answers
        raw.close()
