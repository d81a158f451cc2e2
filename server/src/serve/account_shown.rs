//! The stored data of an account, for an operator.

use throng_engine::store::account::{Credentials, Standing};
use throng_engine::store::private::{self, LastLogout};
use throng_engine::store::{Found, Query, Table};

use super::Rows;
use super::names::fault;
use crate::admin::{AccountShown, AccountStanding, Fault, FaultKind, StoredShown};

/// Most bytes counted per kind: more would take longer than a client of the control socket should
/// wait.
const COUNTED_BYTES_MAX: u64 = 64 << 20;

/// Rows and bytes per read.
const PAGE_ROWS: u32 = 4_096;
const PAGE_BYTES: u32 = 4 << 20;

/// The kinds of rows that a user has, with their names.
const SORTS: [(&str, Table); 7] = [
    ("archive", Table::Archive),
    ("waiting", Table::Waiting),
    ("contacts", Table::Roster),
    ("private", Table::Private),
    ("nodes", Table::Nodes),
    ("sessions", Table::Sessions),
    ("invitations", Table::Invitations),
];

/// The stored data of the account with this normalised bare JID.
///
/// # Errors
/// There is no such account, or the store cannot be read.
pub(super) fn of(engine: &Rows, jid: &str) -> Result<AccountShown, Fault> {
    let get = |query: &Query| engine.read(query).map(Found::value).map_err(|error| fault(&error));
    let query = Query::Get { table: Table::Accounts, actor: jid.as_bytes().into(), sort: Box::default() };
    let record = get(&query)?.ok_or_else(|| Fault::new(FaultKind::NotFound, format!("there is no user {jid}")))?;
    let credentials = Credentials::decode(&record).ok();
    let last = get(&private::get_last(jid))?;
    let mut stored = Vec::with_capacity(SORTS.len());
    for (what, table) in SORTS {
        stored.push(count(engine, jid, what, table)?);
    }
    Ok(AccountShown {
        user: jid.to_owned(),
        standing: match credentials.as_ref().map(Credentials::standing) {
            Some(Standing::InUse) => AccountStanding::InUse,
            Some(Standing::Applies) => AccountStanding::WaitsForApproval,
            Some(Standing::Suspended) => AccountStanding::Suspended,
            None => AccountStanding::Damaged,
        },
        created_s: credentials.map(|credentials| credentials.created_us() / 1_000_000),
        last_seen_s: last.and_then(|row| Some(LastLogout::decode(&row)?.at_us / 1_000_000)),
        sessions: Vec::new(),
        stored,
        held: Vec::new(),
    })
}

pub(super) fn count(engine: &Rows, jid: &str, what: &str, table: Table) -> Result<StoredShown, Fault> {
    let mut counted = StoredShown { what: what.to_owned(), rows: 0, bytes: 0, more: false };
    let mut from = Box::<[u8]>::default();
    loop {
        let query = Query::Range {
            table,
            actor: jid.as_bytes().into(),
            from,
            until: None,
            reverse: false,
            rows_max: PAGE_ROWS,
            bytes_max: PAGE_BYTES,
        };
        let Found::Rows { rows, more } = engine.read(&query).map_err(|error| fault(&error))? else { break };
        counted.rows += rows.len() as u64;
        counted.bytes += rows.iter().map(|row| (row.sort.len() + row.value.len()) as u64).sum::<u64>();
        let Some(last) = rows.last().filter(|_| more) else { break };
        if counted.bytes >= COUNTED_BYTES_MAX {
            counted.more = true;
            break;
        }
        from = [&*last.sort, &[0]].concat().into();
    }
    Ok(counted)
}
