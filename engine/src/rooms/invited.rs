//! Who was invited to a room by whom (XEP-0045 7.8.2).

use std::collections::VecDeque;

use crate::limits::ROOM_INVITED_MAX;

/// The latest invitations that nobody has declined: users and their inviters, by bare JIDs; at most
/// [`ROOM_INVITED_MAX`].
#[derive(Debug, Default)]
pub(super) struct Invited(VecDeque<(Box<str>, Box<str>)>);

impl Invited {
    pub(super) fn note(&mut self, to: &str, by: &str) {
        self.take(to, by);
        if self.0.len() >= ROOM_INVITED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((to.into(), by.into()));
    }

    /// Forgets an invitation. Returns whether there was one.
    pub(super) fn take(&mut self, to: &str, by: &str) -> bool {
        let at = self.0.iter().position(|(user, inviter)| **user == *to && **inviter == *by);
        at.and_then(|at| self.0.remove(at)).is_some()
    }
}
