//! The one flat form of a key, the same for every storage engine: table number, partition key, NUL, sort key.
//!
//! Partition keys are bare JIDs, which cannot hold a NUL (RFC 7622 3.3, RFC 5892), so keys of one partition are
//! contiguous and keys of a longer name never fall between them.

use super::Table;

/// Longest partition key in bytes: localpart, `@`, domainpart (RFC 7622 3.2, 3.3: 1,023 bytes each).
pub const PARTITION_KEY_BYTES_MAX: usize = 1023 + 1 + 1023;

/// Longest sort key in bytes: a bare JID, or a namespace and a name.
pub const SORT_KEY_BYTES_MAX: usize = 2304;

/// Appends the flat key of a row to `out`.
pub fn encode(out: &mut Vec<u8>, table: Table, partition: &[u8], sort: &[u8]) {
    debug_assert!(!partition.contains(&0), "a partition key holds no NUL");
    debug_assert!(partition.len() <= PARTITION_KEY_BYTES_MAX && sort.len() <= SORT_KEY_BYTES_MAX);
    out.reserve(partition.len() + sort.len() + 2);
    out.push(table as u8);
    out.extend_from_slice(partition);
    out.push(0);
    out.extend_from_slice(sort);
}

/// Takes a flat key apart again; `None` if it is not one.
pub fn decode(key: &[u8]) -> Option<(Table, &[u8], &[u8])> {
    let (&number, rest) = key.split_first()?;
    let nul = memchr::memchr(0, rest)?;
    Some((Table::from_number(number)?, &rest[..nul], &rest[nul + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_contiguous() {
        let key = |p: &str, s: &[u8]| {
            let mut out = Vec::new();
            encode(&mut out, Table::Archive, p.as_bytes(), s);
            out
        };
        let mut keys =
            vec![key("ab@x", &[1]), key("a@x", &[0xff; 8]), key("a@x", &[]), key("a@xy", &[0]), key("a@x", &[0; 8])];
        keys.sort();
        let partitions: Vec<_> = keys.iter().map(|k| decode(k).unwrap().1.to_vec()).collect();
        assert_eq!(partitions, [&b"a@x"[..], b"a@x", b"a@x", b"a@xy", b"ab@x"]);
    }
}
