//! What an administrator who is a user orders of the service (XEP-0133), and what came of it: the closed types between an
//! extension, the shard and its host, which carries orders out as it does those of operators. This module never knows how.

use crate::store::account::Credentials;

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Full JID of the administrator.
    pub by: Box<str>,
    /// What is to be done.
    pub what: Wanted,
}

/// What is to be done. JIDs are normalised, and may be of domains that are not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Make an account, or change its password.
    Put {
        /// Bare JID.
        account: Box<str>,
        /// The keys of its password.
        credentials: Box<Credentials>,
        /// Make it; there must be none. Otherwise there must be one.
        create: bool,
    },
    /// Invite somebody to an account.
    Invite {
        /// The localpart that it is for, normalised, if it is for one.
        local: Option<Box<str>>,
        /// Who gives the order becomes a contact of the account.
        befriends: bool,
    },
    /// Say which accounts wait for approval.
    ListApplicants,
    /// Put accounts to use that wait for approval, or remove them; as many bare JIDs at most.
    Decide {
        /// Which.
        accounts: Vec<Box<str>>,
        /// Put them to use.
        approve: bool,
    },
    /// Remove accounts; at most [`ADHOC_JIDS_MAX`](crate::limits::ADHOC_JIDS_MAX) bare JIDs.
    Delete(Vec<Box<str>>),
    /// End sessions: as many bare or full JIDs at most.
    End(Vec<Box<str>>),
    /// Say which sessions an account has; its bare JID.
    Sessions(Box<str>),
    /// Count the accounts.
    CountRegistered,
    /// Count the sessions that are connected.
    CountOnline,
    /// List the users who are online.
    ListOnline {
        /// Go on from this place, as [`Outcome::Users`] has named it.
        after: Option<Box<str>>,
        /// Most sessions to look at: [`ADHOC_ROWS_MAX`](crate::limits::ADHOC_ROWS_MAX) at most.
        most: usize,
    },
    /// The same, and everybody once who logs in later.
    SetMotd(Box<str>),
    /// Tell nobody any more who logs in.
    DeleteMotd,
    /// Tell everybody who is online; at most [`ADHOC_TEXT_BYTES_MAX`](crate::limits::ADHOC_TEXT_BYTES_MAX) bytes.
    Announce(Box<str>),
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, and durable.
    Done,
    /// Of several addresses some were not dealt with; a line for each.
    Partly(Vec<String>),
    /// An invitation.
    Invited {
        /// Its address (RFC 5122).
        uri: String,
        /// The address of a page, if there is one.
        page: Option<String>,
        /// When it ends, seconds since the Unix epoch.
        until_s: u64,
    },
    /// Accounts that wait for approval: the first [`ADHOC_ROWS_MAX`](crate::limits::ADHOC_ROWS_MAX).
    Applicants {
        /// Bare JIDs.
        jids: Vec<String>,
    },
    /// A number.
    Count(u64),
    /// Sessions of an account.
    Sessions(Vec<SessionSeen>),
    /// A page of users.
    Users {
        /// Bare JIDs, sorted, each once in this page.
        jids: Vec<String>,
        /// Where to go on.
        next: Option<String>,
    },
    /// It was not carried out.
    Refused {
        /// Why.
        why: Why,
        /// For a person.
        text: String,
    },
}

/// One session of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSeen {
    /// Its resource.
    pub resource: String,
    /// IP address and port of its client, if it is connected.
    pub address: Option<String>,
}

/// Why an order was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no such user or session.
    NotFound,
    /// There is one already.
    Exists,
    /// It cannot be meant so.
    Invalid,
    /// Not now.
    Busy,
    /// The server's own failure.
    Internal,
}
