//! Letters to nodes of services, and from them.

use crate::extension::push::answer::Outcome;
use crate::letters::{Name, Span};

/// Letters between nodes of services and users of other homes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum NodeLetter {
    /// A service has answered a publication of this home (XEP-0357 7).
    ServiceAnswered {
        /// The id of the publication.
        id: Name,
        /// The JID of the answer.
        from: Name,
        /// The result.
        outcome: Outcome,
    },
    /// A node of a service, at the sender's home, reports its relation to a user, or to the service
    /// itself.
    Belongs {
        /// The user's bare JID, or the service.
        to: Name,
        /// The node: its actor for a user, its name for the service.
        node: Name,
        /// Whether the user has requested it.
        own: bool,
        /// The user's relation, or how the node is shown; empty for none.
        row: Span,
    },
    /// Subscribers of a node were away when an item was sent to them.
    Missed {
        /// The node's actor.
        node: Name,
        /// The item's number.
        number: u64,
        /// Bare JIDs, separated by NUL.
        users: Name,
    },
    /// A user that has missed items of a node is back. The answer is [`NodeLetter::CaughtUp`].
    CatchUp {
        /// The node's actor.
        node: Name,
        /// The user's bare JID.
        user: Name,
    },
    /// The items that a user has missed. From here on, the node sends it events again.
    CaughtUp {
        /// The node's actor.
        node: Name,
        /// The service.
        from: Name,
        /// The user's bare JID.
        user: Name,
        /// A page (`follow::Page`) of messages, unaddressed.
        page: Span,
    },
    /// The account of a user was removed, and a node of a service may refer to it.
    Forget {
        /// The node's actor.
        node: Name,
        /// The user's bare JID.
        user: Name,
    },
}
