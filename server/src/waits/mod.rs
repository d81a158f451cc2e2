//! Where threads of the server wait: the place of each, since when, and the locks it holds; and,
//! once counting is on, how often and how long they wait.
//!
//! ```text
//! threads --at(place), locks--> slot (one writer) <--reads, no lock-- look (times) --> tell (words)
//!                                                 <------------------ count (on and off, by name)
//! ```
//!
//! The place of a thread is always recorded: two plain stores per wait. Counting reads a clock
//! twice per wait; it is switched on and off while the server runs. Places are declared in one
//! table ([`Place`]). This module knows threads and places, not the purpose of a wait, and never
//! waits for the threads that it observes.

mod count;
pub mod kernel;
mod lock;
mod look;
mod pattern;
mod place;
mod repeat;
mod slot;
mod tell;

pub use count::{Count, Counting, Tally, tallies};
pub use lock::{Condvar, Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard};
pub use look::{LOOK_EVERY, Look, Standing, look};
pub use pattern::Pattern;
pub use place::{Place, Sort};
pub use repeat::{Repeated, repeat};
pub use slot::{At, Registration, at, enter, enter_turning, in_short_slices, spawn, stand_back, turned};
pub use tell::{Stuck, locks, standing, stuck};

#[cfg(test)]
mod tests;
