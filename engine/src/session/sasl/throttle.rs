//! How many logins may fail: by address and by account, so that passwords cannot be guessed at speed.
//!
//! A token bucket each, kept as the one time at which it is full again. An **account** is charged when a login begins
//! and gets its token back when it succeeds: many attempts at once do not slip through before the first has failed. An
//! **address** is charged when a login fails, because thousands of honest clients behind one may log in at once; it is
//! an IPv4 address or an IPv6 /64, which is what one customer of a provider has.
//!
//! All shards of a host count together: failures of an account are counted by its home, those of an address by the shard
//! that [`LoginThrottle::spread`] names.
//!
//! The tables are bounded. When one is full the row nearest to expiry gives way, and never one with a larger penalty
//! than the newcomer's: to flush a penalty, an attacker would have to earn a larger one in every other row.

use std::collections::BTreeSet;
use std::hash::BuildHasherDefault;
use std::net::IpAddr;

use hashbrown::HashMap;

use super::cache::Given;
use crate::store::hash::SecretKey;

/// How many failed logins are let through, by the whole host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThrottleParams {
    /// Failures of an address in a row before it has to wait; 0 sets no limit.
    pub address_burst: u32,
    /// Milliseconds until an address gets one more.
    pub address_refill_ms: u32,
    /// Attempts on an account, under way or failed, before the next has to wait; 0 sets no limit.
    pub account_burst: u32,
    /// Milliseconds until an account gets one more.
    pub account_refill_ms: u32,
    /// Most rows in each of the two tables of a shard, about 60 bytes each while they are in use.
    pub rows_max: usize,
}

impl Default for ThrottleParams {
    /// 60 failures an address and one more every 5 s; 20 attempts an account and one more every 30 s: below 3,000
    /// guesses a day.
    fn default() -> ThrottleParams {
        ThrottleParams {
            address_burst: 60,
            address_refill_ms: 5_000,
            account_burst: 20,
            account_refill_ms: 30_000,
            rows_max: 16_384,
        }
    }
}

/// Whether a login may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It may.
    Allowed,
    /// It may not: answer with [`Failure::TOO_MANY`](super::Failure::TOO_MANY).
    TooMany {
        /// Milliseconds until it may.
        retry_after_ms: u64,
    },
}

/// The two tables of one shard, its part of the host's. All times are milliseconds of one monotonic clock.
pub struct LoginThrottle {
    key: SecretKey,
    addresses: Buckets,
    accounts: Buckets,
}

impl LoginThrottle {
    /// Empty tables. `key` is fresh entropy of this process, the same for all its shards: rows are found by a hash that
    /// nobody else can compute.
    pub fn new(params: ThrottleParams, key: &[u8; 32]) -> LoginThrottle {
        LoginThrottle {
            key: SecretKey::new(key),
            addresses: Buckets::new(params.address_burst, params.address_refill_ms, params.rows_max),
            accounts: Buckets::new(params.account_burst, params.account_refill_ms, params.rows_max),
        }
    }

    /// Other limits from now on. Who has failed before stays charged as long as by the old ones.
    pub fn turn(&mut self, params: ThrottleParams) {
        self.addresses.turn(params.address_burst, params.address_refill_ms, params.rows_max);
        self.accounts.turn(params.account_burst, params.account_refill_ms, params.rows_max);
    }

    /// Whether an address may try at all. Charges nothing.
    pub fn address(&self, now_ms: u64, address: IpAddr) -> Verdict {
        self.addresses.verdict(now_ms, self.address_key(address))
    }

    /// A number that all shards have for an address and nobody else: which of them counts its failures.
    pub fn spread(&self, address: IpAddr) -> u64 {
        self.address_key(address)
    }

    /// A login for an account begins: ask once the name is known and before anything is spent on it. Charges the account
    /// if it may go on.
    pub fn begin(&mut self, now_ms: u64, localpart: &str) -> Verdict {
        let account = self.account_key(localpart);
        let verdict = self.accounts.verdict(now_ms, account);
        if verdict == Verdict::Allowed {
            self.accounts.charge(now_ms, account);
        }
        verdict
    }

    /// A login failed, whether it had come as far as [`LoginThrottle::begin`] or not: charges the address.
    pub fn failed(&mut self, now_ms: u64, address: IpAddr) {
        let key = self.address_key(address);
        self.addresses.charge(now_ms, key);
    }

    /// A login that had begun succeeded, or was broken off through no fault of the peer: the account gets its token
    /// back. Earlier failures stay on its account.
    pub fn succeeded(&mut self, now_ms: u64, localpart: &str) {
        let key = self.account_key(localpart);
        self.accounts.refund(now_ms, key);
    }

    /// Rows in use: addresses, accounts.
    pub fn rows(&self) -> (usize, usize) {
        (self.addresses.full_at.len(), self.accounts.full_at.len())
    }

    fn address_key(&self, address: IpAddr) -> u64 {
        match address.to_canonical() {
            IpAddr::V4(address) => self.key.short(&[b"4", &address.octets()]),
            IpAddr::V6(address) => self.key.short(&[b"6", &address.octets()[..8]]),
        }
    }

    fn account_key(&self, localpart: &str) -> u64 {
        self.key.short(&[b"account", localpart.as_bytes()])
    }
}

impl std::fmt::Debug for LoginThrottle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoginThrottle{:?}", self.rows())
    }
}

/// Token buckets by key. A bucket is the time at which it is full again; a full one has no row.
struct Buckets {
    burst: u64,
    refill_ms: u64,
    rows_max: usize,
    full_at: HashMap<u64, u64, BuildHasherDefault<Given>>,
    /// The rows as (full at, key): the first is nearest to expiry.
    order: BTreeSet<(u64, u64)>,
}

impl Buckets {
    fn new(burst: u32, refill_ms: u32, rows_max: usize) -> Buckets {
        Buckets {
            burst: u64::from(burst),
            refill_ms: u64::from(refill_ms.max(1)),
            rows_max,
            full_at: HashMap::with_hasher(BuildHasherDefault::default()),
            order: BTreeSet::new(),
        }
    }

    fn turn(&mut self, burst: u32, refill_ms: u32, rows_max: usize) {
        (self.burst, self.refill_ms) = (u64::from(burst), u64::from(refill_ms.max(1)));
        self.rows_max = rows_max;
    }

    fn verdict(&self, now_ms: u64, key: u64) -> Verdict {
        let missing_ms = self.full_at.get(&key).map_or(0, |full_at| full_at.saturating_sub(now_ms));
        let allowed_ms = self.burst.saturating_sub(1) * self.refill_ms;
        if self.burst == 0 || missing_ms <= allowed_ms {
            Verdict::Allowed
        } else {
            Verdict::TooMany { retry_after_ms: missing_ms - allowed_ms }
        }
    }

    fn charge(&mut self, now_ms: u64, key: u64) {
        if self.burst == 0 {
            return;
        }
        let before = self.full_at.get(&key).copied();
        // A bucket goes no lower than empty, so a penalty ends in bounded time.
        let lowest = now_ms + self.burst * self.refill_ms;
        let full_at = (before.unwrap_or(0).max(now_ms) + self.refill_ms).min(lowest);
        if before.is_some() || self.make_room(now_ms, full_at) {
            self.put(key, before, full_at);
        }
    }

    fn refund(&mut self, now_ms: u64, key: u64) {
        let Some(before) = self.full_at.get(&key).copied() else { return };
        let full_at = before - self.refill_ms.min(before);
        if full_at > now_ms {
            self.put(key, Some(before), full_at);
        } else {
            self.remove(key, before);
        }
    }

    /// Whether a new row that expires at `full_at` has a place: expired rows go, and then the one nearest to expiry.
    fn make_room(&mut self, now_ms: u64, full_at: u64) -> bool {
        while self.full_at.len() >= self.rows_max {
            match self.order.first() {
                Some(&(first, key)) if first <= now_ms.max(full_at) => self.remove(key, first),
                _ => return false,
            }
        }
        true
    }

    fn put(&mut self, key: u64, before: Option<u64>, full_at: u64) {
        if let Some(before) = before {
            self.order.remove(&(before, key));
        }
        self.order.insert((full_at, key));
        self.full_at.insert(key, full_at);
    }

    fn remove(&mut self, key: u64, full_at: u64) {
        self.order.remove(&(full_at, key));
        self.full_at.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARAMS: ThrottleParams = ThrottleParams {
        address_burst: 3,
        address_refill_ms: 1_000,
        account_burst: 2,
        account_refill_ms: 10_000,
        rows_max: 100,
    };

    fn throttle(params: ThrottleParams) -> LoginThrottle {
        LoginThrottle::new(params, &[3; 32])
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// RFC 6120 6.4.5, 13.9.2: failures of an address are limited; time gives attempts back one by one.
    #[test]
    fn other_limits_hold_at_once_also_for_those_who_have_failed_before() {
        let mut throttle = throttle(ThrottleParams { account_burst: 2, account_refill_ms: 1_000, ..PARAMS });
        for _ in 0..2 {
            assert_eq!(throttle.begin(0, "romeo"), Verdict::Allowed);
        }
        assert!(matches!(throttle.begin(0, "romeo"), Verdict::TooMany { .. }));
        throttle.turn(ThrottleParams { account_burst: 4, account_refill_ms: 1_000, ..PARAMS });
        for _ in 0..2 {
            assert_eq!(throttle.begin(0, "romeo"), Verdict::Allowed);
        }
        assert!(matches!(throttle.begin(0, "romeo"), Verdict::TooMany { .. }));
        throttle.turn(ThrottleParams { account_burst: 1, account_refill_ms: 1_000, ..PARAMS });
        assert_eq!(
            throttle.begin(0, "romeo"),
            Verdict::TooMany { retry_after_ms: 4_000 },
            "as long as it was charged for"
        );
    }

    #[test]
    fn an_address_waits_after_its_burst() {
        let mut throttle = throttle(PARAMS);
        let address = ip("192.0.2.1");
        for _ in 0..3 {
            assert_eq!(throttle.address(5_000, address), Verdict::Allowed);
            throttle.failed(5_000, address);
        }
        assert_eq!(throttle.address(5_000, address), Verdict::TooMany { retry_after_ms: 1_000 });
        assert_eq!(throttle.address(5_400, address), Verdict::TooMany { retry_after_ms: 600 });
        assert_eq!(throttle.rows(), (1, 0), "failures of an address charge no account");
        assert_eq!(throttle.address(6_000, address), Verdict::Allowed);
        throttle.failed(6_000, address);
        assert_eq!(throttle.address(6_000, address), Verdict::TooMany { retry_after_ms: 1_000 });
        assert_eq!(throttle.address(6_000, ip("192.0.2.2")), Verdict::Allowed);
        // However many fail, the wait is bounded by the burst.
        (0..100).for_each(|_| throttle.failed(6_000, address));
        assert_eq!(throttle.address(9_000, address), Verdict::Allowed);
    }

    #[test]
    fn an_account_is_charged_at_the_start_and_refunded_by_success() {
        let mut throttle = throttle(PARAMS);
        for _ in 0..50 {
            assert_eq!(throttle.begin(0, "romeo"), Verdict::Allowed);
            throttle.succeeded(0, "romeo");
        }
        assert_eq!(throttle.rows(), (0, 0));
        // Two under way; the third waits although none has failed yet.
        assert_eq!(throttle.begin(0, "romeo"), Verdict::Allowed);
        assert_eq!(throttle.begin(0, "romeo"), Verdict::Allowed);
        assert_eq!(throttle.begin(0, "romeo"), Verdict::TooMany { retry_after_ms: 10_000 });
        assert_eq!(throttle.begin(0, "juliet"), Verdict::Allowed);
        throttle.succeeded(0, "romeo");
        assert_eq!(throttle.begin(0, "romeo"), Verdict::Allowed);
        assert_eq!(throttle.begin(9_999, "romeo"), Verdict::TooMany { retry_after_ms: 1 });
        assert_eq!(throttle.begin(10_000, "romeo"), Verdict::Allowed);
    }

    #[test]
    fn an_ipv6_customer_is_one_address() {
        let mut throttle = throttle(PARAMS);
        for i in 0..3 {
            throttle.failed(0, ip(&format!("2001:db8:1:2::{i}")));
        }
        throttle.failed(0, ip("192.0.2.1"));
        assert_ne!(throttle.address(0, ip("2001:db8:1:2:ffff::1")), Verdict::Allowed);
        assert_eq!(throttle.address(0, ip("2001:db8:1:3::1")), Verdict::Allowed);
        throttle.failed(0, ip("::ffff:192.0.2.1"));
        throttle.failed(0, ip("::ffff:192.0.2.1"));
        assert_ne!(throttle.address(0, ip("192.0.2.1")), Verdict::Allowed, "a mapped address is the IPv4 one");
    }

    #[test]
    fn many_small_offenders_do_not_flush_a_large_penalty() {
        let mut throttle = throttle(PARAMS);
        let victim = ip("192.0.2.1");
        (0..3).for_each(|_| throttle.failed(0, victim));
        for i in 0..100_000u32 {
            throttle.failed(0, IpAddr::from(i.to_be_bytes()));
            assert!(throttle.rows().0 <= 100);
        }
        assert_ne!(throttle.address(0, victim), Verdict::Allowed);
        // A table full of expired rows is as good as empty.
        throttle.failed(1_000_000, ip("192.0.2.7"));
        (0..2).for_each(|_| throttle.failed(1_000_000, ip("192.0.2.7")));
        assert_ne!(throttle.address(1_000_000, ip("192.0.2.7")), Verdict::Allowed);
    }

    #[test]
    fn shards_of_a_process_agree_on_who_counts_an_address() {
        let (one, other) = (throttle(PARAMS), throttle(ThrottleParams { address_burst: 9, ..PARAMS }));
        let mut seen = [0; 4];
        for i in 0..4_000u32 {
            let address = IpAddr::from(i.to_be_bytes());
            assert_eq!(one.spread(address), other.spread(address));
            seen[(one.spread(address) % 4) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert_eq!(one.spread(ip("2001:db8:1:2::1")), one.spread(ip("2001:db8:1:2::2")), "a /64 is one address");
    }

    #[test]
    fn zero_sets_no_limit() {
        let mut throttle = throttle(ThrottleParams { address_burst: 0, account_burst: 0, ..PARAMS });
        for _ in 0..1000 {
            throttle.failed(0, ip("192.0.2.1"));
            assert_eq!(throttle.begin(0, "romeo"), Verdict::Allowed);
        }
        assert_eq!(throttle.rows(), (0, 0));
    }

    proptest! {
        /// Over any time an address gets no more failures through than its burst and what has been refilled.
        #[test]
        fn no_schedule_beats_the_rate(steps in proptest::collection::vec(0u64..3_000, 1..200)) {
            let mut throttle = throttle(PARAMS);
            let (address, mut now_ms, mut failures) = (ip("192.0.2.1"), 0, 0);
            for step in steps {
                now_ms += step;
                if throttle.address(now_ms, address) == Verdict::Allowed {
                    throttle.failed(now_ms, address);
                    failures += 1;
                }
                prop_assert!(failures <= 3 + now_ms / 1_000, "{failures} by {now_ms}");
                prop_assert_eq!(throttle.addresses.full_at.len(), throttle.addresses.order.len());
            }
        }
    }
}
