//! Personal eventing (XEP-0163) at its limits: who pays, who waits, and who is not notified.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use throng_engine::id::ConnId;
use throng_engine::io::{Effect, Input, Output};
use throng_engine::limits::{LAST_ITEMS_READS, WORK_AHEAD_MS};
use throng_engine::settings::Settings;
use throng_engine::store::{Query, Table};
use throng_sim::host::{Host, said};
use throng_sys::testing::Counting;

const INFO: &str = "http://jabber.org/protocol/disco#info";
const NS: &str = "http://jabber.org/protocol/pubsub";

/// The capabilities answer of a client that is interested in a node, and its hash (XEP-0115 5.1).
fn capabilities(node: &str) -> (String, String) {
    let feature = format!("{node}+notify");
    let ver = STANDARD.encode(Sha1::digest(format!("client/pc//Test<{feature}<")));
    let query = format!(
        "<query xmlns='{INFO}'><identity category='client' type='pc' name='Test'/><feature var='{feature}'/></query>"
    );
    (ver, query)
}

/// A presence of such a client.
fn presence(node: &str) -> String {
    let ver = capabilities(node).0;
    format!(
        "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:test' ver='{ver}'/></presence>"
    )
}

/// The id of the capabilities request in a client's output.
fn asked(said: &str) -> Option<String> {
    let request = said.split("<iq type='get'").find(|iq| iq.contains(INFO) && iq.contains("urn:test#"))?;
    Some(request.split("id='").nth(1)?.split('\'').next()?.to_owned())
}

fn answer(id: &str, query: &str) -> String {
    format!("<iq type='result' id='{id}' to='localhost'>{query}</iq>")
}

/// Makes a client available, with its interests.
fn appears(host: &mut Host, conn: ConnId, node: &str) {
    let said = said(&host.ask(conn, &presence(node)));
    if let Some(id) = asked(&said) {
        host.ask(conn, &answer(&id, &capabilities(node).1));
    }
}

fn publish(node: &str, id: usize, text: &str) -> String {
    format!(
        "<iq type='set' id='p{id}'><pubsub xmlns='{NS}'><publish node='{node}'><item id='{id}'><x xmlns='y'>{text}</x>\
         </item></publish></pubsub></iq>"
    )
}

/// Juliet, and contacts who may see her presence.
fn crowd(contacts: usize) -> (Host, ConnId, Vec<ConnId>) {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("juliet");
    let (juliet, _) = host.bind(0, "juliet");
    let mut all = Vec::new();
    for n in 0..contacts {
        let local = format!("contact{n}");
        host.account(&local);
        let (conn, _) = host.bind(1 + n as u32, &local);
        host.ask(conn, "<presence to='juliet@localhost' type='subscribe'/>");
        host.ask(juliet, &format!("<presence to='{local}@localhost' type='subscribed'/>"));
        host.now.mono_ms += 20;
        all.push(conn);
    }
    host.now.mono_ms += u64::from(WORK_AHEAD_MS) * 4;
    (host, juliet, all)
}

fn ping(host: &mut Host, conn: ConnId) -> bool {
    said(&host.ask(conn, "<iq type='get' id='ping'><ping xmlns='urn:xmpp:ping'/></iq>")).contains("id='ping'")
}

#[test]
fn who_publishes_to_a_thousand_pays_for_it_and_nobody_else_waits() {
    const CONTACTS: usize = 1_000;
    let (mut host, juliet, contacts) = crowd(CONTACTS);
    for &conn in &contacts {
        appears(&mut host, conn, "n");
    }
    let mut published = 0;
    let paused = (0..100).any(|n| {
        let effects = host.ask(juliet, &publish("n", n, &"x".repeat(1_000)));
        assert_eq!(said(&effects).matches("#event").count(), CONTACTS, "each contact once");
        published += 1;
        effects.iter().any(|effect| matches!(effect, Effect::Pause { conn } if *conn == juliet))
    });
    assert!(paused && published <= 8, "read from on and on: {published}");
    assert!(contacts.iter().take(10).all(|&conn| ping(&mut host, conn)), "others are answered");
    let paused: Vec<_> = (0..3).flat_map(|_| host.turn(Input::EndOfTurn)).collect();
    assert!(!paused.iter().any(|effect| matches!(effect, Effect::Pause { .. })));
}

#[test]
fn a_large_item_goes_to_many_without_its_payload_and_to_the_own_devices_with_it() {
    let (mut host, juliet, contacts) = crowd(3);
    appears(&mut host, juliet, "n");
    contacts.iter().for_each(|&conn| appears(&mut host, conn, "n"));
    let effects = host.ask(juliet, &publish("n", 1, &"x".repeat(100_000)));
    let to = |wanted: ConnId| -> String {
        let own = effects.iter().filter(|effect| matches!(effect, Effect::Send { conn, .. } if *conn == wanted));
        own.map(|effect| said(std::slice::from_ref(effect))).collect()
    };
    assert!(to(juliet).len() > 100_000);
    for conn in contacts {
        let said = to(conn);
        assert!(said.contains("<items node='n'><item id='1'/></items>"), "XEP-0060 7.1.2.2: {said}");
    }
}

#[test]
fn capabilities_that_are_not_what_they_seem_change_nothing_xep_0115_8_1() {
    let (mut host, juliet, contacts) = crowd(3);
    let (mallory, romeo, nurse) = (contacts[0], contacts[1], contacts[2]);
    // The first is asked, and claims for this hash that it is interested in nothing, and then in
    // something else.
    let first = asked(&said(&host.ask(mallory, &presence("n")))).expect("asked");
    assert_eq!(asked(&said(&host.ask(romeo, &presence("n")))), None, "asked once");
    let poison = format!("<query xmlns='{INFO}'><identity category='client' type='pc' name='Test'/></query>");
    let next = said(&host.ask(mallory, &answer(&first, &poison)));
    // So the next one is asked.
    let next = asked(&next).expect("another one is asked");
    assert!(!said(&host.ask(juliet, &publish("n", 1, "a"))).contains("#event"));
    // An unsolicited answer is ignored.
    host.ask(nurse, &answer(&next, &capabilities("n").1));
    assert!(!said(&host.ask(juliet, &publish("n", 2, "b"))).contains("#event"));
    let shown = said(&host.ask(romeo, &answer(&next, &capabilities("n").1)));
    assert_eq!(shown.matches("#event").count(), 1, "the last item, of one node: {shown}");
    assert_eq!(said(&host.ask(juliet, &publish("n", 3, "c"))).matches("#event").count(), 2, "who named the hash");
    assert!(!said(&host.ask(juliet, &publish("m", 4, "d"))).contains("#event"));
}

#[test]
fn who_does_not_answer_is_asked_again_later_or_another_one_is() {
    let (mut host, juliet, contacts) = crowd(2);
    let (silent, romeo) = (contacts[0], contacts[1]);
    asked(&said(&host.ask(silent, &presence("n")))).expect("asked");
    assert_eq!(asked(&said(&host.ask(romeo, &presence("n")))), None);
    host.now.mono_ms += 31_000;
    // An event in which they may be interested.
    let said_then = said(&host.ask(juliet, &publish("n", 1, "a")));
    let id = asked(&said_then).expect("asked again");
    let effects = [silent, romeo].map(|conn| said(&host.ask(conn, &answer(&id, &capabilities("n").1)))).concat();
    assert!(effects.contains("#event"), "{effects}");
}

/// The output of each of these connections during turns over this many milliseconds: the id of its
/// capabilities request, if any.
fn asked_in(host: &mut Host, ms: u64, conns: &[ConnId]) -> Vec<Option<String>> {
    let mut effects = Vec::new();
    for _ in 0..ms / 100 {
        host.now.mono_ms += 100;
        effects.extend(host.turn(Input::EndOfTurn));
    }
    let to = |wanted: ConnId| {
        let own = effects.iter().filter(|effect| matches!(effect, Effect::Send { conn, .. } if *conn == wanted));
        own.map(|effect| said(std::slice::from_ref(effect))).collect::<String>()
    };
    conns.iter().map(|&conn| asked(&to(conn))).collect()
}

/// XEP-0115 6.2, XEP-0163 4.3.4: clients of one version share a request. A client that does not
/// answer it, and repeatedly becomes available, delays the others by seconds.
#[test]
fn a_silent_client_delays_the_others_of_its_hash_by_seconds_xep_0163_4_3_4() {
    let (mut host, juliet, contacts) = crowd(2);
    let (silent, romeo) = (contacts[0], contacts[1]);
    host.ask(juliet, &publish("n", 1, "x"));
    asked(&said(&host.ask(silent, &presence("n")))).expect("asked");
    assert_eq!(asked(&said(&host.ask(romeo, &presence("n")))), None, "the first may answer yet");
    let again = |n: u32| presence("n").replace("</presence>", &format!("<priority>{n}</priority></presence>"));
    for n in 0..4 {
        host.now.mono_ms += 400;
        assert_eq!(asked(&said(&host.ask(silent, &again(n)))), None, "asked already");
    }
    let asked = asked_in(&mut host, 1_000, &[silent, romeo]);
    assert_eq!(asked[0], None, "it is not asked in place of the other");
    let id = asked[1].as_ref().expect("the other is asked");
    let shown = said(&host.ask(romeo, &answer(id, &capabilities("n").1)));
    assert!(shown.contains("#event"), "{shown}");
}

/// A client that leaves or changes its capabilities no longer answers.
#[test]
fn another_client_is_asked_when_the_first_one_goes_xep_0115_6_2() {
    let farewells = ["</stream:stream>", "<presence type='unavailable'/>", "<presence/>"];
    for farewell in farewells.map(String::from).into_iter().chain([presence("m")]) {
        let (mut host, _, contacts) = crowd(2);
        asked(&said(&host.ask(contacts[0], &presence("n")))).expect("asked");
        assert_eq!(asked(&said(&host.ask(contacts[1], &presence("n")))), None);
        let mut effects = host.ask(contacts[0], &farewell);
        effects.extend(host.turn(Input::Closed { conn: contacts[0] }));
        effects.retain(|effect| matches!(effect, Effect::Send { conn, .. } if *conn == contacts[1]));
        assert!(asked(&said(&effects)).is_some(), "behind {farewell}");
    }
}

/// However many silent clients one user has, another user's client is asked next; and with many
/// silent users more clients are asked each time.
#[test]
fn silent_clients_of_one_user_count_as_one() {
    let (mut host, _, contacts) = crowd(41);
    for slot in 100..120 {
        let (conn, _) = host.bind(slot, "juliet");
        host.ask(conn, &presence("n"));
    }
    host.ask(contacts[40], &presence("n"));
    assert!(asked_in(&mut host, 2_100, &contacts[40..])[0].is_some());
    contacts[..40].iter().for_each(|&conn| drop(host.ask(conn, &presence("n"))));
    let rounds: Vec<usize> =
        (0..6).map(|_| asked_in(&mut host, 2_100, &contacts[..40]).iter().flatten().count()).collect();
    assert_eq!(rounds, [2, 4, 8, 16, 10, 0], "twice as many each time, and each once");
}

/// Clients that come and go behind a silent one leave no state and are not asked repeatedly.
#[test]
fn clients_that_have_gone_do_not_wait_for_an_answer() {
    let (mut host, _, contacts) = crowd(2);
    host.ask(contacts[0], &presence("n"));
    let mut rounds = |count: u32| {
        let before = Counting::live();
        for n in 0..count {
            host.ask(contacts[1], &presence("n"));
            host.ask(contacts[1], [&*presence("m"), "<presence type='unavailable'/>"][n as usize % 2]);
            let (conn, _) = host.bind(10 + n, "juliet");
            host.ask(conn, &presence("n"));
            host.ask(conn, "</stream:stream>");
            host.turn(Input::Closed { conn });
            host.now.mono_ms += 20;
        }
        Counting::live() - before
    };
    rounds(1_000);
    let grown = rounds(1_000);
    assert!(grown < 4_000, "{grown} bytes");
}

#[test]
fn a_late_answer_about_what_it_was_before_costs_nobody_the_last_items_xep_0163_4_3_4() {
    let (mut host, juliet, _) = crowd(0);
    host.ask(juliet, &publish("n", 1, "x"));
    let (phone, _) = host.bind(1, "juliet");
    // It changes its capabilities before it has answered, and then answers both requests.
    let first = asked(&said(&host.ask(phone, &presence("m")))).expect("asked");
    let second = asked(&said(&host.ask(phone, &presence("n")))).expect("asked");
    host.ask(phone, &answer(&first, &capabilities("m").1));
    let shown = said(&host.ask(phone, &answer(&second, &capabilities("n").1)));
    assert_eq!(shown.matches("#event").count(), 1, "{shown}");
}

#[test]
fn publications_of_one_user_rest_on_each_other() {
    let (mut host, juliet, _) = crowd(0);
    let many: String = (0..20).map(|n| publish(&format!("node{}", n % 4), n, "x")).collect();
    let answers = said(&host.ask(juliet, &many));
    assert_eq!(answers.matches("type='result'").count(), 20, "{answers}");
    let items =
        said(&host.ask(juliet, "<iq type='get' id='i'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>"));
    assert_eq!(items.matches("<item ").count(), 4, "none was written over: {items}");
    for n in 0..4 {
        let get = format!("<iq type='get' id='g'><pubsub xmlns='{NS}'><items node='node{n}'/></pubsub></iq>");
        assert!(said(&host.ask(juliet, &get)).contains(&format!("<item id='{}'>", 16 + n)), "in their order");
    }
}

/// Runs a host whose store answers one query at a time; returns the output, and the maximum number
/// of open queries.
fn slowly(host: &mut Host, conn: ConnId, text: &str, counted: fn(&[Query]) -> bool) -> (String, usize) {
    let (mut out, mut reads, mut sent, mut most) = (Output::default(), VecDeque::new(), String::new(), 0);
    host.shard.handle(host.now, Input::Received { conn, bytes: text.as_bytes() }, &mut out);
    loop {
        host.now.mono_ms += 1;
        host.shard.handle(host.now, Input::EndOfTurn, &mut out);
        host.disk.apply(&out.writes);
        out.writes.clear();
        for effect in std::mem::take(&mut out.effects) {
            match effect {
                Effect::Read { token, queries } => reads.push_back((token, queries)),
                Effect::Send { conn, .. } => {
                    sent.push_str(&said(std::slice::from_ref(&effect)));
                    host.shard.handle(host.now, Input::Sent { conn }, &mut out);
                }
                _ => {}
            }
        }
        most = most.max(reads.iter().filter(|(_, queries)| counted(queries)).count());
        match reads.pop_front() {
            Some((token, queries)) => {
                let found = queries.iter().map(|query| host.disk.read(query)).collect();
                host.shard.handle(host.now, Input::Found { token, found }, &mut out);
            }
            None if !host.shard.has_more_to_do() && out.effects.is_empty() => return (sent, most),
            None => {}
        }
    }
}

fn of_nodes(queries: &[Query]) -> bool {
    queries.iter().any(|query| query.table() == Table::Nodes)
}

#[test]
fn a_login_among_many_contacts_reads_a_few_at_once_and_gets_all() {
    const CONTACTS: usize = 300;
    let (mut host, juliet, contacts) = crowd(CONTACTS);
    for (n, &conn) in contacts.iter().enumerate() {
        host.ask(juliet, &format!("<presence to='contact{n}@localhost' type='subscribe'/>"));
        host.ask(conn, "<presence to='juliet@localhost' type='subscribed'/>");
        // Every third node has something visible, and one is hidden.
        if n % 3 == 0 {
            host.ask(conn, &publish("n", n, "x"));
        }
        if n == 3 {
            host.ask(
                conn,
                "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='juliet@localhost'/></block></iq>",
            );
        }
        host.ask(conn, "</stream:stream>");
        host.turn(Input::Closed { conn });
        host.now.mono_ms += 20;
    }
    // The client's capabilities are known from another session.
    appears(&mut host, juliet, "n");
    host.now.mono_ms += 600_000;
    for _ in 0..2_000 {
        host.now.mono_ms += 100;
        host.turn(Input::EndOfTurn);
    }
    let (phone, _) = host.bind(CONTACTS as u32 + 1, "juliet");
    let (sent, most) = slowly(&mut host, phone, &presence("n"), of_nodes);
    assert_eq!(sent.matches("#event").count(), CONTACTS / 3 - 1, "each once, but for who has blocked her");
    assert!(most <= LAST_ITEMS_READS, "{most} directories were read at once");
    assert!(sent.matches("<delay ").count() == CONTACTS / 3 - 1, "XEP-0163 4.3.4");
    // A repeated presence does not send them again (XEP-0163 4.3.3).
    let again = presence("n").replace("</presence>", "<show>away</show></presence>");
    let (sent, _) = slowly(&mut host, phone, &again, of_nodes);
    assert!(!sent.contains("#event"));
}

#[test]
fn the_own_devices_are_shown_the_last_items_and_who_has_just_been_approved_too() {
    let (mut host, juliet, _) = crowd(0);
    host.ask(juliet, &publish("n", 1, "x"));
    host.ask(juliet, &publish("m", 2, "x"));
    let (phone, _) = host.bind(1, "juliet");
    let id = asked(&said(&host.ask(phone, &presence("n")))).expect("asked");
    let shown = said(&host.ask(phone, &answer(&id, &capabilities("n").1)));
    assert_eq!((shown.matches("#event").count(), shown.matches("<items node='n'>").count()), (1, 1), "{shown}");
    host.account("romeo");
    let (romeo, _) = host.bind(2, "romeo");
    assert!(!said(&host.ask(romeo, &presence("n"))).contains("#event"), "a stranger");
    host.ask(romeo, "<presence to='juliet@localhost' type='subscribe'/>");
    let approved = said(&host.ask(juliet, "<presence to='romeo@localhost' type='subscribed'/>"));
    assert_eq!(approved.matches("#event").count(), 1, "XEP-0163 4.3.4: {approved}");
}

#[test]
fn requests_of_others_are_read_for_one_at_a_time() {
    let (mut host, juliet, contacts) = crowd(1);
    host.ask(juliet, &publish("n", 1, "x"));
    let many: String = (0..100)
        .map(|n| {
            format!(
                "<iq type='get' id='g{n}' to='juliet@localhost'><pubsub xmlns='{NS}'><items node='n'/></pubsub></iq>"
            )
        })
        .collect();
    let (sent, most) = slowly(&mut host, contacts[0], &many, of_nodes);
    assert_eq!((sent.matches("<item id='1'>").count(), most), (100, 1));
}

#[test]
fn an_account_that_is_removed_leaves_no_nodes() {
    let (mut host, juliet, contacts) = crowd(1);
    appears(&mut host, contacts[0], "n");
    host.ask(juliet, &publish("n", 1, "x"));
    let options = "<iq type='set' id='c'><pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='open'/><configure>\
         <x xmlns='jabber:x:data' type='submit'><field var='pubsub#access_model'><value>open</value></field></x>\
         </configure></pubsub></iq>";
    assert!(said(&host.ask(juliet, options)).contains("type='result'"));
    host.ask(juliet, "<iq type='set' id='r'><query xmlns='jabber:iq:register'><remove/></query></iq>");
    let rows = throng_engine::store::nodes::all_affiliates("juliet@localhost", 10);
    let directory = throng_engine::store::nodes::directory("juliet@localhost");
    assert_eq!(host.disk.read(&directory).value(), None);
    assert_eq!(host.disk.read(&rows).bytes(), 0);
    let subscribe = format!(
        "<iq type='set' id='s' to='juliet@localhost'><pubsub xmlns='{NS}'><subscribe node='open' jid='contact0@localhost'/>\
         </pubsub></iq>"
    );
    assert!(said(&host.ask(contacts[0], &subscribe)).contains("service-unavailable"));
    assert_eq!(host.disk.read(&rows).bytes(), 0);
}
