//! `throng invite` and `throng user pending`, on a store without a server and on a running server,
//! including the client that registers.

use serde_json::Value;

use crate::reports::command;
use crate::support::{Client, Host, Server, good, throng};

const HEADER: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";

fn lines(output: &std::process::Output) -> Vec<Value> {
    good(output);
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn asked(server: &Server, arguments: &[&str]) -> Vec<Value> {
    lines(&server.command(&[arguments, &["--json"]].concat()).output().expect("throng runs"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().expect(key)
}

fn show(client: &mut Client, token: &str) -> String {
    client.ask(HEADER, "</stream:features>");
    client.ask(
        &format!("<iq type='set' id='pa' to='localhost'><preauth xmlns='urn:xmpp:pars:0' token='{token}'/></iq>"),
        "id='pa'",
    )
}

fn register(client: &mut Client, user: &str) -> String {
    client.ask(
        &format!(
            "<iq type='set' id='reg'><query xmlns='jabber:iq:register'><username>{user}</username><password>pencil</password></query></iq>"
        ),
        "id='reg'",
    )
}

/// XEP-0445 4 end to end: an invitation from a running server is used, and still counts as used
/// after `kill -9`.
#[test]
fn an_invitation_of_a_running_server_lets_one_in_and_is_remembered() {
    let mut server = Server::start_with(&["--invitation-page", "https://localhost/i/#{token}"]);
    let made = asked(&server, &["invite", "--user", "juliet", "--expires", "2h"]);
    let token = text(&made[0], "token").to_owned();
    assert_eq!(text(&made[0], "uri"), format!("xmpp:juliet@localhost?register;preauth={token}"));
    assert_eq!(text(&made[0], "page"), format!("https://localhost/i/#{token}"));
    let again = server.command(&["invite", "--user", "juliet"]).output().expect("throng runs");
    assert_eq!(again.status.code(), Some(5), "she is invited: {}", String::from_utf8_lossy(&again.stderr));
    let reserved = register(&mut opened(&server), "juliet");
    assert!(reserved.contains("type='error'"), "{reserved}");
    let mut client = Client::connect(&server.plain);
    let shown = show(&mut client, &token);
    assert!(shown.contains("type='result'"), "{shown}");
    assert!(register(&mut client, "juliet").contains("type='result'"));
    drop(server.client("juliet", "r"));
    let check = |server: &Server| {
        let open = asked(server, &["invite", "list"]);
        assert!(open.is_empty(), "{open:?}");
        let all = asked(server, &["invite", "list", "--all"]);
        assert_eq!((all.len(), text(&all[0], "state"), &all[0]["joined"][0]), (1, "used", &"juliet@localhost".into()));
    };
    check(&server);
    server.child.kill().expect("killed");
    server.child.wait().expect("ended");
    check(&server);
}

/// XEP-0401 6.3, 6.4: an inviter cannot invite to the name of an administrator, of another inviter,
/// or a name that could pass for the operator's. An administrator can, and so can the operator.
#[test]
fn an_inviter_gives_no_name_away_that_has_rights() {
    const CREATE: &str = "urn:xmpp:invite#create-account";
    let lists = ["--admins", "nurse@localhost,boss@localhost", "--inviters", "romeo@localhost,usher@localhost"];
    let mut host = Host::new(&["romeo", "nurse"]);
    host.start(&[&["--c2s-tls", "off", "--shards", "2", "--registration", "invite"], &lists[..]].concat());
    let (mut romeo, mut nurse) = (host.client("romeo"), host.client("nurse"));
    for name in ["boss", "BOSS", "usher", "root", "r00t"] {
        let said = command(&mut romeo, CREATE, &[("username", name)]);
        assert!(said.contains("<conflict"), "{name}: {said}");
    }
    let said = command(&mut romeo, CREATE, &[("username", "juliet")]);
    assert!(said.contains("xmpp:juliet@localhost?register;preauth="), "{said}");
    let said = command(&mut nurse, CREATE, &[("username", "boss")]);
    let token = said.split("preauth=").nth(1).and_then(|rest| rest.split(['<', ';']).next()).expect(&said).to_owned();
    let mut client = Client::connect(&host.plain);
    assert!(show(&mut client, &token).contains("type='result'"));
    assert!(register(&mut client, "boss").contains("type='result'"));
    let refused = host.run(&["invite", "--user", "usher", "--contact", "romeo"]);
    assert_eq!(refused.status.code(), Some(5), "{}", String::from_utf8_lossy(&refused.stderr));
    host.good(&["invite", "--user", "usher"]);
    host.stop();
    let lists = "admins = [\"nurse@localhost\"]\ninviters = [\"romeo@localhost\", \"usher@localhost\"]\n";
    std::fs::write(host.data().join("throng.toml"), format!("registration = \"invite\"\n{lists}")).expect("a file");
    let at_rest = |more: &[&str]| host.run(&[&["invite", "--user", "root"], more].concat());
    assert_eq!(at_rest(&["--contact", "romeo"]).status.code(), Some(5), "the same for a store at rest");
    good(&at_rest(&["--contact", "nurse"]));
}

fn opened(server: &Server) -> Client {
    let mut client = Client::connect(&server.plain);
    client.ask(HEADER, "</stream:features>");
    client
}

/// The same commands on a store without a server: a server started later accepts the invitations.
#[test]
fn invitations_are_made_and_revoked_in_a_store_at_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").to_str().expect("a plain path").to_owned();
    let at_rest = |arguments: &[&str]| throng(&[arguments, &["--data", &data]].concat());
    let none = at_rest(&["invite"]);
    assert!(!none.status.success(), "there is no store");
    good(&at_rest(&["user", "add", "romeo@localhost", "--password", "pencil"]));
    let closed = at_rest(&["invite"]);
    let why = String::from_utf8_lossy(&closed.stderr).into_owned();
    assert!(closed.status.code() == Some(2) && why.contains("set registration to invite"), "{why}");
    let nobody = at_rest(&["invite", "--contact", "ghost", "--registration", "open"]);
    assert_eq!(nobody.status.code(), Some(5), "{}", String::from_utf8_lossy(&nobody.stderr));
    let made =
        |more: &[&str]| lines(&at_rest(&[&["invite", "--registration", "open", "--json"], more].concat())).remove(0);
    let (contact, other) = (made(&["--contact", "romeo"]), made(&["--uses", "3"]));
    assert!(text(&contact, "uri").starts_with("xmpp:romeo@localhost?roster;preauth="), "{contact}");
    assert!(text(&contact, "uri").ends_with(";ibr=y"), "{contact}");
    good(&at_rest(&["invite", "revoke", &text(&other, "id")[..10]]));
    let twice = at_rest(&["invite", "revoke", text(&other, "id")]);
    assert_eq!(twice.status.code(), Some(5));
    good(&at_rest(&["store", "check"]));

    let server = Server::start_in(folder, &[]);
    let mut romeo = server.client("romeo", "r");
    romeo.ask("<iq type='get' id='ro'><query xmlns='jabber:iq:roster'/></iq>", "id='ro'");
    let mut refused = Client::connect(&server.plain);
    assert!(show(&mut refused, text(&other, "token")).contains("type='error'"));
    let mut client = Client::connect(&server.plain);
    assert!(show(&mut client, text(&contact, "token")).contains("type='result'"));
    assert!(register(&mut client, "juliet").contains("type='result'"));
    romeo.hear("jid='juliet@localhost' subscription='both'");
}
