//! The ring itself: each operation as a method, entering the kernel, taking completions.
//!
//! # More connections than a table holds
//!
//! The kernel bounds a ring's table by `RLIMIT_NOFILE`. So a [`Ring`] with more slots is several rings of the kernel's, its
//! *tables*, all of one thread. Slots are dealt out among them in turn: slot `s` of `n` tables is place `s / n` of table
//! `s % n`, and its operations go to that table's queue. With one table that is the slot itself, and all is as without.
//!
//! The thread sleeps on the first table. No wake-up may be lost while others have something to tell:
//!
//! * Only the first defers its work to the next call that asks for events. The others' is done whenever the thread is in
//!   the kernel, whichever ring it enters or sleeps on, so what has happened is seen in a table's completions without a
//!   system call for it, and a table is entered only to submit.
//! * Before it sleeps, the ring submits what is pending in any table, looks at each table's completions, and does not sleep
//!   if there are any. For each table that the first has no poll of, it then asks for one, and that goes to the kernel
//!   with the call that sleeps. The poll answers at once if the table has got completions since the look; else the next
//!   completion that is posted to the table, by whomever, answers it. So between the look and the sleep nothing falls through.
//! * A poll answers once (the kernel makes a poll of a ring single, against circles) and counts as there until its answer
//!   has been collected: until then the first table has a completion, and no sleep lasts.
//! * Completions beyond the room for them are not there to see, but announced by a flag, which counts as completions; the
//!   table is then entered for them.

use crate::done::Done;
use crate::support::{Use, abort_option, check_operations, explain};
use crate::sys;
use crate::table::{ENTER_EXT_ARG, ENTER_GETEVENTS, Table, busy_is_fine};
use crate::word::{Op, Word};
use io_uring::types::{DestinationSlot, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{opcode, squeue};
use socket2::SockAddr;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Bytes of one send at most. The kernel waits for room without a thread, but only 128 times in one operation; after that a
/// worker thread of the kernel blocks in it for as long as the peer reads by drops. Room is told of when a third of the
/// socket's buffer is free, so 128 KiB take fewer turns than that also in the smallest of buffers (4.6 KB).
pub const SEND_BYTES_MAX: usize = 128 << 10;

/// `IORING_MSG_RING_CQE_SKIP`: the other ring is not told; who has sent the socket tells its owner.
const MSG_RING_CQE_SKIP: u32 = 1;

/// A ring of one thread.
pub struct Ring {
    /// At least one; the thread sleeps on the first.
    tables: Vec<Table>,
    /// Slots of each.
    table_slots: u32,
    /// Completions taken early, because the kernel would not submit before.
    early: Vec<Done>,
}

impl Ring {
    /// A ring with at least `slots` direct descriptors, as few more as make all tables equal, at most `table_slots_max` in
    /// each: the kernel takes up to `RLIMIT_NOFILE`.
    ///
    /// # Errors
    /// A sentence saying what this kernel refuses.
    pub fn new(slots: u32, table_slots_max: u32, purpose: Use) -> io::Result<Ring> {
        let count = slots.div_ceil(table_slots_max.max(1)).max(1);
        let table_slots = slots.div_ceil(count);
        let tables =
            (0..count).map(|number| Table::new(table_slots, purpose, number == 0)).collect::<io::Result<_>>()?;
        let mut ring = Ring { tables, table_slots, early: Vec::new() };
        check_operations(ring.tables[0].ring(), purpose)?;
        ring.check_options().map_err(|error| explain("socket options cannot be set", error))?;
        Ok(ring)
    }

    /// Tables there are.
    pub fn tables(&self) -> u32 {
        self.tables.len() as u32
    }

    /// Slots of each table.
    pub fn table_slots(&self) -> u32 {
        self.table_slots
    }

    /// The table that a slot is in.
    pub fn table_of(&self, slot: u32) -> u32 {
        // A division for each operation is for those who have more than one.
        if self.tables.len() == 1 { 0 } else { slot % self.tables() }
    }

    /// The place of a slot in its table.
    fn place_of(&self, slot: u32) -> u32 {
        if self.tables.len() == 1 { slot } else { slot / self.tables() }
    }

    /// Second descriptors of all tables' rings, for other threads to send to.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn duplicates(&self) -> io::Result<Vec<OwnedFd>> {
        self.tables.iter().map(Table::duplicate).collect()
    }

    /// Sets an option of a UDP socket, as the abort of a connection does: kernels before 6.7 have the operation, and
    /// refuse this use of it.
    fn check_options(&mut self) -> io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let (level, name, value, size) = abort_option();
        let entry = opcode::SetSockOpt::new(Fd(socket.as_raw_fd()), level, name, value, size).build();
        // SAFETY: the value is static.
        unsafe { self.push(0, entry.user_data(Word::new(Op::None, 0, 0).0)) };
        let mut done = Vec::new();
        while done.is_empty() {
            self.sleep(None)?;
            self.collect(&mut done);
        }
        let result = done[0].result;
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }

    /// Adds an entry to a table's queue.
    ///
    /// # Safety
    /// Memory that the entry points to must stay until its completion.
    unsafe fn push(&mut self, table: u32, entry: squeue::Entry) {
        // SAFETY: the caller's promise.
        while !unsafe { self.tables[table as usize].push(&entry) } {
            self.make_room(table);
        }
    }

    /// Leaves room for `count` entries that must be submitted together.
    fn reserve(&mut self, table: u32, count: usize) {
        while !self.tables[table as usize].has_room(count) {
            self.make_room(table);
        }
    }

    fn make_room(&mut self, table: u32) {
        if self.tables[table as usize].enter(0, 0, None).is_err() {
            // Out of memory, or the completions are full: take those, and let others run.
            let mut early = std::mem::take(&mut self.early);
            self.collect(&mut early);
            self.early = early;
            std::thread::yield_now();
        }
    }

    /// Submits what is pending; operations that need not wait are done afterwards.
    ///
    /// # Errors
    /// The kernel's.
    pub fn submit(&mut self) -> io::Result<()> {
        for table in self.tables.iter_mut().filter_map(|table| table.is_pending().then_some(table)) {
            table.enter(0, 0, None)?;
        }
        Ok(())
    }

    /// Submits what is pending and lets the kernel post what has happened.
    ///
    /// # Errors
    /// The kernel's.
    pub fn poll(&mut self) -> io::Result<()> {
        self.enter_others()?;
        busy_is_fine(self.tables[0].enter(0, ENTER_GETEVENTS, None))
    }

    /// Enters each table but the first that has something to submit, or completions that it had no room for.
    fn enter_others(&mut self) -> io::Result<()> {
        for table in &mut self.tables[1..] {
            if table.is_pending() || table.has_overflown() {
                busy_is_fine(table.enter(0, ENTER_GETEVENTS, None))?;
            }
        }
        Ok(())
    }

    /// Submits what is pending and waits for one completion. Returns without any when the time is up, and when a signal
    /// comes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.early.is_empty() {
            return self.poll();
        }
        if self.tables.len() > 1 {
            self.enter_others()?;
            // What is still pending the kernel would not take, before its completions are collected.
            if self.tables[1..].iter_mut().any(|table| table.has_completions() || table.is_pending()) {
                return self.poll();
            }
            self.watch_others();
            // Taken to make room for those polls: what is held already is what a sleep would wait for.
            if !self.early.is_empty() {
                return self.poll();
            }
        }
        let time = timeout.map(Timespec::from);
        let args = match &time {
            Some(time) => SubmitArgs::new().timespec(time),
            None => SubmitArgs::new(),
        };
        busy_is_fine(self.tables[0].enter(1, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&args)))
    }

    /// Has the first table tell when one of the others has completions.
    fn watch_others(&mut self) {
        for number in 1..self.tables.len() {
            let table = &mut self.tables[number];
            if !table.is_watched {
                table.is_watched = true;
                let entry = opcode::PollAdd::new(Fd(table.raw()), libc::POLLIN as u32).build();
                // SAFETY: points to no memory.
                unsafe { self.push(0, entry.user_data(Word::new(Op::Table, number as u32, 0).0)) };
            }
        }
    }

    /// Moves the completions there are to the end of `into`.
    pub fn collect(&mut self, into: &mut Vec<Done>) {
        into.append(&mut self.early);
        let count = self.tables();
        let from = into.len();
        into.extend(self.tables[0].completions().map(|entry| Done::of(&entry, 0, count)));
        if count == 1 {
            return;
        }
        for done in into.extract_if(from.., |done| done.word.op() == Op::Table) {
            self.tables[done.word.slot() as usize].is_watched = false;
        }
        for number in 1..count {
            into.extend(self.tables[number as usize].completions().map(|entry| Done::of(&entry, number, count)));
        }
    }

    /// Accepts one connection into a free slot of the table that the word's slot is in.
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
        unsafe { self.push(self.table_of(word.slot()), entry.user_data(word.0)) };
    }

    /// Makes a socket in the slot and connects it: one chain, of which one completion comes, a link's if it fails and
    /// that of the connect else.
    ///
    /// # Safety
    /// The addresses must stay as long as the ring.
    pub unsafe fn connect(&mut self, slot: u32, from: Option<&SockAddr>, to: &SockAddr) {
        let (table, place) = (self.table_of(slot), self.place_of(slot));
        let on = (&raw const sys::ON).cast();
        let option = |level: libc::c_int, option: libc::c_int| {
            opcode::SetSockOpt::new(Fixed(place), level as u32, option as u32, on, size_of::<libc::c_int>() as u32)
                .build()
        };
        let there = DestinationSlot::try_from_slot_target(place).ok();
        let family = libc::c_int::from(to.family());
        let socket = opcode::Socket::new(family, libc::SOCK_STREAM, 0).file_index(there).build();
        let mut links = vec![socket, option(libc::IPPROTO_TCP, libc::TCP_NODELAY)];
        if let Some(from) = from {
            links.push(option(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT));
            links.push(opcode::Bind::new(Fixed(place), from.as_ptr().cast(), from.len()).build());
        }
        self.reserve(table, links.len() + 1);
        for link in links {
            let link = link.flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS);
            // SAFETY: the options' value is static; the address stays by the caller's promise.
            unsafe { self.push(table, link.user_data(Word::new(Op::Link, slot, 0).0)) };
        }
        let connect = opcode::Connect::new(Fixed(place), to.as_ptr().cast(), to.len()).build();
        // SAFETY: the address stays by the caller's promise.
        unsafe { self.push(table, connect.user_data(Word::new(Op::Connect, slot, 0).0)) };
    }

    /// Puts completions back that were taken too early, for the next [`Ring::collect`].
    pub fn put_back(&mut self, entries: impl IntoIterator<Item = Done>) {
        self.early.extend(entries);
    }

    /// Asks for the peer's address, which has exactly `length` bytes: done when `submit` returns.
    ///
    /// # Safety
    /// `name` must stay until the completion.
    pub unsafe fn peer_name(&mut self, slot: u32, name: *mut sys::Name, length: u32, word: Word) {
        let (level, option) = (libc::SOL_SOCKET as u32, libc::SO_PEERNAME as u32);
        let entry = opcode::SetSockOpt::new(Fixed(self.place_of(slot)), level, option, name.cast(), length).build();
        // SAFETY: the caller's promise.
        unsafe { self.push(self.table_of(slot), into_getsockopt(entry).user_data(word.0)) };
    }

    /// Tells each time that bytes have arrived, or an end or an error.
    pub fn watch(&mut self, slot: u32, word: Word) {
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        // SAFETY: points to no memory.
        unsafe {
            self.push(
                self.table_of(slot),
                opcode::PollAdd::new(Fixed(self.place_of(slot)), events).multi(true).build().user_data(word.0),
            )
        };
    }

    /// The same for a descriptor of the process.
    pub fn watch_descriptor(&mut self, fd: RawFd, word: Word) {
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true).build();
        // SAFETY: points to no memory.
        unsafe { self.push(0, entry.user_data(word.0)) };
    }

    /// Receives what is there, without waiting: done when `submit` returns.
    ///
    /// # Safety
    /// `length` writable bytes at `buffer` must stay until the completion.
    pub unsafe fn receive(&mut self, slot: u32, buffer: *mut u8, length: u32, word: Word) {
        let entry = opcode::Recv::new(Fixed(self.place_of(slot)), buffer, length).flags(libc::MSG_DONTWAIT).build();
        // SAFETY: the caller's promise.
        unsafe { self.push(self.table_of(slot), entry.user_data(word.0)) };
    }

    /// Sends bytes, however long the peer takes, at most [`SEND_BYTES_MAX`] of them: the completion says how many, and the
    /// rest is another send's.
    ///
    /// # Safety
    /// The bytes must stay until the completion.
    pub unsafe fn send(&mut self, slot: u32, bytes: &[u8], word: Word) {
        let length = bytes.len().min(SEND_BYTES_MAX) as u32;
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = opcode::Send::new(Fixed(self.place_of(slot)), bytes.as_ptr(), length).flags(flags).build();
        // SAFETY: the caller's promise.
        unsafe { self.push(self.table_of(slot), entry.user_data(word.0)) };
    }

    /// Ends the operation named `word`, in the table of its slot, which then completes with `ECANCELED`.
    pub fn cancel(&mut self, word: Word) {
        let entry = opcode::AsyncCancel::new(word.0).build().flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: points to no memory.
        unsafe { self.push(self.table_of(word.slot()), entry.user_data(Word::new(Op::None, 0, 0).0)) };
    }

    /// Ends our direction with a FIN. A worker of the kernel does it, some time later, to whatever is in the slot then: the
    /// slot must not be given up before the completion.
    pub fn shutdown_write(&mut self, slot: u32, word: Word) {
        let entry = opcode::Shutdown::new(Fixed(self.place_of(slot)), libc::SHUT_WR).build();
        // SAFETY: points to no memory.
        unsafe { self.push(self.table_of(slot), entry.user_data(word.0)) };
    }

    /// Takes the socket out of the table, which closes it; with a RST if `abort`. When the kernel has no memory to make it
    /// a reset, nothing is closed, and the completion is `ECANCELED`.
    pub fn close(&mut self, slot: u32, abort: bool, word: Word) {
        if abort {
            self.reserve(self.table_of(slot), 2);
            let (level, name, value, size) = abort_option();
            let entry = opcode::SetSockOpt::new(Fixed(self.place_of(slot)), level, name, value, size).build();
            let entry = entry.flags(squeue::Flags::IO_LINK);
            // SAFETY: the value is static.
            unsafe { self.push(self.table_of(slot), entry.user_data(Word::new(Op::None, 0, 0).0)) };
        }
        // SAFETY: points to no memory.
        unsafe {
            self.push(self.table_of(slot), opcode::Close::new(Fixed(self.place_of(slot))).build().user_data(word.0))
        };
    }

    /// Puts the socket into another ring's table, of which the first completion tells the place there, and then takes it
    /// out of this one. If the first fails, the second is cancelled.
    ///
    /// The other ring gets no completion: where it has no memory for one, the kernel would leave the socket in both tables,
    /// in a place over there that nobody knows (`EOVERFLOW`).
    pub fn depart(&mut self, slot: u32, to: BorrowedFd<'_>, moved: Word, left: Word) {
        self.reserve(self.table_of(slot), 2);
        let there = DestinationSlot::auto_target();
        let entry = opcode::MsgRingSendFd::new(Fd(to.as_raw_fd()), Fixed(self.place_of(slot)), there, 0)
            .opcode_flags(MSG_RING_CQE_SKIP)
            .build()
            .flags(squeue::Flags::IO_LINK);
        // SAFETY: both point to no memory; the other ring's descriptor is kept until the completion.
        unsafe {
            self.push(self.table_of(slot), entry.user_data(moved.0));
            self.push(self.table_of(slot), opcode::Close::new(Fixed(self.place_of(slot))).build().user_data(left.0));
        }
    }

    /// Ends all operations and closes all sockets of the tables; false if the kernel may still be reading from sends.
    pub fn shut(&mut self) -> bool {
        // All of them, whatever one answers.
        self.tables.iter_mut().fold(true, |cancelled, table| table.shut() & cancelled)
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
