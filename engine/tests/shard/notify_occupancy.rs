//! Subscribers of channels (`/n/`), on one shard: who is informed about them, what is reported, and
//! how much one client can cause for others.

use std::sync::Arc;

use throng_engine::id::ConnId;
use throng_engine::io::Input;
use throng_engine::limits::{
    NOTIFY_AWAY_MS, NOTIFY_RENEW_S, NOTIFY_SUBJECT_BYTES_MAX, NOTIFY_TOLD_AT_ONCE, NOTIFY_WHO_MAX, NOTIFY_WHO_TOLD_MAX,
};
use throng_engine::web::policy::Channels;

use crate::issuer::{NOW_S, Signer, access, name_of};
use crate::notify_world::{Desk, Heard, KEY, TOKEN, frames_to, open, post, upgrade};

/// Channels with occupancy reports: those that begin with `own.` require a token, others are open.
pub(super) fn telling() -> Channels {
    Channels {
        private: Box::new(["own.".into()]),
        occupancy: Box::new(["".into()]),
        access: Some(Arc::new(access())),
        ..open()
    }
}

/// The header that permits subscribing, from a time on for an hour.
pub(super) fn may(now_s: u64, more: &str) -> String {
    let token = Signer::Hs256.token(&format!("\"exp\":{},\"subscribe\":[\"own.*\"]{more}", now_s + 3_600));
    format!("Authorization: Bearer {token}\r\n")
}

/// The same for a named client that may see the names of others.
fn named(name: &str) -> String {
    may(NOW_S, &format!(",\"sub\":\"{name}\",\"presence\":[\"own.*\"]"))
}

/// The occupancy reports in a stream of events or messages.
fn occupancy(heard: &Heard) -> Vec<&str> {
    let events = heard.text.split("event: occupancy\ndata: ").skip(1).filter_map(|rest| rest.split('\n').next());
    events.collect()
}

fn event(more: &str) -> String {
    format!("Accept: text/event-stream\r\n{more}")
}

fn request(path: &str, fields: &str) -> String {
    format!("GET /n/{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// The answer to a request for a channel's occupancy.
fn count(desk: &mut Desk, channel: &str, fields: &str) -> String {
    let conn = desk.connect();
    let heard = desk.says(conn, &request(&format!("{channel}?occupancy"), fields));
    assert_eq!((heard.status(), heard.field("Content-Type")), ("200", Some("application/json")), "{}", heard.text);
    assert_eq!(heard.field("Cache-Control"), Some("no-store"));
    heard.body().trim_end().to_owned()
}

fn alone(channel: &str, subscribers: u32) -> String {
    format!("{{\"channel\":\"{channel}\",\"subscribers\":{subscribers},\"who\":[],\"more\":false}}")
}

fn heard_by(desk: &mut Desk, hears: ConnId, input: Input<'_>) -> Heard {
    Heard::of(&desk.host.turn(input), hears)
}

/// What one connection receives while another one sends this.
fn while_asked(desk: &mut Desk, hears: ConnId, conn: ConnId, text: &str) -> Heard {
    heard_by(desk, hears, Input::Received { conn, bytes: text.as_bytes() })
}

#[test]
fn how_many_subscribe_is_told_where_the_operator_says_so() {
    let mut desk = Desk::new(Channels { occupancy: Box::new(["a".into()]), ..telling() });
    assert_eq!(count(&mut desk, "a", ""), alone("a", 0));
    let (polls, events) = (desk.connect(), desk.connect());
    assert_eq!(desk.get(polls, "a,b?wait=55"), Heard::default());
    assert_eq!(desk.stream(events, "a,a2", "").status(), "200");
    let socket = desk.connect();
    desk.host.turn(Input::Received { conn: socket, bytes: upgrade("a", KEY).as_bytes() });
    desk.wait(polls, 2);
    // A client that reads, publishes or asks without waiting.
    let reads = desk.connect();
    desk.get(reads, "a");
    assert_eq!(count(&mut desk, "a", ""), alone("a", 3));
    assert_eq!(count(&mut desk, "a2", ""), alone("a2", 1));
    desk.host.turn(Input::Closed { conn: events });
    desk.wait(polls, 2);
    assert_eq!((count(&mut desk, "a", ""), count(&mut desk, "a2", "")), (alone("a", 2), alone("a2", 0)));
    for (path, status) in [
        ("b?occupancy", "403"),
        ("a,b?occupancy", "403"),
        ("a,a2?occupancy", "400"),
        ("a?occupancy&wait=5", "400"),
        ("a?occupancy=1&after=0", "400"),
        ("a?occupancy=2", "400"),
        ("a?occupancy=0", "204"),
        ("b?occupancy=0", "204"),
    ] {
        let heard = desk.get(reads, path);
        assert_eq!(heard.status(), status, "{path}: {}", heard.text);
    }
    let streams = desk.connect();
    assert_eq!(desk.stream(streams, "b?occupancy=1", "").status(), "403");
}

#[test]
fn names_are_those_of_tokens_and_told_to_whom_a_token_grants_it() {
    let mut desk = Desk::new(telling());
    let mut last = desk.connect();
    let long = "x".repeat(NOTIFY_SUBJECT_BYTES_MAX + 1);
    for claims in [
        ",\"sub\":\"romeo\"".to_owned(),
        ",\"sub\":\"romeo\"".to_owned(),
        ",\"sub\":\"a \\\"b\\\"\"".to_owned(),
        format!(",\"sub\":\"{}\"", &long[1..]),
        // These have no name, but count.
        String::new(),
        ",\"sub\":\"\"".to_owned(),
    ] {
        last = desk.connect();
        // Open channels may be requested along with it: nobody is named there.
        assert_eq!(desk.stream(last, "own.a,open", &may(NOW_S, &claims)).status(), "200", "{claims}");
    }
    for claims in [",\"sub\":17", ",\"sub\":\"line\\nend\"", &format!(",\"sub\":\"{long}\"")] {
        let conn = desk.connect();
        assert_eq!(desk.stream(conn, "own.a,open", &may(NOW_S, claims)).status(), "401", "{claims}");
    }
    desk.wait(last, 2);
    let (own, everybody) = (count(&mut desk, "own.a", &named("x")), count(&mut desk, "open", ""));
    let who = format!(
        "{{\"name\":\"a \\\"b\\\"\",\"connections\":1}},{{\"name\":\"romeo\",\"connections\":2}},{{\"name\":\"{}\",\"connections\":1}}",
        &long[1..]
    );
    assert_eq!(own, format!("{{\"channel\":\"own.a\",\"subscribers\":6,\"who\":[{who}],\"more\":false}}"));
    assert_eq!(everybody, alone("open", 6));
    for (fields, status) in [
        (String::new(), "401"),
        (may(NOW_S, ""), "403"),
        (may(NOW_S, ",\"presence\":[\"own.b\"]"), "403"),
        (may(NOW_S, ",\"presence\":\"own.a\""), "401"),
    ] {
        let conn = desk.connect();
        let heard = desk.says(conn, &request("own.a?occupancy", &fields));
        assert_eq!(heard.status(), status, "{fields}: {}", heard.text);
        let stream = desk.says(conn, &request("own.a?occupancy=1", &event(&fields)));
        assert_eq!(stream.status(), status, "{fields}: {}", stream.text);
    }
    // A client that may see occupancy need not be permitted to read the items.
    let only = Signer::Hs256.token(&format!("\"exp\":{},\"presence\":[\"own.a\"]", NOW_S + 60));
    let only = format!("Authorization: Bearer {only}\r\n");
    assert!(count(&mut desk, "own.a", &only).contains("\"subscribers\":6"));
    let conn = desk.connect();
    assert_eq!(desk.says(conn, &request("own.a?occupancy=1", &event(&only))).status(), "403", "nor to read them");
}

#[test]
fn joins_and_leaves_are_events_without_ids() {
    let mut desk = Desk::new(telling());
    let romeo = desk.connect();
    let mut first = desk.says(romeo, &request("own.a?occupancy=1", &event(&named("romeo"))));
    first.text += &desk.wait(romeo, 2).text;
    let state =
        "{\"channel\":\"own.a\",\"subscribers\":1,\"who\":[{\"name\":\"romeo\",\"connections\":1}],\"more\":false}";
    assert_eq!(occupancy(&first), [state], "{}", first.text);
    // A client that does not request reports gets none.
    let quiet = desk.connect();
    let mut joined = while_asked(&mut desk, romeo, quiet, &request("own.a", &event(&named("juliet"))));
    joined.text += &desk.wait(romeo, 2).text;
    let change = "{\"channel\":\"own.a\",\"subscribers\":2,\"joined\":[\"juliet\"],\"left\":[]}";
    assert_eq!(occupancy(&joined), [change]);
    // By WebSocket the report includes the position. A second connection with the same name changes
    // the number.
    let again = desk.connect();
    let bytes = upgrade("own.a?occupancy=1", &format!("{KEY}{}", named("romeo")));
    let (mut frames, _) = desk.sends(again, bytes.as_bytes());
    frames.extend(frames_to(&desk.passes(2), again).0);
    frames.retain(|frame| frame.contains("occupancy"));
    // First the state before, and then that it has joined itself.
    let who = "\"who\":[{\"name\":\"juliet\",\"connections\":1},{\"name\":\"romeo\",\"connections\":1}],\"more\":false";
    let message = "{\"items\":[],\"gaps\":[],\"after\":\"0\",\"occupancy\":{\"channel\":\"own.a\",\"subscribers\":";
    assert_eq!(frames, [format!("{message}2,{who}}}}}"), format!("{message}3,\"joined\":[],\"left\":[]}}}}")]);
    let mut left = heard_by(&mut desk, romeo, Input::Closed { conn: quiet });
    left.text += &desk.wait(romeo, 2).text;
    assert_eq!(occupancy(&left), ["{\"channel\":\"own.a\",\"subscribers\":2,\"joined\":[],\"left\":[\"juliet\"]}"]);
    let mut left = heard_by(&mut desk, romeo, Input::Closed { conn: again });
    left.text += &desk.wait(romeo, 2).text;
    assert_eq!(occupancy(&left), ["{\"channel\":\"own.a\",\"subscribers\":1,\"joined\":[],\"left\":[]}"]);
    // An item arrives with its id as usual, and a client that returns with the last id has missed
    // nothing.
    let other = desk.connect();
    let item = while_asked(&mut desk, romeo, other, &post("own.a", &bearer_of_operator(), "x"));
    assert!(item.text.starts_with("id: 1\ndata: {\"channel\":\"own.a\""), "{}", item.text);
    assert!(!format!("{}{}{}", first.text, joined.text, left.text).contains("id: 1"));
    assert!(desk.wait(romeo, 60).text.lines().all(|line| line.is_empty() || line == ":"), "nothing has changed");
}

fn bearer_of_operator() -> String {
    format!("Authorization: Bearer {}\r\n", TOKEN)
}

/// Several channels, each with an event of its own.
#[test]
fn each_channel_of_a_subscription_is_told_of() {
    let mut desk = Desk::new(telling());
    let conn = desk.connect();
    let mut text = desk.stream(conn, "b,a?occupancy&after=0,0", "").text;
    text += &desk.wait(conn, 2).text;
    let heard = Heard { text, ends: false };
    let mut told = occupancy(&heard);
    told.sort_unstable();
    assert_eq!(told, [alone("a", 1), alone("b", 1)], "{}", heard.text);
}

/// A poll that is answered and renewed has neither left nor joined, on the same connection or
/// another one; a client that does not return has left.
#[test]
fn polls_that_are_renewed_stay() {
    let mut desk = Desk::new(telling());
    let hears = desk.connect();
    desk.stream(hears, "a?occupancy=1", "");
    let name = named("tybalt");
    let owner = desk.connect();
    desk.says(owner, &request("own.a?occupancy=1", &event(&named("romeo"))));
    let (mut all, mut of_names) = (Heard::default(), Heard::default());
    for round in 0..20 {
        // Two polling clients: one on its connection, one on a new one each time and from another
        // network.
        let (one, two) = (desk.connect(), desk.connect_from([192, 0, 2, 9]));
        assert_eq!(desk.get(one, "a?wait=55"), Heard::default());
        desk.says(two, &request("own.a?wait=55", &name));
        all.text += &desk.wait(hears, 2).text;
        of_names.text += &desk.wait(owner, 1).text;
        if round > 0 {
            assert_eq!(count(&mut desk, "a", ""), alone("a", 2), "round {round}");
        }
        for (channel, conn) in [("a", one), ("own.a", two)] {
            let publisher = desk.connect_from([192, 0, 2, 77]);
            let bytes = post(channel, &bearer_of_operator(), "x");
            assert_eq!(while_asked(&mut desk, conn, publisher, &bytes).status(), "200");
        }
        desk.host.turn(Input::Closed { conn: one });
        all.text += &desk.wait(hears, 1).text;
    }
    let told = occupancy(&all);
    assert_eq!(told.iter().filter(|told| told.contains("joined")).count(), 1, "{told:?}");
    let told = occupancy(&of_names);
    assert!(told.iter().filter(|told| told.contains("tybalt")).count() <= 1, "{told:?}");
    all = desk.wait(hears, 2 * NOTIFY_AWAY_MS / 1_000 + 2);
    assert_eq!(occupancy(&all), ["{\"channel\":\"a\",\"subscribers\":1,\"joined\":[],\"left\":[]}"]);
    assert!(count(&mut desk, "own.a", &name).contains("\"subscribers\":1,\"who\":[{\"name\":\"romeo\""));
}

/// However often one client comes and goes, others are informed at most once per second, and so are
/// homes.
#[test]
fn who_comes_and_goes_costs_others_one_message_a_second() {
    let mut desk = Desk::new(telling());
    let hears = desk.connect();
    desk.stream(hears, "a?occupancy=1", "");
    desk.wait(hears, 5);
    let (seconds, mut told) = (10, 0);
    let letters = desk.host.shard.counters().letters_own.get();
    let (mut joins, mut others) = (0, 0);
    for _ in 0..seconds * 50 {
        desk.host.now.mono_ms += 20;
        desk.host.now.pass_wall(20_000);
        let conn = desk.connect();
        let heard = while_asked(&mut desk, hears, conn, &request("a", &event("")));
        told += occupancy(&heard).len();
        let heard = heard_by(&mut desk, hears, Input::Closed { conn });
        told += occupancy(&heard).len();
        joins += 1;
        // Reading, and its answer.
        others += 2;
    }
    assert_eq!(joins, 500);
    assert!(told <= seconds + 1, "{told} messages in {seconds} seconds");
    let letters = desk.host.shard.counters().letters_own.get() - letters;
    // Each second: a report, the home's answer, and a continuation.
    assert!(letters <= others + 4 * (seconds as u64 + 2), "{letters} letters");
    let last = desk.wait(hears, 2);
    let last = occupancy(&last).last().map(|told| (*told).to_owned());
    assert!(last.is_none_or(|told| told.contains("\"subscribers\":1,")), "it ends with what is so");
    assert_eq!(count(&mut desk, "a", ""), alone("a", 1));
}

/// A crowd that arrives at once is reported in portions, each once or twice, not every client to
/// every other.
#[test]
fn a_crowd_is_no_storm() {
    let mut desk = Desk::new(telling());
    let crowd = NOTIFY_TOLD_AT_ONCE * 2 + 100;
    let all: Vec<_> = (0..crowd).map(|_| desk.connect()).collect();
    for conn in &all {
        assert_eq!(desk.stream(*conn, "a?occupancy=1", "").status(), "200");
    }
    desk.wait(all[0], 1);
    let told = desk.host.shard.counters().notify_occupancy_told.get();
    assert!((crowd as u64..=3 * crowd as u64).contains(&told), "{told} messages");
    let last = desk.connect();
    let heard = while_asked(&mut desk, all[crowd - 1], last, &request("a", &event("")));
    let text = format!("{}{}", heard.text, desk.wait(all[crowd - 1], 2).text);
    assert!(text.contains(&format!("\"subscribers\":{},\"joined\"", crowd + 1)), "{text}");
    assert_eq!(count(&mut desk, "a", ""), alone("a", crowd as u32 + 1));
}

/// Beyond a number of names changes are not reported, and beyond a larger one only some are named.
#[test]
fn names_are_bounded_and_the_number_is_not() {
    let mut desk = Desk::new(telling());
    let hears = desk.connect();
    desk.says(hears, &request("own.a?occupancy=1", &event(&named("a"))));
    let mut all = Vec::new();
    let mut text = String::new();
    for number in 1..NOTIFY_WHO_MAX as u32 + 5 {
        let conn = desk.connect();
        let name = named(&name_of(number));
        text += &while_asked(&mut desk, hears, conn, &request("own.a", &event(&name))).text;
        all.push(conn);
        if number == NOTIFY_WHO_TOLD_MAX as u32 / 2 || number == NOTIFY_WHO_TOLD_MAX as u32 {
            text += &desk.wait(hears, 2).text;
        }
    }
    text += &desk.wait(hears, 2).text;
    let heard = Heard { text, ends: false };
    let told = occupancy(&heard);
    assert!(told.iter().any(|told| told.matches("\",").count() > 40 && told.contains("joined")), "{told:?}");
    let last = format!("{{\"channel\":\"own.a\",\"subscribers\":{},\"who\":[],\"more\":true}}", NOTIFY_WHO_MAX + 5);
    assert_eq!(told.last(), Some(&&*last));
    assert!(told.iter().all(|told| told.len() < 5_000), "each message is bounded");
    let asked = count(&mut desk, "own.a", &named("a"));
    assert_eq!(asked.matches("\"name\"").count(), NOTIFY_WHO_MAX);
    assert!(asked.contains(&format!("\"subscribers\":{},", NOTIFY_WHO_MAX + 5)) && asked.ends_with("],\"more\":true}"));
    // The remaining clients are reported again as soon as possible.
    for conn in &all[10..] {
        desk.host.turn(Input::Closed { conn: *conn });
    }
    let heard = desk.wait(hears, u64::from(NOTIFY_RENEW_S) + 3);
    let last = occupancy(&heard).last().map(|told| (*told).to_owned()).unwrap_or_default();
    assert_eq!(last.matches("\"name\"").count(), 11, "{last}");
    assert!(last.contains("\"subscribers\":11,") && last.ends_with("\"more\":false}"), "{last}");
}

/// A client that takes nothing gets no more reports, and then the current state.
#[test]
fn a_slow_subscriber_is_told_how_it_is_when_it_reads() {
    let mut desk = Desk::new(telling());
    let slow = desk.connect();
    desk.stream(slow, "own.a,a?occupancy=1", &named("slow"));
    desk.wait(slow, 2);
    desk.host.prompt = false;
    let large = "x".repeat(30_000);
    let publisher = desk.connect_from([192, 0, 2, 77]);
    let mut got = Heard::default();
    for _ in 0..20 {
        let bytes = post("a", &bearer_of_operator(), &large);
        got.text += &while_asked(&mut desk, slow, publisher, &bytes).text;
    }
    for number in 0..20 {
        let conn = desk.connect();
        got.text += &while_asked(&mut desk, slow, conn, &request("own.a", &event(&named(&name_of(number))))).text;
        got.text += &desk.wait(slow, 2).text;
    }
    assert!(occupancy(&got).iter().all(|told| !told.contains("\"channel\":\"own.a\"")), "it takes nothing");
    let mut rest = String::new();
    for _ in 0..100 {
        rest += &Heard::of(&desk.host.sent(slow), slow).text;
    }
    let rest = Heard { text: rest, ends: false };
    let told: Vec<_> = occupancy(&rest).into_iter().filter(|told| told.contains("own.a")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("\"subscribers\":21,\"who\":[") && told[0].matches("\"name\"").count() == 21);
}

/// At most this many clients of one address are expected to return; others have left with their
/// answer.
#[test]
fn an_address_is_expected_back_so_often() {
    let mut desk = Desk::new(Channels { waiting_max: 5, ..telling() });
    let publisher = desk.connect_from([192, 0, 2, 77]);
    for round in 0..2 {
        for channel in ["a", "b"] {
            for _ in 0..5 {
                let conn = desk.connect();
                desk.get(conn, &format!("{channel}?wait=55"));
            }
            let bytes = post(channel, &bearer_of_operator(), "x");
            desk.host.turn(Input::Received { conn: publisher, bytes: bytes.as_bytes() });
        }
        desk.wait(publisher, 2);
        let (a, b) = (count(&mut desk, "a", ""), count(&mut desk, "b", ""));
        assert_eq!((a, b), (alone("a", 5), alone("b", 0)), "round {round}");
    }
    desk.wait(publisher, 2 * NOTIFY_AWAY_MS / 1_000 + 2);
    assert_eq!(count(&mut desk, "a", ""), alone("a", 0));
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "b?wait=55"), Heard::default());
    desk.wait(publisher, 2);
    assert_eq!(count(&mut desk, "b", ""), alone("b", 1));
}

/// Without occupancy reports there are no letters about it, and no state.
#[test]
fn without_the_option_it_costs_nothing() {
    let run = |channels: Channels| {
        let mut desk = Desk::new(channels);
        let conns: Vec<_> = (0..50).map(|_| desk.connect()).collect();
        for (at, conn) in conns.iter().enumerate() {
            desk.stream(*conn, &format!("c{at},d"), "");
        }
        desk.wait(conns[0], 40);
        conns.iter().for_each(|conn| drop(desk.host.turn(Input::Closed { conn: *conn })));
        desk.wait(conns[0], 40);
        let counters = desk.host.shard.counters();
        (counters.letters_own.get(), counters.mem_users_bytes.get())
    };
    let (without, elsewhere, with) =
        (run(open()), run(Channels { occupancy: Box::new(["e".into()]), ..open() }), run(telling()));
    assert_eq!(without, elsewhere);
    assert!(with.0 >= without.0 + 50, "{with:?}, {without:?}");
    assert_eq!(with.1, without.1, "and nothing is left when all are gone");
}
