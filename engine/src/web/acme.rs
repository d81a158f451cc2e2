//! The answer to a certificate authority that checks, by HTTP, who controls a name (HTTP-01, RFC
//! 8555 8.3).

use std::borrow::Cow;

use super::head::Method;
use super::policy::CHALLENGES;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;

/// The row of its path.
pub const ROW: Row = Row::of(CHALLENGES, &[Method::Get], Origins::Any, handle);

fn handle(request: &Request<'_>, site: &Site<'_>) -> Answer {
    let challenge = site.policy.challenge.as_ref().filter(|challenge| challenge.is_at(request.head.path));
    let Some(challenge) = challenge else { return Answer::Response(Response::nothing_here()) };
    let mut response = Response::empty(Status::Ok);
    (response.content_type, response.body) =
        ("application/octet-stream", Cow::Owned(challenge.answer.as_bytes().to_vec()));
    Answer::Response(response)
}
