//! The sends in flight of a thread: only connections that are sending have an entry.

/// No send in flight, in place of an index.
pub const NONE: u32 = u32::MAX;

/// Bytes of a send that the kernel takes from one [`Advance::Step`] to the next.
pub const PROGRESS_BYTES: usize = 16 * 1024;

/// One send: the bytes stay in place until the kernel has taken them all.
struct Sending {
    bytes: Vec<u8>,
    done: usize,
    /// Whether an operation in the kernel reads from the bytes.
    lent: bool,
}

/// The progress of a send by the bytes that the kernel has just taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advance {
    /// It is complete.
    Whole,
    /// It has passed another multiple of [`PROGRESS_BYTES`].
    Step,
    /// Less than that.
    Little,
}

/// A slab of sends with stable indexes. Bytes that are lent to the kernel are neither changed nor
/// returned. They are leaked if the slab is dropped before they are back.
#[derive(Default)]
pub struct Sends {
    entries: Vec<Option<Sending>>,
    free: Vec<u32>,
}

impl Sends {
    /// Memory of the slab in bytes, without pending sends.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Option<Sending>>() + self.free.capacity() * size_of::<u32>()
    }

    /// Adds a send, of which the kernel has already taken `done` bytes. Returns its index.
    pub fn insert(&mut self, bytes: Vec<u8>, done: usize) -> u32 {
        let sending = Some(Sending { bytes, done, lent: false });
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

    fn get(&self, index: u32) -> &Sending {
        self.entries[index as usize].as_ref().expect("a send in flight has an entry")
    }

    fn get_mut(&mut self, index: u32) -> &mut Sending {
        self.entries[index as usize].as_mut().expect("a send in flight has an entry")
    }

    /// The bytes that the kernel has not taken yet.
    pub fn rest(&self, index: u32) -> &[u8] {
        let sending = self.get(index);
        &sending.bytes[sending.done..]
    }

    /// Lends the bytes that the kernel has not taken yet to an operation, until [`Sends::land`].
    ///
    /// # Panics
    /// If they are already lent.
    pub fn lend(&mut self, index: u32) -> &[u8] {
        let sending = self.get_mut(index);
        assert!(!std::mem::replace(&mut sending.lent, true), "the send {index} is with the kernel already");
        &sending.bytes[sending.done..]
    }

    /// Ends the loan to an operation that has completed.
    pub fn land(&mut self, index: u32) {
        self.get_mut(index).lent = false;
    }

    /// Counts `taken` more bytes as taken by the kernel.
    pub fn advance(&mut self, index: u32, taken: usize) -> Advance {
        let sending = self.get_mut(index);
        let steps = sending.done / PROGRESS_BYTES;
        sending.done = (sending.done + taken).min(sending.bytes.len());
        match () {
            () if sending.done == sending.bytes.len() => Advance::Whole,
            () if sending.done / PROGRESS_BYTES > steps => Advance::Step,
            () => Advance::Little,
        }
    }

    /// Ends the send and returns its bytes.
    ///
    /// # Panics
    /// If they are lent to the kernel.
    pub fn remove(&mut self, index: u32) -> Vec<u8> {
        assert!(!self.get(index).lent, "the send {index} is with the kernel");
        let sending = self.entries[index as usize].take().expect("just seen");
        self.free.push(index);
        sending.bytes
    }

    /// Number of sends that have not ended.
    pub fn in_flight(&self) -> usize {
        self.entries.iter().flatten().count()
    }
}

impl Drop for Sends {
    fn drop(&mut self) {
        let lent = self.entries.drain(..).flatten().filter(|sending| sending.lent);
        lent.for_each(|sending| std::mem::forget(sending.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_goes_on_where_the_kernel_has_left_off() {
        let mut sends = Sends::default();
        let index = sends.insert(vec![1; 3 * PROGRESS_BYTES], 100);
        assert_eq!(sends.lend(index).len(), 3 * PROGRESS_BYTES - 100);
        sends.land(index);
        assert_eq!(sends.advance(index, 100), Advance::Little);
        assert_eq!(sends.advance(index, PROGRESS_BYTES), Advance::Step);
        assert_eq!(sends.rest(index).len(), 2 * PROGRESS_BYTES - 200);
        assert_eq!(sends.advance(index, 2 * PROGRESS_BYTES - 200), Advance::Whole);
        assert_eq!((sends.remove(index).len(), sends.in_flight()), (3 * PROGRESS_BYTES, 0));
        assert_eq!(sends.insert(Vec::new(), 0), index, "a place is used again");
    }

    #[test]
    #[should_panic(expected = "is with the kernel")]
    fn bytes_are_not_given_back_while_the_kernel_reads_them() {
        let mut sends = Sends::default();
        let index = sends.insert(vec![1; 100], 0);
        sends.lend(index);
        sends.remove(index);
    }
}
