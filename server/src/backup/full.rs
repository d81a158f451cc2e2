//! Writes a full piece: all rows of the store, a part at a time.
//!
//! No part needs space on the disk, and nothing is held between two parts: a slow place only makes
//! the piece take longer. The store changes meanwhile; the journal from [`Full::first`] on makes up
//! for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::pieces::{Full, put_row, rows};
use super::shared::Shared;
use super::{PART_BYTES, now_ms, prune};
use crate::disk::format::FORMAT_VERSION;
use crate::disk::{Engine, Visit, all_keys};

/// Pauses after a failure, and while the journal catches up.
const PAUSE: Duration = Duration::from_millis(200);
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// What it needs.
pub(super) struct Job {
    pub(super) shared: Arc<Shared>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) generation: String,
    /// [`Shared::given_up`] at the beginning of the generation.
    pub(super) given_up: u64,
}

/// Rows of a part, and the key at which the next one begins.
struct Part {
    bytes: Vec<u8>,
    rows: u64,
    next: Option<Vec<u8>>,
}

impl Job {
    /// Writes the piece, and removes what is too old then.
    ///
    /// # Errors
    /// The store cannot be read; or the generation has ended.
    pub(super) async fn run(self) -> Result<Full, String> {
        let shared = &self.shared;
        let store = super::state::State::read(&shared.plan.folder)?.store;
        let (begun_ms, first) = (now_ms(), shared.shipping.synced());
        let mut full = Full {
            format: FORMAT_VERSION,
            store,
            first,
            end: first,
            begun_ms,
            time_ms: begun_ms,
            parts: 0,
            rows: 0,
            bytes: 0,
        };
        let mut from = Some(Vec::new());
        while let Some(begin) = from {
            let engine = self.engine.clone();
            let part =
                spawn_blocking(move || read_part(&*engine, begin)).await.map_err(|error| error.to_string())??;
            full.rows += part.rows;
            full.bytes += part.bytes.len() as u64;
            from = part.next;
            self.put(&rows(&self.generation, begun_ms, full.parts), part.bytes).await?;
            full.parts += 1;
        }
        full.end = shared.shipping.synced();
        while shared.shipped() < full.end {
            self.look()?;
            sleep(PAUSE).await;
        }
        full.time_ms = now_ms();
        let record = serde_json::to_vec(&full).map_err(|error| error.to_string())?;
        self.put(&full.name(&self.generation), record).await?;
        shared.standing.counters.full_pieces.one();
        tracing::info!(rows = full.rows, bytes = full.bytes, "a full piece of the backup is complete");
        match prune::prune(&shared.plan.bucket, &self.generation, shared.plan.keep).await {
            Ok(removed) => shared.standing.counters.pruned.add(removed),
            Err(what) => shared.standing.fail(&format!("what is too old was not removed: {what}")),
        }
        Ok(full)
    }

    fn look(&self) -> Result<(), String> {
        match self.shared.given_up() == self.given_up && !self.shared.is_stopping() {
            true => Ok(()),
            false => Err("not completed: its journal was given up, or the server stops".into()),
        }
    }

    /// Writes an object, however long it takes.
    async fn put(&self, name: &str, content: Vec<u8>) -> Result<(), String> {
        loop {
            self.look()?;
            match self.shared.plan.bucket.put(name, content.clone()).await {
                Ok(bytes) => {
                    self.shared.standing.counters.full_bytes.add(bytes);
                    return Ok(());
                }
                Err(what) => {
                    self.shared.standing.fail(&what);
                    sleep(LONG_PAUSE).await;
                }
            }
        }
    }
}

fn read_part(engine: &dyn Engine, from: Vec<u8>) -> Result<Part, String> {
    let mut part = Part { bytes: Vec::new(), rows: 0, next: None };
    let range = from..all_keys().end;
    let read = engine.scan_within(&[range], &mut |key, value| {
        if part.bytes.len() >= PART_BYTES {
            part.next = Some(key.to_vec());
            return Visit::Break(());
        }
        put_row(&mut part.bytes, key, value);
        part.rows += 1;
        Visit::Continue(())
    });
    read.map(|()| part).map_err(|error| error.to_string())
}
