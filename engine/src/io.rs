//! The one way in and the one way out of a shard: [`Input`] and [`Output`], both closed.
//!
//! Whoever hosts a shard (the server's threads, the simulated world) turns events into inputs and carries effects out.
//! The order of effects is the order in which the host must carry them out for one connection.

use std::net::IpAddr;
use std::sync::Arc;

use crate::extension::bytestreams::{Activated, Activation};
use crate::id::{ConnId, ShardId};
use crate::letters::Letters;
use crate::orders::{Order, Outcome};
pub use crate::session::facts::{ClientCertificate, ListenerKind, Lost, TlsFacts};
use crate::session::moved::Moved;
use crate::session::sasl;
pub use crate::session::sasl::outside::{Question, Unknown, Verdict};
use crate::settings::Settings;
use crate::store::account::Credentials;
use crate::store::announcement::Kept;
use crate::store::invitation::{Invitation, InvitationId, NewInvitation};
use crate::store::report::{Report, ReportId};
use crate::store::{Batch, Found, Query, Table};
pub use crate::web::inquiry::{Decision, Inquiry};
use crate::wire::limit::Limit;

/// Space in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageState {
    /// There is room.
    Ok,
    /// Commits in flight get through on the reserve; nothing new that must be stored is accepted.
    Full,
}

/// Work that takes longer than a turn may; its result comes back as an input.
pub enum Job {
    /// Derive the key of a PLAIN login's password, to compare.
    CheckPassword(sasl::DeriveKeys),
    /// Derive SCRAM keys from a password (RFC 5802 2.2), to store.
    DeriveKeys {
        /// The prepared password.
        password: Box<str>,
        /// Salt.
        salt: Box<[u8]>,
        /// Iteration count.
        iterations: u32,
        /// Time to note in the account's row, microseconds since the epoch.
        created_us: u64,
    },
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Job::CheckPassword(job) => job.fmt(f),
            Job::DeriveKeys { iterations, .. } => write!(f, "DeriveKeys {{ iterations: {iterations}, .. }}"),
        }
    }
}

impl Job {
    /// Does the work: pure, and slow on purpose.
    pub fn run(self) -> JobDone {
        match self {
            Job::CheckPassword(job) => JobDone::Checked(job.run()),
            Job::DeriveKeys { password, salt, iterations, created_us } => {
                JobDone::Keys(Credentials::derive(&password, iterations, &salt, created_us).ok().map(Box::new))
            }
        }
    }
}

/// The result of a [`Job`].
#[derive(Debug)]
pub enum JobDone {
    /// The key of a password to compare.
    Checked(sasl::Derived),
    /// The keys; `None` if the password cannot be one.
    Keys(Option<Box<Credentials>>),
}

/// What the operator asks of a shard; the host sends a command to the shard it concerns, or to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// List sessions of this shard from a slot on, at most `most`.
    Sessions {
        /// Bare or full JID, normalised: only its sessions.
        of: Option<Box<str>>,
        /// First slot to look at.
        from_slot: u32,
        /// Most rows.
        most: u32,
    },
    /// End the sessions of a bare JID, or the one of a full JID.
    Kick {
        /// Bare or full JID, normalised.
        jid: Box<str>,
        /// Told to the clients, as the `<text/>` of the stream error (RFC 6120 4.9.2).
        reason: Option<Box<str>>,
    },
    /// A headline from the server to a user's sessions, or with no JID to all of this shard.
    Say {
        /// Bare JID.
        jid: Option<Box<str>>,
        /// The text.
        text: Box<str>,
        /// Ahead of what waits for the connections already, behind the send that is under way.
        urgent: bool,
    },
    /// Begin to tell all sessions of this shard, also those that wait to be resumed: a headline, some sessions a turn.
    Announce {
        /// The text; at most [`ADHOC_TEXT_BYTES_MAX`](crate::limits::ADHOC_TEXT_BYTES_MAX) bytes.
        text: Arc<str>,
        /// Its number, if it is kept for those who log in later, so that who is told now is not told again; otherwise 0.
        number: u64,
    },
    /// Say how far announcements are.
    Announced,
    /// List the components whose home the shard is.
    Components,
    /// Say from which addresses connections of this shard come that have no session, those with most first.
    Openings {
        /// Most rows.
        most: u32,
    },
    /// Keep an announcement for those who log in later, in place of another one, or none any more.
    Keep {
        /// The announcement.
        kept: Option<Arc<Kept>>,
        /// Write it: asked of one shard.
        write: bool,
    },
    /// Cut the connections of a bare JID's sessions, or of the one of a full JID, and drop what waits for them. A session that
    /// may be resumed waits for that (XEP-0198 5); messages wait again for the user's next session.
    Detach {
        /// Bare or full JID, normalised.
        jid: Box<str>,
    },
    /// Make an account, or with `replace` change its credentials; the shard is its home.
    PutAccount {
        /// Bare JID, normalised.
        account: Box<str>,
        /// The keys of its password; which account of its name it is, is for the shard to say.
        credentials: Box<Credentials>,
        /// Whether one of this name may exist, must not, or must.
        mode: PutMode,
    },
    /// Remove an account and all that is the user's; the shard is its home.
    DeleteAccount {
        /// Bare JID, normalised.
        account: Box<str>,
    },
    /// Make an invitation; the shard is home to the actor that keeps it.
    Invite {
        /// A bare JID, or a domain: normalised.
        actor: Box<str>,
        /// What it is.
        new: NewInvitation,
    },
    /// Note that a user invites to an account's name, before [`Command::Invite`] for the account. The shard is home to the user. What is
    /// refused there counts all the same: nobody finds out by it which names are taken, but for so many.
    InviteToName {
        /// Who invites: a bare JID, normalised.
        inviter: Box<str>,
        /// The account, in the same way.
        account: Box<str>,
        /// How long the invitation is good, seconds.
        life_s: u64,
        /// Invitations that the user may have.
        most: usize,
    },
    /// Remove invitations that are over, and accounts that have waited too long for approval: a step of the host's slow sweep over all of
    /// them. The shard is the actors' home.
    SweepInvitations {
        /// Bare JIDs and domains.
        actors: Vec<Box<str>>,
    },
    /// Let an invitation let in nobody more; the shard is home to the actor that keeps it.
    Revoke {
        /// A bare JID, or a domain: normalised.
        actor: Box<str>,
        /// Which of the actor's.
        id: InvitationId,
    },
    /// Put an account to use that waits for approval, or remove it; the shard is its home.
    Decide {
        /// Bare JID, normalised.
        account: Box<str>,
        /// Put it to use.
        approve: bool,
    },
    /// Suspend an account, which ends its sessions, or let it be used again; the shard is its home. `Reply::Busy`: it waits for approval.
    Suspend {
        /// Bare JID, normalised.
        account: Box<str>,
        /// Suspend it.
        suspended: bool,
    },
    /// Let reports go; the shard is home to their domain.
    Dismiss {
        /// The domain, normalised.
        domain: Box<str>,
        /// Which of the domain's.
        ids: Vec<ReportId>,
    },
    /// Drop what waits for a user who has no session: archived messages stay in the archive. The shard is the user's home.
    FlushWaiting {
        /// Bare JID, normalised.
        account: Box<str>,
    },
    /// Sessions of an earlier process of these users are to be there, and to wait to be resumed. The shard is their home.
    Restore {
        /// Bare JIDs.
        users: Vec<Box<str>>,
        /// There are no more such users.
        last: bool,
    },
    /// Drop what is delivered and older than [`retention_s`](crate::settings::Settings::retention_s) from the archives of
    /// these users: a step of the host's slow sweep over all of them. The shard is their home.
    Retain {
        /// Bare JIDs.
        users: Vec<Box<str>>,
    },
    /// Remove registrations for pushes that are over from these channels, whether anything is published there or not: a step of the host's
    /// slow sweep over all of them. The shard is their home.
    EndRegistrations {
        /// The nodes, with their service before them.
        nodes: Vec<Box<str>>,
    },
    /// Name connections and users for whom much waits, the longest first: a look at [`SLOTS_A_LOOK`] slots from this one on.
    Backlogs {
        /// Where to begin; 0, or where the look before says to go on.
        from_slot: u32,
        /// Bytes below which a connection's output is none.
        bytes_min: usize,
        /// Rows at the most.
        most: u32,
    },
    /// Begin to trace a user's stanzas; the shard is the user's home. Nothing is kept after `ms`, and the trace is gone when
    /// nobody has fetched from it for [`ABANDONED_MS`](crate::observers::trace::ABANDONED_MS).
    Trace {
        /// Its number, which the host chooses.
        id: u64,
        /// Bare or full JID, normalised.
        jid: Box<str>,
        /// Keep all of each stanza, not only who, what and how much.
        bodies: bool,
        /// How long, milliseconds.
        ms: u64,
    },
    /// Take what a trace has seen since the last time.
    FetchTrace {
        /// Its number.
        id: u64,
    },
    /// End a trace.
    EndTrace {
        /// Its number.
        id: u64,
    },
    /// Which sessions of this shard have most stanzas and bytes; see [`crate::observers::busiest`].
    Busiest {
        /// Most rows.
        most: u32,
    },
    /// Say who is held by which limit.
    Limits,
    /// Let go of those who are held by limits that remember what was done.
    Release {
        /// Whom.
        whom: Whom,
    },
    /// Go by these settings from now on. What must not change while a shard runs is as before: domain, number of shards,
    /// secrets, `archive`, `stanza_bytes_max`, which is announced to clients, and `scram_iterations`.
    Turn(std::sync::Arc<Settings>),
    /// End every stream with `<system-shutdown/>` (RFC 6120 4.9.3.19), let what is unacknowledged wait again
    /// and take no more.
    Shutdown,
}

/// Whom an operator lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// An address (IPv6: its /64), with what it did to accounts.
    Address(IpAddr),
    /// An account by its bare JID, normalised, with what addresses did to it.
    Account(Box<str>),
    /// Everybody.
    All,
}

/// Somebody who is refused by a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// Which.
    pub limit: Limit,
    /// An address, a JID, or both with a space between.
    pub who: String,
    /// Milliseconds since the first refusal.
    pub since_ms: u64,
    /// Milliseconds until it is let go; none where that is when something is freed.
    pub left_ms: Option<u64>,
    /// How often it was refused since.
    pub refused: u64,
}

/// How an account is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// There must be none.
    Add,
    /// There must be one.
    Change,
    /// Either.
    AddOrChange,
}

/// The answer to a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done; the number of sessions it touched, of accounts it made (none if one was changed) or removed, of archives that it
    /// made shorter, or of messages that waited.
    Done(u32),
    /// No such account or session.
    NotFound,
    /// There is an account of this name.
    Exists,
    /// Not now: the user is there, or something of the user's is under way.
    Busy,
    /// The store is full.
    StoreFull,
    /// What is stored of the user cannot be read: it is damaged.
    Unreadable,
    /// A page of sessions; `next` is the slot to go on from.
    Sessions {
        /// The rows.
        rows: Vec<SessionRow>,
        /// Where to go on.
        next: Option<u32>,
    },
    /// What waits, the longest first.
    Backlogs {
        /// The rows.
        rows: Vec<BacklogRow>,
        /// Where to go on.
        next: Option<u32>,
    },
    /// The components whose home the shard is.
    Components(Vec<ComponentRow>),
    /// Connections without a session, by address (IPv6: by /64), those with most first.
    Openings(Vec<(IpAddr, u32)>),
    /// An invitation is made.
    Invited {
        /// Its token, which is known to nobody else.
        token: Box<str>,
        /// What it is. Boxed, because all effects are as large as the largest.
        invitation: Box<Invitation>,
    },
    /// How far announcements are.
    Announced {
        /// Sessions told since the start, by all of them.
        told: u64,
        /// Announcements that are not over.
        under_way: u32,
    },
    /// Who is held by which limit.
    Limits(Vec<LimitRow>),
    /// What a trace has seen. Boxed, because all effects are as large as the largest.
    Traced(Box<crate::observers::trace::Page>),
    /// The busiest sessions of a window of time, the busiest first.
    Busiest {
        /// How long it was, milliseconds; 0 while there is none: counting has begun.
        window_ms: u64,
        /// The rows.
        rows: Vec<BusyRow>,
    },
}

/// Slots that one [`Command::Backlogs`] looks at: some tenths of a millisecond of a turn.
pub const SLOTS_A_LOOK: u32 = 16_384;

/// A connection or a user for whom something waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BacklogRow {
    /// Output that a client has not taken.
    Outbound {
        /// The session's full JID.
        jid: String,
        /// Its connection.
        conn: ConnId,
        /// Bytes that wait or are under way to the kernel.
        bytes: usize,
        /// Bytes that went to the kernel since something began to wait.
        sent_bytes: u64,
        /// Seconds that the send under way has taken.
        stalled_s: u32,
    },
    /// Waiting messages that are being handed out.
    Replay {
        /// The user's bare JID.
        jid: String,
        /// Messages that still wait; a little low after a crash.
        messages: u32,
    },
    /// An account that sends faster than it may, and has been held back within the last [`HELD_BACK_LATELY_MS`].
    HeldBack {
        /// The user's bare JID.
        jid: String,
        /// How often since the first time.
        times: u64,
        /// Seconds since the first time; of times with ten minutes between them the latest count.
        since_s: u64,
    },
}

/// Who has been held back so lately counts as held back now, milliseconds.
pub const HELD_BACK_LATELY_MS: u64 = 6_000;

impl BacklogRow {
    /// The connection, if it is one.
    pub fn conn(&self) -> Option<ConnId> {
        match self {
            BacklogRow::Outbound { conn, .. } => Some(*conn),
            BacklogRow::Replay { .. } | BacklogRow::HeldBack { .. } => None,
        }
    }
}

/// What a session did within a window of time. Figures may be too small, never too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyRow {
    /// Full JID.
    pub jid: String,
    /// Stanzas from its client.
    pub stanzas_in: u64,
    /// Stanzas to its client.
    pub stanzas_out: u64,
    /// Bytes of these from its client.
    pub bytes_in: u64,
    /// Bytes of these to its client.
    pub bytes_out: u64,
    /// Bytes that wait to be sent or are under way to the kernel, now.
    pub outbound_bytes: usize,
}

/// One session as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Full JID.
    pub jid: String,
    /// The connection behind it, or none while it waits to be resumed (XEP-0198 5).
    pub conn: Option<ConnId>,
    /// Seconds that it has had its connection, or none.
    pub since_s: u32,
    /// Available, with this priority (RFC 6121 4.7.2.3).
    pub priority: Option<i8>,
    /// Seconds since the last bytes from it.
    pub idle_s: u32,
    /// Whether stream management is on.
    pub managed: bool,
    /// Whether the stream is encrypted.
    pub tls: bool,
    /// Bytes that wait to be sent or are under way to the kernel.
    pub outbound_bytes: usize,
}

/// A component that is connected, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRow {
    /// Its domain.
    pub domain: String,
    /// Its connection.
    pub conn: ConnId,
    /// Seconds that it has been there.
    pub since_s: u32,
    /// Seconds since the last bytes from it.
    pub idle_s: u32,
    /// Stanzas from it.
    pub stanzas_in: u64,
    /// Stanzas that it has taken.
    pub stanzas_out: u64,
    /// Stanzas for it that were answered with an error.
    pub refused: u64,
    /// Stanzas that wait for it.
    pub waiting: usize,
    /// Their bytes, with what each costs beside.
    pub waiting_bytes: usize,
}

/// One event that concerns a shard.
#[derive(Debug)]
pub enum Input<'a> {
    /// A connection was accepted.
    Accepted {
        /// Its slot.
        conn: ConnId,
        /// What its listener says.
        listener: ListenerKind,
        /// The other end.
        peer: IpAddr,
    },
    /// A connection was accepted that begins with requests of HTTP (RFC 9112), and may become a WebSocket (RFC 7395).
    AcceptedHttp {
        /// Its slot.
        conn: ConnId,
        /// What its listener says; STARTTLS is never offered.
        listener: ListenerKind,
        /// The other end.
        peer: IpAddr,
    },
    /// A connection was accepted where components connect (XEP-0114).
    AcceptedComponent {
        /// Its slot.
        conn: ConnId,
        /// The other end.
        peer: IpAddr,
    },
    /// The proxy that has made the connection says for whom.
    Client {
        /// The connection.
        conn: ConnId,
        /// The other end of the proxy.
        peer: IpAddr,
    },
    /// Its TLS handshake has finished.
    Secured {
        /// The connection.
        conn: ConnId,
        /// For channel binding.
        tls: Box<TlsFacts>,
    },
    /// Bytes came, decrypted.
    Received {
        /// The connection.
        conn: ConnId,
        /// The bytes; kept by no one after the call.
        bytes: &'a [u8],
    },
    /// All bytes of the last `Send` are with the kernel.
    Sent {
        /// The connection.
        conn: ConnId,
    },
    /// The last `Send` goes on: part of it is with the kernel, or it has only now left for the driver because it waited for what it
    /// rests on.
    Progressed {
        /// The connection.
        conn: ConnId,
    },
    /// What was to be sent since this second waits for what it rests on, and no peer can have taken it; `None`: nothing waits for so
    /// long any more. Told when it changes, before the end of the turn.
    Held {
        /// Of the monotonic clock.
        since_s: Option<u32>,
        /// So much waits that who tells many goes on once it has left.
        many: bool,
    },
    /// The connection is about to end without having been told to: `Closed` follows.
    Lost {
        /// The connection.
        conn: ConnId,
        /// Why.
        how: Lost,
    },
    /// The keys of its TLS may soon encrypt nothing more, and cannot be changed: the stream has to end now
    /// (RFC 6120 4.9.3.16).
    Worn {
        /// The connection.
        conn: ConnId,
    },
    /// The connection is gone, in whatever way. Also follows every `Close` effect.
    Closed {
        /// The connection.
        conn: ConnId,
    },
    /// A connection came over from another shard.
    Arrived {
        /// Its slot here.
        conn: ConnId,
        /// Its state.
        moved: Box<Moved>,
    },
    /// A departing connection could not move, because the other shard has no slot for it: it is still here. What has been read of it since
    /// follows.
    Stayed {
        /// The connection.
        conn: ConnId,
        /// Its state, as it left.
        moved: Box<Moved>,
    },
    /// Letters of another shard.
    Letters(&'a Letters),
    /// The answers to a `Read`.
    Found {
        /// The token of the read.
        token: u64,
        /// An answer a query.
        found: Vec<Found>,
    },
    /// The result of a `Job`.
    Done {
        /// The token of the job.
        token: u64,
        /// The result.
        done: JobDone,
    },
    /// The answer to an `Ask`.
    Told {
        /// The token of the question.
        token: u64,
        /// The answer.
        verdict: Verdict,
    },
    /// The answer to an `Inquire`.
    Decided {
        /// The token of the question.
        token: u64,
        /// The answer.
        decision: Decision,
    },
    /// What came of an order.
    Ordered {
        /// The token of the order.
        token: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// What came of an activation.
    Activated {
        /// The token of the activation.
        token: u64,
        /// What came of it.
        activated: Activated,
    },
    /// What came of a push.
    Pushed {
        /// The token of the push.
        token: u64,
        /// What came of it.
        outcome: PushOutcome,
    },
    /// The store filled up, or has room again.
    Storage(StorageState),
    /// An operator's command.
    Command {
        /// Comes back with the reply.
        token: u64,
        /// The command.
        command: Command,
    },
    /// No more events this turn: letters to the own shard are handled and all outputs are made.
    EndOfTurn,
}

/// Something that belongs into the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What.
    pub what: Happened,
    /// The account's bare JID as it was named; empty if none was. Whoever writes it down has to escape it.
    pub account: Box<str>,
    /// Who did it: an address,
    pub peer: Option<IpAddr>,
    /// or a connection of this shard, whose address the host knows.
    pub conn: Option<ConnId>,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A login succeeded.
    LoggedIn {
        /// The mechanism's name.
        mechanism: &'static str,
    },
    /// A login failed or was broken off.
    LoginFailed {
        /// The mechanism's name; empty if none was chosen.
        mechanism: &'static str,
        /// A condition of RFC 6120 6.5, `broken-off` or `replaced`.
        reason: &'static str,
    },
    /// A login was refused by a limit before anything was tried.
    LoginRefused {
        /// The mechanism's name.
        mechanism: &'static str,
        /// Which limit.
        limit: Limit,
    },
    /// A limit begins to hold somebody.
    Held {
        /// Which.
        limit: Limit,
        /// For how long if nothing more is tried, milliseconds.
        left_ms: u64,
    },
    /// An account was made in band.
    Registered,
    /// A user who is kept elsewhere has logged in for the first time: an account was made.
    Admitted,
    /// Whoever keeps a user elsewhere has said that there is none any more: the account's tokens are void.
    Ousted,
    /// An account was made by an invitation.
    Joined {
        /// Who has invited: a bare JID, or a domain for its operator.
        by: Box<str>,
    },
    /// A user has changed the password.
    PasswordChanged,
    /// A user has removed the account.
    Removed,
    /// A component has connected; the account is its domain.
    ComponentCame,
    /// The component of a domain has gone.
    ComponentLeft {
        /// Stanzas that it had not taken, and that went back with an error.
        returned: usize,
    },
    /// A proxy has named no client of a request, though the operator's option says that it does: all its clients count as one.
    Unnamed {
        /// What it has written instead of an address, cut; empty if nothing.
        said: Box<str>,
    },
    /// A user has blocked somebody and reports it to the operator (XEP-0377).
    Reported(Box<Report>),
    /// A service is told of a user's messages no more, because of what it has answered (XEP-0357 7.1).
    PushDropped(Box<crate::extension::change::Dropped>),
}

/// What lasts several turns and is measured by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// A login that succeeded, from its first element on.
    Login,
    /// A publication at a channel that was done, from its request on.
    Publication,
}

/// What a page is told while it is closed: for the host to encrypt (RFC 8291) and send (RFC 8030 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebPush {
    /// The push resource, an address of HTTPS of which [`authority`](crate::web::push::authority) is known.
    pub endpoint: Box<str>,
    /// The page's public key.
    pub p256dh: [u8; 65],
    /// Its authentication secret.
    pub auth: [u8; 16],
    /// The entry of [`Push::services`](crate::web::push::Push::services) by which it may be asked.
    pub service: u8,
    /// A later push of this name replaces it (RFC 8030 5.4).
    pub topic: Option<Arc<str>>,
    /// The content, at most [`NOTIFY_PUSH_BYTES_MAX`](crate::limits::NOTIFY_PUSH_BYTES_MAX) bytes.
    pub content: Arc<[u8]>,
}

/// What came of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The push service has taken it.
    Sent,
    /// The push service does not know the registration any more (RFC 8030 7.3).
    Gone,
    /// It was not taken, though it was tried again; or it could not be tried.
    Failed,
}

/// One thing that the host has to do.
#[derive(Debug)]
pub enum Effect {
    /// Send these bytes; `Sent` comes back. At most one is under way a connection.
    Send {
        /// The connection.
        conn: ConnId,
        /// The bytes.
        bytes: Vec<u8>,
        /// Not before all that this turn rests on is durable.
        durable: bool,
    },
    /// Send the last words in the clear; from then on the connection speaks TLS.
    StartTls {
        /// The connection.
        conn: ConnId,
        /// Bytes to send before, behind a send that may be under way; no `Sent` comes for them.
        last: Vec<u8>,
        /// Not before all that this turn rests on is durable.
        durable: bool,
    },
    /// Stop reading from it.
    Pause {
        /// The connection.
        conn: ConnId,
    },
    /// Go on reading from it.
    Resume {
        /// The connection.
        conn: ConnId,
        /// Not before all that this turn rests on is durable.
        durable: bool,
    },
    /// A session is bound to it: what comes from it goes ahead of what comes from connections that still log in. A hint.
    Favour {
        /// The connection.
        conn: ConnId,
    },
    /// End the connection, once what was sent and the last words are out (bounded by the host's patience) or, with
    /// `abort`, at once.
    Close {
        /// The connection.
        conn: ConnId,
        /// Bytes to send before, behind a send that may be under way.
        last: Vec<u8>,
        /// Do not wait for what is still to be sent, here or at the gate.
        abort: bool,
        /// Not before all that this turn rests on is durable.
        durable: bool,
    },
    /// Hand the connection over to another shard, once the last words are out; `Arrived` comes out there, and `Closed`
    /// here; or `Stayed` here, if there was no room there. A `Pause` goes before; bytes that the host has nevertheless read since are for the other shard, after
    /// `Arrived` (RFC 6120 6.4.6: the peer may send its new header as soon as it has read `<success/>`).
    Depart {
        /// The connection.
        conn: ConnId,
        /// Bytes to send before, behind a send that may be under way; no `Sent` comes for them.
        last: Vec<u8>,
        /// Its new home.
        to: ShardId,
        /// Its state.
        moved: Box<Moved>,
    },
    /// Letters to another shard.
    Letters {
        /// The destination.
        to: ShardId,
        /// The letters.
        batch: Letters,
    },
    /// Ask the store; it sees all writes asked for before: to the accounts, if it asks about nothing else.
    Read {
        /// Comes back with the answers.
        token: u64,
        /// The questions.
        queries: Vec<Query>,
    },
    /// Do long work elsewhere.
    Job {
        /// Comes back with the result.
        token: u64,
        /// The work.
        job: Job,
    },
    /// Ask whoever keeps the users of a domain elsewhere; `Told` comes back, in bounded time.
    Ask {
        /// Comes back with the answer.
        token: u64,
        /// The question. Boxed, because all effects are as large as the largest.
        question: Box<Question>,
    },
    /// Ask whoever the operator has named whether a request for channels may be done; `Decided` comes back, in bounded time.
    Inquire {
        /// Comes back with the answer.
        token: u64,
        /// The question. Boxed for the same reason.
        inquiry: Box<Inquiry>,
    },
    /// Carry out an order of an administrator, as those of operators are; `Ordered` comes back.
    Order {
        /// Comes back with what came of it.
        token: u64,
        /// The order.
        order: Box<Order>,
    },
    /// Begin to relay the bytes of a bytestream (XEP-0065 6.3.5); `Activated` comes back.
    Activate {
        /// Comes back with what came of it.
        token: u64,
        /// Which, and for whom.
        activation: Box<Activation>,
    },
    /// Send a push to a page's push service (RFC 8030 5); `Pushed` comes back, in bounded time.
    Push {
        /// Comes back with what came of it.
        token: u64,
        /// The push.
        push: Box<WebPush>,
    },
    /// Note how long something took that is answered by this turn.
    Timed {
        /// What.
        what: Timed,
        /// When it began, [`Now::wall_us`](crate::id::Now::wall_us).
        since_us: u64,
    },
    /// Write into the log what has happened. Boxed, because it is rare.
    Note(Box<Note>),
    /// Answer an operator.
    Reply {
        /// The command's token.
        token: u64,
        /// The answer.
        reply: Reply,
        /// Not before all that this turn rests on is durable.
        durable: bool,
    },
}

/// What has to be durable before an effect is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rests {
    /// Nothing: nobody could take it as a promise, and nothing of the same connection waits.
    OnNothing,
    /// What the shard has written to the accounts.
    OnAccounts,
    /// All that the turn rests on.
    OnAll,
}

impl Effect {
    /// What it rests on.
    pub fn rests(&self) -> Rests {
        match self {
            Effect::Send { durable, .. }
            | Effect::StartTls { durable, .. }
            | Effect::Close { durable, .. }
            | Effect::Reply { durable, .. }
            | Effect::Resume { durable, .. } => {
                if *durable {
                    Rests::OnAll
                } else {
                    Rests::OnNothing
                }
            }
            Effect::Read { queries, .. } if queries.iter().all(|query| query.table() == Table::Accounts) => {
                Rests::OnAccounts
            }
            Effect::Read { .. }
            | Effect::Depart { .. }
            | Effect::Note(_)
            | Effect::Order { .. }
            | Effect::Activate { .. }
            | Effect::Push { .. }
            | Effect::Timed { .. } => Rests::OnAll,
            Effect::Pause { .. }
            | Effect::Favour { .. }
            | Effect::Letters { .. }
            | Effect::Job { .. }
            | Effect::Ask { .. }
            | Effect::Inquire { .. } => Rests::OnNothing,
        }
    }
}

/// What a turn wants done. `writes` becomes durable as one, and until then every `Depart`, `Read`, and `Send`, `Close`, `Reply` or
/// `Resume` that asks for it, of this and later turns waits (see [`crate::gate`]).
#[derive(Debug, Default)]
pub struct Output {
    /// The turn's writes.
    pub writes: Batch,
    /// The turn's effects, in order.
    pub effects: Vec<Effect>,
}
