"""Romeo and Juliet over TLS, with the standard library alone.

chat.py CERT live: Juliet receives a message of Romeo. chat.py CERT archive: her archive (XEP-0313) has it.
"""

import base64
import re
import socket
import ssl
import sys

HEADER = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"


class Client:
    def __init__(self, user):
        trust = ssl.create_default_context(cafile=sys.argv[1])
        plain = socket.create_connection(("127.0.0.1", 5223), timeout=60)
        self.socket = trust.wrap_socket(plain, server_hostname="localhost")
        self.heard = ""
        self.ask(HEADER, "</stream:features>")
        secret = base64.b64encode(f"\0{user}\0pencil".encode()).decode()
        self.ask(f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{secret}</auth>", "<success")
        self.ask(HEADER, "</stream:features>")
        self.ask("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", "</jid>")
        self.ask("<presence/>", "<presence")

    def ask(self, text, until):
        self.socket.sendall(text.encode())
        while not re.search(until, self.heard):
            data = self.socket.recv(4096)
            if not data:
                sys.exit(f"the stream ends: {self.heard}")
            self.heard += data.decode()
        heard, self.heard = self.heard, ""
        return heard


juliet = Client("juliet")
if sys.argv[2] == "live":
    Client("romeo").socket.sendall(b"<message to='juliet@localhost' type='chat'><body>Good night</body></message>")
    juliet.ask("", "<body>Good night</body>")
else:
    heard = juliet.ask("<iq type='set' id='a'><query xmlns='urn:xmpp:mam:2'/></iq>", "<fin ")
    if "<body>Good night</body>" not in heard:
        sys.exit(f"not in the archive: {heard}")
