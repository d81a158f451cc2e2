//! Sessions over BOSH: their two connections per client in the driver, and the input on them.
//!
//! A broken connection does not end a session: its request is repeated on the next one. A session
//! has failed when the server says so, or after several consecutive attempts without an answer.

use throng_engine::wire::Scanner;
use throng_tls::client::TlsClient;

use super::{Command, NEVER, State, World};
use crate::bosh::{Bosh, Do, LINES, Line, Loss, Said, read};
use crate::client::Security;
use crate::driver::{Driver, Event};
use crate::framing::HEADER;
use crate::scenario::BOSH_CONNECTIONS;
use crate::web;
use crate::wheel::Tick;

/// How much shorter than a session may be without a request a network must be away for the session
/// to go on, in seconds.
const MARGIN_S: f64 = 2.0;

/// A session and its connections.
pub(super) struct Talk {
    bosh: Bosh,
    wires: [Wire; LINES],
    /// What the wheel's entry has to say to be meant.
    timer: Tick,
    /// Its network is away, and comes back when nothing keeps it from asking.
    cut: bool,
}

/// What goes through a connection.
#[derive(Default)]
struct Wire {
    tls: Option<Box<TlsClient>>,
    /// A request that waits for the end of the handshake.
    plain: Vec<u8>,
    /// The beginning of an answer.
    partial: Vec<u8>,
    sending: bool,
}

const _: () = assert!(LINES as u32 == BOSH_CONNECTIONS);
const _: () = assert!(size_of::<Talk>() <= 304, "an idle session over BOSH costs this much more, and the name of it");

impl Default for Talk {
    fn default() -> Talk {
        Talk { bosh: Bosh::default(), wires: Default::default(), timer: NEVER, cut: false }
    }
}

/// The driver's number of a connection.
fn slot(client: u32, line: usize) -> u32 {
    client * LINES as u32 + line as u32
}

impl World {
    pub(super) fn asks(&self) -> bool {
        !self.talks.is_empty()
    }

    fn talk(&mut self, client: u32) -> &mut Talk {
        &mut self.talks[client as usize]
    }

    fn lives(&self, client: u32) -> bool {
        matches!(self.conns[client as usize].state, State::Login | State::Up | State::Leaving)
    }

    /// A session begins; nothing of an earlier one is left.
    pub(super) fn begin_asking(&mut self, client: u32) {
        let number = self.random.next();
        *self.talk(client) = Talk { bosh: Bosh::begin(number), ..Talk::default() };
        let direct = self.plan.profile.security == Security::Direct;
        self.open_stream(client, direct);
    }

    pub(super) fn asking_event(&mut self, event: Event<'_>) {
        let of = |slot: u32| (slot / LINES as u32, slot as usize % LINES);
        match event {
            Event::Connected(slot) => {
                let (client, line) = of(slot);
                self.line_stands(client, line);
            }
            Event::Received(slot, bytes) => {
                let (client, line) = of(slot);
                self.heard_on(client, line, bytes);
            }
            Event::Sent(slot, buffer) => {
                let (client, line) = of(slot);
                self.talk(client).wires[line].sending = false;
                self.give_back(buffer);
                self.mark(client);
            }
            Event::Ended(slot, errno) => {
                let (client, line) = of(slot);
                self.line_ended(client, line, &super::life::ending(errno));
            }
            Event::Closed(slot) => {
                let (client, line) = of(slot);
                let talk = self.talk(client);
                talk.wires[line] = Wire::default();
                talk.bosh.closed(line);
                let apart = talk.bosh.is_apart();
                match self.conn(client).state {
                    State::Closing if apart => self.closed(client),
                    _ => self.mark(client),
                }
            }
        }
    }

    fn line_stands(&mut self, client: u32, line: usize) {
        self.tally.counters.connects += 1;
        if self.talk(client).bosh.line(line) != Line::Connecting {
            return;
        }
        if self.plan.profile.security == Security::Direct {
            let Some(tls) = self.new_tls() else { return self.broke(client, "tls: cannot begin", true) };
            self.talk(client).wires[line].tls = Some(tls);
        }
        self.talk(client).bosh.connected(line);
        if self.conn(client).state == State::Up {
            self.commands.push(Command::Favour(slot(client, line)));
        }
        self.mark(client);
    }

    fn heard_on(&mut self, client: u32, line: usize, bytes: &[u8]) {
        self.tally.counters.bytes_in += bytes.len() as u64;
        if !self.lives(client) {
            return;
        }
        let Some(tls) = self.talks[client as usize].wires[line].tls.as_mut() else {
            return self.answer_grows(client, line, bytes);
        };
        let mut plaintext = std::mem::take(&mut self.plaintext);
        plaintext.clear();
        self.records.clear();
        self.records.extend_from_slice(bytes);
        let failed = tls.receive(&mut self.records, &mut plaintext).err();
        if tls.wants_send() {
            self.mark(client);
        }
        self.answer_grows(client, line, &plaintext);
        self.plaintext = plaintext;
        if let Some(error) = failed {
            self.broke(client, &format!("tls: {error}"), false);
        }
    }

    fn answer_grows(&mut self, client: u32, line: usize, bytes: &[u8]) {
        if bytes.is_empty() || !self.lives(client) {
            return;
        }
        let mut held = std::mem::take(&mut self.talk(client).wires[line].partial);
        let all = if held.is_empty() {
            bytes
        } else {
            held.extend_from_slice(bytes);
            &held
        };
        match web::answer(all) {
            Ok(Some((head, body))) if head.bytes + body.len() == all.len() => {
                self.answer_came(client, line, &head, body);
            }
            Ok(Some(_)) => self.broke(client, "http: bytes behind an answer", false),
            Ok(None) if held.is_empty() => self.talk(client).wires[line].partial = bytes.to_vec(),
            Ok(None) => self.talk(client).wires[line].partial = held,
            Err(fault) => self.broke(client, &web::not_http(fault), false),
        }
    }

    fn answer_came(&mut self, client: u32, line: usize, head: &web::Head<'_>, body: &[u8]) {
        if head.status != 200 {
            if self.conn(client).state == State::Leaving {
                return self.close(client, false);
            }
            let (status, path) = (head.status, &self.plan.target.path);
            let kind = format!("bosh: the server answers {status} to POST {path}; see --path and --to");
            // A path that is not there does not come.
            let fatal = status == 404 && !self.talks[client as usize].bosh.stands();
            return self.broke(client, &kind, fatal);
        }
        let mut scanner = std::mem::take(&mut self.outer);
        self.body_came(client, line, head.closes, body, &mut scanner);
        self.outer = scanner;
        if self.lives(client) {
            self.mark(client);
        }
    }

    fn body_came(&mut self, client: u32, line: usize, closes: bool, body: &[u8], scanner: &mut Scanner) {
        let (said, content) = match read(body, scanner) {
            Ok(read) => read,
            Err(kind) => return self.broke(client, &kind, false),
        };
        let now = self.tick();
        if said.fails {
            let (loss, useless) = self.talk(client).bosh.repeat(line, now);
            for other in (0..LINES).filter(|other| useless[*other]) {
                self.close_line(client, other, true);
            }
            return self.heed(client, loss, "bosh: the server asks to repeat again and again");
        }
        let turn = self.talk(client).bosh.answered(line, body);
        if closes {
            self.close_line(client, line, false);
        }
        match turn {
            Ok(true) => self.turn_came(client, said, content),
            Ok(false) => return,
            Err(kind) => return self.broke(client, &kind, false),
        }
        while self.lives(client)
            && let Some(kept) = self.talk(client).bosh.kept()
        {
            match read(&kept, scanner) {
                Ok((said, content)) => self.turn_came(client, said, content),
                Err(kind) => self.broke(client, &kind, false),
            }
        }
    }

    /// The answer whose turn it is.
    fn turn_came(&mut self, client: u32, mut said: Said, content: &[u8]) {
        let ends = said.ends.take();
        let talk = self.talk(client);
        let begins = talk.bosh.learn(&mut said, !content.is_empty());
        let known = talk.bosh.is_known();
        if begins {
            self.hear(client, HEADER);
        }
        self.hear(client, content);
        if !self.lives(client) {
            return;
        }
        match ends {
            Some(_) if self.conn(client).state == State::Leaving => self.close(client, false),
            Some(condition) => self.broke(client, &format!("bosh: the server ends the session: {condition}"), false),
            None if !known => self.broke(client, "bosh: a session without a name", false),
            None => {}
        }
    }

    fn close_line(&mut self, client: u32, line: usize, abort: bool) {
        self.talk(client).bosh.closing(line);
        self.commands.push(Command::Close { client: slot(client, line), abort });
    }

    fn line_ended(&mut self, client: u32, line: usize, kind: &str) {
        if matches!(self.talk(client).bosh.line(line), Line::None | Line::Closing) {
            return;
        }
        let now = self.tick();
        let loss = self.talk(client).bosh.lost(line, now);
        self.close_line(client, line, loss != Loss::Nothing);
        self.heed(client, loss, kind);
    }

    fn heed(&mut self, client: u32, loss: Loss, kind: &str) {
        match loss {
            Loss::Nothing => {}
            Loss::Again => {
                self.await_talk(client);
                self.mark(client);
            }
            Loss::Over if self.conn(client).state == State::Leaving => self.close(client, false),
            Loss::Over => self.broke(client, kind, false),
        }
    }

    /// Sets the time at which the session is looked after, unless an earlier one is set.
    fn await_talk(&mut self, client: u32) {
        let now = self.tick();
        if let Some(due) = self.talk(client).bosh.due(now) {
            self.wake_talk(client, due);
        }
    }

    fn wake_talk(&mut self, client: u32, due: Tick) {
        if due < self.talk(client).timer {
            let due = self.wheel.set(self.plan.clients + client, due);
            self.talk(client).timer = due;
        }
    }

    /// A time of the wheel that is a session's has come.
    pub(super) fn talk_due(&mut self, client: u32, tick: Tick) {
        if self.talk(client).timer != tick {
            return;
        }
        self.talk(client).timer = NEVER;
        if !self.lives(client) {
            return;
        }
        if let Some(line) = self.talk(client).bosh.dead(tick) {
            self.line_ended(client, line, "bosh: no answer in time");
        }
        if self.lives(client) {
            self.await_talk(client);
            self.mark(client);
        }
    }

    /// The network of a session goes away, its connections with a reset, and comes back after so
    /// many seconds. False if the session would not outlast that.
    pub(super) fn cut(&mut self, client: u32, away_s: f64) -> bool {
        let back = self.tick_in(away_s);
        let talk = &self.talks[client as usize];
        if !talk.bosh.stands() || away_s + MARGIN_S > f64::from(talk.bosh.inactivity_s()) {
            return false;
        }
        if talk.cut {
            return true;
        }
        for line in 0..LINES {
            if !matches!(self.talk(client).bosh.line(line), Line::None | Line::Closing) {
                self.talk(client).bosh.leave(line);
                self.close_line(client, line, true);
            }
        }
        let talk = self.talk(client);
        talk.cut = true;
        talk.bosh.be_quiet(back);
        self.gauges.up -= 1;
        self.await_talk(client);
        true
    }

    /// A session whose network was away asks again.
    pub(super) fn uncut(&mut self, client: u32) {
        let Some(talk) = self.talks.get_mut(client as usize).filter(|talk| talk.cut) else { return };
        talk.cut = false;
        talk.bosh.be_quiet(0);
        self.gauges.up += 1;
    }

    /// Closes what a session has open.
    pub(super) fn close_lines(&mut self, client: u32, abort: bool) {
        for line in 0..LINES {
            if !matches!(self.talk(client).bosh.line(line), Line::None | Line::Closing) {
                self.close_line(client, line, abort);
            }
        }
        self.talk(client).timer = NEVER;
        if self.talk(client).bosh.is_apart() {
            self.closed(client);
        }
    }

    /// Reads no more from a session, or again.
    pub(super) fn command_lines(&mut self, client: u32, command: fn(u32) -> Command) {
        (0..LINES).for_each(|line| self.commands.push(command(slot(client, line))));
    }

    /// Does what a session has to do now.
    pub(super) fn ask(&mut self, client: u32, driver: &mut dyn Driver) {
        let now = self.tick();
        if self.talk(client).cut && !self.talk(client).bosh.is_quiet(now) {
            self.uncut(client);
        }
        loop {
            let (conn, talk) = (&mut self.conns[client as usize], &mut self.talks[client as usize]);
            let ready = [0, 1].map(|line: usize| !talk.wires[line].sending && talk.wires[line].plain.is_empty());
            match talk.bosh.next(&mut conn.output, ready, &mut self.scanner, now) {
                None => break,
                Some(Do::Later(due)) => {
                    self.wake_talk(client, due);
                    break;
                }
                Some(Do::Connect(line)) => driver.connect(slot(client, line), (self.plan.first + client) as usize),
                Some(Do::Ask { line, again }) => {
                    let mut bytes = self.pool.pop().unwrap_or_default();
                    talk.bosh.write(&self.plan.target, line, &mut bytes);
                    talk.wires[line].plain = bytes;
                    self.tally.counters.requests += 1;
                    self.tally.counters.requests_again += u64::from(again);
                    self.send_on(client, line, driver);
                    self.await_talk(client);
                }
            }
        }
        for line in 0..LINES {
            let wire = &self.talks[client as usize].wires[line];
            if !wire.sending && wire.tls.as_ref().is_some_and(|tls| tls.wants_send()) {
                self.send_on(client, line, driver);
            }
        }
    }

    fn send_on(&mut self, client: u32, line: usize, driver: &mut dyn Driver) {
        let wire = &mut self.talks[client as usize].wires[line];
        let bytes = match wire.tls.as_mut() {
            None => std::mem::take(&mut wire.plain),
            Some(tls) => {
                let mut records = self.pool.pop().unwrap_or_default();
                // What is wrong with it shows on receiving.
                let _ = tls.send(&mut wire.plain, &mut records);
                if wire.plain.is_empty() {
                    wire.plain = Vec::new();
                }
                records
            }
        };
        if !bytes.is_empty() {
            wire.sending = true;
            self.tally.counters.bytes_out += bytes.len() as u64;
            driver.send(slot(client, line), bytes);
        }
    }
}
