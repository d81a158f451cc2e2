//! The chat page, embedded in the program, and what it has to know of this server.

use serde::Serialize;

use super::file::File;
use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use crate::wire::jid::normalise_domain;
use crate::wire::json;

/// The page.
pub const PAGE: Row = Row::of("/", &[Method::Get], Origins::Any, |request, site| {
    // No other page may show it in a frame, and so make users click on what they do not see. A page
    // cannot forbid that by itself (CSP 3, 3.3).
    served(site, || HTML.answer(request).with("Content-Security-Policy", "frame-ancestors 'none'"))
});

/// Its script.
pub const SCRIPT: Row =
    Row::of("/chat.js", &[Method::Get], Origins::Any, |request, site| served(site, || JS.answer(request)));

/// Its style.
pub const STYLE: Row =
    Row::of("/chat.css", &[Method::Get], Origins::Any, |request, site| served(site, || CSS.answer(request)));

/// The domain of names that are typed without one.
pub const SETTINGS: Row = Row::of("/chat.json", &[Method::Get], Origins::Any, |request, site| {
    let settings = || json::line(&Settings { domain: domain(request, site) });
    served(site, || Response::json(settings()).with("Cache-Control", "no-cache"))
});

#[derive(Serialize)]
struct Settings<'a> {
    domain: &'a str,
}

const HTML: File = File::of("text/html; charset=utf-8", include_str!("../../../web/dist/chat/index.html"));
const JS: File = File::of("text/javascript; charset=utf-8", include_str!("../../../web/dist/chat/chat.js"));
const CSS: File = File::of("text/css; charset=utf-8", include_str!("../../../web/dist/chat/chat.css"));

fn served(site: &Site<'_>, response: impl FnOnce() -> Response) -> Answer {
    Answer::Response(if site.policy.chat_page { response() } else { Response::nothing_here() })
}

/// The domain that the client has used, if it has accounts, or else the main one.
fn domain<'a>(request: &Request<'_>, site: &Site<'a>) -> &'a str {
    let host = request.head.host.unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let known = normalise_domain(name).ok().and_then(|name| site.domains.find_users(&name));
    known.map_or(site.domains.main(), |id| site.domains.name(id))
}
