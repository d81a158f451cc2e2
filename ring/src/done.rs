//! What the kernel tells of an operation.

use crate::word::{Op, Word};
use io_uring::cqueue;

/// A completion.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The word that the operation was given.
    pub word: Word,
    /// What the operation answers, or an errno as a negative number; of an accept or an arrival the slot.
    pub result: i32,
    flags: u32,
}

impl Done {
    /// An entry of the table `number`, of `count`.
    pub(crate) fn of(entry: &cqueue::Entry, number: u32, count: u32) -> Done {
        let (word, mut result) = (Word(entry.user_data()), entry.result());
        if count > 1 && result >= 0 && matches!(word.op(), Op::Accept | Op::Arrive) {
            result = result * count as i32 + number as i32;
        }
        Done { word, result, flags: entry.flags() }
    }

    /// Whether more completions of the operation come.
    pub fn more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// Whether there was more to receive, or to accept.
    pub fn sock_nonempty(&self) -> bool {
        cqueue::sock_nonempty(self.flags)
    }
}
