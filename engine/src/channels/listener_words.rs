//! Output to connections that have requested channels: responses, refusals, and the beginning and
//! end of streams, in the words of their dialect.

use crate::channels::Channels;
use crate::channels::listener::{Fields, Kind, Listener};
use crate::extension::pubsub::service::info::Info;
use crate::id::ConnId;
use crate::limits::{HTTP_REQUESTS_MAX, NOTIFY_HEARTBEAT_S};
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::dialect::nchan::info;
use crate::web::dialect::{Dialect as _, End, Head, Telling};
use crate::web::feed_names::channel_of;
use crate::web::frame::{self, FrameFault};
use crate::web::response::Response;
use crate::web::status::Status;
use crate::web::{Transport, handshake};
use crate::wire::error::StanzaCondition;
use crate::wire::limit::{Limit, Refusal};

impl Channels {
    /// Reports that the home of a channel has refused the request.
    pub(super) fn refused_by_home(&mut self, cx: &mut Streams, id: ConnId, refusal: Refusal) {
        // The client has disconnected meanwhile.
        let Some(listener) = self.listeners.get(id) else { return };
        let (publishes, registers) =
            (matches!(listener.kind, Kind::Publish(..)), matches!(listener.kind, Kind::Push(_)));
        let (status, text) = match refusal.condition {
            StanzaCondition::Forbidden if publishes => (
                Status::Forbidden,
                "the node of this channel does not accept publications from everybody; its owners can open it",
            ),
            StanzaCondition::Forbidden => {
                (Status::Forbidden, "the node of this channel is not open to everybody; use XMPP")
            }
            StanzaCondition::NotAcceptable => (
                Status::BadRequest,
                "the node of this channel stores no items, so it cannot recognise keys; omit the key",
            ),
            _ if refusal.held.is_some_and(|held| held.limit == Limit::Memberships) && registers => {
                let text =
                    "this channel, or this address at it, has reached its limit of registrations; remove one first";
                (Status::TooManyRequests, text)
            }
            _ if refusal.held.is_some_and(|held| held.limit == Limit::Nodes) && (publishes || registers) => {
                let text = "this address has created too many channels, or the channel is full; try again later";
                (Status::TooManyRequests, text)
            }
            StanzaCondition::PolicyViolation | StanzaCondition::ResourceConstraint => {
                (Status::ServiceUnavailable, "the channel or the server's disk is full; try again later")
            }
            _ => (Status::ServiceUnavailable, "the channel cannot be read or written; try again later"),
        };
        let response = Response::text(status, text);
        let again = matches!(status, Status::ServiceUnavailable | Status::TooManyRequests);
        self.respond(cx, id, if again { response.with("Retry-After", "10") } else { response });
    }

    /// Begins the response to a streaming request, unless it has begun or has to wait.
    pub(super) fn begin_stream(&mut self, cx: &mut Streams, id: ConnId) {
        let (now_s, wall_us) = (cx.kernel.now.mono_s(), cx.kernel.now.wall_us);
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let Listener { kind: Kind::Items(own), places, .. } = listener else { return };
        match own.begin(places) {
            None => {}
            Some(Head::Socket(accept, subprotocol)) => {
                (listener.fields, listener.until_s) = (Fields::default(), now_s + NOTIFY_HEARTBEAT_S);
                cx.kernel.counters.http_requests.one();
                cx.send_with(id, |out| handshake::write_accepted(out, &accept, subprotocol));
                cx.conns.set_transport(id, Transport::Channels);
                cx.unblock(id);
            }
            // The response has no length and ends with the connection. Proxies are asked not to
            // buffer it.
            Some(Head::Events { content_type, fields, first }) => {
                let mut response = listener.dressed(Response::empty(Status::Ok));
                response.fields.extend(fields);
                let response = response.closing().with("Content-Type", content_type).with("X-Accel-Buffering", "no");
                cx.kernel.counters.http_requests.one();
                cx.send_with(id, |out| response.write_endless(out, wall_us));
                self.send_told(cx, id, &first);
            }
        }
    }

    /// Sends its position to a streaming request as soon as it is known.
    pub(super) fn say_place(&mut self, cx: &mut Streams, id: ConnId) {
        let Some(listener) = self.listeners.get(id) else { return };
        let (Some(own), places) = (listener.own(), &listener.places) else { return };
        let mut place = Vec::new();
        own.place(&mut place, places);
        if !place.is_empty() {
            cx.send_bytes(id, &place);
        }
    }

    /// Reports missed items to a client that has returned to prefixes, once per prefix.
    pub(super) fn say_missed(&mut self, cx: &mut Streams, id: ConnId) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let mut missed: Vec<_> = (0..listener.places.len()).filter(|at| listener.places[*at].follower.gap).collect();
        listener.places.iter_mut().for_each(|place| place.follower.gap = false);
        let name = |at: usize| channel_of(&listener.places[at].node);
        missed.dedup_by(|next, one| name(*next) == name(*one));
        // No items are missing.
        let (Some(last), Some(own)) = (missed.last().copied(), listener.own()) else { return };
        let mut telling = Telling::default();
        let position = |at: usize| listener.position(at, listener.places[at].follower.at);
        missed.iter().for_each(|at| own.gap(&mut telling, position(*at)));
        own.finish(&mut telling, position(last));
        cx.kernel.counters.notify_gaps.add(missed.len() as u64);
        self.send_told(cx, id, &telling.out);
    }

    /// Answers a waiting request, which ends it. A stream that has begun is closed instead.
    pub(super) fn respond(&mut self, cx: &mut Streams, id: ConnId, response: Response) {
        // A client whose long poll was answered polls again, or has disconnected.
        let is_expected =
            matches!(response.status, Status::Ok | Status::NoContent | Status::NotModified | Status::RequestTimeout);
        let away_max = if is_expected { cx.kernel.settings.web.channels.waiting_max } else { 0 };
        let Some(listener) = self.listeners.end_expected(id, away_max) else { return };
        if !is_expected {
            self.tally_answer(cx, &listener, response.status);
        }
        let (now_s, wall_us) = (cx.kernel.now.mono_s(), cx.kernel.now.wall_us);
        let Some(opening) = cx.opening(id) else { return };
        opening.requests = opening.requests.saturating_add(1);
        // The time limit restarts for the next request.
        opening.accepted_s = now_s;
        let mut response = listener.dressed(response);
        response.closes |= !listener.keeps_alive || opening.requests >= HTTP_REQUESTS_MAX;
        match listener.own().and_then(|own| own.end(response.status)) {
            Some(End::Socket(fault)) => return self.socket_fails(cx, id, fault, Ended::Server),
            Some(End::Events(last)) => {
                if !last.is_empty() {
                    cx.send_bytes(id, &last);
                }
                return cx.end_stream(id, Ended::Server);
            }
            None => {}
        }
        cx.kernel.counters.http_requests.one();
        if response.status.is_refusal() && !is_expected {
            cx.kernel.counters.http_refused.one();
        }
        cx.send_with(id, |out| response.write(out, None, wall_us));
        match response.closes {
            true => cx.end_stream(id, Ended::Client),
            false => cx.unblock(id),
        }
    }

    /// Sends output to a streaming request and postpones its next heartbeat, unless its client is
    /// pinged in any case.
    pub(super) fn send_told(&mut self, cx: &mut Streams, id: ConnId, told: &[u8]) {
        let until_s = cx.kernel.now.mono_s() + NOTIFY_HEARTBEAT_S;
        if let Some(listener) = self.listeners.get_mut(id).filter(|_| !told.is_empty()) {
            if !listener.has_commands() {
                listener.until_s = until_s;
            }
            cx.send_bytes(id, told);
        }
    }

    /// The last frame of a connection when the server shuts down, if its dialect has its own.
    pub(crate) fn shutdown(&self, id: ConnId) -> Option<FrameFault> {
        self.listeners.get(id)?.own()?.shutdown()
    }

    /// Fails a WebSocket from this side (RFC 6455 7.1.7).
    pub(super) fn socket_fails(&mut self, cx: &mut Streams, id: ConnId, fault: FrameFault, why: Ended) {
        cx.send_with(id, |out| frame::write_fault(out, fault));
        self.socket_leaves(cx, id, why);
    }

    /// Closes a WebSocket after its last frame. The request has ended, so nothing is written after
    /// it.
    pub(super) fn socket_leaves(&mut self, cx: &mut Streams, id: ConnId, why: Ended) {
        self.listeners.end(id);
        cx.end_stream(id, why);
    }
}

/// Converts a home's information about a channel for dialects.
pub(super) fn told(own: Info) -> info::Info {
    let Info { there, kept, last, subscribers, requested_s } = own;
    info::Info { there, kept, last, subscribers, requested_s }
}
