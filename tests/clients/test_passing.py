"""What passes through the server from client to client: what is said about messages, and calls. `kind` is the client of one side,
another client is the other side."""

import pytest

from actors import other
from events import Call, StanzaError


@pytest.mark.needs("carbons")
@pytest.mark.needs("archive")
async def test_what_is_said_about_a_message_is_live_copied_and_archived(world, kind):
    """Receipts (XEP-0184 7), markers (XEP-0333 4.2), corrections (XEP-0308 3), replies (XEP-0461 3) and reactions (XEP-0444 3.1), as
    each client writes them, of type "normal" without a body, too: the other side gets them, all devices get a copy (XEP-0280 6.1),
    and both archives have each once, in order (XEP-0313 6.1.1)."""
    world.departs("copies no reactions of type normal")
    desk, phone = await world.devices(kind, "desk", "phone")
    peer, second = await world.devices(other(kind), "peer", "second")
    for device in (phone, second):
        await device.carbons()
    desk.send_message(peer.jid, "Wilt thou be gon?", id="m1")
    await peer.wait_message("Wilt thou be gon?", sender=desk.jid)
    peer.send_message(desk.jid, "It is not yet near day", id="m2")
    await desk.wait_message("It is not yet near day", sender=peer.jid)
    said = []
    for one, two, of in ((desk, peer, "m2"), (peer, desk, "m1")):
        for name, body in (("received", None), ("displayed", None), ("replace", "better"), ("reply", "so it is"), ("reactions", None)):
            one.send_about(two.jid, name, of, body)
            seen = await two.wait_about(name, of)
            assert (seen.sender, seen.type) == (one.jid, "chat" if body else "normal")
            for device in (phone, second):
                copy = await device.wait_about(name, of, copied=True)
                assert (copy.message.sender, copy.to) == (one.jid, two.jid)
                assert copy.way == ("sent" if one.bare == device.bare else "received")
            said.append((one.jid, (name, of)))
    for device in (phone, second):
        page, complete = await device.archive()
        assert complete and [(m.sender, m.about) for m in page[2:]] == said


@pytest.mark.needs("carbons")
async def test_a_call_is_offered_from_one_full_jid_to_another(world, kind):
    """XEP-0166 6.2, RFC 6121 8.5.3.1: the offer comes as it was made, to that device alone, and its acknowledgement goes back; to one
    that is not there it is refused."""
    caller = await world.online(kind)
    desk, phone = await world.devices(other(kind), "desk", "phone")
    await caller.call(desk.jid, "a73sjjvkla37jfea", "02:1A:CC:54")
    offer = await desk.wait_call("a73sjjvkla37jfea")
    assert (offer.sender, offer.action, offer.fingerprint) == (caller.jid, "session-initiate", "02:1A:CC:54")
    await desk.call(caller.jid, "b84", "54:CC:1A:02")
    assert (await caller.wait_call("b84")).fingerprint == "54:CC:1A:02"
    await phone.settle(caller)
    assert phone.log.of(Call) == []
    for nobody in (f"{desk.bare}/tomb", desk.bare):
        with pytest.raises(StanzaError, match="service-unavailable"):
            await caller.call(nobody, "c95", "02")
