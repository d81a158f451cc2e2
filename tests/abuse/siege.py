"""Attacks that take time rather than noise: slow ones in both directions, a receiver that never reads, and connections
that say nothing. Each function's first line names it; each returns the same figures as a wave."""

import asyncio
import json
import re
import sys
import time
from pathlib import Path

import kinds
from wire import END, HEADER, STREAM_ERROR, Surprise, Wire, check_document

HERE = Path(__file__).parent
# A time-out is looked at once in two seconds (the engine's sweep), and machines of a test have other things to do.
SLACK_S = 8
LAST_WORDS_S = 10
# What memory may grow by for those who do not read, and for each of them: what waits for one is bounded (outbound_bytes_max).
GROWN_BYTES, GROWN_BYTES_EACH = 16 << 20, 4 << 20
# What is taken of somebody who does not read the answers: the kernel's buffers of both sides, and little more.
TAKEN_MAX = 32 << 20


class Tally:
    """Outcomes of one attack."""

    def __init__(self, name, clause, expected):
        self.name, self.clause, self.expected = name, clause, expected
        self.outcomes, self.wrong, self.notes = {}, [], {}
        self.start = time.monotonic()

    def add(self, outcome, many=1):
        if many:
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + many
        if many and outcome not in self.expected:
            self.wrong.append(outcome)

    async def judge(self, attempt):
        """Runs one connection's part; what it returns is its outcome."""
        try:
            self.add(await attempt)
        except (Surprise, OSError, TimeoutError) as error:
            self.add(f"wrong: {type(error).__name__} {str(error)[:300]}")

    def result(self, connections):
        return {
            "kind": self.name, "clause": self.clause, "stage": "", "expected": self.expected,
            "connections": connections, "outcomes": self.outcomes, "wrong": len(self.wrong),
            "first_wrong": self.wrong[:3], "seconds": round(time.monotonic() - self.start, 2), **self.notes,
        }  # fmt: skip


def source(index):
    return f"127.0.{1 + index // 200 % 200}.{1 + index % 200}"


async def drip(wire, data, every_s=1.0):
    """One byte a second until the server has enough."""
    at = 0
    while not wire.ended and await wire.send(data[at % len(data) : at % len(data) + 1]):
        at += 1
        await asyncio.sleep(every_s)


async def slow_in(server, quick, _half_open, times):
    """slowloris, one byte a second in"""
    tally = Tally("slowloris, one byte a second in", "4.9.3.4", ["connection-timeout", "closed", "message taken"])
    patience = times.preauth_s + SLACK_S

    async def before_login(index, place):
        wire = await Wire.connect(server.tls_port if place == "tls" else server.port, source(index))
        try:
            if place == "open":
                await wire.open()
            start = time.monotonic()
            data = {"tls": kinds.CLIENT_HELLO, "raw": HEADER, "open": kinds.plain("x" * 200)}[place]
            sending = asyncio.create_task(drip(wire, data))
            said = await wire.to_the_end(patience)
            sending.cancel()
            tally.notes["slowest_close_s"] = round(
                max(time.monotonic() - start, tally.notes.get("slowest_close_s", 0)), 1
            )
            if place == "tls":
                return "closed" if b"<stream" not in said else "wrong: XMPP on a TLS listener"
            check_document(wire.heard)
            found = STREAM_ERROR.search(said)
            return found.group(1).decode() if found else "closed without an error"
        finally:
            wire.close()

    async def after_login(index):
        """Slow is not hostile once it is known who it is: the stanza is taken when it is whole."""
        wire = await Wire.connect(server.port, source(index))
        try:
            await wire.login(f"mallory{index % 16}", presence=False)
            stanza = b"<iq type='get' id='slow'><ping xmlns='urn:xmpp:ping'/></iq>"
            cut = times.preauth_s + 2
            for at in range(cut):
                await wire.send(stanza[at : at + 1])
                await asyncio.sleep(1)
            await wire.send(stanza[cut:])
            await wire.until(b"id='slow'")
            return "message taken"
        finally:
            wire.close()

    each = 10 if quick else 200
    jobs = [before_login(i, place) for place in ("raw", "open", "tls") for i in range(each)]
    jobs += [after_login(i) for i in range(each)]
    await asyncio.gather(*(tally.judge(job) for job in jobs))
    return tally.result(len(jobs))


async def slow_out(server, quick, _half_open, times):
    """slowloris, one byte a second out"""
    tally = Tally("slowloris, one byte a second out", "4.9.3.17", ["resource-constraint", "cut off"])
    request = b"<iq type='get' to='localhost' id='q'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>" * 50
    patience = times.send_s + LAST_WORDS_S + SLACK_S

    async def attempt(index):
        wire = await Wire.connect(server.port, source(index), receive_buffer=2048)
        try:
            await wire.login(f"mallory{index % 16}", presence=False)

            async def ask():
                while await wire.send(request):
                    # A socket that takes everything would keep the others of this process from their turn.
                    await asyncio.sleep(0)

            asking = asyncio.create_task(ask())
            end = time.monotonic() + patience
            # The server has let go when it takes no more questions and its side is reset or ended.
            while time.monotonic() < end and not asking.done():
                try:
                    if not await wire.loop.sock_recv(wire.sock, 1):
                        break
                except ConnectionResetError:
                    break
                await asyncio.sleep(1)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            # What the kernel still holds can be read; whether the end of it is among that depends on who cut whom off.
            await wire.to_the_end(patience)
            found = STREAM_ERROR.search(wire.heard)
            return found.group(1).decode() if found else "cut off"
        finally:
            wire.close()

    count = 8 if quick else 64
    return await watched(server, tally, [attempt(i) for i in range(count)])


async def send_unread(wire, block, tally):
    """Asks for ever, and reads no answer: the server has to take no more at some time."""
    sent = 0
    try:
        while sent < TAKEN_MAX:
            async with asyncio.timeout(3):
                if not await wire.send(block):
                    break
            sent += len(block)
            await asyncio.sleep(0)
    except TimeoutError:
        pass
    tally.notes["bytes_taken_unread"] = max(sent, tally.notes.get("bytes_taken_unread", 0))
    return "held back" if sent < TAKEN_MAX else f"wrong: {sent} bytes were taken, and nobody reads"


async def watched(server, tally, jobs):
    """Does all of this, and looks at memory meanwhile."""
    peak = before = server.memory()["rss"]
    tasks = [asyncio.create_task(tally.judge(job)) for job in jobs]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.1)
        peak = max(peak, server.memory()["rss"])
    tally.notes["rss_peak_growth"] = peak - before
    if peak - before > GROWN_BYTES + len(jobs) * GROWN_BYTES_EACH:
        tally.add(f"wrong: resident memory grew by {peak - before}")
    return tally.result(len(jobs))


async def unread(server, quick, _half_open, _times):
    """requests whose answers nobody reads"""
    tally = Tally("requests whose answers nobody reads", "13.12", ["held back"])
    request = b"<iq type='get' id='q'><ping xmlns='urn:xmpp:ping'/></iq>" * 200

    async def attempt(index):
        wire = await Wire.connect(server.port, source(index), receive_buffer=4096)
        try:
            await wire.login(f"mallory{index % 16}", presence=False)
            return await send_unread(wire, request, tally)
        finally:
            wire.close()

    return await watched(server, tally, [attempt(i) for i in range(8 if quick else 64)])


class Flood:
    """What the sender of a flood is told: an error a stanza refused, and how many were taken (XEP-0198)."""

    REFUSED = re.compile(rb"<message [^>]*id='g(\d+)'[^>]*>.*?<error type='[a-z]+'><([a-z-]+) ", re.S)
    TAKEN = re.compile(rb"<a [^>]*h='(\d+)'")

    def __init__(self, wire):
        self.wire = wire
        self.refused, self.conditions, self.taken = set(), {}, 0

    async def listen(self):
        while await self.wire.hear_more():
            heard = self.wire.heard
            whole = heard.rfind(b">") + 1
            last = 0
            for found in self.REFUSED.finditer(heard, 0, whole):
                self.refused.add(int(found.group(1)))
                condition = found.group(2).decode()
                self.conditions[condition] = self.conditions.get(condition, 0) + 1
                last = found.end()
            for found in self.TAKEN.finditer(heard, 0, whole):
                self.taken = int(found.group(1))
                last = max(last, found.end())
            del heard[:last]


async def never_reading(server, quick, _half_open, times):
    """a receiver that never reads"""
    tally = Tally("a receiver that never reads", "8.3.3.19, XEP-0198 4", ["kept", "service-unavailable"])
    size, total = 100_000, (150_000_000 if quick else 1_000_000_000)
    count = total // size
    sluggard = await Wire.connect(server.port, receive_buffer=4096)
    jid = await sluggard.login("sluggard", "bed", sm=True)
    sluggard_sm = sluggard.sm_id
    spammer = await Wire.connect(server.port)
    await spammer.login("spammer", sm=True)
    await asyncio.sleep(0.2)
    flood = Flood(spammer)
    listening = asyncio.create_task(flood.listen())
    body = b"x" * size
    start, start_rss, peak = time.monotonic(), server.memory()["rss"], 0
    # The one who never reads must be resumed in time: who is refused pays for what is kept of the errors, and becomes slow.
    latest = start + times.send_s + times.resume_s / 2
    for number in range(count):
        if time.monotonic() > latest:
            count = number
            break
        to = jid if number % 2 else jid.split("/")[0]
        await spammer.send(f"<message to='{to}' type='chat' id='g{number}'><body>".encode() + body + b"</body></message>")
        if number % 100 == 99:
            # The sender keeps the rules: it acknowledges the errors that it gets, and its own presence.
            heard = 1 + sum(flood.conditions.values())
            await spammer.send(f"<a xmlns='urn:xmpp:sm:3' h='{heard}'/><r xmlns='urn:xmpp:sm:3'/>".encode())
            peak = max(peak, server.memory()["rss"])
    await spammer.send(b"<r xmlns='urn:xmpp:sm:3'/>")
    end = time.monotonic() + 60
    # The presence counts, too.
    while flood.taken < count + 1 and time.monotonic() < end and not spammer.ended:
        await asyncio.sleep(0.05)
    took = time.monotonic() - start
    if flood.taken != count + 1:
        tally.add(f"wrong: the server took {flood.taken} of {count + 1} stanzas, heard {bytes(spammer.heard[-300:])!r}")
    listening.cancel()
    # The one who never reads is detached; nothing of what it was sent is lost.
    await asyncio.sleep(max(0, start + times.send_s + 3 - time.monotonic()))
    if server.status()["sessions"] - server.status()["counters"]["sessions_detached"] > 3:
        tally.notes["detached"] = False
    sluggard.close()
    got, twice = await wake_up(server, sluggard_sm, count - len(flood.refused))
    lost = [n for n in range(count) if n not in flood.refused and n not in got]
    tally.add("kept", len(got))
    for condition, many in flood.conditions.items():
        tally.add(condition, many)
    if lost:
        tally.add(f"wrong: {len(lost)} accepted messages lost, the first {lost[:5]}")
    if twice or flood.refused & got:
        tally.add(f"wrong: {twice} twice, {len(flood.refused & got)} refused and delivered")
    tally.notes |= {
        "bytes_sent": count * size, "flood_s": round(took, 2), "megabytes_a_second": round(count * size / took / 1e6, 1),
        "rss_peak_growth": peak - start_rss,
    }  # fmt: skip
    await spammer.send(END)
    await spammer.to_the_end()
    spammer.close()
    return tally.result(2)


async def wake_up(server, sm_id, most):
    """Resumes the session of the one who never read. Returns the numbers of the messages that come, and how many came
    twice."""
    wire = await Wire.connect(server.port)
    await wire.open()
    await wire.authenticate("sluggard")
    await wire.open()
    await wire.send(f"<resume xmlns='urn:xmpp:sm:3' previd='{sm_id}' h='0'/>".encode())
    await wire.until(b"<resumed")
    await wire.until(b">")
    del wire.heard[: wire.at]
    wire.at = 0
    got, twice, stanzas = set(), 0, 0
    pattern = re.compile(rb"<message [^>]*id='g(\d+)'")
    request = b"<r xmlns='urn:xmpp:sm:3'/>"
    while len(got) < most:
        try:
            async with asyncio.timeout(10):
                if not await wire.hear_more():
                    break
        except TimeoutError:
            break
        while (end := wire.heard.find(b"</message>", wire.at)) >= 0:
            number = int(pattern.search(wire.heard).group(1))
            twice += number in got
            got.add(number)
            # The own presence comes first, sent again as it was never acknowledged.
            stanzas += 1 + wire.heard.count(b"<presence ", 0, end)
            del wire.heard[: end + len(b"</message>")]
            wire.at = 0
        # Between stanzas the server asks what has arrived (XEP-0198 4).
        if (asked := wire.heard.find(request)) >= 0:
            del wire.heard[asked : asked + len(request)]
            await wire.send(f"<a xmlns='urn:xmpp:sm:3' h='{stanzas}'/>".encode())
        # The search for an end goes on where it left off.
        wire.at = max(0, len(wire.heard) - 10)
    # No more may come.
    try:
        async with asyncio.timeout(1):
            await wire.hear_more()
        twice += len(pattern.findall(wire.heard))
    except TimeoutError:
        pass
    await wire.send(f"<a xmlns='urn:xmpp:sm:3' h='{stanzas}'/></stream:stream>".encode())
    await wire.to_the_end()
    wire.close()
    return got, twice


async def half_open(server, quick, many, times):
    """half-open connections"""
    # More of them than the server has room for: the others wait in the kernel's queue until it is their turn.
    tally = Tally("half-open connections", "4.9.3.4", ["connection-timeout"])
    many = 900 if quick else many
    # A process may have 20,000 descriptors.
    shares = [min(12_500, many - start) for start in range(0, many, 12_500)]
    crowd = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-B", str(HERE / "crowd.py"), str(server.port), str(share), str(number),
            stdout=asyncio.subprocess.PIPE,
        )
        for number, share in enumerate(shares)
    ]  # fmt: skip
    ends = [asyncio.create_task(process.communicate()) for process in crowd]
    most, start_rss, peak = 0, server.memory()["rss"], 0
    while not all(end.done() for end in ends):
        await asyncio.sleep(0.5)
        loop = asyncio.get_running_loop()
        most = max(most, (await loop.run_in_executor(None, server.status))["connections"])
        peak = max(peak, server.memory()["rss"])
    for end in ends:
        for outcome, count in json.loads(end.result()[0]).items():
            tally.add(outcome, count)
    # Newcomers are served again.
    wire = await Wire.connect(server.port)
    await wire.login("mallory0")
    await wire.send(END)
    await wire.to_the_end()
    wire.close()
    tally.notes |= {"most_at_once": most, "rss_peak_growth": peak - start_rss}
    return tally.result(many)


ALL = [slow_in, slow_out, unread, never_reading, half_open]
