//! The kernel's limits on connections: raised for a run, and set back when it is over, however it ends.

use std::fs;
use std::path::PathBuf;

/// What is set: a file below `/proc/sys`, and its value for so many sessions.
fn wanted(sessions: u64) -> Vec<(&'static str, String)> {
    // Pages of socket buffers: what idle connections have is little, so this is a bound on what cannot be meant.
    let pages = (sessions / 4).max(400_000);
    vec![
        ("net/ipv4/ip_local_port_range", "1024 65000".into()),
        ("net/core/somaxconn", "65535".into()),
        ("net/ipv4/tcp_max_syn_backlog", "65535".into()),
        ("net/core/netdev_max_backlog", "65535".into()),
        ("net/ipv4/tcp_mem", format!("{pages} {} {}", pages * 3 / 2, pages * 2)),
        ("net/ipv4/tcp_max_orphans", (2 * sessions).max(65_536).to_string()),
        ("net/ipv4/tcp_max_tw_buckets", (2 * sessions).max(65_536).to_string()),
        ("net/ipv4/tcp_fin_timeout", "5".into()),
        ("fs/file-max", (4 * sessions).max(1_000_000).to_string()),
        ("fs/nr_open", "1048576".into()),
        ("vm/max_map_count", "262144".into()),
        ("net/netfilter/nf_conntrack_max", (3 * sessions).max(262_144).to_string()),
    ]
}

/// Whether a value already allows what is wanted: a file of one number that is no less, or of a range no narrower.
fn is_enough(name: &str, now: &str, wanted: &str) -> bool {
    let numbers = |text: &str| text.split_whitespace().filter_map(|n| n.parse::<i128>().ok()).collect::<Vec<_>>();
    let (now, wanted) = (numbers(now), numbers(wanted));
    match name {
        "net/ipv4/ip_local_port_range" => now.first() <= wanted.first() && now.last() >= wanted.last(),
        "net/ipv4/tcp_fin_timeout" => now <= wanted,
        _ => now.len() == wanted.len() && now.iter().zip(&wanted).all(|(now, wanted)| now >= wanted),
    }
}

/// Limits that have been changed. Sets them back when dropped.
pub(crate) struct Limits {
    changed: Vec<(PathBuf, String)>,
}

impl Limits {
    /// Raises what is too low for so many sessions, and prints each change.
    pub(crate) fn raise(sessions: u64) -> Limits {
        let mut limits = Limits { changed: Vec::new() };
        for (name, wanted) in wanted(sessions) {
            let path = PathBuf::from("/proc/sys").join(name);
            // A kernel without it, as one without connection tracking.
            let Ok(before) = fs::read_to_string(&path) else { continue };
            let before = before.split_whitespace().collect::<Vec<_>>().join(" ");
            if is_enough(name, &before, &wanted) {
                continue;
            }
            match fs::write(&path, &wanted) {
                Ok(()) => {
                    eprintln!("set      {name} = {wanted} (was {before})");
                    limits.changed.push((path, before));
                }
                Err(error) => eprintln!("not set  {name} = {wanted} (is {before}): {error}"),
            }
        }
        limits
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for (path, before) in self.changed.drain(..).rev() {
            let name = path.strip_prefix("/proc/sys").unwrap_or(&path).display().to_string();
            match fs::write(&path, &before) {
                Ok(()) => eprintln!("set back {name} = {before}"),
                Err(error) => eprintln!("NOT set back: {name} = {before}: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_low_is_changed() {
        assert!(is_enough("fs/file-max", "9223372036854775807", "4000000"));
        assert!(!is_enough("fs/file-max", "2465610", "4000000"));
        assert!(is_enough("net/ipv4/ip_local_port_range", "1024 65535", "1024 65000"));
        assert!(!is_enough("net/ipv4/ip_local_port_range", "32768 60999", "1024 65000"));
        assert!(!is_enough("net/ipv4/tcp_fin_timeout", "60", "5"));
        assert!(!is_enough("net/ipv4/tcp_mem", "287832 383779 575664", "400000 600000 800000"));
    }
}
