//! Configurations of proxies that stand in front of the server.

mod haproxy;
mod nginx;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Which proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Proxy {
    /// nginx with its stream module.
    Nginx,
    /// HAProxy.
    Haproxy,
}

/// What a configuration is made of.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    /// Clients at once.
    pub(crate) connections: u64,
    /// Processes (nginx) or threads (HAProxy).
    pub(crate) workers: u64,
    /// Where clients come in.
    pub(crate) listen: Vec<SocketAddr>,
    /// Where the server listens. Several addresses share the clients.
    pub(crate) to: Vec<SocketAddr>,
    /// Whether the server is told the client's address (PROXY protocol, version 2).
    pub(crate) proxy_protocol: bool,
    /// Silence after which a connection is given up, seconds: longer than the server lets a client be silent.
    pub(crate) silence_s: u64,
}

/// Descriptors of one worker beside those of connections.
const ASIDE: u64 = 1_024;

impl Front {
    /// Both ends of each connection, and what a worker needs besides. A worker may get more than its share.
    fn descriptors(&self) -> u64 {
        (2 * self.connections).div_ceil(self.workers) * 2 + ASIDE
    }

    /// Entries of a worker's table: twice both ends of its share.
    fn entries(&self) -> u64 {
        (4 * self.connections).div_ceil(self.workers) + ASIDE
    }
}

/// The text of a configuration.
pub(crate) fn write(proxy: Proxy, front: &Front) -> String {
    match proxy {
        Proxy::Nginx => nginx::write(front),
        Proxy::Haproxy => haproxy::write(front),
    }
}

/// Has the program judge a file. None when it is not installed; what it says when it is against it.
pub(crate) fn judge(proxy: Proxy, file: &Path) -> Option<Result<(), String>> {
    let mut command = match proxy {
        Proxy::Nginx => Command::new("nginx"),
        Proxy::Haproxy => Command::new("haproxy"),
    };
    match proxy {
        Proxy::Nginx => command.args(["-t", "-q", "-c"]).arg(std::path::absolute(file).ok()?),
        Proxy::Haproxy => command.args(["-c", "-q", "-f"]).arg(file),
    };
    let done = command.output().ok()?;
    let told = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Some(if done.status.success() { Ok(()) } else { Err(told) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front() -> Front {
        Front {
            connections: 100_000,
            workers: 4,
            listen: vec!["0.0.0.0:5222".parse().expect("an address")],
            to: vec!["127.0.0.1:5222".parse().expect("an address"), "127.0.0.2:5222".parse().expect("an address")],
            proxy_protocol: true,
            silence_s: 3_600,
        }
    }

    #[test]
    fn a_worker_has_both_ends_of_its_share_twice() {
        assert_eq!((front().descriptors(), front().entries()), (101_024, 101_024));
    }

    #[test]
    fn each_configuration_has_what_was_planned() {
        for proxy in [Proxy::Nginx, Proxy::Haproxy] {
            let text = write(proxy, &front());
            for part in ["0.0.0.0:5222", "127.0.0.1:5222", "127.0.0.2:5222", "3600s"] {
                assert!(text.contains(part), "{proxy:?} lacks {part}:\n{text}");
            }
            let told = ["proxy_protocol on", "send-proxy-v2"].iter().any(|word| text.contains(word));
            let off = write(proxy, &Front { proxy_protocol: false, ..front() });
            assert!(told && !off.contains("proxy_protocol on") && !off.contains("send-proxy"), "{text}");
        }
    }
}
