"""nginx, HAProxy and Caddy, as Debian has them, with the configurations that `throng doctor front` writes for them.

Each runs as a child process on free loopback ports, with what it writes in one temporary folder.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from ports import free_port
from servers import DOMAIN, START

#: How each is started with a file.
PROXIES = {
    "nginx": ["nginx", "-e", "stderr", "-g", "daemon off;", "-c"],
    "haproxy": ["haproxy", "-db", "-f"],
    "caddy": ["caddy", "run", "--adapter", "caddyfile", "--config"],
}
#: Those that pass TCP.
STREAMS = ("nginx", "haproxy")


class Front:
    """A proxy in front of an address of HTTP, and of two of XMPP if it passes TCP."""

    def __init__(self, name, binary, http, xmpp=None, xmpps=None):
        self.name, self.binary = name, binary
        #: The address that clients of this one have, if it is not to be another one.
        self.source = f"127.0.0.{10 + list(PROXIES).index(name)}"
        self.folder = Path(tempfile.mkdtemp(prefix=f"throng-{name}-"))
        self.file, self.log_path = self.folder / "front.conf", self.folder / "log"
        self.cafile, self.process = self.folder / "chain.pem", None
        self.ports = {"web": free_port()}
        self.options = ["--domain", DOMAIN, "--listen-web", f"127.0.0.1:{self.ports['web']}", "--to-web", f"127.0.0.1:{http}"]
        if name in STREAMS and xmpp:
            for kind, option, to in (("starttls", "", xmpp), ("direct", "-tls", xmpps)):
                self.ports[kind] = free_port()
                self.options += [f"--listen{option}", f"127.0.0.1:{self.ports[kind]}", f"--to{option}", f"127.0.0.1:{to}"]

    def start(self):
        """Write the configuration, and start the proxy with it."""
        key, both = self.folder / "key.pem", self.folder / "both.pem"
        self.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                  "-keyout", key, "-out", self.cafile, "-subj", f"/CN={DOMAIN}", "-addext", f"subjectAltName=DNS:{DOMAIN}"])
        both.write_text(self.cafile.read_text() + key.read_text())
        files = ["--certificate", both] if self.name == "haproxy" else ["--certificate", self.cafile, "--key", key]
        told = self.run([self.binary, "doctor", "front", self.name, "-n", "1000", "--workers", "2", *self.options, *files,
                         "--out", self.file])
        assert "checked by the program itself" in told, told
        # As written, but for what there is once on a machine: nginx's file with its process, Caddy's port for its operator.
        text = self.file.read_text().replace("/run/nginx-throng.pid", str(self.folder / "pid"))
        self.file.write_text(text.replace("{\n\tservers", "{\n\tadmin off\n\tservers"))
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([*PROXIES[self.name], str(self.file)], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.folder, env=self.environment())
        deadline = time.monotonic() + START
        for port in self.ports.values():
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert self.process.poll() is None and time.monotonic() < deadline, self.log()
                    time.sleep(0.05)
        return self

    def environment(self):
        """Caddy writes to the home."""
        return {**os.environ, **{name: str(self.folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}}

    def run(self, command):
        """What a command says that has to succeed."""
        done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, env=self.environment())
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def reached(self, tls, accounts, source=None):
        """What clients of the other files of tests need of a world, for this one: `wss`, `starttls` or `direct`."""
        web = tls == "wss"
        server = SimpleNamespace(cafile=self.cafile if web else accounts.cafile, fresh=accounts.fresh)
        return SimpleNamespace(server=server, tls=tls, port=self.ports["web" if web else tls],
                               reach={"local_addr": (source or self.source, 0)})

    def log(self):
        """What the proxy has said."""
        return f"{self.name}: {self.log_path.read_text(errors='replace')[-5_000:]}"

    def stop(self):
        """End it by its process: SIGTERM, on which nginx ends its workers, too."""
        try:
            if self.process and self.process.poll() is None:
                self.process.terminate()
                self.process.wait(40)
        finally:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
