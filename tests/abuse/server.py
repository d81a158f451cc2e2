"""The server under test: a process of its own with a fresh data folder, and what can be read of it from outside."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from channel_keys import AUDIENCE, ISSUER, JWKS

PASSWORD = "secret"
# Accounts that fill the store are this and a number.
FILLERS = "filler"
# The domain of an external component (XEP-0114), and its secret.
COMPONENT, SECRET = "rogue.localhost", "nobody is told of this"
# A domain whose users a program keeps, of which there are so many processes, with so many seconds for an answer.
OUTSIDE, LINES, OUTSIDE_S = "outside.localhost", 4, 2
# Whose page may connect by WebSocket.
PAGE = "https://chat.example.org"
# What shows the operator at channels, how many requests of an address may wait there, and what it may publish in a second. Each of the
# two shards counts by itself.
TOKEN, WAITING, PUBLICATIONS, SHARDS = "the operator's own token", 40, 20, 2
# Connections of the proxy of bytestreams that have not begun, in all and of one address.
PROXY_WAITING, PER_ADDRESS = 100, 10


class Server:
    """`throng serve` with two shards on loopback. Time-outs are short, so that their effects can be waited for."""

    def __init__(self, binary, driver, accounts, options, descriptors=None):
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="throng-abuse-"))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        csv = self.folder / "accounts.csv"
        csv.write_text("".join(f"{name},{PASSWORD}\n" for name in accounts))
        self.call("user", "import", str(csv), "--domain", "localhost", "--data", str(self.data))
        command = [binary, "serve", "--data", str(self.data), "--c2s", "127.0.0.1:0", "--c2s-tls", "127.0.0.1:0"]
        secret = self.folder / "component.secret"
        secret.write_text(SECRET + "\n")
        secret.chmod(0o600)
        command += ["--component", "127.0.0.1:0", "--components", f"{COMPONENT}={secret}"]
        command += ["--virtual-hosts", OUTSIDE, "--external-auth", f"{OUTSIDE}={Path(__file__).parent / 'back_end.py'}"]
        command += ["--external-auth-lines", str(LINES), "--external-auth-seconds", str(OUTSIDE_S)]
        command += ["--bytestreams", "127.0.0.1:0", "--bytestreams-waiting-max", str(PROXY_WAITING)]
        command += ["--bytestreams-per-address-max", str(PER_ADDRESS)]
        command += ["--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--http-origins", PAGE, *self.channels()]
        # Whoever attacks from within reaches what else holds, and the synthetic users send faster than people do.
        command += ["--account-stanzas-per-second", "0"]
        command += ["--plain-auth", "--shards", str(SHARDS), "--driver", driver, *options]
        self.command = command
        if descriptors:
            command = ["prlimit", f"--nofile={descriptors}:{descriptors}", *command]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        ports = self._ports()
        self.port, self.tls_port, self.component_port = ports["STARTTLS"], ports["TLS"], ports["components"]
        self.http_port, self.https_port, self.proxy_port = ports["HTTP"], ports["HTTPS"], ports["bytestreams"]

    def channels(self):
        """Channels that everybody publishes at, and such that need a token."""
        files = {"keys": JWKS, "token": TOKEN + "\n"}
        for name, content in files.items():
            (self.folder / name).write_text(content)
            (self.folder / name).chmod(0o600)
        options = ["--notify", "open.", "--notify-publish-open", "--notify-private", "own.", "--mercure", "--nchan"]
        options += ["--notify-wildcards", "open.wild.", "--notify-wildcards", "own."]
        options += ["--notify-token", str(self.folder / "token"), "--notify-jwt-keys", str(self.folder / "keys")]
        options += ["--notify-jwt-audience", AUDIENCE, "--notify-jwt-issuer", ISSUER]
        return [*options, "--notify-waiting-per-address-max", str(WAITING), "--notify-publications-per-second", str(PUBLICATIONS)]

    def call(self, *arguments):
        done = subprocess.run([self.binary, *arguments], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"throng {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def _ports(self):
        end = time.monotonic() + 15
        while time.monotonic() < end and self.process.poll() is None:
            out = self.log.read_text()
            found = re.findall(r"127\.0\.0\.1:(\d+)\s+(STARTTLS|TLS|components|HTTPS?)\b", out)
            proxy = re.search(r"bytestreams are relayed address=127\.0\.0\.1:(\d+)", out)
            if "Next:" in out and len(found) == 5 and proxy:
                return {kind: int(port) for port, kind in found} | {"bytestreams": int(proxy.group(1))}
            time.sleep(0.02)
        raise RuntimeError(f"the server did not start: {self.log.read_text()}")

    def fill(self, accounts, seconds):
        """Lets accounts chat as fast as they can: what grows with use, as the store's memory tables, has grown then."""
        self.call(
            "load", "--quiet", "--to", f"127.0.0.1:{self.port}", "--auth", "plain", "--user-prefix", FILLERS,
            "--password", PASSWORD, "--sessions", str(accounts), "--pairs", str(accounts // 2), "--in-flight", "50",
            "--message-bytes", "600", "--hold-s", str(seconds), "--out", str(self.folder / "fill.json"),
        )  # fmt: skip

    def alive(self):
        return self.process.poll() is None

    def complaints(self):
        """Lines of the log that no peer may be able to cause."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if "panicked" in line or " ERROR " in line]

    def warnings(self):
        """Warnings, by what they say, without their figures."""
        seen = {}
        for line in self.log.read_text(errors="replace").splitlines():
            if " WARN " in line:
                text = re.sub(r"\d+", "N", line.split(" WARN ", 1)[1])
                seen[text] = seen.get(text, 0) + 1
        return seen

    def status(self):
        return json.loads(self.call("ctl", "status", "--json", "--data", str(self.data)))

    def memory(self):
        """Resident bytes, and the part of them that no file backs."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        field = lambda name: int(re.search(name + r":\s+(\d+) kB", text).group(1)) * 1024
        return {"rss": field("VmRSS"), "anonymous": field("RssAnon"), "peak": field("VmHWM")}

    def cpu_seconds(self):
        parts = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """A graceful stop. Returns the exit code."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
