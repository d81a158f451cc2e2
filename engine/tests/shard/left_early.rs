//! Users who have left when the answer to their stanza arrives.

use throng_engine::io::StorageState;
use throng_engine::settings::Settings;
use throng_sim::script::{Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

/// RFC 6120 8.3.1 requires an error for the sender of a stanza. If the session ended while the
/// roster was read, the error is dropped. The session's former slot must not be used.
#[test]
fn an_error_for_a_subscription_of_a_session_that_has_ended_is_dropped() {
    let script = Script::parse("clients: romeo=romeo/orchard juliet=juliet/balcony\nromeo connects\njuliet connects\n");
    let script = script.expect("a script");
    for (seed, shards) in [(1, 1), (2, 3)] {
        let pace = Pace { read_us: 400_000, ..Pace::default() };
        let mut stage = Stage::new(seed, Settings::new("localhost", shards, [0; 32], 0), pace, &script);
        script.play(&mut stage, "localhost", PASSWORD).expect("both come in");
        stage.world.storage(StorageState::Full);
        let request = b"<presence type='subscribe' to='juliet@localhost' id='s'/></stream:stream>";
        stage.send("romeo", request).expect("romeo is connected");
        stage.pass(5_000);
        let sessions: u64 = stage.world.shards().map(|s| stage.world.shard(s).counters().sessions.get()).sum();
        assert_eq!(sessions, 1, "juliet's, on {shards} shards");
    }
}
