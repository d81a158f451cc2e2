//! Output that waits for one connection, and the handling of a connection that does not drain.
//!
//! An idle connection has no buffer: it is taken from the shard's pool with the first byte of a
//! turn and returned when everything is sent. At most one send is in progress; further output
//! collects here and is sent as one.

use crate::id::mark;

/// A message in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// Its mark in the user's log ([`mark`]), or 0.
    id: u64,
    start: u32,
    end: u32,
}

/// A message that was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// Its mark in the user's log ([`mark`]), or 0 if it is not a message that may wait.
    pub id: u64,
    /// Its bytes; empty if it was part of a send in progress.
    pub xml: Vec<u8>,
}

/// Waiting output of one connection.
#[derive(Debug, Default)]
pub struct Outbound {
    /// Bytes not yet passed to the driver.
    pending: Vec<u8>,
    /// Messages in `pending`.
    pending_messages: Vec<Mark>,
    /// Marks of messages that may wait, in the send in progress.
    sending_ids: Vec<u64>,
    /// Bytes of the send in progress.
    sending_bytes: usize,
    /// Second (monotonic) when the send in progress was started or last progressed.
    since_s: u32,
    /// Offset in `pending` where an urgent stanza may be inserted: after the stream's opening and
    /// earlier urgent stanzas.
    first: usize,
    /// Number of stanzas after that offset which stream management counts.
    counted: usize,
    /// Bytes whose send has completed since output began to wait here.
    sent_bytes: u64,
    /// Expected size of the next send: that of the previous one.
    expects: u32,
}

/// Maximum memory reserved in advance, bytes.
const EXPECTS_MAX: usize = 4096;

impl Outbound {
    /// The buffer to which output is appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.pending.capacity() == 0 {
            self.pending.reserve(self.expects as usize);
        }
        &mut self.pending
    }

    /// Records that the last `bytes` of the buffer are the message with this mark (0: it may not
    /// wait).
    pub fn note(&mut self, id: u64, bytes: usize) {
        let end = self.pending.len() as u32;
        self.pending_messages.push(Mark { id, start: end - bytes as u32, end });
    }

    /// Keeps the current content of the buffer ahead of everything urgent: the answer that begins a
    /// session, or its counts.
    pub fn hold(&mut self) {
        (self.first, self.counted) = (self.pending.len(), 0);
    }

    /// Records that the buffer ends with a stanza that stream management counts (XEP-0198 4).
    pub fn count(&mut self) {
        self.counted += 1;
    }

    /// Inserts a stanza before waiting output that may be overtaken, never into the send in
    /// progress. Returns the number of counted stanzas that it has overtaken.
    pub fn put_first(&mut self, xml: &[u8]) -> usize {
        let at = self.first;
        self.pending.splice(at..at, xml.iter().copied());
        for mark in self.pending_messages.iter_mut().filter(|mark| mark.start as usize >= at) {
            mark.start += xml.len() as u32;
            mark.end += xml.len() as u32;
        }
        self.first += xml.len();
        self.counted
    }

    /// The number of the first message in the send in progress that the cursor of the user's log
    /// waits for.
    pub fn first_sending(&self) -> Option<u64> {
        self.sending_ids.iter().copied().find(|&id| mark::holds_cursor(id)).map(mark::number)
    }

    /// The same for all output that waits or is being sent.
    pub fn first_held(&self) -> Option<u64> {
        let pending = || self.pending_messages.iter().map(|m| m.id).find(|&id| mark::holds_cursor(id));
        self.first_sending().or_else(|| pending().map(mark::number))
    }

    /// Takes the messages of the send in progress.
    pub fn take_sending(&mut self) -> Vec<Unsent> {
        self.sending_ids.drain(..).map(|id| Unsent { id, xml: Vec::new() }).collect()
    }

    /// Takes the messages that the kernel is not known to have accepted.
    pub fn take_unsent(&mut self) -> Vec<Unsent> {
        let mut unsent = self.take_sending();
        unsent.extend(self.take_last().0);
        unsent
    }

    /// Takes what waits after the send in progress, if any: its messages, and the final output of
    /// the connection, which is sent without them. A message that is reported as lost must not
    /// arrive nevertheless.
    pub fn take_last(&mut self) -> (Vec<Unsent>, Vec<u8>) {
        let pending = std::mem::take(&mut self.pending);
        (self.first, self.counted) = (0, 0);
        let (mut unsent, mut last) = (Vec::new(), Vec::new());
        let mut from = 0;
        for Mark { id, start, end } in self.pending_messages.drain(..) {
            last.extend_from_slice(&pending[from..start as usize]);
            unsent.push(Unsent { id, xml: pending[start as usize..end as usize].to_vec() });
            from = end as usize;
        }
        last.extend_from_slice(&pending[from..]);
        (unsent, last)
    }

    /// Bytes that wait or are being sent.
    pub fn bytes(&self) -> usize {
        self.pending.len() + self.sending_bytes
    }

    /// Memory of an empty value, bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Outbound>()
            + self.pending.capacity()
            + self.pending_messages.capacity() * size_of::<Mark>()
            + self.sending_ids.capacity() * size_of::<u64>()
    }

    /// Whether output waits that is not in the send in progress.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether a send is in progress.
    pub fn is_sending(&self) -> bool {
        self.sending_bytes > 0
    }

    /// Records that the send in progress has progressed, in this second.
    pub fn progressed(&mut self, now_s: u32) {
        self.since_s = now_s;
    }

    /// Second when the send in progress was started or last progressed.
    pub fn since_s(&self) -> u32 {
        self.since_s
    }

    /// Whether there is no output at all.
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Takes the pending bytes for one send, if there are any and no send is in progress.
    pub fn take(&mut self, now_s: u32) -> Option<Vec<u8>> {
        if self.is_sending() || self.pending.is_empty() {
            return None;
        }
        self.sending_bytes = self.pending.len();
        (self.first, self.counted) = (0, 0);
        self.since_s = now_s;
        self.expects = self.pending.len().min(EXPECTS_MAX) as u32;
        self.sending_ids.extend(self.pending_messages.drain(..).map(|m| m.id).filter(|&id| id != 0));
        Some(std::mem::take(&mut self.pending))
    }

    /// Takes the pending bytes as one of several sends whose receipt the peer confirms itself. Also
    /// returns the number of messages among them that may wait; [`Outbound::got`] confirms them
    /// later.
    pub fn take_part(&mut self) -> (Vec<u8>, usize) {
        (self.first, self.counted) = (0, 0);
        let before = self.sending_ids.len();
        self.sending_ids.extend(self.pending_messages.drain(..).map(|m| m.id).filter(|&id| id != 0));
        (std::mem::take(&mut self.pending), self.sending_ids.len() - before)
    }

    /// Records that the peer has received the next `messages` messages. Returns their marks.
    pub fn got(&mut self, messages: usize) -> impl Iterator<Item = u64> + '_ {
        let messages = messages.min(self.sending_ids.len());
        self.sending_ids.drain(..messages)
    }

    /// Whether no output waits, and no receipt is outstanding.
    pub fn is_done(&self) -> bool {
        self.is_empty() && self.sending_ids.is_empty()
    }

    /// Records that the send has completed. Returns the marks of the messages in it.
    pub fn sent(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.sent_bytes += self.sending_bytes as u64;
        self.sending_bytes = 0;
        self.sending_ids.drain(..)
    }

    /// Bytes whose send has completed since output began to wait here.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Resets the value for the pool, and keeps a little memory.
    pub fn recycle(&mut self) {
        if self.pending.capacity() > 4096 {
            self.pending = Vec::new();
        }
        self.pending.clear();
        self.pending_messages.clear();
        (self.first, self.counted) = (0, 0);
        self.sending_ids.clear();
        (self.sending_bytes, self.sent_bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_send_at_a_time_and_ids_follow_their_bytes() {
        let mut out = Outbound::default();
        out.buffer().extend_from_slice(b"<a/>");
        out.note(7, 4);
        assert_eq!(out.take(1).unwrap(), b"<a/>");
        out.buffer().extend_from_slice(b"<b/>");
        out.note(8, 4);
        assert!(out.take(2).is_none());
        assert_eq!(out.sent().collect::<Vec<_>>(), [7]);
        assert_eq!(out.take(2).unwrap(), b"<b/>");
        assert_eq!(out.sent().collect::<Vec<_>>(), [8]);
        assert!(out.is_empty());
    }

    #[test]
    fn what_is_urgent_overtakes_what_waits_but_no_stanza_under_way_and_no_beginning() {
        let mut out = Outbound::default();
        out.buffer().extend_from_slice(b"<under-way/>");
        out.take(1).unwrap();
        out.buffer().extend_from_slice(b"<enabled/>");
        out.hold();
        for (id, xml) in [(7, &b"<a/>"[..]), (8, b"<b/>")] {
            out.buffer().extend_from_slice(xml);
            out.note(id, xml.len());
            out.count();
        }
        assert_eq!(out.put_first(b"<first/>"), 2);
        assert_eq!(out.put_first(b"<second/>"), 2);
        let (unsent, last) = out.take_last();
        assert_eq!(last, b"<enabled/><first/><second/>");
        let unsent: Vec<_> = unsent.iter().map(|u| (u.id, &*u.xml)).collect();
        assert_eq!(unsent, [(7, &b"<a/>"[..]), (8, b"<b/>")], "the books say where the others are now");
    }

    #[test]
    fn last_words_go_without_the_messages_that_come_back() {
        let mut out = Outbound::default();
        for (id, xml) in [(6, "<a/>"), (7, "<b/>"), (8, "<c/>")] {
            out.buffer().extend_from_slice(b"<presence/>");
            out.buffer().extend_from_slice(xml.as_bytes());
            out.note(id, xml.len());
            if id == 6 {
                assert!(out.take(1).is_some(), "a send is under way");
            }
        }
        out.buffer().extend_from_slice(b"</stream:stream>");
        let (unsent, last) = out.take_last();
        assert_eq!(last, b"<presence/><presence/></stream:stream>");
        let unsent: Vec<_> = unsent.iter().map(|u| (u.id, &*u.xml)).collect();
        assert_eq!(unsent, [(7, &b"<b/>"[..]), (8, b"<c/>")]);
        assert_eq!(out.take_sending(), [Unsent { id: 6, xml: Vec::new() }]);
    }
}
