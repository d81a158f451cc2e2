//! Sessions of an earlier process, which may be resumed (XEP-0198 5), as their contacts see them.
//! [`shard::stored`](crate::shard::stored) writes their rows.

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::id::SessionId;
use crate::router::users::RosterStep;
use crate::store::sessions;
use crate::streams::Streams;
use crate::wire::written::read_back;

impl Contacts {
    /// A session of an earlier process is as available as it was. Contacts have already seen its
    /// presence, or will probe.
    pub(crate) fn show_restored(&mut self, actors: &mut Actors, id: SessionId, presence: &[u8]) {
        let Ok(interned) = self.presence_table.intern(presence) else { return };
        read_back(presence, |element| self.note_capabilities(interned, element));
        actors.sessions.set_presence(id, Some(interned));
    }

    /// A session of an earlier process has its client again. Requests the state that could not be
    /// retained for it meanwhile.
    pub(crate) fn refresh(&mut self, cx: &mut Streams, actors: &mut Actors, id: SessionId) {
        let Some(session) = actors.sessions.get_mut(id) else { return };
        let user = session.user;
        if !session.is_available() {
            return;
        }
        session.extra.get_or_insert_default().missed = Some("".into());
        self.roster_step(cx, actors, user, RosterStep::Renew { session: id });
        self.roster_step(cx, actors, user, RosterStep::Catch { session: id });
        self.interests_announced(cx, actors, id, None);
    }

    /// Removes the rows of a session that ends.
    pub(crate) fn forget_stored(&mut self, cx: &mut Streams, actors: &mut Actors, id: SessionId) {
        if !cx.is_stored(id) {
            return;
        }
        let (Some((key, ..)), Some(session)) = (cx.stored_as(id), actors.sessions.get(id)) else { return };
        let bare = actors.bare_of_user(session.user);
        if cx.is_restored(id) {
            self.ended_restored.insert(key.0);
        }
        sessions::delete(&mut cx.kernel.writes, &bare, key);
    }
}
