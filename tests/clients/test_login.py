"""Registration and login with every mechanism that the client has."""

import re

import pytest

from events import LoginFailed, StanzaError
from raw import HEADER, Raw, plain
from servers import Account

PLAIN_MECHANISMS = {
    "slixmpp": ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"],
    "aioxmpp": ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"],
    "xmppjs": ["SCRAM-SHA-1", "PLAIN"],
}


@pytest.mark.needs("register")
async def test_registers_in_band_and_logs_in(world, kind):
    """XEP-0077 3.1: an account made in-band can log in, in the same way as others."""
    actor = world.make(kind, world.server.unregistered())
    await actor.connect(register=True)
    await actor.ping()


@pytest.mark.needs("register")
async def test_a_taken_name_is_refused(world, kind):
    """XEP-0077 3.1: <conflict/> for a name that is taken."""
    taken = world.server.fresh()
    actor = world.make(kind, Account(taken.name, "another-password"))
    with pytest.raises(LoginFailed, match="conflict"):
        await actor.connect(register=True)


async def test_every_mechanism_logs_in(world, kind):
    """RFC 6120 6, RFC 5802, RFC 7677: an imported account logs in by each mechanism."""
    account = world.server.fresh()
    for mechanism in PLAIN_MECHANISMS[kind]:
        if mechanism == "SCRAM-SHA-512" and world.server.driver == "prosody":
            continue  # Debian's has none
        actor = world.make(kind, account)
        await actor.connect(mechanism=mechanism)
        await actor.ping()
        await actor.close()


@pytest.mark.secure
@pytest.mark.needs("plus")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512-PLUS", "SCRAM-SHA-256-PLUS", "SCRAM-SHA-1-PLUS"])
async def test_binds_to_the_channel_by_tls_exporter(world, kind, mechanism):
    """RFC 5802 6, RFC 9266: SCRAM bound to the TLS 1.3 channel."""
    if world.server.driver == "prosody":
        pytest.skip("Debian's Prosody has no tls-exporter")
    if mechanism == "SCRAM-SHA-512-PLUS" and kind == "aioxmpp":
        pytest.skip("aiosasl has no SHA-512")
    actor = world.make(kind)
    await actor.connect(mechanism=mechanism)
    await actor.ping()


@pytest.mark.secure
@pytest.mark.needs("end-point")
async def test_binds_to_the_channel_by_end_point(world, kind):
    """RFC 5929 4: SCRAM bound to the server's certificate."""
    if world.server.driver == "prosody":
        pytest.skip("Debian's Prosody has no tls-server-end-point")
    actor = world.make(kind)
    await actor.connect(mechanism="SCRAM-SHA-256-PLUS", binding="tls-server-end-point")
    await actor.ping()


async def test_a_wrong_password_is_refused(world, kind):
    """RFC 6120 6.5.10: <not-authorized/>, and the right password works after it."""
    account = world.server.fresh()
    wrong = world.make(kind, Account(account.name, "not-the-password"))
    with pytest.raises(LoginFailed, match="not-authorized"):
        await wrong.connect(mechanism="SCRAM-SHA-1")
    right = world.make(kind, account)
    await right.connect(mechanism="SCRAM-SHA-1")


async def test_an_unknown_account_looks_like_a_wrong_password(world, kind):
    """RFC 6120 6.5.10 and 13.11: the answer does not tell which names exist."""
    actor = world.make(kind, Account("nobody-here", "any"))
    with pytest.raises(LoginFailed, match="not-authorized"):
        await actor.connect(mechanism="SCRAM-SHA-1")


async def test_a_user_added_while_the_server_runs_logs_in(world, kind):
    """`throng user add` needs no restart."""
    if world.server.driver == "prosody":
        pytest.skip("a command of Throng")
    account = world.server.unregistered()
    world.server.add_account(account)
    actor = world.make(kind, account)
    await actor.connect()
    await actor.ping()


async def test_the_same_resource_twice(world, kind):
    """RFC 6120 7.7.2.2: whatever the policy, one full JID has one session,
    and the account stays usable."""
    account = world.server.fresh()
    one = await world.bound(kind, account=account, resource="same")
    one.hold()
    try:
        two = await world.bound(kind, account=account, resource="same")
    except (StanzaError, LoginFailed, AssertionError) as refused:
        assert "conflict" in str(refused)
        await one.ping()
        return
    await two.ping()


async def test_a_stream_says_what_it_takes(world):
    """XEP-0478 2: bytes of a stanza before and after the login, and seconds of silence where they end a stream."""
    if world.server.driver == "prosody":
        pytest.skip("not built into this Prosody")
    limits = re.compile("<limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>([0-9]+)</max-bytes>"
                        "(?:<idle-seconds>([0-9]+)</idle-seconds>)?</limits>")
    raw = Raw(world)
    await raw.open()
    before, _ = limits.search(raw.features).groups()
    assert 1_000 <= int(before) <= 65_536
    raw.send(plain(world.server.fresh()))
    await raw.until("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>")
    raw.send(HEADER)
    after, idle = limits.search(await raw.until("</stream:features>")).groups()
    assert (int(after), int(idle)) == (262_144, 600)
    raw.close()
