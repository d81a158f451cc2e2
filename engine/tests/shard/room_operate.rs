//! Operators' commands on rooms (XEP-0045), and what protects a room against many strangers.

use throng_engine::id::{ConnId, Now};
use throng_engine::io::{BacklogRow, Command, Input, LogCommand, Reply, RoomCommand, RoomRow, StorageState};
use throng_engine::rooms::fields::form_of;
use throng_engine::settings::Settings;
use throng_engine::store::Batch;
use throng_engine::store::room::{Affiliation, Record, Standing};
use throng_sim::host::{Host, reply, said};

const CAVE: &str = "cave@conference.localhost";
const MUC: &str = "http://jabber.org/protocol/muc";

fn settings() -> Settings {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.serve_rooms("conference.localhost");
    settings
}

/// A user of the host, by full JID.
struct User {
    conn: ConnId,
    name: &'static str,
}

impl User {
    fn new(host: &mut Host, slot: u32, name: &'static str) -> User {
        host.account(name);
        let (conn, effects) = host.bind(slot, name);
        assert!(said(&effects).contains("<jid>"));
        User { conn, name }
    }

    fn says(&self, host: &mut Host, xml: &str) -> String {
        said(&host.ask(self.conn, xml))
    }

    fn enters(&self, host: &mut Host) -> String {
        self.says(host, &format!("<presence to='{CAVE}/{}'><x xmlns='{MUC}'/></presence>", self.name))
    }

    fn leaves(&self, host: &mut Host) {
        self.says(host, &format!("<presence to='{CAVE}/{}' type='unavailable'/>", self.name));
    }

    /// Gives a user or domain an affiliation.
    fn affiliates(&self, host: &mut Host, jid: &str, affiliation: &str) -> String {
        let item = format!("<item jid='{jid}' affiliation='{affiliation}'/>");
        self.says(host, &format!("<iq type='set' id='a' to='{CAVE}'><query xmlns='{MUC}#admin'>{item}</query></iq>"))
    }
}

/// Romeo owns the room, and is in it.
fn scene(settings: Settings) -> (Host, User) {
    let mut host = Host::new(settings);
    let romeo = User::new(&mut host, 0, "romeo");
    assert!(romeo.enters(&mut host).contains("code='201'"), "created");
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x>";
    romeo.says(&mut host, &format!("<iq type='set' id='c' to='{CAVE}'><query xmlns='{MUC}#owner'>{form}</query></iq>"));
    (host, romeo)
}

/// The answer to a command, and what clients got because of it.
fn command(host: &mut Host, command: RoomCommand) -> (Option<Reply>, String) {
    let effects = host.turn(Input::Command { token: 7, command: Command::Room(command) });
    let heard = said(&effects);
    (reply(effects), heard)
}

fn configure(host: &mut Host, fields: &[(&str, &str)]) -> (Option<Reply>, String) {
    let fields: Vec<(String, Vec<String>)> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect();
    command(host, RoomCommand::Configure { room: CAVE.into(), form: form_of(&fields).expect("fields").into() })
}

fn close(host: &mut Host, seconds: u32) {
    assert_eq!(command(host, RoomCommand::Close { room: CAVE.into(), seconds }).0, Some(Reply::Done(1)));
}

fn look(host: &mut Host) -> Vec<RoomRow> {
    match command(host, RoomCommand::Look { rooms: vec![CAVE.into(), "hall@conference.localhost".into()] }).0 {
        Some(Reply::Rooms(rows)) => rows,
        other => panic!("{other:?}"),
    }
}

fn later(host: &mut Host, seconds: u64) {
    host.now = Now::new(host.now.mono_ms + seconds * 1_000, host.now.wall_us + seconds * 1_000_000);
    host.turn(Input::EndOfTurn);
}

fn record(host: &Host) -> Option<Record> {
    host.disk.read(&Record::query(CAVE)).value().map(|value| Record::decode(&value).expect("whole"))
}

/// XEP-0045 10.2: an operator configures a room as its owner does: who may no longer be there has to
/// leave, and occupants learn of it.
#[test]
fn an_operator_configures_a_room_like_its_owner_xep0045_10_2() {
    let (mut host, _romeo) = scene(settings());
    let juliet = User::new(&mut host, 1, "juliet");
    juliet.enters(&mut host);
    let rows = look(&mut host);
    assert_eq!((rows.len(), rows[0].occupants, rows[0].waiting), (1, 2, 0));
    assert!(rows[0].sent_bytes > 1_000, "{rows:?}");
    let (answer, heard) = configure(&mut host, &[("membersonly", "1"), ("roomname", "The cave")]);
    assert_eq!(answer, Some(Reply::Done(1)));
    assert!(heard.contains("code='104'") && heard.contains("code='322'"), "{heard}");
    assert_eq!(look(&mut host)[0].occupants, 1);
    let config = record(&host).expect("a room").config;
    assert!(config.members_only && config.persistent && *config.name == *"The cave");
    // The same checks.
    let (answer, heard) = configure(&mut host, &[("whois", "nobody"), ("moderatedroom", "1")]);
    assert_eq!((answer, &*heard), (Some(Reply::Refused("not-acceptable".into())), ""));
    assert!(!record(&host).expect("a room").config.moderated, "all or nothing");
    let hall = RoomCommand::Close { room: "hall@conference.localhost".into(), seconds: 1 };
    assert_eq!(command(&mut host, hall).0, Some(Reply::NotFound));
    assert_eq!(look(&mut host).len(), 1, "nothing of it stays in memory");
    host.turn(Input::Storage(StorageState::Full));
    assert_eq!(configure(&mut host, &[("membersonly", "0")]).0, Some(Reply::StoreFull));
}

/// A session pays for the answer to a short request, and for what its request writes.
#[test]
fn requests_to_a_room_are_charged_to_their_sender() {
    let (mut host, romeo) = scene(settings());
    let iq = |kind: &str, payload: &str| format!("<iq type='{kind}' id='q' to='{CAVE}'>{payload}</iq>");
    let hats = |node: &str, fields: &[(&str, &str)]| {
        let fields: String = fields
            .iter()
            .map(|(var, value)| format!("<field var='hats#{var}'><value>{value}</value></field>"))
            .collect();
        let x = format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:hats:commands</value></field>{fields}</x>"
        );
        let x = if fields.is_empty() { "" } else { &x };
        iq(
            "set",
            &format!(
                "<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:hats:commands:{node}'>{x}</command>"
            ),
        )
    };
    let register = |nick: &str| {
        let fields = format!(
            "<field var='FORM_TYPE'><value>{MUC}#register</value></field><field var='muc#register_roomnick'><value>{nick}</value></field>"
        );
        iq(
            "set",
            &format!("<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>{fields}</x></query>"),
        )
    };
    let title = "t".repeat(256);
    for n in 0..40 {
        let uri = format!("urn:{n:03}:{}", "u".repeat(240));
        assert!(romeo.says(&mut host, &hats("create", &[("title", &title), ("uri", &uri)])).contains("completed"));
    }
    let photo = "A".repeat(40_000);
    romeo.says(
        &mut host,
        &iq("set", &format!("<vCard xmlns='vcard-temp'><PHOTO><BINVAL>{photo}</BINVAL></PHOTO></vCard>")),
    );
    let mut charged = |request: &str| {
        let before = look(&mut host)[0].charged_bytes;
        let answer = romeo.says(&mut host, request);
        assert!(answer.contains("type='result'"), "{answer}");
        (look(&mut host)[0].charged_bytes - before) as usize
    };
    assert!(charged(&iq("get", "<vCard xmlns='vcard-temp'/>")) > 40_000);
    // All hats are one row.
    assert!(charged(&hats("create", &[("title", "Host"), ("uri", "urn:host")])) > 40 * 500);
    assert!(charged(&hats("list", &[])) > 40 * 500);
    assert!(charged(&hats("assign", &[])) > 40 * 500, "the form has all hats");
    assert!(charged(&register("montague")) > 500, "two rows");
    assert!(charged(&iq("get", "<query xmlns='http://jabber.org/protocol/disco#info'/>")) > 1_000);
    assert_eq!(charged(&iq("get", "<ping xmlns='urn:xmpp:ping'/>")), 0);
}

/// XEP-0045 10.9; also of a room that is not in memory.
#[test]
fn an_operator_destroys_a_room_xep0045_10_9() {
    let (mut host, romeo) = scene(settings());
    romeo.leaves(&mut host);
    (0..3).for_each(|_| later(&mut host, 40));
    assert!(look(&mut host).is_empty(), "it is at rest");
    assert_eq!(configure(&mut host, &[("roomname", "At rest")]).0, Some(Reply::Done(1)));
    assert_eq!(*record(&host).expect("a room").config.name, *"At rest");
    romeo.enters(&mut host);
    let destroy = || RoomCommand::Destroy {
        room: CAVE.into(),
        reason: Some("to <b>".into()),
        alternate: Some("hall@conference.localhost".into()),
    };
    let (answer, heard) = command(&mut host, destroy());
    assert_eq!(answer, Some(Reply::Done(1)));
    let expected = "<destroy jid='hall@conference.localhost'><reason>to &lt;b></reason></destroy>";
    assert!(heard.replace("&gt;", ">").contains(expected), "{heard}");
    assert_eq!(record(&host), None);
    assert_eq!(command(&mut host, destroy()).0, Some(Reply::NotFound));
}

/// XEP-0045 7.2.5: for a while, only those with an affiliation enter.
#[test]
fn a_closed_room_admits_members_only_and_only_for_a_while() {
    let (mut host, romeo) = scene(settings());
    let (juliet, nurse) = (User::new(&mut host, 1, "juliet"), User::new(&mut host, 2, "nurse"));
    romeo.affiliates(&mut host, "nurse@localhost", "member");
    juliet.enters(&mut host);
    close(&mut host, 600);
    assert_eq!(look(&mut host)[0].closed_s, Some(600));
    assert!(juliet.enters(&mut host).contains("code='110'"), "an occupant stays, and is answered in full");
    juliet.leaves(&mut host);
    assert!(juliet.enters(&mut host).contains("<registration-required"));
    assert!(nurse.enters(&mut host).contains("code='110'"));
    // Empty, it stays closed.
    [&romeo, &nurse].into_iter().for_each(|one| one.leaves(&mut host));
    (0..3).for_each(|_| later(&mut host, 40));
    assert!(juliet.enters(&mut host).contains("<registration-required"));
    later(&mut host, 600);
    assert!(juliet.enters(&mut host).contains("code='110'"), "over");
    juliet.leaves(&mut host);
    close(&mut host, 600);
    close(&mut host, 0);
    assert!(juliet.enters(&mut host).contains("code='110'"), "opened");
    juliet.leaves(&mut host);
    let mut all = settings();
    all.room_members_only = true;
    host.turn(Input::Command { token: 1, command: Command::Turn(all.into()) });
    assert!(juliet.enters(&mut host).contains("<registration-required"));
    assert!(nurse.enters(&mut host).contains("code='110'"));
}

/// XEP-0045 7.2.9 has `wait` for a room that admits nobody else for now.
#[test]
fn strangers_join_at_a_bounded_rate_and_members_at_any() {
    let mut some = settings();
    some.room_joins_per_s = 1;
    let (mut host, romeo) = scene(some);
    let juliet = User::new(&mut host, 1, "juliet");
    let mut admitted = 0;
    for _ in 0..20 {
        let answer = juliet.enters(&mut host);
        admitted += usize::from(answer.contains("code='110'"));
        assert!(
            answer.contains("code='110'") || answer.contains("<error type='wait'><resource-constraint"),
            "{answer}"
        );
        juliet.leaves(&mut host);
    }
    assert_eq!(admitted, 10);
    later(&mut host, 2);
    assert!(juliet.enters(&mut host).contains("code='110'"));
    romeo.affiliates(&mut host, "juliet@localhost", "member");
    for _ in 0..20 {
        juliet.leaves(&mut host);
        assert!(juliet.enters(&mut host).contains("code='110'"));
    }
}

/// XEP-0045 9.1: an outcast without a localpart stands for all users of that domain.
#[test]
fn a_banned_domain_is_kept_out_xep0045_9_1() {
    let (mut host, romeo) = scene(settings());
    let (juliet, nurse) = (User::new(&mut host, 1, "juliet"), User::new(&mut host, 2, "nurse"));
    romeo.affiliates(&mut host, "nurse@localhost", "member");
    [&juliet, &nurse].into_iter().for_each(|one| drop(one.enters(&mut host)));
    let heard = romeo.affiliates(&mut host, "localhost", "outcast");
    assert!(heard.contains("code='301'") && heard.contains("type='result'"), "{heard}");
    assert_eq!(look(&mut host)[0].occupants, 2, "those with an affiliation stay");
    assert!(juliet.enters(&mut host).contains("<forbidden"));
    let archive = format!("<iq type='set' id='m' to='{CAVE}'><query xmlns='urn:xmpp:mam:2'/></iq>");
    assert!(juliet.says(&mut host, &archive).contains("<forbidden"), "nor does it read what was said");
    assert!(romeo.affiliates(&mut host, "localhost", "none").contains("type='result'"));
    assert!(juliet.enters(&mut host).contains("code='110'"));
}

/// The same in a room with too many standings to be in memory.
#[test]
fn a_banned_domain_is_kept_out_of_a_room_with_many_members() {
    let mut host = Host::new(settings());
    let mut batch = Batch::new();
    let of = |affiliation| Standing { affiliation, ..Standing::default() };
    for n in 0..1_100 {
        of(Affiliation::Member).put(&mut batch, CAVE, &format!("user{n}@x.example"), &Standing::default());
    }
    of(Affiliation::Member).put(&mut batch, CAVE, "nurse@localhost", &Standing::default());
    of(Affiliation::Outcast).put(&mut batch, CAVE, "localhost", &Standing::default());
    let (config, subject) = (Default::default(), Default::default());
    let said = Default::default();
    Record { config, subject, secret: [1; 16], owners: 0, locked: false, created_ms: 7, said }.put(&mut batch, CAVE);
    host.disk.apply(&batch);
    let (juliet, nurse) = (User::new(&mut host, 1, "juliet"), User::new(&mut host, 2, "nurse"));
    assert!(juliet.enters(&mut host).contains("<forbidden"));
    assert!(nurse.enters(&mut host).contains("code='110'"));
}

/// The longest queue of a second is a gauge, and its room is named.
#[test]
fn the_longest_queue_is_published_with_its_room() {
    let (mut host, romeo) = scene(settings());
    romeo.leaves(&mut host);
    (0..3).for_each(|_| later(&mut host, 40));
    assert_eq!(host.shard.counters().room_waiting.get(), 0);
    // All wait for the rows that the first one reads.
    for n in 0..5 {
        let presence = format!("<presence to='{CAVE}/romeo{n}'><x xmlns='{MUC}'/></presence>");
        host.take(Input::Received { conn: romeo.conn, bytes: presence.as_bytes() });
    }
    host.turn(Input::EndOfTurn);
    later(&mut host, 1);
    let longest = host.shard.counters().room_waiting.get();
    assert!((2..=5).contains(&longest), "{longest}");
    let backlogs = Command::Log(LogCommand::Backlogs { from_slot: 0, bytes_min: 1 << 20, most: 10 });
    let Some(Reply::Backlogs { rows, .. }) = reply(host.turn(Input::Command { token: 1, command: backlogs })) else {
        panic!("no backlogs");
    };
    let expected = BacklogRow::Room { jid: CAVE.into(), stanzas: longest as u32 };
    assert!(rows.contains(&expected), "{rows:?}");
    later(&mut host, 2);
    assert_eq!(host.shard.counters().room_waiting.get(), 0, "it has been handled");
}
