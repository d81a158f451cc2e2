//! Configurations of proxies in front of the server.
//!
//! [`asked`] parses the command line into a [`Front`]; one file per program writes it, under the
//! comment of [`notes`].

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

/// The proxy program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Proxy {
    /// nginx, with its stream module for XMPP.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Caddy, for HTTP only.
    Caddy,
}

/// The contents of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    /// Simultaneous clients.
    pub(crate) connections: u64,
    /// Processes (nginx) or threads (HAProxy).
    pub(crate) workers: u64,
    /// XMPP over TCP: bytes are forwarded unchanged, and TLS ends in the server.
    pub(crate) streams: Vec<Stream>,
    /// Whether the server receives the client addresses of `streams` (PROXY protocol).
    pub(crate) proxy_protocol: bool,
    /// HTTP, for which TLS and HTTP/2 end in the proxy.
    pub(crate) web: Option<Web>,
    /// Idle time after which a connection is closed, seconds: longer than the server's own limit.
    pub(crate) silence_s: u64,
}

/// A port for XMPP.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Its name in the configuration.
    pub(crate) name: &'static str,
    /// The server's option for listeners of this kind; the one for proxies adds `-proxied`.
    pub(crate) option: &'static str,
    /// The addresses for clients.
    pub(crate) listen: Vec<SocketAddr>,
    /// The server's addresses, which share the clients.
    pub(crate) to: Vec<SocketAddr>,
}

/// WebSocket, BOSH, notifications, and their discovery.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    /// The host name for clients, in lower case: letters, digits, `-` and `.` only.
    pub(crate) domain: String,
    /// The addresses for clients.
    pub(crate) listen: Vec<SocketAddr>,
    /// The server's addresses (`http`), which share the clients.
    pub(crate) to: Vec<SocketAddr>,
    /// The file with the certificate chain, without characters that need quoting. `None`: Caddy
    /// obtains one by itself.
    pub(crate) certificate: Option<String>,
    /// The file with its key. `None`: it is in the same file.
    pub(crate) key: Option<String>,
}

/// The server's exact paths: its whole table, as a test of the server verifies.
const PATHS: [&str; 11] = [
    "/xmpp-websocket",
    "/http-bind",
    "/.well-known/host-meta",
    "/.well-known/host-meta.json",
    "/.well-known/mercure",
    "/connection/websocket",
    "/throng.js",
    "/",
    "/chat.js",
    "/chat.css",
    "/chat.json",
];

/// The prefixes of the server's paths: notifications, also in Nchan's form, and checks of a
/// certificate authority, which follow a redirection from port 80.
const PATHS_BELOW: [&str; 6] = ["/n/", "/sub/", "/poll/", "/pub/", "/pubsub/", "/.well-known/acme-challenge/"];

/// Longest body that the server accepts without authentication (BOSH), bytes.
const BODY_BYTES_MAX: u64 = 512 << 10;

/// Longest time that the server holds a request, with a margin, seconds: `wait` of a long poll is
/// at most 300.
const WAIT_S: u64 = 360;

/// Descriptors of one worker besides those of connections.
const ASIDE: u64 = 1_024;

impl Front {
    /// Both ends of each connection, and the other descriptors of a worker. A worker may get more
    /// than its share.
    fn descriptors(&self) -> u64 {
        (2 * self.connections).div_ceil(self.workers) * 2 + ASIDE
    }

    /// Entries of a worker's table: twice both ends of its share.
    fn entries(&self) -> u64 {
        (4 * self.connections).div_ceil(self.workers) + ASIDE
    }

    /// Idle time after which an HTTP connection is closed, seconds.
    fn web_silence_s(&self) -> u64 {
        self.silence_s.max(WAIT_S)
    }
}

impl Web {
    /// The public URL of a path.
    fn url(&self, scheme: &str, path: &str) -> String {
        match self.listen.first().map_or(443, SocketAddr::port) {
            443 => format!("{scheme}://{}{path}", self.domain),
            port => format!("{scheme}://{}:{port}{path}", self.domain),
        }
    }
}

/// The text of a configuration. `file` is its destination.
pub(crate) fn write(proxy: Proxy, front: &Front, file: Option<&Path>) -> String {
    let notes = notes::write(proxy, front, file);
    let rest = match proxy {
        Proxy::Nginx => nginx::write(front),
        Proxy::Haproxy => haproxy::write(front),
        Proxy::Caddy => caddy::write(front),
    };
    notes + &rest
}

/// Writes the text to a file. An existing file is left unchanged, unless it is to be overwritten.
///
/// # Errors
/// Why it was not written.
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

/// Lets the program check a file. `None` if it is not installed; its output if it rejects the file.
pub(crate) fn judge(proxy: Proxy, file: &Path) -> Option<Result<(), String>> {
    let (program, arguments): (_, &[&str]) = match proxy {
        Proxy::Nginx => ("nginx", &["-t", "-q", "-c"]),
        Proxy::Haproxy => ("haproxy", &["-c", "-q", "-f"]),
        Proxy::Caddy => ("caddy", &["validate", "--adapter", "caddyfile", "--config"]),
    };
    let done = Command::new(program).args(arguments).arg(std::path::absolute(file).ok()?).output().ok()?;
    let told = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    // Caddy first reports its actions.
    let told = if proxy == Proxy::Caddy { told.lines().last().unwrap_or_default().to_owned() } else { told };
    Some(if done.status.success() { Ok(()) } else { Err(told) })
}
