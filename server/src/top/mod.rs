//! `throng top`: a live view of a local or remote server, through its operator's HTTP interface.
//!
//! ```text
//! source (a thread: the recording as it grows, /api/now, /api/busiest) --> view --> screen
//!                    input (the terminal's) --> keys (the choices) ──────────┘         │
//!                                                                       terminal <─────┘
//! ```
//!
//! This module shows figures of the server; it knows a server only through HTTP, and changes
//! nothing there.

pub mod input;
pub mod keys;
pub mod screen;
pub mod source;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod view;
