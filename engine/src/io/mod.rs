//! The only entry to a shard and the only exit: [`Input`] and [`Output`], both closed.
//!
//! The host of a shard (the server's threads, or the simulated world) turns events into inputs and
//! carries effects out. It must carry out the effects for one connection in their order.

mod commands;

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
use crate::store::account::Credentials;
use crate::store::report::Report;
use crate::store::{Batch, Found, Query, Table};
pub use crate::web::inquiry::{Decision, Inquiry};
use crate::wire::limit::Limit;

pub use commands::{
    AccountCommand, AnnouncementCommand, BacklogRow, BusyRow, Command, ComponentRow, InvitationCommand, LimitCommand,
    LimitRow, LogCommand, ObserverCommand, PutMode, Reply, RoomCommand, RoomRow, SessionCommand, SessionRow, Whom,
};

/// Space in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageState {
    /// There is room.
    Ok,
    /// Commits in flight complete from the reserve; nothing new that must be stored is accepted.
    Full,
}

/// Work that takes longer than a turn may; its result returns as an input.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Job {
    /// Derives the key of a PLAIN login's password, for comparison.
    CheckPassword(sasl::DeriveKeys),
    /// Derives SCRAM keys from a password (RFC 5802 2.2), to be stored.
    DeriveKeys {
        /// The prepared password.
        password: Box<str>,
        /// Salt.
        salt: Box<[u8]>,
        /// Iteration count.
        iterations: u32,
        /// Creation time to record in the account's row, microseconds since the epoch.
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
    /// Does the work: pure, and slow by design.
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
    /// The key of a password, for comparison.
    Checked(sasl::Derived),
    /// The keys; `None` if the password is not permitted.
    Keys(Option<Box<Credentials>>),
}

/// Slots that one [`LogCommand::Backlogs`] examines: a few tenths of a millisecond of a turn.
pub const SLOTS_A_LOOK: u32 = 16_384;

/// An account that was held back within this time counts as held back now, milliseconds.
pub const HELD_BACK_LATELY_MS: u64 = 6_000;

/// One event that concerns a shard.
#[derive(Debug)]
pub enum Input<'a> {
    /// A connection was accepted.
    Accepted {
        /// Its slot.
        conn: ConnId,
        /// Properties of its listener.
        listener: ListenerKind,
        /// The peer's address.
        peer: IpAddr,
    },
    /// A connection was accepted that begins with HTTP requests (RFC 9112), and may become a
    /// WebSocket (RFC 7395).
    AcceptedHttp {
        /// Its slot.
        conn: ConnId,
        /// Properties of its listener; STARTTLS is never offered.
        listener: ListenerKind,
        /// The peer's address.
        peer: IpAddr,
    },
    /// A connection was accepted on the component listener (XEP-0114).
    AcceptedComponent {
        /// Its slot.
        conn: ConnId,
        /// The peer's address.
        peer: IpAddr,
    },
    /// The proxy that made the connection has named its client.
    Client {
        /// The connection.
        conn: ConnId,
        /// The client's address.
        peer: IpAddr,
    },
    /// Its TLS handshake has finished.
    Secured {
        /// The connection.
        conn: ConnId,
        /// Facts for channel binding.
        tls: Box<TlsFacts>,
    },
    /// Decrypted bytes were received.
    Received {
        /// The connection.
        conn: ConnId,
        /// The bytes; not retained after the call.
        bytes: &'a [u8],
    },
    /// All bytes of the last `Send` are with the kernel.
    Sent {
        /// The connection.
        conn: ConnId,
    },
    /// The last `Send` has progressed: part of it is with the kernel, or it has only now reached
    /// the driver, because it waited for the writes that it depends on.
    Progressed {
        /// The connection.
        conn: ConnId,
    },
    /// Output since this second waits for the writes that it depends on, so no peer can have read
    /// it; `None`: no output waits that long any more. Sent when it changes, before the end of the
    /// turn.
    Held {
        /// Second of the monotonic clock.
        since_s: Option<u32>,
        /// Whether so much output waits that fan-out pauses until it has left.
        many: bool,
    },
    /// The connection is about to end without a request of the shard. `Closed` follows.
    Lost {
        /// The connection.
        conn: ConnId,
        /// Why.
        how: Lost,
    },
    /// The TLS keys of the connection will soon reach their usage limit, and cannot be changed: the
    /// stream must end now (RFC 6120 4.9.3.16).
    Worn {
        /// The connection.
        conn: ConnId,
    },
    /// The connection is gone, for whatever reason. Also follows every `Close` effect.
    Closed {
        /// The connection.
        conn: ConnId,
    },
    /// A connection arrived from another shard.
    Arrived {
        /// Its slot here.
        conn: ConnId,
        /// Its state.
        moved: Box<Moved>,
    },
    /// A departing connection could not move, because the other shard has no free slot. It is still
    /// at this shard. Input read since then follows.
    Stayed {
        /// The connection.
        conn: ConnId,
        /// Its state at departure.
        moved: Box<Moved>,
    },
    /// Letters from another shard.
    Letters(&'a Letters),
    /// The link to another shard was renewed: letters in either direction may be lost.
    Renewed {
        /// The shard.
        peer: ShardId,
    },
    /// The answers to a `Read`.
    Found {
        /// The token of the read.
        token: u64,
        /// One answer per query.
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
    /// The result of an order.
    Ordered {
        /// The token of the order.
        token: u64,
        /// The result.
        outcome: Outcome,
    },
    /// The result of an activation.
    Activated {
        /// The token of the activation.
        token: u64,
        /// The result.
        activated: Activated,
    },
    /// The result of a push.
    Pushed {
        /// The token of the push.
        token: u64,
        /// The result.
        outcome: PushOutcome,
    },
    /// The store is full, or has room again.
    Storage(StorageState),
    /// An operator's command.
    Command {
        /// Returned with the reply.
        token: u64,
        /// The command.
        command: Command,
    },
    /// There are no more events in this turn: letters to the own shard are handled and all outputs
    /// are completed.
    EndOfTurn,
}

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The event.
    pub what: Happened,
    /// The account's bare JID as it was given; empty if none was. The log writer must escape it.
    pub account: Box<str>,
    /// The source: an address,
    pub peer: Option<IpAddr>,
    /// or a connection of this shard, whose address the host knows.
    pub conn: Option<ConnId>,
}

/// The kinds of events.
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
    /// A login was refused by a limit before any attempt.
    LoginRefused {
        /// The mechanism's name.
        mechanism: &'static str,
        /// The limit.
        limit: Limit,
    },
    /// A limit begins to hold a key.
    Held {
        /// The limit.
        limit: Limit,
        /// How long it holds without further attempts, milliseconds.
        left_ms: u64,
    },
    /// An account was created in band.
    Registered,
    /// A user of an external back end has logged in for the first time: an account was created.
    Admitted,
    /// The external back end reports a user gone: the account's tokens are void.
    Ousted,
    /// An account was created by an invitation.
    Joined {
        /// The inviter: a bare JID, or a domain for its operator.
        by: Box<str>,
    },
    /// A user has changed their password.
    PasswordChanged,
    /// A user has removed their account.
    Removed,
    /// A component has connected; the account is its domain.
    ComponentCame,
    /// The component of a domain has disconnected.
    ComponentLeft {
        /// Stanzas that it had not taken, and that were returned with an error.
        returned: usize,
    },
    /// A proxy has named no client of a request, although the operator's option states that it
    /// does. All its clients count as one.
    Unnamed {
        /// What the proxy wrote instead of an address, truncated; empty if nothing.
        said: Box<str>,
    },
    /// A user has blocked a contact and reports it to the operator (XEP-0377).
    Reported(Box<Report>),
    /// A service no longer receives a user's notifications, because of its answer (XEP-0357 7.1).
    PushDropped(Box<crate::extension::change::Dropped>),
}

/// Operations over several turns that the host measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// A successful login, from its first element on.
    Login,
    /// A successful publication to a channel, from its request on.
    Publication,
}

/// A push to a closed page, for the host to encrypt (RFC 8291) and send (RFC 8030 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebPush {
    /// The push resource, an HTTPS address whose [`authority`](crate::web::push::authority) is
    /// known.
    pub endpoint: Box<str>,
    /// The page's public key.
    pub p256dh: [u8; 65],
    /// Its authentication secret.
    pub auth: [u8; 16],
    /// The entry of [`Push::services`](crate::web::push::Push::services) that permits it.
    pub service: u8,
    /// A later push of this name replaces it (RFC 8030 5.4).
    pub topic: Option<Arc<str>>,
    /// The content, at most [`NOTIFY_PUSH_BYTES_MAX`](crate::limits::NOTIFY_PUSH_BYTES_MAX) bytes.
    pub content: Arc<[u8]>,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The push service has accepted it.
    Sent,
    /// The push service no longer knows the registration (RFC 8030 7.3).
    Gone,
    /// It was not accepted despite retries, or could not be tried.
    Failed,
}

/// One action for the host.
#[derive(Debug)]
pub enum Effect {
    /// Sends these bytes; `Sent` follows. At most one is in flight per connection.
    Send {
        /// The connection.
        conn: ConnId,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether to wait until all writes that this turn depends on are durable.
        durable: bool,
    },
    /// Sends the last bytes in the clear; the connection then uses TLS.
    StartTls {
        /// The connection.
        conn: ConnId,
        /// Bytes to send first, after a send that may be in flight; no `Sent` follows for them.
        last: Vec<u8>,
        /// Whether to wait until all writes that this turn depends on are durable.
        durable: bool,
    },
    /// Stops reading from the connection.
    Pause {
        /// The connection.
        conn: ConnId,
    },
    /// Resumes reading from the connection.
    Resume {
        /// The connection.
        conn: ConnId,
        /// Whether to wait until all writes that this turn depends on are durable.
        durable: bool,
    },
    /// A session is bound to the connection: its input takes precedence over that of connections
    /// that are still logging in. A hint.
    Favour {
        /// The connection.
        conn: ConnId,
    },
    /// Closes the connection, once pending output and the last bytes are sent (within the host's
    /// time limit) or, with `abort`, at once.
    Close {
        /// The connection.
        conn: ConnId,
        /// Bytes to send first, after a send that may be in flight.
        last: Vec<u8>,
        /// Whether to drop pending output, both here and at the gate.
        abort: bool,
        /// Whether to wait until all writes that this turn depends on are durable.
        durable: bool,
    },
    /// Hands the connection over to another shard, once the last bytes are sent. `Arrived` follows
    /// at that shard and `Closed` at this one, or `Stayed` at this one if that shard has no room. A
    /// `Pause` precedes. Bytes that the host has read since nevertheless are for the other shard,
    /// after `Arrived` (RFC 6120 6.4.6: the peer may send its new header as soon as it has read
    /// `<success/>`).
    Depart {
        /// The connection.
        conn: ConnId,
        /// Bytes to send first, after a send that may be in flight; no `Sent` follows for them.
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
    /// Queries the store. The read sees all earlier writes, or only those to accounts if it reads
    /// nothing else.
    Read {
        /// Returned with the answers.
        token: u64,
        /// The questions.
        queries: Vec<Query>,
    },
    /// Does long-running work elsewhere.
    Job {
        /// Returned with the result.
        token: u64,
        /// The work.
        job: Job,
    },
    /// Asks the external back end of a domain; `Told` follows, in bounded time.
    Ask {
        /// Returned with the answer.
        token: u64,
        /// The question. Boxed, because every effect is as large as the largest.
        question: Box<Question>,
    },
    /// Asks the operator's back end whether a request for channels is permitted; `Decided` follows,
    /// in bounded time.
    Inquire {
        /// Returned with the answer.
        token: u64,
        /// The question. Boxed for the same reason.
        inquiry: Box<Inquiry>,
    },
    /// Carries out an administrator's order, like those of operators; `Ordered` follows.
    Order {
        /// Returned with the result.
        token: u64,
        /// The order.
        order: Box<Order>,
    },
    /// Begins to relay a bytestream (XEP-0065 6.3.5); `Activated` follows.
    Activate {
        /// Returned with the result.
        token: u64,
        /// The bytestream and its requester.
        activation: Box<Activation>,
    },
    /// Sends a push to a page's push service (RFC 8030 5); `Pushed` follows, in bounded time.
    Push {
        /// Returned with the result.
        token: u64,
        /// The push.
        push: Box<WebPush>,
    },
    /// Records the duration of an operation that this turn completes.
    Timed {
        /// The operation.
        what: Timed,
        /// When it began; see [`Now::wall_us`](crate::id::Now::wall_us).
        since_us: u64,
    },
    /// Writes an event to the log. Boxed, because it is rare.
    Note(Box<Note>),
    /// Replies to an operator.
    Reply {
        /// The command's token.
        token: u64,
        /// The answer.
        reply: Reply,
        /// Whether to wait until all writes that this turn depends on are durable.
        durable: bool,
    },
}

/// What must be durable before an effect is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rests {
    /// Nothing: the effect confirms nothing, and no earlier output of the same connection waits.
    OnNothing,
    /// The shard's writes to accounts.
    OnAccounts,
    /// All writes that the turn depends on.
    OnAll,
}

impl Effect {
    /// What the effect depends on.
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

/// The result of a turn. `writes` becomes durable as one. Until then, every `Depart`, `Read`, and
/// every `Send`, `Close`, `Reply` or `Resume` that requests it, of this and later turns, waits (see
/// [`crate::gate`]).
#[derive(Debug, Default)]
pub struct Output {
    /// The turn's writes.
    pub writes: Batch,
    /// The turn's effects, in order.
    pub effects: Vec<Effect>,
}
