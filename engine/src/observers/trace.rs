//! One user's stanzas as they come and go, until an operator's command fetches them.
//!
//! A [`Record`] is a stanza, what became of an earlier one, or news of a session. What a stanza carries is left out where it is
//! not asked for: then neither text nor anything else that a client has chosen is in the record, but for the addresses, the `id`
//! and the `type`. Payloads that the server knows are named.

use std::collections::VecDeque;

use crate::id::{Now, SessionId};
use crate::ns;
use crate::wire::Element;

/// Records that wait to be fetched at most; what comes beyond is counted.
pub const RECORDS_MAX: usize = 4_096;
/// Bytes of text of these at most.
pub const BYTES_MAX: usize = 4 << 20;
/// Stanzas of a trace whose fate is waited for at most; of others it is not told.
const FOLLOWED_MAX: usize = 1_024;
/// Bytes of a stanza that are kept, where what it carries is asked for.
pub const XML_BYTES_MAX: usize = 64 << 10;
/// Bytes of text of one page, unless its first record alone has more.
const PAGE_BYTES_MAX: usize = 128 << 10;
/// Longest `id` or `type` that is kept, in characters.
const WORD_CHARS_MAX: usize = 256;
/// Longest address that is kept, in characters: three parts at their bound.
const ADDRESS_CHARS_MAX: usize = 3 * crate::limits::JID_PART_BYTES_MAX + 2;
/// A trace that nobody has fetched from for so long ends, milliseconds.
pub const ABANDONED_MS: u64 = 10_000;

/// Which way a stanza went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client.
    In,
    /// To the client.
    Out,
    /// For the user, but to none of the sessions.
    Aside,
}

/// What became of a stanza.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server has done what it asks for.
    Taken,
    /// It is on its way to its receiver's home, which has not confirmed it yet.
    UnderWay,
    /// Its receiver's home has it (XEP-0198: it counts as handled).
    Safe,
    /// Its sender gets an error with this condition.
    Refused(&'static str),
    /// It waits to be sent, behind so many bytes.
    Queued(usize),
    /// Its session has no connection and may be resumed (XEP-0198 5).
    Held,
    /// The kernel has its bytes.
    Sent,
    /// The client has it (XEP-0198 4).
    Acknowledged,
    /// It waits in the receiver's log.
    Stored,
}

/// News of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Its resource was bound.
    Bound,
    /// It has lost its connection and waits to be resumed.
    Disconnected,
    /// It was resumed, and so many stanzas were sent again.
    Resumed(u32),
    /// It is over.
    Ended,
}

/// A stanza as it is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stanza {
    /// Full JID of the session that it came from or goes to.
    pub session: Option<Box<str>>,
    /// Which way.
    pub way: Way,
    /// `message`, `presence` or `iq`.
    pub name: &'static str,
    /// Its `from`, as written.
    pub from: Option<Box<str>>,
    /// Its `to`, as written.
    pub to: Option<Box<str>>,
    /// Its `id`, of which no more than 256 characters are kept.
    pub id: Option<Box<str>>,
    /// Its `type`, likewise.
    pub kind: Option<Box<str>>,
    /// What it carries, as far as the server has a name for it; `other` stands for the rest.
    pub payload: Vec<&'static str>,
    /// Its length.
    pub bytes: usize,
    /// What became of it at once.
    pub fate: Fate,
    /// All of it, if that is asked for, up to [`XML_BYTES_MAX`].
    pub xml: Option<Box<str>>,
}

/// What a record tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A stanza.
    Stanza(Box<Stanza>),
    /// What became of the stanza with this number.
    Fate {
        /// Its number.
        of: u64,
        /// What became of it.
        fate: Fate,
        /// How long after it was seen, microseconds.
        after_us: u64,
    },
    /// News of a session.
    Session {
        /// Its full JID.
        session: Box<str>,
        /// The news.
        news: News,
    },
}

/// One thing that a trace has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counted from 1 in a trace, those that were left out included.
    pub number: u64,
    /// When, microseconds since the Unix epoch.
    pub at_us: u64,
    /// What.
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

/// What is fetched at once.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// In order.
    pub records: Vec<Record>,
    /// There are more already.
    pub more: bool,
    /// Records that were left out so far, because too many waited.
    pub dropped: u64,
    /// Stanzas seen so far, those that were left out included.
    pub stanzas: u64,
    /// Its time is over: nothing is added any more.
    pub over: bool,
}

/// Where a stanza is whose fate is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// With its receiver's home; the number in its session's inbound count.
    UnderWay(u32),
    /// Behind a send, or behind the end of a turn.
    Queued,
    /// In the send that is under way.
    Sending,
    /// Gone out.
    Sent,
}

#[derive(Debug)]
struct Followed {
    number: u64,
    at_us: u64,
    session: SessionId,
    place: Place,
    /// The number in the session's outbound count (XEP-0198 4); none without stream management.
    counted: Option<u32>,
}

/// A stanza that the shard is at.
#[derive(Debug)]
struct Current {
    number: u64,
    at_us: u64,
    refused: Option<&'static str>,
}

/// A trace under way.
#[derive(Debug)]
pub struct Trace {
    /// Its number.
    pub id: u64,
    account: Box<str>,
    resource: Option<Box<str>>,
    /// Whether all of each stanza is kept.
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
    /// Of a user's sessions, or of the one with a resource, for so long.
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

    /// Nobody has fetched from it for too long.
    pub fn is_abandoned(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.asked_ms) > ABANDONED_MS
    }

    /// Whether it is of this user.
    pub fn is_of(&self, account: &str) -> bool {
        *self.account == *account
    }

    /// Whether a session with this resource, or what is addressed to it, belongs to the trace; without a resource what is for
    /// the user as a whole.
    pub fn takes(&self, account: &str, resource: Option<&str>) -> bool {
        self.is_of(account) && (self.resource.is_none() || self.resource.as_deref() == resource)
    }

    fn is_over(&self, now: Now) -> bool {
        now.mono_ms >= self.until_ms
    }

    /// Adds a record, if there is room; its number, and whether there was.
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

    /// A stanza; its number if there was room for it.
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

    /// A stanza comes from a session; [`Trace::taken`] follows.
    pub fn came(&mut self, now: Now, stanza: Stanza) {
        if self.is_over(now) {
            return;
        }
        self.current = self.stanza(now, stanza).map(|number| Current { number, at_us: now.wall_us, refused: None });
    }

    /// The stanza that has just come is answered with an error.
    pub fn refused(&mut self, condition: &'static str) {
        if let Some(current) = &mut self.current {
            current.refused = Some(condition);
        }
    }

    /// The shard is done with the stanza that has just come. With `under_way` another home has to confirm it, under this number
    /// if the session counts; 0 if it does not.
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

    /// A stanza goes to a session, with this number in its outbound count.
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

    /// A stanza goes ahead of those from this number in the outbound count on.
    pub fn overtakes(&mut self, session: SessionId, counted: u32) {
        for followed in self.followed.iter_mut().filter(|followed| followed.session == session) {
            if let Some(number) = followed.counted.as_mut().filter(|number| !is_before(**number, counted)) {
                *number = number.wrapping_add(1);
            }
        }
    }

    /// A stanza for the user that no session gets now.
    pub fn aside(&mut self, now: Now, stanza: Stanza) {
        if !self.is_over(now) {
            self.stanza(now, stanza);
        }
    }

    /// News of a session.
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
            // What is not counted is not sent again.
            News::Disconnected => self.followed.retain(|followed| {
                followed.session != id || followed.counted.is_some() || matches!(followed.place, Place::UnderWay(_))
            }),
            News::Ended => self.followed.retain(|followed| followed.session != id),
        }
    }

    /// Goes through what is followed of a session; what `step` gives a fate is told, and what it ends is not followed any more.
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

    /// The receiver's home has confirmed this stanza of a session.
    pub fn safe(&mut self, now: Now, session: SessionId, seq: u32) {
        self.step(now, session, |followed| match followed.place == Place::UnderWay(seq) {
            true => (Some(Fate::Safe), false),
            false => (None, true),
        });
    }

    /// All that waits for a session's connection is in the send that is made now.
    pub fn sending(&mut self, now: Now, session: SessionId) {
        self.step(now, session, |followed| {
            if followed.place == Place::Queued {
                followed.place = Place::Sending;
            }
            (None, true)
        });
    }

    /// The send under way is with the kernel.
    pub fn sent(&mut self, now: Now, session: SessionId) {
        self.step(now, session, |followed| match followed.place == Place::Sending {
            true => {
                followed.place = Place::Sent;
                (Some(Fate::Sent), followed.counted.is_some())
            }
            false => (None, true),
        });
    }

    /// The client has acknowledged up to this number.
    pub fn acknowledged(&mut self, now: Now, session: SessionId, h: u32) {
        self.step(now, session, |followed| match followed.counted.is_some_and(|counted| !is_before(h, counted)) {
            true => (Some(Fate::Acknowledged), false),
            false => (None, true),
        });
    }

    /// Takes what has come, a page of it.
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

/// Whether a number of stream management is before another: they wrap around (XEP-0198 4).
fn is_before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}

/// Payloads with a name of their own: what most stanzas carry, and what this server answers.
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

/// Requests whose element is called `query`, by their namespace.
const QUERIES: &[(&str, &str)] = &[
    ("roster", "jabber:iq:roster"),
    ("private", "jabber:iq:private"),
    ("register", "jabber:iq:register"),
    ("version", "jabber:iq:version"),
    ("last", "jabber:iq:last"),
    ("disco#info", "http://jabber.org/protocol/disco#info"),
    ("disco#items", "http://jabber.org/protocol/disco#items"),
];

/// What stands for payloads that have no name here.
const OTHER: &str = "other";
/// Payloads of a stanza that are named at most.
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
    /// Of an element; with `bodies` all of it.
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

/// The last place up to `at` where no character is cut in two.
fn boundary(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && at > 0 && bytes[at] & 0xc0 == 0x80 {
        at -= 1;
    }
    at.min(bytes.len())
}
