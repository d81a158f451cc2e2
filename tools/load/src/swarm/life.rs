//! The life cycle of a client: login, established session, leaving or breaking, return.

use throng_engine::wire::Element;

use super::{ARRIVED, AT_ONCE, Command, HOPELESS, NEVER, SENDING, SHORT, State, World, rooms};
use crate::client::{News, Security, Tools};
use crate::delivery::{Body, Stamp};
use crate::framing::{END, HEADER};
use crate::phases::Phase;
use crate::websocket::{Heard, WebSocket};
use throng_tls::client::TlsClient;

/// How long a closed stream may take to be closed by the server.
const LEAVE_S: f64 = 5.0;

/// Longest wait before another try, in seconds.
const BACKOFF_S_MAX: f64 = 60.0;

/// Streams closed in one turn at the end.
const CLOSES_PER_TURN: usize = 256;

impl World {
    /// Begins as many logins as the ramp's rate permits: returning clients first, then new ones.
    pub(super) fn begin_some(&mut self) {
        let per_s = self.plan.scenario.ramp_per_s * self.share();
        let passed_s = (self.now_ns - self.permits_at_ns) as f64 / 1e9;
        self.permits_at_ns = self.now_ns;
        self.permits = (self.permits + passed_s * per_s).min((per_s / 20.0).max(1.0));
        let most = match self.plan.scenario.under_way_max {
            0 => u64::MAX,
            most => ((f64::from(most) * self.share()) as u64).max(1),
        };
        while self.permits >= 1.0 && self.logging_in < most {
            let client = match self.returning.pop_front() {
                Some(client) => client,
                None if self.next < self.plan.clients && self.phase <= Phase::Hold => {
                    self.next += 1;
                    self.next - 1
                }
                None => return,
            };
            self.permits -= 1.0;
            self.begin(client);
        }
    }

    fn begin(&mut self, client: u32) {
        let due = self.tick_in(self.plan.scenario.login_s_max);
        let began_ms = (self.now_ns / 1_000_000) as u32;
        let conn = self.conn(client);
        conn.state = State::Login;
        conn.began_ms = began_ms;
        conn.flags &= !(SENDING | AT_ONCE);
        conn.output = Vec::new();
        self.logging_in += 1;
        self.gauges.open += 1;
        self.set_timer(client, due);
        if self.asks() { self.begin_asking(client) } else { self.commands.push(Command::Connect(client)) }
    }

    pub(super) fn timed_out(&mut self, client: u32) {
        let state = self.conn(client).state;
        match state {
            State::Away if self.phase <= Phase::Drain && self.conn(client).has(AT_ONCE) => self.begin(client),
            State::Away if self.phase <= Phase::Drain => self.returning.push_back(client),
            State::Login => self.broke(client, "login: timeout", false),
            State::Up if self.conn(client).has(SHORT) => {
                let mean = self.plan.scenario.short_away_s;
                let away = self.random.about(mean);
                self.leave(client, away);
            }
            // At the end everybody leaves at once, which is this program's hurry and not the
            // server's fault.
            State::Leaving if self.phase >= Phase::Close => self.close(client, true),
            State::Leaving => self.broke(client, "leaving: timeout", false),
            _ => {}
        }
    }

    pub(super) fn connected(&mut self, client: u32) {
        self.tally.counters.connects += 1;
        let direct = self.plan.profile.security == Security::Direct;
        if direct && !self.begin_tls(client) {
            return;
        }
        if let Some(socket) = self.sockets.get_mut(client as usize) {
            *socket = WebSocket::begin(&self.plan.target);
        }
        self.open_stream(client, direct);
    }

    pub(super) fn open_stream(&mut self, client: u32, secured: bool) {
        let number = self.plan.first + client;
        let accounts = &self.plan.accounts;
        let account = || accounts.account(number);
        let tools = Tools { scanner: &mut self.scanner, profile: &self.plan.profile, account: &account };
        let conn = &mut self.conns[client as usize];
        conn.client.open(&self.plan.profile, secured, &mut conn.output);
        let mut failed = None;
        conn.client.hurry(&tools, &mut conn.output, &mut |news| {
            if let News::Failed { kind, fatal } = news {
                failed = Some((kind, fatal));
            }
        });
        match failed {
            Some((kind, fatal)) => self.broke(client, &kind, fatal),
            None => self.mark(client),
        }
    }

    fn begin_tls(&mut self, client: u32) -> bool {
        let Some(tls) = self.new_tls() else {
            self.broke(client, "tls: cannot begin", true);
            return false;
        };
        self.conn(client).tls = Some(tls);
        true
    }

    pub(super) fn new_tls(&self) -> Option<Box<TlsClient>> {
        self.plan.tls.as_ref().and_then(|terms| TlsClient::new(terms).ok()).map(Box::new)
    }

    pub(super) fn received(&mut self, client: u32, bytes: &[u8]) {
        self.tally.counters.bytes_in += bytes.len() as u64;
        let Some(tls) = self.conns[client as usize].tls.as_mut() else {
            return self.heard(client, bytes);
        };
        let mut plaintext = std::mem::take(&mut self.plaintext);
        plaintext.clear();
        self.records.clear();
        self.records.extend_from_slice(bytes);
        let failed = tls.receive(&mut self.records, &mut plaintext).err();
        if tls.wants_send() {
            self.mark(client);
        }
        self.heard(client, &plaintext);
        self.plaintext = plaintext;
        if let Some(error) = failed {
            // Its text says what; kinds of errors are kept apart by it.
            self.broke(client, &format!("tls: {error}"), false);
        }
    }

    /// What came, without TLS.
    fn heard(&mut self, client: u32, bytes: &[u8]) {
        if self.sockets.is_empty() { self.hear(client, bytes) } else { self.hear_messages(client, bytes) }
    }

    /// Messages of a WebSocket came.
    fn hear_messages(&mut self, client: u32, bytes: &[u8]) {
        let held = std::mem::take(&mut self.sockets[client as usize].partial);
        let held = if held.is_empty() { held } else { [&held, bytes].concat() };
        let all = if held.is_empty() { bytes } else { &held };
        let mut at = 0;
        while at < all.len() && matches!(self.conn(client).state, State::Login | State::Up | State::Leaving) {
            let (heard, used) = match self.sockets[client as usize].step(&self.plan.target, &all[at..]) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.sockets[client as usize].partial = all[at..].to_vec();
                    break;
                }
                Err(kind) => return self.broke(client, &kind, false),
            };
            at += used;
            match heard {
                Heard::Header => self.hear(client, HEADER),
                Heard::Element(element) => self.hear(client, element),
                Heard::End => self.hear(client, END),
                Heard::Open | Heard::Nothing => {}
            }
            if heard == Heard::Open || self.sockets[client as usize].has_raw() {
                self.mark(client);
            }
        }
    }

    pub(super) fn hear(&mut self, client: u32, bytes: &[u8]) {
        if bytes.is_empty() || !matches!(self.conn(client).state, State::Login | State::Up | State::Leaving) {
            return;
        }
        let number = self.plan.first + client;
        let (accounts, mut news) = (self.plan.accounts.clone(), Vec::new());
        let mut arrived = Vec::new();
        let conn = &mut self.conns[client as usize];
        let account = || accounts.account(number);
        let mut tools = Tools { scanner: &mut self.scanner, profile: &self.plan.profile, account: &account };
        let (counters, run) = (&mut self.tally.counters, self.plan.run);
        let (scenario, mut of_rooms) = (&self.plan.scenario, Vec::new());
        let room_domain = (scenario.rooms > 0).then(|| scenario.room_domain());
        let mut seen = |element: &Element<'_>, _: &mut Vec<u8>| {
            let told = room_domain.as_ref().and_then(|domain| rooms::read(element, domain, &scenario.room_prefix));
            told.map(|told| of_rooms.push(told)).is_some()
        };
        let mut on_news = |told: News<'_>| match told {
            News::Message { body, delayed } => match Stamp::read(&body) {
                Body::Whole(stamp) if stamp.run == run => arrived.push((Some(stamp), delayed)),
                Body::Corrupted => arrived.push((None, delayed)),
                Body::Whole(_) | Body::Foreign => counters.foreign += 1,
            },
            News::MessageError(condition) => counters.error(&format!("message refused: {condition}"), 1),
            News::Presence => counters.presence_received += 1,
            News::StartTls => news.push(News::StartTls),
            News::Ready => news.push(News::Ready),
            News::End => news.push(News::End),
            News::Failed { kind, fatal } => news.push(News::Failed { kind, fatal }),
        };
        conn.client.handle_seen(&mut tools, bytes, &mut conn.output, &mut on_news, &mut seen);
        if !conn.output.is_empty() {
            self.mark(client);
        }
        for (stamp, delayed) in arrived {
            match stamp {
                Some(stamp) if stamp.pair & rooms::ROOM != 0 => self.room_message_came(client, stamp),
                Some(stamp) => self.message_came(client, stamp, delayed),
                None => self.corrupted_came(client),
            }
        }
        of_rooms.into_iter().for_each(|told| self.told_of_rooms(client, told));
        for told in news {
            match told {
                News::StartTls => {
                    if self.begin_tls(client) {
                        self.open_stream(client, true);
                    }
                }
                News::Ready => self.stands(client),
                News::Failed { kind, fatal } => self.broke(client, &kind, fatal),
                News::End if self.conn(client).state == State::Leaving => self.close(client, false),
                _ => self.broke(client, "stream closed by the server", false),
            }
        }
    }

    /// A client has all that the ramp is to give it.
    pub(super) fn arrived(&mut self, client: u32) {
        let conn = self.conn(client);
        if !conn.has(ARRIVED) {
            conn.flags |= ARRIVED;
            self.gauges.arrived += 1;
            self.befriend(client);
        }
    }

    fn stands(&mut self, client: u32) {
        if self.conn(client).state != State::Login {
            return;
        }
        let now_ms = (self.now_ns / 1_000_000) as u32;
        let conn = self.conn(client);
        conn.state = State::Up;
        self.logging_in -= 1;
        let conn = self.conn(client);
        conn.failures = 0;
        conn.timer = NEVER;
        let short = conn.has(SHORT);
        let took_ms = now_ms.saturating_sub(conn.began_ms);
        self.tally.logins.record(u64::from(took_ms) * 1000);
        self.tally.counters.logins += 1;
        self.gauges.up += 1;
        if !self.enter_rooms(client) {
            self.arrived(client);
        }
        if short {
            let mean = self.plan.scenario.short_up_s;
            let stays = self.random.about(mean);
            let due = self.tick_in(stays);
            self.set_timer(client, due);
        }
        if self.asks() {
            self.command_lines(client, Command::Favour)
        } else {
            self.commands.push(Command::Favour(client))
        }
        self.pair_stands(client);
    }

    /// The stream is closed cleanly, and begun again after so many seconds.
    pub(super) fn leave(&mut self, client: u32, away_s: f64) {
        self.uncut(client);
        let back = self.tick_in(away_s);
        let due = self.tick_in(LEAVE_S);
        let conn = self.conn(client);
        if conn.state != State::Up {
            return;
        }
        conn.state = State::Leaving;
        conn.back = back;
        conn.output.extend_from_slice(b"</stream:stream>");
        conn.client.leaves();
        self.gauges.up -= 1;
        self.mark(client);
        self.set_timer(client, due);
    }

    /// The connection is reset, as a network does that goes away, and made again after so many
    /// seconds. A session over BOSH goes on if it may be away for so long.
    pub(super) fn reset(&mut self, client: u32, away_s: f64) {
        if self.conn(client).state != State::Up || self.asks() && self.cut(client, away_s) {
            return;
        }
        self.uncut(client);
        self.gauges.up -= 1;
        let back = self.tick_in(away_s);
        let conn = self.conn(client);
        conn.back = back;
        self.pair_broke(client);
        self.close(client, true);
    }

    /// Counts an unexpected failure, and retries later unless that is pointless.
    pub(super) fn broke(&mut self, client: u32, kind: &str, fatal: bool) {
        self.uncut(client);
        let conn = self.conn(client);
        if !matches!(conn.state, State::Login | State::Up | State::Leaving) {
            return;
        }
        let (was_up, leaving) = (conn.state == State::Up, conn.state == State::Leaving);
        conn.failures = conn.failures.saturating_add(1);
        let failures = conn.failures;
        self.tally.counters.error(kind, 1);
        self.tally.counters.broken += u64::from(was_up);
        self.gauges.up -= u64::from(was_up);
        if was_up || leaving {
            self.pair_broke(client);
        }
        if fatal {
            self.conn(client).back = NEVER;
            self.conn(client).flags |= HOPELESS;
            self.gauges.hopeless += u64::from(!self.conn(client).has(ARRIVED));
        } else if !leaving {
            let most = 2f64.powi(i32::from(failures) - 1).min(BACKOFF_S_MAX);
            let wait = most * (0.5 + self.random.share() / 2.0);
            self.conn(client).back = self.tick_in(wait);
        }
        self.close(client, true);
    }

    /// The end of the peer's direction, or an error.
    pub(super) fn ended(&mut self, client: u32, errno: Option<i32>) {
        if self.conn(client).state == State::Leaving {
            return self.close(client, false);
        }
        self.broke(client, &ending(errno), false);
    }

    pub(super) fn close(&mut self, client: u32, abort: bool) {
        self.logging_in -= u64::from(self.conn(client).state == State::Login);
        let conn = self.conn(client);
        conn.state = State::Closing;
        self.rooms_broke(client);
        let conn = self.conn(client);
        conn.timer = NEVER;
        conn.output = Vec::new();
        conn.tls = None;
        if let Some(socket) = self.sockets.get_mut(client as usize) {
            *socket = WebSocket::default();
        }
        if self.asks() { self.close_lines(client, abort) } else { self.commands.push(Command::Close { client, abort }) }
    }

    pub(super) fn closed(&mut self, client: u32) {
        self.gauges.open -= 1;
        let conn = self.conn(client);
        conn.state = State::Away;
        conn.flags &= !SENDING;
        conn.client.rest();
        let (back, at_once) = (conn.back, conn.has(AT_ONCE));
        if back == NEVER || self.phase > Phase::Drain {
            return;
        }
        if at_once && back <= self.tick() {
            self.begin(client);
        } else {
            self.set_timer(client, back);
        }
    }

    /// At the end: closes some of the streams that are open.
    pub(super) fn close_some(&mut self) {
        // Those who are logging in are broken off; `next` counts down over all.
        let mut closed = 0;
        while self.next > 0 && closed < CLOSES_PER_TURN {
            self.next -= 1;
            let client = self.next;
            match self.conn(client).state {
                State::Up => {
                    self.leave(client, 0.0);
                    closed += 1;
                }
                State::Login => {
                    self.close(client, true);
                    closed += 1;
                }
                _ => {}
            }
        }
    }
}

/// The kind of an end of the peer's direction, or of an error.
pub(super) fn ending(errno: Option<i32>) -> String {
    match errno {
        None => "connection: closed by the server".into(),
        Some(errno) => format!("connection: {}", std::io::Error::from_raw_os_error(errno).kind()),
    }
}
