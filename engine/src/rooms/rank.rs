//! Who may change whose role or affiliation (XEP-0045 5, 8, 9, 10), as tables without a room.

use crate::store::room::{Affiliation, Config};
use crate::wire::error::StanzaCondition;

/// What an occupant may do for the duration of the visit (XEP-0045 5.1), in the order of power.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Role {
    /// Not in the room.
    None,
    /// Without voice.
    Visitor,
    /// With voice.
    Participant,
    /// May also change the roles of others.
    Moderator,
}

impl Role {
    /// Its name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Visitor => "visitor",
            Role::Participant => "participant",
            Role::Moderator => "moderator",
        }
    }

    /// The role with this name.
    pub(super) fn from_name(name: &str) -> Option<Role> {
        [Role::None, Role::Visitor, Role::Participant, Role::Moderator].into_iter().find(|role| role.name() == name)
    }

    /// The role of a newcomer (XEP-0045 5.1.2).
    pub(super) fn initial(affiliation: Affiliation, config: &Config) -> Role {
        match affiliation {
            Affiliation::Owner | Affiliation::Admin => Role::Moderator,
            Affiliation::Member => Role::Participant,
            Affiliation::None if config.moderated => Role::Visitor,
            Affiliation::None => Role::Participant,
            Affiliation::Outcast => Role::None,
        }
    }
}

/// Whether somebody may change an affiliation. The last owner is protected elsewhere.
///
/// # Errors
/// `forbidden` for everybody below admins, `not-allowed` for admins who touch admins or owners
/// (XEP-0045 9.1 to 9.9, 10.3 to 10.8).
pub(super) fn may_affiliate(by: Affiliation, from: Affiliation, to: Affiliation) -> Result<(), StanzaCondition> {
    match by {
        Affiliation::Owner => Ok(()),
        Affiliation::Admin if from < Affiliation::Admin && to < Affiliation::Admin => Ok(()),
        Affiliation::Admin => Err(StanzaCondition::NotAllowed),
        Affiliation::Member | Affiliation::None | Affiliation::Outcast => Err(StanzaCondition::Forbidden),
    }
}

/// The affiliation and the role of an occupant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rank {
    pub(super) affiliation: Affiliation,
    pub(super) role: Role,
}

/// Whether an occupant may give another one a role.
///
/// # Errors
/// `forbidden` without the power to change roles, `not-allowed` for a target that is protected by
/// its affiliation (XEP-0045 8.2 to 8.4, 9.6, 9.7).
pub(super) fn may_change_role(by: Rank, of: Rank, to: Role) -> Result<(), StanzaCondition> {
    if by.role != Role::Moderator {
        return Err(StanzaCondition::Forbidden);
    }
    // XEP-0045 9.6, 9.7: only admins and owners grant and revoke the role of a moderator.
    if (to == Role::Moderator || (of.role == Role::Moderator && to != Role::None))
        && by.affiliation < Affiliation::Admin
    {
        return Err(match of.affiliation >= Affiliation::Admin {
            true => StanzaCondition::NotAllowed,
            false => StanzaCondition::Forbidden,
        });
    }
    // XEP-0045 8.2, 8.4, 9.7: admins and owners are moderators for as long as they are in the room.
    // Only an owner may kick one.
    if of.affiliation >= Affiliation::Admin && to < of.role {
        let kicks = to == Role::None && by.affiliation == Affiliation::Owner && of.affiliation == Affiliation::Admin;
        return if kicks { Ok(()) } else { Err(StanzaCondition::NotAllowed) };
    }
    if of.affiliation > by.affiliation && by.affiliation < Affiliation::Admin && to == Role::None {
        return Err(StanzaCondition::NotAllowed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use StanzaCondition::{Forbidden, NotAllowed};

    #[test]
    fn affiliations_change_by_xep_0045_5_2_2() {
        use Affiliation::{Admin, Member, None, Outcast, Owner};
        for (by, from, to, expected) in [
            (Owner, Admin, None, Ok(())),
            (Owner, None, Owner, Ok(())),
            (Owner, Owner, Admin, Ok(())),
            (Admin, None, Outcast, Ok(())),
            (Admin, Outcast, None, Ok(())),
            (Admin, Member, None, Ok(())),
            (Admin, Admin, None, Err(NotAllowed)),
            (Admin, Owner, Outcast, Err(NotAllowed)),
            (Admin, Member, Admin, Err(NotAllowed)),
            (Member, None, Member, Err(Forbidden)),
            (None, None, Outcast, Err(Forbidden)),
        ] {
            assert_eq!(may_affiliate(by, from, to), expected, "{by:?}: {from:?} to {to:?}");
        }
    }

    #[test]
    fn roles_change_by_xep_0045_5_1_3() {
        use Affiliation::{Admin, Member, None, Owner};
        use Role::{Moderator, Participant, Visitor};
        let rank = |affiliation, role| Rank { affiliation, role };
        let owner = rank(Owner, Moderator);
        let (admin, moderator) = (rank(Admin, Moderator), rank(None, Moderator));
        for (by, of, to, expected) in [
            (moderator, rank(None, Participant), Visitor, Ok(())),
            (moderator, rank(None, Visitor), Participant, Ok(())),
            (moderator, rank(None, Participant), Role::None, Ok(())),
            (moderator, rank(Member, Participant), Role::None, Err(NotAllowed)),
            (moderator, admin, Role::None, Err(NotAllowed)),
            (moderator, admin, Visitor, Err(NotAllowed)),
            (moderator, rank(None, Participant), Moderator, Err(Forbidden)),
            (admin, rank(None, Participant), Moderator, Ok(())),
            (admin, rank(Member, Moderator), Participant, Ok(())),
            (admin, admin, Participant, Err(NotAllowed)),
            (admin, owner, Role::None, Err(NotAllowed)),
            (owner, admin, Role::None, Ok(())),
            (owner, admin, Participant, Err(NotAllowed)),
            (owner, owner, Role::None, Err(NotAllowed)),
            (rank(Member, Participant), rank(None, Participant), Visitor, Err(Forbidden)),
        ] {
            assert_eq!(may_change_role(by, of, to), expected, "{by:?}: {of:?} to {to:?}");
        }
    }

    #[test]
    fn newcomers_have_the_role_of_xep_0045_5_1_2() {
        let (open, moderated) = (Config::default(), Config { moderated: true, ..Config::default() });
        for (affiliation, in_open, in_moderated) in [
            (Affiliation::Owner, Role::Moderator, Role::Moderator),
            (Affiliation::Admin, Role::Moderator, Role::Moderator),
            (Affiliation::Member, Role::Participant, Role::Participant),
            (Affiliation::None, Role::Participant, Role::Visitor),
            (Affiliation::Outcast, Role::None, Role::None),
        ] {
            assert_eq!(Role::initial(affiliation, &open), in_open);
            assert_eq!(Role::initial(affiliation, &moderated), in_moderated);
        }
    }
}
