//! Message retraction (XEP-0424): a message that its sender has retracted stays in archives as a tombstone.
//!
//! A log is only appended to. So a retraction writes a row that names the message, in the archive of its sender and in that of its
//! receiver, when it is archived itself; `tombstones` looks for the rows of a page's messages. Only the sender's
//! retraction makes the row of a message: the row is named by who has sent it, to whom.
//!
//! Who has sent a message is said by the bare JID for users of this server: a user retracts from any device. Elsewhere it is said by
//! the full JID, because the occupants of a room have one bare JID, as the contacts of a gateway may (XEP-0424 5.1).

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::extension::datetime::{self, Precision};
use crate::id::Domains;
use crate::limits::RETRACTION_ID_BYTES_MAX;
use crate::store::archive::Entry;
use crate::store::retractions::{self, Key, Retraction};
use crate::store::{Batch, Found, Query, Row};
use crate::wire::jid::bare_of;
use crate::wire::text::write_attribute;
use crate::wire::written::read_back;

pub(super) const NS: &str = "urn:xmpp:message-retract:1";

/// What a server tells that serves tombstones (XEP-0424 4).
pub(super) const NS_TOMBSTONE: &str = "urn:xmpp:message-retract:1#tombstone";

/// The message that a retraction names, and the retraction's own `id`, which it has to have (XEP-0424 4).
fn retracts(xml: &[u8]) -> Option<(String, String)> {
    // Nearly no message is one. All of them are asked, and to make a finder takes ten times as long as to use it.
    static NAMED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(NS));
    NAMED.find(xml)?;
    let named = read_back(xml, |message| {
        let id = message.child("retract", NS)?.attribute("id")?.into_owned();
        Some((id, message.id()?.into_owned()))
    });
    named.flatten().filter(|(_, own)| !own.is_empty() && own.len() <= RETRACTION_ID_BYTES_MAX)
}

/// The key of an entry's message, or of the message with this `id` that a retraction names.
fn key_of(domains: &Domains, entry: &Entry<'_>, id: &str) -> Key {
    match entry.incoming && !domains.is_of_user(entry.peer) {
        true => Key::of_address(entry.peer, id),
        false => Key::of(entry.incoming, bare_of(entry.peer), id),
    }
}

/// An entry is archived for a user: if it is a retraction, what it names is noted.
pub(super) fn archived(batch: &mut Batch, domains: &Domains, user: &str, number: u64, entry: &Entry<'_>) {
    if let Some((id, own)) = retracts(entry.xml) {
        let retraction = Retraction { number, time_ms: entry.time_ms, id: &own };
        retraction.put(batch, user, &key_of(domains, entry, &id));
    }
}

/// An entry goes from a user's archive, and all before it has gone: what it has retracted is not there any more.
pub(super) fn expired(batch: &mut Batch, user: &str, number: u64, entry: &Entry<'_>) {
    if let Some((id, _)) = retracts(entry.xml) {
        Key::of(entry.incoming, bare_of(entry.peer), &id).delete(batch, user, number);
        if entry.incoming {
            // What the domain was when the row was written is not known any more.
            Key::of_address(entry.peer, &id).delete(batch, user, number);
        }
    }
}

/// Rows that are read at once: with more of them, those of the page are looked for one by one.
const FIRST: u32 = 64;

/// What is known of an archive's retractions before its messages are looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Retracted {
    /// All of them. Nearly every archive has none.
    These(Vec<Row>),
    /// So many that they are looked for by message.
    Many,
}

impl Retracted {
    /// The question for it.
    pub(super) fn query(account: &str) -> Query {
        retractions::first(account, FIRST)
    }

    /// From the answer; `None` if it cannot be read.
    pub(super) fn read(found: &Found) -> Option<Retracted> {
        match found {
            Found::Rows { more: true, .. } => Some(Retracted::Many),
            Found::Rows { rows, .. } => Some(Retracted::These(rows.clone())),
            Found::Value(_) | Found::Damaged => None,
        }
    }

    /// Whether nothing was retracted.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Retracted::These(rows) if rows.is_empty())
    }
}

/// What is left of a message that was retracted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tombstone {
    pub(crate) key: Key,
    /// The start tag of the message, with the attributes that say who, to whom, and which.
    open: Vec<u8>,
}

impl Tombstone {
    /// That of an entry, if it could be retracted: it has an `id`, and is no retraction itself, which stays (XEP-0424 5).
    pub(crate) fn of(domains: &Domains, entry: &Entry<'_>) -> Option<Tombstone> {
        read_back(entry.xml, |message| {
            let id = message.id().filter(|id| !id.is_empty())?;
            if message.child("retract", NS).is_some() {
                return None;
            }
            let mut open = b"<message".to_vec();
            for name in ["type", "from", "to", "id"] {
                if let Some(value) = message.attribute(name) {
                    write_attribute(&mut open, name, &value);
                }
            }
            open.push(b'>');
            Some(Tombstone { key: key_of(domains, entry, &id), open })
        })
        .flatten()
    }

    /// The message as it is shown once it was retracted (XEP-0424 4).
    pub(crate) fn write(&self, retraction: &Retraction<'_>) -> Vec<u8> {
        let mut out = self.open.clone();
        out.extend_from_slice(b"<retracted");
        write_attribute(&mut out, "xmlns", NS);
        write_attribute(&mut out, "id", retraction.id);
        out.extend_from_slice(b" stamp='");
        datetime::write(&mut out, retraction.time_ms.saturating_mul(1_000), Precision::Millis);
        out.extend_from_slice(b"'/></message>");
        out
    }
}
