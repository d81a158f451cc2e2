//! Where a request has its token: in the header, in the address, or in a cookie, which pages of others must not use.
//!
//! A browser sends a cookie along with whatever any page asks. So it counts only if the page is one of the operator's, or of the same
//! address as the server; nothing else here is sent without the page's doing.

use super::form::decoded;
use crate::web::access::shown::Shown;
use crate::web::head::{Head, Method};
use crate::web::policy::Policy;
use crate::web::request::Request;
use crate::web::response::Response;
use crate::web::status::Status;

/// Cookies that have a token, in the drafts up to 07 and from 08 on.
const COOKIES: [&str; 2] = ["mercureAuthorization", "mercureAccessToken"];
/// Members of the address that have one.
const QUERIES: [&str; 2] = ["authorization", "access_token"];

/// The answer to a request that cannot be.
pub type Refused = Box<Response>;

fn several<T>() -> Result<T, Refused> {
    let text = "a token is shown once: by Authorization, in the address, or by a cookie";
    let challenge = "Bearer realm=\"channels\", error=\"invalid_request\"";
    Err(Box::new(Response::text(Status::BadRequest, text).with("WWW-Authenticate", challenge)))
}

/// What a request shows. Of several ways the first one counts: the header, the address, the cookie.
///
/// # Errors
/// The answer: it shows several in one way, or the cookie of a page that may not.
pub fn by(request: &Request<'_>, policy: &Policy) -> Result<Shown, Refused> {
    let head = request.head;
    let mut fields = head.all("authorization");
    if let Some(field) = fields.next() {
        return if fields.next().is_some() { several() } else { Ok(Shown::of(field)) };
    }
    let mut queries =
        head.query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| QUERIES.contains(name));
    if let Some((_, token)) = queries.next() {
        if queries.next().is_some() {
            return several();
        }
        let token = decoded(token).filter(|token| !token.is_empty());
        return Ok(token.map_or(Shown::Other, |token| Shown::Query(token.as_ref().into())));
    }
    let cookies =
        head.all("cookie").flat_map(|field| field.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    let mut cookies = cookies.filter(|(name, token)| COOKIES.contains(name) && !token.is_empty());
    let Some((_, token)) = cookies.next() else { return Ok(Shown::Nothing) };
    if cookies.next().is_some() {
        return several();
    }
    if !is_of_us(request, policy) {
        let text =
            "the cookie counts for pages of the server's own address, and of those that its option http_origins names";
        return Err(Box::new(Response::text(Status::Forbidden, text)));
    }
    Ok(Shown::Query(token.into()))
}

/// Whether the page that asks may use cookies. Pages of which no origin is said ask of their own (Fetch 3.2): with GET, and what they are
/// answered nobody else reads.
fn is_of_us(request: &Request<'_>, policy: &Policy) -> bool {
    let head = request.head;
    let Some(origin) = head.one("origin") else {
        // Newer browsers say it in any case (Fetch Metadata 2.4).
        return head.method != Method::Post
            && head.one("sec-fetch-site").is_none_or(|site| ["same-origin", "none"].contains(&site));
    };
    policy.lists(origin) || is_own(head, origin, request.secured)
}

/// Whether an origin is the server's as the client has asked for it. Before a proxy either scheme may be its own.
fn is_own(head: &Head<'_>, origin: &str, secured: bool) -> bool {
    let host = match origin.split_once("://") {
        Some(("https", host)) => Some(host),
        Some(("http", host)) if !secured => Some(host),
        _ => None,
    };
    host.is_some_and(|host| head.host.is_some_and(|own| own.eq_ignore_ascii_case(host)))
}
