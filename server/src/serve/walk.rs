//! A walk over the actors of a table, some at a time, in the order of the store: each is named to its home.

use std::ops::ControlFlow;

use throng_engine::id::PartitionMap;
use throng_engine::store::Table;

use super::Rows;
use crate::disk::DiskError;

/// Where it is.
pub(super) struct Walk {
    table: Table,
    /// The last actor that was named; `None` at the beginning.
    after: Option<Box<[u8]>>,
}

/// One step of it.
pub(super) struct Step {
    /// The actors found, by shard.
    pub(super) homes: Vec<Vec<Box<str>>>,
    /// There may be further ones; otherwise the walk is at its beginning again.
    pub(super) more: bool,
}

impl Walk {
    pub(super) const fn over(table: Table) -> Walk {
        Walk { table, after: None }
    }

    /// The next `most` actors. Those of which all is lost are passed by.
    ///
    /// # Errors
    /// The store cannot be read; the walk stays where it is.
    pub(super) fn step(&mut self, engine: &Rows, partitions: &PartitionMap, most: usize) -> Result<Step, DiskError> {
        let mut found: Vec<Box<[u8]>> = Vec::new();
        let visited = engine.for_each_actor(self.table, self.after.as_deref(), &mut |actor| {
            found.push(actor.into());
            if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if !matches!(visited, Err(DiskError::Unreadable(_))) {
            visited?;
        }
        let mut homes: Vec<Vec<Box<str>>> = vec![Vec::new(); usize::from(partitions.shards())];
        for actor in found.iter().filter_map(|actor| std::str::from_utf8(actor).ok()) {
            homes[partitions.home(actor).index()].push(actor.into());
        }
        let more = found.len() >= most;
        self.after = found.pop().filter(|_| more);
        Ok(Step { homes, more })
    }
}
