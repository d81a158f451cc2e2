//! An adaptive binary arithmetic coder: probable bits cost almost nothing, however many numbers do
//! not change.
//!
//! It is the range coder of LZMA (Martin 1979, Pavlov) with probabilities of 16 bits that adapt
//! fast at first. Writer and reader implement the same [`Bits`], so that both directions of a code
//! are one function. This module handles bits, not their meaning.

/// Below this the range is widened by a byte.
const NARROW: u32 = 1 << 24;

/// The probability that a bit is 0, learnt from previous ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    /// Of 65,536; never closer than [`Chance::SURE`] to an end.
    zero: u16,
    seen: u16,
}

impl Chance {
    const SURE: u16 = 24;
    /// Approximate number of bits that have influence.
    const MEMORY: u16 = 90;
    /// Nothing is known yet.
    pub(crate) const NEW: Chance = Chance { zero: 1 << 15, seen: 0 };

    fn learn(&mut self, bit: bool) {
        let goal = if bit { Chance::SURE } else { u16::MAX - Chance::SURE };
        let step = (i32::from(goal) - i32::from(self.zero)) / (i32::from(self.seen) + 2);
        self.zero = (i32::from(self.zero) + step) as u16;
        self.seen = (self.seen + 1).min(Chance::MEMORY);
    }

    fn bound(self, range: u32) -> u32 {
        (range >> 16) * u32::from(self.zero)
    }
}

/// Coding of bits: a writer outputs the argument, a reader ignores it; the result is the bit.
pub(crate) trait Bits {
    /// Codes one bit with its probability.
    fn bit(&mut self, chance: &mut Chance, bit: bool) -> bool;
    /// Codes the lower `count` bits of a number, without a model.
    fn plain(&mut self, count: u32, bits: u64) -> u64;
}

/// Encodes bits to bytes.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    low: u64,
    range: u32,
    /// The last byte that a carry can still reach, and the number of 0xff after it; `None` before
    /// the first.
    held: Option<u8>,
    full: usize,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        let start = out.len();
        Writer { out, start, low: 0, range: u32::MAX, held: None, full: 0 }
    }

    fn shift(&mut self) {
        if self.low < 0xff00_0000 || self.low > u64::from(u32::MAX) {
            let carry = (self.low >> 32) as u8;
            if let Some(held) = self.held {
                self.out.push(held.wrapping_add(carry));
            }
            for _ in 0..self.full {
                self.out.push(0xff_u8.wrapping_add(carry));
            }
            (self.held, self.full) = (Some((self.low >> 24) as u8), 0);
        } else {
            self.full += 1;
        }
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    fn widen(&mut self) {
        while self.range < NARROW {
            self.range <<= 8;
            self.shift();
        }
    }

    /// Ends the output with the shortest number in the range; trailing zeros are left out, because
    /// the reader supplies them.
    pub(crate) fn finish(mut self) {
        self.low = (self.low + u64::from(NARROW) - 1) & !(u64::from(NARROW) - 1);
        for _ in 0..5 {
            self.shift();
        }
        while self.out.len() > self.start && self.out.last() == Some(&0) {
            self.out.pop();
        }
    }
}

impl Bits for Writer<'_> {
    fn bit(&mut self, chance: &mut Chance, bit: bool) -> bool {
        let bound = chance.bound(self.range);
        if bit {
            self.low += u64::from(bound);
            self.range -= bound;
        } else {
            self.range = bound;
        }
        chance.learn(bit);
        self.widen();
        bit
    }

    fn plain(&mut self, count: u32, bits: u64) -> u64 {
        for at in (0..count).rev() {
            self.range >>= 1;
            if bits >> at & 1 == 1 {
                self.low += u64::from(self.range);
            }
            self.widen();
        }
        bits
    }
}

/// Decodes bits from bytes; after the end there are zeros.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    code: u32,
    range: u32,
}

impl<'a> Reader<'a> {
    /// Reads the output of a [`Writer`]. Other bytes yield other bits, never a failure.
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        let mut reader = Reader { bytes, code: 0, range: u32::MAX };
        for _ in 0..4 {
            reader.next();
        }
        reader
    }

    fn next(&mut self) {
        let byte = self.bytes.split_off_first().copied().unwrap_or(0);
        self.code = self.code << 8 | u32::from(byte);
    }

    fn widen(&mut self) {
        while self.range < NARROW {
            self.range <<= 8;
            self.next();
        }
    }
}

impl Bits for Reader<'_> {
    fn bit(&mut self, chance: &mut Chance, _: bool) -> bool {
        let bound = chance.bound(self.range);
        let bit = self.code >= bound;
        if bit {
            self.code -= bound;
            self.range -= bound;
        } else {
            self.range = bound;
        }
        chance.learn(bit);
        self.widen();
        bit
    }

    fn plain(&mut self, count: u32, _: u64) -> u64 {
        let mut bits = 0;
        for _ in 0..count {
            self.range >>= 1;
            let bit = self.code >= self.range;
            if bit {
                self.code -= self.range;
            }
            bits = bits << 1 | u64::from(bit);
            self.widen();
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_come_back(steps in prop::collection::vec((0..3_usize, any::<u64>(), 0..=64_u32), 0..400)) {
            let mut bytes = vec![7];
            let mut chances = [Chance::NEW; 2];
            let mut writer = Writer::new(&mut bytes);
            for (way, bits, count) in &steps {
                match chances.get_mut(*way) {
                    Some(chance) => drop(writer.bit(chance, bits & 7 == 0)),
                    None => drop(writer.plain(*count, *bits)),
                }
            }
            writer.finish();
            let mut chances = [Chance::NEW; 2];
            let mut reader = Reader::new(&bytes[1..]);
            for (way, bits, count) in &steps {
                match chances.get_mut(*way) {
                    Some(chance) => prop_assert_eq!(reader.bit(chance, false), bits & 7 == 0),
                    None => {
                        let mask = u64::MAX.checked_shr(64 - count).unwrap_or(0);
                        prop_assert_eq!(reader.plain(*count, 0), bits & mask);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_sure_costs_nothing() {
        let (mut bytes, mut chance) = (Vec::new(), Chance::NEW);
        let mut writer = Writer::new(&mut bytes);
        for _ in 0..10_000 {
            writer.bit(&mut chance, false);
        }
        writer.finish();
        assert!(bytes.len() <= 2, "{}", bytes.len());
    }
}
