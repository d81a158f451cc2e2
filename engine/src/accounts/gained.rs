//! Adds keys of further hash functions to accounts (XEP-0480), at their home.
//!
//! The record is read, changed and written. If it was written meanwhile, because the password was
//! changed or the account removed, it is left as it is: the keys may belong to the previous
//! password.

use crate::accounts::Accounts;
use crate::id::ConnId;
use crate::io::StorageState;
use crate::letters::Gained;
use crate::session::inline::Upgrade;
use crate::store::account::{self, Credentials};
use crate::store::hash::Hashes;
use crate::streams::Streams;
use crate::streams::half::Up;

/// Reads of an account's record in order to add keys.
#[derive(Debug, Default)]
pub(crate) struct Gaining {
    /// Number of outstanding answers.
    reads: u32,
    /// Whether the record was written since the first read was requested.
    written: bool,
}

impl Accounts {
    /// The hash functions for which accounts can gain keys now: none while the store has no room.
    pub(crate) fn gains(&self, cx: &Streams) -> Hashes {
        match cx.kernel.storage {
            StorageState::Ok => cx.kernel.settings.scram_upgrades,
            _ => Hashes::default(),
        }
    }

    /// The account's record has been read. Reduces what the client can provide to what the record
    /// lacks, and begins with the first of these.
    pub(crate) fn upgrade_wanted(&mut self, cx: &mut Streams, conn: ConnId, record: Option<&[u8]>) {
        let iterations = cx.kernel.settings.scram_iterations;
        let Some(opening) = cx.opening(conn) else { return };
        let owner = opening.stage().owner();
        let found = record.and_then(|record| Credentials::decode(record).ok());
        let found = found.filter(|found| owner.is_some_and(|owner| owner.is_of(found)));
        let Some(inline) = opening.inline.as_mut() else { return };
        let lacking = found.as_ref().map_or(Hashes::default(), |found| found.hashes().others());
        inline.upgrades = inline.upgrades.and(lacking);
        inline.upgrade = found.zip(inline.upgrades.iter().last()).map(|(found, kind)| {
            // The salt is that of the account. All hash functions share one salt, as in new
            // accounts and in made-up records.
            Upgrade { kind, salt: found.anchor().salt().into(), iterations, begun: false }
        });
        cx.up.push_back(Up::Inline(conn));
    }

    /// A read of the account's record begins in order to add keys.
    pub(crate) fn gaining_begins(&mut self, account: &str) {
        self.gaining.entry(account.into()).or_default().reads += 1;
    }

    /// The record has been read. It gains keys if it still belongs to the account and password of
    /// the keys.
    pub(crate) fn gain(
        &mut self,
        cx: &mut Streams,
        name: &str,
        record: Option<&[u8]>,
        gained: Gained,
        conn: Option<ConnId>,
    ) {
        let written = self.gained_read(name);
        let found = record.and_then(|record| Credentials::decode(record).ok());
        let found = found.filter(|found| found.identity() == gained.identity && !written);
        if let Some(mut credentials) = found.filter(|_| cx.kernel.storage == StorageState::Ok) {
            let mut changed = false;
            for set in gained.sets {
                changed |= credentials.gain(set);
            }
            if changed {
                account::put(&mut cx.kernel.writes, name, &credentials);
                self.record_written(name);
            }
        }
        if let Some(conn) = conn {
            cx.up.push_back(Up::Inline(conn));
        }
    }

    /// An answer has arrived, with or without a result. Returns whether the record was written
    /// since.
    pub(crate) fn gained_read(&mut self, account: &str) -> bool {
        let Some(gaining) = self.gaining.get_mut(account) else { return true };
        gaining.reads -= 1;
        let written = gaining.written;
        if gaining.reads == 0 {
            self.gaining.remove(account);
        }
        written
    }

    /// The record of an account is written or erased. Earlier reads of it must not be used.
    pub(crate) fn record_written(&mut self, account: &str) {
        if let Some(gaining) = self.gaining.get_mut(account) {
            gaining.written = true;
        }
    }
}
