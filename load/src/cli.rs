//! The command line of `throng load`: flags and file to a scenario, a run, and where its result goes.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::accounts::{self, Accounts};
use crate::control::{self, Division};
use crate::figures::{Gauges, Sample};
use crate::phases::Phase;
use crate::progress::{Gatherer, line};
use crate::scenario::{Scenario, TABLE};
use crate::{html, proc, report};

const AFTER: &str = "\
Each flag is a key of the scenario's file, with _ in place of -; a flag wins over the file. Every second a line goes to \
standard error; the result, as JSON, goes to standard output. SIGINT or SIGTERM ends a run cleanly, a second one at once.

Exit codes: 0 every message came once and in order, but for those that a broken connection explains; 1 not so, or the run \
failed; 2 wrong usage.

Examples:
  throng load --sessions 1000 --pairs 100
      100 pairs with one message in flight each, for ten seconds
  throng load --write-accounts users.csv --sessions 50000
      accounts for `throng user import users.csv`
  throng load --sessions 50000 --pairs 5000 --in-flight 0 --rate 2000 --hold-s 60 --report load.html
      an open loop of 2,000 messages a second, drawn as a page
  throng load --sessions 10000 --storm-share 1 --storm-at-s 5 --hold-s 30
      all connections are reset at once, and come back at once
  throng load storm.toml --to 127.0.0.1:5223 --tls direct --tls-insecure --auth scram-sha-256";

/// The command, for a parent that calls [`run`] with its matches.
pub fn command() -> Command {
    let path = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    let command = Command::new("load")
        .about("Send synthetic users against an XMPP server, and measure")
        .after_help(AFTER)
        .arg(Arg::new("scenario").value_name("SCENARIO.toml").value_parser(value_parser!(PathBuf)).help("A scenario"))
        .arg(path("out", "Write the result here instead of to standard output").value_name("FILE.json"))
        .arg(path("report", "Write a page with plots as well").value_name("FILE.html"))
        .arg(path("write-accounts", "Write the accounts as `throng user import` takes them, and do nothing else"))
        .arg(
            Arg::new("print-scenario")
                .long("print-scenario")
                .action(ArgAction::SetTrue)
                .help("Print the scenario that the file and the flags make, as TOML, and do nothing else"),
        )
        .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue).help("No line a second"))
        .arg(Arg::new("child").long("child").action(ArgAction::SetTrue).hide(true));
    TABLE.iter().fold(command, |command, key| {
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

/// How a run ended, as an exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All came as it should.
    Good,
    /// Messages were lost, duplicated or reordered, or nobody could log in.
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
struct Desk {
    gatherer: Gatherer,
    server_pid: Option<u32>,
    quiet: bool,
    stops: Arc<AtomicUsize>,
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
fn stops() -> io::Result<Arc<AtomicUsize>> {
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

/// Runs the command that [`command`] describes; what it prints goes to `out` and to standard error.
///
/// # Errors
/// The arguments, the scenario, files; or workers that could not do what they should.
pub fn run(matches: &ArgMatches, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if matches.get_flag("child") {
        // A signal from the terminal is the parent's to judge.
        let _ignored = stops()?;
        control::child(io::BufReader::new(io::stdin()), out).map_err(Failure::Failed)?;
        return Ok(Outcome::Good);
    }
    let scenario = Arc::new(scenario(matches).map_err(Failure::Usage)?);
    if matches.get_flag("print-scenario") {
        write!(out, "{}", scenario.toml())?;
        return Ok(Outcome::Good);
    }
    let accounts = Accounts::of(&scenario).map_err(Failure::Usage)?;
    if let Some(path) = matches.get_one::<PathBuf>("write-accounts") {
        accounts::write(&scenario, &accounts, path)?;
        return Ok(Outcome::Good);
    }
    drop(accounts);
    let division = Division::of(&scenario).map_err(Failure::Failed)?;
    let server_pid = match scenario.server_pid {
        0 => proc::listener(scenario.to),
        pid => Some(pid),
    };
    let mut desk = Desk {
        gatherer: Gatherer::new(server_pid.and_then(proc::usage)),
        server_pid,
        quiet: matches.get_flag("quiet"),
        stops: stops()?,
    };
    let ran = control::run(&scenario, division, &mut desk);
    let whole = &desk.gatherer.whole;
    let result = report::result(&scenario, division, whole, server_pid);
    eprintln!("{}", report::summary(&result));
    // What was measured is told even if workers broke.
    let text = serde_json::to_string_pretty(&result).map_err(|error| Failure::Failed(error.to_string()))?;
    match matches.get_one::<PathBuf>("out") {
        Some(path) => std::fs::write(path, text + "\n")?,
        None => writeln!(out, "{text}")?,
    }
    if let Some(path) = matches.get_one::<PathBuf>("report") {
        std::fs::write(path, html::page(&result, &whole.seconds))?;
    }
    ran.map_err(Failure::Failed)?;
    Ok(if report::is_good(whole) { Outcome::Good } else { Outcome::Bad })
}

/// The scenario of a command line.
fn scenario(matches: &ArgMatches) -> Result<Scenario, String> {
    let mut scenario = Scenario::default();
    if let Some(path) = matches.get_one::<PathBuf>("scenario") {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        scenario.set_toml(&text).map_err(|error| wrong(&error))?;
    }
    for key in TABLE {
        if let Some(text) = matches.get_one::<String>(key.name) {
            scenario.set_flag(key.name, text)?;
        }
    }
    scenario.check()?;
    Ok(scenario)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(arguments: &[&str]) -> Result<String, Failure> {
        let all = ["load"].into_iter().chain(arguments.iter().copied()).chain(["--print-scenario"]);
        let matches = command().try_get_matches_from(all).expect("known flags");
        let mut out = Vec::new();
        run(&matches, &mut out).map(|_| String::from_utf8(out).expect("text"))
    }

    #[test]
    fn flags_win_over_the_file_and_the_whole_is_printed() {
        let path = std::env::temp_dir().join(format!("throng-load-cli-{}.toml", std::process::id()));
        std::fs::write(&path, "sessions = 77\npairs = 5 # some\ntls = \"off\"\navailable = false\n").expect("a file");
        let printed = printed(&[path.to_str().expect("a path"), "--pairs", "6", "--register", "--rate", "1.5"]);
        std::fs::remove_file(&path).expect("it is there");
        let printed = printed.expect("a scenario");
        for line in ["sessions = 77 ", "pairs = 6 ", "available = false ", "register = true ", "rate = 1.5 "] {
            assert!(printed.lines().any(|have| have.starts_with(line)), "{line} in\n{printed}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_wrong_usage() {
        let told = printed(&["--tls", "direct"]).expect_err("no certificate is checked");
        assert!(matches!(&told, Failure::Usage(text) if text.contains("tls_insecure")), "{told:?}");
        assert!(printed(&["--sessions", "many"]).is_err());
        assert!(printed(&["/there/is/no/such.toml"]).is_err());
    }

    #[test]
    fn the_command_is_sound() {
        command().debug_assert();
    }
}
