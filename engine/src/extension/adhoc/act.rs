//! What follows from a request for a command: the closed types between this extension and the
//! shard.

use crate::orders::Wanted;
use crate::store::invitation::NewInvitation;

/// The action that a command requests.
#[derive(Clone, PartialEq, Eq)]
pub enum Wish {
    /// An order.
    Order(Wanted),
    /// Issues an invitation from the sender.
    Invite(NewInvitation),
    /// Sets an account's password, after its keys have been derived.
    Password {
        /// Its bare JID.
        account: Box<str>,
        /// The password as received.
        password: Box<str>,
        /// Whether to create the account; otherwise its password is changed.
        create: bool,
    },
}

impl std::fmt::Debug for Wish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Passwords are never printed.
        match self {
            Wish::Order(wanted) => wanted.fmt(f),
            Wish::Invite(new) => new.fmt(f),
            Wish::Password { account, .. } => write!(f, "Password({account})"),
        }
    }
}

/// What follows from a request for a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Starts a session with this form.
    Begin {
        /// The command.
        node: &'static str,
        /// The form.
        form: Vec<u8>,
    },
    /// Cancels a session.
    Cancel {
        /// The command.
        node: &'static str,
        /// The session.
        id: Box<str>,
    },
    /// Carries out the command and ends its session.
    Order {
        /// The command.
        node: &'static str,
        /// The session, if it has one.
        id: Option<Box<str>>,
        /// The requested action.
        wish: Wish,
    },
}
