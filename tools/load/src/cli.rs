//! The command line of `throng load`: flags and file to a scenario, a run, and where its result goes.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::accounts::{self, Accounts};
use crate::control::{self, Crew, Division};
use crate::desk::{self, Desk, Failure, Outcome, arguments, file, stops};
use crate::scenario::{Scenario, TABLE};
use crate::{channels, proc, report};

const AFTER: &str = "\
Each flag is also a key of the scenario file, with _ in place of -; a flag overrides the file. A \
progress line is written to standard error every second; the result is written to standard output \
as JSON. SIGINT or SIGTERM ends a run cleanly, a second one at once.

Exit codes: 0 every message arrived once and in order, except where a broken connection explains \
it; 1 otherwise, or the run failed; 2 wrong usage.

Examples:
  throng load --sessions 1000 --pairs 100
      100 pairs with one message in flight each, for ten seconds
  throng load --write-accounts users.csv --sessions 50000
      accounts for `throng user import users.csv`
  throng load --sessions 50000 --pairs 5000 --in-flight 0 --rate 2000 --hold-s 60 --report load.html
      an open loop of 2,000 messages a second, drawn as a page
  throng load --sessions 10000 --storm-share 1 --storm-at-s 5 --hold-s 30
      all connections are reset at once, and come back at once
  throng load storm.toml --to 127.0.0.1:5223 --tls direct --tls-insecure --auth scram-sha-256
  throng load channels --subscribers 10000 --by events:6,websocket:3,poll:1
      subscribers of channels at /n/; `throng load channels --help` has its keys";

/// The command, for a parent that calls [`run`] with its matches.
pub fn command() -> Command {
    let write = file("write-accounts", "Only write the accounts, in the format of `throng user import`");
    let command = Command::new("load")
        .about("Run synthetic users against an XMPP server, and measure it")
        .after_help(AFTER)
        .args_conflicts_with_subcommands(true)
        .subcommand(channels::command())
        .arg(write)
        .arg(Arg::new("child").long("child").action(ArgAction::SetTrue).hide(true));
    arguments(command, TABLE)
}

/// Runs the command that [`command`] describes; what it prints goes to `out` and to standard error.
///
/// # Errors
/// The arguments, the scenario, files; or workers that could not do what they should.
pub fn run(matches: &ArgMatches, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(("channels", matches)) = matches.subcommand() {
        return channels::run(matches, out);
    }
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
    let division = Division::of(&Crew::of(&scenario)).map_err(Failure::Failed)?;
    let server_pid = match scenario.server_pid {
        0 => proc::listener(scenario.to),
        pid => Some(pid),
    };
    let mut desk = Desk::new(matches, server_pid)?;
    let ran = control::run(&scenario, division, &mut desk);
    desk.gatherer.whole.counters.lost += report::lost_to_occupants(&scenario, &desk.gatherer.whole);
    let whole = &desk.gatherer.whole;
    let result = report::result(&scenario, division, whole, server_pid);
    eprintln!("{}", report::summary(&result));
    // What was measured is told even if workers broke.
    desk.tell(matches, &result, out)?;
    ran.map_err(Failure::Failed)?;
    Ok(if report::is_good(whole) { Outcome::Good } else { Outcome::Bad })
}

/// The scenario of a command line.
fn scenario(matches: &ArgMatches) -> Result<Scenario, String> {
    let mut scenario = Scenario::default();
    let (file, flags) = desk::said(matches, TABLE)?;
    if let Some((path, text)) = file {
        scenario.set_toml(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    flags.into_iter().try_for_each(|(name, text)| scenario.set_flag(name, &text))?;
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
