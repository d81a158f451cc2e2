//! Output to connections that have requested channels (`/n/`): responses, refusals, events and
//! messages.

use std::borrow::Cow;

use crate::channels::Channels;
use crate::channels::binary;
use crate::channels::home::feed_names::{FeedName, is_feed, is_same_prefix};
use crate::channels::listener::{Fields, Kind, Listener};
use crate::channels::nchan::Subscriber;
use crate::channels::occupancy::crowd::channel_of;
use crate::channels::places::Gathered;
use crate::extension::pubsub::service::info::Info;
use crate::id::ConnId;
use crate::limits::{HTTP_REQUESTS_MAX, NOTIFY_HEARTBEAT_S, NOTIFY_PAGE_BYTES_MAX};
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::centrifugo::crowd;
use crate::web::frame::{self, Code, FrameFault};
use crate::web::mercure::event;
use crate::web::mercure::place::{self, Stand};
use crate::web::nchan::{META, Way, info};
use crate::web::response::Response;
use crate::web::status::Status;
use crate::web::{Transport, handshake};
use crate::wire::error::StanzaCondition;
use crate::wire::limit::{Limit, Refusal};

/// The media type of server-sent events.
const EVENTS: &str = "text/event-stream";

/// Writes the response to a poll, or a WebSocket message: items separated by commas, the channels
/// with missing items, and the position to continue from.
fn write_answer(out: &mut Vec<u8>, items: &[u8], gaps: &[String], position: &str) {
    for part in [
        &b"{\"items\":["[..],
        items,
        b"],\"gaps\":[",
        gaps.join(",").as_bytes(),
        b"],\"after\":\"",
        position.as_bytes(),
        b"\"}",
    ] {
        out.extend_from_slice(part);
    }
}

/// The output for one streaming request: events, or WebSocket messages.
#[derive(Debug)]
pub(super) struct Telling {
    out: Vec<u8>,
    /// The content of the next message.
    message: Option<Gathered>,
    /// Each item is a message of its own, after the one that reports gaps.
    binary: bool,
    /// The events are those of Mercure.
    updates: bool,
    /// Items are missing, and no event has yet given the position after the gap.
    placeless: bool,
}

impl Telling {
    /// Starts empty output for a request.
    pub(super) fn new(listener: &Listener) -> Telling {
        let message = matches!(listener.kind, Kind::Socket(_)).then(Gathered::default);
        let (updates, binary) = (matches!(listener.kind, Kind::Updates(_)), listener.binary);
        Telling { out: Vec::new(), message, binary, updates, placeless: false }
    }

    /// Reports that items after the request's position are missing, and that it continues after
    /// `number`.
    pub(super) fn gap(&mut self, listener: &Listener, index: usize, number: u64) {
        if let Kind::Nchan(own) = &listener.kind {
            self.placeless = own.tell_gap(&mut self.out);
            return;
        }
        match &mut self.message {
            Some(message) => {
                message.gaps.push(index);
                if self.binary {
                    self.message(listener, index, number);
                }
            }
            // Mercure has no such event, and some clients would take it for an update.
            None if self.updates => {
                self.out.extend_from_slice(b": updates are missing here\n");
                self.placeless = true;
            }
            None => {
                let place = &listener.places[index];
                let after = if is_feed(&place.node) { String::new() } else { format!(",\"after\":\"{}\"", place.at) };
                let data = format!("{{\"channel\":\"{}\"{after}}}", channel_of(&place.node));
                write_event(&mut self.out, "gap", &listener.position_with(index, number), data.as_bytes());
            }
        }
    }

    /// Appends an item. The position after it is `number`.
    pub(super) fn item(&mut self, listener: &Listener, index: usize, number: u64, item: &[u8]) {
        self.placeless = false;
        if let Kind::Nchan(own) = &listener.kind {
            return own.tell(&mut self.out, item, &listener.tag(index, number));
        }
        match &mut self.message {
            Some(_) if self.binary => binary::write(&mut self.out, item, &listener.position_with(index, number)),
            Some(message) => {
                message.push(item);
                // A message has the same size limit as the response to a poll.
                if message.items.len() >= NOTIFY_PAGE_BYTES_MAX as usize {
                    self.message(listener, index, number);
                }
            }
            None if self.updates => {
                let place = &listener.places[index];
                let own =
                    if is_feed(&place.node) { event::of(item) } else { Some((channel_of(&place.node).into(), number)) };
                // The home writes every item with both.
                let Some((channel, own)) = own else { return };
                event::write(&mut self.out, &listener.update(index, number, (&channel, own)), item);
            }
            None => write_event(&mut self.out, "", &listener.position_with(index, number), item),
        }
    }

    /// Completes the output. The position after it is `number`.
    pub(super) fn finish(mut self, listener: &Listener, index: usize, number: u64) -> Vec<u8> {
        let is_left = |message: &Gathered| !message.items.is_empty() || !message.gaps.is_empty();
        if self.message.as_ref().is_some_and(is_left) {
            self.message(listener, index, number);
        }
        if self.placeless {
            self.say_place(listener, index, number);
        }
        self.out
    }

    /// Writes the position after a gap as an id without data (HTML 9.2.6), because no event follows
    /// it. A feed recognizes an outdated position by itself.
    fn say_place(&mut self, listener: &Listener, index: usize, number: u64) {
        let place = &listener.places[index];
        let id = match &listener.kind {
            Kind::Nchan(own) => own.id(&listener.tag(index, number)),
            _ if is_feed(&place.node) => return,
            _ => listener.update(index, number, (channel_of(&place.node), number)),
        };
        self.out.extend_from_slice(format!("id: {id}\n\n").as_bytes());
    }

    fn message(&mut self, listener: &Listener, index: usize, number: u64) {
        // Events need no framing message.
        let Some(message) = self.message.replace(Gathered::default()) else { return };
        write_message(&mut self.out, &message, listener, &listener.position_with(index, number));
    }
}

impl Listener {
    /// Whether delivery waits for the answers of all homes, because the head of the response
    /// reports gaps.
    pub(super) fn is_gathering(&self) -> bool {
        matches!(&self.kind, Kind::Updates(Some(first)) if !first.begun)
    }

    /// Whether the gathered items have reached the size limit of a poll.
    pub(super) fn is_full(&self) -> bool {
        matches!(&self.kind, Kind::Updates(Some(first)) if first.out.len() >= NOTIFY_PAGE_BYTES_MAX as usize)
    }

    /// The identifier of a Mercure update at a channel, which encodes the subscriber's position in
    /// all channels and feeds.
    pub(super) fn update(&self, index: usize, number: u64, (channel, own): (&str, u64)) -> String {
        let stand = |at: usize| {
            let place = &self.places[at];
            let number = if at == index { number } else { place.at };
            let Some(feed) = FeedName::read(&place.node) else {
                return Stand::Channel(channel_of(&place.node), number);
            };
            match at.checked_sub(1).is_some_and(|before| is_same_prefix(&self.places[before].node, &place.node)) {
                true => Stand::Next(number),
                false => Stand::Feed(channel_of(&place.node), feed.all, number),
            }
        };
        // The update's own position is omitted, because its identifier already gives it.
        let is_own = |at: &usize| *at == index && !is_feed(&self.places[index].node);
        place::write((channel, own), (0..self.places.len()).filter(|at| !is_own(at)).map(stand))
    }
}

/// Writes one WebSocket message.
fn write_message(out: &mut Vec<u8>, gathered: &Gathered, listener: &Listener, position: &str) {
    let mut answer = Vec::with_capacity(gathered.items.len() + 64);
    write_answer(&mut answer, &gathered.items, &gathered.gaps_of(&listener.places), position);
    frame::write_head(out, answer.len());
    out.extend_from_slice(&answer);
}

/// Writes a heartbeat: a comment, or a message with the position but no items.
pub(super) fn write_beat(out: &mut Vec<u8>, listener: &Listener) {
    match &listener.kind {
        Kind::Socket(_) => write_message(out, &Gathered::default(), listener, &listener.position()),
        Kind::Nchan(own) => own.beat(out),
        // With an empty line after it, some clients take it for an update without content.
        Kind::Updates(_) => out.extend_from_slice(b":\n"),
        _ => out.extend_from_slice(b":\n\n"),
    }
}

/// Writes the subscribers of a channel, as an event without an id or as a message without items.
pub(super) fn write_occupancy(out: &mut Vec<u8>, listener: &Listener, node: &str, occupancy: &[u8]) {
    if listener.talker().is_some() {
        let channel = listener.place_of(node).map_or("", |index| listener.called(index));
        return crowd::changes(out, channel, occupancy);
    }
    if !matches!(listener.kind, Kind::Socket(_)) {
        return [&b"event: occupancy\ndata: "[..], occupancy, b"\n\n"]
            .iter()
            .for_each(|part| out.extend_from_slice(part));
    }
    let mut answer = Vec::with_capacity(occupancy.len() + 64);
    write_answer(&mut answer, b"", &[], &listener.position());
    answer.pop();
    [&b",\"occupancy\":"[..], occupancy, b"}"].iter().for_each(|part| answer.extend_from_slice(part));
    frame::write_head(out, answer.len());
    out.extend_from_slice(&answer);
}

/// Writes an event: its name, the position after it, and its data.
fn write_event(out: &mut Vec<u8>, name: &str, position: &str, data: &[u8]) {
    for part in [&b"id: "[..], position.as_bytes(), b"\n"] {
        out.extend_from_slice(part);
    }
    if !name.is_empty() {
        [&b"event: "[..], name.as_bytes(), b"\n"].iter().for_each(|part| out.extend_from_slice(part));
    }
    [&b"data: "[..], data, b"\n\n"].iter().for_each(|part| out.extend_from_slice(part));
}

impl Channels {
    /// Reports that the home of a channel has refused the request.
    pub(super) fn refused_by_home(&mut self, cx: &mut Streams, id: ConnId, refusal: Refusal) {
        let publishes = self.listeners.get(id).is_some_and(|listener| matches!(listener.kind, Kind::Publish(..)));
        let registers = self.listeners.get(id).is_some_and(|listener| matches!(listener.kind, Kind::Push(_)));
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

    /// Answers a poll that has something to return.
    pub(super) fn respond_poll(&mut self, cx: &mut Streams, id: ConnId, gathered: &Gathered) {
        let Some(listener) = self.listeners.get(id) else { return };
        let mut body = Vec::with_capacity(gathered.items.len() + 64);
        write_answer(&mut body, &gathered.items, &gathered.gaps_of(&listener.places), &listener.position());
        body.push(b'\n');
        self.respond(cx, id, json(body));
    }

    /// Begins the response to a streaming request, unless it has begun.
    pub(super) fn begin_stream(&mut self, cx: &mut Streams, id: ConnId) {
        let now_s = cx.kernel.now.mono_s();
        let Some(listener) = self.listeners.get_mut(id) else { return };
        // A client that has been told that it is subscribed receives all later publications.
        let (is_placed, is_asking) = (listener.is_placed(), listener.is_asking());
        match &mut listener.kind {
            Kind::Socket(accept) if is_placed => {
                let Some(accept) = accept.take() else { return };
                (listener.fields, listener.until_s) = (Fields::default(), now_s + NOTIFY_HEARTBEAT_S);
                cx.kernel.counters.http_requests.one();
                cx.send_with(id, |out| handshake::write_accepted(out, &accept, None));
                cx.conns.set_transport(id, Transport::Channels);
                return cx.unblock(id);
            }
            Kind::Stream(begun @ false) => *begun = true,
            Kind::Updates(_) if !is_asking => return self.begin_updates(cx, id),
            Kind::Nchan(_) => return self.begin_nchan(cx, id),
            _ => return,
        }
        let response = listener.dressed(Response::empty(Status::Ok));
        self.send_stream_head(cx, id, response, EVENTS);
        if is_placed {
            self.say_place(cx, id);
        }
    }

    /// Begins the response to a Mercure subscriber, unless it has begun: with the id of the update
    /// that it continues from, and the updates since.
    fn begin_updates(&mut self, cx: &mut Streams, id: ConnId) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let Some(first) = listener.kind.first() else { return };
        let (last, out) = (first.id.take(), std::mem::take(&mut first.out));
        first.begun = true;
        if let Kind::Updates(first) = &mut listener.kind {
            first.take_if(|first| first.selectors.is_empty());
        }
        let mut response = listener.dressed(Response::empty(Status::Ok));
        if let Some(id) = last {
            let fields =
                [("Last-Event-ID", id.into_string()), ("Access-Control-Expose-Headers", "Last-Event-ID".into())];
            response.fields.extend(fields.map(|(name, value)| (name, Cow::Owned(value))));
        }
        self.send_stream_head(cx, id, response, EVENTS);
        self.send_told(cx, id, &out);
    }

    /// Begins the response to a streaming Nchan subscriber, unless it has begun.
    fn begin_nchan(&mut self, cx: &mut Streams, id: ConnId) {
        let now_s = cx.kernel.now.mono_s();
        let Some(listener) = self.listeners.get_mut(id) else { return };
        // Only requests of Nchan's protocol begin here.
        let Kind::Nchan(own) = &mut listener.kind else { return };
        if !own.begin() {
            return;
        }
        if let Way::Socket(accept, meta) = own.way() {
            let (accept, meta) = (**accept, *meta);
            (listener.fields, listener.until_s) = (Fields::default(), now_s + NOTIFY_HEARTBEAT_S);
            cx.kernel.counters.http_requests.one();
            cx.send_with(id, |out| handshake::write_accepted(out, &accept, meta.then_some(META)));
            cx.conns.set_transport(id, Transport::Channels);
            return cx.unblock(id);
        }
        let response = listener.dressed(Response::empty(Status::Ok));
        self.send_stream_head(cx, id, response, "text/event-stream; charset=utf-8");
        cx.send_bytes(id, b": hi\n\n");
    }

    /// Sends the head of an event stream (HTML 9.2.5). The response has no length and ends with the
    /// connection. Proxies are asked not to buffer it.
    fn send_stream_head(&mut self, cx: &mut Streams, id: ConnId, response: Response, content_type: &'static str) {
        let response = response.closing().with("Content-Type", content_type).with("X-Accel-Buffering", "no");
        let wall_us = cx.kernel.now.wall_us;
        cx.kernel.counters.http_requests.one();
        cx.send_with(id, |out| response.write_endless(out, wall_us));
    }

    /// Sends its position to a streaming request as soon as it is known. A client that loses its
    /// connection before the first item continues from there. In an event stream this is an id
    /// without data (HTML 9.2.6), which also shows that no proxy buffers the stream. On a WebSocket
    /// it is a message without items.
    pub(super) fn say_place(&mut self, cx: &mut Streams, id: ConnId) {
        let Some(listener) = self.listeners.get(id) else { return };
        let mut place = Vec::new();
        match listener.kind {
            Kind::Socket(_) => write_beat(&mut place, listener),
            // Mercure has it in the head of the response.
            Kind::Updates(_) => return,
            _ => place.extend_from_slice(format!("id: {}\n\n", listener.position()).as_bytes()),
        }
        cx.send_bytes(id, &place);
    }

    /// Reports missed items to a client that has returned to prefixes, once per prefix.
    pub(super) fn say_missed(&mut self, cx: &mut Streams, id: ConnId) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let mut missed: Vec<_> = (0..listener.places.len()).filter(|at| listener.places[*at].missed).collect();
        listener.places.iter_mut().for_each(|place| place.missed = false);
        let name = |at: usize| channel_of(&listener.places[at].node);
        missed.dedup_by(|next, one| name(*next) == name(*one));
        // No items are missing.
        let Some(last) = missed.last().copied() else { return };
        let mut telling = Telling::new(listener);
        missed.iter().for_each(|at| telling.gap(listener, *at, listener.places[*at].at));
        let out = telling.finish(listener, last, listener.places[last].at);
        cx.kernel.counters.notify_gaps.add(missed.len() as u64);
        self.send_told(cx, id, &out);
    }

    /// Answers a waiting request, which ends it. A stream that has begun is closed instead.
    pub(super) fn respond(&mut self, cx: &mut Streams, id: ConnId, response: Response) {
        // A client whose long poll was answered polls again, or has disconnected.
        let is_expected =
            matches!(response.status, Status::Ok | Status::NoContent | Status::NotModified | Status::RequestTimeout);
        let away_max = if is_expected { cx.kernel.settings.web.channels.waiting_max } else { 0 };
        let Some(listener) = self.listeners.end_expected(id, away_max) else { return };
        if !is_expected {
            self.tally_answer(cx, &listener.kind, response.status);
        }
        let (now_s, wall_us) = (cx.kernel.now.mono_s(), cx.kernel.now.wall_us);
        let Some(opening) = cx.opening(id) else { return };
        opening.requests = opening.requests.saturating_add(1);
        // The time limit restarts for the next request.
        opening.accepted_s = now_s;
        let mut response = listener.dressed(response);
        response.closes |= !listener.keeps_alive || opening.requests >= HTTP_REQUESTS_MAX;
        if let Some(own) = listener.nchan().filter(|own| own.has_begun()) {
            return self.end_nchan(cx, id, own, response.status);
        }
        if matches!(listener.kind, Kind::Stream(true) | Kind::Updates(_)) && listener.kind.has_begun() {
            return cx.end_stream(id, Ended::Server);
        }
        if matches!(listener.kind, Kind::Socket(None)) {
            let fault = match response.status {
                Status::Forbidden => FrameFault { code: Code::Policy, text: "a channel is not open to everybody" },
                Status::Unauthorized => FrameFault { code: Code::Policy, text: "the token has expired or was revoked" },
                _ => FrameFault { code: Code::TryAgain, text: "a channel cannot be read now; try again later" },
            };
            return self.socket_fails(cx, id, fault, Ended::Server);
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
}

impl Channels {
    /// Sends output to a streaming request and postpones its next heartbeat. Centrifugo's protocol
    /// sends pings in any case.
    pub(super) fn send_told(&mut self, cx: &mut Streams, id: ConnId, told: &[u8]) {
        let until_s = cx.kernel.now.mono_s() + NOTIFY_HEARTBEAT_S;
        if let Some(listener) = self.listeners.get_mut(id).filter(|_| !told.is_empty()) {
            if listener.talker().is_none() {
                listener.until_s = until_s;
            }
            cx.send_bytes(id, told);
        }
    }

    /// Ends a streaming Nchan subscriber with this status.
    fn end_nchan(&mut self, cx: &mut Streams, id: ConnId, own: &Subscriber, status: Status) {
        let line = status.line();
        if let Way::Socket(..) = own.way() {
            let code = match status {
                Status::Gone => Code::GoingAway,
                Status::Forbidden | Status::Unauthorized => Code::Policy,
                _ => Code::TryAgain,
            };
            return self.socket_fails(cx, id, FrameFault { code, text: line }, Ended::Server);
        }
        let number = line.split(' ').next().unwrap_or_default();
        cx.send_bytes(id, format!(":{number}: {line}\n\n").as_bytes());
        cx.end_stream(id, Ended::Server);
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

/// The response to a Mercure publisher: the identifier of the update.
pub(super) fn written_id(id: String) -> Response {
    Response {
        body: Cow::Owned(id.into_bytes()),
        content_type: "text/plain; charset=utf-8",
        ..Response::empty(Status::Ok)
    }
}

/// Converts a home's information about a channel for Nchan's protocol.
pub(super) fn told(own: Info) -> info::Info {
    let Info { there, kept, last, subscribers, requested_s } = own;
    info::Info { there, kept, last, subscribers, requested_s }
}

/// A JSON response.
pub(super) fn json(body: Vec<u8>) -> Response {
    Response { body: Cow::Owned(body), content_type: "application/json", ..Response::empty(Status::Ok) }
}
