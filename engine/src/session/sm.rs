//! Stream management (XEP-0198): both counts of one session, and the obligations of both sides.
//!
//! Pure bookkeeping. A stanza counts as handled only when the component responsible for it has
//! confirmed it. Counts advance in order, whatever the order of the confirmations (XEP-0198 4).

use std::collections::VecDeque;

use crate::id::{Border, Crosses, mark};
use crate::store::sessions::{Key, Step};

pub use crate::store::sessions::TOKEN_BYTES;

/// A stanza that was sent and not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unacked {
    /// Its bytes as sent, without a delay stamp.
    pub xml: Box<[u8]>,
    /// Its mark in the user's log ([`mark`]); 0 if it is not a message that may wait.
    pub id: u64,
}

impl Unacked {
    /// Clears the mark of a copy or a push, which wait nowhere: their marks matter only for their
    /// count.
    fn forget_copy(&mut self) {
        if self.id & (mark::COPY | mark::PUSH) != 0 {
            self.id = 0;
        }
    }

    /// Whether it is a message that may wait.
    pub fn may_wait(&self) -> bool {
        self.id != 0 && self.id & (mark::COPY | mark::PUSH) == 0
    }
}

/// The peer acknowledged more than was sent (XEP-0198 4: `<handled-count-too-high/>`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandledTooHigh {
    /// The count that the peer acknowledged.
    pub h: u32,
    /// The number of stanzas sent.
    pub sent: u32,
}

/// Stream management of one session. While idle it has two empty queues.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Managed {
    /// Random part of the `previd`.
    pub token: [u8; TOKEN_BYTES],
    /// Seconds for which the session may be resumed; 0 if it may not.
    pub resume_s: u32,
    /// The connection that resumes the session once no stanza is in flight.
    pub waiting: Option<crate::id::ConnId>,
    /// The session's tag in its user's log; 0 if the session is not stored.
    pub tag: u32,
    /// Number of times that its counts have been written; 0 while it is not in the store.
    pub serial: u32,
    /// The incarnation of its account.
    pub incarnation: u64,
    /// Seconds for which it had waited to be resumed before this process began.
    pub late_s: u32,
    /// The highest entry number such that everything up to it was sent to the session.
    top: u64,
    /// The counts that were last written.
    written: (u32, u32),
    /// What the next writing of rows must include.
    pub due: Rows,
    /// Whether it began before this process.
    pub restored: bool,
    /// Whether it has been waiting since before this process began. What its client has received is
    /// then unknown.
    dormant: bool,
    received: u32,
    handled: u32,
    /// The `h` that could be reported after a crash, given what has been written.
    proved: u32,
    /// Entries of stanzas after `proved` have higher numbers.
    from: u64,
    /// Stanzas that the log has from before a crash although they are not counted. A repeated one
    /// is not new.
    had: Option<Box<Had>>,
    /// Flags of each stanza after `handled`. Bounded: beyond `in_flight_max` the peer is not read
    /// from.
    window: VecDeque<u8>,
    /// The value of `received` when the peer requested an acknowledgement. The answer is sent when
    /// `handled` reaches it.
    answer_at: Option<u32>,
    sent: u32,
    /// Bounded by bytes. Beyond `outbound_bytes_soft`, messages stay in the log. Beyond
    /// `outbound_bytes_max`, nothing more of others is sent. Beyond twice that, a session that
    /// keeps sending requests ends.
    unacked: VecDeque<Unacked>,
    #[serde(skip)]
    unacked_bytes: usize,
    asked: bool,
}

/// Stanzas to search the log for after a crash, instead of writing counts before it. The cost
/// arises in either case.
const FAR: u32 = 1_000;

/// The stanza is safe.
const DONE: u8 = 1;
/// A log entry records that it was sent.
const LOGGED: u8 = 2;

/// What must be written of a session, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Rows {
    /// Nothing.
    #[default]
    None,
    /// All rows, with the next round.
    Soon,
    /// The counts, with this turn.
    Counts,
    /// All rows, with this turn.
    All,
}

/// Numbers of stanzas, and of the entries that they already have; in order.
pub type Had = VecDeque<(u32, u64)>;

/// It has no monotonic time. The connection that waits for it is the sender's, and crosses with it.
impl Crosses for Managed {
    fn cross(&mut self, border: Border) {
        if matches!(border, Border::Arrives(_)) {
            self.unacked_bytes = self.unacked.iter().map(|unacked| unacked.xml.len()).sum();
        }
    }
}

impl Managed {
    /// A session that has been waiting since before this process began. Its tag follows from its
    /// key, which takes the place of the token.
    pub fn dormant(key: Key, resume_s: u32, serial: u32, late_s: u32) -> Managed {
        let mut managed = Managed::new(key.0, resume_s);
        (managed.tag, managed.serial, managed.late_s) = (key.tag(), serial, late_s);
        (managed.restored, managed.dormant) = (true, true);
        managed
    }

    /// Whether it has been waiting since before this process began.
    pub fn is_dormant(&self) -> bool {
        self.dormant
    }

    /// Its key in the store.
    pub fn key(&self) -> Key {
        if self.dormant { Key(self.token) } else { Key::of(&self.token) }
    }

    /// The client of a dormant session has returned: it has received `h` stanzas, and this many of
    /// its own were handled. Stanzas sent to the session since then follow.
    pub fn awake(
        &mut self,
        token: [u8; TOKEN_BYTES],
        h: u32,
        handled: u32,
        last_number: u64,
        had: Had,
        pushes: Vec<Box<[u8]>>,
    ) {
        // They were sent before all later stanzas.
        for xml in pushes.into_iter().rev() {
            self.unacked_bytes += xml.len();
            self.unacked.push_front(Unacked { xml, id: mark::PUSH });
        }
        (self.token, self.dormant, self.late_s) = (token, false, 0);
        self.sent = h.wrapping_add(self.unacked.len() as u32);
        // Stanzas that are logged and not counted must be found again after the next crash.
        let from = had.front().map_or(last_number, |(_, entry)| entry - 1);
        (self.received, self.handled, self.proved, self.from) = (handled, handled, handled, from);
        self.had = (!had.is_empty()).then(|| Box::new(had));
    }

    /// The entry that the stanza of this number already has.
    pub fn had(&mut self, seq: u32) -> Option<u64> {
        let had = self.had.as_mut()?;
        while had.front().is_some_and(|(first, _)| (seq.wrapping_sub(*first) as i32) > 0) {
            had.pop_front();
        }
        let entry = had.front().filter(|(first, _)| *first == seq).map(|(_, entry)| *entry);
        if had.is_empty() {
            self.had = None;
        }
        entry
    }

    /// What the entry of a stanza that has just arrived records about it. Also marks the stanza as
    /// logged.
    pub fn logged(&mut self, seq: u32) -> Option<Step> {
        if self.tag == 0 {
            return None;
        }
        let index = seq.wrapping_sub(self.handled).wrapping_sub(1) as usize;
        *self.window.get_mut(index)? |= LOGGED;
        Some(Step::Sent { tag: self.tag, seq, open: u16::try_from(self.window.len()).unwrap_or(u16::MAX) })
    }

    /// Whether more is handled than could be reported after a crash.
    pub fn is_unproved(&self) -> bool {
        self.serial > 0 && self.proved != self.handled
    }

    /// Its counts are written and can be reported after a crash. Returns a number below that of all
    /// later entries.
    pub fn prove(&mut self, last_number: u64) -> u64 {
        self.serial = self.serial.saturating_add(1);
        self.proved = self.handled;
        if self.window.is_empty() && self.had.is_none() {
            self.from = last_number;
        }
        self.written = (self.handled, self.sent);
        self.from
    }

    /// Unacknowledged roster pushes, with their place in the count.
    pub fn pushes(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let first = self.sent.wrapping_sub(self.unacked.len() as u32);
        let all = self.unacked.iter().zip(1u32..).map(move |(unacked, n)| (first.wrapping_add(n), unacked));
        all.filter(|(_, unacked)| unacked.id == mark::PUSH).map(|(count, unacked)| (count, &*unacked.xml))
    }

    /// Marks the stanza sent last as a roster push. Returns the number of pushes.
    pub fn pushed(&mut self) -> usize {
        if let Some(last) = self.unacked.back_mut() {
            last.id = mark::PUSH;
        }
        self.unacked.iter().filter(|unacked| unacked.id == mark::PUSH).count()
    }

    /// The highest entry number such that everything up to it was sent to the session.
    pub fn top(&self) -> u64 {
        self.top
    }

    /// Sets that number for a session that began before this process.
    pub fn set_top(&mut self, number: u64) {
        self.top = number;
    }

    /// Whether the counts have changed since they were written.
    pub fn moved(&self) -> bool {
        self.serial > 0 && !self.dormant && self.written != (self.handled, self.sent)
    }

    /// Whether they have changed so much that searching the log for the difference would take long.
    pub fn moved_far(&self) -> bool {
        let (handled, sent) = self.written;
        self.moved() && self.handled.wrapping_sub(handled).max(self.sent.wrapping_sub(sent)) > FAR
    }

    /// The mark of the stanza sent last; 0 if none is unacknowledged.
    pub fn last_sent(&self) -> u64 {
        self.unacked.back().map_or(0, |unacked| unacked.id)
    }

    /// Messages sent and not acknowledged, with their place in the count and their marks.
    pub fn held(&self) -> impl Iterator<Item = (u32, u64)> {
        let first = self.sent.wrapping_sub(self.unacked.len() as u32);
        let all = self.unacked.iter().zip(1u32..).map(move |(unacked, n)| (first.wrapping_add(n), unacked.id));
        all.filter(|(_, id)| id & !mark::PUSH != 0)
    }

    /// Begins stream management (XEP-0198 3).
    pub fn new(token: [u8; TOKEN_BYTES], resume_s: u32) -> Managed {
        Managed {
            token,
            resume_s,
            waiting: None,
            tag: 0,
            serial: 0,
            incarnation: 0,
            top: 0,
            written: (0, 0),
            late_s: 0,
            due: Rows::None,
            restored: false,
            dormant: false,
            received: 0,
            handled: 0,
            proved: 0,
            from: 0,
            had: None,
            window: VecDeque::new(),
            answer_at: None,
            sent: 0,
            unacked: VecDeque::new(),
            unacked_bytes: 0,
            asked: false,
        }
    }

    /// Counts an inbound stanza and returns its number. Existing entries have numbers up to
    /// `last_number`.
    pub fn receive(&mut self, last_number: u64) -> u32 {
        self.received = self.received.wrapping_add(1);
        if self.window.is_empty() && self.proved == self.handled && self.had.is_none() {
            self.from = last_number;
        }
        self.window.push_back(0);
        self.received
    }

    /// The stanza of this number is safe. Unknown and repeated numbers are ignored.
    pub fn done(&mut self, seq: u32) {
        let index = seq.wrapping_sub(self.handled).wrapping_sub(1) as usize;
        if let Some(flag) = self.window.get_mut(index) {
            *flag |= DONE;
        }
        while let Some(flags) = self.window.front().filter(|flags| **flags & DONE != 0) {
            if flags & LOGGED != 0 && self.proved == self.handled {
                self.proved = self.proved.wrapping_add(1);
            }
            self.window.pop_front();
            self.handled = self.handled.wrapping_add(1);
        }
        if self.window.is_empty() && self.window.capacity() > 64 {
            self.window = VecDeque::new();
        }
    }

    /// Number of stanzas sent, as counted for the peer.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Number of stanzas received and not yet safe.
    pub fn under_way(&self) -> usize {
        self.window.len()
    }

    /// The `h` of this side: the number of stanzas handled.
    pub fn handled(&self) -> u32 {
        self.handled
    }

    /// The peer has sent `<r/>`.
    pub fn peer_asks(&mut self) {
        self.answer_at = Some(self.received);
    }

    /// The `h` to answer with now, if the peer requested it and all stanzas that it had sent by
    /// then are safe.
    pub fn poll_answer(&mut self) -> Option<u32> {
        let at = self.answer_at?;
        let behind = at.wrapping_sub(self.handled);
        if behind == 0 || behind > u32::MAX / 2 {
            self.answer_at = None;
            return Some(self.handled);
        }
        None
    }

    /// Records a stanza that is sent; `id` is its archive id or 0.
    pub fn send(&mut self, xml: &[u8], id: u64) {
        self.send_ahead(xml, id, 0);
    }

    /// Records a stanza that is sent ahead of `overtaken` earlier stanzas that have not left yet.
    pub fn send_ahead(&mut self, xml: &[u8], id: u64, overtaken: usize) {
        self.sent = self.sent.wrapping_add(1);
        if mark::holds_cursor(id) {
            self.top = self.top.max(mark::number(id));
        }
        self.unacked_bytes += xml.len();
        let at = self.unacked.len().saturating_sub(overtaken);
        self.unacked.insert(at, Unacked { xml: xml.into(), id });
    }

    /// Memory used, bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Managed>()
            + self.window.capacity()
            + self.unacked.capacity() * size_of::<Unacked>()
            + self.unacked_bytes
    }

    /// Whether to append `<r/>` to the output now. One request is then outstanding until an `<a/>`
    /// arrives.
    pub fn poll_request(&mut self) -> bool {
        let ask = !self.asked && !self.unacked.is_empty();
        self.asked |= ask;
        ask
    }

    /// The peer acknowledges up to `h`. Returns the stanzas that this removes from the queue.
    ///
    /// # Errors
    /// [`HandledTooHigh`] if more is acknowledged than was sent.
    pub fn acknowledge(&mut self, h: u32) -> Result<Vec<Unacked>, HandledTooHigh> {
        let open = self.unacked.len() as u32;
        let acked = self.sent.wrapping_sub(open);
        let n = h.wrapping_sub(acked);
        if n > open {
            return Err(HandledTooHigh { h, sent: self.sent });
        }
        self.asked = false;
        let mut taken: Vec<Unacked> = self.unacked.drain(..n as usize).collect();
        taken.iter_mut().for_each(Unacked::forget_copy);
        self.unacked_bytes -= taken.iter().map(|u| u.xml.len()).sum::<usize>();
        if self.unacked.is_empty() {
            self.unacked = VecDeque::new();
        }
        Ok(taken)
    }

    /// The stream is resumed (XEP-0198 5): outstanding requests of both sides on the old connection
    /// are void.
    pub fn resumed(&mut self) {
        self.asked = false;
        self.answer_at = None;
    }

    /// Stanzas to send again after resumption.
    pub fn unacked(&self) -> impl Iterator<Item = &Unacked> {
        self.unacked.iter()
    }

    /// The number of the first message that the cursor of the user's log waits for.
    pub fn first_held(&self) -> Option<u64> {
        let held = self.unacked.iter().map(|unacked| unacked.id).find(|&id| mark::holds_cursor(id));
        held.map(mark::number)
    }

    /// Takes all unacknowledged stanzas, because the session ends.
    pub fn take_unacked(&mut self) -> VecDeque<Unacked> {
        self.unacked_bytes = 0;
        self.unacked.iter_mut().for_each(Unacked::forget_copy);
        std::mem::take(&mut self.unacked)
    }

    /// Number of stanzas sent and not acknowledged.
    pub fn unacked_len(&self) -> usize {
        self.unacked.len()
    }

    /// Bytes of the stanzas sent and not acknowledged.
    pub fn unacked_bytes(&self) -> usize {
        self.unacked_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managed() -> Managed {
        Managed::new([0; TOKEN_BYTES], 60)
    }

    #[test]
    fn handled_advances_in_order_xep0198_4() {
        let mut sm = managed();
        let (a, b, c) = (sm.receive(0), sm.receive(0), sm.receive(0));
        sm.done(b);
        assert_eq!(sm.handled(), 0, "the first is still under way");
        sm.done(a);
        assert_eq!(sm.handled(), 2);
        sm.done(a);
        sm.done(c);
        assert_eq!((sm.handled(), sm.under_way()), (3, 0));
    }

    #[test]
    fn an_answer_waits_for_what_came_before_the_question() {
        let mut sm = managed();
        let a = sm.receive(0);
        sm.peer_asks();
        assert_eq!(sm.poll_answer(), None);
        let b = sm.receive(0);
        sm.done(a);
        assert_eq!(sm.poll_answer(), Some(1));
        assert_eq!(sm.poll_answer(), None, "one answer a question");
        sm.done(b);
        sm.peer_asks();
        assert_eq!(sm.poll_answer(), Some(2));
    }

    #[test]
    fn acknowledging_too_much_is_an_error_xep0198_4() {
        let mut sm = managed();
        sm.send(b"<message/>", 1);
        sm.send(b"<message/>", 2);
        assert!(sm.poll_request());
        assert!(!sm.poll_request(), "one request under way");
        assert_eq!(sm.acknowledge(3), Err(HandledTooHigh { h: 3, sent: 2 }));
        assert_eq!(sm.acknowledge(1).unwrap()[0].id, 1);
        assert_eq!(sm.acknowledge(0), Err(HandledTooHigh { h: 0, sent: 2 }), "counts do not go back");
        assert_eq!((sm.unacked_len(), sm.unacked_bytes()), (1, 10));
        assert!(sm.poll_request());
    }

    #[test]
    fn counts_wrap_at_two_to_the_32_xep0198_4() {
        let mut sm = managed();
        sm.sent = u32::MAX;
        sm.received = u32::MAX;
        sm.handled = u32::MAX;
        let seq = sm.receive(0);
        assert_eq!(seq, 0);
        sm.done(seq);
        assert_eq!(sm.handled(), 0);
        sm.send(b"<message/>", 9);
        assert_eq!(sm.acknowledge(0).unwrap().len(), 1);
    }
}
