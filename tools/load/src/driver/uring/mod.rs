//! The driver on io_uring: a ring a worker, sockets in the ring's own tables, at the place of their client's number. There are
//! as many tables as the clients need, for each is bounded by the process's limit of descriptors ([`throng_sys::uring::Ring`]).
//!
//! An idle client has one multishot poll in the kernel and eight bytes here. When polls fire, one batch of receives that do
//! not wait goes into slices of the shared buffer; those are done when the submitting call returns. A place in the table
//! is given back only when no operation of its connection is pending, so no completion can be of an earlier one.

use super::{BUFFER_BYTES, Driver, Event, Settings};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use throng_sys::uring::{Done, Kernel, Op, Ring, Use, Word};
use throng_sys::{Advance, NONE, calls};

/// The multishot poll is in the kernel.
const POLLING: u16 = 1;
/// It is being cancelled.
const CANCELLING: u16 = 1 << 1;
/// Nothing is to be read.
const PAUSED: u16 = 1 << 2;
/// It fired meanwhile.
const READABLE: u16 = 1 << 3;
/// In the list of those to receive from.
const QUEUED: u16 = 1 << 4;
/// The chain that connects is under way.
const CONNECTING: u16 = 1 << 5;
/// The owner has heard of the end.
const ENDED: u16 = 1 << 6;
/// To be closed with a RST.
const ABORT: u16 = 1 << 7;
/// Read ahead of others.
const FAVOURED: u16 = 1 << 8;

/// Events told in one call, about: what is due meanwhile waits for its end.
const EVENTS_PER_WAIT: usize = 256;

/// Of these at most those of clients that are not favoured, about.
const OTHERS_PER_WAIT: usize = 64;

/// Polls looked at in one call, about. More than can be read: who is favoured may be behind many who are not.
const FIRED_PER_WAIT: usize = 1024;

/// Pieces of deferred work that the kernel does in one call at most (`IO_LOCAL_TW_DEFAULT_MAX`).
const WORK_PER_ENTER: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Open,
    /// Close as soon as nothing is pending.
    Closing,
    /// Taken out of the table, the completion awaited.
    Freeing,
}

struct Slot {
    /// The send in flight, or `NONE`.
    sending: u32,
    state: State,
    flags: u16,
}

const _: () = assert!(size_of::<Slot>() == 8, "an idle client costs this much here");

impl Slot {
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// See the module.
pub(super) struct Uring {
    ring: Ring,
    done: Vec<Done>,
    /// Polls among the completions of this call.
    fired: usize,
    slots: Vec<Slot>,
    /// Favoured clients that have something; bounded by the slots.
    favoured: VecDeque<u32>,
    /// All others that have; bounded by the slots.
    ready: VecDeque<u32>,
    again: Vec<u32>,
    /// Bytes of the ring's buffer for each receive of the present batch.
    share: usize,
}

/// Whether a ring with all operations can be made.
pub(super) fn probe() -> io::Result<()> {
    Ring::new(2, 2, Use::Connecting).map(drop)
}

/// A place has one operation of a kind at a time, and is not given back before it is done.
fn word(op: Op, index: u32) -> Word {
    Word::new(op, index, 0)
}

impl Uring {
    /// # Errors
    /// A sentence saying what this kernel refuses.
    pub(super) fn new(settings: &Settings) -> io::Result<Uring> {
        let limit = u32::try_from(calls::descriptor_limit()).unwrap_or(u32::MAX);
        let sources: Vec<_> = settings.sources.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        let table_slots = settings.table_slots.min(limit);
        let mut ring = Ring::connecting(settings.clients.max(2), table_slots, settings.to, &sources)?;
        ring.set_buffer_bytes(BUFFER_BYTES);
        let mut slots = Vec::new();
        slots.resize_with(settings.clients as usize, || Slot { sending: NONE, state: State::Free, flags: 0 });
        Ok(Uring {
            ring,
            done: Vec::new(),
            fired: 0,
            slots,
            favoured: VecDeque::new(),
            ready: VecDeque::new(),
            again: Vec::new(),
            share: 0,
        })
    }

    fn slot(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    fn arm_poll(&mut self, index: u32) {
        let slot = self.slot(index);
        if !slot.has(POLLING) {
            slot.flags |= POLLING;
            self.ring.arm_poll(index, 0);
        }
    }

    fn cancel_poll(&mut self, index: u32) {
        let slot = self.slot(index);
        if slot.has(POLLING) && !slot.has(CANCELLING) {
            slot.flags |= CANCELLING;
            self.ring.cancel(word(Op::Poll, index));
        }
    }

    fn enqueue(&mut self, index: u32) {
        let slot = self.slot(index);
        if !slot.has(QUEUED | ENDED) {
            slot.flags |= QUEUED;
            self.await_turn(index);
        }
    }

    fn await_turn(&mut self, index: u32) {
        let ahead = self.slot(index).has(FAVOURED);
        if ahead { &mut self.favoured } else { &mut self.ready }.push_back(index);
    }

    /// Takes the completions there are and handles each.
    fn reap(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        let mut done = std::mem::take(&mut self.done);
        self.ring.collect(&mut done);
        self.fired = 0;
        for entry in &done {
            let word = entry.word;
            let index = word.slot();
            match word.op() {
                Op::Link | Op::Connect => self.connected(index, entry.result, on_event),
                Op::Poll => {
                    self.fired += 1;
                    self.polled(index, entry);
                }
                Op::Receive => self.received(index, word.low(), entry, on_event),
                Op::Send => self.sent(index, word.low(), entry.result, on_event),
                // It could not be made a reset, or there is no socket: it is closed as it is.
                Op::Close if entry.result == -libc::ECANCELED => {
                    self.ring.close(index, false, 0);
                }
                Op::Close => {
                    self.slot(index).state = State::Free;
                    on_event(Event::Closed(index));
                }
                // Nobody waits for it, or it is a server's.
                _ => {}
            }
        }
        done.clear();
        self.done = done;
    }

    fn connected(&mut self, index: u32, result: i32, on_event: &mut dyn FnMut(Event<'_>)) {
        let slot = self.slot(index);
        slot.flags &= !CONNECTING;
        match slot.state {
            State::Open if result >= 0 => {
                self.arm_poll(index);
                on_event(Event::Connected(index));
            }
            State::Open => self.ended(index, Some(-result), on_event),
            _ => self.settle(index),
        }
    }

    fn polled(&mut self, index: u32, done: &Done) {
        let slot = self.slot(index);
        if !done.more {
            slot.flags &= !(POLLING | CANCELLING);
        }
        if slot.state != State::Open {
            return self.settle(index);
        }
        if done.result >= 0 {
            if slot.has(PAUSED) {
                slot.flags |= READABLE;
                self.cancel_poll(index);
            } else {
                self.enqueue(index);
            }
        }
        if !self.slot(index).has(POLLING | PAUSED | ENDED) {
            self.arm_poll(index);
        }
    }

    /// Submits a receive for each client that has something, as many as the buffer has room for: the favoured ones, and at
    /// most `others_max` others, which always get a part of the room. Tells how many others.
    fn queue_receives(&mut self, others_max: usize) -> usize {
        const LEAST: usize = 2048;
        const MOST: usize = 32 << 10;
        let room = self.ring.buffer_bytes() / LEAST;
        let others = self.ready.len().min(others_max).min(room.saturating_sub(self.favoured.len()).max(room / 2));
        let favoured = self.favoured.len().min(room - others);
        let count = favoured + others;
        if count == 0 {
            return 0;
        }
        self.share = self.ring.divide(count, MOST);
        for place in 0..count {
            let list = if place < favoured { &mut self.favoured } else { &mut self.ready };
            let Some(index) = list.pop_front() else { break };
            let slot = &mut self.slots[index as usize];
            slot.flags &= !QUEUED;
            // It may have been closed meanwhile, and connected again.
            if slot.state != State::Open || slot.has(ENDED | CONNECTING) {
                continue;
            }
            if slot.has(PAUSED) {
                slot.flags |= READABLE;
                continue;
            }
            self.ring.receive(index, place as u32);
        }
        others
    }

    fn received(&mut self, index: u32, share: u32, done: &Done, on_event: &mut dyn FnMut(Event<'_>)) {
        let slot = &mut self.slots[index as usize];
        if slot.state != State::Open || slot.has(ENDED) {
            return;
        }
        match done.result {
            0 => self.ended(index, None, on_event),
            count @ 1.. => {
                let count = count as usize;
                if count == self.share || done.sock_nonempty {
                    slot.flags |= QUEUED;
                    self.again.push(index);
                }
                on_event(Event::Received(index, self.ring.received(share, count)));
            }
            error if matches!(-error, libc::EAGAIN | libc::EINTR) => {}
            error => self.ended(index, Some(-error), on_event),
        }
    }

    fn ended(&mut self, index: u32, errno: Option<i32>, on_event: &mut dyn FnMut(Event<'_>)) {
        let slot = self.slot(index);
        if slot.state == State::Open && !slot.has(ENDED) {
            slot.flags |= ENDED;
            on_event(Event::Ended(index, errno));
        }
    }

    fn sent(&mut self, index: u32, send: u32, result: i32, on_event: &mut dyn FnMut(Event<'_>)) {
        let advance = self.ring.advance(send, usize::try_from(result).unwrap_or(0));
        let slot = &mut self.slots[index as usize];
        let open = slot.state == State::Open;
        if result > 0 && advance != Advance::Whole && open {
            return self.ring.send_rest(index, send);
        }
        let mut bytes = self.ring.take_sent(send);
        slot.sending = NONE;
        bytes.clear();
        if result < 0 && open {
            self.ended(index, Some(-result), on_event);
        } else if open {
            on_event(Event::Sent(index, bytes));
        } else {
            self.settle(index);
        }
    }

    /// Closes what is to be closed and has nothing pending.
    fn settle(&mut self, index: u32) {
        let slot = self.slot(index);
        if slot.state != State::Closing {
            return;
        }
        if slot.has(POLLING | CONNECTING) || slot.sending != NONE {
            return self.cancel_poll(index);
        }
        slot.state = State::Freeing;
        let abort = slot.has(ABORT);
        self.ring.close(index, abort, 0);
    }

    /// Receives from all that have something.
    fn receive_all(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let (mut handed, mut others) = (0, 0);
        while handed < EVENTS_PER_WAIT
            && (!self.favoured.is_empty() || others < OTHERS_PER_WAIT && !self.ready.is_empty())
        {
            others += self.queue_receives(OTHERS_PER_WAIT.saturating_sub(others));
            handed += self.ring.receiving().max(1);
            self.ring.submit().or_else(|error| match error.raw_os_error() {
                Some(libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            })?;
            self.reap(on_event);
            while self.ring.receiving() > 0 {
                // Not seen: a receive that must not wait is done at once. The buffer is the kernel's until it is.
                self.ring.sleep(Some(Duration::from_millis(1)), Duration::ZERO)?;
                self.reap(on_event);
            }
        }
        for index in std::mem::take(&mut self.again) {
            self.await_turn(index);
        }
        Ok(())
    }
}

impl Driver for Uring {
    fn connect(&mut self, client: u32, source: usize) {
        let slot = &mut self.slots[client as usize];
        assert!(slot.state == State::Free, "client {client} is connected");
        (slot.state, slot.flags, slot.sending) = (State::Open, CONNECTING, NONE);
        self.ring.connect(client, source);
    }

    fn send(&mut self, client: u32, bytes: Vec<u8>) {
        let slot = &mut self.slots[client as usize];
        if slot.state != State::Open || slot.has(ENDED) {
            return;
        }
        assert!(slot.sending == NONE, "a second send of {client} while one is in flight");
        slot.sending = self.ring.send(client, bytes);
    }

    fn favour(&mut self, client: u32) {
        let slot = self.slot(client);
        if slot.state == State::Open {
            slot.flags |= FAVOURED;
        }
    }

    fn close(&mut self, client: u32, abort: bool) {
        let slot = self.slot(client);
        if slot.state != State::Open {
            return;
        }
        slot.state = State::Closing;
        if abort {
            slot.flags |= ABORT;
        }
        let (connecting, sending) = (slot.has(CONNECTING), slot.sending);
        if connecting {
            self.ring.cancel(word(Op::Connect, client));
        }
        if sending != NONE {
            self.ring.cancel(Word::new(Op::Send, client, sending));
        }
        self.settle(client);
    }

    fn pause(&mut self, client: u32) {
        let slot = self.slot(client);
        if slot.state == State::Open {
            slot.flags |= PAUSED;
        }
    }

    fn resume(&mut self, client: u32) {
        let slot = self.slot(client);
        if slot.state != State::Open || !slot.has(PAUSED) {
            return;
        }
        let readable = slot.has(READABLE);
        slot.flags &= !(PAUSED | READABLE);
        if readable {
            self.enqueue(client);
        }
        if !self.slot(client).has(CANCELLING | CONNECTING | ENDED) {
            self.arm_poll(client);
        }
    }

    fn wait(&mut self, timeout: Duration, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        if self.ready.is_empty() && self.favoured.is_empty() && !timeout.is_zero() {
            self.ring.sleep(Some(timeout), Duration::ZERO)?;
        } else {
            self.ring.poll()?;
        }
        self.reap(on_event);
        let mut fired = self.fired;
        while self.fired >= WORK_PER_ENTER && fired < FIRED_PER_WAIT {
            self.ring.poll()?;
            self.reap(on_event);
            fired += self.fired;
        }
        self.receive_all(on_event)
    }
}
