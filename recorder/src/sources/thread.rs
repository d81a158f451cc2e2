//! The threads of the process by name: `task/*/schedstat` (scheduler/sched-stats.rst). Threads of one name are one row.

use std::fs;
use std::path::PathBuf;

use super::Roots;
use super::text::{Pseudo, number, words};
use crate::schema::{Field, Module};
use crate::table::{ABSENT, Source, Table};

const PER_S: u32 = 1_000_000_000;

const FIELDS: [Field; 4] = [
    Field::time("cpu", PER_S, "Ran; 100 is one core."),
    Field::time("wait", PER_S, "Could have run, but had no core."),
    Field::count("runs", "", 7, "Times that it was given a core."),
    Field::gauge("threads", "", 7, "Threads of that name."),
];

/// Names at most; what has another name is not told apart from nothing.
const NAMES_MAX: u16 = 128;

/// Threads that are looked at, at most.
const THREADS_MAX: usize = 1024;

/// The list is read anew after so many samples, and whenever their count has changed.
const LIST_SAMPLES: u32 = 30;

/// One thread, with what it had at the last sample.
#[derive(Debug)]
struct Task {
    id: u32,
    name: usize,
    file: Pseudo,
    last: [u64; 3],
}

#[derive(Debug)]
pub(super) struct Thread {
    tasks: PathBuf,
    stat: Pseudo,
    threads: Vec<Task>,
    /// Names and what their threads had in all, those that have ended included.
    names: Vec<(String, [u64; 3], u64)>,
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

    /// The count of threads that the kernel tells.
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
                None => Task { id, name: 0, file: Pseudo::new(entry.path().join("schedstat")), last: [0; 3] },
            };
            let name = name.trim_end();
            task.name = match self.names.iter().position(|(known, ..)| known == name) {
                Some(at) => at,
                None if self.names.len() == usize::from(NAMES_MAX) => continue,
                None => {
                    self.names.push((name.to_owned(), [0; 3], 0));
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
        let help = "Threads of the process, those of one name together.";
        vec![Module::single("thread", help, FIELDS.to_vec()).by("thread", NAMES_MAX)]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let count = self.count();
        self.since += 1;
        if count != self.listed || self.since > LIST_SAMPLES {
            self.list();
            // A thread that has just begun may take its name later: once more with the next sample.
            self.since = if count == self.listed { 0 } else { LIST_SAMPLES };
            self.listed = count;
        }
        self.names.iter_mut().for_each(|(_, _, threads)| *threads = 0);
        for task in &mut self.threads {
            let Some(text) = task.file.read() else { continue };
            let (_, sums, threads) = &mut self.names[task.name];
            *threads += 1;
            for ((sum, last), now) in sums.iter_mut().zip(&mut task.last).zip(words(text.trim_ascii_end()).map(number))
            {
                if now != ABSENT {
                    *sum = sum.wrapping_add(now.saturating_sub(*last));
                    *last = now;
                }
            }
        }
        for (name, sums, threads) in &self.names {
            let Some(row) = tables[0].row(name.as_bytes()) else { continue };
            row[..3].copy_from_slice(sums);
            row[3] = *threads;
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
            tables[0].row(b"a-worker").map(|row| (row[0], row[3]))
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
