//! Available presence, interned: a session stores four bytes, and a payload common to a million
//! sessions is stored once.
//!
//! A payload is the presence stanza as received (`<show/>`, `<status/>`, `<priority/>`, caps, ...),
//! without addresses and `id`. Clients of one kind send the same payload, so most shards hold few
//! distinct ones; idle times and avatars make others distinct. Each holder of an id owns one
//! reference. It must never know whose presence it is.

use crate::limits::PRESENCE_PAYLOAD_BYTES_MAX;
use hashbrown::HashTable;
use std::num::NonZeroU32;

/// A reference to an interned payload. `Option<PresenceId>` also takes four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PresenceId(NonZeroU32);

/// A number plus one.
type Tag = NonZeroU32;

#[derive(Debug)]
struct Slot {
    payload: Box<[u8]>,
    references: u32,
    /// Hash of the payload, so that the index can grow without reading payloads.
    hash: u32,
    /// A number that the table's owner has attached to it.
    tag: Option<Tag>,
}

/// The table refused a payload: it is too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// The distinct presence payloads of one shard with their reference counts.
#[derive(Debug)]
pub struct PresenceTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    index: HashTable<u32>,
    key: [u64; 2],
    bytes: usize,
}

impl PresenceTable {
    /// An empty table. `key` keys the hash: with an unguessable key, nobody can construct payloads
    /// that collide.
    pub fn new(key: [u64; 2]) -> PresenceTable {
        PresenceTable { slots: Vec::new(), free: Vec::new(), index: HashTable::new(), key, bytes: 0 }
    }

    /// Takes a reference to a payload, which is stored if it is new.
    ///
    /// # Errors
    /// [`Refused`] if the payload is over [`PRESENCE_PAYLOAD_BYTES_MAX`]. The table itself is
    /// bounded only by the number of sessions, each of which holds one payload. So unique payloads
    /// of some clients never prevent others from being seen.
    pub fn intern(&mut self, payload: &[u8]) -> Result<PresenceId, Refused> {
        let hash = hash(self.key, payload);
        let same = |&slot: &u32| {
            let slot = &self.slots[slot as usize];
            slot.hash == hash && *slot.payload == *payload
        };
        if let Some(&slot) = self.index.find(spread(hash), same) {
            self.slots[slot as usize].references += 1;
            return Ok(id(slot));
        }
        if payload.len() > PRESENCE_PAYLOAD_BYTES_MAX {
            return Err(Refused);
        }
        let new = Slot { payload: payload.into(), references: 1, hash, tag: None };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                self.slots.len() as u32 - 1
            }
        };
        self.bytes += payload.len();
        let slots = &self.slots;
        self.index.insert_unique(spread(hash), slot, |&slot| spread(slots[slot as usize].hash));
        Ok(id(slot))
    }

    /// Takes one more reference.
    pub fn retain(&mut self, id: PresenceId) -> PresenceId {
        self.slot(id).references += 1;
        id
    }

    /// The number attached to a payload.
    pub fn tag(&self, id: PresenceId) -> Option<u32> {
        self.slots[number(id) as usize].tag.map(|tag| tag.get() - 1)
    }

    /// Attaches a number to a payload for as long as the payload exists.
    pub fn set_tag(&mut self, id: PresenceId, tag: u32) {
        self.slot(id).tag = Some(NonZeroU32::MIN.saturating_add(tag));
    }

    /// Releases one reference; the last one frees the payload and returns its attached number.
    pub fn release(&mut self, id: PresenceId) -> Option<u32> {
        let slot = self.slot(id);
        slot.references -= 1;
        if slot.references > 0 {
            return None;
        }
        let tag = slot.tag.take().map(|tag| tag.get() - 1);
        let payload = std::mem::take(&mut slot.payload);
        let (at, hash) = (number(id), slot.hash);
        let entry = self.index.find_entry(spread(hash), |&slot| slot == at);
        entry.expect("a payload in use is in the index").remove();
        self.bytes -= payload.len();
        self.free.push(at);
        tag
    }

    /// The payload of a reference.
    pub fn get(&self, id: PresenceId) -> &[u8] {
        let slot = &self.slots[number(id) as usize];
        assert!(slot.references > 0, "a presence is used after its last reference");
        &slot.payload
    }

    /// Number of distinct payloads.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the payloads.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn slot(&mut self, id: PresenceId) -> &mut Slot {
        let slot = &mut self.slots[number(id) as usize];
        assert!(slot.references > 0, "a presence is used after its last reference");
        slot
    }
}

fn id(slot: u32) -> PresenceId {
    PresenceId(NonZeroU32::MIN.saturating_add(slot))
}

fn number(id: PresenceId) -> u32 {
    id.0.get() - 1
}

#[expect(deprecated, reason = "the standard library's only keyed hash whose key is an argument and not ambient")]
fn hash(key: [u64; 2], payload: &[u8]) -> u32 {
    use std::hash::Hasher;
    let mut hasher = std::hash::SipHasher::new_with_keys(key[0], key[1]);
    hasher.write(payload);
    hasher.finish() as u32
}

/// Prepares a hash for the index, which uses the upper bits, too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_sessions_have_in_common_is_kept_once() {
        let mut table = PresenceTable::new([1, 2]);
        let caps = b"<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='v'/>";
        let ids: Vec<_> = (0..1000).map(|_| table.intern(caps).unwrap()).collect();
        assert_eq!((table.len(), table.bytes()), (1, caps.len()));
        assert_eq!(table.get(ids[999]), caps);
        for id in ids {
            table.release(id);
        }
        assert_eq!((table.len(), table.bytes(), table.index.len()), (0, 0, 0));
        assert_eq!(size_of::<Option<PresenceId>>(), 4);
    }

    #[test]
    fn presences_of_their_own_keep_nobody_from_being_seen() {
        let mut table = PresenceTable::new([1, 2]);
        assert_eq!(table.intern(&vec![b'x'; PRESENCE_PAYLOAD_BYTES_MAX + 1]), Err(Refused));
        // With 350 bytes each, 190,000 once filled the table.
        let mut payload = vec![b'x'; 350];
        for n in 0..250_000u64 {
            payload[..8].copy_from_slice(&n.to_be_bytes());
            assert!(table.intern(&payload).is_ok(), "{n}");
        }
        assert_eq!((table.len(), table.bytes()), (250_000, 250_000 * 350));
    }

    #[test]
    #[should_panic(expected = "after its last reference")]
    fn use_after_the_last_reference_is_caught() {
        let mut table = PresenceTable::new([1, 2]);
        let id = table.intern(b"").unwrap();
        table.release(id);
        table.get(id);
    }

    proptest! {
        #[test]
        fn each_reference_reads_its_own_payload(steps in prop::collection::vec((0u8..3, 0u8..12), 0..200)) {
            let mut table = PresenceTable::new([7, 9]);
            let mut held: Vec<(PresenceId, [u8; 1])> = Vec::new();
            for (step, n) in steps {
                match (step, held.is_empty()) {
                    (0, _) | (_, true) => held.push((table.intern(&[n]).unwrap(), [n])),
                    (1, _) => {
                        let (id, payload) = held[usize::from(n) % held.len()];
                        held.push((table.retain(id), payload));
                    }
                    _ => {
                        let (id, _) = held.swap_remove(usize::from(n) % held.len());
                        table.release(id);
                    }
                }
                for (id, payload) in &held {
                    prop_assert_eq!(table.get(*id), payload);
                }
                let distinct: std::collections::BTreeSet<_> = held.iter().map(|(_, payload)| payload).collect();
                prop_assert_eq!((table.len(), table.index.len(), table.bytes()), (distinct.len(), distinct.len(), distinct.len()));
            }
        }
    }
}
