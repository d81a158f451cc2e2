//! Deletes archived messages that are old enough, whether or not their users ever return. The host
//! slowly names users of this home, a few at a time, and their rows are read. The result does not
//! depend on who is online.
//!
//! Entries are in the order of arrival, but their timestamps need not be: a clock that was ahead
//! has left timestamps in the future. Such an entry is as old as the next entry whose time has
//! come, because it arrived before that one. Entries written while the clock was wrong therefore do
//! not protect later ones.

use crate::actors::Actors;
use crate::extension;
use crate::io::{Effect, Reply, StorageState};
use crate::kernel::pending::{OperatorRead, Pending, Retained, RetentionRead, get};
use crate::logs::Logs;
use crate::session::sm::Rows;
use crate::store::archive::{Entry, entries, is_void, number_of};
use crate::store::waiting::Cursor;
use crate::store::{Batch, Found, Query, Row, Table, peers, sessions};
use crate::streams::Streams;

/// Reads per user: the cursor, the oldest rows, and whether there are rows of sessions.
const QUERIES: usize = 3;
/// Rows of a user that are read at once.
const ROWS_MAX: u32 = 64;
/// Bytes of these rows.
const BYTES_MAX: u32 = 32 << 10;
/// Pages of one user that are read in a row to find the end of timestamps in the future. Beyond
/// them, entries are retained until the time of the timestamps has come.
const PAGES_MAX: u32 = 256;

impl Logs {
    /// Reads the archives of these users (bare JIDs); [`Logs::retention_found`] continues.
    pub(crate) fn retain(&mut self, cx: &mut Streams, token: u64, users: Vec<Box<str>>) {
        let users = users.into_iter().map(|user| Retained { user, ..Retained::default() }).collect();
        self.retain_on(cx, RetentionRead { token, users, trimmed: 0 });
    }

    fn retain_on(&mut self, cx: &mut Streams, read: RetentionRead) {
        if self.old_before_ms(cx) == 0 || read.users.is_empty() {
            let reply = Reply::Done(read.trimmed);
            return cx.kernel.effects.push(Effect::Reply { token: read.token, reply, durable: true });
        }
        let queries = read.users.iter().flat_map(|Retained { user, from, .. }| {
            let oldest = Query::Range {
                table: Table::Archive,
                actor: user.as_bytes().into(),
                from: from.to_be_bytes().into(),
                until: None,
                reverse: false,
                rows_max: ROWS_MAX,
                bytes_max: BYTES_MAX,
            };
            [get(Table::Waiting, user), oldest, sessions::query_any(user)]
        });
        let queries = queries.collect();
        cx.kernel.read(Pending::Operator(OperatorRead::Retention(read)), queries);
    }

    pub(crate) fn retention_found(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        mut read: RetentionRead,
        found: Vec<Found>,
    ) {
        if cx.kernel.storage == StorageState::Full {
            let reply = Reply::StoreFull;
            return cx.kernel.effects.push(Effect::Reply { token: read.token, reply, durable: true });
        }
        let (old_ms, now_ms) = (self.old_before_ms(cx), cx.kernel.now.expiry_us / 1_000);
        let mut again = Vec::new();
        for (mut of, found) in std::mem::take(&mut read.users).into_iter().zip(found.chunks(QUERIES)) {
            let [Found::Value(cursor), Found::Rows { rows, more }, sessions] = found else { continue };
            let ages = Ages { old_ms, now_ms, old_until: of.old_until };
            let (until, all) = goes_until(&ages, cursor.as_deref(), rows);
            let all = all && *more;
            if of.from > 0 {
                // Only the end of the future timestamps was searched for.
                match (until, rows.last().and_then(|row| number_of(&row.sort))) {
                    (1.., _) => again.push(Retained { from: 0, old_until: until, pages: 0, ..of }),
                    (0, Some(last)) if all && of.pages < PAGES_MAX => {
                        again.push(Retained { from: last + 1, pages: of.pages + 1, ..of });
                    }
                    _ => {}
                }
                continue;
            }
            let user = &*of.user;
            if until > 0 {
                self.note_dropped(cx, actors, user, until, sessions);
                expire(&mut cx.kernel.writes, user, until, rows);
                cx.kernel.writes.delete_range(Table::Archive, user.as_bytes(), &[], &until.to_be_bytes());
                peers::delete_below(&mut cx.kernel.writes, user, until);
                read.trimmed += u32::from(!std::mem::replace(&mut of.counted, true));
            }
            match rows.last().and_then(|row| number_of(&row.sort)) {
                // Rows that are deleted are not read again.
                _ if all && until > 0 => again.push(of),
                // Once: entries found then are deleted, or wait.
                Some(last) if all && of.old_until == 0 => again.push(Retained { from: last + 1, ..of }),
                _ => {}
            }
        }
        self.retain_on(cx, RetentionRead { users: again, ..read });
    }

    /// Entries below a number are deleted for a user who may have sessions. Sessions of this
    /// process write their counts first, so that these no longer depend on the entries. For
    /// sessions of an earlier process, the store must record that they may depend on them.
    fn note_dropped(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, below: u64, stored: &Found) {
        let here: Vec<_> = match actors.users.find(account) {
            Some(user) => actors.users.sessions(&actors.sessions, user).map(|(id, _)| id).collect(),
            None => Vec::new(),
        };
        for &id in &here {
            cx.rows_due(id, Rows::Counts);
        }
        match stored {
            Found::Rows { rows, .. } if here.is_empty() && !sessions::any(rows) => {
                if !rows.is_empty() {
                    sessions::delete_dropped(&mut cx.kernel.writes, account);
                }
            }
            _ => sessions::put_dropped(&mut cx.kernel.writes, account, below),
        }
    }

    /// Messages that arrived before this time, in milliseconds since the Unix epoch, are too old; 0
    /// if all are retained.
    fn old_before_ms(&self, cx: &Streams) -> u64 {
        let retention_ms = cx.kernel.settings.retention_s.saturating_mul(1_000);
        let old = if cx.kernel.settings.archive && retention_ms > 0 { retention_ms } else { u64::MAX };
        (cx.kernel.now.expiry_us / 1_000).saturating_sub(old)
    }
}

/// Deletes extensions' notes about entries before this number.
fn expire(batch: &mut Batch, user: &str, until: u64, rows: &[Row]) {
    for (number, entry) in rows.iter().filter_map(|row| entries(&row.sort, &row.value)).flatten() {
        if number < until {
            extension::expired(batch, user, number, &entry);
        }
    }
}

/// Limits of age.
struct Ages {
    /// Entries that arrived before this are old.
    old_ms: u64,
    /// Timestamps later than this are not meaningful.
    now_ms: u64,
    /// Entries with a lower number are old, whatever their timestamp.
    old_until: u64,
}

impl Ages {
    fn is_old(&self, number: u64, time_ms: u64) -> bool {
        time_ms < self.old_ms || number < self.old_until
    }
}

/// Returns the first number of a user's archive to retain, or 0 if nothing is deleted, and whether
/// no row must be retained. A message that waits for a first session is retained at any age, with
/// all later ones and with the entries in its row.
fn goes_until(ages: &Ages, cursor: Option<&[u8]>, rows: &[Row]) -> (u64, bool) {
    let cursor = cursor.and_then(Cursor::decode).unwrap_or_default().number;
    // The first number to retain after the entries known to be old.
    let mut until = 0;
    for row in rows {
        // A row that cannot be read is retained, because its content is unknown.
        let Some(entries) = entries(&row.sort, &row.value) else { return (until, false) };
        let may_go = |(number, entry): &(u64, Entry<'_>)| {
            let of_future = entry.time_ms > ages.now_ms;
            (of_future || ages.is_old(*number, entry.time_ms)) && (*number <= cursor || !entry.waits)
        };
        if !entries.iter().all(may_go) {
            return (until, false);
        }
        // The record that makes an entry void is deleted with that entry, not before it.
        let last_is_old = entries.last().is_some_and(|(number, entry)| ages.is_old(*number, entry.time_ms));
        if last_is_old && !is_void(&row.value) {
            until = number_of(&row.sort).map_or(until, |number| number + 1);
        }
    }
    (until, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;
    use crate::store::archive::put_void;

    /// Builds rows of entries, each with a number, its time, and whether it waits.
    fn rows(all: &[(u64, u64, bool)]) -> Vec<Row> {
        let mut batch = Batch::new();
        for &(number, time_ms, waits) in all {
            Entry { incoming: waits, waits, time_ms, peer: "b@x", xml: b"<message/>", trail: b"" }
                .put(&mut batch, "a@x", number);
            // Gives each entry its own row.
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

    /// Returns the entries to delete, and whether no entry that was read is retained.
    fn until(old_ms: u64, at: Option<u64>, all: &[Row]) -> (u64, bool) {
        goes_until(&Ages { old_ms, now_ms: 1_000, old_until: 0 }, at.map(cursor).as_deref(), all)
    }

    #[test]
    fn what_is_not_delivered_stays_and_nothing_is_written_for_nothing() {
        let all = rows(&[(1, 100, true), (2, 200, true), (3, 300, true)]);
        assert_eq!(until(250, Some(9), &all), (3, false), "by age");
        assert_eq!(until(900, Some(1), &all), (2, false), "what is behind the cursor waits");
        assert_eq!(until(900, None, &all), (0, false), "without a cursor nothing is delivered");
        assert_eq!(until(900, Some(9), &all), (4, true), "all of it");
        assert_eq!(until(100, Some(9), &all), (0, false), "the oldest is young enough");
        assert_eq!(until(900, Some(9), &[]).0, 0, "there is nothing");
        let sent = rows(&[(1, 100, false), (2, 200, false)]);
        assert_eq!(until(900, None, &sent).0, 3, "what was only sent waits for nobody");
    }

    /// A timestamp later than now counts as now, and does not protect later entries.
    #[test]
    fn an_entry_of_the_future_is_as_old_as_the_next_one() {
        let all = rows(&[(1, 100, false), (2, 9_000, false), (3, 9_001, false), (4, 150, false), (5, 999, false)]);
        assert_eq!(until(200, None, &all), (5, false), "those of the future came before one that is old");
        assert_eq!(until(120, None, &all), (2, false), "here before one that is young");
        let all = rows(&[(1, 9_000, false), (2, 9_001, false)]);
        assert_eq!(until(200, None, &all), (0, true), "nothing says how old they are");
        let found = Ages { old_ms: 200, now_ms: 1_000, old_until: 2 };
        assert_eq!(goes_until(&found, None, &all), (2, true), "a later page has said it");
        let all = rows(&[(1, 9_000, true), (2, 100, false)]);
        assert_eq!(until(200, None, &all), (0, false), "what waits stays");
    }
}
