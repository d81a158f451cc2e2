//! Allocation profiles: samples of the stacks that allocated memory, and how much of it is still
//! allocated at the end.

use std::io;

use super::stacks::{Found, Tally};
use super::unwind::Stacks;
use super::{DRAIN_EVERY, Run};
use throng_sys::{HeapSampler, Kept};

/// Most samples whose deallocation is tracked; further ones count as dropped. 32 MB.
const SAMPLES_MAX: usize = 1_000_000;

/// Samples allocations of all threads except this one, about every `step` bytes, until the run is
/// over.
pub(super) fn run(run: &Run, step: u64) -> io::Result<Found> {
    let mut stacks = Stacks::of_this_process()?;
    let mut sampler = HeapSampler::start(step)?;
    let mut tally = Tally::default();
    // Number of the stack, bytes, and the piece.
    let mut followed: Vec<(usize, u64, Kept)> = Vec::new();
    let (mut samples, mut beyond) = (0, 0);
    run.begin();
    loop {
        let over = run.is_over();
        sampler.drain(|sample| {
            samples += 1;
            let (thread, weight, kept) = (sample.thread, sample.weight, sample.kept);
            let number = tally.add(thread, stacks.frames(sample), weight);
            match number.filter(|_| kept.is_followed() && followed.len() < SAMPLES_MAX) {
                Some(number) => followed.push((number, weight, kept)),
                None => beyond += 1,
            }
        });
        run.note(samples, sampler.dropped() + beyond);
        if over {
            break;
        }
        std::thread::sleep(DRAIN_EVERY);
    }
    // Deallocations are tracked as long as there is a sampler.
    for (number, weight, _) in followed.iter().filter(|(_, _, kept)| kept.is_there()) {
        tally.keep(*number, *weight);
    }
    drop(sampler);
    Ok(tally.found(stacks.code))
}
