//! Connections that begin with HTTP (RFC 9112) and become WebSockets (RFC 6455, RFC 7395), on one
//! shard directly and on several in a world with delays.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use throng_engine::id::{ConnId, Now};
use throng_engine::io::{Command, Effect, Happened, Input, ListenerKind, TlsFacts};
use throng_engine::limits::HTTP_REQUESTS_MAX;
use throng_engine::session::moved::Moved;
use throng_engine::session::pace::Allowances;
use throng_engine::settings::Settings;
use throng_engine::web::policy::{Channels, Policy};
use throng_engine::web::throng_js::MODULE;
use throng_sim::frame::frame;
use throng_sim::host::{HEADER, Host, moved};
use throng_sim::net::SocketId;
use throng_sim::world::{Occurrence, PASSWORD, Pace, World};

const UPGRADE: &str = "GET /xmpp-websocket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Protocol: xmpp\r\n\r\n";
const ACCEPTED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n";
const OPEN: &str = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='localhost' version='1.0'/>";
const CLOSE: &str = "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>";
const BIND: &str = "<iq xmlns='jabber:client' type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
const ENABLE: &str = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";

fn text(xml: &str) -> Vec<u8> {
    frame(0x81, xml.as_bytes())
}

fn plain(user: &str) -> String {
    let initial = BASE64.encode(format!("\0{user}\0{PASSWORD}"));
    format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{initial}</auth>")
}

/// A server's output: heads of responses, and frames, one per line.
fn lines(mut bytes: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(first) = bytes.first() {
        if *first == b'H' {
            let end = bytes.windows(4).position(|at| at == b"\r\n\r\n").expect("a whole head") + 4;
            all.push(String::from_utf8(bytes[..end].to_vec()).unwrap());
            bytes = &bytes[end..];
            continue;
        }
        let (length, head) = match bytes[1] {
            126 => (usize::from(u16::from_be_bytes(*bytes[2..].first_chunk().unwrap())), 4),
            127 => (u64::from_be_bytes(*bytes[2..].first_chunk().unwrap()) as usize, 10),
            short => (usize::from(short), 2),
        };
        let content = &bytes[head..head + length];
        all.push(match first {
            0x81 => String::from_utf8(content.to_vec()).unwrap(),
            0x8a => format!("pong {}", String::from_utf8_lossy(content)),
            0x88 => format!("close {}", content.first_chunk().map_or(0, |code| u16::from_be_bytes(*code))),
            other => panic!("a frame {other:#x} that this server does not send"),
        });
        bytes = &bytes[head + length..];
    }
    for xml in all.iter().filter(|line| line.starts_with('<')) {
        xml.parse::<minidom::Element>().unwrap_or_else(|fault| panic!("{fault}: a message is a document, not {xml}"));
    }
    all
}

struct Desk {
    host: Host,
    next: u32,
}

impl Desk {
    fn new(settle: impl FnOnce(&mut Settings)) -> Desk {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settle(&mut settings);
        let mut desk = Desk { host: Host::new(settings), next: 0 };
        desk.host.now = Now::new(1_000, 1_700_000_000_000_000);
        for (number, user) in (1..).zip(["romeo", "juliet"]) {
            desk.host.account_with(user, PASSWORD, number);
        }
        desk
    }

    fn accept(&mut self, listener: ListenerKind) -> ConnId {
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        self.host.turn(Input::AcceptedHttp { conn, listener, peer: [192, 0, 2, 1].into() });
        conn
    }

    /// A connection behind a proxy that terminates TLS.
    fn connect(&mut self) -> ConnId {
        self.accept(ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: false })
    }

    /// The output to a connection for these bytes, and whether it is closed afterwards.
    fn says(&mut self, conn: ConnId, bytes: &[u8]) -> (Vec<u8>, bool) {
        heard(self.host.turn(Input::Received { conn, bytes }), conn)
    }

    fn hears(&mut self, conn: ConnId, bytes: &[u8]) -> Vec<String> {
        lines(&self.says(conn, bytes).0)
    }

    fn websocket(&mut self) -> ConnId {
        let conn = self.connect();
        assert_eq!(self.says(conn, UPGRADE.as_bytes()), (ACCEPTED.as_bytes().to_vec(), false));
        conn
    }

    /// A bare stream of a user who has logged in and has to open it anew.
    fn tcp(&mut self, user: &str) -> ConnId {
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        self.host.turn(Input::Accepted { conn, listener, peer: [192, 0, 2, 1].into() });
        self.host.ask(conn, &format!("{HEADER}{}", plain(user)));
        conn
    }

    fn bound(&mut self, user: &str) -> ConnId {
        let conn = self.websocket();
        for xml in [OPEN, &plain(user), OPEN, BIND] {
            assert!(!self.hears(conn, &text(xml)).is_empty());
        }
        conn
    }
}

fn heard(effects: Vec<Effect>, of: ConnId) -> (Vec<u8>, bool) {
    let (mut all, mut ends) = (Vec::new(), false);
    for effect in effects {
        match effect {
            Effect::Send { conn, bytes, .. } if conn == of => all.extend(bytes),
            Effect::Close { conn, last, .. } if conn == of => {
                all.extend(last);
                ends = true;
            }
            _ => {}
        }
    }
    (all, ends)
}

#[test]
fn a_stream_in_messages_from_open_to_close_rfc7395_3() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.websocket();
    let first = desk.hears(conn, &text(OPEN));
    assert!(first[0].starts_with("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' id='"), "{first:?}");
    assert!(first[0].contains(" from='localhost' version='1.0' xml:lang='en'/>"), "{first:?}");
    assert!(first[1].starts_with("<stream:features xmlns:stream='http://etherx.jabber.org/streams'>"));
    assert!(first[1].contains(">PLAIN<") && !first[1].contains("starttls"), "RFC 7395 3.9: {}", first[1]);
    let success = desk.hears(conn, &text(&plain("romeo")));
    assert_eq!(success, ["<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"]);
    // RFC 7395 3.7: the stream is restarted by another <open/>, without a <close/>.
    let again = desk.hears(conn, &text(OPEN));
    assert!(again[0].starts_with("<open ") && again[1].contains("urn:ietf:params:xml:ns:xmpp-bind"), "{again:?}");
    let bound = desk.hears(conn, &text(BIND));
    assert!(bound[0].starts_with("<iq xmlns='jabber:client' type='result'"), "RFC 7395 3.3.3: {bound:?}");
    desk.hears(conn, &text("<presence xmlns='jabber:client'/>"));
    let message = "<message xmlns='jabber:client' to='romeo@localhost' type='chat'><body>to myself</body></message>";
    let got = desk.hears(conn, &text(message));
    assert!(got.iter().any(|xml| xml.starts_with("<message ") && xml.contains("to myself")), "{got:?}");
    assert_eq!(got.iter().map(|xml| xml.matches("xmlns='jabber:client'").count()).max(), Some(1));
    // RFC 7395 3.6: the stream ends, then the WebSocket.
    let (last, ends) = desk.says(conn, &text(CLOSE));
    assert_eq!(lines(&last), [CLOSE, "close 1000"]);
    assert!(ends);
}

#[test]
fn all_at_once_in_any_pieces_and_with_pings_between_them() {
    for pieces in [1, 5, 100, 10_000] {
        let mut desk = Desk::new(|_| {});
        let conn = desk.connect();
        let mut bytes = UPGRADE.as_bytes().to_vec();
        for xml in [
            OPEN,
            &plain("romeo"),
            OPEN,
            BIND,
            "<iq xmlns='jabber:client' type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>",
        ] {
            let (head, tail) = xml.as_bytes().split_at(xml.len() / 2);
            bytes.extend([frame(0x01, head), frame(0x89, b"?"), frame(0x80, tail)].concat());
        }
        let mut all = Vec::new();
        for piece in bytes.chunks(pieces) {
            all.extend(desk.says(conn, piece).0);
        }
        let all = lines(&all);
        assert_eq!(all[0], ACCEPTED);
        assert_eq!(all.iter().filter(|line| *line == "pong ?").count(), 5, "{all:?}");
        assert!(all.last().unwrap().contains("id='p'"), "{all:?}");
    }
}

#[test]
fn errors_of_the_stream_stand_between_open_and_close_rfc7395_3_4_1() {
    for (first, condition) in [
        ("<message xmlns='jabber:client'/>", "bad-format"),
        ("<open xmlns='jabber:client'/>", "invalid-namespace"),
        ("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='other.example' version='1.0'/>", "host-unknown"),
        ("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='localhost'/>", "unsupported-version"),
        ("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing'/><x/>", "bad-format"),
        ("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing'", "bad-format"),
        ("</stream:stream>", "not-well-formed"),
        ("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing'></close>", "not-well-formed"),
        ("<!-- --><open xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>", "restricted-xml"),
        (HEADER, "bad-format"),
    ] {
        let mut desk = Desk::new(|_| {});
        let conn = desk.websocket();
        let (bytes, ends) = desk.says(conn, &text(first));
        let all = lines(&bytes);
        assert!(ends && all[0].starts_with("<open ") && all[1].contains(condition), "{first}: {all:?}");
        assert!(all[1].starts_with("<stream:error xmlns:stream="), "{all:?}");
        assert_eq!(all[2..], [CLOSE, "close 1000"], "{first}");
    }
    // A second <open/> where none is expected.
    let mut desk = Desk::new(|_| {});
    let conn = desk.bound("romeo");
    let all = desk.hears(conn, &text(OPEN));
    assert!(all[0].contains("<bad-format") && all[1] == CLOSE, "{all:?}");
}

#[test]
fn frames_that_are_wrong_end_the_websocket_with_their_code_rfc6455_7_4_1() {
    for (bad, code) in [
        (vec![0x81, 4, b'<', b'a', b'/', b'>'], 1002),
        (frame(0x82, b"<a/>"), 1003),
        (frame(0x81, b"<a>\xff</a>"), 1007),
        (frame(0x81, &[b' '; 300_000]), 1009),
        (frame(0xc1, b"<a/>"), 1002),
    ] {
        let mut desk = Desk::new(|_| {});
        let conn = desk.bound("romeo");
        let (bytes, ends) = desk.says(conn, &[bad, text(BIND)].concat());
        assert_eq!((lines(&bytes), ends), (vec![format!("close {code}")], true));
    }
    // Before a login the limit is lower.
    let mut desk = Desk::new(|_| {});
    let conn = desk.websocket();
    assert_eq!(desk.hears(conn, &frame(0x81, &[b' '; 5_000])), ["close 1009"]);
    // White space is a keep-alive elsewhere, and does no harm here.
    let conn = desk.websocket();
    assert!(desk.hears(conn, &text(" ")).is_empty() && desk.hears(conn, &text("")).is_empty());
    assert_eq!(desk.hears(conn, &frame(0x88, b"")), ["close 0"], "RFC 6455 5.5.1: answered without a code");
}

#[test]
fn a_websocket_that_ends_without_its_stream_leaves_a_session_that_resumes_rfc7395_3_6() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.bound("romeo");
    let enabled = desk.hears(conn, &text(ENABLE));
    let id = enabled[0].split_once(" id='").unwrap().1.split_once('\'').unwrap().0.to_owned();
    desk.hears(conn, &text("<presence xmlns='jabber:client'/>"));
    let (bytes, ends) = desk.says(conn, &frame(0x88, b"\x03\xe9"));
    assert_eq!((lines(&bytes), ends), (vec!["close 1001".to_owned()], true), "a page goes away");
    let sender = desk.bound("juliet");
    desk.hears(
        sender,
        &text("<message xmlns='jabber:client' to='romeo@localhost' type='chat'><body>wait</body></message>"),
    );
    // By TCP.
    let tcp = desk.tcp("romeo");
    let resume = format!("{HEADER}<resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>");
    let (bytes, _) = heard(desk.host.ask(tcp, &resume), tcp);
    let said = String::from_utf8(bytes).unwrap();
    assert!(said.contains("<resumed ") && said.contains("<body>wait</body>"), "{said}");
    assert!(!said.contains("\u{1}") && said.contains("</stream:features><resumed"), "no frames there: {said}");
    // And back by WebSocket, while TCP is still connected.
    let conn = desk.websocket();
    for xml in [OPEN, &plain("romeo"), OPEN] {
        desk.hears(conn, &text(xml));
    }
    let effects = desk
        .host
        .turn(Input::Received { conn, bytes: &text(&format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>")) });
    let old = effects.iter().find_map(|effect| match effect {
        Effect::Close { conn, last, .. } if *conn == tcp => Some(String::from_utf8(last.clone()).unwrap()),
        _ => None,
    });
    assert!(old.unwrap().contains("<conflict"), "the old connection is told in its own way");
    let all = lines(&heard(effects, conn).0);
    assert!(all[0].starts_with("<resumed "), "{all:?}");
    assert!(all.iter().any(|xml| xml.starts_with("<message xmlns='jabber:client'") && xml.contains("wait")), "{all:?}");
}

#[test]
fn who_uses_a_prefix_of_its_own_stream_breaks_nobody_elses() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.bound("romeo");
    desk.hears(conn, &text("<presence xmlns='jabber:client'/>"));
    let tcp = desk.tcp("juliet");
    desk.host.ask(tcp, &format!("{HEADER}{BIND}"));
    let stanza = "<message to='romeo@localhost' type='chat'><body>a</body><stream:x stream:y='1'/></message>";
    let (bytes, _) = heard(desk.host.say(tcp, stanza), conn);
    let all = lines(&bytes);
    assert!(all[0].contains("<stream:x stream:y='1'/>") && all[0].contains(" xmlns:stream='"), "{all:?}");
}

#[test]
fn who_asks_for_the_module_and_does_not_take_it_makes_nobody_keep_it() {
    let mut desk = Desk::new(|settings| {
        let channels = Channels { prefixes: ["".into()].into(), ..Channels::default() };
        settings.web = Policy { channels, ..Policy::default() }.into();
    });
    let (conn, rounds) = (desk.connect(), 60);
    desk.host.prompt = false;
    let get = "GET /throng.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (mut bytes, _) = desk.says(conn, get.repeat(rounds).as_bytes());
    let bound = 64 * 1_024 + MODULE.len() + 512;
    let most = desk.host.shard.counters().outbound_bytes.get() as usize;
    assert!(most <= bound && rounds * MODULE.len() > 2 * bound, "{most} bytes wait");
    desk.host.prompt = true;
    for _ in 0..rounds {
        bytes.extend(heard(desk.host.sent(conn), conn).0);
    }
    let said = String::from_utf8(bytes).unwrap();
    assert_eq!((said.matches("200 OK").count(), said.matches(MODULE).count()), (rounds, rounds));
}

#[test]
fn requests_are_answered_in_order_until_there_are_too_many() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.connect();
    let get = "\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for round in 1..=u32::from(HTTP_REQUESTS_MAX) {
        let (bytes, ends) = desk.says(conn, get.as_bytes());
        let said = String::from_utf8(bytes).unwrap();
        assert!(
            said.starts_with("HTTP/1.1 404 Not Found\r\nDate: ")
                && said.ends_with("\r\n\r\nnothing is served at this path\n")
        );
        assert_eq!(
            (ends, said.contains("Connection: close")),
            (round == u32::from(HTTP_REQUESTS_MAX), ends),
            "{round}"
        );
    }
    // Pipelined (RFC 9112 9.3.2), the last of which closes the connection; data after it is not
    // read.
    let conn = desk.connect();
    let last = get.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let (bytes, ends) = desk.says(conn, format!("{get}{get}{last}{get}").as_bytes());
    assert_eq!((String::from_utf8(bytes).unwrap().matches("404 Not Found").count(), ends), (3, true));
    // A request inside an unexpected body is not a request (RFC 9112 11.2).
    let conn = desk.connect();
    let inside = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{get}", get.len());
    let (bytes, ends) = desk.says(conn, inside.as_bytes());
    assert_eq!((String::from_utf8(bytes).unwrap().matches("HTTP/1.1").count(), ends), (1, true));
    // An upgrade after requests whose answers have not been read.
    let conn = desk.connect();
    let (bytes, ends) = desk.says(conn, format!("{get}{UPGRADE}").as_bytes());
    assert!(String::from_utf8(bytes).unwrap().contains("HTTP/1.1 400") && ends);
    let conn = desk.connect();
    desk.says(conn, get.as_bytes());
    assert_eq!(desk.says(conn, UPGRADE.as_bytes()).0, ACCEPTED.as_bytes(), "behind one that has been read it is fine");
}

/// A client that does not take the answers waits with the rest, and is answered when it does.
#[test]
fn requests_that_wait_for_their_answers_to_be_read_are_found_again() {
    let mut desk = Desk::new(|settings| settings.outbound_bytes_soft = 1_000);
    let conn = desk.connect();
    desk.host.prompt = false;
    let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut all = desk.says(conn, get.repeat(20).as_bytes()).0;
    assert!((1..20).contains(&String::from_utf8_lossy(&all).matches("404").count()));
    for _ in 0..20 {
        all.extend(heard(desk.host.sent(conn), conn).0);
    }
    assert_eq!(String::from_utf8(all).unwrap().matches("404 Not Found").count(), 20);
}

#[test]
fn what_is_no_request_is_refused_and_the_connection_ends() {
    for (bad, status) in [
        ("GET / HTTP/1.1\n", "400"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400"),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", "505"),
        ("GET /.well-known/host-meta HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx", "413"),
    ] {
        let mut desk = Desk::new(|_| {});
        let conn = desk.connect();
        let (bytes, ends) = desk.says(conn, bad.as_bytes());
        let said = String::from_utf8(bytes).unwrap();
        assert!(
            said.starts_with(&format!("HTTP/1.1 {status} ")) && said.contains("\r\nConnection: close\r\n"),
            "{said}"
        );
        assert!(ends && said.matches("HTTP/1.1").count() == 1);
    }
}

/// The sweep disconnects clients without progress, in any phase.
#[test]
fn slow_requests_and_silent_websockets_end_in_time() {
    for (begun, said) in [(&b""[..], "HTTP/1.1 408 "), (b"GET / HTT", "HTTP/1.1 408 "), (UPGRADE.as_bytes(), "")] {
        let mut desk = Desk::new(|settings| settings.preauth_s_max = 5);
        let conn = desk.connect();
        desk.says(conn, begun);
        let (mut all, mut ended) = (Vec::new(), false);
        for _ in 0..200 {
            desk.host.now.mono_ms += 100;
            let (bytes, ends) = heard(desk.host.turn(Input::EndOfTurn), conn);
            all.extend(bytes);
            ended |= ends;
        }
        assert!(ended);
        match said {
            "" => {
                let all = lines(&all);
                assert!(all[1].contains("<connection-timeout") && all[2..] == [CLOSE, "close 1000"], "{all:?}");
            }
            said => assert!(String::from_utf8(all).unwrap().starts_with(said)),
        }
    }
}

/// RFC 6120 4.9.1.2: during a handshake there is no stream for an error.
#[test]
fn who_does_not_get_on_with_tls_is_cut() {
    let mut desk = Desk::new(|settings| settings.preauth_s_max = 5);
    let conn = desk.accept(ListenerKind { direct_tls: true, starttls: false, plain_auth: false, registration: false });
    let mut effects = Vec::new();
    for _ in 0..200 {
        desk.host.now.mono_ms += 100;
        effects.extend(desk.host.turn(Input::EndOfTurn));
    }
    let cut = |effect: &Effect| matches!(effect, Effect::Close { conn: of, abort: true, last, .. } if *of == conn && last.is_empty());
    assert!(effects.iter().any(cut) && heard(effects, conn).0.is_empty());
}

#[test]
fn a_stop_is_told_with_its_code_rfc6455_7_4_1() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.bound("romeo");
    let waiting = desk.connect();
    let mut effects = desk.host.turn(Input::Command { token: 1, command: Command::Shutdown });
    for _ in 0..50 {
        desk.host.now.mono_ms += 100;
        effects.extend(desk.host.turn(Input::EndOfTurn));
    }
    let (http, rest): (Vec<_>, Vec<_>) =
        effects.into_iter().partition(|effect| matches!(effect, Effect::Close { conn, .. } if *conn == waiting));
    let all = lines(&heard(rest, conn).0);
    assert!(all[0].contains("<system-shutdown") && all[1..] == [CLOSE, "close 1001"], "{all:?}");
    assert!(String::from_utf8(heard(http, waiting).0).unwrap().starts_with("HTTP/1.1 503 "));
}

/// TLS properties count as on direct TLS: for PLAIN, and for channel binding (RFC 5802 6).
#[test]
fn https_counts_as_direct_tls() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.accept(ListenerKind { direct_tls: true, starttls: false, plain_auth: false, registration: false });
    let tls = TlsFacts { exporter: Some([3; 32]), server_end_point: vec![4; 32], certificate: None };
    desk.host.turn(Input::Secured { conn, tls: Box::new(tls) });
    desk.says(conn, UPGRADE.as_bytes());
    let features = desk.hears(conn, &text(OPEN)).remove(1);
    assert!(features.contains("SCRAM-SHA-256-PLUS") && features.contains("tls-exporter"), "{features}");
    // Without it, and without a proxy in front, nobody can log in.
    let conn = desk.accept(ListenerKind { direct_tls: false, starttls: true, plain_auth: false, registration: false });
    desk.says(conn, UPGRADE.as_bytes());
    let features = desk.hears(conn, &text(OPEN)).remove(1);
    assert!(!features.contains("PLAIN") && !features.contains("starttls"), "{features}");
    assert!(desk.hears(conn, &text(&plain("romeo")))[0].contains("<encryption-required"));
}

/// The connection limit applies to the address that a trusted proxy reports: its last entry counts.
#[test]
fn whom_a_proxy_names_counts_if_it_is_believed() {
    for (forwarded, refused) in [(true, 1), (false, 3)] {
        let mut desk = Desk::new(|settings| {
            settings.opening_per_address_max = 2;
            settings.web = Policy { forwarded, ..Policy::default() }.into();
        });
        let mut ends = 0;
        for client in ["203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.8", "203.0.113.9"] {
            let conn = desk.connect();
            let fields = format!("GET / HTTP/1.1\r\nX-Forwarded-For: 198.51.100.1, {client}\r\n");
            let (_, ended) =
                desk.says(conn, UPGRADE.replacen("GET /xmpp-websocket HTTP/1.1\r\n", &fields, 1).as_bytes());
            ends += u32::from(
                ended || desk.host.shard.counters().connections.get() < u64::from(desk.next) - u64::from(ends),
            );
        }
        assert_eq!(ends, refused, "{forwarded}");
    }
}

/// Proxies write addresses in several forms. A request without a reported address counts for the
/// proxy, and not for the client of the previous request on its connection; the log says so once.
#[test]
fn a_client_is_read_in_each_form_and_none_counts_for_another() {
    let mut desk = Desk::new(|settings| {
        settings.opening_per_address_max = 2;
        settings.web = Policy { forwarded: true, ..Policy::default() }.into();
    });
    let mut notes = Vec::new();
    let mut asks = |desk: &mut Desk, conn, value: &str| {
        let field = if value.is_empty() { String::new() } else { format!("X-Forwarded-For: {value}\r\n") };
        let request = format!("GET /nothing HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
        let effects = desk.host.turn(Input::Received { conn, bytes: request.as_bytes() });
        notes.extend(effects.iter().filter_map(|effect| match effect {
            Effect::Note(note) => Some((note.what.clone(), note.peer)),
            _ => None,
        }));
        heard(effects, conn).0.starts_with(b"HTTP/1.1 404")
    };
    for forms in [
        ["203.0.113.7", "203.0.113.7:49152", "::ffff:203.0.113.7"],
        ["2001:db8::7", "[2001:db8::7]", "[2001:db8::7]:443"],
    ] {
        let asked = forms.map(|value| {
            let conn = desk.connect();
            (conn, asks(&mut desk, conn, value))
        });
        assert_eq!(asked.map(|(_, answered)| answered), [true, true, false], "all are of one client");
        let [(first, _), (second, _), _] = asked;
        // The first connection serves another client, first without an address, and then with an
        // unreadable one.
        for value in ["", "198.51.100.1, unknown"] {
            assert!(asks(&mut desk, first, value));
            let third = desk.connect();
            assert!(asks(&mut desk, third, forms[0]), "one connection is this client's");
            desk.host.turn(Input::Closed { conn: third });
            assert!(asks(&mut desk, first, forms[2]));
            let third = desk.connect();
            assert!(!asks(&mut desk, third, forms[0]), "it serves the client again");
        }
        [first, second].into_iter().for_each(|conn| drop(desk.host.turn(Input::Closed { conn })));
    }
    let unnamed = |said: &str| (Happened::Unnamed { said: said.into() }, Some([192, 0, 2, 1].into()));
    assert_eq!(notes, [unnamed(""), unnamed("unknown")]);
}

/// Operators see the client that a trusted proxy reports: in the log of logins, and as long as the
/// session has a connection.
#[test]
fn operators_are_told_of_the_client_that_a_proxy_names() {
    let client = IpAddr::from([203, 0, 113, 7]);
    for forwarded in [true, false] {
        let mut desk = Desk::new(|settings| {
            settings.note_logins = true;
            settings.web = Policy { forwarded, ..Policy::default() }.into();
        });
        let conn = desk.connect();
        let fields = "GET /xmpp-websocket HTTP/1.1\r\nX-Forwarded-For: 198.51.100.1, ::ffff:203.0.113.7\r\n";
        desk.says(conn, UPGRADE.replacen("GET /xmpp-websocket HTTP/1.1\r\n", fields, 1).as_bytes());
        desk.hears(conn, &text(OPEN));
        let effects = desk.host.turn(Input::Received { conn, bytes: &text(&plain("romeo")) });
        let noted: Vec<_> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Note(note) if matches!(note.what, Happened::LoggedIn { .. }) => note.peer,
                _ => None,
            })
            .map(|peer| peer.to_canonical())
            .collect();
        assert_eq!(noted, [if forwarded { client } else { [192, 0, 2, 1].into() }], "{forwarded}");
        for xml in [OPEN, BIND] {
            assert!(!desk.hears(conn, &text(xml)).is_empty());
        }
        assert_eq!(desk.host.shard.client_of(conn), forwarded.then_some(client), "otherwise the host knows it");
        desk.host.turn(Input::Closed { conn });
        assert_eq!(desk.host.shard.client_of(conn), None);
    }
    // It moves along to another shard.
    let mut desk = Desk::new(|_| {});
    for (slot, named) in [(7, true), (8, false)] {
        let conn = ConnId { slot, generation: 1 };
        let moved = Box::new(Moved { peer: client, named, ..*moved("romeo@localhost") });
        desk.host.turn(Input::Arrived { conn, moved });
        assert_eq!(desk.host.shard.client_of(conn), named.then_some(client));
    }
}

// Several shards.

struct Talk {
    world: World,
    heard: Vec<(SocketId, Vec<u8>)>,
}

impl Talk {
    fn heard(&self, socket: SocketId) -> &[u8] {
        self.heard.iter().find(|(of, _)| *of == socket).map_or(&[], |(_, heard)| heard)
    }

    /// Waits until a connection has received this.
    fn hear(&mut self, socket: SocketId, sign: &str) {
        let until = self.world.now_us() + 20_000_000;
        let contains = |heard: &[u8]| heard.windows(sign.len()).any(|at| at == sign.as_bytes());
        while !contains(self.heard(socket)) {
            let heard = String::from_utf8_lossy(self.heard(socket)).into_owned();
            assert!(self.world.now_us() < until, "waited for {sign}, heard {heard}");
            if let Occurrence::Bytes(socket, bytes) = self.world.step() {
                match self.heard.iter_mut().find(|(of, _)| *of == socket) {
                    Some((_, heard)) => heard.extend(bytes),
                    None => self.heard.push((socket, bytes)),
                }
            }
        }
    }

    fn bound(&mut self, user: &str) -> SocketId {
        let socket = self.world.connect();
        let mut bytes = UPGRADE.as_bytes().to_vec();
        // All in one flight: the user's home reads what follows the login.
        let presence = "<presence xmlns='jabber:client'/>";
        for xml in [OPEN, &plain(user), OPEN, BIND, presence] {
            let (head, tail) = xml.as_bytes().split_at(9);
            bytes.extend([frame(0x01, head), frame(0x89, b"?"), frame(0x80, tail)].concat());
        }
        self.world.write(socket, &bytes);
        self.hear(socket, "<presence ");
        socket
    }
}

/// A connection moves to its user's home as a WebSocket, with the frames received so far, wherever
/// they are cut.
#[test]
fn a_websocket_moves_to_its_users_home_in_the_middle_of_what_it_says() {
    for seed in 0..18 {
        let pace = Pace { read_bytes: [7, 100, 4_096][seed as usize % 3], ..Pace::default() };
        let settings = Settings::new("localhost", 1 + (seed % 6) as u16 / 2, [0; 32], 0);
        let mut talk = Talk { world: World::new(seed, settings, pace, &["romeo", "juliet"]), heard: Vec::new() };
        talk.world.http = true;
        let (romeo, juliet) = (talk.bound("romeo"), talk.bound("juliet"));
        let message = "<message xmlns='jabber:client' to='juliet@localhost' type='chat'><body>hello</body></message>";
        talk.world.write(romeo, &text(message));
        talk.hear(juliet, "<body>hello</body>");
        for socket in [romeo, juliet] {
            // So that no frame is cut.
            talk.world.write(socket, &frame(0x89, b"the end"));
            talk.hear(socket, "the end");
            let all = lines(talk.heard(socket));
            assert_eq!(all.iter().filter(|line| *line == "pong ?").count(), 5, "{all:?}");
            assert_eq!(all.iter().filter(|line| line.starts_with("<open ")).count(), 2, "{all:?}");
        }
    }
}

/// Rates per account also apply to WebSockets: faster input is read later.
#[test]
fn an_account_sends_as_fast_by_websocket_as_over_a_bare_stream() {
    let mut desk = Desk::new(|settings| settings.paces = Allowances::USUAL);
    let conn = desk.bound("romeo");
    let sent = "<message xmlns='jabber:client' to='juliet@localhost' type='chat'><body>a</body></message>";
    let frames: Vec<u8> = (0..250).flat_map(|_| text(sent)).collect();
    let taken = |desk: &Desk| desk.host.shard.counters().messages_in.get();
    let effects = desk.host.turn(Input::Received { conn, bytes: &frames });
    assert_eq!(taken(&desk), 201);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Pause { conn: of } if *of == conn)));
    let mut resumed = false;
    for _ in 0..40 {
        desk.host.now.mono_ms += 100;
        let effects = desk.host.turn(Input::Held { since_s: None, many: false });
        resumed |= effects.iter().any(|effect| matches!(effect, Effect::Resume { conn: of, .. } if *of == conn));
    }
    assert!(resumed);
    assert_eq!(taken(&desk), 250, "nothing is lost");
}
