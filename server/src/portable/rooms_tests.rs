//! Rooms out of a store and into another one, and malicious files.

use std::fs;

use tempfile::TempDir;
use throng_engine::id::Domains;
use throng_engine::portable::NS;
use throng_engine::rooms::exchange;
use throng_engine::store::room::{Affiliation, Config, Listed, Record, Standing, Subject, known_query};
use throng_engine::store::room_extra::{self, Hashes, Hat, Hats};
use throng_engine::store::{Batch, Found};

use super::rooms::{Rooms, export, import};
use super::{Summary, Wrong};
use crate::disk::{Engine, MemoryEngine};

const SERVICE: &str = "conference.capulet.com";
const CAVE: &str = "cave@conference.capulet.com";

fn with<T>(engine: &MemoryEngine, dry_run: bool, run: impl FnOnce(&Rooms<'_>) -> T) -> T {
    let domains = Domains::of_users("capulet.com");
    let now_us = 1_767_225_600_000_000;
    run(&Rooms { engine: Some(engine), domains: &domains, service: SERVICE, dry_run, now_us })
}

fn take_with(engine: &MemoryEngine, text: &str, dry_run: bool) -> (Summary, Result<(), Wrong>) {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("in.xml");
    fs::write(&path, text).expect("written");
    with(engine, dry_run, |plan| import(&path, plan, &mut |_| {}))
}

/// Imports the children of the service's host.
fn take(engine: &MemoryEngine, inside: &str) -> Summary {
    let text = format!("<server-data xmlns='{NS}'><host jid='{SERVICE}'>{inside}</host></server-data>");
    let (summary, end) = take_with(engine, &text, false);
    end.expect("a good file");
    summary
}

fn room(name: &str, fields: &str, inside: &str) -> String {
    format!(
        "<room xmlns='{}' name='{name}' created='2026-01-01T00:00:00Z'><x xmlns='jabber:x:data' type='submit'>{fields}</x>\
         {inside}</room>",
        exchange::NS
    )
}

fn item(jid: &str, affiliation: &str, more: &str) -> String {
    format!("<item xmlns='http://jabber.org/protocol/muc#admin' jid='{jid}' affiliation='{affiliation}'{more}/>")
}

fn record(engine: &MemoryEngine, jid: &str) -> Option<Record> {
    let found = engine.read(&Record::query(jid)).expect("read").value();
    found.map(|value| Record::decode(&value).expect("whole"))
}

fn standing(engine: &MemoryEngine, bare: &str) -> Standing {
    let found = engine.read(&Standing::query(CAVE, bare)).expect("read").value();
    found.map(|value| Standing::decode(&value).expect("whole")).unwrap_or_default()
}

fn rows(engine: &MemoryEngine, query: &throng_engine::store::Query) -> usize {
    let Found::Rows { rows, .. } = engine.read(query).expect("read") else { panic!("a range") };
    rows.len()
}

#[test]
fn a_room_is_the_same_after_export_and_import() {
    let (from, to) = (MemoryEngine::default(), MemoryEngine::default());
    let mut batch = Batch::new();
    let config = Config {
        name: "The <cave>".into(),
        password: Some("newt & toad".into()),
        persistent: true,
        members_only: true,
        occupants_max: 20,
        archive: false,
        ..Config::default()
    };
    let subject = Subject { text: "Fire & trouble".into(), nick: "second witch".into(), time_ms: 1_767_225_601_000 };
    let record = |jid: &str, config: Config| {
        let record = Record {
            config,
            subject: subject.clone(),
            secret: [1; 16],
            owners: 1,
            locked: false,
            created_ms: 7_000,
            said: Default::default(),
        };
        (jid.to_owned(), record)
    };
    for (jid, record) in [record(CAVE, config.clone()), record("hall@conference.capulet.com", Config::default())] {
        record.put(&mut batch, &jid);
    }
    let owner = Standing { affiliation: Affiliation::Owner, nick: Some("witch".into()), ..Standing::default() };
    let outcast =
        Standing { affiliation: Affiliation::Outcast, reason: Some("a <knight>".into()), ..Standing::default() };
    let users = [("hecate@capulet.com", owner), ("evil.example", outcast)];
    for (bare, standing) in &users {
        standing.put(&mut batch, CAVE, bare, &Standing::default());
    }
    let hat =
        |uri: &str, hue: Option<&str>| Hat { uri: uri.into(), title: "A <host>".into(), hue: hue.map(Into::into) };
    let worn = vec![("hecate@capulet.com".into(), "urn:one".into())];
    let hats = Hats { known: vec![hat("urn:one", Some("327.25")), hat("urn:two", None)], worn };
    hats.put(&mut batch, CAVE);
    let card = b"<vCard xmlns='vcard-temp'><PHOTO><BINVAL>AAAA</BINVAL></PHOTO></vCard>";
    // The hash of three bytes of 0.
    let hashes = Hashes(vec![*b"\x29\xe2\xdc\xfb\xb1\x6f\x63\xbb\x02\x54\xdf\x75\x85\xa1\x5b\xb6\xfb\x5e\x92\x7d"]);
    room_extra::put_card(&mut batch, CAVE, Some((card, &hashes)));
    // More than are read at once.
    let member = Standing { affiliation: Affiliation::Member, ..Standing::default() };
    for n in 0..5_000 {
        member.put(&mut batch, CAVE, &format!("user{n}@x.example"), &Standing::default());
    }
    from.commit(&[batch]).expect("written");
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("rooms.xml");
    let summary = with(&from, false, |plan| export(&path, plan, &[], &mut |_| {})).expect("exported");
    assert_eq!((summary.rooms, summary.affiliations, summary.is_whole()), (2, 5_002, true));
    let (summary, end) = with(&to, false, |plan| import(&path, plan, &mut |_| {}));
    end.expect("a good file");
    assert_eq!((summary.rooms, summary.affiliations, summary.is_whole()), (2, 5_002, true));
    let new = self::record(&to, CAVE).expect("a room");
    assert_eq!((&new.config, &new.subject, new.created_ms, new.owners), (&config, &subject, 7_000, 1));
    assert_ne!(new.secret, [1; 16], "occupant ids are of the new room");
    for (bare, of) in &users {
        assert_eq!(standing(&to, bare), *of);
    }
    let Found::Rows { rows: extra, .. } = to.read(&room_extra::query(CAVE)).expect("read") else { panic!("a range") };
    assert_eq!(room_extra::decode(&extra), Some((hats, Some(hashes))));
    let stored = to.read(&room_extra::card_query(CAVE)).expect("read").value().expect("a vCard");
    let stored = String::from_utf8(room_extra::card_decode(&stored).expect("whole")).expect("text");
    assert!(stored.contains("<BINVAL>AAAA</BINVAL>"), "{stored}");
    assert_eq!(rows(&to, &Standing::query_members(CAVE, 10_000)), 5_001);
    assert_eq!(rows(&to, &known_query("hecate@capulet.com", None, 10)), 1, "forgotten with the account");
    assert_eq!(rows(&to, &Listed::query(SERVICE, None, 10)), 2, "both are in the directory");
    // Again, and only some.
    let (again, end) = with(&to, false, |plan| import(&path, plan, &mut |_| {}));
    assert!(end.is_ok() && again.there == 2 && again.rooms == 0, "{again:?}");
    let only = ["hall@conference.capulet.com".to_owned(), "attic@conference.capulet.com".to_owned()];
    let one = with(&to, false, |plan| export(&dir.path().join("one.xml"), plan, &only, &mut |_| {})).expect("exported");
    assert_eq!((one.rooms, one.left), (1, 1), "{one:?}");
    assert!(with(&to, false, |plan| export(&path, plan, &[], &mut |_| {})).is_err(), "the file exists");
}

/// A room for members never becomes one for all because a part of it cannot be read.
#[test]
fn what_cannot_be_leaves_the_room_out_or_is_noted() {
    let engine = MemoryEngine::default();
    let field = |name: &str, value: &str| format!("<field var='muc#roomconfig_{name}'><value>{value}</value></field>");
    let good = field("membersonly", "1");
    let why = |summary: &Summary| summary.notes().map(|note| note.why).collect::<Vec<_>>().join("; ");
    for (inside, left) in [
        (room("cave", &(good.clone() + &field("whois", "nobody")), ""), "no configuration that can be"),
        (format!("<room xmlns='{}' name='cave'/>", exchange::NS), "no configuration that can be"),
        (room("a b", &good, ""), ""),
    ] {
        let summary = take(&engine, &inside);
        assert_eq!((summary.rooms, summary.left), (0, 1), "{inside}");
        assert!(why(&summary).contains(left), "{}", why(&summary));
    }
    assert!(record(&engine, CAVE).is_none());
    let worn: Vec<String> = (0..9)
        .map(|n| format!("<hat uri='urn:{n}' title='X'><jid>a@capulet.com</jid><jid>stranger@capulet.com</jid></hat>"))
        .collect();
    let users = [
        item("a@capulet.com/phone", "owner", " nick='a'"),
        item("b@capulet.com", "member", " nick='a'"),
        item("@capulet.com", "member", ""),
        item("c@capulet.com", "king", ""),
        item("d@capulet.com", "none", ""),
        item("e@capulet.com", "member", " nick='&#x202e;'"),
        "<subject xmlns='urn:throng:room:0'>".to_owned() + &"x".repeat(5_000) + "</subject>",
        "<y xmlns='urn:y'/>".to_owned(),
        format!("<vCard xmlns='vcard-temp'><NOTE>{}</NOTE></vCard>", "x".repeat(70_000)),
        "<hats xmlns='urn:throng:room:0'><hat uri='urn:x' title='X' hue='red'/></hats>".to_owned(),
        "<hats xmlns='urn:throng:room:0'><hat uri='urn:x' title='X'/><hat uri='urn:x' title='X'/></hats>".to_owned(),
        // A stranger wears none, and a user not more than five.
        format!("<hats xmlns='urn:throng:room:0'>{}</hats>", worn.concat()),
    ];
    let summary = take(&engine, &room("cave", &good, &users.concat()));
    assert_eq!((summary.rooms, summary.affiliations), (1, 1), "{}", why(&summary));
    assert_eq!(summary.notes().map(|note| note.times).sum::<u64>(), 9, "{}", why(&summary));
    let cave = record(&engine, CAVE).expect("a room");
    assert!(
        cave.config.members_only && cave.config.persistent && cave.owners == 1 && cave.subject == Subject::default()
    );
    assert_eq!(standing(&engine, "a@capulet.com").nick.as_deref(), Some("a"));
    let Found::Rows { rows, .. } = engine.read(&room_extra::query(CAVE)).expect("read") else { panic!("a range") };
    let (hats, hashes) = room_extra::decode(&rows).expect("whole rows");
    assert_eq!((hats.known.len(), hats.worn.len(), hashes), (9, 5, None));
}

#[test]
fn malicious_files_are_refused_or_bounded() {
    let engine = MemoryEngine::default();
    let head = format!("<server-data xmlns='{NS}'><host jid='{SERVICE}'>");
    let deep = format!("{head}{}", room("cave", "", &"<a>".repeat(200)));
    let (_, end) = take_with(&engine, &deep, false);
    assert!(format!("{:?}", end.expect_err("too deep")).contains("nested more than"));
    // The file ends within a room: nothing of it is written.
    let cut = format!("{head}{}", room("cave", "", "").replace("</room>", ""));
    assert!(take_with(&engine, &cut, false).1.is_err() && record(&engine, CAVE).is_none());
    // Another host, and a dry run.
    let elsewhere = format!(
        "<server-data xmlns='{NS}'><host jid='conference.montague.net'>{}</host></server-data>",
        room("cave", "", "")
    );
    assert_eq!(take_with(&engine, &elsewhere, false).0.left, 1);
    let good = format!("{head}{}</host></server-data>", room("cave", "", ""));
    let (summary, end) = take_with(&engine, &good, true);
    assert!(end.is_ok() && summary.rooms == 1 && record(&engine, CAVE).is_none());
    // An element that is too large is skipped.
    let large = format!("<subject xmlns='{}'>{}</subject>", exchange::NS, "x".repeat(5 << 20));
    let summary = take(&engine, &room("hall", "", &large));
    assert!(summary.notes().any(|note| note.why.contains("larger than 4 MiB")), "{summary:?}");
}
