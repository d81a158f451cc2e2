"""Debian's Gajim under Xvfb, with OMEMO, driven by a plugin of ours (`gajim/throng_driver`)."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from events import WAIT
from screen import Screen

HERE = Path(__file__).parent
#: Seconds until it has started, and until it has ended.
START = 40.0
END = 10.0
_numbers = itertools.count(1)


class Gajim:
    """One Gajim with its home, its display and its session bus. It can be stopped and started again on its home."""

    def __init__(self, server, account):
        self.server = server
        self.account = account
        self.home = server.folder / f"gajim-{next(_numbers)}"
        self.output = server.folder / f"{self.home.name}.log"
        self.events = []
        self._changed = asyncio.Event()
        self._screen = Screen()
        self._process = None
        self._listener = None
        self._writer = None

    @property
    def bare(self):
        """The account's address."""
        return self.account.jid

    @property
    def jid(self):
        """The address that it asks for."""
        return f"{self.bare}/gajim"

    @property
    def at_the_end(self):
        """What it has reported and printed, for the report of a failure."""
        printed = self.output.read_text(errors="replace")[-5000:] if self.output.exists() else ""
        return "\n".join([f"gajim {self.bare}", *(f"    {event}" for event in self.events), printed])

    async def start(self):
        """Start it and wait until it has logged in; the events are those since then."""
        self.events.clear()
        if self._screen.name is None:
            await self._screen.start()
        # A path for a socket is short.
        folder = tempfile.mkdtemp(prefix="throng-gajim-")
        socket = Path(folder) / "driver"
        self._listener = await asyncio.start_unix_server(self._connected, socket, limit=1 << 22)
        base = self.home.parent / f"{self.home.name}-home"
        base.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(base), "XDG_RUNTIME_DIR": folder, "DISPLAY": self._screen.name,
            "LC_ALL": "C.UTF-8", "NO_AT_BRIDGE": "1", "GSETTINGS_BACKEND": "memory", "GDK_BACKEND": "x11",
            "THRONG_DRIVER": str(socket),
        }
        with open(self.output, "ab") as output:
            self._process = subprocess.Popen(
                ["dbus-run-session", "--", "/usr/bin/python3", str(HERE / "gajim" / "run.py"), str(self.home),
                 self.account.name, self.account.password, str(self.server.c2s), str(self.server.cafile)],
                env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )
        await self.wait("signed-in", timeout=START)
        return self

    async def _connected(self, reader, writer):
        self._writer = writer
        while line := await reader.readline():
            self.events.append(json.loads(line))
            self._changed.set()

    def tell(self, do, **arguments):
        """A command of the driver."""
        self._writer.write(json.dumps({"do": do, **arguments}).encode() + b"\n")

    async def wait(self, event, timeout=2 * WAIT, **fields):
        """The first event with this name and these values."""
        deadline = time.monotonic() + timeout
        while True:
            for seen in self.events:
                if seen["event"] == event and fields.items() <= seen.items():
                    return seen
            self._changed.clear()
            assert self._process.poll() is None, f"Gajim has ended\n{self.at_the_end}"
            try:
                await asyncio.wait_for(self._changed.wait(), max(deadline - time.monotonic(), 0.001))
            except asyncio.TimeoutError:
                raise AssertionError(f"no {event} {fields} in {timeout} s\n{self.at_the_end}") from None

    async def wait_body(self, begins):
        """The text of the first message that it has sent or received and that begins so."""
        for _ in range(int(2 * WAIT / 0.1)):
            for seen in self.events:
                if (seen.get("body") or "").startswith(begins):
                    return seen["body"]
            await asyncio.sleep(0.1)
        raise AssertionError(f"nothing begins with {begins}\n{self.at_the_end}")

    def connected(self):
        """Whether it has a connection, after all that it has reported."""
        return [e["event"] for e in self.events if e["event"] in ("connected", "disconnected")][-1:] == ["connected"]

    def lines(self, room):
        """The lines of a room with the nicks of their authors, in the order in which they have come."""
        return [(e["nick"], e["body"]) for e in self.events if e["event"] == "gc-message-received" and e["room"] == room]

    async def history(self, of):
        """The texts that its windows show of a contact."""
        self.events = [event for event in self.events if event["event"] != "history"]
        self.tell("history", of=of)
        return (await self.wait("history"))["bodies"]

    async def stop(self):
        """Quit it as its menu does; its session is killed if it does not."""
        if self._process is None:
            return
        process, self._process = self._process, None
        if self._writer is not None:
            self._writer.close()
        try:
            await asyncio.to_thread(process.wait, END)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        self._listener.close()

    async def close(self):
        """Stop it and its display."""
        await self.stop()
        await self._screen.stop()
