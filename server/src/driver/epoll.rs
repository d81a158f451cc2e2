//! The epoll driver, level-triggered: one read per readiness event into the shared buffer, one
//! immediate write in `send`.
//!
//! Level-triggered, because a message then costs one read; edge-triggered mode needs a second read
//! that finds nothing. A paused connection, or one whose end has been seen, is removed from the
//! interest list only when it fires. A short pause therefore costs no system call.

use super::alarms::Alarms;
use super::peer::{Door, take_room};
use super::{
    Cause, Close, ConnId, Driver, Event, Exhausted, Kind, LISTENERS_MAX, ListenerTag, Notice, Peer, Settings, Tuning,
};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use throng_engine::slots::Slots;
use throng_sys::{Advance, NONE, Sends, calls};

use crate::waits::{self, Place};
use crate::waking::Arrivals;

/// Maximum number of connections accepted from one listener in a row.
const ACCEPTS_PER_EVENT: usize = 64;

const LISTENER: u64 = 1 << 63;
const WAKER: u64 = u64::MAX;

const IN: u8 = 1;
const OUT: u8 = 2;

const PAUSED: u8 = 1;
const ENDED: u8 = 2;
const BROKEN: u8 = 4;
/// The kernel has all bytes of a send, but `Sent` has not been delivered.
const UNTOLD: u8 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Open,
    /// Close after the send in flight.
    Finishing,
    /// FIN sent; waiting for the peer's.
    Lingering,
    /// Move after the send in flight.
    Departing,
    /// `Closed` has not been delivered.
    Closed,
    /// `Departed` has not been delivered.
    Departed,
}

struct Slot {
    fd: Option<OwnedFd>,
    generation: u32,
    sending: u32,
    state: State,
    flags: u8,
    armed: u8,
}

impl Slot {
    fn raw(&self) -> RawFd {
        self.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

struct Listener {
    socket: TcpListener,
    tag: ListenerTag,
    resting: Option<Exhausted>,
}

/// The epoll driver; see the module.
pub(super) struct Epoll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    buffer: Box<[u8]>,
    slots: Slots<Slot>,
    free: Vec<u32>,
    /// Maximum number of connections.
    connections_max: u32,
    /// Free room at which a table that was full accepts connections again: a 64th of it.
    room_again: i64,
    sends: Sends,
    listeners: Vec<Listener>,
    departing: HashMap<u32, (u64, Peer)>,
    alarms: Alarms,
    /// Bounded by the slots: a few for each connection.
    notices: VecDeque<Notice>,
    linger: Duration,
    gather: Duration,
    peer: Peer,
}

impl Epoll {
    /// # Errors
    /// If the process has no descriptors left.
    pub(super) fn new(settings: &Settings) -> io::Result<Epoll> {
        let epoll = calls::epoll_create()?;
        let slots = u64::from(settings.slots.min(settings.descriptors)).min(calls::descriptor_limit()).min(1 << 24);
        let room = AtomicI64::new(slots as i64);
        let peer = Peer::new(Door::Epoll { room, arrivals: Arrivals::default() })?;
        let edge = (libc::EPOLLIN | libc::EPOLLET) as u32;
        calls::epoll_ctl(&epoll, libc::EPOLL_CTL_ADD, peer.event().as_raw_fd(), edge, WAKER)?;
        let mut driver = Epoll {
            epoll,
            events: Vec::new(),
            buffer: Box::default(),
            slots: Slots::default(),
            free: Vec::new(),
            connections_max: slots as u32,
            room_again: slots as i64 / 64,
            sends: Sends::default(),
            listeners: Vec::new(),
            departing: HashMap::new(),
            alarms: Alarms::default(),
            notices: VecDeque::new(),
            linger: settings.linger,
            gather: Duration::ZERO,
            peer,
        };
        driver.tune(&Tuning::default());
        Ok(driver)
    }

    fn room(&self) -> &AtomicI64 {
        match self.peer.door() {
            Door::Epoll { room, .. } => room,
            Door::Uring { .. } => unreachable!("an epoll driver has an epoll door"),
        }
    }

    fn id(&self, index: u32) -> ConnId {
        ConnId { slot: index, generation: self.slots[index as usize].generation }
    }

    /// The slot of a connection that still exists.
    fn find(&self, conn: ConnId) -> Option<u32> {
        let slot = self.slots.get(conn.slot as usize)?;
        (slot.generation == conn.generation && !matches!(slot.state, State::Free | State::Closed | State::Departed))
            .then_some(conn.slot)
    }

    fn slot(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// Gives a socket a slot; its place has already been taken from `room`.
    fn take_in(&mut self, fd: OwnedFd) -> (ConnId, io::Result<()>) {
        let index = self.free.pop().unwrap_or_else(|| {
            let fresh = Slot { fd: None, generation: 0, sending: NONE, state: State::Free, flags: 0, armed: 0 };
            self.slots.push(fresh) as u32
        });
        let raw = fd.as_raw_fd();
        let slot = self.slot(index);
        (slot.fd, slot.state, slot.flags, slot.armed, slot.sending) = (Some(fd), State::Open, 0, IN, NONE);
        let conn = self.id(index);
        (conn, calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_ADD, raw, libc::EPOLLIN as u32, data(conn)))
    }

    /// Updates the kernel's interest list to what the connection waits for.
    fn arm(&mut self, index: u32, wanted: u8) {
        let conn = self.id(index);
        let slot = self.slot(index);
        if slot.armed == wanted || slot.has(BROKEN) {
            return;
        }
        slot.armed = wanted;
        let raw = slot.raw();
        let mask =
            if wanted & IN != 0 { libc::EPOLLIN } else { 0 } | if wanted & OUT != 0 { libc::EPOLLOUT } else { 0 };
        if calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_MOD, raw, mask as u32, data(conn)).is_err() {
            self.broken(index, Cause::Error(ErrorKind::OutOfMemory));
        }
    }

    /// Handles a connection error: nothing is received or sent any more.
    fn broken(&mut self, index: u32, cause: Cause) {
        let conn = self.id(index);
        let (raw, state, sending) = {
            let slot = self.slot(index);
            if slot.has(BROKEN) {
                return;
            }
            slot.flags |= BROKEN;
            (slot.raw(), slot.state, std::mem::replace(&mut slot.sending, NONE))
        };
        let _ = calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_DEL, raw, 0, 0);
        if sending != NONE {
            self.sends.remove(sending);
        }
        match state {
            State::Finishing | State::Lingering => self.drop_socket(index),
            State::Departing => {
                self.stay(index, ErrorKind::NotConnected);
                self.notices.push_back(Notice::Failed(conn, cause));
            }
            State::Open => self.notices.push_back(Notice::Failed(conn, cause)),
            State::Free | State::Closed | State::Departed => {}
        }
    }

    /// Closes the socket; the slot is freed when `Closed` is delivered.
    fn drop_socket(&mut self, index: u32) {
        let conn = self.id(index);
        let slot = self.slot(index);
        slot.state = State::Closed;
        slot.fd = None;
        let sending = std::mem::replace(&mut slot.sending, NONE);
        if sending != NONE {
            self.sends.remove(sending);
        }
        self.notices.push_back(Notice::Closed(conn));
    }

    fn stay(&mut self, index: u32, error: ErrorKind) {
        self.slot(index).state = State::Open;
        if let Some((key, _)) = self.departing.remove(&index) {
            self.notices.push_back(Notice::DepartureFailed(self.id(index), key, error));
        }
    }

    fn release(&mut self, index: u32) {
        let slot = self.slot(index);
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        // Not on every close, while as many connections arrive.
        if self.room().fetch_add(1, Ordering::AcqRel) >= self.room_again {
            self.wake_listeners(Exhausted::Slots);
        }
    }

    /// Waits until something happens.
    fn idle(
        &mut self,
        timeout: Option<Duration>,
        events: &mut Vec<libc::epoll_event>,
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> io::Result<()> {
        let gathers = !self.gather.is_zero();
        if gathers {
            // A ring during this time need not wake the thread: it checks anyway.
            let _at = waits::at(Place::Network);
            std::thread::sleep(timeout.map_or(self.gather, |timeout| timeout.min(self.gather)));
            calls::epoll_wait(&self.epoll, events, 0)?;
        }
        if !events.is_empty() || !self.peer.bell().falls_asleep() {
            if gathers {
                on_event(Event::Slept);
                return Ok(());
            }
            return calls::epoll_wait(&self.epoll, events, 0);
        }
        let waited = {
            let _at = waits::at(Place::Network);
            calls::epoll_wait(&self.epoll, events, milliseconds(timeout))
        };
        on_event(Event::Slept);
        waited
    }

    /// What follows the last byte of a send.
    fn sent(&mut self, index: u32, bytes: Vec<u8>) {
        let conn = self.id(index);
        match self.slot(index).state {
            State::Open => {
                self.slot(index).flags |= UNTOLD;
                self.notices.push_back(Notice::Sent(conn, bytes));
            }
            State::Departing => {
                self.notices.push_back(Notice::Sent(conn, bytes));
                self.go(index);
            }
            State::Finishing => self.say_goodbye(index),
            State::Lingering | State::Free | State::Closed | State::Departed => {}
        }
    }

    fn say_goodbye(&mut self, index: u32) {
        let conn = self.id(index);
        let slot = self.slot(index);
        if slot.has(ENDED | BROKEN) || self.linger.is_zero() {
            return self.drop_socket(index);
        }
        let slot = self.slot(index);
        slot.state = State::Lingering;
        slot.flags &= !PAUSED;
        calls::shutdown_write(slot.raw());
        self.alarms.linger(conn, self.linger);
        self.arm(index, IN);
    }

    /// Hands the socket over to the other thread.
    fn go(&mut self, index: u32) {
        let Some((key, to)) = self.departing.get(&index).map(|(key, to)| (*key, to.clone())) else {
            return;
        };
        let Door::Epoll { room, arrivals } = to.door() else {
            return self.stay(index, ErrorKind::Unsupported);
        };
        if !take_room(room) {
            return self.stay(index, ErrorKind::StorageFull);
        }
        let conn = self.id(index);
        let Some(fd) = self.slot(index).fd.take() else {
            return;
        };
        let _ = calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_DEL, fd.as_raw_fd(), 0, 0);
        arrivals.push(key, fd);
        to.wake();
        self.departing.remove(&index);
        self.slot(index).state = State::Departed;
        self.notices.push_back(Notice::Departed(conn, key));
    }

    fn arrive(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        let Door::Epoll { arrivals, .. } = self.peer.door() else {
            return;
        };
        let arrived = arrivals.take();
        for (key, fd) in arrived {
            let (conn, armed) = self.take_in(fd);
            on_event(Event::Arrived { key, conn });
            if armed.is_err() {
                self.broken(conn.slot, Cause::Error(ErrorKind::OutOfMemory));
            }
        }
    }

    fn accept(&mut self, listener: usize, on_event: &mut dyn FnMut(Event<'_>)) {
        for _ in 0..ACCEPTS_PER_EVENT {
            if !take_room(self.room()) {
                return self.rest(listener, Exhausted::Slots);
            }
            let Listener { socket, tag, .. } = &self.listeners[listener];
            let tag = *tag;
            match calls::accept(socket.as_raw_fd()) {
                Ok((fd, Some(peer))) => {
                    let (conn, armed) = self.take_in(fd);
                    on_event(Event::Accepted { conn, tag, peer });
                    if armed.is_err() {
                        self.broken(conn.slot, Cause::Error(ErrorKind::OutOfMemory));
                    }
                    continue;
                }
                Ok((_, None)) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        self.room().fetch_add(1, Ordering::AcqRel);
                        return;
                    }
                    // The connection was gone before it was accepted, or its network is: the next
                    // may work.
                    Some(
                        libc::ECONNABORTED
                        | libc::EINTR
                        | libc::EPROTO
                        | libc::EPERM
                        | libc::ENETDOWN
                        | libc::EHOSTUNREACH
                        | libc::ENETUNREACH
                        | libc::EHOSTDOWN
                        | libc::ENONET
                        | libc::ENOPROTOOPT,
                    ) => {}
                    _ => {
                        self.room().fetch_add(1, Ordering::AcqRel);
                        return self.rest(listener, Exhausted::Descriptors);
                    }
                },
            }
            self.room().fetch_add(1, Ordering::AcqRel);
        }
    }

    fn rest(&mut self, listener: usize, cause: Exhausted) {
        let Listener { socket, tag, resting } = &mut self.listeners[listener];
        *resting = Some(cause);
        self.notices.push_back(Notice::AcceptPaused(*tag, cause));
        let _ = calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_MOD, socket.as_raw_fd(), 0, LISTENER | listener as u64);
        if cause == Exhausted::Descriptors {
            self.alarms.rest();
        }
    }

    fn wake_listeners(&mut self, why: Exhausted) {
        for (index, Listener { socket, resting, .. }) in self.listeners.iter_mut().enumerate() {
            let events = libc::EPOLLIN as u32;
            if *resting == Some(why)
                && calls::epoll_ctl(
                    &self.epoll,
                    libc::EPOLL_CTL_MOD,
                    socket.as_raw_fd(),
                    events,
                    LISTENER | index as u64,
                )
                .is_ok()
            {
                *resting = None;
            }
        }
    }

    /// Handles an event of a connection.
    fn ready(&mut self, conn: ConnId, events: u32, on_event: &mut dyn FnMut(Event<'_>)) {
        let Some(index) = self.find(conn) else { return };
        let hurt = events & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0;
        let slot = self.slot(index);
        if events & libc::EPOLLOUT as u32 != 0 && slot.sending != NONE {
            let leaves = slot.state == State::Departing;
            self.write(index);
            // Either the connection has departed, or it stays: that must be reported before its
            // peer's bytes.
            if leaves {
                return;
            }
        }
        let slot = &self.slots[index as usize];
        if slot.has(BROKEN) || matches!(slot.state, State::Free | State::Closed | State::Departed) {
            return;
        }
        if slot.has(PAUSED | ENDED) || slot.state == State::Departing {
            if hurt {
                let error = slot.fd.as_ref().and_then(|fd| socket2::SockRef::from(fd).take_error().ok().flatten());
                let cause = error.and_then(|e| e.raw_os_error()).map_or(Cause::Reset, Cause::from_errno);
                self.broken(index, cause);
            } else {
                let keep = self.slot(index).armed & OUT;
                self.arm(index, keep);
            }
        } else if hurt || events & libc::EPOLLIN as u32 != 0 {
            self.read(index, on_event);
        }
    }

    fn read(&mut self, index: u32, on_event: &mut dyn FnMut(Event<'_>)) {
        let conn = self.id(index);
        let slot = &self.slots[index as usize];
        let state = slot.state;
        match calls::receive(slot.raw(), &mut self.buffer) {
            Ok(0) if state == State::Lingering => self.drop_socket(index),
            Ok(0) => {
                let slot = self.slot(index);
                slot.flags |= ENDED;
                let keep = slot.armed & OUT;
                self.arm(index, keep);
                if state == State::Open {
                    self.notices.push_back(Notice::Failed(conn, Cause::PeerClosed));
                }
            }
            Ok(count) if state == State::Lingering => {
                if self.alarms.throw_away(conn, count) {
                    self.drop_socket(index);
                }
            }
            Ok(count) if state == State::Open => on_event(Event::Received { conn, bytes: &mut self.buffer[..count] }),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => self.broken(index, Cause::from_errno(error.raw_os_error().unwrap_or(0))),
        }
    }

    fn write(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let (raw, sending) = (slot.raw(), slot.sending);
        match calls::send(raw, self.sends.rest(sending)) {
            Ok(taken) => {
                let advance = self.sends.advance(sending, taken);
                if advance == Advance::Step && self.slot(index).state == State::Open {
                    let conn = self.id(index);
                    self.notices.push_back(Notice::Progressed(conn));
                }
                if advance == Advance::Whole {
                    let bytes = self.sends.remove(sending);
                    let slot = self.slot(index);
                    slot.sending = NONE;
                    let keep = slot.armed & IN;
                    self.arm(index, keep);
                    self.sent(index, bytes);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => self.broken(index, Cause::from_errno(error.raw_os_error().unwrap_or(0))),
        }
    }

    fn deliver(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> bool {
        let mut any = false;
        while let Some(notice) = self.notices.pop_front() {
            any = true;
            match &notice {
                Notice::Closed(conn) | Notice::Departed(conn, _) => self.release(conn.slot),
                Notice::Sent(conn, _) | Notice::Failed(conn, _) => {
                    let slot = self.slot(conn.slot);
                    slot.flags &= !UNTOLD;
                    // Closed in the meantime: its owner expects nothing more.
                    if matches!(slot.state, State::Finishing | State::Lingering | State::Closed) {
                        continue;
                    }
                }
                Notice::DepartureFailed(conn, ..) | Notice::Progressed(conn) => {
                    if self.slot(conn.slot).state != State::Open {
                        continue;
                    }
                }
                Notice::AcceptPaused(..) => {}
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
            self.drop_socket(conn.slot);
        }
        self.alarms.next(now)
    }
}

fn data(conn: ConnId) -> u64 {
    u64::from(conn.slot) << 32 | u64::from(conn.generation)
}

/// Rounds up: waking early would make the caller spin until the deadline.
fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |t| i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX))
}

impl Driver for Epoll {
    fn kind(&self) -> Kind {
        Kind::Epoll
    }

    fn listen(&mut self, listener: TcpListener, tag: ListenerTag) -> io::Result<()> {
        if self.listeners.len() >= LISTENERS_MAX {
            return Err(ErrorKind::InvalidInput.into());
        }
        listener.set_nonblocking(true)?;
        let data = LISTENER | self.listeners.len() as u64;
        calls::epoll_ctl(&self.epoll, libc::EPOLL_CTL_ADD, listener.as_raw_fd(), libc::EPOLLIN as u32, data)?;
        self.listeners.push(Listener { socket: listener, tag, resting: None });
        Ok(())
    }

    fn close_listeners(&mut self) {
        // Closing the last descriptor also removes the kernel's interest.
        self.listeners.clear();
    }

    fn wait(&mut self, timeout: Option<Duration>, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let next = self.expire();
        let busy = self.deliver(on_event) || timeout == Some(Duration::ZERO);
        let mut events = std::mem::take(&mut self.events);
        let waited = if busy {
            calls::epoll_wait(&self.epoll, &mut events, 0)
        } else {
            self.idle(next.into_iter().chain(timeout).min(), &mut events, on_event)
        };
        let woken = self.peer.bell().wakes_up();
        for event in &events {
            let data = event.u64;
            match data {
                WAKER => {}
                _ if data & LISTENER != 0 => self.accept((data & !LISTENER) as usize, on_event),
                _ => {
                    let conn = ConnId { slot: (data >> 32) as u32, generation: data as u32 };
                    self.ready(conn, event.events, on_event);
                }
            }
        }
        self.events = events;
        self.deliver(on_event);
        if woken {
            self.arrive(on_event);
            on_event(Event::Woken);
        }
        waited
    }

    fn gather(&mut self, time: Duration) {
        self.gather = time;
    }

    fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        self.expire();
        let mut events = std::mem::take(&mut self.events);
        let waited = calls::epoll_wait(&self.epoll, &mut events, 0);
        for event in &events {
            let data = event.u64;
            // The kernel reports all other conditions again.
            if data & LISTENER == 0 && data != WAKER && event.events & libc::EPOLLOUT as u32 != 0 {
                let conn = ConnId { slot: (data >> 32) as u32, generation: data as u32 };
                if let Some(index) = self.find(conn).filter(|index| self.slots[*index as usize].sending != NONE) {
                    self.write(index);
                }
            }
        }
        self.events = events;
        self.deliver(on_event);
        waited
    }

    fn send(&mut self, conn: ConnId, bytes: Vec<u8>) {
        let Some(index) = self.find(conn) else { return };
        let slot = &self.slots[index as usize];
        if slot.state != State::Open || slot.has(BROKEN) {
            return;
        }
        assert!(slot.sending == NONE && !slot.has(UNTOLD), "a second send of {conn:?} while one is in flight");
        let taken = if bytes.is_empty() { Ok(0) } else { calls::send(slot.raw(), &bytes) };
        match taken {
            Ok(taken) if taken == bytes.len() => {
                self.slot(index).flags |= UNTOLD;
                self.notices.push_back(Notice::Sent(conn, bytes));
            }
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.broken(index, Cause::from_errno(error.raw_os_error().unwrap_or(0)));
            }
            partly => {
                let sending = self.sends.insert(bytes, partly.unwrap_or(0));
                let slot = self.slot(index);
                slot.sending = sending;
                let wanted = slot.armed | OUT;
                self.arm(index, wanted);
            }
        }
    }

    fn pause(&mut self, conn: ConnId) {
        if let Some(index) = self.find(conn).filter(|i| self.slots[*i as usize].state == State::Open) {
            self.slot(index).flags |= PAUSED;
        }
    }

    fn resume(&mut self, conn: ConnId) {
        if let Some(index) = self.find(conn).filter(|i| self.slots[*i as usize].state == State::Open) {
            let slot = self.slot(index);
            slot.flags &= !PAUSED;
            if !slot.has(ENDED) {
                let wanted = slot.armed | IN;
                self.arm(index, wanted);
            }
        }
    }

    fn favour(&mut self, _: ConnId) {}

    fn close(&mut self, conn: ConnId, how: Close) {
        let Some(index) = self.find(conn) else { return };
        self.departing.remove(&index);
        let slot = self.slot(index);
        match how {
            Close::Now => {
                if !slot.has(BROKEN) {
                    calls::set_abort(slot.raw());
                }
                self.drop_socket(index);
            }
            Close::AfterSend if matches!(slot.state, State::Open | State::Departing) => {
                if slot.sending == NONE {
                    self.say_goodbye(index);
                } else {
                    slot.state = State::Finishing;
                    let keep = slot.armed & OUT;
                    self.arm(index, keep);
                }
            }
            Close::AfterSend => {}
        }
    }

    fn depart(&mut self, conn: ConnId, to: &Peer, key: u64) {
        let Some(index) = self.find(conn) else { return };
        let slot = self.slot(index);
        if slot.state != State::Open {
            return;
        }
        let (broken, idle) = (slot.has(BROKEN), slot.sending == NONE);
        slot.state = State::Departing;
        self.departing.insert(index, (key, to.clone()));
        if broken {
            self.stay(index, ErrorKind::NotConnected);
        } else if idle {
            self.go(index);
        }
    }

    fn peer_addresses(&mut self, conns: &[ConnId]) -> Vec<Option<SocketAddr>> {
        conns.iter().map(|conn| calls::peer_address(self.slots[self.find(*conn)? as usize].raw())).collect()
    }

    fn peer(&self) -> Peer {
        self.peer.clone()
    }

    fn connections(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    fn connections_max(&self) -> u32 {
        self.connections_max
    }

    fn resting(&self) -> Option<Exhausted> {
        self.listeners.iter().find_map(|listener| listener.resting)
    }

    fn memory_bytes(&self) -> usize {
        let events = self.events.capacity() * size_of::<libc::epoll_event>();
        self.buffer.len() + events + self.slots.memory_bytes() + self.free.capacity() * 4 + self.sends.memory_bytes()
    }

    fn tune(&mut self, tuning: &Tuning) {
        let tuning = tuning.bounded();
        // The kernel fills it to its capacity.
        self.events = Vec::with_capacity(tuning.events);
        tuning.buffer(&mut self.buffer);
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        let Door::Epoll { room, arrivals } = self.peer.door() else {
            return;
        };
        // From here on no thread finds room; a socket that took some a moment ago is closed with
        // the queue.
        room.store(i64::MIN / 2, Ordering::Release);
        drop(arrivals.take());
    }
}
