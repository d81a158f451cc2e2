//! An issuer of tokens for channels, built on RFC 7515 alone: it can sign tokens that no reader
//! accepts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use ring::{digest, hmac};
use throng_engine::web::access::Access;
use throng_engine::web::access::key::Keys;

/// The key of RFC 7515 A.1.
pub(super) const SECRET: &str =
    "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
/// That of A.3.
pub(super) const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
pub(super) const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
const D: &str = "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI";
/// That of RFC 8037 A.1.
const SEED: &str = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";

/// Start of shard tests, seconds since the Unix epoch.
pub(super) const NOW_S: u64 = 1_700_000_000;

pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64URL.encode(bytes)
}

pub(super) fn decode(text: &str) -> Vec<u8> {
    BASE64URL.decode(text).expect("Base64url")
}

/// The key and algorithm of a signature.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signer {
    Hs256,
    Es256,
    Ed25519,
}

impl Signer {
    pub(super) const ALL: [Signer; 3] = [Signer::Hs256, Signer::Es256, Signer::Ed25519];

    pub(super) fn name(self) -> &'static str {
        match self {
            Signer::Hs256 => "HS256",
            Signer::Es256 => "ES256",
            Signer::Ed25519 => "EdDSA",
        }
    }

    /// Its form in the server's configuration.
    pub(super) fn jwk(self, more: &str) -> String {
        match self {
            Signer::Hs256 => format!("{{\"kty\":\"oct\",\"k\":\"{SECRET}\"{more}}}"),
            Signer::Es256 => format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{X}\",\"y\":\"{Y}\"{more}}}"),
            Signer::Ed25519 => {
                format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{}\"{more}}}", encode(self.public()))
            }
        }
    }

    /// Its public bytes.
    pub(super) fn public(self) -> Vec<u8> {
        match self {
            Signer::Hs256 => Vec::new(),
            Signer::Es256 => [&[4_u8][..], &decode(X), &decode(Y)].concat(),
            Signer::Ed25519 => ed25519().public_key().as_ref().to_vec(),
        }
    }

    pub(super) fn sign(self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = match self {
            Signer::Hs256 => mac(&decode(SECRET), &signed),
            Signer::Es256 => {
                let random = SystemRandom::new();
                let (key, public) = (decode(D), self.public());
                let form = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let pair = EcdsaKeyPair::from_private_key_and_public_key(form, &key, &public, &random).expect("a key");
                pair.sign(&random, signed.as_bytes()).expect("a signature").as_ref().to_vec()
            }
            Signer::Ed25519 => ed25519().sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", encode(signature))
    }

    /// A token with these claims, given without the braces.
    pub(super) fn token(self, claims: &str) -> String {
        self.sign(&format!("{{\"alg\":\"{}\",\"typ\":\"JWT\"}}", self.name()), &format!("{{{claims}}}"))
    }
}

fn ed25519() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&decode(SEED)).expect("a key")
}

/// The signature of HS256.
pub(super) fn mac(secret: &[u8], signed: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes()).as_ref().to_vec()
}

/// A token that is valid for a minute, with more claims after a comma.
pub(super) fn minute(more: &str) -> String {
    Signer::Hs256.token(&format!("\"exp\":{}{more}", NOW_S + 60))
}

pub(super) fn keys(jwks: &[String]) -> Keys {
    Keys::read(format!("{{\"keys\":[{}]}}", jwks.join(",")).as_bytes()).expect("keys")
}

/// One key per algorithm, and no other requirements.
pub(super) fn access() -> Access {
    let jwks: Vec<_> = Signer::ALL.iter().map(|signer| signer.jwk("")).collect();
    Access { keys: keys(&jwks), ahead_s_max: 86_400, ..Access::default() }
}

/// A hash of something, for unguessable claims.
pub(super) fn name_of(number: u32) -> String {
    encode(&digest::digest(&digest::SHA256, &number.to_be_bytes()).as_ref()[..12])
}
