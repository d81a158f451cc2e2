//! What the home of a node of a service knows of it since something was published there last, as data: the next publication by HTTP reads
//! nothing then. Requests that change a node have turns, and each takes this out when its turn begins. So it is what the rows say, or is not
//! there.

use std::collections::VecDeque;

use super::super::keep::Oldest;
use super::super::node::{Config, Directory};
use super::halves::Halves;
use crate::id::hash;
use crate::limits::{KNOWN_IDS_MAX, KNOWN_NODES_BYTES_MAX};
use crate::store::Row;
use crate::store::nodes::{self as rows, Place};

/// What is known of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its directory.
    pub directory: Directory,
    /// Hashes of the ids of all items that are kept, in the order of publication; if they are known. At most `KNOWN_IDS_MAX`.
    pub ids: Option<VecDeque<u64>>,
    /// The items that give way next, as far as they are known; at most as many as were read or stored at once.
    pub oldest: VecDeque<Oldest>,
}

impl Known {
    /// Whether it is known that no item with this id is kept.
    pub fn lacks(&self, id: &str) -> bool {
        self.ids.as_ref().is_some_and(|ids| !ids.contains(&hash(id.as_bytes())))
    }

    /// Whether all is known of what gives way to so many more items of a node with this configuration, which keeps so many.
    pub fn makes_room(&self, config: &Config, items: u32, more: u32) -> bool {
        let may_go = match config.expire_s {
            0 => (items + more).saturating_sub(config.items_max()).min(items),
            _ => items.min(more),
        };
        !config.persist || self.oldest.len() >= may_go as usize
    }

    /// So many of the oldest items have gone.
    pub fn lose(&mut self, items: usize) {
        self.oldest.drain(..items.min(self.oldest.len()));
        if let Some(ids) = &mut self.ids {
            ids.drain(..items.min(ids.len()));
        }
    }

    /// An item with this id is the last one now.
    pub fn keep(&mut self, id: &str) {
        if let Some(ids) = &mut self.ids {
            ids.push_back(hash(id.as_bytes()));
        }
        self.ids = self.ids.take().filter(|ids| ids.len() <= KNOWN_IDS_MAX);
    }

    /// What it takes, bytes.
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

/// Hashes of the ids in rows of [`rows::ids`], in the order of publication; none if some could not be read.
pub fn ids(found: &[Row]) -> Option<VecDeque<u64>> {
    let id = |row: &Row| Some((Place::decode(&row.value)?.number, hash(rows::id_of(&row.sort)?)));
    let mut all: Vec<_> = found.iter().map(id).collect::<Option<_>>()?;
    all.sort_unstable();
    Some(all.into_iter().map(|(_, id)| id).collect())
}

/// What is known of nodes of this home; what nobody has published at since goes first.
#[derive(Debug, Default)]
pub struct KnownNodes(Halves<Known>);

impl KnownNodes {
    /// Takes out what is known of a node.
    pub fn take(&mut self, actor: &str) -> Option<Known> {
        self.0.take(actor)
    }

    /// This is known of a node.
    pub fn put(&mut self, actor: &str, known: Known) {
        let bytes = actor.len() + 64 + known.bytes();
        self.0.put(actor, known, bytes, KNOWN_NODES_BYTES_MAX);
    }

    /// What it takes, bytes.
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
