//! Gauges are accurate: those that rise while clients chat return to zero when they are gone.

use throng_engine::counters::Counted;
use throng_engine::io::StorageState;
use throng_engine::settings::Settings;
use throng_sim::script::{Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

/// Presence, live and stored messages, a broken connection that is not resumed.
const TALK: &str = "
clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
romeo sends: <presence/>
romeo ignores what comes
juliet connects
juliet enables
juliet sends: <presence/>
juliet ignores what comes
romeo sends: <message to='juliet@localhost' type='chat'><body>1</body></message>
romeo sends: <message to='nurse@localhost' type='chat'><body>2</body></message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>1</body></message>
";

fn sum(stage: &Stage, name: &str) -> u64 {
    let shards = stage.world.shards();
    let row = |shard| stage.world.shard(shard).counters().list().into_iter().find(|row| row.0 == name);
    shards.map(|shard| row(shard).unwrap_or_else(|| panic!("no counter {name}")).3).sum()
}

const GAUGES: [&str; 9] = [
    "connections",
    "sessions",
    "sessions_available",
    "sessions_detached",
    "paused",
    "parked",
    "outbound_bytes",
    "reads_pending",
    "jobs_pending",
];

#[test]
fn gauges_go_up_and_come_down() {
    for (seed, shards) in [(1, 1), (2, 3)] {
        let script = Script::parse(TALK).unwrap();
        let settings = Settings::new("localhost", shards, [0; 32], 0);
        let mut stage = Stage::new(seed, settings, Pace::default(), &script);
        stage.world.storage(StorageState::Ok);
        script.play(&mut stage, "localhost", PASSWORD).unwrap();
        stage.pass(1_000);
        let now: Vec<u64> = GAUGES.map(|name| sum(&stage, name)).into();
        assert_eq!(now, [2, 2, 2, 0, 0, 0, 0, 0, 0], "{GAUGES:?} while they talk");
        stage.abort("juliet");
        stage.pass(1_000);
        let now: Vec<u64> = GAUGES.map(|name| sum(&stage, name)).into();
        assert_eq!(now, [1, 2, 2, 1, 0, 0, 0, 0, 0], "{GAUGES:?} when one is cut off");
        stage.abort("romeo");
        stage.pass(1_000_000);
        let now: Vec<u64> = GAUGES.map(|name| sum(&stage, name)).into();
        assert_eq!(now, [0; 9], "{GAUGES:?} when they are gone");
    }
}

/// One client sends more than the limit that may wait for the disk, and another sends one message.
const FLOOD: &str = "
clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
juliet connects
juliet sends: <presence/>
juliet ignores what comes
";

#[test]
fn who_sends_more_than_is_durable_is_not_read_from_until_it_is_rfc6120_13_12() {
    for (seed, shards, contacts) in [(1, 1, false), (2, 3, false), (3, 1, true), (4, 3, true)] {
        let script = Script::parse(FLOOD).unwrap();
        let mut settings = Settings::new("localhost", shards, [0; 32], 0);
        settings.in_flight_bytes_max = 20_000;
        let mut stage = Stage::new(seed, settings, Pace { read_bytes: 1_000, ..Pace::default() }, &script);
        script.play(&mut stage, "localhost", PASSWORD).unwrap();
        // So that the roster is loaded.
        stage.send("romeo", b"<iq type='get' id='g'><query xmlns='jabber:iq:roster'/></iq>").unwrap();
        stage.pass(1_000);
        let before = sum(&stage, "bytes_in");
        stage.world.stop_commits(true);
        let text = "d".repeat(900);
        let message = format!("<message to='juliet@localhost' type='chat'><body>{text}</body></message>");
        // A contact is written at the sender's own home.
        let groups: String = (0..4).map(|group| format!("<group>{group}{}</group>", "d".repeat(220))).collect();
        let item = format!("<item jid='nurse@localhost'>{groups}</item>");
        let contact = format!("<iq type='set' id='r'><query xmlns='jabber:iq:roster'>{item}</query></iq>");
        let stanza = if contacts { contact } else { message };
        stage.send("romeo", stanza.repeat(100).as_bytes()).unwrap();
        stage.pass(1_000);
        let came = sum(&stage, "bytes_in") - before;
        assert!((18_000..24_000).contains(&came), "{came} bytes were read while nothing became durable");
        assert_eq!(sum(&stage, "paused"), 0, "to the shard it goes on: what holds it is the gate");
        stage.world.stop_commits(false);
        stage.pass(5_000);
        assert_eq!(sum(&stage, "bytes_in") - before, 100 * stanza.len() as u64);
    }
}
