//! Relays bytes between two sockets. What the receiver does not take is not read from the sender: a
//! stream has one piece in memory per direction, besides the kernel's buffers for its two sockets.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until};

use super::StreamCounters;
use super::pace::Pace;
use super::race::{First, both, first};

/// Bytes read at once.
const PIECE: usize = 16 << 10;
/// Bytes after which other streams get their turn.
const TURN_BYTES: usize = 4 * PIECE;

/// How a stream ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Both have closed.
    Finished,
    /// Nothing moved for too long.
    Idle,
    /// A connection broke off.
    Broken,
}

/// The state of a running stream.
struct Flow<'a> {
    pace: &'a Pace,
    counters: &'a StreamCounters,
    begun: Instant,
    /// When bytes last moved, microseconds since `begun`. Only one thread writes it.
    moved_us: AtomicU64,
    bytes: AtomicU64,
}

impl Flow<'_> {
    fn went(&self, bytes: u64) {
        let us = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.moved_us.store(us, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counters.stream_bytes.add(bytes);
    }
}

/// Relays until both directions are closed; returns how it ended, and the number of bytes.
pub(super) async fn relay(
    (one, other): (&TcpStream, &TcpStream),
    pace: &Pace,
    idle: Duration,
    counters: &StreamCounters,
) -> (End, u64) {
    let flow = Flow { pace, counters, begun: Instant::now(), moved_us: AtomicU64::new(0), bytes: AtomicU64::new(0) };
    let ways = both(pour(one, other, &flow), pour(other, one, &flow));
    let end = match first(pin!(stands_still(&flow, idle)), ways).await {
        First::One(()) => End::Idle,
        First::Other(Ok(())) => End::Finished,
        First::Other(Err(_)) => End::Broken,
    };
    (end, flow.bytes.load(Ordering::Relaxed))
}

/// Completes when nothing has moved for the idle time.
async fn stands_still(flow: &Flow<'_>, idle: Duration) {
    loop {
        let over = flow.begun + Duration::from_micros(flow.moved_us.load(Ordering::Relaxed)) + idle;
        if over <= Instant::now() {
            return;
        }
        sleep_until(over).await;
    }
}

/// Relays one direction. When the sender closes it, it is closed for the receiver.
async fn pour(from: &TcpStream, to: &TcpStream, flow: &Flow<'_>) -> io::Result<()> {
    // Most streams use one direction only: the other one takes no memory.
    let (mut piece, mut turn) = (Vec::new(), 0);
    loop {
        from.readable().await?;
        piece.resize(PIECE, 0);
        let came = match from.try_read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            came => came?,
        };
        if came == 0 {
            // A socket that is already closed needs no shutdown.
            let _ = SockRef::from(to).shutdown(Shutdown::Write);
            return Ok(());
        }
        let wait = flow.pace.charge(came);
        if !wait.is_zero() {
            sleep(wait).await;
        }
        write(to, &piece[..came], flow).await?;
        turn += came;
        if turn >= TURN_BYTES {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
}

async fn write(to: &TcpStream, mut left: &[u8], flow: &Flow<'_>) -> io::Result<()> {
    while !left.is_empty() {
        to.writable().await?;
        let went = match to.try_write(left) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            went => went?,
        };
        left = &left[went..];
        flow.went(went as u64);
    }
    Ok(())
}
