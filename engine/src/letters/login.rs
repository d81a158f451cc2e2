//! Letters about accounts and logins.

use std::net::IpAddr;

use crate::id::{ConnId, Peer};
use crate::letters::{ConnRef, Name};
use crate::store::account::{Credentials, Incarnation, KeySet};
use crate::store::hash::Tag;
use crate::store::invitation::{InvitationId, Invited};
use crate::store::report::Report;
use crate::store::token::{TokenAnswer, TokenShown};
use crate::wire::limit::Held;

/// Maximum number of leaves for one account: an invitation's, and that of the account's domain. Two
/// more are accepted.
const LEAVES_MAX: usize = 4;

/// Questions about accounts, and their answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum LoginLetter {
    /// A question about an account or an address, from the shard that has the connection.
    Ask {
        /// The destination of the answer.
        conn: ConnRef,
        /// The account's bare JID; empty for a question about an address.
        account: Name,
        /// The question.
        question: Question,
    },
    /// The answer.
    Answer {
        /// The connection that asked.
        conn: ConnId,
        /// The answer.
        answer: Answer,
    },
    /// The reports of a request are stored, or are finally left out ([`Question::File`]).
    Filed {
        /// The request's token at its user's home.
        token: u64,
    },
    /// A login from this address has failed, or was broken off.
    Failed {
        /// The peer of the connection.
        peer: Peer,
    },
    /// A login succeeded: what its account was charged at the beginning is returned.
    Spared {
        /// The account's bare JID.
        account: Name,
        /// The peer of the connection.
        peer: Peer,
        /// The tag under which the home stores the password that was presented (PLAIN).
        seen: Option<Box<Tag>>,
    },
    /// A login with the right password has provided keys that the account lacked (XEP-0480).
    KeysGained {
        /// The account's bare JID.
        account: Name,
        /// The keys.
        gained: Box<Gained>,
    },
}

/// Keys of hash functions that an account lacked.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gained {
    /// The account and password of the keys; see [`Credentials::identity`].
    pub identity: (Incarnation, u64),
    /// The keys, at most one set for each hash function.
    pub sets: Vec<KeySet>,
}

/// A question to an account's home, or to the shard that counts an address.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Question {
    /// Whether a login from this address may proceed, given its failures. The question goes on to
    /// the account's home as [`Question::Credentials`], which answers the connection: with
    /// [`Answer::Held`] if the address is held and unknown to the account.
    MayLogIn {
        /// The peer of the connection.
        peer: Peer,
        /// What the login presents.
        shows: Shows,
    },
    /// Whether an account may be registered from this address, given earlier registrations. Counts
    /// as one (XEP-0077 6).
    MayRegister {
        /// The peer of the connection.
        peer: Peer,
    },
    /// The credentials for a login.
    Credentials {
        /// The peer of the connection.
        peer: Peer,
        /// What the login presents.
        shows: Shows,
        /// Set if the address is held. The login then proceeds only if another one from it to this
        /// account has succeeded recently.
        held: Option<Box<Held>>,
    },
    /// The external back end has accepted this user's password: the account is created if it does
    /// not exist. The answer is [`Answer::Credentials`].
    Admit,
    /// A login could not be checked because the back end could not be asked. Account and pair get
    /// back what they were charged. Not answered.
    Untried {
        /// The peer of the connection.
        peer: Peer,
    },
    /// The external back end reports this user gone: the account's tokens are void. Not answered.
    Ousted,
    /// Creates the account with these encoded credentials (XEP-0077 3.1).
    Register {
        /// The keys of its password.
        credentials: Box<Credentials>,
        /// The leave to create it. The actor that gave it is informed of the outcome
        /// ([`Question::Settle`]) and answers the connection.
        leave: Option<Box<Leave>>,
    },
    /// Whether a client at this address may present a token, given the address's failed logins. The
    /// question goes on to the home of the token's actor as [`Question::Invitation`], which answers
    /// the connection.
    MayShow {
        /// The peer of the connection.
        peer: Peer,
        /// The invitation.
        id: InvitationId,
    },
    /// What an invitation of this actor permits now (XEP-0445 4).
    Invitation {
        /// The invitation.
        id: InvitationId,
    },
    /// Whether the inviting account exists. The answer is [`Answer::Invited`] with this.
    Vouch(Box<Invited>),
    /// Registers an account by an invitation of this actor; the request goes on to the account's
    /// home.
    Redeem(Box<Redeem>),
    /// Registers an account that an administrator must approve; the actor is the domain.
    Apply(Box<Apply>),
    /// The outcome of a leave that this actor has given.
    Settle(Box<Settle>),
    /// Whether the account was created by this leave. The actor that gave it is informed, and the
    /// connection is to ask again.
    WasMade(Box<Leave>),
    /// An account of this domain no longer waits for approval.
    Decided(Box<str>),
    /// An account has waited too long for approval. It is removed if it still has this incarnation.
    Expired(Incarnation),
    /// Stores reports of a user of this domain. The connection's shard is informed by
    /// [`LoginLetter::Filed`].
    File(Box<Filing>),
}

/// See [`Question::File`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Filing {
    /// Bare JID of the user.
    pub by: Box<str>,
    /// The reports.
    pub reports: Vec<Report>,
    /// The request's token at the user's home.
    pub token: u64,
}

/// See [`Question::Redeem`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Redeem {
    /// The invitation.
    pub id: InvitationId,
    /// The account to create.
    pub account: Box<str>,
    /// The keys of its password.
    pub credentials: Box<Credentials>,
    /// The address from which it is registered.
    pub address: IpAddr,
}

/// See [`Question::Apply`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Apply {
    /// The account to create.
    pub account: Box<str>,
    /// The keys of its password.
    pub credentials: Box<Credentials>,
    /// The address from which it is registered.
    pub address: IpAddr,
    /// The leave of an invitation, which is passed on.
    pub leave: Option<Box<Leave>>,
}

/// Leave to create an account, as recorded by the actor that decides about it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(into = "Vec<OneLeave>", try_from = "Vec<OneLeave>")]
pub struct Leave {
    /// The actor that gave it.
    pub by: Box<str>,
    /// The invitation. If `None`, the giver is the account's domain, and the account waits for
    /// approval.
    pub id: Option<InvitationId>,
    /// The incarnation that the account is to have.
    pub incarnation: Incarnation,
    /// The user who becomes a contact of the account; empty for none.
    pub inviter: Box<str>,
    /// Whether the account's name was given by someone who may give any name: the operator or an
    /// administrator.
    pub gives_name: bool,
    /// An earlier leave, whose giver is informed after this one.
    pub then: Option<Box<Leave>>,
}

/// A leave without the earlier one. A leave is written as a list, so that reading one does not
/// recurse.
#[derive(serde::Serialize, serde::Deserialize)]
struct OneLeave {
    by: Box<str>,
    id: Option<InvitationId>,
    incarnation: Incarnation,
    inviter: Box<str>,
    gives_name: bool,
}

impl From<Leave> for Vec<OneLeave> {
    fn from(leave: Leave) -> Vec<OneLeave> {
        let (mut all, mut next) = (Vec::new(), Some(Box::new(leave)));
        while let Some(leave) = next {
            let Leave { by, id, incarnation, inviter, gives_name, then } = *leave;
            all.push(OneLeave { by, id, incarnation, inviter, gives_name });
            next = then;
        }
        all
    }
}

impl TryFrom<Vec<OneLeave>> for Leave {
    type Error = &'static str;

    fn try_from(all: Vec<OneLeave>) -> Result<Leave, Self::Error> {
        if all.len() > LEAVES_MAX {
            return Err("more leaves to create one account than it can need");
        }
        let mut first = None;
        for OneLeave { by, id, incarnation, inviter, gives_name } in all.into_iter().rev() {
            let then = first.map(Box::new);
            first = Some(Leave { by, id, incarnation, inviter, gives_name, then });
        }
        first.ok_or("a leave to create an account that nobody gave")
    }
}

/// See [`Question::Settle`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Settle {
    /// The leave.
    pub leave: Leave,
    /// The account.
    pub account: Box<str>,
    /// Whether it was created.
    pub made: bool,
    /// The answer for the connection.
    pub answer: Answer,
}

/// What a login presents.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Shows {
    /// A proof, which the connection's shard checks.
    Proof,
    /// A password. Its check is faster if the last accepted one is known.
    Password,
    /// A token, which the account's home checks: [`Answer::Token`].
    Token(Box<TokenShown>),
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Answer {
    /// The address may proceed.
    May,
    /// The credentials of an account, which is charged for the attempt.
    Credentials {
        /// Its bare JID.
        account: Box<str>,
        /// Its row; `None` if the account does not exist.
        row: Option<Box<[u8]>>,
        /// The tag of the last accepted password, if it was requested.
        seen: Option<Box<Tag>>,
    },
    /// The result for a token. The account is charged for the attempt.
    Token(Box<TokenAnswer>),
    /// Not now: there were too many failed logins, or registrations.
    Held(Held),
    /// The account was created.
    Registered,
    /// An account of this name exists.
    Taken,
    /// The name is reserved for another invitation.
    Reserved,
    /// The token permits registration.
    Invited(Box<Invited>),
    /// The token does not permit registration.
    NotInvited,
    /// An earlier use that was interrupted has been checked: ask again.
    Again,
    /// The store is full; try again later.
    StoreFull,
    /// The account's row cannot be read: it is damaged.
    Unreadable,
}
