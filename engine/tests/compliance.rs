//! Generates `docs/compliance.md`: the implemented specifications, from the table of extensions,
//! and the requirements of XEP-0479 for servers.
//!
//! The page lists the files and the tests that cite a specification. `UPDATE_REFERENCE=1 cargo test
//! -p throng-engine --test compliance` rewrites it.
#![allow(
    clippy::disallowed_methods,
    reason = "the page stands in a file, and a variable says that it is to be written"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use throng_engine::extension::{TABLE, Xep};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Specifications outside the table of extensions: they are implemented by streams, logs or the
/// server.
const CORE: &[Xep] = &[
    Xep { number: 124, version: "1.11.2", title: "Bidirectional-streams Over Synchronous HTTP (BOSH)" },
    Xep { number: 206, version: "1.4", title: "XMPP Over BOSH" },
    Xep { number: 156, version: "1.4.0", title: "Discovering Alternative XMPP Connection Methods" },
    Xep { number: 160, version: "1.0.1", title: "Best Practices for Handling Offline Messages" },
    Xep { number: 45, version: "1.35.5", title: "Multi-User Chat" },
    Xep { number: 55, version: "1.3", title: "Jabber Search" },
    Xep { number: 433, version: "0.1.0", title: "Extended Channel Search" },
    Xep { number: 317, version: "0.3.1", title: "Hats" },
    Xep { number: 452, version: "0.2.2", title: "MUC Mention Notifications" },
    Xep { number: 486, version: "0.1.0", title: "MUC Avatars" },
    Xep { number: 502, version: "0.1.0", title: "MUC Activity Indicator" },
    Xep { number: 410, version: "1.1.0", title: "MUC Self-Ping (Schrödinger's Chat)" },
    Xep { number: 421, version: "1.0.1", title: "Occupant identifiers for semi-anonymous MUCs" },
    Xep { number: 425, version: "0.3.0", title: "Moderated Message Retraction" },
    Xep { number: 500, version: "0.1.1", title: "MUC Slow Mode" },
    Xep { number: 114, version: "1.6", title: "Jabber Component Protocol" },
    Xep { number: 178, version: "1.2", title: "Best Practices for Use of SASL EXTERNAL with Certificates" },
    Xep { number: 198, version: "1.6.3", title: "Stream Management" },
    Xep { number: 203, version: "2.0", title: "Delayed Delivery" },
    Xep { number: 227, version: "1.1", title: "Portable Import/Export Format for XMPP-IM Servers" },
    Xep { number: 334, version: "1.0.0", title: "Message Processing Hints" },
    Xep { number: 359, version: "0.7.0", title: "Unique and Stable Stanza IDs" },
    Xep { number: 368, version: "1.1.0", title: "SRV records for XMPP over TLS" },
    Xep { number: 386, version: "1.1.0", title: "Bind 2" },
    Xep { number: 388, version: "1.0.4", title: "Extensible SASL Profile" },
    Xep { number: 440, version: "1.0.0", title: "SASL Channel-Binding Type Capability" },
    Xep { number: 474, version: "0.5.0", title: "SASL SCRAM Downgrade Protection" },
    Xep { number: 478, version: "0.2.0", title: "Stream Limits Advertisement" },
    Xep { number: 480, version: "0.2.0", title: "SASL Upgrade Tasks" },
    Xep { number: 484, version: "0.2.0", title: "Fast Authentication Streamlining Tokens" },
];

/// Implemented RFCs.
const RFCS: &[u16] = &[6120, 6121, 7395, 7590, 7622];

/// The requirements of XEP-0479 (2023) for servers: category, feature, level, and the
/// specifications that provide it.
const SUITE: &[(&str, &str, &str, &[Text])] = &[
    ("Core", "Core features", "Core", &[Rfc(6120)]),
    ("Core", "TLS", "Core", &[Rfc(7590)]),
    ("Core", "Direct TLS", "Advanced", &[Number(368)]),
    ("Core", "Feature discovery", "Core", &[Number(30)]),
    ("Core", "Feature broadcasts", "Advanced", &[Number(115)]),
    ("Core", "Server extensibility", "Core", &[Number(114)]),
    ("Core", "Event publishing", "Advanced", &[Number(163)]),
    ("Web", "Web connection mechanisms", "Core", &[Rfc(7395), Number(206)]),
    ("IM", "Core features", "Core", &[Rfc(6121)]),
    ("IM", "User avatar compatibility", "Advanced", &[Number(398), Number(153)]),
    ("IM", "vcard-temp", "Core", &[Number(54)]),
    ("IM", "Outbound message synchronization", "Core", &[Number(280)]),
    ("IM", "User blocking", "Advanced", &[Number(191)]),
    ("IM", "Group chat", "Core", &[Number(45)]),
    ("IM", "Advanced group chat", "Advanced", &[Number(48), Number(313), Number(402), Number(410)]),
    ("IM", "Persistent storage of private data via PubSub", "Advanced", &[Number(223)]),
    ("IM", "Private XML storage", "Advanced", &[Number(49)]),
    ("IM", "Stream management", "Advanced", &[Number(198)]),
    ("IM", "History storage and retrieval", "Advanced", &[Number(313)]),
    ("IM", "File upload", "Core", &[Number(363)]),
    ("Mobile", "Stream management", "Core", &[Number(198)]),
    ("Mobile", "Client state indication", "Core", &[Number(352)]),
    ("Mobile", "Third-party push notifications", "Advanced", &[Number(357)]),
    ("A/V calling", "STUN/TURN server discovery", "Core", &[Number(215)]),
];

enum Text {
    Rfc(u16),
    Number(u16),
}
use Text::{Number, Rfc};

impl Text {
    fn name(&self) -> String {
        match self {
            Rfc(number) => format!("RFC {number}"),
            Number(number) => format!("XEP-{number:04}"),
        }
    }
}

/// Every implemented specification, by number, with the name of its row in the table.
fn implemented() -> BTreeMap<u16, (Xep, &'static str)> {
    let rows = TABLE.iter().flat_map(|row| row.xeps.iter().map(|xep| (*xep, row.name)));
    let mut all = BTreeMap::new();
    for (xep, row) in rows.chain(CORE.iter().map(|xep| (*xep, ""))) {
        assert!(all.insert(xep.number, (xep, row)).is_none(), "XEP-{:04} is implemented twice", xep.number);
    }
    all
}

/// The files in some folders whose text satisfies a condition, sorted, relative to the root.
fn files(folders: &[&str], says: impl Fn(&str) -> bool) -> Vec<String> {
    let (mut waiting, mut found): (Vec<PathBuf>, _) =
        (folders.iter().map(|f| Path::new(ROOT).join(f)).collect(), vec![]);
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let skipped = |name: &str| name.starts_with('.') || name == "node_modules";
            let inside = std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path());
            waiting
                .extend(inside.filter(|path| path.file_name().is_some_and(|name| !skipped(&name.to_string_lossy()))));
        } else if std::fs::read_to_string(&path).is_ok_and(|text| says(&text)) {
            found.push(path.strip_prefix(ROOT).expect("below the root").to_string_lossy().into_owned());
        }
    }
    found.sort();
    found
}

/// Files whose module documentation cites a specification, or else all that cite it.
fn sources(number: u16) -> Vec<String> {
    let name = format!("XEP-{number:04}");
    let folders = ["engine/src", "server/src"];
    let head = |text: &str| text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains(&name));
    let about = files(&folders, head);
    if about.is_empty() { files(&folders, |text| text.contains(&name)) } else { about }
}

/// Scripts, tests with independent clients and tests over several modules that cite a
/// specification; or else unit tests.
fn tests(number: u16) -> Vec<String> {
    let names = [format!("XEP-{number:04}"), format!("xep{number:04}"), format!("xep_{number:04}")];
    let cites = |text: &str| names.iter().any(|name| text.contains(name));
    let is_test = |file: &String| !["actor", "events", "agent", "servers"].iter().any(|part| file.contains(part));
    let folders = ["tests/scripts", "tests/clients", "engine/tests/shard", "server/tests"];
    let found: Vec<_> = files(&folders, cites).into_iter().filter(is_test).filter(|f| !f.ends_with(".md")).collect();
    let unit = |text: &str| text.split_once("#[cfg(test)]\nmod tests {").is_some_and(|(_, tests)| cites(tests));
    let units = || files(&["engine/src", "server/src"], |text| unit(text));
    let in_files =
        || files(&["engine/src", "server/src"], cites).into_iter().filter(|file| file.contains("tests")).collect();
    [found].into_iter().chain([units(), in_files()]).find(|files: &Vec<String>| !files.is_empty()).unwrap_or_default()
}

fn links(files: &[String]) -> String {
    let name = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
    files.iter().map(|file| format!("[{}](../{file})", name(file))).collect::<Vec<_>>().join(", ")
}

fn page() -> String {
    let all = implemented();
    let mut page = String::from(
        "# Compliance\n\n\
         This page lists the extension protocols that Throng implements, with the version of the text that\n\
         was read, and what the compliance suites of 2023 (XEP-0479) ask of servers. It is generated from the\n\
         table of extensions: refresh it with `UPDATE_REFERENCE=1 cargo test -p throng-engine --test compliance`.\n\
         Where a text leaves a choice, [decisions/0005](decisions/0005-what-the-texts-leave.md) says what was\n\
         chosen. All of it since 0.1.0.\n\n\
         ## Extension protocols\n\n\
         Those with a name can be switched off by it (`--without`), unless RFC 6121 needs them.\n\n\
         | XEP | title | version | name | source | tests |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for (number, (xep, row)) in &all {
        let (sources, tests) = (links(&sources(*number)), links(&tests(*number)));
        let row = if row.is_empty() { String::new() } else { format!("`{row}`") };
        let _ = writeln!(
            page,
            "| [{number:04}](https://xmpp.org/extensions/xep-{number:04}.html) | {} | {} | {row} | {sources} | {tests} |",
            xep.title, xep.version
        );
    }
    page.push_str(
        "\n## Compliance suites 2023 (XEP-0479), servers\n\n\
         | category | feature | level | provided by | there |\n| --- | --- | --- | --- | --- |\n",
    );
    for (category, feature, level, texts) in SUITE {
        let there = texts.iter().all(|text| match text {
            Rfc(number) => RFCS.contains(number),
            Number(number) => all.contains_key(number),
        });
        let texts: Vec<_> = texts.iter().map(Text::name).collect();
        let there = if there { "yes" } else { "not yet" };
        let _ = writeln!(page, "| {category} | {feature} | {level} | {} | {there} |", texts.join(", "));
    }
    page
}

#[test]
fn the_page_is_what_the_table_of_extensions_says() {
    let file = Path::new(ROOT).join("docs/compliance.md");
    let page = page();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&file, &page).expect("the page can be written");
    }
    let stands = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stands == page, "docs/compliance.md is not up to date: see the head of this file");
}

#[test]
fn whatever_is_implemented_is_cited_and_tested() {
    for number in implemented().keys() {
        assert!(!sources(*number).is_empty(), "no file cites XEP-{number:04}");
        assert!(!tests(*number).is_empty(), "no test cites XEP-{number:04}");
    }
    let bare: Vec<_> = TABLE.iter().filter(|row| row.xeps.is_empty()).map(|row| row.name).collect();
    assert_eq!(bare, ["roster", "session"], "RFC 6121 has these, and no others");
}
