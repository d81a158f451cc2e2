//! Locks of the server that say who holds them and who waits. They are the standard library's, and none is on a message's way
//! but that of the rows in memory, which shards do not take.
//!
//! A lock that is free costs two stores more than without this. A thread that panicked holding one left it whole: that is so
//! for all locks of the server, so poison is passed over.

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

/// A lock that is held.
#[derive(Debug)]
pub struct Guard<G> {
    // Before the lock is free, for nobody is to be named who has it no more.
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

/// What [`Mutex::lock`] returns.
pub type MutexGuard<'a, T> = Guard<sync::MutexGuard<'a, T>>;

/// What [`RwLock::read`] returns.
pub type ReadGuard<'a, T> = Guard<sync::RwLockReadGuard<'a, T>>;

/// What [`RwLock::write`] returns.
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
    /// A lock of this name.
    pub const fn new(place: Place, value: T) -> Mutex<T> {
        Mutex { place, inner: sync::Mutex::new(value) }
    }

    /// Takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        take(self.place, || self.inner.try_lock(), || self.inner.lock())
    }
}

impl<T> RwLock<T> {
    /// A lock of this name.
    pub const fn new(place: Place, value: T) -> RwLock<T> {
        RwLock { place, inner: sync::RwLock::new(value) }
    }

    /// Takes it for reading.
    pub fn read(&self) -> ReadGuard<'_, T> {
        take(self.place, || self.inner.try_read(), || self.inner.read())
    }

    /// Takes it for writing.
    pub fn write(&self) -> WriteGuard<'_, T> {
        take(self.place, || self.inner.try_write(), || self.inner.write())
    }

    /// Takes it for writing, if nobody has it.
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

/// Lets go of a lock while the thread is at `place`, and has it again.
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
    /// Waits at a place until it is told, or for no reason.
    pub fn wait<'a, T>(&self, place: Place, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        away(place, guard, |inner| self.0.wait(inner).unwrap_or_else(PoisonError::into_inner))
    }

    /// The same for so long at the most.
    pub fn wait_timeout<'a, T>(&self, place: Place, guard: MutexGuard<'a, T>, most: Duration) -> MutexGuard<'a, T> {
        away(place, guard, |inner| self.0.wait_timeout(inner, most).unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Tells one who waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}
