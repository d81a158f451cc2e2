//! Messages to a user of this home: the sessions that they are for, and what is written.
//!
//! A message that may be stored is appended to the user's log in the turn that handles it, and is
//! durable before it is delivered or acknowledged. Followers at the head of the log get it at once.
//! A follower that cannot take it now falls behind and reads it from the log later
//! ([`follow`](crate::logs::follow)). No message to a user ends one of the user's sessions.

use crate::actors::Actors;
use crate::extension::offline::Keep;
use crate::extension::{self, Way};
use crate::id::{SessionId, mark};
use crate::io::StorageState;
use crate::letters::MessageClass;
use crate::logs::hand::Stamp;
use crate::logs::{Logs, Takers};
use crate::router::users::Incoming;
use crate::store::archive::Entry;
use crate::store::sessions::Trail;
use crate::store::waiting::{Apart, Transient};
use crate::streams::Streams;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{bare_of, resource_of};
use crate::wire::limit::Limit;

impl Logs {
    /// Delivers a message to a user of this home whose account exists (RFC 6121 8.5.2, 8.5.3).
    pub(crate) fn message_for(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        class: MessageClass,
        keep: Keep,
        stanza: Incoming<'_>,
    ) {
        let keep =
            if keep == Keep::Archive && !actors.archives(cx, user, stanza.from) { Keep::UntilDelivered } else { keep };
        let resource = resource_of(stanza.to);
        let exact = resource.and_then(|r| {
            let mut sessions = actors.users.sessions(&actors.sessions, user);
            sessions.find(|(_, s)| *s.resource == *r).map(|(id, _)| id)
        });
        match exact {
            // An error answers something that the session has sent.
            Some(session) if class == MessageClass::Error => {
                actors.answer_to_session(cx, session, stanza);
                self.copy(cx, actors, user, Way::In, 0, stanza.xml, &mut Trail::default(), |_, id| id == session);
                return cx.kernel.confirm(stanza.origin);
            }
            Some(session) => return self.to_session(cx, actors, user, session, keep, stanza),
            None => {}
        }
        match (class, resource.is_some()) {
            // 8.5.3.2.1: for an absent resource, only chat messages are treated as if sent to the
            // bare JID.
            (MessageClass::Chat, _) | (MessageClass::Normal, false) => {
                return self.to_bare(cx, actors, user, keep, stanza);
            }
            // 8.5.2.1.1: a headline goes to all resources with a non-negative priority, whatever
            // the policy for other messages.
            (MessageClass::Headline, false) => {
                for session in self.non_negative(actors, user) {
                    actors.hand_ephemeral(cx, session, stanza.xml);
                }
            }
            (MessageClass::Headline | MessageClass::Error, _) => {}
            (MessageClass::Normal | MessageClass::Groupchat, _) => {
                return actors.turn_away(cx, stanza, StanzaCondition::ServiceUnavailable);
            }
        }
        cx.kernel.confirm(stanza.origin);
    }

    /// Delivers a message to the session of its full JID.
    fn to_session(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
        keep: Keep,
        stanza: Incoming<'_>,
    ) {
        if keep == Keep::Nothing {
            actors.hand_ephemeral(cx, session, stanza.xml);
            self.copy(cx, actors, user, Way::In, 0, stanza.xml, &mut Trail::default(), |_, id| id == session);
            return cx.kernel.confirm(stanza.origin);
        }
        let state = actors.sessions.slot(session.slot);
        let alone = state.next == crate::session::conn::NONE && actors.users.get(user).first == session.slot;
        if alone && state.follows {
            // This session is the only follower, so the cursor covers the message.
            return self.to_followers(cx, actors, user, keep, stanza);
        }
        let behind = self.log_if_known(actors, user).is_some_and(|log| log.is_behind(session)) || cx.is_busy(session);
        if behind && !self.know_log(cx, actors, user) {
            return self.park_for_log(cx, actors, user, stanza);
        }
        if behind && let Some(limit) = self.no_room(cx, actors, user, stanza.xml.len()) {
            return actors.turn_away(cx, stanza, limit);
        }
        let at_head = self.position(cx, actors, user, session);
        let number = cx.kernel.next_number();
        let mut trail = Trail::default();
        if behind {
            let log = self.log(cx, actors, user);
            log.fall_behind(session, at_head, number - 1);
            log.set_apart(number);
            self.stored(cx, actors, user, stanza);
            self.heads_changed(actors, user);
            self.bring_up(cx, actors, user);
        } else {
            let stamp = Stamp { id: number, came_ms: None };
            self.hand_noted(cx, actors, session, number | mark::APART, stamp, stanza.xml, &mut trail);
        }
        let holder = self.holder(cx, session);
        let entry = Entry { trail: trail.bytes(), ..self.entry(cx, stanza, false) };
        Apart { holder, entry }.put(&mut cx.kernel.writes, bare_of(stanza.to), number);
        // The archive's entry records only copies: the message itself has its own row until it is
        // received.
        let (kept, mut trail) = (self.is_kept(cx, keep), Trail::default());
        let logged = if kept { number } else { 0 };
        self.copy(cx, actors, user, Way::In, logged, stanza.xml, &mut trail, |_, id| id == session);
        if kept {
            let entry = Entry { trail: trail.bytes(), ..self.entry(cx, stanza, false) };
            self.archive(cx, bare_of(stanza.to), number, &entry);
        }
        self.wake(cx, actors, user, stanza);
        cx.kernel.confirm(stanza.origin);
    }

    /// Delivers a message for the bare JID.
    fn to_bare(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, keep: Keep, stanza: Incoming<'_>) {
        if keep == Keep::Nothing {
            let takers = self.takers(cx, actors, user);
            for &session in &takers {
                actors.hand_ephemeral(cx, session, stanza.xml);
            }
            self.copy(cx, actors, user, Way::In, 0, stanza.xml, &mut Trail::default(), |_, id| takers.contains(&id));
            return cx.kernel.confirm(stanza.origin);
        }
        self.to_followers(cx, actors, user, keep, stanza);
    }

    /// Appends a message to the log for all followers.
    fn to_followers(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, keep: Keep, stanza: Incoming<'_>) {
        let (mut ready, mut fallen) = (Takers::new(), Takers::new());
        for session in self.heads(actors, user) {
            if cx.is_busy(session) { &mut fallen } else { &mut ready }.push(session);
        }
        let waits = ready.is_empty();
        if (waits || !fallen.is_empty()) && !self.know_log(cx, actors, user) {
            return self.park_for_log(cx, actors, user, stanza);
        }
        if waits && let Some(limit) = self.no_room(cx, actors, user, stanza.xml.len()) {
            return actors.turn_away(cx, stanza, limit);
        }
        let number = cx.kernel.next_number();
        for &session in &fallen {
            self.log(cx, actors, user).fall_behind(session, number - 1, number - 1);
        }
        let all_here = fallen.is_empty() && !self.has_followers_behind(actors, user);
        if !waits && !cx.kernel.settings.archive && all_here {
            self.hand_unlogged(cx, actors, user, number, &ready, stanza.xml);
            self.copy(cx, actors, user, Way::In, 0, stanza.xml, &mut Trail::default(), Actors::follows);
            self.wake(cx, actors, user, stanza);
            return cx.kernel.confirm(stanza.origin);
        }
        let kept = self.is_kept(cx, keep);
        if waits || !kept || !all_here {
            self.log(cx, actors, user).appended(number, !kept);
        }
        if waits {
            self.stored(cx, actors, user, stanza);
        }
        let mut trail = Trail::default();
        for session in ready {
            self.hand_noted(cx, actors, session, number, Stamp { id: number, came_ms: None }, stanza.xml, &mut trail);
        }
        if !fallen.is_empty() {
            self.heads_changed(actors, user);
        }
        self.copy(cx, actors, user, Way::In, if kept { number } else { 0 }, stanza.xml, &mut trail, Actors::follows);
        // Written last, because the entry records the sessions that it was handed to.
        let entry = Entry { trail: trail.bytes(), ..self.entry(cx, stanza, true) };
        if kept {
            self.archive(cx, bare_of(stanza.to), number, &entry);
        } else {
            Transient { of: None, entry }.put(&mut cx.kernel.writes, bare_of(stanza.to), number);
        }
        self.wake(cx, actors, user, stanza);
        cx.kernel.confirm(stanza.origin);
    }

    /// Without an archive, a message that all present followers take at once is not written. If
    /// several sessions hold it, it is stored only when the last of them is lost.
    fn hand_unlogged(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        number: u64,
        ready: &[SessionId],
        xml: &[u8],
    ) {
        let mut mark = mark::UNLOGGED | number;
        if ready.len() > 1 {
            mark |= mark::SHARED;
            self.log(cx, actors, user).share(mark, ready.len() as u16);
        }
        for &session in ready {
            actors.hand_bytes(cx, session, mark, xml);
        }
    }

    /// Whether a message of this kind is retained after delivery.
    fn is_kept(&self, cx: &Streams, keep: Keep) -> bool {
        cx.kernel.settings.archive && keep == Keep::Archive
    }

    fn archive(&self, cx: &mut Streams, bare: &str, number: u64, entry: &Entry<'_>) {
        let turn = &mut cx.kernel;
        extension::archive(&mut turn.writes, &turn.settings.domains, bare, number, entry);
    }

    pub(crate) fn entry<'a>(&self, cx: &Streams, stanza: Incoming<'a>, waits: bool) -> Entry<'a> {
        Entry {
            incoming: true,
            waits,
            time_ms: cx.kernel.now.wall_us / 1_000,
            peer: stanza.from,
            xml: stanza.xml,
            trail: b"",
        }
    }

    /// The reason why no message of this size may wait for the user now, if there is one.
    fn no_room(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, bytes: usize) -> Option<Limit> {
        let (most, most_bytes) = (cx.kernel.settings.waiting_messages_max, cx.kernel.settings.waiting_bytes_max);
        let full = cx.kernel.storage == StorageState::Full;
        let (count, waiting) = self.log(cx, actors, user).waiting();
        if count >= most || waiting + bytes as u64 > most_bytes {
            Some(Limit::WaitingMessages)
        } else {
            full.then_some(Limit::Disk)
        }
    }

    /// Stores a message that no session takes now.
    pub(crate) fn stored(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, stanza: Incoming<'_>) {
        self.log(cx, actors, user).stored(stanza.xml.len());
        self.touch_log(user);
        cx.kernel.counters.messages_stored.one();
        if actors.observers.is_some() {
            actors.tap_aside(cx, stanza, None);
        }
    }

    fn park_for_log(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, stanza: Incoming<'_>) {
        let bare = actors.bare_of_user(user);
        actors.park(cx, &bare, stanza);
    }
}
