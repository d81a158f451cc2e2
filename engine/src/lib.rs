//! The Throng engine: one shard as a pure state machine.
#![forbid(unsafe_code)]

mod accounts;
mod actors;
mod channels;
pub mod clock;
pub mod codec;
mod components;
mod contacts;
pub mod counters;
pub mod extension;
pub mod follow;
pub mod gate;
pub mod id;
pub mod io;
mod kernel;
pub mod letters;
pub mod limits;
pub mod link;
mod logs;
pub mod ns;
pub mod observers;
pub mod orders;
pub mod outbound;
pub mod portable;
pub mod rooms;
pub mod router;
pub mod session;
pub mod settings;
pub mod shard;
pub mod slots;
pub mod store;
mod streams;
pub mod web;
pub mod wire;
