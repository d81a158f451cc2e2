//! A world without sockets: requests to the driver are recorded, and its events are simulated.

use super::*;
use crate::driver::Kind;

struct Stage {
    world: World,
    driver: Notes,
    now_ns: u64,
    phase: Phase,
}

/// A driver that records requests, with a server behind it that accepts every client.
#[derive(Default)]
struct Notes {
    connects: Vec<u32>,
    closes: Vec<(u32, bool)>,
    pauses: Vec<u32>,
    resumes: Vec<u32>,
    sends: Vec<(u32, String)>,
}

impl Driver for Notes {
    fn connect(&mut self, client: u32, _: usize) {
        self.connects.push(client);
    }

    fn send(&mut self, client: u32, bytes: Vec<u8>) {
        // Frames are no text, but what they carry is.
        self.sends.push((client, String::from_utf8_lossy(&bytes).into_owned()));
    }

    fn close(&mut self, client: u32, abort: bool) {
        self.closes.push((client, abort));
    }

    fn pause(&mut self, client: u32) {
        self.pauses.push(client);
    }

    fn favour(&mut self, _: u32) {}

    fn resume(&mut self, client: u32) {
        self.resumes.push(client);
    }

    fn wait(&mut self, _: Duration, _: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        Ok(())
    }
}

const WELCOME: [&str; 5] = [
    "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='1' version='1.0'>\
     <stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism>\
     </mechanisms></stream:features>",
    "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
    "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='2' version='1.0'>\
     <stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>",
    "<iq type='result' id='b'/>",
    "<iq type='result' id='p'/>",
];

impl Stage {
    fn new(scenario: Scenario) -> Stage {
        let scenario = Arc::new(scenario);
        let plan = Plan {
            worker: 0,
            accounts: Arc::new(Accounts::of(&scenario).expect("accounts")),
            profile: Profile::plain("localhost"),
            tls: None,
            first: 0,
            clients: scenario.sessions,
            pairs: scenario.pairs,
            first_pair: 0,
            run: 1,
            driver: Kind::Epoll,
            sockets: driver::Settings {
                clients: scenario.sessions * scenario.connections_each(),
                table_slots: u32::MAX,
                to: scenario.to,
                sources: Vec::new(),
            },
            target: Target {
                host: "localhost:80".into(),
                path: scenario.path_asked().into(),
                domain: "localhost".into(),
                wait_s: scenario.wait_s,
            },
            memory_before: None,
            scenario,
        };
        Stage { world: World::new(plan), driver: Notes::default(), now_ns: 0, phase: Phase::Ramp }
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 10 {
            self.now_ns += 10_000_000;
            self.world.advance(self.now_ns, self.phase);
            self.world.flush(&mut self.driver);
        }
    }

    fn event(&mut self, event: Event<'_>) {
        self.world.event(event);
        self.world.flush(&mut self.driver);
    }

    fn hear(&mut self, client: u32, text: &str) {
        self.event(Event::Received(client, text.as_bytes()));
        self.sent();
    }

    /// The kernel has all that was sent.
    fn sent(&mut self) -> Vec<(u32, String)> {
        let mut all = Vec::new();
        loop {
            let sends = std::mem::take(&mut self.driver.sends);
            if sends.is_empty() {
                return all;
            }
            for (client, _) in &sends {
                self.event(Event::Sent(*client, Vec::new()));
            }
            all.extend(sends);
        }
    }

    /// Accepts every client that connects.
    fn welcome(&mut self) {
        for client in std::mem::take(&mut self.driver.connects) {
            self.event(Event::Connected(client));
            self.sent();
            WELCOME.iter().for_each(|text| self.hear(client, text));
        }
    }

    fn up(scenario: Scenario) -> Stage {
        let mut stage = Stage::new(Scenario { ramp_per_s: 1000.0, ..scenario });
        stage.pass(1000);
        stage.welcome();
        assert_eq!(stage.world.gauges.up, u64::from(stage.world.plan.clients));
        stage
    }
}

fn two() -> Scenario {
    Scenario { sessions: 2, pairs: 1, ..Scenario::default() }
}

#[test]
fn the_ramp_begins_so_many_logins_a_second() {
    let mut stage = Stage::new(Scenario { sessions: 1000, ramp_per_s: 100.0, ..Scenario::default() });
    stage.pass(2000);
    assert!((195..=206).contains(&stage.driver.connects.len()), "{}", stage.driver.connects.len());
}

#[test]
fn an_arrival_sends_the_next_and_only_in_the_hold() {
    let mut stage = Stage::up(two());
    assert!(stage.sent().is_empty(), "nothing is sent in the ramp");
    stage.phase = Phase::Hold;
    stage.pass(10);
    let sent = stage.sent();
    assert!(
        matches!(&sent[..], [(0, text)] if text.starts_with("<message to='u1@localhost' type='chat'><body>!1 0 0 "))
    );
    assert_eq!(sent[0].1.len(), 180, "a message has the size that was asked for");
    stage.event(Event::Received(1, sent[0].1.as_bytes()));
    let next = stage.sent();
    assert!(matches!(&next[..], [(0, text)] if text.contains("!1 0 1 ")), "{next:?}");
    stage.phase = Phase::Drain;
    stage.pass(10);
    stage.event(Event::Received(1, next[0].1.as_bytes()));
    assert!(stage.sent().is_empty());
    let counted = &stage.world.tally.counters;
    assert_eq!((counted.sent, counted.received, stage.world.gauges.outstanding), (2, 2, 0));
}

#[test]
fn a_window_that_does_not_move_is_opened_again_and_its_message_counts_as_lost() {
    let mut stage = Stage::up(two());
    stage.phase = Phase::Hold;
    stage.pass(10);
    assert_eq!(stage.sent().len(), 1);
    stage.pass(4000);
    assert!(stage.sent().is_empty());
    stage.pass(3000);
    let again = stage.sent();
    assert_eq!(again.len(), 1);
    stage.event(Event::Received(1, again[0].1.as_bytes()));
    stage.world.phase = Phase::Drain;
    stage.world.settle_accounts();
    let counted = &stage.world.tally.counters;
    assert_eq!((counted.given_up, counted.received, counted.lost), (1, 1, 2), "the first, and the one just sent");
}

#[test]
fn the_open_loop_counts_from_when_a_message_was_to_be_sent() {
    let mut stage = Stage::up(Scenario { in_flight: 0, rate: 100.0, ..two() });
    stage.phase = Phase::Hold;
    stage.pass(10);
    // The generator is held up for a second: what was due in it is sent late, and its time says
    // when it was due.
    stage.now_ns += 1_000_000_000;
    stage.pass(10);
    let late = stage.sent();
    let texts: String = late.into_iter().map(|(_, text)| text).collect();
    assert!((70..135).contains(&texts.matches("<message").count()), "{}", texts.matches("<message").count());
    stage.event(Event::Received(1, texts.as_bytes()));
    let latency = &mut stage.world.tally.latency;
    assert!(latency.max_ms().is_some_and(|ms| ms > 900.0), "{:?}", latency.max_ms());
    assert!(latency.quantile_ms(0.5).is_some_and(|ms| (300.0..700.0).contains(&ms)), "{:?}", latency.quantile_ms(0.5));
    assert!(stage.world.tally.sent_late.max_ms() > Some(900.0));
}

#[test]
fn no_more_messages_than_asked_for() {
    let mut stage = Stage::up(Scenario { in_flight: 10, messages_max: 7, ..two() });
    stage.phase = Phase::Hold;
    stage.pass(100);
    let texts: String = stage.sent().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts.matches("<message").count(), 7);
}

#[test]
fn who_breaks_returns_later_each_time_and_who_is_refused_does_not() {
    let mut stage = Stage::up(Scenario { sessions: 1, ..Scenario::default() });
    stage.event(Event::Ended(0, Some(libc::ECONNRESET)));
    assert_eq!(stage.driver.closes, [(0, true)]);
    stage.event(Event::Closed(0));
    assert_eq!((stage.world.gauges.up, stage.world.gauges.open), (0, 0));
    stage.pass(400);
    assert_eq!(stage.driver.connects, [0; 0], "not at once");
    stage.pass(800);
    assert_eq!(stage.driver.connects, [0]);
    let errors = &stage.world.tally.counters.errors;
    assert_eq!(errors.get("connection: connection reset"), Some(&1), "{errors:?}");
    stage.event(Event::Connected(0));
    stage.sent();
    stage.hear(0, WELCOME[0]);
    stage.hear(0, "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>");
    stage.event(Event::Closed(0));
    stage.driver.connects.clear();
    stage.pass(100_000);
    assert_eq!(stage.driver.connects, [0; 0]);
    assert_eq!(stage.world.gauges.hopeless, 0, "it has arrived before");
}

#[test]
fn a_login_that_takes_too_long_is_broken_off() {
    let mut stage = Stage::new(Scenario { sessions: 1, login_s_max: 2.0, ..Scenario::default() });
    stage.pass(100);
    stage.event(Event::Connected(0));
    stage.pass(2500);
    assert_eq!(stage.driver.closes, [(0, true)]);
    assert_eq!(stage.world.tally.counters.errors.get("login: timeout"), Some(&1));
}

#[test]
fn a_storm_resets_all_and_they_return_past_the_queue() {
    let scenario = Scenario { sessions: 50, storm_share: 1.0, storm_at_s: 1.0, ..Scenario::default() };
    let mut stage = Stage::up(scenario);
    stage.phase = Phase::Hold;
    stage.pass(900);
    assert!(stage.driver.closes.is_empty());
    stage.pass(200);
    assert_eq!(stage.driver.closes.len(), 50);
    assert!(stage.driver.closes.iter().all(|(_, abort)| *abort));
    for (client, _) in std::mem::take(&mut stage.driver.closes) {
        stage.event(Event::Closed(client));
    }
    assert_eq!(stage.driver.connects.len(), 50);
    stage.welcome();
    assert_eq!((stage.world.gauges.up, stage.world.tally.counters.logins), (50, 100));
    stage.pass(1000);
    assert!(stage.driver.closes.is_empty(), "there is one storm");
}

/// RFC 6120 3.3: clients come back after an unpredictable time, not all at once.
#[test]
fn a_storm_with_a_spread_returns_over_that_time() {
    let scenario =
        Scenario { sessions: 400, storm_share: 1.0, storm_at_s: 1.0, storm_spread_s: 4.0, ..Scenario::default() };
    let mut stage = Stage::up(scenario);
    stage.phase = Phase::Hold;
    stage.pass(1100);
    for (client, _) in std::mem::take(&mut stage.driver.closes) {
        stage.event(Event::Closed(client));
    }
    let mut returned = vec![stage.driver.connects.len()];
    for _ in 0..4 {
        stage.pass(1000);
        returned.push(stage.driver.connects.len());
    }
    let in_each: Vec<usize> = returned.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(in_each.iter().all(|count| (60..=140).contains(count)), "{in_each:?}");
    stage.pass(200);
    assert_eq!(stage.driver.connects.len(), 400, "past the ramp's queue, all of them");
}

#[test]
fn who_leaves_closes_the_stream_and_returns() {
    let mut stage = Stage::up(Scenario { sessions: 1, offline_per_s: 100.0, offline_s: 2.0, ..Scenario::default() });
    stage.phase = Phase::Hold;
    stage.pass(500);
    // RFC 6120 4.4: the stream is closed, then the connection.
    assert_eq!(stage.sent(), [(0, "</stream:stream>".to_owned())]);
    assert!(stage.driver.closes.is_empty());
    stage.hear(0, "</stream:stream>");
    assert_eq!(stage.driver.closes, [(0, false)]);
    stage.event(Event::Closed(0));
    stage.pass(1000);
    assert_eq!(stage.driver.connects, [0; 0]);
    stage.pass(2000);
    assert_eq!(stage.driver.connects, [0]);
    assert!(stage.world.tally.counters.errors.is_empty());
}

#[test]
fn who_is_away_when_sending_ends_returns_for_what_waits() {
    for returns in [true, false] {
        let mut stage = Stage::up(Scenario { in_flight: 0, rate: 1000.0, ..two() });
        stage.event(Event::Ended(1, None));
        stage.event(Event::Closed(1));
        stage.phase = Phase::Hold;
        stage.pass(50);
        assert!(stage.world.tally.counters.sent > 10 && stage.driver.connects.is_empty());
        stage.phase = Phase::Drain;
        stage.pass(2000);
        assert_eq!(stage.driver.connects, [1]);
        if returns {
            stage.welcome();
        }
        stage.phase = Phase::Close;
        stage.pass(100);
        stage.world.settle_accounts();
        let counted = &stage.world.tally.counters;
        let wanted = if returns { (counted.sent, 0) } else { (0, counted.sent) };
        assert_eq!((counted.lost, counted.unsure), wanted, "a server keeps what waits; nobody else can tell");
        assert_eq!(counted.broken, 1);
    }
}

#[test]
fn receivers_stall_and_read_again() {
    let mut stage =
        Stage::up(Scenario { stall_share: 0.5, stall_s: 2.0, sessions: 8, pairs: 4, ..Scenario::default() });
    stage.phase = Phase::Hold;
    stage.pass(1000);
    assert_eq!(stage.driver.pauses, [1, 3]);
    assert_eq!(stage.driver.resumes, [0; 0]);
    stage.pass(1500);
    assert_eq!(stage.driver.resumes, [1, 3]);
}

#[test]
fn a_spike_is_in_its_region() {
    let scenario = Scenario {
        sessions: 200,
        pairs: 100,
        in_flight: 0,
        rate: 100.0,
        spike_at_s: 2.0,
        spike_s: 3.0,
        spike_factor: 10.0,
        spike_share: 0.1,
        ..Scenario::default()
    };
    let mut stage = Stage::up(scenario);
    let mut by_pair = |ms: u64| {
        stage.phase = Phase::Hold;
        let mut counts = (0, 0);
        for _ in 0..ms / 10 {
            stage.pass(10);
            for (client, text) in stage.sent() {
                let count = text.matches("<message").count();
                if client / 2 < 10 { counts.0 += count } else { counts.1 += count }
            }
        }
        counts
    };
    let (region, rest) = by_pair(2000);
    assert!((8..40).contains(&region) && (140..220).contains(&rest), "{region} {rest}");
    // Ten times, from within the first second on: 9 pairs' 10 a second, and 90 a second more.
    by_pair(1000);
    let (region, rest) = by_pair(2000);
    assert!((160..240).contains(&region) && (140..220).contains(&rest), "{region} {rest}");
}

#[test]
fn short_sessions_come_and_go() {
    let scenario =
        Scenario { sessions: 20, short_share: 1.0, short_up_s: 1.0, short_away_s: 1.0, ..Scenario::default() };
    let mut stage = Stage::up(scenario);
    stage.phase = Phase::Hold;
    stage.pass(2000);
    let leaving = stage.sent().iter().filter(|(_, text)| text == "</stream:stream>").count();
    assert!((10..=20).contains(&leaving), "{leaving}");
}

#[test]
fn at_the_end_streams_are_closed() {
    let mut stage = Stage::up(Scenario { sessions: 3, ..Scenario::default() });
    stage.phase = Phase::Close;
    stage.pass(10);
    assert_eq!(stage.sent().len(), 3);
    (0..3).for_each(|client| stage.event(Event::Ended(client, None)));
    assert!(stage.driver.closes.len() == 3 && stage.driver.closes.iter().all(|(_, abort)| !abort));
    (0..3).for_each(|client| stage.event(Event::Closed(client)));
    assert_eq!(stage.world.gauges.open, 0);
    assert!(stage.world.tally.counters.errors.is_empty());
}

#[test]
fn an_idle_client_keeps_no_heap() {
    let mut stage = Stage::up(Scenario { sessions: 100, ..Scenario::default() });
    stage.sent();
    stage.pass(100);
    let heap: usize = stage.world.conns.iter().map(|conn| conn.output.capacity()).sum();
    assert_eq!(heap, 0);
}

fn http(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn bosh(content: &str) -> String {
    http(&format!(
        "<body xmlns='http://jabber.org/protocol/httpbind' sid='s' wait='60' hold='1' requests='2' inactivity='30' \
         ack='1' xmlns:stream='http://etherx.jabber.org/streams'>{content}</body>"
    ))
}

impl Stage {
    /// Two sessions over BOSH that stand, each with a request that waits on its first connection.
    fn over_bosh(scenario: Scenario) -> Stage {
        let mut stage =
            Stage::new(Scenario { ramp_per_s: 1000.0, transport: crate::scenario::Transport::Bosh, ..scenario });
        stage.pass(1000);
        let content = [
            "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism>\
             </mechanisms></stream:features>",
            "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
            "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>",
            "<iq xmlns='jabber:client' type='result' id='b'/>",
            "<iq xmlns='jabber:client' type='result' id='p'/>",
        ];
        for slot in std::mem::take(&mut stage.driver.connects) {
            stage.event(Event::Connected(slot));
            stage.sent();
            for content in content {
                stage.hear(slot, &bosh(content));
            }
        }
        assert_eq!(stage.world.gauges.up, u64::from(stage.world.plan.clients));
        stage
    }

    /// Connects every client that wants to.
    fn connect(&mut self) -> Vec<u32> {
        let slots = std::mem::take(&mut self.driver.connects);
        slots.iter().for_each(|slot| self.event(Event::Connected(*slot)));
        slots
    }

    fn close(&mut self) {
        for (slot, _) in std::mem::take(&mut self.driver.closes) {
            self.event(Event::Closed(slot));
        }
    }
}

fn content(request: &str) -> &str {
    request.split_once("'><").map_or("", |(_, rest)| rest.trim_end_matches("</body>"))
}

#[test]
fn over_bosh_a_message_comes_and_the_next_is_sent() {
    let mut stage = Stage::over_bosh(two());
    stage.phase = Phase::Hold;
    stage.pass(10);
    assert_eq!(stage.connect(), [1], "a second connection of the sender, whose first has a request that waits");
    let sent = stage.sent();
    assert!(matches!(&sent[..], [(1, text)] if text.contains("<message xmlns='jabber:client' to='u1@localhost'")));
    stage.hear(0, &bosh(""));
    let message = format!("<{}", content(&sent[0].1));
    stage.event(Event::Received(2, bosh(&message).as_bytes()));
    let next = stage.sent();
    let next: Vec<_> = next.iter().map(|(slot, text)| (*slot, text.contains("<message"))).collect();
    assert_eq!(next, [(0, true), (2, false)], "the next message, and a request that waits again");
    let counted = &stage.world.tally.counters;
    assert_eq!((counted.received, counted.sent, counted.requests_again), (1, 2, 0));
}

/// XEP-0124 14.3.
#[test]
fn over_bosh_a_lost_connection_breaks_no_session_and_its_request_is_repeated() {
    let mut stage = Stage::over_bosh(two());
    stage.event(Event::Ended(2, Some(libc::ECONNRESET)));
    assert_eq!(stage.driver.closes, [(2, true)]);
    assert_eq!(stage.connect(), [3], "the other one of its two, without awaiting the end of the first");
    stage.close();
    let again = stage.sent();
    assert!(matches!(&again[..], [(3, text)] if text.contains(" sid='s'/>")), "{again:?}");
    let counted = &stage.world.tally.counters;
    assert_eq!((counted.broken, counted.requests_again, stage.world.gauges.up), (0, 1, 2));
    assert!(counted.errors.is_empty(), "{:?}", counted.errors);
}

#[test]
fn over_bosh_a_network_comes_back_to_its_session() {
    let scenario = Scenario { sessions: 2, storm_share: 1.0, storm_at_s: 1.0, ..Scenario::default() };
    let mut stage = Stage::over_bosh(scenario);
    stage.phase = Phase::Hold;
    stage.pass(1100);
    assert!(stage.driver.closes.len() == 2 && stage.driver.closes.iter().all(|(_, abort)| *abort));
    stage.close();
    stage.pass(40);
    assert_eq!(stage.connect(), [0, 2]);
    assert_eq!((stage.world.gauges.up, stage.world.tally.counters.requests_again), (2, 2));
    assert_eq!(stage.world.tally.counters.logins, 2, "the first ones");
}

/// XEP-0124 17.3: the session is not known any more, as after a restart of the server.
#[test]
fn over_bosh_a_session_that_the_server_ends_is_broken_and_begins_anew() {
    let mut stage = Stage::over_bosh(Scenario { sessions: 1, ..Scenario::default() });
    let ends = "<body xmlns='http://jabber.org/protocol/httpbind' type='terminate' condition='item-not-found'/>";
    stage.event(Event::Received(0, http(ends).as_bytes()));
    assert_eq!(stage.driver.closes, [(0, true)]);
    stage.close();
    let counted = &stage.world.tally.counters;
    assert_eq!(counted.errors.get("bosh: the server ends the session: item-not-found"), Some(&1));
    assert_eq!((counted.broken, stage.world.gauges.up, stage.world.gauges.open), (1, 0, 0));
    stage.pass(2000);
    assert_eq!(stage.connect(), [0]);
    let begins = stage.sent();
    assert!(begins[0].1.contains(" to='localhost'") && !begins[0].1.contains(" sid="), "{begins:?}");
}

/// XEP-0124 13.
#[test]
fn over_bosh_sessions_are_ended_at_the_end() {
    let mut stage = Stage::over_bosh(Scenario { sessions: 1, ..Scenario::default() });
    stage.phase = Phase::Close;
    stage.pass(10);
    assert_eq!(stage.connect(), [1]);
    assert!(matches!(&stage.sent()[..], [(1, text)] if text.contains(" type='terminate'")));
    stage.hear(0, &http("<body xmlns='http://jabber.org/protocol/httpbind' type='terminate'/>"));
    assert!(stage.driver.closes.len() == 2 && stage.driver.closes.iter().all(|(_, abort)| !abort));
    stage.close();
    assert_eq!((stage.world.gauges.open, stage.world.tally.counters.errors.len()), (0, 0));
}

/// RFC 7395 3: the handshake, then a message for each element.
#[test]
fn over_websocket_a_session_stands_and_ends() {
    let mut stage = Stage::new(Scenario {
        sessions: 1,
        ramp_per_s: 1000.0,
        transport: crate::scenario::Transport::WebSocket,
        ..Scenario::default()
    });
    stage.pass(1000);
    stage.connect();
    assert!(matches!(&stage.sent()[..], [(0, text)] if text.starts_with("GET /xmpp-websocket HTTP/1.1\r\n")));
    let proof = crate::web::PROOF;
    stage.event(Event::Received(
        0,
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {proof}\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n"
        )
        .as_bytes(),
    ));
    let frame = |text: &str| {
        let length = u16::try_from(text.len()).expect("short").to_be_bytes();
        [&[0x81, 126], &length[..], text.as_bytes()].concat()
    };
    let sent = |stage: &mut Stage| stage.sent().into_iter().map(|(_, text)| text).collect::<String>();
    assert!(sent(&mut stage).contains("<open xmlns="));
    let open = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' id='1'/>";
    for text in WELCOME {
        let text = text.strip_prefix(&text[..text.find("<stream:features").unwrap_or(0)]).unwrap_or(text);
        if text.starts_with("<stream:features") {
            stage.event(Event::Received(0, &frame(open)));
        }
        stage.event(Event::Received(0, &frame(text)));
        sent(&mut stage);
    }
    assert_eq!(stage.world.gauges.up, 1);
    stage.phase = Phase::Close;
    stage.pass(10);
    assert!(sent(&mut stage).contains("<close xmlns="));
    stage.event(Event::Ended(0, None));
    assert_eq!(stage.driver.closes, [(0, false)]);
}

/// Presence of a room's occupant to itself, with further status codes (XEP-0045 7.2.2).
fn own_presence(room: u32, user: u32, kind: &str, codes: &[u32]) -> String {
    let statuses: String = codes.iter().map(|code| format!("<status code='{code}'/>")).collect();
    format!(
        "<presence from='room{room}@conference.localhost/u{user}'{kind}>\
         <x xmlns='http://jabber.org/protocol/muc#user'>{statuses}<status code='110'/></x></presence>"
    )
}

#[test]
fn sessions_enter_their_rooms_before_the_hold_and_what_does_not_come_is_lost() {
    // Seats 0 to 3 are of sessions 0, 1, 2, 0: room 0 has sessions 0 and 1, room 1 has 2 and 0.
    let rooms = Scenario { sessions: 3, rooms: 2, room_occupants: 2, room_rate: 1000.0, ..Scenario::default() };
    let mut stage = Stage::up(rooms);
    assert_eq!(stage.world.gauges.arrived, 0, "a session arrives with its rooms");
    // XEP-0045 10.1.3: until it is made, a room is locked.
    let locked = "<presence type='error' from='room0@conference.localhost/u1'><error type='cancel'>\
                  <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>";
    stage.event(Event::Received(1, locked.as_bytes()));
    stage.event(Event::Received(0, own_presence(0, 0, "", &[201]).as_bytes()));
    let made = stage.sent();
    assert!(made.len() == 1 && made[0].0 == 0 && made[0].1.contains("muc#owner"), "{made:?}");
    stage.pass(1100);
    let again = stage.sent();
    assert!(
        matches!(&again[..], [(1, text)] if text.starts_with("<presence to='room0@conference.localhost/u1'>")),
        "{again:?}"
    );
    for (room, user) in [(1, 2), (0, 1), (1, 0)] {
        assert!(stage.world.gauges.arrived < 3);
        stage.event(Event::Received(user, own_presence(room, user, "", &[]).as_bytes()));
    }
    assert_eq!((stage.world.gauges.arrived, stage.world.tally.counters.entered), (3, 4));
    stage.phase = Phase::Hold;
    stage.pass(100);
    let said: Vec<String> = stage.sent().into_iter().filter(|(client, _)| *client == 0).map(|(_, text)| text).collect();
    let said = said.concat();
    let mut said = said.split_inclusive("</message>");
    let (first, second, third) = (said.next().expect("one"), said.next().expect("two"), said.next().expect("three"));
    assert!(first.starts_with("<message type='groupchat' to='room0@conference.localhost'><body>!"), "{first}");
    assert_eq!(first.len(), 180);
    for text in [first, third, second] {
        stage.event(Event::Received(1, text.as_bytes()));
    }
    let counted = &stage.world.tally.counters;
    assert_eq!((counted.received, counted.lost, counted.reordered), (2, 1, 1));
    assert_eq!(stage.world.gauges.to_occupants, 2 * counted.sent as i64 - 3);
}

#[test]
fn who_leaves_a_room_enters_it_again_and_misses_nothing_by_that() {
    let rooms = Scenario { sessions: 2, rooms: 1, room_occupants: 2, room_moves_per_s: 100.0, ..Scenario::default() };
    let mut stage = Stage::up(rooms);
    for user in [0, 1] {
        stage.event(Event::Received(user, own_presence(0, user, "", &[]).as_bytes()));
    }
    stage.phase = Phase::Hold;
    stage.pass(100);
    let left = stage.sent();
    assert!(
        left.iter().all(|(client, text)| *client == 1 && text.contains("type='unavailable'")) && !left.is_empty(),
        "the one that speaks stays: {left:?}"
    );
    stage.event(Event::Received(1, own_presence(0, 1, " type='unavailable'", &[]).as_bytes()));
    let entering = stage.sent();
    assert!(matches!(&entering[..], [(1, text)] if text.contains("history maxstanzas='0'")), "{entering:?}");
    let counted = &stage.world.tally.counters;
    assert_eq!((counted.entered, counted.left), (2, 1));
}
