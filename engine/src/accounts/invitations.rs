//! Invitations at the home of the actor that keeps them, and accounts that wait for approval at
//! that of their domain.
//!
//! ```text
//! connection's shard ──Redeem──> actor's home ──Register──> account's home
//!          ^                      writes a claim               makes the account
//!          └────── answer ──────── settles it <────Settle──────────┘
//! ```
//!
//! The claim is written in the turn that sends the request to the account's home, so it is durable
//! before the account is. After a crash there may be a claim without an account, but never an
//! account without its claim. A claim from an earlier process is checked when its token is next
//! presented. A use that has led to no account is restored (XEP-0445 4).
//!
//! Operations that read and then write an actor's rows are done one after another.

use std::collections::{BTreeMap, VecDeque};

use rand_core::RngCore;

use crate::accounts::{Accounts, ForRosters};
use crate::actors::Actors;
use crate::extension::adhoc;
use crate::extension::invite::links::Links;
use crate::extension::invite::token;
use crate::extension::{Rule, Way};
use crate::io::{Effect, Happened, Reply, StorageState};
use crate::kernel::pending::{InvitationRead, LoginRead, Looking, Maker, Pending, Work};
use crate::letters::{Answer, Apply, ConnRef, Leave, Question, Redeem, Settle};
use crate::limits::{
    INVITATION_CLAIM_S, INVITATION_CLAIMS_MAX, INVITATION_TOKEN_BYTES, INVITATIONS_SWEPT_MAX, INVITATIONS_USER_MAX,
    INVITATIONS_WAITING_MAX,
};
use crate::store::account::Incarnation;
use crate::store::invitation::{self as rows, Claim, Invitation, InvitationId, Invited, NewInvitation};
use crate::store::{Found, Query};
use crate::streams::Streams;
use crate::wire::limit::{Held, Limit};

/// Actors whose rows are being changed, with the work that waits: at most
/// [`INVITATIONS_WAITING_MAX`] each, not counting the completion of work in progress.
#[derive(Debug, Default)]
pub(crate) struct Invitations {
    busy: BTreeMap<Box<str>, VecDeque<Work>>,
}

impl Accounts {
    /// Reads one invitation for a token that was presented.
    pub(super) fn invitation_asked(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        conn: ConnRef,
        actor: &str,
        id: InvitationId,
    ) {
        self.read_invitation(cx, actors, actor, Looking::Shown { conn, id }, rows::get(actor, id));
    }

    /// See [`Question::Redeem`], [`Question::Apply`] and [`Question::Settle`].
    pub(super) fn work_asked(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        conn: ConnRef,
        actor: &str,
        question: Question,
    ) {
        let work = match question {
            Question::Redeem(redeem) => Work::Redeem { conn, redeem },
            Question::Apply(apply) => Work::Apply { conn, apply },
            Question::Settle(settle) => Work::Settle { conn, settle },
            _ => return,
        };
        self.invitation_work(cx, actors, actor, work);
    }

    /// Does some work on an actor's rows, now or when the work before it is done.
    pub(crate) fn invitation_work(&mut self, cx: &mut Streams, actors: &mut Actors, actor: &str, work: Work) {
        let Some(waiting) = self.invitations.busy.get_mut(actor) else {
            self.invitations.busy.insert(actor.into(), VecDeque::new());
            return self.begin_work(cx, actors, actor, work);
        };
        // Work in progress must complete; there is at most one completion for each.
        if waiting.len() >= INVITATIONS_WAITING_MAX && !matches!(work, Work::Settle { .. }) {
            return self.refuse_work(cx, actors, actor, work, Limit::Waiting);
        }
        waiting.push_back(work);
    }

    fn begin_work(&mut self, cx: &mut Streams, actors: &mut Actors, actor: &str, work: Work) {
        let query = match &work {
            Work::Make { new, .. } => rows::all(actor, rows_max(new.most)),
            Work::Name { most, .. } => rows::all(actor, rows_max(*most)),
            Work::Sweep => rows::everything(actor, INVITATIONS_SWEPT_MAX),
            Work::Revoke { id, .. } | Work::Vouch { id, .. } => rows::get(actor, *id),
            Work::Redeem { redeem, .. } => rows::get(actor, redeem.id),
            Work::Apply { .. } => rows::applicants(actor, cx.kernel.settings.applicants_max + 1),
            Work::Settle { settle, .. } => match settle.leave.id {
                Some(id) => rows::get(actor, id),
                None => rows::get_applicant(actor, &settle.account),
            },
        };
        self.read_invitation(cx, actors, actor, Looking::Work(work), query);
    }

    fn read_invitation(&mut self, cx: &mut Streams, actors: &mut Actors, actor: &str, why: Looking, query: Query) {
        let pending = Pending::Login(LoginRead::Invitation(InvitationRead { actor: actor.into(), why }));
        // A domain has no account.
        match actor.contains('@') {
            true => actors.look(cx, pending, actor, Some(query)),
            false => cx.kernel.read(pending, vec![query]),
        }
    }

    pub(crate) fn invitation_found(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        read: InvitationRead,
        mut found: Vec<Found>,
    ) {
        let InvitationRead { actor, why } = read;
        let there = match actor.contains('@') {
            true => actors.seen(cx, &actor, &mut found).0,
            false => None,
        };
        match why {
            Looking::Shown { conn, id } => self.invitation_shown(cx, conn, &actor, id, there.is_some(), found),
            Looking::Work(work) => {
                self.do_work(cx, actors, &actor, work, there.is_some(), found);
                self.work_over(cx, actors, &actor);
            }
        }
        actors.forget_no_one(&actor);
    }

    /// The rows cannot be read: their invitations admit no one, and nothing is written over them.
    pub(crate) fn invitation_unreadable(&mut self, cx: &mut Streams, actors: &mut Actors, read: InvitationRead) {
        let InvitationRead { actor, why } = read;
        if actor.contains('@') {
            actors.unseen(cx, &actor);
        }
        match why {
            Looking::Shown { conn, .. } => cx.kernel.reply_to(conn, Answer::Unreadable),
            Looking::Work(work) => {
                match work {
                    Work::Settle { conn, settle } => cx.kernel.reply_to(conn, settle.answer),
                    Work::Make { maker: Maker::Operator(token), .. }
                    | Work::Revoke { reply: token, .. }
                    | Work::Name { reply: token, .. } => self.reply_invitation(cx, token, Reply::Unreadable),
                    Work::Redeem { conn, .. } => cx.kernel.reply_to(conn, Answer::Unreadable),
                    Work::Apply { conn, apply } => {
                        self.outcome(cx, conn, apply.leave, &apply.account, false, Answer::Unreadable);
                    }
                    work => self.refuse_work(cx, actors, &actor, work, Limit::Waiting),
                }
                self.work_over(cx, actors, &actor);
            }
        }
    }

    fn work_over(&mut self, cx: &mut Streams, actors: &mut Actors, actor: &str) {
        match self.invitations.busy.get_mut(actor).and_then(VecDeque::pop_front) {
            Some(next) => self.begin_work(cx, actors, actor, next),
            None => drop(self.invitations.busy.remove(actor)),
        }
    }

    fn reply_invitation(&mut self, cx: &mut Streams, token: u64, reply: Reply) {
        cx.kernel.effects.push(Effect::Reply { token, reply, durable: true });
    }

    fn refuse_work(&mut self, cx: &mut Streams, actors: &mut Actors, actor: &str, work: Work, limit: Limit) {
        match work {
            Work::Make { maker, .. } => self.invitation_made(cx, actors, maker, Err(limit)),
            Work::Name { reply, .. } if limit == Limit::Disk => self.reply_invitation(cx, reply, Reply::StoreFull),
            Work::Revoke { reply, .. } | Work::Name { reply, .. } => self.reply_invitation(cx, reply, Reply::Busy),
            // It is swept in the next round.
            Work::Sweep => {}
            Work::Redeem { conn, .. } => cx.kernel.reply_to(conn, Answer::Held(Held::by(limit))),
            Work::Apply { conn, apply } => {
                self.outcome(cx, conn, apply.leave, &apply.account, false, Answer::Held(Held::by(limit)));
            }
            Work::Settle { conn, settle } => cx.kernel.reply_to(conn, settle.answer),
            Work::Vouch { contact, .. } => self.vouch(actor, &contact, false),
        }
    }

    fn do_work(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        actor: &str,
        work: Work,
        there: bool,
        found: Vec<Found>,
    ) {
        let full = cx.kernel.storage == StorageState::Full;
        match work {
            Work::Settle { conn, settle } => self.settle_leave(cx, conn, actor, *settle, there, found),
            work if full => self.refuse_work(cx, actors, actor, work, Limit::Disk),
            Work::Make { maker, new } => self.make_invitation(cx, actors, maker, actor, &new, there, found),
            Work::Name { reply, account, life_s, most } => {
                self.name_for(cx, reply, actor, &account, (life_s, most), there, found);
            }
            Work::Sweep => self.sweep_invitations(cx, actor, found),
            Work::Revoke { reply, id } => self.revoke_invitation(cx, reply, actor, id, there, found),
            Work::Redeem { conn, redeem } => self.redeem(cx, conn, actor, *redeem, there, found),
            Work::Apply { conn, apply } => self.apply(cx, conn, actor, *apply, found),
            Work::Vouch { contact, id } => self.vouch_by(cx, actors, actor, &contact, id, there, found),
        }
    }

    // Creating and revoking.

    fn make_invitation(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        maker: Maker,
        actor: &str,
        new: &NewInvitation,
        there: bool,
        found: Vec<Found>,
    ) {
        let Some(kept) = self.kept_of(cx, actor, found) else {
            return self.invitation_made(cx, actors, maker, Err(Limit::Waiting));
        };
        // An invitation for a name is kept by the future user of that name; any other by an
        // existing user.
        let is_user = actor.contains('@');
        if is_user && (there == new.is_named || kept.is_reserved && new.is_named) {
            return self.invitation_none(cx, actors, maker, there || kept.is_reserved);
        }
        if new.most > 0 && kept.count >= new.most {
            cx.kernel.limited(Limit::Invitations.into(), || actor.to_owned());
            return self.invitation_made(cx, actors, maker, Err(Limit::Invitations));
        }
        let mut random = [0; INVITATION_TOKEN_BYTES];
        cx.kernel.entropy.fill_bytes(&mut random);
        let token = token::make(random, actor);
        let invitation = new.at(self.wall_s(cx));
        invitation.put(&mut cx.kernel.writes, actor, InvitationId::of(&token));
        self.invitation_made(cx, actors, maker, Ok((actor, invitation, token)));
    }

    /// An actor's valid invitations, from its rows. Deletes expired ones. `None` if the rows are
    /// not invitations.
    fn kept_of(&mut self, cx: &mut Streams, actor: &str, found: Vec<Found>) -> Option<Kept> {
        // While the clock is in doubt, an invitation keeps its place until it has certainly
        // expired.
        let now_s = self.expiry_s(cx);
        let Some(Found::Rows { rows: all, more }) = found.into_iter().next() else { return None };
        let mut kept = Kept { count: 0, is_reserved: false };
        for row in &all {
            let (Some(id), Some(known)) = (InvitationId::of_sort(&row.sort), Invitation::decode(&row.value)) else {
                kept.count += 1;
                continue;
            };
            if known.is_over(now_s) {
                rows::delete(&mut cx.kernel.writes, actor, id);
            }
            kept.count += usize::from(now_s < known.until_s);
            // An invitation that does not admit anyone reserves no name.
            kept.is_reserved |= known.is_open(now_s) && self.gives(cx, actor, &known);
        }
        if more {
            // More rows than may count: so many of them have expired that these are deleted first.
            kept.count = usize::MAX;
        }
        Some(kept)
    }

    /// A user invites someone to an account's name. The invitation counts against the inviting user
    /// here, and the account's home keeps it.
    fn name_for(
        &mut self,
        cx: &mut Streams,
        reply: u64,
        inviter: &str,
        account: &str,
        (life_s, most): (u64, usize),
        there: bool,
        found: Vec<Found>,
    ) {
        if !there {
            return self.reply_invitation(cx, reply, Reply::NotFound);
        }
        match self.kept_of(cx, inviter, found) {
            Some(kept) if kept.count < most => {
                let (id, note) = Invitation::note(inviter, account, self.wall_s(cx), life_s);
                note.put(&mut cx.kernel.writes, inviter, id);
                self.reply_invitation(cx, reply, Reply::Done(1));
            }
            Some(_) => {
                cx.kernel.limited(Limit::Invitations.into(), || inviter.to_owned());
                self.reply_invitation(cx, reply, Reply::Busy);
            }
            None => self.reply_invitation(cx, reply, Reply::Unreadable),
        }
    }

    /// Deletes an actor's expired invitations, and accounts that have waited too long at a domain.
    fn sweep_invitations(&mut self, cx: &mut Streams, actor: &str, found: Vec<Found>) {
        if let Some(Found::Rows { rows: all, .. }) = found.first() {
            for row in all {
                self.applicant_in(cx, actor, row);
            }
        }
        self.kept_of(cx, actor, found);
    }

    /// An account exists that must not exist, or does not exist and must.
    fn invitation_none(&mut self, cx: &mut Streams, actors: &mut Actors, maker: Maker, exists: bool) {
        match maker {
            Maker::Operator(token) => {
                self.reply_invitation(cx, token, if exists { Reply::Exists } else { Reply::NotFound });
            }
            maker => self.invitation_made(cx, actors, maker, Err(Limit::Waiting)),
        }
    }

    fn invitation_made(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        maker: Maker,
        made: Result<(&str, Invitation, String), Limit>,
    ) {
        match (maker, made) {
            (Maker::Operator(reply), Ok((_, invitation, token))) => {
                let reply_with = Reply::Invited { token: token.into(), invitation: Box::new(invitation) };
                self.reply_invitation(cx, reply, reply_with);
            }
            (Maker::Operator(reply), Err(Limit::Disk)) => self.reply_invitation(cx, reply, Reply::StoreFull),
            (Maker::Operator(reply), Err(_)) => self.reply_invitation(cx, reply, Reply::Busy),
            (Maker::User(ordering), made) => {
                if !actors.asks_still(&ordering.asker) {
                    return;
                }
                match made {
                    Ok((actor, invitation, token)) => {
                        let page = cx.kernel.settings.invitation_page.as_deref();
                        let links = Links::of(actor, &invitation, &token, page);
                        let payload = adhoc::invited(ordering.node, &ordering.id, &links);
                        actors.answer(cx, ordering.asker, Ok(&payload));
                    }
                    Err(limit) => actors.answer(cx, ordering.asker, Err(limit.into())),
                }
            }
        }
    }

    fn revoke_invitation(
        &mut self,
        cx: &mut Streams,
        reply: u64,
        actor: &str,
        id: InvitationId,
        there: bool,
        found: Vec<Found>,
    ) {
        let known = one(found).filter(|known| !known.is_revoked && is_kept(actor, known, there));
        let Some(mut invitation) = known else {
            return self.reply_invitation(cx, reply, Reply::NotFound);
        };
        invitation.is_revoked = true;
        invitation.put(&mut cx.kernel.writes, actor, id);
        self.reply_invitation(cx, reply, Reply::Done(1));
    }

    // Registering by an invitation.

    fn invitation_shown(
        &mut self,
        cx: &mut Streams,
        conn: ConnRef,
        actor: &str,
        id: InvitationId,
        there: bool,
        found: Vec<Found>,
    ) {
        let now_s = self.wall_s(cx);
        let fits = |known: &Invitation| {
            known.registers && has_keeper(actor, known, there) && (!known.is_named || self.gives(cx, actor, known))
        };
        let Some(invitation) = one(found).filter(fits) else { return cx.kernel.reply_to(conn, Answer::NotInvited) };
        if !invitation.is_open(now_s) {
            // A crash may have interrupted the last use.
            let stale = invitation.claims.iter().find(|claim| self.is_stale(cx, claim, now_s));
            let open = !invitation.is_revoked && now_s < invitation.until_s;
            let Some(claim) = stale.filter(|_| open) else { return cx.kernel.reply_to(conn, Answer::NotInvited) };
            let leave = self.leave(cx, actor, id, &invitation, claim.incarnation);
            return cx.kernel.ask_home(conn, &claim.account, Question::WasMade(Box::new(leave)));
        }
        let inviter = invitation.inviter.clone();
        let invited = Invited { actor: actor.into(), id, is_named: invitation.is_named, inviter: inviter.clone() };
        match inviter.is_empty() || *inviter == *actor {
            true => cx.kernel.reply_to(conn, Answer::Invited(Box::new(invited))),
            false => cx.kernel.ask_home(conn, &inviter, Question::Vouch(Box::new(invited))),
        }
    }

    fn is_stale(&self, cx: &Streams, claim: &Claim, now_s: u64) -> bool {
        claim.life != cx.kernel.life || claim.at_s.saturating_add(INVITATION_CLAIM_S) <= now_s
    }

    fn leave(
        &self,
        cx: &Streams,
        actor: &str,
        id: InvitationId,
        invitation: &Invitation,
        incarnation: Incarnation,
    ) -> Leave {
        let inviter = if invitation.befriends { invitation.inviter.clone() } else { "".into() };
        let gives_name = invitation.is_named && cx.kernel.settings.withheld().gives(&invitation.inviter);
        Leave { by: actor.into(), id: Some(id), incarnation, inviter, gives_name, then: None }
    }

    /// Whether an invitation is for its actor's name, and its maker may grant that name. This
    /// depends on who is an administrator now, not when it was made.
    pub(super) fn gives(&self, cx: &Streams, actor: &str, invitation: &Invitation) -> bool {
        invitation.is_named && cx.kernel.settings.withheld().may_invite(&invitation.inviter, actor)
    }

    /// Records a use for an account and asks the account's home to create it. An expiry during this
    /// is ignored (XEP-0445 4).
    fn redeem(&mut self, cx: &mut Streams, conn: ConnRef, actor: &str, redeem: Redeem, there: bool, found: Vec<Found>) {
        let Redeem { id, account, credentials, address } = redeem;
        let fits = |known: &Invitation| {
            let free = known.left > 0 && !known.is_revoked && known.claims.len() < INVITATION_CLAIMS_MAX;
            free && known.registers && (!known.is_named || *account == *actor)
        };
        let usable = one(found).filter(|known| fits(known) && (known.is_named || has_keeper(actor, known, there)));
        let Some(mut invitation) = usable else { return cx.kernel.reply_to(conn, Answer::NotInvited) };
        let incarnation = Incarnation::drawn(cx.kernel.entropy.next_u64());
        let (life, at_s) = (cx.kernel.life, self.wall_s(cx));
        invitation.claim(Claim { account: account.clone(), incarnation, life, at_s });
        invitation.put(&mut cx.kernel.writes, actor, id);
        let leave = Box::new(self.leave(cx, actor, id, &invitation, incarnation));
        // If the maker may not decide about accounts, an administrator must still approve the
        // invited account.
        if cx.kernel.facts.rule == Rule::Approval && !invitation.is_trusted {
            let domain = account.split_once('@').map_or("", |(_, domain)| domain).to_owned();
            let apply = Apply { account, credentials, address, leave: Some(leave) };
            return cx.kernel.ask_home(conn, &domain, Question::Apply(Box::new(apply)));
        }
        cx.kernel.ask_home(conn, &account, Question::Register { credentials, leave: Some(leave) });
    }

    fn settle_leave(
        &mut self,
        cx: &mut Streams,
        conn: ConnRef,
        actor: &str,
        settle: Settle,
        there: bool,
        found: Vec<Found>,
    ) {
        let Settle { leave, account, made, answer } = settle;
        let Some(id) = leave.id else {
            return self.settle_applicant(cx, conn, actor, leave, &account, made, answer, found);
        };
        if let Some(mut invitation) = one(found).filter(|known| is_kept(actor, known, there))
            && invitation.settle(&account, leave.incarnation, made)
        {
            if made {
                let by = if invitation.inviter.is_empty() { actor.into() } else { invitation.inviter.clone() };
                cx.kernel.note(Happened::Joined { by }, &account, None);
            }
            invitation.put(&mut cx.kernel.writes, actor, id);
        }
        cx.kernel.reply_to(conn, answer);
    }

    // Becoming a contact by an invitation.

    /// A contact requests a subscription from a user of this home and presents a token (XEP-0379
    /// 3.4).
    pub(crate) fn token_of_contact(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        contact: &str,
        token: &str,
    ) {
        let owner = actors.bare_of_user(user);
        let domain = owner.split_once('@').map_or("", |(_, domain)| domain);
        match token::actor(token, domain).filter(|actor| *actor == owner) {
            Some(_) => {
                let work = Work::Vouch { contact: contact.into(), id: InvitationId::of(token) };
                self.invitation_work(cx, actors, &owner, work);
            }
            // The user's client may recognise it.
            None => self.vouch(&owner, contact, false),
        }
    }

    fn vouch_by(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        actor: &str,
        contact: &str,
        id: InvitationId,
        there: bool,
        found: Vec<Found>,
    ) {
        let now_s = self.wall_s(cx);
        let good = |known: &Invitation| known.befriends && !known.is_named && there && known.is_open(now_s);
        let user = actors.users.find(actor);
        let blocked = user.is_none_or(|user| actors.guards(cx, user, Way::In, contact).is_some());
        let Some(mut invitation) = one(found).filter(good).filter(|_| !blocked) else {
            return self.vouch(actor, contact, false);
        };
        invitation.left -= 1;
        invitation.join(contact);
        invitation.put(&mut cx.kernel.writes, actor, id);
        self.vouch(actor, contact, true);
    }

    fn vouch(&mut self, owner: &str, contact: &str, good: bool) {
        self.for_rosters.push(ForRosters::Vouched { owner: owner.into(), contact: contact.into(), good });
    }
}

/// An actor's invitations.
struct Kept {
    /// Number of those that have not expired.
    count: usize,
    /// Whether one of them reserves the actor's own name.
    is_reserved: bool,
}

/// Rows to read in order to count up to `most`, which may include expired ones.
fn rows_max(most: usize) -> u32 {
    2 * most.max(INVITATIONS_USER_MAX) as u32 + 1
}

/// Whether the keeper of an invitation is permitted: an invitation for a name is kept by a name
/// without an account.
fn has_keeper(actor: &str, invitation: &Invitation, there: bool) -> bool {
    !actor.contains('@') || there != invitation.is_named
}

/// Whether an invitation that was read still exists: it is removed with the account of its maker,
/// and must not be written again then.
fn is_kept(actor: &str, invitation: &Invitation, there: bool) -> bool {
    !actor.contains('@') || invitation.is_named || there
}

fn one(found: Vec<Found>) -> Option<Invitation> {
    found.into_iter().next()?.value().as_deref().and_then(Invitation::decode)
}
