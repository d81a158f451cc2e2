//! The occupants of a room in memory: by nick, and by the sessions of their users.
//!
//! An occupant is one nick of one user. Several sessions of the user may share it (XEP-0045 1.1,
//! "multi-session nicks"); each has a seat. The indices are sorted vectors of numbers, which hold no
//! text twice: finding costs a binary search, entering moves a few bytes per occupant.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::rooms::rank::{Rank, Role};
use crate::store::room::Affiliation;
use crate::wire::jid::split_resource;

/// One nick of one user.
#[derive(Debug)]
pub(super) struct Occupant {
    pub(super) nick: Box<str>,
    /// The bare JID of the user.
    pub(super) bare: Box<str>,
    pub(super) affiliation: Affiliation,
    pub(super) role: Role,
    /// The sessions, the one with the latest presence last.
    pub(super) seats: Vec<Seat>,
    /// When the occupant may speak again in slow mode (XEP-0500), monotonic milliseconds.
    pub(super) speaks_ms: u64,
}

/// One session of an occupant.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) resource: Box<str>,
    /// The presence, unaddressed, without what the room adds.
    pub(super) presence: Arc<[u8]>,
    /// Names the session in relayed requests; unique in the room.
    pub(super) number: u32,
}

impl Occupant {
    pub(super) fn rank(&self) -> Rank {
        Rank { affiliation: self.affiliation, role: self.role }
    }

    /// The presence that others see: the latest one of its sessions.
    pub(super) fn presence(&self) -> Arc<[u8]> {
        self.seats.last().map_or_else(|| Arc::from(&b"<presence/>"[..]), |seat| seat.presence.clone())
    }

    /// The bare JID and the resource of each session.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.seats.iter().map(|seat| (&*self.bare, &*seat.resource))
    }

    fn seat(&self, resource: &str) -> Option<usize> {
        self.seats.iter().position(|seat| *seat.resource == *resource)
    }
}

/// The occupants of a room.
#[derive(Debug, Default)]
pub(super) struct Occupants {
    slots: Vec<Option<Occupant>>,
    free: Vec<u32>,
    /// Slots in the order of nicks.
    by_nick: Vec<u32>,
    /// Slots in the order of bare JIDs, then of slots.
    by_bare: Vec<u32>,
    /// Slots of moderators, in their order: in a large room they alone see everybody.
    moderators: Vec<u32>,
    seats: usize,
    last_number: u32,
}

impl Occupants {
    /// Number of nicks.
    pub(super) fn len(&self) -> usize {
        self.by_nick.len()
    }

    /// Number of sessions.
    pub(super) fn seats(&self) -> usize {
        self.seats
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_nick.is_empty()
    }

    /// The occupants in the order of their nicks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Occupant)> {
        self.by_nick.iter().filter_map(|&slot| Some((slot, self.get(slot)?)))
    }

    /// The moderators.
    pub(super) fn moderators(&self) -> impl Iterator<Item = (u32, &Occupant)> {
        self.moderators.iter().filter_map(|&slot| Some((slot, self.get(slot)?)))
    }

    /// Gives an occupant another affiliation and role.
    pub(super) fn set_rank(&mut self, slot: u32, rank: Rank) {
        if let Some(occupant) = self.get_mut(slot) {
            (occupant.affiliation, occupant.role) = (rank.affiliation, rank.role);
            self.note_role(slot, Some(rank.role));
        }
    }

    /// Keeps the list of moderators; no role if the occupant has left.
    fn note_role(&mut self, slot: u32, role: Option<Role>) {
        match (self.moderators.binary_search(&slot), role == Some(Role::Moderator)) {
            (Err(at), true) => self.moderators.insert(at, slot),
            (Ok(at), false) => _ = self.moderators.remove(at),
            _ => {}
        }
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Occupant> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Occupant> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    fn nick_place(&self, nick: &str) -> Result<usize, usize> {
        self.by_nick.binary_search_by(|&slot| self.get(slot).map_or(Ordering::Less, |one| (*one.nick).cmp(nick)))
    }

    /// The occupant with a nick.
    pub(super) fn by_nick(&self, nick: &str) -> Option<u32> {
        self.nick_place(nick).ok().map(|at| self.by_nick[at])
    }

    /// The occupants of a user, by bare JID.
    pub(super) fn of_user(&self, bare: &str) -> &[u32] {
        let bare_of = |slot: u32| self.get(slot).map_or("", |one| &one.bare);
        let from = self.by_bare.partition_point(|&slot| bare_of(slot) < bare);
        let len = self.by_bare[from..].iter().take_while(|&&slot| bare_of(slot) == bare).count();
        &self.by_bare[from..from + len]
    }

    /// The occupant that a session is, by full JID, and the index of its seat.
    pub(super) fn by_session(&self, full: &str) -> Option<(u32, usize)> {
        let (bare, resource) = split_resource(full);
        let resource = resource.unwrap_or_default();
        self.of_user(bare).iter().find_map(|&slot| Some((slot, self.get(slot)?.seat(resource)?)))
    }

    /// A session enters with a nick that is free, or that another session of the same user has.
    /// Returns its occupant.
    pub(super) fn enter(&mut self, full: &str, nick: &str, rank: Rank, presence: Arc<[u8]>) -> u32 {
        let (bare, resource) = split_resource(full);
        self.last_number = self.last_number.wrapping_add(1);
        let seat = Seat { resource: resource.unwrap_or_default().into(), presence, number: self.last_number };
        self.seats += 1;
        let at = match self.nick_place(nick) {
            Ok(at) => {
                let slot = self.by_nick[at];
                if let Some(occupant) = self.get_mut(slot) {
                    debug_assert_eq!(&*occupant.bare, bare, "a nick is of one user");
                    occupant.seats.push(seat);
                }
                return slot;
            }
            Err(at) => at,
        };
        let Rank { affiliation, role } = rank;
        let (nick, bare) = (nick.into(), bare.into());
        let occupant = Occupant { nick, bare, affiliation, role, seats: vec![seat], speaks_ms: 0 };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(occupant);
                slot
            }
            None => {
                self.slots.push(Some(occupant));
                u32::try_from(self.slots.len() - 1).expect("the limit of occupants is below 4 billion")
            }
        };
        self.by_nick.insert(at, slot);
        self.note_role(slot, Some(role));
        let key = |slot: u32| (self.get(slot).map_or("", |one| &one.bare), slot);
        let at = self.by_bare.partition_point(|&other| key(other) < key(slot));
        self.by_bare.insert(at, slot);
        slot
    }

    /// A session leaves. Returns the occupant if it was the last session.
    pub(super) fn leave(&mut self, slot: u32, seat: usize) -> Option<Occupant> {
        let occupant = self.get_mut(slot)?;
        if occupant.seats.len() > 1 {
            occupant.seats.remove(seat);
            self.seats -= 1;
            return None;
        }
        self.remove(slot)
    }

    /// All sessions of an occupant leave.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Occupant> {
        let at = self.nick_place(&self.get(slot)?.nick).ok()?;
        self.by_nick.remove(at);
        if let Some(at) = self.bare_place(slot) {
            self.by_bare.remove(at);
        }
        self.note_role(slot, None);
        let occupant = self.slots[slot as usize].take()?;
        self.seats -= occupant.seats.len();
        self.free.push(slot);
        Some(occupant)
    }

    fn bare_place(&self, slot: u32) -> Option<usize> {
        let key = |slot: u32| (self.get(slot).map_or("", |one| &one.bare), slot);
        self.by_bare.binary_search_by(|&other| key(other).cmp(&key(slot))).ok()
    }

    /// Gives an occupant a nick that is free.
    pub(super) fn rename(&mut self, slot: u32, nick: &str) {
        let Some(Ok(at)) = self.get(slot).map(|occupant| self.nick_place(&occupant.nick)) else { return };
        self.by_nick.remove(at);
        if let Some(occupant) = self.get_mut(slot) {
            occupant.nick = nick.into();
        }
        if let Err(at) = self.nick_place(nick) {
            self.by_nick.insert(at, slot);
        }
    }

    /// A session has sent presence, which becomes that of its occupant.
    pub(super) fn presence(&mut self, slot: u32, seat: usize, presence: Arc<[u8]>) {
        if let Some(occupant) = self.get_mut(slot) {
            let mut seat = occupant.seats.remove(seat);
            seat.presence = presence;
            occupant.seats.push(seat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const RANK: Rank = Rank { affiliation: Affiliation::None, role: Role::Participant };

    fn presence() -> Arc<[u8]> {
        Arc::from(&b"<presence/>"[..])
    }

    /// What the indices find, against a search through all.
    fn is_whole(room: &Occupants) {
        let all: Vec<(u32, &Occupant)> = room.iter().collect();
        assert!(all.is_sorted_by(|a, b| a.1.nick < b.1.nick));
        assert_eq!(all.len(), room.by_bare.len());
        let moderates = |(_, one): &&(u32, &Occupant)| one.role == Role::Moderator;
        let mut moderators: Vec<u32> = all.iter().filter(moderates).map(|(slot, _)| *slot).collect();
        moderators.sort_unstable();
        assert_eq!(room.moderators().map(|(slot, _)| slot).collect::<Vec<_>>(), moderators);
        assert_eq!(all.iter().map(|(_, one)| one.seats.len()).sum::<usize>(), room.seats());
        for (slot, one) in &all {
            assert_eq!(room.by_nick(&one.nick), Some(*slot));
            assert!(room.of_user(&one.bare).contains(slot));
            for (at, seat) in one.seats.iter().enumerate() {
                assert_eq!(room.by_session(&format!("{}/{}", one.bare, seat.resource)), Some((*slot, at)));
            }
        }
    }

    proptest! {
        #[test]
        fn the_indices_find_each_occupant(steps in prop::collection::vec((0..5u8, 0..6u8, 0..3u8, 0..8u8), 1..80)) {
            let mut room = Occupants::default();
            let mut model: BTreeMap<String, String> = BTreeMap::new();
            for (what, user, resource, nick) in steps {
                let (full, nick) = (format!("u{user}@x/{resource}"), format!("n{nick}"));
                let (bare, _) = split_resource(&full);
                let free = room.by_nick(&nick).is_none_or(|slot| &*room.get(slot).unwrap().bare == bare);
                match (what, room.by_session(&full)) {
                    (0 | 1, None) if free => {
                        room.enter(&full, &nick, RANK, presence());
                        model.insert(full, nick);
                    }
                    (2, Some((slot, seat))) => {
                        room.leave(slot, seat);
                        model.remove(&full);
                    }
                    (3, Some((slot, _))) if room.by_nick(&nick).is_none() => {
                        let former = room.get(slot).unwrap().nick.to_string();
                        room.rename(slot, &nick);
                        model.values_mut().filter(|of| **of == former).for_each(|of| *of = nick.clone());
                    }
                    (4, Some((slot, _))) => {
                        let role = if resource == 0 { Role::Moderator } else { Role::Visitor };
                        room.set_rank(slot, Rank { role, ..RANK });
                    }
                    _ => {}
                }
                is_whole(&room);
            }
            let found: BTreeMap<String, String> = room
                .iter()
                .flat_map(|(_, one)| one.seats.iter().map(|seat| (format!("{}/{}", one.bare, seat.resource), one.nick.to_string())))
                .collect();
            prop_assert_eq!(found, model);
        }
    }

    #[test]
    fn one_user_may_have_two_nicks_and_one_nick_two_sessions() {
        let mut room = Occupants::default();
        let a = room.enter("a@x/1", "anna", RANK, presence());
        assert_eq!(room.enter("a@x/2", "anna", RANK, presence()), a);
        let other = room.enter("a@x/3", "annette", RANK, presence());
        assert_eq!((room.len(), room.seats(), room.of_user("a@x").len()), (2, 3, 2));
        assert!(room.leave(a, 0).is_none(), "another session has the nick");
        assert!(room.leave(a, 0).is_some());
        assert_eq!(room.by_session("a@x/3"), Some((other, 0)));
        assert_eq!(room.by_session("a@x/2"), None);
        is_whole(&room);
    }
}
