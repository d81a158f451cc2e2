//! What a ring requires of the kernel, and the errors when it is missing.

use crate::calls;
use io_uring::{IoUring, Probe, opcode};
use std::io;

/// The purpose of a ring: accepting works on older kernels than connecting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Connections are accepted, and moved between rings (Linux 6.7).
    Accepting,
    /// Connections are made (Linux 6.11).
    Connecting,
}

impl Use {
    /// Entries of the submission queue: those that do not fit are submitted early.
    pub(crate) fn submissions(self) -> u32 {
        match self {
            Use::Accepting => 256,
            // A connection takes up to five.
            Use::Connecting => 1024,
        }
    }

    /// Operations besides those that both uses need, and the first Linux that has all.
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

/// Level, name, value and size of the option that makes a close a reset.
pub(crate) fn abort_option() -> (u32, u32, *const libc::c_void, u32) {
    let value = (&raw const calls::ABORT).cast();
    (libc::SOL_SOCKET as u32, libc::SO_LINGER as u32, value, size_of::<libc::linger>() as u32)
}

pub(crate) fn check_operations(ring: &IoUring, purpose: Use) -> io::Result<()> {
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

/// Explains the usual reasons.
pub(crate) fn explain(what: &str, error: io::Error) -> io::Error {
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
