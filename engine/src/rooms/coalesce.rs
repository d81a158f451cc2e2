//! How large rooms tell occupants of others: at once, or later and of the last state alone
//! ([`unsaid`](super::unsaid)).

use crate::kernel::Kernel;
use crate::limits::ROOM_COALESCED_SEATS;
use crate::rooms::rank::Role;
use crate::rooms::room::{News, PRESENCE_GONE, Room};
use crate::rooms::unsaid::{Entry, Gone};

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
            self.spend(self.occupants.seats() * news.presence.len());
        }
        if news.gone {
            let (rank, presence, new_nick) = (news.rank, news.presence.into(), news.new_nick.map(Into::into));
            let end = Gone { jid: news.jid.into(), rank, role, presence, new_nick, is_rename: false };
            self.unsaid.leave(news.nick, end);
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

    /// The room was read. Sessions whose rows have no presence had left before.
    pub(super) fn leave_again(&mut self, kernel: &mut Kernel) {
        let seats = self.occupants.iter().flat_map(|(_, one)| one.seats.iter().map(move |seat| (one, seat)));
        let left = seats.filter(|(_, seat)| seat.presence.is_empty());
        let left: Vec<String> = left.map(|(one, seat)| format!("{}/{}", one.bare, seat.resource)).collect();
        if left.is_empty() {
            return;
        }
        for full in left {
            if let Some((slot, seat)) = self.occupants.by_session(&full) {
                self.leaves(kernel, &full, slot, seat, PRESENCE_GONE, None);
            }
        }
        self.tell_unsaid(kernel);
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

    fn tell(&self, kernel: &mut Kernel, entries: &[Entry]) {
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
        for (nick, occupant) in entries.iter().filter_map(|entry| Some((&entry.nick, now(&entry.nick)?))) {
            let (presence, seat) = (occupant.presence(), occupant.seats.last());
            let jid = format!("{}/{}", occupant.bare, seat.map_or("", |seat| &seat.resource));
            self.tell_others(kernel, occupant.role, &News::of(nick, &jid, occupant.rank(), &presence));
        }
        self.take_spent();
        self.spend(spent);
    }
}
