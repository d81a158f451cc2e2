//! The hash functions with which SCRAM is offered: the same to every client, so that nothing
//! reveals which accounts exist.
//!
//! A client takes the newest offered mechanism, and fails with it if the account lacks such keys.
//! So, unless the operator decides otherwise, only hash functions for which all accounts have keys
//! are offered. Accounts gain keys of the others one by one, as their clients log in (XEP-0480, and
//! PLAIN), and the next start counts again.
//!
//! The store records when its accounts have all keys; from then on nothing is counted, because each
//! new password gets all keys.

use throng_engine::store::account::{COMPLETE_KEY, Credentials};
use throng_engine::store::hash::{HashKind, Hashes};
use throng_engine::store::{Batch, Table, key};

use super::meta::{meta, put_meta};
use super::{Failure, Rows};
use crate::config::SCRAM_HASHES;
use crate::disk::Visit;

/// The offered hash functions, and those that accounts may gain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offer {
    pub(super) hashes: Hashes,
    pub(super) upgrades: Hashes,
}

/// The number of accounts that lack keys of each hash function.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Lacking {
    accounts: u64,
    of: [u64; HashKind::ALL.len()],
}

impl Lacking {
    fn add(&mut self, hashes: Hashes) {
        self.accounts += 1;
        hashes.others().iter().for_each(|kind| self.of[kind as usize] += 1);
    }

    /// The hash functions that no account lacks.
    fn complete(&self) -> Hashes {
        HashKind::ALL.into_iter().filter(|kind| self.of[*kind as usize] == 0).collect()
    }
}

/// The offer for a store with these accounts. The operator's choice takes precedence.
pub(super) fn offer(words: &[&str], engine: &Rows) -> Result<Offer, Failure> {
    let noted = meta(engine, COMPLETE_KEY)?.and_then(|row| Hashes::of_bits(*row.first()?));
    let complete = match noted {
        Some(complete) => complete,
        None => {
            let lacking = count(engine)?;
            let complete = lacking.complete();
            if complete == Hashes::ALL {
                put_meta(engine, COMPLETE_KEY, &[complete.bits()])?;
            } else {
                tell(&lacking);
            }
            complete
        }
    };
    let chosen = HashKind::ALL.into_iter().zip(SCRAM_HASHES);
    let chosen: Hashes = chosen.filter(|(_, word)| words.contains(word)).map(|(kind, _)| kind).collect();
    Ok(decide(complete, chosen))
}

fn decide(complete: Hashes, chosen: Hashes) -> Offer {
    let hashes = match (chosen.is_empty(), complete.is_empty()) {
        (false, _) => chosen,
        (true, false) => complete,
        // No hash function is complete: the most common ones are better than only PLAIN.
        (true, true) => Hashes::ALL.without(HashKind::Sha512),
    };
    // Clients are never asked for keys of an older hash function.
    Offer { hashes, upgrades: complete.others().without(HashKind::Sha1) }
}

/// Reads all accounts. A damaged record is ignored: it does not permit a login.
fn count(engine: &Rows) -> Result<Lacking, Failure> {
    let (mut lacking, table) = (Lacking::default(), Table::Accounts as u8);
    let mut visit = |row: &[u8], value: &[u8]| {
        let whole = key::decode(row).is_some_and(|(_, _, sort)| sort.is_empty());
        if let Some(credentials) = Credentials::decode(value).ok().filter(|_| whole) {
            lacking.add(credentials.hashes());
        }
        Visit::Continue(())
    };
    engine.scan_within(&[vec![table]..vec![table + 1]], &mut visit).map_err(super::disk_failure)?;
    Ok(lacking)
}

fn tell(lacking: &Lacking) {
    let Lacking { accounts, of: [sha1, sha256, sha512] } = *lacking;
    tracing::info!(
        accounts,
        without_sha_1 = sha1,
        without_sha_256 = sha256,
        without_sha_512 = sha512,
        "some accounts lack keys for some hash functions: SCRAM is not offered with these unless \
         scram_hashes names them; accounts gain the newer keys as their clients log in, and the \
         next start checks again"
    );
}

/// Discards the record, because accounts with unknown keys are added.
pub(super) fn forget(batch: &mut Batch) {
    batch.delete(Table::Meta, b"", COMPLETE_KEY);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Engine as _, MemoryEngine};
    use throng_engine::store::account;

    fn hashes(kinds: &[HashKind]) -> Hashes {
        kinds.iter().copied().collect()
    }

    #[test]
    fn the_operators_word_goes_before_what_accounts_have() {
        use HashKind::{Sha1, Sha256, Sha512};
        let two = hashes(&[Sha1, Sha256]);
        let none = Hashes::default();
        let offer = |complete, chosen| {
            let Offer { hashes, upgrades } = decide(complete, chosen);
            (hashes, upgrades)
        };
        assert_eq!(offer(Hashes::ALL, none), (Hashes::ALL, none));
        assert_eq!(offer(two, none), (two, hashes(&[Sha512])));
        assert_eq!(offer(two, Hashes::ALL), (Hashes::ALL, hashes(&[Sha512])));
        assert_eq!(offer(Hashes::ALL, hashes(&[Sha256])), (hashes(&[Sha256]), none));
        assert_eq!(offer(hashes(&[Sha1]), none), (hashes(&[Sha1]), hashes(&[Sha256, Sha512])));
        assert_eq!(offer(hashes(&[Sha256]), none), (hashes(&[Sha256]), hashes(&[Sha512])));
        assert_eq!(offer(none, none), (two, hashes(&[Sha256, Sha512])));
    }

    /// A new store has all keys from the start; older or imported accounts are counted at each
    /// start until all have them.
    #[test]
    fn the_store_notes_when_all_accounts_have_all_keys() {
        let engine = MemoryEngine::new();
        let all = account::Credentials::derive("pencil", 4096, &[1; 16], 0).expect("keys");
        let older = [HashKind::Sha1, HashKind::Sha256].map(|kind| all.keys(kind).expect("it is there").clone());
        let older = account::Credentials::of_keys(older, 0).expect("keys");
        let write = |name: &str, credentials: &Credentials| {
            let mut batch = Batch::new();
            account::put(&mut batch, name, credentials);
            engine.commit(&[batch]).expect("written");
        };
        let offered = || offer(&[], &engine).expect("an offer");
        assert_eq!(offered().hashes, Hashes::ALL);
        assert!(meta(&engine, COMPLETE_KEY).expect("read").is_some());
        write("romeo@localhost", &all);
        assert!(meta(&engine, COMPLETE_KEY).expect("read").is_some());
        write("juliet@localhost", &older);
        assert!(meta(&engine, COMPLETE_KEY).expect("read").is_none());
        assert_eq!(count(&engine).expect("counted"), Lacking { accounts: 2, of: [0, 0, 1] });
        let lacks = Offer { hashes: Hashes::ALL.without(HashKind::Sha512), upgrades: hashes(&[HashKind::Sha512]) };
        assert_eq!(offered(), lacks);
        assert_eq!(offered(), lacks, "nothing is noted");
        write("juliet@localhost", &all);
        assert_eq!(offered(), Offer { hashes: Hashes::ALL, upgrades: Hashes::default() });
        let mut batch = Batch::new();
        forget(&mut batch);
        engine.commit(&[batch]).expect("written");
        assert!(meta(&engine, COMPLETE_KEY).expect("read").is_none());
    }
}
