//! A session against a server that is made up; the clause that each test is about stands with it.

use super::*;

const CREATED: &str = "<body xmlns='http://jabber.org/protocol/httpbind' sid='s&amp;1' wait='60' hold='1' requests='2' \
                       inactivity='30' polling='2' ack='8' xmlns:stream='x'><stream:features/></body>";
const EMPTY: &str = "<body xmlns='http://jabber.org/protocol/httpbind'/>";
const HEADER: &str = "<?xml version='1.0'?><stream:stream to='localhost' version='1.0'>";

struct Stage {
    bosh: Bosh,
    stream: Vec<u8>,
    now: Tick,
    scanner: Scanner,
    /// Sent, with its line: oldest first.
    sent: Vec<(usize, String)>,
    later: Option<Tick>,
}

impl Stage {
    fn new() -> Stage {
        let (bosh, scanner) = (Bosh::begin(6), Scanner::new());
        Stage { bosh, stream: Vec::new(), now: 0, scanner, sent: Vec::new(), later: None }
    }

    /// One with a session, whose next request has the number 8.
    fn begun() -> Stage {
        let mut stage = Stage::new();
        stage.say(HEADER);
        assert_eq!(stage.take().len(), 1);
        stage.hear(0, CREATED);
        stage
    }

    fn target() -> Target {
        Target { host: "localhost:80".into(), path: "/b".into(), domain: "localhost".into(), wait_s: 60 }
    }

    fn say(&mut self, text: &str) {
        self.stream.extend_from_slice(text.as_bytes());
        self.turn();
    }

    /// Does what is to be done; connections stand at once.
    fn turn(&mut self) {
        self.later = None;
        while let Some(does) = self.bosh.next(&mut self.stream, [true; LINES], &mut self.scanner, self.now) {
            match does {
                Do::Connect(line) => self.bosh.connected(line),
                Do::Ask { line, .. } => {
                    let mut out = Vec::new();
                    self.bosh.write(&Stage::target(), line, &mut out);
                    let text = String::from_utf8(out).expect("text");
                    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
                    assert!(head.starts_with("POST /b HTTP/1.1\r\nHost: localhost:80\r\n"), "{head}");
                    assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
                    self.sent.push((line, body.to_owned()));
                }
                Do::Later(due) => {
                    self.later = Some(due);
                    break;
                }
            }
        }
    }

    fn take(&mut self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.sent)
    }

    /// An answer comes; what is heard of it now, in order.
    fn hear(&mut self, line: usize, body: &str) -> Vec<String> {
        let mut heard = Vec::new();
        if self.bosh.answered(line, body.as_bytes()).expect("a request was there") {
            let mut next: Option<Box<[u8]>> = Some(body.as_bytes().into());
            while let Some(body) = next {
                let (mut said, content) = read(&body, &mut self.scanner).expect("a body");
                let header = self.bosh.learn(&mut said, !content.is_empty());
                heard.push(format!("{}{}", if header { "^" } else { "" }, String::from_utf8_lossy(content)));
                next = self.bosh.kept();
            }
        }
        self.turn();
        heard
    }
}

fn attribute<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let rest = body.split_once(&format!(" {name}='"))?.1;
    Some(rest.split_once('\'')?.0)
}

/// XEP-0124 7.1, XEP-0206 3: the first request has no name, and the second not before the first is answered.
#[test]
fn a_session_begins_with_one_request() {
    let mut stage = Stage::new();
    stage.say(&[HEADER, "<auth xmlns='a'/>"].concat());
    let sent = stage.take();
    assert_eq!(sent.len(), 1);
    let body = &sent[0].1;
    for (name, value) in [
        ("rid", "7"),
        ("to", "localhost"),
        ("wait", "60"),
        ("hold", "1"),
        ("ack", "1"),
        ("xmpp:version", "1.0"),
        ("xmlns:xmpp", "urn:xmpp:xbosh"),
    ] {
        assert_eq!(attribute(body, name), Some(value), "{body}");
    }
    assert_eq!(attribute(body, "sid"), None);
    assert_eq!(stage.hear(0, CREATED), ["^<stream:features/>"], "behind the header of a stream");
    let sent = stage.take();
    assert!(matches!(&sent[..], [(0, body)] if body.ends_with("><auth xmlns='a'/></body>")), "{sent:?}");
    assert_eq!((attribute(&sent[0].1, "sid"), attribute(&sent[0].1, "rid")), (Some("s&amp;1"), Some("8")));
}

/// XEP-0206 5: a restart is a request without content, and what comes then stands behind a header.
#[test]
fn a_stream_is_restarted_by_a_request_of_its_own() {
    let mut stage = Stage::begun();
    stage.take();
    stage.hear(0, "<body xmlns='http://jabber.org/protocol/httpbind'><success xmlns='u'/></body>");
    stage.hear(0, EMPTY);
    stage.take();
    stage.say(&[HEADER, "<iq id='b'/>"].concat());
    let sent = stage.take();
    assert_eq!(attribute(&sent[0].1, "xmpp:restart"), Some("true"));
    assert!(sent[0].1.ends_with("/>") && sent.len() == 1, "{sent:?}");
    assert!(stage.hear(1 - sent[0].0, EMPTY).iter().all(String::is_empty));
    let features = stage.hear(sent[0].0, "<body xmlns='http://jabber.org/protocol/httpbind'><f/></body>");
    assert_eq!(features, ["^<f/>"]);
}

/// XEP-0124 7.2, 11: one empty request waits; what is said goes on a second connection, and nothing on a third.
#[test]
fn two_requests_on_two_connections_at_most() {
    let mut stage = Stage::begun();
    let sent = stage.take();
    assert_eq!(sent.len(), 1, "one waits");
    assert_eq!((sent[0].0, attribute(&sent[0].1, "rid")), (0, Some("8")));
    stage.turn();
    assert!(stage.take().is_empty(), "no second empty one");
    stage.say("<message>1</message>");
    let sent = stage.take();
    assert_eq!((sent.len(), sent[0].0), (1, 1));
    assert!(sent[0].1.contains("><message xmlns='jabber:client'>1</message></body>"), "{}", sent[0].1);
    // XEP-0124 9.2: the answer to 8 is not there.
    assert_eq!((attribute(&sent[0].1, "rid"), attribute(&sent[0].1, "ack")), (Some("9"), Some("7")));
    stage.say("<message>2</message>");
    stage.say("<message>3</message>");
    assert!(stage.take().is_empty(), "there are two");
    stage.hear(0, EMPTY);
    let sent = stage.take();
    assert_eq!((sent.len(), sent[0].0), (1, 0));
    assert!(sent[0].1.contains(">2</message><message xmlns='jabber:client'>3<"), "{}", sent[0].1);
    assert_eq!(attribute(&sent[0].1, "ack"), Some("8"), "9 has no answer");
    stage.hear(1, EMPTY);
    stage.hear(0, EMPTY);
    let sent = stage.take();
    assert_eq!((sent.len(), attribute(&sent[0].1, "ack")), (1, None), "all before it are answered");
}

/// XEP-0124 14.2: answers are taken in the order of their requests, whatever their connections do.
#[test]
fn answers_are_heard_in_order() {
    let mut stage = Stage::begun();
    stage.say("<a xmlns='u'/>");
    stage.take();
    let body = |text: &str| format!("<body xmlns='http://jabber.org/protocol/httpbind'><{text}/></body>");
    assert_eq!(stage.hear(1, &body("second")), [""; 0]);
    assert_eq!(stage.hear(0, &body("first")), ["<first/>", "<second/>"]);
}

/// XEP-0124 14.3: what was lost is asked again on another connection, with its number and all that it said.
#[test]
fn a_lost_request_is_repeated_as_it_was() {
    let mut stage = Stage::begun();
    stage.say("<message>1</message>");
    let before = stage.take();
    assert_eq!(stage.bosh.lost(1, stage.now), Loss::Again);
    stage.turn();
    assert!(stage.take().is_empty(), "the old connection is not gone");
    stage.bosh.closed(1);
    stage.turn();
    let again = stage.take();
    assert_eq!(again, before[1..], "the same once more");
    // Both, and the older one first.
    for line in [0, 1] {
        stage.bosh.lost(line, stage.now);
        stage.bosh.closed(line);
    }
    stage.turn();
    assert!(stage.take().is_empty(), "a second failure waits");
    stage.now = stage.bosh.due(stage.now).expect("a time");
    stage.turn();
    assert_eq!(stage.take(), before);
    stage.hear(0, EMPTY);
    assert_eq!(stage.bosh.lost(1, stage.now), Loss::Again, "after an answer it is a first one again");
}

#[test]
fn tries_without_an_answer_have_an_end_and_idle_connections_are_no_loss() {
    let mut stage = Stage::begun();
    let mut tries = 0;
    loop {
        match stage.bosh.lost(0, stage.now) {
            Loss::Again => tries += 1,
            other => break assert_eq!(other, Loss::Over),
        }
        stage.bosh.closed(0);
        stage.now = stage.bosh.due(stage.now).unwrap_or(stage.now);
        stage.turn();
    }
    assert_eq!(tries, TRIES_MAX);
    assert!(stage.now < 30 * 1_000 / TICK_MS, "within the time that a session may be away: {}", stage.now);
    let mut stage = Stage::begun();
    stage.say("<a xmlns='u'/>");
    stage.hear(0, EMPTY);
    assert_eq!((stage.bosh.line(0), stage.bosh.lost(0, stage.now)), (Line::Idle, Loss::Nothing));
    // A session that has not begun is not asked about again.
    let mut stage = Stage::new();
    stage.say(HEADER);
    assert_eq!(stage.bosh.lost(0, stage.now), Loss::Over);
}

/// What this program cuts off itself is no try of the server's.
#[test]
fn a_network_may_go_away_as_often_as_it_likes() {
    let mut stage = Stage::begun();
    let first = stage.take();
    for _ in 0..300 {
        let line = stage.sent.first().map_or(0, |(line, _)| *line);
        assert!(stage.bosh.leave(line));
        stage.bosh.closed(line);
        stage.sent.clear();
        stage.turn();
        assert_eq!(stage.sent, first);
    }
}

/// XEP-0124 17.4: after an answer of the type `error` its request and those before it are repeated.
#[test]
fn an_answer_may_ask_to_repeat() {
    let mut stage = Stage::begun();
    stage.say("<message>1</message>");
    let before = stage.take();
    let body = "<body xmlns='http://jabber.org/protocol/httpbind' type='error'/>";
    let (said, _) = read(body.as_bytes(), &mut Scanner::new()).expect("a body");
    assert!(said.fails && said.ends.is_none());
    let (loss, closes) = stage.bosh.repeat(1, stage.now);
    assert_eq!((loss, closes), (Loss::Again, [true, false]));
    stage.bosh.closed(0);
    stage.turn();
    let mut again = stage.take();
    again.sort_by_key(|(_, body)| body.clone());
    let bodies = |sent: &[(usize, String)]| sent.iter().map(|(_, body)| body.clone()).collect::<Vec<_>>();
    let mut wanted = bodies(&before);
    wanted.sort();
    assert_eq!(bodies(&again), wanted);
}

/// XEP-0124 12: where nothing is held, a session without anything to say asks only so often.
#[test]
fn a_session_without_hold_polls() {
    let mut stage = Stage::new();
    stage.say(HEADER);
    stage.hear(0, &CREATED.replace("hold='1'", "hold='0'").replace("requests='2'", "requests='1'"));
    assert_eq!(stage.take().len(), 2, "the first one at once");
    stage.hear(0, EMPTY);
    assert_eq!((stage.take().len(), stage.later), (0, Some(2_000 / TICK_MS)));
    stage.say("<presence/>");
    assert_eq!(stage.take().len(), 1, "what is to be said is said");
    stage.say("<presence/>");
    assert!(stage.take().is_empty(), "one request at a time");
    stage.hear(0, EMPTY);
    stage.hear(0, EMPTY);
    stage.take();
    stage.now = 2_000 / TICK_MS;
    stage.turn();
    assert_eq!(stage.take().len(), 1);
}

/// XEP-0124 13: the end goes with what was said last, and nothing is asked behind it.
#[test]
fn the_end_is_asked_for_and_nothing_behind_it() {
    let mut stage = Stage::begun();
    stage.take();
    stage.say("<presence type='unavailable'/></stream:stream>");
    let sent = stage.take();
    assert_eq!((sent.len(), attribute(&sent[0].1, "type")), (1, Some("terminate")));
    assert!(sent[0].1.contains("type='unavailable'/></body>"), "{}", sent[0].1);
    stage.say("<presence/>");
    stage.hear(1, EMPTY);
    assert!(stage.take().is_empty());
}

#[test]
fn a_request_that_waits_for_too_long_is_given_up() {
    let stage = Stage::begun();
    let due = stage.bosh.due(0).expect("a request waits");
    assert_eq!(due, 80 * 1_000 / TICK_MS, "longer than it may wait");
    assert_eq!((stage.bosh.dead(due - 1), stage.bosh.dead(due)), (None, Some(0)));
}

#[test]
fn what_an_answer_says_is_read_and_what_is_none_is_named() {
    let mut scanner = Scanner::new();
    let (said, content) = read(CREATED.as_bytes(), &mut scanner).expect("a body");
    assert_eq!((said.sid.as_deref(), said.hold, said.inactivity_s), (Some("s&1"), Some(1), Some(30)));
    assert_eq!(content, b"<stream:features/>");
    let text = "<?xml version='1.0'?>\n<body xmlns='http://jabber.org/protocol/httpbind' type='terminate' \
                condition='item-not-found' >\n<a>x</a> </body >\n";
    let (said, content) = read(text.as_bytes(), &mut scanner).expect("a body");
    assert_eq!((said.ends.as_deref(), content), (Some("item-not-found"), &b"\n<a>x</a> "[..]));
    let (said, content) =
        read(b"<body xmlns='http://jabber.org/protocol/httpbind' type='terminate'></body>", &mut scanner)
            .expect("a body");
    assert_eq!((said.ends.as_deref(), content), (Some("without a condition"), &b""[..]));
    for (text, kind) in [
        ("<html/>", "other than <body/>; see --path"),
        ("<body xmlns='http://jabber.org/protocol/httpbind'>", "without a whole"),
        ("", "without a whole"),
        ("<body &", "malformed"),
    ] {
        let told = read(text.as_bytes(), &mut scanner).expect_err("no answer");
        assert!(told.contains(kind), "{text}: {told}");
    }
}

#[test]
fn an_idle_session_keeps_its_name_and_nothing_else() {
    let mut stage = Stage::begun();
    stage.say("<message>1</message>");
    stage.hear(0, EMPTY);
    stage.hear(1, EMPTY);
    stage.turn();
    assert_eq!(stage.bosh.heap_bytes(), "s&1".len());
}
