//! The state of one connection, which is small while it is idle.

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

/// What a stream expects before a resource is bound. Each state is named for it.
#[derive(Debug)]
pub enum Stage {
    /// The first stream header (RFC 6120 4.2).
    ExpectHeader,
    /// STARTTLS, authentication or registration (RFC 6120 4.3.2).
    ExpectChoice,
    /// The TLS handshake; `<proceed/>` was sent (RFC 6120 5.4.2.3).
    ExpectHandshake,
    /// The mechanism's first message, which was not in `<auth/>`.
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
    /// The answer of the account's home about a token.
    ExpectTokenAnswer(Box<sasl::TokenAttempt>),
    /// The answer of the external back end: whether a password is right, or a user still exists.
    ExpectVerdict(Box<sasl::outside::ExpectVerdict>),
    /// The account of an external user who logs in for the first time.
    ExpectAdmission(Box<sasl::outside::ExpectAdmission>),
    /// The keys of a new account's password; its home then creates the account (XEP-0077 3.1).
    ExpectRegistration(Box<Registering>),
    /// The rights of a token that was presented (XEP-0445 4).
    ExpectInvitation(Box<Showing>),
    /// The new stream header after authentication (RFC 6120 6.4.6).
    ExpectRestart(sasl::Authenticated),
    /// The completion of requests inlined into authentication (XEP-0388 2.6.1).
    ExpectInline(sasl::Authenticated),
    /// A step of the task by which the account of an authenticated user gains keys (XEP-0480 2.3).
    ExpectTask(sasl::Authenticated),
    /// `<bind/>` or `<resume/>` from an authenticated user (RFC 6120 7, XEP-0198 5).
    ExpectBind(sasl::Authenticated),
    /// The stream header of a component (XEP-0114 3).
    ExpectComponent,
    /// A component's `<handshake/>`.
    ExpectSecret(Box<Claimed>),
}

/// The domain that a component claims and has not proven.
#[derive(Debug)]
pub struct Claimed {
    /// The domain.
    pub domain: DomainId,
    /// The stream id, from which the proof is computed.
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

    /// The proven owner of the connection, if any.
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

/// Coarse phases of connections. [`Conns`] counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The stream is being opened, or its client chooses a feature.
    Opening,
    /// The TLS handshake is in progress.
    Securing,
    /// Authentication or registration is in progress.
    Authenticating,
    /// Authenticated, without a session yet.
    Authenticated,
    /// Has a session.
    Bound,
    /// The stream has ended.
    Closing,
    /// Moves to another shard.
    Departing,
}

/// Number of phases.
const PHASES: usize = Phase::Departing as usize + 1;

/// A registration in progress.
pub struct Registering {
    /// The bare JID of the account, normalised.
    pub account: Box<str>,
    /// The password as it was received, until keys are derived from it.
    pub password: Box<str>,
    /// `id` of the IQ.
    pub id: Box<str>,
}

impl std::fmt::Debug for Registering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registering({})", self.account)
    }
}

/// A token that was presented.
#[derive(Debug)]
pub struct Showing {
    /// The actor named in the token.
    pub actor: Box<str>,
    /// The actor's invitation.
    pub invitation: InvitationId,
    /// How often it was requested again.
    pub asked: u8,
    /// `id` of the IQ.
    pub id: Box<str>,
}

/// A login in progress: its name is known and its account is charged.
#[derive(Debug)]
pub struct Attempt {
    /// The account's bare JID, normalised.
    pub account: Box<str>,
    /// The peer that logs in.
    pub peer: Peer,
    /// The mechanism.
    pub mechanism: sasl::Mechanism,
    /// When it began to wait for the server, milliseconds of the monotonic clock.
    pub asked_ms: u64,
    /// When it began, microseconds of the wall clock.
    pub since_us: u64,
}

/// A connection without a session. HTTP requests arrive on such a connection and wait on it, so
/// rare state is in boxes that are allocated on demand.
#[derive(Debug)]
pub struct Opening {
    /// Properties of its listener.
    pub listener: ListenerKind,
    /// The peer's address.
    pub peer: IpAddr,
    /// Facts of the TLS handshake, from its end until authentication.
    pub tls: Option<Box<TlsFacts>>,
    /// The stream is encrypted.
    pub secured: bool,
    /// What the stream header states about the client, if it is of use.
    said: Option<Box<Said>>,
    /// The domain of the stream, from its header.
    pub domain: DomainId,
    /// Second (monotonic) when it was accepted.
    pub accepted_s: u32,
    /// The invitation that permits it to register.
    pub invited: Option<Box<Invited>>,
    /// The login in progress.
    pub attempt: Option<Box<Attempt>>,
    /// Requests inlined into an XEP-0388 authentication, from `<authenticate/>` until they are
    /// done.
    pub inline: Option<Box<Inline>>,
    /// Failed authentications so far; after authentication, refused resources.
    pub attempts: u8,
    /// Requests answered so far, not counting `attempts`. For HTTP, counted until it becomes a
    /// WebSocket.
    pub requests: u8,
    /// Whether input is not processed until an outstanding answer has arrived.
    pub blocked: bool,
    /// Whether the last input is processed again when the connection is no longer blocked.
    pub again: bool,
    /// Whether it was told about an account that was created for it. All further output then waits
    /// until that is durable.
    pub promised: bool,
    /// Whether it has been at the home of its channel, or may not go there. It does not move for
    /// another channel.
    pub settled: bool,
    /// The last HTTP request that was relayed to a BOSH session, if any.
    asked: Option<Box<Asked>>,
    /// What is expected next. Changed by [`Conns::set_stage`], which maintains the counts.
    stage: Stage,
}

const _: () = assert!(size_of::<Opening>() <= 104, "a request that waits costs this much beside its listener");

/// What the stream header states about the client.
#[derive(Debug, Default)]
struct Said {
    /// Language of the stream's stanzas, if it differs from the server's (RFC 6120 4.7.4).
    lang: Option<Box<str>>,
    /// The bare JID that the client has claimed, until it is authenticated.
    from: Option<Box<str>>,
}

/// An HTTP request that a BOSH session answers (XEP-0124), possibly at another shard. Only this
/// much of it is retained.
#[derive(Debug, Default)]
pub struct Asked {
    /// Its number among the requests of the connection.
    pub number: u32,
    /// Whether it waits for its answer.
    pub waits: bool,
    /// Whether the connection stays open after the answer.
    pub keeps_alive: bool,
    /// Second (monotonic) at which it began to wait.
    pub since_s: u32,
    /// The session that it is for.
    pub sid: Option<Sid>,
    /// The page that sent it (`Origin`), where that matters.
    pub origin: Option<Box<str>>,
}

impl Opening {
    /// A connection by this listener from this address, which expects `stage`.
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

    /// Whether none of its output could be taken as a promise: no client has logged in, and no
    /// account was created.
    pub fn is_promised_nothing(&self) -> bool {
        !self.promised && self.stage.owner().is_none()
    }

    /// Records the language of the stream's stanzas, if it differs from the server's, and the
    /// client's claimed address, from the stream header.
    pub fn introduce(&mut self, lang: Option<Box<str>>, from: Option<Box<str>>) {
        self.said = (lang.is_some() || from.is_some()).then(|| Box::new(Said { lang, from }));
    }

    /// The bare JID that the client has claimed, until it is authenticated.
    pub fn from(&self) -> Option<&str> {
        self.said.as_ref()?.from.as_deref()
    }

    /// Forgets the claimed address, because the client is authenticated.
    pub fn forget_from(&mut self) {
        let lang = self.take_lang();
        self.introduce(lang, None);
    }

    /// Takes the language of its stanzas, if it differs from the server's.
    pub fn take_lang(&mut self) -> Option<Box<str>> {
        self.said.as_mut()?.lang.take()
    }

    /// The last HTTP request that was relayed to a BOSH session.
    pub fn asked(&self) -> Option<&Asked> {
        self.asked.as_deref()
    }

    /// The same request, mutable.
    pub fn asked_mut(&mut self) -> &mut Asked {
        self.asked.get_or_insert_default()
    }

    /// The same request, if it waits for its answer.
    pub fn awaited(&self) -> Option<&Asked> {
        self.asked().filter(|asked| asked.waits)
    }

    /// The form of the authentication in progress.
    pub fn form(&self) -> sasl::Form {
        if self.inline.is_some() { sasl::Form::Sasl2 } else { sasl::Form::Sasl1 }
    }

    /// What is expected next.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }
}

/// State of a connection.
#[derive(Debug, Default)]
pub enum ConnState {
    /// The slot is free.
    #[default]
    Free,
    /// Has no session yet.
    Opening(Box<Opening>),
    /// Has a session.
    Bound(SessionId),
    /// Belongs to a component of this domain (XEP-0114).
    Component(DomainId),
    /// Ended by either side: nothing more is read, and `Closed` is awaited.
    Closing {
        /// The user whose messages the send in flight carries, or [`NONE`]: these messages are not
        /// lost yet.
        user: u32,
    },
    /// Moves to another shard.
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
    /// An outstanding answer decides how the connection continues.
    Answer = 1,
    /// Too many of its stanzas are not safe, or not durable.
    InFlight = 2,
    /// It does not read its own answers.
    Output = 4,
    /// It has ended, or is moving.
    Ending = 8,
    /// It has caused more than its share of work.
    Work = 16,
    /// Its account exceeds its rate.
    Pace = 32,
}

/// Reasons for which input that was already read is not processed either.
const UNREAD: u8 = Pause::Output as u8 | Pause::Work as u8 | Pause::Pace as u8;

/// An item that has arrived in part.
#[derive(Debug, Default)]
pub struct Partial {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The state of its parser.
    pub scanner: Scanner,
    /// The part of a request or message that has already been taken out of the bytes.
    pub begun: Option<Begun>,
}

/// One slot of a shard's connections.
#[derive(Debug, Default)]
pub struct Conn {
    /// Generation of the connection in the slot.
    pub generation: u32,
    /// Second (monotonic) of the last bytes received.
    pub last_s: u32,
    /// Its state. Changed by [`Conns::set_state`], which maintains the counts.
    state: ConnState,
    /// Declarations of the stream header.
    pub scope: StreamScope,
    /// An item that has come in part.
    pub partial: Option<Box<Partial>>,
    /// Output that is pending or in flight.
    pub outbound: Option<Box<Outbound>>,
    /// What the stream expects next.
    pub expect: StreamExpect,
    /// Whether a header was sent, so that errors and the end are inside the stream (RFC 6120
    /// 4.9.1.1).
    pub header_sent: bool,
    /// Whether it is in the turn's list of connections with output.
    pub dirty: bool,
    /// Why it is not read from, one bit per [`Pause`]. Changed by [`Conns::pause`] and
    /// [`Conns::resume`], which maintain the counts.
    paused: u8,
    /// Whether its end is recorded.
    pub ending: bool,
    /// Whether an idle peer was pinged.
    pub pinged: bool,
    /// What the driver has reported about an end that the shard did not request.
    pub lost: Option<Lost>,
    /// How its bytes are read and written. Changed by [`Conns::set_transport`], which maintains the
    /// counts.
    transport: Transport,
}

impl Conn {
    /// How its bytes are read and written.
    #[inline]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Its state.
    pub fn state(&self) -> &ConnState {
        &self.state
    }

    /// Whether this reason keeps it from being read.
    pub fn is_paused(&self, why: Pause) -> bool {
        self.paused & why as u8 != 0
    }

    /// Whether its input is not processed, so that silence cannot be detected.
    pub fn is_unread(&self) -> bool {
        self.paused & UNREAD != 0
    }

    /// The state of a connection without a session.
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
    /// Free slots among `others`.
    free: Vec<u32>,
    held: usize,
    paused: usize,
    websockets: usize,
    /// Connections in each [`Phase`], and whether the counts have changed since they were last
    /// read.
    phases: [usize; PHASES],
    changed: bool,
    /// Connections without a session, by the network of their peer.
    opening: BTreeMap<Network, u32>,
    /// Clients of connections where the host does not know them.
    clients: BTreeMap<ConnId, (IpAddr, Option<IpAddr>)>,
}

/// An IPv4 address or an IPv6 /64: what one customer of a provider has.
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

    /// Prefetches connections that are needed next; see [`Slots::fetch`].
    pub fn fetch(&self, ids: &[ConnId]) {
        self.slots.fetch(ids.iter().map(|id| id.slot as usize), |conn| conn.generation);
    }

    /// Returns a connection if its generation is current.
    pub fn get(&mut self, id: ConnId) -> Option<&mut Conn> {
        let conn = self.at_mut(id.slot)?;
        (conn.generation == id.generation && !matches!(conn.state, ConnState::Free)).then_some(conn)
    }

    /// Returns the connection whose input is being handled. It always exists, because endings are
    /// carried out later.
    pub fn heard(&mut self, id: ConnId) -> &mut Conn {
        self.get(id).expect("a connection that is heard is there")
    }

    /// Second (monotonic) of the last bytes from a connection; 0 if it does not exist.
    pub fn last_s(&self, id: ConnId) -> u32 {
        self.at(id.slot).filter(|c| c.generation == id.generation).map_or(0, |c| c.last_s)
    }

    /// Output pending for a connection or in flight, bytes; 0 if it does not exist.
    pub fn outbound_bytes(&self, id: ConnId) -> usize {
        let conn = self.at(id.slot).filter(|c| c.generation == id.generation);
        conn.and_then(|c| c.outbound.as_ref()).map_or(0, |o| o.bytes())
    }

    /// Returns the content of a slot.
    pub fn look(&self, slot: u32) -> Option<&Conn> {
        self.at(slot)
    }

    /// Returns the content of a slot, mutable.
    pub fn slot(&mut self, slot: u32) -> Option<&mut Conn> {
        self.at_mut(slot)
    }

    /// The id of the connection in a slot in use.
    pub fn id(&self, slot: u32) -> ConnId {
        ConnId { slot, generation: self.at(slot).map_or(0, |conn| conn.generation) }
    }

    /// Returns a free slot without a socket, for [`Conns::insert`].
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

    /// Changes the state of a connection and returns the previous one; `None` if it does not exist.
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

    /// Changes how a connection's bytes are read and written.
    pub fn set_transport(&mut self, id: ConnId, transport: Transport) {
        let Some(conn) = self.get(id) else { return };
        let was = std::mem::replace(&mut conn.transport, transport);
        self.websockets = self.websockets + usize::from(transport.is_websocket()) - usize::from(was.is_websocket());
        self.changed = true;
    }

    /// Number of WebSocket connections.
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

    /// Number of connections without a session from the network of an address.
    pub fn opening_from(&self, peer: IpAddr) -> u32 {
        self.opening.get(&Network::of(peer)).copied().unwrap_or(0)
    }

    /// Networks of connections without a session (IPv6: /64), and the number from each.
    pub fn openings(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        self.opening.iter().map(|(network, count)| (network.address(), *count))
    }

    /// Changes the peer of a connection without a session to the address that a proxy reports.
    pub fn set_peer(&mut self, id: ConnId, peer: IpAddr) {
        let Some(opening) = self.get(id).and_then(Conn::opening) else { return };
        let was = std::mem::replace(&mut opening.peer, peer);
        *self.opening.entry(Network::of(peer)).or_default() += 1;
        self.left_opening(was);
    }

    /// Sets the client of a connection where the host cannot know it: the proxy with the other
    /// address names it, or there is no socket.
    pub fn name_client(&mut self, id: ConnId, client: IpAddr, proxy: Option<IpAddr>) {
        if self.get(id).is_some() {
            self.clients.insert(id, (client.to_canonical(), proxy));
        }
    }

    /// The client of a connection is again the peer of its socket.
    pub fn unname_client(&mut self, id: ConnId) {
        self.clients.remove(&id);
    }

    /// The client of a connection, if the host does not know it.
    pub fn client(&self, id: ConnId) -> Option<IpAddr> {
        self.clients.get(&id).map(|(client, _)| *client)
    }

    /// The proxy that named the client of a connection.
    pub fn proxy(&self, id: ConnId) -> Option<IpAddr> {
        self.clients.get(&id)?.1
    }

    /// Changes what is expected of a connection without a session. Returns the previous stage.
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

    /// Whether connections have been added, removed or changed their phase since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Number of connections in a phase. The sum over all phases is the number held.
    pub fn in_phase(&self, phase: Phase) -> usize {
        self.phases[phase as usize]
    }

    /// Frees the slot. Returns its content and state.
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

    /// Stops reading from a connection for this reason. Returns whether it was read from before.
    pub fn pause(&mut self, id: ConnId, why: Pause) -> bool {
        let Some(conn) = self.get(id) else { return false };
        let was_read = conn.paused == 0;
        conn.paused |= why as u8;
        self.paused += usize::from(was_read);
        was_read
    }

    /// Removes this reason. Returns whether reading resumes.
    pub fn resume(&mut self, id: ConnId, why: Pause) -> bool {
        let Some(conn) = self.get(id).filter(|conn| conn.paused != 0) else { return false };
        conn.paused &= !(why as u8);
        let is_read = conn.paused == 0;
        self.paused -= usize::from(is_read);
        is_read
    }

    /// Number of connections that are not read from.
    pub fn paused(&self) -> usize {
        self.paused
    }

    /// All slots, including free ones.
    pub fn all(&self) -> impl Iterator<Item = &Conn> {
        self.slots.iter().chain(self.others.iter())
    }

    /// Number of connections held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Number of slots with sockets, including free ones.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Number of slots without sockets, including free ones. They are numbered from [`NO_SOCKET`].
    pub fn others(&self) -> u32 {
        self.others.len() as u32
    }

    /// Memory of the table, by its capacity, and of all connections without a session, bytes.
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
