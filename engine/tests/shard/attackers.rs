//! An attacker with an account against archives, nodes, copies and users who do not want to be
//! seen. Other attacks are tested elsewhere: storms of queries (`archive`), publications to 1,000
//! interested contacts and poisoned capabilities (`eventing`), stolen, replayed or outdated tokens
//! (`sasl2`), limits of nodes (`pubsub::tests`) and of forms (`mam::tests`).

use throng_engine::id::ConnId;
use throng_engine::io::Effect;
use throng_engine::limits::{NODE_BYTES_MAX, NODE_DIRECTORY_BYTES_MAX, NODE_ITEMS_MAX, NODES_MAX, WORK_AHEAD_MS};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::host::{Host, said};

const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const MAM: &str = "urn:xmpp:mam:2";
const USERS: [&str; 3] = ["juliet", "romeo", "mallory"];

/// Three available users.
fn three() -> (Host, [ConnId; 3]) {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    let mut at = 0;
    let all = USERS.map(|user| {
        host.account(user);
        let (conn, _) = host.bind(at, user);
        at += 1;
        host.ask(conn, "<presence/>");
        conn
    });
    (host, all)
}

/// What one connection receives when another one sends this.
fn heard(host: &mut Host, says: ConnId, text: &str, hears: ConnId) -> String {
    let effects = host.ask(says, text);
    let own = effects.iter().filter(|effect| matches!(effect, Effect::Send { conn, .. } if *conn == hears));
    own.map(|effect| said(std::slice::from_ref(effect))).collect()
}

/// The output for a request. A client that is no longer read from waits until its work is paid off;
/// returns whether it had to.
fn patiently(host: &mut Host, conn: ConnId, text: &str, other: ConnId) -> (String, bool) {
    let effects = host.ask(conn, text);
    let paused = effects.iter().any(|effect| matches!(effect, Effect::Pause { conn: paused } if *paused == conn));
    let mut all = said(&effects);
    if paused {
        host.now.mono_ms += 4 * u64::from(WORK_AHEAD_MS);
        host.now.pass_wall(4_000 * u64::from(WORK_AHEAD_MS));
        all += &said(&host.say(other, " "));
    }
    (all, paused)
}

fn is_answered(host: &mut Host, conn: ConnId) -> bool {
    said(&host.ask(conn, "<iq type='get' id='ping'><ping xmlns='urn:xmpp:ping'/></iq>")).contains("id='ping'")
}

fn set(id: usize, payload: &str) -> String {
    format!("<iq type='set' id='{id}'>{payload}</iq>")
}

fn pubsub(inside: &str) -> String {
    format!("<pubsub xmlns='{PUBSUB}'>{inside}</pubsub>")
}

fn publish(node: &str, id: usize) -> String {
    set(id, &pubsub(&format!("<publish node='{node}'><item id='{id}'><x xmlns='y'/></item></publish>")))
}

/// Rows and bytes of a user in a table.
fn stored(host: &Host, table: Table, user: &str) -> (usize, usize) {
    let account = format!("{user}@localhost");
    host.disk.rows_of(table, &account).fold((0, 0), |(rows, bytes), (_, value)| (rows + 1, bytes + value.len()))
}

/// XEP-0313 4.1.1: a client that queries for every peer in turn reads the index, which is written
/// once, and waits for the cost.
#[test]
fn who_asks_for_the_messages_with_everybody_pays_for_it_and_writes_nothing() {
    let (mut host, [juliet, romeo, mallory]) = three();
    for n in 0..600 {
        let to = if n % 2 == 0 { "juliet" } else { "romeo" };
        host.ask(mallory, &format!("<message to='{to}@localhost' type='chat'><body>{n}</body></message>"));
    }
    let with = |n: usize| {
        set(
            n,
            &format!(
                "<query xmlns='{MAM}'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MAM}</value></field>\
             <field var='with'><value>peer{n}@localhost</value></field></x></query>"
            ),
        )
    };
    host.ask(mallory, &with(0));
    let index = stored(&host, Table::Private, "mallory");
    let (mut paused, mut answers) = (false, 0);
    for n in 1..=5_000 {
        let (said, held) = patiently(&mut host, mallory, &with(n), juliet);
        answers += said.matches("complete='true'").count();
        paused |= held;
    }
    assert_eq!((answers, paused), (5_000, true), "each is answered, and the session is held back");
    assert_eq!(stored(&host, Table::Private, "mallory"), index, "the index is written once");
    assert!(is_answered(&mut host, juliet) && is_answered(&mut host, romeo));
}

/// RFC 6120 8.3.3.17: a request costs its session time for what it reads, whether it is answered or
/// refused, and so delays nobody else.
#[test]
fn who_sends_large_requests_that_are_refused_pays_for_them() {
    let (mut host, [juliet, _, mallory]) = three();
    let field = "<field var='a'><value>b</value></field>";
    let form = |fields| format!("<x xmlns='jabber:x:data' type='submit'>{}</x>", field.repeat(fields));
    let configure = format!("<pubsub xmlns='{PUBSUB}#owner'><configure node='none'>{}</configure></pubsub>", form(700));
    let free = (0..200).position(|n| {
        let (said, paused) = patiently(&mut host, mallory, &set(n, &configure), juliet);
        assert!(said.contains("type='error'"), "{said}");
        paused
    });
    assert!(free.is_some_and(|free| (3..20).contains(&free)), "{free:?} requests of 28 KB before it has to wait");
    // XEP-0313 4.1: a query longer than any valid one is not even read.
    let query = format!("<query xmlns='{MAM}'>{}</query>", form(100));
    let (said, _) = patiently(&mut host, mallory, &set(0, &query), juliet);
    assert!(said.contains("the query requests too many ids"), "{said}");
    assert!(is_answered(&mut host, juliet));
}

/// XEP-0313 8.1, XEP-0441 2: an archive belongs to its user, by any address and request.
#[test]
fn nobody_learns_anything_of_anothers_archive() {
    let (mut host, [juliet, romeo, mallory]) = three();
    host.ask(romeo, "<message to='juliet@localhost' type='chat'><body>secret</body></message>");
    let requests =
        ["<query xmlns='urn:xmpp:mam:2'/>", "<metadata xmlns='urn:xmpp:mam:2'/>", "<prefs xmlns='urn:xmpp:mam:2'/>"];
    for request in requests {
        for kind in ["get", "set"] {
            for to in ["juliet@localhost", "JULIET@localhost", "nobody@localhost"] {
                let effects = host.ask(mallory, &format!("<iq type='{kind}' id='q' to='{to}'>{request}</iq>"));
                let said = said(&effects);
                assert!(said.contains("type='error'") && !said.contains("secret"), "{kind} {request} {to}: {said}");
            }
        }
        // XEP-0313 3.1: in another user's name.
        let forged = format!("<iq type='set' id='q' from='juliet@localhost'>{request}</iq>");
        let (other, _) = host.bind(9, "mallory");
        let said = said(&host.ask(other, &forged));
        assert!(said.contains("<invalid-from") && !said.contains("secret"), "RFC 6120 8.1.2.1: {said}");
    }
    let own = said(&host.ask(juliet, &set(1, requests[0])));
    assert_eq!(own.matches("secret").count(), 1, "{own}");
}

/// XEP-0060 12.11: the same limit applies to nodes created by publishing as to those created by
/// name.
#[test]
fn ten_thousand_nodes_are_as_many_as_an_account_may_have() {
    let (mut host, [juliet, _, mallory]) = three();
    let mut refused = 0;
    for n in 0..10_000 {
        refused += said(&host.ask(mallory, &publish(&format!("node{n}"), n))).matches("its limit of nodes").count();
    }
    assert_eq!(refused, 10_000 - NODES_MAX);
    let (rows, bytes) = stored(&host, Table::Nodes, "mallory");
    // The directory, and two rows per item.
    assert_eq!(rows, 1 + 2 * NODES_MAX);
    assert!(bytes < NODE_DIRECTORY_BYTES_MAX + NODES_MAX * 200, "{bytes}");
    assert!(is_answered(&mut host, juliet));
}

/// XEP-0060 7.1.3.6, 8.2.4: a node with the maximum number of items stores no more than that of
/// 100,000.
#[test]
fn a_hundred_thousand_items_are_as_many_as_a_node_may_have() {
    let (mut host, [juliet, _, mallory]) = three();
    let create = "<create node='n'/><configure><x xmlns='jabber:x:data' type='submit'>\
                  <field var='pubsub#max_items'><value>max</value></field></x></configure>";
    assert!(said(&host.ask(mallory, &set(0, &pubsub(create)))).contains("type='result'"));
    let mut paused = false;
    for batch in 0..1_000 {
        let text: String = (0..100).map(|n| publish("n", batch * 100 + n)).collect();
        let (answers, held) = patiently(&mut host, mallory, &text, juliet);
        assert_eq!(answers.matches("type='result'").count(), 100, "{batch}: {answers}");
        paused |= held;
    }
    let (rows, bytes) = stored(&host, Table::Nodes, "mallory");
    assert_eq!(rows, 1 + 2 * NODE_ITEMS_MAX as usize);
    assert!((bytes as u64) < NODE_BYTES_MAX && paused);
    let last = said(&host.ask(mallory, "<iq type='get' id='g'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n' max_items='1'/></pubsub></iq>"));
    assert!(last.contains("<item id='99999'>"), "{last}");
    assert!(is_answered(&mut host, juliet));
}

/// XEP-0060 8.9.2: a list in one request can be as long as the limit permits in all.
#[test]
fn affiliations_of_thousands_in_one_request_change_nothing() {
    let (mut host, [_, _, mallory]) = three();
    host.ask(mallory, &publish("n", 1));
    let before = stored(&host, Table::Nodes, "mallory");
    let many: String =
        (0..4_000).map(|n| format!("<affiliation jid='u{n}@localhost' affiliation='member'/>")).collect();
    let request = format!("<pubsub xmlns='{PUBSUB}#owner'><affiliations node='n'>{many}</affiliations></pubsub>");
    assert!(said(&host.ask(mallory, &set(1, &request))).contains("<not-acceptable"));
    assert_eq!(stored(&host, Table::Nodes, "mallory"), before);
}

/// XEP-0280 11, XEP-0313 4.2, XEP-0060 12.16: only the user's own account can look like it to a
/// client. Stanzas from another user carry the sender's full JID, whatever they wrap.
#[test]
fn copies_results_and_notifications_that_are_forged_bear_the_forgers_name() {
    let (mut host, [juliet, _, mallory]) = three();
    host.ask(juliet, "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    let (phone, _) = host.bind(7, "juliet");
    host.ask(phone, "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq><presence/>");
    let inside = "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' from='romeo@localhost/o' to='juliet@localhost' \
                  type='chat'><body>come to the crypt</body></message></forwarded>";
    let full = said(&host.ask(mallory, "<presence/>"));
    let full =
        full.split("from='").nth(1).and_then(|rest| rest.split('\'').next()).expect("its own presence").to_owned();
    for payload in [
        format!("<received xmlns='urn:xmpp:carbons:2'>{inside}</received>"),
        format!("<sent xmlns='urn:xmpp:carbons:2'>{inside}</sent>"),
        format!("<result xmlns='{MAM}' id='1' queryid='q'>{inside}</result>"),
        format!("<event xmlns='{PUBSUB}#event'><items node='n'><item id='1'><x xmlns='y'/></item></items></event>"),
    ] {
        for to in ["juliet@localhost".to_owned(), "mallory@localhost".to_owned()] {
            let message = format!("<message to='{to}' type='chat'>{payload}</message>");
            let effects = host.ask(mallory, &message);
            for stanza in
                said(&effects).split("</message><message").filter(|stanza| stanza.contains("xmlns='urn:xmpp:sid:0'"))
            {
                assert!(stanza.contains(&format!("from='{full}'")), "{stanza}");
            }
            let named = said(&effects);
            assert!(
                !named.contains("<message from='juliet@localhost'")
                    && !named.contains("<message from='mallory@localhost'"),
                "{named}"
            );
        }
    }
    // RFC 6120 8.1.2.1: a session may write its bare JID there, but the server replaces it.
    let own = "<message from='mallory@localhost' to='mallory@localhost' type='chat'><sent xmlns='urn:xmpp:carbons:2'/></message>";
    let named = said(&host.ask(mallory, own));
    assert!(named.contains(&format!("from='{full}'")) && !named.contains("from='mallory@localhost'"), "{named}");
}

/// XEP-0191 3.3, RFC 6121 3.2, XEP-0163 4: a blocked or unsubscribed user learns no more about
/// presence and nodes than about those of an account that does not exist.
#[test]
fn neither_who_is_blocked_nor_who_is_unsubscribed_learns_of_presence_or_nodes() {
    let open = "<create node='open'/><configure><x xmlns='jabber:x:data' type='submit'>\
                <field var='pubsub#access_model'><value>open</value></field></x></configure>";
    let subscribe = |node: &str| {
        format!(
            "<iq type='set' id='s' to='juliet@localhost'>{}</iq>",
            pubsub(&format!("<subscribe node='{node}' jid='romeo@localhost'/>"))
        )
    };
    let ends = [
        (
            "blocked",
            "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='romeo@localhost'/></block></iq>",
        ),
        (
            "his domain is blocked",
            "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='localhost'/></block></iq>",
        ),
        ("unsubscribed", "<presence to='romeo@localhost' type='unsubscribed'/>"),
        (
            "removed",
            "<iq type='set' id='r'><query xmlns='jabber:iq:roster'><item jid='romeo@localhost' subscription='remove'/></query></iq>",
        ),
    ];
    for (how, end) in ends {
        let (mut host, [juliet, romeo, _]) = three();
        host.ask(juliet, &set(1, &pubsub(open)));
        host.ask(juliet, &publish("presence", 1));
        host.ask(romeo, "<presence to='juliet@localhost' type='subscribe'/>");
        host.ask(juliet, "<presence to='romeo@localhost' type='subscribed'/>");
        for node in ["open", "presence"] {
            assert!(said(&host.ask(romeo, &subscribe(node))).contains("subscription='subscribed'"), "{node}");
        }
        assert!(heard(&mut host, juliet, &publish("presence", 2), romeo).contains("<item id='2'>"), "before");
        host.ask(juliet, end);
        let blocked = how.contains("blocked");
        let mut after = heard(&mut host, juliet, &publish("presence", 3), romeo);
        after += &heard(&mut host, juliet, "<presence><show>away</show><status>hidden</status></presence>", romeo);
        after += &heard(&mut host, juliet, "<presence type='unavailable'/>", romeo);
        after += &heard(&mut host, juliet, "<presence><status>hidden</status></presence>", romeo);
        if blocked {
            after += &heard(&mut host, juliet, &publish("open", 4), romeo);
        }
        assert_eq!(after, "", "{how}: he hears nothing");
        // His requests get the answers for a missing account. Only `disco#items` reveals to a
        // blocked user which accounts exist, because XEP-0191 3.3 requires an error and XEP-0030 8
        // an empty list.
        for request in [
            pubsub("<items node='presence'/>"),
            pubsub("<subscribe node='presence' jid='romeo@localhost'/>"),
            "<query xmlns='jabber:iq:last'/>".to_owned(),
            "<query xmlns='http://jabber.org/protocol/disco#info' node='presence'/>".to_owned(),
            "<query xmlns='http://jabber.org/protocol/disco#items'/>".to_owned(),
        ] {
            let kind = if request.contains("<subscribe") { "set" } else { "get" };
            let answers = ["juliet", "nobody"].map(|user| {
                let ask = format!("<iq type='{kind}' id='q' to='{user}@localhost'>{request}</iq>");
                said(&host.ask(romeo, &ask)).replace(user, "X")
            });
            let [juliets, nobodys] = answers;
            assert!(!juliets.contains("<item id=") && !juliets.contains("seconds="), "{how}: {juliets}");
            let items = request.contains("disco#items");
            assert!(!blocked || juliets.contains("<service-unavailable"), "XEP-0191 3.3: {juliets}");
            assert!(
                juliets == nobodys || items || request.contains("jabber:iq:last") && !blocked,
                "{how}: {juliets} {nobodys}"
            );
        }
    }
}
