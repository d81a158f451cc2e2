//! What follows from a request for a command: the closed types between this extension and the shard.

use crate::orders::Wanted;
use crate::store::invitation::NewInvitation;

/// What a command wants to be done.
#[derive(Clone, PartialEq, Eq)]
pub enum Wish {
    /// This.
    Order(Wanted),
    /// An invitation of the sender's own.
    Invite(NewInvitation),
    /// An account with the keys of this password, which are derived first.
    Password {
        /// Its bare JID.
        account: Box<str>,
        /// The password as it was sent.
        password: Box<str>,
        /// Make it; otherwise change its password.
        create: bool,
    },
}

impl std::fmt::Debug for Wish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No passwords, however it comes to be printed.
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
    /// A session begins, with this form.
    Begin {
        /// The command.
        node: &'static str,
        /// The form.
        form: Vec<u8>,
    },
    /// A session is given up.
    Cancel {
        /// The command.
        node: &'static str,
        /// The session.
        id: Box<str>,
    },
    /// The command is carried out, and its session ends.
    Order {
        /// The command.
        node: &'static str,
        /// The session, if it has one.
        id: Option<Box<str>>,
        /// What is wanted.
        wish: Wish,
    },
}
