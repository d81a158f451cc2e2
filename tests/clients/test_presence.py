"""Presence as the contacts see it."""


async def test_states_reach_the_contact(world, kind):
    """RFC 6121 4.2, 4.4, 4.5: available, away with status, back, unavailable."""
    romeo, juliet = await world.friends(kind)
    romeo.send_presence(show="away", status="on the balcony", priority=7)
    seen = await juliet.wait_presence(romeo.jid, show="away")
    assert (seen.status, seen.priority) == ("on the balcony", 7)
    for show in ("dnd", "xa", "chat"):
        romeo.send_presence(show=show)
        await juliet.wait_presence(romeo.jid, show=show)
    since = juliet.log.mark()
    romeo.send_presence()
    await juliet.wait_presence(romeo.jid, since=since)
    romeo.send_presence(type="unavailable", status="adieu")
    assert (await juliet.wait_presence(romeo.jid, "unavailable", since=since)).status == "adieu"


async def test_closing_the_stream_makes_unavailable(world, kind):
    """RFC 6121 4.5.2: the server sends it for a client that only closes."""
    romeo, juliet = await world.friends(kind)
    since = juliet.log.mark()
    await romeo.close()
    await juliet.wait_presence(romeo.jid, "unavailable", since=since)


async def test_coming_online_finds_the_contacts(world, kind):
    """RFC 6121 4.3: the probe at initial presence brings the contact's last
    presence, the one with its show and status."""
    romeo, juliet = await world.friends(kind)
    juliet.send_presence(show="dnd", status="asleep")
    await romeo.wait_presence(juliet.jid, show="dnd")
    again = await world.online(kind, account=romeo.account, resource="second")
    assert (await again.wait_presence(juliet.jid, show="dnd")).status == "asleep"
    await juliet.wait_presence(again.jid)


async def test_own_resources_see_each_other(world, kind):
    """RFC 6121 4.2.2, 4.5.2: presence goes to the user's other resources, too."""
    one = await world.online(kind)
    two = await world.online(kind, account=one.account, resource="second")
    await one.wait_presence(two.jid)
    await two.wait_presence(one.jid)
    await two.close()
    await one.wait_presence(two.jid, "unavailable")


async def test_strangers_see_nothing(world, kind):
    """RFC 6121 4.2.2: no broadcast without a subscription."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    romeo.send_presence(show="away")
    await juliet.settle(romeo)
    assert juliet.presences(romeo.bare) == []


async def test_directed_presence(world, kind):
    """RFC 6121 4.6: it reaches a stranger, and so does the end of the session."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    romeo.send_presence(to=juliet.jid, show="chat")
    await juliet.wait_presence(romeo.jid, show="chat")
    await romeo.close()
    await juliet.wait_presence(romeo.jid, "unavailable")
