"""A plugin of Gajim that takes commands of the tests, one line of JSON each, over the socket that THRONG_DRIVER names, and
reports what Gajim tells its plugins."""

import json
import os
import socket
from pathlib import Path

from gajim.common import app, configpaths, ged
from gajim.common.structs import OutgoingMessage
from gajim.plugins import GajimPlugin
from gi.repository import Gio, GLib
from nbxmpp.http import HTTPSession
from nbxmpp.protocol import JID

ACCOUNT = "main"


def trust_by_http(certificate):
    """Its HTTP trusts what the system trusts, and not the certificate that its streams have been told to trust."""
    trusted = Gio.TlsFileDatabase.new(certificate)
    made = HTTPSession.__init__

    def make(session, *arguments, **named):
        made(session, *arguments, **named)
        session.get_soup_session().set_tls_database(trusted)

    HTTPSession.__init__ = make


class ThrongDriver(GajimPlugin):
    def init(self):
        self.events_handlers = {
            "signed-in": (ged.POSTGUI, lambda event: self.say(event="signed-in")),
            "account-connected": (ged.POSTGUI, lambda event: self.say(event="connected")),
            "account-disconnected": (ged.POSTGUI, lambda event: self.say(event="disconnected")),
            "message-received": (ged.POSTGUI, self.on_message),
            "mam-message-received": (ged.POSTGUI, self.on_message),
            "message-sent": (ged.POSTGUI, lambda event: self.say(event="sent", body=event.message,
                                                                 encrypted=self.encrypted(event))),
            "gc-message-received": (ged.POSTGUI, lambda event: self.say(event=event.name, room=event.room_jid, nick=event.resource,
                                                                       body=event.msgtxt)),
            "archiving-interval-finished": (ged.POSTGUI, lambda event: self.say(event="archive read")),
            "http-upload-started": (ged.POSTGUI, self.on_upload),
            "http-upload-error": (ged.POSTGUI, lambda event: self.say(event="upload failed", text=event.error_msg)),
        }
        self.socket = None
        trust_by_http(str(configpaths.get("CERT_STORE") / "server"))

    def activate(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["THRONG_DRIVER"])
        self.rest = b""
        GLib.io_add_watch(self.socket.fileno(), GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, self.on_input)
        self.say(event="started")

    def say(self, **line):
        self.socket.sendall(json.dumps(line).encode() + b"\n")

    @staticmethod
    def encrypted(event):
        """The name of the encryption, as Gajim shows it."""
        return event.additional_data.get_value("encrypted", "name")

    def on_message(self, event):
        self.say(event=event.name, sender=str(event.jid), body=event.msgtxt, encrypted=self.encrypted(event))

    def on_upload(self, event):
        event.transfer.connect("state-changed", self.on_upload_changed)

    def on_upload_changed(self, _transfer, _signal, state):
        self.say(event="upload", state=state.name)

    def on_input(self, _source, _condition):
        data = self.socket.recv(1 << 16)
        if not data:
            # As by its menu: it says goodbye first.
            app.app.start_shutdown(message="")
            return GLib.SOURCE_REMOVE
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            command = json.loads(line)
            try:
                getattr(self, "do_" + command.pop("do"))(**command)
            except Exception as error:
                self.say(event="error", text=repr(error))
        return GLib.SOURCE_CONTINUE

    @staticmethod
    def contact(jid):
        return app.get_client(ACCOUNT).get_module("Contacts").get_contact(JID.from_string(jid))

    def do_encrypt(self, to):
        """All to this contact is encrypted from now on, as by the menu of the chat; first its keys are fetched."""
        app.settings.set_contact_setting(ACCOUNT, JID.from_string(to), "encryption", "OMEMO")
        app.get_client(ACCOUNT).get_module("OMEMO").request_devicelist(to)
        GLib.timeout_add(50, self.look_for_keys, to)

    def look_for_keys(self, to):
        omemo = app.get_client(ACCOUNT).get_module("OMEMO")
        # As the chat does before it sends: the devices, and for each of them a key.
        if not omemo.backend.get_devices(to, without_self=True) or omemo.are_keys_missing(to):
            return GLib.SOURCE_CONTINUE
        self.say(event="keys", of=to)
        return GLib.SOURCE_REMOVE

    def do_chat(self, to):
        """Open the window of a chat."""
        app.window.add_chat(ACCOUNT, JID.from_string(to), "contact", select=True)
        app.window.present()
        self.say(event="chat")

    def do_send(self, to, body):
        message = OutgoingMessage(account=ACCOUNT, contact=self.contact(to), message=body, type_="chat")
        app.get_client(ACCOUNT).send_message(message)

    def do_watch(self, room):
        """What happens in a room is reported, and first that it has been entered."""
        client = app.get_client(ACCOUNT)
        client.get_module("Contacts").add_contact(JID.from_string(room), groupchat=True)
        contact = self.contact(room)
        contact.multi_connect({"room-joined": self.on_entered, "user-nickname-changed": self.on_renamed})
        if contact.is_joined:
            self.on_entered(contact, None)

    def on_entered(self, contact, _signal, *_rest):
        self.say(event="entered", room=str(contact.jid))

    def on_renamed(self, contact, _signal, event, *_rest):
        self.say(event="renamed", room=str(contact.jid), old=event.old_name, new=event.new_name)

    def do_say(self, room, body):
        """A line into a room."""
        message = OutgoingMessage(account=ACCOUNT, contact=self.contact(room), message=body, type_="groupchat")
        app.get_client(ACCOUNT).send_message(message)

    def do_upload(self, to, path):
        app.get_client(ACCOUNT).get_module("HTTPUpload").send_file(self.contact(to), Path(path))

    def do_history(self, of):
        """What its own history has of a contact, oldest first: what its windows show."""
        lines = app.storage.archive.get_conversation_before_after(
            ACCOUNT, JID.from_string(of), before=True, timestamp=GLib.get_real_time() / 1e6 + 60, n_lines=100)
        self.say(event="history", bodies=[line.message for line in reversed(list(lines))])
