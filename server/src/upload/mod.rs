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
pub use files::{Bounds, FOLDER, Files, Listed, NoFile};
pub use serve::{Limits, Tls, UploadServer};
pub use sweep::sweep;

use throng_engine::counter_table;
use throng_engine::store::account::Incarnation;

counter_table! {
    /// Counters of uploads and downloads. The thread that answers is their only writer.
    UploadCounters:
    requests Count "Requests of any kind.";
    uploads Count "Files uploaded.";
    upload_bytes Count "Bytes of these files.";
    uploads_refused Count "Uploads refused or interrupted, for any reason.";
    uploads_full Count "Of these, those refused for lack of room.";
    downloads Count "Downloads started, of files or ranges of files.";
    download_bytes Count "Bytes sent by downloads.";
    stored_bytes Gauge "Bytes of all stored files, as of the last upload or sweep.";
}

/// Looks up the owners of files.
pub trait Owners: Send + Sync {
    /// Whether this account exists in this incarnation. `None` if that cannot be determined now.
    fn is_there(&self, owner: &str, incarnation: Incarnation) -> Option<bool>;
}
