//! Splicing any stanza of any stream: the copy scans again and means the same.
//!
//! Input: the new `from`, the stream's header, stanzas, with a newline between the first two.
#![no_main]

#[path = "../../engine/tests/wire/reference.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(line) = input.iter().position(|&byte| byte == b'\n') else {
        return;
    };
    let (Ok(from), rest) = (std::str::from_utf8(&input[..line]), &input[line + 1..]) else {
        return;
    };
    let Some(line) = rest.iter().position(|&byte| byte == b'\n') else {
        return;
    };
    let Ok(header) = std::str::from_utf8(&rest[..line]) else {
        return;
    };
    reference::check_splices(header, &rest[line + 1..], from);
    reference::check_splices(reference::HEADER, &rest[line + 1..], from);
});
