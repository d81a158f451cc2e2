"""XMPP over WebSocket (RFC 7395) as browsers have it: xmpp.js with Node's WebSocket, Strophe.js with `ws`, and the
frames themselves with Python's `websockets` and by hand (RFC 6455)."""

import asyncio
import base64
import json
import os
import re
import ssl
import struct
import urllib.request
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from conftest import new_world
from raw import BIND, HEADER, Raw, plain
from servers import DOMAIN

HERE = Path(__file__).parent
WAIT = 25
FRAMING = "urn:ietf:params:xml:ns:xmpp-framing"
OPEN = f"<open xmlns='{FRAMING}' to='{DOMAIN}' version='1.0'/>"
CLOSE = f"<close xmlns='{FRAMING}'/>"
CLIENT_BIND = BIND.replace("<iq ", "<iq xmlns='jabber:client' ")
TEXT, BINARY, CLOSES, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A


@pytest.fixture(params=["ws", "wss"])
def web(request, server, loop):
    """A world whose clients use WebSocket."""
    if server.driver == "prosody":
        pytest.skip("Throng's listeners")
    if request.config.getoption("--tls") not in (None, request.param):
        pytest.skip("the other mode")
    yield from new_world(server, request.param, loop, request)


def trust(web):
    """The TLS context of a client that trusts the server's certificate."""
    return ssl.create_default_context(cafile=str(web.server.cafile))


def url(web):
    """Where the WebSocket is."""
    return f"{web.tls}://{DOMAIN}:{web.port}/xmpp-websocket"


def websocket(web, **options):
    """A WebSocket of Python's library, to the address itself so that `localhost` is not looked up as ::1."""
    secure = {"ssl": trust(web), "server_hostname": DOMAIN} if web.tls == "wss" else {}
    return connect(url(web), host="127.0.0.1", **{"subprotocols": ["xmpp"], "proxy": None, **secure, **options})


async def ask(socket, xml):
    """One message, and the first one that comes back."""
    await socket.send(xml)
    return await asyncio.wait_for(socket.recv(), WAIT)


async def log_in(socket, account):
    """Up to a resource: its full JID."""
    assert (await ask(socket, OPEN)).startswith(f"<open xmlns='{FRAMING}' ")
    features = await asyncio.wait_for(socket.recv(), WAIT)
    assert features.startswith("<stream:features xmlns:stream=") and "starttls" not in features
    assert "<success " in await ask(socket, plain(account))
    await ask(socket, OPEN)
    await asyncio.wait_for(socket.recv(), WAIT)
    return re.search("<jid>(.*?)</jid>", await ask(socket, CLIENT_BIND)).group(1)


async def test_a_page_and_a_phone_talk(web):
    """RFC 7395: xmpp.js over WebSocket and slixmpp over TCP, both ways."""
    page = await web.online("xmppjs")
    phone = await web.online("slixmpp", tls="starttls")
    phone.send_message(page.jid, "from the phone")
    await page.wait_message("from the phone", sender=phone.jid)
    page.send_message(phone.bare, "from the page & <back>")
    await phone.wait_message("from the page & <back>", sender=page.jid)
    await page.ping()


async def test_a_page_that_goes_away_resumes(web):
    """RFC 7395 3.6, XEP-0198 5: a WebSocket that is closed without `<close/>` leaves a session that may be resumed."""
    romeo = await web.online("xmppjs")
    juliet = await web.online("slixmpp", tls="direct")
    jid = romeo.jid
    romeo.hold()
    romeo.drop()
    for n in range(5):
        juliet.send_message(jid, f"meanwhile {n}")
    assert await romeo.resume() is True
    await romeo.wait_message("meanwhile 4")
    assert romeo.jid == jid and romeo.bodies() == [f"meanwhile {n}" for n in range(5)]


async def test_strophe_logs_in_and_talks(web):
    """Strophe.js over WebSocket: SCRAM, a chat, a ping, and an end of the stream (RFC 7395 3.6)."""
    account = web.server.fresh()
    peer = await web.online("xmppjs")
    env = {**os.environ, "NODE_EXTRA_CA_CERTS": str(web.server.cafile)}
    process = await asyncio.create_subprocess_exec(
        "node", str(HERE / "strophe.mjs"), url(web).replace("ws://localhost", "ws://127.0.0.1"), account.jid, account.password,
        cwd=HERE, env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)

    async def until(wanted):
        while True:
            line = await asyncio.wait_for(process.stdout.readline(), WAIT)
            assert line, "it has ended"
            report = json.loads(line)
            if wanted(report):
                return report

    def say(line):
        process.stdin.write(json.dumps(line).encode() + b"\n")

    try:
        connected = await until(lambda report: report.get("status") in ("connected", "authfail", "connfail"))
        assert connected["status"] == "connected" and connected["mechanism"].startswith("SCRAM-SHA-"), connected
        say({"to": peer.jid, "body": "hello from a page"})
        await peer.wait_message("hello from a page", sender=connected["jid"])
        peer.send_message(connected["jid"], "and back")
        assert (await until(lambda report: "body" in report))["body"] == "and back"
        say({"ping": True})
        assert (await until(lambda report: "pong" in report))["pong"] is True
        process.stdin.close()
        await until(lambda report: report.get("status") == "disconnected")
        assert await asyncio.wait_for(process.wait(), WAIT) == 0
    finally:
        if process.returncode is None:
            process.kill()


async def test_frames_of_a_library(web):
    """RFC 6455 5.4, 5.5: pings, fragments with pings between them, no extension, and the close of both sides."""
    async with websocket(web) as socket:
        assert socket.subprotocol == "xmpp"
        # permessage-deflate was offered (RFC 7692 5) and is declined.
        assert "Sec-WebSocket-Extensions" not in socket.response.headers
        jid = await log_in(socket, web.server.fresh())
        await asyncio.wait_for(await socket.ping(b"there?"), WAIT)
        body = "\u20ac" * 30_000
        xml = f"<message xmlns='jabber:client' to='{jid}' type='chat'><body>{body}</body></message>"
        await socket.send([xml[at:at + 7_001] for at in range(0, len(xml), 7_001)])
        assert body in await asyncio.wait_for(socket.recv(), WAIT)
        assert await ask(socket, CLOSE) == CLOSE
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), WAIT)
        assert closed.value.rcvd.code == 1000


@pytest.mark.parametrize("options, status", [
    ({"subprotocols": None}, 400), ({"subprotocols": ["chat"]}, 400),
])
async def test_another_subprotocol_is_refused(web, options, status):
    """RFC 7395 3.1."""
    with pytest.raises(InvalidStatus) as refused:
        await websocket(web, **options)
    assert refused.value.response.status_code == status


class Bytes:
    """A connection of bytes."""

    def __init__(self, web):
        self.web = web
        self.reader = self.writer = None

    async def open(self):
        """Connect."""
        secure = {"ssl": trust(self.web), "server_hostname": DOMAIN} if self.web.tls == "wss" else {}
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.web.port, **secure)
        return self

    def send(self, data):
        """Write."""
        self.writer.write(data)

    async def rest(self):
        """All that comes until the end."""
        try:
            return await asyncio.wait_for(self.reader.read(), WAIT)
        except ConnectionResetError:
            return b""
        finally:
            self.writer.close()

    async def upgrade(self):
        """Become a WebSocket."""
        key = base64.b64encode(os.urandom(16)).decode()
        self.send((f"GET /xmpp-websocket HTTP/1.1\r\nHost: {DOMAIN}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n").encode())
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), WAIT)
        assert head.startswith(b"HTTP/1.1 101 ")
        return self

    async def frame(self):
        """The next frame: its first byte and content."""
        first, short = await asyncio.wait_for(self.reader.readexactly(2), WAIT)
        assert short < 128, "a server does not mask (RFC 6455 5.1)"
        if short == 126:
            short, = struct.unpack(">H", await self.reader.readexactly(2))
        elif short == 127:
            short, = struct.unpack(">Q", await self.reader.readexactly(8))
        return first, await asyncio.wait_for(self.reader.readexactly(short), WAIT)

    async def closed(self):
        """The code with which the WebSocket ends."""
        while True:
            first, content = await self.frame()
            if first == CLOSES:
                self.writer.close()
                return struct.unpack(">H", content[:2])[0] if content else None


def frame(first, content=b"", mask=b"\x01\x80\xff\x00", masked=True, length=None):
    """A frame; `length` is what it says, and how."""
    bit = 0x80 if masked else 0
    if length is None:
        n = len(content)
        length = bytes([bit | n]) if n < 126 else (
            bytes([bit | 126]) + struct.pack(">H", n) if n < 65_536 else bytes([bit | 127]) + struct.pack(">Q", n))
    if masked:
        content = bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))
    return bytes([first]) + length + (mask if masked else b"") + content


WRONG = {
    "not masked (5.1)": (frame(TEXT, b"<a/>", masked=False), 1002),
    "RSV1 (5.2)": (frame(TEXT | 0x40, b"<a/>"), 1002),
    "RSV2": (frame(TEXT | 0x20, b"<a/>"), 1002),
    "RSV3": (frame(TEXT | 0x10, b"<a/>"), 1002),
    **{f"opcode {kind} (5.2)": (frame(0x80 | kind, b"a"), 1002) for kind in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "a continuation of nothing (5.4)": (frame(0x80, b"a"), 1002),
    "a message in a message (5.4)": (frame(0x01, b"<a") + frame(TEXT, b"/>"), 1002),
    "a binary message in a message": (frame(0x01, b"<a") + frame(BINARY, b"/>"), 1002),
    "binary (RFC 7395 3.2)": (frame(BINARY, b"<a/>"), 1003),
    "a ping in pieces (5.5)": (frame(0x09, b"a"), 1002),
    "a close in pieces": (frame(0x08, b"\x03\xe8"), 1002),
    "a ping of 126 bytes (5.5)": (frame(PING, b"a" * 126), 1002),
    "a close of 126 bytes": (frame(CLOSES, b"\x03\xe8" + b"a" * 124), 1002),
    "a length in two bytes that fits in one (5.2)": (frame(TEXT, b"a", length=b"\xfe\0\x01"), 1002),
    "a length in eight bytes that fits in two": (frame(TEXT, b"a", length=b"\xff" + struct.pack(">Q", 65_535)), 1002),
    "a length of 2^63 (5.2)": (frame(TEXT, b"a", length=b"\xff" + struct.pack(">Q", 1 << 63)), 1002),
    "a length of 2^62": (frame(TEXT, b"a", length=b"\xff" + struct.pack(">Q", 1 << 62)), 1009),
    "longer than may be before a login": (frame(TEXT, b"", length=b"\xff" + struct.pack(">Q", 70_000)), 1009),
    "longer than may be, in pieces": (frame(0x01, b" " * 4_000) + frame(0x00, b" " * 4_000), 1009),
    "no UTF-8 (8.1)": (frame(TEXT, b"<a>\xc3\x28</a>"), 1007),
    "a surrogate": (frame(TEXT, b"<a>\xed\xa0\x80</a>"), 1007),
    "half a character": (frame(TEXT, b"<a>\xe2\x82"), 1007),
    "half a code (5.5.1)": (frame(CLOSES, b"\x03"), 1002),
    "a reason that is no UTF-8": (frame(CLOSES, b"\x03\xe8\xff\xfe"), 1007),
    **{f"code {code} (7.4)": (frame(CLOSES, struct.pack(">H", code)), 1002)
       for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535)},
    **{f"code {code}, which is fine": (frame(CLOSES, struct.pack(">H", code)), code)
       for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)},
    "a close without a code, which is fine": (frame(CLOSES), None),
}


@pytest.mark.parametrize("name", WRONG)
async def test_frames_that_are_wrong(web, name):
    """RFC 6455 5 and 7.4: the WebSocket ends with the code for it, whole or in single bytes."""
    bad, code = WRONG[name]
    whole = await (await Bytes(web).open()).upgrade()
    whole.send(bad)
    assert await whole.closed() == code
    slow = await (await Bytes(web).open()).upgrade()
    for byte in bad[:40]:
        slow.send(bytes([byte]))
        await asyncio.sleep(0)
    slow.send(bad[40:])
    assert await slow.closed() == code


HELLO = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='localhost' version='1.0' xml:lang='é'/>".encode()


def pieces(content, *lengths):
    """A message of text in frames of these lengths, and one with what is left."""
    frames, at = [], 0
    for length in lengths:
        frames.append(frame(0x00 if frames else 0x01, content[at:at + length]))
        at += length
    return [*frames, frame(0x80, content[at:])]


#: What is fine: frames that say hello in some way, and with which contents pings are answered.
RIGHT = {
    "one frame (5.6)": (frame(TEXT, HELLO), []),
    "a mask of zeros (5.3)": (frame(TEXT, HELLO, mask=bytes(4)), []),
    "a length in two bytes (5.2)": (frame(TEXT, HELLO + b" " * 100), []),
    "white space before it (RFC 7395 3.8)": (frame(TEXT, b" ") + frame(TEXT) + frame(TEXT, HELLO), []),
    "two frames (5.4)": (b"".join(pieces(HELLO, 9)), []),
    "a frame for each byte": (b"".join(pieces(HELLO, *[1] * (len(HELLO) - 1))), []),
    "an empty frame at the beginning": (b"".join(pieces(HELLO, 0)), []),
    "empty frames in the middle": (b"".join(pieces(HELLO, 9, 0, 0, 7)), []),
    "an empty frame at the end": (b"".join(pieces(HELLO, len(HELLO))), []),
    "nothing but empty frames before": (frame(0x01) + frame(0x00) + frame(0x80) + frame(TEXT, HELLO), []),
    "a character in two frames (5.6)": (b"".join(pieces(HELLO, HELLO.index("é".encode()) + 1)), []),
    "a ping within a message (5.4)": (frame(PING, b"within").join(pieces(HELLO, 9)), [b"within"]),
    "pings within a message": (frame(PING, b"w").join(pieces(HELLO, 9, 0, 3)), [b"w"] * 3),
    "a pong within a message (5.5.3)": (frame(0x80 | 10, b"w").join(pieces(HELLO, 9)), []),
    "an empty ping (5.5.2)": (frame(PING) + frame(TEXT, HELLO), [b""]),
    "a ping of 125 bytes": (frame(PING, b"a" * 125) + frame(TEXT, HELLO), [b"a" * 125]),
    "a ping that is no text": (frame(PING, bytes(range(131, 256))) + frame(TEXT, HELLO), [bytes(range(131, 256))]),
    "ten pings": (b"".join(frame(PING, bytes([n])) for n in range(10)) + frame(TEXT, HELLO), [bytes([n]) for n in range(10)]),
    "a pong that nobody asked for (5.5.3)": (frame(0x80 | 10, b"a") + frame(0x80 | 10) + frame(TEXT, HELLO), []),
}


@pytest.mark.parametrize("name", RIGHT)
async def test_frames_that_are_right(web, name):
    """RFC 6455 5: what is in them comes across, whole or in single bytes."""
    good, pongs = RIGHT[name]
    for slowly in (False, True):
        connection = await (await Bytes(web).open()).upgrade()
        if slowly:
            for byte in good:
                connection.send(bytes([byte]))
                await asyncio.sleep(0)
        else:
            connection.send(good)
        connection.send(frame(PING, b"end"))
        told = []
        while not told or told[-1] != (PONG, b"end"):
            told.append(await connection.frame())
        assert [content for first, content in told[:-1] if first == PONG] == pongs
        texts = [content for first, content in told if first == TEXT]
        assert texts[0].startswith(b"<open ") and texts[1].startswith(b"<stream:features "), told
        connection.writer.close()


@pytest.mark.parametrize("bad, status", [
    (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n Y\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    (b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"GET /" + b"a" * 3_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 9_000 + b"\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 65 + b"\r\n", 431),
    (b"GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
    (b"POST /xmpp-websocket HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 405),
    (b"GET /.well-known/host-meta HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 413),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    (HEADER.encode() + b"\r\n\r\n", 400),
])
async def test_requests_that_are_refused(web, bad, status):
    """RFC 9112 11.2 and 3, RFC 6585 5: each with its status, once, and the end of the connection."""
    connection = await Bytes(web).open()
    connection.send(bad + b"GET /.well-known/host-meta HTTP/1.1\r\nHost: localhost\r\n\r\n" * (status != 404))
    said = await connection.rest()
    assert said.startswith(f"HTTP/1.1 {status} ".encode()) and said.count(b"HTTP/1.1 ") == 1, said
    assert b"\r\nConnection: close\r\n" in said


async def test_a_session_goes_from_a_page_to_tcp_and_back(web):
    """XEP-0198 5: begun on a WebSocket, resumed on a bare stream, and on a WebSocket again; each says it in its own way."""
    account = web.server.fresh()
    async with websocket(web) as socket:
        jid = await log_in(socket, account)
        enabled = await ask(socket, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>")
        previd = re.search(" id='(.*?)'", enabled).group(1)
        resume = f"<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>"
        message = f"<message xmlns='jabber:client' to='{jid}' type='chat'><body>once</body></message>"
        await socket.send(message)
        assert "once" in await asyncio.wait_for(socket.recv(), WAIT)
        reader, writer = await asyncio.open_connection("127.0.0.1", web.server.c2s)
        for said, sign in ((HEADER, b"</stream:features>"), (plain(account), b"<success "), (HEADER, b"</stream:features>"),
                           (resume, b"<body>once</body>")):
            writer.write(said.encode())
            await asyncio.wait_for(reader.readuntil(sign), WAIT)
        # The page is told of it.
        with pytest.raises(ConnectionClosed):
            said = ""
            while True:
                said += await asyncio.wait_for(socket.recv(), WAIT)
        assert "<conflict " in said and said.endswith(CLOSE)
    async with websocket(web) as socket:
        await ask(socket, OPEN)
        await socket.recv()
        await ask(socket, plain(account))
        await ask(socket, OPEN)
        await socket.recv()
        assert "<resumed " in await ask(socket, resume)
        while "<body>once</body>" not in (again := await asyncio.wait_for(socket.recv(), WAIT)):
            pass
        assert again.startswith("<message ") and again.count("xmlns='jabber:client'") == 1
    writer.close()


async def test_host_meta(web):
    """XEP-0156 3: over TLS the address of the WebSocket, for any page; in the clear nothing."""
    base = url(web).replace("ws", "http", 1).removesuffix("/xmpp-websocket")

    def get(path):
        request = urllib.request.Request(base + path, headers={"Origin": "https://page.example"})
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust(web)))
        try:
            with opener.open(request, timeout=WAIT) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers, ""

    for path in ("/.well-known/host-meta", "/.well-known/host-meta.json"):
        status, headers, body = await asyncio.to_thread(get, path)
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert status == (200 if web.tls == "wss" else 404)
        assert (f"wss://{DOMAIN}:{web.port}/xmpp-websocket" in body) == (status == 200)


async def test_what_is_abused_is_bounded(web):
    """Slow heads, idle connections and pings without end leave others as they were."""
    slow = [await Bytes(web).open() for _ in range(50)]
    idle = [await Bytes(web).open() for _ in range(200)]
    sockets = [await (await Bytes(web).open()).upgrade() for _ in range(50)]
    for connection in slow:
        connection.send(b"GET /xmpp-websocket HTTP/1.1\r\nHost: ")
    for n in range(20):
        for connection in slow:
            connection.send(b"a")
        # A message of frames of one byte, or none, that does not end.
        sockets[0].send(frame(0x00 if n else 0x01, b" ") + frame(0x00) * 500)
        for socket in sockets[1:]:
            socket.send(frame(PING, b"?" * 125) * 10)
    page = await web.online("xmppjs")
    await page.ping()
    for socket in sockets[1:]:
        for _ in range(200):
            assert await socket.frame() == (PONG, b"?" * 125)
    for connection in slow + idle + sockets:
        connection.writer.close()
