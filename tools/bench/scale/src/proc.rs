//! What `/proc` tells of the machine and of two processes.

use std::fs;

/// A look at the machine, the server and the generator. Memory in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Look {
    /// What could be had without swapping (`MemAvailable`).
    pub(crate) available: u64,
    /// Free memory and the page cache that can be had back. `available` counts inodes and dentries as well, which the kernel
    /// does not give back while their sockets are open.
    pub(crate) left: u64,
    /// The kernel's objects: sockets, inodes, dentries and all others.
    pub(crate) slab: u64,
    /// Page tables, per-CPU areas and what is mapped for the kernel (`VmallocUsed`: stacks, rings, tables).
    pub(crate) kernel_other: u64,
    /// Buffers of TCP sockets (`sockstat`).
    pub(crate) tcp: u64,
    /// Resident memory of the server.
    pub(crate) server: u64,
    /// Resident memory of the generator, all of its processes.
    pub(crate) generator: u64,
    /// CPU time of the server so far, in microseconds.
    pub(crate) server_cpu_us: u64,
    /// Of this the thread that records.
    pub(crate) recorder_cpu_us: u64,
    /// CPU time of the generator so far, in microseconds.
    pub(crate) generator_cpu_us: u64,
    /// Time that all cores were busy so far, with this run or anything else, in microseconds.
    pub(crate) busy_us: u64,
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The field of a file of lines `Name: number kB`, in bytes.
fn kb(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// CPU time of a process's threads, or of those of one name.
fn cpu_us(pid: u32, name: Option<&str>) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let used = |task: fs::DirEntry| {
        if let Some(name) = name
            && fs::read_to_string(task.path().join("comm")).ok()?.trim_end() != name
        {
            return None;
        }
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    tasks.flatten().filter_map(used).sum::<u64>() / 1000
}

/// A process and its children.
fn family(pid: u32) -> Vec<u32> {
    let children = read(&format!("/proc/{pid}/task/{pid}/children"));
    std::iter::once(pid).chain(children.split_whitespace().filter_map(|child| child.parse().ok())).collect()
}

/// The machine and, where there are any, the two processes.
pub(crate) fn look(server: Option<u32>, generator: Option<u32>) -> Look {
    let memory = read("/proc/meminfo");
    let sockets = read("/proc/net/sockstat");
    let tcp_pages = sockets.lines().find(|line| line.starts_with("TCP:")).and_then(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
        words.nth(1)?.parse::<u64>().ok()
    });
    let stat = read("/proc/stat");
    let ticks: Vec<u64> =
        stat.lines().next().unwrap_or_default().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; a tick is 10 ms.
    let busy = [0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum::<u64>() * 10_000;
    let cache = ["Buffers", "Cached"].iter().map(|name| kb(&memory, name)).sum::<u64>();
    let resident = |pid: u32| kb(&read(&format!("/proc/{pid}/status")), "VmRSS");
    Look {
        available: kb(&memory, "MemAvailable"),
        left: kb(&memory, "MemFree") + cache.saturating_sub(kb(&memory, "Shmem")),
        slab: kb(&memory, "Slab"),
        kernel_other: ["PageTables", "Percpu", "VmallocUsed"].iter().map(|name| kb(&memory, name)).sum(),
        tcp: tcp_pages.unwrap_or(0) * 4096,
        server: server.map_or(0, resident),
        generator: generator.map_or(0, |pid| family(pid).into_iter().map(resident).sum()),
        server_cpu_us: server.map_or(0, |pid| cpu_us(pid, None)),
        recorder_cpu_us: server.map_or(0, |pid| cpu_us(pid, Some("recorder"))),
        generator_cpu_us: generator.map_or(0, |pid| family(pid).into_iter().map(|pid| cpu_us(pid, None)).sum()),
        busy_us: busy,
    }
}

/// Descriptors that a process may have open, which also bounds a ring's table.
pub(crate) fn descriptors_max() -> u64 {
    let limits = read("/proc/self/limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    line.and_then(|line| line.split_whitespace().nth(4)?.parse().ok()).unwrap_or(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_process_can_be_looked_at() {
        let own = std::process::id();
        let seen = look(Some(own), Some(own));
        assert!(
            seen.available > 1 << 20 && seen.left > 1 << 20 && seen.slab > 1 << 20 && seen.kernel_other > 0,
            "{seen:?}"
        );
        assert!(seen.server > 1 << 16 && seen.generator >= seen.server && seen.busy_us > 0, "{seen:?}");
        assert!(descriptors_max() > 16);
        assert_eq!(kb("A: 1 kB\nAB: 3 kB\n", "AB"), 3 << 10);
    }
}
