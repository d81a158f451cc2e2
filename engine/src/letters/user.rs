//! Letters to users, and to sessions of theirs.

use crate::extension::subscription;
use crate::id::SessionId;
use crate::letters::{Name, Span};

/// What a presence letter between two users says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceNews {
    /// The sender's resource is available; with `probe` the receiver's presence is asked for in return (RFC 6121 4.2.2, 4.3).
    Available {
        /// Answer with the presence of the receiver's resources; the number is that of a [`PresenceNews::Probe`].
        probe: Option<u64>,
    },
    /// The sender's resource has gone.
    Unavailable,
    /// Only the question (RFC 6121 4.3).
    Probe {
        /// The number of the sender's latest request to the receiver; see [`crate::extension::roster`].
        number: u64,
    },
    /// A subscription stanza (RFC 6121 3). The stanza of an `unsubscribed` is an error if there is nobody who could have
    /// answered the request (3.1.2).
    Subscription {
        /// Which of the four.
        kind: subscription::Kind,
        /// The number of the request that it is or answers; see [`crate::extension::roster`].
        number: u64,
        /// The number of the [`PresenceNews::Noted`] that is wanted for it; 0 for none.
        confirm: u64,
    },
    /// The sender was registered by the receiver's invitation: it asks for a subscription that is granted, and answered with another.
    Joined {
        /// The number of the request.
        number: u64,
    },
    /// The subscription stanza that wanted this number has had its effect.
    Noted {
        /// The number.
        confirm: u64,
    },
}

/// What is for users of a home, or for sessions of theirs.
#[derive(Clone, Debug, PartialEq)]
pub enum UserLetter {
    /// Presence between two users.
    Presence {
        /// What it says.
        news: PresenceNews,
        /// Full JID of the sender's resource; bare for subscriptions.
        from: Name,
        /// The receiver's bare JID.
        to: Name,
        /// The stanza, unaddressed; see [`crate::wire::splice::address`].
        xml: Span,
    },
    /// Something has happened at a node of a user (XEP-0060 7.1.2).
    Event {
        /// The node.
        node: Name,
        /// The user's bare JID.
        from: Name,
        /// Receivers of this home, with NUL between them.
        to: Name,
        /// They are subscribed; otherwise those of their sessions get it that are interested.
        explicit: bool,
        /// The message, unaddressed.
        xml: Span,
    },
    /// What a session has asked for has cost this elsewhere.
    Charge {
        /// The session.
        session: SessionId,
        /// The bare JID of its user, who pays if it has ended.
        user: Name,
        /// As [`WORK_EACH`](crate::limits::WORK_EACH) counts it.
        work: u64,
    },
    /// A session of the sender's is to be sent last items (XEP-0163 4.3.4); a page is answered by
    /// [`UserLetter::Looked`].
    AskLast {
        /// The session.
        session: SessionId,
        /// Its full JID.
        to: Name,
        /// Users of this home, with NUL between them.
        of: Name,
        /// Nodes in which it is interested, sorted, with NUL between them.
        nodes: Name,
        /// The session waits for the answer before it asks after others.
        page: bool,
    },
    /// All users that were asked after for this session have been looked at.
    Looked {
        /// The session.
        session: SessionId,
        /// What was read for it, as [`WORK_EACH`](crate::limits::WORK_EACH) counts it.
        work: u64,
    },
}
