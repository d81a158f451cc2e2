//! Members who are absent: up to where each has the messages of the room, and how many it has missed.
//!
//! The room counts its archived messages with a text. A member's position is in the row of its
//! standing. It is written when the last session of the member leaves, never for a message. What a
//! member has missed is a difference: no message is read for it.

use crate::extension::inbox::missed::RoomCount;
use crate::follow::names;
use crate::id::ShardId;
use crate::kernel::Kernel;
use crate::kernel::pending::{CountRead, Pending, RoomRead};
use crate::letters::{Letter, RoomLetter};
use crate::limits::{ROOM_AGAIN_BYTES, ROOM_COUNTED_EVERY};
use crate::ns;
use crate::rooms::room::Room;
use crate::rooms::{Rooms, State};
use crate::store::archive::{Entry, live_entries, number_of};
use crate::store::room::{Position, Record, Standing};
use crate::store::{Found, Query, Row, Table};
use crate::streams::Streams;
use crate::wire::written::read_back;

/// The end of the messages of a room, of which the later ones of these entries were not counted.
pub(super) fn counted(said: Position, entries: &[(u64, Entry<'_>)]) -> Position {
    let later = entries.iter().filter(|(number, _)| *number > said.number);
    later.fold(said, |said, (number, entry)| {
        let is_text = read_back(entry.xml, |element| element.child("body", ns::CLIENT).is_some()).unwrap_or(false);
        Position { number: *number, count: said.count + u64::from(is_text), time_ms: entry.time_ms }
    })
}

/// The entries of an archive after a number, or the last ones.
fn archived(room: &str, after: Option<u64>, rows_max: u32) -> Query {
    Query::Range {
        table: Table::Archive,
        actor: room.as_bytes().into(),
        from: after.map_or(Box::default(), |after| after.saturating_add(1).to_be_bytes().as_slice().into()),
        until: None,
        reverse: after.is_none(),
        rows_max,
        bytes_max: ROOM_AGAIN_BYTES,
    }
}

fn rows(found: &Found) -> &[Row] {
    match found {
        Found::Rows { rows, .. } => rows,
        _ => &[],
    }
}

fn row(found: &Found) -> Option<&[u8]> {
    match found {
        Found::Value(value) => value.as_deref(),
        _ => None,
    }
}

/// What a member with this standing has missed of a room; `None` for others.
fn missed(room: &str, standing: &Standing, said: Position) -> Option<RoomCount> {
    standing.is_member().then(|| RoomCount {
        room: room.into(),
        missed: said.count.saturating_sub(standing.left.count),
        last: said.number,
        left: standing.left,
    })
}

impl Room {
    /// A message was archived. A room that has not written for a while how many there are does so.
    pub(super) fn archived(&mut self, kernel: &mut Kernel, number: u64, is_text: bool) {
        let count = self.record.said.count + u64::from(is_text);
        self.record.said = Position { number, count, time_ms: kernel.now.wall_us / 1_000 };
        self.uncounted += 1;
        if self.uncounted >= ROOM_COUNTED_EVERY {
            self.uncounted = 0;
            self.put(kernel);
        }
    }

    /// The place of a member that has got everything.
    pub(super) fn here(&self, kernel: &Kernel) -> Position {
        Position { time_ms: kernel.now.wall_us / 1_000, ..self.record.said }
    }

    /// An occupant has left. A member without a session in the room misses messages from now on.
    pub(super) fn note_absence(&mut self, kernel: &mut Kernel, bare: &str) {
        if !self.occupants.of_user(bare).is_empty() {
            return;
        }
        let Some(former) = self.standings.get(bare) else { return };
        self.is_awake(bare);
        if former.is_member() {
            let standing = Standing { left: self.here(kernel), ..former.clone() };
            standing.put(&mut kernel.writes, &self.jid, bare, &former);
            self.standings.put(bare, standing);
        }
    }

    /// What a member has missed: nothing while it is in the room.
    fn missed_by(&self, bare: &str, standing: &Standing) -> Option<RoomCount> {
        let mut count = missed(&self.jid, standing, self.record.said)?;
        if !self.occupants.of_user(bare).is_empty() {
            (count.missed, count.left) = (0, self.record.said);
        }
        Some(count)
    }
}

impl Rooms {
    fn here(&self, room: &str) -> Option<&Room> {
        match self.rooms.get(room).map(|hosted| &hosted.state) {
            Some(State::Here(room)) => Some(room),
            _ => None,
        }
    }

    /// The home of a member asks what the member has missed of these rooms. Rooms that are not in
    /// memory stay where they are: three rows are read of each.
    pub(crate) fn count(&mut self, cx: &mut Streams, to: ShardId, token: u64, user: &str, rooms: &str) {
        let mut read =
            CountRead { to, token, user: user.into(), rooms: Vec::new(), late: Vec::new(), counts: Vec::new() };
        let mut queries = Vec::new();
        for room in names(rooms) {
            match self.here(room).and_then(|here| Some((here, here.standings.get(user)?))) {
                Some((here, standing)) => read.counts.extend(here.missed_by(user, &standing)),
                None => {
                    queries.extend([Standing::query(room, user), Record::query(room), archived(room, None, 1)]);
                    read.rooms.push(room.into());
                }
            }
        }
        match queries.is_empty() {
            true => answer(cx, read),
            false => cx.kernel.read(Pending::Room(RoomRead::Counts(Box::new(read))), queries),
        }
    }

    /// Rows of rooms were read, or are damaged: then nothing is known of these rooms.
    pub(super) fn counts_found(&mut self, cx: &mut Streams, mut read: CountRead, found: &[Found]) {
        // Messages that a room had not counted when the server stopped.
        for ((standing, said, room), found) in std::mem::take(&mut read.late).into_iter().zip(found) {
            let said = live_entries(rows(found)).map_or(said, |entries| counted(said, &entries));
            read.counts.extend(missed(&room, &standing, said));
        }
        let mut queries = Vec::new();
        for (room, found) in std::mem::take(&mut read.rooms).into_iter().zip(found.chunks_exact(3)) {
            let [standing, record, last] = found else { continue };
            // It has no standing any more.
            let Some(standing) = row(standing).and_then(Standing::decode) else { continue };
            if let Some(here) = self.here(&room) {
                read.counts.extend(here.missed_by(&read.user, &standing));
                continue;
            }
            // It has ended.
            let Some(record) = row(record).and_then(Record::decode) else { continue };
            let last = rows(last).first().and_then(|row| number_of(&row.sort));
            match last.is_some_and(|last| last > record.said.number) && standing.is_member() {
                true => {
                    queries.push(archived(&room, Some(record.said.number), ROOM_COUNTED_EVERY));
                    read.late.push((standing, record.said, room));
                }
                false => read.counts.extend(missed(&room, &standing, record.said)),
            }
        }
        match queries.is_empty() {
            true => answer(cx, read),
            false => cx.kernel.read(Pending::Room(RoomRead::Counts(Box::new(read))), queries),
        }
    }
}

fn answer(cx: &mut Streams, read: CountRead) {
    let letters = cx.kernel.letters_to(read.to);
    let counts = letters.write(&RoomCount::written(&read.counts));
    letters.push(Letter::Room(RoomLetter::Counted { token: read.token, counts }));
}
