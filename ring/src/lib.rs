//! What the drivers of the server and of the load generator have in common: an io_uring whose sockets stand in its own
//! table ("direct descriptors"), and the system calls that they make beside it.
//!
//! [`Ring`] has each operation as a method; its completions come back as the kernel's entries, named by a [`Word`]. [`sys`]
//! has the rest, each as a safe function. It must never know what the bytes mean, nor keep anything of a connection: that
//! is the drivers', and differs between one who accepts and one who connects.

mod ring;
pub mod sys;
mod word;

pub use io_uring::cqueue;
pub use ring::{Ring, Use};
pub use word::{KEY_MAX, Op, Word};
