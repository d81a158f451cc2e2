//! Memory held by a thread, counted by the allocator of this test.

use throng_sys::testing::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that this thread has allocated and not freed.
pub(super) fn live() -> isize {
    Counting::live()
}

/// Runs code whose memory does not belong to the server and is freed here, too.
pub(super) fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    Counting::uncounted(work)
}
