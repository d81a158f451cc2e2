//! Throng's server part: what makes system calls, around the engine that makes none.

pub mod driver;
