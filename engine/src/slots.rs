//! A table by index that grows in chunks, for what there may be a million of.
//!
//! A vector doubles: in the turn in which it is full, all of it is copied while the old and the new one are both in memory,
//! and up to half of the new one is never used. Here a chunk is added, nothing moves, and at most one chunk is not full.
//! What is in the slots, and which of them are free, is the owner's.

use std::ops::{Index, IndexMut};

/// Slots of a chunk.
const CHUNK: usize = 512;

/// Slots that are numbered from 0 and never taken away.
#[derive(Debug)]
pub struct Slots<T> {
    /// Each but the last is full; each has room for [`CHUNK`].
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { chunks: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Slots there are.
    pub fn len(&self) -> usize {
        match self.chunks.split_last() {
            Some((last, full)) => full.len() * CHUNK + last.len(),
            None => 0,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds a slot and returns its index.
    pub fn push(&mut self, slot: T) -> usize {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let index = self.len();
        self.chunks.last_mut().expect("there is one with room").push(slot);
        index
    }

    /// Adds slots until there is one at `index`.
    pub fn reach(&mut self, index: usize, mut fresh: impl FnMut() -> T) {
        for _ in self.len()..=index {
            self.push(fresh());
        }
    }

    /// The slot, if there is one.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// The slot, if there is one.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// Memory that it takes, bytes, without what its slots point to.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    /// All of them, by index.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

impl<T> Index<usize> for Slots<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Slots<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_where_they_were_put_and_do_not_move() {
        let mut slots = Slots::default();
        assert!(slots.is_empty() && slots.get(0).is_none());
        let first: *const usize = {
            assert_eq!(slots.push(0), 0);
            &slots[0]
        };
        for n in 1..=3 * CHUNK {
            assert_eq!(slots.push(n), n);
            assert_eq!(slots.len(), n + 1);
        }
        assert_eq!(first, &raw const slots[0], "growing moves nothing");
        assert!(slots.iter().copied().eq(0..=3 * CHUNK));
        assert_eq!(slots.get(3 * CHUNK), Some(&(3 * CHUNK)));
        assert_eq!(slots.get(3 * CHUNK + 1), None, "a slot that is not there, in a chunk that is");
        assert_eq!(slots.get(usize::MAX), None);
        *slots.get_mut(CHUNK).unwrap() = 7;
        slots[CHUNK - 1] = 8;
        assert_eq!((slots[CHUNK], slots[CHUNK - 1]), (7, 8));
    }

    #[test]
    fn no_chunk_is_larger_than_it_has_to_be() {
        let mut slots = Slots::default();
        slots.reach(2 * CHUNK - 1, || 0u64);
        assert_eq!(slots.len(), 2 * CHUNK);
        slots.reach(5, || 1);
        assert_eq!(slots.len(), 2 * CHUNK, "it is there already");
        assert!(slots.chunks.iter().all(|chunk| chunk.capacity() == CHUNK));
    }
}
