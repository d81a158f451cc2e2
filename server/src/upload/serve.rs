//! Listeners and connections of uploads: limited in number, per address, and in time.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::answer::answer;
use super::reply::{Content, Shared};
use super::{Files, UploadCounters};
use crate::end::Survive;
use crate::http::patience::{Conn, Patient, Places};
use crate::runtime::{ACCEPT_AGAIN, Blocking, Listening, network};
use crate::waits;

/// For a handshake, for the head of a request, and between two requests.
const HEAD_PATIENCE: Duration = Duration::from_secs(15);
/// Maximum bytes of a request's head; a token with the longest JID takes 3 KB of it.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Minimum rate of a download, bytes per second.
const SLOWEST_BYTES: u64 = 4 << 10;
/// Threads that read and write files: more would only lengthen the disk's queue.
const DISK_THREADS: usize = 4;

/// Returns the present TLS configuration.
pub type Tls = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections; a further one displaces an existing one.
    pub connections_max: usize,
    /// Maximum per address (IPv6: /64); 0 is no limit. Those of this machine, as of a proxy, are
    /// not counted.
    pub per_address_max: usize,
}

/// The server of uploads. Dropping it ends all of its connections.
#[derive(Debug)]
pub struct UploadServer(Listening);

impl UploadServer {
    /// Serves these listeners, those with a TLS configuration over HTTPS, on its own thread.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        listeners: Vec<(TcpListener, Option<Tls>)>,
        files: Arc<Files>,
        key: [u8; 32],
        limits: Limits,
        counters: Arc<UploadCounters>,
    ) -> io::Result<UploadServer> {
        let shared = Shared { files, key: Arc::new(key), counters };
        // Shutdown does not wait for a hanging disk.
        let blocking = Blocking { most: DISK_THREADS, whole: false };
        let listening = Listening::start("upload", blocking, listeners, move |listeners| async move {
            let counts: Counts = Arc::new(waits::Mutex::new(waits::Place::LockUploads, BTreeMap::new()));
            for (listener, tls) in listeners {
                tokio::spawn(accept(listener, tls, shared.clone(), counts.clone(), limits));
            }
        })?;
        Ok(UploadServer(listening))
    }

    /// The addresses of its listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.0.addresses()
    }
}

/// Number of connections per address.
type Counts = Arc<waits::Mutex<BTreeMap<IpAddr, usize>>>;

/// A connection that is counted for its address until this is dropped.
struct Counted(Counts, IpAddr);

impl Counted {
    /// `None` if the address has reached its limit.
    fn new(counts: &Counts, address: IpAddr, most: usize) -> Option<Counted> {
        let mut all = counts.lock();
        let count = all.entry(address).or_insert(0);
        if most > 0 && *count >= most && !address.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Counted(counts.clone(), address))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut all = self.0.lock();
        if let Some(count) = all.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.1);
            }
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, tls: Option<Tls>, shared: Shared, counts: Counts, limits: Limits) {
    let mut places = Places::new(limits.connections_max);
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let Some(counted) = Counted::new(&counts, network(from.ip()), limits.per_address_max) else { continue };
        let conn = Conn::new(from.ip());
        let connection = Survive::new(connection(stream, tls.clone(), shared.clone(), conn.clone()));
        let task = tokio::spawn(async move {
            if let Err(said) = connection.await {
                tracing::error!("a connection of an upload or download has failed: {said}");
            }
            drop(counted);
        });
        places.take(conn, task);
    }
}

async fn connection(stream: TcpStream, tls: Option<Tls>, shared: Shared, conn: Arc<Conn>) {
    let socket = Patient::slow(stream, conn, SLOWEST_BYTES);
    let Some(tls) = tls else { return requests(socket, shared).await };
    // Clients that disconnect, or do not support TLS, are not reported.
    if let Ok(Ok(socket)) = timeout(HEAD_PATIENCE, TlsAcceptor::from(tls()).accept(socket)).await {
        requests(socket, shared).await;
    }
}

async fn requests(socket: impl AsyncRead + AsyncWrite + Unpin, shared: Shared) {
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = shared.clone();
        async move { Ok::<Response<Content>, std::convert::Infallible>(answer(shared, request).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD_BYTES_MAX);
    // As above.
    let _ = http.serve_connection(TokioIo::new(socket), service).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_an_address_are_bounded_and_this_machines_are_not() {
        let counts: Counts = Arc::new(waits::Mutex::new(waits::Place::LockUploads, BTreeMap::new()));
        let of = |text: &str| network(text.parse().expect("an address"));
        let held: Vec<_> = (0..5).map(|_| Counted::new(&counts, of("192.0.2.1"), 2)).collect();
        assert_eq!(held.iter().flatten().count(), 2);
        assert!(Counted::new(&counts, of("::ffff:192.0.2.1"), 2).is_none(), "the same address");
        assert!(Counted::new(&counts, of("192.0.2.2"), 2).is_some());
        let local: Vec<_> = (0..10).map(|n| Counted::new(&counts, of(["127.0.0.1", "::1"][n % 2]), 2)).collect();
        assert_eq!(local.iter().flatten().count(), 10);
        drop((held, local));
        assert!(counts.lock().is_empty());
    }
}
