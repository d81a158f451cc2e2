//! What a TLS handshake costs at either end, beside what its cryptography alone costs: `ring`, which both ends use, and
//! `openssl speed`, all in one run. Both ends stand in one thread and no socket is between them.
//!
//!     cargo run --release -p throng --example handshake [ROUNDS]

use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::rand::SystemRandom;
use ring::signature::{self, ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;
use throng::tls::{Certificates, TlsConnection, TlsOptions, ensure_self_signed};
use throng_tls::client::{Terms, TlsClient};

/// Handshakes, or operations, of one round.
const ROUND: u32 = 500;

/// Microseconds that one of so many took.
fn each(spent: Duration, count: u32) -> f64 {
    spent.as_secs_f64() * 1e6 / f64::from(count)
}

fn timed<T>(spent: &mut Duration, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let made = work();
    *spent += started.elapsed();
    made
}

/// A round of handshakes: the server's and the client's microseconds a handshake.
fn handshakes(certificates: &std::sync::Arc<Certificates>, terms: &Terms) -> (f64, f64) {
    let (mut server_spent, mut client_spent) = (Duration::ZERO, Duration::ZERO);
    let config = certificates.direct();
    for _ in 0..ROUND {
        let mut server = TlsConnection::accept(&config);
        let mut client = timed(&mut client_spent, || TlsClient::new(terms).expect("terms"));
        let (mut none, mut flight) = (Vec::new(), Vec::new());
        loop {
            let mut records = Vec::new();
            timed(&mut client_spent, || client.send(&mut none, &mut records).expect("a flight"));
            if records.is_empty() {
                break;
            }
            flight.clear();
            timed(&mut server_spent, || server.receive(&mut records, &mut none, &mut flight).expect("a handshake"));
            timed(&mut client_spent, || client.receive(&mut flight, &mut none).expect("a handshake"));
        }
        assert!(server.is_established() && client.version() == server.version());
    }
    (each(server_spent, ROUND), each(client_spent, ROUND))
}

/// The floor by `ring`: what a full handshake needs of asymmetric operations, as server and as client.
fn floor() -> (f64, f64) {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random).expect("a key");
    let public = signature::UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.public_key().as_ref().to_vec());
    let peer = EphemeralPrivateKey::generate(&X25519, &random).expect("a key");
    let peer = UnparsedPublicKey::new(&X25519, peer.compute_public_key().expect("a key").as_ref().to_vec());
    let message = [7; 130];
    let (mut shared, mut signing, mut verifying) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUND {
        timed(&mut shared, || {
            let own = EphemeralPrivateKey::generate(&X25519, &random).expect("a key");
            own.compute_public_key().expect("a key");
            agree_ephemeral(own, &peer, |secret| assert_eq!(secret.len(), 32)).expect("a secret");
        });
        let signed = timed(&mut signing, || key.sign(&random, &message).expect("a signature"));
        timed(&mut verifying, || public.verify(&message, signed.as_ref()).expect("it is right"));
    }
    let shared = each(shared, ROUND);
    (shared + each(signing, ROUND), shared + each(verifying, ROUND))
}

/// By `openssl speed`: microseconds to sign, to verify, and to agree with keys that are there.
fn openssl() -> Option<serde_json::Value> {
    let speed =
        Command::new("openssl").args(["speed", "-seconds", "1", "-mr", "ecdsap256", "ecdhx25519"]).output().ok()?;
    let text = String::from_utf8(speed.stdout).ok()?;
    let field = |line: &str, index: usize| {
        let line = text.lines().find(|found| found.starts_with(line))?;
        line.split(':').nth(index)?.parse::<f64>().ok().filter(|n| *n > 0.0)
    };
    // Operations a second: "+F4:INDEX:256:SIGN:VERIFY", "+F5:INDEX:253:DERIVE:SECONDS".
    let us = |a_second: f64| (1e7 / a_second).round() / 10.0;
    let (sign, verify, agree) = (us(field("+F4", 3)?), us(field("+F4", 4)?), us(field("+F5", 3)?));
    Some(json!({ "ecdsap256_sign": sign, "ecdsap256_verify": verify, "ecdhx25519": agree }))
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2] * 10.0).round() / 10.0
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(11);
    let folder = std::env::temp_dir().join(format!("throng-handshake-{}", std::process::id()));
    let source = ensure_self_signed(&folder, "localhost", SystemTime::now()).expect("a certificate");
    let certificates = Certificates::load(vec![source], TlsOptions::default()).expect("a certificate");
    std::fs::remove_dir_all(&folder).expect("it was made here");
    let terms = Terms::trusting_anyone("localhost").expect("a name");
    let mut all: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        let (server, client) = handshakes(&certificates, &terms);
        let (server_floor, client_floor) = floor();
        all.iter_mut().zip([server, client, server_floor, client_floor]).for_each(|(all, one)| all.push(one));
    }
    let [server, client, server_floor, client_floor] = all.map(median);
    let ratio = |a: f64, b: f64| (a / b * 100.0).round() / 100.0;
    let mut result = json!({
        "command": format!("cargo run --release -p throng --example handshake {rounds}"),
        "what": "full TLS 1.3 handshake, X25519, ECDSA P-256, one ticket; medians; microseconds of one core",
        "rounds": rounds, "handshakes_a_round": ROUND,
        "server_us": server, "client_us": client,
        "ring_us": { "server": server_floor, "client": client_floor },
        "ratio_to_ring": { "server": ratio(server, server_floor), "client": ratio(client, client_floor) },
        "handshakes_a_second_of_one_core": { "server": (1e6 / server).round(), "client": (1e6 / client).round() },
    });
    if let Some(speed) = openssl() {
        result["openssl_us"] = speed;
    }
    println!("{}", serde_json::to_string_pretty(&result).expect("JSON"));
}
