//! The places where an account's bookmarks are stored, and the effect of a change in one of them on
//! the others.

use super::super::change;
use super::super::iq::Step;
use super::super::pubsub::error::Error;
use super::super::pubsub::node::{Access, Affiliates, Affiliation, Audience, Config, Directory, SendLast};
use super::super::pubsub::{Event, keep};
use super::super::xml;
use super::list::{Bare, Bookmark, Storage, rewritten, same};
use super::{NEW, OLD};
use crate::limits::{BOOKMARKS_BYTES_MAX, NODE_ITEMS_MAX};
use crate::store::nodes::{self as rows, Item, Place, Span};
use crate::store::{Batch, Found, Query, private};
use crate::wire::limit::Limit;

/// The id of the one item with all bookmarks (XEP-0048 3.1).
const SINGLE: &str = "current";
const FORMAT: u8 = 1;

fn together_key() -> Box<[u8]> {
    private::own_key("bookmarks")
}

/// The query whether an account's bookmarks are the same in all places.
pub(super) fn together(account: &str) -> Query {
    private::get(account, &together_key())
}

/// A change, with its place.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Change {
    /// An item is published.
    Published(Bookmark),
    /// The item with this id is retracted.
    Retracted(Box<str>),
    /// All items are removed.
    Cleared,
    /// The element in private XML is written.
    Private(Storage),
    /// The element in its node is published.
    Node(Storage),
}

/// An item and its place.
#[derive(Debug)]
struct Kept {
    bookmark: Bookmark,
    place: Place,
}

/// All places before a change.
#[derive(Debug)]
pub(super) struct Places<'a> {
    together: bool,
    /// The directory, including the writes of the request itself.
    directory: Directory,
    /// The element in private XML.
    private: Option<minidom::Element>,
    /// The element in the node with one item.
    node: Option<minidom::Element>,
    items: Vec<Kept>,
    /// Whether there are more items than were read.
    more: bool,
    of_new: Affiliates,
    of_old: &'a [Found],
}

impl<'a> Places<'a> {
    /// The queries for all places.
    pub(super) fn queries(account: &str) -> Vec<Query> {
        let old = Span { bytes_max: BOOKMARKS_BYTES_MAX as u32, ..Span::LAST };
        let mut queries = vec![
            together(account),
            rows::directory(account),
            private::get(account, &private::key(OLD, "storage")),
            rows::items(account, OLD, old),
            rows::affiliates(account, NEW),
            rows::items(account, NEW, Span::all(NODE_ITEMS_MAX, 2 * BOOKMARKS_BYTES_MAX as u32)),
        ];
        queries.extend(keep::queries(account, OLD, SINGLE));
        queries
    }

    /// Decodes the results; `None` if any of them is unreadable. `step` contains the pending
    /// writes.
    pub(super) fn read(found: &'a [Found], step: &Step) -> Option<Places<'a>> {
        let [together, directory, private, old, of_new, new, of_old @ ..] = found else { return None };
        let value = |found: &'a Found| match found {
            Found::Value(value) => Some(value.as_deref()),
            _ => None,
        };
        let rows = |found: &'a Found| match found {
            Found::Rows { rows, more } => Some((&rows[..], *more)),
            _ => None,
        };
        let (new, more) = rows(new)?;
        let items = new.iter().map(|row| {
            let (number, item) = (rows::number_of(&row.sort)?, Item::decode(&row.value)?);
            // An item that is not a bookmark stays where it is.
            let payload = xml::parse(item.payload).filter(|payload| payload.is("conference", NEW));
            let place = Place { number, bytes: item.bytes() };
            Some(payload.map(|payload| Kept { bookmark: Bookmark { id: item.id.into(), payload }, place }))
        });
        let items: Option<Vec<_>> = items.collect();
        let storage = |bytes: &[u8]| xml::parse(bytes).filter(|element| element.is("storage", OLD));
        Some(Places {
            together: value(together)?.is_some(),
            directory: Directory::after(directory, step.writes())?,
            private: value(private)?.and_then(storage),
            node: rows(old)?.0.first().and_then(|row| storage(Item::decode(&row.value)?.payload)),
            items: items?.into_iter().flatten().collect(),
            more,
            of_new: Affiliates::decode(value(of_new)?)?,
            of_old,
        })
    }

    /// The content of the element with all bookmarks, if it exists in any place.
    fn old(&self, bare: Bare) -> Storage {
        let mut all = Storage::default();
        for element in self.private.iter().chain(&self.node) {
            let storage = Storage::of(element, bare);
            for room in storage.rooms {
                if !all.rooms.iter().any(|other| same(bare, &other.id, &room.id)) {
                    all.rooms.push(room);
                }
            }
            if all.others.is_empty() {
                all.others = storage.others;
            }
        }
        all
    }

    /// The union of all bookmarks.
    fn all(&self, bare: Bare) -> Storage {
        let old = self.old(bare);
        let mut all =
            Storage { rooms: self.items.iter().map(|kept| kept.bookmark.clone()).collect(), others: old.others };
        if !self.together {
            all.rooms.extend(old.rooms.into_iter().filter(|room| self.item(bare, &room.id).is_none()));
        }
        all
    }

    /// The rooms of the items.
    pub(super) fn rooms(&self) -> Vec<Box<str>> {
        self.items.iter().map(|kept| kept.bookmark.id.clone()).collect()
    }

    fn item(&self, bare: Bare, id: &str) -> Option<&Kept> {
        self.items.iter().find(|kept| same(bare, &kept.bookmark.id, id))
    }

    /// All bookmarks after a change.
    fn with(&self, change: &Change, bare: Bare) -> Storage {
        let mut all = self.all(bare);
        match change {
            Change::Published(bookmark) => {
                match all.rooms.iter_mut().find(|room| room.id == bookmark.id) {
                    Some(room) => *room = bookmark.clone(),
                    None => all.rooms.push(bookmark.clone()),
                }
                // If the node is full, the oldest bookmark is dropped.
                let most = self.directory.get(NEW).map_or(NODE_ITEMS_MAX, |node| node.config.items_max()) as usize;
                let mut left = all.rooms.len().saturating_sub(most);
                all.rooms.retain(|room| {
                    let goes = left > 0 && room.id != bookmark.id && self.item(bare, &room.id).is_some();
                    left -= usize::from(goes);
                    !goes
                });
            }
            Change::Retracted(id) => all.rooms.retain(|room| room.id != *id),
            Change::Cleared => all.rooms.retain(|room| !self.together && self.item(bare, &room.id).is_none()),
            Change::Private(written) | Change::Node(written) => {
                let rooms = written.rooms.iter().map(|room| {
                    self.item(bare, &room.id).map_or_else(|| room.clone(), |kept| rewritten(room, &kept.bookmark))
                });
                let rooms: Vec<_> = rooms.collect();
                // An old client cannot have removed a bookmark that it was never shown.
                let place = if matches!(change, Change::Private(_)) { &self.private } else { &self.node };
                let shown = place.as_ref().map(|element| Storage::of(element, bare)).unwrap_or_default();
                let is_among = |rooms: &[Bookmark], id: &str| rooms.iter().any(|other| same(bare, &other.id, id));
                let unseen = all.rooms.into_iter().filter(|room| {
                    !self.together && !is_among(&written.rooms, &room.id) && !is_among(&shown.rooms, &room.id)
                });
                all = Storage { rooms: rooms.into_iter().chain(unseen).collect(), others: written.others.clone() };
            }
        }
        all
    }

    /// The requested change, with the corresponding changes in the other places.
    pub(super) fn change(mut self, account: &str, now_us: u64, bare: Bare, change: &Change, step: Step) -> Step {
        let all = self.with(change, bare);
        let written = xml::written(&all.write());
        let grows = matches!(change, Change::Published(_) | Change::Private(_) | Change::Node(_));
        let too_many = self.more || all.rooms.len() > NODE_ITEMS_MAX as usize || written.len() > BOOKMARKS_BYTES_MAX;
        if too_many {
            // Clients that see only one of the places would lose existing bookmarks.
            return if grows { Step::Error(Limit::Bookmarks.into()) } else { step };
        }
        match self.write(account, now_us, bare, Some(change), &all, &written) {
            Ok((batch, events)) => {
                let events = events.into_iter().map(|event| change::Change::Event(Box::new(event)));
                step.with([change::Change::Write(batch)].into_iter().chain(events).collect())
            }
            Err(refused) => Step::Error(refused),
        }
    }

    /// Makes the bookmarks in all places the same. `None` if there is nothing to do.
    pub(super) fn bring_together(mut self, account: &str, now_us: u64, bare: Bare) -> Option<Batch> {
        let all = self.all(bare);
        if all.rooms.is_empty() && all.others.is_empty() {
            return None;
        }
        let written = xml::written(&all.write());
        if self.more || written.len() > BOOKMARKS_BYTES_MAX || all.rooms.len() > NODE_ITEMS_MAX as usize {
            return None;
        }
        self.write(account, now_us, bare, None, &all, &written).ok().map(|(batch, _)| batch)
    }

    /// Writes all bookmarks to the places that differ.
    fn write(
        &mut self,
        account: &str,
        now_us: u64,
        bare: Bare,
        change: Option<&Change>,
        all: &Storage,
        written: &[u8],
    ) -> Result<(Batch, Vec<Event>), Error> {
        let (mut batch, mut events) = (Batch::new(), Vec::new());
        let together = self.write_items(account, now_us, bare, change, all, &mut batch, &mut events);
        if !matches!(change, Some(Change::Private(_))) {
            private::put(&mut batch, account, &private::key(OLD, "storage"), written);
        }
        if !matches!(change, Some(Change::Node(_))) && self.is_private(OLD, affiliates(self.of_old.first())) {
            let item = Item { at_us: now_us, id: SINGLE, payload: written };
            let made = Config { access: Access::Whitelist, ..Config::default() };
            let has_it = self.node.as_ref().is_some_and(|node| *node == all.write());
            if !has_it {
                let node = (OLD, made);
                events.extend(keep::publish(&mut self.directory, &mut batch, account, node, &item, self.of_old)?);
            }
        }
        match together {
            true => private::put(&mut batch, account, &together_key(), &[FORMAT]),
            false => private::delete(&mut batch, account, &together_key()),
        }
        self.directory.put(&mut batch, account)?;
        Ok((batch, events))
    }

    /// Whether only the user can see a node (XEP-0411 5), or it does not exist.
    fn is_private(&self, node: &str, affiliates: Option<Affiliates>) -> bool {
        let members = affiliates.is_none_or(|all| all.affiliations.iter().any(|(_, is)| *is != Affiliation::Outcast));
        self.directory
            .get(node)
            .is_none_or(|node| node.config.access == Access::Whitelist && node.config.persist && !members)
    }

    /// Writes items for exactly these bookmarks; false if the items' node is visible to others.
    fn write_items(
        &mut self,
        account: &str,
        now_us: u64,
        bare: Bare,
        change: Option<&Change>,
        all: &Storage,
        batch: &mut Batch,
        events: &mut Vec<Event>,
    ) -> bool {
        // The request itself writes or removes these.
        let done = |id: &str| match change {
            Some(Change::Published(bookmark)) => *bookmark.id == *id,
            Some(Change::Retracted(gone)) => **gone == *id,
            Some(Change::Cleared) => true,
            _ => false,
        };
        let put: Vec<&Bookmark> = all
            .rooms
            .iter()
            .filter(|room| !done(&room.id) && self.item(bare, &room.id).is_none_or(|kept| kept.bookmark != **room))
            .collect();
        let gone: Vec<&Kept> = self
            .items
            .iter()
            .filter(|kept| {
                !done(&kept.bookmark.id) && !all.rooms.iter().any(|room| same(bare, &room.id, &kept.bookmark.id))
            })
            .collect();
        if put.is_empty() && gone.is_empty() {
            return true;
        }
        if !self.is_private(NEW, Some(self.of_new.clone())) {
            return false;
        }
        // XEP-0402 3.3
        let made =
            Config { access: Access::Whitelist, send_last: SendLast::Never, items_max: u32::MAX, ..Config::default() };
        if self.directory.get(NEW).is_none() {
            self.directory.configure(NEW, made);
        }
        let mut last = self.directory.last;
        let Some(node) = self.directory.get_mut(NEW) else { return false };
        if all.rooms.len() > node.config.items_max() as usize {
            node.config.items_max = u32::MAX;
        }
        let audience = Audience::of(&node.config, self.of_new.clone());
        for kept in gone {
            keep::remove(node, batch, account, &kept.bookmark.id, kept.place);
            if node.config.notifications && node.config.notify_retract {
                events.push(Event::retracted(NEW, audience.clone(), &kept.bookmark.id));
            }
        }
        for room in put {
            if let Some(kept) = self.items.iter().find(|kept| kept.bookmark.id == room.id) {
                keep::remove(node, batch, account, &room.id, kept.place);
            }
            let payload = xml::written(&room.payload);
            last += 1;
            let item = Item { at_us: now_us, id: &room.id, payload: &payload };
            keep::add(node, batch, account, &item, last);
            if node.config.notifications {
                events.push(Event::published(NEW, &node.config, audience.clone(), Some(&item)));
            }
        }
        self.directory.last = last;
        true
    }
}

fn affiliates(found: Option<&Found>) -> Option<Affiliates> {
    match found? {
        Found::Value(row) => Affiliates::decode(row.as_deref()),
        _ => None,
    }
}
