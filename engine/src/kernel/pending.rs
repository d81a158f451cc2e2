//! The purpose of each outstanding answer from the store or a job, as data.

use std::sync::Arc;

use crate::extension::inbox::missed::{Asked, RoomCount};
use crate::extension::pubsub::{node::Node, service::in_memory::Ask};
use crate::extension::{self, written};
use crate::id::{ConnId, PushId, SessionId, ShardId};
use crate::io::{Job, PutMode};
use crate::letters::{Apply, ConnRef, Gained, Leave, Origin, Redeem, Settle, Shows};
use crate::router::users::{Look, Parked, Seen};
use crate::store::account::{Credentials, Incarnation};
use crate::store::invitation::{InvitationId, Invited, NewInvitation};
use crate::store::room::{Affiliation, Listed, Position, Standing};
use crate::store::{Found, Query, Table, floors::Scope};

/// The purpose of an outstanding answer.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    /// Rows of a user, for the user's state.
    User(UserRead),
    /// Rows of a session of an earlier process, and of what it may have sent.
    Session(SessionRead),
    /// Rows of an account, or of something that a decision about an account depends on.
    Login(LoginRead),
    /// Rows that an extension has requested.
    Request(RequestRead),
    /// Rows of a room.
    Room(RoomRead),
    /// Rows of a channel.
    Channel(ChannelRead),
    /// Rows that an operator's command has requested.
    Operator(OperatorRead),
    /// Work outside the shard and the store: by jobs, the network or other shards.
    Elsewhere(Elsewhere),
}

/// See [`Pending::User`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum UserRead {
    /// Account and cursor of a stanza's recipient.
    Receiver(Box<str>),
    /// The roster of a user.
    Roster(Box<str>),
    /// The cursor of the log of a user that comes online.
    Log(Box<str>),
    /// A page of the user's log.
    Page {
        /// The user's bare JID.
        account: Box<str>,
        /// The session that reads.
        session: SessionId,
        /// The number of the last waiting message at the time of the read.
        last: u64,
        /// Whether it reads everything that waits, not only messages for that session.
        all: bool,
    },
    /// Messages of the user that are set apart for single sessions.
    Aparts(Box<str>),
    /// Nodes of a user, for a session that has become available.
    Last(LastRead),
    /// Nodes of which a user (bare JID) that is back has missed items.
    Missed(Box<str>),
    /// The last announcement shown to a user, for a session that has become available.
    Announcement {
        /// The user's bare JID.
        account: Box<str>,
        /// The session that receives the announcement.
        session: SessionId,
    },
}

/// See [`Pending::Session`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum SessionRead {
    /// The tail of a log, for a session of an earlier process that is being resumed.
    Tail(TailRead),
    /// The recipient's copy of a message that is sent again.
    Again(Box<AgainRead>),
}

/// See [`Pending::Login`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum LoginRead {
    /// The account's record, for a login, a registration or a change of password.
    Account(AccountRead),
    /// The same for a login, with everything else that a session of the user needs: the rows of a
    /// recipient, and the roster.
    Coming(AccountRead),
    /// An actor's invitations.
    Invitation(InvitationRead),
    /// The reports of a domain.
    Reports(Box<str>),
}

/// See [`Pending::Request`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum RequestRead {
    /// Nodes of services that know a user whose account was removed.
    Memberships(Box<str>),
    /// An extension's read.
    Feature(Box<FeatureRead>),
    /// The account information that a client receives with its new session.
    Bound(ConnId, extension::Pending),
}

/// See [`Pending::Channel`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum ChannelRead {
    /// Registrations of a channel, of which the next ones are notified.
    Registrations(Arc<str>),
    /// A scan of registrations for expired ones.
    Ends(EndsRead),
}

/// See [`Pending::Room`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum RoomRead {
    /// A room: its record, standings, recent messages, and the first sessions in it.
    Room(Box<str>),
    /// Further sessions in a room.
    Seats(Box<str>),
    /// What stanzas to a room need.
    Needs(Box<str>, Vec<RoomNeed>),
    /// Messages of a room after a number, for a session that is behind (full JID).
    Behind {
        room: Box<str>,
        session: Box<str>,
        /// The number of the request.
        asked: u32,
        /// The number of the last message at the time of the request.
        last: u64,
    },
    /// A page of the directory of a service.
    Directory(DirectoryRead),
    /// A page of the directory, for a search.
    Search(Box<SearchRead>),
    /// What a member has missed of rooms.
    Counts(Box<CountRead>),
}

/// The home of a member asks what the member has missed of rooms of this home.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct CountRead {
    /// The member's home.
    pub(crate) to: ShardId,
    /// What the question waits for there.
    pub(crate) token: u64,
    /// The member's bare JID.
    pub(crate) user: Box<str>,
    /// Rooms of which the standing of the member, the record and the last message are read.
    pub(crate) rooms: Vec<Box<str>>,
    /// Rooms with messages that they have not counted, which are read.
    pub(crate) late: Vec<(Standing, Position, Box<str>)>,
    /// What is known.
    pub(crate) counts: Vec<RoomCount>,
}

/// One thing that a stanza to a room needs.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum RoomNeed {
    /// The standing of a user.
    Standing(Box<str>),
    /// The user for whom a nick is reserved.
    Nick(Box<str>),
    /// The users with an affiliation.
    List(Affiliation),
    /// The vCard of the room.
    Card,
    /// Whether the message with this number is in the archive of the room.
    Message(u64),
}

/// A request for the directory of a service of rooms.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct DirectoryRead {
    pub(crate) service: Box<str>,
    pub(crate) from: Box<str>,
    pub(crate) id: Option<Box<str>>,
    pub(crate) origin: Option<Origin>,
    /// The page by XEP-0059, if one was requested: its size, and the room before it.
    pub(crate) page: Option<(usize, Option<Box<str>>)>,
}

/// A search of the directory of a service of rooms (XEP-0433, XEP-0055).
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct SearchRead {
    pub(crate) service: Box<str>,
    pub(crate) from: Box<str>,
    pub(crate) id: Option<Box<str>>,
    pub(crate) origin: Option<Origin>,
    /// Whether it is one of XEP-0433.
    pub(crate) is_extended: bool,
    /// What is searched for, in lower case.
    pub(crate) terms: Vec<Box<str>>,
    /// Whether names, descriptions and addresses are searched.
    pub(crate) places: [bool; 3],
    /// The size of the page.
    pub(crate) most: usize,
    /// The last room that was read.
    pub(crate) after: Option<Box<str>>,
    /// Pages of the directory that were read.
    pub(crate) pages: usize,
    /// Rooms that were found.
    pub(crate) found: Vec<(Box<str>, Listed)>,
}

/// See [`Pending::Operator`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum OperatorRead {
    /// An account record that an operator's command reads before it is written.
    Account(AccountChangeRead),
    /// Waiting messages to be dropped.
    Flush(Flush),
    /// A scan of archives for expired entries.
    Retention(RetentionRead),
}

/// See [`Pending::Elsewhere`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Elsewhere {
    /// Keys derived for a connection's PLAIN login or registration.
    Keys(ConnId),
    /// The verdict of an external back end on a connection's login.
    Verdict(ConnId),
    /// Whether a connection's request for channels is allowed, and the key under which the same
    /// inquiry is recognised.
    Inquiry(ConnId, Box<[u8; 32]>),
    /// Keys derived for a session's change of password.
    SessionKeys(PasswordChange),
    /// Keys derived for an administrator's order.
    OrderKeys(OrderKeys),
    /// An order that the host carries out.
    Order(Ordering),
    /// A bytestream that a user (bare JID) wants to activate.
    Activation(Asker, Box<str>),
    /// A push to one registration.
    Push {
        /// The channel's node.
        node: Arc<str>,
        /// The registration.
        id: PushId,
        /// Index in the operator's list of push services.
        service: u8,
    },
    /// Reports that the home of the asker's domain stores.
    Filed(Asker),
    /// What a member has missed of rooms, by their homes.
    Missed(Box<Gather>),
}

/// Answers of several homes are gathered for one of their own.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Gather {
    pub(crate) asker: Asker,
    pub(crate) asked: Asked,
    /// Number of homes that have not answered yet.
    pub(crate) waits: usize,
    pub(crate) counts: Vec<RoomCount>,
}

/// A session of an earlier process is being resumed: part of its stored state is read.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct TailRead {
    /// The session.
    pub(crate) session: SessionId,
    /// The number of the attempt.
    pub(crate) attempt: u64,
    /// Whether its rows are read, rather than a page of the log.
    pub(crate) rows: bool,
}

/// A message is sent again after a crash: its recipient's log is searched.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct AgainRead {
    /// The message.
    pub(crate) stanza: Parked,
    /// Entries after this number are examined.
    pub(crate) after: u64,
    /// Number of pages left to examine.
    pub(crate) pages: u8,
}

/// The requester that waits for an answer.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Asker {
    /// A session of this shard, with the request's number in its inbound count; `None` for a user
    /// elsewhere.
    pub(crate) session: Option<(SessionId, u32)>,
    /// The home that is informed when the request is safe.
    pub(crate) origin: Option<Origin>,
    /// The request's `id`.
    pub(crate) id: Option<Box<str>>,
    /// Full JID of the asker.
    pub(crate) from: Box<str>,
    /// The requested address, as far as one was given.
    pub(crate) to: Option<Box<str>>,
    /// Whether the request is paced: the stanza counts as handled as soon as it waits.
    pub(crate) paced: bool,
    /// The connection that waits for it, if the request came over HTTP.
    pub(crate) front: Option<Front>,
}

/// A request over HTTP that waits for an answer of this home.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Front {
    /// The connection.
    pub(crate) conn: ConnRef,
    /// The number of the request at the connection's shard.
    pub(crate) number: u32,
}

/// Takes the place of a network for a client that presented the operator's token: it is not
/// charged.
const OPERATOR: &str = "token";

impl Asker {
    /// The server itself: no client waits for the answer.
    pub(crate) fn nobody(account: &str) -> Asker {
        Asker {
            session: None,
            origin: None,
            id: None,
            from: "".into(),
            to: Some(account.into()),
            paced: false,
            front: None,
        }
    }

    /// The requester at a node on behalf of a connection: identified by its network, or empty for
    /// the operator's token.
    pub(crate) fn at_node(front: Front, network: &str, node: &str) -> Asker {
        let service = node.split_once('/').map_or(node, |(service, _)| service);
        let from = if network.is_empty() { OPERATOR } else { network };
        Asker { front: Some(front), from: from.into(), ..Asker::nobody(service) }
    }

    /// Whether it presented the operator's token.
    pub(crate) fn is_operator(&self) -> bool {
        self.front.is_some() && *self.from == *OPERATOR
    }

    /// Whether the request is the server's own.
    pub(crate) fn is_nobody(&self) -> bool {
        self.session.is_none() && self.from.is_empty()
    }
}

/// The purpose of reading an account's record.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct AccountRead {
    pub(crate) account: Box<str>,
    pub(crate) why: Why,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Why {
    /// A login that presents these credentials. With a token, the account's tokens are read, too.
    LogIn { conn: ConnRef, shows: Shows },
    /// An authenticated connection of this shard receives a token; the account's tokens are read,
    /// too.
    Token { conn: ConnId },
    /// An authenticated connection of this shard may add keys that the account lacks.
    Upgrade { conn: ConnId },
    /// The account gains keys; then the connection continues.
    Gain { gained: Gained, conn: Option<ConnId> },
    /// A user of an external back end has shown the correct password: an account is created if
    /// there is none.
    Admit { conn: ConnRef },
    /// An account is to be created, with or without a leave; invitations for its name are read,
    /// too.
    Register { conn: ConnRef, credentials: Box<Credentials>, leave: Option<Box<Leave>> },
    /// Whether the inviter exists.
    Vouch { conn: ConnRef, invited: Box<Invited> },
    /// Whether an account was created with this leave.
    WasMade { conn: ConnRef, leave: Box<Leave> },
    /// An account has waited for approval for too long.
    Expired(Incarnation),
    /// A session changes its password: its account is determined before the keys are derived.
    ChangePassword { asker: Asker, job: Job },
    /// The keys have been derived.
    NewPassword { change: PasswordChange, credentials: Box<Credentials> },
}

/// A change of password that waits for its keys.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PasswordChange {
    pub(crate) asker: Asker,
    pub(crate) account: Box<str>,
    /// The account that the password is for.
    pub(crate) incarnation: Incarnation,
}

/// The requester that waits for the end of a removal.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Remover {
    /// A session of the account.
    Session(Asker),
    /// The operator, by the command's token.
    Operator(u64),
    /// The server itself, which removes an account that was not approved in time.
    Server,
}

/// An account's turn, held by a request.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Held {
    pub(crate) account: Box<str>,
    /// The incarnation of the account, if it was known.
    pub(crate) which: Option<Incarnation>,
    /// Whether others have asked: the known state of the account is kept until they are answered.
    pub(crate) looks: bool,
}

/// The turn that a request holds, if any.
pub(crate) type InTurn = Option<Held>;

/// An extension waits for rows.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FeatureRead {
    pub(crate) asker: Asker,
    /// Index of the extension in the table.
    #[serde(with = "written::place")]
    pub(crate) place: usize,
    pub(crate) pending: extension::Pending,
    /// What its session was charged for it.
    pub(crate) charged: u64,
    pub(crate) turn: InTurn,
    /// The source of each answer, if some of the rows are not in the store.
    pub(crate) asked: Vec<Ask>,
    /// Directories among the rows that may be below a floor, and floors, which are read after all
    /// rows.
    pub(crate) numbered: Vec<Numbered>,
}

/// An answer that concerns the numbers of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Numbered {
    /// The answer at this index is the directory of a node of a partition.
    Directory(usize, u16),
    /// The answer is a floor.
    Floor(Scope),
}

/// Rows of a user's nodes are read for a session that has become available.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct LastRead {
    pub(crate) look: Look,
    /// The nodes whose items are read, and the state of the session's user in their owner's roster;
    /// `None` while the directory is read.
    pub(crate) chosen: Option<(Vec<Node>, Seen)>,
}

/// An account is read before it is written or removed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct AccountChangeRead {
    pub(crate) token: u64,
    pub(crate) account: Box<str>,
    pub(crate) what: AccountChange,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum AccountChange {
    Put {
        credentials: Box<Credentials>,
        mode: PutMode,
    },
    Delete,
    /// The account is suspended, or put back in use.
    Suspend {
        suspended: bool,
    },
    /// A waiting account is approved or removed.
    Decide {
        approve: bool,
    },
}

/// A command in progress.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ordering {
    pub(crate) asker: Asker,
    /// The command's node.
    #[serde(with = "written::command")]
    pub(crate) node: extension::adhoc::act::CommandNode,
    /// The command's session.
    pub(crate) id: Box<str>,
}

/// An account that an administrator creates or changes waits for its keys.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct OrderKeys {
    pub(crate) ordering: Ordering,
    pub(crate) account: Box<str>,
    /// Whether it is created; otherwise its password changes.
    pub(crate) create: bool,
}

/// A user whose waiting messages are examined before they are dropped.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Flush {
    pub(crate) token: u64,
    pub(crate) account: Box<str>,
}

/// A user whose oldest rows are being read.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Retained {
    pub(crate) user: Box<str>,
    /// The first number of the current read.
    pub(crate) from: u64,
    /// Entries with lower numbers are known to be too old.
    pub(crate) old_until: u64,
    /// Number of consecutive pages without a usable time stamp.
    pub(crate) pages: u32,
    /// Whether any of this user's entries were removed.
    pub(crate) counted: bool,
}

/// Users whose rows are being read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct RetentionRead {
    pub(crate) token: u64,
    pub(crate) users: Vec<Retained>,
    /// Number of users with removed entries.
    pub(crate) trimmed: u32,
}

/// Channels whose push registrations are scanned for expired ones.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct EndsRead {
    pub(crate) token: u64,
    /// The nodes that have not been scanned yet. Before the first one, their numbers of
    /// registrations are read.
    pub(crate) nodes: Vec<Box<str>>,
    /// The node being scanned, and the registration after which the scan continues.
    pub(crate) at: Option<(Box<str>, Option<PushId>)>,
    /// Number of registrations that have expired.
    pub(crate) ended: u32,
}

/// The requester that waits for the creation of an invitation.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Maker {
    /// The operator, by the command's token.
    Operator(u64),
    /// A user's command.
    User(Ordering),
}

/// The operation on an actor's invitations.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Work {
    /// Create an invitation.
    Make { maker: Maker, new: NewInvitation },
    /// Note that the actor invites to an account's name for `life_s` seconds, if it has fewer than
    /// `most` invitations.
    Name { reply: u64, account: Box<str>, life_s: u64, most: usize },
    /// Remove invitations that are over.
    Sweep,
    /// Revoke an invitation, for the operator.
    Revoke { reply: u64, id: InvitationId },
    /// See [`Question::Redeem`].
    Redeem { conn: ConnRef, redeem: Box<Redeem> },
    /// See [`Question::Apply`].
    Apply { conn: ConnRef, apply: Box<Apply> },
    /// See [`Question::Settle`].
    Settle { conn: ConnRef, settle: Box<Settle> },
    /// A contact has requested a subscription with a token.
    Vouch { contact: Box<str>, id: InvitationId },
}

/// An actor's invitations are being read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct InvitationRead {
    pub(crate) actor: Box<str>,
    pub(crate) why: Looking,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Looking {
    /// A token was presented: nothing is written.
    Shown { conn: ConnRef, id: InvitationId },
    /// The operation, whose turn has come.
    Work(Work),
}

/// The query for a single row without a sort key.
pub(crate) fn get(table: Table, actor: &str) -> Query {
    Query::Get { table, actor: actor.as_bytes().into(), sort: Box::default() }
}

/// The value of a single `Get`.
pub(crate) fn one_value(found: Vec<Found>) -> Option<Box<[u8]>> {
    match found.into_iter().next() {
        Some(Found::Value(value)) => value,
        _ => None,
    }
}
