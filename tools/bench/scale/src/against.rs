//! Two builds of the server, in turn on the same machine: what a login costs each. A machine's speed changes from hour to hour,
//! so only builds that were measured in one run can be compared.

use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::Options;
use crate::run::{Measured, run};

/// What is compared.
const FIGURES: [&str; 3] =
    ["server CPU per login, us", "logins per second", "server memory per session at the end of the ramp, bytes"];

/// The figures of one run.
fn figures(measured: &Measured) -> Option<[f64; 3]> {
    let load = &measured.load;
    let number = |path: &str| load.pointer(path).and_then(Value::as_f64);
    let (up, ramp_s) = (number("/sessions/up_at_hold")?, number("/ramp_s")?);
    let (_, at_hold) = measured.looks.iter().find(|(at_s, _)| *at_s >= ramp_s).or(measured.looks.last())?;
    Some([number("/server/cpu_us_per_login")?, up / ramp_s, at_hold.server as f64 / up])
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() % 2 {
        0 => (all[middle - 1] + all[middle]) / 2.0,
        _ => all[middle],
    }
}

/// Runs both builds in turn and prints their medians. Whether a login costs no more than it may.
///
/// # Errors
/// The system's, or that a run had no result.
pub(crate) fn compare(options: &Options, other: PathBuf, stopped: &dyn Fn() -> bool) -> io::Result<bool> {
    let builds = [("this", None), ("other", Some(other))];
    let mut runs: [Vec<[f64; 3]>; 2] = Default::default();
    for turn in 1..=options.runs {
        for ((name, against), runs) in builds.iter().zip(&mut runs) {
            let folder = options.folder.join(name);
            let options = Options { against: against.clone(), folder, keep: true, ..options.clone() };
            let measured = run(&options, stopped)?;
            let failed = |why: &str| io::Error::other(format!("{}: {why}", options.server().display()));
            if let Some(why) = &measured.ended_by {
                return Err(failed(why));
            }
            let seen = figures(&measured).ok_or_else(|| failed("the run has no result"))?;
            eprintln!("turn {turn}, {name}: {:.1} us, {:.0} logins/s, {:.0} bytes", seen[0], seen[1], seen[2]);
            runs.push(seen);
        }
    }
    if !options.keep {
        std::fs::remove_dir_all(&options.folder)?;
    }
    let mut compared = Vec::new();
    for (at, name) in FIGURES.iter().enumerate() {
        let of = |runs: &[[f64; 3]]| median(runs.iter().map(|run| run[at]));
        let (this, other) = (of(&runs[0]), of(&runs[1]));
        println!("{name}: {this:.1}, the other build {other:.1}, {:.2} times", this / other);
        compared.push(json!({
            "what": name, "this": this, "other": other, "times": this / other,
            "runs": { "this": column(&runs[0], at), "other": column(&runs[1], at) },
        }));
    }
    let times = compared[0]["times"].as_f64().unwrap_or(f64::INFINITY);
    let met = times <= options.times_max;
    println!("{} CPU per login: {times:.2} times (<= {})", if met { "met    " } else { "NOT MET" }, options.times_max);
    if let Some(path) = &options.out {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let value = json!({
            "program": "scale",
            "command": format!("target/dist/scale {}", arguments.join(" ")),
            "sessions": options.sessions,
            "compared": compared,
            "times_max": options.times_max,
            "met": met,
        });
        std::fs::write(path, format!("{value:#}\n"))?;
    }
    Ok(met)
}

fn column(runs: &[[f64; 3]], at: usize) -> Vec<f64> {
    runs.iter().map(|run| (run[at] * 10.0).round() / 10.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_the_two() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    }
}
