//! Rows of the invitations' table: who may come onto the server by which token, and accounts that wait for approval.
//!
//! An invitation is kept by the actor whose home decides of it: who invites, or, if it is for one name, the account of that name that is
//! to be made. Those of the operator for any name are kept by the domain. Of a token only a digest is kept: who reads the store cannot
//! come in by it.
//!
//! ```text
//! 0 | id     an invitation, by the first 16 bytes of the SHA-256 of its token
//! 1 | jid    an account that waits for approval, by its bare JID; the actor is the domain
//! ```
//!
//! An invitation to a name is kept by that name, and noted at the home of who invites ([`Invitation::note`]), where it is counted.

use super::account::Incarnation;
use super::hash::HashKind;
use super::{Batch, Query, Table};
use crate::limits::{INVITATION_CLAIMS_MAX, INVITATION_JOINED_MAX, INVITATION_KEPT_S};

pub(super) const INVITATION: u8 = 0;
pub(super) const WAITING: u8 = 1;
const FORMAT: u8 = 1;

/// Bytes of an invitation's id.
pub const ID_BYTES: usize = 16;

/// Which invitation of an actor: a digest of its token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct InvitationId(pub [u8; ID_BYTES]);

impl InvitationId {
    /// That of a token, as it is written.
    pub fn of(token: &str) -> InvitationId {
        let digest = HashKind::Sha256.digest(&[token.as_bytes()]);
        InvitationId(*digest.as_bytes().first_chunk().expect("a digest has 32 bytes"))
    }

    /// That of a row, by its sort key.
    pub fn of_sort(sort: &[u8]) -> Option<InvitationId> {
        let id = sort.strip_prefix(&[INVITATION])?;
        Some(InvitationId(id.try_into().ok()?))
    }

    fn sort(self) -> Box<[u8]> {
        [&[INVITATION][..], &self.0].concat().into()
    }
}

impl std::fmt::Display for InvitationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A use that has begun: it is over when the home of the account has said whether it was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The bare JID of the account.
    pub account: Box<str>,
    /// Which account of that name it is to be.
    pub incarnation: Incarnation,
    /// The life of the shard that has begun it: one of another life was broken off, and may have come to an end or not.
    pub life: u64,
    /// When it began, seconds since the Unix epoch.
    pub at_s: u64,
}

/// An invitation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Invitation {
    /// An account may be registered by it (XEP-0445).
    pub registers: bool,
    /// Who comes by it and the inviter become contacts (XEP-0379).
    pub befriends: bool,
    /// It is for the actor's own name, which is reserved for as long.
    pub is_named: bool,
    /// It was made by somebody who decides of accounts: one that is registered by it waits for no approval.
    pub is_trusted: bool,
    /// It was revoked.
    pub is_revoked: bool,
    /// Uses that it was made for.
    pub uses: u32,
    /// Uses that are left.
    pub left: u32,
    /// When it was made, seconds since the Unix epoch.
    pub made_s: u64,
    /// When it ends, in the same way.
    pub until_s: u64,
    /// Bare JID of who invites; empty if that is the operator.
    pub inviter: Box<str>,
    /// Uses that have begun.
    pub claims: Vec<Claim>,
    /// The first that came by it, bare JIDs; at most [`INVITATION_JOINED_MAX`].
    pub joined: Vec<Box<str>>,
}

const REGISTERS: u8 = 1;
const BEFRIENDS: u8 = 2;
const NAMED: u8 = 4;
const TRUSTED: u8 = 8;
const REVOKED: u8 = 16;

impl Invitation {
    /// Whether it can be taken up at this time, seconds since the Unix epoch.
    pub fn is_open(&self, now_s: u64) -> bool {
        self.left > 0 && !self.is_revoked && now_s < self.until_s
    }

    /// Whether its row may go: also who has begun to register by it in time has come to an end (XEP-0445 4).
    pub fn is_over(&self, now_s: u64) -> bool {
        now_s >= self.until_s.saturating_add(INVITATION_KEPT_S)
    }

    /// What is noted at the home of an inviter when it invites to an account's name for so many seconds, and the row's id: nobody comes in
    /// by it, and it counts among what the inviter has made.
    pub fn note(inviter: &str, account: &str, now_s: u64, life_s: u64) -> (InvitationId, Invitation) {
        let until_s = now_s.saturating_add(life_s);
        let joined = vec![account.into()];
        let note = Invitation { made_s: now_s, until_s, inviter: inviter.into(), joined, ..Invitation::default() };
        // No token is written like a JID.
        (InvitationId::of(account), note)
    }

    /// Whether it is such a note: an invitation can be used once at least.
    pub fn is_note(&self) -> bool {
        self.uses == 0
    }

    /// Takes a use for an account.
    pub fn claim(&mut self, claim: Claim) {
        self.left -= 1;
        self.claims.push(claim);
    }

    /// A use that had begun is over; returns whether it had. What has not led to an account can be used again.
    pub fn settle(&mut self, account: &str, incarnation: Incarnation, made: bool) -> bool {
        let is_it = |claim: &Claim| claim.incarnation == incarnation && *claim.account == *account;
        let Some(at) = self.claims.iter().position(is_it) else { return false };
        self.claims.remove(at);
        match made {
            true => self.join(account),
            false => self.left += 1,
        }
        true
    }

    /// Somebody has come by it.
    pub fn join(&mut self, jid: &str) {
        if self.joined.len() < INVITATION_JOINED_MAX {
            self.joined.push(jid.into());
        }
    }

    fn encode(&self) -> Vec<u8> {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags = flag(self.registers, REGISTERS)
            | flag(self.befriends, BEFRIENDS)
            | flag(self.is_named, NAMED)
            | flag(self.is_trusted, TRUSTED)
            | flag(self.is_revoked, REVOKED);
        let mut out = vec![FORMAT, flags];
        out.extend_from_slice(&self.uses.to_be_bytes());
        out.extend_from_slice(&self.left.to_be_bytes());
        out.extend_from_slice(&self.made_s.to_be_bytes());
        out.extend_from_slice(&self.until_s.to_be_bytes());
        put_text(&mut out, &self.inviter);
        out.push(self.claims.len() as u8);
        for claim in &self.claims {
            out.extend_from_slice(&claim.incarnation.to_bytes());
            out.extend_from_slice(&claim.life.to_be_bytes());
            out.extend_from_slice(&claim.at_s.to_be_bytes());
            put_text(&mut out, &claim.account);
        }
        out.push(self.joined.len() as u8);
        self.joined.iter().for_each(|jid| put_text(&mut out, jid));
        out
    }

    /// Reads a row; `None` if it is none of this form.
    pub fn decode(row: &[u8]) -> Option<Invitation> {
        let mut rest = row.strip_prefix(&[FORMAT])?;
        let [flags] = take(&mut rest)?;
        if flags & !(REGISTERS | BEFRIENDS | NAMED | TRUSTED | REVOKED) != 0 {
            return None;
        }
        let (uses, left) = (u32::from_be_bytes(take(&mut rest)?), u32::from_be_bytes(take(&mut rest)?));
        let (made_s, until_s) = (u64::from_be_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
        let inviter = take_text(&mut rest)?;
        let [claims] = take(&mut rest)?;
        let claim = |rest: &mut &[u8]| {
            let incarnation = Incarnation::from_bytes(take(rest)?);
            let (life, at_s) = (u64::from_be_bytes(take(rest)?), u64::from_be_bytes(take(rest)?));
            Some(Claim { account: take_text(rest)?, incarnation, life, at_s })
        };
        let claims = (0..claims).map(|_| claim(&mut rest)).collect::<Option<Vec<_>>>()?;
        let [joined] = take(&mut rest)?;
        let joined = (0..joined).map(|_| take_text(&mut rest)).collect::<Option<Vec<_>>>()?;
        let bounded = claims.len() <= INVITATION_CLAIMS_MAX && joined.len() <= INVITATION_JOINED_MAX;
        (rest.is_empty() && bounded && left <= uses).then_some(Invitation {
            registers: flags & REGISTERS != 0,
            befriends: flags & BEFRIENDS != 0,
            is_named: flags & NAMED != 0,
            is_trusted: flags & TRUSTED != 0,
            is_revoked: flags & REVOKED != 0,
            uses,
            left,
            made_s,
            until_s,
            inviter,
            claims,
            joined,
        })
    }

    /// Writes it.
    pub fn put(&self, batch: &mut Batch, actor: &str, id: InvitationId) {
        batch.put(Table::Invitations, actor.as_bytes(), &id.sort(), &[&self.encode()]);
    }
}

/// A token that was shown, and lets its connection register (XEP-0445 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invited {
    /// The actor that keeps the invitation: a bare JID or a domain.
    pub actor: Box<str>,
    /// Which of the actor's.
    pub id: InvitationId,
    /// Only the actor's own name may be registered.
    pub is_named: bool,
    /// Who has to be there for it to be good; empty for nobody beside the actor.
    pub inviter: Box<str>,
}

/// An invitation that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvitation {
    /// An account may be registered by it.
    pub registers: bool,
    /// Who comes by it becomes a contact of the inviter.
    pub befriends: bool,
    /// It is for the name of the actor, which must not be there yet.
    pub is_named: bool,
    /// An account that is registered by it waits for no approval.
    pub is_trusted: bool,
    /// How often it can be used: 1 to [`INVITATION_USES_MAX`](crate::limits::INVITATION_USES_MAX).
    pub uses: u32,
    /// For how long, seconds; at most [`INVITATION_LIFE_S_MAX`](crate::limits::INVITATION_LIFE_S_MAX).
    pub life_s: u64,
    /// Bare JID of who invites; empty for the operator.
    pub inviter: Box<str>,
    /// Invitations that the actor may have; 0 for any number.
    pub most: usize,
}

impl NewInvitation {
    /// The invitation, made now: seconds since the Unix epoch.
    pub fn at(&self, now_s: u64) -> Invitation {
        Invitation {
            registers: self.registers,
            befriends: self.befriends,
            is_named: self.is_named,
            is_trusted: self.is_trusted,
            uses: self.uses,
            left: self.uses,
            made_s: now_s,
            until_s: now_s.saturating_add(self.life_s),
            inviter: self.inviter.clone(),
            ..Invitation::default()
        }
    }
}

/// An account that waits for approval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applicant {
    /// Which account of its name it is.
    pub incarnation: Incarnation,
    /// Since when it waits, seconds since the Unix epoch.
    pub since_s: u64,
    /// From where it was registered: an address.
    pub address: Box<str>,
}

impl Applicant {
    /// Reads a row; `None` if it is none of this form.
    pub fn decode(row: &[u8]) -> Option<Applicant> {
        let mut rest = row.strip_prefix(&[FORMAT])?;
        let (incarnation, since_s) = (Incarnation::from_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
        let address = take_text(&mut rest)?;
        rest.is_empty().then_some(Applicant { incarnation, since_s, address })
    }

    /// Writes it.
    pub fn put(&self, batch: &mut Batch, domain: &str, account: &str) {
        let mut row = vec![FORMAT];
        row.extend_from_slice(&self.incarnation.to_bytes());
        row.extend_from_slice(&self.since_s.to_be_bytes());
        put_text(&mut row, &self.address);
        batch.put(Table::Invitations, domain.as_bytes(), &applicant_sort(account), &[&row]);
    }
}

fn applicant_sort(account: &str) -> Box<[u8]> {
    [&[WAITING], account.as_bytes()].concat().into()
}

/// The account of an applicant's row, by its sort key.
pub fn applicant_of_sort(sort: &[u8]) -> Option<&str> {
    std::str::from_utf8(sort.strip_prefix(&[WAITING])?).ok()
}

/// Removes an invitation.
pub fn delete(batch: &mut Batch, actor: &str, id: InvitationId) {
    batch.delete(Table::Invitations, actor.as_bytes(), &id.sort());
}

/// Removes an applicant.
pub fn delete_applicant(batch: &mut Batch, domain: &str, account: &str) {
    batch.delete(Table::Invitations, domain.as_bytes(), &applicant_sort(account));
}

/// The question for one invitation.
pub fn get(actor: &str, id: InvitationId) -> Query {
    Query::Get { table: Table::Invitations, actor: actor.as_bytes().into(), sort: id.sort() }
}

/// The question for one applicant.
pub fn get_applicant(domain: &str, account: &str) -> Query {
    Query::Get { table: Table::Invitations, actor: domain.as_bytes().into(), sort: applicant_sort(account) }
}

fn range(actor: &str, from: Box<[u8]>, until: Option<Box<[u8]>>, rows_max: u32) -> Query {
    let actor = actor.as_bytes().into();
    Query::Range { table: Table::Invitations, actor, from, until, reverse: false, rows_max, bytes_max: u32::MAX }
}

/// The question for an actor's invitations.
pub fn all(actor: &str, rows_max: u32) -> Query {
    range(actor, Box::new([INVITATION]), Some(Box::new([WAITING])), rows_max)
}

/// The question for all rows of an actor.
pub fn everything(actor: &str, rows_max: u32) -> Query {
    range(actor, Box::new([INVITATION]), None, rows_max)
}

/// The question for an actor's invitations behind one of them.
pub fn all_behind(actor: &str, id: Option<InvitationId>, rows_max: u32) -> Query {
    let from = match id {
        // The least key that is behind it.
        Some(id) => [&*id.sort(), &[0]].concat().into(),
        None => Box::from([INVITATION]),
    };
    range(actor, from, Some(Box::new([WAITING])), rows_max)
}

/// The question for a domain's applicants.
pub fn applicants(domain: &str, rows_max: u32) -> Query {
    range(domain, Box::new([WAITING]), Some(Box::new([WAITING + 1])), rows_max)
}

/// Whether a row is one that this server writes.
pub fn is_whole(sort: &[u8], value: &[u8]) -> bool {
    match sort.first() {
        Some(&INVITATION) => InvitationId::of_sort(sort).is_some() && Invitation::decode(value).is_some(),
        Some(&WAITING) => applicant_of_sort(sort).is_some() && Applicant::decode(value).is_some(),
        _ => false,
    }
}

/// Appends a text with its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Takes bytes off the front.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

/// Takes a text off the front, as [`put_text`] has written it.
pub(super) fn take_text(rest: &mut &[u8]) -> Option<Box<str>> {
    let len = usize::from(u16::from_be_bytes(take(rest)?));
    let (text, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(std::str::from_utf8(text).ok()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;
    use proptest::prelude::*;

    fn invitation() -> Invitation {
        Invitation {
            registers: true,
            is_named: true,
            uses: 3,
            left: 2,
            made_s: 5,
            until_s: 100,
            inviter: "romeo@x".into(),
            joined: vec!["a@x".into()],
            ..Invitation::default()
        }
    }

    fn claim(account: &str, number: u64) -> Claim {
        Claim { account: account.into(), incarnation: Incarnation::drawn(number), life: 9, at_s: 10 }
    }

    #[test]
    fn rows_read_back_whole_or_not_at_all() {
        let mut invitation = invitation();
        invitation.claim(claim("b@x", 7));
        let applicant = Applicant { incarnation: Incarnation::drawn(1), since_s: 2, address: "192.0.2.1".into() };
        let mut batch = Batch::new();
        let id = InvitationId::of("token");
        invitation.put(&mut batch, "romeo@x", id);
        applicant.put(&mut batch, "x", "b@x");
        let rows: Vec<_> = batch.iter().collect();
        let [OpView::Put { sort, value, .. }, OpView::Put { sort: other, value: waits, .. }] = rows[..] else {
            panic!("two rows");
        };
        assert_eq!((InvitationId::of_sort(sort), applicant_of_sort(other)), (Some(id), Some("b@x")));
        assert_eq!((InvitationId::of_sort(other), applicant_of_sort(sort)), (None, None));
        assert_eq!((Invitation::decode(value), Applicant::decode(waits)), (Some(invitation), Some(applicant)));
        for (sort, value) in [(sort, value), (other, waits)] {
            assert!(is_whole(sort, value));
            (0..value.len()).for_each(|end| assert!(!is_whole(sort, &value[..end]), "cut at {end}"));
            assert!(!is_whole(sort, &[value, &[0]].concat()));
        }
        // Whoever has the rows has no token.
        assert!(!value.windows(5).any(|window| window == b"token"));
    }

    #[test]
    fn by_what_is_noted_of_a_name_nobody_comes_in() {
        let (id, note) = Invitation::note("romeo@x", "b@x", 5, 10);
        assert!(note.is_note() && !note.is_open(6) && !note.registers && !note.befriends);
        assert_eq!((note.until_s, id), (15, InvitationId::of("b@x")));
        assert!(!invitation().is_note());
        let mut batch = Batch::new();
        note.put(&mut batch, "romeo@x", id);
        let Some(OpView::Put { sort, value, .. }) = batch.iter().next() else { panic!("a row") };
        assert!(is_whole(sort, value));
    }

    #[test]
    fn a_use_is_taken_once_and_comes_back_once_if_nothing_came_of_it() {
        let mut invitation = invitation();
        invitation.claim(claim("b@x", 7));
        invitation.claim(claim("c@x", 8));
        assert!(!invitation.is_open(50), "all are taken");
        assert!(!invitation.settle("b@x", Incarnation::drawn(8), false), "another account's");
        assert!(invitation.settle("b@x", Incarnation::drawn(7), false));
        assert!(!invitation.settle("b@x", Incarnation::drawn(7), false), "it was settled");
        assert!(invitation.settle("c@x", Incarnation::drawn(8), true));
        assert_eq!((invitation.left, &*invitation.joined[1]), (1, "c@x"));
        assert!(invitation.is_open(99) && !invitation.is_open(100));
        assert!(!invitation.is_over(100) && invitation.is_over(100 + INVITATION_KEPT_S));
    }

    proptest! {
        #[test]
        fn no_row_panics(mut row in proptest::collection::vec(any::<u8>(), 0..120)) {
            for first in [0, FORMAT] {
                if let Some(format) = row.first_mut() {
                    *format = first;
                }
                if let Some(read) = Invitation::decode(&row) {
                    prop_assert_eq!(read.encode(), row.clone());
                }
                let _ = Applicant::decode(&row);
            }
        }
    }
}
