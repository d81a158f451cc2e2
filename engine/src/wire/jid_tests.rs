use proptest::prelude::*;

use super::*;

/// RFC 8265 3.3.2: skipping rules that do not apply to a text gives the same result as applying all
/// rules.
#[test]
fn rfc8265_3_3_2_short_ways_and_the_profile_agree() {
    let all_rules = |text: &str| {
        let profile = UsernameCaseMapped::new();
        let text = profile.width_mapping_rule(text.to_owned()).ok()?;
        IdentifierClass::default().allows(&*text).ok()?;
        let text = profile.case_mapping_rule(text).and_then(|text| profile.normalization_rule(text)).ok()?;
        profile.directionality_rule(text).ok().filter(|text| !text.is_empty() && !text.bytes().any(is_excluded))
    };
    for c in (0..0x3_0000).filter_map(char::from_u32) {
        // Each character precedes a letter, so that rules on the start of a text are covered too.
        let text = format!("{c}a");
        let short = normalise_local(&text).ok();
        let Some(short) = short else {
            // A character that is unstable or depends on its context is rejected for that reason.
            continue;
        };
        assert_eq!(Some(&short), all_rules(&text).as_ref(), "U+{:04X}", u32::from(c));
    }
    for c in (0u8..0x80).map(char::from) {
        let text = format!("{c}A");
        assert_eq!(normalise_local(&text).ok(), all_rules(&text), "U+{:02X}", u32::from(c));
    }
}

/// RFC 7622 3.5, table 1: "is a JID". Input, localpart, domainpart, resourcepart.
#[test]
fn rfc7622_3_5_examples_of_addresses() {
    let long = "a".repeat(1023);
    let full = format!("{long}@{long}/{long}");
    let table: &[(&str, Option<&str>, &str, Option<&str>)] = &[
        ("juliet@example.com", Some("juliet"), "example.com", None),
        ("juliet@example.com/foo", Some("juliet"), "example.com", Some("foo")),
        ("juliet@example.com/foo bar", Some("juliet"), "example.com", Some("foo bar")),
        ("juliet@example.com/foo@bar", Some("juliet"), "example.com", Some("foo@bar")),
        ("foo\\20bar@example.com", Some("foo\\20bar"), "example.com", None),
        ("fussball@example.com", Some("fussball"), "example.com", None),
        ("fu\u{df}ball@example.com", Some("fu\u{df}ball"), "example.com", None),
        ("\u{3c0}@example.com", Some("\u{3c0}"), "example.com", None),
        ("\u{3a3}@example.com/foo", Some("\u{3c3}"), "example.com", Some("foo")),
        ("\u{3c3}@example.com/foo", Some("\u{3c3}"), "example.com", Some("foo")),
        ("\u{3c2}@example.com/foo", Some("\u{3c2}"), "example.com", Some("foo")),
        ("king@example.com/\u{265a}", Some("king"), "example.com", Some("\u{265a}")),
        ("example.com", None, "example.com", None),
        ("example.com/foobar", None, "example.com", Some("foobar")),
        ("a.example.com/b@example.net", None, "a.example.com", Some("b@example.net")),
        // RFC 7622 3.2: literals, A-labels, letter case, the final dot.
        ("romeo@192.0.2.1/orchard", Some("romeo"), "192.0.2.1", Some("orchard")),
        ("romeo@[2001:DB8::0:1]", Some("romeo"), "[2001:db8::1]", None),
        ("romeo@xn--bcher-kva.example", Some("romeo"), "b\u{fc}cher.example", None),
        ("romeo@B\u{dc}CHER.example", Some("romeo"), "b\u{fc}cher.example", None),
        ("ROMEO@EXAMPLE.Net./Orchard", Some("romeo"), "example.net", Some("Orchard")),
        ("example.net.", None, "example.net", None),
        // OpaqueString keeps leading spaces (RFC 8265 4.2.2), although the examples discourage this
        // one.
        ("juliet@example.com/ foo", Some("juliet"), "example.com", Some(" foo")),
        // RFC 8265 3.3: width and case are mapped; RFC 8265 4.2: spaces are mapped, letter case is
        // kept.
        ("\u{ff52}omeo@example.net", Some("romeo"), "example.net", None),
        ("romeo@example.net/my\u{a0}Phone", Some("romeo"), "example.net", Some("my Phone")),
        ("romeo@example.net/e\u{301}", Some("romeo"), "example.net", Some("\u{e9}")),
        // Pictographs and letters newer than Unicode 6.3.
        ("romeo@example.net/\u{1f951}", Some("romeo"), "example.net", Some("\u{1f951}")),
        ("romeo@example.net/\u{1e921}\u{a0}\u{1f9d0}", Some("romeo"), "example.net", Some("\u{1e921} \u{1f9d0}")),
        // RFC 7622 3.2-3.4: 1,023 bytes each.
        (&full, Some(&long), &long, Some(&long)),
    ];
    for &(input, local, domain, resource) in table {
        let jid = Jid::parse(input).unwrap_or_else(|error| panic!("{input:?}: {error}"));
        assert_eq!((jid.local(), jid.domain(), jid.resource()), (local, domain, resource), "{input:?}");
        assert_eq!(jid.is_bare(), resource.is_none(), "{input:?}");
        assert_eq!(Jid::from_parts(local, domain, resource), Ok(jid), "{input:?}");
    }
}

/// RFC 5892 A: characters that are allowed in some contexts only, with any number of those whose
/// context is the whole part. Without the replacement, the work for a part of only such characters
/// is quadratic in its length.
#[test]
fn rfc5892_a_context_is_asked_for_once() {
    let resource = |text: &str| normalise_resource(text).map(|text| text.into_owned());
    let forbidden = Err(JidError::Forbidden(Part::Resource));
    let (digits, extended) = ("\u{661}".repeat(500), "\u{6f1}".repeat(500));
    assert_eq!(resource(&digits), Ok(digits.clone()));
    assert_eq!(resource(&extended), Ok(extended.clone()));
    assert_eq!(resource(&format!("{}\u{6f1}", &digits[..100])), forbidden, "A.8");
    assert_eq!(resource(&format!("{}\u{661}", &extended[..100])), forbidden, "A.9");
    let dots = "\u{30fb}".repeat(300);
    assert_eq!(resource(&format!("{dots}\u{30a2}")), Ok(format!("{dots}\u{30a2}")), "A.7");
    assert_eq!(resource(&dots), forbidden, "A.7");
    let ela = "l\u{b7}".repeat(crate::limits::JID_CONTEXT_MAX);
    assert_eq!(resource(&format!("{ela}l")), Ok(format!("{ela}l")), "A.3");
    assert_eq!(resource(&ela), forbidden, "A.3: the last one stands at the end");
    assert_eq!(resource(&format!("{ela}l\u{b7}l")), forbidden, "more than a part may have");
    let both = format!("{ela}l{}", &digits[..900]);
    assert_eq!(resource(&both), Ok(both.clone()));
    assert_eq!(normalise_local(&format!("{ela}l")).as_deref(), Ok(&*format!("{ela}l")));
}

/// RFC 7622 3.5, table 2: "is not a JID", and more examples of the same kinds.
#[test]
fn rfc7622_3_5_examples_of_what_is_no_address() {
    use JidError::{Empty, Forbidden, TooLong};
    use Part::{Domain, Local, Resource};
    let long = "a".repeat(1024);
    let table: &[(&str, JidError)] = &[
        ("\"juliet\"@example.com", Forbidden(Local)),
        ("foo bar@example.com", Forbidden(Local)),
        ("juliet@example.com/", Empty(Resource)),
        ("example.net./", Empty(Resource)),
        ("@example.com/", Empty(Local)),
        ("@example.com", Empty(Local)),
        ("henry\u{2163}@example.com", Forbidden(Local)),
        ("\u{265a}@example.com", Forbidden(Local)),
        ("juliet@", Empty(Domain)),
        ("/foobar", Empty(Domain)),
        ("", Empty(Domain)),
        (".", Empty(Domain)),
        ("a@b@c", Forbidden(Domain)),
        ("example..com", Forbidden(Domain)),
        ("example.com..", Forbidden(Domain)),
        ("-example.com", Forbidden(Domain)),
        ("example-.com", Forbidden(Domain)),
        ("ex ample.com", Forbidden(Domain)),
        ("ex_ample.com", Forbidden(Domain)),
        ("xn--a.example", Forbidden(Domain)),
        ("xn--xn--nqinqlxiiqayai-nql", Forbidden(Domain)),
        ("a\u{2100}b.example", Forbidden(Domain)),
        ("[::1", Forbidden(Domain)),
        ("[::g]", Forbidden(Domain)),
        ("[fe80::1%eth0]", Forbidden(Domain)),
        ("[127.0.0.1]", Forbidden(Domain)),
        ("a&b@example.com", Forbidden(Local)),
        ("a'b@example.com", Forbidden(Local)),
        ("a:b@example.com", Forbidden(Local)),
        ("a<b@example.com", Forbidden(Local)),
        ("a>b@example.com", Forbidden(Local)),
        ("a\u{ff20}b@example.com", Forbidden(Local)),
        ("a\u{0}b@example.com", Forbidden(Local)),
        ("a@example.com/\u{0}", Forbidden(Resource)),
        ("a@example.com/\n", Forbidden(Resource)),
        ("a@example.com/\u{7f}", Forbidden(Resource)),
        ("a@example.com/\u{1fffe}", Forbidden(Resource)),
        ("a@example.com/\u{1f951}\u{7}", Forbidden(Resource)),
    ];
    for &(input, error) in table {
        assert_eq!(Jid::parse(input), Err(error), "{input:?}");
    }
    assert_eq!(Jid::parse(&format!("{long}@example.com")), Err(TooLong(Local)));
    assert_eq!(Jid::parse(&long), Err(TooLong(Domain)));
    assert_eq!(Jid::parse(&format!("example.com/{long}")), Err(TooLong(Resource)));
    // The bound is in bytes, not in characters.
    assert_eq!(Jid::parse(&format!("{}@example.com", "\u{3c0}".repeat(512))), Err(TooLong(Local)));
    // A letter that grows in lower case: U+023A, two bytes, becomes U+2C65, three.
    assert_eq!(Jid::parse(&format!("{}@example.com", "\u{23a}".repeat(511))), Err(TooLong(Local)));
}

#[test]
fn an_address_takes_24_bytes_and_compares_by_text() {
    assert_eq!(size_of::<Jid>(), 24);
    let (romeo, phone) = (Jid::parse("ROMEO@example.net").unwrap(), Jid::parse("romeo@example.net/phone").unwrap());
    assert_eq!(phone.bare(), romeo);
    assert_eq!(romeo.with_resource("phone"), Ok(phone.clone()));
    assert_eq!(phone.with_resource("\u{ff41}\u{a0}b").unwrap(), "romeo@example.net/\u{ff41} b");
    assert_eq!(phone.with_resource(""), Err(JidError::Empty(Part::Resource)));
    assert!(romeo < phone && romeo != phone);
    assert_eq!(phone.bare_str(), "romeo@example.net");
    assert_eq!(phone.bare().to_jid(), romeo);
    assert_eq!(phone.to_string(), "romeo@example.net/phone");
}

/// The guarantee for the hot path: an address in normal form costs no allocation, any other is
/// normalised into `scratch`.
#[test]
fn only_what_is_not_normal_is_copied() {
    let mut scratch = String::new();
    assert_eq!(
        parse_into("romeo@example.net/Orchard 1", &mut scratch),
        Ok(JidRef::from_normalised("romeo@example.net/Orchard 1"))
    );
    assert_eq!(scratch.capacity(), 0);
    scratch.push_str("left over");
    assert_eq!(parse_into("ROMEO@example.net", &mut scratch).unwrap(), "romeo@example.net");
    assert!(matches!(normalise("b\u{fc}cher.example"), Ok(Cow::Borrowed(_))));
}

/// Texts that are often enough similar to addresses to reach deep into each part.
fn addresses() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9!-~]{0,6}@?[a-zA-Z0-9.-]{1,12}(/[ -~]{0,6})?",
        "\\PC{0,4}@[a-z\u{fc}\u{5d0}\u{3002}.-]{1,8}/\\PC{0,4}",
        "[a-zA-Z\u{e9}\u{301}\u{ff21}\u{130}\u{1c4}\u{345}\u{3a3}]{1,6}@(xn--)?[a-z0-9-]{1,6}\\.?/[\u{a0}e\u{301}\u{1f951}x]{0,4}",
        "\\PC{0,16}",
        ".{0,8}",
        "\\[[0-9a-f:.]{0,12}\\]",
        "(xn--){1,3}[a-z]{0,4}-[a-z0-9]{1,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// RFC 8264 7: applying the rules again changes nothing. The parts are also at the right
    /// offsets.
    #[test]
    fn a_normal_form_is_its_own_normal_form(input in addresses()) {
        if let Ok(text) = normalise(&input) {
            let again = normalise(&text).map(Cow::into_owned);
            prop_assert_eq!(again.as_deref(), Ok(&*text), "from {:?}", input);
            let jid = Jid::parse(&input).unwrap();
            prop_assert_eq!(jid.as_str(), &*text);
            prop_assert_eq!(Jid::from_parts(jid.local(), jid.domain(), jid.resource()), Ok(jid.clone()));
        } else {
            prop_assert!(Jid::parse(&input).is_err());
        }
    }

    /// The fast path accepts exactly what the full rules leave unchanged.
    #[test]
    fn the_fast_path_agrees_with_the_full_rules(
        local in "[ -~]{1,5}", domain in "[a-z0-9.x-]{1,10}", resource in "[ -~]{1,5}",
    ) {
        if is_plain(&local, LOCAL) {
            prop_assert_eq!(local_slow(&local), Ok(Cow::Borrowed(&*local)));
        } else {
            prop_assert_ne!(local_slow(&local), Ok(Cow::Borrowed(&*local)));
        }
        if is_plain_domain(&domain) {
            prop_assert_eq!(domain_slow(&domain), Ok(Cow::Borrowed(&*domain)));
        } else if let Ok(normal) = domain_slow(&domain) {
            prop_assert_ne!(&*normal, &*domain);
        }
        prop_assert!(is_plain(&resource, RESOURCE));
        prop_assert_eq!(resource_slow(&resource), Ok(Cow::Borrowed(&*resource)));
    }
}
