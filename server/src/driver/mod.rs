//! One thread's network: sockets in, events out, the same over io_uring and over epoll.
//!
//! A driver belongs to one thread. It accepts, receives, sends, closes, and moves sockets between threads; it must never
//! know what the bytes mean (no TLS, no XML), nor who a connection belongs to.
//!
//! Two verbs: the methods put orders in ([`Driver::send`], [`Driver::close`], ...), [`Driver::wait`] takes events out.
//! Orders never call back and never fail towards the caller: what goes wrong comes out as an event. They leave the process
//! with the next `wait` at the latest.
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
//!      |       Broken  Departing ------> Departed         slot free, the socket lives on at the other thread
//!      |          |        `-----------> DepartureFailed  Open again, here
//!      | close    | close
//!      v          v
//!     AfterSend: send in flight finished -> FIN -> rest of the peer's bytes thrown away until its FIN, `linger` or
//!                LINGER_BYTES
//!     Now:       everything cancelled -> RST
//!      |
//!      v
//!    Closed   slot free, generation counted up: no event carries this ConnId any more
//! ```
//!
//! * [`Event::Failed`] with [`Cause::PeerClosed`] is a half-close: sending still works. After any other cause nothing works.
//!   Either way the slot stays taken until [`Driver::close`].
//! * After `close` the only event of a connection is `Closed`; after `depart` only `Sent` (for the send in flight),
//!   `Failed` together with `DepartureFailed`, or `Departed`. Bytes that arrive during a move stay in the socket and are
//!   received at the other thread: a driver never has a receive pending between two calls of `wait`.
//! * An order for a connection that is gone (stale generation) or leaving is ignored: the peer may always be faster.
//!
//! # What a connection costs
//!
//! An idle connection has 16 bytes in the driver's table and no buffer: io_uring keeps one multishot poll in the kernel,
//! epoll one entry. Received bytes go through one buffer a thread. A `Vec` given to `send` is held until the kernel has
//! taken all of it and then handed back in [`Event::Sent`] for the next use.

mod alarms;
mod choose;
mod epoll;
mod listen;
mod peer;
#[cfg(test)]
mod tests;
mod uring;

pub use choose::{Choice, Preference, choose};
pub use listen::{own_listener, own_listeners, shared_listener};
pub use peer::Peer;
pub use throng_engine::id::ConnId;
use throng_engine::settings::SEND_STALL_S_DEFAULT;
/// Bytes of a send between two [`Event::Progressed`]: a peer that takes less than these within its time is taken for one that
/// takes nothing. It may be told of up to [`SEND_BYTES_MAX`] at a time.
pub use throng_sys::PROGRESS_BYTES;
use throng_sys::uring::SEND_BYTES_MAX;

/// Bytes that the kernel takes of a send beyond what it has sent to the peer (`TCP_NOTSENT_LOWAT`). It says that there is room again when
/// half of them have gone. Without this bound it takes up to 4 MiB, and says so only when a third of that has gone: of a
/// slow peer that takes all the while nothing would be heard for minutes.
pub const UNSENT_BYTES: u32 = 64 << 10;

/// A link of so many bytes per second, which takes them all the while, is not taken for one that stands.
const SLOW_LINK_BYTES_S: usize = 4 << 10;

// It is heard of twice within its time: io_uring says how far a send has come when one of its operations is over.
const _: () =
    assert!(2 * (UNSENT_BYTES as usize / 2 + SEND_BYTES_MAX) <= SLOW_LINK_BYTES_S * SEND_STALL_S_DEFAULT as usize);
const _: () = assert!(PROGRESS_BYTES <= SEND_BYTES_MAX);

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// Which of the owner's listeners a connection came in by (plain, TLS, component, ...); the driver only carries it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerTag(pub u8);

/// How to close, for [`Driver::close`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// Finish the send in flight, then say goodbye (FIN) and throw away what the peer still sends until it closes too,
    /// [`Settings::linger`] has passed or [`LINGER_BYTES`] have come. A send that never finishes is the caller's to end, with [`Close::Now`].
    AfterSend,
    /// Drop everything, what the kernel has not yet delivered too (RST): for peers that misbehave or do not read.
    Now,
}

/// So many bytes are thrown away of a connection that lingers, before it is reset: much more than a peer that keeps the rules
/// has under way when it learns of the end, and little enough that one that floods on costs nothing to speak of.
pub const LINGER_BYTES: usize = 1 << 20;

/// Why nothing more is received from a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The peer has closed its direction (FIN); it may still read.
    PeerClosed,
    /// The connection was reset (RST, or a send into a closed socket).
    Reset,
    /// Anything else the kernel says, such as a time-out of keepalive.
    Error(io::ErrorKind),
}

/// Why accepting stands still for a moment, for [`Event::AcceptPaused`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exhausted {
    /// This thread's table is full ([`Settings::slots`]). Accepting goes on when connections have gone.
    Slots,
    /// The process or the host has no descriptor or no memory left. Accepting is tried again after 100 ms.
    Descriptors,
}

/// What [`Driver::wait`] hands over, in the order in which it happened for each connection.
#[derive(Debug)]
pub enum Event<'a> {
    /// A new connection; received bytes follow.
    Accepted {
        /// Its name from now on.
        conn: ConnId,
        /// The listener it came in by.
        tag: ListenerTag,
        /// The peer's address; an IPv4 peer of an IPv6 listener is given as IPv4.
        peer: SocketAddr,
    },
    /// Bytes from the peer, at least one, in the thread's shared buffer: free to change, gone after the call.
    Received {
        /// From whom.
        conn: ConnId,
        /// At most [`Tuning::receive_buffer_bytes`].
        bytes: &'a mut [u8],
    },
    /// The kernel has taken all bytes of the send in flight: the next may go.
    Sent {
        /// To whom.
        conn: ConnId,
        /// The vector that was sent, emptied, for the next use.
        buffer: Vec<u8>,
    },
    /// The kernel has taken [`PROGRESS_BYTES`] more of the send in flight, and has not taken all.
    Progressed {
        /// To whom.
        conn: ConnId,
    },
    /// Nothing more is received; unless it is [`Cause::PeerClosed`], a send in flight is lost and nothing more is sent.
    /// Waits for [`Driver::close`]. At most one `PeerClosed` and one other cause a connection.
    Failed {
        /// Which connection.
        conn: ConnId,
        /// Why.
        cause: Cause,
    },
    /// The connection is gone and its slot free: its last event.
    Closed {
        /// Which connection.
        conn: ConnId,
    },
    /// Another thread's connection has moved here; received bytes follow.
    Arrived {
        /// The key that was given to [`Driver::depart`].
        key: u64,
        /// Its name from now on.
        conn: ConnId,
    },
    /// The connection lives at the other thread now and its slot here is free: its last event here.
    Departed {
        /// Its name here, until now.
        conn: ConnId,
        /// The key that was given to [`Driver::depart`].
        key: u64,
    },
    /// The other thread had no room, or is gone: the connection stays, open as before.
    DepartureFailed {
        /// Its name, still valid.
        conn: ConnId,
        /// The key that was given to [`Driver::depart`].
        key: u64,
        /// What the kernel said.
        error: io::ErrorKind,
    },
    /// Accepting stands still; it goes on by itself.
    AcceptPaused {
        /// The listener.
        tag: ListenerTag,
        /// What there is none of.
        cause: Exhausted,
    },
    /// [`Peer::wake`] was called since the last `wait`; the last event of a `wait`.
    Woken,
    /// The thread has slept in this `wait`, and is awake again: the first event of those that the sleep was for.
    Slept,
}

/// Bounds of one driver.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Connections at most; up to as many more as make a ring's tables equal. Of epoll lowered to what the process may have
    /// (`RLIMIT_NOFILE`).
    pub slots: u32,
    /// Connections at most in one table of direct descriptors (io_uring), lowered to `RLIMIT_NOFILE`, which bounds each table.
    pub table_slots: u32,
    /// Descriptors of the process that connections may take at most, where each takes one (epoll). What else the process
    /// opens needs some, too.
    pub descriptors: u32,
    /// How long a connection closed [`Close::AfterSend`] may keep its slot after its last send.
    pub linger: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { slots: 19_900, table_slots: u32::MAX, descriptors: u32::MAX, linger: Duration::from_secs(3) }
    }
}

/// What may change between two waits, for [`Driver::tune`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Events handed over by one `wait` at most, roughly, because a turn must end for the rest of the thread's work. At least 8, so
    /// that there is room for connections of both sorts.
    pub events: usize,
    /// Of these, events of connections that are not favoured ([`Driver::favour`]) at most, roughly; at least 1. A storm of logins or
    /// of ends makes no long turns for those who are there. Of no effect over epoll.
    pub others: usize,
    /// The thread's one buffer for received bytes; at least 64 KiB. One receive takes it all over epoll, and a share of it over
    /// io_uring, where those of a batch stand side by side.
    pub receive_buffer_bytes: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { events: 256, others: 32, receive_buffer_bytes: 256 << 10 }
    }
}

impl Tuning {
    /// Within its bounds.
    fn bounded(self) -> Tuning {
        Tuning {
            events: self.events.max(8),
            others: self.others.max(1),
            receive_buffer_bytes: self.receive_buffer_bytes.max(64 << 10),
        }
    }

    /// A buffer as large as it says, the old one if it is.
    fn buffer(&self, old: &mut Box<[u8]>) {
        if old.len() != self.receive_buffer_bytes {
            *old = vec![0; self.receive_buffer_bytes].into_boxed_slice();
        }
    }
}

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// io_uring with direct descriptors: a connection takes no descriptor of the process. Linux 6.7 or newer.
    Uring,
    /// epoll: everywhere.
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

/// One thread's network; see the module for the life of a connection. To be used on the thread that made it.
pub trait Driver {
    /// Which of the two it is.
    fn kind(&self) -> Kind;

    /// Accepts connections from `listener` (see [`shared_listener`]) until the driver is dropped. At most 256 listeners.
    ///
    /// # Errors
    /// What the kernel says, or `InvalidInput` beyond 256 listeners.
    fn listen(&mut self, listener: TcpListener, tag: ListenerTag) -> io::Result<()>;

    /// Accepts nobody any more, for good: whoever connects now is refused, and so are those whom the kernel has but nobody has
    /// accepted. At most one `Accepted` a listener may still come, of a connection that was taken before.
    fn close_listeners(&mut self);

    /// Submits what is pending, waits at most `timeout` (`None`: for ever) for something to happen, and hands over each
    /// event. Returns early when woken, and without any event when interrupted.
    ///
    /// # Errors
    /// Only when the driver itself is broken; what concerns one connection is an event.
    fn wait(&mut self, timeout: Option<Duration>, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()>;

    /// How long the next sleeps put off what comes right after they have begun, so that they hand over more at once; zero, as at first,
    /// for not at all.
    fn gather(&mut self, time: Duration);

    /// [`Driver::wait`] without waiting for anything, and without receiving from anybody or accepting anybody: hands over what
    /// has become of sends, closes and moves. For a caller that can take nothing more in.
    ///
    /// # Errors
    /// As `wait`.
    fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()>;

    /// Sends all of `bytes`; completes with [`Event::Sent`], or [`Event::Failed`].
    ///
    /// # Panics
    /// When a send of this connection is in flight: the caller lost count.
    fn send(&mut self, conn: ConnId, bytes: Vec<u8>);

    /// Stops receiving: the peer's bytes stay in the kernel and TCP holds the peer back. Costs no wake-ups.
    fn pause(&mut self, conn: ConnId);

    /// Goes on receiving after [`Driver::pause`].
    fn resume(&mut self, conn: ConnId);

    /// What comes from it is received ahead of what comes from others, and of ends, as long as the connection is this
    /// thread's. A hint: over epoll, where the kernel's list is the order, it changes nothing.
    fn favour(&mut self, conn: ConnId);

    /// Closes; completes with [`Event::Closed`], and the slot is free only then. [`Close::Now`] may follow
    /// [`Close::AfterSend`]. On a departing connection it wins if the socket has not gone yet: then `Closed` comes,
    /// and `Departed` otherwise.
    fn close(&mut self, conn: ConnId, how: Close);

    /// Moves the connection to the thread of `to`, where [`Event::Arrived`] tells `key`. A send in flight is finished
    /// first. What the peer sends meanwhile is received over there, in order. A pause is not carried over.
    fn depart(&mut self, conn: ConnId, to: &Peer, key: u64);

    /// The other ends of open connections, asked of the kernel now: an answer each, none for one that is gone or that the
    /// kernel knows no peer of any more. An IPv4 peer of an IPv6 listener is given as IPv4.
    fn peer_addresses(&mut self, conns: &[ConnId]) -> Vec<Option<SocketAddr>>;

    /// This driver's address for other threads.
    fn peer(&self) -> Peer;

    /// Slots taken now.
    fn connections(&self) -> u32;

    /// Connections that it has room for.
    fn connections_max(&self) -> u32 {
        u32::MAX
    }

    /// Why a listener accepts nobody for now, if one does not. Descriptors are tried for again every 100 ms, and then none
    /// is said to be missing until the next attempt fails.
    fn resting(&self) -> Option<Exhausted> {
        None
    }

    /// Memory of its tables and buffers, bytes, without what is being sent.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Goes by these from the next `wait` on.
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

/// How long accepting rests after the process ran out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Listeners of one driver at most.
const LISTENERS_MAX: usize = 256;

/// An event made outside `wait`, or one that must wait for its turn.
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
