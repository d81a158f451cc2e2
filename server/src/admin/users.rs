//! Orders of administrators that use XMPP (XEP-0133), as requests of the control socket: the same
//! code carries them out, and they are logged in the same form.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use throng_engine::limits::{ADHOC_IDLE_S, ADHOC_ROWS_MAX, INVITATIONS_INVITER_MAX};
use throng_engine::orders::{Order, Outcome, Users, Wanted, Why};

use super::protocol::{Ask, Done};
use super::socket::answer;
use super::{
    ANNOUNCED_FOR, Audience, Control, Existing, Fault, FaultKind, Invited, NewAccount, NewInvite, Put,
    ROWS_PER_PAGE_MAX, Release, ScramKeys, SessionRow, orders, seen,
};
use crate::audit::By;
use crate::events::utc;

/// Carries out an order.
pub fn carry_out(control: &dyn Control, order: &Order) -> Outcome {
    let by = format!("administrator {}", order.by);
    let ask = |ask: Ask| {
        let named = orders::order(&ask);
        let answered = match &ask {
            Ask::SetKnob { key, .. } | Ask::ResetKnobs { key: Some(key) } if is_for_the_host(key) => {
                let text = format!("{key} can only be set on the server's host: throng ctl knob set");
                Err(Fault::new(FaultKind::Invalid, text))
            }
            _ => answer(control, &by, ask),
        };
        if let Some(named) = named {
            named.tell(&By::Administrator(order.by.to_string()), &answered);
        }
        answered
    };
    let outcome = match &order.what {
        Wanted::Put { account, credentials, create } => {
            let existing = if *create { Existing::Refuse } else { Existing::Require };
            let keys = ScramKeys::of(credentials);
            put(ask(Ask::Put { batch: vec![NewAccount { user: account.to_string(), keys }], existing }))
        }
        Wanted::Delete(accounts) => each(accounts, |user| ask(Ask::Delete { user })),
        Wanted::Suspend { accounts, suspended } => {
            each(accounts, |user| ask(Ask::Suspend { user, suspended: *suspended }))
        }
        Wanted::End(jids) => each(jids, |jid| ask(Ask::Kick { jid, reason: None })),
        Wanted::Invite { local, befriends } => invite(&order.by, local.as_deref(), *befriends, ask),
        Wanted::ListApplicants => control.applicants().map(|rows| {
            let jids = rows.into_iter().take(ADHOC_ROWS_MAX).map(|row| row.user).collect();
            Outcome::Applicants { jids }
        }),
        Wanted::Decide { accounts, approve } => each(accounts, |user| ask(Ask::Decide { user, approve: *approve })),
        Wanted::Statistics(account) => control.account_seen(account).and_then(|known| {
            let page = control.sessions(Some(account), None, ROWS_PER_PAGE_MAX)?;
            Ok(Outcome::Statistics { sessions: seen::sessions(page.rows), contacts: known.contacts })
        }),
        Wanted::Rosters(accounts) => rosters(control, accounts),
        Wanted::LastLogins(accounts) => last_logins(control, accounts),
        Wanted::Count(of) => count(control, *of).map(Outcome::Count),
        Wanted::List { of, after, most } => list(control, *of, after.as_deref(), *most),
        Wanted::Announce(text) => {
            ask(Ask::Announce { text: text.to_string(), online: true, later_s: None }).map(|_| Outcome::Done)
        }
        Wanted::SetMotd(text) => {
            let later_s = Some(ANNOUNCED_FOR.as_secs());
            ask(Ask::Announce { text: text.to_string(), online: true, later_s }).map(|_| Outcome::Done)
        }
        Wanted::EditMotd(text) => ask(Ask::EditAnnouncement { text: text.to_string() }).map(|_| Outcome::Done),
        Wanted::SetWelcome(text) => {
            let set = Ask::SetKnob { key: "welcome".to_owned(), value: text.to_string(), for_s: None };
            ask(set).map(|_| Outcome::Noted(WELCOME_NOTE.to_owned()))
        }
        Wanted::DeleteMotd => ask(Ask::WithdrawAnnouncement {}).map(|_| Outcome::Done),
        Wanted::Say { to, text } => {
            let to = Audience::These(to.iter().map(|jid| jid.to_string()).collect());
            counted(ask(Ask::Say { text: text.to_string(), to, urgent: false }))
        }
        Wanted::ListReports { after, most } => {
            control.reports(after.as_deref(), *most).map(|page| Outcome::Listing(seen::reports(page)))
        }
        Wanted::DismissReports(ids) => {
            ask(Ask::Dismiss { ids: ids.iter().map(|id| id.to_string()).collect() }).map(|_| Outcome::Done)
        }
        Wanted::Status => Ok(Outcome::Facts(seen::status(control.status()))),
        Wanted::ListComponents => control.components().map(|rows| Outcome::Listing(seen::components(rows))),
        Wanted::ListLimits => control.limits().map(|held| Outcome::Listing(seen::limits(held))),
        Wanted::Release(whom) => counted(ask(Ask::Release { whom: release(whom) })),
        Wanted::ListKnobs => {
            let rows = control.knobs().into_iter().filter(|row| !is_for_the_host(&row.key));
            Ok(Outcome::Listing(seen::knobs(rows)))
        }
        Wanted::SetKnob { key, value, for_s } => {
            let key = key.to_string();
            let turned = ask(match value {
                Some(value) => Ask::SetKnob { key, value: value.to_string(), for_s: *for_s },
                None => Ask::ResetKnobs { key: Some(key) },
            });
            turned.and_then(|done| match done {
                Done::Turned(changes) => Ok(Outcome::Listing(seen::changes(changes))),
                _ => Err(strange()),
            })
        }
        Wanted::FlushQueue(jids) => each(jids, |jid| ask(Ask::FlushQueue { jid })),
        Wanted::FlushWaiting(jids) => each(jids, |jid| ask(Ask::FlushWaiting { jid })),
        Wanted::Reload => ask(Ask::Reload {}).and_then(|done| match done {
            Done::Reloaded(reloaded) => Ok(Outcome::Facts(seen::reloaded(reloaded))),
            _ => Err(strange()),
        }),
        Wanted::Shutdown { after_s, text } => shut_down(*after_s, text.as_deref(), ask),
        Wanted::CancelShutdown => ask(Ask::CancelShutdown {}).map(|_| Outcome::Done),
    };
    outcome.unwrap_or_else(refused)
}

fn strange() -> Fault {
    Fault::new(FaultKind::Internal, "an answer to another question")
}

fn counted(answer: Result<Done, Fault>) -> Result<Outcome, Fault> {
    match answer? {
        Done::Count(count) => Ok(Outcome::Count(count)),
        _ => Err(strange()),
    }
}

/// Whether an option may only be changed on the server's host: the list of administrators. A stolen
/// account can thus neither appoint administrators nor keep itself on the list.
fn is_for_the_host(key: &str) -> bool {
    key == "admins"
}

fn release(whom: &str) -> Release {
    match (whom, whom.parse()) {
        ("all", _) => Release::All,
        (_, Ok(address)) => Release::Address(address),
        (account, Err(_)) => Release::Account(account.to_owned()),
    }
}

/// Announces the stop first; if that fails, the server does not stop.
fn shut_down(after_s: u64, text: Option<&str>, ask: impl Fn(Ask) -> Result<Done, Fault>) -> Result<Outcome, Fault> {
    if let Some(text) = text {
        ask(Ask::Announce { text: text.to_owned(), online: true, later_s: None })?;
    }
    ask(Ask::Shutdown { grace_s: None, after_s: Some(after_s) }).map(|_| Outcome::Done)
}

fn invite(
    by: &str,
    local: Option<&str>,
    befriends: bool,
    ask: impl Fn(Ask) -> Result<Done, Fault>,
) -> Result<Outcome, Fault> {
    let inviter = by.split('/').next().unwrap_or_default();
    let domain = inviter.split_once('@').map_or("", |(_, domain)| domain);
    let new = NewInvite {
        user: local.map(|local| format!("{local}@{domain}")),
        inviter: Some(inviter.to_owned()),
        befriends,
        uses: 1,
        most: INVITATIONS_INVITER_MAX,
        ..NewInvite::default()
    };
    match ask(Ask::Invite { new })? {
        Done::Invited(Invited { uri, page, until_s, .. }) => Ok(Outcome::Invited { uri, page, until_s }),
        _ => Err(strange()),
    }
}

fn refused(fault: Fault) -> Outcome {
    let why = match fault.kind {
        FaultKind::NotFound => Why::NotFound,
        FaultKind::Exists => Why::Exists,
        FaultKind::Invalid => Why::Invalid,
        FaultKind::Busy => Why::Busy,
        FaultKind::Internal => Why::Internal,
    };
    Outcome::Refused { why, text: fault.text }
}

fn put(answer: Result<Done, Fault>) -> Result<Outcome, Fault> {
    let fault = |kind, text: &str| Err(Fault::new(kind, text));
    match answer? {
        Done::Put(put) => match put.first() {
            Some(Put::Added | Put::Updated) => Ok(Outcome::Done),
            Some(Put::Exists | Put::Skipped) => fault(FaultKind::Exists, "there is such a user"),
            Some(Put::Missing) => fault(FaultKind::NotFound, "there is no such user"),
            Some(Put::Invalid(why)) => fault(FaultKind::Invalid, why),
            None => fault(FaultKind::Internal, "no answer"),
        },
        _ => Err(strange()),
    }
}

/// A note for the administrator that has set the welcome message.
const WELCOME_NOTE: &str = "This applies until the server restarts. To make it permanent, set welcome in throng.toml.";

/// Approximate bytes of rosters that one order returns; one roster always fits.
const ROSTERS_BYTES_MAX: usize = 256 << 10;

/// Carries out an order for one address after another. A single failure is reported as such; for
/// several addresses, the failed ones are listed.
fn each(of: &[Box<str>], carry_out: impl Fn(String) -> Result<Done, Fault>) -> Result<Outcome, Fault> {
    gather(of, |jid| carry_out(jid.to_owned()).map(drop), |_| Outcome::Done)
}

/// The same, collecting the results.
fn gather<T>(
    of: &[Box<str>],
    mut look: impl FnMut(&str) -> Result<T, Fault>,
    outcome: impl FnOnce(Vec<(&str, T)>) -> Outcome,
) -> Result<Outcome, Fault> {
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for jid in of {
        match look(jid) {
            Ok(one) => found.push((&**jid, one)),
            Err(fault) if of.len() == 1 => return Err(fault),
            Err(fault) => failed.push(format!("{jid}: {fault}")),
        }
    }
    let rest = outcome(found);
    Ok(if failed.is_empty() { rest } else { Outcome::Partly { rest: Box::new(rest), failed } })
}

fn rosters(control: &dyn Control, accounts: &[Box<str>]) -> Result<Outcome, Fault> {
    let mut bytes = 0;
    let look = |account: &str| {
        if bytes > ROSTERS_BYTES_MAX {
            return Err(Fault::new(FaultKind::Busy, "the answer is full: request this roster alone"));
        }
        let roster = control.account_seen(account)?.roster;
        bytes += roster.len();
        Ok(roster)
    };
    gather(accounts, look, |all| {
        Outcome::Rosters(all.into_iter().map(|(jid, roster)| (jid.to_owned(), roster)).collect())
    })
}

/// The time of login is known only for online users; for others, when they were last online.
fn last_logins(control: &dyn Control, accounts: &[Box<str>]) -> Result<Outcome, Fault> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let look = |account: &str| {
        let known = control.account_seen(account)?;
        let sessions = control.sessions(Some(account), None, ROWS_PER_PAGE_MAX)?.rows;
        let age_s = sessions.iter().filter(|row| !row.resumable).map(|row| row.age_s).min();
        let at = |var, at_s| Ok((var, utc(at_s)));
        match (age_s, known.last_seen_s) {
            (Some(age_s), _) => at("lastlogin", now_s.saturating_sub(age_s)),
            (None, Some(seen_s)) => at("lastseen", seen_s),
            (None, None) => Err(Fault::new(FaultKind::NotFound, "has never logged in")),
        }
    };
    gather(accounts, look, |all| {
        let of = |var: &'static str| {
            let times: Vec<String> =
                all.iter().filter(|(_, (is, _))| *is == var).map(|(_, (_, at))| at.clone()).collect();
            Some((var, times)).filter(|(_, times)| !times.is_empty())
        };
        // By time: the online users first.
        let jids = ["lastlogin", "lastseen"]
            .iter()
            .flat_map(|var| all.iter().filter(move |(_, (is, _))| is == var).map(|(jid, _)| (*jid).to_owned()));
        let facts = std::iter::once(("accountjids", jids.collect())).chain(of("lastlogin")).chain(of("lastseen"));
        Outcome::Facts(facts.collect())
    })
}

/// Whether a session belongs to this group: connected, and recently active or not.
fn is_of(of: Users, row: &SessionRow) -> bool {
    let idle = row.idle_s >= ADHOC_IDLE_S;
    match of {
        Users::Registered | Users::Disabled | Users::Online => true,
        Users::Active => !row.resumable && !idle,
        Users::Idle => !row.resumable && idle,
    }
}

/// Counts users page by page, as `throng user list` and `throng ctl sessions` do.
fn count(control: &dyn Control, of: Users) -> Result<u64, Fault> {
    if of == Users::Online {
        return Ok(control.status().sessions);
    }
    let (mut count, mut after) = (0, None);
    loop {
        let (found, next) = match of {
            Users::Registered => {
                let page = control.list(after.as_deref(), ROWS_PER_PAGE_MAX)?;
                (page.rows.len(), page.next)
            }
            Users::Disabled => {
                let page = control.suspended(after.as_deref(), ROWS_PER_PAGE_MAX)?;
                (page.rows.len(), page.next)
            }
            Users::Online | Users::Active | Users::Idle => {
                let page = control.sessions(None, after.as_deref(), ROWS_PER_PAGE_MAX)?;
                (page.rows.iter().filter(|row| is_of(of, row)).count(), page.next)
            }
        };
        count += found as u64;
        match next {
            Some(next) => after = Some(next),
            None => return Ok(count),
        }
    }
}

/// A page of users without duplicates.
fn list(control: &dyn Control, of: Users, after: Option<&str>, most: usize) -> Result<Outcome, Fault> {
    let (jids, next): (BTreeSet<String>, _) = match of {
        Users::Registered | Users::Disabled => {
            let page = if of == Users::Disabled { control.suspended(after, most) } else { control.list(after, most) }?;
            (page.rows.into_iter().map(|row| row.user).collect(), page.next)
        }
        Users::Online | Users::Active | Users::Idle => {
            let page = control.sessions(None, after, most)?;
            let rows = page.rows.into_iter().filter(|row| is_of(of, row));
            let bare = |row: SessionRow| row.jid.split('/').next().unwrap_or_default().to_owned();
            (rows.map(bare).collect(), page.next)
        }
    };
    Ok(Outcome::Users { jids: jids.into_iter().collect(), next })
}
