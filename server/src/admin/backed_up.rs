//! The continuous backup in a server's state.

use serde::{Deserialize, Serialize};

/// The state of a continuous backup.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BackupStanding {
    /// Where it is.
    pub to: String,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// Age of the oldest commit that is not in it yet, milliseconds.
    pub lag_ms: u64,
    /// Bytes of the journal that stay on disk until it takes them.
    pub kept_bytes: u64,
    /// When its newest full piece was completed, in seconds since 1970; `None` if none is.
    pub full_s: Option<u64>,
    /// What is wrong, as a sentence.
    pub trouble: Option<String>,
}
