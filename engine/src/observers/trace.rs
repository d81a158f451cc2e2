//! A trace of one user's stanzas, stored until an operator's command fetches it.
//!
//! A [`Record`] is a stanza, the fate of an earlier one, or a session event. Without `bodies`, the
//! content of stanzas is omitted: the record then contains no text or other choice of a client,
//! except the addresses, the `id` and the `type`. Payloads that the server knows are named.

use std::collections::VecDeque;

use crate::id::{Now, SessionId};
use crate::ns;
use crate::wire::Element;

/// Maximum number of records that wait to be fetched; further ones are only counted.
pub const RECORDS_MAX: usize = 4_096;
/// Maximum bytes of text of these records.
pub const BYTES_MAX: usize = 4 << 20;
/// Maximum number of stanzas per trace whose fate is pending; the fate of others is not reported.
const FOLLOWED_MAX: usize = 1_024;
/// Maximum bytes of a stanza that are recorded, if content is requested.
pub const XML_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of text per page, unless its first record alone has more.
const PAGE_BYTES_MAX: usize = 128 << 10;
/// Maximum length of a recorded `id` or `type`, in characters.
const WORD_CHARS_MAX: usize = 256;
/// Maximum length of a recorded address, in characters: three parts of maximum length.
const ADDRESS_CHARS_MAX: usize = 3 * crate::limits::JID_PART_BYTES_MAX + 2;
/// A trace ends this long after the last fetch, milliseconds.
pub const ABANDONED_MS: u64 = 10_000;

/// The direction of a stanza.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client.
    In,
    /// To the client.
    Out,
    /// For the user, but sent to none of the sessions.
    Aside,
}

/// What happened to a stanza.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server has processed it.
    Taken,
    /// It is on its way to its recipient's home, which has not confirmed it yet.
    UnderWay,
    /// Its recipient's home has received it (XEP-0198: it counts as handled).
    Safe,
    /// Its sender receives an error with this condition.
    Refused(&'static str),
    /// It waits to be sent, after this number of bytes.
    Queued(usize),
    /// Its session has no connection and may be resumed (XEP-0198 5).
    Held,
    /// The kernel has accepted its bytes.
    Sent,
    /// The client has acknowledged it (XEP-0198 4).
    Acknowledged,
    /// It waits in the recipient's log.
    Stored,
}

/// A session event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Its resource was bound.
    Bound,
    /// The session lost its connection and waits to be resumed.
    Disconnected,
    /// It was resumed, and this number of stanzas was sent again.
    Resumed(u32),
    /// The session ended.
    Ended,
}

/// A traced stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza {
    /// Full JID of the session that sent it or that it is sent to.
    pub session: Option<Box<str>>,
    /// Its direction.
    pub way: Way,
    /// `message`, `presence` or `iq`.
    pub name: &'static str,
    /// Its `from`, as written.
    pub from: Option<Box<str>>,
    /// Its `to`, as written.
    pub to: Option<Box<str>>,
    /// Its `id`, truncated to 256 characters.
    pub id: Option<Box<str>>,
    /// Its `type`, truncated likewise.
    pub kind: Option<Box<str>>,
    /// The names of its payloads, if the server knows them; `other` for the rest.
    pub payload: Vec<&'static str>,
    /// Its length in bytes.
    pub bytes: usize,
    /// Its immediate fate.
    pub fate: Fate,
    /// The whole stanza if requested, up to [`XML_BYTES_MAX`].
    pub xml: Option<Box<str>>,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A stanza.
    Stanza(Box<Stanza>),
    /// The fate of an earlier stanza.
    Fate {
        /// The number of the stanza's record.
        of: u64,
        /// Its fate.
        fate: Fate,
        /// Time since the stanza was recorded, microseconds.
        after_us: u64,
    },
    /// A session event.
    Session {
        /// The session's full JID.
        session: Box<str>,
        /// The event.
        news: News,
    },
}

/// One entry of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counted from 1 in a trace, including records that were dropped.
    pub number: u64,
    /// When it was recorded, microseconds since the Unix epoch.
    pub at_us: u64,
    /// Its content.
    pub what: What,
}

impl Record {
    fn bytes(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        size_of::<Record>()
            + match &self.what {
                What::Stanza(s) => {
                    let texts = [&s.session, &s.from, &s.to, &s.id, &s.kind, &s.xml];
                    size_of::<Stanza>() + 16 * s.payload.len() + texts.into_iter().map(text).sum::<usize>()
                }
                What::Fate { .. } => 0,
                What::Session { session, .. } => session.len(),
            }
    }
}

/// The records of one fetch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// The records in order.
    pub records: Vec<Record>,
    /// Whether there are more already.
    pub more: bool,
    /// Records dropped so far, because too many waited.
    pub dropped: u64,
    /// Stanzas seen so far, including those that were dropped.
    pub stanzas: u64,
    /// Whether the trace has ended: no more records are added.
    pub over: bool,
}

/// The state of a stanza whose fate is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At its recipient's home; with the number in its session's inbound count.
    UnderWay(u32),
    /// Waiting for a send to finish, or for the end of a turn.
    Queued,
    /// Part of the send in progress.
    Sending,
    /// Accepted by the kernel.
    Sent,
}

#[derive(Debug)]
struct Followed {
    number: u64,
    at_us: u64,
    session: SessionId,
    place: Place,
    /// The number in the session's outbound count (XEP-0198 4); `None` without stream management.
    counted: Option<u32>,
}

/// The stanza that the shard is processing.
#[derive(Debug)]
struct Current {
    number: u64,
    at_us: u64,
    refused: Option<&'static str>,
}

/// A trace in progress.
#[derive(Debug)]
pub struct Trace {
    /// The trace's number.
    pub id: u64,
    account: Box<str>,
    resource: Option<Box<str>>,
    /// Whether whole stanzas are recorded.
    pub bodies: bool,
    until_ms: u64,
    asked_ms: u64,
    numbered: u64,
    stanzas: u64,
    dropped: u64,
    /// At most [`RECORDS_MAX`], of [`BYTES_MAX`].
    records: VecDeque<Record>,
    bytes: usize,
    /// At most [`FOLLOWED_MAX`].
    followed: Vec<Followed>,
    current: Option<Current>,
}

impl Trace {
    /// Starts a trace of a user's sessions, or of the one with this resource, for `ms`
    /// milliseconds.
    pub fn new(id: u64, account: &str, resource: Option<&str>, bodies: bool, now_ms: u64, ms: u64) -> Trace {
        Trace {
            id,
            account: account.into(),
            resource: resource.map(Into::into),
            bodies,
            until_ms: now_ms.saturating_add(ms),
            asked_ms: now_ms,
            numbered: 0,
            stanzas: 0,
            dropped: 0,
            records: VecDeque::new(),
            bytes: 0,
            followed: Vec::new(),
            current: None,
        }
    }

    /// Whether the last fetch was too long ago.
    pub fn is_abandoned(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.asked_ms) > ABANDONED_MS
    }

    /// Whether it traces this user.
    pub fn is_of(&self, account: &str) -> bool {
        *self.account == *account
    }

    /// Whether the trace covers a session with this resource, or a stanza addressed to it; without
    /// a resource, a stanza for the user as a whole.
    pub fn takes(&self, account: &str, resource: Option<&str>) -> bool {
        self.is_of(account) && (self.resource.is_none() || self.resource.as_deref() == resource)
    }

    fn is_over(&self, now: Now) -> bool {
        now.mono_ms >= self.until_ms
    }

    /// Adds a record if there is room. Returns its number, and whether there was room.
    fn add(&mut self, now: Now, what: What) -> (u64, bool) {
        self.numbered += 1;
        let record = Record { number: self.numbered, at_us: now.wall_us, what };
        let bytes = record.bytes();
        if self.records.len() >= RECORDS_MAX || self.bytes + bytes > BYTES_MAX {
            self.dropped += 1;
            return (self.numbered, false);
        }
        self.bytes += bytes;
        self.records.push_back(record);
        (self.numbered, true)
    }

    /// Adds a stanza. Returns its number if there was room.
    fn stanza(&mut self, now: Now, stanza: Stanza) -> Option<u64> {
        self.stanzas += 1;
        let (number, added) = self.add(now, What::Stanza(Box::new(stanza)));
        added.then_some(number)
    }

    fn follow(&mut self, number: u64, at_us: u64, session: SessionId, place: Place, counted: Option<u32>) {
        if self.followed.len() < FOLLOWED_MAX {
            self.followed.push(Followed { number, at_us, session, place, counted });
        }
    }

    /// Records a stanza from a session; [`Trace::taken`] follows.
    pub fn came(&mut self, now: Now, stanza: Stanza) {
        if self.is_over(now) {
            return;
        }
        self.current = self.stanza(now, stanza).map(|number| Current { number, at_us: now.wall_us, refused: None });
    }

    /// Records that the current stanza is answered with an error.
    pub fn refused(&mut self, condition: &'static str) {
        if let Some(current) = &mut self.current {
            current.refused = Some(condition);
        }
    }

    /// Records that the shard has processed the current stanza. With `under_way` another home must
    /// confirm it, under this number if the session counts, otherwise 0.
    pub fn taken(&mut self, session: SessionId, under_way: Option<u32>) {
        let Some(Current { number, at_us, refused }) = self.current.take() else { return };
        let fate = match (refused, under_way) {
            (Some(condition), _) => Fate::Refused(condition),
            (None, Some(_)) => Fate::UnderWay,
            (None, None) => Fate::Taken,
        };
        let added = self.records.iter_mut().rev().find(|record| record.number == number);
        if let Some(What::Stanza(stanza)) = added.map(|record| &mut record.what) {
            stanza.fate = fate;
        }
        if let (Fate::UnderWay, Some(seq @ 1..)) = (fate, under_way) {
            self.follow(number, at_us, session, Place::UnderWay(seq), None);
        }
    }

    /// Records a stanza to a session, with this number in its outbound count.
    pub fn goes(&mut self, now: Now, session: SessionId, stanza: Stanza, counted: Option<u32>) {
        if self.is_over(now) {
            return;
        }
        let held = stanza.fate == Fate::Held;
        let Some(number) = self.stanza(now, stanza) else { return };
        if !held || counted.is_some() {
            self.follow(number, now.wall_us, session, Place::Queued, counted);
        }
    }

    /// Records that a stanza is sent before those from this number in the outbound count on.
    pub fn overtakes(&mut self, session: SessionId, counted: u32) {
        for followed in self.followed.iter_mut().filter(|followed| followed.session == session) {
            if let Some(number) = followed.counted.as_mut().filter(|number| !is_before(**number, counted)) {
                *number = number.wrapping_add(1);
            }
        }
    }

    /// Records a stanza for the user that no session receives now.
    pub fn aside(&mut self, now: Now, stanza: Stanza) {
        if !self.is_over(now) {
            self.stanza(now, stanza);
        }
    }

    /// Records a session event.
    pub fn news(&mut self, now: Now, id: SessionId, session: &str, news: News) {
        if self.is_over(now) {
            return;
        }
        self.add(now, What::Session { session: session.into(), news });
        match news {
            News::Bound => {}
            News::Resumed(_) => {
                let again = self.followed.iter_mut().filter(|followed| followed.session == id);
                again.for_each(|followed| {
                    if followed.counted.is_some() {
                        followed.place = Place::Queued;
                    }
                });
            }
            // Stanzas that are not counted are not sent again.
            News::Disconnected => self.followed.retain(|followed| {
                followed.session != id || followed.counted.is_some() || matches!(followed.place, Place::UnderWay(_))
            }),
            News::Ended => self.followed.retain(|followed| followed.session != id),
        }
    }

    /// Applies `step` to each pending stanza of a session. A fate that it returns is recorded; with
    /// `true` the stanza is no longer pending.
    fn step(&mut self, now: Now, session: SessionId, mut step: impl FnMut(&mut Followed) -> (Option<Fate>, bool)) {
        if self.followed.is_empty() {
            return;
        }
        let mut told = Vec::new();
        self.followed.retain_mut(|followed| {
            if followed.session != session {
                return true;
            }
            let (fate, stays) = step(followed);
            told.extend(fate.map(|fate| (followed.number, followed.at_us, fate)));
            stays
        });
        for (of, at_us, fate) in told {
            self.add(now, What::Fate { of, fate, after_us: now.wall_us.saturating_sub(at_us) });
        }
    }

    /// Records that the recipient's home has confirmed this stanza of a session.
    pub fn safe(&mut self, now: Now, session: SessionId, seq: u32) {
        self.step(now, session, |followed| match followed.place == Place::UnderWay(seq) {
            true => (Some(Fate::Safe), false),
            false => (None, true),
        });
    }

    /// Records that everything that waits for a session's connection is part of the send now
    /// starting.
    pub fn sending(&mut self, now: Now, session: SessionId) {
        self.step(now, session, |followed| {
            if followed.place == Place::Queued {
                followed.place = Place::Sending;
            }
            (None, true)
        });
    }

    /// Records that the kernel has accepted the send in progress.
    pub fn sent(&mut self, now: Now, session: SessionId) {
        self.step(now, session, |followed| match followed.place == Place::Sending {
            true => {
                followed.place = Place::Sent;
                (Some(Fate::Sent), followed.counted.is_some())
            }
            false => (None, true),
        });
    }

    /// Records that the client has acknowledged stanzas up to this number.
    pub fn acknowledged(&mut self, now: Now, session: SessionId, h: u32) {
        self.step(now, session, |followed| match followed.counted.is_some_and(|counted| !is_before(h, counted)) {
            true => (Some(Fate::Acknowledged), false),
            false => (None, true),
        });
    }

    /// Removes and returns one page of records.
    pub fn fetch(&mut self, now: Now) -> Page {
        self.asked_ms = now.mono_ms;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.records.front() {
            let more = next.bytes();
            if bytes > 0 && bytes + more > PAGE_BYTES_MAX {
                break;
            }
            bytes += more;
            records.extend(self.records.pop_front());
        }
        self.bytes -= bytes;
        let more = !self.records.is_empty();
        Page { records, more, dropped: self.dropped, stanzas: self.stanzas, over: self.is_over(now) }
    }
}

/// Whether a stream management count precedes another: counts wrap around (XEP-0198 4).
fn is_before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

/// Payloads with a name of their own: the most frequent ones, and those that this server answers.
const KNOWN: &[(&str, &str)] = &[
    ("body", ns::CLIENT),
    ("subject", ns::CLIENT),
    ("thread", ns::CLIENT),
    ("show", ns::CLIENT),
    ("status", ns::CLIENT),
    ("priority", ns::CLIENT),
    ("error", ns::CLIENT),
    ("active", "http://jabber.org/protocol/chatstates"),
    ("composing", "http://jabber.org/protocol/chatstates"),
    ("paused", "http://jabber.org/protocol/chatstates"),
    ("inactive", "http://jabber.org/protocol/chatstates"),
    ("gone", "http://jabber.org/protocol/chatstates"),
    ("request", "urn:xmpp:receipts"),
    ("received", "urn:xmpp:receipts"),
    ("markable", "urn:xmpp:chat-markers:0"),
    ("displayed", "urn:xmpp:chat-markers:0"),
    ("origin-id", ns::STANZA_ID),
    ("stanza-id", ns::STANZA_ID),
    ("delay", "urn:xmpp:delay"),
    ("encrypted", "eu.siacs.conversations.axolotl"),
    ("c", "http://jabber.org/protocol/caps"),
    ("ping", "urn:xmpp:ping"),
    ("time", "urn:xmpp:time"),
    ("bind", ns::BIND),
    ("session", "urn:ietf:params:xml:ns:xmpp-session"),
    ("vCard", "vcard-temp"),
];

/// Requests whose element is `query`, by their namespace.
const QUERIES: &[(&str, &str)] = &[
    ("roster", "jabber:iq:roster"),
    ("private", "jabber:iq:private"),
    ("register", "jabber:iq:register"),
    ("version", "jabber:iq:version"),
    ("last", "jabber:iq:last"),
    ("disco#info", "http://jabber.org/protocol/disco#info"),
    ("disco#items", "http://jabber.org/protocol/disco#items"),
];

/// The name of all payloads without an entry here.
const OTHER: &str = "other";
/// Maximum number of payloads of a stanza that are named.
const PAYLOADS_MAX: usize = 16;

fn payload(name: &str, namespace: &str) -> &'static str {
    let query = QUERIES.iter().find(|(_, ns)| name == "query" && *ns == namespace);
    let known = KNOWN.iter().find(|(known, ns)| *known == name && *ns == namespace);
    query.or(known).map_or(OTHER, |(name, _)| name)
}

fn cut(text: &str, chars_max: usize) -> Box<str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => [&text[..end], "…"].concat().into(),
        None => text.into(),
    }
}

impl Stanza {
    /// Describes an element; includes all of it with `bodies`.
    pub fn of(element: &Element<'_>, session: Option<&str>, way: Way, fate: Fate, bodies: bool) -> Stanza {
        let name = match element.name() {
            "message" => "message",
            "presence" => "presence",
            _ => "iq",
        };
        let xml = bodies.then(|| {
            let bytes = element.bytes();
            String::from_utf8_lossy(&bytes[..boundary(bytes, XML_BYTES_MAX)]).into()
        });
        Stanza {
            session: session.map(Into::into),
            way,
            name,
            from: element.from().map(|from| cut(&from, ADDRESS_CHARS_MAX)),
            to: element.to().map(|to| cut(&to, ADDRESS_CHARS_MAX)),
            id: element.id().map(|id| cut(&id, WORD_CHARS_MAX)),
            kind: element.kind().map(|kind| cut(&kind, WORD_CHARS_MAX)),
            payload: element.children().take(PAYLOADS_MAX).map(|c| payload(c.name(), c.namespace())).collect(),
            bytes: element.bytes().len(),
            fate,
            xml,
        }
    }
}

/// The last index up to `at` that is a character boundary.
fn boundary(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && at > 0 && bytes[at] & 0xc0 == 0x80 {
        at -= 1;
    }
    at.min(bytes.len())
}
