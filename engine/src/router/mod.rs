//! Maps addresses to homes, and users to their sessions.
//!
//! This module knows where users are. It does not know the content of stanzas and sends nothing.

pub mod queue;
pub mod users;
