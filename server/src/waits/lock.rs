//! Locks that record their holders and waiters. They wrap the standard library's. Messages pass
//! none of them but that of the rows in memory, which shards do not take.
//!
//! An uncontended lock costs two more stores than without this. Every lock of the server protects
//! data that stays consistent if its holder panics, so poison is ignored.

use std::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use super::place::Place;
use super::slot::{Held, at};

/// [`sync::Mutex`] with a place.
#[derive(Debug)]
pub struct Mutex<T> {
    place: Place,
    inner: sync::Mutex<T>,
}

/// [`sync::RwLock`] with a place.
#[derive(Debug)]
pub struct RwLock<T> {
    place: Place,
    inner: sync::RwLock<T>,
}

/// The guard of a held lock.
#[derive(Debug)]
pub struct Guard<G> {
    // Dropped before the lock is released, so that a former holder is never reported.
    held: Held,
    inner: G,
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.inner
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.inner
    }
}

/// The result of [`Mutex::lock`].
pub type MutexGuard<'a, T> = Guard<sync::MutexGuard<'a, T>>;

/// The result of [`RwLock::read`].
pub type ReadGuard<'a, T> = Guard<sync::RwLockReadGuard<'a, T>>;

/// The result of [`RwLock::write`].
pub type WriteGuard<'a, T> = Guard<sync::RwLockWriteGuard<'a, T>>;

/// Takes a lock, and is at its place only if it has to wait.
#[inline]
fn take<G>(
    place: Place,
    now: impl FnOnce() -> TryLockResult<G>,
    patiently: impl FnOnce() -> LockResult<G>,
) -> Guard<G> {
    let inner = match now() {
        Ok(inner) => inner,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let _at = at(place);
            patiently().unwrap_or_else(PoisonError::into_inner)
        }
    };
    Guard { held: Held::note(place), inner }
}

impl<T> Mutex<T> {
    /// A lock with this name.
    pub const fn new(place: Place, value: T) -> Mutex<T> {
        Mutex { place, inner: sync::Mutex::new(value) }
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        take(self.place, || self.inner.try_lock(), || self.inner.lock())
    }
}

impl<T> RwLock<T> {
    /// A lock with this name.
    pub const fn new(place: Place, value: T) -> RwLock<T> {
        RwLock { place, inner: sync::RwLock::new(value) }
    }

    /// Locks it for reading.
    pub fn read(&self) -> ReadGuard<'_, T> {
        take(self.place, || self.inner.try_read(), || self.inner.read())
    }

    /// Locks it for writing.
    pub fn write(&self) -> WriteGuard<'_, T> {
        take(self.place, || self.inner.try_write(), || self.inner.write())
    }

    /// Locks it for writing, if it is free.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        let inner = match self.inner.try_write() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Guard { held: Held::note(self.place), inner })
    }

    /// The value, without a lock.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases a lock while the thread is at `place`, and takes it again.
fn away<G>(place: Place, guard: Guard<G>, wait: impl FnOnce(G) -> G) -> Guard<G> {
    let Guard { held, inner } = guard;
    let lock = held.place();
    drop(held);
    let at = at(place);
    let inner = wait(inner);
    drop(at);
    Guard { held: Held::note(lock), inner }
}

/// [`sync::Condvar`] for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Waits at a place until notified, or spuriously.
    pub fn wait<'a, T>(&self, place: Place, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        away(place, guard, |inner| self.0.wait(inner).unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, for at most this time.
    pub fn wait_timeout<'a, T>(&self, place: Place, guard: MutexGuard<'a, T>, most: Duration) -> MutexGuard<'a, T> {
        away(place, guard, |inner| self.0.wait_timeout(inner, most).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Notifies one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}
