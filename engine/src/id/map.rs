//! The assignment of partitions to shards: a table of owners and its epoch.
//!
//! A map is immutable. When partitions move, a new map with the next epoch replaces it, so that the
//! later of two maps is known. It has one owner per partition, and each owner is below the number
//! of shards.

use std::fmt;

use super::{PARTITIONS, ShardId, hash, partition};

/// Version byte of the encoded form.
const VERSION: u8 = 1;

/// Bytes before the owners: version, epoch, number of shards.
const HEAD_BYTES: usize = 1 + 8 + 2;

/// Bytes of the checksum after the owners.
const CHECKSUM_BYTES: usize = 8;

const OWNERS: usize = PARTITIONS as usize;

/// The owner of each partition.
#[derive(Clone, PartialEq, Eq)]
pub struct PartitionMap {
    epoch: u64,
    shards: u16,
    /// Shard numbers, below `shards`.
    owners: [u16; OWNERS],
}

impl PartitionMap {
    /// Bytes of the encoded form.
    pub const BYTES: usize = HEAD_BYTES + 2 * OWNERS + CHECKSUM_BYTES;

    /// The first map of a host with this number of shards: the numbers of partitions per shard
    /// differ by at most one.
    ///
    /// # Panics
    /// Without a shard, or with more shards than partitions.
    pub fn spread(shards: u16) -> PartitionMap {
        let mut owners = [0; OWNERS];
        (0..PARTITIONS).zip(&mut owners).for_each(|(partition, owner)| *owner = partition % shards.max(1));
        PartitionMap::new(1, shards, owners)
    }

    /// The next map, for another number of shards. No equally even map moves fewer partitions.
    ///
    /// # Panics
    /// As [`PartitionMap::spread`].
    pub fn respread(&self, shards: u16) -> PartitionMap {
        let mut left = self.quotas(shards);
        let mut owners = self.owners;
        let mut moving = Vec::new();
        for (partition, owner) in self.owners.iter().enumerate() {
            match left.get_mut(usize::from(*owner)) {
                Some(left @ 1..) => *left -= 1,
                _ => moving.push(partition),
            }
        }
        let takers = (0..shards).flat_map(|shard| std::iter::repeat_n(shard, left[usize::from(shard)]));
        moving.into_iter().zip(takers).for_each(|(partition, taker)| owners[partition] = taker);
        PartitionMap::new(self.epoch + 1, shards, owners)
    }

    /// The number of partitions that each shard is to own. If they do not divide evenly, the shards
    /// that own the most keep one more.
    fn quotas(&self, shards: u16) -> Vec<usize> {
        let own = |shard: u16| self.owners.iter().filter(|owner| **owner == shard).count();
        let mut by_own: Vec<(usize, u16)> = (0..shards).map(|shard| (own(shard), shard)).collect();
        by_own.sort_by_key(|(own, shard)| (std::cmp::Reverse(*own), *shard));
        let (each, more) = (OWNERS / by_own.len().max(1), OWNERS % by_own.len().max(1));
        let mut quotas = vec![each; by_own.len()];
        by_own.iter().take(more).for_each(|(_, shard)| quotas[usize::from(*shard)] += 1);
        quotas
    }

    fn new(epoch: u64, shards: u16, owners: [u16; OWNERS]) -> PartitionMap {
        assert!((1..=PARTITIONS).contains(&shards), "{shards} shards cannot share {PARTITIONS} partitions");
        assert!(owners.iter().all(|owner| *owner < shards), "each partition has an owner that is there");
        PartitionMap { epoch, shards, owners }
    }

    /// Increases by one with each replacement of a map.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// The shard that owns a partition. Numbers beyond the last partition wrap around.
    pub fn owner(&self, partition: u16) -> ShardId {
        ShardId(self.owners[usize::from(partition % PARTITIONS)])
    }

    /// The home shard of a bare JID.
    pub fn home(&self, bare: &str) -> ShardId {
        self.owner(partition(bare))
    }

    /// Number of partitions whose owner differs from that in `before`.
    pub fn moved_since(&self, before: &PartitionMap) -> usize {
        self.owners.iter().zip(&before.owners).filter(|(now, before)| now != before).count()
    }

    /// The stored form: version, epoch, number of shards, an owner for each partition, all little
    /// endian, and a checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PartitionMap::BYTES);
        out.push(VERSION);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.shards.to_le_bytes());
        self.owners.iter().for_each(|owner| out.extend_from_slice(&owner.to_le_bytes()));
        out.extend_from_slice(&hash(&out).to_le_bytes());
        out
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// A short reason why the bytes are not a valid map.
    pub fn decode(bytes: &[u8]) -> Result<PartitionMap, &'static str> {
        if bytes.first().is_some_and(|version| *version != VERSION) {
            return Err("its format is unknown");
        }
        if bytes.len() != PartitionMap::BYTES {
            return Err("its length is not that of a map");
        }
        let (map, checksum) = bytes.split_at(PartitionMap::BYTES - CHECKSUM_BYTES);
        if *checksum != hash(map).to_le_bytes() {
            return Err("its checksum does not match");
        }
        let epoch = u64::from_le_bytes(map[1..9].try_into().expect("8 bytes"));
        let shards = u16::from_le_bytes(map[9..HEAD_BYTES].try_into().expect("2 bytes"));
        let mut owners = [0; OWNERS];
        for (owner, bytes) in owners.iter_mut().zip(map[HEAD_BYTES..].chunks_exact(2)) {
            *owner = u16::from_le_bytes(bytes.try_into().expect("2 bytes"));
        }
        let owned = (1..=PARTITIONS).contains(&shards) && owners.iter().all(|owner| *owner < shards);
        if owned { Ok(PartitionMap { epoch, shards, owners }) } else { Err("the owner of a partition does not exist") }
    }
}

impl fmt::Debug for PartitionMap {
    /// The owners would fill pages, so they are omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionMap(epoch {}, {} shards)", self.epoch, self.shards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owned(map: &PartitionMap) -> Vec<usize> {
        let mut owned = vec![0; usize::from(map.shards())];
        (0..PARTITIONS).for_each(|partition| owned[map.owner(partition).index()] += 1);
        owned
    }

    fn is_even(map: &PartitionMap) -> bool {
        let owned = owned(map);
        owned.iter().max().unwrap() - owned.iter().min().unwrap() <= 1
    }

    #[test]
    fn partitions_are_stable_and_spread() {
        // These determine where data is stored, in every version.
        assert_eq!([partition("romeo@localhost"), partition("juliet@localhost")], [2022, 1291]);
        let map = PartitionMap::spread(64);
        let mut seen = [0u32; 64];
        for i in 0..64_000 {
            seen[map.home(&format!("user{i}@localhost")).index()] += 1;
        }
        let (least, most) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
        assert!(*least > 850 && *most < 1150, "spread {least}..{most} of 1000");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_change_of_shards_moves_no_more_than_it_must(first in 1_u16..=4096, more in prop::collection::vec(1_u16..=64, 1..5)) {
            let mut map = PartitionMap::spread(first);
            prop_assert!(is_even(&map) && map.epoch() == 1);
            for shards in more {
                let next = map.respread(shards);
                prop_assert!(is_even(&next), "{:?}", owned(&next));
                prop_assert_eq!((next.epoch(), next.shards()), (map.epoch() + 1, shards));
                // Whatever exceeds a shard's quota must move. Of the even distributions, the best
                // one gives the largest quotas to the shards that own the most.
                let mut had = owned(&map);
                had.truncate(usize::from(shards));
                had.sort_unstable_by(|a, b| b.cmp(a));
                let (each, rest) = (OWNERS / usize::from(shards), OWNERS % usize::from(shards));
                let stay: usize = had.iter().enumerate().map(|(at, had)| *had.min(&(each + usize::from(at < rest)))).sum();
                prop_assert_eq!(next.moved_since(&map), OWNERS - stay);
                map = next;
            }
        }
    }

    #[test]
    fn a_map_reads_back_and_a_damaged_one_does_not() {
        let map = PartitionMap::spread(3).respread(5);
        let bytes = map.encode();
        assert_eq!(bytes.len(), PartitionMap::BYTES);
        assert_eq!(PartitionMap::decode(&bytes), Ok(map));
        for at in [0, 1, 9, 10, 11, 4000, PartitionMap::BYTES - 1] {
            let mut broken = bytes.clone();
            broken[at] ^= 4;
            assert!(PartitionMap::decode(&broken).is_err(), "byte {at}");
        }
        assert!(PartitionMap::decode(&bytes[..PartitionMap::BYTES - 1]).is_err());
        assert!(PartitionMap::decode(&[]).is_err());
        // Intact, but with owners that do not exist.
        for shards in [0, 4, 4097_u16] {
            let mut wrong = bytes[..PartitionMap::BYTES - CHECKSUM_BYTES].to_vec();
            wrong[9..11].copy_from_slice(&shards.to_le_bytes());
            wrong.extend_from_slice(&hash(&wrong).to_le_bytes());
            assert_eq!(PartitionMap::decode(&wrong), Err("the owner of a partition does not exist"), "{shards}");
        }
    }

    #[test]
    #[should_panic(expected = "0 shards cannot share")]
    fn somebody_must_own_them() {
        PartitionMap::spread(0);
    }
}
