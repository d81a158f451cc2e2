//! Stores of each released format, kept under `tests/data` as they were written, are converted to
//! this program's format and are intact.
//!
//! **Whoever introduces a format** (`disk/format.rs`) keeps the folders of earlier ones unchanged.
//! Their listings show the rows required after the conversion: where these differ, regenerate the
//! listings and review them line by line. The folder of the new format is created, if there is none
//! yet, by
//!
//!     UPDATE_REFERENCE=1 cargo test -p throng --test process formats
//!
//! A new format is due whenever the rows that this program writes differ from those in the folder
//! kept for its format: another test writes a row of each kind and compares.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use throng::disk::format::{FORMAT_KEY, FORMAT_VERSION};
use throng::disk::{Engine, FolderLock, LockError, Options, Store, Visit};
use throng_engine::extension::photo::Photo;
use throng_engine::extension::pubsub::member::{Member, State};
use throng_engine::extension::pubsub::node::{Access, Affiliates, Affiliation, Config, Directory, PublishModel};
use throng_engine::extension::pubsub::service::registration::{self as page, By};
use throng_engine::extension::push::row::{Registration, Registrations};
use throng_engine::extension::{blocking, vcard};
use throng_engine::id::{PartitionMap, PushId, SessionId, ShardId};
use throng_engine::shard::number_floor_sort_key;
use throng_engine::store::account::{self, Credentials, Incarnation};
use throng_engine::store::announcement::{self, Kept as Announcement};
use throng_engine::store::archive::{self, Entry};
use throng_engine::store::floors::{Floor, Scope};
use throng_engine::store::hash::{HashKind, Hashes};
use throng_engine::store::invitation::{Applicant, Claim, Invitation, InvitationId};
use throng_engine::store::nodes::{self, Item, Named};
use throng_engine::store::peers::{Directory as Peers, OPEN, Part, Peer};
use throng_engine::store::private::{self, LastLogout};
use throng_engine::store::record;
use throng_engine::store::report::{Report, ReportId, ReportKey};
use throng_engine::store::retractions::{Key as Retracted, Retraction};
use throng_engine::store::roster::{self, Groups, ItemView, Unconfirmed, Version};
use throng_engine::store::sessions::{self, Counts, Kept, Step, Trail};
use throng_engine::store::token::{Place, Token, TokenKind, Tokens};
use throng_engine::store::waiting::{Apart, Cursor, Holder, Transient};
use throng_engine::store::{Batch, Table, key, kind};
use throng_engine::store::{room, room_extra};
use xxhash_rust::xxh3::xxh3_64;

use crate::support::{Client, Host, PASSWORD, good, read, throng};

/// The released formats.
const KEPT: [u32; 4] = [5, 6, 7, 8];

const ROMEO: &str = "romeo@localhost";
const JULIET: &str = "juliet@localhost";

/// At another domain of the same store.
const NAMESAKE: &str = "romeo@verona.example";

/// A node of the service, which is an actor.
const NEWS: &str = "pubsub.localhost/news";

/// The time of all events, seconds since the Unix epoch.
const THEN_S: u64 = 1_600_000_000;

/// Longer values are listed by their length and a checksum.
const VALUE_BYTES_MAX: usize = 400;

fn kept(format: u32) -> (PathBuf, PathBuf) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    (data.join(format!("format-{format}")), data.join(format!("format-{format}.txt")))
}

/// All rows, one per line.
fn listing(engine: &dyn Engine) -> String {
    let mut out = String::new();
    engine
        .scan(&mut |flat, value| {
            let (table, actor, sort) = key::decode(flat).expect("a row of a table");
            let value = match value.len() {
                0..=VALUE_BYTES_MAX => value.escape_ascii().to_string(),
                length => format!("({length} bytes, XXH3 {:016x})", xxh3_64(value)),
            };
            writeln!(out, "{table:?} {} {} {value}", actor.escape_ascii(), sort.escape_ascii()).expect("to memory");
            Visit::Continue(())
        })
        .expect("a store that can be read");
    out
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() { copy(&path, &to) } else { std::fs::copy(&path, &to).map(drop).expect("copied") }
    }
}

/// Takes the lock of a test's own folder. Another test may just have forked a process, which holds
/// an earlier lock until it executes.
fn lock(folder: &Path) -> FolderLock {
    let mut tries = 100;
    loop {
        match FolderLock::take(folder, "test") {
            Err(LockError::Held(_)) if tries > 0 => tries -= 1,
            taken => return taken.expect("a folder of the test's own"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_kept_store_of_each_format_becomes_one_of_this_program_with_all_its_rows() {
    assert_eq!(KEPT.last(), Some(&FORMAT_VERSION), "a folder of this program's format is kept");
    if std::env::var_os("UPDATE_REFERENCE").is_some() && !kept(FORMAT_VERSION).0.exists() {
        keep_this_format();
    }
    for format in KEPT {
        let (folder, wanted) = kept(format);
        let data = tempfile::tempdir().expect("a folder");
        copy(&folder, data.path());
        let mark = || read(&data.path().join("store/version"));
        assert_eq!(mark(), format!("throng {format}\n"));
        let store = Store::migrate(&lock(data.path()), &Options::default(), &mut |_| {}).expect("it opens");
        let found = listing(&*store.engine());
        drop(store);
        for (at, (found, wanted)) in found.lines().zip(read(&wanted).lines()).enumerate() {
            assert_eq!(found, wanted, "line {} of {format}", at + 1);
        }
        assert_eq!(found, read(&wanted));
        assert_eq!(mark(), format!("throng {FORMAT_VERSION}\n"));
        is_sound_and_served(data, format);
    }
}

/// docs/promise.md: a store or a backup of an earlier version is whole to this one, too, and comes
/// back.
#[test]
fn a_backup_of_an_earlier_format_is_verified_restored_and_converted() {
    for format in KEPT.into_iter().filter(|format| *format < FORMAT_VERSION) {
        let (backup, data) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        copy(&kept(format).0, backup.path());
        let (from, to) = (backup.path().to_str().expect("a name"), data.path().to_str().expect("a name"));
        let said = |arguments: &[&str]| {
            let output = throng(arguments);
            good(&output);
            String::from_utf8(output.stdout).expect("text")
        };
        let checked = said(&["store", "check", "--data", from, "--json"]);
        let checked: serde_json::Value = serde_json::from_str(&checked).expect("JSON");
        let note = checked["notes"][0].as_str().unwrap_or_default();
        assert!(note.starts_with(&format!("its rows have format {format}: ")), "{checked}");

        let counts = checked["counts"].as_object().expect("counts").values();
        let rows: u64 = counts.filter_map(serde_json::Value::as_u64).sum();
        // What makes a folder a backup.
        std::fs::write(backup.path().join("backup.complete"), format!("{rows} rows\n")).expect("written");
        let verified = said(&["store", "backup", "verify", from]);
        assert!(
            verified.ends_with("backup verify: good\n") && !verified.contains("what each row holds,"),
            "{verified}"
        );
        said(&["store", "restore", from, "--data", to]);
        said(&["store", "migrate", "--data", to]);
        is_sound_and_served(data, format);
    }
}

/// As left by programs between the formats 5 and 6: rows that format 5 did not have at first, in a
/// store of format 5. Its files may also be marked with this program's format, if the conversion
/// was interrupted before its last commit.
#[test]
fn a_store_of_format_5_that_has_rows_of_format_6_keeps_them() {
    for mark in [5, FORMAT_VERSION] {
        let (data, wanted) = filled();
        let store = Store::open(&lock(data.path()), &Options::default()).expect("it opens");
        let mut batch = Batch::new();
        batch.put(Table::Meta, b"", FORMAT_KEY, &[&5_u32.to_be_bytes()]);
        store.engine().commit(&[batch]).expect("there is room");
        drop(store);
        std::fs::write(data.path().join("store/version"), format!("throng {mark}\n")).expect("written");
        let refused =
            Store::open(&lock(data.path()), &Options::default()).expect_err("it has to be changed").to_string();
        assert!(refused.contains("has format 5") && refused.contains("throng store migrate"), "{refused}");
        let mut told = Vec::new();
        let store = Store::migrate(&lock(data.path()), &Options::default(), &mut |progress| told.push(*progress));
        assert_eq!(listing(&*store.expect("it opens").engine()), wanted);
        // The last step looks at the private rows, among which format 7 has records of users.
        let private = wanted.lines().filter(|row| row.starts_with("Private ")).count() as u64;
        assert_eq!(
            told.iter().map(|progress| (progress.from, progress.to, progress.rows)).collect::<Vec<_>>(),
            [(5, 6, 0), (6, 7, 0), (7, 8, 0), (7, 8, private)]
        );
        assert_eq!(read(&data.path().join("store/version")), format!("throng {FORMAT_VERSION}\n"));
        is_sound_and_served(data, FORMAT_VERSION);
    }
}

/// The meaning of rows has changed without a new format, or a kind of row was added: programs of
/// this format would misread such a store. What to do is described above.
#[test]
fn the_kept_store_of_this_format_has_all_rows_that_this_program_writes_and_no_others() {
    let (data, found) = filled();
    let store = Store::open(&lock(data.path()), &Options::default()).expect("it opens");
    let mut missing: Vec<_> =
        kind::KINDS.iter().filter(|kind| !kind.passes).map(|kind| (kind.table, kind.name)).collect();
    let mut tables = Table::ALL.to_vec();
    let of_rows = &mut |flat: &[u8], _: &[u8]| {
        let (table, _, sort) = key::decode(flat).expect("a row of a table");
        let of = kind::of(table, sort).unwrap_or_else(|| panic!("{table:?} {} is of no kind", sort.escape_ascii()));
        missing.retain(|kind| *kind != (table, of.name));
        tables.retain(|other| *other != table);
        Visit::Continue(())
    };
    store.engine().scan(of_rows).expect("a store that can be read");
    assert!(tables.is_empty() && missing.is_empty(), "`fill` writes no row of {tables:?} {missing:?}");
    let wanted = read(&kept(FORMAT_VERSION).1);
    for (at, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "line {}: what is written has changed, and needs a new format", at + 1);
    }
    assert_eq!(found, wanted, "what is written has changed, and needs a new format");
}

/// A store with a row of each kind, and its listing.
fn filled() -> (tempfile::TempDir, String) {
    let data = tempfile::tempdir().expect("a folder");
    let store = Store::open(&lock(data.path()), &Options::default()).expect("a store");
    fill(&*store.engine());
    let found = listing(&*store.engine());
    drop(store);
    (data, found)
}

/// The meaning of the rows is unchanged: they can be decoded, and users log in and receive their
/// waiting messages.
fn is_sound_and_served(data: tempfile::TempDir, format: u32) {
    let mut host = Host::on(data);
    assert!(host.good(&["store", "check"]).ends_with("check: good\n"));
    assert_eq!(host.good(&["user", "list"]), format!("{JULIET}\n{ROMEO}\n{NAMESAKE}\n"));
    host.start(&["--c2s-tls", "off", "--shards", "2"]);
    let mut juliet = Client::connect(&host.plain).log_in("juliet", PASSWORD, "balcony");
    let roster = juliet.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>", "</iq>");
    assert!(roster.contains(ROMEO) && roster.contains("Montagues"), "{roster}");
    let blocked = juliet.ask("<iq type='get' id='b'><blocklist xmlns='urn:xmpp:blocking'/></iq>", "</iq>");
    assert!(blocked.contains("tybalt@localhost"), "{blocked}");
    if format >= 6 {
        let card = juliet.ask("<iq type='get' id='v'><vCard xmlns='vcard-temp'/></iq>", "</iq>");
        assert!(card.contains("<FN>Juliet</FN>"), "{card}");
        let get =
            |node: &str| format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='{node}'/></pubsub>");
        let items = juliet.ask(&format!("<iq type='get' id='i'>{}</iq>", get("tunes")), "</iq>");
        assert!(items.contains("id='lute'") && items.contains("<tune xmlns='urn:x'/>"), "{items}");
        let news = format!("<iq type='get' id='n' to='pubsub.localhost'>{}</iq>", get("news"));
        let news = juliet.ask(&news, "</iq>");
        assert!(news.contains("id='key-plague'") && news.contains("<news xmlns='urn:x'/>"), "{news}");
    }
    juliet.send("<presence/>");
    for word in ["fourth", "fifth", "passing"] {
        juliet.hear(&format!("<body>{word}</body>"));
    }
    host.client("romeo");
    host.stop();
}

/// A row of every kind. Numbers, times and keys are always the same.
fn fill(engine: &dyn Engine) {
    let commit = |write: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::new();
        write(&mut batch);
        engine.commit(&[batch]).expect("there is room");
    };
    let message = |from: &str, to: &str, word: &str| {
        format!("<message from='{from}/r' to='{to}' id='{word}' type='chat'><body>{word}</body></message>")
    };
    // Romeo's messages to Juliet, in her archive and in his. Consecutive ones share a row.
    let words = ["first", "second", "third", "fourth", "fifth"];
    let said = |batch: &mut Batch, numbers: std::ops::RangeInclusive<u64>, waits: bool| {
        for (user, peer, incoming) in [(JULIET, "romeo@localhost/r", true), (ROMEO, JULIET, false)] {
            for number in numbers.clone() {
                let xml = message(ROMEO, JULIET, words[number as usize - 1]);
                let (waits, time_ms) = (waits && incoming, 1_600_000_000_000 + number);
                Entry { incoming, waits, time_ms, peer, xml: xml.as_bytes(), trail: b"" }.put(batch, user, number);
            }
        }
    };
    commit(&|batch| {
        batch.put(Table::Meta, b"", b"domain", &[b"localhost"]);
        batch.put(Table::Meta, b"", b"decoy-key", &[&[7; 32]]);
        batch.put(Table::Meta, b"", b"partition-map", &[&PartitionMap::spread(2).encode()]);
        batch.put(Table::Meta, b"", &number_floor_sort_key(ShardId(0)), &[&65_537_u64.to_be_bytes()]);
        for (at, user) in [ROMEO, JULIET, NAMESAKE].into_iter().enumerate() {
            let salt = [at as u8 + 1; 16];
            let keys = Credentials::derive(PASSWORD, 4_096, &salt, 1_500_000_000_000_000).expect("keys");
            let mut record = Vec::new();
            keys.of(Incarnation::drawn(at as u64 + 77)).encode(&mut record);
            batch.put(Table::Accounts, user.as_bytes(), b"", &[&record]);
        }
        let (mut record, mut groups) = (Vec::new(), Vec::new());
        Groups::encode(&["Montagues", "Verona"], &mut groups);
        let groups = Groups::from_encoded(&groups).expect("just encoded");
        let item = ItemView {
            listed: true,
            state: 8,
            ver: 3,
            asked: 1,
            seen: 2,
            name: "Romeo",
            groups,
            ..ItemView::default()
        };
        item.encode(&mut record);
        roster::put(batch, JULIET, ROMEO, &record);
        record.clear();
        let unconfirmed = Unconfirmed { number: 4, left: true, ended: false };
        ItemView { approved: true, unconfirmed, pending: b"<presence type='subscribe'/>", ..ItemView::default() }
            .encode(&mut record);
        roster::put(batch, ROMEO, JULIET, &record);
        roster::put_version(batch, JULIET, Version::default());
        private::put(
            batch,
            JULIET,
            &private::key("storage:bookmarks", "storage"),
            b"<storage xmlns='storage:bookmarks'/>",
        );
        let blocked = b"\x01tybalt@localhost\0";
        record::put(batch, JULIET, record::BLOCKING, blocked);
        private::put_last(batch, ROMEO, LastLogout { at_us: 1_600_000_000_000_000, status: "gone to Mantua" });
        (1..=3).for_each(|number| said(batch, number..=number, false));
    });
    // These are in tables; later rows are in the journal only.
    engine.compact().expect("there is room");
    commit(&|batch| {
        said(batch, 4..=5, true);
        archive::put_void(batch, ROMEO, 2);
        let xml = message(ROMEO, JULIET, "passing");
        let entry = Entry {
            incoming: true,
            waits: true,
            time_ms: 1_600_000_000_006,
            peer: "romeo@localhost/r",
            xml: xml.as_bytes(),
            trail: b"",
        };
        Transient { of: Some(1), entry }.put(batch, JULIET, 6);
        let session = SessionId { slot: 3, generation: 1 };
        Apart { holder: Holder { life: 9, session }, entry }.put(batch, ROMEO, 7);
        Cursor { number: 3, count: 3, bytes: 400 }.put(batch, JULIET);
        Cursor { number: 5, count: 0, bytes: 0 }.put(batch, ROMEO);
    });
    // Some of the first entries are removed, also from the tables.
    commit(&|batch| batch.delete_range(Table::Archive, JULIET.as_bytes(), &[0; 8], &2_u64.to_be_bytes()));
    commit(&|batch| private::delete(batch, ROMEO, b"never there"));
    commit(&fill_since_6);
    commit(&fill_rooms);
}

/// A room, and its entry in the directory of the service.
fn fill_rooms(batch: &mut Batch) {
    let cave = "orchard@conference.localhost";
    room::Record {
        config: room::Config { name: "The orchard".into(), persistent: true, ..room::Config::default() },
        subject: room::Subject { text: "Balconies".into(), nick: "romeo".into(), time_ms: THEN_S * 1_000 },
        secret: [5; 16],
        owners: 1,
        locked: false,
        created_ms: THEN_S * 1_000,
        said: room::Position { number: 8, count: 1, time_ms: THEN_S * 1_000 },
    }
    .put(batch, cave);
    let none = room::Standing::default();
    room::Standing { affiliation: room::Affiliation::Owner, ..none.clone() }.put(batch, cave, ROMEO, &none);
    room::Standing {
        affiliation: room::Affiliation::Member,
        nick: Some("juliet".into()),
        reason: Some("of course".into()),
        left: room::Position { number: 5, count: 0, time_ms: THEN_S * 1_000 },
        self_registered: false,
    }
    .put(batch, cave, JULIET, &none);
    let entry = Entry {
        incoming: true,
        waits: false,
        time_ms: THEN_S * 1_000,
        peer: "orchard@conference.localhost/romeo",
        xml: b"<message from='orchard@conference.localhost/romeo' type='groupchat'><body>Soft</body></message>",
        trail: b"",
    };
    entry.put(batch, cave, 8);
    room::Seat { nick: "romeo".into(), presence: (*b"<presence></presence>").into() }.put(
        batch,
        cave,
        "romeo@localhost/r",
    );
    room::put_known(batch, JULIET, cave, true);
    room::Alert { when: room::When::Mentioned, nick: "juliet".into() }.put(batch, cave, JULIET);
    room::Request { nick: "nurse".into() }.put(batch, cave, "nurse@localhost");
    let hat = room_extra::Hat { uri: "urn:hat".into(), title: "Host".into(), hue: Some("327.25".into()) };
    let worn = vec![(JULIET.into(), "urn:hat".into())];
    room_extra::Hats { known: vec![hat], worn }.put(batch, cave);
    let hashes = room_extra::Hashes(vec![[7; 20]]);
    room_extra::put_card(batch, cave, Some((b"<vCard xmlns='vcard-temp'/>", &hashes)));
    room::Listed { name: "The orchard".into(), description: "".into() }.put(batch, "conference.localhost", "orchard");
}

/// Rows of the kinds added in format 6.
fn fill_since_6(batch: &mut Batch) {
    batch.put(Table::Meta, b"", b"upload-key", &[&[8; 32]]);
    let announced = Announcement {
        number: 4,
        at_us: THEN_S * 1_000_000,
        until_us: (THEN_S + 3_600) * 1_000_000,
        text: "A plague on both your houses".into(),
    };
    announcement::put(batch, Some(&announced));
    announcement::put_seen(batch, ROMEO, 4);
    let hashes: Hashes = [HashKind::Sha1, HashKind::Sha256, HashKind::Sha512].into_iter().collect();
    batch.put(Table::Meta, b"", account::COMPLETE_KEY, &[&[hashes.bits()]]);
    let mut out_of_use = Credentials::derive(PASSWORD, 4_096, &[3; 16], 1_500_000_000_000_000).expect("keys");
    out_of_use.set_standing(account::Standing::Applies);
    let mut record = Vec::new();
    out_of_use.of(Incarnation::drawn(79)).encode(&mut record);
    batch.put(Table::Accounts, NAMESAKE.as_bytes(), b"", &[&record]);
    fill_records(batch);
    fill_nodes(batch);
    fill_sessions(batch);
    fill_invitations(batch);
}

/// The server's records of accounts besides their rosters.
fn fill_records(batch: &mut Batch) {
    let nobody = "tybalt@localhost";
    assert!(blocking::put(batch, ROMEO, vec![nobody.into()]));
    vcard::put(batch, JULIET, b"<vCard xmlns='vcard-temp'><FN>Juliet</FN></vCard>");
    Photo::from_hex(&"0a".repeat(20)).expect("a hash").put(batch, JULIET);
    let mut own = |account: &str, name: &str, row: &[&[u8]]| {
        batch.put(Table::Private, account.as_bytes(), &private::own_key(name), row);
    };
    own(JULIET, "bookmarks", &[&[1]]);
    // Where the roster decides: one contact, one JID that is always archived, and one that never
    // is.
    let prefs: [&[u8]; 5] =
        [&[1, 2], &1_u32.to_le_bytes(), &77_u64.to_le_bytes(), b"nurse@localhost\0\0", b"tybalt@localhost\0"];
    let numbers = [THEN_S * 1_000_000, THEN_S * 1_000_000 + 1, 2].map(u64::to_be_bytes);
    let slots = [1_600_000_000_u32, 1_600_000_300].map(u32::to_be_bytes);
    own(JULIET, "upload", &[&[1], numbers.as_flattened(), slots.as_flattened()]);
    let mut devices = Registrations::default();
    devices.put(Registration {
        jid: "push.verona.example".into(),
        node: "phone".into(),
        device: 5,
        options: b"<x xmlns='jabber:x:data' type='submit'></x>"[..].into(),
        failures: 1,
        until_s: THEN_S,
    });
    record::put(batch, JULIET, record::PUSH, &devices.row());
    record::put(batch, JULIET, record::MAM, &prefs.concat());
    let mut tokens = Tokens::default();
    let token = |nonce, kind| Token { kind, nonce: [nonce; 16], expires_s: THEN_S + 86_400, count: 0 };
    tokens.add(&[1; 16], token(1, TokenKind::Exporter), THEN_S);
    assert!(tokens.used(&[1; 16], Place::New, Some(3), THEN_S));
    tokens.add(&[1; 16], token(2, TokenKind::EndPoint), THEN_S);
    tokens.add(&[2; 16], token(3, TokenKind::Unbound), THEN_S);
    tokens.write(batch, JULIET);
    let romeo = Peer::of(ROMEO);
    let mut part = Part::default();
    [2, 3, 4].into_iter().for_each(|number| part.add(romeo, number));
    part.put(batch, JULIET, usize::from(romeo.part), 4, 4);
    let mut last = Part::default();
    last.add(romeo, 5);
    last.put(batch, JULIET, usize::from(romeo.part), OPEN, 5);
    Peers { until: 5, open: 1, closed: vec![4] }.put(batch, JULIET);
    let retraction = Retraction { number: 5, time_ms: THEN_S * 1_000 + 5, id: "back" };
    retraction.put(batch, JULIET, &Retracted::of(true, ROMEO, "third"));
}

/// A directory without nodes, after this many publications.
fn directory(last: u64) -> Directory {
    let mut directory = Directory::default();
    directory.last = last;
    directory
}

/// Nodes of accounts and of a service, in each form of a directory.
fn fill_nodes(batch: &mut Batch) {
    let mut tunes = directory(9);
    let item = Item { at_us: THEN_S * 1_000_000, id: "lute", payload: b"<tune xmlns='urn:x'/>" };
    let kept = |bytes: u32| (1, u64::from(bytes));
    let node = tunes.configure("tunes", Config { groups: vec!["Montagues".into()], ..Config::default() });
    ((node.items, node.bytes), node.listed) = (kept(item.bytes()), true);
    item.put(batch, JULIET, "tunes", 9);
    let mut people = Affiliates::default();
    people.affiliate("nurse@localhost", Some(Affiliation::Member));
    people.affiliate("tybalt@localhost", Some(Affiliation::Outcast));
    people.subscribe("romeo@localhost/r");
    assert!(people.want("paris@localhost"));
    assert!(people.want("peter@localhost"));
    assert!(people.unsubscribe("peter@localhost"));
    people.put(batch, JULIET, "tunes").expect("few");
    tunes.put(batch, JULIET).expect("few");
    let mut expires = directory(3);
    expires.configure("mood", Config { expire_s: 60, ..Config::default() });
    expires.put(batch, ROMEO).expect("few");
    // The service's: one for its members, and one with keys.
    let open = Config { publish: PublishModel::Open, title: "News".into(), items_max: 10, ..Config::default() };
    let mut owned = directory(1);
    owned.configure("court", open.clone()).owners.push(ROMEO.into());
    owned.put(batch, "pubsub.localhost/court").expect("few");
    let item = Item { at_us: THEN_S * 1_000_000, id: "key-plague", payload: b"<news xmlns='urn:x'/>" };
    let mut keyed = directory(2);
    let node = keyed.configure("news", Config { access: Access::Open, ..open });
    node.owners.push(ROMEO.into());
    ((node.items, node.bytes), node.subscribers, node.affiliated) = (kept(item.bytes()), 2, 1);
    node.has_keys(2);
    keyed.put(batch, NEWS).expect("few");
    item.put_by(batch, NEWS, "news", 2, "mine");
    let juliet = Member {
        affiliation: Some(Affiliation::Publisher),
        state: State::Subscribed,
        address: "juliet@localhost/balcony".into(),
        ..Member::default()
    };
    juliet.put(batch, NEWS, JULIET);
    // Away since the first item.
    let mut romeo = Member { state: State::Subscribed, address: ROMEO.into(), ..Member::default() };
    romeo.follower.miss(2);
    romeo.put(batch, NEWS, ROMEO);
    Named::Missed.note(batch, ROMEO, NEWS);
    let owner = Member { affiliation: Some(Affiliation::Owner), ..Member::default() };
    Named::Own.put(batch, ROMEO, NEWS, &owner.encode());
    Named::Given.put(batch, JULIET, NEWS, &Member { state: State::None, ..juliet }.encode());
    Named::Shown.put(batch, "pubsub.localhost", "news", b"\x01News");
    fill_pages(batch);
}

/// Registrations for Web Push about news: one per kind of permission, from two addresses.
fn fill_pages(batch: &mut Batch) {
    let (v4, v6): ([u8; 4], [u8; 8]) = ([192, 0, 2, 1], [0x20, 1, 0xd, 0xb8, 0, 0, 0, 1]);
    let named = By::Token([6; 32], Some("balcony".into()));
    let rights = [By::Everybody, named, By::Token([7; 32], None), By::Permit];
    for (at, by) in rights.into_iter().enumerate() {
        let number = at as u8 + 1;
        let registration = page::Registration {
            until_s: THEN_S + u64::from(number) * 86_400,
            network: if number < 4 { v4.into() } else { v6.into() },
            by,
            p256dh: [4; 65],
            auth: [number; 16],
            endpoint: format!("https://push.verona.example/p/{number}").into(),
        };
        nodes::put_push(batch, NEWS, PushId([number; 16]), &registration.encode());
    }
    for (network, count) in [(&b""[..], 4), (&v4[..], 3), (&v6[..], 1)] {
        nodes::put_push_count(batch, NEWS, network, count);
    }
    fill_floors(batch);
}

/// Node numbers that are not reused: a node in the partition of news was deleted, and the store was
/// restored.
fn fill_floors(batch: &mut Batch) {
    Floor { made: 58, all: 0 }.put(batch, Scope::of(NEWS));
    Floor::default().raised(THEN_S).put(batch, Scope::Store);
}

/// A session that could have been resumed, and entries that refer to it.
fn fill_sessions(batch: &mut Batch) {
    let key = sessions::Key::of(&[5; 16]);
    let kept = Kept {
        life: 9,
        incarnation: 77,
        resume_s: 300,
        resource: "r".into(),
        presence: Some(b"<presence><show>away</show></presence>"[..].into()),
        priority: -1,
        interested: true,
        follows: true,
        marks: vec!["carbons".into()],
        directed: vec![JULIET.into()],
        lang: Some("it".into()),
    };
    let counts = Counts {
        serial: 1,
        handled: 4,
        from: 1,
        sent: 6,
        number: 5,
        seen: 5,
        detached_s: THEN_S,
        held: vec![(5, 77)],
        pushes: vec![(6, b"<iq type='set' id='push'/>"[..].into())],
    };
    kept.put(&counts, batch, ROMEO, key);
    Counts { serial: 2, handled: 5, ..counts }.put(batch, ROMEO, key);
    sessions::put_push(batch, ROMEO, key, 1, b"<iq type='set' id='later'/>");
    sessions::put_dropped(batch, ROMEO, 1);
    let mut trail = Trail::default();
    trail.add(Step::Sent { tag: key.tag(), seq: 5, open: 2 });
    trail.add(Step::Handed { tag: key.tag(), count: 7 });
    let xml = b"<message from='romeo@localhost/r' to='juliet@localhost' id='sixth'><body>sixth</body></message>";
    let time_ms = THEN_S * 1_000 + 8;
    let entry = Entry { incoming: false, waits: false, time_ms, peer: JULIET, xml, trail: trail.bytes() };
    entry.put(batch, ROMEO, 8);
    let entry = Entry { incoming: true, waits: true, peer: "nurse@localhost/n", ..entry };
    Transient { of: None, entry }.put(batch, ROMEO, 9);
    Apart { holder: Holder::of_tag(key.tag()), entry }.put(batch, ROMEO, 10);
}

/// An invitation with a use in progress, an expired one, an account that waits for approval, and a
/// report.
fn fill_invitations(batch: &mut Batch) {
    let claim = Claim { account: "paris@localhost".into(), incarnation: Incarnation::drawn(80), life: 9, at_s: THEN_S };
    let invitation = Invitation {
        registers: true,
        befriends: true,
        uses: 3,
        left: 1,
        made_s: THEN_S,
        until_s: THEN_S + 86_400,
        inviter: JULIET.into(),
        claims: vec![claim],
        joined: vec![ROMEO.into()],
        ..Invitation::default()
    };
    invitation.put(batch, JULIET, InvitationId::of("token"));
    let of_domain = Invitation { is_named: true, is_trusted: true, is_revoked: true, uses: 1, ..Invitation::default() };
    of_domain.put(batch, "localhost", InvitationId::of("another"));
    let applicant = Applicant { incarnation: Incarnation::drawn(81), since_s: THEN_S, address: "192.0.2.1".into() };
    applicant.put(batch, "localhost", "mercutio@localhost");
    let report = Report {
        jid: "tybalt@localhost".into(),
        reason: "urn:xmpp:reporting:abuse".into(),
        text: "thou art a villain".into(),
        messages: "3".into(),
    };
    report.put(batch, "localhost", ReportKey { at_s: THEN_S, id: ReportId(5) }, ROMEO);
}

/// Creates the folder of this program's format, and its listing.
fn keep_this_format() {
    let (folder, list) = kept(FORMAT_VERSION);
    let (data, found) = filled();
    copy(&data.path().join("store"), &folder.join("store"));
    std::fs::write(list, found).expect("written");
}
