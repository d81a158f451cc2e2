//! Memory, swap, huge pages, clocks.

use crate::finding::{Finding, State, grouped, sized};
use crate::host::Host;
use crate::need;
use crate::plan::Plan;

/// Checks everything except the network.
pub(super) fn check(host: &Host, plan: &Plan) -> Vec<Finding> {
    let tables = plan.connections.div_ceil(need::TABLE_SLOTS_MAX);
    let mut found = vec![memory(host, plan)];
    found.extend(group(host, plan));
    found.push(swap(host));
    found.push(promised(host));
    found.push(
        super::at_least(host, "mappings of a process", "vm.max_map_count", 8 * tables + 16_384)
            .because("Each io_uring ring and each store file takes some; beyond the limit memory cannot be mapped."),
    );
    found.push(pages(host));
    found.push(source(host));
    found.push(clock(host));
    found
}

fn memory(host: &Host, plan: &Plan) -> Finding {
    // A proxy holds both ends of two connections, and its own memory.
    let needed = need::memory(plan.connections, plan.tls) + (plan.sockets() - plan.connections) * need::KERNEL_BYTES;
    let name = "memory";
    let Some(available) = host.kib("/proc/meminfo", "MemAvailable") else {
        return Finding::new(name, State::Unknown, "not told here", sized(needed));
    };
    let total = host.kib("/proc/meminfo", "MemTotal").unwrap_or(0);
    let state = if available >= needed { State::Good } else { State::Short };
    let is = format!("{} available of {}", sized(available), sized(total));
    let each = (needed - need::SERVER_BYTES) / plan.connections.max(1);
    let needed = format!("{} ({} bytes a connection, kernel included)", sized(needed), grouped(each));
    let holds = available.saturating_sub(need::SERVER_BYTES) / each.max(1);
    Finding::new(name, state, is, needed)
        .because("Without it the kernel kills the server or swaps.")
        .mend("", format!("add memory or reduce connections: this host can hold about {}", grouped(holds)))
}

/// The memory limit of a container or unit.
fn group(host: &Host, plan: &Plan) -> Option<Finding> {
    let own = host.text("/proc/self/cgroup")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let most = host.number(&format!("/sys/fs/cgroup{}/memory.max", path.trim_end_matches('/')))?;
    let needed = need::memory(plan.connections, plan.tls);
    let state = if most >= needed { State::Good } else { State::Short };
    Some(
        Finding::new("memory of this control group", state, sized(most), sized(needed))
            .because("Kernel memory of sockets counts as well.")
            .mend("", format!("MemoryMax={}   in the [Service] part of the unit, or the container's limit", needed)),
    )
}

fn swap(host: &Host) -> Finding {
    let devices = host.text("/proc/swaps").unwrap_or_default().lines().count().saturating_sub(1);
    let swappiness = host.number("/proc/sys/vm/swappiness").unwrap_or(60);
    if devices == 0 {
        return Finding::new("swap", State::Good, "none", "none, or vm.swappiness of 10 at most");
    }
    let state = if swappiness <= 10 { State::Good } else { State::Short };
    Finding::new("swap", state, format!("on, vm.swappiness {swappiness}"), "none, or vm.swappiness of 10 at most")
        .because("A shard that waits for a page delays all of its users, and idle sessions are swapped first.")
        .sysctl("vm.swappiness", &swappiness.to_string(), "10")
}

fn promised(host: &Host) -> Finding {
    let mode = host.number("/proc/sys/vm/overcommit_memory").unwrap_or(0);
    let state = if mode == 2 { State::Short } else { State::Good };
    Finding::new("memory that is promised", state, format!("vm.overcommit_memory {mode}"), "0 or 1")
        .because(
            "The allocator reserves addresses by the gigabyte and touches only what it needs; with \
             mode 2 the kernel counts all.",
        )
        .sysctl("vm.overcommit_memory", &mode.to_string(), "0")
}

fn pages(host: &Host) -> Finding {
    let kept = host.number("/proc/sys/vm/nr_hugepages").unwrap_or(0);
    let size = host.kib("/proc/meminfo", "Hugepagesize").unwrap_or(2 << 20);
    let total = host.kib("/proc/meminfo", "MemTotal").unwrap_or(u64::MAX);
    let word = host.text("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = word.split(['[', ']']).nth(1).unwrap_or("not there").to_owned();
    let state = if kept * size > total / 10 { State::Short } else { State::Good };
    let is = format!("transparent: {chosen}; set aside: {}", sized(kept * size));
    Finding::new("huge pages", state, is, "at most a tenth of memory set aside")
        .because("The server disables transparent huge pages for itself and uses no reserved ones.")
        .sysctl("vm.nr_hugepages", &kept.to_string(), "0")
}

/// Clock sources that are read without a system call.
const QUICK: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

fn source(host: &Host) -> Finding {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let name = "time source";
    let Some(is) = host.text(&format!("{folder}/current_clocksource")) else {
        return Finding::new(name, State::Unknown, "not told here", "one that is read without a system call");
    };
    let there = host.text(&format!("{folder}/available_clocksource")).unwrap_or_default();
    let better = QUICK.iter().find(|quick| there.split_whitespace().any(|word| word == **quick));
    let state = match (QUICK.contains(&&*is), better) {
        (true, _) => State::Good,
        (false, Some(_)) => State::Short,
        (false, None) => State::Note,
    };
    let found = Finding::new(name, state, &is, "one that is read without a system call")
        .because("The time is read several times per turn; with this source each reading is a slow system call.");
    let Some(better) = better else { return found };
    let path = format!("{folder}/current_clocksource");
    found
        .mend(format!("echo {better} > {path}"), format!("clocksource={better}   on the kernel's command line"))
        .change(path, &is, better)
}

fn clock(host: &Host) -> Finding {
    let name = "clock";
    let needed = "kept right by NTP";
    // A time daemon leaves one of these: systemd-timesyncd, chrony, ntpd.
    let kept = [
        ("/run/systemd/timesync/synchronized", "synchronised by systemd-timesyncd"),
        ("/run/chrony/chronyd.pid", "chrony runs"),
        ("/var/run/chrony/chronyd.pid", "chrony runs"),
        ("/var/run/ntpd.pid", "ntpd runs"),
    ];
    if let Some((_, told)) = kept.iter().find(|(path, _)| host.has(path)) {
        return Finding::new(name, State::Good, told, needed);
    }
    Finding::new(name, State::Note, "nobody is seen to keep it", needed)
        .because(
            "Timestamps of delayed messages, certificates and tokens depend on it. The hypervisor \
             may keep it in sync.",
        )
        .mend("systemctl start systemd-timesyncd", "apt-get install systemd-timesyncd, or chrony")
}
