//! What operators ask of a shard, and what it answers.

use std::net::IpAddr;
use std::sync::Arc;

use crate::id::ConnId;
use crate::settings::Settings;
use crate::store::account::Credentials;
use crate::store::announcement::Kept;
use crate::store::invitation::{Invitation, InvitationId, NewInvitation};
use crate::store::report::ReportId;
use crate::wire::limit::Limit;

/// What the operator asks of a shard; the host sends a command to the shard it concerns, or to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// For sessions and connections.
    Session(SessionCommand),
    /// For accounts.
    Account(AccountCommand),
    /// For invitations.
    Invitation(InvitationCommand),
    /// For logs, and what waits in them.
    Log(LogCommand),
    /// For what an operator looks at.
    Observer(ObserverCommand),
    /// For limits on logins and registrations.
    Limit(LimitCommand),
    /// For announcements to all.
    Announcement(AnnouncementCommand),
    /// List the components whose home the shard is.
    Components,
    /// Remove registrations for pushes that are over from these channels, whether anything is published there or not: a step of the host's
    /// slow sweep over all of them. The shard is their home.
    EndRegistrations {
        /// The nodes, with their service before them.
        nodes: Vec<Box<str>>,
    },
    /// Go by these settings from now on. What must not change while a shard runs is as before: domain, number of shards,
    /// secrets, `archive`, `stanza_bytes_max`, which is announced to clients, and `scram_iterations`.
    Turn(std::sync::Arc<Settings>),
    /// End every stream with `<system-shutdown/>` (RFC 6120 4.9.3.19), let what is unacknowledged wait again
    /// and take no more.
    Shutdown,
}

/// See [`Command::Session`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCommand {
    /// List sessions of this shard from a slot on, at most `most`.
    List {
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
    /// Say from which addresses connections of this shard come that have no session, those with most first.
    Openings {
        /// Most rows.
        most: u32,
    },
    /// Cut the connections of a bare JID's sessions, or of the one of a full JID, and drop what waits for them. A session that
    /// may be resumed waits for that (XEP-0198 5); messages wait again for the user's next session.
    Detach {
        /// Bare or full JID, normalised.
        jid: Box<str>,
    },
    /// Sessions of an earlier process of these users are to be there, and to wait to be resumed. The shard is their home.
    Restore {
        /// Bare JIDs.
        users: Vec<Box<str>>,
        /// There are no more such users.
        last: bool,
    },
}

/// See [`Command::Account`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountCommand {
    /// Make an account, or with `replace` change its credentials; the shard is its home.
    Put {
        /// Bare JID, normalised.
        account: Box<str>,
        /// The keys of its password; which account of its name it is, is for the shard to say.
        credentials: Box<Credentials>,
        /// Whether one of this name may exist, must not, or must.
        mode: PutMode,
    },
    /// Remove an account and all that is the user's; the shard is its home.
    Delete {
        /// Bare JID, normalised.
        account: Box<str>,
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
}

/// See [`Command::Invitation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvitationCommand {
    /// Make an invitation; the shard is home to the actor that keeps it.
    Make {
        /// A bare JID, or a domain: normalised.
        actor: Box<str>,
        /// What it is.
        new: NewInvitation,
    },
    /// Note that a user invites to an account's name, before [`Command::Invite`] for the account. The shard is home to the user. What is
    /// refused there counts all the same: nobody finds out by it which names are taken, but for so many.
    MakeNamed {
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
    Sweep {
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
}

/// See [`Command::Log`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogCommand {
    /// Drop what waits for a user who has no session: archived messages stay in the archive. The shard is the user's home.
    Flush {
        /// Bare JID, normalised.
        account: Box<str>,
    },
    /// Drop what is delivered and older than [`retention_s`](crate::settings::Settings::retention_s) from the archives of
    /// these users: a step of the host's slow sweep over all of them. The shard is their home.
    Retain {
        /// Bare JIDs.
        users: Vec<Box<str>>,
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
}

/// See [`Command::Observer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObserverCommand {
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
    Fetch {
        /// Its number.
        id: u64,
    },
    /// End a trace.
    End {
        /// Its number.
        id: u64,
    },
    /// Which sessions of this shard have most stanzas and bytes; see [`crate::observers::busiest`].
    Busiest {
        /// Most rows.
        most: u32,
    },
}

/// See [`Command::Limit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitCommand {
    /// Say who is held by which limit.
    List,
    /// Let go of those who are held by limits that remember what was done.
    Release {
        /// Whom.
        whom: Whom,
    },
}

/// See [`Command::Announcement`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnouncementCommand {
    /// Begin to tell all sessions of this shard, also those that wait to be resumed: a headline, some sessions a turn.
    Begin {
        /// The text; at most [`ADHOC_TEXT_BYTES_MAX`](crate::limits::ADHOC_TEXT_BYTES_MAX) bytes.
        text: Arc<str>,
        /// Its number, if it is kept for those who log in later, so that who is told now is not told again; otherwise 0.
        number: u64,
    },
    /// Say how far announcements are.
    Progress,
    /// Keep an announcement for those who log in later, in place of another one, or none any more.
    Keep {
        /// The announcement.
        kept: Option<Arc<Kept>>,
        /// Write it: asked of one shard.
        write: bool,
    },
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
