//! What a driver asks of a ring.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use super::done::Done;
use super::word::Word;
use crate::sends::Advance;

/// A [`Ring`](super::Ring), or a test's, so that the life of a connection can be held against a kernel that a test plays.
///
/// `low` is the caller's number in the word of an operation's completion; where none is given, it is the number of the send,
/// the share or the room that the operation works on.
pub trait Kernel {
    /// Tables there are.
    fn tables(&self) -> u32;

    /// Slots of each table.
    fn table_slots(&self) -> u32;

    /// The table that a slot is in.
    fn table_of(&self, slot: u32) -> u32;

    /// Submits what is pending; operations that need not wait are done afterwards.
    ///
    /// # Errors
    /// The kernel's.
    fn submit(&mut self) -> io::Result<()>;

    /// Submits what is pending and lets the kernel post what has happened.
    ///
    /// # Errors
    /// The kernel's.
    fn poll(&mut self) -> io::Result<()>;

    /// Submits what is pending and waits for one completion. Returns without any when the time is up, and when a signal
    /// comes. Unless `gather` is zero, a completion that comes earlier than that waits for others until then, if the
    /// kernel can do that (Linux 6.12).
    ///
    /// # Errors
    /// The kernel's.
    fn sleep(&mut self, timeout: Option<Duration>, gather: Duration) -> io::Result<()>;

    /// Moves the completions there are to the end of `into`. The memory of their operations is back.
    fn collect(&mut self, into: &mut Vec<Done>);

    /// Tells each time that bytes have arrived, or an end or an error.
    fn arm_poll(&mut self, slot: u32, low: u32);

    /// The same for a descriptor of the process ([`Op::Wake`](super::Op::Wake)).
    fn arm_descriptor(&mut self, fd: RawFd);

    /// Ends the operation named `word`, in the table of its slot, which then completes with `ECANCELED`.
    fn cancel(&mut self, word: Word);

    /// Ends our direction with a FIN. A worker of the kernel does it, some time later, to whatever is in the slot then: the
    /// slot must not be given up before the completion.
    fn shutdown_write(&mut self, slot: u32, low: u32);

    /// Takes the socket out of the table, which closes it; with a RST if `abort`. When the kernel has no memory to make it
    /// a reset, nothing is closed, and the completion is `ECANCELED`.
    fn close(&mut self, slot: u32, abort: bool, low: u32);

    /// Puts the socket into another ring's table, of which the first completion ([`Op::Depart`](super::Op::Depart)) tells the
    /// place there, and then takes it out of this one ([`Op::Left`](super::Op::Left)). If the first fails, the second is
    /// cancelled.
    ///
    /// The other ring gets no completion: where it has no memory for one, the kernel would leave the socket in both tables,
    /// in a place over there that nobody knows (`EOVERFLOW`).
    fn depart(&mut self, slot: u32, to: BorrowedFd<'_>, low: u32);

    /// Accepts one connection into a free slot of a table. The peer's address comes into the room with this number, whose
    /// last accept is done.
    fn accept(&mut self, listener: RawFd, table: u32, room: u32);

    /// The address that an accept has put into its room, once it is done.
    fn accepted_from(&self, room: u32) -> Option<SocketAddr>;

    /// The addresses of the peers of these slots, asked of the kernel now; none for no slot.
    fn peer_names(&mut self, slots: &[Option<u32>]) -> Vec<Option<SocketAddr>>;

    /// Bytes of the buffer that is received into.
    fn buffer_bytes(&self) -> usize;

    /// Makes that buffer so large. No receive may be under way.
    fn set_buffer_bytes(&mut self, bytes: usize);

    /// Divides the buffer for a batch of `count` receives, into shares of at most `most` bytes. Returns the bytes of a share.
    /// No receive may be under way.
    fn divide(&mut self, count: usize, most: usize) -> usize;

    /// Receives what is there into a share of the buffer, without waiting: done when `submit` returns.
    fn receive(&mut self, slot: u32, share: u32);

    /// Receives under way.
    fn receiving(&self) -> usize;

    /// What a receive that is done has brought: the first `count` bytes of its share.
    fn received(&mut self, share: u32, count: usize) -> &mut [u8];

    /// Sends bytes, however long the peer takes, at most [`SEND_BYTES_MAX`](super::SEND_BYTES_MAX) of them: the completion says
    /// how many. Returns the number of the send, which is [`Kernel::advance`]d then, and goes on with [`Kernel::send_rest`] or
    /// ends with [`Kernel::take_sent`].
    fn send(&mut self, slot: u32, bytes: Vec<u8>) -> u32;

    /// Sends what the kernel has not taken yet of a send that is not under way.
    fn send_rest(&mut self, slot: u32, send: u32);

    /// Counts `taken` more bytes of a send as with the kernel.
    fn advance(&mut self, send: u32, taken: usize) -> Advance;

    /// Ends a send that is not under way and gives its bytes back.
    fn take_sent(&mut self, send: u32) -> Vec<u8>;

    /// Sends that have not ended.
    fn sends(&self) -> usize;

    /// Memory of its tables and buffers in bytes, without what is being sent.
    fn memory_bytes(&self) -> usize;
}
