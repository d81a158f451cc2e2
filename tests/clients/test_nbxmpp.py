"""nbxmpp, the library of Gajim, with slixmpp at the other end: what it has modules for."""

import os
import re
import ssl

import aiohttp
import pytest

from test_push import Service
from events import Copy, LoginFailed, StanzaError

#: It pins the server's certificate, and takes no STARTTLS away from itself.
pytestmark = pytest.mark.secure

PEP = "http://jabber.org/protocol/pubsub#publish-options"
OMEMO = "eu.siacs.conversations.axolotl"


@pytest.fixture(autouse=True)
def with_all(server):
    """For a server with what the library has modules for."""
    if server.driver == "prosody":
        pytest.skip("the tests' Prosody has no nodes, archive or uploads")


async def pair(world):
    """An nbxmpp that is available, and a slixmpp."""
    return await world.online("nbxmpp"), await world.online("slixmpp")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"])
async def test_logs_in_by_the_second_form_of_sasl(world, mechanism):
    """XEP-0388 2: it takes SASL 2 where it is offered, and binds by RFC 6120 7 after it."""
    romeo = world.make("nbxmpp")
    await romeo.connect(mechanism=mechanism)
    assert romeo.sasl2
    assert romeo.jid == f"{romeo.bare}/first"
    await romeo.ping()


async def test_a_wrong_password_is_refused(world):
    """XEP-0388 2.6.1, RFC 6120 6.5.10."""
    account = world.server.fresh()
    romeo = world.make("nbxmpp", account=type(account)(account.name, "wrong"))
    with pytest.raises(LoginFailed, match="not-authorized"):
        await romeo.connect()


async def test_messages_presence_and_rosters_both_ways(world):
    """RFC 6121 2, 3, 4, 5."""
    romeo, juliet = await pair(world)
    romeo.send_message(juliet.jid, "wherefore <&> art thou")
    await juliet.wait_message("wherefore <&> art thou", sender=romeo.jid)
    juliet.send_message(romeo.jid, "deny thy father")
    await romeo.wait_message("deny thy father", sender=juliet.jid)
    for one, two in ((romeo, juliet), (juliet, romeo)):
        one.send_presence(to=two.bare, type="subscribe")
        await two.wait_presence(one.bare, "subscribe")
        two.send_presence(to=one.bare, type="subscribed")
        await one.wait_push(two.bare, "both" if one is juliet else "to")
    juliet.send_presence(show="away", status="on the balcony")
    assert (await romeo.wait_presence(juliet.jid, show="away")).status == "on the balcony"
    await romeo.roster_set(juliet.bare, "Juliet", ["Capulets"])
    item = (await romeo.roster())[juliet.bare]
    assert (item.name, item.subscription, item.groups) == ("Juliet", "both", {"Capulets"})
    await romeo.roster_remove(juliet.bare)
    assert await romeo.roster() == {}


async def test_a_resumed_session_has_missed_nothing(world):
    """XEP-0198 5."""
    juliet = await world.online("slixmpp")
    proxy = await world.proxy()
    romeo = await world.online("nbxmpp", proxy=proxy)
    juliet.send_message(romeo.jid, "before")
    await romeo.wait_message("before")
    await romeo.ping()
    proxy.cut()
    letters = [f"letter-{n}" for n in range(5)]
    for letter in letters:
        juliet.send_message(romeo.jid, letter)
    await juliet.ping()
    assert await romeo.resume()
    await romeo.wait_message("letter-4")
    await romeo.settle(juliet)
    assert [body for body in romeo.bodies() if body.startswith("letter")] == letters


async def test_copies(world):
    """XEP-0280 4, 6, 7: between an nbxmpp and a slixmpp of one account."""
    romeo, juliet = await pair(world)
    phone = await world.online("slixmpp", account=romeo.account, resource="phone")
    await romeo.carbons()
    await phone.carbons()
    phone.send_message(juliet.jid, "from the phone")
    assert (await romeo.wait_copy("from the phone", "sent")).to == juliet.jid
    juliet.send_message(phone.jid, "to the phone")
    await romeo.wait_copy("to the phone", "received")
    romeo.send_message(juliet.jid, "from the desk")
    await phone.wait_copy("from the desk", "sent")
    await romeo.carbons(False)
    phone.send_message(juliet.jid, "no more")
    await juliet.wait_message("no more")
    await romeo.settle(juliet)
    assert "no more" not in [copy.message.body for copy in romeo.log.of(Copy)]


async def test_the_archive_page_by_page(world):
    """XEP-0313 4, XEP-0059 2.2: forwards from the last id that it has, as Gajim does after a login; XEP-0441 4."""
    romeo, juliet = await pair(world)
    said = [f"line {n}" for n in range(7)]
    for n, line in enumerate(said):
        speaker, hearer = ((romeo, juliet), (juliet, romeo))[n % 2]
        speaker.send_message(hearer.jid, line)
        await hearer.wait_message(line)
    found, last, complete, pages = [], None, False, 0
    while not complete:
        page, complete = await romeo.archive(max=3, after=last)
        found, last, pages = found + page, page[-1].id, pages + 1
    assert [message.body for message in found] == said and pages == 3
    assert {message.sender.split("/")[0] for message in found} == {romeo.bare, juliet.bare}
    page, complete = await romeo.archive(with_jid=juliet.bare)
    assert complete and len(page) == 7
    assert (await romeo.archive(with_jid="nobody@localhost")) == ([], True)
    assert await romeo.archive_prefs("never", always=[juliet.bare]) == ("never", {juliet.bare}, set())
    with pytest.raises(StanzaError, match="forbidden|item-not-found"):
        await romeo.archive(to=juliet.bare)


async def test_blocking(world):
    """XEP-0191 3."""
    romeo, juliet = await pair(world)
    assert await romeo.blocklist() == set()
    await romeo.block(juliet.bare)
    await romeo.wait_block_push("block", juliet.bare)
    assert await romeo.blocklist() == {juliet.bare}
    juliet.send_message(romeo.jid, "hear me")
    assert (await juliet.wait_error(romeo.jid)).error == "service-unavailable"
    await romeo.unblock(juliet.bare)
    await romeo.wait_block_push("unblock", juliet.bare)
    juliet.send_message(romeo.jid, "now")
    await romeo.wait_message("now")
    assert "hear me" not in romeo.bodies()


async def test_bookmarks_come_to_the_other_device(world):
    """XEP-0402 2, 3: private, with publish-options, one item a room."""
    romeo = await world.online("nbxmpp")
    await romeo.do("bookmarks", rooms=[["hall@rooms.example", "The hall"], ["balcony@rooms.example", "The balcony"]])
    await romeo.ping()
    laptop = await world.online("nbxmpp", account=romeo.account, resource="laptop")
    kept = await laptop.call("NativeBookmarks", "request_bookmarks")
    assert {room["jid"]: (room["name"], room["autojoin"]) for room in kept} == {
        "hall@rooms.example": ("The hall", True), "balcony@rooms.example": ("The balcony", True)}
    await laptop.call("NativeBookmarks", "retract_bookmark", {"jid": "hall@rooms.example"})
    assert [room["jid"] for room in await romeo.call("NativeBookmarks", "request_bookmarks")] == ["balcony@rooms.example"]
    juliet = await world.online("nbxmpp")
    # A stranger is answered as if there were nobody (docs/decisions/0020-nodes.md).
    with pytest.raises(StanzaError, match="service-unavailable"):
        await juliet.call("PubSub", "request_items", "urn:xmpp:bookmarks:1", jid={"jid": romeo.bare})


async def test_an_avatar_and_a_vcard_are_for_all(world):
    """XEP-0084 3, XEP-0292 3: published as open, read by a stranger."""
    romeo, juliet = await world.online("nbxmpp"), await world.online("nbxmpp")
    picture = bytes(range(200))
    await romeo.do("avatar", data=picture.hex())
    await romeo.do("vcard", name="Romeo Montague")
    told = await juliet.call("UserAvatar", "request_avatar_metadata", jid={"jid": romeo.bare})
    (info,) = told["infos"]
    assert info["bytes"] == len(picture)
    data = await juliet.call("UserAvatar", "request_avatar_data", info["id"], jid={"jid": romeo.bare})
    assert data["data"] == picture.hex()
    assert "Romeo Montague" in await juliet.call("VCard4", "request_vcard", jid={"jid": romeo.bare})


async def test_omemo_keys(world):
    """XEP-0384 (0.3.0) 4.3, 4.4: device lists and bundles, open to all, changed by publish-options."""
    romeo, juliet = await world.online("nbxmpp"), await world.online("nbxmpp")
    keys = [os.urandom(33).hex() for _ in range(100)]
    await romeo.do("devices", devices=[7])
    await romeo.do("bundle", device=7, keys=keys)
    assert await juliet.call("OMEMO", "request_devicelist", romeo.bare) == [7]
    bundle = await juliet.call("OMEMO", "request_bundle", romeo.bare, 7)
    assert [key["key"] for key in bundle["otpks"]] == keys
    await romeo.do("bundle", device=7, keys=keys[1:])
    assert len((await juliet.call("OMEMO", "request_bundle", romeo.bare, 7))["otpks"]) == 99


async def test_what_was_displayed_is_known_to_all_devices(world):
    """XEP-0490 3."""
    romeo, juliet = await pair(world)
    juliet.send_message(romeo.jid, "read this")
    await romeo.wait_message("read this")
    (message,), _ = await romeo.archive()
    await romeo.call("MDS", "set_mds", {"jid": juliet.bare}, message.id)
    laptop = await world.online("nbxmpp", account=romeo.account, resource="laptop")
    (seen,) = await laptop.call("MDS", "get_mds")
    assert (seen["jid"], seen["stanza_id"], seen["stanza_id_by"]) == (juliet.bare, message.id, romeo.bare)


async def test_a_file_goes_up_and_comes_down(world):
    """XEP-0363 4, 5: the slot by the library, the transfer by any client of HTTP."""
    romeo = await world.online("nbxmpp")
    content = os.urandom(70_000)
    put, headers, get = await romeo.slot("upload.localhost", "tomb.bin", len(content))
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=world.server.cafile))
    async with aiohttp.ClientSession(connector=connector) as session:
        kind = {"content-type": "application/octet-stream"}
        async with session.put(put, headers=headers | kind, data=content) as answer:
            assert answer.status == 201
        async with session.get(get) as answer:
            assert (answer.status, await answer.read()) == (200, content)
    with pytest.raises(StanzaError, match="not-acceptable"):
        await romeo.slot("upload.localhost", "huge.bin", 1 << 40)


async def test_held_back_while_inactive(world):
    """XEP-0352 4.2, 5.1: as Gajim says it. Presence waits, and goes before the next message."""
    romeo, juliet = await world.online("nbxmpp"), await world.online("slixmpp")
    juliet.send_presence(to=romeo.bare, type="subscribe")
    await romeo.wait_presence(juliet.bare, "subscribe")
    romeo.send_presence(to=juliet.bare, type="subscribe")
    await juliet.wait_presence(romeo.bare, "subscribe")
    juliet.send_presence(to=romeo.bare, type="subscribed")
    await romeo.wait_push(juliet.bare, "to")
    await romeo.wait_presence(juliet.jid)
    romeo.client_state(False)
    await romeo.ping()
    since = romeo.log.mark()
    for show in ("away", "dnd", "xa"):
        juliet.send_presence(show=show)
    juliet.send_message(romeo.jid, "wake")
    await romeo.wait_message("wake", since=since)
    shown = [e.show for e in romeo.log.events[since:] if getattr(e, "sender", None) == juliet.jid and hasattr(e, "show")]
    assert shown == ["xa"]


async def test_push_is_enabled_and_disabled(world):
    """XEP-0357 5, 6, 7: the library has no module for it and is given the requests."""
    romeo, juliet = await pair(world)
    service = Service(await world.online("slixmpp"))
    _, features = await romeo.disco_info(romeo.bare)
    assert "urn:xmpp:push:0" in features
    name = f"xmlns='urn:xmpp:push:0' jid='{service.actor.jid}' node='a'"
    await romeo.request(f"<iq xmlns='jabber:client' type='set'><enable {name}/></iq>")
    juliet.send_message(romeo.jid, "seen")
    await romeo.wait_message("seen")
    await romeo.ping()
    await romeo.close()
    juliet.send_message(romeo.bare, "wake")
    await service.wait(1)
    assert service.told[0][:2] == ("localhost", "a")
    again = await world.bound("nbxmpp", account=romeo.account)
    await again.request(f"<iq xmlns='jabber:client' type='set'><disable {name}/></iq>")


async def test_queries(world):
    """XEP-0030, XEP-0092, XEP-0199, XEP-0077 3.3."""
    romeo = await world.online("nbxmpp")
    identities, features = await romeo.disco_info("localhost")
    assert ("server", "im") in identities and "urn:xmpp:ping" in features
    identities, features = await romeo.disco_info(romeo.bare)
    assert ("pubsub", "pep") in identities and PEP in features
    assert re.match("(?i)throng", await romeo.version("localhost"))
    await romeo.change_password("changed")
    await romeo.close()
    again = world.make("nbxmpp", account=type(romeo.account)(romeo.account.name, "changed"))
    await again.connect()
