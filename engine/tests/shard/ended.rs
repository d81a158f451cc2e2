//! Each ended stream is counted once, by its reason, and stanzas are counted by kind.

use throng_engine::counters::Counted;
use throng_engine::io::{AccountCommand, Command, SessionCommand};
use throng_engine::settings::Settings;
use throng_sim::checks;
use throng_sim::script::{Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

const CLIENTS: &str = "clients: romeo=romeo/orchard twin=romeo/orchard juliet=juliet/balcony\n";

/// Sum over all shards, whose counters must be consistent.
fn sum(stage: &Stage, name: &str) -> u64 {
    let shards = stage.world.shards().map(|shard| {
        checks::counters(stage.world.shard(shard)).unwrap_or_else(|wrong| panic!("{wrong}"));
        let list = stage.world.shard(shard).counters().list();
        list.into_iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("no counter {name}")).3
    });
    shards.sum()
}

fn played(text: &str, shards: u16, set: impl FnOnce(&mut Settings)) -> Stage {
    let script = Script::parse(&[CLIENTS, text].concat()).unwrap();
    let mut settings = Settings::new("localhost", shards, [0; 32], 0);
    set(&mut settings);
    let mut stage = Stage::new(7, settings, Pace::default(), &script);
    script.play(&mut stage, "localhost", PASSWORD).unwrap();
    stage.pass(2_000);
    stage
}

fn nothing(_: &mut Settings) {}

/// The counter of a reason, the event, and its settings.
type Case = (&'static str, &'static str, fn(&mut Settings));

#[test]
fn streams_are_counted_by_the_reason_of_their_end() {
    let cases: [Case; 8] = [
        ("closed_by_client", "romeo connects\nromeo disconnects\n", nothing),
        ("closed_lost", "romeo connects\nromeo aborts\n", nothing),
        ("closed_lost", "romeo connects raw\nromeo aborts\n", nothing),
        ("closed_protocol", "romeo connects\nromeo sends: <what/>\nromeo ignores what comes\n", nothing),
        ("closed_refused", "romeo logs in\nromeo sends: <message/>\nromeo ignores what comes\n", nothing),
        ("closed_timeout", "romeo connects raw\ntime passes: 4000 ms\n", |s| s.preauth_s_max = 1),
        ("closed_timeout", "romeo connects\ntime passes: 9000 ms\n", |s| s.idle_s_max = 2),
        ("closed_replaced", "romeo connects\ntwin connects\nromeo ignores what comes\n", nothing),
    ];
    for shards in [1, 3] {
        for (counter, text, set) in cases {
            let stage = played(text, shards, set);
            assert_eq!(
                (sum(&stage, counter), sum(&stage, "streams_closed")),
                (1, 1),
                "{counter}, {shards} shards: {text}"
            );
        }
    }
}

#[test]
fn one_who_asks_on_and_acknowledges_nothing_is_counted_as_not_reading() {
    for shards in [1, 3] {
        let mut stage = played("romeo connects\nromeo enables\n", shards, |s| {
            (s.outbound_bytes_soft, s.outbound_bytes_max) = (2_000, 4_000);
        });
        let ping = "<iq type='get' id='1' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>";
        stage.send("romeo", ping.repeat(200).as_bytes()).unwrap();
        stage.pass(2_000);
        assert_eq!((sum(&stage, "closed_unread"), sum(&stage, "streams_closed")), (1, 1), "{shards} shards");
    }
}

#[test]
fn the_operators_ends_have_their_own_reasons() {
    for shards in [1, 3] {
        let kick = |jid: &str| Command::Session(SessionCommand::Kick { jid: jid.into(), reason: None });
        let detach = |jid: &str| Command::Session(SessionCommand::Detach { jid: jid.into() });
        for (counter, command, ends) in [
            ("closed_operator", kick("romeo@localhost"), 1),
            ("closed_operator", detach("romeo@localhost"), 1),
            ("closed_operator", Command::Account(AccountCommand::Delete { account: "romeo@localhost".into() }), 1),
            ("closed_shutdown", Command::Shutdown, 2),
        ] {
            let mut stage = played("romeo connects\njuliet connects\n", shards, nothing);
            for shard in stage.world.shards() {
                stage.world.command(shard, 1, command.clone());
            }
            stage.pass(2_000);
            let counted = (sum(&stage, counter), sum(&stage, "streams_closed"));
            assert_eq!(counted, (ends, ends), "{counter}, {shards} shards");
        }
    }
}

#[test]
fn streams_and_stanzas_are_counted_by_kind() {
    let text = "
romeo connects
juliet connects
romeo sends: <presence/>
juliet sends: <presence/>
romeo ignores what comes
juliet ignores what comes
romeo sends: <message to='juliet@localhost' type='chat'><body>1</body></message>
romeo sends: <message to='juliet@localhost' type='chat'><body>2</body></message>
romeo sends: <iq type='get' id='1' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>
romeo sends: <presence type='unavailable'/>
";
    for shards in [1, 3] {
        let stage = played(text, shards, nothing);
        let told = ["messages_in", "presences_in", "iqs_in", "stanzas_in"].map(|name| sum(&stage, name));
        assert_eq!(told, [2, 3, 1, 6], "{shards} shards");
        let told = ["messages_out", "presences_out", "iqs_out", "stanzas_out"].map(|name| sum(&stage, name));
        // Each gets its own presence, and those to whom it was available get its end.
        assert_eq!((told[0], told[2], told[3]), (2, 1, told[0] + told[1] + told[2]), "{shards} shards: {told:?}");
        assert!(told[1] >= 2, "{told:?}");
        // Each login opens two: before and after authentication.
        assert_eq!(["streams_opened", "conns_bound", "connections"].map(|name| sum(&stage, name)), [4, 2, 2]);
    }
}
