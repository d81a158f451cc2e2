use proptest::prelude::*;

use super::*;
use crate::store::account::KeySet;
use crate::store::hash::{HashKind, Hashes};
use crate::wire::error::NS_SASL;

fn terms() -> Terms<'static> {
    Terms { domain: "example.net", secured: None, allowed: Allowed::default(), certificate: None }
}

fn decoy() -> Decoy {
    Decoy::new(&[4; 32], 4096)
}

fn plain(message: &str) -> Result<PlainAttempt, Failure> {
    match begin("PLAIN", &BASE64.encode(message), &terms())? {
        Begun::Plain(attempt) => Ok(attempt),
        other => panic!("{other:?}"),
    }
}

/// One login. Also returns whether it needed a job.
fn login(
    message: &str,
    found: Option<&Credentials>,
    cache: &mut PlainCache,
) -> (Result<Authenticated, SaslCondition>, bool) {
    let seen = cache.seen("juliet");
    let mut remember = |(authenticated, seen)| {
        cache.remember("juliet", seen);
        authenticated
    };
    match plain(message).unwrap().account(found, seen.as_ref(), &decoy(), &PlainCache::new(&[2; 32], 0)) {
        PlainStep::Done(authenticated, seen) => (Ok(remember((authenticated, seen))), false),
        PlainStep::Refused(failure) => (Err(failure.condition), false),
        PlainStep::Derive(job, state) => {
            assert_eq!(job.iterations(), 4096);
            (state.verify(job.run()).map(remember).map_err(|failure| failure.condition), true)
        }
    }
}

fn account(password: &str) -> Credentials {
    Credentials::derive(password, 4096, &[1; 16], 0).unwrap()
}

/// RFC 4616 4, and the message of RFC 6120 9.1.2.
#[test]
fn rfc4616_a_password_is_derived_once_and_known_afterwards() {
    let mut cache = PlainCache::new(&[2; 32], 10);
    let credentials = account("r0m30myr0m30");
    let found = Some(&credentials);
    let (right, wrong) = ("\0juliet\0r0m30myr0m30", "\0juliet\0r0m30");
    assert_eq!(login(wrong, found, &mut cache), (Err(SaslCondition::NotAuthorized), true));
    assert!(cache.is_empty(), "a wrong password leaves no trace");
    let (authenticated, derived) = login(right, found, &mut cache);
    assert_eq!((authenticated.unwrap().bare(), derived), ("juliet@example.net", true));
    let (authenticated, derived) = login("juliet@example.net\0JULIET\0r0m30myr0m30", found, &mut cache);
    assert_eq!((authenticated.unwrap().mechanism(), derived), (Mechanism::Plain, false));
    assert_eq!(login(wrong, found, &mut cache), (Err(SaslCondition::NotAuthorized), true));
    assert!(!login(right, found, &mut cache).1, "a wrong one does not push out a right one");
    // A new password invalidates the cached one, although the cache was not informed.
    let changed = account("another");
    assert_eq!(login(right, Some(&changed), &mut cache), (Err(SaslCondition::NotAuthorized), true));
    let mut disabled = credentials.clone();
    disabled.set_standing(crate::store::account::Standing::Suspended);
    assert_eq!(login(right, Some(&disabled), &mut cache), (Err(SaslCondition::AccountDisabled), false));
    cache.forget("juliet");
    assert_eq!(login(right, Some(&disabled), &mut cache), (Err(SaslCondition::AccountDisabled), true));
    assert_eq!(login("\0juliet\0x", Some(&disabled), &mut cache), (Err(SaslCondition::NotAuthorized), true));
    // RFC 6120 13.11: a missing account takes the same steps to the same result.
    assert_eq!(login(right, None, &mut cache), (Err(SaslCondition::NotAuthorized), true));
    // RFC 4013: the password is prepared as SCRAM clients prepare it.
    let fish = account("fish");
    assert!(login("\0juliet\0\u{fb01}\u{ad}sh", Some(&fish), &mut cache).0.is_ok());
}

/// XEP-0480: PLAIN has the password, so the keys that an account lacks are derived from it: only
/// from the right password, and only the missing ones.
#[test]
fn xep0480_keys_are_gained_by_the_right_password() {
    let all = account("pencil");
    let lacks = Credentials::of_keys([all.keys(HashKind::Sha1).unwrap().clone()], 0).unwrap();
    let run = |found: &Credentials, password: &str, kinds| {
        let attempt = plain(&format!("\0juliet\0{password}")).unwrap();
        let step = attempt.account(Some(found), None, &decoy(), &PlainCache::new(&[2; 32], 0));
        let PlainStep::Derive(job, state) = step else { panic!("{step:?}") };
        let mut derived = job.gaining(found, kinds, 5000).run();
        let gained = derived.take_gained();
        (state.verify(derived).map(|(proof, _)| proof.identity()), gained)
    };
    let (identity, gained) = run(&lacks, "pencil", Hashes::ALL);
    assert_eq!(identity.unwrap(), lacks.identity());
    assert_eq!(gained.iter().map(KeySet::kind).collect::<Vec<_>>(), [HashKind::Sha256, HashKind::Sha512]);
    let expected = Credentials::derive("pencil", 5000, lacks.anchor().salt(), 0).unwrap();
    assert_eq!(Some(&gained[1]), expected.keys(HashKind::Sha512));
    let (identity, gained) = run(&lacks, "pen", Hashes::ALL);
    assert!(identity.is_err() && gained.is_empty());
    assert!(run(&all, "pencil", Hashes::ALL).1.is_empty());
    assert!(run(&lacks, "pencil", Hashes::default()).1.is_empty());
}

/// RFC 4616 2: invalid messages.
#[test]
fn rfc4616_2_bad_messages() {
    use SaslCondition::{InvalidAuthzid, MalformedRequest, NotAuthorized};
    let (long_name, long_password) = (format!("\0{}\0x", "a".repeat(1024)), format!("\0juliet\0{}", "a".repeat(1025)));
    let table = [
        ("juliet", MalformedRequest),
        ("\0juliet", MalformedRequest),
        ("\0juliet\0", MalformedRequest),
        ("\0\0pass", MalformedRequest),
        ("\0juliet\0pass\0", MalformedRequest),
        ("\0juliet\0pa\0ss", MalformedRequest),
        ("\0jul iet\0pass", NotAuthorized),
        ("\0juliet\0pa\u{7}ss", NotAuthorized),
        ("\0juliet\0\u{ad}", NotAuthorized),
        (&long_name, NotAuthorized),
        (&long_password, NotAuthorized),
        ("romeo@example.net\0juliet\0pass", InvalidAuthzid),
        ("juliet\0juliet\0pass", InvalidAuthzid),
    ];
    for (message, condition) in table {
        assert_eq!(plain(message).unwrap_err(), Failure::of(condition), "{message:?}");
    }
}

/// RFC 6120 6.4.2, 6.5.5, 13.9.1, RFC 4648 3: only the canonical form of base64.
#[test]
fn rfc6120_6_4_2_encoding() {
    use SaslCondition::{IncorrectEncoding, MalformedRequest};
    let condition = |payload: &str| begin("PLAIN", payload, &terms()).unwrap_err().condition;
    let good = BASE64.encode("\0juliet\0pass");
    assert_eq!(good, "AGp1bGlldABwYXNz");
    assert!(matches!(begin("PLAIN", &good, &terms()), Ok(Begun::Plain(_))));
    assert!(matches!(begin("PLAIN", "", &terms()), Ok(Begun::Initial(_))));
    for payload in [
        "AGp1bGlldABwYXN",
        "AGp1bGlldABwYXNz=",
        " AGp1bGlldABwYXNz",
        "AGp1\nbGlldABwYXNz",
        "AGp1bGlldABwYXNz\n",
        "A",
        "==",
        "AA",
        "AB==",
        "_-__",
        "\u{e9}",
    ] {
        assert_eq!(condition(payload), IncorrectEncoding, "{payload:?}");
    }
    assert_eq!(condition("="), MalformedRequest, "an empty message is none of PLAIN's");
    assert_eq!(condition("gICA"), MalformedRequest, "not UTF-8");
    assert_eq!(condition(&"A".repeat(8192)), MalformedRequest);
    // Every part at its limit is accepted.
    let (name, password) = ("a".repeat(1023), "b".repeat(1024));
    let domain = "d".repeat(1023);
    let terms = Terms { domain: &domain, ..terms() };
    let payload = BASE64.encode(format!("{name}@{domain}\0{name}\0{password}"));
    assert!(matches!(begin("PLAIN", &payload, &terms), Ok(Begun::Plain(_))));
}

/// RFC 6120 6.4.2-6.4.4: a client that omits its first message is asked for it.
#[test]
fn rfc6120_6_4_2_no_initial_response() {
    for (mechanism, message) in [("PLAIN", "\0juliet\0pass"), ("SCRAM-SHA-1", "n,,n=juliet,r=abc")] {
        let Ok(Begun::Initial(state)) = begin(mechanism, "", &terms()) else { panic!("{mechanism}") };
        let bare = match state.response(&BASE64.encode(message), &terms()).unwrap() {
            Begun::Plain(attempt) => attempt.bare().to_owned(),
            Begun::Scram(state) => state.bare().to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(bare, "juliet@example.net");
        // It is asked only once.
        let Ok(Begun::Initial(state)) = begin(mechanism, "", &terms()) else { panic!("{mechanism}") };
        assert_eq!(state.response("", &terms()).unwrap_err().condition, SaslCondition::MalformedRequest);
    }
}

/// RFC 6120 6.5.4, 6.5.7, 6.5.9: only offered mechanisms.
#[test]
fn rfc6120_6_5_only_what_is_offered() {
    let secured = ChannelBindings::default();
    let plain_text = Terms { allowed: Allowed { plain: false, ..Allowed::default() }, ..terms() };
    let over_tls =
        Terms { allowed: Allowed { plain: false, ..Allowed::default() }, secured: Some(&secured), ..terms() };
    let condition = |mechanism: &str, terms: &Terms<'_>| begin(mechanism, "", terms).unwrap_err().condition;
    assert_eq!(condition("PLAIN", &plain_text), SaslCondition::EncryptionRequired);
    assert_eq!(condition("PLAIN", &over_tls), SaslCondition::MechanismTooWeak);
    for mechanism in ["", "plain", "DIGEST-MD5", "SCRAM-SHA-1-PLUS", "EXTERNAL"] {
        assert_eq!(condition(mechanism, &over_tls), SaslCondition::InvalidMechanism, "{mechanism:?}");
    }
}

/// RFC 6120 6.4.3, 6.4.6.
#[test]
fn rfc6120_6_4_elements() {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        let text = String::from_utf8(out).unwrap();
        let element: minidom::Element = text.parse().unwrap();
        assert_eq!(element.ns(), NS_SASL);
        (text, element.text())
    };
    let challenge = |message: &[u8]| written(&|out| Form::Sasl1.write_challenge(out, message));
    assert_eq!(challenge(b"").0, "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    assert_eq!(written(&|out| write_success(out, b"")).0, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    assert_eq!(BASE64.decode(written(&|out| write_success(out, b"v=abc")).1).unwrap(), b"v=abc");
    assert_eq!(BASE64.decode(challenge(b"r=1").1).unwrap(), b"r=1");
    assert_eq!(
        written(&|out| Failure::with_text(SaslCondition::TemporaryAuthFailure, "later").write(Form::Sasl1, out)).0,
        "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/>\
         <text xml:lang='en'>later</text></failure>"
    );
}

/// XEP-0388 2.5, 2.6.1, 2.6.2.
#[test]
fn xep0388_2_elements() {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        written(&|out| Form::Sasl2.write_challenge(out, b"r=1")),
        "<challenge xmlns='urn:xmpp:sasl:2'>cj0x</challenge>"
    );
    assert_eq!(
        written(&|out| Failure::with_text(SaslCondition::TemporaryAuthFailure, "later").write(Form::Sasl2, out)),
        "<failure xmlns='urn:xmpp:sasl:2'><temporary-auth-failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>\
         <text>later</text></failure>"
    );
    assert_eq!(
        written(&|out| open_success2(out, b"v=abc", "a@b/c")),
        "<success xmlns='urn:xmpp:sasl:2'><additional-data>dj1hYmM=</additional-data>\
         <authorization-identifier>a@b/c</authorization-identifier>"
    );
    assert!(!written(&|out| open_success2(out, b"", "a@b")).contains("additional-data"));
}

/// XEP-0388 2.4, XEP-0484 3.4, 4.1: a token requires `<fast/>`, an initial response, and a client
/// with an id.
#[test]
fn xep0484_3_4_what_a_token_needs_beside_it() {
    let fast = Some(Fast { count: None, invalidate: false });
    let payload = BASE64.encode([b"romeo\0".as_slice(), &[1; 32]].concat());
    let begun = |payload: Option<&str>, fast, agent| {
        begin_with("HT-SHA-256-NONE", payload, &terms(), fast, agent).map_err(|failure| failure.condition)
    };
    assert!(matches!(begun(Some(&payload), fast, Some([1; 16])), Ok(Begun::Token(_))));
    assert_eq!(begun(Some(&payload), None, Some([1; 16])).unwrap_err(), SaslCondition::InvalidMechanism);
    assert_eq!(begun(Some(&payload), fast, None).unwrap_err(), SaslCondition::MalformedRequest);
    assert_eq!(begun(None, fast, Some([1; 16])).unwrap_err(), SaslCondition::MalformedRequest);
    // Not in the form that cannot have `<fast/>`.
    let failure = begin("HT-SHA-256-NONE", &payload, &terms()).unwrap_err();
    assert_eq!(failure.condition, SaslCondition::InvalidMechanism);
    // An initial response may be empty, or omitted.
    assert!(matches!(begin_with("PLAIN", None, &terms(), None, None), Ok(Begun::Initial(_))));
    assert!(begin_with("PLAIN", Some(""), &terms(), None, None).is_err());
}

#[test]
fn no_secret_is_in_the_debug_form() {
    let attempt = plain("\0juliet\0r0m30myr0m30").unwrap();
    assert!(!format!("{attempt:?}").contains("r0m30"));
    let step = attempt.account(None, None, &decoy(), &PlainCache::new(&[1; 32], 1));
    assert!(!format!("{step:?}").contains("r0m30"));
}

/// Messages that reach every branch.
fn messages() -> impl Strategy<Value = String> {
    prop_oneof![
        "[nyp](=tls-exporter|=[a-z]{0,3})?,(a=[a-z@=2C]{0,6})?,(m=x,)?n=[a-zA-Z=23CD\u{e9}]{0,8},r=[ -~]{0,8}(,[a-z]=[a-z]{0,3})?",
        "c=(biws|[a-zA-Z0-9+/=]{0,8}),r=[ -~]{0,8},p=[a-zA-Z0-9+/=]{0,44}",
        "[a-z@.]{0,6}\0[a-zA-Z\u{fb01}]{0,6}\0\\PC{0,6}",
        ".{0,40}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// No input causes a panic, and only the right proof leads to a login.
    #[test]
    fn no_input_panics(
        which in 0..Mechanism::PASSWORDS.len(), first in messages(), last in messages(), raw in any::<bool>(),
    ) {
        let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: None };
        let terms = Terms { secured: Some(&bindings), ..terms() };
        let encode = |text: &str| if raw { text.to_owned() } else { BASE64.encode(text) };
        let credentials = Credentials::decoy(&SecretKey::new(&[9; 32]), "juliet", 1);
        match begin(Mechanism::PASSWORDS[which].name(), &encode(&first), &terms) {
            Ok(Begun::Scram(state)) => {
                let (state, challenge) = state.account(Some(&credentials), &decoy(), &[0; NONCE_BYTES]);
                prop_assert!(challenge.starts_with("r="));
                prop_assert!(state.response(&encode(&last)).is_err());
            }
            Ok(Begun::Plain(attempt)) => {
                let cache = PlainCache::new(&[0; 32], 1);
                match attempt.account(Some(&credentials), None, &decoy(), &cache) {
                    PlainStep::Derive(job, state) => prop_assert!(state.verify(job.run()).is_err()),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            Ok(Begun::Initial(state)) => {
                let _ = state.response(&encode(&last), &terms);
            }
            Ok(Begun::Token(_)) => prop_assert!(false, "a token without <fast/>"),
            Ok(Begun::External(_)) => prop_assert!(false, "no certificate was shown"),
            Err(failure) => prop_assert!(SaslCondition::ALL.contains(&failure.condition)),
        }
    }
}
