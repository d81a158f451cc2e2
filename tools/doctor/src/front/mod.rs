//! Configurations of proxies that stand in front of the server.
//!
//! [`asked`] reads the command line into a [`Front`]; one file per program writes it, under the comment of [`notes`].

pub(crate) mod asked;
mod caddy;
mod haproxy;
mod nginx;
mod notes;

#[cfg(test)]
mod tests;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Which proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Proxy {
    /// nginx, for XMPP with its stream module.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Caddy, for the web only.
    Caddy,
}

/// What a configuration is made of.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    /// Clients at once.
    pub(crate) connections: u64,
    /// Processes (nginx) or threads (HAProxy).
    pub(crate) workers: u64,
    /// XMPP over TCP: bytes pass as they are, and TLS ends in the server.
    pub(crate) streams: Vec<Stream>,
    /// Whether the server is told the address of a client of `streams` (PROXY protocol).
    pub(crate) proxy_protocol: bool,
    /// HTTP, of which TLS and HTTP/2 end in the proxy.
    pub(crate) web: Option<Web>,
    /// Silence after which a connection is given up, seconds: longer than the server lets a client be silent.
    pub(crate) silence_s: u64,
}

/// A port of XMPP.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// What the configuration calls it.
    pub(crate) name: &'static str,
    /// The server's option for listeners of this kind; the one for proxies has `-proxied` behind it.
    pub(crate) option: &'static str,
    /// Where clients come in.
    pub(crate) listen: Vec<SocketAddr>,
    /// Where the server listens. Several addresses share the clients.
    pub(crate) to: Vec<SocketAddr>,
}

/// WebSocket, BOSH, notifications, and their discovery.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    /// The name that clients ask for, in lower case: letters, digits, `-` and `.` only.
    pub(crate) domain: String,
    /// Where clients come in.
    pub(crate) listen: Vec<SocketAddr>,
    /// Where the server listens (`http`). Several addresses share the clients.
    pub(crate) to: Vec<SocketAddr>,
    /// The file with the chain of certificates, without characters that would have to be quoted. None: Caddy gets one by itself.
    pub(crate) certificate: Option<String>,
    /// The file with its key. None: it is in the same one.
    pub(crate) key: Option<String>,
}

/// The server's paths that are equal to these: all of its table, as a test of the server sees to.
const PATHS: [&str; 7] = [
    "/xmpp-websocket",
    "/http-bind",
    "/.well-known/host-meta",
    "/.well-known/host-meta.json",
    "/.well-known/mercure",
    "/connection/websocket",
    "/throng.js",
];

/// The server's paths that begin so: notifications, and the same as Nchan has them.
const PATHS_BELOW: [&str; 5] = ["/n/", "/sub/", "/poll/", "/pub/", "/pubsub/"];

/// Longest body that the server takes of anybody (BOSH), bytes.
const BODY_BYTES_MAX: u64 = 512 << 10;

/// The longest that the server lets a request wait, and answers late, seconds: a long poll's `wait` is 300 at the most.
const WAIT_S: u64 = 360;

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

    /// Silence of the web after which a connection is given up, seconds.
    fn web_silence_s(&self) -> u64 {
        self.silence_s.max(WAIT_S)
    }
}

impl Web {
    /// The address of a path as clients have it.
    fn url(&self, scheme: &str, path: &str) -> String {
        match self.listen.first().map_or(443, SocketAddr::port) {
            443 => format!("{scheme}://{}{path}", self.domain),
            port => format!("{scheme}://{}:{port}{path}", self.domain),
        }
    }
}

/// The text of a configuration. `file` is where it will be.
pub(crate) fn write(proxy: Proxy, front: &Front, file: Option<&Path>) -> String {
    let notes = notes::write(proxy, front, file);
    let rest = match proxy {
        Proxy::Nginx => nginx::write(front),
        Proxy::Haproxy => haproxy::write(front),
        Proxy::Caddy => caddy::write(front),
    };
    notes + &rest
}

/// Writes the text to a file. One that is there already stays as it is, unless it is to be overwritten.
///
/// # Errors
/// Why it is not written.
pub(crate) fn save(file: &Path, text: &str, overwrites: bool) -> Result<(), String> {
    let mut how = OpenOptions::new();
    match overwrites {
        true => how.write(true).create(true).truncate(true),
        false => how.write(true).create_new(true),
    };
    how.open(file).and_then(|mut opened| opened.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{} exists; give another name as --out, or --force to overwrite it", file.display())
        }
        _ => format!("{}: {error}", file.display()),
    })
}

/// Has the program judge a file. None when it is not installed; what it says when it is against it.
pub(crate) fn judge(proxy: Proxy, file: &Path) -> Option<Result<(), String>> {
    let (program, arguments): (_, &[&str]) = match proxy {
        Proxy::Nginx => ("nginx", &["-t", "-q", "-c"]),
        Proxy::Haproxy => ("haproxy", &["-c", "-q", "-f"]),
        Proxy::Caddy => ("caddy", &["validate", "--adapter", "caddyfile", "--config"]),
    };
    let done = Command::new(program).args(arguments).arg(std::path::absolute(file).ok()?).output().ok()?;
    let told = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    // Caddy says first what it does.
    let told = if proxy == Proxy::Caddy { told.lines().last().unwrap_or_default().to_owned() } else { told };
    Some(if done.status.success() { Ok(()) } else { Err(told) })
}
