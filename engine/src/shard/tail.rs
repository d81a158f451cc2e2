//! Resumption of a session of an earlier process (XEP-0198 5). The tail of its user's log supplies
//! what its rows do not record: which of the client's stanzas are logged, and which messages it was
//! sent at which place in its count.
//!
//! The tail is read from the position of the rows to the end of the earlier process. Then each
//! message that the session had sent and that may not have reached its receiver is sent again
//! ([`again`](super::again)), so that every stanza counted to the client is safe. Only then does
//! the connection take over.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::extension::offline::{Keep, keep};
use crate::id::{ConnId, SessionId, mark};
use crate::kernel::Fixed;
use crate::kernel::pending::{Pending, SessionRead, TailRead};
use crate::letters::{AGAIN, Kind, MessageClass, Origin};
use crate::logs::read::{Item, PAGE_BYTES_MAX, page};
use crate::router::users::Parked;
use crate::session::sm::{Had, TOKEN_BYTES};
use crate::shard::Shard;
use crate::shard::stored::received;
use crate::store::archive::{is_void, number_of};
use crate::store::sessions::{self, Counts, Key, Step, Stored, steps};
use crate::store::waiting::{self, Apart};
use crate::store::{Found, Query, Table};
use crate::wire::error::StreamCondition;
use crate::wire::jid::bare_of;
use crate::wire::written::read_back;

/// Log entries that are read at once.
const PAGE_ROWS_MAX: u32 = 64;

/// Sessions of an earlier process that are being resumed, or were when the connection closed; at
/// most as many as exist.
pub(super) type Tails = HashMap<SessionId, Box<Tail>, Fixed>;

/// The progress of a resumption.
#[derive(Debug)]
pub(super) struct Tail {
    attempt: u64,
    /// The connection that waits to resume the session.
    pub(super) conn: ConnId,
    token: [u8; TOKEN_BYTES],
    /// The client's count of received stanzas.
    h: u32,
    /// The session's counts as stored.
    counts: Counts,
    /// Entries up to this number have been examined.
    after: u64,
    /// Stanzas of the client that are safe, or will be when `open` is sent again.
    handled: u32,
    /// Stanzas of the client that are certainly safe.
    certain: u32,
    /// Messages of the session that may not have reached their receivers, and when they were sent,
    /// milliseconds since the Unix epoch. Bounded by `in_flight_max`: an entry records how many
    /// before it may be open.
    open: VecDeque<(u32, u64, Parked)>,
    /// The stanza that was sent again and is not confirmed yet.
    asked: Option<u32>,
    /// The last stanza that this process has sent again, for this attempt or an earlier one, and
    /// whether it is confirmed.
    again: Option<(u32, bool)>,
    /// Stanzas after `handled` that are logged.
    had: Had,
    /// The first entry that was sent to the client and not received by it.
    unreceived: Option<u64>,
    /// The last entry that the client has received.
    received: u64,
    /// Messages set apart for the session that it has received.
    aparts: Vec<u64>,
    /// Entries that are void.
    void: Vec<u64>,
}

/// Whether a count is after another one; counts wrap around (XEP-0198 4).
fn beyond(count: u32, other: u32) -> bool {
    (count.wrapping_sub(other) as i32) > 0
}

impl Tail {
    /// The session was handed this entry, at this place in its count.
    fn was_handed(&mut self, number: u64, count: u32, apart: bool) {
        match (beyond(count, self.h), apart) {
            (true, false) => self.unreceived = Some(self.unreceived.map_or(number, |first| first.min(number))),
            (false, false) => self.received = self.received.max(number),
            (false, true) => self.aparts.push(number),
            (true, true) => {}
        }
    }

    /// The counts have been read.
    fn take_counts(&mut self, counts: Counts) {
        self.after = counts.from.min(received(&counts)).min(counts.number);
        (self.handled, self.certain) = (counts.handled, counts.handled);
        for (count, id) in &counts.held {
            self.was_handed(mark::number(*id), *count, id & mark::APART != 0);
        }
        self.counts = counts;
    }

    /// Processes an entry of the log and what it records about the session.
    fn take_entry(&mut self, tag: u32, item: &Item<'_>, from: &str) {
        for step in steps(item.entry.trail) {
            match step {
                // The rows record what is older.
                Step::Handed { tag: of, count } if of == tag && item.number > self.counts.number => {
                    self.was_handed(item.number, count, item.apart.is_some());
                }
                Step::Sent { tag: of, seq, open } if of == tag && beyond(seq, self.counts.handled) => {
                    self.was_sent(item, seq, open, from);
                }
                _ => {}
            }
        }
    }

    fn was_sent(&mut self, item: &Item<'_>, seq: u32, open: u16, from: &str) {
        let before = seq.wrapping_sub(u32::from(open));
        if beyond(before, self.certain) {
            self.certain = before;
        }
        if beyond(self.certain, self.handled) {
            // Its stanzas without an entry were handled before this one.
            self.handled = self.certain;
        }
        let certain = self.certain;
        self.open.retain(|(open, ..)| beyond(*open, certain));
        self.had.push_back((seq, item.number));
        while let Some((first, _)) = self.had.front().filter(|(first, _)| !beyond(*first, self.handled.wrapping_add(1)))
        {
            if *first == self.handled.wrapping_add(1) {
                self.handled = *first;
            }
            self.had.pop_front();
        }
        if self.void.contains(&item.number) {
            return;
        }
        let seen = read_back(item.entry.xml, |element| {
            let kind = element.kind().unwrap_or_default();
            let class = if kind == "chat" { MessageClass::Chat } else { MessageClass::Normal };
            (class, keep(&kind, element.children().map(|c| c.raw())))
        });
        // A message that is not stored anywhere cannot be repeated.
        let Some((class, keep)) = seen.filter(|(_, keep)| *keep != Keep::Nothing) else { return };
        let kind = Kind::Message { class, keep };
        let (to, xml) = (item.entry.peer.into(), item.entry.xml.into());
        let origin = Some(Origin { entry: item.number | AGAIN, ..NOBODY });
        self.open.push_back((seq, item.entry.time_ms, Parked { kind, origin, from: from.into(), to, xml }));
    }

    /// The position up to which the client has received the messages for all followers.
    fn reached(&self) -> u64 {
        match self.unreceived {
            Some(first) => first.saturating_sub(1),
            None => self.counts.seen.max(self.received),
        }
    }
}

/// Represents the session until the message leaves.
const NOBODY: Origin =
    Origin { shard: crate::id::ShardId(0), session: SessionId { slot: u32::MAX, generation: 0 }, seq: 0, entry: 0 };

impl Shard {
    /// A connection requests the session of an earlier process with this token. Returns whether
    /// there is one.
    pub(super) fn take_over_stored(&mut self, conn: ConnId, account: &str, h: u32, token: [u8; TOKEN_BYTES]) -> bool {
        let (Some(user), key) = (self.actors.users.find(account), Key::of(&token)) else { return false };
        let mut sessions = self.actors.users.sessions(&self.actors.sessions, user);
        let is_it = |id: SessionId| self.cx.is_dormant(id) && self.cx.stored_as(id).is_some_and(|(own, ..)| own == key);
        let Some((id, _)) = sessions.find(|(id, _)| is_it(*id)) else { return false };
        if self.cx.is_expired(id) {
            self.cx.kernel.counters.expired.one();
            self.end_session(id, Vec::new(), None);
            return false;
        }
        let earlier = self.tails.remove(&id);
        let again = earlier.as_ref().and_then(|earlier| earlier.again);
        if let Some(earlier) = earlier
            && self.cx.opening(earlier.conn).is_some_and(|opening| opening.blocked)
        {
            self.cx.fail_stream(earlier.conn, StreamCondition::Conflict, Some("the session was resumed elsewhere"));
        }
        let full = self.actors.full_jid(id);
        if let Some(inline) = self.cx.heard(conn).inline.as_mut() {
            inline.surround(&full);
        }
        let tail = Tail {
            attempt: self.next_attempt(),
            conn,
            token,
            h,
            counts: Counts::default(),
            after: 0,
            handled: 0,
            certain: 0,
            open: VecDeque::new(),
            asked: None,
            again,
            had: Had::new(),
            unreceived: None,
            received: 0,
            aparts: Vec::new(),
            void: Vec::new(),
        };
        let read = TailRead { session: id, attempt: tail.attempt, rows: true };
        self.tails.insert(id, Box::new(tail));
        self.cx.block(conn);
        let queries = vec![sessions::query(account)];
        self.cx.kernel.read(Pending::Session(SessionRead::Tail(read)), queries);
        true
    }

    fn next_attempt(&mut self) -> u64 {
        self.tail_attempts += 1;
        self.tail_attempts
    }

    /// Rows of the session, or a page of its user's log, have been read.
    pub(super) fn tail_found(&mut self, read: TailRead, found: Vec<Found>) {
        let TailRead { session: id, attempt, rows } = read;
        // The session has ended in the meantime.
        let Some(mut tail) = self.tails.remove(&id) else { return };
        if tail.attempt != attempt {
            self.tails.insert(id, tail);
            return;
        }
        let Some((key, ..)) = self.cx.stored_as(id) else { return self.cx.not_resumed(tail.conn) };
        if rows {
            let rows = match found.into_iter().next() {
                Some(Found::Rows { rows, .. }) => rows,
                _ => Vec::new(),
            };
            let Some(Stored { counts, .. }) = sessions::read(&rows).0.into_iter().find(|stored| stored.key == key)
            else {
                // The session's progress is unknown.
                self.tails.insert(id, tail);
                return self.end_session(id, Vec::new(), None);
            };
            tail.take_counts(counts);
            self.tails.insert(id, tail);
            return self.read_tail(read);
        }
        // Entries since its counts were written may have been dropped for their age
        // (`logs::retention`), even just now; the session's progress would then be unknown. The
        // record of that was read after the page.
        if sessions::dropped(found.last()) > tail.counts.from.min(tail.counts.number).saturating_add(1) {
            self.tails.insert(id, tail);
            return self.end_session(id, Vec::new(), None);
        }
        let full = self.actors.full_jid(id);
        if let Some(Found::Rows { rows, .. }) = found.first() {
            let void = rows.iter().filter(|row| is_void(&row.value)).filter_map(|row| number_of(&row.sort));
            tail.void.extend(void);
        }
        let (items, end) = page(&found);
        for item in &items {
            tail.take_entry(key.tag(), item, &full);
        }
        let floor = self.cx.kernel.settings.number_floor;
        let last = end.filter(|&end| end > tail.after && end < floor);
        tail.after = last.unwrap_or(floor);
        self.tails.insert(id, tail);
        match last {
            Some(_) => self.read_tail(read),
            None => self.send_tail(id),
        }
    }

    /// Data for the resumption cannot be read, so what the client has received is unknown.
    pub(super) fn tail_unreadable(&mut self, read: TailRead) {
        if self.tails.get(&read.session).is_some_and(|tail| tail.attempt == read.attempt) {
            self.end_session(read.session, Vec::new(), None);
        }
    }

    fn read_tail(&mut self, read: TailRead) {
        let after = self.tails[&read.session].after;
        let bare = bare_of(&self.actors.full_jid(read.session)).to_owned();
        let mut queries = tail_queries(&bare, after, Some(self.cx.kernel.settings.number_floor));
        queries.push(sessions::query_dropped(&bare));
        self.cx.kernel.read(Pending::Session(SessionRead::Tail(TailRead { rows: false, ..read })), queries);
    }

    /// Sends the next message again that may not have reached its receiver, or continues if there
    /// is none.
    fn send_tail(&mut self, id: SessionId) {
        let shard = self.cx.kernel.id;
        let tail = self.tails.get_mut(&id).expect("a resumption is under way");
        // Messages sent again by an earlier attempt are not repeated, because a component could not
        // detect the duplicate.
        while let (Some((seq, ..)), Some((last, _))) = (tail.open.front(), tail.again)
            && beyond(last, *seq)
        {
            tail.open.pop_front();
        }
        // The client itself repeats those beyond the count.
        let next = tail.open.pop_front().filter(|(seq, ..)| !beyond(*seq, tail.handled));
        let Some((seq, time_ms, Parked { kind, origin, from, to, xml })) = next else { return self.finish_tail(id) };
        match tail.again {
            Some((last, true)) if last == seq => return self.send_tail(id),
            Some((last, false)) if last == seq => {
                tail.asked = Some(seq);
                return;
            }
            _ => {}
        }
        let (kept_ms, age_ms) = (
            self.cx.kernel.settings.retention_s.saturating_mul(1_000),
            (self.cx.kernel.now.expiry_us / 1_000).saturating_sub(time_ms),
        );
        if kept_ms > 0 && age_ms >= kept_ms {
            // The receiver's entry may have been dropped for its age: whether the message has
            // arrived is unknown.
            return self.end_session(id, Vec::new(), None);
        }
        let tail = self.tails.get_mut(&id).expect("it was just there");
        (tail.asked, tail.again) = (Some(seq), Some((seq, false)));
        let origin = origin.map(|origin| Origin { shard, session: id, seq, ..origin });
        let home = self.cx.kernel.home(bare_of(&to));
        self.cx.kernel.post(home, kind, origin, &from, &to, |out| out.extend_from_slice(&xml));
    }

    /// A message that was sent again has arrived, now or before. Returns whether it is one of
    /// these.
    pub(super) fn tail_confirmed(&mut self, id: SessionId, seq: u32) -> bool {
        let Some(tail) = self.tails.get_mut(&id).filter(|tail| tail.again == Some((seq, false))) else { return false };
        tail.again = Some((seq, true));
        if tail.asked.take().is_some() {
            self.send_tail(id);
        }
        true
    }

    /// Everything is known: the connection takes over, and the client is sent what it has not
    /// received.
    fn finish_tail(&mut self, id: SessionId) {
        let mut tail = self.tails.remove(&id).expect("its last message was just looked for");
        let session = self.actors.sessions.heard(id);
        let (user, follows) = (session.user, session.follows);
        if !self.cx.opening(tail.conn).is_some_and(|opening| opening.blocked) {
            // The connection has closed. The messages that were sent for it need not be sent for
            // the next one.
            (tail.open, tail.had, tail.aparts, tail.void) = Default::default();
            self.tails.insert(id, tail);
            return;
        }
        let bare = self.actors.bare_of_user(user);
        for number in &tail.aparts {
            Apart::delete(&mut self.cx.kernel.writes, &bare, *number);
        }
        let seen = tail.reached();
        let last = self.cx.kernel.last_number;
        if self.logs.know_log(&mut self.cx, &mut self.actors, user) {
            let log = self.logs.log(&mut self.cx, &mut self.actors, user);
            // A session that began to follow after its rows were written did so at the cursor.
            let place = log.leave(id).map_or(0, |place| place.entries.at);
            let seen = if tail.unreceived.is_some() { seen } else { seen.max(place) };
            if follows {
                log.received(seen);
                log.touch();
            }
            // Whether messages set apart for it wait is unknown: it searches. A session that does
            // not follow continues from its position when it follows again.
            log.fall_behind(id, seen, 0);
            log.set_apart(last);
            self.logs.touch_log(user);
        }
        self.cx.kernel.counters.resumed_restored.one();
        if let Some((key, ..)) = self.cx.stored_as(id) {
            sessions::delete_pushes(&mut self.cx.kernel.writes, &bare, key);
        }
        let pushes = tail.counts.pushes.into_iter().filter(|(count, _)| beyond(*count, tail.h));
        let pushes = pushes.map(|(_, push)| push).collect();
        self.cx.awake(id, tail.token, (tail.h, tail.handled), tail.had, pushes, seen);
        if !self.cx.wait_to_resume(id, tail.conn) {
            self.cx.resume_goes_on(id);
        }
        self.contacts.refresh(&mut self.cx, &mut self.actors, id);
        self.logs.bring_up(&mut self.cx, &mut self.actors, user);
    }
}

/// The queries for a page of everything in a user's log after a number, up to another one.
pub(super) fn tail_queries(bare: &str, after: u64, until: Option<u64>) -> Vec<Query> {
    let entries = Query::Range {
        table: Table::Archive,
        actor: bare.as_bytes().into(),
        from: after.saturating_add(1).to_be_bytes().as_slice().into(),
        until: until.map(|until| until.saturating_add(1).to_be_bytes().as_slice().into()),
        reverse: false,
        rows_max: PAGE_ROWS_MAX,
        bytes_max: PAGE_BYTES_MAX,
    };
    let transients = waiting::transients(bare, after, PAGE_ROWS_MAX, PAGE_BYTES_MAX);
    vec![entries, transients, waiting::aparts(bare, after, PAGE_ROWS_MAX, PAGE_BYTES_MAX)]
}
