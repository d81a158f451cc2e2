"""The protocol of Nchan (docs/nchan.md): the same client plays its part with Debian's nginx and Nchan, and with this server, and sees the
same; and NchanSubscriber of npm, as pages have it, by each of its transports and over kill -9."""

import asyncio
import email.utils
import http.client
import json
import re
import time
import uuid
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from events import WAIT
from nchan import TIMEOUT
from servers import DOMAIN
from test_notify import ask, publish as publish_at_n

HERE = Path(__file__).parent
TRANSPORTS = ["longpoll", "eventsource", "websocket"]
#: Who may delete shows it; Nchan does not look at it. What is made with it, others may not publish at.
TOKEN = {"Authorization": "Bearer a token of those who delete"}
META = "ws+meta.nchan"


class Client:
    """One of either server. What it sees of identifiers of messages it calls by their order in their channel: tags differ."""

    def __init__(self, port):
        self.port, self.names, self.seen = port, {}, []

    def call(self, method, path, body=None, **headers):
        """One request: its status, header fields, and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=4 * WAIT)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        token = TOKEN if method == "DELETE" else {}
        connection.request(method, path, body=body, headers={**token, **fields})
        answer = connection.getresponse()
        found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        connection.close()
        return found

    def name(self, text):
        """A text with all identifiers that were told as names."""
        return re.sub(r"\d{10}:[\d\[\],-]+", lambda found: self.names.get(found[0], found[0]), text)

    def publish(self, channel, body, method="POST", **headers):
        """One message, whose identifier gets a name."""
        headers = {"Content_Type": "text/plain", **headers}
        status, fields, answer = self.call(method, f"/pub/{channel}", body, **{k: v for k, v in headers.items() if v})
        found = re.search(r"\d{10}:\d+", answer)
        assert found, (status, answer)
        self.names[found[0]] = f"m{1 + len(self.names)}"
        return status, fields.get("content-type"), self.info(answer)

    def info(self, answer):
        """What is told of a channel. Seconds are those of this test's pace."""
        return re.sub(r"(requested\D{1,5})\d+", r"\1N", self.name(answer))

    def ask(self, method, path, body=None, **headers):
        """What can be compared of one request."""
        status, fields, answer = self.call(method, path, body, **headers)
        place = fields.get("etag")
        if fields.get("last-modified"):
            second = int(email.utils.parsedate_to_datetime(fields["last-modified"]).timestamp())
            place = f"{second}:{place}"
        shown = {name: fields.get(name) for name in ("content-type", "content-length", "vary")}
        # Tags have other lengths, and a 304 needs none (RFC 9110 8.6).
        if status in (304, 400) or path.startswith("/pub/"):
            shown["content-length"] = None
        if status == 400:
            shown["content-type"] = shown["content-type"].split(";")[0]
        # An echo of what was sent, without a time.
        echo = [name for told, name in self.names.items() if place and told.split(":")[1] == place]
        self.place = place
        return status, shown, "echo" if echo else self.name(place or ""), self.info(answer).strip()

    def after(self, name):
        """The header fields that say that this was had last."""
        second, tag = next(told for told, own in self.names.items() if own == name).split(":")
        return {"If_Modified_Since": email.utils.formatdate(int(second), usegmt=True), "If_None_Match": tag}

    def id(self, name):
        """The identifier of this one."""
        return next(told for told, own in self.names.items() if own == name)

    def socket(self, path, *subprotocols):
        """A WebSocket, without what could be compressed."""
        return connect(f"ws://127.0.0.1:{self.port}{path}", subprotocols=subprotocols or None, compression=None)

    def events(self, path, **headers):
        """A stream of events: its status, type, and what it says to its end, or to this time."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=4 * WAIT)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers={"Accept": "text/event-stream", **fields})
        answer = connection.getresponse()
        return answer, connection

    def read_events(self, answer, until):
        """What a stream says up to these bytes."""
        text = b""
        while not text.endswith(until):
            piece = answer.read(1)
            if not piece:
                break
            text += piece
        return self.name(text.decode())


async def polls(client, channel):
    """Messages one by one, the ways to say what was had last, the end of the wait, and who does not wait."""
    yield "nobody there", client.ask("GET", f"/pub/{channel}")
    yield "first", client.publish(channel, "one")
    yield "second", client.publish(channel, '{"a": "é"}'.encode(), method="PUT", Content_Type="application/json", Accept="application/json")
    yield "no type", client.publish(channel, "three", Content_Type=None, Accept="text/xml")
    for accept in ("text/plain", "text/json", "application/json", "text/x-json", "text/xml", "text/yaml", "*/*", "text/html"):
        yield accept, client.ask("GET", f"/pub/{channel}", Accept=accept)
    yield "all", client.ask("GET", f"/sub/{channel}")
    for name in ("m1", "m2"):
        yield f"after {name}", client.ask("GET", f"/sub/{channel}", **client.after(name))
        yield f"after {name} by event", client.ask("GET", f"/sub/{channel}", Last_Event_ID=client.id(name))
        yield f"after {name} by address", client.ask("GET", f"/sub/{channel}?last_event_id={client.id(name)}")
    yield "garbage", client.ask("GET", f"/sub/{channel}?last_event_id=garbage")
    yield "no tag", client.ask("GET", f"/sub/{channel}", If_Modified_Since=client.after("m1")["If_Modified_Since"])
    two_tags = {**client.after("m1"), "If_None_Match": "0,1"}
    yield "too many tags", client.ask("GET", f"/sub/{channel}", **two_tags)
    yield "tag alone", client.ask("GET", f"/sub/{channel}", If_None_Match="7")
    yield "polled", client.ask("GET", f"/poll/{channel}")
    yield "polled, nothing", client.ask("GET", f"/poll/{channel}", **client.after("m3"))
    yield "polled, nobody there", client.ask("GET", f"/poll/{channel}none")
    yield "time is over", client.ask("GET", f"/sub/{channel}?wait={TIMEOUT}", **client.after("m3"))
    yield "time is over, nothing said", client.ask("GET", f"/sub/{channel}none?wait={TIMEOUT}")
    yield "empty", client.publish(channel, "")
    yield "empty is one", client.ask("GET", f"/sub/{channel}", **client.after("m3"))

    # Counts are up to two seconds late: the one before is counted no more.
    await asyncio.sleep(2.5)
    waiting = asyncio.create_task(asyncio.to_thread(client.ask, "GET", f"/sub/{channel}", **client.after("m4")))
    await asyncio.sleep(0.5)
    yield "somebody waits", await asyncio.to_thread(client.ask, "GET", f"/pub/{channel}")
    told = await asyncio.to_thread(client.publish, channel, "five")
    yield "to somebody", told
    status, shown, _, body = await waiting
    yield "waited", (status, shown, client.name(client.place), body)
    await asyncio.sleep(2.5)
    yield "nobody waits", await asyncio.to_thread(client.ask, "GET", f"/pub/{channel}")

    waiting = asyncio.create_task(asyncio.to_thread(client.ask, "GET", f"/sub/{channel}", **client.after("m5")))
    await asyncio.sleep(0.5)
    yield "deleted", await asyncio.to_thread(client.ask, "DELETE", f"/pub/{channel}")
    yield "gone", await waiting
    yield "nothing left", client.ask("GET", f"/poll/{channel}")
    # Of one for which somebody has waited something may still be known.
    yield "nothing to delete", client.ask("DELETE", f"/pub/{channel}never")
    yield "by one address", client.ask("POST", f"/pubsub/{channel}p", "p", Content_Type="text/plain")[:2]
    yield "and back", client.ask("GET", f"/pubsub/{channel}p")[:2]


async def events(client, channel):
    """Server-sent events: those that are kept, those that come, types of events, lines, and the end with the channel."""
    client.publish(channel, "one\ntwo\n\nthree")
    client.publish(channel, "", X_EventSource_Event="changed")
    answer, connection = client.events(f"/sub/{channel}")
    yield "head", (answer.status, answer.headers["content-type"])
    yield "kept", client.read_events(answer, b"data: \n\n")
    yield "to somebody", client.publish(channel, "last", X_EventSource_Event="é".encode())[0]
    yield "live", client.read_events(answer, b"last\n\n")
    again, other = client.events(f"/sub/{channel}", Last_Event_ID=client.id("m2"))
    yield "again", client.read_events(again, b"last\n\n")
    other.close()
    status, _, _, _ = client.ask("DELETE", f"/pub/{channel}")
    yield "deleted", status
    yield "end", client.read_events(answer, b"Gone\n\n")
    yield "closed", answer.read(1)
    connection.close()


async def sockets(client, channel):
    """WebSockets, with and without the subprotocol."""
    def publish(*arguments, **more):
        return asyncio.to_thread(client.publish, channel, *arguments, **more)

    async def read(socket):
        told = await asyncio.wait_for(socket.recv(), WAIT)
        return client.name(told) if isinstance(told, str) else told

    await publish("one")
    async with client.socket(f"/sub/{channel}") as bare, client.socket(f"/pubsub/{channel}", META) as meta:
        yield "subprotocols", (bare.subprotocol, meta.subprotocol)
        yield "kept", (await read(bare), await read(meta))
        await publish("é\nx".encode(), Content_Type="application/json")
        yield "live", (await read(bare), await read(meta))
        await publish("no type", Content_Type=None)
        yield "no type", (await read(bare), await read(meta))
        await publish("bytes", Content_Type="application/octet-stream")
        yield "bytes", (await read(bare), re.sub(rb"\d{10}:\d+", b"ID", await read(meta)))
        async with client.socket(f"/sub/{channel}?last_event_id={client.id('m2')}", META) as again:
            yield "again", await read(again)
        await asyncio.to_thread(client.call, "DELETE", f"/pub/{channel}")
        for socket in (bare, meta):
            with pytest.raises(ConnectionClosed) as closed:
                await read(socket)
            yield "gone", (closed.value.rcvd.code, closed.value.rcvd.reason)


async def several(client, channel):
    """Several channels in one request: their order, and going on in all of them."""
    one, two = f"{channel}a", f"{channel}b"
    client.publish(one, "a1")
    await asyncio.sleep(1.1)
    client.publish(two, "b1")
    await asyncio.sleep(1.1)
    client.publish(one, "a2")
    seen, last = [], {}
    for _ in range(3):
        status, fields, body = client.call("GET", f"/sub/{one},{two}", **last)
        seen.append((status, body, re.sub(r"\d+|-", "N", fields["etag"])))
        last = {"If_Modified_Since": fields["last-modified"], "If_None_Match": fields["etag"]}
    yield "polled", seen
    yield "polled to the end", client.ask("GET", f"/poll/{one},{two}", **last)[0]
    # In the same second Nchan 1.3.6 does not always tell of the other channel who comes back.
    await asyncio.sleep(1.1)
    waiting = asyncio.create_task(asyncio.to_thread(client.call, "GET", f"/sub/{one},{two}", **last))
    await asyncio.sleep(0.5)
    await asyncio.to_thread(client.publish, two, "b2")
    status, fields, body = await waiting
    yield "waited", (status, body)
    async with client.socket(f"/sub/{one},{two}", META) as socket:
        got = [(await asyncio.wait_for(socket.recv(), WAIT)).partition("\n\n") for _ in range(4)]
        by_channel = [[body for _, _, body in got if body[0] == of] for of in "ab"]
        yield "in the order of each", by_channel
        yield "form", all(re.fullmatch(r"id: \d{10}:(\[\d+\],(\d+|-)|(\d+|-),\[\d+\])\ncontent-type: text/plain", head) for head, _, _ in got)
    yield "too few tags", client.ask("GET", f"/poll/{one},{two}?last_event_id=1:0")[0]
    yield "too many tags", client.ask("GET", f"/poll/{one},{two}?last_event_id=1:0,0,0")[0]


@pytest.mark.parametrize("script", [polls, events, sockets, several])
async def test_clients_see_what_nchan_shows_them(notifying_world, nchan_reference, script):
    """Each step against Debian's nginx with Nchan, and against this server."""
    channel = f"nchan-{uuid.uuid4().hex}"

    async def play(port):
        return [step async for step in script(Client(port), channel)]

    expected, got = await asyncio.gather(play(nchan_reference.port), play(notifying_world.server.http))
    for (step, theirs), (_, ours) in zip(expected, got, strict=True):
        assert ours == theirs, step


class Page:
    """NchanSubscriber in a process of node."""

    def __init__(self, transport, port, channel, **options):
        address = f"http://127.0.0.1:{port}/sub/{channel}"
        self.arguments = ["node", str(HERE / "nchan.mjs"), transport, address, json.dumps(options)]
        self.told = []

    async def __aenter__(self):
        self.process = await asyncio.create_subprocess_exec(*self.arguments, stdout=asyncio.subprocess.PIPE)
        self.task = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        self.task.cancel()

    async def read(self):
        async for line in self.process.stdout:
            self.told.append(json.loads(line))

    def messages(self):
        return [told for told in self.told if "data" in told]

    def data(self):
        return [told["data"] for told in self.messages()]

    async def until(self, true):
        deadline = time.monotonic() + 2 * WAIT
        while not true() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert true(), self.told


def posts(port, channel, body, **headers):
    """A publication, which has to be taken."""
    status, _, answer = Client(port).call("POST", f"/pub/{channel}", body, **{"Content_Type": "text/plain", **headers})
    assert status in (201, 202), (status, answer)
    return status


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("of", ["throng", "nchan"])
async def test_the_library_of_pages(notifying_world, nchan_reference, transport, of):
    """What it reports by either server: kept messages, live ones, and going on where another one was."""
    port = nchan_reference.port if of == "nchan" else notifying_world.server.http
    channel = f"page-{uuid.uuid4().hex}"
    await asyncio.to_thread(posts, port, channel, "kept")
    async with Page(transport, port, channel) as page:
        await page.until(lambda: page.data() == ["kept"])
        if transport != "longpoll":
            assert await asyncio.to_thread(posts, port, channel, "live\nlines") == 201
        else:
            await asyncio.to_thread(posts, port, channel, "live\nlines")
        await page.until(lambda: page.data() == ["kept", "live\nlines"])
        if transport == "websocket" and of == "throng":
            await asyncio.to_thread(posts, port, channel, b"\xff\0", Content_Type="application/octet-stream")
            await page.until(lambda: page.data()[2:] == [[255, 0]])
        first = page.messages()[0]
        assert re.fullmatch(r"\d{10}:\d+", first["id"])
        assert first.get("type") == (None if transport == "eventsource" else "text/plain")
    # Nchan 1.3.6 does not look at the header field in which this client says it by long poll.
    if (transport, of) != ("longpoll", "nchan"):
        async with Page(transport, port, channel, id=first["id"]) as page:
            await page.until(lambda: page.data()[:1] == ["live\nlines"])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_it_comes_back_over_kill_9(notifying_world, transport):
    """A channel of durable items: what was acknowledged comes once, in order, however often the server is killed."""
    world, channel = notifying_world, f"kill-{uuid.uuid4().hex}"
    port, taken = world.server.http, []

    def publish(number):
        deadline = time.monotonic() + 2 * WAIT
        while time.monotonic() < deadline:
            try:
                # What is in doubt is sent again, and known by its key.
                posts(port, channel, f"{number}", Idempotency_Key=f"key-{number}")
                return taken.append(f"{number}")
            except (OSError, http.client.HTTPException, AssertionError):
                time.sleep(0.1)
        raise AssertionError(f"{number} was not taken")

    async def publish_all():
        for number in range(1, 80):
            await asyncio.to_thread(publish, number)

    async with Page(transport, port, channel) as page:
        # It is killed under a page that is connected.
        await asyncio.to_thread(publish, 0)
        await page.until(lambda: page.data() == ["0"])
        publishing = asyncio.create_task(publish_all())
        for at in (20, 50):
            await page.until(lambda: len(taken) >= at or publishing.done())
            await asyncio.to_thread(world.server.restart, kill=True)
        await publishing
        await page.until(lambda: len(page.data()) >= 80)
        await asyncio.sleep(0.5)
        assert page.data() == taken == [str(number) for number in range(80)]


async def test_others_have_the_same_channels(notifying_world):
    """Who publishes and reads at /n/, and by XMPP, and by Nchan's protocol, shares channels."""
    world, channel = notifying_world, f"both.{uuid.uuid4().hex}"
    port = world.server.http
    status = await asyncio.to_thread(posts, port, channel, "by nchan", X_EventSource_Event="changed")
    assert status == 202
    await asyncio.to_thread(publish_at_n, world, channel, "by /n/", "key")
    _, _, answer = await asyncio.to_thread(ask, world, f"{channel}?after=0")
    items = json.loads(answer)["items"]
    assert [(item["type"], item["data"]) for item in items][0] == ("text/plain; event=changed", "by nchan")
    client = Client(port)
    first = await asyncio.to_thread(client.call, "GET", f"/sub/{channel}")
    assert (first[0], first[1]["content-type"], first[2]) == (200, "text/plain", "by nchan")
    second = await asyncio.to_thread(client.call, "GET", f"/sub/{channel}", If_Modified_Since=first[1]["last-modified"], If_None_Match=first[1]["etag"])
    assert "by /n/" in second[2]
    romeo = await world.online("slixmpp")
    for plugin in ("xep_0059", "xep_0060"):
        romeo.client.register_plugin(plugin)
    found = await romeo._iq(romeo.client.plugin["xep_0060"].get_items(f"pubsub.{DOMAIN}", channel))
    assert len(found["pubsub"]["items"]) == 2
