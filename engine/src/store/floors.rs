//! Floors of the publication numbers at nodes of services. A number up to the floor may have been
//! assigned before, to an item that no longer exists.
//!
//! A deleted node leaves no row behind. What remains is one floor per partition: nodes that are
//! created in the partition later start after it. A store that was restored from a backup has
//! another floor, for all nodes. The numbers assigned after the backup are unknown, but they are
//! below a number derived from the time.
//!
//! The rows are facts of the store ([`Table::Meta`]):
//!
//! ```text
//! node-floor/all         the floor of all partitions
//! node-floor/PARTITION   that of one, in decimal
//! ```

use super::{Batch, Found, Query, Table};
use crate::id::partition;

/// Prefix of the sort keys of the rows.
pub const PREFIX: &[u8] = b"node-floor/";

const FORMAT: u8 = 1;

/// 2020-01-01, seconds since the Unix epoch.
const SINCE_S: u64 = 1_577_836_800;

/// Bits of a number below the second. No node has that many publications per second.
const SECOND_BITS: u32 = 22;

/// Numbers stay below this until 2088. JavaScript represents whole numbers exactly up to this
/// limit, and some clients parse a number as one.
const EXACT_MAX: u64 = 1 << 53;

const _: () = assert!((3_723_000_000 - SINCE_S) << SECOND_BITS < EXACT_MAX, "December of 2087");

/// A number that no node has reached by this time, seconds since the Unix epoch, whatever restores
/// its store has seen.
pub fn by_time(unix_s: u64) -> u64 {
    unix_s.saturating_sub(SINCE_S).saturating_mul(1 << SECOND_BITS)
}

/// The nodes that a floor applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Scope {
    /// All nodes.
    Store,
    /// The nodes of one partition.
    Partition(u16),
}

impl Scope {
    /// The partition of a node.
    pub fn of(actor: impl AsRef<[u8]>) -> Scope {
        Scope::Partition(partition(actor))
    }

    fn sort(self) -> Vec<u8> {
        match self {
            Scope::Store => [PREFIX, b"all"].concat(),
            Scope::Partition(number) => [PREFIX, number.to_string().as_bytes()].concat(),
        }
    }

    /// The query for the floor.
    pub fn query(self) -> Query {
        Query::Get { table: Table::Meta, actor: Box::default(), sort: self.sort().into() }
    }
}

/// Numbers that are not assigned again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// New nodes start after this number.
    pub made: u64,
    /// All nodes continue after this number.
    pub all: u64,
}

impl Floor {
    /// Reads the answer to [`Scope::query`]; `None` if it cannot be read.
    pub fn found(found: &Found) -> Option<Floor> {
        match found {
            Found::Value(None) => Some(Floor::default()),
            Found::Value(Some(row)) => Floor::decode(row),
            _ => None,
        }
    }

    /// Reads a row; `None` if it is not one of a known format.
    pub fn decode(row: &[u8]) -> Option<Floor> {
        let (made, all) = row.strip_prefix(&[FORMAT])?.split_first_chunk::<8>()?;
        Some(Floor { made: u64::from_be_bytes(*made), all: u64::from_be_bytes(all.try_into().ok()?) })
    }

    /// Writes the row.
    pub fn put(self, batch: &mut Batch, scope: Scope) {
        let numbers = [self.made.to_be_bytes(), self.all.to_be_bytes()];
        batch.put(Table::Meta, b"", &scope.sort(), &[&[FORMAT], numbers.as_flattened()]);
    }

    /// The floor of a node that both this floor and another one apply to.
    pub fn and(self, other: Floor) -> Floor {
        let all = self.all.max(other.all);
        Floor { made: self.made.max(other.made).max(all), all }
    }

    /// The floor of nodes whose numbers up to this time are unknown, seconds since the Unix epoch.
    /// It is higher than the previous one even if the clock was set back.
    pub fn raised(self, unix_s: u64) -> Floor {
        Floor { all: by_time(unix_s).max(self.all.saturating_add(1 << SECOND_BITS)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;

    #[test]
    fn rows_read_back() {
        let floor = Floor { made: 58, all: by_time(1_800_000_000) };
        for (scope, key) in [(Scope::Store, &b"node-floor/all"[..]), (Scope::Partition(4_095), b"node-floor/4095")] {
            let mut batch = Batch::new();
            floor.put(&mut batch, scope);
            let Some(OpView::Put { table: Table::Meta, actor: b"", sort, value }) = batch.last() else { panic!() };
            assert_eq!((sort, Floor::decode(value)), (key, Some(floor)));
            assert_eq!(Floor::found(&Found::Value(Some(value.into()))), Some(floor));
            (0..value.len()).for_each(|end| assert_eq!(Floor::decode(&value[..end]), None));
            assert_eq!(scope.query(), Query::Get { table: Table::Meta, actor: Box::default(), sort: key.into() });
        }
        assert_eq!((Floor::found(&Found::Value(None)), Floor::found(&Found::Damaged)), (Some(Floor::default()), None));
    }

    #[test]
    fn a_floor_by_time_is_above_all_before_and_exact_in_javascript() {
        let mut floor = Floor { made: 7, all: 0 };
        for unix_s in [1_600_000_000, 1_700_000_000, 1_700_000_001, 1_700_000_001, 1_000, 3_723_000_000] {
            let next = floor.raised(unix_s);
            assert!(next.all > floor.all && next.all < EXACT_MAX && next.made == 7, "{next:?}");
            floor = next;
        }
        assert_eq!(floor.all, by_time(3_723_000_000));
        assert_eq!(floor.and(Floor { made: 9, all: 3 }), Floor { made: floor.all, all: floor.all });
        assert_eq!(Floor { made: 7, all: 0 }.and(Floor { made: 9, all: 3 }), Floor { made: 9, all: 3 });
    }
}
