//! The publish-subscribe service (XEP-0060) at its limits: who may create nodes, who is notified,
//! what one user can do to others, and how a node with very many subscribers is processed.

use std::sync::Arc;

use throng_engine::extension::Rule;
use throng_engine::extension::pubsub::member::{Member, State};
use throng_engine::extension::pubsub::rules::Makers;
use throng_engine::id::{ConnId, Service, ShardId};
use throng_engine::io::{AccountCommand, Command, Effect, Input};
use throng_engine::letters::{Letter, UserLetter};
use throng_engine::limits::{NODE_MEMBERSHIPS_MAX, NODE_TOLD_AT_ONCE, NODE_WAITING_PER_USER_MAX, WORK_AHEAD_MS};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::host::{Host, said as words};
use throng_sim::world::PASSWORD;
use throng_sys::testing::Counting;

use crate::invitations::Talk;

const NS: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";

fn settings(shards: u16) -> Settings {
    let mut settings = Settings::new("localhost", shards, [0; 32], 0);
    // Time passes quickly here, and nobody is pinged.
    settings.idle_s_max = 0;
    settings.serve_service("pubsub.localhost", Service::PubSub);
    settings
}

/// A server with these users, who are available.
fn host(settings: Settings, users: &[&str]) -> (Host, Vec<ConnId>) {
    let mut host = Host::new(settings);
    let all = users.iter().enumerate().map(|(slot, local)| {
        host.account(local);
        let (conn, _) = host.bind(slot as u32, local);
        host.ask(conn, "<presence/>");
        conn
    });
    let all = all.collect();
    (host, all)
}

fn iq(set: bool, ns: &str, inside: &str) -> String {
    let kind = if set { "set" } else { "get" };
    format!("<iq type='{kind}' id='q' to='pubsub.localhost'><pubsub xmlns='{ns}'>{inside}</pubsub></iq>")
}

/// The output to everybody for a request, once the requester has nothing left to pay.
fn ask(host: &mut Host, conn: ConnId, set: bool, ns: &str, inside: &str) -> String {
    host.now.mono_ms += u64::from(WORK_AHEAD_MS);
    host.now.pass_wall(1_000);
    words(&host.ask(conn, &iq(set, ns, inside)))
}

fn configure(fields: &[(&str, &str)]) -> String {
    let mut form = "<configure><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
                    <value>http://jabber.org/protocol/pubsub#node_config</value></field>"
        .to_owned();
    for (var, value) in fields {
        form += &format!("<field var='pubsub#{var}'><value>{value}</value></field>");
    }
    form + "</x></configure>"
}

fn create(host: &mut Host, conn: ConnId, node: &str, fields: &[(&str, &str)]) -> String {
    ask(host, conn, true, NS, &format!("<create node='{node}'/>{}", configure(fields)))
}

fn subscribe(host: &mut Host, conn: ConnId, node: &str, jid: &str) -> String {
    ask(host, conn, true, NS, &format!("<subscribe node='{node}' jid='{jid}'/>"))
}

fn publish(host: &mut Host, conn: ConnId, node: &str, id: &str) -> String {
    let item = format!("<publish node='{node}'><item id='{id}'><x xmlns='y'/></item></publish>");
    ask(host, conn, true, NS, &item)
}

fn items(host: &mut Host, conn: ConnId, node: &str) -> String {
    ask(host, conn, false, NS, &format!("<items node='{node}'/>"))
}

fn is_result(said: &str) -> bool {
    said.contains("type='result'") && !said.contains("type='error'")
}

/// Number of an actor's rows of one kind.
fn rows(host: &Host, actor: &str, kind: u8) -> usize {
    host.disk.rows_of(Table::Nodes, actor).filter(|(sort, _)| sort.first() == Some(&kind)).count()
}

const MEMBER: u8 = 4;
const OWN: u8 = 6;

#[test]
fn the_operator_says_who_makes_nodes_xep_0060_8_1_1() {
    for (makers, may) in [(Makers::Users, [true, true]), (Makers::Admins, [false, true]), (Makers::Nobody, [false; 2])]
    {
        let mut settings = settings(1);
        settings.admins = Arc::new(["juliet@localhost".into()]);
        settings.facts.pubsub.makers = makers;
        let (mut host, users) = host(settings, &["romeo", "juliet"]);
        for (conn, may) in users.into_iter().zip(may) {
            let said = create(&mut host, conn, &format!("n{}", conn.slot), &[]);
            assert_eq!(is_result(&said), may, "{makers:?}: {said}");
            assert_eq!(said.contains("<forbidden"), !may);
        }
    }
}

#[test]
fn a_node_without_a_name_gets_one_that_nobody_guesses_xep_0060_8_1_1() {
    let (mut host, users) = host(settings(1), &["romeo"]);
    let name =
        |said: String| said.split("<create node='").nth(1).and_then(|rest| rest.split('\'').next()).map(str::to_owned);
    let one = name(ask(&mut host, users[0], true, NS, "<create/>")).expect("a name");
    let other = name(ask(&mut host, users[0], true, NS, "<create/><configure/>")).expect("a name");
    assert!(one != other && one.len() == 20, "{one} {other}");
    assert!(is_result(&publish(&mut host, users[0], &one, "a")));
}

#[test]
fn a_user_owns_so_many_nodes_and_administrators_ten_thousand() {
    let mut settings = settings(1);
    settings.admins = Arc::new(["juliet@localhost".into()]);
    settings.facts.pubsub.nodes_max = 5;
    let (mut host, users) = host(settings, &["romeo", "juliet"]);
    let made = (0..20).filter(|n| is_result(&create(&mut host, users[0], &format!("r{n}"), &[]))).count();
    assert_eq!(made, 5);
    assert_eq!(rows(&host, "romeo@localhost", OWN), 5, "no row of what was refused");
    assert!(is_result(&ask(&mut host, users[0], true, OWNER, "<delete node='r0'/>")));
    assert!(is_result(&create(&mut host, users[0], "r9", &[])), "there is room for another");

    let before = host.shard.inspect();
    for n in 0..10_000 {
        let said = create(&mut host, users[1], &format!("j{n}"), &[]);
        assert!(is_result(&said), "{n}: {said}");
    }
    // Nodes at rest are rows and nothing else: 10,000 take as much memory as none.
    assert_eq!(host.shard.inspect(), before);
    // XEP-0060 5.2, XEP-0059 2.2: they are listed by pages, each once.
    let (mut after, mut listed) = (String::new(), 0);
    for _ in 0..100 {
        host.now.mono_ms += u64::from(WORK_AHEAD_MS);
        let page = format!("<set xmlns='http://jabber.org/protocol/rsm'><max>250</max><after>{after}</after></set>");
        let query = format!("<query xmlns='http://jabber.org/protocol/disco#items'>{page}</query>");
        let said = words(&host.ask(users[1], &format!("<iq type='get' id='i' to='pubsub.localhost'>{query}</iq>")));
        let count = said.matches("<item ").count();
        listed += count;
        match said.split("<last>").nth(1).and_then(|rest| rest.split('<').next()) {
            Some(last) => after = last.to_owned(),
            None => break,
        }
    }
    assert_eq!(listed, 10_005);
}

/// XEP-0060 8.1.1: concurrent requests for nodes are counted together, also behind pending
/// subscriptions to them.
#[test]
fn nodes_that_are_asked_for_at_once_are_counted_together() {
    for shards in 1..=3 {
        let mut settings = crate::invitations::settings(shards, Rule::Open);
        settings.serve_service("pubsub.localhost", Service::PubSub);
        settings.facts.pubsub.nodes_max = 5;
        let mut talk = Talk::with(7, settings);
        let romeo = talk.bound("romeo", PASSWORD);
        let both = |n: u32| {
            iq(true, NS, &format!("<subscribe node='r{n}' jid='romeo@localhost'/>"))
                + &iq(true, NS, &format!("<create node='r{n}'/>")).replace("id='q'", &format!("id='c{n}'"))
        };
        talk.say(romeo, &(0..40).map(both).collect::<String>());
        talk.pass(2_000_000);
        let mut said = talk.hear(romeo, &["id='c39'"]);
        // A request that waits for the answer to the subscription may have been deferred.
        for n in 0..10 {
            let create = iq(true, NS, &format!("<create node='s{n}'/>")).replace("id='q'", &format!("id='d{n}'"));
            said += &talk.ask(romeo, &create, &[&format!("id='d{n}'")]);
        }
        assert_eq!(said.matches("<create node=").count(), 5, "{shards}: {said}");
        let owned = talk.world.disk.rows_of(Table::Nodes, "romeo@localhost").filter(|(sort, _)| sort[0] == OWN);
        assert_eq!(owned.count(), 5, "no row of what was refused");
    }
}

/// Memory of a shard after each of 1,000 users has created this many nodes and published an item at
/// each.
fn held_with_nodes(of_each: usize) -> isize {
    let names: Vec<String> = (0..1_000).map(|n| format!("user{n:03}")).collect();
    let (mut host, users) = host(settings(1), &names.iter().map(String::as_str).collect::<Vec<_>>());
    for n in 0..of_each {
        for (conn, name) in users.iter().zip(&names) {
            let node = format!("{name}-{n}");
            assert!(is_result(&create(&mut host, *conn, &node, &[])), "{node}");
            assert!(is_result(&publish(&mut host, *conn, &node, "a")), "{node}");
        }
    }
    let before = Counting::live();
    drop(host.shard);
    before - Counting::live()
}

#[test]
fn a_hundred_thousand_nodes_at_rest_take_no_memory() {
    let (few, many) = (held_with_nodes(1), held_with_nodes(100));
    assert!(few > 0 && many - few < 1_024, "{many} bytes with 100,000 nodes, {few} with 1,000");
}

#[test]
fn one_user_subscribing_ten_thousand_times_is_one_row_at_one_node_and_bounded_at_many() {
    let mut settings = settings(1);
    settings.admins = Arc::new(["juliet@localhost".into()]);
    let (mut host, users) = host(settings, &["romeo", "juliet"]);
    create(&mut host, users[1], "n", &[]);
    for n in 0..10_000 {
        assert!(is_result(&subscribe(&mut host, users[0], "n", &format!("romeo@localhost/r{n}"))));
    }
    assert_eq!(rows(&host, "pubsub.localhost/n", MEMBER), 2, "the owner and one subscriber");
    // Missing nodes leave no state.
    for n in 0..50 {
        assert!(subscribe(&mut host, users[0], &format!("none{n}"), "romeo@localhost").contains("item-not-found"));
    }
    assert_eq!(rows(&host, "romeo@localhost", OWN), 1);
    for n in 0..NODE_MEMBERSHIPS_MAX + 10 {
        create(&mut host, users[1], &format!("m{n}"), &[]);
        let said = subscribe(&mut host, users[0], &format!("m{n}"), "romeo@localhost");
        assert_eq!(is_result(&said), n < NODE_MEMBERSHIPS_MAX - 1, "{n}: {said}");
    }
    assert_eq!(rows(&host, "romeo@localhost", OWN), NODE_MEMBERSHIPS_MAX as usize);
}

#[test]
fn a_hundred_thousand_items_are_as_many_as_a_node_may_have() {
    let (mut host, users) = host(settings(1), &["romeo"]);
    create(&mut host, users[0], "n", &[("max_items", "max")]);
    for n in 0..3_000 {
        assert!(is_result(&publish(&mut host, users[0], "n", &format!("i{n}"))));
    }
    assert_eq!(rows(&host, "pubsub.localhost/n", 2), 1_000);
    // XEP-0059 2.2: a reader that continues after its last item sees each of the rest once, in
    // order.
    let (mut after, mut seen) = ("i2000".to_owned(), Vec::new());
    loop {
        let page = format!(
            "<items node='n'/><set xmlns='http://jabber.org/protocol/rsm'><max>100</max><after>{after}</after></set>"
        );
        let said = ask(&mut host, users[0], false, NS, &page);
        let ids: Vec<String> =
            said.split("<item id='").skip(1).map(|rest| rest.split('\'').next().unwrap().to_owned()).collect();
        let Some(last) = ids.last() else { break };
        after = last.clone();
        seen.extend(ids);
    }
    let wanted: Vec<String> = (2_001..3_000).map(|n| format!("i{n}")).collect();
    assert_eq!(seen, wanted);
}

/// A node of Romeo's with this many subscribers, who are offline; the first shard is its home.
fn crowd(settings: Settings, count: usize) -> (Host, ConnId, String) {
    let home = settings.partitions.clone();
    let node = (0..).map(|n| format!("n{n}")).find(|n| home.home(&format!("pubsub.localhost/{n}")) == ShardId(0));
    let romeo = (0..).map(|n| format!("romeo{n}")).find(|n| home.home(&format!("{n}@localhost")) == ShardId(0));
    let (node, romeo) = (node.unwrap(), romeo.unwrap());
    let (mut host, users) = host(settings, &[&romeo]);
    let said = create(&mut host, users[0], &node, &[]);
    assert!(is_result(&said), "{said}");
    let actor = format!("pubsub.localhost/{node}");
    for n in 0..count {
        let jid = format!("user{n:06}@localhost");
        let member = Member { state: State::Subscribed, address: jid.as_str().into(), ..Member::default() };
        host.disk.put(Table::Nodes, &actor, &[&[MEMBER], jid.as_bytes()].concat(), &member.encode());
    }
    let row = host.disk.rows_of(Table::Nodes, &actor).find(|(sort, _)| sort[0] == 0).map(|(_, row)| row.to_vec());
    let mut directory = throng_engine::extension::pubsub::node::Directory::decode(row.as_deref()).unwrap();
    directory.get_mut(&node).unwrap().subscribers = count as u32;
    let mut batch = throng_engine::store::Batch::new();
    directory.put(&mut batch, &actor).unwrap();
    host.disk.apply(&batch);
    (host, users[0], node)
}

#[test]
fn a_hundred_thousand_subscribers_are_told_in_pieces_by_a_letter_to_each_shard() {
    const SUBSCRIBERS: usize = 100_000;
    const SHARDS: usize = 4;
    let (mut host, romeo, node) = crowd(settings(SHARDS as u16), SUBSCRIBERS);
    host.now.mono_ms += u64::from(WORK_AHEAD_MS);
    let payload = "z".repeat(1_000);
    let item = format!("<publish node='{node}'><item id='a'><x xmlns='y'>{payload}</x></item></publish>");
    let effects = host.ask(romeo, &iq(true, NS, &item));
    let pieces = SUBSCRIBERS.div_ceil(NODE_TOLD_AT_ONCE as usize);
    let (mut told, mut letters, mut most) = (0, 0, 0);
    for batch in effects.iter().filter_map(|effect| match effect {
        Effect::Letters { batch, .. } => Some(batch),
        _ => None,
    }) {
        let events = batch.letters().iter().filter_map(|letter| match letter {
            Letter::User(UserLetter::Event { subscribers, .. }) => Some(batch.str(*subscribers).split('\0').count()),
            _ => None,
        });
        let events: Vec<usize> = events.collect();
        // One copy of the notification per piece, however many receive it.
        most = most.max(events.iter().sum::<usize>());
        assert!(events.len() <= 1, "a letter for each shard and piece: {}", events.len());
        letters += events.len();
        told += events.iter().sum::<usize>();
    }
    let others = SUBSCRIBERS * (SHARDS - 1) / SHARDS;
    assert!((others * 9 / 10..=others * 11 / 10).contains(&told), "{told} of {others} at other shards");
    assert!(letters <= pieces * (SHARDS - 1), "{letters} letters for {pieces} pieces");
    assert!(most <= NODE_TOLD_AT_ONCE as usize, "{most} at once");
    assert_eq!(words(&effects).matches("type='result'").count(), 1);
    // The publisher pays for all of them.
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Pause { conn } if *conn == romeo)),
        "read from on and on"
    );
}

#[test]
fn all_are_told_of_one_thing_before_the_next_and_others_are_answered_meanwhile() {
    let (mut host, romeo, node) = crowd(settings(1), 3_000);
    host.account("nurse");
    let (nurse, _) = host.bind(7, "nurse");
    host.ask(nurse, "<presence/>");
    assert!(is_result(&subscribe(&mut host, nurse, &node, "nurse@localhost")));
    host.now.mono_ms += u64::from(WORK_AHEAD_MS) * 4;
    // Both publications arrive at once: the second one waits for the end of the first.
    let publish =
        |id: &str| iq(true, NS, &format!("<publish node='{node}'><item id='{id}'><x xmlns='y'/></item></publish>"));
    let all = words(&host.ask(romeo, &(publish("a") + &publish("b"))));
    let told: Vec<&str> = all.split("<item id='").skip(1).map(|rest| rest.split('\'').next().unwrap()).collect();
    assert_eq!(told.iter().filter(|id| **id == "a").count(), 2, "the answer and one notification: {told:?}");
    assert_eq!(told.iter().filter(|id| **id == "b").count(), 2, "{told:?}");
    let notified: Vec<&str> =
        all.split("<items node='").skip(1).filter_map(|rest| rest.split("<item id='").nth(1)).collect();
    assert!(notified[0].starts_with('a') && notified[1].starts_with('b'), "{notified:?}");
}

/// XEP-0060 4.5: presence and roster access depend on an owner's roster, which the service does not
/// have. It offers neither (8.2) and refuses both (8.1.3), and a node stays as it is.
#[test]
fn a_service_has_no_roster_to_go_by_xep_0060_4_5() {
    let (mut host, users) = host(settings(1), &["romeo", "juliet"]);
    let [romeo, juliet] = users[..] else { panic!("two") };
    for model in ["presence", "roster"] {
        let said = create(&mut host, juliet, model, &[("access_model", model)]);
        assert!(said.contains("<not-acceptable") && said.contains("<unsupported-access-model"), "{said}");
        assert!(said.contains("<error type='modify'>"), "{said}");
        assert!(items(&mut host, juliet, model).contains("<item-not-found"), "no node was made");
    }
    create(&mut host, juliet, "n", &[("access_model", "whitelist")]);
    for model in ["presence", "roster"] {
        let form = configure(&[("access_model", model)]).replace("<configure>", "<configure node='n'>");
        let said = ask(&mut host, juliet, true, OWNER, &form);
        assert!(said.contains("<not-acceptable") && said.contains("<unsupported-access-model"), "{said}");
    }
    assert!(subscribe(&mut host, romeo, "n", "romeo@localhost").contains("<closed-node"), "as it was");
    let shown = ask(&mut host, juliet, false, OWNER, "<configure node='n'/>");
    let offered = shown.split("pubsub#access_model").nth(1).and_then(|rest| rest.split("</field>").next()).unwrap();
    let options: Vec<&str> =
        offered.split("<option><value>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    assert_eq!(options, ["open", "authorize", "whitelist"], "{shown}");
    assert!(!shown.contains("roster_groups_allowed"), "{shown}");
    let info = words(&host.ask(
        juliet,
        "<iq type='get' id='i' to='pubsub.localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
    ));
    assert!(info.contains("#access-whitelist") && info.contains("#access-open"), "{info}");
    for feature in ["#access-presence", "#access-roster", "#presence-subscribe", "#get-pending"] {
        assert!(!info.contains(feature), "{feature} in {info}");
    }
}

#[test]
fn who_is_cast_out_or_not_on_the_list_any_more_hears_and_sees_nothing_xep_0060_4_5() {
    let (mut host, users) = host(settings(1), &["romeo", "juliet", "nurse"]);
    let [romeo, juliet, nurse] = users[..] else { panic!("three") };
    create(&mut host, juliet, "n", &[("access_model", "whitelist")]);
    // XEP-0060 6.1.3.5: closed, and not listed.
    assert!(subscribe(&mut host, romeo, "n", "romeo@localhost").contains("<closed-node"));
    let listed = words(&host.ask(
        romeo,
        "<iq type='get' id='i' to='pubsub.localhost'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>",
    ));
    assert!(!listed.contains("<item "), "{listed}");
    let affiliate = |host: &mut Host, jid: &str, what: &str| {
        let inside = format!("<affiliations node='n'><affiliation jid='{jid}' affiliation='{what}'/></affiliations>");
        ask(host, juliet, true, OWNER, &inside)
    };
    for (conn, jid) in [(romeo, "romeo@localhost"), (nurse, "nurse@localhost")] {
        assert!(is_result(&affiliate(&mut host, jid, "member")));
        assert!(is_result(&subscribe(&mut host, conn, "n", jid)));
    }
    assert_eq!(publish(&mut host, juliet, "n", "a").matches("#event").count(), 2);
    let told = affiliate(&mut host, "romeo@localhost", "outcast");
    assert!(told.contains("subscription='none'"), "XEP-0060 8.9.4: {told}");
    affiliate(&mut host, "nurse@localhost", "none");
    assert_eq!(publish(&mut host, juliet, "n", "b").matches("#event").count(), 0);
    assert!(items(&mut host, romeo, "n").contains("<forbidden"));
    assert!(items(&mut host, nurse, "n").contains("<closed-node"));
    for what in ["info", "items"] {
        let query = format!("<query xmlns='http://jabber.org/protocol/disco#{what}' node='n'/>");
        let said = words(&host.ask(nurse, &format!("<iq type='get' id='i' to='pubsub.localhost'>{query}</iq>")));
        assert!(said.contains("type='error'") && !said.contains("meta-data"), "{said}");
    }
    // Only an owner reads or changes the owner's data.
    for inside in ["<configure node='n'/>", "<affiliations node='n'/>", "<subscriptions node='n'/>"] {
        assert!(ask(&mut host, nurse, false, OWNER, inside).contains("<forbidden"), "{inside}");
    }
    for inside in [
        "<delete node='n'/>".to_owned(),
        "<purge node='n'/>".to_owned(),
        configure(&[]).replace("<configure>", "<configure node='n'>"),
        "<affiliations node='n'><affiliation jid='nurse@localhost' affiliation='owner'/></affiliations>".to_owned(),
        "<subscriptions node='n'><subscription jid='nurse@localhost' subscription='subscribed'/></subscriptions>"
            .to_owned(),
    ] {
        assert!(ask(&mut host, nurse, true, OWNER, &inside).contains("type='error'"), "{inside}");
    }
    assert!(items(&mut host, juliet, "n").contains("<item id='b'"));
}

#[test]
fn who_blocks_the_service_hears_nothing_of_it_xep_0191_3_2() {
    let (mut host, users) = host(settings(1), &["romeo", "juliet"]);
    create(&mut host, users[1], "n", &[]);
    subscribe(&mut host, users[0], "n", "romeo@localhost");
    host.ask(
        users[0],
        "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='pubsub.localhost'/></block></iq>",
    );
    assert_eq!(publish(&mut host, users[1], "n", "a").matches("#event").count(), 0);
}

#[test]
fn a_removed_account_is_nothing_to_any_node_and_the_next_of_its_name_hears_nothing() {
    let (mut host, users) = host(settings(1), &["romeo", "juliet"]);
    let juliet = users[1];
    create(&mut host, juliet, "n", &[]);
    create(&mut host, juliet, "given", &[]);
    assert!(is_result(&subscribe(&mut host, users[0], "n", "romeo@localhost")));
    let given =
        "<affiliations node='given'><affiliation jid='romeo@localhost' affiliation='publisher'/></affiliations>";
    assert!(is_result(&ask(&mut host, juliet, true, OWNER, given)));
    assert_eq!(rows(&host, "pubsub.localhost/n", MEMBER), 2);
    let command = Command::Account(AccountCommand::Delete { account: "romeo@localhost".into() });
    host.turn(Input::Command { token: 1, command });
    host.turn(Input::EndOfTurn);
    for node in ["n", "given"] {
        assert_eq!(rows(&host, &format!("pubsub.localhost/{node}"), MEMBER), 1, "the owner alone at {node}");
    }
    assert_eq!(host.disk.rows_of(Table::Nodes, "romeo@localhost").count(), 0);
    // Another account of the name, once the shard no longer remembers that there is none.
    host.account("romeo");
    for _ in 0..100 {
        host.now.mono_ms += 10_000;
        host.turn(Input::EndOfTurn);
    }
    let (conn, _) = host.bind(9, "romeo");
    host.ask(conn, "<presence/>");
    assert_eq!(publish(&mut host, juliet, "n", "a").matches("#event").count(), 0);
    let said = publish(&mut host, conn, "given", "a");
    assert!(said.contains("<forbidden"), "{said}");
}

#[test]
fn nodes_behave_as_they_are_configured_xep_0060_7_1_2_and_8_2() {
    let (mut host, users) = host(settings(1), &["romeo", "juliet"]);
    let [romeo, juliet] = users[..] else { panic!("two") };
    // Transient, without payloads (7.1.3.6).
    create(&mut host, juliet, "t", &[("persist_items", "0"), ("deliver_payloads", "0")]);
    subscribe(&mut host, romeo, "t", "romeo@localhost");
    assert!(publish(&mut host, juliet, "t", "a").contains("<item-forbidden"));
    let said = ask(&mut host, juliet, true, NS, "<publish node='t'/>");
    assert!(said.contains("<items node='t'/>") && is_result(&said), "{said}");
    assert!(!items(&mut host, romeo, "t").contains("<item "), "nothing is kept");
    // Without the payload; only to subscribers; who publishes (8.2, publish_model).
    create(&mut host, juliet, "p", &[("deliver_payloads", "0"), ("publish_model", "subscribers")]);
    let item = "<publish node='p'><item id='a'><x xmlns='y'/></item></publish>";
    assert!(ask(&mut host, romeo, true, NS, item).contains("<forbidden"));
    subscribe(&mut host, romeo, "p", "romeo@localhost");
    let said = ask(&mut host, romeo, true, NS, item);
    assert!(said.contains("<items node='p'><item id='a'/></items>"), "{said}");
    create(&mut host, juliet, "o", &[("publish_model", "open")]);
    assert!(is_result(&publish(&mut host, romeo, "o", "a")));
    // Expired items are gone (item_expire).
    create(&mut host, juliet, "e", &[("item_expire", "60")]);
    publish(&mut host, juliet, "e", "a");
    assert!(items(&mut host, romeo, "e").contains("<item id='a'"));
    host.now.pass_wall(61_000_000);
    assert!(!items(&mut host, romeo, "e").contains("<item id='a'"));
    // Preconditions (7.1.5).
    let with = |value: &str| {
        let form = configure(&[("max_items", value)]).replace("node_config", "publish-options");
        form.replace("configure>", "publish-options>")
    };
    let item = "<publish node='e'><item id='b'><x xmlns='y'/></item></publish>";
    assert!(ask(&mut host, juliet, true, NS, &format!("{item}{}", with("7"))).contains("<precondition-not-met"));
    assert!(is_result(&ask(&mut host, juliet, true, NS, &format!("{item}{}", with("max")))));
    // Notified of changes, where requested (8.2.5, 8.5.2).
    subscribe(&mut host, romeo, "e", "romeo@localhost");
    let quiet = configure(&[("title", "x")]).replace("<configure>", "<configure node='e'>");
    assert!(!ask(&mut host, juliet, true, OWNER, &quiet).contains("#event"));
    let told = configure(&[("notify_config", "1")]).replace("<configure>", "<configure node='e'>");
    assert!(ask(&mut host, juliet, true, OWNER, &told).contains("<configuration node='e'>"));
    assert!(ask(&mut host, juliet, true, OWNER, "<purge node='e'/>").contains("<purge node='e'/>"));
    // 5.4: its description.
    let query = "<query xmlns='http://jabber.org/protocol/disco#info' node='e'/>";
    host.now.mono_ms += u64::from(WORK_AHEAD_MS);
    let said = words(&host.ask(romeo, &format!("<iq type='get' id='i' to='pubsub.localhost'>{query}</iq>")));
    for part in
        ["category='pubsub' type='leaf'", "pubsub#meta-data", "<value>juliet@localhost</value>", "<value>x</value>"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    // 8.3, 6.3: the default configuration, and no options.
    assert!(ask(&mut host, romeo, false, OWNER, "<default/>").contains("<value>authorize</value>"));
    assert!(
        ask(&mut host, romeo, false, NS, "<options node='e' jid='romeo@localhost'/>").contains("subscription-options")
    );
}

#[test]
fn huge_and_broken_requests_are_refused() {
    let (mut host, users) = host(settings(1), &["romeo"]);
    let conn = users[0];
    create(&mut host, conn, "n", &[]);
    let dense = "<field/>".repeat(20_000);
    let huge = format!("<create node='h'/><configure><x xmlns='jabber:x:data' type='submit'>{dense}</x></configure>");
    assert!(ask(&mut host, conn, true, NS, &huge).contains("type='error'"));
    let long = "x".repeat(600);
    for (set, ns, inside, condition) in [
        (true, NS, format!("<create node='{long}'/>"), "not-acceptable"),
        (false, NS, "<items/>".to_owned(), "nodeid-required"),
        (true, NS, "<subscribe node='n' jid='no jid'/>".to_owned(), "invalid-jid"),
        (true, NS, "<subscribe jid='romeo@localhost'/>".to_owned(), "nodeid-required"),
        (true, NS, "<publish node='n'/>".to_owned(), "item-required"),
        (true, NS, "<publish node='n'><item/><item/></publish>".to_owned(), "max-items-exceeded"),
        (true, NS, "<retract node='n'><item id='none'/></retract>".to_owned(), "item-not-found"),
        (true, NS, "<unheard-of node='n'/>".to_owned(), "bad-request"),
        (true, OWNER, "<delete node='none'/>".to_owned(), "item-not-found"),
        (true, OWNER, "<purge node='none'/>".to_owned(), "item-not-found"),
        (false, OWNER, "<configure node='none'/>".to_owned(), "item-not-found"),
        (
            true,
            OWNER,
            "<affiliations node='n'><affiliation jid='a@elsewhere' affiliation='member'/></affiliations>".to_owned(),
            "not-acceptable",
        ),
        (
            true,
            OWNER,
            "<affiliations node='n'><affiliation jid='a@localhost' affiliation='publish-only'/></affiliations>"
                .to_owned(),
            "publish-only-affiliation",
        ),
    ] {
        let said = ask(&mut host, conn, set, ns, &inside);
        assert!(said.contains(condition) && said.contains("type='error'"), "{inside}: {said}");
    }
}

#[test]
fn a_storm_of_one_user_leaves_room_for_others_at_a_node() {
    let (mut host, users) = host(settings(1), &["romeo"]);
    create(&mut host, users[0], "n", &[]);
    host.now.mono_ms += u64::from(WORK_AHEAD_MS);
    let storm: String = (0..150)
        .map(|n| iq(true, NS, &format!("<publish node='n'><item id='{n}'><x xmlns='y'/></item></publish>")))
        .collect();
    let said = words(&host.ask(users[0], &storm));
    assert_eq!(said.matches("type='result'").count(), 1 + NODE_WAITING_PER_USER_MAX, "one at a time, and so many wait");
    assert_eq!(said.matches("<resource-constraint").count(), 150 - 1 - NODE_WAITING_PER_USER_MAX);
}

#[test]
fn a_forged_notification_bears_the_address_of_whoever_sends_it() {
    let (mut host, users) = host(settings(1), &["romeo", "juliet"]);
    let event = "<event xmlns='http://jabber.org/protocol/pubsub#event'><items node='n'><item id='a'/></items></event>";
    let forged = format!("<message to='juliet@localhost' type='headline'>{event}</message>");
    let came = words(&host.ask(users[0], &forged));
    assert!(came.contains("from='romeo@localhost/"), "{came}");
    let forged = forged.replace("<message ", "<message from='pubsub.localhost' ");
    assert!(words(&host.ask(users[0], &forged)).contains("<invalid-from"));
}
