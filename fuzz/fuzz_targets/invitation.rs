//! What a stranger shows as a token, and the rows that it leads to; rows of users' reports.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::extension::invite::{names, shown, token, with_request};
use throng_engine::store::{invitation, report};

fuzz_target!(|input: (&str, &[u8], &[u8])| {
    let (text, sort, row) = input;
    if let Some(actor) = token::actor(text, "example.org") {
        assert!(actor == "example.org" || actor.ends_with("@example.org"));
        assert_eq!(actor.matches('@').count(), usize::from(actor != "example.org"));
        assert!(text.len() <= token::TOKEN_CHARS_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
    let _ = (shown(row), with_request(row), invitation::is_whole(sort, row), report::is_whole(sort, row));
    assert!(names::is_reserved(&[text.into()], text));
});
