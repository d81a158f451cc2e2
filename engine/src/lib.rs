//! The Throng engine: one shard's world as a pure state machine.
#![forbid(unsafe_code)]

pub mod feature;
pub mod id;
pub mod limits;
pub mod store;
pub mod wire;
