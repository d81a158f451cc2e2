//! Group chat (XEP-0045): the rooms of this home, as actors with rows and an archive of their own.
//!
//! A room is in memory while it has occupants, and for a short time after. It handles one stanza at
//! a time, in the order of arrival: all occupants see that order, and a change of an affiliation
//! takes effect at one point of it. What a stanza needs from the store is read first; the others
//! wait.
//!
//! - `room`: the state of a room, and how changes of an occupant are announced
//! - `occupants`: its indices by nick and by session; `rank`: who may change whom
//! - `visit`: entering, nicks, leaving; `coalesce` and `unsaid`: what of it large rooms send later
//! - `talk`: messages and the subject; `register`: registration with a room
//! - `hats`, `avatar`, `mentions`, `activity`: an extension each
//! - `invite`: invitations and requests for voice; `admin`: roles and affiliations; `owner` and
//!   `config`: the configuration; `requests`: service discovery, relayed requests, moderation
//! - `count`: what absent members have missed; `alerts` and `wake`: which of them are woken
//! - `load`: what is read; `service`: requests to the domain, and the directory of its rooms;
//!   `search`: search of the directory
//! - `write`: stanzas, and how they reach many sessions; `form`: data forms
//! - `operate` and [`fields`]: what operators do; `guard`: joins of strangers; [`exchange`]: rooms
//!   in files
//!
//! A room knows the full JIDs of its occupants, never their sessions or connections. Stanzas for
//! many occupants cross to each shard once ([`RoomLetter::Cast`](crate::letters::RoomLetter)). A
//! shard that has no such session says so, and the room removes the occupant.

mod activity;
mod admin;
mod alerts;
mod avatar;
mod coalesce;
mod config;
mod count;
pub mod exchange;
pub mod fields;
mod form;
mod guard;
mod hats;
mod invite;
mod invited;
mod load;
mod mentions;
mod occupants;
mod operate;
mod owner;
mod rank;
mod register;
mod requests;
mod room;
mod search;
mod service;
mod talk;
mod unsaid;
mod visit;
mod wake;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::actors::Actors;
use crate::follow::names;
use crate::id::ShardId;
use crate::kernel::Kernel;
use crate::letters::{Kind, Letter, Origin, UserLetter};
use crate::limits::{
    ROOM_CHARGED_SHARE, ROOM_COALESCED_MS, ROOM_CREATION_BYTES, ROOM_IDLE_S, ROOM_LOCKED_S, ROOM_WAITING_MAX,
};
use crate::rooms::owner::Fate;
use crate::rooms::requests::{Answer, Read, Request};
use crate::rooms::room::{Room, Standings};
use crate::rooms::visit::NS_MUC;
use crate::router::users::{Incoming, Parked};
use crate::settings::RoomCreation;
use crate::store::room::{Affiliation, Config, Position, Record, Standing, Subject};
use crate::streams::Streams;
use crate::wire::Element;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{bare_of, resource_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;
use crate::wire::written::{id_of_stanza, insert_at_end, read_back, write_error, write_result};

use rand_core::RngCore;

/// Names what takes its turn when the account of a user was removed. No client or component can
/// send it: their stanzas have other names.
const FORGET: &str = "forget";

/// The rooms of this home that are in memory.
#[derive(Debug)]
pub(crate) struct Rooms {
    rooms: HashMap<Box<str>, Hosted>,
    /// Rooms that may go, once each, with the monotonic second at which that was last considered:
    /// at most as many as there are in memory.
    idle: VecDeque<(Box<str>, u32)>,
    /// Rooms whose occupants are told of others later, once each, with the monotonic millisecond of
    /// that: at most as many as there are in memory.
    due: VecDeque<(Box<str>, u64)>,
    /// Requests for archives, which the extension of archives answers.
    pub(crate) archive: Vec<Parked>,
    occupants: usize,
    longest: operate::Longest,
}

/// A room, and what waits for it.
#[derive(Debug, Default)]
struct Hosted {
    state: State,
    /// Stanzas that wait for rows, in their order; bounded by [`ROOM_WAITING_MAX`].
    waiting: VecDeque<Parked>,
    /// Requests of sessions that are behind, and wait for the room itself to be read: full JID,
    /// the number after which they read, and that of the request; bounded by [`ROOM_WAITING_MAX`].
    behind: Vec<(Box<str>, u64, u32)>,
    /// Whether rows are being read.
    reads: bool,
    /// The users of the list that the first waiting stanza asks for.
    list: Option<Vec<(Box<str>, Standing)>>,
    /// The vCard, if it was read, while stanzas wait.
    card: Option<Card>,
    /// Whether the message that the first waiting stanza names is in the archive.
    exists: Option<bool>,
}

/// The vCard of a room, if it has one, for several requests. It is read again for further ones: the
/// answers of a turn are in memory at once.
#[derive(Debug)]
struct Card {
    xml: Option<Arc<[u8]>>,
    /// Requests that may still have it.
    left: u32,
}

impl Card {
    fn share(&mut self) -> Option<Arc<[u8]>> {
        self.left = self.left.saturating_sub(1);
        self.xml.clone()
    }
}

#[derive(Debug, Default)]
enum State {
    /// Not read.
    #[default]
    Unknown,
    /// There is no such room.
    Missing,
    Here(Box<Room>),
}

impl Rooms {
    pub(crate) fn new() -> Rooms {
        Rooms {
            rooms: HashMap::new(),
            idle: VecDeque::new(),
            due: VecDeque::new(),
            archive: Vec::new(),
            occupants: 0,
            longest: Default::default(),
        }
    }

    /// Handles a stanza to an address of a service of rooms.
    pub(crate) fn incoming(&mut self, cx: &mut Streams, actors: &mut Actors, stanza: Incoming<'_>) {
        if let Some(origin) = stanza.origin {
            cx.kernel.number_after(origin.entry & !crate::letters::AGAIN);
        }
        let bare = bare_of(stanza.to);
        if !bare.contains('@') {
            return self.for_service(cx, actors, stanza);
        }
        let hosted = self.rooms.entry_ref(bare).or_default();
        if hosted.reads || !hosted.waiting.is_empty() {
            self.longest.note(bare, hosted.waiting.len() + 1);
            if hosted.waiting.len() >= ROOM_WAITING_MAX {
                return refuse(cx, actors, stanza, Limit::RoomWaiting.into());
            }
            return hosted.waiting.push_back(stanza.into());
        }
        if !self.is_ready(cx, bare, stanza) {
            return self.rooms.entry_ref(bare).or_default().waiting.push_back(stanza.into());
        }
        self.handle(cx, actors, bare, stanza);
        self.settle(cx, bare);
    }

    /// Handles what waits for a room, after rows were read.
    fn go_on(&mut self, cx: &mut Streams, actors: &mut Actors, bare: &str) {
        let behind = self.rooms.get_mut(bare).filter(|hosted| !hosted.reads).map(|hosted| &mut hosted.behind);
        for (session, after, asked) in behind.map(std::mem::take).unwrap_or_default() {
            self.catch_up(cx, bare, &session, after, asked);
        }
        loop {
            let Some(hosted) = self.rooms.get_mut(bare) else { return };
            if hosted.reads {
                return;
            }
            let Some(parked) = hosted.waiting.pop_front() else { break };
            let stanza = Incoming::from(&parked);
            if !self.is_ready(cx, bare, stanza) {
                self.rooms.entry_ref(bare).or_default().waiting.push_front(parked);
                return;
            }
            self.handle(cx, actors, bare, stanza);
        }
        self.settle(cx, bare);
    }

    /// A room has handled what there was: decides whether it stays in memory.
    fn settle(&mut self, cx: &mut Streams, bare: &str) {
        let now_s = cx.kernel.now.mono_s();
        let Some(hosted) = self.rooms.get_mut(bare) else { return };
        hosted.card = None;
        match &mut hosted.state {
            State::Unknown | State::Missing if !hosted.reads && hosted.waiting.is_empty() => {
                self.rooms.remove(bare);
            }
            State::Unknown | State::Missing => {}
            State::Here(room) => {
                room.standings.forget();
                if !room.record.locked {
                    room.since_s = now_s;
                }
                if (room.occupants.is_empty() || room.record.locked) && !room.is_queued {
                    room.is_queued = true;
                    self.idle.push_back((bare.into(), now_s));
                }
            }
        }
    }

    /// Handles a stanza for which everything is in memory.
    fn handle(&mut self, cx: &mut Streams, actors: &mut Actors, bare: &str, stanza: Incoming<'_>) {
        let (before, mut answered) = (self.seats(bare), 0);
        // What messages and presence write is small beside what is sent.
        let done = (stanza.kind == Kind::Request).then(|| cx.done_so_far());
        let outcome = match operate::is_order(stanza) {
            true => {
                self.carry_out(cx, bare, stanza);
                None
            }
            false => read_back(stanza.xml, |element| self.act(&mut cx.kernel, bare, stanza, element)),
        };
        let done = done.map_or(0, |done| cx.done_so_far().saturating_sub(done) as usize);
        match outcome {
            Some(Ok(payload)) => {
                if let Some(payload) = &payload {
                    let payload: &[u8] = match payload {
                        Payload::Own(payload) => payload,
                        Payload::Shared(payload) => payload,
                    };
                    answered = payload.len();
                    let home = cx.kernel.home(bare_of(stanza.from));
                    let id = id_of_stanza(stanza.xml);
                    cx.kernel.post(home, Kind::Response, None, stanza.to, stanza.from, |out| {
                        write_result(out, id.as_deref(), Some(stanza.to), stanza.from, payload);
                    });
                }
                cx.kernel.confirm(stanza.origin);
            }
            Some(Err(Refused::Archive)) => self.archive.push(stanza.into()),
            Some(Err(Refused::With(refusal))) => refuse(cx, actors, stanza, refusal),
            None => cx.kernel.confirm(stanza.origin),
        }
        self.occupants = (self.occupants + self.seats(bare)).saturating_sub(before);
        if let Some(State::Here(room)) = self.rooms.get_mut(bare).map(|hosted| &mut hosted.state) {
            let now_ms = cx.kernel.now.mono_ms;
            if !room.unsaid.is_empty() && room.unsaid.may_tell(now_ms) {
                room.tell_unsaid(&mut cx.kernel);
            } else if !room.unsaid.is_empty() && !room.unsaid.is_due {
                room.unsaid.is_due = true;
                self.due.push_back((bare.into(), now_ms + ROOM_COALESCED_MS));
            }
            let (sent, owed) = (room.take_spent(), std::mem::take(&mut room.owed));
            room.sent_bytes += (sent + answered) as u64;
            let work = (sent + owed) / ROOM_CHARGED_SHARE + answered + done;
            room.charged_bytes += charge(&mut cx.kernel, stanza, work);
        }
    }

    fn seats(&self, bare: &str) -> usize {
        match self.rooms.get(bare).map(|hosted| &hosted.state) {
            Some(State::Here(room)) => room.occupants.seats(),
            _ => 0,
        }
    }

    /// Carries out a stanza. Returns the answer with the result, if the sender gets one.
    fn act(
        &mut self,
        kernel: &mut Kernel,
        bare: &str,
        stanza: Incoming<'_>,
        element: &Element<'_>,
    ) -> Result<Option<Payload>, Refused> {
        let Some(hosted) = self.rooms.get_mut(bare) else { return Ok(None) };
        let (list, exists) = (hosted.list.take(), hosted.exists.take().unwrap_or(false));
        let (room, created) = match &mut hosted.state {
            State::Here(room) => (room, false),
            State::Unknown => return Ok(None),
            State::Missing => {
                let Some(room) = create(kernel, stanza, element)? else { return Ok(None) };
                hosted.state = State::Here(Box::new(room));
                let State::Here(room) = &mut hosted.state else { return Ok(None) };
                (room, true)
            }
        };
        let fate = match stanza.kind {
            Kind::Message { class, .. } => {
                room.message(kernel, stanza, class, element)?;
                return Ok(None);
            }
            Kind::Directed { .. } => {
                let entered = room.presence(kernel, stanza, element, created);
                if created {
                    match &entered {
                        Ok(()) => kernel.counters.rooms_created.one(),
                        // The room exists only if its creator is in it.
                        Err(_) => {
                            room.delete(kernel);
                            hosted.state = State::Missing;
                        }
                    }
                }
                entered?;
                match &hosted.state {
                    State::Here(room) if room.ends() => Fate::Ends,
                    _ => Fate::Exists,
                }
            }
            Kind::Response => {
                match (element.name(), resource_of(stanza.to)) {
                    (wake::ALERT, None) => room.read_alert(kernel, stanza.from, element),
                    (FORGET, None) => {
                        room.drop_request(kernel, stanza.from);
                        room.drop_hats(kernel, stanza.from);
                        room.put_standing(kernel, stanza.from, Standing::default());
                    }
                    (_, Some(_)) => room.relay_answer(kernel, stanza, element),
                    (_, None) => {}
                }
                return Ok(None);
            }
            Kind::Request => {
                let answer = match resource_of(stanza.to) {
                    Some(_) => room.relay(kernel, stanza, element)?,
                    None => {
                        let request = Request::of(element)?;
                        let list = match (list, request.list()) {
                            (Some(list), _) => list,
                            (None, Some(affiliation)) => room.standings.list(affiliation),
                            (None, None) => Vec::new(),
                        };
                        let card = match &request {
                            Request::Card => hosted.card.as_mut().and_then(Card::share),
                            Request::SetCard(_) => {
                                hosted.card = None;
                                None
                            }
                            _ => None,
                        };
                        room.answer(kernel, stanza.from, request, Read { list, card, exists })?
                    }
                };
                match answer {
                    Answer::Result(payload) => return Ok(Some(Payload::Own(payload))),
                    Answer::Shared(payload) => return Ok(Some(Payload::Shared(payload))),
                    Answer::Relayed => return Ok(None),
                    Answer::Archive => return Err(Refused::Archive),
                    Answer::Done(fate) => {
                        let ends = fate == Fate::Ends || room.ends();
                        self.end_if(kernel, bare, ends);
                        return Ok(Some(Payload::Own(Vec::new())));
                    }
                }
            }
        };
        self.end_if(kernel, bare, fate == Fate::Ends);
        Ok(None)
    }

    /// Removes a room that has ended.
    fn end_if(&mut self, kernel: &mut Kernel, bare: &str, ends: bool) {
        let Some(hosted) = self.rooms.get_mut(bare).filter(|_| ends) else { return };
        hosted.card = None;
        if let State::Here(room) = std::mem::replace(&mut hosted.state, State::Missing) {
            room.delete(kernel);
            kernel.counters.rooms_ended.one();
        }
    }

    /// The link to this shard was renewed: rooms may not have learnt that sessions there have ended.
    pub(crate) fn link_renewed(&mut self, cx: &mut Streams, peer: ShardId) {
        for hosted in self.rooms.values() {
            if let State::Here(room) = &hosted.state {
                room.ask_who_is_there(&mut cx.kernel, |bare, kernel| kernel.home(bare) == peer);
            }
        }
    }

    /// Sessions that received something from a room do not exist: their visits are over.
    pub(crate) fn gone(&mut self, cx: &mut Streams, actors: &mut Actors, room: &str, sessions: &str) {
        for full in names(sessions) {
            let xml = b"<presence type='unavailable'></presence>";
            let kind = Kind::Directed { unavailable: true };
            self.incoming(cx, actors, Incoming { kind, origin: None, from: full, to: room, xml });
        }
    }

    /// The account of a user was removed: who registers the name next has no standing here. It
    /// takes its turn like a stanza of that account, with a name that no stanza has.
    pub(crate) fn forget(&mut self, cx: &mut Streams, actors: &mut Actors, room: &str, user: &str) {
        let mut xml = Vec::new();
        Writer::new(&mut xml).open(FORGET).close();
        self.incoming(cx, actors, Incoming { kind: Kind::Response, origin: None, from: user, to: room, xml: &xml });
    }

    /// Sends what occupants have not been told of others for long enough.
    fn tell_unsaid(&mut self, kernel: &mut Kernel) {
        let now_ms = kernel.now.mono_ms;
        while self.due.front().is_some_and(|(_, due_ms)| now_ms >= *due_ms) {
            let Some((bare, _)) = self.due.pop_front() else { return };
            if let Some(State::Here(room)) = self.rooms.get_mut(&bare).map(|hosted| &mut hosted.state) {
                room.unsaid.is_due = false;
                room.tell_unsaid(kernel);
            }
        }
    }

    /// Forgets rooms that are empty, and ends those that nobody has configured.
    pub(crate) fn sweep(&mut self, cx: &mut Streams) {
        self.tell_unsaid(&mut cx.kernel);
        let now_s = cx.kernel.now.mono_s();
        while let Some((_, since_s)) = self.idle.front()
            && now_s >= since_s + ROOM_IDLE_S
        {
            let Some((bare, _)) = self.idle.pop_front() else { return };
            let Some(hosted) = self.rooms.get_mut(&bare) else { continue };
            let waits = hosted.reads || !hosted.waiting.is_empty();
            let State::Here(room) = &mut hosted.state else { continue };
            room.is_queued = false;
            let (locked, lasts_s) = match room.record.locked {
                true => (true, ROOM_LOCKED_S),
                false if room.occupants.is_empty() => (false, ROOM_IDLE_S),
                false => continue,
            };
            // A closed room stays closed.
            if waits || room.guard.closed_s(now_s).is_some() || now_s < room.since_s + lasts_s {
                room.is_queued = true;
                self.idle.push_back((bare, now_s));
                continue;
            }
            if locked {
                let seats = room.occupants.seats();
                room.empty(&mut cx.kernel, b"");
                self.occupants = self.occupants.saturating_sub(seats);
                self.end_if(&mut cx.kernel, &bare, true);
            }
            if let Some(Hosted { state: State::Here(room), .. }) = self.rooms.remove(&bare)
                && room.uncounted > 0
            {
                room.put(&mut cx.kernel);
            }
        }
        cx.kernel.counters.rooms.set(self.rooms.len() as u64);
        cx.kernel.counters.room_occupants.set(self.occupants as u64);
        self.publish_longest(cx);
    }
}

/// The payload of a result.
enum Payload {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

/// Why a stanza is not carried out by its room.
enum Refused {
    /// The extension of archives answers.
    Archive,
    With(Refusal),
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused::With(refusal)
    }
}

impl Room {
    /// Whether the room ends without occupants (XEP-0045 4.2, temporary rooms).
    fn ends(&self) -> bool {
        self.occupants.is_empty() && (self.record.locked || !self.record.config.persistent)
    }
}

/// Creates the room that a session wants to enter (XEP-0045 10.1). `None` for a stanza that needs no
/// answer.
fn create(kernel: &mut Kernel, stanza: Incoming<'_>, element: &Element<'_>) -> Result<Option<Room>, Refused> {
    match stanza.kind {
        Kind::Directed { .. } if element.kind().is_some() => return Ok(None),
        Kind::Directed { .. } if element.child("x", NS_MUC).is_some() && resource_of(stanza.to).is_some() => {}
        Kind::Response => return Ok(None),
        Kind::Directed { .. } => return Err(Refusal::from(StanzaCondition::NotAcceptable).into()),
        Kind::Message { .. } | Kind::Request => return Err(Refusal::from(StanzaCondition::ItemNotFound).into()),
    }
    let user = bare_of(stanza.from);
    let may = match kernel.settings.room_creation {
        RoomCreation::Everybody => true,
        RoomCreation::Users => kernel.settings.domains.is_of_user(user),
        RoomCreation::Admins => kernel.settings.admins.iter().any(|admin| **admin == *user),
    };
    if !may {
        return Err(Refusal::from(Limit::RoomCreation).into());
    }
    let mut secret = [0; 16];
    kernel.entropy.fill_bytes(&mut secret);
    let record = Record {
        config: Config::default(),
        subject: Subject::default(),
        secret,
        owners: 0,
        locked: true,
        created_ms: kernel.now.wall_us / 1_000,
        said: Position::default(),
    };
    let now_s = kernel.now.mono_s();
    let mut room = Room::new(bare_of(stanza.to), record, Standings::new(Some(Default::default())), now_s);
    let owner = Standing { affiliation: Affiliation::Owner, ..Standing::default() };
    room.put_standing(kernel, user, owner);
    room.spend(ROOM_CREATION_BYTES);
    Ok(Some(room))
}

/// Charges the sender of a stanza for the work that it has caused beyond its own bytes: a room
/// multiplies messages, presence and changes by the number of its occupants, and a short request can
/// have a long answer. Returns the charge, in bytes.
fn charge(kernel: &mut Kernel, stanza: Incoming<'_>, work: usize) -> u64 {
    if work <= stanza.xml.len() || stanza.origin.is_none() {
        return 0;
    }
    charge_bytes(kernel, stanza.origin, stanza.from, work);
    work as u64
}

/// Charges a sender for work, as so many bytes.
fn charge_bytes(kernel: &mut Kernel, origin: Option<Origin>, from: &str, bytes: usize) {
    let Some(origin) = origin else { return };
    let letters = kernel.letters_to(origin.shard);
    let (user, session, work) = (letters.name(bare_of(from)), origin.session, bytes as u64);
    letters.push(Letter::User(UserLetter::Charge { session, user, work }));
}

/// Answers a stanza with an error, if its kind permits that.
fn refuse(cx: &mut Streams, actors: &mut Actors, stanza: Incoming<'_>, refusal: Refusal) {
    if operate::is_order(stanza) {
        return operate::refused(cx, stanza, refusal);
    }
    let Kind::Directed { unavailable } = stanza.kind else { return actors.turn_away(cx, stanza, refusal) };
    if !unavailable {
        // XEP-0045 7.2: clients know the error by this element as the answer to their request.
        let (mut error, id) = (Vec::with_capacity(256), id_of_stanza(stanza.xml));
        write_error(&mut error, "presence", id.as_deref(), Some(stanza.to), Some(stanza.from), refusal);
        let home = cx.kernel.home(bare_of(stanza.from));
        cx.kernel.post(home, Kind::Directed { unavailable: false }, None, stanza.to, stanza.from, |out| {
            insert_at_end(out, &error, |out| {
                Writer::new(out).empty("x", NS_MUC);
            });
        });
    }
    cx.kernel.confirm(stanza.origin);
}
