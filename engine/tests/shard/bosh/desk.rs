//! A shard, HTTP connections to it, and BOSH clients that number their requests.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use minidom::Element;
use throng_engine::id::{ConnId, Now};
use throng_engine::io::{Effect, Input, ListenerKind};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::account::{Credentials, Incarnation};
use throng_sim::host::{HEADER, Host};
use throng_sim::world::PASSWORD;

pub(super) const BOSH: &str = "http://jabber.org/protocol/httpbind";
pub(super) const BIND: &str =
    "<iq xmlns='jabber:client' type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
pub(super) const PRESENCE: &str = "<presence xmlns='jabber:client'/>";
pub(super) const RID: u64 = 1_573_741_820;

pub(super) fn plain(user: &str) -> String {
    let initial = BASE64.encode(format!("\0{user}\0{PASSWORD}"));
    format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{initial}</auth>")
}

pub(super) fn message(to: &str, text: &str) -> String {
    format!("<message xmlns='jabber:client' to='{to}@localhost' type='chat'><body>{text}</body></message>")
}

/// A `<body/>` with these attributes.
pub(super) fn body(attributes: &str, content: &str) -> String {
    format!("<body xmlns='{BOSH}' xmlns:xmpp='urn:xmpp:xbosh' {attributes}>{content}</body>")
}

pub(super) fn request(body: &str) -> Vec<u8> {
    format!(
        "POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// An HTTP response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn xml(&self) -> Element {
        let read: Element = self.body.parse().unwrap_or_else(|fault| panic!("{fault}: {}", self.body));
        assert!(read.is("body", BOSH), "{}", self.body);
        read
    }

    pub(super) fn attr(&self, name: &str) -> Option<String> {
        self.xml().attr(name).map(Into::into)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        Some(self.attr(name)?.parse().expect("a number"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.xml().children().count() == 0 && self.attr("type").is_none()
    }

    /// The condition that ends the session.
    pub(super) fn condition(&self) -> Option<String> {
        (self.attr("type")? == "terminate").then(|| self.attr("condition").unwrap_or_default())
    }

    pub(super) fn has(&self, text: &str) -> bool {
        self.body.contains(text)
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// All responses in the output of a connection.
pub(super) fn answers(bytes: &[u8]) -> Vec<Answer> {
    let mut text = std::str::from_utf8(bytes).unwrap();
    let mut all = Vec::new();
    while !text.is_empty() {
        let (head, rest) = text.split_once("\r\n\r\n").expect("a whole head");
        let length =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |n| n.parse().unwrap());
        let (body, rest) = rest.split_at(length);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        all.push(Answer { status, head: head.into(), body: body.into() });
        text = rest;
    }
    all
}

pub(super) struct Desk {
    pub(super) host: Host,
    next: u32,
    /// Connections that have sent a request.
    used: Vec<ConnId>,
    /// Closed connections.
    pub(super) ended: Vec<ConnId>,
    pub(super) listener: ListenerKind,
}

/// A client: its session, its next request and its two connections.
pub(super) struct Client {
    pub(super) sid: String,
    pub(super) rid: u64,
    pub(super) conns: [ConnId; 2],
    pub(super) created: Answer,
}

impl Desk {
    pub(super) fn new(settle: impl FnOnce(&mut Settings)) -> Desk {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settle(&mut settings);
        let listener = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: false };
        let mut desk = Desk { host: Host::new(settings), next: 0, used: Vec::new(), ended: Vec::new(), listener };
        desk.host.now = Now::new(1_000, 1_700_000_000_000_000);
        for (number, user) in ["romeo", "juliet"].into_iter().enumerate() {
            let keys =
                Credentials::derive(PASSWORD, 4096, &[3; 16], 0).unwrap().of(Incarnation::drawn(number as u64 + 1));
            let mut record = Vec::new();
            keys.encode(&mut record);
            desk.host.disk.put(Table::Accounts, &format!("{user}@localhost"), b"", &record);
        }
        desk
    }

    pub(super) fn connect(&mut self) -> ConnId {
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        let listener = self.listener;
        self.host.turn(Input::AcceptedHttp { conn, listener, peer: [192, 0, 2, 1].into() });
        conn
    }

    /// The responses in these effects, by connection.
    pub(super) fn hear(&mut self, effects: Vec<Effect>) -> Vec<(ConnId, Answer)> {
        let mut all = Vec::new();
        for effect in effects {
            let (conn, bytes) = match effect {
                Effect::Send { conn, bytes, .. } => (conn, bytes),
                Effect::Close { conn, last, .. } => {
                    self.ended.push(conn);
                    (conn, last)
                }
                Effect::Pause { conn } | Effect::Resume { conn, .. } | Effect::Favour { conn } => {
                    assert!(conn.has_socket(), "the host does not know others");
                    continue;
                }
                _ => continue,
            };
            assert!(conn.has_socket(), "the host does not know others");
            all.extend(answers(&bytes).into_iter().map(|answer| (conn, answer)));
        }
        all
    }

    pub(super) fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Vec<(ConnId, Answer)> {
        self.used.push(conn);
        let effects = self.host.turn(Input::Received { conn, bytes });
        self.hear(effects)
    }

    /// The only response to a request, on its own connection.
    pub(super) fn ask(&mut self, conn: ConnId, body: &str) -> Answer {
        let mut all = self.send(conn, &request(body));
        assert_eq!(all.len(), 1, "{all:?}");
        let (of, answer) = all.remove(0);
        assert_eq!(of, conn);
        answer
    }

    /// Time passes.
    pub(super) fn wait(&mut self, ms: u64) -> Vec<(ConnId, Answer)> {
        let mut all = Vec::new();
        for _ in 0..ms.div_ceil(100) {
            self.host.now.mono_ms += 100;
            let effects = self.host.turn(Input::Held { since_s: None, many: false });
            all.extend(self.hear(effects));
        }
        // An unused connection is closed with a status; others are closed silently.
        all.retain(|(conn, answer)| answer.status != 408 || self.used.contains(conn));
        all
    }

    /// A session before login.
    pub(super) fn session(&mut self, attributes: &str) -> Client {
        self.session_in("en", attributes)
    }

    /// The same in another language.
    pub(super) fn session_in(&mut self, lang: &str, attributes: &str) -> Client {
        let conns = [self.connect(), self.connect()];
        let attributes = format!("rid='{RID}' to='localhost' xmpp:version='1.0' xml:lang='{lang}' {attributes}");
        let created = self.ask(conns[0], &body(&attributes, ""));
        assert_eq!(created.status, 200);
        Client { sid: created.attr("sid").expect("a session"), rid: RID, conns, created }
    }

    /// A session whose user has logged in and bound a resource. No request waits.
    pub(super) fn bound(&mut self, user: &str, attributes: &str) -> Client {
        let mut client = self.session(attributes);
        assert!(client.say(self, &plain(user)).has("<success "));
        let restart = client.with(self, "to='localhost' xmpp:restart='true'", "");
        assert!(restart.has("xmpp-bind"), "{restart:?}");
        assert!(client.say(self, BIND).has("<jid>"));
        client
    }

    /// One with the usual parameters.
    pub(super) fn usual(&mut self, user: &str) -> Client {
        self.bound(user, "ver='1.6' wait='60' hold='1'")
    }

    /// A bare stream of an available user.
    pub(super) fn tcp(&mut self, user: &str) -> ConnId {
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        self.host.turn(Input::Accepted { conn, listener, peer: [192, 0, 2, 1].into() });
        self.host.ask(conn, &format!("{HEADER}{}", plain(user)));
        self.host.ask(conn, &format!("{HEADER}{BIND}{PRESENCE}"));
        conn
    }
}

impl Client {
    /// The next request.
    pub(super) fn next(&mut self, attributes: &str, content: &str) -> String {
        self.rid += 1;
        self.numbered(self.rid, attributes, content)
    }

    pub(super) fn numbered(&self, rid: u64, attributes: &str, content: &str) -> String {
        body(&format!("sid='{}' rid='{rid}' {attributes}", self.sid), content)
    }

    /// Sends the next request on its first connection.
    pub(super) fn send(&mut self, desk: &mut Desk, attributes: &str, content: &str) -> Vec<(ConnId, Answer)> {
        let body = self.next(attributes, content);
        desk.send(self.conns[0], &request(&body))
    }

    /// The same on its second connection.
    pub(super) fn second(&mut self, desk: &mut Desk, attributes: &str, content: &str) -> Vec<(ConnId, Answer)> {
        let body = self.next(attributes, content);
        desk.send(self.conns[1], &request(&body))
    }

    /// Sends the next request, which is answered at once.
    pub(super) fn with(&mut self, desk: &mut Desk, attributes: &str, content: &str) -> Answer {
        let body = self.next(attributes, content);
        desk.ask(self.conns[0], &body)
    }

    pub(super) fn say(&mut self, desk: &mut Desk, content: &str) -> Answer {
        self.with(desk, "", content)
    }

    /// Sends the next request, which waits.
    pub(super) fn parks(&mut self, desk: &mut Desk) {
        assert_eq!(self.send(desk, "", ""), []);
    }
}

impl Desk {
    /// The responses in these effects, which include those to a bare stream.
    pub(super) fn host_hears(&mut self, effects: Vec<Effect>, stream: ConnId) -> Vec<(ConnId, Answer)> {
        let others = |effect: &Effect| !matches!(effect, Effect::Send { conn, .. } if *conn == stream);
        let effects = effects.into_iter().filter(others).collect();
        self.hear(effects)
    }
}
