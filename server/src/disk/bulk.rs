//! Bulk load: very many rows in few syncs, for an import where no client waits for single rows.

use throng_engine::store::Batch;

use super::{DiskError, Engine};

/// Bytes of one commit.
const BATCH_BYTES: usize = 4 << 20;

/// Collects rows and commits them in large batches. After an interruption a prefix of the rows, in
/// order, is durable.
pub struct BulkLoader<'a> {
    engine: &'a dyn Engine,
    batch: Batch,
    rows: u64,
}

impl<'a> BulkLoader<'a> {
    /// Loads into `engine`, to which no other thread commits meanwhile.
    pub fn new(engine: &'a dyn Engine) -> BulkLoader<'a> {
        BulkLoader { engine, batch: Batch::new(), rows: 0 }
    }

    /// Adds what `write` puts into the batch, such as one account's rows, which then stay together.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    pub fn row(&mut self, write: impl FnOnce(&mut Batch)) -> Result<(), DiskError> {
        write(&mut self.batch);
        self.rows += 1;
        if self.batch.bytes() >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Commits the rest and returns the number of calls of [`BulkLoader::row`].
    ///
    /// # Errors
    /// As [`Engine::commit`].
    pub fn finish(mut self) -> Result<u64, DiskError> {
        self.flush()?;
        Ok(self.rows)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        if !self.batch.is_empty() {
            self.engine.commit(std::slice::from_ref(&self.batch))?;
            self.batch.clear();
        }
        Ok(())
    }
}
