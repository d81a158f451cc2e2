//! Queues: their length, age, and rates in and out over 1, 10 and 100 seconds; and the backlog
//! watch, which reports every ten seconds which of them have a backlog and when it will be gone.
//!
//! This adds nothing to the path of a message: rates are derived here, once per second, from
//! counters and lengths that the shards maintain anyway.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use throng_engine::counters::{Counter, Counters};
use throng_recorder::clock::wall_ms;
use throng_recorder::recorder::Handle;
use throng_recorder::schema::{Field, Module};
use throng_recorder::table::{Source, Table};

use super::age::Age;

/// Time constants of the rates in seconds: after one, a change counts for two thirds.
const DECAYS_S: [f64; 3] = [1.0, 10.0, 100.0];

/// Samples between two looks of the watch.
const WATCH_SAMPLES: u32 = 10;

/// A kind of queue, one per shard.
struct Kind {
    name: &'static str,
    /// The counted things.
    unit: &'static str,
    length: fn(&Counters) -> &Counter,
    came: Option<fn(&Counters) -> &Counter>,
    went: Option<fn(&Counters) -> &Counter>,
    oldest: Oldest,
    /// A queue that never fell below this length since the last check has a backlog.
    backlog: u64,
}

/// How the age of the oldest element is determined.
#[derive(Clone, Copy)]
enum Oldest {
    /// First in, first out.
    FirstOut,
    /// By the time since the queue was empty: no element can be older.
    SinceEmpty,
    /// The shard reports it, in seconds.
    Told(fn(&Counters) -> &Counter),
}

/// A kind of first-in, first-out queue, one per shard, that shards' counters do not fully describe.
pub struct Lane {
    /// Its name.
    pub name: &'static str,
    /// The counted things.
    pub unit: &'static str,
    /// A queue that stays at or above this length has a backlog.
    pub backlog: u64,
    /// The numbers of arrivals at a shard's queue and of departures from it.
    pub counts: Box<dyn Fn(usize) -> (u64, u64) + Send>,
}

/// Reads a shard's queue of a kind: length, arrivals, departures.
type Read = Box<dyn Fn(usize) -> (u64, Option<u64>, Option<u64>) + Send>;

/// A kind as it is sampled.
struct Sampled {
    name: &'static str,
    unit: &'static str,
    oldest: Oldest,
    backlog: u64,
    read: Read,
}

/// All kinds: those that shards count, and the others.
fn sampled(counters: &[Arc<Counters>], lanes: Vec<Lane>) -> Vec<Sampled> {
    let of_shards = KINDS.iter().map(|kind| {
        let Kind { name, unit, length, came, went, oldest, backlog } = *kind;
        let counters = counters.to_vec();
        let read = move |shard: usize| {
            let told = |count: Option<fn(&Counters) -> &Counter>| count.map(|count| count(&counters[shard]).get());
            (length(&counters[shard]).get(), told(came), told(went))
        };
        Sampled { name, unit, oldest, backlog, read: Box::new(read) }
    });
    let others = lanes.into_iter().map(|Lane { name, unit, backlog, counts }| {
        let read = move |shard| {
            let (came, went) = counts(shard);
            (came.saturating_sub(went), Some(came), Some(went))
        };
        Sampled { name, unit, oldest: Oldest::FirstOut, backlog, read: Box::new(read) }
    });
    of_shards.chain(others).collect()
}

const KINDS: [Kind; 9] = [
    Kind {
        name: "gate",
        unit: "effects",
        length: |c| &c.gate_waiting,
        came: Some(|c| &c.gated),
        went: None,
        oldest: Oldest::FirstOut,
        backlog: 500,
    },
    Kind {
        name: "reads",
        unit: "reads",
        length: |c| &c.reads_pending,
        came: Some(|c| &c.reads),
        went: None,
        oldest: Oldest::FirstOut,
        backlog: 200,
    },
    Kind {
        name: "commits",
        unit: "batches",
        length: |c| &c.commits_waiting,
        came: Some(|c| &c.commits),
        went: None,
        oldest: Oldest::FirstOut,
        backlog: 50,
    },
    // The latest login is checked first.
    Kind {
        name: "jobs",
        unit: "jobs",
        length: |c| &c.jobs_pending,
        came: Some(|c| &c.jobs),
        went: None,
        oldest: Oldest::SinceEmpty,
        backlog: 50,
    },
    Kind {
        name: "outbound",
        unit: "bytes",
        length: |c| &c.outbound_bytes,
        came: None,
        went: Some(|c| &c.bytes_out),
        oldest: Oldest::Told(|c| &c.outbound_oldest_s),
        backlog: 1 << 20,
    },
    Kind {
        name: "parked",
        unit: "stanzas",
        length: |c| &c.parked,
        came: Some(|c| &c.parked_came),
        went: None,
        oldest: Oldest::FirstOut,
        backlog: 200,
    },
    kept("letters_kept", "batches", |c| &c.letters_kept),
    kept("reads_kept", "reads", |c| &c.reads_kept),
    kept("jobs_kept", "jobs", |c| &c.jobs_kept),
];

/// Elements that wait for room in the next queue, which is rare.
const fn kept(name: &'static str, unit: &'static str, length: fn(&Counters) -> &Counter) -> Kind {
    Kind { name, unit, length, came: None, went: None, oldest: Oldest::SinceEmpty, backlog: 1 }
}

/// One queue, of a shard or another owner.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    length: u64,
    /// Minimum length since the last check of the watch.
    least: u64,
    came: u64,
    went: u64,
    begun: bool,
    age: Age,
    /// Age of the oldest element, milliseconds.
    oldest_ms: u64,
    /// Arrivals per second, by each of [`DECAYS_S`].
    rate_in: [f64; 3],
    rate_out: [f64; 3],
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            length: 0,
            least: u64::MAX,
            came: 0,
            went: 0,
            begun: false,
            age: Age::default(),
            oldest_ms: 0,
            rate_in: [0.0; 3],
            rate_out: [0.0; 3],
        }
    }
}

impl Queue {
    /// Arrivals and departures are reported by the shard, or derived from one of them and the
    /// length. If neither is reported, growth counts as arrivals and shrinking as departures.
    pub(super) fn look(&mut self, length: u64, came: Option<u64>, went: Option<u64>, seconds: f64) {
        let grown = length as i64 - self.length as i64;
        let new_in = came.map(|all| all.wrapping_sub(self.came) as i64);
        let new_out = went.map(|all| all.wrapping_sub(self.went) as i64);
        let (new_in, new_out) = match (new_in, new_out) {
            (Some(new_in), Some(new_out)) => (new_in, new_out),
            (Some(new_in), None) => (new_in, new_in - grown),
            (None, Some(new_out)) => (new_out + grown, new_out),
            (None, None) => (grown.max(0), (-grown).max(0)),
        };
        if std::mem::replace(&mut self.begun, true) && seconds > 0.0 {
            for (at, decay_s) in DECAYS_S.iter().enumerate() {
                let weight = 1.0 - (-seconds / decay_s).exp();
                self.rate_in[at] += (new_in.max(0) as f64 / seconds - self.rate_in[at]) * weight;
                self.rate_out[at] += (new_out.max(0) as f64 / seconds - self.rate_out[at]) * weight;
            }
        }
        (self.length, self.came, self.went) = (length, came.unwrap_or(0), went.unwrap_or(0));
        self.least = self.least.min(length);
    }

    /// Seconds until the queue is empty at the rates of a time constant; `None` if it does not
    /// shrink.
    fn drained_s(&self, decay: usize) -> Option<f64> {
        let shrinks = self.rate_out[decay] - self.rate_in[decay];
        (shrinks > 0.0).then(|| self.length as f64 / shrinks)
    }

    /// Whether it shrinks, by the rates of the last ten seconds or of the last one. Either alone
    /// may be a fluctuation.
    pub(super) fn drains(&self) -> bool {
        self.drained_s(0).is_some() || self.drained_s(1).is_some()
    }

    /// Its length.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Seconds that a new arrival waits; `None` if nothing leaves the queue.
    fn delay_s(&self) -> Option<f64> {
        (self.rate_out[1] > 0.0).then(|| self.length as f64 / self.rate_out[1])
    }
}

/// Seconds as text; `never` for `None`.
struct Seconds(Option<f64>);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(seconds) => write!(f, "{seconds:.1}"),
            None => f.write_str("never"),
        }
    }
}

/// The report of a queue that has a backlog.
pub(super) struct Line<'a> {
    pub(super) queue: &'a str,
    pub(super) owner: &'a str,
    pub(super) unit: &'a str,
    pub(super) of: &'a Queue,
    /// A further sentence, if there is one.
    pub(super) more: Option<&'a str>,
}

impl Line<'_> {
    pub(super) fn tell(&self) {
        let Line { queue, owner, unit, of, more } = self;
        tracing::warn!(
            queue,
            %owner,
            length = of.length,
            unit,
            out_per_s = format_args!("{:.0}", of.rate_out[1]),
            fill_per_s = format_args!("{:.0}", of.rate_in[1] - of.rate_out[1]),
            delay_s = %Seconds(of.delay_s()),
            drained_1_s = %Seconds(of.drained_s(0)),
            drained_10_s = %Seconds(of.drained_s(1)),
            drained_100_s = %Seconds(of.drained_s(2)),
            more,
            "backlog"
        );
    }
}

/// All queues of all shards.
pub(super) struct Queues {
    counters: Vec<Arc<Counters>>,
    kinds: Vec<Sampled>,
    /// One row per kind, with one queue per shard.
    queues: Vec<Vec<Queue>>,
    began: Instant,
    looked: Instant,
    samples: u32,
    /// Where a queue that will not drain is marked, once there is a recorder.
    marks: Arc<OnceLock<Handle>>,
}

impl Queues {
    /// For these shards, in their order, and their lanes.
    pub(super) fn new(counters: Vec<Arc<Counters>>, lanes: Vec<Lane>, marks: Arc<OnceLock<Handle>>) -> Queues {
        let kinds = sampled(&counters, lanes);
        let queues = kinds.iter().map(|_| vec![Queue::default(); counters.len()]).collect();
        let now = Instant::now();
        Queues { counters, kinds, queues, began: now, looked: now, samples: 0, marks }
    }

    fn look(&mut self, seconds: f64, now_ms: u64) {
        for (kind, queues) in self.kinds.iter().zip(&mut self.queues) {
            for (shard, queue) in queues.iter_mut().enumerate() {
                let (length, came, went) = (kind.read)(shard);
                queue.look(length, came, went, seconds);
                queue.oldest_ms = match kind.oldest {
                    Oldest::FirstOut => queue.age.first_out(now_ms, queue.came, length),
                    Oldest::SinceEmpty => queue.age.since_empty(now_ms, length),
                    Oldest::Told(seconds) => seconds(&self.counters[shard]).get() * 1_000,
                };
            }
        }
        self.samples += 1;
        if self.samples.is_multiple_of(WATCH_SAMPLES) {
            self.watch();
        }
    }

    /// Logs a line for each queue that has had a backlog continuously since the last check.
    fn watch(&mut self) {
        for (kind, queues) in self.kinds.iter().zip(&mut self.queues) {
            for (shard, queue) in queues.iter_mut().enumerate() {
                let least = std::mem::replace(&mut queue.least, queue.length);
                if least < kind.backlog {
                    continue;
                }
                let owner = format!("shard {shard}");
                Line { queue: kind.name, owner: &owner, unit: kind.unit, of: queue, more: None }.tell();
                if !queue.drains()
                    && let Some(marks) = self.marks.get()
                {
                    let (length, unit, name) = (queue.length, kind.unit, kind.name);
                    marks.mark(
                        wall_ms(),
                        "backlog",
                        &format!("{name} of shard {shard}: {length} {unit}, will not drain"),
                    );
                }
            }
        }
    }
}

/// A rate with two decimal places.
fn rate(name: &'static str, help: &'static str) -> Field {
    Field::gauge(name, "/s", 8, help).per(100)
}

impl Source for Queues {
    fn modules(&self) -> Vec<Module> {
        let fields = vec![
            Field::gauge("length", "", 8, "Entries in all shards' queues of this kind; bytes for outbound."),
            Field::gauge("longest", "", 8, "Entries in the longest queue."),
            Field::gauge("busy", "", 6, "Queues that are not empty."),
            rate("in1", "Entries added, mean of about the last second."),
            rate("in10", "The same over the last ten seconds."),
            rate("in100", "The same over the last hundred seconds."),
            rate("out1", "Entries removed, mean of about the last second."),
            rate("out10", "The same over the last ten seconds."),
            rate("out100", "The same over the last hundred seconds."),
            Field::gauge(
                "delay",
                "ms",
                8,
                "Wait of a new entry in the queue where it is longest: length divided by rate of removal.",
            ),
            Field::gauge(
                "oldest",
                "ms",
                8,
                "Age of the oldest entry. For jobs and kept ones: time since the queue was empty. For outbound: of the oldest send, to the second.",
            ),
        ];
        let kinds = u16::try_from(self.kinds.len()).unwrap_or(u16::MAX);
        vec![
            Module::single("queue", "Queues of the shards, by kind.", fields).by(Cow::Borrowed("kind"), kinds),
            Module::single(
                "queues",
                "All queues except those in bytes.",
                vec![
                    Field::gauge("busy", "", 6, "Queues that are not empty."),
                    Field::gauge("longest", "", 8, "Entries in the longest queue."),
                    Field::gauge("sum", "", 8, "Entries in all of them."),
                ],
            ),
        ]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let now = Instant::now();
        let seconds = now.duration_since(std::mem::replace(&mut self.looked, now)).as_secs_f64();
        self.look(seconds, now.duration_since(self.began).as_millis() as u64);
        let mut all = [0; 3];
        for (kind, queues) in self.kinds.iter().zip(&self.queues) {
            let sum = |rates: fn(&Queue) -> &[f64; 3], at: usize| {
                (queues.iter().map(|queue| rates(queue)[at]).sum::<f64>() * 100.0) as u64
            };
            let busy = queues.iter().filter(|queue| queue.length > 0).count() as u64;
            let longest = queues.iter().map(|queue| queue.length).max().unwrap_or(0);
            let length = queues.iter().map(|queue| queue.length).sum::<u64>();
            let delay = queues.iter().filter_map(Queue::delay_s).fold(0.0, f64::max);
            if kind.unit != "bytes" {
                all = [all[0] + busy, all[1].max(longest), all[2] + length];
            }
            if let Some(row) = tables[0].row(kind.name.as_bytes()) {
                row[..3].copy_from_slice(&[length, longest, busy]);
                for at in 0..3 {
                    row[3 + at] = sum(|queue| &queue.rate_in, at);
                    row[6 + at] = sum(|queue| &queue.rate_out, at);
                }
                row[9] = (delay * 1e3) as u64;
                row[10] = queues.iter().map(|queue| queue.oldest_ms).max().unwrap_or(0);
            }
        }
        tables[1].only().copy_from_slice(&all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue after this many checks, one per second, with constant arrivals and departures.
    fn after(seconds: u64, length: u64, comes: u64, goes: u64) -> Queue {
        let mut queue = Queue::default();
        for second in 0..=seconds {
            let now = (length + comes * second).saturating_sub(goes * second);
            queue.look(now, Some(comes * second), None, 1.0);
        }
        queue
    }

    #[test]
    fn the_talks_example_drains_in_its_time() {
        // "600 k queued, 40 k/s out, 15 s delay": the arrivals are then such that it drains in 41
        // s.
        let comes = 40_000 - 600_000 / 41;
        let queue = after(300, 600_000 + 300 * (40_000 - comes), comes, 40_000);
        assert_eq!(queue.length, 600_000);
        assert!((queue.delay_s().expect("it goes out") - 15.0).abs() < 0.1, "{queue:?}");
        for decay in 0..3 {
            let drained = queue.drained_s(decay).expect("it shrinks");
            assert!((drained - 41.0).abs() < 3.0, "{drained}");
        }
    }

    #[test]
    fn a_queue_that_grows_never_drains() {
        let queue = after(60, 1_000, 500, 400);
        assert_eq!([0, 1, 2].map(|decay| queue.drained_s(decay)), [None; 3]);
        assert!((queue.rate_in[1] - 500.0).abs() < 2.0 && (queue.rate_out[1] - 400.0).abs() < 2.0, "{queue:?}");
    }

    #[test]
    fn short_rates_follow_at_once_and_long_ones_slowly() {
        let mut queue = after(300, 0, 100, 100);
        queue.look(0, Some(30_000 + 1_100), None, 1.0);
        assert!(queue.rate_in[0] > 600.0 && queue.rate_in[2] < 120.0, "{queue:?}");
    }

    #[test]
    fn a_backlog_that_will_not_drain_is_marked_with_its_owner() {
        let counters = vec![Arc::new(Counters::default()), Arc::new(Counters::default())];
        let marks = Arc::new(OnceLock::new());
        let sampler = throng_recorder::recorder::Sampler::new(Default::default(), Vec::new());
        let mut recorder = throng_recorder::recorder::Recorder::new(sampler, 1 << 16, None);
        marks.set(recorder.handle()).expect("the first");
        let mut queues = Queues::new(counters.clone(), Vec::new(), marks);
        for second in 1..=20 {
            counters[1].reads.set(1_000 * second);
            counters[1].reads_pending.set(900 * second);
            queues.look(1.0, 1_000 * second);
        }
        assert_eq!(
            queues.queues[1][1].oldest_ms, 17_999,
            "a tenth has gone, so the oldest came after two of twenty seconds"
        );
        recorder.tick(1_000, 1);
        let told = throng_recorder::read::items(&recorder.handle().recent());
        let texts: Vec<_> = told
            .into_iter()
            .filter_map(|item| if let throng_recorder::read::Item::Mark(mark) = item { Some(mark.text) } else { None })
            .collect();
        assert!(texts.iter().any(|text| text == "reads of shard 1: 18000 reads, will not drain"), "{texts:?}");
        assert!(!texts.iter().any(|text| text.contains("shard 0")), "{texts:?}");
    }
}
