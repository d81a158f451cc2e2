//! Message ids as clients see them (XEP-0359): the external form of a log entry's number.
//!
//! Numbers increase with everything that a server stores, so a number reveals how much that is. An
//! id "should not provide any further information besides the opaque ID itself", and must not be
//! guessable (XEP-0359 3, 6; XEP-0313 3.3). The external form is therefore a keyed permutation of
//! the number, written as sixteen letters. The internal form is the number: an archive is paged,
//! walked and stored in this order.
//!
//! The key is the [`Incarnation`] of the account: drawn when the account is created, never sent to
//! clients, and stored in the account's row. Ids therefore survive a restart, a restored backup and
//! a move of the account's partition, and end with the account. Accounts that predate incarnations
//! have no key, and show their plain numbers.
//!
//! This is no cipher for secrets: an id is not secret (XEP-0359 6). It costs some thirty
//! instructions per message.

use super::account::Incarnation;

/// The permutation for an account's message ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ids(u64);

/// Length of an id in letters.
const LETTERS: usize = 16;

/// Digits of the largest number.
const DIGITS: usize = 20;

/// Each round adds the key, rotated and with a round constant, then spreads each bit over all
/// higher bits, and these over the lower half. The factors are those of MurmurHash3 and SplitMix64.
const ROUNDS: [(u32, u64, u64); 4] = [
    (0, 0x243f_6a88_85a3_08d3, 0xff51_afd7_ed55_8ccd),
    (17, 0x1319_8a2e_0370_7344, 0xc4ce_b9fe_1a85_ec53),
    (31, 0xa409_3822_299f_31d0, 0xbf58_476d_1ce4_e5b9),
    (47, 0x082e_fa98_ec4e_6c89, 0x94d0_49bb_1331_11eb),
];

/// The inverses of the factors of [`ROUNDS`].
const UNDO: [u64; 4] = {
    let (mut all, mut at) = ([1; 4], 0);
    while at < 4 {
        let factor = ROUNDS[at].2;
        let (mut inverse, mut bits) = (factor, 3);
        // Newton's method: each step doubles the number of correct bits. An odd number is its own
        // inverse in the lowest three.
        while bits < 64 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(inverse)));
            bits *= 2;
        }
        all[at] = inverse;
        at += 1;
    }
    all
};

/// An id as text.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    bytes: [u8; DIGITS],
    len: u8,
}

impl Text {
    /// Its characters, all ASCII letters or digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("letters and digits")
    }

    /// The same as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Ids {
    /// The identity, for accounts that have no incarnation.
    pub const PLAIN: Ids = Ids(0);

    /// The permutation of an account.
    pub fn of(account: Incarnation) -> Ids {
        Ids(u64::from_be_bytes(account.to_bytes()))
    }

    /// The id of the entry with this number.
    pub fn text(self, number: u64) -> Text {
        let mut bytes = [0; DIGITS];
        if self == Ids::PLAIN {
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(number).as_bytes();
            bytes[..digits.len()].copy_from_slice(digits);
            return Text { bytes, len: digits.len() as u8 };
        }
        let hidden = self.hide(number);
        bytes[..LETTERS / 2].copy_from_slice(&letters((hidden >> 32) as u32));
        bytes[LETTERS / 2..LETTERS].copy_from_slice(&letters(hidden as u32));
        Text { bytes, len: LETTERS as u8 }
    }

    /// The number of an id; `None` if it is malformed. Earlier versions sent clients the number
    /// itself, which is still accepted.
    pub fn number(self, id: &str) -> Option<u64> {
        let id = id.as_bytes();
        if self != Ids::PLAIN && id.len() == LETTERS && id.iter().all(|letter| (b'a'..=b'p').contains(letter)) {
            let hidden = id.iter().fold(0, |all, letter| (all << 4) | u64::from(letter - b'a'));
            return Some(self.show(hidden));
        }
        let digits = !id.is_empty() && id.iter().all(u8::is_ascii_digit) && (id == b"0" || id[0] != b'0');
        std::str::from_utf8(id).ok().filter(|_| digits)?.parse().ok()
    }

    fn hide(self, number: u64) -> u64 {
        let hidden = ROUNDS.iter().fold(number, |bits, (turn, more, factor)| {
            let bits = (bits ^ self.0.rotate_left(*turn) ^ more).wrapping_mul(*factor);
            bits ^ (bits >> 32)
        });
        hidden ^ self.0
    }

    fn show(self, hidden: u64) -> u64 {
        ROUNDS.iter().zip(UNDO).rev().fold(hidden ^ self.0, |bits, ((turn, more, _), undo)| {
            (bits ^ (bits >> 32)).wrapping_mul(undo) ^ self.0.rotate_left(*turn) ^ more
        })
    }
}

/// Writes each four bits as one of the letters from a to p.
fn letters(bits: u32) -> [u8; LETTERS / 2] {
    let bits = u64::from(bits);
    let bits = (bits | (bits << 16)) & 0x0000_ffff_0000_ffff;
    let bits = (bits | (bits << 8)) & 0x00ff_00ff_00ff_00ff;
    let bits = (bits | (bits << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    (bits + 0x6161_6161_6161_6161).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: u64) -> Ids {
        Ids::of(Incarnation::drawn(key))
    }

    #[test]
    fn an_id_is_of_one_number_and_reads_back() {
        for key in [1, 7, u64::MAX, 0x0123_4567_89ab_cdef] {
            let ids = of(key);
            let numbers = (0..1_000).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX, u64::MAX - 1]);
            let mut all: Vec<(u64, String)> = numbers.map(|number| (number, ids.text(number).to_string())).collect();
            for (number, id) in &all {
                assert!(id.len() == LETTERS && id.bytes().all(|letter| letter.is_ascii_lowercase()), "{id}");
                assert_eq!(ids.number(id), Some(*number), "{id}");
                assert_ne!(of(key ^ 2).number(id), Some(*number), "another account's");
            }
            all.dedup();
            let count = all.len();
            all.sort_by(|a, b| a.1.cmp(&b.1));
            all.dedup_by(|a, b| a.1 == b.1);
            assert_eq!(all.len() + 10, count, "the powers of two below 1,000 are there twice");
        }
    }

    /// XEP-0359 6: an id reveals nothing, nor does it together with its successor.
    #[test]
    fn neighbours_have_nothing_in_common() {
        for key in [1, 2, 3, 1 << 40, u64::MAX] {
            let ids = of(key);
            let apart = |a: u64, b: u64| (ids.hide(a) ^ ids.hide(b)).count_ones();
            let all: Vec<u32> = (0..4_096).map(|number| apart(number, number + 1)).collect();
            assert!(all.iter().all(|bits| (8..=56).contains(bits)), "{key}");
            let mean = f64::from(all.iter().sum::<u32>()) / all.len() as f64;
            assert!((31.0..33.0).contains(&mean), "{key}: {mean} bits");
            let rising = (0..4_096).filter(|number| ids.hide(*number) < ids.hide(number + 1)).count();
            assert!((1_850..2_250).contains(&rising), "{key}: {rising} of 4,096 are in order");
        }
    }

    #[test]
    fn what_earlier_versions_told_is_understood_and_nothing_else() {
        for ids in [Ids::PLAIN, of(9)] {
            for number in [0, 1, 28_482, u64::MAX] {
                assert_eq!(ids.number(&number.to_string()), Some(number));
            }
            for none in
                ["", "01", "-1", "+1", " 1", "1e3", "18446744073709551616", "abcdefghijklmnoq", "ABCDEFGHIJKLMNOP"]
            {
                assert_eq!(ids.number(none), None, "{none}");
            }
        }
        assert_eq!(Ids::PLAIN.text(u64::MAX).as_str(), "18446744073709551615");
        assert_eq!(Ids::PLAIN.number("abcdefghijklmnop"), None);
    }

    /// Clients store ids: the same number and key give the same id in all versions.
    #[test]
    fn ids_stay_what_they_are() {
        let ids = of(0x0123_4567_89ab_cdef);
        assert_eq!(
            [0, 1, 1_000_000].map(|number| ids.text(number).to_string()),
            ["eipdbhpidjpddcmg", "ackaigiajkfnlhgj", "falaioinabkenlbp"]
        );
    }
}
