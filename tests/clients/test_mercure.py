"""The Mercure protocol (docs/mercure.md) by libraries that pages use: `eventsource` and `@microsoft/fetch-event-source` of npm, and
sseclient-py; published by forms as back ends send them, with tokens of PyJWT."""

import asyncio
import http.client
import itertools
import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

import jwt
import pytest
import sseclient

from events import WAIT
from servers import DOMAIN
from test_notify import ask
from test_notify_jwt import SECRET, issue

HERE = Path(__file__).parent
HUB = "/.well-known/mercure"
LIBRARIES = ["eventsource", "fetch"]


def hub(world, topics=(), **more):
    """The hub's address, with topics as `URLSearchParams` writes them."""
    query = [("topic", topic) for topic in topics] + list(more.items())
    return f"http://127.0.0.1:{world.server.http}{HUB}?{urllib.parse.urlencode(query)}"


def request(world, form=None, topics=(), headers=(), **more):
    """One request: the status, the header fields and the body; of a subscription its head only."""
    body = None if form is None else urllib.parse.urlencode(form).encode()
    asked = urllib.request.Request(hub(world, topics, **more), data=body, headers=dict(headers))
    try:
        with urllib.request.urlopen(asked, timeout=WAIT) as response:
            return response.status, response.headers, response.read().decode() if body is not None else ""
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()
    except (ConnectionError, urllib.error.URLError):
        # What is too long is not read to its end, so that who writes on may not get to read the answer.
        return None, {}, ""


async def publish(world, topic, data, token=None, **more):
    """As Symfony's hub does; the identifier."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    status, _, answer = await asyncio.to_thread(request, world, [("topic", topic), ("data", data), *more.items()], headers=headers)
    assert status == 200, answer
    return answer


def site():
    """An address that no other test has."""
    return f"https://example.com/{uuid.uuid4().hex}"


def channel_of(topic):
    """docs/mercure.md: the channel of a topic that is an address."""
    return urllib.parse.quote(topic, safe=":@+").replace("~", "%7E").replace("%", "~")


class Page:
    """A subscriber in a process of node."""

    def __init__(self, library, address, headers=()):
        self.arguments = ["node", str(HERE / "mercure.mjs"), library, address, json.dumps(dict(headers))]
        self.got, self.opened = [], 0

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
            told = json.loads(line)
            self.opened += "open" in told
            if "open" not in told:
                self.got.append(told)

    async def until(self, true):
        deadline = time.monotonic() + 2 * WAIT
        while not true() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert true(), self.got

    def data(self):
        return [event.get("data") for event in self.got]


@pytest.mark.parametrize("library", LIBRARIES)
async def test_libraries_of_pages_are_told(notifying_world, library):
    """Draft 07, 4 and 5: two topics, types, and what others publish at the same channel; nothing else is an event."""
    world, book, news = notifying_world, site(), f"news.{uuid.uuid4().hex}"
    async with Page(library, hub(world, [book, news])) as page:
        await page.until(lambda: page.opened)
        one = await publish(world, book, '{"title": "1984"}', type="changed", retry="500", id="urn:uuid:1")
        two = await publish(world, news, "two\nlines & more")
        channel = channel_of(book)
        status, _, _ = await asyncio.to_thread(ask, world, channel, b"from /n/", Content_Type="text/plain")
        assert status == 200
        await page.until(lambda: len(page.got) >= 3)
        assert [(event["type"], event["data"]) for event in page.got] == [
            ("changed", '{"title": "1984"}'), ("message", "two\nlines & more"), ("message", "from /n/")]
        assert page.got[0]["id"].startswith(one) and page.got[1]["id"].startswith(two)
        # A sign of life is none: the next event is that of the end.
        await asyncio.sleep(20)
        await publish(world, news, "end")
        await page.until(lambda: len(page.got) >= 4)
        assert page.data()[3:] == ["end"]
    status, _, answer = await asyncio.to_thread(ask, world, f"{channel_of(book)}?after=0")
    assert [item["data"] for item in json.loads(answer)["items"]] == ['{"title": "1984"}', "from /n/"]


async def test_a_subscriber_by_xmpp_sees_updates(notifying_world):
    """XEP-0060 6.5: slixmpp reads the node that a topic is."""
    world, book = notifying_world, site()
    await publish(world, book, "update")
    romeo = await world.online("slixmpp")
    for plugin in ("xep_0059", "xep_0060"):
        romeo.client.register_plugin(plugin)
    found = await romeo._iq(romeo.client.plugin["xep_0060"].get_items(f"pubsub.{DOMAIN}", channel_of(book)))
    [item] = found["pubsub"]["items"]
    assert item["payload"].text == "update"


@pytest.mark.parametrize("library", LIBRARIES)
async def test_each_update_once_and_in_order_over_kills(notifying_world, library):
    """Draft 07, 7: a page comes back with the last identifier that it saw, and goes on at all topics without a gap or a double."""
    world, least = notifying_world, 90
    topics = [site(), f"news.{uuid.uuid4().hex}", site()]
    over = asyncio.Event()

    async def publisher():
        for number in itertools.count():
            topic, key, deadline = topics[number % 3], uuid.uuid4().hex, time.monotonic() + WAIT
            while time.monotonic() < deadline:
                try:
                    form = [("topic", topic), ("data", f"{number % 3}.{number}")]
                    if (await asyncio.to_thread(request, world, form, headers={"Idempotency-Key": key}))[0] == 200:
                        break
                except (OSError, http.client.HTTPException):
                    pass
                await asyncio.sleep(0.05)
            if over.is_set() and number >= least:
                return number + 1
            await asyncio.sleep(0.1)

    async with Page(library, hub(world, topics, lastEventID="earliest")) as page:
        await page.until(lambda: page.opened)
        task = asyncio.create_task(publisher())
        for _ in range(3):
            await asyncio.sleep(1)
            opened = page.opened
            await asyncio.to_thread(world.server.restart, True)
            await page.until(lambda opened=opened: page.opened > opened)
        over.set()
        count = await task
        await page.until(lambda: len(page.got) >= count)
        for at in range(3):
            expected = [f"{at}.{number}" for number in range(at, count, 3)]
            assert [data for data in page.data() if data.startswith(f"{at}.")] == expected
        assert len(page.got) == count


async def test_sseclient_goes_on_by_the_query(notifying_world):
    """Draft 07, 7: `lastEventID` and the `Last-Event-ID` of the answer, by any identifier that a publisher was told."""
    world, topic = notifying_world, site()
    ids = [await publish(world, topic, str(number)) for number in range(5)]

    def read(count, **more):
        with urllib.request.urlopen(hub(world, [topic], **more), timeout=WAIT) as response:
            events = sseclient.SSEClient(response).events()
            return response.headers["Last-Event-ID"], [(event.id, event.data) for _, event in zip(range(count), events)]

    for at, own in enumerate(ids[:-1]):
        last, events = await asyncio.to_thread(read, 4 - at, lastEventID=own)
        assert (last, events) == (own, [(ids[number], str(number)) for number in range(at + 1, 5)])
    last, events = await asyncio.to_thread(read, 5, lastEventID="earliest")
    assert last == "earliest" and [event for event, _ in events] == ids


def claim(publish=(), subscribe=(), seconds=60):
    """A token as applications of Mercure have it."""
    return issue("HS256", seconds, mercure={"publish": list(publish), "subscribe": list(subscribe)})


@pytest.mark.parametrize("library", LIBRARIES)
async def test_private_updates_need_the_claim(keyed_world, library):
    """Draft 07, 6: by the header, the address and the cookie; and a subscription ends with its token."""
    world, topic = keyed_world, site()
    token = claim(["*"], [topic], 600)
    address = hub(world, [topic])
    ways = [(address, {"Authorization": f"Bearer {token}"}), (hub(world, [topic], authorization=token), {}),
            (address, {"Cookie": f"mercureAuthorization={token}"})]
    for address, headers in ways:
        async with Page(library, address, headers) as page:
            await page.until(lambda page=page: page.opened)
            await publish(world, topic, "secret", token, private="on")
            await page.until(lambda page=page: page.data() == ["secret"])
    for headers in ({}, {"Authorization": f"Bearer {claim(['*'], [topic + '/x'])}"}):
        async with Page(library, hub(world, [topic]), headers) as page:
            await page.until(lambda page=page: page.got)
            assert page.got == [{"refused": 403 if headers else 401}]
    async with Page(library, hub(world, [topic]), {"Authorization": f"Bearer {claim([], [topic], 4)}"}) as page:
        await page.until(lambda: page.opened)
        await publish(world, topic, "in time", token)
        await page.until(lambda: page.data() == ["in time"])
        await page.until(lambda: len(page.got) == 2)
        assert page.got[1] == {"refused": 401}, "it comes back, and is told that the token has ended"


async def test_a_foreign_page_may_not_use_the_cookie(keyed_world):
    """Draft 07, security considerations: a browser sends the cookie with whatever any page asks."""
    world, topic = keyed_world, site()
    cookie = {"Cookie": f"mercureAuthorization={claim(['*'], ['*'])}"}
    form = [("topic", topic), ("data", "x"), ("private", "on")]
    own, foreign = f"http://127.0.0.1:{world.server.http}", "https://evil.example"
    for origin, status in ((own, 200), (foreign, 403), ("null", 403), (own + "0", 403), (None, 403)):
        headers = cookie | ({"Origin": origin} if origin else {})
        assert (await asyncio.to_thread(request, world, form, headers=headers))[0] == status, origin
    for headers in ({"Origin": foreign}, {"Sec-Fetch-Site": "cross-site"}):
        status, fields, _ = await asyncio.to_thread(request, world, topics=[topic], headers=cookie | headers)
        assert status == 403 and fields["Access-Control-Allow-Credentials"] is None


async def test_bad_requests_are_refused_and_harm_nobody(keyed_world):
    """Forged tokens, huge and many topics, what is no form, both lengths; and a subscriber meanwhile is told."""
    world, topic = keyed_world, site()
    good = claim(["*"], [topic], 600)
    payload = jwt.decode(good, options={"verify_signature": False})
    unsigned = jwt.encode(payload, None, algorithm="none")
    forged = jwt.encode(payload, b"x" * 32, algorithm="HS256", headers={"kid": "2026-HS256"})
    endless = jwt.encode({**payload, "exp": None}, SECRET, algorithm="HS256", headers={"kid": "2026-HS256"})
    async with Page("fetch", hub(world, [topic]), {"Authorization": f"Bearer {good}"}) as page:
        await page.until(lambda: page.opened)
        for token in (unsigned, forged, endless, good[:-2], claim(["https://example.com/{id:3}"], ["*"]), "x"):
            for headers in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"mercureAuthorization={token}"}):
                status, fields, text = await asyncio.to_thread(request, world, topics=[topic], headers=headers)
                assert status == 401 and "invalid_token" in fields["WWW-Authenticate"], text
        bearer = {"Authorization": f"Bearer {good}"}
        for topics, status in ((["*"] + [f"own.{n}.{{x}}" for n in range(4)], 400), ([topic + "/{id*}"], 400), ([topic + "/{id"], 400),
                               (["own.{a,b,c,d,e,f,g,h,i}"], 400), (["own.{x}"], 403), ([topic + "x" * 200], 400), (["x" * 3_000], 414),
                               ([f"own.{n}" for n in range(17)], 400), ([f"own.{n}" for n in range(1_000)], 431), ([], 400)):
            got = (await asyncio.to_thread(request, world, topics=topics, headers=bearer))[0]
            assert got in (status, None) if len(topics) > 100 else got == status, topics[:1]
        for form, status in (([("topic", topic), ("topic", "own.x")], 400), ([("topic", f"own.{n}") for n in range(1_000)], 400),
                             ([("data", "x")], 400), ([("topic", "news.x"), ("private", "")], 400), ([("topic", "other")], 403),
                             ([("topic", topic), ("data", "x" * 32_769)], 413), ([("topic", topic), ("data", "x" * 200_000)], 413)):
            got = (await asyncio.to_thread(request, world, form, headers=bearer))[0]
            assert got in (status, None) if len(form[-1][1]) > 100_000 else got == status, form[0]
        head = f"POST {HUB} HTTP/1.1\r\nHost: {DOMAIN}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        for lengths in ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n"):
            with socket.create_connection(("127.0.0.1", world.server.http), WAIT) as raw:
                raw.sendall(f"{head}{lengths}\r\n0\r\n\r\n".encode())
                assert raw.recv(4_096).startswith(b"HTTP/1.1 400")
        await publish(world, topic, "still there", good)
        await page.until(lambda: page.data() == ["still there"])


@pytest.mark.parametrize("library", LIBRARIES)
async def test_selectors_mean_many_topics(notifying_world, library):
    """Draft 07, 4.1, and RFC 6570: URI templates beside a topic, each update once, with the identifier that its publisher is told."""
    world, own, news = notifying_world, site(), f"news.{uuid.uuid4().hex}"
    selectors = [own + "/books/{id}", own + "/{kind}/{id}{?page}", news]
    async with Page(library, hub(world, selectors)) as page, Page(library, hub(world, ["*"])) as every:
        await page.until(lambda: page.opened)
        await every.until(lambda: every.opened)
        told, untold = [], []
        for topic, matches in (("/books/1", True), ("/books/1/2", False), ("/users/~romeo?page=2", True), ("/users/a?x=1", False),
                               ("", False), ("/books/{id}", True), ("/books/2", True)):
            (told if matches else untold).append(await publish(world, own + topic, topic or "-", type="changed"))
        told.append(await publish(world, news, "news", type="changed"))
        await page.until(lambda: len(page.got) >= len(told))
        await every.until(lambda: len(every.got) >= len(told) + len(untold))
        assert sorted(page.data()) == sorted(["/books/1", "/users/~romeo?page=2", "/books/{id}", "/books/2", "news"])
        assert all(any(event["id"].startswith(one + ":") or event["id"] == one for event in page.got) for one in told)
        assert not any(event["id"].startswith(one + ":") for one in untold for event in page.got)
        assert all(any(event["id"].startswith(one + ":") for event in every.got) for one in told + untold)
        assert {event["type"] for event in page.got} == {"changed"}


async def test_selectors_go_on_where_they_were(notifying_world):
    """Draft 07, 7: behind any update nothing is missing and nothing comes twice; after a kill it is said that something may be missing."""
    world, own = notifying_world, site()
    selectors = [own + "/a/{id}", own + "/b/{id}"]

    def follow(count, **more):
        with urllib.request.urlopen(hub(world, selectors, **more), timeout=WAIT) as response:
            events = sseclient.SSEClient(response).events()
            return response.headers["Last-Event-ID"], [(event.id, event.data) for _, event in zip(range(count), events)]

    first = asyncio.create_task(asyncio.to_thread(follow, 6))
    await asyncio.sleep(1)
    for number in range(6):
        await publish(world, f"{own}/{'ab'[number % 2]}/{number}", str(number))
        await publish(world, f"{own}/c/{number}", "no")
    _, events = await first
    assert sorted(data for _, data in events) == [str(number) for number in range(6)]
    for number in range(6, 12):
        await publish(world, f"{own}/{'ab'[number % 2]}/{number}", str(number))
    for at, (last, _) in enumerate(events):
        left = {data for _, data in events[at + 1:]} | {str(number) for number in range(6, 12)}
        answered, got = await asyncio.to_thread(follow, len(left), lastEventID=last)
        assert answered == last and sorted(data for _, data in got) == sorted(left), f"behind {at}"
    async with Page("eventsource", hub(world, selectors, lastEventID=events[-1][0])) as page:
        await page.until(lambda: len(page.got) == 6)
        opened = page.opened
        await asyncio.to_thread(world.server.restart, True)
        await page.until(lambda: page.opened > opened)
        await publish(world, f"{own}/a/1", "after")
        await page.until(lambda: len(page.got) == 7)
        assert page.data()[6] == "after"
    answered, _ = await asyncio.to_thread(follow, 0, lastEventID=events[0][0])
    assert answered == "earliest"


@pytest.mark.parametrize("library", LIBRARIES)
async def test_selectors_and_tokens_with_templates(keyed_world, library):
    """Draft 07, 6: who selects is told of what its token grants and of what everybody reads; and a token publishes at what it matches."""
    world, own, news = keyed_world, site(), f"news.{uuid.uuid4().hex}"
    publisher = claim([own + "/{kind}/{id}", "news.{+x}"], [], 600)
    token, every = claim([], [own + "/users/{id}"], 600), claim([], ["*"], 600)
    bearer = {"Authorization": f"Bearer {token}"}
    pages = [Page(library, hub(world, ["*"]), bearer), Page(library, hub(world, [own + "/{kind}/{id}"], authorization=token)),
             Page(library, hub(world, ["*"])), Page(library, hub(world, ["*"]), {"Cookie": f"mercureAuthorization={every}"})]
    async with pages[0], pages[1], pages[2], pages[3]:
        for page in pages:
            await page.until(lambda page=page: page.opened)
        for topic, data in ((own + "/users/1", "user"), (own + "/books/1", "book"), (news, "news")):
            await publish(world, topic, data, publisher)
        expected = [["news", "user"], ["user"], ["news"], ["book", "news", "user"]]
        for page, data in zip(pages, expected):
            await page.until(lambda page=page, data=data: len(page.got) >= len(data))
            assert sorted(page.data()) == data
    form = [("topic", own + "/users/1/2"), ("data", "x")]
    assert (await asyncio.to_thread(request, world, form, headers={"Authorization": f"Bearer {publisher}"}))[0] == 403
    for headers, status in (({}, 401), ({"Authorization": f"Bearer {claim([], [own + 'x/{id}'])}"}, 403), (bearer, 200)):
        got = await asyncio.to_thread(request, world, topics=[own + "/users/{id}"], headers=headers)
        assert got[0] == status, headers


async def test_hostile_selectors_hold_up_nobody(notifying_world):
    """Templates and topics that are made for each other: with many that wait by them, updates come in time."""
    world, own = notifying_world, uuid.uuid4().hex
    hostile = [f"{own}.{{a,b}}a{{c,d}}a{{e,f}}a{{g,{name}}}" + "a" * 40 + "b" for name in "abcd"]
    sockets = []
    try:
        for _ in range(100):
            raw = socket.create_connection(("127.0.0.1", world.server.http), WAIT)
            sockets.append(raw)
            query = urllib.parse.urlencode([("topic", one) for one in hostile])
            raw.sendall(f"GET {HUB}?{query} HTTP/1.1\r\nHost: {DOMAIN}\r\n\r\n".encode())
            assert (await asyncio.to_thread(raw.recv, 4_096)).startswith(b"HTTP/1.1 200")
        async with Page("eventsource", hub(world, [own + ".{+all}"])) as page:
            await page.until(lambda: page.opened)
            began = time.monotonic()
            for number in range(20):
                await publish(world, f"{own}." + "a" * 90, str(number))
            await page.until(lambda: len(page.got) == 20)
            assert page.data() == [str(number) for number in range(20)] and time.monotonic() - began < WAIT
    finally:
        for raw in sockets:
            raw.close()
