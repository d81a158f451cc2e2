//! Who is shown what: presence for sessions and contacts, and roster pushes (RFC 6121 2.1.6, 4).

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
    /// Presence of someone to all available sessions of a user.
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
        // Most users have one: a presence to many takes no memory for each.
        let others: Vec<SessionId> = targets.collect();
        let mut stanza = std::mem::take(&mut cx.kernel.scratch);
        address(&mut stanza, xml, from, to);
        actors.offer_stanza(cx, first, &stanza);
        for session in others {
            actors.offer_stanza(cx, session, &stanza);
        }
        cx.kernel.keep_scratch(stanza);
    }

    /// The presence of all available sessions of a user goes to one JID.
    pub(crate) fn show_presence(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, to: &str) {
        if actors.guards(cx, user, Way::Out, to).is_some() {
            return;
        }
        for (full, xml) in self.presences(actors, user) {
            cx.kernel.presence_reply(PresenceNews::Available { probe: None }, &full, to, &xml);
        }
    }

    /// That one of a user's sessions is available, and no more, goes to one JID (RFC 6121 4.3.2), if there is such a session
    /// and it `may` be shown. Returns whether it was.
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

    /// All available sessions of a user vanish for one JID.
    pub(crate) fn hide_presence(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, to: &str) {
        let mut gone: Vec<String> = self.presences(actors, user).into_iter().map(|(full, _)| full).collect();
        // A session that has just become unavailable, but whose farewell still waits for the roster, would say it to the
        // roster as it is then.
        let waits = actors.users.get(user).state.iter().flat_map(|state| &state.roster_waits);
        gone.extend(waits.filter_map(|step| match step {
            RosterStep::Withdraw { full, .. } => Some(full.to_string()),
            _ => None,
        }));
        for full in gone {
            cx.kernel.presence_reply(PresenceNews::Unavailable, &full, to, PRESENCE_GONE);
        }
    }

    /// Who has missed presence hears of a contact who is not there (RFC 6121 4.3.2). It is so for a name that nobody has, too.
    pub(crate) fn tell_gone(&mut self, cx: &mut Streams, from: &str, to: &str, number: u64) {
        if number & TELLS_GONE != 0 && number != TELLS_GONE {
            cx.kernel.presence_reply(PresenceNews::Unavailable, bare_of(to), from, PRESENCE_GONE);
        }
    }

    /// Full JID and presence of each available session of a user.
    pub(crate) fn presences(&self, actors: &Actors, user: u32) -> Vec<(String, Vec<u8>)> {
        actors
            .users
            .sessions(&actors.sessions, user)
            .filter_map(|(id, s)| {
                Some((actors.full_jid(id), self.with_photo(actors, user, self.presence_table.get(s.presence?))))
            })
            .collect()
    }

    /// An available presence that is kept, as others see it.
    fn with_photo(&self, actors: &Actors, user: u32, kept: &[u8]) -> Vec<u8> {
        match actors.users.photo(user) {
            Some(photo) => photo::shown(kept, photo),
            None => kept.to_vec(),
        }
    }

    /// A roster push to the interested resources (RFC 6121 2.1.6).
    pub(crate) fn push_to_interested(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, payload: &[u8]) {
        let interested: Vec<SessionId> =
            actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.interested).map(|(id, _)| id).collect();
        for session in interested {
            actors.push_to(cx, session, payload);
        }
    }
}
