//! The messaging engine of Throng: a pure state machine.
#![forbid(unsafe_code)]

pub mod limits;
pub mod wire;
