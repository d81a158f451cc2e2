//! The command line: parses arguments, runs the requested command, reports the result.
//!
//! ```text
//! args (clap, from the table of options) -> one file a command -> dyn Program   (serve, store)
//!                                                              -> admin::client (a running server)
//! ```
//!
//! This module handles arguments, exit codes and terminals. It never opens a store or a listener
//! itself: that is behind [`Program`]. All input and output goes through [`Io`], so that tests run
//! commands in memory.

pub mod accounts;
pub mod args;
pub mod bench;
pub mod config;
pub mod ctl;
pub mod import;
pub mod invite;
pub mod knob;
pub mod limits;
mod owner;
pub mod pages;
pub mod partitions;
pub mod portable;
pub mod profile;
pub mod reference;
pub mod report;
pub mod room;
pub mod sar;
pub mod serve;
pub mod signals;
mod status;
pub mod store;
pub mod top;
pub mod trace;
pub mod upload;
pub mod user;
pub mod version;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;

use crate::admin::{Accounts, Fault, FaultKind};
use crate::config::{Config, Environment, Loaded, Problems, load, load_anyway};
use crate::disk::FolderLock;
use crate::log::{self, LogHandle, Secret};
use crate::portable::{Existing, Format, Layout, Summary};

/// Longest wait at the end for the reader of a server's log.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// The outcome of a command, as the exit code of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// Failed; the reason is reported.
    Failed = 1,
    /// Wrong arguments or configuration.
    Usage = 2,
    /// No server is reachable through the control socket.
    NoServer = 3,
    /// Another process uses the data folder.
    InUse = 4,
    /// The user or session does not exist, or exists already.
    NotThere = 5,
    /// Partly done.
    Partly = 6,
}

/// A command that was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The process's exit code.
    pub exit: Exit,
    /// The text for the operator; one or more lines without the last line end.
    pub text: String,
}

impl Failure {
    /// A failure with its reason.
    pub fn new(exit: Exit, text: impl Into<String>) -> Failure {
        Failure { exit, text: text.into() }
    }

    /// All of these as one failure, with the exit code of the first; `None` if there are none.
    pub fn of_all(failures: Vec<Failure>) -> Option<Failure> {
        let exit = failures.first()?.exit;
        let texts: Vec<String> = failures.into_iter().map(|failure| failure.text).collect();
        Some(Failure::new(exit, texts.join("\n")))
    }

    /// A failure with a reported reason.
    pub fn failed(reason: impl fmt::Display) -> Failure {
        Failure::new(Exit::Failed, reason.to_string())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        let exit = match fault.kind {
            FaultKind::NotFound | FaultKind::Exists => Exit::NotThere,
            FaultKind::Invalid => Exit::Usage,
            FaultKind::Busy | FaultKind::Internal => Exit::Failed,
        };
        Failure::new(exit, fault.text)
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Failure {
        Failure::new(Exit::Usage, problems.to_string())
    }
}

/// The faults of the files and programs that a configuration names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Faults that prevent a server from starting.
    pub refused: Vec<Failure>,
    /// Faults with which a server still starts, one sentence each.
    pub wrong: Vec<String>,
    /// Warnings that are no faults, or not yet, one sentence each.
    pub warnings: Vec<String>,
}

/// A point in time of a continuous backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// Where the backup is.
    pub url: String,
    /// Milliseconds since 1970; `None` for the newest time.
    pub at_ms: Option<u64>,
}

/// The result of reading or copying a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreReport {
    /// Counts by name: rows per table, bytes.
    pub counts: Vec<(String, u64)>,
    /// Faults; empty if all is well.
    pub wrong: Vec<String>,
    /// Damaged, missing or lost data, one object each: `file`, `at` and `bytes` in it, `what`,
    /// `users`.
    pub damage: Vec<serde_json::Value>,
    /// Notes for the operator that are not faults.
    pub notes: Vec<String>,
}

/// The contents of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct PartitionCount {
    /// Its number.
    pub partition: u16,
    /// The shard that owned it when the store was last served.
    pub shard: Option<u16>,
    /// Accounts.
    pub users: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// The contents of the partitions of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Partitions {
    /// Epoch of the partition map, if the store has been served.
    pub epoch: Option<u64>,
    /// Number of shards that the partitions were spread over.
    pub shards: Option<u16>,
    /// The partitions, in order.
    pub counts: Vec<PartitionCount>,
}

/// What to import into a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Import<'a> {
    /// The partitions of an export.
    File {
        /// The export.
        from: &'a Path,
        /// Whether to remove rows that these partitions have already.
        replace: bool,
    },
    /// Nothing: remove the leftovers of an interrupted import.
    Abandon,
}

/// Which accounts to export, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leave<'a> {
    /// The file or folder to create.
    pub to: &'a Path,
    /// The layout of the files.
    pub layout: Layout,
    /// Domains whose accounts are exported; all if empty.
    pub domains: BTreeSet<String>,
    /// The only account that is exported, with what the format cannot express.
    pub user: Option<&'a str>,
    /// Whether to include archives.
    pub archive: bool,
}

/// Which accounts to import, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrive<'a> {
    /// The file or folder.
    pub from: &'a Path,
    /// The format of these files.
    pub format: Format,
    /// The host of accounts in a dump that names none; the main domain if `None`.
    pub host: Option<&'a str>,
    /// The main domain of the store, if one was given.
    pub domain: Option<&'a str>,
    /// What to do with existing accounts.
    pub existing: Existing,
    /// Whether to write nothing.
    pub dry_run: bool,
    /// PBKDF2 iterations for plaintext passwords.
    pub iterations: u32,
    /// Number of hashing threads.
    pub threads: usize,
}

/// The purpose for which accounts are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading: nothing is created or changed.
    Read,
    /// Changing: the store must exist.
    Change,
    /// Changing; the store is created if it does not exist.
    Make,
}

/// Receives progress, one line per call.
pub type Say<'a> = &'a mut dyn FnMut(&str);

/// What the command line needs from the rest of the program.
pub trait Program: Sync {
    /// Runs the server until it has stopped. The lock is held until the store is closed.
    ///
    /// # Errors
    /// Whatever prevented the start, or stopped the server.
    fn serve(&self, loaded: Loaded, log: LogHandle, lock: FolderLock) -> Result<(), Failure>;

    /// The accounts of a store at rest, of `domain` if given, and otherwise of the store's own
    /// domain. The caller holds the lock meanwhile.
    ///
    /// # Errors
    /// The store cannot be opened, belongs to another domain, or would be created without one.
    fn accounts(
        &self,
        config: &Config,
        lock: &FolderLock,
        access: Access,
        domain: Option<&str>,
    ) -> Result<Box<dyn Accounts>, Failure>;

    /// Reads and checks a store at rest; `say` receives progress, one line per call.
    ///
    /// # Errors
    /// The store cannot be read at all; faults in a readable store are in the report.
    fn check(&self, config: &Config, lock: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Copies a store at rest to a folder that is empty or does not exist.
    ///
    /// # Errors
    /// The copy is not complete.
    fn backup(&self, config: &Config, lock: &FolderLock, to: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Reads and checks a backup without changing it.
    ///
    /// # Errors
    /// It is not a backup, or cannot be read at all; faults in a readable backup are in the report.
    fn verify(&self, from: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Copies the intact data of a store at rest into a new store, in a folder that is empty or
    /// does not exist. The report lists the losses.
    ///
    /// # Errors
    /// There is no store, or the new one cannot be created.
    fn salvage(&self, config: &Config, lock: &FolderLock, into: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Creates the store of the locked folder from a backup.
    ///
    /// # Errors
    /// There is a store already; the backup is invalid or damaged.
    fn restore(&self, lock: &FolderLock, from: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Creates the store of the locked folder from a continuous backup, at a point in time.
    ///
    /// # Errors
    /// There is a store already; the backup does not reach that time, or is damaged.
    fn restore_point(
        &self,
        config: &Config,
        lock: &FolderLock,
        from: &Point,
        say: Say<'_>,
    ) -> Result<StoreReport, Failure>;

    /// Restores a continuous backup into a folder within `scratch`, checks the store, and removes
    /// the folder. The count `age_s` is the age of the newest commit.
    ///
    /// # Errors
    /// It cannot be restored; faults in what was restored are in the report.
    fn drill(&self, config: &Config, from: &Point, scratch: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Counts the contents of the partitions of a store at rest, or of a backup.
    ///
    /// # Errors
    /// The store cannot be read.
    fn partitions(&self, config: &Config, lock: &FolderLock, say: Say<'_>) -> Result<Partitions, Failure>;

    /// Writes the rows of partitions of a store at rest, or of a backup, to a new file.
    ///
    /// # Errors
    /// The store cannot be read, or the file cannot be written; then no file is left.
    fn export(
        &self,
        config: &Config,
        lock: &FolderLock,
        which: &[u16],
        to: &Path,
        say: Say<'_>,
    ) -> Result<StoreReport, Failure>;

    /// Imports the partitions of an export into a store at rest, which is created if it does not
    /// exist.
    ///
    /// # Errors
    /// The file is not a complete export; the store belongs to another domain, or has rows in these
    /// partitions.
    fn import(
        &self,
        config: &Config,
        lock: &FolderLock,
        import: Import<'_>,
        say: Say<'_>,
    ) -> Result<StoreReport, Failure>;

    /// Exports accounts with all their data to files of XEP-0227.
    ///
    /// # Errors
    /// The store cannot be read, or a file cannot be written.
    fn leave(&self, config: &Config, lock: &FolderLock, leave: &Leave<'_>, say: Say<'_>) -> Result<Summary, Failure>;

    /// Imports accounts with all their data, and rooms, from files into a store at rest. The store
    /// is created if it does not exist and its domain is known. After a failure, the summary holds
    /// what was imported until then.
    ///
    /// # Errors
    /// The store cannot be opened.
    fn arrive(
        &self,
        config: &Config,
        lock: Option<&FolderLock>,
        arrive: &Arrive<'_>,
        say: Say<'_>,
    ) -> Result<(Summary, Result<(), Failure>), Failure>;

    /// Exports rooms to a file: all, or those with these names.
    ///
    /// # Errors
    /// The store cannot be read, or the file cannot be written.
    fn leave_rooms(
        &self,
        config: &Config,
        lock: &FolderLock,
        to: &Path,
        only: &[String],
        say: Say<'_>,
    ) -> Result<Summary, Failure>;

    /// Imports rooms from a file into a store at rest. After a failure, the summary holds what was
    /// imported until then.
    ///
    /// # Errors
    /// The store cannot be opened.
    fn arrive_rooms(
        &self,
        config: &Config,
        lock: &FolderLock,
        from: &Path,
        dry_run: bool,
        say: Say<'_>,
    ) -> Result<(Summary, Result<(), Failure>), Failure>;

    /// Converts a store at rest from an earlier format to the current one, in place.
    ///
    /// # Errors
    /// There is no store, its format is unknown, or the conversion was interrupted; then the next
    /// call continues from there.
    fn migrate(&self, config: &Config, lock: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Runs the startup checks on the files and programs that a configuration names. Changes
    /// nothing.
    fn look(&self, config: &Config) -> Checked;

    /// Measures how far the shards scale; `say` receives one line per run.
    ///
    /// # Errors
    /// Why a server did not run to the end.
    fn bench(&self, plan: &crate::bench::Plan, say: Say<'_>) -> Result<serde_json::Value, Failure>;
}

/// The streams of a command.
pub struct Io {
    /// Answers.
    pub out: Box<dyn Write>,
    /// Progress, warnings, failures.
    pub err: Box<dyn Write>,
    /// Passwords and CSV.
    pub input: Option<Box<dyn Read + Send>>,
    /// Whether `out` is a terminal.
    pub out_terminal: bool,
    /// Whether `err` is a terminal and the user can be asked.
    pub terminal: bool,
    /// Whether `out` may be coloured.
    pub colours: bool,
    /// Asks without echo.
    pub ask_secret: fn(&str) -> io::Result<Secret>,
    /// Whether `--json` was given.
    pub json: bool,
    /// Whether these are the streams of the process, which may begin anew as another user.
    pub is_process: bool,
}

impl Io {
    /// The streams of the process. Coloured only on a terminal and without NO_COLOR (no-color.org).
    pub fn process(environment: &Environment) -> Io {
        let out_terminal = io::stdout().is_terminal();
        let plain = environment.get("NO_COLOR").is_some_and(|value| !value.is_empty())
            || environment.get("TERM").is_some_and(|term| term == "dumb");
        Io {
            out: Box::new(io::BufWriter::new(io::stdout())),
            // A server's failure is written after the last line of its log, and waits no longer
            // than that for a reader.
            err: Box::new(log::standard_error()),
            input: Some(Box::new(io::stdin())),
            out_terminal,
            terminal: io::stderr().is_terminal() && io::stdin().is_terminal(),
            colours: out_terminal && !plain,
            ask_secret: |prompt| {
                let terminal = console::Term::stderr();
                terminal.write_str(prompt)?;
                terminal.read_secure_line().map(Secret::new)
            },
            json: false,
            is_process: true,
        }
    }

    /// Writes a line to `out`. A reader that has closed its end (`| head`) is not a failure.
    pub fn say(&mut self, line: impl fmt::Display) {
        let _ = writeln!(self.out, "{line}");
    }

    /// Whether the user at the terminal answers `yes`; consumes the input.
    pub fn confirmed(&mut self, question: &str) -> bool {
        self.tell(question);
        let mut answer = String::new();
        if let Some(input) = self.input.take() {
            let _ = io::BufReader::new(input.take(16)).read_line(&mut answer);
        }
        answer.trim() == "yes"
    }

    /// Writes a line to `err`.
    pub fn tell(&mut self, line: impl fmt::Display) {
        let _ = writeln!(self.err, "{line}");
    }

    /// Writes a JSON value to `out`, on one line.
    pub fn say_json(&mut self, value: &serde_json::Value) {
        self.say(value);
    }

    /// `text` in a colour (an SGR code such as `32`), when colours are on.
    pub fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The JSON answer of a command that has changed something: these fields, and what was done.
fn done(what: &str, mut fields: serde_json::Value) -> serde_json::Value {
    fields["done"] = what.into();
    fields
}

/// A value that has a JSON form.
fn to_json(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).expect("these types have a JSON form")
}

/// The environment as a map, without names and values that are not Unicode.
pub fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The body of `main`: arguments and environment of the process, its standard streams, its exit
/// code.
pub fn main(program: &dyn Program) -> std::process::ExitCode {
    let environment = environment();
    let mut io = Io::process(&environment);
    let exit = run(std::env::args_os(), &environment, &mut io, program);
    let _ = io.out.flush();
    log::flush(LOG_PATIENCE);
    std::process::ExitCode::from(exit as u8)
}

/// Runs one command line; `arguments` begins with the program's name.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &Environment,
    io: &mut Io,
    program: &dyn Program,
) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // Also if the rest of the line is wrong.
    io.json = arguments.iter().any(|argument| argument == "--json");
    let matches = match args::root().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayVersion => {
            version::run(arguments.iter().any(|argument| argument == "--verbose"), io);
            return Exit::Done;
        }
        Err(error) => return usage(&error, io),
    };
    io.json = matches.get_flag("json");
    match dispatch(&matches, environment, io, program) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            if failure.text.is_empty() {
                // The command's own answer has reported the fault.
            } else if io.json {
                tell_error(&failure.text, failure.exit, io);
            } else {
                io.tell(format!("throng: {}", failure.text));
            }
            failure.exit
        }
    }
}

/// Seconds as `3d04h`, `2h05m`, `7m12s`, `9s`.
pub fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m{:02}s", seconds % 60),
        3_600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// A count with its noun, whose plural ends in `s`.
fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Bytes as `512 B`, `4.0 KiB`, `28.4 MiB`.
fn bytes(count: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| count >> shift > 0) {
        Some((shift, unit)) => format!("{:.1} {unit}", count as f64 / (1_u64 << shift) as f64),
        None => format!("{count} B"),
    }
}

/// Foreign text for a terminal: control characters and line ends are escaped.
fn harmless(text: &str) -> String {
    text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")
}

/// Help goes to `out` and is not a failure; everything else goes to `err`.
fn usage(error: &clap::Error, io: &mut Io) -> Exit {
    let text = error.render();
    if error.kind() == clap::error::ErrorKind::DisplayHelp {
        let text = if io.colours { text.ansi().to_string() } else { text.to_string() };
        let _ = write!(io.out, "{text}");
        return Exit::Done;
    }
    match io.json {
        true => tell_error(text.to_string().trim_end(), Exit::Usage, io),
        false => drop(write!(io.err, "{text}")),
    }
    Exit::Usage
}

/// A failure as the last line of `err`, in JSON.
fn tell_error(text: &str, exit: Exit, io: &mut Io) {
    io.tell(serde_json::json!({ "error": text, "exit": exit as u8 }));
}

fn dispatch(
    matches: &ArgMatches,
    environment: &Environment,
    io: &mut Io,
    program: &dyn Program,
) -> Result<(), Failure> {
    let (name, matches) = matches.subcommand().expect("clap requires one");
    if !matches!(name, "load" | "doctor") {
        // The store, its copies and its recordings contain keys and messages of accounts, so other
        // users of the host get no access. Results of the load and configurations of proxies are
        // meant for others to read.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    }
    let inner = matches.subcommand();
    let file = |matches: &ArgMatches| matches.get_one::<PathBuf>("config").cloned();
    let is_process = io.is_process;
    let loaded = |matches: &ArgMatches| {
        let loaded = load(&args::given(matches), environment, file(matches))?;
        if is_process {
            owner::run_as_owner(&loaded.config.data)?;
        }
        Ok::<Loaded, Failure>(loaded)
    };
    match (name, inner) {
        ("serve", _) => serve::run(loaded(matches)?, program),
        ("version", _) => {
            version::run(matches.get_flag("verbose"), io);
            Ok(())
        }
        ("man", _) => pages::write_man(args::root(), matches, io),
        ("completions", _) => {
            pages::print_completions(args::root(), matches, io);
            Ok(())
        }
        ("config", Some((name, matches))) => {
            let loaded = load_anyway(&args::given(matches), environment, file(matches));
            config::run(name, matches, loaded, io, program)
        }
        ("user", Some((name, matches))) => user::run(name, matches, &loaded(matches)?, io, program),
        ("invite", Some((name, matches))) => invite::run_named(name, matches, &loaded(matches)?, io, program),
        ("report", Some((name, matches))) => report::run(name, matches, &loaded(matches)?, io, program),
        ("room", Some((name, matches))) => room::run(name, matches, &loaded(matches)?, io, program),
        ("invite", None) => invite::run(matches, &loaded(matches)?, io, program),
        ("store", Some((name, matches))) => store::run(name, matches, &loaded(matches)?, io, program),
        ("ctl", Some((name, matches))) => {
            // Options follow the last word: `ctl knob list --data DIR`.
            let last = matches.subcommand().map_or(matches, |(_, matches)| matches);
            ctl::run(name, matches, &loaded(last)?, io)
        }
        ("export", _) => portable::export(matches, &loaded(matches)?, io, program),
        ("import", _) => portable::import(matches, &loaded(matches)?, io, program),
        ("load", _) => load_with(matches, io),
        ("sar", _) => sar::run(matches, io),
        ("top", _) => top::run(matches, &loaded(matches)?, io),
        ("upload", Some((name, matches))) => upload::run(name, matches, &loaded(matches)?, io),
        ("bench", _) => bench::execute(matches, io, program),
        ("doctor", _) => doctor(matches, io),
        _ => unreachable!("clap knows these commands only"),
    }
}

/// `throng load`, a crate that does not depend on this server.
fn load_with(matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    match throng_load::run(matches, &mut *io.out) {
        Ok(throng_load::Outcome::Good) => Ok(()),
        Ok(throng_load::Outcome::Bad) => {
            Err(Failure::failed("no session could log in, or messages were lost, duplicated or out of order"))
        }
        Err(throng_load::Failure::Usage(text)) => Err(Failure::new(Exit::Usage, text)),
        Err(throng_load::Failure::Failed(text)) => Err(Failure::failed(text)),
    }
}

/// `throng doctor`, a crate that does not depend on this server.
fn doctor(matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    throng_doctor::run(matches, io.json, io.colours, &mut *io.out).map_err(|failure| match failure {
        throng_doctor::Failure::Usage(text) => Failure::new(Exit::Usage, text),
        throng_doctor::Failure::Failed(text) => Failure::failed(text),
    })
}
