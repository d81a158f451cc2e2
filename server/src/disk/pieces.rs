//! A damaged segment of the journal: its intact groups, and the gaps between them.
//!
//! Groups are trusted by their checksums, which are seeded with the segment's salt. If the
//! segment's head cannot be read, candidate salts are tried: the one present, each with one bit
//! flipped, and the one that the number of the first group implies. A salt is right if the first
//! group's checksum matches.

use std::ops::Range;

use super::group;
use super::segment::{GROUP_HEAD_BYTES, HEAD_BYTES, Head, group_at};

/// A note about the users named for a damaged group.
pub(super) const GUESSED: &str = "users are named where they can still be read; there may be others";

/// The readable parts of a segment.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Operations of its intact groups, in order.
    pub(super) groups: Vec<Range<usize>>,
    /// Unreadable parts.
    pub(super) lost: Vec<Lost>,
    /// Its head, as read or as reconstructed.
    pub(super) head: Option<Head>,
    /// Sequence number of the group after the last one.
    pub(super) next: Option<u64>,
    /// Whether nothing was ever written in it as a segment of this number.
    pub(super) unwritten: bool,
}

/// An unreadable part of a segment.
#[derive(Debug)]
pub(super) struct Lost {
    /// Its offset, bytes.
    pub(super) at: usize,
    /// Its length, bytes.
    pub(super) bytes: usize,
    /// A description.
    pub(super) what: String,
    /// The affected actors, as far as they can be guessed from the content.
    pub(super) actors: Vec<Vec<u8>>,
    /// Whether it may be a group that was being written when the power failed: then nothing
    /// acknowledged is lost.
    pub(super) may_be_torn: bool,
}

/// Parses the segment with this number; `expected` is the number of its first group, if known.
pub(super) fn pieces(bytes: &[u8], number: u64, expected: Option<u64>) -> Pieces {
    let mut found = Pieces { next: expected, ..Pieces::default() };
    let head = match Head::decode(bytes) {
        // Created, with nothing acknowledged in it: its head is synced with its first group.
        None if bytes.iter().take(HEAD_BYTES).all(|byte| *byte == 0) => {
            found.unwritten = true;
            return found;
        }
        None => match guessed(bytes, expected) {
            Some((salt, first)) => {
                found.lose(0, HEAD_BYTES, "the segment's header is damaged; no group is lost".into());
                Head { number, salt, first }
            }
            None => {
                found.lose(0, bytes.len(), "the segment's header and its first group are damaged".into());
                return found;
            }
        },
        // A file prepared for reuse.
        Some(head) if head.number < number => {
            found.unwritten = true;
            return found;
        }
        Some(head) if head.number > number => {
            found.lose(0, bytes.len(), format!("it is segment {}", head.number));
            return found;
        }
        Some(head) => head,
    };
    found.head = Some(head);
    let (mut at, mut next) = (HEAD_BYTES, head.first);
    loop {
        while let Some(group) = group_at(bytes, at, head.salt, next) {
            at = group.end;
            next = next.wrapping_add(1);
            found.groups.push(group);
        }
        found.next = Some(next);
        let later = (at + 1..bytes.len()).find_map(|at| {
            let sequence = u64_at(bytes, at + 8)? ^ head.salt;
            // There are no more groups than bytes: nearly every offset is rejected without a
            // checksum.
            (1..=bytes.len() as u64).contains(&sequence.wrapping_sub(next)).then_some(())?;
            group_at(bytes, at, head.salt, sequence).map(|_| (at, sequence))
        });
        // A flipped bit in its number is damage, too: the file's old content has numbers that are
        // far away.
        let begun = u64_at(bytes, at + 8).is_some_and(|masked| (masked ^ head.salt ^ next).count_ones() <= 1);
        let (until, sequence) = match later {
            Some((until, sequence)) => (until, sequence),
            None if begun => {
                let end = group_end(bytes, at);
                let what = match end > bytes.len() {
                    true => {
                        "the file ends within a group: it was truncated, with any groups that \
                         followed, or the power failed before this group was acknowledged"
                    }
                    false => {
                        "the last group is incomplete: it is damaged, or the power failed before \
                         it was acknowledged"
                    }
                };
                let end = end.min(bytes.len());
                found.lose(at, end - at, format!("{what}; {GUESSED}"));
                found.name(&bytes[at..end]);
                found.lost.iter_mut().last().expect("just noted").may_be_torn = true;
                return found;
            }
            None => return found,
        };
        let groups = sequence.wrapping_sub(next);
        found.lose(at, until - at, format!("{groups} groups are damaged; {GUESSED}"));
        found.name(&bytes[at..until]);
        (at, next) = (until, sequence);
    }
}

impl Pieces {
    fn lose(&mut self, at: usize, bytes: usize, what: String) {
        self.lost.push(Lost { at, bytes, what, actors: Vec::new(), may_be_torn: false });
    }

    /// Guesses the actors of damaged groups.
    fn name(&mut self, bytes: &[u8]) {
        let Some(lost) = self.lost.last_mut() else { return };
        for placed in group::operations(bytes.get(GROUP_HEAD_BYTES..).unwrap_or_default()).map_while(|placed| placed) {
            let actor = placed.op.actor();
            if std::str::from_utf8(actor).is_ok() && !lost.actors.iter().any(|other| other == actor) {
                lost.actors.push(actor.to_vec());
            }
        }
    }
}

/// The end of the group at `at`, according to its head.
fn group_end(bytes: &[u8], at: usize) -> usize {
    let length = bytes
        .get(at + 16..at + 20)
        .map_or(0, |length| u32::from_le_bytes(length.try_into().expect("four bytes")) as usize);
    at.saturating_add(GROUP_HEAD_BYTES).saturating_add(length)
}

/// The salt of a segment with an unreadable head, and the number of its first group.
fn guessed(bytes: &[u8], expected: Option<u64>) -> Option<(u64, u64)> {
    let (salt, masked) = (u64_at(bytes, 16)?, u64_at(bytes, HEAD_BYTES + 8)?);
    let turned = (0..64).map(|bit| salt ^ (1 << bit));
    let salts = std::iter::once(salt).chain(expected.map(|expected| masked ^ expected)).chain(turned);
    let first = |salt: u64| masked ^ salt;
    salts.map(|salt| (salt, first(salt))).find(|&(salt, first)| group_at(bytes, HEAD_BYTES, salt, first).is_some())
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
