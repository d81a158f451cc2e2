"""Stream management (XEP-0198) as real clients use it: a broken connection
loses nothing and repeats nothing."""

import pytest

from world import befriend

BREAKS = ["client", "cut", "strand"]


def break_off(actor, proxy, how):
    """Break the connection: the client aborts its transport, both sides are
    reset, or only the client's side so that the server cannot know yet."""
    actor.hold()
    if how == "client":
        actor.drop()
    elif how == "cut":
        proxy.cut()
    else:
        proxy.strand()


@pytest.mark.needs("resume")
@pytest.mark.parametrize("how", BREAKS)
async def test_resume_delivers_exactly_once(world, kind, how):
    """XEP-0198 5: what was sent meanwhile arrives once, in order, and the
    contact sees no change of presence."""
    romeo = await world.online(kind)
    proxy = await world.proxy()
    juliet = await world.online(kind, proxy=proxy)
    jid = juliet.jid
    romeo.send_message(jid, "before")
    await juliet.wait_message("before")
    break_off(juliet, proxy, how)
    for n in range(10):
        romeo.send_message(jid if n % 2 else juliet.bare, f"meanwhile {n}")
    await romeo.ping()
    assert await juliet.resume() is True
    assert juliet.jid == jid
    romeo.send_message(jid, "after")
    await juliet.wait_message("after")
    marker = await juliet.settle(romeo)
    expected = ["before", *(f"meanwhile {n}" for n in range(10)), "after", marker]
    assert juliet.bodies() == expected
    juliet.send_message(romeo.bare, "thanks")
    await romeo.wait_message("thanks", sender=jid)


@pytest.mark.needs("resume")
async def test_resume_keeps_presence(world, kind):
    """XEP-0198 5: contacts do not see a resumed session leave or come."""
    romeo = await world.online(kind)
    proxy = await world.proxy()
    juliet = await world.online(kind, proxy=proxy)
    await befriend(romeo, juliet)
    await romeo.settle(juliet)
    await juliet.settle(romeo)
    since_romeo, since_juliet = romeo.log.mark(), juliet.log.mark()
    break_off(juliet, proxy, "cut")
    romeo.send_presence(show="away", status="looking for her")
    await romeo.ping()
    assert await juliet.resume() is True
    await juliet.wait_presence(romeo.jid, show="away", since=since_juliet)
    await romeo.settle(juliet)
    await juliet.settle(romeo)
    assert romeo.presences(juliet.bare, since_romeo) == []
    assert juliet.presences(romeo.bare, since_juliet) == ["available"]


@pytest.mark.needs("resend")
async def test_what_the_client_sent_into_the_void_arrives_once(world, kind):
    """XEP-0198 5: <resumed h=''/> tells the client what to send again."""
    romeo = await world.online(kind)
    proxy = await world.proxy()
    juliet = await world.online(kind, proxy=proxy)
    juliet.send_message(romeo.jid, "heard")
    await romeo.wait_message("heard")
    proxy.mute()
    for n in range(5):
        juliet.send_message(romeo.jid, f"unheard {n}")
    await juliet.flush()
    juliet.hold()
    proxy.strand()
    assert await juliet.resume() is True
    marker = await romeo.settle(juliet)
    bodies = romeo.bodies()
    assert (bodies[0], bodies[-1]) == ("heard", marker)
    again = bodies[1:-1]
    if kind == "aioxmpp":  # 0.13.3 sends its unacknowledged stanzas in reverse
        again.sort()
    assert again == [f"unheard {n}" for n in range(5)]


@pytest.mark.needs("resume")
async def test_resume_again_and_again(world, kind):
    """XEP-0198 5: a resumed session can be resumed."""
    romeo = await world.online(kind)
    proxy = await world.proxy()
    juliet = await world.online(kind, proxy=proxy)
    expected = []
    for round, how in enumerate(["cut", "strand", "client", "cut"]):
        break_off(juliet, proxy, how)
        body = f"round {round}"
        romeo.send_message(juliet.bare, body)
        expected.append(body)
        await romeo.ping()
        assert await juliet.resume() is True
        await juliet.wait_message(body)
    expected.append(await juliet.settle(romeo))
    assert juliet.bodies() == expected


@pytest.mark.needs("resume")
@pytest.mark.parametrize("how", ["cut", "strand"])
async def test_a_new_session_gets_what_the_dead_one_did_not(world, kind, how):
    """XEP-0198 5: stanzas never acknowledged are not lost when the client
    comes back without resuming, on the same resource."""
    romeo = await world.online(kind)
    account = world.server.fresh()
    proxy = await world.proxy()
    dead = await world.online(kind, account=account, proxy=proxy)
    break_off(dead, proxy, how)
    for n in range(5):
        romeo.send_message(dead.bare, f"meanwhile {n}")
    await romeo.ping()
    juliet = await world.online(kind, account=account)
    await juliet.wait_message("meanwhile 4")
    await juliet.settle(romeo)
    received = [b for b in juliet.bodies() if b.startswith("meanwhile")]
    assert received == [f"meanwhile {n}" for n in range(5)]


@pytest.mark.needs("resume")
async def test_an_expired_session_returns_its_messages(forgetful_world, kind):
    """XEP-0198 5, RFC 6121 4.5.2: when the time to resume has run out, contacts
    see the session leave, and what it did not acknowledge waits for the next."""
    world = forgetful_world
    romeo = await world.online(kind)
    account = world.server.fresh()
    proxy = await world.proxy()
    juliet = await world.online(kind, account=account, proxy=proxy)
    await befriend(romeo, juliet)
    since = romeo.log.mark()
    break_off(juliet, proxy, "cut")
    for n in range(5):
        romeo.send_message(juliet.jid if n % 2 else juliet.bare, f"meanwhile {n}")
    await romeo.wait_presence(juliet.jid, "unavailable", since=since)
    romeo.send_message(juliet.bare, "afterwards")
    await romeo.ping()
    again = await world.online(kind, account=account, resource="second")
    await again.wait_message("afterwards")
    await again.settle(romeo)
    letters = [b for b in again.bodies() if not b.startswith("marker")]
    assert letters == [*(f"meanwhile {n}" for n in range(5)), "afterwards"]
    for letter in letters:
        assert (await again.wait_message(letter)).delay, "it has waited"
    if kind == "slixmpp":  # the others' libraries do not say what became of it
        assert await juliet.resume() is False


async def test_an_unknown_stream_falls_back_to_binding(world):
    """XEP-0198 5: <failed/> with <item-not-found/>, then a new session on the
    same stream."""
    romeo = await world.online("slixmpp")
    proxy = await world.proxy()
    juliet = await world.online("slixmpp", proxy=proxy)
    break_off(juliet, proxy, "cut")
    management = juliet.client.plugin["xep_0198"]
    assert management.sm_id
    management.sm_id = "no-such-stream"
    failures = []
    juliet.client.add_event_handler("sm_failed", failures.append)
    assert await juliet.resume() is False
    (failure,) = failures
    assert "item-not-found" in str(failure)
    await juliet.online()
    romeo.send_message(juliet.bare, "still there?")
    await juliet.wait_message("still there?")
