"""Profanity, a terminal client, typed at in tmux and read from its screen."""

import asyncio
import itertools
import os
import re
import subprocess
import time
from pathlib import Path

from events import WAIT

_numbers = itertools.count(1)

PREFERENCES = """
[logging]
maxsize=100000000

[notifications]
message=false
room=false

[connection]
autoping=0
reconnect=1

[ui]
beep=false
flash=false
splash=false
tls.show=true
wrap=false

[chatstates]
enabled=false
outtype=false
"""


class Profanity:
    """One profanity in a tmux session of its own, with its own home folder."""

    def __init__(self, server, tls, account, port, resource="profanity"):
        self.server = server
        self.tls = tls
        self.account = account
        self.port = port
        self.resource = resource
        number = next(_numbers)
        # A tmux server each: one shared by all would end with its last session.
        self._socket = f"throng-clients-{os.getpid()}-{number}"
        self.home = server.folder / f"profanity-{number}"
        self._running = False

    @property
    def at_the_end(self):
        """Screen and log, for the report of a failure."""
        try:
            return f"{self.screen()}\n{self.log()}"
        except subprocess.CalledProcessError:
            return self.log()

    @property
    def bare(self):
        """The account's address."""
        return self.account.jid

    @property
    def jid(self):
        """The address it asks for."""
        return f"{self.bare}/{self.resource}"

    def _tmux(self, *arguments):
        return subprocess.run(
            ["tmux", "-L", self._socket, "-f", "/dev/null", *arguments],
            check=True, capture_output=True, text=True, timeout=2 * WAIT,
        ).stdout

    def start(self):
        """Start the program; it does not connect yet."""
        config = self.home / "config" / "profanity"
        config.mkdir(parents=True)
        (config / "profrc").write_text(PREFERENCES)
        environment = {
            "HOME": self.home, "XDG_CONFIG_HOME": self.home / "config",
            "XDG_DATA_HOME": self.home / "data", "TERM": "screen-256color", "LC_ALL": "C.UTF-8",
        }
        assignments = [f"{name}={value}" for name, value in environment.items()]
        self._tmux(
            "new-session", "-d", "-x", "180", "-y", "60",
            "env", *assignments, "profanity", "-l", "DEBUG",
        )
        self._running = True

    def screen(self):
        """The text on its screen now."""
        return self._tmux("capture-pane", "-p")

    def log(self, limit=20_000):
        """The end of its own log."""
        return "".join(
            path.read_text(errors="replace")[-limit:]
            for path in Path(self.home).glob("data/profanity/logs/*.log")
        )

    def type(self, line):
        """Type a line and press Enter."""
        self._tmux("send-keys", "-l", "--", line)
        self._tmux("send-keys", "Enter")

    async def see(self, pattern, timeout=WAIT):
        """Wait until the pattern is on the screen; the match."""
        deadline = time.monotonic() + timeout
        while True:
            screen = self.screen()
            found = re.search(pattern, screen)
            if found:
                return found
            assert time.monotonic() < deadline, f"no {pattern!r} on the screen:\n{screen}"
            await asyncio.sleep(0.03)

    def lines(self):
        """The lines of the chat that it shows, with their authors. The column of occupants is to the right."""
        return re.findall(r"^\d\d:\d\d:\d\d - ([^\s:]+): (.+?)(?:\s{2,}.*)?$", self.screen(), re.M)

    async def logs(self, pattern, timeout=WAIT):
        """Wait until the pattern is in its log; the match."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.log(500_000))):
            assert time.monotonic() < deadline, f"no {pattern!r} in the log:\n{self.at_the_end}"
            await asyncio.sleep(0.05)
        return found

    @property
    def _options(self):
        mode = {"plain": "disable", "starttls": "trust", "direct": "legacy"}[self.tls]
        return f"port {self.port} tls {mode}"

    async def _trust(self):
        """Over direct TLS ("legacy") it asks about the self-signed certificate."""
        if self.tls == "direct":
            await self.see(r"/tls allow")
            self.type("/tls always")

    async def register(self):
        """Register in-band (XEP-0077). Over STARTTLS only: this command of
        version 0.13.1 takes STARTTLS where it is offered although told not to
        and then fails, and does not know direct TLS."""
        assert self.tls == "starttls"
        await self.see("Profanity")
        self.type(f"/register {self.account.name} localhost {self._options}")
        await self.see("Enter password:")
        self.type(self.account.password)
        await self.see("Confirm password:")
        self.type(self.account.password)
        await self.see("Registration successful")

    async def connect(self):
        """Log in and become available."""
        await self.see("Profanity")
        self.type(f"/connect {self.jid} server 127.0.0.1 {self._options}")
        await self.see("password:")
        self.type(self.account.password)
        await self._trust()
        await self.see(r"logged in successfully")

    async def close(self):
        """Quit, and end the tmux session whatever the program did."""
        if not self._running:
            return
        self._running = False
        try:
            self.type("/quit")
            deadline = time.monotonic() + 5
            while self._alive() and time.monotonic() < deadline:
                await asyncio.sleep(0.03)
        except subprocess.CalledProcessError:
            pass  # the program has ended, and its session with it
        if self._alive():
            self._tmux("kill-server")

    def _alive(self):
        return (
            subprocess.run(
                ["tmux", "-L", self._socket, "has-session"], capture_output=True
            ).returncode == 0
        )
