//! Sampled stacks, equal ones combined, and their transfer in pages.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::unwind::{Code, Frame};

/// Most distinct stacks; samples of further ones count as dropped. 60 MB if all had the maximum
/// depth.
const STACKS_MAX: usize = 20_000;

/// Stacks per page.
const STACKS_A_PAGE: usize = 500;

/// The samples with the same stack.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stack {
    /// Name of the thread.
    pub thread: String,
    /// Samples, or bytes allocated.
    pub count: u64,
    /// Allocated bytes that were not freed.
    #[serde(default)]
    pub kept: u64,
    /// Outermost first; the module [`super::unwind::LOST`] marks frames that could not be found.
    pub frames: Vec<Frame>,
}

/// A page of the result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Page {
    /// The code files of the frames, by number; only in the first page.
    pub code: Vec<Code>,
    /// Stacks.
    pub stacks: Vec<Stack>,
    /// Number of the first stack of the next page; `None` at the end.
    pub next: Option<usize>,
}

/// The result.
#[derive(Debug)]
pub(super) struct Found {
    code: Vec<Code>,
    stacks: Vec<Stack>,
}

impl Found {
    pub(super) fn page(&self, from: usize) -> Page {
        let end = self.stacks.len().min(from.saturating_add(STACKS_A_PAGE));
        Page {
            code: if from == 0 { self.code.clone() } else { Vec::new() },
            stacks: self.stacks.get(from..end).unwrap_or_default().to_vec(),
            next: (end < self.stacks.len()).then_some(end),
        }
    }
}

/// Distinct stacks by number, while sampling.
#[derive(Default)]
pub(super) struct Tally {
    names: HashMap<i32, String>,
    numbers: HashMap<(i32, Vec<Frame>), usize>,
    /// By number: the sum, and the part of it that is not freed.
    sums: Vec<(u64, u64)>,
}

impl Tally {
    /// Adds a sample; returns the number of its stack, or `None` if there is no room for another
    /// one.
    pub(super) fn add(&mut self, thread: i32, frames: Vec<Frame>, weight: u64) -> Option<usize> {
        self.names.entry(thread).or_insert_with(|| name(thread));
        let (room, next) = (self.sums.len() < STACKS_MAX, self.sums.len());
        let number = match self.numbers.get(&(thread, frames.clone())) {
            Some(number) => *number,
            None if room => {
                self.numbers.insert((thread, frames), next);
                self.sums.push((0, 0));
                next
            }
            None => return None,
        };
        self.sums[number].0 += weight;
        Some(number)
    }

    /// Adds this weight to the part of a stack that is not freed.
    pub(super) fn keep(&mut self, number: usize, weight: u64) {
        self.sums[number].1 += weight;
    }

    pub(super) fn found(self, code: Vec<Code>) -> Found {
        let Tally { names, numbers, sums } = self;
        let mut stacks: Vec<Stack> = numbers
            .into_iter()
            .map(|((thread, frames), number)| {
                let (count, kept) = sums[number];
                Stack { thread: names[&thread].clone(), count, kept, frames }
            })
            .collect();
        stacks.sort_by(|a, b| (&a.thread, &a.frames).cmp(&(&b.thread, &b.frames)));
        Found { code, stacks }
    }
}

/// The name of a thread, as `top -H` shows it; its number if it has ended.
fn name(thread: i32) -> String {
    let path = format!("/proc/self/task/{thread}/comm");
    std::fs::read_to_string(path).map_or_else(|_| format!("thread {thread}"), |name| name.trim_end().to_owned())
}
