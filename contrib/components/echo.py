#!/usr/bin/env python3
"""An example of an external component (XEP-0114): it answers messages with their
own text, says that it is there to whoever subscribes, and tells what it is.

    throng serve --components echo.localhost=echo.secret
    contrib/components/echo.py --domain echo.localhost --secret-file echo.secret

It needs nothing but Python 3.9 or later. The secret comes from a file, because
other users of a host see command lines. When the connection ends, it connects again.
"""

import argparse
import hashlib
import socket
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from xml.sax.saxutils import quoteattr

CONTENT = "jabber:component:accept"
STREAM = "http://etherx.jabber.org/streams"
DISCO = "http://jabber.org/protocol/disco#info"
PING = "urn:xmpp:ping"
STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas"
#: Seconds between two attempts to connect.
AGAIN = 3


class Component:
    """One stream to the server."""

    def __init__(self, address, domain, secret):
        self.domain = domain
        self.socket = socket.create_connection(address)
        self.parser = ET.XMLPullParser(["start", "end"])
        self.depth, self.root = 0, None
        self.send(f"<stream:stream xmlns='{CONTENT}' xmlns:stream='{STREAM}' to={quoteattr(domain)}>")
        header = next(self.elements())
        # XEP-0114 3: SHA-1 of the stream's id and the secret, in lower-case hexadecimal digits.
        proof = hashlib.sha1((header.get("id", "") + secret).encode()).hexdigest()
        self.send(f"<handshake>{proof}</handshake>")
        answer = next(self.elements())
        if answer.tag != f"{{{CONTENT}}}handshake":
            raise ConnectionError(f"refused: {[child.tag.split('}')[1] for child in answer]}")

    def send(self, text):
        """Writes XML."""
        self.socket.sendall(text.encode())

    def elements(self):
        """The stream's header, and then each stanza when it is complete."""
        while True:
            for event, element in self.parser.read_events():
                if event == "start":
                    self.depth += 1
                    if self.depth == 1:
                        self.root = element
                        yield element
                    continue
                self.depth -= 1
                if self.depth == 0:
                    raise ConnectionError("the server has closed the stream")
                if self.depth == 1:
                    # Or the tree of the stream would grow for ever.
                    self.root.remove(element)
                    if element.tag == f"{{{STREAM}}}error":
                        raise ConnectionError(f"stream error: {[child.tag.split('}')[1] for child in element]}")
                    yield element
            read = self.socket.recv(65536)
            if not read:
                raise ConnectionError("the connection has ended")
            self.parser.feed(read)
            # Newer versions of expat may hold a piece back until more comes.
            getattr(self.parser, "flush", lambda: None)()

    def answer(self, stanza):
        """What a stanza is answered with, or nothing."""
        kind, sender, to = stanza.get("type"), stanza.get("from"), stanza.get("to")
        name = stanza.tag.split("}")[1]
        if kind == "error" or not sender or not to:
            return None
        addresses = f"from={quoteattr(to)} to={quoteattr(sender)}"
        if name == "message":
            body = stanza.findtext(f"{{{CONTENT}}}body")
            if body is None:
                return None
            reply = ET.Element("body")
            reply.text = body
            return f"<message {addresses} type={quoteattr(kind or 'normal')}>{ET.tostring(reply, 'unicode')}</message>"
        bare = f"from={quoteattr(to.split('/')[0])} to={quoteattr(sender.split('/')[0])}"
        if name == "presence":
            return {
                # Whoever wants to see it may, and it wants to see them.
                "subscribe": f"<presence {bare} type='subscribed'/><presence {bare}/><presence {bare} type='subscribe'/>",
                "unsubscribe": f"<presence {bare} type='unsubscribed'/>",
                "probe": f"<presence {bare}/>",
            }.get(kind)
        if name == "iq" and kind in ("get", "set"):
            query = stanza[0].tag if len(stanza) else ""
            addresses += f" id={quoteattr(stanza.get('id', ''))}"
            if kind == "get" and query == f"{{{DISCO}}}query" and not stanza[0].get("node"):
                return (
                    f"<iq type='result' {addresses}><query xmlns='{DISCO}'>"
                    "<identity category='component' type='generic' name='Echo'/>"
                    f"<feature var='{DISCO}'/><feature var='{PING}'/></query></iq>"
                )
            if kind == "get" and query == f"{{{PING}}}ping":
                return f"<iq type='result' {addresses}/>"
            return (
                f"<iq type='error' {addresses}><error type='cancel'>"
                f"<service-unavailable xmlns='{STANZAS}'/></error></iq>"
            )
        return None

    def run(self):
        """Answers until the stream ends."""
        for stanza in self.elements():
            answer = self.answer(stanza)
            if answer:
                self.send(answer)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--domain", required=True, help="the component's domain")
    options.add_argument("--secret-file", required=True, help="file with the secret")
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=5347)
    options.add_argument("--once", action="store_true", help="end with the connection")
    options = options.parse_args()
    secret = Path(options.secret_file).read_text().strip()
    while True:
        try:
            component = Component((options.host, options.port), options.domain, secret)
            print(f"{options.domain} is connected", flush=True)
            component.run()
        except (OSError, ET.ParseError) as error:
            print(f"{options.domain}: {error}", file=sys.stderr, flush=True)
        if options.once:
            return 1
        time.sleep(AGAIN)


if __name__ == "__main__":
    sys.exit(main())
