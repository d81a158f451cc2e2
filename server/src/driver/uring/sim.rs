//! The driver over a kernel simulated from a seed: any order of completions, short sends, late
//! cancellations, full tables, exhausted memory. It checks the guarantees of [`Driver`] for a
//! connection's life, and that nothing remains when all connections have ended.
//!
//! A failing seed is reported; `URING_SIM_SEEDS=first..last` runs other seeds than the default
//! ones.

use super::*;
use crate::driver::{Cause, own_listener};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;
use throng_sys::Advance;
use throng_sys::uring::{Lent, Word};

const SEEDS: std::ops::Range<u64> = 0..400;
const STEPS: usize = 300;

/// An operation in the kernel.
enum Pending {
    Accept(Word),
    Poll(Word),
    Receive(Word, usize),
    Send(Word, usize),
    Shutdown(Word),
    Close(Word, bool),
    Depart(Word, Word),
    /// The second half of a departure.
    Leave(Word),
}

impl Pending {
    fn word(&self) -> Word {
        match self {
            Pending::Accept(word)
            | Pending::Poll(word)
            | Pending::Receive(word, ..)
            | Pending::Send(word, ..)
            | Pending::Shutdown(word)
            | Pending::Close(word, _)
            | Pending::Depart(word, _)
            | Pending::Leave(word) => *word,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Socket {
    number: u64,
    finished: bool,
    broken: bool,
}

/// How a socket has left the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Closed,
    Reset,
    /// Closed after an error: there is no peer to reset.
    Broken,
    Gone,
}

struct World {
    random: u64,
    tables: u32,
    /// No more failures are injected.
    calm: bool,
    /// No close can be made a reset.
    irresettable: bool,
    sockets: BTreeMap<u32, Socket>,
    slots: u32,
    sockets_made: u64,
    fates: BTreeMap<u64, Fate>,
    pending: Vec<Pending>,
    done: Vec<Done>,
    places: u32,
}

/// The driver's handle, with the lent memory; other handles only inspect.
struct Sim(Rc<RefCell<World>>, Lent);

impl Clone for Sim {
    fn clone(&self) -> Sim {
        Sim(self.0.clone(), Lent::default())
    }
}

impl World {
    /// A number below `most`.
    fn draw(&mut self, most: usize) -> usize {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % most.max(1) as u64) as usize
    }

    /// True in this percentage of cases, and never once it is calm.
    fn fails(&mut self, percent: usize) -> bool {
        self.draw(100) < percent && !self.calm
    }

    fn tell(&mut self, word: Word, result: i32, more: bool) {
        let sock_nonempty = self.draw(4) == 0;
        self.done.push(Done { word, result, more, sock_nonempty });
    }

    /// A new socket in a free slot of the table, if it has one.
    fn make(&mut self, table: u32) -> Option<u32> {
        let free: Vec<u32> =
            (0..self.slots).filter(|s| s % self.tables == table && !self.sockets.contains_key(s)).collect();
        let slot = *free.get(self.draw(free.len()))?;
        self.sockets_made += 1;
        self.sockets.insert(slot, Socket { number: self.sockets_made, ..Socket::default() });
        Some(slot)
    }

    fn socket(&mut self, slot: u32) -> &mut Socket {
        self.sockets.get_mut(&slot).expect("an operation is of a slot that has a socket")
    }

    /// The socket leaves its place, where nothing may be pending.
    fn give_up(&mut self, slot: u32, fate: Fate) {
        let of_it = |pending: &&Pending| !matches!(pending, Pending::Accept(..)) && pending.word().slot() == slot;
        if let Some(pending) = self.pending.iter().find(of_it) {
            panic!("slot {slot} is given up with {:?} pending", pending.word().op());
        }
        let socket = self.sockets.remove(&slot).expect("a place is given up once");
        let fate = if socket.broken && fate == Fate::Closed { Fate::Broken } else { fate };
        self.fates.insert(socket.number, fate);
    }

    /// Completes some of the pending operations, in any order.
    fn advance(&mut self, all: bool) {
        for _ in 0..self.pending.len() {
            if self.pending.is_empty() {
                return;
            }
            let at = self.draw(self.pending.len());
            let hurries = all && matches!(self.pending[at], Pending::Receive(..));
            if self.calm || hurries || self.draw(3) > 0 {
                let pending = self.pending.swap_remove(at);
                self.happen(pending);
            }
        }
        if all {
            while let Some(at) = self.pending.iter().position(|p| matches!(p, Pending::Receive(..))) {
                let pending = self.pending.swap_remove(at);
                self.happen(pending);
            }
        }
    }

    fn happen(&mut self, pending: Pending) {
        match pending {
            Pending::Accept(word) => self.accept(word),
            Pending::Poll(word) => self.fire(word),
            Pending::Receive(word, length) => self.receive(word, length),
            Pending::Send(word, length) => self.send(word, length),
            Pending::Shutdown(word) => self.tell(word, 0, false),
            Pending::Close(word, abort) => {
                // No memory for the option: what is linked to it is not executed.
                if abort && (self.irresettable || self.fails(30)) {
                    return self.tell(word, -libc::ECANCELED, false);
                }
                self.give_up(word.slot(), if abort { Fate::Reset } else { Fate::Closed });
                self.tell(word, 0, false);
            }
            Pending::Depart(word, left) => {
                let errors =
                    [libc::ENFILE, libc::ENFILE, libc::EBADFD, libc::ENOMEM, libc::EOVERFLOW, libc::EOWNERDEAD];
                if self.fails(40) {
                    let error = errors[self.draw(errors.len())];
                    self.tell(word, -error, false);
                    return self.tell(left, -libc::ECANCELED, false);
                }
                self.places += 1;
                let place = self.places as i32;
                self.tell(word, place, false);
                self.pending.push(Pending::Leave(left));
            }
            Pending::Leave(word) => {
                self.give_up(word.slot(), Fate::Gone);
                self.tell(word, 0, false);
            }
        }
    }

    fn accept(&mut self, word: Word) {
        if self.fails(10) {
            // The latter causes a pause, which is long for a simulation.
            let error = if self.draw(20) > 0 { libc::ECONNABORTED } else { libc::EMFILE };
            return self.tell(word, -error, false);
        }
        if self.calm || self.fails(50) {
            return self.pending.push(Pending::Accept(word));
        }
        let Some(slot) = self.make(word.slot() % self.tables) else {
            return self.tell(word, -libc::ENFILE, false);
        };
        self.tell(word, slot as i32, false);
    }

    /// A multishot poll reports and stays armed, or ends.
    fn fire(&mut self, word: Word) {
        let kinds = [libc::POLLIN, libc::POLLIN | libc::POLLRDHUP, libc::POLLIN | libc::POLLHUP | libc::POLLERR];
        let result = if self.fails(5) { -libc::ENOMEM } else { i32::from(kinds[self.draw(kinds.len())]) };
        let more = result >= 0 && self.draw(4) > 0;
        if more {
            self.pending.push(Pending::Poll(word));
        }
        self.tell(word, result, more);
    }

    fn receive(&mut self, word: Word, length: usize) {
        let chance = self.draw(100);
        let count = if self.draw(3) == 0 { length } else { 1 + self.draw(length.min(3000)) };
        let socket = self.socket(word.slot());
        let result = match chance {
            _ if socket.broken => -libc::ECONNRESET,
            _ if socket.finished => 0,
            0..30 => -libc::EAGAIN,
            30..35 => -libc::EINTR,
            35..42 => {
                socket.finished = true;
                0
            }
            42..47 => {
                socket.broken = true;
                -libc::ECONNRESET
            }
            _ => count as i32,
        };
        self.tell(word, result, false);
    }

    fn send(&mut self, word: Word, length: usize) {
        let (chance, part) = (self.draw(100), self.draw(length + 1));
        let calm = self.calm;
        let socket = self.socket(word.slot());
        let result = match chance {
            _ if socket.broken => -libc::EPIPE,
            0..5 if !calm => {
                socket.broken = true;
                -libc::ECONNRESET
            }
            5..8 if !calm => -libc::ECANCELED,
            8..50 if !calm => part as i32,
            _ => length as i32,
        };
        self.tell(word, result, false);
    }

    fn cancel(&mut self, word: Word) {
        // Too late: a worker thread of the kernel has it, and it ends by itself.
        if self.fails(20) {
            return;
        }
        let Some(at) = self.pending.iter().position(|pending| pending.word() == word) else { return };
        match self.pending.swap_remove(at) {
            Pending::Send(word, length) if length > 0 && self.draw(2) == 0 => {
                let part = self.draw(length) as i32;
                self.tell(word, if part > 0 { part } else { -libc::ECANCELED }, false);
            }
            pending => self.tell(pending.word(), -libc::ECANCELED, false),
        }
    }
}

impl Kernel for Sim {
    fn tables(&self) -> u32 {
        self.0.borrow().tables
    }

    fn table_slots(&self) -> u32 {
        self.0.borrow().slots / self.tables()
    }

    fn table_of(&self, slot: u32) -> u32 {
        slot % self.tables()
    }

    fn submit(&mut self) -> io::Result<()> {
        self.0.borrow_mut().advance(false);
        Ok(())
    }

    fn poll(&mut self) -> io::Result<()> {
        self.submit()
    }

    fn sleep(&mut self, _: Option<Duration>, _: Duration) -> io::Result<()> {
        self.0.borrow_mut().advance(true);
        Ok(())
    }

    fn collect(&mut self, into: &mut Vec<Done>) {
        let mut world = self.0.borrow_mut();
        // Not every completion is always seen.
        let all = world.done.len();
        let count = if world.fails(20) { world.draw(all + 1) } else { all };
        for done in world.done.drain(..count) {
            self.1.land(&done);
            match done.word.op() {
                Op::Receive if done.result > 0 => self.1.received(done.word.low(), done.result as usize).fill(7),
                Op::Accept if done.result >= 0 => self.1.set_address(done.word.low(), ([127, 0, 0, 1], 4000).into()),
                _ => {}
            }
            into.push(done);
        }
    }

    fn arm_poll(&mut self, slot: u32, low: u32) {
        let mut world = self.0.borrow_mut();
        world.socket(slot);
        assert!(!world.pending.iter().any(|p| matches!(p, Pending::Poll(w) if w.slot() == slot)), "a second poll");
        world.pending.push(Pending::Poll(Word::new(Op::Poll, slot, low)));
    }

    fn arm_descriptor(&mut self, _: RawFd) {}

    fn cancel(&mut self, word: Word) {
        self.0.borrow_mut().cancel(word);
    }

    fn shutdown_write(&mut self, slot: u32, low: u32) {
        let mut world = self.0.borrow_mut();
        world.socket(slot);
        world.pending.push(Pending::Shutdown(Word::new(Op::Shutdown, slot, low)));
    }

    fn close(&mut self, slot: u32, abort: bool, low: u32) {
        let mut world = self.0.borrow_mut();
        world.socket(slot);
        world.pending.push(Pending::Close(Word::new(Op::Close, slot, low), abort));
    }

    fn depart(&mut self, slot: u32, _: BorrowedFd<'_>, low: u32) {
        let mut world = self.0.borrow_mut();
        world.socket(slot);
        world.pending.push(Pending::Depart(Word::new(Op::Depart, slot, low), Word::new(Op::Left, slot, low)));
    }

    fn accept(&mut self, _: RawFd, table: u32, room: u32) {
        self.1.lend_room(room);
        self.0.borrow_mut().pending.push(Pending::Accept(Word::new(Op::Accept, table, room)));
    }

    fn accepted_from(&self, room: u32) -> Option<SocketAddr> {
        self.1.address(room)
    }

    fn peer_names(&mut self, _: &[Option<u32>]) -> Vec<Option<SocketAddr>> {
        unreachable!("no name is asked for");
    }

    fn buffer_bytes(&self) -> usize {
        self.1.buffer_bytes()
    }

    fn set_buffer_bytes(&mut self, bytes: usize) {
        self.1.set_buffer_bytes(bytes);
    }

    fn divide(&mut self, count: usize, most: usize) -> usize {
        self.1.divide(count, most)
    }

    fn receive(&mut self, slot: u32, share: u32) {
        let mut world = self.0.borrow_mut();
        world.socket(slot);
        let length = self.1.lend_share(share).len();
        world.pending.push(Pending::Receive(Word::new(Op::Receive, slot, share), length));
    }

    fn receiving(&self) -> usize {
        self.1.receiving()
    }

    fn received(&mut self, share: u32, count: usize) -> &mut [u8] {
        self.1.received(share, count)
    }

    fn send(&mut self, slot: u32, bytes: Vec<u8>) -> u32 {
        let send = self.1.sends.insert(bytes, 0);
        self.send_rest(slot, send);
        send
    }

    fn send_rest(&mut self, slot: u32, send: u32) {
        let mut world = self.0.borrow_mut();
        world.socket(slot);
        let length = self.1.sends.lend(send).len();
        world.pending.push(Pending::Send(Word::new(Op::Send, slot, send), length));
    }

    fn advance(&mut self, send: u32, taken: usize) -> Advance {
        self.1.sends.advance(send, taken)
    }

    fn take_sent(&mut self, send: u32) -> Vec<u8> {
        self.1.sends.remove(send)
    }

    fn sends(&self) -> usize {
        self.1.sends.in_flight()
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The owner's knowledge of a connection.
#[derive(Default)]
struct Known {
    socket: u64,
    sending: bool,
    closed: Option<Close>,
    departs: Option<u64>,
    finished: bool,
    broken: bool,
}

/// A driver, its kernel and its owner.
struct Play {
    sim: Sim,
    driver: Uring<Sim>,
    /// The destination of departures.
    other: Peer,
    conns: BTreeMap<(u32, u32), Known>,
    keys: u64,
    /// Sockets sent to this driver that have not been reported yet, by key.
    coming: BTreeMap<u64, u64>,
    /// Keys of departed connections.
    gone: Vec<u64>,
}

impl Play {
    fn new(seed: u64) -> Play {
        let tables = 1 + (seed % 2) as u32;
        let world = World {
            random: seed,
            tables,
            calm: false,
            irresettable: false,
            sockets: BTreeMap::new(),
            slots: 12,
            sockets_made: 0,
            fates: BTreeMap::new(),
            pending: Vec::new(),
            done: Vec::new(),
            places: 0,
        };
        let sim = Sim(Rc::new(RefCell::new(world)), Lent::default());
        let doors = |count: u32| (0..count).map(|_| calls::eventfd().expect("a descriptor")).collect::<Vec<_>>();
        let linger = if seed.is_multiple_of(3) { Duration::ZERO } else { Duration::from_micros(300) };
        let mut driver = Uring::over(sim.clone(), doors(tables), linger).expect("a driver");
        driver.listen(own_listener("127.0.0.1:0".parse().unwrap(), false, false).unwrap(), ListenerTag(0)).unwrap();
        let door = Door::Uring { tables: doors(2), next: AtomicU32::new(0), arrivals: Arrivals::default() };
        let other = Peer::new(door).expect("a peer");
        Play { sim, driver, other, conns: BTreeMap::new(), keys: 0, coming: BTreeMap::new(), gone: Vec::new() }
    }

    fn draw(&self, most: usize) -> usize {
        self.sim.0.borrow_mut().draw(most)
    }

    fn wait(&mut self) {
        let Play { sim, driver, conns, coming, gone, .. } = self;
        let begin = |conns: &mut BTreeMap<_, Known>, conn: ConnId, socket: Option<u64>| {
            let here = sim.0.borrow().sockets[&conn.slot].number;
            assert_eq!(socket.unwrap_or(here), here, "the slot is of the socket that it is told of");
            assert!(conns.keys().all(|(slot, _)| *slot != conn.slot), "{conn:?} is in a slot that is taken");
            conns.insert((conn.slot, conn.generation), Known { socket: here, ..Known::default() });
        };
        let fate = |socket: u64| sim.0.borrow().fates.get(&socket).copied();
        let mut on_event = |event: Event<'_>| {
            let key = |conn: ConnId| (conn.slot, conn.generation);
            match event {
                Event::Accepted { conn, .. } => begin(conns, conn, None),
                Event::Arrived { key, conn } => begin(conns, conn, Some(coming.remove(&key).expect("arrives once"))),
                Event::Received { conn, bytes } => {
                    let known = &conns[&key(conn)];
                    assert!(known.closed.is_none() && known.departs.is_none() && !known.broken && !known.finished);
                    assert!(!bytes.is_empty() && bytes.iter().all(|byte| *byte == 7));
                }
                Event::Sent { conn, .. } => {
                    let known = conns.get_mut(&key(conn)).expect("a connection");
                    assert!(std::mem::take(&mut known.sending) && known.closed.is_none() && !known.broken);
                }
                Event::Failed { conn, cause } => {
                    let known = conns.get_mut(&key(conn)).expect("a connection");
                    assert!(known.closed.is_none() && known.departs.is_none());
                    let told = if cause == Cause::PeerClosed { &mut known.finished } else { &mut known.broken };
                    assert!(!std::mem::replace(told, true), "told once");
                    known.sending &= !known.broken;
                }
                Event::Closed { conn } => {
                    let known = conns.remove(&key(conn)).expect("one end each");
                    let (closed, fate) = (known.closed.expect("nobody else closes"), fate(known.socket));
                    let good = if closed == Close::Now { Fate::Reset } else { Fate::Closed };
                    let is_good = fate.is_some_and(|fate| fate == good || fate == Fate::Broken);
                    assert!(is_good, "{conn:?} was closed by {closed:?} and ended by {fate:?}");
                }
                Event::Departed { conn, key: told } => {
                    let known = conns.remove(&key(conn)).expect("one end each");
                    assert_eq!((known.departs, fate(known.socket)), (Some(told), Some(Fate::Gone)));
                    gone.push(told);
                }
                Event::DepartureFailed { conn, key: told, .. } => {
                    let known = conns.get_mut(&key(conn)).expect("a connection");
                    assert!(known.closed.is_none());
                    assert_eq!(known.departs.take(), Some(told));
                }
                Event::Progressed { conn } => assert!(conns[&key(conn)].sending, "{conn:?} sends nothing"),
                Event::AcceptPaused { .. } | Event::Woken | Event::Slept => {}
            }
        };
        driver.wait(Some(Duration::from_millis(1)), &mut on_event).expect("the driver itself does not break");
    }

    /// The owner, or another thread, acts.
    fn act(&mut self) {
        let what = self.draw(16);
        if what == 0 {
            let table = self.draw(self.sim.tables() as usize) as u32;
            let made = self.sim.0.borrow_mut().make(table);
            if let Some(slot) = made {
                self.keys += 1;
                self.coming.insert(self.keys, self.sim.0.borrow().sockets[&slot].number);
                let tables = self.sim.tables();
                self.driver.peer().has_got(self.keys, slot % tables, slot / tables);
            }
            return;
        }
        let at = self.draw(self.conns.len());
        let (bytes, key) = (self.draw(5) * 1000, self.keys + 1);
        let Some((&(slot, generation), known)) = self.conns.iter_mut().nth(at) else { return };
        let conn = ConnId { slot, generation };
        let is_open = known.closed.is_none() && known.departs.is_none();
        // A socket that is being closed also gets this report too late.
        let freeing = self.driver.slots[slot as usize].state == State::Freeing;
        match what {
            1..=5 if is_open && !known.sending && !known.broken => {
                known.sending = true;
                self.driver.send(conn, vec![1; bytes]);
            }
            6 => self.driver.pause(conn),
            7 | 8 => self.driver.resume(conn),
            9 => self.driver.favour(conn),
            10 | 11 => {
                known.closed = known.closed.filter(|_| freeing).or(Some(Close::Now));
                self.driver.close(conn, Close::Now);
            }
            12 | 13 => {
                known.closed.get_or_insert(Close::AfterSend);
                self.driver.close(conn, Close::AfterSend);
            }
            14 if is_open => {
                known.departs = Some(key);
                self.keys = key;
                let to = self.other.clone();
                self.driver.depart(conn, &to, key);
            }
            _ => {}
        }
    }

    /// Ends all connections and checks that nothing remains.
    fn end(mut self) {
        self.sim.0.borrow_mut().calm = true;
        let begin = std::time::Instant::now();
        loop {
            let all: Vec<(u32, u32)> = self.conns.keys().copied().collect();
            for (slot, generation) in all {
                let freeing = self.driver.slots[slot as usize].state == State::Freeing;
                let known = self.conns.get_mut(&(slot, generation)).expect("a connection");
                known.closed = known.closed.filter(|_| freeing).or(Some(Close::Now));
                self.driver.close(ConnId { slot, generation }, Close::Now);
            }
            self.wait();
            if self.conns.is_empty() && self.coming.is_empty() && self.driver.alarms.lingering() == 0 {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{} connections do not end", self.conns.len());
        }
        self.wait();
        let driver = &self.driver;
        assert_eq!((driver.used, driver.used_of.iter().sum::<u32>()), (0, 0));
        assert_eq!(
            (driver.departing.len(), driver.notices.len(), driver.ring.sends(), driver.ring.receiving()),
            (0, 0, 0, 0)
        );
        assert!(driver.slots.iter().all(|slot| slot.state == State::Free));
        let world = self.sim.0.borrow();
        assert!(world.sockets.is_empty(), "sockets that nobody knows");
        assert!(world.pending.iter().all(|pending| matches!(pending, Pending::Accept(..))), "operations of nobody");
        // Each departed connection is known at the other thread, by its key.
        let mut there: Vec<u64> = self.other.arrived().into_iter().map(|(key, _)| key).collect();
        there.sort_unstable();
        self.gone.sort_unstable();
        assert_eq!(there, self.gone);
    }
}

#[test]
fn each_connection_has_one_end_and_leaves_nothing_whatever_the_kernel_does() {
    let range = std::env::var("URING_SIM_SEEDS").ok().and_then(|text| {
        let (first, last) = text.split_once("..")?;
        Some(first.parse().ok()?..last.parse().ok()?)
    });
    for seed in range.unwrap_or(SEEDS) {
        let played = std::panic::catch_unwind(|| {
            let mut play = Play::new(seed);
            for _ in 0..STEPS {
                play.act();
                if play.draw(2) == 0 {
                    play.wait();
                }
            }
            play.end();
        });
        if let Err(panic) = played {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// A connection that was sent to this driver, in a simulation without injected failures.
fn arrived() -> (Play, ConnId) {
    let mut play = Play::new(0);
    play.sim.0.borrow_mut().calm = true;
    let slot = play.sim.0.borrow_mut().make(0).expect("a slot");
    play.driver.peer().has_got(1, 0, slot);
    let mut conn = None;
    while conn.is_none() {
        let mut note = |event: Event<'_>| {
            if let Event::Arrived { conn: arrived, .. } = event {
                conn = Some(arrived);
            }
        };
        play.driver.wait(Some(Duration::from_millis(1)), &mut note).expect("the driver itself does not break");
    }
    (play, conn.expect("just seen"))
}

/// The option that makes a close a reset needs kernel memory, which may never become available: the
/// slot must not be retried forever, once per turn.
#[test]
fn a_reset_that_can_never_be_made_becomes_a_close() {
    let (mut play, conn) = arrived();
    play.sim.0.borrow_mut().irresettable = true;
    play.driver.close(conn, Close::Now);
    let (mut closed, mut waits) = (0, 0);
    while closed == 0 {
        let mut note = |event: Event<'_>| closed += u32::from(matches!(event, Event::Closed { .. }));
        play.driver.wait(Some(Duration::from_millis(1)), &mut note).expect("the driver itself does not break");
        waits += 1;
        assert!(waits < 100, "it is tried for ever");
    }
    assert_eq!((closed, play.driver.used), (1, 0));
    assert!(play.sim.0.borrow().fates.values().eq([&Fate::Closed]));
}
