//! Deletes a user's waiting messages at the operator's request. Only for users without sessions,
//! whose messages are not being delivered.

use crate::actors::Actors;
use crate::io::{Effect, Reply, StorageState};
use crate::kernel::pending::{Flush, OperatorRead, Pending, get};
use crate::logs::Logs;
use crate::session::conn::NONE;
use crate::store::waiting::Cursor;
use crate::store::{Found, Table};
use crate::streams::Streams;

impl Logs {
    /// Reads the waiting messages of a localpart; [`Logs::flush_found`] continues.
    pub(crate) fn flush_waiting(&mut self, cx: &mut Streams, actors: &mut Actors, token: u64, account: Box<str>) {
        let row = get(Table::Waiting, &account);
        actors.look(
            cx,
            Pending::Operator(OperatorRead::Flush(Flush { token, account: account.clone() })),
            &account,
            Some(row),
        );
    }

    pub(crate) fn flush_found(&mut self, cx: &mut Streams, actors: &mut Actors, flush: Flush, mut found: Vec<Found>) {
        let (_, record) = actors.seen(cx, &flush.account, &mut found);
        let reply = match &found[..] {
            _ if record.is_none() => Reply::NotFound,
            _ if !self.is_at_rest(actors, &flush.account) => Reply::Busy,
            _ if cx.kernel.storage == StorageState::Full => Reply::StoreFull,
            [Found::Value(row)] => {
                let bare = &*flush.account;
                let row = row.as_deref().and_then(Cursor::decode).unwrap_or_default();
                // Every message that has arrived so far has a lower number.
                let number = cx.kernel.next_number();
                cx.kernel.writes.delete_actor(Table::Waiting, bare.as_bytes());
                Cursor { number, ..Cursor::default() }.put(&mut cx.kernel.writes, bare);
                let user = actors.users.find(&flush.account);
                if let Some(state) = user.and_then(|user| actors.users.get_mut(user).state.as_mut()) {
                    state.log = None;
                }
                Reply::Done(row.count)
            }
            _ => Reply::NotFound,
        };
        cx.kernel.effects.push(Effect::Reply { token: flush.token, reply, durable: true });
    }

    pub(crate) fn flush_unreadable(&mut self, cx: &mut Streams, actors: &mut Actors, flush: &Flush) {
        actors.unseen(cx, &flush.account);
        cx.kernel.effects.push(Effect::Reply { token: flush.token, reply: Reply::Unreadable, durable: false });
    }

    /// Whether the user has no session, and none of the user's messages is being read or delivered.
    fn is_at_rest(&self, actors: &Actors, account: &str) -> bool {
        let Some(user) = actors.users.find(account) else { return true };
        let user = actors.users.get(user);
        user.first == NONE && user.state.as_ref().is_none_or(|state| state.is_settled(user.live))
    }
}
