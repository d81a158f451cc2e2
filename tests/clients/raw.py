"""A client of a few lines: it sends what it is told, when it is told, which the
libraries do not."""

import asyncio
import base64
import hashlib
import hmac
import ssl

from events import WAIT
from servers import DOMAIN

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


async def scram_final(raw, account):
    """Does SCRAM-SHA-1 (RFC 5802) up to the last `<response/>`, which is returned."""
    first = f"n={account.name},r=rawnonce"
    initial = base64.b64encode(f"n,,{first}".encode()).decode()
    ns = "xmlns='urn:ietf:params:xml:ns:xmpp-sasl'"
    raw.send(f"<auth {ns} mechanism='SCRAM-SHA-1'>{initial}</auth>")
    answer = await raw.until("</challenge>")
    challenge = base64.b64decode(answer.rsplit("</", 1)[0].rsplit(">", 1)[1]).decode()
    # What follows is optional (XEP-0474).
    nonce, salt, rounds = (part[2:] for part in challenge.split(",")[:3])
    salted = hashlib.pbkdf2_hmac(
        "sha1", account.password.encode(), base64.b64decode(salt), int(rounds)
    )
    key = hmac.digest(salted, b"Client Key", "sha1")
    final = f"c=biws,r={nonce}"
    signed = f"{first},{challenge},{final}".encode()
    signature = hmac.digest(hashlib.sha1(key).digest(), signed, "sha1")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
    return f"<response {ns}>{base64.b64encode(f'{final},p={proof}'.encode()).decode()}</response>"


class Raw:
    """One connection."""

    def __init__(self, world):
        self.world = world
        self.reader = self.writer = None
        #: What the stream offers as it is once secured.
        self.features = ""
        #: Files with a certificate to be shown and its key.
        self.certificate = None

    async def connect(self):
        """Connect, with TLS if that comes first; nothing is said yet."""
        context = ssl.create_default_context(cafile=self.world.server.cafile)
        if self.certificate:
            context.load_cert_chain(*self.certificate)
        direct = {"ssl": context, "server_hostname": DOMAIN} if self.world.tls == "direct" else {}
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.world.port, **direct
        )
        return context

    async def open(self):
        """Connect, secure the stream as the mode says, and read the features."""
        context = await self.connect()
        self.send(HEADER)
        self.features = await self.until("</stream:features>")
        if self.world.tls == "starttls":
            self.send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            await self.until("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            await self.writer.start_tls(context, server_hostname=DOMAIN)
            self.send(HEADER)
            self.features = await self.until("</stream:features>")
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
