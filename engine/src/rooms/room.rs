//! One room in memory: its record, occupants, standings and recent messages.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::extension::offline::Keep;
use crate::kernel::Kernel;
use crate::letters::{Kind, Letter, MessageClass, RoomLetter};
use crate::limits::{
    ROOM_BROADCAST_OCCUPANTS_MAX, ROOM_HISTORY_BYTES_MAX, ROOM_HISTORY_MAX, ROOM_STANDINGS_IN_MEMORY_MAX,
};
use crate::rooms::alerts::Alerts;
use crate::rooms::guard::{Guard, domain_of};
use crate::rooms::invited::Invited;
use crate::rooms::occupants::{Occupant, Occupants};
use crate::rooms::rank::{Rank, Role};
use crate::rooms::unsaid::Unsaid;
use crate::rooms::write::{Item, NS_OCCUPANT_ID, cast, occupant_id, post, write_hats, write_occupant_id, write_x};
use crate::store::room::{Affiliation, Listed, Record, Seat, Standing, delete_room};
use crate::store::room_extra::{Hashes, Hats};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{bare_of, local_of, split_resource};
use crate::wire::text::write_attribute;
use crate::wire::written::{insert_at_end, read_back};

/// The end of a visit.
pub(super) const PRESENCE_GONE: &[u8] = b"<presence type='unavailable'></presence>";

/// The standings of users that are in memory: all of the room, or those of the stanzas that are
/// being handled.
#[derive(Debug, Default)]
pub(super) struct Standings {
    known: BTreeMap<Box<str>, Standing>,
    /// Users for whom nicks are reserved: all, or those that were looked up.
    nicks: BTreeMap<Box<str>, Option<Box<str>>>,
    /// Whether all are in memory.
    pub(super) complete: bool,
}

impl Standings {
    /// All standings of a room, or none if there are too many.
    pub(super) fn new(all: Option<BTreeMap<Box<str>, Standing>>) -> Standings {
        let (complete, known) = (all.is_some(), all.unwrap_or_default());
        let nicks = known.iter().filter_map(|(bare, standing)| Some((standing.nick.clone()?, Some(bare.clone()))));
        Standings { nicks: nicks.collect(), known, complete }
    }

    /// Whether there are more than may be in memory. From now on they are read for single stanzas.
    fn limit(&mut self) {
        self.complete &= self.known.len() <= ROOM_STANDINGS_IN_MEMORY_MAX;
    }

    /// Whether the standing of a user is known.
    pub(super) fn knows(&self, bare: &str) -> bool {
        self.complete || self.known.contains_key(bare)
    }

    /// Whether it is known for whom a nick is reserved.
    pub(super) fn knows_nick(&self, nick: &str) -> bool {
        self.complete || self.nicks.contains_key(nick)
    }

    /// The standing of a user; `None` if it was not read.
    pub(super) fn get(&self, bare: &str) -> Option<Standing> {
        let known = self.known.get(bare).cloned();
        if self.complete { Some(known.unwrap_or_default()) } else { known }
    }

    /// Whether a nick is reserved for somebody else than this user, or may be: that was not read.
    pub(super) fn is_reserved(&self, nick: &str, bare: &str) -> bool {
        !self.knows_nick(nick) || self.holder(nick).is_some_and(|holder| holder != bare)
    }

    /// The user for whom a nick is reserved.
    pub(super) fn holder(&self, nick: &str) -> Option<&str> {
        self.nicks.get(nick)?.as_deref()
    }

    pub(super) fn put(&mut self, bare: &str, standing: Standing) {
        match self.complete && standing.is_none() {
            true => self.known.remove(bare),
            false => self.known.insert(bare.into(), standing),
        };
    }

    pub(super) fn put_nick(&mut self, nick: &str, holder: Option<Box<str>>) {
        match self.complete && holder.is_none() {
            true => self.nicks.remove(nick),
            false => self.nicks.insert(nick.into(), holder),
        };
    }

    /// Users with an affiliation, if all standings are in memory.
    pub(super) fn list(&self, affiliation: Affiliation) -> Vec<(Box<str>, Standing)> {
        let all = self.known.iter().filter(|(_, standing)| standing.affiliation == affiliation);
        all.map(|(bare, standing)| (bare.clone(), standing.clone())).collect()
    }

    /// Forgets what was read for single stanzas.
    pub(super) fn forget(&mut self) {
        self.limit();
        if !self.complete {
            self.known.clear();
            self.nicks.clear();
        }
    }
}

/// A message of the room's recent history.
#[derive(Debug, Clone)]
pub(super) struct Past {
    pub(super) time_ms: u64,
    /// Its number in the archive; 0 for none.
    pub(super) number: u64,
    /// The sender: a full JID of the room, or the room itself.
    pub(super) from: Box<str>,
    /// The stanza with everything that the room added, unaddressed.
    pub(super) xml: Arc<[u8]>,
}

/// A room.
#[derive(Debug)]
pub(super) struct Room {
    /// Its bare JID.
    pub(super) jid: Box<str>,
    pub(super) record: Record,
    pub(super) occupants: Occupants,
    pub(super) standings: Standings,
    /// Users that want to register, with the nicks; at most [`ROOM_REQUESTS_MAX`].
    pub(super) requests: BTreeMap<Box<str>, Box<str>>,
    pub(super) invited: Invited,
    /// Recent messages, at most [`ROOM_HISTORY_MAX`].
    history: VecDeque<Past>,
    history_bytes: usize,
    /// Absent members that are woken.
    pub(super) alerts: Alerts,
    /// Archived messages since the room has last written how many there are.
    pub(super) uncounted: u32,
    /// Whether there are older messages than those of the history.
    pub(super) has_older: bool,
    pub(super) hats: Hats,
    /// The hashes of the images in its vCard, if it has one.
    pub(super) hashes: Option<Hashes>,
    /// What occupants have done that the others have not been sent yet.
    pub(super) unsaid: Unsaid,
    /// Sessions that had left when the server stopped, with the nicks under which others still see
    /// them, until all rows of sessions are read.
    pub(super) left: Vec<(Box<str>, Box<str>)>,
    /// Bytes that will be sent, for which the sender of the stanza that caused them is charged.
    pub(super) owed: usize,
    /// Bytes sent, for which the sender of the stanza that caused them is charged.
    spent: Cell<usize>,
    /// Monotonic second at which the room was last used or, if it is locked, was created.
    pub(super) since_s: u32,
    /// Whether it is among the rooms that may go.
    pub(super) is_queued: bool,
    pub(super) guard: Guard,
    /// Bytes that the room has sent since it is in memory, and those of which senders were charged.
    pub(super) sent_bytes: u64,
    pub(super) charged_bytes: u64,
}

/// A change of an occupant, as others see it.
#[derive(Clone, Copy)]
pub(super) struct News<'a> {
    pub(super) nick: &'a str,
    /// The real full JID.
    pub(super) jid: &'a str,
    pub(super) rank: Rank,
    /// The presence, unaddressed.
    pub(super) presence: &'a [u8],
    /// Whether it is the end of a visit, or of a nick.
    pub(super) gone: bool,
    /// The `id` of the stanza that caused it, for the session that sent it (XEP-0045 7.14).
    pub(super) id: Option<&'a str>,
    /// Status codes for all, and further ones for the occupant.
    pub(super) statuses: &'a [u16],
    pub(super) own: &'a [u16],
    pub(super) actor: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    pub(super) new_nick: Option<&'a str>,
    /// `<destroy/>`, if the room ends.
    pub(super) destroy: &'a [u8],
}

impl<'a> News<'a> {
    /// The current state of an occupant.
    pub(super) fn of(nick: &'a str, jid: &'a str, rank: Rank, presence: &'a [u8]) -> News<'a> {
        News {
            nick,
            jid,
            rank,
            presence,
            gone: false,
            id: None,
            statuses: &[],
            own: &[],
            actor: None,
            reason: None,
            new_nick: None,
            destroy: b"",
        }
    }
}

impl Room {
    pub(super) fn new(jid: &str, record: Record, standings: Standings, now_s: u32) -> Room {
        Room {
            jid: jid.into(),
            record,
            occupants: Occupants::default(),
            standings,
            requests: BTreeMap::new(),
            invited: Invited::default(),
            history: VecDeque::new(),
            history_bytes: 0,
            alerts: Alerts::default(),
            uncounted: 0,
            has_older: false,
            hats: Hats::default(),
            hashes: None,
            unsaid: Unsaid::default(),
            left: Vec::new(),
            owed: 0,
            spent: Cell::new(0),
            since_s: now_s,
            is_queued: false,
            guard: Guard::default(),
            sent_bytes: 0,
            charged_bytes: 0,
        }
    }

    /// The address of a nick.
    pub(super) fn address(&self, nick: &str) -> String {
        format!("{}/{nick}", self.jid)
    }

    pub(super) fn occupant_id(&self, bare: &str) -> String {
        occupant_id(&self.record.secret, bare)
    }

    /// The occupant that a session is.
    pub(super) fn occupant(&self, full: &str) -> Option<&Occupant> {
        self.occupants.by_session(full).and_then(|(slot, _)| self.occupants.get(slot))
    }

    /// The standing of a user.
    ///
    /// # Errors
    /// `internal-server-error` if it was not read: nothing is decided without it.
    pub(super) fn standing(&self, bare: &str) -> Result<Standing, StanzaCondition> {
        self.standings.get(bare).ok_or(StanzaCondition::InternalServerError)
    }

    /// The affiliation of a user, who may be absent. One that was not read permits nothing.
    pub(super) fn affiliation(&self, bare: &str) -> Affiliation {
        match self.occupants.of_user(bare).first().and_then(|slot| self.occupants.get(*slot)) {
            Some(occupant) => occupant.affiliation,
            None => match self.standings.get(bare).map(|standing| standing.affiliation) {
                Some(Affiliation::None) if self.bans_domain_of(bare) => Affiliation::Outcast,
                affiliation => affiliation.unwrap_or(Affiliation::Outcast),
            },
        }
    }

    /// Whether a user is a stranger for the protection against raids: without an affiliation, or a
    /// member that nobody but itself has made one.
    pub(super) fn is_stranger(&self, bare: &str, affiliation: Affiliation) -> bool {
        let made_itself = || self.standings.get(bare).is_some_and(|standing| standing.self_registered);
        affiliation == Affiliation::None || affiliation == Affiliation::Member && made_itself()
    }

    /// Whether the domain of a user is banned (XEP-0045 9.1): an outcast without localpart stands for
    /// all users of that domain who have no affiliation of their own.
    fn bans_domain_of(&self, bare: &str) -> bool {
        self.standings.get(domain_of(bare)).is_some_and(|standing| standing.affiliation == Affiliation::Outcast)
    }

    /// The occupants whom a ban of a user or domain concerns.
    pub(super) fn banned_by(&self, jid: &str) -> Vec<u32> {
        if jid.contains('@') {
            return self.occupants.of_user(jid).to_vec();
        }
        let is_of =
            |one: &Occupant| *one.bare == *jid || (one.affiliation == Affiliation::None && domain_of(&one.bare) == jid);
        self.occupants.iter().filter(|(_, one)| is_of(one)).map(|(slot, _)| slot).collect()
    }

    /// Whether an occupant sees real JIDs (XEP-0045 4.2, semi- and non-anonymous rooms).
    pub(super) fn sees_jids(&self, role: Role) -> bool {
        self.record.config.shows_jids || role == Role::Moderator
    }

    /// Writes the row of the room.
    pub(super) fn put(&self, kernel: &mut Kernel) {
        self.record.put(&mut kernel.writes, &self.jid);
    }

    /// Writes the standing of a user, whose former one was read.
    pub(super) fn put_standing(&mut self, kernel: &mut Kernel, bare: &str, mut standing: Standing) {
        let Some(former) = self.standings.get(bare) else { return };
        if !former.is_member() {
            standing.left = self.here(kernel);
        }
        if !standing.is_member() {
            self.drop_alert(kernel, bare);
        }
        standing.put(&mut kernel.writes, &self.jid, bare, &former);
        if former.is_none() != standing.is_none() {
            self.tell_known(kernel, bare, !standing.is_none());
        }
        let (was, is) = (former.affiliation == Affiliation::Owner, standing.affiliation == Affiliation::Owner);
        if was != is {
            self.record.owners = (self.record.owners + u32::from(is)).saturating_sub(u32::from(was));
            self.put(kernel);
        }
        if former.nick != standing.nick {
            former.nick.into_iter().for_each(|nick| self.standings.put_nick(&nick, None));
            standing.nick.iter().for_each(|nick| self.standings.put_nick(nick, Some(bare.into())));
        }
        self.standings.put(bare, standing);
    }

    /// Tells a user's home whether the room has something of the user, for the removal of the
    /// account.
    pub(super) fn tell_known(&self, kernel: &mut Kernel, bare: &str, knows: bool) {
        if !kernel.settings.domains.is_of_user(bare) {
            return;
        }
        let home = kernel.home(bare);
        let letters = kernel.letters_to(home);
        let (user, room) = (letters.name(bare), letters.name(&self.jid));
        letters.push(Letter::Room(RoomLetter::Knows { user, room, knows }));
    }

    /// Writes the row of a session, so that the room knows it again after a crash.
    pub(super) fn put_seat(&self, kernel: &mut Kernel, full: &str, nick: &str, presence: &[u8]) {
        Seat { nick: nick.into(), presence: presence.into() }.put(&mut kernel.writes, &self.jid, full);
    }

    pub(super) fn delete_seat(&self, kernel: &mut Kernel, full: &str) {
        Seat::delete(&mut kernel.writes, &self.jid, full);
    }

    /// Enters the room in the directory of its service, or removes it from there.
    pub(super) fn list(&self, kernel: &mut Kernel, exists: bool) {
        let config = &self.record.config;
        let shown = exists && config.public && !self.record.locked;
        let listed = Listed { name: config.name.clone(), description: config.description.clone() };
        let service = self.jid.split_once('@').map_or("", |(_, service)| service);
        let home = kernel.home(service);
        let letters = kernel.letters_to(home);
        let (room, row) = (letters.name(&self.jid), letters.write(&if shown { listed.written() } else { Vec::new() }));
        letters.push(Letter::Room(RoomLetter::Listed { room, row }));
    }

    /// Removes all that the room has stored.
    pub(super) fn delete(&self, kernel: &mut Kernel) {
        delete_room(&mut kernel.writes, &self.jid);
        self.list(kernel, false);
    }

    /// The localpart, which names a room without a name.
    pub(super) fn name(&self) -> &str {
        match &*self.record.config.name {
            "" => local_of(&self.jid),
            name => name,
        }
    }

    /// Recent messages, the oldest first.
    pub(super) fn history(&self) -> impl DoubleEndedIterator<Item = &Past> {
        self.history.iter()
    }

    /// A message is the latest one.
    pub(super) fn remember(&mut self, past: Past) {
        self.history_bytes += past.xml.len();
        self.history.push_back(past);
        while self.history.len() > ROOM_HISTORY_MAX || self.history_bytes > ROOM_HISTORY_BYTES_MAX {
            let Some(past) = self.history.pop_front() else { break };
            self.history_bytes -= past.xml.len();
            self.has_older = true;
        }
    }

    /// Forgets the message with a number, which a moderator has retracted, or the occupant with
    /// this id, who must have sent it (XEP-0424 5.1).
    pub(super) fn forget(&mut self, number: u64, by: Option<&str>) {
        let is_by = |past: &Past, by: &str| {
            let id = read_back(&past.xml, |message| {
                Some(message.child("occupant-id", NS_OCCUPANT_ID)?.attribute("id")? == by)
            });
            id.flatten().unwrap_or_default()
        };
        self.history.retain(|past| past.number != number || by.is_some_and(|by| !is_by(past, by)));
        self.history_bytes = self.history.iter().map(|past| past.xml.len()).sum();
    }

    /// The sessions of occupants that fulfil a condition.
    pub(super) fn sessions(&self, is: impl Fn(&Occupant) -> bool) -> impl Iterator<Item = (&str, &str)> {
        let all = self.occupants.iter().filter(move |(_, occupant)| is(occupant));
        all.flat_map(|(_, occupant)| occupant.sessions())
    }

    /// Sends a stanza to sessions, and counts what that costs.
    pub(super) fn cast<'a>(
        &self,
        kernel: &mut Kernel,
        kind: Kind,
        from: &str,
        unaddressed: &[u8],
        number: u64,
        to: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let sessions = cast(kernel, kind, from, unaddressed, number, to);
        kernel.counters.room_casts.one();
        kernel.counters.room_copies.add(sessions as u64);
        self.spend(sessions * unaddressed.len());
    }

    /// Sends a stanza to one session, and counts what that costs.
    pub(super) fn post(&self, kernel: &mut Kernel, kind: Kind, from: &str, to: &str, unaddressed: &[u8]) {
        post(kernel, kind, from, to, unaddressed);
        self.spend(unaddressed.len());
    }

    /// Counts work as so many bytes sent.
    pub(super) fn spend(&self, bytes: usize) {
        self.spent.set(self.spent.get() + bytes);
    }

    /// Bytes that the room has sent since this was last asked.
    pub(super) fn take_spent(&self) -> usize {
        self.spent.take()
    }

    /// Asks the homes of sessions whether they exist: an empty stanza asks only for that.
    pub(super) fn ask_who_is_there(&self, kernel: &mut Kernel, asked: impl Fn(&str, &Kernel) -> bool) {
        let kind = Kind::Message { class: MessageClass::Headline, keep: Keep::Nothing };
        let sessions: Vec<_> = self.sessions(|one| asked(&one.bare, kernel)).collect();
        self.cast(kernel, kind, &self.jid, b"", 0, sessions.into_iter());
    }

    /// Sends a stanza to all occupants.
    pub(super) fn tell_all(&self, kernel: &mut Kernel, kind: Kind, from: &str, unaddressed: &[u8]) {
        self.cast(kernel, kind, from, unaddressed, 0, self.sessions(|_| true));
    }

    /// The presence of an occupant as somebody sees it.
    pub(super) fn composed(&self, news: &News<'_>, sees_jid: bool, own: bool) -> Vec<u8> {
        let mut item = Item::of(news.rank);
        item.jid = (sees_jid || own).then_some(news.jid);
        (item.nick, item.actor, item.reason) = (news.new_nick, news.actor, news.reason);
        let own_statuses = if own { news.own } else { &[] };
        let statuses = news.statuses.iter().chain(own_statuses).copied().chain(own.then_some(110));
        let mut out = Vec::with_capacity(news.presence.len() + 512);
        let presence = match news.id.filter(|_| own) {
            None => Cow::Borrowed(news.presence),
            Some(id) => Cow::Owned(with_id(news.presence, id)),
        };
        insert_at_end(&mut out, &presence, |out| {
            write_x(out, Some(&item), news.destroy, statuses);
            write_occupant_id(out, &self.occupant_id(bare_of(news.jid)));
            if !news.gone {
                write_hats(out, self.hats.of(bare_of(news.jid)));
            }
        });
        out
    }

    /// Whether occupants see moderators alone.
    pub(super) fn is_large(&self) -> bool {
        self.occupants.seats() > ROOM_BROADCAST_OCCUPANTS_MAX
    }

    /// Whether all occupants see the presence of one with this role. In a large room they see that
    /// of moderators only: joins would cost as much as all occupants together.
    pub(super) fn is_broadcast(&self, role: Role) -> bool {
        let roles = self.record.config.presence;
        match role {
            Role::Moderator => roles.moderator,
            _ if self.is_large() => false,
            Role::Participant => roles.participant,
            Role::Visitor => roles.visitor,
            Role::None => true,
        }
    }

    /// Announces a change of an occupant to all who see it, and to the sessions of the occupant
    /// itself, which may have left. `role` is the role that decides who sees it.
    pub(super) fn announce(&self, kernel: &mut Kernel, role: Role, news: &News<'_>, own: &[String]) {
        self.tell_others(kernel, role, news);
        self.tell_own(kernel, news, own);
    }

    /// Announces a change of an occupant to all who see it but the occupant itself.
    pub(super) fn tell_others(&self, kernel: &mut Kernel, role: Role, news: &News<'_>) {
        let (from, (bare, resource)) = (self.address(news.nick), split_resource(news.jid));
        let kind = Kind::Directed { unavailable: news.gone };
        let wide = self.is_broadcast(role);
        let is_own = |one: &Occupant| *one.bare == *bare && *one.nick == *news.nick;
        // It may have another nick by now, which other sessions of the user may share.
        let is_other = |(of, at): &(&str, &str)| *of != bare || Some(*at) != resource;
        for sees in [true, false] {
            let sees_it = |one: &Occupant| self.sees_jids(one.role) == sees && !is_own(one);
            let mut to: Vec<&Occupant> = Vec::new();
            match wide {
                true => to.extend(self.occupants.iter().map(|(_, one)| one).filter(|one| sees_it(one))),
                false => to.extend(self.occupants.moderators().map(|(_, one)| one).filter(|one| sees_it(one))),
            }
            // Nothing is composed for nobody.
            if !to.is_empty() {
                let to = to.iter().flat_map(|one| one.sessions()).filter(is_other);
                self.cast(kernel, kind, &from, &self.composed(news, sees, false), 0, to);
            }
        }
    }

    /// Tells sessions of an occupant of a change of the occupant itself.
    pub(super) fn tell_own(&self, kernel: &mut Kernel, news: &News<'_>, own: &[String]) {
        let kind = Kind::Directed { unavailable: news.gone };
        // What follows this number is not lost: see `Shard::miss_messages_of_rooms`.
        let number = if self.record.config.archive { self.record.said.number.max(1) } else { 0 };
        let own =
            own.iter().map(|full| split_resource(full)).map(|(bare, resource)| (bare, resource.unwrap_or_default()));
        self.cast(kernel, kind, &self.address(news.nick), &self.composed(news, true, true), number, own);
    }

    /// Tells all occupants of a change that is no occupant's (XEP-0045 10.2.1).
    pub(super) fn tell_statuses(&self, kernel: &mut Kernel, statuses: &[u16]) {
        let mut out = b"<message type='groupchat'>".to_vec();
        write_x(&mut out, None, b"", statuses.iter().copied());
        out.extend_from_slice(b"</message>");
        self.tell_all(kernel, super::write::GROUPCHAT, &self.jid, &out);
    }
}

/// A presence without `id`, with one.
fn with_id(presence: &[u8], id: &str) -> Vec<u8> {
    let name_end = presence.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'>' | b'/'));
    let (name, rest) = presence.split_at(name_end.unwrap_or(presence.len()));
    let mut out = Vec::with_capacity(presence.len() + id.len() + 8);
    out.extend_from_slice(name);
    write_attribute(&mut out, "id", id);
    out.extend_from_slice(rest);
    out
}

/// The full JIDs of the sessions of an occupant.
pub(super) fn sessions_of(occupant: &Occupant) -> Vec<String> {
    occupant.seats.iter().map(|seat| format!("{}/{}", occupant.bare, seat.resource)).collect()
}
