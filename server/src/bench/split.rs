//! How the threads of shards spent their time, from `/proc`.

use std::fs;
use std::time::Duration;

/// The time of one thread. The remainder was sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    /// On a core, in user mode.
    pub(super) running: Duration,
    /// On a core, in the kernel.
    pub(super) in_system_calls: Duration,
    /// Runnable, waiting for a core.
    pub(super) waiting_for_a_core: Duration,
}

impl Spent {
    pub(super) fn since(self, before: Spent) -> Spent {
        Spent {
            running: self.running.saturating_sub(before.running),
            in_system_calls: self.in_system_calls.saturating_sub(before.in_system_calls),
            waiting_for_a_core: self.waiting_for_a_core.saturating_sub(before.waiting_for_a_core),
        }
    }
}

/// The times of each shard's thread in this process, by shard. The kernel counts user and system
/// time in ticks and their sum in nanoseconds: the sum is divided in the ratio of the ticks.
///
/// # Errors
/// The kernel does not provide these counts.
pub(super) fn of_shards() -> Result<Vec<Spent>, String> {
    let mut found = Vec::new();
    let tasks = fs::read_dir("/proc/self/task").map_err(|error| format!("/proc/self/task: {error}"))?;
    for task in tasks.flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let Some(shard) = read("comm").trim().strip_prefix("shard-").and_then(|n| n.parse::<usize>().ok()) else {
            continue;
        };
        found.push((shard, parse(&read("schedstat"), &read("stat")).ok_or("the kernel keeps no schedstat")?));
    }
    found.sort_by_key(|&(shard, _)| shard);
    Ok(found.into_iter().map(|(_, spent)| spent).collect())
}

/// See proc(5): `schedstat` has nanoseconds on a core and runnable; `stat` has ticks of user and
/// system time as fields 14 and 15, counted after the name, which is in parentheses and may contain
/// spaces.
fn parse(schedstat: &str, stat: &str) -> Option<Spent> {
    let mut nanos = schedstat.split_whitespace().map(|n| n.parse().ok());
    let (on_core, ready): (u64, u64) = (nanos.next()??, nanos.next()??);
    let mut ticks = stat.rsplit_once(')')?.1.split_whitespace().skip(11).map(|n| n.parse().ok());
    let (user, system): (u64, u64) = (ticks.next()??, ticks.next()??);
    let of_kernel = on_core as f64 * system as f64 / (user + system).max(1) as f64;
    Some(Spent {
        running: Duration::from_nanos(on_core.saturating_sub(of_kernel as u64)),
        in_system_calls: Duration::from_nanos(of_kernel as u64),
        waiting_for_a_core: Duration::from_nanos(ready),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_divided_as_the_ticks_are() {
        let stat = "77 (shard-1 (x) y) R 1 1 1 0 -1 0 0 0 0 0 30 10 0 0 20 0 1 0 0 0 0";
        let spent = parse("4000 500 9\n", stat).unwrap();
        let nanos = Duration::from_nanos;
        assert_eq!(spent, Spent { running: nanos(3000), in_system_calls: nanos(1000), waiting_for_a_core: nanos(500) });
        assert_eq!(parse("", stat), None);
        assert_eq!(parse("1 2 3", "77 (shard-1"), None);
    }

    #[test]
    fn a_thread_that_bears_the_name_of_a_shard_is_found() {
        let thread = std::thread::Builder::new().name("shard-7".into()).spawn(|| {
            let end = std::time::Instant::now() + Duration::from_millis(30);
            while std::time::Instant::now() < end {
                std::hint::spin_loop();
            }
            of_shards()
        });
        let spent = thread.unwrap().join().unwrap().unwrap();
        assert!(spent.iter().any(|s| s.running + s.in_system_calls > Duration::ZERO), "{spent:?}");
    }
}
