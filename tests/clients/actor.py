"""One client session as the tests see it: what every client can be asked for.

A subclass drives one client library through that library's own interface.
The scenarios know only this class and the events.
"""

import itertools

from events import BlockPush, Call, Copy, EventLog, Message, Presence, RosterItem, bare

_ids = itertools.count(1)


class Actor:
    """A session of one account with one client.

    `capabilities` names what the client can do beyond the common part:
    "register", "plus" (SCRAM with channel binding), "scram-sha-256",
    "resume", "resend" (sends unacknowledged stanzas again after a resume),
    "restart" (resumes after the stream's orderly end, too: aioxmpp forgets the
    session on each stream error, and takes an end by FIN for no failure),
    "removal" (of its account), "carbons", "csi", "blocking", "services",
"archive", "upload".
    """

    kind = "?"
    capabilities = frozenset()

    def __init__(self, server, tls, account, resource, port, priority=0):
        self.server = server
        self.tls = tls
        self.account = account
        self.resource = resource
        self.port = port
        self.priority = priority
        self.log = EventLog(f"{self.kind} {account.jid}/{resource}")
        #: The full address the server bound.
        self.jid = None

    @property
    def bare(self):
        """The account's address."""
        return self.account.jid

    # What a client library has to provide.

    async def connect(self, mechanism=None, register=False):
        """Log in up to the bound resource, with stream management where the
        client has it. Raises `LoginFailed`."""
        raise NotImplementedError

    async def close(self):
        """End the stream in order; a second call does nothing."""
        raise NotImplementedError

    def hold(self):
        """Do not connect again until `resume` is called."""

    def drop(self):
        """Abort the client's transport: no stream end, no TLS alert."""
        raise NotImplementedError

    async def resume(self):
        """Connect again; True if the stream was resumed (XEP-0198 5)."""
        raise NotImplementedError

    def send_message(self, to, body, type="chat", id=None):
        """Send a message."""
        raise NotImplementedError

    def send_private(self, to, body):
        """Send a message that is not to be copied (XEP-0280 9)."""
        raise NotImplementedError

    def send_state(self, to, state="composing"):
        """Send a chat state alone (XEP-0085)."""
        raise NotImplementedError

    def send_about(self, to, name, id, body=None):
        """Say something about a message (see `events.ABOUT`), as the client does."""
        raise NotImplementedError

    async def call(self, to, sid, fingerprint):
        """Offer a Jingle session (XEP-0166 6.2) and wait until it is acknowledged; raises
        `StanzaError`. Offers that come are acknowledged."""
        raise NotImplementedError

    def send_forged_copy(self, to, pretended_from, body):
        """Send what looks like a carbon copy (XEP-0280 7, example 8)."""
        raise NotImplementedError

    def send_presence(self, to=None, type=None, show=None, status=None, priority=None):
        """Send a presence stanza."""
        raise NotImplementedError

    async def roster(self):
        """The roster as {bare JID: RosterItem}."""
        raise NotImplementedError

    async def roster_set(self, jid, name=None, groups=()):
        """Add or change an item (RFC 6121 2.3, 2.4)."""
        raise NotImplementedError

    async def roster_remove(self, jid):
        """Remove an item (RFC 6121 2.5)."""
        raise NotImplementedError

    async def ping(self, to=None):
        """XEP-0199; raises `StanzaError`."""
        raise NotImplementedError

    async def archive(self, with_jid=None, max=None, before=None, after=None, to=None):
        """One page of an archive (XEP-0313): ([Archived], complete). An empty
        `before` asks for the last one. Raises `StanzaError`."""
        raise NotImplementedError

    async def archive_ends(self):
        """Ids of the first and the last message of the archive, or None."""
        raise NotImplementedError

    async def archive_prefs(self, default, always=(), never=()):
        """Set the preferences (XEP-0441); those that the server has taken."""
        raise NotImplementedError

    async def disco_info(self, to):
        """({(category, type)}, {feature}) by XEP-0030."""
        raise NotImplementedError

    async def set_vcard(self, name):
        """Publish a vCard (XEP-0054) with this full name."""
        raise NotImplementedError

    async def vcard(self, of=None):
        """The full name in a vCard, the own one or another's; raises `StanzaError`."""
        raise NotImplementedError

    async def contact_addresses(self, to):
        """{field: [address]} of the server by XEP-0157."""
        raise NotImplementedError

    async def upload_service(self):
        """Where files are uploaded, and the longest file (XEP-0363 3)."""
        raise NotImplementedError

    async def slot(self, service, name, size, content_type=None):
        """A slot (XEP-0363 4): URL of PUT, its headers, URL of GET; raises `StanzaError`."""
        raise NotImplementedError

    async def http(self, method, url, headers=None, body=None):
        """Status, headers in lower case and body of a request by the client's HTTP library."""
        raise NotImplementedError

    async def services(self, kind=None):
        """The attributes of each external service (XEP-0215 3.1, 3.2)."""
        raise NotImplementedError

    async def credentials(self, host, kind):
        """The same with credentials for it (XEP-0215 3.3); raises `StanzaError`."""
        raise NotImplementedError

    async def version(self, to):
        """The name of the software by XEP-0092."""
        raise NotImplementedError

    async def change_password(self, password):
        """XEP-0077 3.3; raises `StanzaError`."""
        raise NotImplementedError

    async def remove_account(self):
        """XEP-0077 3.2; raises `StanzaError`. The server ends the stream after it."""
        raise NotImplementedError

    async def carbons(self, on=True, to=None):
        """Enable or disable carbons (XEP-0280 4, 5); raises `StanzaError`."""
        raise NotImplementedError

    def client_state(self, active):
        """Say that the client is active, or inactive (XEP-0352 4.2)."""
        raise NotImplementedError

    async def blocklist(self):
        """The blocked addresses, after which changes are reported
        (XEP-0191 3.2)."""
        raise NotImplementedError

    async def block(self, *jids):
        """Block addresses (XEP-0191 3.3); raises `StanzaError`."""
        raise NotImplementedError

    async def block_and_report(self, jid, reason, text, ids=()):
        """Block an address and tell the operator why (XEP-0377 4)."""
        raise NotImplementedError

    async def unblock(self, *jids):
        """Unblock addresses, or all of them (XEP-0191 3.4, 3.5); raises
        `StanzaError`."""
        raise NotImplementedError

    async def flush(self):
        """Wait until the client has written all that it was told to send."""
        raise NotImplementedError

    # What follows from it.

    async def online(self):
        """Fetch the roster (so that pushes come) and send initial presence,
        then wait until the server has reflected it (RFC 6121 4.2.2)."""
        await self.roster()
        since = self.log.mark()
        self.send_presence(priority=self.priority)
        await self.wait_presence(self.jid, since=since)
        return self

    async def wait_message(self, body, sender=None, since=0):
        """The message with this body."""
        return await self.log.wait(
            f"message {body!r}",
            lambda e: isinstance(e, Message)
            and e.body == body
            and e.type != "error"
            and (sender is None or e.sender == sender or bare(e.sender) == sender),
            since,
        )

    async def wait_about(self, name, id, copied=False):
        """The message that says this about another one, or a copy of it."""
        return await self.log.wait(
            f"{name} of {id}",
            lambda e: isinstance(e, Copy if copied else Message)
            and (e.message if copied else e).about == (name, id),
        )

    async def wait_call(self, sid):
        """The offer of this session."""
        return await self.log.wait(f"call {sid}", lambda e: isinstance(e, Call) and e.sid == sid)

    async def wait_error(self, sender, since=0):
        """The error message from this address."""
        return await self.log.wait(
            f"error from {sender}",
            lambda e: isinstance(e, Message) and e.type == "error" and e.sender == sender,
            since,
        )

    async def wait_presence(self, sender, type="available", show=None, since=0):
        """The presence of this type from this full or bare address."""
        return await self.log.wait(
            f"presence {type} {show} from {sender}",
            lambda e: isinstance(e, Presence)
            and e.type == type
            and e.show == show
            and sender in (e.sender, bare(e.sender)),
            since,
        )

    async def wait_push(self, jid, subscription, ask=False, since=0):
        """The roster push that leaves the item in this state."""
        return await self.log.wait(
            f"push {jid} {subscription} ask={ask}",
            lambda e: isinstance(e, RosterItem)
            and (e.jid, e.subscription, e.ask) == (jid, subscription, ask),
            since,
        )

    async def wait_copy(self, body, way=None, since=0):
        """The carbon copy of the message with this body."""
        return await self.log.wait(
            f"copy of {body!r}",
            lambda e: isinstance(e, Copy)
            and e.message.body == body
            and (way is None or e.way == way),
            since,
        )

    async def wait_block_push(self, verb, *jids, since=0):
        """The report that these addresses, or all, have been blocked or unblocked."""
        return await self.log.wait(
            f"report {verb} {jids}", lambda e: e == BlockPush(verb, frozenset(jids)), since
        )

    def copies(self, since=0):
        """(way, body) of all carbon copies received, in order."""
        return [(e.way, e.message.body) for e in self.log.of(Copy, since)]

    def states(self, since=0):
        """Chat states of all messages received, in order."""
        return [e.state for e in self.log.of(Message, since) if e.state]

    def bodies(self, since=0):
        """Bodies of all messages received, errors left out, in order."""
        return [
            e.body
            for e in self.log.of(Message, since)
            if e.body is not None and e.type != "error"
        ]

    def presences(self, sender, since=0):
        """Types of the presence stanzas from this bare or full address."""
        return [
            e.type
            for e in self.log.of(Presence, since)
            if sender in (e.sender, bare(e.sender))
        ]

    async def settle(self, peer, since=None):
        """A marker from `peer` has arrived here: all that `peer` sent to this
        session before has arrived, too (RFC 6120 10.1 keeps the order)."""
        body = f"marker {next(_ids)}"
        peer.send_message(self.jid, body)
        await self.wait_message(body)
        return body
