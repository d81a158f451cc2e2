//! One kernel ring, with its table of direct descriptors.

use super::support::{Use, explain};
use io_uring::types::{CancelBuilder, SubmitArgs};
use io_uring::{IoUring, cqueue, squeue};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The kernel also sizes its hash table of pending operations by this: at 8,192 it has 256 lists,
/// the maximum. A poll is searched in one of them whenever a connection moves or ends, and 20,000
/// connections have one poll each.
const COMPLETIONS: u32 = 8192;

pub(crate) const ENTER_GETEVENTS: u32 = 1;
pub(crate) const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_NO_IOWAIT: u32 = 1 << 7;

/// One kernel ring; see the module.
pub(crate) struct Table {
    ring: IoUring,
    enter_flags: u32,
    /// Whether the first table has a poll of this one in the kernel.
    pub(crate) is_armed: bool,
}

impl Table {
    /// A ring with `slots` direct descriptors; `first` if threads sleep on it.
    ///
    /// # Errors
    /// A sentence that names what this kernel refuses.
    pub(crate) fn new(slots: u32, purpose: Use, first: bool) -> io::Result<Table> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_coop_taskrun().setup_submit_all().setup_cqsize(COMPLETIONS);
        if first {
            builder.setup_defer_taskrun();
        }
        let ring = builder.build(purpose.submissions()).map_err(|error| explain("a ring cannot be made", error))?;
        ring.submitter()
            .register_files_sparse(slots)
            .map_err(|error| explain("a table of direct descriptors cannot be made", error))?;
        let enter_flags = if ring.params().is_feature_no_iowait() { ENTER_NO_IOWAIT } else { 0 };
        Ok(Table { ring, enter_flags, is_armed: false })
    }

    pub(crate) fn ring(&self) -> &IoUring {
        &self.ring
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// A duplicate descriptor of the ring.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        // SAFETY: the ring keeps its descriptor open for as long as it lives, which covers this
        // call.
        unsafe { BorrowedFd::borrow_raw(self.raw()) }.try_clone_to_owned()
    }

    /// Adds an entry; false if there is no room.
    ///
    /// # Safety
    /// Memory that the entry points to must stay valid until its completion.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Whether there is room for `count` entries.
    pub(crate) fn has_room(&mut self, count: usize) -> bool {
        let queue = self.ring.submission();
        queue.capacity() - queue.len() >= count
    }

    /// Whether a wait can continue for a time although there are completions.
    pub(crate) fn can_gather(&self) -> bool {
        self.ring.params().is_feature_min_timeout()
    }

    /// Whether entries wait to be submitted.
    pub(crate) fn is_pending(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Whether completions have overflown: only the next `enter` for events yields them.
    pub(crate) fn has_overflown(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Whether there are completions to collect.
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.has_overflown()
    }

    /// The available completions.
    pub(crate) fn completions(&mut self) -> cqueue::CompletionQueue<'_> {
        self.ring.completion()
    }

    /// Submits pending entries, and waits for `want` completions if the flags say so.
    pub(crate) fn enter(&mut self, want: u32, flags: u32, args: Option<&SubmitArgs<'_, '_>>) -> io::Result<()> {
        let pending = self.ring.submission().len() as u32;
        // SAFETY: `args` is what `EXT_ARG` announces, and outlives the call.
        let entered = unsafe { self.ring.submitter().enter(pending, want, flags | self.enter_flags, args) };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // A timeout, a signal, or full completions, which must be collected first.
                Some(libc::ETIME | libc::EINTR) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Cancels all operations and closes all sockets. Threads of the kernel may continue some for a
    /// while.
    pub(crate) fn shut(&mut self) {
        let submitter = self.ring.submitter();
        let _ = submitter.register_sync_cancel(None, CancelBuilder::any());
        let _ = submitter.unregister_files();
    }
}

/// `EBUSY` and `EAGAIN` require collecting completions first, which happens next.
pub(crate) fn busy_is_fine(entered: io::Result<()>) -> io::Result<()> {
    match entered {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => Ok(()),
        other => other,
    }
}
