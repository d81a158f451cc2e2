"""Debian's Dino under Xvfb. It is told which conversation to show over D-Bus, is typed at with xdotool, and is read from its own
database. `dino/shim.c` brings it to the server under test."""

import asyncio
import itertools
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

from events import WAIT, until
from screen import Screen, said

HERE = Path(__file__).parent
#: Seconds until it has started, and until it has ended.
START = 40.0
END = 10.0
NAME = "im.dino.Dino"
_numbers = itertools.count(1)


class Dino:
    """One Dino with its home, its display and its session bus."""

    def __init__(self, server, account):
        self.server = server
        self.account = account
        self.home = server.folder / f"dino-{next(_numbers)}"
        self.output = server.folder / f"{self.home.name}.log"
        self.database = self.home / "data" / "dino" / "dino.db"
        self._screen = Screen()
        self._folder = None
        self._bus = None
        self._process = None

    @property
    def bare(self):
        """The account's address."""
        return self.account.jid

    @property
    def at_the_end(self):
        """Its lines and the end of its stream, for the report of a failure."""
        printed = self.output.read_text(errors="replace")[-5000:] if self.output.exists() else ""
        lines = self._read("SELECT body FROM message ORDER BY id") if self.database.exists() else []
        return "\n".join([f"dino {self.bare}", *(f"    {line}" for line in lines), printed])

    async def start(self):
        """Start it with the account; it enters the rooms that its bookmarks say."""
        await self._screen.start()
        # A path for a socket is short.
        folder = self._folder = Path(tempfile.mkdtemp(prefix="throng-dino-"))
        shim = folder / "shim.so"
        await said(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", str(shim), str(HERE / "dino" / "shim.c")], {})
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_RUNTIME_DIR": str(folder), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={folder}/bus",
            "DISPLAY": self._screen.name, "GDK_BACKEND": "x11", "GSK_RENDERER": "cairo", "GTK_A11Y": "none",
            "GSETTINGS_BACKEND": "memory", "LC_ALL": "C.UTF-8", "LD_PRELOAD": str(shim),
            "THRONG_PORT": str(self.server.c2s), "THRONG_CERTIFICATE": str(self.server.cafile),
        }
        self._bus = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address=unix:path={folder}/bus"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        await until((folder / "bus").exists, "a session bus", START)
        # It makes the database itself, and takes up the account when it starts again.
        await self._launch()
        await self._end()
        with closing(sqlite3.connect(self.database)) as database, database:
            database.execute(
                "INSERT INTO account (bare_jid, resourcepart, password, alias, enabled, roster_version, mam_earliest_synced)"
                " VALUES (?, 'dino', ?, '', 1, '', 0)", (self.bare, self.account.password))
        await self._launch()
        return self

    async def _launch(self):
        with open(self.output, "ab") as output:
            self._process = subprocess.Popen(
                ["dino-im", "--print-xmpp=all"], env=self._environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )
        await self._bus_call("wait", "--timeout", str(int(START)), NAME)
        await until(lambda: self.database.exists() and self._read("SELECT 1 FROM sqlite_master WHERE name = 'conversation_settings'"),
                    "a database of Dino", START)

    async def _bus_call(self, verb, *arguments):
        environment = {"DBUS_SESSION_BUS_ADDRESS": self._environment["DBUS_SESSION_BUS_ADDRESS"]}
        try:
            return await said(["gdbus", verb, "--session", *arguments], environment)
        except AssertionError as error:
            raise AssertionError(f"Dino does not run here: {error}\n{self.output.read_text(errors='replace')[-2000:]}") from None

    def _read(self, query, *values):
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=WAIT)) as database:
            return database.execute(query, values).fetchall()

    def lines(self, room):
        """The lines of a room with the nicks of their authors, None for its own, as its window shows them."""
        return self._read("SELECT message.counterpart_resource, body FROM message JOIN jid ON jid.id = counterpart_id"
                          " WHERE bare_jid = ? ORDER BY message.id", room)

    async def say(self, room, body):
        """Show a room and type a line into it."""
        [[conversation]] = self._read(
            "SELECT conversation.id FROM conversation JOIN jid ON jid.id = jid_id WHERE bare_jid = ?", room)
        await self._bus_call("call", "--dest", NAME, "--object-path", "/im/dino/Dino", "--method", "org.gtk.Actions.Activate",
                             "open-conversation", f"[<{conversation}>]", "{}")
        [*_, window] = (await self._screen.keys("search", "--sync", "--onlyvisible", "--class", "dino")).split()
        await self._screen.keys("windowfocus", "--sync", window)
        await self._screen.keys("type", body)
        await self._screen.keys("key", "Return")
        await until(lambda: (None, body) in self.lines(room), f"line {body!r} of Dino's own")

    def sessions(self):
        """How many sessions (XEP-0198) it has begun or resumed."""
        return len(re.findall(r"<\{urn:xmpp:sm:3\}:(?:enabled|resumed) ", self.output.read_text(errors="replace")))

    def network_changed(self):
        """It is told so by its system, and looks whether its connection still is one."""
        self._process.send_signal(signal.SIGUSR1)

    async def _end(self):
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    async def close(self):
        """End it, its bus and its display."""
        if self._process is not None:
            await self._end()
        if self._bus is not None:
            self._bus.terminate()
            await asyncio.to_thread(self._bus.wait)
        await self._screen.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
