//! Measures embedded storage engines under the messaging server's work: many small batches, one sync a group, mailboxes
//! read back, ranges deleted, size after churn, recovery after `kill -9`. Each step runs in its own process, so that
//! CPU time (background threads too) and resident memory are that engine's alone.
//!
//! `store-bench all OUT.json DIR [RUNS] [ENGINES]` runs everything; `store-bench step ENGINE STEP DIR` is one step.

mod engines;
mod steps;

use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ENGINES: &str = "fjall,fjall-tables,fjall-lz4,lmdb,lmdb-writemap,redb,redb-quick";
const STEPS: [&str; 7] = ["groups", "fill", "recover", "cold", "warm", "churn", "reopen"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["step", engine, step, dir] => println!("{}", steps::run(engine, step, Path::new(dir))),
        ["all", out, dir] => all(out, dir, "3", ENGINES),
        ["all", out, dir, runs] => all(out, dir, runs, ENGINES),
        ["all", out, dir, runs, engines] => all(out, dir, runs, engines),
        _ => {
            eprintln!("store-bench all OUT.json DIR [RUNS] [ENGINES] | step ENGINE STEP DIR");
            std::process::exit(2);
        }
    }
}

fn all(out: &str, dir: &str, runs: &str, engines: &str) {
    let runs: usize = runs.parse().expect("a number of runs");
    let names: Vec<&str> = engines.split(',').collect();
    let mut samples: Vec<Vec<Map<String, Value>>> = vec![Vec::new(); names.len()];
    // Engines take turns inside a run, so that a slow minute of the machine does not fall on one of them alone.
    for run in 0..runs {
        for (at, name) in names.iter().enumerate() {
            let folder = format!("{dir}/{name}");
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).expect("a folder to work in");
            let mut figures = Map::new();
            for step in STEPS {
                let program = std::env::current_exe().expect("own path");
                let output = Command::new(program).args(["step", name, step, &folder]).output().expect("runs");
                let text = String::from_utf8_lossy(&output.stdout);
                match text.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok()) {
                    Some(Value::Object(found)) => figures.extend(found),
                    _ => eprintln!("{name} {step}: {text} {}", String::from_utf8_lossy(&output.stderr)),
                }
            }
            eprintln!("run {run} {name}: {}", Value::Object(figures.clone()));
            samples[at].push(figures);
            let _ = std::fs::remove_dir_all(&folder);
            let report = report(&names, &samples, runs);
            std::fs::write(out, serde_json::to_string_pretty(&report).expect("json") + "\n").expect("writes");
        }
    }
}

/// Median of each figure over the runs.
fn report(names: &[&str], samples: &[Vec<Map<String, Value>>], runs: usize) -> Value {
    let mut engines = Map::new();
    for (name, runs) in names.iter().zip(samples) {
        let mut medians = Map::new();
        for figure in runs.iter().flat_map(Map::keys) {
            let mut values: Vec<f64> = runs.iter().filter_map(|run| run.get(figure)?.as_f64()).collect();
            values.sort_by(f64::total_cmp);
            if let Some(median) = values.get(values.len() / 2) {
                medians.insert(figure.clone(), json!(median));
            }
        }
        engines.insert((*name).to_owned(), Value::Object(medians));
    }
    json!({
        "work": "a message = 2 archive rows of about 300 bytes (sender, receiver) and 1 cursor row; 100,000 users",
        "runs": runs,
        "cache_mb": engines::CACHE_BYTES >> 20,
        "engines": engines,
    })
}
