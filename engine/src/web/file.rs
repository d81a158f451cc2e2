//! Files that are embedded in the program.

use std::borrow::Cow;

use super::request::Request;
use super::response::Response;
use super::status::Status;

/// A file with its media type.
#[derive(Clone, Copy, Debug)]
pub struct File {
    content_type: &'static str,
    content: &'static str,
    hash: u64,
}

impl File {
    /// A file; its hash is computed when the program is compiled.
    pub const fn of(content_type: &'static str, content: &'static str) -> File {
        File { content_type, content, hash: hash(content.as_bytes()) }
    }

    /// The response with this file, or that the client has it already (RFC 9110 13.1.2).
    pub fn answer(&self, request: &Request<'_>) -> Response {
        let tag = format!("\"{:016x}\"", self.hash);
        // The comparison is weak.
        let known = request.head.list("if-none-match").any(|own| own == "*" || own.trim_start_matches("W/") == tag);
        let mut response = Response::empty(if known { Status::NotModified } else { Status::Ok });
        if !known {
            (response.content_type, response.body) = (self.content_type, Cow::Borrowed(self.content.as_bytes()));
        }
        // Browsers revalidate it each time, so that they get the new version as soon as the server
        // has been updated.
        response.with("ETag", tag).with("Cache-Control", "no-cache")
    }
}

/// A hash (FNV-1a) that changes with the content; it has no other purpose.
const fn hash(bytes: &[u8]) -> u64 {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}
