"""Rooms (XEP-0045) by slixmpp's own plugin. With three shards the room and its
occupants live on different threads."""

import asyncio

import pytest
from slixmpp.exceptions import IqError, PresenceError
from slixmpp.xmlstream import ET

from events import WAIT
from servers import DOMAIN
from test_restart import STORED, restart

pytestmark = pytest.mark.needs("pep")  # slixmpp

SERVICE = f"conference.{DOMAIN}"
USER = "{http://jabber.org/protocol/muc#user}"
OWNER = "http://jabber.org/protocol/muc#owner"


class Guest:
    """A session with slixmpp's plugin, and what rooms have sent to it."""

    def __init__(self, actor):
        self.actor = actor
        self.client = client = actor.client
        for plugin in ("xep_0045", "xep_0059", "xep_0313"):
            client.register_plugin(plugin)
        self.muc = client.plugin["xep_0045"]
        #: Bodies with their senders' nicks, in their order.
        self.said = []
        self.gone = []
        self.changed = asyncio.Event()
        client.add_event_handler("groupchat_message", self._on_message)
        client.add_event_handler("groupchat_presence", self._on_presence)

    def _on_message(self, msg):
        if msg["body"]:
            self.said.append((msg["from"].resource, msg["body"]))
            self.changed.set()

    def _on_presence(self, presence):
        if presence["type"] == "unavailable":
            statuses = {int(s.get("code")) for s in presence.xml.iter(f"{USER}status")}
            self.gone.append((presence["from"].resource, statuses))
            self.changed.set()

    async def until(self, holds):
        """Wait until something holds of what was heard."""

        async def wait():
            while not holds():
                self.changed.clear()
                await self.changed.wait()

        await asyncio.wait_for(wait(), WAIT)

    async def join(self, room, nick, **options):
        options.setdefault("maxstanzas", 0)
        return await self.muc.join_muc_wait(room, nick, timeout=WAIT, **options)

    async def ask(self, room, kind, payload):
        iq = self.client.make_iq(ito=room, itype=kind)
        iq.append(ET.fromstring(payload))
        return await iq.send(timeout=WAIT)

    async def configure(self, room, **fields):
        """An instant room, or one with these fields of the configuration."""
        inside = "".join(
            f"<field var='muc#roomconfig_{var}'><value>{value}</value></field>" for var, value in fields.items()
        )
        await self.ask(
            room, "set", f"<query xmlns='{OWNER}'><x xmlns='jabber:x:data' type='submit'>{inside}</x></query>"
        )

    def say(self, room, body):
        self.client.send_message(mto=room, mbody=body, mtype="groupchat")

    @property
    def jid(self):
        return self.actor.jid


async def guest(world, kind):
    one = Guest(world.make(kind))
    await one.actor.connect()
    await one.actor.online()
    return one


def room_of(one, name="cave"):
    """A room that no other test has."""
    return f"{name}-{one.actor.bare.split('@')[0]}@{SERVICE}"


async def test_three_talk_in_one_order(world, kind):
    """XEP-0045 7.4: each occupant gets each message once, in the same order."""
    romeo, juliet, nurse = [await guest(world, kind) for _ in range(3)]
    room = room_of(romeo)
    await romeo.join(room, "romeo")
    await romeo.configure(room)
    await juliet.join(room, "juliet")
    await nurse.join(room, "nurse")
    everybody = {"romeo": romeo, "juliet": juliet, "nurse": nurse}
    for n in range(20):
        for one in everybody.values():
            one.say(room, str(n))
    for one in everybody.values():
        await one.until(lambda one=one: len(one.said) == 60)
    assert romeo.said == juliet.said == nurse.said
    for nick in everybody:
        assert [body for by, body in romeo.said if by == nick] == [str(n) for n in range(20)]


async def test_a_newcomer_reads_what_was_said(world, kind):
    """XEP-0045 7.2.14 and XEP-0313: the history, and the archive of the room."""
    romeo, juliet = await guest(world, kind), await guest(world, kind)
    room = room_of(romeo)
    await romeo.join(room, "romeo")
    await romeo.configure(room)
    for n in range(30):
        romeo.say(room, str(n))
    await romeo.until(lambda: len(romeo.said) == 30)
    await juliet.join(room, "juliet", maxstanzas=5)
    await juliet.until(lambda: len(juliet.said) == 5)
    assert [body for _, body in juliet.said] == ["25", "26", "27", "28", "29"]
    found = []
    async for result in juliet.client.plugin["xep_0313"].iterate(jid=room):
        found.append(result["mam_result"]["forwarded"]["stanza"]["body"])
    assert found == [str(n) for n in range(30)]


async def test_who_may_not_enter(world, kind):
    """XEP-0045 7.2.5, 7.2.6, 7.2.7, 7.2.8: each obstacle has its error."""
    romeo, juliet = await guest(world, kind), await guest(world, kind)
    room = room_of(romeo)

    async def refused(condition, **options):
        with pytest.raises(PresenceError) as error:
            await juliet.join(room, options.pop("nick", "juliet"), **options)
        assert error.value.condition == condition

    await romeo.join(room, "romeo")
    await romeo.configure(room, passwordprotectedroom=1, roomsecret="cauldron")
    await refused("not-authorized")
    await refused("conflict", nick="romeo", password="cauldron")
    await juliet.join(room, "juliet", password="cauldron")
    await romeo.configure(room, passwordprotectedroom=0, membersonly=1)
    # XEP-0045 10.2: the change removes who is no member.
    await juliet.until(lambda: juliet.gone and 322 in juliet.gone[-1][1])
    await refused("registration-required")
    await romeo.muc.set_affiliation(room, "member", jid=juliet.actor.bare)
    await juliet.join(room, "juliet")
    await romeo.muc.set_affiliation(room, "outcast", jid=juliet.actor.bare)
    await juliet.until(lambda: 301 in juliet.gone[-1][1])
    await refused("forbidden")
    with pytest.raises(IqError) as error:
        await juliet.ask(room, "get", f"<query xmlns='{OWNER}'/>")
    assert error.value.condition == "forbidden"


async def test_the_directory_lists_public_rooms(world, kind):
    """XEP-0045 6.3: with names; not those that are hidden, or no more."""
    romeo = await guest(world, kind)
    shown, hidden = room_of(romeo, "shown"), room_of(romeo, "hidden")
    await romeo.join(shown, "romeo")
    await romeo.configure(shown, roomname="The shown one")
    await romeo.join(hidden, "romeo")
    await romeo.configure(hidden, publicroom=0)

    async def listed():
        items = await romeo.client.plugin["xep_0030"].get_items(jid=SERVICE, timeout=WAIT)
        return {jid: name for jid, _, name in items["disco_items"]["items"]}

    rooms = await listed()
    assert rooms[shown] == "The shown one" and hidden not in rooms
    await romeo.ask(shown, "set", f"<query xmlns='{OWNER}'><destroy/></query>")
    assert shown not in await listed()


@pytest.mark.needs("restart")
@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_occupants_stay_over_a_restart(world, kind, how):
    """Nobody is silently out: who resumes is still in the room, who does not is
    announced as gone (XEP-0045 7.14, XEP-0198 5)."""
    romeo, juliet, nurse = [await guest(world, kind) for _ in range(3)]
    room = room_of(romeo)
    await romeo.join(room, "romeo")
    await romeo.configure(room, persistentroom=1)
    await juliet.join(room, "juliet")
    await nurse.join(room, "nurse")
    romeo.say(room, "before")
    for one in (romeo, juliet, nurse):
        await one.until(lambda one=one: one.said == [("romeo", "before")])
    await asyncio.sleep(STORED)
    for one in (romeo, juliet, nurse):
        one.actor.hold()
    nurse.actor.drop()
    await restart(world, kill=how == "killed")
    assert await romeo.actor.resume() is True
    assert await juliet.actor.resume() is True
    romeo.say(room, "after")
    for one in (romeo, juliet):
        await one.until(lambda one=one: one.said[-1] == ("romeo", "after"))
    reply = await juliet.ask(room + "/juliet", "get", "<ping xmlns='urn:xmpp:ping'/>")
    assert reply["type"] == "result"
