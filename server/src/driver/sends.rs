//! The sends in flight of a thread: only connections that are sending have an entry.

use super::PROGRESS_BYTES;

/// No send in flight, in a slot.
pub(super) const NONE: u32 = u32::MAX;

/// One send: the bytes stay where they are until the kernel has taken them all.
pub(super) struct Sending {
    bytes: Vec<u8>,
    done: usize,
}

impl Sending {
    /// What the kernel has not taken yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.done..]
    }
}

/// How far a send has come with what the kernel has just taken of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Advance {
    /// To its end.
    Whole,
    /// Past one more multiple of [`PROGRESS_BYTES`].
    Step,
    /// Not so far.
    Little,
}

/// A slab of sends with stable indexes.
#[derive(Default)]
pub(super) struct Sends {
    entries: Vec<Option<Sending>>,
    free: Vec<u32>,
}

impl Sends {
    /// Memory of the slab, bytes, without what is being sent.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Option<Sending>>() + self.free.capacity() * size_of::<u32>()
    }

    /// Takes a send in, `done` bytes of which are with the kernel already.
    pub(super) fn insert(&mut self, bytes: Vec<u8>, done: usize) -> u32 {
        let sending = Some(Sending { bytes, done });
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = sending;
                index
            }
            None => {
                self.entries.push(sending);
                (self.entries.len() - 1) as u32
            }
        }
    }

    /// The send at `index`.
    pub(super) fn get(&self, index: u32) -> &Sending {
        self.entries[index as usize].as_ref().expect("a send in flight has an entry")
    }

    /// Counts `taken` more bytes as with the kernel.
    pub(super) fn advance(&mut self, index: u32, taken: usize) -> Advance {
        let sending = self.entries[index as usize].as_mut().expect("a send in flight has an entry");
        let steps = sending.done / PROGRESS_BYTES;
        sending.done += taken;
        match () {
            () if sending.done >= sending.bytes.len() => Advance::Whole,
            () if sending.done / PROGRESS_BYTES > steps => Advance::Step,
            () => Advance::Little,
        }
    }

    /// Ends the send and gives its bytes back.
    pub(super) fn remove(&mut self, index: u32) -> Vec<u8> {
        let sending = self.entries[index as usize].take().expect("a send in flight has an entry");
        self.free.push(index);
        sending.bytes
    }

    /// Sends that are not done.
    #[cfg(test)]
    pub(super) fn in_flight(&self) -> usize {
        self.entries.iter().flatten().count()
    }

    /// Forgets all entries without freeing their bytes, for when the kernel may still read them.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.entries));
    }
}
