//! The Throng engine: one shard's world as a pure state machine.
#![forbid(unsafe_code)]

pub mod id;
pub mod limits;
pub mod session;
pub mod store;
pub mod wire;
