//! Output of connections. Each connection with output has one buffer and one send at a time. Also
//! decides when input of a peer is not processed.

use crate::id::{ConnId, SessionId};
use crate::io::Effect;
use crate::outbound::Unsent;
use crate::session::conn::{ConnState, NONE, Pause};
use crate::streams::Streams;
use crate::streams::half::Up;
use crate::streams::opening::replaced;
use crate::web::framed::framed;
use crate::wire::error::StreamCondition;

/// Outbound buffers pooled for reuse.
const OUTBOUND_POOL_MAX: usize = 1024;

impl Streams {
    /// Stops reading from a connection for this reason. A connection without a socket is never read
    /// from; its requests are.
    #[inline]
    pub(crate) fn pause(&mut self, id: ConnId, why: Pause) {
        if self.conns.pause(id, why) && id.has_socket() {
            self.kernel.effects.push(Effect::Pause { conn: id });
        }
    }

    /// Removes a reason for the pause. The connection is read from again if no other reason
    /// remains; with `durable`, only when all writes of the turn are durable.
    pub(crate) fn resume(&mut self, id: ConnId, why: Pause, durable: bool) {
        if self.conns.resume(id, why) && id.has_socket() {
            self.kernel.effects.push(Effect::Resume { conn: id, durable });
        }
    }

    /// Marks a connection that has logged in, so that it is preferred over others.
    pub(crate) fn favour(&mut self, id: ConnId) {
        if id.has_socket() {
            self.kernel.effects.push(Effect::Favour { conn: id });
        }
    }

    /// Processes no more input of the connection until [`Streams::unblock`].
    pub(crate) fn block(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        if let Some(opening) = conn.opening() {
            opening.blocked = true;
        }
        self.pause(id, Pause::Answer);
    }

    /// Continues with the input that was buffered while the connection was blocked.
    pub(crate) fn unblock(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        if let Some(opening) = conn.opening() {
            opening.blocked = false;
        }
        let left = conn.partial.is_some();
        self.resume(id, Pause::Answer, false);
        if left {
            self.up.push_back(Up::GoesOn(id));
        }
    }

    /// Removes a reason not to read from a connection. If no other remains, it is read from again
    /// and its buffered input is processed.
    pub(crate) fn go_on(&mut self, id: ConnId, why: Pause, durable: bool) {
        let Some(conn) = self.conns.get(id).filter(|conn| conn.is_paused(why)) else { return };
        let left = conn.partial.is_some();
        self.resume(id, why, durable);
        if left {
            self.up.push_back(Up::GoesOn(id));
        }
    }

    /// Appends bytes to the output of a connection.
    pub(crate) fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        self.send_with(id, |out| out.extend_from_slice(bytes));
    }

    /// Marks a connection for the end of the turn, which sends its output and requests
    /// acknowledgements.
    pub(crate) fn touch(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get(id).filter(|conn| !conn.dirty) {
            conn.dirty = true;
            if id.has_socket() { self.dirty.push(id.slot) } else { self.bosh.touched(id) }
        }
    }

    /// Appends what `fill` writes to the output of a connection.
    pub(crate) fn send_with(&mut self, id: ConnId, fill: impl FnOnce(&mut Vec<u8>)) {
        self.touch(id);
        let Some(conn) = self.conns.get(id) else { return };
        let pool = &mut self.outbound_pool;
        let outbound = conn.outbound.get_or_insert_with(|| pool.pop().unwrap_or_default());
        let before = outbound.buffer().len();
        fill(outbound.buffer());
        self.outbound_bytes += outbound.buffer().len() - before;
    }

    /// Prevents urgent stanzas from going ahead of the output now pending.
    pub(crate) fn hold_beginning(&mut self, id: ConnId) {
        if let Some(outbound) = self.conns.get(id).and_then(|c| c.outbound.as_mut()) {
            outbound.hold();
        }
    }

    /// Records that the stanza appended last is counted by stream management.
    pub(crate) fn count_stanza(&mut self, id: ConnId) {
        if let Some(outbound) = self.conns.get(id).and_then(|c| c.outbound.as_mut()) {
            outbound.count();
        }
    }

    /// Puts a stanza ahead of a connection's pending output. Returns how many counted stanzas it
    /// overtakes.
    pub(crate) fn send_first(&mut self, id: ConnId, xml: &[u8]) -> usize {
        self.send_with(id, |_| {});
        let Some(outbound) = self.conns.get(id).and_then(|c| c.outbound.as_mut()) else { return 0 };
        self.outbound_bytes += xml.len();
        outbound.put_first(xml)
    }

    /// Sends a message and tracks it until its bytes are with the kernel.
    pub(crate) fn send_message(&mut self, id: ConnId, archive_id: u64, xml: &[u8]) {
        self.send_bytes(id, xml);
        if let Some(outbound) = self.conns.get(id).and_then(|c| c.outbound.as_mut()) {
            outbound.note(archive_id, xml.len());
        }
    }

    /// Whether the connection has more pending output than it should.
    pub(crate) fn is_heavy(&self, id: ConnId) -> bool {
        self.conns.outbound_bytes(id) > self.kernel.settings.outbound_bytes_soft
    }

    /// One read may contain many requests, each of which is answered. A client that does not read
    /// the answers is not read from until it does.
    #[inline]
    pub(crate) fn wait_if_heavy(&mut self, id: ConnId) {
        if self.is_heavy(id) {
            self.pause(id, Pause::Output);
        }
    }

    /// A send has completed. Takes the messages that it carried, and frees the buffer if it is
    /// empty. Returns the bytes that were pending before, and whether there are more to send.
    pub(crate) fn send_ended(&mut self, id: ConnId, messages: &mut Vec<u64>) -> Option<(usize, bool)> {
        let conn = self.conns.get(id)?;
        let outbound = conn.outbound.as_mut()?;
        let before = outbound.bytes();
        messages.extend(outbound.sent());
        let left = outbound.bytes();
        let empty = if left == 0 { conn.outbound.take() } else { None };
        self.outbound_bytes -= before - left;
        if let Some(outbound) = empty {
            self.recycle(outbound);
        }
        Some((before, left > 0))
    }

    /// Restarts the peer's time limit: it had nothing to read before, or has read part of its
    /// output.
    pub(crate) fn progressed(&mut self, id: ConnId) {
        let now_s = self.kernel.now.mono_s();
        if let Some(outbound) = self.conns.get(id).and_then(|conn| conn.outbound.as_mut()) {
            outbound.progressed(now_s);
        }
    }

    pub(crate) fn recycle(&mut self, mut outbound: Box<crate::outbound::Outbound>) {
        if self.outbound_pool.len() < OUTBOUND_POOL_MAX {
            outbound.recycle();
            self.outbound_pool.push(outbound);
        }
    }

    /// Takes the remaining output for effects that carry a connection's last bytes in its present
    /// form, and the messages that are not among them.
    pub(crate) fn take_last(&mut self, id: ConnId) -> (Vec<Unsent>, Vec<u8>) {
        let Some(conn) = self.conns.get(id) else { return Default::default() };
        let is_framed = conn.transport().is_framed();
        let Some(outbound) = conn.outbound.as_mut() else { return Default::default() };
        let before = outbound.bytes();
        let (unsent, last) = outbound.take_last();
        self.outbound_bytes -= before - outbound.bytes();
        (unsent, if is_framed { framed(&last) } else { last })
    }

    /// Ends a connection whose session continues on another one.
    pub(crate) fn abandon(&mut self, old: ConnId) -> Vec<Unsent> {
        let mut unsent = Vec::new();
        if let Some(outbound) = self.conns.get(old).and_then(|conn| conn.outbound.as_mut()) {
            // The rest is in the session's unacknowledged queue, which passes to the new
            // connection.
            let before = outbound.bytes();
            unsent = outbound.take_unsent();
            self.outbound_bytes -= before - outbound.bytes();
        }
        self.conns.set_state(old, ConnState::Opening(Box::new(replaced())));
        self.fail_stream(old, StreamCondition::Conflict, Some("the session was resumed elsewhere"));
        unsent
    }

    /// Returns whose messages a connection carries.
    pub(crate) fn carries_for(&mut self, id: ConnId) -> Carries {
        match self.conns.get(id).map(|conn| conn.state()) {
            Some(&ConnState::Bound(session)) => Carries::Session(session),
            Some(&ConnState::Closing { user }) if user != NONE => Carries::Left(user),
            _ => Carries::Nobody,
        }
    }

    /// Continues with the input that was buffered while the connection's output was not read.
    pub(crate) fn drained(&mut self, id: ConnId) {
        if !self.is_heavy(id) {
            self.go_on(id, Pause::Output, true);
        }
    }
}

/// Whose messages a connection carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carries {
    Session(SessionId),
    /// A user whose session has ended, by the number that the session left.
    Left(u32),
    /// No user.
    Nobody,
}
