//! One thread's network: sockets in, events out, with the same interface over io_uring and epoll.
//!
//! A driver belongs to one thread. It accepts, receives, sends, closes, and moves sockets between
//! threads. It must never know what the bytes mean (no TLS, no XML), nor to which user a connection
//! belongs.
//!
//! Two verbs: the methods put orders in ([`Driver::send`], [`Driver::close`], ...),
//! [`Driver::wait`] takes events out. Orders never call back and never return errors: failures are
//! reported as events. Orders reach the kernel with the next `wait` at the latest.
//!
//! # Life of a connection
//!
//! ```text
//!              Accepted                                   another thread's depart
//!                 |                                                 | Arrived
//!                 v                                                 v
//!      .------- Open  <---- pause / resume (reading only) ----->  Open
//!      |          |  \
//!      |   Failed |   \ depart        (a send in flight is finished first: Sent)
//!      |          v    v
//!      |       Broken  Departing ------> Departed         slot free, socket at the other thread
//!      |          |        `-----------> DepartureFailed  Open again, at this thread
//!      | close    | close
//!      v          v
//!     AfterSend: send in flight finished -> FIN -> rest of the peer's bytes discarded until its
//!                FIN, `linger` or LINGER_BYTES
//!     Now:       everything cancelled -> RST
//!      |
//!      v
//!    Closed   slot free, generation incremented: no event carries this ConnId any more
//! ```
//!
//! * [`Event::Failed`] with [`Cause::PeerClosed`] is a half-close: sending still works. After any
//!   other cause nothing works. In both cases the slot stays taken until [`Driver::close`].
//! * After `close` the only event of a connection is `Closed`; after `depart` only `Sent` (for the
//!   send in flight), `Failed` together with `DepartureFailed`, or `Departed`. Bytes that arrive
//!   during a move stay in the socket and are received at the other thread: a driver never has a
//!   receive pending between two calls of `wait`.
//! * An order for a connection that is closed (stale generation) or leaving is ignored: the peer
//!   may always be faster.
//!
//! # What a connection costs
//!
//! An idle connection has 16 bytes in the driver's table and no buffer: io_uring maintains one
//! multishot poll in the kernel, epoll one entry. Received bytes go through one buffer per thread.
//! A `Vec` given to `send` is held until the kernel has taken all of it, and is then returned in
//! [`Event::Sent`] for reuse.

mod alarms;
mod choose;
mod epoll;
mod listen;
mod peer;
#[cfg(test)]
mod tests;
mod uring;

pub use choose::{Choice, Preference, choose};
pub use listen::{listener_copies, own_listener, own_listeners, shared_listener};
pub use peer::Peer;
pub use throng_engine::id::ConnId;
use throng_engine::settings::SEND_STALL_S_DEFAULT;
/// Bytes of a send between two [`Event::Progressed`]. A peer that takes fewer within the send
/// timeout is treated as stalled. One event may stand for up to [`SEND_BYTES_MAX`].
pub use throng_sys::PROGRESS_BYTES;
use throng_sys::uring::SEND_BYTES_MAX;

/// Bytes of a send that the kernel buffers beyond what it has sent to the peer
/// (`TCP_NOTSENT_LOWAT`). The socket becomes writable again when half of them have been sent.
/// Without this limit the kernel buffers up to 4 MiB and reports room only after a third of that: a
/// slow but steady peer would show no progress for minutes.
pub const UNSENT_BYTES: u32 = 64 << 10;

/// A link with this throughput in bytes per second is not treated as stalled.
const SLOW_LINK_BYTES_S: usize = 4 << 10;

// Such a link shows progress twice within the timeout: io_uring reports how far a send has come
// when one of its operations completes.
const _: () =
    assert!(2 * (UNSENT_BYTES as usize / 2 + SEND_BYTES_MAX) <= SLOW_LINK_BYTES_S * SEND_STALL_S_DEFAULT as usize);
const _: () = assert!(PROGRESS_BYTES <= SEND_BYTES_MAX);

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// The owner's listener on which a connection was accepted (plain, TLS, component, ...); opaque to
/// the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerTag(pub u8);

/// How to close a connection, for [`Driver::close`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// Finish the send in flight, then send FIN. Discard what the peer still sends until it closes
    /// too, [`Settings::linger`] has passed or [`LINGER_BYTES`] have arrived. The caller must end a
    /// send that never finishes, with [`Close::Now`].
    AfterSend,
    /// Drop everything, including what the kernel has not yet delivered (RST): for peers that
    /// misbehave or do not read.
    Now,
}

/// Bytes of a lingering connection that are discarded before it is reset: far more than a
/// well-behaved peer has in flight when it learns of the close, and few enough that a flooding peer
/// costs little.
pub const LINGER_BYTES: usize = 1 << 20;

/// Why a connection receives nothing more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The peer has closed its direction (FIN); it may still read.
    PeerClosed,
    /// The connection was reset (RST, or a send into a closed socket).
    Reset,
    /// Any other error of the kernel, such as a keepalive timeout.
    Error(io::ErrorKind),
}

/// Why accepting pauses, for [`Event::AcceptPaused`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exhausted {
    /// This thread's table is full ([`Settings::slots`]). Accepting resumes when connections have
    /// closed.
    Slots,
    /// The process or the host has no descriptors or memory left. Accepting is retried after 100
    /// ms.
    Descriptors,
}

/// An event delivered by [`Driver::wait`]; ordered per connection.
#[derive(Debug)]
pub enum Event<'a> {
    /// A new connection; received bytes follow.
    Accepted {
        /// Its id from now on.
        conn: ConnId,
        /// The listener that accepted it.
        tag: ListenerTag,
        /// The peer's address; an IPv4 peer of an IPv6 listener is given as IPv4.
        peer: SocketAddr,
    },
    /// Bytes from the peer, at least one, in the thread's shared buffer: the receiver may modify
    /// them, and they are invalid after the call.
    Received {
        /// The connection that received them.
        conn: ConnId,
        /// At most [`Tuning::receive_buffer_bytes`].
        bytes: &'a mut [u8],
    },
    /// The kernel has taken all bytes of the send in flight: the next may be sent.
    Sent {
        /// The connection that sent.
        conn: ConnId,
        /// The vector that was sent, emptied, for reuse.
        buffer: Vec<u8>,
    },
    /// The kernel has taken [`PROGRESS_BYTES`] more of the send in flight, and has not taken all.
    Progressed {
        /// The connection that sent.
        conn: ConnId,
    },
    /// The connection receives nothing more. Unless the cause is [`Cause::PeerClosed`], a send in
    /// flight is lost and nothing more is sent. It waits for [`Driver::close`]. At most one
    /// `PeerClosed` and one other cause per connection.
    Failed {
        /// The connection.
        conn: ConnId,
        /// The cause.
        cause: Cause,
    },
    /// The connection is closed and its slot free: its last event.
    Closed {
        /// The connection.
        conn: ConnId,
    },
    /// A connection of another thread has moved to this one; received bytes follow.
    Arrived {
        /// The key that was given to [`Driver::depart`].
        key: u64,
        /// Its id from now on.
        conn: ConnId,
    },
    /// The connection now belongs to the other thread and its slot at this one is free: its last
    /// event at this thread.
    Departed {
        /// Its former id at this thread.
        conn: ConnId,
        /// The key that was given to [`Driver::depart`].
        key: u64,
    },
    /// The other thread had no room, or has ended: the connection stays, open as before.
    DepartureFailed {
        /// Its id, still valid.
        conn: ConnId,
        /// The key that was given to [`Driver::depart`].
        key: u64,
        /// The kernel's error.
        error: io::ErrorKind,
    },
    /// Accepting has paused; it resumes without an order.
    AcceptPaused {
        /// The listener.
        tag: ListenerTag,
        /// The exhausted resource.
        cause: Exhausted,
    },
    /// [`Peer::wake`] was called since the last `wait`; the last event of a `wait`.
    Woken,
    /// The thread slept in this `wait` and is awake again: the first of the events that ended the
    /// sleep.
    Slept,
}

/// Limits of one driver.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Maximum number of connections; rounded up to make a ring's tables equal. For epoll, lowered
    /// to the process's limit (`RLIMIT_NOFILE`).
    pub slots: u32,
    /// Maximum number of connections in one table of direct descriptors (io_uring), lowered to
    /// `RLIMIT_NOFILE`, which bounds each table.
    pub table_slots: u32,
    /// Maximum number of the process's descriptors that connections may take, if each takes one
    /// (epoll). Other files of the process need descriptors, too.
    pub descriptors: u32,
    /// How long a connection closed [`Close::AfterSend`] may keep its slot after its last send.
    pub linger: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { slots: 19_900, table_slots: u32::MAX, descriptors: u32::MAX, linger: Duration::from_secs(3) }
    }
}

/// Settings that may change between two waits, for [`Driver::tune`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Approximate maximum number of events delivered by one `wait`, because a turn must end for
    /// the rest of the thread's work. At least 8, so that there is room for both favoured and other
    /// connections.
    pub events: usize,
    /// Approximate maximum number of these events from connections that are not favoured
    /// ([`Driver::favour`]); at least 1. A storm of logins or closes thus does not lengthen the
    /// turns of established sessions. Has no effect over epoll.
    pub others: usize,
    /// Size of the thread's one buffer for received bytes; at least 64 KiB. Over epoll one receive
    /// uses all of it; over io_uring the receives of a batch share it.
    pub receive_buffer_bytes: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { events: 256, others: 32, receive_buffer_bytes: 256 << 10 }
    }
}

impl Tuning {
    /// Clamps the settings to their limits.
    fn bounded(self) -> Tuning {
        Tuning {
            events: self.events.max(8),
            others: self.others.max(1),
            receive_buffer_bytes: self.receive_buffer_bytes.max(64 << 10),
        }
    }

    /// A buffer of the configured size; the old one if it has that size.
    fn buffer(&self, old: &mut Box<[u8]>) {
        if old.len() != self.receive_buffer_bytes {
            *old = vec![0; self.receive_buffer_bytes].into_boxed_slice();
        }
    }
}

/// The implementation of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// io_uring with direct descriptors: a connection takes no descriptor of the process. Linux 6.7
    /// or newer.
    Uring,
    /// epoll: works on every kernel.
    Epoll,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Uring => "io_uring",
            Kind::Epoll => "epoll",
        })
    }
}

/// One thread's network; see the module for the life of a connection. Must be used on the thread
/// that created it.
pub trait Driver {
    /// The implementation.
    fn kind(&self) -> Kind;

    /// Accepts connections from `listener` (see [`shared_listener`]) until the driver is dropped.
    /// At most 256 listeners.
    ///
    /// # Errors
    /// The kernel's, or `InvalidInput` beyond 256 listeners.
    fn listen(&mut self, listener: TcpListener, tag: ListenerTag) -> io::Result<()>;

    /// Stops accepting for good: new connections are refused, and so are those in the kernel's
    /// queue. At most one `Accepted` per listener may still follow, for a connection that was
    /// accepted before.
    fn close_listeners(&mut self);

    /// Submits what is pending, waits at most `timeout` (`None`: forever) for an event, and
    /// delivers all events. Returns early when woken, and without any event when interrupted.
    ///
    /// # Errors
    /// Only if the driver itself is broken; failures of one connection are events.
    fn wait(&mut self, timeout: Option<Duration>, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()>;

    /// How long later sleeps defer completions that follow soon after they begin, so that one
    /// wake-up delivers more. Zero, the initial value, disables this.
    fn gather(&mut self, time: Duration);

    /// [`Driver::wait`] without waiting, receiving or accepting: delivers the results of sends,
    /// closes and moves. For a caller that can take no more input.
    ///
    /// # Errors
    /// As `wait`.
    fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()>;

    /// Sends all of `bytes`; completes with [`Event::Sent`], or [`Event::Failed`].
    ///
    /// # Panics
    /// If a send of this connection is in flight: an error of the caller.
    fn send(&mut self, conn: ConnId, bytes: Vec<u8>);

    /// Stops receiving: the peer's bytes stay in the kernel, and TCP flow control holds the peer
    /// back. Costs no wake-ups.
    fn pause(&mut self, conn: ConnId);

    /// Resumes receiving after [`Driver::pause`].
    fn resume(&mut self, conn: ConnId);

    /// Receives from this connection before others, and before ends of connections, as long as it
    /// belongs to this thread. A hint: no effect over epoll, where the kernel determines the order.
    fn favour(&mut self, conn: ConnId);

    /// Closes; completes with [`Event::Closed`], and only then is the slot free. [`Close::Now`] may
    /// follow [`Close::AfterSend`]. On a departing connection the close wins if the socket has not
    /// left yet: then `Closed` follows, and `Departed` otherwise.
    fn close(&mut self, conn: ConnId, how: Close);

    /// Moves the connection to the thread of `to`, where [`Event::Arrived`] carries `key`. A send
    /// in flight is finished first. What the peer sends in the meantime is received at the other
    /// thread, in order. A pause is not carried over.
    fn depart(&mut self, conn: ConnId, to: &Peer, key: u64);

    /// The peer addresses of open connections, queried from the kernel now: one answer each, `None`
    /// for a closed connection or one without a known peer. An IPv4 peer of an IPv6 listener is
    /// given as IPv4.
    fn peer_addresses(&mut self, conns: &[ConnId]) -> Vec<Option<SocketAddr>>;

    /// This driver's handle for other threads.
    fn peer(&self) -> Peer;

    /// Number of slots in use.
    fn connections(&self) -> u32;

    /// Number of connections that it has room for.
    fn connections_max(&self) -> u32 {
        u32::MAX
    }

    /// Why some listener has paused accepting, if one has. Descriptors are tried every 100 ms;
    /// during a retry nothing is reported as exhausted until the attempt fails.
    fn resting(&self) -> Option<Exhausted> {
        None
    }

    /// Memory of its tables and buffers, in bytes, without pending sends.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Applies these settings from the next `wait` on.
    fn tune(&mut self, tuning: &Tuning);
}

impl Cause {
    fn from_errno(errno: i32) -> Cause {
        match errno {
            libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED => Cause::Reset,
            other => Cause::Error(io::Error::from_raw_os_error(other).kind()),
        }
    }
}

/// How long accepting pauses after the process ran out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Maximum number of listeners per driver.
const LISTENERS_MAX: usize = 256;

/// An event produced outside `wait`, or one that must wait for its turn.
enum Notice {
    Sent(ConnId, Vec<u8>),
    Progressed(ConnId),
    Failed(ConnId, Cause),
    Closed(ConnId),
    Departed(ConnId, u64),
    DepartureFailed(ConnId, u64, io::ErrorKind),
    AcceptPaused(ListenerTag, Exhausted),
}

impl Notice {
    fn event(self) -> Event<'static> {
        match self {
            Notice::Sent(conn, mut buffer) => {
                buffer.clear();
                Event::Sent { conn, buffer }
            }
            Notice::Progressed(conn) => Event::Progressed { conn },
            Notice::Failed(conn, cause) => Event::Failed { conn, cause },
            Notice::Closed(conn) => Event::Closed { conn },
            Notice::Departed(conn, key) => Event::Departed { conn, key },
            Notice::DepartureFailed(conn, key, error) => Event::DepartureFailed { conn, key, error },
            Notice::AcceptPaused(tag, cause) => Event::AcceptPaused { tag, cause },
        }
    }
}
