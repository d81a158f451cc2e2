//! Usage of `/n/` per client address, as data: waiting requests, publications, and channels
//! created.

use std::net::{IpAddr, Ipv6Addr};

use hashbrown::HashMap;

use crate::kernel::Fixed;
use crate::limits::{
    NOTIFY_ADDRESSES_MAX, NOTIFY_ASKED_AHEAD_MS, NOTIFY_HELD_BYTES_PER_ADDRESS_MAX, NOTIFY_JWT_WRONG_AHEAD_MS,
    NOTIFY_MADE_AT_ONCE,
};

/// Usage by one address.
#[derive(Debug, Default)]
struct Address {
    /// Requests that are waiting.
    waiting: u32,
    /// Long polls that were answered and whose clients are expected to poll again.
    away: u32,
    /// Bytes of requests that are held until the authorization service decides about them.
    held: usize,
    /// Time at which the permitted rate has paid for all publications, in milliseconds (monotonic).
    paid_ms: u64,
    /// The same for channels that it has created.
    made_ms: u64,
    /// The same for tokens with a wrong signature.
    wrong_ms: u64,
    /// The same for inquiries about its requests.
    asked_ms: u64,
}

/// How far an address may run ahead of its permitted rate before publications are refused, in
/// milliseconds.
const AHEAD_MS: u64 = 10_000;
/// Limit on the debt of an address, in milliseconds.
const OWED_MS_MAX: u64 = 3_600_000;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Too many requests of the address are waiting.
    Waiting,
    /// The address has published too much; the number of seconds until it may publish again.
    Published(u64),
    /// The address has presented too many wrong tokens; the number of seconds until it may present
    /// another one.
    Wrong(u64),
    /// The address has caused too many inquiries; the number of seconds until it may cause another
    /// one.
    Asked(u64),
}

/// The network that an address is accounted to. A provider assigns an IPv6 /64 to one customer.
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
    /// Whether the entry holds no state.
    fn is_unknown(&self) -> bool {
        self.waiting == 0 && self.away == 0 && self.until_ms() == 0
    }

    /// When all debts have expired. Waiting requests are not considered.
    fn until_ms(&self) -> u64 {
        self.paid_ms.max(self.made_ms).max(self.wrong_ms).max(self.asked_ms)
    }
}

/// The addresses with state: at most [`NOTIFY_ADDRESSES_MAX`] besides those with waiting requests.
#[derive(Debug, Default)]
pub(super) struct Addresses(HashMap<IpAddr, Address, Fixed>);

impl Addresses {
    /// Memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(IpAddr, Address)>()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts a request that starts to wait.
    pub(super) fn waits(&mut self, network: IpAddr) {
        self.0.entry(network).or_default().waiting += 1;
    }

    /// Counts a request that stops waiting.
    pub(super) fn waits_no_more(&mut self, network: IpAddr) {
        let address = self.0.get_mut(&network).expect("an address of which a request waits is known");
        address.waiting -= 1;
        if address.is_unknown() {
            self.0.remove(&network);
        }
    }

    /// Whether one more client may be expected to poll again, out of at most `most`.
    pub(super) fn may_go_away(&self, network: IpAddr, most: u32) -> bool {
        self.0.get(&network).map_or(0, |address| address.away) < most
    }

    /// Counts a client that was answered and is expected to poll again.
    pub(super) fn went_away(&mut self, network: IpAddr) {
        self.0.entry(network).or_default().away += 1;
    }

    /// Counts clients that are no longer expected.
    pub(super) fn came_back(&mut self, network: IpAddr, count: u32) {
        // No client of this address was expected.
        let Some(address) = self.0.get_mut(&network) else { return };
        address.away -= count;
        if address.is_unknown() {
            self.0.remove(&network);
        }
    }

    /// Whether another request of this address may wait, out of at most `most`.
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

    /// Charges a publication, which costs `ms` milliseconds, or refuses it.
    pub(super) fn may_publish(&mut self, now_ms: u64, network: IpAddr, ms: f64) -> Result<(), Held> {
        let address = self.0.entry(network).or_default();
        let ahead = address.paid_ms.saturating_sub(now_ms);
        if ahead > AHEAD_MS {
            return Err(Held::Published((ahead - AHEAD_MS).div_ceil(1_000)));
        }
        self.charge(now_ms, network, ms);
        Ok(())
    }

    /// Whether the address may create a channel, each of which costs `each_ms` milliseconds.
    pub(super) fn may_make(&self, now_ms: u64, network: IpAddr, each_ms: u64) -> bool {
        self.0.get(&network).is_none_or(|address| address.made_ms <= now_ms + NOTIFY_MADE_AT_ONCE * each_ms)
    }

    /// Whether a signature presented by the address may be verified. Call [`Addresses::may_wait`]
    /// first: it makes room for the address.
    pub(super) fn may_verify(&self, now_ms: u64, network: IpAddr) -> Result<(), Held> {
        let ahead = self.0.get(&network).map_or(0, |address| address.wrong_ms.saturating_sub(now_ms));
        if ahead < NOTIFY_JWT_WRONG_AHEAD_MS {
            return Ok(());
        }
        Err(Held::Wrong((ahead - NOTIFY_JWT_WRONG_AHEAD_MS).div_ceil(1_000).max(1)))
    }

    /// Charges a wrong signature, each of which costs `each_ms` milliseconds.
    pub(super) fn was_wrong(&mut self, now_ms: u64, network: IpAddr, each_ms: u64) {
        let address = self.0.entry(network).or_default();
        address.wrong_ms = address.wrong_ms.max(now_ms) + each_ms;
    }

    /// Charges an inquiry, each of which costs `each_ms` milliseconds, or refuses it. Call
    /// [`Addresses::may_wait`] first: it makes room for the address.
    pub(super) fn may_ask(&mut self, now_ms: u64, network: IpAddr, each_ms: u64) -> Result<(), Held> {
        let address = self.0.entry(network).or_default();
        let ahead = address.asked_ms.saturating_sub(now_ms);
        if ahead > NOTIFY_ASKED_AHEAD_MS {
            return Err(Held::Asked((ahead - NOTIFY_ASKED_AHEAD_MS).div_ceil(1_000)));
        }
        address.asked_ms = address.asked_ms.max(now_ms) + each_ms;
        Ok(())
    }

    /// Whether another `bytes` of the address's requests may be held.
    pub(super) fn may_hold(&self, network: IpAddr, bytes: usize) -> bool {
        self.0.get(&network).map_or(0, |address| address.held) + bytes <= NOTIFY_HELD_BYTES_PER_ADDRESS_MAX
    }

    /// Counts the bytes of a held request.
    pub(super) fn holds(&mut self, network: IpAddr, bytes: usize) {
        self.0.entry(network).or_default().held += bytes;
    }

    /// Releases the bytes of a held request.
    pub(super) fn holds_no_more(&mut self, network: IpAddr, bytes: usize) {
        if let Some(address) = self.0.get_mut(&network) {
            address.held -= bytes;
        }
    }

    /// Charges a channel that the address has created.
    pub(super) fn made(&mut self, now_ms: u64, network: IpAddr, each_ms: u64) {
        let address = self.0.entry(network).or_default();
        address.made_ms = address.made_ms.max(now_ms) + each_ms;
    }

    /// Charges an address with `ms` milliseconds.
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
        // Channels that are created have a limit of their own.
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
