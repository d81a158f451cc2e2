//! Tokens for channels: any text, any header and claims under a good signature, and any file of keys.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use libfuzzer_sys::fuzz_target;
use ring::hmac;
use throng_engine::limits::{NOTIFY_JWT_BYTES_MAX, NOTIFY_JWT_KEYS_MAX};
use throng_engine::web::access::key::Keys;
use throng_engine::web::access::{Access, Act, Fault};

const KEYS: &[u8] = br#"{"kty":"oct","k":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc"}"#;
const AHEAD_S: u64 = 86_400;

fuzz_target!(|input: &[u8]| {
    // Three parts, as lines that end with an empty byte; what is left out is usual.
    let mut parts = input.splitn(3, |byte| *byte == 0);
    let (claims, header, now_s) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let header = header.filter(|header| !header.is_empty()).unwrap_or(br#"{"alg":"HS256"}"#);
    let now_s = now_s.and_then(|now| now.get(..8)?.try_into().ok()).map_or(1_700_000_000, u64::from_be_bytes);
    let keys = Keys::read(KEYS).expect("a key");
    let access = Access { keys, ahead_s_max: AHEAD_S, ..Access::default() };
    let never = |token: &str| assert!(access.grant(token, now_s, || Ok::<_, Fault>(())).is_err(), "nobody has signed it");
    if let Ok(text) = std::str::from_utf8(input) {
        never(text);
    }
    let signed = format!("{}.{}", BASE64URL.encode(header), BASE64URL.encode(claims));
    never(&format!("{signed}."));
    never(&format!("{signed}.{}", BASE64URL.encode([0; 32])));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), signed.as_bytes());
    let token = format!("{signed}.{}", BASE64URL.encode(signature));
    if let Ok(grant) = access.grant(&token, now_s, || Ok::<_, Fault>(())) {
        assert!(token.len() <= NOTIFY_JWT_BYTES_MAX && grant.memory_bytes() <= 4 * NOTIFY_JWT_BYTES_MAX);
        assert!(grant.expires_s() > now_s && grant.expires_s() - now_s <= AHEAD_S);
        assert!(access.holds(&grant, now_s) && !access.holds(&grant, grant.expires_s()));
        // Another reader takes it for the same: an object with an end, in which publish and subscribe are lists.
        let other: serde_json::Value = serde_json::from_slice(claims).expect("JSON");
        assert!(other["exp"].is_number());
        for (act, name) in [(Act::Publish, "publish"), (Act::Subscribe, "subscribe")] {
            let empty = Vec::new();
            let list = other.get(name).map_or(&empty, |list| list.as_array().expect("a list"));
            let exact = |pattern: &serde_json::Value| pattern.as_str().expect("text").trim_end_matches('*').to_owned();
            list.iter().map(exact).filter(|name| !name.is_empty()).for_each(|name| assert!(grant.covers(act, &name)));
            assert!(!list.is_empty() || !grant.covers(act, "a"));
        }
    }
    if let Ok(keys) = Keys::read(input) {
        assert!((1..=NOTIFY_JWT_KEYS_MAX).contains(&keys.len()));
    }
});
