"""Servers on loopback, each with its own folder: Throng, Debian's ejabberd and Debian's Prosody."""

import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))

from ports import free_port  # noqa: E402

HOSTS = ["capulet.example", "montague.example"]
ROOMS = "conference.capulet.example"
START = 40.0


def run(*command, **more):
    """A command that has to succeed; what it has said."""
    done = subprocess.run(
        [str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **more
    )
    if done.returncode:
        raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


#: What prosody-migrator of 0.12 tells of with `--keep-going` where there is nothing to take.
EMPTY = re.compile(r"Error migrating data for (host: .*no 227 user element found|user \S+: \(?nil\)?)$")


class Server:
    """A child process that listens on a port."""

    #: What it keeps and gives: names of the checks in people.py.
    keeps = frozenset()
    #: What its own import drops of its own export, which `main.control` shows.
    drops = frozenset()

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix=f"throng-move-{self.name}-"))
        # ejabberd's and Prosody's own users are not used: children run as who runs the tests.
        self.port = free_port()
        self.process = None

    def start(self):
        """Start it and wait until it listens."""
        self.prepare()
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                env={**os.environ, **self.environment()},
            )
        end = time.monotonic() + START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{self.name} does not listen:\n{self.log()}") from None
                time.sleep(0.1)

    def environment(self):
        """Variables that it needs."""
        return {}

    def prepare(self):
        """What it needs before the start."""

    def stop(self):
        """End it by its process id."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def log(self):
        """The end of its log."""
        path = self.folder / "server.log"
        return path.read_text(errors="replace")[-6000:] if path.exists() else ""

    def close(self):
        """Stop it and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Throng(Server):
    """`throng serve`."""

    name = "throng"
    keeps = frozenset(
        {"roster", "request", "asked", "waiting", "private", "card", "blocked", "nodes", "private node", "archive"}
    )

    def __init__(self, driver):
        super().__init__()
        self.driver = driver
        self.binary = os.environ["THRONG_BIN"]
        self.data = self.folder / "data"

    def options(self):
        """Whose users it has."""
        return ["--data", self.data, "--domain", HOSTS[0], *(word for host in HOSTS[1:] for word in ("--virtual-hosts", host))]

    def command(self):
        return [str(word) for word in [
            self.binary, "serve", *self.options(), "--c2s", f"127.0.0.1:{self.port}", "--c2s-tls", "off", "--plain-auth",
            "--driver", self.driver, "--shards", "2",
        ]]

    def take(self, export, *more):
        """`throng import`; what it says. Something left out is no failure: it is looked at."""
        done = subprocess.run(
            [self.binary, "import", str(export), *map(str, self.options()), "--json", *more],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        )
        if done.returncode not in (0, 6):
            raise RuntimeError(f"throng import: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def give(self, to, *more):
        """`throng export`; what it says."""
        return json.loads(run(self.binary, "export", to, "--data", self.data, "--json", *more))


class Ejabberd(Server):
    """Debian's ejabberd, without distribution; commands go over its HTTP API on loopback."""

    name = "ejabberd"
    #: `export_piefxis` of 23.01 knows neither nodes nor archives, and imports as much.
    keeps = frozenset({"roster", "request", "asked", "waiting", "private", "card", "blocked"})
    #: `import_piefxis` takes of a contact the subscription, the name and the groups, and leaves `ask` out.
    drops = frozenset({"asked"})

    def __init__(self):
        super().__init__()
        self.api = free_port()

    def environment(self):
        entries = glob.glob("/usr/lib/*/ejabberd-*")
        if not entries:
            raise RuntimeError("ejabberd is not installed")
        return {
            "ERL_LIBS": os.path.dirname(entries[0]), "HOME": str(self.folder),
            "EJABBERD_CONFIG_PATH": str(self.folder / "ejabberd.yml"),
            "EJABBERD_LOG_PATH": str(self.folder / "ejabberd.log"), "ERL_CRASH_DUMP_SECONDS": "0",
        }

    def prepare(self):
        (self.folder / "data").mkdir(exist_ok=True)
        (self.folder / "ejabberd.yml").write_text(f"""
hosts: [{", ".join(HOSTS)}]
loglevel: info
auth_password_format: scram
listen:
  -
    port: {self.port}
    ip: "127.0.0.1"
    module: ejabberd_c2s
    access: all
    shaper: none
  -
    port: {self.api}
    ip: "127.0.0.1"
    module: ejabberd_http
    request_handlers:
      /api: mod_http_api
api_permissions:
  "loopback":
    who: all
    what: "*"
modules:
  mod_adhoc: {{}}
  mod_admin_extra: {{}}
  mod_blocking: {{}}
  mod_caps: {{}}
  mod_disco: {{}}
  mod_mam:
    default: always
  mod_muc:
    host: "{ROOMS}"
    default_room_options:
      mam: true
  mod_offline: {{}}
  mod_privacy: {{}}
  mod_private: {{}}
  mod_pubsub:
    plugins: [flat, pep]
    max_items_node: 100
    force_node_config:
      "urn:xmpp:bookmarks:1":
        access_model: whitelist
        max_items: 20
  mod_roster: {{}}
  mod_vcard: {{}}
""")

    def command(self):
        return ["erl", "-noinput", "+sbwt", "none", "-mnesia", "dir", f'"{self.folder / "data"}"', "-s", "ejabberd"]

    def ctl(self, command, **arguments):
        """What `ejabberdctl` does: the same command by another way in."""
        connection = http.client.HTTPConnection("127.0.0.1", self.api, timeout=60)
        connection.request("POST", f"/api/{command}", json.dumps(arguments), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"ejabberd: {command}: {answer.status} {text}\n{self.log()}")
        return json.loads(text)

    def add(self, name, host, password):
        """Make an account."""
        self.ctl("register", user=name, host=host, password=password)

    def give(self, to):
        """Export all of it."""
        to.mkdir(mode=0o700)
        self.ctl("export_piefxis", dir=str(to))

    def take(self, export):
        """Import a main file."""
        self.ctl("import_piefxis", file=str(export))


class Prosody(Server):
    """Debian's Prosody, with mod_storage_xep0227 for what goes out and in."""

    name = "prosody"
    #: mod_storage_xep0227 of 0.12 knows neither waiting messages nor blocked addresses.
    keeps = frozenset({"roster", "private", "card", "nodes", "private node", "archive"})

    def prepare(self):
        (self.folder / "data").mkdir(exist_ok=True)
        hosts = "\n".join(f'VirtualHost "{host}"' for host in HOSTS)
        (self.folder / "prosody.cfg.lua").write_text(f"""
run_as_root = true
pidfile = "{self.folder}/prosody.pid"
data_path = "{self.folder}/data"
log = {{ {{ levels = {{ min = "info" }}, to = "console" }} }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {self.port} }}
c2s_direct_tls_ports = {{ }}
s2s_ports = {{ }}
http_ports = {{ }}
https_ports = {{ }}
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
authentication = "internal_hashed"
modules_enabled = {{
  "roster", "saslauth", "disco", "private", "vcard", "pep", "mam", "blocklist", "offline", "ping"
}}
modules_disabled = {{ "s2s", "tls" }}
default_archive_policy = true
{hosts}
Component "{ROOMS}" "muc"
  modules_enabled = {{ "muc_mam" }}
""")

    def command(self):
        return ["prosody", "-F", "--config", str(self.folder / "prosody.cfg.lua")]

    def add(self, name, host, password):
        """Make an account."""
        run("prosodyctl", "--root", "--config", self.folder / "prosody.cfg.lua", "register", name, host, password)

    def _migrate(self, source, target, exchange, *more):
        """`prosody-migrator`, host by host: files of XEP-0227 are in the folder of its configuration's data."""
        stores = '"accounts", "roster", "vcard", "private", "archive-archive", "pep-pubsub"'
        for host in HOSTS:
            config = self.folder / "migrator.cfg.lua"
            config.write_text(f"""
internal {{
  hosts = {{ ["{host}"] = {{ {stores} }} }};
  type = "internal";
  path = "{self.folder}/data";
}}
exchange {{
  hosts = {{ ["{host}"] = {{ {stores} }} }};
  type = "xep0227";
  path = "{exchange}";
}}
""")
            # The program has the data folder, which is where files of XEP-0227 are, as a constant.
            program = Path(shutil.which("prosody-migrator")).read_text()
            assert "CFG_DATADIR='/var/lib/prosody';" in program, "another prosody-migrator than Debian's"
            own = self.folder / "migrator.lua"
            own.write_text(program.replace("CFG_DATADIR='/var/lib/prosody';", f"CFG_DATADIR='{exchange}';"))
            said = run("lua5.4", own, "--root", "--config", config, *more, source, target, cwd=self.folder)
            wrong = [line for line in said.splitlines() if re.search(r"\berror\b", line, re.I) and not EMPTY.search(line)]
            if wrong:
                raise RuntimeError(f"prosody-migrator: {wrong}\n{said}")

    def give(self, to):
        """Export all of it, stopped."""
        to.mkdir(mode=0o700)
        self.stop()
        self._migrate("internal", "exchange", to)

    def take(self, export):
        """Import a folder of whole files, one for each user, stopped."""
        self.stop()
        self.prepare()
        # Without it the first archive ends the program (migrator.lua:182): it asks for the archive of the host itself, of which
        # the store of files has none, also in an export of Prosody's own.
        self._migrate("exchange", "internal", export, "--keep-going")


PEERS = {"ejabberd": Ejabberd, "prosody": Prosody}
