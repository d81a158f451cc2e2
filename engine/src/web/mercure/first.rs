//! What is gathered for a subscriber before its answer begins: the head of that says whether anything is missing. And which topics it wants.

use std::sync::Arc;

use super::place::EARLIEST;
use super::selector::Selectors;

/// What a subscriber by Mercure is told first, when all homes have answered.
#[derive(Debug)]
pub struct First {
    /// The identifier of the update behind which it goes on, if it has asked for that.
    pub id: Option<Box<str>>,
    /// Events.
    pub out: Vec<u8>,
    /// It has been told, and this stays for the selectors.
    pub begun: bool,
    /// Of what is published below prefixes it wants no more than what they mean.
    pub selectors: Arc<Selectors>,
}

impl First {
    /// Nothing has been answered yet; it goes on behind this update, or is told what comes from now on.
    pub fn behind(id: Option<Box<str>>, selectors: Arc<Selectors>) -> Box<First> {
        Box::new(First { id, out: Vec::new(), begun: false, selectors })
    }

    /// What a home has answered; if items are missing, there is no update behind which all goes on.
    pub fn tell(&mut self, events: &[u8], gap: bool) {
        self.out.extend_from_slice(events);
        if let Some(id) = self.id.as_mut().filter(|_| gap) {
            *id = EARLIEST.into();
        }
    }
}
