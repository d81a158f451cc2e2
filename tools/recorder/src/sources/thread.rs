//! The threads of the process by name: `task/*/schedstat` (scheduler/sched-stats.rst) and
//! `task/*/stat` (proc(5)). Threads with the same name are one row.
//!
//! Both of the kernel's accounts of CPU time are recorded. The scheduler's is exact to the
//! nanosecond. The one by user and system time is sampled by ticks, and scaled so that both parts
//! yield the exact sum (`cputime_adjust`).

use std::fs;
use std::path::PathBuf;

use rustix::param::clock_ticks_per_second;

use super::Roots;
use super::text::{Pseudo, number, words};
use crate::schema::{Field, Module};
use crate::table::{ABSENT, Source, Table};

const PER_S: u32 = 1_000_000_000;

/// Fields of a row that are summed over its threads: three of `schedstat`, then two of `stat`.
const SUMMED: usize = 5;

/// Columns of `stat` after the name: user and system time.
const TIMES: std::ops::Range<usize> = 11..13;

const FIELDS: [Field; SUMMED + 1] = [
    Field::time("cpu", PER_S, "Time on a core; 100 is one core."),
    Field::time("wait", PER_S, "Time ready to run, without a core."),
    Field::count("runs", "", 7, "Times that it was scheduled on a core."),
    Field::time("usr", 100, "Of cpu, in user mode."),
    Field::time("sys", 100, "Of cpu, in the kernel: system calls. 100 minus cpu and wait is sleep."),
    Field::gauge("threads", "", 7, "Threads with this name."),
];

/// Most names; threads with further names are not recorded.
const NAMES_MAX: u16 = 128;

/// Most threads that are read.
const THREADS_MAX: usize = 1024;

/// The list is read again after this many samples, and whenever the number of threads has changed.
const LIST_SAMPLES: u32 = 30;

/// One thread, with its counts at the last sample.
#[derive(Debug)]
struct Task {
    id: u32,
    name: usize,
    schedstat: Pseudo,
    stat: Pseudo,
    last: [u64; SUMMED],
}

impl Task {
    /// Its current counts; `None` if it has ended.
    fn read(&mut self) -> Option<[u64; SUMMED]> {
        let mut now = [ABSENT; SUMMED];
        let numbers = words(self.schedstat.read()?.trim_ascii_end()).map(number);
        now[..3].iter_mut().zip(numbers).for_each(|(slot, number)| *slot = number);
        let stat = self.stat.read()?;
        // The name may contain anything, even a parenthesis.
        let behind = stat.iter().rposition(|byte| *byte == b')').map_or(stat.len(), |at| at + 1);
        let times = words(&stat[behind..]).skip(TIMES.start).map(number);
        now[3..].iter_mut().zip(times).for_each(|(slot, number)| *slot = number);
        Some(now)
    }
}

#[derive(Debug)]
pub(super) struct Thread {
    tasks: PathBuf,
    stat: Pseudo,
    threads: Vec<Task>,
    /// Names with the total counts of their threads, ended ones included.
    names: Vec<(String, [u64; SUMMED], u64)>,
    listed: u64,
    since: u32,
}

impl Thread {
    pub(super) fn new(roots: &Roots) -> Thread {
        Thread {
            tasks: roots.own("task"),
            stat: Pseudo::new(roots.own("stat")),
            threads: Vec::new(),
            names: Vec::new(),
            listed: 0,
            since: LIST_SAMPLES,
        }
    }

    /// The number of threads according to the kernel.
    fn count(&mut self) -> u64 {
        let Some(text) = self.stat.read() else { return 0 };
        let behind = text.iter().rposition(|byte| *byte == b')').map_or(text.len(), |at| at + 1);
        words(&text[behind..]).nth(17).map_or(0, number)
    }

    fn list(&mut self) {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.tasks).into_iter().flatten().flatten().take(THREADS_MAX) {
            let Some(id) = entry.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
            let Ok(name) = fs::read_to_string(entry.path().join("comm")) else { continue };
            let known = self.threads.iter().position(|task| task.id == id);
            let mut task = match known {
                Some(at) => self.threads.swap_remove(at),
                None => {
                    let file = |name| Pseudo::new(entry.path().join(name));
                    Task { id, name: 0, schedstat: file("schedstat"), stat: file("stat"), last: [0; SUMMED] }
                }
            };
            let name = name.trim_end();
            task.name = match self.names.iter().position(|(known, ..)| known == name) {
                Some(at) => at,
                None if self.names.len() == usize::from(NAMES_MAX) => continue,
                None => {
                    self.names.push((name.to_owned(), [0; SUMMED], 0));
                    self.names.len() - 1
                }
            };
            found.push(task);
        }
        self.threads = found;
    }
}

impl Source for Thread {
    fn modules(&self) -> Vec<Module> {
        let help = "Threads of the process, grouped by name.";
        let mut fields = FIELDS.to_vec();
        fields[3..SUMMED].iter_mut().for_each(|field| field.per = clock_ticks_per_second() as u32);
        vec![Module::single("thread", help, fields).by("thread", NAMES_MAX).adds_up()]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let count = self.count();
        self.since += 1;
        if count != self.listed || self.since > LIST_SAMPLES {
            self.list();
            // A new thread may set its name later: read the list again at the next sample.
            self.since = if count == self.listed { 0 } else { LIST_SAMPLES };
            self.listed = count;
        }
        self.names.iter_mut().for_each(|(_, _, threads)| *threads = 0);
        for task in &mut self.threads {
            let Some(now) = task.read() else { continue };
            let (_, sums, threads) = &mut self.names[task.name];
            *threads += 1;
            for ((sum, last), now) in sums.iter_mut().zip(&mut task.last).zip(now) {
                if now != ABSENT {
                    *sum = sum.wrapping_add(now.saturating_sub(*last));
                    *last = now;
                }
            }
        }
        for (name, sums, threads) in &self.names {
            let Some(row) = tables[0].row(name.as_bytes()) else { continue };
            row[..SUMMED].copy_from_slice(sums);
            row[SUMMED] = *threads;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn threads_of_one_name_are_one_row_that_never_falls() {
        let mut source = Thread::new(&Roots::of(std::process::id()));
        let mut tables = [Table::new(&source.modules()[0])];
        let mut row = || {
            tables[0].begin(true);
            source.sample(&mut tables);
            let row = tables[0].row(b"a-worker").filter(|row| row[SUMMED] != ABSENT)?;
            // The accounts are read one after the other, and the one by ticks has a resolution of a
            // hundredth of a second per part.
            let (exact_ms, by_ticks_ms) = (row[0] / 1_000_000, (row[3] + row[4]) * 1_000 / clock_ticks_per_second());
            assert!(by_ticks_ms <= exact_ms + 50 && exact_ms <= by_ticks_ms + 80, "{exact_ms} and {by_ticks_ms}");
            Some((row[0], row[5]))
        };
        let (told, tells): (Vec<_>, Vec<_>) = [(); 2].map(|()| mpsc::sync_channel(2)).into_iter().unzip();
        let mut threads = Vec::new();
        for told in tells {
            let work = move || {
                told.recv().expect("told to work");
                let cpu_ns = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec;
                let began_ns = cpu_ns();
                while cpu_ns() - began_ns < 5_000_000 {}
                told.recv().expect("told to end");
            };
            threads.push(std::thread::Builder::new().name("a-worker".into()).spawn(work).expect("a thread"));
        }
        let mut until = |cpu_ns: u64, count: u64| {
            for _ in 0..4_000 {
                match row() {
                    Some(row) if row.0 >= cpu_ns && row.1 == count => return row.0,
                    _ => std::thread::sleep(std::time::Duration::from_millis(5)),
                }
            }
            panic!("not within 20 s: {:?}", row());
        };
        until(0, 2);
        told.iter().for_each(|told| told.send(()).expect("it waits"));
        let both = until(8_000_000, 2);
        told.iter().for_each(|told| told.send(()).expect("it waits"));
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert!(until(0, 0) >= both);
    }
}
