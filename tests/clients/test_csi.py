"""Client state indication (XEP-0352): a client that nobody looks at is sent
what matters. `kind` is the client that says so, another client the contact."""

import pytest

from actors import other
from events import Copy, Message, Presence
from test_resume import BREAKS, break_off
from world import befriend

pytestmark = pytest.mark.needs("csi")


async def contact_and_devices(world, kind, *, proxy=None):
    """A contact, and two devices of one user; the second is to be inactive."""
    contact = await world.online(other(kind))
    desk = await world.online(kind, resource="desk")
    await befriend(contact, desk)
    phone = await world.online(kind, account=desk.account, resource="phone", proxy=proxy)
    await phone.wait_presence(contact.jid)
    await contact.wait_presence(phone.jid)
    await phone.settle(contact)
    return contact, desk, phone


def seen(actor, since):
    """What came, in its order: presence as its show, messages and copies as
    their text."""
    text = {
        Presence: lambda e: e.show or e.type,
        Message: lambda e: e.state or e.body,
        Copy: lambda e: (e.way, e.message.state or e.message.body),
    }
    return [text[type(e)](e) for e in actor.log.events[since:] if type(e) in text]


async def test_the_server_offers_client_states(world, kind):
    """XEP-0352 4.1: `client_state` looks at the stream features."""
    actor = await world.online(kind)
    actor.client_state(False)
    await actor.ping()
    actor.client_state(True)
    await actor.ping()


async def change(contact, desk, *shows):
    """The contact's presence changes; when it has, the home of the two devices
    has heard of it."""
    for show in shows:
        since = desk.log.mark()
        contact.send_presence(show=show)
        await desk.wait_presence(contact.jid, show=show, since=since)


def own_policy(world):
    """XEP-0352 3.2: what a server does with the state is its own matter."""
    world.departs("holds back nearly everything, and then sends all of it")


async def test_presence_waits_and_goes_before_the_next_message(world, kind):
    """XEP-0352 3.2: of each contact the latest, in front of what matters
    (RFC 6120 10.1); chat states are dropped. The contact sees nothing of it (6)."""
    own_policy(world)
    contact, desk, phone = await contact_and_devices(world, kind)
    since, since_contact = phone.log.mark(), contact.log.mark()
    phone.client_state(False)
    await phone.ping()
    for show in ("away", "xa", "dnd"):
        contact.send_presence(show=show)
    contact.send_state(phone.jid, "composing")
    contact.send_state(phone.jid, "paused")
    contact.send_message(phone.jid, "this matters")
    await phone.wait_message("this matters")
    assert seen(phone, since) == ["dnd", "this matters"]
    await desk.wait_presence(contact.jid, show="dnd")
    assert seen(desk, 0)[-3:] == ["away", "xa", "dnd"], "the other device is active"
    # It is still inactive.
    contact.send_presence(show="chat")
    contact.send_message(phone.bare, "this, too")
    await phone.wait_message("this, too")
    assert seen(phone, since) == ["dnd", "this matters", "chat", "this, too"]
    await contact.settle(desk)
    assert contact.presences(phone.bare, since_contact) == []


async def test_active_again_it_gets_what_waited_before_the_next_answer(world, kind):
    """XEP-0352 5.1."""
    own_policy(world)
    contact, desk, phone = await contact_and_devices(world, kind)
    phone.client_state(False)
    await phone.ping()
    since = phone.log.mark()
    await change(contact, desk, "away", "dnd")
    phone.client_state(True)
    await phone.ping()
    assert seen(phone, since) == ["dnd"]
    # Active means active.
    contact.send_presence(show="xa")
    await phone.wait_presence(contact.jid, show="xa")
    contact.send_state(phone.jid, "composing")
    await phone.settle(contact)
    assert phone.states() == ["composing"]


async def test_with_an_answer_goes_what_waited(world, kind):
    """XEP-0352 3.2: for what a client asks, it is awake."""
    own_policy(world)
    contact, desk, phone = await contact_and_devices(world, kind)
    phone.client_state(False)
    await phone.ping()
    since = phone.log.mark()
    await change(contact, desk, "away", "dnd")
    await phone.ping()
    assert seen(phone, since) == ["dnd"]
    await change(contact, desk, "away", "xa")
    await phone.ping()
    assert seen(phone, since) == ["dnd", "xa"], "it is inactive as before"


async def test_requests_come_at_once(world, kind):
    """XEP-0352 3.2: what somebody waits for is no matter for later: a
    subscription request, and a request of another client."""
    contact, desk, phone = await contact_and_devices(world, kind)
    stranger = await world.online(other(kind))
    phone.client_state(False)
    await phone.ping()
    since = phone.log.mark()
    stranger.send_presence(to=phone.bare, type="subscribe")
    await phone.wait_presence(stranger.bare, "subscribe", since=since)
    await contact.ping(phone.jid)
    await phone.roster_set(f"somebody@{phone.bare.split('@')[1]}", name="Somebody")
    await phone.wait_push(f"somebody@{phone.bare.split('@')[1]}", "none", since=since)


async def test_the_state_has_nothing_to_do_with_presence(world, kind):
    """XEP-0352 5: an inactive client is as available as it says, and a new
    stream is active."""
    contact, desk, phone = await contact_and_devices(world, kind)
    since = contact.log.mark()
    phone.client_state(False)
    phone.send_presence(show="dnd")
    await contact.wait_presence(phone.jid, show="dnd", since=since)
    await phone.close()
    await contact.wait_presence(phone.jid, "unavailable", since=since)
    phone = await world.online(kind, account=desk.account, resource="phone")
    await phone.wait_presence(contact.jid)
    contact.send_presence(show="away")
    await phone.wait_presence(contact.jid, show="away")


@pytest.mark.parametrize("how", BREAKS)
async def test_a_resumed_stream_is_active(world, kind, how):
    """XEP-0352 5.2: what was kept comes with the resumption, once, and what
    comes later at once."""
    own_policy(world)
    proxy = await world.proxy()
    contact, desk, phone = await contact_and_devices(world, kind, proxy=proxy)
    phone.client_state(False)
    await phone.ping()
    since, since_contact = phone.log.mark(), contact.log.mark()
    await change(contact, desk, "away")
    break_off(phone, proxy, how)
    await change(contact, desk, "xa")
    contact.send_message(phone.bare, "meanwhile")
    await desk.wait_message("meanwhile")
    await change(contact, desk, "dnd")
    assert await phone.resume() is True
    await phone.wait_presence(contact.jid, show="dnd", since=since)
    assert seen(phone, since) == ["xa", "meanwhile", "dnd"]
    contact.send_presence(show="chat")
    await phone.wait_presence(contact.jid, show="chat", since=since)
    # And it can be inactive again.
    phone.client_state(False)
    await phone.ping()
    since = phone.log.mark()
    for show in ("away", "xa"):
        contact.send_presence(show=show)
    contact.send_message(phone.jid, "after it")
    await phone.wait_message("after it")
    assert seen(phone, since) == ["xa", "after it"]
    await contact.settle(desk)
    assert contact.presences(phone.bare, since_contact) == []


@pytest.mark.needs("carbons")
async def test_copies_of_messages_matter_and_copies_of_chat_states_do_not(world, kind):
    """XEP-0352 3.2, XEP-0280 10.2: an inactive phone follows a conversation
    at the desk, and sleeps while somebody types."""
    own_policy(world)
    contact, desk, phone = await contact_and_devices(world, kind)
    await phone.carbons()
    phone.client_state(False)
    await phone.ping()
    since = phone.log.mark()
    contact.send_presence(show="away")
    contact.send_state(desk.jid, "composing")
    contact.send_message(desk.jid, "a question")
    await phone.wait_copy("a question", way="received")
    desk.send_state(contact.jid, "composing")
    desk.send_message(contact.jid, "an answer")
    await phone.wait_copy("an answer", way="sent")
    assert seen(phone, since) == ["away", ("received", "a question"), ("sent", "an answer")]
    phone.client_state(True)
    await phone.ping()
    contact.send_state(desk.jid, "composing")
    await phone.settle(contact)
    assert seen(phone, since)[3] == ("received", "composing"), "to an active client they go"


async def test_messages_that_waited_go_to_an_inactive_client(world, kind):
    """XEP-0352 3.2: nothing is lost that somebody has written."""
    contact = await world.online(other(kind))
    account = world.server.fresh()
    contact.send_message(account.jid, "while you were away")
    await contact.ping()
    phone = await world.bound(kind, account=account)
    phone.client_state(False)
    await phone.online()
    await phone.wait_message("while you were away")
