//! A BOSH session (XEP-0124): which request comes next, which ones wait, and which answers may have
//! to be repeated. It knows a connection only as the destination of an answer, and knows no stream:
//! what must be done is returned as [`Did`].

use std::collections::VecDeque;

use crate::id::{Border, ConnId, Crosses, ShardId};
use crate::limits::{
    BOSH_HOLD_MAX, BOSH_INACTIVITY_POLLING_S, BOSH_INACTIVITY_S, BOSH_PAUSE_S_MAX, BOSH_POLLING_S,
    BOSH_QUEUE_BYTES_MAX, BOSH_REPEATS_MAX, BOSH_REPORT_MS, BOSH_WAIT_S_MAX, LANG_BYTES_MAX,
};
use crate::web::bosh::read::{Begins, Key, Wrapper};
use crate::web::bosh::wrapped::Wrapped;
use crate::web::bosh::write::{Created, Says, body};
use crate::web::bosh::{Condition, Sid};
use crate::wire::StreamScope;
use crate::wire::stream::Version;

/// The destination of an answer: a connection of some shard, and a request on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// The shard.
    pub shard: ShardId,
    /// The connection there.
    pub conn: ConnId,
    /// The number of the request on the connection.
    pub number: u32,
}

/// An answer on its way to its request.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reply {
    /// The `<body/>` element.
    pub body: Vec<u8>,
    /// Its content type, if it is not the default.
    pub content_type: Option<Box<str>>,
    /// The condition that old clients are sent as a status code (XEP-0124 17.2).
    pub refusal: Option<Condition>,
    /// Whether the session has a user: its connections may then live as long as it does.
    pub known: bool,
    /// Whether it must wait until the writes of the turn are durable.
    pub durable: bool,
    /// Whether the connection is closed instead of answered.
    pub cut: bool,
}

/// An effect of a request or of time, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Did {
    /// Answer this request.
    Answer(Place, Vec<u8>),
    /// Answer this request with the end of the session.
    Refuse(Place, Condition),
    /// The client has received this answer's part of the output.
    Arrived(usize),
    /// End the session.
    Fail(Condition),
    /// Close the connection of a request that does not belong to the session.
    Cut(Place),
}

/// Input for the stream, in the order of the requests.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Item {
    /// Elements, and the declarations that they inherit.
    Content {
        /// The scope.
        scope: StreamScope,
        /// The elements.
        bytes: Vec<u8>,
        /// How many of the bytes have been parsed.
        at: usize,
    },
    /// The stream restarts (XEP-0206 5).
    Restart(Restart),
    /// The client has ended the session (XEP-0124 13).
    End,
}

impl Item {
    fn bytes(&self) -> usize {
        if let Item::Content { bytes, .. } = self { bytes.len() } else { 0 }
    }
}

/// The equivalent of a stream header.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Restart {
    /// The domain.
    pub to: Option<Box<str>>,
    /// The client's own claim of its address.
    pub from: Option<Box<str>>,
    /// The language.
    pub lang: Option<Box<str>>,
    /// The version.
    pub version: Option<Version>,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Waiting {
    rid: u64,
    /// `None` if its connection has closed.
    place: Option<Place>,
    since_ms: u64,
    key: Option<Key>,
    pause: bool,
}

/// A request that arrived out of order.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Early {
    wrapper: Box<Wrapper>,
    place: Place,
}

/// An answer that the client may not have received.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Kept {
    rid: u64,
    key: Option<Key>,
    /// Empty for the default answer without content.
    body: Vec<u8>,
    sent_ms: u64,
    /// Number of messages in it.
    messages: usize,
}

/// What a client is told when the session begins.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Beginning {
    from: Box<str>,
    ver: Option<crate::web::bosh::read::Ver>,
}

/// The session.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Bosh {
    /// The session's id.
    pub sid: Sid,
    /// The connection without a socket that represents its stream.
    pub conn: ConnId,
    /// Whether it began over TLS, in which case all its requests must use TLS (XEP-0124 19.1).
    pub secured: bool,
    /// The language of its stanzas, until a restart declares another one (XEP-0124 7.1).
    lang: Option<Box<str>>,
    /// The content type of its answers.
    pub content_type: Option<Box<str>>,
    /// Whether the client understands terminal conditions, not only status codes (XEP-0124 17.2).
    pub knows_conditions: bool,
    /// Input for the stream that has not been processed; bounded by `BOSH_QUEUE_BYTES_MAX`.
    pub items: VecDeque<Item>,
    /// Why the session ends, if the reason is outside the stream.
    pub fails: Option<Condition>,
    wait_s: u32,
    hold: u8,
    acks: bool,
    beginning: Option<Box<Beginning>>,
    /// The hash that the next key must have.
    expects: Option<[u8; 20]>,
    /// The last request that was processed in order.
    rid: u64,
    /// When it arrived, milliseconds of the monotonic clock.
    came_ms: u64,
    /// Whether it had no content.
    was_empty: bool,
    /// Whether the last answer had no content.
    answered_empty: bool,
    /// Requests that arrived out of order: bounded by the window.
    early: Vec<Early>,
    /// At most one more than the permitted number of simultaneous requests; that one pauses or ends
    /// the session.
    waiting: VecDeque<Waiting>,
    /// Bounded: at most two more than the permitted number of simultaneous requests.
    kept: VecDeque<Kept>,
    /// The last request that was answered.
    answered: u64,
    /// When the last waiting request was answered, milliseconds of the monotonic clock.
    quiet_ms: u64,
    pause_s: Option<u32>,
    report: Option<u64>,
    repeats: u8,
    /// Whether the waiting requests are to be answered at once.
    hurries: bool,
}

impl Crosses for Bosh {
    fn cross(&mut self, border: Border) {
        border.past_ms(&mut self.came_ms);
        border.past_ms(&mut self.quiet_ms);
        self.waiting.iter_mut().for_each(|waiting| border.past_ms(&mut waiting.since_ms));
        self.kept.iter_mut().for_each(|kept| border.past_ms(&mut kept.sent_ms));
    }
}

impl Bosh {
    /// Begins a session with this request, at the domain `from`.
    pub fn begin(
        sid: Sid,
        conn: ConnId,
        secured: bool,
        wrapper: &Wrapper,
        from: &str,
        place: Place,
        now_ms: u64,
    ) -> Bosh {
        let Begins { ver, wait_s, hold, content_type, .. } = wrapper.begins.clone();
        let first = Waiting { rid: wrapper.rid, place: Some(place), since_ms: now_ms, key: None, pause: false };
        Bosh {
            sid,
            conn,
            secured,
            lang: wrapper.lang.clone().filter(|lang| lang.len() <= LANG_BYTES_MAX),
            content_type,
            knows_conditions: ver.is_some(),
            items: VecDeque::new(),
            fails: None,
            wait_s: wait_s.unwrap_or(BOSH_WAIT_S_MAX).min(BOSH_WAIT_S_MAX),
            hold: hold.unwrap_or(BOSH_HOLD_MAX).min(BOSH_HOLD_MAX),
            acks: wrapper.ack.is_some(),
            beginning: Some(Box::new(Beginning { from: from.into(), ver })),
            expects: wrapper.newkey,
            rid: wrapper.rid,
            came_ms: now_ms,
            was_empty: false,
            answered_empty: false,
            early: Vec::new(),
            waiting: VecDeque::from([first]),
            kept: VecDeque::new(),
            answered: wrapper.rid - 1,
            quiet_ms: now_ms,
            pause_s: None,
            report: None,
            repeats: 0,
            hurries: false,
        }
    }

    /// Number of requests that the client may have open at once (XEP-0124 7.2).
    pub fn requests(&self) -> u8 {
        self.hold + 1
    }

    /// Whether the session polls (XEP-0124 12).
    pub fn polls(&self) -> bool {
        self.hold == 0 || self.wait_s == 0
    }

    /// Number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.early.len()
    }

    /// Memory beside the struct, bytes.
    pub fn bytes(&self) -> usize {
        let items: usize = self.items.iter().map(Item::bytes).sum();
        let early: usize = self.early.iter().map(|early| early.wrapper.content.len() + size_of::<Wrapper>()).sum();
        items + early + self.kept.iter().map(|kept| kept.body.len()).sum::<usize>()
    }

    fn queued(&self) -> usize {
        self.items.iter().map(Item::bytes).sum()
    }

    /// Handles a request. `is_secured` tells whether it came over TLS.
    pub fn came(&mut self, wrapper: Box<Wrapper>, place: Place, is_secured: bool, now_ms: u64) -> Vec<Did> {
        let mut did = Vec::new();
        if self.secured && !is_secured {
            did.push(Did::Cut(place));
        } else if wrapper.rid <= self.rid {
            self.came_again(&wrapper, place, &mut did);
        } else if wrapper.rid == self.rid + 1 {
            self.take(*wrapper, place, now_ms, &mut did);
            while let Some(next) = self.early.iter().position(|early| early.wrapper.rid == self.rid + 1)
                && !did.iter().any(|did| matches!(did, Did::Fail(_)))
            {
                let Early { wrapper, place } = self.early.swap_remove(next);
                self.take(*wrapper, place, now_ms, &mut did);
            }
        } else {
            self.came_early(wrapper, place, &mut did);
        }
        did
    }

    /// Holds a request that arrived out of order (XEP-0124 14.2).
    fn came_early(&mut self, wrapper: Box<Wrapper>, place: Place, did: &mut Vec<Did>) {
        let spare = u64::from(wrapper.terminates || wrapper.pause_s.is_some());
        if wrapper.rid > self.rid + u64::from(self.requests()) + spare {
            return Self::refuse(Condition::ItemNotFound, place, did);
        }
        if let Some(early) = self.early.iter_mut().find(|early| early.wrapper.rid == wrapper.rid) {
            // XEP-0124 14.3: a repeated request.
            let before = std::mem::replace(&mut early.place, place);
            did.push(Did::Answer(before, recoverable()));
            return self.count_repeat(did);
        }
        self.early.push(Early { wrapper, place });
    }

    /// Handles a repeated request (XEP-0124 14.3).
    fn came_again(&mut self, wrapper: &Wrapper, place: Place, did: &mut Vec<Did>) {
        let own_key = |key: Option<Key>| key.map(|key| key.own) == wrapper.key.map(|key| key.own);
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.rid == wrapper.rid) {
            // XEP-0124 15.4: another client may have seen the number.
            if !own_key(waiting.key) {
                return Self::refuse(Condition::ItemNotFound, place, did);
            }
            if let Some(before) = waiting.place.replace(place) {
                did.push(Did::Answer(before, recoverable()));
            }
        } else if let Some(kept) = self.kept.iter().find(|kept| kept.rid == wrapper.rid) {
            if !own_key(kept.key) {
                return Self::refuse(Condition::ItemNotFound, place, did);
            }
            let body =
                if kept.body.is_empty() { body(&Says::default(), &Wrapped::default()) } else { kept.body.clone() };
            did.push(Did::Answer(place, body));
        } else {
            return Self::refuse(Condition::ItemNotFound, place, did);
        }
        self.count_repeat(did);
    }

    fn count_repeat(&mut self, did: &mut Vec<Did>) {
        self.repeats = self.repeats.saturating_add(1);
        if self.repeats > BOSH_REPEATS_MAX {
            did.push(Did::Fail(Condition::PolicyViolation));
        }
    }

    /// Ends the session because of a request that is not among the waiting ones; that request is
    /// answered first.
    fn refuse(condition: Condition, place: Place, did: &mut Vec<Did>) {
        did.extend([Did::Refuse(place, condition), Did::Fail(condition)]);
    }

    /// Processes the next request in order.
    fn take(&mut self, wrapper: Wrapper, place: Place, now_ms: u64, did: &mut Vec<Did>) {
        let is_spare = wrapper.terminates || wrapper.pause_s.is_some();
        let is_empty = wrapper.content.is_empty() && !wrapper.restarts;
        if let Some(expected) = self.expects
            && wrapper.key.is_none_or(|key| key.hash != expected)
        {
            return Self::refuse(Condition::ItemNotFound, place, did);
        }
        if wrapper.key.is_some() && self.expects.is_some() {
            self.expects = wrapper.newkey.or(wrapper.key.map(|key| key.own));
        }
        if wrapper.names_stream && !wrapper.content.is_empty() {
            // XEP-0124 16.4: there is one stream, and it has no name.
            return Self::refuse(Condition::ItemNotFound, place, did);
        }
        let soon = now_ms.saturating_sub(self.came_ms) < u64::from(BOSH_POLLING_S) * 1_000;
        let there = self.waiting.len() + 1;
        let most = usize::from(self.requests());
        let overactive = match (self.polls(), is_spare) {
            (_, true) => there > most + 1,
            (true, false) => there > most || (is_empty && self.was_empty && self.answered_empty && soon),
            (false, false) => there > most || (there == most && is_empty && soon),
        };
        if overactive || self.queued() + wrapper.content.len() > BOSH_QUEUE_BYTES_MAX {
            return Self::refuse(Condition::PolicyViolation, place, did);
        }
        self.got(&wrapper, most + usize::from(is_spare), now_ms, did);
        (self.rid, self.came_ms, self.was_empty, self.repeats) = (wrapper.rid, now_ms, is_empty, 0);
        // XEP-0124 10: a request ends the previous pause.
        self.pause_s = wrapper.pause_s.filter(|pause_s| (1..=BOSH_PAUSE_S_MAX).contains(pause_s));
        let (key, pause) = (wrapper.key, self.pause_s.is_some());
        self.waiting.push_back(Waiting { rid: wrapper.rid, place: Some(place), since_ms: now_ms, key, pause });
        if wrapper.restarts {
            let Wrapper { to, from, lang, begins: Begins { version, .. }, .. } = wrapper;
            let lang = lang.or_else(|| self.lang.clone());
            self.items.push_back(Item::Restart(Restart { to, from, lang, version }));
        } else if !wrapper.content.is_empty() {
            self.items.push_back(Item::Content { scope: wrapper.scope, bytes: wrapper.content, at: 0 });
        }
        if wrapper.terminates {
            self.items.push_back(Item::End);
        }
    }

    /// Removes answers that the client must have received in order to send this request, or that it
    /// acknowledges (XEP-0124 9.2).
    fn got(&mut self, wrapper: &Wrapper, open: usize, now_ms: u64, did: &mut Vec<Did>) {
        let said = match (self.acks, wrapper.ack) {
            (true, None) => self.answered,
            (_, Some(ack)) => ack.min(self.answered),
            (false, None) => 0,
        };
        // As many of the earlier answers may be in flight as there may be requests. The client
        // would have requested an older one again.
        let up_to = said.max(wrapper.rid.saturating_sub(open as u64 + 1));
        while self.kept.front().is_some_and(|kept| kept.rid <= up_to)
            && let Some(kept) = self.kept.pop_front()
        {
            if kept.messages > 0 {
                did.push(Did::Arrived(kept.messages));
            }
        }
        let late = |kept: &&Kept| now_ms.saturating_sub(kept.sent_ms) >= BOSH_REPORT_MS;
        if wrapper.ack.is_some() {
            self.report = self.kept.front().filter(late).map(|kept| kept.rid);
        }
    }

    /// Whether the oldest request is to be answered now. `pending` tells whether there is output;
    /// `blocked`, that input is still unprocessed, so no more is requested.
    pub fn is_due(&self, pending: bool, blocked: bool) -> bool {
        let Some(first) = self.waiting.front() else { return false };
        let excess = self.waiting.len() > usize::from(self.hold) || self.wait_s == 0;
        if first.place.is_none() {
            // Answers must be sent in order. The client receives the answer when it repeats its
            // request (XEP-0124 14.3).
            return self.waiting.iter().any(|waiting| waiting.place.is_some()) && (excess || pending);
        }
        pending || self.pauses() || self.hurries || self.report.is_some() || (excess && !blocked)
    }

    /// Whether a pause was requested and its request has not been answered; until then nothing is
    /// sent (XEP-0124 10).
    fn pauses(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.pause)
    }

    /// Whether the next answer may have content.
    pub fn takes_content(&self) -> bool {
        !self.pauses() && self.waiting.front().is_some_and(|first| first.place.is_some())
    }

    /// Requests an immediate answer to the waiting requests.
    pub fn hurry(&mut self) {
        self.hurries = !self.waiting.is_empty();
    }

    /// Answers the oldest request with this content. It contains `messages` messages that are
    /// stored nowhere else.
    pub fn answer(&mut self, content: &Wrapped, messages: usize, now_ms: u64) -> Option<(Place, Vec<u8>)> {
        let Waiting { rid, place, key, pause, .. } = self.waiting.pop_front()?;
        let beginning = self.beginning.take();
        let created = beginning.as_ref().map(|beginning| Created {
            sid: self.sid,
            from: &beginning.from,
            wait_s: self.wait_s,
            hold: self.hold,
            requests: self.requests(),
            inactivity_s: self.inactivity_s(),
            ver: beginning.ver,
        });
        let ack = (self.acks && (created.is_some() || self.rid != rid)).then_some(self.rid);
        let sent_ms = |rid| self.kept.iter().find(|kept| kept.rid == rid).map(|kept| kept.sent_ms);
        let report = self.report.take().and_then(|rid| Some((rid, now_ms.saturating_sub(sent_ms(rid)?))));
        let says = Says { created, ack, report, ..Says::default() };
        let body = body(&says, content);
        let usual = says.created.is_none() && ack.is_none() && report.is_none() && content.bytes.is_empty();
        self.answered = rid;
        self.answered_empty = content.bytes.is_empty();
        // XEP-0124 14.3: answers to pauses are not retained.
        if !pause {
            let body = if usual { Vec::new() } else { body.clone() };
            self.kept.push_back(Kept { rid, key, body, sent_ms: now_ms, messages });
        }
        if self.waiting.is_empty() {
            (self.quiet_ms, self.hurries) = (now_ms, false);
        }
        Some((place?, body))
    }

    /// Ends the session. Returns the answers to its requests, the oldest first (XEP-0124 13).
    pub fn end(&mut self, condition: Option<Condition>, content: &Wrapped) -> Vec<(Place, Vec<u8>)> {
        let early = self.early.drain(..).map(|early| Some(early.place));
        let places = self.waiting.drain(..).map(|waiting| waiting.place).chain(early).flatten();
        let others = body(&Says::default(), &Wrapped::default());
        let mut first = Some(body(&Says { ends: Some(condition), ..Says::default() }, content));
        places.map(|place| (place, first.take().unwrap_or_else(|| others.clone()))).collect()
    }

    /// The connection of a request has closed. If it `hurries`, the client has instead sent more on
    /// it, which is read after the answer.
    pub fn left(&mut self, place: Place, hurries: bool, now_ms: u64) {
        let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.place == Some(place)) else { return };
        if hurries {
            return self.hurry();
        }
        waiting.place = None;
        if self.waiting.iter().all(|waiting| waiting.place.is_none()) {
            self.quiet_ms = now_ms;
        }
    }

    /// Seconds for which the session may have no request (XEP-0124 10, 12).
    fn inactivity_s(&self) -> u32 {
        if self.polls() { BOSH_INACTIVITY_POLLING_S } else { BOSH_INACTIVITY_S }
    }

    /// Whether the client has been inactive for too long.
    pub fn is_inactive(&self, now_ms: u64) -> bool {
        let none = self.waiting.iter().all(|waiting| waiting.place.is_none());
        let most_s = self.pause_s.unwrap_or_else(|| self.inactivity_s());
        none && now_ms.saturating_sub(self.quiet_ms) > u64::from(most_s) * 1_000
    }

    /// Whether the oldest request has reached its maximum wait (XEP-0124 8).
    pub fn is_expired(&self, now_ms: u64) -> bool {
        let since = self.waiting.front().filter(|first| first.place.is_some()).map(|first| first.since_ms);
        since.is_some_and(|since| now_ms.saturating_sub(since) >= u64::from(self.wait_s) * 1_000)
    }
}

/// The body for recoverable errors (XEP-0124 17.4).
fn recoverable() -> Vec<u8> {
    body(&Says { recoverable: true, ..Says::default() }, &Wrapped::default())
}
