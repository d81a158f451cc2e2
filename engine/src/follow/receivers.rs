//! The receivers of an entry, grouped by shard.

use crate::id::ShardId;

/// Separates the names of a list in a letter; no JID can contain it.
pub const BETWEEN: &str = "\0";

/// The names of a list in a letter.
pub fn names(list: &str) -> impl Iterator<Item = &str> {
    // By a character: searching for text is slower.
    list.split('\0')
}

/// Receivers grouped by the shard that serves them, in the form of a letter: each shard gets its
/// list with the payload once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receivers {
    /// By shard; names are separated by [`BETWEEN`].
    lists: Vec<String>,
    count: usize,
}

impl Receivers {
    /// Adds a receiver, whose name is in pieces.
    pub fn add(&mut self, shard: ShardId, name: &[&str]) {
        if self.lists.len() <= shard.index() {
            self.lists.resize_with(shard.index() + 1, String::new);
        }
        let list = &mut self.lists[shard.index()];
        if !list.is_empty() {
            list.push_str(BETWEEN);
        }
        list.extend(name.iter().copied());
        self.count += 1;
    }

    /// Number of receivers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The receivers at one shard; empty for none.
    pub fn at(&self, shard: ShardId) -> &str {
        self.lists.get(shard.index()).map_or("", |list| list)
    }

    /// The shards with receivers, each with its list.
    pub fn by_shard(&self) -> impl Iterator<Item = (ShardId, &str)> {
        let lists = (0..).zip(&self.lists).filter(|(_, list)| !list.is_empty());
        lists.map(|(shard, list)| (ShardId(shard), list.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_is_named_once_with_all_its_receivers() {
        let mut receivers = Receivers::default();
        for (shard, name) in [(3, "a"), (1, "b"), (3, "c")] {
            receivers.add(ShardId(shard), &[name]);
        }
        assert_eq!(receivers.by_shard().collect::<Vec<_>>(), [(ShardId(1), "b"), (ShardId(3), "a\0c")]);
        assert_eq!((receivers.count(), receivers.at(ShardId(0)), receivers.at(ShardId(9))), (3, "", ""));
    }
}
