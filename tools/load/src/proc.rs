//! What `/proc` tells of processes: the server's CPU and memory, and the generator's own.

use std::fs;
use std::net::SocketAddr;

/// CPU and memory of a process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Usage {
    /// CPU time of all threads so far, user and system, in microseconds.
    pub(crate) cpu_us: u64,
    /// Resident memory, in bytes.
    pub(crate) resident_bytes: u64,
}

/// CPU time of the calling thread, in microseconds; 0 where the kernel does not say.
pub(crate) fn thread_cpu_us() -> u64 {
    schedstat("/proc/thread-self/schedstat").unwrap_or(0)
}

fn schedstat(path: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.split_whitespace().next()?.parse::<u64>().ok().map(|ns| ns / 1000)
}

/// Anonymous memory of this process, in bytes; 0 where the kernel does not say.
pub(crate) fn own_memory_bytes() -> u64 {
    field("/proc/self/smaps_rollup", "Anonymous:").unwrap_or(0)
}

/// A line of so many kB, in bytes.
fn field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// A process at this moment; none if it is gone.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let mut cpu_us = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread may end while we look.
        cpu_us += task.path().join("schedstat").to_str().and_then(schedstat).unwrap_or(0);
    }
    let resident_bytes = field(&format!("/proc/{pid}/status"), "VmRSS:")?;
    Some(Usage { cpu_us, resident_bytes })
}

/// The process that listens there, if it is on this machine and we may look at it.
pub(crate) fn listener(at: SocketAddr) -> Option<u32> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|text| listening(&text, at.port()))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if inodes.is_empty() || !at.ip().is_loopback() {
        return None;
    }
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let mut links = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        let owns = links.any(|link| {
            fs::read_link(link.path())
                .is_ok_and(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str()))
        });
        owns.then_some(pid)
    })
}

/// Inodes of the sockets that listen on a port, from the text of `/proc/net/tcp` (proc_net_tcp in the kernel's
/// documentation).
fn listening(text: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let of = |line: &str| {
        let mut fields = line.split_whitespace();
        let local = fields.nth(1)?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?.parse().ok()?;
        let listens = local.rsplit_once(':')?.1.eq_ignore_ascii_case(&format!("{port:04X}")) && state == LISTEN;
        listens.then_some(inode)
    };
    text.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn this_process_is_found_by_its_listener_and_weighed() {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let pid = listener(socket.local_addr().expect("its address")).expect("its owner");
        assert_eq!(pid, std::process::id());
        let usage = usage(pid).expect("it runs");
        assert!(usage.resident_bytes > 1 << 20 && usage.cpu_us > 0, "{usage:?}");
        assert!(own_memory_bytes() > 1 << 16);
        assert_eq!(super::usage(0), None);
    }
}
