//! Profiles of the running server, taken while it runs and without a restart.
//!
//! ```text
//! throng ctl profile --> admin --> Profiles (one at a time) --> thread "profile" (nice 19) --> cpu   driver's sampler -> unwind
//!        symbols, fold <-- stacks of addresses                                                 wait  /proc, marks
//! ```
//!
//! The server takes samples and adds up equal ones; what addresses are called is found out by the command, in its own process.
//! While nobody profiles, nothing of this runs and no memory is held. The room knows threads and places; it never learns who
//! asked, and touches no shard.

pub mod cpu;
pub mod fold;
pub mod symbols;
mod unwind;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use cpu::CpuPage;

/// Longest profile, seconds.
pub const SECONDS_MAX: u64 = 300;

/// Most samples a second of CPU time of a thread.
pub const HZ_MAX: u32 = 1_000;

/// A profile that nobody has asked about for so long ends.
const ABANDONED_AFTER: Duration = Duration::from_secs(10);

/// What is to be found out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Plan {
    /// Where threads spend CPU time.
    Cpu {
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
        /// Samples a second of CPU time of each thread, 1 to [`HZ_MAX`].
        hz: u32,
    },
}

/// What can be asked of [`Profiles`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Begin one. Answered by [`Told::Progress`].
    Begin(Plan),
    /// How far it is. Whoever began one asks at least every ten seconds; otherwise it ends.
    Progress {},
    /// The stacks of one that has ended, a page from the one numbered `from` on. The last page ends the profile.
    Stacks {
        /// 0, or [`CpuPage::next`].
        from: usize,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// How far it is.
    Progress(Progress),
    /// Stacks.
    Stacks(CpuPage),
}

/// How far a profile is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Since its start, milliseconds.
    pub elapsed_ms: u64,
    /// Samples so far.
    pub samples: u64,
    /// Samples that were lost for want of room.
    pub dropped: u64,
    /// It has ended, and what it found can be asked for.
    pub done: bool,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Another profile is under way.
    Busy(String),
    /// The question is wrong, or there is nothing to answer it with.
    Invalid(String),
    /// The system did not allow it.
    Failed(String),
}

/// What the thread of a profile and those who ask about it share.
#[derive(Debug)]
pub(crate) struct Watch {
    started: Instant,
    /// When somebody last asked, milliseconds since the start.
    asked_ms: AtomicU64,
    samples: AtomicU64,
    dropped: AtomicU64,
    done: AtomicBool,
    end: Duration,
}

impl Watch {
    fn new(seconds: u64) -> Watch {
        Watch {
            started: Instant::now(),
            asked_ms: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            done: AtomicBool::new(false),
            end: Duration::from_secs(seconds),
        }
    }

    /// Whether the time is up, or nobody waits for it any more.
    pub(crate) fn is_over(&self) -> bool {
        let elapsed = self.started.elapsed();
        elapsed >= self.end || elapsed > Duration::from_millis(self.asked_ms.load(Ordering::Relaxed)) + ABANDONED_AFTER
    }

    pub(crate) fn note(&self, samples: u64, dropped: u64) {
        self.samples.store(samples, Ordering::Relaxed);
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.asked_ms.store(elapsed_ms, Ordering::Relaxed);
        Progress {
            elapsed_ms,
            samples: self.samples.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Acquire),
        }
    }
}

type Outcome = Result<cpu::Found, String>;

#[derive(Debug)]
struct Job {
    watch: Arc<Watch>,
    outcome: Arc<Mutex<Option<Outcome>>>,
}

impl Job {
    /// It runs, or somebody is about to fetch what it found.
    fn is_wanted(&self) -> bool {
        let idle = self
            .watch
            .started
            .elapsed()
            .saturating_sub(Duration::from_millis(self.watch.asked_ms.load(Ordering::Relaxed)));
        !self.watch.done.load(Ordering::Acquire) || idle <= ABANDONED_AFTER
    }
}

/// The profiles of a process: none or one.
#[derive(Debug, Default)]
pub struct Profiles {
    job: Mutex<Option<Job>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Profiles {
    /// Carries out a request; does not wait for a profile.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn answer(&self, ask: Ask) -> Result<Told, Refused> {
        let mut slot = locked(&self.job);
        match ask {
            Ask::Begin(plan) => {
                if let Some(job) = slot.as_ref().filter(|job| job.is_wanted()) {
                    let left = job.watch.end.saturating_sub(job.watch.started.elapsed()).as_secs();
                    return Err(Refused::Busy(format!("another profile is under way, for {left} seconds still")));
                }
                let job = begin(&plan)?;
                let progress = job.watch.progress();
                *slot = Some(job);
                Ok(Told::Progress(progress))
            }
            Ask::Progress {} => {
                let job = slot.as_ref().ok_or_else(nothing)?;
                if let Some(Err(why)) = locked(&job.outcome).as_ref() {
                    return Err(Refused::Failed(why.clone()));
                }
                Ok(Told::Progress(job.watch.progress()))
            }
            Ask::Stacks { from } => {
                let job = slot.as_ref().ok_or_else(nothing)?;
                job.watch.progress();
                let page = match locked(&job.outcome).as_ref() {
                    Some(Ok(found)) => found.page(from),
                    Some(Err(why)) => return Err(Refused::Failed(why.clone())),
                    None => return Err(Refused::Invalid("the profile has not ended yet".into())),
                };
                if page.next.is_none() {
                    *slot = None;
                }
                Ok(Told::Stacks(page))
            }
        }
    }
}

fn nothing() -> Refused {
    Refused::Invalid("there is no profile; it ends when nobody asks about it for ten seconds".into())
}

fn begin(plan: &Plan) -> Result<Job, Refused> {
    let Plan::Cpu { seconds, hz } = *plan;
    if !(1..=SECONDS_MAX).contains(&seconds) || !(1..=HZ_MAX).contains(&hz) {
        let text = format!("a profile takes 1 to {SECONDS_MAX} seconds and 1 to {HZ_MAX} samples a second");
        return Err(Refused::Invalid(text));
    }
    let (watch, outcome) = (Arc::new(Watch::new(seconds)), Arc::new(Mutex::new(None)));
    let (its_watch, its_outcome) = (watch.clone(), outcome.clone());
    let work = move || {
        // Whatever else wants the CPU goes first. Without the right to step back it runs as the others do.
        let _ = rustix::process::setpriority_process(None, 19);
        // A profile that breaks must not stand in the way of the next.
        let result = catch_unwind(AssertUnwindSafe(|| cpu::run(&its_watch, hz)))
            .map_err(|_| "the profile's thread panicked".to_owned())
            .and_then(|result| result.map_err(|error| error.to_string()));
        *locked(&its_outcome) = Some(result);
        its_watch.done.store(true, Ordering::Release);
    };
    let thread = std::thread::Builder::new().name("profile".into()).spawn(work);
    thread.map_err(|error| Refused::Failed(error.to_string()))?;
    Ok(Job { watch, outcome })
}
