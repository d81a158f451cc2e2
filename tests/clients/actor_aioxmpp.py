"""aioxmpp (PyPI) as an actor."""

import asyncio
from datetime import timedelta

import aioopenssl
import aiosasl
import aiosasl.channel_binding
import aioxmpp
import aioxmpp.connector
import aioxmpp.ibr
import aioxmpp.ping
import aioxmpp.private_xml
import aioxmpp.sasl
import aioxmpp.security_layer
import aioxmpp.ssl_transport
import aioxmpp.version
import aioxmpp.xso
from aioxmpp import errors, protocol

from actor import Actor
from events import WAIT, LoginFailed, Message, Presence, RosterItem, StanzaError


def _invalid_state(transport, at, _original=aioopenssl.STARTTLSTransport._invalid_state):
    """A write after a reset is a RuntimeError in aioopenssl 0.6.0, at which
    aioxmpp gives up instead of connecting again: make it the OSError it is."""
    error = _original(transport, at)
    return ConnectionResetError(str(error)) if transport._state.name == "CLOSED" else error


aioopenssl.STARTTLSTransport._invalid_state = _invalid_state


class TLSExporter(aiosasl.channel_binding.ChannelBindingProvider):
    """"tls-exporter" (RFC 9266), which aiosasl does not have."""

    cb_name = b"tls-exporter"

    def __init__(self, connection):
        self._connection = connection

    def extract_cb_data(self):
        return self._connection.export_keying_material(b"EXPORTER-Channel-Binding", 32, b"")


class EndPoint(aiosasl.channel_binding.ChannelBindingProvider):
    """"tls-server-end-point" (RFC 5929 4.1); aiosasl's own one cannot read the
    name of an ECDSA signature."""

    cb_name = b"tls-server-end-point"

    def __init__(self, connection):
        self._connection = connection

    def extract_cb_data(self):
        certificate = self._connection.get_peer_certificate()
        name = certificate.get_signature_algorithm().decode().lower()
        digest = next((d for d in ("sha384", "sha512") if d in name), "sha256")
        return bytes.fromhex(certificate.digest(digest).decode().replace(":", ""))


@aioxmpp.private_xml.Query.as_payload_class
class Note(aioxmpp.xso.XSO):
    """What the tests keep in private XML storage (XEP-0049)."""

    TAG = ("urn:throng:test:note", "note")
    text = aioxmpp.xso.ChildText(("urn:throng:test:note", "text"), default=None)


class OneMechanism(aioxmpp.security_layer.SASLProvider):
    """Authenticates by exactly one mechanism (the library's own provider
    chooses by itself, never binds to the channel, and has no PLAIN without
    TLS)."""

    def __init__(self, mechanism, password, binding):
        self._name = mechanism
        self._password = password
        self._binding = binding

    async def execute(self, client_jid, features, xmlstream, tls_transport):
        async def credentials():
            return client_jid.localpart, self._password

        if self._name == "PLAIN":
            mechanism = aiosasl.PLAIN(credentials)
        elif self._name.endswith("-PLUS"):
            connection = tls_transport.get_extra_info("ssl_object")
            binding = {
                "tls-exporter": TLSExporter,
                "tls-server-end-point": EndPoint,
            }[self._binding](connection)
            mechanism = aiosasl.SCRAMPLUS(credentials, binding)
        else:
            mechanism = aiosasl.SCRAM(credentials)
        offered = features[aioxmpp.security_layer.SASLMechanisms].get_mechanism_list()
        if self._name not in offered:
            raise LoginFailed(f"{self._name} is not among {offered}")
        token = mechanism.any_supported([self._name])
        interface = aioxmpp.sasl.SASLXMPPInterface(xmlstream)
        return await self._execute(interface, mechanism, token)


class PlainConnector(aioxmpp.connector.BaseConnector):
    """TCP without STARTTLS; the library's own one takes it where offered."""

    tls_supported = False
    dane_supported = False

    async def connect(self, loop, metadata, domain, host, port, negotiation_timeout,
                      base_logger=None):
        features = loop.create_future()
        stream = protocol.XMLStream(to=domain, features_future=features,
                                    base_logger=base_logger)
        transport, _ = await aioxmpp.ssl_transport.create_starttls_connection(
            loop, lambda: stream, host=host, port=port, peer_hostname=host,
            server_hostname=domain, use_starttls=True,
        )
        stream.deadtime_hard_limit = timedelta(seconds=negotiation_timeout)
        return transport, stream, await features


class Gated(aioxmpp.connector.BaseConnector):
    """Connects through another connector once the gate is open: the client
    connects again by itself, the tests decide when."""

    tls_supported = True
    dane_supported = False

    def __init__(self, inner):
        self._inner = inner
        self.gate = asyncio.Event()
        self.gate.set()
        self.transport = None

    async def connect(self, *args, **kwargs):
        await self.gate.wait()
        connected = await self._inner.connect(*args, **kwargs)
        self.transport = connected[0]
        return connected


CONNECTORS = {
    "plain": PlainConnector,
    "starttls": aioxmpp.connector.STARTTLSConnector,
    "direct": aioxmpp.connector.XMPPOverTLSConnector,
}


class AioxmppActor(Actor):
    """One `aioxmpp.Client`."""

    kind = "aioxmpp"
    capabilities = frozenset(
        {"register", "plus", "end-point", "scram-sha-256", "resume", "resend", "private"}
    )

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.client = None
        self._rosters = None
        self._last = None
        self._connector = Gated(CONNECTORS[self.tls]())

    def _context(self):
        context = aioxmpp.security_layer.default_ssl_context()
        context.load_verify_locations(str(self.server.cafile))
        return context

    def _security(self, mechanism, binding):
        return aioxmpp.security_layer.SecurityLayer(
            self._context,
            aioxmpp.security_layer.PKIXCertificateVerifier,
            self.tls != "plain",
            (OneMechanism(mechanism, self.account.password, binding),) if mechanism else (),
        )

    async def connect(self, mechanism=None, register=False, binding="tls-exporter"):
        peer = [("127.0.0.1", self.port, self._connector)]
        jid = aioxmpp.JID.fromstr(f"{self.bare}/{self.resource}")
        if register:
            await self._register(jid, peer)
        self.client = client = aioxmpp.Client(
            jid, self._security(mechanism or "SCRAM-SHA-256", binding),
            override_peer=peer, max_initial_attempts=1,
        )
        client.backoff_start = timedelta(milliseconds=20)
        client.stream.app_inbound_message_filter.register(self._on_message, 0)
        client.stream.app_inbound_presence_filter.register(self._on_presence, 0)
        self._disco = client.summon(aioxmpp.DiscoClient)
        self._rosters = client.summon(aioxmpp.RosterClient)
        client.summon(aioxmpp.PingService)
        self._registration = client.summon(aioxmpp.ibr.RegistrationService)
        self._private = client.summon(aioxmpp.private_xml.PrivateXMLService)
        self._rosters.on_entry_added.connect(self._on_item)
        self._rosters.on_entry_name_changed.connect(self._on_item)
        self._rosters.on_entry_subscription_state_changed.connect(self._on_item)
        self._rosters.on_entry_removed.connect(self._on_removed)
        outcome = asyncio.get_running_loop().create_future()

        def settle(error=None):
            if not outcome.done():
                outcome.set_result(error)
            return True

        client.on_failure.connect(settle)
        client.on_stream_established.connect(settle)
        client.start()
        error = await asyncio.wait_for(outcome, WAIT)
        if isinstance(error, LoginFailed):
            raise error
        if isinstance(error, aiosasl.SASLError):
            raise LoginFailed(error.opaque_error)
        if error is not None:
            raise error
        secure = self._connector.transport.get_extra_info("sslcontext") is not None
        assert secure == (self.tls != "plain"), "the stream is not in the mode asked for"
        self.jid = str(client.local_jid)

    async def _register(self, jid, peer):
        _, stream, _ = await aioxmpp.node.connect_xmlstream(
            jid, self._security(None, None), override_peer=peer
        )
        # The library's own `ibr.register` does not look at the answer's type.
        iq = aioxmpp.IQ(
            type_=aioxmpp.IQType.SET, to=jid.replace(localpart=None, resource=None),
            payload=aioxmpp.ibr.Query(self.account.name, self.account.password),
        )
        iq.autoset_id()
        reply = await protocol.send_and_wait_for(stream, [iq], [aioxmpp.IQ], timeout=WAIT)
        await stream.close_and_wait()
        if reply.type_ == aioxmpp.IQType.ERROR:
            raise LoginFailed(reply.error.condition.value[1])

    def _on_message(self, stanza):
        delay = stanza.xep0203_delay
        self.log.add(
            Message(
                str(stanza.from_), stanza.type_.value, stanza.body.any() if stanza.body else None,
                stanza.id_, delay[0].stamp.isoformat() if delay else None,
                stanza.error.condition.value[1] if stanza.error else None,
            )
        )
        return None

    def _on_presence(self, stanza):
        self.log.add(
            Presence(
                str(stanza.from_), stanza.type_.value or "available", stanza.show.value,
                stanza.status.any() if stanza.status else None, stanza.priority,
            )
        )
        return stanza

    def _on_item(self, item, *_):
        self.log.add(self._item(item))
        return False

    def _on_removed(self, item):
        removed = self._item(item)
        removed.subscription, removed.ask = "remove", False
        self.log.add(removed)
        return False

    @staticmethod
    def _item(item):
        return RosterItem(
            str(item.jid), item.subscription, item.ask == "subscribe", item.name,
            frozenset(item.groups),
        )

    async def close(self):
        if self.client is None or not self.client.running:
            return
        stopped = asyncio.Event()

        def on_stop(*_):
            stopped.set()
            return True

        self.client.on_stopped.connect(on_stop)
        self.client.on_failure.connect(on_stop)
        self._connector.gate.set()
        self.client.stop()
        await asyncio.wait_for(stopped.wait(), WAIT)

    def hold(self):
        self._connector.gate.clear()

    def drop(self):
        self.hold()
        # `abort()` looks like a wanted end to the library: fail as a socket does.
        self._connector.transport._force_close(ConnectionAbortedError("dropped"))

    async def resume(self):
        outcome = asyncio.get_running_loop().create_future()

        def settle(how):
            def callback(*error):
                if not outcome.done():
                    outcome.set_result(error[0] if error else how)
                return True
            return callback

        assert not self._connector.gate.is_set(), "hold() or drop() first"
        self.client.on_stream_resumed.connect(settle("resumed"))
        self.client.on_stream_established.connect(settle("bound"))
        self.client.on_failure.connect(settle("failed"))
        self._connector.gate.set()
        result = await asyncio.wait_for(outcome, WAIT)
        if isinstance(result, Exception):
            raise result
        return result == "resumed"

    def send_message(self, to, body, type="chat", id=None):
        stanza = aioxmpp.Message(type_=aioxmpp.MessageType(type), to=aioxmpp.JID.fromstr(to))
        stanza.body[None] = body
        stanza.id_ = id
        self._last = self.client.enqueue(stanza)

    def send_presence(self, to=None, type=None, show=None, status=None, priority=None):
        stanza = aioxmpp.Presence(type_=aioxmpp.PresenceType(type))
        if to:
            stanza.to = aioxmpp.JID.fromstr(to)
        stanza.show = aioxmpp.PresenceShow(show)
        if status:
            stanza.status[None] = status
        if priority is not None:
            stanza.priority = priority
        self._last = self.client.enqueue(stanza)

    async def flush(self):
        if self._last is None:
            return
        deadline = asyncio.get_running_loop().time() + WAIT
        while self._last.state == aioxmpp.stream.StanzaState.ACTIVE:
            assert asyncio.get_running_loop().time() < deadline, "a stanza is not written"
            await asyncio.sleep(0.005)

    async def _iq(self, awaitable):
        try:
            return await asyncio.wait_for(awaitable, WAIT)
        except errors.XMPPError as error:
            raise StanzaError(error.condition.value[1], error.TYPE.value) from None

    async def roster(self):
        # The library fetches the roster before it calls the stream established.
        return {str(jid): self._item(item) for jid, item in self._rosters.items.items()}

    async def roster_set(self, jid, name=None, groups=()):
        await self._iq(
            self._rosters.set_entry(
                aioxmpp.JID.fromstr(jid), name=name, add_to_groups=frozenset(groups),
            )
        )

    async def roster_remove(self, jid):
        await self._iq(self._rosters.remove_entry(aioxmpp.JID.fromstr(jid)))

    async def ping(self, to=None):
        to = aioxmpp.JID.fromstr(to) if to else self.client.local_jid.replace(
            localpart=None, resource=None
        )
        await self._iq(aioxmpp.ping.ping(self.client, to))

    async def change_password(self, password):
        await self._iq(self._registration.change_pass(password))

    async def disco_info(self, to):
        info = await self._iq(
            self._disco.query_info(aioxmpp.JID.fromstr(to), require_fresh=True)
        )
        return {(i.category, i.type_) for i in info.identities}, set(info.features)

    async def version(self, to):
        result = await self._iq(
            aioxmpp.version.query_version(self.client.stream, aioxmpp.JID.fromstr(to))
        )
        return result.name

    async def private_set(self, text):
        """Keep a text in private XML storage (XEP-0049)."""
        note = Note()
        note.text = text
        await self._iq(self._private.set_private_xml(note))

    async def private_get(self):
        """The text kept by `private_set`, or None."""
        result = await self._iq(self._private.get_private_xml(Note()))
        return result.registered_payload.text
