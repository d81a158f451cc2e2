//! What is measured: the table of scenarios. Each has a floor or none, and a measurement that starts a server, puts load on it
//! and reads figures from what the load tells.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::figures::Figures;
use crate::place::{Group, Stored};
use crate::setup::{LOOK_EVERY, Quiet, STILL_WITHIN, Server, Setup, Side, World, group_flags, is_still};
use crate::web::client::{Client, Rate, Target, make_room};
use crate::web::peers::{Peer, Way};

/// One scenario.
pub(crate) struct Scenario {
    /// In results.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// Throng archives, durably, on both sides.
    pub(crate) archive: bool,
    /// How the peers keep passwords.
    pub(crate) stored: Stored,
    /// Whether peers are measured.
    pub(crate) peers: bool,
    /// The most runs of it in one go, of Throng and the floor, and of a peer: what hardly varies and takes long is measured
    /// less often.
    runs_max: [usize; 2],
    /// Of the bare sockets.
    floor: Option<Floor>,
    /// What to do with a server.
    work: Work,
}

/// A bare program.
#[derive(Clone, Copy)]
enum Floor {
    Accept,
    Relay { pairs: u32, in_flight: u32 },
    FanOut,
}

/// What to do with a server.
#[derive(Clone, Copy)]
enum Work {
    /// Which mechanisms work over which security.
    WaysIn,
    Logins(&'static str),
    /// Closed loop; then latency in an open loop at 30 and 70 % of what that has reached, or not.
    Messages {
        pairs: u32,
        in_flight: u32,
        latency: bool,
    },
    /// Latency in an open loop at so many messages a second on 100 pairs.
    Latency(u32),
    FanOut,
    Rooms,
    Stalled,
    /// Sessions with contacts or without, over TLS or not.
    Memory {
        contacts: bool,
        tls: bool,
    },
    /// Memory of subscribers that wait in this way.
    WebMemory(Way),
    /// Items to subscribers that are spread evenly over channels.
    WebItems {
        channels: u32,
        items_per_s: f64,
    },
}

/// As often as is asked for.
const OFTEN: [usize; 2] = [usize::MAX, usize::MAX];
/// What takes long and hardly varies.
const ONCE: [usize; 2] = [1, 1];

/// Receivers of a fan-out.
const RECEIVERS: u32 = 100;

const fn messages(name: &'static str, title: &'static str, archive: bool, pairs: u32, in_flight: u32) -> Scenario {
    Scenario {
        name,
        title,
        archive,
        stored: Stored::Clear,
        peers: !archive,
        runs_max: OFTEN,
        floor: Some(Floor::Relay { pairs, in_flight }),
        work: Work::Messages { pairs, in_flight, latency: in_flight > 1 },
    }
}

const fn rooms(name: &'static str, title: &'static str, archive: bool) -> Scenario {
    Scenario {
        name,
        title,
        archive,
        stored: Stored::Clear,
        peers: !archive,
        runs_max: OFTEN,
        floor: Some(Floor::FanOut),
        work: Work::Rooms,
    }
}

const fn memory(name: &'static str, title: &'static str, contacts: bool, tls: bool) -> Scenario {
    let work = Work::Memory { contacts, tls };
    Scenario { name, title, archive: false, stored: Stored::Clear, peers: true, runs_max: [3, 1], floor: None, work }
}

/// Sessions in rooms: each is in ten.
const ROOM_SESSIONS: u32 = 1_000;

/// Subscribers of the web side to whom items are published.
const SUBSCRIBERS: usize = 5_000;
/// Channels of those who are weighed.
const WEIGHED_CHANNELS: u32 = 500;

const fn web(name: &'static str, title: &'static str, runs_max: [usize; 2], work: Work) -> Scenario {
    Scenario { name, title, archive: false, stored: Stored::Clear, peers: true, runs_max, floor: None, work }
}

const fn logins(name: &'static str, title: &'static str, mechanism: &'static str, stored: Stored) -> Scenario {
    let (floor, work) = (Some(Floor::Accept), Work::Logins(mechanism));
    Scenario { name, title, archive: false, stored, peers: true, runs_max: [2, 2], floor, work }
}

/// The table, in the order in which it is run.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "ways-in",
        title: "logins by PLAIN, SCRAM-SHA-1 and SCRAM-SHA-256, each in the clear, with STARTTLS and over direct TLS",
        archive: false,
        stored: Stored::Clear,
        peers: true,
        runs_max: ONCE,
        floor: None,
        work: Work::WaysIn,
    },
    messages("messages-50", "100 pairs, 50 messages in flight each", false, 100, 50),
    messages("messages-50-archived", "the same, archived and durable", true, 100, 50),
    messages("messages-1", "1,000 pairs, one message in flight each", false, 1000, 1),
    messages("messages-1-archived", "the same, archived and durable", true, 1000, 1),
    logins("logins-plain", "logins, PLAIN; peers keep passwords in the clear", "plain", Stored::Clear),
    logins("logins-scram", "logins, SCRAM-SHA-1; all keep hashed passwords", "scram-sha-1", Stored::Hashed),
    Scenario {
        name: "latency-5000",
        title: "5,000 messages/s on 100 pairs; Throng archived and durable",
        archive: true,
        stored: Stored::Clear,
        peers: true,
        runs_max: OFTEN,
        floor: None,
        work: Work::Latency(5000),
    },
    Scenario {
        name: "fan-out",
        title: "one presence to 100 contacts, 50 times a second",
        archive: false,
        stored: Stored::Clear,
        peers: true,
        runs_max: OFTEN,
        floor: Some(Floor::FanOut),
        work: Work::FanOut,
    },
    rooms("rooms", "500 rooms of 20 occupants, 200 messages/s", false),
    rooms("rooms-archived", "the same, archived and durable", true),
    memory("memory-plain", "idle sessions, plain", false, false),
    memory("memory-plain-40", "idle sessions, plain, 40 contacts", true, false),
    memory("memory-tls", "idle sessions, TLS", false, true),
    memory("memory-tls-40", "idle sessions, TLS, 40 contacts", true, true),
    Scenario {
        name: "stalled",
        title: "a receiver that stops reading while 16 KB messages are sent to it",
        archive: false,
        stored: Stored::Clear,
        peers: true,
        runs_max: ONCE,
        floor: None,
        work: Work::Stalled,
    },
    web(
        "web-fan-out",
        "one channel with 5,000 subscribers, 5 items a second",
        OFTEN,
        Work::WebItems { channels: 1, items_per_s: 5.0 },
    ),
    web(
        "web-many",
        "500 channels with 10 subscribers each, 200 items a second",
        OFTEN,
        Work::WebItems { channels: 500, items_per_s: 200.0 },
    ),
    web(
        "web-busy",
        "500 channels with 10 subscribers each, 2,000 items a second",
        OFTEN,
        Work::WebItems { channels: 500, items_per_s: 2_000.0 },
    ),
    web("web-memory", "subscribers that wait, each server's own way", [3, 1], Work::WebMemory(Way::Own)),
    web("web-memory-websocket", "subscribers that wait, WebSocket", [3, 1], Work::WebMemory(Way::WebSocket)),
    web("web-memory-poll", "subscribers that wait, long poll", [3, 1], Work::WebMemory(Way::Poll)),
];

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Measured time of a load, seconds.
    pub(crate) hold_s: f64,
    /// Sessions of Throng and of a peer whose logins are measured.
    logins: [u32; 2],
    /// Sessions that memory is weighed at, without contacts: least and most.
    idle: [[u32; 2]; 2],
    /// The same with contacts.
    befriended: [[u32; 2]; 2],
    /// How long a stalled receiver is written to, seconds.
    stall_s: f64,
    /// How long items are published on the web side, seconds.
    web_s: f64,
    /// Subscribers that are weighed: least and most.
    web_idle: [usize; 2],
}

impl Size {
    /// For figures to keep.
    pub(crate) const FULL: Size = Size {
        hold_s: 3.5,
        logins: [6_000, 2_000],
        idle: [[5_000, 15_000], [1_000, 3_000]],
        befriended: [[5_000, 15_000], [500, 1_500]],
        stall_s: 16.0,
        web_s: 10.0,
        web_idle: [2_000, 10_000],
    };
    /// For a look.
    pub(crate) const BRIEF: Size = Size {
        hold_s: 2.0,
        logins: [5_000, 1_000],
        idle: [[5_000, 15_000], [500, 1_500]],
        befriended: [[1_000, 3_000], [250, 750]],
        stall_s: 4.0,
        web_s: 4.0,
        web_idle: [1_000, 5_000],
    };

    fn own<T: Copy>(&self, all: [T; 2], setup: &Setup) -> T {
        all[usize::from(!setup.is_throng())]
    }

    /// Accounts that all scenarios of this size need, of Throng and of a peer.
    pub(crate) fn groups(&self) -> [Vec<Group>; 2] {
        [0, 1].map(|of| {
            let users = self.logins[of].max(self.idle[of][1]).max(2000);
            vec![
                Group { prefix: "u", count: users, contacts: 0 },
                Group { prefix: "c", count: self.befriended[of][1], contacts: CONTACTS_EACH_WAY },
                Group { prefix: "f", count: RECEIVERS + 1, contacts: RECEIVERS },
            ]
        })
    }
}

/// The floors' receivers wait with epoll: who sends pays for waking them, which costs more with polls of io_uring.
const AS_THE_FLOORS: &str = "--driver=epoll";

/// Half of a roster of 40 contacts sees the user, the other half is seen.
const CONTACTS_EACH_WAY: u32 = 20;

impl Scenario {
    /// Whether it has a floor.
    pub(crate) fn has_floor(&self) -> bool {
        self.floor.is_some()
    }

    /// What is compared in it.
    pub(crate) fn side(&self) -> Side {
        match self.work {
            Work::WebMemory(_) | Work::WebItems { .. } => Side::Web,
            _ => Side::Xmpp,
        }
    }

    /// Whether this set-up is measured.
    pub(crate) fn has(&self, setup: &Setup) -> bool {
        let speaks = |way| setup.peer().is_some_and(|peer| peer.way(way).is_some());
        match self.work {
            Work::WebMemory(way) => speaks(way) && setup.peer().is_some_and(|peer| !peer.waits_alike),
            Work::WebItems { .. } => speaks(Way::Own),
            _ => setup.side() == Side::Xmpp && (self.peers || setup.is_throng()),
        }
    }

    /// How often a set-up, or the floor, is measured if so many runs are asked for.
    pub(crate) fn runs(&self, asked: usize, setup: Option<&Setup>) -> usize {
        let peer = setup.is_some_and(|setup| !setup.is_throng());
        asked.min(self.runs_max[usize::from(peer)])
    }

    /// Measures the floor.
    pub(crate) fn floor(&self, world: &World, raw: &Path, size: &Size) -> io::Result<Figures> {
        let Some(floor) = self.floor else { return Ok(Figures::new()) };
        let mut command = Command::new(raw);
        let seconds = size.hold_s.to_string();
        match floor {
            Floor::Accept => command.args(["accept", "--connections", &size.logins[0].to_string()]),
            Floor::Relay { pairs, in_flight } => command.args(["relay", "--runs", "1", "--seconds", &seconds]).args([
                "--pairs",
                &pairs.to_string(),
                "--in-flight",
                &in_flight.to_string(),
            ]),
            Floor::FanOut => command.args(["fan-out", "--seconds", &seconds, "--receivers", &RECEIVERS.to_string()]),
        };
        let done = world.children.output(&mut command)?;
        let told: Value = serde_json::from_slice(&done.stdout)
            .map_err(|_| io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))?;
        let keys: &[(&str, &str)] = match floor {
            Floor::Accept => {
                &[("cpu_us_a_login", "/server_cpu_us_per_connection"), ("logins_per_s", "/connections_per_s")]
            }
            Floor::Relay { .. } => {
                &[("cpu_us_a_message", "/server_cpu_us_per_message"), ("messages_per_s", "/messages_per_s")]
            }
            Floor::FanOut => &[("cpu_us_a_delivery", "/server_cpu_us_per_delivery")],
        };
        read(&told, keys)
    }

    /// About how long one measurement takes on a machine of two cores, seconds.
    pub(crate) fn about_s(&self, setup: Option<&Setup>, size: &Size) -> f64 {
        let Some(setup) = setup else { return size.hold_s + 2.0 };
        let peer = !setup.is_throng();
        // A load's own beginning and end, and a server's start.
        let (start_s, each_s) = if peer { (4.0, 1.5) } else { (1.0, 1.0) };
        let sessions_per_s = if peer { 400.0 } else { 2_000.0 };
        let of = |sessions: u32| f64::from(sessions) / sessions_per_s;
        start_s
            + match self.work {
                Work::WaysIn => 9.0 * (each_s + 0.5),
                // A first PLAIN login derives keys.
                Work::Logins(mechanism) => {
                    let slow = if mechanism == "plain" && !peer { 2.5 } else { 1.0 };
                    2.0 * (each_s + slow * of(size.own(size.logins, setup)))
                }
                Work::Messages { pairs, latency, .. } => {
                    let loads = if latency { 3.0 } else { 1.0 };
                    loads * (each_s + size.hold_s + of(2 * pairs))
                }
                Work::Latency(_) => each_s + size.hold_s + of(200),
                Work::FanOut => (each_s + size.hold_s + 0.5) * if peer { 1.0 } else { 2.0 },
                Work::Rooms => each_s + size.hold_s + of(ROOM_SESSIONS) + if peer { 20.0 } else { 5.0 },
                Work::Stalled => 2.0 * each_s + size.stall_s + 4.0,
                Work::Memory { contacts, tls } => {
                    let [least, most] = size.own(if contacts { size.befriended } else { size.idle }, setup);
                    let loads = f64::from(most.div_ceil(least)) + 2.0;
                    // Two seconds idle, six still; TLS and rosters take their time.
                    loads * each_s + if tls || contacts { 2.0 } else { 1.0 } * of(2 * most + least) + 16.0
                }
                Work::WebMemory(_) => 18.0 + size.web_idle[1] as f64 / 3_000.0,
                Work::WebItems { .. } => size.web_s + 3.0,
            }
    }

    /// Starts a server and measures it.
    pub(crate) fn measure(&self, world: &World, setup: &Setup, size: &Size) -> io::Result<Figures> {
        if let Some(peer) = setup.peer() {
            make_room(size.web_idle[1].max(SUBSCRIBERS))?;
            let at = WebBench { size, peer, server: world.start_web(setup)? };
            return match self.work {
                Work::WebMemory(way) => at.memory(way),
                Work::WebItems { channels, items_per_s } => at.items(channels, items_per_s),
                _ => Err(io::Error::other("a scenario of the other side")),
            };
        }
        let server = world.start(setup, self.stored, self.archive)?;
        let at = Bench { world, setup, size, server };
        match self.work {
            Work::WaysIn => at.ways_in(),
            Work::Logins(mechanism) => at.logins(mechanism),
            Work::Messages { pairs, in_flight, latency } => at.messages(pairs, in_flight, latency),
            Work::Latency(rate) => at.open_loop(100, f64::from(rate), ""),
            Work::FanOut => at.fan_out(),
            Work::Rooms => at.rooms(),
            Work::Stalled => at.stalled(),
            Work::Memory { contacts, tls } => at.memory(contacts, tls),
            Work::WebMemory(_) | Work::WebItems { .. } => Err(io::Error::other("a scenario of the other side")),
        }
    }
}

/// Figures by the places where a result has them.
fn read(told: &Value, keys: &[(&str, &str)]) -> io::Result<Figures> {
    let figure = |(name, place): &(&str, &str)| match told.pointer(place).and_then(Value::as_f64) {
        Some(value) => Ok(((*name).to_owned(), value)),
        None => Err(io::Error::other(format!("the result has no {place}: {}", told["errors"]))),
    };
    keys.iter().map(figure).collect()
}

/// Messages that did not come once and in order.
fn faults(told: &Value) -> f64 {
    let kinds = ["lost", "duplicates", "reordered", "unknown"];
    kinds.iter().filter_map(|kind| told["messages"][*kind].as_f64()).sum()
}

/// A server of the web side under measurement.
struct WebBench<'a> {
    size: &'a Size,
    peer: &'static Peer,
    server: Server,
}

impl WebBench<'_> {
    fn client(&self, way: Way, channels: u32) -> io::Result<Client> {
        let (talk, port) = self.peer.way(way).ok_or_else(|| io::Error::other("the server has no such way"))?;
        let (publish, publish_port) = self.peer.publish;
        let (at, publish_at) = (self.server.at(port), self.server.at(publish_port));
        Client::new(Target { at, talk, publish_at, publish, channels })
    }

    fn items(&self, channels: u32, items_per_s: f64) -> io::Result<Figures> {
        let mut client = self.client(Way::Own, channels)?;
        client.subscribe(SUBSCRIBERS)?;
        let mut before = Duration::ZERO;
        let rate = Rate { items_per_s, seconds: self.size.web_s };
        let told = client.run(rate, &mut || {
            before = self.server.cpu()?;
            Ok(())
        })?;
        let cpu = self.server.cpu()?.saturating_sub(before);
        Ok([
            ("cpu_us_a_delivery", cpu.as_secs_f64() * 1e6 / told.deliveries as f64),
            ("p50_ms", told.p50_ms),
            ("p99_ms", told.p99_ms),
            ("late_p99_ms", told.late_p99_ms),
            ("first_s", told.first_s),
            ("faults", told.faults as f64),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into())
    }

    /// The slope of memory between two counts of subscribers, each once the server is idle and its memory stands still.
    fn memory(&self, way: Way) -> io::Result<Figures> {
        let [least, most] = self.size.web_idle;
        let mut client = self.client(way, WEIGHED_CHANNELS)?;
        let mut weigh = |count: usize| {
            client.subscribe(count)?;
            let (mut quiet, mut looks, started) = (Quiet::default(), Vec::new(), Instant::now());
            loop {
                let look = Instant::now();
                while look.elapsed() < LOOK_EVERY {
                    client.serve(LOOK_EVERY.saturating_sub(look.elapsed()))?;
                }
                let is_late = started.elapsed() > STILL_WITHIN;
                if looks.is_empty() && !quiet.look(&self.server)? && !is_late {
                    continue;
                }
                looks.push(self.server.share()?);
                if is_still(&looks) || is_late {
                    return Ok::<_, io::Error>(looks.last().copied().unwrap_or(0));
                }
            }
        };
        let (at_least, at_most) = (weigh(least)?, weigh(most)?);
        if at_most <= at_least {
            let told =
                format!("memory has not grown from {least} to {most} subscribers ({at_least} to {at_most} bytes)");
            return Err(io::Error::other(told));
        }
        let bytes = (at_most - at_least) as f64 / (most - least) as f64;
        Ok(Figures::from([("bytes_a_subscriber".to_owned(), bytes)]))
    }
}

/// A server under measurement.
struct Bench<'a> {
    world: &'a World,
    setup: &'a Setup,
    size: &'a Size,
    server: Server,
}

impl Bench<'_> {
    fn load(&self, flags: &[String]) -> io::Result<Value> {
        let told = self.world.load(&self.server, self.server.place.plain, flags)?;
        self.stood(flags, told)
    }

    /// A result counts if every session stood.
    fn stood(&self, flags: &[String], told: Value) -> io::Result<Value> {
        let wanted = told.pointer("/scenario/sessions").and_then(Value::as_u64);
        let arrived = told.pointer("/sessions/arrived").and_then(Value::as_u64);
        if wanted.is_some() && wanted == arrived {
            Ok(told)
        } else {
            Err(io::Error::other(format!("{arrived:?} of {wanted:?} sessions stood: {} ({flags:?})", told["errors"])))
        }
    }

    /// Counts the ways in which a few clients log in and all their messages arrive.
    fn ways_in(&self) -> io::Result<Figures> {
        let place = &self.server.place;
        let mut works = 0.0;
        for mechanism in ["plain", "scram-sha-1", "scram-sha-256"] {
            for (tls, to) in [("off", place.plain), ("starttls", place.plain), ("direct", place.tls)] {
                let flags = words(&format!(
                    "--sessions=20 --pairs=5 --messages-max=100 --hold-s=5 --auth={mechanism} --tls={tls} --tls-insecure"
                ));
                let told = self.world.load(&self.server, to, &flags)?;
                works += f64::from(u8::from(told["good"] == true && told["messages"]["received"] == 100));
            }
        }
        Ok(Figures::from([("ways_in".to_owned(), works)]))
    }

    /// All log in, leave, and log in again: a server may remember the first time.
    fn logins(&self, mechanism: &str) -> io::Result<Figures> {
        let sessions = self.size.own(self.size.logins, self.setup);
        let flags = words(&format!(
            "--sessions={sessions} --auth={mechanism} --ramp-per-s=100000 --login-s-max=60 --hold-s=0.5"
        ));
        let first = [("cpu_us_a_login", "/server/cpu_us_per_login"), ("logins_per_s", "/sessions/logins_per_s")];
        let mut figures = read(&self.load(&flags)?, &first)?;
        let again =
            [("cpu_us_a_login_again", "/server/cpu_us_per_login"), ("logins_again_per_s", "/sessions/logins_per_s")];
        figures.extend(read(&self.load(&flags)?, &again)?);
        Ok(figures)
    }

    fn messages(&self, pairs: u32, in_flight: u32, latency: bool) -> io::Result<Figures> {
        let told = self.load(&words(&format!(
            "--sessions={} --pairs={pairs} --in-flight={in_flight} --ramp-per-s=2000 {AS_THE_FLOORS} --hold-s={}",
            pairs * 2,
            self.size.hold_s
        )))?;
        let mut figures = read(
            &told,
            &[("cpu_us_a_message", "/server/cpu_us_per_message"), ("messages_per_s", "/messages/received_per_s")],
        )?;
        figures.insert("faults".into(), faults(&told));
        let most = figures["messages_per_s"];
        for (share, suffix) in [(0.3, "_at_30"), (0.7, "_at_70")].into_iter().filter(|_| latency) {
            let rate = (most * share).round();
            let more = self.open_loop(pairs, rate, suffix)?;
            let wrong = figures["faults"] + more["faults"];
            figures.extend(more);
            figures.insert("faults".into(), wrong);
            figures.insert(format!("rate{}_per_s", suffix.trim_start_matches("_at")), rate);
        }
        Ok(figures)
    }

    fn open_loop(&self, pairs: u32, rate: f64, suffix: &str) -> io::Result<Figures> {
        // A rate that is more than can be done without 50 in flight leaves a queue: late is not lost.
        let told = self.load(&words(&format!(
            "--sessions={} --pairs={pairs} --in-flight=0 --rate={rate} --ramp-per-s=2000 --drain-s=60 --hold-s={}",
            pairs * 2,
            self.size.hold_s
        )))?;
        let places = [("p50", "p50"), ("p99", "p99"), ("p999", "p999")];
        let mut figures = Figures::from([("faults".to_owned(), faults(&told))]);
        for (name, place) in places {
            let place = format!("/messages/latency_ms/{place}");
            figures.extend(read(&told, &[(&format!("{name}_ms{suffix}"), &place)])?);
        }
        Ok(figures)
    }

    fn fan_out(&self) -> io::Result<Figures> {
        let all = Group { prefix: "f", count: RECEIVERS + 1, contacts: RECEIVERS };
        let mut flags = group_flags(&all, all.count);
        let hold_s = self.size.hold_s;
        flags.extend(words(&format!(
            "--subscribe=false --ramp-per-s=200 --presence-per-s=50 {AS_THE_FLOORS} --hold-s={hold_s}"
        )));
        let mut figures = read(&self.load(&flags)?, &[("cpu_us_a_delivery", "/server/cpu_us_per_presence")])?;
        if self.setup.is_throng() {
            flags.push("--presence-per-s=2000".into());
            flags.retain(|flag| flag != "--presence-per-s=50");
            let keys = [
                ("cpu_us_a_delivery_in_a_stream", "/server/cpu_us_per_presence"),
                ("stream_deliveries_per_s", "/presence/received_per_s"),
            ];
            figures.extend(read(&self.load(&flags)?, &keys)?);
        }
        Ok(figures)
    }

    /// Messages to rooms (XEP-0045), from an occupant of each.
    fn rooms(&self) -> io::Result<Figures> {
        let told = self.load(&words(&format!(
            "--sessions={ROOM_SESSIONS} --rooms=500 --room-occupants=20 --room-rate=200 --ramp-per-s=200 \
             --ramp-s-max=120 --drain-s=30 {AS_THE_FLOORS} --hold-s={}",
            self.size.hold_s
        )))?;
        let mut figures = read(
            &told,
            &[
                ("cpu_us_a_delivery", "/server/cpu_us_per_message"),
                ("p50_ms", "/messages/latency_ms/p50"),
                ("p99_ms", "/messages/latency_ms/p99"),
            ],
        )?;
        figures.insert("faults".into(), faults(&told));
        Ok(figures)
    }

    /// How much more memory the server has at its most while a receiver does not read than after the same messages to one that
    /// does.
    fn stalled(&self) -> io::Result<Figures> {
        const BYTES: u32 = 16 << 10;
        let flags = |stalled: u32, hold_s: f64| {
            words(&format!(
                "--sessions=2 --pairs=1 --stall-share={stalled} --in-flight=0 --message-bytes={BYTES} --rate=4000 \
                 --drain-s=1 --hold-s={hold_s}"
            ))
        };
        self.load(&flags(0, 2.0))?;
        let before = self.server.resident()? as f64;
        let told = self.load(&flags(1, self.size.stall_s))?;
        let seconds = told["seconds"].as_array().map(Vec::as_slice).unwrap_or_default();
        let held = seconds.iter().filter(|second| second["phase"] == "hold");
        let most = held.filter_map(|second| second["server_resident_bytes"].as_f64()).fold(before, f64::max);
        let sent = read(&told, &[("sent", "/messages/sent")])?;
        Ok(Figures::from([
            ("grown_mb".to_owned(), (most - before) / 1e6),
            ("sent_mb".to_owned(), sent["sent"] * f64::from(BYTES) / 1e6),
        ]))
    }

    /// The slope of memory between two counts of sessions, each once the server is idle and its memory stands still. Before,
    /// every account has logged in and out once, in waves no larger than the first count: what grows with use rather than with
    /// sessions has grown then.
    fn memory(&self, contacts: bool, tls: bool) -> io::Result<Figures> {
        let [least, most] = self.size.own(if contacts { self.size.befriended } else { self.size.idle }, self.setup);
        let group = match contacts {
            true => Group { prefix: "c", count: most, contacts: CONTACTS_EACH_WAY },
            false => Group { prefix: "u", count: most, contacts: 0 },
        };
        let to = if tls { self.server.place.tls } else { self.server.place.plain };
        let flags = |first: u32, sessions: u32, hold_s: f64| {
            let mut flags = group_flags(&group, sessions);
            flags.extend(words(&format!(
                "--user-first={first} --subscribe=false --ramp-per-s=2000 --login-s-max=60 --hold-s={hold_s}"
            )));
            if tls {
                flags.extend(words("--tls=direct --tls-insecure"));
            }
            flags
        };
        for first in (0..most).step_by(least as usize) {
            let flags = flags(first, least.min(most - first), 0.5);
            let told = self.world.load(&self.server, to, &flags)?;
            self.stood(&flags, told)?;
        }
        let weigh = |sessions: u32| {
            let flags = flags(0, sessions, 300.0);
            let (bytes, told) = self.world.weigh(&self.server, to, &flags)?;
            self.stood(&flags, told)?;
            Ok::<_, io::Error>(bytes)
        };
        let (at_least, at_most) = (weigh(least)?, weigh(most)?);
        if at_most <= at_least {
            let told = format!("memory has not grown from {least} to {most} sessions ({at_least} to {at_most} bytes)");
            return Err(io::Error::other(told));
        }
        Ok(Figures::from([("bytes_a_session".to_owned(), (at_most - at_least) as f64 / f64::from(most - least))]))
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;

    #[test]
    fn what_a_result_lacks_is_named() {
        let told = serde_json::json!({ "server": { "cpu": 2.5 }, "errors": { "connection: refused": 3 } });
        assert_eq!(read(&told, &[("a", "/server/cpu")]).expect("it is there")["a"], 2.5);
        let error = read(&told, &[("a", "/server/no")]).expect_err("it is not").to_string();
        assert!(error.contains("/server/no") && error.contains("refused"), "{error}");
    }

    #[test]
    fn faults_are_what_is_not_once_and_in_order() {
        let told = serde_json::json!({ "messages": { "lost": 1, "duplicates": 2, "reordered": 3, "unknown": 4, "unsure": 9 } });
        assert_eq!(faults(&told), 10.0);
    }

    #[test]
    fn figures_of_rates_have_a_kind() {
        for name in ["rate_30_per_s", "rate_70_per_s", "p99_ms_at_30", "p999_ms_at_70", "faults"] {
            assert!(figures::find(name).is_some(), "{name}");
        }
    }
}
