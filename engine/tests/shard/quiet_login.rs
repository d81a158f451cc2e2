//! A login of a user without waiting messages writes nothing: a million of them after a restart are
//! a million reads and no commit.

use throng_engine::id::ShardId;
use throng_engine::settings::Settings;
use throng_engine::store::archive::{Entry, entries};
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

/// A user who only sends follows a log without waiting messages: its own entries are neither read
/// at a login nor sent to it.
#[test]
fn a_login_of_a_user_who_only_sends_replays_no_own_entries() {
    let logs_in = |sent: usize, archive: bool| {
        let says = |n: usize| {
            format!("romeo sends: <message to='juliet@localhost' type='chat' id='m{n}'><body>{n}</body></message>\n")
        };
        let said: String = (0..sent).map(says).collect();
        let clients = "clients: romeo=romeo/orchard juliet=juliet/balcony\n";
        let script = |rest: &str| Script::parse(&format!("{clients}{LOGIN}{rest}")).expect("a script");
        let first = script(&format!("{said}romeo receives nothing\nromeo disconnects\ntime passes: 9000 ms\n"));
        let second = script("time passes: 9000 ms\n");
        // Nothing is owed, so the user is evicted in between.
        let settings = Settings {
            cache_s: 2,
            archive,
            log_messages_day: 0,
            log_bytes_day: 0,
            ..Settings::new("localhost", 1, [0; 32], 0)
        };
        let mut stage = Stage::new(1, settings, Pace::default(), &first);
        first.play(&mut stage, "localhost", PASSWORD).unwrap();
        let rows = stage.world.disk.rows_of(Table::Archive, "romeo@localhost");
        let own: usize = rows.map(|(sort, row)| entries(sort, row).expect("a row").len()).sum();
        assert_eq!(own, if archive { sent } else { 0 });
        let counted = |stage: &Stage| {
            let counters = stage.world.shard(ShardId(0)).counters();
            (counters.reads.get(), counters.writes.get())
        };
        let before = counted(&stage);
        second.play(&mut stage, "localhost", PASSWORD).unwrap();
        let after = counted(&stage);
        (after.0 - before.0, after.1 - before.1)
    };
    for archive in [true, false] {
        let of_none = logs_in(0, archive);
        assert!(of_none.0 > 0 && of_none.1 == 0, "{of_none:?}");
        for sent in [1, 700] {
            assert_eq!(logs_in(sent, archive), of_none, "reads and rows written after {sent} messages");
        }
    }
}

/// Entries that a slow session left before the cursor are removed at the next login.
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
