//! The thread that writes the log, and its queue.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::Level;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::priority;
use crate::config::LogFormat;
use crate::waits::{self, Place};

/// Most bytes in the queue; as many again may be in the process of being written.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// A standard stream of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// The queued lines.
#[derive(Debug, Default)]
struct Waiting {
    /// At most [`WAITING_BYTES_MAX`] bytes, except for a last line.
    lines: VecDeque<(Stream, Vec<u8>)>,
    bytes: usize,
    /// Lines lost for lack of room after the queued ones. While this is not zero, no line is
    /// accepted.
    lost: u64,
    /// Number of lines accepted so far.
    taken: u64,
    /// Number of accepted lines that were written or failed.
    done: u64,
}

/// The queue.
#[derive(Debug)]
pub(super) struct Lines {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    format: LogFormat,
    /// Whether the journal takes the lines: it has the time of each, and wants its priority.
    journal: bool,
    /// Lines of the log that were lost: there was no room, or standard error did not accept them.
    lost: AtomicU64,
}

impl Lines {
    fn new(format: LogFormat, journal: bool) -> Lines {
        Lines { waiting: Mutex::default(), changed: Condvar::new(), format, journal, lost: AtomicU64::new(0) }
    }

    /// Whether the journal takes the lines.
    pub(super) fn is_journal(&self) -> bool {
        self.journal
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a line, or counts it as lost.
    fn put(&self, stream: Stream, line: Vec<u8>) {
        let mut waiting = self.waiting();
        if waiting.lost > 0 || waiting.bytes + line.len() > WAITING_BYTES_MAX {
            waiting.lost += 1;
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.take(stream, line);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Lines lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until all lines accepted before are written.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        let waiting = self.waiting();
        let taken = waiting.taken;
        let behind = |waiting: &mut Waiting| waiting.done < taken;
        let waited = self.changed.wait_timeout_while(waiting, patience, behind);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Queues the line of an error regardless of room, and waits until it is written. Returns false
    /// if that takes too long.
    pub(super) fn say(&self, text: &str, patience: Duration) -> bool {
        self.waiting().take(Stream::Error, self.line(Level::ERROR, text));
        self.changed.notify_all();
        self.flush(patience)
    }

    /// A line of the log that does not come from `tracing`.
    fn line(&self, level: Level, text: &str) -> Vec<u8> {
        let mut time = String::new();
        // If the time cannot be formatted, the line has none.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let line = match self.format {
            LogFormat::Human if self.journal => format!("{level} {text}\n"),
            LogFormat::Human => format!("{time} {level:>5} {text}\n"),
            LogFormat::Json => {
                let level = level.as_str();
                serde_json::json!({ "timestamp": time, "level": level, "message": text }).to_string() + "\n"
            }
        };
        let priority = if self.journal { priority(level) } else { "" };
        [priority, &line].concat().into_bytes()
    }

    /// All queued lines, and how many were lost after them; waits until there are any.
    fn next(&self) -> (VecDeque<(Stream, Vec<u8>)>, u64) {
        let _at = waits::at(Place::LogLines);
        let waiting = self.waiting();
        let nothing = |waiting: &mut Waiting| waiting.lines.is_empty() && waiting.lost == 0;
        let mut waiting = self.changed.wait_while(waiting, nothing).unwrap_or_else(PoisonError::into_inner);
        waiting.bytes = 0;
        (std::mem::take(&mut waiting.lines), std::mem::take(&mut waiting.lost))
    }

    fn done(&self, lines: u64) {
        self.waiting().done += lines;
        self.changed.notify_all();
    }
}

impl Waiting {
    fn take(&mut self, stream: Stream, line: Vec<u8>) {
        self.bytes += line.len();
        self.taken += 1;
        self.lines.push_back((stream, line));
    }
}

/// Text written here in one call is one line of the queue.
#[derive(Debug)]
pub(super) struct Line {
    lines: Arc<Lines>,
    stream: Stream,
}

impl Line {
    pub(super) fn new(lines: &Arc<Lines>, stream: Stream) -> Line {
        Line { lines: lines.clone(), stream }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.put(self.stream, bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the thread, which lives as long as the process.
///
/// # Errors
/// The system's, if the thread cannot be created.
pub(super) fn start(format: LogFormat, journal: bool) -> io::Result<Arc<Lines>> {
    let lines = Arc::new(Lines::new(format, journal));
    let own = lines.clone();
    waits::spawn("log", move || {
        let (out, err) = (io::stdout(), io::stderr());
        let mut written = Written::default();
        loop {
            #[cfg(debug_assertions)]
            crate::plant::pass("log");
            let (batch, lost) = own.next();
            let count = batch.len() as u64;
            for (stream, line) in batch {
                match stream {
                    Stream::Output => written.output(&own, out.as_fd(), err.as_fd(), &line),
                    Stream::Error => written.error(&own, err.as_fd(), &line),
                }
            }
            if lost > 0 {
                let text = format!("{lost} log lines are missing here: they were written faster than they were read");
                written.error(&own, err.as_fd(), &own.line(Level::WARN, &text));
            }
            own.done(count);
        }
    })?;
    Ok(lines)
}

/// The outcome of lines so far.
#[derive(Default)]
struct Written {
    /// Lines that standard error refused since the last accepted one, and the reason.
    refused: u64,
    why: String,
    /// Whether the last line was cut off.
    broken: bool,
    /// Whether the failure of standard output was reported.
    told: bool,
}

impl Written {
    fn error(&mut self, lines: &Lines, to: BorrowedFd<'_>, line: &[u8]) {
        if self.refused > 0 {
            let text = format!("{} lines of the log are missing here: {}", self.refused, self.why);
            let mut notice = lines.line(Level::WARN, &text);
            if self.broken {
                notice.insert(0, b'\n');
            }
            if write(to, &notice).is_ok() {
                (self.refused, self.broken) = (0, false);
            }
        }
        if self.refused > 0 {
            self.refused += 1;
        } else if let Err((error, begun)) = write(to, line) {
            (self.refused, self.why, self.broken) = (1, error.to_string(), begun);
        } else {
            return;
        }
        lines.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// A server writes nothing to standard output except its banner, which may be lost.
    fn output(&mut self, lines: &Lines, to: BorrowedFd<'_>, error: BorrowedFd<'_>, line: &[u8]) {
        if let Err((why, _)) = write(to, line)
            && !std::mem::replace(&mut self.told, true)
        {
            self.error(lines, error, &lines.line(Level::WARN, &format!("cannot write to standard output: {why}")));
        }
    }
}

/// Writes everything, however long the reader takes. Returns the error if it cannot, and whether a
/// part was written.
fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), (io::Error, bool)> {
    let _at = waits::at(Place::LogWrite);
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(count) => rest = &rest[count..],
            Err(rustix::io::Errno::INTR) => {}
            // Another process has made the stream non-blocking.
            Err(rustix::io::Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            Err(error) => return Err((error.into(), rest.len() < bytes.len())),
        }
    }
    Ok(())
}

/// Writes to standard error if it accepts data now: less than a pipe accepts atomically
/// (`PIPE_BUF`).
pub(super) fn past_the_queue(bytes: &[u8]) {
    let error = io::stderr();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut ready = [PollFd::new(&error, PollFlags::OUT)];
    if poll(&mut ready, Some(&now)).is_ok_and(|count| count > 0) && ready[0].revents().contains(PollFlags::OUT) {
        let _ = rustix::io::write(&error, &bytes[..bytes.len().min(4096)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Instant;

    fn put(lines: &Lines, text: &str) {
        lines.put(Stream::Error, text.as_bytes().to_vec());
    }

    #[test]
    fn what_comes_while_nobody_reads_is_bounded_counted_and_told_where_it_is_missing() {
        let lines = Lines::new(LogFormat::Human, false);
        let long = "x".repeat(99_999);
        for _ in 0..15 {
            put(&lines, &long);
        }
        put(&lines, "short");
        let (batch, lost) = lines.next();
        assert_eq!((batch.len(), lost), (10, 6), "a short line does not go past those that were lost");
        put(&lines, "later");
        assert_eq!(lines.next().1, 0);
        assert_eq!(lines.lost(), 6, "counted for who does not read the log");
    }

    #[test]
    fn a_stream_that_fails_is_told_of_once_it_takes_lines_again() {
        let lines = Lines::new(LogFormat::Human, false);
        let mut written = Written::default();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        for _ in 0..3 {
            written.error(&lines, full.as_fd(), b"lost\n");
        }
        let (mut reader, pipe) = io::pipe().expect("a pipe");
        written.error(&lines, pipe.as_fd(), b"heard\n");
        drop(pipe);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        assert!(text.contains("3 lines of the log are missing here: No space left"), "{text}");
        assert!(text.ends_with("heard\n") && text.lines().count() == 2, "{text}");
        assert_eq!(lines.lost(), 3, "counted for who does not read the log");
    }

    #[test]
    fn a_last_word_has_room_and_waits_no_longer_than_it_may() {
        let lines = Lines::new(LogFormat::Json, false);
        for _ in 0..20 {
            put(&lines, &"x".repeat(99_999));
        }
        let began = Instant::now();
        assert!(!lines.say("the end", Duration::from_millis(50)), "nobody writes");
        assert!(began.elapsed() >= Duration::from_millis(50));
        let (batch, _) = lines.next();
        let line = &batch.back().expect("a line").1;
        let value: serde_json::Value = serde_json::from_slice(line).expect("JSON");
        assert_eq!((&value["level"], &value["message"]), (&"ERROR".into(), &"the end".into()));
    }
}
