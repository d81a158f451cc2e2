"""The same avatar (XEP-0398, XEP-0153) and the same bookmarks (XEP-0402, XEP-0411) in old
and new clients of one user. The clients are slixmpp with the plugins of either kind."""

import asyncio
import base64
import hashlib
import struct
import zlib

import pytest
from slixmpp.plugins.xep_0048.stanza import Bookmarks
from slixmpp.xmlstream import ET

from events import WAIT, StanzaError
from test_pep import METADATA, PRIVATE, eventing, friends

pytestmark = pytest.mark.needs("pep")

DATA = "urn:xmpp:avatar:data"
NEW = "urn:xmpp:bookmarks:1"
OLD = "storage:bookmarks"
GEOLOC = "http://jabber.org/protocol/geoloc"
ACTIVITY = "http://jabber.org/protocol/activity"
DEVICELIST = "eu.siacs.conversations.axolotl.devicelist"
BUNDLES = "eu.siacs.conversations.axolotl.bundles"


def png(shade):
    """A whole image of one pixel."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(bytes([0, shade]))) + chunk(b"IEND", b""))


def watch_photos(session, of):
    """The hashes in another user's presence, as they come; None for an empty one."""
    session.client.register_plugin("xep_0153")
    seen = asyncio.Queue()

    def on_presence(stanza):
        photo = stanza.xml.find("{vcard-temp:x:update}x/{vcard-temp:x:update}photo")
        if stanza["from"].bare == of and photo is not None:
            seen.put_nowait(photo.text)

    session.client.add_event_handler("presence", on_presence)
    return lambda: asyncio.wait_for(seen.get(), WAIT)


async def test_an_avatar_of_a_new_client_is_seen_by_old_ones(world, kind):
    """XEP-0398 3.1, 4: in the vCard, and in presence from then on; XEP-0084 3.5: until it is disabled."""
    juliet, romeo = await friends(world, kind)
    _, features = await juliet.actor.disco_info(juliet.bare)
    assert "urn:xmpp:pep-vcard-conversion:0" in features
    photo = watch_photos(romeo, juliet.bare)
    juliet.client.register_plugin("xep_0084")
    image = png(7)
    id = hashlib.sha1(image).hexdigest()
    payload = ET.Element(f"{{{DATA}}}data")
    payload.text = base64.b64encode(image).decode()
    await juliet.publish(DATA, ET.tostring(payload, encoding="unicode"), id, {"access_model": "open"})
    info = {"id": id, "type": "image/png", "bytes": len(image)}
    await juliet.actor._iq(juliet.client.plugin["xep_0084"].publish_avatar_metadata(info))
    assert await photo() == id
    card = await romeo.actor._iq(romeo.client.plugin["xep_0054"].get_vcard(juliet.bare, cached=False))
    assert card["vcard_temp"]["PHOTO"]["BINVAL"] == image
    assert card["vcard_temp"]["PHOTO"]["TYPE"] == "image/png"
    # XEP-0398 4: a client that says nothing of photos has it in its presence all the same.
    juliet.client.send_presence(pshow="away")
    assert await photo() == id
    await juliet.publish(METADATA, f"<metadata xmlns='{METADATA}'/>", "current")
    assert await photo() is None
    card = await romeo.actor._iq(romeo.client.plugin["xep_0054"].get_vcard(juliet.bare, cached=False))
    assert not card["vcard_temp"]["PHOTO"]["BINVAL"]


async def test_a_photo_of_an_old_client_is_seen_by_new_ones(world, kind):
    """XEP-0398 3.2: its plugin for vCards knows nothing of nodes."""
    juliet, romeo = await friends(world, kind, METADATA)
    romeo.client.register_plugin("xep_0084")
    juliet.client.register_plugin("xep_0153")
    photo = watch_photos(romeo, juliet.bare)
    image = png(9)
    id = hashlib.sha1(image).hexdigest()
    # XEP-0054 3.1: there is none to be changed before the first one; the plugin only changes one.
    card = juliet.client.plugin["xep_0054"].make_vcard()
    card["FN"] = "Juliet"
    await juliet.actor._iq(juliet.client.plugin["xep_0054"].publish_vcard(card))
    await juliet.client.plugin["xep_0153"].set_avatar(avatar=image, mtype="image/png", timeout=WAIT)
    sender, node, what, item, payload = await romeo.next()
    assert (sender, node, what, item) == (juliet.bare, METADATA, "item", id)
    assert f'bytes="{len(image)}"' in payload and 'type="image/png"' in payload
    result = await romeo.actor._iq(romeo.client.plugin["xep_0084"].retrieve_avatar(juliet.bare, id))
    assert result["pubsub"]["items"]["item"]["avatar_data"]["value"] == image
    assert await photo() == id


async def test_bookmarks_are_the_same_in_old_and_new_clients(world, kind):
    """XEP-0402 4.3, XEP-0411 3: by private XML, by the node of XEP-0048, and by items."""
    new = await eventing(world, kind, NEW)
    old = await eventing(world, kind, OLD, account=new.actor.account, resource="old")
    _, features = await new.actor.disco_info(new.bare)
    assert {f"{NEW}#compat", f"{NEW}#compat-pep", "urn:xmpp:bookmarks-conversion:0"} <= features
    await new.settle()
    old.client.register_plugin("xep_0048")
    plugin = old.client.plugin["xep_0048"]
    # A new client adds one; an old one is told, and finds it in both places.
    state = "<extensions><state xmlns='urn:throng:test'/></extensions>"
    payload = f"<conference xmlns='{NEW}' name='Play' autojoin='true'><nick>JC</nick>{state}</conference>"
    await new.publish(NEW, payload, "play@conference.example", PRIVATE)
    assert (await old.next())[1:4] == (OLD, "item", "current")
    for method in "xep_0049", "xep_0223":
        found = await old.actor._iq(plugin.get_bookmarks(method=method))
        [conference] = list(found.xml.iter(f"{{{OLD}}}conference"))
        assert conference.get("jid") == "play@conference.example" and conference.get("name") == "Play"
        assert conference.find(f"{{{OLD}}}nick").text == "JC"
    # The old one writes all again, with another one; the new one hears of that alone.
    assert (await new.next())[3] == "play@conference.example"
    for method, room in ("xep_0049", "orchard@conference.example"), ("xep_0223", "tomb@conference.example"):
        bookmarks = Bookmarks()
        bookmarks.add_conference("play@conference.example", "JC", name="Play", autojoin=True)
        bookmarks.add_conference(room, "Romeo")
        await old.actor._iq(plugin.set_bookmarks(bookmarks, method=method))
        heard = {(await new.next())[1:4]}
        wanted = {(NEW, "item", room)}
        if method == "xep_0223":
            # What it has left out is gone.
            heard.add((await new.next())[1:4])
            wanted.add((NEW, "retract", "orchard@conference.example"))
        assert heard == wanted
        items = dict(await new.items(NEW))
        assert set(items) == {"play@conference.example", room}
        assert "urn:throng:test" in items["play@conference.example"], "it has kept what it does not know"


async def test_where_somebody_is_and_what_they_do(world, kind):
    """XEP-0080, XEP-0108: published by the plugins, for contacts."""
    juliet, romeo = await friends(world, kind, GEOLOC, ACTIVITY)
    for plugin in ("xep_0080", "xep_0108"):
        juliet.client.register_plugin(plugin)
    await juliet.actor._iq(juliet.client.plugin["xep_0080"].publish_location(lat=45.44, lon=12.33, locality="Verona"))
    sender, node, _, _, payload = await romeo.next()
    assert (sender, node) == (juliet.bare, GEOLOC) and "Verona" in payload
    await juliet.actor._iq(juliet.client.plugin["xep_0108"].publish_activity("relaxing", "reading"))
    sender, node, _, _, payload = await romeo.next()
    assert (sender, node) == (juliet.bare, ACTIVITY) and "reading" in payload


async def test_old_omemo_keys_as_conversations_publishes_them(world, kind):
    """XEP-0384 0.3 in a node for each device; a node that is not open is refused (XEP-0060 7.1.5), made open
    by its form (8.2), and published to again."""
    juliet, romeo = await friends(world, kind, DEVICELIST)
    stranger = await eventing(world, kind)
    namespace = "eu.siacs.conversations.axolotl"
    open_ = {"access_model": "open"}
    devices = f"<list xmlns='{namespace}'><device id='31415'/></list>"
    await juliet.publish(DEVICELIST, devices, "current")
    assert (await romeo.next())[:4] == (juliet.bare, DEVICELIST, "item", "current")
    with pytest.raises(StanzaError, match="conflict"):
        await juliet.publish(DEVICELIST, devices, "current", open_)
    form = (await juliet.ask("get", "configure", {"node": DEVICELIST}, owner=True)).xml.find(".//{jabber:x:data}x")
    form.set("type", "submit")
    next(field for field in form if field.get("var") == "pubsub#access_model")[-1].text = "open"
    iq = juliet.client.make_iq(itype="set")
    owner = "http://jabber.org/protocol/pubsub#owner"
    ET.SubElement(ET.SubElement(iq.xml, f"{{{owner}}}pubsub"), f"{{{owner}}}configure", {"node": DEVICELIST}).append(form)
    await juliet.actor._iq(iq.send())
    await juliet.publish(DEVICELIST, devices, "current", open_)
    assert (await romeo.next())[1] == DEVICELIST
    bundle = f"<bundle xmlns='{namespace}'><signedPreKeyPublic signedPreKeyId='1'>AAAA</signedPreKeyPublic></bundle>"
    await juliet.publish(f"{BUNDLES}:31415", bundle, "current", open_)
    assert "31415" in (await stranger.items(DEVICELIST, to=juliet.bare))[0][1]
    assert "AAAA" in (await stranger.items(f"{BUNDLES}:31415", to=juliet.bare))[0][1]
