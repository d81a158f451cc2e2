//! What a login costs the server, by mechanism: microseconds of one thread, the least of several rounds.
//!
//! `cargo run --release -p throng-engine --example login_cost`

#![allow(clippy::disallowed_methods, reason = "a measuring program has a clock; the engine has none")]

use std::hint::black_box;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use throng_engine::session::sasl::{
    AccountThrottle, AddressThrottle, Allowed, Authenticated, Begun, Decoy, NONCE_BYTES, PlainCache, PlainStep, Terms,
    ThrottleParams, begin,
};
use throng_engine::store::account::Credentials;
use throng_engine::store::hash::{HashKind, Hashes};
use throng_engine::wire::jid;
use throng_engine::wire::limit::Limit;

const ITERATIONS: u32 = 10_000;
const NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];
const TERMS: Terms<'static> = Terms {
    domain: "example.net",
    secured: None,
    allowed: Allowed { plain: true, hashes: Hashes::ALL, external: false, tokens: true },
    certificate: None,
};

/// Runs `step` in rounds and prints the least mean time a run.
fn measure(what: &str, runs: u32, mut step: impl FnMut()) {
    let mut least_us = f64::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        (0..runs).for_each(|_| step());
        least_us = least_us.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(runs));
    }
    println!("{what:<44} {least_us:>10.3} us");
}

/// The server's part of a SCRAM login; reads the account's record as it stands in the store.
fn scram(mechanism: &str, payload: &str, record: &[u8], decoy: &Decoy, last: &str) -> Authenticated {
    let Ok(Begun::Scram(state)) = begin(mechanism, payload, &TERMS) else { panic!("a first message") };
    let credentials = Credentials::decode(record).expect("a record");
    let (state, challenge) = state.account(Some(&credentials), decoy, &NONCE);
    black_box(challenge);
    state.response(last).expect("the right proof").0
}

/// What the client sends last; the nonce is fixed, so it is the same each time.
fn client_final(mechanism: &str, kind: HashKind, record: &[u8], decoy: &Decoy, bare: &str) -> String {
    let Ok(Begun::Scram(state)) = begin(mechanism, &BASE64.encode(format!("n,,{bare}")), &TERMS) else {
        panic!("a first message")
    };
    let credentials = Credentials::decode(record).expect("a record");
    let (_, server_first) = state.account(Some(&credentials), decoy, &NONCE);
    let set = credentials.keys(kind).expect("all are there");
    let salted = kind.salted_password("pencil", set.salt(), set.iterations());
    let client_key = kind.hmac(salted.as_bytes(), &[b"Client Key"]);
    let nonce = server_first[2..].split(',').next().expect("a nonce");
    let signed = format!("{bare},{server_first},c=biws,r={nonce}");
    let signature = kind.hmac(set.keys().stored.as_bytes(), &[signed.as_bytes()]);
    BASE64.encode(format!("c=biws,r={nonce},p={}", BASE64.encode(client_key.xor(&signature).as_bytes())))
}

fn plain(payload: &str, record: &[u8], decoy: &Decoy, cache: &mut PlainCache) -> Authenticated {
    let Ok(Begun::Plain(attempt)) = begin("PLAIN", payload, &TERMS) else { panic!("a message") };
    let credentials = Credentials::decode(record).expect("a record");
    let local = attempt.bare().to_owned();
    let (authenticated, seen) = match attempt.account(Some(&credentials), cache.seen(&local).as_ref(), decoy, cache) {
        PlainStep::Done(authenticated, seen) => (authenticated, seen),
        PlainStep::Derive(job, state) => state.verify(job.run()).expect("the right password"),
        PlainStep::Refused(failure) => panic!("{failure}"),
    };
    cache.remember(&local, seen);
    authenticated
}

fn main() {
    let decoy = Decoy::new(&[1; 32], ITERATIONS);
    let credentials = Credentials::derive("pencil", ITERATIONS, &[2; 16], 0).expect("an account");
    let mut record = Vec::new();
    credentials.encode(&mut record);

    let bare = "n=romeo,r=fyko+d2lbbFgONRv9qkxdawL";
    let first = BASE64.encode(format!("n,,{bare}"));
    for (mechanism, kind) in
        [("SCRAM-SHA-1", HashKind::Sha1), ("SCRAM-SHA-256", HashKind::Sha256), ("SCRAM-SHA-512", HashKind::Sha512)]
    {
        let last = client_final(mechanism, kind, &record, &decoy, bare);
        measure(mechanism, 20_000, || {
            black_box(scram(mechanism, &first, &record, &decoy, &last));
        });
    }
    let payload = BASE64.encode("\0romeo\0pencil");
    let mut cache = PlainCache::new(&[3; 32], 1);
    plain(&payload, &record, &decoy, &mut cache);
    measure("PLAIN, known", 20_000, || {
        black_box(plain(&payload, &record, &decoy, &mut cache));
    });
    let mut forgetful = PlainCache::new(&[3; 32], 0);
    measure("PLAIN, derived (10,000 iterations)", 20, || {
        black_box(plain(&payload, &record, &decoy, &mut forgetful));
    });
    measure("new account (10,000 iterations, all hashes)", 20, || {
        black_box(Credentials::derive("pencil", ITERATIONS, &[2; 16], 0)).expect("an account");
    });
    for kind in HashKind::ALL {
        measure(&format!("10,000 iterations of {kind:?}"), 20, || {
            black_box(kind.salted_password("pencil", &[2; 16], ITERATIONS));
        });
    }
    let params = ThrottleParams::default();
    let mut addresses = AddressThrottle::new(Limit::AddressLogins, &params, &[4; 32]);
    let mut accounts = AccountThrottle::new(&params, &[4; 32]);
    let address = std::net::IpAddr::from([192, 0, 2, 1]);
    measure("throttle: address, begin and succeeded", 20_000, || {
        let peer = addresses.peer(address);
        let _ = black_box(addresses.allows(0, peer));
        let _ = black_box(accounts.begin(0, peer, "romeo"));
        accounts.succeeded(0, peer, "romeo");
    });
    let mut scratch = String::new();
    let parse = |input: &str, scratch: &mut String| {
        black_box(jid::parse_into(black_box(input), scratch)).expect("an address");
    };
    measure("address, normal form (31 bytes)", 200_000, || parse("juliet@example.net/balcony-1234", &mut scratch));
    measure("address, upper case", 20_000, || parse("Juliet@Example.net/balcony-1234", &mut scratch));
    measure("address, not ASCII", 20_000, || parse("jüliet@bücher.example/balkön", &mut scratch));
}
