//! The clients' sockets: connects, bytes in, bytes out, ends; the same on io_uring and on epoll.
//!
//! A connection is named by its client's number in the worker, and a client has one at a time:
//! after a close the number may be connected again once [`Event::Closed`] has come. This module
//! must never know what the bytes say.

mod epoll;
mod uring;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use throng_sys::calls;

/// What a worker's sockets are made with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Clients, numbered from 0: the most connections there will be.
    pub(crate) clients: u32,
    /// Connections at most in one table of direct descriptors (io_uring); lowered to the process's
    /// limit of descriptors.
    pub(crate) table_slots: u32,
    /// The server.
    pub(crate) to: SocketAddr,
    /// Addresses to connect from; none: the kernel chooses.
    pub(crate) sources: Vec<IpAddr>,
}

/// Which system calls carry the connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// io_uring with direct descriptors, which count against no limit of the process.
    Uring,
    /// epoll, with a descriptor of the process each.
    Epoll,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// The connection stands.
    Connected(u32),
    /// Bytes came.
    Received(u32, &'a [u8]),
    /// All of a send's bytes are the kernel's; the emptied buffer comes back.
    Sent(u32, Vec<u8>),
    /// It could not be made, has broken (an errno), or the peer has ended its direction (none).
    /// Nothing more is received; the owner closes it.
    Ended(u32, Option<i32>),
    /// It is gone and its number may connect again.
    Closed(u32),
}

/// Sockets of one worker. What is asked for leaves with the next [`Driver::wait`] at the latest.
pub(crate) trait Driver {
    /// Connects a client that has no connection, from the source with this index, modulo how many
    /// there are.
    fn connect(&mut self, client: u32, source: usize);

    /// Sends all of `bytes`. One send a client at a time: the next only after [`Event::Sent`].
    fn send(&mut self, client: u32, bytes: Vec<u8>);

    /// Reads from this client before others from now on, as if it were on a machine of its own:
    /// logins of others do not delay its input. A hint: over epoll it changes nothing.
    fn favour(&mut self, client: u32);

    /// Closes a connection, with a RST if `abort`. [`Event::Closed`] follows and nothing else.
    fn close(&mut self, client: u32, abort: bool);

    /// Reads no more from it until [`Driver::resume`]: its receive window fills up.
    fn pause(&mut self, client: u32);

    /// Reads again.
    fn resume(&mut self, client: u32);

    /// Waits until something happens, at most `timeout`, and tells it.
    ///
    /// # Errors
    /// The kernel refuses what it did before; nothing can be gone on with.
    fn wait(&mut self, timeout: Duration, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()>;
}

/// Bytes of the receive buffer that all clients of a worker share.
const BUFFER_BYTES: usize = 128 << 10;

/// Clients that one worker's driver can hold.
pub(crate) fn clients_max(kind: Kind) -> u32 {
    let limit = u32::try_from(calls::descriptor_limit()).unwrap_or(u32::MAX);
    match kind {
        // The kernel bounds a ring's table by the limit of the process, but a worker may have many.
        Kind::Uring => 1 << 23,
        // Some descriptors are the process's own; workers share the rest.
        Kind::Epoll => limit.saturating_sub(256).max(1),
    }
}

/// Whether this kernel carries connections on io_uring; if not, why.
///
/// # Errors
/// A sentence saying what it refuses.
pub(crate) fn uring_works() -> io::Result<()> {
    uring::probe()
}

/// Makes a driver.
///
/// # Errors
/// Descriptors, memory, or an io_uring that this kernel does not have.
pub(crate) fn open(kind: Kind, settings: &Settings) -> io::Result<Box<dyn Driver>> {
    Ok(match kind {
        Kind::Uring => Box::new(uring::Uring::new(settings)?),
        Kind::Epoll => Box::new(epoll::Epoll::new(settings)?),
    })
}
