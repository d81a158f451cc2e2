//! A cache by actor, bounded by its bytes, as data. It has two halves: when one is full, the other
//! is dropped with everything that was not used since.

use std::collections::BTreeMap;

/// Values by their actors, each with its size in bytes.
#[derive(Debug)]
pub(super) struct Halves<T> {
    young: BTreeMap<Box<str>, (T, usize)>,
    old: BTreeMap<Box<str>, (T, usize)>,
    young_bytes: usize,
    old_bytes: usize,
}

impl<T> Default for Halves<T> {
    fn default() -> Halves<T> {
        Halves { young: BTreeMap::new(), old: BTreeMap::new(), young_bytes: 0, old_bytes: 0 }
    }
}

impl<T> Halves<T> {
    /// The value of an actor.
    pub(super) fn get(&self, actor: &str) -> Option<&T> {
        self.young.get(actor).or_else(|| self.old.get(actor)).map(|(thing, _)| thing)
    }

    /// Removes and returns the value of an actor.
    pub(super) fn take(&mut self, actor: &str) -> Option<T> {
        if let Some((thing, bytes)) = self.young.remove(actor) {
            self.young_bytes -= bytes;
            return Some(thing);
        }
        let (thing, bytes) = self.old.remove(actor)?;
        self.old_bytes -= bytes;
        Some(thing)
    }

    /// Stores the value of an actor, which takes this many bytes, in place of the previous one; all
    /// together take at most `most`. Returns what was dropped.
    pub(super) fn put(&mut self, actor: &str, thing: T, bytes: usize, most: usize) -> Vec<(Box<str>, T)> {
        self.take(actor);
        if bytes > most / 2 {
            return vec![(actor.into(), thing)];
        }
        let mut gone = Vec::new();
        if self.young_bytes + bytes > most / 2 {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            gone = old.into_iter().map(|(actor, (thing, _))| (actor, thing)).collect();
            (self.old_bytes, self.young_bytes) = (self.young_bytes, 0);
        }
        self.young_bytes += bytes;
        self.young.insert(actor.into(), (thing, bytes));
        gone
    }

    /// Size of all values in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.young_bytes + self.old_bytes
    }

    /// All actors.
    #[cfg(test)]
    pub(super) fn actors(&self) -> impl Iterator<Item = &Box<str>> {
        self.young.keys().chain(self.old.keys())
    }
}
