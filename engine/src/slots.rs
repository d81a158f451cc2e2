//! An indexed table that grows in chunks, for collections of up to a million elements.
//!
//! A vector doubles: in the turn in which it is full, it is copied as a whole while the old and the
//! new one are both in memory, and up to half of the new one is never used. This table adds a
//! chunk, nothing moves, and at most one chunk is not full. The owner manages the content of the
//! slots and knows which of them are free.
//!
//! [`Sparse`] is for data that only some of the numbered elements have: a page of pointers exists
//! as long as one of its elements does.

use std::ops::{Index, IndexMut};

/// Slots per chunk.
const CHUNK: usize = 512;

/// Slots that are numbered from 0 and never removed.
#[derive(Debug)]
pub struct Slots<T> {
    /// All but the last are full; each has capacity for [`CHUNK`].
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { chunks: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Number of slots.
    pub fn len(&self) -> usize {
        match self.chunks.split_last() {
            Some((last, full)) => full.len() * CHUNK + last.len(),
            None => 0,
        }
    }

    /// Whether there are no slots.
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

    /// Reads from each of these slots, which are needed next. They are far apart in memory: this
    /// way the processor fetches many of them in parallel, instead of waiting for each in turn.
    pub fn fetch(&self, indexes: impl Iterator<Item = usize>, read: impl Fn(&T) -> u32) {
        let seen = indexes.filter_map(|index| self.get(index)).fold(0, |seen, slot| seen ^ read(slot));
        std::hint::black_box(seen);
    }

    /// Memory in bytes, without what its slots point to.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    /// All slots, by index.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

/// Pointers per page.
const PAGE: usize = 256;

/// Values for some of a range of elements that are numbered densely from 0.
///
/// A hash map doubles, never releases its capacity, and has room for twice as many elements when it
/// has just grown. Here an element has a pointer and a block of its own, and a removed element
/// takes no memory: a page is freed with its last element.
#[derive(Debug)]
pub struct Sparse<T> {
    pages: Vec<Option<Box<Page<T>>>>,
    /// The page that was emptied last, so that a single element that is added and removed
    /// repeatedly allocates no new one.
    spare: Option<Box<Page<T>>>,
    len: usize,
}

#[derive(Debug)]
struct Page<T> {
    taken: usize,
    all: [Option<Box<T>>; PAGE],
}

impl<T> Default for Sparse<T> {
    fn default() -> Sparse<T> {
        Sparse { pages: Vec::new(), spare: None, len: 0 }
    }
}

impl<T> Sparse<T> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value with this number, if any.
    pub fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        self.pages.get(index / PAGE)?.as_ref()?.all[index % PAGE].as_deref()
    }

    /// The same, for modification.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let index = index as usize;
        self.pages.get_mut(index / PAGE)?.as_mut()?.all[index % PAGE].as_deref_mut()
    }

    /// As [`Slots::fetch`].
    pub fn fetch(&self, indexes: impl Iterator<Item = u32>, read: impl Fn(&T) -> u32) {
        let seen = indexes.filter_map(|index| self.get(index)).fold(0, |seen, own| seen ^ read(own));
        std::hint::black_box(seen);
    }

    /// Inserts a value, and returns the previous one.
    pub fn insert(&mut self, index: u32, own: T) -> Option<T> {
        let index = index as usize;
        if index / PAGE >= self.pages.len() {
            self.pages.resize_with(index / PAGE + 1, || None);
        }
        let fresh = || Box::new(Page { taken: 0, all: [const { None }; PAGE] });
        let page = self.pages[index / PAGE].get_or_insert_with(|| self.spare.take().unwrap_or_else(fresh));
        let before = page.all[index % PAGE].replace(Box::new(own));
        page.taken += usize::from(before.is_none());
        self.len += usize::from(before.is_none());
        before.map(|before| *before)
    }

    /// Removes and returns a value.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let index = index as usize;
        let place = self.pages.get_mut(index / PAGE)?;
        let page = place.as_mut()?;
        let own = page.all[index % PAGE].take()?;
        page.taken -= 1;
        if page.taken == 0 {
            self.spare = place.take();
        }
        self.len -= 1;
        Some(*own)
    }

    /// Memory in bytes, without what its values point to.
    pub fn memory_bytes(&self) -> usize {
        let pages = self.pages.iter().chain([&self.spare]).flatten().count() * size_of::<Page<T>>();
        self.pages.capacity() * size_of::<Option<Box<Page<T>>>>() + pages + self.len * size_of::<T>()
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
    fn a_page_is_there_as_long_as_one_of_it_is() {
        let mut all = Sparse::default();
        assert!(all.get(0).is_none() && all.remove(7).is_none());
        assert_eq!((all.len(), all.memory_bytes()), (0, 0));
        for index in [0, 3 * PAGE as u32, 3 * PAGE as u32 + 1] {
            assert_eq!(all.insert(index, index), None);
        }
        assert_eq!(all.insert(0, 9), Some(0), "it takes its place");
        assert_eq!((all.get(0), all.len(), all.get(PAGE as u32), all.get(u32::MAX)), (Some(&9), 3, None, None));
        *all.get_mut(0).unwrap() = 1;
        assert_eq!((all.remove(0), all.remove(0), all.remove(PAGE as u32)), (Some(1), None, None));
        assert_eq!(all.pages.iter().flatten().count(), 1);
        assert_eq!((all.remove(3 * PAGE as u32), all.remove(3 * PAGE as u32 + 1)), (Some(768), Some(769)));
        assert!(all.is_empty() && all.pages.iter().all(Option::is_none));
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
