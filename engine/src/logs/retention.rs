//! Archived messages that are old enough go, whether their users ever come back or not: the host names users of this home
//! a few at a time, slowly, and their rows are read. Nothing depends on who is online.

use crate::extension;
use crate::io::{Effect, Reply, StorageState};
use crate::logs::Logs;
use crate::session::sm::Rows;
use crate::store::archive::{entries, is_void, number_of};
use crate::store::waiting::Cursor;
use crate::store::{Batch, Found, Query, Row, Table, peers, sessions};
use crate::turn::pending::{Pending, RetentionRead, get};

/// What has to be known of each user: the cursor, the oldest rows, and whether there are rows of sessions.
const QUERIES: usize = 3;
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
            [get(Table::Waiting, user), oldest, sessions::query_any(user)]
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
            let [Found::Value(cursor), Found::Rows { rows, more }, sessions] = found else { continue };
            let (until, more) = goes_until(old_ms, cursor.as_deref(), rows, *more);
            if until > 0 {
                self.note_dropped(&user, until, sessions);
                expire(&mut self.writes, &user, until, rows);
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

    /// Entries below a number go of a user who may have sessions. Those of this process have their counts written: these do not
    /// rest on what goes. Of an earlier one's it is to be known that they may.
    fn note_dropped(&mut self, account: &str, below: u64, stored: &Found) {
        let here: Vec<_> = match self.users.find(account) {
            Some(user) => self.users.sessions(&self.sessions, user).map(|(id, _)| id).collect(),
            None => Vec::new(),
        };
        for &id in &here {
            self.rows_due(id, Rows::Counts);
        }
        match stored {
            Found::Rows { rows, .. } if here.is_empty() && !sessions::any(rows) => {
                if !rows.is_empty() {
                    sessions::delete_dropped(&mut self.writes, account);
                }
            }
            _ => sessions::put_dropped(&mut self.writes, account, below),
        }
    }

    /// What came before this, in milliseconds since the Unix epoch, is too old to be kept; 0 if all is kept.
    fn old_before_ms(&self) -> u64 {
        let retention_ms = self.settings.retention_s.saturating_mul(1_000);
        let old = if self.settings.archive && retention_ms > 0 { retention_ms } else { u64::MAX };
        (self.now.wall_us / 1_000).saturating_sub(old)
    }
}

/// Notes of extensions about entries before this number go with them.
fn expire(batch: &mut Batch, user: &str, until: u64, rows: &[Row]) {
    for (number, entry) in rows.iter().filter_map(|row| entries(&row.sort, &row.value)).flatten() {
        if number < until {
            extension::expired(batch, user, number, &entry);
        }
    }
}

/// First number of a user's archive to stay, or 0 if there is nothing to go; and whether all that was read goes and there is
/// more. What waits for a first session stays however old it is, with all behind it; so does what stands in a row with it.
fn goes_until(old_ms: u64, cursor: Option<&[u8]>, rows: &[Row], more: bool) -> (u64, bool) {
    let cursor = cursor.and_then(Cursor::decode).unwrap_or_default().number;
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
    (until, more && old == rows.len() && until > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;
    use crate::store::archive::{Entry, put_void};

    /// The rows of entries, each with a number, its time, and whether it waits.
    fn rows(all: &[(u64, u64, bool)]) -> Vec<Row> {
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
        rows
    }

    fn cursor(number: u64) -> Vec<u8> {
        let mut batch = Batch::new();
        Cursor { number, ..Cursor::default() }.put(&mut batch, "a@x");
        let Some(OpView::Put { value, .. }) = batch.iter().next() else { panic!("one row") };
        value.into()
    }

    #[test]
    fn what_is_not_delivered_stays_and_nothing_is_written_for_nothing() {
        let all = rows(&[(1, 100, true), (2, 200, true), (3, 300, true)]);
        let until = |old_ms, at: Option<u64>, more| goes_until(old_ms, at.map(cursor).as_deref(), &all, more);
        assert_eq!(until(250, Some(9), false), (3, false), "by age");
        assert_eq!(until(900, Some(1), true), (2, false), "what is behind the cursor waits");
        assert_eq!(until(900, None, false), (0, false), "without a cursor nothing is delivered");
        assert_eq!(until(900, Some(9), true), (4, true), "all of it, and there is more");
        assert_eq!(until(100, Some(9), true), (0, false), "the oldest is young enough");
        assert_eq!(goes_until(900, Some(&cursor(9)), &[], false), (0, false), "there is nothing");
        let sent = rows(&[(1, 100, false), (2, 200, false)]);
        assert_eq!(goes_until(900, None, &sent, false), (3, false), "what was only sent waits for nobody");
    }
}
