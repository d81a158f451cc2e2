//! Profiles of the running server, without a restart.
//!
//! ```text
//! ctl profile --> admin --> Profiles (one at a time) --> thread "profile" (nice 19)
//!    symbols, fold <-- stacks of addresses --  cpu       sampler -> unwind
//!                                              alloc     sampler -> unwind
//!           tables <-- counts ---------------  counters  perf_event_open(2)
//!                                              wait      waits, /proc
//! ```
//!
//! The server takes samples and combines equal ones; the command resolves the symbols of addresses
//! in its own process. Without a profile, none of this runs or uses memory. This module knows
//! threads and places; it never learns who asked, and touches no shard.

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

/// Most samples per second of CPU time of a thread.
pub const HZ_MAX: u32 = 1_000;

/// Least and most bytes between two samples of [`Plan::Alloc`].
pub const STEP_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 30;

/// Longest name pattern, bytes.
pub const PATTERN_BYTES_MAX: usize = 256;

/// Interval at which samples are collected: the ring holds four times the samples that 64 busy
/// threads produce in it at 99 Hz.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// A profile that is not polled for this long ends.
const ABANDONED_AFTER: Duration = Duration::from_secs(10);

/// The kind of profile, with its settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Plan {
    /// Where threads spend CPU time.
    Cpu {
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
        /// Samples per second of CPU time of each thread, 1 to [`HZ_MAX`].
        hz: u32,
    },
    /// What allocates memory.
    Alloc {
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
        /// Mean bytes between two samples of a thread, in [`STEP_BYTES`].
        step: u64,
    },
    /// The processor's event counts of each thread.
    Counters {
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
    },
    /// Where threads wait.
    Wait {
        /// 1 to [`SECONDS_MAX`].
        seconds: u64,
        /// Threads and places whose names contain this text, or match this pattern (`*`, `?`); all
        /// if empty. At most [`PATTERN_BYTES_MAX`].
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

    /// The fault of the settings, if any.
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

/// The result of a profile.
#[derive(Debug)]
enum Outcome {
    Stacks(Found),
    Counted(Counted),
    Waits(WaitPage),
}

/// The requests to [`Profiles`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Begins a profile. Answered by [`Told::Progress`].
    Begin(Plan),
    /// Requests the progress. The client polls at least every ten seconds; otherwise the profile
    /// ends.
    Progress {},
    /// Requests the result of a finished profile: for stacks, the page that begins with the one
    /// numbered `from`. The last page ends the profile.
    Found {
        /// 0, or [`Page::next`].
        from: usize,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// The progress.
    Progress(Progress),
    /// Stacks.
    Stacks(Page),
    /// The processor's counts.
    Counted(Counted),
    /// Waits.
    Waits(WaitPage),
}

/// The progress of a profile.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Milliseconds since sampling began; 0 before that.
    pub elapsed_ms: u64,
    /// Samples so far.
    pub samples: u64,
    /// Samples lost for lack of room.
    pub dropped: u64,
    /// Whether it has ended, and its result can be requested.
    pub done: bool,
}

/// Why a request was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Another profile is in progress.
    Busy(String),
    /// The request is wrong, or there is no result for it.
    Invalid(String),
    /// The system did not allow it.
    Failed(String),
}

/// A profile in progress: the state shared by its thread and the threads that poll it.
#[derive(Debug)]
pub(crate) struct Run {
    asked_for: Instant,
    /// When sampling began. Where the CPU is busy, the preparations may take longer than the
    /// profile.
    began: OnceLock<Instant>,
    /// When it was last polled, milliseconds since its request.
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

    /// Begins sampling after the preparations: its time counts from here, and other work takes
    /// precedence for the CPU.
    pub(crate) fn begin(&self) {
        // Without permission to lower its priority, it runs like the other threads.
        let _ = rustix::process::setpriority_process(None, 19);
        let _ = self.began.set(Instant::now());
    }

    /// Whether the time is over, or the client has gone.
    pub(crate) fn is_over(&self) -> bool {
        self.elapsed() >= self.end || self.idle() > ABANDONED_AFTER
    }

    /// Time since it began; zero before.
    fn elapsed(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Time since it was last polled.
    fn idle(&self) -> Duration {
        self.asked_for.elapsed().saturating_sub(Duration::from_millis(self.asked_ms.load(Ordering::Relaxed)))
    }

    pub(crate) fn note(&self, samples: u64, dropped: u64) {
        self.samples.store(samples, Ordering::Relaxed);
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    /// The remaining time, provided that the client keeps polling.
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
    /// Whether it runs, or its result is about to be fetched.
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

/// Stalls besides threads and locks, as other modules know them.
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
    /// `others` returns other stalls: clients that do not read. It must not block.
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
                    return Err(Refused::Busy(format!("another profile is running, for {left} more seconds")));
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
                        // Its end is reported, so the next profile may begin.
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
    Refused::Invalid("there is no profile; it ends after ten seconds without a request about it".into())
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
        // A profile that panics must not block the next one.
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
