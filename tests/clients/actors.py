"""The client libraries by name."""

from actor_aioxmpp import AioxmppActor
from actor_nbxmpp import NbxmppActor
from actor_slixmpp import SlixmppActor
from actor_xmppjs import XmppjsActor

KINDS = {a.kind: a for a in (SlixmppActor, AioxmppActor, XmppjsActor)}
#: With those that have tests of their own only, so that not every test runs once more.
ALL = KINDS | {NbxmppActor.kind: NbxmppActor}


def other(kind):
    """Another client for the other side of a conversation."""
    return "xmppjs" if kind == "slixmpp" else "slixmpp"
