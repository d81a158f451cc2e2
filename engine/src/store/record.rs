//! What is stored with an account and needed whenever something comes for its user: small records of
//! extensions, beside the account's own record in [`Table::Accounts`]. One range reads all of it.
//! Most users have none of them.
//!
//! The sort key is the record's name. That of the account's own record is empty.

use super::{Batch, Found, Query, Row, Table, nodes};

/// The addresses that the user blocks.
pub const BLOCKING: &str = "blocking";
/// The preferences of the archive.
pub const MAM: &str = "mam";
/// The hash of the photo in the user's presence.
pub const PHOTO: &str = "photo";
/// The registrations for push notifications.
pub const PUSH: &str = "push";

/// All names, in order.
pub const NAMES: [&str; 4] = [BLOCKING, MAM, PHOTO, PUSH];

/// Rows that are read at once: the account's own, all records, and one of those that follow. These
/// name nodes of which the user has missed items ([`Named::Missed`](nodes::Named::Missed)).
const ROWS_MAX: u32 = 2 + NAMES.len() as u32;

/// The query for the account, all its records, and whether the user has missed items of nodes.
/// [`AccountRows::of`] reads the answer.
pub fn query_all(account: &str) -> Query {
    Query::Range {
        table: Table::Accounts,
        actor: account.as_bytes().into(),
        from: Box::default(),
        until: None,
        reverse: false,
        rows_max: ROWS_MAX,
        bytes_max: u32::MAX,
    }
}

/// The query for one record.
pub fn query(account: &str, name: &str) -> Query {
    Query::Get { table: Table::Accounts, actor: account.as_bytes().into(), sort: name.as_bytes().into() }
}

/// Writes a record.
pub fn put(batch: &mut Batch, account: &str, name: &str, row: &[u8]) {
    batch.put(Table::Accounts, account.as_bytes(), name.as_bytes(), &[row]);
}

/// Removes a record.
pub fn delete(batch: &mut Batch, account: &str, name: &str) {
    batch.delete(Table::Accounts, account.as_bytes(), name.as_bytes());
}

/// An account with its records.
#[derive(Debug, Default)]
pub struct AccountRows(Vec<Row>);

impl AccountRows {
    /// Reads the answer to [`query_all`]; without rows if it is damaged.
    pub fn of(found: Found) -> AccountRows {
        match found {
            Found::Rows { rows, .. } => AccountRows(rows),
            Found::Value(_) | Found::Damaged => AccountRows::default(),
        }
    }

    /// The account's own record, if the account exists.
    pub fn account(&self) -> Option<&[u8]> {
        self.record("")
    }

    /// The record of this name.
    pub fn record(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|row| *row.sort == *name.as_bytes()).map(|row| &*row.value)
    }

    /// Whether the user has missed items of nodes.
    pub fn has_missed(&self) -> bool {
        self.0.last().is_some_and(|row| row.sort.first() == Some(&nodes::MISSED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;

    fn row(op: OpView<'_>) -> Row {
        match op {
            OpView::Put { table: Table::Accounts, sort, value, .. } => Row { sort: sort.into(), value: value.into() },
            _ => panic!("only puts of accounts"),
        }
    }

    #[test]
    fn an_account_reads_back_with_its_records() {
        let mut batch = Batch::new();
        batch.put(Table::Accounts, b"a@x", b"", &[b"keys"]);
        put(&mut batch, "a@x", MAM, b"prefs");
        let rows = AccountRows::of(Found::Rows { rows: batch.iter().map(row).collect(), more: false });
        assert_eq!([rows.account(), rows.record(MAM), rows.record(PUSH)], [Some(&b"keys"[..]), Some(b"prefs"), None]);
        assert!(!rows.has_missed() && AccountRows::of(Found::Damaged).account().is_none());
        nodes::Named::Missed.note(&mut batch, "a@x", "pubsub.x/n");
        assert!(AccountRows::of(Found::Rows { rows: batch.iter().map(row).collect(), more: false }).has_missed());
        assert!(NAMES.iter().all(|name| name.as_bytes()[0] < nodes::MISSED));
        assert!(NAMES.is_sorted());
    }
}
