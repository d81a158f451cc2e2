//! Limits on failed logins, so that passwords cannot be guessed quickly and no user is locked out
//! by others.
//!
//! There are three limits, each a table of token buckets:
//!
//! - An **address** is charged when a login fails or is broken off, because thousands of honest
//!   clients behind one address may log in at once. It is an IPv4 address or an IPv6 /64, which is
//!   what one customer of a provider has. Accounts to which a login from it has succeeded recently
//!   ([`super::known`]) remain open to it, within the pair's limit.
//! - A **pair** of address and account is charged when a login begins, and gets its token back when
//!   the login succeeds. Many simultaneous attempts are therefore counted before the first has
//!   failed. A client that begins logins and never completes them uses up only its own tokens.
//! - An **account** is charged likewise, with a higher limit, by addresses from which no login to
//!   it has succeeded recently ([`super::known`]). This limits many addresses that guess one
//!   password, but not the account's owner.
//!
//! Password changes are also counted here, by account: each costs as much as a login by PLAIN, and
//! the requester has logged in.
//!
//! All shards of a host count together: pairs and accounts at the account's home, addresses at the
//! shard selected by their keyed hash. [`super::buckets`] and [`super::known`] describe the
//! behaviour of full tables.

use std::net::IpAddr;

use super::buckets::{Buckets, Holding, Key};
use super::known::KnownPairs;
use crate::id::Peer;
use crate::limits::{KNOWN_PAIRS_MAX, PASSWORD_CHANGE_MS, PASSWORD_CHANGES_MAX};
use crate::store::hash::SecretKey;
use crate::wire::limit::{Held, Limit};

/// Limits on failed logins, for the whole host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThrottleParams {
    /// Failures of an address in a row before it must wait; 0 sets no limit.
    pub address_burst: u32,
    /// Milliseconds until an address regains one attempt.
    pub address_refill_ms: u32,
    /// Attempts of an address on an account, in progress or failed, before the next must wait; 0
    /// sets no limit.
    pub pair_burst: u32,
    /// Milliseconds until a pair regains one attempt.
    pub pair_refill_ms: u32,
    /// Attempts on an account by all addresses together from which no login to it has succeeded
    /// recently; 0 sets no limit.
    pub account_burst: u32,
    /// Milliseconds until an account regains one attempt.
    pub account_refill_ms: u32,
    /// Maximum rows in each table of a shard, about 80 bytes each while in use.
    pub rows_max: usize,
}

impl Default for ThrottleParams {
    /// 60 failures per address and one more every 5 s; 20 attempts per pair and one more every 30
    /// s; 100 per account and one more every 6 s. This is below 15,000 guesses per day, from any
    /// number of addresses.
    fn default() -> ThrottleParams {
        ThrottleParams {
            address_burst: 60,
            address_refill_ms: 5_000,
            pair_burst: 20,
            pair_refill_ms: 30_000,
            account_burst: 100,
            account_refill_ms: 6_000,
            rows_max: 16_384,
        }
    }
}

/// A refusal, and whether it is the first: repeated refusals of a held key are not reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The limit, and how long it holds.
    pub held: Held,
    /// Whether it was not held before.
    pub begins: bool,
}

/// Usage of one limit by addresses: one shard's part of the host's table. All times are
/// milliseconds of one monotonic clock.
pub struct AddressThrottle {
    key: SecretKey,
    limit: Limit,
    buckets: Buckets,
}

impl AddressThrottle {
    /// An empty table. `key` is fresh entropy of this process, shared by its shards: rows are found
    /// by a hash that no client can compute.
    pub fn new(limit: Limit, params: &ThrottleParams, key: &[u8; 32]) -> AddressThrottle {
        let buckets = Buckets::new(params.address_burst, params.address_refill_ms, params.rows_max);
        AddressThrottle { key: SecretKey::new(key), limit, buckets }
    }

    /// Changes the limits, also for earlier charges.
    pub fn turn(&mut self, now_ms: u64, params: &ThrottleParams) {
        self.buckets.turn(now_ms, params.address_burst, params.address_refill_ms, params.rows_max);
    }

    /// An address with its number, which is the same at all shards and secret from clients. It
    /// selects the shard that counts the address.
    pub fn peer(&self, address: IpAddr) -> Peer {
        let key = match address.to_canonical() {
            IpAddr::V4(address) => self.key.short(&[b"4", &address.octets()]),
            IpAddr::V6(address) => self.key.short(&[b"6", &address.octets()[..8]]),
        };
        Peer { address, key }
    }

    /// Whether an address may proceed. Charges nothing.
    ///
    /// # Errors
    /// The address is held.
    pub fn allows(&mut self, now_ms: u64, peer: Peer) -> Result<(), Refused> {
        refuse(&mut self.buckets, self.limit, now_ms, of_address(peer), || network(peer.address))
    }

    /// Charges an address.
    pub fn charge(&mut self, now_ms: u64, peer: Peer) {
        self.buckets.charge(now_ms, of_address(peer));
    }

    /// Releases an address, or all. Returns how many were held.
    pub fn release(&mut self, now_ms: u64, peer: Option<Peer>) -> u32 {
        match peer {
            Some(peer) => self.buckets.release(now_ms, |key| key == of_address(peer)),
            None => self.buckets.release_all(now_ms),
        }
    }

    /// The addresses that are held.
    pub fn holdings(&mut self, now_ms: u64) -> impl Iterator<Item = (Limit, Holding)> {
        let limit = self.limit;
        self.buckets.holdings(now_ms).into_iter().map(move |holding| (limit, holding))
    }

    /// Number of rows in use.
    pub fn rows(&self) -> usize {
        self.buckets.len()
    }
}

impl std::fmt::Debug for AddressThrottle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AddressThrottle({}, {})", self.limit, self.rows())
    }
}

/// What an operator releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freed<'a> {
    /// An address, with all its pairs.
    Peer(Peer),
    /// An account, with all its pairs.
    Account(&'a str),
    /// Everything.
    All,
}

/// Login attempts on the accounts of one shard. All times are milliseconds of one monotonic clock.
pub struct AccountThrottle {
    key: SecretKey,
    pairs: Buckets,
    accounts: Buckets,
    passwords: Buckets,
    known: KnownPairs,
}

impl AccountThrottle {
    /// Empty tables, with a key like that of [`AddressThrottle::new`].
    pub fn new(params: &ThrottleParams, key: &[u8; 32]) -> AccountThrottle {
        AccountThrottle {
            key: SecretKey::new(key),
            pairs: Buckets::new(params.pair_burst, params.pair_refill_ms, params.rows_max),
            accounts: Buckets::new(params.account_burst, params.account_refill_ms, params.rows_max),
            passwords: Buckets::new(PASSWORD_CHANGES_MAX, PASSWORD_CHANGE_MS, params.rows_max),
            known: KnownPairs::new(KNOWN_PAIRS_MAX),
        }
    }

    /// Changes the limits, also for earlier charges.
    pub fn turn(&mut self, now_ms: u64, params: &ThrottleParams) {
        self.pairs.turn(now_ms, params.pair_burst, params.pair_refill_ms, params.rows_max);
        self.accounts.turn(now_ms, params.account_burst, params.account_refill_ms, params.rows_max);
        self.passwords.turn(now_ms, PASSWORD_CHANGES_MAX, PASSWORD_CHANGE_MS, params.rows_max);
    }

    /// Whether a login from the address to the account has succeeded recently.
    pub fn knows(&self, now_ms: u64, peer: Peer, bare: &str) -> bool {
        self.knows_pair(now_ms, self.keys(peer, bare).0)
    }

    /// A login begins. Call this once the name is known and before any work is done for it. If the
    /// login may proceed, charges the pair, and the account unless the pair is known.
    ///
    /// # Errors
    /// The pair or the account is held. Names without an account are held like others.
    pub fn begin(&mut self, now_ms: u64, peer: Peer, bare: &str) -> Result<(), Refused> {
        let (pair, account) = self.keys(peer, bare);
        let known = self.knows_pair(now_ms, pair);
        let who = || [&*network(peer.address), " ", bare].concat();
        refuse(&mut self.pairs, Limit::PairLogins, now_ms, pair, who)?;
        if !known {
            refuse(&mut self.accounts, Limit::AccountLogins, now_ms, account, || bare.to_owned())?;
            self.accounts.charge(now_ms, account);
        }
        self.pairs.charge(now_ms, pair);
        Ok(())
    }

    /// A login succeeded: pair and account get their tokens back, and the pair is known from now
    /// on. Earlier failures remain charged to the account. Of two simultaneous logins from an
    /// unknown address, the account gets back one token.
    pub fn succeeded(&mut self, now_ms: u64, peer: Peer, bare: &str) {
        let (pair, account) = self.keys(peer, bare);
        self.pairs.refund(now_ms, pair);
        if !self.knows_pair(now_ms, pair) {
            self.accounts.refund(now_ms, account);
        }
        self.known.remember(seconds(now_ms), pair.account, pair.address);
    }

    /// A login was not tried: pair and account get their tokens back, and the pair does not become
    /// known.
    pub fn untried(&mut self, now_ms: u64, peer: Peer, bare: &str) {
        let (pair, account) = self.keys(peer, bare);
        self.pairs.refund(now_ms, pair);
        if !self.knows_pair(now_ms, pair) {
            self.accounts.refund(now_ms, account);
        }
    }

    /// A session requests another password for its account. Call this before keys are derived from
    /// it. Charges the account if it may proceed.
    ///
    /// # Errors
    /// The account is held.
    pub fn change_password(&mut self, now_ms: u64, bare: &str) -> Result<(), Refused> {
        let account = Key { address: 0, account: self.account_key(bare) };
        refuse(&mut self.passwords, Limit::PasswordChanges, now_ms, account, || bare.to_owned())?;
        self.passwords.charge(now_ms, account);
        Ok(())
    }

    /// The account is removed: for the next account of its name, all addresses are unknown.
    pub fn removed(&mut self, bare: &str) {
        self.known.forget(self.account_key(bare));
    }

    /// Releases what `freed` names. Returns how many accounts and pairs were held.
    pub fn release(&mut self, now_ms: u64, freed: Freed<'_>) -> u32 {
        match freed {
            Freed::Peer(peer) => self.pairs.release(now_ms, |key| key.address == peer.key),
            Freed::Account(bare) => {
                let account = self.account_key(bare);
                let own = |key: Key| key.account == account;
                let logins = self.pairs.release(now_ms, own) + self.accounts.release(now_ms, own);
                logins + self.passwords.release(now_ms, own)
            }
            Freed::All => {
                let logins = self.pairs.release_all(now_ms) + self.accounts.release_all(now_ms);
                logins + self.passwords.release_all(now_ms)
            }
        }
    }

    /// The accounts and pairs that are held.
    pub fn holdings(&mut self, now_ms: u64) -> impl Iterator<Item = (Limit, Holding)> {
        let tables = [
            (Limit::PairLogins, &mut self.pairs),
            (Limit::AccountLogins, &mut self.accounts),
            (Limit::PasswordChanges, &mut self.passwords),
        ];
        let held = tables.map(|(limit, table)| table.holdings(now_ms).into_iter().map(move |holding| (limit, holding)));
        held.into_iter().flatten()
    }

    /// Number of rows in use: pairs, accounts.
    pub fn rows(&self) -> (usize, usize) {
        (self.pairs.len(), self.accounts.len())
    }

    fn knows_pair(&self, now_ms: u64, pair: Key) -> bool {
        self.known.knows(seconds(now_ms), pair.account, pair.address)
    }

    fn account_key(&self, bare: &str) -> u64 {
        self.key.short(&[b"account", bare.as_bytes()])
    }

    fn keys(&self, peer: Peer, bare: &str) -> (Key, Key) {
        let account = self.account_key(bare);
        (Key { address: peer.key, account }, Key { address: 0, account })
    }
}

impl std::fmt::Debug for AccountThrottle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AccountThrottle{:?}", self.rows())
    }
}

fn of_address(peer: Peer) -> Key {
    Key { address: peer.key, account: 0 }
}

fn seconds(now_ms: u64) -> u32 {
    u32::try_from(now_ms / 1_000).unwrap_or(u32::MAX)
}

fn refuse(
    buckets: &mut Buckets,
    limit: Limit,
    now_ms: u64,
    key: Key,
    who: impl FnOnce() -> String,
) -> Result<(), Refused> {
    match buckets.refuse(now_ms, key, who) {
        None => Ok(()),
        Some((left_ms, begins)) => Err(Refused { held: Held { limit, left_ms: Some(left_ms) }, begins }),
    }
}

/// An address in the form in which it is counted: IPv6 by its /64.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            format!("{}/64", std::net::Ipv6Addr::from(network))
        }
    }
}

#[cfg(test)]
#[path = "throttle_tests.rs"]
mod tests;
