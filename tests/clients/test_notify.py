"""Channels of notifications at `/n/` by curl, by sseclient-py, by `websockets` and by slixmpp: those who subscribe by XMPP
and those who subscribe by HTTP see the same items, also over restarts by `kill -9`."""

import asyncio
import itertools
import json
import re
import shutil
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import sseclient
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from events import WAIT
from servers import DOMAIN

ROOT = Path(__file__).parents[2]
# Pages with the three lines.
PAGES = ["README.md", "docs/notifications.md"]
SERVICE = f"pubsub.{DOMAIN}"


def url(world, path, tls=False):
    """Where a channel is."""
    if tls:
        return f"https://{DOMAIN}:{world.server.https}/n/{path}"
    return f"http://127.0.0.1:{world.server.http}/n/{path}"


def ask(world, path, body=None, tls=False, **fields):
    """One request: the status, the header fields and the body."""
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    request = urllib.request.Request(url(world, path, tls), data=body, headers=headers)
    context = ssl.create_default_context(cafile=str(world.server.cafile)) if tls else None
    try:
        with urllib.request.urlopen(request, timeout=WAIT, context=context) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def publish(world, channel, body, key, kind="text/plain"):
    """Publishes until it is known that it was: the id of the item."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            fields = {"Content_Type": kind, "Idempotency_Key": key}
            status, _, answer = ask(world, channel, body.encode(), **fields)
            if status == 200:
                return int(json.loads(answer)["id"])
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("nothing was published in a minute")


class Events(threading.Thread):
    """A subscriber by server-sent events that comes back with the id it had last, as browsers do."""

    def __init__(self, world, path, last="0"):
        super().__init__(daemon=True)
        self.world, self.path, self.last = world, path, last
        self.got, self.gaps, self.connections, self.over = [], 0, 0, False
        self.start()

    def run(self):
        while not self.over:
            try:
                fields = {"Accept": "text/event-stream", "Last-Event-ID": self.last}
                request = urllib.request.Request(url(self.world, self.path), headers=fields)
                with urllib.request.urlopen(request, timeout=WAIT) as response:
                    self.connections += 1
                    for event in sseclient.SSEClient(response).events():
                        self.take(event)
            except OSError:
                pass
            time.sleep(0.02)

    def take(self, event):
        self.last = event.id
        if event.event == "gap":
            self.gaps += 1
        else:
            self.got.append(json.loads(event.data))

    def wait(self, count):
        """Waits until so many items have come; their data."""
        deadline = time.monotonic() + 2 * WAIT
        while len(self.got) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        return [item["data"] for item in self.got]


def websocket(world, path, tls=False, **options):
    """A subscription by WebSocket."""
    context = {"ssl": ssl.create_default_context(cafile=str(world.server.cafile)), "server_hostname": DOMAIN} if tls else {}
    address = url(world, path, tls).replace("http", "ws", 1)
    return connect(address, host="127.0.0.1", proxy=None, **{**context, **options})


async def message(socket):
    """What a WebSocket brings next."""
    return json.loads(await asyncio.wait_for(socket.recv(), WAIT))


class Messages:
    """A subscriber by WebSocket that comes back to the place that it was told last."""

    def __init__(self, world, path, tls=False):
        self.world, self.path, self.tls, self.last = world, path, tls, "0"
        self.got, self.gaps, self.connections = [], [], 0
        self.task = asyncio.create_task(self.run())

    async def run(self):
        while True:
            try:
                async with websocket(self.world, f"{self.path}?after={self.last}", self.tls) as socket:
                    self.connections += 1
                    async for text in socket:
                        told = json.loads(text)
                        assert set(told) == {"items", "gaps", "after"}
                        self.last = told["after"]
                        self.got += told["items"]
                        self.gaps += told["gaps"]
            except (OSError, ConnectionClosed, InvalidHandshake, EOFError, asyncio.TimeoutError):
                pass
            await asyncio.sleep(0.02)

    async def wait(self, count):
        """Waits until so many items have come; their data."""
        deadline = time.monotonic() + 2 * WAIT
        while len(self.got) < count and time.monotonic() < deadline:
            assert not self.task.done(), self.task
            await asyncio.sleep(0.02)
        return [item["data"] for item in self.got]


@pytest.fixture
def curl():
    """Skips where there is no curl."""
    if not shutil.which("curl"):
        pytest.skip("needs curl")


@pytest.mark.parametrize("page", PAGES)
async def test_the_page_begins_with_three_lines_that_work(notifying_world, curl, page):
    """What is pasted from a page does what it says it does."""
    first = re.findall("```sh\n(.*?)```", (ROOT / page).read_text(), re.S)[1].strip().splitlines()
    assert len(first) == 3 and all(line.startswith("curl ") for line in first)
    # The server is that of all these tests.
    channel = f"hello.{PAGES.index(page)}"
    lines = "\n".join(first).replace("127.0.0.1:5280/n/hello", f"127.0.0.1:{notifying_world.server.http}/n/{channel}")
    done = await asyncio.to_thread(
        subprocess.run, ["bash", "-c", lines + "\nwait"], capture_output=True, text=True, timeout=WAIT
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == 3, done.stdout + done.stderr
    published = next(answer for answer in answers if "repeated" in answer)
    polls = [answer for answer in answers if "items" in answer]
    assert published["channel"] == channel and len(polls) == 2
    for poll in polls:
        assert [item["data"] for item in poll["items"]] == ["Hello, world"] and poll["after"] == published["id"]


async def test_xmpp_and_http_see_the_same_items(notifying_world):
    """XEP-0060 7.1, XEP-0335: slixmpp and sseclient-py subscribe to one channel, and publish to each other."""
    world = notifying_world
    romeo = await world.online("slixmpp")
    for plugin in ("xep_0059", "xep_0060"):
        romeo.client.register_plugin(plugin)
    pubsub, heard = romeo.client.plugin["xep_0060"], asyncio.Queue()
    romeo.client.add_event_handler("pubsub_publish", heard.put_nowait)
    channel = "play.verona"
    assert await asyncio.to_thread(publish, world, channel, "first", "k0") == 1
    await romeo._iq(pubsub.subscribe(SERVICE, channel))
    events = Events(world, channel)
    bodies = ["first", '{"n": 1, "text": "\u00e9 < & >"}', "line\r\nend\tand \u0001"]
    for number, body in enumerate(bodies[1:], 1):
        kind = "application/json" if number == 1 else "text/plain"
        await asyncio.to_thread(publish, world, channel, body, f"k{number}", kind)
    told = [await asyncio.wait_for(heard.get(), WAIT) for _ in bodies[1:]]
    payloads = [msg["pubsub_event"]["items"]["item"]["payload"] for msg in told]
    assert payloads[0].tag == "{urn:xmpp:json:0}json" and payloads[0].text == bodies[1]
    assert payloads[1].tag == "{urn:throng:notify:0}data" and payloads[1].get("encoding") == "base64"
    assert await asyncio.to_thread(events.wait, 3) == bodies
    items = [msg["pubsub_event"]["items"]["item"]["id"] for msg in told]
    assert [item["item"] for item in events.got[1:]] == items == ["k-k1", "k-k2"]
    assert [item["type"] for item in events.got] == ["text/plain", "application/json", "text/plain"]
    # What is read by XMPP is what is read by HTTP.
    kept = await romeo._iq(pubsub.get_items(SERVICE, channel))
    _, _, answer = await asyncio.to_thread(ask, world, channel)
    there = [item["item"] for item in json.loads(answer)["items"]]
    assert [item["id"] for item in kept["pubsub"]["items"]["substanzas"]] == there == ["k-k0", *items]
    events.over = True


async def test_long_polls_of_many_wait_on_all_threads(notifying_world):
    """Forty polls wait, on whatever thread they arrive, over TLS and without; one item answers them all."""
    world, channel = notifying_world, "crowd"
    await asyncio.to_thread(publish, world, channel, "before", "k0")
    loop = asyncio.get_running_loop()
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(41) as pool:
        polls = [
            loop.run_in_executor(pool, lambda n=n: ask(world, f"{channel},other?after=1,0&wait=20", tls=n % 2 == 0))
            for n in range(40)
        ]
        await asyncio.sleep(1)
        assert not any(poll.done() for poll in polls)
        await loop.run_in_executor(pool, lambda: publish(world, channel, "now", "k1"))
        for status, fields, answer in await asyncio.wait_for(asyncio.gather(*polls), WAIT):
            answer = json.loads(answer)
            assert (status, fields["Content-Type"], answer["after"]) == (200, "application/json", "2,0")
            assert [item["data"] for item in answer["items"]] == ["now"]
    status, fields, _ = await asyncio.to_thread(ask, world, f"{channel}?after=2&wait=1")
    assert (status, fields["Next-After"]) == (204, "2")


async def test_each_item_once_and_in_order_over_kills(notifying_world):
    """A channel is durable: a subscriber that is thrown off and comes back has each item once, in order, and a publisher that
    is thrown off and repeats its keys has published each once."""
    world, channel, least = notifying_world, "killed", 60
    events = [Events(world, channel) for _ in range(3)]
    messages = [Messages(world, channel, tls=number % 2 == 1) for number in range(4)]
    over = threading.Event()

    def writes():
        for number in itertools.count():
            publish(world, channel, str(number), f"key-{number}")
            if over.is_set() and number >= least:
                return number + 1
            time.sleep(0.05)

    writer = asyncio.create_task(asyncio.to_thread(writes))
    kills = 4
    for _ in range(kills):
        await asyncio.sleep(0.6)
        await asyncio.to_thread(world.server.restart, True)
    over.set()
    count = await writer
    for reader in events:
        assert await asyncio.to_thread(reader.wait, count) == [str(number) for number in range(count)]
        # Each has come back for the items after the last kill.
        assert reader.gaps == 0 and reader.connections > kills
        reader.over = True
    for reader in messages:
        assert await reader.wait(count) == [str(number) for number in range(count)]
        assert reader.gaps == [] and reader.connections > kills
        reader.task.cancel()


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
async def test_a_websocket_has_what_a_poll_is_answered(notifying_world, secure):
    """RFC 6455 4.1, 5.5: `websockets` subscribes without a subprotocol and with one that is not chosen, on whatever thread
    it arrives; it is told at once where it begins, pings are answered, a sign of life comes after 15 s, and a close is answered."""
    world, channel = notifying_world, f"socket.{'wss' if secure else 'ws'}"
    await asyncio.to_thread(publish, world, channel, "first", "k0")
    sockets = [await websocket(world, f"{channel},other", secure) for _ in range(7)]
    sockets.append(await websocket(world, f"{channel},other?after=0,0", secure, subprotocols=["throng", "xmpp"]))
    assert [socket.subprotocol for socket in sockets] == [None] * 8
    for socket in sockets[:7]:
        assert await message(socket) == {"items": [], "gaps": [], "after": "1,0"}, "from now on, and where that is"
    assert [item["data"] for item in (await message(sockets[7]))["items"]] == ["first"]
    _, _, answer = await asyncio.to_thread(
        ask, world, channel, b'"a"\n{"b": 1}\n', Content_Type="application/x-ndjson", Idempotency_Key="k1"
    )
    assert json.loads(answer) == {"channel": channel, "ids": ["2", "3"], "repeated": False, "subscribers": 8}
    _, _, poll = await asyncio.to_thread(ask, world, f"{channel}?after=1")
    expected = json.loads(poll)["items"]
    assert [(item["type"], item["data"]) for item in expected] == [("application/json", '"a"'), ("application/json", '{"b": 1}')]
    for socket in sockets:
        items = []
        while len(items) < 2:
            told = await message(socket)
            assert told["gaps"] == []
            items += told["items"]
        assert (items, told["after"]) == (expected, "3,0")
        await asyncio.wait_for(await socket.ping(b"there?"), WAIT)
    assert await message(sockets[0]) == {"items": [], "gaps": [], "after": "3,0"}, "a sign of life"
    for socket in sockets:
        await asyncio.wait_for(socket.close(1000, "enough"), WAIT)
        assert socket.close_code == 1000


async def test_nothing_is_published_over_a_websocket(notifying_world):
    """RFC 6455 7.4.1: data is refused with 1003, and what may not be subscribed to before the handshake."""
    async with websocket(notifying_world, "a") as socket:
        assert (await message(socket))["items"] == []
        await socket.send("{}")
        with pytest.raises(ConnectionClosed) as closed:
            await message(socket)
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1003, "messages are not accepted here; publish by POST")
    with pytest.raises(InvalidStatus) as refused:
        await websocket(notifying_world, "a?after=x")
    assert refused.value.response.status_code == 400


async def test_refusals_say_what_to_do(world_of_websockets, notifying_world):
    """Off by default, and bounded: 404, 400 and 413 as text."""
    status, _, text = await asyncio.to_thread(ask, world_of_websockets, "a")
    assert (status, text) == (404, "nothing is served at this path\n")
    for path, body, wanted, words in [
        ("a/b", None, 400, "letters, digits"), ("a?after=x", None, 400, "id of an item"), ("a", b"x" * 40_000, 413, "too long"),
    ]:
        status, _, text = await asyncio.to_thread(ask, notifying_world, path, body)
        assert status == wanted and words in text


@pytest.fixture
def world_of_websockets(server, loop, request):
    """A world on the server of all tests, where channels are off."""
    from conftest import new_world
    yield from new_world(server, "starttls", loop, request)


async def test_the_last_item_of_each_key_arrives_over_a_kill(notifying_world):
    """Who comes late, who comes back after `kill -9`, and who polls has the last item of each key, and no gap is told."""
    world, channel = notifying_world, "keyed"

    def put(body, key, by):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                fields = {"Content_Type": "text/plain", "Item_Key": key, "Idempotency_Key": by}
                status, _, answer = ask(world, channel, body.encode(), **fields)
                if status == 200:
                    return int(json.loads(answer)["id"])
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError("nothing was published in a minute")

    last = 0
    for number in range(200):
        last = await asyncio.to_thread(put, str(number), f"k{number % 4}", f"n{number}")
    await asyncio.to_thread(world.server.restart, True)
    expected = [(f"k{number % 4}", str(number)) for number in range(196, 200)]
    _, _, answer = await asyncio.to_thread(ask, world, f"{channel}?after=1")
    answer = json.loads(answer)
    assert [(item["key"], item["data"]) for item in answer["items"]] == expected
    assert (answer["gaps"], answer["after"]) == ([], str(last))
    events = Events(world, channel, "1")
    await asyncio.to_thread(events.wait, 4)
    async with websocket(world, f"{channel}?after=1") as socket:
        assert [item["data"] for item in (await message(socket))["items"]] == [data for _, data in expected]
        await asyncio.to_thread(put, "200", "k0", "n200")
        assert [item["key"] for item in (await message(socket))["items"]] == ["k0"]
    await asyncio.to_thread(events.wait, 5)
    assert [(item["key"], item["data"]) for item in events.got] == [*expected, ("k0", "200")] and not events.gaps
    events.over = True


async def test_items_in_memory_go_with_the_server_and_a_gap_is_told(notifying_world):
    """Of a channel of `notify_memory` each item comes once and in order while the server is there. After `kill -9` those who come
    back are told a gap and have all that comes from then on, also those who subscribe by XMPP."""
    world, channel = notifying_world, "memory.prices"
    romeo = await world.online("slixmpp")
    for plugin in ("xep_0059", "xep_0060"):
        romeo.client.register_plugin(plugin)
    pubsub = romeo.client.plugin["xep_0060"]
    first = await asyncio.to_thread(publish, world, channel, "0", "k0")
    events, messages = Events(world, channel), Messages(world, channel)
    for number in range(1, 20):
        await asyncio.to_thread(publish, world, channel, str(number), f"k{number}")
    expected = [str(number) for number in range(20)]
    assert await asyncio.to_thread(events.wait, 20) == await messages.wait(20) == expected
    # A repetition is known, and so is what was published before, by HTTP and by XMPP.
    assert await asyncio.to_thread(publish, world, channel, "19", "k19") == first + 19
    _, _, answer = await asyncio.to_thread(ask, world, f"{channel}?after={first + 17}")
    assert [item["data"] for item in json.loads(answer)["items"]] == ["18", "19"]
    kept = await romeo._iq(pubsub.get_items(SERVICE, channel))
    assert [item["id"] for item in kept["pubsub"]["items"]["substanzas"]] == [f"k-k{number}" for number in range(20)]
    assert (events.gaps, messages.gaps) == (0, [])
    await asyncio.to_thread(world.server.restart, True)
    last = await asyncio.to_thread(publish, world, channel, "20", "k20")
    assert last > first + 20
    assert await asyncio.to_thread(events.wait, 21) == await messages.wait(21) == [*expected, "20"]
    assert events.gaps == 1 and len(messages.gaps) == 1
    _, _, answer = await asyncio.to_thread(ask, world, channel)
    assert [(item["id"], item["data"]) for item in json.loads(answer)["items"]] == [(str(last), "20")]
    events.over = True
    messages.task.cancel()
