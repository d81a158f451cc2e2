//! What the drivers of the server and of the load generator have in common: an io_uring whose sockets stand in its own
//! tables ("direct descriptors"), and the system calls that they make beside it.
//!
//! [`Ring`] has each operation as a method; its completions come back as [`Done`], named by a [`Word`]. [`sys`]
//! has the rest, each as a safe function. It must never know what the bytes mean, nor keep anything of a connection: that
//! is the drivers', and differs between one who accepts and one who connects.

mod done;
mod ring;
mod support;
pub mod sys;
mod table;
#[cfg(test)]
mod tests;
mod word;

pub use done::Done;
pub use ring::{Ring, SEND_BYTES_MAX};
pub use support::Use;
pub use word::{Op, Word};
