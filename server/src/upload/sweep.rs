//! The slow sweep over all files: counts existing files, and removes expired ones.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Files;
use super::files::{list, remove};
use crate::clock::Clock;
use crate::waits;

/// Time between the end of a round and the next one.
const ROUND: Duration = Duration::from_secs(600);
/// Time between two of the 256 parts, from the second round on: messages have priority on the disk.
const STEP: Duration = Duration::from_millis(50);
/// Time after which a step of the first round ends, once its present part is done: the server's
/// shutdown waits for one step at most.
const FIRST_STEP: Duration = Duration::from_millis(200);

/// Starts the sweep's thread. Its first round runs fast: uploads are refused until all files are
/// counted.
///
/// # Errors
/// A thread cannot be created.
pub fn sweep(files: Arc<Files>, clock: Clock) -> io::Result<waits::Repeated> {
    let mut round = Round::default();
    waits::repeat("upload sweep", STEP, move || round.step(&files, clock.now().expiry_us / 1_000_000))
}

/// The position of the sweep.
#[derive(Default)]
pub(super) struct Round {
    /// The next part; the round is complete at 256.
    part: u16,
    bytes: u64,
    removed: u64,
    counted_once: bool,
    waits: Duration,
}

impl Round {
    /// A first round, to its end: a step of it ends after [`FIRST_STEP`].
    #[cfg(test)]
    pub(super) fn whole(files: &Arc<Files>, now_s: u64) {
        let mut round = Round::default();
        while !round.counted_once {
            round.step(files, now_s);
        }
    }

    pub(super) fn step(&mut self, files: &Arc<Files>, now_s: u64) {
        if self.waits >= STEP {
            self.waits -= STEP;
            return;
        }
        let began = Instant::now();
        loop {
            if self.part == 0 {
                files.count_begins();
            }
            if let Err(error) = self.part(files, now_s) {
                tracing::warn!(%error, "cannot scan the uploaded files");
                // If a part cannot be counted, uploads stay refused: the round is restarted.
                (*self, self.waits) = (Round { counted_once: self.counted_once, ..Round::default() }, ROUND / 10);
                return;
            }
            self.part += 1;
            if self.part > u16::from(u8::MAX) {
                files.count_ended(self.bytes);
                if self.removed > 0 {
                    tracing::info!(
                        removed = self.removed,
                        bytes_left = self.bytes,
                        "removed uploaded files that have expired or whose owner is gone"
                    );
                }
                *self = Round { counted_once: true, waits: ROUND, ..Round::default() };
                return;
            }
            if self.counted_once || began.elapsed() > FIRST_STEP {
                return;
            }
        }
    }

    fn part(&mut self, files: &Arc<Files>, now_s: u64) -> io::Result<()> {
        let part = u8::try_from(self.part).unwrap_or(u8::MAX);
        for listed in list(files.folder(), part)? {
            if files.is_over(&listed, now_s) {
                remove(files.folder(), &listed.id)?;
                self.removed += 1;
            } else {
                self.bytes += listed.bytes;
            }
        }
        Ok(())
    }
}
