//! Extensions that the operator has switched off: neither advertised nor answered, and without
//! effect.

use std::sync::Arc;

use throng_engine::extension::bytestreams::StreamHost;
use throng_engine::extension::upload::slot::Upload;
use throng_engine::extension::{OPTIONAL, TABLE, bits};
use throng_engine::id::Service;
use throng_engine::settings::Settings;
use throng_sim::host::{BIND, Host, said};

fn host(without: &[&str]) -> Host {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.facts.without = bits(without);
    settings.admins = std::sync::Arc::new(["romeo@localhost".into()]);
    settings.serve_service("upload.localhost", Service::Upload);
    settings.serve_service("pubsub.localhost", Service::PubSub);
    settings.serve_service("proxy.localhost", Service::Bytestreams);
    settings.facts.bytestreams = Some(Arc::new(StreamHost { host: "localhost".into(), port: 7_777 }));
    settings.facts.upload = Some(Arc::new(Upload {
        key: [0; 32],
        url: "https://localhost/".into(),
        file_bytes_max: 10,
        slot_s: 300,
        slots_max: 1,
        day_bytes: 0,
        day_files: 0,
        keep_s: 1,
    }));
    let mut host = Host::new(settings);
    host.account("romeo");
    host.account("juliet");
    host
}

/// An extension, a stanza that a client sends for it, its advertisement, and its answer.
const CASES: &[(&str, &str, &str, &str)] = &[
    (
        "disco",
        "<query xmlns='http://jabber.org/protocol/disco#info'/>",
        "http://jabber.org/protocol/caps",
        "<identity ",
    ),
    ("last", "<query xmlns='jabber:iq:last'/>", "jabber:iq:last", "seconds='"),
    ("ping", "<ping xmlns='urn:xmpp:ping'/>", "urn:xmpp:ping", "type='result'"),
    ("private", "<query xmlns='jabber:iq:private'><a xmlns='b'/></query>", "jabber:iq:private", "type='result'"),
    ("register", "<query xmlns='jabber:iq:register'/>", "jabber:iq:register", "<registered/>"),
    ("time", "<time xmlns='urn:xmpp:time'/>", "urn:xmpp:time", "<utc>"),
    ("version", "<query xmlns='jabber:iq:version'/>", "jabber:iq:version", "<version>"),
    ("carbons", "<enable xmlns='urn:xmpp:carbons:2'/>", "urn:xmpp:carbons:2", "type='result'"),
    ("csi", "<inactive xmlns='urn:xmpp:csi:0'/>", "urn:xmpp:csi:0", ""),
    ("blocking", "<blocklist xmlns='urn:xmpp:blocking'/>", "urn:xmpp:blocking", "type='result'"),
    ("vcard", "<vCard xmlns='vcard-temp'><FN>R</FN></vCard>", "vcard-temp", "type='result'"),
    ("mam", "<metadata xmlns='urn:xmpp:mam:2'/>", "urn:xmpp:mam:2", "type='result'"),
    (
        "pep",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><subscriptions/></pubsub>",
        "http://jabber.org/protocol/pubsub#publish-options",
        "<subscriptions>",
    ),
    (
        "adhoc",
        "<command xmlns='http://jabber.org/protocol/commands' node='http://jabber.org/protocol/admin#announce'/>",
        "http://jabber.org/protocol/commands",
        "status='executing'",
    ),
    ("push", "<enable xmlns='urn:xmpp:push:0' jid='juliet@localhost'/>", "urn:xmpp:push:0", "type='result'"),
    ("upload", "<request xmlns='urn:xmpp:http:upload:0' filename='a' size='1'/>", "upload.localhost", "<slot "),
    ("bytestreams", "<query xmlns='http://jabber.org/protocol/bytestreams'/>", "proxy.localhost", "<streamhost "),
    (
        "pubsub",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><affiliations/></pubsub>",
        "pubsub.localhost",
        "<affiliations>",
    ),
];

/// Romeo's stream features and the server's service discovery, and the answer to a request.
fn advertised_and_answered(without: &[&str], request: &str) -> (String, String) {
    let mut host = host(without);
    let (conn, effects) = host.arrive(0, "romeo");
    let mut offers = said(&effects);
    host.ask(conn, BIND);
    let info = "<iq type='get' id='d' to='localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    offers += &said(&host.ask(conn, info));
    offers += &said(&host.ask(conn, &info.replace(" to='localhost'", "")));
    offers += &said(&host.ask(conn, &info.replace("#info", "#items")));
    if request.contains("urn:xmpp:csi:0") {
        return (offers, said(&host.ask(conn, request)));
    }
    let verb = if ["enable", "vCard", "command "].iter().any(|set| request.contains(set)) { "set" } else { "get" };
    let to = if request.contains("<affiliations/>") {
        " to='pubsub.localhost'"
    } else if ["private", "block", "mam", "pubsub", "vcard", "push"].iter().any(|own| request.contains(own)) {
        ""
    } else if request.contains("http:upload") {
        " to='upload.localhost'"
    } else if request.contains("protocol/bytestreams") {
        " to='proxy.localhost'"
    } else {
        " to='localhost'"
    };
    (offers, said(&host.ask(conn, &format!("<iq type='{verb}' id='r'{to}>{request}</iq>"))))
}

/// RFC 6120 8.4: a disabled extension is answered like anything unknown, and everything else as
/// before.
#[test]
fn what_is_switched_off_is_neither_advertised_nor_answered_rfc6120_8_4() {
    let named: Vec<&str> = CASES.iter().map(|(name, ..)| *name).collect();
    // Services and rooms are offered only if the operator has configured some, and conversions have
    // no requests of their own. Invitations appear before a login, and in commands of another
    // extension: see `invitations`.
    let others = ["services", "invite", "avatars", "bookmarks", "inbox"];
    let optional: Vec<&str> = OPTIONAL.iter().copied().filter(|name| !others.contains(name)).collect();
    assert_eq!(named, optional, "a case for each");
    for (name, request, feature, answer) in CASES {
        let (offers, answered) = advertised_and_answered(&[], request);
        assert!(offers.contains(feature) && answered.contains(answer), "{name}: {offers} {answered}");
        assert!(!answered.contains("error"), "{name}: {answered}");

        let (offers, answered) = advertised_and_answered(&[name], request);
        assert!(!offers.contains(feature), "{name} is advertised: {offers}");
        let refusal = if *name == "csi" { "<unsupported-stanza-type" } else { "<service-unavailable" };
        assert!(answered.contains(refusal), "{name} is answered: {answered}");

        let others: Vec<&str> = OPTIONAL.iter().copied().filter(|other| other != name).collect();
        let (_, answered) = advertised_and_answered(&others, request);
        assert!(answered.contains(answer) && !answered.contains("error"), "{name} alone: {answered}");
    }
}

/// XEP-0398 2, XEP-0402 5, XEP-0411 2: an account advertises a conversion only if both its sides
/// are enabled.
#[test]
fn conversions_are_advertised_where_there_is_something_to_convert() {
    let info = "<iq type='get' id='d'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    for (var, needs) in [
        ("urn:xmpp:pep-vcard-conversion:0", &["avatars", "pep", "vcard"][..]),
        ("urn:xmpp:bookmarks-conversion:0", &["bookmarks", "pep", "private"]),
        ("urn:xmpp:bookmarks:1#compat", &["bookmarks", "pep", "private"]),
        ("urn:xmpp:bookmarks:1#compat-pep", &["bookmarks", "pep", "private"]),
    ] {
        let told = |without: &[&str]| {
            let mut host = host(without);
            let (conn, _) = host.bind(0, "romeo");
            said(&host.ask(conn, info)).contains(&format!("var='{var}'"))
        };
        assert!(told(&[]), "{var}");
        needs.iter().for_each(|name| assert!(!told(&[name]), "{var} without {name}"));
    }
}

/// RFC 6121 2: without rosters there is no instant messaging.
#[test]
fn what_rfc6121_asks_for_cannot_be_switched_off() {
    let needed = TABLE.iter().filter(|extension| !OPTIONAL.contains(&extension.name));
    assert_eq!(needed.map(|extension| extension.name).collect::<Vec<_>>(), ["roster", "session"]);
    assert_eq!(bits(&["roster", "session", "nonsense"]), 0);
    let roster = "<query xmlns='jabber:iq:roster'/>";
    let mut host = host(OPTIONAL);
    let (conn, _) = host.bind(0, "romeo");
    assert!(said(&host.ask(conn, &format!("<iq type='get' id='r'>{roster}</iq>"))).contains("type='result'"));
}

/// XEP-0191 3.3: a list is kept while blocking is switched off, has no effect, and takes effect
/// again afterwards.
#[test]
fn what_is_switched_off_has_no_effect_and_loses_nothing() {
    let refused = |host: &mut Host| {
        let (romeo, _) = host.bind(0, "romeo");
        let message = "<message to='juliet@localhost' type='chat' id='m'><body>hi</body></message>";
        said(&host.ask(romeo, message)).contains("<service-unavailable")
    };
    let block = "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='romeo@localhost'/></block></iq>";
    let mut with = host(&[]);
    let (juliet, _) = with.bind(1, "juliet");
    assert!(said(&with.ask(juliet, block)).contains("type='result'"));
    assert!(refused(&mut with));
    let mut without = host(&["blocking"]);
    without.disk = with.disk;
    assert!(!refused(&mut without));
    let (juliet, _) = without.bind(1, "juliet");
    assert!(said(&without.ask(juliet, block)).contains("<service-unavailable"));
    let mut again = host(&[]);
    again.disk = without.disk;
    assert!(refused(&mut again));
}
