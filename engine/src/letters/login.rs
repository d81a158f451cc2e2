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

/// What is asked about accounts, and what is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum LoginLetter {
    /// A question about an account or an address from the shard that holds the connection.
    Ask {
        /// Where the answer goes.
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
    /// What a request has reported is kept, or left out for good ([`Question::File`]).
    Filed {
        /// What its user's home knows the request by.
        token: u64,
    },
    /// A login from this address has failed, or was broken off.
    Failed {
        /// The peer of the connection.
        peer: Peer,
    },
    /// A login succeeded: what its account was charged when it began is given back.
    Spared {
        /// The account's bare JID.
        account: Name,
        /// The peer of the connection.
        peer: Peer,
        /// What its home is to know the password by that it has shown (PLAIN).
        seen: Option<Box<Tag>>,
    },
    /// A login has shown the right password: the account gains keys that it lacked (XEP-0480).
    KeysGained {
        /// The account's bare JID.
        account: Name,
        /// The keys.
        gained: Box<Gained>,
    },
}

/// Keys of hash functions that an account had none of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gained {
    /// Of which account under which password, see [`Credentials::identity`].
    pub identity: (Incarnation, u64),
    /// The keys, at most one set for each hash function.
    pub sets: Vec<KeySet>,
}

/// What a shard may ask of an account's home, or of the shard that counts for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether a login from this address may go on, after those that have failed. The account's home is asked for
    /// [`Question::Credentials`] and answers the connection: [`Answer::Held`] if the address is held and not known to it.
    MayLogIn {
        /// The peer of the connection.
        peer: Peer,
        /// What it shows.
        shows: Shows,
    },
    /// Whether an account may be registered from this address, after those that were; counts as one (XEP-0077 6).
    MayRegister {
        /// The peer of the connection.
        peer: Peer,
    },
    /// The credentials for a login.
    Credentials {
        /// The peer of the connection.
        peer: Peer,
        /// What it shows.
        shows: Shows,
        /// The address is held: only if a login from it to this account has succeeded lately does it go on.
        held: Option<Box<Held>>,
    },
    /// Whoever keeps this user elsewhere has said that the password is right: an account is made if there is none. The answer is
    /// [`Answer::Credentials`].
    Admit,
    /// A login has begun about which nobody could be asked: account and pair get back what they were charged. There is no answer.
    Untried {
        /// The peer of the connection.
        peer: Peer,
    },
    /// Whoever keeps this user elsewhere has said that there is none any more: the account's tokens are void. There is no answer.
    Ousted,
    /// Make the account with these encoded credentials (XEP-0077 3.1).
    Register {
        /// The keys of its password.
        credentials: Box<Credentials>,
        /// By whose leave: who has given it hears what came of it ([`Question::Settle`]), and answers the connection.
        leave: Option<Box<Leave>>,
    },
    /// Whether somebody at this address may show a token, after the logins that have failed from it. The home of the token's actor is
    /// asked for [`Question::Invitation`] and answers the connection.
    MayShow {
        /// The peer of the connection.
        peer: Peer,
        /// Which invitation.
        id: InvitationId,
    },
    /// What an invitation of this actor allows now (XEP-0445 4).
    Invitation {
        /// Which.
        id: InvitationId,
    },
    /// Whether who invites is there: the answer is [`Answer::Invited`] with this.
    Vouch(Box<Invited>),
    /// Let an account be registered by an invitation of this actor, which goes on to its home.
    Redeem(Box<Redeem>),
    /// Let an account be registered that an administrator has to approve: the actor is the domain.
    Apply(Box<Apply>),
    /// What came of a leave that this actor has given.
    Settle(Box<Settle>),
    /// Whether the account was made by this leave: the actor that has given it is told, and the connection is to ask again.
    WasMade(Box<Leave>),
    /// An account of this domain does not wait for approval any more.
    Decided(Box<str>),
    /// An account has waited too long for approval: it goes, if it is still this one.
    Expired(Incarnation),
    /// Keep what a user of this domain has reported. The shard of the connection hears of it: [`LoginLetter::Filed`].
    File(Box<Filing>),
}

/// See [`Question::File`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filing {
    /// Bare JID of the user.
    pub by: Box<str>,
    /// What is reported.
    pub reports: Vec<Report>,
    /// What the user's home knows the request by.
    pub token: u64,
}

/// See [`Question::Redeem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redeem {
    /// Which invitation.
    pub id: InvitationId,
    /// The account that is to be made.
    pub account: Box<str>,
    /// The keys of its password.
    pub credentials: Box<Credentials>,
    /// From where it is registered.
    pub address: IpAddr,
}

/// See [`Question::Apply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    /// The account that is to be made.
    pub account: Box<str>,
    /// The keys of its password.
    pub credentials: Box<Credentials>,
    /// From where it is registered.
    pub address: IpAddr,
    /// The leave of an invitation, which goes on with it.
    pub leave: Option<Box<Leave>>,
}

/// That an account may be made, as whoever decides of it has written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Who has given it.
    pub by: Box<str>,
    /// By which invitation. If by none, the giver is the account's domain, and the account waits for approval.
    pub id: Option<InvitationId>,
    /// Which account of its name it is to be.
    pub incarnation: Incarnation,
    /// Who becomes a contact of the account; empty for nobody.
    pub inviter: Box<str>,
    /// The account's name was given by who may give any: the operator or an administrator.
    pub gives_name: bool,
    /// Who has given leave before, and is told behind this one.
    pub then: Option<Box<Leave>>,
}

/// See [`Question::Settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The leave.
    pub leave: Leave,
    /// The account.
    pub account: Box<str>,
    /// Whether it was made.
    pub made: bool,
    /// For the connection.
    pub answer: Answer,
}

/// What a login shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// A proof that the connection's shard checks.
    Proof,
    /// A password, so that it helps to know the one that was shown before.
    Password,
    /// A token, which the account's home checks: [`Answer::Token`].
    Token(Box<TokenShown>),
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The address may.
    May,
    /// The account is charged for the attempt.
    Credentials {
        /// Its bare JID.
        account: Box<str>,
        /// Its row; `None` if there is no such account.
        row: Option<Box<[u8]>>,
        /// What its home knows the password by that was shown before, if it was asked for.
        seen: Option<Box<Tag>>,
    },
    /// What the token is worth that was shown. The account is charged for the attempt.
    Token(Box<TokenAnswer>),
    /// Not now: too many failed logins, or registrations.
    Held(Held),
    /// The account is made.
    Registered,
    /// There is one of this name.
    Taken,
    /// The name is reserved for another invitation.
    Reserved,
    /// The token lets register.
    Invited(Box<Invited>),
    /// It does not.
    NotInvited,
    /// An earlier use that was broken off has been looked into: ask again.
    Again,
    /// The store is full; try later.
    StoreFull,
    /// The account's row cannot be read: it is damaged.
    Unreadable,
}
