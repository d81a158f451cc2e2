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
    /// Suspend accounts, which ends their sessions, or let them be used again; as many bare JIDs.
    Suspend {
        /// Which.
        accounts: Vec<Box<str>>,
        /// Suspend them.
        suspended: bool,
    },
    /// End sessions: as many bare or full JIDs at most.
    End(Vec<Box<str>>),
    /// Say which sessions an account has, and how long its roster is; its bare JID.
    Statistics(Box<str>),
    /// Say whom accounts have in their rosters; as many bare JIDs.
    Rosters(Vec<Box<str>>),
    /// Say when accounts have logged in last; as many bare JIDs.
    LastLogins(Vec<Box<str>>),
    /// Count them: accounts, or the sessions of those who are online.
    Count(Users),
    /// List them.
    List {
        /// Which.
        of: Users,
        /// Go on from this place, as [`Outcome::Users`] has named it.
        after: Option<Box<str>>,
        /// Most accounts or sessions to look at: [`ADHOC_ROWS_MAX`](crate::limits::ADHOC_ROWS_MAX) at most.
        most: usize,
    },
    /// Tell everybody who is online; at most [`ADHOC_TEXT_BYTES_MAX`](crate::limits::ADHOC_TEXT_BYTES_MAX) bytes.
    Announce(Box<str>),
    /// The same, and everybody once who logs in later.
    SetMotd(Box<str>),
    /// Another text for those who log in later and have not seen the one before.
    EditMotd(Box<str>),
    /// Tell nobody any more who logs in.
    DeleteMotd,
    /// What accounts that are made later are sent, at most [`ADHOC_WELCOME_BYTES_MAX`](crate::limits::ADHOC_WELCOME_BYTES_MAX) bytes; empty
    /// for nothing.
    SetWelcome(Box<str>),
    /// Send a headline to sessions of these, as many bare or full JIDs as [`Wanted::End`] may have.
    Say {
        /// Whose.
        to: Vec<Box<str>>,
        /// The text; as long as an announcement.
        text: Box<str>,
    },
    /// List what users have reported, the latest first.
    ListReports {
        /// Go on from this place, as [`Listing::next`] has named it.
        after: Option<Box<str>>,
        /// Most reports: [`ADHOC_ROWS_MAX`](crate::limits::ADHOC_ROWS_MAX) at most.
        most: usize,
    },
    /// Let reports go, by their ids.
    DismissReports(Vec<Box<str>>),
    /// Say how the server is.
    Status,
    /// List the external components that are configured.
    ListComponents,
    /// List who is held by limits.
    ListLimits,
    /// Let go of those who are held by failed logins or registrations: an IP address, a bare JID, or all.
    Release(Box<str>),
    /// List the options that can be set by [`Wanted::SetKnob`].
    ListKnobs,
    /// Set an option of the running server.
    SetKnob {
        /// Its name.
        key: Box<str>,
        /// As the configuration would have it; that of the configuration when none.
        value: Option<Box<str>>,
        /// Seconds after which it is put back; it stays when none.
        for_s: Option<u64>,
    },
    /// Cut the connections of sessions: as many bare or full JIDs as [`Wanted::End`] may have.
    FlushQueue(Vec<Box<str>>),
    /// Drop what waits for users who are away; as many bare JIDs.
    FlushWaiting(Vec<Box<str>>),
    /// Read certificates and the configuration again.
    Reload,
    /// Stop the server.
    Shutdown {
        /// In so many seconds.
        after_s: u64,
        /// What everybody is told now, if anything; as long as an announcement.
        text: Option<Box<str>>,
    },
    /// Go on: a stop that is to come does not.
    CancelShutdown,
}

/// Which users are counted or listed (XEP-0133 4.13 to 4.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// All who have an account.
    Registered,
    /// Those of them whose accounts are suspended.
    Disabled,
    /// Those who are online.
    Online,
    /// Those of them who have sent something in the last [`ADHOC_IDLE_S`](crate::limits::ADHOC_IDLE_S).
    Active,
    /// Those of them who have not.
    Idle,
}

/// Rows of values, as operators are shown them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The names of its columns.
    pub columns: &'static [&'static str],
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<String>>,
    /// Where to go on, if there are more and one can.
    pub next: Option<String>,
    /// How many more there are, if one cannot.
    pub more: u64,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, and durable.
    Done,
    /// Of several addresses some were not dealt with.
    Partly {
        /// What came of the others.
        rest: Box<Outcome>,
        /// A line for each that was not.
        failed: Vec<String>,
    },
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
    /// What there is to tell: a name and its values each.
    Facts(Vec<(&'static str, Vec<String>)>),
    /// Rows.
    Listing(Listing),
    /// Of an account.
    Statistics {
        /// Its sessions.
        sessions: Vec<SessionSeen>,
        /// How many contacts it has.
        contacts: u64,
    },
    /// Rosters: a bare JID each, and its `<query/>` (RFC 6121 2.1).
    Rosters(Vec<(String, Vec<u8>)>),
    /// It is done, and this should be known.
    Noted(String),
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
