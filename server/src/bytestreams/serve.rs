//! Listeners, and connections from handshake to relay: limited in number, per address, and in time.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use socket2::SockRef;
use throng_engine::extension::bytestreams::{Activated, Activation};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::port::Activations;
use super::race::{First, first};
use super::relay::{End, relay};
use super::socks::{Asked, Handshake, Reply, Said};
use super::table::{ConnNumber, Table, Taken};
use super::{Bounds, EARLY_BYTES_MAX, SOCKET_BYTES, StreamCounters};
use crate::end::Survive;
use crate::port::{Answers, Given};
use crate::runtime::{ACCEPT_AGAIN, Blocking, Listening, network};
use crate::waits;

/// Bytes read at once before a stream begins.
const EARLY_PIECE: usize = 512;
/// Streams of at least this many bytes are logged at the normal level; shorter ones, which one user
/// may have many of, only at the debug level.
const LOGGED_BYTES: u64 = 1 << 20;

/// Requests the socket of a connection.
type Handle = oneshot::Sender<oneshot::Sender<TcpStream>>;

/// State shared by all connections.
struct Shared {
    table: waits::Mutex<Table<Handle>>,
    bounds: Bounds,
    counters: Arc<StreamCounters>,
}

impl Shared {
    /// Accesses the table, and publishes its gauges.
    fn table<T>(&self, work: impl FnOnce(&mut Table<Handle>) -> T) -> T {
        let mut table = self.table.lock();
        let result = work(&mut table);
        self.counters.waiting.set(table.waiting() as u64);
        self.counters.relayed.set(table.relayed() as u64);
        result
    }
}

/// The proxy. Dropping it ends all of its connections.
#[derive(Debug)]
pub struct StreamServer(Listening);

impl StreamServer {
    /// Serves these listeners on its own thread.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        listeners: Vec<TcpListener>,
        activations: Activations,
        bounds: Bounds,
        counters: Arc<StreamCounters>,
    ) -> io::Result<StreamServer> {
        for listener in &listeners {
            // Connections inherit them: the kernel's buffers for a slow receiver are bounded.
            SockRef::from(listener).set_recv_buffer_size(SOCKET_BYTES)?;
            SockRef::from(listener).set_send_buffer_size(SOCKET_BYTES)?;
        }
        let listeners = listeners.into_iter().map(|listener| (listener, ())).collect();
        let table = waits::Mutex::new(waits::Place::LockBytestreams, Table::new(bounds));
        let shared = Arc::new(Shared { table, bounds, counters });
        // None is used: there are no files and no names to look up.
        let blocking = Blocking { most: 1, whole: true };
        let listening = Listening::start("bytestreams", blocking, listeners, move |listeners| async move {
            for (listener, ()) in listeners {
                tokio::spawn(accept(listener, shared.clone()));
            }
            obey(activations, shared).await;
        })?;
        Ok(StreamServer(listening))
    }

    /// The addresses of its listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.0.addresses()
    }
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        shared.counters.connections.one();
        let (handle, given) = oneshot::channel();
        match shared.table(|table| table.arrive(network(from.ip()), handle)) {
            None => shared.counters.connections_refused.one(),
            Some((number, displaced)) => {
                if displaced {
                    shared.counters.connections_displaced.one();
                }
                let place = Place { shared: shared.clone(), number };
                let connection = Survive::new(connection(stream, place, given));
                tokio::spawn(async move {
                    if let Err(said) = connection.await {
                        tracing::error!("a connection of a bytestream has failed: {said}");
                    }
                });
            }
        }
        // However fast connections arrive, existing ones get their turn.
        tokio::task::yield_now().await;
    }
}

/// A place among the waiting connections, until this is dropped.
struct Place {
    shared: Arc<Shared>,
    number: ConnNumber,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.table(|table| table.leave(self.number));
    }
}

/// A connection until it is relayed.
async fn connection(stream: TcpStream, place: Place, mut given: oneshot::Receiver<oneshot::Sender<TcpStream>>) {
    let shared = &place.shared;
    let _ = stream.set_nodelay(true);
    let over = Instant::now() + shared.bounds.handshake;
    // Before it has named a stream, the only possible request is to give way.
    let First::Other(asked) = first(&mut given, timeout_at(over, handshake(&stream))).await else { return };
    let Ok(Some(asked)) = asked else { return shared.counters.handshakes_failed.one() };
    let known = shared.table(|table| table.names(place.number, asked.stream));
    let reply = asked.reply(if known { Reply::Succeeded } else { Reply::NotAllowed });
    let sent = matches!(timeout_at(over, send(&stream, &reply)).await, Ok(Ok(())));
    if !(known && sent) {
        return shared.counters.handshakes_failed.one();
    }
    let over = Instant::now() + shared.bounds.activation;
    if let First::One(Ok(taker)) = first(&mut given, timeout_at(over, drop_early(&stream, &shared.counters))).await {
        // The requester may be gone: then the connection ends here.
        let _ = taker.send(stream);
    }
}

/// The stream that a client requests, if the handshake succeeds.
async fn handshake(stream: &TcpStream) -> Option<Asked> {
    let (mut handshake, mut piece) = (Handshake::default(), [0; EARLY_PIECE]);
    loop {
        match handshake.next() {
            Said::More => {}
            Said::Send(bytes) => {
                send(stream, bytes).await.ok()?;
                continue;
            }
            Said::Asked(asked) => return Some(asked),
            Said::Refused(bytes) => {
                let _ = send(stream, &bytes).await;
                return None;
            }
        }
        match receive(stream, &mut piece).await {
            Ok(came @ 1..) => handshake.take(&piece[..came]),
            _ => return None,
        }
    }
}

/// Drops bytes that arrive before a stream begins (XEP-0065 10.1), until there are too many or the
/// client disconnects.
async fn drop_early(stream: &TcpStream, counters: &StreamCounters) {
    let (mut piece, mut dropped) = ([0; EARLY_PIECE], 0);
    while dropped < EARLY_BYTES_MAX {
        match receive(stream, &mut piece).await {
            Ok(came @ 1..) => {
                dropped += came;
                counters.early_bytes.add(came as u64);
            }
            _ => return,
        }
    }
}

async fn receive(stream: &TcpStream, piece: &mut [u8]) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(piece) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            came => return came,
        }
    }
}

async fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            went => bytes = &bytes[went?..],
        }
    }
    Ok(())
}

/// Executes activations. One that waits for its sockets delays no other.
async fn obey(activations: Activations, shared: Arc<Shared>) {
    let Activations { mut given, answers } = activations;
    while let Some(given) = given.recv().await {
        tokio::spawn(activate(given, answers.clone(), shared.clone()));
    }
}

async fn activate(given: Given<Box<Activation>>, answers: Answers<Activated>, shared: Arc<Shared>) {
    let Given { shard, token, what: activation } = given;
    let activated = match shared.table(|table| table.activate(&activation)) {
        Ok(None) => Activated::Done,
        Ok(Some(taken)) => begin(taken, &activation, &shared).await,
        Err(why) => why,
    };
    if activated != Activated::Done {
        shared.counters.streams_refused.one();
    }
    if activated == Activated::TooMany {
        shared.counters.streams_full.one();
    }
    answers.answer(shard, token, activated);
}

/// A relayed stream, until this is dropped.
struct Relayed {
    shared: Arc<Shared>,
    activation: Activation,
}

impl Drop for Relayed {
    fn drop(&mut self) {
        self.shared.table(|table| table.ended(&self.activation));
    }
}

async fn begin(taken: Taken<Handle>, activation: &Activation, shared: &Arc<Shared>) -> Activated {
    let relayed = Relayed { shared: shared.clone(), activation: activation.clone() };
    let Taken { handles: (one, other), pace } = taken;
    let (one, other) = (ask(one), ask(other));
    // One of them may have closed at this moment.
    let (Some(one), Some(other)) = (one.await, other.await) else { return Activated::Alone };
    shared.counters.streams.one();
    let work = Survive::new(async move {
        let (begun, shared) = (Instant::now(), &relayed.shared);
        let (end, bytes) = relay((&one, &other), &pace, shared.bounds.idle, &shared.counters).await;
        if end == End::Idle {
            shared.counters.streams_idle.one();
        }
        let (user, seconds) = (&*relayed.activation.user, begun.elapsed().as_secs());
        if bytes >= LOGGED_BYTES {
            tracing::info!(user, bytes, seconds, end = ?end, "a bytestream has ended");
        } else {
            tracing::debug!(user, bytes, seconds, end = ?end, "a bytestream has ended");
        }
    });
    tokio::spawn(async move {
        if let Err(said) = work.await {
            tracing::error!("a bytestream has failed: {said}");
        }
    });
    Activated::Done
}

/// Requests the socket of a connection at once; it is delivered when the connection has finished
/// its read.
fn ask(handle: Handle) -> impl Future<Output = Option<TcpStream>> {
    let (taker, taken) = oneshot::channel();
    let asked = handle.send(taker).is_ok();
    async move { if asked { taken.await.ok() } else { None } }
}
