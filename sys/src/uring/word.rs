//! The word that names an operation's completion.

/// The operation that a completion belongs to: the top byte of its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Op {
    /// The completion is ignored.
    None = 0,
    /// A connection was accepted into the table.
    Accept = 1,
    /// A link of the chain that makes a connection has failed.
    Link = 2,
    /// A connection is established, or failed.
    Connect = 3,
    /// Bytes, an end or an error has arrived.
    Poll = 4,
    /// Bytes are in the buffer.
    Receive = 5,
    /// The kernel has taken bytes.
    Send = 6,
    /// A place of the table is free.
    Close = 7,
    /// A socket has been put into another ring's table, at this place.
    Depart = 8,
    /// A socket that has departed is out of this ring's table.
    Left = 9,
    /// Another thread has woken this one.
    Wake = 10,
    /// Our direction has been closed.
    Shutdown = 11,
    /// The peer's address is in its room.
    PeerName = 12,
    /// Another table of the ring has completions; its number is in place of the slot.
    Table = 13,
}

/// The word of an operation: kind (8 bits), slot (24 bits), generation or index (32 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(pub u64);

impl Word {
    /// The word of an operation in `slot`, which is below 2^24.
    pub fn new(op: Op, slot: u32, low: u32) -> Word {
        debug_assert!(slot < 1 << 24);
        // The slot must not spill into the kind, which tells the ring whose memory is no longer
        // lent.
        Word((op as u64) << 56 | u64::from(slot & 0x00ff_ffff) << 32 | u64::from(low))
    }

    /// The kind.
    pub fn op(self) -> Op {
        const OPS: [Op; 14] = [
            Op::None,
            Op::Accept,
            Op::Link,
            Op::Connect,
            Op::Poll,
            Op::Receive,
            Op::Send,
            Op::Close,
            Op::Depart,
            Op::Left,
            Op::Wake,
            Op::Shutdown,
            Op::PeerName,
            Op::Table,
        ];
        OPS.get((self.0 >> 56) as usize).copied().unwrap_or(Op::None)
    }

    /// The slot.
    pub fn slot(self) -> u32 {
        (self.0 >> 32) as u32 & 0x00ff_ffff
    }

    /// The generation or index.
    pub fn low(self) -> u32 {
        self.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_was_put_into_it() {
        for number in 0..=13u8 {
            let word = Word::new(Word(u64::from(number) << 56).op(), 0x00ab_cdef, 0x8765_4321);
            assert_eq!((word.op() as u8, word.slot(), word.low()), (number, 0x00ab_cdef, 0x8765_4321));
        }
        assert_eq!(Word(14 << 56).op(), Op::None);
    }
}
