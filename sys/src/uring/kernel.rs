//! The operations that a driver requests from a ring.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use super::done::Done;
use super::word::Word;
use crate::sends::Advance;

/// Implemented by a [`Ring`](super::Ring), or by a test, so that the life of a connection can be
/// checked against a simulated kernel.
///
/// `low` is the caller's number in the word of an operation's completion. Where it is not a
/// parameter, it is the number of the send, share or room that the operation works on.
pub trait Kernel {
    /// Number of tables.
    fn tables(&self) -> u32;

    /// Number of slots of each table.
    fn table_slots(&self) -> u32;

    /// The table that a slot is in.
    fn table_of(&self, slot: u32) -> u32;

    /// Submits pending operations; those that need not wait have completed afterwards.
    ///
    /// # Errors
    /// The kernel's.
    fn submit(&mut self) -> io::Result<()>;

    /// Submits pending operations and lets the kernel post completions.
    ///
    /// # Errors
    /// The kernel's.
    fn poll(&mut self) -> io::Result<()>;

    /// Submits pending operations and waits for one completion. Returns without any on a timeout or
    /// a signal. Unless `gather` is zero, an earlier completion waits for others until then, if the
    /// kernel supports it (Linux 6.12).
    ///
    /// # Errors
    /// The kernel's.
    fn sleep(&mut self, timeout: Option<Duration>, gather: Duration) -> io::Result<()>;

    /// Moves the available completions to the end of `into`. The memory of their operations is no
    /// longer lent.
    fn collect(&mut self, into: &mut Vec<Done>);

    /// Reports whenever bytes, an end or an error has arrived.
    fn arm_poll(&mut self, slot: u32, low: u32);

    /// The same for a descriptor of the process ([`Op::Wake`](super::Op::Wake)).
    fn arm_descriptor(&mut self, fd: RawFd);

    /// Cancels the operation named `word`, in the table of its slot, which then completes with
    /// `ECANCELED`.
    fn cancel(&mut self, word: Word);

    /// Closes our direction with a FIN. A worker of the kernel does so some time later, to whatever
    /// is in the slot then: the slot must not be released before the completion.
    fn shutdown_write(&mut self, slot: u32, low: u32);

    /// Removes the socket from the table, which closes it; with a RST if `abort`. If the kernel has
    /// no memory to make it a reset, nothing is closed, and the completion is `ECANCELED`.
    fn close(&mut self, slot: u32, abort: bool, low: u32);

    /// Puts the socket into another ring's table, whose place the first completion
    /// ([`Op::Depart`](super::Op::Depart)) reports, and then removes it from this one
    /// ([`Op::Left`](super::Op::Left)). If the first fails, the second is cancelled.
    ///
    /// The other ring gets no completion: if it had no memory for one, the kernel would leave the
    /// socket in both tables, in an unknown place of the other (`EOVERFLOW`).
    fn depart(&mut self, slot: u32, to: BorrowedFd<'_>, low: u32);

    /// Accepts one connection into a free slot of a table. The peer's address is written to the
    /// room with this number, whose last accept must have completed.
    fn accept(&mut self, listener: RawFd, table: u32, room: u32);

    /// The address that a completed accept has written to its room.
    fn accepted_from(&self, room: u32) -> Option<SocketAddr>;

    /// The addresses of the peers of these slots, queried from the kernel now; `None` for `None`.
    fn peer_names(&mut self, slots: &[Option<u32>]) -> Vec<Option<SocketAddr>>;

    /// Bytes of the receive buffer.
    fn buffer_bytes(&self) -> usize;

    /// Resizes the receive buffer. No receive may be in progress.
    fn set_buffer_bytes(&mut self, bytes: usize);

    /// Divides the buffer for a batch of `count` receives, into shares of at most `most` bytes.
    /// Returns the bytes of a share. No receive may be in progress.
    fn divide(&mut self, count: usize, most: usize) -> usize;

    /// Receives the available bytes into a share of the buffer, without waiting: complete when
    /// `submit` returns.
    fn receive(&mut self, slot: u32, share: u32);

    /// Number of receives in progress.
    fn receiving(&self) -> usize;

    /// The result of a completed receive: the first `count` bytes of its share.
    fn received(&mut self, share: u32, count: usize) -> &mut [u8];

    /// Sends bytes, however long the peer takes, at most [`SEND_BYTES_MAX`](super::SEND_BYTES_MAX)
    /// of them: the completion has the count. Returns the number of the send. It is then
    /// [`Kernel::advance`]d, and continued with [`Kernel::send_rest`] or ended with
    /// [`Kernel::take_sent`].
    fn send(&mut self, slot: u32, bytes: Vec<u8>) -> u32;

    /// Sends the remaining bytes of a send that is not in progress.
    fn send_rest(&mut self, slot: u32, send: u32);

    /// Counts `taken` more bytes of a send as taken by the kernel.
    fn advance(&mut self, send: u32, taken: usize) -> Advance;

    /// Ends a send that is not in progress and returns its bytes.
    fn take_sent(&mut self, send: u32) -> Vec<u8>;

    /// Number of sends that have not ended.
    fn sends(&self) -> usize;

    /// Memory of its tables and buffers in bytes, without pending sends.
    fn memory_bytes(&self) -> usize;
}
