//! The addresses that are listened at: who opens the sockets, and how.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};

use crate::cli::{Exit, Failure};
use crate::config::Loaded;
use crate::driver::{self, listener_copies, own_listeners};
use crate::service::Sockets;

/// All addresses by option, with the sockets that the service manager has opened for some.
pub(super) struct Addresses {
    all: Vec<(&'static str, SocketAddr)>,
    given: Sockets,
}

impl Addresses {
    /// The addresses of a configuration, and sockets for some of them.
    ///
    /// # Errors
    /// A socket has no option that names it.
    pub(super) fn of(loaded: &Loaded, given: Sockets) -> Result<Addresses, Failure> {
        let all = all(loaded);
        given.check(&all).map_err(|text| Failure::new(Exit::Usage, text))?;
        Ok(Addresses { all, given })
    }

    /// Whether an IPv6 wildcard takes no IPv4 peers. Both wildcards of a port are meant as both;
    /// neither replaces the other.
    fn only_v6(&self, address: SocketAddr) -> bool {
        let twin = SocketAddr::from(([0, 0, 0, 0], address.port()));
        address.port() != 0 && self.all.iter().any(|(_, other)| *other == twin)
    }

    /// The only listener of an address, for a single thread.
    ///
    /// # Errors
    /// As [`driver::own_listener`].
    pub(super) fn own(&self, address: SocketAddr, patient: bool) -> io::Result<TcpListener> {
        let open = || driver::own_listener(address, self.only_v6(address), patient);
        self.given.of(address).map_or_else(open, TcpListener::try_clone)
    }

    /// A listener for each shard.
    ///
    /// # Errors
    /// As [`own_listeners`].
    pub(super) fn of_shards(&self, address: SocketAddr, shards: usize, backlog: u32) -> io::Result<Vec<TcpListener>> {
        match self.given.of(address) {
            Some(socket) => listener_copies(socket, shards),
            None => own_listeners(address, self.only_v6(address), shards, backlog),
        }
    }
}

fn all(loaded: &Loaded) -> Vec<(&'static str, SocketAddr)> {
    let config = &loaded.config;
    let mut all: Vec<_> = loaded.listeners().iter().map(|listener| (listener.key, listener.address)).collect();
    let mut add = |key, addresses: &[SocketAddr]| all.extend(addresses.iter().map(|address| (key, *address)));
    add("admin_http", &config.admin_http);
    if config.takes_uploads() {
        add("upload", &config.upload);
        add("upload_proxied", &config.upload_proxied);
    }
    if config.relays_bytestreams() {
        add("bytestreams", &config.bytestreams);
    }
    if !config.acme.is_empty() {
        add("acme_http", &config.acme_http);
    }
    all
}

/// A failed bind, with the address, the reason and the remedy.
pub(super) fn cannot_listen(address: SocketAddr, key: &str, error: &io::Error) -> Failure {
    let flag = key.replace('_', "-");
    let what_to_do = match error.kind() {
        ErrorKind::AddrInUse => format!("; stop it or pass another --{flag}"),
        ErrorKind::PermissionDenied => {
            format!("; ports below 1024 need CAP_NET_BIND_SERVICE, or pass another --{flag}")
        }
        _ => String::new(),
    };
    Failure::failed(format!("cannot listen on {address}: {error}{what_to_do}"))
}
