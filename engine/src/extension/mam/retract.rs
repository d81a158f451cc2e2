//! Message retraction (XEP-0424): a message that its sender has retracted stays in archives as a
//! tombstone.
//!
//! A log is append-only. Therefore a retraction, when it is archived itself, writes a row that
//! names the message, in the archives of its sender and of its receiver; `tombstones` looks up the
//! rows for the messages of a page. The row's name includes the sender and the receiver, so only
//! the sender's retraction matches a message.
//!
//! For users of this server the bare JID identifies the sender: a user may retract from any device.
//! For others the full JID does, because all occupants of a room have the same bare JID, and the
//! contacts of a gateway may (XEP-0424 5.1).

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

/// The feature of a server with tombstones (XEP-0424 4).
pub(super) const NS_TOMBSTONE: &str = "urn:xmpp:message-retract:1#tombstone";

/// The message that a retraction names, and the retraction's own `id`, which is required (XEP-0424
/// 4).
fn retracts(xml: &[u8]) -> Option<(String, String)> {
    // Very few messages are retractions, but all are searched, and building a finder takes ten
    // times as long as using it.
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

/// An entry is archived for a user: if it is a retraction, records the message that it names.
pub(super) fn archived(batch: &mut Batch, domains: &Domains, user: &str, number: u64, entry: &Entry<'_>) {
    if let Some((id, own)) = retracts(entry.xml) {
        let retraction = Retraction { number, time_ms: entry.time_ms, id: &own };
        retraction.put(batch, user, &key_of(domains, entry, &id));
    }
}

/// An entry expires from a user's archive, as all before it have: the message that it retracted is
/// already gone.
pub(super) fn expired(batch: &mut Batch, user: &str, number: u64, entry: &Entry<'_>) {
    if let Some((id, _)) = retracts(entry.xml) {
        Key::of(entry.incoming, bare_of(entry.peer), &id).delete(batch, user, number);
        if entry.incoming {
            // The domain's kind at the time of the write is no longer known.
            Key::of_address(entry.peer, &id).delete(batch, user, number);
        }
    }
}

/// Limit of rows read at once; beyond it the rows are looked up per message of the page.
const FIRST: u32 = 64;

/// What is known about an archive's retractions before its messages are examined.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Retracted {
    /// All of them. Nearly every archive has none.
    These(Vec<Row>),
    /// Too many: they are looked up per message.
    Many,
}

impl Retracted {
    /// The query for them.
    pub(super) fn query(account: &str) -> Query {
        retractions::first(account, FIRST)
    }

    /// Decodes the result; `None` if it is unreadable.
    pub(super) fn read(found: &Found) -> Option<Retracted> {
        match found {
            Found::Rows { more: true, .. } => Some(Retracted::Many),
            Found::Rows { rows, .. } => Some(Retracted::These(rows.clone())),
            Found::Value(_) | Found::Damaged => None,
        }
    }

    /// Whether there are no retractions.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Retracted::These(rows) if rows.is_empty())
    }
}

/// The part of a message that remains after its retraction.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Tombstone {
    pub(crate) key: Key,
    /// The start tag of the message, with its addresses, type and ids.
    open: Vec<u8>,
}

impl Tombstone {
    /// The tombstone of an entry, if it can be retracted: it has an `id` and is not itself a
    /// retraction, which stays (XEP-0424 5).
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

    /// The retracted message as shown to clients (XEP-0424 4).
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
