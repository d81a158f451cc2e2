//! What it costs to read and verify one token for channels, by its algorithm.
//!
//!     cargo run --release -p throng-engine --example tokens

#![allow(clippy::disallowed_methods, reason = "a program that tells how long it took has a clock; the engine has none")]

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use ring::{digest, hmac};
use throng_engine::web::access::key::Keys;
use throng_engine::web::access::{Access, Fault};

const ROUNDS: u32 = 2_000;
const NOW_S: u64 = 1_700_000_000;

/// A name, what the server is given, and what signs.
type Signer = (&'static str, String, Box<dyn Fn(&[u8]) -> Vec<u8>>);

fn signers() -> [Signer; 3] {
    let random = SystemRandom::new();
    let secret = [7; 32];
    let encode = |bytes: &[u8]| BASE64URL.encode(bytes);
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    let es256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).expect("a key");
    let ed25519 = Ed25519KeyPair::from_seed_unchecked(&secret).expect("a key");
    let (point, x) = (es256.public_key().as_ref(), ed25519.public_key().as_ref());
    let jwks = [
        format!("{{\"kty\":\"oct\",\"k\":\"{}\"}}", encode(&secret)),
        format!(
            "{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{}\",\"y\":\"{}\"}}",
            encode(&point[1..33]),
            encode(&point[33..])
        ),
        format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{}\"}}", encode(x)),
    ];
    let [first, second, third] = jwks;
    let hs256 = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    [
        ("HS256", first, Box::new(move |signed| hmac::sign(&hs256, signed).as_ref().to_vec())),
        ("ES256", second, Box::new(move |signed| es256.sign(&random, signed).expect("a signature").as_ref().to_vec())),
        ("EdDSA", third, Box::new(move |signed| ed25519.sign(signed).as_ref().to_vec())),
    ]
}

/// The least of five runs, microseconds each.
fn cost(mut each: impl FnMut()) -> f64 {
    let run = |each: &mut dyn FnMut()| {
        let begun = Instant::now();
        (0..ROUNDS).for_each(|_| each());
        begun.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
    };
    (0..5).map(|_| run(&mut each)).fold(f64::INFINITY, f64::min)
}

fn main() {
    let claims = format!(
        "{{\"iss\":\"https://issuer.example\",\"exp\":{},\"jti\":\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\",\
         \"subscribe\":[\"own.romeo\",\"own.team.*\"],\"publish\":[\"own.team.verona\"]}}",
        NOW_S + 60
    );
    for (name, jwk, sign) in signers() {
        let access =
            Access { keys: Keys::read(jwk.as_bytes()).expect("a key"), ahead_s_max: 86_400, ..Access::default() };
        let header = format!("{{\"alg\":\"{name}\",\"typ\":\"JWT\"}}");
        let signed = format!("{}.{}", BASE64URL.encode(header), BASE64URL.encode(&claims));
        let token = format!("{signed}.{}", BASE64URL.encode(sign(signed.as_bytes())));
        let forged = format!("{signed}.{}", BASE64URL.encode(sign(b"something else")));
        let good = cost(|| assert!(access.grant(&token, NOW_S, || Ok::<_, Fault>(())).is_ok()));
        let wrong = cost(|| assert!(access.grant(&forged, NOW_S, || Ok(())) == Err(Fault::Signature)));
        let read = cost(|| assert!(access.grant(&token, NOW_S, || Err(Fault::Signature)).is_err()));
        let hash = cost(|| assert!(digest::digest(&digest::SHA256, token.as_bytes()).as_ref().len() == 32));
        println!(
            "{name}: {} bytes; whole {good:.1} us, of which read {read:.1} us; forged {wrong:.1} us; known (hash) {hash:.1} us",
            token.len()
        );
    }
}
