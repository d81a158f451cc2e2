//! Bytes and addresses of the protocol.

pub mod jid;
