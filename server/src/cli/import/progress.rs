//! Progress of an import: a bar on a terminal, an occasional line elsewhere.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Interval between lines when there is no terminal.
const EVERY: Duration = Duration::from_secs(5);

/// Shows the progress of an import, measured in bytes of the file because the number of lines is
/// not known in advance.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    length: Option<u64>,
    started: Instant,
    told: Instant,
}

impl Progress {
    /// Begins; `length` in bytes.
    pub(super) fn start(terminal: bool, length: Option<u64>) -> Progress {
        let bar = terminal.then(|| {
            let style = match length {
                Some(_) => "{bar:32} {percent:>3} %  {msg}  ETA {eta}",
                None => "{spinner} {msg}  {elapsed}",
            };
            let style = ProgressStyle::with_template(style).expect("a template that is right");
            ProgressBar::new(length.unwrap_or(0)).with_style(style)
        });
        let now = Instant::now();
        Progress { bar, length, started: now, told: now }
    }

    /// Reports `users` done and `bytes` read.
    pub(super) fn step(&mut self, users: u64, bytes: u64, err: &mut dyn Write) {
        let rate = users as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{users} users, {rate:.0}/s"));
                bar.set_position(bytes);
            }
            None if self.told.elapsed() >= EVERY => {
                self.told = Instant::now();
                let part = self.length.filter(|length| *length > 0);
                let part = part.map(|length| format!(", {} % of the file", bytes * 100 / length)).unwrap_or_default();
                let _ = writeln!(err, "{users} users, {rate:.0}/s{part}");
            }
            None => {}
        }
    }

    /// Removes the bar.
    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
