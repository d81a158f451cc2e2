//! Reports what is stuck, in words: threads that do not leave a place, and locks that are held.

use serde::{Deserialize, Serialize};

use super::kernel::Task;
use super::look::{Look, Standing};
use super::place::{LOCKS, Place, Sort};

/// A lock that a thread holds for this many seconds while it is at no place is reported, even
/// without waiters.
const HELD_S: u64 = 2;

/// A stuck thread or lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stuck {
    /// Its name, such as `shard-1` or `lock knobs`.
    pub what: String,
    /// For how long, at least.
    pub seconds: u64,
    /// What the thread does or which thread holds the lock; to be read after `what`.
    pub text: String,
    /// For a lock, its holder, if known.
    pub holder: Option<String>,
    /// For a lock, the number of waiters.
    pub waiters: u64,
}

/// Where a thread is stuck; to be read after its name.
pub fn standing(look: &Look, standing: &Standing) -> String {
    let seconds = standing.since.as_secs();
    match standing.place {
        Some(place) if place.sort() == Sort::Lock => {
            let holders = names(look, |other| held(other, place).is_some() && other.tid != standing.tid);
            let holders = if holders.is_empty() { "an unknown thread".to_owned() } else { holders };
            format!("has waited {} for {seconds} s: `{}` is held by {holders}", place.help(), place.name())
        }
        Some(place) => {
            let stopped = Task::of(standing.tid).filter(Task::is_stopped).map(|task| format!(", and {}", task.doing()));
            let (stopped, place, waits) = (stopped.unwrap_or_default(), place.name(), place.help());
            format!("has been at `{place}` for {seconds} s: it waits {waits}{stopped}")
        }
        None => {
            let doing = Task::of(standing.tid).map_or_else(|| "has ended".to_owned(), |task| task.doing());
            format!("has been at no known place for {seconds} s: it {doing}")
        }
    }
}

/// For how many seconds a thread has held a lock, if it does.
fn held(standing: &Standing, lock: Place) -> Option<u64> {
    standing.holds.iter().find(|(place, _)| *place == lock).map(|(_, since)| since.as_secs())
}

/// Names of threads, separated by commas.
fn names(look: &Look, are: impl Fn(&Standing) -> bool) -> String {
    let mut names: Vec<_> =
        look.threads.iter().filter(|standing| are(standing)).map(|s| format!("`{}`", s.thread)).collect();
    names.dedup();
    names.join(", ")
}

/// A lock, if a thread has waited for it too long, or holds it for long without being at any place.
fn lock(look: &Look, place: Place) -> Option<Stuck> {
    let waits = |standing: &&Standing| standing.place == Some(place) && standing.is_stuck();
    let waited = look.threads.iter().filter(waits).map(|standing| standing.since.as_secs()).max();
    let holders = look.threads.iter().filter_map(|standing| held(standing, place).map(|seconds| (standing, seconds)));
    let holder = holders.max_by_key(|(_, seconds)| *seconds);
    let idle = holder.filter(|(standing, seconds)| *seconds >= HELD_S && standing.place.is_none());
    if waited.is_none() && idle.is_none() {
        return None;
    }
    let mut text = match holder {
        Some((holder, seconds)) => {
            let doing = match holder.place {
                Some(at) => format!("is at `{}`", at.name()),
                None => Task::of(holder.tid).map_or_else(|| "has ended".to_owned(), |task| task.doing()),
            };
            format!("has been held by `{}` for {seconds} s, which {doing}", holder.thread)
        }
        None => "is held by an unknown thread".to_owned(),
    };
    if let Some(seconds) = waited {
        let waiters = names(look, |standing| standing.place == Some(place));
        text += &format!("; waiting for up to {seconds} s: {waiters}");
    }
    let seconds = holder.map_or(0, |(_, seconds)| seconds).max(waited.unwrap_or(0));
    let waiters = look.threads.iter().filter(|standing| standing.place == Some(place)).count() as u64;
    let holder = holder.map(|(holder, _)| holder.thread.to_string());
    Some(Stuck { what: place.name().to_owned(), seconds, text, holder, waiters })
}

/// Everything that is stuck, the longest first.
pub fn stuck(look: &Look) -> Vec<Stuck> {
    let thread = |standing: &Standing| Stuck {
        what: standing.thread.to_string(),
        seconds: standing.since.as_secs(),
        text: self::standing(look, standing),
        holder: None,
        waiters: 0,
    };
    let mut all: Vec<Stuck> = look.threads.iter().filter(|standing| standing.is_stuck()).map(thread).collect();
    all.extend(locks(look));
    all.sort_by_key(|stuck| std::cmp::Reverse(stuck.seconds));
    all
}

/// Locks that are stuck.
pub fn locks(look: &Look) -> impl Iterator<Item = Stuck> {
    Place::ALL[..LOCKS].iter().filter_map(|place| lock(look, *place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn thread(name: &str, place: Option<Place>, seconds: u64, holds: &[(Place, u64)]) -> Standing {
        let holds = holds.iter().map(|(place, seconds)| (*place, Duration::from_secs(*seconds))).collect();
        let since = Duration::from_secs(seconds);
        // No thread has such an id, so the kernel reports nothing about it.
        let tid = i32::MAX - name.bytes().map(i32::from).sum::<i32>();
        Standing { thread: name.into(), tid, place, since, turns: name.starts_with("shard"), holds }
    }

    fn told(threads: &[Standing]) -> Vec<(String, String)> {
        let look = Look { threads: threads.to_vec(), ..Look::default() };
        stuck(&look).into_iter().map(|stuck| (stuck.what, stuck.text)).collect()
    }

    #[test]
    fn who_rests_is_not_stuck_and_who_comes_round_no_more_is() {
        let at_rest = [
            thread("throng-commit", Some(Place::Batches), 3_600, &[]),
            thread("shard-0", Some(Place::Network), 0, &[]),
            thread("http", None, 3_600, &[]),
        ];
        assert_eq!(told(&at_rest), []);
        let asleep = [thread("shard-0", None, 9, &[]), thread("throng-commit", Some(Place::JournalSync), 3, &[])];
        let told = told(&asleep);
        assert_eq!(told[0], ("shard-0".to_owned(), "has been at no known place for 9 s: it has ended".to_owned()));
        assert!(told[1].1.starts_with("has been at `journal sync` for 3 s: it waits until the device"), "{told:?}");
    }

    #[test]
    fn a_lock_is_named_with_its_holder_and_who_waits() {
        let threads = [
            thread("plant", None, 12, &[(Place::LockKnobs, 12)]),
            thread("admin", Some(Place::LockKnobs), 10, &[]),
            thread("retention", Some(Place::LockKnobs), 0, &[]),
        ];
        let told = told(&threads);
        let lock = "has been held by `plant` for 12 s, which has ended; waiting for up to 10 s: `admin`, `retention`";
        assert_eq!(told[0], ("lock knobs".to_owned(), lock.to_owned()));
        let waits = "has waited to read or set the knobs for 10 s: `lock knobs` is held by `plant`";
        assert_eq!(told[1], ("admin".to_owned(), waits.to_owned()));
    }

    #[test]
    fn a_lock_that_is_held_for_work_and_that_nobody_waits_for_is_as_it_should_be() {
        let work = thread("throng-flush", Some(Place::TableWrite), 20, &[(Place::LockRows, 20)]);
        assert_eq!(told(std::slice::from_ref(&work)), []);
        let told = told(&[work, thread("throng-commit", Some(Place::LockRows), 3, &[])]);
        let lock = "has been held by `throng-flush` for 20 s, which is at `table write`; waiting for up to 3 s: `throng-commit`";
        assert_eq!(told[0], ("lock rows".to_owned(), lock.to_owned()));
    }
}
