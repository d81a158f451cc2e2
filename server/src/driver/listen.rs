//! Makes the listening sockets: one a thread and address, sharing the port, so that the kernel spreads connections.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// A listening socket that shares its port with others of the same user (`SO_REUSEPORT`). Accepted sockets inherit
/// `TCP_NODELAY` from it. An IPv6 wildcard takes IPv4 peers, too. `backlog` is cut by `net.core.somaxconn`.
///
/// # Errors
/// What the kernel says; `AddrInUse` when someone holds the port without sharing it.
pub fn shared_listener(addr: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// `count` listeners of one address. With port 0 the first is given a port by the kernel and the others share it.
///
/// # Errors
/// As [`shared_listener`].
pub fn shared_listeners(addr: SocketAddr, count: usize, backlog: u32) -> io::Result<Vec<TcpListener>> {
    let mut all = Vec::with_capacity(count);
    let mut bound = addr;
    for _ in 0..count {
        let listener = shared_listener(bound, backlog)?;
        bound = listener.local_addr()?;
        all.push(listener);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_zero_is_shared_by_all() {
        let all = shared_listeners("127.0.0.1:0".parse().unwrap(), 3, 16).unwrap();
        let ports: Vec<u16> = all.iter().map(|l| l.local_addr().unwrap().port()).collect();
        assert!(ports[0] != 0 && ports.iter().all(|p| *p == ports[0]), "{ports:?}");
    }
}
