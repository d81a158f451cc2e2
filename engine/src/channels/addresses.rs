//! What each address does at `/n/`, as data: how many of its requests wait, and what it has published and made.

use std::net::{IpAddr, Ipv6Addr};

use hashbrown::HashMap;

use crate::kernel::Fixed;
use crate::limits::{
    NOTIFY_ADDRESSES_MAX, NOTIFY_ASKED_AHEAD_MS, NOTIFY_HELD_BYTES_PER_ADDRESS_MAX, NOTIFY_JWT_WRONG_AHEAD_MS,
    NOTIFY_MADE_AT_ONCE,
};

/// What is known of an address.
#[derive(Debug, Default)]
struct Address {
    /// Requests of it that wait.
    waiting: u32,
    /// Those that have been answered, and are expected again.
    away: u32,
    /// Bytes of requests that wait until others have said whether they may be done.
    held: usize,
    /// Up to when what it has published would take, by what it may, milliseconds (monotonic).
    paid_ms: u64,
    /// The same of channels that it has made.
    made_ms: u64,
    /// The same of tokens that it has shown, and of which the signature was wrong.
    wrong_ms: u64,
    /// The same of questions to others whether its requests may be done.
    asked_ms: u64,
}

/// Publications are refused when an address is ahead of what it may by so much, milliseconds.
const AHEAD_MS: u64 = 10_000;
/// What it owes is not counted beyond this, milliseconds.
const OWED_MS_MAX: u64 = 3_600_000;

/// Why a request may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Too many of its address do.
    Waiting,
    /// Its address has published too much, and may again in so many seconds.
    Published(u64),
    /// Its address has shown too many tokens that were wrong, and may show others in so many seconds.
    Wrong(u64),
    /// Others were asked about its requests too often, and may be again in so many seconds.
    Asked(u64),
}

/// Whom an address counts for: an IPv6 /64 is what one customer of a provider has.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

impl Address {
    /// Whether nothing is to be known of it.
    fn is_unknown(&self) -> bool {
        self.waiting == 0 && self.away == 0 && self.until_ms() == 0
    }

    /// When nothing of it is left to count, but what waits.
    fn until_ms(&self) -> u64 {
        self.paid_ms.max(self.made_ms).max(self.wrong_ms).max(self.asked_ms)
    }
}

/// All of which something is known: at most [`NOTIFY_ADDRESSES_MAX`], and as many as wait.
#[derive(Debug, Default)]
pub(super) struct Addresses(HashMap<IpAddr, Address, Fixed>);

impl Addresses {
    /// What they take, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(IpAddr, Address)>()
    }

    /// Whether nothing is known of any.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A request of an address waits.
    pub(super) fn waits(&mut self, network: IpAddr) {
        self.0.entry(network).or_default().waiting += 1;
    }

    /// One does not any more.
    pub(super) fn waits_no_more(&mut self, network: IpAddr) {
        let address = self.0.get_mut(&network).expect("an address of which a request waits is known");
        address.waiting -= 1;
        if address.is_unknown() {
            self.0.remove(&network);
        }
    }

    /// Whether one more that was answered may be expected again, of so many at once at most.
    pub(super) fn may_go_away(&self, network: IpAddr, most: u32) -> bool {
        self.0.get(&network).map_or(0, |address| address.away) < most
    }

    /// One that was answered is expected again.
    pub(super) fn went_away(&mut self, network: IpAddr) {
        self.0.entry(network).or_default().away += 1;
    }

    /// So many are not expected any more.
    pub(super) fn came_back(&mut self, network: IpAddr, count: u32) {
        // None of it was expected.
        let Some(address) = self.0.get_mut(&network) else { return };
        address.away -= count;
        if address.is_unknown() {
            self.0.remove(&network);
        }
    }

    /// Whether a request of this address may wait, of so many at once at most.
    pub(super) fn may_wait(&mut self, now_ms: u64, network: IpAddr, most: u32) -> Result<(), Held> {
        if self.0.len() >= NOTIFY_ADDRESSES_MAX && !self.0.contains_key(&network) {
            self.0.retain(|_, address| address.waiting + address.away > 0 || address.until_ms() > now_ms);
        }
        if self.0.len() >= NOTIFY_ADDRESSES_MAX && !self.0.contains_key(&network) {
            return Err(Held::Waiting);
        }
        let address = self.0.entry(network).or_default();
        if address.waiting >= most { Err(Held::Waiting) } else { Ok(()) }
    }

    /// Whether it may publish; it is charged with what it does, which takes so many milliseconds.
    pub(super) fn may_publish(&mut self, now_ms: u64, network: IpAddr, ms: f64) -> Result<(), Held> {
        let address = self.0.entry(network).or_default();
        let ahead = address.paid_ms.saturating_sub(now_ms);
        if ahead > AHEAD_MS {
            return Err(Held::Published((ahead - AHEAD_MS).div_ceil(1_000)));
        }
        self.charge(now_ms, network, ms);
        Ok(())
    }

    /// Whether it may make a channel, of which each takes so many milliseconds.
    pub(super) fn may_make(&self, now_ms: u64, network: IpAddr, each_ms: u64) -> bool {
        self.0.get(&network).is_none_or(|address| address.made_ms <= now_ms + NOTIFY_MADE_AT_ONCE * each_ms)
    }

    /// Whether a signature may be verified that it shows; once [`Addresses::may_wait`] has made room for it.
    pub(super) fn may_verify(&self, now_ms: u64, network: IpAddr) -> Result<(), Held> {
        let ahead = self.0.get(&network).map_or(0, |address| address.wrong_ms.saturating_sub(now_ms));
        if ahead < NOTIFY_JWT_WRONG_AHEAD_MS {
            return Ok(());
        }
        Err(Held::Wrong((ahead - NOTIFY_JWT_WRONG_AHEAD_MS).div_ceil(1_000).max(1)))
    }

    /// It was wrong, of which each takes so many milliseconds.
    pub(super) fn was_wrong(&mut self, now_ms: u64, network: IpAddr, each_ms: u64) {
        let address = self.0.entry(network).or_default();
        address.wrong_ms = address.wrong_ms.max(now_ms) + each_ms;
    }

    /// Others are asked about a request of it, of which each takes so many milliseconds; once [`Addresses::may_wait`] has made room for it.
    pub(super) fn may_ask(&mut self, now_ms: u64, network: IpAddr, each_ms: u64) -> Result<(), Held> {
        let address = self.0.entry(network).or_default();
        let ahead = address.asked_ms.saturating_sub(now_ms);
        if ahead > NOTIFY_ASKED_AHEAD_MS {
            return Err(Held::Asked((ahead - NOTIFY_ASKED_AHEAD_MS).div_ceil(1_000)));
        }
        address.asked_ms = address.asked_ms.max(now_ms) + each_ms;
        Ok(())
    }

    /// Whether so many bytes more of its requests may be held.
    pub(super) fn may_hold(&self, network: IpAddr, bytes: usize) -> bool {
        self.0.get(&network).map_or(0, |address| address.held) + bytes <= NOTIFY_HELD_BYTES_PER_ADDRESS_MAX
    }

    /// So many bytes of a request that waits are held.
    pub(super) fn holds(&mut self, network: IpAddr, bytes: usize) {
        self.0.entry(network).or_default().held += bytes;
    }

    /// They are not any more.
    pub(super) fn holds_no_more(&mut self, network: IpAddr, bytes: usize) {
        if let Some(address) = self.0.get_mut(&network) {
            address.held -= bytes;
        }
    }

    /// It has made one.
    pub(super) fn made(&mut self, now_ms: u64, network: IpAddr, each_ms: u64) {
        let address = self.0.entry(network).or_default();
        address.made_ms = address.made_ms.max(now_ms) + each_ms;
    }

    /// An address is charged with so much.
    pub(super) fn charge(&mut self, now_ms: u64, network: IpAddr, ms: f64) {
        let address = self.0.entry(network).or_default();
        let ms = ms.clamp(0.0, OWED_MS_MAX as f64).round() as u64;
        address.paid_ms = (address.paid_ms.max(now_ms) + ms).min(now_ms + OWED_MS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_publishes_too_much_waits_for_as_long_as_it_is_ahead() {
        let (mut all, network) = (Addresses::default(), IpAddr::from([192, 0, 2, 1]));
        let mut taken = 0;
        while all.may_publish(1_000, network, 50.0).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 201, "ten seconds ahead");
        assert_eq!(all.may_publish(1_000, network, 50.0), Err(Held::Published(1)));
        assert_eq!(all.may_publish(1_050, network, 50.0), Ok(()));
        all.charge(1_050, network, 1e12);
        assert_eq!(all.may_publish(1_050, network, 50.0), Err(Held::Published(3_590)), "it is not held for ever");
        assert_eq!(all.may_wait(1_050, network, 0), Err(Held::Waiting));
        // Channels that it makes have a measure of their own.
        let makes = |all: &mut Addresses, now_ms| {
            let may = all.may_make(now_ms, network, 10_000);
            may.then(|| all.made(now_ms, network, 10_000)).is_some()
        };
        assert_eq!((0..50).filter(|_| makes(&mut all, 1_050)).count(), 11);
        assert!(!makes(&mut all, 1_051) && makes(&mut all, 11_050) && !makes(&mut all, 11_051));
    }

    #[test]
    fn an_ipv6_customer_is_one_address() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2:3:4"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
