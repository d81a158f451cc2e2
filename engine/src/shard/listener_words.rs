//! What is said to connections that have asked something of channels (`/n/`): responses, refusals, and events.

use std::borrow::Cow;

use crate::id::ConnId;
use crate::limits::HTTP_REQUESTS_MAX;
use crate::shard::Shard;
use crate::shard::listeners::{Gathered, Kind};
use crate::streams::ended::Ended;
use crate::web::response::Response;
use crate::web::status::Status;
use crate::wire::error::StanzaCondition;
use crate::wire::limit::{Limit, Refusal};

/// The head of a stream of events (HTML 9.2.5). It has no length: its end is that of the connection. Proxies are asked not to keep it back.
const STREAM: &[(&str, &str)] = &[("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no")];

/// An item, or what is missing, as an event: what it says, and from where to go on behind it.
pub(super) fn write_event(out: &mut Vec<u8>, name: &str, position: &str, data: &[u8]) {
    for part in [&b"id: "[..], position.as_bytes(), b"\n"] {
        out.extend_from_slice(part);
    }
    if !name.is_empty() {
        [&b"event: "[..], name.as_bytes(), b"\n"].iter().for_each(|part| out.extend_from_slice(part));
    }
    [&b"data: "[..], data, b"\n\n"].iter().for_each(|part| out.extend_from_slice(part));
}

/// The channel of a node's actor.
pub(super) fn channel_of(node: &str) -> &str {
    node.split_once('/').map_or("", |(_, channel)| channel)
}

impl Shard {
    /// The home of a channel does not do what was asked.
    pub(super) fn refused_by_home(&mut self, id: ConnId, refusal: Refusal) {
        let publishes = self.listeners.get(id).is_some_and(|listener| matches!(listener.kind, Kind::Publish));
        let (status, text) = match refusal.condition {
            StanzaCondition::Forbidden if publishes => (
                Status::Forbidden,
                "the node of this channel takes no publications of everybody; its owners may open it",
            ),
            StanzaCondition::Forbidden => {
                (Status::Forbidden, "the node of this channel is not open to everybody; ask by XMPP")
            }
            StanzaCondition::NotAcceptable => (
                Status::BadRequest,
                "the node of this channel keeps no items, so it cannot know a key again; leave it out",
            ),
            _ if refusal.held.is_some_and(|held| held.limit == Limit::Nodes) && publishes => {
                let text = "this address has made too many channels, or the channel is full; try again later";
                (Status::TooManyRequests, text)
            }
            StanzaCondition::PolicyViolation | StanzaCondition::ResourceConstraint => {
                (Status::ServiceUnavailable, "the channel, or the server's disk, is full for now; try again later")
            }
            _ => (Status::ServiceUnavailable, "the channel cannot be read or written; try again later"),
        };
        let response = Response::text(status, text);
        let again = matches!(status, Status::ServiceUnavailable | Status::TooManyRequests);
        self.respond(id, if again { response.with("Retry-After", "10") } else { response });
    }

    /// A poll has something to be answered.
    pub(super) fn respond_poll(&mut self, id: ConnId, gathered: &Gathered) {
        let Some(listener) = self.listeners.get(id) else { return };
        let name = |index: &usize| format!("\"{}\"", channel_of(&listener.places[*index].node));
        let gaps: Vec<_> = gathered.gaps.iter().map(name).collect();
        let gaps = gaps.join(",");
        let items = String::from_utf8_lossy(&gathered.items);
        let body = format!("{{\"items\":[{items}],\"gaps\":[{gaps}],\"after\":\"{}\"}}\n", listener.position());
        self.respond(id, json(Cow::Owned(body)));
    }

    /// The answer of a stream of events begins, unless it has.
    pub(super) fn begin_stream(&mut self, id: ConnId) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let Kind::Stream(begun @ false) = &mut listener.kind else { return };
        *begun = true;
        let is_placed = listener.is_placed();
        let mut response = listener.dressed(Response::empty(Status::Ok)).closing();
        response.fields.extend(STREAM.iter().map(|(name, value)| (*name, Cow::Borrowed(*value))));
        let wall_us = self.now.wall_us;
        self.counters.http_requests.one();
        self.send_with(id, |out| response.write_endless(out, wall_us));
        if is_placed {
            self.say_place(id);
        }
    }

    /// A stream is told where it stands, as soon as that is known: from there a browser continues (HTML 9.2.6, an id without data) that loses
    /// its connection before it has had an item. And it sees that nobody keeps the stream back.
    pub(super) fn say_place(&mut self, id: ConnId) {
        let Some(listener) = self.listeners.get(id) else { return };
        let place = format!("id: {}\n\n", listener.position());
        self.send_bytes(id, place.as_bytes());
    }

    /// Answers a request that waits, which ends that; of a stream that has begun it is the end.
    pub(super) fn respond(&mut self, id: ConnId, response: Response) {
        let Some(listener) = self.listeners.end(id) else { return };
        let (now_s, wall_us) = (self.now.mono_s(), self.now.wall_us);
        let Some(opening) = self.opening(id) else { return };
        opening.requests = opening.requests.saturating_add(1);
        // It has its time again for the next request.
        opening.accepted_s = now_s;
        let mut response = listener.dressed(response);
        response.closes |= !listener.keeps_alive || opening.requests >= HTTP_REQUESTS_MAX;
        if matches!(listener.kind, Kind::Stream(true)) {
            return self.end_stream(id, Ended::Server);
        }
        self.counters.http_requests.one();
        if !matches!(response.status, Status::Ok | Status::NoContent) {
            self.counters.http_refused.one();
        }
        self.send_with(id, |out| response.write(out, None, wall_us));
        match response.closes {
            true => self.end_stream(id, Ended::Client),
            false => self.unblock(id),
        }
    }
}

/// An answer for programs.
pub(super) fn json(body: Cow<'static, str>) -> Response {
    Response { body, content_type: "application/json", ..Response::empty(Status::Ok) }
}
