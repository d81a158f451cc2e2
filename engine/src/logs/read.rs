//! Reads logs. Followers that are behind are brought up from the store page by page, at their own
//! pace, without delaying others.

use crate::actors::Actors;
use crate::extension::Way;
use crate::id::{SessionId, mark};
use crate::kernel::pending::{Pending, UserRead, get};
use crate::logs::Logs;
use crate::logs::hand::Stamp;
use crate::session::sm::Rows;
use crate::store::archive::Entry;
use crate::store::log::{Gathering, Reader};
use crate::store::waiting::{Apart, Holder, Transient};
use crate::store::{Found, Query, Row, Table, archive, waiting};
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::wire::error::StreamCondition;

/// Log entries that are read at once.
const PAGE_ROWS_MAX: u32 = 64;

pub(crate) const PAGE_BYTES_MAX: u32 = 128 << 10;

const DELAY_MS: u64 = 1_000;

/// One entry of a page.
pub(crate) struct Item<'a> {
    pub(crate) number: u64,
    pub(crate) entry: Entry<'a>,
    /// The number that identifies it, if it is another one.
    pub(crate) of: Option<u64>,
    /// The one session that it is for, if it is set apart.
    pub(crate) apart: Option<Holder>,
}

impl Logs {
    pub(crate) fn ask_for_log(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let now_s = cx.kernel.now.mono_s();
        let state = actors.users.state(user, now_s);
        if std::mem::replace(&mut state.log_asked, true) {
            return;
        }
        let bare = actors.bare_of_user(user);
        let row = get(Table::Waiting, &bare);
        cx.kernel.read(Pending::User(UserRead::Log(bare.into())), vec![row]);
    }

    /// Starts a read for each session that is behind, can take more, and has no read in progress.
    pub(crate) fn bring_up(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let Some(log) = self.log_if_known(actors, user) else { return };
        if log.behind.is_empty() {
            return;
        }
        let idle: Vec<Reader> = log.behind.iter().filter(|follower| follower.entries.is_behind()).copied().collect();
        for follower in idle {
            let id = follower.session;
            let follows = actors.sessions.get(id).is_some_and(|session| session.follows);
            let apart = self.log(cx, actors, user).waits_apart(&follower);
            if !(follows || apart) || cx.is_busy(id) {
                continue;
            }
            if let Some(follower) = self.log(cx, actors, user).follower(id) {
                follower.entries.ask(0);
            }
            let bare = actors.bare_of_user(user);
            // A session that takes no messages for the bare JID counts as having seen all of them.
            let seen = if follows { follower.entries.at } else { u64::MAX };
            let entries = Query::Range {
                table: Table::Archive,
                actor: bare.as_bytes().into(),
                from: seen.saturating_add(1).to_be_bytes().as_slice().into(),
                until: None,
                reverse: false,
                rows_max: PAGE_ROWS_MAX,
                bytes_max: PAGE_BYTES_MAX,
            };
            let behind = if follows { self.log(cx, actors, user).transients_from(seen) } else { seen };
            let transients = waiting::transients(&bare, behind, PAGE_ROWS_MAX, PAGE_BYTES_MAX);
            // Nothing is looked up that is known not to be there: a login asks for no set-apart
            // messages.
            let aparts = apart.then(|| waiting::aparts(&bare, follower.apart, PAGE_ROWS_MAX, PAGE_BYTES_MAX));
            let last = self.log(cx, actors, user).last();
            let pending = Pending::User(UserRead::Page { account: bare.into(), session: id, last, all: follows });
            cx.kernel.read(pending, [entries, transients].into_iter().chain(aparts).collect());
        }
    }

    /// A page of the log has been read for a session. `last` was the last waiting number at the
    /// time of the request. `all` tells whether the messages for all followers were requested.
    pub(crate) fn page_found(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        id: SessionId,
        last: u64,
        all: bool,
        found: Vec<Found>,
    ) {
        let Some(user) = actors.users.find(account).filter(|_| actors.sessions.get(id).is_some()) else { return };
        let log = actors.users.get_mut(user).state.as_mut().and_then(|state| state.log.as_mut());
        let Some(log) = log.filter(|log| log.is_behind(id)) else { return };
        if let (true, Some(Found::Rows { rows, more })) = (all, found.get(1)) {
            log.transients_found(*more || !rows.is_empty());
        }
        let Some(follower) = log.follower(id) else { return };
        follower.entries.fall_behind();
        let (items, end) = page(&found);
        let before = (follower.entries.at, follower.apart);
        if !items.is_empty() {
            // The entries were written before they were handed to the session.
            cx.rows_due(id, Rows::Counts);
        }
        for item in &items {
            if cx.is_busy(id) {
                // The rest is read again when there is room.
                return;
            }
            self.hand_item(cx, actors, user, id, item, before);
        }
        let last = items.last().map_or(0, |item| item.number).max(end.unwrap_or(last));
        let follows = actors.sessions.get(id).is_some_and(|session| session.follows);
        let log = self.log(cx, actors, user);
        let newest = log.newest();
        let Some(follower) = log.follower(id) else { return };
        if follows && all {
            follower.entries.has(last);
        }
        // Otherwise one may have been set apart during the read, before an entry that was found.
        if found.len() > 2 {
            follower.apart = follower.apart.max(last);
        }
        let (place, cursor) = (*follower, log.cursor());
        if end.is_some() || (follows && (!all || newest > place.entries.at)) || log.waits_apart(&place) {
            return self.bring_up(cx, actors, user);
        }
        if follows {
            log.leave(id);
            log.drained();
            actors.users.get_mut(user).live = true;
            self.touch_log(user);
        } else if place.entries.at <= cursor {
            log.leave(id);
        }
    }

    /// Hands an item of a page to a session, if it is for that session. `before` is the session's
    /// position when the page arrived.
    fn hand_item(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        id: SessionId,
        item: &Item<'_>,
        before: (u64, u64),
    ) {
        let Item { number, entry, of, apart } = item;
        let (seen, passed) = before;
        let follows = actors.sessions.get(id).is_some_and(|session| session.follows);
        let goes = match apart {
            Some(holder) => self.holds(cx, *holder, id) && *number > passed,
            None => follows && entry.incoming && entry.waits && *number > seen,
        };
        // The sender may have been blocked since (XEP-0191 3.3).
        let refused =
            entry.incoming && actors.has_notes(user) && actors.guards(cx, user, Way::In, entry.peer).is_some();
        let log = self.log(cx, actors, user);
        if let Some(follower) = log.follower(id) {
            match apart {
                Some(_) => follower.apart = follower.apart.max(*number),
                None if follows => follower.entries.has(*number),
                None => {}
            }
        }
        if !goes {
            if apart.is_none() && follows && *number > seen && !(entry.incoming && entry.waits) && !refused {
                let came_ms = self.has_waited(cx, actors, user, *number, entry).then_some(entry.time_ms);
                self.copy_of_entry(cx, actors, id, Stamp { id: *number, came_ms }, entry);
            }
            return;
        }
        match apart {
            Some(_) => log.taken(entry.xml.len()),
            None => log.caught_up(*number, entry.xml.len()),
        }
        self.touch_log(user);
        if refused {
            // The item is skipped: it must not be delivered later either.
            if apart.is_some() {
                let bare = actors.bare_of_user(user);
                Apart::delete(&mut cx.kernel.writes, &bare, *number);
            }
            return;
        }
        cx.kernel.counters.messages_replayed.one();
        let came_ms = self.has_waited(cx, actors, user, *number, entry).then_some(entry.time_ms);
        let stamp = Stamp { id: of.unwrap_or(*number), came_ms };
        let mark = if apart.is_some() { *number | mark::APART } else { *number };
        self.hand(cx, actors, id, mark, stamp, entry.xml);
    }

    /// Whether an entry that is handed out now is delayed. Entries that arrived while older ones
    /// were being handed out count as live.
    fn has_waited(&self, cx: &Streams, actors: &Actors, user: u32, number: u64, entry: &Entry<'_>) -> bool {
        let since = actors.users.get(user).state.as_ref().map_or(0, |state| state.since);
        number <= since || (cx.kernel.now.wall_us / 1_000).saturating_sub(entry.time_ms) > DELAY_MS
    }

    /// The messages of a session cannot be read. They are not skipped, because their content is
    /// unknown. The session ends with an error (RFC 6120 4.9.3.6); log and cursor do not change.
    pub(crate) fn page_unreadable(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, id: SessionId) {
        let user = actors.users.find(account);
        let log = user.and_then(|user| actors.users.get_mut(user).state.as_mut()).and_then(|state| state.log.as_mut());
        if let Some(follower) = log.and_then(|log| log.follower(id)) {
            follower.entries.fall_behind();
        }
        self.fail_unread(cx, id);
    }

    /// The cursor of a user cannot be read.
    pub(crate) fn log_unreadable(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str) {
        let Some(user) = actors.users.find(account) else { return };
        let now_s = cx.kernel.now.mono_s();
        let state = actors.users.state(user, now_s);
        (state.log_asked, state.log_outdated) = (false, false);
        for session in self.takers(cx, actors, user) {
            self.fail_unread(cx, session);
        }
    }

    fn fail_unread(&mut self, cx: &mut Streams, session: SessionId) {
        let text = "stored messages of this account cannot be read; the server's operator has to repair the store";
        cx.tell(session, Down::Fail(StreamCondition::InternalServerError, text));
    }

    /// Looks for messages that were set apart for sessions that have ended. `ended` tells that
    /// there may be new ones.
    pub(crate) fn gather(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, ended: bool) {
        if !self.know_log(cx, actors, user) {
            // The search is done when the log is read.
            return;
        }
        let Some(log) = actors.users.get_mut(user).state.as_mut().and_then(|state| state.log.as_mut()) else { return };
        match &mut log.gathering {
            Gathering::Reading { again } => *again |= ended,
            Gathering::Done if !ended => {}
            Gathering::Due | Gathering::Done => self.gather_page(cx, actors, user, 0),
        }
    }

    fn gather_page(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, after: u64) {
        self.log(cx, actors, user).gathering = Gathering::Reading { again: false };
        let bare = actors.bare_of_user(user);
        let query = waiting::aparts(&bare, after, PAGE_ROWS_MAX, PAGE_BYTES_MAX);
        cx.kernel.read(Pending::User(UserRead::Aparts(bare.into())), vec![query]);
    }

    /// Appends each set-apart message whose session has ended to the log again, for all followers
    /// or to wait.
    pub(crate) fn aparts_found(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, found: Vec<Found>) {
        let Some(user) = actors.users.find(account) else { return };
        let Some(log) = self.log_if_known(actors, user) else { return };
        let Gathering::Reading { again } = log.gathering else { return };
        let Some(Found::Rows { rows, more }) = found.into_iter().next() else { return };
        let bare = actors.bare_of_user(user);
        for Row { sort, value } in &rows {
            let (Some(number), Some(apart)) = (waiting::number_of(sort), Apart::decode(value)) else { continue };
            let holder = apart.holder;
            let mut there = actors.users.sessions(&actors.sessions, user);
            if there.any(|(id, _)| self.holds(cx, holder, id)) {
                continue;
            }
            Apart::delete(&mut cx.kernel.writes, &bare, number);
            self.append_again(cx, actors, user, Some(number), apart.entry);
        }
        let last = rows.last().and_then(|row| waiting::number_of(&row.sort)).unwrap_or(0);
        if again {
            self.gather_page(cx, actors, user, 0);
        } else if more {
            self.gather_page(cx, actors, user, last);
        } else {
            let live = !self.heads(actors, user).is_empty();
            let log = self.log(cx, actors, user);
            log.gathering = Gathering::Done;
            if live {
                log.drained();
            }
        }
    }

    pub(crate) fn aparts_unreadable(&mut self, actors: &mut Actors, account: &str) {
        let Some(user) = actors.users.find(account) else { return };
        if let Some(log) = actors.users.get_mut(user).state.as_mut().and_then(|state| state.log.as_mut()) {
            // They remain, and are looked for again when the log is next read.
            log.gathering = Gathering::Done;
        }
    }
}

/// The items of a page in order and, if more follow, the number up to which the page is complete.
pub(crate) fn page(found: &[Found]) -> (Vec<Item<'_>>, Option<u64>) {
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
                        apart: Some(holder),
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
