//! The kernel's figures of this process, for the metrics that every program exports (`process_`).

use std::fs;

use rustix::process::{Resource, getrlimit};

/// One reading; figures that the kernel does not provide are `None`.
#[derive(Default, Debug)]
pub(super) struct Process {
    /// Processor time in user and system mode.
    pub(super) cpu_seconds: Option<f64>,
    /// Open descriptors. Before Linux 6.2 counting them needs a walk over all of them, which takes
    /// long for a million: `None` there.
    pub(super) open_fds: Option<u64>,
    /// Limit for open descriptors.
    pub(super) max_fds: Option<u64>,
    /// Resident memory.
    pub(super) resident_bytes: Option<u64>,
    /// Mapped memory.
    pub(super) virtual_bytes: Option<u64>,
    /// Number of threads.
    pub(super) threads: Option<u64>,
    /// Start time, since 1970.
    pub(super) start_seconds: Option<f64>,
}

impl Process {
    /// Reads `stat` and related files (proc(5)).
    pub(super) fn look() -> Process {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
        let boot = boot.lines().find_map(|line| line.strip_prefix("btime ")?.parse::<f64>().ok());
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        // The name of the program may contain spaces; the fields numbered from 3 on follow it.
        let fields: Vec<u64> = match stat.rsplit_once(')') {
            Some((_, rest)) => rest.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0)).collect(),
            None => Vec::new(),
        };
        let field = |number: usize| fields.get(number - 3).copied();
        let time = |number: usize| field(number).map(|count| count as f64 / ticks);
        Process {
            cpu_seconds: time(14).zip(time(15)).map(|(user, system)| user + system),
            open_fds: fs::metadata("/proc/self/fd").ok().map(|meta| meta.len()).filter(|count| *count > 0),
            max_fds: getrlimit(Resource::Nofile).current,
            resident_bytes: field(24).map(|pages| pages * rustix::param::page_size() as u64),
            virtual_bytes: field(23),
            threads: field(20),
            start_seconds: boot.zip(time(22)).map(|(boot, after)| boot + after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_this_process_is_plausible() {
        let look = Process::look();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("past 1970").as_secs_f64();
        assert!(look.start_seconds.is_some_and(|start| (now - 86_400.0..=now + 1.0).contains(&start)), "{look:?}");
        assert!(look.cpu_seconds.is_some_and(|cpu| (0.0..86_400.0).contains(&cpu)), "{look:?}");
        assert!(
            look.resident_bytes.zip(look.virtual_bytes).is_some_and(|(own, all)| own > 1 << 19 && all > own),
            "{look:?}"
        );
        assert!(look.threads.is_some_and(|threads| threads > 0), "{look:?}");
        let before = look.open_fds;
        let more: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").expect("a file")).collect();
        let after = Process::look().open_fds;
        assert!(before.zip(after).is_none_or(|(before, after)| after > before), "{before:?} {after:?} {}", more.len());
        assert!(look.max_fds.is_none_or(|max| before.is_none_or(|before| before <= max)), "{look:?}");
    }
}
