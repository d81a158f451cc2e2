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
use crate::setup::{FLOOR, SETUPS, Setup, Side, THRONG, World};
use crate::web::peers::{Install, npm_folder};
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
        let promise = setup.peer().map_or(String::new(), |peer| format!(": {}", peer.promise));
        let _ = writeln!(text, "  {:22} {}{promise}", setup.name, setup.title);
    }
    let _ = writeln!(text, "Sides\n  {:22} chat\n  {:22} notifications", "xmpp", "web");
    text
}

/// The same, with the names of all scenarios and set-ups of a side instead of the side.
fn without_sides(only: &[String]) -> Vec<String> {
    let names = |side: Side| {
        let scenarios = SCENARIOS.iter().filter(move |scenario| scenario.side() == side).map(|scenario| scenario.name);
        let floor = (side == Side::Xmpp).then_some(FLOOR);
        let setups = SETUPS.iter().filter(move |setup| setup.side() == side).map(|setup| setup.name);
        scenarios.chain(floor).chain(setups).map(str::to_owned).collect()
    };
    let one = |word: &String| match Side::ALL.iter().find(|(name, _)| name == word) {
        Some((_, side)) => names(*side),
        None => vec![word.clone()],
    };
    only.iter().flat_map(one).collect()
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
    let only = without_sides(&options.only);
    if let Some(unknown) =
        only.iter().find(|name| !scenario_names.contains(&&***name) && !setup_names.contains(&&***name))
    {
        return Err(io::Error::other(format!("--only: there is no {unknown}; `beside list` names what there is")));
    }
    let (scenarios, setups) = (wanted(&only, &scenario_names), wanted(&only, &setup_names));
    let mut report = match options.out.as_deref().filter(|path| path.exists()) {
        Some(path) => result::read(path)?,
        None => Report::default(),
    };
    // Of a set-up of which no scenario is wanted nothing is missing.
    let has = |setup: &&Setup| {
        SCENARIOS.iter().any(|scenario| scenarios.contains(&scenario.name) && scenario.has(setup))
            && setups.contains(&setup.name)
    };
    let of: Vec<&'static Setup> = SETUPS.iter().filter(has).collect();
    let skipped = missing(options.install, &of)?;
    for (name, why) in &skipped {
        eprintln!("skipping {name}: {why}");
    }
    let size = if options.brief { Size::BRIEF } else { Size::FULL };
    let runs = options.runs.unwrap_or(if options.brief { 1 } else { 3 }).max(1);
    let world = World::new(&options.throng, size.groups())?;
    report.about = about(options)?;
    report.skipped = skipped.clone();
    let wanted_setups: Vec<_> = of.into_iter().filter(|setup| !skipped.contains_key(setup.name)).collect();
    let plan: Vec<(&Scenario, Vec<Step>)> = SCENARIOS
        .iter()
        .filter(|scenario| scenarios.contains(&scenario.name))
        .map(|scenario| {
            let floor = (scenario.has_floor() && setups.contains(&FLOOR)).then_some(None);
            let servers = wanted_setups.iter().filter(|setup| scenario.has(setup));
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
    if skipped.is_empty() && plan.iter().all(|(_, steps)| steps.is_empty()) {
        return Err(io::Error::other("--only: none of these scenarios has any of these set-ups"));
    }
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
fn missing(install: bool, setups: &[&'static Setup]) -> io::Result<BTreeMap<String, String>> {
    let absent = |setup: &&&Setup| !setup.install().is_there();
    let (mut packages, mut modules, mut of_npm): (Vec<&str>, Vec<&str>, Vec<String>) = Default::default();
    for setup in setups.iter().filter(absent) {
        match setup.install() {
            Install::Built => {}
            Install::Debian(all) => packages.extend(all),
            Install::Go(module, _) => modules.push(module),
            Install::Npm(package, version) => of_npm.push(format!("{package}@{version}")),
        }
    }
    if install && !packages.is_empty() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/install");
        eprintln!("installing {}", packages.join(", "));
        Command::new(script).args(&packages).stdout(std::io::stderr()).status()?;
    }
    for module in modules.iter().filter(|_| install) {
        eprintln!("installing {module}");
        let done = Command::new("go").args(["install", module]).stdout(std::io::stderr()).status();
        if let Err(error) = done {
            eprintln!("go cannot be run: {error}");
        }
    }
    if let Some(folder) = npm_folder().filter(|_| install && !of_npm.is_empty()) {
        eprintln!("installing {}", of_npm.join(", "));
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).args(&of_npm);
        if let Err(error) = npm.stdout(std::io::stderr()).status() {
            eprintln!("npm cannot be run: {error}");
        }
    }
    Ok(setups.iter().filter(absent).map(|setup| (setup.name.to_owned(), setup.install().why())).collect())
}

/// An argument without the folders of this machine.
fn without_folders(argument: &str) -> String {
    let (flag, value) = match argument.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => (format!("{flag}="), value),
        _ => (String::new(), argument),
    };
    let path = Path::new(value);
    let name = path.file_name().filter(|_| path.is_absolute());
    name.map_or(argument.to_owned(), |name| format!("{flag}{}", name.to_string_lossy()))
}

/// Versions of the web side's servers, by name.
fn web_versions() -> serde_json::Value {
    let rows = SETUPS.iter().filter_map(|setup| setup.peer()).filter(|peer| !peer.own);
    rows.map(|peer| (peer.server.to_owned(), json!(peer.install.version()))).collect::<serde_json::Map<_, _>>().into()
}

/// Their settings, and what each promises, by set-up.
fn web_settings(place: &Place) -> serde_json::Value {
    let row = |setup: &Setup| {
        let peer = setup.peer()?;
        let (program, args) = (peer.command)(place, Path::new("throng"));
        let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let settings = json!({
            "promise": peer.promise,
            "command": format!("{program} {}", args.iter().map(|arg| without_folders(arg)).collect::<Vec<_>>().join(" ")),
            "configuration": peer.configuration.map(|(_, text)| text(place)),
        });
        Some((setup.name.to_owned(), settings))
    };
    SETUPS.iter().filter_map(row).collect::<serde_json::Map<_, _>>().into()
}

/// Versions and settings: all that somebody would need to do the same.
fn about(options: &Run) -> io::Result<serde_json::Value> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let version = Command::new(&options.throng).arg("--version").output();
    let version = version
        .map_err(|error| io::Error::new(error.kind(), format!("--throng {}: {error}", options.throng.display())))?;
    let place = Place {
        plain: ([127, 77, 0, 1], 5222).into(),
        tls: ([127, 77, 0, 1], 5223).into(),
        folder: "FOLDER".into(),
        data: "FOLDER/data".into(),
    };
    let command: Vec<String> = std::env::args().skip(1).map(|argument| without_folders(&argument)).collect();
    Ok(json!({
        "command": format!("target/dist/beside {}", command.join(" ")),
        "kernel": read("/proc/sys/kernel/osrelease"),
        // Of the last minute before: whether something else was running.
        "load_average": read("/proc/loadavg").split(' ').next(),
        "cores": std::thread::available_parallelism()?.get(),
        "versions": {
            "throng": String::from_utf8_lossy(&version.stdout).trim(),
            "ejabberd": peers::package_version("ejabberd"),
            "prosody": peers::package_version("prosody"),
            "erlang": peers::package_version("erlang-base"),
            "lua": peers::package_version("lua5.4"),
            "web": web_versions(),
        },
        "settings": {
            "throng": THRONG.join(" ") + " --driver uring|epoll --archive=false, or true where the scenario says so",
            "ejabberd": peers::ejabberd(&place, Stored::Clear),
            "ejabberd, hashed passwords": "the same with auth_password_format: scram",
            "erlang": peers::ERLANG.join(" "),
            "prosody": peers::prosody(&place, Stored::Clear),
            "prosody, hashed passwords": "the same with authentication = \"internal_hashed\", 4,096 iterations",
            "web": web_settings(&place),
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
        let all = |size: &Size, runs: usize, side: Side| -> f64 {
            let steps = |scenario: &Scenario| {
                let servers = SETUPS.iter().filter(|setup| scenario.has(setup)).map(Some);
                let floor = scenario.has_floor().then_some(None);
                let took = |setup: Option<&Setup>| scenario.about_s(setup, size) * scenario.runs(runs, setup) as f64;
                floor.into_iter().chain(servers).map(took).sum::<f64>()
            };
            SCENARIOS.iter().filter(|scenario| scenario.side() == side).map(steps).sum()
        };
        // Accounts and rosters are made once a set-up, which takes some minutes more.
        for (side, full_minutes, brief_minutes) in [(Side::Xmpp, 55.0, 20.0), (Side::Web, 35.0, 11.0)] {
            let (full, brief) = (all(&Size::FULL, 3, side), all(&Size::BRIEF, 1, side));
            assert!(full < full_minutes * 60.0 && brief < brief_minutes * 60.0, "{side:?}: {full} s, {brief} s");
        }
    }

    #[test]
    fn a_side_is_all_that_is_on_it() {
        let all = without_sides(&["web".to_owned(), "prosody".to_owned()]);
        let has = |name: &str| all.iter().any(|known| known == name);
        assert!(has("web-fan-out") && has("nchan") && has("prosody") && !has("ejabberd") && !has(FLOOR));
        assert_eq!(SCENARIOS.iter().filter(|scenario| scenario.side() == Side::Web).count(), 6);
    }

    #[test]
    fn results_have_no_folders_of_the_machine() {
        for (argument, told) in [
            ("/a/b/throng", "throng"),
            ("--out=/a/x.json", "--out=x.json"),
            ("docs/x.svg", "docs/x.svg"),
            ("--brief", "--brief"),
        ] {
            assert_eq!(without_folders(argument), told);
        }
        let place = Place {
            plain: ([127, 77, 0, 1], 1).into(),
            tls: ([127, 77, 0, 1], 2).into(),
            folder: "FOLDER".into(),
            data: "FOLDER/data".into(),
        };
        let settings = web_settings(&place);
        assert_eq!(settings["nchan"]["command"], "nginx -p FOLDER -e stderr -c FOLDER/nginx.conf");
        assert!(settings["centrifugo"]["command"].as_str().is_some_and(|text| text.starts_with("centrifugo --config")));
    }

    #[test]
    fn naming_a_set_up_leaves_all_scenarios_and_the_other_way_round() {
        let only = ["prosody".to_owned()];
        assert_eq!(wanted(&only, &["a", "b"]), ["a", "b"]);
        assert_eq!(wanted(&only, &["ejabberd", "prosody"]), ["prosody"]);
    }
}
