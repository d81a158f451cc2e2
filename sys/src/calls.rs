//! The system calls that the drivers make besides a ring, and those of the store, each as a safe
//! function.
//!
//! Sockets are named by their numbers. Each of these calls refuses what is not a socket (or, for
//! epoll, changes which events are reported). A wrong number can thus disturb another connection,
//! but touches no memory.

use socket2::SockAddr;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most groups of a user (`NGROUPS_MAX` of Linux).
const GROUPS_MAX: usize = 65_536;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A counter that wakes the threads waiting for it; never read, so it only grows.
///
/// # Errors
/// The kernel's.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor is new and not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes over the `count` descriptors from number 3 on, which were open when this program began
/// (sd_listen_fds(3)). Child processes do not inherit them. The first call of a process gets them,
/// any later one gets none.
///
/// # Errors
/// One of these numbers is not open.
pub fn inherited_descriptors(count: u16) -> io::Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let numbers = 3..3 + RawFd::from(count);
    for fd in numbers.clone() {
        // SAFETY: no memory is passed.
        check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    // SAFETY: they were open when the program began, so no file of this process has their numbers,
    // and only this call takes them over.
    Ok(numbers.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
}

/// The groups of a user, the given one among them (getgrouplist(3)). Only that one if the system does
/// not know the user.
///
/// # Errors
/// The user's entry cannot be read.
pub fn groups_of(uid: u32, gid: u32) -> io::Result<Vec<u32>> {
    // SAFETY: all fields may be zero; it is written before it is read.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let (mut text, mut found) = (vec![0; 64 << 10], std::ptr::null_mut());
    // SAFETY: the buffer has the given length, and outlives the entry, which points into it.
    let error = unsafe { libc::getpwuid_r(uid, &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    if found.is_null() {
        return Ok(vec![gid]);
    }
    let mut groups = vec![gid; GROUPS_MAX];
    let mut count = GROUPS_MAX as libc::c_int;
    // SAFETY: the name is a text with a zero at its end; `count` groups have space.
    unsafe { libc::getgrouplist(entry.pw_name, gid, groups.as_mut_ptr(), &raw mut count) };
    // With too many groups it is the number that there are.
    groups.truncate(usize::try_from(count).unwrap_or(0));
    Ok(groups)
}

/// Adds one to an eventfd. Cannot fail before 2^64 - 1 calls.
pub fn eventfd_signal(fd: BorrowedFd<'_>) {
    let one = 1u64;
    // SAFETY: eight readable bytes, as an eventfd wants them.
    let _ = unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) };
}

/// The soft limit of open descriptors.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid structure to write into.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if result < 0 { 1024 } else { limit.rlim_cur }
}

/// Whether a file without a name is open elsewhere, in this process or another one: the kernel then
/// refuses a write lease on it. `false` if the file system has no leases.
pub fn is_open_elsewhere(file: BorrowedFd<'_>) -> bool {
    let fd = file.as_raw_fd();
    // If the file is opened through `/proc` meanwhile, the lease breaks: the signal for that must
    // be harmless. SAFETY: no memory is passed.
    let lease = check(unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) })
        .and_then(|_| check(unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) }));
    match lease {
        Ok(_) => {
            // SAFETY: no memory is passed.
            let _ = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
            false
        }
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Sets the calling thread's niceness and time slice. A thread that wakes with a shorter slice than
/// the running one preempts it at once, and need not wait until that one's slice is over (4 ms;
/// Linux 6.12 and later, older ones use only the niceness).
///
/// # Errors
/// The kernel's: `EPERM` if lowering the niceness is not permitted.
pub fn set_slice(nice: i32, slice: Duration) -> io::Result<()> {
    // SAFETY: integers only, of which zero is a valid value.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    attr.size = size_of::<libc::sched_attr>() as u32;
    attr.sched_policy = libc::SCHED_OTHER as u32;
    attr.sched_nice = nice;
    attr.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: a valid structure to read, which states its own size; the thread is the calling one.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `fcntl`: the signal that reports a broken lease.
const F_SETSIG: libc::c_int = 10;

/// A new epoll.
///
/// # Errors
/// The kernel's.
pub fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor is new and not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds, changes or removes the interest in `fd`; `data` is returned with its events.
///
/// # Errors
/// The kernel's.
pub fn epoll_ctl(epoll: &OwnedFd, op: libc::c_int, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: a valid event structure, read by the kernel during the call only.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), op, fd, &raw mut event) }).map(drop)
}

/// Waits `timeout_ms` (-1: forever) and fills `events` up to its capacity. Empty when interrupted.
///
/// # Errors
/// The kernel's.
pub fn epoll_wait(epoll: &OwnedFd, events: &mut Vec<libc::epoll_event>, timeout_ms: i32) -> io::Result<()> {
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

/// Accepts one connection, non-blocking, with its address.
///
/// # Errors
/// The kernel's.
pub fn accept(listener: RawFd) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let mut name = Name::default();
    let mut length = NAME_BYTES;
    // SAFETY: `name` has room for `length` bytes.
    let fd = check(unsafe {
        libc::accept4(listener, name.as_mut_ptr(), &raw mut length, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)
    })?;
    // SAFETY: the descriptor is new and not owned elsewhere.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, name.address()))
}

/// The address of the peer, if the socket has one.
pub fn peer_address(fd: RawFd) -> Option<SocketAddr> {
    let mut name = Name::default();
    let mut length = NAME_BYTES;
    // SAFETY: `name` has room for `length` bytes.
    let result = unsafe { libc::getpeername(fd, name.as_mut_ptr(), &raw mut length) };
    check(result).ok().and_then(|_| name.address())
}

/// Receives the available bytes; `WouldBlock` if there are none.
///
/// # Errors
/// The kernel's.
pub fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: a writable buffer of that length.
    let count = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// Sends as much as the kernel takes now; `WouldBlock` if nothing.
///
/// # Errors
/// The kernel's.
pub fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: a readable buffer of that length.
    let count = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
}

/// Closes our direction with a FIN.
pub fn shutdown_write(fd: RawFd) {
    // SAFETY: no memory is passed. It fails only if the connection is closed, which a read reports.
    let _ = unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// The value of `SO_LINGER` that makes a close a reset.
pub static ABORT: libc::linger = libc::linger { l_onoff: 1, l_linger: 0 };

/// The value of an enabled option.
pub static ON: libc::c_int = 1;

fn set<T>(fd: RawFd, level: libc::c_int, option: libc::c_int, value: &'static T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: a readable value of that size.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), length) }).map(drop)
}

/// Makes the close of `fd` a reset. It fails only on a socket that is already closed.
pub fn set_abort(fd: RawFd) {
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &ABORT);
}

/// Defers the choice of the port to `connect`, so that one port serves many peers (ip(7),
/// `IP_BIND_ADDRESS_NO_PORT`).
///
/// # Errors
/// The kernel's.
pub fn set_port_late(fd: RawFd) -> io::Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &ON)
}

/// Room for a socket address of any family.
#[derive(Clone, Copy)]
pub struct Name(libc::sockaddr_storage);

/// Its size, in bytes.
pub const NAME_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

/// The sizes of addresses by family, in bytes, the longer one first: `SO_PEERNAME` fails if the
/// requested size exceeds the name's, and truncates if it is less.
pub const NAME_BYTES_BY_FAMILY: [u32; 2] =
    [size_of::<libc::sockaddr_in6>() as u32, size_of::<libc::sockaddr_in>() as u32];

impl Default for Name {
    fn default() -> Self {
        // SAFETY: all zeros are a valid `sockaddr_storage` (family unspecified).
        Name(unsafe { std::mem::zeroed() })
    }
}

impl From<SocketAddr> for Name {
    fn from(address: SocketAddr) -> Name {
        let (address, mut name) = (SockAddr::from(address), Name::default());
        let bytes = (address.len() as usize).min(size_of::<Name>());
        // SAFETY: an address of that length, and room for it; both are plain bytes.
        unsafe { (&raw mut name.0).cast::<u8>().copy_from_nonoverlapping(address.as_ptr().cast(), bytes) };
        name
    }
}

impl Name {
    /// Where the kernel writes the address.
    pub fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.0).cast()
    }

    /// The address, if it is an internet address; IPv4 in IPv6 is given as IPv4.
    pub fn address(&self) -> Option<SocketAddr> {
        match libc::c_int::from(self.0.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family determines the structure; the storage is large enough and
                // aligned for it.
                let v4 = unsafe { &*(&raw const self.0).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { &*(&raw const self.0).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr).to_canonical();
                Some(SocketAddr::from((ip, u16::from_be(v6.sin6_port))))
            }
            _ => None,
        }
    }
}

/// Where the kernel writes an address and its length.
pub struct NameRoom {
    /// The address.
    pub name: Name,
    /// Bytes: the room before the call, the address's length after.
    pub length: libc::socklen_t,
}

impl Default for NameRoom {
    fn default() -> Self {
        NameRoom { name: Name::default(), length: NAME_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions, remove_file};
    use std::os::fd::AsFd;

    #[test]
    fn a_file_that_others_have_open_is_known() {
        let path = std::env::temp_dir().join(format!("throng-sys-{}", std::process::id()));
        std::fs::write(&path, b"rows").unwrap();
        let own = OpenOptions::new().write(true).open(&path).unwrap();
        let reader = File::open(&path).unwrap();
        remove_file(&path).unwrap();
        assert!(is_open_elsewhere(own.as_fd()));
        drop(reader);
        assert!(!is_open_elsewhere(own.as_fd()));
        assert!(!is_open_elsewhere(own.as_fd()), "nothing is left of the lease");
    }

    #[test]
    fn a_thread_gets_its_niceness_and_its_slice_and_no_other_does() {
        let attr = || {
            // SAFETY: integers only, of which zero is a valid value.
            let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
            let size = size_of::<libc::sched_attr>();
            // SAFETY: the kernel writes into a valid structure of that size; the thread is the
            // calling one.
            assert_eq!(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) }, 0);
            (attr.sched_policy, attr.sched_nice, attr.sched_runtime)
        };
        let before = attr();
        let slice = Duration::from_micros(200);
        let set = std::thread::spawn(move || set_slice(before.1 + 3, slice).map(|()| attr())).join().unwrap().unwrap();
        assert_eq!((set.0, set.1), (libc::SCHED_OTHER as u32, before.1 + 3));
        // Kernels before 6.12 have no per-thread slice.
        assert!(set.2 == 200_000 || set.2 == before.2, "{before:?} {set:?}");
        assert_eq!(attr(), before);
    }

    #[test]
    fn the_groups_of_a_user_are_those_that_the_system_names() {
        let id = |flag: &str| {
            let said = std::process::Command::new("id").args([flag, "root"]).output().unwrap().stdout;
            let mut all: Vec<u32> =
                String::from_utf8(said).unwrap().split_whitespace().map(|id| id.parse().unwrap()).collect();
            all.sort_unstable();
            all
        };
        let mut groups = groups_of(0, id("-g")[0]).unwrap();
        groups.sort_unstable();
        assert_eq!(groups, id("-G"));
        // One that the system does not know.
        assert_eq!(groups_of(4_000_000_000, 7).unwrap(), [7]);
    }
}
