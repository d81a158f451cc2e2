//! Counts by the processor and the kernel for each thread (perf_event_open(2)): cycles,
//! instructions, misses, switches.
//!
//! Each event is opened separately, because a machine may support some and not others: a virtual
//! machine often supports none of the processor's. A missing event has a reason in words.

use std::collections::BTreeMap;
use std::io;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};
use serde::{Deserialize, Serialize};

use super::{DRAIN_EVERY, Run};

/// An event: its name, and how to open it.
type Event = (&'static str, fn() -> Builder<'static>);

/// The counted events. Names are those of perf-list(1).
const EVENTS: [Event; 10] = [
    ("task-clock", || Builder::new(Software::TASK_CLOCK)),
    ("context-switches", || Builder::new(Software::CONTEXT_SWITCHES)),
    ("cpu-migrations", || Builder::new(Software::CPU_MIGRATIONS)),
    ("page-faults", || Builder::new(Software::PAGE_FAULTS)),
    ("cycles", || Builder::new(Hardware::CPU_CYCLES)),
    ("instructions", || Builder::new(Hardware::INSTRUCTIONS)),
    ("cache-references", || Builder::new(Hardware::CACHE_REFERENCES)),
    ("cache-misses", || Builder::new(Hardware::CACHE_MISSES)),
    ("branches", || Builder::new(Hardware::BRANCH_INSTRUCTIONS)),
    ("branch-misses", || Builder::new(Hardware::BRANCH_MISSES)),
];

/// The counts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Counted {
    /// By thread name, threads with the same name combined: the count of each event; `task-clock`
    /// in nanoseconds.
    pub threads: BTreeMap<String, BTreeMap<String, u64>>,
    /// Events that could not be counted, and why.
    pub missing: BTreeMap<String, String>,
    /// Whether time in the kernel is included.
    pub with_kernel: bool,
}

/// Counts all threads except this one until the run is over. Threads that start later are not
/// counted.
pub(super) fn run(run: &Run) -> io::Result<Counted> {
    let mut counted = Counted { with_kernel: true, ..Counted::default() };
    let mut counters: Vec<(String, &str, Counter)> = Vec::new();
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let entry = entry?;
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A thread that has ended since has no name.
        let Ok(name) = std::fs::read_to_string(entry.path().join("comm")) else { continue };
        if thread == own {
            continue;
        }
        for (event, builder) in EVENTS {
            match open(builder, thread, &mut counted.with_kernel) {
                Ok(counter) => counters.push((name.trim_end().to_owned(), event, counter)),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => drop(counted.missing.entry(event.to_owned()).or_insert_with(|| reason(&error))),
            }
        }
    }
    for (_, _, counter) in &mut counters {
        counter.enable()?;
    }
    run.begin();
    while !run.is_over() {
        std::thread::sleep(DRAIN_EVERY);
    }
    for (name, event, counter) in &mut counters {
        let read = counter.read_count_and_time()?;
        // More events than hardware counters are multiplexed: scale each count to the whole time.
        let count = match read.time_running {
            0 => 0,
            running => (u128::from(read.count) * u128::from(read.time_enabled) / u128::from(running)) as u64,
        };
        *counted.threads.entry(name.clone()).or_default().entry((*event).to_owned()).or_default() += count;
    }
    Ok(counted)
}

/// Opens one event, including kernel mode if that is allowed.
fn open(builder: fn() -> Builder<'static>, thread: i32, with_kernel: &mut bool) -> io::Result<Counter> {
    loop {
        let opened = builder().observe_pid(thread).any_cpu().exclude_kernel(!*with_kernel).exclude_hv(true).build();
        match opened {
            Err(error) if *with_kernel && error.kind() == io::ErrorKind::PermissionDenied => *with_kernel = false,
            opened => return opened,
        }
    }
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine lacks the counter, as virtual machines often do".into()
        }
        Some(libc::EACCES | libc::EPERM) => {
            let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            let level = level.trim();
            format!("not allowed: kernel.perf_event_paranoid is {level}; 2 or less, or CAP_PERFMON, allows it")
        }
        Some(libc::ENOSYS) => "this kernel, or what confines the server, has no perf_event_open(2)".into(),
        Some(libc::EMFILE) => "the process has no descriptors left: it takes ten a thread".into(),
        _ => error.to_string(),
    }
}
