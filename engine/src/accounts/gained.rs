//! Accounts gain keys of hash functions that they had none of (XEP-0480), at their home.
//!
//! The record is read, changed and written. If it was written meanwhile, because the password was changed or the account removed, that
//! stays: the keys may be those of the password before.

use crate::accounts::Accounts;
use crate::id::ConnId;
use crate::io::StorageState;
use crate::letters::Gained;
use crate::session::inline::Upgrade;
use crate::store::account::{self, Credentials};
use crate::store::hash::Hashes;
use crate::streams::Streams;
use crate::streams::half::Up;

/// Reads of an account's record by which keys are to be added.
#[derive(Debug, Default)]
pub(crate) struct Gaining {
    /// Answers awaited.
    reads: u32,
    /// The record was written since the first of them was asked for.
    written: bool,
}

impl Accounts {
    /// The hash functions of which accounts can gain keys now: none while there is no room to write them.
    pub(crate) fn gains(&self, cx: &Streams) -> Hashes {
        match cx.kernel.storage {
            StorageState::Ok => cx.kernel.settings.scram_upgrades,
            _ => Hashes::default(),
        }
    }

    /// The account's record has been read: what it lacks is left of what the client can give, and the first of that is next.
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
            // The salt is the account's own: as in accounts that are new, and made-up ones, all hash functions have the same.
            Upgrade { kind, salt: found.anchor().salt().into(), iterations, begun: false }
        });
        cx.up.push_back(Up::Inline(conn));
    }

    /// A read of the account's record begins by which keys are to be added.
    pub(crate) fn gaining_begins(&mut self, account: &str) {
        self.gaining.entry(account.into()).or_default().reads += 1;
    }

    /// The record is there. It gains keys if it is still of the account and the password that they are of.
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

    /// An answer has come, whatever it is. Returns whether the record was written since.
    pub(crate) fn gained_read(&mut self, account: &str) -> bool {
        let Some(gaining) = self.gaining.get_mut(account) else { return true };
        gaining.reads -= 1;
        let written = gaining.written;
        if gaining.reads == 0 {
            self.gaining.remove(account);
        }
        written
    }

    /// The record of an account is written or erased: what was read of it before is not added to.
    pub(crate) fn record_written(&mut self, account: &str) {
        if let Some(gaining) = self.gaining.get_mut(account) {
            gaining.written = true;
        }
    }
}
