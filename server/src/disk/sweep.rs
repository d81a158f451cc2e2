//! Large ranges on their way out.
//!
//! The engine has no range tombstone that a commit could write: each removed row costs a tombstone of its own. So a
//! commit removes a bounded number of rows; what is left of the range is written down in the same commit as *pending*,
//! hidden from reads from then on, and removed step by step between later commits. A pending range holds dead rows
//! only: a put into it waits until the range is gone.

use throng_engine::store::Table;

/// First byte of the engine's own keys. Above every table number, so that rows of tables never mix with them.
pub(super) const OWN_PREFIX: u8 = 0xff;

const _: () = assert!(Table::ALL.len() < OWN_PREFIX as usize);

/// Most rows that one commit or one step removes from a range.
pub(super) const ROWS_PER_STEP: usize = 2048;

/// A range of dead rows, as flat keys: `from <= key < until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) id: u64,
    pub(super) from: Vec<u8>,
    pub(super) until: Vec<u8>,
}

impl Pending {
    /// Key of the row in which the range is written down.
    pub(super) fn key(id: u64) -> Vec<u8> {
        let mut key = vec![OWN_PREFIX];
        key.extend_from_slice(b"sweep");
        key.extend_from_slice(&id.to_be_bytes());
        key
    }

    /// The row's bytes: length of the first key, both keys.
    pub(super) fn encode(&self) -> Vec<u8> {
        let length = u32::try_from(self.from.len()).expect("a key is short");
        [&length.to_be_bytes()[..], &self.from, &self.until].concat()
    }

    /// Takes key and row apart; `None` if they are not one.
    pub(super) fn decode(key: &[u8], row: &[u8]) -> Option<Pending> {
        let id = key.strip_prefix(&[OWN_PREFIX])?.strip_prefix(b"sweep")?;
        let (length, keys) = row.split_first_chunk::<4>()?;
        let (from, until) = keys.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        Some(Pending { id: u64::from_be_bytes(id.try_into().ok()?), from: from.to_vec(), until: until.to_vec() })
    }

    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && key < self.until.as_slice()
    }
}

/// The parts of `from..until` that no pending range hides, in order.
pub(super) fn visible(from: Vec<u8>, until: Vec<u8>, pending: &[Pending]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut parts = if from < until { vec![(from, until)] } else { Vec::new() };
    for hidden in pending {
        let mut cut = Vec::with_capacity(parts.len() + 1);
        for (from, until) in parts {
            if hidden.until <= from || until <= hidden.from {
                cut.push((from, until));
                continue;
            }
            if from < hidden.from {
                cut.push((from, hidden.from.clone()));
            }
            if hidden.until < until {
                cut.push((hidden.until.clone(), until));
            }
        }
        parts = cut;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(from: &[u8], until: &[u8]) -> Pending {
        Pending { id: 7, from: from.to_vec(), until: until.to_vec() }
    }

    #[test]
    fn a_pending_range_reads_back() {
        let range = pending(b"abc", b"abd");
        assert_eq!(Pending::decode(&Pending::key(7), &range.encode()), Some(range));
        assert_eq!(Pending::decode(b"\xffsweep", b""), None);
    }

    #[test]
    fn visible_parts_leave_out_what_is_hidden() {
        let parts = |hidden: &[Pending]| -> Vec<String> {
            visible(b"b".to_vec(), b"h".to_vec(), hidden)
                .into_iter()
                .map(|(from, until)| String::from_utf8([from, until].concat()).unwrap())
                .collect()
        };
        assert_eq!(parts(&[]), ["bh"]);
        assert_eq!(parts(&[pending(b"c", b"d"), pending(b"e", b"f")]), ["bc", "de", "fh"]);
        assert_eq!(parts(&[pending(b"a", b"c"), pending(b"g", b"z")]), ["cg"]);
        assert_eq!(parts(&[pending(b"a", b"z")]), Vec::<String>::new());
        assert_eq!(parts(&[pending(b"h", b"i"), pending(b"a", b"b")]), ["bh"]);
    }
}
