//! What follows from a request for a command: the closed types between this extension and the
//! shard.

use crate::extension::written;
use crate::orders::Wanted;
use crate::store::invitation::NewInvitation;

/// The node of a command, which this build has.
pub type CommandNode = &'static str;

/// The action that a command requests.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Act {
    /// Starts a session with this form.
    Begin {
        /// The command.
        #[serde(with = "written::command")]
        node: CommandNode,
        /// The form.
        form: Vec<u8>,
    },
    /// Cancels a session.
    Cancel {
        /// The command.
        #[serde(with = "written::command")]
        node: CommandNode,
        /// The session.
        id: Box<str>,
    },
    /// Carries out the command and ends its session.
    Order {
        /// The command.
        #[serde(with = "written::command")]
        node: CommandNode,
        /// The session, if it has one.
        id: Option<Box<str>>,
        /// The requested action.
        wish: Wish,
    },
}
