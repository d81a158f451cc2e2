//! Caches the last accepted password of each account as a keyed hash, so that a storm of PLAIN
//! logins needs no PBKDF2.
//!
//! An entry is HMAC-SHA-256 of the name, the password and the account's StoredKey, under a key of
//! this process that all its shards share. The StoredKey is included so that a password that was
//! changed is never accepted from the cache: the account's record is read at every login anyway.
//!
//! An account's entry is at its home. The shard with the connection gets the entry with the
//! account's record and compares it with the hash of the password that the client has sent. It
//! reports a password that was right to the home. No password crosses shards.

use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::store::hash::{HashKind, SecretKey, Tag};

/// Bounded: an entry that was not used since the hand last passed is evicted (the clock algorithm).
/// Only passwords that were right are inserted, so guessing cannot evict the entries of others.
pub struct PlainCache {
    key: SecretKey,
    entries: Vec<Entry>,
    /// From a name's keyed hash to its index in `entries`.
    places: HashMap<u64, u32, BuildHasherDefault<Given>>,
    hand: usize,
    entries_max: usize,
}

struct Entry {
    user: u64,
    /// The bytes of the tag only; a tag has room for a longer hash.
    seen: [u8; 32],
    used: bool,
}

impl Entry {
    fn seen(&self) -> Tag {
        Tag::from_bytes(HashKind::Sha256, &self.seen).expect("its length")
    }
}

impl PlainCache {
    /// A cache of at most `entries_max` accounts, about 80 bytes each; 0 disables it. `key` is
    /// fresh entropy of this process.
    pub fn new(key: &[u8; 32], entries_max: usize) -> PlainCache {
        let entries_max = entries_max.min(u32::MAX as usize);
        let places = HashMap::with_hasher(BuildHasherDefault::default());
        PlainCache { key: SecretKey::new(key), entries: Vec::new(), places, hand: 0, entries_max }
    }

    /// Number of cached accounts.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets an account whose password was changed, or that was removed. Not needed for
    /// correctness (see above).
    pub fn forget(&mut self, account: &str) {
        let Some(place) = self.places.remove(&self.user(account)) else { return };
        self.entries.swap_remove(place as usize);
        if let Some(moved) = self.entries.get(place as usize) {
            self.places.insert(moved.user, place);
        }
    }

    /// The tag of a login's password, equal at every shard of the process.
    pub fn tag(&self, account: &str, password: &str, stored: &Tag) -> Tag {
        self.key.tag(&[b"password", account.as_bytes(), stored.as_bytes(), password.as_bytes()])
    }

    /// The [`PlainCache::tag`] of this account's last accepted password.
    pub fn seen(&self, account: &str) -> Option<Tag> {
        self.places.get(&self.user(account)).map(|&place| self.entries[place as usize].seen())
    }

    /// Stores the [`PlainCache::tag`] of a password that was right.
    pub fn remember(&mut self, account: &str, seen: Tag) {
        let (user, shown) = (self.user(account), seen);
        let Some(&seen) = shown.as_bytes().first_chunk() else { return };
        // Not marked as used yet: entries that are used rarely are evicted before those that are
        // used often.
        let entry = Entry { user, seen, used: false };
        if let Some(&place) = self.places.get(&user) {
            let known = &mut self.entries[place as usize];
            if known.seen() == shown {
                known.used = true;
            } else {
                *known = entry;
            }
        } else if self.entries.len() < self.entries_max {
            self.places.insert(user, self.entries.len() as u32);
            self.entries.push(entry);
        } else if self.entries_max > 0 {
            let place = self.give_way();
            self.places.remove(&self.entries[place].user);
            self.places.insert(user, place as u32);
            self.entries[place] = entry;
        }
    }

    /// Moves the hand to an entry that was not used since the hand last passed. Ends within two
    /// rounds.
    fn give_way(&mut self) -> usize {
        loop {
            let place = self.hand % self.entries.len();
            self.hand = place + 1;
            if !std::mem::take(&mut self.entries[place].used) {
                return place;
            }
        }
    }

    fn user(&self, account: &str) -> u64 {
        self.key.short(&[b"user", account.as_bytes()])
    }
}

impl std::fmt::Debug for PlainCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlainCache({} of {})", self.entries.len(), self.entries_max)
    }
}

/// A hasher for keys that are already keyed hashes: returns them unchanged.
#[derive(Default)]
pub(super) struct Given(u64);

impl Hasher for Given {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str) -> Tag {
        HashKind::Sha256.digest(&[name.as_bytes()])
    }

    fn remember(cache: &mut PlainCache, name: &str) {
        let seen = cache.tag(name, "pencil", &stored(name));
        cache.remember(name, seen);
    }

    /// Whether the password is cached; a hit marks the entry as used.
    fn knows(cache: &mut PlainCache, name: &str) -> bool {
        let known = shows(cache, name, "pencil", &stored(name));
        if known {
            remember(cache, name);
        }
        known
    }

    fn shows(cache: &PlainCache, name: &str, password: &str, stored: &Tag) -> bool {
        cache.seen(name) == Some(cache.tag(name, password, stored))
    }

    #[test]
    fn only_the_same_name_password_and_stored_key_are_known() {
        let mut cache = PlainCache::new(&[1; 32], 4);
        remember(&mut cache, "romeo");
        assert!(knows(&mut cache, "romeo"));
        assert!(!shows(&cache, "romeo", "pencils", &stored("romeo")));
        assert!(!shows(&cache, "romeo", "pencil", &stored("after a change")));
        assert!(!shows(&cache, "juliet", "pencil", &stored("romeo")));
        // Another shard of the process computes the same tag; another process does not.
        let other = PlainCache::new(&[1; 32], 4);
        assert!(cache.seen("romeo") == Some(other.tag("romeo", "pencil", &stored("romeo"))));
        let stranger = PlainCache::new(&[2; 32], 4);
        assert!(cache.seen("romeo") != Some(stranger.tag("romeo", "pencil", &stored("romeo"))));
        cache.forget("romeo");
        assert!(!knows(&mut cache, "romeo") && cache.is_empty());
        let mut none = PlainCache::new(&[1; 32], 0);
        remember(&mut none, "romeo");
        assert!(none.is_empty());
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let mut cache = PlainCache::new(&[1; 32], 100);
        remember(&mut cache, "romeo");
        for i in 0..1000 {
            remember(&mut cache, &format!("user{i}"));
            assert!(knows(&mut cache, "romeo"), "lost after {i}");
            assert!(cache.len() <= 100);
        }
        assert_eq!(cache.len(), 100);
        assert_eq!(cache.places.len(), 100);
        // Indices remain correct through removals from the middle.
        let known: Vec<_> = (0..1000).map(|i| format!("user{i}")).filter(|name| knows(&mut cache, name)).collect();
        assert_eq!(known.len(), 99);
        for (done, name) in known.iter().enumerate() {
            cache.forget(name);
            assert!(!knows(&mut cache, name) && cache.len() == 99 - done);
            assert!(known[done + 1..].iter().all(|rest| knows(&mut cache, rest)));
        }
    }
}
