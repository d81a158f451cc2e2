//! Followers of a user's log: sessions that take messages for the bare JID. Who is at the head gets an entry as it comes; who
//! is behind is brought up from the store, page by page, at its own pace, and holds up nobody.
//!
//! A follower begins at the cursor: it is handed all that no session is known to have received. A message is *received* when a
//! managed session acknowledges it (XEP-0198), or when its bytes are with the kernel.

use crate::id::{SessionId, mark};
use crate::outbound::Unsent;
use crate::session::sm::Unacked;
use crate::shard::message::{Stamp, Takers};
use crate::shard::{Pending, Shard};
use crate::store::archive::{self, Entry};
use crate::store::log::{Follower, Gathering, Log};
use crate::store::waiting::{self, Apart, Cursor, Transient};
use crate::store::{Found, Query, Row, Table};
use crate::wire::error::StreamCondition;

/// Entries of a log that are read at once.
const PAGE_ROWS_MAX: u32 = 64;
/// Bytes of such a page.
const PAGE_BYTES_MAX: u32 = 128 << 10;
/// A message that waited for less than this, milliseconds, behind others while its receiver was there, bears no delay stamp.
const DELAY_MS: u64 = 1_000;

/// What a page holds.
struct Item<'a> {
    number: u64,
    entry: Entry<'a>,
    /// The number that it is known by, if it is another one.
    of: Option<u64>,
    /// It is for one session alone.
    apart: Option<SessionId>,
}

impl Shard {
    // Where sessions stand.

    /// Whether a session has too much to take already. What is for it waits in the log, if it may.
    pub(super) fn is_busy(&mut self, session: SessionId) -> bool {
        let (soft, most) = (self.settings.outbound_bytes_soft, self.settings.unacked_max);
        let Some(state) = self.sessions.get(session) else { return true };
        let unacked = state.managed.as_ref().is_some_and(|m| m.unacked_len() >= most || m.unacked_bytes() > soft);
        let conn = state.conn;
        unacked || conn.is_some_and(|conn| self.is_heavy(conn))
    }

    /// The log of a user, if it is at hand.
    pub(super) fn log_if_known(&self, user: u32) -> Option<&Log> {
        self.users.get(user).state.as_ref()?.log.as_ref()
    }

    /// Whether the log of a user is at hand. It need not be read for one of whose sessions one is at the head.
    pub(super) fn know_log(&mut self, user: u32) -> bool {
        if self.log_if_known(user).is_some() {
            return true;
        }
        let Some(number) = self.received_by_heads(user) else { return false };
        let now_s = self.now.mono_s();
        self.users.state(user, now_s).log = Some(Log::live(number));
        true
    }

    /// Sessions at the head of the log.
    pub(super) fn heads(&self, user: u32) -> Takers {
        let log = self.log_if_known(user);
        let heads = self.users.sessions(&self.sessions, user).filter(|(_, session)| session.follows);
        heads.map(|(id, _)| id).filter(|&id| log.is_none_or(|log| !log.is_behind(id))).collect()
    }

    /// Whether someone follows the log from behind.
    pub(super) fn has_followers_behind(&self, user: u32) -> bool {
        let follows = |f: &Follower| self.sessions.get(f.session).is_some_and(|session| session.follows);
        self.log_if_known(user).is_some_and(|log| log.behind.iter().any(follows))
    }

    /// Up to where a session has been handed what waits for all; 0 for one that takes nothing of it.
    pub(super) fn position(&self, user: u32, session: SessionId) -> u64 {
        let behind = self.log_if_known(user).and_then(|log| log.behind.iter().find(|f| f.session == session));
        let head = || self.sessions.get(session).is_some_and(|s| s.follows).then_some(self.last_number);
        behind.map(|follower| follower.seen).or_else(head).unwrap_or(0)
    }

    /// The number of the first message that a session holds and the cursor waits for.
    fn first_held(&mut self, session: SessionId) -> Option<u64> {
        let state = self.sessions.get(session)?;
        let managed = state.managed.as_ref().and_then(|managed| managed.first_held());
        let conn = state.conn.and_then(|conn| self.conns.get(conn));
        let sent = conn.and_then(|conn| conn.outbound.as_ref()).and_then(|outbound| outbound.first_held());
        managed.into_iter().chain(sent).min()
    }

    /// Whether a session of a user with several holds messages that the cursor waits for, or has waited for.
    pub(super) fn holds_messages(&mut self, user: u32) -> bool {
        let several = self.users.sessions(&self.sessions, user).nth(1).is_some();
        several && self.heads(user).into_iter().any(|id| self.first_held(id).is_some())
    }

    /// Up to where the first of those at the head has received all; `None` if nobody is there.
    fn received_by_heads(&mut self, user: u32) -> Option<u64> {
        let heads = self.heads(user);
        heads.into_iter().map(|id| self.first_held(id).map_or(self.last_number, |held| held - 1)).max()
    }

    /// Notes whether a session is at the head.
    pub(super) fn heads_changed(&mut self, user: u32) {
        let live = !self.heads(user).is_empty();
        self.users.get_mut(user).live = live;
    }

    // Coming and going.

    /// A session of the user came, went, or changed its presence: who follows now?
    pub(super) fn takers_changed(&mut self, user: u32) {
        let takers = self.takers(user);
        let follows = |shard: &Shard, id: SessionId| shard.sessions.get(id).is_some_and(|session| session.follows);
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
        let (last, now_s) = (self.last_number, self.now.mono_s());
        let state = self.users.state(user, now_s);
        if received.is_none() {
            state.since = last;
        }
        let Some(log) = state.log.as_mut() else { return };
        let cursor = log.cursor().max(received.unwrap_or(0));
        for id in begins {
            if let Some(session) = self.sessions.get_mut(id) {
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
        self.sweeper.touch_log(user);
    }

    /// A session has ended. `under_way` is the number of the first message that may still reach its client.
    pub(super) fn follower_left(
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
            self.sweeper.touch_log(user);
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
        let mut scanner = crate::wire::Scanner::new();
        let scope = crate::wire::StreamScope::Usual;
        // Its bytes were in a send under way: they are gone.
        if xml.is_empty() || scanner.scan(&scope, crate::wire::Expect::Content, usize::MAX, xml).is_err() {
            return;
        }
        let element = scanner.element(&scope, xml);
        let Some(from) = element.from() else { return };
        self.counters.messages_returned.one();
        let entry = Entry { incoming: true, waits: true, time_ms: self.now.wall_us / 1_000, peer: &from, xml };
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
        self.sweeper.touch_log(user);
    }

    // What is received.

    /// A managed session acknowledged these.
    pub(super) fn messages_received(&mut self, user: u32, session: SessionId, acked: &[Unacked]) {
        self.have_arrived(user, Some(session), acked.iter().map(|unacked| unacked.id).filter(|&id| id != 0));
        self.bring_up(user);
    }

    /// The bytes of these are with the kernel; that is all that is known of a session without stream management, which may have
    /// ended meanwhile.
    pub(super) fn messages_sent(&mut self, user: u32, session: Option<SessionId>, ids: &[u64]) {
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
        self.sweeper.touch_log(user);
    }

    // Reading the log.

    fn ask_for_log(&mut self, user: u32) {
        let now_s = self.now.mono_s();
        let state = self.users.state(user, now_s);
        if std::mem::replace(&mut state.log_asked, true) {
            return;
        }
        let local = self.users.get(user).local.clone();
        let bare = self.bare(&local);
        let row = super::mail::get(Table::Mailbox, &bare);
        self.read(Pending::Log(local), vec![row]);
    }

    pub(super) fn log_found(&mut self, local: &str, found: Vec<Found>) {
        let Some(user) = self.users.find(local) else { return };
        let now_s = self.now.mono_s();
        let state = self.users.state(user, now_s);
        state.log_asked = false;
        // The account may have been removed, and another made, since this was asked.
        if !std::mem::take(&mut state.log_outdated) {
            let cursor = super::mail::one_value(found).and_then(|value| Cursor::decode(&value)).unwrap_or_default();
            state.log.get_or_insert_with(|| Log::loaded(cursor));
        }
        self.takers_changed(user);
    }

    /// Reads on for each session that is behind, can take more, and is not being read for.
    pub(super) fn bring_up(&mut self, user: u32) {
        let Some(log) = self.log_if_known(user) else { return };
        if log.behind.is_empty() {
            return;
        }
        let idle: Vec<Follower> = log.behind.iter().filter(|follower| !follower.reading).copied().collect();
        for follower in idle {
            let id = follower.session;
            let follows = self.sessions.get(id).is_some_and(|session| session.follows);
            let apart = self.log(user).waits_apart(&follower);
            if !(follows || apart) || self.is_busy(id) {
                continue;
            }
            if let Some(follower) = self.log(user).follower(id) {
                follower.reading = true;
            }
            let local = self.users.get(user).local.clone();
            let bare = self.bare(&local);
            // One that takes nothing for the bare JID has seen it all.
            let seen = if follows { follower.seen } else { u64::MAX };
            let entries = Query::Range {
                table: Table::Archive,
                partition: bare.as_bytes().into(),
                from: seen.saturating_add(1).to_be_bytes().as_slice().into(),
                until: None,
                reverse: false,
                rows_max: PAGE_ROWS_MAX,
                bytes_max: PAGE_BYTES_MAX,
            };
            let transients = waiting::transients(&bare, seen, PAGE_ROWS_MAX, PAGE_BYTES_MAX);
            let aparts = waiting::aparts(&bare, follower.apart, PAGE_ROWS_MAX, PAGE_BYTES_MAX);
            let last = self.log(user).last();
            let pending = Pending::Page { local, session: id, last, all: follows };
            self.read(pending, vec![entries, transients, aparts]);
        }
    }

    /// A page of the log for a session. `last` was the last that waited when it was asked for, and `all` says whether it asked
    /// for what waits for all.
    pub(super) fn page_found(&mut self, local: &str, id: SessionId, last: u64, all: bool, found: Vec<Found>) {
        let Some(user) = self.users.find(local).filter(|_| self.sessions.get(id).is_some()) else { return };
        let log = self.users.get_mut(user).state.as_mut().and_then(|state| state.log.as_mut());
        let Some(follower) = log.and_then(|log| log.follower(id)) else { return };
        follower.reading = false;
        let (items, end) = page(&found);
        let before = (follower.seen, follower.apart);
        for item in &items {
            if self.is_busy(id) {
                // The rest is read again, when there is room.
                return;
            }
            self.hand_item(user, id, item, before);
        }
        let last = items.last().map_or(0, |item| item.number).max(end.unwrap_or(last));
        let follows = self.sessions.get(id).is_some_and(|session| session.follows);
        let log = self.log(user);
        let newest = log.newest();
        let Some(follower) = log.follower(id) else { return };
        if follows && all {
            follower.seen = follower.seen.max(last);
        }
        follower.apart = follower.apart.max(last);
        let (place, cursor) = (*follower, log.cursor());
        if end.is_some() || (follows && (!all || newest > place.seen)) || log.waits_apart(&place) {
            return self.bring_up(user);
        }
        if follows {
            log.leave(id);
            log.drained();
            self.users.get_mut(user).live = true;
            self.sweeper.touch_log(user);
        } else if place.seen <= cursor {
            log.leave(id);
        }
    }

    /// Hands an item of a page to a session, if it is for it. `before` is where it stood when the page came.
    fn hand_item(&mut self, user: u32, id: SessionId, item: &Item<'_>, before: (u64, u64)) {
        let Item { number, entry, of, apart } = item;
        let (seen, passed) = before;
        let follows = self.sessions.get(id).is_some_and(|session| session.follows);
        let goes = match apart {
            Some(holder) => *holder == id && *number > passed,
            None => follows && entry.incoming && entry.waits && *number > seen,
        };
        let log = self.log(user);
        if let Some(follower) = log.follower(id) {
            match apart {
                Some(_) => follower.apart = follower.apart.max(*number),
                None if follows => follower.seen = follower.seen.max(*number),
                None => {}
            }
        }
        if !goes {
            return;
        }
        match apart {
            Some(_) => log.taken(entry.xml.len()),
            None => log.caught_up(*number, entry.xml.len()),
        }
        self.sweeper.touch_log(user);
        self.counters.messages_replayed.one();
        // What came in while older ones were being handed out is as good as live.
        let since = self.users.get(user).state.as_ref().map_or(0, |state| state.since);
        let waited = *number <= since || (self.now.wall_us / 1_000).saturating_sub(entry.time_ms) > DELAY_MS;
        let stamp = Stamp { id: of.unwrap_or(*number), came_ms: waited.then_some(entry.time_ms) };
        let mark = if apart.is_some() { *number | mark::APART } else { *number };
        self.hand(id, mark, stamp, entry.xml);
    }

    /// What waits for a session cannot be read. It is not passed over, because nobody could say what was in it: the session ends
    /// with an error (RFC 6120 4.9.3.6), and log and cursor stay as they are.
    pub(super) fn page_unreadable(&mut self, local: &str, id: SessionId) {
        let user = self.users.find(local);
        let log = user.and_then(|user| self.users.get_mut(user).state.as_mut()).and_then(|state| state.log.as_mut());
        if let Some(follower) = log.and_then(|log| log.follower(id)) {
            follower.reading = false;
        }
        self.fail_unread(id);
    }

    /// The cursor of a user cannot be read.
    pub(super) fn log_unreadable(&mut self, local: &str) {
        let Some(user) = self.users.find(local) else { return };
        let now_s = self.now.mono_s();
        let state = self.users.state(user, now_s);
        (state.log_asked, state.log_outdated) = (false, false);
        for session in self.takers(user) {
            self.fail_unread(session);
        }
    }

    fn fail_unread(&mut self, session: SessionId) {
        if let Some(conn) = self.sessions.get(session).and_then(|session| session.conn) {
            let text = "stored messages of this account cannot be read, the server's operator has to mend the store";
            self.fail_stream(conn, StreamCondition::InternalServerError, Some(text));
        }
    }

    // Messages for one session, when that has ended.

    /// Looks for messages that stood apart for sessions that are not there any more; `ended` says that there may be new ones.
    pub(super) fn gather(&mut self, user: u32, ended: bool) {
        if !self.know_log(user) {
            // They are looked for when it is read.
            return;
        }
        let Some(log) = self.users.get_mut(user).state.as_mut().and_then(|state| state.log.as_mut()) else { return };
        match &mut log.gathering {
            Gathering::Reading { again } => *again |= ended,
            Gathering::Done if !ended => {}
            Gathering::Due | Gathering::Done => self.gather_page(user, 0),
        }
    }

    fn gather_page(&mut self, user: u32, after: u64) {
        self.log(user).gathering = Gathering::Reading { again: false };
        let local = self.users.get(user).local.clone();
        let query = waiting::aparts(&self.bare(&local), after, PAGE_ROWS_MAX, PAGE_BYTES_MAX);
        self.read(Pending::Aparts(local), vec![query]);
    }

    /// Each of them whose session has gone is appended to the log again: it comes to all, or waits.
    pub(super) fn aparts_found(&mut self, local: &str, found: Vec<Found>) {
        let Some(user) = self.users.find(local) else { return };
        let Some(log) = self.log_if_known(user) else { return };
        let Gathering::Reading { again } = log.gathering else { return };
        let Some(Found::Rows { rows, more }) = found.into_iter().next() else { return };
        let bare = self.bare_of_user(user);
        for Row { sort, value } in &rows {
            let (Some(number), Some(apart)) = (waiting::number_of(sort), Apart::decode(value)) else { continue };
            let holder = apart.holder;
            if holder.life == self.life && self.sessions.get(holder.session).is_some() {
                continue;
            }
            Apart::delete(&mut self.writes, &bare, number);
            self.append_again(user, Some(number), apart.entry);
        }
        let last = rows.last().and_then(|row| waiting::number_of(&row.sort)).unwrap_or(0);
        if again {
            self.gather_page(user, 0);
        } else if more {
            self.gather_page(user, last);
        } else {
            let live = !self.heads(user).is_empty();
            let log = self.log(user);
            log.gathering = Gathering::Done;
            if live {
                log.drained();
            }
        }
    }

    pub(super) fn aparts_unreadable(&mut self, local: &str) {
        let Some(user) = self.users.find(local) else { return };
        if let Some(log) = self.users.get_mut(user).state.as_mut().and_then(|state| state.log.as_mut()) {
            // They stay, and are looked for again when the log is read anew.
            log.gathering = Gathering::Done;
        }
    }
}

/// The items of a page in their order, and, if there is more behind them, the number up to which they are all there is.
fn page(found: &[Found]) -> (Vec<Item<'_>>, Option<u64>) {
    let (mut items, mut end) = (Vec::new(), None);
    for (index, found) in found.iter().enumerate() {
        let Found::Rows { rows, more } = found else { continue };
        for Row { sort, value } in rows {
            match index {
                0 => {
                    let all = archive::entries(sort, value).unwrap_or_default();
                    items.extend(all.into_iter().map(|(number, entry)| Item { number, entry, of: None, apart: None }));
                }
                1 => {
                    let row = waiting::number_of(sort).zip(Transient::decode(value));
                    items.extend(row.map(|(number, Transient { of, entry })| Item { number, entry, of, apart: None }));
                }
                _ => {
                    let row = waiting::number_of(sort).zip(Apart::decode(value));
                    items.extend(row.map(|(number, Apart { holder, entry })| Item {
                        number,
                        entry,
                        of: None,
                        apart: Some(holder.session),
                    }));
                }
            }
        }
        let number = |row: &Row| if index == 0 { archive::number_of(&row.sort) } else { waiting::number_of(&row.sort) };
        if let Some(last) = rows.last().filter(|_| *more).and_then(number) {
            end = Some(end.map_or(last, |end: u64| end.min(last)));
        }
    }
    items.retain(|item| end.is_none_or(|end| item.number <= end));
    items.sort_by_key(|item| item.number);
    (items, end)
}
