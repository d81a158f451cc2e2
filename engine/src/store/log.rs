//! A user's log, as a shard tracks it while any of its state is needed: how far it is delivered,
//! and which of the user's sessions read it from behind.
//!
//! This is pure bookkeeping over numbers. A session that takes messages for the bare JID is a
//! *follower*. A follower *at the head* receives an entry in the turn that appends it, and is in no
//! list. A follower that is *behind* reads the log at its own pace, and delays no other. Each
//! follower began at or before the cursor and receives all waiting entries in order, so the cursor
//! may pass what it has acknowledged: with several followers, the first acknowledgement counts.

use super::waiting::Cursor;
use crate::follow::Follower;
use crate::id::SessionId;

/// A session that is not at the head of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The session.
    pub session: SessionId,
    /// Its position among the entries for all followers.
    pub entries: Follower,
    /// Messages for it alone up to this number have been sent to it.
    pub apart: u64,
}

/// A user's log.
#[derive(Clone, Debug)]
pub struct Log {
    cursor: Cursor,
    /// Whether the cursor's row has changed since it was last written.
    dirty: bool,
    /// Highest number of a waiting entry, among those appended since the log was loaded.
    newest: u64,
    /// Highest number of a message for one session alone that was not sent on arrival.
    newest_apart: u64,
    transients: Transients,
    /// Whether a follower has reached the head since the log was loaded, so that the log has
    /// nothing after `newest`.
    known: bool,
    /// Whether the store had nothing after the cursor when the log was loaded, and no session of the
    /// user has ended since.
    at_rest: bool,
    /// Entries up to this number no longer count as waiting.
    counted: u64,
    /// The followers that are not at the head; at most one per session of the user.
    pub behind: Vec<Reader>,
    /// Messages outside the log that several sessions hold: their marks, and the number of holders.
    /// Bounded by what sessions may hold unacknowledged or unsent.
    unlogged: Vec<(u64, u16)>,
    /// The search for messages that were set apart for sessions that have ended.
    pub gathering: Gathering,
}

/// What is known about transient entries in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transients {
    /// The log has been read from its cursor at most: transient entries before it may be left.
    Unknown,
    /// A search is in progress, and none has been added since it began.
    Sought,
    /// There may be some.
    Some,
    /// There are none.
    None,
}

/// The state of the search for messages without a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathering {
    /// There may be some.
    Due,
    /// A read is in progress.
    Reading {
        /// Whether a session has ended meanwhile, so that the search must start again.
        again: bool,
    },
    /// There are none.
    Done,
}

impl Log {
    /// A log as read from the store, without followers.
    pub fn loaded(cursor: Cursor) -> Log {
        Log {
            cursor,
            dirty: false,
            newest: 0,
            newest_apart: 0,
            transients: Transients::Unknown,
            known: false,
            at_rest: false,
            counted: cursor.number,
            behind: Vec::new(),
            unlogged: Vec::new(),
            gathering: Gathering::Due,
        }
    }

    /// The log of a user who has a session at the head that has received everything up to this
    /// number. Its row need not be read.
    pub fn live(number: u64) -> Log {
        let cursor = Cursor { number, ..Cursor::default() };
        Log { gathering: Gathering::Done, transients: Transients::None, known: true, ..Log::loaded(cursor) }
    }

    /// The log of a user without sessions for whom the store has no entry after the cursor, none that
    /// is transient, and no message that is set apart: nothing more has to be read for a first
    /// follower.
    pub fn at_rest(cursor: Cursor) -> Log {
        let log = Log::loaded(cursor);
        Log { gathering: Gathering::Done, transients: Transients::None, known: true, at_rest: true, ..log }
    }

    /// Whether nothing has come since the log was loaded [at rest](Log::at_rest): a session that is
    /// the user's only one is at the head at once.
    pub fn is_at_rest(&self) -> bool {
        self.at_rest && self.last() == 0 && self.behind.is_empty()
    }

    /// The number up to which everything has been received.
    pub fn cursor(&self) -> u64 {
        self.cursor.number
    }

    /// The number of messages that wait for a first session, and their bytes.
    pub fn waiting(&self) -> (u32, u64) {
        (self.cursor.count, self.cursor.bytes)
    }

    /// Highest known number of a waiting entry.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The same, including messages for one session alone.
    pub fn last(&self) -> u64 {
        self.newest.max(self.newest_apart)
    }

    /// Records that a waiting entry was appended.
    pub fn appended(&mut self, number: u64, transient: bool) {
        self.newest = self.newest.max(number);
        if transient {
            self.transients = Transients::Some;
        }
    }

    /// The number after which a follower that has seen everything up to `seen` reads transient
    /// entries. The first follower also reads those before the cursor, so that a user without any
    /// causes no write.
    pub fn transients_from(&mut self, seen: u64) -> u64 {
        match self.transients {
            Transients::Unknown | Transients::Sought => {
                self.transients = Transients::Sought;
                0
            }
            Transients::Some | Transients::None => seen,
        }
    }

    /// Records the result of reading transient entries from that number on: whether there were any.
    pub fn transients_found(&mut self, any: bool) {
        if self.transients == Transients::Sought {
            self.transients = if any { Transients::Some } else { Transients::None };
        }
    }

    /// Records that a message waits for one session alone.
    pub fn set_apart(&mut self, number: u64) {
        self.newest_apart = self.newest_apart.max(number);
    }

    /// Records a message that waits because no session takes it now.
    pub fn stored(&mut self, bytes: usize) {
        self.cursor.count = self.cursor.count.saturating_add(1);
        self.cursor.bytes += bytes as u64;
        self.dirty = true;
    }

    /// Records that an entry was sent to a follower from behind. The first such follower removes it
    /// from the waiting ones.
    pub fn caught_up(&mut self, number: u64, bytes: usize) {
        self.newest = self.newest.max(number);
        if number > self.counted {
            self.counted = number;
            self.taken(bytes);
        }
    }

    /// Records that a message no longer waits.
    pub fn taken(&mut self, bytes: usize) {
        // The counts may be slightly low after a crash, hence saturating.
        self.cursor.count = self.cursor.count.saturating_sub(1);
        self.cursor.bytes = self.cursor.bytes.saturating_sub(bytes as u64);
        self.dirty = true;
    }

    /// Records that a follower has reached the head: nothing waits for a first session.
    pub fn drained(&mut self) {
        self.known = true;
        // Some of the transient entries before the cursor may be left.
        self.dirty |= self.transients != Transients::None;
        if (self.cursor.count, self.cursor.bytes) != (0, 0) {
            (self.cursor.count, self.cursor.bytes) = (0, 0);
            self.dirty = true;
        }
    }

    /// Records that a follower has received everything up to this number that waited for it.
    pub fn received(&mut self, number: u64) {
        if number > self.cursor.number {
            self.cursor.number = number;
            self.counted = self.counted.max(number);
            self.dirty = true;
        }
    }

    /// Records that all followers have ended: entries that were sent but not received wait again.
    pub fn forsaken(&mut self) {
        self.counted = self.cursor.number;
        // It may have written entries of its own.
        self.at_rest = false;
    }

    /// Returns a session that is not at the head.
    pub fn follower(&mut self, session: SessionId) -> Option<&mut Reader> {
        self.behind.iter_mut().find(|follower| follower.session == session)
    }

    /// Whether a session is not at the head.
    pub fn is_behind(&self, session: SessionId) -> bool {
        self.behind.iter().any(|follower| follower.session == session)
    }

    /// Makes a session read from behind, after what has been sent to it.
    pub fn fall_behind(&mut self, session: SessionId, seen: u64, apart: u64) {
        if !self.is_behind(session) {
            self.behind.push(Reader { session, entries: Follower::behind(seen), apart });
        }
    }

    /// Removes a session that has reached the head or no longer follows. Returns its position.
    pub fn leave(&mut self, session: SessionId) -> Option<Reader> {
        let index = self.behind.iter().position(|follower| follower.session == session)?;
        Some(self.behind.swap_remove(index))
    }

    /// Whether messages for a follower alone still wait for it.
    pub fn waits_apart(&self, reader: &Reader) -> bool {
        reader.apart < self.newest_apart
    }

    /// Records that this number of sessions hold a message outside the log.
    pub fn share(&mut self, mark: u64, holders: u16) {
        self.unlogged.push((mark, holders));
    }

    /// Records that a session has received the message with this mark: no other session needs to.
    pub fn shared_received(&mut self, mark: u64) {
        self.unlogged.retain(|(other, _)| *other != mark);
    }

    /// Records that a session has ended while holding the message with this mark. Returns whether
    /// it was the last holder.
    pub fn shared_lost(&mut self, mark: u64) -> bool {
        let Some(index) = self.unlogged.iter().position(|(other, _)| *other == mark) else { return false };
        let holders = &mut self.unlogged[index].1;
        *holders = holders.saturating_sub(1);
        let last = *holders == 0;
        if last {
            self.unlogged.swap_remove(index);
        }
        last
    }

    /// Whether this state can be dropped without loss: the user stays `live`, or is away with its
    /// row in the store.
    pub fn is_settled(&self, live: bool) -> bool {
        let gathering = matches!(self.gathering, Gathering::Reading { .. });
        // State rebuilt for a live user knows of no transient entries; state that is read again
        // looks for them.
        let forgets = live && self.transients != Transients::None;
        !self.dirty && !gathering && !forgets && self.behind.is_empty() && self.unlogged.is_empty()
    }

    /// The row to be written, if it has changed, and the number up to which transient entries are
    /// deleted with it. `follows` tells whether a session that is not at the head takes waiting
    /// messages.
    pub fn poll_row(&mut self, follows: impl Fn(SessionId) -> bool) -> Option<(Cursor, Option<u64>)> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        let last = self.behind.iter().filter(|f| follows(f.session)).map(|f| f.entries.at).min();
        let until = last.unwrap_or(u64::MAX).min(self.cursor.number);
        let goes = (self.transients != Transients::None).then_some(until);
        // Some before the cursor are left for a follower that is behind.
        if self.known && until >= self.newest.max(self.cursor.number) {
            self.transients = Transients::None;
        }
        Some((self.cursor, goes))
    }

    /// Marks the row to be written in the next round.
    pub fn touch(&mut self) {
        self.dirty = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(slot: u32) -> SessionId {
        SessionId { slot, generation: 0 }
    }

    #[test]
    fn the_first_to_receive_moves_the_cursor() {
        let mut log = Log::live(0);
        log.received(20);
        log.received(10);
        assert_eq!(log.poll_row(|_| true).map(|(row, _)| row.number), Some(20), "a slower one does not take it back");
        assert_eq!(log.poll_row(|_| true), None, "once");
        assert!(log.is_settled(true));
    }

    #[test]
    fn what_waits_counts_until_one_has_got_it() {
        let mut log = Log::loaded(Cursor { number: 5, count: 2, bytes: 20 });
        log.appended(30, false);
        log.stored(7);
        assert_eq!(log.waiting(), (3, 27));
        log.caught_up(10, 10);
        log.caught_up(10, 10);
        assert_eq!(log.waiting(), (2, 17), "two followers");
        log.drained();
        assert_eq!(log.waiting(), (0, 0));
    }

    #[test]
    fn a_log_at_rest_is_left_by_whatever_comes() {
        let at_rest = || Log::at_rest(Cursor { number: 5, count: 0, bytes: 0 });
        assert!(at_rest().is_at_rest() && at_rest().is_settled(true));
        assert!(!Log::loaded(Cursor::default()).is_at_rest() && !Log::live(5).is_at_rest());
        let comes: [fn(&mut Log); 4] = [
            |log| log.appended(6, false),
            |log| log.set_apart(6),
            |log| log.fall_behind(session(1), 5, 5),
            |log| log.forsaken(),
        ];
        for come in comes {
            let mut log = at_rest();
            come(&mut log);
            assert!(!log.is_at_rest());
        }
    }

    #[test]
    fn transient_entries_stay_for_those_behind() {
        let mut log = Log::live(0);
        log.appended(10, true);
        log.appended(20, true);
        log.fall_behind(session(1), 9, 9);
        log.received(20);
        assert_eq!(log.poll_row(|_| true).unwrap().1, Some(9));
        log.leave(session(1));
        log.touch();
        assert_eq!(log.poll_row(|_| true).unwrap().1, Some(20));
        log.touch();
        assert_eq!(log.poll_row(|_| true).unwrap().1, None, "there are none");
    }

    #[test]
    fn transient_entries_of_an_earlier_process_stay_for_those_behind() {
        let mut log = Log::loaded(Cursor { number: 5, count: 1, bytes: 10 });
        // One session has returned after a restart and has received everything up to 20; the other
        // has not returned yet.
        log.fall_behind(session(1), 9, 9);
        log.received(20);
        log.drained();
        assert_eq!(log.poll_row(|_| true).unwrap().1, Some(9));
        assert!(!log.is_settled(true), "some may be left");
        log.leave(session(1));
        log.drained();
        assert_eq!(log.poll_row(|_| true).unwrap().1, Some(20));
        assert!(log.is_settled(true));
    }

    #[test]
    fn who_rests_holds_nothing_back() {
        let mut log = Log::live(0);
        log.appended(10, true);
        log.fall_behind(session(1), 4, 4);
        log.received(10);
        assert_eq!(log.poll_row(|_| false).unwrap().1, Some(10));
    }

    #[test]
    fn of_an_unlogged_message_one_receiver_is_enough() {
        let mut log = Log::live(0);
        log.share(7, 2);
        assert!(!log.shared_lost(7));
        assert!(log.shared_lost(7), "nobody has it");
        log.share(8, 2);
        log.shared_received(8);
        assert!(!log.shared_lost(8), "received");
        assert!(log.is_settled(true));
    }
}
