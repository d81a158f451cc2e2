//! The binary's rooms.
pub mod disk;
