//! The Throng engine: one shard's world as a pure state machine.
#![forbid(unsafe_code)]

mod accounts;
mod actors;
mod channels;
pub mod clock;
mod components;
mod contacts;
pub mod counters;
pub mod extension;
mod floor;
pub mod gate;
pub mod id;
pub mod io;
pub mod letters;
pub mod limits;
mod logs;
pub mod ns;
pub mod observers;
pub mod orders;
pub mod outbound;
pub mod portable;
mod requests;
pub mod router;
pub mod session;
pub mod settings;
pub mod shard;
pub mod slots;
pub mod store;
mod streams;
mod turn;
pub mod web;
pub mod wire;
