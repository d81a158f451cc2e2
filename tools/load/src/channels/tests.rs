//! A worker's world without sockets: correct behaviour of a server passes, and each fault is found.

use super::*;
use std::net::SocketAddr;

const RUN: u32 = 7;

#[derive(Default)]
struct Notes {
    connects: Vec<u32>,
    sends: Vec<(u32, String)>,
    closes: Vec<u32>,
}

impl Driver for Notes {
    fn connect(&mut self, client: u32, _: usize) {
        self.connects.push(client);
    }

    fn send(&mut self, client: u32, bytes: Vec<u8>) {
        self.sends.push((client, String::from_utf8_lossy(&bytes).into_owned()));
    }

    fn close(&mut self, client: u32, _: bool) {
        self.closes.push(client);
    }

    fn favour(&mut self, _: u32) {}

    fn pause(&mut self, _: u32) {}

    fn resume(&mut self, _: u32) {}

    fn wait(&mut self, _: Duration, _: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        Ok(())
    }
}

/// An item as the server has it: channel, number, content.
type Kept = (String, u64, String);

/// A server in a few lines: it takes publications and writes down who asks for what.
struct Stage {
    world: World,
    driver: Notes,
    now_ns: u64,
    phase: Phase,
    kept: Vec<Kept>,
    /// The last request of each subscriber.
    asked: HashMap<u32, String>,
    /// Keys of publications.
    keys: Vec<String>,
}

impl Stage {
    fn new(flags: &[(&str, &str)]) -> Stage {
        let mut scenario =
            Scenario { subscribers: 1, channels: 1, rate: 0.0, ramp_per_s: 10_000.0, ..Scenario::default() };
        flags.iter().for_each(|(name, text)| scenario.set_flag(name, text).expect("a value"));
        scenario.check().expect("a scenario");
        let (publishers, subscribers) = ((0, scenario.publishers), (0, scenario.subscribers));
        let channels = (0..scenario.channels).map(|_| Channel::default()).collect();
        let shared = Shared { start: Instant::now(), run: RUN, channels, fairness: Mutex::default() };
        let to = SocketAddr::from(([127, 0, 0, 1], 5280));
        let clients = scenario.clients();
        let plan = Plan {
            worker: 0,
            scenario: Arc::new(scenario),
            shared: Arc::new(shared),
            authorization: "Authorization: Bearer t\r\n".into(),
            publishers,
            subscribers,
            driver: driver::Kind::Epoll,
            sockets: driver::Settings { clients, table_slots: u32::MAX, to, sources: Vec::new() },
            memory_before: None,
        };
        Stage {
            world: World::new(plan),
            driver: Notes::default(),
            now_ns: 0,
            phase: Phase::Ramp,
            kept: Vec::new(),
            asked: HashMap::new(),
            keys: Vec::new(),
        }
    }

    /// Time passes, and the server does what it should, but tells subscribers nothing.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(20) {
            self.now_ns += 20_000_000;
            self.world.advance(self.now_ns, self.phase);
            self.world.flush(&mut self.driver);
            self.serve();
        }
    }

    fn event(&mut self, event: Event<'_>) {
        self.world.event(event);
        self.world.flush(&mut self.driver);
    }

    fn hear(&mut self, client: u32, bytes: &[u8]) {
        self.event(Event::Received(client, bytes));
    }

    fn serve(&mut self) {
        for client in std::mem::take(&mut self.driver.closes) {
            self.event(Event::Closed(client));
        }
        for client in std::mem::take(&mut self.driver.connects) {
            self.event(Event::Connected(client));
        }
        for (client, text) in std::mem::take(&mut self.driver.sends) {
            self.event(Event::Sent(client, Vec::new()));
            if text.starts_with("POST ") {
                let answer = self.publish(&text);
                self.hear(client, answer.as_bytes());
            } else {
                let head = match &text {
                    text if text.contains("Upgrade: websocket") => {
                        "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
                    }
                    text if text.contains("text/event-stream") => {
                        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n:\n\n"
                    }
                    _ => "",
                };
                self.asked.insert(client, text);
                self.hear(client, head.as_bytes());
            }
        }
    }

    fn publish(&mut self, text: &str) -> String {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let field = |name: &str| head.split(&format!("{name}: ")).nth(1).and_then(|rest| rest.lines().next());
        assert_eq!(field("Authorization"), Some("Bearer t"));
        assert_eq!(field("Content-Length"), Some(&*body.len().to_string()));
        self.keys.push(field("Idempotency-Key").expect("a key").to_owned());
        let channel = head.split([' ', '/']).nth(3).expect("a channel").to_owned();
        let lines: Vec<&str> = match field("Content-Type") {
            Some("application/x-ndjson") => body.lines().collect(),
            _ => vec![body],
        };
        let first = 100 + self.kept.len() as u64;
        let ids: Vec<u64> = (first..).take(lines.len()).collect();
        self.kept.extend(ids.iter().zip(&lines).map(|(id, line)| (channel.clone(), *id, (*line).to_owned())));
        let quoted: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
        let body = match lines.len() {
            1 => format!("{{\"channel\":\"{channel}\",\"id\":{},\"repeated\":false}}", quoted[0]),
            _ => format!("{{\"channel\":\"{channel}\",\"ids\":[{}],\"repeated\":false}}", quoted.join(",")),
        };
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    /// Tells a subscriber these items, in the way that it has asked for.
    fn tell(&mut self, client: u32, items: &[Kept], gaps: &[&str], after: &str) {
        let json: Vec<String> = items
            .iter()
            .map(|(channel, id, data)| {
                let data = serde_json::to_string(data).expect("text");
                format!("{{\"channel\":\"{channel}\",\"id\":\"{id}\",\"item\":\"i\",\"time\":\"t\",\"type\":\"x\",\"data\":{data}}}")
            })
            .collect();
        let asked = &self.asked[&client];
        let mut bytes = Vec::new();
        if asked.contains("text/event-stream") {
            for gap in gaps {
                bytes.extend_from_slice(
                    format!("event: gap\ndata: {{\"channel\":\"{gap}\",\"after\":\"1\"}}\n\n").as_bytes(),
                );
            }
            for (at, item) in json.iter().enumerate() {
                let id = if at + 1 == json.len() { format!("id: {after}\n") } else { String::new() };
                bytes.extend_from_slice(format!("{id}data: {item}\n\n").as_bytes());
            }
        } else {
            let gaps: Vec<String> = gaps.iter().map(|gap| format!("\"{gap}\"")).collect();
            let body =
                format!("{{\"items\":[{}],\"gaps\":[{}],\"after\":\"{after}\"}}", json.join(","), gaps.join(","));
            if asked.contains("Upgrade: websocket") {
                bytes.extend_from_slice(&[0x81, 126, (body.len() >> 8) as u8, body.len() as u8]);
            } else {
                bytes
                    .extend_from_slice(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
            }
            bytes.extend_from_slice(body.as_bytes());
        }
        // In pieces, as networks do.
        for piece in bytes.chunks(61) {
            self.hear(client, piece);
        }
        self.serve();
    }

    /// All clients are up, and items are published on each channel.
    fn published(flags: &[(&str, &str)], ms: u64) -> Stage {
        let mut stage = Stage::new(flags);
        stage.pass(200);
        let clients = u64::from(stage.world.clients());
        assert_eq!((stage.world.gauges.arrived, stage.world.gauges.up), (clients, clients));
        stage.phase = Phase::Hold;
        stage.pass(ms);
        stage.phase = Phase::Drain;
        stage.pass(20);
        stage
    }

    /// Items on one channel, without the one behind which the run begins.
    fn items(&self) -> Vec<Kept> {
        self.kept[1..].to_vec()
    }

    fn settle(&mut self) -> Counters {
        self.phase = Phase::Close;
        self.pass(20);
        self.world.tally.counters.clone()
    }
}

const WAYS: [&str; 3] = ["events", "websocket", "poll"];

/// Received, lost, duplicates, reordered, unsure.
fn counts(counted: &Counters) -> [u64; 5] {
    [counted.received, counted.lost, counted.duplicates, counted.reordered, counted.unsure]
}

/// Ten items on a channel, of which the subscriber is told these, by their place.
fn told(way: &str, batch: &str, change: impl Fn(&mut Vec<Kept>)) -> Counters {
    let flags = [("by", way), ("rate", "50"), ("batch", batch), ("payload_bytes", "77")];
    let mut stage = Stage::published(&flags, 5_000);
    let mut items: Vec<Kept> = stage.items();
    items.truncate(10);
    assert_eq!(items.len(), 10);
    let last = stage.kept.len() as u64 - 11;
    assert!(items.iter().all(|(_, _, content)| content.len() == 77), "{items:?}");
    change(&mut items);
    stage.tell(1, &items, &[], "110");
    let mut counted = stage.settle();
    // What was published beyond the ten is not told.
    assert!(counted.lost >= last);
    counted.lost -= last;
    counted
}

#[test]
fn a_planted_fault_is_found_in_each_way_and_nothing_else_is() {
    for way in WAYS {
        for batch in ["1", "5"] {
            let whole = told(way, batch, |_| {});
            assert_eq!(counts(&whole), [10, 0, 0, 0, 0], "{way}");
            assert!(whole.errors.is_empty() && whole.corrupted + whole.unknown + whole.foreign == 0, "{whole:?}");
            assert_eq!(counts(&told(way, batch, |items| drop(items.remove(4)))), [9, 1, 0, 0, 0], "{way}");
            assert_eq!(counts(&told(way, batch, |items| drop(items.pop()))), [9, 1, 0, 0, 0], "the last, {way}");
            assert_eq!(counts(&told(way, batch, |items| drop(items.remove(0)))), [9, 1, 0, 0, 0], "the first, {way}");
            assert_eq!(counts(&told(way, batch, |items| items.insert(5, items[4].clone()))), [10, 0, 1, 0, 0], "{way}");
            assert_eq!(counts(&told(way, batch, |items| items.swap(3, 4))), [10, 0, 0, 1, 0], "{way}");
            let altered = told(way, batch, |items| items[2].2 = items[2].2.replace("xx", "xy"));
            assert_eq!((counts(&altered), altered.corrupted), ([9, 1, 0, 0, 0], 1), "{way}");
            let strange = told(way, batch, |items| items[2].0 = "load.1".into());
            assert_eq!((counts(&strange), strange.unknown), ([9, 1, 0, 0, 0], 1), "{way}");
            let back = told(way, batch, |items| items[2].1 = 1);
            assert_eq!(back.corrupted, 1, "the server's numbers do not grow, {way}");
        }
    }
}

#[test]
fn what_the_server_says_it_does_not_keep_is_a_gap_and_not_lost() {
    for way in WAYS {
        let mut stage = Stage::published(&[("by", way), ("rate", "20")], 2000);
        let items = stage.items();
        let (count, after) = (items.len() as u64, (99 + stage.kept.len()).to_string());
        stage.tell(1, &items[..3], &[], "103");
        stage.tell(1, &items[5..], &["load.0"], &after);
        let counted = stage.settle();
        assert_eq!(counts(&counted), [count - 2, 0, 0, 0, 0], "{way}");
        assert_eq!((counted.gaps, counted.gapped), (1, 2), "{way}");
    }
}

#[test]
fn a_connection_that_breaks_continues_at_its_place() {
    for way in WAYS {
        let mut stage =
            Stage::published(&[("by", way), ("rate", "20"), ("channels", "2"), ("channels_each", "2")], 2000);
        // Both channels begin behind their first items.
        assert!(stage.asked[&1].contains("/n/load.0,load.1?after=100,101"), "{}", stage.asked[&1]);
        let items: Vec<Kept> = stage.kept[2..].to_vec();
        stage.tell(1, &items[..3], &[], "103,104");
        stage.event(Event::Ended(1, Some(libc::ECONNRESET)));
        stage.pass(3000);
        assert!(stage.asked[&1].contains("?after=103,104"), "{}", stage.asked[&1]);
        stage.tell(1, &items[3..], &[], "900,900");
        let counted = stage.settle();
        assert_eq!(counts(&counted), [items.len() as u64, 0, 0, 0, 0], "{way}");
        assert_eq!((counted.broken, counted.errors.get("connection: connection reset")), (1, Some(&1)), "{way}");
    }
}

#[test]
fn who_is_away_at_the_end_is_not_said_to_have_lost_anything() {
    let mut stage = Stage::published(&[("rate", "20")], 2000);
    let published = stage.items().len() as u64;
    stage.event(Event::Ended(1, None));
    let counted = stage.settle();
    assert_eq!(counts(&counted), [0, 0, 0, 0, published]);
}

#[test]
fn a_publication_without_an_answer_is_repeated_with_its_key() {
    let mut stage = Stage::new(&[("subscribers", "0")]);
    stage.pass(200);
    stage.phase = Phase::Hold;
    stage.now_ns += 20_000_000;
    stage.world.advance(stage.now_ns, Phase::Hold);
    stage.world.flush(&mut stage.driver);
    let (client, first) = stage.driver.sends.pop().expect("a publication");
    stage.event(Event::Ended(client, Some(libc::ECONNRESET)));
    stage.serve();
    stage.world.plan.scenario = Arc::new(Scenario { rate: 1e-9, ..(*stage.world.plan.scenario).clone() });
    stage.phase = Phase::Drain;
    stage.pass(2000);
    assert_eq!(stage.keys, ["7-0-0", "7-0-1"]);
    assert!(first.contains("Idempotency-Key: 7-0-1\r\n") && first.ends_with(&stage.kept[1].2));
    let counted = &stage.world.tally.counters;
    assert_eq!((counted.sent, counted.confirmed, counted.broken), (1, 1, 1));
    stage.pass(2000);
    assert_eq!(stage.world.outstanding(), 0);
}

#[test]
fn the_server_may_end_a_connection_with_an_answer() {
    for way in ["poll", "events"] {
        let mut stage = Stage::published(&[("by", way), ("rate", "20")], 1000);
        let body = "{\"items\":[],\"gaps\":[],\"after\":\"100\"}";
        if way == "poll" {
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
            stage.asked.clear();
            stage.hear(1, answer.as_bytes());
            stage.serve();
            assert!(stage.asked[&1].contains("after=100&wait=55"), "at once, without an error");
            assert!(stage.world.tally.counters.errors.is_empty());
        } else {
            stage.event(Event::Ended(1, None));
            assert_eq!(stage.world.tally.counters.errors.get("connection: closed by the server"), Some(&1));
        }
    }
}

#[test]
fn refusals_that_will_not_change_end_the_run_with_the_servers_sentence() {
    let mut stage = Stage::new(&[("subscribers", "0")]);
    stage.world.advance(20_000_000, Phase::Ramp);
    stage.world.flush(&mut stage.driver);
    stage.driver.connects.clear();
    stage.event(Event::Connected(0));
    stage.event(Event::Sent(0, Vec::new()));
    stage.hear(0, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\n\r\nnobody!\n");
    assert_eq!(stage.world.broken.as_deref(), Some("a publication is refused with 403: nobody!"));
    let mut stage = Stage::published(&[("rate", "20")], 100);
    stage.world.broken = None;
    stage.event(Event::Ended(1, None));
    stage.driver.sends.clear();
    stage.event(Event::Closed(1));
    // A refusal that may change is tried again, not before the server wants it.
    stage.driver.closes.clear();
    while stage.driver.connects.is_empty() {
        stage.now_ns += 20_000_000;
        stage.world.advance(stage.now_ns, Phase::Drain);
        stage.world.flush(&mut stage.driver);
    }
    stage.driver.connects.clear();
    stage.event(Event::Connected(1));
    stage.event(Event::Sent(1, Vec::new()));
    stage.driver.sends.clear();
    stage.hear(1, b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((stage.driver.closes.as_slice(), &stage.world.broken), (&[1][..], &None));
    stage.event(Event::Closed(1));
    stage.driver.closes.clear();
    for _ in 0..5000 / 20 {
        stage.now_ns += 20_000_000;
        stage.world.advance(stage.now_ns, Phase::Drain);
        stage.world.flush(&mut stage.driver);
    }
    assert!(stage.driver.connects.is_empty());
    stage.pass(3000);
    assert_eq!(stage.world.gauges.up, 2);
}

#[test]
fn a_connection_without_a_sign_of_life_is_made_again() {
    let mut stage = Stage::published(&[("rate", "20"), ("silence_s", "2")], 100);
    stage.pass(1500);
    stage.hear(1, b":\n\n");
    stage.pass(1500);
    assert!(stage.world.tally.counters.errors.is_empty(), "a comment is one");
    stage.pass(1000);
    assert_eq!(stage.world.tally.counters.errors.get("connection: no sign of life"), Some(&1));
    stage.pass(2000);
    assert_eq!(stage.world.gauges.up, 2);
}

#[test]
fn subscribers_that_flap_come_back() {
    let mut stage = Stage::new(&[("subscribers", "50"), ("flap_per_s", "20"), ("flap_s", "0.2"), ("rate", "0.001")]);
    stage.pass(400);
    stage.phase = Phase::Hold;
    stage.pass(2000);
    let connects = stage.world.tally.counters.connects;
    assert!((71..=111).contains(&connects), "{connects}");
    stage.phase = Phase::Drain;
    stage.pass(1000);
    assert_eq!((stage.world.gauges.up, stage.world.tally.counters.broken), (51, 0));
}

#[test]
fn the_worst_subscriber_is_seen() {
    let mut stage = Stage::new(&[("subscribers", "2"), ("rate", "20")]);
    stage.pass(200);
    stage.phase = Phase::Hold;
    stage.pass(2000);
    let items = stage.items();
    let count = items.len() as u64;
    stage.tell(1, &items, &[], "900");
    stage.tell(2, &items[..items.len() / 2], &[], "150");
    stage.phase = Phase::Drain;
    stage.pass(900);
    assert_eq!(
        stage.world.plan.shared.fairness.lock().expect("no panic").subscribers,
        0,
        "what comes a little later counts"
    );
    stage.pass(200);
    let fairness = *stage.world.plan.shared.fairness.lock().expect("no panic");
    assert_eq!((fairness.subscribers, fairness.received, fairness.received_min), (2, count + count / 2, count / 2));
    assert!((0.4..=0.5).contains(&fairness.share_min) && (1.4..=1.5).contains(&fairness.shares), "{fairness:?}");
}

#[test]
fn an_idle_subscriber_keeps_no_heap() {
    let stage = Stage::published(&[("subscribers", "200"), ("by", "events,websocket,poll"), ("rate", "0.001")], 100);
    assert!(stage.world.partials.is_empty() && stage.world.outputs.is_empty());
    let each = size_of::<Conn>() + size_of::<Place>();
    assert_eq!(each, 32);
}
