//! Subscribers of a service's node that were away get the items that they have missed: once, in
//! order, and no more than they may see and take (XEP-0060 7.1.2, 12.4).

use throng_engine::id::{ConnId, Service};
use throng_engine::io::{Effect, Input};
use throng_engine::limits::{NODE_MISSED_ITEMS_MAX, WORK_AHEAD_MS};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::client::{Client, News, Phase};
use throng_sim::host::{Host, said};
use throng_sim::random::Random;
use throng_sim::world::{Occurrence, Pace, World};

const NS: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const NODE: &str = "pubsub.localhost/n";
const MEMBER: u8 = 4;
const MISSED: u8 = b'~';

fn settings() -> Settings {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    // Time passes quickly here, and nobody is pinged.
    settings.idle_s_max = 0;
    settings.serve_service("pubsub.localhost", Service::PubSub);
    settings
}

/// Time passes, so that nobody owes work.
fn pass(host: &mut Host) {
    host.now.mono_ms += u64::from(WORK_AHEAD_MS);
    host.now.pass_wall(1_000);
}

fn request(ns: &str, inside: &str) -> String {
    format!("<iq type='set' id='q' to='pubsub.localhost'><pubsub xmlns='{ns}'>{inside}</pubsub></iq>")
}

fn ask(host: &mut Host, conn: ConnId, ns: &str, inside: &str) -> Vec<Effect> {
    pass(host);
    let effects = host.ask(conn, &request(ns, inside));
    assert!(said(&effects).contains("type='result'"), "{inside}: {}", said(&effects));
    effects
}

fn item(id: &str) -> String {
    format!("<publish node='n'><item id='{id}'><x xmlns='y'/></item></publish>")
}

fn publish(host: &mut Host, conn: ConnId, id: &str) -> Vec<Effect> {
    ask(host, conn, NS, &item(id))
}

fn field(var: &str, value: &str) -> String {
    format!(
        "<configure><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>http://jabber.org/protocol/pubsub#node_config</value></field>\
         <field var='pubsub#{var}'><value>{value}</value></field></x></configure>"
    )
}

/// Juliet has a node with this configuration, to which Romeo is subscribed.
fn host(settings: Settings, (var, value): (&str, &str)) -> (Host, ConnId, ConnId) {
    let mut host = Host::new(settings);
    ["juliet", "romeo"].into_iter().for_each(|local| host.account(local));
    let [juliet, romeo] = [(0, "juliet"), (1, "romeo")].map(|(slot, local)| {
        let (conn, _) = host.bind(slot, local);
        host.ask(conn, "<presence/>");
        conn
    });
    ask(&mut host, juliet, NS, &format!("<create node='n'/>{}", field(var, value)));
    ask(&mut host, romeo, NS, "<subscribe node='n' jid='romeo@localhost'/>");
    (host, juliet, romeo)
}

fn plain() -> (Host, ConnId, ConnId) {
    host(settings(), ("title", "News"))
}

/// A session of Romeo's that has just become available, and the items that it is notified of.
fn back(host: &mut Host, slot: u32) -> (ConnId, Vec<String>) {
    let (conn, _) = host.bind(slot, "romeo");
    pass(host);
    let effects = host.ask(conn, "<presence/>");
    (conn, told(&effects, conn))
}

/// The items that a connection is notified of.
fn told(effects: &[Effect], conn: ConnId) -> Vec<String> {
    let sent = effects.iter().filter(|effect| matches!(effect, Effect::Send { conn: to, .. } if *to == conn));
    let text: String = sent.map(|effect| said(std::slice::from_ref(effect))).collect();
    let events = text.split("<event xmlns='http://jabber.org/protocol/pubsub#event'>").skip(1);
    events.filter_map(|event| event.split("<item id='").nth(1)?.split('\'').next().map(str::to_owned)).collect()
}

/// Rows of one kind of an actor.
fn rows(host: &Host, actor: &str, kind: u8) -> Vec<Vec<u8>> {
    let table = if kind == MISSED { Table::Accounts } else { Table::Nodes };
    let of_kind = host.disk.rows_of(table, actor).filter(|(sort, _)| sort.first() == Some(&kind));
    of_kind.map(|(_, row)| row.to_vec()).collect()
}

#[test]
fn a_subscriber_that_was_away_gets_each_missed_item_once_and_in_order() {
    let (mut host, juliet, romeo) = plain();
    assert_eq!(told(&publish(&mut host, juliet, "here"), romeo), ["here"]);
    host.turn(Input::Closed { conn: romeo });
    for id in ["a", "b", "c"] {
        publish(&mut host, juliet, id);
    }
    let (romeo, missed) = back(&mut host, 2);
    assert_eq!(missed, ["a", "b", "c"]);
    assert_eq!(told(&publish(&mut host, juliet, "d"), romeo), ["d"], "at the head again");
    assert_eq!(rows(&host, "romeo@localhost", MISSED), Vec::<Vec<u8>>::new());
    // Nothing was missed: another session gets nothing.
    assert_eq!(back(&mut host, 3).1, Vec::<String>::new());
}

#[test]
fn a_late_item_says_when_it_was_published_xep_0203() {
    let (mut host, juliet, romeo) = plain();
    host.turn(Input::Closed { conn: romeo });
    publish(&mut host, juliet, "a");
    let (conn, _) = host.bind(2, "romeo");
    let text = said(&host.ask(conn, "<presence/>"));
    let late = "<delay xmlns='urn:xmpp:delay' from='pubsub.localhost' stamp='";
    assert!(text.contains(late) && text.contains("type='headline'"), "{text}");
}

/// A session without presence is away (RFC 6121 4.2).
#[test]
fn a_subscriber_without_presence_gets_them_with_its_presence() {
    let (mut host, juliet, romeo) = plain();
    host.ask(romeo, "<presence type='unavailable'/>");
    assert_eq!(told(&publish(&mut host, juliet, "a"), romeo), Vec::<String>::new());
    pass(&mut host);
    assert_eq!(told(&host.ask(romeo, "<presence/>"), romeo), ["a"]);
    pass(&mut host);
    assert_eq!(told(&host.ask(romeo, "<presence><show>away</show></presence>"), romeo), Vec::<String>::new());
}

#[test]
fn items_for_many_that_are_away_cost_two_rows_each_however_many_items() {
    const AWAY: usize = 50;
    let (mut host, juliet, _) = plain();
    for n in 0..AWAY {
        host.account(&format!("user{n}"));
        let (conn, _) = host.bind(10 + n as u32, &format!("user{n}"));
        ask(&mut host, conn, NS, &format!("<subscribe node='n' jid='user{n}@localhost'/>"));
        host.turn(Input::Closed { conn });
    }
    let written = |host: &mut Host, id: &str| {
        let before = host.shard.counters().writes.get();
        publish(host, juliet, id);
        host.shard.counters().writes.get() - before
    };
    let (first, next) = (written(&mut host, "a"), written(&mut host, "b"));
    assert_eq!(first - next, 2 * AWAY as u64, "{first} and {next} writes");
    assert_eq!(written(&mut host, "c"), next, "the next ones cost what they cost without subscribers");
    assert_eq!(rows(&host, NODE, MEMBER).iter().filter(|row| row[0] == 2).count(), AWAY);
    assert_eq!(rows(&host, "user7@localhost", MISSED).len(), 1);
}

#[test]
fn of_too_many_missed_items_the_last_ones_come() {
    let (mut host, juliet, romeo) = plain();
    host.turn(Input::Closed { conn: romeo });
    let ids: Vec<String> = (0..2 * NODE_MISSED_ITEMS_MAX).map(|n| format!("i{n}")).collect();
    ids.iter().for_each(|id| drop(publish(&mut host, juliet, id)));
    assert_eq!(back(&mut host, 2).1, ids[NODE_MISSED_ITEMS_MAX as usize..]);
}

#[test]
fn only_items_that_are_still_stored_come() {
    let (mut host, juliet, romeo) = host(settings(), ("max_items", "2"));
    host.turn(Input::Closed { conn: romeo });
    for id in ["a", "b", "c", "c", "d"] {
        publish(&mut host, juliet, id);
    }
    ask(&mut host, juliet, NS, "<retract node='n'><item id='c'/></retract>");
    assert_eq!(back(&mut host, 2).1, ["d"], "a and b were pushed out, and c was retracted");

    let (mut host, juliet, romeo) = self::host(settings(), ("item_expire", "60"));
    host.turn(Input::Closed { conn: romeo });
    publish(&mut host, juliet, "a");
    host.now.pass_wall(61_000_000);
    assert_eq!(back(&mut host, 2).1, Vec::<String>::new());
}

/// The access is decided when the items are sent (XEP-0060 4.5).
#[test]
fn a_subscriber_that_may_not_see_the_node_any_more_gets_nothing() {
    let outcast = "<affiliations node='n'><affiliation jid='romeo@localhost' affiliation='outcast'/></affiliations>";
    let ended = "<subscriptions node='n'><subscription jid='romeo@localhost' subscription='none'/></subscriptions>";
    let closed = field("access_model", "whitelist").replace("<configure>", "<configure node='n'>");
    for revoked in [outcast, ended, &closed, "<delete node='n'/>", "<purge node='n'/>"] {
        let (mut host, juliet, romeo) = plain();
        host.turn(Input::Closed { conn: romeo });
        publish(&mut host, juliet, "a");
        ask(&mut host, juliet, OWNER, revoked);
        assert_eq!(back(&mut host, 2).1, Vec::<String>::new(), "{revoked}");
        assert_eq!(rows(&host, "romeo@localhost", MISSED).len(), 0, "{revoked}");
    }
    // Another affiliation changes nothing.
    let (mut host, juliet, romeo) = plain();
    host.turn(Input::Closed { conn: romeo });
    publish(&mut host, juliet, "a");
    ask(&mut host, juliet, OWNER, &outcast.replace("outcast", "publisher"));
    assert_eq!(back(&mut host, 2).1, ["a"]);
}

#[test]
fn a_user_that_has_blocked_the_service_gets_nothing_xep_0191_3_2() {
    let (mut host, juliet, romeo) = plain();
    host.ask(romeo, "<presence type='unavailable'/>");
    publish(&mut host, juliet, "a");
    let block = "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='pubsub.localhost'/></block></iq>";
    pass(&mut host);
    host.ask(romeo, block);
    assert_eq!(told(&host.ask(romeo, "<presence/>"), romeo), Vec::<String>::new());
}

/// XEP-0060 16.4.4: nodes that notify available users only, or nobody, or store nothing.
#[test]
fn nodes_whose_notifications_do_not_wait() {
    for option in [("presence_based_delivery", "1"), ("deliver_notifications", "0"), ("persist_items", "0")] {
        let (mut host, juliet, romeo) = host(settings(), option);
        host.turn(Input::Closed { conn: romeo });
        publish(&mut host, juliet, "a");
        assert_eq!(rows(&host, "romeo@localhost", MISSED).len(), 0, "{option:?}");
        assert_eq!(back(&mut host, 2).1, Vec::<String>::new(), "{option:?}");
    }
    // A subscription by a full JID is for that resource.
    let (mut host, juliet, romeo) = plain();
    ask(&mut host, romeo, NS, "<subscribe node='n' jid='romeo@localhost/elsewhere'/>");
    publish(&mut host, juliet, "a");
    assert_eq!(rows(&host, "romeo@localhost", MISSED).len(), 0);
}

/// A client that does not read falls behind, and goes on where it was when it has read.
#[test]
fn a_slow_subscriber_gets_the_rest_when_it_has_read() {
    let mut slow = settings();
    slow.outbound_bytes_soft = 1_000;
    let (mut host, juliet, romeo) = host(slow, ("title", "News"));
    host.prompt = false;
    let mut all = Vec::new();
    let ids: Vec<String> = (0..20).map(|n| format!("i{n}")).collect();
    for id in &ids {
        // Soon enough that the client that does not read is not given up.
        host.now.mono_ms += 100;
        let published = host.say(juliet, &request(NS, &item(id)));
        assert!(said(&published).contains("type='result'"), "{id}: {published:?}");
        all.extend(published);
        all.extend(host.sent(juliet));
    }
    assert_eq!(rows(&host, "romeo@localhost", MISSED).len(), 1, "{:?}", told(&all, romeo));
    for _ in 0..ids.len() {
        host.now.mono_ms += 100;
        all.extend(host.sent(romeo));
        all.extend(host.turn(Input::EndOfTurn));
    }
    assert_eq!(told(&all, romeo), ids);
    assert_eq!(rows(&host, "romeo@localhost", MISSED).len(), 0);
}

#[test]
fn what_was_missed_outlives_the_process() {
    let (mut host, juliet, romeo) = plain();
    host.turn(Input::Closed { conn: romeo });
    publish(&mut host, juliet, "a");
    let mut next = Host::new(settings());
    next.disk = host.disk;
    let (juliet, _) = next.bind(0, "juliet");
    publish(&mut next, juliet, "b");
    assert_eq!(back(&mut next, 2).1, ["a", "b"]);
}

#[test]
fn a_removed_account_leaves_nothing_missed() {
    use throng_engine::io::{AccountCommand, Command};
    let (mut host, juliet, romeo) = plain();
    host.turn(Input::Closed { conn: romeo });
    publish(&mut host, juliet, "a");
    let command = Command::Account(AccountCommand::Delete { account: "romeo@localhost".into() });
    host.turn(Input::Command { token: 1, command });
    publish(&mut host, juliet, "b");
    assert_eq!(host.disk.rows_of(Table::Nodes, "romeo@localhost").count(), 0);
}

/// The items in what a connection has received.
fn items(text: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(text);
    text.split("<item id='").skip(1).filter_map(|item| item.split('\'').next()?.parse().ok()).collect()
}

/// An item that is under way and the question for what was missed may cross: the answer has the
/// item, and it does not come twice.
#[test]
fn items_come_once_and_in_order_while_a_subscriber_of_another_shard_comes_and_goes() {
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let mut settings = Settings::new("localhost", 3, [0; 32], 0);
        settings.serve_service("pubsub.localhost", Service::PubSub);
        let mut world = World::new(seed, settings, Pace::default(), &["juliet", "romeo"]);
        let mut clients =
            [("juliet", 0), ("romeo", 1)].map(|(user, at)| Client::new(at, &format!("{user}@localhost"), "r", false));
        let (mut heard, mut got, mut published) = (Vec::new(), Vec::new(), 0);
        let node = format!("n{seed}");
        for step in 0..200 {
            match step {
                _ if clients[0].phase == Phase::Offline && clients[0].socket.is_none() => {
                    clients[0].connected(world.connect());
                }
                1 => clients[1].connected(world.connect()),
                2 => clients[0].at_service(&format!("<create node='{node}'/>")),
                3 => clients[1].at_service(&format!("<subscribe node='{node}' jid='romeo@localhost'/>")),
                4 => {}
                _ if clients[1].socket.is_none() => clients[1].connected(world.connect()),
                _ if random.below(4) == 0 && step < 190 => {
                    let Some(socket) = clients[1].socket else { continue };
                    world.abort(socket);
                    clients[1].disconnected();
                    got.extend(items(&std::mem::take(&mut heard)));
                }
                _ => {
                    published += 1;
                    clients[0].at_service(&format!(
                        "<publish node='{node}'><item id='{published}'><x xmlns='y'/></item></publish>"
                    ));
                }
            }
            let us = if !(5..=190).contains(&step) { 500_000 } else { random.below(4_000) };
            world.timer(us + 1, 7);
            loop {
                for client in &mut clients {
                    let out = std::mem::take(&mut client.out);
                    if let Some(socket) = client.socket.filter(|_| !out.is_empty()) {
                        world.write(socket, &out);
                    }
                }
                match world.step() {
                    Occurrence::Timer(7) => break,
                    Occurrence::Bytes(socket, bytes) => {
                        let Some(at) = clients.iter().position(|client| client.socket == Some(socket)) else {
                            continue;
                        };
                        if at == 1 {
                            heard.extend_from_slice(&bytes);
                        }
                        clients[at].bytes(&bytes);
                        if std::mem::take(&mut clients[at].news).iter().any(|news| matches!(news, News::Bound)) {
                            clients[at].stanza("<presence/>".into(), None);
                        }
                    }
                    _ => {}
                }
            }
        }
        got.extend(items(&heard));
        assert!(got.is_sorted_by(|a, b| a < b), "seed {seed}: {got:?}");
        assert_eq!(got.last(), Some(&published), "seed {seed}: the last ones come");
    }
}
