//! Request numbers, keys, acknowledgements, broken connections, and clients that send too many
//! requests.

use sha1::{Digest as _, Sha1};
use throng_engine::io::Input;
use throng_engine::limits::{BOSH_POLLING_S, BOSH_REPEATS_MAX};

use super::desk::{Client, Desk, PRESENCE, RID, body, message, plain, request};

fn ended(desk: &Desk) -> bool {
    desk.host.shard.counters().bosh_sessions.get() == 0
}

fn ping(id: &str) -> String {
    format!("<iq xmlns='jabber:client' type='get' id='{id}'><ping xmlns='urn:xmpp:ping'/></iq>")
}

/// The client is available, and Juliet's messages reach it.
fn talking(desk: &mut Desk, attributes: &str) -> (Client, throng_engine::id::ConnId) {
    let juliet = desk.tcp("juliet");
    let mut client = desk.bound("romeo", attributes);
    client.say(desk, PRESENCE);
    (client, juliet)
}

#[test]
fn xep0124_14_1_numbers_are_below_2_to_53() {
    for (rid, good) in [
        ("0", false),
        ("-1", false),
        ("9007199254740992", false),
        ("99999999999999999999", false),
        ("x", false),
        ("", false),
        ("9007199254740000", true),
        ("1", true),
    ] {
        let mut desk = Desk::new(|_| {});
        let conn = desk.connect();
        let answer = desk.ask(conn, &body(&format!("rid='{rid}' to='localhost' ver='1.6'"), ""));
        assert_eq!(answer.condition().as_deref(), (!good).then_some("bad-request"), "{rid}");
    }
    let mut desk = Desk::new(|_| {});
    let conn = desk.connect();
    let without = desk.ask(conn, &body("to='localhost' ver='1.6'", ""));
    assert_eq!(without.condition().as_deref(), Some("bad-request"), "6: each request has one");
}

#[test]
fn xep0124_14_2_requests_that_overtake_others_are_taken_and_answered_in_order() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    let (first, second) = (client.next("", &ping("one")), client.next("", &ping("two")));
    assert_eq!(desk.send(client.conns[1], &request(&second)), [], "it waits for its turn");
    let all = desk.send(client.conns[0], &request(&first));
    assert_eq!(all.iter().map(|(conn, _)| *conn).collect::<Vec<_>>(), client.conns[..all.len()]);
    let told: String = all.iter().map(|(_, answer)| answer.body.clone()).collect();
    assert!(told.find("id='one'").unwrap() < told.find("id='two'").unwrap(), "{told}");
}

#[test]
fn xep0124_14_2_a_number_beyond_the_window_ends_the_session() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    let far = client.numbered(client.rid + 3, "", "");
    let all = desk.send(client.conns[1], &request(&far));
    assert_eq!(all[0].1.condition().as_deref(), Some("item-not-found"));
    assert_eq!(all[1].1.condition().as_deref(), Some("item-not-found"), "the one that waited hears of it, too");
    assert!(ended(&desk));
    // 11: one further request may arrive, to pause or terminate.
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    let far = client.numbered(client.rid + 3, "type='terminate'", "");
    assert_eq!(desk.send(client.conns[1], &request(&far)), []);
    assert!(!ended(&desk));
}

#[test]
fn xep0124_14_3_an_answer_that_was_lost_comes_again_as_it_was() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    let asks = client.next("", &ping("once"));
    let first = desk.ask(client.conns[0], &asks);
    assert!(first.has("id='once'"));
    let conn = desk.connect();
    assert_eq!(desk.ask(conn, &asks).body, first.body);
    let iqs = desk.host.shard.counters().iqs_in.get();
    assert_eq!(desk.ask(conn, &asks).body, first.body);
    assert_eq!(desk.host.shard.counters().iqs_in.get(), iqs, "and it is done once");
    // As many answers are kept as there may be concurrent requests.
    for n in 0..3 {
        assert!(client.say(&mut desk, &ping(&format!("n{n}"))).has("<iq"));
    }
    let old = desk.ask(conn, &asks);
    assert_eq!(old.condition().as_deref(), Some("item-not-found"), "no longer");
    assert!(ended(&desk));
}

#[test]
fn xep0124_14_3_a_request_that_waits_and_comes_again_waits_on_its_new_connection() {
    let mut desk = Desk::new(|_| {});
    let (mut client, juliet) = talking(&mut desk, "ver='1.6' wait='60' hold='1'");
    let waits = client.next("", "");
    assert_eq!(desk.send(client.conns[0], &request(&waits)), []);
    let all = desk.send(client.conns[1], &request(&waits));
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].0, client.conns[0]);
    assert_eq!(all[0].1.attr("type").as_deref(), Some("error"), "17.4");
    assert_eq!(all[0].1.attr("condition"), None);
    let effects = desk.host.ask(juliet, &message("romeo", "there"));
    let all = desk.host_hears(effects, juliet);
    assert!(all[0].0 == client.conns[1] && all[0].1.has("there"), "{all:?}");
}

#[test]
fn xep0124_14_3_a_connection_that_breaks_loses_nothing() {
    let mut desk = Desk::new(|_| {});
    let (mut client, juliet) = talking(&mut desk, "ver='1.6' wait='60' hold='1'");
    let waits = client.next("", "");
    assert_eq!(desk.send(client.conns[0], &request(&waits)), []);
    desk.host.turn(Input::Closed { conn: client.conns[0] });
    let effects = desk.host.ask(juliet, &message("romeo", "while away"));
    assert_eq!(desk.host_hears(effects, juliet), [], "nobody is there to take it");
    let conn = desk.connect();
    assert!(desk.ask(conn, &waits).has("while away"), "the same request once more");
    // It has disconnected, and the session's inactivity time runs.
    client.conns = [conn, desk.connect()];
    let waits = client.next("", "");
    assert_eq!(desk.send(conn, &request(&waits)), []);
    desk.host.turn(Input::Closed { conn });
    desk.wait(33_000);
    assert!(ended(&desk));
}

#[test]
fn xep0124_14_3_one_that_breaks_does_not_hold_up_the_next_request() {
    let mut desk = Desk::new(|_| {});
    let (mut client, juliet) = talking(&mut desk, "ver='1.6' wait='60' hold='1'");
    let waits = client.next("", "");
    assert_eq!(desk.send(client.conns[0], &request(&waits)), []);
    desk.host.turn(Input::Closed { conn: client.conns[0] });
    let all = client.second(&mut desk, "", &ping("next"));
    assert!(all.len() == 1 && all[0].0 == client.conns[1] && all[0].1.has("id='next'"), "{all:?}");
    let effects = desk.host.ask(juliet, &message("romeo", "later"));
    assert_eq!(desk.host_hears(effects, juliet), []);
    let conn = desk.connect();
    assert!(desk.ask(conn, &waits).is_empty(), "there was nothing in it");
}

#[test]
fn xep0124_14_3_messages_in_an_answer_that_nobody_got_wait_for_the_next_session() {
    let mut desk = Desk::new(|_| {});
    let (mut client, juliet) = talking(&mut desk, "ver='1.6' wait='60' hold='1'");
    client.parks(&mut desk);
    let effects = desk.host.ask(juliet, &message("romeo", "into the void"));
    assert!(desk.host_hears(effects, juliet)[0].1.has("into the void"), "the network has it, and loses it");
    desk.wait(35_000);
    assert!(ended(&desk));
    let mut again = desk.usual("romeo");
    again.say(&mut desk, PRESENCE);
    assert!(again.say(&mut desk, &ping("first")).has("into the void"));
    // And a received answer is not sent again.
    for n in 0..4 {
        again.say(&mut desk, &ping(&format!("n{n}")));
    }
    again.with(&mut desk, "type='terminate'", "");
    let mut third = desk.usual("romeo");
    third.say(&mut desk, PRESENCE);
    assert!(!third.say(&mut desk, &ping("third")).has("into the void"));
}

#[test]
fn xep0124_14_3_what_comes_again_and_again_ends_the_session() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    let waits = client.next("", "");
    desk.send(client.conns[0], &request(&waits));
    let mut repeats = 0;
    while !ended(&desk) {
        let conn = desk.connect();
        let all = desk.send(conn, &request(&waits));
        repeats += 1;
        if ended(&desk) {
            let told = all.iter().find(|(of, _)| *of == conn).unwrap();
            assert_eq!(told.1.condition().as_deref(), Some("policy-violation"));
        }
    }
    assert_eq!(repeats, u32::from(BOSH_REPEATS_MAX) + 1);
}

#[test]
fn xep0124_9_1_requests_are_acknowledged_to_who_acknowledges() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.bound("romeo", "ver='1.6' wait='60' hold='1' ack='1'");
    assert_eq!(client.created.number("ack"), Some(RID));
    assert_eq!(client.say(&mut desk, PRESENCE).attr("ack"), None, "not where it would be its own number");
    client.parks(&mut desk);
    let before = client.rid;
    let all = client.second(&mut desk, "", PRESENCE);
    assert_eq!(all[0].1.number("ack"), Some(before + 1), "it has got one behind that which it answers");
    // Other sessions get nothing.
    let mut other = desk.usual("juliet");
    other.parks(&mut desk);
    let all = other.second(&mut desk, "", PRESENCE);
    assert!(all.iter().all(|(_, answer)| answer.attr("ack").is_none()), "{all:?}");
}

#[test]
fn xep0124_9_2_an_answer_that_is_not_acknowledged_is_reported() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.bound("romeo", "ver='1.6' wait='60' hold='1' ack='1'");
    assert!(client.say(&mut desk, &ping("lost")).has("id='lost'"));
    let lost = client.rid;
    desk.wait(3_000);
    let all = client.second(&mut desk, &format!("ack='{}'", lost - 1), "");
    assert_eq!(all[0].1.number("report"), Some(lost), "{all:?}");
    assert_eq!(all[0].1.number("time"), Some(3_000));
    let conn = desk.connect();
    let again = client.numbered(lost, "", &ping("lost"));
    assert!(desk.ask(conn, &again).has("id='lost'"), "it is there still");
    // Soon after it was sent it may still be in flight.
    let mut client = desk.bound("romeo", "ver='1.6' wait='60' hold='1' ack='1'");
    assert!(client.say(&mut desk, &ping("slow")).has("id='slow'"));
    let slow = client.rid;
    assert_eq!(client.send(&mut desk, &format!("ack='{}'", slow - 1), ""), []);
    // A client that has received everything reports nothing, and nothing is kept for it.
    let mut client = desk.bound("romeo", "ver='1.6' wait='60' hold='1' ack='1'");
    client.say(&mut desk, &ping("got"));
    let old = client.rid;
    client.say(&mut desk, &ping("next"));
    let again = client.numbered(old, "", &ping("got"));
    assert_eq!(desk.ask(client.conns[0], &again).condition().as_deref(), Some("item-not-found"));
}

/// K(1) to K(n) of a seed (XEP-0124 15.3).
fn keys(seed: &str, n: usize) -> Vec<String> {
    let hash = |text: &String| Some(Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect());
    std::iter::successors(Some(seed.to_owned()), hash).skip(1).take(n).collect()
}

#[test]
fn xep0124_15_4_each_request_has_the_next_key_of_its_sequence() {
    let (mut old, mut new) = (keys("seed", 4), keys("other seed", 9));
    let mut desk = Desk::new(|_| {});
    let first = old.pop().unwrap();
    let mut client = desk.session(&format!("ver='1.6' wait='60' hold='1' newkey='{first}'"));
    assert!(client.with(&mut desk, &format!("key='{}'", old.pop().unwrap()), &plain("romeo")).has("<success "));
    // 15.5: the last key of a sequence comes with the first one of another; the comparison ignores
    // case.
    let restart = "to='localhost' xmpp:restart='true'";
    client.with(&mut desk, &format!("{restart} key='{}'", old.pop().unwrap()), "");
    let switch = format!("key='{}' newkey='{}'", old.pop().unwrap(), new.pop().unwrap().to_uppercase());
    assert!(client.with(&mut desk, &switch, super::desk::BIND).has("<jid>"));
    let key = new.pop().unwrap();
    assert!(client.with(&mut desk, &format!("key='{key}'"), &ping("keyed")).has("id='keyed'"));
    // 14.3: a repeated request has its own key.
    let again = client.numbered(client.rid, &format!("key='{key}'"), &ping("keyed"));
    assert!(desk.ask(client.conns[1], &again).has("id='keyed'"));
    assert!(!ended(&desk));
}

#[test]
fn xep0124_15_4_a_key_that_is_wrong_or_missing_ends_the_session_and_nothing_is_done() {
    for wrong in ["", "key=''", "key='x'", "key='6f825e81f4532b2c5fa2d12457d8a1f22e8f838e'", "again"] {
        let mut own = keys("seed", 5);
        let mut desk = Desk::new(|_| {});
        let first = own.pop().unwrap();
        let mut client = desk.session(&format!("ver='1.6' wait='60' hold='1' newkey='{first}'"));
        let good = format!("key='{}'", own.pop().unwrap());
        assert!(client.with(&mut desk, &good, &plain("romeo")).has("<success "));
        let logins = desk.host.shard.counters().logins.get();
        // Somebody has seen the last request, and wants its answer or to be answered in its place.
        let conn = desk.connect();
        let body = match wrong {
            "again" => client.numbered(client.rid, "", &plain("romeo")),
            wrong => client.next(wrong, &plain("juliet")),
        };
        assert_eq!(desk.ask(conn, &body).condition().as_deref(), Some("item-not-found"), "{wrong}");
        assert!(ended(&desk) && desk.host.shard.counters().logins.get() == logins);
    }
}

#[test]
fn xep0124_11_too_many_requests_at_once_end_the_session() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    // Two more in one turn, so that none can be answered between them: one is held back until the
    // other has arrived.
    let (one, two) = (client.next("", &ping("1")), client.next("", &ping("2")));
    assert_eq!(desk.send(client.conns[1], &request(&two)), []);
    let third = desk.connect();
    let all = desk.send(third, &request(&one));
    assert!(all.iter().all(|(_, answer)| answer.condition().is_some() || answer.is_empty()), "{all:?}");
    assert!(all.iter().any(|(_, answer)| answer.condition().as_deref() == Some("policy-violation")), "{all:?}");
    assert!(ended(&desk));
}

#[test]
fn xep0124_11_requests_without_content_that_come_too_soon_end_the_session() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    desk.wait(100);
    let all = client.second(&mut desk, "", "");
    assert!(
        all.iter()
            .any(|(of, answer)| *of == client.conns[1] && answer.condition().as_deref() == Some("policy-violation"))
    );
    assert!(ended(&desk));
    // With content, or later, they are permitted; and so are a pause and a termination.
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    client.second(&mut desk, "", PRESENCE);
    desk.wait(u64::from(BOSH_POLLING_S) * 1_000 + 100);
    client.send(&mut desk, "", "");
    client.second(&mut desk, "pause='60'", "");
    assert!(!ended(&desk));
}

#[test]
fn xep0124_12_a_session_that_polls_is_answered_at_once_and_may_not_poll_too_often() {
    for attributes in ["ver='1.6' wait='0' hold='1'", "ver='1.6' wait='60' hold='0'", "ver='1.6' wait='0' hold='0'"] {
        let mut desk = Desk::new(|_| {});
        let mut client = desk.session(attributes);
        let inactivity = client.created.number("inactivity").unwrap();
        assert!(inactivity > 30 + client.created.number("polling").unwrap(), "longer than usual");
        client.send(&mut desk, "", &plain("romeo"));
        desk.wait(3_000);
        assert!(client.send(&mut desk, "to='localhost' xmpp:restart='true'", "")[0].1.has("xmpp-bind"));
        client.send(&mut desk, "", &format!("{}{PRESENCE}", super::desk::BIND));
        for _ in 0..5 {
            desk.wait(u64::from(BOSH_POLLING_S) * 1_000 + 100);
            let all = client.send(&mut desk, "", "");
            assert!(all.len() == 1 && all[0].1.condition().is_none(), "{all:?}");
        }
        let all = client.send(&mut desk, "", "");
        assert_eq!(all[0].1.condition().as_deref(), Some("policy-violation"), "{attributes}");
        assert!(ended(&desk));
    }
}

#[test]
fn xep0124_17_2_old_clients_are_told_by_status_codes() {
    for (wrong, status, condition) in [
        ("key", 404, "item-not-found"),
        ("far", 404, "item-not-found"),
        ("often", 403, "policy-violation"),
        ("stream", 404, "item-not-found"),
    ] {
        for ver in ["", "ver='1.6'"] {
            let mut desk = Desk::new(|_| {});
            let first = keys("seed", 2).pop().unwrap();
            let key = if wrong == "key" { format!("newkey='{first}'") } else { String::new() };
            let mut client = desk.session(&format!("{ver} wait='60' hold='1' {key}"));
            let all = match wrong {
                "key" => client.send(&mut desk, "key='00'", ""),
                "far" => {
                    let far = client.numbered(client.rid + 9, "", "");
                    desk.send(client.conns[0], &request(&far))
                }
                "stream" => client.send(&mut desk, "stream='two'", PRESENCE),
                _ => {
                    client.parks(&mut desk);
                    client.second(&mut desk, "", "")
                }
            };
            let told = all.iter().find(|(_, answer)| answer.status != 200 || answer.condition().is_some()).unwrap();
            match ver {
                "" => assert_eq!(told.1.status, status, "{wrong}"),
                _ => assert_eq!((told.1.status, told.1.condition().as_deref()), (200, Some(condition)), "{wrong}"),
            }
        }
    }
}

#[test]
fn xep0124_18_requests_behind_one_that_waits_are_read() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    let (one, two, three) = (client.next("", ""), client.next("", &ping("two")), client.next("", &ping("three")));
    let conn = client.conns[0];
    let mut all = desk.send(conn, &[request(&one), request(&two), request(&three)].concat());
    all.extend(desk.wait(300));
    let told: Vec<_> = all.iter().map(|(of, answer)| (*of == conn, answer.body.contains("<iq"))).collect();
    assert_eq!(told, [(true, false), (true, true), (true, true)], "{all:?}");
    // HTTP/1.0 closes its connection after each (5, and 2: HTTP/1.0 is sufficient).
    let old = String::from_utf8(request(&client.next("", &ping("four")))).unwrap().replace("HTTP/1.1", "HTTP/1.0");
    let conn = desk.connect();
    assert!(desk.send(conn, old.as_bytes())[0].1.has("id='four'") && desk.ended.contains(&conn));
}
