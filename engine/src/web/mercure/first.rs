//! Events gathered for a subscriber before its response begins, because the head of the response
//! reports gaps. Also its topic selectors.

use std::sync::Arc;

use super::place::EARLIEST;
use super::selector::Selectors;

/// What a Mercure subscriber receives first, once all homes have answered.
#[derive(Debug)]
pub struct First {
    /// The identifier of the update to resume after, if the client has sent one.
    pub id: Option<Box<str>>,
    /// The events gathered.
    pub out: Vec<u8>,
    /// The events have been sent; the value is retained for the selectors.
    pub begun: bool,
    /// The selectors that items below prefixes have to match.
    pub selectors: Arc<Selectors>,
}

impl First {
    /// Starts without events, after this update or with new items only.
    pub fn behind(id: Option<Box<str>>, selectors: Arc<Selectors>) -> Box<First> {
        Box::new(First { id, out: Vec::new(), begun: false, selectors })
    }

    /// Appends the events of a home's answer. A gap invalidates the identifier of the update to
    /// resume after.
    pub fn tell(&mut self, events: &[u8], gap: bool) {
        self.out.extend_from_slice(events);
        if let Some(id) = self.id.as_mut().filter(|_| gap) {
            *id = EARLIEST.into();
        }
    }
}
