//! One file of the journal: its format, and how the traces of a power cut are distinguished from
//! damage.
//!
//! ```text
//! head   "THRONGJL", number u64, salt u64, sequence number of its first group u64, XXH3 of these u64
//! group  XXH3 of what follows, seeded with the salt, u64; sequence number, masked with the salt,
//!        u64; bytes u32; operations (`group`)
//! ...    the previous content: files are reused
//! ```
//!
//! All integers are little endian. Each group is synced before the next one is written, so at most
//! the last group can be torn; it was never acknowledged, and the segment ends before it. If an
//! intact group follows a broken one, acknowledged data is damaged. The salt is new for each
//! segment: groups of a file's earlier use have another one, and the author of a message cannot
//! forge bytes that look like a group.

use std::ops::Range;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: &[u8; 8] = b"THRONGJL";

/// Bytes of a segment before its first group.
pub const HEAD_BYTES: usize = 40;

/// Bytes of a group before its operations.
pub const GROUP_HEAD_BYTES: usize = 20;

/// The head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Segments are numbered in order.
    pub number: u64,
    /// Seed of the groups' checksums.
    pub salt: u64,
    /// Sequence number of the first group. Groups are numbered consecutively across segments.
    pub first: u64,
}

impl Head {
    /// Its encoding.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..8].copy_from_slice(MAGIC);
        for (at, number) in [self.number, self.salt, self.first].into_iter().enumerate() {
            out[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = xxh3_64(&out[..32]);
        out[32..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Head> {
        let head = bytes.get(..HEAD_BYTES)?;
        let sound = &head[..8] == MAGIC && u64_at(head, 32)? == xxh3_64(&head[..32]);
        sound.then_some(Head { number: u64_at(head, 8)?, salt: u64_at(head, 16)?, first: u64_at(head, 24)? })
    }
}

/// Fills in the head of a group: `group` has room for it, followed by the operations.
pub fn seal(group: &mut [u8], salt: u64, sequence: u64) {
    let length = u32::try_from(group.len() - GROUP_HEAD_BYTES).expect("a group stays below 4 GiB");
    group[8..16].copy_from_slice(&(sequence ^ salt).to_le_bytes());
    group[16..20].copy_from_slice(&length.to_le_bytes());
    let checksum = xxh3_64_with_seed(&group[8..], salt);
    group[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// The content of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its head.
    pub head: Head,
    /// Operations of its groups, in order.
    pub groups: Vec<Range<usize>>,
    /// The end of the last intact group.
    pub end: usize,
    /// Whether another group was begun after it.
    pub torn: bool,
}

/// Where a segment is damaged, and the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// First unreadable byte.
    pub at: usize,
    /// A description.
    pub what: &'static str,
}

/// Reads a segment with this number; `None` if nothing has been acknowledged in it.
///
/// # Errors
/// [`Damage`] to something that may have been acknowledged.
pub fn read(bytes: &[u8], number: u64) -> Result<Option<Segment>, Damage> {
    let Some(head) = Head::decode(bytes) else {
        // The head is synced with the first group: until then it may be missing.
        let unwritten = bytes.len() < HEAD_BYTES || bytes[..HEAD_BYTES].iter().all(|byte| *byte == 0);
        return if unwritten { Ok(None) } else { Err(Damage { at: 0, what: "its head cannot be read" }) };
    };
    if head.number < number {
        // A file prepared for reuse.
        return Ok(None);
    }
    if head.number > number {
        return Err(Damage { at: 0, what: "it is another segment" });
    }
    let mut segment = Segment { head, groups: Vec::new(), end: HEAD_BYTES, torn: false };
    while let Some(group) = group_at(bytes, segment.end, head.salt, segment.next()) {
        segment.end = group.end;
        segment.groups.push(group);
    }
    let rest = segment.end + 1..bytes.len();
    if rest.clone().any(|at| later_group_at(bytes, at, &segment)) {
        return Err(Damage { at: segment.end, what: "acknowledged groups follow" });
    }
    segment.torn = u64_at(bytes, segment.end + 8).is_some_and(|number| number ^ head.salt == segment.next());
    Ok(Some(segment))
}

impl Segment {
    /// Sequence number of the group after its last.
    pub fn next(&self) -> u64 {
        self.head.first.wrapping_add(self.groups.len() as u64)
    }
}

/// The operations of the group at `at`, if it is intact and has this number.
pub(super) fn group_at(bytes: &[u8], at: usize, salt: u64, sequence: u64) -> Option<Range<usize>> {
    let start = at + GROUP_HEAD_BYTES;
    if u64_at(bytes, at + 8)? ^ salt != sequence {
        return None;
    }
    let length = u32::from_le_bytes(bytes.get(at + 16..start)?.try_into().ok()?);
    let end = start.checked_add(length as usize)?;
    let checksum = xxh3_64_with_seed(bytes.get(at + 8..end)?, salt);
    (u64_at(bytes, at)? == checksum).then_some(start..end)
}

/// Whether an intact group of this segment, later than its last readable one, is at `at`.
fn later_group_at(bytes: &[u8], at: usize, segment: &Segment) -> bool {
    later_number_at(bytes, at, segment)
        .is_some_and(|sequence| group_at(bytes, at, segment.head.salt, sequence).is_some())
}

/// The sequence number at `at`, if it may be a later group's: there are no more groups than bytes.
/// Nearly every offset is thus rejected without a checksum. User-chosen content of the file's
/// earlier groups cannot defeat this: users can guess sequence numbers, to force checksums of
/// megabytes, but do not know the mask.
fn later_number_at(bytes: &[u8], at: usize, segment: &Segment) -> Option<u64> {
    let sequence = u64_at(bytes, at + 8)? ^ segment.head.salt;
    (1..=bytes.len() as u64).contains(&sequence.wrapping_sub(segment.next())).then_some(sequence)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_behind_whole_groups_are_read_without_a_fault(
            lengths in prop::collection::vec(0_usize..60, 0..4),
            odd in prop::collection::vec(any::<u8>(), 0..200),
            number in 6_u64..9,
        ) {
            let (mut bytes, ends) = written(&lengths);
            bytes.extend_from_slice(&odd);
            match read(&bytes, number) {
                Ok(Some(segment)) => {
                    prop_assert_eq!(number, 7);
                    prop_assert_eq!(segment.groups.len(), lengths.len());
                    prop_assert_eq!(segment.end, ends.last().copied().unwrap_or(HEAD_BYTES));
                }
                Ok(None) => prop_assert_eq!(number, 8),
                Err(_) => prop_assert_eq!(number, 6),
            }
        }
    }

    const HEAD: Head = Head { number: 7, salt: 0x1234_5678_9abc_def0, first: 100 };

    /// A segment with groups of these lengths, and the offset of each end.
    fn written(lengths: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = HEAD.encode().to_vec();
        let mut ends = Vec::new();
        for (at, length) in lengths.iter().enumerate() {
            let mut group = vec![at as u8; GROUP_HEAD_BYTES + length];
            seal(&mut group, HEAD.salt, HEAD.first + at as u64);
            bytes.extend_from_slice(&group);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_last_group_torn_at_any_byte_is_cut_and_the_ones_before_stay() {
        let (whole, ends) = written(&[50, 0, 300, 120]);
        let before = ends[2];
        assert_eq!(read(&whole, 7).unwrap().unwrap().groups.len(), 4);
        for at in before..whole.len() {
            // Nothing after it; zeros after it; zeros within it; and the file's old content.
            let mut zeros = whole.clone();
            zeros[at..].fill(0);
            zeros.resize(2000, 0);
            let mut hole = whole.clone();
            let until = (at + 16).min(hole.len());
            hole[at..until].fill(0);
            let mut used = vec![0xa5; 3000];
            used[..at].copy_from_slice(&whole[..at]);
            for torn in [&whole[..at], &zeros, &hole, &used] {
                // Zeros that overwrite zeros tear nothing.
                let expected = if torn.starts_with(&whole) { 4 } else { 3 };
                let segment = read(torn, 7).unwrap().unwrap();
                assert_eq!(segment.groups.len(), expected, "torn at {at}");
                assert_eq!(segment.end, ends[expected - 1]);
            }
        }
    }

    #[test]
    fn a_flipped_bit_before_the_last_group_is_damage_and_nothing_is_cut() {
        let (whole, ends) = written(&[50, 0, 300, 120]);
        for at in 0..ends[2] {
            for bit in 0..8 {
                let mut broken = whole.clone();
                broken[at] ^= 1 << bit;
                let found = read(&broken, 7);
                let start = ends.iter().rev().find(|end| **end <= at).copied().unwrap_or(HEAD_BYTES);
                let start = if at < HEAD_BYTES { 0 } else { start };
                assert_eq!(found.expect_err("refused").at, start, "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn what_a_file_held_before_is_no_part_of_it() {
        let (old, _) = written(&[500, 500]);
        // Reused, and the head not durable yet.
        assert_eq!(read(&old, 8), Ok(None));
        assert_eq!(read(&[], 8), Ok(None));
        assert_eq!(read(&[0; 4096], 8), Ok(None));
        assert_eq!(read(&HEAD.encode()[..20], 8), Ok(None));
        assert!(read(&old, 6).is_err(), "a later segment has taken its name");
        // The new head and one group over the old ones; even the sequence numbers continue.
        let head = Head { number: 8, salt: 99, first: 100 };
        let mut bytes = old.clone();
        bytes[..HEAD_BYTES].copy_from_slice(&head.encode());
        assert!(read(&bytes, 8).unwrap().unwrap().groups.is_empty());
        let mut group = vec![1; GROUP_HEAD_BYTES + 10];
        seal(&mut group, head.salt, 100);
        bytes[HEAD_BYTES..HEAD_BYTES + group.len()].copy_from_slice(&group);
        assert_eq!(read(&bytes, 8).unwrap().unwrap().groups.len(), 1);
    }

    #[test]
    fn guessed_heads_in_what_a_file_held_before_cost_no_checksum() {
        let (mut bytes, ends) = written(&[50, 300]);
        let next = HEAD.first + ends.len() as u64;
        for guess in next..next + 50_000 {
            bytes.extend_from_slice(&[0; 8]);
            bytes.extend_from_slice(&guess.to_le_bytes());
            bytes.extend_from_slice(&400_000_u32.to_le_bytes());
        }
        let segment = read(&bytes, 7).unwrap().unwrap();
        assert_eq!((segment.groups.len(), segment.torn), (2, false));
        assert_eq!((segment.end..bytes.len()).find(|at| later_number_at(&bytes, *at, &segment).is_some()), None);
    }
}
