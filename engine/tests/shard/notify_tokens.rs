//! Tokens for channels as data: which are valid, and every known way to make a reader accept what
//! no issuer has signed (RFC 8725 2 and 3).

use throng_engine::limits::{
    NOTIFY_JWT_BYTES_MAX, NOTIFY_JWT_JTI_BYTES_MAX, NOTIFY_JWT_KEYS_MAX, NOTIFY_JWT_KID_BYTES_MAX,
    NOTIFY_JWT_PATTERNS_MAX,
};
use throng_engine::web::access::key::Keys;
use throng_engine::web::access::{AHEAD_S, Access, Act, Fault, Grant};

use crate::issuer::{NOW_S, SECRET, Signer, X, Y, access, decode, encode, keys, mac, minute};

fn take(access: &Access, token: &str) -> Result<Grant, Fault> {
    access.grant(token, NOW_S, || Ok(()))
}

/// A token is refused before anything is verified, with this message.
#[track_caller]
fn cheaply(access: &Access, token: &str, words: &str) {
    let refused = access.grant(token, NOW_S, || -> Result<(), Fault> { panic!("a signature is verified: {token}") });
    let text = refused.expect_err("it must not count").text();
    assert!(text.contains(words), "{text}");
}

const EXP: &str = "\"exp\":1700000060";

#[test]
fn the_examples_of_rfc_7515_are_read() {
    let payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let examples = [
        ("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
        (
            "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
    ];
    let access = access();
    for (header, signature) in examples {
        let token = format!("{header}.{payload}.{signature}");
        let grant = access.grant(&token, 1_300_819_379, || Ok::<_, Fault>(())).expect("RFC 7515 A.1, A.3");
        assert_eq!(grant.expires_s(), 1_300_819_380);
        assert_eq!(access.grant(&token, 1_300_819_380, || Ok(())), Err(Fault::Expired));
    }
}

#[test]
fn a_token_grants_what_it_names_and_nothing_else() {
    let claims =
        format!("{EXP},\"publish\":[\"a\",\"own.*\"],\"subscribe\":[\"*\"],\"more\":{{\"x\":[1,null,true,-2.5e3]}}");
    for signer in Signer::ALL {
        let grant = take(&access(), &signer.token(&claims)).expect("a good token");
        for (channel, publishes) in
            [("a", true), ("ab", false), ("own.", true), ("own.x", true), ("own", false), ("A", false)]
        {
            assert_eq!(grant.covers(Act::Publish, channel), publishes, "{signer:?}: {channel}");
            assert!(grant.covers(Act::Subscribe, channel));
        }
    }
    let nothing = take(&access(), &minute("")).expect("a good token");
    assert!(!nothing.covers(Act::Publish, "a") && !nothing.covers(Act::Subscribe, "a"));
    // RFC 9864 names the curve.
    let newer = Signer::Ed25519.sign("{\"alg\":\"Ed25519\"}", &format!("{{{EXP}}}"));
    assert!(take(&access(), &newer).is_ok());
}

/// RFC 8725 3.1, 3.2.
#[test]
fn a_token_without_a_signature_does_not_count() {
    for name in ["none", "None", "NONE", "nOnE", "", "HS384", "RS256", "hs256", "ES256K", "HS256 "] {
        let unsigned = format!("{}.{}.", encode(format!("{{\"alg\":\"{name}\"}}")), encode(format!("{{{EXP}}}")));
        cheaply(&access(), &unsigned, "not HS256");
        cheaply(&access(), &Signer::Hs256.sign(&format!("{{\"alg\":\"{name}\"}}"), &format!("{{{EXP}}}")), "not HS256");
    }
    for header in ["{}", "{\"alg\":null}", "{\"alg\":[\"HS256\"]}", "{\"alg\":256}"] {
        cheaply(&access(), &Signer::Hs256.sign(header, &format!("{{{EXP}}}")), "not HS256");
    }
    for signer in Signer::ALL {
        let token = signer.token(EXP);
        let bare = &token[..=token.rfind('.').unwrap()];
        assert_eq!(take(&access(), bare), Err(Fault::Signature), "{signer:?}");
    }
}

/// RFC 8725 2.1: a public key must not be usable as a secret.
#[test]
fn a_public_key_is_no_secret() {
    for signer in [Signer::Es256, Signer::Ed25519] {
        let only = Access { keys: keys(&[signer.jwk("")]), ahead_s_max: 86_400, ..Access::default() };
        let jwk = signer.jwk("");
        let forms =
            [signer.public(), signer.public()[1..].to_vec(), encode(signer.public()).into_bytes(), jwk.into_bytes()];
        for secret in forms {
            let signed = format!("{}.{}", encode("{\"alg\":\"HS256\"}"), encode(format!("{{{EXP}}}")));
            let token = format!("{signed}.{}", encode(mac(&secret, &signed)));
            cheaply(&only, &token, "no key for the algorithm");
            assert_eq!(take(&access(), &token), Err(Fault::Signature), "nor with a secret of another one");
        }
    }
}

/// RFC 8725 3.1: a key is valid for one algorithm, whatever a token declares.
#[test]
fn a_key_of_another_kind_verifies_nothing() {
    for signer in Signer::ALL {
        for claimed in Signer::ALL.into_iter().filter(|claimed| claimed.name() != signer.name()) {
            let header = format!("{{\"alg\":\"{}\"}}", claimed.name());
            let token = signer.sign(&header, &format!("{{{EXP}}}"));
            assert_eq!(take(&access(), &token), Err(Fault::Signature), "{signer:?} as {claimed:?}");
            let only = Access { keys: keys(&[signer.jwk("")]), ahead_s_max: 86_400, ..Access::default() };
            cheaply(&only, &token, "no key for the algorithm");
        }
    }
    // Not even with the kid of a key for another algorithm.
    let named = Access {
        keys: keys(&[Signer::Hs256.jwk(",\"kid\":\"a\""), Signer::Es256.jwk(",\"kid\":\"b\"")]),
        ahead_s_max: 86_400,
        ..Access::default()
    };
    cheaply(
        &named,
        &Signer::Hs256.sign("{\"alg\":\"HS256\",\"kid\":\"b\"}", &format!("{{{EXP}}}")),
        "no key with the token's kid",
    );
}

#[test]
fn a_changed_token_does_not_count() {
    for signer in Signer::ALL {
        let token = signer.token(&format!("{EXP},\"publish\":[\"a\"]"));
        assert!(take(&access(), &token).is_ok());
        let (signed, signature) = token.rsplit_once('.').unwrap();
        for at in 0..8 {
            let mut bytes = decode(signature);
            let place = at * bytes.len() / 8;
            bytes[place] ^= 1 << at;
            assert_eq!(take(&access(), &format!("{signed}.{}", encode(bytes))), Err(Fault::Signature), "{signer:?}");
        }
        let other = signer.token(&format!("{EXP},\"publish\":[\"b\"]"));
        let mixed = format!("{}.{}", other.rsplit_once('.').unwrap().0, signature);
        assert_eq!(take(&access(), &mixed), Err(Fault::Signature), "{signer:?}");
        // Signatures of all zeros (RFC 8725 2.2 and CVE-2022-21449), too short and too long.
        for length in [0, 1, 31, 32, 63, 64, 65, 72, 256] {
            let zeros = format!("{signed}.{}", encode(vec![0; length]));
            assert_eq!(take(&access(), &zeros), Err(Fault::Signature), "{signer:?}, {length} bytes");
        }
    }
}

#[test]
fn when_a_token_counts() {
    let claims = |claims: &str| Signer::Hs256.token(claims);
    let access = access();
    cheaply(&access, &claims("\"publish\":[\"*\"]"), "no expiry");
    for past in ["1699999999", "1700000000", "1700000000.9", "0", "-1", "-1e300"] {
        cheaply(&access, &claims(&format!("\"exp\":{past}")), "has expired");
    }
    for far in ["1700086401", "1e18", "18446744073709551615", "18446744073709551616", "1e308"] {
        cheaply(&access, &claims(&format!("\"exp\":{far}")), "further ahead");
    }
    for none in ["\"1700000060\"", "null", "true", "[1700000060]", "{}"] {
        cheaply(&access, &claims(&format!("\"exp\":{none}")), "exp of the token is not a time");
    }
    cheaply(&access, &claims("\"exp\":1e400"), "not a JSON object");
    assert!(take(&access, &claims("\"exp\":1700086400")).is_ok(), "exactly a day");
    assert!(take(&access, &claims("\"exp\":1700000001.5")).is_ok());
    let from = |begins: &str| claims(&format!("{EXP},\"nbf\":{begins}"));
    assert!(take(&access, &from(&(NOW_S + AHEAD_S).to_string())).is_ok(), "the clock of the issuer is ahead");
    cheaply(&access, &from(&(NOW_S + AHEAD_S + 1).to_string()), "not valid yet");
    cheaply(&access, &from("1e300"), "not valid yet");
    cheaply(&access, &from("\"0\""), "nbf of the token is not a time");
}

/// RFC 8725 3.8, 3.9.
#[test]
fn for_whom_and_by_whom_a_token_is() {
    let strict = Access { issuer: Some("me".into()), audience: Some("throng".into()), ..access() };
    let with = |claims: &str| Signer::Es256.token(&format!("{EXP},{claims}"));
    for good in ["\"aud\":\"throng\"", "\"aud\":[\"throng\"]", "\"aud\":[\"other\",\"throng\"]"] {
        assert!(take(&strict, &with(&format!("\"iss\":\"me\",{good}"))).is_ok(), "{good}");
    }
    for (claims, words) in [
        ("\"iss\":\"me\"", "(aud)"),
        ("\"iss\":\"me\",\"aud\":\"Throng\"", "(aud)"),
        ("\"iss\":\"me\",\"aud\":\"throng2\"", "(aud)"),
        ("\"iss\":\"me\",\"aud\":[]", "(aud)"),
        ("\"iss\":\"me\",\"aud\":[\"throng\",1]", "aud of the token must be"),
        ("\"iss\":\"me\",\"aud\":{\"throng\":1}", "aud of the token must be"),
        ("\"aud\":\"throng\"", "(iss)"),
        ("\"iss\":\"me2\",\"aud\":\"throng\"", "(iss)"),
        ("\"iss\":[\"me\"],\"aud\":\"throng\"", "must be strings"),
    ] {
        cheaply(&strict, &with(claims), words);
    }
    // RFC 7519 4.1.3: without a configured audience no name matches.
    cheaply(&access(), &with("\"aud\":\"throng\""), "notify_jwt_audience");
    assert!(take(&access(), &with("\"iss\":\"anybody\"")).is_ok());
}

/// RFC 8725 3.10: a `kid` is only compared, and never used as a file, query or address.
#[test]
fn a_kid_is_nothing_but_a_name() {
    let of = |jwks: &[String]| Access { keys: keys(jwks), ahead_s_max: 86_400, ..Access::default() };
    let old = SECRET.replace("AyM1", "ByM1");
    let two =
        of(&[Signer::Hs256.jwk(",\"kid\":\"new\""), format!("{{\"kty\":\"oct\",\"k\":\"{old}\",\"kid\":\"old\"}}")]);
    let by = |kid: &str| Signer::Hs256.sign(&format!("{{\"alg\":\"HS256\",\"kid\":{kid}}}"), &format!("{{{EXP}}}"));
    assert!(take(&two, &by("\"new\"")).is_ok());
    assert_eq!(take(&two, &by("\"old\"")), Err(Fault::Signature), "one key is tried, and no other");
    for kid in
        ["../../../../dev/null", "/dev/null", "new' OR '1'='1", "https://evil.example/jwks", "new\\u0000", "NEW", ""]
    {
        cheaply(&two, &by(&format!("\"{kid}\"")), "no key with the token's kid");
    }
    cheaply(&two, &by(&format!("\"{}\"", "a".repeat(NOTIFY_JWT_KID_BYTES_MAX + 1))), "longer than 128");
    for kid in ["1", "null", "[\"new\"]", "{}"] {
        cheaply(&two, &by(kid), "kid of the token is not a string");
    }
    cheaply(&two, &minute(""), "has no kid");
    // A key without a name is for tokens with any `kid` or none.
    let unnamed = of(&[Signer::Hs256.jwk("")]);
    assert!(take(&unnamed, &by("\"whatever\"")).is_ok() && take(&unnamed, &minute("")).is_ok());
    assert!(take(&of(&[Signer::Hs256.jwk(",\"kid\":\"new\"")]), &minute("")).is_ok(), "there is one");
}

/// RFC 7515 4.1.2 to 4.1.8: a key inside a token is the attacker's.
#[test]
fn keys_in_tokens_are_not_looked_at() {
    let only = Access { keys: keys(&[Signer::Es256.jwk("")]), ahead_s_max: 86_400, ..Access::default() };
    let own = Signer::Ed25519.jwk("");
    for more in [format!("\"jwk\":{own}"), "\"jku\":\"https://evil.example/\"".into(), "\"x5c\":[\"AAAA\"]".into()] {
        let header = format!("{{\"alg\":\"EdDSA\",{more}}}");
        cheaply(&only, &Signer::Ed25519.sign(&header, &format!("{{{EXP}}}")), "no key for the algorithm");
        let header = format!("{{\"alg\":\"ES256\",{more}}}");
        assert_eq!(take(&only, &Signer::Ed25519.sign(&header, &format!("{{{EXP}}}"))), Err(Fault::Signature));
        assert!(take(&only, &Signer::Es256.sign(&header, &format!("{{{EXP}}}"))).is_ok(), "they do no harm either");
    }
}

#[test]
fn headers_that_mean_something_else() {
    let with = |more: &str| Signer::Hs256.sign(&format!("{{\"alg\":\"HS256\",{more}}}"), &format!("{{{EXP}}}"));
    for crit in ["[\"exp\"]", "[]", "[\"b64\"]", "null", "\"alg\""] {
        cheaply(&access(), &with(&format!("\"crit\":{crit},\"exp\":1,\"b64\":false")), "crit");
    }
    for kind in ["\"dpop+jwt\"", "\"logout+jwt\"", "\"JWE\"", "1", "\"\""] {
        cheaply(&access(), &with(&format!("\"typ\":{kind}")), "(typ)");
    }
    for kind in ["JWT", "jwt", "at+jwt", "application/jwt", "application/at+JWT"] {
        assert!(take(&access(), &with(&format!("\"typ\":\"{kind}\""))).is_ok(), "{kind}");
    }
    cheaply(&access(), &with("\"cty\":\"JWT\""), "(cty)");
}

/// RFC 8725 2.4, 3.7; RFC 7519 4: with duplicate claims, one reader would use the first and another
/// the last.
#[test]
fn what_two_readers_could_read_in_two_ways_is_refused() {
    let claims = |claims: &str| Signer::Hs256.token(claims);
    cheaply(&access(), &claims(&format!("{EXP},\"publish\":[],\"publish\":[\"*\"]")), "duplicate name");
    cheaply(&access(), &claims(&format!("{EXP},\"exp\":1700000050")), "duplicate name");
    cheaply(&access(), &claims(&format!("{EXP},\"e\\u0078p\":1700000050")), "duplicate name");
    cheaply(&access(), &claims(&format!("{EXP},\"x\":{{\"y\":1,\"y\":2}}")), "duplicate name");
    let header = "{\"alg\":\"none\",\"alg\":\"HS256\"}";
    cheaply(&access(), &Signer::Hs256.sign(header, &format!("{{{EXP}}}")), "duplicate name");
    for text in [
        "",
        "{",
        "[]",
        "1",
        "\"exp\"",
        "{\"exp\":1700000060,}",
        "{\"exp\":1700000060}x",
        "{'exp':1}",
        "\u{feff}{}",
        "{\"a\":NaN}",
    ] {
        cheaply(&access(), &Signer::Hs256.sign("{\"alg\":\"HS256\"}", text), "claims of the token");
        cheaply(&access(), &Signer::Hs256.sign(text, &format!("{{{EXP}}}")), "header of the token");
    }
    let binary = format!("{}.{}.", encode("{\"alg\":\"HS256\"}"), encode(b"{\"exp\":1700000060,\"a\":\"\xff\"}"));
    cheaply(&access(), &binary, "claims of the token");
    let deep = format!("{EXP},\"x\":{}{}", "[".repeat(1_000), "]".repeat(1_000));
    cheaply(&access(), &claims(&deep), "claims of the token");
}

#[test]
fn what_is_no_base64url_is_refused() {
    let token = minute("");
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    for bad in [
        format!("{header}="),
        format!("{header}=="),
        format!("{header} "),
        format!("+{header}"),
        format!("/{header}"),
        format!("\n{header}"),
        "\u{e9}".into(),
    ] {
        cheaply(&access(), &format!("{bad}.{claims}.{signature}"), "not valid Base64url");
        cheaply(&access(), &format!("{header}.{bad}.{signature}"), "not valid Base64url");
        cheaply(&access(), &format!("{header}.{claims}.{bad}"), "not valid Base64url");
    }
    // The unused bits of the last character must be zero: otherwise a token has several forms.
    let last = signature.chars().last().unwrap();
    let next = char::from(last as u8 + 1);
    assert!(next.is_ascii_alphanumeric(), "{last}");
    cheaply(&access(), &format!("{signed}.{}{next}", &signature[..signature.len() - 1]), "not valid Base64url");
    for parts in ["", ".", "a.b", "a.b.c.d", "a.b.c.d.e", &format!("{token}.")] {
        cheaply(&access(), parts, "three parts");
    }
    cheaply(&access(), "..", "header of the token");
}

#[test]
fn what_a_token_may_be_is_bounded() {
    let long = |bytes: usize| minute(&format!(",\"x\":\"{}\"", "x".repeat(bytes)));
    let fits = (0..4_096).rev().step_by(3).find(|bytes| long(*bytes).len() <= NOTIFY_JWT_BYTES_MAX).expect("one fits");
    assert!(take(&access(), &long(fits)).is_ok());
    cheaply(&access(), &long(fits + 6), "longer than 4,096");
    cheaply(&access(), &"a.".repeat(1 << 20), "longer than 4,096");
    let list = |count: usize| vec!["\"a*\""; count].join(",");
    assert!(take(&access(), &minute(&format!(",\"publish\":[{}]", list(NOTIFY_JWT_PATTERNS_MAX)))).is_ok());
    cheaply(&access(), &minute(&format!(",\"publish\":[{}]", list(NOTIFY_JWT_PATTERNS_MAX + 1))), "up to 64");
    cheaply(&access(), &minute(&format!(",\"subscribe\":[{}]", list(NOTIFY_JWT_PATTERNS_MAX + 1))), "up to 64");
    cheaply(&access(), &minute(&format!(",\"subscribe\":[{}]", list(10_000))), "longer than 4,096");
    for bad in ["a*b", "**", "*a", "a/b", "a b", "", "\\u00e9", "a\\u0000", "a,b", "a?b", &"a".repeat(129)] {
        cheaply(&access(), &minute(&format!(",\"subscribe\":[\"{bad}\"]")), "a * only as the last");
    }
    for bad in ["\"*\"", "{\"*\":1}", "null", "1"] {
        cheaply(&access(), &minute(&format!(",\"subscribe\":{bad}")), "lists of channels");
    }
    cheaply(&access(), &minute(",\"subscribe\":[1]"), "a * only as the last");
    cheaply(
        &access(),
        &minute(&format!(",\"jti\":\"{}\"", "a".repeat(NOTIFY_JWT_JTI_BYTES_MAX + 1))),
        "longer than 128",
    );
}

#[test]
fn a_token_or_a_key_is_taken_back() {
    let (mut access, token) = (access(), minute(",\"jti\":\"one\""));
    let grant = take(&access, &token).expect("a good token");
    assert!(access.holds(&grant, NOW_S + 59) && !access.holds(&grant, NOW_S + 60));
    access.revoked.insert("one".into());
    assert!(!access.holds(&grant, NOW_S));
    cheaply(&access, &token, "revoked");
    assert!(take(&access, &minute(",\"jti\":\"two\"")).is_ok() && take(&access, &minute("")).is_ok());
    // Another key with the same name is another key.
    access.revoked.clear();
    assert!(access.holds(&grant, NOW_S));
    access.keys = keys(&[Signer::Hs256.jwk("").replace("AyM1", "ByM1")]);
    assert!(!access.holds(&grant, NOW_S));
    assert_eq!(take(&access, &token), Err(Fault::Signature));
}

/// RFC 7517: keys for other uses are skipped, and mistakes are reported.
#[test]
fn which_keys_are_taken() {
    let read = |jwks: &[String]| Keys::read(format!("{{\"keys\":[{}]}}", jwks.join(",")).as_bytes());
    let others = [
        "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}".to_owned(),
        "{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"AA\",\"y\":\"AA\"}".to_owned(),
        Signer::Hs256.jwk(",\"alg\":\"HS512\""),
        Signer::Es256.jwk(",\"use\":\"enc\""),
        Signer::Es256.jwk(",\"key_ops\":[\"deriveKey\"]"),
    ];
    assert!(read(&others).unwrap_err().contains("no key for"));
    let good = Signer::Es256.jwk(",\"use\":\"sig\",\"alg\":\"ES256\",\"key_ops\":[\"verify\"],\"x5c\":[]");
    assert_eq!(read(&[&others[..], &[good]].concat()).expect("one of them").len(), 1);
    assert_eq!(Keys::read(Signer::Ed25519.jwk("").as_bytes()).expect("a key alone").len(), 1);
    for (jwk, words) in [
        ("{}".to_owned(), "no kty"),
        ("1".to_owned(), "not an object"),
        ("{\"kty\":\"oct\",\"k\":\"AAAA\"}".to_owned(), "at least 32 bytes"),
        ("{\"kty\":\"oct\"}".to_owned(), "not valid Base64url"),
        (Signer::Es256.jwk("").replace(Y, X).replace(X, "AA"), "32 bytes each"),
        (Signer::Ed25519.jwk(",\"d\":\"AA\""), "private key"),
        (Signer::Es256.jwk(",\"d\":\"AA\""), "private key"),
        (Signer::Es256.jwk(",\"kid\":1"), "kid must be"),
        (Signer::Es256.jwk(&format!(",\"kid\":\"{}\"", "a".repeat(129))), "kid must be"),
        (Signer::Es256.jwk(",\"key_ops\":\"verify\""), "key_ops"),
    ] {
        let why = read(std::slice::from_ref(&jwk)).expect_err(&jwk);
        assert!(why.starts_with("key 1") && why.contains(words), "{jwk}: {why}");
    }
    let twice = [Signer::Es256.jwk(",\"kid\":\"a\""), Signer::Es256.jwk(",\"kid\":\"a\"")];
    assert!(read(&twice).unwrap_err().contains("need different kids"));
    assert!(read(&[Signer::Es256.jwk(""), Signer::Es256.jwk("")]).unwrap_err().contains("need different kids"));
    let many: Vec<_> = (0..=NOTIFY_JWT_KEYS_MAX).map(|n| Signer::Hs256.jwk(&format!(",\"kid\":\"{n}\""))).collect();
    assert!(read(&many[1..]).is_ok() && read(&many).unwrap_err().contains("more than 16"));
    assert!(Keys::read(b"{\"keys\":1}").is_err() && Keys::read(b"[]").is_err() && Keys::read(b"").is_err());
    assert!(Keys::read(format!("{{\"keys\":[],\"keys\":[{}]}}", Signer::Es256.jwk("")).as_bytes()).is_err());
    let shown = format!("{:?}", access());
    assert!(!shown.contains(&SECRET[..8]) && !shown.contains("35, 53"), "{shown}");
}
