//! `throng store`: check, salvage, backup and its verification, restore, drill, migrate. Commands on
//! partitions have a file of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;
use serde_json::json;

use super::accounts::{ask_failure, in_use, lock_failure, no_folder, tell_tightened};
use super::{Exit, Failure, Io, Point, Program, StoreReport, many};
use crate::admin::client::{AskError, Client};
use crate::admin::protocol::{Ask, Done};
use crate::config::Loaded;
use crate::disk::{FolderLock, LockError};

/// Runs `throng store NAME`.
///
/// # Errors
/// The folder is in use; the errors of the store. A fault found by a check is `Failed`.
pub fn run(
    name: &str,
    matches: &ArgMatches,
    loaded: &Loaded,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    if let Some((_, matches)) = matches.subcommand() {
        return verify(matches, io, program);
    }
    if matches!(name, "partitions" | "export" | "import") {
        return super::partitions::run(name, matches, loaded, io, program);
    }
    let config = &loaded.config;
    if name == "drill" {
        return drill(matches, loaded, io, program);
    }
    let folder = || matches.get_one::<PathBuf>("folder").expect("clap requires it");
    if name != "restore" && !config.data.exists() {
        return Err(no_folder(config));
    }
    // The other commands change nothing in the data folder.
    let lock = match name {
        "restore" | "migrate" => FolderLock::take(&config.data, name),
        _ => FolderLock::take_there(&config.data),
    };
    if let Ok(lock) = &lock {
        tell_tightened(lock, io);
    }
    let report = match (name, lock) {
        ("backup", Err(LockError::Held(who))) => return running_backup(loaded, &who, folder(), io),
        ("migrate", Err(error)) => return Err(in_use(config, error, "stop it first")),
        (_, Err(error)) => return Err(lock_failure(config, error)),
        ("check", Ok(lock)) => program.check(config, &lock, &mut |line| io.tell(line))?,
        ("salvage", Ok(lock)) => {
            let into = matches.get_one::<PathBuf>("into").expect("clap requires it");
            program.salvage(config, &lock, into, &mut |line| io.tell(line))?
        }
        ("backup", Ok(lock)) => program.backup(config, &lock, folder(), &mut |line| io.tell(line))?,
        ("migrate", Ok(lock)) => program.migrate(config, &lock, &mut |line| io.tell(line))?,
        (_, Ok(lock)) => match point(matches) {
            Some(point) => program.restore_point(config, &lock, &point, &mut |line| io.tell(line))?,
            None => program.restore(&lock, folder(), &mut |line| io.tell(line))?,
        },
    };
    tell(name, &report, io);
    let wrong = report.wrong.len();
    let (things, are) = (many(wrong as u64, "thing"), if wrong == 1 { "is" } else { "are" });
    match name {
        _ if wrong == 0 => Ok(()),
        "salvage" => {
            Err(Failure::new(Exit::Partly, format!("salvaged all intact rows; {things} {are} damaged or lost")))
        }
        "restore" => Err(Failure::failed(format!("the store is restored, but {things} {are} missing"))),
        _ => Err(Failure::failed(format!(
            "the store is damaged ({things} found): run `throng store salvage --into DIR` to \
             recover intact rows, or `throng store restore` to restore a backup"
        ))),
    }
}

/// The point in time of a continuous backup that was asked for.
fn point(matches: &ArgMatches) -> Option<Point> {
    let url = matches.get_one::<String>("from")?.clone();
    Some(Point { url, at_ms: matches.get_one("at").copied() })
}

/// `throng store drill --from URL`, which needs no data folder.
fn drill(matches: &ArgMatches, loaded: &Loaded, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let point = point(matches).expect("clap requires it");
    let scratch = matches.get_one::<PathBuf>("scratch").cloned().unwrap_or_else(std::env::temp_dir);
    let mut report = program.drill(&loaded.config, &point, &scratch, &mut |line| io.tell(line))?;
    let age_s = report.counts.iter().find(|(name, _)| name == "age_s").map_or(0, |(_, age_s)| *age_s);
    if let Some(max) = matches.get_one::<u64>("age-max").filter(|max| age_s > **max) {
        report.wrong.push(format!("the newest commit in the backup is {age_s} s old, more than {max}"));
    }
    tell("drill", &report, io);
    match report.wrong.len() {
        0 => Ok(()),
        wrong => Err(Failure::failed(format!(
            "the backup {} failed the drill ({} found): look at `throng ctl status` of the server that writes it",
            point.url,
            many(wrong as u64, "fault")
        ))),
    }
}

/// `throng store backup verify DIR`, which needs no data folder.
fn verify(matches: &ArgMatches, io: &mut Io, program: &dyn Program) -> Result<(), Failure> {
    let folder = matches.get_one::<PathBuf>("folder").expect("clap requires it");
    let report = program.verify(folder, &mut |line| io.tell(line))?;
    tell("backup verify", &report, io);
    match report.wrong.len() {
        0 => Ok(()),
        wrong => Err(Failure::failed(format!(
            "{} {} wrong with the backup: make a new one with `throng store backup`, or recover \
             intact rows with `throng store salvage --data {} --into DIR`",
            many(wrong as u64, "thing"),
            if wrong == 1 { "is" } else { "are" },
            folder.display()
        ))),
    }
}

fn tell(name: &str, report: &StoreReport, io: &mut Io) {
    if io.json {
        let counts = report.counts.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
        let counts = serde_json::Value::Object(counts);
        let mut told = json!({ "done": name, "counts": counts, "wrong": report.wrong });
        if matches!(name, "check" | "salvage" | "backup verify" | "drill") {
            told["damage"] = json!(report.damage);
        }
        if matches!(name, "check" | "salvage" | "backup verify" | "migrate" | "restore" | "drill") {
            told["notes"] = json!(report.notes);
        }
        io.say_json(&told);
        return;
    }
    for (name, count) in &report.counts {
        io.say(format!("{name:<16}{count:>14}"));
    }
    for note in &report.notes {
        io.say(note);
    }
    for wrong in &report.wrong {
        io.say(format!("{} {wrong}", io.paint("31", "wrong:")));
    }
    if report.wrong.is_empty() {
        io.say(format!("{name}: {}", io.paint("32", "good")));
    }
}

/// Lets the running server copy its store, and reports the progress.
fn running_backup(loaded: &Loaded, holder: &str, to: &Path, io: &mut Io) -> Result<(), Failure> {
    let mut client = Client::connect(&loaded.config.admin_socket_path()).map_err(|error| match error {
        AskError::NotRunning(_) => lock_failure(&loaded.config, LockError::Held(holder.to_owned())),
        other => ask_failure(other),
    })?;
    // The server has another working directory.
    let to = std::path::absolute(to).map_err(Failure::failed)?;
    let to = to.to_str().ok_or_else(|| Failure::new(Exit::Usage, "the folder's name is not valid Unicode"))?;
    let mut told = 0;
    loop {
        match client.ask(Ask::Backup { to: to.to_owned() }, drop).map_err(ask_failure)? {
            Done::Backup(state) if state.done => {
                tell(
                    "backup",
                    &StoreReport { counts: vec![("rows".into(), state.rows)], ..StoreReport::default() },
                    io,
                );
                return Ok(());
            }
            Done::Backup(state) => {
                if io.terminal && state.rows != told {
                    io.tell(format!("{} rows", state.rows));
                    told = state.rows;
                }
            }
            other => return Err(Failure::failed(format!("unexpected answer: {other:?}"))),
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
