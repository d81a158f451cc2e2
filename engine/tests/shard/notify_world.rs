//! The world of channel tests (`/n/`): one shard directly, with clients by HTTP, WebSocket and
//! XMPP.

use std::net::IpAddr;

use throng_engine::id::{ConnId, Now, Service};
use throng_engine::io::{Command, Effect, Input, ListenerKind};
use throng_engine::limits::NOTIFY_PAGE_BYTES_MAX;
use throng_engine::settings::Settings;
use throng_engine::web::policy::{Channels, Policy, Token};
use throng_sim::host::{Host, said as words};

pub(super) const TOKEN: &str = "a token of publishers";

/// The settings of an operator who opens channels with these prefixes to everybody.
pub(super) fn settings(shards: u16, channels: Channels) -> Settings {
    let mut settings = Settings::new("localhost", shards, [0; 32], 0);
    settings.idle_s_max = 0;
    settings.serve_service("pubsub.localhost", Service::PubSub);
    settings.facts.pubsub.reserved = channels.private.iter().chain(&channels.asks.prefixes).cloned().collect();
    settings.admins = ["admin@localhost".into()].into();
    settings.web = Policy { channels, ..Policy::default() }.into();
    settings
}

/// Channels that everybody may read and publish at.
pub(super) fn open() -> Channels {
    let prefixes = Box::new(["".into()]);
    Channels {
        prefixes,
        publish_open: true,
        token: Some(Token(TOKEN.into())),
        publications_s: 0,
        ..Channels::default()
    }
}

pub(super) fn post(path: &str, fields: &str, body: &str) -> String {
    format!("POST /n/{path} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

pub(super) fn pubsub(set: bool, inside: &str) -> String {
    let kind = if set { "set" } else { "get" };
    format!(
        "<iq type='{kind}' id='q' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub'>{inside}</pubsub></iq>"
    )
}

/// The output to a connection, and whether it is closed afterwards.
pub(super) fn bytes_to(effects: &[Effect], of: ConnId) -> (Vec<u8>, bool) {
    let (mut bytes, mut ends) = (Vec::new(), false);
    for effect in effects {
        match effect {
            Effect::Send { conn, bytes: sent, durable } if *conn == of => {
                assert!(*durable || !sent.windows(7).any(|at| at == b"\"id\":\"1"), "nothing is told too early");
                bytes.extend(sent);
            }
            Effect::Close { conn, last, .. } if *conn == of => {
                bytes.extend(last);
                ends = true;
            }
            _ => {}
        }
    }
    (bytes, ends)
}

/// The data of all items in the output, in order of arrival.
pub(super) fn data(said: &[String]) -> Vec<&str> {
    let items = said.iter().flat_map(|message| message.split("\"data\":\"").skip(1));
    items.filter_map(|rest| rest.split('"').next()).collect()
}

/// A connection's output as text, and whether it was closed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) text: String,
    pub(super) ends: bool,
}

impl Heard {
    pub(super) fn of(effects: &[Effect], of: ConnId) -> Heard {
        let (bytes, ends) = bytes_to(effects, of);
        Heard { text: String::from_utf8(bytes).expect("text"), ends }
    }

    pub(super) fn status(&self) -> &str {
        self.text.get(9..12).unwrap_or_default()
    }

    pub(super) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next()?;
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(super) fn data(&self) -> Vec<&str> {
        data(std::slice::from_ref(&self.text))
    }
}

/// One shard and its clients.
pub(super) struct Desk {
    pub(super) host: Host,
    next: u32,
}

impl Desk {
    pub(super) fn new(channels: Channels) -> Desk {
        Desk::of(settings(1, channels))
    }

    pub(super) fn of(settings: Settings) -> Desk {
        let mut desk = Desk { host: Host::new(settings), next: 100 };
        desk.host.now = Now::new(1_000, 1_700_000_000_000_000);
        desk
    }

    pub(super) fn connect(&mut self) -> ConnId {
        self.connect_from([192, 0, 2, 1])
    }

    pub(super) fn connect_from(&mut self, address: [u8; 4]) -> ConnId {
        self.connect_by(address.into())
    }

    pub(super) fn connect_by(&mut self, peer: IpAddr) -> ConnId {
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        let listener = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: false };
        self.host.turn(Input::AcceptedHttp { conn, listener, peer });
        conn
    }

    pub(super) fn says(&mut self, conn: ConnId, text: &str) -> Heard {
        Heard::of(&self.host.turn(Input::Received { conn, bytes: text.as_bytes() }), conn)
    }

    pub(super) fn get(&mut self, conn: ConnId, path: &str) -> Heard {
        self.get_with(conn, path, "")
    }

    pub(super) fn get_with(&mut self, conn: ConnId, path: &str, fields: &str) -> Heard {
        self.says(conn, &format!("GET /n/{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    }

    pub(super) fn stream(&mut self, conn: ConnId, path: &str, fields: &str) -> Heard {
        self.get_with(conn, path, &format!("Accept: text/event-stream\r\n{fields}"))
    }

    pub(super) fn publish(&mut self, path: &str, body: &str) -> Heard {
        self.publish_with(path, "Content-Type: text/plain\r\n", body)
    }

    pub(super) fn publish_with(&mut self, path: &str, fields: &str, body: &str) -> Heard {
        let conn = self.connect();
        self.publish_from(conn, path, fields, body)
    }

    pub(super) fn publish_from(&mut self, conn: ConnId, path: &str, fields: &str, body: &str) -> Heard {
        self.says(conn, &post(path, fields, body))
    }

    /// A client publishes; returns its connection and the effects.
    pub(super) fn published(&mut self, path: &str, fields: &str, body: &str) -> (ConnId, Vec<Effect>) {
        let conn = self.connect();
        (conn, self.host.turn(Input::Received { conn, bytes: post(path, fields, body).as_bytes() }))
    }

    /// The output to a connection when a client publishes.
    pub(super) fn told(&mut self, conn: ConnId, path: &str, fields: &str, body: &str) -> Heard {
        Heard::of(&self.published(path, fields, body).1, conn)
    }

    /// Lets this many seconds pass.
    pub(super) fn passes(&mut self, seconds: u64) -> Vec<Effect> {
        let mut all = Vec::new();
        for _ in 0..seconds * 5 {
            self.host.now.mono_ms += 200;
            self.host.now.pass_wall(200_000);
            all.extend(self.host.turn(Input::EndOfTurn));
        }
        all
    }

    /// The output to a connection over this many seconds.
    pub(super) fn wait(&mut self, conn: ConnId, seconds: u64) -> Heard {
        Heard::of(&self.passes(seconds), conn)
    }

    /// The process ends, and another one starts with the same store.
    pub(super) fn restarts(self, channels: Channels) -> Desk {
        let mut next = Desk::new(channels);
        next.host.disk = self.host.disk;
        next
    }

    /// The server stops.
    pub(super) fn stops(&mut self) -> Vec<Effect> {
        let mut all = self.host.turn(Input::Command { token: 1, command: Command::Shutdown });
        all.extend(self.passes(5));
        all
    }

    /// A user connected by XMPP.
    pub(super) fn user(&mut self, local: &str) -> ConnId {
        self.host.account(local);
        let slot = self.next;
        self.next += 1;
        let (conn, _) = self.host.bind(slot, local);
        self.host.ask(conn, "<presence/>");
        conn
    }

    /// A user creates a node with this configuration.
    pub(super) fn makes(&mut self, user: ConnId, node: &str, configured: &[(&str, &str)]) {
        let field = |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
        let kind = ("FORM_TYPE", "http://jabber.org/protocol/pubsub#node_config");
        let form: String = [&[kind], configured].concat().iter().map(field).collect();
        let configure = format!("<configure><x xmlns='jabber:x:data' type='submit'>{form}</x></configure>");
        let said = words(&self.host.ask(user, &pubsub(true, &format!("<create node='{node}'/>{configure}"))));
        assert!(said.contains("type='result'"), "{said}");
    }

    /// Publishes this many items of 10 kB, which begin with their numbers, while a subscriber takes
    /// nothing; then it takes everything. Returns its input. At no time more than two reads wait
    /// for it.
    pub(super) fn overwhelms(&mut self, slow: ConnId, items: usize) -> Vec<u8> {
        self.host.prompt = false;
        let (publisher, large) = (self.connect(), "x".repeat(10_000));
        let (mut got, mut most) = (Vec::new(), 0);
        for number in 0..items {
            let bytes = post("a", "", &format!("{number:03}{large}"));
            let effects = self.host.turn(Input::Received { conn: publisher, bytes: bytes.as_bytes() });
            got.extend(bytes_to(&effects, slow).0);
            self.host.turn(Input::Sent { conn: publisher });
            most = most.max(self.host.shard.counters().outbound_bytes.get());
        }
        let told = self.host.shard.counters().notify_told.get();
        assert!(told < 40, "{told} were told to who takes none");
        for _ in 0..500 {
            let (bytes, ends) = bytes_to(&self.host.sent(slow), slow);
            assert!(!ends);
            got.extend(bytes);
            most = most.max(self.host.shard.counters().outbound_bytes.get());
        }
        assert!(most < 2 * u64::from(NOTIFY_PAGE_BYTES_MAX) + (64 << 10), "{most} bytes waited, of 10,000 each");
        assert_eq!(self.host.shard.counters().notify_published.get() as usize, items);
        got
    }
}

// WebSockets (RFC 6455).

pub(super) const KEY: &str = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
pub(super) const ACCEPTED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                                   Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A client's opening handshake (RFC 6455 4.1).
pub(super) fn upgrade(path: &str, fields: &str) -> String {
    format!("GET /n/{path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{fields}\r\n")
}

/// The first frame from the server, and its length in bytes; `None` if it is incomplete.
pub(super) fn first_frame(bytes: &[u8]) -> Option<(String, usize)> {
    let (length, head) = match bytes.get(1)? {
        126 => (usize::from(u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?)), 4),
        127 => (u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?) as usize, 10),
        short => (usize::from(*short), 2),
    };
    let content = bytes.get(head..head + length)?;
    let text = String::from_utf8_lossy(content);
    let said = match bytes[0] {
        0x81 => text.into_owned(),
        0x8a => format!("pong {text}"),
        0x82 => format!("binary {text}"),
        0x88 => format!("close {}", content.first_chunk().map_or(0, |code| u16::from_be_bytes(*code))),
        other => panic!("a frame {other:#x} that this server does not send"),
    };
    Some((said, head + length))
}

/// The content of a WebSocket's bytes: the head of a response, and frames.
pub(super) fn frames(bytes: &[u8]) -> Vec<String> {
    let (mut all, mut rest) = (Vec::new(), bytes);
    if rest.starts_with(b"HTTP") {
        let end = rest.windows(4).position(|at| at == b"\r\n\r\n").expect("a whole head") + 4;
        all.push(String::from_utf8(rest[..end].to_vec()).expect("text"));
        rest = &rest[end..];
        if !all[0].starts_with("HTTP/1.1 101") {
            return all;
        }
    }
    while !rest.is_empty() {
        let (said, length) = first_frame(rest).expect("a whole frame");
        all.push(said);
        rest = &rest[length..];
    }
    all
}

/// A WebSocket's output, and whether it is closed.
pub(super) fn frames_to(effects: &[Effect], of: ConnId) -> (Vec<String>, bool) {
    let (bytes, ends) = bytes_to(effects, of);
    (frames(&bytes), ends)
}

/// A message without items, with the position from which to continue.
pub(super) fn place(after: &str) -> String {
    format!("{{\"items\":[],\"gaps\":[],\"after\":\"{after}\"}}")
}

impl Desk {
    pub(super) fn sends(&mut self, conn: ConnId, bytes: &[u8]) -> (Vec<String>, bool) {
        frames_to(&self.host.turn(Input::Received { conn, bytes }), conn)
    }

    /// A subscriber by WebSocket, and its first output.
    pub(super) fn subscribe(&mut self, path: &str, fields: &str) -> (ConnId, Vec<String>) {
        let conn = self.connect();
        let (mut said, ends) = self.sends(conn, upgrade(path, fields).as_bytes());
        assert_eq!((said.remove(0).as_str(), ends), (ACCEPTED, false));
        (conn, said)
    }

    /// Its output when a client publishes.
    pub(super) fn messages(&mut self, conn: ConnId, channel: &str, body: &str) -> Vec<String> {
        frames_to(&self.published(channel, "Content-Type: text/plain\r\n", body).1, conn).0
    }

    /// Its output over this many seconds, and whether it is closed.
    pub(super) fn listens(&mut self, conn: ConnId, seconds: u64) -> (Vec<String>, bool) {
        frames_to(&self.passes(seconds), conn)
    }
}
