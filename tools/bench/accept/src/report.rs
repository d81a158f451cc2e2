//! What a program has shown: JSON for the results' folder, one line for people.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

/// What came of a program.
pub(crate) struct Outcome {
    /// Its name.
    pub(crate) name: &'static str,
    /// One line for people.
    pub(crate) line: String,
    /// Whether every target was met.
    pub(crate) met: bool,
    /// The figures.
    pub(crate) value: Value,
}

impl Outcome {
    /// Prints it, and keeps it in `folder` when there is one, with the command that makes it.
    pub(crate) fn tell(mut self, out: Option<&Path>) -> io::Result<bool> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let command: Vec<String> = std::env::args().skip(1).collect();
        self.value["program"] = json!(self.name);
        self.value["command"] = json!(format!("target/dist/accept {}", command.join(" ")));
        self.value["kernel"] = json!(read("/proc/sys/kernel/osrelease"));
        self.value["cores"] = json!(std::thread::available_parallelism()?.get());
        let text = serde_json::to_string_pretty(&self.value)?;
        println!("{text}");
        if let Some(path) = out {
            std::fs::write(path, text + "\n")?;
        }
        println!("{}: {}", if self.met { "met" } else { "NOT MET" }, self.line);
        Ok(self.met)
    }
}

/// Least, middle and most of some figures.
pub(crate) fn spread(figures: impl Iterator<Item = f64>) -> Value {
    let mut all: Vec<f64> = figures.collect();
    all.sort_by(f64::total_cmp);
    let round = |n: f64| (n * 100.0).round() / 100.0;
    match (all.first(), all.last()) {
        (Some(&least), Some(&most)) => {
            json!({ "least": round(least), "median": round(median(all.clone())), "most": round(most), "runs": all.len() })
        }
        _ => Value::Null,
    }
}

/// The middle one.
pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Numbers by a seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }
}
