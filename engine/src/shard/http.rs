//! Connections that begin with HTTP requests: from bytes to requests, and from each request to the
//! module that answers it.

use std::net::IpAddr;
use std::sync::Arc;

use crate::id::ConnId;
use crate::io::{Happened, ListenerKind};
use crate::limits::{BOSH_LONG_BODIES_MAX, FORWARDED_CHARS_MAX, HTTP_REQUESTS_MAX, PREAUTH_BYTES_MAX};
use crate::session::conn::{ConnState, Partial};
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::web::body::Body;
use crate::web::forwarded::{self, Forwarded};
use crate::web::head::{self, Content, Head};
use crate::web::request::{Awaited, Request, Site};
use crate::web::response::Response;
use crate::web::row::{Answer, Row};
use crate::web::status::{Refusal, Status};
use crate::web::{Begun, Step, Transport, handshake, table, websocket};

impl Shard {
    /// A connection was accepted that begins with HTTP.
    pub(super) fn accepted_http(&mut self, id: ConnId, listener: ListenerKind, peer: IpAddr) {
        self.cx.accepted(id, ListenerKind { starttls: false, ..listener }, peer);
        self.cx.conns.set_transport(id, Transport::Http);
    }

    /// Bytes have arrived on a connection that is not a plain stream. Takes requests or messages
    /// from them and buffers the rest.
    pub(super) fn received_http(&mut self, id: ConnId, input: &[u8]) {
        if self.channels.has_listeners() && !self.channels.heard_while_waiting(&mut self.cx, id) {
            return;
        }
        let conn = self.cx.conns.heard(id);
        let Partial { mut bytes, mut begun, .. } = conn.partial.take().map(|partial| *partial).unwrap_or_default();
        let raw = match bytes.is_empty() {
            true => input,
            false => {
                bytes.extend_from_slice(input);
                &bytes
            }
        };
        let mut at = 0;
        while let Some(conn) = self.cx.conns.get(id).filter(|conn| !Self::is_blocked(conn)) {
            let rest = &raw[at..];
            let step = match conn.transport() {
                Transport::Http => self.http_step(id, rest, &mut begun),
                Transport::WebSocket => self.websocket_step(id, rest, &mut begun),
                Transport::Channels => self.channels.subscriber_step(&mut self.cx, id, rest),
                Transport::Commands => self.channels.talk_step(&mut self.cx, id, rest, &mut begun),
                #[cfg(debug_assertions)]
                Transport::Echo => self.echo_step(id, rest, &mut begun),
                Transport::Stream | Transport::Closed | Transport::Bosh => Step { used: rest.len(), goes_on: false },
            };
            at += step.used;
            if !step.goes_on {
                break;
            }
        }
        // One of the requests has ended the connection.
        let Some(conn) = self.cx.conns.get(id).filter(|conn| !conn.ending) else { return };
        let gone = matches!(conn.state(), ConnState::Closing { .. } | ConnState::Departing);
        if !gone && (at < raw.len() || begun.is_some()) {
            let rest = if at == 0 && !bytes.is_empty() { bytes } else { raw[at..].to_vec() };
            let kept = rest.len();
            conn.partial = Some(Box::new(Partial { bytes: rest, begun, ..Partial::default() }));
            self.cx.http_behind(id, kept);
        }
    }

    /// Reads one request, or continues with its body.
    fn http_step(&mut self, id: ConnId, input: &[u8], begun: &mut Option<Begun>) -> Step {
        if let Some(Begun::Request(awaited)) = begun {
            let read = awaited.body.read(input);
            return match read.and_then(|used| Self::http_takes(&self.cx.long_bodies, awaited).map(|()| used)) {
                Err(refusal) => {
                    if let Ok(Some(head)) = awaited.head() {
                        self.channels.tally_refused(&self.cx, &head);
                    }
                    self.http_refuse(id, refusal, input)
                }
                Ok(used) if !awaited.body.is_done() => Step { used, goes_on: false },
                Ok(used) => {
                    let Some(Begun::Request(awaited)) = begun.take() else { return Step { used, goes_on: true } };
                    if let Ok(Some(head)) = awaited.head() {
                        self.http_routed(id, &head, awaited.body.bytes(), &[]);
                    }
                    Step { used, goes_on: true }
                }
            };
        }
        let seen = if let Some(Begun::Head(seen)) = begun.take() { seen } else { 0 };
        let empty = head::empty_lines(input);
        if empty > 0 {
            return Step { used: empty, goes_on: true };
        }
        let head = match head::read(input, seen) {
            Ok(None) => {
                *begun = (!input.is_empty()).then_some(Begun::Head(input.len()));
                return Step { used: 0, goes_on: false };
            }
            Ok(Some(head)) => head,
            Err(refusal) => return self.http_refuse(id, refusal, input),
        };
        let used = head.bytes;
        if head.content == Content::Nothing {
            self.http_routed(id, &head, &[], input);
            return Step { used, goes_on: true };
        }
        let settings = self.cx.kernel.settings.clone();
        let site = Site { domains: &settings.domains, policy: &settings.web };
        let row = match table::route(&head, &site) {
            Ok(row) => row,
            Err(response) => {
                self.http_answer(id, &head, response);
                return Step { used: input.len(), goes_on: false };
            }
        };
        let body = match table::body_bytes_max(row).and_then(|most| Body::new(head.content, most)) {
            Err(refusal) => {
                self.channels.tally_refused(&self.cx, &head);
                return self.http_refuse(id, refusal, input);
            }
            Ok(body) => body,
        };
        // Most short bodies arrive with their heads: these are not buffered, and nothing is read
        // twice.
        if let Content::Length(bytes) = head.content
            && bytes <= PREAUTH_BYTES_MAX as u64
            && !head.expects_continue
            && let Some(whole) = input[used..].get(..bytes as usize)
        {
            self.http_routed(id, &head, whole, input);
            return Step { used: used + whole.len(), goes_on: true };
        }
        *begun = Some(Begun::Request(Box::new(Awaited::new(&input[..used], body))));
        if head.expects_continue {
            self.cx.send_bytes(id, b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        Step { used, goes_on: true }
    }

    /// Before a login, little input is accepted. The sender of a request is known only from its
    /// body, so only a limited number may be longer at once.
    fn http_takes(long_bodies: &Arc<()>, awaited: &mut Awaited) -> Result<(), Refusal> {
        if awaited.long.is_none() && awaited.body.announced() > PREAUTH_BYTES_MAX as u64 {
            if Arc::strong_count(long_bodies) > BOSH_LONG_BODIES_MAX {
                return Err(Refusal::of(
                    Status::ServiceUnavailable,
                    "too many long requests are in progress; try again later",
                ));
            }
            awaited.long = Some(long_bodies.clone());
        }
        Ok(())
    }

    /// The input is not a readable request, so the beginning of the next one is unknown.
    fn http_refuse(&mut self, id: ConnId, refusal: Refusal, input: &[u8]) -> Step {
        self.cx.kernel.counters.http_requests.one();
        self.cx.kernel.counters.http_refused.one();
        let wall_us = self.cx.kernel.now.wall_us;
        self.cx.send_with(id, |out| Response::from(refusal).write(out, None, wall_us));
        self.cx.end_stream(id, Ended::Protocol);
        Step { used: input.len(), goes_on: false }
    }

    /// A request is complete. If it arrived at once, `raw` is the request with all input after it.
    fn http_routed(&mut self, id: ConnId, head: &Head<'_>, body: &[u8], raw: &[u8]) {
        let settings = self.cx.kernel.settings.clone();
        let site = Site { domains: &settings.domains, policy: &settings.web };
        self.http_client(id, head);
        // The client's address may have too many connections.
        if self.cx.conns.get(id).is_none_or(|conn| conn.ending) {
            return;
        }
        match table::route(head, &site) {
            Ok(row) => self.http_request(id, row, (head, body, raw), &site),
            Err(response) => self.http_answer(id, head, response),
        }
    }

    /// Determines the client of a request from a trusted proxy, which appends the address of its
    /// peer after those that others have claimed. A request without a named client counts for the
    /// proxy, not for an earlier client.
    fn http_client(&mut self, id: ConnId, head: &Head<'_>) {
        if !self.cx.kernel.settings.web.forwarded {
            return;
        }
        // A proxy is trusted only without TLS, which ends at this server.
        let Some(opening) = self.cx.opening(id).filter(|opening| !opening.secured) else { return };
        let before = opening.peer;
        let proxy = self.cx.conns.proxy(id).unwrap_or(before);
        let said = forwarded::client(head);
        let peer = match said {
            Forwarded::Client(client) => {
                self.cx.conns.name_client(id, client, Some(proxy));
                client
            }
            Forwarded::Nothing | Forwarded::Unreadable(_) => {
                self.cx.conns.unname_client(id);
                self.warn_unnamed(said, proxy);
                proxy
            }
        };
        if peer != before {
            self.cx.client(id, peer);
        }
    }

    /// Warns once that a proxy names no client, and once that it sends an invalid address: all its
    /// clients then count as one.
    fn warn_unnamed(&mut self, said: Forwarded<'_>, proxy: IpAddr) {
        let (warned, text) = match said {
            Forwarded::Unreadable(text) => (&mut self.unnamed_warned.1, text),
            _ => (&mut self.unnamed_warned.0, ""),
        };
        if !std::mem::replace(warned, true) {
            let said = text.chars().take(FORWARDED_CHARS_MAX).collect::<String>().into();
            self.cx.kernel.note(Happened::Unnamed { said }, "", Some(proxy));
        }
    }

    fn http_request(&mut self, id: ConnId, row: &Row, (head, body, raw): (&Head<'_>, &[u8], &[u8]), site: &Site<'_>) {
        let secured = self.cx.opening(id).is_some_and(|opening| opening.secured);
        let accept = match table::answer(row, &Request { head, body, secured }, site) {
            Answer::Response(response) => return self.http_answer(id, head, response),
            Answer::Bosh => return self.bosh_came(id, head, body),
            Answer::WebSocket { accept } => accept,
            Answer::Channels(asked) => {
                let goes = self
                    .channels
                    .goes_to_channel(&mut self.cx, id, head.keeps_alive, &asked)
                    .filter(|_| !raw.is_empty());
                return match goes {
                    Some(node) => self.follow(id, node, raw),
                    None => self.channels.listen(&mut self.cx, id, head.keeps_alive, *asked),
                };
            }
            #[cfg(debug_assertions)]
            Answer::Echo { accept } => return self.begin_echo(id, &accept),
            Answer::Commands { accept, named } => {
                if let Err(refusal) = self.channels.begin_talk(&mut self.cx, id, &accept, named) {
                    self.http_answer(id, head, refusal);
                }
                return;
            }
        };
        // Frames follow the answer and no earlier output: earlier answers are with the network if
        // the client has read them.
        let waits = self.cx.conns.get(id).and_then(|conn| conn.outbound.as_ref()).is_some_and(|out| out.is_waiting());
        if waits {
            let text = "read the earlier responses before the upgrade";
            return self.http_answer(id, head, Response::text(Status::BadRequest, text).closing());
        }
        self.cx.kernel.counters.http_requests.one();
        self.cx.send_with(id, |out| handshake::write_accepted(out, &accept, Some(websocket::SUBPROTOCOL)));
        self.cx.conns.set_transport(id, Transport::WebSocket);
        if let Some(opening) = self.cx.opening(id) {
            opening.requests = 0;
        }
    }

    /// Answers a request, and ends the connection if it is not persistent.
    fn http_answer(&mut self, id: ConnId, head: &Head<'_>, mut response: Response) {
        let opening = self.cx.heard(id);
        opening.requests = opening.requests.saturating_add(1);
        response.closes |= !head.keeps_alive || opening.requests >= HTTP_REQUESTS_MAX;
        self.cx.kernel.counters.http_requests.one();
        if response.status.is_refusal() {
            self.cx.kernel.counters.http_refused.one();
            self.channels.tally_refused(&self.cx, head);
        }
        let wall_us = self.cx.kernel.now.wall_us;
        self.cx.send_with(id, |out| response.write(out, Some(head.method), wall_us));
        if response.closes {
            self.cx.end_stream(id, Ended::Client);
        }
        self.cx.wait_if_heavy(id);
    }
}
