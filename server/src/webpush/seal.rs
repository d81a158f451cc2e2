//! Encrypts the content of a push for the page alone: RFC 8291 over the content coding of RFC 8188.
//!
//! Key agreement, HKDF and AES are `ring`'s; this file combines them. A push is one record.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};

/// Why content cannot be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The page's key is not a point of P-256.
    Key,
    /// The system has no randomness, or the content is too long.
    Other,
}

/// The announced record size: the whole content coding has no more bytes (RFC 8291 4).
const RECORD_BYTES: u32 = 4_096;

/// The delimiter of the last record (RFC 8188 2).
const LAST: u8 = 2;

/// A length of key material.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive<const N: usize>(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> [u8; N] {
    let mut out = [0; N];
    let key = Salt::new(HKDF_SHA256, salt).extract(secret);
    let filled = key.expand(info, Bytes(N)).and_then(|okm| okm.fill(&mut out));
    // HKDF yields up to 8,160 bytes (RFC 5869 2.3).
    filled.expect("the length is one that HKDF gives");
    out
}

/// RFC 8188 2: one record, encrypted with a key derived from `ikm`.
fn encrypt(ikm: &[u8], salt: [u8; 16], key_id: &[u8], content: &[u8]) -> Option<Vec<u8>> {
    let key: [u8; 16] = derive(&salt, ikm, &[b"Content-Encoding: aes128gcm\0"]);
    let nonce: [u8; 12] = derive(&salt, ikm, &[b"Content-Encoding: nonce\0"]);
    let mut record = [content, &[LAST]].concat();
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record).ok()?;
    if record.len() > RECORD_BYTES as usize {
        return None;
    }
    let mut out = Vec::with_capacity(21 + key_id.len() + record.len());
    out.extend_from_slice(&salt);
    out.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    out.push(u8::try_from(key_id.len()).ok()?);
    out.extend_from_slice(key_id);
    out.extend_from_slice(&record);
    Some(out)
}

/// RFC 8291 3.3 and 3.4: the key material combines the page's and the sender's keys and the page's
/// secret.
fn input_key(shared: &[u8], auth: &[u8; 16], page: &[u8; 65], sender: &[u8]) -> [u8; 32] {
    derive(auth, shared, &[b"WebPush: info\0", page, sender])
}

/// Encrypts content for a page, with an ephemeral key.
///
/// # Errors
/// Why it cannot be encrypted.
pub(super) fn seal(page: &[u8; 65], auth: &[u8; 16], content: &[u8]) -> Result<Vec<u8>, Fault> {
    let random = SystemRandom::new();
    let mut salt = [0; 16];
    random.fill(&mut salt).map_err(|_| Fault::Other)?;
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).map_err(|_| Fault::Other)?;
    let sender = own.compute_public_key().map_err(|_| Fault::Other)?;
    let theirs = UnparsedPublicKey::new(&ECDH_P256, page);
    let ikm = agree_ephemeral(own, &theirs, |shared| input_key(shared, auth, page, sender.as_ref()));
    encrypt(&ikm.map_err(|_| Fault::Key)?, salt, sender.as_ref(), content).ok_or(Fault::Other)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
    use throng_engine::limits::NOTIFY_PUSH_BYTES_MAX;

    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        BASE64URL.decode(text).unwrap().try_into().unwrap()
    }

    /// RFC 8188 3.1.
    #[test]
    fn the_first_example_of_rfc_8188() {
        let sealed =
            encrypt(&bytes::<16>("yqdlZ-tYemfogSmv7Ws5PQ"), bytes("I1BsxtFttlv3u_Oo94xnmw"), b"", b"I am the walrus");
        let expected = "I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg";
        assert_eq!(BASE64URL.encode(sealed.unwrap()), expected);
    }

    /// RFC 8291 5 and appendix A, starting from the shared secret of the two keys: `ring` does not
    /// import private keys.
    #[test]
    fn the_example_of_rfc_8291() {
        let page = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        let sender = "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";
        let shared = "kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs";
        let sender: [u8; 65] = bytes(sender);
        let ikm = input_key(&bytes::<32>(shared), &bytes("BTBZMqHH6r4Tts7J_aSIgg"), &bytes(page), &sender);
        assert_eq!(BASE64URL.encode(ikm), "S4lYMb_L0FxCeq0WhDx813KgSYqU26kOyzWUdsXYyrg");
        let content = b"When I grow up, I want to be a watermelon";
        let sealed = encrypt(&ikm, bytes("DGv6ra1nlYgDCS1FRnbzlw"), &sender, content).unwrap();
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w\
                        EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(BASE64URL.encode(sealed), expected);
    }

    #[test]
    fn each_push_has_a_key_of_its_own_and_no_more_bytes_than_any_service_takes() {
        let page = bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4");
        let content = vec![b'x'; NOTIFY_PUSH_BYTES_MAX];
        let [first, second] = [(); 2].map(|()| seal(&page, &[1; 16], &content).unwrap());
        assert_eq!((first.len(), second.len()), (4_096, 4_096), "RFC 8291 4");
        assert!(first[..16] != second[..16] && first[21..86] != second[21..86]);
        assert_eq!(seal(&[4; 65], &[1; 16], b"x"), Err(Fault::Key), "a point that is not on the curve");
    }
}
