//! Roles and affiliations that occupants change, and the lists of them (XEP-0045 8, 9, 10.3 to
//! 10.8).

use minidom::Element as Tree;

use crate::kernel::Kernel;
use crate::limits::{ROOM_ADMIN_ITEMS_MAX, ROOM_LIST_MAX, ROOM_REASON_BYTES_MAX, beginning};
use crate::rooms::rank::{Rank, Role, may_affiliate, may_change_role};
use crate::rooms::room::Room;
use crate::rooms::visit::Removal;
use crate::store::room::{Affiliation, Standing};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::{self, bare_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;

pub(super) const NS_ADMIN: &str = "http://jabber.org/protocol/muc#admin";

/// One item of a request.
#[derive(Debug)]
pub(super) struct Change {
    target: Target,
    to: To,
    reason: Option<Box<str>>,
}

#[derive(Debug)]
enum Target {
    /// An occupant.
    Nick(Box<str>),
    /// A user, by bare JID.
    Jid(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum To {
    Role(Role),
    Affiliation(Affiliation),
}

/// A request of the namespace.
#[derive(Debug)]
pub(super) enum Request {
    /// A list of occupants with a role.
    Roles(Role),
    /// A list of users with an affiliation.
    Affiliations(Affiliation),
    /// Changes, which take effect all or not at all.
    Change(Vec<Change>),
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// `bad-request` for anything else, `jid-malformed` for an item without a valid JID.
    pub(super) fn of(query: &Tree, set: bool) -> Result<Request, Refusal> {
        let bad = || Refusal::from(StanzaCondition::BadRequest);
        let items: Vec<&Tree> = query.children().filter(|child| child.is("item", NS_ADMIN)).collect();
        if items.len() > ROOM_ADMIN_ITEMS_MAX {
            return Err(Limit::RoomItems.into());
        }
        let to_of = |item: &Tree| match (item.attr("role"), item.attr("affiliation")) {
            (Some(role), None) => Role::from_name(role).map(To::Role),
            (None, Some(affiliation)) => Affiliation::from_name(affiliation).map(To::Affiliation),
            _ => None,
        };
        if !set {
            let [item] = &*items else { return Err(bad()) };
            return match to_of(item).ok_or_else(bad)? {
                To::Role(Role::None) | To::Affiliation(Affiliation::None) => Err(bad()),
                To::Role(role) => Ok(Request::Roles(role)),
                To::Affiliation(affiliation) => Ok(Request::Affiliations(affiliation)),
            };
        }
        let changes = items.into_iter().map(|item| {
            let to = to_of(item).ok_or_else(bad)?;
            let target = match (to, item.attr("jid"), item.attr("nick")) {
                (To::Affiliation(_), Some(jid), _) => {
                    let jid = jid::normalise(jid).map_err(|_| Refusal::from(StanzaCondition::JidMalformed))?;
                    Target::Jid(bare_of(&jid).into())
                }
                (_, _, Some(nick)) => Target::Nick(nick.into()),
                _ => return Err(bad()),
            };
            let reason = item.get_child("reason", NS_ADMIN).map(Tree::text).filter(|reason| !reason.is_empty());
            let reason = reason.map(|reason| beginning(&reason, ROOM_REASON_BYTES_MAX).into());
            Ok(Change { target, to, reason })
        });
        let changes: Vec<Change> = changes.collect::<Result<_, Refusal>>()?;
        if changes.is_empty() { Err(bad()) } else { Ok(Request::Change(changes)) }
    }

    /// The users whose standings it needs.
    pub(super) fn users(&self) -> impl Iterator<Item = &str> {
        let changes: &[Change] = if let Request::Change(changes) = self { changes } else { &[] };
        changes.iter().filter_map(|change| match &change.target {
            Target::Jid(jid) => Some(&**jid),
            Target::Nick(_) => None,
        })
    }

    /// The nicks of occupants that it names.
    pub(super) fn nicks(&self) -> impl Iterator<Item = &str> {
        let changes: &[Change] = if let Request::Change(changes) = self { changes } else { &[] };
        changes.iter().filter_map(|change| match &change.target {
            Target::Nick(nick) => Some(&**nick),
            Target::Jid(_) => None,
        })
    }
}

/// A change that was checked, with what it finds.
struct Checked {
    bare: Box<str>,
    from: Standing,
    to: To,
    /// The occupant by whose nick it was asked for.
    slot: Option<u32>,
    reason: Option<Box<str>>,
}

impl Room {
    /// Whether somebody may see a list of affiliations (XEP-0045 9.5, 10.5, 10.8).
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn may_list(&self, full: &str, affiliation: Affiliation) -> Result<(), StanzaCondition> {
        let by = self.affiliation(bare_of(full));
        if by >= Affiliation::Admin {
            return Ok(());
        }
        let roles = self.record.config.member_list;
        let role = self.occupant(full).map_or(Role::None, |occupant| occupant.role);
        let shown = match role {
            Role::Moderator => roles.moderator,
            Role::Participant => roles.participant,
            Role::Visitor => roles.visitor,
            Role::None => false,
        };
        // In a room with real JIDs these lists show nothing that presence does not (XEP-0045 9.5).
        // Members of an open room may have registered themselves.
        let config = &self.record.config;
        let admitted = by == Affiliation::Member && config.members_only && config.shows_jids;
        let listed = affiliation == Affiliation::Member && (shown || admitted)
            || affiliation >= Affiliation::Admin && shown && config.shows_jids;
        if listed { Ok(()) } else { Err(StanzaCondition::Forbidden) }
    }

    /// Writes a list of users.
    ///
    /// # Errors
    /// If it is too long.
    pub(super) fn write_affiliations(
        &self,
        affiliation: Affiliation,
        users: &[(Box<str>, Standing)],
    ) -> Result<Vec<u8>, Refusal> {
        if users.len() > ROOM_LIST_MAX {
            return Err(Limit::RoomList.into());
        }
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS_ADMIN);
        for (bare, standing) in users {
            writer.open("item").attribute("affiliation", affiliation.name()).attribute("jid", bare);
            let occupant = self.occupants.of_user(bare).first().and_then(|slot| self.occupants.get(*slot));
            writer.attribute_if("nick", occupant.map(|one| &*one.nick).or(standing.nick.as_deref()));
            writer.attribute_if("role", occupant.map(|one| one.role.name()));
            if let Some(reason) = &standing.reason {
                writer.leaf("reason", reason);
            }
            writer.close();
        }
        writer.close();
        Ok(out)
    }

    /// The list of occupants with a role (XEP-0045 8.5, 9.8).
    ///
    /// # Errors
    /// `forbidden` for everybody but moderators, or admins for the list of moderators.
    pub(super) fn roles(&self, full: &str, role: Role) -> Result<Vec<u8>, Refusal> {
        let by = self.affiliation(bare_of(full));
        let is_moderator = self.occupant(full).is_some_and(|occupant| occupant.role == Role::Moderator);
        if by < Affiliation::Admin && !is_moderator {
            return Err(StanzaCondition::Forbidden.into());
        }
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attribute("xmlns", NS_ADMIN);
        for (_, one) in self.occupants.iter().filter(|(_, one)| one.role == role).take(ROOM_LIST_MAX) {
            let seat = one.seats.last().map_or("", |seat| &seat.resource);
            writer.open("item").attribute("affiliation", one.affiliation.name()).attribute("role", role.name());
            writer.attribute("nick", &one.nick).attribute("jid", &format!("{}/{seat}", one.bare)).close();
        }
        writer.close();
        Ok(out)
    }

    /// Carries out changes, all or none.
    ///
    /// # Errors
    /// The reason to refuse all.
    pub(super) fn change(&mut self, kernel: &mut Kernel, full: &str, changes: Vec<Change>) -> Result<(), Refusal> {
        let by = self.occupant(full).map(|occupant| (occupant.nick.clone(), occupant.rank()));
        // Owners and admins may manage affiliations without entering.
        let absent = || Rank { affiliation: self.affiliation(bare_of(full)), role: Role::None };
        let rank = by.as_ref().map_or_else(absent, |(_, rank)| *rank);
        let checked = self.check(full, rank, changes)?;
        let actor = by.map(|(nick, _)| nick);
        for change in checked {
            match change.to {
                To::Role(role) => self.change_role(kernel, &change, role, actor.as_deref()),
                To::Affiliation(to) => {
                    let Checked { bare, from, reason, .. } = change;
                    let standing = Standing { affiliation: to, reason, self_registered: false, ..from };
                    self.affiliate(kernel, &bare, standing, actor.as_deref());
                }
            }
        }
        Ok(())
    }

    fn check(&self, full: &str, by: Rank, changes: Vec<Change>) -> Result<Vec<Checked>, Refusal> {
        let mut owners = i64::from(self.record.owners);
        let mut all = Vec::with_capacity(changes.len());
        for Change { target, to, reason } in changes {
            let slot = match &target {
                Target::Nick(nick) => Some(self.occupants.by_nick(nick).ok_or(StanzaCondition::ItemNotFound)?),
                Target::Jid(_) => None,
            };
            let occupant = slot.and_then(|slot| self.occupants.get(slot));
            let bare: Box<str> = match (&target, occupant) {
                (Target::Jid(jid), _) => jid.clone(),
                (Target::Nick(_), Some(occupant)) => occupant.bare.clone(),
                (Target::Nick(_), None) => return Err(StanzaCondition::ItemNotFound.into()),
            };
            let from = match occupant {
                Some(occupant) => Standing { affiliation: occupant.affiliation, ..self.standing(&bare)? },
                None => Standing { affiliation: self.affiliation(&bare), ..self.standing(&bare)? },
            };
            match to {
                To::Role(role) => {
                    let of = occupant.map(|one| one.rank()).ok_or(StanzaCondition::BadRequest)?;
                    if of.role != role {
                        may_change_role(by, of, role)?;
                    }
                }
                To::Affiliation(affiliation) => {
                    may_affiliate(by.affiliation, from.affiliation, affiliation)?;
                    // XEP-0045 9.1: nobody bans themself.
                    if affiliation == Affiliation::Outcast && *bare == *bare_of(full) {
                        return Err(StanzaCondition::Conflict.into());
                    }
                    owners += i64::from(affiliation == Affiliation::Owner)
                        - i64::from(from.affiliation == Affiliation::Owner);
                }
            }
            all.push(Checked { bare, from, to, slot, reason });
        }
        // XEP-0045 10.4: a room has an owner.
        if owners < 1 && self.record.owners > 0 {
            return Err(StanzaCondition::Conflict.into());
        }
        Ok(all)
    }

    fn change_role(&mut self, kernel: &mut Kernel, change: &Checked, role: Role, actor: Option<&str>) {
        let Some(slot) = change.slot else { return };
        let Some(rank) = self.occupants.get(slot).map(|one| one.rank()) else { return };
        match role {
            Role::None => {
                let removal = Removal {
                    affiliation: rank.affiliation,
                    statuses: &[307],
                    actor,
                    reason: change.reason.as_deref(),
                    destroy: b"",
                };
                self.remove(kernel, slot, &removal);
            }
            _ => self.set_rank(kernel, slot, Rank { role, ..rank }, actor, change.reason.as_deref()),
        }
    }

    /// Gives a user a standing, and occupants of that user the role that follows (XEP-0045 9, 10).
    pub(super) fn affiliate(&mut self, kernel: &mut Kernel, bare: &str, mut standing: Standing, actor: Option<&str>) {
        let (to, reason) = (standing.affiliation, standing.reason.clone());
        if to < Affiliation::Member {
            // The registration ends with the membership.
            standing.nick = None;
            self.drop_hats(kernel, bare);
        }
        self.put_standing(kernel, bare, standing);
        if to != Affiliation::None {
            self.drop_request(kernel, bare);
        }
        let slots =
            if to == Affiliation::Outcast { self.banned_by(bare) } else { self.occupants.of_user(bare).to_vec() };
        for slot in slots {
            let Some(rank) = self.occupants.get(slot).map(|one| one.rank()) else { continue };
            let reason = reason.as_deref();
            let removed = match to {
                Affiliation::Outcast => Some(&[301][..]),
                Affiliation::None if self.record.config.members_only => Some(&[321][..]),
                _ => None,
            };
            if let Some(statuses) = removed {
                self.remove(kernel, slot, &Removal { affiliation: to, statuses, actor, reason, destroy: b"" });
                continue;
            }
            let initial = Role::initial(to, &self.record.config);
            let role = match (rank.affiliation >= Affiliation::Admin, to >= Affiliation::Admin) {
                // XEP-0045 10.7: a former admin does not stay a moderator.
                (_, true) | (true, false) => initial,
                (false, false) if rank.role == Role::Moderator => Role::Moderator,
                (false, false) => rank.role.max(initial),
            };
            self.set_rank(kernel, slot, Rank { affiliation: to, role }, actor, reason);
        }
    }
}
