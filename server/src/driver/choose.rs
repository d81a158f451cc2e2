//! Chooses between io_uring and epoll by trying what the kernel allows.

use super::epoll::Epoll;
use super::uring::Uring;
use super::{Driver, Settings};
use std::io;

/// The operator's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preference {
    /// io_uring if it works on this host, epoll otherwise.
    #[default]
    Auto,
    /// io_uring, or an error that names what is missing.
    Uring,
    /// epoll.
    Epoll,
}

/// A driver that works on this host.
pub struct Choice {
    /// The driver, for the calling thread.
    pub driver: Box<dyn Driver>,
    /// Why io_uring was not chosen, if it was tried: a sentence for the log.
    pub fallback: Option<String>,
}

/// Creates a driver for the calling thread. io_uring is chosen only after each operation it needs
/// has been tried: seccomp filters, `kernel.io_uring_disabled` and old kernels each refuse in a
/// different way.
///
/// # Errors
/// With [`Preference::Uring`], why it does not work on this host; otherwise, that the process has
/// no descriptors left.
pub fn choose(preference: Preference, settings: &Settings) -> io::Result<Choice> {
    let fallback = match preference {
        Preference::Epoll => None,
        Preference::Auto | Preference::Uring => match Uring::new(settings) {
            Ok(driver) => {
                return Ok(Choice { driver: Box::new(driver), fallback: None });
            }
            Err(error) if preference == Preference::Uring => {
                return Err(io::Error::new(error.kind(), format!("io_uring was requested, but {error}")));
            }
            Err(error) => Some(error.to_string()),
        },
    };
    Ok(Choice { driver: Box::new(Epoll::new(settings)?), fallback })
}
