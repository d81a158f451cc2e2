//! Seals and opens the records of an established connection.
//!
//! The AEADs and HKDF are `ring`'s. This file only constructs nonces, additional data and the one
//! step of the key schedule that is needed after a handshake, the key update. Keys are stored raw
//! (32 bytes per direction) and expanded for the call that uses them: an expanded AES-GCM key is
//! over 500 bytes.

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf;
use zeroize::Zeroize;

use crate::record::{APPLICATION_DATA, HEADER_BYTES, PLAINTEXT_BYTES_MAX, VERSION};
use crate::{TlsFault, TlsVersion};

const TAG_BYTES: usize = 16;
const IV_BYTES: usize = 12;
/// The part of an AES-GCM nonce in TLS 1.2 that is transmitted (RFC 5288 3).
const EXPLICIT_NONCE_BYTES: usize = 8;
/// The longest traffic secret: one SHA-384 output.
const SECRET_BYTES_MAX: usize = 48;
/// Records that one key may seal with AES-GCM (RFC 8446 5.5 allows 2^24.5).
pub(crate) const SEALED_RECORDS_MAX: u64 = 1 << 24;

/// Of these, the number left when a connection is told to end because its key cannot be changed.
const LAST_RECORDS: u64 = 1 << 16;

/// The algorithm that protects records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Aes128Gcm,
    Aes256Gcm,
    Chacha20Poly1305,
}

impl Algorithm {
    fn ring(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::Chacha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// How an established connection protects its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) version: TlsVersion,
    pub(crate) algorithm: Algorithm,
}

impl Suite {
    /// The hash of the key schedule. Only TLS 1.3 needs it after the handshake, and there the
    /// algorithm determines it (RFC 8446 B.4).
    fn hkdf(self) -> hkdf::Algorithm {
        match self.algorithm {
            Algorithm::Aes256Gcm => hkdf::HKDF_SHA384,
            Algorithm::Aes128Gcm | Algorithm::Chacha20Poly1305 => hkdf::HKDF_SHA256,
        }
    }

    fn secret_bytes(self) -> usize {
        self.hkdf().hmac_algorithm().digest_algorithm().output_len()
    }

    /// Whether part of the nonce precedes the ciphertext.
    fn explicit_nonce(self) -> bool {
        self.version == TlsVersion::V1_2 && self.algorithm != Algorithm::Chacha20Poly1305
    }
}

/// The keys of one direction. Wiped when dropped.
pub(crate) struct Keys {
    /// `application_traffic_secret_N`; zero in TLS 1.2, which cannot update.
    secret: [u8; SECRET_BYTES_MAX],
    key: [u8; 32],
    iv: [u8; IV_BYTES],
    /// Sequence number of the next record.
    pub(crate) seq: u64,
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.secret.zeroize();
        self.key.zeroize();
        self.iv.zeroize();
    }
}

impl Keys {
    /// The same keys, for a test that simulates the peer.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn copy(&self) -> Self {
        Self { secret: self.secret, key: self.key, iv: self.iv, seq: self.seq }
    }

    /// TLS 1.3 keys from their secret, whose length is that of the suite's hash.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn of_secret(suite: Suite, secret: &[u8]) -> Self {
        let mut keys = Self { secret: [0; SECRET_BYTES_MAX], key: [0; 32], iv: [0; IV_BYTES], seq: 0 };
        keys.secret[..secret.len()].copy_from_slice(secret);
        keys.derive(suite);
        keys
    }

    /// Takes over the keys that the handshake produced. In TLS 1.3, checks that the key derives
    /// from `secret`, so that a later key update cannot fail.
    pub(crate) fn new(suite: Suite, seq: u64, key: &[u8], iv: &[u8], secret: Option<&[u8]>) -> Result<Self, TlsFault> {
        let internal = |what: &str| TlsFault::Internal(what.into());
        let mut keys = Self { secret: [0; SECRET_BYTES_MAX], key: [0; 32], iv: [0; IV_BYTES], seq };
        if key.len() != suite.algorithm.ring().key_len() || iv.len() != IV_BYTES {
            return Err(internal("a key of an unexpected length"));
        }
        if suite.version == TlsVersion::V1_3 {
            let secret = secret.ok_or_else(|| internal("no traffic secret"))?;
            if secret.len() != suite.secret_bytes() {
                return Err(internal("a traffic secret of an unexpected length"));
            }
            keys.secret[..secret.len()].copy_from_slice(secret);
            keys.derive(suite);
            if keys.key[..key.len()] != *key || keys.iv[..] != *iv {
                return Err(internal("a traffic secret that is not the key's"));
            }
        } else {
            keys.key[..key.len()].copy_from_slice(key);
            keys.iv.copy_from_slice(iv);
        }
        Ok(keys)
    }

    /// The expanded key, on the stack.
    pub(crate) fn expand(&self, suite: Suite) -> LessSafeKey {
        let algorithm = suite.algorithm.ring();
        let key = UnboundKey::new(algorithm, &self.key[..algorithm.key_len()])
            .expect("the slice has the algorithm's own key length");
        LessSafeKey::new(key)
    }

    /// Steps to `application_traffic_secret_N+1` (RFC 8446 7.2).
    pub(crate) fn update(&mut self, suite: Suite) {
        let len = suite.secret_bytes();
        let mut next = [0; SECRET_BYTES_MAX];
        expand_label(suite, &self.secret[..len], b"traffic upd", &mut next[..len]);
        self.secret = next;
        next.zeroize();
        self.derive(suite);
        self.seq = 0;
    }

    /// Key and IV from the traffic secret (RFC 8446 7.3).
    fn derive(&mut self, suite: Suite) {
        let secret = &self.secret[..suite.secret_bytes()];
        let key_len = suite.algorithm.ring().key_len();
        expand_label(suite, secret, b"key", &mut self.key[..key_len]);
        expand_label(suite, secret, b"iv", &mut self.iv);
    }

    /// `iv XOR seq` (RFC 8446 5.3, RFC 7905 2).
    fn nonce(&self) -> [u8; IV_BYTES] {
        let mut nonce = self.iv;
        for (byte, seq) in nonce[IV_BYTES - 8..].iter_mut().zip(self.seq.to_be_bytes()) {
            *byte ^= seq;
        }
        nonce
    }

    /// Whether the key will soon be unable to seal further data records and cannot be changed: TLS
    /// 1.2 with AES-GCM. The remainder, 1 GiB of full records, exceeds any final output.
    pub(crate) fn is_nearly_worn(&self, suite: Suite) -> bool {
        self.seq >= SEALED_RECORDS_MAX - LAST_RECORDS
            && suite.version == TlsVersion::V1_2
            && suite.algorithm != Algorithm::Chacha20Poly1305
    }

    /// Whether this key may not seal another data record; one more, a key update or an alert, is
    /// always possible.
    pub(crate) fn worn(&self, suite: Suite) -> bool {
        suite.algorithm != Algorithm::Chacha20Poly1305 && self.seq >= SEALED_RECORDS_MAX
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446 7.1).
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], out: &mut [u8]) {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let length = (out.len() as u16).to_be_bytes();
    let label_length = [6 + label.len() as u8];
    let info: [&[u8]; 5] = [&length, &label_length, b"tls13 ", label, &[0]];
    hkdf::Prk::new_less_safe(suite.hkdf(), secret)
        .expand(&info, Length(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("at most 48 bytes are asked for, HKDF gives 255 blocks");
}

/// Appends one record with `plaintext` (at most 2^14 bytes) to `out`. `key` is
/// the expanded key of `keys`.
pub(crate) fn seal(suite: Suite, keys: &mut Keys, key: &LessSafeKey, kind: u8, plaintext: &[u8], out: &mut Vec<u8>) {
    let nonce = keys.nonce();
    let explicit = suite.explicit_nonce();
    // In TLS 1.3 the content type is inside and the record's outer type is data.
    let (outer_kind, fragment) = match suite.version {
        TlsVersion::V1_3 => (APPLICATION_DATA, plaintext.len() + 1 + TAG_BYTES),
        TlsVersion::V1_2 => (kind, plaintext.len() + TAG_BYTES + usize::from(explicit) * EXPLICIT_NONCE_BYTES),
    };
    let length = (fragment as u16).to_be_bytes();
    let header = [outer_kind, VERSION[0], VERSION[1], length[0], length[1]];
    out.reserve(HEADER_BYTES + fragment);
    out.extend_from_slice(&header);
    if explicit {
        out.extend_from_slice(&nonce[IV_BYTES - EXPLICIT_NONCE_BYTES..]);
    }
    let start = out.len();
    out.extend_from_slice(plaintext);
    if suite.version == TlsVersion::V1_3 {
        out.push(kind);
    }
    let nonce = Nonce::assume_unique_for_key(nonce);
    let body = &mut out[start..];
    let tag = match suite.version {
        TlsVersion::V1_3 => key.seal_in_place_separate_tag(nonce, Aad::from(header), body),
        TlsVersion::V1_2 => {
            let aad = tls12_aad(keys.seq, kind, plaintext.len());
            key.seal_in_place_separate_tag(nonce, Aad::from(aad), body)
        }
    }
    .expect("a record is far below the AEAD's length limit");
    out.extend_from_slice(tag.as_ref());
    keys.seq += 1;
}

/// RFC 5246 6.2.3.3.
fn tls12_aad(seq: u64, kind: u8, plaintext_bytes: usize) -> [u8; 13] {
    let mut aad = [0; 13];
    aad[..8].copy_from_slice(&seq.to_be_bytes());
    aad[8] = kind;
    aad[9..11].copy_from_slice(&VERSION);
    aad[11..].copy_from_slice(&(plaintext_bytes as u16).to_be_bytes());
    aad
}

/// Why a record could not be opened; each has its alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// `bad_record_mac`: altered, replayed, reordered or sealed with another key.
    Mac,
    /// `record_overflow`: more than 2^14 bytes of plaintext.
    Overflow,
    /// `unexpected_message`: a record that is not permitted in this state.
    Unexpected,
}

/// Opens the record (header included) in place and returns its content type
/// and its plaintext.
pub(crate) fn open<'r>(
    suite: Suite,
    keys: &mut Keys,
    key: &LessSafeKey,
    record: &'r mut [u8],
) -> Result<(u8, &'r [u8]), OpenError> {
    let Some((&mut header, fragment)) = record.split_first_chunk_mut::<HEADER_BYTES>() else {
        return Err(OpenError::Unexpected);
    };
    if suite.version == TlsVersion::V1_3 && header[0] != APPLICATION_DATA {
        // No unprotected record is permitted after the handshake (RFC 8446 5).
        return Err(OpenError::Unexpected);
    }
    let mut nonce = keys.nonce();
    let explicit = if suite.explicit_nonce() { EXPLICIT_NONCE_BYTES } else { 0 };
    if fragment.len() < explicit + TAG_BYTES {
        return Err(OpenError::Mac);
    }
    nonce[IV_BYTES - explicit..].copy_from_slice(&fragment[..explicit]);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let opened = match suite.version {
        TlsVersion::V1_3 => key.open_in_place(nonce, Aad::from(header), fragment),
        TlsVersion::V1_2 => {
            let plaintext_bytes = fragment.len() - explicit - TAG_BYTES;
            if header[1..3] != VERSION {
                return Err(OpenError::Mac);
            }
            let aad = tls12_aad(keys.seq, header[0], plaintext_bytes);
            key.open_within(nonce, Aad::from(aad), fragment, explicit..)
        }
    };
    let opened: &'r [u8] = opened.map_err(|_| OpenError::Mac)?;
    keys.seq += 1;
    let (kind, plaintext) = match suite.version {
        TlsVersion::V1_2 => (header[0], opened),
        TlsVersion::V1_3 => {
            // The last nonzero byte is the type (RFC 8446 5.4).
            let last = opened.iter().rposition(|&byte| byte != 0);
            let last = last.ok_or(OpenError::Unexpected)?;
            if opened.len() > PLAINTEXT_BYTES_MAX + 1 {
                return Err(OpenError::Overflow);
            }
            (opened[last], &opened[..last])
        }
    };
    if plaintext.len() > PLAINTEXT_BYTES_MAX {
        return Err(OpenError::Overflow);
    }
    Ok((kind, plaintext))
}
