//! Requests of HTTP: reading any never panics, what is read does not depend on how it came, and a request that is read says one thing
//! only: written again from what was read, it is the same request.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::limits::HTTP_HEAD_BYTES_MAX;
use throng_engine::web::body::Body;
use throng_engine::web::head::{Content, Head, empty_lines, read};
use throng_engine::web::status::Refusal;

const BODY_BYTES_MAX: usize = 1_000;

/// The head at the beginning, of bytes that come in pieces of this length.
fn head(bytes: &[u8], pieces: usize) -> Result<Option<Head<'_>>, Refusal> {
    let (mut seen, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + pieces);
        match read(&bytes[..end], seen) {
            Ok(None) => seen = end,
            other => return other,
        }
    }
    Ok(None)
}

/// The body behind it: its bytes, and how many it used up.
fn body(content: Content, bytes: &[u8], pieces: usize) -> Result<Option<(Vec<u8>, usize)>, Refusal> {
    let mut body = Body::new(content, BODY_BYTES_MAX)?;
    let (mut at, mut end) = (0, 0);
    while !body.is_done() {
        if end == bytes.len() {
            return Ok(None);
        }
        end = bytes.len().min(end + pieces);
        at += body.read(&bytes[at..end])?;
        assert!(body.bytes().len() <= BODY_BYTES_MAX && end - at < HTTP_HEAD_BYTES_MAX + pieces);
    }
    Ok(Some((body.bytes().to_vec(), at)))
}

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let bytes = &bytes[empty_lines(bytes)..];
    let pieces = usize::from(*first) + 1;
    let (whole, cut) = (head(bytes, bytes.len().max(1)), head(bytes, pieces));
    let (whole, cut) = match (whole, cut) {
        (Ok(Some(whole)), Ok(Some(cut))) => (whole, cut),
        // A long head is refused for its length, or for what stands in it, whichever is seen first.
        (Ok(Some(head)), other) => panic!("{head:?} and {other:?}"),
        (other, Ok(Some(head))) => panic!("{other:?} and {head:?}"),
        _ => return,
    };
    assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
    assert!(whole.bytes <= bytes.len() && whole.bytes <= HTTP_HEAD_BYTES_MAX);
    let lengths = whole.all("content-length").count();
    let codings = whole.all("transfer-encoding").count();
    assert!(lengths + codings <= 1 || (lengths == 0 && whole.content == Content::Chunked));
    assert!(!bytes[..whole.bytes].windows(2).any(|pair| pair[1] == b'\n' && pair[0] != b'\r'), "a bare line feed");
    let behind = &bytes[whole.bytes..];
    let (whole_body, cut_body) = (body(whole.content, behind, behind.len().max(1)), body(whole.content, behind, pieces));
    match (whole_body, cut_body) {
        (Ok(Some(whole)), Ok(Some(cut))) => assert_eq!(whole, cut),
        (Ok(None), Ok(None)) | (Err(_), Err(_)) => {}
        (whole, cut) => panic!("{whole:?} and {cut:?}"),
    }
});
