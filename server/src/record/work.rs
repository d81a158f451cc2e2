//! Work that threads other than shards count, such as commits: their tables of counters, and the
//! longest duration in the last interval, from buckets with a width of an eighth.

use std::borrow::Cow;
use std::sync::Arc;

use throng_engine::counters::{Counted, CounterKind, Latencies, Row};
use throng_recorder::schema::{Field, Kind, Module};
use throng_recorder::table::{Source, Table};

/// Most recorded threads with one kind of work; further ones are not recorded.
const WORKERS_MAX: u16 = 256;

/// One thread, or all of a kind together.
pub struct Worker {
    /// What distinguishes it from the others of its kind; empty if there is only one.
    pub name: String,
    /// Its counters.
    pub counters: Arc<dyn Counted>,
    /// The durations of its pieces of work, microseconds.
    pub latencies: Arc<Latencies>,
}

/// The work of one kind.
pub struct Work {
    /// Module of the recording.
    pub module: &'static str,
    /// Its description, in one sentence.
    pub help: &'static str,
    /// The name of a piece, and the counter of pieces. The counter of their time is `<piece>_us`.
    pub piece: (&'static str, &'static str),
    /// Other quotients: time by count.
    pub means: &'static [(&'static str, &'static str)],
    /// The threads that do it; for a single one without a name, the module has one row.
    pub workers: Vec<Worker>,
}

/// A counter as a field. The names of bytes and times contain the unit; times are shown as a
/// fraction of the interval.
pub(super) fn field((name, kind, help, _): Row) -> Field {
    let is_time = name.ends_with("_us");
    let bytes = name.contains("bytes");
    Field {
        name: Cow::Borrowed(name.strip_suffix("_us").unwrap_or(name)),
        unit: Cow::Borrowed(if is_time {
            "%"
        } else if bytes {
            "KiB"
        } else {
            ""
        }),
        kind: match kind {
            CounterKind::Count if is_time => Kind::Time,
            CounterKind::Count => Kind::Count,
            CounterKind::Gauge => Kind::Gauge,
        },
        per: if is_time {
            1_000_000
        } else if bytes {
            1024
        } else {
            1
        },
        width: 8,
        help: Cow::Borrowed(help),
        // An age and a switch: their sum over all shards is meaningless.
        most: name.ends_with("_oldest_s") || name == "storage_full",
    }
}

/// Mean milliseconds per piece counted in `by`, from a field with their total time.
fn mean(of: &'static str, by: &'static str) -> Field {
    Field {
        name: Cow::Owned(format!("{of}_mean")),
        unit: Cow::Borrowed("ms"),
        kind: Kind::Quotient { of: Cow::Borrowed(of), by: Cow::Borrowed(by), times: 1_000 },
        per: 1,
        width: 11,
        help: Cow::Owned(format!("Mean of {of}, over all {by}.")),
        most: false,
    }
}

fn level(piece: &str, what: &str, help: String) -> Field {
    Field {
        name: Cow::Owned(format!("{piece}_{what}")),
        unit: Cow::Borrowed("ms"),
        kind: Kind::Gauge,
        per: 1_000,
        width: 11,
        help: Cow::Owned(help),
        most: true,
    }
}

type Buckets = [u64; Latencies::BUCKETS];

/// The 99th percentile (nearest rank) and the maximum of the values between two readings.
fn worst(before: &Buckets, now: &Buckets) -> [u64; 2] {
    let new = |bucket: usize| now[bucket].wrapping_sub(before[bucket]);
    let all: u64 = (0..now.len()).map(new).sum();
    let (mut seen, mut found) = (0, [0; 2]);
    for bucket in (0..now.len()).filter(|bucket| new(*bucket) > 0) {
        let reached = seen * 100 >= all * 99;
        seen += new(bucket);
        if !reached {
            found[0] = Latencies::most(bucket);
        }
        found[1] = Latencies::most(bucket);
    }
    found
}

/// Records the work of one kind.
pub(super) struct Works {
    work: Work,
    fields: usize,
    /// The buckets of each worker at the last reading.
    before: Vec<Buckets>,
}

impl Works {
    pub(super) fn new(work: Work) -> Works {
        let before = work.workers.iter().map(|_| [0; Latencies::BUCKETS]).collect();
        let fields = work.workers.first().map_or(0, |worker| worker.counters.list().len());
        Works { work, fields, before }
    }
}

impl Source for Works {
    fn modules(&self) -> Vec<Module> {
        let Work { module, help, piece: (piece, count), means, workers } = &self.work;
        let counted = workers.first().map(|worker| worker.counters.list()).unwrap_or_default();
        let mut fields: Vec<Field> = counted.into_iter().map(field).collect();
        let told = "to within an eighth";
        fields.push(level(piece, "p99", format!("99th percentile of the interval's {count}, {told}.")));
        fields.push(level(piece, "max", format!("Maximum of the interval's {count}, {told}.")));
        fields.push(mean(piece, count));
        fields.extend(means.iter().map(|(of, by)| mean(of, by)));
        let module = Module::single(*module, *help, fields);
        vec![if workers.iter().all(|worker| worker.name.is_empty()) {
            module
        } else {
            module.by("thread", WORKERS_MAX).adds_up()
        }]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let mut now = [0; Latencies::BUCKETS];
        for (worker, before) in self.work.workers.iter().zip(&mut self.before) {
            let Some(row) = tables[0].row(worker.name.as_bytes()) else { continue };
            worker.counters.read(&mut row[..self.fields]);
            worker.latencies.read(&mut now);
            row[self.fields..].copy_from_slice(&worst(before, &now));
            *before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throng_engine::counter_table;

    counter_table! {
        /// Some.
        Some:
        bakes Count "Loaves baked.";
        bake_us Count "Time that it took.";
        flour_bytes Count "Flour.";
    }

    #[test]
    fn a_workers_pieces_are_told_with_the_longest_of_the_interval() {
        let (counters, latencies) = (Arc::new(Some::default()), Arc::new(Latencies::default()));
        let worker = Worker { name: String::new(), counters: counters.clone(), latencies: latencies.clone() };
        let work =
            Work { module: "bakery", help: "Bakes.", piece: ("bake", "bakes"), means: &[], workers: vec![worker] };
        let mut works = Works::new(work);
        let mut tables = [Table::new(&works.modules()[0])];
        let fields = works.modules().remove(0).fields;
        let names: Vec<_> = fields.iter().map(|field| (&*field.name, &*field.unit)).collect();
        let told = [("bakes", ""), ("bake", "%"), ("flour_bytes", "KiB"), ("bake_p99", "ms"), ("bake_max", "ms")];
        assert_eq!(names[..5], told);
        assert_eq!(names[5], ("bake_mean", "ms"));
        let mut sample = || {
            tables[0].begin(true);
            works.sample(&mut tables);
            tables[0].only().to_vec()
        };
        assert_eq!(sample(), [0, 0, 0, 0, 0]);
        for us in (1..=200).chain([50_000]) {
            latencies.note(us);
            counters.bakes.one();
            counters.bake_us.add(us);
        }
        let row = sample();
        assert_eq!(row[..2], [201, 20_100 + 50_000]);
        assert!((198..=223).contains(&row[3]) && (50_000..=56_250).contains(&row[4]), "{row:?}");
        latencies.note(7);
        assert_eq!(sample()[3..], [7, 7], "only what is new");
        assert_eq!(sample()[3..], [0, 0], "nothing is new");
    }
}
