//! The hash functions of credentials (RFC 5802 2.2), and tags that compare in constant time.

use hmac::digest::{CtOutput, Digest};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use std::fmt;

/// A hash function of the SCRAM family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, serde::Serialize, serde::Deserialize)]
pub enum HashKind {
    /// SHA-1 (RFC 5802): 20 bytes.
    Sha1,
    /// SHA-256 (RFC 7677): 32 bytes.
    Sha256,
    /// SHA-512, used as RFC 7677 uses SHA-256: 64 bytes.
    Sha512,
}

/// The output of a hash or MAC: 20, 32 or 64 bytes. Comparing two tags takes the same time wherever
/// they differ.
#[derive(Clone, Copy)]
pub struct Tag {
    /// The bytes beyond `len` are zero.
    bytes: [u8; Tag::BYTES_MAX],
    len: u8,
}

impl Tag {
    /// Bytes of the longest tag.
    pub const BYTES_MAX: usize = 64;

    fn new(output: &[u8]) -> Tag {
        let mut bytes = [0; Tag::BYTES_MAX];
        bytes[..output.len()].copy_from_slice(output);
        Tag { bytes, len: output.len() as u8 }
    }

    /// Restores a tag of this kind from its bytes; `None` at any other length.
    pub fn from_bytes(kind: HashKind, bytes: &[u8]) -> Option<Tag> {
        (bytes.len() == kind.len()).then(|| Tag::new(bytes))
    }

    /// The bytes of the tag.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The bitwise XOR of two tags: the client's proof is its key XORed with its signature (RFC
    /// 5802 3).
    pub fn xor(&self, other: &Tag) -> Tag {
        let mut bytes = self.bytes;
        for (byte, with) in bytes.iter_mut().zip(other.bytes) {
            *byte ^= with;
        }
        Tag { bytes, len: self.len }
    }
}

impl serde::Serialize for Tag {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.as_bytes())
    }
}

impl<'de> serde::Deserialize<'de> for Tag {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Tag, D::Error> {
        let bytes = <&[u8]>::deserialize(from)?;
        let of_a_kind =
            [HashKind::Sha1, HashKind::Sha256, HashKind::Sha512].iter().any(|kind| kind.len() == bytes.len());
        if of_a_kind {
            Ok(Tag::new(bytes))
        } else {
            Err(serde::de::Error::invalid_length(bytes.len(), &"20, 32 or 64 bytes"))
        }
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Tag) -> bool {
        let constant = |tag: &Tag| CtOutput::<Sha512>::new(tag.bytes.into());
        self.len == other.len && constant(self) == constant(other)
    }
}

impl Eq for Tag {}

impl fmt::Debug for Tag {
    /// Tags are secrets, so only the length is logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({} bytes)", self.len)
    }
}

impl HashKind {
    /// All hash functions, the oldest first.
    pub const ALL: [HashKind; 3] = [HashKind::Sha1, HashKind::Sha256, HashKind::Sha512];

    /// Bytes of an output.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> usize {
        match self {
            HashKind::Sha1 => 20,
            HashKind::Sha256 => 32,
            HashKind::Sha512 => 64,
        }
    }

    /// `H(parts)`: the hash over the concatenated parts.
    pub fn digest(self, parts: &[&[u8]]) -> Tag {
        fn run<D: Digest>(parts: &[&[u8]]) -> Tag {
            let mut state = D::new();
            parts.iter().for_each(|part| state.update(part));
            Tag::new(&state.finalize())
        }
        match self {
            HashKind::Sha1 => run::<Sha1>(parts),
            HashKind::Sha256 => run::<Sha256>(parts),
            HashKind::Sha512 => run::<Sha512>(parts),
        }
    }

    /// `HMAC(key, parts)` over the concatenated parts (RFC 2104).
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Tag {
        // A MAC of this family accepts a key of any length.
        match self {
            HashKind::Sha1 => mac(Hmac::<Sha1>::new_from_slice(key).expect("any key length"), parts),
            HashKind::Sha256 => mac(Hmac::<Sha256>::new_from_slice(key).expect("any key length"), parts),
            HashKind::Sha512 => mac(Hmac::<Sha512>::new_from_slice(key).expect("any key length"), parts),
        }
    }

    /// `Hi(password, salt, iterations)` (RFC 5802 2.2), which is PBKDF2 with one block of output.
    /// It is expensive by intent: never run it on a shard.
    pub fn salted_password(self, password: &str, salt: &[u8], iterations: u32) -> Tag {
        let mut bytes = [0; Tag::BYTES_MAX];
        let out = &mut bytes[..self.len()];
        match self {
            HashKind::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password.as_bytes(), salt, iterations, out),
            HashKind::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, out),
            HashKind::Sha512 => pbkdf2::pbkdf2_hmac::<Sha512>(password.as_bytes(), salt, iterations, out),
        }
        Tag { bytes, len: self.len() as u8 }
    }
}

/// A set of hash functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Hashes(u8);

impl From<Hashes> for u8 {
    fn from(hashes: Hashes) -> u8 {
        hashes.bits()
    }
}

impl TryFrom<u8> for Hashes {
    type Error = &'static str;

    fn try_from(bits: u8) -> Result<Hashes, Self::Error> {
        Hashes::of_bits(bits).ok_or("a hash function that this build does not know")
    }
}

impl Hashes {
    /// The set of all hash functions.
    pub const ALL: Hashes = Hashes(0b111);

    /// The set as a bit mask.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with this bit mask; `None` if a bit is unknown.
    pub const fn of_bits(bits: u8) -> Option<Hashes> {
        if bits & !Hashes::ALL.0 == 0 { Some(Hashes(bits)) } else { None }
    }

    /// Whether the set contains this hash function.
    pub const fn contains(self, kind: HashKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// The set with one more hash function.
    #[must_use]
    pub const fn with(self, kind: HashKind) -> Hashes {
        Hashes(self.0 | 1 << kind as u8)
    }

    /// The set without a hash function.
    #[must_use]
    pub const fn without(self, kind: HashKind) -> Hashes {
        Hashes(self.0 & !(1 << kind as u8))
    }

    /// The complement of the set.
    #[must_use]
    pub const fn others(self) -> Hashes {
        Hashes(!self.0 & Hashes::ALL.0)
    }

    /// The intersection of two sets.
    #[must_use]
    pub const fn and(self, other: Hashes) -> Hashes {
        Hashes(self.0 & other.0)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The hash functions of the set, the oldest first.
    pub fn iter(self) -> impl Iterator<Item = HashKind> {
        HashKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

impl FromIterator<HashKind> for Hashes {
    fn from_iter<I: IntoIterator<Item = HashKind>>(kinds: I) -> Hashes {
        kinds.into_iter().fold(Hashes::default(), Hashes::with)
    }
}

fn mac<M: Mac>(mut state: M, parts: &[&[u8]]) -> Tag {
    parts.iter().for_each(|part| state.update(part));
    Tag::new(&state.finalize().into_bytes())
}

/// A secret of this process or host, with which names and passwords are hashed. Without it an
/// attacker can neither aim at a row of a table nor tell a made-up salt from a real one.
#[derive(Clone)]
pub struct SecretKey(Hmac<Sha256>);

impl SecretKey {
    /// Takes 32 bytes of entropy, or of a file that stores them.
    pub fn new(bytes: &[u8; 32]) -> SecretKey {
        SecretKey(Hmac::new_from_slice(bytes).expect("any key length"))
    }

    /// HMAC-SHA-256 over the parts, each terminated by its length so that no two lists of parts
    /// collide.
    pub fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut state = self.0.clone();
        for part in parts {
            state.update(part);
            state.update(&(part.len() as u64).to_be_bytes());
        }
        Tag::new(&state.finalize().into_bytes())
    }

    /// The first 64 bits of [`SecretKey::tag`], used as a table's key.
    pub fn short(&self, parts: &[&[u8]]) -> u64 {
        let tag = self.tag(parts);
        u64::from_be_bytes(tag.bytes[..8].try_into().expect("eight bytes"))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(tag: Tag) -> String {
        tag.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 2202 3 and RFC 4231 4.3, case 2; RFC 6070 2, case 3; FIPS 180-4 for "abc".
    #[test]
    fn rfc2202_rfc4231_rfc6070_vectors() {
        let question: &[&[u8]] = &[b"what do ya want ", b"for nothing?"];
        assert_eq!(hex(HashKind::Sha1.hmac(b"Jefe", question)), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        assert_eq!(
            hex(HashKind::Sha256.hmac(b"Jefe", question)),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(HashKind::Sha1.salted_password("password", b"salt", 4096)),
            "4b007901b765489abead49d926f721d065a429c1"
        );
        assert_eq!(hex(HashKind::Sha1.digest(&[b"a", b"bc"])), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            hex(HashKind::Sha256.digest(&[b"abc"])),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    /// RFC 4231 4.3, case 2, and FIPS 180-4 for "abc", for SHA-512; PBKDF2 as computed by OpenSSL
    /// 3.
    #[test]
    fn rfc4231_vectors_of_sha_512() {
        let question: &[&[u8]] = &[b"what do ya want ", b"for nothing?"];
        assert_eq!(
            hex(HashKind::Sha512.hmac(b"Jefe", question)),
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        );
        assert_eq!(
            hex(HashKind::Sha512.digest(&[b"a", b"bc"])),
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        );
        assert_eq!(hex(HashKind::Sha512.salted_password("password", b"salt", 4096)), PBKDF2_SHA_512);
    }

    const PBKDF2_SHA_512: &str = "d197b1b33db0143e018b12f3d1d1479e6cdebdcc97c5c0f87f6902e072f457b5143f30602641b3d55cd335988cb36b84376060ecd532e039b742a239434af2d5";

    #[test]
    fn sets_of_hash_functions() {
        let old = Hashes::ALL.and([HashKind::Sha1, HashKind::Sha256].into_iter().collect());
        assert!(old.contains(HashKind::Sha1) && !old.contains(HashKind::Sha512) && !old.is_empty());
        assert_eq!(old.others().iter().collect::<Vec<_>>(), [HashKind::Sha512]);
        assert!(Hashes::ALL.others().is_empty());
    }

    #[test]
    fn tags_of_different_bytes_or_lengths_differ() {
        let (a, b) = (HashKind::Sha1.digest(&[b"a"]), HashKind::Sha1.digest(&[b"b"]));
        assert!(a == a && a != b && a.xor(&b) != a && a.xor(&b).xor(&b) == a);
        assert!(Tag::new(&[0; 20]) != Tag::new(&[0; 32]));
        assert_eq!(Tag::from_bytes(HashKind::Sha256, a.as_bytes()), None);
        let key = SecretKey::new(&[7; 32]);
        assert!(key.tag(&[b"ab", b"c"]) != key.tag(&[b"a", b"bc"]));
        assert!(key.tag(&[b"ab"]) != SecretKey::new(&[8; 32]).tag(&[b"ab"]));
    }
}
