//! The service manager that has started this process, if there is one: what it is told
//! (sd_notify(3)), and the sockets that it has opened (sd_listen_fds(3)).
//!
//! This module knows the manager's protocol, and nothing of the server.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as Address, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Longest wait for a manager that does not read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most sockets that are taken over.
const SOCKETS_MAX: u16 = 256;

/// The manager, as a supervised process reports to it. Without one, reports go nowhere.
#[derive(Debug, Default)]
pub struct Manager {
    address: Option<Address>,
    watchdog: Option<Duration>,
    /// Whether a failed report was logged.
    failed: AtomicBool,
}

impl Manager {
    /// The manager that the environment names, for this process.
    ///
    /// # Errors
    /// `NOTIFY_SOCKET` is no address.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> io::Result<Manager> {
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        let address = match variable("NOTIFY_SOCKET") {
            None => None,
            Some(path) => Some(match path.as_bytes().strip_prefix(b"@") {
                Some(name) => Address::from_abstract_name(name)?,
                None => Address::from_pathname(path)?,
            }),
        };
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|us| is_ours && *us > 0).map(Duration::from_micros);
        Ok(Manager { address, watchdog, failed: AtomicBool::new(false) })
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.address.is_some()
    }

    /// The time after which the manager ends a process that has not called [`Manager::alive`].
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The start has got this far, and may take `most` more.
    pub fn starting(&self, status: &str, most: Duration) {
        self.report(&[&format!("EXTEND_TIMEOUT_USEC={}", most.as_micros())], status);
    }

    /// The process serves: after the start, and after [`Manager::reloading`].
    pub fn ready(&self, status: &str) {
        self.report(&["READY=1", &format!("MAINPID={}", std::process::id())], status);
    }

    /// The configuration is being read again.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.report(&["RELOADING=1", &format!("MONOTONIC_USEC={us}")], "reading the configuration again");
    }

    /// The process stops, which takes `most` at the longest.
    pub fn stopping(&self, status: &str, most: Duration) {
        self.report(&["STOPPING=1", &format!("EXTEND_TIMEOUT_USEC={}", most.as_micros())], status);
    }

    /// What the process does, in one line.
    pub fn status(&self, status: &str) {
        self.report(&[], status);
    }

    /// A sign of life for the watchdog.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn report(&self, states: &[&str], status: &str) {
        // A line break would begin another state.
        let status = format!("STATUS={}", status.replace(char::is_control, " "));
        let states: Vec<&str> = states.iter().copied().chain([&*status]).collect();
        self.send(&states.join("\n"));
    }

    fn send(&self, text: &str) {
        let Some(address) = &self.address else { return };
        let send = || {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.send_to_addr(text.as_bytes(), address)
        };
        if let Err(error) = send()
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "cannot report to the service manager (NOTIFY_SOCKET); this is logged once");
        }
    }
}

/// A listening socket that the manager has opened.
#[derive(Debug)]
struct Socket {
    /// Its name, `FileDescriptorName=` of its unit.
    name: String,
    address: SocketAddr,
    listener: TcpListener,
}

/// The sockets that the manager has opened.
#[derive(Debug, Default)]
pub struct Sockets(Vec<Socket>);

impl Sockets {
    /// Takes over the sockets for this process. Later calls find none.
    ///
    /// # Errors
    /// One is not a TCP socket that listens; a sentence.
    pub fn take(variable: impl Fn(&str) -> Option<OsString>) -> Result<Sockets, String> {
        let text = |name| variable(name)?.into_string().ok();
        if text("LISTEN_PID").and_then(|pid| pid.parse().ok()) != Some(std::process::id()) {
            return Ok(Sockets::default());
        }
        let count = text("LISTEN_FDS").and_then(|count| count.parse().ok()).unwrap_or(0);
        if count > SOCKETS_MAX {
            return Err(format!("LISTEN_FDS={count}: at most {SOCKETS_MAX} sockets can be taken over"));
        }
        let names = text("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let taken = throng_sys::calls::inherited_descriptors(count);
        let taken = taken.map_err(|error| format!("LISTEN_FDS={count}: the descriptors are not open: {error}"))?;
        let socket = |descriptor| {
            let name = names.next().unwrap_or_default().to_owned();
            let wrong = || format!("the socket {name:?} of the service manager is no TCP socket that listens");
            let listener = TcpListener::from(descriptor);
            let address = listener.local_addr().map_err(|_| wrong())?;
            if !rustix::net::sockopt::socket_acceptconn(&listener).unwrap_or(false) {
                return Err(wrong());
            }
            Ok(Socket { name, address, listener })
        };
        taken.into_iter().map(socket).collect::<Result<_, _>>().map(Sockets)
    }

    /// Checks that each is the address of a listener, and of the option whose name it has.
    ///
    /// # Errors
    /// One is not: its clients would wait forever. A sentence.
    pub fn check(&self, listeners: &[(&str, SocketAddr)]) -> Result<(), String> {
        for Socket { name, address, .. } in &self.0 {
            let mut keys = listeners.iter().filter(|(_, wanted)| wanted == address).map(|(key, _)| *key);
            let named = name.replace('-', "_");
            let is_option = crate::config::table::row(&named).is_some();
            let Some(key) = keys.next() else {
                return Err(format!(
                    "the service manager has opened {address} ({name}), which no option names: add it to an option, \
                     such as c2s, or remove it from the socket unit"
                ));
            };
            if is_option && named != key {
                return Err(format!(
                    "the service manager has opened {address} for {named}, but it is an address of {key}: correct \
                     FileDescriptorName= of the socket unit, or the option"
                ));
            }
        }
        Ok(())
    }

    /// The socket of this address, if the manager has opened one.
    pub fn of(&self, address: SocketAddr) -> Option<&TcpListener> {
        self.0.iter().find(|socket| socket.address == address).map(|socket| &socket.listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(all: &[(&str, &str)]) -> Sockets {
        let listener = || TcpListener::bind("127.0.0.1:0").expect("a socket");
        let socket = |(name, address): &(&str, &str)| Socket {
            name: (*name).into(),
            address: address.parse().expect("an address"),
            listener: listener(),
        };
        Sockets(all.iter().map(socket).collect())
    }

    #[test]
    fn a_socket_is_for_the_option_that_names_its_address() {
        let given = sockets(&[("c2s", "127.0.0.1:1"), ("throng.socket", "[::1]:2"), ("c2s-tls", "[::1]:3")]);
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let (one, two, three) = (address("127.0.0.1:1"), address("[::1]:2"), address("[::1]:3"));
        assert_eq!(given.check(&[("c2s", one), ("http", two), ("c2s_tls", three)]), Ok(()));
        let said = given.check(&[("http", one), ("c2s", two), ("c2s_tls", three)]).unwrap_err();
        assert!(said.contains("127.0.0.1:1 for c2s, but it is an address of http"), "{said}");
        let said = given.check(&[("c2s", one)]).unwrap_err();
        assert!(said.contains("[::1]:2 (throng.socket), which no option names"), "{said}");
        assert!(given.of(one).is_some() && given.of(address("127.0.0.1:2")).is_none());
    }

    #[test]
    fn without_a_manager_nothing_is_expected_and_nothing_is_sent() {
        let manager = Manager::of(|_| None).expect("good");
        assert!(!manager.is_there() && manager.watchdog().is_none());
        manager.ready("serving");
        let other = |name: &str| (name == "LISTEN_FDS").then(|| "1".into());
        assert!(Sockets::take(other).expect("none are for this process").0.is_empty());
    }

    #[test]
    fn the_watchdog_of_another_process_is_not_ours() {
        let of = |pid: String| {
            let manager = Manager::of(|name| match name {
                "WATCHDOG_USEC" => Some("3000000".into()),
                "WATCHDOG_PID" => Some(pid.clone().into()),
                _ => None,
            });
            manager.expect("good").watchdog()
        };
        assert_eq!(of(std::process::id().to_string()), Some(Duration::from_secs(3)));
        assert_eq!(of("1".into()), None);
    }
}
