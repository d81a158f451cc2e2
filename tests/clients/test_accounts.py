"""What a user does with the account itself (XEP-0077)."""

import pytest

from events import LoginFailed
from servers import Account
from world import befriend


async def test_changes_the_password(world, kind):
    """XEP-0077 3.3: from then on the new one counts, and only that."""
    account = world.server.fresh()
    actor = await world.online(kind, account=account)
    await actor.change_password("neu & <anders>")
    await actor.ping()
    await actor.close()
    old = world.make(kind, account)
    with pytest.raises(LoginFailed, match="not-authorized"):
        await old.connect(mechanism="SCRAM-SHA-1")
    for mechanism in ("SCRAM-SHA-1", "PLAIN"):
        new = world.make(kind, Account(account.name, "neu & <anders>"))
        await new.connect(mechanism=mechanism)
        await new.ping()
        await new.close()


@pytest.mark.needs("removal")
async def test_removes_the_account(world, kind):
    """XEP-0077 3.2: the contacts see it leave, nobody can log in to it, and
    messages to it fail as to any unknown user (RFC 6121 8.5.1)."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    await befriend(romeo, juliet)
    other = await world.online(kind, account=juliet.account, resource="second")
    since = romeo.log.mark()
    juliet.hold()
    await juliet.remove_account()
    await romeo.wait_presence(juliet.jid, "unavailable", since=since)
    await romeo.wait_presence(other.jid, "unavailable", since=since)
    await romeo.wait_push(juliet.bare, "none", since=since)
    since = romeo.log.mark()
    romeo.send_message(juliet.bare, "anyone?")
    assert (await romeo.wait_error(juliet.bare, since)).error == "service-unavailable"
    with pytest.raises(LoginFailed, match="not-authorized"):
        await world.make(kind, juliet.account).connect(mechanism="SCRAM-SHA-1")


@pytest.mark.needs("register")
@pytest.mark.needs("removal")
async def test_nothing_is_left_for_the_next_owner_of_the_name(world, kind):
    """XEP-0077 14: who registers a removed name inherits nothing."""
    romeo, juliet = await world.friends(kind)
    account = juliet.account
    await juliet.private_set("a secret")
    juliet.hold()
    await juliet.remove_account()
    await romeo.wait_presence(juliet.jid, "unavailable")
    since = romeo.log.mark()
    romeo.send_message(account.jid, "for the old one")
    await romeo.wait_error(account.jid, since)
    heir = world.make(kind, Account(account.name, "another password"))
    await heir.connect(register=True)
    await heir.online()
    assert await heir.roster() == {}
    assert await heir.private_get() is None
    marker = await heir.settle(romeo)
    assert heir.bodies() == [marker]
