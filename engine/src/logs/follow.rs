//! Followers of a user's log: the sessions that take messages for the bare JID. This module adds
//! and removes them, and records what they receive.
//!
//! A follower begins at the cursor: it is handed every message that no session is known to have
//! received. A message is *received* when a managed session acknowledges it (XEP-0198), or when its
//! bytes are with the kernel.

use crate::actors::Actors;
use crate::id::{ConnId, SessionId, mark};
use crate::kernel::pending::one_value;
use crate::logs::{Logs, Takers};
use crate::outbound::Unsent;
use crate::session::conn::NONE;
use crate::session::sm::{Rows, Unacked};
use crate::store::Found;
use crate::store::archive::Entry;
use crate::store::log::Log;
use crate::store::waiting::{Apart, Cursor, Transient};
use crate::streams::Streams;
use crate::streams::output::Carries;
use crate::wire::written::from_of_stanza;

impl Logs {
    pub(crate) fn log_found(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, found: Vec<Found>) {
        let Some(user) = actors.users.find(account) else { return };
        let now_s = cx.kernel.now.mono_s();
        let state = actors.users.state(user, now_s);
        state.log_asked = false;
        // The account may have been removed and created again since this read was requested.
        if !std::mem::take(&mut state.log_outdated) {
            let cursor = one_value(found).and_then(|value| Cursor::decode(&value)).unwrap_or_default();
            state.log.get_or_insert_with(|| Log::loaded(cursor).into());
        }
        self.takers_changed(cx, actors, user);
    }

    /// A session of the user has begun, ended or changed its presence. Updates the set of
    /// followers.
    pub(crate) fn takers_changed(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let takers = self.takers(cx, actors, user);
        let all: Takers = actors.users.sessions(&actors.sessions, user).map(|(id, _)| id).collect();
        let only = all.len() == 1;
        for id in all {
            if actors.follows(id) && !takers.contains(&id) {
                self.stop_following(cx, actors, user, id);
            }
        }
        let begins: Takers = takers.into_iter().filter(|&id| !actors.follows(id)).collect();
        if begins.is_empty() {
            return self.heads_changed(actors, user);
        }
        if !self.know_log(cx, actors, user) {
            self.heads_changed(actors, user);
            return self.ask_for_log(cx, actors, user);
        }
        let received = self.received_by_heads(cx, actors, user);
        for &id in &begins {
            // The session is handed nothing before its rows record that it follows, because it
            // continues from there after a crash. A new session has no rows yet, and does not
            // survive a crash.
            let due = if cx.is_stored(id) { Rows::All } else { Rows::Soon };
            cx.rows_due(id, due);
        }
        let (last, now_s) = (cx.kernel.last_number, cx.kernel.now.mono_s());
        let Actors { users, sessions, .. } = &mut *actors;
        let state = users.state(user, now_s);
        if received.is_none() {
            state.since = last;
        }
        let Some(log) = state.log.as_mut() else { return };
        let cursor = log.cursor().max(received.unwrap_or(0));
        // The login's read has shown that there is nothing to bring it up to.
        let at_rest = only && log.is_at_rest();
        if at_rest && log.waiting() != (0, 0) {
            log.drained();
            self.touch_log(user);
        }
        for id in begins {
            if let Some(session) = sessions.get_mut(id) {
                session.follows = true;
            }
            let rested = log.leave(id);
            let seen = rested.map_or(cursor, |rested| rested.entries.at.max(cursor));
            let apart = rested.map_or(last, |rested| rested.apart);
            let all_had = at_rest || (received.is_some() && seen >= last);
            if !all_had || rested.is_some_and(|rested| log.waits_apart(&rested)) {
                log.fall_behind(id, seen, apart);
            }
        }
        self.gather(cx, actors, user, false);
        self.heads_changed(actors, user);
        self.bring_up(cx, actors, user);
        if at_rest && let Some(state) = &mut actors.users.get_mut(user).state {
            // It would be the same if it were made from the session's position.
            state.log.take_if(|log| log.is_settled(true));
        }
    }

    /// A session no longer takes messages for the bare JID. Its position is retained while it holds
    /// messages, so that they are not handed to it twice.
    fn stop_following(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, id: SessionId) {
        let known = self.know_log(cx, actors, user);
        debug_assert!(known, "who follows has a log");
        let held = cx.first_held(id);
        let last = cx.kernel.last_number;
        if let Some(session) = actors.sessions.get_mut(id) {
            session.follows = false;
        }
        cx.changed(id);
        let forsaken = self.heads(actors, user).is_empty();
        let log = self.log(cx, actors, user);
        match log.follower(id).map(|follower| *follower) {
            Some(follower) => {
                if follower.entries.at <= log.cursor() && !log.waits_apart(&follower) && !follower.entries.is_asking() {
                    log.leave(id);
                }
            }
            None => {
                log.received(held.map_or(last, |held| held - 1));
                if held.is_some() {
                    log.fall_behind(id, last, last);
                }
            }
        }
        if forsaken {
            log.forsaken();
        }
        log.touch();
        self.touch_log(user);
    }

    /// A session has ended. `under_way` is the number of the first message that may still reach its
    /// client.
    pub(crate) fn follower_left(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        id: SessionId,
        followed: bool,
        lost: Vec<Unsent>,
        under_way: Option<u64>,
    ) {
        let (last, others) = (cx.kernel.last_number, self.received_by_heads(cx, actors, user));
        let now_s = cx.kernel.now.mono_s();
        let log = &mut actors.users.state(user, now_s).log;
        if log.is_none() && followed {
            // The session was at the head.
            *log = Some(Log::live(others.unwrap_or(0)).into());
        }
        let mut gather = lost.iter().any(|unsent| unsent.id & mark::APART != 0);
        if let Some(log) = log {
            let place = log.leave(id);
            gather |= place.is_some_and(|place| log.waits_apart(&place));
            let held = lost.iter().map(|unsent| unsent.id).filter(|&id| mark::holds_cursor(id)).map(mark::number);
            let held = held.chain(under_way).min();
            if followed || place.is_some() {
                let seen = place.map_or(last, |place| place.entries.at);
                log.received(held.map_or(seen, |held| held - 1).max(others.unwrap_or(0)));
                log.touch();
            }
            if others.is_none() {
                log.forsaken();
            }
            self.touch_log(user);
        }
        for unsent in lost {
            self.message_lost(cx, actors, user, unsent, others.is_some());
        }
        self.heads_changed(actors, user);
        if gather {
            self.gather(cx, actors, user, true);
        }
    }

    /// A session ended without having received this message.
    fn message_lost(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, unsent: Unsent, others: bool) {
        let Unsent { id, xml } = unsent;
        if id == 0 {
            return cx.kernel.bounce_unreceived(&xml);
        }
        if id & mark::UNLOGGED != 0 {
            let log = actors.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut());
            if id & mark::SHARED == 0 || log.is_some_and(|log| log.shared_lost(id)) {
                self.restore_unlogged(cx, actors, user, mark::number(id), &xml);
            }
            return;
        }
        if id & mark::APART == 0 && !others {
            cx.kernel.counters.messages_returned.one();
            if let Some(log) = actors.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut()) {
                log.stored(xml.len());
            }
        }
    }

    /// Stores a message that is in no log, at the place of its number if no follower is past it.
    fn restore_unlogged(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, number: u64, xml: &[u8]) {
        // If its bytes were in a send in flight, they are gone.
        let Some(from) = from_of_stanza(xml) else { return };
        cx.kernel.counters.messages_returned.one();
        let entry =
            Entry { incoming: true, waits: true, time_ms: cx.kernel.now.wall_us / 1_000, peer: &from, xml, trail: b"" };
        let passed = self.log(cx, actors, user).cursor() >= number
            || actors.users.sessions(&actors.sessions, user).any(|(_, session)| session.follows);
        if passed {
            return self.append_again(cx, actors, user, None, entry);
        }
        let bare = actors.bare_of_user(user);
        Transient { of: None, entry }.put(&mut cx.kernel.writes, &bare, number);
        let log = self.log(cx, actors, user);
        log.appended(number, true);
        log.stored(xml.len());
        self.touch_log(user);
    }

    /// A managed session has acknowledged these messages.
    pub(crate) fn messages_received(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: SessionId,
        acked: &[Unacked],
    ) {
        cx.lightened(session);
        self.have_arrived(
            cx,
            actors,
            user,
            Some(session),
            acked.iter().map(|unacked| unacked.id).filter(|&id| id != 0),
        );
        self.bring_up(cx, actors, user);
    }

    /// The bytes of these messages are with the kernel. For a session without stream management,
    /// which may have ended since, this is the only receipt.
    fn messages_sent(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: Option<SessionId>,
        ids: &[u64],
    ) {
        self.have_arrived(cx, actors, user, session, ids.iter().copied());
        self.bring_up(cx, actors, user);
    }

    fn have_arrived(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        session: Option<SessionId>,
        ids: impl Iterator<Item = u64> + Clone,
    ) {
        let mut last = None;
        for id in ids {
            if id & mark::APART != 0 {
                let bare = actors.bare_of_user(user);
                Apart::delete(&mut cx.kernel.writes, &bare, mark::number(id));
            } else if id & mark::UNLOGGED == 0 {
                last = Some(id);
            } else if id & mark::SHARED != 0
                && let Some(log) = actors.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut())
            {
                log.shared_received(id);
            }
        }
        // A message that is in no log moves no cursor.
        let Some(last) = last else { return };
        // The session has also received all messages that it was handed before this one.
        let follows = session.filter(|&id| actors.sessions.get(id).is_some_and(|s| s.follows));
        let behind = session.is_some_and(|id| self.log_if_known(actors, user).is_some_and(|log| log.is_behind(id)));
        let received = match follows.filter(|_| !behind) {
            Some(id) => cx.first_held(id).map_or(cx.kernel.last_number, |held| held - 1),
            None => last,
        };
        if actors.users.get(user).live {
            self.know_log(cx, actors, user);
        }
        let Some(log) = actors.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut()) else { return };
        log.received(received);
        log.touch();
        self.touch_log(user);
    }

    /// A client reports that it has received this many more of the messages sent on its connection
    /// (XEP-0124 9.2).
    pub(crate) fn got(&mut self, cx: &mut Streams, actors: &mut Actors, id: ConnId, messages: usize) {
        let mut ids = std::mem::take(&mut self.sent_ids);
        cx.bosh_got(id, messages, &mut ids);
        if let Carries::Session(session) = cx.carries_for(id) {
            let user = actors.sessions.get(session).map_or(NONE, |session| session.user);
            if user != NONE {
                self.messages_sent(cx, actors, user, Some(session), &ids);
            }
        }
        ids.clear();
        self.sent_ids = ids;
    }

    pub(crate) fn sent(&mut self, cx: &mut Streams, actors: &mut Actors, id: ConnId) {
        if actors.observers.is_some() {
            actors.tap_sent(cx, id);
        }
        let mut ids = std::mem::take(&mut self.sent_ids);
        let (before, more) = cx.send_ended(id, &mut ids).unwrap_or_default();
        cx.conn_lightened(id);
        let was_behind = before > cx.kernel.settings.outbound_bytes_soft;
        // Most sends carry no message and delay none; the user's log is then not looked up.
        let carried = !ids.is_empty() || was_behind;
        let (user, session) = match carried.then(|| cx.carries_for(id)) {
            Some(Carries::Session(session)) => (actors.sessions.get(session).map_or(NONE, |s| s.user), Some(session)),
            Some(Carries::Left(user)) => (user, None),
            Some(Carries::Nobody) | None => (NONE, None),
        };
        if more {
            actors.flush_one(cx, id);
        }
        if user != NONE {
            self.messages_sent(cx, actors, user, session, &ids);
        }
        ids.clear();
        self.sent_ids = ids;
        if was_behind {
            cx.drained(id);
        }
    }
}
