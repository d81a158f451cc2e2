//! Upload slots (XEP-0363) around a kill: slots are asked for from the service, files are uploaded and downloaded by HTTP meanwhile, and
//! some slots are kept for later.
//!
//! What was answered with 201 is served whole afterwards. An upload that the kill broke off is there whole, if only its answer was
//! lost, or not at all, and then its slot is still good. So are those that were not used. No two slots are for one file.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::Said;
use crate::report::Random;
use crate::server::{Plan, Server};
use crate::swarm::Swarm;

/// Accounts that upload.
pub(crate) const UPLOADERS: usize = 4;
/// Slots that one asks for in a round at the most.
const SLOTS: u32 = 60;
/// Bytes of files: a large one takes 0.3 s, so that the kill meets one nearly always.
const SIZES: [usize; 4] = [1, 4_000, 70_000, 600_000];
/// Bytes that are uploaded at once, and the time between two such pieces.
const PIECE: usize = 8 << 10;
const PAUSE: Duration = Duration::from_millis(4);
/// Longest wait for bytes of an answer, and for a server that counts its files first.
const PATIENCE: Duration = Duration::from_secs(20);

/// What had become of a slot when the server was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nothing was uploaded.
    Unused,
    /// An upload had begun and was not answered.
    Begun,
    /// It was answered with 201.
    Created,
}

/// A slot.
#[derive(Debug)]
struct Slot {
    /// Round, uploader, number.
    name: (u32, usize, u32),
    path: String,
    token: String,
    fate: Fate,
}

/// Slots that a thread has used, and what was wrong with them.
type Used = (Vec<Slot>, Vec<String>);

/// What slots of a round came to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Files whose upload was answered with 201 before the kill, and those of them that are served whole.
    pub(crate) created: u64,
    pub(crate) served: u64,
    /// Slots that were good before the kill and had not been used up, and those of them that were taken afterwards.
    pub(crate) unused: u64,
    pub(crate) taken: u64,
    /// Uploads that the kill broke off, and those of them whose files are there whole.
    pub(crate) broken_off: u64,
    pub(crate) whole: u64,
}

/// The slots of a round until the kill.
#[derive(Default)]
pub(crate) struct Slots {
    round: u32,
    asked: [u32; UPLOADERS],
    answered: [u32; UPLOADERS],
    /// Slots that no thread has taken yet.
    waiting: [Option<Slot>; UPLOADERS],
    kept: Vec<Slot>,
    threads: Vec<(SyncSender<Slot>, JoinHandle<Used>)>,
    faults: Vec<String>,
}

impl Slots {
    /// Nobody has asked yet.
    pub(crate) fn new(server: &Server, round: u32) -> Slots {
        let address = server.uploads;
        let thread = || {
            let (slots, taken) = sync_channel(1);
            (slots, std::thread::spawn(move || upload(address, &taken)))
        };
        let threads = std::iter::repeat_with(thread).take(UPLOADERS).collect();
        Slots { round, threads, ..Slots::default() }
    }

    /// Each of the uploaders asks for its next slot, if it has begun to use the one before.
    pub(crate) fn go_on(&mut self, swarm: &mut Swarm, uploaders: &[usize]) {
        for (at, &index) in uploaders.iter().enumerate() {
            if let Some(slot) = self.waiting[at].take()
                && let Err(TrySendError::Full(slot) | TrySendError::Disconnected(slot)) =
                    self.threads[at].0.try_send(slot)
            {
                self.waiting[at] = Some(slot);
            }
            if self.waiting[at].is_none() && self.asked[at] == self.answered[at] && self.asked[at] < SLOTS {
                let size = content((self.round, at, self.asked[at])).len();
                swarm.say(index, &request(self.asked[at], size));
                self.asked[at] += 1;
            }
        }
    }

    /// An uploader has heard something.
    pub(crate) fn heard(&mut self, at: usize, said: Said) {
        let name = (self.round, at, self.answered[at]);
        match said {
            Said::Slot { id, url, token } if id.parse() == Ok(name.2) => {
                self.answered[at] += 1;
                let path =
                    url.split_once("//").and_then(|(_, rest)| rest.find('/').map(|slash| rest[slash..].to_owned()));
                let Some(path) = path else {
                    return self.faults.push(format!("slot {name:?} has a strange URL: {url}"));
                };
                let slot = Slot { name, path, token, fate: Fate::Unused };
                // Every third one is for after the kill.
                match name.2 % 3 {
                    2 => self.kept.push(slot),
                    _ => self.waiting[at] = Some(slot),
                }
            }
            said => self.faults.push(format!("slot {name:?} is refused or unasked: {said:?}")),
        }
    }

    /// The server is gone: all slots, and what was wrong until now.
    fn end(self) -> Used {
        let (mut slots, mut faults) = (self.kept, self.faults);
        slots.extend(self.waiting.into_iter().flatten());
        for (sender, thread) in self.threads {
            drop(sender);
            match thread.join() {
                Ok((used, wrong)) => {
                    slots.extend(used);
                    faults.extend(wrong);
                }
                Err(_) => faults.push("a thread of an uploader has panicked".into()),
            }
        }
        (slots, faults)
    }

    /// Looks at all slots once the server runs again: what they came to, and what is wrong. `paths` has those of earlier ones.
    pub(crate) fn judge(self, server: &Server, plan: &Plan, paths: &mut HashSet<String>) -> (Counts, Vec<String>) {
        let (slots, mut faults) = self.end();
        let mut counts = Counts::default();
        for slot in slots {
            if let Err(what) = slot.judge(server.uploads, &mut counts) {
                faults.push(format!("file {:?}, {:?} at the kill: {what}", slot.name, slot.fate));
            }
            if !paths.insert(slot.path) {
                faults.push(format!("slot {:?} is for the file of another one", slot.name));
            }
        }
        // Sessions are served before the folder is looked at; behind these answers it has been.
        faults.extend(left_over(&plan.data).err());
        (counts, faults)
    }
}

/// What had not come whole is gone.
fn left_over(data: &Path) -> Result<(), String> {
    let left = std::fs::read_dir(data.join("upload/incoming")).map(Iterator::count);
    match left {
        Ok(0) => Ok(()),
        other => Err(format!("of uploads that were broken off is left: {other:?}")),
    }
}

fn request(number: u32, size: usize) -> String {
    format!(
        "<iq type='get' id='{number}' to='upload.localhost'><request xmlns='urn:xmpp:http:upload:0' filename='{number}.bin' \
         size='{size}' content-type='application/octet-stream'/></iq>"
    )
}

/// The bytes of the file of a slot.
fn content((round, uploader, number): (u32, usize, u32)) -> Vec<u8> {
    let mut random = Random::new(u64::from(round) << 32 | (uploader as u64) << 16 | u64::from(number));
    let len = SIZES[number as usize % SIZES.len()] + number as usize;
    std::iter::repeat_with(|| random.next().to_le_bytes()).flatten().take(len).collect()
}

/// Uploads files until there are no more slots, and looks at some of them.
fn upload(address: SocketAddr, slots: &Receiver<Slot>) -> Used {
    let (mut used, mut faults) = (Vec::new(), Vec::new());
    for mut slot in slots {
        match slot.put(address, PAUSE) {
            Ok(Some(201)) => slot.fate = Fate::Created,
            Ok(Some(status)) => faults.push(format!("the upload of {:?} is answered with {status}", slot.name)),
            Ok(None) => slot.fate = Fate::Begun,
            // Nobody listens any more.
            Err(_) => {}
        }
        if slot.fate == Fate::Created && slot.name.2 % 2 == 0 {
            // The kill may break this off, too.
            match slot.get(address) {
                Ok(Some(Got::Whole) | None) | Err(_) => {}
                Ok(Some(got)) => faults.push(format!("the download of {:?} is {got:?} before the kill", slot.name)),
            }
        }
        used.push(slot);
    }
    (used, faults)
}

/// What a download has brought.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    /// The file.
    Whole,
    /// There is none.
    Nothing,
    /// Something else: its status and length.
    Other(u16, usize),
}

impl Slot {
    /// See [`Slots::judge`].
    fn judge(&self, address: SocketAddr, counts: &mut Counts) -> Result<(), String> {
        let got = self.got(address)?;
        match (self.fate, got) {
            (Fate::Created, got) => {
                counts.created += 1;
                counts.served += u64::from(got == Got::Whole);
                return if got == Got::Whole { Ok(()) } else { Err(format!("a download is {got:?}")) };
            }
            (Fate::Begun, Got::Whole) => {
                counts.broken_off += 1;
                counts.whole += 1;
                return Ok(());
            }
            (Fate::Begun, Got::Nothing) => counts.broken_off += 1,
            (Fate::Unused, Got::Nothing) => {}
            (_, got) => return Err(format!("a download is {got:?}")),
        }
        counts.unused += 1;
        let since = Instant::now();
        loop {
            match self.put(address, Duration::ZERO) {
                // It counts its files first.
                Ok(Some(503)) if since.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(50)),
                Ok(Some(201)) => break,
                other => return Err(format!("an upload is {other:?}")),
            }
        }
        match self.got(address)? {
            Got::Whole => counts.taken += 1,
            got => return Err(format!("a download after the upload is {got:?}")),
        }
        Ok(())
    }

    fn got(&self, address: SocketAddr) -> Result<Got, String> {
        let got = self.get(address).map_err(|error| error.to_string())?;
        got.ok_or_else(|| "a download is broken off".to_owned())
    }

    /// Uploads the file. The status of the answer; none if there was no answer.
    ///
    /// # Errors
    /// Nobody listens.
    fn put(&self, address: SocketAddr, pause: Duration) -> io::Result<Option<u16>> {
        let body = content(self.name);
        let head = format!(
            "PUT {} HTTP/1.1\r\nHost: files.localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.path,
            self.token,
            body.len()
        );
        Ok(exchange(connect(address)?, &head, &body, pause).ok().flatten().map(|(status, _)| status))
    }

    /// Downloads the file; none if that was broken off.
    ///
    /// # Errors
    /// Nobody listens.
    fn get(&self, address: SocketAddr) -> io::Result<Option<Got>> {
        let head = format!("GET {} HTTP/1.1\r\nHost: files.localhost\r\nConnection: close\r\n\r\n", self.path);
        let answer = exchange(connect(address)?, &head, &[], Duration::ZERO).ok().flatten();
        Ok(answer.map(|(status, body)| match status {
            200 if body == content(self.name) => Got::Whole,
            404 => Got::Nothing,
            status => Got::Other(status, body.len()),
        }))
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a request of HTTP/1.1, and reads the answer to its end: status and body, none if it does not come whole.
fn exchange(mut stream: TcpStream, head: &str, body: &[u8], pause: Duration) -> io::Result<Option<(u16, Vec<u8>)>> {
    stream.write_all(head.as_bytes())?;
    for piece in body.chunks(PIECE) {
        match stream.write_all(piece) {
            // It may have been answered already.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => break,
            other => other?,
        }
        std::thread::sleep(pause);
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(read(&answer))
}

fn read(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let body = &answer[end + 4..];
    length.is_none_or(|length: usize| length == body.len()).then(|| (status, body.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_when_it_is_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(read(whole), Some((200, b"abc".to_vec())));
        (0..whole.len()).for_each(|cut| assert_eq!(read(&whole[..cut]), None));
    }

    #[test]
    fn no_two_files_are_alike() {
        let (one, other) = (content((0, 1, 3)), content((0, 1, 7)));
        assert_eq!((one.len(), other.len()), (600_003, 600_007));
        assert_ne!(one[..64], other[..64]);
        assert_ne!(content((1, 0, 0)), content((0, 0, 0)));
    }
}
