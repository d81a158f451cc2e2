//! The operator's way into a data folder: what can be asked of a running server, and of a store without one.
//!
//! ```text
//! throng ctl, throng user --> client ==unix socket==> socket --> dyn Control   (a running server)
//! throng user             --> FolderLock ----------------------> dyn Accounts  (a store at rest)
//! ```
//!
//! This module knows requests, answers and who may ask. It never learns how the server carries them out: that is behind
//! [`Control`] and [`Accounts`]. Passwords do not come here; only SCRAM keys ([`ScramKeys`]) do.

pub mod client;
pub mod keys;
mod orders;
pub mod protocol;
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

pub use keys::ScramKeys;

/// Most accounts in one [`Accounts::put`].
pub const ACCOUNTS_PER_BATCH_MAX: usize = 1_000;

/// Most rows in one page of sessions or accounts.
pub const ROWS_PER_PAGE_MAX: usize = 500;

/// Accounts of a domain that [`Accounts::applicants`] tells of.
pub const APPLICANTS_MAX: u32 = 10_000;

/// Most ids of [`Accounts::dismiss`].
pub const REPORTS_DISMISSED_MAX: usize = 5_000;

/// Longest value of [`Control::set_knob`], in bytes.
pub const VALUE_BYTES_MAX: usize = 1_024;

/// Longest text of [`Control::say`], in bytes.
pub const SAY_BYTES_MAX: usize = 8_192;

/// Longest time before a stop of [`Control::shutdown`].
pub const STOPS_IN_MAX: Duration = Duration::from_secs(86_400);

/// On whose behalf the control socket acts, for the events.
pub const BY_SOCKET: &str = "control socket";

/// Longest time for which [`Control::announce`] keeps an announcement.
pub const ANNOUNCED_FOR_MAX: Duration = Duration::from_secs(366 * 86_400);
/// The usual one.
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
    /// There is one already.
    Exists,
    /// The request itself is wrong: not a JID, too long, unknown name.
    Invalid,
    /// Right, but not now: shutting down, disk full, too many clients.
    Busy,
    /// The server's own failure.
    Internal,
}

/// A request that was not carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Which sort.
    pub kind: FaultKind,
    /// For the operator.
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

/// An address that is listened on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listening {
    /// IP and port as bound.
    pub address: String,
    /// TLS from the first byte.
    pub direct_tls: bool,
    /// For a proxy: connections begin with a header of the PROXY protocol.
    #[serde(default)]
    pub proxied: bool,
    /// For external components (XEP-0114).
    #[serde(default)]
    pub component: bool,
    /// For clients that use HTTP.
    #[serde(default)]
    pub http: bool,
}

impl Listening {
    /// What it is for, in words.
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
    /// Domains served beside it.
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
    /// Where the operator's HTTP listens.
    #[serde(default)]
    pub admin_http: Vec<String>,
    /// Open connections, authenticated or not.
    pub connections: u64,
    /// Connections that all shards together have room for.
    #[serde(default)]
    pub connections_max: u64,
    /// Shards that accept no connections for now, if there are some.
    #[serde(default)]
    pub not_accepting: Option<NotAccepting>,
    /// Bound sessions with a connection.
    pub sessions: u64,
    /// Sessions that wait to be resumed (XEP-0198).
    pub resumable: u64,
    /// New messages are refused because the disk is full.
    pub storage_full: bool,
    /// Bytes that have to be freed on the store's device before they are accepted again, as it was last looked at.
    #[serde(default)]
    pub storage_lacks_bytes: u64,
    /// The wall clock is in doubt, and by how much.
    #[serde(default)]
    pub clock: Option<ClockState>,
    /// Files of the store that were found damaged since the start, or of which rows are lost, a line each.
    #[serde(default)]
    pub damaged: Vec<String>,
    /// Domains whose users are kept elsewhere, where nobody answers questions about their passwords.
    #[serde(default)]
    pub external_down: Vec<String>,
    /// Nobody answers questions about requests for channels (`notify_ask`).
    #[serde(default)]
    pub ask_down: bool,
    /// Why nothing is recorded any more: the recorder has failed.
    #[serde(default)]
    pub unrecorded: Option<String>,
    /// Lines of the log that were lost since the start: they came faster than they were read, or could not be written.
    #[serde(default)]
    pub log_lines_lost: u64,
    /// Why the last reload took nothing, or not all, over; none once one is good.
    #[serde(default)]
    pub not_reloaded: Option<String>,
    /// The server is on its way out.
    pub stopping: bool,
    /// Seconds until a stop that is to come.
    #[serde(default)]
    pub stops_in_s: Option<u64>,
    /// Counters by name since start, summed over the shards.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// All of the process that is in memory, bytes, as the kernel counts it (`VmRSS`).
    #[serde(default)]
    pub resident_bytes: u64,
    /// Addresses that the allocator may write to, bytes: resident or not.
    #[serde(default)]
    pub reserved_bytes: u64,
    /// What is resident by what holds it, bytes: the parts of the dashboard's "Memory".
    #[serde(default)]
    pub memory: BTreeMap<String, u64>,
    /// Options that an operator has set since the start.
    #[serde(default)]
    pub knobs_set: Vec<KnobRow>,
    /// What operators did lately, oldest first; at most [`crate::events::EVENTS_MAX`].
    #[serde(default)]
    pub events: Vec<Event>,
    /// The TLS certificate in use, if there is one.
    #[serde(default)]
    pub certificate: Option<CertificateState>,
}

/// How the wall clock is in doubt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClockState {
    /// Seconds that it is ahead of what was expected; negative if it is behind.
    pub ahead_s: i64,
    /// Seconds until it is believed, if it keeps its time.
    pub left_s: u64,
}

/// Shards that accept no connections for now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NotAccepting {
    /// How many.
    pub shards: u32,
    /// Why, as a part of a sentence.
    pub why: String,
    /// What an operator does about it, likewise.
    pub remedy: String,
}

impl Status {
    /// That shards accept no connections, as a sentence without a full stop.
    pub fn paused(&self) -> Option<String> {
        let NotAccepting { shards, why, remedy } = self.not_accepting.as_ref()?;
        let (all, room) = (self.shards, self.connections_max);
        Some(format!("paused at {shards} of {all} shards, which have room for {room} connections: {why}; {remedy}"))
    }
}

/// How a TLS certificate stands.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CertificateState {
    /// When it ends, in seconds since 1970.
    pub expires_s: i64,
    /// Why clients refuse it now, a sentence each.
    pub faults: Vec<String>,
    /// That it ends within two weeks, as a sentence.
    pub soon: Option<String>,
    /// Domains, `localhost` aside, that are served with a certificate that the server has signed itself.
    #[serde(default)]
    pub self_signed: Vec<String>,
}

/// An option that can be set at run time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KnobRow {
    /// Its name.
    pub key: String,
    /// Its value, as it would be written.
    pub value: String,
    /// Its default, likewise.
    pub default: String,
    /// Type: `switch`, `count`, `bytes`, `seconds` or `choice`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What a number counts.
    pub unit: Option<String>,
    /// Smallest number.
    pub min: Option<u64>,
    /// Largest number.
    pub max: Option<u64>,
    /// What is allowed, in words.
    pub allowed: String,
    /// Where the value came from: a file with its line, a flag, a variable, `default`, `set at run time`.
    pub source: String,
    /// When it is put back, seconds since the Unix epoch; none if it stays.
    pub until_s: Option<u64>,
    /// What it is, in one sentence.
    pub help: String,
}

/// What a change of a knob did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KnobChange {
    /// The option.
    pub key: String,
    /// The value before.
    pub from: String,
    /// The value now.
    pub to: String,
    /// When it is put back, seconds since the Unix epoch; none if it stays.
    pub until_s: Option<u64>,
}

/// One bound session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SessionRow {
    /// Full JID.
    pub jid: String,
    /// Peer's IP and port, only the IP where it came by a proxy of HTTP or by BOSH; none while it waits to be resumed, or when its connection is breaking just now.
    pub address: Option<String>,
    /// It has no connection and waits to be resumed (XEP-0198).
    #[serde(default)]
    pub resumable: bool,
    /// TLS version in use; none without encryption or without a connection.
    pub tls: Option<String>,
    /// Home shard.
    pub shard: u32,
    /// Seconds since it was bound or last resumed; of one that waits to be resumed, since it lost its connection.
    pub age_s: u64,
    /// Seconds since the client was last heard.
    pub idle_s: u64,
    /// Priority of its available presence; none while unavailable.
    pub priority: Option<i8>,
    /// Bytes that wait to be sent, those under way to the kernel included.
    pub outbound_bytes: u64,
}

/// An external component that is configured (XEP-0114).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ComponentRow {
    /// Its domain.
    pub domain: String,
    /// It is connected; if not, all else is zero.
    pub connected: bool,
    /// Peer's IP and port; none when it is away, or its connection is breaking just now.
    pub address: Option<String>,
    /// Home shard.
    pub shard: u32,
    /// Seconds since it has connected.
    pub age_s: u64,
    /// Seconds since it was last heard.
    pub idle_s: u64,
    /// Stanzas from it.
    pub stanzas_in: u64,
    /// Stanzas that it has taken.
    pub stanzas_out: u64,
    /// Stanzas for it that were answered with an error because it took no more.
    pub refused: u64,
    /// Stanzas that wait for it.
    pub waiting: u64,
    /// Their bytes, with what each costs beside.
    pub waiting_bytes: u64,
}

/// Connections of one address that have not logged in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpeningRow {
    /// The address; of IPv6 the first one of its /64.
    pub address: String,
    /// How many there are.
    pub connections: u64,
}

/// Most rows of [`Control::openings`].
pub const OPENING_ROWS_MAX: usize = 200;

/// What a session did of late, a second. Figures may be too small, never too large ([`throng_engine::observers::busiest`]).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BusySession {
    /// Full JID.
    pub jid: String,
    /// Home shard.
    pub shard: u32,
    /// Stanzas a second from its client.
    pub stanzas_in: f64,
    /// Stanzas a second to its client.
    pub stanzas_out: f64,
    /// Bytes of these a second from its client.
    pub bytes_in: f64,
    /// Bytes of these a second to its client.
    pub bytes_out: f64,
    /// Bytes that wait for it or are under way to the kernel, now.
    pub outbound_bytes: u64,
}

/// The busiest sessions.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Busiest {
    /// Whether there are figures: counting begins with the first question, and ends when nobody asks for five seconds.
    pub counted: bool,
    /// The busiest first.
    pub sessions: Vec<BusySession>,
}

/// A page of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Page<T> {
    /// At most as many rows as asked for.
    pub rows: Vec<T>,
    /// Give this as `after` for the next page; none at the end.
    pub next: Option<String>,
}

/// Who hears an announcement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audience {
    /// Every session.
    All,
    /// These bare or full JIDs; at most [`SAY_JIDS_MAX`].
    These(Vec<String>),
}

/// How far announcements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Announced {
    /// Sessions that were told since the start, by all announcements.
    pub told: u64,
    /// Whether all are over.
    pub done: bool,
}

/// Somebody who is refused by a limit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HeldRow {
    /// The limit's name ([`throng_engine::wire::limit::Limit::name`]).
    pub limit: String,
    /// An address (IPv6: its /64), a JID, or both with a space between.
    pub who: String,
    /// When it was refused first, seconds since the Unix epoch.
    pub since_s: u64,
    /// When it is let go, seconds since the Unix epoch; none where that is when something is freed.
    pub until_s: Option<u64>,
    /// How often it was refused since.
    pub refused: u64,
}

/// Those who are held by limits.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Held {
    /// The latest first; at most [`HELD_ROWS_MAX`].
    pub rows: Vec<HeldRow>,
    /// How many more there are.
    pub more: u64,
}

/// Most rows of [`Held`].
pub const HELD_ROWS_MAX: usize = 2_000;

/// Whom to let go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// An address (IPv6: its /64).
    Address(std::net::IpAddr),
    /// An account: localpart or bare JID.
    Account(String),
    /// Everybody.
    All,
}

/// What a reload did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reloaded {
    /// What took effect, one sentence or key each.
    pub applied: Vec<String>,
    /// What differs in the configuration and waits for a restart.
    pub waiting: Vec<String>,
    /// What is set at run time and stays so, whatever the configuration says.
    #[serde(default)]
    pub overridden: Vec<String>,
}

/// How far a backup is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BackupState {
    /// Rows written so far.
    pub rows: u64,
    /// It is complete and durable.
    pub done: bool,
}

/// What happens to an account that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Existing {
    /// [`Put::Exists`]; the account is not touched.
    Refuse,
    /// [`Put::Skipped`]; the account is not touched.
    Skip,
    /// [`Put::Updated`]: it gets the new keys.
    Update,
    /// As `Update`, but an account that is not there is [`Put::Missing`] and not made.
    Require,
}

/// An account to be written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewAccount {
    /// Bare JID, or a localpart at the main domain, as given; the implementation prepares it (RFC 7622 3).
    pub user: String,
    /// Its keys.
    pub keys: ScramKeys,
}

/// What became of one account of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Put {
    /// It is new.
    Added,
    /// It was there and has new keys.
    Updated,
    /// It was there and is as before.
    Skipped,
    /// It was there, which [`Existing::Refuse`] does not allow.
    Exists,
    /// It was not there, which [`Existing::Require`] does not allow.
    Missing,
    /// The localpart or the keys are wrong; the reason.
    Invalid(String),
}

/// Whether an account may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccountStanding {
    /// It may.
    InUse,
    /// It waits for approval.
    WaitsForApproval,
    /// It is suspended.
    Suspended,
    /// Its record is damaged: nobody can log in.
    Damaged,
}

impl AccountStanding {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            AccountStanding::InUse => "in use",
            AccountStanding::WaitsForApproval => "waits for approval",
            AccountStanding::Suspended => "suspended",
            AccountStanding::Damaged => "its record is damaged",
        }
    }
}

/// What is stored of an account in one table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredShown {
    /// What: `archive`, `waiting`, `contacts`, `private`, `nodes`, `sessions`, `invitations`.
    pub what: String,
    /// Rows; one row of an archive has several messages.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// There are more, which were not counted.
    pub more: bool,
}

/// An account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccountShown {
    /// Bare JID.
    pub user: String,
    /// Whether it may be used.
    pub standing: AccountStanding,
    /// When it was made, seconds since the Unix epoch; none if its record is damaged.
    pub created_s: Option<u64>,
    /// When its last available session ended (XEP-0012), or now if it is connected, seconds since the Unix epoch; none if nobody knows.
    pub last_seen_s: Option<u64>,
    /// Its sessions, [`ROWS_PER_PAGE_MAX`] at the most; empty while no server runs.
    pub sessions: Vec<SessionRow>,
    /// What is stored of it.
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

/// What is stored of an account, as administrators see it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountSeen {
    /// How many contacts it has.
    pub contacts: u64,
    /// Its roster: a `<query/>` (RFC 6121 2.1).
    pub roster: Vec<u8>,
    /// When its last session ended, seconds since the Unix epoch; none if it never had one.
    pub last_seen_s: Option<u64>,
}

/// An invitation that is to be made.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NewInvite {
    /// The account that it is for, a bare JID or a localpart at the main domain; any account of [`NewInvite::domain`] when none.
    pub user: Option<String>,
    /// Who invites, in the same way; the operator when none.
    pub inviter: Option<String>,
    /// Who comes by it and the inviter become contacts.
    #[serde(default)]
    pub befriends: bool,
    /// The domain, where neither of the two says it; the main one when none.
    pub domain: Option<String>,
    /// How often it can be used.
    pub uses: u32,
    /// For how long, seconds; as configured when none.
    pub life_s: Option<u64>,
    /// Invitations that who invites may have; 0 for any number.
    #[serde(default)]
    pub most: usize,
}

/// An invitation, as it is handed on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Invited {
    /// Its address (RFC 5122).
    pub uri: String,
    /// The address of a page, if there is one.
    pub page: Option<String>,
    /// When it ends, seconds since the Unix epoch.
    pub until_s: u64,
    /// By what it is revoked.
    pub id: String,
    /// Its token.
    pub token: String,
}

/// One invitation of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InviteRow {
    /// A digest of its token, in hexadecimal.
    pub id: String,
    /// Who keeps it: a bare JID or a domain.
    pub actor: String,
    /// Who invites; none for the operator.
    pub inviter: Option<String>,
    /// The account that it is for, if it is for one.
    pub user: Option<String>,
    /// An account can be registered by it.
    pub registers: bool,
    /// Who comes by it becomes a contact.
    pub befriends: bool,
    /// How often it could be used.
    pub uses: u32,
    /// How often it still can.
    pub left: u32,
    /// When it was made, seconds since the Unix epoch.
    pub made_s: u64,
    /// When it ends.
    pub until_s: u64,
    /// `open`, `used`, `revoked` or `over`.
    pub state: String,
    /// The first that came by it, bare JIDs.
    pub joined: Vec<String>,
}

/// An account that waits for approval.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ApplicantRow {
    /// Bare JID.
    pub user: String,
    /// Since when, seconds since the Unix epoch.
    pub since_s: u64,
    /// From where it was registered.
    pub address: String,
}

/// What a user has reported (XEP-0377).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReportRow {
    /// By what it is dismissed.
    pub id: String,
    /// The domain that keeps it.
    pub domain: String,
    /// When it came, seconds since the Unix epoch.
    pub at_s: u64,
    /// Who has reported: a bare JID.
    pub by: String,
    /// Who is reported.
    pub jid: String,
    /// Why: a URN.
    pub reason: String,
    /// What the user says to it; may be empty.
    pub text: String,
    /// Stanza-ids of the messages in question.
    pub messages: Vec<String>,
}

impl ReportRow {
    /// Its place in a listing, to go on from.
    pub fn place(&self) -> String {
        place_of_report(&self.domain, self.at_s, &self.id)
    }
}

/// The place of a report in a listing: no part holds a space.
pub fn place_of_report(domain: &str, at_s: u64, id: impl fmt::Display) -> String {
    format!("{domain} {at_s} {id}")
}

/// The accounts of a store, by a running server or directly.
///
/// Calls block until what they did is durable.
pub trait Accounts {
    /// The domain of names without one.
    fn domain(&self) -> Result<String, Fault>;

    /// Writes up to [`ACCOUNTS_PER_BATCH_MAX`] accounts, answering for each in order. Within a batch a later entry of
    /// the same user meets the earlier one as existing.
    ///
    /// # Errors
    /// Only for the batch as a whole; then none of it may be assumed written.
    fn put(&self, batch: Vec<NewAccount>, existing: Existing) -> Result<Vec<Put>, Fault>;

    /// Removes an account and everything of its user; live sessions end.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`], [`FaultKind::Invalid`].
    fn delete(&self, user: &str) -> Result<(), Fault>;

    /// Up to `limit` accounts in a stable order, after the one that `after` names.
    fn list(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault>;

    /// Makes an invitation.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: who invites is not there. [`FaultKind::Exists`]: whom it is for is, or is invited already.
    /// [`FaultKind::Invalid`]: nobody can register here, or a bound is not held.
    fn invite(&self, new: &NewInvite) -> Result<Invited, Fault>;

    /// Up to `limit` invitations in a stable order, after the one that `after` names; used, revoked and old ones included, for as long
    /// as they are kept.
    ///
    /// # Errors
    /// The store's.
    fn invitations(&self, after: Option<&str>, limit: usize) -> Result<Page<InviteRow>, Fault>;

    /// Lets an invitation let in nobody more, by who keeps it and its whole id.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`].
    fn revoke(&self, actor: &str, id: &str) -> Result<(), Fault>;

    /// Accounts that wait for approval, those that wait for longest first; at most [`APPLICANTS_MAX`] a domain.
    ///
    /// # Errors
    /// The store's.
    fn applicants(&self) -> Result<Vec<ApplicantRow>, Fault>;

    /// Puts an account to use that waits for approval, or removes it.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: there is none that waits.
    fn decide(&self, user: &str, approve: bool) -> Result<(), Fault>;

    /// Suspends an account, which ends its sessions at once and refuses its logins, or lets it be used again. What is stored of it stays.
    /// Returns how many sessions have ended.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]; [`FaultKind::Invalid`]: it waits for approval.
    fn suspend(&self, user: &str, suspended: bool) -> Result<u64, Fault>;

    /// What is known of an account.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`], and the store's.
    fn show(&self, user: &str) -> Result<AccountShown, Fault>;

    /// Up to `limit` reports after the one that `after` names, and not more than fit into an answer: by domain, the latest first.
    ///
    /// # Errors
    /// The store's.
    fn reports(&self, after: Option<&str>, limit: usize) -> Result<Page<ReportRow>, Fault>;

    /// Lets up to [`REPORTS_DISMISSED_MAX`] reports go, by their ids; how many.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: there is none of them.
    fn dismiss(&self, ids: &[String]) -> Result<u64, Fault>;
}

/// A running server, as the control socket sees it. Where the server's list of events has a line of what was done, `by` says on whose
/// behalf.
///
/// Called from the socket's one thread, one call at a time. A call may block for as long as its work takes (a commit, a
/// turn of each shard), and should not for longer than a second, because other clients of the socket wait.
pub trait Control: Accounts + Send + Sync {
    /// The state now; reads counters, disturbs no shard.
    fn status(&self) -> Status;

    /// Up to `limit` sessions of the bare or full JID `of`, or of all users, after the one that `after` names. A
    /// listing over several pages is no snapshot: sessions come and go meanwhile.
    fn sessions(&self, of: Option<&str>, after: Option<&str>, limit: usize) -> Result<Page<SessionRow>, Fault>;

    /// What is stored of an account.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`], [`FaultKind::Invalid`].
    fn account_seen(&self, user: &str) -> Result<AccountSeen, Fault>;

    /// Of up to `limit` accounts after the one that `after` names those that are suspended.
    ///
    /// # Errors
    /// The store's.
    fn suspended(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault>;

    /// Ends the sessions of a bare or full JID; how many. Their clients are told the reason.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`] when it has none.
    fn kick(&self, jid: &str, reason: Option<&str>) -> Result<u64, Fault>;

    /// Sends a message from the server to sessions; how many got it. An urgent one goes ahead of what waits for their
    /// connections.
    fn say(&self, by: &str, text: &str, to: &Audience, urgent: bool) -> Result<u64, Fault>;

    /// Begins to tell all sessions, if `online`, and keeps the text for who logs in within `later`, if that is given, in place of
    /// what was kept before. A million sessions take about a minute; [`Control::announced`] tells how far it is.
    ///
    /// # Errors
    /// [`FaultKind::Busy`] with too many announcements under way, or a full disk.
    fn announce(&self, text: &str, online: bool, later: Option<Duration>) -> Result<(), Fault>;

    /// Puts another text in the place of the one that is kept for who logs in later: who was told that one is not told this one. If
    /// none is kept, this one is, for [`ANNOUNCED_FOR`].
    ///
    /// # Errors
    /// As [`Control::announce`].
    fn edit_announcement(&self, text: &str) -> Result<(), Fault>;

    /// How far announcements are.
    fn announced(&self) -> Result<Announced, Fault>;

    /// Keeps no announcement any more for who logs in later.
    ///
    /// # Errors
    /// As [`Control::announce`].
    fn withdraw_announcement(&self) -> Result<(), Fault>;

    /// Cuts the connections of a bare or full JID and drops what waits for them; how many. Sessions that may be resumed wait
    /// for that, messages wait again for the user's next session.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`] when there is no connection.
    fn flush_queue(&self, by: &str, jid: &str) -> Result<u64, Fault>;

    /// Drops what waits for a user who is not there; how many messages. They stay in the archive, if there is one.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]; [`FaultKind::Busy`] while the user has sessions.
    fn flush_waiting(&self, by: &str, jid: &str) -> Result<u64, Fault>;

    /// The components that are configured, in the order of their domains; at most 256.
    ///
    /// # Errors
    /// A shard does not answer.
    fn components(&self) -> Result<Vec<ComponentRow>, Fault>;

    /// From where connections come that have not logged in, those with most first; at most [`OPENING_ROWS_MAX`] rows.
    ///
    /// # Errors
    /// A shard does not answer.
    fn openings(&self) -> Result<Vec<OpeningRow>, Fault>;

    /// Who is held by limits: by those that remember what was done until when, by others lately.
    fn limits(&self) -> Result<Held, Fault>;

    /// Lets go of those who are held by failed logins or registrations; how many it were.
    ///
    /// # Errors
    /// [`FaultKind::Invalid`]: not an account of this server.
    fn release(&self, by: &str, whom: &Release) -> Result<u64, Fault>;

    /// Begins a graceful stop, now or in `after`, and returns at once. `grace` none is the configured time. Of stops that are to come the
    /// one wished last counts.
    ///
    /// # Errors
    /// [`FaultKind::Busy`]: it is stopping already.
    fn shutdown(&self, grace: Option<Duration>, after: Option<Duration>) -> Result<(), Fault>;

    /// A stop that is to come does not.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: none is.
    fn cancel_shutdown(&self) -> Result<(), Fault>;

    /// The wall clock is right, though it is far from what was expected: what is old by it is deleted from now on. Seconds that
    /// it was ahead.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]: it is not in doubt.
    fn confirm_clock(&self, by: &str) -> Result<i64, Fault>;

    /// Reads certificates and knobs again. What is set at run time stays.
    fn reload(&self) -> Result<Reloaded, Fault>;

    /// All options that can be set at run time, as they stand.
    fn knobs(&self) -> Vec<KnobRow>;

    /// Sets one, for a while or until it is reset; what has changed once all threads have it.
    ///
    /// # Errors
    /// [`FaultKind::Invalid`]: there is no such knob, or the value is not allowed or does not go with others.
    fn set_knob(&self, by: &str, key: &str, value: &str, lasting: Option<Duration>) -> Result<Vec<KnobChange>, Fault>;

    /// Gives one, or all, the value of the configuration again.
    ///
    /// # Errors
    /// As [`Control::set_knob`].
    fn reset_knobs(&self, by: &str, key: Option<&str>) -> Result<Vec<KnobChange>, Fault>;

    /// Copies the store as of one moment to a folder (absolute path) that is not there or empty. The first call begins
    /// and returns; further calls with the same folder tell how far it is, until one has told of its end.
    ///
    /// # Errors
    /// It failed, or another backup is under way ([`FaultKind::Busy`]).
    fn backup(&self, to: &str) -> Result<BackupState, Fault>;

    /// Begins a trace of a user's stanzas, tells what has come, ends it; waits for none of it.
    ///
    /// # Errors
    /// Too many are under way ([`FaultKind::Busy`]), the question is wrong, or the trace has ended.
    fn trace(&self, ask: trace::Ask) -> Result<trace::Told, Fault>;

    /// Begins a profile, tells how far it is and what it found; waits for none of it.
    ///
    /// # Errors
    /// Another is under way ([`FaultKind::Busy`]), the question is wrong, or the system does not allow it.
    fn profile(&self, ask: crate::profile::Ask) -> Result<crate::profile::Told, Fault>;
}
