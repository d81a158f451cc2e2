//! An io_uring whose sockets are in its own tables ("direct descriptors"), with each operation a
//! method of [`Kernel`].
//!
//! Completions are returned as [`Done`], named by a [`Word`]. Memory that an operation works on is
//! owned by the ring ([`Lent`]). Bytes to send are passed in with the send and taken out when it
//! has completed. Received bytes are read from the ring's buffer when their receive has completed,
//! addresses from their rooms when the accept has. The ring learns of completed operations only
//! from completions that it has collected itself, and makes the words of all operations. A caller
//! can thus neither take memory back too early nor make one operation look like another.

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
