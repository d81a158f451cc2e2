//! The token of a request: in the header, in the query, or in a cookie, which pages of other
//! origins must not use.
//!
//! A browser sends a cookie with the requests of any page. A cookie therefore counts only if the
//! page is one of the operator's, or of the server's own origin. The other credentials are sent
//! only by the page itself.

use crate::web::access::shown::{self, Shown};
use crate::web::dialect::asked::{Refused, refuse};
use crate::web::form::decoded;
use crate::web::policy::Policy;
use crate::web::request::Request;
use crate::web::status::Status;

/// Cookies with a token, in the drafts up to 07 and from 08 on.
const COOKIES: [&str; 2] = ["mercureAuthorization", "mercureAccessToken"];
/// Query parameters with a token.
const QUERIES: [&str; 2] = ["authorization", "access_token"];

fn several<T>() -> Result<T, Refused> {
    Err(shown::several("a token must be sent once: in Authorization, in the URL, or in a cookie"))
}

/// The credentials of a request. The order of precedence is header, query, cookie.
///
/// # Errors
/// The response, if there are several of one kind, or if the page may not use the cookie.
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
        let text = "the cookie is accepted only from pages of the server's own address or of an origin in http_origins";
        return refuse(Status::Forbidden, text);
    }
    Ok(Shown::Query(token.into()))
}
