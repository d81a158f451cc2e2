//! `throng store partitions`, `export` and `import`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use throng_engine::id::PARTITIONS;

use super::accounts::{in_use, no_folder, tell_tightened};
use super::{Failure, Import, Io, PartitionCount, Partitions, Program, StoreReport};
use crate::config::Loaded;
use crate::disk::FolderLock;

const PARTITIONS_HELP: &str = "\
A bare JID hashes to one of 4,096 partitions, and each partition is owned by one shard. Rows are \
stored by partition, so one can be exported without reading the others. Empty partitions are not \
listed.

PARTITION  its number
SHARD      that owned it when the server last ran; - if it never ran
USERS      accounts
ROWS       of all tables: accounts, rosters, archives, waiting messages, private data
BYTES      of their keys and values; tables on disk take more, and less after compaction

Examples:
  throng store partitions
  throng store partitions --data /backups/today --json
  throng store partitions --partition 2022        that of romeo@localhost";

const EXPORT_HELP: &str = "\
Writes all rows of these partitions to one file, as a consistent snapshot of each partition. The \
server must be stopped; to export from a running one, make a backup and export from that.

Examples:
  throng store export --partition 17 part17.export
  throng store export --partition 0-2047 --partition 4000 half.export
  throng store backup /backups/now && throng store export --data /backups/now --partition 17 \
part17.export";

const IMPORT_HELP: &str = "\
Reads the whole file first, and changes nothing if it is damaged, belongs to another domain, or \
contains a partition that has rows in the store. Creates a store if there is none. An interrupted \
import must be repeated or abandoned before the store can be used for anything else.

Examples:
  throng store import part17.export
  throng store import part17.export --replace     deletes existing rows of its partitions first
  throng store import --abandon                   delete the rows of an interrupted import";

/// The commands, with the options of the data folder that `rows` adds.
pub(super) fn commands(rows: &dyn Fn(Command) -> Command) -> [Command; 3] {
    let which = || {
        Arg::new("partition")
            .long("partition")
            .value_name("N[-M]")
            .action(ArgAction::Append)
            .value_parser(numbers)
            .help("Number, or a range such as 16-31; may be repeated")
    };
    let file = |help: &'static str| Arg::new("file").value_name("FILE").value_parser(value_parser!(PathBuf)).help(help);
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    [
        rows(Command::new("partitions"))
            .about("Count the users, rows and bytes of each partition; the server must be stopped")
            .after_help(PARTITIONS_HELP)
            .arg(which()),
        rows(Command::new("export"))
            .about("Write the rows of partitions to a file; the server must be stopped")
            .after_help(EXPORT_HELP)
            .arg(which().required(true))
            .arg(file("File to create; must not exist").required(true)),
        rows(Command::new("import"))
            .about("Import the partitions of an export into the data folder; the server must be stopped")
            .after_help(IMPORT_HELP)
            .arg(file("Export file").required_unless_present("abandon"))
            .arg(flag("replace", "Delete existing rows of these partitions first").conflicts_with("abandon"))
            .arg(flag("abandon", "Delete the rows of an interrupted import").conflicts_with("file")),
    ]
}

/// Parses the first and the last number of a range of partitions.
fn numbers(text: &str) -> Result<(u16, u16), String> {
    let number = |text: &str| text.parse().ok().filter(|number| *number < PARTITIONS);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(format!("expected a partition from 0 to {}, or a range such as 16-31", PARTITIONS - 1)),
    }
}

/// The requested partitions, in order.
fn wanted(matches: &ArgMatches) -> Vec<u16> {
    let asked = matches.get_many::<(u16, u16)>("partition").unwrap_or_default();
    let mut all: Vec<u16> = asked.flat_map(|(first, last)| *first..=*last).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Runs one of these commands.
///
/// # Errors
/// The folder is in use; errors of the store or the file.
pub(super) fn run(
    name: &str,
    matches: &ArgMatches,
    loaded: &Loaded,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    let config = &loaded.config;
    let file = || matches.get_one::<PathBuf>("file").expect("clap requires it");
    if name != "import" && !config.data.exists() {
        return Err(no_folder(config));
    }
    let reads = matches!(name, "partitions" | "export");
    let taken = if reads { FolderLock::take_there(&config.data) } else { FolderLock::take(&config.data, name) };
    let hint = match reads {
        true => "stop it, or make a backup (`throng store backup DIR`) and use that (`--data DIR`)",
        false => "stop it first",
    };
    let lock = taken.map_err(|error| in_use(config, error, hint))?;
    tell_tightened(&lock, io);
    let report = match name {
        "partitions" => {
            let found = program.partitions(config, &lock, &mut |line| io.tell(line))?;
            tell(&found, &wanted(matches), io);
            return Ok(());
        }
        "export" => program.export(config, &lock, &wanted(matches), file(), &mut |line| io.tell(line))?,
        "import" if matches.get_flag("abandon") => {
            program.import(config, &lock, Import::Abandon, &mut |line| io.tell(line))?
        }
        _ => {
            let import = Import::File { from: file(), replace: matches.get_flag("replace") };
            program.import(config, &lock, import, &mut |line| io.tell(line))?
        }
    };
    done(name, &report, io);
    Ok(())
}

fn done(name: &str, report: &StoreReport, io: &mut Io) {
    if io.json {
        let counts = report.counts.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
        io.say_json(&json!({ "done": name, "counts": serde_json::Value::Object(counts), "notes": report.notes }));
        return;
    }
    for (name, count) in &report.counts {
        io.say(format!("{name:<16}{count:>14}"));
    }
    for note in &report.notes {
        io.say(note);
    }
    io.say(format!("{name}: {}", io.paint("32", "good")));
}

/// Lists the partitions that have rows, or the requested ones.
fn tell(found: &Partitions, wanted: &[u16], io: &mut Io) {
    let shown = |count: &&PartitionCount| match wanted {
        [] => count.rows > 0,
        wanted => wanted.contains(&count.partition),
    };
    let shown: Vec<&PartitionCount> = found.counts.iter().filter(shown).collect();
    let sum = |of: fn(&PartitionCount) -> u64| shown.iter().map(|count| of(count)).sum::<u64>();
    let (users, rows, bytes) = (sum(|count| count.users), sum(|count| count.rows), sum(|count| count.bytes));
    if io.json {
        io.say_json(&json!({
            "epoch": found.epoch, "shards": found.shards, "users": users, "rows": rows, "bytes": bytes,
            "partitions": shown,
        }));
        return;
    }
    io.say(format!("{:>9} {:>6} {:>10} {:>12} {:>14}", "PARTITION", "SHARD", "USERS", "ROWS", "BYTES"));
    for PartitionCount { partition, shard, users, rows, bytes } in &shown {
        let shard = shard.map_or("-".to_owned(), |shard| shard.to_string());
        io.say(format!("{partition:>9} {shard:>6} {users:>10} {rows:>12} {bytes:>14}"));
    }
    io.say(format!("{:>9} {:>6} {users:>10} {rows:>12} {bytes:>14}", "together", ""));
    if let (Some(epoch), Some(shards)) = (found.epoch, found.shards) {
        io.say(format!("{PARTITIONS} partitions over {shards} shards, map of epoch {epoch}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_named_by_their_numbers() {
        assert_eq!(numbers("0"), Ok((0, 0)));
        assert_eq!(numbers("16-4095"), Ok((16, 4095)));
        for wrong in ["", "-", "4096", "7-6", "1-", "-1", "1-2-3", "x", "romeo@localhost"] {
            assert!(numbers(wrong).is_err_and(|text| text.contains("0 to 4095")), "{wrong}");
        }
    }
}
