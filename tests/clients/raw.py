"""A client of a few lines: it sends what it is told, when it is told, which the
libraries do not."""

import asyncio
import base64
import ssl

from servers import DOMAIN

#: Seconds until an answer must have come.
WAIT = 10.0

HEADER = (
    f"<?xml version='1.0'?><stream:stream to='{DOMAIN}' version='1.0' xmlns='jabber:client' "
    "xmlns:stream='http://etherx.jabber.org/streams'>"
)
BIND = (
    "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
    "<resource>raw</resource></bind></iq>"
)


def plain(account):
    """`<auth/>` with PLAIN (RFC 4616)."""
    message = base64.b64encode(f"\0{account.name}\0{account.password}".encode()).decode()
    return f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{message}</auth>"


class Raw:
    """One connection."""

    def __init__(self, world):
        self.world = world
        self.reader = self.writer = None

    async def open(self):
        """Connect, secure the stream as the mode says, and read the features."""
        context = ssl.create_default_context(cafile=self.world.server.cafile)
        direct = {"ssl": context, "server_hostname": DOMAIN} if self.world.tls == "direct" else {}
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.world.port, **direct
        )
        self.send(HEADER)
        await self.until("</stream:features>")
        if self.world.tls == "starttls":
            self.send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            await self.until("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            await self.writer.start_tls(context, server_hostname=DOMAIN)
            self.send(HEADER)
            await self.until("</stream:features>")
        return self

    def send(self, text):
        """Write."""
        self.writer.write(text.encode())

    async def until(self, end):
        """All that comes up to this text."""
        read = await asyncio.wait_for(self.reader.readuntil(end.encode()), WAIT)
        return read.decode()

    def close(self):
        """Abort the connection."""
        if self.writer is not None:
            self.writer.transport.abort()
