"""Stream management (XEP-0198) over restarts of the server: sessions go on
after it was killed or stopped, whether their clients were connected or not."""

import asyncio

import pytest

from world import befriend

#: Seconds until a session that has just begun is stored: the server waits for two of them, and no figure says it of one session.
STORED = 4


async def restart(world, kill):
    """Restart the server; the loop goes on meanwhile."""
    await asyncio.get_running_loop().run_in_executor(
        None, lambda: world.server.restart(kill=kill)
    )


@pytest.mark.needs("restart")
@pytest.mark.parametrize("how", ["killed", "killed later", "stopped"])
async def test_a_session_goes_on_after_a_restart(world, kind, how):
    """XEP-0198 5: what was not acknowledged comes once, in order, and the
    session is the same. With `killed later` the client was gone before."""
    romeo = await world.online(kind)
    proxy = await world.proxy()
    juliet = await world.online(kind, proxy=proxy)
    jid = juliet.jid
    await asyncio.sleep(STORED)
    romeo.send_message(jid, "before")
    await juliet.wait_message("before")
    juliet.send_message(romeo.bare, "from her")
    await romeo.wait_message("from her")
    romeo.hold()
    juliet.hold()
    sent = ["before"]
    if how == "killed later":
        proxy.cut()
        for n in range(5):
            romeo.send_message(jid if n % 2 else juliet.bare, f"meanwhile {n}")
            sent.append(f"meanwhile {n}")
        await romeo.ping()
    await restart(world, kill=how != "stopped")
    assert await romeo.resume() is True
    romeo.send_message(juliet.bare, "after")
    assert await juliet.resume() is True
    assert juliet.jid == jid
    await juliet.wait_message("after")
    marker = await juliet.settle(romeo)
    assert juliet.bodies() == [*sent, "after", marker]
    juliet.send_message(romeo.bare, "thanks")
    await romeo.wait_message("thanks", sender=jid)
    marker = await romeo.settle(juliet)
    assert romeo.bodies() == ["from her", "thanks", marker]


@pytest.mark.needs("restart")
async def test_contacts_do_not_see_a_restart(world, kind):
    """XEP-0198 5: who resumes sees the other as before, and neither is seen to go."""
    romeo = await world.online(kind)
    juliet = await world.online(kind)
    await befriend(romeo, juliet)
    await romeo.settle(juliet)
    await juliet.settle(romeo)
    await asyncio.sleep(STORED)
    since_romeo, since_juliet = romeo.log.mark(), juliet.log.mark()
    romeo.hold()
    juliet.hold()
    await restart(world, kill=True)
    assert await romeo.resume() is True
    assert await juliet.resume() is True
    await romeo.settle(juliet)
    await juliet.settle(romeo)
    assert "unavailable" not in romeo.presences(juliet.bare, since_romeo)
    assert "unavailable" not in juliet.presences(romeo.bare, since_juliet)


@pytest.mark.needs("restart")
async def test_a_session_outlives_several_restarts(world, kind):
    """XEP-0198 5: a session that was resumed after a restart can be resumed after the next."""
    romeo = await world.online(kind)
    juliet = await world.online(kind)
    await asyncio.sleep(STORED)
    expected = []
    for round in range(3):
        body = f"round {round}"
        romeo.send_message(juliet.bare, body)
        expected.append(body)
        await juliet.wait_message(body)
        romeo.hold()
        juliet.hold()
        await restart(world, kill=round != 1)
        assert await juliet.resume() is True
        assert await romeo.resume() is True
    expected.append(await juliet.settle(romeo))
    assert juliet.bodies() == expected
