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
use crate::report::{self, Report};
use crate::scenario::{SCENARIOS, Scenario, Size};
use crate::setup::{FLOOR, Place, SETUPS, Setup, Stored, THRONG, World};
use crate::{Run, chart, peers};

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
type Step = (&'static Scenario, Option<&'static Setup>);

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
        Some(path) => report::read(path)?,
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
    let mut progress = Progress { done: 0, all: 0, started: Instant::now() };
    let plan: Vec<(&Scenario, usize, Vec<Step>)> = SCENARIOS
        .iter()
        .filter(|scenario| scenarios.contains(&scenario.name))
        .map(|scenario| {
            let floor = (scenario.has_floor() && setups.contains(&FLOOR)).then_some((scenario, None));
            let servers = wanted_setups.iter().filter(|setup| scenario.peers || setup.is_throng());
            let steps = floor.into_iter().chain(servers.map(|setup| (scenario, Some(*setup)))).collect();
            (scenario, runs.min(scenario.runs_max), steps)
        })
        .collect();
    progress.all = plan.iter().map(|(_, runs, steps)| runs * steps.len()).sum();
    let mut whole = true;
    for (scenario, runs, steps) in plan {
        let mut seen: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
        for run in 1..=runs {
            for (_, setup) in &steps {
                let name = setup.map_or(FLOOR, |setup| setup.name);
                progress.begin(scenario.name, name, run, runs);
                let figures = match setup {
                    Some(setup) => scenario.measure(&world, setup, &size),
                    None => scenario.floor(&options.raw, &size),
                };
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
        }
        for (name, runs) in seen {
            report.put(scenario.name, name, spreads(&runs));
        }
        let command = report.about["command"].as_str().unwrap_or_default();
        report.measured_by.insert(scenario.name.into(), format!("{command}, {size:?}"));
        // What was measured is kept even if the rest is not waited for.
        if let Some(path) = &options.out {
            report::write(&report, path)?;
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
}

impl Progress {
    fn begin(&mut self, scenario: &str, setup: &str, run: usize, runs: usize) {
        self.done += 1;
        let took = self.started.elapsed().as_secs();
        eprintln!(
            "[{}/{} {}:{:02}] {scenario}, {setup}, run {run} of {runs}",
            self.done,
            self.all,
            took / 60,
            took % 60
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
    fn naming_a_set_up_leaves_all_scenarios_and_the_other_way_round() {
        let only = ["prosody".to_owned()];
        assert_eq!(wanted(&only, &["a", "b"]), ["a", "b"]);
        assert_eq!(wanted(&only, &["ejabberd", "prosody"]), ["prosody"]);
    }
}
