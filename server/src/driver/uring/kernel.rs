//! What the driver asks of a ring, so that the life of a connection can be held against a kernel that a test plays.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use throng_ring::sys::{Name, NameRoom};
use throng_ring::{Done, Ring, Word};

/// A [`Ring`], or a test's. Each method is the ring's of the same name.
pub(in crate::driver) trait Kernel {
    fn tables(&self) -> u32;
    fn table_slots(&self) -> u32;
    fn table_of(&self, slot: u32) -> u32;
    fn submit(&mut self) -> io::Result<()>;
    fn poll(&mut self) -> io::Result<()>;
    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()>;
    fn collect(&mut self, into: &mut Vec<Done>);
    fn put_back(&mut self, entries: Vec<Done>);
    fn watch(&mut self, slot: u32, word: Word);
    fn watch_descriptor(&mut self, fd: RawFd, word: Word);
    fn cancel(&mut self, word: Word);
    fn shutdown_write(&mut self, slot: u32, word: Word);
    fn close(&mut self, slot: u32, abort: bool, word: Word);
    fn depart(&mut self, slot: u32, to: BorrowedFd<'_>, moved: Word, left: Word);
    fn shut(&mut self) -> bool;
    /// # Safety
    /// `room` must stay until the completion.
    unsafe fn accept(&mut self, listener: RawFd, room: *mut NameRoom, word: Word);
    /// # Safety
    /// `name` must stay until the completion.
    unsafe fn peer_name(&mut self, slot: u32, name: *mut Name, length: u32, word: Word);
    /// # Safety
    /// `length` writable bytes at `buffer` must stay until the completion.
    unsafe fn receive(&mut self, slot: u32, buffer: *mut u8, length: u32, word: Word);
    /// # Safety
    /// The bytes must stay until the completion.
    unsafe fn send(&mut self, slot: u32, bytes: &[u8], word: Word);
}

impl Kernel for Ring {
    fn tables(&self) -> u32 {
        Ring::tables(self)
    }

    fn table_slots(&self) -> u32 {
        Ring::table_slots(self)
    }

    fn table_of(&self, slot: u32) -> u32 {
        Ring::table_of(self, slot)
    }

    fn submit(&mut self) -> io::Result<()> {
        Ring::submit(self)
    }

    fn poll(&mut self) -> io::Result<()> {
        Ring::poll(self)
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        Ring::sleep(self, timeout)
    }

    fn collect(&mut self, into: &mut Vec<Done>) {
        Ring::collect(self, into);
    }

    fn put_back(&mut self, entries: Vec<Done>) {
        Ring::put_back(self, entries);
    }

    fn watch(&mut self, slot: u32, word: Word) {
        Ring::watch(self, slot, word);
    }

    fn watch_descriptor(&mut self, fd: RawFd, word: Word) {
        Ring::watch_descriptor(self, fd, word);
    }

    fn cancel(&mut self, word: Word) {
        Ring::cancel(self, word);
    }

    fn shutdown_write(&mut self, slot: u32, word: Word) {
        Ring::shutdown_write(self, slot, word);
    }

    fn close(&mut self, slot: u32, abort: bool, word: Word) {
        Ring::close(self, slot, abort, word);
    }

    fn depart(&mut self, slot: u32, to: BorrowedFd<'_>, moved: Word, left: Word) {
        Ring::depart(self, slot, to, moved, left);
    }

    fn shut(&mut self) -> bool {
        Ring::shut(self)
    }

    unsafe fn accept(&mut self, listener: RawFd, room: *mut NameRoom, word: Word) {
        // SAFETY: the caller's promise.
        unsafe { Ring::accept(self, listener, room, word) };
    }

    unsafe fn peer_name(&mut self, slot: u32, name: *mut Name, length: u32, word: Word) {
        // SAFETY: the caller's promise.
        unsafe { Ring::peer_name(self, slot, name, length, word) };
    }

    unsafe fn receive(&mut self, slot: u32, buffer: *mut u8, length: u32, word: Word) {
        // SAFETY: the caller's promise.
        unsafe { Ring::receive(self, slot, buffer, length, word) };
    }

    unsafe fn send(&mut self, slot: u32, bytes: &[u8], word: Word) {
        // SAFETY: the caller's promise.
        unsafe { Ring::send(self, slot, bytes, word) };
    }
}
