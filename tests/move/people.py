"""Who moves, what they have, and how slixmpp sees whether they have it."""

import asyncio
from xml.etree import ElementTree as ET

import slixmpp
from slixmpp.exceptions import IqError

ROMEO, JULIET, NURSE, MERCUTIO = (
    "romeo@montague.example", "juliet@capulet.example", "nurse@capulet.example", "mercutio@montague.example",
)
PASSWORDS = {
    ROMEO: "Call me but love", JULIET: "wherefore art thou & <Romeo>", NURSE: "a thousand times good night",
    MERCUTIO: "a plague o' both",
}
BALL = "ball@conference.capulet.example"
BOOKMARKS, NICK = "urn:xmpp:bookmarks:1", "http://jabber.org/protocol/nick"
ONLINE = ["But soft, what light?", "It is the \u00bbeast\u00ab & <Juliet> is the sun", "Arise \U0001F31E"]
WAITING = ["Parting is such sweet sorrow", "Good night"]
WAIT = 15


class Person(slixmpp.ClientXMPP):
    """One client."""

    def __init__(self, jid, password=None):
        super().__init__(f"{jid}/globe", password or PASSWORDS[jid], plugin_config={
            "feature_mechanisms": {"unencrypted_plain": True, "unencrypted_scram": True},
        })
        self.enable_starttls = self.enable_direct_tls = False
        self.enable_plaintext = True
        self.auto_authorize = None
        self.auto_subscribe = False
        self.bodies, self.asked = [], set()
        for plugin in ("xep_0030", "xep_0049", "xep_0054", "xep_0059", "xep_0045", "xep_0060", "xep_0163", "xep_0191", "xep_0313"):
            self.register_plugin(plugin)
        self.add_event_handler("message", self._on_message)
        self.add_event_handler("presence_subscribe", lambda stanza: self.asked.add(stanza["from"].bare))

    def _on_message(self, stanza):
        if stanza["body"] and stanza["type"] == "chat":
            self.bodies.append((stanza["from"].bare, stanza["body"]))

    async def login(self, port, available=True):
        """Log in, and be available with the roster asked for."""
        ended = asyncio.get_running_loop().create_future()
        for event in ("session_start", "failed_all_auth", "connection_failed"):
            self.add_event_handler(event, lambda _, event=event: ended.done() or ended.set_result(event))
        self.connect("127.0.0.1", port)
        outcome = await asyncio.wait_for(ended, WAIT)
        if outcome != "session_start":
            raise AssertionError(f"{self.boundjid.bare} cannot log in: {outcome}")
        await self.get_roster()
        if available:
            self.send_presence()
            await self.plugin["xep_0030"].get_info(jid=self.boundjid.domain)
        return self

    async def logout(self):
        """End the stream in order."""
        await self.disconnect(wait=2.0)

    async def flushed(self):
        """All that was sent before is handled."""
        await self.plugin["xep_0030"].get_info(jid=self.boundjid.domain)

    def tell(self, to, body):
        """Send a chat message."""
        self.send_message(mto=to, mbody=body, mtype="chat")


async def until(what, seconds=WAIT):
    """Wait until something is so."""
    end = asyncio.get_running_loop().time() + seconds
    while not what():
        assert asyncio.get_running_loop().time() < end, "it has not come"
        await asyncio.sleep(0.05)


def element(text):
    return ET.fromstring(text)


def form(kind, fields):
    """A form as an element."""
    x = ET.Element("{jabber:x:data}x", type="submit")
    for var, value in {"FORM_TYPE": f"http://jabber.org/protocol/pubsub#{kind}", **fields}.items():
        field = ET.SubElement(x, "{jabber:x:data}field", var=var)
        ET.SubElement(field, "{jabber:x:data}value").text = value
    return x


async def publish(person, node, id, payload, options):
    """Publish an item with options."""
    iq = person.make_iq_set()
    pubsub = ET.Element("{http://jabber.org/protocol/pubsub}pubsub")
    item = ET.SubElement(ET.SubElement(pubsub, "{http://jabber.org/protocol/pubsub}publish", node=node),
                         "{http://jabber.org/protocol/pubsub}item", id=id)
    item.append(element(payload))
    ET.SubElement(pubsub, "{http://jabber.org/protocol/pubsub}publish-options").append(form("publish-options", options))
    iq.append(pubsub)
    await iq.send(timeout=WAIT)


async def nodes(juliet, limits=True):
    """Publish to an open node, and to a private one. ejabberd takes no limit of items with a publication."""
    await publish(juliet, NICK, "current", "<nick xmlns='http://jabber.org/protocol/nick'>Jule</nick>",
                  {"pubsub#access_model": "open"})
    for room in ("ball@rooms.example", "crypt@rooms.example"):
        await publish(juliet, BOOKMARKS, room,
                      f"<conference xmlns='{BOOKMARKS}' name='{room[:4]}' autojoin='true'><nick>J</nick></conference>",
                      {"pubsub#access_model": "whitelist", "pubsub#persist_items": "true",
                       **({"pubsub#max_items": "20"} if limits else {})})


async def room(juliet):
    """A room for members, with a subject, a ban and a word of somebody."""
    muc = juliet.plugin["xep_0045"]
    await muc.join_muc_wait(BALL, "Jule", timeout=WAIT)
    fields = {"roomname": "The ball & more", "roomdesc": "Masks", "persistentroom": "1", "membersonly": "1", "publicroom": "0",
              "changesubject": "1", "passwordprotectedroom": "1", "roomsecret": "rose <water>", "whois": "anyone"}
    iq = juliet.make_iq_set(ito=BALL)
    x = ET.Element("{jabber:x:data}x", type="submit")
    for var, value in {"FORM_TYPE": "http://jabber.org/protocol/muc#roomconfig",
                       **{f"muc#roomconfig_{name}": value for name, value in fields.items()}}.items():
        field = ET.SubElement(x, "{jabber:x:data}field", var=var)
        ET.SubElement(field, "{jabber:x:data}value").text = value
    query = ET.Element("{http://jabber.org/protocol/muc#owner}query")
    query.append(x)
    iq.append(query)
    await iq.send(timeout=WAIT)
    for jid, affiliation in ((ROMEO, "member"), (NURSE, "admin"), ("paris@elsewhere.example", "outcast")):
        await muc.set_affiliation(BALL, affiliation, jid=jid, reason=f"as {affiliation}")
    muc.set_subject(BALL, "A feast & a <mask>")
    juliet.send_message(mto=BALL, mbody="Good pilgrim", mtype="groupchat")
    await juliet.flushed()
    await asyncio.sleep(0.5)


async def live(port, keeps):
    """All of them live: what they do leaves behind what moves. Only a server that writes nodes is given some."""
    romeo, juliet = await Person(ROMEO).login(port), await Person(JULIET).login(port)
    # Each other's presence, with names and groups.
    for one, other, name, groups in ((romeo, JULIET, "Juliet & her balcony", ["Love", "Verona"]),
                                     (juliet, ROMEO, "R\u00f3meo", ["Montagues"])):
        one.send_presence_subscription(pto=other)
        await one.update_roster(other, name=name, groups=groups)
    for one, other in ((romeo, JULIET), (juliet, ROMEO)):
        await until(lambda one=one, other=other: other in one.asked)
        one.send_presence_subscription(pto=other, ptype="subscribed")
    for one, other in ((romeo, JULIET), (juliet, ROMEO)):
        await until(lambda one=one, other=other: one.client_roster[other]["subscription"] == "both")
    # A request that nobody answers, and nobody's contact.
    mercutio = await Person(MERCUTIO).login(port)
    mercutio.send_presence_subscription(pto=JULIET)
    await until(lambda: MERCUTIO in juliet.asked)
    await mercutio.update_roster("tybalt@elsewhere.example", name="King of Cats", groups=["Foes"])
    await mercutio.logout()
    # What clients keep for themselves.
    iq = juliet.make_iq_set()
    query = ET.Element("{jabber:iq:private}query")
    query.append(element("<balcony xmlns='urn:example:house'><door open='yes'>left &amp; right</door></balcony>"))
    iq.append(query)
    await iq.send(timeout=WAIT)
    iq = juliet.make_iq_set()
    iq.append(element("<vCard xmlns='vcard-temp'><FN>Juliet Capulet</FN><NICKNAME>Jule</NICKNAME></vCard>"))
    await iq.send(timeout=WAIT)
    try:
        await juliet.plugin["xep_0191"].block(jids=["paris@elsewhere.example"])
    except IqError as error:
        raise AssertionError(f"nothing can be blocked: {error.condition}") from None
    # Nodes: one that all may see, and one that is private.
    if "nodes" in keeps:
        await nodes(juliet, limits="request" not in keeps)
    await room(juliet)
    # Messages: some that she has seen, and some that wait for her.
    for body in ONLINE:
        romeo.tell(JULIET, body)
    await until(lambda: len(juliet.bodies) == len(ONLINE))
    juliet.tell(ROMEO, "Ay me")
    await until(lambda: len(romeo.bodies) == 1)
    await juliet.logout()
    await asyncio.sleep(0.5)
    for body in WAITING:
        romeo.tell(JULIET, body)
    await romeo.flushed()
    await asyncio.sleep(1)
    await romeo.logout()
    nurse = await Person(NURSE).login(port)
    await nurse.logout()
    await asyncio.sleep(0.5)


async def private_of(person):
    iq = person.make_iq_get()
    query = ET.Element("{jabber:iq:private}query")
    ET.SubElement(query, "{urn:example:house}balcony")
    iq.append(query)
    answer = await iq.send(timeout=WAIT)
    return answer.xml.find(".//{urn:example:house}door")


async def items_of(person, owner, node):
    iq = person.make_iq_get(ito=owner)
    pubsub = ET.Element("{http://jabber.org/protocol/pubsub}pubsub")
    ET.SubElement(pubsub, "{http://jabber.org/protocol/pubsub}items", node=node)
    iq.append(pubsub)
    answer = await iq.send(timeout=WAIT)
    return answer.xml.findall(".//{http://jabber.org/protocol/pubsub}item")


async def archived(person, peer):
    """Bodies of the archive with a peer."""
    found = await person.plugin["xep_0313"].retrieve(with_jid=slixmpp.JID(peer), rsm={"max": 50})
    return [result["mam_result"]["forwarded"]["stanza"]["body"] for result in found["mam"]["results"]]


async def look(port, keeps, drops=frozenset()):
    """Everybody looks whether all is there that both servers keep, but for what is dropped on the way; what was looked at."""
    seen = []

    def check(name, fact, told=""):
        assert fact, f"{name}: {told}"
        if name not in seen:
            seen.append(name)

    # Once: each mechanism that is tried counts as a failed login.
    try:
        await Person(NURSE, "another password").login(port, available=False)
    except AssertionError:
        pass
    else:
        raise AssertionError("another password is as good")
    juliet = await Person(JULIET).login(port)
    check("login", True)
    contact = juliet.client_roster[ROMEO]
    check("roster", contact["subscription"] == "both" and contact["name"] == "R\u00f3meo", contact)
    check("roster", contact["groups"] == ["Montagues"], contact["groups"])
    if "request" in keeps:
        await until(lambda: MERCUTIO in juliet.asked)
        check("request", MERCUTIO in juliet.asked)
    if "waiting" in keeps:
        await until(lambda: len(juliet.bodies) >= len(WAITING))
        await juliet.flushed()
        check("waiting", juliet.bodies == [(ROMEO, body) for body in WAITING], juliet.bodies)
    door = await private_of(juliet) if "private" in keeps else None
    if "private" in keeps:
        check("private", door is not None and door.text == "left & right" and door.get("open") == "yes", door)
    if "blocked" in keeps:
        answer = await juliet.plugin["xep_0191"].get_blocked()
        blocked = {item.get("jid") for item in answer.xml.findall(".//{urn:xmpp:blocking}item")}
        check("blocked", blocked == {"paris@elsewhere.example"}, blocked)
    if "archive" in keeps:
        bodies = await archived(juliet, ROMEO)
        check("archive", bodies == [*ONLINE, "Ay me", *WAITING], bodies)
    romeo = await Person(ROMEO).login(port)
    contact = romeo.client_roster[JULIET]
    check("roster", contact["subscription"] == "both" and contact["name"] == "Juliet & her balcony", contact)
    check("roster", sorted(contact["groups"]) == ["Love", "Verona"], contact["groups"])
    if "waiting" in keeps:
        romeo_bodies = [body for _, body in romeo.bodies]
        check("waiting", romeo_bodies == [], romeo_bodies)
    if "card" in keeps:
        card = await romeo.plugin["xep_0054"].get_vcard(jid=slixmpp.JID(JULIET), cached=False)
        check("card", card["vcard_temp"]["FN"] == "Juliet Capulet", card)
    if "nodes" in keeps:
        nick = [item[0].text for item in await items_of(romeo, JULIET, NICK)]
        check("nodes", nick == ["Jule"], nick)
    if "private node" in keeps:
        rooms = sorted(item.get("id") for item in await items_of(juliet, JULIET, BOOKMARKS))
        check("private node", rooms == ["ball@rooms.example", "crypt@rooms.example"], rooms)
        try:
            shown = await items_of(romeo, JULIET, BOOKMARKS)
        except IqError:
            shown = None
        check("private node", not shown, "a private node is shown to a contact")
    if "archive" in keeps:
        bodies = await archived(romeo, JULIET)
        check("archive", bodies == [*ONLINE, "Ay me", *WAITING], bodies)
    # They still hear of each other.
    juliet.tell(ROMEO, "here")
    await until(lambda: (JULIET, "here") in romeo.bodies)
    mercutio = await Person(MERCUTIO).login(port)
    contact = mercutio.client_roster["tybalt@elsewhere.example"]
    check("roster", contact["name"] == "King of Cats" and contact["groups"] == ["Foes"], contact)
    if "asked" in keeps:
        asked = mercutio.client_roster[JULIET]
        if "asked" in drops:
            # Or else docs/moving.md has to say something else.
            assert not asked["pending_out"], "what was dropped is there"
        else:
            check("asked", asked["pending_out"], asked)
    nurse = await Person(NURSE).login(port)
    for person in (juliet, romeo, mercutio, nurse):
        await person.logout()
    return seen
