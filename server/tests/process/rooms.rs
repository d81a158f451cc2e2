//! Rooms as operators see and change them, with a running server and with a stopped one.

use serde_json::Value;

use crate::support::{Client, Host, until};

const CAVE: &str = "cave@conference.localhost";
const FLAGS: [&str; 6] = ["--c2s-tls", "off", "--driver", "epoll", "--shards", "2"];

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn shown(host: &Host) -> Value {
    lines(&host.good(&["room", "show", "cave", "--json"])).remove(0)
}

fn enter(client: &mut Client, room: &str, nick: &str) -> String {
    let presence = format!("<presence to='{room}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
    client.ask(&presence, "</presence>")
}

fn configure(client: &mut Client, room: &str) {
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x>";
    let ask = format!(
        "<iq type='set' id='c1' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query></iq>"
    );
    assert!(client.ask(&ask, "id='c1'").contains("type='result'"));
}

/// XEP-0045 10.2, 10.9: what an operator does, and what occupants see of it.
#[test]
fn rooms_are_listed_shown_configured_closed_and_destroyed() {
    let mut host = Host::new(&["romeo", "juliet"]);
    // More than a page, by import.
    let room = |n: usize| {
        let form = "<x xmlns='jabber:x:data' type='submit'/>";
        format!("<room xmlns='urn:throng:room:0' name='room{n}'>{form}</room>")
    };
    let rooms: String = (0..120).map(room).collect();
    let file = host.data().join("in.xml");
    let text =
        format!("<server-data xmlns='urn:xmpp:pie:0'><host jid='conference.localhost'>{rooms}</host></server-data>");
    std::fs::write(&file, text).expect("written");
    let imported = host.good(&["room", "import", file.to_str().expect("text"), "--json"]);
    assert_eq!(lines(&imported)[0]["rooms"], 120, "{imported}");
    host.start(&FLAGS);
    let (mut romeo, mut juliet) = (host.client("romeo"), host.client("juliet"));
    enter(&mut romeo, CAVE, "romeo");
    configure(&mut romeo, CAVE);
    assert!(enter(&mut juliet, CAVE, "juliet").contains("from='cave@conference.localhost/romeo'"));
    let said = "<message type='groupchat' to='cave@conference.localhost'><body>who is there</body></message>";
    juliet.ask(said, "who is there");
    // All pages, each room once.
    let mut all: Vec<String> =
        lines(&host.good(&["room", "list", "--json"])).iter().map(|row| row["jid"].to_string()).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((count, all.len()), (121, 121));
    let row = shown(&host);
    assert_eq!((&row["occupants"], &row["sessions"], &row["members"]), (&2.into(), &2.into(), &1.into()));
    assert!(row["last_message_s"].as_u64().is_some_and(|at_s| at_s > 1_700_000_000), "{row}");
    assert_eq!((&row["owners"][0], &row["persistent"]), (&"romeo@localhost".into(), &true.into()));
    // Each is told what is wrong before anything changes.
    let wrong = host.run(&["room", "config", "cave", "whois=nobody"]);
    assert_eq!(wrong.status.code(), Some(2));
    let text = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(text.contains("whois cannot be `nobody`; it can be moderators, anyone"), "{text}");
    assert_eq!(host.run(&["room", "config", "hall", "whois=anyone"]).status.code(), Some(5));
    let set = ["room", "config", CAVE, "roomname=The cave", "passwordprotectedroom=1", "roomsecret=newt"];
    assert_eq!(host.good(&set), format!("configured {CAVE}\n"));
    romeo.hear("<status code='104'/>");
    let listed = host.good(&["room", "config", "cave"]);
    assert!(listed.contains("The cave") && listed.contains("(hidden)") && !listed.contains("newt"), "{listed}");
    host.good(&["room", "config", "cave", "passwordprotectedroom=0"]);
    host.good(&["room", "close", "cave", "--for", "1h"]);
    assert!(shown(&host)["closed_s"].as_u64().is_some_and(|left_s| left_s > 3_000));
    juliet.send(&format!("<presence type='unavailable' to='{CAVE}/juliet'/>"));
    assert!(enter(&mut juliet, CAVE, "juliet").contains("type='unavailable'"));
    juliet.hear("<registration-required");
    host.good(&["room", "open", "cave"]);
    host.good(&["ctl", "knob", "set", "room_members_only", "true", "--for", "1h"]);
    enter(&mut juliet, CAVE, "juliet");
    juliet.hear("<registration-required");
    // What was done is logged, by name and without secrets.
    until("a line of the log", || host.log().contains("room config"));
    let log = host.log();
    assert!(log.contains("room close") && log.contains("roomsecret") && !log.contains("newt"), "{log}");
    // The same without a server, as far as it reads.
    host.stop();
    let row = shown(&host);
    assert_eq!((&row["name"], &row["occupants"]), (&"The cave".into(), &Value::Null));
    assert_eq!(lines(&host.good(&["room", "list", "--json"])).len(), 121);
    let file = host.data().join("out.xml");
    let exported = host.good(&["room", "export", file.to_str().expect("text"), "cave", "room7"]);
    assert!(exported.starts_with("rooms                        2\naffiliations                 1\n"), "{exported}");
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(text.contains("<value>The cave</value>") && text.contains("jid='romeo@localhost'"), "{text}");
    assert_eq!(host.run(&["room", "destroy", "cave"]).status.code(), Some(2), "it needs a server");
    host.start(&FLAGS);
    let mut romeo = host.client("romeo");
    enter(&mut romeo, CAVE, "romeo");
    host.good(&["room", "destroy", "cave", "--reason", "moved", "--alternate", "hall"]);
    romeo.hear("<destroy jid='hall@conference.localhost'><reason>moved</reason></destroy>");
    assert_eq!(host.run(&["room", "show", "cave"]).status.code(), Some(5));
    host.stop();
    host.good(&["store", "check"]);
}
