//! The activity recorder: what a host and a server on it did, second by second, always on, at
//! negligible cost.
//!
//! ```text
//! sources (one file each) -> table -> recorder ─┬─> window (the last minutes, in memory)
//!                                               └─> ring (files of a bounded folder)
//!                            codec ─ record ────┘          │
//!                                                          ▼
//!                            sar: feed (files, or this host now) -> rates -> text, JSON, CSV, summary
//! ```
//!
//! | file | knows | must never know |
//! | --- | --- | --- |
//! | `schema`, `table` | modules, fields, rows, the shape of a sample | where numbers come from, how they are stored |
//! | `coder`, `codec` | numbers as few bits | their meaning |
//! | `record`, `read` | records, checksums, damage | files |
//! | `total` | all instances of a module together | files |
//! | `thin` | the thinning of old seconds | the destination |
//! | `ring`, `window` | files of a folder; the last minutes | their content |
//! | `sources` | the kernel's files, one source per file | each other, the rest |
//! | `recorder` | all of these; time is an argument | clocks |
//! | `clock` | clocks and waiting | |
//! | `sar` | reading and showing, behind one small trait for where samples come from | how they were taken |
//!
//! It links neither server nor engine: a server adds its own [`table::Source`]s.
#![forbid(unsafe_code)]

pub mod clock;
mod codec;
mod coder;
pub mod read;
pub mod record;
pub mod recorder;
pub mod ring;
pub mod sar;
pub mod schema;
pub mod sources;
pub mod table;
pub mod thin;
mod total;
pub mod window;
