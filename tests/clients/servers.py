"""The servers under test: Throng, and Prosody to know that the tests are right.

Each runs as a child process on free loopback ports with its data, its
certificate and its log in one temporary folder.
"""

import asyncio
import base64
import hashlib
import hmac
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from decider import TOKEN, Decider
from ports import free_port

DOMAIN = "localhost"
#: Accounts made before the start; each test takes fresh ones.
ACCOUNTS = 3000
#: Seconds until a server must accept connections, or have ended.
START = 30.0
#: Domains of external components.
COMPONENTS = [f"{name}.localhost" for name in ("echo", "raw", "example", "storm")]


@dataclass(frozen=True)
class Account:
    """An account of the server under test."""

    name: str
    password: str

    @property
    def jid(self):
        """The bare address."""
        return f"{self.name}@{DOMAIN}"


class Server:
    """What the two servers have in common."""

    def __init__(self, accounts=ACCOUNTS):
        self.accounts = accounts
        #: The processes that run clients of other languages, by their kind.
        self.agents = {}
        self.folder = Path(tempfile.mkdtemp(prefix="throng-clients-"))
        self.log_path = self.folder / "server.log"
        self.c2s = free_port()
        self.c2s_tls = free_port()
        self.http = free_port()
        self.https = free_port()
        self.bytestreams = free_port()
        self.cafile = self.folder / "trusted.pem"
        self.process = None
        self._next = 0

    def prepared(self):
        """The accounts made before the start."""
        return [Account(f"user{n:04}", f"pass-{n:04}") for n in range(self.accounts)]

    def fresh(self):
        """A prepared account that no test has used."""
        account = Account(f"user{self._next:04}", f"pass-{self._next:04}")
        self._next += 1
        assert self._next <= self.accounts, "raise ACCOUNTS in servers.py"
        return account

    def unregistered(self):
        """An account that does not exist yet."""
        self._next += 1
        return Account(f"new{self._next:04}", f"pass-new{self._next:04}")

    def start(self):
        """Start the process and wait until it listens; learn its certificate."""
        self.prepare()
        self._launch()
        # The certificate is self-signed: trust exactly the one it shows.
        self.cafile.write_text(ssl.get_server_certificate(("127.0.0.1", self.c2s_tls), timeout=START))
        return self

    def restart(self, kill=False):
        """Stop the process in order, or kill it, and start it on the same data and ports."""
        if kill:
            self.process.kill()
            self.process.wait()
        self.stop()
        for port in (self.c2s, self.c2s_tls):
            self._wait_port_closed(port)
        self._launch()

    def _launch(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder,
            )
        for port in (self.c2s, self.c2s_tls):
            self._wait_port(port)

    def _wait_port(self, port):
        deadline = time.monotonic() + START
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    code = self.process.poll()
                    self.stop()
                    raise RuntimeError(
                        f"{self.name} does not listen on {port} (exit {code}):\n{self.log()}"
                    ) from None
                time.sleep(0.05)

    def _wait_port_closed(self, port):
        """The kernel takes a ring of a killed process down after its end, and the listeners with it."""
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except ConnectionRefusedError:
                return
            except OSError:
                pass
            time.sleep(0.02)
        raise RuntimeError(f"{port} is still open {START:.0f} s after the end of {self.name}")

    def stop(self):
        """Stop the process by its id, hard if it does not end in ten seconds."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise RuntimeError(f"{self.name} did not stop on SIGTERM in 10 s") from None

    def remove(self):
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_size(self):
        """Bytes of log so far."""
        return self.log_path.stat().st_size if self.log_path.exists() else 0

    def log(self, since=0, limit=20_000):
        """The log from byte `since` on, its last `limit` characters."""
        if not self.log_path.exists():
            return ""
        with open(self.log_path, "rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")[-limit:]

    async def logged(self, *phrases, since=0):
        """The log from byte `since` on, once it has all of these phrases: it is written beside what it tells of."""
        end = time.monotonic() + 20
        while True:
            text = self.log(since)
            missing = [phrase for phrase in phrases if phrase not in text]
            if not missing:
                return text
            assert time.monotonic() < end, f"the log has no {missing}:\n{text}"
            await asyncio.sleep(0.05)


class Throng(Server):
    """`throng serve` with one driver, on several threads."""

    def __init__(self, driver, shards=3, accounts=ACCOUNTS, options=(), registration="open"):
        super().__init__(accounts)
        self.driver = driver
        self.registration = registration
        self.options = ["--shards", str(shards), *options]
        self.name = f"throng ({driver})"
        self.binary = os.environ["THRONG_BIN"]
        self.admin_http = free_port()
        self.data = self.folder / "data"
        self.upload = free_port()
        self.turn = free_port()
        self.turn_secret = "shared with the relay of the tests"
        self.component = free_port()
        self.component_secret = "shared with the components of the tests"
        self.component_secret_file = self.folder / "component.secret"

    def prepare(self):
        """Import the accounts while the server is stopped."""
        (self.folder / "turn.secret").write_text(self.turn_secret + "\n")
        self.component_secret_file.write_text(self.component_secret + "\n")
        csv = self.folder / "users.csv"
        csv.write_text("".join(f"{a.name},{a.password}\n" for a in self.prepared()))
        self._user("import", str(csv), "--domain", DOMAIN)

    def _user(self, verb, *rest):
        done = subprocess.run(
            [self.binary, "user", verb, *rest, "--data", str(self.data)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        )
        if done.returncode:
            raise RuntimeError(f"throng user {verb}: {done.stdout}{done.stderr}")

    def _launch(self):
        super()._launch()
        self._wait_control()

    def _wait_control(self):
        """Wait until operators are answered, which may begin after clients are."""
        deadline = time.monotonic() + START
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as control:
                    return control.connect(str(self.data / "throng.sock"))
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def add_account(self, account):
        """`throng user add` while the server runs."""
        self._user("add", account.jid, "--password", account.password)

    def command(self):
        """The command line of the server."""
        return [
            self.binary, "serve", "--data", str(self.data), "--domain", DOMAIN,
            "--c2s", f"127.0.0.1:{self.c2s}", "--c2s-tls", f"127.0.0.1:{self.c2s_tls}",
            # Who comes by a proxy comes from anywhere, and may register here: that has to be meant.
            "--i-know", "--http", f"127.0.0.1:{self.http}", "--https", f"127.0.0.1:{self.https}",
            "--admin-http", f"127.0.0.1:{self.admin_http}",
            "--upload", f"127.0.0.1:{self.upload}", "--upload-file-bytes-max", "5MiB",
            "--upload-slots-max", "20", "--bytestreams", f"127.0.0.1:{self.bytestreams}",
            "--bytestreams-user-bytes-per-second-max", "0", "--driver", self.driver, "--plain-auth", "--registration", self.registration,
            "--contact-addresses", "admin=xmpp:admin@localhost",
            "--contact-addresses", "abuse=mailto:abuse@localhost,abuse=xmpp:abuse@localhost",
            "--external-services", f"stun:127.0.0.1:{self.turn},turn:127.0.0.1:{self.turn}",
            "--external-services-secret", str(self.folder / "turn.secret"),
            "--component", f"127.0.0.1:{self.component}",
            *(part for domain in COMPONENTS for part in ("--components", f"{domain}={self.component_secret_file}")),
            *self.options,
        ]


def scram_sha_1_keys(password, salt=b"0123456789abcdef", rounds=4096):
    """What other servers store of a password (RFC 5803)."""
    salted = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, rounds)
    stored = hashlib.sha1(hmac.digest(salted, b"Client Key", "sha1")).digest()
    server = hmac.digest(salted, b"Server Key", "sha1")
    salt, stored, server = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"{{SCRAM-SHA-1${rounds}:{salt}${stored}:{server}}}"


def throng(server, *words):
    """A command on a server's data folder; what it says."""
    done = subprocess.run(
        [server.binary, *words, "--data", str(server.data)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Moved(Throng):
    """Throng with accounts of another server, of whose passwords it has keys of SHA-1."""

    def prepare(self):
        """Import the keys while the server is stopped."""
        (self.folder / "turn.secret").write_text(self.turn_secret + "\n")
        self.component_secret_file.write_text(self.component_secret + "\n")
        csv = self.folder / "users.csv"
        csv.write_text("".join(f"{a.name},{scram_sha_1_keys(a.password)}\n" for a in self.prepared()))
        self._user("import", str(csv), "--domain", DOMAIN)


#: For `openssl ca`.
CA_CONFIG = """
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
crlnumber = {folder}/crlnumber
default_md = sha256
default_crl_days = 30
policy = any
unique_subject = no
[any]
commonName = optional
"""


class Authority:
    """Certificates, made by OpenSSL."""

    def __init__(self, folder, name="Verona CA"):
        self.folder = folder
        folder.mkdir()
        self.pem, self.key, self.revoked = (folder / n for n in ("ca.pem", "ca.key", "revoked.pem"))
        for file, text in (("index.txt", ""), ("serial", "1000\n"), ("crlnumber", "1000\n"),
                           ("ca.cnf", CA_CONFIG.format(folder=folder))):
            (folder / file).write_text(text)
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                      "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                      "-keyout", self.key, "-out", self.pem)
        self._ca("-gencrl", "-out", self.revoked)
        self.count = 0

    @staticmethod
    def _openssl(*arguments):
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise RuntimeError(f"openssl {arguments}: {done.stderr}")

    def _ca(self, *arguments):
        self._openssl("ca", "-batch", "-notext", "-config", self.folder / "ca.cnf", "-cert", self.pem,
                      "-keyfile", self.key, *arguments)

    def issue(self, *jids, name="phone", ended=False):
        """A certificate with these XMPP addresses (RFC 6120 13.7.1.4): its file, and that of its key."""
        self.count += 1
        pem, key, csr, ext = (self.folder / f"{self.count}.{s}" for s in ("pem", "key", "csr", "ext"))
        self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                      "-subj", f"/CN={name}", "-keyout", key, "-out", csr)
        names = ",".join(f"otherName:1.3.6.1.5.5.7.8.5;UTF8:{jid}" for jid in jids)
        ext.write_text("extendedKeyUsage=clientAuth\n" + (f"subjectAltName={names}\n" if names else ""))
        times = ("-startdate", "200101000000Z", "-enddate", "200201000000Z") if ended else ("-days", "10")
        self._ca("-in", csr, "-out", pem, "-extfile", ext, *times)
        return str(pem), str(key)

    def revoke(self, certificate):
        """Revoke one, and write the list anew."""
        self._ca("-revoke", certificate[0])
        self._ca("-gencrl", "-out", self.revoked)


class Certified(Throng):
    """Throng that takes certificates of clients."""

    def prepare(self):
        """Import the accounts, and make the authority."""
        super().prepare()
        self.authority = Authority(self.folder / "ca")
        self.stranger = Authority(self.folder / "other", "Mantua CA")
        self.options += ["--tls-client-authorities", str(self.authority.pem),
                         "--tls-client-revoked", str(self.authority.revoked)]

    def reload(self):
        """`throng ctl reload`."""
        subprocess.run([self.binary, "ctl", "reload", "--data", str(self.data)], check=True, capture_output=True, timeout=60)


class Keyed(Throng):
    """Throng whose channels need tokens of an issuer. The keys are its own affair: the file is there before it starts."""

    def prepare(self):
        """Import the accounts, and write the issuer's public keys."""
        super().prepare()
        self.keys, self.revoked = self.folder / "keys.json", self.folder / "revoked"
        self.keys.write_text(self.jwks)
        self.revoked.write_text("")
        self.options += ["--notify", "news.", "--notify-publish-open", "--notify-private", "own.", "--notify-jwt-keys", str(self.keys),
                         "--mercure", "--centrifugo", "--notify-private", "https:",
                         "--notify-jwt-revoked", str(self.revoked), "--notify-jwt-issuer", "https://issuer.example",
                         "--notify-jwt-audience", "throng", "--notify-publications-per-second", "0",
                         "--notify-occupancy", "own.", "--notify-wildcards", "any"]

    def reload(self):
        """`throng ctl reload`; what it says."""
        done = subprocess.run([self.binary, "ctl", "reload", "--data", str(self.data)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr


class Asking(Throng):
    """Throng that asks a web service who may use channels. The service answers before it starts."""

    def prepare(self):
        """Import the accounts, and start the service."""
        super().prepare()
        self.decider = Decider(free_port()).start()
        token = self.folder / "decider.token"
        token.write_text(TOKEN + "\n")
        self.options += ["--notify", "news.", "--notify-publish-open", "--notify-ask", "app.", "--mercure",
                         "--notify-ask-url", f"http://127.0.0.1:{self.decider.port}/decide?of=channels",
                         "--notify-ask-token", str(token), "--notify-ask-headers", "Cookie,Authorization",
                         "--notify-ask-seconds", "2", "--notify-ask-per-second", "0", "--notify-occupancy", "app."]


#: Says yes to the accounts of the tests, unless a file says that they are gone; hangs, dies and talks nonsense when it is asked to.
EXTAUTH = """#!/usr/bin/env python3
import os, re, struct, sys, time
here = os.path.dirname(os.path.abspath(__file__))
def gone(user): return os.path.exists(f"{here}/gone-{user}")
while len(head := sys.stdin.buffer.read(2)) == 2:
    what, user, domain, *rest = sys.stdin.buffer.read(struct.unpack(">H", head)[0]).decode().split(":", 3)
    if os.path.exists(f"{here}/broken"): sys.exit(1)
    if rest == ["hang"]: time.sleep(600)
    if rest == ["die"]: sys.exit(1)
    if rest == ["nonsense"]: print("yes", flush=True)
    known = re.fullmatch("user[0-9]{4}", user) and domain == "localhost" and not gone(user)
    right = known and (what == "isuser" or rest == ["pass-" + user[4:]])
    sys.stdout.buffer.write(struct.pack(">HH", 2, bool(right)))
    sys.stdout.buffer.flush()
"""


class External(Throng):
    """Throng whose users are kept elsewhere: it has no account before the first login."""

    def prepare(self):
        """Write the program that is asked; nobody is imported."""
        (self.folder / "turn.secret").write_text(self.turn_secret + "\n")
        self.component_secret_file.write_text(self.component_secret + "\n")
        program = self.folder / "extauth"
        program.write_text(EXTAUTH)
        program.chmod(0o755)
        self.options += ["--external-auth", f"{DOMAIN}={program}", "--external-auth-seconds", "2",
                         "--external-auth-lines", "3"]

    def oust(self, account):
        """The user is gone elsewhere."""
        (self.folder / f"gone-{account.name}").touch()

    def throng(self, *arguments):
        """A command at the running server: its exit code and what it said."""
        done = subprocess.run([self.binary, *arguments, "--data", str(self.data)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr


PROSODY_CONFIG = """
run_as_root = true
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
certificates = "{folder}"
log = {{ {{ levels = {{ min = "debug" }}, to = "console" }} }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {c2s} }}
c2s_direct_tls_ports = {{ {c2s_tls} }}
s2s_ports = {{ }}
http_ports = {{ }}
https_ports = {{ }}
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
authentication = "internal_plain"
allow_registration = true
smacks_hibernation_time = 300
modules_enabled = {{
  "roster", "saslauth", "tls", "disco", "private", "version", "uptime", "time",
  "ping", "register", "lastactivity", "offline", "smacks", "carbons", "csi", "csi_simple", "blocklist"
}}
modules_disabled = {{ "s2s" }}
ssl = {{ certificate = "{folder}/localhost.crt", key = "{folder}/localhost.key" }}
proxy65_ports = {{ {bytestreams} }}
VirtualHost "localhost"
Component "proxy.localhost" "proxy65"
proxy65_address = "127.0.0.1"
"""


class Prosody(Server):
    """Debian's Prosody."""

    driver = "prosody"
    name = "prosody"

    def prepare(self):
        """Write configuration, certificate and the accounts' files."""
        # The same kind of certificate as Throng makes.
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-keyout", "localhost.key", "-out", "localhost.crt",
             "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost",
             "-addext", "basicConstraints=critical,CA:FALSE",
             "-addext", "keyUsage=critical,digitalSignature",
             "-addext", "extendedKeyUsage=serverAuth"],
            cwd=self.folder, check=True, capture_output=True,
        )
        accounts = self.folder / "data" / DOMAIN / "accounts"
        accounts.mkdir(parents=True)
        for account in self.prepared():
            (accounts / f"{account.name}.dat").write_text(
                f'return {{ ["password"] = "{account.password}"; }};\n'
            )
        (self.folder / "prosody.cfg.lua").write_text(
            PROSODY_CONFIG.format(
                folder=self.folder, c2s=self.c2s, c2s_tls=self.c2s_tls, bytestreams=self.bytestreams)
        )

    def command(self):
        """The command line of the server."""
        return ["prosody", "-F", "--config", str(self.folder / "prosody.cfg.lua")]
