"""Different clients in one conversation."""

from itertools import permutations

from actors import KINDS
from test_resume import break_off
from world import befriend


async def trio(world, **options):
    """One session of each client, all subscribed to each other."""
    actors = [await world.online(kind, **options) for kind in KINDS]
    for n, one in enumerate(actors):
        for two in actors[n + 1:]:
            await befriend(one, two)
    return actors


async def test_everyone_talks_to_everyone(world):
    """RFC 6121 5: each client reads what each other one sends."""
    actors = await trio(world)
    for one, two in permutations(actors, 2):
        body = f"from {one.kind} to {two.kind}: <&> \"'ünïcödé 🎭"
        one.send_message(two.jid, body)
        message = await two.wait_message(body, sender=one.jid)
        assert message.type == "chat" and message.delay is None
    for one, two in permutations(actors, 2):
        await one.ping(two.jid)


async def test_everyone_sees_everyones_presence(world):
    """RFC 6121 4.4, 4.5: show and status as each client writes them."""
    actors = await trio(world)
    for one in actors:
        one.send_presence(show="away", status=f"{one.kind} rests")
        for two in actors:
            if two is not one:
                seen = await two.wait_presence(one.jid, show="away")
                assert seen.status == f"{one.kind} rests"
    first = actors[0]
    await first.close()
    for two in actors[1:]:
        await two.wait_presence(first.jid, "unavailable")


async def test_one_account_with_three_clients(world):
    """RFC 6121 8.5.2.1.1: three clients of one account all get a message to it."""
    account = world.server.fresh()
    clients = [
        await world.online(kind, account=account, resource=kind) for kind in KINDS
    ]
    sender = await world.online("slixmpp")
    sender.send_message(account.jid, "to all of you")
    for client in clients:
        await client.wait_message("to all of you", sender=sender.jid)
    contact = world.server.fresh()
    await clients[2].roster_set(contact.jid, name="Nurse", groups=["Servants"])
    for client in clients:
        push = await client.wait_push(contact.jid, "none")
        assert (push.name, push.groups) == ("Nurse", {"Servants"})


async def test_letters_left_by_one_client_read_by_another(world):
    """XEP-0160: waiting messages do not care which client comes for them."""
    account = world.server.fresh()
    writers = [await world.online(kind) for kind in KINDS]
    for n in range(6):
        writer = writers[n % 3]
        writer.send_message(account.jid, f"letter {n}")
        await writer.ping()
    for kind in KINDS:
        reader = await world.online(kind, account=account, resource=kind)
        if kind == "slixmpp":
            await reader.wait_message("letter 5")
            letters = [b for b in reader.bodies() if b.startswith("letter")]
            assert letters == [f"letter {n}" for n in range(6)]
        else:
            await reader.settle(writers[0])
            assert [b for b in reader.bodies() if b.startswith("letter")] == []


async def test_all_write_while_one_is_away(world):
    """XEP-0198 5: two other clients write to a broken session, which resumes."""
    for kind in KINDS:
        others = [await world.online(k) for k in KINDS if k != kind]
        proxy = await world.proxy()
        away = await world.online(kind, proxy=proxy)
        break_off(away, proxy, "strand")
        for n in range(3):
            for other in others:
                other.send_message(away.jid, f"{other.kind} {n}")
        for other in others:
            await other.ping()
        assert await away.resume() is True
        for other in others:
            await away.wait_message(f"{other.kind} 2")
            await away.settle(other)
        for other in others:
            got = [m for m in away.bodies() if m.startswith(f"{other.kind} ")]
            assert got == [f"{other.kind} {n}" for n in range(3)]
