//! Keys of issuers, as a JWK Set (RFC 7517 5) has them. A key is good for one algorithm, which the key says and no token (RFC 8725 3.1):
//! so no public key is ever taken for the secret of another algorithm.
//!
//! What is verified is done by `ring`. HS256 (RFC 7518 3.2), ES256 (3.4) and Ed25519 (RFC 8037) are what there is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ring::digest;
use ring::hmac;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};

use super::Fault;
use super::json::{self, Object, Value};
use crate::limits::{NOTIFY_JWT_KEYS_MAX, NOTIFY_JWT_KID_BYTES_MAX};

/// By what a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-256, by a secret.
    Hs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// EdDSA on Curve25519.
    Ed25519,
}

impl Algorithm {
    /// That of a name (`alg`; RFC 7518 3.1, RFC 8037 3.1, RFC 9864 2.2). Case counts.
    pub(super) fn of(name: &str) -> Option<Algorithm> {
        match name {
            "HS256" => Some(Algorithm::Hs256),
            "ES256" => Some(Algorithm::Es256),
            "EdDSA" | "Ed25519" => Some(Algorithm::Ed25519),
            _ => None,
        }
    }
}

/// What a key is known by: the hash of its algorithm and of itself. Another key of the same `kid` has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id([u8; 32]);

#[derive(Clone)]
enum Material {
    Secret(hmac::Key),
    Public(Box<[u8]>),
}

impl Id {
    /// As it is stored.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }
}

/// A key.
#[derive(Clone)]
pub struct Key {
    algorithm: Algorithm,
    kid: Option<Box<str>>,
    material: Material,
    id: Id,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?}, {:?})", self.algorithm, self.kid)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.id == other.id && self.kid == other.kid
    }
}

impl Eq for Key {}

/// Shortest secret, bytes (RFC 7518 3.2).
const SECRET_BYTES_MIN: usize = 32;

impl Key {
    fn new(algorithm: Algorithm, kid: Option<Box<str>>, bytes: &[u8]) -> Key {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(&[algorithm as u8]);
        hash.update(bytes);
        let id = Id(hash.finish().as_ref().try_into().unwrap_or_default());
        let material = match algorithm {
            Algorithm::Hs256 => Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)),
            Algorithm::Es256 | Algorithm::Ed25519 => Material::Public(bytes.into()),
        };
        Key { algorithm, kid, material, id }
    }

    /// What it is known by.
    pub(super) fn id(&self) -> Id {
        self.id
    }

    /// Whether it has made this signature of these bytes.
    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match (&self.material, self.algorithm) {
            (Material::Secret(secret), _) => hmac::verify(secret, signed, signature).is_ok(),
            (Material::Public(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
            (Material::Public(point), _) => UnparsedPublicKey::new(&ED25519, point).verify(signed, signature).is_ok(),
        }
    }
}

/// All keys of a server: of an algorithm one alone has no `kid`, and no two have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(Box<[Key]>);

impl Keys {
    /// Reads a JWK Set, or a single key. What others may use the set for is passed over (RFC 7517 5): keys of other kinds, and keys that
    /// are not for signatures.
    ///
    /// # Errors
    /// What is wrong, as a sentence without a full stop.
    pub fn read(text: &[u8]) -> Result<Keys, String> {
        let object = json::object(text).ok_or("it must be a JWK Set: a JSON object without duplicate names")?;
        let single = [Value::Object(object)];
        let [Value::Object(object)] = &single else { return Ok(Keys::default()) };
        let entries: &[Value] = match object.get("keys") {
            Some(Value::List(keys)) => keys,
            Some(_) => return Err("its member keys must be a list".into()),
            None => &single,
        };
        let mut all: Vec<Key> = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let Value::Object(entry) = entry else { return Err(format!("key {} is not an object", at + 1)) };
            let Some(key) = read(entry).map_err(|why| format!("key {}: {why}", at + 1))? else { continue };
            if all.iter().any(|other| other.algorithm == key.algorithm && other.kid == key.kid) {
                return Err(format!("key {}: several keys for one algorithm need different kids", at + 1));
            }
            all.push(key);
        }
        match all.len() {
            0 => Err("it has no key for HS256, ES256 or EdDSA".into()),
            1..=NOTIFY_JWT_KEYS_MAX => Ok(Keys(all.into())),
            _ => Err(format!("it has more than {NOTIFY_JWT_KEYS_MAX} keys")),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether one of them is a secret, by which tokens can be signed as well (HS256).
    pub fn has_secrets(&self) -> bool {
        self.0.iter().any(|key| matches!(key.material, Material::Secret(_)))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one key that may have signed a token of this algorithm and `kid`. A `kid` is compared, and nothing is looked up by it.
    pub(super) fn of(&self, algorithm: Algorithm, kid: Option<&str>) -> Result<&Key, Fault> {
        let mut of = self.0.iter().filter(|key| key.algorithm == algorithm);
        let named = |kid: &str| self.0.iter().find(|key| key.algorithm == algorithm && key.kid.as_deref() == Some(kid));
        let unnamed = || self.0.iter().find(|key| key.algorithm == algorithm && key.kid.is_none());
        match (kid, of.next(), of.next()) {
            (_, None, _) => Err(Fault::Token("the server has no key for the algorithm of the token")),
            (None, Some(only), None) => Ok(only),
            (None, ..) => unnamed().ok_or(Fault::Token("the token has no kid, and the server has several keys")),
            (Some(kid), ..) => {
                named(kid).or_else(unnamed).ok_or(Fault::Token("the server has no key with the token's kid"))
            }
        }
    }

    /// Whether it is among these keys still.
    pub(super) fn has(&self, id: [u8; 32]) -> bool {
        self.0.iter().any(|key| key.id.0 == id)
    }
}

/// Reads a key; `None` if it is for something else.
fn read(entry: &Object) -> Result<Option<Key>, &'static str> {
    let text = |name: &str| entry.get(name).and_then(Value::text);
    let bytes = |name: &str| text(name).and_then(|text| BASE64URL.decode(text).ok());
    if entry.get("use").is_some_and(|r#use| r#use.text() != Some("sig")) {
        return Ok(None);
    }
    // RFC 7517 4.3. What may sign with a secret may verify with it.
    if let Some(operations) = entry.get("key_ops") {
        let Value::List(operations) = operations else { return Err("key_ops must be a list") };
        let verifies = |operation: &Value| matches!(operation.text(), Some("verify" | "sign"));
        if !operations.iter().any(verifies) {
            return Ok(None);
        }
    }
    let algorithm = match (text("kty"), text("crv")) {
        (Some("oct"), _) => Algorithm::Hs256,
        (Some("EC"), Some("P-256")) => Algorithm::Es256,
        (Some("OKP"), Some("Ed25519")) => Algorithm::Ed25519,
        (None, _) => return Err("it has no kty"),
        _ => return Ok(None),
    };
    // A key of this kind for another algorithm, as HS512.
    if entry.get("alg").is_some_and(|alg| alg.text().and_then(Algorithm::of) != Some(algorithm)) {
        return Ok(None);
    }
    if algorithm != Algorithm::Hs256 && entry.contains_key("d") {
        return Err("it contains a private key (d); remove that, the server needs only the public key");
    }
    let kid = match entry.get("kid") {
        None => None,
        Some(kid) => {
            let fits = |kid: &&str| (1..=NOTIFY_JWT_KID_BYTES_MAX).contains(&kid.len());
            Some(kid.text().filter(fits).ok_or("its kid must be a string of 1 to 128 bytes")?.into())
        }
    };
    let material = match algorithm {
        Algorithm::Hs256 => {
            let secret = bytes("k").ok_or("its k is not valid Base64url")?;
            if secret.len() < SECRET_BYTES_MIN {
                return Err("its k must have at least 32 bytes (RFC 7518 3.2)");
            }
            secret
        }
        Algorithm::Es256 => match (bytes("x"), bytes("y")) {
            (Some(x), Some(y)) if x.len() == 32 && y.len() == 32 => [&[4_u8][..], &x, &y].concat(),
            _ => return Err("its x and y must be 32 bytes each, in Base64url"),
        },
        Algorithm::Ed25519 => match bytes("x") {
            Some(x) if x.len() == 32 => x,
            _ => return Err("its x must be 32 bytes, in Base64url"),
        },
    };
    Ok(Some(Key::new(algorithm, kid, &material)))
}
