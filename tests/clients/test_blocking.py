"""Blocking command (XEP-0191): to a blocked address a user looks as if away.
`kind` is the client of who blocks (Juliet), another client is blocked (Romeo)."""


import pytest

from actors import other
from events import BlockPush, Call, LoginFailed, StanzaError
from servers import DOMAIN, Account
from world import befriend

pytestmark = pytest.mark.needs("blocking")

FEATURE = "urn:xmpp:blocking"


async def friends(world, kind):
    """Two who see each other: who blocks, and who is blocked."""
    return await world.friends(kind, other(kind))


async def refused(sender, to, body="are you there?"):
    """A message fails as it does to an unknown user."""
    since = sender.log.mark()
    sender.send_message(to, body)
    error = await sender.wait_error(to, since)
    assert (error.error, error.app) == ("service-unavailable", None)


async def test_the_server_advertises_blocking(world, kind):
    """XEP-0191 3.1."""
    actor = await world.bound(kind)
    _, features = await actor.disco_info(DOMAIN)
    assert FEATURE in features


async def test_the_list_is_what_was_blocked(world, kind):
    """XEP-0191 3.2 to 3.5: several at once, in the form of JIDs, each once."""
    juliet = await world.online(kind)
    assert await juliet.blocklist() == set()
    await juliet.block(f"romeo@{DOMAIN}", "montague.example")
    await juliet.block(f"Romeo@{DOMAIN}", f"tybalt@{DOMAIN}/sword")
    everybody = {f"romeo@{DOMAIN}", "montague.example", f"tybalt@{DOMAIN}/sword"}
    assert await juliet.blocklist() == everybody
    await juliet.unblock(f"romeo@{DOMAIN}", f"nobody@{DOMAIN}")
    assert await juliet.blocklist() == everybody - {f"romeo@{DOMAIN}"}
    await juliet.unblock()
    assert await juliet.blocklist() == set()


async def test_what_is_no_request_is_refused(world, kind):
    """XEP-0191 3.3: an empty request, an address that is none."""
    juliet = await world.online(kind)
    with pytest.raises(StanzaError, match="bad-request"):
        await juliet.block()
    if kind != "slixmpp":  # it knows itself that this is none
        with pytest.raises(StanzaError, match="jid-malformed"):
            await juliet.block(f"romeo@{DOMAIN}", "@")
    assert await juliet.blocklist() == set()


async def test_blocked_and_unblocked(world, kind):
    """XEP-0191 3.3, 3.4: the contact sees the user leave, reaches nobody, and
    sees and hears nothing; then everything is as it was."""
    world.departs("answers no message to a full JID")
    juliet, romeo = await friends(world, kind)
    since, since_juliet = romeo.log.mark(), juliet.log.mark()
    await juliet.block(romeo.bare)
    await romeo.wait_presence(juliet.jid, "unavailable", since=since)
    await refused(romeo, juliet.bare)
    await refused(romeo, juliet.jid)
    for to in (juliet.jid, juliet.bare):
        with pytest.raises(StanzaError, match="service-unavailable"):
            await romeo.version(to)
    romeo.send_presence(show="away")
    romeo.send_presence(to=juliet.jid, show="chat")
    romeo.send_presence(to=juliet.bare, type="subscribe")
    romeo.send_presence(to=juliet.bare, type="probe")
    romeo.send_state(juliet.jid)
    juliet.send_presence(show="dnd")
    juliet.send_message(romeo.jid, "I blocked you")
    error = await juliet.wait_error(romeo.jid)
    assert (error.error, error.app) == ("not-acceptable", "blocked")
    with pytest.raises(StanzaError, match="not-acceptable"):
        await juliet.ping(romeo.jid)
    third = await world.online(other(kind))
    await romeo.settle(third)
    await juliet.settle(third)
    assert romeo.presences(juliet.bare, since) == ["unavailable"]
    assert romeo.bodies(since) == [b for b in romeo.bodies(since) if b.startswith("marker")]
    assert juliet.presences(romeo.bare, since_juliet) == []
    assert juliet.states(since_juliet) == []
    # The subscription is what it was.
    assert (await juliet.roster())[romeo.bare].subscription == "both"
    assert (await romeo.roster())[juliet.bare].subscription == "both"
    since, since_juliet = romeo.log.mark(), juliet.log.mark()
    await juliet.unblock(romeo.bare)
    await romeo.wait_presence(juliet.jid, show="dnd", since=since)
    romeo.send_message(juliet.bare, "there you are")
    await juliet.wait_message("there you are", sender=romeo.jid)
    juliet.send_message(romeo.jid, "here I am")
    await romeo.wait_message("here I am", sender=juliet.jid)
    await romeo.ping(juliet.jid)
    assert romeo.presences(juliet.bare, since) == ["available"], "once"


async def test_unblocked_they_see_each_other_as_they_are(world, kind):
    """XEP-0191 3.4: what changed meanwhile the user sees, too, though the
    contact's server has no reason to say it again; also in a session that began
    while the contact was blocked."""
    world.departs("asks for nobody's presence then")
    juliet, romeo = await friends(world, kind)
    await juliet.block(romeo.bare)
    romeo.send_presence(show="xa")
    phone = await world.online(kind, account=juliet.account, resource="phone")
    third = await world.online(other(kind))
    await juliet.settle(third)
    await phone.settle(third)
    assert phone.presences(romeo.bare) == []
    since, since_juliet = romeo.log.mark(), juliet.log.mark()
    await juliet.unblock()
    for device in (juliet, phone):
        await romeo.wait_presence(device.jid, since=since)
    await juliet.wait_presence(romeo.jid, show="xa", since=since_juliet)
    await phone.wait_presence(romeo.jid, show="xa")


async def test_a_contact_that_was_blocked_does_not_see_her_come_and_go(world, kind):
    """XEP-0191 3.3: also of sessions that begin and end later."""
    world.departs("answers presence with errors")
    juliet, romeo = await friends(world, kind)
    since = romeo.log.mark()
    await juliet.block(romeo.bare)
    await romeo.wait_presence(juliet.jid, "unavailable", since=since)
    since = romeo.log.mark()
    second = await world.online(kind, account=juliet.account, resource="second")
    second.send_presence(show="away")
    await second.close()
    await juliet.close()
    juliet = await world.online(kind, account=juliet.account, resource="third")
    third = await world.online(other(kind))
    await romeo.settle(third)
    assert romeo.presences(juliet.bare, since) == []
    # The other way it is the same: he comes online and learns nothing.
    again = await world.online(other(kind), account=romeo.account, resource="second")
    await again.settle(third)
    assert again.presences(juliet.bare) == []
    await juliet.settle(third)
    assert juliet.presences(romeo.bare) == []


async def test_nothing_waits_for_who_blocks_while_away(world, kind):
    """XEP-0191 3.3: the block applies without a session; what was refused is
    not delivered later, not even when it is unblocked."""
    juliet, romeo = await friends(world, kind)
    await juliet.block(romeo.bare)
    await juliet.close()
    for n in range(3):
        await refused(romeo, juliet.bare, f"letter {n}")
    third = await world.online(other(kind))
    third.send_message(juliet.bare, "from somebody else")
    await third.ping()
    juliet = await world.online(kind, account=juliet.account, resource="again")
    await juliet.wait_message("from somebody else")
    assert await juliet.blocklist() == {romeo.bare}
    await juliet.unblock(romeo.bare)
    await juliet.settle(romeo)
    letters = [body for body in juliet.bodies() if not body.startswith("marker")]
    assert letters == ["from somebody else"]
    assert juliet.log.of(BlockPush) == [BlockPush("unblock", frozenset({romeo.bare}))]


async def test_what_waits_from_who_is_blocked_now_is_not_delivered(world, kind):
    """XEP-0191 3.3: "once the user has blocked communications with a JID, the
    user's server MUST NOT deliver any XML stanzas from the JID to the user"."""
    world.departs("delivers it")
    romeo, third = await world.online(other(kind)), await world.online(other(kind))
    account = world.server.fresh()
    for n in range(3):
        romeo.send_message(account.jid, f"from Romeo {n}")
        await romeo.ping()
        third.send_message(account.jid, f"from somebody else {n}")
        await third.ping()
    juliet = await world.bound(kind, account=account)
    await juliet.block(romeo.bare)
    await juliet.online()
    await juliet.settle(third)
    letters = [body for body in juliet.bodies() if not body.startswith("marker")]
    assert letters == [f"from somebody else {n}" for n in range(3)]
    # And they do not come with the next session.
    await juliet.unblock()
    await juliet.close()
    juliet = await world.online(kind, account=account)
    await juliet.settle(third)
    assert [body for body in juliet.bodies() if not body.startswith("marker")] == []


async def test_a_request_of_who_is_blocked_is_not_shown_again(world, kind):
    """XEP-0191 3.3: no presence of a blocked JID, neither one that is sent now
    nor a request that was not answered (RFC 6121 3.1.3)."""
    romeo = await world.online(other(kind))
    juliet = await world.online(kind)
    third = await world.online(other(kind))
    romeo.send_presence(to=juliet.bare, type="subscribe")
    await juliet.wait_presence(romeo.bare, "subscribe")
    await juliet.block(romeo.bare)
    await juliet.close()
    juliet = await world.online(kind, account=juliet.account)
    await juliet.settle(third)
    assert juliet.presences(romeo.bare) == []


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_the_list_outlives_the_server(restarted_world, kind, how):
    """XEP-0191 3.3: "the duration of the block is potentially unlimited and
    applies across sessions", hence over a restart, also one that nobody ordered:
    while the user is away, and after the user has come back."""
    world = restarted_world
    juliet, romeo = await friends(world, kind)
    await juliet.block(romeo.bare, "montague.example")
    await romeo.wait_presence(juliet.jid, "unavailable")
    juliet.hold()
    romeo.hold()
    world.server.restart(kill=how == "kill")
    romeo = await world.online(other(kind), account=romeo.account)
    await refused(romeo, juliet.bare)
    since = romeo.log.mark()
    juliet = await world.online(kind, account=juliet.account)
    await refused(romeo, juliet.bare)
    assert "available" not in romeo.presences(juliet.bare, since)
    assert juliet.presences(romeo.bare) == []
    assert await juliet.blocklist() == {romeo.bare, "montague.example"}
    await juliet.unblock(romeo.bare)
    await romeo.wait_presence(juliet.jid, since=since)
    await juliet.settle(romeo)
    # What was taken off the list stays so, too.
    juliet.hold()
    romeo.hold()
    world.server.restart(kill=how == "kill")
    juliet = await world.online(kind, account=juliet.account)
    romeo = await world.online(other(kind), account=romeo.account)
    assert await juliet.blocklist() == {"montague.example"}
    await juliet.settle(romeo)


async def test_devices_share_the_list_and_hear_of_it_when_they_have_asked(world, kind):
    """XEP-0191 3.3 to 3.5: a device that comes later sees the same list, and
    is told of changes once it has asked for it."""
    desk = await world.online(kind, resource="desk")
    romeo = await world.online(other(kind))
    assert await desk.blocklist() == set()
    await desk.block(romeo.bare)
    await desk.wait_block_push("block", romeo.bare)
    phone = await world.online(kind, account=desk.account, resource="phone")
    quiet = await world.online(kind, account=desk.account, resource="quiet")
    await desk.block("montague.example")
    await desk.wait_block_push("block", "montague.example")
    await phone.ping()
    assert phone.log.of(BlockPush) == [], "it has not asked yet"
    assert await phone.blocklist() == {romeo.bare, "montague.example"}
    await phone.unblock(romeo.bare)
    await phone.block("capulet.example")
    await desk.unblock()
    for device in (desk, phone):
        await device.wait_block_push("unblock", romeo.bare)
        await device.wait_block_push("block", "capulet.example")
        await device.wait_block_push("unblock")
    await quiet.ping()
    assert quiet.log.of(BlockPush) == []
    assert await quiet.blocklist() == set()
    assert [push.verb for push in phone.log.of(BlockPush)] == ["unblock", "block", "unblock"]


async def test_a_resource_or_a_domain_can_be_blocked(world, kind):
    """XEP-0191 5: a full JID is that resource alone, a domain all at it; the
    user's own devices reach each other whatever is blocked (4)."""
    world.departs("blocks the user's own devices with their domain")
    juliet = await world.online(kind)
    phone = await world.online(kind, account=juliet.account, resource="phone")
    romeo = await world.online(other(kind))
    second = await world.online(other(kind), account=romeo.account, resource="second")
    await juliet.block(romeo.jid)
    await refused(romeo, juliet.bare)
    second.send_message(juliet.jid, "from the second")
    await juliet.wait_message("from the second")
    await juliet.block(DOMAIN)
    await refused(second, juliet.bare)
    phone.send_message(juliet.jid, "from the phone")
    await juliet.wait_message("from the phone")
    juliet.send_message(phone.jid, "from the desk")
    await phone.wait_message("from the desk")
    juliet.send_message(romeo.bare, "not to him")
    assert (await juliet.wait_error(romeo.bare)).app == "blocked"
    await phone.unblock(DOMAIN, romeo.jid)
    romeo.send_message(juliet.bare, "back again")
    await juliet.wait_message("back again")


async def test_directed_presence_is_taken_back(world, kind):
    """XEP-0191 3.3: who is no contact but was shown presence sees it go."""
    juliet, romeo = await world.online(kind), await world.online(other(kind))
    world.departs("tells contacts only")
    juliet.send_presence(to=romeo.jid, show="chat")
    await romeo.wait_presence(juliet.jid, show="chat")
    since = romeo.log.mark()
    await juliet.block(romeo.bare)
    await romeo.wait_presence(juliet.jid, "unavailable", since=since)


async def test_no_list_is_left_for_the_next_owner_of_the_name(world, kind):
    """XEP-0077 14, XEP-0191 3.3: who gets the name of a removed account gets
    no list with it, neither by registration nor from the operator."""
    if world.server.driver == "prosody":
        pytest.skip("the heir is made by Throng's command")
    juliet, romeo = await friends(world, kind)
    await juliet.block(romeo.bare)
    juliet.hold()
    await juliet.remove_account()
    await refused(romeo, juliet.bare)
    with pytest.raises(LoginFailed):
        await world.make(kind, juliet.account).connect()
    heir = world.make(kind, Account(juliet.account.name, "another password"))
    if "register" in heir.capabilities:
        await heir.connect(register=True)
    else:
        world.server.add_account(heir.account)
        await heir.connect()
    assert await heir.blocklist() == set()
    await heir.online()
    await heir.settle(romeo)
    await befriend(heir, romeo)
    await romeo.settle(heir)


@pytest.mark.needs("carbons")
async def test_copies_and_blocks(world, kind):
    """XEP-0191 3.3, XEP-0280 8: what is refused is copied to nobody."""
    desk, phone = await world.devices(kind, "desk", "phone")
    await phone.carbons()
    romeo, third = await world.online(other(kind)), await world.online(other(kind))
    await desk.block(romeo.bare)
    await refused(romeo, desk.bare)
    desk.send_message(romeo.bare, "I blocked you")
    assert (await desk.wait_error(romeo.bare)).app == "blocked"
    await phone.settle(third)
    assert phone.copies() == []


@pytest.mark.needs("archive")
async def test_what_is_refused_is_in_no_archive(world, kind):
    """XEP-0191 3.3, XEP-0313 6.1: neither in that of who blocks nor in that of who has sent it, both ways; nor does it come when
    nothing is blocked any more."""
    world.departs("keeps what it refuses in the sender's archive")
    juliet, romeo = await friends(world, kind)
    romeo.send_message(juliet.bare, "before")
    await juliet.wait_message("before", sender=romeo.jid)
    await juliet.block(romeo.bare)
    await refused(romeo, juliet.bare, "to her")
    await refused(romeo, juliet.jid, "to this device")
    for to in (romeo.bare, romeo.jid):
        juliet.send_message(to, "to him")
        assert (await juliet.wait_error(to)).app == "blocked"
    await juliet.unblock(romeo.bare)
    romeo.send_message(juliet.bare, "after")
    await juliet.wait_message("after", sender=romeo.jid)
    for actor in (juliet, romeo):
        page, complete = await actor.archive()
        assert complete and [(m.sender, m.body) for m in page] == [(romeo.jid, "before"), (romeo.jid, "after")]
    assert juliet.bodies() == ["before", "after"] and romeo.bodies() == []


async def test_requests_are_refused_both_ways(world, kind):
    """XEP-0191 3.3: to a full JID and to the bare one, whatever they ask for."""
    juliet, romeo = await friends(world, kind)
    await juliet.block(romeo.bare)
    with pytest.raises(StanzaError, match="service-unavailable"):
        await romeo.call(juliet.jid, "a", "02")
    with pytest.raises(StanzaError, match="not-acceptable"):
        await juliet.call(romeo.jid, "b", "02")
    for asks, of, condition in ((romeo, juliet, "service-unavailable"), (juliet, romeo, "not-acceptable")):
        with pytest.raises(StanzaError, match=condition):
            await asks.vcard(of.bare)
        with pytest.raises(StanzaError, match=condition):
            await asks.disco_info(of.bare)
    await juliet.unblock(romeo.bare)
    await romeo.call(juliet.jid, "c", "02")
    assert [event.sid for event in juliet.log.events + romeo.log.events if isinstance(event, Call)] == ["c"]


async def test_a_blocked_contact_can_be_removed(world, kind):
    """XEP-0191 7, RFC 6121 2.5: blocking is no matter of the roster."""
    juliet, romeo = await friends(world, kind)
    await juliet.block(romeo.bare)
    await juliet.roster_remove(romeo.bare)
    await juliet.wait_push(romeo.bare, "remove")
    assert await juliet.roster() == {}
    assert await juliet.blocklist() == {romeo.bare}


async def test_a_report_goes_to_the_operator(world, kind):
    """XEP-0377 2 and 4: the address is blocked, and the log says why, in one line whatever the text holds."""
    if world.server.driver == "prosody":
        pytest.skip("Throng's own")
    juliet = await world.online(kind)
    _, features = await juliet.disco_info(DOMAIN)
    assert "urn:xmpp:reporting:1" in features
    spammer, text = f"tybalt@{DOMAIN}", 'Never came "trouble"\nto my house like this.'
    await juliet.block_and_report(spammer, "urn:xmpp:reporting:spam", text, ["28482", "38383"])
    assert await juliet.blocklist() == {spammer}
    log = await world.server.logged(" report ", f'account="{juliet.bare}"')
    lines = [line for line in log.splitlines() if f'account="{juliet.bare}"' in line and " report " in line]
    assert len(lines) == 1
    for field in (f'of="{spammer}"', 'reason="urn:xmpp:reporting:spam"', 'messages="28482 38383"', "trouble", "to my house"):
        assert field in lines[0], lines[0]
