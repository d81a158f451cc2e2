//! The one way in and the one way out of a shard: [`Input`] and [`Output`], both closed.
//!
//! Whoever hosts a shard (the server's threads, the simulated world) turns events into inputs and carries effects out.
//! The order of effects is the order in which the host must carry them out for one connection.

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
    LimitRow, LogCommand, ObserverCommand, PutMode, Reply, SessionCommand, SessionRow, Whom,
};

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

/// Slots that one [`LogCommand::Backlogs`] looks at: some tenths of a millisecond of a turn.
pub const SLOTS_A_LOOK: u32 = 16_384;

/// Who has been held back so lately counts as held back now, milliseconds.
pub const HELD_BACK_LATELY_MS: u64 = 6_000;

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
