//! For what the host is judged.

/// The server's interface to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Driver {
    /// io_uring where it works, epoll otherwise.
    Auto,
    /// io_uring: connections take no descriptors.
    Uring,
    /// epoll: each connection takes one.
    Epoll,
}

/// What the host is to hold.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Client connections at once.
    pub connections: u64,
    /// The server's driver.
    pub driver: Driver,
    /// Whether clients use TLS that ends in the server.
    pub tls: bool,
    /// Ports that the server listens on.
    pub ports: Vec<u16>,
    /// Whether a proxy on this host stands in front: each connection has a second one behind it.
    pub front: bool,
}

impl Plan {
    /// Sockets that this host has then.
    pub fn sockets(&self) -> u64 {
        // Client to proxy, and both ends of proxy to server.
        self.connections * if self.front { 3 } else { 1 }
    }
}
