"""A push service (RFC 8030) and the browsers that subscribe to it. It takes nothing that a real one would not: tokens of RFC 8292 are
verified by PyJWT, and pushes are decrypted by http-ece (RFC 8291, RFC 8188), which know nothing of the server."""

import base64
import datetime
import http.server
import ipaddress
import json
import re
import ssl
import threading
import time
import uuid

import http_ece
import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ports import free_port


def b64(raw):
    """Base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def point(public):
    """A public key, uncompressed."""
    return public.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def certificate(folder):
    """The files of a certificate for localhost, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "push service of the tests")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2)).add_extension(x509.SubjectAlternativeName(names), False)
            .sign(key, hashes.SHA256()))
    chain, private = folder / "push.pem", folder / "push-key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return chain, private


class Browser:
    """One subscription (Push API): its keys, and what it was told."""

    def __init__(self, service):
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.auth = uuid.uuid4().bytes
        self.path = f"/push/{uuid.uuid4().hex}"
        self.endpoint = f"https://localhost:{service.port}{self.path}"
        self.got, self.heads = [], []
        #: Statuses of the next answers, with fields of them; then 201.
        self.answers = []
        #: How long the next answers take, seconds.
        self.takes = []
        #: When it ends by itself, milliseconds since 1970.
        self.expires_ms = None

    def subscription(self):
        """PushSubscription.toJSON()."""
        keys = {"p256dh": b64(point(self.private.public_key())), "auth": b64(self.auth)}
        return {"endpoint": self.endpoint, "expirationTime": self.expires_ms, "keys": keys}

    def data(self):
        """The content of all items that it was told of."""
        return [item.get("data") for item in self.got]


class PushService(http.server.ThreadingHTTPServer):
    """It, on a port of its own."""

    daemon_threads = True

    def __init__(self, folder):
        self.port = free_port()
        self.browsers, self.faults, self.requests = {}, [], 0
        super().__init__(("127.0.0.1", self.port), Resource)
        self.authority, private = certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, private)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A server that was killed ends its connections."""

    def browser(self):
        """Somebody subscribes."""
        browser = Browser(self)
        self.browsers[browser.path] = browser
        return browser

    def check(self, head, body):
        """What is wrong with a push, if anything."""
        vapid = re.fullmatch(r"vapid t=([\w.-]+), k=([\w-]+)", head.get("Authorization", ""))
        if not vapid:
            return "RFC 8292 3: no token"
        token, raw = vapid[1], base64.urlsafe_b64decode(vapid[2] + "==")
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw)
        audience = f"https://localhost:{self.port}"
        try:
            claims = jwt.decode(token, key, algorithms=["ES256"], audience=audience, options={"require": ["exp", "aud", "sub"]})
        except jwt.InvalidTokenError as error:
            return f"RFC 8292 2: {error}"
        if claims["exp"] > time.time() + 86_400 or not re.match("mailto:|https:", claims["sub"]):
            return f"RFC 8292 2: {claims}"
        if head.get("Content-Encoding") != "aes128gcm" or not 0 < len(body) <= 4096:
            return "RFC 8291 4"
        if not re.fullmatch(r"\d+", head.get("TTL", "")):
            return "RFC 8030 5.2"
        if head.get("Urgency", "normal") not in ("very-low", "low", "normal", "high"):
            return "RFC 8030 5.3"
        if not re.fullmatch(r"[\w-]{0,32}", head.get("Topic", "")):
            return "RFC 8030 5.4"
        return None


class Resource(http.server.BaseHTTPRequestHandler):
    """A push resource (RFC 8030 5)."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Nothing: what is wrong is kept."""

    def do_POST(self):
        service = self.server
        service.requests += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        browser = service.browsers.get(self.path)
        if browser is None:
            return self.answer(410)
        if browser.takes:
            time.sleep(browser.takes.pop(0))
        if browser.answers:
            status, fields = browser.answers.pop(0)
            return self.answer(status, **fields)
        fault = service.check(self.headers, body)
        if fault:
            service.faults.append(fault)
            return self.answer(400)
        content = http_ece.decrypt(body, private_key=browser.private, auth_secret=browser.auth, version="aes128gcm")
        browser.heads.append(self.headers)
        browser.got.append(json.loads(content))
        return self.answer(201)

    def answer(self, status, **fields):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
