//! Rows of the invitations' table: which tokens admit new users to the server, and which accounts
//! wait for approval.
//!
//! An invitation is stored with the actor whose home decides on it: the inviter, or, if it is for
//! one name, the account of that name that will be created. The operator's invitations for any name
//! are stored with the domain. Only a digest of a token is stored: a reader of the store cannot use
//! the invitation.
//!
//! ```text
//! 0 | id     an invitation, by the first 16 bytes of the SHA-256 of its token
//! 1 | jid    an account that waits for approval, by its bare JID; the actor is the domain
//! ```
//!
//! An invitation for a name is stored with that name, and noted at the home of the inviter
//! ([`Invitation::note`]), where it is counted.

use super::account::Incarnation;
use super::hash::HashKind;
use super::{Batch, Query, Table};
use crate::limits::{INVITATION_CLAIMS_MAX, INVITATION_JOINED_MAX, INVITATION_KEPT_S};

pub(super) const INVITATION: u8 = 0;
pub(super) const WAITING: u8 = 1;
const FORMAT: u8 = 1;

/// Bytes of an invitation's id.
pub const ID_BYTES: usize = 16;

/// Identifies an invitation of an actor: a digest of its token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub struct InvitationId(pub [u8; ID_BYTES]);

impl InvitationId {
    /// The id of a token in its written form.
    pub fn of(token: &str) -> InvitationId {
        let digest = HashKind::Sha256.digest(&[token.as_bytes()]);
        InvitationId(*digest.as_bytes().first_chunk().expect("a digest has 32 bytes"))
    }

    /// Reads the id from the sort key of a row.
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

/// A use that has begun. It ends when the home of the account has reported whether the account was
/// created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The bare JID of the account.
    pub account: Box<str>,
    /// The incarnation of the account to be created.
    pub incarnation: Incarnation,
    /// The life of the shard that started it. A claim of another life was interrupted, and may or
    /// may not have completed.
    pub life: u64,
    /// When it began, seconds since the Unix epoch.
    pub at_s: u64,
}

/// An invitation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Invitation {
    /// Whether an account may be registered with it (XEP-0445).
    pub registers: bool,
    /// Whether the new user and the inviter become contacts (XEP-0379).
    pub befriends: bool,
    /// Whether it is for the actor's own name, which is reserved for its duration.
    pub is_named: bool,
    /// Whether its maker may approve accounts: an account registered with it needs no approval.
    pub is_trusted: bool,
    /// Whether it was revoked.
    pub is_revoked: bool,
    /// Number of uses that it was created with.
    pub uses: u32,
    /// Number of uses left.
    pub left: u32,
    /// When it was created, seconds since the Unix epoch.
    pub made_s: u64,
    /// When it expires, seconds since the Unix epoch.
    pub until_s: u64,
    /// Bare JID of the inviter; empty for the operator.
    pub inviter: Box<str>,
    /// Uses that have begun.
    pub claims: Vec<Claim>,
    /// Bare JIDs of the first users that joined with it; at most [`INVITATION_JOINED_MAX`].
    pub joined: Vec<Box<str>>,
}

const REGISTERS: u8 = 1;
const BEFRIENDS: u8 = 2;
const NAMED: u8 = 4;
const TRUSTED: u8 = 8;
const REVOKED: u8 = 16;

impl Invitation {
    /// Whether it can be used at this time, seconds since the Unix epoch.
    pub fn is_open(&self, now_s: u64) -> bool {
        self.left > 0 && !self.is_revoked && now_s < self.until_s
    }

    /// Whether its row may be removed: it is over, and registrations that began in time have ended
    /// (XEP-0445 4).
    pub fn is_over(&self, now_s: u64) -> bool {
        now_s >= self.until_s.saturating_add(INVITATION_KEPT_S)
    }

    /// The note, and its row's id, that is stored at the home of an inviter who invites to an
    /// account's name for this number of seconds. It admits no one, and counts among the inviter's
    /// invitations.
    pub fn note(inviter: &str, account: &str, now_s: u64, life_s: u64) -> (InvitationId, Invitation) {
        let until_s = now_s.saturating_add(life_s);
        let joined = vec![account.into()];
        let note = Invitation { made_s: now_s, until_s, inviter: inviter.into(), joined, ..Invitation::default() };
        // No token has the form of a JID.
        (InvitationId::of(account), note)
    }

    /// Whether it is such a note: an invitation can be used at least once.
    pub fn is_note(&self) -> bool {
        self.uses == 0
    }

    /// Takes a use for an account.
    pub fn claim(&mut self, claim: Claim) {
        self.left -= 1;
        self.claims.push(claim);
    }

    /// Ends a use; returns whether it had begun. A use that did not lead to an account becomes
    /// available again.
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

    /// Records a user that joined with it.
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

    /// Reads a row; `None` if it has another format.
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

    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, actor: &str, id: InvitationId) {
        batch.put(Table::Invitations, actor.as_bytes(), &id.sort(), &[&self.encode()]);
    }
}

/// A token that was presented, and lets its connection register (XEP-0445 4).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Invited {
    /// The actor that the invitation is stored with: a bare JID or a domain.
    pub actor: Box<str>,
    /// The invitation's id.
    pub id: InvitationId,
    /// Whether only the actor's own name may be registered.
    pub is_named: bool,
    /// The account that must exist for it to be valid; empty if only the actor's must.
    pub inviter: Box<str>,
}

/// An invitation to be created.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NewInvitation {
    /// Whether an account may be registered with it.
    pub registers: bool,
    /// Whether the new user becomes a contact of the inviter.
    pub befriends: bool,
    /// Whether it is for the name of the actor, which must not exist yet.
    pub is_named: bool,
    /// Whether an account registered with it needs no approval.
    pub is_trusted: bool,
    /// Number of uses: 1 to [`INVITATION_USES_MAX`](crate::limits::INVITATION_USES_MAX).
    pub uses: u32,
    /// Lifetime in seconds; at most
    /// [`INVITATION_LIFE_S_MAX`](crate::limits::INVITATION_LIFE_S_MAX).
    pub life_s: u64,
    /// Bare JID of the inviter; empty for the operator.
    pub inviter: Box<str>,
    /// Maximum number of invitations of the actor; 0 for no limit.
    pub most: usize,
}

impl NewInvitation {
    /// The invitation, created at `now_s`, seconds since the Unix epoch.
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
    /// The account's incarnation.
    pub incarnation: Incarnation,
    /// When it began to wait, seconds since the Unix epoch.
    pub since_s: u64,
    /// The network address that registered it.
    pub address: Box<str>,
}

impl Applicant {
    /// Reads a row; `None` if it has another format.
    pub fn decode(row: &[u8]) -> Option<Applicant> {
        let mut rest = row.strip_prefix(&[FORMAT])?;
        let (incarnation, since_s) = (Incarnation::from_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
        let address = take_text(&mut rest)?;
        rest.is_empty().then_some(Applicant { incarnation, since_s, address })
    }

    /// Writes the row.
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

/// Reads the account from the sort key of an applicant's row.
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

/// The query for one invitation.
pub fn get(actor: &str, id: InvitationId) -> Query {
    Query::Get { table: Table::Invitations, actor: actor.as_bytes().into(), sort: id.sort() }
}

/// The query for one applicant.
pub fn get_applicant(domain: &str, account: &str) -> Query {
    Query::Get { table: Table::Invitations, actor: domain.as_bytes().into(), sort: applicant_sort(account) }
}

fn range(actor: &str, from: Box<[u8]>, until: Option<Box<[u8]>>, rows_max: u32) -> Query {
    let actor = actor.as_bytes().into();
    Query::Range { table: Table::Invitations, actor, from, until, reverse: false, rows_max, bytes_max: u32::MAX }
}

/// The query for an actor's invitations.
pub fn all(actor: &str, rows_max: u32) -> Query {
    range(actor, Box::new([INVITATION]), Some(Box::new([WAITING])), rows_max)
}

/// The query for all rows of an actor.
pub fn everything(actor: &str, rows_max: u32) -> Query {
    range(actor, Box::new([INVITATION]), None, rows_max)
}

/// The query for an actor's invitations after one of them.
pub fn all_behind(actor: &str, id: Option<InvitationId>, rows_max: u32) -> Query {
    let from = match id {
        // The least key after it.
        Some(id) => [&*id.sort(), &[0]].concat().into(),
        None => Box::from([INVITATION]),
    };
    range(actor, from, Some(Box::new([WAITING])), rows_max)
}

/// The query for a domain's applicants.
pub fn applicants(domain: &str, rows_max: u32) -> Query {
    range(domain, Box::new([WAITING]), Some(Box::new([WAITING + 1])), rows_max)
}

/// Whether a row is well-formed.
pub fn is_whole(sort: &[u8], value: &[u8]) -> bool {
    match sort.first() {
        Some(&INVITATION) => InvitationId::of_sort(sort).is_some() && Invitation::decode(value).is_some(),
        Some(&WAITING) => applicant_of_sort(sort).is_some() && Applicant::decode(value).is_some(),
        _ => false,
    }
}

/// Appends a string with its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Removes `N` bytes from the front.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

/// Removes a string from the front, as written by [`put_text`].
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
        // A reader of the rows learns no token.
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
