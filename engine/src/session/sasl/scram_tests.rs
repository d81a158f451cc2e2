use super::*;
use crate::session::sasl::{Allowed, Begun, begin};

const NO_PLAIN: Allowed =
    Allowed { plain: false, hashes: crate::store::hash::Hashes::ALL, external: false, tokens: true };

const DOMAIN: &str = "example.net";

fn bindings() -> ChannelBindings {
    ChannelBindings { exporter: Some([9; 32]), server_end_point: Some([5; 32].into()) }
}

fn terms(secured: Option<&ChannelBindings>) -> Terms<'_> {
    Terms { domain: DOMAIN, secured, allowed: NO_PLAIN, certificate: None }
}

fn decoy() -> Decoy {
    Decoy::new(&[4; 32], 4096)
}

fn start(mechanism: &str, message: &str, secured: Option<&ChannelBindings>) -> Result<ExpectAccount, Failure> {
    match begin(mechanism, &BASE64.encode(message), &terms(secured))? {
        Begun::Scram(state) => Ok(state),
        other => panic!("{other:?}"),
    }
}

/// The client's half, implemented independently from RFC 5802 3: its final message, and the answer
/// that it expects.
fn client_final(
    hash: HashKind,
    password: &str,
    first_bare: &str,
    server_first: &str,
    binding: &[u8],
) -> (String, String) {
    let mut fields = server_first.split(',').map(|field| &field[2..]);
    let (nonce, salt, iterations) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
    let salted = hash.salted_password(password, &BASE64.decode(salt).unwrap(), iterations.parse().unwrap());
    let client_key = hash.hmac(salted.as_bytes(), &[b"Client Key"]);
    let without_proof = format!("c={},r={nonce}", BASE64.encode(binding));
    let auth_message = format!("{first_bare},{server_first},{without_proof}");
    let signature = hash.hmac(hash.digest(&[client_key.as_bytes()]).as_bytes(), &[auth_message.as_bytes()]);
    let server_key = hash.hmac(salted.as_bytes(), &[b"Server Key"]);
    let expected = hash.hmac(server_key.as_bytes(), &[auth_message.as_bytes()]);
    let proof = BASE64.encode(client_key.xor(&signature).as_bytes());
    (format!("{without_proof},p={proof}"), format!("v={}", BASE64.encode(expected.as_bytes())))
}

fn account(password: &str) -> Credentials {
    Credentials::derive(password, 4096, b"a salt of some 20 bytes", 0).unwrap()
}

/// One complete login; the client binds with `data` under the header `gs2`.
fn login(
    mechanism: &str,
    gs2: &str,
    data: &[u8],
    password: &str,
    found: Option<&Credentials>,
    secured: Option<&ChannelBindings>,
) -> Result<Authenticated, Failure> {
    let bare = "n=romeo,r=rOprNGfwEbeRWgbNEkqO";
    let state = start(mechanism, &format!("{gs2}{bare}"), secured)?;
    assert_eq!(state.bare(), "romeo@example.net");
    let (state, server_first) = state.account(found, &decoy(), &[7; NONCE_BYTES]);
    let hash = Mechanism::from_name(mechanism).and_then(Mechanism::hash).unwrap();
    let binding = [gs2.as_bytes(), data].concat();
    let (message, expected) = client_final(hash, password, bare, &server_first, &binding);
    let (authenticated, server_final) = state.response(&BASE64.encode(message))?;
    assert_eq!(server_final, expected);
    assert_eq!(authenticated.mechanism().name(), mechanism);
    Ok(authenticated)
}

/// RFC 5802 5 and RFC 7677 3: the complete exchanges, byte by byte.
#[test]
fn rfc5802_5_and_rfc7677_3_exchanges() {
    struct Exchange {
        mechanism: &'static str,
        salt: &'static str,
        server_nonce: &'static str,
        messages: [&'static str; 4],
    }
    let exchanges = [
        Exchange {
            mechanism: "SCRAM-SHA-1",
            salt: "QSXCR+Q6sek8bf92",
            server_nonce: "3rfcNHYJY1ZVvWVs7j",
            messages: [
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
                "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
            ],
        },
        Exchange {
            mechanism: "SCRAM-SHA-256",
            salt: "W22ZaJ0SNY7soEsUEjb6gQ==",
            server_nonce: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            messages: [
                "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                 p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ],
        },
        // The example of draft-melnikov-scram-sha-512, recomputed with Python's hashlib.
        Exchange {
            mechanism: "SCRAM-SHA-512",
            salt: "Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=",
            server_nonce: "02431b08-2f89-4bad-a4e6-80c0564ec865",
            messages: [
                "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
                "r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,\
                 s=Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=,i=4096",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,\
                 p=Hc5yec3NmCD7t+kFRw4/3yD6/F3SQHc7AVYschRja+Bc3sbdjlA0eH1OjJc0DD4ghn1tnXN5/Wr6qm9xmaHt4A==",
                "v=BQuhnKHqYDwQWS5jAw4sZed+C9KFUALsbrq81bB0mh+bcUUbbMPNNmBIupnS2AmyyDnG5CTBQtkjJ9kyY4kzmw==",
            ],
        },
    ];
    for Exchange {
        mechanism,
        salt,
        server_nonce,
        messages: [client_first, server_first, client_final, server_final],
    } in exchanges
    {
        let credentials = Credentials::derive("pencil", 4096, &BASE64.decode(salt).unwrap(), 0).unwrap();
        // The exchanges of the RFCs do not include XEP-0474.
        let state = ExpectAccount { offer: "".into(), ..start(mechanism, client_first, None).unwrap() };
        let (state, challenge) = state.answer(Some(&credentials), &decoy(), server_nonce);
        assert_eq!(challenge, server_first);
        let (authenticated, success) = state.response(&BASE64.encode(client_final)).unwrap();
        assert_eq!((authenticated.bare(), &*success), ("user@example.net", server_final));
    }
}

/// RFC 5802 6, RFC 9266, RFC 5929: each mechanism with each binding, right and wrong.
#[test]
fn rfc5802_6_channel_binding() {
    let bindings = bindings();
    let (secured, end_point_only) =
        (Some(&bindings), ChannelBindings { exporter: None, server_end_point: bindings.server_end_point.clone() });
    let credentials = account("pencil");
    let found = Some(&credentials);
    let failed = |mechanism, gs2, data: &[u8], secured| {
        login(mechanism, gs2, data, "pencil", found, secured).unwrap_err().scram.unwrap()
    };
    for mechanism in ["SCRAM-SHA-512-PLUS", "SCRAM-SHA-256-PLUS", "SCRAM-SHA-1-PLUS"] {
        for (gs2, data) in [("p=tls-exporter,,", [9; 32]), ("p=tls-server-end-point,,", [5; 32])] {
            login(mechanism, gs2, &data, "pencil", found, secured).unwrap();
            // Another channel, a truncated one, and none.
            assert_eq!(failed(mechanism, gs2, &[8; 32], secured), ScramError::ChannelBindingsDontMatch);
            assert_eq!(failed(mechanism, gs2, &data[..31], secured), ScramError::ChannelBindingsDontMatch);
            assert_eq!(failed(mechanism, gs2, &[], secured), ScramError::ChannelBindingsDontMatch);
        }
        let unsupported = ScramError::UnsupportedChannelBindingType;
        assert_eq!(failed(mechanism, "p=tls-unique,,", &[1; 12], secured), unsupported);
        assert_eq!(failed(mechanism, "p=tls-exporter,,", &[9; 32], Some(&end_point_only)), unsupported);
        assert_eq!(failed(mechanism, "n,,", &[], secured), ScramError::OtherError);
        assert_eq!(failed(mechanism, "y,,", &[], secured), ScramError::OtherError);
        // Not offered if the channel has no binding.
        for secured in [None, Some(&ChannelBindings::default())] {
            let failure = login(mechanism, "p=tls-exporter,,", &[9; 32], "pencil", found, secured).unwrap_err();
            assert_eq!(failure, Failure::of(SaslCondition::InvalidMechanism));
        }
    }
    for mechanism in ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1"] {
        login(mechanism, "n,,", &[], "pencil", found, secured).unwrap();
        login(mechanism, "n,,", &[], "pencil", found, None).unwrap();
        // `y` means that the client saw no -PLUS: correct without TLS, and a modified offer with
        // it.
        login(mechanism, "y,,", &[], "pencil", found, None).unwrap();
        assert_eq!(failed(mechanism, "y,,", &[], secured), ScramError::ServerDoesSupportChannelBinding);
        assert_eq!(failed(mechanism, "p=tls-exporter,,", &[9; 32], secured), ScramError::ChannelBindingNotSupported);
        // The flag that was sent first must be the one that is signed.
        let state = start(mechanism, "n,,n=romeo,r=abc", None).unwrap();
        let (state, server_first) = state.account(found, &decoy(), &[7; NONCE_BYTES]);
        let hash = Mechanism::from_name(mechanism).and_then(Mechanism::hash).unwrap();
        let (message, _) = client_final(hash, "pencil", "n=romeo,r=abc", &server_first, b"y,,");
        let failure = state.response(&BASE64.encode(message)).unwrap_err();
        assert_eq!(failure.scram, Some(ScramError::ChannelBindingsDontMatch));
    }
}

/// RFC 6120 6.5.10, 13.11: a wrong password and a name without an account are indistinguishable.
#[test]
fn rfc6120_13_11_names_cannot_be_probed() {
    let credentials = account("pencil");
    for mechanism in ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1"] {
        let wrong = login(mechanism, "n,,", &[], "pen", Some(&credentials), None).unwrap_err();
        let unknown = login(mechanism, "n,,", &[], "pencil", None, None).unwrap_err();
        assert_eq!(wrong, unknown);
        assert_eq!((wrong.condition, wrong.text), (SaslCondition::NotAuthorized, None));
        let challenge = |decoy: &Decoy, entropy| {
            start(mechanism, "n,,n=ghost,r=abc", None).unwrap().account(None, decoy, &[entropy; NONCE_BYTES]).1
        };
        let tail = |text: String| text.split_once(",s=").unwrap().1.to_owned();
        assert_eq!(tail(challenge(&decoy(), 1)), tail(challenge(&decoy(), 2)), "the salt of a name stays");
        assert_ne!(tail(challenge(&decoy(), 1)), tail(challenge(&Decoy::new(&[6; 32], 4096), 1)));
        assert!(challenge(&decoy(), 1).contains(",i=4096,h="));
    }
}

/// XEP-0480, RFC 6120 13.11: an account without keys of a hash function, one with them, and a name
/// without an account are indistinguishable by them.
#[test]
fn xep0480_what_an_account_lacks_tells_nothing() {
    let all = account("pencil");
    let older = [HashKind::Sha1, HashKind::Sha256].map(|kind| all.keys(kind).unwrap().clone());
    let lacks = Credentials::of_keys(older, 0).unwrap();
    let fails = |found, password| login("SCRAM-SHA-512", "n,,", &[], password, found, None).unwrap_err();
    let unknown = fails(None, "pencil");
    assert_eq!(fails(Some(&lacks), "pencil"), unknown);
    assert_eq!(fails(Some(&all), "pen"), unknown);
    let challenge = |found| {
        let state = start("SCRAM-SHA-512", "n,,n=romeo,r=abc", None).unwrap();
        state.account(found, &decoy(), &[7; NONCE_BYTES]).1
    };
    assert_eq!(challenge(Some(&lacks)), challenge(None), "the made-up salt of the name");
    assert!(login("SCRAM-SHA-256", "n,,", &[], "pencil", Some(&lacks), None).is_ok());
}

/// RFC 6120 6.5.2: only a client with the right password learns that the account is disabled.
#[test]
fn rfc6120_6_5_2_a_disabled_account() {
    let mut credentials = account("pencil");
    credentials.set_standing(crate::store::account::Standing::Suspended);
    let fails =
        |password| login("SCRAM-SHA-256", "n,,", &[], password, Some(&credentials), None).unwrap_err().condition;
    assert_eq!(fails("pencil"), SaslCondition::AccountDisabled);
    assert_eq!(fails("pen"), SaslCondition::NotAuthorized);
}

/// RFC 5802 5.1, 7: invalid first messages.
#[test]
fn rfc5802_7_bad_first_messages() {
    use ScramError::{ExtensionsNotSupported, InvalidUsernameEncoding, OtherError};
    let long = format!("n,,n=romeo,r={}", "x".repeat(257));
    let table = [
        ("", OtherError),
        ("n", OtherError),
        ("n,", OtherError),
        ("n,,", OtherError),
        ("x,,n=romeo,r=abc", OtherError),
        ("nn,,n=romeo,r=abc", OtherError),
        ("p,,n=romeo,r=abc", OtherError),
        ("n,b=x,n=romeo,r=abc", OtherError),
        ("n,,r=abc,n=romeo", OtherError),
        ("n,,n=romeo", OtherError),
        ("n,,n=romeo,r=", OtherError),
        ("n,,n=romeo,r=a b", OtherError),
        ("n,,n=romeo,r=a\u{e9}", OtherError),
        (&long, OtherError),
        ("n,,m=x,n=romeo,r=abc", ExtensionsNotSupported),
        ("n,,n=romeo,r=abc,m=x", ExtensionsNotSupported),
        ("n,,n=romeo,r=abc,nonsense", ExtensionsNotSupported),
        ("n,,n=,r=abc", InvalidUsernameEncoding),
        ("n,,n=ro=meo,r=abc", InvalidUsernameEncoding),
        ("n,,n=romeo=,r=abc", InvalidUsernameEncoding),
        ("n,,n=romeo=2c,r=abc", InvalidUsernameEncoding),
        ("n,a=,n=romeo,r=abc", InvalidUsernameEncoding),
        ("n,,n=ro meo,r=abc", InvalidUsernameEncoding),
        ("n,,n=romeo@example.net,r=abc", InvalidUsernameEncoding),
    ];
    for (message, error) in table {
        // An empty message has its own form in base64; see RFC 6120 6.4.2.
        let payload = if message.is_empty() { "=".to_owned() } else { BASE64.encode(message) };
        let failure = begin("SCRAM-SHA-1", &payload, &terms(None)).unwrap_err();
        assert_eq!(failure, Failure::from(error), "{message:?}");
    }
}

/// RFC 5802 5.1: names are escaped and prepared; RFC 6120 6.3.8: the authorization identity.
#[test]
fn rfc5802_5_1_names() {
    let table = [
        ("n,,n=Romeo,r=abc", "romeo"),
        ("n,,n=ro=2Cmeo=3D,r=abc", "ro,meo="),
        ("n,,n==3D2C,r=abc", "=2c"),
        ("n,,n=\u{3a3},r=abc", "\u{3c3}"),
        ("n,a=romeo@example.net,n=romeo,r=abc", "romeo"),
        ("n,a=ROMEO@Example.NET,n=romeo,r=abc,x=ignored", "romeo"),
        ("n,a=ro=2Cmeo@example.net,n=ro=2Cmeo,r=abc", "ro,meo"),
    ];
    for (message, name) in table {
        assert_eq!(start("SCRAM-SHA-256", message, None).unwrap().bare(), format!("{name}@{DOMAIN}"), "{message:?}");
    }
    for authzid in ["juliet@example.net", "romeo@example.com", "romeo", "romeo@example.net/phone", "@"] {
        let failure = start("SCRAM-SHA-256", &format!("n,a={authzid},n=romeo,r=abc"), None).unwrap_err();
        assert_eq!(failure, Failure::of(SaslCondition::InvalidAuthzid), "{authzid:?}");
    }
}

/// RFC 5802 7: invalid final messages. `N` represents the whole nonce.
#[test]
fn rfc5802_7_bad_final_messages() {
    use ScramError::{ChannelBindingsDontMatch, ExtensionsNotSupported, InvalidEncoding, InvalidProof, OtherError};
    let proof = BASE64.encode([1; 20]);
    let table = [
        (String::new(), OtherError),
        ("c=biws,r=N".into(), OtherError),
        ("c=biws,r=N,p=".into(), InvalidEncoding),
        ("c=biws,r=N,p=AAAA".into(), InvalidEncoding),
        (format!("c=biws,r=N,p={proof}="), InvalidEncoding),
        (format!("c=biws,r=N,p= {proof}"), InvalidEncoding),
        (format!("c=biws,r=N,p={proof}"), InvalidProof),
        (format!("c=biws,r=N,x=ignored,p={proof}"), InvalidProof),
        (format!("c=biws,r=Nx,p={proof}"), OtherError),
        (format!("c=biws,r=,p={proof}"), OtherError),
        (format!("c=eSws,r=N,p={proof}"), ChannelBindingsDontMatch),
        (format!("c=,r=N,p={proof}"), ChannelBindingsDontMatch),
        (format!("r=N,c=biws,p={proof}"), OtherError),
        (format!("c=biws,r=N,m=x,p={proof}"), ExtensionsNotSupported),
        (format!("c=biws,r=N,nonsense,p={proof}"), ExtensionsNotSupported),
    ];
    let credentials = account("pencil");
    for (message, error) in table {
        let state = start("SCRAM-SHA-1", "n,,n=romeo,r=abc", None).unwrap();
        let (state, server_first) = state.account(Some(&credentials), &decoy(), &[7; NONCE_BYTES]);
        let nonce = server_first[2..].split(',').next().unwrap();
        let payload = if message.is_empty() { String::new() } else { BASE64.encode(message.replace('N', nonce)) };
        assert_eq!(state.response(&payload).unwrap_err(), Failure::from(error), "{message:?}");
    }
}

/// A flipped bit anywhere in the signed text or in the proof makes it invalid.
#[test]
fn rfc5802_3_every_bit_is_signed() {
    let credentials = account("pencil");
    let fresh = || {
        let state = start("SCRAM-SHA-256", "n,,n=romeo,r=abc", None).unwrap();
        state.account(Some(&credentials), &decoy(), &[7; NONCE_BYTES])
    };
    let (state, server_first) = fresh();
    let (message, _) = client_final(HashKind::Sha256, "pencil", "n=romeo,r=abc", &server_first, b"n,,");
    assert!(state.response(&BASE64.encode(&message)).is_ok());
    for at in 0..message.len() {
        for bit in 0..8 {
            let mut bytes = message.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            assert!(fresh().0.response(&BASE64.encode(bytes)).is_err(), "byte {at}, bit {bit}");
        }
    }
}

/// XEP-0474 5.1: the challenge has the hash of the offer, which is signed with everything else.
#[test]
fn xep0474_5_1_the_challenge_tells_what_was_offered() {
    let (credentials, bindings) = (account("pencil"), bindings());
    let challenge = |secured| {
        let state = start("SCRAM-SHA-256", "n,,n=romeo,r=abc", secured).unwrap();
        state.account(Some(&credentials), &decoy(), &[7; NONCE_BYTES])
    };
    let (state, server_first) = challenge(Some(&bindings));
    let told = server_first.rsplit_once(",h=").unwrap().1;
    assert_eq!(told, offer_hash(HashKind::Sha256, Some(&bindings), NO_PLAIN));
    assert_ne!(told, challenge(None).1.rsplit_once(",h=").unwrap().1, "nothing to bind to was offered");
    // The offer and its hash were modified in transit: the client's signature does not match.
    let changed = server_first.replace(told, &offer_hash(HashKind::Sha256, None, NO_PLAIN));
    let (message, _) = client_final(HashKind::Sha256, "pencil", "n=romeo,r=abc", &changed, b"n,,");
    assert_eq!(state.response(&BASE64.encode(message)).unwrap_err(), Failure::from(ScramError::InvalidProof));
}
