"""Message carbons (XEP-0280): all devices of a user see both sides of all
conversations. `kind` is the client of the user, another client is the peer."""

import pytest

from actors import other
from events import Copy, Message, StanzaError
from servers import DOMAIN
from test_resume import BREAKS, break_off

pytestmark = pytest.mark.needs("carbons")


async def two_devices(world, kind, **options):
    """Two devices of one user with carbons, and a peer."""
    desk, phone = await world.devices(kind, "desk", "phone", **options)
    await desk.carbons()
    await phone.carbons()
    return desk, phone, await world.online(other(kind))


def letters(actor, since=0):
    """Bodies of messages and, with their way, of copies, in the order in which
    they came; markers left out."""
    seen = []
    for event in actor.log.events[since:]:
        if isinstance(event, Copy):
            seen.append((event.way, event.message.body))
        elif isinstance(event, Message) and event.type != "error":
            seen.append(event.body)
    text = lambda letter: (letter[1] if isinstance(letter, tuple) else letter) or ""
    return [letter for letter in seen if not text(letter).startswith("marker")]


async def test_the_server_advertises_carbons(world, kind):
    """XEP-0280 3."""
    actor = await world.bound(kind)
    _, features = await actor.disco_info(DOMAIN)
    assert "urn:xmpp:carbons:2" in features


async def test_what_one_device_sends_the_others_get_a_copy_of(world, kind):
    """XEP-0280 8: wrapped by the own bare JID, once, and not for the sender;
    the peer gets the message and sees nothing of it all."""
    desk, phone, peer = await two_devices(world, kind)
    phone.send_message(peer.bare, "from the phone", id="p1")
    copy = await desk.wait_copy("from the phone", way="sent")
    assert (copy.type, copy.to) == ("chat", peer.bare)
    assert (copy.message.sender, copy.message.type, copy.message.id) == (phone.jid, "chat", "p1")
    desk.send_message(peer.jid, "from the desk")
    assert (await phone.wait_copy("from the desk", way="sent")).to == peer.jid
    await desk.settle(peer)
    await phone.settle(peer)
    await peer.settle(desk)
    assert letters(desk) == [("sent", "from the phone")]
    assert letters(phone) == [("sent", "from the desk")]
    assert letters(peer) == ["from the phone", "from the desk"]


async def test_what_comes_for_one_device_the_others_get_a_copy_of(world, kind):
    """XEP-0280 7: of what is for a full JID. What is for the bare JID all
    devices get themselves, and no copy beside it."""
    desk, phone, peer = await two_devices(world, kind)
    peer.send_message(desk.jid, "for the desk", id="p1")
    copy = await phone.wait_copy("for the desk", way="received")
    assert (copy.type, copy.to) == ("chat", desk.jid)
    assert (copy.message.sender, copy.message.id) == (peer.jid, "p1")
    peer.send_message(desk.bare, "for both")
    peer.send_message(phone.jid, "for the phone")
    await desk.wait_copy("for the phone", way="received")
    await desk.settle(peer)
    await phone.settle(peer)
    assert letters(desk) == ["for the desk", "for both", ("received", "for the phone")]
    assert letters(phone) == [("received", "for the desk"), "for both", "for the phone"]
    assert letters(peer) == []


async def test_only_who_wants_copies_gets_them(world, kind):
    """XEP-0280 4, 5, 10.1: a device that has not enabled carbons, or has
    disabled them, gets no copies; what it sends is copied all the same. Both
    requests may be made again and again."""
    desk, phone, peer = await two_devices(world, kind)
    plain = await world.online(kind, account=desk.account, resource="plain")
    plain.send_message(peer.jid, "from the plain one")
    await desk.wait_copy("from the plain one", way="sent")
    await phone.wait_copy("from the plain one", way="sent")
    for on in (True, True, False, False):
        await phone.carbons(on)
    peer.send_message(desk.jid, "not for the phone")
    desk.send_message(peer.jid, "nor this")
    await peer.wait_message("nor this")
    for device in (desk, phone, plain):
        await device.settle(peer)
    assert letters(phone) == [("sent", "from the plain one")]
    assert letters(plain) == []
    await phone.carbons()
    peer.send_message(desk.jid, "again for the phone")
    await phone.wait_copy("again for the phone")


async def test_nobody_enables_carbons_for_somebody_else(world, kind):
    """XEP-0280 4.1."""
    desk, phone = await world.devices(kind, "desk", "phone")
    peer = await world.online(other(kind))
    with pytest.raises(StanzaError):
        await peer.carbons(to=desk.bare)
    peer.send_message(desk.jid, "for the desk")
    await desk.wait_message("for the desk")
    await phone.settle(peer)
    assert letters(phone) == []


async def test_private_messages_are_not_copied(world, kind):
    """XEP-0280 9: neither for the sender's other devices nor for the
    receiver's."""
    desk, phone, peer = await two_devices(world, kind)
    second = await world.online(other(kind), account=peer.account, resource="second")
    await second.carbons()
    desk.send_private(peer.jid, "between us")
    await peer.wait_message("between us")
    peer.send_private(desk.jid, "and us")
    await desk.wait_message("and us")
    await phone.settle(peer)
    await second.settle(desk)
    assert (letters(phone), letters(second)) == ([], [])


async def test_which_types_are_copied(world, kind):
    """XEP-0280 6.1, 10.2: chat states and "normal" messages with a body are
    instant messages, headlines are not."""
    desk, phone, peer = await two_devices(world, kind)
    peer.send_message(desk.jid, "a headline", type="headline")
    peer.send_state(desk.jid, "composing")
    peer.send_message(desk.jid, "a normal one", type="normal")
    assert (await phone.wait_copy("a normal one")).type == "normal"
    await desk.wait_message("a normal one")
    assert [copy.message.state for copy in phone.log.of(Copy)] == ["composing", None]
    assert letters(desk) == ["a headline", None, "a normal one"]


async def test_an_error_is_seen_by_all_devices(world, kind):
    """XEP-0280 6.1: the answer to a message that was copied is copied."""
    world.departs("copies no errors")
    desk, phone, _ = await two_devices(world, kind)
    nobody = f"nobody-at-all@{DOMAIN}"
    desk.send_message(nobody, "anyone?")
    await desk.wait_error(nobody)
    copy = await phone.log.wait(
        "copy of the error", lambda e: isinstance(e, Copy) and e.message.type == "error"
    )
    assert (copy.type, copy.message.sender, copy.message.error) == (
        "error", nobody, "service-unavailable"
    )


async def test_a_forged_copy_is_an_ordinary_message(world, kind):
    """XEP-0280 7, 11: it is not from the own bare JID, so a client ignores it;
    the server copies no copies."""
    desk, phone, peer = await two_devices(world, kind)
    peer.send_forged_copy(desk.jid, f"friend@{DOMAIN}", "meet me at the hall")
    await desk.settle(peer)
    await phone.settle(peer)
    for device in (desk, phone):
        assert "meet me at the hall" not in [body for _, body in device.copies()]
        assert device.bodies() == [b for b in device.bodies() if b.startswith("marker")]


async def test_a_device_of_negative_priority_gets_copies(world, kind):
    """XEP-0280 7: it does not get what is for the bare JID (RFC 6121 8.5.2.1.1),
    so it gets a copy."""
    desk, phone, peer = await two_devices(world, kind)
    phone.send_presence(priority=-1)
    await phone.ping()
    peer.send_message(desk.bare, "for the bare JID")
    await phone.wait_copy("for the bare JID", way="received")
    await desk.wait_message("for the bare JID")
    await phone.settle(peer)
    assert letters(phone) == [("received", "for the bare JID")]


@pytest.mark.parametrize("how", BREAKS)
async def test_a_resumed_session_gets_copies_once_and_in_order(world, kind, how):
    """XEP-0198 5, XEP-0280 7, 8: those that it had not acknowledged, those of
    the time without a connection, and those after it."""
    desk = await world.online(kind, resource="desk")
    proxy = await world.proxy()
    phone = await world.online(kind, account=desk.account, resource="phone", proxy=proxy)
    peer = await world.online(other(kind))
    await phone.carbons()
    expected = []

    async def converse(label):
        for n in range(5):
            body = f"{label} {n}"
            desk.send_message(peer.jid, f"{body} out")
            await peer.wait_message(f"{body} out")
            peer.send_message(desk.jid, f"{body} in")
            await desk.wait_message(f"{body} in")
            peer.send_message(desk.bare, f"{body} both")
            await desk.wait_message(f"{body} both")
            expected.extend([("sent", f"{body} out"), ("received", f"{body} in"), f"{body} both"])

    await converse("before")
    await phone.wait_message("before 4 both")
    break_off(phone, proxy, how)
    await converse("meanwhile")
    assert await phone.resume() is True
    await converse("after")
    await phone.wait_message("after 4 both")
    await phone.settle(peer)
    assert letters(phone) == expected


@pytest.mark.parametrize("how", ["mute", "cut"])
async def test_a_session_that_was_behind_gets_copies_once_and_in_order(world, kind, how):
    """XEP-0280 7, 8, where a device takes nothing for so long that what is for
    it is more than the server keeps for a connection."""
    desk = await world.online(kind, resource="desk")
    proxy = await world.proxy()
    phone = await world.online(kind, account=desk.account, resource="phone", proxy=proxy)
    peer = await world.online(other(kind))
    await phone.carbons()
    if how == "mute":
        proxy.mute()
    else:
        break_off(phone, proxy, how)
    expected = []
    for n in range(40):
        filler = "x" * 5_000
        desk.send_message(peer.jid, f"{n} out {filler}")
        await peer.wait_message(f"{n} out {filler}")
        peer.send_message(desk.jid, f"{n} in {filler}")
        await desk.wait_message(f"{n} in {filler}")
        peer.send_message(desk.bare, f"{n} both {filler}")
        await desk.wait_message(f"{n} both {filler}")
        expected += [("sent", f"{n} out"), ("received", f"{n} in"), f"{n} both"]
    if how == "mute":
        phone.hold()
        proxy.strand()
    assert await phone.resume() is True
    await phone.wait_message(f"39 both {'x' * 5_000}")
    await phone.settle(peer)
    short = lambda body: body.rsplit(" ", 1)[0]
    came = [(l[0], short(l[1])) if isinstance(l, tuple) else short(l) for l in letters(phone)]
    assert came == expected


async def test_a_new_session_asks_for_copies_anew(world, kind):
    """XEP-0280 4: they are enabled for a session, not for a user or a resource."""
    desk, phone, peer = await two_devices(world, kind)
    await phone.close()
    phone = await world.online(kind, account=desk.account, resource="phone")
    peer.send_message(desk.jid, "for the desk")
    await desk.wait_message("for the desk")
    await phone.settle(peer)
    assert letters(phone) == []


async def test_devices_talk_to_each_other(world, kind):
    """XEP-0280 7, 8: neither the one that sends nor the one that gets the
    message gets a copy of it, any other one does."""
    world.departs("copies it to the one that sends it")
    desk, phone, peer = await two_devices(world, kind)
    third = await world.online(kind, account=desk.account, resource="third")
    await third.carbons()
    desk.send_message(phone.jid, "note to the phone")
    await phone.wait_message("note to the phone")
    assert (await third.wait_copy("note to the phone")).message.sender == desk.jid
    for device in (desk, phone, third):
        await device.settle(peer)
    assert letters(desk) == []
    assert letters(phone) == ["note to the phone"]
    assert [body for _, body in letters(third)] == ["note to the phone"]
