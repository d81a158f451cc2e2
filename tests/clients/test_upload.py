"""Files by HTTP (XEP-0363): slots from two clients, uploads and downloads by
their own HTTP libraries, and what a client may not do."""

import asyncio
import os
import subprocess

import pytest

from events import StanzaError
from servers import DOMAIN

pytestmark = [pytest.mark.needs("upload"), pytest.mark.secure]


@pytest.fixture
def own(server):
    """Only Throng is set up with uploads."""
    if server.driver == "prosody":
        pytest.skip("set up for Throng only")
    return server


async def uploaded(actor, name, body, content_type="image/jpeg"):
    """Uploads a file; returns the URL of GET."""
    service, _ = await actor.upload_service()
    put, headers, get = await actor.slot(service, name, len(body), content_type)
    assert set(headers) == {"Authorization"}, "XEP-0363 4: of the three that are allowed"
    status, _, _ = await actor.http("PUT", put, {**headers, "Content-Type": content_type}, body)
    assert status == 201, "XEP-0363 7"
    return get


async def test_the_service_is_found(own, world, kind):
    """XEP-0363 3."""
    actor = await world.bound(kind)
    assert await actor.upload_service() == (f"upload.{DOMAIN}", 5 << 20)


async def test_a_file_comes_to_others_as_it_is(own, world, kind):
    """XEP-0363 4, 7: the name stays, and whoever knows the URL has the file."""
    romeo, juliet = await world.bound(kind), await world.bound(kind)
    body = os.urandom(1_500_000)
    get = await uploaded(romeo, "tr\u00e8s cool.jpg", body)
    assert get.endswith("/tr%C3%A8s%20cool.jpg") and get.startswith("https://localhost:")
    status, headers, came = await juliet.http("GET", get)
    assert (status, came == body, headers["content-type"]) == (200, True, "image/jpeg")
    assert headers["x-content-type-options"] == "nosniff" and "sandbox" in headers["content-security-policy"]
    assert headers["access-control-allow-origin"] == "*", "XEP-0363 8"
    status, headers, came = await juliet.http("GET", get, {"Range": "bytes=1000-1999"})
    assert (status, came) == (206, body[1000:2000])
    status, _, _ = await juliet.http("GET", get, {"If-None-Match": headers["etag"]})
    assert status == 304


async def test_what_does_not_match_the_slot_is_refused(own, world, kind):
    """XEP-0363 7: another length or type; and a slot is good once, for its own file alone."""
    actor = await world.bound(kind)
    service, _ = await actor.upload_service()
    put, headers, get = await actor.slot(service, "a.png", 10, "image/png")
    png = {**headers, "Content-Type": "image/png"}
    for status, shown, body in ((413, png, b"x" * 11), (400, png, b"x" * 9), (401, {"Content-Type": "image/png"}, b"x" * 10),
                                (415, {**headers, "Content-Type": "text/html"}, b"x" * 10)):
        assert (await actor.http("PUT", put, shown, body))[0] == status
    other, _, _ = await actor.slot(service, "b.png", 10, "image/png")
    assert (await actor.http("PUT", other, png, b"x" * 10))[0] == 403
    assert (await actor.http("GET", get))[0] == 404
    assert (await actor.http("PUT", put, png, b"x" * 10))[0] == 201
    assert (await actor.http("PUT", put, png, b"y" * 10))[0] == 409
    assert (await actor.http("GET", get))[2] == b"x" * 10


async def test_slots_are_bounded(own, world, kind):
    """XEP-0363 6: too large a file, and too many slots."""
    actor = await world.bound(kind)
    service, most = await actor.upload_service()
    with pytest.raises(StanzaError, match="not-acceptable"):
        await actor.slot(service, "a", most + 1)
    for number in range(20):
        await actor.slot(service, f"{number}", 1)
    with pytest.raises(StanzaError, match="resource-constraint"):
        await actor.slot(service, "one more", 1)


async def test_many_at_once(own, world, kind):
    """Files of two users come and go at the same time, and messages with them."""
    actors = [await world.bound(kind), await world.bound(kind)]
    bodies = [os.urandom(300_000 + n) for n in range(12)]
    urls = await asyncio.gather(*(uploaded(actors[n % 2], f"{n}.bin", body) for n, body in enumerate(bodies)))
    came = await asyncio.gather(*(actors[1 - n % 2].http("GET", url) for n, url in enumerate(urls)))
    assert all(got[0] == 200 and got[2] == body for got, body in zip(came, bodies))


async def test_operators_list_and_purge(own, world, kind):
    """`throng upload` beside the running server."""
    actor = await world.bound(kind)
    get = await uploaded(actor, "a.txt", b"text", "text/plain")

    def throng(*words):
        command = [own.binary, "upload", *words, "--data", str(own.data), "--domain", DOMAIN]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=True)

    listed = throng("list", "--user", actor.bare).stdout
    assert "a.txt" in listed and get.split("/")[3] in listed
    assert "removed 1 file," in throng("purge", "--user", actor.bare).stdout
    assert (await actor.http("GET", get))[0] == 404


@pytest.mark.needs("removal")
async def test_files_go_with_the_account(own, world, kind):
    """XEP-0077 3.2: with the account all that belongs to it."""
    actor, friend = await world.bound(kind), await world.bound(kind)
    get = await uploaded(actor, "a.txt", b"text", "text/plain")
    assert (await friend.http("GET", get))[0] == 200
    await actor.remove_account()
    assert (await friend.http("GET", get))[0] == 404


async def test_a_slot_outlives_kill_9(restarted_server, restarted_world, kind):
    """The server is killed between slot and upload, and between upload and download."""
    if restarted_server.driver == "prosody":
        pytest.skip("set up for Throng only")
    actor = await restarted_world.bound(kind)
    service, _ = await actor.upload_service()
    put, headers, get = await actor.slot(service, "a.txt", 4, "text/plain")
    headers["Content-Type"] = "text/plain"
    restarted_server.restart(kill=True)
    for _ in range(50):
        status, _, _ = await actor.http("PUT", put, headers, b"text")
        if status != 503:
            break
        await asyncio.sleep(0.1)
    assert status == 201
    restarted_server.restart(kill=True)
    assert (await actor.http("GET", get))[2] == b"text"
    assert (await actor.http("PUT", put, headers, b"text"))[0] in (409, 503)
