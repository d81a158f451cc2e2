//! Followers of a user's log: sessions that take messages for the bare JID. They come, go, and receive.
//!
//! A follower begins at the cursor: it is handed all that no session is known to have received. A message is *received* when a
//! managed session acknowledges it (XEP-0198), or when its bytes are with the kernel.

use crate::actors::Actors;
use crate::id::{ConnId, SessionId, mark};
use crate::logs::{Logs, Takers};
use crate::outbound::Unsent;
use crate::session::conn::NONE;
use crate::session::sm::{Rows, Unacked};
use crate::store::Found;
use crate::store::archive::Entry;
use crate::store::log::Log;
use crate::store::waiting::{Apart, Cursor, Transient};
use crate::streams::output::Carries;
use crate::turn::pending::one_value;
use crate::wire::written::from_of_stanza;

impl Logs {
    pub(crate) fn log_found(&mut self, account: &str, found: Vec<Found>) {
        let Some(user) = self.users.find(account) else { return };
        let now_s = self.now.mono_s();
        let state = self.users.state(user, now_s);
        state.log_asked = false;
        // The account may have been removed, and another made, since this was asked.
        if !std::mem::take(&mut state.log_outdated) {
            let cursor = one_value(found).and_then(|value| Cursor::decode(&value)).unwrap_or_default();
            state.log.get_or_insert_with(|| Log::loaded(cursor));
        }
        self.takers_changed(user);
    }

    /// A session of the user came, went, or changed its presence: who follows now?
    pub(crate) fn takers_changed(&mut self, user: u32) {
        let takers = self.takers(user);
        let follows = |floor: &Logs, id: SessionId| floor.sessions.get(id).is_some_and(|session| session.follows);
        let all: Takers = self.users.sessions(&self.sessions, user).map(|(id, _)| id).collect();
        for id in all {
            if follows(self, id) && !takers.contains(&id) {
                self.stop_following(user, id);
            }
        }
        let begins: Takers = takers.into_iter().filter(|&id| !follows(self, id)).collect();
        if begins.is_empty() {
            return self.heads_changed(user);
        }
        if !self.know_log(user) {
            self.heads_changed(user);
            return self.ask_for_log(user);
        }
        let received = self.received_by_heads(user);
        for &id in &begins {
            // It is not handed anything before its rows say that it follows: after a crash it goes on from there. A new session has none
            // yet, and does not come back.
            let due = if self.is_stored(id) { Rows::All } else { Rows::Soon };
            self.rows_due(id, due);
        }
        let (last, now_s) = (self.last_number, self.now.mono_s());
        let Actors { users, sessions, .. } = &mut self.actors;
        let state = users.state(user, now_s);
        if received.is_none() {
            state.since = last;
        }
        let Some(log) = state.log.as_mut() else { return };
        let cursor = log.cursor().max(received.unwrap_or(0));
        for id in begins {
            if let Some(session) = sessions.get_mut(id) {
                session.follows = true;
            }
            let rested = log.leave(id);
            let seen = rested.map_or(cursor, |rested| rested.seen.max(cursor));
            let apart = rested.map_or(last, |rested| rested.apart);
            let all_had = received.is_some() && seen >= last;
            if !all_had || rested.is_some_and(|rested| log.waits_apart(&rested)) {
                log.fall_behind(id, seen, apart);
            }
        }
        self.gather(user, false);
        self.heads_changed(user);
        self.bring_up(user);
    }

    /// A session takes no messages for the bare JID any more. Its place is kept as long as it holds some: it will not be handed
    /// them twice.
    fn stop_following(&mut self, user: u32, id: SessionId) {
        let known = self.know_log(user);
        debug_assert!(known, "who follows has a log");
        let held = self.first_held(id);
        let last = self.last_number;
        if let Some(session) = self.sessions.get_mut(id) {
            session.follows = false;
        }
        self.changed(id);
        let forsaken = self.heads(user).is_empty();
        let log = self.log(user);
        match log.follower(id).map(|follower| *follower) {
            Some(follower) => {
                if follower.seen <= log.cursor() && !log.waits_apart(&follower) && !follower.reading {
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

    /// A session has ended. `under_way` is the number of the first message that may still reach its client.
    pub(crate) fn follower_left(
        &mut self,
        user: u32,
        id: SessionId,
        followed: bool,
        lost: Vec<Unsent>,
        under_way: Option<u64>,
    ) {
        let (last, others) = (self.last_number, self.received_by_heads(user));
        let now_s = self.now.mono_s();
        let log = &mut self.users.state(user, now_s).log;
        if log.is_none() && followed {
            // It was at the head.
            *log = Some(Log::live(others.unwrap_or(0)));
        }
        let mut gather = lost.iter().any(|unsent| unsent.id & mark::APART != 0);
        if let Some(log) = log {
            let place = log.leave(id);
            gather |= place.is_some_and(|place| log.waits_apart(&place));
            let held = lost.iter().map(|unsent| unsent.id).filter(|&id| mark::holds_cursor(id)).map(mark::number);
            let held = held.chain(under_way).min();
            if followed || place.is_some() {
                let seen = place.map_or(last, |place| place.seen);
                log.received(held.map_or(seen, |held| held - 1).max(others.unwrap_or(0)));
                log.touch();
            }
            if others.is_none() {
                log.forsaken();
            }
            self.touch_log(user);
        }
        for unsent in lost {
            self.message_lost(user, unsent, others.is_some());
        }
        self.heads_changed(user);
        if gather {
            self.gather(user, true);
        }
    }

    /// A session ended without having received this.
    fn message_lost(&mut self, user: u32, unsent: Unsent, others: bool) {
        let Unsent { id, xml } = unsent;
        if id == 0 {
            return self.bounce_unreceived(&xml);
        }
        if id & mark::UNLOGGED != 0 {
            let log = self.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut());
            if id & mark::SHARED == 0 || log.is_some_and(|log| log.shared_lost(id)) {
                self.restore_unlogged(user, mark::number(id), &xml);
            }
            return;
        }
        if id & mark::APART == 0 && !others {
            self.counters.messages_returned.one();
            if let Some(log) = self.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut()) {
                log.stored(xml.len());
            }
        }
    }

    /// A message that stands in no log waits, in the place of its number if nobody is past it.
    fn restore_unlogged(&mut self, user: u32, number: u64, xml: &[u8]) {
        // If its bytes were in a send under way, they are gone.
        let Some(from) = from_of_stanza(xml) else { return };
        self.counters.messages_returned.one();
        let entry =
            Entry { incoming: true, waits: true, time_ms: self.now.wall_us / 1_000, peer: &from, xml, trail: b"" };
        let passed = self.log(user).cursor() >= number
            || self.users.sessions(&self.sessions, user).any(|(_, session)| session.follows);
        if passed {
            return self.append_again(user, None, entry);
        }
        let bare = self.bare_of_user(user);
        Transient { of: None, entry }.put(&mut self.writes, &bare, number);
        let log = self.log(user);
        log.appended(number, true);
        log.stored(xml.len());
        self.touch_log(user);
    }

    /// A managed session acknowledged these.
    pub(crate) fn messages_received(&mut self, user: u32, session: SessionId, acked: &[Unacked]) {
        self.lightened(session);
        self.have_arrived(user, Some(session), acked.iter().map(|unacked| unacked.id).filter(|&id| id != 0));
        self.bring_up(user);
    }

    /// The bytes of these are with the kernel; that is all that is known of a session without stream management, which may have
    /// ended meanwhile.
    fn messages_sent(&mut self, user: u32, session: Option<SessionId>, ids: &[u64]) {
        self.have_arrived(user, session, ids.iter().copied());
        self.bring_up(user);
    }

    fn have_arrived(&mut self, user: u32, session: Option<SessionId>, ids: impl Iterator<Item = u64> + Clone) {
        let mut last = None;
        for id in ids {
            if id & mark::APART != 0 {
                let bare = self.bare_of_user(user);
                Apart::delete(&mut self.writes, &bare, mark::number(id));
            } else if id & mark::UNLOGGED == 0 {
                last = Some(id);
            } else if id & mark::SHARED != 0
                && let Some(log) = self.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut())
            {
                log.shared_received(id);
            }
        }
        // What stands in no log moves no cursor.
        let Some(last) = last else { return };
        // All that it was handed before this it has received, too.
        let follows = session.filter(|&id| self.sessions.get(id).is_some_and(|s| s.follows));
        let behind = session.is_some_and(|id| self.log_if_known(user).is_some_and(|log| log.is_behind(id)));
        let received = match follows.filter(|_| !behind) {
            Some(id) => self.first_held(id).map_or(self.last_number, |held| held - 1),
            None => last,
        };
        if self.users.get(user).live {
            self.know_log(user);
        }
        let Some(log) = self.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut()) else { return };
        log.received(received);
        log.touch();
        self.touch_log(user);
    }

    /// A client has got so many more of the messages that its connection was sent, and says so itself (XEP-0124 9.2).
    pub(crate) fn got(&mut self, id: ConnId, messages: usize) {
        let mut ids = std::mem::take(&mut self.sent_ids);
        self.bosh_got(id, messages, &mut ids);
        if let Carries::Session(session) = self.carries_for(id) {
            let user = self.sessions.get(session).map_or(NONE, |session| session.user);
            if user != NONE {
                self.messages_sent(user, Some(session), &ids);
            }
        }
        ids.clear();
        self.sent_ids = ids;
    }

    pub(crate) fn sent(&mut self, id: ConnId) {
        if self.observers.is_some() {
            self.tap_sent(id);
        }
        let mut ids = std::mem::take(&mut self.sent_ids);
        let (before, more) = self.send_ended(id, &mut ids).unwrap_or_default();
        self.conn_lightened(id);
        let was_behind = before > self.settings.outbound_bytes_soft;
        // Most sends carry no message and hold nothing up: then nobody's log is looked for.
        let carried = !ids.is_empty() || was_behind;
        let (user, session) = match carried.then(|| self.carries_for(id)) {
            Some(Carries::Session(session)) => (self.sessions.get(session).map_or(NONE, |s| s.user), Some(session)),
            Some(Carries::Left(user)) => (user, None),
            Some(Carries::Nobody) | None => (NONE, None),
        };
        if more {
            self.flush_one(id);
        }
        if user != NONE {
            self.messages_sent(user, session, &ids);
        }
        ids.clear();
        self.sent_ids = ids;
        if was_behind {
            self.drained(id);
        }
    }
}
