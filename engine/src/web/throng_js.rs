//! `throng.js`, the client library of notifications for pages, embedded in the program.

use super::file::File;
use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};

/// The row of this path.
pub const ROW: Row = Row::of("/throng.js", &[Method::Get], Origins::Any, handle);

/// The module as compiled from `web/throng.ts`.
pub const MODULE: &str = include_str!("../../../web/dist/throng.js");

const FILE: File = File::of("text/javascript; charset=utf-8", MODULE);

fn handle(request: &Request<'_>, site: &Site<'_>) -> Answer {
    let off = site.policy.channels.prefixes.is_empty();
    Answer::Response(if off { Response::nothing_here() } else { FILE.answer(request) })
}
