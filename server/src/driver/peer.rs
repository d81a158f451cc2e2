//! A driver's handle for other threads: wakes the driver, and is the destination of departing
//! sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use throng_sys::calls;

use crate::waking::{Arrivals, Bell};

/// Another thread's handle of a driver. Cheap to clone; may outlive the driver.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    bell: Bell,
    event: OwnedFd,
    door: Door,
}

/// How a socket enters a driver.
pub(super) enum Door {
    /// By a message from ring to ring, into the tables of the receiving ring in rotation. The
    /// descriptors are duplicates, so that they never name another file. The queue carries the slot
    /// that the socket got.
    Uring { tables: Vec<OwnedFd>, next: AtomicU32, arrivals: Arrivals<u32> },
    /// Through a queue, once room has been reserved.
    Epoll { room: AtomicI64, arrivals: Arrivals<OwnedFd> },
}

impl Peer {
    pub(super) fn new(door: Door) -> io::Result<Peer> {
        Ok(Peer(Arc::new(Inner { bell: Bell::default(), event: calls::eventfd()?, door })))
    }

    /// Makes the driver's `wait` return with [`Event::Woken`](super::Event::Woken), now or the next
    /// time. Writes before this call are visible after that event. Costs a system call only if the
    /// driver sleeps.
    pub fn wake(&self) {
        if self.0.bell.ring() {
            calls::eventfd_signal(self.0.event.as_fd());
        }
    }

    /// Whether both refer to the same driver.
    pub fn is(&self, other: &Peer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The bell that the driver informs before and after it waits.
    pub(super) fn bell(&self) -> &Bell {
        &self.0.bell
    }

    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    pub(super) fn door(&self) -> &Door {
        &self.0.door
    }

    /// The table for the next arrival, and the number of other tables; zeros if the driver has no
    /// tables.
    pub(super) fn next_table(&self) -> (u32, u32) {
        match &self.0.door {
            Door::Uring { tables, next, .. } if tables.len() > 1 => {
                (next.fetch_add(1, Ordering::Relaxed), tables.len() as u32 - 1)
            }
            _ => (0, 0),
        }
    }

    /// The descriptor of one of its ring's tables, by a running number modulo their count; `None`
    /// if sockets enter otherwise.
    pub(super) fn table(&self, number: u32) -> Option<BorrowedFd<'_>> {
        match &self.0.door {
            Door::Uring { tables, .. } => Some(tables[number as usize % tables.len()].as_fd()),
            Door::Epoll { .. } => None,
        }
    }
}

impl Peer {
    /// Reports that a socket has been put at this place of a table of its ring, numbered as in
    /// [`Peer::table`].
    pub(super) fn has_got(&self, key: u64, table: u32, place: u32) {
        if let Door::Uring { tables, arrivals, .. } = &self.0.door {
            let count = tables.len() as u32;
            arrivals.push(key, place * count + table % count);
            self.wake();
        }
    }

    /// The slots of sockets that have arrived in its ring's tables, with their keys.
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

/// Reserves one place at an epoll driver, if there is one.
pub(super) fn take_room(room: &AtomicI64) -> bool {
    room.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| (left > 0).then(|| left - 1)).is_ok()
}
