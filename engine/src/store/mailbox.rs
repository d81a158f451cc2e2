//! The mailbox of one user as a shard keeps it while there is something to keep: which messages are handed out and not
//! yet known to be received, and how far the delivered-cursor may go.
//!
//! Pure bookkeeping over ids. The shard carries out what it says; this room knows neither sessions nor rows' bytes.

use std::collections::{BTreeSet, VecDeque};

use super::archive::MailboxRow;

/// A message that is handed to sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outstanding {
    id: u64,
    /// Sessions that have it and have not said so.
    holders: u16,
    /// It has a returned row.
    returned: bool,
}

/// Where the user's mailbox stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No session takes messages for the bare JID: what comes waits.
    Away,
    /// Waiting entries are being handed out in order; what comes goes behind them.
    Replaying {
        /// Entries up to here are handed out.
        position: u64,
        /// Returned entries still to be handed out, ascending; bounded by what one look at the mailbox's rows brings.
        returned: VecDeque<u64>,
        /// Entries behind the position that have a returned row: handed out when the replay comes to them.
        later: BTreeSet<u64>,
        /// A read is under way.
        reading: bool,
    },
    /// Nothing waits: what comes goes to the sessions at once.
    Live,
}

/// What becomes of a message whose holder ended without having received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Another session has received it, or still has it.
    Cared,
    /// No one has it: it waits again. `row` says whether a returned row must be written.
    Waits {
        /// Write a returned row.
        row: bool,
    },
}

/// State of one mailbox.
#[derive(Clone, Debug)]
pub struct Mailbox {
    /// Figures of the row, as they are or will be written.
    row: MailboxRow,
    /// The row has changed since it was last asked to be written.
    dirty: bool,
    /// Highest id known to be in the archive's mailbox part.
    newest: u64,
    /// Bounded by what sessions may hold unacknowledged or unsent.
    outstanding: VecDeque<Outstanding>,
    /// Entries up to here have been handed out, or have returned rows: a replay begins behind it. Matters while an
    /// outstanding message holds the cursor back.
    handed: u64,
    /// Where it stands.
    pub phase: Phase,
}

impl Mailbox {
    /// A mailbox as read from the store, with no session.
    pub fn loaded(row: MailboxRow) -> Mailbox {
        Mailbox {
            row,
            dirty: false,
            newest: row.cursor,
            outstanding: VecDeque::new(),
            handed: row.cursor,
            phase: Phase::Away,
        }
    }

    /// The mailbox of a user whose sessions have received all up to this id, without reading its row.
    pub fn live(up_to: u64) -> Mailbox {
        Mailbox { phase: Phase::Live, ..Mailbox::loaded(MailboxRow { cursor: up_to, ..MailboxRow::default() }) }
    }

    /// A session takes messages: what waits is handed out, the returned entries first. `rows` are the ids of the returned
    /// rows as they were read.
    pub fn start_replay(&mut self, mut rows: BTreeSet<u64>) {
        // What a session still holds comes back by itself if it is not received.
        rows.retain(|&id| !self.is_outstanding(id));
        let position = self.row.cursor.max(self.handed);
        let later = rows.split_off(&(position + 1));
        self.phase = Phase::Replaying { position, returned: rows.into_iter().collect(), later, reading: false };
    }

    /// Whether a session holds the message.
    pub fn is_outstanding(&self, id: u64) -> bool {
        self.outstanding.iter().any(|o| o.id == id)
    }

    /// The replay has come to this entry, which carries the mailbox mark if `waits`: whether it is to be handed out, and
    /// if so whether it has a returned row.
    pub fn meets(&mut self, id: u64, waits: bool) -> Option<bool> {
        let Phase::Replaying { position, later, .. } = &mut self.phase else { return None };
        *position = (*position).max(id);
        if later.remove(&id) {
            return Some(true);
        }
        (waits && !self.is_outstanding(id)).then_some(false)
    }

    /// Messages and bytes that wait.
    pub fn waiting(&self) -> (u32, u64) {
        (self.row.count, self.row.bytes)
    }

    /// Messages handed out and not known to be received.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Whether nothing is lost when this state is dropped and the user stays live, or away with its row in the store.
    pub fn is_settled(&self) -> bool {
        self.outstanding.is_empty() && !self.dirty && !matches!(self.phase, Phase::Replaying { .. })
    }

    /// An entry with the mailbox mark was written and waits.
    pub fn stored(&mut self, id: u64, bytes: usize) {
        self.newest = self.newest.max(id);
        self.row.count = self.row.count.saturating_add(1);
        self.row.bytes += bytes as u64;
        self.dirty = true;
    }

    /// A waiting entry was taken off to be handed out.
    fn unstored(&mut self, bytes: usize) {
        // The figures may be a little low after a crash (live messages are not counted), hence saturating.
        self.row.count = self.row.count.saturating_sub(1);
        self.row.bytes = self.row.bytes.saturating_sub(bytes as u64);
        self.dirty = true;
    }

    /// A message is handed to `holders` sessions as it comes. `returned`: it has a returned row.
    pub fn handed(&mut self, id: u64, holders: u16, returned: bool) {
        if !returned {
            self.newest = self.newest.max(id);
        }
        self.outstanding.push_back(Outstanding { id, holders, returned });
    }

    /// The waiting entry `id` is handed out in a replay.
    pub fn replayed(&mut self, id: u64, bytes: usize, holders: u16, returned: bool) {
        self.unstored(bytes);
        self.handed(id, holders, returned);
        if let (Phase::Replaying { position, .. }, false) = (&mut self.phase, returned) {
            *position = (*position).max(id);
        }
    }

    /// Whether a replay that has read to the end of the archive is at the end of the mailbox too.
    pub fn is_at_end(&self) -> bool {
        matches!(&self.phase, Phase::Replaying { position, returned, .. }
            if *position >= self.newest && returned.is_empty())
    }

    /// The mailbox is empty: the figures are set right and the user is live. Returns the returned rows whose entries are
    /// not there any more.
    pub fn drained(&mut self) -> BTreeSet<u64> {
        let gone = match std::mem::replace(&mut self.phase, Phase::Live) {
            Phase::Replaying { position, later, .. } => {
                // The last entries may have had returned rows, which `newest` does not count: they are behind, too.
                self.newest = self.newest.max(position);
                later
            }
            Phase::Away | Phase::Live => BTreeSet::new(),
        };
        if (self.row.count, self.row.bytes) != (0, 0) {
            (self.row.count, self.row.bytes) = (0, 0);
            self.dirty = true;
        }
        self.advance();
        gone
    }

    /// From live back to replaying: the sessions have fallen behind, what comes waits.
    pub fn fall_behind(&mut self) {
        if self.phase == Phase::Live {
            let (returned, later) = (VecDeque::new(), BTreeSet::new());
            self.phase = Phase::Replaying { position: self.newest, returned, later, reading: false };
        }
    }

    /// A session has received the messages. Returns those whose returned rows must go.
    pub fn received(&mut self, ids: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut returned = Vec::new();
        for id in ids {
            let Some(index) = self.outstanding.iter().position(|o| o.id == id) else { continue };
            if self.outstanding.remove(index).is_some_and(|o| o.returned) {
                returned.push(id);
            }
        }
        self.advance();
        returned
    }

    /// A message that stands in no archive was handed to `holders` sessions under a mark that is no archive id.
    pub fn handed_unarchived(&mut self, mark: u64, holders: u16) {
        self.outstanding.push_back(Outstanding { id: mark, holders, returned: true });
    }

    /// A session has received the message of this mark.
    pub fn received_unarchived(&mut self, mark: u64) {
        self.outstanding.retain(|o| o.id != mark);
    }

    /// A session that held the message of this mark has ended. Returns whether no one has it.
    pub fn lost_unarchived(&mut self, mark: u64) -> bool {
        let Some(index) = self.outstanding.iter().position(|o| o.id == mark) else { return false };
        let held = &mut self.outstanding[index];
        held.holders = held.holders.saturating_sub(1);
        let last = held.holders == 0;
        if last {
            self.outstanding.remove(index);
        }
        last
    }

    /// A session that held the message has ended.
    pub fn lost(&mut self, id: u64, bytes: usize) -> Lost {
        let Some(index) = self.outstanding.iter().position(|o| o.id == id) else { return Lost::Cared };
        let held = &mut self.outstanding[index];
        held.holders = held.holders.saturating_sub(1);
        if held.holders > 0 {
            return Lost::Cared;
        }
        let row = !held.returned;
        self.outstanding.remove(index);
        self.returns(id, bytes);
        self.advance();
        Lost::Waits { row }
    }

    /// A message that was handed out waits again, with a returned row.
    pub fn returns(&mut self, id: u64, bytes: usize) {
        self.fall_behind();
        self.row.count = self.row.count.saturating_add(1);
        self.row.bytes += bytes as u64;
        self.dirty = true;
        if let Phase::Replaying { returned, .. } = &mut self.phase {
            let at = returned.partition_point(|&other| other < id);
            returned.insert(at, id);
        }
    }

    /// The last session that takes messages has gone. If the user was live, all up to the id `live_up_to` is delivered
    /// but for what is outstanding.
    pub fn away(&mut self, live_up_to: Option<u64>) {
        let handed = match (&self.phase, live_up_to) {
            (_, Some(id)) => id.max(self.newest),
            (Phase::Live, None) => self.newest,
            (Phase::Replaying { position, .. }, None) => *position,
            (Phase::Away, None) => self.handed,
        };
        self.handed = self.handed.max(handed);
        self.phase = Phase::Away;
        self.advance();
    }

    /// Raises the cursor to just before the first entry that is not delivered. Entries with a returned row do not hold
    /// it: the row cares for them.
    fn advance(&mut self) {
        let end = match &self.phase {
            Phase::Live => self.newest,
            Phase::Replaying { position, .. } => *position,
            Phase::Away => self.handed,
        };
        let first = self.outstanding.iter().filter(|o| !o.returned).map(|o| o.id - 1).min();
        let cursor = first.unwrap_or(end).min(end);
        if cursor > self.row.cursor {
            self.row.cursor = cursor;
            self.dirty = true;
        }
    }

    /// The row to be written, if it has changed.
    pub fn poll_row(&mut self) -> Option<MailboxRow> {
        std::mem::take(&mut self.dirty).then_some(self.row)
    }

    /// The figures as they stand.
    pub fn row(&self) -> MailboxRow {
        self.row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_follows_what_is_received() {
        let mut mailbox = Mailbox::live(0);
        mailbox.handed(10, 1, false);
        mailbox.handed(20, 1, false);
        mailbox.received([20]);
        assert_eq!(mailbox.poll_row().map(|r| r.cursor), Some(9), "10 is still out");
        mailbox.received([10]);
        assert_eq!(mailbox.poll_row().map(|r| r.cursor), Some(20));
        assert!(mailbox.is_settled());
    }

    #[test]
    fn one_of_two_holders_is_enough() {
        let mut mailbox = Mailbox::live(0);
        mailbox.handed(10, 2, false);
        assert_eq!(mailbox.lost(10, 5), Lost::Cared);
        mailbox.received([10]);
        assert_eq!(mailbox.lost(10, 5), Lost::Cared);
        assert_eq!(mailbox.waiting(), (0, 0));
    }

    #[test]
    fn a_lost_message_gets_a_row_and_the_cursor_passes_it() {
        let mut mailbox = Mailbox::live(0);
        mailbox.handed(10, 1, false);
        mailbox.handed(20, 1, false);
        mailbox.received([20]);
        assert_eq!(mailbox.lost(10, 5), Lost::Waits { row: true });
        assert_eq!(mailbox.row(), MailboxRow { cursor: 20, count: 1, bytes: 5 });
    }

    #[test]
    fn what_a_session_has_in_its_hands_is_not_replayed() {
        let mut mailbox = Mailbox::loaded(MailboxRow { cursor: 20, count: 2, bytes: 10 });
        mailbox.handed(25, 1, true);
        mailbox.start_replay([10, 25].into());
        assert!(
            matches!(&mailbox.phase, Phase::Replaying { returned, later, .. } if *returned == [10] && later.is_empty())
        );
    }

    #[test]
    fn replay_takes_returned_entries_and_then_the_rest() {
        let mut mailbox = Mailbox::loaded(MailboxRow { cursor: 20, count: 2, bytes: 10 });
        mailbox.start_replay([10].into());
        if let Phase::Replaying { returned, .. } = &mut mailbox.phase {
            returned.pop_front();
        }
        mailbox.replayed(10, 5, 1, true);
        assert_eq!(mailbox.meets(30, true), Some(false));
        mailbox.replayed(30, 5, 1, false);
        assert!(mailbox.is_at_end());
        mailbox.stored(40, 5);
        assert!(!mailbox.is_at_end(), "what came meanwhile waits behind");
        mailbox.replayed(40, 5, 1, false);
        mailbox.drained();
        assert_eq!(mailbox.received([10]), [10], "its row must go");
        mailbox.received([30]);
        mailbox.received([40]);
        assert_eq!(mailbox.row(), MailboxRow { cursor: 40, count: 0, bytes: 0 });
    }

    #[test]
    fn a_replay_hands_out_nothing_twice() {
        let mut mailbox = Mailbox::live(0);
        for id in [10, 20, 30] {
            mailbox.handed(id, 1, false);
        }
        mailbox.received([20]);
        mailbox.away(Some(30));
        assert_eq!(mailbox.row().cursor, 9, "10 and 30 are still out");
        mailbox.start_replay(BTreeSet::new());
        assert!(matches!(&mailbox.phase, Phase::Replaying { position: 30, returned, .. } if returned.is_empty()));
        assert_eq!(mailbox.lost(30, 5), Lost::Waits { row: true });
        assert!(matches!(&mailbox.phase, Phase::Replaying { returned, .. } if *returned == [30]));
    }

    #[test]
    fn a_returned_entry_behind_the_cursor_waits_for_its_turn() {
        // 20 was lost while 10 was still out, and then the process died.
        let mut mailbox = Mailbox::loaded(MailboxRow { cursor: 9, count: 2, bytes: 10 });
        mailbox.start_replay([20].into());
        assert!(matches!(&mailbox.phase, Phase::Replaying { returned, .. } if returned.is_empty()));
        assert_eq!(mailbox.meets(10, true), Some(false));
        mailbox.replayed(10, 5, 1, false);
        assert_eq!(mailbox.meets(20, true), Some(true), "once, and its row goes when it is received");
    }

    #[test]
    fn what_is_delivered_last_is_behind_the_cursor_with_a_returned_row_too() {
        // 20 was lost while 10 was still out, the process died, and both came to the next session.
        let mut mailbox = Mailbox::loaded(MailboxRow { cursor: 9, count: 2, bytes: 10 });
        mailbox.start_replay([20].into());
        for (id, row) in [(10, false), (20, true)] {
            assert_eq!(mailbox.meets(id, true), Some(row));
            mailbox.replayed(id, 5, 1, row);
        }
        assert!(mailbox.is_at_end());
        assert!(mailbox.drained().is_empty());
        assert!(mailbox.received([10]).is_empty());
        assert_eq!(mailbox.received([20]), [20], "its row must go");
        assert_eq!(mailbox.row(), MailboxRow { cursor: 20, count: 0, bytes: 0 });
        // Or the session, behind with something else, would get 20 a second time.
        mailbox.fall_behind();
        assert!(matches!(mailbox.phase, Phase::Replaying { position: 20, .. }));
    }
}
