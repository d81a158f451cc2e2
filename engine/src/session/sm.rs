//! Stream management (XEP-0198): both counts of one session, what it still owes and what it is still owed.
//!
//! Pure bookkeeping. A stanza counts as handled only when whoever is responsible for it has said so, and counts advance
//! in order, whatever the order of those answers (XEP-0198 4).

use std::collections::VecDeque;

use crate::id::mark;

/// Longest `previd` in bytes.
pub const TOKEN_BYTES: usize = 16;

/// A stanza sent and not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unacked {
    /// Its bytes as sent, without a delay stamp.
    pub xml: Box<[u8]>,
    /// What the user's log knows it by ([`mark`]); 0 if it is not a message that may wait.
    pub id: u64,
}

/// The peer acknowledged more than was sent (XEP-0198 4: `<handled-count-too-high/>`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandledTooHigh {
    /// What the peer said.
    pub h: u32,
    /// What was sent.
    pub sent: u32,
}

/// Stream management of one session. Idle it holds two empty queues.
#[derive(Debug)]
pub struct Managed {
    /// Random part of the `previd`.
    pub token: [u8; TOKEN_BYTES],
    /// Seconds for which the session may be resumed; 0 if it may not.
    pub resume_s: u32,
    /// The connection that resumes the session once nothing is under way any more.
    pub waiting: Option<crate::id::ConnId>,
    received: u32,
    handled: u32,
    /// One flag a stanza after `handled`: safe or not yet. Bounded: beyond `in_flight_max` the peer is not read from.
    window: VecDeque<bool>,
    /// The peer asked when `received` stood here; it is answered when `handled` gets there.
    answer_at: Option<u32>,
    sent: u32,
    /// Bounded by bytes: messages stay in the log beyond `outbound_bytes_soft`, nothing more of others comes beyond
    /// `outbound_bytes_max`, and who asks on beyond twice as much ends.
    unacked: VecDeque<Unacked>,
    unacked_bytes: usize,
    asked: bool,
}

impl Managed {
    /// Stream management has just been enabled (XEP-0198 3).
    pub fn new(token: [u8; TOKEN_BYTES], resume_s: u32) -> Managed {
        Managed {
            token,
            resume_s,
            waiting: None,
            received: 0,
            handled: 0,
            window: VecDeque::new(),
            answer_at: None,
            sent: 0,
            unacked: VecDeque::new(),
            unacked_bytes: 0,
            asked: false,
        }
    }

    /// A stanza came; returns its number.
    pub fn receive(&mut self) -> u32 {
        self.received = self.received.wrapping_add(1);
        self.window.push_back(false);
        self.received
    }

    /// The stanza of this number is in safe hands. Unknown and repeated numbers change nothing.
    pub fn done(&mut self, seq: u32) {
        let index = seq.wrapping_sub(self.handled).wrapping_sub(1) as usize;
        if let Some(flag) = self.window.get_mut(index) {
            *flag = true;
        }
        while self.window.front() == Some(&true) {
            self.window.pop_front();
            self.handled = self.handled.wrapping_add(1);
        }
        if self.window.is_empty() && self.window.capacity() > 64 {
            self.window = VecDeque::new();
        }
    }

    /// Stanzas sent, as counted for the peer.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Stanzas received and not yet in safe hands.
    pub fn under_way(&self) -> usize {
        self.window.len()
    }

    /// The `h` of this side: stanzas handled.
    pub fn handled(&self) -> u32 {
        self.handled
    }

    /// The peer sent `<r/>`.
    pub fn peer_asks(&mut self) {
        self.answer_at = Some(self.received);
    }

    /// The `h` to answer with now, if the peer asked and all that it had sent by then is in safe hands.
    pub fn poll_answer(&mut self) -> Option<u32> {
        let at = self.answer_at?;
        let behind = at.wrapping_sub(self.handled);
        if behind == 0 || behind > u32::MAX / 2 {
            self.answer_at = None;
            return Some(self.handled);
        }
        None
    }

    /// A stanza is sent; `id` is its archive id or 0.
    pub fn send(&mut self, xml: &[u8], id: u64) {
        self.send_ahead(xml, id, 0);
    }

    /// The same of a stanza that goes ahead of so many that were sent before and are still to leave.
    pub fn send_ahead(&mut self, xml: &[u8], id: u64, overtaken: usize) {
        self.sent = self.sent.wrapping_add(1);
        self.unacked_bytes += xml.len();
        let at = self.unacked.len().saturating_sub(overtaken);
        self.unacked.insert(at, Unacked { xml: xml.into(), id });
    }

    /// Memory that it takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Managed>()
            + self.window.capacity()
            + self.unacked.capacity() * size_of::<Unacked>()
            + self.unacked_bytes
    }

    /// Whether to append `<r/>` to what is sent now; then one request is under way until an `<a/>` comes.
    pub fn poll_request(&mut self) -> bool {
        let ask = !self.asked && !self.unacked.is_empty();
        self.asked |= ask;
        ask
    }

    /// The peer acknowledges up to `h`; returns what that takes off the queue.
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
        let taken: Vec<Unacked> = self.unacked.drain(..n as usize).collect();
        self.unacked_bytes -= taken.iter().map(|u| u.xml.len()).sum::<usize>();
        if self.unacked.is_empty() {
            self.unacked = VecDeque::new();
        }
        Ok(taken)
    }

    /// The stream is resumed (XEP-0198 5): a request under way on the old connection is void, and so is a question.
    pub fn resumed(&mut self) {
        self.asked = false;
        self.answer_at = None;
    }

    /// What has to be sent again after resumption.
    pub fn unacked(&self) -> impl Iterator<Item = &Unacked> {
        self.unacked.iter()
    }

    /// The number of the first message that the cursor of the user's log waits for.
    pub fn first_held(&self) -> Option<u64> {
        let held = self.unacked.iter().map(|unacked| unacked.id).find(|&id| mark::holds_cursor(id));
        held.map(mark::number)
    }

    /// Takes all that is unacknowledged: the session ends.
    pub fn take_unacked(&mut self) -> VecDeque<Unacked> {
        self.unacked_bytes = 0;
        std::mem::take(&mut self.unacked)
    }

    /// Stanzas sent and not acknowledged.
    pub fn unacked_len(&self) -> usize {
        self.unacked.len()
    }

    /// Bytes of these.
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
        let (a, b, c) = (sm.receive(), sm.receive(), sm.receive());
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
        let a = sm.receive();
        sm.peer_asks();
        assert_eq!(sm.poll_answer(), None);
        let b = sm.receive();
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
        let seq = sm.receive();
        assert_eq!(seq, 0);
        sm.done(seq);
        assert_eq!(sm.handled(), 0);
        sm.send(b"<message/>", 9);
        assert_eq!(sm.acknowledge(0).unwrap().len(), 1);
    }
}
