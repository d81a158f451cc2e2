//! What the service manager sees of a running server: its state in one line, and signs of life
//! while all shards turn.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::control::Running;
use crate::admin::wrong::Weight;
use crate::admin::{Control, Status};
use crate::cli::Failure;
use crate::service::{Manager, Sockets};
use crate::waits;

/// Time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Signs of life per period of the watchdog: one may be late.
const SIGNS: u32 = 4;
/// A shard that has not turned for this long is in the line. A loop never sleeps longer than a
/// quarter of a second.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The turns of each shard.
#[derive(Default)]
struct Turns {
    /// The count, when it last changed, and the count at the last sign of life.
    shards: Vec<(u64, Instant, u64)>,
}

impl Turns {
    /// Notes the counts. Returns whether all shards have turned since this was last so.
    fn all_turned(&mut self, counts: impl Iterator<Item = u64>, now: Instant) -> bool {
        for (shard, count) in counts.enumerate() {
            match self.shards.get_mut(shard) {
                Some((seen, _, _)) if *seen == count => {}
                Some((seen, since, _)) => (*seen, *since) = (count, now),
                None => self.shards.push((count, now, count)),
            }
        }
        let all = self.shards.iter().all(|(seen, _, at_sign)| seen != at_sign);
        if all {
            self.shards.iter_mut().for_each(|(seen, _, at_sign)| *at_sign = *seen);
        }
        all
    }

    /// Shards that do not turn, and for how long.
    fn stuck(&self, now: Instant) -> impl Iterator<Item = (usize, Duration)> {
        let idle =
            self.shards.iter().enumerate().map(move |(shard, (_, since, _))| (shard, now.duration_since(*since)));
        idle.filter(|(_, idle)| *idle >= STUCK_AFTER)
    }
}

/// The service manager that the environment names.
///
/// # Errors
/// The environment is wrong.
pub(super) fn manager() -> Result<Arc<Manager>, Failure> {
    let manager = Manager::of(|name| std::env::var_os(name));
    manager.map(Arc::new).map_err(|error| Failure::failed(format!("NOTIFY_SOCKET: {error}")))
}

/// The sockets that it has opened.
///
/// # Errors
/// The environment is wrong.
pub(super) fn sockets() -> Result<Sockets, Failure> {
    Sockets::take(|name| std::env::var_os(name)).map_err(Failure::failed)
}

/// Starts the thread; `None` without a manager.
///
/// # Errors
/// The thread cannot be created.
pub(super) fn start(manager: Arc<Manager>, running: Arc<Running>) -> io::Result<Option<waits::Repeated>> {
    if !manager.is_there() {
        return Ok(None);
    }
    let every = manager.watchdog().map_or(LINE_EVERY, |watchdog| LINE_EVERY.min(watchdog / SIGNS));
    let (mut turns, mut last) = (Turns::default(), String::new());
    let thread = waits::repeat("service", every, move || {
        let now = Instant::now();
        if turns.all_turned(running.counters().iter().map(|counters| counters.turns.get()), now) {
            manager.alive();
        }
        let line = line(&Control::status(&*running), turns.stuck(now));
        if line != last {
            manager.status(&line);
            last = line;
        }
    })?;
    Ok(Some(thread))
}

/// The state in one line.
pub(super) fn line(status: &Status, stuck: impl Iterator<Item = (usize, Duration)>) -> String {
    let mut line = format!("{}: {} sessions, {} connections", status.domain, status.sessions, status.connections);
    for (shard, idle) in stuck {
        line += &format!("; shard {shard} has made no progress for {} s", idle.as_secs());
    }
    for found in status.wrong().into_iter().filter(|found| found.wrong.weight == Weight::Bad) {
        line += &format!("; {} {}", found.wrong.what, found.wrong.text);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_needs_a_turn_of_each_shard() {
        let (mut turns, began) = (Turns::default(), Instant::now());
        let mut look = |counts: [u64; 2], s| turns.all_turned(counts.into_iter(), began + Duration::from_secs(s));
        assert!(!look([1, 1], 0), "nothing is known yet");
        assert!(look([2, 2], 1));
        assert!(!look([3, 2], 2), "one stands still");
        assert!(!look([3, 2], 3));
        assert!(look([3, 5], 4), "the other has turned before");
        assert!(!look([3, 6], 7));
        let stuck: Vec<_> = turns.stuck(began + Duration::from_secs(7)).collect();
        assert_eq!(stuck, [(0, Duration::from_secs(5))]);
    }
}
