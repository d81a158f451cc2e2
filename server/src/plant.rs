//! Fault injection for tests: stalls, panics, a full disk. Only in builds with debug assertions: a
//! release contains none of this and ignores the variable.
//!
//! `PLANTED_STALLS` lists faults, separated by commas:
//!
//! ```text
//! sync-ms=200                  each sync of the journal takes this much longer
//! sleep-shard=1:30s@3s         shard 1 sleeps for 30 s, 3 s after the start
//! hold-lock=knobs:30s@3s       a thread `plant` holds the lock for 30 s, 3 s after the start
//! stop-disk=30s@3s             syncs of the journal block for 30 s, 3 s after the start
//! full-disk=30s@3s             the journal finds no space for 30 s, 3 s after the start
//! panic=shard-1@3s             the first thread that passes a place of this name panics, once
//! fail-driver=1@3s             the driver of shard 1 fails
//! wall=FILE                    the wall clock is ahead by the seconds in the file, behind if they are
//!                              negative; read at the start and every second
//! echo=on                      no fault: `/echo` at http and https echoes WebSocket messages, for
//!                              suites that test frames
//! ```
//!
//! All times count from the end of the server's start. The names of places are given in the code
//! that calls [`pass`].

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The environment variable.
const VARIABLE: &str = "PLANTED_STALLS";

/// A time range after the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct When {
    /// The beginning.
    pub after: Duration,
    /// The duration.
    pub lasts: Duration,
}

/// The planned faults.
#[derive(Debug, Default)]
pub struct Plan {
    sync: Duration,
    shard: Option<(usize, When)>,
    lock: Option<(String, When)>,
    disk_stops: Option<When>,
    disk_full: Option<When>,
    panic: Option<(String, Duration)>,
    driver: Option<(usize, Duration)>,
    wall: Option<PathBuf>,
    echo: bool,
}

impl Plan {
    /// Parses the value of the variable.
    ///
    /// # Errors
    /// The fault that cannot be parsed.
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
                "stop-disk" => plan.disk_stops = Some(times(value).ok_or_else(wrong)?),
                "full-disk" => plan.disk_full = Some(times(value).ok_or_else(wrong)?),
                "panic" => {
                    let (place, after) = value.split_once('@').ok_or_else(wrong)?;
                    plan.panic = Some((place.to_owned(), seconds(after).ok_or_else(wrong)?));
                }
                "fail-driver" => {
                    let (shard, after) = value.split_once('@').ok_or_else(wrong)?;
                    let shard = shard.parse().map_err(|_| wrong())?;
                    plan.driver = Some((shard, seconds(after).ok_or_else(wrong)?));
                }
                "wall" => plan.wall = Some(value.into()),
                "echo" if value == "on" => plan.echo = true,
                _ => return Err(wrong()),
            }
        }
        Ok(plan)
    }
}

/// Parses `30s`.
fn seconds(text: &str) -> Option<Duration> {
    Some(Duration::from_secs(text.strip_suffix('s')?.parse().ok()?))
}

/// Parses `30s@3s`.
fn times(text: &str) -> Option<When> {
    let (lasts, after) = text.split_once('@')?;
    Some(When { after: seconds(after)?, lasts: seconds(lasts)? })
}

/// Parses `WHAT:30s@3s`.
fn when(text: &str) -> Option<(&str, When)> {
    let (what, text) = text.split_once(':')?;
    Some((what, times(text)?))
}

struct Planted {
    plan: Plan,
    started: Instant,
    slept: AtomicBool,
    panicked: AtomicBool,
}

impl Planted {
    /// The remaining part of a time range.
    fn rest(&self, when: Option<When>) -> Option<Duration> {
        let (When { after, lasts }, now) = (when?, self.started.elapsed());
        (now >= after).then(|| (after + lasts).saturating_sub(now)).filter(|rest| !rest.is_zero())
    }
}

static PLANTED: OnceLock<Planted> = OnceLock::new();

/// Plants the faults of the environment. Returns the lock to be held, if any.
///
/// # Errors
/// See [`Plan::parse`].
pub fn start() -> Result<Option<(String, When)>, String> {
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(None) };
    let plan = Plan::parse(&text)?;
    tracing::warn!(%text, "faults are planted");
    let lock = plan.lock.clone();
    let (slept, panicked) = (AtomicBool::new(false), AtomicBool::new(false));
    let _ = PLANTED.set(Planted { plan, started: Instant::now(), slept, panicked });
    set_wall();
    Ok(lock)
}

/// Called before each read of the wall clock: sets it from its file, if there is a readable one.
pub fn set_wall() {
    let file = PLANTED.get().and_then(|planted| planted.plan.wall.as_deref());
    let ahead_s = file.and_then(|file| std::fs::read_to_string(file).ok()?.trim().parse::<i64>().ok());
    if let Some(ahead_s) = ahead_s {
        throng_recorder::clock::plant_wall(ahead_s * 1_000_000);
    }
}

/// Whether to serve an echo of WebSockets.
pub fn echoes() -> bool {
    PLANTED.get().is_some_and(|planted| planted.plan.echo)
}

/// Called before each sync of the journal.
pub fn before_sync() {
    if let Some(planted) = PLANTED.get() {
        std::thread::sleep(planted.plan.sync);
        if let Some(rest) = planted.rest(planted.plan.disk_stops) {
            std::thread::sleep(rest);
        }
    }
}

/// Called before each group of writes: whether the disk counts as full.
pub fn is_disk_full() -> bool {
    PLANTED.get().is_some_and(|planted| planted.rest(planted.plan.disk_full).is_some())
}

/// Called where a kind of thread passes repeatedly or does its work. Names are those of threads,
/// followed by the activity if a thread has several: `http`, `http request`.
pub fn pass(place: &str) {
    let Some(Planted { plan: Plan { panic: Some((which, after)), .. }, started, panicked, .. }) = PLANTED.get() else {
        return;
    };
    if which == place && started.elapsed() >= *after && !panicked.swap(true, Ordering::Relaxed) {
        panic!("planted in {place}");
    }
}

/// Called in each turn of a shard: the driver's failure.
///
/// # Errors
/// The planted one.
pub fn driver(shard: usize) -> std::io::Result<()> {
    let Some(Planted { plan: Plan { driver: Some((which, after)), .. }, started, .. }) = PLANTED.get() else {
        return Ok(());
    };
    if *which == shard && started.elapsed() >= *after {
        return Err(std::io::Error::other("planted"));
    }
    Ok(())
}

/// Called in each turn of a shard.
pub fn in_turn(shard: usize) {
    if PLANTED.get().is_some_and(|planted| planted.plan.panic.is_some()) {
        pass(&format!("shard-{shard}"));
    }
    let Some(Planted { plan: Plan { shard: Some((which, when)), .. }, started, slept, .. }) = PLANTED.get() else {
        return;
    };
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
        let text = "stop-disk=9s@1s,full-disk=8s@2s,panic=http request@1s,fail-driver=1@0s,wall=/tmp/wall,echo=on";
        let plan = Plan::parse(text).expect("five faults, and an echo");
        assert!(plan.echo);
        assert_eq!(plan.wall, Some("/tmp/wall".into()));
        assert_eq!((plan.disk_stops, plan.disk_full), (Some(when(1, 9)), Some(when(2, 8))));
        assert_eq!(plan.panic, Some(("http request".to_owned(), Duration::from_secs(1))));
        assert_eq!(plan.driver, Some((1, Duration::ZERO)));
        for wrong in ["sync", "sync-ms=x", "sleep-shard=1", "sleep-shard=1:3@3s", "flood=1", "panic=shard-1", "echo=1"]
        {
            assert!(Plan::parse(wrong).is_err(), "{wrong}");
        }
    }
}
