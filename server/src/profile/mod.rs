//! Profiles of the running server, taken while it runs and without a restart.
//!
//! ```text
//! throng ctl profile --> admin --> Profiles (one at a time) --> thread "profile" (nice 19) --> cpu   sampler -> unwind
//!        symbols, fold <-- stacks of addresses                                                 alloc          "
//!                    tables                                                                    counters  perf_event_open(2)
//!                                                                                              wait  waits, /proc
//! ```
//!
//! The server takes samples and adds up equal ones; what addresses are called is found out by the command, in its own process.
//! While nobody profiles, nothing of this runs and no memory is held. This module knows threads and places; it never
//! learns who asked, and touches no shard.

mod alloc;
pub mod counters;
mod cpu;
pub mod fold;
pub mod stacks;
pub mod symbols;
pub mod unwind;
pub mod wait;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use counters::Counted;
use stacks::{Found, Page};
use wait::WaitPage;

use crate::waits::{self, Mutex, Place, Stuck};

/// Longest profile, seconds.
pub const SECONDS_MAX: u64 = 300;

/// Most samples a second of CPU time of a thread.
pub const HZ_MAX: u32 = 1_000;

/// Least and most bytes between two samples of [`Plan::Alloc`].
pub const STEP_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 30;

/// Longest pattern of names, bytes.
pub const PATTERN_BYTES_MAX: usize = 256;

/// How often samples are taken out: the ring holds those of 64 busy threads at 99 Hz for four times as long.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

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
    /// What allocates memory.
    Alloc {
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
        /// Mean bytes between two samples of a thread, in [`STEP_BYTES`].
        step: u64,
    },
    /// What the processor counts of each thread.
    Counters {
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
    },
    /// Where threads wait.
    Wait {
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
        /// Threads and places whose names contain this, or are of this form (`*`, `?`); all if it is empty. At most
        /// [`PATTERN_BYTES_MAX`].
        only: String,
    },
}

impl Plan {
    fn seconds(&self) -> u64 {
        match self {
            Plan::Cpu { seconds, .. }
            | Plan::Alloc { seconds, .. }
            | Plan::Counters { seconds }
            | Plan::Wait { seconds, .. } => *seconds,
        }
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<String> {
        if !(1..=SECONDS_MAX).contains(&self.seconds()) {
            return Some(format!("a profile takes 1 to {SECONDS_MAX} seconds"));
        }
        match self {
            Plan::Cpu { hz, .. } if !(1..=HZ_MAX).contains(hz) => Some(format!("1 to {HZ_MAX} samples a second")),
            Plan::Alloc { step, .. } if !STEP_BYTES.contains(step) => {
                Some(format!("a sample every {} to {} bytes", STEP_BYTES.start(), STEP_BYTES.end()))
            }
            Plan::Wait { only, .. } if only.len() > PATTERN_BYTES_MAX => {
                Some(format!("a pattern has at most {PATTERN_BYTES_MAX} bytes"))
            }
            _ => None,
        }
    }

    fn run(&self, run: &Run, others: &Others) -> io::Result<Outcome> {
        match self {
            Plan::Cpu { hz, .. } => cpu::run(run, *hz).map(Outcome::Stacks),
            Plan::Alloc { step, .. } => alloc::run(run, *step).map(Outcome::Stacks),
            Plan::Counters { .. } => counters::run(run).map(Outcome::Counted),
            Plan::Wait { only, .. } => {
                let mut page = wait::run(run, only);
                page.stuck.extend((others.0)());
                Ok(Outcome::Waits(page))
            }
        }
    }
}

/// What a profile has found.
#[derive(Debug)]
enum Outcome {
    Stacks(Found),
    Counted(Counted),
    Waits(WaitPage),
}

/// What can be asked of [`Profiles`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Begin one. Answered by [`Told::Progress`].
    Begin(Plan),
    /// How far it is. Whoever began one asks at least every ten seconds; otherwise it ends.
    Progress {},
    /// What one that has ended has found: of stacks a page from the one numbered `from` on. The last page ends the profile.
    Found {
        /// 0, or [`Page::next`].
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
    Stacks(Page),
    /// What the processor has counted.
    Counted(Counted),
    /// Waits.
    Waits(WaitPage),
}

/// How far a profile is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Since it began to look, milliseconds; 0 before that.
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

/// A profile under way: what its thread and those who ask about it share.
#[derive(Debug)]
pub(crate) struct Run {
    asked_for: Instant,
    /// When it began to look. What it needs for that may take longer than the profile where the CPU is busy.
    began: OnceLock<Instant>,
    /// When somebody last asked, milliseconds since it was asked for.
    asked_ms: AtomicU64,
    samples: AtomicU64,
    dropped: AtomicU64,
    done: AtomicBool,
    end: Duration,
}

impl Run {
    fn new(seconds: u64) -> Run {
        Run {
            asked_for: Instant::now(),
            began: OnceLock::new(),
            asked_ms: AtomicU64::new(0),
            samples: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            done: AtomicBool::new(false),
            end: Duration::from_secs(seconds),
        }
    }

    /// Everything stands ready: its time counts from here, and whatever else wants the CPU goes first.
    pub(crate) fn begin(&self) {
        // Without the right to step back it runs as the others do.
        let _ = rustix::process::setpriority_process(None, 19);
        let _ = self.began.set(Instant::now());
    }

    /// Whether the time is up, or nobody waits for it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.elapsed() >= self.end || self.idle() > ABANDONED_AFTER
    }

    /// Time since it began; none before.
    fn elapsed(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Time since somebody last asked.
    fn idle(&self) -> Duration {
        self.asked_for.elapsed().saturating_sub(Duration::from_millis(self.asked_ms.load(Ordering::Relaxed)))
    }

    pub(crate) fn note(&self, samples: u64, dropped: u64) {
        self.samples.store(samples, Ordering::Relaxed);
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    /// Time until it is over, if somebody waits for it until then.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_sub(self.elapsed())
    }

    fn progress(&self) -> Progress {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.asked_ms.store(milliseconds(self.asked_for.elapsed()), Ordering::Relaxed);
        Progress {
            elapsed_ms: milliseconds(self.elapsed()),
            samples: self.samples.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Acquire),
        }
    }
}

#[derive(Debug)]
struct Job {
    run: Arc<Run>,
    outcome: Arc<Mutex<Option<Result<Outcome, String>>>>,
}

impl Job {
    /// It runs, or somebody is about to fetch what it found.
    fn is_wanted(&self) -> bool {
        !self.run.done.load(Ordering::Acquire) || self.run.idle() <= ABANDONED_AFTER
    }
}

/// The profiles of a process: none or one.
#[derive(Debug)]
pub struct Profiles {
    job: Mutex<Option<Job>>,
    others: Others,
}

/// What stands still beside threads and locks, as others know it.
#[derive(Clone)]
struct Others(Arc<dyn Fn() -> Vec<Stuck> + Send + Sync>);

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Others")
    }
}

impl Default for Profiles {
    fn default() -> Profiles {
        Profiles::new(Vec::new)
    }
}

impl Profiles {
    /// With somebody who tells what else stands still: clients that do not read. It must not wait for anybody.
    pub fn new(others: impl Fn() -> Vec<Stuck> + Send + Sync + 'static) -> Profiles {
        Profiles { job: Mutex::new(Place::LockProfile, None), others: Others(Arc::new(others)) }
    }

    /// Carries out a request; does not wait for a profile.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn answer(&self, ask: Ask) -> Result<Told, Refused> {
        let mut slot = self.job.lock();
        match ask {
            Ask::Begin(plan) => {
                if let Some(job) = slot.as_ref().filter(|job| job.is_wanted()) {
                    let left = job.run.left().as_secs();
                    return Err(Refused::Busy(format!("another profile is under way, for {left} seconds still")));
                }
                let job = begin(&plan, &self.others)?;
                let progress = job.run.progress();
                *slot = Some(job);
                Ok(Told::Progress(progress))
            }
            Ask::Progress {} => {
                let job = slot.as_ref().ok_or_else(nothing)?;
                let failed = job.outcome.lock().as_ref().and_then(|outcome| outcome.as_ref().err().cloned());
                let progress = job.run.progress();
                match failed {
                    Some(why) => {
                        // It is told, and stands in the way of no other.
                        *slot = None;
                        Err(Refused::Failed(why))
                    }
                    None => Ok(Told::Progress(progress)),
                }
            }
            Ask::Found { from } => {
                let job = slot.as_ref().ok_or_else(nothing)?;
                job.run.progress();
                let (told, more) = match job.outcome.lock().as_ref() {
                    Some(Ok(Outcome::Stacks(found))) => {
                        let page = found.page(from);
                        let more = page.next.is_some();
                        (Told::Stacks(page), more)
                    }
                    Some(Ok(Outcome::Counted(counted))) => (Told::Counted(counted.clone()), false),
                    Some(Ok(Outcome::Waits(page))) => (Told::Waits(page.clone()), false),
                    Some(Err(why)) => return Err(Refused::Failed(why.clone())),
                    None => return Err(Refused::Invalid("the profile has not ended yet".into())),
                };
                if !more {
                    *slot = None;
                }
                Ok(told)
            }
        }
    }
}

fn nothing() -> Refused {
    Refused::Invalid("there is no profile; it ends when nobody asks about it for ten seconds".into())
}

fn begin(plan: &Plan, others: &Others) -> Result<Job, Refused> {
    if let Some(fault) = plan.fault() {
        return Err(Refused::Invalid(fault));
    }
    let run = Arc::new(Run::new(plan.seconds()));
    let outcome = Arc::new(Mutex::new(Place::LockProfile, None));
    let (plan, others) = (plan.clone(), others.clone());
    let (its_run, its_outcome) = (run.clone(), outcome.clone());
    let work = move || {
        // A profile that breaks must not stand in the way of the next.
        let profile = || {
            #[cfg(debug_assertions)]
            crate::plant::pass("profile");
            plan.run(&its_run, &others)
        };
        let result = crate::end::survive(profile)
            .inspect_err(|said| tracing::error!("a profile has failed: {said}"))
            .and_then(|result| result.map_err(|error| error.to_string()));
        *its_outcome.lock() = Some(result);
        its_run.done.store(true, Ordering::Release);
    };
    waits::spawn("profile", work).map_err(|error| Refused::Failed(error.to_string()))?;
    Ok(Job { run, outcome })
}
