//! Reports from users (XEP-0377) and administrators' actions with their clients (XEP-0133), on a
//! running server and on a store without one.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Client, Host, until};

const DRIVERS: [&str; 2] = ["auto", "epoll"];

/// Both tests run a server at the same time: each uses only its assigned ports.
fn flags(driver: &str) -> [&str; 8] {
    ["--c2s-tls", "off", "--driver", driver, "--shards", "2", "--admins", "nurse@localhost"]
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn listed(host: &Host) -> Vec<Value> {
    lines(&host.good(&["report", "list", "--json"]))
}

fn report(client: &mut Client, jid: &str, text: &str) {
    let block = format!(
        "<iq type='set' id='b1'><block xmlns='urn:xmpp:blocking'><item jid='{jid}'><report xmlns='urn:xmpp:reporting:1' \
         reason='urn:xmpp:reporting:spam'><stanza-id xmlns='urn:xmpp:sid:0' by='{jid}' id='7'/><text>{text}</text></report></item></block></iq>"
    );
    assert!(client.ask(&block, "id='b1'").contains("type='result'"));
}

/// An administrator's command with its form filled in; returns the result.
pub(crate) fn command(client: &mut Client, node: &str, fields: &[(&str, &str)]) -> String {
    let ask = |client: &mut Client, rest: &str, inside: &str| {
        let command = format!(
            "<iq type='set' id='c1' to='localhost'><command xmlns='http://jabber.org/protocol/commands' node='{node}'{rest}>{inside}</command></iq>"
        );
        client.ask(&command, "</iq>")
    };
    let begun = ask(client, "", "");
    if !begun.contains("status='executing'") {
        return begun;
    }
    let id = begun.split("sessionid='").nth(1).and_then(|rest| rest.split('\'').next()).expect(&begun);
    let fields: String =
        fields.iter().map(|(var, value)| format!("<field var='{var}'><value>{value}</value></field>")).collect();
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>");
    ask(client, &format!(" sessionid='{id}' action='complete'"), &form)
}

/// XEP-0377 4: everything answered survives `kill -9`; it is listed and dismissed with the server
/// running, stopped, and by a client.
#[test]
fn reports_survive_a_kill_and_are_listed_and_dismissed_everywhere() {
    for driver in DRIVERS {
        let mut host = Host::new(&["romeo", "juliet", "nurse"]);
        let flags = flags(driver);
        host.start(&flags);
        let mut juliet = host.client("juliet");
        report(&mut juliet, "one@evil.example", "first");
        report(&mut juliet, "two@evil.example/x", "second\u{9b}31m");
        host.kill();
        // Without a server.
        let all = listed(&host);
        assert_eq!(all.len(), 2, "{driver}: {all:?}");
        let second = all.iter().find(|row| row["jid"] == "two@evil.example/x").expect("it is there");
        assert_eq!((&second["by"], &second["text"]), (&"juliet@localhost".into(), &"second\u{9b}31m".into()));
        assert_eq!((&second["messages"][0], &second["domain"]), (&"7".into(), &"localhost".into()));
        let table = host.good(&["report", "list"]);
        assert!(table.contains("spam") && table.contains("second\\u{9b}31m") && !table.contains('\u{9b}'), "{table}");
        let id = second["id"].as_str().expect("an id").to_owned();
        assert_eq!(host.good(&["report", "dismiss", &id[..6]]), "1 dismissed\n");
        assert_eq!(host.run(&["report", "dismiss", &id]).status.code(), Some(5), "once");
        host.good(&["store", "check"]);
        // With a running server.
        host.start(&flags);
        let mut romeo = host.client("romeo");
        report(&mut romeo, "three@evil.example", "third");
        assert_eq!(listed(&host).len(), 2);
        assert_eq!(host.good(&["report", "dismiss", "--by", "juliet"]), "1 dismissed\n");
        let mut nurse = host.client("nurse");
        let told = command(&mut nurse, "urn:throng:reports#list", &[("max_items", "10")]);
        assert!(told.contains("<field var='jid'><value>three@evil.example</value></field>"), "{told}");
        let id = listed(&host)[0]["id"].as_str().expect("an id").to_owned();
        let done = command(&mut nurse, "urn:throng:reports#dismiss", &[("ids", &id)]);
        assert!(done.contains("status='completed'"), "{done}");
        assert!(listed(&host).is_empty());
        let again = command(&mut nurse, "urn:throng:reports#dismiss", &[("ids", &id)]);
        assert!(again.contains("<item-not-found"), "{again}");
        let log = host.log();
        assert!(log.contains("order=\"report dismiss\"") && log.contains("admin=\"nurse@localhost/r\""), "{log}");
        host.stop();
    }
}

/// The verbs of `throng ctl`, by a client; actions are logged and shown as an administrator's.
#[test]
fn an_administrator_operates_the_server_by_a_client() {
    for driver in DRIVERS {
        let mut host = Host::new(&["romeo", "nurse"]);
        host.start(&flags(driver));
        let (mut nurse, mut romeo) = (host.client("nurse"), host.client("romeo"));
        let told = command(&mut nurse, "urn:throng:ctl#status", &[]);
        assert!(
            told.contains("<field var='driver' type='text-single'><value>")
                && told.contains("<value>localhost</value>"),
            "{told}"
        );
        assert!(told.contains("<field var='state' type='text-single'><value>running</value>"), "{told}");
        assert!(command(&mut nurse, "urn:throng:ctl#components", &[]).contains("<reported>"));
        assert!(command(&mut nurse, "urn:throng:ctl#limits", &[]).contains("var='refused'"));
        let released = command(&mut nurse, "urn:throng:ctl#release", &[("whom", "all")]);
        assert!(released.contains("<field var='count' type='text-single'><value>0</value>"), "{released}");
        let knobs = command(&mut nurse, "urn:throng:ctl#knobs", &[]);
        assert!(knobs.contains("<value>log_level</value>") && !knobs.contains("<value>admins</value>"), "{knobs}");
        let set = [("key", "shutdown_grace_seconds"), ("value", "3"), ("seconds", "60")];
        let turned = command(&mut nurse, "urn:throng:ctl#set-knob", &set);
        assert!(turned.contains("<field var='to'><value>3s</value></field>"), "{turned}");
        assert!(host.good(&["ctl", "knob", "list"]).contains("(administrator nurse@localhost/r)"));
        for wrong in [[("key", "admins"), ("value", "romeo@localhost")], [("key", "no_such"), ("value", "1")]] {
            let refused = command(&mut nurse, "urn:throng:ctl#set-knob", &wrong);
            assert!(refused.contains("<bad-payload"), "{refused}");
        }
        let said =
            command(&mut nurse, "urn:throng:ctl#say", &[("accountjids", "romeo@localhost"), ("text", "for you")]);
        assert!(said.contains("<field var='count' type='text-single'><value>1</value>"), "{said}");
        romeo.hear("for you");
        assert!(command(&mut nurse, "urn:throng:ctl#reload", &[]).contains("status='completed'"));
        let cut = command(&mut nurse, "urn:throng:ctl#flush-queue", &[("accountjids", "ghost@localhost")]);
        assert!(cut.contains("<item-not-found"), "{cut}");

        // XEP-0133 4.31: announced, cancelled, and carried out.
        let text = [("delay", "60"), ("announcement", "down in a minute")];
        let down = command(&mut nurse, "http://jabber.org/protocol/admin#shutdown", &text);
        assert!(down.contains("status='completed'"), "{down}");
        romeo.hear("down in a minute");
        assert!(host.good(&["ctl", "status"]).contains("stops in "));
        assert!(command(&mut nurse, "urn:throng:ctl#cancel-shutdown", &[]).contains("status='completed'"));
        assert!(command(&mut nurse, "urn:throng:ctl#cancel-shutdown", &[]).contains("<item-not-found"));
        assert!(host.good(&["ctl", "status"]).contains("running"));
        let log = host.log();
        for order in ["knob set", "say", "limits release", "reload", "announce", "shutdown", "shutdown cancel"] {
            let order = format!("order=\"{order}\"");
            assert!(log.lines().any(|l| l.contains(&order) && l.contains("admin=\"nurse@localhost/r\"")), "{order}");
        }
        let tried = |l: &str| l.contains("order=\"knob set\"") && l.contains("of=\"admins") && l.contains("failed");
        assert!(log.lines().any(tried), "{log}");
        host.good(&["ctl", "shutdown", "--after", "1h"]);
        assert_eq!(host.good(&["ctl", "shutdown", "--cancel"]), "shutdown cancelled\n");
        assert_eq!(host.run(&["ctl", "shutdown", "--cancel"]).status.code(), Some(5), "there is none to come");
        let began = Instant::now();
        assert_eq!(host.good(&["ctl", "shutdown", "--after", "2"]), "stops in 2s\n");
        host.ends();
        assert!(began.elapsed() >= Duration::from_secs(2));
        // Its clients have not disconnected.
        until("its last word", || host.log().contains("stopped: "));
    }
}
