"""Hosts any number of nbxmpp sessions for the tests, as `agent.mjs` does for @xmpp/client: one JSON command a line on
standard input, answers and events as JSON lines. Runs under Debian's Python, whose PyGObject the library needs."""

import json
import logging
import os
import sys
import threading
from enum import Enum

import gi

gi.require_version("Soup", "3.0")

from gi.repository import Gio, GLib  # noqa: E402
from nbxmpp.client import Client  # noqa: E402
from nbxmpp.const import ConnectionProtocol, ConnectionType  # noqa: E402
from nbxmpp.errors import StanzaError  # noqa: E402
from nbxmpp.modules.user_avatar import Avatar  # noqa: E402
from nbxmpp.modules.vcard4 import VCard  # noqa: E402
from nbxmpp.protocol import JID, Iq, Message, Presence  # noqa: E402
from nbxmpp.simplexml import Node  # noqa: E402
from nbxmpp.structs import BookmarkData, OMEMOBundle, StanzaHandler  # noqa: E402

SESSIONS = {}
if os.environ.get("NBXMPP_LOG"):
    logging.basicConfig(level=logging.DEBUG, filename=os.environ["NBXMPP_LOG"])


def say(**line):
    """Write one line."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def plain(value):
    """What the library answers, as JSON has it: records as objects, addresses as text, bytes as hexadecimal."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return plain(value.value)
        case str():
            return str(value)
        case JID() | Node():
            return str(value)
        case bytes():
            return value.hex()
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return plain(value._asdict())
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case VCard():
            return str(value.to_node())
    if hasattr(value, "__dict__"):
        return plain(vars(value))
    return str(value)


def given(value):
    """What a test gives: {"jid": text} is an address."""
    if isinstance(value, dict) and value.keys() == {"jid"}:
        return JID.from_string(value["jid"])
    if isinstance(value, list):
        return [given(item) for item in value]
    return value


class Session:
    """One `nbxmpp.client.Client`."""

    def __init__(self, number, command):
        self.number = number
        self.client = client = Client(log_context=str(number))
        client.set_domain(command["domain"])
        client.set_username(command["username"])
        client.set_password(command["password"])
        client.set_resource(command["resource"])
        kind = {"plain": ConnectionType.PLAIN, "starttls": ConnectionType.START_TLS, "direct": ConnectionType.DIRECT_TLS}
        self.trusted = Gio.TlsCertificate.new_from_file(command["cafile"])
        client.set_custom_host(f"127.0.0.1:{command['port']}", ConnectionProtocol.TCP, kind[command["tls"]])
        if command["mechanism"]:
            client.set_mechs({command["mechanism"]})
        # Exactly this one.
        client.set_accepted_certificates([self.trusted])
        self.waiting = None
        client.subscribe("connected", lambda *_: self.settle(outcome="bound"))
        client.subscribe("resume-successful", lambda *_: self.settle(outcome="resumed"))
        client.subscribe("connection-failed", lambda *_: self.settle(outcome="no connection"))
        client.subscribe("disconnected", lambda *_: self.on_disconnected())
        for name, seen in (("message", self.on_message), ("presence", self.on_presence), ("iq", self.on_iq)):
            client.register_handler(StanzaHandler(name=name, callback=seen, priority=100))
        # To know what was offered, and how it logged in.
        self.nonzas = []
        client.subscribe("stanza-sent", lambda _c, _s, stanza: self.nonzas.append(str(stanza)[:80]))

    def settle(self, **outcome):
        """The end of an attempt to connect."""
        if self.waiting is not None:
            number, self.waiting = self.waiting, None
            domain, condition, text = self.client.get_error()
            peer, _ = self.client.peer_certificate if outcome.get("outcome") in ("bound", "resumed") else (None, None)
            say(id=number, value=outcome | {
                "jid": plain(self.client.get_bound_jid()), "error": plain(domain), "condition": condition, "text": text,
                "pinned": peer is not None and peer.is_same(self.trusted),
                "sasl2": any(sent.startswith("<authenticate") for sent in self.nonzas),
            })

    def on_disconnected(self):
        self.settle(outcome="disconnected")
        say(session=self.number, status="disconnected")

    def on_message(self, _client, _stanza, properties):
        event, archived = properties.pubsub_event, properties.mam
        say(session=self.number, message={
            "from": plain(properties.from_), "to": plain(properties.to), "type": plain(properties.type),
            "id": properties.id, "body": properties.body, "delay": properties.user_timestamp,
            "carbon": properties.carbon.type if properties.carbon else None,
            "state": plain(properties.chatstate), "error": properties.error.condition if properties.error else None,
            "archived": plain(archived), "event": event and {
                "node": event.node, "id": event.id, "data": plain(event.data), "retracted": event.retracted},
        })

    def on_presence(self, _client, stanza, properties):
        say(session=self.number, presence={
            "from": plain(properties.jid), "type": stanza.getType() or "available", "show": stanza.getShow() or None,
            "status": properties.status or None, "priority": int(properties.priority or 0),
        })

    def on_iq(self, _client, _stanza, properties):
        if properties.roster is not None:
            say(session=self.number, push=plain(properties.roster.item))
        if properties.blocking is not None:
            say(session=self.number, blocking=plain(properties.blocking))

    def ask(self, number, task):
        """Answer the command with what this request of the library has brought."""
        def done(finished):
            try:
                result = finished.finish()
            except StanzaError as error:
                say(id=number, failed=str(error), condition=error.condition, type=error.type)
            except Exception as error:
                say(id=number, failed=repr(error))
            else:
                say(id=number, value=plain(result))

        if task.state.is_finished:
            done(task)
        else:
            task.add_done_callback(done, weak=False)


def login(session, command):
    SESSIONS[session] = it = Session(session, command)
    it.waiting = command["id"]
    it.client.connect()


def again(session, command):
    """Connect again, by resumption where that is possible."""
    it = SESSIONS[session]
    it.waiting = command["id"]
    it.client.connect()


def drop(session, command):
    """Abort the transport: no stream end."""
    connection = SESSIONS[session].client._con
    connection._con.get_socket().close() if hasattr(connection._con, "get_socket") else connection.disconnect()
    say(id=command["id"], value=None)


def send(session, command):
    kind = {"message": Message, "presence": Presence, "iq": Iq}
    node = Node(node=command["xml"])
    stanza = kind[node.getName()](node=node) if node.getName() in kind else node
    client = SESSIONS[session].client
    client.send_stanza(stanza) if node.getName() in kind else client.send_nonza(stanza)
    say(id=command["id"], value=None)


def request(session, command):
    """An IQ as it stands; the answer is its text."""
    def answered(_client, answer, *_):
        if answer.getType() == "error":
            say(id=command["id"], failed=str(answer), condition=answer.getError(), type=answer.getErrorType())
        else:
            say(id=command["id"], value=str(answer))

    iq = Iq(node=Node(node=command["xml"]))
    SESSIONS[session].client.send_stanza(iq, callback=answered)


def call(session, command):
    """A method of one of the library's modules."""
    module = SESSIONS[session].client.get_module(command["module"])
    arguments = [given(value) for value in command["arguments"]]
    named = {name: given(value) for name, value in command["named"].items()}
    SESSIONS[session].ask(command["id"], getattr(module, command["method"])(*arguments, **named))


def avatar(session, command):
    picture = Avatar()
    picture.add_image_source(bytes.fromhex(command["data"]), "image/png", 1, 1)
    SESSIONS[session].ask(command["id"], SESSIONS[session].client.get_module("UserAvatar").set_avatar(picture, public=True))


def bundle(session, command):
    keys = [{"key": bytes.fromhex(key), "id": number} for number, key in enumerate(command["keys"], 1)]
    made = OMEMOBundle(spk={"key": b"s" * 33, "id": 1}, spk_signature=b"n" * 64, ik=b"i" * 33, otpks=keys)
    omemo = SESSIONS[session].client.get_module("OMEMO")
    SESSIONS[session].ask(command["id"], omemo.set_bundle(made, command["device"]))


def devices(session, command):
    omemo = SESSIONS[session].client.get_module("OMEMO")
    SESSIONS[session].ask(command["id"], omemo.set_devicelist(set(command["devices"])))


def bookmarks(session, command):
    rooms = [BookmarkData(jid=JID.from_string(jid), name=name, autojoin=True) for jid, name in command["rooms"]]
    SESSIONS[session].ask(command["id"], SESSIONS[session].client.get_module("NativeBookmarks").store_bookmarks(rooms))


def vcard(session, command):
    card = VCard()
    card.add_property("fn", value=command["name"])
    SESSIONS[session].ask(command["id"], SESSIONS[session].client.get_module("VCard4").set_vcard(card, public=True))


def close(session, command):
    client = SESSIONS.pop(session).client
    client.disconnect()
    say(id=command["id"], value=None)


COMMANDS = {f.__name__: f for f in (
    login, again, drop, send, request, call, avatar, bundle, devices, bookmarks, vcard, close)}


def run(line):
    command = json.loads(line)
    try:
        COMMANDS[command["do"]](command["session"], command)
    except Exception as error:
        say(id=command["id"], failed=repr(error))
    return GLib.SOURCE_REMOVE


def read(loop):
    for line in sys.stdin:
        GLib.idle_add(run, line)
    GLib.idle_add(loop.quit)


loop = GLib.MainLoop()
threading.Thread(target=read, args=(loop,), daemon=True).start()
loop.run()
