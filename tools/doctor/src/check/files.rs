//! Descriptors, open files, and whether io_uring provides connections without descriptors.

use crate::finding::{Finding, State, grouped};
use crate::host::Host;
use crate::need;
use crate::plan::{Driver, Plan};

/// Checks the limits on open files.
pub(super) fn check(host: &Host, plan: &Plan) -> Vec<Finding> {
    let uring = host.uring();
    let direct = match plan.driver {
        Driver::Epoll => false,
        Driver::Uring => true,
        Driver::Auto => uring.is_ok(),
    };
    let needed = if direct {
        // The limit also bounds a table of connections.
        (plan.connections / need::TABLES_MAX).clamp(2_048, need::TABLE_SLOTS_MAX) + need::DESCRIPTORS_ASIDE
    } else {
        plan.connections + need::DESCRIPTORS_ASIDE
    };
    let mut found = vec![ring(host, plan), descriptors(host, needed, direct)];
    let ceiling = super::at_least(host, "descriptors a process may be given", "fs.nr_open", needed);
    found.push(ceiling.because("No process can be given a higher limit on descriptors than this."));
    let files = super::at_least(host, "open files of the host", "fs.file-max", plan.sockets() + need::FILES_ASIDE);
    found.push(files.because(
        "Each connection is an open file in the kernel, also with io_uring; beyond this limit none \
         can be opened.",
    ));
    found
}

fn ring(host: &Host, plan: &Plan) -> Finding {
    let name = "io_uring";
    let disabled = host.number("/proc/sys/kernel/io_uring_disabled").unwrap_or(0);
    match host.uring() {
        Ok(()) => Finding::new(name, State::Good, "works here", "Linux 6.7 or later"),
        Err(_) if plan.driver == Driver::Epoll => {
            Finding::new(name, State::Good, "not available", "not needed with epoll")
        }
        Err(why) => {
            // The server falls back to epoll by itself, unless it was told not to.
            let state = if plan.driver == Driver::Uring { State::Short } else { State::Note };
            let found = Finding::new(name, state, why, "Linux 6.7 or later").because(
                "Without it the server uses epoll: one descriptor per connection, and more system \
                 calls per message.",
            );
            match disabled {
                0 => found.mend("", "a newer kernel, or a container whose seccomp profile allows io_uring"),
                _ => found.sysctl("kernel.io_uring_disabled", &disabled.to_string(), "0"),
            }
        }
    }
}

fn descriptors(host: &Host, needed: u64, direct: bool) -> Finding {
    let name = "descriptors of the server";
    let limits = host.text("/proc/self/limits").unwrap_or_default();
    let hard = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().nth(1)?.parse::<u64>().ok());
    let Some(hard) = hard else {
        return Finding::new(name, State::Unknown, "limits are not told here", grouped(needed));
    };
    let state = if hard >= needed { State::Good } else { State::Short };
    let why = if direct {
        "With io_uring connections take no descriptors, but this limit bounds the size of a \
         connection table: a lower limit means more tables."
    } else {
        "With epoll each connection takes one; beyond the limit clients wait to be accepted."
    };
    Finding::new(name, state, format!("{} may be had", grouped(hard)), grouped(needed)).because(why).mend(
        format!("ulimit -n {needed}   as root, in the shell that starts the server"),
        format!("LimitNOFILE={needed}   in the [Service] part of its systemd unit"),
    )
}
