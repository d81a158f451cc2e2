//! Uploaded files (XEP-0363): stored in a folder, uploaded and downloaded over HTTP.
//!
//! ```text
//! serve (listeners, TLS, bounds) -> answer ─┬─> put ─┐
//!                                           └─> get ─┴─> files (the folder) -> dyn Owners
//!                                    sweep ────────────> files
//! ```
//!
//! A separate thread with a few helpers for the disk; nothing in this module is on a stanza's path.
//! An upload is authorised by the token of its slot, which the engine's extension has created with
//! the same key. A file is served to every client that knows its URL (XEP-0363 2). It is removed
//! when it expires or its owner's account is deleted. This module never reads the store itself: it
//! queries [`Owners`] for accounts.

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
    /// Counters of uploads and downloads. The thread that answers is their only writer.
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

/// Looks up the owners of files.
pub trait Owners: Send + Sync {
    /// Whether this account exists in this incarnation. `None` if that cannot be determined now.
    fn is_there(&self, owner: &str, incarnation: Incarnation) -> Option<bool>;
}
