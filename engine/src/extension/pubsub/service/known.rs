//! What a home knows of a service's node since the last publication there, as data: the next
//! publication by HTTP need not read. Requests that change a node take turns, and each removes this
//! entry when its turn begins. So the entry either matches the rows or does not exist.

use std::collections::VecDeque;

use super::super::keep::Oldest;
use super::super::node::{Config, Directory};
use super::halves::Halves;
use crate::id::hash;
use crate::limits::{KNOWN_IDS_MAX, KNOWN_NODES_BYTES_MAX};
use crate::store::Row;
use crate::store::nodes::{self as rows, Place};

/// The facts about one node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Known {
    /// Its directory.
    pub directory: Directory,
    /// Hashes of the ids of all stored items, in order of publication, if they are known. At most
    /// `KNOWN_IDS_MAX`.
    pub ids: Option<VecDeque<u64>>,
    /// The next items to be dropped, as far as they are known; at most as many as were read or
    /// stored at once.
    pub oldest: VecDeque<Oldest>,
}

impl Known {
    /// Whether it is known that no stored item has this id.
    pub fn lacks(&self, id: &str) -> bool {
        self.ids.as_ref().is_some_and(|ids| !ids.contains(&hash(id.as_bytes())))
    }

    /// Whether all items are known that this many more would push out of a node with this
    /// configuration and this many stored items.
    pub fn makes_room(&self, config: &Config, items: u32, more: u32) -> bool {
        let may_go = match config.expire_s {
            0 => (items + more).saturating_sub(config.items_max()).min(items),
            _ => items.min(more),
        };
        !config.persist || self.oldest.len() >= may_go as usize
    }

    /// Removes this many of the oldest items.
    pub fn lose(&mut self, items: usize) {
        self.oldest.drain(..items.min(self.oldest.len()));
        if let Some(ids) = &mut self.ids {
            ids.drain(..items.min(ids.len()));
        }
    }

    /// Appends an item with this id.
    pub fn keep(&mut self, id: &str) {
        if let Some(ids) = &mut self.ids {
            ids.push_back(hash(id.as_bytes()));
        }
        self.ids = self.ids.take().filter(|ids| ids.len() <= KNOWN_IDS_MAX);
    }

    /// Size in bytes.
    fn bytes(&self) -> usize {
        let nodes = self.directory.nodes().iter().map(|node| {
            let texts = [&node.name, &node.config.title, &node.config.kind, &node.config.description];
            let lists = node.config.groups.iter().chain(&node.owners);
            texts.into_iter().chain(lists).map(|text| text.len() + size_of::<Box<str>>()).sum::<usize>() + 192
        });
        let ids = self.ids.as_ref().map_or(0, |ids| ids.capacity() * size_of::<u64>());
        let oldest = self.oldest.iter().map(|item| item.id.len() + size_of::<Oldest>());
        size_of::<Known>() + nodes.sum::<usize>() + ids + oldest.sum::<usize>()
    }
}

/// Hashes of the ids in rows of [`rows::ids`], in order of publication; `None` if some are
/// unreadable.
pub fn ids(found: &[Row]) -> Option<VecDeque<u64>> {
    let id = |row: &Row| Some((Place::decode(&row.value)?.number, hash(rows::id_of(&row.sort)?)));
    let mut all: Vec<_> = found.iter().map(id).collect::<Option<_>>()?;
    all.sort_unstable();
    Some(all.into_iter().map(|(_, id)| id).collect())
}

/// The facts about nodes of this home; the least recently published ones are dropped first.
#[derive(Debug, Default)]
pub struct KnownNodes(Halves<Known>);

impl KnownNodes {
    /// Removes and returns the facts about a node.
    pub fn take(&mut self, actor: &str) -> Option<Known> {
        self.0.take(actor)
    }

    /// Stores the facts about a node.
    pub fn put(&mut self, actor: &str, known: Known) {
        let bytes = actor.len() + 64 + known.bytes();
        self.0.put(actor, known, bytes, KNOWN_NODES_BYTES_MAX);
    }

    /// Memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(ids: usize) -> Known {
        let ids = (0..ids as u64).collect();
        Known { directory: Directory::default(), ids: Some(ids), oldest: VecDeque::new() }
    }

    #[test]
    fn what_is_known_is_bounded_and_what_is_used_stays() {
        let mut all = KnownNodes::default();
        for number in 0..20_000 {
            all.put(&format!("pubsub.x/{number}"), known(100));
            let first = all.take("pubsub.x/0").expect("it is used all the time");
            all.put("pubsub.x/0", first);
            assert!(all.memory_bytes() <= KNOWN_NODES_BYTES_MAX);
        }
        assert!(all.take("pubsub.x/1").is_none() && all.take("pubsub.x/19999").is_some());
        let left: Vec<_> = all.0.actors().cloned().collect();
        left.iter().for_each(|actor| drop(all.take(actor)));
        assert_eq!(all.memory_bytes(), 0);
        all.put("pubsub.x/0", known(KNOWN_NODES_BYTES_MAX / 8));
        assert_eq!(all.memory_bytes(), 0, "what is too much is not kept");
    }

    #[test]
    fn ids_are_those_of_what_is_kept() {
        let mut own = known(0);
        own.keep("a");
        own.keep("b");
        assert!(!own.lacks("a") && !own.lacks("b") && own.lacks("c"));
        own.lose(1);
        own.keep("c");
        assert!(own.lacks("a") && !own.lacks("b") && !own.lacks("c"));
        assert!(!Known { ids: None, ..own.clone() }.lacks("x"), "that is not known");
        (0..KNOWN_IDS_MAX).for_each(|number| own.keep(&number.to_string()));
        assert_eq!(own.ids, None, "there are too many");
    }
}
