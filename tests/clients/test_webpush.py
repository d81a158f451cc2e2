"""Pushes to pages that are closed (docs/notifications.md): what a push service takes, verified and decrypted by libraries that know nothing
of the server, also over `kill -9`."""

import asyncio
import json
import stat
import time
import urllib.error
import urllib.request
import uuid

import pytest

from events import WAIT
from push_service import b64
from test_metrics import values
from test_notify import Events, ask, publish, url


def fresh():
    """A channel that no other test has."""
    return f"wp{uuid.uuid4().hex}"


async def until(condition, what):
    """Waits until something is so."""
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)


def change(world, method, path, body=None):
    """PUT or DELETE: the status, and the answer."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url(world, path), data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=WAIT) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def register(world, channel, browser):
    """A page registers: the id of the registration."""
    status, answer = await asyncio.to_thread(change, world, "PUT", f"{channel}?push", browser.subscription())
    assert status == 200, answer
    return json.loads(answer)["push"]


async def settled(world):
    """All numbers, when nothing of other tests is on its way any more: figures are a second old at the most."""
    numbers = {}
    while True:
        before, numbers = numbers, await asyncio.to_thread(values, world.server)
        pushes = {name: value for name, value in numbers.items() if "push" in name}
        if pushes == {name: value for name, value in before.items() if "push" in name}:
            return numbers
        await asyncio.sleep(1.2)


async def say(world, channel, text, key=None):
    """Somebody publishes."""
    return await asyncio.to_thread(publish, world, channel, text, key or uuid.uuid4().hex)


@pytest.fixture
def service(pushing_world):
    """The push service; nothing that was sent to it is wrong."""
    service = pushing_world.server.push_service
    yield service
    assert service.faults == []


async def test_a_closed_page_is_told(pushing_world, service):
    """RFC 8030, RFC 8291, RFC 8292, and the key that pages subscribe with."""
    world, channel, browser = pushing_world, fresh(), service.browser()
    status, _, answer = await asyncio.to_thread(ask, world, "?push-key")
    key = json.loads(answer)["key"]
    assert status == 200
    file = world.server.data / "push.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    registration = await register(world, channel, browser)
    await say(world, channel, "while you were away")
    await until(lambda: browser.got, "no push came")
    item, head = browser.got[0], browser.heads[0]
    assert (item["channel"], item["id"], item["data"]) == (channel, "1", "while you were away")
    assert head["Authorization"].endswith(f"k={key}") and head["TTL"] == "3600" and head["Urgency"] == "high"
    assert "Topic" not in head
    # It is closed, and does not want that any more.
    status, _ = await asyncio.to_thread(change, world, "DELETE", f"{channel}?push={registration}")
    assert status == 204
    await asyncio.sleep(1.2)
    other = service.browser()
    await register(world, channel, other)
    await say(world, channel, "nobody")
    await until(lambda: other.got, "the other one is told")
    assert browser.data() == ["while you were away"]


async def test_a_page_that_listens_is_not_told(pushing_world, service):
    """By events, with the registration's id; as soon as it is closed it is told."""
    world, channel = pushing_world, fresh()
    page, marker = service.browser(), service.browser()
    registration = await register(world, channel, page)
    await register(world, channel, marker)
    await say(world, channel, "first")
    await until(lambda: page.got and marker.got, "both are told")
    listens = Events(world, f"{channel}?push={registration}", last="1")
    await until(lambda: listens.connections, "it listens")
    await asyncio.sleep(1.2)
    await say(world, channel, "by events")
    await until(lambda: len(marker.got) == 2 and listens.got, "the other one is told by push, this one by events")
    assert page.data() == ["first"]


async def test_items_with_keys_and_long_ones(pushing_world, service):
    """RFC 8030 5.4: later ones replace earlier ones at the push service. RFC 8291 4: what does not fit is named only."""
    world, channel, browser = pushing_world, fresh(), service.browser()
    await register(world, channel, browser)
    for number, text in enumerate(("17.25", "17.50"), 1):
        status, _, answer = await asyncio.to_thread(
            ask, world, channel, text.encode(), Content_Type="text/plain", Item_Key="ACME")
        assert status == 200, answer
        await until(lambda: len(browser.got) == number, f"{number} pushes")  # noqa: B023
        await asyncio.sleep(1.2)
    topics = {head["Topic"] for head in browser.heads}
    assert len(topics) == 1 and topics.pop()
    await say(world, channel, "x" * 30_000)
    await until(lambda: len(browser.got) == 3, "the long one")
    assert browser.got[2] == {"channel": channel, "id": "3"}


async def test_registrations_are_there_after_kill_9(pushing_world, service):
    """What was answered is durable, and the key is the same."""
    world, channel, browser = pushing_world, fresh(), service.browser()
    key = await asyncio.to_thread(ask, world, "?push-key")
    pages = [service.browser() for _ in range(20)]
    ids = await asyncio.gather(*(register(world, channel, page) for page in [browser, *pages]))
    status, _ = await asyncio.to_thread(change, world, "DELETE", f"{channel}?push={ids[1]}")
    assert status == 204
    await asyncio.to_thread(world.server.restart, kill=True)
    await say(world, channel, "after the crash")
    await until(lambda: browser.got and all(page.got for page in pages[1:]), "all are told")
    assert browser.data() == ["after the crash"] and pages[0].got == []
    assert (await asyncio.to_thread(ask, world, "?push-key"))[2] == key[2]


async def test_what_the_push_service_says(pushing_world, service):
    """RFC 8030 7.3 and 8.4: a subscription that is gone ends the registration, and a failure is tried again."""
    world, channel = pushing_world, fresh()
    gone, busy, fails = service.browser(), service.browser(), service.browser()
    for browser in (gone, busy, fails):
        await register(world, channel, browser)
    gone.answers = [(410, {})]
    busy.answers = [(429, {"Retry_After": 1})]
    fails.answers = [(500, {}), (503, {})]
    before = await settled(world)
    await say(world, channel, "one")
    await until(lambda: busy.got and fails.got, "both in the end")
    await asyncio.sleep(1.2)
    await say(world, channel, "two")
    await until(lambda: len(busy.got) == 2 and len(fails.got) == 2, "the next one")
    assert gone.got == []

    def grown():
        after = values(world.server)
        return {name: after[name] - before[name] for name in after}
    await until(lambda: grown()["throng_shard_notify_push_sent_total"] == 4, "it is counted")
    assert grown()["throng_shard_notify_push_removed_total"] == 1
    assert grown()["throng_push_service_busy_total"] == 1 and grown()["throng_push_service_faults_total"] == 2


async def test_registrations_at_a_silent_channel_end(pushing_world, service):
    """Push API 8: the push service says when a subscription ends. Nothing is published there, and the server ends by kill -9 meanwhile."""
    world, channel, silent = pushing_world, fresh(), fresh()
    page, brief = service.browser(), [service.browser() for _ in range(5)]
    for browser in brief:
        browser.expires_ms = int(time.time() * 1_000) + 3_000
        await register(world, silent, browser)
    await register(world, silent, page)
    await register(world, channel, service.browser())
    await asyncio.sleep(3.2)
    await asyncio.to_thread(world.server.restart, kill=True)
    def removed():
        return values(world.server)["throng_shard_notify_push_removed_total"]
    await until(lambda: removed() == 5, "they are removed by the sweep")
    await say(world, silent, "late")
    await until(lambda: page.got, "the other one holds still")
    assert not any(browser.got for browser in brief) and removed() == 5


async def test_a_push_service_that_is_slow(pushing_world, service):
    """RFC 8030 8.4: it costs one connection for ten seconds at the most, and the push is tried again."""
    world, channel = pushing_world, fresh()
    slow, others = service.browser(), [service.browser() for _ in range(10)]
    slow.takes = [12]
    for browser in (slow, *others):
        await register(world, channel, browser)
    before = (await settled(world))["throng_push_service_faults_total"]
    await say(world, channel, "x")
    await until(lambda: all(browser.got for browser in others), "all others are told")
    assert values(world.server)["throng_push_service_faults_total"] == before, "meanwhile"
    await until(lambda: values(world.server)["throng_push_service_faults_total"] == before + 1, "it was given up once")
    await until(lambda: "x" in slow.data(), "and told in the end")


async def test_redirects_lead_nowhere(pushing_world, service):
    """RFC 9110 15.4: whoever answers so does not make the server connect to anybody."""
    world, channel, browser = pushing_world, fresh(), service.browser()
    asked = []

    async def elsewhere(_, writer):
        asked.append(writer)
        writer.close()
    listener = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    browser.answers = [(status, {"Location": f"https://localhost:{port}/x"}) for status in (301, 307)]
    await register(world, channel, browser)
    before = (await settled(world))["throng_push_service_refused_total"]
    for number in (1, 2):
        await say(world, channel, f"x{number}")
        await until(lambda: values(world.server)["throng_push_service_refused_total"] == before + number,  # noqa: B023
                    "it is refused, and not tried again")
        await asyncio.sleep(1.2)
    assert asked == []
    # The registration is there still.
    await say(world, channel, "x3")
    await until(lambda: browser.data() == ["x3"], "it is told")
    listener.close()


async def test_registrations_of_an_address_are_bounded(pushing_world, service):
    """Whoever makes up subscriptions fills neither memory nor disk: 100 of a channel by default."""
    world, channel, browser = pushing_world, fresh(), service.browser()
    form = browser.subscription()

    def put(number):
        return change(world, "PUT", f"{channel}?push", form | {"endpoint": f"{browser.endpoint}{number}"})[0]
    assert [await asyncio.to_thread(put, number) for number in range(102)] == [200] * 100 + [429] * 2
    assert await asyncio.to_thread(put, 7) == 200
    # All are of nobody: each is asked once, and then gone.
    requests = service.requests
    await say(world, channel, "x")
    await until(lambda: service.requests == requests + 100, "each is told")
    await until(lambda: [put(200), put(201)] == [200, 200], "there is room again")
    await asyncio.sleep(1.2)
    await say(world, channel, "y")
    await until(lambda: service.requests == requests + 102, "only these are left")


async def test_endpoints_elsewhere_are_refused(pushing_world, service):
    """Nobody makes the server connect to what the operator has not named."""
    world, channel, browser = pushing_world, fresh(), service.browser()
    good = browser.subscription()
    for endpoint in ("https://169.254.169.254/latest", f"http://localhost:{service.port}/x", "https://localhost/x",
                     f"https://user@localhost:{service.port}/x", f"https://127.0.0.1:{service.port}/x"):
        status, answer = await asyncio.to_thread(change, world, "PUT", f"{channel}?push", good | {"endpoint": endpoint})
        assert status == 400 and "push service" in answer, (endpoint, answer)
    # A key that is on no curve is found out when it is to be used.
    bad = good | {"keys": good["keys"] | {"p256dh": b64(b"\x04" + b"\x04" * 64)}}
    status, answer = await asyncio.to_thread(change, world, "PUT", f"{channel}?push", bad)
    assert status == 200
    requests = service.requests
    other = service.browser()
    await register(world, channel, other)
    await say(world, channel, "x")
    await until(lambda: other.got, "others are told")
    assert browser.got == [] and service.requests == requests + 1
