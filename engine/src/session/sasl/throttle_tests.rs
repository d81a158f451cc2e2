use proptest::prelude::*;

use super::*;

const PARAMS: ThrottleParams = ThrottleParams {
    address_burst: 3,
    address_refill_ms: 1_000,
    pair_burst: 2,
    pair_refill_ms: 10_000,
    account_burst: 6,
    account_refill_ms: 5_000,
    rows_max: 100,
};

fn addresses(params: ThrottleParams) -> AddressThrottle {
    AddressThrottle::new(Limit::AddressLogins, &params, &[3; 32])
}

fn accounts(params: ThrottleParams) -> AccountThrottle {
    AccountThrottle::new(&params, &[3; 32])
}

fn peer(text: &str) -> Peer {
    addresses(PARAMS).peer(text.parse().unwrap())
}

/// The limit that holds, and for how long.
fn held(answer: Result<(), Refused>) -> Option<(Limit, u64)> {
    answer.err().map(|refused| (refused.held.limit, refused.held.left_ms.expect("a time")))
}

/// RFC 6120 6.4.5, 13.9.2: failures of an address are limited; attempts are regained one by one.
#[test]
fn an_address_waits_after_its_burst() {
    let (mut throttle, address) = (addresses(PARAMS), peer("192.0.2.1"));
    for _ in 0..3 {
        assert_eq!(throttle.allows(5_000, address), Ok(()));
        throttle.charge(5_000, address);
    }
    assert_eq!(held(throttle.allows(5_000, address)), Some((Limit::AddressLogins, 1_000)));
    assert_eq!(held(throttle.allows(5_400, address)), Some((Limit::AddressLogins, 600)));
    assert_eq!(throttle.allows(6_000, address), Ok(()));
    throttle.charge(6_000, address);
    assert_eq!(held(throttle.allows(6_000, address)), Some((Limit::AddressLogins, 1_000)));
    assert_eq!(throttle.allows(6_000, peer("192.0.2.2")), Ok(()));
    // However many fail, the wait is bounded by the burst.
    (0..100).for_each(|_| throttle.charge(6_000, address));
    assert_eq!(throttle.allows(9_000, address), Ok(()));
}

#[test]
fn a_pair_is_charged_at_the_start_and_refunded_by_success() {
    let (mut throttle, own) = (accounts(PARAMS), peer("192.0.2.1"));
    for _ in 0..50 {
        assert_eq!(throttle.begin(0, own, "romeo"), Ok(()));
        throttle.succeeded(0, own, "romeo");
    }
    assert_eq!(throttle.rows(), (0, 0));
    // Two in progress; the third waits although none has failed yet.
    (0..2).for_each(|_| assert_eq!(throttle.begin(0, own, "romeo"), Ok(())));
    assert_eq!(held(throttle.begin(0, own, "romeo")), Some((Limit::PairLogins, 10_000)));
    assert_eq!(throttle.begin(0, own, "juliet"), Ok(()));
    throttle.succeeded(0, own, "romeo");
    assert_eq!(throttle.begin(0, own, "romeo"), Ok(()));
    assert_eq!(held(throttle.begin(9_999, own, "romeo")), Some((Limit::PairLogins, 1)));
    assert_eq!(throttle.begin(10_000, own, "romeo"), Ok(()));
}

/// One address cannot lock an account out. Many can for unknown addresses. None can for known ones.
#[test]
fn an_account_under_attack_is_open_to_those_who_logged_in_lately() {
    let (mut throttle, own) = (accounts(PARAMS), peer("192.0.2.1"));
    assert_eq!(throttle.begin(0, own, "romeo"), Ok(()));
    throttle.succeeded(0, own, "romeo");
    let mut guesses = 0;
    for n in 0..100 {
        let attacker = peer(&format!("198.51.100.{n}"));
        while throttle.begin(1_000, attacker, "romeo").is_ok() {
            guesses += 1;
        }
    }
    assert_eq!(guesses, 6, "the account's bound, of however many addresses");
    let stranger = peer("203.0.113.1");
    assert_eq!(held(throttle.begin(1_000, stranger, "romeo")), Some((Limit::AccountLogins, 5_000)));
    assert_eq!(throttle.begin(1_000, own, "romeo"), Ok(()), "logged in lately");
    assert_eq!(throttle.begin(1_000, own, "romeo"), Ok(()));
    assert_eq!(held(throttle.begin(1_000, own, "romeo")), Some((Limit::PairLogins, 10_000)), "its own bound stays");
    // The known pair's attempts were not charged to the account.
    assert_eq!(throttle.begin(6_000, stranger, "romeo"), Ok(()));
    throttle.removed("romeo");
    assert_eq!(throttle.begin(11_000, peer("203.0.113.2"), "romeo"), Ok(()));
    assert_eq!(held(throttle.begin(11_000, own, "romeo")), Some((Limit::AccountLogins, 5_000)), "the name begins anew");
}

#[test]
fn a_name_without_an_account_is_held_as_any_other() {
    let (mut throttle, stranger) = (accounts(PARAMS), peer("203.0.113.1"));
    for name in ["romeo", "nobody"] {
        (0..2).for_each(|_| assert_eq!(throttle.begin(0, stranger, name), Ok(())));
        assert_eq!(held(throttle.begin(0, stranger, name)), Some((Limit::PairLogins, 10_000)));
    }
}

#[test]
fn an_operator_sees_who_is_held_and_lets_go() {
    let (mut throttle, mut of_address) = (accounts(PARAMS), addresses(PARAMS));
    let attacker = peer("2001:db8:1:2::66");
    for name in ["romeo", "juliet"] {
        while throttle.begin(1_000, attacker, name).is_ok() {}
    }
    (0..3).for_each(|_| of_address.charge(2_000, attacker));
    assert!(of_address.allows(2_000, attacker).is_err());
    let rows: Vec<_> = of_address.holdings(2_500).collect();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].0, &*rows[0].1.who, rows[0].1.since_ms), (Limit::AddressLogins, "2001:db8:1:2::/64", 2_000));
    let mut who: Vec<_> = throttle.holdings(1_000).map(|(limit, holding)| (limit, holding.who)).collect();
    who.sort();
    let pair = |name: &str| (Limit::PairLogins, format!("2001:db8:1:2::/64 {name}"));
    assert_eq!(who, [pair("juliet"), pair("romeo")]);
    assert_eq!(throttle.release(1_000, Freed::Account("romeo")), 1);
    assert_eq!(throttle.begin(1_000, attacker, "romeo"), Ok(()));
    assert_eq!(throttle.release(1_000, Freed::Peer(peer("2001:db8:1:2::7"))), 1, "the /64, and all its pairs");
    assert_eq!(throttle.begin(1_000, attacker, "juliet"), Ok(()));
    assert_eq!(of_address.release(2_500, Some(attacker)), 1);
    assert_eq!(of_address.allows(2_500, attacker), Ok(()));
    assert_eq!((of_address.release(2_500, None), throttle.release(2_500, Freed::All)), (0, 0));
}

#[test]
fn an_ipv6_customer_is_one_address() {
    let mut throttle = addresses(PARAMS);
    for i in 0..3 {
        throttle.charge(0, peer(&format!("2001:db8:1:2::{i}")));
    }
    throttle.charge(0, peer("192.0.2.1"));
    assert!(throttle.allows(0, peer("2001:db8:1:2:ffff::1")).is_err());
    assert_eq!(throttle.allows(0, peer("2001:db8:1:3::1")), Ok(()));
    throttle.charge(0, peer("::ffff:192.0.2.1"));
    throttle.charge(0, peer("::ffff:192.0.2.1"));
    assert!(throttle.allows(0, peer("192.0.2.1")).is_err(), "a mapped address is the IPv4 one");
}

#[test]
fn many_small_offenders_do_not_flush_a_large_penalty() {
    let (mut throttle, offender) = (addresses(PARAMS), peer("192.0.2.1"));
    (0..3).for_each(|_| throttle.charge(0, offender));
    for i in 0..20_000u32 {
        let other = throttle.peer(IpAddr::from(i.to_be_bytes()));
        throttle.charge(0, other);
        assert!(throttle.rows() <= 100);
    }
    assert!(throttle.allows(0, offender).is_err());
    // A table full of expired rows is equivalent to an empty one.
    (0..3).for_each(|_| throttle.charge(1_000_000, peer("192.0.2.7")));
    assert!(throttle.allows(1_000_000, peer("192.0.2.7")).is_err());
}

#[test]
fn shards_of_a_process_agree_on_who_counts_an_address() {
    let (one, other) = (addresses(PARAMS), addresses(ThrottleParams { address_burst: 9, ..PARAMS }));
    let mut seen = [0; 4];
    for i in 0..4_000u32 {
        let address = IpAddr::from(i.to_be_bytes());
        assert_eq!(one.peer(address), other.peer(address));
        seen[(one.peer(address).key % 4) as usize] += 1;
    }
    assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    assert_eq!(peer("2001:db8:1:2::1").key, peer("2001:db8:1:2::2").key, "a /64 is one address");
}

#[test]
fn zero_sets_no_limit() {
    let none = ThrottleParams { address_burst: 0, pair_burst: 0, account_burst: 0, ..PARAMS };
    let (mut throttle, mut of_address, own) = (accounts(none), addresses(none), peer("192.0.2.1"));
    for _ in 0..1000 {
        of_address.charge(0, own);
        assert_eq!((of_address.allows(0, own), throttle.begin(0, own, "romeo")), (Ok(()), Ok(())));
    }
    assert_eq!((of_address.rows(), throttle.rows()), (0, (0, 0)));
}

proptest! {
    /// Over any period, an address gets no more failures through than its burst plus what has been
    /// refilled.
    #[test]
    fn no_schedule_beats_the_rate(steps in proptest::collection::vec(0u64..3_000, 1..200)) {
        let (mut throttle, address) = (addresses(PARAMS), peer("192.0.2.1"));
        let (mut now_ms, mut failures) = (0, 0);
        for step in steps {
            now_ms += step;
            if throttle.allows(now_ms, address).is_ok() {
                throttle.charge(now_ms, address);
                failures += 1;
            }
            prop_assert!(failures <= 3 + now_ms / 1_000, "{failures} by {now_ms}");
            prop_assert!(throttle.rows() <= 1);
        }
    }
}
