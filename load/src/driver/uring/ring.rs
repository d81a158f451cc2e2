//! The ring itself: each operation as a method, the word that names its completion, entering the kernel.

use crate::driver::sys;
use io_uring::types::{CancelBuilder, DestinationSlot, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use socket2::SockAddr;
use std::io;
use std::time::Duration;

const SUBMISSIONS: u32 = 1024;
/// The kernel makes its table of pending operations by this, too: at 8,192 it has 256 lists, the most it makes.
const COMPLETIONS: u32 = 8192;

const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;

/// What a completion is of: the top byte of its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Op {
    /// Nobody waits for it.
    None = 0,
    /// A link of the chain that makes a connection has failed.
    Link = 1,
    Connect = 2,
    Poll = 3,
    Receive = 4,
    Send = 5,
    Close = 6,
}

/// The word of an operation: kind, slot (24 bits), a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) fn new(op: Op, slot: u32, low: u32) -> Word {
        debug_assert!(slot < 1 << 24);
        Word((op as u64) << 56 | u64::from(slot) << 32 | u64::from(low))
    }

    pub(super) fn op(self) -> Op {
        match (self.0 >> 56) as u8 {
            1 => Op::Link,
            2 => Op::Connect,
            3 => Op::Poll,
            4 => Op::Receive,
            5 => Op::Send,
            6 => Op::Close,
            _ => Op::None,
        }
    }

    pub(super) fn slot(self) -> u32 {
        (self.0 >> 32) as u32 & 0x00ff_ffff
    }

    pub(super) fn low(self) -> u32 {
        self.0 as u32
    }
}

/// A ring of one thread.
pub(super) struct Ring {
    ring: IoUring,
    /// Completions taken early, because the kernel would not submit before.
    early: Vec<cqueue::Entry>,
}

impl Ring {
    /// A ring with a table of `slots` direct descriptors.
    ///
    /// # Errors
    /// A sentence saying what this kernel refuses.
    pub(super) fn new(slots: u32) -> io::Result<Ring> {
        let explain = |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)
            .map_err(|error| explain("a ring cannot be made", error))?;
        check_operations(&ring)?;
        ring.submitter()
            .register_files_sparse(slots)
            .map_err(|error| explain("a table of direct descriptors cannot be made", error))?;
        Ok(Ring { ring, early: Vec::new() })
    }

    /// # Safety
    /// Memory that the entry points to must stay until its completion.
    unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: the caller's promise.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.make_room();
        }
    }

    /// Leaves room for `count` entries that must be submitted together.
    fn reserve(&mut self, count: usize) {
        loop {
            let queue = self.ring.submission();
            if queue.capacity() - queue.len() >= count {
                return;
            }
            drop(queue);
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        if self.submit().is_err() {
            // Out of memory, or the completions are full: take those, and let others run.
            let mut early = std::mem::take(&mut self.early);
            early.extend(self.ring.completion());
            self.early = early;
            std::thread::yield_now();
        }
    }

    fn enter(&mut self, want: u32, flags: u32, args: Option<&SubmitArgs<'_, '_>>) -> io::Result<()> {
        let pending = self.ring.submission().len() as u32;
        // SAFETY: `args` is what `EXT_ARG` announces, and outlives the call.
        let entered = unsafe { self.ring.submitter().enter(pending, want, flags, args) };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time is up, or a signal came.
                Some(libc::ETIME | libc::EINTR) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Submits what is pending; operations that need not wait are done afterwards.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        self.enter(0, 0, None)
    }

    /// Submits what is pending and lets the kernel post what has happened.
    pub(super) fn poll(&mut self) -> io::Result<()> {
        busy_is_fine(self.enter(0, ENTER_GETEVENTS, None))
    }

    /// Submits what is pending and waits for one completion.
    pub(super) fn sleep(&mut self, timeout: Duration) -> io::Result<()> {
        if !self.early.is_empty() {
            return self.poll();
        }
        let time = Timespec::from(timeout);
        let args = SubmitArgs::new().timespec(&time);
        busy_is_fine(self.enter(1, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&args)))
    }

    /// Moves the completions there are to the end of `into`.
    pub(super) fn collect(&mut self, into: &mut Vec<cqueue::Entry>) {
        into.append(&mut self.early);
        into.extend(self.ring.completion());
    }

    /// Makes a socket in the slot and connects it: one chain, of which one completion comes, a link's if it fails and
    /// that of the connect else.
    ///
    /// # Safety
    /// The addresses must stay as long as the ring.
    pub(super) unsafe fn connect(&mut self, slot: u32, from: Option<&SockAddr>, to: &SockAddr) {
        let on = (&raw const sys::ON).cast();
        let option = |level: libc::c_int, option: libc::c_int| {
            opcode::SetSockOpt::new(Fixed(slot), level as u32, option as u32, on, size_of::<libc::c_int>() as u32)
                .build()
        };
        let there = DestinationSlot::try_from_slot_target(slot).ok();
        let family = libc::c_int::from(to.family());
        let socket = opcode::Socket::new(family, libc::SOCK_STREAM, 0).file_index(there).build();
        let mut links = vec![socket, option(libc::IPPROTO_TCP, libc::TCP_NODELAY)];
        if let Some(from) = from {
            links.push(option(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT));
            links.push(opcode::Bind::new(Fixed(slot), from.as_ptr().cast(), from.len()).build());
        }
        self.reserve(links.len() + 1);
        for link in links {
            let link = link.flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS);
            // SAFETY: the options' value is static; the address stays by the caller's promise.
            unsafe { self.push(link.user_data(Word::new(Op::Link, slot, 0).0)) };
        }
        let connect = opcode::Connect::new(Fixed(slot), to.as_ptr().cast(), to.len()).build();
        // SAFETY: the address stays by the caller's promise.
        unsafe { self.push(connect.user_data(Word::new(Op::Connect, slot, 0).0)) };
    }

    /// Tells each time that bytes have arrived, or an end or an error.
    pub(super) fn watch(&mut self, slot: u32) {
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        let entry = opcode::PollAdd::new(Fixed(slot), events).multi(true).build();
        // SAFETY: points to no memory.
        unsafe { self.push(entry.user_data(Word::new(Op::Poll, slot, 0).0)) };
    }

    /// Receives what is there, without waiting: done when `submit` returns.
    ///
    /// # Safety
    /// `length` writable bytes at `buffer` must stay until the completion.
    pub(super) unsafe fn receive(&mut self, slot: u32, buffer: *mut u8, length: u32, place: u32) {
        let entry = opcode::Recv::new(Fixed(slot), buffer, length).flags(libc::MSG_DONTWAIT).build();
        // SAFETY: the caller's promise.
        unsafe { self.push(entry.user_data(Word::new(Op::Receive, slot, place).0)) };
    }

    /// Sends all bytes, however long the peer takes.
    ///
    /// # Safety
    /// The bytes must stay until the completion.
    pub(super) unsafe fn send(&mut self, slot: u32, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(1 << 30);
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = opcode::Send::new(Fixed(slot), bytes.as_ptr(), length).flags(flags).build();
        // SAFETY: the caller's promise.
        unsafe { self.push(entry.user_data(Word::new(Op::Send, slot, 0).0)) };
    }

    /// Ends the operation of this kind in the slot, which then completes.
    pub(super) fn cancel(&mut self, op: Op, slot: u32) {
        let entry = opcode::AsyncCancel::new(Word::new(op, slot, 0).0).build().flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: points to no memory.
        unsafe { self.push(entry.user_data(Word::new(Op::None, 0, 0).0)) };
    }

    /// Takes the socket out of the table, which closes it; with a RST if `abort`.
    pub(super) fn close(&mut self, slot: u32, abort: bool) {
        if abort {
            self.reserve(2);
            let value = (&raw const sys::ABORT).cast();
            let length = size_of::<libc::linger>() as u32;
            let entry =
                opcode::SetSockOpt::new(Fixed(slot), libc::SOL_SOCKET as u32, libc::SO_LINGER as u32, value, length)
                    .build()
                    .flags(squeue::Flags::IO_HARDLINK);
            // SAFETY: the value is static.
            unsafe { self.push(entry.user_data(Word::new(Op::None, 0, 0).0)) };
        }
        // SAFETY: points to no memory.
        unsafe { self.push(opcode::Close::new(Fixed(slot)).build().user_data(Word::new(Op::Close, slot, 0).0)) };
    }

    /// Ends all operations and closes all sockets of the table; false if the kernel may still be reading from sends.
    pub(super) fn shut(&mut self) -> bool {
        let submitter = self.ring.submitter();
        let cancelled = match submitter.register_sync_cancel(None, CancelBuilder::any()) {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        let _ = submitter.unregister_files();
        cancelled
    }
}

/// `EBUSY` and `EAGAIN` ask to take completions first, which is what happens next.
fn busy_is_fine(entered: io::Result<()>) -> io::Result<()> {
    match entered {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => Ok(()),
        other => other,
    }
}

fn check_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed: [(u8, &str); 9] = [
        (opcode::Socket::CODE, "socket"),
        (opcode::SetSockOpt::CODE, "uring_cmd"),
        (opcode::Bind::CODE, "bind"),
        (opcode::Connect::CODE, "connect"),
        (opcode::PollAdd::CODE, "poll"),
        (opcode::Recv::CODE, "recv"),
        (opcode::Send::CODE, "send"),
        (opcode::Close::CODE, "close"),
        (opcode::AsyncCancel::CODE, "cancel"),
    ];
    match needed.iter().find(|(code, _)| !probe.is_supported(*code)) {
        Some((_, name)) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("this kernel's io_uring has no {name} (Linux 6.11)"),
        )),
        None => Ok(()),
    }
}
