//! Sessions start, are idle, and end.

use throng_engine::io::{Command, Input, Reply, SessionCommand};
use throng_engine::limits::{BOSH_INACTIVITY_S, BOSH_PAUSE_S_MAX, BOSH_POLLING_S, BOSH_WAIT_S_MAX};

use throng_sim::host::reply;

use super::desk::{Desk, PRESENCE, RID, body, message, request};

#[test]
fn xep0124_7_2_the_answer_to_the_first_request_says_all_that_it_must() {
    let mut desk = Desk::new(|_| {});
    let client = desk.session("ver='1.6' wait='60' hold='1' ack='1' content='text/html; charset=utf-8'");
    let created = &client.created;
    assert_eq!(client.sid.len(), 36, "128 bits of entropy, and the shard");
    assert_eq!(created.field("Content-Type"), Some("text/html; charset=utf-8"), "7.1");
    for (name, value) in [("wait", 60), ("hold", 1), ("requests", 2), ("ack", RID), ("polling", BOSH_POLLING_S.into())]
    {
        assert_eq!(created.number(name), Some(value), "{name}: {created:?}");
    }
    assert_eq!(created.number("inactivity"), Some(BOSH_INACTIVITY_S.into()));
    assert_eq!(created.number("maxpause"), Some(BOSH_PAUSE_S_MAX.into()));
    assert_eq!(created.attr("from").as_deref(), Some("localhost"));
    assert_eq!(created.attr("charsets").as_deref(), Some("UTF-8"));
    assert_eq!(created.attr("stream"), None, "16.2: there is one stream");
    // XEP-0206 4.
    assert!(created.has("xmpp:version='1.0'") && created.has("xmpp:restartlogic='true'"));
    let features = created.xml();
    let features = features.children().next().expect("features");
    assert!(features.is("features", "http://etherx.jabber.org/streams") && created.has(">PLAIN<"));
    assert!(!created.has("starttls") && !created.has("<stream:stream"), "XEP-0206 2");
    // Later answers do not repeat it.
    let mut client = client;
    let next = client.say(&mut desk, &super::desk::plain("romeo"));
    for name in ["sid", "wait", "requests", "ver", "polling", "inactivity", "hold", "maxpause", "ack"] {
        assert_eq!(next.attr(name), None, "{name}");
    }
    assert_eq!(next.field("Content-Type"), Some("text/html; charset=utf-8"));
}

/// A session has no socket from which its host could derive the client's address.
#[test]
fn operators_are_told_who_has_begun_a_session() {
    let mut desk = Desk::new(|_| {});
    desk.usual("romeo");
    let sessions = Command::Session(SessionCommand::List { of: None, from_slot: 0, most: 2 });
    let told = reply(desk.host.turn(Input::Command { token: 1, command: sessions }));
    let Some(Reply::Sessions { rows, .. }) = told else { panic!("{told:?}") };
    let conns: Vec<_> = rows.iter().filter_map(|row| row.conn).collect();
    assert_eq!(
        conns.iter().map(|conn| desk.host.shard.client_of(*conn)).collect::<Vec<_>>(),
        [Some([192, 0, 2, 1].into())]
    );
}

#[test]
fn xep0124_7_2_names_of_sessions_are_not_repeated() {
    let mut desk = Desk::new(|_| {});
    let mut all: Vec<_> = (0..50).map(|_| desk.session("ver='1.6' wait='60' hold='1'").sid).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 50);
}

#[test]
fn xep0124_7_1_wait_hold_and_version_are_the_lower_ones_of_both_sides() {
    for (attributes, wait, hold, ver) in [
        ("ver='1.6' wait='20' hold='1'", 20, 1, Some("1.6")),
        ("ver='1.11' wait='3600' hold='5'", u64::from(BOSH_WAIT_S_MAX), 1, Some("1.11")),
        ("ver='1.100' wait='60' hold='0'", 60, 0, Some("1.11")),
        ("ver='1.9' wait='0' hold='1'", 0, 1, Some("1.9")),
        ("ver='2.0' wait='99999999999' hold='300'", u64::from(BOSH_WAIT_S_MAX), 1, Some("1.11")),
        ("", u64::from(BOSH_WAIT_S_MAX), 1, None),
    ] {
        let mut desk = Desk::new(|_| {});
        let created = desk.session(attributes).created;
        assert_eq!((created.number("wait"), created.number("hold")), (Some(wait), Some(hold)), "{attributes}");
        assert_eq!(created.number("requests"), Some(hold + 1), "more than are held");
        assert_eq!(created.attr("ver").as_deref(), ver);
    }
}

#[test]
fn xep0124_17_3_a_session_begins_with_a_domain_that_is_served() {
    for (to, condition) in
        [("", "improper-addressing"), ("to=''", "improper-addressing"), ("to='a.example'", "host-unknown")]
    {
        let mut desk = Desk::new(|_| {});
        let conn = desk.connect();
        let answer = desk.ask(conn, &body(&format!("rid='1' ver='1.6' {to}"), ""));
        assert_eq!(answer.condition().as_deref(), Some(condition));
        assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 0);
    }
    // 7.1: a server with a fixed list of domains may ignore a route.
    let mut desk = Desk::new(|_| {});
    desk.session("ver='1.6' wait='60' hold='1' route='xmpp:other.example:9999'");
}

#[test]
fn xep0124_8_a_request_waits_until_there_is_something_or_its_time_is_over() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.bound("romeo", "ver='1.6' wait='20' hold='1'");
    client.parks(&mut desk);
    assert_eq!(desk.wait(19_000), []);
    let all = desk.wait(3_000);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].0, client.conns[0]);
    assert_eq!(all[0].1.body, format!("<body xmlns='{}'/>", super::desk::BOSH), "an empty one");
    client.say(&mut desk, PRESENCE);
    client.parks(&mut desk);
    let sender = desk.tcp("juliet");
    let effects = desk.host.ask(sender, &message("romeo", "good morning"));
    let all = desk.host_hears(effects, sender);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].0 == client.conns[0] && all[0].1.has("<body>good morning</body>") && all[0].1.status == 200);
    assert!(all[0].1.has("<message xmlns='jabber:client'") || all[0].1.has("xmlns='jabber:client'"), "XEP-0206 2");
}

#[test]
fn xep0124_10_who_is_away_for_too_long_has_no_session() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    desk.wait(50_000);
    let counters = desk.host.shard.counters().clone();
    assert_eq!(counters.bosh_sessions.get(), 1, "a request waits");
    desk.wait(11_000);
    desk.wait(28_000);
    assert_eq!(counters.bosh_sessions.get(), 1);
    assert_eq!(desk.wait(4_000), [], "it is ended without a word");
    assert_eq!((counters.bosh_sessions.get(), counters.sessions.get()), (0, 0));
    // As if it did not exist.
    let conn = desk.connect();
    let late = client.next("", "");
    assert_eq!(desk.ask(conn, &late).condition().as_deref(), Some("item-not-found"));
}

#[test]
fn xep0124_10_a_pause_lets_a_client_be_away_for_longer_once() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    client.say(&mut desk, PRESENCE);
    client.parks(&mut desk);
    // All waiting requests are answered with empty bodies, even if there is output.
    let pause = client.next("pause='100'", &message("romeo", "to myself"));
    let all = desk.send(client.conns[1], &request(&pause));
    assert_eq!(all.iter().map(|(conn, _)| *conn).collect::<Vec<_>>(), client.conns);
    assert!(all.iter().all(|(_, answer)| answer.is_empty()), "{all:?}");
    desk.wait(99_000);
    assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 1);
    // The next request behaves as before.
    client.conns = [desk.connect(), desk.connect()];
    assert!(client.say(&mut desk, "").has("to myself"));
    desk.wait(29_000);
    assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 1);
    desk.wait(4_000);
    assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 0);
}

#[test]
fn xep0124_10_a_pause_may_be_shorter_and_not_longer_than_there_is() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    assert!(client.with(&mut desk, "pause='5'", "").is_empty());
    desk.wait(8_000);
    assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 0);
    let mut client = desk.usual("romeo");
    let too_long = format!("pause='{}'", BOSH_PAUSE_S_MAX + 1);
    assert_eq!(client.send(&mut desk, &too_long, ""), [], "it waits as any request does");
}

#[test]
fn xep0124_13_the_client_ends_the_session_with_what_it_says_last() {
    let mut desk = Desk::new(|_| {});
    let juliet = desk.tcp("juliet");
    let mut client = desk.usual("romeo");
    client.say(&mut desk, PRESENCE);
    client.parks(&mut desk);
    let last = client.next("type='terminate'", &message("juliet", "good night"));
    let effects = desk.host.turn(throng_engine::io::Input::Received { conn: client.conns[1], bytes: &request(&last) });
    let said = throng_sim::host::said(&effects);
    assert!(said.contains("<body>good night</body>"), "it is passed on: {said}");
    let all = desk.host_hears(effects, juliet);
    assert_eq!(all[0].0, client.conns[0], "the oldest request");
    assert_eq!(all[0].1.condition().as_deref(), Some(""));
    assert!(all[1].0 == client.conns[1] && all[1].1.is_empty(), "{all:?}");
    let counters = desk.host.shard.counters();
    assert_eq!((counters.bosh_sessions.get(), counters.sessions.get()), (0, 1));
    let after = client.next("", "");
    assert_eq!(desk.ask(client.conns[0], &after).condition().as_deref(), Some("item-not-found"));
}

#[test]
fn xep0124_13_all_waiting_requests_end_with_a_session_that_the_server_ends() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    let kick = throng_engine::io::Command::Session(throng_engine::io::SessionCommand::Kick {
        jid: "romeo@localhost".into(),
        reason: Some("maintenance".into()),
    });
    let effects = desk.host.turn(throng_engine::io::Input::Command { token: 1, command: kick });
    let all = desk.hear(effects);
    // XEP-0206 6: with the error of the stream.
    assert_eq!(all[0].1.condition().as_deref(), Some("remote-stream-error"));
    let xml = all[0].1.xml();
    let error = xml.children().next().unwrap();
    assert!(error.is("error", "http://etherx.jabber.org/streams") && all[0].1.has("maintenance"), "{all:?}");
}

#[test]
fn xep0124_17_3_a_stop_is_told() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    let command = throng_engine::io::Command::Shutdown;
    let effects = desk.host.turn(throng_engine::io::Input::Command { token: 1, command });
    let all = desk.hear(effects);
    let told = all.iter().find(|(conn, answer)| *conn == client.conns[0] && answer.status == 200).unwrap();
    assert_eq!(told.1.condition().as_deref(), Some("system-shutdown"));
}

#[test]
fn a_session_without_a_login_ends_in_time() {
    let mut desk = Desk::new(|settings| settings.preauth_s_max = 10);
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    client.parks(&mut desk);
    let all = desk.wait(13_000);
    assert_eq!(all[0].1.condition().as_deref(), Some("remote-stream-error"), "{all:?}");
    assert!(all[0].1.has("connection-timeout"));
    assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 0);
}

#[test]
fn connections_of_a_session_with_a_user_stay_as_long_as_they_are_used() {
    let mut desk = Desk::new(|settings| settings.preauth_s_max = 10);
    let mut client = desk.bound("romeo", "ver='1.6' wait='30' hold='1'");
    for _ in 0..150 {
        client.parks(&mut desk);
        assert_eq!(desk.wait(32_000).len(), 1);
        assert!(!desk.ended.contains(&client.conns[0]));
    }
    assert!(desk.ended.contains(&client.conns[1]), "the other one is not");
    // And then an unused session ends.
    desk.wait(13_000);
    assert!(desk.ended.contains(&client.conns[0]));
}
