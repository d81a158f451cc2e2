"""The client libraries by name."""

from actor_aioxmpp import AioxmppActor
from actor_slixmpp import SlixmppActor
from actor_xmppjs import XmppjsActor

KINDS = {a.kind: a for a in (SlixmppActor, AioxmppActor, XmppjsActor)}
