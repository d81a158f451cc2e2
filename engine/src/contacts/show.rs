//! Presence sent to sessions and contacts, and roster pushes (RFC 6121 2.1.6, 4).

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::{Way, photo};
use crate::id::SessionId;
use crate::letters::{PresenceNews, TELLS_GONE};
use crate::router::users::RosterStep;
use crate::session::table::Session;
use crate::streams::Streams;
use crate::wire::jid::bare_of;
use crate::wire::splice::address;

/// Unavailable presence without payload, unaddressed.
pub(crate) const PRESENCE_GONE: &[u8] = b"<presence type='unavailable'/>";

impl Contacts {
    /// Sends a presence to all available sessions of a user.
    pub(crate) fn to_available(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        from: &str,
        to: &str,
        xml: &[u8],
    ) {
        let mut targets =
            actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.is_available()).map(|(id, _)| id);
        let Some(first) = targets.next() else { return };
        // Most users have one session: a presence to many users allocates no memory per user.
        let others: Vec<SessionId> = targets.collect();
        let mut stanza = std::mem::take(&mut cx.kernel.scratch);
        address(&mut stanza, xml, from, to);
        actors.offer_stanza(cx, first, &stanza);
        for session in others {
            actors.offer_stanza(cx, session, &stanza);
        }
        cx.kernel.keep_scratch(stanza);
    }

    /// Sends the presence of all available sessions of a user to one JID.
    pub(crate) fn show_presence(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, to: &str) {
        if actors.guards(cx, user, Way::Out, to).is_some() {
            return;
        }
        for (full, xml) in self.presences(actors, user) {
            cx.kernel.presence_reply(PresenceNews::Available { probe: None }, &full, to, &xml);
        }
    }

    /// Sends one JID the fact that one of a user's sessions is available, and nothing more (RFC
    /// 6121 4.3.2). Does so if there is such a session and `may` permits it. Returns whether it
    /// did.
    pub(crate) fn show_one(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        resource: &str,
        to: &str,
        may: impl Fn(&Session) -> bool,
    ) -> bool {
        let mut sessions = actors.users.sessions(&actors.sessions, user);
        let Some((id, _)) = sessions.find(|(_, s)| *s.resource == *resource && may(s)) else { return false };
        if actors.guards(cx, user, Way::Out, to).is_some() {
            return false;
        }
        let full = actors.full_jid(id);
        let xml = self.with_photo(actors, user, b"<presence/>");
        cx.kernel.presence_reply(PresenceNews::Available { probe: None }, &full, to, &xml);
        true
    }

    /// Sends unavailable presence of all available sessions of a user to one JID.
    pub(crate) fn hide_presence(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, to: &str) {
        let mut gone: Vec<String> = self.presences(actors, user).into_iter().map(|(full, _)| full).collect();
        // A session that has just become unavailable may still wait for the roster with its
        // unavailable presence, which would then go by the changed roster.
        let waits = actors.users.get(user).state.iter().flat_map(|state| state.roster_waits.iter());
        gone.extend(waits.filter_map(|step| match step {
            RosterStep::Withdraw { full, .. } => Some(full.to_string()),
            _ => None,
        }));
        for full in gone {
            cx.kernel.presence_reply(PresenceNews::Unavailable, &full, to, PRESENCE_GONE);
        }
    }

    /// Tells an entity that has missed presence that a contact is unavailable (RFC 6121 4.3.2). The
    /// answer is the same for a name without an account.
    pub(crate) fn tell_gone(&mut self, cx: &mut Streams, from: &str, to: &str, number: u64) {
        if number & TELLS_GONE != 0 && number != TELLS_GONE {
            cx.kernel.presence_reply(PresenceNews::Unavailable, bare_of(to), from, PRESENCE_GONE);
        }
    }

    /// The full JID and presence of each available session of a user.
    pub(crate) fn presences(&self, actors: &Actors, user: u32) -> Vec<(String, Vec<u8>)> {
        actors
            .users
            .sessions(&actors.sessions, user)
            .filter_map(|(id, s)| {
                Some((actors.full_jid(id), self.with_photo(actors, user, self.presence_table.get(s.presence?))))
            })
            .collect()
    }

    /// A retained available presence in the form that is sent to others.
    fn with_photo(&self, actors: &Actors, user: u32, kept: &[u8]) -> Vec<u8> {
        match actors.users.photo(user) {
            Some(photo) => photo::shown(kept, photo),
            None => kept.to_vec(),
        }
    }

    /// Sends a roster push to the interested resources (RFC 6121 2.1.6).
    pub(crate) fn push_to_interested(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, payload: &[u8]) {
        let interested: Vec<SessionId> =
            actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.interested).map(|(id, _)| id).collect();
        for session in interested {
            actors.push_to(cx, session, payload);
        }
    }
}
