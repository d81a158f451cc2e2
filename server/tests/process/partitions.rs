//! Partitions in the program itself: their homes when the number of shards changes, and their
//! transfer from one store to another.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use throng_engine::id::partition;

use throng::disk::format::FORMAT_VERSION;

use crate::support::{Host, PASSWORD, good, throng};

fn start(host: &mut Host, shards: &str) {
    host.start(&["--c2s-tls", "off", "--shards", shards]);
}

/// Users' waiting messages, and their order, survive each change of homes.
#[test]
fn the_number_of_shards_may_change_between_starts() {
    let users: Vec<String> = (0..12).map(|n| format!("user{n}")).collect();
    let mut host = Host::new(&users.iter().map(String::as_str).collect::<Vec<_>>());
    let changes = [
        ("2", None),
        ("3", Some("shards=3 before=2 epoch=2 moved=1365")),
        ("3", None),
        ("1", Some("shards=1 before=3 epoch=3 moved=2730")),
        ("4", Some("shards=4 before=1 epoch=4 moved=3072")),
    ];
    for (round, (shards, spread)) in changes.into_iter().enumerate() {
        start(&mut host, shards);
        let log = host.log();
        let told = log.lines().find(|line| line.contains("redistributed the partitions over the shards"));
        assert_eq!(told.is_some(), spread.is_some(), "{log}");
        assert!(spread.is_none_or(|spread| told.is_some_and(|told| told.contains(spread))), "{log}");
        // Nobody else is connected: everything waits.
        let mut sender = host.client("user0");
        for user in &users[1..] {
            for word in ["first", "last"] {
                let id = format!("{round}{user}{word}");
                sender.send(&format!("<message to='{user}@localhost' id='{id}'><body>{word}{round}</body></message>"));
            }
        }
        sender.ask("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
        if round % 2 == 0 {
            host.stop();
            continue;
        }
        for user in &users[1..] {
            let mut receiver = host.client(user);
            receiver.send("<presence/>");
            for earlier in [round - 1, round] {
                for word in ["first", "last"] {
                    receiver.hear(&format!("<body>{word}{earlier}</body>"));
                }
            }
            receiver.ask("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
        }
        host.stop();
    }
    host.good(&["store", "check"]);
}

impl Host {
    /// The exit code and the output of a command that must fail.
    fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        (output.status.code().expect("an exit code"), String::from_utf8(output.stderr).expect("text"))
    }

    fn partitions(&self) -> Value {
        serde_json::from_str(&self.good(&["store", "partitions", "--json"])).expect("JSON")
    }
}

/// A user moves with the partition: account, waiting messages, and the order of later ones.
#[test]
fn a_partition_is_counted_exported_and_imported_into_another_store() {
    let users: Vec<String> = (0..20).map(|n| format!("user{n}")).collect();
    let mut from = Host::new(&users.iter().map(String::as_str).collect::<Vec<_>>());
    start(&mut from, "2");
    let mut sender = from.client("user0");
    for number in 0..50 {
        sender.send(&format!("<message to='user7@localhost'><body>early{number}</body></message>"));
    }
    sender.ask("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
    let (exit, text) = from.refused(&["store", "partitions"]);
    assert!(exit == 4 && text.contains("throng store backup DIR") && text.contains("--data DIR"), "{text}");
    // From a running server, by its backup.
    let backup = from.data().join("backup");
    let backup = backup.to_str().expect("a plain path");
    from.good(&["store", "backup", backup]);
    let of_backup = throng(&["store", "partitions", "--json", "--data", backup]);
    good(&of_backup);
    from.stop();
    let counted = from.partitions();
    assert_eq!(serde_json::from_slice::<Value>(&of_backup.stdout).expect("JSON")["users"], 20);
    assert_eq!((&counted["users"], &counted["epoch"], &counted["shards"]), (&20.into(), &1.into(), &2.into()));
    let own = partition("user7@localhost");
    let row =
        counted["partitions"].as_array().expect("rows").iter().find(|row| row["partition"] == own).expect("its own");
    assert_eq!((&row["users"], &row["shard"]), (&1.into(), &(own % 2).into()));
    assert!(row["rows"].as_u64() >= Some(3) && row["bytes"].as_u64() > Some(5_000), "{row}");

    let file = from.data().join("part.export");
    let file = file.to_str().expect("a plain path");
    let number = own.to_string();
    let said = from.good(&["store", "export", "--partition", &number, file, "--json"]);
    let done: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&done["done"], &done["counts"]["rows"]), (&"export".into(), &row["rows"]), "{said}");
    let mode = std::fs::metadata(file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "keys and messages are nobody else's");
    let (exit, text) = from.refused(&["store", "export", "--partition", &number, file]);
    assert!(exit == 1 && text.contains("already exists"), "{text}");
    let (exit, text) = from.refused(&["store", "import", file]);
    assert!(exit == 1 && text.contains("for example of user7@localhost") && text.contains("--replace"), "{text}");

    // Into a folder without a store: one is created, for the same domain.
    let mut to = Host::new(&[]);
    to.good(&["store", "import", file]);
    assert_eq!(to.good(&["user", "list"]), "user7@localhost\n");
    to.good(&["user", "add", "nurse", "--password", PASSWORD]);
    start(&mut to, "3");
    let mut nurse = to.client("nurse");
    nurse.ask("<message to='user7@localhost'><body>late</body></message><iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
    let mut receiver = to.client("user7");
    receiver.send("<presence/>");
    for number in 0..50 {
        receiver.hear(&format!("<body>early{number}</body>"));
    }
    receiver.hear("<body>late</body>");
    let (exit, text) = to.refused(&["store", "import", file]);
    assert!(exit == 4 && text.contains("stop it first"), "{text}");
    drop((receiver, nurse));
    to.stop();
    to.good(&["store", "import", file, "--replace"]);
    assert_eq!(to.good(&["user", "list"]), "nurse@localhost\nuser7@localhost\n");
    to.good(&["store", "check"]);

    // A damaged file, and one of another domain, change nothing.
    let whole = std::fs::read(file).expect("a file");
    let mut broken = whole.clone();
    broken[whole.len() / 2] ^= 1;
    std::fs::write(file, broken).expect("written");
    let (exit, text) = to.refused(&["store", "import", file, "--replace"]);
    assert!(exit == 1 && text.contains("is not a complete export of partitions"), "{text}");
    std::fs::write(file, whole).expect("written");
    let other = Host::new(&[]);
    other.good(&["user", "add", "romeo@example.org", "--password", PASSWORD]);
    let (exit, text) = other.refused(&["store", "import", file]);
    assert!(exit == 2 && text.contains("of the domain localhost, but the store belongs to example.org"), "{text}");
    assert_eq!(other.good(&["user", "list"]), "romeo@example.org\n");
    assert_eq!(to.good(&["store", "import", "--abandon"]), "partitions                   0\nimport: good\n");
    assert_eq!(to.good(&["store", "migrate"]), format!("the store has format {FORMAT_VERSION}\nmigrate: good\n"));
}
