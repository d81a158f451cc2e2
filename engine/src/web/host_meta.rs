//! Where the WebSocket is (XEP-0156), as `host-meta` documents (RFC 6415).

use std::borrow::Cow;

use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;
use super::websocket;
use crate::wire::jid::normalise_domain;
use crate::wire::text::Writer;

/// As XRD (RFC 6415 2).
pub const XML: Row = Row {
    path: "/.well-known/host-meta",
    methods: &[Method::Get],
    body_bytes_max: 0,
    origins: Origins::Any,
    handle: |request, site| document(request, site, "application/xrd+xml", xml),
};

/// As JRD (RFC 6415 appendix A).
pub const JSON: Row = Row {
    path: "/.well-known/host-meta.json",
    methods: &[Method::Get],
    body_bytes_max: 0,
    origins: Origins::Any,
    handle: |request, site| document(request, site, "application/json", json),
};

const RELATION: &str = "urn:xmpp:alt-connections:websocket";

fn document(request: &Request<'_>, site: &Site<'_>, content_type: &'static str, write: fn(&str) -> String) -> Answer {
    let response = match url(request, site) {
        Some(url) => {
            let mut response = Response::empty(Status::Ok);
            (response.content_type, response.body) = (content_type, Cow::Owned(write(&url)));
            response
        }
        None => Response::text(Status::NotFound, "no address of a WebSocket is known for this host"),
    };
    Answer::Response(response)
}

/// The address that the operator has given, or the one by which the client is here, if that is a served domain's. Others than `wss`
/// must not be told (XEP-0156 3).
fn url<'a>(request: &Request<'_>, site: &Site<'a>) -> Option<Cow<'a, str>> {
    if let Some(url) = &site.policy.websocket_url {
        return Some(Cow::Borrowed(url));
    }
    let host = request.head.host.filter(|_| request.secured)?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    // What is told is told to whoever asks next, too, if it is kept somewhere on the way: nobody else's host gets into it.
    site.domains.find_users(&normalise_domain(name).ok()?)?;
    Some(Cow::Owned(format!("wss://{host}{}", websocket::PATH)))
}

fn xml(url: &str) -> String {
    let mut out = b"<?xml version='1.0' encoding='utf-8'?>\n".to_vec();
    let mut w = Writer::new(&mut out);
    w.open("XRD").attribute("xmlns", "http://docs.oasis-open.org/ns/xri/xrd-1.0");
    w.open("Link").attribute("rel", RELATION).attribute("href", url).close().close();
    out.push(b'\n');
    String::from_utf8(out).unwrap_or_default()
}

fn json(url: &str) -> String {
    // An address has nothing in it that JSON would have to escape, but for these.
    let url = url.replace('\\', "%5C").replace('"', "%22");
    format!("{{\"links\":[{{\"rel\":\"{RELATION}\",\"href\":\"{url}\"}}]}}\n")
}
