//! All unsafe code of Throng, behind safe interfaces.
//!
//! | module | offers | its invariant |
//! | --- | --- | --- |
//! | [`uring`] | an io_uring with sockets in its own tables ("direct descriptors") | memory that an operation works on belongs to the ring until the operation is done, and is leaked if that is never known |
//! | [`calls`] | the system calls that drivers make beside a ring, and the store | no memory outlives its call |
//! | [`Sends`] | the bytes being sent by a thread | bytes that are lent to the kernel are not given back |
//! | [`Allocator`] | the program's allocator, and its maintenance calls | only free memory of the calling thread is returned to the system |
//! | [`HeapSampler`], [`TimeSampler`] | samples of what threads do | a sampled thread allocates nothing, locks nothing and calls nothing but system calls |
//!
//! This crate must never know what the bytes mean, nor keep state of a connection: that belongs to
//! the drivers, and differs between one that accepts and one that connects.

mod allocator;
pub mod calls;
mod sampler;
mod sends;
#[cfg(feature = "testing")]
pub mod testing;
pub mod uring;

pub use allocator::{Allocator, committed_memory, give_back_memory, keep_no_free_pages};
pub use sampler::{HeapSampler, Kept, Registers, Sample, TimeSampler};
pub use sends::{Advance, NONE, PROGRESS_BYTES, Sends};
