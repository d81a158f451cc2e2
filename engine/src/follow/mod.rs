//! Followers of logs, as data: how far a receiver has come, and how it gets what follows.
//!
//! A *log* is a sequence of numbered entries: a user's messages, the items of a node, the messages
//! of a room. Its store has the entries; the [`Head`] has the latest ones in memory while receivers
//! need them. A *follower* is a receiver with a position. At the head it gets an entry when it is
//! appended, with the payload that all others get. Behind the head it reads pages from the store,
//! at its own pace, and delays nobody. A log thus needs no queue per receiver.
//!
//! [`Receivers`] distributes an entry to many: they are grouped by shard first, and each shard gets
//! one letter with the payload once.
//!
//! This module knows numbers. How an entry is written for a receiver is up to the caller, which
//! hands out entries one by one: a message with its stamps, a notification (XEP-0060 7.1.2), or an
//! item in the words of a dialect. [Decision 65](../../../docs/decisions/0065-one-follower.md)
//! names the logs and what they do not share.

mod head;
mod page;
mod receivers;

pub use head::Head;
pub use page::Page;
pub use receivers::{BETWEEN, Receivers, names};

/// How a follower gets the next entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Standing {
    /// It gets the next entry when it is appended.
    Head,
    /// It has not got all entries, and no read is in progress for it.
    Behind,
    /// The entries after its position are being read, by the question with this number.
    Asked(Number),
}

/// The number of a question. It has no alignment, which keeps [`Follower`] small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Number([u8; 4]);

/// The position of a receiver in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Follower {
    /// The receiver has got all entries up to this number, or they are not for it; valid once
    /// `known`.
    pub at: u64,
    /// How it gets the next ones.
    pub standing: Standing,
    /// Whether the position is known. Otherwise the receiver wants entries from the end of the log
    /// on.
    pub known: bool,
    /// Entries after the position are missing, and the receiver has not been notified.
    pub gap: bool,
}

impl Default for Follower {
    fn default() -> Follower {
        Follower::at_head(0)
    }
}

const _: () = assert!(size_of::<Follower>() <= 16, "each log of a receiver costs this much");

impl Follower {
    /// A follower that has got everything up to this number, and gets the next entry when it is
    /// appended.
    pub const fn at_head(at: u64) -> Follower {
        Follower { at, standing: Standing::Head, known: true, gap: false }
    }

    /// A follower that has to read what comes after this number.
    pub const fn behind(at: u64) -> Follower {
        Follower { standing: Standing::Behind, ..Follower::at_head(at) }
    }

    /// Whether it gets the next entry when it is appended.
    pub fn is_at_head(&self) -> bool {
        self.standing == Standing::Head
    }

    /// Whether it has to read, and no read is in progress.
    pub fn is_behind(&self) -> bool {
        self.standing == Standing::Behind
    }

    /// Whether a read is in progress.
    pub fn is_asking(&self) -> bool {
        self.asked().is_some()
    }

    /// The number of the read in progress.
    pub fn asked(&self) -> Option<u32> {
        match self.standing {
            Standing::Asked(Number(number)) => Some(u32::from_ne_bytes(number)),
            Standing::Head | Standing::Behind => None,
        }
    }

    /// Whether the read in progress has this number.
    pub fn has_asked(&self, number: u32) -> bool {
        self.asked() == Some(number)
    }

    /// A read has begun.
    pub fn ask(&mut self, number: u32) {
        self.standing = Standing::Asked(Number(number.to_ne_bytes()));
    }

    /// It reads from now on: it cannot take more at present, has missed an entry, or its read has
    /// ended without reaching the head.
    pub fn fall_behind(&mut self) {
        self.standing = Standing::Behind;
    }

    /// The entry with this number did not reach it: it has to read from there. Entries that were
    /// missed before stay missed.
    pub fn miss(&mut self, number: u64) {
        let at = number.saturating_sub(1);
        self.at = if self.is_at_head() { at } else { self.at.min(at) };
        self.fall_behind();
    }

    /// It has got everything up to this number. Positions never go back.
    pub fn has(&mut self, number: u64) {
        self.at = self.at.max(number);
    }

    /// A page has brought it up to this number. It is at the head unless there is `more`.
    pub fn read(&mut self, upto: u64, more: bool) {
        self.at = upto;
        self.standing = if more { Standing::Behind } else { Standing::Head };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_reads_until_it_is_at_the_head() {
        let mut follower = Follower::behind(3);
        follower.ask(7);
        assert!(follower.is_asking() && follower.has_asked(7) && !follower.has_asked(8));
        follower.read(10, true);
        assert!(follower.is_behind() && follower.at == 10);
        follower.ask(8);
        follower.fall_behind();
        assert_eq!(follower, Follower::behind(10), "the answer was lost");
        follower.read(12, false);
        assert_eq!(follower, Follower::at_head(12));
        follower.has(11);
        assert_eq!(follower.at, 12);
    }

    #[test]
    fn the_first_entry_that_was_missed_is_where_it_goes_on() {
        let mut follower = Follower::at_head(0);
        for number in [5, 7, 4] {
            follower.miss(number);
        }
        assert_eq!(follower, Follower::behind(3));
    }
}
