//! The io_uring driver: one ring per thread, with sockets in the ring's own tables ("direct
//! descriptors"). These count only against the size of each table, not against a limit of the
//! process; there are as many tables as the slots need ([`throng_sys::uring::Ring`]).
//!
//! An idle connection has one multishot poll in the kernel and nothing else: a pending receive
//! would hold 0.6 KB of kernel memory each. When polls fire, one batch of non-blocking receives
//! goes into slices of the shared buffer. Those complete before the submitting call returns.
//! Between two calls of `wait` no receive is ever pending, so a departure or a pause loses nothing.
//! Sends are submitted with the next `wait`, all in one system call.
//!
//! A multishot receive for as long as a connection is busy would save one operation per message. It
//! would need buffers that the kernel chooses from, a sweep back to polling, and storage for what
//! arrives during a pause or a departure. It is not implemented: relaying over this driver costs
//! what the bare relay costs (tools/bench/results/driver.json).
//!
//! A place in the table is released only when no operation of its connection is pending, and each
//! completion names its generation.

mod accept;
mod conn;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

use super::alarms::Alarms;
use super::peer::Door;
use super::{
    Close, ConnId, Driver, Event, Exhausted, Kind, LISTENERS_MAX, ListenerTag, Notice, Peer, Settings, Tuning,
};
use accept::Listener;
use conn::{BROKEN, CANCELLING, FAVOURED, Leaving, PAUSED, READABLE, Slot, State};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use throng_engine::slots::Slots;
use throng_sys::uring::{Done, Kernel, Op, Ring, Use};
use throng_sys::{NONE, calls};

use crate::waits::{self, Place};
use crate::waking::Arrivals;

/// Maximum pieces of deferred work that the kernel does in one call (`IO_LOCAL_TW_DEFAULT_MAX`):
/// after this many completions there may be more.
const WORK_PER_ENTER: usize = 20;

/// Approximate number of polls and accepts processed in one `wait`. More than can be received from,
/// because a favoured connection may be queued behind many others.
const FIRED_PER_WAIT: usize = 1024;

/// Maximum number of slots per driver: they have 24 bits, and all tables are equal.
const SLOTS_MAX: u32 = 1 << 23;

/// The io_uring driver; see the module.
pub(super) struct Uring<K: Kernel = Ring> {
    ring: K,
    done: Vec<Done>,
    /// Polls and accepts among the completions of this call.
    fired: usize,
    slots: Slots<Slot>,
    used: u32,
    /// Slots in use in each of the ring's tables.
    used_of: Vec<u32>,
    /// Places in use at which a table accepts no more; the rest is reserved for arrivals and for
    /// accepts in flight.
    ceiling: u32,
    listeners: Vec<Listener>,
    /// A listener has reported that more connections wait.
    more_to_accept: bool,
    /// Favoured connections with something to receive; bounded by the slots.
    favoured: VecDeque<ConnId>,
    /// All others with something to receive; bounded by the slots.
    ready: VecDeque<ConnId>,
    /// Connections of both lists that had more than one receive took; bounded by the slots.
    again: Vec<ConnId>,
    /// Bytes of the ring's buffer per receive of the present batch.
    share: usize,
    departing: HashMap<u32, Leaving>,
    alarms: Alarms,
    /// Bounded by the slots: a few for each connection.
    notices: VecDeque<Notice>,
    linger: Duration,
    gather: Duration,
    tuning: Tuning,
    peer: Peer,
}

impl Uring {
    /// # Errors
    /// A sentence that names what this kernel refuses.
    pub(super) fn new(settings: &Settings) -> io::Result<Uring> {
        let limit = u32::try_from(calls::descriptor_limit()).unwrap_or(u32::MAX);
        let ring =
            Ring::new(settings.slots.clamp(2, SLOTS_MAX), settings.table_slots.min(limit).max(2), Use::Accepting)?;
        let tables = ring.duplicates()?;
        Uring::over(ring, tables, settings.linger)
    }
}

impl<K: Kernel> Uring<K> {
    /// A driver over this ring; `tables` are the descriptors that other threads send to.
    fn over(ring: K, tables: Vec<OwnedFd>, linger: Duration) -> io::Result<Uring<K>> {
        let peer = Peer::new(Door::Uring { tables, next: AtomicU32::new(0), arrivals: Arrivals::default() })?;
        let (used_of, table_slots) = (vec![0; ring.tables() as usize], ring.table_slots());
        let mut driver = Uring {
            ring,
            done: Vec::new(),
            fired: 0,
            slots: Slots::default(),
            used: 0,
            used_of,
            ceiling: table_slots - (table_slots / 64).clamp(1, 256),
            listeners: Vec::new(),
            more_to_accept: false,
            favoured: VecDeque::new(),
            ready: VecDeque::new(),
            again: Vec::new(),
            share: 0,
            departing: HashMap::new(),
            alarms: Alarms::default(),
            notices: VecDeque::new(),
            linger,
            gather: Duration::ZERO,
            tuning: Tuning::default(),
            peer,
        };
        driver.tune(&Tuning::default());
        driver.arm_peer();
        Ok(driver)
    }

    fn arm_peer(&mut self) {
        let event = self.peer.event().as_raw_fd();
        self.ring.arm_descriptor(event);
    }

    /// Takes and handles all available completions.
    fn reap(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        let mut done = std::mem::take(&mut self.done);
        self.ring.collect(&mut done);
        self.fired = 0;
        self.slots.fetch(done.iter().map(|entry| entry.word.slot() as usize), |slot| slot.generation);
        for entry in &done {
            let word = entry.word;
            match word.op() {
                Op::Poll => {
                    self.fired += 1;
                    self.polled(entry);
                }
                Op::Receive => self.received(entry, on_event),
                Op::Send => self.sent(entry, on_event),
                Op::Shutdown => self.shut(entry),
                Op::Accept => {
                    self.fired += 1;
                    self.accepted(entry, on_event);
                }
                Op::Close => self.closed(entry, on_event),
                Op::Depart => self.departed(entry),
                Op::Left => self.left(entry, on_event),
                Op::Wake if !entry.more => self.arm_peer(),
                Op::Wake | Op::PeerName | Op::None | Op::Link | Op::Connect | Op::Table => {}
            }
        }
        done.clear();
        self.done = done;
        // Before more is received: a failed departure must be reported before its peer's bytes.
        self.deliver(on_event);
    }

    /// Takes in what other threads have sent. This runs after the completions, which report a freed
    /// slot before it is filled again.
    fn arrive(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        for (key, slot) in self.peer.arrived() {
            let conn = self.occupy(slot, State::Open, on_event);
            on_event(Event::Arrived { key, conn });
            self.arm_poll(slot);
            self.rest_if_full(self.ring.table_of(slot));
        }
    }

    /// Receives from all readable connections and accepts all waiting ones.
    fn second_half(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let (mut handed, mut others) = (0, 0);
        let others_max = self.tuning.others;
        while handed < self.tuning.events
            && (!self.favoured.is_empty() || others < others_max && (!self.ready.is_empty() || self.more_to_accept))
        {
            others += usize::from(std::mem::take(&mut self.more_to_accept));
            others += self.queue_receives(others_max.saturating_sub(others));
            handed += self.ring.receiving().max(1);
            self.ring.submit().or_else(|error| match error.raw_os_error() {
                Some(libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            })?;
            self.reap(on_event);
            while self.ring.receiving() > 0 {
                // Never observed: a receive that must not wait is done at once. Until it is done,
                // the kernel owns the buffer.
                self.ring.sleep(Some(Duration::from_millis(1)), Duration::ZERO)?;
                self.reap(on_event);
            }
        }
        for conn in self.again.drain(..) {
            let slot = &self.slots[conn.slot as usize];
            let ahead = slot.generation == conn.generation && slot.has(FAVOURED);
            if ahead { &mut self.favoured } else { &mut self.ready }.push_back(conn);
        }
        Ok(())
    }

    fn deliver(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> bool {
        let any = !self.notices.is_empty();
        while let Some(notice) = self.notices.pop_front() {
            if let Notice::Failed(conn, _) | Notice::DepartureFailed(conn, ..) = &notice {
                // Closed in the meantime: its owner expects nothing more.
                if self.find(*conn).is_none_or(|index| self.slot(index).state != State::Open) {
                    continue;
                }
            }
            on_event(notice.event());
        }
        any
    }

    /// Ends connections whose time is over. Returns the time until the next one.
    fn expire(&mut self) -> Option<Duration> {
        let now = self.alarms.look()?;
        if self.alarms.rested(now) {
            self.wake_listeners(Exhausted::Descriptors);
        }
        while let Some(conn) = self.alarms.due(now, |conn| {
            let slot = &self.slots[conn.slot as usize];
            slot.generation == conn.generation && slot.state == State::Lingering
        }) {
            self.end(conn.slot);
        }
        self.alarms.next(now)
    }

    /// Waits until something happens.
    fn idle(&mut self, timeout: Option<Duration>, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        if !self.peer.bell().falls_asleep() {
            return self.ring.poll();
        }
        let slept = {
            let _at = waits::at(Place::Network);
            self.ring.sleep(timeout, self.gather)
        };
        on_event(Event::Slept);
        slept
    }

    /// The slot of an open connection.
    fn open(&self, conn: ConnId) -> Option<u32> {
        self.find(conn).filter(|index| self.slots[*index as usize].state == State::Open)
    }
}

impl<K: Kernel> Driver for Uring<K> {
    fn kind(&self) -> Kind {
        Kind::Uring
    }

    fn listen(&mut self, listener: TcpListener, tag: ListenerTag) -> io::Result<()> {
        if self.listeners.len() >= LISTENERS_MAX {
            return Err(ErrorKind::InvalidInput.into());
        }
        // With a non-blocking socket the ring would complete at once instead of waiting.
        listener.set_nonblocking(false)?;
        let socket = Some(listener);
        self.listeners.push(Listener { socket, tag, armed: None, refused: false, resting: None });
        // Each listener may accept a last connection when a table is otherwise full.
        self.ceiling = self.ceiling.min(self.ring.table_slots().saturating_sub(self.listeners.len() as u32)).max(1);
        self.arm_listener(self.listeners.len() - 1);
        Ok(())
    }

    fn close_listeners(&mut self) {
        self.end_listeners();
    }

    fn wait(&mut self, timeout: Option<Duration>, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let next = self.expire();
        let told = self.deliver(on_event);
        let waiting = !self.ready.is_empty() || !self.favoured.is_empty();
        let busy = told || waiting || timeout == Some(Duration::ZERO);
        if busy {
            self.ring.poll()?;
        } else {
            self.idle(next.into_iter().chain(timeout).min(), on_event)?;
        }
        let woken = self.peer.bell().wakes_up();
        self.reap(on_event);
        if woken {
            self.arrive(on_event);
        }
        let mut fired = self.fired;
        while self.fired >= WORK_PER_ENTER && fired < FIRED_PER_WAIT {
            self.ring.poll()?;
            self.reap(on_event);
            fired += self.fired;
        }
        self.second_half(on_event)?;
        self.deliver(on_event);
        if woken {
            on_event(Event::Woken);
        }
        Ok(())
    }

    fn gather(&mut self, time: Duration) {
        self.gather = time;
    }

    fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        self.expire();
        self.ring.poll()?;
        // Readable connections stay in their lists.
        self.reap(on_event);
        self.deliver(on_event);
        Ok(())
    }

    fn send(&mut self, conn: ConnId, bytes: Vec<u8>) {
        let Some(index) = self.open(conn) else { return };
        let slot = &self.slots[index as usize];
        if slot.has(BROKEN) {
            return;
        }
        assert!(slot.sending == NONE, "a second send of {conn:?} while one is in flight");
        let sending = self.ring.send(index, bytes);
        self.slot(index).sending = sending;
    }

    fn pause(&mut self, conn: ConnId) {
        if let Some(index) = self.open(conn) {
            self.slot(index).flags |= PAUSED;
        }
    }

    fn resume(&mut self, conn: ConnId) {
        let Some(index) = self.open(conn) else { return };
        let slot = self.slot(index);
        slot.flags &= !PAUSED;
        let readable = slot.has(READABLE);
        slot.flags &= !READABLE;
        if readable {
            self.enqueue(index);
        }
        if !self.slot(index).has(CANCELLING | BROKEN) {
            self.arm_poll(index);
        }
    }

    fn favour(&mut self, conn: ConnId) {
        if let Some(index) = self.open(conn) {
            self.slot(index).flags |= FAVOURED;
        }
    }

    fn close(&mut self, conn: ConnId, how: Close) {
        if let Some(index) = self.find(conn) {
            self.close_how(index, how);
        }
    }

    fn depart(&mut self, conn: ConnId, to: &Peer, key: u64) {
        let Some(index) = self.open(conn) else { return };
        let slot = self.slot(index);
        slot.state = State::Departing;
        let broken = slot.has(BROKEN);
        let (table, tries_left) = to.next_table();
        self.departing.insert(index, Leaving { key, to: to.clone(), table, tries_left });
        if broken {
            self.stay(index, ErrorKind::NotConnected);
        } else {
            self.settle(index);
        }
    }

    fn peer_addresses(&mut self, conns: &[ConnId]) -> Vec<Option<SocketAddr>> {
        let slots: Vec<Option<u32>> = conns.iter().map(|conn| self.open(*conn)).collect();
        self.ring.peer_names(&slots)
    }

    fn peer(&self) -> Peer {
        self.peer.clone()
    }

    fn connections(&self) -> u32 {
        self.used
    }

    fn connections_max(&self) -> u32 {
        self.ceiling.saturating_mul(self.used_of.len() as u32)
    }

    fn resting(&self) -> Option<Exhausted> {
        let mut open = self.listeners.iter().filter(|listener| listener.socket.is_some());
        open.find_map(|listener| listener.resting)
    }

    fn memory_bytes(&self) -> usize {
        let queues = self.favoured.capacity() + self.ready.capacity() + self.again.capacity();
        self.ring.memory_bytes()
            + self.slots.memory_bytes()
            + queues * size_of::<ConnId>()
            + self.done.capacity() * size_of::<Done>()
    }

    fn tune(&mut self, tuning: &Tuning) {
        self.tuning = tuning.bounded();
        // No receive is pending between two waits: the buffer is not lent.
        self.ring.set_buffer_bytes(self.tuning.receive_buffer_bytes);
    }
}
