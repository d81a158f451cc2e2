//! The durable store: what must survive `kill -9`, a power cut and a full disk.
//!
//! An engine stores the rows of `throng_engine::store`'s model. One thread, the [`Committer`],
//! groups the batches of all shards into one sync. The [`Readers`] answer queries off the shards'
//! threads. A shard hands in a batch, gets a [`Gate`](throng_engine::id::Gate), and holds all
//! output of that turn back until [`Submitter::durable`] has reached it.
//!
//! ```text
//! shard 0 --ring--+                                        +--> engine (journal, one fdatasync per group)
//! shard 1 --ring--+--> committer: one order by tickets ----+--> durable gate, wakes
//! shard n --ring--+          |
//!                            +-- full disk: reserve released, StorageState::Full set, batch waits
//! shard n --ring-----> readers (wait for the request's gate) --ring--> shard n
//! ```
//!
//! This module never knows what a row means, who is connected, or what a stanza is.

mod actors;
mod apart;
mod arriving;
pub mod backup;
mod blocks;
pub mod bulk;
pub mod check;
pub mod commit;
mod copy;
pub mod counters;
mod damage;
mod error;
pub mod export;
mod filters;
mod finding;
pub mod folder;
pub mod format;
mod gather;
pub mod group;
pub mod import;
mod journal;
mod leaving;
mod leftovers;
mod listing;
mod lock;
mod lost;
pub mod lsm;
pub mod memory;
mod memtable;
mod mend;
mod merge;
pub mod migrate;
mod pace;
mod pieces;
mod private;
mod ranges;
pub mod read;
pub mod restore;
pub mod salvage;
pub mod segment;
pub mod shared;
pub mod shipping;
pub mod space;
mod still;
mod stored;
mod tables;
mod view;
mod worker;

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use throng_engine::store::{Batch, Found, Query, Table};

pub use commit::{Committer, Submitter, Tuner};
pub use counters::{ReadCounters, Seen, StoreCounters};
pub use error::DiskError;
pub use finding::Finding;
pub use folder::{Store, journal_folder};
pub use leaving::held_descriptors;
pub use lock::{FolderLock, LockError};
pub use memory::MemoryEngine;
pub use read::{ReadAnswer, ReadPort, ReadRequest, Readers};
pub use shared::{StorageState, Wake};
pub use still::Still;
pub use tables::FILES_MAX;

/// A half-open range of flat keys.
pub type KeyRange = Range<Vec<u8>>;

/// The keys of all rows.
pub fn all_keys() -> KeyRange {
    Vec::new()..vec![lost::OWN]
}

/// The result of visiting a row or actor: continue, or stop.
pub type Visit = ControlFlow<()>;

/// A storage engine: rows in the order of their flat keys (`store::key`), with atomic batches.
///
/// One thread commits at a time; any number of threads read meanwhile, and a read sees each group
/// of batches entirely or not at all.
pub trait Engine: Send + Sync {
    /// Applies the batches in order, atomically, durable on return.
    ///
    /// # Errors
    /// [`DiskError::OutOfSpace`] if nothing was promised and the same call may be repeated; after
    /// any other error the engine must not be written to any more.
    fn commit(&self, batches: &[Batch]) -> Result<(), DiskError>;

    /// Answers one query from what is durable.
    ///
    /// # Errors
    /// The file system's or a checksum's.
    fn read(&self, query: &Query) -> Result<Found, DiskError>;

    /// Visits the actors of a table in order, beginning with the first one after `after`.
    ///
    /// # Errors
    /// As [`Engine::read`]. [`DiskError::Unreadable`] is returned after the visits: there may be
    /// further actors between those visited.
    fn for_each_actor(
        &self,
        table: Table,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8]) -> Visit,
    ) -> Result<(), DiskError>;

    /// Visits every row of these ranges, flat key and value, in key order, from one consistent
    /// view; checksums are verified. The ranges must be in order and not overlap.
    ///
    /// # Errors
    /// As [`Engine::read`].
    fn scan_within(&self, ranges: &[KeyRange], visit: &mut dyn FnMut(&[u8], &[u8]) -> Visit) -> Result<(), DiskError>;

    /// The same for all rows.
    ///
    /// # Errors
    /// As [`Engine::read`].
    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8]) -> Visit) -> Result<(), DiskError> {
        self.scan_within(&[all_keys()], visit)
    }

    /// Nothing has been committed for a while: the engine may write its memory tables to disk.
    /// Called by the committer's thread only; failures show at the next commit.
    fn rest(&self) {}

    /// Writes a consistent copy into an empty folder while commits continue; durable on return.
    ///
    /// # Errors
    /// The file system's; a read error as in [`Engine::scan`].
    fn copy_to(&self, dir: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError>;

    /// Whether background work lacks space on the device, so that new messages must be refused.
    fn is_starved(&self) -> bool {
        false
    }

    /// Free space on the device that background work waits for, bytes; 0 if it waits for none, or
    /// does not know how much.
    fn wanted_free_bytes(&self) -> u64 {
        0
    }

    /// Present limit of committed bytes per second; `None` if there is none.
    fn bytes_s(&self) -> Option<u64> {
        None
    }

    /// Damage met since the opening, a line per file.
    fn damage(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its counters, including the committer's.
    fn counters(&self) -> &Seen<StoreCounters>;

    /// Its memory, by part; cheap, and called every second.
    fn memory(&self) -> Memory;

    /// Sizes, for the operator.
    ///
    /// # Errors
    /// The file system's.
    fn figures(&self) -> Result<Figures, DiskError>;

    /// Applies these settings, as far as they concern the engine.
    fn tune(&self, _tuning: &Tuning) {}

    /// Rewrites the tables so that removed rows free their space. Blocks its caller, not commits.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    fn compact(&self) -> Result<(), DiskError>;
}

/// Sizes of an engine in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Tables on disk.
    pub table_bytes: u64,
    /// The journal on disk.
    pub journal_bytes: u64,
    /// Rows in memory that wait to be written to tables.
    pub buffer_bytes: u64,
    /// Blocks cached in memory.
    pub cache_bytes: u64,
}

/// Memory of an engine, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Memory tables: the used part of the active one and of the sealed ones, and what is kept for
    /// the next.
    pub memtables: u64,
    /// Cached blocks of tables.
    pub blocks: u64,
    /// Filters of the actors in tables of the first level.
    pub filters: u64,
}

/// Settings that an operator may change while the store is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Maximum bytes of batches per sync.
    pub group_bytes_max: usize,
    /// Free space below which new messages are refused, bytes.
    pub min_free_bytes: u64,
    /// Whether tables are merged. If not, they are merged only when commits would slow down
    /// otherwise.
    pub merges: bool,
}

/// Options for opening the store. The defaults are the measured ones
/// (docs/decisions/0001-storage-engine.md).
#[derive(Clone, Debug)]
pub struct Options {
    /// Block cache, bytes.
    pub cache_bytes: u64,
    /// Rows kept in memory before they are written to a table, bytes; twice this while one is being
    /// written.
    pub buffer_bytes: u64,
    /// Size of the reserve file that is released when the disk is full, bytes; zero for none.
    pub reserve_bytes: u64,
    /// Free space below which new messages are refused, bytes.
    pub min_free_bytes: u64,
    /// Approximate bytes of a table that a merge writes; a merge with less space writes smaller
    /// ones.
    pub table_bytes: u64,
    /// Returns the free space of the device that holds a path.
    pub free_bytes: space::FreeBytes,
    /// Maximum bytes of batches that one shard may have waiting.
    pub shard_queue_bytes_max: u64,
    /// Maximum number of batches that one shard may have waiting.
    pub shard_queue_batches_max: usize,
    /// Maximum bytes of batches per sync.
    pub group_bytes_max: usize,
    /// Maximum number of reads that one shard may have outstanding.
    pub shard_reads_max: usize,
    /// Number of reading threads.
    pub read_threads: usize,
    /// How often free space is checked.
    pub space_interval: Duration,
    /// How far the journal is in a continuous backup, if there is one: what it lacks is kept.
    pub shipping: Option<Arc<shipping::Shipping>>,
    /// Called by the store's threads after large pieces of work: returns the thread's free memory
    /// to the system.
    pub give_back: fn(),
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cache_bytes: 8 << 20,
            buffer_bytes: 8 << 20,
            reserve_bytes: 64 << 20,
            min_free_bytes: 256 << 20,
            table_bytes: 64 << 20,
            free_bytes: space::free_bytes,
            shard_queue_bytes_max: 8 << 20,
            shard_queue_batches_max: 256,
            group_bytes_max: 4 << 20,
            shard_reads_max: 1024,
            read_threads: 2,
            space_interval: Duration::from_secs(1),
            shipping: None,
            give_back: || {},
        }
    }
}

#[cfg(test)]
mod commit_tests;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod export_tests;
#[cfg(test)]
mod fatal_tests;
#[cfg(test)]
mod folder_tests;
#[cfg(test)]
mod full_tests;
#[cfg(test)]
mod gap_tests;
#[cfg(test)]
mod migrate_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod powercut;
#[cfg(test)]
mod rot_tests;
#[cfg(test)]
mod space_tests;
#[cfg(test)]
pub(crate) mod testing;
