//! The operator's announcements: sent to all sessions of this shard, a few at a time, and once to
//! each user who logs in later.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::offline::delay;
use crate::id::SessionId;
use crate::io::{Reply, StorageState};
use crate::kernel::pending::{Pending, UserRead};
use crate::limits::{
    ANNOUNCE_BYTES_MS, ANNOUNCE_SESSIONS_MS, ANNOUNCE_STEP_MS, ANNOUNCE_WAITING_MAX, ANNOUNCEMENTS_MAX,
};
use crate::store::Found;
use crate::store::announcement::{self, Kept};
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::streams::work::most_work;
use crate::wire::text::{Writer, escape_into};

#[derive(Debug, Default)]
pub(crate) struct Announcements {
    /// Announcements in progress, in order; bounded by [`ANNOUNCEMENTS_MAX`].
    under_way: VecDeque<UnderWay>,
    /// The announcement for users who log in later.
    kept: Option<Arc<Kept>>,
    /// Bare JIDs of users whose rows are being read; bounded by the sessions.
    looks: BTreeSet<Box<str>>,
    /// Number of sessions notified since the start.
    told: u64,
}

impl Announcements {
    /// Creates the state with the announcement that the store has, and none in progress.
    pub(super) fn new(kept: Option<Arc<Kept>>) -> Announcements {
        Announcements { kept, ..Announcements::default() }
    }
}

#[derive(Debug)]
struct UnderWay {
    text: Arc<str>,
    /// Number under which it is retained for absent users; 0 if it is not.
    number: u64,
    /// Next session slot.
    at: u32,
    /// Time of the last batch.
    last_ms: u64,
}

impl Contacts {
    /// Begins to send an announcement to all sessions, a few per turn.
    pub(crate) fn begin_announcing(&mut self, cx: &mut Streams, text: Arc<str>, number: u64) -> Reply {
        if self.announcements.under_way.len() >= ANNOUNCEMENTS_MAX {
            return Reply::Busy;
        }
        let last_ms = cx.kernel.now.mono_ms;
        self.announcements.under_way.push_back(UnderWay { text, number, at: 0, last_ms });
        Reply::Done(0)
    }

    /// Progress of the announcements.
    pub(crate) fn announced(&self) -> Reply {
        let announcements = &self.announcements;
        Reply::Announced { told: announcements.told, under_way: announcements.under_way.len() as u32 }
    }

    /// Sets or clears the announcement for users who log in later. One shard writes it for all.
    pub(crate) fn keep_announcement(&mut self, cx: &mut Streams, kept: Option<Arc<Kept>>, write: bool) {
        if write {
            announcement::put(&mut cx.kernel.writes, kept.as_deref());
        }
        self.announcements.kept = kept;
    }

    /// Sends to the next sessions: as many, and as many bytes, as the time since the last batch
    /// allows. Pauses while pending output shows that clients read more slowly than that.
    pub(crate) fn go_on_announcing(&mut self, cx: &mut Streams, actors: &mut Actors) {
        let now_ms = cx.kernel.now.mono_ms;
        let Some(front) = self.announcements.under_way.front_mut() else { return };
        let elapsed_ms = now_ms.saturating_sub(front.last_ms).min(ANNOUNCE_STEP_MS);
        if elapsed_ms == 0 {
            return;
        }
        front.last_ms = now_ms;
        let (text, number) = (front.text.clone(), front.number);
        let mut written = Vec::with_capacity(text.len());
        escape_into(&mut written, &text);
        let by_bytes = elapsed_ms * ANNOUNCE_BYTES_MS / (written.len() as u64 + 256);
        let mut left = (elapsed_ms * ANNOUNCE_SESSIONS_MS).min(by_bytes).max(1);
        while left > 0 && cx.outbound_bytes < ANNOUNCE_WAITING_MAX {
            let slots = actors.sessions.slots();
            let Some(front) = self.announcements.under_way.front_mut() else { return };
            if front.at >= slots {
                self.announcements.under_way.pop_front();
                if let Some(next) = self.announcements.under_way.front_mut() {
                    next.last_ms = now_ms;
                }
                return;
            }
            let slot = front.at;
            front.at += 1;
            // Checking an empty slot costs little.
            let Some(id) = actors.sessions.id(slot) else { continue };
            left -= 1;
            if self.tell_announcement(cx, actors, id, &text, None) && number > 0 {
                self.note_seen(cx, actors, id, number);
            }
        }
    }

    /// Sends a headline (RFC 6121 5.2.2). A session that waits to be resumed gets it then; a
    /// session with too much pending output does not get it.
    fn tell_announcement(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        id: SessionId,
        text: &str,
        made_us: Option<u64>,
    ) -> bool {
        if cx.is_busy(id) || (cx.is_detached(id) && !cx.is_managed(id)) {
            cx.kernel.counters.stanzas_dropped.one();
            return false;
        }
        let full = actors.full_jid(id);
        let domain = actors.users.domain(actors.sessions.slot(id.slot).user);
        let mut out = Vec::with_capacity(text.len() + 192);
        let mut stamp = Vec::new();
        if let Some(made_us) = made_us {
            delay(&mut stamp, domain, made_us);
        }
        let mut w = Writer::new(&mut out);
        w.open("message").attribute("type", "headline").attribute("from", domain).attribute("to", &full);
        w.leaf("body", text).raw(&stamp).close();
        actors.send_stanza(cx, id, &out);
        self.announcements.told += 1;
        true
    }

    fn note_seen(&mut self, cx: &mut Streams, actors: &mut Actors, id: SessionId, number: u64) {
        // On a full disk a user may be shown it again.
        if cx.kernel.storage == StorageState::Ok {
            let account = actors.bare_of_user(actors.sessions.slot(id.slot).user);
            announcement::put_seen(&mut cx.kernel.writes, &account, number);
        }
    }

    /// The announcement for users who log in later; empty if there is none.
    pub(crate) fn kept_text(&self, cx: &Streams) -> &str {
        let kept = self.announcements.kept.as_deref().filter(|kept| kept.until_us > cx.kernel.now.wall_us);
        kept.map_or("", |kept| &kept.text)
    }

    fn kept_now(&self, cx: &Streams) -> Option<Arc<Kept>> {
        let now_us = cx.kernel.now.wall_us;
        self.announcements.kept.clone().filter(|kept| kept.until_us > now_us)
    }

    /// A session has become available. If there is a retained announcement, reads whether its user
    /// has seen it. One session per user gets it.
    pub(crate) fn look_for_announcement(&mut self, cx: &mut Streams, actors: &mut Actors, session: SessionId) {
        if self.kept_now(cx).is_none() {
            return;
        }
        let Some(user) = actors.sessions.get(session).map(|session| session.user) else { return };
        let account: Box<str> = actors.bare_of_user(user).into();
        if !self.announcements.looks.insert(account.clone()) {
            return;
        }
        let queries = vec![announcement::seen(&account)];
        cx.tell(session, Down::Charge(most_work(&queries)));
        cx.kernel.read(Pending::User(UserRead::Announcement { account, session }), queries);
    }

    /// The announcement that a user was shown last has been read. An unreadable row counts as none.
    pub(crate) fn seen_found(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        session: SessionId,
        found: &[Found],
    ) {
        self.announcements.looks.remove(account);
        let Some(kept) = self.kept_now(cx).filter(|kept| kept.number > announcement::seen_number(found)) else {
            return;
        };
        let there = actors
            .sessions
            .get(session)
            .is_some_and(|session| actors.users.is(session.user, account) && session.is_available());
        if there && self.tell_announcement(cx, actors, session, &kept.text, Some(kept.at_us)) {
            self.note_seen(cx, actors, session, kept.number);
        }
    }
}
