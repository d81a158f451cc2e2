//! What is known of some actors, bounded by its bytes, as data. There are two halves: when one is full, the other goes, with all that was
//! not used since.

use std::collections::BTreeMap;

/// Things by their actors, each with what it takes, bytes.
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
    /// That of an actor.
    pub(super) fn get(&self, actor: &str) -> Option<&T> {
        self.young.get(actor).or_else(|| self.old.get(actor)).map(|(thing, _)| thing)
    }

    /// Takes out that of an actor.
    pub(super) fn take(&mut self, actor: &str) -> Option<T> {
        if let Some((thing, bytes)) = self.young.remove(actor) {
            self.young_bytes -= bytes;
            return Some(thing);
        }
        let (thing, bytes) = self.old.remove(actor)?;
        self.old_bytes -= bytes;
        Some(thing)
    }

    /// Puts that of an actor, which takes so many bytes, in the place of the one before; all together take at most `most`. What has gone.
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

    /// What all of them take, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.young_bytes + self.old_bytes
    }

    /// All actors.
    #[cfg(test)]
    pub(super) fn actors(&self) -> impl Iterator<Item = &Box<str>> {
        self.young.keys().chain(self.old.keys())
    }
}
