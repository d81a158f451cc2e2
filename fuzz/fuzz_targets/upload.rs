//! What comes of a file's name on its way through a URL, and any text as the token of a slot.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::extension::upload::slot::{Fault, Slot, decode_segment, encode_segment, is_id, safe_name};

fuzz_target!(|input: (&str, &str)| {
    let (text, token) = input;
    let name = safe_name(text);
    assert!(!name.is_empty() && name.len() <= 255 && !name.contains(['/', '\\', '\0', '\r', '\n']));
    assert_eq!(safe_name(&name), name, "a safe name stays as it is");
    let mut segment = String::new();
    encode_segment(&mut segment, &name);
    assert!(segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)));
    assert_eq!(decode_segment(&segment).as_deref(), Some(&*name));
    let _ = (decode_segment(text), is_id(text));
    assert_eq!(Slot::read(&[7; 32], text, &name, token, 0), Err(Fault::Forged), "nobody finds the tag");
});
