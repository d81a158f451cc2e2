//! The ring itself: each operation as a method, the word that names its completion, entering the kernel.

use crate::sys;
use crate::word::{Op, Word};
use io_uring::types::{CancelBuilder, DestinationSlot, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use socket2::SockAddr;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// The kernel makes its table of pending operations by this, too: at 8,192 it has 256 lists, the most it makes. A poll is
/// looked for in one of them whenever a connection moves or ends, and 20,000 connections have one each.
const COMPLETIONS: u32 = 8192;

const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_NO_IOWAIT: u32 = 1 << 7;

/// What a ring is for: who only accepts runs on older kernels than who connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Connections are accepted, and moved between rings (Linux 6.7).
    Accepting,
    /// Connections are made (Linux 6.11).
    Connecting,
}

impl Use {
    /// Entries of the submission queue: what does not fit is submitted early.
    fn submissions(self) -> u32 {
        match self {
            Use::Accepting => 256,
            // A connection takes up to five.
            Use::Connecting => 1024,
        }
    }

    /// Operations beside those that both need, and the first Linux that has all.
    fn needs(self) -> (&'static [(u8, &'static str)], &'static str) {
        match self {
            Use::Accepting => (
                &[
                    (opcode::Accept::CODE, "accept"),
                    (opcode::Shutdown::CODE, "shutdown"),
                    (opcode::MsgRingSendFd::CODE, "msg_ring"),
                ],
                "6.7",
            ),
            Use::Connecting => (
                &[(opcode::Socket::CODE, "socket"), (opcode::Bind::CODE, "bind"), (opcode::Connect::CODE, "connect")],
                "6.11",
            ),
        }
    }
}

/// Operations that both uses need.
const NEEDED: [(u8, &str); 6] = [
    (opcode::PollAdd::CODE, "poll"),
    (opcode::Recv::CODE, "recv"),
    (opcode::Send::CODE, "send"),
    (opcode::Close::CODE, "close"),
    (opcode::AsyncCancel::CODE, "cancel"),
    (opcode::SetSockOpt::CODE, "uring_cmd"),
];

/// A ring of one thread.
pub struct Ring {
    ring: IoUring,
    /// Completions taken early, because the kernel would not submit before.
    early: Vec<cqueue::Entry>,
    enter_flags: u32,
}

impl Ring {
    /// A ring with a table of `slots` direct descriptors.
    ///
    /// # Errors
    /// A sentence saying what this kernel refuses.
    pub fn new(slots: u32, purpose: Use) -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(purpose.submissions())
            .map_err(|error| explain("a ring cannot be made", error))?;
        check_operations(&ring, purpose)?;
        ring.submitter()
            .register_files_sparse(slots)
            .map_err(|error| explain("a table of direct descriptors cannot be made", error))?;
        let enter_flags = if ring.params().is_feature_no_iowait() { ENTER_NO_IOWAIT } else { 0 };
        let mut ring = Ring { ring, early: Vec::new(), enter_flags };
        ring.check_options().map_err(|error| explain("socket options cannot be set", error))?;
        Ok(ring)
    }

    /// A second descriptor of the ring, for other threads to send to.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        // SAFETY: the ring keeps its descriptor open for as long as it lives, which covers this call.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }.try_clone_to_owned()
    }

    /// Sets an option of a UDP socket, as the abort of a connection does: kernels before 6.7 have the operation, and
    /// refuse this use of it.
    fn check_options(&mut self) -> io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let (level, name, value, size) = abort_option();
        let entry = opcode::SetSockOpt::new(Fd(socket.as_raw_fd()), level, name, value, size).build();
        // SAFETY: the value is static.
        unsafe { self.push(entry.user_data(Word::new(Op::None, 0, 0).0)) };
        let mut done = Vec::new();
        while done.is_empty() {
            self.sleep(None)?;
            self.collect(&mut done);
        }
        let result = done[0].result();
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
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

    /// Submits what is pending; operations that need not wait are done afterwards.
    pub fn submit(&mut self) -> io::Result<()> {
        self.enter(0, 0, None)
    }

    /// Submits what is pending and lets the kernel post what has happened.
    pub fn poll(&mut self) -> io::Result<()> {
        busy_is_fine(self.enter(0, ENTER_GETEVENTS, None))
    }

    /// Submits what is pending and waits for one completion.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.early.is_empty() {
            return self.poll();
        }
        let time = timeout.map(Timespec::from);
        let args = match &time {
            Some(time) => SubmitArgs::new().timespec(time),
            None => SubmitArgs::new(),
        };
        busy_is_fine(self.enter(1, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&args)))
    }

    /// Moves the completions there are to the end of `into`.
    pub fn collect(&mut self, into: &mut Vec<cqueue::Entry>) {
        into.append(&mut self.early);
        into.extend(self.ring.completion());
    }

    /// Accepts one connection into a free slot of the table.
    ///
    /// # Safety
    /// `room` must stay until the completion.
    pub unsafe fn accept(&mut self, listener: RawFd, room: *mut sys::NameRoom, word: Word) {
        // SAFETY: the caller's promise; no reference is made.
        let (name, length) = unsafe { (&raw mut (*room).name, &raw mut (*room).length) };
        let entry = opcode::Accept::new(Fd(listener), name.cast(), length)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        // SAFETY: the caller's promise.
        unsafe { self.push(entry.user_data(word.0)) };
    }

    /// Makes a socket in the slot and connects it: one chain, of which one completion comes, a link's if it fails and
    /// that of the connect else.
    ///
    /// # Safety
    /// The addresses must stay as long as the ring.
    pub unsafe fn connect(&mut self, slot: u32, from: Option<&SockAddr>, to: &SockAddr) {
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

    /// Puts completions back that were taken too early, for the next [`Ring::collect`].
    pub fn put_back(&mut self, entries: impl IntoIterator<Item = cqueue::Entry>) {
        self.early.extend(entries);
    }

    /// Asks for the peer's address, which has exactly `length` bytes: done when `submit` returns.
    ///
    /// # Safety
    /// `name` must stay until the completion.
    pub unsafe fn peer_name(&mut self, slot: u32, name: *mut sys::Name, length: u32, word: Word) {
        let (level, option) = (libc::SOL_SOCKET as u32, libc::SO_PEERNAME as u32);
        let entry = opcode::SetSockOpt::new(Fixed(slot), level, option, name.cast(), length).build();
        // SAFETY: the caller's promise.
        unsafe { self.push(into_getsockopt(entry).user_data(word.0)) };
    }

    /// Tells each time that bytes have arrived, or an end or an error.
    pub fn watch(&mut self, slot: u32, word: Word) {
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        // SAFETY: points to no memory.
        unsafe { self.push(opcode::PollAdd::new(Fixed(slot), events).multi(true).build().user_data(word.0)) };
    }

    /// The same for a descriptor of the process.
    pub fn watch_descriptor(&mut self, fd: RawFd, word: Word) {
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true).build();
        // SAFETY: points to no memory.
        unsafe { self.push(entry.user_data(word.0)) };
    }

    /// Receives what is there, without waiting: done when `submit` returns.
    ///
    /// # Safety
    /// `length` writable bytes at `buffer` must stay until the completion.
    pub unsafe fn receive(&mut self, slot: u32, buffer: *mut u8, length: u32, word: Word) {
        let entry = opcode::Recv::new(Fixed(slot), buffer, length).flags(libc::MSG_DONTWAIT).build();
        // SAFETY: the caller's promise.
        unsafe { self.push(entry.user_data(word.0)) };
    }

    /// Sends all bytes, however long the peer takes.
    ///
    /// # Safety
    /// The bytes must stay until the completion.
    pub unsafe fn send(&mut self, slot: u32, bytes: &[u8], word: Word) {
        let length = u32::try_from(bytes.len()).unwrap_or(1 << 30);
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = opcode::Send::new(Fixed(slot), bytes.as_ptr(), length).flags(flags).build();
        // SAFETY: the caller's promise.
        unsafe { self.push(entry.user_data(word.0)) };
    }

    /// Ends the operation named `word`, which then completes with `ECANCELED`.
    pub fn cancel(&mut self, word: Word) {
        let entry = opcode::AsyncCancel::new(word.0).build().flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: points to no memory.
        unsafe { self.push(entry.user_data(Word::new(Op::None, 0, 0).0)) };
    }

    /// Ends our direction with a FIN. A worker of the kernel does it, some time later, to whatever is in the slot then: the
    /// slot must not be given up before the completion.
    pub fn shutdown_write(&mut self, slot: u32, word: Word) {
        let entry = opcode::Shutdown::new(Fixed(slot), libc::SHUT_WR).build();
        // SAFETY: points to no memory.
        unsafe { self.push(entry.user_data(word.0)) };
    }

    /// Takes the socket out of the table, which closes it; with a RST if `abort`.
    pub fn close(&mut self, slot: u32, abort: bool, word: Word) {
        if abort {
            self.reserve(2);
            let (level, name, value, size) = abort_option();
            let entry = opcode::SetSockOpt::new(Fixed(slot), level, name, value, size).build();
            let entry = entry.flags(squeue::Flags::IO_HARDLINK);
            // SAFETY: the value is static.
            unsafe { self.push(entry.user_data(Word::new(Op::None, 0, 0).0)) };
        }
        // SAFETY: points to no memory.
        unsafe { self.push(opcode::Close::new(Fixed(slot)).build().user_data(word.0)) };
    }

    /// Puts the socket into another ring's table, and then takes it out of this one. If the first fails, the second is
    /// cancelled.
    pub fn depart(&mut self, slot: u32, to: BorrowedFd<'_>, key: u64, moved: Word, closed: Word) {
        self.reserve(2);
        let there = DestinationSlot::auto_target();
        let entry = opcode::MsgRingSendFd::new(Fd(to.as_raw_fd()), Fixed(slot), there, Word::arrive(key).0)
            .build()
            .flags(squeue::Flags::IO_LINK);
        // SAFETY: both point to no memory; the other ring's descriptor is kept until the completion.
        unsafe {
            self.push(entry.user_data(moved.0));
            self.push(opcode::Close::new(Fixed(slot)).build().user_data(closed.0));
        }
    }

    /// Ends all operations and closes all sockets of the table; false if the kernel may still be reading from sends.
    pub fn shut(&mut self) -> bool {
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

/// Turns a `setsockopt` of the ring into a `getsockopt` (Linux 6.7): they differ in one number, and the library has only
/// the former. `SO_PEERNAME` this way is the one means to learn the peer's address of a direct descriptor without giving it
/// a descriptor of the process for a moment.
fn into_getsockopt(mut entry: squeue::Entry) -> squeue::Entry {
    /// From the kernel's `enum io_uring_socket_op`.
    const GETSOCKOPT: u32 = 2;
    /// Offset of `cmd_op` in the kernel's `struct io_uring_sqe`.
    const CMD_OP_OFFSET: usize = 8;
    const { assert!(size_of::<squeue::Entry>() == 64, "an entry is the kernel's 64 bytes") };
    // SAFETY: the entry is the kernel's structure of 64 bytes, aligned to eight; any u32 is valid there.
    unsafe { (&raw mut entry).cast::<u8>().add(CMD_OP_OFFSET).cast::<u32>().write(GETSOCKOPT) };
    entry
}

/// Level, name, value and size of the option that makes a close a reset.
fn abort_option() -> (u32, u32, *const libc::c_void, u32) {
    let value = (&raw const sys::ABORT).cast();
    (libc::SOL_SOCKET as u32, libc::SO_LINGER as u32, value, size_of::<libc::linger>() as u32)
}

fn check_operations(ring: &IoUring, purpose: Use) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(|error| explain("operations cannot be probed", error))?;
    let (more, version) = purpose.needs();
    match NEEDED.iter().chain(more).find(|(code, _)| !probe.is_supported(*code)) {
        Some((_, name)) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("this kernel's io_uring has no {name} (Linux {version})"),
        )),
        None => Ok(()),
    }
}

/// Names the usual reasons.
fn explain(what: &str, error: io::Error) -> io::Error {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    let disabled = disabled.ok().filter(|value| value.trim() != "0");
    let why = match (error.raw_os_error(), disabled) {
        (Some(libc::EPERM), Some(value)) => format!("kernel.io_uring_disabled is {}", value.trim()),
        (Some(libc::EPERM), None) => "not permitted, probably by a seccomp filter".to_owned(),
        (Some(libc::ENOSYS), _) => "this kernel has no io_uring, or a seccomp filter hides it".to_owned(),
        (Some(libc::EINVAL), _) => "this kernel is too old (6.7 is needed)".to_owned(),
        (Some(libc::EOPNOTSUPP), _) => "this kernel is too old (6.7 is needed)".to_owned(),
        (Some(libc::EMFILE), _) => "no descriptors left (RLIMIT_NOFILE)".to_owned(),
        (Some(libc::ENOMEM), _) => "no memory left (RLIMIT_MEMLOCK or a control group)".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("{what}: {why}"))
}
