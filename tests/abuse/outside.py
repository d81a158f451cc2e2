"""Attacks by those who stand beside the server, and on them: components (XEP-0114), a back end that keeps users elsewhere, and the
proxy of bytestreams (XEP-0065). As in siege.py, each function's first line names it."""

import asyncio
import hashlib
import re
import time
from pathlib import Path

import kinds
from server import COMPONENT, LINES, OUTSIDE, OUTSIDE_S, PER_ADDRESS, PROXY_WAITING, SECRET
from siege import SLACK_S, Tally, source
from wire import END, STANZA_ERROR, STREAM_ERROR, Surprise, Wire, check_document, plain

# Time for a handshake of SOCKS5, seconds; and from there to the activation.
HANDSHAKE_S, ACTIVATION_S = 10, 60
PROXY = "proxy.localhost"


async def components(server, quick, _half_open, _times):
    """components that forge and crowd"""
    expected = ["invalid-from", "improper-addressing", "conflict"]
    tally = Tally("components that forge and crowd", "XEP-0114 3, 4.9.3.3, 4.9.3.7, 4.9.3.9", expected)
    forged = [
        b"<message from='juliet@localhost' to='romeo@localhost'><body>forged</body></message>",
        b"<presence from='romeo@localhost/x' to='juliet@localhost' type='unsubscribe'/>",
        b"<iq from='localhost' to='juliet@localhost' type='set' id='1'><query xmlns='jabber:iq:roster'/></iq>",
        f"<message from='x@evil.{COMPONENT}' to='romeo@localhost'><body>forged</body></message>".encode(),
        f"<message from='x@{COMPONENT}.evil' to='romeo@localhost'><body>forged</body></message>".encode(),
        b"<message to='romeo@localhost'><body>from nobody</body></message>",
    ]

    async def shake_hands(index):
        """A connection that knows the secret; what it is told."""
        wire = await Wire.connect(server.component_port, source(index))
        await wire.send(kinds.component_header())
        opened = await wire.until(f" from='{COMPONENT}'>".encode())
        stream = re.search(rb" id='([^']+)'", opened).group(1).decode()
        await wire.send(f"<handshake>{hashlib.sha1((stream + SECRET).encode()).hexdigest()}</handshake>".encode())
        return wire, await wire.until(b">")

    async def seat(index):
        """The domain's component; the one before may have gone only just now."""
        end = time.monotonic() + SLACK_S
        while True:
            wire, said = await shake_hands(index)
            if said.endswith(b"<handshake/>"):
                return wire
            wire.close()
            if time.monotonic() > end:
                raise Surprise(f"no handshake: {said!r}")
            await asyncio.sleep(0.1)

    async def condition(wire):
        said = await wire.to_the_end()
        check_document(wire.heard)
        found = STREAM_ERROR.search(wire.heard)
        return found.group(1).decode() if found else f"closed without an error: {said!r}"

    async def forge(index):
        wire = await seat(index)
        try:
            await wire.send(forged[index % len(forged)])
            return await condition(wire)
        finally:
            wire.close()

    async def crowd(index):
        """Another one that knows the secret, while the first is there and answers."""
        wire, _ = await shake_hands(index)
        try:
            return await condition(wire)
        finally:
            wire.close()

    count = 12 if quick else 120
    # One at a time: there is one seat.
    for index in range(count):
        await tally.judge(forge(index))
    first = await seat(0)
    try:
        for index in range(count):
            await tally.judge(crowd(index))
    finally:
        await first.send(END)
        first.close()
    return tally.result(2 * count + 1)


async def back_end(server, quick, _half_open, _times):
    """a back end that hangs, and wrong passwords by it"""
    expected = ["not-authorized", "temporary-auth-failure", "logged in here", "logged in there"]
    tally = Tally("a back end that hangs, and wrong passwords by it", "6.5.10, 6.5.11", expected)
    header = kinds.header(to=OUTSIDE)

    async def ask(index, user, password, bound_s):
        """Who it is says another: the answer, in time."""
        wire = await Wire.connect(server.port, source(index))
        try:
            start = time.monotonic()
            await wire.send(header)
            await wire.until(b"</stream:features>")
            await wire.send(plain(user, password))
            said = await wire.until(b">")
            while b"<success" not in said and b"</failure>" not in said:
                said += await wire.until(b">")
            took = time.monotonic() - start
            tally.notes["slowest_answer_s"] = round(max(took, tally.notes.get("slowest_answer_s", 0)), 2)
            if took > bound_s:
                return f"wrong: {took:.1f} s for an answer"
            if b"<success" in said:
                return "logged in there"
            return re.search(rb"<(not-authorized|temporary-auth-failure)", said).group(1).decode()
        finally:
            wire.close()

    async def here(index):
        """Who is of another domain waits for nobody."""
        wire = await Wire.connect(server.port, source(index))
        try:
            start = time.monotonic()
            await wire.login(f"mallory{index % 16}", presence=False)
            took = time.monotonic() - start
            tally.notes["slowest_login_here_s"] = round(max(took, tally.notes.get("slowest_login_here_s", 0)), 2)
            return "logged in here" if took < OUTSIDE_S else f"wrong: {took:.1f} s for a login of another domain"
        finally:
            wire.close()

    async def all_of(jobs):
        jobs = [asyncio.create_task(tally.judge(job)) for job in jobs]
        while not all(job.done() for job in jobs):
            await asyncio.sleep(0.05)
            tally.notes["processes"] = max(len(children(server)), tally.notes.get("processes", 0))

    many = 100 if quick else 2_000
    usual_s = OUTSIDE_S + SLACK_S
    await all_of(ask(index, f"user{index}", f"wrong{index}", usual_s) for index in range(many))
    # What hangs is given up, what waits behind it gets no turn, and then nobody is asked for a while.
    await all_of([
        *(ask(index, f"hang{index}", "x", 2 * OUTSIDE_S + SLACK_S) for index in range(many // 2)),
        *(here(index) for index in range(16)),
    ])  # fmt: skip
    # Afterwards who is right gets in.
    end = time.monotonic() + 10 * OUTSIDE_S
    while (last := await ask(0, "honest", "right", usual_s)) != "logged in there" and time.monotonic() < end:
        await asyncio.sleep(0.2)
    tally.add(last if last == "logged in there" else "wrong: the back end answers, and nobody gets in")
    if tally.notes["processes"] > 2 * LINES:
        # One that is killed is there for a moment beside the one that takes its place.
        tally.add(f"wrong: {tally.notes['processes']} processes where {LINES} are wanted")
    end = time.monotonic() + SLACK_S
    while (dead := [pid for pid, state in children(server).items() if state == "Z"]) and time.monotonic() < end:
        await asyncio.sleep(0.1)
    if dead:
        tally.add(f"wrong: {len(dead)} processes are dead, and nobody has looked after them")
    return tally.result(many + many // 2 + 17)


def children(server):
    """Processes that the server has started, with their states."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == server.process.pid:
            found[int(path.parent.name)] = state
    return found


async def connect_proxy(server, address, stream=None):
    """A connection to the proxy; one that has named a stream, if there is one to be named."""
    wire = await Wire.connect(server.proxy_port, address)
    if stream is None:
        return wire
    try:
        await wire.send(b"\x05\x01\x00")
        while len(wire.heard) < 2 and await wire.hear_more():
            pass
        if bytes(wire.heard) != b"\x05\x00":
            raise Surprise(f"the proxy says {bytes(wire.heard)!r}")
        await wire.send(b"\x05\x01\x00\x03\x28" + stream.encode() + b"\x00\x00")
        while len(wire.heard) < 2 + 47 and await wire.hear_more():
            pass
        if bytes(wire.heard[2:4]) != b"\x05\x00" or len(wire.heard) != 49:
            raise Surprise(f"the proxy says {bytes(wire.heard)!r}")
        del wire.heard[:]
        return wire
    except BaseException:
        wire.close()
        raise


def hash_of(sid, requester, target):
    return hashlib.sha1((sid + requester + target).encode()).hexdigest()


async def activate(wire, sid, target):
    """What the proxy says to a request for a stream."""
    query = f"<query xmlns='http://jabber.org/protocol/bytestreams' sid='{sid}'><activate>{target}</activate></query>"
    del wire.heard[:]
    wire.at = 0
    await wire.send(f"<iq type='set' to='{PROXY}' id='{sid}'>{query}</iq>".encode())
    # A result is an empty element.
    said = await wire.until(f"id='{sid}'".encode())
    said += await wire.until(b">")
    if b"type='result'" in said:
        return "activated"
    found = STANZA_ERROR.search(await wire.until(b"</iq>"))
    return found.group(1).decode() if found else f"wrong: {bytes(wire.heard)!r}"


async def is_open(wire):
    """Whether the proxy has not closed. It says nothing to those who wait."""
    if wire.ended:
        return False
    try:
        async with asyncio.timeout(0.001):
            return await wire.hear_more()
    except TimeoutError:
        return True


async def count_open(wires):
    return sum([await is_open(wire) for wire in wires])


async def proxy(server, quick, _half_open, _times):
    """connections to the proxy that come to nothing"""
    expected = ["half open", "refused or displaced", "closed in time", "stream held", "item-not-found", "relayed"]
    tally = Tally("connections to the proxy that come to nothing", "XEP-0065 6, RFC 1928 3", expected)
    requester, target, stranger = [await Wire.connect(server.port) for _ in range(3)]
    romeo, juliet, mallory = [
        await wire.login(user, presence=False)
        for wire, user in ((requester, "mallory1"), (target, "mallory2"), (stranger, "mallory3"))
    ]

    async def honest(sid):
        """Two who do as they should get their stream, whatever others do; a stranger who knows its name does not begin it."""
        stream = hash_of(sid, romeo, juliet)
        ends = [await connect_proxy(server, "127.0.250.1", stream) for _ in range(2)]
        try:
            # XEP-0065 6: the hash is over who asks.
            tally.add(await activate(stranger, sid, juliet))
            tally.add(await activate(stranger, sid, romeo))
            said = await activate(requester, sid, juliet)
            if said != "activated":
                return f"wrong: {said}"
            await ends[0].send(b"hello")
            await ends[1].until(b"hello")
            return "relayed"
        finally:
            for end in ends:
                end.close()

    held = []
    start = time.monotonic()
    try:
        # One address, and then more of them than there is room for.
        for _ in range(3 * PER_ADDRESS):
            held.append(await connect_proxy(server, "127.0.251.1"))
        await asyncio.sleep(0.5)
        left = await count_open(held)
        if left > PER_ADDRESS:
            tally.add(f"wrong: one address holds {left} connections")
        addresses = 2 * PROXY_WAITING // PER_ADDRESS
        for index in range(2 * PROXY_WAITING):
            held.append(await connect_proxy(server, source(index % addresses)))
        await asyncio.sleep(0.5)
        left = await count_open(held)
        if left > PROXY_WAITING:
            tally.add(f"wrong: {left} connections wait, where {PROXY_WAITING} may")
        tally.add("half open", left)
        tally.add("refused or displaced", len(held) - left)
        await tally.judge(honest("while-half-open"))
        while (left := await count_open(held)) and time.monotonic() < start + HANDSHAKE_S + SLACK_S:
            await asyncio.sleep(0.2)
        tally.notes["slowest_close_s"] = round(time.monotonic() - start, 1)
        tally.add("closed in time" if not left else f"wrong: {left} are open after {HANDSHAKE_S} s")
        for wire in held:
            wire.close()
        held.clear()
        # Streams that both ends have named, and nobody begins.
        start = time.monotonic()
        for index in range(PROXY_WAITING):
            stream = hash_of(f"held{index // 2}", romeo, juliet)
            try:
                held.append(await connect_proxy(server, source(index % addresses), stream))
            except (Surprise, OSError):
                tally.add("refused or displaced")
        await asyncio.sleep(0.5)
        left = await count_open(held)
        if left > PROXY_WAITING:
            tally.add(f"wrong: {left} connections wait, where {PROXY_WAITING} may")
        tally.add("stream held", left)
        tally.add("refused or displaced", len(held) - left)
        await tally.judge(honest("while-held"))
        if not quick:
            while (left := await count_open(held)) and time.monotonic() < start + ACTIVATION_S + SLACK_S:
                await asyncio.sleep(0.5)
            tally.add("closed in time" if not left else f"wrong: {left} are open after {ACTIVATION_S} s")
    finally:
        for wire in held:
            wire.close()
        for wire in (requester, target, stranger):
            await wire.send(END)
            await wire.to_the_end()
            wire.close()
    return tally.result(len(held) + 5 * PROXY_WAITING)


async def slow_stream(server, quick, _half_open, _times):
    """a bytestream whose receiver does not read"""
    tally = Tally("a bytestream whose receiver does not read", "XEP-0065 6", ["held back", "all of it came"])
    requester, target = await Wire.connect(server.port), await Wire.connect(server.port)
    romeo, juliet = await requester.login("mallory1", presence=False), await target.login("mallory2", presence=False)
    rss, most, piece = server.memory()["rss"], (64 << 20 if quick else 1 << 30), bytes(1 << 16)
    # A user may have five; a stream whose sender is held back costs the server what the kernel has of it.
    ends = []
    try:
        for number in range(5):
            stream = hash_of(f"slow{number}", romeo, juliet)
            pair = [await connect_proxy(server, "127.0.250.1", stream) for _ in range(2)]
            ends.append(pair)
            said = await activate(requester, f"slow{number}", juliet)
            if said != "activated":
                raise Surprise(said)
        sent = [0] * len(ends)

        async def pump(number):
            sock, loop = ends[number][0].sock, asyncio.get_running_loop()
            while sent[number] < most:
                try:
                    sent[number] += sock.send(piece)
                except BlockingIOError:
                    ready = asyncio.Event()
                    loop.add_writer(sock, ready.set)
                    try:
                        await ready.wait()
                    finally:
                        loop.remove_writer(sock)
                await asyncio.sleep(0)

        pumps = [asyncio.create_task(pump(number)) for number in range(len(ends))]
        before, still = -1, 0
        end = time.monotonic() + 60
        while still < 8 and time.monotonic() < end:
            await asyncio.sleep(0.25)
            still = still + 1 if sum(sent) == before else 0
            before = sum(sent)
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        grown = server.memory()["rss"] - rss
        tally.notes |= {"bytes_held": sum(sent), "rss_growth": grown}
        for number, (_, receiver) in enumerate(ends):
            if sent[number] >= 16 << 20:
                tally.add(f"wrong: {sent[number]} bytes were taken, and nobody reads")
            else:
                tally.add("held back")
            # What was taken comes once it is read.
            came = 0
            async with asyncio.timeout(60):
                while came < sent[number] and await receiver.hear_more():
                    came += len(receiver.heard)
                    del receiver.heard[:]
            tally.add("all of it came" if came == sent[number] else f"wrong: {came} of {sent[number]} bytes came")
        if grown > 16 << 20:
            tally.add(f"wrong: resident memory grew by {grown}")
    finally:
        for pair in ends:
            for wire in pair:
                wire.close()
        for wire in (requester, target):
            await wire.send(END)
            await wire.to_the_end()
            wire.close()
    return tally.result(12)


ALL = [components, back_end, proxy, slow_stream]
