//! What one user or one address can do with BOSH, and what it costs.

use throng_engine::id::ConnId;
use throng_engine::io::{Effect, Input};
use throng_engine::limits::{
    BOSH_ANSWER_S_MAX, BOSH_BODY_BYTES_MAX, BOSH_LONG_BODIES_MAX, HTTP_BEHIND_BYTES_MAX, HTTP_REQUESTS_MAX,
    PREAUTH_BYTES_MAX,
};
use throng_engine::session::pace::Allowances;

use super::desk::{Desk, PRESENCE, RID, body, message, plain, request};

#[test]
fn half_open_sessions_of_an_address_are_limited_with_its_connections() {
    let mut desk = Desk::new(|settings| (settings.opening_per_address_max, settings.preauth_s_max) = (20, 10));
    let counters = desk.host.shard.counters().clone();
    let conn = desk.connect();
    let mut refused = 0;
    for n in 0..60 {
        let all = desk.send(conn, &request(&body(&format!("rid='{}' to='localhost' ver='1.6'", RID + n), "")));
        refused += all.iter().filter(|(_, answer)| answer.has("resource-constraint")).count();
    }
    assert!(refused >= 40 && counters.bosh_sessions.get() <= 20, "{refused}");
    desk.wait(13_000);
    assert_eq!(counters.bosh_sessions.get(), 0, "and they end in time");
    assert_eq!(desk.host.shard.inspect().phases, [0; 7]);
}

#[test]
fn guesses_of_a_session_find_none_and_end_their_connection() {
    let mut desk = Desk::new(|_| {});
    let client = desk.usual("romeo");
    let conn = desk.connect();
    let mut guesses =
        vec![client.sid.to_uppercase(), client.sid[..35].into(), format!("{}0", client.sid), String::new()];
    // The shard part is known, the rest is not; and shards that do not exist.
    guesses.extend((0..200).map(|n| format!("{}{n:032x}", &client.sid[..4])));
    guesses.extend(["ffff", "0001", "00zz"].map(|shard| format!("{shard}{}", &client.sid[4..])));
    let mut answered = 0;
    let mut conn_now = conn;
    for guess in &guesses {
        if desk.ended.contains(&conn_now) {
            conn_now = desk.connect();
        }
        let all = desk.send(conn_now, &request(&body(&format!("sid='{guess}' rid='{}'", client.rid + 1), "")));
        assert_eq!(all[0].1.condition().as_deref(), Some("item-not-found"), "{guess}");
        answered += 1;
    }
    assert_eq!(answered, guesses.len());
    assert!(desk.ended.contains(&conn), "after {HTTP_REQUESTS_MAX} of them");
    assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 1, "nobody's session has suffered");
}

#[test]
fn many_requests_that_wait_are_one_sessions_and_two() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    let waits = client.next("", "");
    let mut parked = 0i32;
    // The same request on many connections: only the last one waits.
    for _ in 0..8 {
        let conn = desk.connect();
        parked += 1 - desk.send(conn, &request(&waits)).len() as i32;
    }
    assert_eq!(parked, 1);
    desk.wait(1_100);
    assert_eq!(desk.host.shard.counters().bosh_waiting.get(), 1);
}

/// For a waiting request only its connection and its session are stored.
#[test]
fn a_request_that_waits_keeps_no_buffer() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    client.parks(&mut desk);
    desk.wait(2_100);
    let seen = desk.host.shard.inspect();
    assert_eq!(seen.outbound_bytes_all, 0);
    assert!(desk.host.shard.counters().bosh_bytes.get() < 2_000, "two short answers are kept");
}

#[test]
fn old_numbers_replayed_end_the_session_without_a_second_effect() {
    let mut desk = Desk::new(|_| {});
    let juliet = desk.tcp("juliet");
    let mut client = desk.usual("romeo");
    let said = client.next("", &message("juliet", "once"));
    assert_eq!(desk.host_sends(client.conns[0], &said, juliet), 1);
    for at in [1, 0, 1] {
        let ping = client.next("", "<iq xmlns='jabber:client' type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
        assert!(!desk.send(client.conns[at], &request(&ping)).is_empty());
    }
    let conn = desk.connect();
    assert_eq!(desk.host_sends(conn, &said, juliet), 0);
    assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 0);
}

#[test]
fn huge_windows_are_not_kept() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    let content =
        format!("<message xmlns='jabber:client' to='juliet@localhost'><body>{}</body></message>", "x".repeat(200_000));
    // Requests that have to wait for one that never arrives.
    client.rid += 1;
    let mut ends = false;
    for _ in 0..5 {
        let early = client.next("", &content);
        let conn = desk.connect();
        let all = desk.send(conn, &request(&early));
        ends |= all.iter().any(|(_, answer)| answer.condition().as_deref() == Some("item-not-found"));
        desk.wait(1_100);
        assert!(desk.host.shard.counters().bosh_bytes.get() < 2 * 210_000);
    }
    assert!(ends);
}

/// A user's received and unprocessed data is limited while the session pays off its work.
#[test]
fn what_waits_to_be_looked_at_is_bounded() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    // The account is being looked up: nothing after it is processed.
    let login = client.next("", &plain("romeo"));
    let junk = format!("<iq xmlns='jabber:client' type='get' id='1'><a xmlns='a'>{}</a></iq>", "x".repeat(400_000));
    let second = client.next("", &junk);
    let mut out = throng_engine::io::Output::default();
    let now = desk.host.now;
    let (one, two) = (request(&login), request(&second));
    desk.host.shard.handle(now, Input::Received { conn: client.conns[0], bytes: &one }, &mut out);
    desk.host.shard.handle(now, Input::Received { conn: client.conns[1], bytes: &two }, &mut out);
    let third = client.next("type='terminate'", &junk.replace("id='1'", "id='2'"));
    desk.host.shard.handle(now, Input::Received { conn: client.conns[0], bytes: &request(&third) }, &mut out);
    let all = desk.hear(out.effects.drain(..).collect());
    assert!(all.is_empty() || all.iter().all(|(_, answer)| answer.condition().is_some()));
    let all = desk.wait(200);
    assert!(all.iter().any(|(_, answer)| answer.condition().is_some()), "too long before a login: {all:?}");
}

/// A letter between shards may be lost: the connection's shard answers itself, and the client
/// retries.
#[test]
fn a_request_whose_session_never_answers_ends_in_time() {
    let mut desk = Desk::new(|settings| *settings = throng_engine::settings::Settings::new("localhost", 2, [0; 32], 0));
    let conn = desk.connect();
    let lost = body(&format!("sid='0001{}' rid='7'", "a".repeat(32)), "");
    let effects = desk.host.turn(Input::Received { conn, bytes: &request(&lost) });
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Letters { batch, .. } if batch.len() == 1)),
        "relayed"
    );
    assert_eq!(desk.hear(effects), []);
    assert_eq!(desk.wait(u64::from(BOSH_ANSWER_S_MAX) * 1_000 - 500), []);
    let all = desk.wait(10_000);
    assert_eq!((all[0].1.status, all.len()), (503, 1), "{all:?}");
    assert!(desk.ended.contains(&conn));
}

#[test]
fn long_bodies_that_do_not_come_are_limited_for_all_together() {
    let mut desk = Desk::new(|_| {});
    let head =
        |length: usize| format!("POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n<body");
    let mut conns = Vec::new();
    for _ in 0..BOSH_LONG_BODIES_MAX {
        let conn = desk.connect();
        assert_eq!(desk.send(conn, head(BOSH_BODY_BYTES_MAX).as_bytes()), []);
        conns.push(conn);
    }
    let conn = desk.connect();
    assert_eq!(desk.send(conn, head(BOSH_BODY_BYTES_MAX).as_bytes())[0].1.status, 503);
    let conn = desk.connect();
    assert_eq!(desk.send(conn, head(PREAUTH_BYTES_MAX).as_bytes()), [], "a short one goes on");
    // Chunks announce no length.
    let conn = desk.connect();
    let chunked = "POST /http-bind HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(desk.send(conn, format!("{chunked}4001\r\n<").as_bytes())[0].1.status, 503);
    // When one has left, another may connect.
    desk.host.turn(Input::Closed { conn: conns[0] });
    let conn = desk.connect();
    assert_eq!(desk.send(conn, head(BOSH_BODY_BYTES_MAX).as_bytes()), []);
    let conn = desk.connect();
    assert_eq!(desk.send(conn, head(BOSH_BODY_BYTES_MAX + 1).as_bytes())[0].1.status, 413);
}

#[test]
fn what_comes_behind_a_request_that_waits_is_bounded() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.connect();
    // It waits for another shard, without a deadline.
    let mut two = Desk::new(|settings| *settings = throng_engine::settings::Settings::new("localhost", 2, [0; 32], 0));
    let conn_two = two.connect();
    let lost = body(&format!("sid='0001{}' rid='7'", "a".repeat(32)), "");
    two.send(conn_two, &request(&lost));
    let mut paused = false;
    for _ in 0..3 {
        let effects = two.host.turn(Input::Received { conn: conn_two, bytes: &[b'x'; HTTP_BEHIND_BYTES_MAX / 2] });
        paused |= effects.iter().any(|effect| matches!(effect, Effect::Pause { conn } if *conn == conn_two));
    }
    assert!(paused, "more is not read");
    assert_eq!(desk.send(conn, b""), []);
}

/// A client that does not read its answers is not read from.
#[test]
fn answers_that_nobody_reads_hold_up_their_connection() {
    let mut desk = Desk::new(|settings| settings.outbound_bytes_soft = 1_000);
    let conn = desk.connect();
    desk.host.prompt = false;
    let guess = request(&body(&format!("sid='0000{}' rid='7'", "a".repeat(32)), ""));
    let effects = desk.host.turn(Input::Received { conn, bytes: &guess.repeat(50) });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Pause { conn: of } if *of == conn)));
    assert!(desk.host.shard.inspect().outbound_bytes < 3_000);
}

#[test]
fn sessions_of_a_user_are_as_many_as_on_other_transports() {
    let mut desk = Desk::new(|settings| settings.sessions_per_user_max = 3);
    for _ in 0..3 {
        desk.usual("romeo").say(&mut desk, PRESENCE);
    }
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    client.say(&mut desk, &plain("romeo"));
    client.with(&mut desk, "to='localhost' xmpp:restart='true'", "");
    assert!(client.say(&mut desk, super::desk::BIND).has("resource-constraint"));
}

impl Desk {
    /// Number of messages that a bare stream receives from a request.
    fn host_sends(&mut self, conn: ConnId, body: &str, stream: ConnId) -> usize {
        let effects = self.host.turn(Input::Received { conn, bytes: &request(body) });
        let heard = |effect: &Effect| match effect {
            Effect::Send { conn, bytes, .. } if *conn == stream => {
                String::from_utf8(bytes.clone()).unwrap().matches("<message").count()
            }
            _ => 0,
        };
        effects.iter().map(heard).sum()
    }
}

/// Rates per account also apply to BOSH: the stanzas of a request wait and are processed in time.
#[test]
fn an_account_sends_as_fast_as_over_a_bare_stream() {
    let mut desk = Desk::new(|settings| settings.paces = Allowances::USUAL);
    let stream = desk.tcp("romeo");
    let mut client = desk.usual("romeo");
    let taken = |desk: &Desk| desk.host.shard.counters().messages_in.get();
    desk.host.ask(stream, &message("juliet", "a").repeat(100));
    assert_eq!(taken(&desk), 100);
    client.send(&mut desk, "", &message("juliet", "b").repeat(150));
    let at_once = taken(&desk);
    assert!((190..=201).contains(&at_once), "{at_once}: with the presence of the other session");
    desk.wait(1_000);
    assert!((10..=26).contains(&(taken(&desk) - at_once)), "{}", taken(&desk) - at_once);
    desk.wait(4_000);
    assert_eq!(taken(&desk), 250, "nothing is lost");
    assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 1, "and nothing ends");
}
