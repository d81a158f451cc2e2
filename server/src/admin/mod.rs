//! The operator's access to a data folder: the requests to a running server, or to a store at rest.
//!
//! ```text
//! throng ctl, throng user --> client ==unix socket==> socket --> dyn Control   (a running server)
//! throng user             --> FolderLock ----------------------> dyn Accounts  (a store at rest)
//! ```
//!
//! This module defines requests, answers and who may ask. It never learns how the server carries
//! them out: that is behind [`Control`] and [`Accounts`]. Passwords never reach it; only SCRAM keys
//! ([`ScramKeys`]) do.

mod backed_up;
pub mod client;
pub mod keys;
mod orders;
pub mod protocol;
pub mod rooms;
pub(crate) mod seen;
pub mod socket;
pub mod trace;
pub mod users;
pub mod wrong;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::events::Event;

pub use crate::acme::State as AcmeState;
pub use backed_up::BackupStanding;
pub use keys::ScramKeys;

/// Most accounts in one [`Accounts::put`].
pub const ACCOUNTS_PER_BATCH_MAX: usize = 1_000;

/// Most rows in one page of sessions or accounts.
pub const ROWS_PER_PAGE_MAX: usize = 500;

/// Most accounts per domain that [`Accounts::applicants`] lists.
pub const APPLICANTS_MAX: u32 = 10_000;

/// Most ids of [`Accounts::dismiss`].
pub const REPORTS_DISMISSED_MAX: usize = 5_000;

/// Longest value of [`Control::set_knob`], in bytes.
pub const VALUE_BYTES_MAX: usize = 1_024;

/// Longest text of [`Control::say`], in bytes.
pub const SAY_BYTES_MAX: usize = 8_192;

/// Longest time before a stop of [`Control::shutdown`].
pub const STOPS_IN_MAX: Duration = Duration::from_secs(86_400);

/// The originator named in events caused by the control socket.
pub const BY_SOCKET: &str = "control socket";

/// Longest time for which [`Control::announce`] stores an announcement.
pub const ANNOUNCED_FOR_MAX: Duration = Duration::from_secs(366 * 86_400);
/// Default time for which an announcement is stored.
pub const ANNOUNCED_FOR: Duration = Duration::from_secs(30 * 86_400);

/// Longest reason of [`Control::kick`], in bytes.
pub const REASON_BYTES_MAX: usize = 1_024;

/// Most JIDs that [`Audience::These`] may name.
pub const SAY_JIDS_MAX: usize = 1_000;

/// Why a request was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// There is no such user or session.
    NotFound,
    /// The user or session exists already.
    Exists,
    /// The request itself is wrong: not a JID, too long, or an unknown name.
    Invalid,
    /// Valid, but not possible now: shutting down, disk full, too many clients.
    Busy,
    /// An internal failure of the server.
    Internal,
}

/// A request that was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// A sentence for the operator.
    pub text: String,
}

impl Fault {
    /// A fault with its text.
    pub fn new(kind: FaultKind, text: impl Into<String>) -> Fault {
        Fault { kind, text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

/// An address on which the server listens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listening {
    /// IP and port as bound.
    pub address: String,
    /// Whether TLS begins with the first byte.
    pub direct_tls: bool,
    /// Whether a proxy connects here: connections begin with a PROXY protocol header.
    #[serde(default)]
    pub proxied: bool,
    /// Whether it serves external components (XEP-0114).
    #[serde(default)]
    pub component: bool,
    /// Whether it serves clients that use HTTP.
    #[serde(default)]
    pub http: bool,
}

impl Listening {
    /// Its purpose, in words.
    pub fn sort(&self) -> &'static str {
        if self.component {
            return "components";
        }
        if self.http {
            return if self.direct_tls { "HTTPS" } else { "HTTP" };
        }
        match (self.direct_tls, self.proxied) {
            (false, false) => "STARTTLS",
            (true, false) => "TLS",
            (false, true) => "STARTTLS, behind a proxy",
            (true, true) => "TLS, behind a proxy",
        }
    }
}

/// The state of a running server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// The main domain.
    pub domain: String,
    /// Additional domains.
    #[serde(default)]
    pub virtual_hosts: Vec<String>,
    /// Seconds since start.
    pub uptime_s: u64,
    /// Driver in use: `uring` or `epoll`.
    pub driver: String,
    /// Number of shards.
    pub shards: u32,
    /// Open listeners.
    pub listeners: Vec<Listening>,
    /// Addresses of the operator's HTTP interface.
    #[serde(default)]
    pub admin_http: Vec<String>,
    /// Open connections, authenticated or not.
    pub connections: u64,
    /// Capacity for connections of all shards together.
    #[serde(default)]
    pub connections_max: u64,
    /// Shards that currently accept no connections, if any.
    #[serde(default)]
    pub not_accepting: Option<NotAccepting>,
    /// Bound sessions with a connection.
    pub sessions: u64,
    /// Sessions that can be resumed (XEP-0198) and have no connection.
    pub resumable: u64,
    /// Whether new messages are refused because the disk is full.
    pub storage_full: bool,
    /// Bytes to free on the store's device before messages are accepted again, at the last check.
    #[serde(default)]
    pub storage_lacks_bytes: u64,
    /// By how much the wall clock is in doubt, if it is.
    #[serde(default)]
    pub clock: Option<ClockState>,
    /// Files of the store that were found damaged, or that lost rows, since the start; one line
    /// each.
    #[serde(default)]
    pub damaged: Vec<String>,
    /// Domains with an external user back end that does not answer authentication requests.
    #[serde(default)]
    pub external_down: Vec<String>,
    /// Whether the service that decides about requests for channels (`notify_ask`) does not answer.
    #[serde(default)]
    pub ask_down: bool,
    /// The continuous backup, if there is one.
    #[serde(default)]
    pub backup: Option<BackupStanding>,
    /// Why recording has stopped, if the recorder has failed.
    #[serde(default)]
    pub unrecorded: Option<String>,
    /// Lines of the log lost since the start, because they came faster than they were read or could
    /// not be written.
    #[serde(default)]
    pub log_lines_lost: u64,
    /// Why the last reload applied nothing, or not everything; `None` after a successful one.
    #[serde(default)]
    pub not_reloaded: Option<String>,
    /// Whether the server is shutting down.
    pub stopping: bool,
    /// Seconds until a scheduled stop.
    #[serde(default)]
    pub stops_in_s: Option<u64>,
    /// Counters by name since start, summed over the shards.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Resident memory of the process in bytes, as the kernel counts it (`VmRSS`).
    #[serde(default)]
    pub resident_bytes: u64,
    /// Address space reserved by the allocator in bytes, resident or not.
    #[serde(default)]
    pub reserved_bytes: u64,
    /// Resident bytes by owner: the parts of the dashboard's "Memory".
    #[serde(default)]
    pub memory: BTreeMap<String, u64>,
    /// Options that an operator has set since the start.
    #[serde(default)]
    pub knobs_set: Vec<KnobRow>,
    /// Recent actions of operators, oldest first; at most [`crate::events::EVENTS_MAX`].
    #[serde(default)]
    pub events: Vec<Event>,
    /// The TLS certificate in use, if there is one.
    #[serde(default)]
    pub certificate: Option<CertificateState>,
    /// The certificates that an authority is asked for (`acme`).
    #[serde(default)]
    pub acme: Vec<AcmeState>,
}

/// Why the wall clock is in doubt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClockState {
    /// Seconds by which it is ahead of the expected time; negative if behind.
    pub ahead_s: i64,
    /// Seconds until the clock is trusted, if it does not jump again.
    pub left_s: u64,
}

/// Shards that currently accept no connections.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NotAccepting {
    /// Number of shards.
    pub shards: u32,
    /// The reason, as part of a sentence.
    pub why: String,
    /// What an operator can do about it, as part of a sentence.
    pub remedy: String,
}

impl Status {
    /// States, as a sentence without a full stop, that shards accept no connections.
    pub fn paused(&self) -> Option<String> {
        let NotAccepting { shards, why, remedy } = self.not_accepting.as_ref()?;
        let (all, room) = (self.shards, self.connections_max);
        Some(format!("paused at {shards} of {all} shards, with room for {room} connections: {why}; {remedy}"))
    }
}

/// The state of a TLS certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CertificateState {
    /// When it expires, in seconds since 1970.
    pub expires_s: i64,
    /// Why clients refuse it now, one sentence each.
    pub faults: Vec<String>,
    /// A warning sentence if it expires within two weeks.
    pub soon: Option<String>,
    /// Domains, except `localhost`, served with a certificate that the server signed itself.
    #[serde(default)]
    pub self_signed: Vec<String>,
}

/// An option that can be set at run time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KnobRow {
    /// Its name.
    pub key: String,
    /// Its value, in the syntax of the configuration file.
    pub value: String,
    /// Its default, in the same syntax.
    pub default: String,
    /// Type: `switch`, `count`, `bytes`, `seconds` or `choice`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The unit of a number.
    pub unit: Option<String>,
    /// Smallest number.
    pub min: Option<u64>,
    /// Largest number.
    pub max: Option<u64>,
    /// The allowed values, in words.
    pub allowed: String,
    /// The origin of the value: a file with its line, a flag, a variable, `default`, `set at run
    /// time`.
    pub source: String,
    /// When the value reverts, seconds since the Unix epoch; `None` if it stays.
    pub until_s: Option<u64>,
    /// Its description, in one sentence.
    pub help: String,
}

/// The effect of changing a knob.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KnobChange {
    /// The option.
    pub key: String,
    /// The value before.
    pub from: String,
    /// The value now.
    pub to: String,
    /// When the value reverts, seconds since the Unix epoch; `None` if it stays.
    pub until_s: Option<u64>,
}

/// One bound session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionRow {
    /// Full JID.
    pub jid: String,
    /// The peer's IP and port; only the IP for a connection through an HTTP proxy or by BOSH.
    /// `None` for a session without a connection, or while its connection is closing.
    pub address: Option<String>,
    /// Whether it has no connection and can be resumed (XEP-0198).
    #[serde(default)]
    pub resumable: bool,
    /// TLS version in use; `None` without encryption or without a connection.
    pub tls: Option<String>,
    /// Home shard.
    pub shard: u32,
    /// Seconds since it was bound or last resumed; for a session without a connection, since it
    /// lost that.
    pub age_s: u64,
    /// Seconds since the client last sent something.
    pub idle_s: u64,
    /// Priority of its available presence; `None` while unavailable.
    pub priority: Option<i8>,
    /// Bytes queued for sending, those in flight to the kernel included.
    pub outbound_bytes: u64,
}

/// A configured external component (XEP-0114).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ComponentRow {
    /// Its domain.
    pub domain: String,
    /// Whether it is connected; if not, all other figures are zero.
    pub connected: bool,
    /// The peer's IP and port; `None` if it is not connected, or its connection is closing.
    pub address: Option<String>,
    /// Home shard.
    pub shard: u32,
    /// Seconds since it connected.
    pub age_s: u64,
    /// Seconds since it last sent something.
    pub idle_s: u64,
    /// Stanzas received from it.
    pub stanzas_in: u64,
    /// Stanzas delivered to it.
    pub stanzas_out: u64,
    /// Stanzas to it that were answered with an error because its queue was full.
    pub refused: u64,
    /// Stanzas queued for it.
    pub waiting: u64,
    /// Their bytes, the overhead per stanza included.
    pub waiting_bytes: u64,
}

/// Unauthenticated connections from one address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpeningRow {
    /// The address; for IPv6 the first one of its /64.
    pub address: String,
    /// Number of connections.
    pub connections: u64,
}

/// Most rows of [`Control::openings`].
pub const OPENING_ROWS_MAX: usize = 200;

/// Recent activity of a session, per second. Figures may be too small, never too large
/// ([`throng_engine::observers::busiest`]).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BusySession {
    /// Full JID.
    pub jid: String,
    /// Home shard.
    pub shard: u32,
    /// Stanzas per second from its client.
    pub stanzas_in: f64,
    /// Stanzas per second to its client.
    pub stanzas_out: f64,
    /// Bytes of stanzas per second from its client.
    pub bytes_in: f64,
    /// Bytes of stanzas per second to its client.
    pub bytes_out: f64,
    /// Bytes currently queued for it or in flight to the kernel.
    pub outbound_bytes: u64,
}

/// The busiest sessions.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Busiest {
    /// Whether there are figures: counting begins with the first request, and ends after five
    /// seconds without one.
    pub counted: bool,
    /// The busiest first.
    pub sessions: Vec<BusySession>,
}

/// A page of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Page<T> {
    /// At most as many rows as asked for.
    pub rows: Vec<T>,
    /// The value of `after` for the next page; `None` at the end.
    pub next: Option<String>,
}

/// The recipients of an announcement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audience {
    /// Every session.
    All,
    /// These bare or full JIDs; at most [`SAY_JIDS_MAX`].
    These(Vec<String>),
}

/// Progress of announcements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Announced {
    /// Number of sessions sent an announcement since the start, over all announcements.
    pub told: u64,
    /// Whether all announcements are complete.
    pub done: bool,
}

/// A client or an account that a limit holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HeldRow {
    /// The limit's name ([`throng_engine::wire::limit::Limit::name`]).
    pub limit: String,
    /// An address (IPv6: its /64), a JID, or both with a space between.
    pub who: String,
    /// The first refusal, seconds since the Unix epoch.
    pub since_s: u64,
    /// When the limit releases it, seconds since the Unix epoch; `None` if it depends on a resource
    /// that must be freed.
    pub until_s: Option<u64>,
    /// Number of refusals since then.
    pub refused: u64,
}

/// The clients and accounts held by limits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Held {
    /// The most recent first; at most [`HELD_ROWS_MAX`].
    pub rows: Vec<HeldRow>,
    /// Number of rows left out.
    pub more: u64,
}

/// Most rows of [`Held`].
pub const HELD_ROWS_MAX: usize = 2_000;

/// What to release from limits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// An address (IPv6: its /64).
    Address(std::net::IpAddr),
    /// An account: localpart or bare JID.
    Account(String),
    /// All of them.
    All,
}

/// The effect of a reload.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reloaded {
    /// What took effect, one sentence or key each.
    pub applied: Vec<String>,
    /// What differs in the configuration and needs a restart.
    pub waiting: Vec<String>,
    /// Options set at run time that override the configuration.
    #[serde(default)]
    pub overridden: Vec<String>,
}

/// Progress of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BackupState {
    /// Rows written so far.
    pub rows: u64,
    /// Whether it is complete and durable.
    pub done: bool,
}

/// What to do with an account that exists already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Existing {
    /// [`Put::Exists`]; the account is not touched.
    Refuse,
    /// [`Put::Skipped`]; the account is not touched.
    Skip,
    /// [`Put::Updated`]: the account gets the new keys.
    Update,
    /// As `Update`, but an account that does not exist is [`Put::Missing`] and not created.
    Require,
}

/// An account to be written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewAccount {
    /// Bare JID, or a localpart at the main domain, as given; the implementation prepares it (RFC
    /// 7622 3).
    pub user: String,
    /// Its keys.
    pub keys: ScramKeys,
}

/// The outcome for one account of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Put {
    /// The account was created.
    Added,
    /// The account existed and has new keys.
    Updated,
    /// The account existed and was left unchanged.
    Skipped,
    /// The account exists, which [`Existing::Refuse`] does not allow.
    Exists,
    /// The account does not exist, which [`Existing::Require`] does not allow.
    Missing,
    /// The localpart or the keys are invalid, for this reason.
    Invalid(String),
}

/// Whether an account may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccountStanding {
    /// It may be used.
    InUse,
    /// It waits for approval.
    WaitsForApproval,
    /// It is suspended.
    Suspended,
    /// Its record is damaged: logins are refused.
    Damaged,
}

impl AccountStanding {
    /// The standing in words.
    pub fn word(self) -> &'static str {
        match self {
            AccountStanding::InUse => "in use",
            AccountStanding::WaitsForApproval => "waits for approval",
            AccountStanding::Suspended => "suspended",
            AccountStanding::Damaged => "its record is damaged",
        }
    }
}

/// The rows of an account in one table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredShown {
    /// The table: `archive`, `waiting`, `contacts`, `private`, `nodes`, `sessions`, `invitations`.
    pub what: String,
    /// Number of rows; one row of an archive holds several messages.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether there are more rows that were not counted.
    pub more: bool,
}

/// An account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccountShown {
    /// Bare JID.
    pub user: String,
    /// Whether it may be used.
    pub standing: AccountStanding,
    /// When it was created, seconds since the Unix epoch; `None` if its record is damaged.
    pub created_s: Option<u64>,
    /// When its last available session ended (XEP-0012), or now if it is connected, seconds since
    /// the Unix epoch; `None` if unknown.
    pub last_seen_s: Option<u64>,
    /// Its sessions, at most [`ROWS_PER_PAGE_MAX`]; empty while no server runs.
    pub sessions: Vec<SessionRow>,
    /// What is stored of it, by table.
    pub stored: Vec<StoredShown>,
    /// Limits that hold it; empty while no server runs.
    pub held: Vec<HeldRow>,
}

/// One account of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccountRow {
    /// Bare JID.
    pub user: String,
}

/// The stored data of an account, as administrators see it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountSeen {
    /// Number of contacts.
    pub contacts: u64,
    /// Its roster: a `<query/>` (RFC 6121 2.1).
    pub roster: Vec<u8>,
    /// When its last session ended, seconds since the Unix epoch; `None` if it never had one.
    pub last_seen_s: Option<u64>,
}

/// An invitation to be created.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NewInvite {
    /// The account that it is for, a bare JID or a localpart at the main domain; `None` for any
    /// account of [`NewInvite::domain`].
    pub user: Option<String>,
    /// The inviter, in the same form; `None` for the operator.
    pub inviter: Option<String>,
    /// Whether the invited user and the inviter become contacts.
    #[serde(default)]
    pub befriends: bool,
    /// The domain, if neither of the two states it; `None` for the main domain.
    pub domain: Option<String>,
    /// Number of times that it can be used.
    pub uses: u32,
    /// Its lifetime in seconds; `None` for the configured one.
    pub life_s: Option<u64>,
    /// Most invitations that the inviter may have; 0 for any number.
    #[serde(default)]
    pub most: usize,
}

/// An invitation in the form that is passed on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Invited {
    /// Its address (RFC 5122).
    pub uri: String,
    /// The address of a web page for it, if there is one.
    pub page: Option<String>,
    /// When it expires, seconds since the Unix epoch.
    pub until_s: u64,
    /// The id by which it is revoked.
    pub id: String,
    /// Its token.
    pub token: String,
}

/// One invitation of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InviteRow {
    /// A digest of its token, in hexadecimal.
    pub id: String,
    /// The owner of its record: a bare JID or a domain.
    pub actor: String,
    /// The inviter; `None` for the operator.
    pub inviter: Option<String>,
    /// The account that it is for, if it is for one.
    pub user: Option<String>,
    /// Whether an account can be registered with it.
    pub registers: bool,
    /// Whether the invited user becomes a contact.
    pub befriends: bool,
    /// Number of permitted uses.
    pub uses: u32,
    /// Number of uses left.
    pub left: u32,
    /// When it was created, seconds since the Unix epoch.
    pub made_s: u64,
    /// When it expires, seconds since the Unix epoch.
    pub until_s: u64,
    /// `open`, `used`, `revoked` or `over`.
    pub state: String,
    /// Bare JIDs of the first users that joined with it.
    pub joined: Vec<String>,
}

/// An account that waits for approval.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ApplicantRow {
    /// Bare JID.
    pub user: String,
    /// When it was registered, seconds since the Unix epoch.
    pub since_s: u64,
    /// The address from which it was registered.
    pub address: String,
}

/// A report by a user (XEP-0377).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReportRow {
    /// The id by which it is dismissed.
    pub id: String,
    /// The domain that stores it.
    pub domain: String,
    /// When it arrived, seconds since the Unix epoch.
    pub at_s: u64,
    /// The reporter: a bare JID.
    pub by: String,
    /// The reported address.
    pub jid: String,
    /// The reason: a URN.
    pub reason: String,
    /// The user's comment; may be empty.
    pub text: String,
    /// Stanza-ids of the reported messages.
    pub messages: Vec<String>,
}

impl ReportRow {
    /// Its position in a listing, from which the next page continues.
    pub fn place(&self) -> String {
        place_of_report(&self.domain, self.at_s, &self.id)
    }
}

/// The position of a report in a listing: no part contains a space.
pub fn place_of_report(domain: &str, at_s: u64, id: impl fmt::Display) -> String {
    format!("{domain} {at_s} {id}")
}

/// The accounts of a store, through a running server or directly.
///
/// Calls block until their effects are durable.
pub trait Accounts: rooms::Rooms {
    /// The domain of names without one.
    fn domain(&self) -> Result<String, Fault>;

    /// Writes up to [`ACCOUNTS_PER_BATCH_MAX`] accounts, with an outcome for each in order. Within
    /// a batch, a later entry for the same user finds the earlier one existing.
    ///
    /// # Errors
    /// Only for the batch as a whole; then none of it may be assumed written.
    fn put(&self, batch: Vec<NewAccount>, existing: Existing) -> Result<Vec<Put>, Fault>;

    /// Removes an account and all data of its user; ends its sessions.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`], [`FaultKind::Invalid`].
    fn delete(&self, user: &str) -> Result<(), Fault>;

    /// Up to `limit` accounts in a stable order, after the one that `after` names.
    fn list(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault>;

    /// Creates an invitation.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: the inviter does not exist. [`FaultKind::Exists`]: the invited
    /// account exists, or is invited already. [`FaultKind::Invalid`]: registration is disabled
    /// here, or a limit is exceeded.
    fn invite(&self, new: &NewInvite) -> Result<Invited, Fault>;

    /// Up to `limit` invitations in a stable order, after the one that `after` names; used, revoked
    /// and expired ones are included for as long as they are stored.
    ///
    /// # Errors
    /// The store's.
    fn invitations(&self, after: Option<&str>, limit: usize) -> Result<Page<InviteRow>, Fault>;

    /// Revokes an invitation, by its owner and its whole id.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`].
    fn revoke(&self, actor: &str, id: &str) -> Result<(), Fault>;

    /// Accounts that wait for approval, the longest waiting first; at most [`APPLICANTS_MAX`] per
    /// domain.
    ///
    /// # Errors
    /// The store's.
    fn applicants(&self) -> Result<Vec<ApplicantRow>, Fault>;

    /// Approves an account that waits for approval, or removes it.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: no such account waits.
    fn decide(&self, user: &str, approve: bool) -> Result<(), Fault>;

    /// Suspends an account, which ends its sessions at once and refuses its logins, or ends the
    /// suspension. Its stored data stays. Returns the number of sessions ended.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]; [`FaultKind::Invalid`]: it waits for approval.
    fn suspend(&self, user: &str, suspended: bool) -> Result<u64, Fault>;

    /// Describes an account.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`], and the store's.
    fn show(&self, user: &str) -> Result<AccountShown, Fault>;

    /// Up to `limit` reports after the one that `after` names, and no more than fit into one
    /// answer: by domain, the latest first.
    ///
    /// # Errors
    /// The store's.
    fn reports(&self, after: Option<&str>, limit: usize) -> Result<Page<ReportRow>, Fault>;

    /// Dismisses up to [`REPORTS_DISMISSED_MAX`] reports by their ids; returns how many.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: none of them exists.
    fn dismiss(&self, ids: &[String]) -> Result<u64, Fault>;
}

/// A running server, as the control socket sees it. Where an action has a line in the server's list
/// of events, `by` names its originator.
///
/// Called from the threads that serve operators. A call may block for as long as its work takes (a
/// commit, one turn of each shard), and should not block for longer than a second.
pub trait Control: Accounts + Send + Sync {
    /// The current state; reads counters and does not disturb any shard.
    fn status(&self) -> Status;

    /// Up to `limit` sessions of the bare or full JID `of`, or of all users, after the one that
    /// `after` names. A listing over several pages is no snapshot: sessions begin and end in
    /// between.
    fn sessions(&self, of: Option<&str>, after: Option<&str>, limit: usize) -> Result<Page<SessionRow>, Fault>;

    /// The stored data of an account.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`], [`FaultKind::Invalid`].
    fn account_seen(&self, user: &str) -> Result<AccountSeen, Fault>;

    /// The suspended ones among up to `limit` accounts after the one that `after` names.
    ///
    /// # Errors
    /// The store's.
    fn suspended(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault>;

    /// Ends the sessions of a bare or full JID and sends their clients the reason; returns how
    /// many.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`] if it has none.
    fn kick(&self, jid: &str, reason: Option<&str>) -> Result<u64, Fault>;

    /// Sends a message from the server to sessions; returns how many received it. An urgent message
    /// is sent before the queued output of their connections.
    fn say(&self, by: &str, text: &str, to: &Audience, urgent: bool) -> Result<u64, Fault>;

    /// Begins to announce the text to all sessions, if `online`. With `later`, also stores it for
    /// users that log in within that time, in place of the one stored before. A million sessions
    /// take about a minute; [`Control::announced`] reports the progress.
    ///
    /// # Errors
    /// [`FaultKind::Busy`] with too many announcements in progress, or a full disk.
    fn announce(&self, text: &str, online: bool, later: Option<Duration>) -> Result<(), Fault>;

    /// Replaces the text that is stored for later logins; users that received the old text do not
    /// receive the new one. If no text is stored, stores this one for [`ANNOUNCED_FOR`].
    ///
    /// # Errors
    /// As [`Control::announce`].
    fn edit_announcement(&self, text: &str) -> Result<(), Fault>;

    /// The progress of announcements.
    fn announced(&self) -> Result<Announced, Fault>;

    /// Withdraws the announcement stored for later logins.
    ///
    /// # Errors
    /// As [`Control::announce`].
    fn withdraw_announcement(&self) -> Result<(), Fault>;

    /// Closes the connections of a bare or full JID and drops their queues; returns how many.
    /// Resumable sessions can still be resumed; messages wait for the user's next session.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`] if there is no connection.
    fn flush_queue(&self, by: &str, jid: &str) -> Result<u64, Fault>;

    /// Drops the messages that wait for an offline user; returns how many. They stay in the
    /// archive, if there is one.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]; [`FaultKind::Busy`] while the user has sessions.
    fn flush_waiting(&self, by: &str, jid: &str) -> Result<u64, Fault>;

    /// The configured components in the order of their domains; at most 256.
    ///
    /// # Errors
    /// A shard does not answer.
    fn components(&self) -> Result<Vec<ComponentRow>, Fault>;

    /// Addresses with unauthenticated connections, those with most first; at most
    /// [`OPENING_ROWS_MAX`] rows.
    ///
    /// # Errors
    /// A shard does not answer.
    fn openings(&self) -> Result<Vec<OpeningRow>, Fault>;

    /// The clients and accounts held by limits: current ones where the limit records its end,
    /// recent ones otherwise.
    fn limits(&self) -> Result<Held, Fault>;

    /// Releases clients and accounts held for failed logins or registrations; returns how many.
    ///
    /// # Errors
    /// [`FaultKind::Invalid`]: not an account of this server.
    fn release(&self, by: &str, whom: &Release) -> Result<u64, Fault>;

    /// Begins a graceful stop, now or in `after`, and returns at once. Without `grace` the
    /// configured time applies. The latest request replaces a scheduled stop.
    ///
    /// # Errors
    /// [`FaultKind::Busy`]: the server is stopping already.
    fn shutdown(&self, grace: Option<Duration>, after: Option<Duration>) -> Result<(), Fault>;

    /// Cancels a scheduled stop.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: none is scheduled.
    fn cancel_shutdown(&self) -> Result<(), Fault>;

    /// Confirms that the wall clock is right although it differs from the expected time: from now
    /// on, data that it makes old is deleted. Returns the seconds that it was ahead.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: the clock is not in doubt.
    fn confirm_clock(&self, by: &str) -> Result<i64, Fault>;

    /// Reads certificates and knobs again. Options set at run time keep their values.
    fn reload(&self) -> Result<Reloaded, Fault>;

    /// All options that can be set at run time, with their current values.
    fn knobs(&self) -> Vec<KnobRow>;

    /// Sets a knob, for a while or until it is reset; returns the changes once all threads have
    /// them.
    ///
    /// # Errors
    /// [`FaultKind::Invalid`]: there is no such knob, or the value is not allowed or conflicts with
    /// others.
    fn set_knob(&self, by: &str, key: &str, value: &str, lasting: Option<Duration>) -> Result<Vec<KnobChange>, Fault>;

    /// Resets one knob, or all, to the value of the configuration.
    ///
    /// # Errors
    /// As [`Control::set_knob`].
    fn reset_knobs(&self, by: &str, key: Option<&str>) -> Result<Vec<KnobChange>, Fault>;

    /// Copies the store as of one moment to a folder (absolute path) that is empty or does not
    /// exist. The first call begins and returns. Further calls with the same folder report the
    /// progress, until one has reported the end.
    ///
    /// # Errors
    /// It failed, or another backup is in progress ([`FaultKind::Busy`]).
    fn backup(&self, to: &str) -> Result<BackupState, Fault>;

    /// Begins a trace of a user's stanzas, fetches its records, or ends it; never waits.
    ///
    /// # Errors
    /// Too many are in progress ([`FaultKind::Busy`]), the request is wrong, or the trace has
    /// ended.
    fn trace(&self, ask: trace::Ask) -> Result<trace::Told, Fault>;

    /// Begins a profile, or reports its progress and result; never waits.
    ///
    /// # Errors
    /// Another is in progress ([`FaultKind::Busy`]), the request is wrong, or the system does not
    /// allow it.
    fn profile(&self, ask: crate::profile::Ask) -> Result<crate::profile::Told, Fault>;
}
