//! What is gathered for a subscriber before its answer begins: the head of that says whether anything is missing.

use super::place::EARLIEST;

/// What a subscriber by Mercure is told first, when all homes have answered.
#[derive(Debug)]
pub struct First {
    /// The identifier of the update behind which it goes on, if it has asked for that.
    pub id: Option<Box<str>>,
    /// Events.
    pub out: Vec<u8>,
}

impl First {
    /// Nothing has been answered yet; it goes on behind this update, or is told what comes from now on.
    pub fn behind(id: Option<Box<str>>) -> Box<First> {
        Box::new(First { id, out: Vec::new() })
    }

    /// What a home has answered; if items are missing, there is no update behind which all goes on.
    pub fn tell(&mut self, events: &[u8], gap: bool) {
        self.out.extend_from_slice(events);
        if let Some(id) = self.id.as_mut().filter(|_| gap) {
            *id = EARLIEST.into();
        }
    }
}
