use proptest::prelude::*;

use super::answer::Outcome;
use super::message::{matters, text};
use super::row::{Registration, Registrations};
use crate::limits::{PUSH_BACKOFF_S, PUSH_BACKOFF_S_MAX, PUSH_FAILURES_MAX, PUSH_REGISTRATIONS_MAX};
use crate::wire::error::StanzaCondition;
use crate::wire::written::read_back;

fn registration(jid: &str, node: &str) -> Registration {
    Registration {
        jid: jid.into(),
        node: node.into(),
        device: 7,
        options: b"<x/>".as_slice().into(),
        failures: 0,
        until_s: 0,
    }
}

#[test]
fn a_row_reads_back() {
    let mut all = Registrations::default();
    assert!(all.row().is_empty());
    all.put(registration("a@b", "n"));
    all.put(registration("a@b", ""));
    all.failed("a@b", "n", 100);
    assert_eq!(Registrations::read(&all.row()), Some(all.clone()));
    for wrong in [&b""[..], &[9], &all.row()[..30]] {
        assert_eq!(Registrations::read(wrong), None);
    }
}

proptest! {
    #[test]
    fn whatever_a_row_is_it_is_read_or_not(row in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Some(all) = Registrations::read(&row).filter(|all| !all.is_empty()) {
            prop_assert_eq!(all.row(), row);
        }
    }
}

#[test]
fn a_node_is_registered_once_and_the_oldest_of_too_many_goes_xep_0357_5() {
    let mut all = Registrations::default();
    for n in 0..=PUSH_REGISTRATIONS_MAX {
        all.put(registration("a@b", &n.to_string()));
        all.put(registration("a@b", "0"));
    }
    let nodes: Vec<_> = all.clone().into_inner().into_iter().map(|of| of.node).collect();
    assert_eq!(nodes.len(), PUSH_REGISTRATIONS_MAX);
    assert!(nodes.contains(&"0".into()) && !nodes.contains(&"1".into()), "{nodes:?}");
    all.remove("a@b", Some("0"));
    assert_eq!(all.clone().into_inner().len(), PUSH_REGISTRATIONS_MAX - 1);
    all.remove("a@c", None);
    assert!(!all.is_empty());
    all.remove("a@b", None);
    assert!(all.is_empty(), "XEP-0357 6: all of the service");
}

#[test]
fn failures_wait_longer_each_time_and_end_a_registration_xep_0357_7_1() {
    let mut all = Registrations::default();
    all.put(registration("a@b", "n"));
    for n in 1..PUSH_FAILURES_MAX {
        assert!(!all.failed("a@b", "n", 1_000));
        let until_s = all.clone().into_inner()[0].until_s - 1_000;
        assert_eq!(until_s, (PUSH_BACKOFF_S << (n - 1)).min(PUSH_BACKOFF_S_MAX));
    }
    all.put(registration("a@b", "n"));
    assert_eq!(all.clone().into_inner()[0].failures, PUSH_FAILURES_MAX - 1, "it is the service that fails");
    let mut works = all.clone();
    works.worked("a@b", "n");
    assert!(!works.failed("a@b", "n", 1_000), "in a row");
    assert!(all.failed("a@b", "n", 1_000) && all.is_empty());
    assert!(!all.failed("a@b", "n", 1_000));
}

#[test]
fn what_may_pass_is_told_from_what_does_not_xep_0357_7_1() {
    use StanzaCondition::*;
    let outcome = |kind: &str, inside: &str| {
        let xml = format!(
            "<iq type='error' id='1' from='a@b' to='b'><pubsub xmlns='p'/><error type='{kind}'>{inside}</error></iq>"
        );
        read_back(xml.as_bytes(), Outcome::of).expect("a stanza")
    };
    let condition = |name: &str| format!("<{name} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>");
    for (kind, name, expected) in [
        ("cancel", "item-not-found", Outcome::Never(ItemNotFound)),
        ("auth", "forbidden", Outcome::Never(Forbidden)),
        ("auth", "not-authorized", Outcome::Never(NotAuthorized)),
        ("modify", "bad-request", Outcome::Never(BadRequest)),
        ("cancel", "conflict", Outcome::Never(Conflict)),
        ("cancel", "gone", Outcome::Never(Gone)),
        ("wait", "item-not-found", Outcome::Later(Some(ItemNotFound))),
        ("wait", "resource-constraint", Outcome::Later(Some(ResourceConstraint))),
        ("cancel", "service-unavailable", Outcome::Later(Some(ServiceUnavailable))),
        ("cancel", "remote-server-not-found", Outcome::Later(Some(RemoteServerNotFound))),
    ] {
        assert_eq!(outcome(kind, &condition(name)), expected, "{kind} {name}");
    }
    assert_eq!(outcome("cancel", "<gone xmlns='other'/>"), Outcome::Later(None));
    assert_eq!(read_back(b"<iq type='result' id='1'/>", Outcome::of), Some(Outcome::Took));
}

#[test]
fn a_device_is_woken_for_what_somebody_wants_to_see() {
    let worth = |inside: &str| {
        let xml = format!("<message from='a@b' to='c@d' type='chat'>{inside}</message>");
        read_back(xml.as_bytes(), matters).expect("a stanza")
    };
    const RECEIPT: &str = "<received xmlns='urn:xmpp:receipts' id='1'/>";
    const ACTIVE: &str = "<active xmlns='http://jabber.org/protocol/chatstates'/>";
    for silent in
        [RECEIPT, "<displayed xmlns='urn:xmpp:chat-markers:0' id='1'/><store xmlns='urn:xmpp:hints'/>", ACTIVE]
    {
        assert!(!worth(silent), "{silent}");
    }
    for seen in [
        "<body>hi</body>",
        "<body>hi</body><active xmlns='http://jabber.org/protocol/chatstates'/>",
        "",
        "<encrypted xmlns='eu.siacs.conversations.axolotl'/><store xmlns='urn:xmpp:hints'/>",
        "<propose xmlns='urn:xmpp:jingle-message:0' id='1'/>",
    ] {
        assert!(worth(seen), "{seen}");
    }
    let body = |inside: &str| {
        let xml = format!("<message from='a@b' to='c@d'>{inside}</message>");
        read_back(xml.as_bytes(), text).expect("a stanza")
    };
    assert_eq!(body("<body>a &lt; b</body>").as_deref(), Some("a < b"));
    assert_eq!(body("<subject>a</subject>"), None);
    let long = body(&format!("<body>{}</body>", "\u{e9}".repeat(1_000))).expect("a body");
    assert_eq!(long.len(), crate::limits::PUSH_BODY_BYTES_MAX);
}
