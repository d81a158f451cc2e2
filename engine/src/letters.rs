//! What shards say to each other: one [`Letters`] a turn and destination, many [`Letter`]s in it.
//!
//! All stanzas of a batch stand in one buffer, all addresses in another, and letters point into them, so that a stanza crosses
//! shards without an allocation of its own and a payload that goes to many receivers of a shard crosses once. Letters to the own
//! shard take the same way. This module knows the form of letters, not what is done about them.

use std::net::IpAddr;

use crate::extension::offline::Keep;
use crate::extension::push::answer::Outcome;
use crate::extension::subscription;
use crate::id::{ConnId, DomainId, Gate, Peer, PushId, SessionId, ShardId};
use crate::session::bosh::{Place, Reply};
use crate::session::moved::Handover;
use crate::store::account::{Credentials, Incarnation, KeySet};
use crate::store::hash::Tag;
use crate::store::invitation::{InvitationId, Invited};
use crate::store::report::Report;
use crate::store::token::{TokenAnswer, TokenShown};
use crate::web::bosh::read::Wrapper;
use crate::wire::limit::{Held, Refusal};

/// A piece of a batch's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }

    /// Of what has been appended behind `start`.
    fn since(start: usize, end: usize) -> Span {
        let end = u32::try_from(end).expect("a turn's letters stay below 4 GiB");
        Span { start: start as u32, len: end - start as u32 }
    }
}

/// A piece of a batch's addresses: kept as characters, so that nobody checks them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Name(Span);

/// Who waits for the confirmation of a stanza: responsibility stays with the sender's session until it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The sender's home shard.
    pub shard: ShardId,
    /// The sender's session there.
    pub session: SessionId,
    /// The stanza's number in that session's inbound count (XEP-0198 4).
    pub seq: u32,
    /// The number of the entry in the sender's log that says that it was sent; 0 if none does. With [`AGAIN`], the receiver may
    /// have it since before a crash.
    pub entry: u64,
}

/// A bit of the number of a [`PresenceNews::Probe`]: whoever asks has missed presence, and is told, too, that nobody is there.
pub const TELLS_GONE: u64 = 1 << 63;

/// A bit of [`Origin::entry`]: it is sent again after a crash, and nobody knows whether the receiver has it already.
pub const AGAIN: u64 = 1 << 63;

/// The three stanza kinds (RFC 6120 8.2) with the types that routing asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message, and whether an absent receiver gets it later (XEP-0160 3, XEP-0334).
    Message {
        /// Its `type` attribute.
        class: MessageClass,
        /// Whether it may wait in the receiver's log, and stay there.
        keep: Keep,
    },
    /// An IQ request, get or set.
    Request,
    /// An IQ result or error.
    Response,
    /// Presence sent to one address (RFC 6121 4.6).
    Directed {
        /// Whether it says "unavailable".
        unavailable: bool,
    },
}

/// `type` of a message (RFC 6121 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageClass {
    /// `normal`, or none, or one not known.
    Normal,
    /// `chat`.
    Chat,
    /// `groupchat`.
    Groupchat,
    /// `headline`.
    Headline,
    /// `error`.
    Error,
}

impl MessageClass {
    /// That of a `type` attribute.
    pub fn of_type(kind: &str) -> MessageClass {
        match kind {
            "chat" => MessageClass::Chat,
            "groupchat" => MessageClass::Groupchat,
            "headline" => MessageClass::Headline,
            "error" => MessageClass::Error,
            _ => MessageClass::Normal,
        }
    }
}

/// What a presence letter between two users says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresenceNews {
    /// The sender's resource is available; with `probe` the receiver's presence is asked for in return (RFC 6121 4.2.2, 4.3).
    Available {
        /// Answer with the presence of the receiver's resources; the number is that of a [`PresenceNews::Probe`].
        probe: Option<u64>,
    },
    /// The sender's resource has gone.
    Unavailable,
    /// Only the question (RFC 6121 4.3).
    Probe {
        /// The number of the sender's latest request to the receiver; see [`crate::extension::roster`].
        number: u64,
    },
    /// A subscription stanza (RFC 6121 3). The stanza of an `unsubscribed` is an error if there is nobody who could have
    /// answered the request (3.1.2).
    Subscription {
        /// Which of the four.
        kind: subscription::Kind,
        /// The number of the request that it is or answers; see [`crate::extension::roster`].
        number: u64,
        /// The number of the [`PresenceNews::Noted`] that is wanted for it; 0 for none.
        confirm: u64,
    },
    /// The sender was registered by the receiver's invitation: it asks for a subscription that is granted, and answered with another.
    Joined {
        /// The number of the request.
        number: u64,
    },
    /// The subscription stanza that wanted this number has had its effect.
    Noted {
        /// The number.
        confirm: u64,
    },
}

/// One thing that a shard tells another.
#[derive(Clone, Debug, PartialEq)]
pub enum Letter {
    /// A stanza for the user, or one session of the user, at this home.
    Stanza {
        /// Kind and type.
        kind: Kind,
        /// Whom to tell that the stanza is in safe hands.
        origin: Option<Origin>,
        /// The sender's full JID.
        from: Name,
        /// The receiver's bare or full JID.
        to: Name,
        /// The whole stanza with `from` and `to` stamped, content namespace `jabber:client`, never self-closed.
        xml: Span,
    },
    /// A service has answered what this home has published (XEP-0357 7).
    ServiceAnswered {
        /// The id of the publication.
        id: Name,
        /// The JID that has answered.
        from: Name,
        /// What it says.
        outcome: Outcome,
    },
    /// The stanza `seq` of that session is in safe hands.
    Confirm {
        /// The sender's session.
        session: SessionId,
        /// The stanza's number.
        seq: u32,
    },
    /// A component's connection has room for a stanza of that session: it is under way no more, and in safe hands when
    /// [`Letter::Safe`] comes.
    Took {
        /// The sender's session.
        session: SessionId,
    },
    /// The network has taken the stanza `seq` of that session for a component.
    Safe {
        /// The sender's session.
        session: SessionId,
        /// The stanza's number.
        seq: u32,
    },
    /// The component of a domain has come, or has gone.
    Component {
        /// The domain.
        domain: DomainId,
        /// It is there.
        there: bool,
    },
    /// A message was refused: the entry of its sender's log that says that it was sent is void.
    Refused {
        /// The sender's JID.
        from: Name,
        /// The entry's number.
        entry: u64,
    },
    /// Presence between two users.
    Presence {
        /// What it says.
        news: PresenceNews,
        /// Full JID of the sender's resource; bare for subscriptions.
        from: Name,
        /// The receiver's bare JID.
        to: Name,
        /// The stanza, unaddressed; see [`crate::wire::splice::address`].
        xml: Span,
    },
    /// Something has happened at a node of a user (XEP-0060 7.1.2).
    Event {
        /// The node.
        node: Name,
        /// The user's bare JID.
        from: Name,
        /// Receivers of this home, with NUL between them.
        to: Name,
        /// They are subscribed; otherwise those of their sessions get it that are interested.
        explicit: bool,
        /// The message, unaddressed.
        xml: Span,
    },
    /// A node of a service, of the sender's home, says what it has to do with a user, or with the service itself.
    Belongs {
        /// The user's bare JID, or the service.
        to: Name,
        /// The node: its actor for a user, its name for the service.
        node: Name,
        /// The user has asked for it.
        own: bool,
        /// What the user is there, or how the node is shown; empty for nothing.
        row: Span,
    },
    /// The account of a user is gone, whom a node of a service may know.
    Forget {
        /// The node's actor.
        node: Name,
        /// The user's bare JID.
        user: Name,
    },
    /// What a session has asked for has cost this elsewhere.
    Charge {
        /// The session.
        session: SessionId,
        /// The bare JID of its user, who pays if it has ended.
        user: Name,
        /// As [`WORK_EACH`](crate::limits::WORK_EACH) counts it.
        work: u64,
    },
    /// A session of the sender's is to be sent last items (XEP-0163 4.3.4); a page is answered by
    /// [`Letter::Looked`].
    AskLast {
        /// The session.
        session: SessionId,
        /// Its full JID.
        to: Name,
        /// Users of this home, with NUL between them.
        of: Name,
        /// Nodes in which it is interested, sorted, with NUL between them.
        nodes: Name,
        /// The session waits for the answer before it asks after others.
        page: bool,
    },
    /// Somebody publishes by HTTP at a channel of this home: [`Letter::ChannelAnswer`] says what came of it.
    ChannelPublish {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The network of who publishes: an address, of IPv6 the first of its /64. Empty for who has shown the operator's token.
        from: Name,
        /// The content type.
        kind: Name,
        /// What the publisher knows it by; empty for nothing.
        key: Name,
        /// Of each item the key by which it replaces the one before, with line feeds between them; empty for none of any.
        keys: Name,
        /// The content.
        body: Span,
        /// The channel may be made, if it is not there.
        makes: bool,
        /// Who publishes has shown a token that grants it.
        granted: bool,
        /// Each line of the content is an item.
        batch: bool,
    },
    /// Items of a channel of this home are wanted for a connection, and the shard watches it from now on: [`Letter::ChannelAnswer`]
    /// has those that are there, [`Letter::ChannelNews`] those that come.
    ChannelRead {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// Behind the item of this number; `u64::MAX`: only where the channel stands.
        after: u64,
        /// How many of this shard's watch it.
        watchers: u32,
        /// For so many channels at once.
        share: u8,
    },
    /// Items of a channel of this home are wanted once: [`Letter::ChannelAnswer`] has them.
    ChannelHistory {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// Behind the item of this number.
        after: u64,
        /// Before this one, the last one first; 0: in their order.
        before: u64,
        /// So many at the most; 0: only where the channel stands.
        items: u32,
    },
    /// What the home of a channel answers to a connection.
    ChannelAnswer {
        /// The connection.
        conn: ConnId,
        /// What its shard knows the request by.
        number: u32,
        /// Why not, if not.
        refused: Option<Box<Refusal>>,
        /// The answer.
        body: Span,
    },
    /// An item was published at a channel that this shard watches.
    ChannelNews {
        /// The node's actor.
        node: Name,
        /// The item's number, or that of the last one, if it is empty.
        number: u64,
        /// The key by which it replaces the one before; empty for none.
        key: Name,
        /// It, as it is told.
        item: Span,
    },
    /// The shard watches a channel of this home still, or does not any more.
    ChannelWatch {
        /// The node's actor.
        node: Name,
        /// The number of the last item that it has heard of.
        heard: u64,
        /// How many watch it there: none, if it does not.
        watchers: u32,
    },
    /// Connections that wait for a channel of the sending shard are not to go there for a while.
    ChannelStay {
        /// The node's actor; empty: that of any.
        node: Name,
    },
    /// What an address has published was told to so many.
    ChannelCharge {
        /// The connection's shard counts it.
        address: IpAddr,
        /// How many.
        told: u32,
    },
    /// Who subscribes to a channel of this home at the sending shard. [`Letter::ChannelOccupied`] follows a whole report of one that
    /// listens at once, and any of another when it changes something.
    ChannelPresent {
        /// The node's actor.
        node: Name,
        /// How many.
        subscribers: u32,
        /// Names with their numbers: all of them, or those that have changed, 0 for one that is gone.
        names: Span,
        /// It is all of them.
        whole: bool,
        /// There are more names.
        more: bool,
        /// Some there are told who subscribes.
        listens: bool,
    },
    /// Who subscribes to a channel at all shards, for those of this one who are told.
    ChannelOccupied {
        /// The node's actor.
        node: Name,
        /// How many.
        subscribers: u32,
        /// All names with their numbers; none, if there are more than are told.
        names: Span,
        /// There are more names.
        more: bool,
    },
    /// A connection asks who subscribes to a channel of this home: [`Letter::ChannelAnswer`] says it.
    ChannelCount {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
    },
    /// A page registers for pushes at a channel of this home: [`Letter::ChannelAnswer`] says what came of it.
    ChannelRegister {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The network of the page.
        from: Name,
        /// The registration.
        id: PushId,
        /// Its row.
        row: Span,
        /// There may be registrations if there is no such channel yet.
        makes: bool,
    },
    /// A page does not want pushes any more: [`Letter::ChannelAnswer`] says when it is done.
    ChannelUnregister {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The network of the page.
        from: Name,
        /// The registration.
        id: PushId,
    },
    /// A page that has registered at a channel of this home listens to it at the sending shard, or does not any more.
    ChannelListens {
        /// The node's actor.
        node: Name,
        /// The registration.
        id: PushId,
        /// It does.
        listens: bool,
    },
    /// A publisher by Nchan's protocol asks what there is to tell of a channel of this home: [`Letter::ChannelAnswer`] says it.
    ChannelInfo {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The address of who asks; empty for who has shown the operator's token.
        from: Name,
        /// Who asks has shown a token that grants to publish there.
        granted: bool,
        /// And its items are to be deleted.
        deletes: bool,
    },
    /// A channel that this shard watches was deleted by Nchan's protocol: its subscribers by that are told.
    ChannelGone {
        /// The node's actor.
        node: Name,
        /// Those behind this connection; `None`: all.
        behind: Option<ConnId>,
    },
    /// All users that were asked after for this session have been looked at.
    Looked {
        /// The session.
        session: SessionId,
        /// What was read for it, as [`WORK_EACH`](crate::limits::WORK_EACH) counts it.
        work: u64,
    },
    /// A question about an account or an address from the shard that holds the connection.
    Ask {
        /// Where the answer goes.
        conn: ConnRef,
        /// The account's bare JID; empty for a question about an address.
        account: Name,
        /// The question.
        question: Question,
    },
    /// The answer.
    Answer {
        /// The connection that asked.
        conn: ConnId,
        /// The answer.
        answer: Answer,
    },
    /// What a request has reported is kept, or left out for good ([`Question::File`]).
    Filed {
        /// What its user's home knows the request by.
        token: u64,
    },
    /// A login from this address has failed, or was broken off.
    LoginFailed {
        /// The peer of the connection.
        peer: Peer,
    },
    /// A login succeeded: what its account was charged when it began is given back.
    LoginSpared {
        /// The account's bare JID.
        account: Name,
        /// The peer of the connection.
        peer: Peer,
        /// What its home is to know the password by that it has shown (PLAIN).
        seen: Option<Box<Tag>>,
    },
    /// A login has shown the right password: the account gains keys that it lacked (XEP-0480).
    KeysGained {
        /// The account's bare JID.
        account: Name,
        /// The keys.
        gained: Box<Gained>,
    },
    /// A request for a session of BOSH (XEP-0124) that began at the receiver, or has moved there.
    BoshAsked(Box<BoshAsked>),
    /// The answer to such a request, for the connection on which it came.
    BoshAnswer {
        /// The connection.
        conn: ConnId,
        /// The number of its request. To another one it says nothing.
        number: u32,
        /// The answer.
        reply: Box<Reply>,
    },
    /// The connection of such a request has gone; or its client has sent more on it, and the request is to be answered at once.
    BoshLeft {
        /// The session.
        key: [u8; 16],
        /// The request.
        place: Place,
        /// The latter.
        hurries: bool,
    },
    /// A session of BOSH comes over: its user's home is here.
    BoshMoves(Box<Handover>),
}

/// A request for a session of BOSH.
#[derive(Clone, Debug, PartialEq)]
pub struct BoshAsked {
    /// The session.
    pub key: [u8; 16],
    /// Where the answer goes.
    pub place: Place,
    /// It came by TLS.
    pub secured: bool,
    /// What it says.
    pub wrapper: Box<Wrapper>,
}

/// Keys of hash functions that an account had none of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gained {
    /// Of which account under which password, see [`Credentials::identity`].
    pub identity: (Incarnation, u64),
    /// The keys, at most one set for each hash function.
    pub sets: Vec<KeySet>,
}

/// A connection of some shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnRef {
    /// The shard.
    pub shard: ShardId,
    /// The connection there.
    pub conn: ConnId,
}

impl ConnRef {
    /// No connection of a shard: nobody waits there for an answer.
    pub fn nobody(shard: ShardId) -> ConnRef {
        ConnRef { shard, conn: ConnId { slot: u32::MAX, generation: 0 } }
    }
}

/// What a shard may ask of an account's home, or of the shard that counts for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether a login from this address may go on, after those that have failed. The account's home is asked for
    /// [`Question::Credentials`] and answers the connection: [`Answer::Held`] if the address is held and not known to it.
    MayLogIn {
        /// The peer of the connection.
        peer: Peer,
        /// What it shows.
        shows: Shows,
    },
    /// Whether an account may be registered from this address, after those that were; counts as one (XEP-0077 6).
    MayRegister {
        /// The peer of the connection.
        peer: Peer,
    },
    /// The credentials for a login.
    Credentials {
        /// The peer of the connection.
        peer: Peer,
        /// What it shows.
        shows: Shows,
        /// The address is held: only if a login from it to this account has succeeded lately does it go on.
        held: Option<Box<Held>>,
    },
    /// Whoever keeps this user elsewhere has said that the password is right: an account is made if there is none. The answer is
    /// [`Answer::Credentials`].
    Admit,
    /// A login has begun about which nobody could be asked: account and pair get back what they were charged. There is no answer.
    Untried {
        /// The peer of the connection.
        peer: Peer,
    },
    /// Whoever keeps this user elsewhere has said that there is none any more: the account's tokens are void. There is no answer.
    Ousted,
    /// Make the account with these encoded credentials (XEP-0077 3.1).
    Register {
        /// The keys of its password.
        credentials: Box<Credentials>,
        /// By whose leave: who has given it hears what came of it ([`Question::Settle`]), and answers the connection.
        leave: Option<Box<Leave>>,
    },
    /// Whether somebody at this address may show a token, after the logins that have failed from it. The home of the token's actor is
    /// asked for [`Question::Invitation`] and answers the connection.
    MayShow {
        /// The peer of the connection.
        peer: Peer,
        /// Which invitation.
        id: InvitationId,
    },
    /// What an invitation of this actor allows now (XEP-0445 4).
    Invitation {
        /// Which.
        id: InvitationId,
    },
    /// Whether who invites is there: the answer is [`Answer::Invited`] with this.
    Vouch(Box<Invited>),
    /// Let an account be registered by an invitation of this actor, which goes on to its home.
    Redeem(Box<Redeem>),
    /// Let an account be registered that an administrator has to approve: the actor is the domain.
    Apply(Box<Apply>),
    /// What came of a leave that this actor has given.
    Settle(Box<Settle>),
    /// Whether the account was made by this leave: the actor that has given it is told, and the connection is to ask again.
    WasMade(Box<Leave>),
    /// An account of this domain does not wait for approval any more.
    Decided(Box<str>),
    /// An account has waited too long for approval: it goes, if it is still this one.
    Expired(Incarnation),
    /// Keep what a user of this domain has reported. The shard of the connection hears of it: [`Letter::Filed`].
    File(Box<Filing>),
}

/// See [`Question::File`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filing {
    /// Bare JID of the user.
    pub by: Box<str>,
    /// What is reported.
    pub reports: Vec<Report>,
    /// What the user's home knows the request by.
    pub token: u64,
}

/// See [`Question::Redeem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redeem {
    /// Which invitation.
    pub id: InvitationId,
    /// The account that is to be made.
    pub account: Box<str>,
    /// The keys of its password.
    pub credentials: Box<Credentials>,
    /// From where it is registered.
    pub address: IpAddr,
}

/// See [`Question::Apply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    /// The account that is to be made.
    pub account: Box<str>,
    /// The keys of its password.
    pub credentials: Box<Credentials>,
    /// From where it is registered.
    pub address: IpAddr,
    /// The leave of an invitation, which goes on with it.
    pub leave: Option<Box<Leave>>,
}

/// That an account may be made, as whoever decides of it has written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Who has given it.
    pub by: Box<str>,
    /// By which invitation. If by none, the giver is the account's domain, and the account waits for approval.
    pub id: Option<InvitationId>,
    /// Which account of its name it is to be.
    pub incarnation: Incarnation,
    /// Who becomes a contact of the account; empty for nobody.
    pub inviter: Box<str>,
    /// The account's name was given by who may give any: the operator or an administrator.
    pub gives_name: bool,
    /// Who has given leave before, and is told behind this one.
    pub then: Option<Box<Leave>>,
}

/// See [`Question::Settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The leave.
    pub leave: Leave,
    /// The account.
    pub account: Box<str>,
    /// Whether it was made.
    pub made: bool,
    /// For the connection.
    pub answer: Answer,
}

const _: () = assert!(size_of::<Letter>() <= 80, "all letters are as large as the largest");

/// What a login shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// A proof that the connection's shard checks.
    Proof,
    /// A password, so that it helps to know the one that was shown before.
    Password,
    /// A token, which the account's home checks: [`Answer::Token`].
    Token(Box<TokenShown>),
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The address may.
    May,
    /// The account is charged for the attempt.
    Credentials {
        /// Its bare JID.
        account: Box<str>,
        /// Its row; `None` if there is no such account.
        row: Option<Box<[u8]>>,
        /// What its home knows the password by that was shown before, if it was asked for.
        seen: Option<Box<Tag>>,
    },
    /// What the token is worth that was shown. The account is charged for the attempt.
    Token(Box<TokenAnswer>),
    /// Not now: too many failed logins, or registrations.
    Held(Held),
    /// The account is made.
    Registered,
    /// There is one of this name.
    Taken,
    /// The name is reserved for another invitation.
    Reserved,
    /// The token lets register.
    Invited(Box<Invited>),
    /// It does not.
    NotInvited,
    /// An earlier use that was broken off has been looked into: ask again.
    Again,
    /// The store is full; try later.
    StoreFull,
    /// The account's row cannot be read: it is damaged.
    Unreadable,
}

/// The letters of one turn from one shard to another.
#[derive(Clone, Debug, Default)]
pub struct Letters {
    /// The sender.
    pub from: ShardId,
    /// What the sender's state of this turn rests on; nothing that follows from the batch leaves the process before it.
    pub after: Gate,
    /// Its place among those from this sender to this receiver, which count from 1: what comes again is not read again.
    pub number: u64,
    text: Vec<u8>,
    names: String,
    letters: Vec<Letter>,
    expects: Expects,
}

/// How large a batch is likely to become: nearly as large as the largest of those shortly before it, because batches with messages and
/// batches with their confirmations alternate. Memory is taken with the first letter, at once.
#[derive(Clone, Copy, Debug, Default)]
struct Expects {
    text: usize,
    names: usize,
    letters: usize,
}

/// No more memory than this is taken before it is needed, bytes of text and addresses, and letters.
const EXPECTS_MAX: Expects = Expects { text: 64 << 10, names: 32 << 10, letters: 512 };

/// What is kept for a shard's letters to itself.
const ROOM: Expects = Expects { text: 16 << 10, names: 8 << 10, letters: 128 };

impl Letters {
    /// An empty batch of a sender.
    pub fn new(from: ShardId) -> Letters {
        Letters { from, ..Letters::default() }
    }

    /// Takes the letters out under the next number; what stays expects as much again.
    pub fn take(&mut self) -> Letters {
        self.number += 1;
        let likely = |len: usize, expected: usize, max: usize| len.max(expected - expected.div_ceil(8)).min(max);
        let expects = Expects {
            text: likely(self.text.len(), self.expects.text, EXPECTS_MAX.text),
            names: likely(self.names.len(), self.expects.names, EXPECTS_MAX.names),
            letters: likely(self.letters.len(), self.expects.letters, EXPECTS_MAX.letters),
        };
        std::mem::replace(self, Letters { expects, number: self.number, ..Letters::new(self.from) })
    }

    /// An empty batch with room for the letters of an ordinary turn.
    pub fn roomy(from: ShardId) -> Letters {
        let mut batch = Letters::new(from);
        batch.text.reserve_exact(ROOM.text);
        batch.names.reserve_exact(ROOM.names);
        batch.letters.reserve_exact(ROOM.letters);
        batch
    }

    /// An empty batch in the memory of one that has been read: as much as [`Letters::roomy`] takes, whatever was in it.
    pub fn recycle(mut self) -> Letters {
        self.text.clear();
        self.names.clear();
        self.letters.clear();
        let kept = (self.text.capacity(), self.names.capacity(), self.letters.capacity());
        match kept == (ROOM.text, ROOM.names, ROOM.letters) {
            true => self,
            false => Letters::roomy(self.from),
        }
    }

    /// Takes the memory of an empty batch, if this one says nothing yet.
    pub fn take_memory(&mut self, empty: Letters) {
        if self.is_empty() {
            (self.text, self.names, self.letters) = (empty.text, empty.names, empty.letters);
        }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Number of letters.
    pub fn len(&self) -> usize {
        self.letters.len()
    }

    /// Bytes of text and addresses.
    pub fn text_bytes(&self) -> usize {
        self.text.len() + self.names.len()
    }

    /// The letters in the order in which they were written.
    pub fn letters(&self) -> &[Letter] {
        &self.letters
    }

    /// Adds text and names it.
    pub fn write(&mut self, text: &[u8]) -> Span {
        self.write_with(|out| out.extend_from_slice(text))
    }

    /// Adds text that `fill` appends, and names it.
    pub fn write_with(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Span {
        if self.text.capacity() == 0 {
            self.text.reserve(self.expects.text);
        }
        let start = self.text.len();
        fill(&mut self.text);
        Span::since(start, self.text.len())
    }

    /// Adds an address, or a part of one, and names it.
    pub fn name(&mut self, name: &str) -> Name {
        if self.names.capacity() == 0 {
            self.names.reserve(self.expects.names);
        }
        let start = self.names.len();
        self.names.push_str(name);
        Name(Span::since(start, self.names.len()))
    }

    /// Adds a letter whose spans were written to this batch.
    pub fn push(&mut self, letter: Letter) {
        if self.letters.capacity() == 0 {
            self.letters.reserve(self.expects.letters);
        }
        self.letters.push(letter);
    }

    /// The bytes of a piece.
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.text[span.range()]
    }

    /// An address.
    pub fn str(&self, name: Name) -> &str {
        &self.names[name.0.range()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        let mut batch = Letters::new(ShardId(3));
        let a = batch.name("romeo@localhost/orchard");
        let b = batch.write_with(|out| out.extend_from_slice(b"<presence/>"));
        let c = batch.name("\u{e9}t\u{e9}");
        assert_eq!(batch.str(a), "romeo@localhost/orchard");
        assert_eq!(batch.bytes(b), b"<presence/>");
        assert_eq!(batch.str(c), "\u{e9}t\u{e9}");
        assert_eq!(batch.text_bytes(), 39);
    }
}
