//! Letters to nodes of services, and from them.

use crate::extension::push::answer::Outcome;
use crate::letters::{Name, Span};

/// What nodes of services and users of other homes have to say to each other.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeLetter {
    /// A service has answered what this home has published (XEP-0357 7).
    ServiceAnswered {
        /// The id of the publication.
        id: Name,
        /// The JID that has answered.
        from: Name,
        /// What it says.
        outcome: Outcome,
    },
    /// A node of a service, of the sender's home, says what it has to do with a user, or with the service itself.
    Belongs {
        /// The user's bare JID, or the service.
        to: Name,
        /// The node: its actor for a user, its name for the service.
        node: Name,
        /// The user has asked for it.
        own: bool,
        /// What the user is there, or how the node is shown; empty for nothing.
        row: Span,
    },
    /// The account of a user is gone, whom a node of a service may know.
    Forget {
        /// The node's actor.
        node: Name,
        /// The user's bare JID.
        user: Name,
    },
}
