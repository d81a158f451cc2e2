//! Orders of administrators who are users (XEP-0133), as requests of the control socket: the same code carries them out, and
//! the same lines of the log tell of them.

use std::collections::BTreeSet;

use throng_engine::limits::{ADHOC_ROWS_MAX, INVITATIONS_INVITER_MAX};
use throng_engine::orders::{Order, Outcome, SessionSeen, Wanted, Why};

use super::protocol::{Ask, Done};
use super::socket::answer;
use super::{
    ANNOUNCED_FOR, Control, Existing, Fault, FaultKind, Invited, NewAccount, NewInvite, Put, ROWS_PER_PAGE_MAX,
    ScramKeys, orders,
};
use crate::audit::By;

/// Carries one out.
pub fn carry_out(control: &dyn Control, order: &Order) -> Outcome {
    let ask = |ask: Ask| {
        let named = orders::order(&ask);
        let answered = answer(control, ask);
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
        Wanted::End(jids) => each(jids, |jid| ask(Ask::Kick { jid, reason: None })),
        Wanted::Invite { local, befriends } => invite(&order.by, local.as_deref(), *befriends, ask),
        Wanted::ListApplicants => control.applicants().map(|rows| {
            let jids = rows.into_iter().take(ADHOC_ROWS_MAX).map(|row| row.user).collect();
            Outcome::Applicants { jids }
        }),
        Wanted::Decide { accounts, approve } => each(accounts, |user| ask(Ask::Decide { user, approve: *approve })),
        Wanted::Sessions(account) => {
            control.sessions(Some(account), None, ROWS_PER_PAGE_MAX).map(|page| Outcome::Sessions(seen(page.rows)))
        }
        Wanted::CountRegistered => registered(control).map(Outcome::Count),
        Wanted::CountOnline => Ok(Outcome::Count(control.status().sessions)),
        Wanted::ListOnline { after, most } => control.sessions(None, after.as_deref(), *most).map(|page| {
            let bare = |row: super::SessionRow| row.jid.split('/').next().unwrap_or_default().to_owned();
            let jids: BTreeSet<String> = page.rows.into_iter().map(bare).collect();
            Outcome::Users { jids: jids.into_iter().collect(), next: page.next }
        }),
        Wanted::Announce(text) => {
            ask(Ask::Announce { text: text.to_string(), online: true, later_s: None }).map(|_| Outcome::Done)
        }
        Wanted::SetMotd(text) => {
            let later_s = Some(ANNOUNCED_FOR.as_secs());
            ask(Ask::Announce { text: text.to_string(), online: true, later_s }).map(|_| Outcome::Done)
        }
        Wanted::DeleteMotd => ask(Ask::WithdrawAnnouncement {}).map(|_| Outcome::Done),
    };
    outcome.unwrap_or_else(refused)
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
        _ => Err(Fault::new(FaultKind::Internal, "an answer to another question")),
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
        _ => fault(FaultKind::Internal, "an answer to another question"),
    }
}

/// One after another. Of a single one its fault is told, of several those that have failed.
fn each(of: &[Box<str>], carry_out: impl Fn(String) -> Result<Done, Fault>) -> Result<Outcome, Fault> {
    let mut failed = Vec::new();
    for jid in of {
        match carry_out(jid.to_string()) {
            Ok(_) => {}
            Err(fault) if of.len() == 1 => return Err(fault),
            Err(fault) => failed.push(format!("{jid}: {fault}")),
        }
    }
    Ok(if failed.is_empty() { Outcome::Done } else { Outcome::Partly(failed) })
}

fn seen(rows: Vec<super::SessionRow>) -> Vec<SessionSeen> {
    let resource = |jid: &str| jid.split_once('/').map(|(_, resource)| resource.to_owned()).unwrap_or_default();
    rows.into_iter().map(|row| SessionSeen { resource: resource(&row.jid), address: row.address }).collect()
}

/// How many accounts there are: page by page, as `throng user list` has them.
fn registered(control: &dyn Control) -> Result<u64, Fault> {
    let (mut count, mut after) = (0, None);
    loop {
        let page = control.list(after.as_deref(), ROWS_PER_PAGE_MAX)?;
        count += page.rows.len() as u64;
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(count),
        }
    }
}
