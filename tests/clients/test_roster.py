"""The roster and the whole life of a subscription, as both sides' clients see it."""

import pytest

from world import befriend


async def test_add_change_remove_with_pushes(world, kind):
    """RFC 6121 2.3-2.5: each change is pushed to every interested resource."""
    account, contact = world.server.fresh(), world.server.fresh()
    one = await world.online(kind, account=account)
    two = await world.online(kind, account=account, resource="second")
    await one.roster_set(contact.jid, name="Nurse", groups=["Servants"])
    for actor in (one, two):
        push = await actor.wait_push(contact.jid, "none")
        assert (push.name, push.groups) == ("Nurse", {"Servants"})
    since = two.log.mark()
    await one.roster_set(contact.jid, name="Angelica", groups=["Servants"])
    assert (await two.wait_push(contact.jid, "none", since=since)).name == "Angelica"
    third = await world.online(kind, account=account, resource="third")
    item = (await third.roster())[contact.jid]
    assert (item.name, item.groups, item.subscription) == ("Angelica", {"Servants"}, "none")
    await two.roster_remove(contact.jid)
    for actor in (one, two, third):
        await actor.wait_push(contact.jid, "remove")
    fourth = await world.bound(kind, account=account, resource="fourth")
    assert await fourth.roster() == {}


async def test_subscription_one_way_then_both(world, kind):
    """RFC 6121 3.1 and Appendix A: none, ask, to/from, both, with the presence
    that each step brings."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    romeo.send_presence(to=juliet.bare, type="subscribe")
    await romeo.wait_push(juliet.bare, "none", ask=True)
    await juliet.wait_presence(romeo.bare, "subscribe")
    juliet.send_presence(to=romeo.bare, type="subscribed")
    await juliet.wait_push(romeo.bare, "from")
    await romeo.wait_push(juliet.bare, "to")
    await romeo.wait_presence(juliet.bare, "subscribed")
    await romeo.wait_presence(juliet.jid)
    # One way only: juliet has not seen romeo's presence.
    await juliet.settle(romeo)
    assert "available" not in juliet.presences(romeo.bare)
    juliet.send_presence(to=romeo.bare, type="subscribe")
    await juliet.wait_push(romeo.bare, "from", ask=True)
    await romeo.wait_presence(juliet.bare, "subscribe")
    romeo.send_presence(to=juliet.bare, type="subscribed")
    await juliet.wait_push(romeo.bare, "both")
    await romeo.wait_push(juliet.bare, "both")
    await juliet.wait_presence(romeo.jid)


async def test_subscription_request_waits_for_an_offline_contact(world, kind):
    """RFC 6121 3.1.3: the request is kept and shown again until it is answered."""
    romeo = await world.online(kind)
    account = world.server.fresh()
    romeo.send_presence(to=account.jid, type="subscribe")
    await romeo.wait_push(account.jid, "none", ask=True)
    juliet = await world.online(kind, account=account)
    await juliet.wait_presence(romeo.bare, "subscribe")
    await juliet.close()
    juliet = await world.online(kind, account=account, resource="second")
    await juliet.wait_presence(romeo.bare, "subscribe")
    juliet.send_presence(to=romeo.bare, type="subscribed")
    await romeo.wait_push(account.jid, "to")
    await romeo.wait_presence(juliet.jid)


async def test_subscription_denied(world, kind):
    """RFC 6121 3.2: a denied request leaves "none" without "ask"."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    romeo.send_presence(to=juliet.bare, type="subscribe")
    await juliet.wait_presence(romeo.bare, "subscribe")
    await romeo.wait_push(juliet.bare, "none", ask=True)
    since = romeo.log.mark()
    juliet.send_presence(to=romeo.bare, type="unsubscribed")
    await romeo.wait_presence(juliet.bare, "unsubscribed")
    await romeo.wait_push(juliet.bare, "none", since=since)
    assert "available" not in romeo.presences(juliet.bare)


async def test_approval_answer_reaches_an_offline_user(world, kind):
    """RFC 6121 3.1.6: the answer is in the roster when the user comes back."""
    account = world.server.fresh()
    romeo = await world.online(kind, account=account)
    juliet = await world.online(kind)
    romeo.send_presence(to=juliet.bare, type="subscribe")
    await juliet.wait_presence(romeo.bare, "subscribe")
    await romeo.close()
    juliet.send_presence(to=romeo.bare, type="subscribed")
    await juliet.wait_push(romeo.bare, "from")
    romeo = await world.online(kind, account=account)
    await romeo.wait_presence(juliet.jid)
    assert (await romeo.roster())[juliet.bare].subscription == "to"


async def test_unsubscribe(world, kind):
    """RFC 6121 3.3: "both" becomes "from" and "to", and presence stops."""
    romeo, juliet = await world.friends(kind)
    since = romeo.log.mark()
    romeo.send_presence(to=juliet.bare, type="unsubscribe")
    await romeo.wait_push(juliet.bare, "from", since=since)
    await juliet.wait_push(romeo.bare, "to")
    await juliet.wait_presence(romeo.bare, "unsubscribe")
    if world.server.driver != "prosody":  # Prosody leaves out this MUST of 3.3.3
        await romeo.wait_presence(juliet.jid, "unavailable", since=since)
    since = romeo.log.mark()
    juliet.send_presence(show="dnd")
    await romeo.settle(juliet)
    assert romeo.presences(juliet.bare, since) == []
    # The other direction still stands.
    romeo.send_presence(show="away")
    await juliet.wait_presence(romeo.jid, show="away")


async def test_cancel_the_contacts_subscription(world, kind):
    """RFC 6121 3.2: "unsubscribed" takes the contact's subscription away."""
    romeo, juliet = await world.friends(kind)
    since = juliet.log.mark()
    romeo.send_presence(to=juliet.bare, type="unsubscribed")
    await romeo.wait_push(juliet.bare, "to")
    await juliet.wait_push(romeo.bare, "from", since=since)
    await juliet.wait_presence(romeo.bare, "unsubscribed", since=since)
    await juliet.wait_presence(romeo.jid, "unavailable", since=since)


async def test_removing_an_item_ends_both_subscriptions(world, kind):
    """RFC 6121 2.5.2: the server sends "unsubscribe" and "unsubscribed"."""
    romeo, juliet = await world.friends(kind)
    since = juliet.log.mark()
    await romeo.roster_remove(juliet.bare)
    await romeo.wait_push(juliet.bare, "remove")
    await juliet.wait_push(romeo.bare, "none", since=since)
    if world.server.driver != "prosody":  # Prosody leaves it out here, not in 3.2.2
        await juliet.wait_presence(romeo.jid, "unavailable", since=since)
    assert romeo.bare in await juliet.roster()
    # They can begin again.
    romeo.send_presence(to=juliet.bare, type="subscribe")
    await juliet.wait_presence(romeo.bare, "subscribe", since=since)


async def test_the_roster_outlives_the_session(world, kind):
    """RFC 6121 2.2: names, groups and states are there at the next login."""
    account = world.server.fresh()
    romeo = await world.online(kind, account=account)
    juliet = await world.online(kind)
    await befriend(romeo, juliet)
    since = romeo.log.mark()
    await romeo.roster_set(juliet.bare, name="Juliet", groups=["Capulets", "Verona"])
    push = await romeo.wait_push(juliet.bare, "both", since=since)
    assert push.name == "Juliet"
    await romeo.close()
    romeo = await world.online(kind, account=account)
    item = (await romeo.roster())[juliet.bare]
    assert item.subscription == "both"
    assert (item.name, item.groups) == ("Juliet", {"Capulets", "Verona"})
    await romeo.wait_presence(juliet.jid)


@pytest.mark.needs("rosterver")
async def test_a_known_version_needs_no_roster(world, kind):
    """RFC 6121 2.6: with the newest version the result is empty, with an old
    one what changed comes."""
    account = world.server.fresh()
    romeo = await world.online(kind, account=account)
    contacts = [world.server.fresh().jid for _ in range(3)]
    for contact in contacts:
        await romeo.roster_set(contact, name="Known")
        await romeo.wait_push(contact, "none")
    assert "rosterver" in romeo.client.features
    # Reading the result makes slixmpp put an empty query into it: look for items.
    item = "{jabber:iq:roster}query/{jabber:iq:roster}item"
    assert await romeo.roster()
    result = await romeo.client.get_roster()
    assert result.xml.find(item) is None
    version = romeo.client.client_roster.version
    await romeo.close()
    romeo = await world.bound(kind, account=account)
    romeo.client.client_roster.version = version
    # Reading the result makes slixmpp put an empty query into it: look for items.
    item = "{jabber:iq:roster}query/{jabber:iq:roster}item"
    assert await romeo.roster()
    assert (await romeo.client.get_roster()).xml.find(item) is None
    fresh = await world.bound(kind, account=account, resource="second")
    assert set(await fresh.roster()) == set(contacts)
