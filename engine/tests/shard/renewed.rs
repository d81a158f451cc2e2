//! The link between two shards was renewed, and letters under way are lost: what makes up for them
//! while both shards go on (`docs/decisions/0062-codec.md`).

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::extension::service::SharedSecret;
use throng_engine::extension::subscription::State;
use throng_engine::follow::Page;
use throng_engine::id::{Now, ShardId};
use throng_engine::io::{Effect, Input, Output};
use throng_engine::letters::{Letter, Letters, RoomLetter};
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::archive::Entry;
use throng_engine::store::room::{Config, Position, Record, Seat, Subject};
use throng_engine::store::roster::{ItemView, Version};
use throng_engine::store::{Batch, Table};
use throng_sim::disk::Disk;
use throng_sim::script::{Player, Script};
use throng_sim::stage::{Acted, Stage};
use throng_sim::world::{Crossing, Network, PASSWORD, Pace};

const ROMEO: &str = "romeo@localhost";
const JULIET: &str = "juliet@localhost";

/// Plays a script with users on two shards, whose items about each other have this state. The first
/// time that time passes, the link between the shards is cut; the second time it is given up, and
/// then carries letters again.
fn play(romeo: State, juliet: State, text: &str) {
    let mut played = 0;
    for seed in 1..8 {
        let script = Script::parse(text).expect("a script");
        let settings = Settings::new("localhost", seed as u16 + 1, [0; 32], 0);
        let mut stage = Stage::new(seed, settings, Pace::default(), &script);
        stage.world.set_crossing(Crossing::Lossy, Network::default());
        if stage.world.home(ROMEO) == stage.world.home(JULIET)
            || stage.world.home("localhost") == stage.world.home(ROMEO)
        {
            continue;
        }
        for (owner, contact, state) in [(ROMEO, JULIET, romeo), (JULIET, ROMEO, juliet)] {
            let mut row = Vec::new();
            let item = ItemView { listed: true, state: state as u8, ver: 9, asked: 8, seen: 8, ..ItemView::default() };
            item.encode(&mut row);
            stage.world.disk.put(Table::Roster, owner, contact.as_bytes(), &row);
            stage.world.disk.put(Table::Roster, owner, b"", &Version { current: 9, ..Version::default() }.encode());
        }
        let mut times = 0;
        let pass = Box::new(move |stage: &mut Stage, ms| {
            times += 1;
            let lost = if times == 1 { 1_000 } else { 0 };
            stage.world.set_network(Network { lost, twice: 0 });
            if times == 2 {
                stage.world.break_links();
            }
            stage.pass(ms);
        });
        if let Err(error) = script.play(&mut Acted { stage, pass }, "localhost", PASSWORD) {
            panic!("seed {seed}: {error}");
        }
        played += 1;
    }
    assert!(played > 1, "users have homes of their own in {played} worlds");
}

const BOTH_COME: &str = "clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
romeo sends: <presence/>
romeo ignores what comes
juliet connects
juliet sends: <presence/>
juliet ignores what comes
romeo ignores what comes
";

/// RFC 6121 4.4.2: contacts see the latest presence.
#[test]
fn lost_presence_is_sent_again() {
    let text = "time passes: 1 ms
juliet sends: <presence><status>by the window</status></presence>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'><status>by the window</status></presence>
romeo receives nothing
time passes: 1 ms
romeo receives: <presence from='juliet@localhost/balcony' to='romeo@localhost'><status>by the window</status></presence>";
    play(State::Both, State::Both, &format!("{BOTH_COME}{text}"));
}

/// RFC 6121 4.5.2: contacts see that a resource has gone.
#[test]
fn contacts_learn_who_has_gone_meanwhile() {
    let text = "time passes: 1 ms
juliet sends: <presence type='unavailable'/>
juliet receives: <presence type='unavailable' from='juliet@localhost/balcony' to='juliet@localhost'/>
romeo receives nothing
time passes: 1 ms
romeo receives: <presence type='unavailable' from='juliet@localhost' to='romeo@localhost'/>";
    play(State::Both, State::Both, &format!("{BOTH_COME}{text}"));
}

/// RFC 6121 3.1.2: a request reaches the contact although the session of the requester stays.
#[test]
fn a_lost_request_is_sent_again() {
    let text = "time passes: 1 ms
romeo sends: <presence to='juliet@localhost' type='subscribe'/>
juliet receives nothing
time passes: 1 ms
juliet receives: <presence from='romeo@localhost' to='juliet@localhost' type='subscribe'/>";
    play(State::None, State::None, &format!("{BOTH_COME}{text}"));
}

/// XEP-0377 4: a report whose fate is unknown gets an error, and may be sent again.
#[test]
fn a_lost_report_gets_an_error() {
    let text = "time passes: 1 ms
romeo sends: <iq type='set' id='r'><block xmlns='urn:xmpp:blocking'><item jid='evil.example'>
    <report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:spam'/></item></block></iq>
romeo receives nothing
time passes: 1 ms
romeo receives: <iq type='error' id='r' to='romeo@localhost/orchard'><error type='cancel'>
    <internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>";
    play(State::None, State::None, &format!("{BOTH_COME}{text}"));
}

/// XEP-0030 3: each shard lists the components that are connected. Their home says so again.
#[test]
fn homes_say_again_which_components_are_connected() {
    let mut settings = Settings::new("localhost", 2, [0; 32], 0);
    settings.serve_component("echo.localhost", SharedSecret("secret".into()));
    let settings = Arc::new(settings);
    let said = [0, 1].map(|id| {
        let mut shard = Shard::new(ShardId(id), settings.clone(), Arc::new(Counters::default()), [1; 32]);
        let mut out = Output::default();
        for input in [Input::Renewed { peer: ShardId(1 - id) }, Input::EndOfTurn] {
            shard.handle(Now::new(1_000, 0), input, &mut out);
        }
        let letters = out.effects.iter().filter_map(|effect| match effect {
            Effect::Letters { to, batch } if *to == ShardId(1 - id) => Some(batch.letters()),
            _ => None,
        });
        letters.flatten().filter(|letter| matches!(letter, Letter::Component { there: false, .. })).count()
    });
    assert_eq!(said.iter().sum::<usize>(), 1, "{said:?}");
}

/// XEP-0045 7.4: the home of a room has started again, and a session at another home reads what it
/// has missed. The room is read for that.
#[test]
fn sessions_catch_up_in_a_room_that_is_not_in_memory() {
    const ROOM: &str = "cave@conference.localhost";
    let mut settings = Settings::new("localhost", 2, [0; 32], 0);
    settings.serve_rooms("conference.localhost");
    let settings = Arc::new(settings);
    let id = settings.home(ROOM);
    let other = ShardId(1 - id.0);
    let user = (0..).map(|n| format!("u{n}@localhost/r")).find(|full| settings.home(&full[..full.len() - 2]) == other);
    let user = user.expect("one of many");
    let mut rows = Batch::default();
    let config = Config { persistent: true, ..Config::default() };
    let subject = Subject::default();
    let said = Position::default();
    Record { config, subject, secret: [7; 16], owners: 0, locked: false, created_ms: 1, said }.put(&mut rows, ROOM);
    Seat { nick: "one".into(), presence: b"<presence></presence>"[..].into() }.put(&mut rows, ROOM, &user);
    for number in 5..8u64 {
        let xml = format!("<message type='groupchat' from='{ROOM}/two'><body>{number}</body></message>");
        let peer = format!("{ROOM}/two");
        let (incoming, waits, time_ms) = (true, false, number);
        Entry { incoming, waits, time_ms, peer: &peer, xml: xml.as_bytes(), trail: b"" }.put(&mut rows, ROOM, number);
    }
    let mut disk = Disk::default();
    disk.apply(&rows);
    let mut asked = Letters::new(other);
    let (room, session) = (asked.name(ROOM), asked.name(&user));
    // Another session of the user, which has not entered.
    let outside = user.replace("/r", "/x");
    let stranger = asked.name(&outside);
    asked.push(Letter::Room(RoomLetter::CatchUp { room, session, after: 5, asked: 1 }));
    asked.push(Letter::Room(RoomLetter::CatchUp { room, session: stranger, after: 5, asked: 2 }));
    let mut shard = Shard::new(id, settings, Arc::new(Counters::default()), [1; 32]);
    let (mut out, now) = (Output::default(), Now::new(1_000, 0));
    shard.handle(now, Input::Letters(&asked), &mut out);
    let mut pages = Vec::new();
    for _ in 0..10 {
        shard.handle(now, Input::EndOfTurn, &mut out);
        disk.apply(&std::mem::take(&mut out.writes));
        for effect in std::mem::take(&mut out.effects) {
            match effect {
                Effect::Read { token, queries } => {
                    let found = queries.iter().map(|query| disk.read(query)).collect();
                    shard.handle(now, Input::Found { token, found }, &mut out);
                }
                Effect::Letters { batch, .. } => {
                    for letter in batch.letters() {
                        if let Letter::Room(RoomLetter::CaughtUp { session, asked, page, .. }) = letter {
                            let page = Page::decode(batch.bytes(*page)).expect("a page");
                            // A row has several messages: the first ones may be known.
                            let numbers = page.items.iter().map(|(number, _)| *number).filter(|number| *number > 5);
                            let numbers: Vec<u64> = numbers.collect();
                            pages.push((*asked, batch.str(*session).to_owned(), numbers, page.more));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    pages.sort();
    assert_eq!(pages, [(1, user, vec![6, 7], false), (2, outside, Vec::new(), false)]);
}
