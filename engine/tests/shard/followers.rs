//! Every session that takes a user's messages follows the user's log at its own pace: messages from
//! others never end it or skip it, and a session that is temporarily blocked delays none of the
//! others.

use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::script::{Player, Script};
use throng_sim::stage::{self, Stage};
use throng_sim::world::{PASSWORD, Pace};

fn play(text: &str, settle: impl Fn(&mut Settings)) {
    for (seed, shards) in [(1, 1), (2, 3)] {
        if let Err(error) = stage::play(text, seed, shards, Pace::default(), &settle) {
            panic!("{shards} shards: {error}");
        }
    }
}

const TWO: &str = "
clients: romeo=romeo/orchard slow=juliet/slow quick=juliet/quick
romeo connects
slow connects
slow sends: <presence/>
slow receives: <presence from='juliet@localhost/slow' to='juliet@localhost'/>
slow sends: <enable xmlns='urn:xmpp:sm:3'/>
slow receives: <enabled xmlns='urn:xmpp:sm:3'/>
quick connects
quick sends: <presence/>
quick ignores what comes
slow ignores what comes
slow sends: <a xmlns='urn:xmpp:sm:3' h='1'/>
";

fn says(body: &str, to: &str) -> String {
    format!("romeo sends: <message to='{to}' type='chat'><body>{body}</body></message>\n")
}

fn hears(who: &str, body: &str, to: &str) -> String {
    format!(
        "{who} receives: <message from='romeo@localhost/orchard' to='{to}' type='chat'><body>{body}</body></message>\n"
    )
}

/// Once, a session that was behind when another one took a message never got it.
#[test]
fn each_of_several_sessions_gets_each_message_once_and_in_order() {
    let mut text = TWO.to_owned();
    let bare = "juliet@localhost";
    for body in ["1", "2", "3"] {
        text += &says(body, bare);
        text += &hears("quick", body, bare);
    }
    text += &hears("slow", "1", bare);
    text += "slow receives nothing\n";
    for (body, h) in [("2", 2), ("3", 3)] {
        text += &format!("slow sends: <a xmlns='urn:xmpp:sm:3' h='{h}'/>\n");
        text += &hears("slow", body, bare);
        text += "slow receives nothing\n";
    }
    text += "slow sends: <a xmlns='urn:xmpp:sm:3' h='4'/>\n";
    text += &says("4", bare);
    text += &hears("slow", "4", bare);
    text += &hears("quick", "4", bare);
    text += "quick receives nothing\nslow receives nothing\n";
    for archive in [true, false] {
        // One unacknowledged message fills a session's limit.
        play(&text, |s| (s.unacked_max, s.archive) = (1, archive));
    }
}

/// RFC 6121 8.5.3.1: once, it went to all sessions when the addressed one was behind.
#[test]
fn a_message_for_a_session_that_is_behind_is_for_it_alone() {
    let mut text = TWO.to_owned();
    let (bare, full) = ("juliet@localhost", "juliet@localhost/slow");
    text += &says("1", bare);
    text += &hears("quick", "1", bare);
    text += &hears("slow", "1", bare);
    text += &says("2", full);
    text += &says("3", bare);
    text += &hears("quick", "3", bare);
    text += "slow receives nothing\nslow sends: <a xmlns='urn:xmpp:sm:3' h='2'/>\n";
    text += &hears("slow", "2", full);
    text += "slow sends: <a xmlns='urn:xmpp:sm:3' h='3'/>\n";
    text += &hears("slow", "3", bare);
    text += "slow receives nothing\n";
    for archive in [true, false] {
        play(&text, |s| (s.unacked_max, s.archive) = (1, archive));
    }
}

/// A message for a session that ended without it goes to the others, even if they have advanced.
#[test]
fn a_message_for_a_session_that_has_gone_comes_to_another() {
    let mut text = TWO.to_owned();
    let (bare, full) = ("juliet@localhost", "juliet@localhost/slow");
    text += &says("1", full);
    text += &hears("slow", "1", full);
    text += &says("2", full);
    text += &says("3", bare);
    text += &hears("quick", "3", bare);
    text += "time passes: 1500 ms\nslow aborts\n";
    text += "quick receives: <presence from='juliet@localhost/slow' to='juliet@localhost' type='unavailable'/>\n";
    for body in ["1", "2"] {
        text += &format!(
            "quick receives: <message from='romeo@localhost/orchard' to='{full}' type='chat'><body>{body}</body>
    <delay xmlns='urn:xmpp:delay' from='localhost' stamp='{{any}}'/></message>\n"
        );
    }
    text += "quick receives nothing\n";
    for archive in [true, false] {
        play(&text, |s| (s.unacked_max, s.archive) = (1, archive));
    }
}

/// Once, six headlines of 250 KB ended a session that acknowledged each, but some time later.
#[test]
fn headlines_end_no_session() {
    let headline = "x".repeat(250_000);
    let mut text = "
clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
juliet connects
juliet enables
juliet sends: <presence/>
juliet ignores what comes
"
    .to_owned();
    for _ in 0..6 {
        text +=
            &format!("romeo sends: <message to='juliet@localhost' type='headline'><body>{headline}</body></message>\n");
    }
    text += &format!(
        "juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='headline'>
    <body>{headline}</body></message>\njuliet receives nothing\n"
    );
    text += &says("still there?", "juliet@localhost");
    text += "juliet receives nothing\njuliet sends: <a xmlns='urn:xmpp:sm:3' h='2'/>\n";
    text += &hears("juliet", "still there?", "juliet@localhost");
    play(&text, |_| {});
}

/// Once, with more than 999 of them the rest waited for the next login.
#[test]
fn however_many_a_session_leaves_behind_the_next_one_gets_all() {
    const MANY: usize = 1_100;
    let mut text = "
clients: romeo=romeo/orchard gone=juliet/gone next=juliet/next
romeo connects
gone connects
gone sends: <enable xmlns='urn:xmpp:sm:3'/>
gone receives: <enabled xmlns='urn:xmpp:sm:3'/>
"
    .to_owned();
    (0..MANY).for_each(|n| text += &says(&n.to_string(), "juliet@localhost/gone"));
    text += "gone ignores what comes\ngone aborts\ntime passes: 3000 ms\nnext connects\nnext sends: <presence/>\n";
    text += "next receives: <presence from='juliet@localhost/next' to='juliet@localhost'/>\n";
    for n in 0..MANY {
        text += &format!(
            "next receives: <message from='romeo@localhost/orchard' to='juliet@localhost/gone' type='chat'><body>{n}</body>
    <delay xmlns='urn:xmpp:delay' from='localhost' stamp='{{any}}'/></message>\n"
        );
    }
    text += "next receives nothing\n";
    play(&text, |s| s.unacked_max = 2 * MANY);
}

/// XEP-0334 4.1: a message that is not to be stored permanently is gone once it is delivered, live
/// or later.
#[test]
fn what_is_not_to_stay_does_not() {
    let hint = "<no-permanent-store xmlns='urn:xmpp:hints'/>";
    let text = format!(
        "
clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
romeo sends: <message to='juliet@localhost' type='chat'><body>away</body>{hint}</message>
juliet connects
juliet sends: <presence/>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'/>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>away</body>{hint}
    <delay xmlns='urn:xmpp:delay' from='localhost' stamp='{{any}}'/></message>
romeo sends: <message to='juliet@localhost' type='chat'><body>live</body>{hint}</message>
juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>live</body>{hint}</message>
time passes: 5000 ms
"
    );
    let script = Script::parse(&text).unwrap();
    let mut stage = Stage::new(1, Settings::new("localhost", 2, [0; 32], 0), Pace::default(), &script);
    script.play(&mut stage, "localhost", PASSWORD).unwrap();
    for user in ["romeo@localhost", "juliet@localhost"] {
        let rows = |table| stage.world.disk.rows_of(table, user).filter(|(sort, _)| !sort.is_empty()).count();
        assert_eq!((rows(Table::Archive), rows(Table::Waiting)), (0, 0), "{user}");
    }
}

/// Once, a message refused by its receiver's home was in its sender's archive as sent.
#[test]
fn what_is_refused_was_not_sent() {
    let text = "
clients: romeo=romeo/orchard juliet=juliet/balcony
romeo connects
romeo sends: <message to='juliet@localhost' type='chat' id='a'><body>one</body></message>
romeo sends: <message to='juliet@localhost' type='chat' id='b'><body>two</body></message>
romeo receives: <message from='juliet@localhost' to='romeo@localhost/orchard' type='error' id='b'>
    <error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
time passes: 2000 ms
";
    let script = Script::parse(text).unwrap();
    let settings = Settings { waiting_messages_max: 1, ..Settings::new("localhost", 2, [0; 32], 0) };
    let mut stage = Stage::new(1, settings, Pace::default(), &script);
    script.play(&mut stage, "localhost", PASSWORD).unwrap();
    let rows: Vec<_> = stage.world.disk.rows_of(Table::Archive, "romeo@localhost").collect();
    let void: Vec<_> = rows.iter().filter(|(_, row)| throng_engine::store::archive::is_void(row)).collect();
    let entries = rows.iter().flat_map(|(sort, row)| throng_engine::store::archive::entries(sort, row).expect("whole"));
    let stands =
        |number: u64| void.iter().all(|(sort, _)| throng_engine::store::archive::number_of(sort) != Some(number));
    let sent: Vec<String> = entries
        .filter(|(number, _)| stands(*number))
        .map(|(_, entry)| String::from_utf8_lossy(entry.xml).into_owned())
        .collect();
    assert!(sent.len() == 1 && sent[0].contains("one"), "{sent:?}");
    stage.pass(1_000);
}

/// XEP-0280 7, 8, XEP-0297 3.1: a session that was behind gets its copies late, once and in order,
/// with the times of the originals.
#[test]
fn copies_that_come_late_say_so() {
    let mut text = TWO.to_owned();
    text += "slow sends: <iq type='set' id='e'><enable xmlns='urn:xmpp:carbons:2'/></iq>
slow receives: <iq type='result' id='e' to='juliet@localhost/slow'/>
slow sends: <a xmlns='urn:xmpp:sm:3' h='2'/>
";
    let full = "juliet@localhost/quick";
    for body in ["1", "2"] {
        text += &says(body, full);
        text += &hears("quick", body, full);
    }
    text += "quick sends: <message to='romeo@localhost/orchard' type='chat'><body>3</body></message>
romeo receives: <message from='juliet@localhost/quick' to='romeo@localhost/orchard' type='chat'><body>3</body></message>
";
    let copy = |way: &str, delay: &str, from: &str, to: &str, body: &str| {
        format!(
            "slow receives: <message from='juliet@localhost' to='juliet@localhost/slow' type='chat'>
    <{way} xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>{delay}
    <message xmlns='jabber:client' from='{from}' to='{to}' type='chat'><body>{body}</body></message>
    </forwarded></{way}></message>
"
        )
    };
    let late = "<delay xmlns='urn:xmpp:delay' from='localhost' stamp='{any}'/>";
    let romeo = "romeo@localhost/orchard";
    text += &copy("received", "", romeo, full, "1");
    text += "slow receives nothing
time passes: 5000 ms
slow sends: <a xmlns='urn:xmpp:sm:3' h='3'/>
";
    text += &copy("received", late, romeo, full, "2");
    text += "slow receives nothing
slow sends: <a xmlns='urn:xmpp:sm:3' h='4'/>
";
    text += &copy("sent", late, full, romeo, "3");
    text += "slow receives nothing
slow sends: <a xmlns='urn:xmpp:sm:3' h='5'/>
slow receives nothing
";
    text += &says("4", full);
    text += &hears("quick", "4", full);
    text += &copy("received", "", romeo, full, "4");
    play(&text, |s| s.unacked_max = 1);
}
