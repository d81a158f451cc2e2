//! The encoding of a group of batches, in the journal and in the memory table.
//!
//! Operations follow each other: kind and table (u8: four bits each), length of the actor (u16), of
//! the sort key (u16), of the value (u32), all little endian, then the three themselves, without a
//! gap. A range delete has its first key as sort key and its end as value.

use std::ops::Range;

use throng_engine::store::{Batch, OpView, Table};

/// Bytes before the keys of an operation.
const HEAD_BYTES: usize = 9;

const _: () = assert!(Table::ALL.len() <= 16, "a table's number has four bits");

const PUT: u8 = 0;
const DELETE: u8 = 1;
const DELETE_RANGE: u8 = 2;
const DELETE_ACTOR: u8 = 3;

/// One operation of a group, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// The operation.
    pub op: OpView<'a>,
    /// The position of its keys and value in the group's bytes, without a gap.
    pub at: Range<usize>,
}

/// Appends the operations of a batch.
pub fn encode(out: &mut Vec<u8>, batch: &Batch) {
    out.reserve(batch.bytes() + batch.len() * HEAD_BYTES);
    for op in batch.iter() {
        let (kind, table, actor, sort, value) = match op {
            OpView::Put { table, actor, sort, value } => (PUT, table, actor, sort, value),
            OpView::Delete { table, actor, sort } => (DELETE, table, actor, sort, &[][..]),
            OpView::DeleteRange { table, actor, from, until } => (DELETE_RANGE, table, actor, from, until),
            OpView::DeleteActor { table, actor } => (DELETE_ACTOR, table, actor, &[][..], &[][..]),
        };
        let mut head = [kind << 4 | table as u8; HEAD_BYTES];
        head[1..3].copy_from_slice(&(actor.len() as u16).to_le_bytes());
        head[3..5].copy_from_slice(&(sort.len() as u16).to_le_bytes());
        head[5..9].copy_from_slice(&(value.len() as u32).to_le_bytes());
        for part in [&head, actor, sort, value] {
            out.extend_from_slice(part);
        }
    }
}

/// The operations of a group; a final `None` if bytes follow that are not an operation.
pub fn operations(bytes: &[u8]) -> impl Iterator<Item = Option<Placed<'_>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let placed = operation(bytes, at);
        at = placed.as_ref().map_or(bytes.len(), |placed| placed.at.end);
        Some(placed)
    })
}

fn operation(bytes: &[u8], at: usize) -> Option<Placed<'_>> {
    let (&head, rest) = bytes[at..].split_first_chunk::<HEAD_BYTES>()?;
    let table = Table::from_number(head[0] & 15)?;
    let (actor, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([head[1], head[2]])))?;
    let (sort, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([head[3], head[4]])))?;
    let value = rest.get(..u32::from_le_bytes([head[5], head[6], head[7], head[8]]) as usize)?;
    let op = match head[0] >> 4 {
        PUT => OpView::Put { table, actor, sort, value },
        DELETE if value.is_empty() => OpView::Delete { table, actor, sort },
        DELETE_RANGE => OpView::DeleteRange { table, actor, from: sort, until: value },
        DELETE_ACTOR if sort.is_empty() && value.is_empty() => OpView::DeleteActor { table, actor },
        _ => return None,
    };
    let start = at + HEAD_BYTES;
    Some(Placed { op, at: start..start + actor.len() + sort.len() + value.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_operations_that_encode_to_them_or_none(
            heads in prop::collection::vec((0_u8..70, 0_u16..4, 0_u16..4, 0_u32..4, any::<[u8; 9]>()), 0..6),
            odd in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            for (kind, actor, sort, value, parts) in heads {
                bytes.push(kind);
                bytes.extend_from_slice(&actor.to_le_bytes());
                bytes.extend_from_slice(&sort.to_le_bytes());
                bytes.extend_from_slice(&value.to_le_bytes());
                bytes.extend_from_slice(&parts[..usize::from(actor + sort) + value as usize]);
            }
            bytes.extend_from_slice(&odd);
            let (mut batch, mut whole) = (Batch::new(), true);
            for placed in operations(&bytes) {
                match placed.map(|placed| placed.op) {
                    Some(OpView::Put { table, actor, sort, value }) => batch.put(table, actor, sort, &[value]),
                    Some(OpView::Delete { table, actor, sort }) => batch.delete(table, actor, sort),
                    Some(OpView::DeleteRange { table, actor, from, until }) => {
                        batch.delete_range(table, actor, from, until);
                    }
                    Some(OpView::DeleteActor { table, actor }) => batch.delete_actor(table, actor),
                    None => whole = false,
                }
            }
            let mut again = Vec::new();
            encode(&mut again, &batch);
            prop_assert!(bytes.starts_with(&again));
            prop_assert_eq!(whole, again.len() == bytes.len());
        }
    }

    #[test]
    fn a_group_reads_back_as_written_and_cut_nowhere_else_than_between_operations() {
        let mut batch = Batch::new();
        batch.put(Table::Archive, b"a@x", b"12345678", &[b"hello"]);
        batch.put(Table::Private, b"", b"", &[b""]);
        batch.delete(Table::Waiting, b"a@x", b"");
        batch.delete_range(Table::Archive, b"a@x", b"0", b"9");
        batch.delete_actor(Table::Roster, b"b@x");
        let mut bytes = Vec::new();
        encode(&mut bytes, &batch);
        let found: Vec<_> = operations(&bytes).map(|placed| placed.expect("whole")).collect();
        assert!(found.iter().map(|placed| placed.op).eq(batch.iter()));
        assert_eq!(&bytes[found[0].at.clone()], b"a@x12345678hello");
        let ends: Vec<usize> = found.iter().map(|placed| placed.at.end).collect();
        for cut in 1..bytes.len() {
            let whole = operations(&bytes[..cut]).all(|placed| placed.is_some());
            assert_eq!(whole, ends.contains(&cut), "cut at {cut}");
        }
    }
}
