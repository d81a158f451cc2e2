//! Pinning of shards to cores.
//!
//! The kernel places shards, unless `shards_on_cores` is set: then each shard stays on a core of
//! its own, provided that there is one for each. Under an attack that keeps all cores busy, two
//! shards that wake each other by letters often share a core and wait for each other, while the
//! other core runs threads with no urgent work (`docs/decisions/0008-latency.md`). With fewer
//! shards than cores the kernel finds idle cores itself, and several servers on one host would all
//! take the first ones.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Number of cores available to the process: those of its affinity mask, or fewer by the quota of
/// its control group.
pub(super) fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The core of each shard, if the process has exactly one core per shard.
pub(super) fn of_shards(shards: u16) -> Option<Vec<usize>> {
    // A quota is not a set of cores: it is unknown which of the host's cores it means.
    let allowed = sched_getaffinity(None).ok()?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    (cores.len() == usize::from(shards)).then_some(cores)
}

/// Pins the calling thread to this core. If that is refused, the kernel continues to place it.
pub(super) fn stay_on(core: usize) {
    let mut only = CpuSet::new();
    only.set(core);
    if let Err(error) = sched_setaffinity(None, &only) {
        tracing::debug!(core, %error, "a shard is not kept on its core");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_a_core_of_its_own_or_none_has() {
        let allowed = sched_getaffinity(None).expect("the kernel tells");
        let shards = u16::try_from(allowed.count()).expect("not that many");
        let cores = of_shards(shards).expect("as many shards as cores");
        assert!(cores.iter().all(|core| allowed.is_set(*core)) && cores.is_sorted_by(|one, other| one < other));
        assert_eq!((of_shards(shards + 1), of_shards(shards - 1)), (None, None));

        let core = cores[0];
        let stays = std::thread::spawn(move || (stay_on(core), sched_getaffinity(None)).1).join().expect("it ends");
        let stays = stays.expect("the kernel tells");
        assert!(stays.count() == 1 && stays.is_set(core));
        assert_eq!(sched_getaffinity(None).expect("the kernel tells"), allowed, "others stay where they may be");
    }
}
