//! Accepting: one accept per listener is in the kernel, with room for the peer's address.
//!
//! A multishot accept would save an operation per connection. However, it accepts every waiting
//! connection, also beyond the last free slot of the table, and then closes the connection for
//! which it has no slot. That connection could not be answered. Single accepts are submitted only
//! while there is a slot.

use super::Uring;
use super::conn::State;
use crate::driver::{Event, Exhausted, ListenerTag, Notice};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use throng_sys::uring::{Done, Kernel, Op, Word};

pub(super) struct Listener {
    /// `None` once the listener is closed; an accept in the kernel may still complete with a
    /// connection.
    pub(super) socket: Option<TcpListener>,
    pub(super) tag: ListenerTag,
    /// The table of the accept that is in the kernel.
    pub(super) armed: Option<u32>,
    /// Whether the last accept found its table full, contrary to this thread's count.
    pub(super) refused: bool,
    pub(super) resting: Option<Exhausted>,
}

impl<K: Kernel> Uring<K> {
    /// The table with the most free places; `None` if all are full.
    fn roomiest(&self) -> Option<u32> {
        let (table, used) = (0u32..).zip(&self.used_of).min_by_key(|(_, used)| **used)?;
        (*used < self.ceiling).then_some(table)
    }

    /// Accepts the next connection, or pauses if all tables are full.
    pub(super) fn arm_listener(&mut self, index: usize) {
        let table = self.roomiest();
        let listener = &mut self.listeners[index];
        listener.resting = None;
        if listener.socket.is_none() {
            return;
        }
        let Some(table) = table else {
            return self.rest(index, Exhausted::Slots);
        };
        if let (Some(socket), None) = (&listener.socket, listener.armed) {
            listener.armed = Some(table);
            self.ring.accept(socket.as_raw_fd(), table, index as u32);
        }
    }

    pub(super) fn accepted(&mut self, done: &Done, on_event: &mut dyn FnMut(Event<'_>)) {
        let index = done.word.low() as usize;
        let listener = &mut self.listeners[index];
        listener.armed = None;
        let result = done.result;
        let refused = std::mem::replace(&mut listener.refused, -result == libc::ENFILE);
        if result >= 0 {
            let tag = listener.tag;
            let peer = self.ring.accepted_from(index as u32);
            let peer = peer.expect("the peer of a TCP socket has an internet address");
            let conn = self.occupy(result as u32, State::Open, on_event);
            on_event(Event::Accepted { conn, tag, peer });
            self.arm_poll(conn.slot);
            self.more_to_accept |= done.sock_nonempty;
        } else if !matches!(-result, libc::ECANCELED | libc::ECONNABORTED | libc::EINTR | libc::EAGAIN | libc::EPROTO) {
            let other = self.roomiest();
            // One table may be full of arrivals that have not been processed, while another has
            // room. Only once, as the host may also be full.
            let again = self.listeners[index].refused && !refused && self.ring.tables() > 1;
            if other.is_none() || !again {
                let cause = if other.is_none() { Exhausted::Slots } else { Exhausted::Descriptors };
                return self.rest(index, cause);
            }
        }
        if self.listeners[index].resting.is_none() {
            self.arm_listener(index);
        }
    }

    /// A connection has moved into the table. If the table is now full, accepts into it end and are
    /// moved to another table with room.
    pub(super) fn rest_if_full(&mut self, table: u32) {
        if self.used_of[table as usize] < self.ceiling {
            return;
        }
        let full = self.roomiest().is_none();
        for index in 0..self.listeners.len() {
            if full {
                self.rest(index, Exhausted::Slots);
            } else if self.listeners[index].armed == Some(table) {
                self.ring.cancel(accept_word(index, table));
            }
        }
    }

    /// Closes all listeners: accepts in the kernel end.
    pub(super) fn end_listeners(&mut self) {
        for index in 0..self.listeners.len() {
            let listener = &mut self.listeners[index];
            let armed = listener.armed.filter(|_| listener.socket.is_some());
            // The kernel holds the socket until the accept is cancelled, which is submitted with
            // the next call.
            listener.socket = None;
            if let Some(table) = armed {
                self.ring.cancel(accept_word(index, table));
            }
        }
    }

    fn rest(&mut self, index: usize, cause: Exhausted) {
        let listener = &mut self.listeners[index];
        if listener.socket.is_none() {
            return;
        }
        if listener.resting.is_none() {
            listener.resting = Some(cause);
            self.notices.push_back(Notice::AcceptPaused(listener.tag, cause));
            if let Some(table) = listener.armed {
                self.ring.cancel(accept_word(index, table));
            }
        }
        if cause == Exhausted::Descriptors {
            self.alarms.rest();
        }
    }

    /// Resumes accepting where `why` no longer applies.
    pub(super) fn wake_listeners(&mut self, why: Exhausted) {
        for index in 0..self.listeners.len() {
            if self.listeners[index].resting == Some(why) {
                self.arm_listener(index);
            }
        }
    }
}

/// The word of a listener's accept: the address room is the listener's.
fn accept_word(index: usize, table: u32) -> Word {
    Word::new(Op::Accept, table, index as u32)
}
