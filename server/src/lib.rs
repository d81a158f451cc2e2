//! The binary's rooms.
pub mod disk;
//! The rooms of the Throng server: everything that touches a socket, a file,
//! a thread or the clock, around the pure shards of `throng-engine`.

pub mod tls;
