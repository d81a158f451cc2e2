//! The simulated world: many shards, one clock, network, store and clients on one thread from one
//! seed.
//!
//! It is a host of the engine like the server, and must access a shard only through
//! [`Input`](throng_engine::io::Input) and [`Effect`](throng_engine::io::Effect). Besides these it
//! uses only the read-only [`Shard::inspect`](throng_engine::shard::Shard::inspect).
//!
//! - [`random`]: the only source of randomness
//! - [`disk`], [`net`], [`world`]: the environment of the shards
//! - [`xml`]: a client's parser of a stream
//! - [`client`], [`workload`], [`checks`]: random runs with faults, and their invariants
//! - [`script`], [`stage`]: conversations as data, and the world in which they run
//! - [`host`]: one shard without a world, for tests that examine each effect
//! - [`frame`]: a client's WebSocket frames
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
