//! `throng export` and `throng import`: accounts with all their data, to and from other servers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use throng_engine::limits::SCRAM_ITERATIONS_MIN;

use super::accounts::{in_use, no_folder, place_flags, tell_tightened};
use super::{Arrive, Exit, Failure, Io, Leave, Program};
use crate::config::{Loaded, Source, read_domain};
use crate::disk::FolderLock;
use crate::portable::{Existing, Format, Layout, Summary, Wrong, recognise};

const EXPORT: &str = "\
Writes accounts with rosters, waiting messages, private data, vCards, blocked addresses, nodes \
and archives in the portable format (XEP-0227). The server must be stopped; to export from a \
running one, make a backup, restore it into another folder, and export from that.

The files contain password keys and all messages. They are created with mode 0600; keep it.

LAYOUT   file: one file; folder: main.xml, which includes a file for each host and each user; \
ejabberd: main.xml, which includes a \
whole file for each host, with SCRAM keys in base64 twice, which is how ejabberd reads them; \
prosody: a whole file for each user, named \
by the JID, which is what Prosody's storage `xep0227` reads. When not given it is `file` for a \
name that ends with .xml, and `folder` \
otherwise.

With --user, TO is a folder: account.xml has the account in the portable format, account.json what \
the format cannot express: rooms with affiliations, uploaded files, push services, dates and sizes. \
Password keys, secrets of push services and login tokens are left out. It answers a request for personal data.

Examples:
  throng export everything.xml
  throng export --user romeo@example.org /srv/romeo
  throng export --layout ejabberd /srv/ejabberd-import
  throng export --only example.org --layout prosody /srv/prosody-import
  throng store backup /backups/now && throng store restore /backups/now --data ./copy && throng \
export --data ./copy out.xml";

const IMPORT: &str = "\
Imports accounts with all their data, and rooms, from the files of another server. The server must \
be stopped. A store is created if there is none; --domain then sets its main domain. Other hosts in \
the files are imported if --virtual-hosts (or the configuration) names them; rooms are those of \
conference.DOMAIN. FROM is

  the data folder of Prosody      /var/lib/prosody, with `storage = \"internal\"`, its default
  a dump of ejabberd's database   `mysqldump`, `pg_dump` or `ejabberdctl export2sql` as text; --host \
names the domain of the users where the schema has none
  a dump of ejabberd's Mnesia     `ejabberdctl dump FILE`
  files in the portable format    XEP-0227, as `throng export` and `ejabberdctl export_piefxis` write \
them; in a folder, all files *.xml that begin with <server-data/>

It is recognised by its content; --format names it.

An account or room is imported as a whole or not at all. If the import fails or is interrupted, \
what was imported remains, and repeating the import continues: existing accounts are left unchanged \
unless --existing is given. Data that cannot be imported is reported, with the file and line of its \
first occurrence.

Dumps list table by table, so their rows are sorted first, in files without a name in TMPDIR or \
/var/tmp; they take about the size of the dump.

Plain-text passwords are hashed into SCRAM keys, which takes most of the time, as with `throng \
user import`.

Examples:
  throng import --dry-run /var/lib/prosody --domain example.org
  throng import ejabberd.sql --data DIR --domain example.org --virtual-hosts example.net
  throng import everything.xml --json";

/// The commands, with the options of the data folder that `rows` adds, and those of hashing.
pub(super) fn commands(rows: &dyn Fn(Command) -> Command, hashing: &dyn Fn(Command) -> Command) -> [Command; 2] {
    let place = |name: &'static str, word: &'static str, help: &'static str| {
        Arg::new(name).value_name(word).required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let value = |name: &'static str, word: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(word).help(help)
    };
    [
        rows(Command::new("export"))
            .about("Export accounts with all their data, for other servers (XEP-0227); the server must be stopped")
            .after_help(EXPORT)
            .arg(place("to", "TO", "File or folder to create; must not exist, except as an empty folder"))
            .arg(
                value("layout", "LAYOUT", "Layout of the files: file, folder, ejabberd or prosody")
                    .value_parser(["file", "folder", "ejabberd", "prosody"]),
            )
            .arg(
                value("only", "DOMAIN", "Only accounts of this domain; may be repeated")
                    .action(ArgAction::Append)
                    .value_parser(|text: &str| read_domain(text).ok_or_else(|| format!("{text} is not a domain"))),
            )
            .arg(
                value("user", "JID", "Only this account, with a summary of everything that is stored of it")
                    .conflicts_with_all(["layout", "only"]),
            )
            .arg(flag("no-archive", "Do not export archives")),
        hashing(Command::new("import"))
            .about("Import accounts with all their data, and rooms, from other servers; the server must be stopped")
            .after_help(IMPORT)
            .arg(place("from", "FROM", "File, or folder of files"))
            .arg(
                value("format", "FORMAT", "Format of FROM, which is otherwise recognised")
                    .value_parser(Format::ALL.map(|(name, _)| name)),
            )
            .arg(
                value(
                    "host",
                    "DOMAIN",
                    "Domain of the users in a dump of SQL without hosts; the main one if not given",
                )
                .value_parser(|text: &str| read_domain(text).ok_or_else(|| format!("{text} is not a domain"))),
            )
            .arg(
                value("existing", "WORD", "How to treat existing accounts: error, skip or replace")
                    .value_parser(["error", "skip", "replace"])
                    .default_value("skip"),
            )
            .arg(flag("dry-run", "Read everything and report what would be imported, without writing"))
            .arg(
                value("threads", "N", "Threads that hash passwords; all cores when not given")
                    .value_parser(value_parser!(u16).range(1..=1024)),
            ),
    ]
}

/// Runs `throng export`.
///
/// # Errors
/// The folder is in use; errors of the store or a file; `Partly` if something could not be exported
/// faithfully.
pub(super) fn export(matches: &ArgMatches, loaded: &Loaded, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let config = &loaded.config;
    let to = matches.get_one::<PathBuf>("to").expect("clap requires it");
    let layout = match matches.get_one::<String>("layout").map(String::as_str) {
        Some("file") => Layout::File,
        Some("ejabberd") => Layout::Hosts,
        Some("prosody") => Layout::Users,
        Some(_) => Layout::Folder,
        None if to.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml")) => Layout::File,
        None => Layout::Folder,
    };
    let domains: BTreeSet<String> = matches.get_many("only").unwrap_or_default().cloned().collect();
    if !config.data.exists() {
        return Err(no_folder(config));
    }
    let lock = FolderLock::take(&config.data, "export").map_err(|error| {
        let hint = "stop it, or make a backup (`throng store backup DIR`), restore it into \
                    another folder, and export from there";
        in_use(config, error, hint)
    })?;
    tell_tightened(&lock, io);
    let user = matches.get_one::<String>("user").map(String::as_str);
    let leave = Leave { to, layout, domains, user, archive: !matches.get_flag("no-archive") };
    let summary = program.leave(config, &lock, &leave, &mut |line| io.tell(line))?;
    tell("export", &summary, true, io);
    ended(&summary)
}

/// Runs `throng import`.
///
/// # Errors
/// The folder is in use; errors of the store or a file; `Partly` if something could not be imported
/// faithfully.
pub(super) fn import(matches: &ArgMatches, loaded: &Loaded, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let config = &loaded.config;
    let from = matches.get_one::<PathBuf>("from").expect("clap requires it");
    let dry_run = matches.get_flag("dry-run");
    if !from.exists() {
        return Err(Failure::failed(format!("there is no {}", from.display())));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let named = matches.get_one::<String>("format").map(String::as_str);
    let format = match Format::ALL.into_iter().find(|(name, _)| named == Some(*name)) {
        Some((_, format)) => format,
        None => recognise(from).map_err(|wrong| match wrong {
            Wrong::File(text) => Failure::failed(text),
            Wrong::Store(error) => Failure::failed(error.to_string()),
        })?,
    };
    let arrive = Arrive {
        from,
        format,
        host: matches.get_one::<String>("host").map(String::as_str),
        domain: (*loaded.source("domain") != Source::Default).then_some(config.domain.as_str()),
        existing: match matches.get_one::<String>("existing").map(String::as_str) {
            Some("error") => Existing::Refuse,
            Some("replace") => Existing::Replace,
            _ => Existing::Skip,
        },
        dry_run,
        iterations: match loaded.source("scram_iterations") {
            Source::Default => SCRAM_ITERATIONS_MIN,
            _ => u32::try_from(config.scram_iterations).expect("within its range"),
        },
        threads: matches.get_one::<u16>("threads").map_or(cores, |threads| usize::from(*threads)),
    };
    // A dry run creates no folder.
    let lock = match dry_run && !config.data.exists() {
        true => None,
        false => {
            let taken = FolderLock::take(&config.data, "import");
            Some(taken.map_err(|error| in_use(config, error, "stop it first"))?)
        }
    };
    if let Some(lock) = &lock {
        tell_tightened(lock, io);
    }
    let (summary, end) = program.arrive(config, lock.as_ref(), &arrive, &mut |line| io.tell(line))?;
    tell(if dry_run { "dry run" } else { "import" }, &summary, end.is_ok(), io);
    end?;
    if summary.only_sha1 > 0 && !io.json {
        io.tell(format!(
            "{} accounts have only SCRAM-SHA-1 keys: after the next start SCRAM is offered only \
             for hash functions that all accounts have, until these accounts gain others (see \
             `throng config explain scram_hashes{}`)",
            summary.only_sha1,
            place_flags(loaded)
        ));
    }
    ended(&summary)
}

fn ended(summary: &Summary) -> Result<(), Failure> {
    if summary.is_whole() { Ok(()) } else { Err(Failure::new(Exit::Partly, String::new())) }
}

/// Reports what was moved, of everything or, if not `to_the_end`, until a failure.
fn tell(name: &str, summary: &Summary, to_the_end: bool, io: &mut Io) {
    let users = [
        ("users", summary.users),
        ("already there", summary.there),
        ("left out", summary.left),
        ("without password", summary.without_password),
        ("only SCRAM-SHA-1", summary.only_sha1),
        ("rooms", summary.rooms),
        ("affiliations", summary.affiliations),
    ];
    let counts = summary.counts.named();
    if io.json {
        let numbers = users
            .iter()
            .chain(&counts)
            .map(|(name, count)| ((*name).replace([' ', '-'], "_").to_lowercase(), json!(count)));
        let mut told = serde_json::Map::from_iter(numbers);
        told.insert("done".into(), json!(name));
        told.insert("bytes".into(), json!(summary.bytes));
        let notes = summary.notes();
        let notes: Vec<_> = notes
            .map(|note| json!({ "what": note.what, "why": note.why, "times": note.times, "first": note.first }))
            .collect();
        told.insert("notes".into(), json!(notes));
        told.insert("more_notes".into(), json!(summary.more()));
        io.say_json(&serde_json::Value::Object(told));
        return;
    }
    for (name, count) in users.iter().take(1).chain(users.iter().skip(1).filter(|(_, count)| *count > 0)).chain(&counts)
    {
        io.say(format!("{name:<16}{count:>14}"));
    }
    for note in summary.notes() {
        io.say(format!(
            "{} {}: {} ({} times, first: {})",
            io.paint("33", "note:"),
            note.what,
            note.why,
            note.times,
            note.first
        ));
    }
    if summary.more() > 0 {
        io.say(format!("and {} further notes of other kinds", summary.more()));
    }
    let word = match (to_the_end, summary.is_whole()) {
        (false, _) => io.paint("31", "ended early"),
        (true, true) => io.paint("32", "good"),
        (true, false) => io.paint("33", "done, with the exceptions noted above"),
    };
    io.say(format!("{name}: {word}"));
}
