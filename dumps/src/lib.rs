//! Readers of the texts that other servers write their data in: tables of Lua (Prosody), rows of SQL
//! and terms of Erlang (ejabberd).
//!
//! Nothing is evaluated. A reader yields one table, row or term at a time, however large the file is,
//! and bounds what one of them may hold: so a hostile file costs a bounded amount of memory. What the
//! data means is up to the caller.
#![forbid(unsafe_code)]

pub mod erlang;
mod input;
pub mod lua;
pub mod sql;
