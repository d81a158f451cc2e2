//! Letters to users, and to their sessions.

use crate::extension::subscription;
use crate::id::SessionId;
use crate::letters::{Name, Span};

/// The kind of a presence letter between two users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PresenceNews {
    /// The sender's resource is available. With `probe`, the receiver's presence is requested in
    /// return (RFC 6121 4.2.2, 4.3).
    Available {
        /// Requests the presence of the receiver's resources; the number is that of a
        /// [`PresenceNews::Probe`].
        probe: Option<u64>,
    },
    /// The sender's resource is unavailable.
    Unavailable,
    /// Only a probe (RFC 6121 4.3).
    Probe {
        /// The number of the sender's latest request to the receiver; see
        /// [`crate::extension::roster`].
        number: u64,
    },
    /// A subscription stanza (RFC 6121 3). The stanza of an `unsubscribed` is an error if the
    /// requested user does not exist (3.1.2).
    Subscription {
        /// Type of the stanza.
        kind: subscription::Kind,
        /// The number of the request that it is, or answers; see [`crate::extension::roster`].
        number: u64,
        /// The number of the requested [`PresenceNews::Noted`]; 0 for none.
        confirm: u64,
    },
    /// The sender was registered by the receiver's invitation. It requests a subscription, which is
    /// granted and answered with another request.
    Joined {
        /// The number of the request.
        number: u64,
    },
    /// The subscription stanza that requested this number has taken effect.
    Noted {
        /// The number.
        confirm: u64,
    },
}

/// Letters for users of a home, or for their sessions.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum UserLetter {
    /// Presence between two users.
    Presence {
        /// The kind of presence.
        news: PresenceNews,
        /// Full JID of the sender's resource; bare for subscriptions.
        from: Name,
        /// The receiver's bare JID.
        to: Name,
        /// The stanza, unaddressed; see [`crate::wire::splice::address`].
        xml: Span,
    },
    /// An event at a node of a user or a service (XEP-0060 7.1.2).
    Event {
        /// The node; of a service, its actor.
        node: Name,
        /// The user's bare JID, or the service.
        from: Name,
        /// Subscribers of this home, separated by NUL.
        subscribers: Name,
        /// Others of this home, separated by NUL: those of their sessions that are interested get
        /// it.
        contacts: Name,
        /// The number of the item at a service's node, if subscribers that are away get it later;
        /// otherwise 0.
        number: u64,
        /// The message, unaddressed.
        xml: Span,
    },
    /// Work that a session's request has caused elsewhere.
    Charge {
        /// The session.
        session: SessionId,
        /// The bare JID of its user, who is charged if the session has ended.
        user: Name,
        /// Work in the unit of [`WORK_EACH`](crate::limits::WORK_EACH).
        work: u64,
    },
    /// A session of the sender is to be sent last items (XEP-0163 4.3.4). A page is answered by
    /// [`UserLetter::Looked`].
    AskLast {
        /// The session.
        session: SessionId,
        /// Its full JID.
        to: Name,
        /// Users of this home, separated by NUL.
        of: Name,
        /// Nodes that interest it, sorted, separated by NUL.
        nodes: Name,
        /// Whether the session waits for the answer before it continues.
        page: bool,
    },
    /// All users that were requested for this session have been read.
    Looked {
        /// The session.
        session: SessionId,
        /// Work of the reads in the unit of [`WORK_EACH`](crate::limits::WORK_EACH).
        work: u64,
    },
}
