//! Absent members of rooms are woken as their bookmarks say (XEP-0357, XEP-0492).

use throng_sim::stage;
use throng_sim::world::Pace;

use crate::rooms::refused;

const MUC: &str = "http://jabber.org/protocol/muc";
const CAVE: &str = "cave@conference.localhost";

fn play(text: &str) {
    for (seed, shards) in [(1, 1), (2, 3)] {
        if let Err(error) = stage::play(text, seed, shards, Pace::default(), |_| {}) {
            panic!("{shards} shards: {error}");
        }
    }
}

fn romeo_enters() -> String {
    format!(
        "romeo sends: <presence to='{CAVE}/romeo'><x xmlns='{MUC}'><history maxstanzas='0'/></x></presence>
romeo receives: <presence from='{CAVE}/romeo' to='romeo@localhost/r'>{{any}}</presence>
romeo receives: <message type='groupchat' from='{CAVE}' to='romeo@localhost/r'>{{any}}</message>
"
    )
}

/// Romeo owns a room, Juliet is a member of it with this setting and a phone that the nurse's
/// client wakes. Juliet has gone.
fn sleeps(setting: &str) -> String {
    let mut text = "clients: romeo=romeo/r juliet=juliet/j nurse=nurse/n
romeo connects
juliet connects
nurse connects
"
    .to_owned();
    text += &romeo_enters();
    text += &format!(
        "romeo sends: <iq type='set' id='c' to='{CAVE}'><query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>
romeo receives: <iq type='result' id='c' from='{CAVE}' to='romeo@localhost/r'/>
romeo sends: <iq type='set' id='m' to='{CAVE}'><query xmlns='{MUC}#admin'><item jid='juliet@localhost' affiliation='member'/></query></iq>
romeo receives: <iq type='result' id='m' from='{CAVE}' to='romeo@localhost/r'/>
juliet sends: <iq type='set' id='e'><enable xmlns='urn:xmpp:push:0' jid='nurse@localhost/n' node='x'/></iq>
juliet receives: <iq type='result' id='e' to='juliet@localhost/j'/>
{}juliet disconnects
",
        bookmark(setting)
    );
    text
}

fn bookmark(setting: &str) -> String {
    format!(
        "juliet sends: <iq type='set' id='b'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:xmpp:bookmarks:1'><item id='{CAVE}'>
    <conference xmlns='urn:xmpp:bookmarks:1' autojoin='true'><nick>Capulet</nick><extensions><notify xmlns='urn:xmpp:notification-settings:1'>{setting}</notify></extensions></conference></item></publish></pubsub></iq>
juliet receives: <iq type='result' id='b' to='juliet@localhost/j'>{{any}}</iq>
"
    )
}

fn says(body: &str) -> String {
    format!(
        "romeo sends: <message type='groupchat' id='s' to='{CAVE}'>{body}</message>
romeo receives: <message type='groupchat' id='s' from='{CAVE}/romeo' to='romeo@localhost/r'>{{any}}</message>
"
    )
}

const WOKEN: &str = "nurse receives: <iq type='set' id='{=push}' from='localhost' to='nurse@localhost/n'>{any}</iq>
nurse sends: <iq type='result' id='{push}' to='localhost'/>
";
const QUIET: &str = "nurse receives nothing\n";

/// XEP-0492 3.1: by the nick of the bookmark, and by XEP-0372. The next one follows after a minute.
#[test]
fn a_member_is_woken_when_mentioned() {
    let reference = "<reference xmlns='urn:xmpp:reference:0' type='mention' uri='xmpp:juliet@localhost'/>";
    let mut text = sleeps("<on-mention/>");
    text += &says("<body>Ay me</body>");
    text += QUIET;
    text += &says("<body>capulet, come</body>");
    text += WOKEN;
    text += &says("<body>capulet!</body>");
    text += QUIET;
    text += "time passes: 70000 ms\n";
    text += &says(&format!("<body>you</body>{reference}"));
    text += WOKEN;
    play(&text);
}

/// XEP-0492 3.2: of the settings the one for phones counts. Another one wakes nobody.
#[test]
fn the_most_specific_setting_counts() {
    for (setting, woken) in [
        ("<always/>", true),
        ("<never/><always identity-category='client' identity-type='phone'/>", true),
        ("<always/><never identity-category='client'/>", false),
        ("<always identity-category='gateway'/>", false),
        ("<never/>", false),
        ("", false),
    ] {
        let mut text = sleeps(setting);
        text += &says("<body>Ay me</body>");
        text += if woken { WOKEN } else { QUIET };
        // Nothing to be read.
        text += "time passes: 70000 ms\n";
        text += &says("<active xmlns='http://jabber.org/protocol/chatstates'/>");
        text += QUIET;
        play(&text);
    }
}

/// The setting outlives a crash. It ends with the bookmark, and with the membership.
#[test]
fn a_setting_lasts_as_long_as_bookmark_and_membership() {
    let ends = [
        format!(
            "romeo sends: <iq type='set' id='n' to='{CAVE}'><query xmlns='{MUC}#admin'><item jid='juliet@localhost' affiliation='none'/></query></iq>
romeo receives: <iq type='result' id='n' from='{CAVE}' to='romeo@localhost/r'/>
"
        ),
        format!(
            "juliet connects
juliet sends: <iq type='set' id='r'><pubsub xmlns='http://jabber.org/protocol/pubsub'><retract node='urn:xmpp:bookmarks:1'><item id='{CAVE}'/></retract></pubsub></iq>
juliet receives: <iq type='result' id='r' to='juliet@localhost/j'/>
juliet disconnects
"
        ),
    ];
    for end in ends {
        let mut text = sleeps("<always/>");
        text += "the server dies\nromeo connects\nnurse connects\n";
        text += &romeo_enters();
        text += &says("<body>Ay me</body>");
        text += WOKEN;
        text += &end;
        text += "time passes: 70000 ms\n";
        text += &says("<body>Ay me</body>");
        text += QUIET;
        play(&text);
    }
}

/// Only the home of a user sets for which messages the user is woken. A client that says so itself, in
/// any kind of stanza, changes nothing, for itself or others.
#[test]
fn a_setting_cannot_be_forged() {
    let alert = "<alert xmlns='urn:throng:rooms:alert' when='always' nick='capulet'/>";
    let mut text = sleeps("<on-mention/>");
    for to in [CAVE.to_owned(), format!("{CAVE}/romeo")] {
        for kind in ["result", "error"] {
            text += &format!("romeo sends: <iq type='{kind}' id='x' to='{to}'>{alert}</iq>\n");
        }
    }
    text += &format!("romeo sends: <message id='d' to='{CAVE}'>{alert}</message>\n");
    text += &refused("romeo", "r", "message", "d", "modify", "bad-request");
    for body in ["", "<body>Ay me</body>"] {
        text += &says(&format!("{alert}{body}"));
        text += QUIET;
    }
    text += "time passes: 70000 ms\n";
    text += &says("<body>Ay me</body>");
    text += QUIET;
    text += &says("<body>capulet, come</body>");
    text += WOKEN;
    play(&text);
}

/// A stranger's setting is not kept: nobody reads the messages of a members-only room by push.
#[test]
fn a_stranger_is_not_woken() {
    let mut text = sleeps("<always/>").replace("affiliation='member'", "affiliation='none'");
    text += &says("<body>Ay me</body>");
    text += QUIET;
    play(&text);
}

/// Nobody is woken for what it gets anyway.
#[test]
fn a_member_in_the_room_is_not_woken() {
    let mut text = sleeps("<always/>");
    text += &format!(
        "juliet connects
juliet sends: <presence to='{CAVE}/juliet'><x xmlns='{MUC}'/></presence>
juliet receives: <presence from='{CAVE}/romeo' to='juliet@localhost/j'>{{any}}</presence>
juliet receives: <presence from='{CAVE}/juliet' to='juliet@localhost/j'>{{any}}</presence>
juliet receives: <message type='groupchat' from='{CAVE}' to='juliet@localhost/j'>{{any}}</message>
romeo receives: <presence from='{CAVE}/juliet' to='romeo@localhost/r'>{{any}}</presence>
"
    );
    text += &says("<body>Ay me</body>");
    text += QUIET;
    text += &format!(
        "juliet receives: <message type='groupchat' id='s' from='{CAVE}/romeo' to='juliet@localhost/j'>{{any}}</message>
juliet disconnects
romeo receives: <presence type='unavailable' from='{CAVE}/juliet' to='romeo@localhost/r'>{{any}}</presence>
"
    );
    text += &says("<body>Ay me</body>");
    text += WOKEN;
    play(&text);
}
