//! Chooses between io_uring and epoll by trying what the kernel allows.

use super::epoll::Epoll;
use super::uring::Uring;
use super::{Driver, Settings};
use std::io;

/// What the operator wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preference {
    /// io_uring if it works here, epoll otherwise.
    #[default]
    Auto,
    /// io_uring, or an error that says what is missing.
    Uring,
    /// epoll.
    Epoll,
}

/// A driver that works here.
pub struct Choice {
    /// The driver, for the thread that called.
    pub driver: Box<dyn Driver>,
    /// Why it is not io_uring, when that was tried: a sentence for the log.
    pub fallback: Option<String>,
}

/// Makes a driver for the calling thread. io_uring is taken only after each of the operations it needs has been tried:
/// seccomp filters, `kernel.io_uring_disabled` and old kernels each refuse in their own way.
///
/// # Errors
/// With [`Preference::Uring`], why it does not work here; otherwise that the process has no descriptors left.
pub fn choose(preference: Preference, settings: &Settings) -> io::Result<Choice> {
    let fallback = match preference {
        Preference::Epoll => None,
        Preference::Auto | Preference::Uring => match Uring::new(settings) {
            Ok(driver) => {
                return Ok(Choice { driver: Box::new(driver), fallback: None });
            }
            Err(error) if preference == Preference::Uring => {
                return Err(io::Error::new(error.kind(), format!("io_uring was asked for, but {error}")));
            }
            Err(error) => Some(error.to_string()),
        },
    };
    Ok(Choice { driver: Box::new(Epoll::new(settings)?), fallback })
}
