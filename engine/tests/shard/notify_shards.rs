//! Notification channels (`/n/`) on several shards in a world with delays, losses and crashes: each
//! item once and in order for a client that returns with its position.

use serde_json::{Value, json};
use throng_engine::id::ShardId;
use throng_engine::limits::NOTIFY_AT_HOME_MAX;
use throng_engine::settings::Settings;
use throng_engine::web::policy::{Asks, Channels};
use throng_sim::frame::frame;
use throng_sim::net::SocketId;
use throng_sim::world::{Occurrence, Pace, Plant, Service, World};

use crate::notify_world::{KEY, first_frame, open, post, settings, upgrade};

/// A subscriber's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Events,
    Polls,
    Messages,
    /// Of the Mercure protocol.
    Updates,
    /// Of Centrifugo's.
    Pushes,
    /// Of Nchan's, one message at a time.
    Single,
    /// The same as events.
    Told,
}

impl By {
    /// One of each, in turn.
    fn turn(number: usize) -> By {
        [By::Polls, By::Events, By::Messages, By::Updates, By::Pushes, By::Single, By::Told][number % 7]
    }
}

/// A subscriber that reconnects whenever it has lost its connection.
#[derive(Debug)]
struct Reader {
    socket: SocketId,
    heard: Vec<u8>,
    /// Number of bytes of `heard` in complete events or messages.
    read: usize,
    last: Option<String>,
    got: Vec<String>,
    gaps: usize,
    by: By,
    /// The requested path.
    path: &'static str,
}

struct Stage {
    world: World,
    readers: Vec<Reader>,
    publisher: (SocketId, String),
}

const CHANNELS: &str = "a,b,c,d";

impl Stage {
    fn new(seed: u64, shards: u16) -> Stage {
        Stage::with(seed, shards, open())
    }

    fn with(seed: u64, shards: u16, channels: Channels) -> Stage {
        let pace = Pace { read_bytes: [0, 100, 4_096][seed as usize % 3], ..Pace::default() };
        let settings: Settings = settings(
            shards,
            Channels { mercure: true, centrifugo: true, nchan: true, wildcards: Box::new(["".into()]), ..channels },
        );
        let mut world = World::new(seed, settings, pace, &[]);
        world.http = true;
        let publisher = (world.connect(), String::new());
        Stage { world, readers: Vec::new(), publisher }
    }

    /// A reader of all stored items.
    fn reader(&mut self, by: By) {
        let all = match by {
            By::Updates => "earliest",
            By::Pushes => "{}",
            By::Single => "",
            By::Told => "0:0",
            _ => "0,0,0,0",
        };
        self.reader_from(by, Some(all.into()));
    }

    /// A returning reader, or one that wants new items only.
    fn reader_from(&mut self, by: By, last: Option<String>) {
        self.reader_of(by, CHANNELS, last);
    }

    fn reader_of(&mut self, by: By, path: &'static str, last: Option<String>) {
        let socket = self.world.connect();
        let reader = Reader { socket, heard: Vec::new(), read: 0, last, got: Vec::new(), gaps: 0, by, path };
        self.readers.push(reader);
        self.ask(self.readers.len() - 1);
    }

    fn ask(&mut self, reader: usize) {
        let Reader { socket, last, by, read, path, .. } = &self.readers[reader];
        if *by == By::Pushes {
            let bytes = match *read {
                0 => connect(last.as_deref().unwrap_or_default()),
                // A ping is answered.
                _ => frame(0x81, b"{}"),
            };
            return self.world.write(*socket, &bytes);
        }
        let after = last.as_ref().map(|last| format!("after={last}&")).unwrap_or_default();
        let (names, path) = (path, format!("{path}?{after}wait=20"));
        let ask = match by {
            By::Messages => upgrade(&path, KEY),
            By::Updates => {
                let topics = names.split(',').map(|topic| format!("topic={topic}")).collect::<Vec<_>>().join("&");
                let last = last.as_deref().unwrap_or_default();
                let fields = format!("Host: localhost\r\nLast-Event-ID: {last}\r\n");
                format!("GET /.well-known/mercure?{topics} HTTP/1.1\r\n{fields}\r\n")
            }
            By::Pushes => return,
            By::Single => {
                let place = last.as_deref().and_then(|last| last.split_once('|'));
                let fields = place.map_or(String::new(), |(date, tag)| {
                    format!("If-Modified-Since: {date}\r\nIf-None-Match: {tag}\r\n")
                });
                format!("GET /sub/{names}?wait=20 HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
            }
            By::Told => {
                let path = format!("/sub/{names}?last_event_id={}", last.as_deref().unwrap_or_default());
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            }
            By::Polls => format!("GET /n/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            By::Events => {
                format!("GET /n/{path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            }
        };
        self.world.write(*socket, ask.as_bytes());
    }

    fn again(&mut self, reader: usize) {
        let socket = self.world.connect();
        let reader_of = &mut self.readers[reader];
        (reader_of.socket, reader_of.heard, reader_of.read) = (socket, Vec::new(), 0);
        self.ask(reader);
    }

    fn step(&mut self) {
        match self.world.step() {
            Occurrence::Bytes(socket, bytes) if socket == self.publisher.0 => {
                self.publisher.1 += std::str::from_utf8(&bytes).unwrap();
            }
            Occurrence::Bytes(socket, bytes) => {
                if let Some(at) = self.readers.iter().position(|reader| reader.socket == socket) {
                    self.readers[at].heard.extend_from_slice(&bytes);
                    if self.readers[at].take() {
                        self.ask(at);
                    }
                }
            }
            Occurrence::Ended(socket) => {
                if let Some(at) = self.readers.iter().position(|reader| reader.socket == socket) {
                    self.again(at);
                }
            }
            _ => {}
        }
    }

    /// Publishes until it is confirmed: a key makes repetitions one item.
    fn publish(&mut self, channel: &str, body: &str) {
        loop {
            let (socket, heard) = (self.world.connect(), String::new());
            self.publisher = (socket, heard);
            self.world.write(socket, post(channel, &format!("Idempotency-Key: {channel}{body}\r\n"), body).as_bytes());
            let until = self.world.now_us() + 40_000_000;
            while self.world.now_us() < until
                && !self.publisher.1.ends_with("}\n")
                && !self.publisher.1.contains(" 503 ")
            {
                self.step();
            }
            if self.publisher.1.starts_with("HTTP/1.1 200") {
                return self.world.finish(socket);
            }
            self.world.finish(socket);
        }
    }

    /// Letters are lost while thirty items are published at each channel, and none while watched
    /// channels are renewed.
    fn loses_letters(&mut self) {
        self.world.plant = Some(Plant::LostBatch);
        for number in 0..30 {
            for channel in CHANNELS.split(',') {
                self.publish(channel, &format!("{channel}{number}"));
            }
        }
        self.world.plant = None;
        self.run(45);
    }

    fn run(&mut self, seconds: u64) {
        let until = self.world.now_us() + seconds * 1_000_000;
        while self.world.now_us() < until {
            self.step();
        }
    }
}

impl Reader {
    /// Takes complete events, messages or answers from the input. Returns whether the next request
    /// is due.
    fn take(&mut self) -> bool {
        // Permission is not decided yet. The data may end at any line of the head.
        if self.heard.starts_with(b"HTTP/1.1 503") {
            let is_whole = is_whole(&self.heard);
            if is_whole {
                (self.heard, self.read) = (Vec::new(), 0);
            }
            return is_whole;
        }
        match self.by {
            By::Events => self.events(),
            By::Updates | By::Told => self.updates(),
            By::Messages => self.messages(),
            By::Pushes => return self.pushes(),
            By::Polls | By::Single => return self.answer(),
        }
        false
    }

    fn events(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        while let Some(end) = heard[self.read..].windows(2).position(|at| at == b"\n\n") {
            let event = std::str::from_utf8(&heard[self.read..self.read + end]).unwrap();
            self.read += end + 2;
            let event = event.rsplit("\r\n\r\n").next().unwrap_or_default();
            self.gaps += usize::from(event.contains("event: gap"));
            self.items(event);
            if let Some(id) = event.lines().find_map(|line| line.strip_prefix("id: ")) {
                self.last = Some(id.to_owned());
            }
        }
        self.heard = heard;
    }

    fn updates(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        if self.read == 0
            && let Some(end) = heard.windows(4).position(|at| at == b"\r\n\r\n")
        {
            let head = std::str::from_utf8(&heard[..end]).unwrap();
            let from = head.lines().find_map(|line| line.strip_prefix("Last-Event-ID: "));
            let tells = self.by == By::Updates && head.starts_with("HTTP/1.1 200");
            self.gaps += usize::from(tells && from != self.last.as_deref());
            self.read = end + 4;
        }
        while self.read > 0 {
            let Some(end) = heard[self.read..].windows(2).position(|at| at == b"\n\n") else { break };
            let event = std::str::from_utf8(&heard[self.read..self.read + end]).unwrap();
            self.read += end + 2;
            self.got.extend(event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned));
            self.gaps += usize::from(event.contains("missing"));
            if let Some(id) = event.lines().find_map(|line| line.strip_prefix("id: ")) {
                self.last = Some(id.to_owned());
            }
        }
        self.heard = heard;
    }

    fn messages(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        if self.read == 0 {
            let head = heard.windows(4).position(|at| at == b"\r\n\r\n");
            self.read = head.filter(|_| heard.starts_with(b"HTTP/1.1 101")).map_or(0, |end| end + 4);
        }
        while self.read > 0 {
            let Some((message, length)) = first_frame(&heard[self.read..]) else { break };
            self.read += length;
            if message.starts_with('{') {
                self.gaps += usize::from(!message.contains("\"gaps\":[]"));
                self.items(&message);
                self.after(&message);
            }
        }
        self.heard = heard;
    }

    /// Returns whether there was a ping.
    fn pushes(&mut self) -> bool {
        let heard = std::mem::take(&mut self.heard);
        let mut pinged = false;
        if self.read == 0 {
            let head = heard.windows(4).position(|at| at == b"\r\n\r\n");
            self.read = head.filter(|_| heard.starts_with(b"HTTP/1.1 101")).map_or(0, |end| end + 4);
        }
        let mut places: Value = serde_json::from_str(self.last.as_deref().unwrap_or("{}")).unwrap();
        while self.read > 0 {
            let Some((message, length)) = first_frame(&heard[self.read..]) else { break };
            self.read += length;
            let Ok(message) = serde_json::from_str::<Value>(&message) else { continue };
            pinged |= message == json!({});
            assert_eq!(message["error"], Value::Null);
            self.gaps += usize::from(message["push"]["unsubscribe"].is_object());
            let began = &message["subscribe"];
            if began.is_object() {
                self.gaps += usize::from(began["recovered"] != json!(true));
                let channel = CHANNELS.split(',').nth(message["id"].as_u64().unwrap() as usize - 2).unwrap();
                places[channel] = json!([began["offset"], began["epoch"]]);
            }
            let publications = began["publications"].as_array().into_iter().flatten();
            let push = &message["push"];
            for one in publications.chain([&push["pub"]].into_iter().filter(|one| one.is_object())) {
                self.got.push(one["data"].as_str().unwrap().to_owned());
                if let Some(channel) = push["channel"].as_str() {
                    places[channel][0] = one["offset"].clone();
                }
            }
        }
        (self.heard, self.last) = (heard, Some(places.to_string()));
        pinged
    }

    fn after(&mut self, answer: &str) {
        self.last = answer.rsplit("\"after\":\"").next().and_then(|rest| rest.split('"').next()).map(str::to_owned);
    }

    fn answer(&mut self) -> bool {
        let heard = String::from_utf8(self.heard.clone()).unwrap();
        let Some((head, body)) = heard.split_once("\r\n\r\n") else { return false };
        if head.starts_with("HTTP/1.1 204") || (head.starts_with("HTTP/1.1 408") && self.by == By::Single) {
            self.heard.clear();
            return true;
        }
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
        if body.len() < length.parse().unwrap() {
            return false;
        }
        if head.starts_with("HTTP/1.1 200") && self.by == By::Single {
            let field = |name| head.lines().find_map(|line| line.strip_prefix(name)).expect("a place");
            self.last = Some(format!("{}|{}", field("Last-Modified: "), field("Etag: ")));
            self.got.push(body.to_owned());
        } else if head.starts_with("HTTP/1.1 200") {
            self.gaps += usize::from(!body.contains("\"gaps\":[]"));
            self.items(body);
            self.after(body);
        }
        let goes_on = !head.contains("Connection: close");
        self.heard.clear();
        goes_on
    }

    fn items(&mut self, text: &str) {
        let data = text.split("\"data\":\"").skip(1).filter_map(|rest| rest.split('"').next());
        self.got.extend(data.map(str::to_owned));
    }

    fn of(&self, channel: &str) -> Vec<&str> {
        self.got.iter().filter(|item| item.starts_with(channel)).map(|item| &**item).collect()
    }
}

/// Whether a response with a length has arrived completely.
fn is_whole(heard: &[u8]) -> bool {
    let Some((head, body)) = std::str::from_utf8(heard).unwrap().split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    body.len() >= length.parse().unwrap()
}

/// A client of Centrifugo's protocol connects and continues at all channels.
fn connect(places: &str) -> Vec<u8> {
    let places: Value = serde_json::from_str(places).unwrap();
    let mut lines = json!({"id": 1, "connect": {}}).to_string();
    for (at, channel) in CHANNELS.split(',').enumerate() {
        let (offset, epoch) = (places[channel][0].as_u64().unwrap_or(0), places[channel][1].as_str().unwrap_or(""));
        let subscribe = json!({"channel": channel, "recover": true, "offset": offset, "epoch": epoch});
        lines += &format!("\n{}", json!({"id": at + 2, "subscribe": subscribe}));
    }
    let fields = format!("Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{KEY}");
    let head = format!("GET /connection/websocket HTTP/1.1\r\n{fields}\r\n");
    [head.into_bytes(), frame(0x81, lines.as_bytes())].concat()
}

fn expect(stage: &Stage, rounds: usize, seed: u64) {
    for (at, reader) in stage.readers.iter().enumerate() {
        for channel in CHANNELS.split(',') {
            let expected: Vec<_> = (0..rounds).map(|number| format!("{channel}{number}")).collect();
            assert_eq!(reader.of(channel), expected, "seed {seed}, reader {at}, channel {channel}");
        }
        assert_eq!(reader.gaps, 0, "seed {seed}, reader {at}");
    }
}

#[test]
fn subscribers_of_all_shards_have_each_item_once_and_in_order() {
    for seed in 0..12 {
        let mut stage = Stage::new(seed, 1 + (seed % 4) as u16);
        (0..7).for_each(|reader| stage.reader(By::turn(reader)));
        for number in 0..12 {
            for channel in CHANNELS.split(',') {
                stage.publish(channel, &format!("{channel}{number}"));
            }
            // Some start later and receive everything from the beginning.
            if number == 5 {
                (0..3).for_each(|reader| stage.reader(By::turn(reader)));
            }
        }
        stage.run(2);
        expect(&stage, 12, seed);
    }
}

#[test]
fn a_crash_neither_loses_nor_doubles_an_item_of_a_durable_channel() {
    for seed in 0..12 {
        let mut stage = Stage::new(100 + seed, 3);
        (0..7).for_each(|reader| stage.reader(By::turn(reader)));
        for number in 0..20 {
            for channel in CHANNELS.split(',') {
                stage.publish(channel, &format!("{channel}{number}"));
            }
            // In the middle of a publication that is repeated with its key.
            let socket = stage.world.connect();
            let body = format!("a{}", number + 1);
            if number + 1 < 20 {
                let key = format!("Idempotency-Key: a{body}\r\n");
                stage.world.write(socket, post("a", &key, &body).as_bytes());
                (0..(seed * 7 + number * 3) % 40).for_each(|_| stage.step());
            }
            stage.world.crash();
            stage.run(1);
        }
        stage.run(2);
        expect(&stage, 20, seed);
    }
}

/// Items in memory are lost with the process. Every client that has missed some learns of it, and
/// no item arrives twice.
#[test]
fn a_crash_leaves_no_gap_untold_where_items_are_kept_in_memory() {
    for seed in 0..12 {
        let channels = Channels { in_memory: ["".into()].into(), ..open() };
        let mut stage = Stage::with(500 + seed, 3, channels);
        (0..7).for_each(|reader| stage.reader(By::turn(reader)));
        for number in 0..20 {
            for channel in CHANNELS.split(',') {
                stage.publish(channel, &format!("{channel}{number}"));
            }
            if number % 3 == 0 {
                stage.world.crash();
                stage.run(1);
            }
        }
        stage.run(2);
        for (at, reader) in stage.readers.iter().enumerate() {
            let mut missed = 0;
            for channel in CHANNELS.split(',') {
                let got: Vec<usize> = reader.of(channel).iter().map(|item| item[1..].parse().unwrap()).collect();
                assert!(
                    got.is_sorted_by(|one, next| one < next),
                    "seed {seed}, reader {at}, channel {channel}: {got:?}"
                );
                assert!(got.last() == Some(&19), "seed {seed}, reader {at}, channel {channel}: {got:?}");
                missed += 20 - got.len();
            }
            // Nchan's protocol cannot report it.
            let is_told = reader.gaps > 0 || matches!(reader.by, By::Single | By::Told);
            assert!(missed == 0 || is_told, "seed {seed}, reader {at} has missed {missed}");
        }
    }
}

/// A client that has received its starting position gets all later items, whatever happens before
/// the first one.
#[test]
fn who_has_begun_misses_nothing_though_nothing_has_come() {
    for seed in 0..6 {
        let mut stage = Stage::new(300 + seed, 1 + (seed % 4) as u16);
        CHANNELS.split(',').for_each(|channel| stage.publish(channel, "before"));
        [By::Events, By::Messages].repeat(3).into_iter().for_each(|by| stage.reader_from(by, None));
        stage.run(2);
        for reader in &stage.readers {
            assert_eq!(reader.last.as_deref(), Some("1,1,1,1"), "seed {seed}, {:?}", reader.by);
        }
        stage.world.crash();
        for number in 0..3 {
            CHANNELS.split(',').for_each(|channel| stage.publish(channel, &format!("{channel}{number}")));
        }
        stage.run(2);
        expect(&stage, 3, seed);
    }
}

/// An external service permits three seconds at a time, and fails to answer one time in ten.
#[test]
fn who_is_asked_about_again_and_again_has_each_item_once() {
    for seed in 0..8 {
        let asks = Asks { prefixes: ["".into()].into(), ..Asks::default() };
        let mut stage = Stage::with(400 + seed, 1 + (seed % 4) as u16, Channels { asks, ..open() });
        stage.world.service = Service { seconds: Some(3), failing: 100 };
        let ways = [By::Polls, By::Events, By::Messages, By::Updates];
        ways.repeat(2).into_iter().for_each(|by| stage.reader(by));
        for number in 0..20 {
            CHANNELS.split(',').for_each(|channel| stage.publish(channel, &format!("{channel}{number}")));
            stage.run(1);
            if number == 10 {
                stage.world.crash();
            }
        }
        stage.run(15);
        expect(&stage, 20, seed);
        let counters = stage.world.shard(ShardId(0)).counters();
        assert!(counters.notify_asked.get() > 0 && counters.notify_held_bytes.get() == 0, "seed {seed}");
    }
}

/// A client that waits for one channel moves to its home and loses nothing on the way, nor when the
/// process ends or letters are lost.
#[test]
fn who_waits_for_one_channel_is_told_at_its_home() {
    let (ways, names) =
        ([By::Polls, By::Events, By::Messages, By::Updates, By::Single, By::Told], ["a", "b", "c", "d"]);
    for seed in 0..12 {
        let mut stage = Stage::new(600 + seed, 2 + (seed % 3) as u16);
        for (at, by) in ways.into_iter().enumerate() {
            for (beside, name) in names.into_iter().enumerate() {
                let all = match by {
                    By::Updates => "earliest",
                    By::Single => "",
                    By::Told => "0:0",
                    _ => "0",
                };
                if (at + beside + seed as usize).is_multiple_of(2) {
                    stage.reader_of(by, name, Some(all.into()));
                }
            }
        }
        for number in 0..15 {
            names.iter().for_each(|channel| stage.publish(channel, &format!("{channel}{number}")));
            if number == 7 && seed % 2 == 0 {
                stage.world.crash();
                stage.run(1);
            }
            if number == 10 && seed % 3 == 0 {
                stage.world.plant = Some(Plant::LostBatch);
            }
        }
        stage.world.plant = None;
        stage.run(45);
        for reader in &stage.readers {
            let expected: Vec<_> = (0..15).map(|number| format!("{}{number}", reader.path)).collect();
            assert_eq!(
                (reader.of(reader.path), reader.gaps),
                (expected.iter().map(|item| &**item).collect(), 0),
                "seed {seed}, {reader:?}"
            );
        }
        let shards: Vec<_> = stage.world.shards().collect();
        let arrived = shards.iter().map(|id| stage.world.shard(*id).counters().arrived.get()).sum::<u64>();
        assert!(arrived > 0, "seed {seed}");
    }
}

/// Of a crowd some move to the channel's home; the others stay and are notified by all shards.
#[test]
fn a_crowd_stays_at_all_shards() {
    for seed in 0..4 {
        let mut stage = Stage::new(700 + seed, 4);
        stage.publish("a", "before");
        for _ in 0..30 {
            (0..20).for_each(|_| stage.reader_of(By::Events, "a", None));
            stage.run(1);
        }
        (0..3).for_each(|number| stage.publish("a", &format!("a{number}")));
        stage.run(2);
        for reader in &stage.readers {
            assert_eq!((reader.of("a"), reader.gaps), (vec!["a0", "a1", "a2"], 0), "seed {seed}");
        }
        let home = stage.world.home("pubsub.localhost/a");
        for id in stage.world.shards() {
            let counters = stage.world.shard(id).counters();
            let (streams, arrived) = (counters.notify_events.get(), counters.arrived.get());
            let moves = if id == home { 20..=2 * u64::from(NOTIFY_AT_HOME_MAX) } else { 0..=0 };
            assert!(
                moves.contains(&arrived) && streams >= 50,
                "seed {seed}, {id:?} has {streams}, of these {arrived} moved"
            );
        }
    }
}

#[test]
fn lost_letters_are_made_good() {
    let mut seen = 0;
    for seed in 0..8 {
        let mut stage = Stage::new(200 + seed, 3);
        (0..7).for_each(|reader| stage.reader(By::turn(reader)));
        stage.loses_letters();
        expect(&stage, 30, seed);
        seen += 1;
    }
    assert_eq!(seen, 8);
}

/// Clients that wait for all channels at once, two for each protocol with prefixes.
fn by_prefix(stage: &mut Stage) {
    [By::Events, By::Messages, By::Polls].repeat(2).into_iter().for_each(|by| stage.reader_of(by, "*", None));
    ["*", "%7Bx%7D"].into_iter().for_each(|selector| stage.reader_of(By::Updates, selector, None));
    stage.run(2);
}

#[test]
fn who_waits_for_a_prefix_has_each_item_of_all_shards_once_and_in_order() {
    for seed in 0..12 {
        let mut stage = Stage::new(400 + seed, 1 + (seed % 4) as u16);
        by_prefix(&mut stage);
        // Each channel is created while they wait.
        for number in 0..12 {
            for channel in CHANNELS.split(',') {
                stage.publish(channel, &format!("{channel}{number}"));
            }
            // Some lose their connections and return with their positions.
            let again = (seed as usize + number) % stage.readers.len();
            let socket = stage.readers[again].socket;
            if stage.readers[again].last.is_some() && number % 2 == 0 {
                stage.world.finish(socket);
                stage.again(again);
            }
        }
        stage.run(25);
        expect(&stage, 12, 400 + seed);
    }
}

#[test]
fn lost_letters_of_a_prefix_are_made_good() {
    for seed in 0..8 {
        let mut stage = Stage::new(500 + seed, 3);
        by_prefix(&mut stage);
        stage.loses_letters();
        expect(&stage, 30, 500 + seed);
    }
}

/// A crash clears the feeds: a client that returns is informed, and from then on receives
/// everything again. Nothing is missing without a gap, nothing arrives twice, and nothing out of
/// order.
#[test]
fn a_crash_is_a_gap_to_who_waits_for_a_prefix_and_nothing_comes_twice() {
    let mut missing = 0;
    for seed in 0..12 {
        let mut stage = Stage::new(600 + seed, 1 + (seed % 3) as u16);
        by_prefix(&mut stage);
        for number in 0..10 {
            for channel in CHANNELS.split(',') {
                stage.publish(channel, &format!("{channel}{number}"));
            }
            if number == 4 {
                (0..seed * 3).for_each(|_| stage.step());
                stage.world.crash();
            }
        }
        stage.run(25);
        for (at, reader) in stage.readers.iter().enumerate() {
            for channel in CHANNELS.split(',') {
                let got = reader.of(channel);
                let numbers: Vec<u32> = got.iter().map(|item| item[1..].parse().unwrap()).collect();
                assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}, reader {at}: {got:?}");
                assert_eq!(numbers.last(), Some(&9), "seed {seed}, reader {at}");
                missing += 10 - numbers.len();
            }
            assert!(reader.gaps > 0, "seed {seed}, reader {at}, which comes back behind a crash");
        }
    }
    assert!(missing > 0, "no crash has cost anything");
}

/// A poll without waiting is answered as soon as the home reports the items, however late.
#[test]
fn a_poll_that_does_not_wait_ends_with_its_home_s_answer() {
    let letters_us = 3_000_000;
    let pace = Pace { letters_us, ..Pace::default() };
    let mut world = World::new(7, settings(2, Channels { nchan: true, ..open() }), pace, &[]);
    world.http = true;
    for number in 0..80 {
        let socket = world.connect();
        let path = ["n/{}?after=0&wait=0", "sub/{}?wait=0"][number % 2].replace("{}", &format!("c{number}"));
        let asked_us = world.now_us();
        world.write(socket, format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        let mut heard = String::new();
        // The query and its answer are letters, unless the channel belongs to this connection's
        // shard.
        while !heard.ends_with("\r\n\r\n") {
            let late_us = world.now_us() - asked_us;
            assert!(late_us < 2 * letters_us + 1_000_000, "{path} after {late_us} us: {heard}");
            if let Occurrence::Bytes(_, bytes) = world.step() {
                heard += std::str::from_utf8(&bytes).unwrap();
            }
        }
        let status = ["204", "408"][number % 2];
        assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {heard}");
        world.finish(socket);
    }
}
