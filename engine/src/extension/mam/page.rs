//! A page of results: which messages match, how they are written, and how the page is closed
//! (XEP-0313 4.2, 4.3).

use crate::extension::datetime::{self, Precision};
use crate::extension::iq::Step;
use crate::id::Domains;
use crate::ns;
use crate::store::archive::Entry;
use crate::store::ids::Ids;
use crate::store::retractions::Retraction;
use crate::wire::jid::bare_of;
use crate::wire::text::write_attribute;
use crate::wire::written::{read_back, write_forwarded, write_forwarded_with};

use super::NS;
use super::form::Wanted;
use super::retract::{Retracted, Tombstone};

/// Bytes of a result in addition to its message, with addresses of usual length.
const AROUND_BYTES: usize = 400;

/// Number of a peer's messages that are read at once for counting.
const COUNTED_AT_ONCE: usize = 64;

/// The requester and the query.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Asked {
    /// The user's bare JID.
    pub(super) account: Box<str>,
    /// Full JID of the requesting session.
    pub(super) full: Box<str>,
    /// The id scheme of the archive's messages.
    pub(super) ids: Ids,
    pub(super) wanted: Wanted,
    /// Limit of bytes of a page's results; one result is always sent.
    pub(super) room: usize,
}

impl Asked {
    /// Whether an entry is part of the archive as clients see it. A message that a user sends to
    /// themselves is stored as sent and as received, and is shown once (XEP-0313 6.1.1).
    pub(super) fn shows(&self, entry: &Entry<'_>) -> bool {
        entry.incoming || bare_of(entry.peer) != &*self.account
    }

    fn matches(&self, number: u64, entry: &Entry<'_>) -> bool {
        let wanted = &self.wanted;
        (wanted.low()..=wanted.high()).contains(&number)
            && wanted.has_time(entry.time_ms)
            && self.shows(entry)
            && wanted.with.as_deref().is_none_or(|with| self.is_with(with, entry))
    }

    /// XEP-0313 4.1.1.
    fn is_with(&self, with: &str, entry: &Entry<'_>) -> bool {
        match (bare_of(with) == with, bare_of(with) == &*self.account) {
            (true, false) => bare_of(entry.peer) == with,
            (false, false) => entry.peer == with,
            // Messages from the user to their own account; all others are also from it or to it.
            (true, true) => entry.incoming && bare_of(entry.peer) == with,
            (false, true) => {
                let either = read_back(entry.xml, |message| {
                    message.from().as_deref() == Some(with) || message.to().as_deref() == Some(with)
                });
                either.unwrap_or(false)
            }
        }
    }
}

/// Results in the order in which they were examined.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Page {
    results: Vec<Taken>,
    bytes: usize,
    /// The retracted messages of the archive.
    pub(super) retracted: Retracted,
    /// The number of matches, if only that is requested.
    count: Option<u64>,
}

/// One result.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Taken {
    number: u64,
    time_ms: u64,
    incoming: bool,
    /// Its stanza.
    result: Vec<u8>,
    /// Its tombstone, in case it was retracted.
    tombstone: Option<Tombstone>,
}

impl Page {
    /// An empty page for a query, of an archive with these retractions.
    pub(super) fn new(asked: &Asked, retracted: Retracted) -> Page {
        let count = asked.wanted.counts().then_some(0);
        Page { results: Vec::new(), bytes: 0, retracted, count }
    }

    /// Whether there are no results.
    pub(super) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Whether only the number of messages is requested.
    pub(super) fn counts(&self) -> bool {
        self.count.is_some()
    }

    /// Gives up counting: there are too many.
    pub(super) fn uncounted(mut self) -> Page {
        self.count = None;
        self
    }

    /// How many more results are needed: one more than the page may have, which shows that another
    /// page follows.
    pub(super) fn missing(&self, asked: &Asked) -> usize {
        if self.counts() {
            return COUNTED_AT_ONCE;
        }
        asked.wanted.max + 1 - self.results.len().min(asked.wanted.max)
    }

    /// Takes an entry if it matches. Returns whether there was no room for it: then the page is
    /// full and not the last one. The domains served determine who may retract it.
    pub(super) fn take(&mut self, asked: &Asked, domains: &Domains, number: u64, entry: &Entry<'_>) -> bool {
        if !asked.matches(number, entry) {
            return false;
        }
        if let Some(count) = &mut self.count {
            *count += 1;
            return false;
        }
        let bytes = self.bytes + entry.xml.len() + AROUND_BYTES + asked.wanted.queryid_bytes();
        if self.results.len() >= asked.wanted.max || (bytes > asked.room && !self.results.is_empty()) {
            return true;
        }
        self.bytes = bytes;
        self.results.push(Taken {
            number,
            time_ms: entry.time_ms,
            incoming: entry.incoming,
            result: result(asked, number, entry),
            tombstone: if self.retracted.is_empty() { None } else { Tombstone::of(domains, number, entry) },
        });
        false
    }

    /// Results that may have been retracted, with their indices.
    pub(super) fn candidates(&self) -> impl Iterator<Item = (usize, &Tombstone)> {
        let all = self.results.iter().enumerate();
        all.filter_map(|(at, taken)| Some((at, taken.tombstone.as_ref()?)))
    }

    /// The number of the result at an index.
    pub(super) fn number(&self, at: usize) -> u64 {
        self.results[at].number
    }

    /// Replaces the result at an index by its tombstone.
    pub(super) fn bury(&mut self, asked: &Asked, at: usize, retraction: &Retraction<'_>) {
        let taken = &mut self.results[at];
        if let Some(tombstone) = taken.tombstone.take() {
            let xml = tombstone.write(retraction);
            let entry = Entry {
                incoming: taken.incoming,
                waits: false,
                time_ms: taken.time_ms,
                peer: "",
                xml: &xml,
                trail: b"",
            };
            taken.result = result(asked, taken.number, &entry);
        }
    }

    /// Drops results from the end that no longer fit after tombstones were inserted, which may be
    /// longer than the messages; returns whether all of them fit.
    pub(super) fn fit(&mut self, asked: &Asked) -> bool {
        let (mut bytes, all) = (0, self.results.len());
        let fits = self.results.iter().take_while(|taken| {
            bytes += taken.result.len();
            bytes <= asked.room
        });
        let fits = fits.count().max(1);
        self.results.truncate(fits);
        fits >= all
    }

    /// The answer.
    pub(super) fn send(mut self, asked: &Asked, complete: bool) -> Step {
        if asked.wanted.back {
            self.results.reverse();
        }
        let complete = complete && self.count.is_none_or(|count| count == 0);
        let mut out = format!("<fin xmlns='{NS}' complete='{complete}'><set xmlns='http://jabber.org/protocol/rsm'>");
        if let [Taken { number: first, .. }, ..] = &self.results[..]
            && let [.., Taken { number: last, .. }] = &self.results[..]
        {
            let [first, last] = [first, last].map(|number| asked.ids.text(*number));
            out.push_str(&format!("<first>{first}</first><last>{last}</last>"));
        }
        // XEP-0059 2.7. A page has no count: counting would read all matches for each page.
        if let Some(count) = self.count {
            out.push_str(&format!("<count>{count}</count>"));
        }
        out.push_str("</set></fin>");
        // XEP-0313 4.3.4: this changes only the order in which they are sent.
        if asked.wanted.flip {
            self.results.reverse();
        }
        Step::Send(self.results.into_iter().map(|taken| taken.result).collect(), out.into_bytes())
    }
}

/// XEP-0313 4.2, XEP-0297 3.
fn result(asked: &Asked, number: u64, entry: &Entry<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(entry.xml.len() + AROUND_BYTES + asked.wanted.queryid_bytes());
    out.extend_from_slice(b"<message");
    write_attribute(&mut out, "from", &asked.account);
    write_attribute(&mut out, "to", &asked.full);
    out.extend_from_slice(b"><result");
    write_attribute(&mut out, "xmlns", NS);
    let id = asked.ids.text(number);
    write_attribute(&mut out, "id", id.as_str());
    if let Some(queryid) = &asked.wanted.queryid {
        write_attribute(&mut out, "queryid", queryid);
    }
    out.extend_from_slice(b"><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='");
    datetime::write(&mut out, entry.time_ms.saturating_mul(1_000), Precision::Millis);
    out.extend_from_slice(b"'/>");
    if entry.incoming {
        // As it was received (XEP-0313 3.5).
        write_forwarded_with(&mut out, entry.xml, |out| {
            out.extend_from_slice(b"<stanza-id");
            write_attribute(out, "xmlns", ns::STANZA_ID);
            write_attribute(out, "id", id.as_str());
            write_attribute(out, "by", &asked.account);
            out.extend_from_slice(b"/>");
        });
    } else {
        write_forwarded(&mut out, entry.xml);
    }
    out.extend_from_slice(b"</forwarded></result></message>");
    out
}
