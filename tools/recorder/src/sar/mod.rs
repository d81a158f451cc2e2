//! Shows recordings, or the current host: `throng sar`.
//!
//! ```text
//! feed (files of a folder or a server, this host) -> rates -> text | data (JSON, CSV) | summary
//! ```
//!
//! This module knows how numbers are shown and never how they were taken.

mod cli;
mod course;
mod data;
mod feed;
mod host;
mod number;
mod place;
mod rates;
mod record;
mod remote;
mod select;
mod series;
mod summary;
mod text;
mod time;

pub use cli::{Outcome, Setting, command, run};
pub use feed::{Feed, Files, Said};
pub use place::{Had, Place};
pub use rates::{Moment, Rows, between};
pub use remote::{Http, Remote};
pub use select::Selection;
pub use series::{Column, Plotter, Series};
pub use summary::{Figures, Summary};

/// Why it failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The arguments are wrong.
    Usage(String),
    /// Something failed.
    Failed(String),
    /// Another process writes to it.
    InUse(String),
    /// The reader of the output has closed its end.
    Closed,
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Failed(error.to_string()),
        }
    }
}
