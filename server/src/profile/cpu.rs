//! CPU profiles: samples of the stacks of running threads.

use std::io;
use std::time::{Duration, Instant};

use super::stacks::{Found, Tally};
use super::unwind::Stacks;
use super::{DRAIN_EVERY, Run};
use throng_sys::TimeSampler;

/// Interval at which new threads are looked for.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Samples all threads except this one until the run is over.
pub(super) fn run(run: &Run, hz: u32) -> io::Result<Found> {
    let mut stacks = Stacks::of_this_process()?;
    let mut sampler = TimeSampler::start(hz)?;
    let mut tally = Tally::default();
    let (mut samples, mut beyond) = (0, 0);
    let mut followed: Option<Instant> = None;
    run.begin();
    loop {
        let over = run.is_over();
        if !over && followed.is_none_or(|at| at.elapsed() >= FOLLOW_EVERY) {
            sampler.follow()?;
            followed = Some(Instant::now());
        }
        sampler.drain(|sample| {
            samples += 1;
            let (thread, weight) = (sample.thread, sample.weight);
            beyond += u64::from(tally.add(thread, stacks.frames(sample), weight).is_none());
        });
        run.note(samples, sampler.dropped() + beyond);
        if over {
            break;
        }
        std::thread::sleep(DRAIN_EVERY);
    }
    drop(sampler);
    Ok(tally.found(stacks.code))
}
