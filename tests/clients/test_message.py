"""Messages both ways, offline messages, and the errors for those that cannot go."""

from datetime import datetime, timedelta, timezone

import pytest

from events import StanzaError
from servers import DOMAIN
from world import befriend


async def test_messages_both_ways(world, kind):
    """RFC 6121 5, 8.5.3.1: to a full JID and to a bare JID, text kept as it is."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    for body in ("wherefore", "<&>\"' \t 🎭 ünïcödé ]]>", "x" * 5000):
        romeo.send_message(juliet.jid, body)
        assert (await juliet.wait_message(body)).sender == romeo.jid
        juliet.send_message(romeo.bare, body)
        assert (await romeo.wait_message(body)).sender == juliet.jid


async def test_order_and_ids_are_kept(world, kind):
    """RFC 6120 10.1: in-order processing; RFC 6120 8.1.3: the id travels."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    for n in range(50):
        romeo.send_message(juliet.bare if n % 2 else juliet.jid, f"line {n}", id=f"id-{n}")
    await juliet.wait_message("line 49")
    assert juliet.bodies() == [f"line {n}" for n in range(50)]
    assert (await juliet.wait_message("line 7")).id == "id-7"


async def test_types_of_message(world, kind):
    """RFC 6121 5.2.2: "normal" and "headline" reach an available resource."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    for type in ("normal", "headline"):
        romeo.send_message(juliet.bare, f"a {type}", type=type)
        assert (await juliet.wait_message(f"a {type}")).type == type


async def test_offline_messages_in_order_with_delay(world, kind):
    """RFC 6121 8.5.2.2, XEP-0160, XEP-0203: stored, delivered once, in order, stamped."""
    romeo = await world.online(kind)
    account = world.server.fresh()
    began = datetime.now(timezone.utc) - timedelta(seconds=2)
    for n in range(10):
        romeo.send_message(account.jid, f"letter {n}", type="normal" if n % 2 else "chat")
    await romeo.ping()
    juliet = await world.online(kind, account=account)
    await juliet.wait_message("letter 9")
    await juliet.settle(romeo)
    letters = [b for b in juliet.bodies() if b.startswith("letter")]
    assert letters == [f"letter {n}" for n in range(10)]
    stamps = []
    for n in range(10):
        letter = await juliet.wait_message(f"letter {n}")
        assert letter.sender == romeo.jid
        assert letter.delay, "no delay stamp"
        stamps.append(datetime.fromisoformat(letter.delay.replace("Z", "+00:00")))
    assert stamps == sorted(stamps)
    assert began <= stamps[0] and stamps[-1] <= datetime.now(timezone.utc) + timedelta(seconds=2)
    # Delivered means gone: the next session does not get them again.
    await juliet.close()
    again = await world.online(kind, account=account, resource="second")
    await again.settle(romeo)
    assert [b for b in again.bodies() if b.startswith("letter")] == []


async def test_a_live_message_has_no_delay(world, kind):
    """XEP-0203 2: the stamp is for delayed delivery only."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    romeo.send_message(juliet.bare, "now")
    assert (await juliet.wait_message("now")).delay is None


async def test_message_to_an_unknown_user(world, kind):
    """RFC 6121 8.5.1: <service-unavailable/> for an account that does not exist."""
    romeo = await world.online(kind)
    for type in ("chat", "normal"):
        since = romeo.log.mark()
        nobody = f"nobody-at-all@{DOMAIN}"
        romeo.send_message(nobody, "anyone?", type=type)
        assert (await romeo.wait_error(nobody, since)).error == "service-unavailable"


async def test_iq_to_an_unknown_user(world, kind):
    """RFC 6121 8.5.1: an IQ to an account that does not exist fails the same way."""
    romeo = await world.online(kind)
    with pytest.raises(StanzaError) as failure:
        await romeo.version(f"nobody-at-all@{DOMAIN}")
    assert failure.value.condition == "service-unavailable"


async def test_iq_to_an_absent_resource(world, kind):
    """RFC 6121 8.5.3.2.3: an IQ to a resource that is not there fails."""
    romeo, juliet = await world.friends(kind)
    with pytest.raises(StanzaError) as failure:
        await romeo.ping(f"{juliet.bare}/not-there")
    assert failure.value.condition == "service-unavailable"


async def test_message_to_a_remote_domain(world, kind):
    """RFC 6120 10.4: without federation a remote domain cannot be found."""
    romeo = await world.online(kind)
    since = romeo.log.mark()
    romeo.send_message("someone@elsewhere.invalid", "hello?")
    error = await romeo.wait_error("someone@elsewhere.invalid", since)
    # Prosody without its federation module says "not-allowed".
    expected = "not-allowed" if world.server.driver == "prosody" else "remote-server-not-found"
    assert error.error == expected


async def test_iq_between_clients(world, kind):
    """RFC 6121 8.5.3.1: an IQ to a full JID goes to that client and its answer back."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    await befriend(romeo, juliet)
    await romeo.ping(juliet.jid)
    await juliet.ping(romeo.jid)
