//! The threads that sleep and wake each other, each cut down to the steps that sleeping and waking consist of.
//!
//! Compiled once for each set of atomics. The steps are in the order in which `server/src/driver`, `server/src/thread.rs`
//! and `server/src/disk/{commit,read}.rs` take them.

use super::{Arrivals, Bell, Gates, Parking};
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
// Not the model's, which panics once more when a play that has failed is taken down.
use std::sync::Arc;

/// What a sleeper does between saying that it will sleep and sleeping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// It looks into its queues once more.
    Done,
    /// Planted: it does not.
    LeftOut,
}

/// Plays all orders of `play`'s steps in which threads are interrupted at most so often where they need not be. Returns
/// how many there were.
pub fn explore(preemptions: usize, play: impl Fn() + Send + Sync + 'static) -> usize {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    let plays = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = plays.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        play();
    });
    plays.load(Ordering::Relaxed)
}

/// The ends of a ring for one writer and one reader (`rtrb`), of which only the orderings matter.
#[derive(Default)]
struct Ring(AtomicUsize);

impl Ring {
    fn push(&self) {
        let tail = self.0.load(Ordering::Relaxed);
        self.0.store(tail + 1, Ordering::Release);
    }

    /// How many were ever pushed, as far as the reader knows.
    fn pushed(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// What a thread sleeps in: a counter of the kernel's (`eventfd`), or the permit of [`std::thread::park`]. Not the model's
/// `park`, which loses a permit that is given while the thread waits for a lock.
#[derive(Default)]
struct Bed {
    permit: Mutex<bool>,
    given: Condvar,
}

impl Bed {
    fn leave(&self) {
        *self.permit.lock().expect("no play goes on after a panic") = true;
        self.given.notify_one();
    }

    fn lie(&self) {
        let mut permit = self.permit.lock().expect("no play goes on after a panic");
        while !*permit {
            permit = self.given.wait(permit).expect("no play goes on after a panic");
        }
        *permit = false;
    }
}

/// A shard's thread as others know it.
#[derive(Default)]
struct Driver {
    bell: Bell,
    bed: Bed,
}

impl Driver {
    fn wake(&self) {
        if self.bell.ring() {
            self.bed.leave();
        }
    }

    /// The network's part of a turn. It sleeps unless it was rung for, and returns only when it was: no wake-up is for
    /// nothing.
    fn wait(&self) {
        if self.bell.falls_asleep() {
            self.bed.lie();
        }
        assert!(self.bell.wakes_up(), "the thread was woken, or kept from sleeping, by nobody");
    }
}

/// A thread that parks, as others know it.
#[derive(Default)]
struct Sleeper {
    parking: Parking,
    bed: Bed,
}

impl Sleeper {
    fn wake(&self) {
        if self.parking.must_unpark() {
            self.bed.leave();
        }
    }

    fn sleep(&self, empty: impl FnOnce() -> bool) {
        self.parking.sleep(empty, || self.bed.lie());
    }
}

/// Shards that send `letters` each to one that sleeps.
pub fn peers(senders: usize, letters: usize) {
    let driver = Arc::new(Driver::default());
    let rings: Arc<Vec<Ring>> = Arc::new((0..senders).map(|_| Ring::default()).collect());
    for sender in 0..senders {
        let (driver, rings) = (driver.clone(), rings.clone());
        thread::spawn(move || {
            for _ in 0..letters {
                rings[sender].push();
                driver.wake();
            }
        });
    }
    let mut waits = 0;
    while rings.iter().map(Ring::pushed).sum::<usize>() < senders * letters {
        driver.wait();
        waits += 1;
    }
    assert!(waits <= senders * letters, "woken {waits} times for {senders} times {letters} letters");
}

/// Shards that hand `sockets` each over to one that sleeps, which looks only when it was woken.
pub fn arrivals(senders: usize, sockets: usize) {
    let driver = Arc::new(Driver::default());
    let arrivals = Arc::new(Arrivals::default());
    for sender in 0..senders {
        let (driver, arrivals) = (driver.clone(), arrivals.clone());
        thread::spawn(move || {
            for socket in 0..sockets {
                arrivals.push((sender * sockets + socket) as u64, ());
                driver.wake();
            }
        });
    }
    let (mut keys, mut waits) = (Vec::new(), 0);
    while keys.len() < senders * sockets {
        driver.wait();
        waits += 1;
        keys.extend(arrivals.take().into_iter().map(|(key, ())| key));
    }
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..(senders * sockets) as u64), "each arrives once");
    assert!(waits <= senders * sockets, "woken {waits} times for {senders} times {sockets} sockets");
}

/// Shards that hand in `batches` each, one after the other, and sleep until each is durable; a committer that sleeps
/// until there are some.
pub fn committer(shards: usize, batches: usize, check: Check) {
    let sleeper = Arc::new(Sleeper::default());
    let taken = Arc::new(AtomicU64::new(0));
    let tickets = || (0..batches).map(|_| AtomicU64::default()).collect::<Vec<_>>();
    let rings: Arc<Vec<(Ring, Vec<AtomicU64>)>> = Arc::new((0..shards).map(|_| (Ring::default(), tickets())).collect());
    let drivers: Vec<_> = (0..shards).map(|_| Arc::new(Driver::default())).collect();
    let gates = Arc::new(Gates::new(drivers.clone()));
    for (shard, driver) in drivers.into_iter().enumerate() {
        let (sleeper, taken, rings, gates) = (sleeper.clone(), taken.clone(), rings.clone(), gates.clone());
        thread::spawn(move || {
            for batch in 0..batches {
                let ticket = taken.fetch_add(1, Ordering::AcqRel) + 1;
                let (ring, tickets) = &rings[shard];
                tickets[batch].store(ticket, Ordering::Relaxed);
                ring.push();
                sleeper.wake();
                while !gates.wake_at(shard, ticket) {
                    driver.wait();
                }
            }
        });
    }
    let (mut drained, mut window, mut next, mut idle) = (vec![0; shards], Vec::new(), 1, 0);
    let all = (shards * batches) as u64;
    while next <= all {
        let mut found = false;
        for ((ring, tickets), drained) in rings.iter().zip(&mut drained) {
            while *drained < ring.pushed() {
                window.push(tickets[*drained].load(Ordering::Relaxed));
                *drained += 1;
                found = true;
            }
        }
        let before = next;
        while window.contains(&next) {
            next += 1;
        }
        if next > before {
            gates.publish(next - 1, |driver| driver.wake());
            continue;
        }
        idle += u64::from(!found);
        let empty = || {
            let nothing = || rings.iter().zip(&drained).all(|((ring, _), drained)| ring.pushed() == *drained);
            check == Check::LeftOut || nothing()
        };
        sleeper.sleep(empty);
    }
    // One before each batch, and one for a permit that is left by a batch that was seen without it.
    assert!(idle <= 2 * all, "the committer looked {idle} times for nothing, for {all} batches");
}

/// A shard that asks `requests` questions, each of which rests on the commit of its number, and sleeps until they are
/// answered; a reader that sleeps until there is one whose commit is durable; a committer that makes them durable.
pub fn reader(requests: usize, check: Check) {
    let sleeper = Arc::new(Sleeper::default());
    let gates = Arc::new(Gates::new(vec![sleeper.clone()]));
    let (asked, answered) = (Arc::new(Ring::default()), Arc::new(Ring::default()));
    let shard = {
        let (sleeper, asked, answered) = (sleeper.clone(), asked.clone(), answered.clone());
        let driver = Arc::new(Driver::default());
        let own = driver.clone();
        thread::spawn(move || {
            for _ in 0..requests {
                asked.push();
                sleeper.wake();
            }
            while answered.pushed() < requests {
                own.wait();
            }
        });
        driver
    };
    {
        let gates = gates.clone();
        thread::spawn(move || (1..=requests as u64).for_each(|gate| gates.publish(gate, |sleeper| sleeper.wake())));
    }
    let (mut done, mut looks) = (0, 0);
    while done < requests {
        looks += 1;
        let next = done as u64 + 1;
        if asked.pushed() > done && gates.durable() >= next {
            done += 1;
            answered.push();
            shard.wake();
            continue;
        }
        let empty = || check == Check::LeftOut || asked.pushed() == done || !gates.wake_at(0, next);
        sleeper.sleep(empty);
    }
    // An answer each; a wake-up by the shard and one by the committer for each; one before the first.
    assert!(looks <= 3 * requests + 1 + requests, "the reader looked {looks} times for {requests} requests");
}
