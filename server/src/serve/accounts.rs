//! Accounts of a store at rest.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use throng_engine::extension::roster::Roster;
use throng_engine::id::Domains;
use throng_engine::store::account::{self, Credentials, Incarnation};
use throng_engine::store::{Batch, Found, Query, Table, roster};
use throng_engine::wire::jid::Jid;

use super::Rows;
use crate::admin::{AccountRow, Accounts, Existing, Fault, FaultKind, NewAccount, Page, Put, ScramKeys};
use crate::disk::{DiskError, Engine};
use crate::entropy::Entropy;

/// The accounts of a store that no server uses.
pub(super) struct AtRest {
    engine: Arc<dyn Engine>,
    domains: Domains,
}

impl AtRest {
    pub(super) fn new(engine: Arc<dyn Engine>, domains: Domains) -> AtRest {
        AtRest { engine, domains }
    }
}

fn fault(error: &DiskError) -> Fault {
    Fault::new(FaultKind::Internal, error.to_string())
}

/// A user's JID, normalised; without a domain of the main one.
///
/// # Errors
/// Why it cannot be one.
pub(super) fn prepare(user: &str, domains: &Domains) -> Result<Jid, String> {
    let full = if user.contains('@') { user.to_owned() } else { format!("{user}@{}", domains.main()) };
    let jid = Jid::parse(&full).map_err(|error| error.to_string())?;
    if domains.find_users(jid.domain()).is_none() {
        let served = domains.names().collect::<Vec<_>>().join(", ");
        return Err(format!(
            "{} is not served here, but {served}: the option virtual_hosts adds domains",
            jid.domain()
        ));
    }
    if jid.local().is_none() {
        return Err(format!("{user} is a domain, and no user"));
    }
    Ok(jid)
}

/// The same of an account, which has no resource.
///
/// # Errors
/// Why it cannot be one.
pub(super) fn prepare_account(user: &str, domains: &Domains) -> Result<Jid, String> {
    let jid = prepare(user, domains)?;
    match jid.is_bare() {
        true => Ok(jid),
        false => Err(format!("{user} has a resource: an account has none")),
    }
}

/// These keys, made now.
pub(super) fn credentials(keys: &ScramKeys) -> Credentials {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    keys.credentials(now.as_micros() as u64)
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
    Ok(Page { rows, next })
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
            let bare = match prepare_account(&new.user, &self.domains) {
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
                account::put(&mut writes, &bare, &credentials(&new.keys).of(incarnation));
                // Sessions that wait to be resumed go with the password that they were begun with.
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
}

/// What becomes of an account, by whether there is one.
pub(super) fn decide(exists: bool, existing: Existing) -> Put {
    match (exists, existing) {
        (false, Existing::Require) => Put::Missing,
        (false, _) => Put::Added,
        (true, Existing::Refuse) => Put::Exists,
        (true, Existing::Skip) => Put::Skipped,
        (true, Existing::Update | Existing::Require) => Put::Updated,
    }
}

/// What the removal of an account changes in its contacts' rosters: the same as what they would be told by a running
/// server. A damaged roster is left as it is, and of a damaged roster of its own nobody can be told.
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

/// Which account of this name there is, if there is one.
fn incarnation(engine: &Rows, bare: &str) -> Result<Option<Incarnation>, Fault> {
    let query = Query::Get { table: Table::Accounts, actor: bare.as_bytes().into(), sort: Box::default() };
    match engine.read(&query).map_err(|error| fault(&error))? {
        Found::Value(record) => Ok(record.as_deref().map(Incarnation::of_record)),
        Found::Rows { .. } | Found::Damaged => unreachable!("an engine answers a get with a value or an error"),
    }
}
