//! What waits for a user goes, when the operator says so: for users who are not there only, whose mailbox nobody is at.

use crate::io::{Effect, Reply, StorageState};
use crate::session::conn::NONE;
use crate::shard::{Pending, Shard};
use crate::store::archive::{MailboxRow, id_of};
use crate::store::{Found, Query, Table};

/// A user whose mailbox is being looked at before it is emptied.
#[derive(Debug)]
pub(crate) struct Flush {
    token: u64,
    local: Box<str>,
}

impl Shard {
    /// Looks at the mailbox of a localpart; [`Shard::flush_found`] goes on.
    pub(super) fn flush_mailbox(&mut self, token: u64, local: Box<str>) {
        let bare = self.bare(&local);
        let rows = Query::Range {
            table: Table::Mailbox,
            partition: bare.as_bytes().into(),
            from: Box::default(),
            until: None,
            reverse: false,
            rows_max: u32::MAX,
            bytes_max: u32::MAX,
        };
        self.look(Pending::Flush(Flush { token, local: local.clone() }), &local, Some(rows));
    }

    pub(super) fn flush_found(&mut self, flush: Flush, mut found: Vec<Found>) {
        let record = match found.first_mut() {
            Some(Found::Value(record)) => record.take(),
            _ => None,
        };
        let (_, record) = self.seen(&flush.local, record);
        let reply = match &found[..] {
            _ if record.is_none() => Reply::NotFound,
            _ if !self.is_at_rest(&flush.local) => Reply::Busy,
            _ if self.storage == StorageState::Full => Reply::StoreFull,
            [Found::Value(_), Found::Rows { rows, .. }] => {
                let bare = self.bare(&flush.local);
                let row = rows.iter().find(|row| row.sort.is_empty()).and_then(|row| MailboxRow::decode(&row.value));
                let row = row.unwrap_or_default();
                // All that has come so far has a lower id.
                let cursor = self.next_id();
                if !self.settings.archive {
                    // Nothing is kept for itself: what waited goes as a message goes that is received.
                    for id in rows.iter().filter_map(|row| id_of(&row.sort)) {
                        self.writes.delete(Table::Archive, bare.as_bytes(), &id.to_be_bytes());
                    }
                    let from = row.cursor.saturating_add(1);
                    self.writes.delete_range(
                        Table::Archive,
                        bare.as_bytes(),
                        &from.to_be_bytes(),
                        &cursor.to_be_bytes(),
                    );
                }
                self.writes.delete_range(Table::Mailbox, bare.as_bytes(), &[0; 8], &[u8::MAX; 9]);
                MailboxRow { cursor, ..MailboxRow::default() }.put(&mut self.writes, &bare);
                let user = self.users.find(&flush.local);
                if let Some(state) = user.and_then(|user| self.users.get_mut(user).state.as_mut()) {
                    state.mailbox = None;
                }
                Reply::Done(row.count)
            }
            _ => Reply::NotFound,
        };
        self.effects.push(Effect::Reply { token: flush.token, reply, durable: true });
    }

    pub(super) fn flush_unreadable(&mut self, flush: &Flush) {
        self.unseen(&flush.local);
        self.effects.push(Effect::Reply { token: flush.token, reply: Reply::Unreadable, durable: false });
    }

    /// Whether the user has no session, and nothing of the user's is being read or handed out.
    fn is_at_rest(&self, local: &str) -> bool {
        let Some(user) = self.users.find(local) else { return true };
        let user = self.users.get(user);
        user.first == NONE && user.state.as_ref().is_none_or(|state| state.is_settled())
    }
}
