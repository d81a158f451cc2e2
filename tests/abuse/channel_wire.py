"""Clients of channels: requests that are answered, streams of events, and two who are there all the time and notice what others do."""

import asyncio
import json
import time

from server import TOKEN
from web_wire import STATUS, connect
from wire import Surprise, Wire

EVENTS = "Accept: text/event-stream"
OPERATOR = f"Authorization: Bearer {TOKEN}"


def request(path, *fields, method="GET", body=None):
    """A request of HTTP/1.1; the connection stays."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def publication(channel, body, *fields):
    return request(f"/n/{channel}", "Content-Type: text/plain", *fields, method="POST", body=body)


async def response(wire, patience=30.0):
    """The next answer: its status, its head and its body."""
    head = await wire.until(b"\r\n\r\n", patience)
    found = STATUS.fullmatch(head)
    if found is None:
        raise Surprise(f"no response of HTTP: {head[:200]!r}")
    length = next((int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), 0)
    async with asyncio.timeout(patience):
        while len(wire.heard) < wire.at + length:
            if not await wire.hear_more():
                raise Surprise("an answer is cut off")
    body = bytes(wire.heard[wire.at : wire.at + length])
    del wire.heard[: wire.at + length]
    wire.at = 0
    return int(found.group(1)), head.decode(), body


async def answered(wire, asked, patience=30.0):
    """Asks, and takes the answer."""
    await wire.send(asked)
    return await response(wire, patience)


async def event(wire, patience=30.0):
    """The next item of a stream of events, as the channel tells it; other lines are passed over."""
    while True:
        lines = (await wire.until(b"\n\n", patience)).decode().split("\n")
        del wire.heard[: wire.at]
        wire.at = 0
        if any(line == "event: gap" for line in lines):
            raise Surprise("items are missing")
        data = [line[6:] for line in lines if line.startswith("data: ")]
        if data:
            return json.loads(data[0])


async def stream(server, index, path, source, receive_buffer=0):
    """A stream of events that has begun."""
    wire = await connect(server, index, source, receive_buffer)
    try:
        await wire.send(request(path, EVENTS))
        head = await wire.until(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise Surprise(f"no stream: {head!r}")
        return wire
    except BaseException:
        wire.close()
        raise


class Bystanders:
    """One publishes five items a second, the other one has each at once, once and in order; both from addresses of their own."""

    CHANNEL = "open.calm"

    def __init__(self, server):
        self.server, self.times, self.error = server, [], ""

    async def __aenter__(self):
        self.reader = await stream(self.server, 0, f"/n/{self.CHANNEL}", "127.0.250.1")
        self.writer = await Wire.connect(self.server.http_port, "127.0.250.2")
        self.task = asyncio.create_task(self._talk())
        return self

    async def _talk(self):
        try:
            for number in range(10_000):
                start, text = time.monotonic(), f"{id(self)} {number}"
                await self.writer.send(publication(self.CHANNEL, text.encode()))
                # The item may come before the publisher is answered, or behind that: it is taken from the socket when it is looked for.
                status, _, said = await response(self.writer)
                item = await event(self.reader)
                if status != 200 or item["data"] != text:
                    raise Surprise(f"{status} {said[:200]!r}, and {item}")
                self.times.append(time.monotonic() - start)
                # A connection has a hundred requests.
                if number % 90 == 89:
                    self.writer.close()
                    self.writer = await Wire.connect(self.server.http_port, "127.0.250.2")
                await asyncio.sleep(max(0, 0.2 - self.times[-1]))
        except (Surprise, OSError, TimeoutError) as error:
            self.error = f"{type(error).__name__} {str(error)[:300]}"

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.reader.close()
        self.writer.close()

    def judge(self, tally, most_s):
        """Whether they were served all the time, and how fast."""
        if self.error or not self.times:
            return tally.add(f"wrong: bystanders {self.error or 'had no turn'}")
        slowest = sorted(self.times)[max(0, len(self.times) * 99 // 100 - 1)]
        tally.notes["bystanders_p99_ms"] = round(slowest * 1000)
        tally.notes["bystanders_items"] = len(self.times)
        tally.add("bystanders served" if slowest <= most_s else f"wrong: bystanders waited for {slowest:.2f} s")
