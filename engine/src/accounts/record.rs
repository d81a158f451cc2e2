//! The record of an account, written in one place: what is known of the account in memory follows it.

use crate::accounts::Accounts;
use crate::store::account::{self, Credentials, Incarnation};

impl Accounts {
    /// Writes the record of an account in this incarnation.
    pub(super) fn put_account(&mut self, account: &str, keys: Credentials, incarnation: Incarnation) {
        let (standing, user, now_s) = (keys.standing(), self.users.find_or_insert(account), self.now.mono_s());
        self.users.state(user, now_s).standing = Some(standing);
        account::put(&mut self.writes, account, &keys.of(incarnation));
        self.record_written(account);
        self.plain_cache.forget(account);
    }
}
