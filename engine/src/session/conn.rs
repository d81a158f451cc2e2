//! One connection: where its stream stands, and the little that is kept while it is idle.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::facts::{ListenerKind, Lost, TlsFacts};
use super::inline::Inline;
use super::sasl;
use crate::id::{ConnId, DomainId, NO_SOCKET, Peer, SessionId};
use crate::outbound::Outbound;
use crate::slots::Slots;
use crate::store::invitation::{InvitationId, Invited};
use crate::web::bosh::Sid;
use crate::web::{Begun, Transport};
use crate::wire::{Expect, Scanner, StreamScope};

/// No connection, session or user.
pub const NONE: u32 = u32::MAX;

/// What a stream expects next before a resource is bound. Each state is named for it.
#[derive(Debug)]
pub enum Stage {
    /// The first stream header (RFC 6120 4.2).
    ExpectHeader,
    /// A choice among the features: STARTTLS, authentication or registration (RFC 6120 4.3.2).
    ExpectChoice,
    /// The TLS handshake; `<proceed/>` is sent (RFC 6120 5.4.2.3).
    ExpectHandshake,
    /// The mechanism's first message, which the client left out of `<auth/>`.
    ExpectInitial(sasl::ExpectInitial),
    /// The account's row, for SCRAM.
    ExpectScramAccount(Box<sasl::ExpectAccount>),
    /// The client's proof.
    ExpectProof(Box<sasl::ExpectClientFinal>),
    /// The account's row, for PLAIN.
    ExpectPlainAccount(Box<sasl::PlainAttempt>),
    /// The derived key of a PLAIN password.
    ExpectPlainKeys(Box<sasl::ExpectDerived>),
    /// The account's row, for EXTERNAL.
    ExpectExternalAccount(Box<sasl::ExternalAttempt>),
    /// What the account's home says of a token.
    ExpectTokenAnswer(Box<sasl::TokenAttempt>),
    /// What whoever keeps the user elsewhere says of a password, or of whether the user is still there.
    ExpectVerdict(Box<sasl::outside::ExpectVerdict>),
    /// The account of such a user, who logs in for the first time.
    ExpectAdmission(Box<sasl::outside::ExpectAdmission>),
    /// Keys of a new account's password are derived; then its home makes the account (XEP-0077 3.1).
    ExpectRegistration(Box<Registering>),
    /// What a token allows that was shown (XEP-0445 4).
    ExpectInvitation(Box<Showing>),
    /// The stream is restarted after authentication (RFC 6120 6.4.6).
    ExpectRestart(sasl::Authenticated),
    /// What came with the authentication of a user is being done (XEP-0388 2.6.1).
    ExpectInline(sasl::Authenticated),
    /// A step of a task by which the account of an authenticated user gains keys (XEP-0480 2.3).
    ExpectTask(sasl::Authenticated),
    /// `<bind/>` or `<resume/>` of an authenticated user (RFC 6120 7, XEP-0198 5).
    ExpectBind(sasl::Authenticated),
    /// The stream header of a component (XEP-0114 3).
    ExpectComponent,
    /// Its `<handshake/>`.
    ExpectSecret(Box<Claimed>),
}

/// The domain that a component says is its own, and has not proven.
#[derive(Debug)]
pub struct Claimed {
    /// The domain.
    pub domain: DomainId,
    /// The stream's id, over which the proof goes.
    pub stream_id: Box<str>,
}

impl Stage {
    fn phase(&self) -> Phase {
        match self {
            Stage::ExpectHeader | Stage::ExpectChoice | Stage::ExpectComponent => Phase::Opening,
            Stage::ExpectHandshake => Phase::Securing,
            Stage::ExpectInitial(_)
            | Stage::ExpectScramAccount(_)
            | Stage::ExpectProof(_)
            | Stage::ExpectPlainAccount(_)
            | Stage::ExpectPlainKeys(_)
            | Stage::ExpectExternalAccount(_)
            | Stage::ExpectTokenAnswer(_)
            | Stage::ExpectVerdict(_)
            | Stage::ExpectAdmission(_)
            | Stage::ExpectInvitation(_)
            | Stage::ExpectRegistration(_)
            | Stage::ExpectSecret(_) => Phase::Authenticating,
            Stage::ExpectRestart(_) | Stage::ExpectInline(_) | Stage::ExpectTask(_) | Stage::ExpectBind(_) => {
                Phase::Authenticated
            }
        }
    }

    /// Whose the connection is, once that is proven.
    pub fn owner(&self) -> Option<&sasl::Authenticated> {
        match self {
            Stage::ExpectRestart(owner)
            | Stage::ExpectInline(owner)
            | Stage::ExpectTask(owner)
            | Stage::ExpectBind(owner) => Some(owner),
            _ => None,
        }
    }
}

/// Where connections stand, coarsely. [`Conns`] counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The stream is being opened, or its client chooses what comes next.
    Opening,
    /// In a TLS handshake.
    Securing,
    /// In authentication or registration.
    Authenticating,
    /// Authenticated, without a session yet.
    Authenticated,
    /// Behind a session.
    Bound,
    /// The stream has ended.
    Closing,
    /// On its way to another shard.
    Departing,
}

/// Phases there are.
const PHASES: usize = Phase::Departing as usize + 1;

/// A registration under way.
pub struct Registering {
    /// The bare JID of the account, normalised.
    pub account: Box<str>,
    /// The password as it came, until keys are derived from it.
    pub password: Box<str>,
    /// `id` of the IQ.
    pub id: Box<str>,
}

impl std::fmt::Debug for Registering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registering({})", self.account)
    }
}

/// A token that was shown.
#[derive(Debug)]
pub struct Showing {
    /// The actor that it names.
    pub actor: Box<str>,
    /// Which invitation of the actor's.
    pub invitation: InvitationId,
    /// How often it was asked for again.
    pub asked: u8,
    /// `id` of the IQ.
    pub id: Box<str>,
}

/// A login under way: its name is known and its account is charged.
#[derive(Debug)]
pub struct Attempt {
    /// The account's bare JID, normalised.
    pub account: Box<str>,
    /// Who tries.
    pub peer: Peer,
    /// How.
    pub mechanism: sasl::Mechanism,
    /// Since when it waits for the server, milliseconds of the monotonic clock.
    pub asked_ms: u64,
    /// When it began, microseconds of the wall's clock.
    pub since_us: u64,
}

/// A connection that has no session yet. Requests of HTTP come on such a one, and wait on it: what only some have is a box that is made
/// when it is needed.
#[derive(Debug)]
pub struct Opening {
    /// What its listener says.
    pub listener: ListenerKind,
    /// The other end.
    pub peer: IpAddr,
    /// The TLS handshake's facts, once it is done and until authentication is.
    pub tls: Option<Box<TlsFacts>>,
    /// The stream is encrypted.
    pub secured: bool,
    /// What its header says of the client, if anything is of use.
    said: Option<Box<Said>>,
    /// The domain that the stream is with, as its header says.
    pub domain: DomainId,
    /// Second (monotonic) when it was accepted.
    pub accepted_s: u32,
    /// The invitation by which it may register.
    pub invited: Option<Box<Invited>>,
    /// The login under way.
    pub attempt: Option<Box<Attempt>>,
    /// What comes with it, if it is one of XEP-0388: from `<authenticate/>` until the end of it.
    pub inline: Option<Box<Inline>>,
    /// Failed authentications so far; once authenticated, refused resources.
    pub attempts: u8,
    /// Requests answered so far, those of `attempts` not counted; of HTTP, until it is a WebSocket.
    pub requests: u8,
    /// Nonzas or stanzas are not looked at until an answer from elsewhere has come.
    pub blocked: bool,
    /// What came last is to be looked at once more, when it is not blocked any longer.
    pub again: bool,
    /// It was told of an account that was made for it: whatever it hears from then on waits until that is durable.
    pub promised: bool,
    /// It has been where its channel is, or may not go there: it does not move for another one.
    pub settled: bool,
    /// The request of HTTP that was asked last elsewhere, if one was.
    asked: Option<Box<Asked>>,
    /// What comes next. Changed by [`Conns::set_stage`], which counts.
    stage: Stage,
}

const _: () = assert!(size_of::<Opening>() <= 104, "a request that waits costs this much beside its listener");

/// What the header of a client's stream says of it.
#[derive(Debug, Default)]
struct Said {
    /// Language of the stream's stanzas, where it is not the server's own (RFC 6120 4.7.4).
    lang: Option<Box<str>>,
    /// As whom the client has opened the stream, a bare JID, until it has authenticated.
    from: Option<Box<str>>,
}

/// A request of HTTP that is answered by a session of BOSH (XEP-0124), which may be at another shard. Nothing of it is kept but this.
#[derive(Debug, Default)]
pub struct Asked {
    /// Its number among those of the connection.
    pub number: u32,
    /// It waits for its answer.
    pub waits: bool,
    /// The connection stays when it is answered.
    pub keeps_alive: bool,
    /// Second (monotonic) since which it waits.
    pub since_s: u32,
    /// The session that it is for.
    pub sid: Option<Sid>,
    /// The page that asks, where that makes a difference.
    pub origin: Option<Box<str>>,
}

impl Opening {
    /// A connection by this listener from this address, of which `stage` is expected.
    pub fn new(listener: ListenerKind, peer: IpAddr, accepted_s: u32, stage: Stage) -> Opening {
        Opening {
            listener,
            peer,
            tls: None,
            secured: false,
            said: None,
            domain: DomainId::default(),
            accepted_s,
            invited: None,
            attempt: None,
            inline: None,
            attempts: 0,
            requests: 0,
            blocked: false,
            again: false,
            promised: false,
            settled: false,
            asked: None,
            stage,
        }
    }

    /// Whether nothing that it hears could be taken as a promise: nobody has logged in, and no account was made.
    pub fn is_promised_nothing(&self) -> bool {
        !self.promised && self.stage.owner().is_none()
    }

    /// The header of its stream says in which language its stanzas are, where that is not the server's own, and who it is.
    pub fn introduce(&mut self, lang: Option<Box<str>>, from: Option<Box<str>>) {
        self.said = (lang.is_some() || from.is_some()).then(|| Box::new(Said { lang, from }));
    }

    /// As whom the client has opened the stream, a bare JID, until it has authenticated.
    pub fn from(&self) -> Option<&str> {
        self.said.as_ref()?.from.as_deref()
    }

    /// It is known who the client is, whatever it has said.
    pub fn forget_from(&mut self) {
        let lang = self.take_lang();
        self.introduce(lang, None);
    }

    /// Takes the language of its stanzas, where that is not the server's own.
    pub fn take_lang(&mut self) -> Option<Box<str>> {
        self.said.as_mut()?.lang.take()
    }

    /// The request of HTTP that was asked last elsewhere.
    pub fn asked(&self) -> Option<&Asked> {
        self.asked.as_deref()
    }

    /// The same, to change it.
    pub fn asked_mut(&mut self) -> &mut Asked {
        self.asked.get_or_insert_default()
    }

    /// That request, if it waits for its answer.
    pub fn awaited(&self) -> Option<&Asked> {
        self.asked().filter(|asked| asked.waits)
    }

    /// The form of the authentication under way.
    pub fn form(&self) -> sasl::Form {
        if self.inline.is_some() { sasl::Form::Sasl2 } else { sasl::Form::Sasl1 }
    }

    /// What comes next.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }
}

/// State of a connection.
#[derive(Debug, Default)]
pub enum ConnState {
    /// The slot holds no connection.
    #[default]
    Free,
    /// Before a session.
    Opening(Box<Opening>),
    /// Behind a session.
    Bound(SessionId),
    /// A component's, of this domain (XEP-0114).
    Component(DomainId),
    /// Ended by this side or the other: nothing more is read, `Closed` is awaited.
    Closing {
        /// Whose messages the send that is under way carries, or [`NONE`]: they are not lost yet.
        user: u32,
    },
    /// On its way to another shard.
    Departing,
}

impl ConnState {
    fn phase(&self) -> Option<Phase> {
        match self {
            ConnState::Free => None,
            ConnState::Opening(opening) => Some(opening.stage.phase()),
            ConnState::Bound(_) | ConnState::Component(_) => Some(Phase::Bound),
            ConnState::Closing { .. } => Some(Phase::Closing),
            ConnState::Departing => Some(Phase::Departing),
        }
    }
}

/// Why a connection is not read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pause {
    /// An answer from elsewhere decides what comes next.
    Answer = 1,
    /// Too much of what it sent is not in safe hands, or not durable.
    InFlight = 2,
    /// It does not take what it has asked for.
    Output = 4,
    /// It has ended, or moves.
    Ending = 8,
    /// It has set off more work than its share.
    Work = 16,
    /// Its account sends faster than it may.
    Pace = 32,
}

/// Reasons for which also what has been read is not looked at.
const UNREAD: u8 = Pause::Output as u8 | Pause::Work as u8 | Pause::Pace as u8;

/// The part of an item that has come so far.
#[derive(Debug, Default)]
pub struct Partial {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How far they are looked at.
    pub scanner: Scanner,
    /// What of a request or a message has been taken out of them already.
    pub begun: Option<Begun>,
}

/// One slot of a shard's connections.
#[derive(Debug, Default)]
pub struct Conn {
    /// Generation of the connection in the slot.
    pub generation: u32,
    /// Second (monotonic) of the last bytes received.
    pub last_s: u32,
    /// Where it stands. Changed by [`Conns::set_state`], which counts.
    state: ConnState,
    /// What the stream header declared.
    pub scope: StreamScope,
    /// An item that has come in part.
    pub partial: Option<Box<Partial>>,
    /// Output that waits or is under way.
    pub outbound: Option<Box<Outbound>>,
    /// What the stream may bring next.
    pub expect: StreamExpect,
    /// A header was sent, so that errors and the end go inside of it (RFC 6120 4.9.1.1).
    pub header_sent: bool,
    /// It is in the turn's list of connections with output.
    pub dirty: bool,
    /// Why it is not read from, a bit for each [`Pause`]. Changed by [`Conns::pause`] and [`Conns::resume`], which count.
    paused: u8,
    /// It is recorded that it is to end.
    pub ending: bool,
    /// A ping was sent to find out whether an idle peer is there.
    pub pinged: bool,
    /// What the driver has said of its end, if it is to end without being asked.
    pub lost: Option<Lost>,
    /// How its bytes are read and written. Changed by [`Conns::set_transport`], which counts.
    transport: Transport,
}

impl Conn {
    /// How its bytes are read and written.
    #[inline]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Where it stands.
    pub fn state(&self) -> &ConnState {
        &self.state
    }

    /// Whether it is not read from for this reason.
    pub fn is_paused(&self, why: Pause) -> bool {
        self.paused & why as u8 != 0
    }

    /// Whether what it sends is not looked at, so that nobody knows whether it is silent.
    pub fn is_unread(&self) -> bool {
        self.paused & UNREAD != 0
    }

    /// What there is of a connection that has no session yet.
    pub fn opening(&mut self) -> Option<&mut Opening> {
        match &mut self.state {
            ConnState::Opening(opening) => Some(opening),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<Conn>() <= 64, "an idle connection costs this much");

/// [`Expect`] with a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamExpect {
    /// The first byte of a stream.
    #[default]
    Opening,
    /// The header behind an XML declaration.
    Header,
    /// Inside of the stream.
    Content,
}

impl From<StreamExpect> for Expect {
    fn from(expect: StreamExpect) -> Expect {
        match expect {
            StreamExpect::Opening => Expect::Opening,
            StreamExpect::Header => Expect::Header,
            StreamExpect::Content => Expect::Content,
        }
    }
}

/// A shard's connections, by the driver's slots.
#[derive(Debug, Default)]
pub struct Conns {
    slots: Slots<Conn>,
    /// Connections without a socket, by their slots without [`NO_SOCKET`].
    others: Slots<Conn>,
    /// Free slots of these.
    free: Vec<u32>,
    held: usize,
    paused: usize,
    websockets: usize,
    /// Connections in each [`Phase`], and whether they are others than when they were last asked for.
    phases: [usize; PHASES],
    changed: bool,
    /// Connections without a session, by the network of their peer.
    opening: BTreeMap<Network, u32>,
    /// Whom connections are for of which the host does not know it.
    clients: BTreeMap<ConnId, (IpAddr, Option<IpAddr>)>,
}

/// An IPv4 address, or an IPv6 /64: what one customer of a provider has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Network(bool, [u8; 8]);

impl Network {
    fn of(address: IpAddr) -> Network {
        let mut bytes = [0; 8];
        match address.to_canonical() {
            IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes.copy_from_slice(&address.octets()[..8]),
        }
        Network(address.to_canonical().is_ipv6(), bytes)
    }

    /// Its first address.
    fn address(self) -> IpAddr {
        let Network(is_ipv6, bytes) = self;
        match is_ipv6 {
            true => Ipv6Addr::from(u128::from(u64::from_be_bytes(bytes)) << 64).into(),
            false => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
        }
    }
}

impl Conns {
    fn at(&self, slot: u32) -> Option<&Conn> {
        match slot & NO_SOCKET {
            0 => self.slots.get(slot as usize),
            _ => self.others.get((slot & !NO_SOCKET) as usize),
        }
    }

    fn at_mut(&mut self, slot: u32) -> Option<&mut Conn> {
        match slot & NO_SOCKET {
            0 => self.slots.get_mut(slot as usize),
            _ => self.others.get_mut((slot & !NO_SOCKET) as usize),
        }
    }

    /// These are needed next, see [`Slots::fetch`].
    pub fn fetch(&self, ids: &[ConnId]) {
        self.slots.fetch(ids.iter().map(|id| id.slot as usize), |conn| conn.generation);
    }

    /// A connection that is there in this generation.
    pub fn get(&mut self, id: ConnId) -> Option<&mut Conn> {
        let conn = self.at_mut(id.slot)?;
        (conn.generation == id.generation && !matches!(conn.state, ConnState::Free)).then_some(conn)
    }

    /// The connection that is handled right now: as long as it is, it does not go, because endings are carried out later.
    pub fn heard(&mut self, id: ConnId) -> &mut Conn {
        self.get(id).expect("a connection that is heard is there")
    }

    /// Second (monotonic) of the last bytes from a connection; 0 if it is not there.
    pub fn last_s(&self, id: ConnId) -> u32 {
        self.at(id.slot).filter(|c| c.generation == id.generation).map_or(0, |c| c.last_s)
    }

    /// Output that waits for a connection or is under way, bytes; 0 if it is not there.
    pub fn outbound_bytes(&self, id: ConnId) -> usize {
        let conn = self.at(id.slot).filter(|c| c.generation == id.generation);
        conn.and_then(|c| c.outbound.as_ref()).map_or(0, |o| o.bytes())
    }

    /// What is in the slot, to look at.
    pub fn look(&self, slot: u32) -> Option<&Conn> {
        self.at(slot)
    }

    /// The slot as it is.
    pub fn slot(&mut self, slot: u32) -> Option<&mut Conn> {
        self.at_mut(slot)
    }

    /// The id of the connection in a slot that is there.
    pub fn id(&self, slot: u32) -> ConnId {
        ConnId { slot, generation: self.at(slot).map_or(0, |conn| conn.generation) }
    }

    /// A free slot without a socket, for [`Conns::insert`].
    pub fn without_socket(&mut self) -> ConnId {
        let index = self.free.pop().unwrap_or_else(|| self.others.push(Conn::default()) as u32);
        let generation = self.others[index as usize].generation.wrapping_add(1);
        ConnId { slot: index | NO_SOCKET, generation }
    }

    /// Puts a new connection into its slot.
    pub fn insert(&mut self, id: ConnId, opening: Opening, now_s: u32) {
        if id.has_socket() {
            self.slots.reach(id.slot as usize, Conn::default);
        }
        let slot = self.at_mut(id.slot).expect("the slot is there");
        debug_assert!(matches!(slot.state, ConnState::Free), "the driver reuses a slot after Closed");
        *slot = Conn { generation: id.generation, last_s: now_s, ..Conn::default() };
        self.held += 1;
        self.change(id, ConnState::Opening(Box::new(opening)));
    }

    /// Changes where a connection stands, and returns where it stood; none if it is not there.
    pub fn set_state(&mut self, id: ConnId, state: ConnState) -> Option<ConnState> {
        self.get(id)?;
        Some(self.change(id, state))
    }

    fn change(&mut self, id: ConnId, state: ConnState) -> ConnState {
        let now = state.phase();
        if let ConnState::Opening(opening) = &state {
            *self.opening.entry(Network::of(opening.peer)).or_default() += 1;
        }
        let conn = self.at_mut(id.slot).expect("it is there");
        let was = std::mem::replace(&mut conn.state, state);
        if let ConnState::Opening(opening) = &was {
            self.left_opening(opening.peer);
        }
        self.count(was.phase(), now);
        was
    }

    /// From now on a connection's bytes are read and written in another way.
    pub fn set_transport(&mut self, id: ConnId, transport: Transport) {
        let Some(conn) = self.get(id) else { return };
        let was = std::mem::replace(&mut conn.transport, transport);
        self.websockets = self.websockets + usize::from(transport.is_websocket()) - usize::from(was.is_websocket());
        self.changed = true;
    }

    /// Connections that are WebSockets.
    pub fn websockets(&self) -> usize {
        self.websockets
    }

    fn left_opening(&mut self, peer: IpAddr) {
        if let Entry::Occupied(mut entry) = self.opening.entry(Network::of(peer)) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }

    /// Connections without a session from the network of an address.
    pub fn opening_from(&self, peer: IpAddr) -> u32 {
        self.opening.get(&Network::of(peer)).copied().unwrap_or(0)
    }

    /// From where connections without a session come, and how many from each network (a /64 of IPv6).
    pub fn openings(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        self.opening.iter().map(|(network, count)| (network.address(), *count))
    }

    /// Another address is the peer of a connection without a session: a proxy says so.
    pub fn set_peer(&mut self, id: ConnId, peer: IpAddr) {
        let Some(opening) = self.get(id).and_then(Conn::opening) else { return };
        let was = std::mem::replace(&mut opening.peer, peer);
        *self.opening.entry(Network::of(peer)).or_default() += 1;
        self.left_opening(was);
    }

    /// A connection is for this client, which its host cannot know: a proxy with the other address says so, or there is no socket.
    pub fn name_client(&mut self, id: ConnId, client: IpAddr, proxy: Option<IpAddr>) {
        if self.get(id).is_some() {
            self.clients.insert(id, (client.to_canonical(), proxy));
        }
    }

    /// A connection is for the other end of its socket again.
    pub fn unname_client(&mut self, id: ConnId) {
        self.clients.remove(&id);
    }

    /// Whom a connection is for, if its host does not know it.
    pub fn client(&self, id: ConnId) -> Option<IpAddr> {
        self.clients.get(&id).map(|(client, _)| *client)
    }

    /// The proxy that has named the client of a connection.
    pub fn proxy(&self, id: ConnId) -> Option<IpAddr> {
        self.clients.get(&id)?.1
    }

    /// Changes what is expected of a connection without a session, and returns what was.
    pub fn set_stage(&mut self, id: ConnId, stage: Stage) -> Option<Stage> {
        let now = stage.phase();
        let was = std::mem::replace(&mut self.get(id)?.opening()?.stage, stage);
        self.count(Some(was.phase()), Some(now));
        Some(was)
    }

    fn count(&mut self, was: Option<Phase>, now: Option<Phase>) {
        if let Some(was) = was {
            self.phases[was as usize] -= 1;
        }
        if let Some(now) = now {
            self.phases[now as usize] += 1;
        }
        self.changed = true;
    }

    /// Whether connections have come, gone or changed their phase since this was asked last.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Connections in a phase; all of them together are those held.
    pub fn in_phase(&self, phase: Phase) -> usize {
        self.phases[phase as usize]
    }

    /// Frees the slot and returns what was in it, and where it stood.
    pub fn remove(&mut self, id: ConnId) -> Option<(Conn, ConnState)> {
        let conn = self.get(id)?;
        let paused = std::mem::take(&mut conn.paused) != 0;
        self.paused -= usize::from(paused);
        let state = self.set_state(id, ConnState::Free)?;
        self.held -= 1;
        self.clients.remove(&id);
        let generation = id.generation;
        let conn = std::mem::replace(self.at_mut(id.slot)?, Conn { generation, ..Conn::default() });
        if !id.has_socket() {
            self.free.push(id.slot & !NO_SOCKET);
        }
        self.websockets -= usize::from(conn.transport.is_websocket());
        Some((conn, state))
    }

    /// A connection is not read from, for this reason; returns whether it was until now.
    pub fn pause(&mut self, id: ConnId, why: Pause) -> bool {
        let Some(conn) = self.get(id) else { return false };
        let was_read = conn.paused == 0;
        conn.paused |= why as u8;
        self.paused += usize::from(was_read);
        was_read
    }

    /// The reason is over; returns whether the connection is read from now and was not.
    pub fn resume(&mut self, id: ConnId, why: Pause) -> bool {
        let Some(conn) = self.get(id).filter(|conn| conn.paused != 0) else { return false };
        conn.paused &= !(why as u8);
        let is_read = conn.paused == 0;
        self.paused -= usize::from(is_read);
        is_read
    }

    /// Connections that are not read from.
    pub fn paused(&self) -> usize {
        self.paused
    }

    /// All slots, free ones included.
    pub fn all(&self) -> impl Iterator<Item = &Conn> {
        self.slots.iter().chain(self.others.iter())
    }

    /// Connections held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Slots with sockets, free ones included.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Slots without sockets, free ones included; they are numbered from [`NO_SOCKET`] on.
    pub fn others(&self) -> u32 {
        self.others.len() as u32
    }

    /// Memory of the table, by its room, and of what all connections without a session have, bytes.
    pub fn memory_bytes(&self) -> usize {
        let phases = [Phase::Opening, Phase::Securing, Phase::Authenticating, Phase::Authenticated];
        let opening: usize = phases.into_iter().map(|phase| self.in_phase(phase)).sum();
        let clients = self.clients.len() * 2 * size_of::<(ConnId, (IpAddr, Option<IpAddr>))>();
        self.slots.memory_bytes() + self.others.memory_bytes() + opening * size_of::<Opening>() + clients
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_read_from_again_when_no_reason_is_left() {
        let (mut conns, id) = (Conns::default(), ConnId { slot: 0, generation: 1 });
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        conns.insert(id, Opening::new(listener, [127, 0, 0, 1].into(), 0, Stage::ExpectHeader), 0);
        assert!(conns.pause(id, Pause::Output));
        assert!(!conns.pause(id, Pause::InFlight), "it was not read from before");
        assert!(!conns.resume(id, Pause::Output), "the other reason holds");
        assert!(!conns.resume(id, Pause::Answer), "that was none");
        assert_eq!(conns.paused(), 1);
        assert!(conns.resume(id, Pause::InFlight));
        assert_eq!(conns.paused(), 0);
        conns.pause(id, Pause::Answer);
        conns.remove(id);
        assert_eq!(conns.paused(), 0, "what has gone is not counted");
    }
}
