//! Accounts of a store at rest.

use std::ops::ControlFlow;
use std::sync::Arc;

use throng_engine::extension::roster::Roster;
use throng_engine::id::Domains;
use throng_engine::store::account::{self, Credentials, Incarnation, Standing};
use throng_engine::store::private::{self, LastLogout};
use throng_engine::store::{Batch, Found, Query, Table, invitation, report, roster};
use throng_engine::wire::jid::Jid;

use super::invites::{self, Inviting};
use super::names::fault;
pub(super) use super::names::{prepare, prepare_account, prepare_kept};
use super::{Rows, account_shown, reports};
use crate::admin::{
    AccountRow, AccountSeen, AccountShown, Accounts, ApplicantRow, Existing, Fault, FaultKind, InviteRow, Invited,
    NewAccount, NewInvite, Page, Put, ReportRow, ScramKeys,
};
use crate::disk::Engine;
use crate::entropy::Entropy;

/// The accounts of a store that no server uses.
pub(super) struct AtRest {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) domains: Domains,
    inviting: Inviting,
}

impl AtRest {
    pub(super) fn new(engine: Arc<dyn Engine>, domains: Domains, inviting: Inviting) -> AtRest {
        AtRest { engine, domains, inviting }
    }
}

/// These keys, with the current time as their creation time.
pub(super) fn credentials(keys: &ScramKeys) -> Credentials {
    keys.credentials(throng_recorder::clock::wall_us())
}

/// Up to `limit` accounts after one, from the store.
pub(super) fn list(engine: &Rows, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault> {
    let mut rows = Vec::new();
    let mut next = None;
    let mut visit = |actor: &[u8]| {
        if rows.len() >= limit {
            next = rows.last().map(|row: &AccountRow| row.user.clone());
            return ControlFlow::Break(());
        }
        let bare = String::from_utf8_lossy(actor);
        rows.push(AccountRow { user: bare.into_owned() });
        ControlFlow::Continue(())
    };
    let after = after.map(str::as_bytes);
    engine.for_each_actor(Table::Accounts, after, &mut visit).map_err(|error| fault(&error))?;
    // A record may have been written for an account that was being removed.
    rows.retain(|row| !matches!(record_of(engine, &row.user), Ok(None)));
    Ok(Page { rows, next })
}

/// The suspended ones among such a page.
pub(super) fn suspended(engine: &Rows, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault> {
    let Page { rows, next } = list(engine, after, limit)?;
    let mut suspended = Vec::new();
    for row in rows {
        let record = record_of(engine, &row.user)?;
        if record.is_some_and(|record| Standing::of_record(&record) == Standing::Suspended) {
            suspended.push(row);
        }
    }
    Ok(Page { rows: suspended, next })
}

impl Accounts for AtRest {
    fn domain(&self) -> Result<String, Fault> {
        Ok(self.domains.main().to_owned())
    }

    fn put(&self, batch: Vec<NewAccount>, existing: Existing) -> Result<Vec<Put>, Fault> {
        let engine = &self.engine;
        let (mut writes, mut results) = (Batch::new(), Vec::with_capacity(batch.len()));
        let mut written = std::collections::BTreeMap::new();
        let mut entropy = Entropy::open().map_err(|error| Fault::new(FaultKind::Internal, error.to_string()))?;
        for new in batch {
            let bare = match prepare_kept(&new.user, &self.domains) {
                Ok(jid) => jid.as_str().to_owned(),
                Err(why) => {
                    results.push(Put::Invalid(why));
                    continue;
                }
            };
            let there = match written.get(&bare) {
                Some(incarnation) => Some(*incarnation),
                None => incarnation(&**engine, &bare)?,
            };
            let result = decide(there.is_some(), existing);
            if matches!(result, Put::Added | Put::Updated) {
                let fresh = entropy.fresh().map_err(|error| Fault::new(FaultKind::Internal, error.to_string()))?;
                let incarnation = there.unwrap_or_else(|| Incarnation::drawn(u64::from_be_bytes(fresh)));
                // An account that waits for approval keeps waiting, and a suspended one stays
                // suspended.
                let before = record_of(&**engine, &bare)?.and_then(|record| Credentials::decode(&record).ok());
                let mut credentials = credentials(&new.keys).of(incarnation);
                credentials.set_standing(before.map_or(Standing::InUse, |before| before.standing()));
                account::put(&mut writes, &bare, &credentials);
                // Resumable sessions are removed together with the password under which they began.
                writes.delete_actor(Table::Sessions, bare.as_bytes());
                written.insert(bare, incarnation);
            }
            results.push(result);
        }
        if !writes.is_empty() {
            engine.commit(&[writes]).map_err(|error| fault(&error))?;
        }
        Ok(results)
    }

    fn delete(&self, user: &str) -> Result<(), Fault> {
        let engine = &self.engine;
        let jid = prepare_account(user, &self.domains).map_err(|why| Fault::new(FaultKind::Invalid, why))?;
        let bare = jid.as_str();
        if incarnation(&**engine, bare)?.is_none() {
            return Err(Fault::new(FaultKind::NotFound, format!("there is no user {bare}")));
        }
        let mut writes = leave_contacts(&**engine, bare)?;
        for table in Table::ALL.into_iter().filter(|&table| table != Table::Meta) {
            writes.delete_actor(table, bare.as_bytes());
        }
        engine.commit(&[writes]).map_err(|error| fault(&error))
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault> {
        list(&*self.engine, after, limit)
    }

    fn invite(&self, new: &NewInvite) -> Result<Invited, Fault> {
        let engine = &*self.engine;
        let (actor, new) = self.inviting.plan(new, &self.domains)?;
        let there = actor.contains('@') && incarnation(engine, &actor)?.is_some();
        let (token, invitation, writes) = invites::made(&self.inviting, engine, &actor, &new, there)?;
        engine.commit(&[writes]).map_err(|error| fault(&error))?;
        Ok(self.inviting.links(&actor, &invitation, &token))
    }

    fn invitations(&self, after: Option<&str>, limit: usize) -> Result<Page<InviteRow>, Fault> {
        invites::list(&*self.engine, after, limit)
    }

    fn revoke(&self, actor: &str, id: &str) -> Result<(), Fault> {
        let writes = invites::revoked(&*self.engine, actor, invites::read_id(id)?)?;
        self.engine.commit(&[writes]).map_err(|error| fault(&error))
    }

    fn applicants(&self) -> Result<Vec<ApplicantRow>, Fault> {
        invites::applicants(&*self.engine, &self.domains)
    }

    fn decide(&self, user: &str, approve: bool) -> Result<(), Fault> {
        let jid = prepare_account(user, &self.domains).map_err(|why| Fault::new(FaultKind::Invalid, why))?;
        let record = record_of(&*self.engine, jid.as_str())?.and_then(|record| Credentials::decode(&record).ok());
        let Some(mut credentials) = record.filter(|found| found.standing() == Standing::Applies) else {
            return Err(Fault::new(FaultKind::NotFound, format!("there is no account {jid} that waits for approval")));
        };
        let mut writes = Batch::new();
        invitation::delete_applicant(&mut writes, jid.domain(), jid.as_str());
        if approve {
            credentials.set_standing(Standing::InUse);
            let mut record = Vec::new();
            credentials.encode(&mut record);
            writes.put(Table::Accounts, jid.as_str().as_bytes(), &[], &[&record]);
        }
        self.engine.commit(&[writes]).map_err(|error| fault(&error))?;
        if approve { Ok(()) } else { self.delete(user) }
    }

    fn suspend(&self, user: &str, suspended: bool) -> Result<u64, Fault> {
        let jid = prepare_account(user, &self.domains).map_err(|why| Fault::new(FaultKind::Invalid, why))?;
        let record = record_of(&*self.engine, jid.as_str())?;
        let record = record.ok_or_else(|| Fault::new(FaultKind::NotFound, format!("there is no user {jid}")))?;
        let decoded = Credentials::decode(&record);
        let mut credentials = decoded.map_err(|error| Fault::new(FaultKind::Internal, format!("{jid}: {error}")))?;
        if credentials.standing() == Standing::Applies {
            return Err(applies(jid.as_str()));
        }
        credentials.set_standing(if suspended { Standing::Suspended } else { Standing::InUse });
        let mut writes = Batch::new();
        account::put(&mut writes, jid.as_str(), &credentials);
        if suspended {
            writes.delete_actor(Table::Sessions, jid.as_str().as_bytes());
        }
        self.engine.commit(&[writes]).map_err(|error| fault(&error))?;
        Ok(0)
    }

    fn show(&self, user: &str) -> Result<AccountShown, Fault> {
        let jid = prepare_account(user, &self.domains).map_err(|why| Fault::new(FaultKind::Invalid, why))?;
        account_shown::of(&*self.engine, jid.as_str())
    }

    fn reports(&self, after: Option<&str>, limit: usize) -> Result<Page<ReportRow>, Fault> {
        reports::list(&*self.engine, &self.domains, after, limit)
    }

    fn dismiss(&self, ids: &[String]) -> Result<u64, Fault> {
        let found = reports::find(&*self.engine, &self.domains, &reports::read_ids(ids)?)?;
        let mut writes = Batch::new();
        found.iter().for_each(|(domain, key)| report::delete(&mut writes, domain, *key));
        self.engine.commit(&[writes]).map_err(|error| fault(&error))?;
        Ok(found.len() as u64)
    }
}

/// The fault for an account that waits for approval: it can be decided on, but not suspended or
/// resumed.
pub(super) fn applies(jid: &str) -> Fault {
    let text = format!("{jid} waits for approval: `throng user approve` or `throng user reject`");
    Fault::new(FaultKind::Invalid, text)
}

/// The outcome for an account, depending on whether it exists.
pub(super) fn decide(exists: bool, existing: Existing) -> Put {
    match (exists, existing) {
        (false, Existing::Require) => Put::Missing,
        (false, _) => Put::Added,
        (true, Existing::Refuse) => Put::Exists,
        (true, Existing::Skip) => Put::Skipped,
        (true, Existing::Update | Existing::Require) => Put::Updated,
    }
}

/// The changes in contacts' rosters when an account is removed: the same as with a running server.
/// A contact's damaged roster is left unchanged; if the account's own roster is damaged, its
/// contacts are unknown.
fn leave_contacts(engine: &Rows, bare: &str) -> Result<Batch, Fault> {
    let load = |owner: &str| -> Result<Option<Roster>, Fault> {
        let found = engine.read(&roster::query(owner)).map_err(|error| fault(&error))?;
        Ok(Roster::load(&found).ok())
    };
    let mut writes = Batch::new();
    let Some(own) = load(bare)? else { return Ok(writes) };
    let mut theirs: Option<(&str, Option<Roster>)> = None;
    for (contact, kind) in own.farewells() {
        let (_, loaded) = match theirs.take().filter(|(of, _)| *of == contact) {
            Some(same) => theirs.insert(same),
            None => theirs.insert((contact, load(contact)?)),
        };
        if let Some(loaded) = loaded {
            loaded.received(contact, bare, kind, 0, b"", &mut writes);
        }
    }
    Ok(writes)
}

/// The stored data of an account.
pub(super) fn seen(engine: &Rows, jid: &Jid) -> Result<AccountSeen, Fault> {
    let bare = jid.as_str();
    if record_of(engine, bare)?.is_none() {
        return Err(Fault::new(FaultKind::NotFound, format!("there is no user {bare}")));
    }
    let read = |query: Query| engine.read(&query).map_err(|error| fault(&error));
    let damaged = |_| Fault::new(FaultKind::Internal, format!("the roster of {bare} cannot be read"));
    let roster = Roster::load(&read(roster::query(bare))?).map_err(damaged)?;
    let last = read(private::get_last(bare))?.value();
    Ok(AccountSeen {
        contacts: roster.listed() as u64,
        roster: roster.get(None).payload,
        last_seen_s: last.as_deref().and_then(LastLogout::decode).map(|last| last.at_us / 1_000_000),
    })
}

/// The record of an account, if there is one.
fn record_of(engine: &Rows, bare: &str) -> Result<Option<Box<[u8]>>, Fault> {
    let query = Query::Get { table: Table::Accounts, actor: bare.as_bytes().into(), sort: Box::default() };
    match engine.read(&query).map_err(|error| fault(&error))? {
        Found::Value(record) => Ok(record),
        Found::Rows { .. } | Found::Damaged => unreachable!("an engine answers a get with a value or an error"),
    }
}

/// The incarnation of the account with this name, if it exists.
fn incarnation(engine: &Rows, bare: &str) -> Result<Option<Incarnation>, Fault> {
    Ok(record_of(engine, bare)?.as_deref().map(Incarnation::of_record))
}
