//! Responses: the routing of requests, and what all responses have in common.

use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use throng_engine::extension::upload::slot::{decode_segment, is_id};
use throng_recorder::clock::wall_s;

use super::reply::{Content, Named, Shared, empty, said};
use super::{get, put};

/// Headers that protect against uploaded content: it must not be an active page of this host
/// (XEP-0363 9), nor be taken for another type.
const ALWAYS: &[(&str, &str)] = &[
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "cross-origin"),
    // XEP-0363 8: web clients of any origin.
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "OPTIONS, HEAD, GET, PUT"),
    ("access-control-allow-headers", "Authorization, Content-Type, Range"),
    ("access-control-expose-headers", "Content-Length, Content-Range, Content-Disposition"),
    ("access-control-max-age", "86400"),
];

/// The file that a path names.
fn named(path: &str) -> Option<Named> {
    let (id, name) = path.strip_prefix('/')?.split_once('/')?;
    let name = decode_segment(name)?;
    (is_id(id) && !name.is_empty() && !name.contains('/')).then(|| Named { id: id.to_owned(), name })
}

/// Answers one request.
pub(super) async fn answer(shared: Shared, request: Request<Incoming>) -> Response<Content> {
    let method = request.method().clone();
    let length = request.body().size_hint().exact().unwrap_or(0);
    let mut response = match (named(request.uri().path()), &method) {
        (_, &Method::OPTIONS) => empty(StatusCode::NO_CONTENT),
        (None, _) => said(StatusCode::NOT_FOUND, "there is no such file\n"),
        (Some(named), &Method::PUT) => put::put(&shared, named, request, wall_s()).await,
        (Some(named), &Method::GET | &Method::HEAD) => get::get(&shared, named, &request, wall_s()).await,
        (Some(_), _) => said(StatusCode::METHOD_NOT_ALLOWED, "files are uploaded by PUT and downloaded by GET\n"),
    };
    count(&shared, &method, length, &response);
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(header::ALLOW, HeaderValue::from_static("OPTIONS, HEAD, GET, PUT"));
    response
}

/// Counts the outcome of a request with a body of this length.
fn count(shared: &Shared, method: &Method, length: u64, response: &Response<Content>) {
    let counters = &shared.counters;
    counters.requests.one();
    counters.stored_bytes.set(shared.files.stored_bytes());
    match (method, response.status()) {
        (&Method::PUT, StatusCode::CREATED) => {
            counters.uploads.one();
            counters.upload_bytes.add(length);
        }
        (&Method::PUT, status) => {
            counters.uploads_refused.one();
            if status == StatusCode::INSUFFICIENT_STORAGE {
                counters.uploads_full.one();
            }
        }
        (&Method::GET, StatusCode::OK | StatusCode::PARTIAL_CONTENT) => {
            counters.downloads.one();
            counters.download_bytes.add(response.body().size_hint().exact().unwrap_or(0));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_identifier_and_a_name_are_a_path() {
        let id = "0123456789abcdef0123456789abcdef";
        let of = |path: &str| named(path).map(|named| named.name);
        assert_eq!(of(&format!("/{id}/a%20b.jpg")).as_deref(), Some("a b.jpg"));
        for bad in [
            "/".to_owned(),
            format!("/{id}"),
            format!("/{id}/"),
            format!("{id}/a"),
            format!("/{id}/a/b"),
            format!("/{id}/a%2Fb"),
            format!("/{id}/%ff"),
            format!("/{}/a", id.to_uppercase()),
            format!("/../{id}/a"),
            format!("/%2e%2e/{id}"),
            "/incoming/0123".to_owned(),
        ] {
            assert_eq!(of(&bad), None, "{bad}");
        }
    }
}
