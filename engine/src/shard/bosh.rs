//! BOSH requests (XEP-0124): from an HTTP connection to their session, at whatever shard it is, and
//! from there to the session's stream, element by element.

use rand_core::RngCore;

use crate::id::{ConnId, DomainId};
use crate::letters::BoshAsked;
use crate::session::bosh::{Bosh, Did, Item, Place, Reply, Restart};
use crate::session::conn::{Stage, StreamExpect};
use crate::session::facts::ListenerKind;
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::streams::ending::{ConnEnding, Ending};
use crate::web::Transport;
use crate::web::bosh::read::{self, Named, Wrapper};
use crate::web::bosh::{Condition, Sid};
use crate::web::head::Head;
use crate::wire::error::StreamCondition;
use crate::wire::stream::Header;
use crate::wire::{Expect, Progress, StreamScope, jid};

impl Shard {
    /// A request for a session has arrived on a connection.
    pub(super) fn bosh_came(&mut self, id: ConnId, head: &Head<'_>, body: &[u8]) {
        let (now_s, shard) = (self.cx.kernel.now.mono_s(), self.cx.kernel.id);
        let names_origins = self.cx.kernel.settings.web.origins.is_some();
        let opening = self.cx.heard(id);
        let secured = opening.secured;
        let asked = opening.asked_mut();
        asked.number = asked.number.wrapping_add(1);
        (asked.waits, asked.since_s, asked.sid, asked.keeps_alive) = (true, now_s, None, head.keeps_alive);
        asked.origin = head.one("origin").filter(|_| names_origins).map(Into::into);
        let place = Place { shard, conn: id, number: asked.number };
        let wrapper = match read::read(&mut self.scanner, body) {
            Ok(wrapper) => Box::new(wrapper),
            Err(condition) => return self.cx.bosh_refuse(place, condition, true),
        };
        let sid = match wrapper.sid {
            None => return self.bosh_begins(place, secured, &wrapper),
            Some(Named::Sid(sid)) if sid.shard.0 < self.cx.kernel.settings.shards() => sid,
            Some(_) => return self.cx.bosh_refuse(place, Condition::ItemNotFound, true),
        };
        if let Some(opening) = self.cx.opening(id) {
            opening.asked_mut().sid = Some(sid);
        }
        let asked = Box::new(BoshAsked { key: sid.key, place, secured, wrapper });
        // A session that has moved to this shard is here, wherever it began.
        match sid.shard == shard || self.cx.bosh.find(&sid.key).is_some() {
            true => self.bosh_asked(asked),
            false => self.cx.bosh_relay(sid.shard, asked),
        }
    }

    /// Begins a session (XEP-0124 7).
    fn bosh_begins(&mut self, place: Place, secured: bool, wrapper: &Wrapper) {
        let knows_conditions = wrapper.begins.ver.is_some();
        let settings = self.cx.kernel.settings.clone();
        let domain = match wrapper.to.as_deref().filter(|to| !to.is_empty()) {
            _ if self.cx.kernel.shutting_down => Err(Condition::SystemShutdown),
            None => Err(Condition::ImproperAddressing),
            Some(to) => {
                let found = jid::normalise_domain(to).ok().and_then(|to| settings.domains.find_users(&to));
                found.ok_or(Condition::HostUnknown)
            }
        };
        let domain: DomainId = match domain {
            Ok(domain) => domain,
            Err(condition) => return self.cx.bosh_refuse(place, condition, knows_conditions),
        };
        let opening = self.cx.heard(place.conn);
        let (listener, peer) = (opening.listener, opening.peer);
        let listener = ListenerKind { direct_tls: false, starttls: false, ..listener };
        let mut sid = Sid { shard: self.cx.kernel.id, key: [0; 16] };
        self.cx.kernel.entropy.fill_bytes(&mut sid.key);
        let id = self.cx.conns.without_socket();
        let (now_ms, from) = (self.cx.kernel.now.mono_ms, settings.domains.name(domain));
        self.cx.bosh.insert(Bosh::begin(sid, id, secured, wrapper, from, place, now_ms));
        if let Some(opening) = self.cx.opening(place.conn) {
            opening.asked_mut().sid = Some(sid);
        }
        self.cx.kernel.counters.bosh_requests.one();
        self.cx.accepted_for(id, listener, peer, Stage::ExpectHeader);
        self.cx.conns.set_transport(id, Transport::Bosh);
        self.cx.conns.name_client(id, peer, None);
        if let Some(opening) = self.cx.opening(id) {
            opening.secured = secured;
        }
        let Wrapper { to, from, lang, begins, .. } = wrapper;
        let (to, from, lang) = (to.clone(), from.clone(), lang.clone());
        self.bosh_opens(id, &Restart { to, from, lang, version: begins.version });
        self.cx.touch(id);
    }

    /// A stream begins, or restarts (XEP-0206 3, 5).
    fn bosh_opens(&mut self, id: ConnId, restart: &Restart) {
        let conn = self.cx.conns.heard(id);
        if conn.expect != StreamExpect::Opening {
            let text = Some("a stream is restarted once, after authentication");
            return self.cx.fail_stream(id, StreamCondition::PolicyViolation, text);
        }
        (conn.expect, conn.scope) = (StreamExpect::Content, StreamScope::Usual);
        let Restart { to, from, lang, version } = restart;
        let text = |text: &Option<Box<str>>| text.as_ref().map(|text| text.to_string().into());
        self.stream_opened(id, &Header { to: text(to), from: text(from), version: *version, lang: text(lang) });
    }

    /// Handles a request for a session that is at this shard, began here, or does not exist.
    pub(super) fn bosh_asked(&mut self, asked: Box<BoshAsked>) {
        let (now_s, now_ms) = (self.cx.kernel.now.mono_s(), self.cx.kernel.now.mono_ms);
        let place = asked.place;
        let Some(id) = self.cx.bosh.find(&asked.key) else {
            return match self.cx.bosh.forward(&asked.key, now_s) {
                Some(to) => self.cx.bosh_relay(to, asked),
                None => self.cx.bosh_refuse(place, Condition::ItemNotFound, true),
            };
        };
        self.cx.kernel.counters.bosh_requests.one();
        if place.shard != self.cx.kernel.id {
            self.cx.kernel.counters.bosh_relayed.one();
        }
        let bosh = self.cx.bosh.get(id).expect("it was just found");
        let did = bosh.came(asked.wrapper, place, asked.secured, now_ms);
        let (content_type, knows_conditions) = (bosh.content_type.clone(), bosh.knows_conditions);
        if let Some(conn) = self.cx.conns.get(id) {
            (conn.last_s, conn.pinged) = (now_s, false);
        }
        let reply = Reply { body: Vec::new(), content_type, refusal: None, known: false, durable: true, cut: false };
        for did in did {
            match did {
                Did::Answer(place, body) => self.cx.bosh_reply(place, Reply { body, ..reply.clone() }),
                Did::Refuse(place, condition) => self.cx.bosh_refuse(place, condition, knows_conditions),
                Did::Cut(place) => self.cx.bosh_reply(place, Reply { cut: true, ..reply.clone() }),
                Did::Arrived(messages) => self.logs.got(&mut self.cx, &mut self.actors, id, messages),
                Did::Fail(condition) => self.bosh_fails(id, condition),
            }
        }
        self.cx.touch(id);
        self.bosh_feed(id);
    }

    /// Ends the session for a reason outside its stream. A session that may be resumed (XEP-0198)
    /// waits for that.
    fn bosh_fails(&mut self, id: ConnId, condition: Condition) {
        if let Some(bosh) = self.cx.bosh.get(id) {
            bosh.fails.get_or_insert(condition);
            bosh.items.clear();
        }
        self.cx.record(ConnEnding {
            conn: id,
            ending: Ending::Unheard,
            why: Ended::Protocol,
            error: Vec::new(),
            durable: true,
        });
    }

    /// Continues with a session's buffered input, while its stream is not blocked.
    pub(super) fn bosh_feed(&mut self, id: ConnId) {
        while self.cx.conns.get(id).is_some_and(|conn| !Self::is_blocked(conn)) {
            let Some(item) = self.cx.bosh.get(id).and_then(|bosh| bosh.items.pop_front()) else { break };
            let left = match item {
                Item::Restart(restart) => {
                    self.bosh_opens(id, &restart);
                    None
                }
                Item::End => {
                    self.cx.end_stream(id, Ended::Client);
                    None
                }
                Item::Content { scope, bytes, at } => {
                    let at = self.bosh_element(id, &scope, &bytes, at);
                    (at < bytes.len()).then_some(Item::Content { scope, bytes, at })
                }
            };
            if let (Some(left), Some(bosh)) = (left, self.cx.bosh.get(id)) {
                bosh.items.push_front(left);
            }
        }
        let waits = self.cx.bosh.get(id).is_some_and(|bosh| !bosh.items.is_empty());
        if let Some(conn) = self.cx.conns.get(id) {
            // Input is left: whatever unblocks the connection will look for it.
            conn.partial = waits.then(Box::default);
        }
    }

    /// Processes one element of a request. Returns the new position in its bytes.
    fn bosh_element(&mut self, id: ConnId, scope: &StreamScope, bytes: &[u8], at: usize) -> usize {
        let stanza_max = self.cx.kernel.settings.stanza_bytes_max;
        let Some(conn) = self.cx.conns.get(id) else { return bytes.len() };
        if conn.expect != StreamExpect::Content {
            self.cx.fail_stream(id, StreamCondition::BadFormat, Some("the stream must be restarted first"));
            return bytes.len();
        }
        let bytes_max = Self::item_bytes_max(conn, stanza_max);
        let rest = &bytes[at..];
        let mut scanner = std::mem::take(&mut self.scanner);
        let mut next = bytes.len();
        match scanner.scan(scope, Expect::Content, bytes_max, rest) {
            Ok(Progress::Whitespace { consumed }) => next = at + consumed,
            Ok(Progress::Element { consumed }) => {
                self.element(id, &scanner.element(scope, &rest[..consumed]), b"");
                let again = self.cx.opening(id).is_some_and(|opening| std::mem::take(&mut opening.again));
                next = if again { at } else { at + consumed };
                self.cx.wait_if_heavy(id);
            }
            Ok(_) => self.cx.fail_stream(id, StreamCondition::BadFormat, Some("a body must contain complete elements")),
            Err(fault) => {
                let condition = StreamCondition::from_name(fault.condition()).unwrap_or(StreamCondition::NotWellFormed);
                self.cx.fail_stream(id, condition, Some(fault.describe()));
            }
        }
        scanner.reset();
        self.scanner = scanner;
        next
    }

    /// Checks a session's time limits.
    pub(super) fn sweep_bosh(&mut self, id: ConnId) {
        let now_ms = self.cx.kernel.now.mono_ms;
        // The slot is free, or its session is moving.
        let Some(bosh) = self.cx.bosh.get(id) else { return };
        if bosh.is_inactive(now_ms) {
            self.cx.record(ConnEnding {
                conn: id,
                ending: Ending::Unheard,
                why: Ended::Timeout,
                error: Vec::new(),
                durable: true,
            });
        } else if bosh.is_expired(now_ms) {
            bosh.hurry();
            self.cx.touch(id);
        }
    }

    /// Number of requests that a session keeps waiting, and bytes.
    pub(super) fn bosh_keeps(&mut self, id: ConnId) -> (u64, u64) {
        self.cx.bosh.get(id).map_or((0, 0), |bosh| (bosh.waiting() as u64, bosh.bytes() as u64))
    }
}
