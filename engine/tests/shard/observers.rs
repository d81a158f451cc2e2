//! What an operator sees of one user's stanzas and of the busiest sessions; and that observing
//! changes nothing.

use throng_engine::id::ShardId;
use throng_engine::io::{BusyRow, Command, ObserverCommand, Reply};
use throng_engine::observers::TRACES_MAX;
use throng_engine::observers::busiest::{LEASE_MS, WINDOW_MS};
use throng_engine::observers::trace::{ABANDONED_MS, Fate, News, Page, RECORDS_MAX, Record, Stanza, Way, What};
use throng_engine::settings::Settings;
use throng_sim::script::{Heard, Patience, Player, Script};
use throng_sim::stage::{Acted, Stage};
use throng_sim::world::{Occurrence, PASSWORD, Pace};

const CLIENTS: &str = "clients: romeo=romeo/orchard juliet=juliet/balcony nurse=juliet/hall\n";

/// The operator's actions, one for each place of a script where one millisecond passes.
type Act<'a> = Box<dyn FnMut(&mut Stage) + 'a>;

/// Plays a talk together with the operator's actions; returns the final stage.
fn play(seed: u64, shards: u16, talk: &[&str], acts: Vec<Act<'_>>) -> Stage {
    let script = Script::parse(&[CLIENTS, &talk.concat()].concat()).unwrap();
    let settings = Settings { resume_s_max: 60, ..Settings::new("localhost", shards, [0; 32], 0) };
    assert_eq!(talk.concat().matches("time passes: 1 ms\n").count(), acts.len());
    let mut acts = acts.into_iter();
    let pass = |stage: &mut Stage, ms: u64| match ms {
        1 => acts.next().expect("an act for each place")(stage),
        ms => stage.pass(ms),
    };
    let mut operated = Acted { stage: Stage::new(seed, settings, Pace::default(), &script), pass: Box::new(pass) };
    script.play(&mut operated, "localhost", PASSWORD).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    operated.stage
}

fn home(stage: &Stage, jid: &str) -> ShardId {
    stage.world.home(throng_engine::wire::jid::bare_of(jid))
}

/// Queries a shard; no other output may be in flight to a client meanwhile.
fn ask(stage: &mut Stage, shard: ShardId, command: Command) -> Reply {
    stage.world.command(shard, 77, command);
    loop {
        if let Occurrence::Replied(77, reply) = stage.world.step() {
            return reply;
        }
    }
}

fn begin(stage: &mut Stage, id: u64, jid: &str, bodies: bool) -> Reply {
    let shard = home(stage, jid);
    ask(stage, shard, Command::Observer(ObserverCommand::Trace { id, jid: jid.into(), bodies, ms: 300_000 }))
}

fn fetch(stage: &mut Stage, id: u64, jid: &str) -> Page {
    let shard = home(stage, jid);
    match ask(stage, shard, Command::Observer(ObserverCommand::Fetch { id })) {
        Reply::Traced(page) => *page,
        other => panic!("{other:?}"),
    }
}

fn stanzas(page: &Page) -> Vec<&Stanza> {
    page.records.iter().filter_map(|r| if let What::Stanza(s) = &r.what { Some(&**s) } else { None }).collect()
}

/// The fates of the stanza with this id, in order.
fn fates(records: &[Record], id: &str) -> Vec<Fate> {
    let mut number = None;
    records
        .iter()
        .filter_map(|record| match &record.what {
            What::Stanza(stanza) if stanza.id.as_deref() == Some(id) => {
                number = Some(record.number);
                Some(stanza.fate)
            }
            What::Fate { of, fate, .. } if Some(*of) == number => Some(*fate),
            _ => None,
        })
        .collect()
}

const ONLINE: &str = "
romeo connects
juliet connects
romeo enables
juliet enables
juliet sends: <presence/>
juliet ignores what comes
time passes: 1 ms
";

const HELLO: &str = "
romeo sends: <message to='juliet@localhost' type='chat' id='m1'><body>it is the east</body></message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat' id='m1'><body>it is the east</body></message>
juliet sends: <a xmlns='urn:xmpp:sm:3' h='2'/>
time passes: 1000 ms
";

#[test]
fn a_stanza_is_followed_to_where_it_gets() {
    for (seed, shards) in [(1, 1), (2, 3), (3, 8)] {
        let ask = |stage: &mut Stage| {
            assert_eq!(begin(stage, 1, "romeo@localhost", false), Reply::Done(1));
            assert_eq!(begin(stage, 2, "juliet@localhost/balcony", false), Reply::Done(1));
        };
        let mut stage = play(seed, shards, &[ONLINE, HELLO], vec![Box::new(ask)]);
        let (sent, got) = (fetch(&mut stage, 1, "romeo@localhost"), fetch(&mut stage, 2, "juliet@localhost"));
        assert_eq!(fates(&sent.records, "m1"), [Fate::UnderWay, Fate::Safe], "seed {seed}: {sent:?}");
        assert_eq!(
            fates(&got.records, "m1"),
            [Fate::Queued(0), Fate::Sent, Fate::Acknowledged],
            "seed {seed}: {got:?}"
        );
        let stanza = stanzas(&sent)[0];
        assert_eq!((stanza.way, stanza.name, stanza.kind.as_deref()), (Way::In, "message", Some("chat")));
        assert_eq!((stanza.to.as_deref(), &stanza.payload[..]), (Some("juliet@localhost"), &["body"][..]));
        assert_eq!(stanza.session.as_deref(), Some("romeo@localhost/orchard"));
        let stanza = stanzas(&got)[0];
        assert_eq!((stanza.way, stanza.from.as_deref()), (Way::Out, Some("romeo@localhost/orchard")));
        assert_eq!(stanza.payload, ["body", "stanza-id"]);
        assert!(sent.records.iter().chain(&got.records).all(|record| record.at_us > 1_767_225_600_000_000));
        assert!(fetch(&mut stage, 1, "romeo@localhost").records.is_empty(), "it was taken");
    }
}

const EVENTFUL: &str = "
romeo sends: <message to='nobody@elsewhere.example' id='away'><body>x</body></message>
romeo sends: <iq type='get' id='ping' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>
romeo ignores what comes
juliet aborts
time passes: 2000 ms
romeo sends: <message to='juliet@localhost' type='chat' id='held'><body>x</body></message>
time passes: 1000 ms
juliet resumes
juliet ignores what comes
juliet disconnects
time passes: 2000 ms
romeo sends: <message to='juliet@localhost' type='chat' id='later'><body>x</body></message>
romeo sends: <iq to='juliet@localhost/balcony' type='get' id='gone'><query xmlns='jabber:iq:version'/></iq>
time passes: 2000 ms
";

#[test]
fn what_is_refused_kept_stored_and_resumed_is_told() {
    let ask = |stage: &mut Stage| {
        begin(stage, 1, "juliet@localhost", false);
        begin(stage, 2, "romeo@localhost", false);
    };
    let mut stage = play(4, 2, &[ONLINE, EVENTFUL], vec![Box::new(ask)]);
    let juliet = fetch(&mut stage, 1, "juliet@localhost");
    let romeo = fetch(&mut stage, 2, "romeo@localhost");
    assert_eq!(fates(&romeo.records, "away")[0], Fate::Refused("remote-server-not-found"));
    assert_eq!(fates(&romeo.records, "ping")[0], Fate::Taken, "{romeo:?}");
    assert_eq!(fates(&juliet.records, "held")[..2], [Fate::Held, Fate::Sent], "{juliet:?}");
    assert_eq!(fates(&juliet.records, "later"), [Fate::Stored]);
    assert_eq!(fates(&juliet.records, "gone"), [Fate::Refused("service-unavailable")]);
    let news: Vec<News> = juliet
        .records
        .iter()
        .filter_map(|r| if let What::Session { news, .. } = r.what { Some(news) } else { None })
        .collect();
    assert_eq!(news, [News::Disconnected, News::Resumed(1), News::Ended]);
}

/// Wherever a client puts it: in text, in attributes, in the names of elements and namespaces.
const SECRETS: &str = "
romeo sends: <message to='juliet@localhost' type='chat' id='m1' xml:lang='SECRET' odd='SECRET'><body>SECRET</body>
    <SECRET xmlns='urn:SECRET' id='SECRET'>SECRET</SECRET><body xmlns='urn:SECRET'/></message>
romeo sends: <iq type='set' id='r1'><query xmlns='jabber:iq:roster'><item jid='SECRET@localhost' name='SECRET'/></query></iq>
romeo sends: <presence><status>SECRET</status></presence>
time passes: 1000 ms
";

#[test]
fn what_a_stanza_carries_is_withheld_unless_asked_for() {
    let ask = |stage: &mut Stage| {
        for (id, bodies) in [(1, false), (2, true)] {
            begin(stage, id, "romeo@localhost", bodies);
            begin(stage, 10 + id, "juliet@localhost", bodies);
        }
    };
    let mut stage = play(5, 2, &[ONLINE, SECRETS], vec![Box::new(ask)]);
    for (id, jid) in [(1, "romeo@localhost"), (11, "juliet@localhost")] {
        let page = fetch(&mut stage, id, jid);
        assert!(!stanzas(&page).is_empty());
        // An address may also be secret, but the operator asked for it.
        assert!(!format!("{page:?}").replace("SECRET@", "").contains("SECRET"), "{page:?}");
        let whole = fetch(&mut stage, id + 1, jid);
        assert_eq!(stanzas(&page).len(), stanzas(&whole).len());
        assert!(stanzas(&whole).iter().all(|s| s.xml.as_ref().is_some_and(|xml| xml.len() == s.bytes)));
        assert!(format!("{whole:?}").contains("<body>SECRET</body>"));
    }
}

#[test]
fn a_full_jid_is_one_session_and_others_are_not_seen() {
    let ask = |stage: &mut Stage| {
        assert_eq!(begin(stage, 1, "juliet@localhost/hall", false), Reply::Done(1));
        assert_eq!(begin(stage, 2, "juliet@localhost", false), Reply::Done(2));
        // No session's address, and names that resemble those of others.
        for (id, jid) in [(3, "julie@localhost"), (4, "juliet@localhost/hal")] {
            assert_eq!(begin(stage, id, jid, false), Reply::Done(0));
        }
    };
    let nurse = "nurse connects\nnurse sends: <presence/>\nnurse ignores what comes\n";
    let talk = "
romeo sends: <message to='juliet@localhost/balcony' id='one'><body>x</body></message>
romeo sends: <message to='juliet@localhost/hall' id='two'><body>x</body></message>
time passes: 1000 ms
";
    let mut stage = play(6, 3, &[nurse, ONLINE, talk], vec![Box::new(ask)]);
    let ids = |page: &Page| stanzas(page).iter().filter_map(|s| s.id.as_deref().map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(ids(&fetch(&mut stage, 1, "juliet@localhost")), ["two"]);
    assert_eq!(ids(&fetch(&mut stage, 2, "juliet@localhost")), ["one", "two"]);
    assert_eq!(fetch(&mut stage, 3, "julie@localhost").records, []);
    assert_eq!(fetch(&mut stage, 4, "juliet@localhost").records, []);
}

#[test]
fn a_flood_is_counted_and_every_message_arrives() {
    let talk = "romeo connects\njuliet connects\njuliet sends: <presence/>\njuliet ignores what comes\n";
    let mut stage = play(7, 2, &[talk], vec![]);
    begin(&mut stage, 1, "romeo@localhost", true);
    begin(&mut stage, 2, "juliet@localhost", true);
    let (rounds, each) = (5, RECORDS_MAX / 4);
    let mut arrived = String::new();
    for round in 0..rounds {
        let message = |n| format!("<message to='juliet@localhost'><body>#{}#</body></message>", round * each + n);
        stage.send("romeo", (0..each).map(message).collect::<String>().as_bytes()).unwrap();
        while let Heard::Bytes(bytes) = stage.hear("juliet", Patience::Short).unwrap() {
            arrived.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
    let numbers = throng_sim::client::numbers(arrived.as_bytes());
    assert!(numbers.iter().copied().eq(0..(rounds * each) as u64), "{} arrived", numbers.len());
    let (mut got, mut last) = (Vec::new(), Page::default());
    while last.records.is_empty() || last.more {
        last = fetch(&mut stage, 1, "romeo@localhost");
        got.extend(last.records.clone());
    }
    assert!(got.len() <= RECORDS_MAX && last.dropped > 0, "{} and {}", got.len(), last.dropped);
    assert_eq!(last.stanzas, (rounds * each) as u64);
    let numbered = got.last().expect("some").number;
    assert!(got.is_sorted_by_key(|record| record.number) && numbered >= got.len() as u64);
}

#[test]
fn a_trace_ends_by_itself_and_there_are_few_at_once() {
    let mut stage = play(8, 1, &[ONLINE], vec![Box::new(|_| {})]);
    let shard = ShardId(0);
    let short =
        Command::Observer(ObserverCommand::Trace { id: 1, jid: "romeo@localhost".into(), bodies: false, ms: 2_000 });
    assert_eq!(ask(&mut stage, shard, short), Reply::Done(1));
    for id in 2..=TRACES_MAX as u64 {
        assert_eq!(begin(&mut stage, id, "romeo@localhost", false), Reply::Done(1));
    }
    assert_eq!(begin(&mut stage, 9, "romeo@localhost", false), Reply::Busy);
    assert_eq!(ask(&mut stage, shard, Command::Observer(ObserverCommand::End { id: 2 })), Reply::Done(1));
    assert_eq!(ask(&mut stage, shard, Command::Observer(ObserverCommand::End { id: 2 })), Reply::NotFound);
    assert!(!fetch(&mut stage, 1, "romeo").over);
    stage.pass(2_500);
    stage.send("romeo", b"<message to='juliet@localhost' id='m1'><body>x</body></message>").unwrap();
    stage.pass(500);
    let page = fetch(&mut stage, 1, "romeo");
    assert!(page.over && page.records.is_empty(), "{page:?}");
    // Fetching keeps it alive.
    stage.pass(ABANDONED_MS / 2 + 1_000);
    assert!(fetch(&mut stage, 3, "romeo").records.len() > 1);
    stage.pass(ABANDONED_MS / 2 + 1_000);
    assert!(matches!(ask(&mut stage, shard, Command::Observer(ObserverCommand::Fetch { id: 3 })), Reply::Traced(_)));
    assert_eq!(
        ask(&mut stage, shard, Command::Observer(ObserverCommand::Fetch { id: 4 })),
        Reply::NotFound,
        "nobody fetched"
    );
}

fn busiest(stage: &mut Stage, shard: ShardId) -> (u64, Vec<BusyRow>) {
    match ask(stage, shard, Command::Observer(ObserverCommand::Busiest { most: 10 })) {
        Reply::Busiest { window_ms, rows } => (window_ms, rows),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_busiest_are_counted_while_somebody_asks() {
    let nurse = "nurse connects\nnurse ignores what comes\n";
    let mut stage = play(9, 1, &[nurse, ONLINE], vec![Box::new(|_| {})]);
    let shard = ShardId(0);
    assert_eq!(busiest(&mut stage, shard), (0, vec![]), "counting begins");
    for n in 0..30 {
        stage.send("romeo", b"<message to='juliet@localhost/balcony'><body>x</body></message>").unwrap();
        if n % 10 == 0 {
            stage.send("nurse", b"<message to='juliet@localhost/balcony'><body>x</body></message>").unwrap();
        }
    }
    stage.pass(WINDOW_MS + 500);
    let (window_ms, rows) = busiest(&mut stage, shard);
    assert!(window_ms >= WINDOW_MS, "{window_ms}");
    let brief: Vec<_> = rows.iter().map(|r| (&r.jid[..], r.stanzas_in, r.stanzas_out)).collect();
    let wanted =
        [("juliet@localhost/balcony", 0, 33), ("romeo@localhost/orchard", 30, 0), ("juliet@localhost/hall", 3, 0)];
    assert_eq!(brief, wanted);
    let bytes = "<message to='juliet@localhost/balcony'><body>x</body></message>".len() as u64;
    assert_eq!(rows[1].bytes_in, 30 * bytes);
    // Without queries counting stops, and starts anew with the next query.
    stage.pass(LEASE_MS + 1_000);
    assert_eq!(busiest(&mut stage, shard), (0, vec![]));
}
