//! The command line of `throng load channels`: flags and file to a scenario, a run, and where its
//! result goes.

use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::{ArgMatches, Command};

use super::scenario::{Scenario, TABLE};
use super::{Channel, Fairness, Plan, Shared, report, work};
use crate::control::{self, Crew, Division};
use crate::desk::{self, Desk, Failure, Outcome, arguments};
use crate::phases::{Bounds, part};
use crate::{driver, proc};

const AFTER: &str = "\
Each flag is also a key of the scenario file, with _ in place of -; a flag overrides the file. A \
progress line is written to standard error every second; the result is written to standard output \
as JSON. SIGINT or SIGTERM ends a run cleanly, a second one at once.

Exit codes: 0 each subscriber got each item of its channels once and in order, but for those that \
the server has said it does \
not keep; 1 not so, or the run failed; 2 wrong usage.

Examples:
  throng serve --data /tmp/channels --domain localhost --http 127.0.0.1:5280 --notify any \
--notify-publish-open \\
      --notify-publications-per-second 0
      a server for this
  throng load channels --subscribers 10000 --channels 100 --rate 50 --by events:6,websocket:3,poll:1
      an open loop of 50 items a second
  throng load channels --subscribers 0 --channels 1000 --publishers 200 --rate 0 --batch 64
      as many items as are durably published";

/// The command.
pub(crate) fn command() -> Command {
    let command = Command::new("channels")
        .about("Subscribe to channels at /n/ in great number, publish, and check each item")
        .after_help(AFTER);
    arguments(command, TABLE)
}

/// Runs the command that [`command`] describes; what it prints goes to `out` and to standard error.
///
/// # Errors
/// The arguments, the scenario, files; or workers that could not do what they should.
pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let scenario = Arc::new(scenario(matches).map_err(Failure::Usage)?);
    if matches.get_flag("print-scenario") {
        write!(out, "{}", scenario.toml())?;
        return Ok(Outcome::Good);
    }
    let authorization = authorization(&scenario).map_err(Failure::Usage)?;
    let Scenario { driver, threads, .. } = *scenario;
    let crew = Crew { driver, clients: scenario.clients(), processes: 1, threads };
    let division = Division::of(&crew).map_err(Failure::Failed)?;
    let shared = Arc::new(Shared {
        start: Instant::now(),
        run: control::run_number(),
        channels: (0..scenario.channels).map(|_| Channel::default()).collect(),
        fairness: Mutex::new(Fairness::default()),
    });
    let server_pid = match scenario.server_pid {
        0 => proc::listener(scenario.to),
        pid => Some(pid),
    };
    let before = server_pid.and_then(proc::usage);
    let mut desk = Desk::new(matches, server_pid)?;
    let plans = plans(&scenario, division, &shared, &authorization.into());
    let ran = control::run_here(&bounds(&scenario), plans, work, &mut desk);
    let fairness = *shared.fairness.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server = server_pid.map(|pid| (pid, before.map(|usage| usage.resident_bytes)));
    let result = report::result(&scenario, division, &desk.gatherer.whole, &fairness, server);
    eprintln!("{}", report::summary(&result));
    // Report the measurements even if workers failed.
    desk.tell(matches, &result, out)?;
    ran.map_err(Failure::Failed)?;
    Ok(if report::is_good(&scenario, &desk.gatherer.whole) { Outcome::Good } else { Outcome::Bad })
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

/// The header line with the token, if there is one.
fn authorization(scenario: &Scenario) -> Result<String, String> {
    if scenario.token.as_os_str().is_empty() {
        return Ok(String::new());
    }
    let text =
        std::fs::read_to_string(&scenario.token).map_err(|error| format!("{}: {error}", scenario.token.display()))?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{}: a token is one line of visible characters", scenario.token.display()));
    }
    Ok(format!("Authorization: Bearer {token}\r\n"))
}

fn bounds(scenario: &Scenario) -> Bounds {
    let Scenario { ramp_s_max, hold_s, items_max, drain_s, total_s_max, .. } = *scenario;
    Bounds { clients: scenario.clients(), ramp_s_max, hold_s, messages_max: items_max, drain_s, total_s_max }
}

fn plans(scenario: &Arc<Scenario>, division: Division, shared: &Arc<Shared>, authorization: &Arc<str>) -> Vec<Plan> {
    let sources: Vec<IpAddr> = control::sources(scenario.to, scenario.clients(), scenario.sources);
    let plan = |worker: u32| {
        let publishers = part(scenario.publishers, worker, division.threads);
        let subscribers = part(scenario.subscribers, worker, division.threads);
        let clients = publishers.1 + subscribers.1;
        Plan {
            worker,
            scenario: scenario.clone(),
            shared: shared.clone(),
            authorization: authorization.clone(),
            publishers,
            subscribers,
            driver: division.driver,
            sockets: driver::Settings { clients, table_slots: u32::MAX, to: scenario.to, sources: sources.clone() },
            memory_before: (worker == 0).then(proc::own_memory_bytes),
        }
    };
    (0..division.threads).map(plan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_sound_and_says_what_is_wrong() {
        command().debug_assert();
        let run = |flags: &[&str]| {
            let matches = command().try_get_matches_from(["channels"].iter().chain(flags)).expect("known flags");
            let mut out = Vec::new();
            run(&matches, &mut out).map(|_| String::from_utf8(out).expect("text"))
        };
        let printed = run(&["--subscribers", "7", "--by", "poll", "--print-scenario"]).expect("a scenario");
        assert!(printed.contains("subscribers = 7 ") && printed.contains("by = \"poll:1\" "), "{printed}");
        for wrong in [&["--by", "pigeon"][..], &["--publishers", "11"], &["--token", "/there/is/no/such"]] {
            assert!(matches!(run(wrong), Err(Failure::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn every_client_belongs_to_one_worker() {
        let scenario = Arc::new(Scenario { subscribers: 1001, publishers: 7, ..Scenario::default() });
        let shared = Shared { start: Instant::now(), run: 1, channels: Vec::new(), fairness: Mutex::default() };
        let division = Division { driver: driver::Kind::Epoll, processes: 1, threads: 3 };
        let plans = plans(&scenario, division, &Arc::new(shared), &"".into());
        let mut next = (0, 0);
        for plan in &plans {
            assert_eq!((plan.publishers.0, plan.subscribers.0), next);
            next = (next.0 + plan.publishers.1, next.1 + plan.subscribers.1);
            assert_eq!(plan.sockets.clients, plan.publishers.1 + plan.subscribers.1);
        }
        assert_eq!(next, (7, 1001));
    }
}
