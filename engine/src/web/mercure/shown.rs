//! Where a request has its token: in the header, in the address, or in a cookie, which pages of others must not use.
//!
//! A browser sends a cookie along with whatever any page asks. So it counts only if the page is one of the operator's, or of the same
//! address as the server; nothing else here is sent without the page's doing.

use super::form::decoded;
use crate::web::access::shown::Shown;
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
    if !request.is_of_us(policy) {
        let text =
            "the cookie counts for pages of the server's own address, and of those that its option http_origins names";
        return Err(Box::new(Response::text(Status::Forbidden, text)));
    }
    Ok(Shown::Query(token.into()))
}
