//! An io_uring whose sockets stand in its own tables ("direct descriptors"), each operation a method of [`Kernel`].
//!
//! Completions come back as [`Done`], named by a [`Word`]. Memory that an operation works on is the ring's ([`Lent`]): bytes to
//! be sent are handed in with the send and taken out when it is done, received bytes are read from the ring's buffer when
//! their receive is done, addresses from their rooms when the accept is done. The ring knows which operations are done from
//! the completions that it has collected itself, and makes the words of all operations, so a caller can neither take memory
//! back too early nor make one operation look like another.

mod done;
mod kernel;
mod lent;
mod ring;
mod support;
mod table;
#[cfg(test)]
mod tests;
mod word;

pub use done::Done;
pub use kernel::Kernel;
pub use lent::Lent;
pub use ring::{Ring, SEND_BYTES_MAX};
pub use support::Use;
pub use word::{Op, Word};
