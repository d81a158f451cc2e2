//! A roster at hand: requests of its owner (RFC 6121 2).

use crate::contacts::Contacts;
use crate::extension;
use crate::extension::RosterRequest as Request;
use crate::extension::roster::Roster;
use crate::extension::subscription::{Kind, OwnPresence};
use crate::id::SessionId;
use crate::io::StorageState;
use crate::session::sm::Rows;
use crate::wire::limit::Limit;

impl Contacts {
    /// Takes the roster out for a step, so that the step can use the rest of the shard, and puts it back.
    pub(super) fn with_roster<T>(
        &mut self,
        user: u32,
        step: impl FnOnce(&mut Contacts, &mut Roster) -> T,
    ) -> Option<T> {
        let mut roster = self.users.get_mut(user).state.as_mut()?.roster.take()?;
        let before = roster.version();
        let result = step(self, &mut roster);
        if roster.version() != before && self.has_notes(user) {
            self.note_roster(user, &roster);
        }
        let now_s = self.now.mono_s();
        if let Some(state) = self.users.get_mut(user).state.as_mut() {
            state.roster = Some(roster);
            state.roster_used_s = now_s;
        }
        Some(result)
    }

    /// Extensions hear what the roster lists now.
    fn note_roster(&mut self, user: u32, roster: &Roster) {
        let Some(state) = &self.users.get(user).state else { return };
        for (place, row) in extension::roster_changed(&state.notes, roster.listed_contacts()) {
            self.put_record(user, place, &row);
        }
    }

    pub(super) fn roster_request(&mut self, user: u32, session: SessionId, id: Option<&str>, request: Request) {
        let owner = self.bare_of_user(user);
        if self.storage == StorageState::Full && !matches!(request, Request::Get { .. }) {
            return self.iq_error(session, id, Limit::Disk);
        }
        match request {
            Request::Get { ver } => {
                let state = self.sessions.get_mut(session);
                let before = state.is_none_or(|state| std::mem::replace(&mut state.interested, true));
                if !before && self.is_stored(session) {
                    // Its client relies on pushes as soon as it has the answer.
                    self.rows_due(session, Rows::All);
                } else {
                    self.changed(session);
                }
                let Some(answer) = self.with_roster(user, |_, roster| roster.get(ver.as_deref())) else { return };
                self.iq_result(session, id, &answer.payload);
                for push in answer.pushes {
                    self.push_to(session, &push);
                }
            }
            Request::Set(item) => {
                let set = |floor: &mut Contacts, roster: &mut Roster| roster.set(&owner, &item, &mut floor.writes);
                match self.with_roster(user, set) {
                    Some(Ok(push)) => {
                        self.push_to_interested(user, &push);
                        self.iq_result(session, id, b"");
                    }
                    Some(Err(refusal)) => self.iq_error(session, id, refusal),
                    None => {}
                }
            }
            Request::Remove(contact) => self.remove_contact(user, session, id, &contact),
        }
    }

    pub(super) fn remove_contact(&mut self, user: u32, session: SessionId, id: Option<&str>, contact: &str) {
        let owner = self.bare_of_user(user);
        let remove = |floor: &mut Contacts, roster: &mut Roster| roster.remove(&owner, contact, &mut floor.writes);
        let removed = match self.with_roster(user, remove) {
            Some(Ok(removed)) => removed,
            Some(Err(condition)) => return self.iq_error(session, id, condition),
            None => return,
        };
        self.push_to_interested(user, &removed.push);
        self.own_presence(user, contact, removed.presence);
        if removed.unsubscribe {
            let confirm = if removed.unsubscribed.is_some() { 0 } else { removed.confirm };
            self.subscription_to(&owner, contact, Kind::Unsubscribe, 0, confirm);
        }
        if let Some(number) = removed.unsubscribed {
            self.subscription_to(&owner, contact, Kind::Unsubscribed, number, removed.confirm);
        }
        self.iq_result(session, id, b"");
    }

    pub(super) fn own_presence(&mut self, user: u32, contact: &str, what: OwnPresence) {
        match what {
            OwnPresence::Keep => {}
            OwnPresence::Show => self.show_presence(user, contact),
            OwnPresence::Hide => self.hide_presence(user, contact),
        }
    }
}
