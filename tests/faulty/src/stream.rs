//! A stream as messages and what is between them, and what is done to the messages.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::{Counts, Fault};

const START: &[u8] = b"<message ";
const END: &[u8] = b"</message>";

/// How long a message waits for the next one, to come behind it.
const NEXT_MAX: Duration = Duration::from_secs(1);

/// Whether an item is a message with a body.
pub(crate) fn is_message(item: &[u8]) -> bool {
    item.starts_with(START) && find(item, b"<body").is_some()
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Cuts what comes into whole messages and whatever is between them.
#[derive(Debug, Default)]
pub(crate) struct Items {
    bytes: Vec<u8>,
    /// What has been taken of them.
    taken: usize,
}

impl Items {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next, if it is whole.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let text = &self.bytes[self.taken..];
        let length = match find(text, START) {
            Some(0) => find(text, END)? + END.len(),
            Some(between) => between,
            // The beginning of a message may have come in part.
            None => {
                let part = (1..START.len()).rev().find(|len| text.ends_with(&START[..*len])).unwrap_or(0);
                text.len() - part
            }
        };
        if length == 0 {
            return None;
        }
        self.taken += length;
        Some(text[..length].to_vec())
    }
}

/// Writes items to one client and plants the faults.
#[derive(Debug)]
pub(crate) struct Sender<W: Write> {
    client: W,
    fault: Fault,
    every: u64,
    counts: Arc<Counts>,
    /// To be written at the end of the turn.
    out: Vec<u8>,
    /// Held back, until when.
    held: Vec<(Instant, Vec<u8>, Overtaken)>,
}

type Overtaken = bool;

impl<W: Write> Sender<W> {
    pub(crate) fn new(client: W, fault: Fault, every: u64, counts: Arc<Counts>) -> Sender<W> {
        Sender { client, fault, every, counts, out: Vec::new(), held: Vec::new() }
    }

    /// Takes an item. False: the stream is to be cut.
    pub(crate) fn item(&mut self, item: Vec<u8>, now: Instant) -> io::Result<bool> {
        if !is_message(&item) {
            self.out.extend_from_slice(&item);
            return Ok(true);
        }
        let number = self.counts.came.fetch_add(1, Ordering::Relaxed) + 1;
        let chosen = number.is_multiple_of(self.every);
        let planted = &self.counts.planted;
        match self.fault {
            Fault::Swap if chosen && self.held.is_empty() => {
                self.held.push((now + NEXT_MAX, item, false));
                return Ok(true);
            }
            Fault::Delay(time) if chosen => {
                planted.fetch_add(1, Ordering::Relaxed);
                self.held.push((now + time, item, false));
                return Ok(true);
            }
            Fault::Drop if chosen => {}
            Fault::Double if chosen => {
                self.out.extend_from_slice(&item);
                self.out.extend_from_slice(&item);
            }
            Fault::Corrupt if chosen => self.out.extend_from_slice(&corrupted(item, number)),
            Fault::Cut if chosen => {
                planted.fetch_add(1, Ordering::Relaxed);
                self.flush()?;
                return Ok(false);
            }
            _ => {
                self.out.extend_from_slice(&item);
                self.behind();
                return Ok(true);
            }
        }
        planted.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// A message has gone ahead of those that are held back.
    fn behind(&mut self) {
        if self.fault == Fault::Swap {
            for (_, item, _) in self.held.drain(..) {
                self.counts.planted.fetch_add(1, Ordering::Relaxed);
                self.out.extend_from_slice(&item);
            }
        }
        for (_, _, overtaken) in self.held.iter_mut().filter(|held| !held.2) {
            *overtaken = true;
            self.counts.overtaken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Time has gone on: what was held back for long enough goes out. A message that none has followed is no swap.
    pub(crate) fn due(&mut self, now: Instant) -> io::Result<()> {
        let out = &mut self.out;
        self.held.retain(|(until, item, _)| {
            let stays = *until > now;
            if !stays {
                out.extend_from_slice(item);
            }
            stays
        });
        self.flush()
    }

    /// Writes what is to be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.client.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

/// Another letter somewhere in the body, by the message's number.
fn corrupted(mut item: Vec<u8>, number: u64) -> Vec<u8> {
    let body = find(&item, b"<body").and_then(|at| Some(at + find(&item[at..], b">")? + 1));
    let end = find(&item, b"</body>");
    if let (Some(start), Some(end)) = (body, end)
        && start < end
    {
        let at = start + (number / 7 * 31) as usize % (end - start);
        item[at] = if item[at] == b'q' { b'z' } else { b'q' };
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u32) -> Vec<u8> {
        format!("<message to='a'><body>{number:04}</body></message>").into_bytes()
    }

    #[test]
    fn messages_are_whole_however_they_are_cut() {
        let text = [b"<iq/>".to_vec(), message(1), message(2), b"<presence/>".to_vec()].concat();
        for cut in 0..text.len() {
            let mut items = Items::default();
            let mut all = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                items.put(part);
                all.extend(std::iter::from_fn(|| items.next()));
            }
            assert_eq!(all.concat(), text);
            assert_eq!(all.iter().filter(|item| is_message(item)).count(), 2, "{cut}");
        }
    }

    fn through(fault: Fault, count: u32) -> (String, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        let mut sender = Sender::new(Vec::new(), fault, 2, counts.clone());
        let now = Instant::now();
        for number in 1..=count {
            if !sender.item(message(number), now).expect("memory takes all") {
                break;
            }
        }
        sender.due(now + Duration::from_secs(9)).expect("memory takes all");
        let text = String::from_utf8(sender.client).expect("text");
        let bodies: Vec<&str> = text.split("<body>").skip(1).map(|rest| &rest[..4]).collect();
        (bodies.join(" "), counts)
    }

    #[test]
    fn each_fault_is_planted_and_counted() {
        let cases = [
            (Fault::Nothing, "0001 0002 0003 0004", 0),
            (Fault::Drop, "0001 0003", 2),
            (Fault::Double, "0001 0002 0002 0003 0004 0004", 2),
            // The last one is followed by none.
            (Fault::Swap, "0001 0003 0002 0004", 1),
            (Fault::Delay(Duration::from_secs(1)), "0001 0003 0002 0004", 2),
            (Fault::Cut, "0001", 1),
        ];
        for (fault, told, planted) in cases {
            let (text, counts) = through(fault, 4);
            assert_eq!((text.as_str(), counts.planted()), (told, planted), "{fault:?}");
        }
        let (text, counts) = through(Fault::Corrupt, 2);
        assert!(text.starts_with("0001 ") && text != "0001 0002" && text.len() == 9, "{text}");
        assert_eq!((counts.planted(), counts.came()), (1, 2));
        assert_eq!(through(Fault::Delay(Duration::from_secs(1)), 4).1.overtaken(), 1);
    }
}
