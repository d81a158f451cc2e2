"""slixmpp (PyPI) as an actor."""

import asyncio
import ctypes
import ssl
from xml.etree import ElementTree as ET

import aiohttp
import slixmpp
from slixmpp.exceptions import IqError, IqTimeout
from slixmpp.xmlstream import ElementBase, register_stanza_plugin
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from actor import Actor
from events import ABOUT, Archived, BlockPush, Call, Copy, WAIT, LoginFailed, Message, Presence, RosterItem, StanzaError


CARBONS = "urn:xmpp:carbons:2"
DELAY = "urn:xmpp:delay"
FORWARD = "urn:xmpp:forward:0"
JINGLE = "urn:xmpp:jingle:1"
#: Application-specific conditions of errors that are looked for.
EXTDISCO = "urn:xmpp:extdisco:2"
APP_CONDITIONS = ("{urn:xmpp:blocking:errors}blocked",)


class Note(ElementBase):
    """What the tests keep in private XML storage (XEP-0049)."""

    name = "note"
    namespace = "urn:throng:test:note"
    plugin_attrib = "note"
    interfaces = {"text"}
    sub_interfaces = {"text"}


def tls_exporter(ssl_object):
    """The channel binding "tls-exporter" (RFC 9266) of a standard library TLS
    object. Python 3.11 keeps it from its users, so ask libssl for it: the
    `SSL *` is the third word of the C object (`PySSLSocket`)."""
    inner = ssl_object._sslobj
    handle = ctypes.c_void_p.from_address(id(inner) + 3 * ctypes.sizeof(ctypes.c_void_p))
    out = ctypes.create_string_buffer(32)
    label = b"EXPORTER-Channel-Binding"
    done = ctypes.CDLL("libssl.so.3").SSL_export_keying_material(
        handle, out, ctypes.c_size_t(32), label, ctypes.c_size_t(len(label)),
        b"", ctypes.c_size_t(0), ctypes.c_int(1),
    )
    assert done == 1, "SSL_export_keying_material"
    return out.raw


def _about(stanza):
    """What a message says about another one."""
    found = ((name, stanza.xml.find(f"{{{namespace}}}{name}")) for name, namespace in ABOUT.items())
    return next(((name, element.get("id")) for name, element in found if element is not None), None)


def _failure(error):
    if isinstance(error, IqTimeout):
        return AssertionError("no answer to an IQ")
    return StanzaError(error.condition, error.etype)


class SlixmppActor(Actor):
    """One `slixmpp.ClientXMPP`."""

    kind = "slixmpp"
    capabilities = frozenset(
        {"register", "plus", "scram-sha-256", "resume", "resend", "restart", "rosterver",
         "private", "time", "last", "removal", "carbons", "csi", "blocking",
         "services", "archive", "pep", "push", "upload", "bytestreams"}
    )

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        context = ssl.create_default_context(cafile=self.server.cafile)
        self.client = client = slixmpp.ClientXMPP(
            f"{self.bare}/{self.resource}",
            self.account.password,
            plugin_config={
                "feature_mechanisms": {"unencrypted_plain": True, "unencrypted_scram": True}
            },
            ssl_context=context,
        )
        client.enable_direct_tls = self.tls == "direct"
        client.enable_starttls = self.tls == "starttls"
        client.enable_plaintext = self.tls == "plain"
        client.auto_authorize = None
        client.auto_subscribe = False
        for plugin in ("xep_0012", "xep_0030", "xep_0049", "xep_0054", "xep_0065", "xep_0085", "xep_0092", "xep_0191",
                       "xep_0198", "xep_0199", "xep_0202", "xep_0203", "xep_0280", "xep_0313", "xep_0352", "xep_0363", "xep_0377",
                       "xep_0441"):
            client.register_plugin(plugin)
        register_stanza_plugin(client.plugin["xep_0049"].stanza.PrivateXML, Note)
        ns = client.default_ns
        client.register_handler(
            Callback("log message", MatchXPath(f"{{{ns}}}message"), self._on_message)
        )
        client.register_handler(
            Callback("log presence", MatchXPath(f"{{{ns}}}presence"), self._on_presence)
        )
        client.register_handler(
            Callback("calls", MatchXPath(f"{{{ns}}}iq/{{{JINGLE}}}jingle"), self._on_call)
        )
        client.add_event_handler("roster_update", self._on_roster)
        client.add_event_handler("carbon_sent", lambda m: self._on_copy(m, "sent"))
        client.add_event_handler("carbon_received", lambda m: self._on_copy(m, "received"))
        client.add_event_handler("blocked", lambda iq: self._on_block(iq, "block"))
        client.add_event_handler("unblocked", lambda iq: self._on_block(iq, "unblock"))
        client.add_event_handler("stream_negotiated", lambda e: self._settle("bound"))
        client.add_event_handler("session_resumed", lambda e: self._settle("resumed"))
        client.add_event_handler("failed_auth", self._on_failed_auth)
        client.add_event_handler("failed_all_auth", lambda e: self._settle("failed"))
        client.add_event_handler("connection_failed", lambda e: self._settle(f"no: {e}"))
        client.add_event_handler("disconnected", self._on_disconnected)
        self._outcome = None
        self._refused = None
        self.disconnected = asyncio.Event()

    def _settle(self, outcome):
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(outcome)

    def _on_failed_auth(self, stanza):
        self._refused = stanza["condition"]

    def _on_disconnected(self, reason):
        self.disconnected.set()
        self._settle(f"disconnected: {reason}")

    @staticmethod
    def _message(stanza):
        delay = stanza["delay"]["stamp"] if "delay" in stanza else None
        error = stanza["error"] if stanza["type"] == "error" else None
        app = [a for a in APP_CONDITIONS if error is not None and error.xml.find(a) is not None]
        return Message(
            str(stanza["from"]), stanza["type"], stanza["body"] or None,
            stanza["id"] or None, delay.isoformat() if delay else None,
            error["condition"] if error is not None else None,
            stanza["chat_state"] or None, app[0].split("}")[1] if app else None, _about(stanza),
        )

    def _on_message(self, stanza):
        copy = any(stanza.xml.find(f"{{{CARBONS}}}{way}") is not None for way in ("sent", "received"))
        # The plugin reports those that are the server's.
        if not (copy and str(stanza["from"]) == self.bare):
            self.log.add(self._message(stanza))

    def _on_copy(self, stanza, way):
        original = stanza[f"carbon_{way}"]
        delay = stanza.xml.find(f"{{{CARBONS}}}{way}/{{{FORWARD}}}forwarded/{{{DELAY}}}delay")
        assert str(stanza["to"]) == self.jid
        self.log.add(
            Copy(way, stanza["type"], str(original["to"]), self._message(original),
                 delay.get("stamp") if delay is not None else None)
        )

    def _on_call(self, iq):
        jingle = iq.xml.find(f"{{{JINGLE}}}jingle")
        if iq["type"] == "set":
            [fingerprint] = [element.text for element in jingle.iter() if element.tag.endswith("}fingerprint")]
            self.log.add(Call(str(iq["from"]), jingle.get("action"), jingle.get("sid"), fingerprint))
            iq.reply().send()

    def _on_block(self, iq, verb):
        jids = frozenset(i.get("jid") for i in iq.xml.iterfind(f"{{urn:xmpp:blocking}}{verb}/*"))
        self.log.add(BlockPush(verb, jids))

    def _on_presence(self, stanza):
        kind = stanza.xml.get("type", "available")
        show = stanza["show"] or None
        self.log.add(
            Presence(str(stanza["from"]), kind, show, stanza["status"] or None,
                     int(stanza["priority"] or 0))
        )

    def _on_roster(self, stanza):
        if stanza["type"] == "set":
            for item in self._items(stanza):
                self.log.add(item)

    def _items(self, stanza):
        for item in stanza.xml.iterfind("{jabber:iq:roster}query/{jabber:iq:roster}item"):
            groups = item.iterfind("{jabber:iq:roster}group")
            yield RosterItem(
                item.get("jid"), item.get("subscription", "none"),
                item.get("ask") == "subscribe", item.get("name"),
                frozenset(g.text for g in groups),
            )

    async def _attempt(self):
        self._outcome = asyncio.get_running_loop().create_future()
        self.disconnected.clear()
        self.client.connect("127.0.0.1", self.port)
        outcome = await asyncio.wait_for(self._outcome, WAIT)
        if outcome == "failed":
            raise LoginFailed(self._refused)
        if outcome not in ("bound", "resumed"):
            raise LoginFailed(self._refused or outcome)
        secure = isinstance(self.client.socket, (ssl.SSLSocket, ssl.SSLObject))
        assert secure == (self.tls != "plain"), "the stream is not in the mode asked for"
        self.jid = str(self.client.boundjid)
        return outcome

    async def connect(self, mechanism=None, register=False):
        mechanisms = self.client.plugin["feature_mechanisms"]
        if mechanism:
            mechanisms.use_mech = mechanism
        if mechanism and mechanism.endswith("-PLUS"):
            default = mechanisms.sasl_callback

            def with_binding(required, optional):
                found = default(required, optional)
                if "channel_binding" in required | optional:
                    found["channel_binding"] = tls_exporter(self.client.socket)
                return found

            mechanisms.sasl_callback = with_binding
        if register:
            self.client.register_plugin("xep_0077")
            self.client.add_event_handler("register", self._register)
        self._registered = not register
        await self._attempt()
        assert self._registered, "the server did not offer registration (XEP-0077)"

    async def _register(self, form):
        iq = self.client.Iq()
        iq["type"] = "set"
        iq["register"]["username"] = self.account.name
        iq["register"]["password"] = self.account.password
        try:
            await iq.send()
            self._registered = True
        except IqError as error:
            self._refused = error.condition
            self._settle("failed")

    async def close(self):
        if self.client.transport is not None:
            await self.client.disconnect(wait=2.0)
        self.client.cancel_connection_attempt()
        if self.client._run_out_filters is not None:
            self.client._run_out_filters.cancel()

    def drop(self):
        self.client.transport.abort()

    async def resume(self):
        await asyncio.wait_for(self.disconnected.wait(), WAIT)
        return await self._attempt() == "resumed"

    def send_message(self, to, body, type="chat", id=None):
        message = self.client.make_message(mto=to, mbody=body, mtype=type)
        if id:
            message["id"] = id
        message.send()

    def send_private(self, to, body):
        message = self.client.make_message(mto=to, mbody=body, mtype="chat")
        message.enable("carbon_private")
        message.send()

    def send_state(self, to, state="composing"):
        message = self.client.make_message(mto=to, mtype="chat")
        message["chat_state"] = state
        message.send()

    def send_about(self, to, name, id, body=None):
        def plugin(number):
            self.client.register_plugin(f"xep_{number}")
            return self.client.plugin[f"xep_{number}"]

        if name == "received":
            plugin("0184").ack({"from": to, "id": id})
        elif name == "displayed":
            plugin("0333").send_marker(to, id, name)
        elif name == "replace":
            plugin("0308").build_correction(id, to, mbody=body).send()
        elif name == "reply":
            plugin("0461").send_reply(to, id, fallback="quoted", mto=to, mbody=body, mtype="chat")
        elif name == "reactions":
            plugin("0444").send_reactions(to, id, ["\N{WAVING HAND SIGN}", "\N{TURTLE}"])

    async def call(self, to, sid, fingerprint):
        iq = self.client.make_iq_set(ito=to)
        jingle = ET.SubElement(iq.xml, f"{{{JINGLE}}}jingle", action="session-initiate", sid=sid)
        content = ET.SubElement(jingle, f"{{{JINGLE}}}content", creator="initiator", name="voice")
        ET.SubElement(content, "{urn:xmpp:jingle:apps:rtp:1}description", media="audio")
        transport = ET.SubElement(content, "{urn:xmpp:jingle:transports:ice-udp:1}transport", ufrag="8hhy")
        ET.SubElement(transport, "{urn:xmpp:jingle:apps:dtls:0}fingerprint", hash="sha-256").text = fingerprint
        await self._iq(iq.send())

    def send_forged_copy(self, to, pretended_from, body):
        original = self.client.make_message(mto=to, mfrom=pretended_from, mbody=body, mtype="chat")
        message = self.client.make_message(mto=to, mtype="chat")
        message["carbon_received"] = original
        message.send()

    def send_presence(self, to=None, type=None, show=None, status=None, priority=None):
        stanza = self.client.Presence()
        if to:
            stanza["to"] = to
        if type or show:
            stanza["type"] = type or show
        if status:
            stanza["status"] = status
        if priority is not None:
            stanza["priority"] = priority
        stanza.send()

    async def flush(self):
        await asyncio.wait_for(self.client.waiting_queue.join(), WAIT)

    async def _iq(self, future):
        try:
            return await asyncio.wait_for(future, WAIT)
        except (IqError, IqTimeout) as error:
            raise _failure(error) from None

    async def roster(self):
        # Without a known version the server sends all of it (RFC 6121 2.6).
        self.client.client_roster.version = ""
        result = await self._iq(self.client.get_roster())
        return {item.jid: item for item in self._items(result)}

    async def roster_set(self, jid, name=None, groups=()):
        iq = self.client.Iq()
        iq["type"] = "set"
        iq["roster"]["items"] = {jid: {"name": name or "", "groups": list(groups)}}
        await self._iq(iq.send())

    async def roster_remove(self, jid):
        await self._iq(self.client.del_roster_item(jid))

    async def ping(self, to=None):
        await self._iq(self.client.plugin["xep_0199"].send_ping(to or self.server_jid))

    @property
    def server_jid(self):
        """The address of the server itself."""
        return slixmpp.JID(self.bare).domain

    async def _registration(self, **children):
        # Not by the plugin, which would register before each login.
        iq = self.client.Iq()
        iq["type"] = "set"
        iq["to"] = self.server_jid
        query = ET.SubElement(iq.xml, "{jabber:iq:register}query")
        for name, text in children.items():
            ET.SubElement(query, f"{{jabber:iq:register}}{name}").text = text
        await self._iq(iq.send())

    async def change_password(self, password):
        await self._registration(username=self.account.name, password=password)

    async def remove_account(self):
        await self._registration(remove=None)

    async def carbons(self, on=True, to=None):
        plugin = self.client.plugin["xep_0280"]
        if to is None:
            await self._iq(plugin.enable() if on else plugin.disable())
            return
        iq = self.client.make_iq_set(ito=to)
        iq.enable("carbon_enable" if on else "carbon_disable")
        await self._iq(iq.send())

    def client_state(self, active):
        plugin = self.client.plugin["xep_0352"]
        assert plugin.enabled, "the server did not offer client states"
        plugin.send_active() if active else plugin.send_inactive()

    async def blocklist(self):
        jids = self.client.plugin["xep_0191"].get_blocked_jids()
        return {str(jid) for jid in await self._iq(jids)}

    async def block(self, *jids):
        await self._iq(self._blocking("block", jids))

    async def block_and_report(self, jid, reason, text, ids=()):
        iq = self.client.make_iq_set()
        item = ET.SubElement(ET.SubElement(iq.xml, "{urn:xmpp:blocking}block"), "{urn:xmpp:blocking}item", jid=jid)
        report = self.client.plugin["xep_0377"].stanza.Report()
        report["reason"], report["text"] = reason, text
        for id in ids:
            report.append(ET.Element("{urn:xmpp:sid:0}stanza-id", {"by": self.bare, "id": id}))
        item.append(report.xml)
        await self._iq(iq.send())

    async def unblock(self, *jids):
        await self._iq(self._blocking("unblock", jids))

    def _blocking(self, verb, jids):
        if jids:
            return getattr(self.client.plugin["xep_0191"], verb)(list(jids))
        # The plugin sends no request without an address.
        iq = self.client.make_iq_set()
        iq.enable(verb)
        return iq.send()

    async def archive(self, with_jid=None, max=None, before=None, after=None, to=None):
        wanted = {"max": max, "before": before, "after": after}
        rsm = {key: value for key, value in wanted.items() if value is not None}
        plugin = self.client.plugin["xep_0313"]
        if before == "":
            # The plugin writes no empty <before/> but for its iterator.
            pages = plugin.retrieve(jid=to, with_jid=with_jid, rsm={"max": max}, iterator=True, reverse=True)
            result = await self._iq(anext(pages))
        else:
            result = await self._iq(plugin.retrieve(jid=to, with_jid=with_jid, rsm=rsm))
        return [self._archived(m) for m in result["mam"]["results"]], (
            result["mam_fin"].xml.get("complete") == "true"
        )

    async def archive_back(self, page):
        """All of the archive, from its end page by page, by the plugin's iterator."""
        plugin = self.client.plugin["xep_0313"]
        pages = plugin.iterate(jid=slixmpp.JID(self.bare), reverse=True, rsm={"max": page})
        return [self._archived(message) async for message in pages]

    @staticmethod
    def _archived(message):
        result = message["mam_result"]
        forwarded = result["forwarded"]
        original = forwarded["stanza"]
        return Archived(result["id"], forwarded["delay"]["stamp"].isoformat(),
                        str(original["from"]), str(original["to"]), original["body"] or None, _about(original))

    async def archive_ends(self):
        result = await self._iq(self.client.plugin["xep_0313"].get_archive_metadata())
        ends = [result.xml.find(f"{{urn:xmpp:mam:2}}metadata/{{urn:xmpp:mam:2}}{name}")
                for name in ("start", "end")]
        return None if ends[0] is None else tuple(end.get("id") for end in ends)

    async def archive_prefs(self, default, always=(), never=()):
        plugin = self.client.plugin["xep_0441"]
        result = await self._iq(plugin.set_preferences(
            default=default, always={slixmpp.JID(j) for j in always},
            never={slixmpp.JID(j) for j in never},
        ))
        prefs = result["mam_prefs"]
        return (prefs["default"], {str(j) for j in prefs["always"]},
                {str(j) for j in prefs["never"]})

    async def disco_info(self, to):
        result = await self._iq(
            self.client.plugin["xep_0030"].get_info(jid=to, local=False, cached=False)
        )
        info = result["disco_info"]
        return {(i[0], i[1]) for i in info["identities"]}, set(info["features"])

    async def set_vcard(self, name):
        card = self.client.plugin["xep_0054"].make_vcard()
        card["FN"] = name
        await self._iq(self.client.plugin["xep_0054"].publish_vcard(card))

    async def vcard(self, of=None):
        result = await self._iq(self.client.plugin["xep_0054"].get_vcard(jid=of, local=False, cached=False))
        return result["vcard_temp"]["FN"]

    async def upload_service(self):
        found = await self.client.plugin["xep_0363"].find_upload_service(domain=self.server_jid)
        form = found["disco_info"]["form"]
        return str(found["from"]), int(form.get_values()["max-file-size"])

    async def slot(self, service, name, size, content_type=None):
        result = await self._iq(self.client.plugin["xep_0363"].request_slot(
            slixmpp.JID(service), name, size, content_type or "application/octet-stream"))
        slot = result["http_upload_slot"]
        headers = {h["name"]: h["value"] for h in slot["put"]["headers"]}
        return slot["put"]["url"], headers, slot["get"]["url"]

    async def http(self, method, url, headers=None, body=None):
        context = ssl.create_default_context(cafile=self.server.cafile)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.request(method, url, headers=headers, data=body) as answer:
                return answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.read()

    async def contact_addresses(self, to):
        result = await self._iq(
            self.client.plugin["xep_0030"].get_info(jid=to, local=False, cached=False)
        )
        fields = result.xml.iterfind(".//{jabber:x:data}field")
        values = {f.get("var"): [v.text for v in f] for f in fields}
        assert values.pop("FORM_TYPE") == ["http://jabber.org/network/serverinfo"]
        return values

    async def services(self, kind=None):
        return await self._services("services", {"type": kind} if kind else {})

    async def credentials(self, host, kind):
        return await self._services("credentials", {}, {"host": host, "type": kind})

    async def _services(self, name, attributes, service=None):
        query = ET.Element(f"{{{EXTDISCO}}}{name}", attributes)
        if service:
            ET.SubElement(query, f"{{{EXTDISCO}}}service", service)
        iq = self.client.make_iq_get(ito=self.server_jid)
        iq.xml.append(query)
        result = await self._iq(iq.send())
        return [dict(found.attrib) for found in result.xml.iterfind(f".//{{{EXTDISCO}}}service")]

    async def version(self, to):
        result = await self._iq(self.client.plugin["xep_0092"].get_version(to))
        return result["software_version"]["name"]

    async def time(self, to):
        """The entity's time (XEP-0202) as text; the library's own reading of
        it fails (1.17.0 appends a second "Z")."""
        result = await self._iq(self.client.plugin["xep_0202"].get_entity_time(to))
        return result.xml.findtext("{urn:xmpp:time}time/{urn:xmpp:time}utc")

    async def last(self, to):
        """(seconds, text) of last activity (XEP-0012)."""
        result = await self._iq(self.client.plugin["xep_0012"].get_last_activity(to))
        return result["last_activity"]["seconds"], result["last_activity"]["status"]

    async def private_set(self, text):
        """Keep a text in private XML storage (XEP-0049)."""
        note = Note()
        note["text"] = text
        await self._iq(self.client.plugin["xep_0049"].store(note))

    async def private_get(self):
        """The text kept by `private_set`, or None."""
        result = await self._iq(self.client.plugin["xep_0049"].retrieve("note"))
        return result["private"]["note"]["text"] or None
