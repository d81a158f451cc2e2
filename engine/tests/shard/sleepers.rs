//! Members of rooms who are absent: what they learn after login, and what it costs.

use throng_engine::id::ConnId;
use throng_engine::io::Effect;
use throng_engine::limits::{PACED_WAITING_MAX, ROOM_COUNTS_PAGE};
use throng_engine::settings::Settings;
use throng_engine::store::room::{self, Affiliation, Config, Position, Record, Standing, Subject};
use throng_engine::store::{Batch, Query};
use throng_sim::host::{Host, said};
use throng_sim::stage;
use throng_sim::world::{Crossing, Pace};

const MUC: &str = "http://jabber.org/protocol/muc";
const CAVE: &str = "cave@conference.localhost";

fn play(text: &str) {
    for (seed, shards, crossing) in [(1, 1, Crossing::Direct), (2, 3, Crossing::Direct), (3, 3, Crossing::Lossy)] {
        if let Err(error) = stage::play_across(text, seed, shards, Pace::default(), crossing, |_| {}) {
            panic!("{shards} shards, {crossing:?}: {error}");
        }
    }
}

/// Romeo owns a persistent room, of which Juliet is a member. She is online and not in it.
fn cave() -> String {
    format!(
        "clients: romeo=romeo/r juliet=juliet/j nurse=nurse/n
romeo connects
juliet connects
nurse connects
romeo sends: <presence to='{CAVE}/romeo'><x xmlns='{MUC}'/></presence>
romeo receives: <presence from='{CAVE}/romeo' to='romeo@localhost/r'>{{any}}</presence>
romeo receives: <message type='groupchat' from='{CAVE}' to='romeo@localhost/r'>{{any}}</message>
romeo sends: <iq type='set' id='c' to='{CAVE}'><query xmlns='{MUC}#owner'><x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>
romeo receives: <iq type='result' id='c' from='{CAVE}' to='romeo@localhost/r'/>
romeo sends: <iq type='set' id='m' to='{CAVE}'><query xmlns='{MUC}#admin'><item jid='juliet@localhost' affiliation='member'/></query></iq>
romeo receives: <iq type='result' id='m' from='{CAVE}' to='romeo@localhost/r'/>
time passes: 2000 ms
"
    )
}

/// Romeo says something. `heard` are clients in the room, with their resources.
fn says(id: &str, body: &str, heard: &[(&str, &str)]) -> String {
    let mut text = format!("romeo sends: <message type='groupchat' id='{id}' to='{CAVE}'>{body}</message>\n");
    for (who, resource) in heard {
        text += &format!(
            "{who} receives: <message type='groupchat' id='{id}' from='{CAVE}/romeo' to='{who}@localhost/{resource}'>{{any}}</message>\n"
        );
    }
    text
}

const ASKS: &str = "<iq type='get' id='i'><inbox xmlns='urn:xmpp:inbox:1'/></iq>";

/// A member asks, and is told of one room.
fn misses(who: &str, resource: &str, missed: u32, after: &str) -> String {
    let (to, unread) = (format!("{who}@localhost/{resource}"), u32::from(missed > 0));
    format!(
        "{who} sends: {ASKS}
{who} receives: <message><entry xmlns='urn:xmpp:inbox:1' jid='{CAVE}' unread='{missed}' id='{{any}}'/><left xmlns='urn:throng:rooms:0'{after} since='{{any}}'/></message>
{who} receives: <iq type='result' id='i' to='{to}'><fin xmlns='urn:xmpp:inbox:1' total='1' unread='{unread}' all-unread='{missed}' complete='true'><set xmlns='http://jabber.org/protocol/rsm'><first>{CAVE}</first><last>{CAVE}</last></set></fin></iq>
"
    )
}

const BOTH: &[(&str, &str)] = &[("romeo", "r"), ("juliet", "j")];
const ROMEO: &[(&str, &str)] = &[("romeo", "r")];

fn juliet_enters() -> String {
    format!(
        "juliet sends: <presence to='{CAVE}/juliet'><x xmlns='{MUC}'><history maxstanzas='0'/></x></presence>
juliet receives: <presence from='{CAVE}/romeo' to='juliet@localhost/j'>{{any}}</presence>
juliet receives: <presence from='{CAVE}/juliet' to='juliet@localhost/j'>{{any}}</presence>
juliet receives: <message type='groupchat' from='{CAVE}' to='juliet@localhost/j'>{{any}}</message>
romeo receives: <presence from='{CAVE}/juliet' to='romeo@localhost/r'>{{any}}</presence>
"
    )
}

fn juliet_leaves() -> String {
    format!(
        "juliet sends: <presence to='{CAVE}/juliet' type='unavailable'/>
juliet receives: <presence type='unavailable' from='{CAVE}/juliet' to='juliet@localhost/j'>{{any}}</presence>
romeo receives: <presence type='unavailable' from='{CAVE}/juliet' to='romeo@localhost/r'>{{any}}</presence>
"
    )
}

/// A member has missed what was said since it became a member, or has left. A stranger has no
/// entry. The archive continues where the member has left (XEP-0313 4.3.2).
#[test]
fn an_absent_member_learns_what_was_missed() {
    let mut text = cave();
    text += &says("1", "<body>one</body>", ROMEO);
    text += &says("2", "<body>two</body>", ROMEO);
    // Without a text it is no message to be read.
    text += &says("t", "<composing xmlns='http://jabber.org/protocol/chatstates'/>", ROMEO);
    text += &misses("juliet", "j", 2, "");
    text += &juliet_enters();
    text += &says("3", "<body>three</body>", BOTH);
    text += &misses("juliet", "j", 0, " after='{any}'");
    text += &juliet_leaves();
    text += &misses("juliet", "j", 0, " after='{=left}'");
    text += &says("4", "<body>four</body>", ROMEO);
    text += &misses("juliet", "j", 1, " after='{left}'");
    text += &format!(
        "juliet sends: <iq type='set' id='a' to='{CAVE}'><query xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'><max>20</max><after>{{left}}</after></set></query></iq>
juliet receives: <message from='{CAVE}' to='juliet@localhost/j'><result xmlns='urn:xmpp:mam:2' id='{{any}}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='{{any}}'/>
    <message xmlns='jabber:client' type='groupchat' id='4' from='{CAVE}/romeo'>{{any}}</message></forwarded></result></message>
juliet receives: <iq type='result' id='a' from='{CAVE}' to='juliet@localhost/j'><fin xmlns='urn:xmpp:mam:2' complete='true'>{{any}}</fin></iq>
nurse sends: {ASKS}
nurse receives: <iq type='result' id='i' to='nurse@localhost/n'><fin xmlns='urn:xmpp:inbox:1' total='0' unread='0' all-unread='0' complete='true'><set xmlns='http://jabber.org/protocol/rsm'/></fin></iq>
"
    );
    play(&text);
}

/// The last session that leaves counts, and an entry without anything new is left out on request.
#[test]
fn a_member_is_absent_when_its_last_session_has_left() {
    let mut text = cave().replace("nurse=nurse/n", "nurse=juliet/n");
    text += &juliet_enters();
    text += &format!(
        "nurse sends: <presence to='{CAVE}/juliet'><x xmlns='{MUC}'><history maxstanzas='0'/></x></presence>
nurse receives: <presence from='{CAVE}/romeo' to='juliet@localhost/n'>{{any}}</presence>
nurse receives: <presence from='{CAVE}/juliet' to='juliet@localhost/n'>{{any}}</presence>
nurse receives: <message type='groupchat' from='{CAVE}' to='juliet@localhost/n'>{{any}}</message>
juliet receives: <presence from='{CAVE}/juliet' to='juliet@localhost/j'>{{any}}</presence>
romeo receives: <presence from='{CAVE}/juliet' to='romeo@localhost/r'>{{any}}</presence>
juliet sends: <presence to='{CAVE}/juliet' type='unavailable'/>
juliet receives: <presence type='unavailable' from='{CAVE}/juliet' to='juliet@localhost/j'>{{any}}</presence>
romeo sends: <message type='groupchat' id='1' to='{CAVE}'><body>one</body></message>
romeo receives: <message type='groupchat' id='1' from='{CAVE}/romeo' to='romeo@localhost/r'>{{any}}</message>
nurse receives: <message type='groupchat' id='1' from='{CAVE}/romeo' to='juliet@localhost/n'>{{any}}</message>
juliet sends: <iq type='get' id='u'><inbox xmlns='urn:xmpp:inbox:1' unread-only='true'/></iq>
juliet receives: <iq type='result' id='u' to='juliet@localhost/j'><fin xmlns='urn:xmpp:inbox:1' total='1' unread='0' all-unread='0' complete='true'>{{any}}</fin></iq>
nurse disconnects
romeo receives: <presence type='unavailable' from='{CAVE}/juliet' to='romeo@localhost/r'>{{any}}</presence>
"
    );
    text += &says("2", "<body>two</body>", ROMEO);
    text += &misses("juliet", "j", 1, " after='{any}'");
    play(&text);
}

/// The counts are right when the room was not in memory, and after a crash, in which the room had
/// not written how many messages it has.
#[test]
fn counts_survive_rest_and_crash() {
    for end in
        ["time passes: 100000 ms\n", "the server dies\njuliet connects\n", "the server restarts\njuliet connects\n"]
    {
        let mut text = cave();
        for number in 0..40 {
            text += &says(&format!("m{number}"), "<body>again</body>", ROMEO);
        }
        // An empty room rests.
        text += &format!(
            "romeo sends: <presence to='{CAVE}/romeo' type='unavailable'/>
romeo receives: <presence type='unavailable' from='{CAVE}/romeo' to='romeo@localhost/r'>{{any}}</presence>\n"
        );
        text += end;
        text += &misses("juliet", "j", 40, "");
        play(&text);
    }
}

fn record(said: Position) -> Record {
    Record {
        config: Config { persistent: true, ..Config::default() },
        subject: Subject::default(),
        secret: [1; 16],
        owners: 1,
        locked: false,
        created_ms: 1,
        said,
    }
}

/// Romeo is a member of this many rooms, each with 7 messages that he has missed.
fn romeo_in(rooms: usize) -> (Host, ConnId) {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.serve_rooms("conference.localhost");
    settings.idle_s_max = 0;
    let mut host = Host::new(settings);
    host.account("romeo");
    let mut batch = Batch::new();
    for at in 0..rooms {
        let name = format!("r{at:05}@conference.localhost");
        record(Position { number: 9, count: 10, time_ms: 9_000 }).put(&mut batch, &name);
        let left = Position { number: 2, count: 3, time_ms: 5_000 };
        let standing = Standing { affiliation: Affiliation::Member, left, ..Standing::default() };
        standing.put(&mut batch, &name, "romeo@localhost", &Standing::default());
        room::put_known(&mut batch, "romeo@localhost", &name, true);
    }
    host.disk.submit(batch);
    host.disk.commit(1);
    let (conn, _) = host.bind(0, "romeo");
    (host, conn)
}

fn asks(host: &mut Host, conn: ConnId, inside: &str) -> (String, usize) {
    host.now.mono_ms += 1_000;
    let effects =
        host.ask(conn, &format!("<iq type='get' id='i'><inbox xmlns='urn:xmpp:inbox:1'>{inside}</inbox></iq>"));
    let queries = effects.iter().map(|effect| match effect {
        Effect::Read { queries, .. } => queries.iter().filter(|query| !matches!(query, Query::Get { .. })).count(),
        _ => 0,
    });
    let queries = queries.sum();
    (said(&effects), queries)
}

/// A user in 10,000 rooms gets them in pages. Each page has a bounded number of rooms.
#[test]
fn a_member_of_10_000_rooms_is_told_in_pages() {
    let (mut host, conn) = romeo_in(10_000);
    let (mut after, mut pages, mut rooms) = (String::new(), 0, 0);
    loop {
        let set = format!("<set xmlns='http://jabber.org/protocol/rsm'><max>5000</max>{after}</set>");
        let (told, _) = asks(&mut host, conn, &set);
        let entries = told.matches(" unread='7'").count();
        assert!((1..=ROOM_COUNTS_PAGE).contains(&entries), "{entries} entries");
        (pages, rooms) = (pages + 1, rooms + entries);
        if told.contains("complete='true'") {
            break;
        }
        let last = told.split("<last>").nth(1).and_then(|rest| rest.split('<').next()).expect("where the page ends");
        after = format!("<after>{last}</after>");
    }
    assert_eq!(rooms, 10_000);
    assert_eq!(pages, 10_000 / ROOM_COUNTS_PAGE);
}

/// Requests of one user are answered one by one, and only a few of them wait (XEP-0430 has no
/// limit).
#[test]
fn counts_asked_in_a_loop_are_refused() {
    let (mut host, conn) = romeo_in(300);
    let all: String = (0..100).map(|_| ASKS).collect();
    let told = said(&host.say(conn, &all));
    assert!(told.matches("<resource-constraint").count() > 50, "{told}");
    assert!(told.matches(" unread='7'").count() <= (PACED_WAITING_MAX + 1) * ROOM_COUNTS_PAGE);
}

/// Each room that is not in memory costs one row of messages at most, and none is loaded.
#[test]
fn counting_reads_no_messages_and_loads_no_room() {
    let (mut host, conn) = romeo_in(150);
    let (told, ranges) = asks(&mut host, conn, "");
    assert_eq!(told.matches(" unread='7'").count(), 150);
    // The rooms of the user, and the end of each archive.
    assert!(ranges <= 1 + 150, "{ranges} ranges");
    assert_eq!(host.shard.counters().rooms.get(), 0);
}
