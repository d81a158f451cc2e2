//! One connection and one session: what a stream's state is, and what one session owes and is owed.
//!
//! This module knows one peer. It does not know other sessions, rosters or rows; what has to happen elsewhere the shard
//! does.

pub mod bosh;
pub mod conn;
pub mod facts;
pub mod inline;
pub mod moved;
pub mod pace;
pub mod sasl;
pub mod sm;
pub mod table;
