//! A user's stored data is damaged: requests for it get an error, everyone else is served, and
//! nothing counts as missing, is given away or overwritten. When it is readable again, all of it is
//! there.

use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::script::{Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

const BARE: &str = "juliet@localhost";

fn stage(seed: u64, shards: u16) -> Stage {
    let mut settings = Settings { resume_s_max: 5, ..Settings::new("localhost", shards, [0; 32], 0) };
    settings.facts.registration = true;
    let script = Script::parse("clients: romeo=romeo/orchard juliet=juliet/balcony\n").unwrap();
    let mut stage = Stage::new(seed, settings, Pace::default(), &script);
    stage.world.listener.registration = true;
    stage
}

fn play(stage: &mut Stage, text: &str) {
    let script = Script::parse(&format!("clients: romeo=romeo/orchard juliet=juliet/balcony\n{text}")).unwrap();
    script.play(stage, "localhost", PASSWORD).unwrap_or_else(|error| panic!("{error}\n{text}"));
}

fn rows(stage: &Stage, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    stage.world.disk.rows_of(table, BARE).map(|(sort, value)| (sort.to_vec(), value.to_vec())).collect()
}

const ERROR: &str = "<stream:error><internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>
    <text xmlns='urn:ietf:params:xml:ns:xmpp-streams' xml:lang='en'>{any}</text></stream:error>";

/// RFC 6120 4.9.3.6: the server cannot serve this stream. RFC 6121 8.5.2.2: stored messages are
/// delivered later.
#[test]
fn a_log_that_cannot_be_read_is_not_taken_for_an_empty_one() {
    for (seed, shards, table) in [(1, 1, Table::Waiting), (2, 3, Table::Archive), (3, 2, Table::Waiting)] {
        let mut stage = stage(seed, shards);
        play(
            &mut stage,
            "romeo connects
romeo sends: <message to='juliet@localhost' type='chat'><body>waits</body></message>
time passes: 100000 ms",
        );
        let before = (rows(&stage, Table::Waiting), rows(&stage, Table::Archive));
        stage.world.disk.damage(table, BARE, true);
        play(
            &mut stage,
            &format!(
                "juliet connects
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
juliet receives: {ERROR}
juliet is closed
time passes: 100000 ms"
            ),
        );
        assert_eq!((rows(&stage, Table::Waiting), rows(&stage, Table::Archive)), before, "seed {seed}: written over");
        stage.world.disk.damage(table, BARE, false);
        play(
            &mut stage,
            "juliet connects
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>waits</body>
    <delay xmlns='urn:xmpp:delay' from='{any}' stamp='{any}'/></message>
juliet receives nothing",
        );
    }
}

/// RFC 6120 6.5.11, 8.3.3.6: temporary-auth-failure and internal-server-error, and the name is not
/// available.
#[test]
fn an_account_that_cannot_be_read_is_neither_missing_nor_free() {
    for (seed, shards) in [(1, 1), (2, 3)] {
        let mut stage = stage(seed, shards);
        let before = rows(&stage, Table::Accounts);
        stage.world.disk.damage(Table::Accounts, BARE, true);
        play(
            &mut stage,
            "romeo connects
romeo sends: <message to='juliet@localhost' type='chat' id='m'><body>hello</body></message>
romeo receives: <message from='juliet@localhost' to='romeo@localhost/orchard' type='error' id='m'>
    <error type='cancel'><internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
juliet connects raw
juliet opens stream
juliet sends: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABndWVzcw==</auth>
juliet receives: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/>
    <text xml:lang='en'>{any}</text></failure>
juliet sends: <iq type='set' id='r'><query xmlns='jabber:iq:register'><username>juliet</username>
    <password>stolen-it</password></query></iq>
juliet receives: <iq type='error' id='r' from='localhost'>
    <error type='cancel'><internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
        );
        assert_eq!(rows(&stage, Table::Accounts), before, "seed {seed}: written over");
        stage.world.disk.damage(Table::Accounts, BARE, false);
        stage.pass(60_000);
        play(&mut stage, "juliet connects\njuliet disconnects");
    }
}

/// XEP-0191 3.3: a user's block list is not forgotten because other data of the user was unreadable
/// for a while, nor is it overwritten.
#[test]
fn a_block_list_outlives_what_cannot_be_read_beside_it_xep0191_3_3() {
    let refused = |condition: &str| {
        format!(
            "romeo connects
romeo sends: <iq type='get' id='v' to='juliet@localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>
romeo receives: <iq type='error' id='v' from='juliet@localhost' to='romeo@localhost/orchard'>
    <error type='cancel'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
"
        )
    };
    for (seed, shards, table) in [(1, 1, Table::Waiting), (2, 3, Table::Accounts), (3, 2, Table::Waiting)] {
        let mut stage = stage(seed, shards);
        play(
            &mut stage,
            "juliet connects
juliet sends: <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='romeo@localhost'/></block></iq>
juliet receives: <iq type='result' id='b' to='juliet@localhost/balcony'/>
juliet disconnects
time passes: 100000 ms",
        );
        stage.world.disk.damage(table, BARE, true);
        play(&mut stage, &refused("internal-server-error"));
        stage.world.disk.damage(table, BARE, false);
        play(&mut stage, &refused("service-unavailable"));
        play(
            &mut stage,
            "juliet connects
juliet sends: <iq type='set' id='c'><block xmlns='urn:xmpp:blocking'><item jid='nurse@localhost'/></block></iq>
juliet receives: <iq type='result' id='c' to='juliet@localhost/balcony'/>
juliet sends: <iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>
juliet receives: <iq type='result' id='l' to='juliet@localhost/balcony'><blocklist xmlns='urn:xmpp:blocking'>
    <item jid='nurse@localhost'/><item jid='romeo@localhost'/></blocklist></iq>",
        );
    }
}
