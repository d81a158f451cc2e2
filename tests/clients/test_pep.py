"""Personal eventing (XEP-0163) by what clients store there. Both users' client is
slixmpp, whose plugins know the payloads: they say what they are interested in by
their capabilities (XEP-0115), and read what comes."""

import asyncio
import hashlib
import re

import pytest
from slixmpp.plugins.xep_0004.stanza import Form
from slixmpp.plugins.xep_0402.stanza import Conference
from slixmpp.xmlstream import ET, tostring
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from events import WAIT, StanzaError
from raw import BIND, HEADER, Raw, plain
from servers import DOMAIN
from world import befriend

pytestmark = pytest.mark.needs("pep")

EVENT = "{http://jabber.org/protocol/pubsub#event}"
DEVICES = "urn:xmpp:omemo:2:devices"
BUNDLES = "urn:xmpp:omemo:2:bundles"
BOOKMARKS = "urn:xmpp:bookmarks:1"
DISPLAYED = "urn:xmpp:mds:displayed:0"
VCARD4 = "urn:xmpp:vcard4"
MOOD = "http://jabber.org/protocol/mood"
TUNE = "http://jabber.org/protocol/tune"
NICK = "http://jabber.org/protocol/nick"
METADATA = "urn:xmpp:avatar:metadata"
PRIVATE = {"persist_items": "true", "max_items": "max", "send_last_published_item": "never",
           "access_model": "whitelist"}


class Eventing:
    """A session with plugins for eventing. `heard` are notifications, as sender,
    node, what happened, id and the payload's XML."""

    def __init__(self, actor, interests):
        self.actor = actor
        self.heard = asyncio.Queue()
        self.client = client = actor.client
        for plugin in ("xep_0115", "xep_0060", "xep_0163", "xep_0222", "xep_0223"):
            client.register_plugin(plugin)
        for node in interests:
            client.plugin["xep_0030"].add_feature(f"{node}+notify")
        path = f"{{{client.default_ns}}}message/{EVENT}event"
        client.register_handler(Callback("events", MatchXPath(path), self._on_event))

    def _on_event(self, stanza):
        assert stanza["type"] == "headline"
        for node in stanza.xml.find(f"{EVENT}event"):
            for what in node if len(node) else [node]:
                payload = tostring(what[0]) if len(what) else None
                tag = what.tag.split("}")[1]
                self.heard.put_nowait(
                    (str(stanza["from"]), node.get("node"), tag, what.get("id"), payload)
                )

    @property
    def bare(self):
        return self.actor.bare

    async def next(self):
        """The next notification."""
        return await asyncio.wait_for(self.heard.get(), WAIT)

    async def publish(self, node, payload, id=None, options=None):
        """Publishes XML; returns the answer."""
        return await self.ask(
            "set", "publish", {"node": node}, [("item", {"id": id} if id else {}, payload)], options
        )

    async def items(self, node, to=None, **attributes):
        """Ids and payloads of a node's items."""
        result = await self.ask("get", "items", {"node": node, **attributes}, to=to)
        ns = "{http://jabber.org/protocol/pubsub}"
        found = result.xml.iterfind(f"{ns}pubsub/{ns}items/{ns}item")
        return [(item.get("id"), tostring(item[0])) for item in found]

    async def ask(self, kind, name, attributes, items=(), options=None, to=None, owner=False):
        """A request to the own account or another one."""
        ns = "http://jabber.org/protocol/pubsub" + ("#owner" if owner else "")
        iq = self.client.make_iq(itype=kind, ito=to)
        iq["type"] = kind
        pubsub = ET.SubElement(iq.xml, f"{{{ns}}}pubsub")
        asked = ET.SubElement(pubsub, f"{{{ns}}}{name}", attributes)
        for tag, of, payload in items:
            item = ET.SubElement(asked, f"{{{ns}}}{tag}", of)
            if payload:
                item.append(ET.fromstring(payload))
        if options:
            form = Form()
            form["type"] = "submit"
            form.add_field(var="FORM_TYPE", ftype="hidden",
                           value="http://jabber.org/protocol/pubsub#publish-options")
            for var, value in options.items():
                form.add_field(var=f"pubsub#{var}", value=value)
            ET.SubElement(pubsub, f"{{{ns}}}publish-options").append(form.xml)
        return await self.actor._iq(iq.send())

    async def settle(self):
        """Whatever was sent before has come: notifications and answers of one
        account keep their order."""
        await self.actor.ping()


async def eventing(world, kind, *interests, **options):
    """An available session that is interested in these nodes."""
    actor = world.make(kind, **options)
    session = Eventing(actor, interests)
    await actor.connect()
    await session.client.plugin["xep_0115"].update_caps(broadcast=False)
    await actor.online()
    return session


async def friends(world, kind, *interests):
    """Two who see each other, of whom the second is interested."""
    one, two = await eventing(world, kind), await eventing(world, kind, *interests)
    await befriend(one.actor, two.actor)
    await one.settle()
    await two.settle()
    return one, two


async def test_the_account_says_that_it_has_nodes(world, kind):
    """XEP-0163 6.1."""
    juliet = await eventing(world, kind)
    identities, features = await juliet.actor.disco_info(juliet.bare)
    assert ("pubsub", "pep") in identities and ("account", "registered") in identities
    needed = {"publish", "publish-options", "auto-create", "filtered-notifications", "persistent-items"}
    assert {f"http://jabber.org/protocol/pubsub#{name}" for name in needed} <= features


async def test_moods_and_tunes_come_to_who_wants_them(world, kind):
    """XEP-0107, XEP-0118: published by the plugins; contacts who are not
    interested, and clients that are not there, hear nothing."""
    juliet, romeo = await friends(world, kind, MOOD)
    for plugin in ("xep_0107", "xep_0118", "xep_0172"):
        juliet.client.register_plugin(plugin)
    await juliet.actor._iq(juliet.client.plugin["xep_0118"].publish_tune(artist="Gerald Finzi"))
    await juliet.actor._iq(juliet.client.plugin["xep_0107"].publish_mood("happy", "it is summer"))
    await juliet.actor._iq(juliet.client.plugin["xep_0172"].publish_nick("Jule"))
    sender, node, what, id, payload = await romeo.next()
    assert (sender, node, what, id) == (juliet.bare, MOOD, "item", "current")
    assert "<happy" in payload and "it is summer" in payload
    await romeo.settle()
    assert romeo.heard.empty()
    assert "Gerald Finzi" in (await romeo.items(TUNE, to=juliet.bare))[0][1]


async def test_an_avatar(world, kind):
    """XEP-0084: the data goes to nobody, the metadata to who wants it, and the
    data to who asks."""
    juliet, romeo = await friends(world, kind, METADATA)
    juliet.client.register_plugin("xep_0084")
    romeo.client.register_plugin("xep_0084")
    image = bytes(range(256)) * 200
    avatar = juliet.client.plugin["xep_0084"]
    await juliet.actor._iq(avatar.publish_avatar(image))
    id = hashlib.sha1(image).hexdigest()
    info = {"id": id, "type": "image/png", "bytes": len(image)}
    await juliet.actor._iq(avatar.publish_avatar_metadata(info))
    sender, node, what, item, payload = await romeo.next()
    assert (sender, node, what) == (juliet.bare, METADATA, "item") and id in payload
    result = await romeo.actor._iq(romeo.client.plugin["xep_0084"].retrieve_avatar(juliet.bare, id))
    assert result["pubsub"]["items"]["item"]["avatar_data"]["value"] == image
    # Who becomes available is shown the last item (XEP-0163 4.3.4).
    phone = await eventing(world, kind, METADATA, account=romeo.actor.account, resource="phone")
    assert (await phone.next())[:3] == (juliet.bare, METADATA, "item")


async def raw_session(world):
    """A session of a client of a few lines, and what the server offers it."""
    raw = await Raw(world).open()
    raw.send(plain(world.server.fresh()))
    await raw.until("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'")
    await raw.until(">")
    raw.send(HEADER)
    features = await raw.until("</stream:features>")
    raw.send(BIND)
    await raw.until("</iq>")
    return raw, features


async def test_the_server_is_what_it_announces(world, kind):
    """XEP-0115 5.1, 6.2, 6.3: the announced hash is that of what is discovered at the announced node."""
    if world.server.driver == "prosody":
        pytest.skip("its own affair")
    raw, features = await raw_session(world)
    raw.close()
    caps = re.search(r"<c xmlns='http://jabber.org/protocol/caps'[^>]*>", features)[0]
    node, ver = (re.search(f"{name}='([^']*)'", caps)[1] for name in ("node", "ver"))
    juliet = await eventing(world, kind)
    info = await juliet.actor._iq(juliet.client.plugin["xep_0030"].get_info(DOMAIN, f"{node}#{ver}"))
    assert info["disco_info"]["node"] == f"{node}#{ver}"
    assert juliet.client.plugin["xep_0115"].generate_verstring(info["disco_info"], "sha-1") == ver


async def test_a_silent_client_of_the_same_version(world, kind):
    """XEP-0115 6.2, XEP-0163 4.3.4: a client that never says what it can do does not hold up others of its
    version. By how many seconds it delays them is measured in the simulated world (`eventing.rs`)."""
    if world.server.driver == "prosody":
        pytest.skip("its own affair")
    juliet = await eventing(world, kind)
    await juliet.publish(MOOD, "<mood xmlns='http://jabber.org/protocol/mood'><happy/></mood>", "current")
    actor = world.make(kind, account=juliet.actor.account, resource="phone")
    # A version that no test before this one has shown to the server.
    phone = Eventing(actor, [MOOD, f"urn:of-this-test:{juliet.bare}"])
    await actor.connect()
    caps = phone.client.plugin["xep_0115"]
    await caps.update_caps(broadcast=False)
    ver = await caps.get_verstring(phone.client.boundjid)
    silent, _ = await raw_session(world)
    silent.send(
        f"<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:x' ver='{ver}'/></presence>"
    )
    await silent.until(f"urn:x#{ver}")
    await actor.online()
    assert (await phone.next())[:3] == (juliet.bare, MOOD, "item")
    silent.close()


async def test_bookmarks_are_private_and_reach_all_devices(world, kind):
    """XEP-0402, XEP-0223: many items in one node, which nobody else sees."""
    juliet, romeo = await friends(world, kind, BOOKMARKS)
    phone = await eventing(world, kind, BOOKMARKS, account=juliet.actor.account, resource="phone")
    await phone.settle()
    rooms = [f"room{n}@conference.{DOMAIN}" for n in range(5)]
    for room in rooms:
        bookmark = Conference()
        bookmark["name"] = room
        bookmark["autojoin"] = True
        await juliet.publish(BOOKMARKS, tostring(bookmark.xml), room, PRIVATE)
        sender, node, what, id, payload = await phone.next()
        assert (sender, node, what, id) == (juliet.bare, BOOKMARKS, "item", room)
        assert "autojoin" in payload
    assert [id for id, _ in await phone.items(BOOKMARKS)] == rooms
    await phone.ask("set", "retract", {"node": BOOKMARKS, "notify": "true"},
                    [("item", {"id": rooms[0]}, None)])
    assert (await phone.next())[2:4] == ("retract", rooms[0])
    assert [id for id, _ in await juliet.items(BOOKMARKS)] == rooms[1:]
    with pytest.raises(StanzaError):
        await romeo.items(BOOKMARKS, to=juliet.bare)
    await romeo.settle()
    assert romeo.heard.empty()


async def test_what_one_device_has_displayed_the_others_know(world, kind):
    """XEP-0490 3: one item for each chat, in a node that nobody else sees; a device that was away
    retrieves them."""
    juliet, romeo = await friends(world, kind, DISPLAYED)
    phone = await eventing(world, kind, DISPLAYED, account=juliet.actor.account, resource="phone")
    await phone.settle()
    for stanza_id, chat in ("17", romeo.bare), ("18", "room@conference.example"), ("19", romeo.bare):
        by = juliet.bare if chat == romeo.bare else chat
        payload = (
            f"<displayed xmlns='{DISPLAYED}'><stanza-id xmlns='urn:xmpp:sid:0' by='{by}' id='{stanza_id}'/></displayed>"
        )
        await juliet.publish(DISPLAYED, payload, chat, PRIVATE)
        sender, node, what, id, heard = await phone.next()
        assert (sender, node, what, id) == (juliet.bare, DISPLAYED, "item", chat)
        assert f'id="{stanza_id}"' in heard
    tablet = await eventing(world, kind, account=juliet.actor.account, resource="tablet")
    found = dict(await tablet.items(DISPLAYED))
    assert set(found) == {romeo.bare, "room@conference.example"}
    assert 'id="19"' in found[romeo.bare]
    await romeo.settle()
    assert romeo.heard.empty()
    with pytest.raises(StanzaError):
        await romeo.items(DISPLAYED, to=juliet.bare)
    # Without the shortcut of 4, which is optional: no client may use what is not advertised.
    _, features = await juliet.actor.disco_info(juliet.bare)
    assert "urn:xmpp:mds:server-assist:0" not in features


async def test_options_that_do_not_hold_are_refused(world, kind):
    """XEP-0060 7.1.5: bookmarks are not published where contacts would see them."""
    juliet = await eventing(world, kind)
    payload = f"<conference xmlns='{BOOKMARKS}'/>"
    await juliet.publish(BOOKMARKS, payload, "a@b", {**PRIVATE, "access_model": "open"})
    with pytest.raises(StanzaError, match="conflict"):
        await juliet.publish(BOOKMARKS, payload, "a@b", PRIVATE)


async def test_omemo_keys_are_there_for_anybody(world, kind):
    """XEP-0384 5.3: devices and bundles in open nodes, the list to contacts, and
    both to strangers who ask."""
    juliet, romeo = await friends(world, kind, DEVICES)
    stranger = await eventing(world, kind)
    options = {"access_model": "open"}
    devices = "<devices xmlns='urn:xmpp:omemo:2'><device id='12345'/></devices>"
    bundle = "<bundle xmlns='urn:xmpp:omemo:2'><spk id='0'>AAAA</spk></bundle>"
    await juliet.publish(DEVICES, devices, "current", options)
    for device in ("12345", "4223"):
        await juliet.publish(BUNDLES, bundle, device, {**options, "max_items": "max"})
    assert (await romeo.next())[:4] == (juliet.bare, DEVICES, "item", "current")
    assert "12345" in (await stranger.items(DEVICES, to=juliet.bare))[0][1]
    assert [id for id, _ in await stranger.items(BUNDLES, to=juliet.bare)] == ["12345", "4223"]
    with pytest.raises(StanzaError, match="service-unavailable"):
        await stranger.items("urn:xmpp:avatar:metadata", to=juliet.bare)


async def test_a_vcard_is_for_contacts(world, kind):
    """XEP-0292 3: by default those see it who see the presence."""
    juliet, romeo = await friends(world, kind, VCARD4)
    stranger = await eventing(world, kind)
    card = "<vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'><fn><text>Juliet</text></fn></vcard>"
    await juliet.publish(VCARD4, card, "current")
    assert (await romeo.next())[1] == VCARD4
    assert "Juliet" in (await romeo.items(VCARD4, to=juliet.bare))[0][1]
    with pytest.raises(StanzaError, match="service-unavailable"):
        await stranger.items(VCARD4, to=juliet.bare)


async def test_a_blocked_contact_hears_nothing(world, kind):
    """XEP-0163 4.3.3 with XEP-0191."""
    juliet, romeo = await friends(world, kind, NICK)
    await juliet.actor.block(romeo.bare)
    await juliet.publish(NICK, f"<nick xmlns='{NICK}'>Jule</nick>")
    await romeo.settle()
    with pytest.raises(StanzaError, match="service-unavailable"):
        await romeo.items(NICK, to=juliet.bare)
    assert romeo.heard.empty()
    await juliet.actor.unblock(romeo.bare)
    await juliet.publish(NICK, f"<nick xmlns='{NICK}'>Julia</nick>")
    assert "Julia" in (await romeo.next())[4]


async def test_items_survive_a_restart_of_the_client(world, kind):
    """XEP-0222: what is stored is there for the next session, in order."""
    juliet = await eventing(world, kind)
    for n in range(3):
        await juliet.publish("urn:throng:test", f"<note xmlns='urn:throng:test'>{n}</note>", str(n),
                             {"max_items": "2"})
    await juliet.actor.close()
    again = await eventing(world, kind, account=juliet.actor.account)
    assert [id for id, _ in await again.items("urn:throng:test")] == ["1", "2"]
    await again.ask("set", "delete", {"node": "urn:throng:test"}, owner=True)
    with pytest.raises(StanzaError, match="item-not-found"):
        await again.items("urn:throng:test")
