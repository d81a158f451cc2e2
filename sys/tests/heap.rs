//! The program's allocator, looked at while threads use it: estimates against what is known to have been allocated.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use throng_sys::{Allocator, HeapSampler, Kept};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// There is one sampler a process.
static ONE: Mutex<()> = Mutex::new(());

/// Runs `work` on a thread of its own while it is sampled; how many bytes were seen of that thread, and of them kept at the end.
/// What `work` returns lives until then.
fn sampled<T: Send + 'static>(step: u64, work: impl FnOnce() -> T + Send + 'static) -> (u64, u64) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut sampler = HeapSampler::start(step).expect("the only one");
    let worker = std::thread::spawn(move || {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        (id, work())
    });
    let mut seen: Vec<(i32, u64, Kept)> = Vec::new();
    let began = Instant::now();
    loop {
        let done = worker.is_finished();
        sampler.drain(|sample| {
            assert!(sample.stack.len() > 64 && sample.registers.ip != 0, "there is something to unwind");
            seen.push((sample.thread, sample.weight, sample.kept));
        });
        if done {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_micros(100));
    }
    assert_eq!(sampler.dropped(), 0);
    let (id, kept) = worker.join().expect("it ends");
    let own: Vec<_> = seen.into_iter().filter(|(thread, ..)| *thread == id).collect();
    let all = own.iter().map(|(_, weight, _)| weight).sum();
    let left = own.iter().filter(|(_, _, kept)| kept.is_there()).map(|(_, weight, _)| weight).sum();
    drop(kept);
    (all, left)
}

fn near(seen: u64, truth: u64) {
    // Some 1,600 samples, so one of a hundred runs would be off by 6 % if the steps did not vary less than at random.
    assert!(seen.abs_diff(truth) * 10 < truth, "{seen} seen of {truth}");
}

#[test]
fn bytes_are_seen_as_they_are_allocated_and_freed() {
    const STEP: u64 = 64 << 10;
    // A hundred MiB in pieces of 1 KiB, of which every second is kept; the pauses leave the sampler time to take samples out.
    let small = || {
        let mut kept = Vec::with_capacity(51_200);
        for n in 0..102_400 {
            let piece = vec![1_u8; 1 << 10].into_boxed_slice();
            if n % 2 == 0 {
                kept.push(piece);
            }
            if n % 4_096 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        kept
    };
    let (all, left) = sampled(STEP, small);
    near(all, 100 << 20);
    near(left, 50 << 20);

    // Pieces larger than a step stand for themselves; what grows in place or moves is freed and allocated anew.
    let large = || {
        let mut grown: Vec<Vec<u8>> = (0..50).map(|_| vec![2; 1 << 20]).collect();
        for piece in &mut grown {
            piece.reserve_exact(1 << 20);
            std::thread::sleep(Duration::from_micros(500));
        }
        grown
    };
    let (all, left) = sampled(STEP, large);
    near(all, 150 << 20);
    near(left, 100 << 20);
}

#[test]
fn who_looks_is_not_seen_and_nobody_is_after_the_end() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let mut sampler = HeapSampler::start(8).expect("the only one");
    assert!(HeapSampler::start(8).is_err(), "one at a time");
    let pieces: Vec<Box<[u8]>> = (0..100).map(|_| vec![3; 100].into_boxed_slice()).collect();
    let mut seen = 0;
    sampler.drain(|sample| seen += u64::from(sample.thread == own));
    assert_eq!(seen, 0);
    drop((sampler, pieces));
    drop(HeapSampler::start(8).expect("the last one has ended"));
}
