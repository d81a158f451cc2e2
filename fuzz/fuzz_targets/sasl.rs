//! Any two payloads as a login: nothing panics, and nothing but the right proof ends in a login.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_engine::io::ClientCertificate;
use throng_engine::session::sasl::{
    Allowed, Begun, ChannelBindings, Decoy, Fast, Mechanism, NONCE_BYTES, PlainCache, PlainStep, Terms, begin_with,
};
use throng_engine::store::account::Credentials;

fuzz_target!(|input: (u8, &str, &str, &[u8])| {
    let (which, first, last, record) = input;
    let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: Some([2; 32].into()) };
    let certificate = ClientCertificate { addresses: [first.into(), "romeo@example.net".into()].into(), mapped: Box::default() };
    let allowed = Allowed { external: true, ..Allowed::default() };
    let terms = Terms { domain: "example.net", secured: Some(&bindings), allowed, certificate: Some(&certificate) };
    let decoy = Decoy::new(&[3; 32], 4096);
    if let Ok(credentials) = Credentials::decode(record) {
        let mut again = Vec::new();
        credentials.encode(&mut again);
        assert_eq!(Credentials::decode(&again), Ok(credentials));
    }
    let all = [&Mechanism::PASSWORDS[..], &Mechanism::TOKENS[..], &[Mechanism::External]].concat();
    let mechanism = all[usize::from(which) % all.len()];
    let fast = Fast { count: None, invalidate: false };
    let begun =
        match begin_with(mechanism.name(), Some(first).filter(|_| which < 128), &terms, Some(fast), Some([1; 16])) {
            Ok(Begun::Initial(state)) => state.response(last, &terms),
            begun => begun,
        };
    match begun {
        Ok(Begun::Scram(state)) => {
            let (state, _challenge) = state.account(None, &decoy, &[0; NONCE_BYTES]);
            assert!(state.response(last).is_err());
        }
        // The derivation itself is left out: it is slow and has no branches.
        Ok(Begun::Plain(attempt)) => {
            let step = attempt.account(None, None, &decoy, &PlainCache::new(&[0; 32], 1));
            assert!(matches!(step, PlainStep::Derive(..)));
        }
        Ok(Begun::External(attempt)) => {
            assert!(attempt.bare().ends_with("@example.net") && attempt.account(None).is_err());
        }
        Ok(Begun::Token(attempt)) => assert!(attempt.bare().ends_with("@example.net")),
        Ok(Begun::Initial(_)) => panic!("the first message is asked for once"),
        Err(_) => {}
    }
});
