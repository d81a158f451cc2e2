//! Where threads wait: waits that the threads themselves record (`waits`), counted during the
//! profile; time on and off a core, from the kernel; and for threads that record nothing, samples
//! of the kernel's view.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Run;
use crate::waits::kernel::{Task, tasks};
use crate::waits::{self, Count, Counting, Look, Pattern, Place, Stuck, Tally};

/// Interval between two samples.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Most threads looked up in the kernel per sample: each takes some ten microseconds.
const ASKED_MAX: usize = 256;

/// Most rows: those with the longest times are kept. An answer on the control socket has room for
/// as many.
const ROWS_MAX: usize = 2_000;

/// The waits at a place, over all threads with a name.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Name of the threads.
    pub thread: String,
    /// Number of threads with this name.
    pub threads: u64,
    /// The place; a function of the kernel if `sort` is `kernel`.
    pub place: String,
    /// `lock`, `rest`, `channel`, `sleep`, `sync`, `write`, `read`; `core` for time on a core or
    /// without one; `kernel` for samples.
    pub sort: String,
    /// Finished waits, time slices on a core, or samples.
    pub count: u64,
    /// Total milliseconds, waits in progress at the end included.
    pub total_ms: f64,
    /// Fraction of the time of all threads of this name, 0 to 1.
    pub share: f64,
    /// Mean of the finished waits, microseconds.
    pub mean_us: f64,
    /// The 99th percentile of the waits in microseconds, to a factor of four.
    pub p99_us: Option<f64>,
    /// The longest wait, microseconds.
    pub worst_us: Option<f64>,
    /// Minimum seconds that a thread has been at the place at the end; `None` if no thread is
    /// there.
    pub now_s: Option<f64>,
}

/// The result.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WaitPage {
    /// Duration of the profile in seconds.
    pub seconds: f64,
    /// Stalls at the end, the longest first.
    pub stuck: Vec<Stuck>,
    /// By thread, then the longest total first.
    pub rows: Vec<Row>,
    /// Number of rows left out.
    pub left_out: u64,
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Rows being collected, by thread name and place.
struct Rows {
    rows: HashMap<(String, String), Row>,
    /// Number of threads by name.
    threads: HashMap<String, u64>,
    pattern: Pattern,
}

impl Rows {
    /// The row, if it matches the filter.
    fn row(&mut self, thread: &str, place: &str, sort: &str) -> Option<&mut Row> {
        if !self.pattern.fits(thread) && !self.pattern.fits(place) {
            return None;
        }
        let new = || Row { thread: thread.into(), place: place.into(), sort: sort.into(), ..Row::default() };
        Some(self.rows.entry((thread.to_owned(), place.to_owned())).or_insert_with(new))
    }

    fn counted(&mut self, thread: &str, place: Place, all: &Count) {
        if all.count == 0 {
            return;
        }
        let Some(row) = self.row(thread, place.name(), place.sort().name()) else { return };
        row.count = all.count;
        row.total_ms = millis(all.total);
        row.mean_us = micros(all.total) / all.count as f64;
        row.p99_us = all.p99().map(micros);
        row.worst_us = Some(micros(all.worst));
    }

    /// Adds the threads at places at the end: unfinished waits are in the total as far as they were
    /// observed.
    fn now(&mut self, look: &Look, elapsed: Duration) {
        for standing in &look.threads {
            let Some(place) = standing.place else { continue };
            let Some(row) = self.row(&standing.thread, place.name(), place.sort().name()) else { continue };
            let longest = row.now_s.unwrap_or(0.0).max(standing.since.as_secs_f64());
            row.now_s = Some(longest);
            row.total_ms += millis(standing.since.min(elapsed));
        }
    }

    /// Adds time on and off a core.
    fn cores(&mut self, thread: &str, before: &Task, after: &Task) {
        let slices = after.slices.saturating_sub(before.slices);
        let of_time = [("on a core", after.ran, before.ran), ("wants a core", after.waited, before.waited)];
        for (place, now, then) in of_time {
            let spent = now.saturating_sub(then);
            if spent.is_zero() {
                continue;
            }
            let Some(row) = self.row(thread, place, "core") else { continue };
            row.count += slices;
            row.total_ms += millis(spent);
        }
    }

    /// Adds samples of a thread that records nothing.
    fn sampled(&mut self, thread: &str, place: &str, samples: u64, every: Duration) {
        let Some(row) = self.row(thread, place, "kernel") else { return };
        row.count += samples;
        row.total_ms += millis(every) * samples as f64;
    }

    /// Computes fractions and means, and sorts.
    fn finish(self, elapsed: Duration) -> (Vec<Row>, u64) {
        let mut rows: Vec<Row> = self.rows.into_values().filter(|row| row.count > 0 || row.now_s.is_some()).collect();
        for row in &mut rows {
            row.threads = self.threads.get(&row.thread).copied().unwrap_or(1);
            row.share = (row.total_ms / millis(elapsed) / row.threads as f64).min(1.0);
            if row.mean_us == 0.0 && row.count > 0 {
                row.mean_us = row.total_ms * 1e3 / row.count as f64;
            }
        }
        rows.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
        let left_out = rows.len().saturating_sub(ROWS_MAX) as u64;
        rows.truncate(ROWS_MAX);
        rows.sort_by(|a, b| a.thread.cmp(&b.thread).then(b.total_ms.total_cmp(&a.total_ms)));
        (rows, left_out)
    }
}

/// Samples from the kernel.
#[derive(Default)]
struct Sampled {
    /// By thread id and function.
    samples: HashMap<(i32, String), u64>,
    names: HashMap<i32, String>,
    /// The first figures of each thread.
    first: HashMap<i32, Task>,
    looks: u64,
}

impl Sampled {
    /// Samples threads that are at no place.
    fn look(&mut self, look: &Look, own: i32) {
        self.looks += 1;
        let told = |tid: &i32| look.threads.iter().any(|standing| standing.tid == *tid && standing.place.is_some());
        for tid in tasks().into_iter().filter(|tid| *tid != own && !told(tid)).take(ASKED_MAX) {
            let Some(task) = Task::of(tid) else { continue };
            let doing = match (task.state, &task.channel) {
                ('R', _) => None,
                ('S' | 'D' | 'I', Some(channel)) => Some(channel.clone()),
                ('S' | 'I', None) => Some("asleep".to_owned()),
                _ => Some(task.doing()),
            };
            if let Some(doing) = doing {
                *self.samples.entry((tid, doing)).or_default() += 1;
            }
            self.names.insert(tid, task.name);
        }
    }
}

/// Samples all threads except this one until the run is over.
pub(super) fn run(run: &Run, only: &str) -> WaitPage {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let began = Instant::now();
    let counting = Counting::start(Pattern::new(only));
    let before: HashMap<i32, Tally> = waits::tallies().into_iter().map(|tally| (tally.tid, tally)).collect();
    let mut sampled = Sampled::default();
    for tid in tasks() {
        sampled.first.extend(Task::of(tid).map(|task| (tid, task)));
    }
    run.begin();
    while !run.is_over() {
        std::thread::sleep(LOOK_EVERY.min(run.left()));
        sampled.look(&waits::look(), own);
        run.note(sampled.looks, 0);
    }
    // In this order, so that no wait counts both as finished and as in progress.
    let (after, look) = (waits::tallies(), waits::look());
    drop(counting);
    let elapsed = began.elapsed();
    let rows = found(&look, &before, &after, &sampled, elapsed, only, own);
    let (rows, left_out) = rows.finish(elapsed);
    WaitPage { seconds: elapsed.as_secs_f64(), stuck: waits::stuck(&look), rows, left_out }
}

/// Combines the counted waits, the kernel's figures for all threads, and the samples.
fn found(
    look: &Look,
    before: &HashMap<i32, Tally>,
    after: &[Tally],
    sampled: &Sampled,
    elapsed: Duration,
    only: &str,
    own: i32,
) -> Rows {
    let mut rows = Rows { rows: HashMap::new(), threads: HashMap::new(), pattern: Pattern::new(only) };
    let mut counts: HashMap<(&str, usize), Count> = HashMap::new();
    for tally in after.iter().filter(|tally| tally.tid != own) {
        for (place, count) in tally.counts.iter().enumerate() {
            let new = before.get(&tally.tid).map_or(*count, |before| count.since(&before.counts[place]));
            counts.entry((&*tally.thread, place)).or_default().add(&new);
        }
    }
    for ((thread, place), count) in &counts {
        rows.counted(thread, Place::ALL[*place], count);
    }
    rows.now(look, elapsed);
    let listed = |tid: i32| look.threads.iter().find(|standing| standing.tid == tid).map(|s| s.thread.to_string());
    for tid in tasks().into_iter().filter(|tid| *tid != own) {
        let Some(task) = Task::of(tid) else { continue };
        let name = listed(tid).unwrap_or_else(|| task.name.clone());
        *rows.threads.entry(name.clone()).or_default() += 1;
        // For a thread that started meanwhile, everything counts.
        let none = Task::default();
        rows.cores(&name, sampled.first.get(&tid).unwrap_or(&none), &task);
    }
    let every = elapsed / u32::try_from(sampled.looks.max(1)).unwrap_or(u32::MAX);
    for ((tid, doing), samples) in &sampled.samples {
        let name = listed(*tid).or_else(|| sampled.names.get(tid).cloned()).unwrap_or_default();
        rows.sampled(&name, doing, *samples, every);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    /// A busy machine starts threads late and lets them run seldom: the figures are true of a page
    /// in the end, and what has to hold of every page is checked of that one.
    #[test]
    fn what_threads_tell_and_what_the_kernel_knows_stand_side_by_side() {
        let (end, ended) = sync_channel::<()>(0);
        let told = waits::spawn("test-profile-1", move || {
            while ended.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                let _at = waits::at(Place::TableRoom);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        let (silent_end, silent_ended) = sync_channel::<()>(0);
        let silent = std::thread::Builder::new().name("test-silent".into()).spawn(move || silent_ended.recv());
        let row = |page: &WaitPage, thread: &str, sort: &str| {
            page.rows.iter().find(|row| row.thread == thread && row.sort == sort).cloned()
        };
        let both = |page: WaitPage| {
            let waited = row(&page, "test-profile-1", "sleep").filter(|row| row.count > 5 && row.share > 0.5)?;
            row(&page, "test-silent", "kernel").filter(|row| row.share > 0.5)?;
            Some((page, waited))
        };
        let (page, waited) =
            (0..60).find_map(|_| both(run(&Run::new(1), "test-*"))).expect("both threads wait for most of a second");
        drop((end, silent_end));
        told.expect("a thread").join().expect("it ends");
        assert!(silent.expect("a thread").join().expect("it ends").is_err());
        assert_eq!((&*waited.place, waited.threads), ("table room", 1));
        assert!(waited.share <= 1.0 && waited.mean_us >= 3_000.0 && waited.worst_us >= waited.p99_us, "{waited:?}");
        assert!(page.rows.iter().all(|row| row.thread.starts_with("test-")), "{:?}", page.rows);
    }
}
