//! `throng top`: a live screen of a server, here or elsewhere, by its operator's HTTP.
//!
//! ```text
//! source (a thread: the recording as it grows, /api/now, /api/busiest) --> view (what is known) --> screen (a frame of it)
//!                                     input (the terminal's) --> keys (what is chosen) ─┘                │
//!                                                                                      terminal <────────┘
//! ```
//!
//! This module shows numbers that others have taken; it knows no server but by its HTTP, and changes nothing there.

pub mod input;
pub mod keys;
pub mod screen;
pub mod source;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod view;
