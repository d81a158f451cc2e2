use super::*;

fn one(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

#[test]
fn bytes_take_binary_suffixes_and_hold_their_range() {
    let kind = Kind::Bytes { min: 10_000, max: 1 << 20 };
    assert_eq!(u64::read(&one("256KiB"), &kind), Some(262_144));
    assert_eq!(u64::read(&one("262_144"), &kind), Some(262_144));
    assert_eq!(u64::read(&one("1 MiB"), &kind), Some(1 << 20));
    for bad in ["9999", "2MiB", "-1", "", "12x", "99999999999999999999", "18446744073709551615GiB"] {
        assert_eq!(u64::read(&one(bad), &kind), None, "{bad}");
    }
}

#[test]
fn seconds_take_suffixes_and_show_the_largest_unit() {
    let kind = Kind::Seconds { min: 0, max: 86_400 };
    assert_eq!(Duration::read(&one("5m"), &kind), Some(Duration::from_secs(300)));
    assert_eq!(Duration::read(&one("300"), &kind), Some(Duration::from_secs(300)));
    assert_eq!(Duration::read(&one("2d"), &kind), None);
    assert_eq!(Duration::from_secs(300).show(&kind), "5m");
    assert_eq!(Duration::from_secs(90).show(&kind), "90s");
    assert_eq!(Duration::ZERO.show(&kind), "0");
}

#[test]
fn listeners_are_addresses_with_ports_or_off() {
    let kind = Kind::Listeners;
    let read = |text: &str| <Vec<SocketAddr>>::read(&one(text), &kind);
    assert_eq!(read("off"), Some(vec![]));
    assert_eq!(read("127.0.0.1:5222, [::1]:5222").map(|list| list.len()), Some(2));
    assert_eq!(read("localhost:5222"), Some(vec!["127.0.0.1:5222".parse().unwrap()]));
    for bad in ["127.0.0.1", ":5222", "*:5222", "127.0.0.1:99999", "a:b", "127.0.0.1:1,off"] {
        assert_eq!(read(bad), None, "{bad}");
    }
    assert_eq!(read(&vec!["127.0.0.1:1"; LISTENERS_MAX + 1].join(",")), None);
}

#[test]
fn domains_are_several_each_once_or_none() {
    let kind = Kind::Domains;
    let read = |text: &str| <Vec<Domain>>::read(&one(text), &kind).map(|domains| domains.show(&kind));
    assert_eq!(read("").as_deref(), Some(""));
    assert_eq!(read("a.example, B.example,a.example").as_deref(), Some("a.example,b.example"));
    for bad in ["a.example,", "a b", "me@a.example"] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn components_are_domains_with_a_file_each() {
    let kind = Kind::Components;
    let read = |text: &str| <Vec<Component>>::read(&one(text), &kind).map(|all| all.show(&kind));
    let two = "echo.a.example=/etc/throng/echo,irc.a.example=irc secret";
    assert_eq!(read(two).as_deref(), Some(two));
    assert_eq!((read("").as_deref(), read("Echo.A.example=/s").as_deref()), (Some(""), Some("echo.a.example=/s")));
    for bad in ["echo.a.example", "echo.a.example=", "=/s", "a b=/s", "a.example=/s,a.example=/t", "me@a.example=/s"] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn back_ends_are_domains_with_a_program_or_a_url_each() {
    let kind = Kind::BackEnds;
    let read = |text: &str| <Vec<BackEnd>>::read(&one(text), &kind).map(|all| all.show(&kind));
    let two = "a.example=/bin/check -v x=y,b.example=https://b.example:8443/xmpp";
    assert_eq!((read(two).as_deref(), read("").as_deref()), (Some(two), Some("")));
    assert_eq!(read("A.example=/bin/check  -v").as_deref(), Some("a.example=/bin/check -v"));
    assert_eq!(read("a.example=http://[::1]:80/").as_deref(), Some("a.example=http://[::1]:80"));
    for bad in [
        "a.example",
        "a.example=",
        "a.example=check",
        "a.example=ftp://b/",
        "a.example=https://",
        "a.example=https:///x",
        "a.example=https://u:p@b/",
        "a.example=https://b/?q",
        "a.example=https://b/ x",
        "a b=/bin/check",
        "a.example=/bin/check,a.example=/bin/other",
    ] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn a_url_is_of_https_and_ends_with_a_slash() {
    let read = |text: &str| String::read(&one(text), &Kind::UrlOrNone);
    assert_eq!(read("https://a.example:5281").as_deref(), Some("https://a.example:5281/"));
    assert_eq!(read("https://[::1]/files/").as_deref(), Some("https://[::1]/files/"));
    assert_eq!(read("").as_deref(), Some(""));
    for bad in
        ["http://a/", "https://", "https:///a", "https://a/?b", "https://a/#b", "https://a b", "https://u@a/", "a"]
    {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
    for (given, host, port) in [
        ("Files.example.org", "files.example.org", None),
        ("files.example.org:7777", "files.example.org", Some(7_777)),
        ("m\u{fc}nchen.example:1", "xn--mnchen-3ya.example", Some(1)),
        ("192.0.2.1:80", "192.0.2.1", Some(80)),
        ("2001:DB8::1", "2001:db8::1", None),
        ("[2001:db8:0::1]:7777", "2001:db8::1", Some(7_777)),
        ("[::1]", "::1", None),
    ] {
        assert_eq!(read_host(given), Some((host.to_owned(), port)), "{given}");
    }
    for bad in ["", ":1", "a:", "a:0", "a:65536", "a b", "[::1", "[::1]x", "[::1]:0", "https://a/", "a/b", "a:b:c"] {
        assert_eq!(read_host(bad), None, "{bad}");
    }
}

#[test]
fn a_page_has_a_place_for_the_invitation() {
    let read = |text: &str| String::read(&one(text), &Kind::PageOrNone);
    for good in ["", "https://a.example/invite/#{token}", "https://a.example/i?of={uri}"] {
        assert_eq!(read(good).as_deref(), Some(good));
    }
    for bad in [
        "https://a.example/",
        "http://a/{token}",
        "https://{token}",
        "https:///{token}",
        "https://a/{token} b",
        "{token}",
    ] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn the_address_of_a_websocket_is_of_tls_and_origins_have_no_path() {
    let read = |text: &str| String::read(&one(text), &Kind::SocketUrlOrNone);
    assert_eq!(read("wss://a.example/xmpp-websocket").as_deref(), Some("wss://a.example/xmpp-websocket"));
    assert_eq!(read("").as_deref(), Some(""));
    for bad in ["ws://a/", "https://a/", "wss://", "wss:///a", "wss://a/?b", "wss://a b", "wss://u@a/", "wss://\"/"] {
        assert_eq!(read(bad), None, "{bad}");
    }
    let kind = Kind::Origins;
    let read = |text: &str| <Vec<Origin>>::read(&one(text), &kind).map(|origins| origins.show(&kind));
    assert_eq!(read("https://A.example, http://[::1]:80").as_deref(), Some("https://a.example,http://[::1]:80"));
    assert_eq!(read("any").as_deref(), Some("any"));
    for bad in ["a.example", "https://a/", "https://a/b", "null", "https://", "://a", "*"] {
        assert_eq!(read(bad), None, "{bad}");
    }
}

#[test]
fn names_are_normalised_each_once_or_none() {
    let kind = Kind::Names;
    let read = |text: &str| <Vec<LocalName>>::read(&one(text), &kind).map(|names| names.show(&kind));
    assert_eq!(read("Admin, root,admin").as_deref(), Some("admin,root"));
    assert_eq!(read("off").as_deref(), Some("off"));
    assert_eq!((read("a@b"), read("a b")), (None, None));
}

#[test]
fn what_clients_are_told_of_is_a_list_that_reads_back() {
    let contacts = "abuse=mailto:abuse@a.example,admin=xmpp:bard@a.example";
    let kind = Kind::Contacts;
    let read = |text: &str| <Vec<Contact>>::read(&one(text), &kind).map(|contacts| contacts.show(&kind));
    assert_eq!(read(contacts).as_deref(), Some(contacts));
    assert_eq!((read("off").as_deref(), read("abuse")), (Some(""), None));
    let kind = Kind::Services;
    let read = |text: &str| <Vec<Service>>::read(&one(text), &kind).map(|services| services.show(&kind));
    assert_eq!(read("stun:a.example, stun:a.example:3478").as_deref(), Some("stun:a.example:3478?transport=udp"));
    let many: Vec<String> = (0..=TOLD_MAX).map(|n| format!("stun:a{n}.example")).collect();
    assert_eq!((read(""), read("http:a"), read(&many.join(","))), (Some(String::new()), None, None));
}

#[test]
fn words_are_those_that_the_row_names_each_once() {
    let kind = Kind::Words(&["tea", "milk", "sugar"]);
    let read = |parts: &[&str]| {
        let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        <Vec<&'static str>>::read(&parts, &kind)
    };
    for none in ["", " ", "off", "none"] {
        assert_eq!(read(&[none]), Some(vec![]), "{none:?}");
    }
    assert_eq!(read(&["sugar, tea"]), Some(vec!["tea", "sugar"]));
    assert_eq!(read(&["sugar", "tea,sugar"]), Some(vec!["tea", "sugar"]), "one per flag");
    for bad in ["coffee", "tea,coffee", "tea,", "tea sugar", "tea,none"] {
        assert_eq!(read(&[bad]), None, "{bad}");
    }
    assert_eq!(read(&["tea,sugar"]).expect("words").show(&kind), "tea,sugar");
    assert_eq!(kind.allowed(), "any of tea, milk, sugar, separated by commas; empty for none");
}

#[test]
fn domains_are_in_the_form_of_jids_and_fit_into_the_dns() {
    assert_eq!(read_domain("Example.ORG."), Some("example.org".into()));
    // RFC 7622 3.2.1: A-labels become U-labels, so that `to` and the domain are the same bytes.
    for given in ["xn--mnchen-3ya.example", "XN--MNCHEN-3YA.example", "M\u{dc}NCHEN.example", "mu\u{308}nchen.example"]
    {
        assert_eq!(read_domain(given).as_deref(), Some("m\u{fc}nchen.example"), "{given}");
    }
    assert_eq!(domain_to_ascii("m\u{fc}nchen.example").as_deref(), Some("xn--mnchen-3ya.example"));
    for good in ["localhost", "192.0.2.1", "[2001:db8::1]"] {
        assert_eq!(read_domain(good).as_deref(), Some(good));
    }
    // RFC 1035 2.3.4: 63 bytes per label and 253 per name, in the form used in the DNS.
    let label = "a".repeat(63);
    let name = format!("{label}.{label}.{label}.{}", "a".repeat(61));
    assert!(read_domain(&label).is_some() && name.len() == 253 && read_domain(&name).is_some());
    for bad in [format!("{label}a.example"), format!("{name}a"), format!("{}.example", "\u{fc}".repeat(60))] {
        assert_eq!(read_domain(&bad), None, "{bad}");
    }
    for bad in ["xn--a.example", "-a.example", "a_b.example", "[::1", "[::1]:5222", "a\u{2f}b"] {
        assert_eq!(read_domain(bad), None, "{bad}");
    }
    for bad in ["", "a..b", "user@host", "host/x", "host:5222", "two words", "<a>"] {
        assert_eq!(read_domain(bad), None, "{bad}");
    }
}

#[test]
fn an_account_at_an_authority_needs_a_mail_address_and_a_directory_by_https() {
    let mail = |text: &str| String::read(&one(text), &Kind::MailOrNone).is_some();
    assert!(mail("") && mail("you@example.org") && mail("a.b+c@[192.0.2.1]"));
    for bad in
        ["you", "@example.org", "you@", "a@b@c", "a b@c", "mailto:you@example.org", "a@b,c@d", "you@ex\u{e4}mple.org"]
    {
        assert!(!mail(bad), "{bad}");
    }
    let directory = |text: &str| String::read(&one(text), &Kind::Directory).is_some();
    assert!(directory("production") && directory("staging") && directory("https://[::1]:14000/dir"));
    for bad in ["", "http://ca.example.org/dir", "https://", "other", "https://ca.example.org/?a"] {
        assert!(!directory(bad), "{bad}");
    }
}
