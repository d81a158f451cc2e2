//! One ring of the kernel's, with its table of direct descriptors.

use super::support::{Use, explain};
use io_uring::types::{CancelBuilder, SubmitArgs};
use io_uring::{IoUring, cqueue, squeue};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The kernel makes its table of pending operations by this, too: at 8,192 it has 256 lists, the most it makes. A poll is
/// looked for in one of them whenever a connection moves or ends, and 20,000 connections have one each.
const COMPLETIONS: u32 = 8192;

pub(crate) const ENTER_GETEVENTS: u32 = 1;
pub(crate) const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_NO_IOWAIT: u32 = 1 << 7;

/// See the module.
pub(crate) struct Table {
    ring: IoUring,
    enter_flags: u32,
    /// The first of the tables has a poll of this one in the kernel.
    pub(crate) is_armed: bool,
}

impl Table {
    /// With `slots` direct descriptors; `first` if threads sleep on it.
    ///
    /// # Errors
    /// A sentence saying what this kernel refuses.
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

    /// A second descriptor of the ring.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        // SAFETY: the ring keeps its descriptor open for as long as it lives, which covers this call.
        unsafe { BorrowedFd::borrow_raw(self.raw()) }.try_clone_to_owned()
    }

    /// Adds an entry; false if there is no room.
    ///
    /// # Safety
    /// Memory that the entry points to must stay until its completion.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Whether there is room for `count` entries.
    pub(crate) fn has_room(&mut self, count: usize) -> bool {
        let queue = self.ring.submission();
        queue.capacity() - queue.len() >= count
    }

    /// Whether a wait for completions can have a time in which it goes on although there are some.
    pub(crate) fn can_gather(&self) -> bool {
        self.ring.params().is_feature_min_timeout()
    }

    /// Whether entries wait to be submitted.
    pub(crate) fn is_pending(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Whether completions wait that had no room among the others: only the next `enter` for events brings them.
    pub(crate) fn has_overflown(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Whether there is anything to collect.
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.has_overflown()
    }

    /// The completions there are.
    pub(crate) fn completions(&mut self) -> cqueue::CompletionQueue<'_> {
        self.ring.completion()
    }

    /// Submits what is pending, and waits for `want` completions if the flags say so.
    pub(crate) fn enter(&mut self, want: u32, flags: u32, args: Option<&SubmitArgs<'_, '_>>) -> io::Result<()> {
        let pending = self.ring.submission().len() as u32;
        // SAFETY: `args` is what `EXT_ARG` announces, and outlives the call.
        let entered = unsafe { self.ring.submitter().enter(pending, want, flags | self.enter_flags, args) };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time is up, a signal came, or the completions are full and have to be taken first.
                Some(libc::ETIME | libc::EINTR) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Ends all operations and closes all sockets. Threads of the kernel's may go on with some for a while.
    pub(crate) fn shut(&mut self) {
        let submitter = self.ring.submitter();
        let _ = submitter.register_sync_cancel(None, CancelBuilder::any());
        let _ = submitter.unregister_files();
    }
}

/// `EBUSY` and `EAGAIN` ask to take completions first, which is what happens next.
pub(crate) fn busy_is_fine(entered: io::Result<()>) -> io::Result<()> {
    match entered {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => Ok(()),
        other => other,
    }
}
