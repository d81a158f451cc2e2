//! The table of paths. A new path is a file in this folder and a row here; its handler is a pure
//! function of data.

use super::head::{Content, Head, Method};
use super::inquiry::Sent;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::{Refusal, Status};
use super::{acme, bosh, chat_page, dialect, host_meta, throng_js, websocket};

/// The rows of all paths, except those of [dialects](dialect::ROWS).
pub const TABLE: &[Row] = &[
    websocket::ROW,
    bosh::ROW,
    host_meta::XML,
    host_meta::JSON,
    acme::ROW,
    throng_js::ROW,
    chat_page::PAGE,
    chat_page::SCRIPT,
    chat_page::STYLE,
    chat_page::SETTINGS,
    #[cfg(debug_assertions)]
    super::echo::ROW,
];

/// Finds the row of a request that its handler has to answer.
///
/// # Errors
/// The response to any other request.
pub fn route(head: &Head<'_>, site: &Site<'_>) -> Result<&'static Row, Response> {
    let ends = |response: Response| {
        // The body after such a head is not read.
        if head.content == Content::Nothing { response } else { response.closing() }
    };
    if head.path == "*" {
        return Err(ends(Response::empty(Status::NoContent)));
    }
    let Some(row) = rows().find(|row| is_at(row, head.path)) else {
        return Err(ends(Response::nothing_here()));
    };
    let origins = head.all("origin").count();
    if row.origins == Origins::Policy && (origins > 1 || !site.policy.allows(head.one("origin"))) {
        return Err(ends(Response::text(Status::Forbidden, "pages of this origin may not connect here")));
    }
    let asks = match head.method {
        Method::Head => Method::Get,
        other => other,
    };
    if head.method == Method::Options {
        return Err(ends(preflight(row, head, site)));
    }
    if !row.methods.contains(&asks) {
        let response = Response::text(Status::MethodNotAllowed, "this method is not allowed at this path");
        return Err(ends(response.with("Allow", methods(row))));
    }
    Ok(row)
}

/// The rows of all paths.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().chain(dialect::ROWS.iter().copied().flatten())
}

/// Whether a path is one of channels.
pub fn is_of_channels(path: &str) -> bool {
    dialect::ROWS.iter().copied().flatten().any(|row| is_at(row, path))
}

/// Whether a path belongs to a row. The root is a path of its own.
fn is_at(row: &Row, path: &str) -> bool {
    let below = |rest: &str| row.path.len() > 1 && row.path.ends_with('/') && !rest.is_empty();
    row.path == path || path.strip_prefix(row.path).is_some_and(below)
}

/// Answers a routed request that is complete.
pub fn answer(row: &Row, request: &Request<'_>, site: &Site<'_>) -> Answer {
    match (row.handle)(request, site) {
        Answer::Response(response) => Answer::Response(shared(response, row, request.head.one("origin"), site)),
        Answer::Channels(mut asked) => {
            asked.fields = shared(Response::empty(Status::Ok), row, request.head.one("origin"), site).fields;
            if asked.channels.iter().any(|place| site.policy.channels.asks(&place.channel)) {
                asked.sent = Sent::of(request, site.policy);
            }
            Answer::Channels(asked)
        }
        answer => answer,
    }
}

/// The longest body that a path accepts, in bytes.
///
/// # Errors
/// 413 if the path accepts no body at all, of whatever length.
pub fn body_bytes_max(row: &Row) -> Result<usize, Refusal> {
    match row.body_bytes_max {
        0 => Err(Refusal::of(Status::ContentTooLarge, "a body is not accepted at this path")),
        bytes => Ok(bytes),
    }
}

fn methods(row: &Row) -> String {
    let head = row.methods.contains(&Method::Get).then_some(Method::Head);
    let all: Vec<&str> = row.methods.iter().copied().chain(head).chain([Method::Options]).map(Method::name).collect();
    all.join(", ")
}

/// The response to a preflight request (the CORS protocol of Fetch, 3.3.2).
fn preflight(row: &Row, head: &Head<'_>, site: &Site<'_>) -> Response {
    let mut response = Response::empty(Status::NoContent).with("Allow", methods(row));
    if head.all("access-control-request-method").next().is_some() {
        response = response
            .with("Access-Control-Allow-Methods", methods(row))
            .with("Access-Control-Allow-Headers", row.fields)
            .with("Access-Control-Max-Age", "86400");
    }
    shared(response, row, head.one("origin"), site)
}

/// Adds the fields that let pages of permitted origins read the response. Pages of listed origins
/// may send cookies to paths that use them.
pub fn shared(response: Response, row: &Row, origin: Option<&str>, site: &Site<'_>) -> Response {
    match (row.origins, &site.policy.origins, origin) {
        (Origins::Any, ..) | (Origins::Policy, None, _) => response.with("Access-Control-Allow-Origin", "*"),
        (Origins::Policy, Some(_), Some(origin)) if site.policy.allows(Some(origin)) => {
            let response = response.with("Access-Control-Allow-Origin", origin.to_owned()).with("Vary", "Origin");
            match (row.cookies)(site.policy) {
                true => response.with("Access-Control-Allow-Credentials", "true"),
                false => response,
            }
        }
        _ => response.with("Vary", "Origin"),
    }
}
