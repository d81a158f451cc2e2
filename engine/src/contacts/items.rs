//! Requests of a roster's owner (RFC 6121 2), when the roster is in memory.

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension;
use crate::extension::RosterRequest as Request;
use crate::extension::roster::Roster;
use crate::extension::subscription::{Kind, OwnPresence};
use crate::id::SessionId;
use crate::io::StorageState;
use crate::session::sm::Rows;
use crate::streams::Streams;
use crate::wire::limit::Limit;

impl Contacts {
    /// Takes the roster out for a step, which can then use the rest of the shard, and puts it back.
    pub(super) fn with_roster<T>(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        step: impl FnOnce(&mut Streams, &mut Actors, &mut Roster) -> T,
    ) -> Option<T> {
        let mut roster = actors.users.get_mut(user).state.as_mut()?.roster.take()?;
        let before = roster.version();
        let result = step(cx, actors, &mut roster);
        if roster.version() != before && actors.has_notes(user) {
            self.note_roster(cx, actors, user, &roster);
        }
        let now_s = cx.kernel.now.mono_s();
        if let Some(state) = actors.users.get_mut(user).state.as_mut() {
            state.roster = Some(roster);
            state.roster_used_s = now_s;
        }
        Some(result)
    }

    /// Informs extensions of the roster's current content.
    fn note_roster(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, roster: &Roster) {
        let Some(state) = &actors.users.get(user).state else { return };
        for (place, row) in extension::roster_changed(&state.notes, roster.listed_contacts()) {
            actors.put_record(cx, user, place, &row);
        }
    }

    pub(super) fn roster_request(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
        id: Option<&str>,
        request: Request,
    ) {
        let owner = actors.bare_of_user(user);
        if cx.kernel.storage == StorageState::Full && !matches!(request, Request::Get { .. }) {
            return actors.iq_error(cx, session, id, Limit::Disk);
        }
        match request {
            Request::Get { ver } => {
                let state = actors.sessions.get_mut(session);
                let before = state.is_none_or(|state| std::mem::replace(&mut state.interested, true));
                if !before && cx.is_stored(session) {
                    // The client relies on pushes as soon as it has the answer.
                    cx.rows_due(session, Rows::All);
                } else {
                    cx.changed(session);
                }
                let Some(answer) = self.with_roster(cx, actors, user, |_, _, roster| roster.get(ver.as_deref())) else {
                    return;
                };
                actors.iq_result(cx, session, id, &answer.payload);
                for push in answer.pushes {
                    actors.push_to(cx, session, &push);
                }
            }
            Request::Set(item) => {
                let set = |cx: &mut Streams, _: &mut Actors, roster: &mut Roster| {
                    roster.set(&owner, &item, &mut cx.kernel.writes)
                };
                match self.with_roster(cx, actors, user, set) {
                    Some(Ok(push)) => {
                        self.push_to_interested(cx, actors, user, &push);
                        actors.iq_result(cx, session, id, b"");
                    }
                    Some(Err(refusal)) => actors.iq_error(cx, session, id, refusal),
                    None => {}
                }
            }
            Request::Remove(contact) => self.remove_contact(cx, actors, user, session, id, &contact),
        }
    }

    pub(super) fn remove_contact(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
        id: Option<&str>,
        contact: &str,
    ) {
        let owner = actors.bare_of_user(user);
        let remove = |cx: &mut Streams, _: &mut Actors, roster: &mut Roster| {
            roster.remove(&owner, contact, &mut cx.kernel.writes)
        };
        let removed = match self.with_roster(cx, actors, user, remove) {
            Some(Ok(removed)) => removed,
            Some(Err(condition)) => return actors.iq_error(cx, session, id, condition),
            None => return,
        };
        self.push_to_interested(cx, actors, user, &removed.push);
        self.own_presence(cx, actors, user, contact, removed.presence);
        if removed.unsubscribe {
            let confirm = if removed.unsubscribed.is_some() { 0 } else { removed.confirm };
            cx.kernel.subscription_to(&owner, contact, Kind::Unsubscribe, 0, confirm);
        }
        if let Some(number) = removed.unsubscribed {
            cx.kernel.subscription_to(&owner, contact, Kind::Unsubscribed, number, removed.confirm);
        }
        actors.iq_result(cx, session, id, b"");
    }

    pub(super) fn own_presence(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        contact: &str,
        what: OwnPresence,
    ) {
        match what {
            OwnPresence::Keep => {}
            OwnPresence::Show => self.show_presence(cx, actors, user, contact),
            OwnPresence::Hide => self.hide_presence(cx, actors, user, contact),
        }
    }
}
