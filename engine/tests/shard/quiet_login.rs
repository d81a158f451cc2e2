//! A login of a user for whom nothing waits writes nothing: a million of them after a restart are a million reads, no commit.

use throng_engine::id::ShardId;
use throng_engine::settings::Settings;
use throng_engine::store::archive::Entry;
use throng_engine::store::waiting::{Cursor, Transient};
use throng_engine::store::{Batch, Table};
use throng_sim::script::Script;
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

const LOGIN: &str = "
romeo connects
romeo sends: <presence/>
romeo receives: <presence from='romeo@localhost/orchard' to='romeo@localhost'/>
romeo receives nothing
";

fn stage(script: &Script) -> Stage {
    let settings = Settings { cache_s: 2, ..Settings::new("localhost", 1, [0; 32], 0) };
    Stage::new(1, settings, Pace::default(), script)
}

#[test]
fn a_login_without_waiting_messages_writes_nothing() {
    let script = |rest: &str| Script::parse(&format!("clients: romeo=romeo/orchard\n{LOGIN}{rest}")).expect("a script");
    let (first, second) = (script("romeo disconnects\ntime passes: 9000 ms\n"), script("time passes: 9000 ms\n"));
    let mut stage = stage(&first);
    let writes = |stage: &Stage| stage.world.shard(ShardId(0)).counters().writes.get();
    first.play(&mut stage, "localhost", PASSWORD).unwrap();
    let before = writes(&stage);
    assert!(before > 0, "the logout is noted");
    second.play(&mut stage, "localhost", PASSWORD).unwrap();
    assert_eq!(before, writes(&stage), "rows written by a second login");
}

/// What a session that was behind has left before the cursor goes with the next login.
#[test]
fn entries_left_before_the_cursor_go_at_a_login() {
    let text = format!("clients: romeo=romeo/orchard\n{LOGIN}time passes: 2000 ms\n");
    let script = Script::parse(&text).expect("a script");
    let mut stage = stage(&script);
    let entry = Entry {
        incoming: true,
        waits: true,
        time_ms: 9,
        peer: "juliet@localhost",
        xml: b"<message></message>",
        trail: b"",
    };
    let mut batch = Batch::new();
    Cursor { number: 70, ..Cursor::default() }.put(&mut batch, "romeo@localhost");
    for number in [20, 70] {
        Transient { of: None, entry }.put(&mut batch, "romeo@localhost", number);
    }
    let disk = &mut stage.world.disk;
    disk.apply(&batch);
    assert_eq!(disk.rows_of(Table::Waiting, "romeo@localhost").count(), 3);
    script.play(&mut stage, "localhost", PASSWORD).unwrap();
    let left: Vec<_> = stage.world.disk.rows_of(Table::Waiting, "romeo@localhost").collect();
    assert_eq!(left.len(), 1, "the cursor alone: {left:?}");
}
