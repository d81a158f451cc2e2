//! The destination of a session's stanza, and the point at which the stanza is safe (XEP-0198 4).

use std::borrow::Cow;

use crate::actors::Actors;
use crate::id::{ActorKind, Service, SessionId};
use crate::letters::Origin;
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::wire::jid;
use crate::wire::jid::JidRef;

/// Destination of a stanza, as seen by the sender's server.
pub(crate) enum Address<'a> {
    /// No `to`, or the sender's own bare JID.
    Own,
    /// A domain that is served: the server itself.
    Server,
    /// A user of a domain that is served, bare or full, or an address at the domain of a component or of
    /// rooms.
    User(JidRef<'a>),
    /// A service with a domain of its own.
    Service(Service),
    /// An address that such a service does not have.
    Nobody,
    /// Any other domain.
    Remote,
    /// Not a JID.
    Malformed,
}

impl Actors {
    pub(crate) fn is_own_address(&self, full: &str, from: &str) -> bool {
        from == full
            || jid::normalise(from)
                .is_ok_and(|from| *from == *full || full.strip_prefix(&*from).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Parses the `to` of a stanza. `scratch` holds the normalised text.
    pub(crate) fn address<'a>(
        &self,
        cx: &Streams,
        full: &str,
        to: Option<&'a str>,
        scratch: &'a mut Cow<'a, str>,
    ) -> Address<'a> {
        let Some(to) = to else { return Address::Own };
        *scratch = match jid::normalise(to) {
            Ok(to) => to,
            Err(_) => return Address::Malformed,
        };
        let to = JidRef::from_normalised(scratch);
        let Some((_, kind)) = cx.kernel.settings.domains.of(to.as_str()) else { return Address::Remote };
        match to.local() {
            None => match kind {
                ActorKind::Users => Address::Server,
                ActorKind::Service(service) => Address::Service(service),
                ActorKind::Component | ActorKind::Rooms => Address::User(to),
            },
            Some(_) if to.is_bare() && full.strip_prefix(to.as_str()).is_some_and(|r| r.starts_with('/')) => {
                Address::Own
            }
            Some(_) => match kind {
                ActorKind::Users | ActorKind::Component | ActorKind::Rooms => Address::User(to),
                ActorKind::Service(_) => Address::Nobody,
            },
        }
    }

    /// The stanza with this inbound number is safe.
    pub(crate) fn stanza_done(&mut self, cx: &mut Streams, session: SessionId, seq: u32) {
        if self.observers.is_some() {
            self.tap_safe(cx, session, seq);
        }
        cx.tell(session, Down::Safe(seq));
    }

    /// A stanza leaves for another home. Returns where its confirmation goes.
    pub(crate) fn sent_off(&mut self, cx: &mut Streams, session: SessionId, seq: u32, bytes: usize) -> Option<Origin> {
        self.sessions.get(session)?;
        cx.tell(session, Down::UnderWay(bytes));
        Some(Origin { shard: cx.kernel.id, session, seq, entry: 0 })
    }

    /// A stanza in flight is confirmed.
    pub(crate) fn confirmed(&mut self, cx: &mut Streams, session: SessionId, seq: u32) {
        cx.tell(session, Down::Arrived);
        self.stanza_done(cx, session, seq);
    }
}
