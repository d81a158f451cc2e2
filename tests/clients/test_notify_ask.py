"""Channels of which a web service says who may use them (docs/notifications.md): a service of Python's `http.server` that also fails as
tests want it to, and the one that the page shows. Clients are curl, sseclient-py and `websockets`."""

import asyncio
import json
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest
import sseclient
from websockets.exceptions import ConnectionClosed, InvalidStatus

from decider import WRONG
from events import WAIT
from ports import free_port
from test_mercure import request as hub
from test_notify import ask, message, url, websocket

ROOT = Path(__file__).resolve().parents[2]


def fresh(kind="app"):
    """A channel that no other test has."""
    return f"{kind}.{uuid.uuid4().hex}"


def bearer(name):
    return {"Authorization": f"Bearer {name}"}


async def fetch(world, path, body=None, tls=False, **fields):
    return await asyncio.to_thread(ask, world, path, body, tls, **fields)


class Stream(threading.Thread):
    """Server-sent events until they end."""

    def __init__(self, world, path, **fields):
        super().__init__(daemon=True)
        self.request = urllib.request.Request(url(world, path), headers={"Accept": "text/event-stream", **fields})
        self.got, self.status, self.began, self.ended = [], None, threading.Event(), threading.Event()
        self.start()

    def run(self):
        try:
            with urllib.request.urlopen(self.request, timeout=60) as response:
                self.status = response.status
                self.began.set()
                for event in sseclient.SSEClient(response).events():
                    self.got.append((event.event, event.data))
        except urllib.error.HTTPError as error:
            self.status = error.code
        except OSError as error:
            self.got.append(("error", error))
        self.began.set()
        self.ended.set()

    async def until(self, count):
        deadline = time.monotonic() + WAIT
        while len(self.got) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        return self.got[:count]


async def until(what, seconds=WAIT):
    """Waits until something is so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def listens(port):
    """Whether somebody does."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def ready(world):
    """What `/ready` says."""
    with urllib.request.urlopen(f"http://127.0.0.1:{world.server.admin_http}/ready", timeout=10) as answered:
        return json.load(answered)


async def test_the_service_decides_by_what_a_request_shows(asking_world):
    """Publish (single and batch), long poll, events and WebSocket, with and without TLS; and what the service is told of each."""
    world, channel = asking_world, fresh()
    decider = world.server.decider
    for fields in ({}, {"Cookie": "session=romeo"}):
        # RFC 6454: of a POST without an origin it is not known which page sends it, so its cookie shows nothing.
        assert (await fetch(world, channel, b"x", **fields))[0] == 403
    own = f"http://127.0.0.1:{world.server.http}"
    status, _, answer = await fetch(world, channel, b"one", Cookie="session=romeo", Origin=own, X_Other="1")
    assert (status, json.loads(answer)["id"]) == (200, "1"), answer
    question = decider.questions[-1]
    assert question == {"operation": "publish", "channels": [channel], "occupancy": False, "address": "127.0.0.1", "origin": own,
                        "headers": {"cookie": "session=romeo"}}
    batch = {**bearer("romeo"), "Content_Type": "application/x-ndjson"}
    status, _, answer = await fetch(world, channel, b'{"n":2}\n{"n":3}\n', True, **batch)
    assert (status, json.loads(answer)["ids"]) == (200, ["2", "3"])
    status, _, answer = await fetch(world, f"{channel}?after=0", Cookie="session=juliet")
    assert (status, len(json.loads(answer)["items"])) == (200, 3)
    # A poll that waits, events and a WebSocket, whose token is in the address.
    poll = asyncio.create_task(fetch(world, f"{channel}?after=3&wait=20", **bearer("juliet")))
    stream = Stream(world, f"{channel}?access_token=nurse")
    async with websocket(world, f"{channel}?access_token=tybalt", True) as web:
        assert (await message(web))["after"] == "3"
        await asyncio.to_thread(stream.began.wait, WAIT)
        assert stream.status == 200
        await until(lambda: sum(q["headers"].get("authorization") == "Bearer juliet" for q in decider.questions) == 1)
        assert (await fetch(world, channel, b"four", **bearer("romeo")))[0] == 200
        assert (await message(web))["items"][0]["data"] == "four"
    assert json.loads((await poll)[2])["items"][0]["data"] == "four"
    assert json.loads((await stream.until(1))[0][1])["data"] == "four"
    asked = [q["headers"].get("authorization") for q in decider.questions if q["channels"] == [channel]]
    assert {"Bearer nurse", "Bearer tybalt"} <= set(asked)
    assert not decider.wrong, "the server shows its token"


async def test_what_is_denied_is_403(asking_world):
    """And so are requests for several channels of which one is closed. What nobody has to decide is not asked about."""
    world = asking_world
    channel, closed = fresh(), fresh("app.closed")
    assert (await fetch(world, closed, b"x", **bearer("romeo")))[0] == 403
    assert (await fetch(world, f"{channel},{closed}", **bearer("romeo")))[0] == 403
    stream = Stream(world, closed, **bearer("romeo"))
    await asyncio.to_thread(stream.ended.wait, WAIT)
    assert stream.status == 403
    with pytest.raises(InvalidStatus) as refused:
        async with websocket(world, f"{closed}?access_token=romeo"):
            pass
    assert refused.value.response.status_code == 403
    before = len(world.server.decider.questions)
    news = fresh("news")
    assert (await fetch(world, news, b"x"))[0] == 200
    assert (await fetch(world, f"{news}?after=0"))[0] == 200
    assert len(world.server.decider.questions) == before
    assert (await fetch(world, f"{news},{channel}", **bearer("romeo")))[0] == 200
    assert world.server.decider.questions[-1]["channels"] == [channel]


async def test_a_foreign_page_uses_nobodys_cookie(asking_world):
    """RFC 6455 10.2: a browser opens WebSockets for any page, with the user's cookies."""
    world, channel = asking_world, fresh()
    cookie = {"Cookie": "session=romeo"}
    with pytest.raises(InvalidStatus) as refused:
        async with websocket(world, channel, origin="https://evil.example", additional_headers=cookie):
            pass
    assert refused.value.response.status_code == 403
    question = world.server.decider.questions[-1]
    assert (question["origin"], question["headers"]) == ("https://evil.example", {})
    async with websocket(world, channel, origin=f"http://127.0.0.1:{world.server.http}", additional_headers=cookie) as web:
        assert (await message(web))["items"] == []


async def test_what_is_allowed_ends_and_is_asked_again(asking_world):
    """The time that the service says: the same question has its answer, then subscriptions end."""
    world, kept, channel = asking_world, fresh(), fresh()
    decider = world.server.decider
    count = lambda of: sum(question["channels"] == [of] for question in decider.questions)
    try:
        decider.seconds = 600
        shards = 3
        for _ in range(10):
            assert (await fetch(world, f"{kept}?after=0&wait=0", **bearer("romeo")))[0] == 204
        assert 1 <= count(kept) <= shards, "once for each thread at most"
        decider.seconds = 5
        stream = Stream(world, channel, **bearer("romeo"))
        await asyncio.to_thread(stream.began.wait, WAIT)
        async with websocket(world, f"{channel}?access_token=juliet") as web:
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await message(web)
        assert closed.value.rcvd.code == 1008
        await asyncio.to_thread(stream.ended.wait, WAIT)
        assert stream.got[-1] == ("expired", "{}")
    finally:
        decider.seconds = None
    before = count(channel)
    assert (await fetch(world, f"{channel}?after=0&wait=0", **bearer("romeo")))[0] == 204
    assert count(channel) == before + 1


async def test_names_are_told_to_others(asking_world):
    """Who subscribes, by the names that the service says."""
    world, channel = asking_world, fresh()
    streams = [Stream(world, channel, **bearer(name)) for name in ("romeo", "juliet")]
    for stream in streams:
        await asyncio.to_thread(stream.began.wait, WAIT)
    deadline = time.monotonic() + WAIT
    while True:
        status, _, answer = await fetch(world, f"{channel}?occupancy", **bearer("nurse"))
        told = json.loads(answer)
        if told["subscribers"] == 2 or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    assert status == 200 and [who["name"] for who in told["who"]] == ["juliet", "romeo"], answer
    assert world.server.decider.questions[-1]["operation"] == "presence"


async def test_mercure_asks_the_same(asking_world):
    """draft-dunglas-mercure-07 5."""
    world, channel = asking_world, fresh()
    form = [("topic", channel), ("data", "x")]
    for headers, status in (({}, 403), (bearer("romeo"), 200)):
        assert (await asyncio.to_thread(hub, world, form, headers=headers))[0] == status
    question = world.server.decider.questions[-1]
    assert (question["operation"], question["channels"]) == ("publish", [channel])
    assert (await asyncio.to_thread(hub, world, None, [channel]))[0] == 403
    assert (await asyncio.to_thread(hub, world, None, [channel], headers=bearer("romeo")))[0] == 200


@pytest.mark.parametrize("how", WRONG)
async def test_a_service_that_fails_neither_allows_nor_denies(asking_world, how):
    """RFC 9110 15.6.4: 503 in bounded time, and nothing is published; others are served meanwhile."""
    world, channel = asking_world, fresh()
    wrong = asyncio.create_task(fetch(world, channel, b"wrong", **bearer(how)))
    assert (await fetch(world, channel, b"right", **bearer("romeo")))[0] == 200
    assert how not in ("hang", "drip") or not wrong.done(), "others do not wait for the one that fails"
    status, fields, _ = await wrong
    # The service hangs for longer than this test waits.
    assert (status, fields["Retry-After"]) == (503, "5")
    status, _, answer = await fetch(world, channel, **bearer("romeo"))
    assert [item["data"] for item in json.loads(answer)["items"]] == ["right"]


async def test_a_service_that_is_down_costs_nobody_time(asking_world):
    """After failures in a row requests are refused at once; operators are told; and it goes on by itself when the service is back."""
    world, server = asking_world, asking_world.server
    stream = Stream(world, fresh(), **bearer("romeo"))
    await asyncio.to_thread(stream.began.wait, WAIT)
    server.decider.stop()
    try:
        deadline = time.monotonic() + WAIT
        while not any("notify_ask" in why for why in ready(world)["degraded"]):
            assert (await fetch(world, fresh(), **bearer("romeo")))[0] == 503
            assert time.monotonic() < deadline
        for _ in range(20):
            assert (await fetch(world, fresh(), **bearer("romeo")))[0] == 503
        # What needs no answer goes on, and so does who has one.
        assert (await fetch(world, fresh("news"), b"x"))[0] == 200
        assert not stream.ended.is_set()
        assert b"the service of notify_ask" in subprocess.run(
            [server.binary, "ctl", "status", "--data", str(server.data)], capture_output=True, timeout=60).stdout
    finally:
        server.decider.start()
    deadline = time.monotonic() + WAIT
    while (await fetch(world, fresh(), **bearer("romeo")))[0] != 204:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.3)
    assert not any("notify_ask" in why for why in ready(world)["degraded"])
    log = server.log_path.read_text()
    assert "the service of notify_ask failed" in log and "the service of notify_ask is down" in log
    assert "Bearer romeo" not in log
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{server.admin_http}/metrics", timeout=10).read().decode()
    assert float(re.search(r"throng_notify_ask_yes_total ([0-9.]+)", metrics)[1]) > 0


async def test_clients_that_go_while_they_are_asked_about_cost_nothing(asking_world):
    """A body is held until the service answers, or its client goes; the service hangs, and others are served all the same."""
    world, channel = asking_world, fresh()
    server = world.server
    body = b"x" * 30_000

    def gauge(name):
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{server.admin_http}/metrics", timeout=10).read().decode()
        return sum(float(value) for value in re.findall(rf"throng_shard_{name}{{[^}}]*}} ([0-9.e+]+)", metrics))

    async def goes():
        reader, writer = await asyncio.open_connection("127.0.0.1", server.http)
        head = f"POST /n/{channel} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer hang\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return writer

    writers = [await goes() for _ in range(4)]
    await until(lambda: gauge("notify_held_bytes") > 4 * len(body))
    assert (await fetch(world, channel, b"right", **bearer("romeo")))[0] == 200
    for writer in writers:
        writer.transport.abort()
    await until(lambda: gauge("notify_held_bytes") == 0)
    await until(lambda: gauge("notify_asking") == 0)
    status, _, answer = await fetch(world, channel, **bearer("romeo"))
    assert [item["data"] for item in json.loads(answer)["items"]] == ["right"]


async def test_the_page_has_a_service_that_works(asking_world):
    """The lines of the page, with their ports changed."""
    world = asking_world
    port, http, folder = free_port(), free_port(), world.server.folder / f"page-{uuid.uuid4().hex}"
    page = (ROOT / "docs" / "notifications.md").read_text()
    section = page.split("## Channels of which your application decides")[1].split("**The question**")[0]
    starts, asks = re.findall(r"```sh\n(.*?)```", section, re.S)
    change = lambda text: text.replace("8080", str(port)).replace("5280", str(http)).replace("/tmp/channels", str(folder))
    decider, serve = change(starts).split("&\n")
    command = serve.replace("\\\n", " ").split()
    command = [world.server.binary, *command[1:], "--driver", world.server.driver, "--c2s", f"127.0.0.1:{free_port()}", "--c2s-tls", "off",
               "--admin-http", "off"]
    programs = [subprocess.Popen(decider.split(), cwd=ROOT)]
    try:
        with open(world.server.folder / "page.log", "ab") as log:
            programs.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        for one in (port, http):
            await until(lambda one=one: listens(one))
        said = await asyncio.to_thread(subprocess.run, ["sh", "-ec", change(asks)], capture_output=True, text=True, timeout=60)
        denied, published, read = said.stdout.splitlines()
        assert denied.startswith("HTTP/1.1 403"), said.stdout
        assert json.loads(published)["id"] == "1"
        assert [item["data"] for item in json.loads(read)["items"]] == ["Hello"]
    finally:
        for program in programs:
            program.terminate()
            program.wait()
