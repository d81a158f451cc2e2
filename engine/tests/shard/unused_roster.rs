//! A user who only writes messages does not keep the roster in memory, however much others have put
//! into it.

use throng_engine::extension::subscription::State;
use throng_engine::id::ShardId;
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::roster::{ItemView, Version};
use throng_sim::script::{Player, Script};
use throng_sim::stage::{Acted, Stage};
use throng_sim::world::{PASSWORD, Pace};

/// Number of subscription requests that wait for Romeo, and the bytes of each.
const REQUESTS: usize = 40;
const REQUEST_BYTES: usize = 2_000;

const LOGIN: &str = "
clients: romeo=romeo/orchard
romeo connects
romeo sends: <iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>
romeo receives: <iq type='result' id='r' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='9'>
    <item jid='juliet@localhost' subscription='to'/></query></iq>
";

const WRITES: &str = "
romeo sends: <message to='romeo@localhost/orchard'><body>a</body></message>
romeo receives: <message from='romeo@localhost/orchard' to='romeo@localhost/orchard'><body>a</body></message>
time passes: 2000 ms
";

/// RFC 6121 2.1.4: an evicted roster is read again, with all changes made meanwhile.
const AGAIN: &str = "
romeo sends: <iq type='set' id='s'><query xmlns='jabber:iq:roster'><item jid='nurse@localhost'/></query></iq>
romeo receives in any order: <iq type='result' id='s' to='romeo@localhost/orchard'/>
    <iq type='set' id='{any}' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='nurse@localhost' subscription='none'/></query></iq>
romeo sends: <iq type='get' id='t'><query xmlns='jabber:iq:roster'/></iq>
romeo receives: <iq type='result' id='t' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='juliet@localhost' subscription='to'/><item jid='nurse@localhost' subscription='none'/></query></iq>
";

#[test]
fn a_roster_that_is_not_used_is_dropped_while_its_user_writes() {
    let script = Script::parse(&[LOGIN, &WRITES.repeat(10), AGAIN].concat()).expect("a script");
    let settings = Settings { cache_s: 5, ..Settings::new("localhost", 1, [0; 32], 0) };
    // Memory used for users after time has passed.
    let mut bytes = Vec::new();
    let weigh = |stage: &mut Stage, ms: u64| {
        stage.pass(ms);
        bytes.push(stage.world.shard(ShardId(0)).counters().mem_users_bytes.get());
    };
    let mut weighed = Acted { stage: Stage::new(1, settings, Pace::default(), &script), pass: Box::new(weigh) };
    let disk = &mut weighed.stage.world.disk;
    let mut put = |contact: &str, item: ItemView<'_>| {
        let mut row = Vec::new();
        item.encode(&mut row);
        disk.put(Table::Roster, "romeo@localhost", contact.as_bytes(), &row);
    };
    put("juliet@localhost", ItemView { listed: true, ver: 9, state: State::To as u8, ..ItemView::default() });
    let pending = vec![b'x'; REQUEST_BYTES];
    let request = ItemView { state: State::NonePendingIn as u8, pending: &pending, ..ItemView::default() };
    for n in 0..REQUESTS {
        put(&format!("stranger{n}@localhost"), request);
    }
    disk.put(Table::Roster, "romeo@localhost", b"", &Version { current: 9, ..Version::default() }.encode());
    script.play(&mut weighed, "localhost", PASSWORD).unwrap();
    drop(weighed);
    let (most, last) = (bytes.iter().max().unwrap(), bytes.last().unwrap());
    assert!(last + (REQUESTS * REQUEST_BYTES) as u64 <= *most, "{bytes:?}");
}
