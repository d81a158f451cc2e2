//! Addresses to homes, and users to their sessions.
//!
//! This module knows who is where. It does not know what a stanza says and sends nothing.

pub mod users;
