//! Archived messages that are old enough go, whether their users ever come back or not: the host names users of this home
//! a few at a time, slowly, and their rows are read. Nothing depends on who is online.

use crate::extension;
use crate::io::{Effect, Reply, StorageState};
use crate::logs::Logs;
use crate::store::archive::{entries, is_void, number_of};
use crate::store::waiting::Cursor;
use crate::store::{Batch, Found, Query, Row, Table, peers};
use crate::turn::pending::{Pending, RetentionRead, get};

/// What has to be known of each user: the cursor, and the oldest rows.
const QUERIES: usize = 2;
/// Rows of a user that are looked at once.
const ROWS_MAX: u32 = 64;
/// Bytes of these.
const BYTES_MAX: u32 = 32 << 10;

impl Logs {
    /// Looks at the archives of these users (bare JIDs); [`Logs::retention_found`] goes on.
    pub(crate) fn retain(&mut self, token: u64, users: Vec<Box<str>>) {
        self.retain_on(RetentionRead { token, users, trimmed: 0 });
    }

    fn retain_on(&mut self, read: RetentionRead) {
        if self.old_before_ms() == 0 || read.users.is_empty() {
            let reply = Reply::Done(read.trimmed);
            return self.effects.push(Effect::Reply { token: read.token, reply, durable: true });
        }
        let queries = read.users.iter().flat_map(|user| {
            let oldest = Query::Range {
                table: Table::Archive,
                actor: user.as_bytes().into(),
                from: Box::default(),
                until: None,
                reverse: false,
                rows_max: ROWS_MAX,
                bytes_max: BYTES_MAX,
            };
            [get(Table::Waiting, user), oldest]
        });
        let queries = queries.collect();
        self.read(Pending::Retention(read), queries);
    }

    pub(crate) fn retention_found(&mut self, mut read: RetentionRead, found: Vec<Found>) {
        if self.storage == StorageState::Full {
            let reply = Reply::StoreFull;
            return self.effects.push(Effect::Reply { token: read.token, reply, durable: true });
        }
        let old_ms = self.old_before_ms();
        let mut again = Vec::new();
        for (user, found) in std::mem::take(&mut read.users).into_iter().zip(found.chunks(QUERIES)) {
            let (until, more) = goes_until(old_ms, found);
            if until > 0 {
                expire(&mut self.writes, &user, until, found);
                self.writes.delete_range(Table::Archive, user.as_bytes(), &[], &until.to_be_bytes());
                peers::delete_below(&mut self.writes, &user, until);
                read.trimmed += 1;
            }
            if more {
                again.push(user);
            }
        }
        // Of these all that was read has gone: there may be more of it.
        read.trimmed -= again.len() as u32;
        self.retain_on(RetentionRead { users: again, ..read });
    }

    /// What came before this, in milliseconds since the Unix epoch, is too old to be kept; 0 if all is kept.
    fn old_before_ms(&self) -> u64 {
        let retention_ms = self.settings.retention_s.saturating_mul(1_000);
        let old = if self.settings.archive && retention_ms > 0 { retention_ms } else { u64::MAX };
        (self.now.wall_us / 1_000).saturating_sub(old)
    }
}

/// Notes of extensions about entries before this number go with them.
fn expire(batch: &mut Batch, user: &str, until: u64, found: &[Found]) {
    let rows = found.iter().filter_map(|found| if let Found::Rows { rows, .. } = found { Some(rows) } else { None });
    for (number, entry) in rows.flatten().filter_map(|row| entries(&row.sort, &row.value)).flatten() {
        if number < until {
            extension::expired(batch, user, &entry);
        }
    }
}

/// First number of a user's archive to stay, or 0 if there is nothing to go; and whether all that was read goes and there is
/// more. What waits for a first session stays however old it is, with all behind it; so does what stands in a row with it.
fn goes_until(old_ms: u64, found: &[Found]) -> (u64, bool) {
    let [Found::Value(cursor), Found::Rows { rows, more }] = found else { return (0, false) };
    let cursor = cursor.as_deref().and_then(Cursor::decode).unwrap_or_default().number;
    let goes = |row: &&Row| {
        // A row that cannot be read stays: nobody could say what was in it.
        let entries = entries(&row.sort, &row.value);
        entries.is_some_and(|entries| {
            entries.iter().all(|(number, entry)| entry.time_ms < old_ms && (*number <= cursor || !entry.waits))
        })
    };
    let old = rows.iter().take_while(goes).count();
    // What makes an entry void goes with it, not before.
    let last = rows[..old].iter().rfind(|row| !is_void(&row.value));
    let until = last.and_then(|row| number_of(&row.sort)).map_or(0, |number| number + 1);
    (until, *more && old == rows.len() && until > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;
    use crate::store::archive::{Entry, put_void};

    /// The rows of entries, each with a number, its time, and whether it waits.
    fn rows(all: &[(u64, u64, bool)], more: bool) -> Found {
        let mut batch = Batch::new();
        for &(number, time_ms, waits) in all {
            Entry { incoming: waits, waits, time_ms, peer: "b@x", xml: b"<message/>", trail: b"" }
                .put(&mut batch, "a@x", number);
            // So that each has a row of its own.
            put_void(&mut batch, "a@x", number);
        }
        let row = |op| match op {
            OpView::Put { sort, value, .. } => Row { sort: sort.into(), value: value.into() },
            _ => panic!("only puts"),
        };
        let mut rows: Vec<Row> = batch.iter().map(row).collect();
        rows.sort_by(|a, b| a.sort.cmp(&b.sort));
        Found::Rows { rows, more }
    }

    fn cursor(number: u64) -> Found {
        let mut batch = Batch::new();
        Cursor { number, ..Cursor::default() }.put(&mut batch, "a@x");
        let Some(OpView::Put { value, .. }) = batch.iter().next() else { panic!("one row") };
        Found::Value(Some(value.into()))
    }

    #[test]
    fn what_is_not_delivered_stays_and_nothing_is_written_for_nothing() {
        let until = |old_ms, cursor, rows| goes_until(old_ms, &[cursor, rows]);
        let all = |more| rows(&[(1, 100, true), (2, 200, true), (3, 300, true)], more);
        assert_eq!(until(250, cursor(9), all(false)), (3, false), "by age");
        assert_eq!(until(900, cursor(1), all(true)), (2, false), "what is behind the cursor waits");
        assert_eq!(until(900, Found::Value(None), all(false)), (0, false), "without a cursor nothing is delivered");
        assert_eq!(until(900, cursor(9), all(true)), (4, true), "all of it, and there is more");
        assert_eq!(until(100, cursor(9), all(true)), (0, false), "the oldest is young enough");
        assert_eq!(until(900, cursor(9), rows(&[], false)), (0, false), "there is nothing");
        let sent = rows(&[(1, 100, false), (2, 200, false)], false);
        assert_eq!(until(900, Found::Value(None), sent), (3, false), "what was only sent waits for nobody");
    }
}
