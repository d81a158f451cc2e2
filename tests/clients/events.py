"""What a client saw, in one form for every client, and how a test waits for it.

Knows nothing of any client library: the actors translate what their library
reports into these records.
"""

import asyncio
import inspect
import time
from dataclasses import dataclass, field

#: Seconds a test waits for one event before it fails: no measure of the server, which may share the machine.
WAIT = 60.0


#: What says something about another message, and names it by its id: element and namespace (XEP-0184, XEP-0333, XEP-0308, XEP-0461,
#: XEP-0444).
ABOUT = {"received": "urn:xmpp:receipts", "displayed": "urn:xmpp:chat-markers:0", "replace": "urn:xmpp:message-correct:0",
         "reply": "urn:xmpp:reply:0", "reactions": "urn:xmpp:reactions:0"}


class StanzaError(Exception):
    """A stanza of type "error" in answer to a request (RFC 6120 8.3)."""

    def __init__(self, condition, error_type=None):
        super().__init__(f"{condition} ({error_type})")
        self.condition = condition
        self.error_type = error_type


class LoginFailed(Exception):
    """SASL or registration was refused; the argument is the condition."""


@dataclass
class Message:
    """One received message stanza; `error` is the condition of an error, `app`
    its application-specific condition, `state` a chat state (XEP-0085), `about`
    what it says about another message, and the id of that."""

    sender: str
    type: str
    body: str | None
    id: str | None = None
    delay: str | None = None
    error: str | None = None
    state: str | None = None
    app: str | None = None
    about: tuple | None = None


@dataclass
class Copy:
    """One carbon copy (XEP-0280) that the client accepts as the server's:
    `way` is "sent" or "received", `type` that of the wrapping message, `to`
    whom the original is for, `delay` when it was sent if that is said."""

    way: str
    type: str
    to: str
    message: Message
    delay: str | None = None


@dataclass
class Archived:
    """One result of an archive query (XEP-0313): its id there, when it came,
    and the message."""

    id: str
    stamp: str
    sender: str
    to: str
    body: str | None
    about: tuple | None = None


@dataclass
class Call:
    """One request of a Jingle session (XEP-0166) that came: `fingerprint` is a
    text deep inside it."""

    sender: str
    action: str
    sid: str
    fingerprint: str


@dataclass
class BlockPush:
    """One change of the block list (XEP-0191) that the server reports: `verb`
    is "block" or "unblock"."""

    verb: str
    jids: frozenset


@dataclass
class Presence:
    """One received presence stanza; `type` is "available" where it is absent."""

    sender: str
    type: str
    show: str | None = None
    status: str | None = None
    priority: int = 0


@dataclass
class RosterItem:
    """One roster item, from a roster result or a push."""

    jid: str
    subscription: str
    ask: bool = False
    name: str | None = None
    groups: frozenset = field(default_factory=frozenset)


def bare(jid):
    """The bare form of an address given as text."""
    return str(jid).split("/", 1)[0]


async def until(holds, what, timeout=WAIT):
    """Wait until something holds that nothing reports: a function, or a coroutine function, that is asked again and again. Its
    answer."""
    deadline = time.monotonic() + timeout
    while True:
        answer = holds()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, f"no {what} in {timeout:.0f} s"
        await asyncio.sleep(0.05)


class EventLog:
    """All events of one session in their order; waits look at the whole log
    from `since` on, so that an event may come before the test asks for it."""

    def __init__(self, name):
        self.name = name
        self.events = []
        self._changed = asyncio.Event()

    def add(self, event):
        """Append one event and wake the waiting test."""
        self.events.append(event)
        self._changed.set()

    def mark(self):
        """A position for `since`."""
        return len(self.events)

    def of(self, kind, since=0):
        """All events of one class from `since` on."""
        return [e for e in self.events[since:] if isinstance(e, kind)]

    async def wait(self, what, match, since=0, timeout=WAIT):
        """The first event from `since` on for which `match` holds."""
        deadline = time.monotonic() + timeout
        position = since
        while True:
            while position < len(self.events):
                event = self.events[position]
                position += 1
                if match(event):
                    return event
            self._changed.clear()
            left = deadline - time.monotonic()
            try:
                await asyncio.wait_for(self._changed.wait(), max(left, 0.001))
            except asyncio.TimeoutError:
                seen = "\n".join(f"    {e}" for e in self.events)
                raise AssertionError(
                    f"{self.name}: no {what} in {timeout} s; it saw:\n{seen}"
                ) from None
