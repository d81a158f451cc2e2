//! Accepting: one multishot accept a listener, and the peer's address asked for in a batch.

use super::Uring;
use super::conn::State;
use super::ring::{Op, Word};
use crate::driver::{ACCEPT_RETRY, ConnId, Event, Exhausted, ListenerTag, Notice, sys::Name};
use io_uring::cqueue;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::time::Instant;

/// Addresses asked for at a time.
const NAMES: usize = 64;

pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) tag: ListenerTag,
    /// Of the address of each of its peers.
    pub(super) name_bytes: u32,
    /// The multishot accept is in the kernel.
    pub(super) armed: bool,
    pub(super) resting: Option<Exhausted>,
}

/// Accepted connections whose peer's address is not known yet.
pub(super) struct Names {
    /// With the index of the listener; bounded by the slots.
    waiting: VecDeque<(ConnId, usize)>,
    asked: [Option<(ConnId, usize)>; NAMES],
    /// On the heap and never moved: the kernel writes here.
    rooms: Box<[Name; NAMES]>,
}

impl Default for Names {
    fn default() -> Self {
        Names { waiting: VecDeque::new(), asked: [None; NAMES], rooms: Box::new([Name::default(); NAMES]) }
    }
}

impl Names {
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Uring {
    pub(super) fn arm_listener(&mut self, index: usize) {
        let listener = &mut self.listeners[index];
        listener.resting = None;
        if !listener.armed {
            listener.armed = true;
            self.ring.accept(listener.socket.as_raw_fd(), accept_word(index));
        }
    }

    pub(super) fn accepted(&mut self, done: &cqueue::Entry, on_event: &mut dyn FnMut(Event<'_>)) {
        let index = Word(done.user_data()).low() as usize;
        let listener = &mut self.listeners[index];
        listener.armed = cqueue::more(done.flags());
        let result = done.result();
        if result >= 0 {
            let conn = self.occupy(result as u32, State::Naming, on_event);
            self.names.waiting.push_back((conn, index));
            if self.used >= self.ceiling {
                return self.rest(index, Exhausted::Slots);
            }
        } else if !matches!(-result, libc::ECANCELED | libc::ECONNABORTED | libc::EINTR | libc::EAGAIN | libc::EPROTO) {
            let full = self.used >= self.ceiling;
            return self.rest(index, if full { Exhausted::Slots } else { Exhausted::Descriptors });
        }
        let listener = &self.listeners[index];
        if !listener.armed && listener.resting.is_none() {
            self.arm_listener(index);
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
            self.retry_at = Some(Instant::now() + ACCEPT_RETRY);
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

    /// Asks for the addresses of what was accepted.
    pub(super) fn ask_names(&mut self) {
        for room in 0..NAMES {
            if self.names.asked[room].is_some() {
                continue;
            }
            let Some((conn, listener)) = self.names.waiting.pop_front() else {
                return;
            };
            self.names.asked[room] = Some((conn, listener));
            let length = self.listeners[listener].name_bytes;
            let name = &raw mut self.names.rooms[room];
            // SAFETY: the rooms live as long as the driver, and this one is taken until the completion.
            unsafe { self.ring.name(conn.slot, name, length, Word::new(Op::Name, conn.slot, room as u32)) };
        }
    }

    pub(super) fn named(&mut self, done: &cqueue::Entry, on_event: &mut dyn FnMut(Event<'_>)) {
        let room = Word(done.user_data()).low() as usize;
        let Some((conn, listener)) = self.names.asked[room].take() else {
            return;
        };
        match self.names.rooms[room].address() {
            Some(peer) if done.result() >= 0 => {
                self.slot(conn.slot).state = State::Open;
                let tag = self.listeners[listener].tag;
                on_event(Event::Accepted { conn, tag, peer });
                self.watch(conn.slot);
            }
            // Gone before anyone has seen it.
            _ => {
                self.slot(conn.slot).state = State::Unseen;
                self.settle(conn.slot);
            }
        }
    }
}

fn accept_word(index: usize) -> Word {
    Word::new(Op::Accept, 0, index as u32)
}
