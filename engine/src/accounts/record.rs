//! Writes the record of an account, in one place, and updates the account's state in memory.

use crate::accounts::Accounts;
use crate::actors::Actors;
use crate::store::account::{self, Credentials, Incarnation};
use crate::streams::Streams;

impl Accounts {
    /// Writes the record of an account in this incarnation.
    pub(super) fn put_account(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        keys: Credentials,
        incarnation: Incarnation,
    ) {
        let (standing, user, now_s) = (keys.standing(), actors.users.find_or_insert(account), cx.kernel.now.mono_s());
        actors.users.state(user, now_s).standing = Some(standing);
        account::put(&mut cx.kernel.writes, account, &keys.of(incarnation));
        self.record_written(account);
        self.plain_cache.forget(account);
    }
}
