//! Several domains on one server: each has its own accounts and its own certificate.

use std::fs;

use crate::support::{Client, PASSWORD, Server, good, throng};

const HOSTS: [&str; 4] = ["--virtual-hosts", "capulet.example", "--virtual-hosts", "M\u{fc}nchen.example"];

fn said(server: &Server, arguments: &[&str]) -> String {
    let output = server.command(&[arguments, &HOSTS].concat()).output().expect("throng runs");
    good(&output);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn users_of_one_name_at_two_domains_are_two() {
    let server = Server::start_with(&HOSTS);
    let add = |user: &str, password: &str| {
        good(&server.command(&["user", "add", user, "--password", password]).output().unwrap())
    };
    add("romeo", PASSWORD);
    add("romeo@capulet.example", "r0m30");
    add("juliet@m\u{fc}nchen.example", "jul13t");
    let listed = said(&server, &["user", "list"]);
    for jid in ["romeo@localhost", "romeo@capulet.example", "juliet@m\u{fc}nchen.example"] {
        assert_eq!(listed.lines().filter(|line| *line == jid).count(), 1, "{jid} in {listed}");
    }
    let refused = server.command(&["user", "add", "romeo@elsewhere.example", "--password", "x"]).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("elsewhere.example is not served here"), "{why}");

    // The passwords are independent.
    let header = "<stream:stream to='capulet.example' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
    let mut wrong = Client::connect(&server.plain);
    assert!(wrong.ask(header, "</stream:features>").contains("from='capulet.example'"));
    // NUL romeo NUL pencil
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AHJvbWVvAHBlbmNpbA==</auth>";
    wrong.ask(auth, "<not-authorized");
    let mut here = Client::connect(&server.plain).log_in("romeo", PASSWORD, "a");
    let mut there = Client::connect(&server.plain).log_in("romeo@capulet.example", "r0m30", "a");
    let mut juliet = Client::connect(&server.plain).log_in("juliet@m\u{fc}nchen.example", "jul13t", "a");
    [&mut here, &mut there, &mut juliet].into_iter().for_each(|client| {
        client.ask("<presence/>", "<presence");
    });
    juliet.send("<message to='romeo@capulet.example' type='chat'><body>for one of them</body></message>");
    assert!(there.hear("</message>").contains("from='juliet@m\u{fc}nchen.example/a'"));
    // The operator's query about one does not include the other.
    let sessions = |of: &str| String::from_utf8(server.ctl(&["sessions", of]).stdout).expect("text");
    assert!(sessions("romeo@capulet.example").contains("romeo@capulet.example/a"));
    assert!(!sessions("romeo@capulet.example").contains("romeo@localhost"));
    assert!(sessions("romeo").contains("romeo@localhost/a"));
    good(&server.ctl(&["kick", "romeo@capulet.example"]));
    there.hear("<policy-violation");
    good(&server.command(&["user", "del", "romeo@capulet.example", "--yes"]).output().unwrap());
    let status = String::from_utf8(server.ctl(&["status"]).stdout).expect("text");
    assert!(status.contains("localhost and 2 virtual hosts"), "{status}");
    // The other is not affected: it has received nothing, and the server still answers it.
    let ping = "<iq type='get' id='p' to='capulet.example'><ping xmlns='urn:xmpp:ping'/></iq>";
    let heard = here.ask(ping, "id='p'");
    assert!(!heard.contains("<message"), "{heard}");
    let listed = said(&server, &["user", "list"]);
    assert!(listed.contains("romeo@localhost\n") && !listed.contains("romeo@capulet.example"), "{listed}");
}

/// RFC 6125: a client of a domain accepts its certificate, which is selected by the name that the
/// client requests.
#[test]
fn each_domain_shows_its_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let live = folder.path().join("live");
    let of = live.join("capulet.example");
    fs::create_dir_all(&of).expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["capulet.example".to_owned()]).expect("a certificate");
    fs::write(of.join("fullchain.pem"), made.cert.pem()).expect("a file");
    fs::write(of.join("privkey.pem"), made.signing_key.serialize_pem()).expect("a file");
    let live = live.to_str().expect("a plain path").to_owned();
    let server = Server::start_in(folder, &[&HOSTS[..], &["--tls-folder", &live]].concat());
    let own = server.data.path().join("data/tls");
    let certificates = [
        ("localhost", own.join("cert.pem")),
        ("capulet.example", of.join("fullchain.pem")),
        ("xn--mnchen-3ya.example", own.join("xn--mnchen-3ya.example/cert.pem")),
    ];
    for (host, certificate) in &certificates {
        let header = format!(
            "<stream:stream to='{host}' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
        );
        Client::connect_tls_as(&server.direct, certificate, host).ask(&header, "</stream:features>");
    }
    // A reload loads a new one.
    let made = rcgen::generate_simple_self_signed(vec!["capulet.example".to_owned()]).expect("a certificate");
    fs::write(of.join("fullchain.pem"), made.cert.pem()).expect("a file");
    fs::write(of.join("privkey.pem"), made.signing_key.serialize_pem()).expect("a file");
    good(&server.ctl(&["reload"]));
    let header = "<stream:stream to='capulet.example' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
    Client::connect_tls_as(&server.direct, &of.join("fullchain.pem"), "capulet.example")
        .ask(header, "</stream:features>");
}

#[test]
fn a_store_has_one_main_domain_and_more_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("a plain path");
    let add = |user: &str, further: &[&str]| {
        throng(&[&["user", "add", user, "--password", "x", "--data", data], further].concat())
    };
    good(&add("romeo@a.example", &[]));
    // The store belongs to a.example from now on.
    let why = String::from_utf8_lossy(&add("juliet@b.example", &[]).stderr).into_owned();
    assert!(why.contains("to the domain a.example, not to b.example") && why.contains("virtual_hosts"), "{why}");
    good(&add("juliet@b.example", &["--virtual-hosts", "b.example"]));
    // That does not change the store's domain.
    let listed = throng(&["user", "list", "--data", data]);
    let listed = String::from_utf8(listed.stdout).expect("text");
    assert_eq!(
        listed.lines().collect::<std::collections::BTreeSet<_>>(),
        ["juliet@b.example", "romeo@a.example"].into()
    );
}
