//! Sessions of an earlier process (XEP-0198 5). They are restored when their account is first
//! needed, and wait to be resumed. Their state is as before, except for what their clients had not
//! acknowledged: that is known once a client reports its count ([`tail`](super::tail)).

use crate::extension::{TABLE, places};
use crate::id::SessionId;
use crate::io::Reply;
use crate::router::users::{Known, Waiting};
use crate::session::conn::NONE;
use crate::session::sm::Managed;
use crate::session::table::{Privacy, Session};
use crate::shard::Shard;
use crate::shard::stored::received;
use crate::store::Found;
use crate::store::account::Incarnation;
use crate::store::ids::Ids;
use crate::store::sessions::{self, Counts, Kept, Key, Stored};

impl Shard {
    /// An account has become known: the sessions that its user had in an earlier process wait
    /// again. `None` if their rows cannot be read.
    pub(super) fn restore_sessions(&mut self, user: u32, account: &str, which: Incarnation, found: Option<Found>) {
        let incarnation = u64::from_be_bytes(which.to_bytes());
        // Unreadable rows belong to no session that could be resumed.
        let Some(Found::Rows { rows, .. }) = found else { return };
        // Rows of a user with sessions are those of this process.
        if rows.is_empty() || self.actors.users.get(user).first != NONE || self.cx.kernel.shutting_down {
            return;
        }
        let (stored, damaged) = sessions::read(&rows);
        for key in damaged {
            sessions::delete(&mut self.cx.kernel.writes, account, key);
        }
        let mut any = false;
        for Stored { key, kept, counts, pushes } in stored {
            // The session has ended since this was read.
            if kept.life == self.cx.kernel.life || self.contacts.ended_restored.contains(&key.0) {
                continue;
            }
            let late_s = self.late_s(&counts);
            if kept.incarnation != incarnation || late_s >= kept.resume_s || !self.cx.kernel.settings.archive {
                self.cx.kernel.counters.expired.one();
                sessions::delete(&mut self.cx.kernel.writes, account, key);
                continue;
            }
            let id = self.restore(user, key, &kept, &counts, late_s);
            any = true;
            for push in pushes {
                self.actors.send_past_gates(&mut self.cx, id, &push);
                self.cx.pushed(id);
            }
        }
        if any {
            // One of these may reach the head before another one searches, so messages set apart
            // for ended sessions are searched for now.
            self.logs.gather(&mut self.cx, &mut self.actors, user, true);
        }
    }

    /// A session has enabled stream management: if it is to be stored, its account is noted.
    pub(super) fn begin_storing(&mut self, id: SessionId) {
        // The session has ended during the look-up.
        let Some(user) = self.actors.sessions.get(id).map(|session| session.user) else { return };
        if let Some(Known::Exists(which)) = self.actors.users.get(user).state.as_ref().map(|state| state.known) {
            self.cx.note_incarnation(id, u64::from_be_bytes(which.to_bytes()));
        }
    }

    /// Restores sessions of these users; with `last`, all existing ones are restored.
    pub(super) fn restore_users(&mut self, users: Vec<Box<str>>, last: bool) -> Reply {
        let named = users.len() as u32;
        for account in users {
            let user = self.actors.users.find(&account);
            let online = user.is_some_and(|user| self.actors.users.get(user).first != NONE);
            if !online {
                // If too much waits for the account, it is looked up in any case.
                self.actors.wait_for_account(&mut self.cx, &account, Waiting::Stored);
            }
        }
        self.cx.kernel.restored |= last;
        Reply::Done(named)
    }

    /// Seconds that a session has waited so far. A session that had its connection when its process
    /// ended has waited since this process began.
    fn late_s(&self, counts: &Counts) -> u32 {
        let now_s = self.cx.kernel.now.expiry_us / 1_000_000;
        let since_s = match counts.detached_s {
            0 => now_s.saturating_sub(self.cx.kernel.now.mono_ms / 1_000),
            detached_s => detached_s,
        };
        u32::try_from(now_s.saturating_sub(since_s)).unwrap_or(u32::MAX)
    }

    fn restore(&mut self, user: u32, key: Key, kept: &Kept, counts: &Counts, late_s: u32) -> SessionId {
        let mut session = Session::new(user, kept.resource.clone(), Privacy::Encrypted);
        session.priority = kept.priority;
        session.interested = kept.interested;
        session.follows = kept.follows;
        session.ids = Ids::of(Incarnation::from_bytes(kept.incarnation.to_be_bytes()));
        if !kept.directed.is_empty() || kept.lang.is_some() {
            let extra = session.extra.get_or_insert_default();
            extra.directed = kept.directed.clone();
            extra.lang = kept.lang.clone();
        }
        let mut managed = Managed::dormant(key, kept.resume_s, counts.serial, late_s);
        managed.incarnation = kept.incarnation;
        let id = self.actors.insert_dormant(&mut self.cx, session, managed);
        if let Some(presence) = &kept.presence {
            self.contacts.show_restored(&mut self.actors, id, presence);
        }
        let names = |place: &usize| kept.marks.iter().any(|name| **name == *TABLE[*place].name);
        for place in places(u32::MAX).filter(names) {
            self.actors.mark(&mut self.cx, id, place, true);
        }
        self.actors.mark_woken(&mut self.cx, id);
        // Its messages in the log begin at its own position, even if other sessions have received
        // them.
        if kept.follows {
            self.logs.log(&mut self.cx, &mut self.actors, user).fall_behind(id, received(counts), 0);
        } else if let Some(session) = self.actors.sessions.get_mut(id).filter(|session| session.takes_messages()) {
            // It was about to follow when its rows were written.
            session.follows = true;
            let log = self.logs.log(&mut self.cx, &mut self.actors, user);
            log.fall_behind(id, log.cursor().max(received(counts)), 0);
        }
        self.logs.heads_changed(&mut self.actors, user);
        self.cx.kernel.counters.sessions_restored.one();
        id
    }
}
