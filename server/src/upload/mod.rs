//! Uploaded files (XEP-0363): kept in a folder, taken and served by HTTP.
//!
//! ```text
//! serve (listeners, TLS, bounds) -> answer ─┬─> put ─┐
//!                                           └─> get ─┴─> files (the folder) -> dyn Owners
//!                                    sweep ────────────> files
//! ```
//!
//! A thread of its own with a few helpers for the disk; nothing here is on the way of a stanza. A file is taken by the token of its slot,
//! which the engine's extension has made with the same key, and served to whoever knows its URL (XEP-0363 2). It is gone when its time is
//! over, and with its owner's account. This module never reads the store itself: whether an account is there it asks [`Owners`].

mod answer;
mod file;
mod files;
mod get;
mod put;
mod reply;
mod serve;
mod sweep;
#[cfg(test)]
mod tests;

pub use file::About;
pub use files::{Bounds, Files, Listed, NoFile};
pub use serve::{Limits, Tls, UploadServer};
pub use sweep::sweep;

use throng_engine::counter_table;
use throng_engine::store::account::Incarnation;

counter_table! {
    /// The numbers of uploads and downloads. The thread that answers is their one writer.
    UploadCounters:
    requests Count "Requests of any kind.";
    uploads Count "Files taken.";
    upload_bytes Count "Bytes of them.";
    uploads_refused Count "Uploads refused or broken off, for whatever reason.";
    uploads_full Count "Of these, those for which there was no room.";
    downloads Count "Files, or ranges of them, that were begun to be sent.";
    download_bytes Count "Bytes of them.";
    stored_bytes Gauge "Bytes of all files on the disk at the last upload or round of the sweep that was seen.";
}

/// Who files belong to.
pub trait Owners: Send + Sync {
    /// Whether this account is there, and not another one of its name. `None` if that cannot be told now.
    fn is_there(&self, owner: &str, incarnation: Incarnation) -> Option<bool>;
}
