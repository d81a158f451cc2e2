//! Sleeping and waking of threads, without a lock and without a lost wake-up.
//!
//! | file | sleeper | waker |
//! | --- | --- | --- |
//! | [`Bell`] | a shard's thread, in its driver | other shards, the committer, readers, jobs |
//! | [`Arrivals`] | the same: sockets handed over by other shards | other shards |
//! | [`Parking`] | the committer, for batches; a reader, for requests | shards |
//! | [`Gates`] | a shard or a reader, until a commit is durable | the committer |
//!
//! The files name atomics, fences and locks only through `sync`. `tests/waking` compiles these same
//! files over the atomics of a model checker, which explores every order of steps and every value
//! that the memory model lets a load see. It shows what a changed ordering would lose.
//!
//! This module does not know what threads sleep in: a system call, [`std::thread::park`], a model's
//! scheduler.

mod arrivals;
mod bell;
mod gates;
mod parking;
mod sync;

pub use arrivals::Arrivals;
pub use bell::Bell;
pub use gates::Gates;
pub use parking::Parking;
