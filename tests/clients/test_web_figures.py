"""What operators see of channels and of BOSH is what clients have done: by `/metrics`, `throng sar` and `throng top`."""

import asyncio
import json
import socket
import subprocess
import time

import pytest

from conftest import new_world, running
from servers import Throng
from test_metrics import values
from test_notify import ask, message, websocket

#: Seconds until figures have to be what they are to be.
SOON = 20
WAITING = ["notify_polls", "notify_events", "notify_sockets", "notify_waiting", "notify_channels", "websockets", "bosh_sessions", "bosh_waiting"]
COUNTED = ["notify_published", "notify_told", "notify_gaps", "notify_publish_refused", "notify_subscribe_refused", "bosh_requests"]
NDJSON = "application/x-ndjson"


@pytest.fixture(scope="module")
def counted_server(server, request, loop):
    """A second one of which nobody else wants anything, so that its figures are those of one test."""
    if server.driver == "prosody":
        pytest.skip("a second server, of Throng only")
    options = ["--notify", "open.", "--notify-publish-open", "--notify-publications-per-second", "0", "--notify-items-max", "3", "--mercure"]
    yield from running(Throng(server.driver, request.config.getoption("--shards"), accounts=10, options=options), loop)


@pytest.fixture
def counted_world(counted_server, loop, request):
    """The clients of one test on that server."""
    yield from new_world(counted_server, "starttls", loop, request)


def sent(port, request):
    """A connection that has sent this, and waits."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.sendall(request.encode())
    return connection


def heard(connection, what):
    """Reads until this has come."""
    connection.settimeout(SOON)
    said = b""
    while what not in said:
        more = connection.recv(65536)
        assert more, f"ended: {said!r}"
        said += more
    return said


def get(path, *fields):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *fields, "", ""])


def bosh(rid, attributes):
    body = f"<body xmlns='http://jabber.org/protocol/httpbind' rid='{rid}' {attributes}/>"
    return f"POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\nContent-Length: {len(body)}\r\n\r\n{body}"


def metrics(world):
    """Levels and counters by `/metrics`."""
    told = values(world.server)
    figure = lambda name: told.get(f"throng_shard_{name}", told.get(f"throng_shard_{name}_total"))
    return {name: figure(name) for name in WAITING + COUNTED}


def run(world, *arguments):
    server = world.server
    address = ["--from", f"http://127.0.0.1:{server.admin_http}", "--token-file", str(server.data / "http.token")]
    done = subprocess.run([server.binary, *arguments, *address], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    # A server that has just started has no second to tell of.
    assert done.returncode == 0 or "nothing is recorded yet" in done.stderr, done.stderr
    return done.stdout


def recorded(world):
    """The same by `throng sar`: levels of the last second, and the growth of counters since the start."""
    lines = [json.loads(line) for line in run(world, "sar", "--json", "-s", "-10m", "shard." + ",".join(WAITING + COUNTED)).splitlines()]
    seconds = [line for line in lines if "shard" in line]
    total = dict.fromkeys(WAITING + COUNTED, 0)
    # A second that is over has to be there.
    if not seconds:
        return dict.fromkeys(total)
    for line in seconds:
        for name, row in line["shard"].items():
            assert name != "all", "nothing is thinned yet"
            for counter in COUNTED:
                total[counter] += (row[counter] or 0) * line["seconds"]
    for row in seconds[-1]["shard"].values():
        for level in WAITING:
            total[level] += row[level]
    # Rates are told with three digits behind the point.
    return {name: round(value) for name, value in total.items()}


def screen(world):
    """Levels by `throng top`, by the names of `WAITING`."""
    told = json.loads(run(world, "top", "--json", "--once"))
    shards = [shard["web"] for shard in told["second"]["shards"]]
    sums = {name: sum(shard[name] for shard in shards) for name in shards[0]}
    own = {"notify_polls": "polls", "notify_events": "events", "notify_sockets": "sockets", "notify_waiting": "waiting",
           "notify_channels": "channels", "bosh_sessions": "bosh", "bosh_waiting": "bosh_waiting"}  # fmt: skip
    return {name: sums[figure] for name, figure in own.items()} | {"websockets": sums["websockets"] + sums["sockets"]}


async def soon(look, world, wanted):
    """What is seen becomes this."""
    end = time.monotonic() + SOON
    while True:
        seen = await asyncio.to_thread(look, world)
        if {name: seen[name] for name in wanted} == wanted:
            return
        assert time.monotonic() < end, f"{look.__name__} shows {seen}, not {wanted}"
        await asyncio.sleep(0.2)


async def test_the_figures_are_what_was_done(counted_world):
    """Each subscriber, item, delivery, gap and refusal is counted once, whatever the thread, and every tool shows the same."""
    world, port = counted_world, counted_world.server.http
    # Rates are of the time between two samples: what comes before the first one is in none.
    await soon(recorded, world, {"notify_polls": 0})
    connections = [sent(port, get("/n/open.a?wait=120")) for _ in range(3)]
    connections += [sent(port, get("/n/open.a,open.b", "Accept: text/event-stream")) for _ in range(4)]
    connections += [sent(port, get("/.well-known/mercure?topic=open.a")) for _ in range(2)]
    for stream in connections[3:]:
        await asyncio.to_thread(heard, stream, b"\r\n\r\n")
    sockets = [await websocket(world, "open.a") for _ in range(5)]
    for subscriber in sockets:
        assert (await message(subscriber))["items"] == []
    # A session of BOSH whose second request waits.
    session = sent(port, bosh(100, "to='localhost' wait='60' hold='1' ver='1.6' content='text/xml; charset=utf-8' xmlns:xmpp='urn:xmpp:xbosh' xmpp:version='1.0'"))
    opened = await asyncio.to_thread(heard, session, b"</body>")
    sid = opened.split(b" sid='")[1].split(b"'")[0].decode()
    waits = sent(port, bosh(101, f"sid='{sid}'"))
    levels = {"notify_polls": 3, "notify_events": 6, "notify_sockets": 5, "notify_waiting": 14, "notify_channels": 2, "websockets": 5,
              "bosh_sessions": 1, "bosh_waiting": 1}  # fmt: skip
    for look in (metrics, recorded, screen):
        await soon(look, world, levels)
    text = await asyncio.to_thread(run, world, "top", "--once", "--width", "80", "--height", "24")
    assert "channels 2  polls 3  events 6  sockets 5  " in text, "the head has a line for them"

    # Three polls, six streams and five WebSockets are told of the first item; the last two groups of the other two.
    done = [await asyncio.to_thread(ask, world, "open.a", b"1")]
    for poll in connections[:3]:
        assert b'"data":' in await asyncio.to_thread(heard, poll, b"}\n")
    batch = {"Content_Type": NDJSON, "Idempotency_Key": "k"}
    done += [await asyncio.to_thread(ask, world, "open.a", b"2\n3\n", **batch) for _ in range(2)]
    assert [status for status, *_ in done] == [200, 200, 200] and json.loads(done[2][2])["repeated"]
    for subscriber in sockets:
        items = []
        while len(items) < 3:
            items += (await message(subscriber))["items"]
        assert [item["id"] for item in items] == ["1", "2", "3"]
    for stream in connections[3:7]:
        assert b"id: 1,0\n" in await asyncio.to_thread(heard, stream, b"id: 3,0\n")
    for stream in connections[7:9]:
        await asyncio.to_thread(heard, stream, b"data: 3\n")
    # Who was at the first of six misses two: three are kept.
    for body in (b"4", b"5", b"6"):
        assert (await asyncio.to_thread(ask, world, "open.a", body))[0] == 200
    answer = json.loads((await asyncio.to_thread(ask, world, "open.a?after=1"))[2])
    assert (answer["gaps"], [item["id"] for item in answer["items"]]) == (["open.a"], ["4", "5", "6"])
    refused = [("own", b"x", 404), ("open.a", b"x" * 40_000, 413), ("open.a?after=x", None, 400), ("own", None, 404), ("open.a/b", None, 400)]
    for path, body, status in refused:
        assert (await asyncio.to_thread(ask, world, path, body))[0] == status
    counts = {"notify_published": 6, "notify_told": 3 + 6 * 11 + 3, "notify_gaps": 1, "notify_publish_refused": 2, "notify_subscribe_refused": 3,
              "bosh_requests": 2}  # fmt: skip
    for look in (metrics, recorded):
        await soon(look, world, counts)
    told = values(world.server)
    assert told["throng_publication_seconds_count"] == 6, "one for each request that was done"
    assert 0 < told["throng_publication_seconds_sum"] < 60

    for subscriber in sockets:
        await subscriber.close()
    for connection in (*connections, session, waits):
        connection.close()
    gone = dict.fromkeys(WAITING[:4], 0) | {"websockets": 0}
    for look in (metrics, recorded, screen):
        await soon(look, world, gone)
