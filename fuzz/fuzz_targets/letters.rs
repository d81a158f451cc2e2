//! What another process has written: whatever the bytes are, reading them does not panic, a value
//! that is read can be written and read again without a change, and what a letter refers to is
//! within its batch. The same for frames of a link.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::codec::rewrite;
use throng_engine::id::Now;
use throng_engine::link::{Link, Terms};

/// Later than any time in a value, so that ages return as they were.
const NOW: Now = Now::new(u64::MAX, 0);

fuzz_target!(|bytes: &[u8]| {
    if let Ok(once) = rewrite(bytes, NOW) {
        assert_eq!(rewrite(&once, NOW).as_ref(), Ok(&once));
    }
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
