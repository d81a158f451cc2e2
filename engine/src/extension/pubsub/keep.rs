//! Storing items: by a publication, and by an extension that mirrors another extension's data in a
//! node.

use super::error::{self, Error};
use super::event::Event;
use super::node::{Audience, Config, Directory, Node};
use super::{affiliates, place, range};
use crate::store::nodes::{self as rows, Item, Place, Span};
use crate::store::{Batch, Found, Query};

/// The reads before an item with this id is stored at a node.
pub fn queries(actor: &str, node: &str, id: &str) -> [Query; QUERIES] {
    [
        rows::affiliates(actor, node),
        rows::place(actor, node, id),
        // The item that is dropped if the node is full.
        rows::items(actor, node, Span::all(1, 1)),
    ]
}

/// Number of these queries.
pub const QUERIES: usize = 3;

/// Publishes an item at a node that stores items, and creates the node if needed. `found` has the
/// results of [`queries`]. The caller must write the directory. Returns the resulting event.
///
/// # Errors
/// A row is unreadable.
pub fn publish(
    directory: &mut Directory,
    batch: &mut Batch,
    actor: &str,
    (node, made): (&str, Config),
    item: &Item<'_>,
    found: &[Found],
) -> Result<Option<Event>, Error> {
    directory.last += 1;
    let number = directory.last;
    let entry = match directory.get_mut(node) {
        Some(entry) => entry,
        None => directory.configure(node, made),
    };
    let config = entry.config.clone();
    if config.persist {
        let oldest = range(found.get(2))?.0.first().and_then(Oldest::of);
        store(entry, batch, actor, (item, "", 0), number, place(found.get(1))?, oldest.as_ref())?;
    }
    let audience = Audience::of(&config, affiliates(found.first())?);
    Ok(config.notifications.then(|| Event::published(node, &config, audience, Some(item))))
}

/// The next item to be dropped.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Oldest {
    /// Its number.
    pub number: u64,
    /// When it was published, microseconds since the Unix epoch.
    pub at_us: u64,
    /// Its id.
    pub id: Box<str>,
    /// The bytes that it counts for.
    pub bytes: u32,
}

impl Oldest {
    /// Decodes a row of [`rows::items`], if it is readable.
    pub fn of(row: &crate::store::Row) -> Option<Oldest> {
        let item = Item::decode(&row.value)?;
        let number = rows::number_of(&row.sort)?;
        Some(Oldest { number, at_us: item.at_us, id: item.id.into(), bytes: item.bytes() })
    }
}

/// Stores an item under this number, with its publisher's key for the publication; `there` is the
/// place of the existing item with its id, and `oldest` the oldest item. Items from before
/// `gone_us` have expired. Returns whether the oldest was dropped.
pub(super) fn store(
    entry: &mut Node,
    batch: &mut Batch,
    actor: &str,
    (item, by, gone_us): (&Item<'_>, &str, u64),
    number: u64,
    there: Option<Place>,
    oldest: Option<&Oldest>,
) -> Result<bool, Error> {
    if item.key().is_some() {
        entry.has_keys(number);
    }
    // The item with this id is replaced; otherwise the oldest is dropped.
    if let Some(place) = there {
        replace(entry, batch, actor, item.id, place);
    }
    // The oldest item that is not replaced is dropped if the node is full or the item has expired:
    // one per publication, so that expired items never outnumber live ones.
    let full = entry.items >= entry.config.items_max();
    let goes = match oldest {
        Some(other) if *other.id != *item.id && (full || other.at_us < gone_us) => Some(other),
        None if full => return Err(error::UNREADABLE),
        _ => None,
    };
    if let Some(oldest) = goes {
        remove(entry, batch, actor, &oldest.id, Place { number: oldest.number, bytes: oldest.bytes });
    }
    item.put_by(batch, actor, &entry.name, number, by);
    (entry.items, entry.bytes) = (entry.items + 1, entry.bytes + u64::from(item.bytes()));
    Ok(goes.is_some())
}

/// Stores an item under this number, if its id is new and there is room.
pub fn add(entry: &mut Node, batch: &mut Batch, actor: &str, item: &Item<'_>, number: u64) {
    item.put(batch, actor, &entry.name, number);
    (entry.items, entry.bytes) = (entry.items + 1, entry.bytes + u64::from(item.bytes()));
}

/// Removes the item with this id at this place: clients that have not read it have missed it.
pub fn remove(entry: &mut Node, batch: &mut Batch, actor: &str, id: &str, place: Place) {
    entry.lose(place.number);
    replace(entry, batch, actor, id, place);
}

/// Removes the item with this id at this place, to be replaced by another one with the id.
pub(super) fn replace(entry: &mut Node, batch: &mut Batch, actor: &str, id: &str, place: Place) {
    rows::delete_item(batch, actor, &entry.name, id, place.number);
    (entry.items, entry.bytes) = (entry.items.saturating_sub(1), entry.bytes.saturating_sub(place.bytes.into()));
}
