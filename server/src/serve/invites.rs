//! Invitations as operators create and see them, at a running server and in a store at rest.

use std::ops::ControlFlow;

use throng_engine::extension::invite::links::Links;
use throng_engine::extension::invite::names::Withheld;
use throng_engine::extension::invite::token;
use throng_engine::id::Domains;
use throng_engine::limits::{INVITATION_LIFE_S_MAX, INVITATION_USES_MAX};
use throng_engine::store::invitation::{self as rows, Applicant, Invitation, InvitationId, NewInvitation};
use throng_engine::store::{Batch, Found, Query, Table};
use throng_engine::wire::jid::normalise_domain;
use throng_recorder::clock::wall_s;

use super::Rows;
use super::names::{fault, kept_outside, prepare_account};
use crate::admin::{
    APPLICANTS_MAX, ApplicantRow, Fault, FaultKind, InviteRow, Invited, NewInvite, Page, ROWS_PER_PAGE_MAX,
};
use crate::config::Config;
use crate::entropy::Entropy;

/// The configuration of invitations.
pub(super) struct Inviting {
    registers: bool,
    life_s: u64,
    page: Option<Box<str>>,
    admins: Vec<Box<str>>,
    inviters: Vec<Box<str>>,
    reserved: Vec<Box<str>>,
}

fn invalid(text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Invalid, text)
}

impl Inviting {
    pub(super) fn of(config: &Config) -> Inviting {
        Inviting {
            registers: config.rule().is_some() && !config.without.contains(&"invite"),
            life_s: config.invitation_seconds.as_secs(),
            page: config.page(),
            admins: config.admins.iter().map(|jid| jid.0.clone()).collect(),
            inviters: config.inviters.iter().map(|jid| jid.0.clone()).collect(),
            reserved: config.reserved_names.iter().map(|name| name.0.clone()).collect(),
        }
    }

    fn withheld(&self) -> Withheld<'_> {
        Withheld { admins: &self.admins, inviters: &self.inviters, reserved: &self.reserved }
    }

    /// The owner of an invitation, and its content.
    ///
    /// # Errors
    /// It cannot be created with these settings.
    pub(super) fn plan(&self, new: &NewInvite, domains: &Domains) -> Result<(String, NewInvitation), Fault> {
        let account = |user: &String| prepare_account(user, domains).map_err(invalid);
        let inviter = new.inviter.as_ref().map(account).transpose()?;
        let user = new.user.as_ref().map(account).transpose()?;
        let (domain, named) = match &new.domain {
            None => (domains.main().to_owned(), false),
            Some(domain) => {
                let known = normalise_domain(domain).ok().filter(|domain| domains.find_users(domain).is_some());
                let known = known.ok_or_else(|| invalid(format!("the domain {domain} is not served here")))?;
                (known.into_owned(), true)
            }
        };
        let of = user.as_ref().or(inviter.as_ref()).map_or(&*domain, |jid| jid.domain());
        if domains.keeps_outside(of) {
            return Err(invalid(kept_outside(of)));
        }
        if named && (inviter.is_some() || user.is_some()) {
            return Err(invalid("the domain is given by the user or contact: leave out one of the two"));
        }
        if let (Some(user), Some(inviter)) = (&user, &inviter)
            && user.domain() != inviter.domain()
        {
            return Err(invalid(format!("{user} and {inviter} are of different domains")));
        }
        if new.befriends && inviter.is_none() {
            return Err(invalid("nobody is named whose contact it makes"));
        }
        if !(1..=INVITATION_USES_MAX).contains(&new.uses) || user.is_some() && new.uses != 1 {
            let most = if user.is_some() { 1 } else { INVITATION_USES_MAX };
            return Err(invalid(format!("an invitation can be used 1 to {most} times")));
        }
        let life_s = new.life_s.unwrap_or(self.life_s);
        if !(1..=INVITATION_LIFE_S_MAX).contains(&life_s) {
            return Err(invalid("an invitation can be valid for a second to 366 days"));
        }
        let contact_alone = new.befriends && user.is_none();
        if !self.registers && !contact_alone {
            let text = "registration by invitation is off: set registration to invite, open or \
                        approval, and remove invite from without";
            return Err(invalid(text));
        }
        let is_named = user.is_some();
        let inviter_jid = inviter.as_ref().map_or("", |jid| jid.as_str());
        if let Some(user) = user.as_ref().filter(|user| !self.withheld().may_invite(inviter_jid, user.as_str())) {
            let text = format!(
                "{user} is reserved, or has rights by admins or inviters: an administrator can invite to it, or the operator in nobody's name"
            );
            return Err(Fault::new(FaultKind::Exists, text));
        }
        let actor = user.as_ref().or(inviter.as_ref()).map_or(domain, |jid| jid.as_str().to_owned());
        let new = NewInvitation {
            registers: self.registers,
            befriends: new.befriends,
            is_named,
            is_trusted: true,
            uses: new.uses,
            life_s,
            inviter: inviter_jid.into(),
            most: new.most,
        };
        Ok((actor, new))
    }

    /// The form in which it is passed on.
    pub(super) fn links(&self, actor: &str, invitation: &Invitation, token: &str) -> Invited {
        let Links { uri, page, until_s } = Links::of(actor, invitation, token, self.page.as_deref());
        Invited { uri, page, until_s, id: InvitationId::of(token).to_string(), token: token.to_owned() }
    }
}

/// The fault for a name that exists or is invited already.
pub(super) fn exists(actor: &str) -> Fault {
    Fault::new(FaultKind::Exists, format!("{actor} already exists or is invited; see `throng invite list`"))
}

/// The text for an inviter with too many invitations.
pub(super) fn too_many(actor: &str) -> String {
    format!("{actor} has reached the limit of invitations, or has too much queued; try again later")
}

fn all_of(engine: &Rows, query: &Query) -> Result<Vec<throng_engine::store::Row>, Fault> {
    match engine.read(query).map_err(|error| fault(&error))? {
        Found::Rows { rows, .. } => Ok(rows),
        Found::Value(_) | Found::Damaged => unreachable!("an engine answers a range with rows or an error"),
    }
}

/// A new invitation in a store at rest: its token, and the rows to write.
///
/// # Errors
/// The inviter does not exist, or the invited account does.
pub(super) fn made(
    inviting: &Inviting,
    engine: &Rows,
    actor: &str,
    new: &NewInvitation,
    there: bool,
) -> Result<(String, Invitation, Batch), Fault> {
    let (is_user, now_s) = (actor.contains('@'), wall_s());
    if is_user && !there && !new.is_named {
        return Err(Fault::new(FaultKind::NotFound, format!("there is no user {actor}")));
    }
    let mut writes = Batch::new();
    let mut reserved = false;
    // Expired ones are removed when the server runs: here it is not known whether the clock is
    // right.
    for row in all_of(engine, &rows::all(actor, ROWS_PER_PAGE_MAX as u32))? {
        let Some(known) = Invitation::decode(&row.value) else { continue };
        reserved |= known.is_named && known.is_open(now_s) && inviting.withheld().may_invite(&known.inviter, actor);
    }
    if new.is_named && (there || reserved) {
        return Err(exists(actor));
    }
    let random = Entropy::open().and_then(|mut entropy| entropy.fresh());
    let token = token::make(random.map_err(|error| Fault::new(FaultKind::Internal, error.to_string()))?, actor);
    let invitation = new.at(now_s);
    invitation.put(&mut writes, actor, InvitationId::of(&token));
    Ok((token, invitation, writes))
}

/// Revokes an invitation of a store at rest.
///
/// # Errors
/// There is none, or it was revoked already.
pub(super) fn revoked(engine: &Rows, actor: &str, id: InvitationId) -> Result<Batch, Fault> {
    let found = engine.read(&rows::get(actor, id)).map_err(|error| fault(&error))?;
    let known = found.value().as_deref().and_then(Invitation::decode).filter(|known| !known.is_revoked);
    let Some(mut known) = known else {
        return Err(Fault::new(FaultKind::NotFound, "no such invitation"));
    };
    known.is_revoked = true;
    let mut writes = Batch::new();
    known.put(&mut writes, actor, id);
    Ok(writes)
}

/// Parses an id in its displayed form.
///
/// # Errors
/// It is not an id.
pub(super) fn read_id(text: &str) -> Result<InvitationId, Fault> {
    let bytes =
        (0..text.len()).step_by(2).map(|at| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()));
    let id = bytes.collect::<Option<Vec<u8>>>().and_then(|bytes| bytes.try_into().ok());
    id.map(InvitationId).ok_or_else(|| invalid(format!("not an invitation ID: {text}; see `throng invite list`")))
}

/// The separator between the two parts of a position in a listing; no actor contains it.
const BETWEEN: char = '\n';

/// Up to `limit` invitations, from the store.
pub(super) fn list(engine: &Rows, after: Option<&str>, limit: usize) -> Result<Page<InviteRow>, Fault> {
    let (mut listed, now_s) = (Vec::new(), wall_s());
    let (mut actor, mut behind) = match after.map(|after| after.split_once(BETWEEN).ok_or(after)) {
        None => (next_actor(engine, None)?, None),
        Some(Ok((actor, id))) => (Some(actor.to_owned()), Some(read_id(id)?)),
        Some(Err(_)) => return Err(invalid("not a place in a listing")),
    };
    while let Some(of) = actor {
        let most = (limit - listed.len()) as u32 + 1;
        let all = all_of(engine, &rows::all_behind(&of, behind, most))?;
        let last = all.last().filter(|_| all.len() as u32 == most).and_then(|row| InvitationId::of_sort(&row.sort));
        for row in &all {
            if listed.len() >= limit {
                let last: Option<&InviteRow> = listed.last();
                let next = last.map(|row| format!("{}{BETWEEN}{}", row.actor, row.id));
                return Ok(Page { rows: listed, next });
            }
            let known = InvitationId::of_sort(&row.sort).zip(Invitation::decode(&row.value));
            // An inviter's note about a name is not an invitation.
            let known = known.filter(|(_, known)| !known.is_note());
            listed.extend(known.map(|(id, known)| shown(&of, id, &known, now_s)));
        }
        (actor, behind) = match last {
            Some(last) => (Some(of), Some(last)),
            None => (next_actor(engine, Some(&of))?, None),
        };
    }
    Ok(Page { rows: listed, next: None })
}

fn next_actor(engine: &Rows, after: Option<&str>) -> Result<Option<String>, Fault> {
    let mut found = None;
    let mut visit = |actor: &[u8]| {
        found = Some(String::from_utf8_lossy(actor).into_owned());
        ControlFlow::Break(())
    };
    engine.for_each_actor(Table::Invitations, after.map(str::as_bytes), &mut visit).map_err(|error| fault(&error))?;
    Ok(found)
}

fn shown(actor: &str, id: InvitationId, known: &Invitation, now_s: u64) -> InviteRow {
    let state = match known {
        known if known.is_revoked => "revoked",
        known if known.left == 0 => "used",
        known if now_s >= known.until_s => "over",
        _ => "open",
    };
    InviteRow {
        id: id.to_string(),
        actor: actor.to_owned(),
        inviter: (!known.inviter.is_empty()).then(|| known.inviter.to_string()),
        user: known.is_named.then(|| actor.to_owned()),
        registers: known.registers,
        befriends: known.befriends,
        uses: known.uses,
        left: known.left,
        made_s: known.made_s,
        until_s: known.until_s,
        state: state.to_owned(),
        joined: known.joined.iter().map(|jid| jid.to_string()).collect(),
    }
}

/// Accounts that wait for approval, from the store.
pub(super) fn applicants(engine: &Rows, domains: &Domains) -> Result<Vec<ApplicantRow>, Fault> {
    let mut all = Vec::new();
    for domain in domains.names() {
        for row in all_of(engine, &rows::applicants(domain, APPLICANTS_MAX))? {
            let known = rows::applicant_of_sort(&row.sort).zip(Applicant::decode(&row.value));
            all.extend(known.map(|(user, known)| ApplicantRow {
                user: user.to_owned(),
                since_s: known.since_s,
                address: known.address.to_string(),
            }));
        }
    }
    all.sort_by(|a, b| (a.since_s, &a.user).cmp(&(b.since_s, &b.user)));
    Ok(all)
}
