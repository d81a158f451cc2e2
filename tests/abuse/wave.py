"""Waves: many connections of one kind, some at once, each judged by what the server answered."""

import asyncio
import time

import channel_kinds
import kinds
import web_kinds
import web_wire
from wire import END, SASL_FAILURE, STANZA_ERROR, STREAM_ERROR, Surprise, Wire, check_document

AT_ONCE = 48
# An endless sender that is not stopped by then is not going to be.
ENDLESS_MAX = 4 << 20
MALLORIES = 16
# What is judged on the listeners of browsers.
OF_BROWSERS = {"http": web_wire.responses, "frames": web_wire.end_of, "bosh": web_wire.condition_of}


async def reach(kind, server, index):
    """A connection at the place where the kind strikes."""
    # Many addresses: half the ports of one would be in TIME_WAIT soon.
    source = f"127.0.{1 + index // 200 % 200}.{1 + index % 200}"
    user = f"mallory{index % MALLORIES}"
    if kind.stage in (web_kinds.WEB, web_kinds.UPGRADED, web_kinds.WEB_BOUND, channel_kinds.SUBSCRIBED):
        return await reach_web(kind, server, index, source, user)
    ports = {
        kinds.TLS: server.tls_port, kinds.COMPONENT: server.component_port, kinds.CLAIMED: server.component_port,
        web_kinds.HTTPS: server.https_port,
    }  # fmt: skip
    port = ports.get(kind.stage, server.port)
    wire = await Wire.connect(port, source)
    try:
        if kind.stage in (kinds.RAW, kinds.TLS, kinds.COMPONENT, web_kinds.HTTPS):
            return wire
        if kind.stage == kinds.CLAIMED:
            await wire.send(kinds.component_header())
            await wire.until(b" from='rogue.localhost'>")
            return wire
        if kind.stage in (kinds.BOUND, kinds.MANAGED):
            await wire.login(user, sm=kind.stage == kinds.MANAGED, presence=False)
            return wire
        await wire.open()
        if kind.stage == kinds.CHALLENGED:
            await wire.send(kinds.SCRAM_FIRST)
            await wire.until(b"</challenge>")
        if kind.stage in (kinds.AUTHED, kinds.RESTARTED):
            await wire.authenticate(user)
        if kind.stage == kinds.RESTARTED:
            await wire.open()
        if kind.stage == kinds.PROCEED:
            await wire.send(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>")
            await wire.until(b"urn:ietf:params:xml:ns:xmpp-tls'/>")
        return wire
    except BaseException:
        wire.close()
        raise


async def reach_web(kind, server, index, source, user):
    """The same on a listener of browsers: each variant comes with TLS in every other round, and without in the others."""
    wire = await web_wire.connect(server, index + index // kind.variants, source)
    try:
        if kind.stage == channel_kinds.SUBSCRIBED:
            await web_wire.open_websocket(wire, index, "/n/open.a")
        elif kind.stage != web_kinds.WEB:
            await web_wire.open_websocket(wire, index)
        if kind.stage == web_kinds.WEB_BOUND:
            await web_wire.login(wire, user)
        return wire
    except BaseException:
        wire.close()
        raise


async def strike(wire, kind, index):
    """Sends what the kind sends, until it is all out or the server has closed."""
    sent = 0
    for chunk in kind.chunks(index):
        if wire.ended or not await wire.send(chunk):
            return
        sent += len(chunk)
        if sent > ENDLESS_MAX:
            raise Surprise(f"{sent} bytes were taken")
        if kind.pause_s:
            await asyncio.sleep(kind.pause_s)


async def judge(wire, kind, index):
    """What the server made of it: a condition, a status of HTTP, a code of WebSocket, or `closed`."""
    if kind.how in ("stream", *OF_BROWSERS):
        sending = asyncio.create_task(strike(wire, kind, index))
        try:
            said = await wire.to_the_end()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        if kind.how != "stream":
            return OF_BROWSERS[kind.how](wire.heard)
        found = STREAM_ERROR.search(said)
        if found is None:
            raise Surprise(f"closed without a stream error: {said[-300:]!r}")
        check_document(wire.heard)
        return found.group(1).decode()
    await strike(wire, kind, index)
    if kind.how == "silence":
        said = await wire.to_the_end()
        if b"<stream" in said:
            raise Surprise(f"said {said[:300]!r}")
        return "closed"
    mark, pattern = (b"</failure>", SASL_FAILURE) if kind.how == "sasl" else (b"</error>", STANZA_ERROR)
    said = await wire.until(mark)
    found = pattern.search(said)
    if found is None:
        raise Surprise(f"no condition in {said!r}")
    # The stream goes on: it can be ended in good order.
    await wire.send(END)
    rest = await wire.to_the_end()
    if not rest.endswith(END) or STREAM_ERROR.search(rest):
        raise Surprise(f"the stream did not go on: {rest[-300:]!r}")
    check_document(wire.heard)
    return found.group(1).decode()


async def run(kind, server, count):
    """One wave. Returns what came of it."""
    outcomes, wrong = {}, []
    numbers = iter(range(count))

    async def worker():
        for index in numbers:
            wire = None
            try:
                wire = await reach(kind, server, index)
                condition = await judge(wire, kind, index)
                if condition not in kind.expect:
                    wrong.append(f"connection {index}: {condition}; sent {short(kind, index)}")
            except (Surprise, OSError, TimeoutError) as error:
                condition = "wrong"
                wrong.append(f"connection {index}: {type(error).__name__} {error}; sent {short(kind, index)}")
            finally:
                if wire is not None:
                    wire.close()
            outcomes[condition] = outcomes.get(condition, 0) + 1

    start = time.monotonic()
    await asyncio.gather(*(worker() for _ in range(min(AT_ONCE, count))))
    return {
        "kind": kind.name,
        "clause": kind.clause,
        "stage": kind.stage,
        "expected": list(kind.expect),
        "connections": count,
        "outcomes": outcomes,
        "wrong": len(wrong),
        "first_wrong": wrong[:3],
        "seconds": round(time.monotonic() - start, 2),
    }


def short(kind, index):
    first = next(iter(kind.chunks(index)))
    return repr(first[:80])
