//! Memory that operations of a ring work on. It belongs to the kernel until the operation has
//! completed.

use std::net::SocketAddr;

use super::done::Done;
use super::word::Op;
use crate::calls::NameRoom;
use crate::sends::Sends;

/// The bytes being sent, the receive buffer, and the rooms for peer addresses of accepts.
///
/// Lent memory cannot be accessed until the operation has landed, and is leaked if this is dropped
/// before. A cancelled operation may still be running in a kernel thread, whatever the kernel
/// answers.
#[derive(Default)]
pub struct Lent {
    /// The sends.
    pub sends: Sends,
    buffer: Box<[u8]>,
    /// Bytes of the buffer per receive of the present batch.
    share: usize,
    /// Which shares are lent.
    receives: Vec<bool>,
    receiving: usize,
    rooms: Vec<Room>,
}

#[derive(Default)]
struct Room {
    /// On the heap and never moved.
    name: Box<NameRoom>,
    lent: bool,
}

impl Lent {
    /// Size of the buffer in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Resizes the buffer.
    ///
    /// # Panics
    /// If a receive is in progress.
    pub fn set_buffer_bytes(&mut self, bytes: usize) {
        assert_eq!(self.receiving, 0, "the buffer is with the kernel");
        if self.buffer.len() != bytes {
            self.buffer = vec![0; bytes].into_boxed_slice();
        }
    }

    /// Divides the buffer for a batch of `count` receives, into shares of at most `most` bytes.
    /// Returns the bytes of a share.
    ///
    /// # Panics
    /// If a receive is in progress, or `count` is 0.
    pub fn divide(&mut self, count: usize, most: usize) -> usize {
        assert_eq!(self.receiving, 0, "the buffer is with the kernel");
        self.share = (self.buffer.len() / count).min(most);
        self.receives.resize(count, false);
        self.share
    }

    /// Number of receives in progress.
    pub fn receiving(&self) -> usize {
        self.receiving
    }

    /// Lends the share with this number to a receive.
    ///
    /// # Panics
    /// If there is no such share, or it is already lent.
    pub fn lend_share(&mut self, number: u32) -> &mut [u8] {
        let lent = std::mem::replace(&mut self.receives[number as usize], true);
        assert!(!lent, "the share {number} is with the kernel already");
        self.receiving += 1;
        let start = number as usize * self.share;
        &mut self.buffer[start..start + self.share]
    }

    /// The first `count` bytes of a share: the result of its receive.
    ///
    /// # Panics
    /// If the share is lent, or is smaller.
    pub fn received(&mut self, number: u32, count: usize) -> &mut [u8] {
        assert!(!self.receives[number as usize] && count <= self.share, "the share {number} is with the kernel");
        let start = number as usize * self.share;
        &mut self.buffer[start..start + count]
    }

    /// Lends the room with this number, emptied, to an accept.
    ///
    /// # Panics
    /// If it is already lent.
    pub fn lend_room(&mut self, number: u32) -> &mut NameRoom {
        let number = number as usize;
        if self.rooms.len() <= number {
            self.rooms.resize_with(number + 1, Room::default);
        }
        let room = &mut self.rooms[number];
        assert!(!std::mem::replace(&mut room.lent, true), "the room {number} is with the kernel already");
        *room.name = NameRoom::default();
        &mut room.name
    }

    /// The address in a room, if it is an internet address.
    ///
    /// # Panics
    /// If the room is lent.
    pub fn address(&self, number: u32) -> Option<SocketAddr> {
        let room = &self.rooms[number as usize];
        assert!(!room.lent, "the room {number} is with the kernel");
        room.name.name.address()
    }

    /// Writes an address to a room, as the kernel does.
    ///
    /// # Panics
    /// If the room is lent.
    pub fn set_address(&mut self, number: u32, address: SocketAddr) {
        let room = &mut self.rooms[number as usize];
        assert!(!room.lent, "the room {number} is with the kernel");
        room.name.name = address.into();
    }

    /// Ends the loan to an operation that has completed.
    pub fn land(&mut self, done: &Done) {
        let number = done.word.low();
        match done.word.op() {
            Op::Send => self.sends.land(number),
            Op::Receive => {
                let lent = std::mem::replace(&mut self.receives[number as usize], false);
                self.receiving -= usize::from(lent);
            }
            Op::Accept => self.rooms[number as usize].lent = false,
            _ => {}
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.receiving > 0 {
            std::mem::forget(std::mem::take(&mut self.buffer));
        }
        self.rooms.drain(..).filter(|room| room.lent).for_each(|room| std::mem::forget(room.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uring::Word;

    fn done(op: Op, number: u32) -> Done {
        Done { word: Word::new(op, 0, number), result: 0, more: false, sock_nonempty: false }
    }

    /// A worker of the kernel may still copy a send, or write to the room of an accept, after the
    /// ring is gone: their memory must not be reused as long as the process lives.
    #[test]
    fn what_the_kernel_may_still_use_is_never_given_back() {
        const BYTES: usize = 100_000;
        let mut lent = Lent::default();
        lent.set_buffer_bytes(BYTES);
        lent.divide(2, BYTES);
        let send = lent.sends.insert(vec![1; BYTES], 0);
        let bytes = lent.sends.lend(send).as_ptr();
        let (share, room) = (lent.lend_share(0).as_ptr(), &raw const *lent.lend_room(3));
        drop(lent);
        // Memory that was freed is most likely returned for an allocation of the same size.
        let others: Vec<Vec<u8>> = (0..64).map(|_| vec![2; BYTES]).collect();
        assert!(others.iter().all(|other| other.as_ptr() != bytes), "the memory of the send was given back");
        assert!(others.iter().all(|other| other.as_ptr() != share), "the buffer was given back");
        let rooms: Vec<Box<NameRoom>> = (0..1024).map(|_| Box::default()).collect();
        assert!(rooms.iter().all(|other| !std::ptr::eq(&raw const **other, room)), "the accept's room was given back");
    }

    #[test]
    fn what_has_landed_can_be_reached() {
        let mut lent = Lent::default();
        lent.set_buffer_bytes(100);
        assert_eq!(lent.divide(3, 40), 33);
        lent.lend_share(1).fill(7);
        assert_eq!(lent.receiving(), 1);
        lent.land(&done(Op::Receive, 1));
        assert_eq!(lent.receiving(), 0);
        assert_eq!(lent.received(1, 20), [7; 20]);
        lent.lend_room(0);
        lent.land(&done(Op::Accept, 0));
        for address in ["127.0.0.1:4000", "[::1]:5222"] {
            lent.set_address(0, address.parse().expect("an address"));
            assert_eq!(lent.address(0).map(|address| address.to_string()).as_deref(), Some(address));
        }
    }

    #[test]
    #[should_panic(expected = "is with the kernel")]
    fn bytes_are_not_read_while_the_kernel_writes_them() {
        let mut lent = Lent::default();
        lent.set_buffer_bytes(100);
        lent.divide(1, 100);
        lent.lend_share(0);
        lent.received(0, 1);
    }

    #[test]
    #[should_panic(expected = "the buffer is with the kernel")]
    fn the_buffer_is_not_replaced_while_the_kernel_writes_to_it() {
        let mut lent = Lent::default();
        lent.set_buffer_bytes(100);
        lent.divide(1, 100);
        lent.lend_share(0);
        lent.set_buffer_bytes(200);
    }
}
