//! What is at the other ends of connections, for operators: asked of the driver, the shard and TLS when somebody wants to know.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use throng_engine::id::ConnId;
use throng_engine::shard::Shard;

use super::front::Fronted;
use crate::driver::Driver;
use crate::links::Links;
use crate::tls::TlsVersion;

/// The other end of a connection, as operators are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The kernel, or a proxy by the PROXY protocol, has said where it is.
    Socket(SocketAddr),
    /// It has no connection of its own to the server: who it is for has come by HTTP.
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

/// What a thread knows of a session's connection; nothing of one that is gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    /// The other end.
    pub peer: Option<Client>,
    /// How it is encrypted.
    pub tls: Option<TlsVersion>,
}

/// What is known of connections. No idle connection keeps its peer's address: the kernel does, and is asked. Whom a proxy's are for is
/// kept.
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
