"""Two users who chat undisturbed, in a process of their own: `control.py PORT`. For each line on standard input it says
how their messages fared since the line before, as JSON; at the end of the input it leaves."""

import asyncio
import json
import re
import sys
import time

from wire import Wire

EVERY_S = 0.02
# A wave may be over sooner than a message: so many of them belong to each.
LEAST = 5
BODY = re.compile(rb"<message [^>]*id='c(\d+)'.*?</message>", re.S)


def share(sorted_values, part):
    return round(sorted_values[min(len(sorted_values) - 1, int(part * len(sorted_values)))] * 1000, 2)


class Chat:
    def __init__(self, romeo, juliet, juliet_jid):
        self.romeo, self.juliet, self.juliet_jid = romeo, juliet, juliet_jid
        self.sent_at, self.took, self.sent, self.twice = {}, [], 0, 0
        self.number = 0
        self.going = True
        self.error = None

    async def speak(self):
        while True:
            await asyncio.sleep(EVERY_S)
            if not self.going:
                continue
            self.number += 1
            self.sent += 1
            self.sent_at[self.number] = time.monotonic()
            body = f"<message to='{self.juliet_jid}' type='chat' id='c{self.number}'><body>soft</body></message>"
            await self.romeo.send(body.encode())

    async def listen(self):
        while await self.juliet.hear_more():
            end = 0
            for found in BODY.finditer(self.juliet.heard):
                end = found.end()
                at = self.sent_at.pop(int(found.group(1)), None)
                if at is None:
                    self.twice += 1
                else:
                    self.took.append(time.monotonic() - at)
            del self.juliet.heard[:end]
        self.error = "juliet's stream ended: " + repr(bytes(self.juliet.heard[-200:]))

    async def answers(self):
        """What romeo is told: nothing but the end of the stream or an error would be new."""
        while await self.romeo.hear_more():
            if b"type='error'" in self.romeo.heard or b"<stream:error" in self.romeo.heard:
                self.error = "romeo was told " + repr(bytes(self.romeo.heard[-300:]))
            self.romeo.heard.clear()
        self.error = "romeo's stream ended"

    async def report(self):
        end = time.monotonic() + 15
        while self.sent < LEAST and self.error is None and time.monotonic() < end:
            await asyncio.sleep(EVERY_S)
        self.going = False
        end = time.monotonic() + 15
        while self.sent_at and time.monotonic() < end:
            await asyncio.sleep(0.005)
        took = sorted(self.took) or [0.0]
        said = {
            "sent": self.sent,
            "arrived": len(self.took),
            "missing": len(self.sent_at),
            "twice": self.twice,
            "p50_ms": share(took, 0.5),
            "p99_ms": share(took, 0.99),
            "max_ms": share(took, 1.0),
            "error": self.error,
        }
        self.sent_at, self.took, self.sent, self.twice = {}, [], 0, 0
        self.going = True
        return said


async def main(port):
    romeo, juliet = await Wire.connect(port), await Wire.connect(port)
    await romeo.login("romeo")
    jid = await juliet.login("juliet")
    chat = Chat(romeo, juliet, jid)
    tasks = [asyncio.create_task(job) for job in (chat.speak(), chat.listen(), chat.answers())]
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print(json.dumps({"ready": True}), flush=True)
    while await reader.readline():
        print(json.dumps(await chat.report()), flush=True)
    for task in tasks:
        task.cancel()


asyncio.run(main(int(sys.argv[1])))
