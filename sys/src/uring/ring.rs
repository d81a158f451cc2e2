//! The ring itself: each operation as a method, entering the kernel, collecting completions.
//!
//! # More connections than a table holds
//!
//! The kernel bounds a ring's table by `RLIMIT_NOFILE`. So a [`Ring`] with more slots consists of
//! several kernel rings, its *tables*, all of one thread. Slots are distributed among them in
//! rotation: slot `s` of `n` tables is place `s / n` of table `s % n`, and its operations go to
//! that table's queue. With one table the place is the slot itself, and nothing differs.
//!
//! The thread sleeps on the first table. No wake-up may be lost while others have completions:
//!
//! * Only the first defers its work to the next call that asks for events. The others' work is done
//!   whenever the thread is in the kernel, whichever ring it enters or sleeps on. Completions of a
//!   table are therefore visible without a system call for it, and a table is entered only to
//!   submit.
//! * Before it sleeps, the ring submits what is pending in any table, checks each table's
//!   completions, and does not sleep if there are any. For each table that the first has no poll
//!   of, it then requests one, which is submitted by the call that sleeps. The poll completes at
//!   once if the table has got completions since the check. Otherwise the next completion posted to
//!   the table, by any thread, completes it. So nothing is missed between the check and the sleep.
//! * A poll completes once (the kernel makes a poll of a ring single, to prevent cycles) and counts
//!   as armed until its completion has been collected: until then the first table has a completion,
//!   and no sleep lasts.
//! * Completions that overflow a table's queue are not visible, but announced by a flag, which
//!   counts as completions; the table is then entered for them.

use super::done::Done;
use super::kernel::Kernel;
use super::lent::Lent;
use super::support::{Use, abort_option, check_operations, explain};
use super::table::{ENTER_EXT_ARG, ENTER_GETEVENTS, Table, busy_is_fine};
use super::word::{Op, Word};
use crate::calls::{NAME_BYTES_BY_FAMILY, Name, ON};
use crate::sends::Advance;
use io_uring::types::{DestinationSlot, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{opcode, squeue};
use socket2::SockAddr;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Maximum bytes of one send operation. The kernel waits for room without a thread, but only 128
/// times per operation; after that a worker thread of the kernel blocks for as long as the peer
/// reads in small amounts. Room is reported when a third of the socket's buffer is free, so 64 KiB
/// take fewer rounds than that even with the smallest buffer (4.6 KB). Progress of a send is known
/// when one of these operations completes.
pub const SEND_BYTES_MAX: usize = 64 << 10;

/// `IORING_MSG_RING_CQE_SKIP`: the other ring gets no completion; the sending thread informs the
/// receiving one.
const MSG_RING_CQE_SKIP: u32 = 1;

/// Number of peer addresses queried at a time.
const NAMES: usize = 64;

/// Number of completions that end a sleep although more are to be gathered.
const GATHERED_MAX: u32 = 64;

/// Word of completions that are ignored.
const NOBODY: u64 = (Op::None as u64) << 56;

/// A ring of one thread.
pub struct Ring {
    /// At least one; the thread sleeps on the first.
    tables: Vec<Table>,
    /// Slots of each.
    table_slots: u32,
    /// Completions collected early, because the kernel would not submit before.
    early: Vec<Done>,
    lent: Lent,
    /// Whether a round of [`Kernel::peer_names`] is in progress or has failed; after a failure its
    /// rooms are lent for good.
    names_are_lent: bool,
    /// The destination and sources of [`Ring::connect`]. They neither move nor change: entries that
    /// have not been submitted point to them.
    to: Option<Box<SockAddr>>,
    sources: Box<[SockAddr]>,
}

impl Ring {
    /// A ring with at least `slots` direct descriptors, rounded up to make all tables equal, at
    /// most `table_slots_max` in each: the kernel permits up to `RLIMIT_NOFILE`.
    ///
    /// # Errors
    /// A sentence that names what this kernel refuses.
    pub fn new(slots: u32, table_slots_max: u32, purpose: Use) -> io::Result<Ring> {
        let count = slots.div_ceil(table_slots_max.max(1)).max(1);
        let table_slots = slots.div_ceil(count);
        let tables =
            (0..count).map(|number| Table::new(table_slots, purpose, number == 0)).collect::<io::Result<_>>()?;
        let (lent, to, sources) = (Lent::default(), None, Box::default());
        let mut ring = Ring { tables, table_slots, early: Vec::new(), lent, names_are_lent: false, to, sources };
        check_operations(ring.tables[0].ring(), purpose)?;
        ring.check_options().map_err(|error| explain("socket options cannot be set", error))?;
        Ok(ring)
    }

    /// The same for [`Ring::connect`]: to this address, and from one of these, if there are any.
    ///
    /// # Errors
    /// A sentence that names what this kernel refuses.
    pub fn connecting(slots: u32, table_slots_max: u32, to: SocketAddr, from: &[SocketAddr]) -> io::Result<Ring> {
        let mut ring = Ring::new(slots, table_slots_max, Use::Connecting)?;
        ring.to = Some(Box::new(to.into()));
        ring.sources = from.iter().map(|address| (*address).into()).collect();
        Ok(ring)
    }

    /// The place of a slot in its table.
    fn place_of(&self, slot: u32) -> u32 {
        if self.tables.len() == 1 { slot } else { slot / self.tables() }
    }

    /// Duplicate descriptors of all tables' rings, for other threads to send to.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn duplicates(&self) -> io::Result<Vec<OwnedFd>> {
        self.tables.iter().map(Table::duplicate).collect()
    }

    /// Sets an option of a UDP socket, as aborting a connection does: kernels before 6.7 have the
    /// operation, but refuse this use of it.
    fn check_options(&mut self) -> io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let (level, name, value, size) = abort_option();
        let entry = opcode::SetSockOpt::new(Fd(socket.as_raw_fd()), level, name, value, size).build();
        // SAFETY: the value is static.
        unsafe { self.push(0, entry.user_data(NOBODY)) };
        let mut done = Vec::new();
        while done.is_empty() {
            self.sleep(None, Duration::ZERO)?;
            self.collect(&mut done);
        }
        let result = done[0].result;
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }

    /// Adds an entry to a table's queue.
    ///
    /// # Safety
    /// Memory that the entry points to must stay valid until its completion.
    unsafe fn push(&mut self, table: u32, entry: squeue::Entry) {
        // SAFETY: the caller's promise.
        while !unsafe { self.tables[table as usize].push(&entry) } {
            self.make_room(table);
        }
    }

    /// Makes room for `count` entries that must be submitted together.
    fn reserve(&mut self, table: u32, count: usize) {
        while !self.tables[table as usize].has_room(count) {
            self.make_room(table);
        }
    }

    fn make_room(&mut self, table: u32) {
        if self.tables[table as usize].enter(0, 0, None).is_err() {
            // Out of memory, or the completion queue is full: collect completions, and let others
            // run.
            let mut early = std::mem::take(&mut self.early);
            self.collect(&mut early);
            self.early = early;
            std::thread::yield_now();
        }
    }

    /// Enters each table except the first that has something to submit, or overflown completions.
    fn enter_others(&mut self) -> io::Result<()> {
        for table in &mut self.tables[1..] {
            if table.is_pending() || table.has_overflown() {
                busy_is_fine(table.enter(0, ENTER_GETEVENTS, None))?;
            }
        }
        Ok(())
    }

    /// Makes the first table report when one of the others has completions.
    fn arm_others(&mut self) {
        for number in 1..self.tables.len() {
            let table = &mut self.tables[number];
            if !table.is_armed {
                table.is_armed = true;
                let entry = opcode::PollAdd::new(Fd(table.raw()), libc::POLLIN as u32).build();
                // SAFETY: points to no memory.
                unsafe { self.push(0, entry.user_data(Word::new(Op::Table, number as u32, 0).0)) };
            }
        }
    }

    /// Creates a socket in the slot and connects it, from the source with this index modulo their
    /// number. This is one chain with one completion: a link's ([`Op::Link`]) if it fails, and that
    /// of the connect ([`Op::Connect`]) otherwise.
    ///
    /// # Panics
    /// If the ring was not made by [`Ring::connecting`].
    pub fn connect(&mut self, slot: u32, source: usize) {
        let (table, place) = (self.table_of(slot), self.place_of(slot));
        let on = (&raw const ON).cast();
        let option = |level: libc::c_int, option: libc::c_int| {
            opcode::SetSockOpt::new(Fixed(place), level as u32, option as u32, on, size_of::<libc::c_int>() as u32)
                .build()
        };
        let there = DestinationSlot::try_from_slot_target(place).ok();
        let to = self.to.as_deref().expect("a ring that connects knows where to");
        let family = libc::c_int::from(to.family());
        let connect = opcode::Connect::new(Fixed(place), to.as_ptr().cast(), to.len()).build();
        let socket = opcode::Socket::new(family, libc::SOCK_STREAM, 0).file_index(there).build();
        let mut links = vec![socket, option(libc::IPPROTO_TCP, libc::TCP_NODELAY)];
        if !self.sources.is_empty() {
            let from = &self.sources[source % self.sources.len()];
            links.push(option(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT));
            links.push(opcode::Bind::new(Fixed(place), from.as_ptr().cast(), from.len()).build());
        }
        self.reserve(table, links.len() + 1);
        for link in links {
            let link = link.flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS);
            // SAFETY: the options' value is static, and the kernel copies the address when the
            // entry is submitted. Until then the address is on the heap, unchanged; the entry is
            // dropped with the ring at the latest.
            unsafe { self.push(table, link.user_data(Word::new(Op::Link, slot, 0).0)) };
        }
        // SAFETY: as above.
        unsafe { self.push(table, connect.user_data(Word::new(Op::Connect, slot, 0).0)) };
    }

    /// Queues the remaining bytes of a send.
    fn push_send(&mut self, slot: u32, send: u32) {
        let place = self.place_of(slot);
        let bytes = self.lent.sends.lend(send);
        let length = bytes.len().min(SEND_BYTES_MAX) as u32;
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = opcode::Send::new(Fixed(place), bytes.as_ptr(), length).flags(flags).build();
        // SAFETY: the bytes are lent. They stay until the completion has been collected, as no
        // other code can make a completion of this name, and forever if it never is.
        unsafe { self.push(self.table_of(slot), entry.user_data(Word::new(Op::Send, slot, send).0)) };
    }

    /// Queries the addresses of these peers, each of exactly `length` bytes, into the rooms of the
    /// same index; those already `found` are skipped.
    ///
    /// # Errors
    /// The kernel's. It may write to the rooms later.
    fn ask_names(
        &mut self,
        slots: &[Option<u32>],
        length: u32,
        rooms: &mut [Name; NAMES],
        found: &mut [Option<SocketAddr>],
    ) -> io::Result<()> {
        let (level, option) = (libc::SOL_SOCKET as u32, libc::SO_PEERNAME as u32);
        let mut asked = 0;
        for (number, slot) in slots.iter().enumerate() {
            // An operation that closes a slot is submitted after this: the answer is that of the
            // present connection.
            let Some(slot) = slot.filter(|_| found[number].is_none()) else { continue };
            asked += 1;
            let name = (&raw mut rooms[number]).cast();
            let entry = opcode::SetSockOpt::new(Fixed(self.place_of(slot)), level, option, name, length).build();
            let word = Word::new(Op::PeerName, slot, number as u32);
            // SAFETY: the caller keeps the rooms until all of this round are answered, or forever.
            unsafe { self.push(self.table_of(slot), into_getsockopt(entry).user_data(word.0)) };
        }
        while asked > 0 {
            // Never observed more than once: the answers are available when the call returns.
            self.poll()?;
            let mut done = Vec::new();
            self.collect(&mut done);
            let (names, others): (Vec<_>, Vec<_>) = done.into_iter().partition(|done| done.word.op() == Op::PeerName);
            self.early.extend(others);
            for answer in names {
                asked -= 1;
                let number = answer.word.low() as usize;
                found[number] = rooms[number].address().filter(|_| answer.result >= 0);
            }
        }
        Ok(())
    }
}

impl Kernel for Ring {
    fn tables(&self) -> u32 {
        self.tables.len() as u32
    }

    fn table_slots(&self) -> u32 {
        self.table_slots
    }

    fn table_of(&self, slot: u32) -> u32 {
        // Avoids a division per operation with a single table.
        if self.tables.len() == 1 { 0 } else { slot % self.tables() }
    }

    fn submit(&mut self) -> io::Result<()> {
        for table in self.tables.iter_mut().filter_map(|table| table.is_pending().then_some(table)) {
            table.enter(0, 0, None)?;
        }
        Ok(())
    }

    fn poll(&mut self) -> io::Result<()> {
        self.enter_others()?;
        busy_is_fine(self.tables[0].enter(0, ENTER_GETEVENTS, None))
    }

    fn sleep(&mut self, timeout: Option<Duration>, gather: Duration) -> io::Result<()> {
        if !self.early.is_empty() {
            return self.poll();
        }
        if self.tables.len() > 1 {
            self.enter_others()?;
            // The kernel would not accept the pending entries before its completions are collected.
            if self.tables[1..].iter_mut().any(|table| table.has_completions() || table.is_pending()) {
                return self.poll();
            }
            self.arm_others();
            // Collected to make room for those polls: a sleep would wait for what is already held.
            if !self.early.is_empty() {
                return self.poll();
            }
        }
        let time = timeout.map(Timespec::from);
        let mut args = match &time {
            Some(time) => SubmitArgs::new().timespec(time),
            None => SubmitArgs::new(),
        };
        let mut want = 1;
        if !gather.is_zero() && self.tables[0].can_gather() {
            args = args.min_wait_usec(u32::try_from(gather.as_micros()).unwrap_or(u32::MAX));
            want = GATHERED_MAX;
        }
        busy_is_fine(self.tables[0].enter(want, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&args)))
    }

    fn collect(&mut self, into: &mut Vec<Done>) {
        into.append(&mut self.early);
        let count = self.tables();
        let from = into.len();
        into.extend(self.tables[0].completions().map(|entry| Done::of(&entry, 0, count)));
        if count > 1 {
            for done in into.extract_if(from.., |done| done.word.op() == Op::Table) {
                self.tables[done.word.slot() as usize].is_armed = false;
            }
            for number in 1..count {
                into.extend(self.tables[number as usize].completions().map(|entry| Done::of(&entry, number, count)));
            }
        }
        into[from..].iter().for_each(|done| self.lent.land(done));
    }

    fn arm_poll(&mut self, slot: u32, low: u32) {
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        let entry = opcode::PollAdd::new(Fixed(self.place_of(slot)), events).multi(true).build();
        // SAFETY: points to no memory.
        unsafe { self.push(self.table_of(slot), entry.user_data(Word::new(Op::Poll, slot, low).0)) };
    }

    fn arm_descriptor(&mut self, fd: RawFd) {
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true).build();
        // SAFETY: points to no memory.
        unsafe { self.push(0, entry.user_data(Word::new(Op::Wake, 0, 0).0)) };
    }

    fn cancel(&mut self, word: Word) {
        let entry = opcode::AsyncCancel::new(word.0).build().flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: points to no memory.
        unsafe { self.push(self.table_of(word.slot()), entry.user_data(NOBODY)) };
    }

    fn shutdown_write(&mut self, slot: u32, low: u32) {
        let entry = opcode::Shutdown::new(Fixed(self.place_of(slot)), libc::SHUT_WR).build();
        // SAFETY: points to no memory.
        unsafe { self.push(self.table_of(slot), entry.user_data(Word::new(Op::Shutdown, slot, low).0)) };
    }

    fn close(&mut self, slot: u32, abort: bool, low: u32) {
        let (table, place) = (self.table_of(slot), self.place_of(slot));
        if abort {
            self.reserve(table, 2);
            let (level, name, value, size) = abort_option();
            let entry = opcode::SetSockOpt::new(Fixed(place), level, name, value, size).build();
            let entry = entry.flags(squeue::Flags::IO_LINK);
            // SAFETY: the value is static.
            unsafe { self.push(table, entry.user_data(NOBODY)) };
        }
        let entry = opcode::Close::new(Fixed(place)).build();
        // SAFETY: points to no memory.
        unsafe { self.push(table, entry.user_data(Word::new(Op::Close, slot, low).0)) };
    }

    fn depart(&mut self, slot: u32, to: BorrowedFd<'_>, low: u32) {
        let (table, place) = (self.table_of(slot), self.place_of(slot));
        self.reserve(table, 2);
        let there = DestinationSlot::auto_target();
        let entry = opcode::MsgRingSendFd::new(Fd(to.as_raw_fd()), Fixed(place), there, 0)
            .opcode_flags(MSG_RING_CQE_SKIP)
            .build()
            .flags(squeue::Flags::IO_LINK);
        let close = opcode::Close::new(Fixed(place)).build();
        // SAFETY: both point to no memory.
        unsafe {
            self.push(table, entry.user_data(Word::new(Op::Depart, slot, low).0));
            self.push(table, close.user_data(Word::new(Op::Left, slot, low).0));
        }
    }

    fn accept(&mut self, listener: RawFd, table: u32, room: u32) {
        let at = self.lent.lend_room(room);
        let (name, length) = (&raw mut at.name, &raw mut at.length);
        let entry = opcode::Accept::new(Fd(listener), name.cast(), length)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        // In place of the slot a table's number, which is also the number of a slot in it.
        let word = Word::new(Op::Accept, table, room);
        // SAFETY: the room is lent. It stays until the completion has been collected, and forever
        // if it never is.
        unsafe { self.push(self.table_of(table), entry.user_data(word.0)) };
    }

    fn accepted_from(&self, room: u32) -> Option<SocketAddr> {
        self.lent.address(room)
    }

    fn peer_names(&mut self, slots: &[Option<u32>]) -> Vec<Option<SocketAddr>> {
        let mut all = Vec::with_capacity(slots.len());
        for slots in slots.chunks(NAMES) {
            if self.names_are_lent {
                // Answers of a failed round may still arrive, and would be taken for those of this
                // one.
                break;
            }
            let mut found = vec![None; slots.len()];
            self.names_are_lent = true;
            // Freed only if all are answered.
            let mut rooms = ManuallyDrop::new(Box::new([Name::default(); NAMES]));
            let asked = NAME_BYTES_BY_FAMILY
                .iter()
                .try_for_each(|length| self.ask_names(slots, *length, &mut rooms, &mut found));
            all.extend(found);
            if asked.is_ok() {
                drop(ManuallyDrop::into_inner(rooms));
                self.names_are_lent = false;
            }
        }
        all.resize(slots.len(), None);
        all
    }

    fn buffer_bytes(&self) -> usize {
        self.lent.buffer_bytes()
    }

    fn set_buffer_bytes(&mut self, bytes: usize) {
        self.lent.set_buffer_bytes(bytes);
    }

    fn divide(&mut self, count: usize, most: usize) -> usize {
        self.lent.divide(count, most)
    }

    fn receive(&mut self, slot: u32, share: u32) {
        let place = self.place_of(slot);
        let bytes = self.lent.lend_share(share);
        let entry = opcode::Recv::new(Fixed(place), bytes.as_mut_ptr(), bytes.len() as u32);
        let entry = entry.flags(libc::MSG_DONTWAIT).build();
        // SAFETY: the share is lent: it is in no other receive, and can be accessed or freed only
        // when the completion has been collected.
        unsafe { self.push(self.table_of(slot), entry.user_data(Word::new(Op::Receive, slot, share).0)) };
    }

    fn receiving(&self) -> usize {
        self.lent.receiving()
    }

    fn received(&mut self, share: u32, count: usize) -> &mut [u8] {
        self.lent.received(share, count)
    }

    fn send(&mut self, slot: u32, bytes: Vec<u8>) -> u32 {
        let send = self.lent.sends.insert(bytes, 0);
        self.push_send(slot, send);
        send
    }

    fn send_rest(&mut self, slot: u32, send: u32) {
        self.push_send(slot, send);
    }

    fn advance(&mut self, send: u32, taken: usize) -> Advance {
        self.lent.sends.advance(send, taken)
    }

    fn take_sent(&mut self, send: u32) -> Vec<u8> {
        self.lent.sends.remove(send)
    }

    fn sends(&self) -> usize {
        self.lent.sends.in_flight()
    }

    fn memory_bytes(&self) -> usize {
        self.lent.buffer_bytes() + self.lent.sends.memory_bytes()
    }
}

impl Drop for Ring {
    /// Cancels all operations and closes all sockets. Lent memory stays lent: see [`Lent`].
    fn drop(&mut self) {
        self.tables.iter_mut().for_each(Table::shut);
    }
}

/// Turns a `setsockopt` of the ring into a `getsockopt` (Linux 6.7): they differ in one number, and
/// the library only has the former. `SO_PEERNAME` by this operation is the only way to learn the
/// peer's address of a direct descriptor without temporarily giving it a descriptor of the process.
fn into_getsockopt(mut entry: squeue::Entry) -> squeue::Entry {
    /// From the kernel's `enum io_uring_socket_op`.
    const GETSOCKOPT: u32 = 2;
    /// Offset of `cmd_op` in the kernel's `struct io_uring_sqe`.
    const CMD_OP_OFFSET: usize = 8;
    const { assert!(size_of::<squeue::Entry>() == 64, "an entry is the kernel's 64 bytes") };
    // SAFETY: the entry is the kernel's structure of 64 bytes, aligned to eight; any u32 is valid
    // there.
    unsafe { (&raw mut entry).cast::<u8>().add(CMD_OP_OFFSET).cast::<u32>().write(GETSOCKOPT) };
    entry
}
