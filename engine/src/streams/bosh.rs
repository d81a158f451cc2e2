//! BOSH sessions (XEP-0124). Each has a connection without a socket; its output is sent in the
//! answers to requests on other connections.
//!
//! The requests arrive on connections of any shard. An answer goes to the shard of its request, by
//! a letter if that is another shard. A duplicate letter finds no waiting request. A lost letter
//! has the effect of a broken connection: the client repeats the request, and the request's number
//! identifies the answer (XEP-0124 14.3).

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::id::{ConnId, NO_SOCKET, ShardId};
use crate::kernel::Fixed;
use crate::letters::{BoshAsked, BoshLetter, Letter};
use crate::limits::{BOSH_FORWARD_S, HTTP_REQUESTS_MAX};
use crate::session::bosh::{Bosh, Place, Reply};
use crate::session::conn::{ConnState, Opening, Pause};
use crate::session::moved::{Handover, Moved};
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::bosh::wrapped::{Wrapped, wrapped};
use crate::web::bosh::{self, Condition};
use crate::web::request::Site;
use crate::web::response::Response;
use crate::web::status::Status;
use crate::web::table;

/// The BOSH sessions of a shard, and the new homes of sessions that began here and have moved.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Slots of the sessions' connections, by session key. Keys are entropy, so a client cannot
    /// choose its hash bucket.
    by_key: HashMap<[u8; 16], u32, Fixed>,
    /// Sessions by the slot of their connection.
    all: Vec<Option<Box<Bosh>>>,
    forwards: HashMap<[u8; 16], Forward, Fixed>,
    /// Session keys with the second at which each is checked, earliest first. Bounded by the
    /// sessions that begin in [`BOSH_FORWARD_S`].
    looks: VecDeque<(u32, [u8; 16])>,
    /// Sessions to check when the turn ends; each once.
    dirty: Vec<ConnId>,
    departing: Vec<(ConnId, ShardId, Box<Moved>)>,
}

/// The new home of a session that began here.
#[derive(Debug)]
struct Forward {
    to: ShardId,
    /// Second (monotonic) of the last request for it.
    used_s: u32,
}

fn index(conn: ConnId) -> usize {
    (conn.slot & !NO_SOCKET) as usize
}

impl Table {
    /// Returns the number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns the session that a connection represents.
    pub(crate) fn get(&mut self, conn: ConnId) -> Option<&mut Bosh> {
        let bosh = self.all.get_mut(index(conn)).filter(|_| !conn.has_socket())?.as_deref_mut()?;
        (bosh.conn == conn).then_some(bosh)
    }

    /// Returns the connection that represents a session.
    pub(crate) fn find(&self, key: &[u8; 16]) -> Option<ConnId> {
        let slot = *self.by_key.get(key)?;
        Some(self.all.get(slot as usize)?.as_ref()?.conn)
    }

    pub(crate) fn insert(&mut self, bosh: Bosh) {
        let at = index(bosh.conn);
        if self.all.len() <= at {
            self.all.resize_with(at + 1, || None);
        }
        self.by_key.insert(bosh.sid.key, at as u32);
        self.all[at] = Some(Box::new(bosh));
    }

    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<Box<Bosh>> {
        self.get(conn)?;
        let bosh = self.all[index(conn)].take()?;
        self.by_key.remove(&bosh.sid.key);
        Some(bosh)
    }

    /// Marks a session that has received input, from a client or from its stream.
    pub(crate) fn touched(&mut self, conn: ConnId) {
        self.dirty.push(conn);
    }

    /// Returns whether any session is to be checked.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.departing.is_empty()
    }

    /// Schedules a session to move when the turn ends.
    pub(crate) fn departs(&mut self, conn: ConnId, home: ShardId, moved: Box<Moved>) {
        self.departing.push((conn, home, moved));
    }

    /// Returns the new home of a session that began here.
    pub(crate) fn forward(&mut self, key: &[u8; 16], now_s: u32) -> Option<ShardId> {
        let forward = self.forwards.get_mut(key)?;
        forward.used_s = now_s;
        Some(forward.to)
    }

    fn goes_to(&mut self, key: [u8; 16], to: ShardId, now_s: u32) {
        self.forwards.insert(key, Forward { to, used_s: now_s });
        self.looks.push_back((now_s.saturating_add(BOSH_FORWARD_S), key));
    }

    /// Forgets forwards that are no longer requested.
    pub(crate) fn forget_forwards(&mut self, now_s: u32) {
        while self.looks.front().is_some_and(|(at_s, _)| *at_s <= now_s)
            && let Some((_, key)) = self.looks.pop_front()
        {
            let until_s = self.forwards.get(&key).map(|forward| forward.used_s.saturating_add(BOSH_FORWARD_S));
            match until_s {
                Some(until_s) if until_s > now_s => self.looks.push_back((until_s, key)),
                _ => drop(self.forwards.remove(&key)),
            }
        }
    }
}

impl Streams {
    /// Ends a turn: answers the requests that are due, and moves sessions that have another home.
    /// Returns the connections whose output has been sent.
    pub(crate) fn flush_bosh(&mut self) -> Vec<ConnId> {
        let (mut dirty, mut sent) = (std::mem::take(&mut self.bosh.dirty), Vec::new());
        for (id, home, moved) in std::mem::take(&mut self.bosh.departing) {
            self.bosh_departs(id, home, *moved);
        }
        for id in dirty.drain(..) {
            let Some(conn) = self.conns.get(id) else { continue };
            conn.dirty = false;
            self.request_ack(id);
            if let Some(conn) = self.conns.get(id) {
                conn.dirty = false;
            }
            while let Some(has_content) = self.bosh_answers(id) {
                if has_content {
                    sent.push(id);
                }
            }
        }
        // Sessions touched again in the loop have been checked.
        self.bosh.dirty.clear();
        sent
    }

    /// Answers the oldest request of a session if it is due. Returns whether the answer has
    /// content.
    fn bosh_answers(&mut self, id: ConnId) -> Option<bool> {
        let now_ms = self.kernel.now.mono_ms;
        let conn = self.conns.get(id)?;
        let pending = conn.outbound.as_ref().is_some_and(|outbound| outbound.is_waiting());
        let blocked = conn.partial.is_some();
        let (known, durable) = match conn.state() {
            ConnState::Opening(opening) => (opening.stage().owner().is_some(), !opening.is_promised_nothing()),
            ConnState::Bound(_) => (true, true),
            _ => return None,
        };
        let bosh = self.bosh.get(id)?;
        if !bosh.is_due(pending, blocked) {
            return None;
        }
        let (mut content, mut messages) = (Wrapped::default(), 0);
        if pending && bosh.takes_content() {
            let (stream, waiting) = conn.outbound.as_mut()?.take_part();
            self.outbound_bytes -= stream.len();
            (content, messages) = (wrapped(&stream), waiting);
        }
        let answer = bosh.answer(&content, messages, now_ms);
        let content_type = bosh.content_type.clone();
        if let Some((place, body)) = answer {
            let reply = Reply { body, content_type, refusal: None, known, durable, cut: false };
            self.bosh_reply(place, reply);
        }
        self.bosh_rests(id);
        if !content.bytes.is_empty() {
            self.conn_lightened(id);
            self.drained(id);
        }
        Some(!content.bytes.is_empty())
    }

    /// Frees the buffer of a connection if it is empty.
    fn bosh_rests(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        if let Some(outbound) = conn.outbound.take_if(|outbound| outbound.is_done()) {
            self.recycle(outbound);
        }
    }

    /// The client has received the next `messages` messages; takes their ids.
    pub(crate) fn bosh_got(&mut self, id: ConnId, messages: usize, ids: &mut Vec<u64>) {
        let Some(outbound) = self.conns.get(id).and_then(|conn| conn.outbound.as_mut()) else { return };
        ids.extend(outbound.got(messages));
        self.bosh_rests(id);
    }

    /// A session has ended: its requests are answered with its last output.
    pub(crate) fn bosh_closes(&mut self, id: ConnId, last: &[u8], why: Ended, durable: bool) {
        let Some(mut bosh) = self.bosh.remove(id) else { return };
        let content = wrapped(last);
        let condition = match (bosh.fails, why) {
            (Some(condition), _) => Some(condition),
            (None, Ended::Shutdown) => Some(Condition::SystemShutdown),
            (None, _) if memchr::memmem::find(last, b"<stream:error>").is_some() => Some(Condition::RemoteStreamError),
            (None, _) => None,
        };
        if condition.is_some() {
            self.kernel.counters.bosh_failed.one();
        }
        let mut refusal = condition.filter(|_| !bosh.knows_conditions);
        for (place, body) in bosh.end(condition, &content) {
            let content_type = bosh.content_type.clone();
            let reply = Reply { body, content_type, refusal: refusal.take(), known: false, durable, cut: false };
            self.bosh_reply(place, reply);
        }
    }

    /// A session moves to its user's home. Requests that arrive here for it are forwarded from now
    /// on.
    fn bosh_departs(&mut self, id: ConnId, home: ShardId, moved: Moved) {
        let now_s = self.kernel.now.mono_s();
        let Some((mut conn, _)) = self.conns.remove(id) else { return };
        let mut pending = Vec::new();
        if let Some(mut outbound) = conn.outbound.take() {
            self.outbound_bytes -= outbound.bytes();
            (pending, _) = outbound.take_part();
            self.recycle(outbound);
        }
        let Some(bosh) = self.bosh.remove(id) else { return };
        self.kernel.counters.departed.one();
        self.bosh.goes_to(bosh.sid.key, home, now_s);
        let handover = Box::new(Handover { moved, bosh: *bosh, pending });
        self.kernel.letters_to(home).push(Letter::Bosh(BoshLetter::Moves(handover)));
    }

    /// Relays a request for a session of another shard.
    pub(crate) fn bosh_relay(&mut self, to: ShardId, asked: Box<BoshAsked>) {
        self.kernel.counters.bosh_relayed.one();
        self.kernel.letters_to(to).push(Letter::Bosh(BoshLetter::Asked(asked)));
    }

    /// Sends an answer to the shard that has the request.
    pub(crate) fn bosh_reply(&mut self, place: Place, reply: Reply) {
        let Place { shard, conn, number } = place;
        match shard == self.kernel.id {
            true => self.bosh_answered(conn, number, reply),
            false => self.kernel.letters_to(shard).push(Letter::Bosh(BoshLetter::Answer {
                conn,
                number,
                reply: Box::new(reply),
            })),
        }
    }

    /// Refuses a request with the given condition.
    pub(crate) fn bosh_refuse(&mut self, place: Place, condition: Condition, knows_conditions: bool) {
        self.kernel.counters.bosh_failed.one();
        let refusal = (!knows_conditions).then_some(condition);
        let body = bosh::write::ends(condition);
        self.bosh_reply(place, Reply { body, content_type: None, refusal, known: false, durable: false, cut: false });
    }

    /// An answer has arrived for a request of this connection. It is dropped if the request no
    /// longer waits.
    pub(crate) fn bosh_answered(&mut self, id: ConnId, number: u32, reply: Reply) {
        let Reply { body, content_type, refusal, known, durable, cut } = reply;
        let now_s = self.kernel.now.mono_s();
        let is_awaited = |opening: &&mut Opening| opening.awaited().is_some_and(|asked| asked.number == number);
        let Some(opening) = self.opening(id).filter(is_awaited) else { return };
        let asked = opening.asked_mut();
        asked.waits = false;
        let (origin, keeps_alive) = (asked.origin.take(), asked.keeps_alive);
        if cut {
            return self.cut(id, Ended::Refused);
        }
        if known {
            // The connection serves an authenticated client for as long as it is used.
            (opening.accepted_s, opening.requests) = (now_s, 0);
        }
        opening.promised |= durable;
        opening.requests = opening.requests.saturating_add(1);
        let closes = !keeps_alive || opening.requests >= HTTP_REQUESTS_MAX;
        let mut response = match refusal.and_then(code) {
            Some((status, text)) => Response::text(status, text),
            None => {
                let usual = "text/xml; charset=utf-8".to_owned();
                let content_type = content_type.map_or(usual, String::from);
                let mut response = Response::empty(Status::Ok).with("Content-Type", content_type);
                response.body = body.into();
                response
            }
        };
        response.closes = closes;
        self.kernel.counters.http_requests.one();
        if response.status != Status::Ok {
            self.kernel.counters.http_refused.one();
        }
        let settings = self.kernel.settings.clone();
        let site = Site { domains: &settings.domains, policy: &settings.web };
        let response = table::shared(response, &bosh::ROW, origin.as_deref(), &site);
        let wall_us = self.kernel.now.wall_us;
        self.send_with(id, |out| response.write(out, None, wall_us));
        if closes {
            self.end_stream(id, Ended::Client);
        } else if self.is_heavy(id) {
            self.pause(id, Pause::Output);
        }
        self.unblock(id);
    }
}

/// The status code for clients that do not understand terminal conditions (XEP-0124 17.2).
fn code(condition: Condition) -> Option<(Status, &'static str)> {
    match condition {
        Condition::BadRequest => Some((Status::BadRequest, "the request is malformed")),
        Condition::PolicyViolation => {
            Some((Status::Forbidden, "the session sends requests too often, or too many at once"))
        }
        Condition::ItemNotFound => Some((Status::NotFound, "there is no such session, request or answer")),
        _ => None,
    }
}
