//! Accounts of users of an external back end, at their home. An account is created when a password
//! is first accepted, and loses its tokens when the back end reports its user gone.

use rand_core::RngCore;

use crate::accounts::Accounts;
use crate::io::{Happened, StorageState};
use crate::letters::{Answer, ConnRef};
use crate::store::account::{Credentials, Incarnation};
use crate::store::hash::SecretKey;
use crate::streams::Streams;

impl Accounts {
    /// The external back end has accepted a user's password. The connection is told the account,
    /// which is created if it does not exist. Returns what must be written.
    pub(super) fn admit(
        &mut self,
        cx: &mut Streams,
        conn: ConnRef,
        account: &str,
        there: Option<Incarnation>,
        row: Option<Box<[u8]>>,
    ) -> Option<(Credentials, Incarnation)> {
        if there.is_some() {
            // With two concurrent first logins, the second finds the account in memory but not in
            // what was read.
            let answer = match row {
                Some(row) => Answer::Credentials { account: account.into(), row: Some(row), seen: None },
                None => Answer::Again,
            };
            cx.kernel.reply_to(conn, answer);
            return None;
        }
        if cx.kernel.storage == StorageState::Full {
            cx.kernel.reply_to(conn, Answer::StoreFull);
            return None;
        }
        let incarnation = Incarnation::drawn(cx.kernel.entropy.next_u64());
        // Keys of a secret that is not retained, so no password matches them. Features that depend
        // on a password, such as tokens, depend on these keys.
        let mut secret = [0; 32];
        cx.kernel.entropy.fill_bytes(&mut secret);
        let keys = Credentials::decoy(&SecretKey::new(&secret), account, cx.kernel.settings.scram_iterations);
        let keys = keys.made_at(cx.kernel.now.wall_us);
        let mut row = Vec::new();
        keys.clone().of(incarnation).encode(&mut row);
        cx.kernel.note(Happened::Admitted, account, None);
        cx.kernel.reply_to(conn, Answer::Credentials { account: account.into(), row: Some(row.into()), seen: None });
        Some((keys, incarnation))
    }

    /// The external back end reports the user gone. The account's data is retained for an operator
    /// to remove, because the back end may be wrong for a while.
    pub(super) fn oust(&mut self, cx: &mut Streams, account: &str) {
        if cx.kernel.storage != StorageState::Full {
            self.end_tokens(cx, account);
        }
    }
}
