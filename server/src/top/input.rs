//! Decodes keys from the bytes of a terminal.
//!
//! Not read through the terminal library: its reader never returns once the terminal has been
//! closed. Here that is the end of input.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Time for the rest of an escape sequence, before an escape counts as the key.
const REST_WAIT: Duration = Duration::from_millis(50);

/// The result of a wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Keys, or none in that time.
    Keys(Vec<KeyEvent>),
    /// The terminal was closed.
    Gone,
}

/// The terminal's keys.
#[derive(Debug)]
pub struct Keyboard {
    /// The terminal, if standard input is something else.
    own: Option<File>,
}

impl Keyboard {
    /// Opens the terminal of the process.
    ///
    /// # Errors
    /// It has none.
    pub fn open() -> io::Result<Keyboard> {
        let own = if io::stdin().is_terminal() { None } else { Some(File::open("/dev/tty")?) };
        Ok(Keyboard { own })
    }

    /// Waits for keys for this long; a signal ends the wait.
    pub fn wait(&self, time: Duration) -> Input {
        let stdin = io::stdin();
        let from = self.own.as_ref().map_or_else(|| stdin.as_fd(), |own| own.as_fd());
        let mut bytes = Vec::new();
        if !more(from, time, &mut bytes) {
            return Input::Gone;
        }
        if bytes.last() == Some(&0x1b) && !more(from, REST_WAIT, &mut bytes) {
            return Input::Gone;
        }
        Input::Keys(keys(&bytes))
    }
}

/// Appends input of that time; returns false at the end of input.
fn more(from: BorrowedFd<'_>, time: Duration, bytes: &mut Vec<u8>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(from, PollFlags::IN)];
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match poll(&mut polled, Some(&time)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return true,
        Ok(_) => {}
        Err(_) => return false,
    }
    if polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return false;
    }
    let mut buffer = [0; 256];
    match rustix::io::read(from, &mut buffer) {
        Ok(0) => false,
        Ok(count) => {
            bytes.extend_from_slice(&buffer[..count]);
            true
        }
        Err(error) => matches!(error, rustix::io::Errno::INTR | rustix::io::Errno::AGAIN),
    }
}

/// Sequences of keys other than characters (ECMA-48, as sent by xterm and the Linux console), after
/// the escape.
const SEQUENCES: [(&[u8], KeyCode); 20] = [
    (b"[A", KeyCode::Up),
    (b"[B", KeyCode::Down),
    (b"[C", KeyCode::Right),
    (b"[D", KeyCode::Left),
    (b"OA", KeyCode::Up),
    (b"OB", KeyCode::Down),
    (b"OC", KeyCode::Right),
    (b"OD", KeyCode::Left),
    (b"[Z", KeyCode::BackTab),
    (b"[H", KeyCode::Home),
    (b"OH", KeyCode::Home),
    (b"[1~", KeyCode::Home),
    (b"[7~", KeyCode::Home),
    (b"[F", KeyCode::End),
    (b"[4~", KeyCode::End),
    (b"[5~", KeyCode::PageUp),
    (b"[6~", KeyCode::PageDown),
    (b"OP", KeyCode::F(1)),
    (b"[11~", KeyCode::F(1)),
    (b"[[A", KeyCode::F(1)),
];

/// The keys for these bytes; unknown sequences are skipped.
fn keys(mut bytes: &[u8]) -> Vec<KeyEvent> {
    let mut found = Vec::new();
    while let Some((first, rest)) = bytes.split_first() {
        bytes = rest;
        let key = match first {
            0x1b if rest.is_empty() => KeyEvent::from(KeyCode::Esc),
            0x1b => {
                let known = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence));
                let length = known.map_or_else(|| unknown(rest), |(sequence, _)| sequence.len());
                bytes = &rest[length..];
                let Some((_, code)) = known else { continue };
                KeyEvent::from(*code)
            }
            b'\t' => KeyEvent::from(KeyCode::Tab),
            1..=26 => KeyEvent::new(KeyCode::Char(char::from(first - 1 + b'a')), KeyModifiers::CONTROL),
            b' '..=b'~' => KeyEvent::from(KeyCode::Char(char::from(*first))),
            _ => continue,
        };
        found.push(key);
    }
    found
}

/// Length of an unknown sequence: up to its final byte (ECMA-48 5.4), or one key pressed with Alt.
fn unknown(rest: &[u8]) -> usize {
    match rest {
        [b'[', parameters @ ..] => {
            2 + parameters
                .iter()
                .position(|byte| (0x40..=0x7e).contains(byte))
                .unwrap_or(parameters.len().saturating_sub(1))
        }
        [b'O', _, ..] => 2,
        _ => 1,
    }
    .min(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys() {
        let codes = |bytes: &[u8]| keys(bytes).into_iter().map(|key| key.code).collect::<Vec<_>>();
        assert_eq!(codes(b"q?4 "), "q?4 ".chars().map(KeyCode::Char).collect::<Vec<_>>());
        assert_eq!(codes(b"\x1b"), [KeyCode::Esc]);
        assert_eq!(
            codes(b"\x1b[A\x1bOB\x1b[6~\x1b[Z\tq"),
            [KeyCode::Up, KeyCode::Down, KeyCode::PageDown, KeyCode::BackTab, KeyCode::Tab, KeyCode::Char('q')]
        );
        assert_eq!(keys(b"\x03"), [KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)]);
        // Unknown sequences are skipped as a whole, and the bytes after them are decoded: mouse
        // events, keys with Alt, other scripts.
        assert_eq!(codes(b"\x1b[1;5Aj\x1b[<0;1;2Mk"), [KeyCode::Char('j'), KeyCode::Char('k')]);
        assert_eq!(codes(b"\x1bxj"), [KeyCode::Char('j')]);
        assert_eq!(codes("\u{e9}s".as_bytes()), [KeyCode::Char('s')]);
        for cut in [&b"\x1b["[..], b"\x1bO", b"\x1b[1", b"\x1b\x1b", b"\x00\xff"] {
            codes(cut);
        }
    }
}
