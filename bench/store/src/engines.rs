//! The three engines behind one interface. What is measured here is the engine with the options that a server would
//! give it: durable when `commit` returns, caches and write buffers bounded.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use throng_engine::store::{Batch, OpView, Table, key};

type Error = Box<dyn std::error::Error>;

/// What the work needs of an engine.
pub(crate) trait Engine {
    /// Applies the batches in order, all or none; durable on return.
    fn commit(&self, batches: &[Batch]) -> Result<(), Error>;
    /// Bytes of one row.
    fn get(&self, table: Table, actor: &[u8], sort: &[u8]) -> Result<Option<usize>, Error>;
    /// Rows and bytes of the last `rows_max` rows of an actor.
    fn last_rows(&self, table: Table, actor: &[u8], rows_max: usize) -> Result<(usize, usize), Error>;
    /// Waits until background work is done; gives space back where the engine has a verb for it.
    fn settle(&self) {}
}

/// Cache for blocks or pages, bytes.
pub(crate) const CACHE_BYTES: u64 = 32 << 20;

pub(crate) fn open(name: &str, dir: &Path) -> Result<Box<dyn Engine>, Error> {
    match name {
        "fjall" => Ok(Box::new(Fjall::open(dir, true, false)?)),
        "fjall-tables" => Ok(Box::new(Fjall::open(dir, false, false)?)),
        "fjall-lz4" => Ok(Box::new(Fjall::open(dir, true, true)?)),
        "lmdb" => Ok(Box::new(Lmdb::open(dir, heed::EnvFlags::empty())?)),
        "lmdb-writemap" => Ok(Box::new(Lmdb::open(dir, heed::EnvFlags::WRITE_MAP)?)),
        "redb" => Ok(Box::new(Redb::open(dir, false)?)),
        "redb-quick" => Ok(Box::new(Redb::open(dir, true)?)),
        other => Err(format!("no engine is called {other}").into()),
    }
}

fn flat(table: Table, actor: &[u8], sort: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode(&mut out, table, actor, sort);
    out
}

fn after_actor(table: Table, actor: &[u8]) -> Vec<u8> {
    let mut out = flat(table, actor, b"");
    *out.last_mut().expect("ends in NUL") = 1;
    out
}

/// First and end key of a delete.
fn bounds(op: &OpView<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    match *op {
        OpView::DeleteRange { table, actor, from, until } => {
            Some((flat(table, actor, from), flat(table, actor, until)))
        }
        OpView::DeleteActor { table, actor } => Some((flat(table, actor, b""), after_actor(table, actor))),
        _ => None,
    }
}

/// fjall: log-structured, a journal, a tree a table (or one for all).
struct Fjall {
    db: fjall::Database,
    trees: Vec<fjall::Keyspace>,
    memtable: u64,
}

impl Fjall {
    fn open(dir: &Path, one: bool, lz4: bool) -> Result<Fjall, Error> {
        use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
        use fjall::config::{BloomConstructionPolicy, PinningPolicy};
        let megabyte = |name: &str, default: u64| -> u64 {
            std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default) << 20
        };
        let db = fjall::Database::builder(dir)
            .cache_size(CACHE_BYTES)
            .manual_journal_persist(true)
            .worker_threads(usize::try_from(megabyte("FJALL_WORKERS", 1) >> 20)?)
            .max_journaling_size(megabyte("FJALL_JOURNAL", 192))
            .journal_compression(fjall::CompressionType::None)
            .open()?;
        let options = || {
            let compression = if lz4 { fjall::CompressionType::Lz4 } else { fjall::CompressionType::None };
            fjall::KeyspaceCreateOptions::default()
                .manual_journal_persist(true)
                .max_memtable_size(u64::MAX)
                .data_block_size_policy(BlockSizePolicy::all(
                    u32::try_from(megabyte("FJALL_BLOCK_KB", 8) >> 20).expect("small") * 1024,
                ))
                .data_block_compression_policy(CompressionPolicy::all(compression))
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(8.0))))
                .filter_block_pinning_policy(PinningPolicy::all(false))
                .index_block_pinning_policy(PinningPolicy::all(false))
                .compaction_strategy(Arc::new(
                    fjall::compaction::Leveled::default()
                        .with_table_target_size(megabyte("FJALL_TABLE", 64))
                        .with_l0_threshold(u8::try_from(megabyte("FJALL_L0", 8) >> 20).expect("small")),
                ))
        };
        let mut trees = Vec::new();
        for table in Table::ALL {
            let name = if one { "all".to_owned() } else { format!("{table:?}").to_lowercase() };
            trees.push(db.keyspace(&name, options)?);
        }
        Ok(Fjall { db, trees, memtable: megabyte("FJALL_MEMTABLE", 32) })
    }

    fn tree(&self, table: Table) -> &fjall::Keyspace {
        &self.trees[table as usize]
    }
}

impl Engine for Fjall {
    fn commit(&self, batches: &[Batch]) -> Result<(), Error> {
        use fjall::AbstractTree;
        let items = batches.iter().map(Batch::len).sum();
        let mut out = fjall::OwnedWriteBatch::with_capacity(self.db.clone(), items)
            .durability(Some(fjall::PersistMode::SyncData));
        let mut scratch = Vec::with_capacity(128);
        for op in batches.iter().flat_map(Batch::iter) {
            scratch.clear();
            match op {
                OpView::Put { table, actor, sort, value } => {
                    key::encode(&mut scratch, table, actor, sort);
                    out.insert(self.tree(table), &scratch[..], value);
                }
                OpView::Delete { table, actor, sort } => {
                    key::encode(&mut scratch, table, actor, sort);
                    out.remove(self.tree(table), &scratch[..]);
                }
                OpView::DeleteRange { table, .. } | OpView::DeleteActor { table, .. } => {
                    let (from, until) = bounds(&op).expect("a range");
                    for row in self.tree(table).range(from..until) {
                        out.remove(self.tree(table), row.key()?);
                    }
                }
            }
        }
        out.commit()?;
        // fjall's own requests to turn rows in memory into a table can block its only worker for ever (see the decision).
        for tree in [self.tree(Table::Archive), self.tree(Table::Mailbox)] {
            if tree.tree.active_memtable().size() >= self.memtable && tree.tree.sealed_memtable_count() < 2 {
                tree.rotate_memtable()?;
            }
        }
        Ok(())
    }

    fn get(&self, table: Table, actor: &[u8], sort: &[u8]) -> Result<Option<usize>, Error> {
        Ok(self.tree(table).get(flat(table, actor, sort))?.map(|value| value.to_vec().len()))
    }

    fn last_rows(&self, table: Table, actor: &[u8], rows_max: usize) -> Result<(usize, usize), Error> {
        let range = flat(table, actor, b"")..after_actor(table, actor);
        let (mut rows, mut bytes) = (0, 0);
        for row in self.tree(table).range(range).rev().take(rows_max) {
            let (_, value) = row.into_inner()?;
            rows += 1;
            bytes += value.to_vec().len();
        }
        Ok((rows, bytes))
    }

    fn settle(&self) {
        let mut quiet = 0;
        while quiet < 5 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let busy = self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0;
            quiet = if busy { 0 } else { quiet + 1 };
        }
    }
}

/// LMDB through heed: copy-on-write B-tree, page cache of the kernel.
struct Lmdb {
    env: heed::Env,
    db: heed::Database<heed::types::Bytes, heed::types::Bytes>,
}

impl Lmdb {
    fn open(dir: &Path, flags: heed::EnvFlags) -> Result<Lmdb, Error> {
        let mut options = heed::EnvOpenOptions::new();
        options.map_size(32 << 30).max_dbs(8);
        // SAFETY: WRITE_MAP asks that nothing writes to the map behind LMDB's back; this program holds no pointer.
        unsafe { options.flags(flags) };
        // SAFETY: one process opens the folder, once.
        let env = unsafe { options.open(dir)? };
        let mut txn = env.write_txn()?;
        let db = env.create_database(&mut txn, Some("all"))?;
        txn.commit()?;
        Ok(Lmdb { env, db })
    }
}

impl Engine for Lmdb {
    fn commit(&self, batches: &[Batch]) -> Result<(), Error> {
        let mut txn = self.env.write_txn()?;
        let mut scratch = Vec::with_capacity(128);
        for op in batches.iter().flat_map(Batch::iter) {
            scratch.clear();
            match op {
                OpView::Put { table, actor, sort, value } => {
                    key::encode(&mut scratch, table, actor, sort);
                    self.db.put(&mut txn, &scratch, value)?;
                }
                OpView::Delete { table, actor, sort } => {
                    key::encode(&mut scratch, table, actor, sort);
                    self.db.delete(&mut txn, &scratch)?;
                }
                OpView::DeleteRange { .. } | OpView::DeleteActor { .. } => {
                    let (from, until) = bounds(&op).expect("a range");
                    self.db.delete_range(&mut txn, &(Bound::Included(&from[..]), Bound::Excluded(&until[..])))?;
                }
            }
        }
        txn.commit()?;
        Ok(())
    }

    fn get(&self, table: Table, actor: &[u8], sort: &[u8]) -> Result<Option<usize>, Error> {
        let txn = self.env.read_txn()?;
        Ok(self.db.get(&txn, &flat(table, actor, sort))?.map(|value| value.to_vec().len()))
    }

    fn last_rows(&self, table: Table, actor: &[u8], rows_max: usize) -> Result<(usize, usize), Error> {
        let txn = self.env.read_txn()?;
        let (from, until) = (flat(table, actor, b""), after_actor(table, actor));
        let (mut rows, mut bytes) = (0, 0);
        let range = (Bound::Included(&from[..]), Bound::Excluded(&until[..]));
        for row in self.db.rev_range(&txn, &range)?.take(rows_max) {
            rows += 1;
            bytes += row?.1.to_vec().len();
        }
        Ok((rows, bytes))
    }
}

/// redb: copy-on-write B-tree in safe Rust, its own page cache.
struct Redb {
    db: redb::Database,
    quick: bool,
}

const ROWS: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("all");

impl Redb {
    fn open(dir: &Path, quick: bool) -> Result<Redb, Error> {
        let db = redb::Builder::new().set_cache_size(usize::try_from(CACHE_BYTES)?).create(dir.join("store.redb"))?;
        let txn = db.begin_write()?;
        txn.open_table(ROWS)?;
        txn.commit()?;
        Ok(Redb { db, quick })
    }
}

impl Engine for Redb {
    fn commit(&self, batches: &[Batch]) -> Result<(), Error> {
        let mut txn = self.db.begin_write()?;
        txn.set_quick_repair(self.quick);
        {
            let mut rows = txn.open_table(ROWS)?;
            let mut scratch = Vec::with_capacity(128);
            for op in batches.iter().flat_map(Batch::iter) {
                scratch.clear();
                match op {
                    OpView::Put { table, actor, sort, value } => {
                        key::encode(&mut scratch, table, actor, sort);
                        rows.insert(&scratch[..], value)?;
                    }
                    OpView::Delete { table, actor, sort } => {
                        key::encode(&mut scratch, table, actor, sort);
                        rows.remove(&scratch[..])?;
                    }
                    OpView::DeleteRange { .. } | OpView::DeleteActor { .. } => {
                        let (from, until) = bounds(&op).expect("a range");
                        rows.retain_in::<&[u8], _>(&from[..]..&until[..], |_, _| false)?;
                    }
                }
            }
        }
        txn.commit()?;
        Ok(())
    }

    fn get(&self, table: Table, actor: &[u8], sort: &[u8]) -> Result<Option<usize>, Error> {
        use redb::ReadableDatabase;
        let txn = self.db.begin_read()?;
        let rows = txn.open_table(ROWS)?;
        Ok(rows.get(&flat(table, actor, sort)[..])?.map(|value| value.value().to_vec().len()))
    }

    fn last_rows(&self, table: Table, actor: &[u8], rows_max: usize) -> Result<(usize, usize), Error> {
        use redb::ReadableDatabase;
        let txn = self.db.begin_read()?;
        let all = txn.open_table(ROWS)?;
        let (from, until) = (flat(table, actor, b""), after_actor(table, actor));
        let (mut rows, mut bytes) = (0, 0);
        for row in all.range::<&[u8]>(&from[..]..&until[..])?.rev().take(rows_max) {
            rows += 1;
            bytes += row?.1.value().to_vec().len();
        }
        Ok((rows, bytes))
    }
}
