//! The logs of users: the order of their messages, and how far each session has received them. This
//! module knows no presence and no passwords.

pub(crate) mod copies;
pub(crate) mod flush;
pub(crate) mod follow;
pub(crate) mod hand;
pub(crate) mod message;
pub(crate) mod quota;
pub(crate) mod read;
pub(crate) mod retention;
pub(crate) mod wake;

use smallvec::SmallVec;

use crate::actors::Actors;
use crate::id::SessionId;
use crate::settings::BareDelivery;
use crate::store::log::{Log, Reader};
use crate::store::waiting::Transient;
use crate::streams::Streams;

/// The logs of a shard's users.
#[derive(Debug)]
pub(crate) struct Logs {
    /// Users whose cursor may have moved.
    moved: Vec<u32>,
    /// When rows of cursors were last written, milliseconds of the monotonic clock.
    rows_ms: u64,
    /// Scratch memory for the message ids of one send.
    sent_ids: Vec<u64>,
    /// Reasons to wake devices, taken out when the input is handled.
    pub(crate) woken: Vec<wake::Wake>,
}

/// Interval at which rows of moved cursors are written, milliseconds.
const ROWS_MS: u64 = 1_000;
/// Number of moved cursors at which their rows are written early.
const ROWS_MOST: usize = 4_096;

/// Sessions that get a message; seldom more than a few.
pub(crate) type Takers = SmallVec<[SessionId; 4]>;

impl Logs {
    pub(crate) fn new() -> Logs {
        Logs { moved: Vec::new(), rows_ms: 0, sent_ids: Vec::new(), woken: Vec::new() }
    }

    /// A user's cursor has moved; its row is written in the next round.
    pub(crate) fn touch_log(&mut self, user: u32) {
        if self.moved.last() != Some(&user) {
            self.moved.push(user);
        }
    }

    /// Writes the rows of moved cursors, if it is time.
    pub(crate) fn write_moved_rows(&mut self, cx: &mut Streams, actors: &mut Actors) {
        let due = cx.kernel.now.mono_ms.saturating_sub(self.rows_ms) >= ROWS_MS;
        if self.moved.is_empty() || !(due || self.moved.len() >= ROWS_MOST) {
            return;
        }
        self.rows_ms = cx.kernel.now.mono_ms;
        for user in std::mem::take(&mut self.moved) {
            if actors.users.get(user).is_there() {
                self.write_row(cx, actors, user);
            }
        }
    }

    /// Returns the user's log, which must be known.
    pub(crate) fn log<'a>(&mut self, cx: &mut Streams, actors: &'a mut Actors, user: u32) -> &'a mut Log {
        let known = self.know_log(cx, actors, user);
        debug_assert!(known, "asked for a log that was not read");
        let now_s = cx.kernel.now.mono_s();
        actors.users.state(user, now_s).log.get_or_insert_with(|| Log::loaded(Default::default()).into())
    }

    /// Writes the row of the cursor if it has changed.
    pub(crate) fn write_row(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let bare = actors.bare_of_user(user);
        let Actors { users, sessions, .. } = &mut *actors;
        let Some(log) = users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut()) else { return };
        if let Some((row, gone)) = log.poll_row(|id| sessions.get(id).is_some_and(|s| s.follows)) {
            row.put(&mut cx.kernel.writes, &bare);
            if let Some(number) = gone {
                Transient::delete_up_to(&mut cx.kernel.writes, &bare, number);
            }
        }
    }

    /// Sessions that take messages for the bare JID, by policy (RFC 6121 8.5.2.1.1).
    pub(crate) fn takers(&self, cx: &Streams, actors: &Actors, user: u32) -> Takers {
        match cx.kernel.settings.bare_delivery {
            BareDelivery::All => self.non_negative(actors, user),
            // Newest first; `min_by_key` takes the first of equal ones.
            BareDelivery::MostAvailable => {
                let all = actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.takes_messages());
                all.min_by_key(|(_, s)| std::cmp::Reverse(s.priority)).map(|(id, _)| id).into_iter().collect()
            }
        }
    }

    /// Available sessions with a non-negative priority.
    pub(crate) fn non_negative(&self, actors: &Actors, user: u32) -> Takers {
        actors.users.sessions(&actors.sessions, user).filter(|(_, s)| s.takes_messages()).map(|(id, _)| id).collect()
    }

    /// Returns the log of a user, if it is in memory.
    pub(crate) fn log_if_known<'a>(&self, actors: &'a Actors, user: u32) -> Option<&'a Log> {
        actors.users.get(user).state.as_ref()?.log.as_deref()
    }

    /// Whether the log of a user is in memory; if not, it is read. No read is needed if the user
    /// has a session at the head.
    pub(crate) fn know_log(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) -> bool {
        if self.log_if_known(actors, user).is_some() {
            return true;
        }
        let Some(number) = self.received_by_heads(cx, actors, user) else { return false };
        let now_s = cx.kernel.now.mono_s();
        actors.users.state(user, now_s).log = Some(Log::live(number).into());
        true
    }

    /// Sessions at the head of the log.
    pub(crate) fn heads(&self, actors: &Actors, user: u32) -> Takers {
        let log = self.log_if_known(actors, user);
        let heads = actors.users.sessions(&actors.sessions, user).filter(|(_, session)| session.follows);
        heads.map(|(id, _)| id).filter(|&id| log.is_none_or(|log| !log.is_behind(id))).collect()
    }

    /// Whether any follower is behind the head.
    pub(crate) fn has_followers_behind(&self, actors: &Actors, user: u32) -> bool {
        let follows = |f: &Reader| actors.sessions.get(f.session).is_some_and(|session| session.follows);
        self.log_if_known(actors, user).is_some_and(|log| log.behind.iter().any(follows))
    }

    /// The position up to which a session has been handed the messages for all followers; 0 if it
    /// takes none of them.
    pub(crate) fn position(&self, cx: &Streams, actors: &Actors, user: u32, session: SessionId) -> u64 {
        let behind = self.log_if_known(actors, user).and_then(|log| log.behind.iter().find(|f| f.session == session));
        let head = || actors.sessions.get(session).is_some_and(|s| s.follows).then_some(cx.kernel.last_number);
        behind.map(|follower| follower.entries.at).or_else(head).unwrap_or(0)
    }

    /// Whether a session of a user with several sessions holds messages that the cursor waits for,
    /// or has waited for.
    pub(crate) fn holds_messages(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) -> bool {
        let several = actors.users.sessions(&actors.sessions, user).nth(1).is_some();
        several && self.heads(actors, user).into_iter().any(|id| cx.first_held(id).is_some())
    }

    /// The lowest number up to which a session at the head has received everything; `None` without
    /// such a session.
    pub(crate) fn received_by_heads(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) -> Option<u64> {
        let heads = self.heads(actors, user);
        heads.into_iter().map(|id| cx.first_held(id).map_or(cx.kernel.last_number, |held| held - 1)).max()
    }

    /// Updates whether a session is at the head.
    pub(crate) fn heads_changed(&mut self, actors: &mut Actors, user: u32) {
        let live = !self.heads(actors, user).is_empty();
        actors.users.get_mut(user).live = live;
    }
}
