//! Stores of each format that was released, kept under `tests/data` as they were written, get to this program's and are whole.
//!
//! **Whoever makes a new format** (`disk/format.rs`) keeps the folder of the one before as it is. Its listing says what the rows
//! have to be after the change: where that differs, it is written anew, and looked at line by line. The folder of the
//! new format is made, where there is none yet, by
//!
//!     UPDATE_REFERENCE=1 cargo test -p throng --test process formats

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use throng::disk::format::FORMAT_VERSION;
use throng::disk::{Engine, FolderLock, Options, Store, Visit};
use throng_engine::id::{PartitionMap, SessionId, ShardId};
use throng_engine::shard::number_floor_sort_key;
use throng_engine::store::account::{Credentials, Incarnation};
use throng_engine::store::archive::{self, Entry};
use throng_engine::store::private::{self, LastLogout};
use throng_engine::store::roster::{self, Groups, ItemView, Unconfirmed, Version};
use throng_engine::store::waiting::{Apart, Cursor, Holder, Transient};
use throng_engine::store::{Batch, Table, key};
use xxhash_rust::xxh3::xxh3_64;

use crate::support::{Client, Host, PASSWORD, read};

/// The formats that were released.
const KEPT: [u32; 1] = [5];

const ROMEO: &str = "romeo@localhost";
const JULIET: &str = "juliet@localhost";

/// At another domain of the same store.
const NAMESAKE: &str = "romeo@verona.example";

/// Values longer than this are listed by their length and a checksum.
const VALUE_BYTES_MAX: usize = 400;

fn kept(format: u32) -> (PathBuf, PathBuf) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    (data.join(format!("format-{format}")), data.join(format!("format-{format}.txt")))
}

/// All rows, a line each.
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

fn lock(folder: &Path) -> FolderLock {
    FolderLock::take(folder, "test").expect("a folder of the test's own")
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
        is_sound_and_served(data);
    }
}

/// What the rows mean is what it was: they can be decoded, and users log in and find what waited for them.
fn is_sound_and_served(data: tempfile::TempDir) {
    let mut host = Host::on(data);
    assert!(host.good(&["store", "check"]).ends_with("check: good\n"));
    assert_eq!(host.good(&["user", "list"]), format!("{JULIET}\n{ROMEO}\n{NAMESAKE}\n"));
    host.start(&["--c2s-tls", "off", "--shards", "2"]);
    let mut juliet = Client::connect(&host.plain).log_in("juliet", PASSWORD, "balcony");
    let roster = juliet.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>", "</iq>");
    assert!(roster.contains(ROMEO) && roster.contains("Montagues"), "{roster}");
    let blocked = juliet.ask("<iq type='get' id='b'><blocklist xmlns='urn:xmpp:blocking'/></iq>", "</iq>");
    assert!(blocked.contains("tybalt@localhost"), "{blocked}");
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
    // What Romeo has said to Juliet: in her archive, and in his. One behind the other they share a row.
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
        private::put(batch, JULIET, &private::own_key("blocking"), blocked);
        private::put_last(batch, ROMEO, LastLogout { at_us: 1_600_000_000_000_000, status: "gone to Mantua" });
        (1..=3).for_each(|number| said(batch, number..=number, false));
    });
    // These are in tables; what follows is in the journal alone.
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
    // Of the first entries some go, also out of the tables.
    commit(&|batch| batch.delete_range(Table::Archive, JULIET.as_bytes(), &[0; 8], &2_u64.to_be_bytes()));
    commit(&|batch| private::delete(batch, ROMEO, b"never there"));
}

/// Makes the folder of this program's format, and its listing.
fn keep_this_format() {
    let (folder, list) = kept(FORMAT_VERSION);
    let data = tempfile::tempdir().expect("a folder");
    let store = Store::open(&lock(data.path()), &Options::default()).expect("a store");
    fill(&*store.engine());
    let found = listing(&*store.engine());
    drop(store);
    copy(&data.path().join("store"), &folder.join("store"));
    std::fs::write(list, found).expect("written");
}
