//! The flat form of a key, the same for every storage engine.
//!
//! ```text
//! table u8 | partition u16 big endian | mix u8 | actor | NUL | sort key
//! ```
//!
//! An actor is a bare JID. Its partition (`id::partition`) precedes it, with one more byte of its
//! hash. All rows of a table that belong to one partition are therefore one range, and all rows of
//! an actor are one range within it: a partition can be counted, listed and handed over without
//! reading any other. An actor cannot contain a NUL (RFC 7622 3.3, RFC 5892), so its rows are
//! contiguous, and no row of an actor with a longer name falls between them.
//!
//! With the mix byte, keys of different actors nearly always differ within their first four bytes.
//! Keys are compared again and again while tables are written and merged. An engine that stores the
//! first four bytes of a key beside its pointer need not follow the pointer.
//!
//! Rows that belong to no actor, which are facts of the store itself ([`Table::Meta`]), have an
//! empty actor and the partition [`NOBODY`], after all others: they are not handed over with any
//! partition.

use std::ops::Range;

use super::Table;
use crate::id::{self, PARTITIONS};
use crate::limits::{NODE_ID_BYTES_MAX, NODE_NAME_BYTES_MAX, PRIVATE_KEY_BYTES_MAX};

/// Takes the place of a partition in the keys of rows that belong to no actor.
pub const NOBODY: u16 = u16::MAX;

const _: () = assert!(PARTITIONS < NOBODY, "no partition has the number of nobody's rows");

/// Bytes before the actor.
const HEAD_BYTES: usize = 4;

/// Maximum length of an actor in bytes: localpart, `@`, domainpart (RFC 7622 3.2, 3.3: 1,023 bytes
/// each).
pub const ACTOR_BYTES_MAX: usize = 1023 + 1 + 1023;

/// Maximum length of a sort key in bytes: a bare JID, or a namespace and a name.
pub const SORT_KEY_BYTES_MAX: usize = 2304;

const _: () = assert!(1 + NODE_NAME_BYTES_MAX + 1 + NODE_ID_BYTES_MAX <= SORT_KEY_BYTES_MAX);
const _: () = assert!(PRIVATE_KEY_BYTES_MAX < SORT_KEY_BYTES_MAX);

/// The part of an actor's keys between table and name.
fn place(actor: &[u8]) -> [u8; HEAD_BYTES - 1] {
    let (partition, mix) = if actor.is_empty() { (NOBODY, 0) } else { id::place(actor) };
    let [high, low] = partition.to_be_bytes();
    [high, low, mix]
}

/// Appends the flat key of a row to `out`.
pub fn encode(out: &mut Vec<u8>, table: Table, actor: &[u8], sort: &[u8]) {
    debug_assert!(!actor.contains(&0), "an actor holds no NUL");
    debug_assert!(actor.len() <= ACTOR_BYTES_MAX && sort.len() <= SORT_KEY_BYTES_MAX);
    out.reserve(HEAD_BYTES + actor.len() + 1 + sort.len());
    out.push(table as u8);
    out.extend_from_slice(&place(actor));
    out.extend_from_slice(actor);
    out.push(0);
    out.extend_from_slice(sort);
}

/// Splits a flat key into table, actor and sort key. `None` if it is malformed.
pub fn decode(key: &[u8]) -> Option<(Table, &[u8], &[u8])> {
    let (&[number, ..], rest) = key.split_first_chunk::<HEAD_BYTES>()?;
    let table = Table::from_number(number)?;
    let nul = memchr::memchr(0, rest)?;
    Some((table, &rest[..nul], &rest[nul + 1..]))
}

/// Whether a flat key is in the range of its actor's rows; false if [`decode`] rejects it.
pub fn is_in_place(key: &[u8]) -> bool {
    decode(key).is_some_and(|(_, actor, _)| key.get(1..HEAD_BYTES) == Some(&place(actor)[..]))
}

/// The range of flat keys that contains exactly the rows of a partition in a table.
pub fn partition_range(table: Table, partition: u16) -> Range<Vec<u8>> {
    let at = |partition: u16| [&[table as u8], &partition.to_be_bytes()[..]].concat();
    match partition.checked_add(1) {
        Some(next) => at(partition)..at(next),
        None => at(partition)..vec![table as u8 + 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::partition;

    fn key(table: Table, actor: &str, sort: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, table, actor.as_bytes(), sort);
        out
    }

    /// Actors of one partition; the name of the first is a prefix of all others.
    fn neighbours() -> Vec<String> {
        let longer = (0..).flat_map(|n| ["", "\u{1}", "é"].map(|more| format!("a@x{more}{n}")));
        let together = longer.filter(|name| partition(name) == partition("a@x"));
        ["a@x".to_owned()].into_iter().chain(together.take(6)).collect()
    }

    #[test]
    fn rows_of_an_actor_stand_together() {
        let sorts: [&[u8]; 4] = [&[], &[0], &[1; 8], &[0xff; 8]];
        for table in Table::ALL {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            for actor in neighbours().iter().map(String::as_str).chain(["b@x", "b@xy"]) {
                keys.extend(sorts.map(|sort| key(table, actor, sort)));
            }
            keys.sort();
            let actor = |key: &Vec<u8>| decode(key).unwrap().1.to_vec();
            for rows in keys.chunks(sorts.len()) {
                assert!(rows.iter().all(|row| actor(row) == actor(&rows[0])));
                assert!(rows.iter().map(|row| decode(row).unwrap().2).eq(sorts), "in the order of their sort keys");
            }
        }
    }

    #[test]
    fn a_partition_is_one_range_of_each_table() {
        let mut keys = Vec::new();
        for table in Table::ALL {
            keys.push(key(table, "", b"fact"));
            for user in 0..2000 {
                let jid = format!("user{user}@x");
                keys.extend([1u64, u64::MAX].map(|id| key(table, &jid, &id.to_be_bytes())));
            }
        }
        keys.sort();
        assert!(keys.iter().all(|key| is_in_place(key)));
        let mut within = 0;
        for table in Table::ALL {
            for number in (0..PARTITIONS).chain([NOBODY]) {
                let range = partition_range(table, number);
                assert!(range.start < range.end);
                let rows = keys.iter().filter(|key| range.contains(*key));
                within += rows.clone().count();
                let at = |key: &Vec<u8>| {
                    let (of, actor, _) = decode(key).unwrap();
                    (of, if actor.is_empty() { NOBODY } else { partition(actor) })
                };
                assert!(rows.map(at).all(|found| found == (table, number)));
            }
        }
        assert_eq!(within, keys.len(), "each row is in one of them");
    }

    #[test]
    fn what_is_no_key_is_told() {
        let whole = key(Table::Archive, "a@x", &[0, 1]);
        assert_eq!(whole[..1], [Table::Archive as u8]);
        assert_eq!(whole[1..3], partition("a@x").to_be_bytes());
        assert_eq!(decode(&whole), Some((Table::Archive, &b"a@x"[..], &[0, 1][..])));
        for cut in 0..whole.len() - 2 {
            assert_eq!(decode(&whole[..cut]), None, "cut at {cut}");
        }
        let mut other = whole.clone();
        other[0] = Table::ALL.len() as u8;
        assert_eq!(decode(&other), None, "of no table");
        other[0] = Table::Roster as u8;
        for at in [2, 3] {
            other[at] ^= 1;
            assert!(decode(&other).is_some() && !is_in_place(&other), "of another place");
            other[at] ^= 1;
        }
        assert!(is_in_place(&key(Table::Meta, "", b"format")) && !is_in_place(b""));
        assert_eq!(key(Table::Meta, "", b"format"), b"\0\xff\xff\0\0format");
    }
}
