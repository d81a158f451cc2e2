//! What the server does beyond carrying stanzas: one file an extension, as pure functions that return closed enums.
//!
//! A feature never reads, writes or sends, and never calls another one: it is handed what it needs and says what should
//! follow; `shard` carries it out.

pub mod subscription;
