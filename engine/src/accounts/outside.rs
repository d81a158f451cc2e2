//! Accounts of users who are kept elsewhere, at their home: made when a password has been right for the first time, and without
//! tokens when their user is gone.

use rand_core::RngCore;

use crate::accounts::Accounts;
use crate::io::{Happened, StorageState};
use crate::letters::{Answer, ConnRef};
use crate::store::account::{Credentials, Incarnation};
use crate::store::hash::SecretKey;
use crate::streams::Streams;

impl Accounts {
    /// Whoever keeps the user has said that the password is right: the connection is told of the account, which is made if there is none.
    /// What has to be written for that is returned.
    pub(super) fn admit(
        &mut self,
        cx: &mut Streams,
        conn: ConnRef,
        account: &str,
        there: Option<Incarnation>,
        row: Option<Box<[u8]>>,
    ) -> Option<(Credentials, Incarnation)> {
        if there.is_some() {
            // Two first logins at once: the second one's account is in memory, and not yet in what was read.
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
        // Keys that no password has, by a secret that nobody keeps: what rests on a password, as tokens do, rests on them.
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

    /// Whoever keeps the user has said that there is none any more. What is stored of the account stays, for an operator to remove:
    /// whoever is asked may be wrong for an hour.
    pub(super) fn oust(&mut self, cx: &mut Streams, account: &str) {
        if cx.kernel.storage != StorageState::Full {
            self.end_tokens(cx, account);
        }
    }
}
