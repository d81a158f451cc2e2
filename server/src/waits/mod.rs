//! Where threads of the server wait: which place each is at, since when, and which locks it holds; how often and how long they
//! wait, once somebody wants that counted.
//!
//! ```text
//! threads --at(place), locks--> slot (one writer) <--reads, no lock-- look (since when) --> tell (in words)
//!                                                 <------------------ count (on and off, by name)
//! ```
//!
//! Always on is where a thread is: two plain stores a wait. Counting reads a clock twice a wait; it is switched on and off while
//! the server runs. Places are declared in one table ([`Place`]). This module knows threads and places; it never learns
//! what anybody waits to do, and nothing here waits for those who are looked at.

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
