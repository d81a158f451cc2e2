//! Peer information for operators, collected on request from the driver, the shard and TLS.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use throng_engine::id::ConnId;
use throng_engine::shard::Shard;

use super::front::Fronted;
use crate::driver::Driver;
use crate::links::Links;
use crate::tls::TlsVersion;

/// The peer of a connection, as shown to operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The address of its socket, as reported by the kernel, or by a proxy with the PROXY protocol.
    Socket(SocketAddr),
    /// The session has no connection of its own to the server: its client uses HTTP.
    Named(IpAddr),
}

impl Client {
    /// Its address.
    pub fn ip(self) -> IpAddr {
        match self {
            Client::Socket(socket) => socket.ip(),
            Client::Named(ip) => ip,
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Client::Socket(socket) => socket.fmt(f),
            Client::Named(ip) => ip.fmt(f),
        }
    }
}

/// What a thread knows of a session's connection; empty for a closed one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    /// The peer.
    pub peer: Option<Client>,
    /// Its TLS version, if encrypted.
    pub tls: Option<TlsVersion>,
}

/// Collects the facts of connections. Peer addresses of idle connections are not stored: the kernel
/// is queried. Clients' addresses reported by a proxy are stored.
pub(super) fn streams(
    driver: &mut dyn Driver,
    links: &mut Links,
    fronted: &Fronted,
    shard: &Shard,
    of: impl Iterator<Item = Option<ConnId>> + Clone,
) -> Vec<Stream> {
    let has_socket = |conn: &ConnId| conn.has_socket();
    let conns: Vec<ConnId> = of.clone().flatten().filter(has_socket).collect();
    let mut sockets = driver.peer_addresses(&conns).into_iter();
    let mut stream = |conn: ConnId| {
        let socket = has_socket(&conn).then(|| sockets.next().flatten()).flatten();
        let tls = links.tls(conn).filter(|_| has_socket(&conn)).and_then(|tls| tls.version());
        let socket = fronted.client(conn).or(socket).map(Client::Socket);
        Stream { peer: shard.client_of(conn).map(Client::Named).or(socket), tls }
    };
    of.map(|conn| conn.map(&mut stream).unwrap_or_default()).collect()
}
