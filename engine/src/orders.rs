//! Orders of administrators that are users (XEP-0133), and their outcomes: the closed types between
//! an extension, the shard and its host. The host carries them out like those of operators; this
//! module never knows how.

use crate::store::account::Credentials;

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Full JID of the administrator.
    pub by: Box<str>,
    /// The requested action.
    pub what: Wanted,
}

/// A requested action. JIDs are normalised, and may belong to domains that are not served.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Wanted {
    /// Create an account, or change its password.
    Put {
        /// The account's bare JID.
        account: Box<str>,
        /// The keys of its password.
        credentials: Box<Credentials>,
        /// Whether to create it, in which case it must not exist. Otherwise it must exist.
        create: bool,
    },
    /// Create an invitation to an account.
    Invite {
        /// The normalised localpart that it is for, if it is for one.
        local: Option<Box<str>>,
        /// Whether the administrator becomes a contact of the new account.
        befriends: bool,
    },
    /// List the accounts that wait for approval.
    ListApplicants,
    /// Approve or remove waiting accounts; at most
    /// [`ADHOC_JIDS_MAX`](crate::limits::ADHOC_JIDS_MAX) bare JIDs.
    Decide {
        /// The accounts.
        accounts: Vec<Box<str>>,
        /// Whether to approve rather than remove them.
        approve: bool,
    },
    /// Remove accounts; at most [`ADHOC_JIDS_MAX`](crate::limits::ADHOC_JIDS_MAX) bare JIDs.
    Delete(Vec<Box<str>>),
    /// Suspend accounts, which ends their sessions, or put them back in use; the same limit
    /// applies.
    Suspend {
        /// The accounts.
        accounts: Vec<Box<str>>,
        /// Whether to suspend them.
        suspended: bool,
    },
    /// End sessions of bare or full JIDs; the same limit applies.
    End(Vec<Box<str>>),
    /// Return the sessions of an account and the size of its roster, by its bare JID.
    Statistics(Box<str>),
    /// Return the rosters of accounts; the same limit applies.
    Rosters(Vec<Box<str>>),
    /// Return the times of the last logins of accounts; the same limit applies.
    LastLogins(Vec<Box<str>>),
    /// Count accounts, or the sessions of users that are online.
    Count(Users),
    /// List accounts or sessions.
    List {
        /// Which users.
        of: Users,
        /// Continue after this position, as given by [`Outcome::Users`].
        after: Option<Box<str>>,
        /// Maximum number of accounts or sessions to examine: at most
        /// [`ADHOC_ROWS_MAX`](crate::limits::ADHOC_ROWS_MAX).
        most: usize,
    },
    /// Send a text to all users that are online; at most
    /// [`ADHOC_TEXT_BYTES_MAX`](crate::limits::ADHOC_TEXT_BYTES_MAX) bytes.
    Announce(Box<str>),
    /// The same, and once to each user that logs in later.
    SetMotd(Box<str>),
    /// Replace the text for users that log in later and have not seen the previous one.
    EditMotd(Box<str>),
    /// Withdraw the text for users that log in later.
    DeleteMotd,
    /// Set the text that new accounts receive, at most
    /// [`ADHOC_WELCOME_BYTES_MAX`](crate::limits::ADHOC_WELCOME_BYTES_MAX) bytes; empty for none.
    SetWelcome(Box<str>),
    /// Send a headline to sessions; the number of bare or full JIDs is limited as for
    /// [`Wanted::End`].
    Say {
        /// The recipients.
        to: Vec<Box<str>>,
        /// The text; limited like an announcement.
        text: Box<str>,
    },
    /// List the reports of users, the latest first.
    ListReports {
        /// Continue after this position, as given by [`Listing::next`].
        after: Option<Box<str>>,
        /// Maximum number of reports: at most [`ADHOC_ROWS_MAX`](crate::limits::ADHOC_ROWS_MAX).
        most: usize,
    },
    /// Dismiss reports by their ids.
    DismissReports(Vec<Box<str>>),
    /// Return the status of the server.
    Status,
    /// List the external components that are configured.
    ListComponents,
    /// List the addresses and accounts that limits hold back.
    ListLimits,
    /// Lift the limits on failed logins or registrations: for an IP address, a bare JID, or all.
    Release(Box<str>),
    /// List the options that [`Wanted::SetKnob`] can set.
    ListKnobs,
    /// Set an option of the running server.
    SetKnob {
        /// The option's name.
        key: Box<str>,
        /// The value in the notation of the configuration; `None` for the configured value.
        value: Option<Box<str>>,
        /// Seconds after which the option is reset; `None` for never.
        for_s: Option<u64>,
    },
    /// Close the connections of sessions; the number of bare or full JIDs is limited as for
    /// [`Wanted::End`].
    FlushQueue(Vec<Box<str>>),
    /// Drop messages that wait for users that are away; the limit of bare JIDs is the same.
    FlushWaiting(Vec<Box<str>>),
    /// Reload certificates and the configuration.
    Reload,
    /// Stop the server.
    Shutdown {
        /// Seconds until the stop.
        after_s: u64,
        /// The text sent to all users now, if any; limited like an announcement.
        text: Option<Box<str>>,
    },
    /// Cancel a planned stop.
    CancelShutdown,
}

/// The users to count or list (XEP-0133 4.13 to 4.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Users {
    /// All users with an account.
    Registered,
    /// Users with a suspended account.
    Disabled,
    /// Users that are online.
    Online,
    /// Online users that have sent something in the last
    /// [`ADHOC_IDLE_S`](crate::limits::ADHOC_IDLE_S).
    Active,
    /// Online users that have not.
    Idle,
}

/// Rows of values, as shown to operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The names of the columns.
    pub columns: &'static [&'static str],
    /// The rows, each with a value per column.
    pub rows: Vec<Vec<String>>,
    /// Where to continue, if there are more rows and continuing is possible.
    pub next: Option<String>,
    /// Number of further rows, if continuing is not possible.
    pub more: u64,
}

/// The outcome of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The order was carried out, and its result is durable.
    Done,
    /// The order failed for some of several addresses.
    Partly {
        /// The outcome for the other addresses.
        rest: Box<Outcome>,
        /// A line for each failed address.
        failed: Vec<String>,
    },
    /// A new invitation.
    Invited {
        /// Its URI (RFC 5122).
        uri: String,
        /// The address of its web page, if there is one.
        page: Option<String>,
        /// When it expires, seconds since the Unix epoch.
        until_s: u64,
    },
    /// The first accounts that wait for approval, at most
    /// [`ADHOC_ROWS_MAX`](crate::limits::ADHOC_ROWS_MAX).
    Applicants {
        /// Their bare JIDs.
        jids: Vec<String>,
    },
    /// A count.
    Count(u64),
    /// Facts: a name with its values each.
    Facts(Vec<(&'static str, Vec<String>)>),
    /// A listing.
    Listing(Listing),
    /// The statistics of an account.
    Statistics {
        /// Its sessions.
        sessions: Vec<SessionSeen>,
        /// Number of its contacts.
        contacts: u64,
    },
    /// Rosters: each a bare JID and its `<query/>` (RFC 6121 2.1).
    Rosters(Vec<(String, Vec<u8>)>),
    /// The order was carried out, with a remark for the administrator.
    Noted(String),
    /// A page of users.
    Users {
        /// Bare JIDs, sorted, each once on this page.
        jids: Vec<String>,
        /// Where to continue.
        next: Option<String>,
    },
    /// The order was not carried out.
    Refused {
        /// The reason.
        why: Why,
        /// A description for humans.
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
    /// It exists already.
    Exists,
    /// The order is not valid.
    Invalid,
    /// It is not possible at the moment.
    Busy,
    /// An error of the server.
    Internal,
}
