"""Centrifugo's client protocol (docs/centrifugo.md) by `centrifuge` of npm with `ws`, as pages have it; and by `websockets` for what that
library does not do. Others publish and read by HTTP, and tokens are PyJWT's."""

import asyncio
import itertools
import json
import time
import uuid
from pathlib import Path

import jwt
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from events import WAIT
from proxy import Proxy
from test_notify import ask, publish
from test_notify_jwt import SECRET, fetch, issue

HERE = Path(__file__).parent


def address(world):
    """Where clients connect."""
    return f"ws://127.0.0.1:{world.server.http}/connection/websocket"


class Page:
    """A client in a process of node."""

    def __init__(self, world, channels=(), **options):
        options["channels"] = channels if isinstance(channels, dict) else {name: {} for name in channels}
        self.arguments = ["node", str(HERE / "centrifugo.mjs"), address(world), json.dumps(options)]
        self.told, self.results = [], asyncio.Queue()

    async def __aenter__(self):
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self.arguments, stdin=pipe, stdout=pipe, limit=1 << 22)
        self.task = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        self.task.cancel()

    async def read(self):
        async for line in self.process.stdout:
            told = json.loads(line)
            if "result" in told:
                self.results.put_nowait(told["result"])
            else:
                self.told.append(told)

    async def call(self, call, channel=None, **more):
        """A call of the library; what it returns."""
        command = {"call": call, **({"channel": channel} if channel else {}), **more}
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        return await asyncio.wait_for(self.results.get(), WAIT)

    def all(self, event, of=None):
        return [told for told in self.told if told["event"] == event and (of is None or told.get("of") == of)]

    def data(self, of=None):
        return [told["data"] for told in self.all("publication", of)]

    async def until(self, true):
        deadline = time.monotonic() + 2 * WAIT
        while not true() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert true(), self.told[-20:]


def fresh(name="room"):
    """A channel that no other test has, as clients call it and as others do."""
    number = uuid.uuid4().hex
    return f"{name}/{number}", f"{name}~2F{number}"


async def test_a_page_subscribes_publishes_and_reads(notifying_world):
    """What the library has: publications, history in both directions, how many there are, errors by their codes."""
    world, (room, channel) = notifying_world, fresh()
    async with Page(world, [room, f"news:{channel}"]) as page, Page(world, [room]) as other:
        await page.until(lambda: len(page.all("subscribed")) == 2 and other.all("subscribed"))
        first = page.all("subscribed", room)[0]
        assert first["recoverable"] and first["positioned"] and first["streamPosition"]["offset"] == 0
        assert await page.call("publish", room, data={"text": "hello\n", "list": [1, None, "é"]}) == {}
        await asyncio.to_thread(publish, world, channel, '{"n": 2}', uuid.uuid4().hex, "application/json")
        await asyncio.to_thread(publish, world, channel, "plain", uuid.uuid4().hex)
        expected = [{"text": "hello\n", "list": [1, None, "é"]}, {"n": 2}, "plain"]
        for one in (page, other):
            await one.until(lambda one=one: len(one.data(room)) == 3)
            assert one.data(room) == expected
            assert [told["offset"] for told in one.all("publication", room)] == [1, 2, 3]
        assert page.all("publication")[2]["tags"] == {"type": "text/plain"}
        status, _, answer = await asyncio.to_thread(ask, world, f"{channel}?after=0")
        assert status == 200 and json.loads(json.loads(answer)["items"][0]["data"]) == expected[0]
        history = await page.call("history", room, limit=2)
        assert [one["data"] for one in history["publications"]] == expected[:2] and history["offset"] == 3
        since = {"offset": 3, "epoch": history["epoch"]}
        history = await page.call("history", room, limit=5, reverse=True, since=since)
        assert [one["data"] for one in history["publications"]] == [expected[1], expected[0]]
        assert await page.call("history", room, limit=5, since={"offset": 1, "epoch": "other"}) == {"refused": 112}
        assert await page.call("history", room, limit=0) == {"publications": [], **since}
        assert await page.call("rpc") == {"refused": 104}
        assert await page.call("publish", "not/here#1", data=1) == {"refused": 102}
        assert await page.call("publish", room, data="x" * 33_000) == {"refused": 106}
        deadline = time.monotonic() + WAIT
        while await page.call("presenceStats", room) != {"numClients": 2, "numUsers": 0} and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        assert await page.call("presenceStats", room) == {"numClients": 2, "numUsers": 0}
        await page.call("unsubscribe", room)
        await other.call("burst", room, data=list(range(20)))
        await other.until(lambda: len(other.data(room)) == 23)
        assert other.data(room)[3:] == list(range(20)), "in their order"
        await page.call("subscribe", room)
        await page.until(lambda: len(page.data(room)) == 23)
        assert page.data(room) == other.data(room), "it goes on where it was"


async def test_a_client_that_is_silent_stays(notifying_world):
    """Pings of the server are answered by the library, over more than one of their periods."""
    world, (room, channel) = notifying_world, fresh()
    async with Page(world, [room]) as page:
        await page.until(lambda: page.all("subscribed"))
        await asyncio.sleep(62)
        await asyncio.to_thread(publish, world, channel, "still there", uuid.uuid4().hex)
        await page.until(lambda: page.data(room) == ["still there"])
        assert len(page.all("connected")) == 1 and not page.all("disconnected") and len(page.all("connecting")) == 1


async def test_each_publication_once_and_in_order_over_kills(notifying_world):
    """A page goes on by itself behind what it has had last, at all channels, without a gap or a double."""
    world, least = notifying_world, 90
    rooms = [fresh() for _ in range(3)]
    over = asyncio.Event()

    async def publisher():
        for number in itertools.count():
            await asyncio.to_thread(publish, world, rooms[number % 3][1], str(number), uuid.uuid4().hex, "application/json")
            if over.is_set() and number >= least:
                return number + 1
            await asyncio.sleep(0.1)

    async with Page(world, [room for room, _ in rooms]) as page:
        await page.until(lambda: len(page.all("subscribed")) == 3)
        task = asyncio.create_task(publisher())
        for _ in range(3):
            await asyncio.sleep(1)
            connected = len(page.all("connected"))
            await asyncio.to_thread(world.server.restart, True)
            await page.until(lambda connected=connected: len(page.all("connected")) > connected)
        over.set()
        count = await task
        await page.until(lambda: len(page.data()) >= count)
        for at, (room, _) in enumerate(rooms):
            assert page.data(room) == list(range(at, count, 3))
            again = page.all("subscribed", room)[1:]
            assert again and all(told["wasRecovering"] and told["recovered"] for told in again)


async def test_a_client_that_is_dropped_at_random_has_each_publication_once(notifying_world):
    """Connections that break in the middle of what is told: by a relay that resets them."""
    world, (room, channel), least = notifying_world, fresh(), 400
    over = asyncio.Event()
    proxy = await Proxy(world.server.http).start()
    page = Page(world, [room])
    page.arguments[2] = f"ws://127.0.0.1:{proxy.port}/connection/websocket"
    try:
        async with page:
            await page.until(lambda: page.all("subscribed"))

            async def publisher():
                for number in itertools.count():
                    body = json.dumps({"n": number, "long": "x" * 2_000})
                    await asyncio.to_thread(publish, world, channel, body, uuid.uuid4().hex, "application/json")
                    if over.is_set() and number >= least:
                        return number + 1
                    await asyncio.sleep(0.005)

            task = asyncio.create_task(publisher())
            for _ in range(6):
                connected = len(page.all("connected"))
                proxy.cut()
                await page.until(lambda connected=connected: len(page.all("connected")) > connected)
                await asyncio.sleep(0.3)
            over.set()
            count = await task
            await page.until(lambda: len(page.data(room)) >= count)
            assert [data["n"] for data in page.data(room)] == list(range(count))
    finally:
        await proxy.close()


def token(name, seconds=60, **claims):
    """A token as an application of Centrifugo has it."""
    return issue("HS256", seconds, sub=name, **claims)


async def test_tokens_grant_what_they_name(keyed_world):
    """Claims of Centrifugo and of this server: `channels`, `channel`, `subscribe`, `publish`, `presence`; joins and leaves."""
    world, own, other = keyed_world, f"own.{uuid.uuid4().hex}", f"own.{uuid.uuid4().hex}"
    romeo = token("romeo", subscribe=[own], publish=[own], presence=[own])
    by_sub = token("romeo", channel=other)
    async with Page(world, {own: {"joinLeave": True}, other: {"token": by_sub}, "own.no": {}}, token=romeo) as page:
        await page.until(lambda: len(page.all("subscribed")) == 2 and page.all("unsubscribed"))
        assert page.all("unsubscribed")[0]["of"] == "own.no" and page.all("unsubscribed")[0]["code"] == 103
        assert await page.call("publish", own, data=1) == {}
        assert await page.call("publish", other, data=1) == {"refused": 103}
        assert await page.call("history", other, limit=1) == {"publications": [], "epoch": page.all("subscribed", other)[0]["streamPosition"]["epoch"], "offset": 0}
        assert await page.call("presence", other) == {"refused": 103}
        async with Page(world, token=token("juliet", channels=[own])) as server_side:
            await server_side.until(lambda: server_side.all("subscribed"))
            assert server_side.all("subscribed")[0]["channel"] == own
            await page.until(lambda: any(told["info"]["user"] == "juliet" for told in page.all("join", own)))
            assert await page.call("publish", own, data="for all") == {}
            await server_side.until(lambda: server_side.data() == ["for all"])
            clients = (await page.call("presence", own))["clients"]
            assert {one["user"] for one in clients.values()} == {"romeo", "juliet"}
        await page.until(lambda: any(told["info"]["user"] == "juliet" for told in page.all("leave", own)))
    async with Page(world, [own]) as nobody:
        await nobody.until(lambda: nobody.all("unsubscribed"))
        assert nobody.all("unsubscribed")[0]["code"] == 103 and nobody.all("connected")


async def test_the_library_renews_tokens(keyed_world):
    """Refresh of the connection and of a subscription before the end, and after it when the client was away."""
    world, own, other = keyed_world, f"own.{uuid.uuid4().hex}", f"own.{uuid.uuid4().hex}"
    renewed = {"connection": token("romeo", 600, subscribe=[own], publish=[own, other]), other: token("romeo", 600, channel=other)}
    channels = {own: {}, other: {"token": token("romeo", 5, channel=other)}}
    async with Page(world, channels, token=token("romeo", 5, subscribe=[own]), renewed=renewed) as page:
        await page.until(lambda: len(page.all("subscribed")) == 2)
        await page.until(lambda: len(page.all("getToken")) == 2)
        await asyncio.sleep(8)
        assert await page.call("publish", other, data="in time") == {}
        await page.until(lambda: page.data(other) == ["in time"])
        assert len(page.all("connected")) == 1 and not page.all("subscribing", own)[1:]
    expired = token("romeo", -5, subscribe=[own])
    async with Page(world, [own], token=expired, renewed=renewed) as page:
        await page.until(lambda: page.all("subscribed"))
        assert page.all("getToken") and page.all("error")[0]["error"] == 109
    async with Page(world, [own], token=token("romeo", 4, subscribe=[own])) as page:
        await page.until(lambda: page.all("disconnected"))
        assert page.all("disconnected")[0]["code"] == 1, "unauthorized: it has no other token"


async def test_forged_tokens_end_the_connection(keyed_world):
    """3500: the client does not come back by itself."""
    world = keyed_world
    good = token("romeo", channels=["own.x"])
    claims = jwt.decode(good, options={"verify_signature": False})
    forged = jwt.encode(claims, b"x" * 32, algorithm="HS256", headers={"kid": "2026-HS256"})
    unsigned = jwt.encode(claims, None, algorithm="none")
    endless = jwt.encode({**claims, "exp": None}, SECRET, algorithm="HS256", headers={"kid": "2026-HS256"})
    for wrong in (forged, unsigned, endless, good[:-2], token("romeo", channel="own.x"), token("romeo", aud="other"), "x"):
        async with Page(world, token=wrong) as page:
            await page.until(lambda page=page: page.all("disconnected"))
            assert page.all("disconnected")[0]["code"] == 3500 and not page.all("connected")
    # What Centrifugo grants by a claim is granted at /n/, and nothing else.
    assert (await fetch(world, "own.x", token=good))[0] in (200, 204)
    assert (await fetch(world, "own.y", token=good))[0] == 403


async def test_what_is_no_command_is_refused(notifying_world):
    """By `websockets`: bad JSON, the wrong order, binary messages, huge ones, subprotocols; and a page meanwhile is told."""
    world, (room, channel) = notifying_world, fresh()
    async with Page(world, [room]) as page:
        await page.until(lambda: page.all("subscribed"))
        first = '{"id":1,"connect":{}}'
        for messages, code in ((["x"], 3501), (['{"id":1,"ping":{}}'], 3501), ([first, first], 3501), ([first, "[]"], 3501), ([first, '{"id":2'], 3501),
                               ([first, b"{}"], 1003), ([" " * 20_000], 1009), ([first, " " * 70_000], 1009)):
            async with connect(address(world)) as raw:
                with pytest.raises(ConnectionClosed) as closed:
                    for message in messages:
                        await raw.send(message)
                    while True:
                        await asyncio.wait_for(raw.recv(), WAIT)
                assert closed.value.rcvd.code == code, messages
        with pytest.raises(InvalidStatus):
            await connect(address(world), subprotocols=["centrifuge-protobuf"])
        async with connect(address(world), subprotocols=["centrifuge-json"]) as raw:
            lines = [first] + [json.dumps({"id": n, "subscribe": {"channel": f"{channel}.{n}"}}) for n in range(2, 140)]
            await raw.send("\n".join(lines))
            replies = [json.loads(await asyncio.wait_for(raw.recv(), WAIT)) for _ in lines]
            assert sum("subscribe" in reply for reply in replies) == 128
            assert {reply["error"]["code"] for reply in replies if "error" in reply} == {106}
        await asyncio.to_thread(publish, world, channel, "still there", uuid.uuid4().hex)
        await page.until(lambda: page.data(room) == ["still there"])
