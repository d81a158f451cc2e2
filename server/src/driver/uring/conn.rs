//! The life of a connection: receiving, sending, closing, departing.

use super::Uring;
use crate::driver::{Cause, Close, ConnId, Event, Exhausted, Notice, Peer};
use std::io::{self, ErrorKind};
use throng_sys::uring::{Done, Kernel, Op, Word};
use throng_sys::{Advance, NONE};

/// The multishot poll is in the kernel.
pub(super) const POLLING: u16 = 1;
/// The poll is being cancelled.
pub(super) const CANCELLING: u16 = 1 << 1;
/// The owner has paused receiving.
pub(super) const PAUSED: u16 = 1 << 2;
/// It fired while paused.
pub(super) const READABLE: u16 = 1 << 3;
/// In the list of connections to receive from.
pub(super) const QUEUED: u16 = 1 << 4;
/// The peer has sent its FIN.
pub(super) const ENDED: u16 = 1 << 5;
pub(super) const BROKEN: u16 = 1 << 6;
/// To be closed with a RST.
pub(super) const ABORT: u16 = 1 << 7;
/// Received from before others ([`crate::driver::Driver::favour`]).
pub(super) const FAVOURED: u16 = 1 << 8;
/// Closed by its owner while moving to another thread: it ends at this thread if the move fails.
pub(super) const UNWANTED: u16 = 1 << 9;
/// The connection itself is not broken: there may be a peer to reset.
pub(super) const ALIVE: u16 = 1 << 10;

/// The number of times that the kernel had no memory to make the close a reset, counted in the bits
/// from this one on.
const REFUSED: u16 = 1 << 11;
/// Maximum number of attempts to reset, one per turn; the next one is a plain close. A connection
/// that cannot be reset must not keep its slot and the thread busy.
const RESETS_MAX: u16 = 15;
const _: () = assert!(ALIVE < REFUSED && u16::MAX / REFUSED >= RESETS_MAX, "the count has bits of its own");

/// Poll results that are an end or an error, which get no priority over others.
const ENDS: i32 = (libc::POLLHUP | libc::POLLERR) as i32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Free,
    Open,
    /// Close after the send in flight.
    Finishing,
    /// FIN sent; waiting for the peer's.
    Lingering,
    /// Close as soon as nothing is pending.
    Closing,
    /// Taken out of the table; waiting for the completion.
    Freeing,
    /// Move as soon as nothing is pending.
    Departing,
    /// In flight to the other ring.
    Moving,
}

pub(super) struct Slot {
    pub(super) generation: u32,
    /// The send in flight, or `NONE`.
    pub(super) sending: u32,
    pub(super) state: State,
    pub(super) flags: u16,
}

/// The destination of a departing connection.
pub(super) struct Leaving {
    pub(super) key: u64,
    pub(super) to: Peer,
    /// The table of the other ring that is tried: a running number modulo the number of tables.
    pub(super) table: u32,
    /// Number of other tables that may be tried if that one is full.
    pub(super) tries_left: u32,
}

impl Slot {
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Instead of a send in flight: the FIN is being sent.
const SHUTTING: u32 = NONE - 1;

const _: () = assert!(size_of::<Slot>() <= 12, "an idle connection costs this much");

impl<K: Kernel> Uring<K> {
    pub(super) fn slot(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    pub(super) fn id(&self, index: u32) -> ConnId {
        ConnId { slot: index, generation: self.slots[index as usize].generation }
    }

    /// The slot of a connection that the owner may still use.
    pub(super) fn find(&self, conn: ConnId) -> Option<u32> {
        let slot = self.slots.get(conn.slot as usize)?;
        let known = !matches!(slot.state, State::Free | State::Freeing);
        (slot.generation == conn.generation && known).then_some(conn.slot)
    }

    pub(super) fn word(&self, op: Op, index: u32) -> Word {
        Word::new(op, index, self.slots[index as usize].generation)
    }

    /// The slot, if the completion belongs to the connection that is in it now.
    fn current(&self, word: Word) -> Option<u32> {
        let slot = self.slots.get(word.slot() as usize)?;
        (slot.generation == word.low() && slot.state != State::Free).then_some(word.slot())
    }

    /// Handles a socket that has entered the table at `index`.
    pub(super) fn occupy(&mut self, index: u32, state: State, on_event: &mut dyn FnMut(Event<'_>)) -> ConnId {
        self.slots.reach(index as usize, || Slot { generation: 0, sending: NONE, state: State::Free, flags: 0 });
        if self.slot(index).state != State::Free {
            // The kernel freed the place and filled it again before it reported the former.
            self.release(index, on_event);
        }
        self.used += 1;
        let table = self.ring.table_of(index);
        self.used_of[table as usize] += 1;
        let slot = self.slot(index);
        (slot.state, slot.flags, slot.sending) = (state, 0, NONE);
        self.id(index)
    }

    /// Frees the slot of a socket that has left the table.
    fn release(&mut self, index: u32, on_event: &mut dyn FnMut(Event<'_>)) {
        let conn = self.id(index);
        let slot = self.slot(index);
        let state = slot.state;
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.used -= 1;
        let table = self.ring.table_of(index) as usize;
        self.used_of[table] -= 1;
        match state {
            State::Moving => {
                if let Some(leaving) = self.departing.remove(&index) {
                    on_event(Event::Departed { conn, key: leaving.key });
                }
            }
            State::Freeing => on_event(Event::Closed { conn }),
            _ => {}
        }
        if self.used_of[table] < self.ceiling - self.ceiling / 64 {
            self.wake_listeners(Exhausted::Slots);
        }
    }

    /// Arms the poll, unless it is armed.
    pub(super) fn arm_poll(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if !slot.has(POLLING) {
            slot.flags |= POLLING;
            self.ring.arm_poll(index, slot.generation);
        }
    }

    fn cancel_poll(&mut self, index: u32) {
        let word = self.word(Op::Poll, index);
        let slot = self.slot(index);
        if slot.has(POLLING) && !slot.has(CANCELLING) {
            slot.flags |= CANCELLING;
            self.ring.cancel(word);
        }
    }

    pub(super) fn polled(&mut self, done: &Done) {
        let Some(index) = self.current(done.word) else {
            return;
        };
        let slot = self.slot(index);
        if !done.more {
            slot.flags &= !(POLLING | CANCELLING);
        }
        let slot = self.slot(index);
        let receiving = matches!(slot.state, State::Open | State::Lingering);
        if !receiving {
            return self.settle(index);
        }
        if done.result >= 0 {
            if slot.has(PAUSED) {
                slot.flags |= READABLE;
                self.cancel_poll(index);
            } else {
                self.enqueue_as(index, done.result & ENDS == 0);
            }
        }
        let slot = self.slot(index);
        if !slot.has(POLLING | PAUSED | BROKEN) {
            self.arm_poll(index);
        }
    }

    /// Queues the connection to be received from in this `wait` or the next.
    pub(super) fn enqueue(&mut self, index: u32) {
        self.enqueue_as(index, true);
    }

    /// The same; the priority of a favoured connection counts only if it `lives`.
    fn enqueue_as(&mut self, index: u32, lives: bool) {
        let slot = self.slot(index);
        if !slot.has(QUEUED | BROKEN) {
            slot.flags |= QUEUED;
            let ahead = lives && slot.has(FAVOURED);
            let conn = self.id(index);
            if ahead { &mut self.favoured } else { &mut self.ready }.push_back(conn);
        }
    }

    /// Queues another receive in the next `wait`. One receive per connection and turn, so that a
    /// peer that sends without pause neither lengthens a turn nor delays the others.
    fn enqueue_again(&mut self, index: u32) {
        let slot = self.slot(index);
        if !slot.has(QUEUED | BROKEN) {
            slot.flags |= QUEUED;
            let conn = self.id(index);
            self.again.push(conn);
        }
    }

    /// Submits a receive for each readable connection, as many as the buffer has room for: the
    /// favoured ones, and at most `others_max` others, which always get a part of the room. Returns
    /// the number of others.
    pub(super) fn queue_receives(&mut self, others_max: usize) -> usize {
        const LEAST: usize = 2048;
        const MOST: usize = 64 << 10;
        let room = (self.ring.buffer_bytes() / LEAST).min(self.tuning.events);
        let others = self.ready.len().min(others_max).min(room.saturating_sub(self.favoured.len()).max(room / 2));
        let favoured = self.favoured.len().min(room - others);
        let count = favoured + others;
        if count == 0 {
            return 0;
        }
        self.share = self.ring.divide(count, MOST);
        for place in 0..count {
            let list = if place < favoured { &mut self.favoured } else { &mut self.ready };
            let Some(conn) = list.pop_front() else {
                break;
            };
            let slot = &mut self.slots[conn.slot as usize];
            if slot.generation != conn.generation || slot.state == State::Free {
                continue;
            }
            slot.flags &= !QUEUED;
            if slot.has(PAUSED) {
                slot.flags |= READABLE;
                continue;
            }
            if slot.has(BROKEN) || !matches!(slot.state, State::Open | State::Lingering) {
                continue;
            }
            self.ring.receive(conn.slot, place as u32);
        }
        others
    }

    pub(super) fn received(&mut self, done: &Done, on_event: &mut dyn FnMut(Event<'_>)) {
        let (index, result) = (done.word.slot(), done.result);
        let conn = self.id(index);
        let slot = self.slot(index);
        let state = slot.state;
        match result {
            _ if slot.has(BROKEN) => {}
            0 if state == State::Lingering => self.end(index),
            0 if !slot.has(ENDED) => {
                slot.flags |= ENDED;
                on_event(Event::Failed { conn, cause: Cause::PeerClosed });
            }
            0 => {}
            1.. => {
                let count = result as usize;
                if state == State::Lingering && self.alarms.throw_away(conn, count) {
                    return self.end(index);
                }
                if count == self.share || done.sock_nonempty {
                    self.enqueue_again(index);
                }
                if state == State::Open {
                    on_event(Event::Received { conn, bytes: self.ring.received(done.word.low(), count) });
                }
            }
            _ if matches!(-result, libc::EAGAIN | libc::EINTR) => {}
            _ => self.broken(index, Cause::from_errno(-result), on_event),
        }
    }

    pub(super) fn sent(&mut self, done: &Done, on_event: &mut dyn FnMut(Event<'_>)) {
        // Until it has ended the connection keeps its slot.
        let (index, sending, result) = (done.word.slot(), done.word.low(), done.result);
        let conn = self.id(index);
        let advance = if result < 0 { Advance::Whole } else { self.ring.advance(sending, result as usize) };
        let state = self.slot(index).state;
        if advance != Advance::Whole && state != State::Closing {
            if advance == Advance::Step && state == State::Open {
                on_event(Event::Progressed { conn });
            }
            return self.ring.send_rest(index, sending);
        }
        let buffer = self.ring.take_sent(sending);
        let slot = self.slot(index);
        slot.sending = NONE;
        let state = slot.state;
        if result < 0 {
            self.broken(index, Cause::from_errno(-result), on_event);
        } else if matches!(state, State::Open | State::Departing) && !self.slot(index).has(BROKEN) {
            on_event(Notice::Sent(conn, buffer).event());
        }
        self.settle(index);
    }

    /// Handles a connection error: nothing is received or sent any more.
    pub(super) fn broken(&mut self, index: u32, cause: Cause, on_event: &mut dyn FnMut(Event<'_>)) {
        let conn = self.id(index);
        let slot = self.slot(index);
        if slot.has(BROKEN) {
            return;
        }
        slot.flags |= if cause == Cause::Reset { BROKEN } else { BROKEN | ALIVE };
        match slot.state {
            State::Open => on_event(Event::Failed { conn, cause }),
            State::Departing => {
                self.stay(index, ErrorKind::NotConnected);
                self.notices.push_back(Notice::Failed(conn, cause));
            }
            _ => {}
        }
        self.settle(index);
    }

    /// Advances a leaving connection as far as possible.
    pub(super) fn settle(&mut self, index: u32) {
        let slot = self.slot(index);
        let (state, busy) = (slot.state, slot.sending != NONE);
        match state {
            State::Finishing if !busy => self.say_goodbye(index),
            State::Finishing | State::Lingering if slot.has(BROKEN) => self.end(index),
            State::Departing if !busy => {
                if slot.has(POLLING) {
                    self.cancel_poll(index)
                } else {
                    self.go(index)
                }
            }
            State::Closing => {
                if slot.has(POLLING) || busy {
                    return self.cancel_poll(index);
                }
                let abort = slot.has(ABORT) && (!slot.has(BROKEN) || slot.has(ALIVE));
                slot.state = State::Freeing;
                let generation = slot.generation;
                self.ring.close(index, abort, generation);
            }
            _ => {}
        }
    }

    fn say_goodbye(&mut self, index: u32) {
        let conn = self.id(index);
        let slot = self.slot(index);
        if slot.has(ENDED | BROKEN) || self.linger.is_zero() {
            return self.end(index);
        }
        let slot = self.slot(index);
        slot.state = State::Lingering;
        slot.flags &= !PAUSED;
        slot.sending = SHUTTING;
        self.ring.shutdown_write(index, conn.generation);
        self.alarms.linger(conn, self.linger);
        // What arrived before, while it was paused or finishing, must not hide the peer's FIN.
        self.enqueue(index);
        if !self.slot(index).has(CANCELLING) {
            self.arm_poll(index);
        }
    }

    /// Handles the completion of the FIN.
    pub(super) fn shut(&mut self, done: &Done) {
        if let Some(index) = self.current(done.word) {
            self.slot(index).sending = NONE;
            self.settle(index);
        }
    }

    /// Closes as soon as nothing is pending.
    pub(super) fn end(&mut self, index: u32) {
        let slot = self.slot(index);
        slot.state = State::Closing;
        let sending = slot.sending;
        if !matches!(sending, NONE | SHUTTING) {
            self.ring.cancel(Word::new(Op::Send, index, sending));
        }
        self.settle(index);
    }

    pub(super) fn close_how(&mut self, index: u32, how: Close) {
        let slot = self.slot(index);
        match (how, slot.state) {
            // It may already be at the other thread.
            (_, State::Moving) => slot.flags |= if how == Close::Now { UNWANTED | ABORT } else { UNWANTED },
            (Close::Now, State::Closing) => slot.flags |= ABORT,
            (Close::Now, _) => {
                slot.flags |= ABORT;
                self.departing.remove(&index);
                self.end(index);
            }
            (Close::AfterSend, State::Open | State::Departing) => {
                slot.state = State::Finishing;
                self.departing.remove(&index);
                self.settle(index);
            }
            (Close::AfterSend, _) => {}
        }
    }

    pub(super) fn closed(&mut self, done: &Done, on_event: &mut dyn FnMut(Event<'_>)) {
        let Some(index) = self.current(done.word) else {
            return;
        };
        if done.result == -libc::ECANCELED {
            // It should be a reset, and the kernel had no memory to make it one.
            let slot = self.slot(index);
            slot.state = State::Closing;
            if slot.flags / REFUSED < RESETS_MAX {
                slot.flags += REFUSED;
            } else {
                slot.flags &= !ABORT;
            }
            return self.settle(index);
        }
        self.release(index, on_event);
    }

    /// Sends the socket to the other ring.
    fn go(&mut self, index: u32) {
        let Some(leaving) = self.departing.get(&index) else {
            return;
        };
        let Some(ring) = leaving.to.table(leaving.table) else {
            return self.stay(index, ErrorKind::Unsupported);
        };
        let slot = &mut self.slots[index as usize];
        slot.state = State::Moving;
        self.ring.depart(index, ring, slot.generation);
    }

    pub(super) fn departed(&mut self, done: &Done) {
        let Some(index) = self.current(done.word) else {
            return;
        };
        let wanted = !self.slot(index).has(UNWANTED);
        let Some(leaving) = self.departing.get_mut(&index) else {
            return;
        };
        if let Ok(place) = u32::try_from(done.result) {
            return leaving.to.has_got(leaving.key, leaving.table, place);
        }
        if wanted && -done.result == libc::ENFILE && leaving.tries_left > 0 {
            // That table is full; another may not be.
            (leaving.table, leaving.tries_left) = (leaving.table.wrapping_add(1), leaving.tries_left - 1);
            return self.go(index);
        }
        self.stay(index, io::Error::from_raw_os_error(-done.result).kind());
    }

    /// The socket has left the table for the other ring's. After a failed departure this operation
    /// is cancelled: the socket stays.
    pub(super) fn left(&mut self, done: &Done, on_event: &mut dyn FnMut(Event<'_>)) {
        if let Some(index) = self.current(done.word).filter(|_| done.result >= 0) {
            self.release(index, on_event);
        }
    }

    /// The departure has failed: the connection stays at this thread.
    pub(super) fn stay(&mut self, index: u32, error: ErrorKind) {
        let Some(leaving) = self.departing.remove(&index) else {
            return;
        };
        self.slot(index).state = State::Open;
        if self.slot(index).has(UNWANTED) {
            let how = if self.slot(index).has(ABORT) { Close::Now } else { Close::AfterSend };
            return self.close_how(index, how);
        }
        self.notices.push_back(Notice::DepartureFailed(self.id(index), leaving.key, error));
        let slot = self.slot(index);
        if !slot.has(CANCELLING | PAUSED | BROKEN) {
            self.arm_poll(index);
            self.enqueue(index);
        }
    }
}
