//! Encodes samples: each number by its difference from a prediction.
//!
//! For a counter, the predicted growth is the mean of the last ones; a gauge is predicted to stay.
//! The size of recent errors indicates how many bits the next difference is likely to have. The
//! probabilities of the coder depend on that alone, so that thousands of numbers share them and
//! learn in seconds. A constant number costs a thousandth of a bit. Coding and decoding are one
//! function over [`Bits`], and all arithmetic wraps: every input is reproduced exactly.
//!
//! The first sample after [`Codec::begin`] stands alone; each later one depends on those before it.
//! A sample may contain only some of the numbers: the others stay unchanged, and their prediction
//! counts only the samples that contained them.

use crate::coder::{Bits, Chance, Reader, Writer};
use crate::table::ABSENT;

/// Means are in sixteenths, and move by an eighth of the error.
const PARTS: u32 = 4;
const INERTIA: u32 = 3;

/// Differences of at least this many bits, and numbers that become present or absent, are encoded
/// in full.
const CLASSES: usize = 64;
const IN_FULL: usize = CLASSES - 1;

/// Kinds of context: the size of recent differences in steps of half a bit, and the first two
/// samples.
const SIZES: usize = 128;
const PLACES: usize = SIZES + 2;

/// The state of one number.
#[derive(Clone, Copy, Default)]
struct Slot {
    last: u64,
    /// Mean growth.
    trend: i64,
    /// Mean size of the difference.
    size: u64,
    grows: bool,
    /// Number of samples that contained it, at most two.
    age: u8,
}

impl Slot {
    fn place(&self) -> usize {
        if self.age < 2 {
            return SIZES + usize::from(self.age);
        }
        let bits = u64::BITS - self.size.leading_zeros();
        if bits < 2 {
            return bits as usize;
        }
        (2 * bits as usize + (self.size >> (bits - 2) & 1) as usize).min(SIZES - 1)
    }

    fn learn(&mut self, value: u64, difference: u64) {
        if self.age > 0 && value != ABSENT && self.last != ABSENT {
            let growth = value.wrapping_sub(self.last) as i64;
            let size = difference.min(1 << 48) << PARTS;
            if self.age == 1 {
                self.trend = growth.wrapping_shl(PARTS);
                // After a single observed growth, the next one probably differs by less than its
                // size.
                self.size = size >> 2;
            } else {
                self.trend = self.trend.wrapping_add(growth.wrapping_shl(PARTS).wrapping_sub(self.trend) >> INERTIA);
                self.size = self.size.wrapping_add_signed((size as i64 - self.size as i64) >> INERTIA);
            }
            if !self.grows {
                self.trend = 0;
            }
        }
        self.last = value;
        self.age = (self.age + 1).min(2);
    }
}

/// Probabilities in one context.
#[derive(Clone)]
struct Place {
    same: Chance,
    negative: Chance,
    /// A tree of six levels over the number of bits.
    classes: [Chance; CLASSES],
}

/// The state of one direction over a run of samples.
pub(crate) struct Codec {
    slots: Vec<Slot>,
    places: Vec<Place>,
    /// The first bit after the leading one, by the number of bits.
    next: [Chance; CLASSES],
}

impl Default for Codec {
    fn default() -> Codec {
        Codec { slots: Vec::new(), places: Vec::new(), next: [Chance::NEW; CLASSES] }
    }
}

impl Codec {
    /// Resets the state; `growing` states for each slot whether its number only grows.
    pub(crate) fn begin(&mut self, growing: &[bool]) {
        self.slots.clear();
        self.slots.extend(growing.iter().map(|grows| Slot { grows: *grows, ..Slot::default() }));
        self.places.clear();
        let place = Place { same: Chance::NEW, negative: Chance::NEW, classes: [Chance::NEW; CLASSES] };
        self.places.resize(PLACES, place);
        self.next = [Chance::NEW; CLASSES];
    }

    /// Appends a sample, which has one number per slot.
    pub(crate) fn encode(&mut self, values: &[u64], out: &mut Vec<u8>) {
        assert_eq!(values.len(), self.slots.len(), "a sample of another shape");
        let mut writer = Writer::new(out);
        for (at, value) in values.iter().enumerate() {
            self.number(&mut writer, at, *value);
        }
        writer.finish();
    }

    /// Appends a sample with the numbers of some slots only.
    pub(crate) fn encode_some(&mut self, slots: &[usize], values: &[u64], out: &mut Vec<u8>) {
        assert_eq!(values.len(), slots.len(), "a sample of another shape");
        let mut writer = Writer::new(out);
        for (at, value) in slots.iter().zip(values) {
            self.number(&mut writer, *at, *value);
        }
        writer.finish();
    }

    /// Decodes the next sample into `values`, which has one number per slot.
    pub(crate) fn decode(&mut self, bytes: &[u8], values: &mut [u64]) {
        assert_eq!(values.len(), self.slots.len(), "a sample of another shape");
        let mut reader = Reader::new(bytes);
        for (at, value) in values.iter_mut().enumerate() {
            *value = self.number(&mut reader, at, 0);
        }
    }

    /// Decodes the next sample, with the numbers of some slots only.
    pub(crate) fn decode_some(&mut self, slots: &[usize], bytes: &[u8], values: &mut [u64]) {
        assert_eq!(values.len(), slots.len(), "a sample of another shape");
        let mut reader = Reader::new(bytes);
        for (at, value) in slots.iter().zip(values) {
            *value = self.number(&mut reader, *at, 0);
        }
    }

    /// Codes one number: a writer outputs it; a reader returns it and ignores `value`.
    fn number(&mut self, bits: &mut impl Bits, at: usize, value: u64) -> u64 {
        let slot = &mut self.slots[at];
        let place = &mut self.places[slot.place()];
        let expected = match slot.last {
            ABSENT => ABSENT,
            last => last.wrapping_add_signed(slot.trend >> PARTS),
        };
        let difference = value.wrapping_sub(expected) as i64;
        // A number that becomes present or absent.
        let told = (slot.last == ABSENT) != (value == ABSENT);
        if !bits.bit(&mut place.same, difference != 0 || told) {
            slot.learn(expected, 0);
            return expected;
        }
        let length = (u64::BITS - difference.unsigned_abs().leading_zeros()) as usize;
        let class = if told || length >= IN_FULL { IN_FULL } else { length };
        let class = tree(bits, &mut place.classes, class);
        if class == IN_FULL {
            let value = bits.plain(64, value);
            slot.learn(value, 1 << 48);
            return value;
        }
        let negative = bits.bit(&mut place.negative, difference < 0);
        let size = difference.unsigned_abs();
        let size = match class as u32 {
            0 => 0,
            1 => 1,
            length => {
                let below = length - 2;
                let second = bits.bit(&mut self.next[class], size >> below & 1 == 1);
                1 << (length - 1) | u64::from(second) << below | bits.plain(below, size & ((1 << below) - 1))
            }
        };
        let difference = if negative { (size as i64).wrapping_neg() } else { size as i64 };
        let value = expected.wrapping_add_signed(difference);
        slot.learn(value, size);
        value
    }
}

/// Codes a number of six bits by a tree of probabilities.
fn tree(bits: &mut impl Bits, chances: &mut [Chance; CLASSES], number: usize) -> usize {
    let mut at = 1;
    for level in (0..6).rev() {
        at = at << 1 | usize::from(bits.bit(&mut chances[at], number >> level & 1 == 1));
    }
    at - CLASSES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(growing: &[bool], samples: &[Vec<u64>]) -> usize {
        let (mut encoder, mut decoder) = (Codec::default(), Codec::default());
        encoder.begin(growing);
        decoder.begin(growing);
        let mut bytes = 0;
        for sample in samples {
            let mut out = Vec::new();
            encoder.encode(sample, &mut out);
            let mut back = vec![0; growing.len()];
            decoder.decode(&out, &mut back);
            assert_eq!(&back, sample);
            bytes += out.len();
        }
        bytes
    }

    fn number() -> impl Strategy<Value = u64> {
        let ends =
            prop::sample::select(vec![0, 1, ABSENT, ABSENT - 1, 1 << 63, (1 << 62) - 1, 1 << 62, i64::MAX as u64]);
        prop_oneof![ends, 0..2000_u64, any::<u64>()]
    }

    proptest! {
        #[test]
        fn whatever_goes_in_comes_out(
            growing in prop::collection::vec(any::<bool>(), 1..6),
            numbers in prop::collection::vec(number(), 0..240),
        ) {
            let samples: Vec<Vec<u64>> = numbers.chunks_exact(growing.len()).map(<[u64]>::to_vec).collect();
            round_trip(&growing, &samples);
        }

        #[test]
        fn samples_of_some_numbers_come_out_between_whole_ones(
            growing in prop::collection::vec(any::<bool>(), 6),
            numbers in prop::collection::vec(number(), 0..240),
            some in prop::sample::subsequence(vec![0_usize, 1, 2, 3, 4, 5], 0..=6),
            every in 1..12_usize,
        ) {
            let (mut encoder, mut decoder) = (Codec::default(), Codec::default());
            encoder.begin(&growing);
            decoder.begin(&growing);
            for (at, sample) in numbers.chunks_exact(6).enumerate() {
                let mut out = Vec::new();
                if at % every == 0 {
                    encoder.encode(sample, &mut out);
                    let mut back = vec![0; 6];
                    decoder.decode(&out, &mut back);
                    assert_eq!(back, sample);
                } else {
                    let kept: Vec<u64> = some.iter().map(|slot| sample[*slot]).collect();
                    encoder.encode_some(&some, &kept, &mut out);
                    let mut back = vec![0; some.len()];
                    decoder.decode_some(&some, &out, &mut back);
                    assert_eq!(back, kept);
                }
            }
        }

        #[test]
        fn anything_decodes_to_something(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut codec = Codec::default();
            codec.begin(&[true, false, true]);
            for part in bytes.chunks(20) {
                codec.decode(part, &mut [0; 3]);
            }
        }
    }

    #[test]
    fn steady_numbers_cost_next_to_nothing() {
        let growing = vec![true; 1000];
        let samples: Vec<Vec<u64>> = (0..100).map(|t| (0..1000).map(|n| n * 1_000_000 + t * n).collect()).collect();
        let bytes = round_trip(&growing, &samples);
        let first = round_trip(&growing, &samples[..2]);
        assert!(bytes - first < 400, "{bytes} bytes, {first} of them for the first two");
    }
}
