//! Two rosters that must converge: after a crash that lost the letter between them, and when
//! stanzas arrive while the contact comes online. And what one user sees of the other.

use throng_engine::extension::subscription::State;
use throng_engine::io::StorageState;
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::roster::{ItemView, Unconfirmed, Version};
use throng_sim::script::{Player, Script};
use throng_sim::stage::{Acted, Stage};
use throng_sim::world::{PASSWORD, Pace};

const ROMEO: &str = "romeo@localhost";
const JULIET: &str = "juliet@localhost";

/// Plays a script on several worlds with these rows: owner, contact, item. While time passes, the
/// disk has the state that is next in the list, and keeps it.
fn play(pace: &Pace, rows: &[(&str, &str, ItemView<'_>)], text: &str) {
    play_on_disk(pace, rows, &[], text);
}

fn play_on_disk(pace: &Pace, rows: &[(&str, &str, ItemView<'_>)], disk: &[StorageState], text: &str) {
    for (seed, shards) in [(1, 1), (2, 2), (3, 5)] {
        let script = Script::parse(text).expect("a script");
        let mut stage = Stage::new(seed, Settings::new("localhost", shards, [0; 32], 0), pace.clone(), &script);
        for (owner, contact, item) in rows {
            let mut row = Vec::new();
            item.encode(&mut row);
            stage.world.disk.put(Table::Roster, owner, contact.as_bytes(), &row);
            stage.world.disk.put(Table::Roster, owner, b"", &Version { current: 9, ..Version::default() }.encode());
        }
        let mut states = disk.iter();
        let pass = Box::new(move |stage: &mut Stage, ms| {
            if let Some(state) = states.next() {
                stage.world.storage(*state);
            }
            stage.pass(ms);
        });
        if let Err(error) = script.play(&mut Acted { stage, pass }, "localhost", PASSWORD) {
            panic!("on {shards} shards: {error}");
        }
    }
}

/// Romeo's roster has `to` with this number of his request, and Juliet's has nothing: her
/// `unsubscribed` was lost.
fn play_lost_unsubscribed(text: &str) {
    let item = ItemView { listed: true, state: State::To as u8, ver: 9, asked: 8, ..ItemView::default() };
    play(&Pace::default(), &[(ROMEO, JULIET, item)], text);
}

const PROBED: &str = "
romeo connects
romeo sends: <iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>
romeo receives: <iq type='result' id='r' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='9'>
    <item jid='juliet@localhost' subscription='to'/></query></iq>
romeo sends: <presence/>
romeo receives in any order: <presence from='romeo@localhost/orchard' to='romeo@localhost'/>
    <presence from='juliet@localhost' to='romeo@localhost' type='unsubscribed'/>
    <iq type='set' id='{any}' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='juliet@localhost' subscription='none'/></query></iq>
romeo receives nothing
";

/// RFC 6121 4.3.2 rule 1: a probe from a user without a subscription is answered with
/// `unsubscribed`.
#[test]
fn a_lost_unsubscribed_heals_when_the_contact_is_online() {
    play_lost_unsubscribed(&format!(
        "clients: romeo=romeo/orchard juliet=juliet/balcony\njuliet connects\njuliet sends: <presence/>{PROBED}"
    ));
}

/// RFC 6121 3.2.1, 3.3.1: ends of subscriptions that a crash has lost are sent again when the user
/// who ended them comes online, and only until they are recorded.
#[test]
fn lost_ends_heal_when_the_user_who_ended_them_comes_online() {
    let romeo = ItemView { listed: true, state: State::Both as u8, ver: 9, asked: 8, seen: 5, ..ItemView::default() };
    let unconfirmed = Unconfirmed { number: 9, left: true, ended: true };
    let juliet = ItemView { asked: 5, seen: 8, unconfirmed, ..ItemView::default() };
    play(
        &Pace::default(),
        &[(ROMEO, JULIET, romeo), (JULIET, ROMEO, juliet)],
        "clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
romeo sends: <iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>
romeo receives: <iq type='result' id='r' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='9'>
    <item jid='juliet@localhost' subscription='both'/></query></iq>
romeo sends: <presence/>
romeo receives: <presence from='romeo@localhost/orchard' to='romeo@localhost'/>
juliet connects
juliet sends: <presence/>
juliet receives in any order: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
    <presence from='romeo@localhost/orchard' to='juliet@localhost' type='unavailable'/>
romeo receives: <presence from='juliet@localhost' to='romeo@localhost' type='unsubscribe'/>
romeo receives: <iq type='set' id='{any}' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='juliet@localhost' subscription='to'/></query></iq>
romeo receives: <presence from='juliet@localhost' to='romeo@localhost' type='unsubscribed'/>
romeo receives: <iq type='set' id='{any}' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='juliet@localhost' subscription='none'/></query></iq>
juliet sends: <presence type='unavailable'/><presence/>
romeo receives nothing",
    );
}

/// RFC 6121 3.1.2: a request whose answer a crash has lost is sent again when the user comes online.
/// If the disk is full then, it is sent when there is space, although the session stays.
#[test]
fn a_lost_approval_heals_when_the_disk_has_space() {
    let romeo = ItemView { listed: true, state: State::NonePendingOut as u8, ver: 9, asked: 8, ..ItemView::default() };
    let juliet = ItemView { listed: true, state: State::From as u8, ver: 9, seen: 8, ..ItemView::default() };
    play_on_disk(
        &Pace::default(),
        &[(ROMEO, JULIET, romeo), (JULIET, ROMEO, juliet)],
        &[StorageState::Full, StorageState::Full, StorageState::Ok],
        "clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
time passes: 1000 ms
romeo sends: <iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq><presence/>
romeo receives: <iq type='result' id='r' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='9'>
    <item jid='juliet@localhost' subscription='none' ask='subscribe'/></query></iq>
romeo receives: <presence from='romeo@localhost/orchard' to='romeo@localhost'/>
time passes: 60000 ms
romeo receives nothing
time passes: 9000 ms
romeo receives: <presence from='juliet@localhost' to='romeo@localhost' type='subscribed'/>
    <iq type='set' id='{any}' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='juliet@localhost' subscription='to'/></query></iq>
romeo receives nothing",
    );
}

/// RFC 6120 10.1: stanzas for one user stay in order, also if the user comes online while his
/// account is looked up for the first of two.
#[test]
fn a_second_request_does_not_overtake_the_end_of_the_first() {
    let from =
        ItemView { listed: true, approved: true, state: State::From as u8, ver: 5, seen: 8, ..ItemView::default() };
    let to = ItemView { listed: true, state: State::To as u8, ver: 9, asked: 8, ..ItemView::default() };
    let slow = Pace { read_us: 2_000_000, ..Pace::default() };
    play(
        &slow,
        &[(ROMEO, JULIET, from), (JULIET, ROMEO, to)],
        "clients: romeo=romeo/orchard juliet=juliet/balcony
juliet connects
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
romeo logs in
juliet sends: <presence to='romeo@localhost' type='unsubscribe'/>
juliet sends: <presence to='juliet@localhost/balcony'/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost/balcony'/>
romeo sends: <iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>orchard</resource></bind></iq>
romeo receives: <iq type='result' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>
    <jid>romeo@localhost/orchard</jid></bind></iq>
juliet sends: <presence to='romeo@localhost' type='subscribe'/>
time passes: 5000 ms
romeo sends: <iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>
romeo receives: <iq type='result' id='r' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='juliet@localhost' subscription='from' approved='true'/></query></iq>
juliet sends: <iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>
juliet receives: <iq type='result' id='r' to='juliet@localhost/balcony'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='romeo@localhost' subscription='to'/></query></iq>",
    );
}

/// RFC 6120 10.1: the last presence sent is the last one seen, also if the first one waits behind a
/// message for which the receiver's waiting messages are looked up.
#[test]
fn unavailable_presence_does_not_overtake_directed_presence() {
    let from = ItemView { listed: true, state: State::From as u8, ver: 5, seen: 8, ..ItemView::default() };
    let to = ItemView { listed: true, state: State::To as u8, ver: 9, asked: 8, ..ItemView::default() };
    let slow = Pace { read_us: 2_000_000, ..Pace::default() };
    play(
        &slow,
        &[(ROMEO, JULIET, from), (JULIET, ROMEO, to)],
        "clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
romeo sends: <presence/>
romeo receives: <presence from='romeo@localhost/orchard' to='romeo@localhost'/>
juliet connects
juliet sends: <presence><priority>-1</priority></presence>
juliet receives in any order: <presence from='juliet@localhost/balcony' to='juliet@localhost'>
    <priority>-1</priority></presence><presence from='romeo@localhost/orchard' to='juliet@localhost/balcony'/>
romeo sends: <message to='juliet@localhost' type='chat'><body>1</body></message>
    <presence to='juliet@localhost/balcony'><status>here</status></presence><presence type='unavailable'/>
juliet receives: <presence from='romeo@localhost/orchard' to='juliet@localhost/balcony'><status>here</status></presence>
juliet receives: <presence from='romeo@localhost/orchard' to='juliet@localhost' type='unavailable'/>
juliet receives nothing",
    );
}

/// RFC 6120 10.1, RFC 6121 3.1.5: an approval arrives before the presence that it permits, also if
/// the requester's roster has to be read first.
#[test]
fn presence_does_not_overtake_the_approval_before_it() {
    let asked = ItemView { listed: true, state: State::NonePendingOut as u8, ver: 9, asked: 8, ..ItemView::default() };
    let asks = ItemView { state: State::NonePendingIn as u8, seen: 8, ..ItemView::default() };
    let slow = Pace { read_us: 2_000_000, ..Pace::default() };
    play(
        &slow,
        &[(ROMEO, JULIET, asked), (JULIET, ROMEO, asks)],
        "clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
romeo sends: <iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>
romeo receives: <iq type='result' id='r' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='9'>
    <item jid='juliet@localhost' subscription='none' ask='subscribe'/></query></iq>
romeo sends: <presence/>
romeo ignores what comes
juliet connects
juliet sends: <presence/>
juliet ignores what comes
time passes: 60000 ms
juliet sends: <presence to='romeo@localhost' type='subscribed'/><presence><show>away</show></presence>
romeo receives: <presence from='juliet@localhost' to='romeo@localhost' type='subscribed'/>
romeo receives: <iq type='set' id='{any}' to='romeo@localhost/orchard'><query xmlns='jabber:iq:roster' ver='{any}'>
    <item jid='juliet@localhost' subscription='to'/></query></iq>
romeo receives: <presence from='juliet@localhost/balcony' to='romeo@localhost'><show>away</show></presence>
romeo receives: <presence from='juliet@localhost/balcony' to='romeo@localhost'><show>away</show></presence>",
    );
}
