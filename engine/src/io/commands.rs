//! Commands of operators to a shard, and its replies.

use std::net::IpAddr;
use std::sync::Arc;

use crate::id::ConnId;
use crate::settings::Settings;
use crate::store::account::Credentials;
use crate::store::announcement::Kept;
use crate::store::invitation::{Invitation, InvitationId, NewInvitation};
use crate::store::report::ReportId;
use crate::wire::limit::Limit;

/// An operator's command. The host sends it to the shard it concerns, or to all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Sessions and connections.
    Session(SessionCommand),
    /// Accounts.
    Account(AccountCommand),
    /// Invitations.
    Invitation(InvitationCommand),
    /// Rooms for group chat.
    Room(RoomCommand),
    /// Logs and waiting messages.
    Log(LogCommand),
    /// Observation.
    Observer(ObserverCommand),
    /// Limits on logins and registrations.
    Limit(LimitCommand),
    /// Announcements to all users.
    Announcement(AnnouncementCommand),
    /// Lists the components whose home is this shard.
    Components,
    /// Removes expired push registrations from these channels, whether or not anything is published
    /// there. One step of the host's slow sweep over all channels. The shard is their home.
    EndRegistrations {
        /// The nodes, each preceded by its service.
        nodes: Vec<Box<str>>,
    },
    /// Applies these settings from now on. Values that must not change while a shard runs are
    /// ignored: domain, number of shards, secrets, `archive`, `stanza_bytes_max` (which is
    /// announced to clients) and `scram_iterations`.
    Turn(std::sync::Arc<Settings>),
    /// Ends every stream with `<system-shutdown/>` (RFC 6120 4.9.3.19), returns unacknowledged
    /// messages to their logs, and accepts nothing more.
    Shutdown,
}

/// See [`Command::Session`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCommand {
    /// Lists at most `most` sessions of this shard, beginning at a slot.
    List {
        /// Lists only the sessions of this bare or full JID, normalised.
        of: Option<Box<str>>,
        /// First slot.
        from_slot: u32,
        /// Maximum number of rows.
        most: u32,
    },
    /// Ends the sessions of a bare JID, or the one of a full JID.
    Kick {
        /// Bare or full JID, normalised.
        jid: Box<str>,
        /// The `<text/>` of the stream error that the clients are sent (RFC 6120 4.9.2).
        reason: Option<Box<str>>,
    },
    /// Sends a headline from the server to a user's sessions, or without a JID to all sessions of
    /// this shard.
    Say {
        /// Bare JID.
        jid: Option<Box<str>>,
        /// The text.
        text: Box<str>,
        /// Whether to send it ahead of output pending for the connections, after the send in
        /// flight.
        urgent: bool,
    },
    /// Lists the addresses of this shard's connections without a session, those with most
    /// connections first.
    Openings {
        /// Maximum number of rows.
        most: u32,
    },
    /// Cuts the connections of a bare JID's sessions, or of the one of a full JID, and drops their
    /// pending output. A session that may be resumed waits for that (XEP-0198 5). Messages wait for
    /// the user's next session.
    Detach {
        /// Bare or full JID, normalised.
        jid: Box<str>,
    },
    /// Restores these users' sessions of an earlier process, which then wait to be resumed. The
    /// shard is the users' home.
    Restore {
        /// Bare JIDs.
        users: Vec<Box<str>>,
        /// Whether these are the last such users.
        last: bool,
    },
}

/// See [`Command::Account`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountCommand {
    /// Creates an account or changes its credentials, as `mode` permits; the shard is its home.
    Put {
        /// Bare JID, normalised.
        account: Box<str>,
        /// The keys of its password. The shard sets the incarnation.
        credentials: Box<Credentials>,
        /// Whether the account may, must not or must exist.
        mode: PutMode,
    },
    /// Removes an account and all data of the user; the shard is its home.
    Delete {
        /// Bare JID, normalised.
        account: Box<str>,
    },
    /// Approves an account that waits for approval, or removes it; the shard is its home.
    Decide {
        /// Bare JID, normalised.
        account: Box<str>,
        /// Whether to approve it.
        approve: bool,
    },
    /// Suspends an account, which ends its sessions, or permits its use again; the shard is its
    /// home. `Reply::Busy`: it waits for approval.
    Suspend {
        /// Bare JID, normalised.
        account: Box<str>,
        /// Whether to suspend it.
        suspended: bool,
    },
    /// Deletes reports; the shard is home to their domain.
    Dismiss {
        /// The domain, normalised.
        domain: Box<str>,
        /// The reports to delete.
        ids: Vec<ReportId>,
    },
}

/// See [`Command::Invitation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvitationCommand {
    /// Creates an invitation; the shard is home to the actor that keeps it.
    Make {
        /// A bare JID or a domain, normalised.
        actor: Box<str>,
        /// Its content.
        new: NewInvitation,
    },
    /// Records that a user invites someone to an account's name, before [`InvitationCommand::Make`]
    /// for the account. The shard is home to the user. Refused invitations count as well, which
    /// limits how many names can be probed for whether they are taken.
    MakeNamed {
        /// The inviting user: a bare JID, normalised.
        inviter: Box<str>,
        /// The account: a bare JID, normalised.
        account: Box<str>,
        /// Lifetime of the invitation, seconds.
        life_s: u64,
        /// Maximum number of invitations of the user.
        most: usize,
    },
    /// Removes expired invitations, and accounts that have waited too long for approval. One step
    /// of the host's slow sweep over all actors. The shard is the actors' home.
    Sweep {
        /// Bare JIDs and domains.
        actors: Vec<Box<str>>,
    },
    /// Revokes an invitation, so that it admits no one else; the shard is home to the actor that
    /// keeps it.
    Revoke {
        /// A bare JID or a domain, normalised.
        actor: Box<str>,
        /// The invitation.
        id: InvitationId,
    },
}

/// See [`Command::Room`]. The shard is the rooms' home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomCommand {
    /// Lists those of these rooms that are in memory.
    Look {
        /// Bare JIDs.
        rooms: Vec<Box<str>>,
    },
    /// Configures a room as its owner would. `Reply::Refused` with the condition of the error.
    Configure {
        /// Bare JID, normalised.
        room: Box<str>,
        /// A submitted form ([`form_of`](crate::rooms::fields::form_of)).
        form: Box<[u8]>,
    },
    /// Destroys a room (XEP-0045 10.9).
    Destroy {
        /// Bare JID, normalised.
        room: Box<str>,
        /// The reason that occupants see.
        reason: Option<Box<str>>,
        /// The address of another room, for its occupants.
        alternate: Option<Box<str>>,
    },
    /// Admits only users with an affiliation for a while. Occupants stay. A stop of the server ends
    /// it.
    Close {
        /// Bare JID, normalised.
        room: Box<str>,
        /// For so long; 0 opens the room.
        seconds: u32,
    },
}

/// See [`Command::Log`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogCommand {
    /// Deletes messages that wait for a user without sessions; archived messages remain in the
    /// archive. The shard is the user's home.
    Flush {
        /// Bare JID, normalised.
        account: Box<str>,
    },
    /// Deletes delivered messages older than
    /// [`retention_s`](crate::settings::Settings::retention_s) from the archives of these users.
    /// One step of the host's slow sweep over all users. The shard is their home.
    Retain {
        /// Bare JIDs.
        users: Vec<Box<str>>,
    },
    /// Lists connections and users with a large backlog, the largest first. Examines
    /// [`SLOTS_A_LOOK`](crate::io::SLOTS_A_LOOK) slots from this one on.
    Backlogs {
        /// Slot to begin at: 0, or the one returned by the previous look.
        from_slot: u32,
        /// Output of fewer bytes is not listed.
        bytes_min: usize,
        /// Maximum number of rows.
        most: u32,
    },
}

/// See [`Command::Observer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObserverCommand {
    /// Begins to trace a user's stanzas; the shard is the user's home. Nothing is recorded after
    /// `ms`. The trace ends when it was not fetched for
    /// [`ABANDONED_MS`](crate::observers::trace::ABANDONED_MS).
    Trace {
        /// The trace's number, chosen by the host.
        id: u64,
        /// Bare or full JID, normalised.
        jid: Box<str>,
        /// Whether to record complete stanzas, or only their addresses, kinds and sizes.
        bodies: bool,
        /// Duration, milliseconds.
        ms: u64,
    },
    /// Returns what a trace has recorded since the last fetch.
    Fetch {
        /// The trace's number.
        id: u64,
    },
    /// Ends a trace.
    End {
        /// The trace's number.
        id: u64,
    },
    /// Lists the sessions of this shard with most stanzas and bytes; see
    /// [`crate::observers::busiest`].
    Busiest {
        /// Maximum number of rows.
        most: u32,
    },
}

/// See [`Command::Limit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitCommand {
    /// Lists what is held by which limit.
    List,
    /// Releases keys of the limits that have a memory.
    Release {
        /// What to release.
        whom: Whom,
    },
}

/// See [`Command::Announcement`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnouncementCommand {
    /// Begins to send a headline to all sessions of this shard, including those that wait to be
    /// resumed, some sessions per turn.
    Begin {
        /// The text; at most [`ADHOC_TEXT_BYTES_MAX`](crate::limits::ADHOC_TEXT_BYTES_MAX) bytes.
        text: Arc<str>,
        /// Its number if it is also retained for users who log in later, so that no user gets it
        /// twice; otherwise 0.
        number: u64,
    },
    /// Reports the progress of announcements.
    Progress,
    /// Sets the announcement for users who log in later, replacing an earlier one, or removes it.
    Keep {
        /// The announcement.
        kept: Option<Arc<Kept>>,
        /// Whether to write it to the store: one shard is asked to.
        write: bool,
    },
}

/// How an account is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum PutMode {
    /// It must not exist.
    Add,
    /// It must exist.
    Change,
    /// It may exist.
    AddOrChange,
}

/// What an operator releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// An address (IPv6: its /64), with its attempts on accounts.
    Address(IpAddr),
    /// An account by its bare JID, normalised, with the attempts of addresses on it.
    Account(Box<str>),
    /// Everything.
    All,
}

/// The answer to a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success, with the number of affected sessions, of accounts created (0 if one was changed) or
    /// removed, of shortened archives, or of waiting messages.
    Done(u32),
    /// No such account or session.
    NotFound,
    /// An account of this name exists.
    Exists,
    /// Not now: the user has a session, or one of the user's operations is in progress.
    Busy,
    /// The store is full.
    StoreFull,
    /// The user's stored data cannot be read: it is damaged.
    Unreadable,
    /// A page of sessions; `next` is the slot to continue from.
    Sessions {
        /// The rows.
        rows: Vec<SessionRow>,
        /// The slot to continue from.
        next: Option<u32>,
    },
    /// The backlogs, the largest first.
    Backlogs {
        /// The rows.
        rows: Vec<BacklogRow>,
        /// The slot to continue from.
        next: Option<u32>,
    },
    /// Rooms in memory.
    Rooms(Vec<RoomRow>),
    /// The request is valid, and its subject refuses it: the condition of the error.
    Refused(Box<str>),
    /// The components whose home is this shard.
    Components(Vec<ComponentRow>),
    /// Connections without a session, by address (IPv6: by /64), those with most first.
    Openings(Vec<(IpAddr, u32)>),
    /// An invitation was created.
    Invited {
        /// Its token, which is not stored anywhere.
        token: Box<str>,
        /// Its content. Boxed, because every effect is as large as the largest.
        invitation: Box<Invitation>,
    },
    /// The progress of announcements.
    Announced {
        /// Sessions notified since the start, by all announcements.
        told: u64,
        /// Announcements in progress.
        under_way: u32,
    },
    /// What is held by which limit.
    Limits(Vec<LimitRow>),
    /// What a trace has recorded. Boxed, because every effect is as large as the largest.
    Traced(Box<crate::observers::trace::Page>),
    /// The busiest sessions of a window of time, the busiest first.
    Busiest {
        /// Length of the window, milliseconds; 0 if counting has only begun.
        window_ms: u64,
        /// The rows.
        rows: Vec<BusyRow>,
    },
}

/// One session, as shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Full JID.
    pub jid: String,
    /// The connection behind it, or `None` while it waits to be resumed (XEP-0198 5).
    pub conn: Option<ConnId>,
    /// Seconds since it got its connection, or lost it.
    pub since_s: u32,
    /// Priority if available (RFC 6121 4.7.2.3).
    pub priority: Option<i8>,
    /// Seconds since its last bytes.
    pub idle_s: u32,
    /// Whether stream management is on.
    pub managed: bool,
    /// Whether the stream is encrypted.
    pub tls: bool,
    /// Bytes that are pending, or in flight to the kernel.
    pub outbound_bytes: usize,
}

/// A connection or a user with a backlog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BacklogRow {
    /// Output that a client has not read.
    Outbound {
        /// The session's full JID.
        jid: String,
        /// Its connection.
        conn: ConnId,
        /// Bytes that are pending, or in flight to the kernel.
        bytes: usize,
        /// Bytes passed to the kernel since the backlog began.
        sent_bytes: u64,
        /// Seconds since the send in flight began.
        stalled_s: u32,
    },
    /// Waiting messages that are being handed out.
    Replay {
        /// The user's bare JID.
        jid: String,
        /// Messages that still wait; may be slightly low after a crash.
        messages: u32,
    },
    /// The room of this shard with most stanzas that wait for its rows.
    Room {
        /// The room's bare JID.
        jid: String,
        /// The stanzas.
        stanzas: u32,
    },
    /// An account that exceeds its rate, and was held back within the last [`HELD_BACK_LATELY_MS`](crate::io::HELD_BACK_LATELY_MS).
    HeldBack {
        /// The user's bare JID.
        jid: String,
        /// How often since the first time.
        times: u64,
        /// Seconds since the first time. After a gap of ten minutes, counting starts anew.
        since_s: u64,
    },
}

impl BacklogRow {
    /// The connection, if the row is for one.
    pub fn conn(&self) -> Option<ConnId> {
        match self {
            BacklogRow::Outbound { conn, .. } => Some(*conn),
            BacklogRow::Replay { .. } | BacklogRow::Room { .. } | BacklogRow::HeldBack { .. } => None,
        }
    }
}

/// A session's activity within a window of time. Figures may be too low, never too high.
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
    /// Bytes that are pending now, or in flight to the kernel.
    pub outbound_bytes: usize,
}

/// A room in memory, as shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomRow {
    /// Bare JID.
    pub room: Box<str>,
    /// Nicks in the room.
    pub occupants: usize,
    /// Sessions in the room.
    pub sessions: usize,
    /// Stanzas that wait for the room's rows.
    pub waiting: usize,
    /// Seconds for which it admits only users with an affiliation, if it was closed.
    pub closed_s: Option<u32>,
    /// Bytes that it has sent since it is in memory.
    pub sent_bytes: u64,
    /// Bytes of these that senders were charged.
    pub charged_bytes: u64,
}

/// A connected component, as shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRow {
    /// Its domain.
    pub domain: String,
    /// Its connection.
    pub conn: ConnId,
    /// Seconds since it connected.
    pub since_s: u32,
    /// Seconds since its last bytes.
    pub idle_s: u32,
    /// Stanzas from it.
    pub stanzas_in: u64,
    /// Stanzas that it has taken.
    pub stanzas_out: u64,
    /// Stanzas for it that were answered with an error.
    pub refused: u64,
    /// Stanzas waiting for it.
    pub waiting: usize,
    /// Bytes of the waiting stanzas, including overhead.
    pub waiting_bytes: usize,
}

/// A key that is refused by a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// The limit.
    pub limit: Limit,
    /// An address, a JID, or both separated by a space.
    pub who: String,
    /// Milliseconds since the first refusal.
    pub since_ms: u64,
    /// Milliseconds until it is released; `None` if that depends on a resource becoming free.
    pub left_ms: Option<u64>,
    /// How often it has been refused since.
    pub refused: u64,
}
