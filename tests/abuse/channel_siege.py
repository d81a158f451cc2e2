"""Attacks on channels, the Mercure hub and BOSH that take time or numbers rather than noise, by one address or by one account. As in
siege.py, each function's first line names it. Beside each two others publish and read at a channel of their own: what they notice is
bounded, and so is memory."""

import asyncio
import json
import re
import time

import channel_kinds
from channel_keys import good, signed, claims
from channel_wire import EVENTS, OPERATOR, Bystanders, answered, event, publication, request, response, stream
from server import PUBLICATIONS, SHARDS, WAITING
from siege import SLACK_S, Tally, drip, source
from web_wire import connect, open_websocket, responses
from wire import Surprise, Wire

# Others wait for so long at the most, of 99 in 100: half a second for the attack, the rest for a machine that does other things as well.
OTHERS_S, OTHERS_QUICK_S = 0.5, 5.0
# So long an address may publish before the first is refused.
LIMIT_WITHIN_S = 60
# What memory may grow by for all of an attack, and for each of its connections.
GROWN_BYTES, WAITING_BYTES = 16 << 20, 64 << 10
# An address is ahead by ten seconds of what it may publish, and makes so many channels at once.
AHEAD_S, MADE_AT_ONCE = 10, 11


class Scene:
    """An attack while others are served."""

    def __init__(self, server, tally, quick):
        self.server, self.tally, self.most_s = server, tally, OTHERS_QUICK_S if quick else OTHERS_S
        self.bystanders = Bystanders(server)
        self.wires = []

    async def __aenter__(self):
        self.before = self.peak = self.server.memory()["rss"]
        await self.bystanders.__aenter__()
        self.watch = asyncio.create_task(self._watch())
        return self

    async def _watch(self):
        while True:
            self.peak = max(self.peak, self.server.memory()["rss"])
            await asyncio.sleep(0.1)

    async def __aexit__(self, kind, *_):
        self.watch.cancel()
        for wire in self.wires:
            wire.close()
        await asyncio.gather(self.watch, return_exceptions=True)
        await self.bystanders.__aexit__()
        if kind is None:
            self.bystanders.judge(self.tally, self.most_s)

    def grown(self, most):
        """Memory may have grown by so much."""
        self.peak = max(self.peak, self.server.memory()["rss"])
        self.tally.notes["rss_peak_growth"] = self.peak - self.before
        if self.peak - self.before > most:
            self.tally.add(f"wrong: resident memory grew by {self.peak - self.before}, not by {most}")

    async def counters(self):
        status = await asyncio.get_running_loop().run_in_executor(None, self.server.status)
        return status["counters"]

    async def until(self, what, holds, seconds=10):
        """Waits until the counters say so."""
        end = time.monotonic() + seconds
        while not holds(counters := await self.counters()):
            if time.monotonic() > end:
                return self.tally.add(f"wrong: not within {seconds} s: {what}; {({k: v for k, v in counters.items() if 'notify' in k or 'bosh' in k})}")
            await asyncio.sleep(0.2)


async def slow_channels(server, quick, _half_open, times):
    """slow publications, updates and requests of BOSH, one byte a second"""
    tally = Tally("slow publications, updates and requests of BOSH, one byte a second", "RFC 9110 15.5.9", ["408", "bystanders served"])
    post = lambda path, kind: f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n".encode()
    begun = {
        "head": (b"", b"GET /n/open.a?wait=60 HTTP/1.1\r\nHost: localhost\r\nX: 1111111111"),
        "body": (post("/n/open.slow", "text/plain") + b"Content-Length: 1000\r\n\r\n", b"x"),
        "chunks": (post("/n/open.slow", "text/plain") + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        "update": (post("/.well-known/mercure", "application/x-www-form-urlencoded") + b"Content-Length: 1000\r\n\r\ntopic=open.slow&data=", b"x"),
        "bosh": (post("/http-bind", "text/xml") + b"Content-Length: 1000\r\n\r\n", channel_kinds.body()),
    }

    async def attempt(index, place):
        wire = await connect(server, index, source(index))
        try:
            head, rest = begun[place]
            await wire.send(head)
            start, sending = time.monotonic(), asyncio.create_task(drip(wire, rest))
            await wire.to_the_end(times.preauth_s + SLACK_S)
            sending.cancel()
            tally.notes["slowest_close_s"] = round(max(time.monotonic() - start, tally.notes.get("slowest_close_s", 0)), 1)
            return responses(wire.heard)
        finally:
            wire.close()

    each = 6 if quick else 100
    async with Scene(server, tally, quick) as scene:
        jobs = [attempt(i, place) for place in begun for i in range(each)]
        await asyncio.gather(*(tally.judge(job) for job in jobs))
        scene.grown(GROWN_BYTES + len(jobs) * WAITING_BYTES)
    return tally.result(len(jobs))


async def crowd_of_one(server, quick, _half_open, _times):
    """an address that waits at thousands of channels"""
    # Some addresses, each with more requests than it may have waiting: polls, events and WebSockets, each at 16 channels with long names.
    tally = Tally("an address that waits at thousands of channels", "RFC 6585 4", ["waits", "429", "bystanders served"])
    addresses, each = (2, 120) if quick else (10, 200)

    async def attempt(scene, address, number):
        wire = await Wire.connect(server.http_port, source(address))
        scene.wires.append(wire)
        name = f"open.{address}-{number}-"
        names = ",".join(f"{name}{channel:x}-".ljust(128, "y") for channel in range(15 if number % 3 else 14)) + f",open.crowd{address}"
        if len(names) > 1_900:
            names = ",".join(f"{name}{channel:x}".ljust(110, "y") for channel in range(15)) + f",open.crowd{address}"
        if number % 3 == 2:
            fields = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        else:
            fields = [EVENTS] if number % 3 else []
        await wire.send(request(f"/n/{names}?wait=300" if number % 3 == 0 else f"/n/{names}", *fields))
        try:
            head = await wire.until(b"\r\n\r\n", max(3, scene.most_s) if number % 3 == 0 else 30)
        except Surprise as surprise:
            if number % 3 == 0 and "no b" in str(surprise):
                return "waits"
            raise
        status = head.split(b" ")[1].decode()
        if status == "429" and b"Retry-After: " not in head:
            return "wrong: nobody says when to try again"
        return "waits" if status in ("101", "200") and number % 3 else status

    async with Scene(server, tally, quick) as scene:
        jobs = [attempt(scene, address, number) for number in range(each) for address in range(addresses)]
        await asyncio.gather(*(tally.judge(job) for job in jobs))
        waits, most = tally.outcomes.get("waits", 0), addresses * SHARDS * WAITING
        tally.notes["waiting"] = waits
        if not most // 2 <= waits <= most:
            tally.add(f"wrong: {waits} wait, and {most} may")
        counters = await scene.counters()
        tally.notes["channels_watched"] = counters["notify_channels"]
        if counters["notify_channels"] < 14 * waits:
            tally.add(f"wrong: {counters['notify_channels']} channels are watched")
        # Others may still come, and are told at once; from the addresses of the crowd, too, at connections that do not wait.
        wire = await Wire.connect(server.http_port, source(addresses))
        status, *_ = await answered(wire, publication("open.crowd0", b"to all of them"))
        tally.add("bystanders served" if status == 200 else f"wrong: {status}")
        wire.close()
        scene.grown(GROWN_BYTES + waits * WAITING_BYTES)
        for wire in scene.wires:
            wire.close()
        await scene.until("nobody of them waits", lambda counters: counters["notify_waiting"] <= 4)
    return tally.result(len(jobs))


async def channels_without_end(server, quick, _half_open, _times):
    """an address that makes channels without end"""
    tally = Tally("an address that makes channels without end", "RFC 6585 4", ["made", "refused", "bystanders served"])
    addresses, each = (8, 40) if quick else (100, 60)
    made = 0

    async def attempt(address):
        """Each publication on a connection of its own, so that the shards take turns."""
        nonlocal made
        own = 0
        for number in range(each):
            wire = await Wire.connect(server.http_port, f"127.0.210.{1 + address}")
            try:
                name = f"open.made-{address}-{number}-".ljust(128, "z")
                status, head, said = await answered(wire, publication(name, b"x" * 1000))
            finally:
                wire.close()
            if status == 200:
                own += 1
            elif status != 429 or "Retry-After: " not in head:
                raise Surprise(f"{status} {said[:200]!r}")
        made += own
        tally.add("made", own)
        if own > SHARDS * (MADE_AT_ONCE + 4):
            return f"wrong: {own} were made"
        return "refused" if own < each else "wrong: all were made"

    async with Scene(server, tally, quick) as scene:
        await asyncio.gather(*(tally.judge(attempt(address)) for address in range(addresses)))
        # Who reads is answered still, where nothing is.
        wire = await Wire.connect(server.http_port, "127.0.211.1")
        scene.wires.append(wire)
        for number in range(50):
            status, _, said = await answered(wire, request(f"/n/open.read-{number}"))
            if status != 204:
                tally.add(f"wrong: {status} {said[:100]!r}")
        scene.grown(GROWN_BYTES + made * WAITING_BYTES)
    return tally.result(addresses * each)


async def too_much_published(server, quick, _half_open, _times):
    """an address that publishes as fast as it can, to a crowd"""
    tally = Tally("an address that publishes as fast as it can, to a crowd", "RFC 6585 4", ["200", "429", "told", "bystanders served"])
    listeners, flows, seconds = (40, 8, 4) if quick else (300, 16, 20)
    over = False

    async def publishes(number):
        wire = await Wire.connect(server.http_port, "127.0.220.1")
        try:
            sent = 0
            while not over:
                # A connection has a hundred requests.
                if sent % 100 == 99:
                    wire.close()
                    wire = await Wire.connect(server.http_port, "127.0.220.1")
                status, head, _ = await answered(wire, publication("open.flood", f"{number}-{sent}".encode()))
                tally.add(str(status))
                if status == 429 and "Retry-After: " not in head:
                    raise Surprise("nobody says when to try again")
                sent += 1
        finally:
            wire.close()

    async def listens(number):
        wire = await stream(server, number, "/n/open.flood", f"127.0.221.{1 + number % 200}")
        try:
            last = 0
            while not over:
                try:
                    item = await event(wire, 1)
                except Surprise as surprise:
                    if "no b" in str(surprise):
                        continue
                    raise
                if int(item["id"]) != last + 1 and last:
                    raise Surprise(f"{item['id']} behind {last}")
                last = int(item["id"])
            return "told" if last else "wrong: nothing came"
        finally:
            wire.close()

    async with Scene(server, tally, quick) as scene:
        start = time.monotonic()
        jobs = [asyncio.create_task(tally.judge(listens(number))) for number in range(listeners)]
        await asyncio.sleep(0.5)
        flood = [asyncio.create_task(publishes(number)) for number in range(flows)]
        await asyncio.sleep(seconds)
        # A busy machine takes longer to come to the limit.
        while not tally.outcomes.get("429") and time.monotonic() < start + LIMIT_WITHIN_S:
            await asyncio.sleep(0.2)
        over = True
        for done in await asyncio.gather(*flood, return_exceptions=True):
            if isinstance(done, BaseException):
                tally.add(f"wrong: {type(done).__name__} {done}")
        await asyncio.gather(*jobs)
        # Sixteen who are told are one publication more. What is under way when the limit is reached is taken.
        each = 1 + listeners / 16
        most = SHARDS * (PUBLICATIONS * (AHEAD_S + time.monotonic() - start) / each + 2 * flows) + flows
        if tally.outcomes.get("200", 0) > most:
            tally.add(f"wrong: {tally.outcomes['200']} were taken, and {most:.0f} may be")
        if not tally.outcomes.get("429"):
            tally.add("wrong: none was refused")
        scene.grown(GROWN_BYTES + listeners * WAITING_BYTES)
    return tally.result(listeners + flows)


async def subscribers_that_do_not_read(server, quick, _half_open, times):
    """subscribers that do not read, and much that they are told"""
    tally = Tally("subscribers that do not read, and much that they are told", "RFC 6120 13.12", ["ended", "has all", "bystanders served"])
    deaf, items, content = (12, 150, b"x" * 30_000) if quick else (64, 600, b"x" * 30_000)
    name = "open.unread"

    async def unread(number, wires):
        """It waits by events, by WebSocket or by Mercure, and its end is seen when what is in the kernel has been read."""
        path = [f"/n/{name}", f"/n/{name}", f"/.well-known/mercure?topic={name}"][number % 3]
        if number % 3 == 1:
            wire = await connect(server, number, source(number), 4096)
            await open_websocket(wire, number, path)
        else:
            wire = await stream(server, number, path, source(number), 4096)
        wires.append(wire)

    async def reads():
        wire = await stream(server, 1, f"/n/{name}", "127.0.230.1")
        try:
            # Told are numbers in a row, without a gap.
            ids = [int((await event(wire, 60))["id"]) for _ in range(items)]
            return "has all" if ids == list(range(ids[0], ids[0] + items)) else "wrong: out of order"
        finally:
            wire.close()

    async def ended(wire):
        await wire.to_the_end(times.send_s + 2 * SLACK_S)
        most = len(wire.heard)
        tally.notes["most_read_bytes"] = max(most, tally.notes.get("most_read_bytes", 0))
        return "ended" if most < items * len(content) else "wrong: it was sent all"

    async with Scene(server, tally, quick) as scene:
        await asyncio.gather(*(unread(number, scene.wires) for number in range(deaf)))
        reading = asyncio.create_task(tally.judge(reads()))
        await asyncio.sleep(0.5)
        writer = await Wire.connect(server.http_port, "127.0.230.2")
        for number in range(items):
            if number % 90 == 89:
                writer.close()
                writer = await Wire.connect(server.http_port, "127.0.230.2")
            status, _, said = await answered(writer, publication(name, content, OPERATOR), 60)
            if status != 200:
                raise Surprise(f"{status} {said[:200]!r}")
        writer.close()
        await reading
        behind = (await scene.counters())["notify_behind"]
        tally.notes["fell_behind"] = behind
        # Outbound buffers of the soft bound and a page each, not all that there was to tell.
        scene.grown(GROWN_BYTES + deaf * (1 << 20))
        await asyncio.sleep(times.send_s + SLACK_S)
        await asyncio.gather(*(tally.judge(ended(wire)) for wire in scene.wires))
    return tally.result(deaf + 2)


async def forged_tokens(server, quick, _half_open, _times):
    """an address that shows forged tokens, and one that shows good ones"""
    expected = ["401", "429", "read", "bystanders served"]
    tally = Tally("an address that shows forged tokens, and one that shows good ones", "RFC 6750 3.1, RFC 6585 4", expected)
    count = 300 if quick else 3_000
    known = good()

    async def forges(flow):
        for number in range(count // 4):
            if number % 90 == 0:
                wire = await Wire.connect(server.http_port, "127.0.240.1")
            forged = signed(claims(jti=f"{flow}-{number}"), b"guessed")
            status, _, said = await answered(wire, request("/n/own.a", f"Authorization: Bearer {forged}"))
            tally.add(str(status))
            if number % 90 == 89:
                wire.close()

    async def reads(address, shown):
        wire = await Wire.connect(server.http_port, address)
        try:
            status, *_ = await answered(wire, request("/n/own.a", f"Authorization: Bearer {shown()}"))
            return "read" if status in (200, 204) else str(status)
        finally:
            wire.close()

    async with Scene(server, tally, quick) as scene:
        for _ in range(8):
            await tally.judge(reads("127.0.240.1", lambda: known))
        start = time.monotonic()
        await asyncio.gather(*(forges(flow) for flow in range(4)))
        looked_at = tally.outcomes.get("401", 0)
        if looked_at > SHARDS * (51 + 10 * (time.monotonic() - start) + 4):
            tally.add(f"wrong: {looked_at} signatures were verified")
        # Others are not held by it, and neither is one of the address whose token is known.
        for _ in range(4):
            await tally.judge(reads("127.0.240.2", good))
            if await reads("127.0.240.1", lambda: known) != "read":
                tally.add("wrong: a token that is known was refused")
        scene.grown(GROWN_BYTES)
    return tally.result(count + 16)


async def sessions_of_bosh(server, quick, _half_open, _times):
    """BOSH: too many requests, too soon, out of the window, repeated, and sessions without end"""
    conditions = ["policy-violation", "item-not-found"]
    expected = [*conditions, "session", "bystanders served"]
    tally = Tally("BOSH: too many requests, too soon, out of the window, repeated, and sessions without end", "XEP-0124 11, 12, 14.2, 14.3", expected)
    sid_of = re.compile(rb" sid='([^']+)'")
    begins = "to='localhost' ver='1.6' xmlns:xmpp='urn:xmpp:xbosh' xmpp:version='1.0'"

    def asked(rid, attributes, inner=b""):
        body = channel_kinds.body(f"rid='{rid}' {attributes}".encode(), inner)
        return request("/http-bind", "Content-Type: text/xml", method="POST", body=body)

    async def begun(scene, index, attributes="wait='60' hold='1'"):
        wire = await connect(server, index, source(index))
        scene.wires.append(wire)
        status, _, said = await answered(wire, asked(100, f"{begins} {attributes}"))
        found = sid_of.search(said)
        if status != 200 or not found:
            raise Surprise(f"no session: {status} {said[:200]!r}")
        return wire, found.group(1).decode()

    async def ends(wire, patience=10):
        """The condition in what comes, whichever request it answers."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            status, _, said = await response(wire, patience)
            found = re.search(rb" condition='([a-z-]+)'", said)
            if found:
                return found.group(1).decode()
            if status != 200:
                return str(status)
        raise Surprise("the session goes on")

    async def others(scene, index, sid, requests):
        """Each request on a connection of its own; the first condition that any of them gets."""
        wires = [await connect(server, index, source(index)) for _ in requests]
        scene.wires += wires
        tasks = []
        for wire, (rid, inner) in zip(wires, requests):
            await wire.send(asked(rid, f"sid='{sid}'", inner))
            tasks.append(asyncio.create_task(ends(wire)))
            await asyncio.sleep(0.01)
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=15)
        for task in pending:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        found = [result for result in results if result in conditions]
        if not found:
            raise Surprise(f"no condition: {results}")
        return found[0]

    async def at_once(scene, index):
        _, sid = await begun(scene, index)
        return await others(scene, index, sid, [(101 + number, b"") for number in range(5)])

    async def window(scene, index):
        _, sid = await begun(scene, index)
        return await others(scene, index, sid, [(200 + index, b"")])

    async def too_soon(scene, index):
        wire, sid = await begun(scene, index, "wait='0' hold='0'")
        for rid in range(101, 110):
            await wire.send(asked(rid, f"sid='{sid}'"))
        return await ends(wire)

    async def repeated(scene, index):
        wire, sid = await begun(scene, index)
        element = b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='NONE'/>"
        for _ in range(20):
            # One that comes again while it waits would take the place of the other, whose connection ends.
            _, _, said = await answered(wire, asked(101, f"sid='{sid}'", element), 10)
            if found := re.search(rb" condition='([a-z-]+)'", said):
                return found.group(1).decode()
        raise Surprise("the session goes on")

    async def unending(scene, index):
        """A session costs as much as a connection, and goes with its time."""
        await begun(scene, index)
        return "session"

    each, many = (4, 100) if quick else (50, 3_000)
    async with Scene(server, tally, quick) as scene:
        jobs = [attack(scene, index) for attack in (at_once, window, too_soon, repeated) for index in range(each)]
        await asyncio.gather(*(tally.judge(job) for job in jobs))
        for at in range(0, many, 50):
            await asyncio.gather(*(tally.judge(unending(scene, index)) for index in range(at, at + 50)))
        counters = await scene.counters()
        tally.notes |= {"sessions": counters["bosh_sessions"], "bytes_kept": counters["bosh_bytes"]}
        if counters["bosh_bytes"] > (many + len(jobs)) * 8_192:
            tally.add(f"wrong: {counters['bosh_bytes']} bytes are kept of {counters['bosh_sessions']} sessions")
        scene.grown(GROWN_BYTES + (many + len(jobs)) * WAITING_BYTES)
        for wire in scene.wires:
            wire.close()
        await scene.until("sessions without a login end", lambda counters: counters["bosh_sessions"] == 0, 60)
    return tally.result(len(jobs) + many)


async def account_at_channels(server, quick, _half_open, _times):
    """an account that floods a channel to which many subscribe by HTTP"""
    tally = Tally("an account that floods a channel to which many subscribe by HTTP", "XEP-0060 7.1", ["told", "deaf", "bystanders served"])
    listeners, blocks = (40, 40) if quick else (400, 400)
    pubsub = b"<pubsub xmlns='http://jabber.org/protocol/pubsub'>"

    def iq(number, inner):
        return b"<iq type='set' to='pubsub.localhost' id='%d'>" % number + pubsub + inner + b"</pubsub></iq>"

    item = lambda number: iq(number, b"<publish node='open.account'><item id='i%d'><json xmlns='urn:xmpp:json:0'>%d</json></item></publish>" % (number, number))

    async def listens(number, deaf):
        wire = await stream(server, number, "/n/open.account", source(number), 4096 if deaf else 0)
        scene.wires.append(wire)
        if deaf:
            return "deaf"
        return "told" if await event(wire, 60) else "wrong: nothing came"

    async with Scene(server, tally, quick) as scene:
        account = await Wire.connect(server.port, "127.0.241.1")
        scene.wires.append(account)
        await account.login("mallory0", presence=False)
        await account.send(iq(0, b"<create node='open.account'/>"))
        await account.until(b"</iq>")
        jobs = [asyncio.create_task(tally.judge(listens(number, number % 2))) for number in range(listeners)]
        await asyncio.sleep(0.5)
        sent, start = 0, time.monotonic()
        try:
            for block in range(blocks):
                async with asyncio.timeout(15):
                    # Its answers are not read: at some time it may be read from no more.
                    if not await account.send(b"".join(item(1 + block * 100 + number) for number in range(100))):
                        break
                sent += 100
        except TimeoutError:
            pass
        tally.notes["items_taken"] = sent
        tally.notes["items_per_s"] = round(sent / (time.monotonic() - start))
        await asyncio.gather(*jobs)
        scene.grown(GROWN_BYTES + listeners * (1 << 19))
    return tally.result(listeners + 1)


async def prefixes_without_end(server, quick, _half_open, _times):
    """addresses that wait for prefixes without end, and publish at names that have very many"""
    expected = ["waits", "429", "told", "nothing private", "bystanders served"]
    tally = Tally("addresses that wait for prefixes without end, and publish at names that have very many", "RFC 6585 4", expected)
    addresses, each = (4, 60) if quick else (20, 120)
    # A name of which each beginning could be a prefix, if that were let.
    deep = "open.wild." + "a." * 59

    async def attempt(scene, address, number):
        """Prefixes with something below them, all those of one name, and such that nothing begins with."""
        kinds = ["open.wild.*", ",".join(f"open.wild.{address}-{number}-{part}.*" for part in range(4)), f"{deep[: 10 + 2 * (number % 7)]}*"]
        wire = await Wire.connect(server.http_port, f"127.0.243.{1 + address}")
        scene.wires.append(wire)
        await wire.send(request(f"/n/{kinds[number % 3]}", EVENTS))
        head = await wire.until(b"\r\n\r\n")
        status = head.split(b" ")[1].decode()
        if status == "429" and b"Retry-After: " not in head:
            return "wrong: nobody says when to try again"
        return "waits" if status == "200" else status

    async with Scene(server, tally, quick) as scene:
        jobs = [attempt(scene, address, number) for number in range(each) for address in range(addresses)]
        await asyncio.gather(*(tally.judge(job) for job in jobs))
        waits, most = tally.outcomes.get("waits", 0), addresses * SHARDS * WAITING
        if waits > most:
            tally.add(f"wrong: {waits} wait, and {most} may")
        # One watches all of it, and has each item once and in order; what is private is not among it.
        reader = await stream(server, 0, "/n/open.wild.*", "127.0.244.1")
        writer = await Wire.connect(server.http_port, "127.0.244.2")
        before = (await scene.counters())["notify_told"]
        for number in range(40):
            await answered(writer, publication("own.a", b"secret", OPERATOR))
            status, _, said = await answered(writer, publication(deep[:128].ljust(128, "b") if number % 2 else f"open.wild.{number}", b"%d" % number, OPERATOR))
            if status != 200:
                raise Surprise(f"{status} {said[:200]!r}")
            item = await event(reader)
            if item["data"] != str(number) or not item["channel"].startswith("open.wild."):
                raise Surprise(f"{item} and not {number}")
        tally.add("told")
        tally.notes["told_per_item"] = ((await scene.counters())["notify_told"] - before) // 40
        for wire in scene.wires:
            if b"secret" in wire.heard:
                tally.add("wrong: somebody was told what it may not read")
        tally.add("nothing private")
        for wire in (reader, writer):
            wire.close()
        scene.grown(GROWN_BYTES + waits * WAITING_BYTES)
        for wire in scene.wires:
            wire.close()
        await scene.until("nobody of them waits", lambda counters: counters["notify_waiting"] <= 4)
    return tally.result(len(jobs))


async def nothing_came(server, _quick, _half_open, _times):
    """nothing that was smuggled, forged or asked for by pages of others was published"""
    tally = Tally("nothing that was smuggled, forged or asked for by pages of others was published", "RFC 9112 11.2", ["nothing"])

    async def nothing(channel, *fields):
        wire = await Wire.connect(server.http_port, "127.0.242.1")
        try:
            status, _, said = await answered(wire, request(f"/n/{channel}", *fields))
            items = {200: lambda: json.loads(said)["items"], 204: list}.get(status, lambda: [status])()
            return "nothing" if not items else f"wrong: {channel} has {str(items)[:200]}"
        finally:
            wire.close()

    shown = f"Authorization: Bearer {good(subscribe=['own.a', 'own.csrf'])}"
    await tally.judge(nothing("open.smuggled"))
    await tally.judge(nothing("open.csrf"))
    await tally.judge(nothing("open.slow"))
    await tally.judge(nothing("own.a", shown))
    await tally.judge(nothing("own.csrf", shown))
    return tally.result(5)


ALL = [
    nothing_came, slow_channels, crowd_of_one, channels_without_end, too_much_published, subscribers_that_do_not_read, forged_tokens,
    prefixes_without_end, sessions_of_bosh, account_at_channels,
]  # fmt: skip
