//! Tests of roster changes and of the roster's XML, by the clauses of RFC 6121.

use super::super::iq::RosterRequest as Request;
use super::super::roster_iq::parse;
use super::*;
use crate::store::{OpView, Row, Table};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const ROMEO: &str = "romeo@example.net";
const JULIET: &str = "juliet@example.com";

fn bare(jid: &str) -> Option<Box<str>> {
    (!jid.contains('/') && !jid.is_empty()).then(|| jid.to_lowercase().into())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn item(jid: &str, name: &str, groups: &[&str]) -> SetItem {
    SetItem { jid: jid.into(), name: name.into(), groups: groups.iter().map(|&group| group.into()).collect() }
}

/// The rows of the roster table as a store would hold them after the batches.
#[derive(Default)]
struct Rows(BTreeMap<Vec<u8>, Vec<u8>>);

impl Rows {
    fn apply(&mut self, batch: &mut Batch) {
        for op in batch.iter() {
            match op {
                OpView::Put { table: Table::Roster, sort, value, .. } => {
                    self.0.insert(sort.to_vec(), value.to_vec());
                }
                OpView::Delete { table: Table::Roster, sort, .. } => {
                    self.0.remove(sort);
                }
                other => panic!("not a roster's write: {other:?}"),
            }
        }
        batch.clear();
    }

    fn load(&self) -> Roster {
        let rows = self.0.iter().map(|(sort, value)| Row { sort: sort[..].into(), value: value[..].into() }).collect();
        Roster::load(&Found::Rows { rows, more: false }).expect("rows that a roster has written")
    }
}

#[test]
fn requests_are_read_by_rfc_6121_2_3() {
    let ns = "xmlns='jabber:iq:roster'";
    let cases: &[(&str, bool, Result<Request, Condition>)] = &[
        ("<query NS/>", false, Ok(Request::Get { ver: None })),
        ("<query NS ver=''/>", false, Ok(Request::Get { ver: Some("".into()) })),
        ("<query NS ver='7'/>", false, Ok(Request::Get { ver: Some("7".into()) })),
        (
            "<query NS><item jid='Nurse@example.com' name='Nurse' subscription='both'><group>Servants</group></item></query>",
            true,
            Ok(Request::Set(item("nurse@example.com", "Nurse", &["Servants"]))),
        ),
        // 2.1.2.5, 2.5.1: the subscription attribute is ignored except for "remove".
        ("<query NS><item jid='a@x' subscription='remove'/></query>", true, Ok(Request::Remove("a@x".into()))),
        // 2.3.3: not exactly one item.
        ("<query NS/>", true, Err(Condition::BadRequest)),
        ("<query NS><item jid='a@x'/><item jid='b@x'/></query>", true, Err(Condition::BadRequest)),
        // 2.3.3: a duplicate group; a group without a name.
        ("<query NS><item jid='a@x'><group>A</group><group>A</group></item></query>", true, Err(Condition::BadRequest)),
        ("<query NS><item jid='a@x'><group/></item></query>", true, Err(Condition::NotAcceptable)),
        // 2.1.2.3: an item needs a bare JID.
        ("<query NS><item name='A'/></query>", true, Err(Condition::BadRequest)),
        ("<query NS><item jid='a@x/res'/></query>", true, Err(Condition::BadRequest)),
        ("<query xmlns='other'/>", false, Err(Condition::BadRequest)),
        // An item of another namespace is ignored.
        ("<query NS><item xmlns='other' jid='a@x'/></query>", true, Err(Condition::BadRequest)),
    ];
    for (payload, set, expected) in cases {
        assert_eq!(&parse(payload.replace("NS", ns).as_bytes(), *set, bare), expected, "{payload}");
    }
}

#[test]
fn a_set_is_pushed_and_listed() {
    // RFC 6121 2.3.2, 2.4.2: a set is pushed with the server's data; 2.1.4: and a get lists it.
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    let push = roster.set(JULIET, &item(ROMEO, "Romeo & co", &["Friends", "Lovers"]), &mut batch).unwrap();
    let listed = "<item jid='romeo@example.net' name='Romeo &amp; co' subscription='none'>\
                  <group>Friends</group><group>Lovers</group></item>";
    assert_eq!(text(&push), format!("<query xmlns='jabber:iq:roster' ver='2'>{listed}</query>"));
    let push = roster.set(JULIET, &item("nurse@example.com", "", &[]), &mut batch).unwrap();
    let nurse = "<item jid='nurse@example.com' subscription='none'/>";
    assert_eq!(text(&push), format!("<query xmlns='jabber:iq:roster' ver='3'>{nurse}</query>"));
    let whole = roster.get(None).payload;
    assert_eq!(text(&whole), format!("<query xmlns='jabber:iq:roster' ver='3'>{nurse}{listed}</query>"));
}

#[test]
fn a_set_keeps_the_subscription() {
    // RFC 6121 2.4.2: the client sets name and groups, the server the rest.
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    roster.sent(JULIET, ROMEO, Kind::Subscribe, &mut batch).unwrap();
    roster.received(JULIET, ROMEO, Kind::Subscribe, 5, b"<presence/>", &mut batch);
    let push = roster.set(JULIET, &item(ROMEO, "R", &[]), &mut batch).unwrap();
    assert!(text(&push).contains("<item jid='romeo@example.net' name='R' subscription='none' ask='subscribe'/>"));
    assert_eq!(roster.state(ROMEO), State::NonePendingOutIn);
    assert_eq!(roster.requests().collect::<Vec<_>>(), [(ROMEO, Some(&b"<presence/>"[..]))]);
}

#[test]
fn limits_are_kept() {
    // RFC 6121 2.3.3: not-acceptable for a name or group that is too long; own JID: not-allowed.
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    let long = "x".repeat(ROSTER_NAME_BYTES_MAX + 1);
    let many: Vec<String> = (0..=ROSTER_GROUPS_MAX).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let cases = [
        (item(ROMEO, &long, &[]), Limit::RosterItem.into()),
        (item(ROMEO, "", &[&long[..ROSTER_GROUP_BYTES_MAX + 1]]), Limit::RosterItem.into()),
        (item(ROMEO, "", &many), Limit::RosterItem.into()),
        (item(JULIET, "", &[]), Condition::NotAllowed.into()),
    ];
    for (set, condition) in cases {
        assert_eq!(roster.set(JULIET, &set, &mut batch), Err(condition));
    }
    assert!(batch.is_empty());
    for n in 0..ROSTER_ITEMS_MAX {
        roster.set(JULIET, &item(&format!("{n}@x"), "", &[]), &mut batch).unwrap();
    }
    let before = roster.clone();
    batch.clear();
    assert_eq!(roster.set(JULIET, &item(ROMEO, "", &[]), &mut batch), Err(Limit::Roster.into()));
    assert_eq!(roster.sent(JULIET, ROMEO, Kind::Subscribe, &mut batch), Err(Limit::Roster.into()));
    assert!(batch.is_empty() && roster == before);
    assert!(roster.set(JULIET, &item("7@x", "known", &[]), &mut batch).is_ok(), "a listed item can still change");
}

#[test]
fn requests_beyond_the_bound_are_denied() {
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    for n in 0..ROSTER_PENDING_MAX {
        assert!(roster.received(JULIET, &format!("{n}@x"), Kind::Subscribe, 9, b"<presence/>", &mut batch).deliver);
    }
    batch.clear();
    let denied = roster.received(JULIET, ROMEO, Kind::Subscribe, 9, b"<presence/>", &mut batch);
    assert_eq!((denied.deliver, denied.reply), (false, Some((Kind::Unsubscribed, 9))));
    assert!(batch.is_empty() && roster.state(ROMEO) == State::None);
    // There is always room for a listed contact's request.
    roster.set(JULIET, &item(ROMEO, "", &[]), &mut batch).unwrap();
    assert!(roster.received(JULIET, ROMEO, Kind::Subscribe, 9, b"<presence/>", &mut batch).deliver);
}

#[test]
fn a_request_is_not_shown_in_the_roster_and_kept_until_it_is_answered() {
    // RFC 6121 A.1 "None + Pending In", 3.1.3.
    let (mut roster, mut batch, mut rows) = (Roster::default(), Batch::new(), Rows::default());
    let stanza = b"<presence type='subscribe' from='romeo@example.net'/>";
    let received = roster.received(JULIET, ROMEO, Kind::Subscribe, 4, stanza, &mut batch);
    assert_eq!((received.deliver, received.push, received.reply), (true, None, None));
    rows.apply(&mut batch);
    assert_eq!(text(&roster.get(None).payload), "<query xmlns='jabber:iq:roster' ver='1'></query>");
    assert_eq!(rows.load().requests().collect::<Vec<_>>(), [(ROMEO, Some(&stanza[..]))]);
    assert_eq!(roster.remove(JULIET, ROMEO, &mut batch), Err(Condition::ItemNotFound));
    // 3.1.5: once approved, it is listed, and the answer carries the request's number.
    let sent = roster.sent(JULIET, ROMEO, Kind::Subscribed, &mut batch).unwrap();
    assert_eq!((sent.route, sent.number, sent.presence), (true, 4, OwnPresence::Show));
    assert!(text(&sent.push.unwrap()).contains("<item jid='romeo@example.net' subscription='from'/>"));
    assert_eq!(roster.requests().count(), 0);
}

#[test]
fn a_denied_request_leaves_nothing_behind() {
    // RFC 6121 3.2.1, A.2.4 "None + Pending In".
    let (mut roster, mut batch, mut rows) = (Roster::default(), Batch::new(), Rows::default());
    roster.received(JULIET, ROMEO, Kind::Subscribe, 4, b"<presence/>", &mut batch);
    let sent = roster.sent(JULIET, ROMEO, Kind::Unsubscribed, &mut batch).unwrap();
    assert_eq!((sent.route, sent.number, sent.push), (true, 4, None));
    rows.apply(&mut batch);
    assert!(rows.0.is_empty());
    assert_eq!((roster.contacts().count(), roster.version()), (0, 1));
}

#[test]
fn a_long_request_is_kept_without_its_text() {
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    let long = vec![b'x'; ROSTER_REQUEST_BYTES_MAX + 1];
    assert!(roster.received(JULIET, ROMEO, Kind::Subscribe, 4, &long, &mut batch).deliver);
    assert_eq!(roster.requests().collect::<Vec<_>>(), [(ROMEO, None)]);
}

#[test]
fn a_removal_ends_both_subscriptions() {
    // RFC 6121 2.5.2; an unanswered request is also ended, or its answer would find no item.
    type Case<'a> = (&'a [Kind], &'a [Kind], bool, bool, OwnPresence);
    let states: [Case<'_>; 5] = [
        (&[], &[], false, false, OwnPresence::Keep),
        (&[Kind::Subscribe], &[], true, false, OwnPresence::Keep),
        (&[Kind::Subscribe], &[Kind::Subscribed], true, false, OwnPresence::Keep),
        (&[], &[Kind::Subscribe], false, true, OwnPresence::Keep),
        (&[Kind::Subscribed], &[Kind::Subscribe], false, true, OwnPresence::Hide),
    ];
    for (sent, received, unsubscribe, unsubscribed, presence) in states {
        let (mut roster, mut batch) = (Roster::default(), Batch::new());
        roster.set(JULIET, &item(ROMEO, "", &[]), &mut batch).unwrap();
        for &kind in sent {
            roster.sent(JULIET, ROMEO, kind, &mut batch).unwrap();
        }
        for &kind in received {
            roster.received(JULIET, ROMEO, kind, 0, b"<presence/>", &mut batch);
        }
        let removed = roster.remove(JULIET, ROMEO, &mut batch).unwrap();
        assert_eq!(
            (removed.unsubscribe, removed.unsubscribed.is_some(), removed.presence),
            (unsubscribe, unsubscribed, presence)
        );
        assert!(text(&removed.push).contains("<item jid='romeo@example.net' subscription='remove'/>"));
        // 2.5.3: the second time there is nothing to remove.
        assert_eq!(roster.remove(JULIET, ROMEO, &mut batch), Err(Condition::ItemNotFound));
    }
}

#[test]
fn versions_spare_the_whole_roster() {
    // RFC 6121 2.6.3.
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    for (n, jid) in ["c@x", "b@x", "a@x"].into_iter().enumerate() {
        roster.set(JULIET, &item(jid, &n.to_string(), &[]), &mut batch).unwrap();
    }
    assert_eq!(roster.get(Some("4")), GetAnswer { payload: Vec::new(), pushes: Vec::new() });
    let behind = roster.get(Some("2"));
    let pushes: Vec<_> = behind.pushes.iter().map(|push| text(push)).collect();
    assert_eq!(
        pushes,
        [
            "<query xmlns='jabber:iq:roster' ver='3'><item jid='b@x' name='1' subscription='none'/></query>",
            "<query xmlns='jabber:iq:roster' ver='4'><item jid='a@x' name='2' subscription='none'/></query>",
        ]
    );
    assert!(behind.payload.is_empty());
    for whole in [None, Some(""), Some("x"), Some("5"), Some("-1")] {
        assert!(text(&roster.get(whole).payload).contains("a@x"), "{whole:?}");
    }
    // After a removal the items alone do not show what has changed.
    roster.remove(JULIET, "b@x", &mut batch).unwrap();
    assert!(!roster.get(Some("4")).payload.is_empty());
    assert_eq!(roster.get(Some("5")), GetAnswer { payload: Vec::new(), pushes: Vec::new() });
}

#[test]
fn what_a_cached_roster_costs() {
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    for n in 0..100 {
        roster.set(JULIET, &item(&format!("contact{n}@example.com"), "Some Name", &["Friends"]), &mut batch).unwrap();
    }
    assert!(roster.heap_bytes() / 100 < 100, "{} bytes for 100 items", roster.heap_bytes());
}

#[test]
fn rows_that_are_not_a_roster_are_refused() {
    let row = |sort: &[u8], value: &[u8]| Row { sort: sort.into(), value: value.into() };
    let found = |rows| Roster::load(&Found::Rows { rows, more: false });
    assert_eq!(found(vec![row(b"", b"?")]), Err(Corrupt));
    assert_eq!(found(vec![row(b"a@x", b"?")]), Err(Corrupt));
    let mut value = Vec::new();
    ItemView { listed: true, state: 9, ..ItemView::default() }.encode(&mut value);
    assert_eq!(found(vec![row(b"a@x", &value)]), Err(Corrupt));
    assert_eq!(Roster::load(&Found::Rows { rows: Vec::new(), more: true }), Err(Corrupt));
    assert_eq!(Roster::load(&Found::Value(None)), Err(Corrupt));
}

#[test]
fn probes_are_answered_by_rfc_6121_4_3_2() {
    let mut batch = Batch::new();
    let mut probed = |sent: &[Kind], received: &[Kind], number| {
        let mut roster = Roster::default();
        for &kind in received {
            roster.received(JULIET, ROMEO, kind, 7, b"<presence/>", &mut batch);
        }
        for &kind in sent {
            roster.sent(JULIET, ROMEO, kind, &mut batch).unwrap();
        }
        roster.probed(ROMEO, number)
    };
    assert_eq!(probed(&[Kind::Subscribed], &[Kind::Subscribe], 7), ProbeAnswer::Presence);
    assert_eq!(probed(&[], &[], 7), ProbeAnswer::Unsubscribed(7));
    assert_eq!(probed(&[Kind::Subscribe], &[], 7), ProbeAnswer::Unsubscribed(7));
    // Romeo assumes a subscription, and has asked again since it ended: his request is still open.
    assert_eq!(probed(&[], &[Kind::Subscribe], 7), ProbeAnswer::Unsubscribed(OUTDATED));
    let mut romeo = Roster::default();
    romeo.sent(ROMEO, JULIET, Kind::Subscribe, &mut batch).unwrap();
    romeo.received(ROMEO, JULIET, Kind::Subscribed, romeo.asked(JULIET), b"", &mut batch);
    assert_eq!(romeo.state(JULIET), State::To);
    romeo.received(ROMEO, JULIET, Kind::Unsubscribed, OUTDATED, b"", &mut batch);
    assert_eq!(romeo.state(JULIET), State::NonePendingOut);
}

#[test]
fn an_end_is_told_again_until_it_is_noted() {
    // RFC 6121 3.2.1, 3.3.1: both sides must learn of the end; a crash may have come between them.
    let again = |kind, number, confirm| Again { contact: ROMEO.into(), kind, number, confirm };
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    let mut send = |roster: &mut Roster, kind| roster.sent(JULIET, ROMEO, kind, &mut batch).unwrap();
    assert_eq!(send(&mut roster, Kind::Unsubscribe).confirm, 0, "there is nothing to end");
    send(&mut roster, Kind::Subscribe);
    let first = send(&mut roster, Kind::Unsubscribe).confirm;
    send(&mut roster, Kind::Subscribe);
    assert_eq!(roster.unconfirmed().count(), 0, "there is a newer request");
    let second = send(&mut roster, Kind::Unsubscribe).confirm;
    assert!(0 < first && first < second);
    let mut batch = Batch::new();
    roster.noted(JULIET, ROMEO, first, &mut batch);
    assert_eq!(roster.unconfirmed().collect::<Vec<_>>(), [again(Kind::Unsubscribe, 0, second)]);
    roster.noted(JULIET, ROMEO, second, &mut batch);
    assert_eq!(roster.unconfirmed().count(), 0);

    // A removal ends both directions and is remembered although the roster does not show it; one
    // confirmation suffices for both.
    roster.received(JULIET, ROMEO, Kind::Subscribe, 7, b"", &mut batch);
    roster.sent(JULIET, ROMEO, Kind::Subscribed, &mut batch).unwrap();
    roster.sent(JULIET, ROMEO, Kind::Subscribe, &mut batch).unwrap();
    let confirm = roster.remove(JULIET, ROMEO, &mut batch).unwrap().confirm;
    assert_eq!(roster.listed(), 0);
    let both = [again(Kind::Unsubscribe, 7, 0), again(Kind::Unsubscribed, 7, confirm)];
    assert_eq!(roster.unconfirmed().collect::<Vec<_>>(), both);
    // Romeo asks again: the subscription that ended is the one before.
    roster.received(JULIET, ROMEO, Kind::Subscribe, 9, b"", &mut batch);
    assert_eq!(roster.unconfirmed().nth(1), Some(again(Kind::Unsubscribed, OUTDATED, confirm)));
    roster.sent(JULIET, ROMEO, Kind::Unsubscribed, &mut batch).unwrap();
    let latest = roster.unconfirmed().last().unwrap().confirm;
    roster.noted(JULIET, ROMEO, latest, &mut batch);
    assert_eq!(roster.entries.len(), 0, "nothing is left to remember");
}

#[test]
fn ends_are_not_remembered_beyond_the_bound() {
    let (mut roster, mut batch) = (Roster::default(), Batch::new());
    for n in 0..ROSTER_PENDING_MAX + 1 {
        let contact = format!("c{n}@example.net");
        roster.sent(JULIET, &contact, Kind::Subscribe, &mut batch).unwrap();
        let confirm = roster.remove(JULIET, &contact, &mut batch).unwrap().confirm;
        assert_eq!(confirm == 0, n == ROSTER_PENDING_MAX);
    }
    assert_eq!(roster.entries.len(), ROSTER_PENDING_MAX);
}

/// What one home sends to the other.
enum Letter {
    Stanza { kind: Kind, number: u64, confirm: u64 },
    Noted { confirm: u64 },
}

/// One home: the roster, its rows, and its letters in flight to the other home.
struct Home {
    owner: &'static str,
    contact: &'static str,
    roster: Roster,
    rows: Rows,
    out: VecDeque<Letter>,
}

impl Home {
    fn new(owner: &'static str, contact: &'static str) -> Home {
        Home { owner, contact, roster: Roster::default(), rows: Rows::default(), out: VecDeque::new() }
    }

    fn act(&mut self, action: usize) {
        let mut batch = Batch::new();
        match action {
            4 => drop(self.roster.set(self.owner, &item(self.contact, "", &[]), &mut batch)),
            5 => {
                if let Ok(removed) = self.roster.remove(self.owner, self.contact, &mut batch) {
                    let confirm = removed.confirm;
                    if removed.unsubscribe {
                        let confirm = if removed.unsubscribed.is_some() { 0 } else { confirm };
                        self.out.push_back(Letter::Stanza { kind: Kind::Unsubscribe, number: 0, confirm });
                    }
                    if let Some(number) = removed.unsubscribed {
                        self.out.push_back(Letter::Stanza { kind: Kind::Unsubscribed, number, confirm });
                    }
                }
            }
            // The roster is evicted from the cache and read again.
            6 => self.roster = self.rows.load(),
            7 => return self.log_in(),
            kind => {
                let kind = Kind::ALL[kind];
                let Sent { route, number, confirm, .. } =
                    self.roster.sent(self.owner, self.contact, kind, &mut batch).unwrap();
                self.out.extend(route.then_some(Letter::Stanza { kind, number, confirm }));
            }
        }
        self.rows.apply(&mut batch);
    }

    fn receive(&mut self, letter: Letter) {
        let mut batch = Batch::new();
        match letter {
            Letter::Stanza { kind, number, confirm } => {
                let result = self.roster.received(self.owner, self.contact, kind, number, b"<presence/>", &mut batch);
                self.out.extend(result.reply.map(|(kind, number)| Letter::Stanza { kind, number, confirm: 0 }));
                self.out.extend((confirm != 0).then_some(Letter::Noted { confirm }));
            }
            Letter::Noted { confirm } => self.roster.noted(self.owner, self.contact, confirm, &mut batch),
        }
        self.rows.apply(&mut batch);
    }

    /// The user comes online, as described under "Healing" in the module.
    fn log_in(&mut self) {
        let mut batch = Batch::new();
        for Again { number, .. } in self.roster.ask_again(self.owner, &mut batch) {
            self.out.push_back(Letter::Stanza { kind: Kind::Subscribe, number, confirm: 0 });
        }
        self.rows.apply(&mut batch);
        let again = self.roster.unconfirmed();
        self.out.extend(again.map(|Again { kind, number, confirm, .. }| Letter::Stanza { kind, number, confirm }));
    }
}

/// Delivers every stanza in flight.
fn drain(romeo: &mut Home, juliet: &mut Home) {
    while !romeo.out.is_empty() || !juliet.out.is_empty() {
        if let Some(stanza) = romeo.out.pop_front() {
            juliet.receive(stanza);
        }
        if let Some(stanza) = juliet.out.pop_front() {
            romeo.receive(stanza);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// RFC 6121 2.5, 3, A: with removals and reloads in between, both rosters agree when all
    /// stanzas have arrived, and the rows always match the cache.
    #[test]
    fn two_homes_agree_when_the_stanzas_have_arrived(steps in prop::collection::vec((0u8..4, 0usize..8), 0..80)) {
        let (mut romeo, mut juliet) = (Home::new(ROMEO, JULIET), Home::new(JULIET, ROMEO));
        for (step, action) in steps {
            match step {
                0 => romeo.act(action),
                1 => juliet.act(action),
                2 => if let Some(stanza) = romeo.out.pop_front() { juliet.receive(stanza) },
                _ => if let Some(stanza) = juliet.out.pop_front() { romeo.receive(stanza) },
            }
        }
        drain(&mut romeo, &mut juliet);
        for home in [&romeo, &juliet] {
            let mut kept = home.roster.clone();
            kept.entries.shrink_to_fit();
            prop_assert_eq!(&kept, &home.rows.load());
        }
        let (r, j) = (romeo.roster.state(JULIET), juliet.roster.state(ROMEO));
        prop_assert_eq!((r.to(), r.from()), (j.from(), j.to()), "{:?} {:?}", r, j);
        prop_assert_eq!((r.pending_out(), r.pending_in()), (j.pending_in(), j.pending_out()), "{:?} {:?}", r, j);
    }

    /// RFC 6121 3.1.2: also when stanzas were lost, once both users have come online.
    #[test]
    fn two_homes_agree_after_losses_when_the_users_log_in(
        steps in prop::collection::vec((0u8..6, 0usize..8), 0..80), romeo_first in any::<bool>(),
    ) {
        let (mut romeo, mut juliet) = (Home::new(ROMEO, JULIET), Home::new(JULIET, ROMEO));
        for (step, action) in steps {
            match step {
                0 => romeo.act(action),
                1 => juliet.act(action),
                2 => if let Some(stanza) = romeo.out.pop_front() { juliet.receive(stanza) },
                3 => if let Some(stanza) = juliet.out.pop_front() { romeo.receive(stanza) },
                4 => romeo.out.truncate(action),
                _ => juliet.out.truncate(action),
            }
        }
        drain(&mut romeo, &mut juliet);
        let (first, second) = if romeo_first { (&mut romeo, &mut juliet) } else { (&mut juliet, &mut romeo) };
        first.log_in();
        drain(first, second);
        second.log_in();
        drain(first, second);
        let (r, j) = (first.roster.state(second.owner), second.roster.state(first.owner));
        prop_assert_eq!((r.to(), r.from()), (j.from(), j.to()), "{:?} {:?}", r, j);
        // The end of a subscription that was to be renewed may have arrived only now: the request
        // is open again.
        first.log_in();
        drain(first, second);
        let (r, j) = (romeo.roster.state(JULIET), juliet.roster.state(ROMEO));
        prop_assert_eq!((r.to(), r.from()), (j.from(), j.to()), "{:?} {:?}", r, j);
        prop_assert!(!r.pending_out() || j.pending_in(), "{:?} {:?}", r, j);
        prop_assert!(!j.pending_out() || r.pending_in(), "{:?} {:?}", r, j);
        prop_assert_eq!(romeo.roster.unconfirmed().count() + juliet.roster.unconfirmed().count(), 0);
    }
}
