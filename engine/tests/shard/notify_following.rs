//! Connections that move to the home of the channel for which they wait (`/n/`): which ones do,
//! what moves along, and the limits.

use throng_engine::id::{ConnId, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind};
use throng_engine::letters::{ChannelLetter, Letter};
use throng_engine::limits::NOTIFY_AT_HOME_MAX;
use throng_engine::session::moved::{Errand, Follower, Moved};
use throng_engine::settings::Settings;
use throng_engine::web::Transport;
use throng_engine::web::policy::Channels;

use crate::notify_world::{Desk, Heard, KEY, open, settings, upgrade};

const ADDRESS: [u8; 4] = [192, 0, 2, 1];

fn two(channels: Channels) -> Settings {
    settings(2, Channels { mercure: true, nchan: true, ..channels })
}

/// A channel whose home is this shard; the desk's own shard is the first.
fn channel_of(desk: &Desk, home: u16) -> String {
    let homes = |name: &String| desk.host.shard.home(&format!("pubsub.localhost/{name}")) == ShardId(home);
    (0..).map(|number| format!("c{number}")).find(homes).expect("one of many")
}

/// The shard to which a request moves its connection, if it does.
fn goes(desk: &mut Desk, conn: ConnId, request: &str) -> Option<(ShardId, Box<Moved>)> {
    let effects = desk.host.turn(Input::Received { conn, bytes: request.as_bytes() });
    effects.into_iter().find_map(|effect| match effect {
        Effect::Depart { to, moved, .. } => Some((to, moved)),
        _ => None,
    })
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

const EVENTS: &str = "Accept: text/event-stream\r\n";

#[test]
fn who_waits_long_for_one_channel_goes_and_others_stay() {
    let mut desk = Desk::of(two(open()));
    let (far, near) = (channel_of(&desk, 1), channel_of(&desk, 0));
    let going = [
        get(&format!("/n/{far}"), EVENTS),
        get(&format!("/n/{far}?wait=55"), ""),
        upgrade(&far, KEY),
        get(&format!("/.well-known/mercure?topic={far}"), ""),
        get(&format!("/sub/{far}?wait=20"), ""),
        get(&format!("/sub/{far}"), EVENTS),
    ];
    for request in going {
        let conn = desk.connect();
        let behind = format!("{request}what is behind it");
        let (to, moved) = goes(&mut desk, conn, &behind).expect(&request);
        assert_eq!((to, &*moved.leftover), (ShardId(1), behind.as_bytes()), "it comes as it was");
        assert_eq!((moved.home(), moved.peer), (&*format!("pubsub.localhost/{far}"), ADDRESS.into()));
    }
    let staying = [
        get(&format!("/n/{near}"), EVENTS),
        get(&format!("/n/{far},{near}"), EVENTS),
        get(&format!("/n/{far}?wait=0"), ""),
        get(&format!("/n/{far}?wait=55"), "Connection: close\r\n"),
        format!("POST /n/{far} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"),
        get(&format!("/n/{far}/presence"), ""),
    ];
    for request in staying {
        let conn = desk.connect();
        assert_eq!(goes(&mut desk, conn, &request), None, "{request}");
    }
}

/// A request that arrived in parts moves as a whole, after the answer to the one before.
#[test]
fn what_has_come_before_is_answered_first() {
    let mut desk = Desk::of(two(open()));
    let far = channel_of(&desk, 1);
    let conn = desk.connect();
    let request = get(&format!("/n/{far}"), EVENTS);
    let (first, rest) = request.split_at(20);
    assert_eq!(goes(&mut desk, conn, first), None);
    let (_, moved) = goes(&mut desk, conn, rest).expect("all of it is there");
    assert_eq!(moved.leftover, request.as_bytes());
    let conn = desk.connect();
    let effects = desk.host.turn(Input::Received { conn, bytes: format!("{}{request}", get("/x", "")).as_bytes() });
    let answer = Heard::of(&effects, conn);
    let last = effects.iter().find_map(|effect| match effect {
        Effect::Depart { last, moved, .. } => Some((last, moved)),
        _ => None,
    });
    let (last, moved) = last.expect("it goes");
    let answered = answer.text.into_bytes();
    assert!([&*answered, last].concat().starts_with(b"HTTP/1.1 404"), "what waits is sent before");
    assert_eq!(moved.leftover, request.as_bytes());
}

fn follows(node: &str, from: u16, waiting: u32, request: &str) -> Box<Moved> {
    let node = format!("pubsub.localhost/{node}").into();
    Box::new(Moved {
        errand: Errand::Channel(Box::new(Follower { node, from: ShardId(from), waiting, tls: None, proxy: None })),
        listener: ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false },
        peer: ADDRESS.into(),
        named: false,
        secured: false,
        accepted_s: 1,
        transport: Transport::Http,
        leftover: request.as_bytes().to_vec(),
        stream: None,
    })
}

/// The output for a moved connection, and the channel for which its former shard is told to keep
/// others, if any.
fn arrives(desk: &mut Desk, slot: u32, moved: Box<Moved>) -> (ConnId, Heard, Option<String>) {
    let conn = ConnId { slot, generation: 1 };
    let effects = desk.host.turn(Input::Arrived { conn, moved });
    let stays = effects.iter().find_map(|effect| match effect {
        Effect::Letters { to: ShardId(1), batch } => batch.letters().iter().find_map(|letter| match letter {
            Letter::Channel(ChannelLetter::Stay { node }) => Some(batch.str(*node).to_owned()),
            _ => None,
        }),
        _ => None,
    });
    (conn, Heard::of(&effects, conn), stays)
}

#[test]
fn who_has_come_waits_and_does_not_go_again() {
    let mut desk = Desk::of(two(open()));
    let (near, far) = (channel_of(&desk, 0), channel_of(&desk, 1));
    let (conn, heard, stays) = arrives(&mut desk, 5, follows(&near, 1, 0, &get(&format!("/n/{near}?wait=55"), "")));
    assert_eq!((heard, stays), (Heard::default(), None));
    assert_eq!(desk.told(conn, &near, "", "x").data(), ["x"]);
    assert_eq!(goes(&mut desk, conn, &get(&format!("/n/{far}?wait=55"), "")), None, "once is enough");
}

/// A channel's home takes some of its waiting clients; in all at most twice as many as the other
/// shard has, plus some.
#[test]
fn a_home_says_when_it_takes_no_more() {
    let mut desk = Desk::of(two(open()));
    let near = channel_of(&desk, 0);
    let request = get(&format!("/n/{near}"), EVENTS);
    for slot in 0..NOTIFY_AT_HOME_MAX + 3 {
        let (_, heard, stays) = arrives(&mut desk, slot, follows(&near, 1, 0, &request));
        assert_eq!(heard.status(), "200");
        let full = slot + 1 >= NOTIFY_AT_HOME_MAX;
        assert_eq!(stays, full.then(|| format!("pubsub.localhost/{near}")), "{slot}");
    }
    let mut desk = Desk::of(two(open()));
    let crowded = |slot: u32, waiting| follows(&format!("n{slot}"), 1, waiting, &get(&format!("/n/n{slot}"), EVENTS));
    let stays: Vec<_> = (0..4_200).map(|slot| arrives(&mut desk, slot, crowded(slot, 25)).2).collect();
    let first = stays.iter().position(Option::is_some).expect("it is full at some time");
    assert_eq!((first, stays[first].as_deref()), (4_096 + 2 * 25 + 1, Some("")), "of no channel");
}

/// Connections of an address without a session are limited wherever they move.
#[test]
fn an_address_brings_no_more_than_it_may_have() {
    let mut settings = two(open());
    settings.opening_per_address_max = 8;
    let mut desk = Desk::of(settings);
    let near = channel_of(&desk, 0);
    let request = get(&format!("/n/{near}"), EVENTS);
    for slot in 0..10 {
        let (_, heard, stays) = arrives(&mut desk, slot, follows(&near, 1, 0, &request));
        assert_eq!((heard.ends, stays.is_some()), (slot >= 8, slot >= 4), "{slot}: {}", heard.text);
    }
}

#[test]
fn who_finds_no_room_waits_where_it_is() {
    let mut desk = Desk::of(two(open()));
    let far = channel_of(&desk, 1);
    let conn = desk.connect();
    let request = get(&format!("/n/{far}"), EVENTS);
    let (_, moved) = goes(&mut desk, conn, &request).expect("it goes");
    assert!(desk.host.shard.is_departing(conn));
    let effects = desk.host.turn(Input::Stayed { conn, moved: moved.clone() });
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Resume { conn: of, .. } if *of == conn)),
        "it is read from"
    );
    let asks = effects.iter().any(|effect| match effect {
        Effect::Letters { to: ShardId(1), batch } => {
            batch.letters().iter().any(|letter| matches!(letter, Letter::Channel(ChannelLetter::Read { .. })))
        }
        _ => false,
    });
    assert!(asks, "and waits: {effects:?}");
    // Nor does another one try, for a while.
    let other = desk.connect();
    assert_eq!(goes(&mut desk, other, &get(&format!("/n/{}", far.replace('c', "d")), EVENTS)).map(|(to, _)| to), None);
    // A connection that was closed meanwhile is dropped.
    let gone = desk.connect();
    desk.host.turn(Input::Closed { conn: gone });
    assert!(desk.host.turn(Input::Stayed { conn: gone, moved }).is_empty());
}
