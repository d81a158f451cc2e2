//! Data that Debian's ejabberd and Prosody have written (tests/move/samples), and hostile files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use throng_engine::id::{ActorKind, Domains};
use throng_engine::store::account::Credentials;
use throng_engine::store::hash::HashKind;
use throng_engine::store::room::{Affiliation, Record, Standing};
use throng_engine::store::{Batch, Query, Table};

use super::*;
use crate::disk::{Engine, MemoryEngine};
use crate::portable::parts::{ELEMENT_BYTES_MAX, TOKEN_BYTES_MAX};
use crate::portable::tests::give_of;
use crate::portable::{Existing, Import, Summary, import};

const NOW_US: u64 = 1_795_950_000_000_000;
const BALL: &str = "ball@conference.capulet.example";

fn domains() -> Domains {
    let mut domains = Domains::of_users("capulet.example");
    domains.serve("montague.example", ActorKind::Users);
    domains
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/move/samples").join(name)
}

fn take_with(engine: &MemoryEngine, from: &Path, dry_run: bool) -> (Summary, Result<(), String>) {
    let put = |batch: &mut Batch, floor: u64| batch.put(Table::Meta, b"", b"floor", &[&floor.to_be_bytes()]);
    let plan = Import {
        engine: Some(engine),
        domains: &domains(),
        rooms: "conference.capulet.example",
        format: recognise(from).expect("a format"),
        host: "capulet.example",
        existing: Existing::Skip,
        dry_run,
        iterations: 4096,
        threads: 2,
        number_floor: 40,
        put_number_floor: &put,
        now_us: NOW_US,
    };
    let (summary, end) = import(from, &plan, &mut |_| {});
    (summary, end.map_err(|wrong| format!("{wrong:?}")))
}

fn take(engine: &MemoryEngine, from: &Path) -> Summary {
    let (summary, end) = take_with(engine, from, false);
    end.expect("a good source");
    summary
}

fn give(engine: &MemoryEngine) -> String {
    give_of(engine, &domains()).1
}

fn notes(summary: &Summary) -> Vec<String> {
    summary.notes().map(|note| format!("{}: {} ({})", note.what, note.why, note.times)).collect()
}

fn credentials(engine: &MemoryEngine, user: &str) -> Credentials {
    let query = Query::Get { table: Table::Accounts, actor: user.as_bytes().into(), sort: Box::default() };
    let row = engine.read(&query).expect("read").value().expect("an account");
    Credentials::decode(&row).expect("a record")
}

/// The user's element of an export.
fn user<'a>(text: &'a str, name: &str) -> &'a str {
    let start = text.find(&format!("<user name='{name}'")).unwrap_or_else(|| panic!("{name} in {text}"));
    &text[start..start + text[start..].find("</user>").expect("its end")]
}

fn holds(text: &str, all: &[&str]) {
    all.iter().for_each(|part| assert!(text.contains(part), "{part} in {text}"));
}

/// What tests/move/people.py has done at the other server.
fn everything_is_there(engine: &MemoryEngine, has_ids: bool) {
    let text = give(engine);
    let juliet = user(&text, "juliet");
    holds(
        juliet,
        &[
            "<item jid='romeo@montague.example' name='R\u{f3}meo' subscription='both'><group>Montagues</group></item>",
            "from='mercutio@montague.example' to='juliet@capulet.example'",
            "<balcony xmlns='urn:example:house'><door open='yes'>left &amp; right</door></balcony>",
            "<FN>Juliet Capulet</FN>",
            "<item type='jid' value='paris@elsewhere.example' action='deny'",
            "<item id='current'><nick xmlns='http://jabber.org/protocol/nick'>Jule</nick></item>",
            "<item id='ball@rooms.example'><conference xmlns='urn:xmpp:bookmarks:1'",
            "<body>It is the \u{bb}east\u{ab} &amp; &lt;Juliet&gt; is the sun</body>",
            "<body>Arise \u{1f31e}</body>",
        ],
    );
    let waiting = &juliet
        [juliet.find("<offline-messages").expect("waiting")..juliet.find("</offline-messages").expect("its end")];
    holds(waiting, &["Parting is such sweet sorrow", "Good night"]);
    assert_eq!(waiting.matches("<message").count(), 2);
    // The copies in the archive are the same messages: clients see them once (XEP-0359).
    let archive = &juliet[juliet.find("<archive").expect("an archive")..];
    assert_eq!(archive.matches("<result").count(), 6);
    if has_ids {
        waiting.split("<stanza-id").skip(1).for_each(|id| {
            let id = id.split("id='").nth(1).and_then(|id| id.split('\'').next()).expect("an id");
            assert!(archive.contains(&format!("id='{id}'")), "{id}");
        });
    }
    // The bookmarks are private, the nick is open.
    let node = |name: &str| {
        let start = juliet.find(&format!("<configure node='{name}'")).expect("a node");
        &juliet[start..start + juliet[start..].find("</configure>").expect("its end")]
    };
    holds(node("urn:xmpp:bookmarks:1"), &["<value>whitelist</value>"]);
    holds(node("http://jabber.org/protocol/nick"), &["<value>open</value>"]);
    holds(user(&text, "romeo"), &["name='Juliet &amp; her balcony'", "<group>Love</group>", "<group>Verona</group>"]);
    holds(user(&text, "mercutio"), &["<item jid='juliet@capulet.example' subscription='none' ask='subscribe'>"]);
    let room = engine.read(&Record::query(BALL)).expect("read").value().expect("a room");
    let room = Record::decode(&room).expect("whole");
    let config = &room.config;
    assert_eq!((&*config.name, &*config.description), ("The ball & more", "Masks"));
    assert_eq!(config.password.as_deref(), Some("rose <water>"));
    assert!(config.members_only && config.persistent && !config.public && config.shows_jids && config.change_subject);
    assert_eq!((&*room.subject.text, &*room.subject.nick), ("A feast & a <mask>", "Jule"));
    for (jid, affiliation) in [
        ("juliet@capulet.example", Affiliation::Owner),
        ("nurse@capulet.example", Affiliation::Admin),
        ("romeo@montague.example", Affiliation::Member),
        ("paris@elsewhere.example", Affiliation::Outcast),
    ] {
        let row = engine.read(&Standing::query(BALL, jid)).expect("read").value().expect("a standing");
        assert_eq!(Standing::decode(&row).expect("whole").affiliation, affiliation);
    }
}

#[test]
fn prosodys_folder_moves_as_it_is() {
    let (from, engine) = (sample("prosody-folder"), MemoryEngine::new());
    assert_eq!(recognise(&from).ok(), Some(Format::Prosody));
    let (tried, end) = take_with(&engine, &from, true);
    assert_eq!((end, tried.users, tried.rooms), (Ok(()), 4, 1));
    assert_eq!(give(&engine).matches("<user").count(), 0, "a dry run writes nothing");
    let summary = take(&engine, &from);
    assert_eq!((summary.users, summary.left, summary.only_sha1, summary.rooms, summary.affiliations), (4, 0, 4, 1, 4));
    assert_eq!(
        notes(&summary),
        ["store: muc_log of conference.capulet.example: archives of rooms are not imported (1)"]
    );
    assert_eq!(summary.counts, tried.counts);
    assert_eq!(summary.bytes, tried.bytes);
    everything_is_there(&engine, true);
    assert_eq!(
        credentials(&engine, "juliet@capulet.example").keys(HashKind::Sha1).map(|set| set.iterations()),
        Some(10_000)
    );
    let again = take(&engine, &from);
    assert_eq!((again.users, again.there, again.rooms), (0, 5, 0), "an import can be repeated");
}

/// A folder with one host and these files.
fn prosody(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().expect("a folder");
    fs::create_dir_all(dir.path().join("capulet%2eexample/accounts")).expect("made");
    for (path, text) in files {
        let path = dir.path().join("capulet%2eexample").join(path);
        fs::create_dir_all(path.parent().expect("a store")).expect("made");
        fs::write(path, text).expect("written");
    }
    dir
}

#[test]
fn prosodys_passwords_and_keys_of_all_hash_functions_are_taken() {
    let dir = prosody(&[
        ("accounts/plain.dat", "return { [\"password\"] = \"pencil\"; };"),
        (
            "accounts/new.dat",
            &format!(
                "return {{ stored_key = \"{0}\"; server_key = \"{0}\"; salt = \"\\001\\255\"; iteration_count = 4096; }}",
                "ab".repeat(32)
            ),
        ),
        ("accounts/gone.dat", "return { [\"password\"] = \"pencil\"; [\"disabled\"] = true; };"),
        ("accounts/odd.dat", "return { stored_key = \"xy\"; server_key = \"ab\"; salt = \"s\"; iteration_count = 1; }"),
        ("accounts/%c3%b6ne.dat", "return { password = \"x\" }"),
    ]);
    let engine = MemoryEngine::new();
    let summary = take(&engine, dir.path());
    assert_eq!((summary.users, summary.left, summary.without_password), (5, 0, 2));
    let new = credentials(&engine, "new@capulet.example");
    let keys = new.keys(HashKind::Sha256).expect("keys");
    assert_eq!((keys.salt(), keys.iterations(), keys.keys().stored.as_bytes()), (&[1, 255][..], 4096, &[0xab; 32][..]));
    assert!(new.keys(HashKind::Sha1).is_none());
    for user in ["plain@capulet.example", "\u{f6}ne@capulet.example"] {
        assert!(credentials(&engine, user).keys(HashKind::Sha1).is_some());
    }
    let notes = notes(&summary).join("\n");
    holds(&notes, &["the account is disabled", "is not as Prosody writes it"]);
}

#[test]
fn a_hostile_folder_of_prosody_reaches_nothing_else() {
    let dir = prosody(&[
        ("accounts/%2e%2e%2f%2e%2e%2fetc%2fpasswd.dat", "return { password = \"x\" }"),
        ("accounts/good.dat", "return { password = \"x\" }"),
        ("accounts/code.dat", "return os.execute(\"touch /tmp/pwned\")"),
        ("accounts/%zz.dat", "return { password = \"x\" }"),
        ("accounts/%ff.dat", "return { password = \"x\" }"),
        ("vcard/good.dat", &format!("return {}{}", "{".repeat(100_000), "}".repeat(100_000))),
        ("private/good.dat", "return { x = { name = \"a><b\"; attr = { xmlns = \"y\"; } } }"),
        ("archive/good.list", "item({ name = \"message\"; attr = {}; \"x\"; key = \"1\"; with = \"a@b\"; });\nitem({"),
        ("lastlog/good.dat", "return {}"),
    ]);
    let host = dir.path().join("capulet%2eexample");
    fs::create_dir(host.join("roster")).expect("made");
    let secret = dir.path().join("secret");
    fs::write(&secret, "return { [\"paris@capulet.example\"] = { subscription = \"both\" } }").expect("written");
    symlink(&secret, host.join("roster/good.dat")).expect("linked");
    symlink("/etc", host.join("offline")).expect("linked");
    symlink(&host, dir.path().join("montague%2eexample")).expect("linked");
    fs::create_dir(host.join("blocklist")).expect("made");
    fs::create_dir(host.join("blocklist/good.dat")).expect("made");
    let engine = MemoryEngine::new();
    let summary = take(&engine, dir.path());
    // The one whose account is a program exists without a password: its other data is good.
    assert_eq!((summary.users, summary.left, summary.without_password), (2, 1, 1));
    assert!(!Path::new("/tmp/pwned").exists());
    // Each names the file that it is about.
    let first = |what: &str, why: &str| {
        let note = summary.notes().find(|note| note.what == what && note.why.starts_with(why));
        note.unwrap_or_else(|| panic!("{what}: {why}")).first
    };
    for (what, why, at) in [
        ("file", "accounts:", "accounts/code.dat:1"),
        ("file", "archive:", "archive/good.list:2"),
        ("file", "blocklist:", "blocklist/good.dat:1"),
        ("file", "roster:", "roster/good.dat:1"),
        ("file", "vcard:", "vcard/good.dat:1"),
        ("private element", "it is not well-formed", "private/good.dat:1"),
        ("archived message", "it has no time", "archive/good.list:1"),
        ("user", "\"%zz\"", "accounts/%zz.dat:1"),
    ] {
        let found = first(what, why);
        assert!(found.ends_with(at), "{what}: {why}: {found}, not {at}");
    }
    let notes = notes(&summary).join("\n");
    holds(
        &notes,
        &[
            "file: accounts: `{` is expected, not `o`; once it is repaired, import with `--existing replace` (1)",
            "file: archive: the file ends within a table; the rest of the file is skipped; once",
            "file: blocklist: it is no file; once",
            "file: roster: it is a link: links are not followed; once",
            "file: vcard: tables are nested more than 136 deep; once",
            "folder: capulet%2eexample/offline is a link: links are not followed (1)",
            "folder: montague%2eexample is a link: links are not followed (1)",
            "private element: it is not well-formed XML",
            "archived message: it has no time (1)",
            "store: lastlog of capulet.example: it is not imported (1)",
            "user: \"%ff\" is the name of no user (1)",
            "user: \"%zz\" is the name of no user (1)",
            "user: the name is none that is allowed",
        ],
    );
    assert!(!give(&engine).contains("paris"));
}

/// An account without its roster would be skipped when the import is repeated.
#[test]
fn an_error_of_the_system_ends_the_import_of_a_folder() {
    let roster = "return { [\"romeo@montague.example\"] = { subscription = \"both\" } }";
    let dir = prosody(&[("accounts/juliet.dat", "return { password = \"x\" }"), ("roster/juliet.dat", roster)]);
    let mut folder = prosody::Folder::open(dir.path()).expect("a folder");
    // What was a folder is none any more: ENOTDIR, which is neither a file nor the lack of one.
    let store = dir.path().join("capulet%2eexample/roster");
    fs::remove_dir_all(&store).expect("removed");
    fs::write(&store, "").expect("written");
    let end = std::iter::from_fn(|| folder.next().transpose()).find_map(Result::err);
    let Some(Wrong::File(wrong)) = end else { panic!("{end:?}") };
    assert!(wrong.ends_with("roster/juliet.dat: Not a directory (os error 20)"), "{wrong}");
    // A user whose name leaves no space for the longer ending of another store has nothing there.
    let long = format!("accounts/{}.dat", "x".repeat(251));
    let dir = prosody(&[(&long, "return { password = \"x\" }"), ("archive/juliet.list", "")]);
    assert_eq!(take(&MemoryEngine::new(), dir.path()).users, 1);
}

/// The beginning of a pipe could not be read again.
#[test]
fn what_is_no_file_and_no_folder_is_refused() {
    let wrong = format!("{:?}", recognise(Path::new("/dev/null")).expect_err("a device"));
    assert!(wrong.contains("/dev/null: it is no file and no folder"), "{wrong}");
    assert!(sources(Path::new("/dev/null"), Format::EjabberdSql, "x").is_err());
}

/// A dump cannot make an import hold more of a user than an element may have.
#[test]
fn values_that_are_too_large_are_left_out_and_gathered_ones_are_bounded() {
    let (engine, half) = (MemoryEngine::new(), "x".repeat(ELEMENT_BYTES_MAX / 2));
    let users = "INSERT INTO users(username, password) VALUES ('juliet', 'x'), ('nurse', 'x');\n";
    let card = format!(
        "INSERT INTO vcard(username, vcard) VALUES ('juliet', '<vCard xmlns=\"vcard-temp\"><FN>{half}{half}</FN></vCard>');\n"
    );
    let key = format!("INSERT INTO rosterusers(username, jid) VALUES ('juliet', '{}');\n", "j".repeat(TOKEN_BYTES_MAX));
    let mut text =
        format!("{users}{card}{key}INSERT INTO privacy_list(username, name, id) VALUES ('nurse', 'n', 1);\n");
    for order in 0..3 {
        text += &format!(
            "INSERT INTO privacy_list_data(id, t, value, action, ord) VALUES (1, 'j', '{half}', 'd', {order});\n"
        );
    }
    for _ in 0..3 {
        text += &format!("INSERT INTO rostergroups(username, jid, grp) VALUES ('juliet', 'a@x', '{half}');\n");
    }
    let (summary, end) = dump(&engine, &text);
    assert_eq!((end, summary.users), (Ok(()), 2));
    let notes = summary.notes().map(|note| format!("{}: {} ({}) {}", note.what, note.why, note.times, note.first));
    let notes = notes.collect::<Vec<_>>().join("\n");
    holds(
        &notes,
        &[
            "row: it has a name of more than 64 KiB, or another value of more than 4 MiB (2)",
            "dump:2",
            "privacy list: it has too many items (2)",
            "contact: it has too many groups, or one that is not UTF-8 (1)",
        ],
    );
}

#[test]
fn ejabberds_dumps_move_as_they_are() {
    for (name, hash) in [
        ("ejabberd-postgresql.sql", HashKind::Sha1),
        ("ejabberd-mariadb.sql", HashKind::Sha256),
        ("ejabberd-sqlite.sql", HashKind::Sha1),
        ("ejabberd-mnesia.dump", HashKind::Sha1),
    ] {
        let (from, engine) = (sample(name), MemoryEngine::new());
        let (tried, end) = take_with(&engine, &from, true);
        assert_eq!((end, tried.users, tried.rooms), (Ok(()), 4, 1), "{name}");
        let summary = take(&engine, &from);
        assert_eq!(
            (summary.users, summary.left, summary.rooms, summary.affiliations),
            (4, 0, 1, 4),
            "{name}: {summary:?}"
        );
        assert_eq!((summary.counts, summary.bytes), (tried.counts, tried.bytes), "{name}");
        let notes = notes(&summary);
        assert!(notes.len() == 1 && notes[0].contains("of rooms"), "{name}: {notes:?}");
        assert_eq!(summary.bytes, fs::metadata(&from).expect("a file").len());
        everything_is_there(&engine, true);
        assert!(credentials(&engine, "juliet@capulet.example").keys(hash).is_some_and(|set| set.iterations() == 4096));
        let again = take(&engine, &from);
        assert_eq!((again.users, again.there, again.rooms), (0, 5, 0), "{name}: an import can be repeated");
    }
}

/// `ejabberdctl export2sql` writes one host, in the schema without hosts.
#[test]
fn rows_without_a_host_are_of_the_host_that_is_named() {
    let engine = MemoryEngine::new();
    let summary = take(&engine, &sample("ejabberd-export2sql.sql"));
    assert_eq!((summary.users, summary.left, summary.rooms), (2, 0, 1), "{summary:?}");
    holds(
        user(&give(&engine), "juliet"),
        &["R\u{f3}meo", "<item id='crypt@rooms.example'>", "paris@elsewhere.example"],
    );
}

/// Imports a text as a dump.
fn dump(engine: &MemoryEngine, text: &str) -> (Summary, Result<(), String>) {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("dump");
    fs::write(&path, text).expect("written");
    take_with(engine, &path, false)
}

#[test]
fn passwords_and_privacy_lists_of_ejabberd_are_taken() {
    let engine = MemoryEngine::new();
    let (summary, end) = dump(
        &engine,
        "INSERT INTO users(username, password, iterationcount) VALUES ('plain', 'pen''cil', 0), ('odd', 'x', 7);\n\
         INSERT INTO privacy_list_data(id, t, value, action, ord, match_all, match_iq, match_message, match_presence_in, \
         match_presence_out) VALUES (3, 'j', 'part@x', 'd', 1, 'f', 't', 'f', 'f', 'f'), (3, 'j', 'whole@x', 'd', 2, 't', 'f', 'f', 'f', 'f');\n\
         INSERT INTO privacy_list(username, name, id) VALUES ('plain', 'mine', 3);\n\
         INSERT INTO privacy_default_list(username, name) VALUES ('plain', 'mine');\n\
         INSERT INTO rosterusers(username, jid, nick, subscription, ask, askmessage) VALUES ('plain', 'asks@x', '', 'N', 'I', 'Please & now'), \
         ('nobody', 'a@x', '', 'B', 'N', '');\n",
    );
    assert_eq!((end, summary.users, summary.without_password), (Ok(()), 2, 1));
    let text = give(&engine);
    holds(user(&text, "plain"), &["value='whole@x'", "<status>Please &amp; now</status>"]);
    assert!(!text.contains("part@x") && !user(&text, "plain").contains("<item jid='asks@x'"));
    let notes = notes(&summary).join("\n");
    holds(&notes, &["length of no hash function", "rows of a user without an account", "does not deny everything"]);
    let engine = MemoryEngine::new();
    let (summary, end) = dump(
        &engine,
        "{tables,[]}.\n{passwd,{<<\"plain\">>,<<\"capulet.example\">>},<<\"pencil\">>}.\n{muc_room,{<<\"r\">>,<<\"conference.capulet.example\">>},\
         [{persistent,true},{moderated,true},{password_protected,true},{affiliations,[]}]}.\n",
    );
    assert_eq!((end, summary.users, summary.rooms, summary.left), (Ok(()), 1, 0, 1), "{summary:?}");
    // XEP-0045 10.2: a room whose password is lost is not opened to all.
    holds(&self::notes(&summary).join("\n"), &["the configuration has a value that cannot be"]);
}

#[test]
fn hostile_dumps_end_with_file_and_line() {
    let engine = MemoryEngine::new();
    for (text, why) in [
        ("INSERT INTO users(username) VALUES\n(system('x'));", "dump:2: `SYSTEM` is no value"),
        ("INSERT INTO plugins VALUES(1);\nINSERT INTO users VALUES('x');", "dump:2: the columns of users are unknown"),
        ("{tables,[]}.\nos:cmd(\"x\").\n", "dump:2: a period"),
        ("{tables,[]}.\n{passwd", "dump:2: the file ends within"),
    ] {
        let (summary, end) = dump(&engine, text);
        assert_eq!(summary.users, 0);
        assert!(end.as_ref().expect_err(text).contains(why), "{text}: {end:?}");
    }
    let names = "INSERT INTO users(username, password) VALUES ('../x', 'a'), ('', 'a'), ('a\u{1}b', 'a'), ('good', 'a');\n\
                 INSERT INTO vcard(username, vcard) VALUES ('good', '<vCard xmlns=\"vcard-temp\"><FN>x</vCard>');";
    let (summary, end) = dump(&engine, names);
    assert_eq!((end, summary.users, summary.left), (Ok(()), 1, 2));
    holds(
        &notes(&summary).join("\n"),
        &["row: it names no user (1)", "vCard: it is not well-formed XML", "user: the name"],
    );
    let dir = TempDir::new().expect("a folder");
    for (bytes, why) in [
        (&b"\x1f\x8b\x08"[..], "gunzip"),
        (b"PGDMP\x01", "plain"),
        (b"SQLite format 3\0", ".dump"),
        (b"ab\0", "binary"),
    ] {
        let path = dir.path().join("dump");
        fs::write(&path, bytes).expect("written");
        let wrong = format!("{:?}", recognise(&path).expect_err("not text"));
        assert!(wrong.contains(why), "{wrong}");
    }
}

#[test]
fn elements_of_fields_are_bounded_and_single() {
    for (text, why) in [
        ("<a/><b/>", "more than one"),
        ("</x><x>", "well-formed"),
        ("text", "text"),
        ("", "empty"),
        ("<a", "well-formed"),
        ("<!DOCTYPE a><a/>", "well-formed"),
        ("<a>&lol;</a>", "well-formed"),
    ] {
        let wrong = xml::element(text.as_bytes(), "y").expect_err(text);
        assert!(wrong.contains(why), "{text}: {wrong}");
    }
    let deep = |levels: usize| format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels));
    assert!(xml::element(deep(64).as_bytes(), "y").is_ok());
    assert!(xml::element(deep(65).as_bytes(), "y").expect_err("too deep").contains("nested"));
}
