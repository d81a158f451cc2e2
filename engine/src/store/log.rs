//! A user's log as a shard keeps it while there is something to keep: how far it is delivered, and which of the user's
//! sessions follow it from behind.
//!
//! Pure bookkeeping over numbers. Whoever takes messages for the bare JID is a *follower*. A follower *at the head* gets an
//! entry in the turn that appends it and stands in no list. One that is *behind* reads the log at its own pace, and holds up
//! nobody. Each follower has begun at or before the cursor and is handed all that waits in order, so what it has acknowledged
//! the cursor may pass: of several the first one counts.

use super::waiting::Cursor;
use crate::id::SessionId;

/// A session that is not at the head of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The session.
    pub session: SessionId,
    /// Entries for all up to this number have been handed to it.
    pub seen: u64,
    /// Messages for it alone up to this number have been handed to it.
    pub apart: u64,
    /// A read is under way.
    pub reading: bool,
}

/// A user's log.
#[derive(Clone, Debug)]
pub struct Log {
    cursor: Cursor,
    /// The cursor's row has changed since it was last asked to be written.
    dirty: bool,
    /// Highest number of an entry that waits, of those appended since the log is known.
    newest: u64,
    /// Highest number of a message for one session alone that was not handed out as it came.
    newest_apart: u64,
    transients: Transients,
    /// A follower has come to the head since the log is known, so that nothing newer than `newest` stands in it.
    known: bool,
    /// Entries up to here count as waiting no more.
    counted: u64,
    /// Those who are not at the head; no more than the user has sessions.
    pub behind: Vec<Follower>,
    /// Messages that stand in no log and that several sessions hold: their marks, and how many. Bounded by what sessions may
    /// hold unacknowledged or unsent.
    unlogged: Vec<(u64, u16)>,
    /// Whether messages that stood apart for sessions that have ended are being looked for.
    pub gathering: Gathering,
}

/// What is known of transient entries in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transients {
    /// The log has been read from its cursor on at most: of those before it some may be left.
    Unknown,
    /// They are being looked for, and none has come since.
    Sought,
    /// There may be some.
    Some,
    /// There are none.
    None,
}

/// Where the search for messages without a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathering {
    /// There may be some.
    Due,
    /// A read is under way.
    Reading {
        /// A session has ended meanwhile: it is to begin again.
        again: bool,
    },
    /// There are none.
    Done,
}

impl Log {
    /// A log as read from the store, with no follower.
    pub fn loaded(cursor: Cursor) -> Log {
        Log {
            cursor,
            dirty: false,
            newest: 0,
            newest_apart: 0,
            transients: Transients::Unknown,
            known: false,
            counted: cursor.number,
            behind: Vec::new(),
            unlogged: Vec::new(),
            gathering: Gathering::Due,
        }
    }

    /// The log of a user of whom a session is at the head and has received all up to this number, without reading its row.
    pub fn live(number: u64) -> Log {
        let cursor = Cursor { number, ..Cursor::default() };
        Log { gathering: Gathering::Done, transients: Transients::None, known: true, ..Log::loaded(cursor) }
    }

    /// The number up to which all is received.
    pub fn cursor(&self) -> u64 {
        self.cursor.number
    }

    /// Messages that wait for a first session, and their bytes.
    pub fn waiting(&self) -> (u32, u64) {
        (self.cursor.count, self.cursor.bytes)
    }

    /// Highest number of an entry that waits, as far as it is known.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The same with messages for one session alone.
    pub fn last(&self) -> u64 {
        self.newest.max(self.newest_apart)
    }

    /// An entry that waits is appended.
    pub fn appended(&mut self, number: u64, transient: bool) {
        self.newest = self.newest.max(number);
        if transient {
            self.transients = Transients::Some;
        }
    }

    /// The number behind which a follower that has seen all up to `seen` asks for transient entries: the first one asks for
    /// those before the cursor as well, so that a user who has none causes no write.
    pub fn transients_from(&mut self, seen: u64) -> u64 {
        match self.transients {
            Transients::Unknown | Transients::Sought => {
                self.transients = Transients::Sought;
                0
            }
            Transients::Some | Transients::None => seen,
        }
    }

    /// Transient entries were asked for from that number on; whether there are any.
    pub fn transients_found(&mut self, any: bool) {
        if self.transients == Transients::Sought {
            self.transients = if any { Transients::Some } else { Transients::None };
        }
    }

    /// A message for one session alone waits for it.
    pub fn set_apart(&mut self, number: u64) {
        self.newest_apart = self.newest_apart.max(number);
    }

    /// A message waits that nobody takes now.
    pub fn stored(&mut self, bytes: usize) {
        self.cursor.count = self.cursor.count.saturating_add(1);
        self.cursor.bytes += bytes as u64;
        self.dirty = true;
    }

    /// An entry is handed to a follower from behind: the first of them takes it off those that wait.
    pub fn caught_up(&mut self, number: u64, bytes: usize) {
        self.newest = self.newest.max(number);
        if number > self.counted {
            self.counted = number;
            self.taken(bytes);
        }
    }

    /// A message does not wait any more.
    pub fn taken(&mut self, bytes: usize) {
        // The figures may be a little low after a crash, hence saturating.
        self.cursor.count = self.cursor.count.saturating_sub(1);
        self.cursor.bytes = self.cursor.bytes.saturating_sub(bytes as u64);
        self.dirty = true;
    }

    /// A follower has come to the head: nothing waits for a first session.
    pub fn drained(&mut self) {
        self.known = true;
        // Of the transient entries before the cursor some may be left.
        self.dirty |= self.transients != Transients::None;
        if (self.cursor.count, self.cursor.bytes) != (0, 0) {
            (self.cursor.count, self.cursor.bytes) = (0, 0);
            self.dirty = true;
        }
    }

    /// A follower has received all up to this number that waited for it.
    pub fn received(&mut self, number: u64) {
        if number > self.cursor.number {
            self.cursor.number = number;
            self.counted = self.counted.max(number);
            self.dirty = true;
        }
    }

    /// All who follow have gone: what was handed out and not received waits again.
    pub fn forsaken(&mut self) {
        self.counted = self.cursor.number;
    }

    /// A session that is not at the head.
    pub fn follower(&mut self, session: SessionId) -> Option<&mut Follower> {
        self.behind.iter_mut().find(|follower| follower.session == session)
    }

    /// Whether a session is not at the head.
    pub fn is_behind(&self, session: SessionId) -> bool {
        self.behind.iter().any(|follower| follower.session == session)
    }

    /// A session follows from behind, or comes to rest there, after what it has been handed.
    pub fn fall_behind(&mut self, session: SessionId, seen: u64, apart: u64) {
        if !self.is_behind(session) {
            self.behind.push(Follower { session, seen, apart, reading: false });
        }
    }

    /// A session is at the head, or follows no more. What is known of its place.
    pub fn leave(&mut self, session: SessionId) -> Option<Follower> {
        let index = self.behind.iter().position(|follower| follower.session == session)?;
        Some(self.behind.swap_remove(index))
    }

    /// Whether messages for a follower alone still wait for it.
    pub fn waits_apart(&self, follower: &Follower) -> bool {
        follower.apart < self.newest_apart
    }

    /// Messages of whom several sessions hold one that stands in no log.
    pub fn share(&mut self, mark: u64, holders: u16) {
        self.unlogged.push((mark, holders));
    }

    /// A session has received the message of this mark: nobody else need.
    pub fn shared_received(&mut self, mark: u64) {
        self.unlogged.retain(|(other, _)| *other != mark);
    }

    /// A session has ended with the message of this mark. Returns whether now nobody has it.
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

    /// Whether nothing is lost when this state is dropped and the user stays `live`, or away with its row in the store.
    pub fn is_settled(&self, live: bool) -> bool {
        let gathering = matches!(self.gathering, Gathering::Reading { .. });
        // What is made anew for a live user knows of no transient entries, what is read anew looks for them.
        let forgets = live && self.transients != Transients::None;
        !self.dirty && !gathering && !forgets && self.behind.is_empty() && self.unlogged.is_empty()
    }

    /// The row to be written, if it has changed, and the number up to which transient entries go with it.
    /// `follows` tells whether a session that is not at the head takes what waits.
    pub fn poll_row(&mut self, follows: impl Fn(SessionId) -> bool) -> Option<(Cursor, Option<u64>)> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        let last = self.behind.iter().filter(|f| follows(f.session)).map(|f| f.seen).min();
        let until = last.unwrap_or(u64::MAX).min(self.cursor.number);
        let goes = (self.transients != Transients::None).then_some(until);
        // Of those before the cursor some are left for one that is behind.
        if self.known && until >= self.newest.max(self.cursor.number) {
            self.transients = Transients::None;
        }
        Some((self.cursor, goes))
    }

    /// The row is to be written with the next round.
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
        // One has come back after a restart and has received all up to 20, the other one has not come yet.
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
