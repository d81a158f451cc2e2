//! An account being imported: the children of a `<user/>` element in any order, and the rows that
//! they become.

use std::collections::{BTreeMap, VecDeque};

use minidom::Element;

use super::message::{self, Stored};
use super::records::{self, Private};
use super::{Container, Counts, NS, NS_CLIENT, NS_PRIVACY, NS_VCARD, Place, WAITING_BYTES_MAX, WAITING_MAX, Word};
use super::{keys, nodes, roster, xml};
use crate::extension;
use crate::extension::avatars::apart as avatars;
use crate::extension::vcard;
use crate::id::Domains;
use crate::limits::{VCARD_BYTES_MAX, beginning};
use crate::store::Batch;
use crate::store::account::KeySet;
use crate::store::archive::Entry;
use crate::store::waiting::{Cursor, Transient};

/// Number of archived messages, the latest ones, among which waiting messages are looked up.
const KNOWN_MAX: usize = WAITING_MAX;

/// Maximum bytes of a name that is repeated in a warning.
const NAMED_BYTES_MAX: usize = 128;

/// An account being imported. Its row in [`Table::Accounts`](crate::store::Table) is written by the
/// caller, after all others: an account that exists is therefore complete.
#[derive(Debug)]
pub struct Arrival {
    user: Box<str>,
    domains: Domains,
    now_us: u64,
    keys: Vec<KeySet>,
    roster: roster::Arriving,
    private: Private,
    nodes: nodes::Arriving,
    waiting: Vec<Stored>,
    waiting_bytes: usize,
    /// Ids of archived messages on the other server, and their numbers here. Bounded: the latest
    /// [`KNOWN_MAX`].
    known: VecDeque<(Box<str>, u64)>,
    /// The last archived message: its number and its time.
    archived: Option<(u64, u64)>,
    card: Option<Element>,
    has_lists: bool,
    counts: Counts,
    words: Vec<Word>,
}

/// The result of importing an account.
#[derive(Debug)]
pub struct Arrived {
    /// The keys of its password, at most one set per hash function.
    pub keys: Vec<KeySet>,
    /// What was imported.
    pub counts: Counts,
    /// Warnings about what was not.
    pub words: Vec<Word>,
}

impl Arrival {
    /// Starts an account with a normalised bare JID, on a server with these domains. `now_us` is in
    /// microseconds since the Unix epoch. It has no rows yet.
    pub fn new(user: &str, domains: &Domains, now_us: u64) -> Arrival {
        Arrival {
            user: user.into(),
            domains: domains.clone(),
            now_us,
            keys: Vec::new(),
            roster: roster::Arriving::default(),
            private: Private::default(),
            nodes: nodes::Arriving::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            known: VecDeque::new(),
            archived: None,
            card: None,
            has_lists: false,
            counts: Counts::default(),
            words: Vec::new(),
        }
    }

    /// Takes the text of a password attribute; returns it if it is a password rather than keys.
    pub fn password(&mut self, given: String) -> Option<String> {
        match keys::in_password(&given) {
            None => return Some(given),
            Some(Ok(set)) => self.keys.push(set),
            Some(Err(word)) => self.words.push(word),
        }
        None
    }

    /// Takes an element and writes what can be written already. `number` supplies numbers of log
    /// entries, each above the previous one.
    pub fn element(&mut self, place: Place<'_>, element: &Element, number: &mut dyn FnMut() -> u64, batch: &mut Batch) {
        match place {
            Place::User => self.child(element, batch),
            Place::In(Container::Roster) => self.roster.item(&self.user, element, &mut self.words),
            Place::In(Container::Private) => self.private.element(element, &mut self.words),
            Place::In(Container::Owner) => self.nodes.owner(element, &mut self.words),
            Place::In(Container::Nodes) => self.unknown(element),
            Place::Node(node) => {
                let place = (&*self.user, node);
                self.nodes.item(place, element, self.now_us, batch, &mut self.words);
            }
            Place::In(Container::Waiting) => match message::waiting(&self.user, element, self.now_us) {
                Ok(stored) => self.wait(stored),
                Err(word) => self.words.push(word),
            },
            Place::In(Container::Archive) => match message::result(&self.user, element, self.now_us) {
                Ok(stored) => self.archive(stored, number(), batch),
                Err(word) => self.words.push(word),
            },
        }
    }

    fn child(&mut self, element: &Element, batch: &mut Batch) {
        let twice = |what| Word::new(what, "there are two of them; the first one is used");
        if keys::is_keys(element) {
            match keys::read(element) {
                Ok(set) if self.keys.iter().any(|other| other.kind() == set.kind()) => {
                    self.words.push(twice("credentials"));
                }
                Ok(set) => self.keys.push(set),
                Err(word) => self.words.push(word),
            }
        } else if element.is("vCard", NS_VCARD) {
            match self.card {
                Some(_) => self.words.push(twice("vCard")),
                None if xml::whole(element).len() > VCARD_BYTES_MAX => {
                    self.words.push(Word::new("vCard", "it exceeds the size limit of a vCard"));
                }
                None => self.card = Some(element.clone()),
            }
        } else if element.is("query", NS_PRIVACY) {
            if std::mem::replace(&mut self.has_lists, true) {
                return self.words.push(twice("privacy list"));
            }
            let jids = records::blocked(element, &mut self.words);
            records::block(&self.user, jids, batch, &mut self.counts, &mut self.words);
        } else if element.is("presence", NS_CLIENT) || element.is("presence", NS) {
            // Prosody up to 0.12 writes requests without a namespace of their own.
            self.roster.request(&self.user, element, &mut self.words);
        } else {
            self.unknown(element);
        }
    }

    fn unknown(&mut self, element: &Element) {
        let namespace = element.ns();
        let (name, namespace) = (beginning(element.name(), NAMED_BYTES_MAX), beginning(&namespace, NAMED_BYTES_MAX));
        self.words.push(Word::new("element", format!("<{name} xmlns='{namespace}'/> is unknown")));
    }

    fn wait(&mut self, stored: Stored) {
        let bytes = stored.xml.len();
        if self.waiting.len() == WAITING_MAX || self.waiting_bytes + bytes > WAITING_BYTES_MAX {
            let why = format!("more than {WAITING_MAX} messages or {} MiB wait", WAITING_BYTES_MAX >> 20);
            return self.words.push(Word::new("waiting message", why));
        }
        self.waiting_bytes += bytes;
        self.waiting.push(stored);
    }

    fn archive(&mut self, stored: Stored, number: u64, batch: &mut Batch) {
        let Stored { incoming, peer, xml, id, time_ms } = stored;
        if self.archived.is_some_and(|(_, last)| last > time_ms) {
            // XEP-0227 4.11: MUST be in chronological order.
            self.words
                .push(Word::new("archived message", "it is older than the previous one; the file's order is kept"));
        }
        let entry = Entry { incoming, waits: false, time_ms, peer: &peer, xml: &xml, trail: b"" };
        extension::archive(batch, &self.domains, &self.user, number, &entry);
        self.archived = Some((number, time_ms));
        self.counts.archived += 1;
        if let Some(id) = id {
            if self.known.len() == KNOWN_MAX {
                self.known.pop_front();
            }
            self.known.push_back((id, number));
        }
    }

    /// The warnings so far; each is returned once.
    pub fn words(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.words)
    }

    /// Ends the element: writes the rest.
    pub fn finish(self, number: &mut dyn FnMut() -> u64, batch: &mut Batch) -> Arrived {
        let Arrival {
            user, keys, roster, private, mut nodes, waiting, waiting_bytes, card, mut counts, mut words, ..
        } = self;
        // This server keeps the photo of a vCard and the avatar of a node in sync (XEP-0398).
        let meeting = avatars::meet(nodes.avatar(card.as_ref()));
        if let Some((id, data, metadata)) = &meeting.items {
            nodes.publish_avatar(&user, id, [data, metadata], self.now_us, batch);
        }
        if let Some(photo) = meeting.photo {
            photo.put(batch, &user);
        }
        if let Some(card) = meeting.card.or(card) {
            vcard::put(batch, &user, &xml::whole(&card));
            counts.vcards += 1;
        }
        roster.finish(&user, self.now_us, batch, &mut counts);
        private.finish(&user, batch, &mut counts);
        nodes.finish(&user, batch, &mut counts, &mut words);
        if self.archived.is_some() || !waiting.is_empty() {
            let cursor = Cursor {
                number: self.archived.map_or(0, |(number, _)| number),
                count: waiting.len() as u32,
                bytes: waiting_bytes as u64,
            };
            cursor.put(batch, &user);
        }
        let known: BTreeMap<Box<str>, u64> = self.known.into_iter().collect();
        counts.waiting += waiting.len() as u64;
        for Stored { incoming, peer, xml, id, time_ms } in waiting {
            // The copy in the archive has the same id for clients (XEP-0359).
            let of = id.and_then(|id| known.get(&id).copied());
            let entry = Entry { incoming, waits: true, time_ms, peer: &peer, xml: &xml, trail: b"" };
            Transient { of, entry }.put(batch, &user, number());
        }
        Arrived { keys, counts, words }
    }
}
