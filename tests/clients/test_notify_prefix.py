"""Subscriptions to prefixes (`/n/news.*`) and binary messages (`format=binary`), by `websockets`, sseclient-py and urllib: items of all
channels that begin so, from all threads, also over restarts by `kill -9`; and content as it was published."""

import asyncio
import json
import struct
import threading
import time
from datetime import datetime

import pytest
from websockets.exceptions import InvalidStatus

from events import WAIT
from test_notify import Events, Messages, ask, message, publish, websocket
from test_notify_jwt import fetch, fresh, issue

CHANNELS = [f"{number}" for number in range(12)]


def unpack(data):
    """A binary message, by the table of docs/notifications.md."""
    version, channel, key, kind, after, number, time_ms = struct.unpack(">BBHHHQQ", data[:24])
    assert version == 1
    parts, at = [], 24
    for length in (after, channel, key, kind):
        parts.append(data[at : at + length].decode())
        at += length
    return {"after": parts[0], "channel": parts[1], "key": parts[2], "type": parts[3], "id": number, "time_ms": time_ms, "content": data[at:]}


def of(items, channel):
    return [item["data"] for item in items if item["channel"] == channel]


async def until(is_so):
    """Waits until this is so."""
    end = time.monotonic() + WAIT
    while not is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def placed(reader):
    """Waits until a subscriber knows where it begins."""
    await until(lambda: reader.last is not None)


class FromNow(Messages):
    """A subscriber by WebSocket that begins with what is published from now on."""

    def __init__(self, world, path, tls=False):
        super().__init__(world, path, tls)
        self.last = None

    async def run(self):
        async with websocket(self.world, self.path, self.tls) as socket:
            self.last = (await message(socket))["after"]
        await super().run()


class EventsFromNow(Events):
    """The same by events. An id without data is the place where it begins (HTML 9.2.6), which sseclient-py does not report."""

    def __init__(self, world, path):
        status, fields, _ = ask(world, f"{path}?wait=1")
        assert status == 204
        super().__init__(world, path, fields["Next-After"])


async def everything(world, head, rounds, between):
    """Publishes at all channels, which are made by that."""

    def writes():
        for number in range(rounds):
            for channel in CHANNELS:
                publish(world, f"{head}.{channel}", f"{number}", f"{head}-{channel}-{number}")

    writer = asyncio.create_task(asyncio.to_thread(writes))
    await between(writer)
    await asyncio.wait_for(writer, 90)


async def test_a_prefix_is_all_channels_that_begin_so(notifying_world):
    """Channels of all threads, made after the subscription began, each item once and in the order of its channel, over lost connections."""
    world, head, rounds = notifying_world, "wide", 10
    sockets = [FromNow(world, f"{head}.*", tls) for tls in (False, True, False)]
    events = [await asyncio.to_thread(EventsFromNow, world, f"{head}.*") for _ in range(3)]
    for reader in sockets:
        await placed(reader)
    over, placed_at, polled = asyncio.Event(), [], []

    async def polls():
        status, fields, _ = await asyncio.to_thread(ask, world, f"{head}.*?wait=1")
        placed_at.append(fields["Next-After"])
        after = placed_at[0]
        while not over.is_set():
            status, fields, answer = await asyncio.to_thread(ask, world, f"{head}.*?after={after}&wait=2")
            after = fields["Next-After"] if status == 204 else json.loads(answer)["after"]
            polled.extend(json.loads(answer)["items"] if status == 200 else [])

    poll = asyncio.create_task(polls())
    await until(lambda: placed_at)

    async def lose(writer):
        while not writer.done():
            await asyncio.sleep(0.3)
            sockets[0].task.cancel()
            again = Messages(world, f"{head}.*")
            again.last, again.got, again.gaps = sockets[0].last, sockets[0].got, sockets[0].gaps
            sockets[0] = again

    await everything(world, head, rounds, lose)
    await asyncio.to_thread(publish, world, f"{head}ly.other", "no", "other")
    count, expected = rounds * len(CHANNELS), [str(number) for number in range(rounds)]
    for reader in sockets:
        await reader.wait(count)
    for reader in events:
        await asyncio.to_thread(reader.wait, count)
    await until(lambda: len(polled) >= count)
    # Nothing comes twice: the poll that is under way ends without items.
    over.set()
    await poll
    for got in [*(reader.got for reader in sockets), *(reader.got for reader in events), polled]:
        assert len(got) == count
        for channel in CHANNELS:
            assert of(got, f"{head}.{channel}") == expected
    assert all(reader.gaps == [] for reader in sockets) and all(reader.gaps == 0 for reader in events)
    for reader in sockets:
        reader.task.cancel()
    for reader in events:
        reader.over = True


async def test_a_kill_is_a_gap_and_nothing_comes_twice(notifying_world):
    """What a prefix has missed over `kill -9` is said, and each channel is read by itself then: together all is there."""
    world, head, rounds = notifying_world, "killed-prefix", 12
    readers = [FromNow(world, f"{head}.*", tls) for tls in (False, True)]
    for reader in readers:
        await placed(reader)

    async def kills(writer):
        for _ in range(2):
            await asyncio.sleep(0.7)
            await asyncio.to_thread(world.server.restart, True)

    await everything(world, head, rounds, kills)
    await until(lambda: all(reader.gaps and reader.connections >= 3 for reader in readers))
    expected = [str(number) for number in range(rounds)]
    for reader in readers:
        for channel in CHANNELS:
            got = of(reader.got, f"{head}.{channel}")
            assert got == sorted(set(got), key=int), "once and in order"
            assert got == expected or f"{head}.*" in reader.gaps
            _, _, answer = await asyncio.to_thread(ask, world, f"{head}.{channel}")
            assert of(json.loads(answer)["items"], f"{head}.{channel}") == expected
        assert reader.gaps and set(reader.gaps) == {f"{head}.*"} and reader.connections >= 3
        reader.task.cancel()


async def test_a_token_has_to_grant_the_whole_prefix(keyed_world):
    """Private channels below a prefix are for those whose tokens cover it, as the specification of patterns says."""
    world, name = keyed_world, fresh()
    whole, part = issue(subscribe=[f"{name}.*"], publish=["own.*"]), issue(subscribe=[f"{name}.a", f"{name}.b*"])
    for token, path, expected in [(None, f"{name}.*", 401), (part, f"{name}.*", 403), (whole, "own.*", 403), (whole, f"{name}.b.*", 204), (whole, f"{name}.*", 204)]:
        status, _, answer = await fetch(world, f"{path}?wait=1", token=token)
        assert status == expected, (path, answer)
    async with websocket(world, f"{name}.*?access_token={whole}") as socket, websocket(world, "*") as public:
        assert (await message(socket))["items"] == (await message(public))["items"] == []
        status, _, _ = await fetch(world, f"{name}.a", b"for some", whole)
        assert status == 200
        assert of((await message(socket))["items"], f"{name}.a") == ["for some"]
        status, _, _ = await fetch(world, "news.of-all", b"for all")
        assert status == 200
        told = await message(public)
        assert [item["data"] for item in told["items"]] == ["for all"], "nothing of what is private"


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
async def test_binary_messages_have_the_bytes_that_were_published(notifying_world, secure):
    """RFC 6455 5.6: one message for each item, with the names and the place; by a prefix as well."""
    world, channel = notifying_world, f"binary.{'wss' if secure else 'ws'}"
    bodies = [bytes(range(256)) * 100, "gr\u00fc\u00df \u2028".encode(), b"", b'{"n": 1}', b"\x00" * 32_000]
    async with websocket(world, f"{channel},other?format=binary", secure) as socket, websocket(world, "binary.*?format=binary", secure) as wide:
        assert await message(socket) == {"items": [], "gaps": [], "after": "0,0"}
        assert (await message(wide))["items"] == []
        for number, body in enumerate(bodies, 1):
            fields = {"Content_Type": f"image/x-{number}", "Item_Key": f"key {number}".replace(" ", "-")}
            status, _, _ = await asyncio.to_thread(ask, world, channel, body, **fields)
            assert status == 200
            for one in (socket, wide):
                data = await asyncio.wait_for(one.recv(), WAIT)
                assert isinstance(data, bytes)
                item = unpack(data)
                expected = {"channel": channel, "key": f"key-{number}", "type": f"image/x-{number}", "id": number, "content": body}
                assert {name: item[name] for name in expected} == expected
                assert abs(item["time_ms"] / 1000 - time.time()) < 60
                assert one is wide or item["after"] == f"{number},0"
    # Who comes back has what is kept, and text is the same items.
    async with websocket(world, f"{channel}?after=0&format=binary", secure) as socket:
        told = [unpack(await asyncio.wait_for(socket.recv(), 25)) for _ in bodies]
    assert [item["content"] for item in told] == bodies
    _, _, answer = await asyncio.to_thread(ask, world, f"{channel}?after=0")
    for item, text in zip(told, json.loads(answer)["items"], strict=True):
        at = datetime.fromisoformat(text["time"]).timestamp() * 1000
        assert (item["key"], str(item["id"]), round(at)) == (text["key"], text["id"], item["time_ms"])
    for path in (f"{channel}?format=binary", f"{channel}?format=cbor"):
        status, _, _ = await asyncio.to_thread(ask, world, path)
        assert status == 400
    with pytest.raises(InvalidStatus) as refused:
        await websocket(world, f"{channel}?format=cbor")
    assert refused.value.response.status_code == 400


async def test_many_wait_for_a_prefix_on_all_threads(notifying_world):
    """Long polls of many connections are all answered by one item."""
    world = notifying_world
    answers, lock = [], threading.Lock()

    def poll():
        answer = ask(world, "crowd-prefix.*?wait=20")
        with lock:
            answers.append(answer)

    threads = [threading.Thread(target=poll) for _ in range(40)]
    for thread in threads:
        thread.start()
    await asyncio.sleep(2)
    await asyncio.to_thread(publish, world, "crowd-prefix.a", "to all", "crowd")
    for thread in threads:
        await asyncio.to_thread(thread.join, WAIT)
    assert [status for status, _, _ in answers] == [200] * 40
    assert all(of(json.loads(body)["items"], "crowd-prefix.a") == ["to all"] for _, _, body in answers)
