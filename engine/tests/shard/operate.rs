//! `throng ctl` operations as commands for administrators (XEP-0050, XEP-0133).

use throng_engine::io::Input;
use throng_engine::orders::{Listing, Outcome, Wanted};
use throng_sim::host::said;

use crate::adhoc::{Fields, command_at, full, host, order, submit_at};

const CTL: &str = "urn:throng:ctl#";
const SHUTDOWN: &str = "http://jabber.org/protocol/admin#shutdown";

/// Commands without forms.
const AT_ONCE: [(&str, Wanted); 6] = [
    ("status", Wanted::Status),
    ("components", Wanted::ListComponents),
    ("limits", Wanted::ListLimits),
    ("knobs", Wanted::ListKnobs),
    ("reload", Wanted::Reload),
    ("cancel-shutdown", Wanted::CancelShutdown),
];

/// Nodes of commands with forms.
const WITH_FORMS: [&str; 8] = [
    "urn:throng:ctl#release",
    "urn:throng:ctl#set-knob",
    "urn:throng:ctl#say",
    "urn:throng:ctl#flush-queue",
    "urn:throng:ctl#flush-waiting",
    "urn:throng:reports#list",
    "urn:throng:reports#dismiss",
    SHUTDOWN,
];

/// XEP-0133 7: a user who is not an administrator is refused, and no order is given.
#[test]
fn operators_commands_are_for_administrators_alone_xep0133_7() {
    let (mut host, romeo, juliet) = host();
    let at_once = AT_ONCE.iter().map(|(name, _)| format!("{CTL}{name}"));
    for node in at_once.chain(WITH_FORMS.map(str::to_owned)) {
        for (rest, inside) in [("", ""), (" action='execute'", ""), (" sessionid='x' action='complete'", "")] {
            let effects = host.ask(juliet, &command_at(&node, rest, inside));
            assert!(said(&effects).contains("<forbidden ") && order(&effects).is_none(), "{node}{rest}");
        }
        assert!(!said(&host.ask(romeo, &command_at(&node, "", ""))).contains("<forbidden "), "{node}");
    }
}

/// XEP-0050 2.4: without a form a command is carried out at once.
#[test]
fn what_needs_no_form_is_ordered_at_once() {
    let (mut host, romeo, _) = host();
    for (name, wanted) in AT_ONCE {
        let effects = host.ask(romeo, &command_at(&format!("{CTL}{name}"), " action='execute'", ""));
        let (token, order) = order(&effects).expect("an order");
        assert_eq!((&*order.by, &order.what), (&*full(&mut host, romeo), &wanted), "{name}");
        let answer = said(&host.turn(Input::Ordered { token, outcome: Outcome::Done }));
        assert!(answer.contains("status='completed'"), "{name}: {answer}");
    }
    let effects = host.ask(romeo, &command_at(&format!("{CTL}status"), "", ""));
    let (token, _) = order(&effects).expect("an order");
    let facts = vec![("state", vec!["running".to_owned()]), ("listeners", vec!["a&b".into(), "c".into()])];
    let answer = said(&host.turn(Input::Ordered { token, outcome: Outcome::Facts(facts) }));
    let fields = "<value>urn:throng:ctl</value></field><field var='state' type='text-single'><value>running</value></field>\
                  <field var='listeners' type='text-multi'><value>a&amp;b</value><value>c</value></field></x></command>";
    assert!(answer.contains(fields), "{answer}");
}

/// XEP-0004 3.4: rows are items, with their fields reported first.
#[test]
fn rows_are_told_as_items_xep0004_3_4() {
    let (mut host, romeo, _) = host();
    let effects = host.ask(romeo, &command_at(&format!("{CTL}limits"), "", ""));
    let (token, _) = order(&effects).expect("an order");
    let rows = vec![vec!["pair-logins".to_owned(), "<who>".into()], vec!["disk".into(), String::new()]];
    let listing = Listing { columns: &["limit", "who"], rows, next: Some("there".into()), more: 3 };
    let answer = said(&host.turn(Input::Ordered { token, outcome: Outcome::Listing(listing) }));
    let told = "<reported><field var='limit' label='limit' type='text-single'/><field var='who' label='who' \
                type='text-single'/></reported><item><field var='limit'><value>pair-logins</value></field>\
                <field var='who'><value>&lt;who></value></field></item><item><field var='limit'><value>disk</value></field>\
                <field var='who'><value></value></field></item><field var='after' type='text-single'><value>there</value></field>\
                <field var='more' type='text-single'><value>3</value></field></x>";
    assert!(answer.replace("&gt;", ">").contains(told), "{answer}");
}

/// Each form, and its order.
#[test]
fn each_form_leads_to_an_order() {
    let (mut host, romeo, _) = host();
    let jids = |jids: &[&str]| jids.iter().map(|jid| (*jid).into()).collect::<Vec<Box<str>>>();
    let knob =
        |value: Option<&str>, for_s| Wanted::SetKnob { key: "log_level".into(), value: value.map(Into::into), for_s };
    let id = "00000000000000ff";
    let cases: [(&str, Fields<'_>, Wanted); 15] = [
        ("urn:throng:ctl#release", &[("whom", &["all"])], Wanted::Release("all".into())),
        ("urn:throng:ctl#release", &[("whom", &["2001:DB8::1"])], Wanted::Release("2001:db8::1".into())),
        ("urn:throng:ctl#release", &[("whom", &["Romeo@localhost"])], Wanted::Release("romeo@localhost".into())),
        ("urn:throng:ctl#set-knob", &[("key", &["log_level"]), ("value", &["debug"])], knob(Some("debug"), None)),
        (
            "urn:throng:ctl#set-knob",
            &[("key", &["log_level"]), ("value", &["debug"]), ("seconds", &["60"])],
            knob(Some("debug"), Some(60)),
        ),
        ("urn:throng:ctl#set-knob", &[("key", &["log_level"]), ("value", &[""])], knob(None, None)),
        (
            "urn:throng:ctl#say",
            &[("accountjids", &["juliet@localhost", "nurse@localhost/k"]), ("text", &["a", "b"])],
            Wanted::Say { to: jids(&["juliet@localhost", "nurse@localhost/k"]), text: "a\nb".into() },
        ),
        (
            "urn:throng:ctl#flush-queue",
            &[("accountjids", &["juliet@localhost/b"])],
            Wanted::FlushQueue(jids(&["juliet@localhost/b"])),
        ),
        (
            "urn:throng:ctl#flush-waiting",
            &[("accountjids", &["Juliet@localhost"])],
            Wanted::FlushWaiting(jids(&["juliet@localhost"])),
        ),
        ("urn:throng:reports#list", &[], Wanted::ListReports { after: None, most: 50 }),
        (
            "urn:throng:reports#list",
            &[("max_items", &["7"]), ("after", &["localhost 5 00000000000000ff"])],
            Wanted::ListReports { after: Some("localhost 5 00000000000000ff".into()), most: 7 },
        ),
        ("urn:throng:reports#list", &[("max_items", &["100000"])], Wanted::ListReports { after: None, most: 50 }),
        ("urn:throng:reports#dismiss", &[("ids", &[id, "", id])], Wanted::DismissReports(jids(&[id, id]))),
        // XEP-0133 4.31.
        (SHUTDOWN, &[], Wanted::Shutdown { after_s: 30, text: None }),
        (
            SHUTDOWN,
            &[("delay", &["120"]), ("announcement", &["down in", "two minutes"])],
            Wanted::Shutdown { after_s: 120, text: Some("down in\ntwo minutes".into()) },
        ),
    ];
    for (node, fields, wanted) in cases {
        let (token, order) = order(&submit_at(&mut host, romeo, node, fields)).expect("an order");
        assert_eq!(order.what, wanted, "{node}");
        let answer = said(&host.turn(Input::Ordered { token, outcome: Outcome::Done }));
        assert!(answer.contains("status='completed'"), "{node}: {answer}");
    }
    let begun = said(&host.ask(romeo, &command_at(SHUTDOWN, "", "")));
    let option = "<option label='2 minutes'><value>120</value></option>";
    assert!(begun.contains("var='delay'") && begun.contains(option), "XEP-0133 4.31: {begun}");
}

/// XEP-0050 4.4: invalid input is refused before any order is given.
#[test]
fn what_cannot_be_meant_so_is_no_order() {
    let (mut host, romeo, _) = host();
    let long = "x".repeat(1_025);
    let longer = "x".repeat(8_193);
    let many = vec!["00000000000000ff"; 101];
    let cases: [(&str, Fields<'_>, &str); 14] = [
        ("urn:throng:ctl#release", &[("whom", &["@"])], "<jid-malformed "),
        ("urn:throng:ctl#release", &[("whom", &["localhost"])], "<jid-malformed "),
        ("urn:throng:ctl#release", &[("whom", &["a@b", "c@d"])], "<bad-payload "),
        ("urn:throng:ctl#set-knob", &[("value", &["debug"])], "<bad-payload "),
        ("urn:throng:ctl#set-knob", &[("key", &["log_level"]), ("value", &[&long])], "<bad-payload "),
        ("urn:throng:ctl#set-knob", &[("key", &["k"]), ("value", &["v"]), ("seconds", &["-1"])], "<bad-payload "),
        ("urn:throng:ctl#set-knob", &[("key", &["k"]), ("seconds", &["60"])], "<bad-payload "),
        ("urn:throng:ctl#say", &[("accountjids", &["a@b"]), ("text", &[&longer])], "<bad-payload "),
        ("urn:throng:reports#list", &[("max_items", &["x"])], "<bad-payload "),
        ("urn:throng:reports#list", &[("after", &[&longer])], "<bad-payload "),
        ("urn:throng:reports#dismiss", &[("ids", &["ff"])], "<bad-payload "),
        ("urn:throng:reports#dismiss", &[("ids", &many)], "<bad-payload "),
        (SHUTDOWN, &[("delay", &["0"])], "<bad-payload "),
        (SHUTDOWN, &[("announcement", &[&longer])], "<bad-payload "),
    ];
    for (node, fields, error) in cases {
        let effects = submit_at(&mut host, romeo, node, fields);
        let answer = said(&effects);
        assert!(answer.contains(error) && order(&effects).is_none(), "{node} {answer}");
    }
}
