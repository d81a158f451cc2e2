//! External components (XEP-0114): programs that serve a domain each. The connection of a component is at the home of its domain,
//! and what waits for it is kept there. The module knows nothing of the logins and resources of users.
//!
//! - [`stream`]: from the header to a proven domain, and to the end
//! - [`seats`]: who is there, and what waits for each
//! - [`to_component`] and [`from_component`]: stanzas

pub(crate) mod from_component;
mod seats;
mod stream;
mod to_component;

use crate::components::seats::Seats;

/// External components whose home a shard is.
#[derive(Debug)]
pub(crate) struct Components {
    seats: Seats,
}

impl Components {
    /// None is there.
    pub(crate) fn new() -> Components {
        Components { seats: Seats::default() }
    }

    /// Whether any component is there.
    #[inline]
    pub(crate) fn has_seats(&self) -> bool {
        self.seats.any()
    }
}
