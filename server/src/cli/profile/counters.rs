//! `throng ctl profile counters`: a table of the processor's event counters.

use std::collections::BTreeMap;

use clap::ArgMatches;
use serde_json::json;

use super::{ask, seconds, wait};
use crate::admin::client::Client;
use crate::cli::{Failure, Io};
use crate::profile::counters::Counted;
use crate::profile::{self, Plan, Told};

/// Counts of a thread by event.
type Counts = BTreeMap<String, u64>;

/// A column: its heading, its value for a thread if there is one, and its width.
type Column = (&'static str, fn(&Counts) -> Option<f64>, usize);

const COLUMNS: [Column; 9] = [
    ("CPU ms", |c| Some(of(c, "task-clock")? / 1e6), 1),
    ("Mcycles", |c| Some(of(c, "cycles")? / 1e6), 1),
    ("Minstr", |c| Some(of(c, "instructions")? / 1e6), 1),
    ("instr/cycle", |c| ratio(c, "instructions", "cycles"), 2),
    ("cache miss %", |c| Some(100.0 * ratio(c, "cache-misses", "cache-references")?), 1),
    ("branch miss %", |c| Some(100.0 * ratio(c, "branch-misses", "branches")?), 2),
    ("switches", |c| of(c, "context-switches"), 0),
    ("migrations", |c| of(c, "cpu-migrations"), 0),
    ("faults", |c| of(c, "page-faults"), 0),
];

fn of(counts: &Counts, event: &str) -> Option<f64> {
    counts.get(event).map(|count| *count as f64)
}

fn ratio(counts: &Counts, part: &str, whole: &str) -> Option<f64> {
    Some(of(counts, part)? / of(counts, whole).filter(|whole| *whole > 0.0)?)
}

/// Runs it.
pub(super) fn run(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let seconds = seconds(matches);
    wait(client, Plan::Counters { seconds }, seconds, io)?;
    let Told::Counted(counted) = ask(client, profile::Ask::Found { from: 0 })? else {
        return Err(Failure::failed("unexpected answer"));
    };
    if io.json {
        io.say_json(&json!({
            "seconds": seconds, "with_kernel": counted.with_kernel, "threads": counted.threads, "missing": counted.missing,
        }));
        return Ok(());
    }
    lines(&counted).into_iter().for_each(|line| io.say(line));
    for (why, events) in reasons(&counted) {
        io.tell(format!("not counted: {}: {why}", events.join(", ")));
    }
    if !counted.with_kernel {
        io.tell("kernel mode is not counted: it requires CAP_PERFMON, or kernel.perf_event_paranoid of 1 or less");
    }
    Ok(())
}

/// One line per thread, the most CPU time first.
fn lines(counted: &Counted) -> Vec<String> {
    let columns: Vec<&Column> =
        COLUMNS.iter().filter(|column| counted.threads.values().any(|counts| column.1(counts).is_some())).collect();
    let wide = counted.threads.keys().map(String::len).max().unwrap_or(0).max("THREAD".len());
    let heading = columns.iter().map(|column| format!("  {:>13}", column.0)).collect::<String>();
    let mut threads: Vec<_> = counted.threads.iter().collect();
    threads.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.get("task-clock").copied()));
    let line = |(name, counts): (&String, &Counts)| {
        let number = |column: &&Column| match column.1(counts) {
            Some(number) => format!("  {number:>13.*}", column.2),
            None => format!("  {:>13}", "-"),
        };
        format!("{name:<wide$}{}", columns.iter().map(number).collect::<String>())
    };
    std::iter::once(format!("{:<wide$}{heading}", "THREAD")).chain(threads.into_iter().map(line)).collect()
}

/// Missing events by reason.
fn reasons(counted: &Counted) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (event, why) in &counted.missing {
        reasons.entry(why).or_default().push(event);
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> Counts {
        all.iter().map(|(event, count)| ((*event).to_owned(), *count)).collect()
    }

    #[test]
    fn what_is_counted_stands_in_columns_and_what_is_not_has_none() {
        let busy = counts(&[("task-clock", 2_000_000_000), ("cycles", 6_000_000), ("instructions", 9_000_000)]);
        let idle = counts(&[("task-clock", 1_000_000), ("cycles", 0), ("instructions", 0)]);
        let threads = [("admin".to_owned(), idle), ("shard-0".to_owned(), busy)].into_iter().collect();
        let why = "this machine does not count it".to_owned();
        let missing = [("cache-misses", &why), ("branches", &why)].map(|(event, why)| (event.to_owned(), why.clone()));
        let counted = Counted { threads, missing: missing.into_iter().collect(), with_kernel: true };
        let lines = lines(&counted);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&lines[0]), ["THREAD", "CPU", "ms", "Mcycles", "Minstr", "instr/cycle"]);
        assert_eq!(words(&lines[1]), ["shard-0", "2000.0", "6.0", "9.0", "1.50"]);
        assert_eq!(words(&lines[2]), ["admin", "1.0", "0.0", "0.0", "-"]);
        assert_eq!(reasons(&counted)[&*why], ["branches", "cache-misses"]);
    }
}
