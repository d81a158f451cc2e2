//! The result as a file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::figures::Spread;

/// A result: by scenario, set-up and figure, with what was measured and how.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Versions and settings of the last run.
    pub(crate) about: Value,
    /// Set-ups that the last run has left out, and why.
    pub(crate) skipped: BTreeMap<String, String>,
    /// The command and the size of the run that has measured each scenario.
    #[serde(default)]
    pub(crate) measured_by: BTreeMap<String, String>,
    results: BTreeMap<String, BTreeMap<String, BTreeMap<String, Spread>>>,
}

impl Report {
    /// Keeps what a scenario has shown of a set-up.
    pub(crate) fn put(&mut self, scenario: &str, setup: &str, figures: BTreeMap<String, Spread>) {
        self.results.entry(scenario.to_owned()).or_default().insert(setup.to_owned(), figures);
    }

    /// A figure, if it was measured.
    pub(crate) fn figure(&self, scenario: &str, setup: &str, figure: &str) -> Option<Spread> {
        self.results.get(scenario)?.get(setup)?.get(figure).copied()
    }

    /// Its median.
    pub(crate) fn median(&self, scenario: &str, setup: &str, figure: &str) -> Option<f64> {
        self.figure(scenario, setup, figure).map(|spread| spread.median)
    }

    /// All figures with the names of their scenario and set-up.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str, &str, Spread)> {
        self.results.iter().flat_map(|(scenario, setups)| {
            setups.iter().flat_map(move |(setup, figures)| {
                figures.iter().map(move |(figure, spread)| (&**scenario, &**setup, &**figure, *spread))
            })
        })
    }
}

/// Reads a result.
pub(crate) fn read(path: &Path) -> io::Result<Report> {
    let wrong = |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", path.display()));
    let text = std::fs::read(path).map_err(|error| wrong(&error))?;
    serde_json::from_slice(&text).map_err(|error| wrong(&error))
}

/// Writes it, with the targets as they were judged.
pub(crate) fn write(report: &Report, targets: &[impl Serialize], path: &Path) -> io::Result<()> {
    let mut value = serde_json::to_value(report)?;
    value["targets"] = serde_json::to_value(targets)?;
    std::fs::write(path, serde_json::to_string_pretty(&value)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Figures, spreads};

    #[test]
    fn what_is_written_is_read_again() {
        let path = std::env::temp_dir().join(format!("throng-beside-report-{}.json", std::process::id()));
        let mut result = Report::default();
        result.put("messages-1", "floor", spreads(&[Figures::from([("cpu_us_a_message".to_owned(), 4.0)])]));
        write(&result, &["a target"], &path).expect("a file");
        let again = read(&path).expect("a result");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(again.all().collect::<Vec<_>>(), result.all().collect::<Vec<_>>());
    }
}
