//! Bytes and addresses of the protocol.

pub mod error;
pub mod jid;
