//! An operator drops an absent user's waiting messages: those are no longer delivered, later ones
//! are.

use throng_engine::io::{Command, LogCommand};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::script::{Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

/// Romeo stays; one message is delivered and returned, one waits.
const TALK: &str = "
clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
juliet connects
juliet enables
juliet sends: <presence/>
juliet ignores what comes
romeo sends: <message to='juliet@localhost' type='chat'><body>returned</body></message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>returned</body></message>
juliet aborts
time passes: 20000 ms
romeo sends: <message to='juliet@localhost' type='chat'><body>waits</body></message>
time passes: 5000 ms
";

const MORE: &str = "
clients: romeo=romeo/other juliet=juliet/balcony
romeo connects
romeo sends: <message to='juliet@localhost' type='chat'><body>later</body></message>
time passes: 1000 ms
";

const NEXT: &str = "
clients: romeo=romeo/third juliet=juliet/balcony
juliet connects
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
juliet receives: <message from='romeo@localhost/other' to='juliet@localhost' type='chat'><body>later</body>
    <delay xmlns='urn:xmpp:delay' from='{any}' stamp='{any}'/></message>
juliet receives nothing
";

fn flush(stage: &mut Stage, user: &str) {
    let account = format!("{user}@localhost");
    stage.world.command(stage.world.home(&account), 1, Command::Log(LogCommand::Flush { account: account.into() }));
    stage.pass(1_000);
}

#[test]
fn what_waited_goes_and_what_comes_next_is_delivered() {
    for (seed, shards, archive, forgotten) in
        [(1, 1, true, false), (2, 3, true, true), (3, 2, false, false), (4, 3, false, true)]
    {
        let script = Script::parse(TALK).unwrap();
        let settings = Settings { resume_s_max: 5, archive, ..Settings::new("localhost", shards, [0; 32], 0) };
        let mut stage = Stage::new(seed, settings, Pace::default(), &script);
        script.play(&mut stage, "localhost", PASSWORD).unwrap();
        if forgotten {
            // The user is evicted from memory.
            stage.pass(100_000);
        }
        let rows = |stage: &Stage, table| stage.world.disk.rows_of(table, "juliet@localhost").count();
        let kept = rows(&stage, Table::Archive);
        let transient = if archive { 0 } else { 2 };
        assert_eq!(
            (rows(&stage, Table::Waiting), kept > 0),
            (1 + transient, archive),
            "the cursor, and what goes with it"
        );
        flush(&mut stage, "juliet");
        flush(&mut stage, "nobody");
        assert_eq!(rows(&stage, Table::Waiting), 1, "seed {seed}");
        assert_eq!(rows(&stage, Table::Archive), kept, "seed {seed}");
        Script::parse(MORE).unwrap().play(&mut stage, "localhost", PASSWORD).unwrap();
        Script::parse(NEXT).unwrap().play(&mut stage, "localhost", PASSWORD).unwrap();
    }
}
