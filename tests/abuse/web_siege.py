"""Attacks on the listeners of browsers that take time rather than noise. As in siege.py, each function's first line names it."""

import asyncio
import time

from siege import SLACK_S, Tally, drip, send_unread, source, watched
from web_wire import (
    CLOSE, CONTINUATION, FIN, OPEN, PING, PONG, TEXT, connect, end_of, frame, frames, login, open_websocket, responses, text, upgrade,
)  # fmt: skip
from wire import Surprise

GET = b"GET /.well-known/host-meta HTTP/1.1\r\nHost: localhost\r\nX: "
ASK = b"<iq xmlns='jabber:client' type='get' id='%s'><ping xmlns='urn:xmpp:ping'/></iq>"
LEAVE = frame(FIN | CLOSE, b"\x03\xe8")


async def leave(wire):
    """Ends a WebSocket as it should be ended."""
    await wire.send(LEAVE)
    await wire.to_the_end()
    code = end_of(wire.heard)
    if code != "1000":
        raise Surprise(f"it ended with {code}")


async def is_served(server, index):
    """A page that does as it should gets its session, and an answer."""
    wire = await connect(server, index, "127.0.0.1")
    try:
        await open_websocket(wire, 0)
        await login(wire, f"mallory{index % 16}")
        await wire.send(text(ASK % b"served"))
        await wire.until(b"id='served'")
        await wire.until(b"/>")
        del wire.heard[:]
        await leave(wire)
        return "others are served"
    finally:
        wire.close()


async def slow_web(server, quick, _half_open, times):
    """slow heads and slow frames, one byte a second"""
    expected = ["408", "connection-timeout", "message taken", "others are served"]
    tally = Tally("slow heads and slow frames, one byte a second", "RFC 9110 15.5.9, RFC 6120 4.9.3.4", expected)
    patience = times.preauth_s + SLACK_S

    async def before_login(index, place):
        wire = await connect(server, index, source(index))
        try:
            opened = place in ("frame", "fragments")
            if opened:
                await open_websocket(wire, index)
            if place == "requests":
                # Whole requests do not buy more time.
                data, every_s = GET + b"1\r\n\r\n", 0.02
            else:
                data = {"head": GET, "upgrade": upgrade(), "frame": text(OPEN), "fragments": frame(TEXT) + frame(CONTINUATION) * 99}[place]
                every_s = 1.0
            start = time.monotonic()
            sending = asyncio.create_task(drip(wire, data, every_s))
            await wire.to_the_end(patience)
            sending.cancel()
            tally.notes["slowest_close_s"] = round(max(time.monotonic() - start, tally.notes.get("slowest_close_s", 0)), 1)
            return end_of(wire.heard) if opened else responses(wire.heard).split(", ")[-1].split(" ")[0]
        finally:
            wire.close()

    async def after_login(index):
        """Slow is not hostile once it is known who it is."""
        wire = await connect(server, index, source(index))
        try:
            await open_websocket(wire, index)
            await login(wire, f"mallory{index % 16}")
            data = frame(TEXT, (ASK % b"slow")[:20]) + frame(FIN | CONTINUATION, (ASK % b"slow")[20:])
            cut = times.preauth_s + 2
            for at in range(cut):
                await wire.send(data[at : at + 1])
                await asyncio.sleep(1)
            await wire.send(data[cut:])
            await wire.until(b"id='slow'")
            await wire.until(b"/>")
            del wire.heard[:]
            await leave(wire)
            return "message taken"
        finally:
            wire.close()

    each = 6 if quick else 100
    jobs = [before_login(i, place) for place in ("head", "requests", "upgrade", "frame", "fragments") for i in range(each)]
    jobs += [after_login(i) for i in range(each)] + [is_served(server, i) for i in range(4)]
    await asyncio.gather(*(tally.judge(job) for job in jobs))
    return tally.result(len(jobs))


async def idle_web(server, quick, many, times):
    """idle connections of browsers"""
    # On epoll a quick run's server has no room for all: the others wait in the kernel's queue until it is their turn.
    tally = Tally("idle connections of browsers", "RFC 9110 15.5.9", ["408", "connection-timeout", "others are served"])
    many = 600 if quick else min(many, 8_000)
    patience = 6 * times.preauth_s + 2 * SLACK_S

    async def idle(index):
        wire = await connect(server, 2 * index, source(index))
        try:
            kind = index % 3
            if kind == 1:
                await wire.send(GET[:20])
            if kind == 2:
                await open_websocket(wire, index)
            await wire.to_the_end(patience)
            return end_of(wire.heard) if kind == 2 else responses(wire.heard)
        finally:
            wire.close()

    rss = server.memory()["rss"]
    jobs = [asyncio.create_task(tally.judge(idle(i))) for i in range(many)]
    most, peak = 0, rss
    while not all(job.done() for job in jobs):
        await asyncio.sleep(0.5)
        most = max(most, (await asyncio.get_running_loop().run_in_executor(None, server.status))["connections"])
        peak = max(peak, server.memory()["rss"])
    await tally.judge(is_served(server, 0))
    await tally.judge(is_served(server, 1))
    tally.notes |= {"most_at_once": most, "rss_peak_growth": peak - rss}
    return tally.result(many + 2)


async def floods(server, quick, _half_open, _times):
    """control frames and empty fragments without end"""
    expected = ["all pongs came", "all of it taken", "held back", "others are served"]
    tally = Tally("control frames and empty fragments without end", "RFC 6455 5.4, 5.5.2", expected)
    count, blocks = (20_000, 8) if quick else (100_000, 64)

    async def session(index, receive_buffer=0):
        wire = await connect(server, index, source(index), receive_buffer)
        try:
            await open_websocket(wire, index)
            await login(wire, f"mallory{index % 16}")
            return wire
        except BaseException:
            wire.close()
            raise

    async def pings(index):
        """Each ping has its pong, in order, as long as they are read."""
        wire = await session(index)
        try:
            contents = [b"%07d" % number * 15 for number in range(count)]

            async def send():
                for at in range(0, count, 100):
                    await wire.send(b"".join(frame(FIN | PING, content) for content in contents[at : at + 100]))

            sending = asyncio.create_task(send())
            length = count * (2 + len(contents[0]))
            async with asyncio.timeout(120):
                while len(wire.heard) < length and await wire.hear_more():
                    pass
            await sending
            if frames(wire.heard[:length]) != [(PONG, content) for content in contents]:
                raise Surprise("pongs are missing, or others")
            del wire.heard[:length]
            await leave(wire)
            return "all pongs came"
        finally:
            wire.close()

    async def empty(index):
        """Frames that say nothing: pongs that nobody has asked for, messages and fragments without content."""
        wire = await session(index)
        try:
            for piece in (frame(FIN | PONG), text(b""), text(b" "), frame(TEXT) + frame(CONTINUATION) * 99 + frame(FIN | CONTINUATION)):
                for _ in range(blocks):
                    await wire.send(piece * (65536 // len(piece)))
            await wire.send(frame(TEXT) + frame(CONTINUATION) * count + frame(FIN | CONTINUATION, ASK % b"behind"))
            await wire.until(b"id='behind'", 120)
            await wire.until(b"/>")
            del wire.heard[:]
            await leave(wire)
            return "all of it taken"
        finally:
            wire.close()

    async def unread(index):
        """Pings whose pongs nobody reads."""
        wire = await session(index, 4096)
        try:
            return await send_unread(wire, frame(FIN | PING, b"x" * 125) * 100, tally)
        finally:
            wire.close()

    jobs = [attack(i) for attack in (pings, empty, unread) for i in range(4)]
    jobs += [is_served(server, i) for i in range(4)]
    return await watched(server, tally, jobs)


ALL = [slow_web, idle_web, floods]
