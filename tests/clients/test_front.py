"""Throng behind nginx, HAProxy and Caddy, with the configurations that `throng doctor front` writes for them (docs/web.md):
WebSocket (RFC 7395), BOSH (XEP-0124), long polls and events at `/n/`, in silence and in traffic that last longer than the minute
after which proxies usually give up; and whose address the server sees.

`tests/run` gives this file a step of its own, because it holds three proxies and their connections for two minutes on each driver. By
hand: `tests/clients/run test_front.py`."""

import asyncio
import contextlib
import itertools
import json
import re
import ssl
import subprocess
import time

import pytest

from conftest import running
from fronts import PROXIES, STREAMS, Front
from ports import free_port
from raw import BIND, HEADER, Raw, plain
from servers import DOMAIN, Account, Throng
from test_bosh import PING, Session
from test_log import found
from test_metrics import values
from test_websocket import OPEN, log_in, websocket

#: Of each kind, one client is silent for so long, and one says something each second for so long.
HOLD = 75
#: What is told at once has come by then, on a machine that does other work as well, seconds.
LATE = 10
#: Requests of one address that may wait at `/n/`; each of the server's three threads lets a third wait.
WAITING = 30
WEBSOCKET_URL, BOSH_URL = "wss://front.example/xmpp-websocket", "https://front.example/http-bind"


@pytest.fixture(scope="session")
def fronted(server, loop):
    """A server with listeners for proxies."""
    if server.driver == "prosody":
        pytest.skip("Throng's listeners")
    xmpp, xmpps = free_port(), free_port()
    options = ["--http-forwarded", "--websocket-url", WEBSOCKET_URL, "--bosh-url", BOSH_URL,
               "--c2s-proxied", f"127.0.0.1:{xmpp}", "--c2s-tls-proxied", f"127.0.0.1:{xmpps}",
               "--notify", "any", "--notify-publish-open", "--notify-publications-per-second", "0",
               "--notify-waiting-per-address-max", str(WAITING)]
    throng = Throng(server.driver, options=options, accounts=50)
    throng.proxied = (xmpp, xmpps)
    yield from running(throng, loop)


@pytest.fixture(scope="session")
def fronts(fronted):
    """The three proxies in front of it."""
    with contextlib.ExitStack() as stack:
        started = []
        for name in PROXIES:
            front = Front(name, fronted.binary, fronted.http, *fronted.proxied)
            stack.callback(front.stop)
            started.append(front.start())
        yield started


class Https:
    """A connection of HTTP/1.1 to a proxy that stays as long as the proxy lets it."""

    def __init__(self, front, source=None):
        self.front, self.source = front, source or front.source
        self.reader = self.writer = None

    async def ask(self, method, target, body=b"", *fields, within=LATE):
        """The status, the header and the body of an answer that begins in that time."""
        if self.writer is None:
            trust = ssl.create_default_context(cafile=str(self.front.cafile))
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.front.ports["web"], ssl=trust, server_hostname=DOMAIN, local_addr=(self.source, 0),
                ssl_shutdown_timeout=1)
        length = [f"Content-Length: {len(body)}"] if method == "POST" else []
        lines = [f"{method} {target} HTTP/1.1", f"Host: {DOMAIN}", *length, *fields]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), within)).decode()
        length = re.search(r"(?i)\r\ncontent-length: *(\d+)", head)
        answer = await self.reader.readexactly(int(length.group(1))) if length else b""
        if re.search(r"(?i)\r\nconnection: *close", head):
            self.close()
        return int(head.split()[1]), head, answer.decode()

    async def publish(self, channel, text):
        """One item; when it was sent."""
        began = time.monotonic()
        status, _, answer = await self.ask("POST", f"/n/{channel}", text.encode(), "Content-Type: text/plain")
        assert status == 200, (self.front.name, answer)
        return began

    def close(self):
        """Close it: the end of TLS at once, and that of TCP a second later if the proxy has not answered. Python would wait for half
        a minute, and a proxy that reads nothing while it waits for the server takes the client for present as long."""
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None


async def curl(front, path, *options, http="--http2"):
    """curl, which speaks HTTP/2 with the proxy if not told otherwise."""
    port = front.ports["web"]
    return await asyncio.create_subprocess_exec(
        "curl", "--silent", "--show-error", "--no-buffer", http, "--cacert", str(front.cafile), "--interface", front.source,
        "--resolve", f"{DOMAIN}:{port}:127.0.0.1", "--max-time", "110", *options, f"https://{DOMAIN}:{port}{path}",
        stdin=subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE)


@contextlib.asynccontextmanager
async def events(front, channel, **options):
    """A subscriber by curl; its lines."""
    process = await curl(front, f"/n/{channel}?after=0", "--header", "Accept: text/event-stream", **options)
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


async def datum(lines, within):
    """The content of the next event. Comments are passed over."""
    async with asyncio.timeout(within):
        while True:
            line = (await lines.readline()).decode()
            assert line, "the stream has ended"
            if line.startswith("data:"):
                return json.loads(line[5:])["data"]


def on_time(front, what, began):
    """Nobody has held up what was sent then."""
    passed = time.monotonic() - began
    assert passed < LATE, f"{front.name}: {what} took {passed:.1f} s"


def seconds():
    """The seconds of traffic."""
    return range(HOLD)


async def silent_websocket(front, accounts):
    """A session that says nothing, and is asked nothing."""
    async with websocket(front.reached("wss", accounts), ping_interval=None, local_addr=(front.source, 0)) as socket:
        await log_in(socket, accounts.fresh())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), HOLD)
        began = time.monotonic()
        await socket.send(PING.format("after"))
        assert "type='result'" in await asyncio.wait_for(socket.recv(), LATE)
        on_time(front, "an answer on a WebSocket", began)


async def busy_websocket(front, accounts):
    """A session that sends to itself."""
    async with websocket(front.reached("wss", accounts), ping_interval=None, local_addr=(front.source, 0)) as socket:
        jid = await log_in(socket, accounts.fresh())
        for number in seconds():
            began = time.monotonic()
            await socket.send(f"<message xmlns='jabber:client' to='{jid}' type='chat'><body>number {number}</body></message>")
            assert f"<body>number {number}</body>" in await asyncio.wait_for(socket.recv(), LATE)
            on_time(front, "a message by WebSocket", began)
            await asyncio.sleep(began + 1 - time.monotonic())


async def silent_bosh(front, accounts):
    """XEP-0124 7: a request waits for a minute, the next one until there is something for it."""
    page = Session(front.reached("wss", accounts), wait="60")
    page.patience = HOLD
    await page.log_in(accounts.fresh(), presence=False)
    began, answered = time.monotonic(), []

    async def waits():
        # `wait_for` of Python 3.11 forgets that it was cancelled if an answer comes at that moment: so this ends by itself, too.
        while "id='after'" not in page.inbox:
            asked = time.monotonic()
            text = await page.once(*page.body())
            answered.append((time.monotonic() - asked, text))

    waiting = asyncio.create_task(waits())
    await asyncio.sleep(HOLD)
    assert len(answered) == 1 and answered[0][0] > 55, (front.name, answered)
    # A second connection that nobody has used for so long may be gone; none may break while a request waits. One of the two
    # requests is answered with it, and the other one waits on.
    asked = time.monotonic()
    pinging = asyncio.create_task(page.once(*page.body(PING.format("after"))))
    while "id='after'" not in page.inbox and time.monotonic() < asked + LATE:
        await asyncio.sleep(0.05)
    for task in (waiting, pinging):
        task.cancel()
    await asyncio.gather(waiting, pinging, return_exceptions=True)
    assert "id='after'" in page.inbox, front.name
    assert not [broke for broke in page.broken if broke > 1], (front.name, page.broken)
    assert time.monotonic() - began > HOLD
    page.close()


async def busy_bosh(front, accounts):
    """A session that sends to itself."""
    page = Session(front.reached("wss", accounts))
    jid = await page.log_in(accounts.fresh(), presence=False)
    for number in seconds():
        began = time.monotonic()
        message = f"<message xmlns='jabber:client' to='{jid}' type='chat'><body>number {number}</body></message>"
        await page.ask(message, f"<body>number {number}</body>")
        on_time(front, "a message by BOSH", began)
        await asyncio.sleep(began + 1 - time.monotonic())
    assert page.broken == [], (front.name, page.broken)
    page.close()


async def silent_events(front, _):
    """Only the signs of life come, each when it is sent: none waits in a buffer for more."""
    channel, publisher = f"{front.name}-silent", Https(front)
    async with events(front, channel) as lines:
        # Between two signs; before the first one, curl starts and the proxy connects.
        end, last, signs = time.monotonic() + HOLD, None, 0
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                line = await asyncio.wait_for(lines.readline(), left)
                assert line and not line.startswith(b"data"), (front.name, line)
                signs += line.startswith(b":")
                assert last is None or time.monotonic() - last < 15 + LATE, front.name
                last = time.monotonic()
        assert signs >= HOLD // 15 - 2, (front.name, signs)
        began = await publisher.publish(channel, "after")
        assert await datum(lines, LATE) == "after"
        on_time(front, "an event", began)
    publisher.close()


async def busy_events(front, _):
    """An item each second, published through the proxy as well, on a connection that stays."""
    channel, publisher = f"{front.name}-busy", Https(front)
    async with events(front, channel, http="--http1.1") as lines:
        for number in seconds():
            began = await publisher.publish(channel, f"number {number}")
            assert await datum(lines, LATE) == f"number {number}"
            on_time(front, "an event", began)
            await asyncio.sleep(began + 1 - time.monotonic())
    publisher.close()


async def silent_polls(front, _):
    """One is answered when nothing has come, and one by what comes afterwards."""
    channel, publisher, written = f"{front.name}-poll", Https(front), ("--write-out", "%{http_code} %{http_version}")
    began = time.monotonic()
    empty = await curl(front, f"/n/{channel}?after=0&wait={HOLD}", *written)
    other = await curl(front, f"/n/{channel}?after=0&wait=300", *written)
    out, _ = await asyncio.wait_for(empty.communicate(), HOLD + LATE)
    # The server counts whole seconds.
    assert out == b"204 2" and time.monotonic() - began > HOLD - 1, (front.name, out)
    assert other.returncode is None
    began = await publisher.publish(channel, "after")
    out, _ = await asyncio.wait_for(other.communicate(), LATE)
    assert b'"data":"after"' in out and out.endswith(b"200 2"), (front.name, out)
    on_time(front, "an answer to a long poll", began)
    publisher.close()


async def busy_polls(front, _):
    """A poll that waits is answered each second, and comes again on the connection it had."""
    channel, publisher, poller, after = f"{front.name}-polls", Https(front), Https(front), 0
    for number in seconds():
        poll = asyncio.create_task(poller.ask("GET", f"/n/{channel}?after={after}&wait=20"))
        await asyncio.sleep(0.2)
        began = await publisher.publish(channel, f"number {number}")
        status, _, text = await asyncio.wait_for(poll, LATE)
        assert status == 200, (front.name, text)
        answer = json.loads(text)
        assert [item["data"] for item in answer["items"]] == [f"number {number}"], front.name
        on_time(front, "an answer to a long poll", began)
        after = answer["after"]
        await asyncio.sleep(max(0, began + 0.8 - time.monotonic()))
    publisher.close()
    poller.close()


async def stream(front, accounts, tls, silent):
    """XMPP over TCP, whose TLS ends in the server (RFC 6120 5, XEP-0368)."""
    if front.name not in STREAMS:
        return
    raw = await Raw(front.reached(tls, accounts)).open()
    raw.send(plain(accounts.fresh()))
    await raw.until("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>")
    raw.send(HEADER)
    await raw.until("</stream:features>")
    raw.send(BIND)
    await raw.until("</iq>")
    began = time.monotonic()
    while (passed := time.monotonic() - began) < HOLD:
        await asyncio.sleep(HOLD - passed if silent else 1)
        asked = time.monotonic()
        raw.send(PING.format(f"at{asked}"))
        assert f"at{asked}" in await raw.until(">")
        on_time(front, "an answer by TCP", asked)
    raw.close()


async def test_all_is_carried_through_silence_and_traffic(fronts, fronted):
    """RFC 7395, XEP-0124: for 75 s of silence and of traffic nothing breaks, and nothing waits in a proxy."""
    kinds = (silent_websocket, busy_websocket, silent_bosh, busy_bosh, silent_events, busy_events, silent_polls, busy_polls)
    async with asyncio.TaskGroup() as all_at_once:
        for front in fronts:
            for kind in kinds:
                all_at_once.create_task(kind(front, fronted))
            for tls in ("starttls", "direct"):
                for silent in (True, False):
                    all_at_once.create_task(stream(front, fronted, tls, silent))
    for front in fronts:
        assert front.process.poll() is None, front.log()


#: What clients claim of themselves.
CLAIMS = ["X-Forwarded-For: 203.0.113.9", "x-forwarded-for: 203.0.113.10, 203.0.113.11", "X-Real-IP: 203.0.113.9",
          "Forwarded: for=203.0.113.9"]


async def test_the_server_sees_the_clients_address_and_not_what_they_claim(fronts, fronted):
    """RFC 7395, XEP-0124: who guesses passwords or logs in through a proxy is named by the address that the proxy sees."""
    since = fronted.log_size()
    for number, front in enumerate(fronts):
        source = f"127.0.0.{20 + number}"
        reached = front.reached("wss", fronted, source)
        guessed = {kind: Account(f"guessed-{kind}-{front.name}", "wrong") for kind in ("websocket", "bosh")}
        claims = [tuple(claim.split(": ")) for claim in CLAIMS]
        async with websocket(reached, local_addr=(source, 0), additional_headers=claims) as socket:
            await socket.send(OPEN)
            await socket.send(plain(guessed["websocket"]))
            while "<failure " not in await asyncio.wait_for(socket.recv(), LATE):
                pass
        page = Session(reached)
        for connection in page.idle:
            connection.fields = "".join(f"{claim}\r\n" for claim in CLAIMS)
        await page.create()
        await page.ask(plain(guessed["bosh"]), "<failure ")
        page.close()
        for account in guessed.values():
            await until(lambda: account.name in fronted.log(since), LATE)
            lines = [line for line in fronted.log(since).splitlines() if account.name in line]
            assert {found(line) for line in lines} == {source}, lines
        async with websocket(reached, local_addr=(source, 0), additional_headers=claims) as socket:
            page = Session(reached)
            jids = [await log_in(socket, fronted.fresh()), await page.log_in(fronted.fresh(), presence=False)]
            listed = await asyncio.to_thread(addresses, fronted)
            assert [listed.get(jid) for jid in jids] == [source] * 2, (front.name, jids, listed)
        page.close()


def addresses(accounts):
    """Where sessions come from, by their addresses: `throng ctl sessions`."""
    done = subprocess.run([accounts.binary, "ctl", "sessions", "--json", "--data", str(accounts.data)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {row["jid"]: row["address"] for row in map(json.loads, done.stdout.splitlines())}


async def test_a_client_cannot_be_many_by_claiming_to_be(fronts, fronted):
    """Polls that wait count for the client's address, whatever it claims, and other clients of the proxy are not its losers."""
    for number, front in enumerate(fronts):
        greedy, other = f"127.0.0.{30 + number}", f"127.0.0.{40 + number}"
        clients, polls = [Https(front, greedy) for _ in range(2 * WAITING)], []
        for claimed, client in enumerate(clients):
            # A proxy takes away what `Connection` names, before or after it has added its own.
            fields = [f"X-Forwarded-For: 203.0.113.{claimed}", f"Connection: {'x-forwarded-for' if claimed % 2 else 'close'}"]
            polls.append(asyncio.create_task(client.ask("GET", "/n/greedy?after=0&wait=60", b"", *fields, within=60)))
        # Those that are refused are so at once.
        refused = [(await done)[0] for done in itertools.islice(asyncio.as_completed(polls, timeout=40), WAITING)]
        assert set(refused) == {429}, (front.name, refused)
        status, _, _ = await Https(front, other).ask("GET", "/n/greedy?after=0&wait=1")
        assert status == 204, front.name
        for client, poll in zip(clients, polls):
            poll.cancel()
            client.close()
        await nobody_waits(fronted, front.name)


async def test_who_is_gone_does_not_wait_on(fronts, fronted):
    """A client that goes away takes its long poll and its events along: the proxy does not go on asking for it."""
    await nobody_waits(fronted, "other tests")
    for front in fronts:
        gone = [await curl(front, "/n/gone?after=0&wait=300", http=http) for http in ("--http1.1", "--http2")]
        gone.append(await curl(front, "/n/gone", "--header", "Accept: text/event-stream"))
        await until(lambda: waiting(fronted) == 3, LATE)
        for process in gone:
            process.kill()
            await process.wait()
        await nobody_waits(fronted, front.name)


def waiting(accounts):
    """Requests of channels that wait at the server."""
    return values(accounts)["throng_shard_notify_waiting"]


async def nobody_waits(accounts, after):
    """All who have gone are gone for the server, too."""
    await until(lambda: waiting(accounts) == 0, LATE, lambda: f"{waiting(accounts):.0f} wait still, after {after}")


async def until(is_so, within, found=lambda: "not so in time"):
    """Waits for what the server tells its operator; what was found instead."""
    deadline = time.monotonic() + within
    while not await asyncio.to_thread(is_so):
        assert time.monotonic() < deadline, found()
        await asyncio.sleep(0.1)


async def test_only_the_servers_paths_pass(fronts, fronted):
    """XEP-0156 3: discovery passes, with the addresses that the operator gave; the rest of the server's name is not the server's."""
    for front in fronts:
        https = Https(front)
        for path in ("/.well-known/host-meta", "/.well-known/host-meta.json"):
            status, head, text = await https.ask("GET", path)
            assert status == 200 and WEBSOCKET_URL in text and BOSH_URL in text, (front.name, path, text)
            assert re.search(r"(?i)access-control-allow-origin: \*", head), (front.name, head)
        status, head, _ = await https.ask("GET", "/throng.js")
        assert status == 200 and re.search(r"(?i)content-type: text/javascript", head), (front.name, head)
        for path in ("/", "/metrics", "/xmpp-websocket/", "/.well-known/host-meta.xml"):
            assert (await https.ask("GET", path))[0] == 404, (front.name, path)
        https.close()


async def test_upgrades_pass_at_each_path_with_one_address(fronted):
    """RFC 6455 4: an upgrade passes at `/xmpp-websocket` and `/n/`, both ways, and the header that it comes with names the client
    once, also if the client has `Connection` name that field."""
    heads = asyncio.Queue()

    async def behind(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        heads.put_nowait(head)
        assert "\r\nupgrade: websocket" in head and re.search(r"\r\nconnection: .*\bupgrade\b", head), head
        # The answer to the key that RFC 6455 1.3 has for an example.
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
        writer.write(await reader.readexactly(5))
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(behind, "127.0.0.1", 0)
    with contextlib.ExitStack() as stack:
        stack.callback(listener.close)
        for name in PROXIES:
            front = Front(name, fronted.binary, listener.sockets[0].getsockname()[1])
            stack.callback(front.stop)
            await asyncio.to_thread(front.start)
            for path in ("/xmpp-websocket", "/n/a,b?after=1,2"):
                https = Https(front, "127.0.0.50")
                status, _, _ = await https.ask(
                    "GET", path, b"", *CLAIMS, "Upgrade: websocket", "Connection: Upgrade, X-Forwarded-For",
                    "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
                assert status == 101, (name, path)
                https.writer.write(b"frame")
                assert await asyncio.wait_for(https.reader.readexactly(5), LATE) == b"frame", (name, path)
                https.close()
                head = await asyncio.wait_for(heads.get(), LATE)
                assert head.startswith(f"get {path} http/1.1\r\n"), (name, head)
                assert re.findall(r"\r\nx-forwarded-for: *(.*)", head) == ["127.0.0.50\r"], (name, head)
                assert re.findall(r"\r\nhost: *(\w*)", head) == [DOMAIN], (name, head)
