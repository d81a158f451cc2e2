//! Entity Capabilities of the server (XEP-0115): the announced hash is that of the service
//! discovery answer.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use minidom::Element;
use sha1::{Digest, Sha1};
use throng_engine::extension::{OPTIONAL, Rule, bits};
use throng_engine::id::{ConnId, Service};
use throng_engine::io::{Input, ListenerKind};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::account::{Credentials, Incarnation};
use throng_sim::host::{HEADER, Host, said};
use throng_sim::world::PASSWORD;

const INFO: &str = "http://jabber.org/protocol/disco#info";

/// The announced node and verification string.
fn announced(features: &str) -> (String, String) {
    let c = features.split_once("<c xmlns='http://jabber.org/protocol/caps'").expect("capabilities").1;
    let c = c.split_once("/>").expect("an end").0;
    let value = |name: &str| {
        let rest = c.split_once(&format!("{name}='")).unwrap_or_else(|| panic!("no {name} in {c}")).1;
        rest.split_once('\'').expect("an end").0.to_owned()
    };
    assert_eq!(value("hash"), "sha-1");
    (value("node"), value("ver"))
}

/// XEP-0115 5.1: the hash as a client computes it from an answer.
fn hash(query: &Element) -> String {
    let attr = |element: &Element, name: &str| element.attr(name).unwrap_or_default().to_owned();
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all.concat()
    };
    let of = |name: &'static str| query.children().filter(move |child| child.name() == name);
    let values = |field: &Element| sorted(field.children().map(|value| value.text() + "<").collect());
    let identities = of("identity").map(|is| {
        format!("{}/{}/{}/{}<", attr(is, "category"), attr(is, "type"), attr(is, "xml:lang"), attr(is, "name"))
    });
    let forms = of("x").map(|form| {
        let (kind, fields): (Vec<_>, Vec<_>) =
            form.children().partition(|field| field.attr("var") == Some("FORM_TYPE"));
        values(kind[0]) + &sorted(fields.iter().map(|field| attr(field, "var") + "<" + &values(field)).collect())
    });
    let text = sorted(identities.collect())
        + &sorted(of("feature").map(|feature| attr(feature, "var") + "<").collect())
        + &sorted(forms.collect());
    BASE64.encode(Sha1::digest(text))
}

/// The stream features of a domain after a login in two steps, and after SASL 2 with a resource
/// (XEP-0386), with the connection of the latter.
fn offers(host: &mut Host, slot: u32, domain: &str) -> ([String; 2], ConnId) {
    let header = HEADER.replace("'localhost'", &format!("'{domain}'"));
    let mut connect = |slot| {
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        let conn = ConnId { slot, generation: 1 };
        host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
        host.ask(conn, &header);
        conn
    };
    let (first, second) = (connect(slot), connect(slot + 1));
    let initial = BASE64.encode(format!("\0romeo\0{PASSWORD}"));
    host.ask(first, &format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{initial}</auth>"));
    let restarted = said(&host.ask(first, &header));
    let inline = said(&host.ask(
        second,
        &format!(
            "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>{initial}</initial-response>\
             <bind xmlns='urn:xmpp:bind:0'/></authenticate>"
        ),
    ));
    assert!(inline.contains("<bound "), "{inline}");
    ([restarted, inline], second)
}

/// A host with a second domain, whose accounts are equivalent.
fn host(settings: &Settings) -> Host {
    let mut settings = settings.clone();
    settings.serve("capulet.example");
    let mut host = Host::new(settings);
    for domain in ["localhost", "capulet.example"] {
        let keys = Credentials::derive(PASSWORD, 4096, &[3; 16], 0).expect("a password").of(Incarnation::drawn(1));
        let mut record = Vec::new();
        keys.encode(&mut record);
        host.disk.put(Table::Accounts, &format!("romeo@{domain}"), b"", &record);
    }
    host
}

/// XEP-0115 5.1, 6.2, 6.3: on each domain, however the client has logged in, disco#info for the
/// announced node is answered, repeats that node, is the same as without it, and has the announced
/// hash.
fn hold_what_they_announce(settings: &Settings, what: &str) {
    let mut host = host(settings);
    for (slot, domain) in [(0, "localhost"), (2, "capulet.example")] {
        let (offers, conn) = offers(&mut host, slot, domain);
        for offer in offers {
            let (node, ver) = announced(&offer);
            let mut ask = |node: &str| {
                let answer = said(
                    &host.ask(conn, &format!("<iq type='get' id='d' to='{domain}'><query xmlns='{INFO}'{node}/></iq>")),
                );
                assert!(answer.contains("type='result'"), "{what}, {domain}: {answer}");
                let start = answer.find("<query").expect("a query");
                let end = answer.find("</query>").expect("its end");
                answer[start..end + 8].parse::<Element>().expect("an element")
            };
            let named = ask(&format!(" node='{node}#{ver}'"));
            assert_eq!(named.attr("node"), Some(&*format!("{node}#{ver}")));
            assert_eq!(hash(&named), ver, "{what}, {domain}");
            assert_eq!(hash(&ask("")), ver, "{what}, {domain}");
        }
    }
}

/// XEP-0115 5.1: the operator's settings change the features, and with them the hash.
#[test]
fn the_announced_hash_is_that_of_the_answer_xep_0115_5_1() {
    let usual = Settings::new("localhost", 1, [0; 32], 0);
    assert!(usual.archive, "the default");
    hold_what_they_announce(&usual, "defaults");
    hold_what_they_announce(&Settings { archive: false, ..usual.clone() }, "no archive");
    for name in OPTIONAL.iter().filter(|name| **name != "disco") {
        let mut settings = usual.clone();
        settings.facts.without = bits(&[name]);
        hold_what_they_announce(&settings, name);
    }
    let mut all = usual.clone();
    all.facts.registration = true;
    all.facts.rule = Rule::Invite;
    all.facts.os = Some("Linux".into());
    all.facts.contacts = ["abuse=mailto:b@localhost", "abuse=mailto:a@localhost", "admin=xmpp:c@localhost"]
        .map(|contact| contact.parse().expect("a contact"))
        .into();
    all.serve_service("pubsub.localhost", Service::PubSub);
    hold_what_they_announce(&all, "all");
}
