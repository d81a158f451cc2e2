//! Administrators' commands run the same code as operators' commands; and operators' view of users'
//! reports.

use throng_engine::limits::REPORT_TEXT_BYTES_MAX;
use throng_engine::orders::{Listing, Order, Outcome, Users, Wanted, Why};
use throng_engine::store::account::Credentials;

use super::*;
use crate::admin::{Page, ReportRow};

fn order(memory: &Memory, what: Wanted) -> Outcome {
    let order = Order { by: "romeo@localhost/r".into(), what };
    crate::admin::users::carry_out(memory, &order)
}

fn why(outcome: Outcome) -> Why {
    match outcome {
        Outcome::Refused { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

fn listing(outcome: Outcome) -> Listing {
    let Outcome::Listing(listing) = outcome else { panic!("{outcome:?}") };
    assert!(listing.rows.iter().all(|row| row.len() == listing.columns.len()), "{listing:?}");
    listing
}

/// XEP-0133.
#[test]
fn orders_of_administrators_are_requests_of_operators_xep0133() {
    let memory = Memory::default();
    let order = |what: Wanted| order(&memory, what);
    let credentials = Box::new(Credentials::derive("s3cret", 4_096, &[7; 16], 0).expect("keys"));
    let put = |create| Wanted::Put { account: "paris@localhost".into(), credentials: credentials.clone(), create };
    assert_eq!(why(order(put(false))), Why::NotFound);
    assert_eq!(order(put(true)), Outcome::Done);
    assert_eq!(why(order(put(true))), Why::Exists);
    assert_eq!(order(put(false)), Outcome::Done);
    assert_eq!(memory.keys("paris").credentials(0), credentials.clone().made_at(0));
    assert_eq!(order(Wanted::Count(Users::Registered)), Outcome::Count(1));
    assert_eq!(order(Wanted::Count(Users::Online)), Outcome::Count(0));
    let list = |of, after: &str, most| match order(Wanted::List { of, after: Some(after.into()), most }) {
        Outcome::Users { jids, next } => (jids, next),
        other => panic!("no list: {other:?}"),
    };
    let (jids, next) = list(Users::Online, "1190", 5);
    assert_eq!((jids.first().map(String::as_str), next.as_deref()), (Some("u1190@localhost"), Some("1195")));
    // Every fifth session is idle, and every second of those is resumable.
    assert_eq!(
        (order(Wanted::Count(Users::Active)), order(Wanted::Count(Users::Idle))),
        (Outcome::Count(960), Outcome::Count(120))
    );
    assert_eq!(list(Users::Idle, "10", 15).0, ["u10@localhost", "u20@localhost"]);
    assert_eq!(list(Users::Active, "10", 3).0, ["u11@localhost", "u12@localhost"]);
    assert_eq!(list(Users::Registered, "a", 5).0, ["paris@localhost"]);
    assert_eq!(list(Users::Disabled, "a", 5).0, ["paris@localhost"]);
    assert_eq!(order(Wanted::Count(Users::Disabled)), Outcome::Count(1));
    let suspend = |suspended| Wanted::Suspend { accounts: vec!["paris@localhost".into()], suspended };
    assert_eq!((order(suspend(true)), order(suspend(false))), (Outcome::Done, Outcome::Done));
    let Outcome::Statistics { sessions, contacts } = order(Wanted::Statistics("paris@localhost".into())) else {
        panic!("no statistics");
    };
    assert_eq!((&*sessions[0].resource, contacts), ("r", 2));
    assert_eq!(why(order(Wanted::Statistics("ghost@localhost".into()))), Why::NotFound);
    let both = || vec!["paris@localhost".into(), "ghost@localhost".into()];
    let failed = vec!["ghost@localhost: there is no ghost@localhost".to_owned()];
    let rest = Box::new(Outcome::Rosters(vec![("paris@localhost".into(), b"<query/>".to_vec())]));
    assert_eq!(order(Wanted::Rosters(both())), Outcome::Partly { rest, failed: failed.clone() });
    let Outcome::Partly { rest, failed: named } = order(Wanted::LastLogins(both())) else { panic!("no times") };
    let Outcome::Facts(facts) = *rest else { panic!("no times") };
    assert_eq!(facts[0], ("accountjids", vec!["paris@localhost".to_owned()]));
    assert_eq!((facts[1].0, named), ("lastlogin", failed.clone()));
    // For one address, its fault is reported; for several, the failed ones.
    assert_eq!(why(order(Wanted::Delete(vec!["ghost@localhost".into()]))), Why::NotFound);
    let some = Wanted::Delete(vec!["ghost@localhost".into(), "paris@localhost".into()]);
    assert_eq!(order(some), Outcome::Partly { rest: Box::new(Outcome::Done), failed });
    assert_eq!(order(Wanted::End(vec!["romeo@localhost".into(), "juliet@localhost/r".into()])), Outcome::Done);
    let Outcome::Invited { uri, .. } = order(Wanted::Invite { local: Some("juliet".into()), befriends: true }) else {
        panic!("no invitation");
    };
    assert_eq!(uri, "xmpp:localhost?register;preauth=abc");
    let Outcome::Applicants { jids } = order(Wanted::ListApplicants) else { panic!("no list") };
    assert_eq!(jids, ["juliet@localhost"]);
    let decide = |approve| Wanted::Decide { accounts: vec!["juliet@localhost".into()], approve };
    assert_eq!((order(decide(true)), order(decide(false))), (Outcome::Done, Outcome::Done));
    for what in [Wanted::Announce("a".into()), Wanted::SetMotd("b".into()), Wanted::DeleteMotd] {
        assert_eq!(order(what), Outcome::Done);
    }
    let calls = memory.calls.lock().expect("whole").clone();
    let asked = calls.iter().find(|call| call.starts_with("invite ")).expect("it was asked for");
    assert!(
        asked.contains("user: Some(\"juliet@localhost\"), inviter: Some(\"romeo@localhost\"), befriends: true"),
        "{asked}"
    );
    assert!(calls.contains(&"decide juliet@localhost true".to_owned()));
    let expected = ["kick romeo@localhost None", "kick juliet@localhost/r None", "announce a true None"];
    assert!(expected.iter().all(|call| calls.contains(&(*call).to_owned())), "{calls:?}");
    assert!(calls.contains(&"announce b true Some(2592000s)".to_owned()) && calls.contains(&"withdraw".to_owned()));
}

/// The verbs of `throng ctl`.
#[test]
fn administrators_see_and_do_what_operators_do() {
    let memory = Memory::default();
    let order = |what: Wanted| order(&memory, what);
    let Outcome::Facts(facts) = order(Wanted::Status) else { panic!("no state") };
    let fact = |name: &str| facts.iter().find(|(known, _)| *known == name).map(|(_, values)| values.join("; "));
    assert_eq!((fact("state"), fact("version")), (Some("running".into()), Some("9.9".into())));
    assert_eq!(fact("listeners").as_deref(), Some("127.0.0.1:5222 (STARTTLS)"));
    assert_eq!((fact("knobs-set").as_deref(), fact("faults")), (Some("log_level = debug"), None));
    let components = listing(order(Wanted::ListComponents));
    assert_eq!(components.rows[0][..5], ["echo.localhost", "connected", "127.0.0.1:40000", "0", "12"]);
    assert_eq!(components.rows[1][..3], ["irc.localhost", "away", ""]);
    let limits = listing(order(Wanted::ListLimits));
    assert_eq!((limits.more, &*limits.rows[0][1]), (3, "192.0.2.7 romeo@localhost"));
    assert_eq!(limits.rows[0][3], "2023-11-14T22:14:20Z");
    let knobs = listing(order(Wanted::ListKnobs));
    assert_eq!(knobs.rows.iter().map(|row| &*row[0]).collect::<Vec<_>>(), ["log_level", "shutdown_grace_seconds"]);
    let set = |key: &str, value: Option<&str>, for_s| {
        order(Wanted::SetKnob { key: key.into(), value: value.map(Into::into), for_s })
    };
    assert_eq!(listing(set("log_level", Some("trace"), Some(60))).rows[0][..3], ["log_level", "info", "trace"]);
    assert_eq!(listing(set("log_level", None, None)).rows.len(), 0);
    assert_eq!(why(set("admins", Some("eve@localhost"), None)), Why::Invalid, "only at the host");
    assert_eq!(why(set("admins", None, None)), Why::Invalid);
    for whom in ["192.0.2.7", "romeo@localhost", "all"] {
        assert_eq!(order(Wanted::Release(whom.into())), Outcome::Count(4));
    }
    assert_eq!(order(Wanted::Say { to: vec!["a@localhost".into()], text: "hi".into() }), Outcome::Count(3));
    assert_eq!(order(Wanted::FlushQueue(vec!["a@localhost/r".into()])), Outcome::Done);
    assert_eq!(order(Wanted::FlushWaiting(vec!["a@localhost".into()])), Outcome::Done);
    let Outcome::Facts(reloaded) = order(Wanted::Reload) else { panic!("not reloaded") };
    assert_eq!(reloaded[0], ("applied", vec!["tls_certificate".to_owned()]));
    assert_eq!(order(Wanted::Shutdown { after_s: 60, text: Some("bye".into()) }), Outcome::Done);
    assert_eq!(order(Wanted::CancelShutdown), Outcome::Done);
    let calls = memory.calls.lock().expect("whole").clone();
    assert_eq!(
        calls,
        [
            "set log_level trace Some(60s) by administrator romeo@localhost/r",
            "reset Some(\"log_level\")",
            "release Address(192.0.2.7)",
            "release Account(\"romeo@localhost\")",
            "release All",
            "say hi These([\"a@localhost\"])",
            "flush a@localhost/r",
            "empty a@localhost",
            "announce bye true None",
            "shutdown None in 60s",
            "shutdown cancel",
        ]
    );
}

/// A page of reports is one stanza: the remainder is on the next page.
#[test]
fn administrators_list_and_dismiss_reports_xep0377() {
    let memory = Memory::default();
    let order = |what: Wanted| order(&memory, what);
    let page = listing(order(Wanted::ListReports { after: None, most: 50 }));
    assert_eq!(page.columns, ["id", "time", "by", "jid", "reason", "text", "messages"]);
    assert_eq!(page.rows[0][1..4], ["1970-01-01T00:00:03Z", "juliet@localhost", "one@evil.example/x"]);
    assert_eq!((page.rows.len(), page.rows[0][6].as_str()), (2, "1 2"));
    assert_eq!(page.next.as_deref(), Some("localhost 1 aaacaaacaaacaaac"));
    let last = listing(order(Wanted::ListReports { after: page.next.map(Into::into), most: 50 }));
    assert_eq!((last.rows.len(), last.next), (1, None));
    assert_eq!(order(Wanted::DismissReports(vec!["aaabaaabaaabaaab".into()])), Outcome::Done);
    assert_eq!(*memory.calls.lock().expect("whole"), ["dismiss aaabaaabaaabaaab"]);

    let row = |n: u64| ReportRow {
        id: format!("{n:016x}"),
        domain: "localhost".into(),
        at_s: 500 - n,
        jid: "x".repeat(3_000),
        text: "y".repeat(REPORT_TEXT_BYTES_MAX),
        ..ReportRow::default()
    };
    let page = crate::admin::seen::reports(Page { rows: (0..200).map(row).collect(), next: None });
    let bytes: usize = page.rows.iter().flatten().map(String::len).sum();
    assert!(bytes < 80 << 10 && page.rows.len() > 10, "{bytes}");
    assert_eq!(page.next, Some(row(page.rows.len() as u64 - 1).place()), "it goes on behind the last one");
}

#[test]
fn reports_are_listed_and_dismissed_by_what_is_asked_for() {
    let bench = Bench::new();
    let listed = bench.run("report list");
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!((listed.exit, lines.len()), (Exit::Done, 4), "{}", listed.out);
    assert!(lines[0].starts_with("ID ") && lines[1].starts_with("aaabaaab "), "{}", listed.out);
    assert!(lines[1].contains("juliet@localhost") && lines[1].contains("spam    one@evil.example/x"), "{}", lines[1]);
    assert!(lines[1].ends_with("it's \\u{9b}31m\\n\"spam\""), "nothing that a terminal would obey: {}", lines[1]);
    assert!(lines[2].starts_with("bbbbbbbb ") && lines[3].starts_with("aaacaaac "), "the latest first");
    assert_eq!(bench.run("report list --by juliet").out.lines().count(), 3);
    assert_eq!(bench.run("report list --of evil.example --json").out.lines().count(), 3);
    assert_eq!(bench.run("report list --of one@evil.example --json").out.lines().count(), 1);
    let one = bench.run("report list --of two@evil.example --json").out;
    let value: serde_json::Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!((&value["id"], &value["messages"][1]), (&"aaacaaacaaacaaac".into(), &"2".into()));

    assert_eq!(bench.run("report dismiss bbbb AAAC --json").out, "{\"dismissed\":2,\"done\":\"dismissed\"}\n");
    assert_eq!(bench.run("report dismiss --by juliet@localhost").out, "2 dismissed\n");
    assert_eq!(bench.run("report dismiss --all").out, "3 dismissed\n");
    for (line, exit) in [
        ("report dismiss", Exit::Usage),
        ("report dismiss aa", Exit::Usage),
        ("report dismiss cccc", Exit::NotThere),
        ("report dismiss --by nobody", Exit::NotThere),
        ("report dismiss --all --by juliet", Exit::Usage),
        ("report dismiss bbbb --of evil.example", Exit::Usage),
    ] {
        assert_eq!(bench.run(line).exit, exit, "{line}");
    }
    let calls: Vec<String> = bench.calls().into_iter().filter(|call| call.starts_with("dismiss")).collect();
    assert_eq!(
        calls,
        [
            "dismiss bbbbbbbbbbbbbbbb aaacaaacaaacaaac",
            "dismiss aaabaaabaaabaaab bbbbbbbbbbbbbbbb",
            "dismiss aaabaaabaaabaaab bbbbbbbbbbbbbbbb aaacaaacaaacaaac",
        ]
    );
}
