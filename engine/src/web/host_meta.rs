//! Discovery of WebSocket and BOSH (XEP-0156) by `host-meta` documents (RFC 6415).

use std::borrow::Cow;

use serde::Serialize;

use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;
use super::{bosh, websocket};
use crate::wire::jid::normalise_domain;
use crate::wire::json;
use crate::wire::text::Writer;

/// As XRD (RFC 6415 2).
pub const XML: Row = Row::of("/.well-known/host-meta", &[Method::Get], Origins::Any, |request, site| {
    document(request, site, "application/xrd+xml", xml)
});

/// As JRD (RFC 6415 appendix A).
pub const JSON: Row = Row::of("/.well-known/host-meta.json", &[Method::Get], Origins::Any, |request, site| {
    document(request, site, "application/json", jrd)
});

const WEBSOCKET: &str = "urn:xmpp:alt-connections:websocket";
const BOSH: &str = "urn:xmpp:alt-connections:xbosh";

/// Relation and address of each link.
type Links<'a> = [(&'static str, Cow<'a, str>)];

fn document(
    request: &Request<'_>,
    site: &Site<'_>,
    content_type: &'static str,
    write: fn(&Links<'_>) -> Vec<u8>,
) -> Answer {
    let given = [(WEBSOCKET, &site.policy.websocket_url), (BOSH, &site.policy.bosh_url)];
    let asked = host(request, site);
    let own = [("wss", websocket::PATH), ("https", bosh::PATH)];
    let links: Vec<_> = given
        .into_iter()
        .zip(own)
        .filter_map(|((relation, given), (scheme, path))| match (given, asked) {
            (Some(url), _) => Some((relation, Cow::Borrowed(&**url))),
            (None, Some(host)) => Some((relation, Cow::Owned(format!("{scheme}://{host}{path}")))),
            (None, None) => None,
        })
        .collect();
    let response = match &links[..] {
        [] => Response::text(Status::NotFound, "no WebSocket address is configured for this host"),
        links => {
            let mut response = Response::empty(Status::Ok);
            (response.content_type, response.body) = (content_type, Cow::Owned(write(links)));
            response
        }
    };
    Answer::Response(response)
}

/// The host that the client has used, if it is a served domain's. Without TLS no links are
/// published: only `wss` and `https` are permitted (XEP-0156 3).
fn host<'a>(request: &Request<'a>, site: &Site<'_>) -> Option<&'a str> {
    let host = request.head.host.filter(|_| request.secured)?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    // Caches may pass the response on to other clients, so a foreign host must not get into it.
    site.domains.find_users(&normalise_domain(name).ok()?)?;
    Some(host)
}

fn xml(links: &Links<'_>) -> Vec<u8> {
    let mut out = b"<?xml version='1.0' encoding='utf-8'?>\n".to_vec();
    let mut w = Writer::new(&mut out);
    w.open("XRD").attribute("xmlns", "http://docs.oasis-open.org/ns/xri/xrd-1.0");
    for (relation, url) in links {
        w.open("Link").attribute("rel", relation).attribute("href", url).close();
    }
    w.close();
    out.push(b'\n');
    out
}

fn jrd(links: &Links<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Link<'a> {
        rel: &'a str,
        href: &'a str,
    }
    #[derive(Serialize)]
    struct Jrd<'a> {
        links: Vec<Link<'a>>,
    }
    json::line(&Jrd { links: links.iter().map(|(rel, href)| Link { rel, href }).collect() })
}
