//! Memory that is held by what a thread does, counted by the allocator of this test.

use throng_sys::testing::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that this thread has taken and not given back.
pub(super) fn live() -> isize {
    Counting::live()
}

/// Does something whose memory is not the server's: what it takes it gives back here, too.
pub(super) fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    Counting::uncounted(work)
}
