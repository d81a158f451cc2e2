//! Stalls planted by hand, for tests that want to see them named. Only in builds with debug assertions: a release has none of
//! this, and the variable means nothing to it.
//!
//! `PLANTED_STALLS` has faults with commas between:
//!
//! ```text
//! sync-ms=200                  each sync of the journal takes so much longer
//! sleep-shard=1:30s@3s         shard 1 sleeps for 30 seconds, 3 seconds after the start
//! hold-lock=knobs:30s@3s       a thread `plant` holds the lock for so long, from then on
//! ```

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The variable.
const VARIABLE: &str = "PLANTED_STALLS";

/// For how long, and how long after the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When {
    /// From then on.
    pub after: Duration,
    /// For so long.
    pub lasts: Duration,
}

/// What is planted.
#[derive(Debug, Default)]
pub struct Plan {
    sync: Duration,
    shard: Option<(usize, When)>,
    lock: Option<(String, When)>,
}

impl Plan {
    /// Reads the variable's value.
    ///
    /// # Errors
    /// The fault that cannot be understood.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let mut plan = Plan::default();
        for fault in text.split(',').filter(|fault| !fault.is_empty()) {
            let wrong = || format!("{VARIABLE}: {fault} is no fault");
            let (name, value) = fault.split_once('=').ok_or_else(wrong)?;
            match name {
                "sync-ms" => plan.sync = Duration::from_millis(value.parse().map_err(|_| wrong())?),
                "sleep-shard" => {
                    let (shard, when) = when(value).ok_or_else(wrong)?;
                    plan.shard = Some((shard.parse().map_err(|_| wrong())?, when));
                }
                "hold-lock" => {
                    let (lock, when) = when(value).ok_or_else(wrong)?;
                    plan.lock = Some((lock.to_owned(), when));
                }
                _ => return Err(wrong()),
            }
        }
        Ok(plan)
    }
}

/// `WHAT:30s@3s`.
fn when(text: &str) -> Option<(&str, When)> {
    let (what, times) = text.split_once(':')?;
    let (lasts, after) = times.split_once('@')?;
    let seconds = |text: &str| Some(Duration::from_secs(text.strip_suffix('s')?.parse().ok()?));
    Some((what, When { after: seconds(after)?, lasts: seconds(lasts)? }))
}

struct Planted {
    plan: Plan,
    started: Instant,
    slept: AtomicBool,
}

static PLANTED: OnceLock<Planted> = OnceLock::new();

/// Plants what the environment says. Returns the lock that is to be held, if there is one.
///
/// # Errors
/// See [`Plan::parse`].
pub fn start() -> Result<Option<(String, When)>, String> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(None) };
    let plan = Plan::parse(&text)?;
    tracing::warn!(%text, "stalls are planted");
    let lock = plan.lock.clone();
    let _ = PLANTED.set(Planted { plan, started: Instant::now(), slept: AtomicBool::new(false) });
    Ok(lock)
}

/// Called before each sync of the journal.
pub fn before_sync() {
    if let Some(planted) = PLANTED.get() {
        std::thread::sleep(planted.plan.sync);
    }
}

/// Called in each turn of a shard.
pub fn in_turn(shard: usize) {
    let Some(Planted { plan: Plan { shard: Some((which, when)), .. }, started, slept }) = PLANTED.get() else { return };
    if *which == shard && started.elapsed() >= when.after && !slept.swap(true, Ordering::Relaxed) {
        std::thread::sleep(when.lasts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_what_is_none_is_refused() {
        let plan = Plan::parse("sync-ms=200,sleep-shard=1:30s@3s,hold-lock=knobs:9s@0s").expect("three faults");
        let when = |after, lasts| When { after: Duration::from_secs(after), lasts: Duration::from_secs(lasts) };
        assert_eq!(plan.sync, Duration::from_millis(200));
        assert_eq!((plan.shard, plan.lock), (Some((1, when(3, 30))), Some(("knobs".to_owned(), when(0, 9)))));
        for wrong in ["sync", "sync-ms=x", "sleep-shard=1", "sleep-shard=1:3@3s", "flood=1"] {
            assert!(Plan::parse(wrong).is_err(), "{wrong}");
        }
    }
}
