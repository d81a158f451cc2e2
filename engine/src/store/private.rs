//! Rows of the private table: XML that a client stores for itself (XEP-0049), and what the server
//! records for an account besides its roster.
//!
//! Sort keys of stored elements are namespace, NUL, name; neither can contain a NUL (XML 1.0 2.2).
//! Sort keys that begin with NUL are the server's own.

use super::{Batch, Query, Table};
use crate::limits::{LAST_STATUS_BYTES_MAX, PRIVATE_BYTES_MAX, PRIVATE_ELEMENTS_MAX, beginning};

pub(super) const LAST: &[u8] = b"\0last";
/// Prefix of the sort keys of extensions' records.
pub(super) const OWN: &[u8] = b"\0extension/";
const FORMAT: u8 = 1;

/// The sort key of a stored element.
pub fn key(namespace: &str, name: &str) -> Box<[u8]> {
    [namespace.as_bytes(), b"\0", name.as_bytes()].concat().into()
}

/// The sort key of the record that the extension of this name stores for a user.
pub fn own_key(extension: &str) -> Box<[u8]> {
    [OWN, extension.as_bytes()].concat().into()
}

/// The query for one stored element.
pub fn get(account: &str, key: &[u8]) -> Query {
    Query::Get { table: Table::Private, actor: account.as_bytes().into(), sort: key.into() }
}

/// The query for all stored elements, one more than the limit.
pub fn all(account: &str) -> Query {
    Query::Range {
        table: Table::Private,
        actor: account.as_bytes().into(),
        from: Box::new([1]),
        until: None,
        reverse: false,
        rows_max: PRIVATE_ELEMENTS_MAX as u32 + 1,
        bytes_max: PRIVATE_BYTES_MAX as u32 + 1,
    }
}

/// Writes an element.
pub fn put(batch: &mut Batch, account: &str, key: &[u8], element: &[u8]) {
    batch.put(Table::Private, account.as_bytes(), key, &[element]);
}

/// Removes an element.
pub fn delete(batch: &mut Batch, account: &str, key: &[u8]) {
    batch.delete(Table::Private, account.as_bytes(), key);
}

/// When the last session of an account ended (XEP-0012 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastLogout<'a> {
    /// The end of its last session, microseconds since the Unix epoch.
    pub at_us: u64,
    /// The status of its unavailable presence; empty if there was none.
    pub status: &'a str,
}

impl<'a> LastLogout<'a> {
    /// Reads the row; `None` if its format is unknown.
    pub fn decode(row: &'a [u8]) -> Option<LastLogout<'a>> {
        let (&FORMAT, rest) = row.split_first()? else {
            return None;
        };
        let (at_us, status) = rest.split_first_chunk::<8>()?;
        Some(LastLogout { at_us: u64::from_be_bytes(*at_us), status: std::str::from_utf8(status).ok()? })
    }
}

/// The query for the last logout.
pub fn get_last(account: &str) -> Query {
    get(account, LAST)
}

/// Writes the last logout; a long status is truncated.
pub fn put_last(batch: &mut Batch, account: &str, last: LastLogout<'_>) {
    let status = beginning(last.status, LAST_STATUS_BYTES_MAX);
    batch.put(Table::Private, account.as_bytes(), LAST, &[&[FORMAT], &last.at_us.to_be_bytes(), status.as_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;

    #[test]
    fn a_logout_reads_back_and_a_long_status_is_cut_between_characters() {
        let status = "\u{e9}".repeat(LAST_STATUS_BYTES_MAX);
        let mut batch = Batch::new();
        put_last(&mut batch, "a@x", LastLogout { at_us: 7, status: &status });
        let Some(OpView::Put { value, sort, .. }) = batch.iter().next() else { panic!("a write") };
        let last = LastLogout::decode(value).unwrap();
        assert_eq!((last.at_us, last.status), (7, &status[..LAST_STATUS_BYTES_MAX / 2 * 2]));
        // The server's own rows are not among the client's elements.
        let Query::Range { from, .. } = all("a@x") else { panic!("a range") };
        assert!(sort < &from[..]);
        assert!(LastLogout::decode(b"").is_none() && LastLogout::decode(b"\x02").is_none());
    }
}
