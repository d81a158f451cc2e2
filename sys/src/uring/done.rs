//! The kernel's report of an operation.

use super::word::{Op, Word};
use io_uring::cqueue;

/// A completion.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The word that the operation was given.
    pub word: Word,
    /// The operation's result, or an errno as a negative number; for an accept the slot, for a
    /// departure the place in the receiving table.
    pub result: i32,
    /// Whether more completions of the operation follow.
    pub more: bool,
    /// Whether there was more to receive, or to accept.
    pub sock_nonempty: bool,
}

impl Done {
    /// From an entry of the table `number`, of `count`.
    pub(crate) fn of(entry: &cqueue::Entry, number: u32, count: u32) -> Done {
        let (word, mut result) = (Word(entry.user_data()), entry.result());
        if count > 1 && result >= 0 && word.op() == Op::Accept {
            result = result * count as i32 + number as i32;
        }
        let flags = entry.flags();
        Done { word, result, more: cqueue::more(flags), sock_nonempty: cqueue::sock_nonempty(flags) }
    }
}

const _: () = assert!(size_of::<Done>() == 16, "as large as what the kernel writes");
