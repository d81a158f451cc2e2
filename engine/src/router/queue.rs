//! A queue that is nearly always empty, and then takes a pointer.

use std::collections::{VecDeque, vec_deque};

/// The queue.
#[derive(Debug)]
#[expect(clippy::box_collection, reason = "without the box it has 32 bytes")]
pub struct Queue<T>(Option<Box<VecDeque<T>>>);

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue(None)
    }
}

impl<T> Queue<T> {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.len())
    }

    /// Appends an entry.
    pub fn push_back(&mut self, entry: T) {
        self.0.get_or_insert_default().push_back(entry);
    }

    /// Takes the first entry. The last one frees the queue's memory.
    pub fn pop_front(&mut self) -> Option<T> {
        let entry = self.0.as_mut()?.pop_front();
        self.0.take_if(|queue| queue.is_empty());
        entry
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|queue| queue.iter())
    }
}

impl<T> IntoIterator for Queue<T> {
    type Item = T;
    type IntoIter = vec_deque::IntoIter<T>;

    fn into_iter(self) -> vec_deque::IntoIter<T> {
        self.0.map(|queue| *queue).unwrap_or_default().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_leave_in_order_and_an_empty_queue_has_no_memory() {
        let mut queue = Queue::default();
        assert!(queue.is_empty() && queue.pop_front().is_none());
        (1..=3).for_each(|entry| queue.push_back(entry));
        assert_eq!((queue.len(), queue.pop_front()), (3, Some(1)));
        assert!(queue.iter().eq(&[2, 3]));
        let mut other = std::mem::take(&mut queue);
        assert!(queue.0.is_none() && queue.into_iter().next().is_none());
        assert_eq!([other.pop_front(), other.pop_front(), other.pop_front()], [Some(2), Some(3), None]);
        assert!(other.0.is_none());
        assert_eq!(size_of::<Queue<[u64; 9]>>(), size_of::<usize>());
    }
}
