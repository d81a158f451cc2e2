//! Numbers of publications at nodes of services are not given out again: nodes that are gone, and stores that were restored, leave floors
//! (`store::floors`). Here each directory that an extension reads is raised to its floor. A node that is not there gets a directory with
//! nothing but the number, so a node that is made from it begins behind the floor.
//!
//! A floor is read with the first directory of its partition, and known from then on. While the server runs, only this file raises it.

use hashbrown::HashMap;

use crate::extension::pubsub::Directory;
use crate::id::{PARTITIONS, partition};
use crate::kernel::Fixed;
use crate::kernel::pending::{FeatureRead, Numbered};
use crate::store::floors::{Floor, Scope};
use crate::store::nodes::RowKind;
use crate::store::{Batch, Found, Query};

/// Floors that are known. Most partitions have none, of which only that is known.
#[derive(Debug)]
pub(super) struct Floors {
    /// That of the store, once it was read.
    store: Option<Floor>,
    /// Partitions whose floor was read, a bit each.
    read: Box<[u64; PARTITIONS as usize / 64]>,
    /// Their floors; those that there are.
    raised: HashMap<u16, Floor, Fixed>,
}

impl Default for Floors {
    fn default() -> Floors {
        Floors { store: None, read: Box::new([0; PARTITIONS as usize / 64]), raised: HashMap::default() }
    }
}

impl Floors {
    fn is_known(&self, scope: Scope) -> bool {
        match scope {
            Scope::Store => self.store.is_some(),
            Scope::Partition(number) => self.read[usize::from(number) / 64] & (1 << (number % 64)) != 0,
        }
    }

    /// That of the nodes of a partition, as far as it is known.
    fn of(&self, partition: u16) -> Floor {
        let own = self.raised.get(&partition).copied().unwrap_or_default();
        self.store.unwrap_or_default().and(own)
    }

    /// It was read. What has been written meanwhile is higher.
    fn learn(&mut self, scope: Scope, read: Floor) {
        match scope {
            Scope::Store => self.store = Some(read),
            Scope::Partition(number) => {
                self.read[usize::from(number) / 64] |= 1 << (number % 64);
                if read != Floor::default() {
                    let known = self.raised.entry(number).or_default();
                    *known = Floor { made: known.made.max(read.made), all: known.all.max(read.all) };
                }
            }
        }
    }

    /// Asks with these for the floors that are not known yet, and notes which directories are above one.
    pub(super) fn ask(&self, read: &mut FeatureRead, queries: &mut Vec<Query>) {
        for at in 0..queries.len() {
            let Some(partition) = partition_of(&queries[at]) else { continue };
            for scope in [Scope::Store, Scope::Partition(partition)] {
                let floor = Numbered::Floor(scope);
                if !self.is_known(scope) && !read.numbered.contains(&floor) {
                    read.numbered.push(floor);
                    queries.push(scope.query());
                }
            }
            read.numbered.push(Numbered::Directory(at, partition));
        }
    }

    /// The answers without those of floors, and with the directories above them; nothing if a floor cannot be read.
    pub(super) fn above(&mut self, numbered: Vec<Numbered>, mut found: Vec<Found>) -> Option<Vec<Found>> {
        let asked = numbered.iter().filter(|numbered| matches!(numbered, Numbered::Floor(_))).count();
        let floors = found.split_off(found.len().checked_sub(asked)?);
        let mut read = floors.iter();
        for numbered in &numbered {
            if let Numbered::Floor(scope) = numbered {
                self.learn(*scope, Floor::found(read.next()?)?);
            }
        }
        for numbered in numbered {
            if let Numbered::Directory(at, partition) = numbered {
                let directory = std::mem::replace(found.get_mut(at)?, Found::Damaged);
                found[at] = raised(directory, self.of(partition));
            }
        }
        Some(found)
    }

    /// A node of this home is gone, whose last publication had this number: one that is made anew begins behind it. A number is left out, so
    /// that all who have read the old one are told of a gap.
    pub(super) fn node_deleted(&mut self, writes: &mut Batch, node: &str, last: u64) {
        let partition = partition(node);
        debug_assert!(self.is_known(Scope::Partition(partition)), "it was read with the directory of the node");
        if last <= self.of(partition).made {
            return;
        }
        let floor = self.raised.entry(partition).or_default();
        floor.made = last.saturating_add(1);
        let floor = *floor;
        floor.put(writes, Scope::Partition(partition));
    }

    /// What they take, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.read) + self.raised.capacity() * (size_of::<(u16, Floor)>() + 1)
    }
}

/// The partition of the node of a service whose directory this asks for.
fn partition_of(query: &Query) -> Option<u16> {
    let Query::Get { table, actor, sort } = query else { return None };
    let is_node = RowKind::of(*table, sort) == RowKind::Directory && actor.contains(&b'/');
    is_node.then(|| partition(actor))
}

/// The row of a directory with a floor below it.
fn raised(found: Found, floor: Floor) -> Found {
    let Found::Value(row) = found else { return found };
    let last = if row.is_some() { floor.all } else { floor.made };
    if last == 0 {
        return Found::Value(row);
    }
    // One that cannot be read is for others to report.
    match Directory::decode(row.as_deref()).filter(|directory| directory.last < last) {
        Some(mut directory) => {
            directory.go_on_behind(last);
            Found::Value(Some(directory.encode().into()))
        }
        None => Found::Value(row),
    }
}
