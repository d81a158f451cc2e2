//! Continuous backup: the journal and full pieces of a store in another place, and the way back.
//!
//! ```text
//! journal's segments ──tail──> ship ──┐                    ┌── plan ──> restore ──> data folder
//! store's rows ──scan──────> full ────┼─> bucket (sealed) ─┘
//! uploads, settings ───────> files ───┘
//! ```
//!
//! A thread of its own with a few helpers for the disk: nothing in this module is on a message's
//! path. A place that is slow or does not answer costs disk space, up to a bound, and nothing else.
//! This module never knows what a row means.

mod bucket;
mod files;
mod full;
mod owner;
mod pieces;
mod prune;
pub mod restore;
mod s3;
pub mod seal;
mod settings;
mod shared;
mod ship;
mod standing;
mod state;
#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

pub use bucket::Bucket;
pub use s3::S3Options;
pub use settings::{Paths, RESTORED};
pub use shared::Plan;
pub use ship::Backup;
pub use standing::Standing;
pub use state::adopt;

use crate::entropy::Entropy;

/// Bytes after which a part of a full piece or a piece of the journal ends.
const PART_BYTES: usize = 8 << 20;

/// Longest object that is read. One is as long as a part and one large row or group.
const OBJECT_BYTES_MAX: usize = 64 << 20;

/// A random name.
fn random() -> Result<String, String> {
    let bytes: [u8; 8] = Entropy::open().and_then(|mut entropy| entropy.fresh()).map_err(|error| error.to_string())?;
    Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
}

/// A time in milliseconds since 1970, as an operator reads it and writes it.
pub fn shown(time_ms: u64) -> String {
    let time = i64::try_from(time_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{time_ms} ms"), |time| format!("{time:.3}"))
}

/// Milliseconds since 1970 of a time such as `2026-11-29T01:02:03Z`, also with fractions or another
/// offset.
///
/// # Errors
/// It is none, in words.
pub fn time_ms(text: &str) -> Result<u64, String> {
    let time = text.parse::<Timestamp>().ok().and_then(|time| u64::try_from(time.as_millisecond()).ok());
    time.ok_or_else(|| format!("{text} is no time such as 2026-11-29T01:02:03Z"))
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
