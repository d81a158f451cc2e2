//! One connection and one session: the state of a stream, and both sides' obligations in a session.
//!
//! This module knows one peer. It does not know other sessions, rosters or rows. The shard does
//! what must happen elsewhere.

pub mod bosh;
pub mod conn;
pub mod facts;
pub mod half;
pub mod inline;
pub mod moved;
pub mod pace;
pub mod sasl;
pub mod sm;
pub mod table;
