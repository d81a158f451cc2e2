//! What a crash leaves of two rosters when it loses the letter between them, and how they find together again.

use throng_engine::feature::subscription::State;
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::roster::{ItemView, Version};
use throng_engine::testing::script::Script;
use throng_engine::testing::stage::Stage;
use throng_engine::testing::world::{PASSWORD, Pace};

/// Romeo's roster says `to` with this number of his request, and Juliet's has nothing: her `unsubscribed` is lost.
fn play(text: &str) {
    for (seed, shards) in [(1, 1), (2, 2), (3, 5)] {
        let script = Script::parse(text).expect("a script");
        let mut stage = Stage::new(seed, Settings::new("localhost", shards, [0; 32], 0), Pace::default(), &script);
        let item = ItemView { listed: true, state: State::To as u8, ver: 9, asked: 8, ..ItemView::default() };
        let mut row = Vec::new();
        item.encode(&mut row);
        let disk = &mut stage.world.disk;
        disk.put(Table::Roster, "romeo@localhost", b"juliet@localhost", &row);
        disk.put(Table::Roster, "romeo@localhost", b"", &Version { current: 9, removal: 0 }.encode());
        if let Err(error) = script.play(&mut stage, "localhost", PASSWORD) {
            panic!("on {shards} shards: {error}");
        }
    }
}

const PROBED: &str = "
romeo connects
romeo sends: <iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>
romeo receives: <iq type='result' id='r' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='9'>
    <item jid='juliet@localhost' subscription='to'/></query></iq>
romeo sends: <presence/>
romeo receives in any order: <presence from='romeo@localhost/orchard' to='romeo@localhost'/>
    <presence from='juliet@localhost' to='romeo@localhost' type='unsubscribed'/>
    <iq type='set' id='{any}' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='10'>
    <item jid='juliet@localhost' subscription='none'/></query></iq>
romeo receives nothing
";

/// RFC 6121 4.3.2 rule 1: a probe of a user who has not granted it is answered with `unsubscribed`.
#[test]
fn a_lost_unsubscribed_heals_when_the_contact_is_online() {
    play(&format!(
        "clients: romeo=romeo/orchard juliet=juliet/balcony\njuliet connects\njuliet sends: <presence/>{PROBED}"
    ));
}

/// RFC 6121 4.3.2 rule 1 stands before rule 3, which is about contacts without available resources. Else a contact who
/// always comes after the user would stay in the user's roster for good.
#[test]
fn a_lost_unsubscribed_heals_when_the_contact_is_offline() {
    play(&format!(
        "clients: romeo=romeo/orchard juliet=juliet/balcony{PROBED}juliet connects\njuliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
romeo receives nothing"
    ));
}

/// RFC 6121 4.3.2 rule 1: "if the contact account does not exist".
#[test]
fn a_subscription_to_an_account_that_is_gone_ends() {
    play(&format!("clients: romeo=romeo/orchard{PROBED}"));
}
