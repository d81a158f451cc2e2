//! Connections of clients, none of which can exclude the others. Slow clients are cut off; when all
//! places are taken, the connection that has been idle longest gives way to the next one.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

/// Most time that the answers to one request may wait for their reader, in addition to the time for
/// their length.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Minimum read rate of a client in bytes per second.
const SLOWEST_BYTES: u64 = 128 << 10;

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Conn {
    address: IpAddr,
    begun: Instant,
    /// When bytes were last read or written, in milliseconds since `begun`.
    moved_ms: AtomicU64,
    /// Whether the client has presented the token.
    trusted: AtomicBool,
}

impl Conn {
    pub(crate) fn new(address: IpAddr) -> Arc<Conn> {
        // All loopback addresses count as one client: a local process may use any of them.
        let address = address.to_canonical();
        let address = if address.is_loopback() { IpAddr::from([127, 0, 0, 1]) } else { address };
        Arc::new(Conn { address, begun: Instant::now(), moved_ms: AtomicU64::new(0), trusted: AtomicBool::new(false) })
    }

    /// Marks the connection as authenticated by the token: others give way first.
    pub(crate) fn trust(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }

    fn moves(&self) {
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(ms, Ordering::Relaxed);
    }

    fn moved(&self) -> Instant {
        self.begun + Duration::from_millis(self.moved_ms.load(Ordering::Relaxed))
    }
}

/// The connections of a listener, limited in number.
pub(crate) struct Places {
    most: usize,
    taken: Vec<(Arc<Conn>, JoinHandle<()>)>,
}

impl Places {
    pub(crate) fn new(most: usize) -> Places {
        Places { most, taken: Vec::with_capacity(most) }
    }

    /// Adds a connection. If there is no place, closes a connection without token: of the address
    /// with the most of these, the one idle longest.
    pub(crate) fn take(&mut self, conn: Arc<Conn>, task: JoinHandle<()>) {
        self.taken.retain(|(_, task)| !task.is_finished());
        if self.taken.len() >= self.most
            && let Some(at) = self.gives_way()
        {
            self.taken.swap_remove(at).1.abort();
        }
        self.taken.push((conn, task));
    }

    fn gives_way(&self) -> Option<usize> {
        let count = |address| self.taken.iter().filter(|(conn, _)| conn.address == address).count();
        let rank =
            |conn: &Conn| (conn.trusted.load(Ordering::Relaxed), std::cmp::Reverse(count(conn.address)), conn.moved());
        (0..self.taken.len()).min_by_key(|at| rank(&self.taken[*at].0))
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.taken.iter().for_each(|(_, task)| task.abort());
    }
}

/// A socket whose reader must keep up: a slow reader becomes a write error.
pub(crate) struct Patient<S> {
    socket: S,
    conn: Arc<Conn>,
    /// Minimum read rate in bytes per second.
    slowest_bytes: u64,
    /// Bytes written since the last request.
    written: u64,
    /// Time spent waiting for the reader since then, before `waits`.
    waited: Duration,
    waits: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Patient<S> {
    pub(crate) fn new(socket: S, conn: Arc<Conn>) -> Patient<S> {
        Patient::slow(socket, conn, SLOWEST_BYTES)
    }

    /// The same with this minimum read rate in bytes per second.
    pub(crate) fn slow(socket: S, conn: Arc<Conn>, slowest_bytes: u64) -> Patient<S> {
        Patient { socket, conn, slowest_bytes, written: 0, waited: Duration::ZERO, waits: None }
    }

    /// Accounts for the result of a write.
    fn wrote(&mut self, context: &mut Context<'_>, went: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = went {
            if let Some((since, _)) = self.waits.take() {
                self.waited += since.elapsed();
            }
            self.conn.moves();
            self.written += *written.as_ref().unwrap_or(&0) as u64;
            return Poll::Ready(written);
        }
        let allowed = WRITE_PATIENCE + Duration::from_millis(self.written * 1_000 / self.slowest_bytes);
        let left = allowed.saturating_sub(self.waited);
        let (_, over) = self.waits.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        ready!(over.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, into))?;
        if into.filled().len() > before {
            self.conn.moves();
            // Pipelined requests count as one.
            if self.waits.is_none() {
                (self.written, self.waited) = (0, Duration::ZERO);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let went = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.wrote(context, went)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let went = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.wrote(context, went)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_way_has_no_token_comes_from_the_address_with_most_and_has_stood_still_longest() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let _inside = runtime.enter();
        let mut places = Places::new(4);
        let mut take = |address: &str, moved_ms: u64, trusted: bool| {
            let conn = Conn::new(address.parse().expect("an address"));
            conn.moved_ms.store(moved_ms, Ordering::Relaxed);
            conn.trusted.store(trusted, Ordering::Relaxed);
            places.take(conn, tokio::spawn(std::future::pending()));
            let held = |(conn, _): &(Arc<Conn>, _)| (conn.address.to_string(), conn.moved_ms.load(Ordering::Relaxed));
            places.taken.iter().map(held).collect::<Vec<_>>()
        };
        take("127.0.0.1", 0, true);
        take("192.0.2.1", 1, false);
        take("127.0.0.2", 70_000, false);
        take("::ffff:127.9.9.9", 60_000, false);
        // Loopback has most connections, over all its addresses; of those without a token, one has
        // been idle longer.
        let held = take("127.0.0.1", 80_000, false);
        assert_eq!(held.len(), 4);
        assert!(!held.contains(&("127.0.0.1".into(), 60_000)) && held.contains(&("127.0.0.1".into(), 0)), "{held:?}");
        assert!(held.contains(&("192.0.2.1".into(), 1)), "{held:?}");
    }
}
