//! Where threads spend CPU time: samples of their stacks, equal ones counted together.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Watch;
use super::unwind::Stacks;
pub use super::unwind::{Code, Frame, LOST};
use crate::driver::Sampler;

/// How often samples are taken out: the ring holds those of 64 busy threads at 99 Hz for four times as long.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// How often it is looked for new threads.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Different stacks at the most; samples of others count as dropped. 60 MB if all were of the greatest depth.
const STACKS_MAX: usize = 20_000;

/// Stacks of a page.
const STACKS_A_PAGE: usize = 500;

/// Samples with the same stack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stack {
    /// Name of the thread.
    pub thread: String,
    /// Samples.
    pub count: u64,
    /// Outermost first; the module [`LOST`] stands for frames that could not be found.
    pub frames: Vec<Frame>,
}

/// A piece of what was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CpuPage {
    /// The files that frames are of, by number; with the first page only.
    pub code: Vec<Code>,
    /// Stacks.
    pub stacks: Vec<Stack>,
    /// Number of the first stack of the next page; none at the end.
    pub next: Option<usize>,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    code: Vec<Code>,
    stacks: Vec<Stack>,
}

impl Found {
    pub(super) fn page(&self, from: usize) -> CpuPage {
        let end = self.stacks.len().min(from.saturating_add(STACKS_A_PAGE));
        CpuPage {
            code: if from == 0 { self.code.clone() } else { Vec::new() },
            stacks: self.stacks.get(from..end).unwrap_or_default().to_vec(),
            next: (end < self.stacks.len()).then_some(end),
        }
    }
}

/// Samples all threads but this one until the watch says so.
pub(super) fn run(watch: &Watch, hz: u32) -> io::Result<Found> {
    let mut stacks = Stacks::of_this_process()?;
    let mut sampler = Sampler::start(hz)?;
    let mut names: HashMap<i32, String> = HashMap::new();
    let mut counts: HashMap<(i32, Vec<Frame>), u64> = HashMap::new();
    let (mut samples, mut beyond) = (0, 0);
    let mut followed: Option<Instant> = None;
    loop {
        let over = watch.is_over();
        if !over && followed.is_none_or(|at| at.elapsed() >= FOLLOW_EVERY) {
            sampler.follow()?;
            followed = Some(Instant::now());
        }
        sampler.drain(|sample| {
            names.entry(sample.thread).or_insert_with(|| name(sample.thread));
            let room = counts.len() < STACKS_MAX;
            let key = (sample.thread, stacks.frames(sample));
            match counts.get_mut(&key) {
                Some(count) => *count += 1,
                None if room => drop(counts.insert(key, 1)),
                None => beyond += 1,
            }
            samples += 1;
        });
        watch.note(samples, sampler.dropped() + beyond);
        if over {
            break;
        }
        std::thread::sleep(DRAIN_EVERY);
    }
    drop(sampler);
    let mut stacks_found: Vec<Stack> = counts
        .into_iter()
        .map(|((thread, frames), count)| Stack { thread: names[&thread].clone(), count, frames })
        .collect();
    stacks_found.sort_by(|a, b| (&a.thread, &a.frames).cmp(&(&b.thread, &b.frames)));
    Ok(Found { code: stacks.code, stacks: stacks_found })
}

/// The name of a thread, as `top -H` shows it; its number when it has ended.
fn name(thread: i32) -> String {
    let path = format!("/proc/self/task/{thread}/comm");
    std::fs::read_to_string(path).map_or_else(|_| format!("thread {thread}"), |name| name.trim_end().to_owned())
}
