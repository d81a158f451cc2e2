//! Casts of rooms to many sessions of this home, delivered in portions: messages of others do not
//! wait for a large room.
//!
//! What a room sends to sessions here keeps its order (RFC 6120 10.1), so everything behind an
//! unfinished cast of the room waits as well. Rooms take turns.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::letters::{Kind, Origin};
use crate::limits::{ROOM_CAST_AT_ONCE, ROOM_CASTS_BYTES_MAX};
use crate::router::users::Incoming;
use crate::shard::Shard;
use crate::wire::jid::bare_of;

/// A stanza of a room, and the sessions that still have to get it.
#[derive(Debug)]
struct Cast {
    kind: Kind,
    from: Box<str>,
    to: Box<str>,
    /// Where the rest of `to` begins.
    at: usize,
    unaddressed: Box<[u8]>,
    number: u64,
}

/// Something that a room has sent to sessions of this home.
#[derive(Debug)]
enum Waiting {
    Cast(Cast),
    /// A stanza for one session or user.
    Stanza {
        kind: Kind,
        origin: Option<Origin>,
        from: Box<str>,
        to: Box<str>,
        xml: Box<[u8]>,
    },
    CaughtUp {
        session: Box<str>,
        asked: u32,
        page: Box<[u8]>,
    },
}

impl Waiting {
    fn bytes(&self) -> usize {
        match self {
            Waiting::Cast(cast) => cast.from.len() + cast.to.len() + cast.unaddressed.len(),
            Waiting::Stanza { from, to, xml, .. } => from.len() + to.len() + xml.len(),
            Waiting::CaughtUp { session, page, .. } => session.len() + page.len(),
        }
    }
}

/// What rooms have sent and is not delivered yet.
#[derive(Debug, Default)]
pub(super) struct Casts {
    /// By room; at most [`ROOM_CASTS_BYTES_MAX`] in all.
    rooms: HashMap<Box<str>, VecDeque<Waiting>>,
    /// The rooms in the order of their turns; bounded by what waits.
    turns: VecDeque<Box<str>>,
    bytes: usize,
}

impl Casts {
    pub(super) fn is_left(&self) -> bool {
        !self.turns.is_empty()
    }

    fn push(&mut self, room: &str, waiting: Waiting) {
        self.bytes += waiting.bytes();
        if let Some(queue) = self.rooms.get_mut(room) {
            return queue.push_back(waiting);
        }
        self.turns.push_back(room.into());
        self.rooms.insert(room.into(), VecDeque::from([waiting]));
    }

    /// The next that waits of a room.
    fn take(&mut self, room: &str) -> Option<Waiting> {
        let waiting = self.rooms.get_mut(room)?.pop_front()?;
        self.bytes -= waiting.bytes();
        Some(waiting)
    }

    /// The rest of what was taken last.
    fn put_back(&mut self, room: &str, rest: Cast) {
        let rest = Waiting::Cast(rest);
        self.bytes += rest.bytes();
        self.rooms.entry_ref(room).or_default().push_front(rest);
    }

    /// The turn of the room is over.
    fn end_turn(&mut self, room: Box<str>) {
        match self.rooms.get(&room).is_some_and(|queue| !queue.is_empty()) {
            true => self.turns.push_back(room),
            false => _ = self.rooms.remove(&room),
        }
    }
}

/// The first names of a list, at most so many, their number, and where the rest begins if there is one.
fn portion(names: &str, most: usize) -> (&str, usize, Option<usize>) {
    let mut ends = memchr::memchr_iter(0, names.as_bytes());
    match ends.nth(most - 1) {
        Some(end) => (&names[..end], most, Some(end + 1)),
        None => (names, memchr::memchr_iter(0, names.as_bytes()).count() + 1, None),
    }
}

impl Shard {
    /// Delivers a stanza of a room to sessions of this home, at once if they are few and nothing of
    /// the room waits.
    pub(super) fn cast_in_turn(&mut self, kind: Kind, from: &str, to: &str, unaddressed: &[u8], number: u64) {
        let room = bare_of(from);
        if portion(to, ROOM_CAST_AT_ONCE).2.is_none() && !self.casts.rooms.contains_key(room) {
            return self.cast(kind, from, to, unaddressed, number, true);
        }
        let (from, to, unaddressed) = (from.into(), to.into(), unaddressed.into());
        self.wait_in_turn(room, Waiting::Cast(Cast { kind, from, to, at: 0, unaddressed, number }));
    }

    /// Handles a stanza for a user of this home, behind what waits of the same room.
    pub(super) fn incoming_in_turn(&mut self, incoming: Incoming<'_>) {
        let Incoming { kind, origin, from, to, xml } = incoming;
        if !self.casts.is_left() || !self.casts.rooms.contains_key(bare_of(from)) {
            return self.incoming(incoming);
        }
        let room = bare_of(from);
        self.wait_in_turn(room, Waiting::Stanza { kind, origin, from: from.into(), to: to.into(), xml: xml.into() });
    }

    fn wait_in_turn(&mut self, room: &str, waiting: Waiting) {
        self.casts.push(room, waiting);
        while self.casts.bytes > ROOM_CASTS_BYTES_MAX {
            self.next_casts();
        }
    }

    /// Hands a session what it has missed of a room, behind what the room has sent before.
    pub(super) fn caught_up_in_turn(&mut self, room: &str, session: &str, asked: u32, page: &[u8]) {
        if !self.casts.rooms.contains_key(room) {
            return self.caught_up_in_room(room, session, asked, page);
        }
        self.wait_in_turn(room, Waiting::CaughtUp { session: session.into(), asked, page: page.into() });
    }

    /// Whether a portion is left, so that another turn has to begin at once. While many effects
    /// await a commit, delivery pauses.
    pub(super) fn is_casting(&self) -> bool {
        !self.cx.many_held && self.casts.is_left()
    }

    /// Delivers this turn's portion.
    pub(super) fn go_on_casting(&mut self) {
        if self.is_casting() {
            self.next_casts();
        }
    }

    /// Delivers everything, as when what was lost of these rooms is to be known.
    pub(super) fn cast_the_rest(&mut self) {
        while self.casts.is_left() {
            self.next_casts();
        }
    }

    /// Delivers the portion of the room whose turn it is.
    fn next_casts(&mut self) {
        let Some(room) = self.casts.turns.pop_front() else { return };
        let mut left = ROOM_CAST_AT_ONCE;
        while left > 0
            && let Some(waiting) = self.casts.take(&room)
        {
            match waiting {
                Waiting::Cast(mut cast) => {
                    let (names, count, rest) = portion(&cast.to[cast.at..], left);
                    self.cast(cast.kind, &cast.from, names, &cast.unaddressed, cast.number, rest.is_none());
                    left -= count;
                    if let Some(rest) = rest {
                        cast.at += rest;
                        self.casts.put_back(&room, cast);
                    }
                }
                Waiting::Stanza { kind, origin, from, to, xml } => {
                    self.incoming(Incoming { kind, origin, from: &from, to: &to, xml: &xml });
                    left -= 1;
                }
                Waiting::CaughtUp { session, asked, page } => {
                    self.caught_up_in_room(&room, &session, asked, &page);
                    left -= 1;
                }
            }
        }
        self.casts.end_turn(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(room: &str, receivers: usize) -> Waiting {
        let to = (0..receivers).map(|number| format!("u{number}@x/r")).collect::<Vec<_>>().join("\0");
        let kind = Kind::Directed { unavailable: false };
        Waiting::Cast(Cast { kind, from: room.into(), to: to.into(), at: 0, unaddressed: (*b"<a/>").into(), number: 0 })
    }

    #[test]
    fn rooms_take_turns_and_each_keeps_its_order() {
        let mut casts = Casts::default();
        casts.push("a", cast("a/1", 3));
        casts.push("a", cast("a/2", 1));
        casts.push("b", cast("b/1", 1));
        let mut order = Vec::new();
        while let Some(room) = casts.turns.pop_front() {
            let Some(Waiting::Cast(cast)) = casts.take(&room) else { unreachable!() };
            order.push(cast.from.to_string());
            if order.len() == 1 {
                casts.put_back(&room, cast);
            }
            casts.end_turn(room);
        }
        assert_eq!(order, ["a/1", "b/1", "a/1", "a/2"]);
        assert_eq!((casts.bytes, casts.rooms.len(), casts.is_left()), (0, 0, false));
    }

    #[test]
    fn a_portion_ends_between_two_names() {
        assert_eq!(portion("a\0b\0c", 2), ("a\0b", 2, Some(4)));
        assert_eq!(portion("a\0b\0c", 3), ("a\0b\0c", 3, None));
        assert_eq!(portion("a", 128), ("a", 1, None));
    }
}
