//! A driver's address for other threads: wakes it, and is where departing sockets go.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, Ordering};

use throng_ring::sys;

use crate::waits::{Mutex, Place};

/// Another thread's view of a driver. Cheap to clone; outlives the driver harmlessly.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    state: AtomicU8,
    event: OwnedFd,
    door: Door,
}

/// How a socket gets in.
pub(super) enum Door {
    /// By a message from ring to ring, into one of the other's tables, each time the next; the descriptors are duplicates,
    /// so that they never name another file. The slot that it got comes through the queue.
    Uring { tables: Vec<OwnedFd>, next: AtomicU32, arrivals: Arrivals<u32> },
    /// Through a queue, once room has been taken.
    Epoll { room: AtomicI64, arrivals: Arrivals<OwnedFd> },
}

/// Sockets that came from other threads, with their keys.
pub(super) struct Arrivals<T> {
    queue: Mutex<Vec<(u64, T)>>,
    /// Whether there are some: each waking looks, and takes no lock for it.
    some: AtomicBool,
}

impl<T> Arrivals<T> {
    pub(super) fn new() -> Arrivals<T> {
        Arrivals { queue: Mutex::new(Place::LockArrivals, Vec::new()), some: AtomicBool::new(false) }
    }

    /// Adds one; [`Peer::wake`] follows.
    pub(super) fn push(&self, key: u64, socket: T) {
        let mut queue = self.queue.lock();
        queue.push((key, socket));
        self.some.store(true, Ordering::Release);
    }

    /// All that came before the last wake, at least.
    pub(super) fn take(&self) -> Vec<(u64, T)> {
        if !self.some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut queue = self.queue.lock();
        self.some.store(false, Ordering::Release);
        std::mem::take(&mut *queue)
    }
}

/// At work: it will look before it sleeps, no need for a system call.
const AWAKE: u8 = 0;
/// In the kernel: it has to be woken.
const ASLEEP: u8 = 1;
/// Told already.
const NOTIFIED: u8 = 2;

impl Peer {
    pub(super) fn new(door: Door) -> io::Result<Peer> {
        Ok(Peer(Arc::new(Inner { state: AtomicU8::new(AWAKE), event: sys::eventfd()?, door })))
    }

    /// Makes the driver's `wait` return with [`Event::Woken`](super::Event::Woken), now or the next time. What was
    /// written before this call is seen after that event. A system call only if the driver sleeps.
    pub fn wake(&self) {
        if self.0.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            sys::eventfd_signal(self.0.event.as_fd());
        }
    }

    /// Whether both are the address of the same driver.
    pub fn is(&self, other: &Peer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The driver is about to wait; false when it was told meanwhile and must not sleep.
    pub(super) fn falls_asleep(&self) -> bool {
        self.0.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The driver has waited; true when it was told since the last time.
    pub(super) fn wakes_up(&self) -> bool {
        self.0.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    pub(super) fn door(&self) -> &Door {
        &self.0.door
    }

    /// The table for the next one who moves there, and how many others there are; zeros where there are no tables.
    pub(super) fn next_table(&self) -> (u32, u32) {
        match &self.0.door {
            Door::Uring { tables, next, .. } if tables.len() > 1 => {
                (next.fetch_add(1, Ordering::Relaxed), tables.len() as u32 - 1)
            }
            _ => (0, 0),
        }
    }

    /// The descriptor of a table of its ring, counted on over all that there are; none if sockets go in otherwise.
    pub(super) fn table(&self, number: u32) -> Option<BorrowedFd<'_>> {
        match &self.0.door {
            Door::Uring { tables, .. } => Some(tables[number as usize % tables.len()].as_fd()),
            Door::Epoll { .. } => None,
        }
    }
}

impl Peer {
    /// A socket has been put into a table of its ring, counted on as in [`Peer::table`], at this place.
    pub(super) fn has_got(&self, key: u64, table: u32, place: u32) {
        if let Door::Uring { tables, arrivals, .. } = &self.0.door {
            let count = tables.len() as u32;
            arrivals.push(key, place * count + table % count);
            self.wake();
        }
    }

    /// The slots of sockets that have come into its ring's tables, with their keys.
    pub(super) fn arrived(&self) -> Vec<(u64, u32)> {
        match &self.0.door {
            Door::Uring { arrivals, .. } => arrivals.take(),
            Door::Epoll { .. } => Vec::new(),
        }
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

/// Takes one place at an epoll driver, if there is one.
pub(super) fn take_room(room: &AtomicI64) -> bool {
    room.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| (left > 0).then(|| left - 1)).is_ok()
}
