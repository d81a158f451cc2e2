//! The system calls that the drivers make, each as a safe function.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The soft limit of open descriptors.
pub(super) fn descriptor_limit() -> u32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid structure to write into.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if result < 0 { 1024 } else { u32::try_from(limit.rlim_cur).unwrap_or(u32::MAX) }
}

pub(super) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn epoll_ctl(epoll: &OwnedFd, op: libc::c_int, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: a valid event structure, read by the kernel during the call only.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), op, fd, &raw mut event) }).map(drop)
}

/// Waits and fills `events` up to its capacity. Empty when interrupted.
pub(super) fn epoll_wait(epoll: &OwnedFd, events: &mut Vec<libc::epoll_event>, timeout_ms: i32) -> io::Result<()> {
    events.clear();
    let most = i32::try_from(events.capacity()).unwrap_or(i32::MAX);
    // SAFETY: the vector has room for `most` events.
    let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), most, timeout_ms) };
    match check(count) {
        // SAFETY: the kernel has written `count` events.
        Ok(count) => unsafe { events.set_len(count as usize) },
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Receives what is there; `WouldBlock` if nothing is.
pub(super) fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: a writable buffer of that length.
    let count = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// Sends what the kernel takes now; `WouldBlock` if nothing.
pub(super) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: a readable buffer of that length.
    let count = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// The value of a switched-on option.
pub(super) static ON: libc::c_int = 1;

/// The value of `SO_LINGER` that makes a close a reset.
pub(super) static ABORT: libc::linger = libc::linger { l_onoff: 1, l_linger: 0 };

fn set<T>(fd: RawFd, level: libc::c_int, option: libc::c_int, value: &'static T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: a readable value of that size.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), length) }).map(drop)
}

/// Makes the close of `fd` a reset. It fails only on a socket that is no more.
pub(super) fn set_abort(fd: RawFd) {
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &ABORT);
}

/// Leaves the choice of the port to `connect`, so that one port serves many peers (ip(7), `IP_BIND_ADDRESS_NO_PORT`).
pub(super) fn set_port_late(fd: RawFd) -> io::Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &ON)
}
