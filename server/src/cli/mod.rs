//! The command line: reads arguments, calls what they ask for, says how it went.
//!
//! ```text
//! args (clap, from the table of options) -> one file a command -> dyn Program   (serve, store)
//!                                                              -> admin::client (a running server)
//! ```
//!
//! This module knows words, exit codes and terminals. It never opens a store or a listener itself: that is behind
//! [`Program`]. Everything it reads and writes goes through [`Io`], so that tests run commands in memory.

pub mod accounts;
pub mod args;
pub mod bench;
pub mod config;
pub mod ctl;
pub mod import;
pub mod invite;
pub mod knob;
pub mod limits;
pub mod partitions;
pub mod portable;
pub mod profile;
pub mod reference;
pub mod report;
pub mod sar;
pub mod serve;
pub mod signals;
mod status;
pub mod store;
pub mod top;
pub mod trace;
pub mod upload;
pub mod user;

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
use crate::portable::{Existing, Layout, Summary};

/// Longest wait at the end for whoever reads a server's log.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// How a command ended, as the process's exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed for a reason that is told.
    Failed = 1,
    /// Wrong arguments or configuration.
    Usage = 2,
    /// No server is reachable by the control socket.
    NoServer = 3,
    /// Another process uses the data folder.
    InUse = 4,
    /// No such user or session; or there already.
    NotThere = 5,
    /// Some was done, some was not.
    Partly = 6,
}

/// A command that was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The process's exit code.
    pub exit: Exit,
    /// For the operator; one or more lines without a last end.
    pub text: String,
}

impl Failure {
    /// A failure with its reason.
    pub fn new(exit: Exit, text: impl Into<String>) -> Failure {
        Failure { exit, text: text.into() }
    }

    /// All of these as one, with the exit code of the first; none of none.
    pub fn of_all(failures: Vec<Failure>) -> Option<Failure> {
        let exit = failures.first()?.exit;
        let texts: Vec<String> = failures.into_iter().map(|failure| failure.text).collect();
        Some(Failure::new(exit, texts.join("\n")))
    }

    /// A failure for a reason that is told.
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

/// What is wrong with the files and programs that a configuration names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Why a server does not start.
    pub refused: Vec<Failure>,
    /// What is wrong though a server starts with it, a sentence each.
    pub wrong: Vec<String>,
    /// What is not wrong, or not yet, a sentence each.
    pub warnings: Vec<String>,
}

/// The outcome of reading or copying a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreReport {
    /// What was counted, by name: rows a table, bytes.
    pub counts: Vec<(String, u64)>,
    /// What is wrong; empty is good.
    pub wrong: Vec<String>,
    /// What is damaged, missing or lost, an object each: `file`, `at` and `bytes` in it, `what`, `users`.
    pub damage: Vec<serde_json::Value>,
    /// What the operator should know, and is not wrong.
    pub notes: Vec<String>,
}

/// What a partition has.
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

/// What the partitions of a store have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Partitions {
    /// Epoch of the partition map, if the store has been served.
    pub epoch: Option<u64>,
    /// Number of shards that the partitions were spread over.
    pub shards: Option<u16>,
    /// Each of them, in order.
    pub counts: Vec<PartitionCount>,
}

/// What is to be imported into a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Import<'a> {
    /// The partitions of an export.
    File {
        /// The export.
        from: &'a Path,
        /// Whether rows that these partitions have already are removed.
        replace: bool,
    },
    /// Nothing: what an interrupted import has left is removed.
    Abandon,
}

/// Which accounts are written, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leave<'a> {
    /// The file or folder to make.
    pub to: &'a Path,
    /// What the files look like.
    pub layout: Layout,
    /// Domains whose accounts are written; all if there are none.
    pub domains: BTreeSet<String>,
    /// Archives as well.
    pub archive: bool,
}

/// Which accounts are taken, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrive<'a> {
    /// The file or folder.
    pub from: &'a Path,
    /// The main domain of the store, if one was given.
    pub domain: Option<&'a str>,
    /// Accounts that are there.
    pub existing: Existing,
    /// Nothing is written.
    pub dry_run: bool,
    /// PBKDF2 iterations for passwords in clear.
    pub iterations: u32,
    /// Threads that hash them.
    pub threads: usize,
}

/// What accounts are opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To be read: nothing is made or changed.
    Read,
    /// To be changed: a store has to be there.
    Change,
    /// To be changed; a store is made if there is none.
    Make,
}

/// Takes progress, a line each.
pub type Say<'a> = &'a mut dyn FnMut(&str);

/// What the command line needs of the rest of the program.
pub trait Program: Sync {
    /// Runs the server until it has stopped. The lock is held until after the store is closed.
    ///
    /// # Errors
    /// Whatever kept it from starting, or broke it.
    fn serve(&self, loaded: Loaded, log: LogHandle, lock: FolderLock) -> Result<(), Failure>;

    /// The accounts of a store at rest, of `domain` if one was given, and otherwise of the store's own. The caller holds the
    /// lock for as long.
    ///
    /// # Errors
    /// The store cannot be opened, belongs to another domain, or would be made for none.
    fn accounts(
        &self,
        config: &Config,
        lock: &FolderLock,
        access: Access,
        domain: Option<&str>,
    ) -> Result<Box<dyn Accounts>, Failure>;

    /// Reads and checks a store at rest; `say` gets progress, a line each.
    ///
    /// # Errors
    /// The store cannot be read at all; what can be read and is wrong is in the report.
    fn check(&self, config: &Config, lock: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Copies a store at rest to a folder that is not there or empty.
    ///
    /// # Errors
    /// The copy is not complete.
    fn backup(&self, config: &Config, lock: &FolderLock, to: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Reads and checks a backup, and changes nothing.
    ///
    /// # Errors
    /// It is none, or cannot be read at all; what can be read and is wrong is in the report.
    fn verify(&self, from: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Brings what is whole in a store at rest into a new one, in a folder that is not there or empty. What is lost is in the
    /// report.
    ///
    /// # Errors
    /// There is no store, or none can be made.
    fn salvage(&self, config: &Config, lock: &FolderLock, into: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Makes the store of the folder that is held from a backup.
    ///
    /// # Errors
    /// There is a store already, or the backup is none, or is damaged.
    fn restore(&self, lock: &FolderLock, from: &Path, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Counts what the partitions of a store at rest, or of a backup, have.
    ///
    /// # Errors
    /// The store cannot be read.
    fn partitions(&self, config: &Config, lock: &FolderLock, say: Say<'_>) -> Result<Partitions, Failure>;

    /// Writes the rows of partitions of a store at rest, or of a backup, to a file that is not there.
    ///
    /// # Errors
    /// The store cannot be read, or the file not be written: then there is none.
    fn export(
        &self,
        config: &Config,
        lock: &FolderLock,
        which: &[u16],
        to: &Path,
        say: Say<'_>,
    ) -> Result<StoreReport, Failure>;

    /// Takes the partitions of an export into a store at rest; one is made if there is none.
    ///
    /// # Errors
    /// The file is no whole export, the store is of another domain, or has rows of these partitions.
    fn import(
        &self,
        config: &Config,
        lock: &FolderLock,
        import: Import<'_>,
        say: Say<'_>,
    ) -> Result<StoreReport, Failure>;

    /// Writes accounts with all that they have to files of XEP-0227.
    ///
    /// # Errors
    /// The store cannot be read, or a file not be written.
    fn leave(&self, config: &Config, lock: &FolderLock, leave: &Leave<'_>, say: Say<'_>) -> Result<Summary, Failure>;

    /// Takes accounts with all that they have from files of XEP-0227 into a store at rest; one is made if there is none and it is
    /// known of which domain. What was taken until a failure is in the summary.
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

    /// Changes a store at rest of an earlier format to this program's, in place.
    ///
    /// # Errors
    /// There is none, or its format is none that is known; what stopped it, and then the next call goes on from there.
    fn migrate(&self, config: &Config, lock: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure>;

    /// Makes the checks of a start on the files and programs that a configuration names. Changes nothing.
    fn look(&self, config: &Config) -> Checked;

    /// Measures how far the shards scale; `say` gets a line for each run.
    ///
    /// # Errors
    /// What kept a server from running to the end.
    fn bench(&self, plan: &crate::bench::Plan, say: Say<'_>) -> Result<serde_json::Value, Failure>;
}

/// Where a command reads and writes.
pub struct Io {
    /// Answers.
    pub out: Box<dyn Write>,
    /// Progress, warnings, failures.
    pub err: Box<dyn Write>,
    /// Passwords and CSV.
    pub input: Option<Box<dyn Read + Send>>,
    /// `out` is a terminal.
    pub out_terminal: bool,
    /// `err` is a terminal and someone can be asked.
    pub terminal: bool,
    /// `out` may be coloured.
    pub colours: bool,
    /// Asks without echo.
    pub ask_secret: fn(&str) -> io::Result<Secret>,
    /// `--json` was given.
    pub json: bool,
}

impl Io {
    /// The process's own. Colours only on a terminal and without NO_COLOR (no-color.org).
    pub fn process(environment: &Environment) -> Io {
        let out_terminal = io::stdout().is_terminal();
        let plain = environment.get("NO_COLOR").is_some_and(|value| !value.is_empty())
            || environment.get("TERM").is_some_and(|term| term == "dumb");
        Io {
            out: Box::new(io::BufWriter::new(io::stdout())),
            // What a server fails with comes behind its log's last line, and waits for no reader longer than that.
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
        }
    }

    /// A line to `out`. A reader that has gone (`| head`) is no failure.
    pub fn say(&mut self, line: impl fmt::Display) {
        let _ = writeln!(self.out, "{line}");
    }

    /// Whether someone at the terminal answers `yes`; uses up the input.
    pub fn confirmed(&mut self, question: &str) -> bool {
        self.tell(question);
        let mut answer = String::new();
        if let Some(input) = self.input.take() {
            let _ = io::BufReader::new(input.take(16)).read_line(&mut answer);
        }
        answer.trim() == "yes"
    }

    /// A line to `err`.
    pub fn tell(&mut self, line: impl fmt::Display) {
        let _ = writeln!(self.err, "{line}");
    }

    /// A JSON value to `out`, on one line.
    pub fn say_json(&mut self, value: &serde_json::Value) {
        self.say(value);
    }

    /// `text` in a colour (an SGR code such as `32`), when colours are on.
    pub fn paint(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The JSON answer of a command that has done something: these fields, and what was done.
fn done(what: &str, mut fields: serde_json::Value) -> serde_json::Value {
    fields["done"] = what.into();
    fields
}

/// A value that has a JSON form.
fn to_json(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).expect("these types have a JSON form")
}

/// The environment as a map; names and values that are not Unicode are left out.
pub fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The whole of `main`: arguments and environment of the process, its standard streams, its exit code.
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
    // Also where the rest of the line is wrong.
    io.json = arguments.iter().any(|argument| argument == "--json");
    let matches = match args::root().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return usage(&error, io),
    };
    io.json = matches.get_flag("json");
    match dispatch(&matches, environment, io, program) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            if failure.text.is_empty() {
                // What is wrong was said already, as the command's own answer.
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

/// A count with its noun, of which more are named by an `s`.
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

/// Somebody else's text for a terminal: what a terminal would obey, and ends of lines, are escaped.
fn harmless(text: &str) -> String {
    text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")
}

/// Help and version go to `out` and are no failure; the rest goes to `err`.
fn usage(error: &clap::Error, io: &mut Io) -> Exit {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    let text = error.render();
    if matches!(error.kind(), DisplayHelp | DisplayVersion) {
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
        // Accounts' keys and messages are in the store, in its copies and in what is recorded of it. Results of the load and
        // configurations of proxies are for others to read.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    }
    let inner = matches.subcommand();
    let file = |matches: &ArgMatches| matches.get_one::<PathBuf>("config").cloned();
    let loaded = |matches: &ArgMatches| load(&args::given(matches), environment, file(matches)).map_err(Failure::from);
    match (name, inner) {
        ("serve", _) => serve::run(loaded(matches)?, program),
        ("version", _) => {
            version(io);
            Ok(())
        }
        ("config", Some((name, matches))) => {
            let loaded = load_anyway(&args::given(matches), environment, file(matches));
            config::run(name, matches, loaded, io, program)
        }
        ("user", Some((name, matches))) => user::run(name, matches, &loaded(matches)?, io, program),
        ("invite", Some((name, matches))) => invite::run_named(name, matches, &loaded(matches)?, io, program),
        ("report", Some((name, matches))) => report::run(name, matches, &loaded(matches)?, io, program),
        ("invite", None) => invite::run(matches, &loaded(matches)?, io, program),
        ("store", Some((name, matches))) => store::run(name, matches, &loaded(matches)?, io, program),
        ("ctl", Some((name, matches))) => {
            // Options stand behind the last word: `ctl knob list --data DIR`.
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

/// `throng load`, which is a crate of its own and knows nothing of this server.
fn load_with(matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    match throng_load::run(matches, &mut *io.out) {
        Ok(throng_load::Outcome::Good) => Ok(()),
        Ok(throng_load::Outcome::Bad) => {
            Err(Failure::failed("nobody could log in, or messages were lost, came twice or out of order"))
        }
        Err(throng_load::Failure::Usage(text)) => Err(Failure::new(Exit::Usage, text)),
        Err(throng_load::Failure::Failed(text)) => Err(Failure::failed(text)),
    }
}

/// `throng doctor`, likewise.
fn doctor(matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    throng_doctor::run(matches, io.json, io.colours, &mut *io.out).map_err(|failure| match failure {
        throng_doctor::Failure::Usage(text) => Failure::new(Exit::Usage, text),
        throng_doctor::Failure::Failed(text) => Failure::failed(text),
    })
}

fn version(io: &mut Io) {
    let version = env!("CARGO_PKG_VERSION");
    match io.json {
        true => io.say_json(&serde_json::json!({ "version": version })),
        false => io.say(format!("throng {version}")),
    }
}
