//! Logs: structured lines on standard error, with a level that can change while the server runs.
//!
//! No thread waits for the reader of the log: lines pass through a bounded queue to a dedicated
//! thread (`writer`). Lines that do not fit are counted, and the log states how many are missing
//! and where. Once the log is set up, all output of a server on its standard streams takes this
//! path, so that a stalled reader blocks no thread and the order is preserved.
//!
//! A log must never contain the body of a message, a password or a key. Values with such content
//! are [`Secret`]s, which print as `***`. Code that logs names fields one by one
//! (`tracing::info!(%jid, shard, "bound")`) and never logs a whole stanza.

mod writer;

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload;

use crate::config::{LogFormat, LogLevel};

/// Text that prints as `***`: passwords and keys on their way to their use.
///
/// It is not wiped from memory when dropped; it only cannot leak into a log, an error or a
/// snapshot.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Changes the level of an initialised log.
#[derive(Clone, Debug)]
pub struct LogHandle {
    level: reload::Handle<LevelFilter, Registry>,
}

impl LogHandle {
    /// Sets the level, at once and in all threads.
    pub fn set_level(&self, level: LogLevel) {
        // This fails only if the log no longer exists.
        let _ = self.level.reload(filter(level));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// The destination of lines, once there is a log.
static LINES: OnceLock<Arc<writer::Lines>> = OnceLock::new();

/// Sets up the log of the process on standard error. A second call changes nothing and returns a
/// handle without effect.
///
/// # Errors
/// The writer thread cannot be created.
pub fn start(level: LogLevel, format: LogFormat) -> io::Result<LogHandle> {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = match LINES.get() {
        Some(lines) => lines.clone(),
        None => {
            let lines = writer::start(format, is_journal())?;
            LINES.get_or_init(|| lines).clone()
        }
    };
    let (subscriber, handle) = build(level, format, colours, lines.is_journal(), ToLines(lines));
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(handle)
}

/// Whether standard error goes to systemd's journal (systemd.exec(5), `JOURNAL_STREAM`).
fn is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    rustix::fs::fstat(io::stderr()).is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Makes a writer for each event.
struct ToLines(Arc<writer::Lines>);

impl<'w> MakeWriter<'w> for ToLines {
    type Writer = OneLine<writer::Line>;

    fn make_writer(&'w self) -> Self::Writer {
        OneLine { priority: None, to: writer::Line::new(&self.0, writer::Stream::Error) }
    }

    fn make_writer_for(&'w self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        OneLine { priority: self.0.is_journal().then(|| priority(*meta.level())), ..self.make_writer() }
    }
}

/// The prefix by which the journal knows the priority of a line (sd-daemon(3)).
fn priority(level: tracing::Level) -> &'static str {
    match level {
        tracing::Level::ERROR => "<3>",
        tracing::Level::WARN => "<4>",
        tracing::Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Writes an event as one line, whatever its fields contain: an error may consist of several
/// sentences.
struct OneLine<W> {
    /// For the journal.
    priority: Option<&'static str>,
    to: W,
}

impl<W: io::Write> io::Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let Some((b'\n', line)) = event.split_last() else { return self.to.write(event) };
        if !line.contains(&b'\n') && self.priority.is_none() {
            return self.to.write(event);
        }
        let line = line.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect::<Vec<_>>().join(&b"; "[..]);
        let line = [self.priority.unwrap_or_default().as_bytes(), &line, b"\n"].concat();
        self.to.write_all(&line).map(|()| event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Standard output or standard error of the process. Once there is a log, output is queued behind
/// its lines.
#[derive(Debug)]
pub struct Standard(writer::Stream);

/// Standard output, as [`Standard`].
pub fn standard_output() -> Standard {
    Standard(writer::Stream::Output)
}

/// Standard error, as [`Standard`].
pub fn standard_error() -> Standard {
    Standard(writer::Stream::Error)
}

impl io::Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (LINES.get(), self.0) {
            (Some(lines), stream) => writer::Line::new(lines, stream).write(bytes),
            (None, writer::Stream::Output) => io::stdout().write(bytes),
            (None, writer::Stream::Error) => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match (LINES.get(), self.0) {
            (None, writer::Stream::Output) => io::stdout().flush(),
            _ => Ok(()),
        }
    }
}

/// Lines of the log lost since the start: they came faster than they were read, or could not be
/// written.
pub fn lost_lines() -> u64 {
    LINES.get().map_or(0, |lines| lines.lost())
}

/// Waits until all lines so far are written, for at most `patience`. Returns false if some are not.
pub fn flush(patience: Duration) -> bool {
    LINES.get().is_none_or(|lines| lines.flush(patience))
}

/// Writes the last line of the process: as the last line of the log if that succeeds within
/// `patience`, otherwise directly to standard error, if that accepts anything.
pub fn last_word(text: &str, patience: Duration) {
    let written = LINES.get().is_some_and(|lines| lines.say(text, patience));
    if !written {
        writer::past_the_queue(format!("throng: {text}\n").as_bytes());
    }
}

fn build<W>(
    level: LogLevel,
    format: LogFormat,
    colours: bool,
    journal: bool,
    writer: W,
) -> (impl tracing::Subscriber + Send + Sync, LogHandle)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (level, handle) = reload::Layer::new(filter(level));
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = match format {
        // The journal has the time of each line.
        LogFormat::Human if journal => lines.with_ansi(false).with_target(false).without_time().boxed(),
        LogFormat::Human => lines.with_ansi(colours).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_ansi(false).boxed(),
    };
    (Registry::default().with(level).with(lines), LogHandle { level: handle })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Captured {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().expect("not poisoned"))).expect("text")
        }
    }

    #[test]
    fn the_level_changes_while_lines_are_written_and_secrets_are_stars() {
        let captured = Captured::default();
        let writer = captured.clone();
        let (subscriber, handle) = build(LogLevel::Info, LogFormat::Human, false, false, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            let password = Secret::new("correct horse");
            tracing::info!(%password, ?password, "seen");
            tracing::debug!("hidden");
            let text = captured.take();
            assert!(text.contains("seen") && text.contains("***") && !text.contains("horse"), "{text}");
            assert!(!text.contains("hidden"));
            handle.set_level(LogLevel::Debug);
            tracing::debug!("shown now");
            assert!(captured.take().contains("shown now"));
        });
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let captured = Captured::default();
        let writer = captured.clone();
        let (subscriber, _handle) = build(LogLevel::Info, LogFormat::Human, false, false, move || OneLine {
            priority: None,
            to: writer.clone(),
        });
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(fault = %"one: is wrong\n  two: is wrong, too", "not reloaded");
            let text = captured.take();
            assert!(text.ends_with("fault=one: is wrong; two: is wrong, too\n") && text.lines().count() == 1, "{text}");
        });
    }

    #[test]
    fn json_lines_are_objects_with_the_fields_at_the_top() {
        let captured = Captured::default();
        let writer = captured.clone();
        let (subscriber, _handle) = build(LogLevel::Info, LogFormat::Json, true, false, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || tracing::warn!(shard = 3, "queue is long"));
        let value: serde_json::Value = serde_json::from_str(captured.take().trim()).expect("JSON");
        assert_eq!(
            (&value["shard"], &value["message"], &value["level"]),
            (&3.into(), &"queue is long".into(), &"WARN".into())
        );
    }
}
