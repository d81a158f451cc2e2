"""Who subscribes to channels (docs/notifications.md), on real sockets at all threads: by `websockets`, sseclient-py and long polls, with
PyJWT as the issuer of names."""

import asyncio
import json
import socket
import threading
import time
import urllib.request

import sseclient

from events import WAIT
from test_notify import message, url, websocket
from test_notify_jwt import fetch, fresh, issue


def member(name):
    """A token of somebody with a name, who may know those of others."""
    return issue(sub=name, subscribe=["own.*"], presence=["own.*"])


async def occupancy(world, channel, token=None):
    """What is told to who asks."""
    status, fields, body = await fetch(world, f"{channel}?occupancy", token=token)
    assert (status, fields["Content-Type"], fields["Cache-Control"]) == (200, "application/json", "no-store"), body
    told = json.loads(body)
    assert set(told) == {"channel", "subscribers", "who", "more"} and told["channel"] == channel
    return told["subscribers"], {each["name"]: each["connections"] for each in told["who"]}


async def until(world, channel, expected, token=None):
    """Waits until that is what is told."""
    deadline = time.monotonic() + WAIT
    while (told := await occupancy(world, channel, token)) != expected:
        assert time.monotonic() < deadline, (told, expected)
        await asyncio.sleep(0.1)


async def seen(is_so):
    """Waits until this is so."""
    deadline = time.monotonic() + WAIT
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


class Room:
    """Who subscribes, as a subscriber by WebSocket is told it."""

    def __init__(self, world, channel, token):
        self.world, self.path, self.token = world, f"{channel}?occupancy=1&access_token={token}", token
        self.names, self.subscribers, self.joined, self.left, self.messages = set(), 0, [], [], 0
        self.began = time.monotonic()
        self.task = asyncio.create_task(self.run())

    async def run(self):
        async with websocket(self.world, self.path) as socket:
            async for text in socket:
                told = json.loads(text)
                assert told["items"] == [] and told["gaps"] == [] and told["after"]
                if "occupancy" in told:
                    self.take(told["occupancy"])

    def take(self, told):
        self.subscribers = told["subscribers"]
        self.messages += 1
        if "who" in told:
            self.names = {each["name"] for each in told["who"]}
        else:
            self.joined += told["joined"]
            self.left += told["left"]
            self.names = (self.names | set(told["joined"])) - set(told["left"])

    async def until(self, subscribers, names):
        deadline = time.monotonic() + WAIT
        while (self.subscribers, self.names) != (subscribers, set(names)):
            assert not self.task.done() and time.monotonic() < deadline, (self.subscribers, self.names, names)
            await asyncio.sleep(0.05)


class Listener(threading.Thread):
    """Server-sent events until they are closed; those of the type `occupancy` apart from items."""

    def __init__(self, world, path, token=None):
        super().__init__(daemon=True)
        headers = {"Accept": "text/event-stream"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self.response = urllib.request.urlopen(urllib.request.Request(url(world, path), headers=headers), timeout=60)
        self.told, self.items = [], []
        self.start()

    def run(self):
        try:
            for event in sseclient.SSEClient(self.response).events():
                (self.told if event.event == "occupancy" else self.items).append(json.loads(event.data))
        except (OSError, ValueError, AttributeError):
            pass

    def close(self):
        # The thread that reads holds the lock which closing the response would wait for.
        self.response.fp.raw._sock.shutdown(socket.SHUT_RDWR)
        self.join(WAIT)
        assert not self.is_alive()


async def test_names_join_and_leave_at_all_threads(keyed_world):
    """Names of tokens, by connections that are spread over the threads; with two connections there is one name."""
    world, channel = keyed_world, fresh()
    romeo = Room(world, channel, member("romeo"))
    await romeo.until(1, ["romeo"])
    others = {}
    for name in ("juliet", "tybalt", "nurse"):
        others[name] = [await websocket(world, f"{channel}?access_token={member(name)}") for _ in range(4)]
    await romeo.until(13, ["romeo", *others])
    await until(world, channel, (13, {"romeo": 1, "juliet": 4, "tybalt": 4, "nurse": 4}), member("x"))
    for socket in others["tybalt"][:3]:
        await socket.close()
    await romeo.until(10, ["romeo", *others])
    await others["tybalt"][3].close()
    await romeo.until(9, ["romeo", "juliet", "nurse"])
    assert sorted(romeo.joined) == ["juliet", "nurse", "tybalt"] and romeo.left == ["tybalt"]
    # At most one message in a second, however late some of them come.
    assert romeo.messages <= time.monotonic() - romeo.began + 2
    for token, status in ((None, 401), (issue(sub="x", subscribe=["own.*"]), 403)):
        assert (await fetch(world, f"{channel}?occupancy", token=token))[0] == status
    for socket in others["juliet"] + others["nurse"]:
        await socket.close()
    romeo.task.cancel()


async def test_open_channels_tell_how_many(notifying_world):
    """By events, WebSockets and polls; a poll that is renewed neither leaves nor joins. Nobody is named. A restart counts anew."""
    world, channel = notifying_world, fresh()
    hears = await asyncio.to_thread(Listener, world, f"{channel}?occupancy=1")
    over = False

    async def polls():
        after = "0"
        while not over:
            status, fields, body = await fetch(world, f"{channel}?after={after}&wait=20")
            after = fields["Next-After"] if status == 204 else json.loads(body)["after"]

    task = asyncio.create_task(polls())
    async with websocket(world, f"{channel}?occupancy=1") as socket:
        await until(world, channel, (3, {}))
        while (told := await message(socket)).get("occupancy", {}).get("subscribers", 0) < 3:
            assert "items" in told
        # It may be told of more at first: a poll that was answered at another thread meanwhile.
        await seen(lambda: any(told["subscribers"] >= 3 for told in hears.told))
        for number in range(8):
            assert (await fetch(world, channel, b"x"))[0] == 200
            await asyncio.sleep(0.4)
        await seen(lambda: len(hears.items) == 8)
        # Who was answered at another thread is expected back there for a while, and counts.
        threads = int(world.server.options[1])
        assert all(told["subscribers"] <= 3 + threads - 1 for told in hears.told), hears.told
        # Once it is there, the one who polls does not come and go.
        all_there = [told["subscribers"] for told in hears.told]
        first = next(at for at, subscribers in enumerate(all_there) if subscribers >= 3)
        assert min(all_there[first:]) >= 3, hears.told
        assert (await occupancy(world, channel))[0] >= 3
    over = True
    await fetch(world, channel, b"last")
    await task
    await until(world, channel, (1, {}))
    assert all(not told.get("who") and not told.get("joined") for told in hears.told)
    hears.close()
    await until(world, channel, (0, {}))
    again = await asyncio.to_thread(Listener, world, channel)
    await until(world, channel, (1, {}))
    await asyncio.to_thread(world.server.restart)
    await until(world, channel, (0, {}))
    await asyncio.to_thread(again.join, WAIT)
    assert not again.is_alive()
