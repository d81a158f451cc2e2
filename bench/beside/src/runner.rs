//! Runs what was asked for: each scenario's set-ups in turn, several times; and keeps the result.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::figures::{Figures, find, spreads};
use crate::place::{Place, Stored};
use crate::report;
use crate::result::{self, Report};
use crate::scenario::{SCENARIOS, Scenario, Size};
use crate::setup::{FLOOR, SETUPS, Setup, THRONG, World};
use crate::{Run, chart, peers, target};

/// Scenarios and set-ups, a line each.
pub(crate) fn list() -> String {
    let mut text = String::from("Scenarios\n");
    for scenario in SCENARIOS {
        let _ = writeln!(text, "  {:22} {}", scenario.name, scenario.title);
    }
    text += "Set-ups\n";
    let _ = writeln!(text, "  {FLOOR:22} the raw floor of a scenario, if it has one");
    for setup in SETUPS {
        let _ = writeln!(text, "  {:22} {}", setup.name, setup.title);
    }
    text
}

/// Which of them are wanted: of a kind of which none is named, all.
fn wanted(only: &[String], names: &[&'static str]) -> Vec<&'static str> {
    let named: Vec<_> = names.iter().copied().filter(|name| only.iter().any(|only| only == name)).collect();
    if named.is_empty() { names.to_vec() } else { named }
}

/// One thing to do: a scenario with a set-up, or with none for the floor.
struct Step {
    /// Or the floor.
    setup: Option<&'static Setup>,
    run: usize,
    runs: usize,
}

/// Runs. Whether everything that was to be measured has been.
pub(crate) fn run(options: &Run) -> io::Result<bool> {
    let scenario_names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    let setup_names: Vec<_> = std::iter::once(FLOOR).chain(SETUPS.iter().map(|setup| setup.name)).collect();
    if let Some(unknown) =
        options.only.iter().find(|name| !scenario_names.contains(&&***name) && !setup_names.contains(&&***name))
    {
        return Err(io::Error::other(format!("--only: there is no {unknown}; `beside list` names what there is")));
    }
    let (scenarios, setups) = (wanted(&options.only, &scenario_names), wanted(&options.only, &setup_names));
    let mut report = match options.out.as_deref().filter(|path| path.exists()) {
        Some(path) => result::read(path)?,
        None => Report::default(),
    };
    let skipped = missing(options.install, &setups)?;
    for (name, why) in &skipped {
        eprintln!("skipping {name}: {why}");
    }
    let size = if options.brief { Size::BRIEF } else { Size::FULL };
    let runs = options.runs.unwrap_or(if options.brief { 1 } else { 3 }).max(1);
    let world = World::new(&options.throng, size.groups())?;
    report.about = about(options)?;
    report.skipped = skipped.clone();
    let wanted_setups: Vec<_> =
        SETUPS.iter().filter(|setup| setups.contains(&setup.name) && !skipped.contains_key(setup.name)).collect();
    let plan: Vec<(&Scenario, Vec<Step>)> = SCENARIOS
        .iter()
        .filter(|scenario| scenarios.contains(&scenario.name))
        .map(|scenario| {
            let floor = (scenario.has_floor() && setups.contains(&FLOOR)).then_some(None);
            let servers = wanted_setups.iter().filter(|setup| scenario.peers || setup.is_throng());
            let measured: Vec<_> = floor.into_iter().chain(servers.map(|setup| Some(*setup))).collect();
            // In turn, so that what changes about the machine in between concerns all of them.
            let round = |run| {
                let of =
                    measured.iter().map(move |setup| Step { setup: *setup, run, runs: scenario.runs(runs, *setup) });
                of.filter(|step| step.run <= step.runs)
            };
            (scenario, (1..=runs).flat_map(round).collect())
        })
        .collect();
    let about_s = |scenario: &Scenario, step: &Step| scenario.about_s(step.setup, &size);
    let mut progress = Progress {
        done: 0,
        all: plan.iter().map(|(_, steps)| steps.len()).sum(),
        started: Instant::now(),
        done_s: 0.0,
        all_s: plan.iter().flat_map(|(scenario, steps)| steps.iter().map(|step| about_s(scenario, step))).sum(),
    };
    let mut whole = true;
    for (scenario, steps) in plan {
        let mut seen: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
        for step in &steps {
            let name = step.setup.map_or(FLOOR, |setup| setup.name);
            progress.begin(scenario.name, name, step);
            let figures = match step.setup {
                Some(setup) => scenario.measure(&world, setup, &size),
                None => scenario.floor(&world, &options.raw, &size),
            };
            progress.done_s += about_s(scenario, step);
            match figures {
                Ok(figures) => {
                    progress.end(&figures);
                    seen.entry(name).or_default().push(figures);
                }
                Err(error) => {
                    eprintln!("  failed: {error}");
                    whole = false;
                }
            }
        }
        for (name, runs) in seen {
            report.put(scenario.name, name, spreads(&runs));
        }
        let command = report.about["command"].as_str().unwrap_or_default();
        report.measured_by.insert(scenario.name.into(), format!("{command}, {size:?}"));
        // What was measured is kept even if the rest is not waited for.
        if let Some(path) = &options.out {
            result::write(&report, &target::judge(&report), path)?;
        }
    }
    print!("{}", report::table(&report));
    if let Some(path) = &options.chart {
        fs::write(path, chart::draw(&report))?;
    }
    Ok(whole)
}

/// Peers that cannot be measured, and why; those that can be installed are, if asked for.
fn missing(install: bool, setups: &[&str]) -> io::Result<BTreeMap<String, String>> {
    let absent = |setup: &&Setup| {
        setup.package().is_some_and(|package| peers::package_version(package).is_none()) && setups.contains(&setup.name)
    };
    let packages: Vec<_> = SETUPS.iter().filter(absent).filter_map(Setup::package).collect();
    if install && !packages.is_empty() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/install");
        eprintln!("installing {}", packages.join(", "));
        Command::new(script).args(&packages).stdout(std::io::stderr()).status()?;
    }
    let why = |setup: &Setup| {
        let package = setup.package().unwrap_or_default();
        (setup.name.to_owned(), format!("the Debian package {package} is not installed; --install does so"))
    };
    Ok(SETUPS.iter().filter(absent).map(why).collect())
}

/// Versions and settings: all that somebody would need to do the same.
fn about(options: &Run) -> io::Result<serde_json::Value> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let version = Command::new(&options.throng).arg("--version").output()?;
    let place = Place {
        plain: ([127, 77, 0, 1], 5222).into(),
        tls: ([127, 77, 0, 1], 5223).into(),
        folder: "FOLDER".into(),
        data: "FOLDER/data".into(),
    };
    let command: Vec<String> = std::env::args().skip(1).collect();
    Ok(json!({
        "command": format!("target/release/beside {}", command.join(" ")),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cores": std::thread::available_parallelism()?.get(),
        "versions": {
            "throng": String::from_utf8_lossy(&version.stdout).trim(),
            "ejabberd": peers::package_version("ejabberd"),
            "prosody": peers::package_version("prosody"),
            "erlang": peers::package_version("erlang-base"),
            "lua": peers::package_version("lua5.4"),
        },
        "settings": {
            "throng": THRONG.join(" ") + " --driver uring|epoll --archive=false, or true where the scenario says so",
            "ejabberd": peers::ejabberd(&place, Stored::Clear),
            "ejabberd, hashed passwords": "the same with auth_password_format: scram",
            "erlang": peers::ERLANG.join(" "),
            "prosody": peers::prosody(&place, Stored::Clear),
            "prosody, hashed passwords": "the same with authentication = \"internal_hashed\", 4,096 iterations",
        },
    }))
}

struct Progress {
    done: usize,
    all: usize,
    started: Instant,
    /// What has been done should have taken about so long, and everything.
    done_s: f64,
    all_s: f64,
}

/// Seconds that are left: the estimate of the rest, by how the estimate has done so far.
fn left_s(done_s: f64, all_s: f64, took_s: f64) -> f64 {
    let times = if done_s > 0.0 { took_s / done_s } else { 1.0 };
    (all_s - done_s).max(0.0) * times
}

impl Progress {
    fn begin(&mut self, scenario: &str, setup: &str, step: &Step) {
        self.done += 1;
        let took = self.started.elapsed().as_secs();
        let left = left_s(self.done_s, self.all_s, took as f64) as u64;
        eprintln!(
            "[{}/{}, {}:{:02}, {}:{:02} left] {scenario}, {setup}, run {} of {}",
            self.done,
            self.all,
            took / 60,
            took % 60,
            left / 60,
            left % 60,
            step.run,
            step.runs
        );
    }

    fn end(&self, figures: &Figures) {
        let told = |(name, value): (&String, &f64)| {
            let kind = find(name)?;
            Some(format!("{} {value:.*}", kind.title, kind.digits))
        };
        eprintln!("  {}", figures.iter().filter_map(told).collect::<Vec<_>>().join("; "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_goes_by_how_the_estimate_has_done() {
        assert_eq!(left_s(0.0, 600.0, 0.0), 600.0);
        assert_eq!(left_s(200.0, 600.0, 300.0), 600.0, "it takes half as long again");
        assert_eq!(left_s(600.0, 600.0, 500.0), 0.0);
    }

    #[test]
    fn a_whole_run_takes_less_than_the_help_says() {
        let all = |size: &Size, runs: usize| -> f64 {
            let steps = |scenario: &Scenario| {
                let servers = SETUPS.iter().filter(|setup| scenario.peers || setup.is_throng()).map(Some);
                let floor = scenario.has_floor().then_some(None);
                let took = |setup: Option<&Setup>| scenario.about_s(setup, size) * scenario.runs(runs, setup) as f64;
                floor.into_iter().chain(servers).map(took).sum::<f64>()
            };
            SCENARIOS.iter().map(steps).sum()
        };
        // Accounts and rosters are made once a set-up, which takes some minutes more.
        assert!(all(&Size::FULL, 3) < 52.0 * 60.0, "{} s", all(&Size::FULL, 3));
        assert!(all(&Size::BRIEF, 1) < 20.0 * 60.0, "{} s", all(&Size::BRIEF, 1));
    }

    #[test]
    fn naming_a_set_up_leaves_all_scenarios_and_the_other_way_round() {
        let only = ["prosody".to_owned()];
        assert_eq!(wanted(&only, &["a", "b"]), ["a", "b"]);
        assert_eq!(wanted(&only, &["ejabberd", "prosody"]), ["prosody"]);
    }
}
