//! Which password an account has shown before, as a keyed hash, so that a storm of PLAIN logins costs no PBKDF2.
//!
//! An entry is HMAC-SHA-256 of the name, the password and the account's StoredKey, under a key that lives and dies with
//! the process. The StoredKey is in it so that a changed password is never served from memory, whichever shard changed
//! it: the account's record is read at every login anyway.

use hashbrown::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::store::hash::{SecretKey, Tag};

/// Bounded; the entry that was not used since the hand last passed gives way (the clock algorithm). Only passwords that
/// were right come in, so nobody can push out the entries of others by guessing.
pub struct PlainCache {
    key: SecretKey,
    entries: Vec<Entry>,
    /// From a name's keyed hash to its place in `entries`.
    places: HashMap<u64, u32, BuildHasherDefault<Given>>,
    hand: usize,
    entries_max: usize,
}

struct Entry {
    user: u64,
    seen: Tag,
    used: bool,
}

impl PlainCache {
    /// A cache of at most `entries_max` accounts, about 80 bytes each; with 0 nothing is remembered. `key` is fresh
    /// entropy of this process.
    pub fn new(key: &[u8; 32], entries_max: usize) -> PlainCache {
        let entries_max = entries_max.min(u32::MAX as usize);
        let places = HashMap::with_hasher(BuildHasherDefault::default());
        PlainCache { key: SecretKey::new(key), entries: Vec::new(), places, hand: 0, entries_max }
    }

    /// Number of accounts remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets an account: its password was changed, or it was removed. Not needed for correctness (see above).
    pub fn forget(&mut self, localpart: &str) {
        let Some(place) = self.places.remove(&self.user(localpart)) else { return };
        self.entries.swap_remove(place as usize);
        if let Some(moved) = self.entries.get(place as usize) {
            self.places.insert(moved.user, place);
        }
    }

    /// What the password of a login is known by.
    pub(super) fn tag(&self, localpart: &str, password: &str, stored: &Tag) -> Tag {
        self.key.tag(&[b"password", localpart.as_bytes(), stored.as_bytes(), password.as_bytes()])
    }

    /// Whether this password was verified against this StoredKey before.
    pub(super) fn knows(&mut self, localpart: &str, password: &str, stored: &Tag) -> bool {
        let Some(&place) = self.places.get(&self.user(localpart)) else { return false };
        let seen = self.tag(localpart, password, stored);
        let entry = &mut self.entries[place as usize];
        let known = entry.seen == seen;
        entry.used |= known;
        known
    }

    /// Remembers what [`PlainCache::tag`] made of a password that was right.
    pub(super) fn remember(&mut self, localpart: &str, seen: Tag) {
        let user = self.user(localpart);
        // Not used yet: what is shown once in a while gives way to what is shown often.
        let entry = Entry { user, seen, used: false };
        if let Some(&place) = self.places.get(&user) {
            self.entries[place as usize] = entry;
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

    /// Moves the hand to an entry that was not used since it last came by. Ends within two rounds.
    fn give_way(&mut self) -> usize {
        loop {
            let place = self.hand % self.entries.len();
            self.hand = place + 1;
            if !std::mem::take(&mut self.entries[place].used) {
                return place;
            }
        }
    }

    fn user(&self, localpart: &str) -> u64 {
        self.key.short(&[b"user", localpart.as_bytes()])
    }
}

impl std::fmt::Debug for PlainCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlainCache({} of {})", self.entries.len(), self.entries_max)
    }
}

/// A hasher for keys that are keyed hashes already: takes them as they are.
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
    use crate::store::hash::HashKind;

    fn stored(name: &str) -> Tag {
        HashKind::Sha256.digest(&[name.as_bytes()])
    }

    fn remember(cache: &mut PlainCache, name: &str) {
        let seen = cache.tag(name, "pencil", &stored(name));
        cache.remember(name, seen);
    }

    fn knows(cache: &mut PlainCache, name: &str) -> bool {
        cache.knows(name, "pencil", &stored(name))
    }

    #[test]
    fn only_the_same_name_password_and_stored_key_are_known() {
        let mut cache = PlainCache::new(&[1; 32], 4);
        remember(&mut cache, "romeo");
        assert!(knows(&mut cache, "romeo"));
        assert!(!cache.knows("romeo", "pencils", &stored("romeo")));
        assert!(!cache.knows("romeo", "pencil", &stored("after a change")));
        assert!(!cache.knows("juliet", "pencil", &stored("romeo")));
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
        // Places stay right through removals from the middle.
        let known: Vec<_> = (0..1000).map(|i| format!("user{i}")).filter(|name| knows(&mut cache, name)).collect();
        assert_eq!(known.len(), 99);
        for (done, name) in known.iter().enumerate() {
            cache.forget(name);
            assert!(!knows(&mut cache, name) && cache.len() == 99 - done);
            assert!(known[done + 1..].iter().all(|rest| knows(&mut cache, rest)));
        }
    }
}
