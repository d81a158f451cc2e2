//! Finds the process that listens on an address, from `/proc`; used only in error messages.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;

/// The holder of a listening socket.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Holder {
    /// A listener of this process at this address.
    Own(SocketAddr),
    /// A process, by pid and name.
    Process(u32, String),
    /// A process of this other user, which this process may not inspect.
    User(u32),
    /// No process: the owner has ended, and the kernel has not closed the socket yet.
    Orphan,
    /// No longer held, or held in another network namespace.
    Unknown,
}

/// A row of `/proc/net/tcp` or `tcp6`.
#[derive(PartialEq, Eq, Debug)]
struct Row {
    local: SocketAddr,
    user: u32,
    inode: u64,
}

impl Holder {
    /// The holder of a listening socket that conflicts with `addr`.
    pub(super) fn of(addr: SocketAddr) -> Holder {
        let tables =
            ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
        let rows: Vec<Row> = tables.iter().flat_map(|table| table.lines().filter_map(listening)).collect();
        let Some(row) = rows.iter().find(|row| overlap(row.local, addr)) else { return Holder::Unknown };
        let own = std::process::id();
        match process_with(row.inode) {
            Some(pid) if pid == own => Holder::Own(row.local),
            Some(pid) => {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                Holder::Process(pid, name.trim().to_owned())
            }
            None => {
                // Root sees all processes; other users see their own.
                let me = fs::metadata("/proc/self").map_or(0, |own| own.uid());
                if me == 0 || me == row.user { Holder::Orphan } else { Holder::User(row.user) }
            }
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Own(address) => write!(f, "this process, which already listens at {address}"),
            Holder::Process(pid, name) => write!(f, "process {pid} ({name})"),
            Holder::User(user) => write!(f, "a process of user {user} (run ss -ltnp as root for its name)"),
            Holder::Orphan => f.write_str("a process that has exited; the kernel is still closing its sockets"),
            Holder::Unknown => f.write_str("another process (run ss -ltnp as root for its name)"),
        }
    }
}

/// The process that has a descriptor of the socket with this inode, if this process may inspect it.
fn process_with(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    let holds = |pid: u32| {
        let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        descriptors.any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str())).then_some(pid)
    };
    let pids = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.into_iter().find_map(holds)
}

/// Whether two listeners conflict. An IPv6 wildcard may also cover IPv4.
fn overlap(held: SocketAddr, wanted: SocketAddr) -> bool {
    let (a, b) = (held.ip().to_canonical(), wanted.ip().to_canonical());
    let covers = |any: IpAddr, other: IpAddr| any.is_unspecified() && (any.is_ipv6() || other.is_ipv4());
    held.port() == wanted.port() && (a == b || covers(a, b) || covers(b, a))
}

/// Parses a row of a listening socket (`man 5 proc_pid_net`).
fn listening(line: &str) -> Option<Row> {
    const LISTEN: &str = "0A";
    let words: Vec<&str> = line.split_whitespace().collect();
    let (&local, &state, user, inode) = (words.get(1)?, words.get(3)?, words.get(7)?, words.get(9)?);
    let (ip, port) = local.split_once(':').filter(|_| state == LISTEN)?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Words of four bytes, each in the byte order of the host.
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip: IpAddr = match ip.len() {
        8 => word(0)?.into(),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..][..4].copy_from_slice(&word(at)?);
            }
            bytes.into()
        }
        _ => return None,
    };
    Some(Row { local: (ip, port).into(), user: user.parse().ok()?, inode: inode.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_kernel_are_read() {
        let line =
            "   1: 0100007F:1466 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100";
        let local = "127.0.0.1:5222".parse().unwrap();
        assert_eq!(listening(line), Some(Row { local, user: 1000, inode: 4711 }));
        let line =
            "   0: 00000000000000000000000001000000:1466 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 9 1";
        assert_eq!(listening(line).map(|row| row.local), Some("[::1]:5222".parse().unwrap()));
        for other in [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
            "",
            "1:",
        ] {
            assert_eq!(listening(other), None);
        }
    }

    #[test]
    fn a_wildcard_is_in_the_way_of_what_it_covers() {
        let overlaps = |a: &str, b: &str| overlap(a.parse().unwrap(), b.parse().unwrap());
        for (a, b) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "127.0.0.1:1"), ("127.0.0.1:1", "[::]:1"), ("[::]:1", "[::1]:1")]
        {
            assert!(overlaps(a, b), "{a} {b}");
        }
        for (a, b) in [("0.0.0.0:1", "127.0.0.1:2"), ("0.0.0.0:1", "[::1]:1"), ("127.0.0.1:1", "127.0.0.2:1")] {
            assert!(!overlaps(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_holder_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert_eq!(Holder::of(at), Holder::Own(at));
        assert_eq!(Holder::of(([127, 0, 0, 1], 1).into()), Holder::Unknown);
        let said = Holder::Process(4711, "throng".into()).to_string();
        assert_eq!(said, "process 4711 (throng)");
    }
}
