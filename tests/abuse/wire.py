"""One connection of a client that means no good: raw bytes out, raw bytes in, and what the server's bytes say."""

import asyncio
import base64
import re
import socket
from xml.parsers import expat

from server import PASSWORD

HEADER = (
    b"<?xml version='1.0'?><stream:stream xmlns='jabber:client' "
    b"xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>"
)
END = b"</stream:stream>"
STREAM_ERROR = re.compile(rb"<stream:error><([a-z-]+) xmlns='urn:ietf:params:xml:ns:xmpp-streams'")
STANZA_ERROR = re.compile(rb"<error type='[a-z]+'><([a-z-]+) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'")
SASL_FAILURE = re.compile(rb"<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><([a-z-]+)/?>")
# Longer than the server waits for a login: noise may look like the start of a record that is still to come.
PATIENCE = 40.0


class Surprise(Exception):
    """The server did something that it should not have."""


def bind(resource=""):
    inner = f"<resource>{resource}</resource>" if resource else ""
    return f"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>{inner}</bind></iq>".encode()


def plain(user, password=PASSWORD):
    token = base64.b64encode(f"\0{user}\0{password}".encode())
    return b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>" + token + b"</auth>"


class Wire:
    """A socket. What comes in collects in `heard`; what has been looked at is behind `at`."""

    def __init__(self, sock):
        self.sock = sock
        self.loop = asyncio.get_running_loop()
        self.heard = bytearray()
        self.at = 0
        self.ended = False

    @classmethod
    async def connect(cls, port, source="127.0.0.1", receive_buffer=0):
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        # IP_BIND_ADDRESS_NO_PORT: the port is chosen at connect, when the whole pair is known to be free.
        sock.setsockopt(socket.IPPROTO_IP, 24, 1)
        sock.bind((source, 0))
        async with asyncio.timeout(PATIENCE):
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        return cls(sock)

    async def send(self, data):
        """Sends. Returns False once the server takes no more."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.loop.sock_sendall(self.sock, data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False
        except TimeoutError:
            raise Surprise(f"nothing was taken for {PATIENCE} s, nor was the connection closed") from None

    async def hear_more(self):
        try:
            data = await self.loop.sock_recv(self.sock, 65536)
        except ConnectionResetError:
            data = b""
        self.heard += data
        self.ended = not data
        return not self.ended

    async def until(self, mark, patience=PATIENCE):
        """Everything up to and with `mark`."""
        try:
            async with asyncio.timeout(patience):
                while (found := self.heard.find(mark, self.at)) < 0:
                    if not await self.hear_more():
                        raise Surprise(f"closed before {mark!r}: {bytes(self.heard[-300:])!r}")
        except TimeoutError:
            raise Surprise(f"no {mark!r} in {patience} s: {bytes(self.heard[-300:])!r}") from None
        start, self.at = self.at, found + len(mark)
        return bytes(self.heard[start : self.at])

    async def to_the_end(self, patience=PATIENCE):
        """Reads until the server closes. Returns what was new."""
        try:
            async with asyncio.timeout(patience):
                while not self.ended:
                    await self.hear_more()
        except TimeoutError:
            raise Surprise(f"not closed in {patience} s: {bytes(self.heard[-300:])!r}") from None
        return bytes(self.heard[self.at :])

    async def open(self):
        await self.send(HEADER)
        return await self.until(b"</stream:features>")

    async def authenticate(self, user):
        await self.send(plain(user))
        await self.until(b"<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'")
        await self.until(b">")

    async def login(self, user, resource="", sm=False, presence=True):
        """A bound session. Returns its full JID."""
        await self.open()
        await self.authenticate(user)
        await self.open()
        await self.send(bind(resource))
        jid = re.search(rb"<jid>([^<]+)</jid>", await self.until(b"</iq>"))
        if jid is None:
            raise Surprise(f"not bound: {bytes(self.heard[-300:])!r}")
        self.sm_id = None
        if sm:
            await self.send(b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>")
            await self.until(b"<enabled")
            self.sm_id = re.search(r"id='([^']+)'", (await self.until(b">")).decode()).group(1)
        if presence:
            await self.send(b"<presence/>")
        return jid.group(1).decode()

    def close(self):
        self.sock.close()


def check_document(heard):
    """The last stream of what was heard is one whole, well-formed document with the right root (RFC 6120 4.9.1.2)."""
    start = heard.rfind(b"<?xml version='1.0'?>")
    if start < 0:
        raise Surprise(f"no stream header: {bytes(heard[:200])!r}")
    root = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = lambda name, _: root or root.append(name)
    try:
        parser.Parse(bytes(heard[start:]), True)
    except expat.ExpatError as error:
        raise Surprise(f"not a whole document ({error}): {bytes(heard[-300:])!r}") from None
    if root != ["http://etherx.jabber.org/streams stream"]:
        raise Surprise(f"root {root}")
