//! What another process has written: whatever the bytes are, reading them does not panic, a value that is read can be
//! written and read again without a change, and what a letter refers to is within its batch. The same for frames of a link.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::codec::{Written, decode, encode};
use throng_engine::id::Now;
use throng_engine::letters::Letters;
use throng_engine::link::{Link, Terms};
use throng_engine::session::moved::{Handover, Moved};
use throng_engine::session::sm::Managed;

/// Later than any time in a value, so that ages return as they were.
const NOW: Now = Now::new(u64::MAX, 0);

fn reads<T: Written + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = decode::<T>(bytes, NOW) else { return };
    let written = encode(value, NOW).expect("what was read can be written");
    let once: T = decode(&written, NOW).expect("what was written can be read");
    let again = encode(once, NOW).expect("what was read can be written");
    assert_eq!(written, again);
}

fuzz_target!(|bytes: &[u8]| {
    reads::<Letters>(bytes);
    reads::<Moved>(bytes);
    reads::<Handover>(bytes);
    reads::<Managed>(bytes);
    let mut link = Link::new(1, Terms(0));
    if link.handle(bytes).is_ok() {
        while let Some(received) = link.poll_received() {
            drop(received);
        }
        while let Some(frame) = link.poll_frame(0) {
            assert!(frame.len() < 80, "nothing was sent");
        }
    }
});
