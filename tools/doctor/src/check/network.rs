//! Ports, backlogs, and memory of TCP.

use crate::finding::{Finding, State, grouped, sized};
use crate::host::Host;
use crate::need;
use crate::plan::Plan;

/// A page of memory, bytes.
const PAGE: u64 = 4096;

/// Checks TCP and network cards.
pub(super) fn check(host: &Host, plan: &Plan) -> Vec<Finding> {
    let backlog = need::backlog(plan.connections);
    let mut found = vec![
        super::at_least(host, "listen backlog", "net.core.somaxconn", backlog).because(
            "In a connection storm clients wait here to be accepted; beyond the limit the kernel \
             drops them, and they retry a second later. `throng serve --backlog` must be at least \
             as high.",
        ),
        super::at_least(host, "SYN backlog", "net.ipv4.tcp_max_syn_backlog", backlog)
            .because("Half-open TCP handshakes; beyond the limit the kernel drops them or falls back to SYN cookies."),
        super::at_least(host, "packets that wait for a core", "net.core.netdev_max_backlog", backlog.min(16_384))
            .because("Packets that arrive on one core while it is busy, including loopback; beyond \
                      the limit they are dropped."),
        super::at_least(host, "closed with bytes under way", "net.ipv4.tcp_max_orphans", need::orphans(plan.sockets())).because(
            "Connections that are closed before the peer has acknowledged the last bytes; beyond it they are reset, and a \
             client does not learn why it was sent away.",
        ),
        super::at_least(host, "resting ports", "net.ipv4.tcp_max_tw_buckets", need::orphans(plan.sockets()))
            .because("Closed connections stay in TIME-WAIT for a minute; beyond the limit they end \
                      at once, and old packets may reach new connections."),
        memory(host, plan),
        buffers(host),
        reserved(host, plan),
    ];
    found.extend(plan.front.then(|| ports(host, plan)));
    found.extend(cards(host));
    found
}

fn memory(host: &Host, plan: &Plan) -> Finding {
    let (name, sysctl) = ("memory of TCP", "net.ipv4.tcp_mem");
    let needed = need::tcp_pages(plan.sockets());
    let told = |pages: u64| format!("{} pages ({})", grouped(pages), sized(pages * PAGE));
    let numbers = host.numbers("/proc/sys/net/ipv4/tcp_mem").unwrap_or_default();
    let [least, pressure, most] = numbers[..] else {
        return Finding::new(name, State::Unknown, format!("{sysctl} is not told here"), told(needed));
    };
    let state = if most >= needed { State::Good } else { State::Short };
    Finding::new(name, state, told(most), told(needed))
        .because(
            "Buffers of all sockets; beyond the limit the kernel reclaims buffers and drops \
             packets on all connections.",
        )
        .sysctl(sysctl, &format!("{least} {pressure} {most}"), &format!("{} {} {needed}", needed / 2, needed * 3 / 4))
}

fn buffers(host: &Host) -> Finding {
    let name = "socket buffers";
    let least = 64 << 10;
    let read = |name: &str| host.numbers(&format!("/proc/sys/net/ipv4/{name}")).and_then(|v| v.get(2).copied());
    let (Some(received), Some(sent)) = (read("tcp_rmem"), read("tcp_wmem")) else {
        return Finding::new(name, State::Unknown, "not told here", sized(least));
    };
    let state = if received.min(sent) >= least { State::Good } else { State::Short };
    let found = Finding::new(name, state, format!("{} in, {} out at most", sized(received), sized(sent)), sized(least))
        .because("What is sent to a client out of its log stops and goes if less than this fits.");
    let short = if received < least { ("tcp_rmem", received) } else { ("tcp_wmem", sent) };
    let before = host.text(&format!("/proc/sys/net/ipv4/{}", short.0)).unwrap_or_default();
    let before = before.split_whitespace().collect::<Vec<_>>().join(" ");
    found.sysctl(&format!("net.ipv4.{}", short.0), &before, &format!("4096 16384 {}", 4 << 20))
}

/// Ports of listeners that the kernel may use as ephemeral ports.
fn reserved(host: &Host, plan: &Plan) -> Finding {
    let (name, sysctl) = ("listeners' ports", "net.ipv4.ip_local_reserved_ports");
    let range = host.numbers("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let [low, high] = range[..] else {
        return Finding::new(name, State::Unknown, "the range of ports is not told here", "kept for the listeners");
    };
    let before = host.text("/proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    let kept = |port: u16| {
        before.split(',').any(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            matches!((from.trim().parse::<u16>(), to.trim().parse::<u16>()), (Ok(from), Ok(to)) if (from..=to).contains(&port))
        })
    };
    let open: Vec<u16> =
        plan.ports.iter().copied().filter(|port| (low..=high).contains(&u64::from(*port)) && !kept(*port)).collect();
    let text = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    if open.is_empty() {
        return Finding::new(name, State::Good, format!("outside of {low} to {high}, or reserved"), text(&plan.ports));
    }
    let value = if before.is_empty() { text(&open) } else { format!("{before},{}", text(&open)) };
    Finding::new(name, State::Short, format!("{} may be given to anybody's connection", text(&open)), "reserved")
        .because("If an outgoing connection has taken a listener's port, the server cannot start.")
        .sysctl(sysctl, &before, &value)
}

/// A proxy's ports for connections to the server.
fn ports(host: &Host, plan: &Plan) -> Finding {
    let name = "ports towards the server";
    let range = host.numbers("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let [low, high] = range[..] else {
        return Finding::new(name, State::Unknown, "the range of ports is not told here", grouped(plan.connections));
    };
    let each = (high + 1).saturating_sub(low).max(1);
    let widest = 65_000 - 1_024 + 1;
    let addresses = plan.connections.div_ceil(each);
    let state = if each >= widest || addresses <= 1 { State::Good } else { State::Short };
    let is = format!("{} for each address of the server: {} addresses", grouped(each), grouped(addresses));
    let needed = format!("{}: {} addresses", grouped(widest), grouped(plan.connections.div_ceil(widest)));
    Finding::new(name, state, is, needed)
        .because(
            "A proxy can use each of its ports once per address of the server. The server can \
             listen on several addresses (--c2s).",
        )
        .sysctl("net.ipv4.ip_local_port_range", &format!("{low} {high}"), "1024 65000")
}

/// Network cards whose packets are received by fewer cores than the host has.
fn cards(host: &Host) -> Vec<Finding> {
    let cores = host.names("/sys/devices/system/cpu").iter().filter(|name| is_core(name)).count();
    let mut found = Vec::new();
    // Physical cards have a device; loopback, bridges and tunnels have none.
    for card in host.names("/sys/class/net").iter().filter(|card| host.has(&format!("/sys/class/net/{card}/device"))) {
        let queues =
            host.names(&format!("/sys/class/net/{card}/queues")).into_iter().filter(|queue| queue.starts_with("rx-"));
        let queues: Vec<_> = queues.collect();
        let spread = queues.iter().any(|queue| {
            let mask = host.text(&format!("/sys/class/net/{card}/queues/{queue}/rps_cpus")).unwrap_or_default();
            mask.chars().any(|digit| !matches!(digit, '0' | ','))
        });
        let state = if queues.len() >= cores || spread { State::Good } else { State::Note };
        let is = format!("{card}: {} queues{}", queues.len(), if spread { ", spread over cores (RPS)" } else { "" });
        let mask = format!("{:x}", (1u128 << cores.min(127)) - 1);
        found.push(
            Finding::new("queues of the network card", state, is, format!("{cores}, as many as cores"))
                .because("One core handles all packets of a queue: with few queues that core saturates first.")
                .mend(
                    format!("ethtool -L {card} combined {cores}, or echo {mask} > /sys/class/net/{card}/queues/rx-0/rps_cpus"),
                    "the same in a unit that runs at start",
                ),
        );
    }
    found
}

/// Matches `cpu0`, but not `cpufreq`.
pub(super) fn is_core(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}
