//! The one flat form of a key, the same for every storage engine: table number, place, partition key, NUL, sort key.
//!
//! Partition keys are bare JIDs, which cannot hold a NUL (RFC 7622 3.3, RFC 5892), so keys of one partition are
//! contiguous and keys of a longer name never fall between them.
//!
//! Only rows of messages have a place, three bytes of the JID's hash that begin with the number of its home's partition:
//! there are many of them, engines compare their keys again and again while they sort them in, and keys of different
//! users differ early so (an engine that keeps the first four bytes of a key beside its pointer need not follow it). And
//! all messages of one of the 4,096 partitions are contiguous.

use super::Table;
use crate::id::place;

/// Bytes of the place.
const PLACE_BYTES: usize = 3;

/// Longest partition key in bytes: localpart, `@`, domainpart (RFC 7622 3.2, 3.3: 1,023 bytes each).
pub const PARTITION_KEY_BYTES_MAX: usize = 1023 + 1 + 1023;

/// Longest sort key in bytes: a bare JID, or a namespace and a name.
pub const SORT_KEY_BYTES_MAX: usize = 2304;

/// Appends the flat key of a row to `out`.
pub fn encode(out: &mut Vec<u8>, table: Table, partition: &[u8], sort: &[u8]) {
    debug_assert!(!partition.contains(&0), "a partition key holds no NUL");
    debug_assert!(partition.len() <= PARTITION_KEY_BYTES_MAX && sort.len() <= SORT_KEY_BYTES_MAX);
    out.reserve(partition.len() + sort.len() + 2 + PLACE_BYTES);
    out.push(table as u8);
    if has_place(table) {
        out.extend_from_slice(&place(partition));
    }
    out.extend_from_slice(partition);
    out.push(0);
    out.extend_from_slice(sort);
}

fn has_place(table: Table) -> bool {
    matches!(table, Table::Archive | Table::Mailbox)
}

/// Takes a flat key apart again; `None` if it is not one.
pub fn decode(key: &[u8]) -> Option<(Table, &[u8], &[u8])> {
    let (&number, rest) = key.split_first()?;
    let table = Table::from_number(number)?;
    let rest = if has_place(table) { rest.get(PLACE_BYTES..)? } else { rest };
    let nul = memchr::memchr(0, rest)?;
    Some((table, &rest[..nul], &rest[nul + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_contiguous() {
        let key = |p: &str, s: &[u8]| {
            let mut out = Vec::new();
            encode(&mut out, Table::Roster, p.as_bytes(), s);
            out
        };
        let mut keys =
            [key("ab@x", &[1]), key("a@x", &[0xff; 8]), key("a@x", &[]), key("a@xy", &[0]), key("a@x", &[0; 8])];
        keys.sort();
        let partitions: Vec<_> = keys.iter().map(|k| decode(k).unwrap().1.to_vec()).collect();
        assert_eq!(partitions, [&b"a@x"[..], b"a@x", b"a@x", b"a@xy", b"ab@x"]);
    }

    #[test]
    fn messages_stand_by_their_homes() {
        let mut keys = Vec::new();
        for user in 0..1000 {
            for id in [1u64, 2, u64::MAX] {
                let (mut key, jid) = (Vec::new(), format!("user{user}@x"));
                encode(&mut key, Table::Archive, jid.as_bytes(), &id.to_be_bytes());
                keys.push(key);
            }
        }
        keys.sort();
        let partition = |key: &Vec<u8>| std::str::from_utf8(decode(key).unwrap().1).unwrap().to_owned();
        assert!(keys.chunks(3).all(|rows| rows.iter().all(|key| partition(key) == partition(&rows[0]))));
        assert!(keys.is_sorted_by_key(|key| crate::id::partition(&partition(key))));
        let sort = |key: &Vec<u8>| decode(key).unwrap().2.to_vec();
        assert_eq!(sort(&keys[1]), 2u64.to_be_bytes());
        assert_eq!(decode(&keys[0][..3]), None, "cut short");
    }
}
