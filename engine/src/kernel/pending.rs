//! What an answer of the store, or of long work, is for: all that is waited for, as data.

use std::sync::Arc;

use crate::extension;
use crate::extension::pubsub::node::Node;
use crate::extension::pubsub::service::in_memory::Ask;
use crate::id::{ConnId, PushId, SessionId};
use crate::io::{Job, PutMode};
use crate::letters::{Apply, ConnRef, Gained, Leave, Origin, Redeem, Settle, Shows};
use crate::router::users::{Look, Parked, Seen};
use crate::store::account::{Credentials, Incarnation};
use crate::store::floors::Scope;
use crate::store::invitation::{InvitationId, Invited, NewInvitation};
use crate::store::{Found, Query, Table};

/// What an answer from elsewhere is for. That it can be copied and compared keeps it plain data: no closure can.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pending {
    /// Rows of a user, for the user's state.
    User(UserRead),
    /// Rows of a session of an earlier process, and of what it may have sent.
    Session(SessionRead),
    /// Rows of an account, or of what decides of one.
    Login(LoginRead),
    /// Rows that an extension has asked for.
    Request(RequestRead),
    /// Rows of a channel.
    Channel(ChannelRead),
    /// Rows that an operator's command has asked for.
    Operator(OperatorRead),
    /// Work that is done outside of the shard and the store: by jobs, by the network, at other shards.
    Elsewhere(Elsewhere),
}

/// See [`Pending::User`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UserRead {
    /// Account and cursor of a user that a stanza is for.
    Receiver(Box<str>),
    /// The roster of a user.
    Roster(Box<str>),
    /// How far the log of a user who comes online is delivered.
    Log(Box<str>),
    /// A page of the user's log.
    Page {
        /// The user.
        account: Box<str>,
        /// For whom.
        session: SessionId,
        /// The number of the last message that waited when it was asked for.
        last: u64,
        /// Whether it asked for what waits for all, not only for what waits for that session.
        all: bool,
    },
    /// Messages of the user that stand apart.
    Aparts(Box<str>),
    /// Nodes of a user, for a session that has become available.
    Last(LastRead),
    /// Which announcement a user was shown last, for a session that has become available.
    Announcement {
        /// The user.
        user: u32,
        /// The session that is told.
        session: SessionId,
    },
}

/// See [`Pending::Session`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SessionRead {
    /// The tail of a log, for a session of an earlier process that is being resumed.
    Tail(TailRead),
    /// What a receiver has of a message that is sent again.
    Again(Box<AgainRead>),
}

/// See [`Pending::Login`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LoginRead {
    /// The account's record, for a login, a registration or a change of password.
    Account(AccountRead),
    /// The same for a login, with all else that a session of the user needs: what is asked of a receiver, and the roster.
    Coming(AccountRead),
    /// An actor's invitations.
    Invitation(InvitationRead),
    /// The reports of a domain.
    Reports(Box<str>),
}

/// See [`Pending::Request`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RequestRead {
    /// Nodes of services that know a user whose account is gone.
    Memberships(Box<str>),
    /// A feature's read.
    Feature(Box<FeatureRead>),
    /// What a client is told of its account with its session.
    Bound(ConnId, extension::Pending),
}

/// See [`Pending::Channel`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChannelRead {
    /// Registrations of a channel, of which the next are told.
    Registrations(Arc<str>),
    /// A look at registrations for those that are over.
    Ends(EndsRead),
}

/// See [`Pending::Operator`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OperatorRead {
    /// An operator's look at an account before it is written.
    Account(AccountChangeRead),
    /// Waiting messages that are to be dropped.
    Flush(Flush),
    /// A look at archives for what is too old.
    Retention(RetentionRead),
}

/// See [`Pending::Elsewhere`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Elsewhere {
    /// Keys derived for a connection's PLAIN login or registration.
    Keys(ConnId),
    /// What whoever keeps a user elsewhere says, for a connection's login.
    Verdict(ConnId),
    /// Whether a request of a connection for channels may be done, and by what the same question is known again.
    Inquiry(ConnId, Box<[u8; 32]>),
    /// Keys derived for a session's change of password.
    SessionKeys(PasswordChange),
    /// Keys derived for an administrator's order.
    OrderKeys(OrderKeys),
    /// An order that the host carries out.
    Order(Ordering),
    /// A bytestream that a user (bare JID) wants to begin.
    Activation(Asker, Box<str>),
    /// A push to one of them.
    Push {
        /// The channel's node.
        node: Arc<str>,
        /// The registration.
        id: PushId,
        /// By which entry of the operator's list.
        service: u8,
    },
    /// Reports that the home of the asker's domain is to keep.
    Filed(Asker),
}

/// A session of an earlier process is being resumed: something is read of what it had written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TailRead {
    /// The session.
    pub(crate) session: SessionId,
    /// Which attempt it is.
    pub(crate) attempt: u64,
    /// Its rows are read; otherwise a page of the log.
    pub(crate) rows: bool,
}

/// A message is sent again after a crash: its receiver's log is looked through.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgainRead {
    /// The message.
    pub(crate) stanza: Parked,
    /// Entries behind this number are looked at.
    pub(crate) after: u64,
    /// Pages that are looked at still.
    pub(crate) pages: u8,
}

/// Who waits for the answer to a request, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asker {
    /// A session of this shard, with the request's number in its inbound count; otherwise a user elsewhere.
    pub(crate) session: Option<(SessionId, u32)>,
    /// Who is told that the request is in safe hands.
    pub(crate) origin: Option<Origin>,
    /// The request's `id`.
    pub(crate) id: Option<Box<str>>,
    /// Full JID of the asker.
    pub(crate) from: Box<str>,
    /// The address asked, as far as one was given.
    pub(crate) to: Option<Box<str>>,
    /// The user, if the request is paced: then the stanza counts as handled since it waits.
    pub(crate) paced: Option<u32>,
    /// The connection that waits for it, if it was asked by HTTP.
    pub(crate) front: Option<Front>,
}

/// A request by HTTP that waits for an answer of this home.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Front {
    /// The connection.
    pub(crate) conn: ConnRef,
    /// What its shard knows the request by.
    pub(crate) number: u32,
}

/// Who has shown the operator's token: no network, so that nobody is charged.
const OPERATOR: &str = "token";

impl Asker {
    /// The server itself: nobody waits for the answer.
    pub(crate) fn nobody(account: &str) -> Asker {
        Asker {
            session: None,
            origin: None,
            id: None,
            from: "".into(),
            to: Some(account.into()),
            paced: None,
            front: None,
        }
    }

    /// Who asks at a node on behalf of a connection: by its network, or empty for who has shown the operator's token.
    pub(crate) fn at_node(front: Front, network: &str, node: &str) -> Asker {
        let service = node.split_once('/').map_or(node, |(service, _)| service);
        let from = if network.is_empty() { OPERATOR } else { network };
        Asker { front: Some(front), from: from.into(), ..Asker::nobody(service) }
    }

    /// Whether it has shown the operator's token.
    pub(crate) fn is_operator(&self) -> bool {
        self.front.is_some() && *self.from == *OPERATOR
    }

    /// Whether the server itself has asked.
    pub(crate) fn is_nobody(&self) -> bool {
        self.session.is_none() && self.from.is_empty()
    }
}

/// An account's record is read, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AccountRead {
    pub(crate) account: Box<str>,
    pub(crate) why: Why,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Why {
    /// A login that shows this. With a token the account's tokens are read, too.
    LogIn { conn: ConnRef, shows: Shows },
    /// A connection of this shard that has authenticated gets a token; the account's tokens are read, too.
    Token { conn: ConnId },
    /// A connection of this shard that has authenticated may give the account keys that it lacks.
    Upgrade { conn: ConnId },
    /// The account gains keys; the connection goes on then.
    Gain { gained: Gained, conn: Option<ConnId> },
    /// A user who is kept elsewhere has shown the right password: an account is made if there is none.
    Admit { conn: ConnRef },
    /// An account is to be made, by somebody's leave or not; invitations for its name are read, too.
    Register { conn: ConnRef, credentials: Box<Credentials>, leave: Option<Box<Leave>> },
    /// Whether who invites is there.
    Vouch { conn: ConnRef, invited: Box<Invited> },
    /// Whether an account was made by this leave.
    WasMade { conn: ConnRef, leave: Box<Leave> },
    /// An account has waited for approval for too long.
    Expired(Incarnation),
    /// A session wants another password: whose it changes is settled before its keys are derived.
    ChangePassword { asker: Asker, job: Job },
    /// The keys are there.
    NewPassword { change: PasswordChange, credentials: Box<Credentials> },
}

/// A change of password waits for its keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PasswordChange {
    pub(crate) asker: Asker,
    pub(crate) account: Box<str>,
    /// The account that the password is for.
    pub(crate) incarnation: Incarnation,
}

/// Who waits for the end of a removal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Remover {
    /// A session of the account.
    Session(Asker),
    /// The operator, by the command's token.
    Operator(u64),
    /// Nobody: the server removes an account that was not approved in time.
    Server,
}

/// The turn of an account that a request has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) account: Box<str>,
    /// Which account of its name it was, if that was known.
    pub(crate) which: Option<Incarnation>,
    /// Others have asked: what is known of the account is kept until they are answered.
    pub(crate) looks: bool,
}

/// The turn that a request has, if it has one.
pub(crate) type InTurn = Option<Held>;

/// A feature waits for rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FeatureRead {
    pub(crate) asker: Asker,
    /// The place of the extension in the table.
    pub(crate) place: usize,
    pub(crate) pending: extension::Pending,
    /// What its session was charged for it.
    pub(crate) charged: u64,
    pub(crate) turn: InTurn,
    /// Who answers each question, if some of the rows are not in the store.
    pub(crate) asked: Vec<Ask>,
    /// Directories among the rows that may be below a floor, and floors that are read behind all rows.
    pub(crate) numbered: Vec<Numbered>,
}

/// What concerns the numbers of nodes among what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// The answer at this place is the directory of a node of a partition.
    Directory(usize, u16),
    /// A floor was asked for.
    Floor(Scope),
}

/// Rows of a user's nodes are read for a session that has become available.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LastRead {
    pub(crate) look: Look,
    /// The nodes whose items are read, and how their owner's roster has the session's user; none while the directory is read.
    pub(crate) chosen: Option<(Vec<Node>, Seen)>,
}

/// An account is looked at before it is written or removed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AccountChangeRead {
    pub(crate) token: u64,
    pub(crate) account: Box<str>,
    pub(crate) what: AccountChange,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AccountChange {
    Put {
        credentials: Box<Credentials>,
        mode: PutMode,
    },
    Delete,
    /// It is suspended, or may be used again.
    Suspend {
        suspended: bool,
    },
    /// One that waits is approved, or goes.
    Decide {
        approve: bool,
    },
}

/// A command that is being carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ordering {
    pub(crate) asker: Asker,
    /// The command's node.
    pub(crate) node: &'static str,
    /// The command's session.
    pub(crate) id: Box<str>,
}

/// An account that an administrator puts waits for its keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderKeys {
    pub(crate) ordering: Ordering,
    pub(crate) account: Box<str>,
    /// It is to be made; otherwise its password changes.
    pub(crate) create: bool,
}

/// A user whose waiting messages are being looked at before they are dropped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flush {
    pub(crate) token: u64,
    pub(crate) account: Box<str>,
}

/// A user whose oldest rows are being read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Retained {
    pub(crate) user: Box<str>,
    /// The first number that is read now.
    pub(crate) from: u64,
    /// What has a lower number is known to be too old.
    pub(crate) old_until: u64,
    /// Pages read in a row of which no stamp says anything.
    pub(crate) pages: u32,
    /// Something has gone of this user.
    pub(crate) counted: bool,
}

/// Users whose rows are being read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RetentionRead {
    pub(crate) token: u64,
    pub(crate) users: Vec<Retained>,
    /// Users of whom something has gone.
    pub(crate) trimmed: u32,
}

/// Channels of which the registrations for pushes are being read, for those that are over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndsRead {
    pub(crate) token: u64,
    /// The nodes that were not looked at yet. Before the first one, how many registrations each has.
    pub(crate) nodes: Vec<Box<str>>,
    /// The one that is looked at, and behind which registration.
    pub(crate) at: Option<(Box<str>, Option<PushId>)>,
    /// Registrations that have ended.
    pub(crate) ended: u32,
}

/// Who waits for an invitation to be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Maker {
    /// The operator, by the command's token.
    Operator(u64),
    /// A user's command.
    User(Ordering),
}

/// What is to be done with an actor's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    /// Make an invitation.
    Make { maker: Maker, new: NewInvitation },
    /// Note that the actor invites to an account's name for so many seconds, if it has made fewer than so many.
    Name { reply: u64, account: Box<str>, life_s: u64, most: usize },
    /// Remove what is over.
    Sweep,
    /// Revoke one, for the operator.
    Revoke { reply: u64, id: InvitationId },
    /// See [`Question::Redeem`].
    Redeem { conn: ConnRef, redeem: Box<Redeem> },
    /// See [`Question::Apply`].
    Apply { conn: ConnRef, apply: Box<Apply> },
    /// See [`Question::Settle`].
    Settle { conn: ConnRef, settle: Box<Settle> },
    /// A contact has asked for a subscription with a token.
    Vouch { contact: Box<str>, id: InvitationId },
}

/// Rows of an actor that are read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InvitationRead {
    pub(crate) actor: Box<str>,
    pub(crate) why: Looking,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Looking {
    /// A token was shown: nothing is written.
    Shown { conn: ConnRef, id: InvitationId },
    /// Its turn has come.
    Work(Work),
}

/// The question for a single row without sort key.
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
