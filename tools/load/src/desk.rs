//! Presents a run: a line per second, requests to end, and at the end its result as JSON and as a
//! page.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;

use crate::figures::{Gauges, Sample};
use crate::keys::Key;
use crate::phases::Phase;
use crate::progress::{Gatherer, line};
use crate::{control, html, proc};

/// How a run ended, as an exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All messages arrived correctly.
    Good,
    /// Messages were lost, duplicated or reordered, or no client could log in.
    Bad,
}

/// A run that could not be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The arguments or the scenario are wrong.
    Usage(String),
    /// Something failed.
    Failed(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

/// What the control tells, gathered and shown.
pub(crate) struct Desk {
    /// What was measured.
    pub(crate) gatherer: Gatherer,
    /// The process whose CPU and memory are measured.
    pub(crate) server_pid: Option<u32>,
    quiet: bool,
    stops: Arc<AtomicUsize>,
}

impl Desk {
    /// That of a run which measures this process.
    ///
    /// # Errors
    /// Signals cannot be waited for.
    pub(crate) fn new(matches: &ArgMatches, server_pid: Option<u32>) -> io::Result<Desk> {
        let gatherer = Gatherer::new(server_pid.and_then(proc::usage));
        Ok(Desk { gatherer, server_pid, quiet: matches.get_flag("quiet"), stops: stops()? })
    }

    /// Writes the result and the page where the arguments say.
    ///
    /// # Errors
    /// Files.
    pub(crate) fn tell(&self, matches: &ArgMatches, result: &Value, out: &mut dyn Write) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(result).map_err(|error| Failure::Failed(error.to_string()))?;
        match matches.get_one::<PathBuf>("out") {
            Some(path) => std::fs::write(path, text + "\n")?,
            None => writeln!(out, "{text}")?,
        }
        if let Some(path) = matches.get_one::<PathBuf>("report") {
            std::fs::write(path, html::page(result, &self.gatherer.whole.seconds))?;
        }
        Ok(())
    }
}

/// An argument that is a file.
pub(crate) fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
}

/// Adds what each scenario's command takes: the file, where results go, and a flag for each key.
pub(crate) fn arguments(command: Command, table: &'static [Key]) -> Command {
    let command = command
        .arg(Arg::new("scenario").value_name("SCENARIO.toml").value_parser(value_parser!(PathBuf)).help("A scenario"))
        .arg(file("out", "Write the result here instead of to standard output").value_name("FILE.json"))
        .arg(file("report", "Write a page with plots as well").value_name("FILE.html"))
        .arg(
            Arg::new("print-scenario")
                .long("print-scenario")
                .action(ArgAction::SetTrue)
                .help("Print the scenario that the file and the flags make, as TOML, and do nothing else"),
        )
        .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue).help("No line a second"));
    table.iter().fold(command, |command, key| {
        let flag: &'static str = Box::leak(key.name.replace('_', "-").into_boxed_str());
        let default = (key.default)();
        let shown = if key.switch || default == "\"\"" {
            String::new()
        } else {
            format!(" [default: {}]", default.trim_matches('"'))
        };
        let arg = Arg::new(key.name).long(flag).help_heading(key.section).help(format!("{}{shown}", key.help));
        let arg = match key.switch {
            true => arg.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL"),
            false => arg.value_name(key.word),
        };
        command.arg(arg)
    })
}

/// The text of the file that a command line names, and the flags that win over it, with the names
/// of their keys.
type Said = (Option<(PathBuf, String)>, Vec<(&'static str, String)>);

/// What a command line says of a scenario.
///
/// # Errors
/// The file cannot be read; a sentence.
pub(crate) fn said(matches: &ArgMatches, table: &[Key]) -> Result<Said, String> {
    let path = matches.get_one::<PathBuf>("scenario");
    let read = |path: &PathBuf| match std::fs::read_to_string(path) {
        Ok(text) => Ok((path.clone(), text)),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    let flag = |key: &Key| matches.get_one::<String>(key.name).map(|text| (key.name, text.clone()));
    Ok((path.map(read).transpose()?, table.iter().filter_map(flag).collect()))
}

impl control::Listener for Desk {
    fn sample(&mut self, sample: &Sample) {
        self.gatherer.sample(sample);
    }

    fn moment(&mut self, at: Duration, phase: Phase, gauges: &Gauges) {
        let due = self.gatherer.is_due(at, phase);
        let usage = self.server_pid.filter(|_| due).and_then(proc::usage);
        let errors = if due && !self.quiet { self.gatherer.whole.counters.errors.clone() } else { Default::default() };
        if let Some(second) = self.gatherer.moment(at, phase, gauges, usage).filter(|_| !self.quiet) {
            eprintln!("{}", line(second, &errors));
        }
    }

    fn stops(&self) -> u32 {
        self.stops.load(Ordering::Relaxed) as u32
    }
}

/// Counts the wishes to end.
///
/// # Errors
/// Signals cannot be waited for.
pub(crate) fn stops() -> io::Result<Arc<AtomicUsize>> {
    let stops = Arc::new(AtomicUsize::new(0));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let mut signals = signal_hook::iterator::Signals::new([signal])?;
        let stops = stops.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in signals.forever() {
                stops.fetch_add(1, Ordering::Relaxed);
            }
        })?;
    }
    Ok(stops)
}
