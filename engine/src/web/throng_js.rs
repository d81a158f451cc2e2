//! `throng.js`, the client library of notifications for pages, embedded in the program.

use std::borrow::Cow;

use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;

/// The row of this path.
pub const ROW: Row = Row::of("/throng.js", &[Method::Get], Origins::Any, handle);

/// The module as compiled from `web/throng.ts`.
pub const MODULE: &str = include_str!("../../../web/dist/throng.js");

/// A hash (FNV-1a) that changes with the module; it has no other purpose.
const HASH: u64 = {
    let (bytes, mut hash, mut at) = (MODULE.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
};

fn handle(request: &Request<'_>, site: &Site<'_>) -> Answer {
    if site.policy.channels.prefixes.is_empty() {
        return Answer::Response(Response::text(Status::NotFound, "nothing is served at this path"));
    }
    let tag = format!("\"{HASH:016x}\"");
    // RFC 9110 13.1.2: the comparison is weak.
    let known = request.head.list("if-none-match").any(|own| own == "*" || own.trim_start_matches("W/") == tag);
    let mut response = Response::empty(if known { Status::NotModified } else { Status::Ok });
    if !known {
        (response.content_type, response.body) = ("text/javascript; charset=utf-8", Cow::Borrowed(MODULE.as_bytes()));
    }
    // Pages revalidate it each time, so that they get the new version as soon as the server has
    // been updated.
    Answer::Response(response.with("ETag", tag).with("Cache-Control", "no-cache"))
}
