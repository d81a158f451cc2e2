//! The simulated world: many shards, one clock, network, store and clients on one thread from one seed.
//!
//! It is a host of the engine like the server, and must never reach into a shard except through
//! [`Input`](throng_engine::io::Input) and [`Effect`](throng_engine::io::Effect); what it looks at beside is the read-only
//! [`Shard::inspect`](throng_engine::shard::Shard::inspect).
//!
//! - [`random`]: the one source of chance
//! - [`disk`], [`net`], [`world`]: what surrounds the shards
//! - [`xml`]: a client's reading of a stream
//! - [`client`], [`workload`], [`checks`]: random runs with faults, and what must hold
//! - [`script`], [`stage`]: what is said as data, and the world it is played on
//! - [`host`]: one shard without a world, for tests that look at each effect
//! - [`frame`]: what a client sends on a WebSocket
#![forbid(unsafe_code)]

pub mod checks;
pub mod client;
pub mod disk;
pub mod frame;
pub mod host;
pub mod net;
pub mod random;
pub mod script;
pub mod stage;
pub mod workload;
pub mod world;
pub mod xml;
