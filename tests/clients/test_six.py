"""Six clients of six projects in one room (XEP-0045): slixmpp, @xmpp/client, Converse.js in Chromium, profanity in tmux, Gajim and
Dino under Xvfb. Each has its own way in, and its own way to see what happens."""

import asyncio

import pytest

from events import Message, until
from test_restart import restart
from test_rooms import Guest, SERVICE

#: The browser has TLS in any case, and what is above it is the same for each mode.
pytestmark = pytest.mark.secure
PUBSUB = "http://jabber.org/protocol/pubsub"
BOOKMARKS = "urn:xmpp:bookmarks:1"
#: Seconds for six clients to start, or to be in the room again: some of them wait for a while before they connect again.
PATIENCE = 100.0


@pytest.fixture(autouse=True)
def once(server, tls):
    """In one mode."""
    if tls != "starttls":
        pytest.skip("over STARTTLS")
    if server.driver == "prosody":
        pytest.skip("the tests' Prosody has no bookmarks and no WebSocket")


async def bookmark(world, account, room, nick):
    """A bookmark with autojoin (XEP-0402 3), which another client of the account has made."""
    other = Guest(await world.online("slixmpp", account=account, resource="other"))
    options = {"pubsub#persist_items": "true", "pubsub#max_items": "max", "pubsub#access_model": "whitelist"}
    fields = "".join(f"<field var='{name}'><value>{value}</value></field>" for name, value in options.items())
    await other.ask(None, "set", f"""<pubsub xmlns='{PUBSUB}'>
        <publish node='{BOOKMARKS}'><item id='{room}'>
          <conference xmlns='{BOOKMARKS}' name='The balcony' autojoin='true'><nick>{nick}</nick></conference>
        </item></publish>
        <publish-options><x xmlns='jabber:x:data' type='submit'>
          <field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#publish-options</value></field>{fields}
        </x></publish-options></pubsub>""")
    await other.actor.close()


class Six:
    """The six in their room, by their names, which are their first nicks."""

    def __init__(self, world):
        self.world = world
        #: What has been said, with the nicks of the time.
        self.said = []
        #: Old nicks and what they have become.
        self.renamed = {}
        #: Who may show a line again: profanity that resumes sends again what was not acknowledged, its entering of the room too, and
        #: so gets the history of the room once more.
        self.repeating = set()

    async def enter(self):
        """One makes the room, two have a bookmark of it, one is invited, and two enter it by its address."""
        world = self.world
        self.owner = Guest(await world.online("slixmpp"))
        self.room = room = f"six-{self.owner.actor.account.name}@{SERVICE}"
        await self.owner.join(room, "slixmpp")
        await self.owner.configure(room, persistentroom=1)
        gajims, dinos = world.server.fresh(), world.server.fresh()
        await bookmark(world, gajims, room, "gajim")
        await bookmark(world, dinos, room, "dino")

        async def xmppjs():
            self.xmppjs = await world.online("xmppjs")
            self.xmppjs.enter_room(room, "xmppjs")

        async def converse():
            self.converse = await world.converse()
            await self.converse.enter(room, "converse")

        async def profanity():
            self.profanity = await world.terminal()
            await self.profanity.connect()
            self.owner.muc.invite(room, self.profanity.bare, reason="Come, gentle night")
            await self.profanity.see(f"Use '/join {room}' to accept the invitation")
            self.profanity.type(f"/join {room} nick profanity")
            await self.profanity.see("You have joined the room as profanity")

        async def gajim():
            self.gajim = await world.gajim(gajims)
            self.gajim.tell("watch", room=room)
            await self.gajim.wait("entered", room=room)

        async def dino():
            self.dino = await world.dino(dinos)

        # All have started, or have given up, before one of them fails the test.
        outcomes = await asyncio.gather(xmppjs(), converse(), profanity(), gajim(), dino(), return_exceptions=True)
        for error in filter(None, outcomes):
            raise error
        await self.present("slixmpp", "xmppjs", "converse", "profanity", "gajim", "dino")

    def nicks(self):
        """Who is in the room, as its owner's client knows."""
        return set(self.owner.muc.get_roster(self.room))

    async def present(self, *nicks):
        """These and no others are in the room."""
        await until(lambda: self.nicks() == set(nicks), f"room with {nicks} and no others", PATIENCE)

    async def lines(self):
        """What each shows of the room, in its order, of that which has been said in this test."""
        room = self.room
        shown = {
            "slixmpp": self.owner.said,
            "xmppjs": [(event.sender.partition("/")[2], event.body) for event in self.xmppjs.log.of(Message)
                       if event.type == "groupchat" and event.body],
            "converse": await self.converse.lines(room),
            "profanity": self.profanity.lines(),
            "gajim": self.gajim.lines(room),
            "dino": [(nick or "dino", body) for nick, body in self.dino.lines(room)],
        }
        return {name: list(lines) for name, lines in shown.items()}

    async def say(self, name, body, nick=None):
        """One says a line in its own way."""
        say = {
            "slixmpp": lambda: self.owner.say(self.room, body),
            "xmppjs": lambda: self.xmppjs.send_message(self.room, body, type="groupchat"),
            "converse": lambda: self.converse.say(self.room, body),
            "profanity": lambda: self.profanity.type(body),
            "gajim": lambda: self.gajim.tell("say", room=self.room, body=body),
            "dino": lambda: self.dino.say(self.room, body),
        }[name]
        done = say()
        if done is not None:
            await done
        self.said.append((nick or name, body))

    async def heard(self, but=()):
        """All have the same lines in the same order, once each, but for those who cannot have them."""
        # Converse.js shows older lines, too, under the nick that their author has now.
        now = [(self.renamed.get(nick, nick), body) for nick, body in self.said]

        def right(name, lines):
            lines = list(dict.fromkeys(lines)) if name in self.repeating else lines
            return lines == (now if name == "converse" else self.said)

        async def same():
            self.seen = await self.lines()
            return all(right(name, lines) for name, lines in self.seen.items() if name not in but)

        try:
            await until(same, "common order", PATIENCE)
        except AssertionError:
            raise AssertionError(f"said: {self.said}\nbut seen: " + "\n".join(map(str, self.seen.items()))) from None


    async def survive_a_kill(self):
        """The server is killed and started again, and all have their connections again, most by themselves. Two faults of the server
        (XEP-0198 5) are left out of this: after a kill, it does not count a line in a room as handled before it has acknowledged it, so
        that its author sends it again and all see it twice; and a line that is said after the start, and before the session of an
        occupant is resumed, may not come there."""
        # slixmpp asks for an acknowledgment after each fifth stanza only.
        management = self.owner.client.plugin["xep_0198"]
        management.request_ack()
        await until(lambda: not management.unacked_queue, "acknowledgment of all that slixmpp has sent")
        self.repeating.add("profanity")
        self.owner.actor.hold()
        self.xmppjs.hold()
        converse, dino = await self.converse.sessions(), self.dino.sessions()
        assert converse and dino
        await restart(self.world, kill=True)
        self.dino.network_changed()

        async def converse_is_back():
            return await self.converse.sessions() > converse

        assert await self.owner.actor.resume() is True
        assert await self.xmppjs.resume() is True
        await self.gajim.wait("disconnected")
        await until(self.gajim.connected, "connection of Gajim", PATIENCE)
        await self.profanity.see("Connection re-established", PATIENCE)
        await until(converse_is_back, "session of Converse.js", PATIENCE)
        await until(lambda: self.dino.sessions() > dino, "session of Dino", PATIENCE)


async def test_six_clients_in_one_room(world):
    """XEP-0045 7.2, 7.4, 7.6, 7.8.2, 8.2, with XEP-0402 and XEP-0198: enter, talk in one order, change a nick, be kicked, and stay
    over a restart."""
    six = Six(world)
    await six.enter()
    assert await six.converse.missing() == []
    for name in ("slixmpp", "xmppjs", "converse", "profanity", "gajim", "dino"):
        await six.say(name, f"good night from {name}")
        await six.heard()

    # 7.6: one changes its nick, and is heard under the new one.
    await six.converse.say(six.room, "/nick strophe")
    await six.present("slixmpp", "xmppjs", "strophe", "profanity", "gajim", "dino")
    await six.gajim.wait("renamed", room=six.room, old="converse", new="strophe")
    await six.profanity.see(r"\*\* converse is now known as strophe")
    six.renamed["converse"] = "strophe"
    await six.say("converse", "a rose by any other name", nick="strophe")
    await six.heard()

    # 8.2: the owner kicks it. It sees by whom, and nothing of what is said until it comes again.
    await six.owner.muc.set_role(six.room, "strophe", "none")
    await six.present("slixmpp", "xmppjs", "profanity", "gajim", "dino")

    async def kicked():
        text = await six.converse.text(six.room)
        return "You have been kicked" in text and "by slixmpp" in text

    await until(kicked, "notice of the kick on the page")
    await six.say("gajim", "what's in a name")
    await six.heard(but={"converse"})
    await six.converse.leave(six.room)
    await six.converse.enter(six.room)
    await six.present("slixmpp", "xmppjs", "strophe", "profanity", "gajim", "dino")
    await six.heard()

    await six.survive_a_kill()
    await six.say("slixmpp", "what light through yonder window breaks")
    await six.heard()
    for name in ("xmppjs", "converse", "profanity", "gajim", "dino"):
        await six.say(name, f"good morning from {name}", nick=six.renamed.get(name))
        await six.heard()
