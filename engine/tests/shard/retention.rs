//! Archived messages expire, also for users who never return; undelivered messages stay.

use throng_engine::io::{Command, LogCommand};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::archive::entries;
use throng_sim::script::{Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

/// One message is delivered, one is delivered and returned, one waits from the beginning.
const TALK: &str = "
clients: romeo=romeo/orchard juliet=juliet/balcony nurse=nurse/stairs
romeo connects
juliet connects
juliet sends: <presence/>
juliet ignores what comes
romeo sends: <message to='juliet@localhost' type='chat'><body>delivered</body></message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>delivered</body></message>
juliet disconnects
juliet connects
juliet enables
juliet sends: <presence/>
juliet ignores what comes
romeo sends: <message to='juliet@localhost' type='chat'><body>returned</body></message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>returned</body></message>
juliet aborts
time passes: 20000 ms
romeo sends: <message to='nurse@localhost' type='chat'><body>waits</body></message>
romeo disconnects
";

/// A user who returns much later gets the waiting messages.
const LATER: &str = "
clients: romeo=romeo/orchard juliet=juliet/balcony nurse=nurse/stairs
juliet connects
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>returned</body>
    <delay xmlns='urn:xmpp:delay' from='localhost' stamp='{any}'/></message>
juliet receives nothing
nurse connects
nurse sends: <presence/>
nurse receives: <presence from='nurse@localhost/stairs' to='nurse@localhost'/>
nurse receives: <message from='romeo@localhost/orchard' to='nurse@localhost' type='chat'><body>waits</body>
    <delay xmlns='urn:xmpp:delay' from='localhost' stamp='{any}'/></message>
nurse receives nothing
";

const RETENTION_S: u64 = 100_000;

/// Bodies in a user's archive, oldest first.
fn archive(stage: &Stage, user: &str) -> Vec<String> {
    let bare = format!("{user}@localhost");
    let rows = stage.world.disk.rows_of(Table::Archive, &bare);
    let body = |xml: &[u8]| {
        let xml = String::from_utf8_lossy(xml).into_owned();
        let start = xml.find("<body>").expect("a body") + "<body>".len();
        xml[start..xml.find("</body>").expect("a body")].to_owned()
    };
    rows.flat_map(|(sort, value)| entries(sort, value).expect("entries")).map(|(_, entry)| body(entry.xml)).collect()
}

fn retain(stage: &mut Stage) {
    for user in ["romeo", "juliet", "nurse", "nobody"] {
        let user = format!("{user}@localhost");
        stage.world.command(stage.world.home(&user), 1, Command::Log(LogCommand::Retain { users: vec![user.into()] }));
    }
    stage.pass(1_000);
}

#[test]
fn what_is_delivered_and_old_goes_and_nothing_else() {
    for (seed, shards) in [(1, 1), (2, 3)] {
        let script = Script::parse(TALK).unwrap();
        let mut settings = Settings::new("localhost", shards, [0; 32], 0);
        settings.retention_s = RETENTION_S;
        settings.resume_s_max = 5;
        let mut stage = Stage::new(seed, settings, Pace::default(), &script);
        script.play(&mut stage, "localhost", PASSWORD).unwrap();
        // Users are evicted from memory; nothing has expired yet.
        stage.pass(100_000);
        retain(&mut stage);
        assert_eq!(archive(&stage, "juliet"), ["delivered", "returned"]);
        assert_eq!(archive(&stage, "nurse"), ["waits"]);
        stage.pass(RETENTION_S * 1_000);
        assert_eq!(archive(&stage, "juliet"), ["delivered", "returned"], "age alone does nothing: the host asks");
        retain(&mut stage);
        assert_eq!(archive(&stage, "juliet"), ["returned"]);
        assert_eq!(archive(&stage, "nurse"), ["waits"]);
        let later = Script::parse(LATER).unwrap();
        later.play(&mut stage, "localhost", PASSWORD).unwrap();
    }
}

const DAY_US: i64 = 86_400_000_000;

/// A host boots 31 days ahead, and its clock is corrected later: nothing was removed, and old
/// messages expire at their time.
#[test]
fn a_host_that_boots_with_its_clock_ahead_loses_nothing() {
    for (seed, shards) in [(3, 1), (4, 3)] {
        let script = Script::parse(TALK).unwrap();
        let mut settings = Settings::new("localhost", shards, [0; 32], 0);
        settings.retention_s = RETENTION_S;
        settings.resume_s_max = 5;
        let mut stage = Stage::new(seed, settings, Pace::default(), &script);
        script.play(&mut stage, "localhost", PASSWORD).unwrap();
        stage.world.set_clock(31 * DAY_US);
        stage.world.crash();
        stage.pass(100_000);
        retain(&mut stage);
        assert_eq!(archive(&stage, "juliet"), ["delivered", "returned"], "the clock is in doubt");
        stage.world.set_clock(0);
        retain(&mut stage);
        assert_eq!(archive(&stage, "juliet"), ["delivered", "returned"]);
        // Ahead while it runs: until the operator confirms that it is right.
        stage.world.set_clock(31 * DAY_US);
        retain(&mut stage);
        assert_eq!(archive(&stage, "juliet"), ["delivered", "returned"], "the clock is in doubt");
        stage.world.confirm_clock();
        retain(&mut stage);
        assert_eq!(archive(&stage, "juliet"), ["returned"], "it is not");
    }
}
