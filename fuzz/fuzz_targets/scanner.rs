//! The scanner over any bytes: no panic, no split changes the outcome, and an independent parser agrees.
//!
//! The first byte chooses the size limit and how the rest is split.
#![no_main]

#[path = "../../engine/tests/wire/reference.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use throng_engine::limits::wire::MAX_STANZA_BYTES_DEFAULT;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    let max_bytes = if choice & 1 == 0 { MAX_STANZA_BYTES_DEFAULT } else { choice as usize };
    let step = (choice >> 1) as usize % 13 + 1;
    for opening in [false, true] {
        let whole = reference::scan(bytes, opening, max_bytes, []);
        assert_eq!(whole, reference::scan(bytes, opening, max_bytes, (0..bytes.len()).step_by(step)));
    }
    if let Some(difference) = reference::disagreement(bytes) {
        panic!("{difference}");
    }
});
