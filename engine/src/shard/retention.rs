//! Archived messages that are old enough go, whether their users ever come back or not: the host names users of this home
//! a few at a time, slowly, and their rows are read. Nothing depends on who is online.

use crate::io::{Effect, Reply, StorageState};
use crate::shard::{Pending, Shard};
use crate::store::archive::{MailboxRow, id_of};
use crate::store::{Found, Query, Row, Table};

/// Users whose rows are being read.
#[derive(Debug)]
pub(crate) struct RetentionRead {
    token: u64,
    users: Vec<Box<str>>,
}

/// What has to be known of each user: the mailbox's row with the first returned entry, and the oldest archived one.
const QUERIES: usize = 2;

impl Shard {
    /// Looks at the archives of these users (bare JIDs); [`Shard::retention_found`] goes on.
    pub(super) fn retain(&mut self, token: u64, users: Vec<Box<str>>) {
        let old = self.old_before();
        let queries: Vec<Query> = users
            .iter()
            .filter(|_| old > 0)
            .flat_map(|user| {
                let first = |table, until, rows_max| Query::Range {
                    table,
                    partition: user.as_bytes().into(),
                    from: Box::default(),
                    until,
                    reverse: false,
                    rows_max,
                    bytes_max: u32::MAX,
                };
                [first(Table::Mailbox, None, 2), first(Table::Archive, Some(old.to_be_bytes().into()), 1)]
            })
            .collect();
        if queries.is_empty() {
            return self.effects.push(Effect::Reply { token, reply: Reply::Done(0), durable: true });
        }
        self.read(Pending::Retention(RetentionRead { token, users }), queries);
    }

    pub(super) fn retention_found(&mut self, read: RetentionRead, found: Vec<Found>) {
        let reply = match self.storage {
            StorageState::Full => Reply::StoreFull,
            StorageState::Ok => {
                let old = self.old_before();
                let mut trimmed = 0;
                for (user, found) in read.users.iter().zip(found.chunks(QUERIES)) {
                    let until = goes_until(old, found);
                    if until > 0 {
                        self.writes.delete_range(Table::Archive, user.as_bytes(), &[], &until.to_be_bytes());
                        trimmed += 1;
                    }
                }
                Reply::Done(trimmed)
            }
        };
        self.effects.push(Effect::Reply { token: read.token, reply, durable: true });
    }

    /// Ids below this are too old to be kept; 0 if all are kept, or nothing is longer than it waits.
    fn old_before(&self) -> u64 {
        let retention_us = self.settings.retention_s.saturating_mul(1_000_000);
        let old = if self.settings.archive && retention_us > 0 { retention_us } else { u64::MAX };
        self.now.wall_us.saturating_sub(old)
    }
}

/// First id of a user's archive to stay, or 0 if there is nothing to go: what is not delivered stays however old it is,
/// whether it lies behind the cursor or has been returned.
fn goes_until(old: u64, found: &[Found]) -> u64 {
    let [Found::Rows { rows: mailbox, .. }, Found::Rows { rows: archive, .. }] = found else { return 0 };
    let id = |row: &Row| id_of(&row.sort);
    let cursor = mailbox.iter().find(|row| row.sort.is_empty()).and_then(|row| MailboxRow::decode(&row.value));
    let returned = mailbox.iter().find_map(id).unwrap_or(u64::MAX);
    let until = old.min(cursor.unwrap_or_default().cursor).min(returned);
    if archive.first().and_then(id).is_some_and(|oldest| oldest < until) { until } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Batch;

    fn rows(rows: &[(&[u8], &[u8])]) -> Found {
        let row = |(sort, value): &(&[u8], &[u8])| Row { sort: (*sort).into(), value: (*value).into() };
        Found::Rows { rows: rows.iter().map(row).collect(), more: true }
    }

    #[test]
    fn what_is_not_delivered_stays_and_nothing_is_written_for_nothing() {
        let mut batch = Batch::new();
        MailboxRow { cursor: 500, ..MailboxRow::default() }.put(&mut batch, "a@x");
        let Some(crate::store::OpView::Put { value: row, .. }) = batch.iter().next() else { panic!("one row") };
        let (first, returned) = (100u64.to_be_bytes(), 300u64.to_be_bytes());
        let archive = || rows(&[(&first, b"")]);
        let until = |old, mailbox: Found, archive| goes_until(old, &[mailbox, archive]);
        assert_eq!(until(200, rows(&[(b"", row)]), archive()), 200, "by age");
        assert_eq!(until(900, rows(&[(b"", row)]), archive()), 500, "what is behind the cursor waits");
        assert_eq!(until(900, rows(&[(b"", row), (&returned, b"")]), archive()), 300, "and what was returned");
        assert_eq!(until(900, rows(&[(&returned, b"")]), archive()), 0, "without a cursor nothing is delivered");
        assert_eq!(until(900, rows(&[]), archive()), 0);
        assert_eq!(until(100, rows(&[(b"", row)]), archive()), 0, "the oldest is young enough");
        assert_eq!(until(900, rows(&[(b"", row)]), rows(&[])), 0, "there is nothing");
    }
}
