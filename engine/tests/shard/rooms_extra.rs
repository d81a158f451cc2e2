//! What a room has beside XEP-0045: hats (XEP-0317), an avatar (XEP-0486), mentions (XEP-0452) and an
//! estimate of its activity (XEP-0502).

use throng_engine::id::ConnId;
use throng_engine::io::Input;
use throng_engine::settings::Settings;
use throng_sim::host::{Host, said};

use crate::rooms::{MUC, enters, play, refused, room, sees};

const HOST: &str = "http://schemas.example.com/hats#host";

/// A command (XEP-0050) with a submitted form, or without one.
fn command(who: &str, id: &str, node: &str, fields: &[(&str, &str)]) -> String {
    let fields: String =
        fields.iter().map(|(var, value)| format!("<field var='hats#{var}'><value>{value}</value></field>")).collect();
    let form = match fields.is_empty() {
        true => String::new(),
        false => format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:hats:commands</value></field>{fields}</x>"
        ),
    };
    format!(
        "{who} sends: <iq type='set' id='{id}' to='cave@conference.localhost'><command xmlns='http://jabber.org/protocol/commands' action='execute' node='urn:xmpp:hats:commands:{node}'>{form}</command></iq>\n"
    )
}

fn completed(who: &str, resource: &str, id: &str, node: &str, payload: &str) -> String {
    format!(
        "{who} receives: <iq type='result' id='{id}' from='cave@conference.localhost' to='{who}@localhost/{resource}'>
    <command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:hats:commands:{node}' sessionid='{{any}}' status='completed'>{payload}</command></iq>\n"
    )
}

fn configured(whom: &[(&str, &str)]) -> String {
    let each = whom.iter().map(|(who, resource)| {
        format!(
            "{who} receives: <message type='groupchat' from='cave@conference.localhost' to='{who}@localhost/{resource}'><x xmlns='{MUC}#user'><status code='104'/></x></message>\n"
        )
    });
    each.collect()
}

fn member(who: &str) -> String {
    format!(
        "romeo sends: <iq type='set' id='m' to='cave@conference.localhost'><query xmlns='{MUC}#admin'><item jid='{who}@localhost' affiliation='member'/></query></iq>\n"
    )
}

fn done(who: &str, resource: &str, id: &str) -> String {
    format!(
        "{who} receives: <iq type='result' id='{id}' from='cave@conference.localhost' to='{who}@localhost/{resource}'/>\n"
    )
}

/// XEP-0317 3: an admin creates a hat and gives it to a member; all see it in presence, until the
/// member is none any more. A hat that a client puts on itself is removed.
#[test]
fn hats_are_given_by_admins() {
    let everybody = [("romeo", "r"), ("juliet", "j")];
    let mut text = room(&[("persistentroom", "1")]);
    text += &enters("juliet", "j", &["romeo"]);
    text += &sees("romeo", "r", "juliet");
    text += &command("romeo", "1", "create", &[("title", "Host"), ("uri", HOST), ("hue", "327.25")]);
    text += &configured(&everybody);
    text += &completed("romeo", "r", "1", "create", "");
    // Only users with an affiliation wear hats: the next user of a removed account's name has none.
    text += &command("romeo", "2", "assign", &[("jid", "juliet@localhost"), ("uri", HOST)]);
    text += &refused("romeo", "r", "iq", "2", "cancel", "item-not-found");
    text += &member("juliet");
    for (who, resource) in everybody {
        text += &sees(who, resource, "juliet");
    }
    text += &done("romeo", "r", "m");
    text += &command("romeo", "3", "assign", &[("jid", "juliet@localhost"), ("uri", HOST)]);
    let worn = |who: &str, resource: &str| {
        let own = if who == "juliet" { "<status code='110'/>" } else { "" };
        format!(
            "{who} receives: <presence from='cave@conference.localhost/juliet' to='{who}@localhost/{resource}'><x xmlns='{MUC}#user'><item affiliation='member' role='participant' jid='juliet@localhost/j'/>{own}</x>
    <occupant-id xmlns='urn:xmpp:occupant-id:0' id='{{any}}'/><hats xmlns='urn:xmpp:hats:0'><hat title='Host' uri='{HOST}' hue='327.25'/></hats></presence>\n"
        )
    };
    for (who, resource) in everybody {
        text += &worn(who, resource);
    }
    text += &completed("romeo", "r", "3", "assign", "");
    // XEP-0317: a client cannot give itself another one.
    text += "juliet sends: <presence to='cave@conference.localhost/juliet'><hats xmlns='urn:xmpp:hats:0'><hat title='King' uri='urn:king'/></hats></presence>\n";
    for (who, resource) in everybody {
        text += &worn(who, resource);
    }
    text += &command("juliet", "4", "assign", &[("jid", "juliet@localhost"), ("uri", HOST)]);
    text += &refused("juliet", "j", "iq", "4", "auth", "forbidden");
    text += &command("juliet", "5", "list-assigned", &[]);
    text += &refused("juliet", "j", "iq", "5", "auth", "forbidden");
    let hat = format!(
        "<field var='hats#title'><value>Host</value></field><field var='hats#uri'><value>{HOST}</value></field><field var='hats#hue'><value>327.25</value></field>"
    );
    let (title, uri, hue) = ("<field var='hats#title'/>", "<field var='hats#uri'/>", "<field var='hats#hue'/>");
    text += &command("juliet", "6", "list", &[]);
    text += &completed(
        "juliet",
        "j",
        "6",
        "list",
        &format!(
            "<x xmlns='jabber:x:data' type='result'><title>Hats List</title><reported>{title}{uri}{hue}</reported><item>{hat}</item></x>"
        ),
    );
    // They are stored with the room.
    text += "juliet sends: <presence type='unavailable' to='cave@conference.localhost/juliet'/>
juliet receives: <presence type='unavailable' from='cave@conference.localhost/juliet' to='juliet@localhost/j'>{any}</presence>
romeo receives: <presence type='unavailable' from='cave@conference.localhost/juliet' to='romeo@localhost/r'>{any}</presence>
romeo sends: <presence type='unavailable' to='cave@conference.localhost/romeo'/>
romeo receives: <presence type='unavailable' from='cave@conference.localhost/romeo' to='romeo@localhost/r'>{any}</presence>
time passes: 120000 ms\n";
    text += &enters("romeo", "r", &[]);
    text += &command("romeo", "7", "list-assigned", &[]);
    text += &completed(
        "romeo",
        "r",
        "7",
        "list-assigned",
        &format!(
            "<x xmlns='jabber:x:data' type='result'><title>Assigned Hats List</title><reported><field var='hats#jid'/>{title}{uri}{hue}</reported><item><field var='hats#jid'><value>juliet@localhost</value></field>{hat}</item></x>"
        ),
    );
    text += &format!(
        "romeo sends: <iq type='set' id='n' to='cave@conference.localhost'><query xmlns='{MUC}#admin'><item jid='juliet@localhost' affiliation='none'/></query></iq>\n"
    );
    text += &done("romeo", "r", "n");
    text += &command("romeo", "8", "unassign", &[("jid", "juliet@localhost"), ("uri", HOST)]);
    text += &refused("romeo", "r", "iq", "8", "cancel", "item-not-found");
    text += &command("romeo", "9", "destroy", &[("uri", HOST)]);
    text += &configured(&[("romeo", "r")]);
    text += &completed("romeo", "r", "9", "destroy", "");
    text += &command("romeo", "10", "destroy", &[("uri", HOST)]);
    text += &refused("romeo", "r", "iq", "10", "cancel", "item-not-found");
    play(&text);
}

/// Hats are part of each presence: a user has five of them at most, and their texts are short.
#[test]
fn hats_are_few_and_small() {
    let mut text = room(&[]);
    text += &command("romeo", "1", "create", &[("title", &"x".repeat(257)), ("uri", HOST)]);
    text += &refused("romeo", "r", "iq", "1", "modify", "not-acceptable");
    for hue in ["red", "361", "-1", "1.00000000000000000"] {
        text += &command("romeo", "2", "create", &[("title", "Host"), ("uri", HOST), ("hue", hue)]);
        text += &refused("romeo", "r", "iq", "2", "modify", "not-acceptable");
    }
    text += &member("juliet");
    text += &done("romeo", "r", "m");
    for n in 0..6 {
        let uri = format!("urn:hat:{n}");
        text += &command("romeo", "c", "create", &[("title", "Hat"), ("uri", &uri)]);
        text += &configured(&[("romeo", "r")]);
        text += &completed("romeo", "r", "c", "create", "");
        text += &command("romeo", "a", "assign", &[("jid", "juliet@localhost"), ("uri", &uri)]);
        text += &match n {
            5 => "romeo receives: <iq type='error' id='a' from='cave@conference.localhost' to='romeo@localhost/r'>
    <error type='modify'><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>{any}</text></error></iq>\n".to_owned(),
            _ => completed("romeo", "r", "a", "assign", ""),
        };
    }
    play(&text);
}

/// XEP-0486 3: an owner sets the avatar, all find its hash and its card, an outcast does not, and it
/// is there when the room comes back into memory.
#[test]
fn an_avatar_is_set_by_an_owner() {
    let card = "<vCard xmlns='vcard-temp'><PHOTO><TYPE>image/svg+xml</TYPE><BINVAL>PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSIzMiIgaGVpZ2h0PSIzMiI+CiA8cmVjdCB4PSIwIiB5PSIwIiB3aWR0aD0iMzIiIGhlaWdodD0iMzIiIGZpbGw9InJlZCIvPgo8L3N2Zz4K</BINVAL></PHOTO></vCard>";
    let set = |who: &str, id: &str, card: &str| {
        format!("{who} sends: <iq type='set' id='{id}' to='cave@conference.localhost'>{card}</iq>\n")
    };
    let get = |who: &str, resource: &str, id: &str, card: &str| {
        format!(
            "{who} sends: <iq type='get' id='{id}' to='cave@conference.localhost'><vCard xmlns='vcard-temp'/></iq>
{who} receives: <iq type='result' id='{id}' from='cave@conference.localhost' to='{who}@localhost/{resource}'>{card}</iq>\n"
        )
    };
    let mut text = room(&[("persistentroom", "1")]);
    text += &get("juliet", "j", "0", "<vCard xmlns='vcard-temp'/>");
    text += &set("juliet", "1", card);
    text += &refused("juliet", "j", "iq", "1", "auth", "forbidden");
    text += &set("romeo", "2", card);
    text += &configured(&[("romeo", "r")]);
    text += &done("romeo", "r", "2");
    text += &set("romeo", "3", "<vCard xmlns='vcard-temp'><PHOTO><BINVAL>not base64!</BINVAL></PHOTO></vCard>");
    text += &refused("romeo", "r", "iq", "3", "modify", "not-acceptable");
    text += "romeo sends: <presence type='unavailable' to='cave@conference.localhost/romeo'/>
romeo receives: <presence type='unavailable' from='cave@conference.localhost/romeo' to='romeo@localhost/r'>{any}</presence>
time passes: 120000 ms\n";
    text += &get("juliet", "j", "4", card);
    text += &format!(
        "romeo sends: <iq type='set' id='b' to='cave@conference.localhost'><query xmlns='{MUC}#admin'><item jid='nurse@localhost' affiliation='outcast'/></query></iq>\n"
    );
    text += &done("romeo", "r", "b");
    text += "nurse sends: <iq type='get' id='5' to='cave@conference.localhost'><vCard xmlns='vcard-temp'/></iq>\n";
    text += &refused("nurse", "n", "iq", "5", "auth", "forbidden");
    text += &set("romeo", "6", "<vCard xmlns='vcard-temp'/>");
    text += &done("romeo", "r", "6");
    text += &get("juliet", "j", "7", "<vCard xmlns='vcard-temp'/>");
    let large = format!("<vCard xmlns='vcard-temp'><NOTE>{}</NOTE></vCard>", "x".repeat(65_536));
    text += &set("romeo", "8", &large);
    text += "romeo receives: <iq type='error' id='8' from='cave@conference.localhost' to='romeo@localhost/r'>
    <error type='modify'><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>{any}</text></error></iq>\n";
    play(&text);
}

/// XEP-0452 3: a message is forwarded to those whom it mentions, if the room is configured so, they
/// have registered, and they are absent. Others cannot be reached through the room.
#[test]
fn absent_members_are_told_that_they_are_mentioned() {
    let mut text = room(&[("forwardmentions", "1")]);
    text += &format!(
        "juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/j' to='juliet@localhost'/>
nurse sends: <presence/>
nurse receives: <presence from='nurse@localhost/n' to='nurse@localhost'/>
juliet sends: <iq type='set' id='s' to='cave@conference.localhost'><query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MUC}#register</value></field><field var='muc#register_roomnick'><value>capulet</value></field></x></query></iq>\n"
    );
    text += &done("juliet", "j", "s");
    let says = |id: &str, uris: &[&str]| -> String {
        let references: String = uris
            .iter()
            .map(|uri| format!("<reference xmlns='urn:xmpp:reference:0' type='mention' uri='{uri}'/>"))
            .collect();
        format!(
            "romeo sends: <message type='groupchat' id='{id}' to='cave@conference.localhost'><body>Hark</body>{references}</message>
romeo receives: <message type='groupchat' id='{id}' from='cave@conference.localhost/romeo' to='romeo@localhost/r'>{{any}}</message>\n"
        )
    };
    let told = |id: &str, uri: &str, times: usize| {
        let references = format!("<reference xmlns='urn:xmpp:reference:0' type='mention' uri='{uri}'/>").repeat(times);
        format!(
            "juliet receives: <message from='cave@conference.localhost' to='juliet@localhost'><mentions xmlns='urn:xmpp:mmn:0'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='{{any}}'/>
    <message xmlns='jabber:client' type='groupchat' id='{id}' from='cave@conference.localhost/romeo' to='cave@conference.localhost'><body>Hark</body>{references}<occupant-id xmlns='urn:xmpp:occupant-id:0' id='{{any}}'/></message></forwarded></mentions></message>\n"
        )
    };
    // By JID and by nick; twice in one message is once.
    text += &says("1", &["xmpp:juliet@localhost", "xmpp:juliet@localhost"]);
    text += &told("1", "xmpp:juliet@localhost", 2);
    text += &says("2", &["xmpp:cave@conference.localhost/capulet"]);
    text += &told("2", "xmpp:cave@conference.localhost/capulet", 1);
    // The nurse has not agreed.
    text += &says("3", &["xmpp:nurse@localhost", "xmpp:cave@conference.localhost/nobody", "mailto:juliet@localhost"]);
    text += "nurse receives nothing\njuliet receives nothing\n";
    // One who is there has the message.
    text += "juliet sends: <presence to='cave@conference.localhost/capulet'><x xmlns='http://jabber.org/protocol/muc'/></presence>
juliet receives: <presence from='cave@conference.localhost/romeo' to='juliet@localhost/j'>{any}</presence>
juliet receives: <presence from='cave@conference.localhost/capulet' to='juliet@localhost/j'>{any}</presence>
romeo receives: <presence from='cave@conference.localhost/capulet' to='romeo@localhost/r'>{any}</presence>\n";
    for _ in 0..3 {
        text += "juliet receives: <message type='groupchat' id='{any}' from='cave@conference.localhost/romeo' to='juliet@localhost/j'>{any}</message>\n";
    }
    text += "juliet receives: <message type='groupchat' from='cave@conference.localhost' to='juliet@localhost/j'>{any}</message>\n";
    text += &says("4", &["xmpp:juliet@localhost"]);
    text += "juliet receives: <message type='groupchat' id='4' from='cave@conference.localhost/romeo' to='juliet@localhost/j'>{any}</message>
juliet receives nothing\n";
    play(&text);
}

/// XEP-0452 3.1: off by default.
#[test]
fn a_room_forwards_no_mentions_unless_it_is_told_to() {
    let mut text = room(&[]);
    text += &format!(
        "juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/j' to='juliet@localhost'/>
juliet sends: <iq type='set' id='s' to='cave@conference.localhost'><query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MUC}#register</value></field><field var='muc#register_roomnick'><value>capulet</value></field></x></query></iq>\n"
    );
    text += &done("juliet", "j", "s");
    text += "romeo sends: <message type='groupchat' id='1' to='cave@conference.localhost'><body>Hark</body><reference xmlns='urn:xmpp:reference:0' type='mention' uri='xmpp:juliet@localhost'/></message>
romeo receives: <message type='groupchat' id='1' from='cave@conference.localhost/romeo' to='romeo@localhost/r'>{any}</message>
juliet receives nothing\n";
    play(&text);
}

/// A room with one user, who owns it, at one shard.
struct Solo {
    host: Host,
    romeo: ConnId,
}

impl Solo {
    fn new(config: &[(&str, &str)]) -> Solo {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settings.serve_rooms("conference.localhost");
        let mut host = Host::new(settings);
        host.account("romeo");
        let (romeo, _) = host.bind(0, "romeo");
        let mut solo = Solo { host, romeo };
        solo.says(&format!("<presence to='cave@conference.localhost/romeo'><x xmlns='{MUC}'/></presence>"));
        let fields = config
            .iter()
            .map(|(var, value)| format!("<field var='muc#roomconfig_{var}'><value>{value}</value></field>"));
        let fields: String = fields.collect();
        solo.says(&format!("<iq type='set' id='c' to='cave@conference.localhost'><query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'>{fields}</x></query></iq>"));
        solo
    }

    fn says(&mut self, text: &str) -> String {
        said(&self.host.ask(self.romeo, text))
    }

    fn info(&mut self) -> String {
        self.says("<iq type='get' id='d' to='cave@conference.localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>")
    }

    /// The room goes from memory.
    fn leaves(&mut self) {
        self.says("<presence type='unavailable' to='cave@conference.localhost/romeo'/>");
        for _ in 0..2 {
            self.host.now.mono_ms += 60_000;
            self.host.now.pass_wall(60_000_000);
            self.host.turn(Input::Held { since_s: None, many: false });
        }
        assert_eq!(self.host.shard.counters().rooms.get(), 0, "the room is in memory");
    }
}

/// XEP-0486 3.3: the room's information has the hashes of all images in its card, and none without.
#[test]
fn the_hashes_of_an_avatar_are_in_the_rooms_information() {
    let mut solo = Solo::new(&[("persistentroom", "1")]);
    assert!(!solo.info().contains("avatarhash"));
    let svg = "<PHOTO><TYPE>image/svg+xml</TYPE><BINVAL>PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSIzMiIgaGVpZ2h0PSIzMiI+CiA8cmVjdCB4PSIwIiB5PSIwIiB3aWR0aD0iMzIiIGhlaWdodD0iMzIiIGZpbGw9InJlZCIvPgo8L3N2Zz4K</BINVAL></PHOTO>";
    let png = "<PHOTO><TYPE>image/png</TYPE><BINVAL>AAAA</BINVAL></PHOTO>";
    solo.says(&format!(
        "<iq type='set' id='a' to='cave@conference.localhost'><vCard xmlns='vcard-temp'>{svg}{png}</vCard></iq>"
    ));
    // The first hash is that of the example in the text.
    let hashes = "<value>a31c4bd04de69663cfd7f424a8453f4674da37ff</value><value>29e2dcfbb16f63bb0254df7585a15bb6fb5e927d</value></field>";
    for _ in 0..2 {
        let info = solo.info();
        assert!(info.contains("var='muc#roominfo_avatarhash'") && info.contains(hashes), "{info}");
        solo.leaves();
    }
    solo.says("<iq type='set' id='a' to='cave@conference.localhost'><vCard xmlns='vcard-temp'/></iq>");
    assert!(!solo.info().contains("avatarhash"));
}

/// XEP-0317 2: the hash of the list of hats changes with the list.
#[test]
fn the_hash_of_the_hats_changes_with_them() {
    let mut solo = Solo::new(&[]);
    let info = solo.info();
    assert!(info.contains("<feature var='urn:xmpp:hats:0'/>") && !info.contains("hats#hash"), "{info}");
    let mut seen = Vec::new();
    for uri in ["urn:one", "urn:two"] {
        solo.says(&command("", "c", "create", &[("title", "Hat"), ("uri", uri)]).replace(" sends: ", ""));
        let info = solo.info();
        let (_, hash) = info.split_once("hats#hash").expect("a hash");
        seen.push(hash.split_once("<value>").expect("its value").1[..40].to_owned());
    }
    assert_ne!(seen[0], seen[1]);
}

/// XEP-0502 3, 8: an open, persistent room has its messages per hour in its information, also after it
/// was read again; others do not.
#[test]
fn an_open_room_shows_its_activity() {
    let label = "message-activity' type='text-single' label='Messages per hour'><value>";
    for config in [
        [("persistentroom", "1"), ("publicroom", "1")],
        [("persistentroom", "1"), ("publicroom", "0")],
        [("persistentroom", "0"), ("publicroom", "1")],
        [("persistentroom", "1"), ("membersonly", "1")],
    ] {
        let mut solo = Solo::new(&config);
        for n in 0..12 {
            solo.says(&format!("<message type='groupchat' to='cave@conference.localhost'><body>{n}</body></message>"));
        }
        // Neither a correction (XEP-0308) nor what has no body counts.
        solo.says("<message type='groupchat' to='cave@conference.localhost'><body>x</body><replace xmlns='urn:xmpp:message-correct:0' id='y'/></message>");
        solo.says("<message type='groupchat' to='cave@conference.localhost'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>");
        let open = config == [("persistentroom", "1"), ("publicroom", "1")];
        let info = solo.info();
        assert_eq!(info.contains(&format!("{label}0.50<")), open, "{config:?}: {info}");
        assert_eq!(info.contains("message-activity"), open, "{config:?}: {info}");
        if open {
            solo.leaves();
            let info = solo.info();
            assert!(info.contains(&format!("{label}0.50<")), "{info}");
        }
    }
}
