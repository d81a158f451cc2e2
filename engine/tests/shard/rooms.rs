//! Rooms (XEP-0045): who may do what, what a large room sends, and what one occupant can do to
//! others.

use throng_engine::settings::{RoomCreation, Settings};
use throng_sim::stage;
use throng_sim::world::Pace;

pub(crate) const MUC: &str = "http://jabber.org/protocol/muc";

pub(crate) fn play_with(text: &str, settle: impl Fn(&mut Settings)) {
    for (seed, shards) in [(1, 1), (2, 3)] {
        if let Err(error) = stage::play(text, seed, shards, Pace::default(), &settle) {
            panic!("{shards} shards: {error}");
        }
    }
}

pub(crate) fn play(text: &str) {
    play_with(text, |_| {});
}

/// Three clients, of whom the first has made a room with these fields of the configuration.
pub(crate) fn room(fields: &[(&str, &str)]) -> String {
    let fields: String = fields
        .iter()
        .map(|(var, value)| format!("<field var='muc#roomconfig_{var}'><value>{value}</value></field>"))
        .collect();
    format!(
        "clients: romeo=romeo/r juliet=juliet/j nurse=nurse/n
romeo connects
juliet connects
nurse connects
romeo sends: <presence to='cave@conference.localhost/romeo'><x xmlns='{MUC}'/></presence>
romeo receives: <presence from='cave@conference.localhost/romeo' to='romeo@localhost/r'>{{any}}</presence>
romeo receives: <message type='groupchat' from='cave@conference.localhost' to='romeo@localhost/r'>{{any}}</message>
romeo sends: <iq type='set' id='c' to='cave@conference.localhost'><query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'>{fields}</x></query></iq>
romeo receives: <iq type='result' id='c' from='cave@conference.localhost' to='romeo@localhost/r'/>
"
    )
}

/// A client enters, and learns of the others in the order of their nicks.
pub(crate) fn enters(who: &str, resource: &str, others: &[&str]) -> String {
    let to = format!("{who}@localhost/{resource}");
    let mut text =
        format!("{who} sends: <presence to='cave@conference.localhost/{who}'><x xmlns='{MUC}'/></presence>\n");
    for nick in others.iter().chain([&who]) {
        text += &format!(
            "{who} receives: <presence from='cave@conference.localhost/{nick}' to='{to}'>{{any}}</presence>\n"
        );
    }
    text + &format!(
        "{who} receives: <message type='groupchat' from='cave@conference.localhost' to='{to}'>{{any}}</message>\n"
    )
}

pub(crate) fn sees(who: &str, resource: &str, nick: &str) -> String {
    format!(
        "{who} receives: <presence from='cave@conference.localhost/{nick}' to='{who}@localhost/{resource}'>{{any}}</presence>\n"
    )
}

pub(crate) fn refused(who: &str, resource: &str, kind: &str, id: &str, error: &str, condition: &str) -> String {
    format!(
        "{who} receives: <{kind} type='error' id='{id}' from='cave@conference.localhost' to='{who}@localhost/{resource}'>
    <error type='{error}'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></{kind}>\n"
    )
}

/// XEP-0045 7.8.2: in a members-only room an invitation makes a member.
#[test]
fn an_invitation_to_a_members_only_room_opens_it() {
    let mut text = room(&[("membersonly", "1")]);
    text += &format!(
        "juliet sends: <presence id='p' to='cave@conference.localhost/juliet'><x xmlns='{MUC}'/></presence>
juliet receives: <presence type='error' id='p' from='cave@conference.localhost/juliet' to='juliet@localhost/j'>
    <error type='auth'><registration-required xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error><x xmlns='{MUC}'/></presence>
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/j' to='juliet@localhost'/>
romeo sends: <message to='cave@conference.localhost'><x xmlns='{MUC}#user'><invite to='juliet@localhost'><reason>Come</reason></invite></x></message>
juliet receives: <message from='cave@conference.localhost' to='juliet@localhost'>
    <x xmlns='{MUC}#user'><invite from='cave@conference.localhost/romeo'><reason>Come</reason></invite></x></message>
"
    );
    text += &enters("juliet", "j", &["romeo"]);
    text += &sees("romeo", "r", "juliet");
    // XEP-0045 7.8.2: a member who is no admin may not invite unless the room allows it.
    text += &format!(
        "juliet sends: <message id='i' to='cave@conference.localhost'><x xmlns='{MUC}#user'><invite to='nurse@localhost'/></x></message>\n"
    );
    text += &refused("juliet", "j", "message", "i", "auth", "forbidden");
    play(&text);
}

/// XEP-0045 7.13, 8.6: a visitor of a moderated room is silent until a moderator grants voice.
#[test]
fn a_visitor_asks_for_voice() {
    let mut text = room(&[("moderatedroom", "1")]);
    text += &enters("juliet", "j", &["romeo"]);
    text += &sees("romeo", "r", "juliet");
    text +=
        "juliet sends: <message type='groupchat' id='m' to='cave@conference.localhost'><body>Ay me</body></message>\n";
    text += &refused("juliet", "j", "message", "m", "auth", "forbidden");
    let form = |request: &str, more: &str| {
        format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MUC}#request</value></field>
    <field var='muc#{request}'><value>{more}</value></field>"
        )
    };
    text += &format!(
        "juliet sends: <message to='cave@conference.localhost'>{}</x></message>\n",
        form("role", "participant")
    );
    text += "romeo receives: <message from='cave@conference.localhost' to='romeo@localhost/r'>{any}</message>\n";
    text += &format!(
        "romeo sends: <message to='cave@conference.localhost'>{}<field var='muc#request_allow'><value>true</value></field></x></message>\n",
        form("roomnick", "juliet")
    );
    for (who, resource) in [("romeo", "r"), ("juliet", "j")] {
        text += &sees(who, resource, "juliet");
    }
    text += "juliet sends: <message type='groupchat' id='n' to='cave@conference.localhost'><body>Ay me</body></message>
juliet receives: <message type='groupchat' id='n' from='cave@conference.localhost/juliet' to='juliet@localhost/j'>{any}</message>
romeo receives: <message type='groupchat' id='n' from='cave@conference.localhost/juliet' to='romeo@localhost/r'>{any}</message>\n";
    play(&text);
}

/// XEP-0500 4: the second message of a participant is too early, one of a moderator is not.
#[test]
fn slow_mode_slows_participants() {
    let mut text = room(&[("slow_mode_duration", "10")]);
    text += &enters("juliet", "j", &["romeo"]);
    text += &sees("romeo", "r", "juliet");
    let says = |who: &str, id: &str| {
        format!(
            "{who} sends: <message type='groupchat' id='{id}' to='cave@conference.localhost'><body>{id}</body></message>\n"
        )
    };
    let hears = |from: &str, id: &str| -> String {
        [("romeo", "r"), ("juliet", "j")]
            .map(|(who, resource)| {
                format!("{who} receives: <message type='groupchat' id='{id}' from='cave@conference.localhost/{from}' to='{who}@localhost/{resource}'>{{any}}</message>\n")
            })
            .concat()
    };
    text += &says("juliet", "1");
    text += &hears("juliet", "1");
    text += &says("juliet", "2");
    text += "juliet receives: <message type='error' id='2' from='cave@conference.localhost' to='juliet@localhost/j'>
    <error type='wait'><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>{any}</text></error></message>\n";
    for id in ["3", "4"] {
        text += &says("romeo", id);
        text += &hears("romeo", id);
    }
    text += "time passes: 11000 ms\n";
    text += &says("juliet", "5");
    text += &hears("juliet", "5");
    play(&text);
}

/// XEP-0045 10.2: a room can be left to administrators, and to users of this server.
#[test]
fn who_may_create_rooms_is_the_operators_choice() {
    let text = format!(
        "clients: romeo=romeo/r
romeo connects
romeo sends: <presence id='p' to='cave@conference.localhost/romeo'><x xmlns='{MUC}'/></presence>
romeo receives: <presence type='error' id='p' from='cave@conference.localhost/romeo' to='romeo@localhost/r'>
    <error type='cancel'><not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>{{any}}</text></error><x xmlns='{MUC}'/></presence>
romeo sends: <iq type='get' id='i' to='cave@conference.localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>
romeo receives: <iq type='error' id='i' from='cave@conference.localhost' to='romeo@localhost/r'>
    <error type='cancel'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
"
    );
    play_with(&text, |s| s.room_creation = RoomCreation::Admins);
}

/// XEP-0425 4.1 and XEP-0313: a moderator retracts a message. Its text is neither in the history nor
/// in the archive any more.
#[test]
fn a_retracted_message_is_shown_to_nobody_again() {
    let mut text = room(&[]);
    text += "romeo sends: <message type='groupchat' id='m' to='cave@conference.localhost'><body>Free potions</body></message>
romeo receives: <message type='groupchat' id='m' from='cave@conference.localhost/romeo' to='romeo@localhost/r'><body>Free potions</body>
    <occupant-id xmlns='urn:xmpp:occupant-id:0' id='{any}'/><stanza-id xmlns='urn:xmpp:sid:0' id='{=said}' by='cave@conference.localhost'/></message>
romeo sends: <iq type='set' id='r' to='cave@conference.localhost'><moderate xmlns='urn:xmpp:message-moderate:1' id='{said}'><retract xmlns='urn:xmpp:message-retract:1'/><reason>Spam</reason></moderate></iq>
romeo receives: <message type='groupchat' id='{any}' from='cave@conference.localhost' to='romeo@localhost/r'>
    <retract xmlns='urn:xmpp:message-retract:1' id='{said}'><moderated xmlns='urn:xmpp:message-moderate:1' by='cave@conference.localhost/romeo'><occupant-id xmlns='urn:xmpp:occupant-id:0' id='{any}'/></moderated><reason>Spam</reason></retract></message>
romeo receives: <iq type='result' id='r' from='cave@conference.localhost' to='romeo@localhost/r'/>\n";
    text += &enters("juliet", "j", &["romeo"]);
    text += "juliet sends: <iq type='set' id='a' to='cave@conference.localhost'><query xmlns='urn:xmpp:mam:2'/></iq>
juliet receives: <message from='cave@conference.localhost' to='juliet@localhost/j'><result xmlns='urn:xmpp:mam:2' id='{any}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='{any}'/>
    <message xmlns='jabber:client' type='groupchat' id='{any}' from='cave@conference.localhost'><retract xmlns='urn:xmpp:message-retract:1' id='{said}'>{any}</retract></message></forwarded></result></message>
juliet receives: <iq type='result' id='a' from='cave@conference.localhost' to='juliet@localhost/j'>{any}</iq>
juliet receives nothing\n";
    play(&text);
}

/// XEP-0045 9.1, XEP-0313 8.1: an outcast reads nothing, not even the archive.
#[test]
fn a_ban_covers_the_archive() {
    let mut text = room(&[]);
    text += "romeo sends: <iq type='set' id='b' to='cave@conference.localhost'><query xmlns='http://jabber.org/protocol/muc#admin'><item jid='juliet@localhost' affiliation='outcast'/></query></iq>
romeo receives: <iq type='result' id='b' from='cave@conference.localhost' to='romeo@localhost/r'/>
juliet sends: <iq type='set' id='a' to='cave@conference.localhost'><query xmlns='urn:xmpp:mam:2'/></iq>\n";
    text += &refused("juliet", "j", "iq", "a", "auth", "forbidden");
    // XEP-0045 10.4: the last owner stays.
    text += "romeo sends: <iq type='set' id='o' to='cave@conference.localhost'><query xmlns='http://jabber.org/protocol/muc#admin'><item jid='romeo@localhost' affiliation='member'/></query></iq>\n";
    text += &refused("romeo", "r", "iq", "o", "cancel", "conflict");
    play(&text);
}

/// Whoever registers a name next has no standing of the former user (XEP-0077 3.2, XEP-0045 5.2).
#[test]
fn a_removed_account_leaves_no_standing_behind() {
    let mut text = room(&[("membersonly", "1")]);
    let admin = format!("{MUC}#admin");
    text += &format!(
        "romeo sends: <iq type='set' id='m' to='cave@conference.localhost'><query xmlns='{admin}'><item jid='juliet@localhost' affiliation='member'/></query></iq>
romeo receives: <iq type='result' id='m' from='cave@conference.localhost' to='romeo@localhost/r'/>
romeo sends: <iq type='get' id='1' to='cave@conference.localhost'><query xmlns='{admin}'><item affiliation='member'/></query></iq>
romeo receives: <iq type='result' id='1' from='cave@conference.localhost' to='romeo@localhost/r'><query xmlns='{admin}'><item affiliation='member' jid='juliet@localhost'/></query></iq>
juliet sends: <iq type='set' id='x'><query xmlns='jabber:iq:register'><remove/></query></iq>
juliet receives: <iq type='result' id='x' to='juliet@localhost/j'/>
juliet receives: <error xmlns='http://etherx.jabber.org/streams'>{{any}}</error>
juliet is closed
time passes: 1000 ms
romeo sends: <iq type='get' id='2' to='cave@conference.localhost'><query xmlns='{admin}'><item affiliation='member'/></query></iq>
romeo receives: <iq type='result' id='2' from='cave@conference.localhost' to='romeo@localhost/r'><query xmlns='{admin}'/></iq>
"
    );
    play_with(&text, |s| s.facts.account_changes = true);
}

/// XEP-0045 10.1.1: a request that is refused creates nothing, and holds no name for its sender.
#[test]
fn a_refused_request_creates_no_room() {
    let status = "x".repeat(5_000);
    let mut text = format!(
        "clients: romeo=romeo/r juliet=juliet/j
romeo connects
juliet connects
romeo sends: <presence id='p' to='cave@conference.localhost/romeo'><x xmlns='{MUC}'/><status>{status}</status></presence>
romeo receives: <presence type='error' id='p' from='cave@conference.localhost/romeo' to='romeo@localhost/r'>{{any}}</presence>
"
    );
    text += &enters("juliet", "j", &[]);
    play(&text);
}

/// XEP-0191 3.3: what a client blocks while it is behind does not come from the archive either.
#[test]
fn a_slow_session_gets_nothing_that_it_has_blocked_meanwhile() {
    let mut text = room(&[]);
    text += &enters("nurse", "n", &["romeo"]);
    text += &sees("romeo", "r", "nurse");
    text += &enters("juliet", "j", &["nurse", "romeo"]);
    text += &sees("romeo", "r", "juliet");
    text += &sees("nurse", "n", "juliet");
    text += "juliet sends: <enable xmlns='urn:xmpp:sm:3'/>\njuliet receives: <enabled xmlns='urn:xmpp:sm:3'/>\n";
    let hears = |who: &str, resource: &str, by: &str, id: &str| {
        format!(
            "{who} receives: <message type='groupchat' id='{id}' from='cave@conference.localhost/{by}' to='{who}@localhost/{resource}'>{{any}}</message>\n"
        )
    };
    for (by, id) in [("romeo", "0"), ("romeo", "1"), ("nurse", "2")] {
        text += &format!(
            "{by} sends: <message type='groupchat' id='{id}' to='cave@conference.localhost'><body>Ho</body></message>\n"
        );
        text += &hears("romeo", "r", by, id);
        text += &hears("nurse", "n", by, id);
    }
    text += &hears("juliet", "j", "romeo", "0");
    text += "juliet receives nothing
juliet sends: <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='cave@conference.localhost/romeo'/></block></iq>
juliet receives: <iq type='result' id='b' to='juliet@localhost/j'/>
juliet sends: <a xmlns='urn:xmpp:sm:3' h='2'/>\n";
    text += &hears("juliet", "j", "nurse", "2");
    text += "juliet receives nothing\n";
    // One unacknowledged message fills a session's limit.
    play_with(&text, |settings| settings.unacked_max = 1);
}
