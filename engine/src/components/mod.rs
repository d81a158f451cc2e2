//! External components (XEP-0114): programs that each serve a domain. The connection of a component
//! is at the home of its domain, and stanzas for it wait there. This module knows nothing about the
//! logins and resources of users.
//!
//! - [`stream`]: from the header to a proven domain, and to the end
//! - [`seats`]: connected components, and what waits for each
//! - [`to_component`] and [`from_component`]: stanzas

pub(crate) mod from_component;
mod seats;
mod stream;
mod to_component;

use crate::components::seats::Seats;

/// External components whose home is this shard.
#[derive(Debug)]
pub(crate) struct Components {
    seats: Seats,
}

impl Components {
    pub(crate) fn new() -> Components {
        Components { seats: Seats::default() }
    }

    /// Whether any component is connected.
    #[inline]
    pub(crate) fn has_seats(&self) -> bool {
        self.seats.any()
    }
}
