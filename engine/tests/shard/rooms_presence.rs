//! Presence in a room with many sessions (XEP-0045 7.2.3, 7.6, 7.14): the others are sent the last
//! state, once per interval, and end up with the truth.

use std::collections::BTreeMap;

use throng_engine::id::ConnId;
use throng_engine::io::{Command, Effect, Input, Reply, RoomCommand};
use throng_engine::limits::{ROOM_CAST_AT_ONCE, ROOM_CHARGED_SHARE, ROOM_COALESCED_MS, ROOM_COALESCED_SEATS};
use throng_engine::settings::Settings;
use throng_engine::store::Found;
use throng_engine::store::room::Seat;
use throng_sim::host::{Host, reply, said};
use throng_sim::random::Random;

use crate::rooms::MUC;

const ROOM: &str = "cave@conference.localhost";

fn settings() -> Settings {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.serve_rooms("conference.localhost");
    settings
}

/// A session of `uN`.
fn bind(host: &mut Host, slot: usize, user: usize, resource: &str) -> ConnId {
    let (conn, _) = host.arrive(u32::try_from(slot).expect("few"), &format!("u{user}"));
    host.ask(
        conn,
        &format!(
            "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{resource}</resource></bind></iq>"
        ),
    );
    conn
}

struct Scene {
    host: Host,
    clients: Vec<ConnId>,
    /// What each client has received since it was last asked.
    heard: Vec<String>,
}

impl Scene {
    /// A room with so many users, `u0` its owner. All have the nicks of their names.
    fn new(users: usize) -> Scene {
        let mut host = Host::new(settings());
        let mut clients = Vec::new();
        for user in 0..users {
            host.account(&format!("u{user}"));
            clients.push(bind(&mut host, user, user, "r"));
        }
        let mut scene = Scene { host, heard: vec![String::new(); users], clients };
        scene.enters(0, "u0");
        scene.says(0, &format!("<iq type='set' id='c' to='{ROOM}'><query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'/></query></iq>"));
        (1..users).for_each(|user| scene.enters(user, &format!("u{user}")));
        scene.passes_ms(ROOM_COALESCED_MS);
        scene.passes_ms(ROOM_COALESCED_MS);
        scene.heard.iter_mut().for_each(String::clear);
        scene
    }

    /// Another session of a user.
    fn binds(&mut self, user: usize, resource: &str) {
        let conn = bind(&mut self.host, self.clients.len(), user, resource);
        self.clients.push(conn);
        self.heard.push(String::new());
    }

    fn hears(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Send { conn, .. } = effect
                && let Some(at) = self.clients.iter().position(|client| client == conn)
            {
                self.heard[at].push_str(&said(std::slice::from_ref(effect)));
            }
        }
    }

    fn says(&mut self, user: usize, text: &str) {
        let effects = self.host.say(self.clients[user], text);
        self.hears(&effects);
    }

    fn passes_ms(&mut self, ms: u64) {
        self.host.now.mono_ms += ms;
        self.host.now.pass_wall(ms * 1_000);
        let effects = self.host.turn(Input::Held { since_s: None, many: false });
        self.hears(&effects);
    }

    fn enters(&mut self, user: usize, nick: &str) {
        self.says(user, &format!("<presence to='{ROOM}/{nick}'><x xmlns='{MUC}'/></presence>"));
    }

    fn is_now(&mut self, user: usize, nick: &str, show: &str) {
        self.says(user, &format!("<presence to='{ROOM}/{nick}'><show>{show}</show></presence>"));
    }

    fn leaves(&mut self, user: usize, nick: &str) {
        self.says(user, &format!("<presence type='unavailable' to='{ROOM}/{nick}'/>"));
    }

    /// The owner changes a role or an affiliation.
    fn changes(&mut self, item: &str) {
        self.says(
            0,
            &format!("<iq type='set' id='k' to='{ROOM}'><query xmlns='{MUC}#admin'><item {item}/></query></iq>"),
        );
    }

    fn take(&mut self, user: usize) -> String {
        std::mem::take(&mut self.heard[user])
    }
}

fn presences(text: &str) -> Vec<&str> {
    text.split("<presence").skip(1).collect()
}

/// A client that changes its presence a hundred times in an interval costs each of the others one
/// stanza. Its own sessions see each change at once.
#[test]
fn a_flood_of_presence_costs_the_others_one_stanza_per_interval() {
    let mut scene = Scene::new(ROOM_COALESCED_SEATS + 2);
    // The first change after a quiet interval is sent at once.
    scene.is_now(1, "u1", "away");
    assert_eq!(presences(&scene.take(2)).len(), 1);
    scene.take(1);
    for n in 0..100 {
        scene.is_now(1, "u1", if n % 2 == 0 { "dnd" } else { "xa" });
    }
    assert_eq!(presences(&scene.take(1)).len(), 100, "its own presence is not delayed");
    assert_eq!(scene.take(2), "");
    scene.passes_ms(ROOM_COALESCED_MS);
    let text = scene.take(2);
    assert!(presences(&text).len() == 1 && text.contains("<show>xa</show>"), "{text}");

    for n in 0..100 {
        scene.is_now(1, &format!("n{n}"), "chat");
    }
    scene.leaves(1, "n99");
    scene.enters(1, "last");
    scene.passes_ms(ROOM_COALESCED_MS);
    let text = scene.take(2);
    let all = presences(&text);
    assert_eq!(all.len(), 2, "one nick goes, one comes: {text}");
    assert!(all[0].contains("type='unavailable'") && all[0].contains(&format!("{ROOM}/u1'")), "{text}");
    assert!(all[1].contains(&format!("{ROOM}/last'")), "{text}");

    // One who comes and goes between two moments was never there.
    scene.leaves(1, "last");
    scene.passes_ms(ROOM_COALESCED_MS);
    scene.passes_ms(ROOM_COALESCED_MS);
    scene.is_now(3, "u3", "away");
    scene.take(2);
    for _ in 0..50 {
        scene.enters(1, "ghost");
        scene.leaves(1, "ghost");
    }
    scene.passes_ms(ROOM_COALESCED_MS);
    assert_eq!(scene.take(2), "");
    // However the changes fall in time.
    scene.enters(1, "u1");
    scene.passes_ms(2 * ROOM_COALESCED_MS);
    scene.take(2);
    let (mut passed_ms, mut last) = (0, 0);
    for n in 0..400 {
        scene.is_now(1, "u1", if n % 2 == 0 { "dnd" } else { "xa" });
        scene.passes_ms(37);
        passed_ms += 37;
        let sent = presences(&scene.take(2)).len();
        assert!(sent == 0 || (sent == 1 && passed_ms - last + 37 >= ROOM_COALESCED_MS) || last == 0, "{passed_ms} ms");
        last = if sent == 0 { last } else { passed_ms };
    }
    assert!(passed_ms - last <= ROOM_COALESCED_MS, "the last one was {last} of {passed_ms} ms");
    scene.leaves(1, "u1");
    scene.passes_ms(2 * ROOM_COALESCED_MS);
    scene.take(2);
    // And one who has left stays away.
    scene.passes_ms(10 * ROOM_COALESCED_MS);
    assert_eq!(scene.take(2), "");
}

/// A room that is not large tells each change at once (XEP-0045 7.2.3).
#[test]
fn a_small_room_delays_nothing() {
    let mut scene = Scene::new(5);
    for show in ["away", "xa", "dnd"] {
        scene.is_now(1, "u1", show);
        let text = scene.take(2);
        assert!(presences(&text).len() == 1 && text.contains(show), "{text}");
    }
}

/// XEP-0045 7.14: a leave of which the others have not been told yet is reported after a restart, under
/// the nick that they have seen. Once they know it, nothing of it is stored.
#[test]
fn a_restart_loses_no_leave() {
    let rows = |host: &Host| match host.disk.read(&Seat::query(ROOM, None)) {
        Found::Rows { rows, .. } => rows.iter().filter(|row| Seat::jid_of(row) == Some("u1@localhost/r")).count(),
        found => panic!("{found:?}"),
    };
    let mut scene = Scene::new(ROOM_COALESCED_SEATS + 2);
    scene.is_now(1, "u1", "away");
    scene.take(2);
    scene.is_now(1, "renamed", "away");
    scene.leaves(1, "renamed");
    assert_eq!((scene.take(2), rows(&scene.host)), (String::new(), 1));
    let mut later = Host::new(settings());
    later.disk = std::mem::take(&mut scene.host.disk);
    let conn = bind(&mut later, 2, 2, "r");
    let text = said(&later.ask(conn, &format!("<message type='groupchat' to='{ROOM}'><body>x</body></message>")));
    let of_u1: Vec<&str> = presences(&text).into_iter().filter(|one| one.contains(&format!("{ROOM}/u1'"))).collect();
    assert!(matches!(&of_u1[..], [one] if one.contains("type='unavailable'")), "{text}");
    assert!(!text.contains("renamed"), "{text}");
    assert_eq!(rows(&later), 0);

    let mut scene = Scene::new(ROOM_COALESCED_SEATS + 2);
    scene.is_now(1, "u1", "away");
    scene.leaves(1, "u1");
    assert_eq!(rows(&scene.host), 1);
    scene.passes_ms(2 * ROOM_COALESCED_MS);
    assert_eq!(rows(&scene.host), 0);
    // One that has come back stays.
    scene.enters(1, "u1");
    scene.leaves(1, "u1");
    scene.enters(1, "again");
    scene.passes_ms(2 * ROOM_COALESCED_MS);
    assert_eq!(rows(&scene.host), 1);
}

/// XEP-0045 7.2.2, 8.2: nobody hears an occupant that they do not know, and a kick comes after the
/// arrival of the one who is kicked.
#[test]
fn messages_and_kicks_are_in_order_with_presence() {
    let mut scene = Scene::new(ROOM_COALESCED_SEATS + 2);
    scene.leaves(1, "u1");
    scene.take(2);
    scene.enters(1, "again");
    scene.says(1, &format!("<message type='groupchat' to='{ROOM}'><body>here</body></message>"));
    let text = scene.take(2);
    let (came, spoke) = (text.find("<presence"), text.find("<body>here</body>"));
    assert!(came.is_some() && came < spoke, "{text}");
    scene.is_now(1, "renamed", "chat");
    scene.changes("nick='renamed' role='none'");
    let text = scene.take(2);
    let all = presences(&text);
    assert_eq!(all.len(), 3, "{text}");
    assert!(all[0].contains("code='303'") && all[0].contains("nick='renamed'"), "{text}");
    assert!(all[1].contains(&format!("{ROOM}/renamed'")) && !all[1].contains("unavailable"), "{text}");
    assert!(all[2].contains("code='307'"), "{text}");
    scene.passes_ms(ROOM_COALESCED_MS);
    assert_eq!(scene.take(2), "");
}

/// A nick that another user takes within an interval is seen to end first (XEP-0045 7.14).
#[test]
fn those_who_take_over_a_nick_are_told_apart() {
    let mut scene = Scene::new(ROOM_COALESCED_SEATS + 3);
    scene.is_now(4, "u4", "away");
    scene.take(2);
    scene.leaves(1, "u1");
    scene.leaves(3, "u3");
    scene.enters(3, "u1");
    scene.passes_ms(ROOM_COALESCED_MS);
    let text = scene.take(2);
    let of_nick: Vec<&str> = presences(&text).into_iter().filter(|one| one.contains(&format!("{ROOM}/u1'"))).collect();
    assert_eq!(of_nick.len(), 2, "{text}");
    assert!(of_nick[0].contains("unavailable") && !of_nick[1].contains("unavailable"), "{text}");
}

/// Whatever occupants do, with one session or two, and whatever is done to them, an occupant that only
/// listens knows the nicks that are there, each with the user that has it.
#[test]
fn a_listener_ends_up_with_the_truth() {
    for seed in 0..12 {
        let users = ROOM_COALESCED_SEATS + 4;
        let (mut scene, mut random) = (Scene::new(users), Random::new(seed));
        // Six users act. Each has a second session.
        (3..9).for_each(|user| scene.binds(user, "s"));
        let user_of = |session: usize| if session < users { session } else { session - users + 3 };
        // The nicks of sessions, and what the listener knows: nicks and occupant ids.
        let mut inside: BTreeMap<usize, String> = (0..users).map(|user| (user, format!("u{user}"))).collect();
        let parts = |one: &str| {
            let from = one.split_once("from='").expect("a sender").1.split_once('\'').expect("its end").0;
            let nick = from.strip_prefix(ROOM).and_then(|nick| nick.strip_prefix('/')).expect("a nick").to_owned();
            let id = one.split_once("occupant-id:0' id='").expect("an occupant id").1[..32].to_owned();
            (nick, id)
        };
        scene.enters(2, "u2");
        let mut known: BTreeMap<String, String> = presences(&scene.take(2)).into_iter().map(parts).collect();
        let ids: Vec<String> = (0..users).map(|user| known[&format!("u{user}")].clone()).collect();
        for step in 0..400 {
            let session = [3, users][random.index(2)] + random.index(6);
            let user = user_of(session);
            let nick = format!("x{}", random.below(5));
            let holder = inside.iter().find(|(_, of)| **of == nick).map(|(session, _)| user_of(*session));
            match (random.below(8), inside.get(&session).cloned()) {
                (0, Some(own)) => {
                    scene.leaves(session, &own);
                    inside.remove(&session);
                }
                (1, Some(_)) if holder.is_none() => {
                    scene.is_now(session, &nick, "chat");
                    inside.insert(session, nick);
                }
                (2, Some(own)) => {
                    scene.says(session, &format!("<message type='groupchat' to='{ROOM}'><body>{own}</body></message>"));
                }
                (3, Some(own)) => {
                    scene.changes(&format!("nick='{own}' role='none'"));
                    inside.retain(|_, nick| *nick != own);
                }
                (4, _) => {
                    let affiliation = ["member", "none"][random.index(2)];
                    scene.changes(&format!("jid='u{user}@localhost' affiliation='{affiliation}'"));
                }
                (_, None) if holder.is_none_or(|holder| holder == user) => {
                    scene.enters(session, &nick);
                    inside.insert(session, nick);
                }
                (_, Some(own)) => scene.is_now(session, &own, "away"),
                _ => {}
            }
            if random.below(5) == 0 {
                scene.passes_ms(random.below(2 * ROOM_COALESCED_MS));
            }
            if step == 399 {
                scene.passes_ms(2 * ROOM_COALESCED_MS);
            }
            let text = scene.take(2);
            for one in presences(&text) {
                let (nick, id) = parts(one);
                let gone = one.split('>').next().is_some_and(|tag| tag.contains("unavailable"));
                match gone {
                    true => {
                        let former = known.remove(&nick);
                        assert_eq!(former, Some(id.clone()), "seed {seed}: the end of a visit that was not known");
                        if let Some((_, renamed)) = one.split_once(" nick='").filter(|_| one.contains("code='303'")) {
                            known.insert(renamed.split_once('\'').expect("its end").0.to_owned(), id);
                        }
                    }
                    false => {
                        let former = known.insert(nick, id.clone());
                        assert!(former.is_none_or(|former| former == id), "seed {seed}: two users with one nick");
                    }
                }
            }
        }
        let truth: BTreeMap<String, String> =
            inside.iter().map(|(session, nick)| (nick.clone(), ids[user_of(*session)].clone())).collect();
        assert_eq!(known, truth, "seed {seed}");
    }
}

/// RFC 6120 10.1: a large room is served in portions, which pause while much waits for a commit.
/// Whatever it sends meanwhile keeps its order.
#[test]
fn what_a_room_sends_keeps_its_order_over_portions() {
    let users = 2 * ROOM_CAST_AT_ONCE + 10;
    let mut scene = Scene::new(users);
    scene.host.turn(Input::Held { since_s: None, many: true });
    for text in ["one", "two"] {
        scene.says(0, &format!("<message type='groupchat' to='{ROOM}'><body>{text}</body></message>"));
    }
    let last = users - 1;
    scene.says(0, &format!("<message type='chat' to='{ROOM}/u{last}'><body>three</body></message>"));
    let early: Vec<String> = (0..users).map(|user| scene.take(user)).filter(|text| text.contains("<body>")).collect();
    assert!(early.is_empty(), "delivery pauses: {} {:?}", early.len(), early.first());
    let effects = scene.host.turn(Input::Held { since_s: None, many: false });
    let sends = |effect: &&Effect| matches!(effect, Effect::Send { .. });
    assert!(effects.iter().filter(sends).count() >= users, "in any number of portions");
    scene.hears(&effects);
    for user in 0..users {
        let text = scene.take(user);
        let said: Vec<&str> = text.split("<body>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
        let wanted: &[&str] = if user == last { &["one", "two", "three"] } else { &["one", "two"] };
        assert_eq!(said, wanted, "u{user}: {text}");
    }
}

/// XEP-0045 7.5, 17.1: a private message or a request comes from a nick that its receiver knows,
/// and goes to one that its sender knows.
#[test]
fn private_messages_and_requests_are_in_order_with_presence() {
    let mut scene = Scene::new(ROOM_COALESCED_SEATS + 2);
    scene.is_now(4, "u4", "away");
    scene.take(2);
    let whisper = |nick: &str| format!("<message type='chat' id='w' to='{ROOM}/{nick}'><body>here</body></message>");
    let request =
        |nick: &str| format!("<iq type='get' id='w' to='{ROOM}/{nick}'><query xmlns='jabber:iq:version'/></iq>");
    for (kind, stanza, nick) in [("<message", whisper("u2"), "first"), ("<iq", request("u2"), "second")] {
        scene.is_now(1, nick, "chat");
        assert_eq!(scene.take(2), "");
        scene.says(1, &stanza);
        let text = scene.take(2);
        let (before, after) = text.split_once(kind).expect("what was sent");
        assert!(before.contains(&format!("<presence from='{ROOM}/{nick}'")), "{text}");
        assert!(after.contains(&format!("from='{ROOM}/{nick}'")), "{text}");
    }
    for (stanza, nick) in [(whisper("third"), "third"), (request("fourth"), "fourth")] {
        scene.is_now(3, nick, "chat");
        scene.take(1);
        scene.says(1, &stanza);
        let text = scene.take(1);
        assert!(text.contains(&format!("<presence from='{ROOM}/{nick}'")), "{text}");
    }
}

/// XEP-0045 7.14: a session of a user that has another nick learns that the first one has ended.
#[test]
fn an_own_session_with_another_nick_keeps_no_ghost() {
    let mut scene = Scene::new(ROOM_COALESCED_SEATS + 2);
    scene.binds(1, "s");
    let second = scene.clients.len() - 1;
    scene.enters(second, "other");
    scene.passes_ms(2 * ROOM_COALESCED_MS);
    scene.is_now(3, "u3", "away");
    scene.take(second);
    scene.leaves(1, "u1");
    scene.enters(1, "other");
    scene.passes_ms(2 * ROOM_COALESCED_MS);
    let text = scene.take(second);
    let ends = |one: &&str| one.contains(&format!("from='{ROOM}/u1'")) && one.contains("unavailable");
    assert_eq!(presences(&text).into_iter().filter(ends).count(), 1, "{text}");
}

/// XEP-0045 7.14: two sessions of a user leave a nick in an interval, and another user takes it.
/// Nothing of that stays stored, and a restart takes the nick from nobody.
#[test]
fn a_nick_that_was_taken_over_stays_with_its_user() {
    let rows = |host: &Host, user: &str| match host.disk.read(&Seat::query(ROOM, None)) {
        Found::Rows { rows, .. } => {
            rows.iter().filter(|row| Seat::jid_of(row).is_some_and(|jid| jid.starts_with(user))).count()
        }
        found => panic!("{found:?}"),
    };
    let scene = || {
        let mut scene = Scene::new(ROOM_COALESCED_SEATS + 3);
        scene.binds(1, "s");
        let second = scene.clients.len() - 1;
        scene.is_now(4, "u4", "away");
        scene.leaves(1, "u1");
        scene.enters(second, "u1");
        scene.leaves(second, "u1");
        scene.leaves(3, "u3");
        scene.enters(3, "u1");
        scene
    };
    let mut later = scene();
    assert_eq!((rows(&later.host, "u1@"), rows(&later.host, "u3@")), (1, 1));
    later.passes_ms(2 * ROOM_COALESCED_MS);
    assert_eq!((rows(&later.host, "u1@"), rows(&later.host, "u3@")), (0, 1));

    let mut host = Host::new(settings());
    host.disk = std::mem::take(&mut scene().host.disk);
    let (listener, speaker) = (bind(&mut host, 2, 2, "r"), bind(&mut host, 3, 3, "r"));
    let effects = host.ask(speaker, &format!("<message type='groupchat' to='{ROOM}'><body>mine</body></message>"));
    let own = effects.iter().filter(|effect| matches!(effect, Effect::Send { conn, .. } if *conn == listener));
    let text: String = own.map(|effect| said(std::slice::from_ref(effect))).collect();
    let of_nick: Vec<&str> = presences(&text).into_iter().filter(|one| one.contains(&format!("{ROOM}/u1'"))).collect();
    assert!(of_nick.len() == 2 && text.contains("<body>mine</body>"), "{text}");
    assert!(of_nick[0].contains("unavailable") && !of_nick[1].contains("unavailable"), "{text}");
    assert_eq!((rows(&host, "u1@"), rows(&host, "u3@")), (0, 1));
}

/// XEP-0045 13.7: presence that the others get later is charged as what they get, and counted when
/// it is sent.
#[test]
fn coalesced_presence_is_charged_and_counted_in_full() {
    let mut scene = Scene::new(ROOM_COALESCED_SEATS + 2);
    let figures = |scene: &mut Scene| {
        let command = Command::Room(RoomCommand::Look { rooms: vec![ROOM.into()] });
        match reply(scene.host.turn(Input::Command { token: 7, command })) {
            Some(Reply::Rooms(rows)) => (rows[0].sent_bytes, rows[0].charged_bytes),
            other => panic!("{other:?}"),
        }
    };
    scene.is_now(4, "u4", "away");
    scene.take(2);
    let (sent, charged) = figures(&mut scene);
    scene.is_now(1, "u1", "away");
    let charge = figures(&mut scene).1 - charged;
    scene.passes_ms(2 * ROOM_COALESCED_MS);
    let (bytes, copies) = (scene.take(2).len() as u64, ROOM_COALESCED_SEATS as u64);
    let sent = figures(&mut scene).0 - sent;
    // Copies are addressed when they arrive.
    assert!(bytes > 200 && sent > copies * (bytes - 100), "{sent} of {copies} * {bytes} bytes");
    assert!(charge * ROOM_CHARGED_SHARE as u64 > copies * (bytes - 100), "{charge} for {copies} * {bytes} bytes");
}
