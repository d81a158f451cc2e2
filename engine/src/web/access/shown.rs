//! Where a request has its token (RFC 6750 2): in the header, or in the address, since neither `EventSource` nor `WebSocket` of a browser
//! sends headers of its page. No cookie is looked at at `/n/`: a browser would send it along with what pages of others ask. `web::dialect::mercure`
//! has other ways.

use super::super::head::Head;
use super::super::response::Response;
use super::super::status::Status;

/// What a request shows.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Shown {
    /// Nothing.
    #[default]
    Nothing,
    /// This, as `Authorization: Bearer` (RFC 6750 2.1).
    Bearer(Box<str>),
    /// This, as `access_token` of the address (2.3), or in another way in which it is not the operator's.
    Query(Box<str>),
    /// Something that is no token: `Authorization` of another scheme, or without anything.
    Other,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Shown::Nothing => "Nothing",
            Shown::Bearer(_) => "Bearer",
            Shown::Query(_) => "Query",
            Shown::Other => "Other",
        })
    }
}

/// The response to a request that shows several things.
pub fn several(text: &'static str) -> Box<Response> {
    let challenge = "Bearer realm=\"channels\", error=\"invalid_request\"";
    Box::new(Response::text(Status::BadRequest, text).with("WWW-Authenticate", challenge))
}

impl Shown {
    /// What a request shows.
    ///
    /// # Errors
    /// It shows several things, which it must not (RFC 6750 2).
    pub fn by(head: &Head<'_>) -> Result<Shown, Box<Response>> {
        let queries = head.query.split('&').filter_map(|pair| pair.strip_prefix("access_token="));
        let fields = head.all("authorization").map(Some).chain(queries.map(|_| None));
        if fields.count() > 1 {
            return Err(several("a token must be sent once: in Authorization or in access_token"));
        }
        if let Some(field) = head.all("authorization").next() {
            return Ok(Shown::of(field));
        }
        let query = head.query.split('&').find_map(|pair| pair.strip_prefix("access_token="));
        Ok(query.map_or(Shown::Nothing, |token| Shown::Query(token.into())))
    }

    /// What `Authorization` shows.
    pub fn of(field: &str) -> Shown {
        let (scheme, token) = field.split_once(' ').unwrap_or((field, ""));
        let token = token.trim();
        let bears = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
        if bears { Shown::Bearer(token.into()) } else { Shown::Other }
    }

    /// The token.
    pub fn token(&self) -> Option<&str> {
        match self {
            Shown::Bearer(token) | Shown::Query(token) => Some(token),
            Shown::Nothing | Shown::Other => None,
        }
    }
}
