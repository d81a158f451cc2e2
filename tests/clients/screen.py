"""A display without a screen, for clients with windows, and how a test types there."""

import asyncio
import subprocess

from events import WAIT

#: Seconds until a display answers.
START = 20.0


class Screen:
    """One Xvfb."""

    def __init__(self):
        self._process = None
        #: Its name for programs.
        self.name = None

    async def start(self):
        """Start it; raises `AssertionError` if it does not come up."""
        self._process = subprocess.Popen(
            ["Xvfb", "-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        try:
            number = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), START)
        except asyncio.TimeoutError:
            number = b""
        if not number:
            self._process.kill()
            raise AssertionError(f"Xvfb cannot start here: it names no display in {START:.0f} s")
        self.name = f":{int(number)}"
        return self

    async def keys(self, *arguments):
        """xdotool with these arguments; what it says."""
        return await said(["xdotool", *arguments], {"DISPLAY": self.name})

    async def stop(self):
        """End it."""
        if self._process is not None:
            self._process.terminate()
            await asyncio.to_thread(self._process.wait)
            self._process = None


async def said(command, environment):
    """What a program prints; raises `AssertionError` with its errors if it fails."""
    def run():
        return subprocess.run(command, env={"PATH": "/usr/bin:/bin", **environment}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=WAIT)

    done = await asyncio.to_thread(run)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
