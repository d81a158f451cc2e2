//! Rooms (XEP-0045): sessions enter them in the ramp, one occupant of each speaks in the hold, and
//! some leave and enter again.
//!
//! Seats are numbered over all workers. Seat `n` belongs to room `n / occupants` and to session
//! `n mod sessions`, so a session has no room twice. The first seat of a room is its speaker's,
//! which also makes the room.

use std::collections::VecDeque;
use std::time::Duration;

use memchr::memmem;
use throng_engine::wire::{Element, ns};

use super::{State, World, until};
use crate::client::refusal;
use crate::delivery::Stamp;
use crate::phases::Phase;
use crate::random::{Arrivals, Random};
use crate::scenario::Scenario;
use crate::wheel::{TICK_MS, Tick};

const MUC_USER: &str = "http://jabber.org/protocol/muc#user";

/// The bit of a stamp's pair that says that it is the number of a room.
pub(super) const ROOM: u32 = 1 << 31;

/// A refused entry is repeated after so long: a room is locked until its speaker has made it.
const AGAIN_TICKS: Tick = 1_000 / TICK_MS;

/// A speaker that has so much unsent is not given more.
const UNSENT_MAX: usize = 1 << 20;

/// An occupant of a room, or one to be.
#[derive(Clone, Copy, Default, Debug)]
struct Seat {
    /// The number of the next message; none until the first one since the last entry.
    next: Option<u32>,
    entered: bool,
}

/// A room whose speaker is a client of this worker.
#[derive(Debug)]
struct Spoken {
    room: u32,
    client: u32,
    sent: u32,
}

/// What a session hears of its rooms.
pub(super) enum Told {
    /// It has entered; the room is new and wants to be configured.
    Entered {
        room: u32,
        is_new: bool,
    },
    Left {
        room: u32,
    },
    Refused {
        room: u32,
        condition: String,
    },
}

/// The rooms of a worker's clients.
#[derive(Debug)]
pub(super) struct Rooms {
    /// Seats of each client: the rooms are those that [`Rooms::room`] says.
    seats: Vec<Seat>,
    each: u32,
    spoken: Vec<Spoken>,
    /// Entries to be repeated; at most one per seat.
    again: VecDeque<(Tick, u32, u32)>,
    messages: Arrivals,
    moves: Arrivals,
    random: Random,
}

impl Rooms {
    pub(super) fn new(scenario: &Scenario, first: u32, clients: u32, seed: u64) -> Rooms {
        let seats = u64::from(scenario.rooms) * u64::from(scenario.room_occupants);
        let each = seats.div_ceil(u64::from(scenario.sessions)) as u32;
        let speaker =
            |room: u32| (u64::from(room) * u64::from(scenario.room_occupants) % u64::from(scenario.sessions)) as u32;
        let spoken = (0..scenario.rooms).filter_map(|room| {
            let client = speaker(room).checked_sub(first).filter(|client| *client < clients)?;
            Some(Spoken { room, client, sent: 0 })
        });
        Rooms {
            seats: vec![Seat::default(); (each * clients) as usize],
            each,
            spoken: spoken.collect(),
            again: VecDeque::new(),
            messages: Arrivals::new(0, seed),
            moves: Arrivals::new(0, seed.wrapping_add(1)),
            random: Random::new(seed.wrapping_add(2)),
        }
    }
}

impl World {
    pub(super) fn has_rooms(&self) -> bool {
        self.plan.scenario.rooms > 0
    }

    /// The room of a client's seat with this number, if it has so many.
    fn room_of(&self, client: u32, number: u32) -> Option<u32> {
        let scenario = &self.plan.scenario;
        let seat = u64::from(self.plan.first + client) + u64::from(number) * u64::from(scenario.sessions);
        let room = seat / u64::from(scenario.room_occupants);
        (room < u64::from(scenario.rooms)).then_some(room as u32)
    }

    /// The client's seat in a room.
    fn seat(&mut self, client: u32, room: u32) -> Option<&mut Seat> {
        let scenario = &self.plan.scenario;
        let first = u64::from(room) * u64::from(scenario.room_occupants);
        let session = u64::from(self.plan.first + client);
        let number = first.saturating_sub(session).div_ceil(u64::from(scenario.sessions)) as u32;
        if number >= self.rooms.each || self.room_of(client, number) != Some(room) {
            return None;
        }
        Some(&mut self.rooms.seats[(client * self.rooms.each + number) as usize])
    }

    /// A session stands: it enters its rooms. False if it has none.
    pub(super) fn enter_rooms(&mut self, client: u32) -> bool {
        let rooms: Vec<u32> = (0..self.rooms.each).filter_map(|number| self.room_of(client, number)).collect();
        rooms.iter().for_each(|room| self.enter(client, *room));
        !rooms.is_empty()
    }

    fn enter(&mut self, client: u32, room: u32) {
        self.to_room("<presence", client, room, true);
        let out = &mut self.conns[client as usize].output;
        out.extend_from_slice(b"><x xmlns='http://jabber.org/protocol/muc'><history maxstanzas='0'/></x></presence>");
        self.mark(client);
    }

    /// Writes the start of a tag with the room's address, or that of the client in it.
    fn to_room(&mut self, start: &str, client: u32, room: u32, as_occupant: bool) {
        let out = &mut self.conns[client as usize].output;
        let scenario = &self.plan.scenario;
        out.extend_from_slice(start.as_bytes());
        out.extend_from_slice(format!(" to='{}{room}@{}", scenario.room_prefix, scenario.room_domain()).as_bytes());
        if as_occupant {
            out.push(b'/');
            self.plan.accounts.write_name(self.plan.first + client, out);
        }
        out.push(b'\'');
    }

    /// Its connection is gone, and with it its presence in rooms.
    pub(super) fn rooms_broke(&mut self, client: u32) {
        let seats = client as usize * self.rooms.each as usize;
        self.rooms.seats[seats..][..self.rooms.each as usize].fill(Seat::default());
    }

    /// What a session has heard of its rooms.
    pub(super) fn told_of_rooms(&mut self, client: u32, told: Told) {
        if self.conn(client).state != State::Up {
            return;
        }
        match told {
            Told::Entered { room, is_new } => {
                if is_new {
                    // XEP-0045 10.1.2.
                    self.to_room("<iq type='set' id='c'", client, room, false);
                    let out = &mut self.conns[client as usize].output;
                    out.extend_from_slice(
                        b"><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'/>\
                          </query></iq>",
                    );
                    self.mark(client);
                }
                let Some(seat) = self.seat(client, room) else { return };
                if std::mem::replace(&mut seat.entered, true) {
                    return;
                }
                seat.next = None;
                self.tally.counters.entered += 1;
                let first = client as usize * self.rooms.each as usize;
                let entered = self.rooms.seats[first..][..self.rooms.each as usize].iter().filter(|seat| seat.entered);
                let all = (0..self.rooms.each).filter(|number| self.room_of(client, *number).is_some());
                if entered.count() == all.count() {
                    self.arrived(client);
                }
            }
            Told::Left { room } => {
                if let Some(seat) = self.seat(client, room)
                    && std::mem::take(&mut seat.entered)
                {
                    self.tally.counters.left += 1;
                    self.enter(client, room);
                }
            }
            Told::Refused { room, condition } => {
                // Until the speaker has made it, a room is locked.
                if condition != "item-not-found" {
                    self.tally.counters.error(&format!("entry refused: {condition}"), 1);
                }
                if self.rooms.again.len() < self.rooms.seats.len() {
                    let due = self.tick() + AGAIN_TICKS;
                    self.rooms.again.push_back((due, client, room));
                }
            }
        }
    }

    /// Repeats entries that were refused.
    pub(super) fn enter_again(&mut self) {
        let now = self.tick();
        while self.rooms.again.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, client, room)) = self.rooms.again.pop_front() else { return };
            let waits = self.seat(client, room).is_some_and(|seat| !seat.entered);
            if waits && self.conn(client).state == State::Up && self.phase <= Phase::Hold {
                self.enter(client, room);
            }
        }
    }

    pub(super) fn begin_rooms(&mut self) {
        self.rooms.messages = Arrivals::new(self.now_ns, self.random.next());
        self.rooms.moves = Arrivals::new(self.now_ns, self.random.next());
    }

    /// Sends what is due, and lets occupants leave.
    pub(super) fn talk_in_rooms(&mut self) {
        let scenario = self.plan.scenario.clone();
        let rate = self.room_rate();
        while let Some(at_ns) = self.rooms.messages.due(self.now_ns, rate) {
            let spoken = self.rooms.random.below(self.rooms.spoken.len() as u32);
            self.speak(spoken, at_ns);
        }
        let per_s = scenario.room_moves_per_s * self.share();
        while self.rooms.moves.due(self.now_ns, per_s).is_some() {
            let client = self.rooms.random.below(self.plan.clients);
            let number = self.rooms.random.below(self.rooms.each);
            let speaks = self.plan.first + client;
            let Some(room) = self.room_of(client, number) else { continue };
            let speaker = u64::from(room) * u64::from(scenario.room_occupants) % u64::from(scenario.sessions);
            if speaker == u64::from(speaks) || !self.seat(client, room).is_some_and(|seat| seat.entered) {
                continue;
            }
            self.to_room("<presence type='unavailable'", client, room, true);
            self.conn(client).output.extend_from_slice(b"/>");
            self.mark(client);
        }
    }

    fn room_rate(&self) -> f64 {
        let scenario = &self.plan.scenario;
        scenario.room_rate * self.rooms.spoken.len() as f64 / f64::from(scenario.rooms.max(1))
    }

    pub(super) fn next_in_rooms_in(&self) -> Duration {
        if self.room_rate() == 0.0 { Duration::MAX } else { until(&self.rooms.messages, self.now_ns) }
    }

    fn speak(&mut self, spoken: u32, at_ns: u64) {
        let Spoken { room, client, sent } = self.rooms.spoken[spoken as usize];
        let entered = self.seat(client, room).is_some_and(|seat| seat.entered);
        if !entered || self.conn(client).state != State::Up || self.conn(client).output.len() > UNSENT_MAX {
            self.tally.counters.not_sent += 1;
            return;
        }
        self.rooms.spoken[spoken as usize].sent += 1;
        self.tally.sent_late.record((self.now_ns - at_ns) / 1000);
        let start = self.conn(client).output.len();
        self.to_room("<message type='groupchat'", client, room, false);
        const END: &[u8] = b"</body></message>";
        // Workers have no common start.
        let sent_ns = self.epoch_ns + at_ns;
        let out = &mut self.conns[client as usize].output;
        out.extend_from_slice(b"><body>");
        let stamp = Stamp { run: self.plan.run, pair: ROOM | room, number: sent, sent_ns };
        stamp.write(out, start + (self.plan.scenario.message_bytes as usize).saturating_sub(END.len()));
        out.extend_from_slice(END);
        self.tally.counters.sent += 1;
        self.gauges.to_occupants += i64::from(self.plan.scenario.room_occupants);
        self.mark(client);
    }

    /// A message of a room has come to an occupant.
    pub(super) fn room_message_came(&mut self, client: u32, stamp: Stamp) {
        let now_ns = self.epoch_ns + self.now_ns;
        let Some(seat) = self.seat(client, stamp.pair & !ROOM) else {
            self.tally.counters.unknown += 1;
            return;
        };
        let expected = seat.next.unwrap_or(stamp.number);
        seat.next = Some(expected.max(stamp.number + 1));
        let counters = &mut self.tally.counters;
        if stamp.number + 1 == expected {
            counters.duplicates += 1;
            return;
        }
        if stamp.number < expected {
            // It was counted as lost.
            counters.reordered += 1;
            return;
        }
        let gap = u64::from(stamp.number - expected);
        counters.lost += gap;
        counters.received += 1;
        self.gauges.to_occupants -= 1 + gap as i64;
        let took_us = now_ns.saturating_sub(stamp.sent_ns) / 1000;
        self.tally.latency.record(took_us);
        let most_us = self.plan.scenario.late_ms * 1000.0;
        self.tally.counters.late += u64::from(most_us > 0.0 && took_us as f64 > most_us);
    }
}

/// What an element says of rooms at `domain` whose names are the prefix and a number.
pub(super) fn read(element: &Element<'_>, domain: &str, prefix: &str) -> Option<Told> {
    if !element.is("presence", ns::CLIENT) {
        return None;
    }
    let from = element.from()?;
    let (bare, _) = from.split_once('/').unwrap_or((&from, ""));
    let (name, of) = bare.split_once('@')?;
    let room = name.strip_prefix(prefix).filter(|_| of == domain)?.parse().ok()?;
    if let Some(condition) = refusal(element) {
        return Some(Told::Refused { room, condition: condition.into() });
    }
    let x = element.child("x", MUC_USER)?;
    let has = |code: &str| {
        ["'", "\""]
            .iter()
            .any(|quote| memmem::find(x.inner(), format!("code={quote}{code}{quote}").as_bytes()).is_some())
    };
    if !has("110") {
        return None;
    }
    match element.kind().as_deref() {
        None => Some(Told::Entered { room, is_new: has("201") }),
        Some("unavailable") => Some(Told::Left { room }),
        _ => None,
    }
}
