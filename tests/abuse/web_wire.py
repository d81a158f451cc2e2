"""Connections to the listeners for browsers: HTTP, with TLS or without, and frames of WebSockets (RFC 6455). What is sent may be
anything; what comes back is read strictly."""

import base64
import json
import os
import re
import ssl
import struct
from xml.parsers import expat

from server import PAGE
from wire import Surprise, Wire, bind, plain

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG, FIN = 1, 2, 0, 8, 9, 10, 0x80
FRAMING = b"urn:ietf:params:xml:ns:xmpp-framing"
OPEN = b"<open xmlns='" + FRAMING + b"' to='localhost' version='1.0'/>"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]*\r\n((?:[!-~]+: [ -~]*\r\n)+)\r\n")
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\n"
CONDITION = re.compile(rb"<stream:error[^>]*><([a-z-]+) ")


class TlsWire(Wire):
    """The same over TLS, whose certificate nobody looks at: it is the server's own."""

    def __init__(self, sock):
        super().__init__(sock)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    async def _records(self):
        """Takes in what comes; `False` at the end."""
        try:
            data = await self.loop.sock_recv(self.sock, 65536)
        except ConnectionResetError:
            data = b""
        self.incoming.write(data) if data else self.incoming.write_eof()
        return bool(data)

    async def shake_hands(self):
        while True:
            try:
                self.tls.do_handshake()
                return await super().send(self.outgoing.read())
            except ssl.SSLWantReadError:
                await super().send(self.outgoing.read())
                if not await self._records():
                    raise Surprise("closed in the handshake") from None

    async def send(self, data):
        for at in range(0, len(data), 16384):
            self.tls.write(data[at : at + 16384])
        return await super().send(self.outgoing.read())

    async def hear_more(self):
        while True:
            try:
                data = self.tls.read(65536)
            except ssl.SSLWantReadError:
                await self._records()
                continue
            except ssl.SSLError:
                data = b""
            self.heard += data
            self.ended = not data
            return not self.ended


async def connect(server, index, address, receive_buffer=0):
    """Every other connection is one with TLS."""
    if index % 2 == 0:
        return await Wire.connect(server.http_port, address, receive_buffer)
    wire = await TlsWire.connect(server.https_port, address, receive_buffer)
    try:
        await wire.shake_hands()
        return wire
    except BaseException:
        wire.close()
        raise


def upgrade(*fields, version="13", key=None, protocol="xmpp", connection="Upgrade", path="/xmpp-websocket"):
    """The opening handshake (RFC 6455 4.1), as it should be but for what is given."""
    key = base64.b64encode(os.urandom(16)).decode() if key is None else key
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", f"Connection: {connection}"]
    lines += [f"Sec-WebSocket-Version: {version}", f"Sec-WebSocket-Key: {key}", f"Sec-WebSocket-Protocol: {protocol}"]
    return "\r\n".join([*lines, *fields, "", ""]).encode()


def frame(first, content=b"", masked=True, length=None):
    """A frame; `length` says another one than it has."""
    said = len(content) if length is None else length
    mask = b"\x07\x00\xc8\x63"
    head = bytes([first])
    bit = 0x80 if masked else 0
    if said < 126:
        head += bytes([bit | said])
    elif said < 1 << 16:
        head += bytes([bit | 126]) + struct.pack("!H", said)
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", said)
    if not masked:
        return head + content
    repeated = mask * (len(content) // 4 + 1)
    whole = int.from_bytes(content, "big") ^ int.from_bytes(repeated[: len(content)], "big")
    return head + mask + whole.to_bytes(len(content), "big")


def text(xml):
    return frame(FIN | TEXT, xml)


async def open_websocket(wire, index, path="/xmpp-websocket"):
    """Becomes a WebSocket; a page's that may, or nobody's page."""
    await wire.send(upgrade(*([f"Origin: {PAGE}"] if index % 3 == 0 else []), path=path))
    said = await wire.until(b"\r\n\r\n")
    if not said.startswith(ACCEPTED):
        raise Surprise(f"not accepted: {said!r}")
    del wire.heard[: wire.at]
    wire.at = 0


async def login(wire, user):
    """A session on it. What was heard is forgotten."""
    for xml, mark in (
        (OPEN, b"</stream:features>"), (plain(user), b"<success "), (OPEN, b"</stream:features>"),
        (bind().replace(b"<iq ", b"<iq xmlns='jabber:client' "), b"</iq>"),
    ):  # fmt: skip
        await wire.send(text(xml))
        await wire.until(mark)
        if mark == b"<success ":
            await wire.until(b"/>")
    del wire.heard[:]
    wire.at = 0


def responses(heard):
    """The statuses of what was answered, which has to be whole responses and nothing else; the last one ends the connection."""
    at, statuses, last = 0, [], b""
    while at < len(heard):
        found = STATUS.match(heard, at)
        if found is None:
            raise Surprise(f"no response of HTTP: {bytes(heard[at : at + 200])!r}")
        last = found.group(2)
        length = re.search(rb"Content-Length: (\d+)\r\n", last)
        at = found.end() + (int(length.group(1)) if length else 0)
        statuses.append(found.group(1).decode())
    if at != len(heard):
        raise Surprise(f"a response is cut off: {bytes(heard[-200:])!r}")
    if statuses and b"Connection: close\r\n" not in last:
        raise Surprise("the connection has ended, and nobody was told")
    first = ", ".join(dict.fromkeys(statuses))
    return first if len(statuses) == len(set(statuses)) else f"{first} ({len(statuses)})"


def condition_of(heard):
    """What a session of BOSH has ended with (XEP-0124 17.3), said in a whole answer."""
    if responses(heard) != "200":
        return responses(heard)
    said = re.search(rb"<body [^>]*type='terminate'[^>]*>", heard)
    found = said and re.search(rb" condition='([a-z-]+)'", said.group())
    if not found:
        raise Surprise(f"no condition: {bytes(heard[-300:])!r}")
    return found.group(1).decode()


def frames(heard):
    """All frames of the server's, which have to be whole: kind and content."""
    at, found = 0, []
    while at < len(heard):
        kind, short = heard[at], heard[at + 1] if at + 1 < len(heard) else 0
        head = {126: 4, 127: 10}.get(short, 2)
        length = int.from_bytes(heard[at + 2 : at + head], "big") if head > 2 else short
        content = bytes(heard[at + head : at + head + length])
        if kind not in (FIN | TEXT, FIN | PONG, FIN | CLOSE) or short > 127 or len(content) != length:
            raise Surprise(f"no frame of a server's: {bytes(heard[at : at + 100])!r}")
        if kind == FIN | TEXT and content.startswith(b"{"):
            # What a channel says.
            json.loads(content)
        elif kind == FIN | TEXT:
            try:
                expat.ParserCreate(namespace_separator=" ").Parse(content, True)
            except expat.ExpatError as error:
                raise Surprise(f"a message is no document ({error}): {content[:300]!r}") from None
        found.append((kind & 15, content))
        at += head + length
    return found


def end_of(heard):
    """How a WebSocket has ended: the condition of its stream, or the code of its last frame."""
    said = frames(heard)
    if not said or said[-1][0] != CLOSE or [kind for kind, _ in said].count(CLOSE) != 1:
        raise Surprise(f"ended without a last frame: {bytes(heard[-200:])!r}")
    code = str(int.from_bytes(said[-1][1][:2], "big")) if said[-1][1] else "no code"
    errors = [CONDITION.search(content) for kind, content in said if kind == TEXT]
    conditions = [found.group(1).decode() for found in errors if found]
    if not conditions:
        return code
    if code != "1000" or len(conditions) != 1 or not said[-2][1].startswith(b"<close xmlns='" + FRAMING):
        raise Surprise(f"an error of the stream, and then {said[-2:]!r}")
    return conditions[0]
