//! Visits: entering a room, presence and nicks during the visit, and leaving (XEP-0045 7.2 to 7.7,
//! 7.14).

use std::sync::Arc;

use minidom::Element as Tree;

use crate::extension::offline::delay;
use crate::extension::{datetime, xml};
use crate::kernel::Kernel;
use crate::letters::Kind;
use crate::limits::{
    ROOM_CHARGED_SHARE, ROOM_OCCUPANTS_MAX, ROOM_PRESENCE_BYTES_MAX, ROOM_SEATS_PER_USER_MAX, WORK_ELEMENTS_USUAL,
    WORK_PER_ELEMENT,
};
use crate::rooms::occupants::Occupant;
use crate::rooms::rank::{Rank, Role};
use crate::rooms::room::{News, PRESENCE_GONE, Past, Room, sessions_of};
use crate::rooms::write::{GROUPCHAT, NS_HATS, NS_OCCUPANT_ID, NS_USER};
use crate::router::users::Incoming;
use crate::store::room::Affiliation;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{bare_of, resource_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;
use crate::wire::written::insert_at_end;
use crate::wire::{Child, Element, Splice, splice};

/// The request to enter a room (XEP-0045 7.2.1).
pub(super) const NS_MUC: &str = "http://jabber.org/protocol/muc";
/// XEP-0317, in both forms that clients know: only a room gives hats.
const HATS: [&str; 2] = [NS_HATS, "http://prosody.im/protocol/hats:1"];

/// What a session wants of the history (XEP-0045 7.2.14).
struct HistoryWish {
    stanzas: usize,
    chars: usize,
    since_ms: u64,
}

impl HistoryWish {
    fn of(entry: Option<&Tree>, usual: usize, now_ms: u64) -> HistoryWish {
        let mut wish = HistoryWish { stanzas: usual, chars: usize::MAX, since_ms: 0 };
        let Some(history) = entry.and_then(|x| x.get_child("history", NS_MUC)) else { return wish };
        let number = |name| history.attr(name).and_then(|value| value.parse::<usize>().ok());
        if let Some(most) = number("maxstanzas") {
            wish.stanzas = wish.stanzas.min(most);
        }
        wish.chars = number("maxchars").unwrap_or(usize::MAX);
        if let Some(seconds) = number("seconds") {
            wish.since_ms = now_ms.saturating_sub((seconds as u64).saturating_mul(1_000));
        }
        if let Some(since_us) = history.attr("since").and_then(datetime::parse) {
            wish.since_ms = wish.since_ms.max(since_us / 1_000);
        }
        wish
    }
}

/// What a request to enter says beyond that (XEP-0045 7.2.5, 7.2.14), and the work of reading it.
///
/// # Errors
/// If it has too many elements for its length.
fn entry_of(x: Option<&Child<'_>>) -> Result<(Option<Tree>, usize), Refusal> {
    let Some(x) = x.filter(|x| !x.inner().is_empty()) else { return Ok((None, 0)) };
    let elements = xml::elements(x.bytes()).saturating_sub(WORK_ELEMENTS_USUAL);
    let tree = xml::parse_sparse(x.bytes()).ok_or(Limit::Elements)?;
    Ok((Some(tree), elements * WORK_PER_ELEMENT as usize))
}

/// The presence of a session as the room shows it: unaddressed, without `id`, and without what only
/// the room may state.
fn shown(element: &Element<'_>) -> Vec<u8> {
    let forged = |namespace: &str| matches!(namespace, NS_MUC | NS_USER | NS_OCCUPANT_ID) || HATS.contains(&namespace);
    let drop: Vec<_> =
        element.children().filter(|child| forged(child.namespace())).map(|child| child.range()).collect();
    let mut out = Vec::with_capacity(element.bytes().len());
    splice(&mut out, element, &Splice { unaddressed: true, id: Some(None), drop: &drop, ..Splice::default() });
    out
}

/// Why an occupant has to leave, as others see it.
#[derive(Clone, Copy)]
pub(super) struct Removal<'a> {
    pub(super) affiliation: Affiliation,
    pub(super) statuses: &'a [u16],
    pub(super) actor: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    pub(super) destroy: &'a [u8],
}

impl Room {
    /// Handles presence of a session to an address of the room.
    ///
    /// # Errors
    /// The refusal for a presence that asks for something.
    pub(super) fn presence(
        &mut self,
        kernel: &mut Kernel,
        stanza: Incoming<'_>,
        element: &Element<'_>,
        created: bool,
    ) -> Result<(), Refusal> {
        let full = stanza.from;
        let present = self.occupants.by_session(full);
        match (element.kind().as_deref(), present) {
            (None, _) => {}
            (Some("unavailable"), Some((slot, seat))) => {
                self.leaves(kernel, full, slot, seat, &shown(element), element.id().as_deref());
                return Ok(());
            }
            // The session refuses what the room sends (XEP-0045 7.2: it is of no use there).
            (Some("error"), Some((slot, seat))) => {
                self.leaves(kernel, full, slot, seat, PRESENCE_GONE, None);
                return Ok(());
            }
            (Some(_), _) => return Ok(()),
        }
        let Some(nick) = resource_of(stanza.to).filter(|nick| !nick.trim().is_empty()) else {
            return Err(StanzaCondition::JidMalformed.into());
        };
        let presence = shown(element);
        if presence.len() > ROOM_PRESENCE_BYTES_MAX {
            return Err(Limit::RoomPresence.into());
        }
        let x = element.child("x", NS_MUC);
        let enters = x.is_some();
        let (entry, work) = entry_of(x.as_ref())?;
        self.owed += work * ROOM_CHARGED_SHARE;
        let Some((slot, seat)) = present else {
            // XEP-0410 3: a session that the room does not know learns that it is not in the room.
            if !enters {
                return Err(StanzaCondition::NotAcceptable.into());
            }
            let rank = self.may_enter(full, nick, entry.as_ref(), created)?;
            let is_stranger = self.is_stranger(bare_of(full), rank.affiliation);
            self.guard.may_enter(kernel, is_stranger)?;
            self.changing(nick);
            let slot = self.occupants.enter(full, nick, rank, Arc::from(presence));
            self.welcome(kernel, full, slot, entry.as_ref(), created);
            return Ok(());
        };
        let own = self.occupants.get(slot).is_some_and(|occupant| *occupant.nick == *nick);
        if !own {
            return self.change_nick(kernel, full, slot, seat, nick, presence.into());
        }
        self.changing(nick);
        self.occupants.presence(slot, seat, Arc::from(presence));
        if enters {
            // XEP-0045 7.2: a repeated request is answered in full. The session may have lost its
            // state.
            self.welcome(kernel, full, slot, entry.as_ref(), false);
        } else {
            self.announce_current(kernel, slot, full, &[]);
        }
        Ok(())
    }

    /// Whether a session may enter with a nick, and with which rank.
    fn may_enter(&self, full: &str, nick: &str, entry: Option<&Tree>, created: bool) -> Result<Rank, Refusal> {
        let (bare, config) = (bare_of(full), &self.record.config);
        let affiliation = self.affiliation(bare);
        let rank = Rank { affiliation, role: Role::initial(affiliation, config) };
        if self.record.locked && affiliation != Affiliation::Owner {
            return Err(StanzaCondition::ItemNotFound.into());
        }
        match affiliation {
            Affiliation::Outcast => return Err(StanzaCondition::Forbidden.into()),
            Affiliation::None if config.members_only => return Err(StanzaCondition::RegistrationRequired.into()),
            _ => {}
        }
        if let Some(expected) = config.password.as_deref().filter(|_| !created)
            && entry.and_then(|x| x.get_child("password", NS_MUC)).is_none_or(|given| given.text() != expected)
        {
            return Err(StanzaCondition::NotAuthorized.into());
        }
        let taken = self.occupants.by_nick(nick).and_then(|slot| self.occupants.get(slot));
        let reserved = self.standings.is_reserved(nick, bare);
        if reserved || taken.is_some_and(|occupant| *occupant.bare != *bare) {
            return Err(StanzaCondition::Conflict.into());
        }
        let seats = self.occupants.of_user(bare).iter().filter_map(|slot| self.occupants.get(*slot));
        if seats.map(|occupant| occupant.seats.len()).sum::<usize>() >= ROOM_SEATS_PER_USER_MAX {
            return Err(Limit::RoomSeats.into());
        }
        // XEP-0045 7.2.9: admins and owners may enter a full room.
        let most = match config.occupants_max {
            0 => ROOM_OCCUPANTS_MAX,
            most => ROOM_OCCUPANTS_MAX.min(most as usize),
        };
        let is_full = self.occupants.len() >= most && affiliation < Affiliation::Admin;
        if is_full || self.occupants.seats() >= 2 * ROOM_OCCUPANTS_MAX {
            return Err(Limit::RoomOccupants.into());
        }
        Ok(rank)
    }

    /// Sends a session everything that it has to know of the room, in the order of XEP-0045 7.1.
    fn welcome(&mut self, kernel: &mut Kernel, full: &str, slot: u32, entry: Option<&Tree>, created: bool) {
        let Some(own) = self.occupants.get(slot) else { return };
        let (nick, own_role) = (own.nick.clone(), own.role);
        self.put_seat(kernel, full, &nick, &own.presence());
        self.send_others(kernel, full, slot, own_role);
        let config = &self.record.config;
        let own: Vec<u16> = [(100, config.shows_jids), (170, config.archive), (201, created)]
            .into_iter()
            .filter_map(|(status, holds)| holds.then_some(status))
            .collect();
        self.announce_current(kernel, slot, full, &own);
        self.send_history(kernel, full, entry);
        self.send_subject(kernel, full);
        self.send_requests(kernel, full, slot);
    }

    /// Sends a session the presence of the other occupants, as its role may see them.
    fn send_others(&self, kernel: &mut Kernel, full: &str, own: u32, role: Role) {
        let sees_jids = self.sees_jids(role);
        let seen =
            |(slot, one): &(u32, &Occupant)| *slot != own && (role == Role::Moderator || self.is_broadcast(one.role));
        // Without a search through all for those few that a newcomer sees in a large room.
        let others: Vec<(u32, &Occupant)> = match self.is_large() && role != Role::Moderator {
            true => self.occupants.moderators().filter(seen).collect(),
            false => self.occupants.iter().filter(seen).collect(),
        };
        for (_, one) in others {
            let (presence, seat) = (one.presence(), one.seats.last());
            let jid = format!("{}/{}", one.bare, seat.map_or("", |seat| &seat.resource));
            let news = News::of(&one.nick, &jid, one.rank(), &presence);
            let (from, kind) = (self.address(&one.nick), Kind::Directed { unavailable: false });
            self.post(kernel, kind, &from, full, &self.composed(&news, sees_jids, false));
        }
    }

    fn send_history(&self, kernel: &mut Kernel, full: &str, entry: Option<&Tree>) {
        let now_ms = kernel.now.wall_us / 1_000;
        let wish = HistoryWish::of(entry, usize::from(self.record.config.history), now_ms);
        let mut chars = 0;
        let wanted = self.history().rev().take(wish.stanzas).take_while(|past| {
            chars += past.xml.len();
            past.time_ms >= wish.since_ms && chars <= wish.chars
        });
        let wanted: Vec<&Past> = wanted.collect();
        for past in wanted.into_iter().rev() {
            let mut out = Vec::with_capacity(past.xml.len() + 160);
            insert_at_end(&mut out, &past.xml, |out| delay(out, &self.jid, past.time_ms * 1_000));
            self.post(kernel, GROUPCHAT, &past.from, full, &out);
        }
    }

    /// XEP-0045 7.2.15: the subject is the last of what a newcomer is sent, even if it is empty.
    fn send_subject(&self, kernel: &mut Kernel, full: &str) {
        let subject = &self.record.subject;
        let from = if subject.nick.is_empty() { self.jid.to_string() } else { self.address(&subject.nick) };
        let mut out = Vec::new();
        Writer::new(&mut out).open("message").attribute("type", "groupchat").leaf("subject", &subject.text).close();
        let stanza = match subject.time_ms {
            0 => out,
            set_ms => {
                let mut stamped = Vec::with_capacity(out.len() + 160);
                insert_at_end(&mut stamped, &out, |out| delay(out, &self.jid, set_ms * 1_000));
                stamped
            }
        };
        self.post(kernel, GROUPCHAT, &from, full, &stanza);
    }

    /// Announces the current state of an occupant, whose session has caused it.
    fn announce_current(&mut self, kernel: &mut Kernel, slot: u32, full: &str, own: &[u16]) {
        let Some(occupant) = self.occupants.get(slot) else { return };
        let (nick, rank, presence) = (occupant.nick.clone(), occupant.rank(), occupant.presence());
        let sessions = sessions_of(occupant);
        self.announce_in_time(kernel, rank.role, &News { own, ..News::of(&nick, full, rank, &presence) }, &sessions);
    }

    /// XEP-0045 7.6.
    fn change_nick(
        &mut self,
        kernel: &mut Kernel,
        full: &str,
        slot: u32,
        seat: usize,
        nick: &str,
        presence: Arc<[u8]>,
    ) -> Result<(), Refusal> {
        let bare = bare_of(full);
        let reserved = self.standings.is_reserved(nick, bare);
        if reserved || self.occupants.by_nick(nick).is_some() {
            return Err(StanzaCondition::Conflict.into());
        }
        let Some(occupant) = self.occupants.get(slot) else { return Ok(()) };
        let (former, rank, own) = (occupant.nick.clone(), occupant.rank(), sessions_of(occupant));
        self.changing(&former);
        self.changing(nick);
        let gone =
            News { gone: true, statuses: &[303], new_nick: Some(nick), ..News::of(&former, full, rank, PRESENCE_GONE) };
        if own.len() == 1 {
            self.announce_in_time(kernel, rank.role, &gone, &own);
            self.occupants.rename(slot, nick);
            self.occupants.presence(slot, 0, presence.clone());
        } else {
            // The other sessions of the occupant keep the nick.
            self.tell_own(kernel, &gone, &[full.to_owned()]);
            self.occupants.leave(slot, seat);
            self.occupants.enter(full, nick, rank, presence.clone());
        }
        self.put_seat(kernel, full, nick, &presence);
        if let Some(slot) = self.occupants.by_nick(nick) {
            self.announce_current(kernel, slot, full, &[]);
        }
        self.changed(&former);
        Ok(())
    }

    /// A session leaves (XEP-0045 7.14), or has ended.
    pub(super) fn leaves(
        &mut self,
        kernel: &mut Kernel,
        full: &str,
        slot: u32,
        seat: usize,
        presence: &[u8],
        id: Option<&str>,
    ) {
        let Some(occupant) = self.occupants.get(slot) else { return };
        let (nick, rank) = (occupant.nick.clone(), occupant.rank());
        self.changing(&nick);
        self.delete_seat(kernel, full);
        let presence = match presence.len() > ROOM_PRESENCE_BYTES_MAX {
            true => PRESENCE_GONE,
            false => presence,
        };
        let left = Rank { role: Role::None, ..rank };
        let news = News { gone: true, id, ..News::of(&nick, full, left, presence) };
        if self.occupants.leave(slot, seat).is_some() {
            self.announce_in_time(kernel, rank.role, &news, &[full.to_owned()]);
            self.changed(&nick);
            self.note_leave(kernel, full);
            self.note_absence(kernel, bare_of(full));
        } else {
            self.tell_own(kernel, &news, &[full.to_owned()]);
        }
    }

    /// Removes an occupant with all sessions (XEP-0045 8.2, 9.1, 9.4, 10.9). Returns the occupant.
    pub(super) fn remove(&mut self, kernel: &mut Kernel, slot: u32, removal: &Removal<'_>) -> Option<Occupant> {
        let nick = self.occupants.get(slot)?.nick.clone();
        self.tell_unsaid_of(kernel, &nick);
        let occupant = self.occupants.remove(slot)?;
        let own = sessions_of(&occupant);
        own.iter().for_each(|full| self.delete_seat(kernel, full));
        let jid = own.last().map_or("", String::as_str);
        let rank = Rank { affiliation: removal.affiliation, role: Role::None };
        let news = News {
            gone: true,
            statuses: removal.statuses,
            actor: removal.actor,
            reason: removal.reason,
            destroy: removal.destroy,
            ..News::of(&occupant.nick, jid, rank, PRESENCE_GONE)
        };
        self.announce(kernel, occupant.role, &news, &own);
        self.note_absence(kernel, &occupant.bare);
        Some(occupant)
    }

    /// The affiliation of a user was read: occupants that were restored before have the rank that
    /// follows from it.
    pub(super) fn restore_rank(&mut self, user: &str, affiliation: Affiliation) {
        let role = Role::initial(affiliation, &self.record.config);
        for slot in self.occupants.of_user(user).to_vec() {
            if self.occupants.get(slot).is_some_and(|one| one.affiliation != affiliation) {
                self.occupants.set_rank(slot, Rank { affiliation, role });
            }
        }
    }

    /// Gives an occupant another rank and announces it.
    pub(super) fn set_rank(
        &mut self,
        kernel: &mut Kernel,
        slot: u32,
        rank: Rank,
        actor: Option<&str>,
        reason: Option<&str>,
    ) {
        let Some(nick) = self.occupants.get(slot).map(|occupant| occupant.nick.clone()) else { return };
        self.tell_unsaid_of(kernel, &nick);
        let Some(former) = self.occupants.get(slot).map(|occupant| occupant.role) else { return };
        self.occupants.set_rank(slot, rank);
        let Some(occupant) = self.occupants.get(slot) else { return };
        let (own, presence) = (sessions_of(occupant), occupant.presence());
        let jid = own.last().map_or("", String::as_str);
        let news = News { actor, reason, ..News::of(&nick, jid, rank, &presence) };
        self.announce(kernel, former.max(rank.role), &news, &own);
        // A new moderator learns what it sees from now on.
        if self.sees_jids(rank.role) && !self.sees_jids(former) {
            own.iter().for_each(|full| self.send_others(kernel, full, slot, rank.role));
        }
    }
}
