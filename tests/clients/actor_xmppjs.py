"""`@xmpp/client` (npm) as an actor: `agent.mjs` runs it, one node process a
server, commands and events as lines of JSON."""

import asyncio
import base64
import itertools
import json
import os
from pathlib import Path

from actor import Actor
from events import ABOUT, Archived, BlockPush, Call, Copy, WAIT, LoginFailed, Message, Presence, RosterItem, StanzaError
from servers import DOMAIN

HERE = Path(__file__).parent
BLOCKING = "urn:xmpp:blocking"
EXTDISCO = "urn:xmpp:extdisco:2"
INFO = "http://jabber.org/protocol/disco#info"
UPLOAD = "urn:xmpp:http:upload:0"
CARBONS = "urn:xmpp:carbons:2"
CSI = "urn:xmpp:csi:0"
FORWARD = "urn:xmpp:forward:0"
JINGLE = "urn:xmpp:jingle:1"
MAM = "urn:xmpp:mam:2"
RSM = "http://jabber.org/protocol/rsm"
STATES = "http://jabber.org/protocol/chatstates"


class Agent:
    """A node process that takes commands."""

    def __init__(self, script="agent.mjs"):
        self.script = script
        self.process = None
        self._answers = {}
        self._ids = itertools.count(1)
        self._sessions = {}
        self._reader = None
        self.problem = None

    async def start(self, cafile):
        """Run node with the server's certificate as its only extra root."""
        self.process = await asyncio.create_subprocess_exec(
            # Before Node 22 its WebSocket has to be asked for.
            "node", "--experimental-websocket", str(HERE / self.script), cwd=HERE,
            env={**os.environ, "NODE_EXTRA_CA_CERTS": str(cafile)},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            limit=1 << 22,
        )
        self._reader = asyncio.ensure_future(self._read())
        return self

    async def _read(self):
        while line := await self.process.stdout.readline():
            report = json.loads(line)
            if "id" in report:
                answer = self._answers.pop(report["id"], None)
                if answer is not None and not answer.done():
                    answer.set_result(report)
            elif report.get("session") in self._sessions:
                self._sessions[report["session"]].on_report(report)

    def listen(self, actor):
        """A number for a new session of this actor."""
        number = next(self._ids)
        self._sessions[number] = actor
        return number

    def order(self, do, **arguments):
        """Send a command; the result is a future of its answer."""
        number = next(self._ids)
        self._answers[number] = answer = asyncio.get_running_loop().create_future()
        line = json.dumps({"id": number, "do": do, **arguments})
        self.process.stdin.write(line.encode() + b"\n")
        return answer

    async def close(self):
        """End the process by closing its input."""
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except asyncio.TimeoutError:
            self.process.kill()
            await self.process.wait()
        await self._reader


def child(tree, name, xmlns=None):
    """The first child element by name, and by namespace if one is given."""
    for node in tree[2:]:
        if isinstance(node, list) and node[0] == name:
            if xmlns is None or node[1].get("xmlns") == xmlns:
                return node
    return None


def text(tree):
    """The text in an element, or None."""
    if tree is None:
        return None
    return "".join(node for node in tree[2:] if isinstance(node, str)) or None


def about(tree):
    """What a message says about another one."""
    found = ((name, child(tree, name, namespace)) for name, namespace in ABOUT.items())
    return next(((name, element[1].get("id")) for name, element in found if element), None)


def roster_items(tree):
    """The items of an IQ with a roster query."""
    query = child(tree, "query", "jabber:iq:roster")
    for item in query[2:] if query else ():
        attributes = item[1]
        yield RosterItem(
            attributes["jid"], attributes.get("subscription", "none"),
            attributes.get("ask") == "subscribe", attributes.get("name"),
            frozenset(text(g) for g in item[2:] if g[0] == "group"),
        )


class XmppjsActor(Actor):
    """One session of `@xmpp/client`."""

    kind = "xmppjs"
    capabilities = frozenset(
        {"resume", "resend", "restart", "private", "time", "last", "removal", "carbons", "csi", "blocking",
         "services", "sasl2", "archive", "upload", "websocket"}
    )

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._agent = None
        self._session = None
        self._writing = set()
        #: Results of archive queries by their queryid.
        self._results = {}

    def on_report(self, report):
        """One event of the session."""
        if "stanza" not in report:
            return
        tree = report["stanza"]
        name, attributes = tree[0], tree[1]
        sender = attributes.get("from", self.bare)
        result = child(tree, "result", MAM) if name == "message" else None
        if result and sender == self.bare and result[1].get("queryid") in self._results:
            self._results[result[1]["queryid"]].append(self._archived(result))
        elif name == "message":
            copy = child(tree, "sent", CARBONS) or child(tree, "received", CARBONS)
            # The client has to look at who sends a copy (XEP-0280 11).
            genuine = copy is not None and sender == self.bare
            self.log.add(self._copy(tree, copy) if genuine else self._message(tree))
        elif name == "presence":
            self.log.add(
                Presence(
                    sender, attributes.get("type", "available"), text(child(tree, "show")),
                    text(child(tree, "status")), int(text(child(tree, "priority")) or 0),
                )
            )
        elif name == "iq" and attributes.get("type") == "set":
            for item in roster_items(tree):
                self.log.add(item)
            for verb in ("block", "unblock"):
                if list := child(tree, verb, BLOCKING):
                    self.log.add(BlockPush(verb, frozenset(item[1]["jid"] for item in list[2:])))
            if jingle := child(tree, "jingle", JINGLE):
                transport = child(child(jingle, "content"), "transport")
                fingerprint = text(child(transport, "fingerprint", "urn:xmpp:jingle:apps:dtls:0"))
                self.log.add(Call(sender, jingle[1]["action"], jingle[1]["sid"], fingerprint))

    def _message(self, tree):
        attributes = tree[1]
        delay = child(tree, "delay", "urn:xmpp:delay")
        state = next((n[0] for n in tree[2:] if n[0] != "body" and n[1].get("xmlns") == STATES), None)
        error = child(tree, "error")
        blocked = error and child(error, "blocked", "urn:xmpp:blocking:errors")
        return Message(
            attributes.get("from", self.bare), attributes.get("type", "normal"),
            text(child(tree, "body")), attributes.get("id"), delay[1]["stamp"] if delay else None,
            self._condition(tree), state, blocked[0] if blocked else None, about(tree),
        )

    def _copy(self, tree, copy):
        assert tree[1]["to"] == self.jid
        forwarded = child(copy, "forwarded", FORWARD)
        original = child(forwarded, "message", "jabber:client")
        delay = child(forwarded, "delay", "urn:xmpp:delay")
        return Copy(copy[0], tree[1].get("type", "normal"), original[1]["to"],
                    self._message(original), delay[1]["stamp"] if delay else None)

    @staticmethod
    def _condition(tree):
        error = child(tree, "error")
        if error is None:
            return None
        return next(
            (c[0] for c in error[2:] if isinstance(c, list) and c[0] != "text"
             and c[1].get("xmlns") == "urn:ietf:params:xml:ns:xmpp-stanzas"), "?"
        )

    async def _order(self, do, **arguments):
        answer = await asyncio.wait_for(
            self._agent.order(do, session=self._session, **arguments), WAIT
        )
        if "failed" not in answer:
            return answer["value"]
        if answer["name"] == "StanzaError":
            raise StanzaError(answer["condition"], answer["type"])
        if answer["name"] == "SASLError":
            raise LoginFailed(answer["condition"])
        raise AssertionError(f"{do}: {answer['failed']}")

    async def connect(self, mechanism=None, register=False, sasl2=False):
        assert not register, "the client has no in-band registration"
        if self.kind not in self.server.agents:
            self.server.agents[self.kind] = await Agent().start(self.server.cafile)
        self._agent = self.server.agents[self.kind]
        self._session = self._agent.listen(self)
        services = {"direct": f"xmpps://{DOMAIN}:{self.port}", "ws": f"ws://127.0.0.1:{self.port}/xmpp-websocket",
                    "wss": f"wss://{DOMAIN}:{self.port}/xmpp-websocket"}
        answer = await self._order(
            "login", service=services.get(self.tls, f"xmpp://127.0.0.1:{self.port}"), domain=DOMAIN,
            username=self.account.name, password=self.account.password,
            resource=self.resource, mechanism=mechanism, starttls=self.tls == "starttls",
            sasl2=sasl2,
        )
        self._offers_states = answer["states"]
        assert answer["secure"] == (self.tls != "plain"), "the stream is not in the mode asked for"
        self.managed = answer["managed"]
        self.jid = answer["jid"]

    async def close(self):
        if self._session is not None:
            session, self._session = self._session, None
            await asyncio.wait_for(self._agent.order("close", session=session), WAIT)

    def drop(self):
        self._agent.order("drop", session=self._session)

    async def resume(self):
        return await self._order("resume")

    async def shown(self):
        """The mechanism that it has logged in by."""
        return await self._order("shown")

    def _send(self, *tree):
        answer = self._agent.order("send", session=self._session, tree=tree)
        self._writing.add(answer)
        answer.add_done_callback(self._writing.discard)

    async def flush(self):
        if self._writing:
            await asyncio.wait(self._writing, timeout=WAIT)

    def send_message(self, to, body, type="chat", id=None):
        attributes = {"to": to, "type": type} | ({"id": id} if id else {})
        self._send("message", attributes, ["body", {}, body])

    def send_private(self, to, body):
        hints = ["private", {"xmlns": CARBONS}], ["no-copy", {"xmlns": "urn:xmpp:hints"}]
        self._send("message", {"to": to, "type": "chat"}, ["body", {}, body], *hints)

    def send_state(self, to, state="composing"):
        self._send("message", {"to": to, "type": "chat"}, [state, {"xmlns": STATES}])

    def send_about(self, to, name, id, body=None):
        reaction = [["reaction", {}, "\N{HEAVY BLACK HEART}"]] if name == "reactions" else []
        children = [["body", {}, body]] if body else []
        children.append([name, {"xmlns": ABOUT[name], "id": id} | ({"to": to} if name == "reply" else {}), *reaction])
        self._send("message", {"to": to} | ({"type": "chat"} if body else {}), *children)

    async def call(self, to, sid, fingerprint):
        prints = ["fingerprint", {"xmlns": "urn:xmpp:jingle:apps:dtls:0", "hash": "sha-256"}, fingerprint]
        transport = ["transport", {"xmlns": "urn:xmpp:jingle:transports:ice-udp:1", "ufrag": "8hhy"}, prints]
        description = ["description", {"xmlns": "urn:xmpp:jingle:apps:rtp:1", "media": "audio"}]
        content = ["content", {"creator": "initiator", "name": "voice"}, description, transport]
        await self._iq("set", to, "jingle", {"xmlns": JINGLE, "action": "session-initiate", "sid": sid}, content)

    def send_forged_copy(self, to, pretended_from, body):
        attributes = {"xmlns": "jabber:client", "from": pretended_from, "to": to, "type": "chat"}
        forwarded = ["forwarded", {"xmlns": FORWARD}, ["message", attributes, ["body", {}, body]]]
        self._send("message", {"to": to, "type": "chat"}, ["received", {"xmlns": CARBONS}, forwarded])

    def send_presence(self, to=None, type=None, show=None, status=None, priority=None):
        attributes = ({"to": to} if to else {}) | ({"type": type} if type else {})
        children = {"show": show, "status": status, "priority": priority}
        self._send(
            "presence", attributes,
            *([name, {}, str(value)] for name, value in children.items() if value is not None),
        )

    def enter_room(self, room, nick):
        """Enter a room without its history (XEP-0045 7.2)."""
        history = ["history", {"maxstanzas": "0"}]
        self._send("presence", {"to": f"{room}/{nick}"}, ["x", {"xmlns": "http://jabber.org/protocol/muc"}, history])

    async def _iq(self, type, to, *payload):
        attributes = {"type": type} | ({"to": to} if to else {})
        return await self._order("iq", tree=["iq", attributes, list(payload)])

    async def roster(self):
        result = await self._iq("get", None, "query", {"xmlns": "jabber:iq:roster"})
        return {item.jid: item for item in roster_items(result)}

    async def roster_set(self, jid, name=None, groups=()):
        item = ["item", {"jid": jid} | ({"name": name} if name else {})]
        item += [["group", {}, group] for group in groups]
        await self._iq("set", None, "query", {"xmlns": "jabber:iq:roster"}, item)

    async def roster_remove(self, jid):
        item = ["item", {"jid": jid, "subscription": "remove"}]
        await self._iq("set", None, "query", {"xmlns": "jabber:iq:roster"}, item)

    async def ping(self, to=None):
        await self._iq("get", to or DOMAIN, "ping", {"xmlns": "urn:xmpp:ping"})

    async def change_password(self, password):
        username, word = ["username", {}, self.account.name], ["password", {}, password]
        await self._iq("set", None, "query", {"xmlns": "jabber:iq:register"}, username, word)

    async def remove_account(self):
        await self._iq("set", None, "query", {"xmlns": "jabber:iq:register"}, ["remove", {}])

    async def carbons(self, on=True, to=None):
        await self._iq("set", to, "enable" if on else "disable", {"xmlns": CARBONS})

    def client_state(self, active):
        assert self._offers_states, "the server did not offer client states"
        self._send("active" if active else "inactive", {"xmlns": CSI})

    async def blocklist(self):
        result = await self._iq("get", None, "blocklist", {"xmlns": BLOCKING})
        return {item[1]["jid"] for item in child(result, "blocklist", BLOCKING)[2:]}

    async def block(self, *jids):
        await self._blocking("block", jids)

    async def block_and_report(self, jid, reason, text, ids=()):
        stanzas = [["stanza-id", {"xmlns": "urn:xmpp:sid:0", "by": self.bare, "id": id}] for id in ids]
        report = ["report", {"xmlns": "urn:xmpp:reporting:1", "reason": reason}, ["text", {}, text], *stanzas]
        await self._iq("set", None, "block", {"xmlns": BLOCKING}, ["item", {"jid": jid}, report])

    async def unblock(self, *jids):
        await self._blocking("unblock", jids)

    async def _blocking(self, verb, jids):
        items = [["item", {"jid": jid}] for jid in jids]
        await self._iq("set", None, verb, {"xmlns": BLOCKING}, *items)

    async def archive(self, with_jid=None, max=None, before=None, after=None, to=None):
        number = f"q{next(self._queries)}"
        results = self._results[number] = []
        fields = {"FORM_TYPE": MAM} | ({"with": with_jid} if with_jid else {})
        form = ["x", {"xmlns": "jabber:x:data", "type": "submit"}]
        form += [["field", {"var": var}, ["value", {}, value]] for var, value in fields.items()]
        page = ["set", {"xmlns": RSM}]
        wanted = {"max": max, "before": before, "after": after}
        page += [[key, {}, str(value)] for key, value in wanted.items() if value is not None]
        query = {"xmlns": MAM, "queryid": number}
        answer = await self._iq("set", to, "query", query, form, page)
        return results, child(answer, "fin", MAM)[1].get("complete") == "true"

    _queries = itertools.count(1)

    @staticmethod
    def _archived(result):
        forwarded = child(result, "forwarded", FORWARD)
        original = child(forwarded, "message", "jabber:client")
        stamp = child(forwarded, "delay", "urn:xmpp:delay")[1]["stamp"]
        return Archived(result[1]["id"], stamp, original[1]["from"], original[1]["to"],
                        text(child(original, "body")), about(original))

    async def archive_ends(self):
        result = await self._iq("get", None, "metadata", {"xmlns": MAM})
        ends = [child(child(result, "metadata", MAM), name) for name in ("start", "end")]
        return None if ends[0] is None else tuple(end[1]["id"] for end in ends)

    async def archive_prefs(self, default, always=(), never=()):
        lists = [[name, {}, *(["jid", {}, jid] for jid in jids)]
                 for name, jids in (("always", always), ("never", never))]
        result = await self._iq("set", None, "prefs", {"xmlns": MAM, "default": default}, *lists)
        prefs = child(result, "prefs", MAM)
        jids = ({text(jid) for jid in child(prefs, name)[2:]} for name in ("always", "never"))
        return prefs[1]["default"], *jids

    async def disco_info(self, to):
        ns = "http://jabber.org/protocol/disco#info"
        query = child(await self._iq("get", to, "query", {"xmlns": ns}), "query", ns)
        identities = {(n[1]["category"], n[1]["type"]) for n in query[2:] if n[0] == "identity"}
        return identities, {n[1]["var"] for n in query[2:] if n[0] == "feature"}

    async def set_vcard(self, name):
        await self._iq("set", None, "vCard", {"xmlns": "vcard-temp"}, ["FN", {}, name])

    async def vcard(self, of=None):
        result = await self._iq("get", of, "vCard", {"xmlns": "vcard-temp"})
        return text(child(child(result, "vCard", "vcard-temp"), "FN"))

    async def upload_service(self):
        ns = "http://jabber.org/protocol/disco#items"
        items = child(await self._iq("get", DOMAIN, "query", {"xmlns": ns}), "query", ns)
        for item in items[2:]:
            _, features = await self.disco_info(item[1]["jid"])
            if UPLOAD in features:
                info = child(await self._iq("get", item[1]["jid"], "query", {"xmlns": INFO}), "query", INFO)
                fields = child(info, "x", "jabber:x:data")[2:]
                [size] = [text(field[2]) for field in fields if field[1]["var"] == "max-file-size"]
                return item[1]["jid"], int(size)
        return None

    async def slot(self, service, name, size, content_type=None):
        attributes = {"xmlns": UPLOAD, "filename": name, "size": str(size)}
        if content_type:
            attributes["content-type"] = content_type
        slot = child(await self._iq("get", service, "request", attributes), "slot", UPLOAD)
        put = child(slot, "put")
        return put[1]["url"], {h[1]["name"]: text(h) for h in put[2:]}, child(slot, "get")[1]["url"]

    async def http(self, method, url, headers=None, body=None):
        encoded = base64.b64encode(body).decode() if body is not None else None
        answer = await self._order("http", method=method, url=url, headers=headers or {}, body=encoded)
        return answer["status"], answer["headers"], base64.b64decode(answer["body"])

    async def contact_addresses(self, to):
        ns = "http://jabber.org/protocol/disco#info"
        query = child(await self._iq("get", to, "query", {"xmlns": ns}), "query", ns)
        fields = child(query, "x", "jabber:x:data")[2:]
        values = {f[1]["var"]: [text(v) for v in f[2:]] for f in fields}
        assert values.pop("FORM_TYPE") == ["http://jabber.org/network/serverinfo"]
        return values

    async def services(self, kind=None):
        attributes = {"type": kind} if kind else {}
        result = await self._iq("get", None, "services", {"xmlns": EXTDISCO, **attributes})
        return [found[1] for found in child(result, "services", EXTDISCO)[2:]]

    async def credentials(self, host, kind):
        service = ["service", {"host": host, "type": kind}]
        result = await self._iq("get", None, "credentials", {"xmlns": EXTDISCO}, service)
        return [found[1] for found in child(result, "credentials", EXTDISCO)[2:]]

    async def version(self, to):
        result = await self._iq("get", to, "query", {"xmlns": "jabber:iq:version"})
        return text(child(child(result, "query"), "name"))

    async def time(self, to):
        """The entity's time (XEP-0202) as text."""
        result = await self._iq("get", to, "time", {"xmlns": "urn:xmpp:time"})
        return text(child(child(result, "time"), "utc"))

    async def last(self, to):
        """(seconds, text) of last activity (XEP-0012)."""
        result = await self._iq("get", to, "query", {"xmlns": "jabber:iq:last"})
        query = child(result, "query")
        return int(query[1]["seconds"]), text(query)

    async def private_set(self, note):
        """Keep a text in private XML storage (XEP-0049)."""
        payload = ["note", {"xmlns": "urn:throng:test:note"}, ["text", {}, note]]
        await self._iq("set", None, "query", {"xmlns": "jabber:iq:private"}, payload)

    async def private_get(self):
        """The text kept by `private_set`, or None."""
        payload = ["note", {"xmlns": "urn:throng:test:note"}]
        result = await self._iq("get", None, "query", {"xmlns": "jabber:iq:private"}, payload)
        return text(child(child(child(result, "query"), "note") or ["", {}], "text"))
