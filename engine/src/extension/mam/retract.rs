//! Message retraction (XEP-0424): a message that its sender has retracted stays in archives as a
//! tombstone.
//!
//! A log is append-only. Therefore a retraction, when it is archived itself, writes a row that
//! names the message, in the archives of its sender and of its receiver; `tombstones` looks up the
//! rows for the messages of a page. The row's name includes the sender and the receiver, so only
//! the sender's retraction matches a message.
//!
//! For users of this server the bare JID identifies the sender: a user may retract from any device.
//! For occupants of a room of this server the room and the occupant's id do, which the room adds
//! (XEP-0421): a nick may be somebody else's by now. For others the full JID does, because all
//! occupants of a remote room have the same bare JID, and the contacts of a gateway may (XEP-0424
//! 5.1).
//!
//! A message is named by its `id`, one to all occupants of a room by the id that the room has given
//! it (XEP-0424 4).

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::extension::datetime::{self, Precision};
use crate::id::{ActorKind, Domains};
use crate::limits::RETRACTION_ID_BYTES_MAX;
use crate::ns;
use crate::store::archive::Entry;
use crate::store::ids::Ids;
use crate::store::retractions::{self, Key, Retraction};
use crate::store::{Batch, Found, Query, Row};
use crate::wire::Element;
use crate::wire::jid::bare_of;
use crate::wire::text::write_attribute;
use crate::wire::written::read_back;

pub(super) const NS: &str = "urn:xmpp:message-retract:1";

/// The feature of a server with tombstones (XEP-0424 4).
pub(super) const NS_TOMBSTONE: &str = "urn:xmpp:message-retract:1#tombstone";

/// A retraction: the message that it names, its own `id`, which is required (XEP-0424 4), and the
/// occupant's id in it.
struct Retracts {
    id: String,
    own: String,
    occupant: Option<String>,
}

fn retracts(xml: &[u8]) -> Option<Retracts> {
    // Very few messages are retractions, but all are searched, and building a finder takes ten
    // times as long as using it.
    static NAMED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(NS));
    NAMED.find(xml)?;
    let named = read_back(xml, |message| {
        let id = message.child("retract", NS)?.attribute("id")?.into_owned();
        Some(Retracts { id, own: message.id()?.into_owned(), occupant: occupant_in(message) })
    });
    named.flatten().filter(|by| !by.own.is_empty() && by.own.len() <= RETRACTION_ID_BYTES_MAX)
}

/// The occupant's id in a message (XEP-0421).
fn occupant_in(message: &Element<'_>) -> Option<String> {
    Some(message.child("occupant-id", ns::OCCUPANT_ID)?.attribute("id")?.into_owned())
}

/// Whether an occupant of a room of this server has sent an entry: the occupant's id in it is the
/// room's.
fn is_of_room(domains: &Domains, entry: &Entry<'_>) -> bool {
    entry.incoming && matches!(domains.of(entry.peer), Some((_, ActorKind::Rooms)))
}

/// The key of an entry's message, or of the message with this id that a retraction names.
fn key_of(domains: &Domains, entry: &Entry<'_>, occupant: Option<&str>, id: &str) -> Key {
    match occupant.filter(|_| is_of_room(domains, entry)) {
        Some(occupant) => Key::of_occupant(bare_of(entry.peer), occupant, id),
        None if entry.incoming && !domains.is_of_user(entry.peer) => Key::of_address(entry.peer, id),
        None => Key::of(entry.incoming, bare_of(entry.peer), id),
    }
}

/// An entry is archived for a user: if it is a retraction, records the message that it names.
pub(super) fn archived(batch: &mut Batch, domains: &Domains, user: &str, number: u64, entry: &Entry<'_>) {
    if let Some(by) = retracts(entry.xml) {
        let retraction = Retraction { number, time_ms: entry.time_ms, id: &by.own };
        retraction.put(batch, user, &key_of(domains, entry, by.occupant.as_deref(), &by.id));
    }
}

/// An entry expires from a user's archive, as all before it have: the message that it retracted is
/// already gone.
pub(super) fn expired(batch: &mut Batch, user: &str, number: u64, entry: &Entry<'_>) {
    if let Some(Retracts { id, occupant, .. }) = retracts(entry.xml) {
        Key::of(entry.incoming, bare_of(entry.peer), &id).delete(batch, user, number);
        if entry.incoming {
            // The domain's kind at the time of the write is no longer known.
            Key::of_address(entry.peer, &id).delete(batch, user, number);
            if let Some(occupant) = occupant {
                Key::of_occupant(bare_of(entry.peer), &occupant, &id).delete(batch, user, number);
            }
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
    /// The tombstone of the entry with this number, if it can be retracted: it has an id and is not
    /// itself a retraction, which stays (XEP-0424 5).
    pub(crate) fn of(domains: &Domains, number: u64, entry: &Entry<'_>) -> Option<Tombstone> {
        read_back(entry.xml, |message| {
            let to_all = message.kind().as_deref() == Some("groupchat") && is_of_room(domains, entry);
            let id = match to_all {
                true => Ids::PLAIN.text(number).as_str().to_owned(),
                false => message.id().filter(|id| !id.is_empty())?.into_owned(),
            };
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
            Some(Tombstone { key: key_of(domains, entry, occupant_in(message).as_deref(), &id), open })
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
