//! How large rooms tell occupants of others: at once, or later and of the last state alone
//! ([`unsaid`](super::unsaid)).

use crate::kernel::Kernel;
use crate::limits::ROOM_COALESCED_SEATS;
use crate::rooms::occupants::Occupant;
use crate::rooms::rank::{Rank, Role};
use crate::rooms::room::{News, PRESENCE_GONE, Room};
use crate::rooms::unsaid::{Entry, Gone};
use crate::store::room::Affiliation;
use crate::wire::jid::bare_of;

impl Room {
    /// An occupant is about to enter, to change or to leave a nick.
    pub(super) fn changing(&mut self, nick: &str) {
        if self.occupants.seats() > ROOM_COALESCED_SEATS || !self.unsaid.is_empty() {
            let user = self.occupants.by_nick(nick).and_then(|slot| self.occupants.get(slot));
            self.unsaid.note(nick, user.map(|occupant| &*occupant.bare));
        }
    }

    /// Tells the sessions of an occupant of its change now, and the others in time. The nick was
    /// passed to [`Room::changing`] before.
    pub(super) fn announce_in_time(&mut self, kernel: &mut Kernel, role: Role, news: &News<'_>, own: &[String]) {
        let Some(charges) = self.unsaid.charges(news.nick) else { return self.announce(kernel, role, news, own) };
        // What the others are told later has no sender to be charged.
        if charges && self.is_broadcast(role) {
            self.owed += self.occupants.seats() * self.composed(news, true, false).len();
        }
        if news.gone {
            let (rank, presence, new_nick) = (news.rank, news.presence.into(), news.new_nick.map(Into::into));
            let end = Gone { jid: news.jid.into(), rank, role, presence, new_nick, is_rename: false };
            for full in self.unsaid.leave(news.nick, end) {
                if self.occupants.by_session(&full).is_none() {
                    self.delete_seat(kernel, &full);
                }
            }
        }
        self.tell_own(kernel, news, own);
    }

    /// A nick may be nobody's by now.
    pub(super) fn changed(&mut self, nick: &str) {
        if self.occupants.by_nick(nick).is_none() {
            self.unsaid.tidy(nick);
        }
    }

    /// A session has left. Until the others know, its row remains, without a presence: they are told
    /// after a restart, too.
    pub(super) fn note_leave(&self, kernel: &mut Kernel, full: &str) {
        if let Some(seen) = self.unsaid.seen_as(full) {
            self.put_seat(kernel, full, seen, b"");
        }
    }

    /// The room was read. The others learn of sessions that had left before. A nick may be that
    /// of another user by now.
    pub(super) fn tell_left(&mut self, kernel: &mut Kernel) {
        for (full, nick) in std::mem::take(&mut self.left) {
            self.delete_seat(kernel, &full);
            let bare = bare_of(&full);
            let now = self.occupants.by_nick(&nick).and_then(|slot| self.occupants.get(slot));
            if now.is_some_and(|one| *one.bare == *bare) {
                continue;
            }
            let affiliation = self.standings.get(bare).map_or(Affiliation::None, |standing| standing.affiliation);
            let (role, rank) =
                (Role::initial(affiliation, &self.record.config), Rank { affiliation, role: Role::None });
            let news = News { gone: true, ..News::of(&nick, &full, rank, PRESENCE_GONE) };
            self.tell_others(kernel, role, &news);
            now.into_iter().for_each(|one| self.tell_current(kernel, one));
        }
        // That is nobody's doing.
        self.take_spent();
    }

    /// Tells the others what they do not know yet.
    pub(super) fn tell_unsaid(&mut self, kernel: &mut Kernel) {
        let entries = self.unsaid.take(kernel.now.mono_ms);
        self.tell(kernel, &entries);
    }

    /// Tells the others what they do not know yet of a nick, and of those that its user had before.
    pub(super) fn tell_unsaid_of(&mut self, kernel: &mut Kernel, nick: &str) {
        if !self.unsaid.is_empty() {
            let entries = self.unsaid.take_of(nick);
            self.tell(kernel, &entries);
        }
    }

    /// The same of an occupant, by its session, and of a nick to which it says something: each
    /// knows the other one then.
    pub(super) fn tell_unsaid_of_both(&mut self, kernel: &mut Kernel, full: &str, nick: &str) {
        let own = self.occupant(full).filter(|_| !self.unsaid.is_empty()).map(|occupant| occupant.nick.clone());
        for nick in own.iter().map(|own| &**own).chain([nick]).filter(|_| own.is_some()) {
            self.tell_unsaid_of(kernel, nick);
        }
    }

    fn tell(&mut self, kernel: &mut Kernel, entries: &[Entry]) {
        // It was charged when it happened.
        let spent = self.take_spent();
        let now = |nick: &str| self.occupants.by_nick(nick).and_then(|slot| self.occupants.get(slot));
        // First what has ended: a nick may have another user by now.
        for Entry { nick, seen, gone, .. } in entries {
            let stays = now(nick).is_some_and(|occupant| seen.as_deref() == Some(&*occupant.bare));
            if let Some(Gone { jid, rank, role, presence, new_nick, is_rename }) = gone.as_ref().filter(|_| !stays) {
                let new_nick = new_nick.as_deref().filter(|_| *is_rename);
                let statuses: &[u16] = if *is_rename { &[303] } else { &[] };
                let end = News { gone: true, statuses, new_nick, ..News::of(nick, jid, *rank, presence) };
                self.tell_others(kernel, *role, &end);
            }
        }
        // The rows of `note_leave`.
        let has_left = |gone: &&Gone| self.occupants.by_session(&gone.jid).is_none();
        for gone in entries.iter().filter_map(|entry| entry.gone.as_ref()).filter(has_left) {
            self.delete_seat(kernel, &gone.jid);
        }
        entries.iter().filter_map(|entry| now(&entry.nick)).for_each(|one| self.tell_current(kernel, one));
        self.sent_bytes += self.take_spent() as u64;
        self.spend(spent);
    }

    /// Announces the current state of an occupant to the others.
    fn tell_current(&self, kernel: &mut Kernel, one: &Occupant) {
        let (presence, seat) = (one.presence(), one.seats.last());
        let jid = format!("{}/{}", one.bare, seat.map_or("", |seat| &seat.resource));
        self.tell_others(kernel, one.role, &News::of(&one.nick, &jid, one.rank(), &presence));
    }
}
