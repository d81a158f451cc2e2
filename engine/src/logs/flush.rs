//! What waits for a user goes, when the operator says so: only for users who are not there, whose messages nobody is being handed.

use crate::io::{Effect, Reply, StorageState};
use crate::logs::Logs;
use crate::session::conn::NONE;
use crate::store::waiting::Cursor;
use crate::store::{Found, Table};
use crate::turn::pending::{Flush, Pending, get};

impl Logs {
    /// Looks at the waiting messages of a localpart; [`Logs::flush_found`] goes on.
    pub(crate) fn flush_waiting(&mut self, token: u64, account: Box<str>) {
        let row = get(Table::Waiting, &account);
        self.look(Pending::Flush(Flush { token, account: account.clone() }), &account, Some(row));
    }

    pub(crate) fn flush_found(&mut self, flush: Flush, mut found: Vec<Found>) {
        let (_, record) = self.seen(&flush.account, &mut found);
        let reply = match &found[..] {
            _ if record.is_none() => Reply::NotFound,
            _ if !self.is_at_rest(&flush.account) => Reply::Busy,
            _ if self.storage == StorageState::Full => Reply::StoreFull,
            [Found::Value(row)] => {
                let bare = &*flush.account;
                let row = row.as_deref().and_then(Cursor::decode).unwrap_or_default();
                // All that has come so far has a lower number.
                let number = self.next_number();
                self.writes.delete_actor(Table::Waiting, bare.as_bytes());
                Cursor { number, ..Cursor::default() }.put(&mut self.writes, bare);
                let user = self.users.find(&flush.account);
                if let Some(state) = user.and_then(|user| self.users.get_mut(user).state.as_mut()) {
                    state.log = None;
                }
                Reply::Done(row.count)
            }
            _ => Reply::NotFound,
        };
        self.effects.push(Effect::Reply { token: flush.token, reply, durable: true });
    }

    pub(crate) fn flush_unreadable(&mut self, flush: &Flush) {
        self.unseen(&flush.account);
        self.effects.push(Effect::Reply { token: flush.token, reply: Reply::Unreadable, durable: false });
    }

    /// Whether the user has no session, and nothing of the user's is being read or handed out.
    fn is_at_rest(&self, account: &str) -> bool {
        let Some(user) = self.users.find(account) else { return true };
        let user = self.users.get(user);
        user.first == NONE && user.state.as_ref().is_none_or(|state| state.is_settled(user.live))
    }
}
