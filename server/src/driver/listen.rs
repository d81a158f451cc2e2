//! Creates the listening sockets: one per thread and address, sharing the port, so that the kernel
//! distributes connections.
//!
//! The port is shared with no other process. The first socket of an address listens *without*
//! `SO_REUSEPORT`. The kernel refuses that while any socket listens on the port, and refuses any
//! other socket that tries the same while one of ours listens. Only then is the option switched on,
//! and the other threads' sockets join. The kernel checks at `listen`, so of two servers that start
//! at the same time at most one succeeds.
//!
//! `SO_REUSEADDR` lets a server start while connections of an earlier one are still open or in
//! TIME_WAIT.

mod holder;

use holder::Holder;

use super::UNSENT_BYTES;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// How long to retry a port that is in use: its holder may be about to end, or may be another
/// starting server that also fails.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same if no process holds the socket any more. After a killed server's process is gone, the
/// kernel takes time to close its rings with their many connections.
const PATIENCE_ORPHAN: Duration = Duration::from_secs(10);
/// Time between two attempts; it differs per server, so that two servers that collided do not
/// collide again.
const RETRY: Duration = Duration::from_millis(20);

/// The queue of a listener with a single thread, like those of the standard library.
const BACKLOG: i32 = 128;

/// Which sockets may share the port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Nobody,
    OwnSockets,
}

fn socket(addr: SocketAddr, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn open(addr: SocketAddr, backlog: u32, only_v6: bool, sharing: Sharing) -> io::Result<TcpListener> {
    let socket = socket(addr, only_v6)?;
    socket.set_reuse_port(sharing == Sharing::OwnSockets)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// A listening socket that shares its port with others of the same user (`SO_REUSEPORT`). Accepted
/// sockets inherit `TCP_NODELAY` and [`UNSENT_BYTES`] from it. An IPv6 wildcard also accepts IPv4
/// peers. `backlog` is limited by `net.core.somaxconn`.
///
/// # Errors
/// The kernel's; `AddrInUse` if another socket holds the port without sharing it.
pub fn shared_listener(addr: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    open(addr, backlog, false, Sharing::OwnSockets)
}

/// Opens `count` listeners on one address (at least one), which share the port with each other and
/// with no other socket. With port 0 the kernel chooses the port of the first. An IPv6 wildcard
/// also accepts IPv4 peers, unless `only_v6`.
///
/// # Errors
/// The kernel's. `AddrInUse`, with a sentence that names the holder, after a second of retries; ten
/// seconds if the holder is a process that has just ended.
pub fn own_listeners(addr: SocketAddr, only_v6: bool, count: usize, backlog: u32) -> io::Result<Vec<TcpListener>> {
    retried(addr, true, || {
        let first = open(addr, backlog, only_v6, Sharing::Nobody)?;
        let bound = first.local_addr()?;
        SockRef::from(&first).set_reuse_port(true)?;
        let mut all = vec![first];
        for _ in 1..count {
            all.push(open(bound, backlog, only_v6, Sharing::OwnSockets)?);
        }
        Ok(all)
    })
}

/// `count` descriptors of one listening socket, which a service manager has opened. They share its
/// queue: the kernel wakes one of the threads that wait. Accepted sockets inherit the same options
/// as from [`own_listeners`].
///
/// # Errors
/// The kernel's.
pub fn listener_copies(socket: &TcpListener, count: usize) -> io::Result<Vec<TcpListener>> {
    let options = SockRef::from(socket);
    options.set_tcp_nodelay(true)?;
    options.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    (0..count).map(|_| socket.try_clone()).collect()
}

/// The only listener of an address, for a single-threaded caller. Blocking, like those of the
/// standard library. An IPv6 wildcard also accepts IPv4 peers, unless `only_v6`.
///
/// # Errors
/// As [`own_listeners`]; without retries unless `patient`.
pub fn own_listener(addr: SocketAddr, only_v6: bool, patient: bool) -> io::Result<TcpListener> {
    retried(addr, patient, || {
        let socket = socket(addr, only_v6)?;
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    })
}

/// Retries for a while if the address is in use, then names the holder in the error.
fn retried<T>(addr: SocketAddr, patient: bool, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let (start, retry) = (Instant::now(), RETRY + Duration::from_millis(u64::from(std::process::id() % 16)));
    loop {
        let error = match open() {
            Err(error) if error.kind() == ErrorKind::AddrInUse => error,
            other => return other,
        };
        let waited = start.elapsed();
        if !patient || waited >= PATIENCE {
            let holder = Holder::of(addr);
            if !patient || holder != Holder::Orphan || waited >= PATIENCE_ORPHAN {
                let text = format!("port {} is in use by {holder}", addr.port());
                return Err(io::Error::new(error.kind(), text));
            }
        }
        std::thread::sleep(retry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    const HERE: &str = "127.0.0.1:0";

    #[test]
    fn port_zero_is_shared_by_all_and_each_gets_connections() {
        let all = own_listeners(HERE.parse().unwrap(), false, 3, 256).unwrap();
        let address = all[0].local_addr().unwrap();
        assert!(address.port() != 0 && all.iter().all(|l| l.local_addr().unwrap() == address));
        let _clients: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        for listener in &all {
            assert!(listener.accept().is_ok(), "the kernel spreads connections over all three");
        }
    }

    #[test]
    fn a_port_that_is_shared_among_threads_is_refused_to_a_second_server_by_name() {
        let first = own_listeners(HERE.parse().unwrap(), false, 3, 16).unwrap();
        let address = first[0].local_addr().unwrap();
        let dual = SocketAddr::from(([0u16; 8], address.port()));
        for second in [address, dual] {
            let error = own_listeners(second, false, 3, 16).expect_err("in use");
            assert_eq!(error.kind(), ErrorKind::AddrInUse);
            let expected = format!("port {} is in use by this process", address.port());
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
        assert!(own_listener(address, false, false).is_err());
        // The IPv6 wildcard alone is a different address, as intended by an operator who configures
        // both.
        own_listeners(dual, true, 2, 16).expect("no IPv4 in it");
    }

    /// TIME_WAIT is on the side that closes first (RFC 9293 3.6.1).
    #[test]
    fn a_port_with_connections_of_an_earlier_server_is_free() {
        let first = own_listeners(HERE.parse().unwrap(), false, 2, 16).unwrap();
        let address = first[0].local_addr().unwrap();
        let clients: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut accepted: Vec<TcpStream> =
            first.iter().flat_map(|l| std::iter::from_fn(|| l.accept().ok().map(|(stream, _)| stream))).collect();
        let open = accepted.split_off(10);
        drop((accepted, first));
        let began = Instant::now();
        let second = own_listeners(address, false, 2, 16).expect("free at once");
        assert!(began.elapsed() < PATIENCE);
        drop((second, open, clients));
    }

    /// Of servers that start at the same time at most one gets the port; the sockets of the others
    /// are closed again.
    #[test]
    fn of_servers_that_start_at_once_at_most_one_gets_the_port() {
        for _ in 0..50 {
            let free = own_listener(HERE.parse().unwrap(), false, false).unwrap().local_addr().unwrap();
            let barrier = std::sync::Barrier::new(4);
            let start = || {
                barrier.wait();
                let first = open(free, 16, false, Sharing::Nobody)?;
                SockRef::from(&first).set_reuse_port(true)?;
                io::Result::Ok(vec![first, open(free, 16, false, Sharing::OwnSockets)?])
            };
            let started = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
            });
            assert!(started.iter().filter(|one| one.is_ok()).count() <= 1);
        }
    }
}
