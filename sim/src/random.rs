//! The only source of randomness of a simulated world: a small generator, so that a run depends on
//! nothing but its seed.

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, good enough to choose among faults, not
/// for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Random {
        // Neighbouring seeds must not yield neighbouring streams.
        let mut random = Random(seed ^ 0x6a09_e667_f3bc_c908);
        random.next();
        random
    }

    /// The next word.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }

    /// A number from `from` up to and including `to`.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// An index below `n`.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True with a probability of `per_mille` in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// 32 bytes, for a shard's own generator.
    pub fn seed32(&mut self) -> [u8; 32] {
        let mut out = [0; 32];
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes());
        }
        out
    }

    /// A separate generator, so that the draws of one part do not affect another.
    pub fn fork(&mut self) -> Random {
        Random::new(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_gives_others() {
        let take = |seed| (0..8).scan(Random::new(seed), |r, _| Some(r.next())).collect::<Vec<_>>();
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
        let mut random = Random::new(1);
        let hits = (0..10_000).filter(|_| random.chance(250)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
    }
}
