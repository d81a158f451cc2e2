//! The plan against which the host is checked.

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

/// The planned load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Simultaneous client connections.
    pub connections: u64,
    /// The server's driver.
    pub driver: Driver,
    /// Whether clients use TLS that ends in the server.
    pub tls: bool,
    /// Ports that the server listens on.
    pub ports: Vec<u16>,
    /// Whether a proxy on this host is in front of the server: each connection has a second one
    /// behind it.
    pub front: bool,
}

impl Plan {
    /// Number of sockets on this host under the plan.
    pub fn sockets(&self) -> u64 {
        // Client to proxy, and both ends of proxy to server.
        self.connections * if self.front { 3 } else { 1 }
    }
}
