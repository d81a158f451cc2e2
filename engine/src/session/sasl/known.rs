//! The addresses from which an account has logged in recently, so that its owner can log in while
//! others guess.
//!
//! Only a successful login writes here, so an attacker needs an account to take a place. The table
//! consists of sets of eight places. A keyed hash of the account selects its set. An account has at
//! most four places; its next address replaces the oldest. In a full set, a new pair replaces the
//! oldest place of the account with the most places there. An attacker with many accounts can evict
//! one place with each, and only where the table is full. An evicted address only counts as unknown
//! until its next login.

/// Places of a set.
const WAYS: usize = 8;
/// Addresses that are remembered per account.
const ADDRESSES_MAX: usize = 4;
/// Sets of the smallest table; it grows by doubling.
const SETS_MIN: usize = 64;
/// How long a success counts, seconds: 30 days.
const LATELY_S: u32 = 30 * 86_400;

/// Hash of the account, hash of the address, second of the last success plus one. The last is 0 in
/// a free place.
type Place = [u32; 3];

/// The table of one shard.
pub(super) struct KnownPairs {
    places: Vec<Place>,
    places_max: usize,
}

impl KnownPairs {
    /// Creates a table of at most `places_max` pairs, a power of two of at least 512; 12 bytes
    /// each. It grows as it fills.
    pub(super) fn new(places_max: usize) -> KnownPairs {
        debug_assert!(places_max.is_power_of_two() && places_max >= SETS_MIN * WAYS);
        KnownPairs { places: Vec::new(), places_max }
    }

    /// Whether a login from the address to the account has succeeded recently.
    pub(super) fn knows(&self, now_s: u32, account: u64, address: u64) -> bool {
        let (account, address) = (account as u32, address as u32);
        self.set(account).iter().any(|place| is_live(place, now_s) && place[0] == account && place[1] == address)
    }

    /// Records a successful login from the address to the account.
    pub(super) fn remember(&mut self, now_s: u32, account: u64, address: u64) {
        let (account, address) = (account as u32, address as u32);
        if self.places.is_empty() {
            self.places = vec![[0; 3]; SETS_MIN * WAYS];
        }
        loop {
            let room = self.places.len() < self.places_max;
            let start = self.start(account);
            let set = &mut self.places[start..start + WAYS];
            let own = |place: &Place| is_live(place, now_s) && place[0] == account;
            let known = set.iter().position(|place| place[0] == account && place[1] == address && place[2] > 0);
            let at = match (known, set.iter().position(|place| !is_live(place, now_s))) {
                (Some(known), _) => known,
                (None, _) if set.iter().filter(|place| own(place)).count() >= ADDRESSES_MAX => {
                    oldest(set, own).expect("it has some")
                }
                (None, Some(free)) => free,
                (None, None) if room => {
                    self.grow();
                    continue;
                }
                (None, None) => {
                    let of = |place: &Place| set.iter().filter(|other| other[0] == place[0]).count();
                    let most = set.iter().map(of).max().unwrap_or_default();
                    oldest(set, |place| of(place) == most).expect("a set has places")
                }
            };
            set[at] = [account, address, now_s.saturating_add(1)];
            return;
        }
    }

    /// Forgets all addresses of an account that was removed, or that an operator released.
    pub(super) fn forget(&mut self, account: u64) {
        let account = account as u32;
        if !self.places.is_empty() {
            let start = self.start(account);
            let set = &mut self.places[start..start + WAYS];
            set.iter_mut().filter(|place| place[0] == account).for_each(|place| *place = [0; 3]);
        }
    }

    /// Number of places in use.
    #[cfg(test)]
    fn taken(&self) -> usize {
        self.places.iter().filter(|place| place[2] > 0).count()
    }

    fn set(&self, account: u32) -> &[Place] {
        match self.places.is_empty() {
            true => &[],
            false => &self.places[self.start(account)..][..WAYS],
        }
    }

    fn start(&self, account: u32) -> usize {
        (account as usize & (self.places.len() / WAYS - 1)) * WAYS
    }

    /// Splits each set into two, and distributes its places among them.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.places);
        self.places = vec![[0; 3]; 2 * old.len()];
        for place in old.into_iter().filter(|place| place[2] > 0) {
            let start = self.start(place[0]);
            let set = &mut self.places[start..start + WAYS];
            let free = set.iter().position(|place| place[2] == 0).expect("a set takes what a smaller one held");
            set[free] = place;
        }
    }
}

fn is_live(place: &Place, now_s: u32) -> bool {
    place[2] > 0 && now_s.saturating_sub(place[2] - 1) <= LATELY_S
}

fn oldest(set: &[Place], wanted: impl Fn(&Place) -> bool) -> Option<usize> {
    (0..set.len()).filter(|&at| wanted(&set[at])).min_by_key(|&at| set[at][2])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are distributed like hashes.
    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
    }

    #[test]
    fn an_account_is_known_from_its_last_four_addresses_for_thirty_days() {
        let mut known = KnownPairs::new(512);
        assert!(!known.knows(0, 7, 1));
        (0..6).for_each(|address| known.remember(address as u32, 7, address));
        let seen: Vec<_> = (0..7).filter(|&address| known.knows(10, 7, address)).collect();
        assert_eq!(seen, [2, 3, 4, 5]);
        known.remember(20, 7, 2);
        known.remember(21, 7, 9);
        assert!(known.knows(30, 7, 2) && !known.knows(30, 7, 3), "the one not used for longest gives way");
        assert!(!known.knows(30, 8, 2), "another account");
        assert!(known.knows(20 + LATELY_S, 7, 2) && !known.knows(22 + LATELY_S, 7, 2));
        known.forget(7);
        assert!(!known.knows(30, 7, 2) && known.taken() == 0);
    }

    #[test]
    fn the_table_grows_to_its_bound_and_who_has_one_account_pushes_nobody_out() {
        let mut known = KnownPairs::new(4_096);
        (0..1_200).for_each(|n| known.remember(n as u32, hash(n), hash(n + 1)));
        assert!((0..1_200).all(|n| known.knows(1_200, hash(n), hash(n + 1))), "half full");
        // One account from 100,000 addresses.
        (0..100_000).for_each(|n| known.remember(2_000, hash(5_000), hash(10_000 + n)));
        assert!((0..1_200).filter(|&n| known.knows(2_000, hash(n), hash(n + 1))).count() >= 1_200 - ADDRESSES_MAX);
        // More accounts than places.
        (0..20_000).for_each(|n| known.remember(3_000, hash(20_000 + n), 1));
        assert_eq!(known.places.len(), 4_096);
        assert!(known.knows(3_000, hash(39_999), 1), "the last has its place");
    }

    #[test]
    fn in_a_full_set_those_with_most_places_give_way_first() {
        let mut known = KnownPairs::new(512);
        // All in one set: numbers with the same low bits.
        let account = |n: u64| n << 16;
        (0..4).for_each(|address| known.remember(1_000 + address as u32, account(1), address));
        (2..6).for_each(|n| known.remember(n as u32, account(n), 1));
        known.remember(2_000, account(9), 1);
        let left = (0..4).filter(|&address| known.knows(2_000, account(1), address)).count();
        assert_eq!(left, 3, "the newest of many goes before the only one of others");
        assert!((2..6).all(|n| known.knows(2_000, account(n), 1)));
    }
}
