//! The client's side of a BOSH session (XEP-0124, XEP-0206): the next request, its connection,
//! pending answers, and requests to repeat.
//!
//! [`Bosh::next`] returns what to do, and [`Bosh::write`] writes the request that it names. Input
//! goes to [`Bosh::judge`], [`Bosh::answered`] and [`Bosh::lost`]. Time is an argument, in ticks.
//! This module must never know a socket, TLS, or the meaning of elements.
//!
//! An idle session has one empty request at the server, and nothing on the heap but its id.

use memchr::memmem;
use throng_engine::wire::text::escape_value_into;
use throng_engine::wire::{Element, Expect, Progress, Scanner, StreamScope};

use crate::framing::{ELEMENT_BYTES_MAX, Piece, Target, piece, write_alone};
use crate::wheel::{TICK_MS, Tick};

/// Connections of a session (XEP-0124 7.2: two are enough for one request that waits).
pub(crate) const LINES: usize = 2;

const HTTPBIND: &str = "http://jabber.org/protocol/httpbind";
const XBOSH: &str = "urn:xmpp:xbosh";

/// Content of a request that is not added to.
const CONTENT_BYTES: usize = 32 << 10;

/// Tries in a row that end without an answer before the session is given up.
const TRIES_MAX: u8 = 8;

/// First wait before a second try, in ticks; it doubles.
const BACKOFF_TICKS: Tick = 100 / TICK_MS;

/// How much longer than it may wait a request may take, in seconds.
const SPARE_S: u32 = 20;

/// The highest number that a request may have at the start, so that it stays below 2^53 (XEP-0124
/// 14.1).
const FIRST_RID_MAX: u64 = 1 << 48;

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Line {
    /// There is none.
    #[default]
    None,
    /// It is being made.
    Connecting,
    /// No request is on it.
    Idle,
    /// One is.
    Busy,
    /// It is being closed.
    Closing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Kind {
    Begin,
    #[default]
    Usual,
    Restart,
    End,
}

/// A request without an answer, or with one that arrived out of order.
#[derive(Debug, Default)]
struct Asked {
    content: Vec<u8>,
    answer: Option<Box<[u8]>>,
    since: Tick,
    line: Option<u8>,
    kind: Kind,
    /// It has been sent before.
    again: bool,
    /// How many before it had no answer when it was made (XEP-0124 9.2).
    open: u8,
}

/// The next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Do {
    /// Make this connection.
    Connect(usize),
    /// Send a request on it.
    Ask {
        /// Which connection.
        line: usize,
        /// The request was sent before.
        again: bool,
    },
    /// Come back at this time.
    Later(Tick),
}

/// The attributes of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Said {
    /// The session's name.
    sid: Option<Box<str>>,
    wait_s: Option<u32>,
    inactivity_s: Option<u32>,
    polling_s: Option<u32>,
    requests: Option<u8>,
    hold: Option<u8>,
    acks: bool,
    /// Something went wrong on the way: the request is to be sent again (XEP-0124 17.4).
    pub(crate) fails: bool,
    /// The session ends, with this condition (XEP-0124 17.2, 17.3).
    pub(crate) ends: Option<Box<str>>,
}

/// The consequence of a lost connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// No request was on it.
    Nothing,
    /// The request is sent again.
    Again,
    /// The session is given up.
    Over,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Bosh {
    /// Number of the next request.
    rid: u64,
    sid: Option<Box<str>>,
    /// The oldest first.
    asked: [Asked; LINES],
    /// How many of these there are.
    count: u8,
    lines: [Line; LINES],
    /// Nothing is asked before this time.
    quiet_until: Tick,
    /// When a session that polls may ask without having anything to say.
    poll_at: Tick,
    wait_s: u32,
    inactivity_s: u32,
    polling_s: u32,
    requests: u8,
    hold: u8,
    tries: u8,
    /// The server says which requests have come, and is told which answers have.
    acks: bool,
    /// The header of a stream was asked for: the next content stands behind one.
    header_due: bool,
    /// The end was asked for: nothing comes behind it.
    ended: bool,
}

impl Bosh {
    /// A session that begins with about this number.
    pub(crate) fn begin(number: u64) -> Bosh {
        Bosh { rid: number % FIRST_RID_MAX + 1, ..Bosh::default() }
    }

    /// How a connection stands.
    pub(crate) fn line(&self, line: usize) -> Line {
        self.lines[line]
    }

    /// Whether there is no connection.
    pub(crate) fn is_apart(&self) -> bool {
        self.lines.iter().all(|line| *line == Line::None)
    }

    /// Whether the server knows the session.
    pub(crate) fn stands(&self) -> bool {
        self.sid.is_some() && !self.ended
    }

    /// Whether the server has given it a name.
    pub(crate) fn is_known(&self) -> bool {
        self.sid.is_some()
    }

    /// Whether nothing is to be asked yet.
    pub(crate) fn is_quiet(&self, now: Tick) -> bool {
        now < self.quiet_until
    }

    /// Seconds for which it may be without a request.
    pub(crate) fn inactivity_s(&self) -> u32 {
        self.inactivity_s
    }

    /// A connection has been made.
    pub(crate) fn connected(&mut self, line: usize) {
        self.lines[line] = Line::Idle;
    }

    /// A connection is being closed.
    pub(crate) fn closing(&mut self, line: usize) {
        self.lines[line] = Line::Closing;
    }

    /// A connection is gone.
    pub(crate) fn closed(&mut self, line: usize) {
        self.lines[line] = Line::None;
    }

    /// Nothing is asked before this time, or from now on.
    pub(crate) fn be_quiet(&mut self, until: Tick) {
        self.quiet_until = until;
    }

    fn polls(&self) -> bool {
        self.sid.is_some() && (self.hold == 0 || self.wait_s == 0)
    }

    /// Requests that there may be at once (XEP-0124 7.2, 11).
    fn most(&self) -> usize {
        if self.sid.is_some() { usize::from(self.requests).clamp(1, LINES) } else { 1 }
    }

    /// What to do next. `ready`: connections that may be sent on. Of `stream` what goes with a
    /// request is taken.
    pub(crate) fn next(
        &mut self,
        stream: &mut Vec<u8>,
        ready: [bool; LINES],
        scanner: &mut Scanner,
        now: Tick,
    ) -> Option<Do> {
        if now < self.quiet_until {
            return None;
        }
        loop {
            let count = usize::from(self.count);
            if let Some(index) =
                self.asked[..count].iter().position(|asked| asked.line.is_none() && asked.answer.is_none())
            {
                return self.place(index, ready, now);
            }
            if self.ended || count >= self.most() || count > 0 && stream.is_empty() {
                return None;
            }
            match self.made(stream, scanner) {
                Some(asked) => self.push(asked),
                None if count > 0 || self.sid.is_none() => return None,
                // XEP-0124 12: whoever polls waits in between.
                None if self.polls() && now < self.poll_at => return Some(Do::Later(self.poll_at)),
                None => {
                    self.poll_at = now + self.polling_s * 1_000 / TICK_MS;
                    self.push(Asked::default());
                }
            }
        }
    }

    fn push(&mut self, mut asked: Asked) {
        asked.open = self.count;
        self.asked[usize::from(self.count)] = asked;
        self.count += 1;
        self.rid += 1;
    }

    /// Gives a request a connection.
    fn place(&mut self, index: usize, ready: [bool; LINES], now: Tick) -> Option<Do> {
        if let Some(line) = (0..LINES).find(|line| self.lines[*line] == Line::Idle && ready[*line]) {
            self.lines[line] = Line::Busy;
            let asked = &mut self.asked[index];
            (asked.line, asked.since) = (Some(line as u8), now);
            return Some(Do::Ask { line, again: asked.again });
        }
        // One is on its way, or has not taken all of the last request.
        if self.lines.iter().any(|line| matches!(line, Line::Connecting | Line::Idle)) {
            return None;
        }
        let line = self.lines.iter().position(|line| *line == Line::None)?;
        self.lines[line] = Line::Connecting;
        Some(Do::Connect(line))
    }

    /// A request of what the stream has to say; none if that is nothing.
    fn made(&mut self, stream: &mut Vec<u8>, scanner: &mut Scanner) -> Option<Asked> {
        let (mut asked, mut at) = (Asked::default(), 0);
        while let Some((piece, used)) = piece(&stream[at..], scanner) {
            match piece {
                // XEP-0206 5: a request of its own.
                Piece::Header if asked.content.is_empty() => {
                    asked.kind = if self.sid.is_some() { Kind::Restart } else { Kind::Begin };
                    (at, self.header_due) = (at + used, true);
                    break;
                }
                Piece::Header => break,
                // XEP-0124 13: what is said last may go with it.
                Piece::End => {
                    (asked.kind, self.ended) = (Kind::End, true);
                    at += used;
                    break;
                }
                Piece::Element(element) => {
                    write_alone(&mut asked.content, element);
                    at += used;
                    if asked.content.len() >= CONTENT_BYTES {
                        break;
                    }
                }
            }
        }
        stream.drain(..at);
        (at > 0).then_some(asked)
    }

    /// Appends the request that is on this connection, as HTTP.
    pub(crate) fn write(&self, target: &Target, line: usize, out: &mut Vec<u8>) {
        let Some(index) = self.on(line) else { return };
        let asked = &self.asked[index];
        let rid = self.rid - u64::from(self.count) + index as u64;
        let mut body = Vec::with_capacity(asked.content.len() + 192);
        let mut add = |name: &str, value: &str| {
            body.extend_from_slice(format!(" {name}='").as_bytes());
            escape_value_into(&mut body, value);
            body.push(b'\'');
        };
        add("rid", &rid.to_string());
        match &self.sid {
            _ if asked.kind == Kind::Begin => {
                add("to", &target.domain);
                add("ver", "1.11");
                add("wait", &target.wait_s.to_string());
                add("hold", "1");
                add("ack", "1");
                add("content", "text/xml; charset=utf-8");
                add("xml:lang", "en");
                add("xmlns:xmpp", XBOSH);
                add("xmpp:version", "1.0");
            }
            Some(sid) => add("sid", sid),
            None => {}
        }
        match asked.kind {
            Kind::Restart => {
                add("to", &target.domain);
                add("xml:lang", "en");
                add("xmlns:xmpp", XBOSH);
                add("xmpp:restart", "true");
            }
            Kind::End => add("type", "terminate"),
            _ => {}
        }
        // XEP-0124 9.2: said only if it is not the one before this request.
        if self.acks && asked.open > 0 {
            add("ack", &(rid - 1 - u64::from(asked.open)).to_string());
        }
        let closing: &[u8] = if asked.content.is_empty() { b"/>" } else { b"</body>" };
        let opening = format!("<body xmlns='{HTTPBIND}'");
        let inner = if asked.content.is_empty() { 0 } else { 1 + asked.content.len() };
        let length = opening.len() + body.len() + inner + closing.len();
        let Target { host, path, .. } = target;
        out.extend_from_slice(
            format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/xml; charset=utf-8\r\n\
                 Content-Length: {length}\r\n\r\n{opening}"
            )
            .as_bytes(),
        );
        out.append(&mut body);
        if !asked.content.is_empty() {
            out.push(b'>');
            out.extend_from_slice(&asked.content);
        }
        out.extend_from_slice(closing);
    }

    /// Which request is on a connection.
    fn on(&self, line: usize) -> Option<usize> {
        let on = |asked: &Asked| asked.line == Some(line as u8) && asked.answer.is_none();
        self.asked[..usize::from(self.count)].iter().position(on)
    }

    /// The whole answer to the request on this connection came. True: it is the next one, to be
    /// heard now, and then what [`Bosh::kept`] has.
    ///
    /// # Errors
    /// Nothing was asked there.
    pub(crate) fn answered(&mut self, line: usize, body: &[u8]) -> Result<bool, String> {
        let index = self.on(line).ok_or("bosh: an answer without a request")?;
        (self.lines[line], self.tries) = (Line::Idle, 0);
        if index > 0 {
            // XEP-0124 14.2: answers count in the order of their requests.
            self.asked[index].answer = Some(body.into());
            return Ok(false);
        }
        self.pop();
        Ok(true)
    }

    fn pop(&mut self) -> Asked {
        self.asked[..usize::from(self.count)].rotate_left(1);
        self.count -= 1;
        std::mem::take(&mut self.asked[usize::from(self.count)])
    }

    /// An answer that came ahead of its turn, and whose turn it is now.
    pub(crate) fn kept(&mut self) -> Option<Box<[u8]>> {
        if self.count == 0 || self.asked[0].answer.is_none() {
            return None;
        }
        self.pop().answer
    }

    /// What the session learns from an answer whose turn it is. True: its content stands behind the
    /// header of a stream.
    pub(crate) fn learn(&mut self, said: &mut Said, has_content: bool) -> bool {
        if let Some(sid) = said.sid.take().filter(|_| self.sid.is_none()) {
            self.sid = Some(sid);
            self.hold = said.hold.unwrap_or(1);
            self.requests = said.requests.unwrap_or(self.hold.saturating_add(1));
            (self.wait_s, self.acks) = (said.wait_s.unwrap_or(60), said.acks);
            self.inactivity_s = said.inactivity_s.unwrap_or(30);
            self.polling_s = said.polling_s.unwrap_or(5).min(60);
        }
        has_content && std::mem::take(&mut self.header_due)
    }

    /// The answer on this connection says that its request is to be sent again, and those before it
    /// (XEP-0124 17.4). Tells which other connections are of no use any more.
    pub(crate) fn repeat(&mut self, line: usize, now: Tick) -> (Loss, [bool; LINES]) {
        let mut closes = [false; LINES];
        let last = self.on(line).map_or(0, |index| index + 1);
        self.lines[line] = Line::Idle;
        for asked in self.asked[..last].iter_mut().filter(|asked| asked.answer.is_none()) {
            if let Some(other) = asked.line.take().filter(|other| usize::from(*other) != line) {
                closes[usize::from(other)] = true;
            }
            asked.again = true;
        }
        (self.try_again(now), closes)
    }

    /// A connection has broken, or could not be made.
    pub(crate) fn lost(&mut self, line: usize, now: Tick) -> Loss {
        let connects = self.lines[line] == Line::Connecting;
        if self.leave(line) || connects { self.try_again(now) } else { Loss::Nothing }
    }

    /// A connection is given up, whoever wants that. Its request is to be sent on another one; true
    /// if there is one.
    pub(crate) fn leave(&mut self, line: usize) -> bool {
        let index = self.on(line);
        self.lines[line] = Line::Closing;
        if let Some(index) = index {
            (self.asked[index].line, self.asked[index].again) = (None, true);
        }
        index.is_some()
    }

    fn try_again(&mut self, now: Tick) -> Loss {
        self.tries += 1;
        if self.sid.is_none() || self.tries > TRIES_MAX {
            return Loss::Over;
        }
        if self.tries > 1 {
            self.quiet_until = now + (BACKOFF_TICKS << (self.tries - 2));
        }
        Loss::Again
    }

    /// When something is to be looked after: the time until which nothing is asked, or the one at
    /// which the oldest request has waited for too long.
    pub(crate) fn due(&self, now: Tick) -> Option<Tick> {
        if now < self.quiet_until {
            return Some(self.quiet_until);
        }
        let spare = (self.wait_s + SPARE_S) * 1_000 / TICK_MS;
        let busy = |asked: &&Asked| asked.line.is_some() && asked.answer.is_none();
        self.asked[..usize::from(self.count)].iter().find(busy).map(|asked| asked.since + spare)
    }

    /// The connection of a request that has waited for too long: nobody is there any more.
    pub(crate) fn dead(&self, now: Tick) -> Option<usize> {
        let spare = (self.wait_s + SPARE_S) * 1_000 / TICK_MS;
        let dead = |asked: &&Asked| asked.line.is_some() && asked.answer.is_none() && asked.since + spare <= now;
        self.asked[..usize::from(self.count)].iter().find(dead).and_then(|asked| asked.line).map(usize::from)
    }

    /// Bytes on the heap.
    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        let asked =
            self.asked.iter().map(|asked| asked.content.capacity() + asked.answer.as_ref().map_or(0, |a| a.len()));
        asked.sum::<usize>() + self.sid.as_ref().map_or(0, |sid| sid.len())
    }
}

/// Reads an answer: what it says, and its content.
///
/// # Errors
/// It is no `<body/>`, as a kind of error.
pub(crate) fn read<'a>(body: &'a [u8], scanner: &mut Scanner) -> Result<(Said, &'a [u8]), String> {
    let body = body.trim_ascii_start();
    let body = match body.strip_prefix(b"<?xml") {
        Some(rest) => rest[memchr::memchr(b'>', rest).map_or(0, |end| end + 1)..].trim_ascii_start(),
        None => body,
    };
    let found = scanner.scan(&StreamScope::None, Expect::Content, ELEMENT_BYTES_MAX, body);
    let read = match found {
        Ok(Progress::Element { consumed }) => {
            said(&scanner.element(&StreamScope::None, &body[..consumed])).map(|(said, inner)| (said, &body[inner]))
        }
        Ok(_) => Err("bosh: an answer without a whole <body/>".into()),
        Err(fault) => Err(format!("bosh: malformed: {fault}")),
    };
    scanner.reset();
    read
}

fn said(element: &Element<'_>) -> Result<(Said, std::ops::Range<usize>), String> {
    if !element.is("body", HTTPBIND) {
        return Err("bosh: an answer other than <body/>; see --path".into());
    }
    let mut said = Said::default();
    for attribute in element.attributes().filter(|attribute| attribute.prefix().is_empty()) {
        let value = attribute.value();
        match attribute.name() {
            "sid" => said.sid = Some(value.as_ref().into()),
            "wait" => said.wait_s = value.parse().ok().map(|s: u32| s.min(3_600)),
            "inactivity" => said.inactivity_s = value.parse().ok().map(|s: u32| s.min(86_400)),
            "polling" => said.polling_s = value.parse().ok(),
            "requests" => said.requests = value.parse().ok(),
            "hold" => said.hold = value.parse().ok(),
            "ack" => said.acks = true,
            "type" if value == "error" => said.fails = true,
            "type" if value == "terminate" => {
                said.ends.get_or_insert_with(|| "without a condition".into());
            }
            "condition" => said.ends = Some(value.chars().take(40).collect::<String>().into()),
            _ => {}
        }
    }
    // What has content has an end tag, and begins nothing behind it.
    let length = element.inner().len();
    let end = if length == 0 { 0 } else { memmem::rfind(element.bytes(), b"</").unwrap_or(length) };
    Ok((said, end.saturating_sub(length)..end))
}

#[cfg(test)]
mod tests;
