//! What it costs a thread to say where it waits: `cargo run --profile dist -p throng --example waits`.

use std::time::Instant;

use throng::waits::{Counting, Mutex, Pattern, Place, at, enter};

const WAITS: u32 = 10_000_000;

fn measure(what: &str, mut each: impl FnMut()) {
    let began = Instant::now();
    (0..WAITS).for_each(|_| each());
    println!("{what}: {:.2} ns", began.elapsed().as_secs_f64() * 1e9 / f64::from(WAITS));
}

fn wait() {
    let _at = std::hint::black_box(at(std::hint::black_box(Place::Network)));
}

fn main() {
    measure("a wait of a thread that is not on the list", wait);
    let _on_the_list = enter("example");
    measure("a wait", wait);
    let counting = Counting::start(Pattern::new("example"));
    measure("a wait that is counted", wait);
    drop(counting);
    let (lock, plain) = (Mutex::new(Place::LockBackup, 0_u64), std::sync::Mutex::new(0_u64));
    measure("a free lock", || *std::hint::black_box(&lock).lock() += 1);
    measure("the standard library's", || *std::hint::black_box(&plain).lock().expect("whole") += 1);
}
