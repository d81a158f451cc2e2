//! Accepting: one accept a listener is in the kernel, with room for the peer's address.
//!
//! A multishot accept would save an operation a connection. It takes everyone who waits, though, beyond the last free slot
//! of the table too, and then closes the connection that it has no slot for: nobody could have said a word to that one. One
//! at a time is taken only while there is a slot.

use super::Uring;
use super::conn::State;
use crate::driver::{Event, Exhausted, ListenerTag, Notice};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use throng_ring::cqueue;
use throng_ring::sys::NameRoom;
use throng_ring::{Op, Word};

pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) tag: ListenerTag,
    /// On the heap and never moved: the kernel writes here.
    pub(super) room: Box<NameRoom>,
    /// An accept is in the kernel.
    pub(super) armed: bool,
    pub(super) resting: Option<Exhausted>,
}

impl Uring {
    /// Accepts the next one, or rests if the table is full.
    pub(super) fn arm_listener(&mut self, index: usize) {
        let full = self.used >= self.ceiling;
        let listener = &mut self.listeners[index];
        listener.resting = None;
        if full {
            self.rest(index, Exhausted::Slots);
        } else if !listener.armed {
            listener.armed = true;
            *listener.room = NameRoom::default();
            // SAFETY: the room is used for nothing else before the completion, and outlives the ring.
            unsafe { self.ring.accept(listener.socket.as_raw_fd(), &raw mut *listener.room, accept_word(index)) };
        }
    }

    pub(super) fn accepted(&mut self, done: &cqueue::Entry, on_event: &mut dyn FnMut(Event<'_>)) {
        let index = Word(done.user_data()).low() as usize;
        let listener = &mut self.listeners[index];
        listener.armed = false;
        let result = done.result();
        if result >= 0 {
            let tag = listener.tag;
            let peer = listener.room.name.address().expect("the peer of a TCP socket has an internet address");
            let conn = self.occupy(result as u32, State::Open, on_event);
            on_event(Event::Accepted { conn, tag, peer });
            self.watch(conn.slot);
            self.more_to_accept |= cqueue::sock_nonempty(done.flags());
        } else if !matches!(-result, libc::ECANCELED | libc::ECONNABORTED | libc::EINTR | libc::EAGAIN | libc::EPROTO) {
            let full = self.used >= self.ceiling;
            return self.rest(index, if full { Exhausted::Slots } else { Exhausted::Descriptors });
        }
        if self.listeners[index].resting.is_none() {
            self.arm_listener(index);
        }
    }

    /// Stops accepting where the table has filled up.
    pub(super) fn rest_if_full(&mut self) {
        if self.used >= self.ceiling {
            (0..self.listeners.len()).for_each(|index| self.rest(index, Exhausted::Slots));
        }
    }

    fn rest(&mut self, index: usize, cause: Exhausted) {
        let listener = &mut self.listeners[index];
        if listener.resting.is_none() {
            listener.resting = Some(cause);
            self.notices.push_back(Notice::AcceptPaused(listener.tag, cause));
            if listener.armed {
                self.ring.cancel(accept_word(index));
            }
        }
        if cause == Exhausted::Descriptors {
            self.alarms.rest();
        }
    }

    /// Accepts again where `why` is over.
    pub(super) fn wake_listeners(&mut self, why: Exhausted) {
        for index in 0..self.listeners.len() {
            if self.listeners[index].resting == Some(why) {
                self.arm_listener(index);
            }
        }
    }
}

fn accept_word(index: usize) -> Word {
    Word::new(Op::Accept, 0, index as u32)
}
