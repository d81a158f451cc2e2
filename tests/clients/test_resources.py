"""One account with several resources: where messages go (RFC 6121 8.5)."""


async def pair(world, kind, first, second):
    """Two resources of one account with these priorities, and a sender."""
    account = world.server.fresh()
    one = await world.online(kind, account=account, resource="one", priority=first)
    two = await world.online(kind, account=account, resource="two", priority=second)
    return one, two, await world.online(kind)


async def test_negative_priority_gets_no_bare_jid_messages(world, kind):
    """RFC 6121 8.5.2.1.1: only the resource that is not negative gets it."""
    one, two, romeo = await pair(world, kind, 5, -1)
    romeo.send_message(one.bare, "to the account")
    await one.wait_message("to the account")
    marker = await two.settle(romeo)
    assert two.bodies() == [marker]


async def test_equal_priorities_both_get_it(world, kind):
    """RFC 6121 8.5.2.1.1: the most available resources."""
    one, two, romeo = await pair(world, kind, 5, 5)
    romeo.send_message(one.bare, "to the account")
    await one.wait_message("to the account")
    await two.wait_message("to the account")


async def test_full_jid_goes_to_that_resource_only(world, kind):
    """RFC 6121 8.5.3.1: also to one with a negative priority."""
    one, two, romeo = await pair(world, kind, 5, -1)
    romeo.send_message(two.jid, "for two")
    await two.wait_message("for two")
    marker = await one.settle(romeo)
    assert one.bodies() == [marker]


async def test_only_negative_means_stored(world, kind):
    """RFC 6121 8.5.2.1.1: as if there were no available resource, until the
    priority rises."""
    account = world.server.fresh()
    one = await world.online(kind, account=account, priority=-1)
    romeo = await world.online(kind)
    romeo.send_message(one.bare, "for later")
    marker = await one.settle(romeo)
    assert one.bodies() == [marker]
    since = one.log.mark()
    if world.server.driver == "prosody":  # it looks at the initial presence only
        one.send_presence(type="unavailable")
    one.send_presence(priority=1)
    stored = await one.wait_message("for later", since=since)
    assert stored.delay
    marker_after = await one.settle(romeo)
    assert one.bodies() == [marker, "for later", marker_after]


async def test_the_other_resource_takes_over(world, kind):
    """RFC 6121 8.5.2.1.1: when the more available one leaves."""
    one, two, romeo = await pair(world, kind, 10, 1)
    await one.close()
    await two.wait_presence(one.jid, "unavailable")
    romeo.send_message(one.bare, "anyone left?")
    await two.wait_message("anyone left?")


async def test_chat_to_an_absent_resource_goes_to_the_account(world, kind):
    """RFC 6121 8.5.3.2.1: a chat message is treated as sent to the bare JID."""
    one = await world.online(kind)
    romeo = await world.online(kind)
    romeo.send_message(f"{one.bare}/elsewhere", "to a gone resource")
    await one.wait_message("to a gone resource")


async def test_a_changed_priority_counts_from_then_on(world, kind):
    """RFC 6121 4.7.2.3: raised above zero it gets messages, lowered it does not."""
    one, two, romeo = await pair(world, kind, 5, 5)
    two.send_presence(priority=-3)
    await one.log.wait(
        "two's lower priority",
        lambda e: getattr(e, "priority", None) == -3 and e.sender == two.jid,
    )
    romeo.send_message(one.bare, "for one")
    await one.wait_message("for one")
    marker = await two.settle(romeo)
    assert two.bodies() == [marker]
