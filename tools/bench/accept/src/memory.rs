//! Memory of an idle session: how the server's memory grows with authenticated, available, silent sessions.
//!
//! Sessions are opened up to some counts; at each the program waits until the server's anonymous resident memory stands
//! still, and a line is laid through the counts. Two things are weighed, in runs of their own:
//!
//! - **resident**: what the kernel counts (`Anonymous` of `smaps_rollup`), of the program as it is;
//! - **live**: bytes and blocks that the server holds, by size, counted by its allocator (`throng-weighed`, tools/bench/weigh), less
//!   what the store says it holds: rows that logins write and blocks that they read come and go with its tables.
//!
//! Before the first count every account has logged in and out once, in waves no larger than the first count: what grows with
//! use rather than with sessions (the store's caches, pools, queues) has grown then, and no table of sessions is larger than
//! the first count makes it. Kernel memory of sockets is in none of the figures.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Login, Said};
use crate::fit::{self, Line};
use crate::report::{Outcome, median, spread};
use crate::server::{Folder, Memory, Plan, Server};
use crate::swarm::{News, Swarm};

/// Looks half a second apart that have to agree.
const LOOKS: usize = 10;
/// How far they may be apart, bytes.
const LOOKS_WITHIN: u64 = 16 << 10;
/// Time that memory has to stand still in.
const PATIENCE: Duration = Duration::from_secs(45);

/// Parts of memory, in the words of `throng ctl status`, that are the store's and bounded by its options.
pub(crate) const STORE: [&str; 3] = ["memtables", "blocks", "filters"];

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Counts of sessions to weigh at.
    #[arg(long, value_delimiter = ',', default_value = "5000,7500,10000,12500,15000")]
    at: Vec<usize>,
    /// Runs of each set-up for resident memory.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Seconds to wait at least before memory is looked at: a user's state is dropped from the cache after two here, and the
    /// store gives memory back when nothing has been committed for ten.
    #[arg(long, default_value_t = 14)]
    settle: u64,
    /// Only this driver.
    #[arg(long)]
    driver: Option<String>,
    /// Only this number of shards.
    #[arg(long)]
    shards: Option<u16>,
    /// How sessions connect.
    #[arg(long, value_enum, default_value = "off")]
    tls: TlsUse,
    /// Sessions have stream management (XEP-0198).
    #[arg(long)]
    managed: bool,
    /// Sessions use what phones use: carbons (XEP-0280), push (XEP-0357), interests in nodes by a hash of capabilities that is answered
    /// for (XEP-0115, XEP-0060 9.2), and the client state, which is inactive (XEP-0352).
    #[arg(long)]
    in_use: bool,
    /// Contacts in the roster of each user, which each session fetches.
    #[arg(long, default_value_t = 0)]
    contacts: usize,
    /// The server whose allocator counts; without it there, only resident memory is weighed.
    #[arg(long, default_value = "target/dist/throng-weighed")]
    weighed: PathBuf,
}

/// How sessions connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TlsUse {
    /// In the clear.
    Off,
    /// TLS 1.3 from the first byte (XEP-0368).
    Direct,
}

/// What a session that uses what phones use may cost beside, bytes: 600 in the clear.
const IN_USE_BYTES: f64 = 88.0;

impl Options {
    /// What a session may cost, bytes.
    fn bytes_most(&self) -> f64 {
        let alone = match self.tls {
            TlsUse::Off => 512.0,
            TlsUse::Direct => 1024.0,
        };
        if self.in_use { alone + IN_USE_BYTES } else { alone }
    }
}

/// Blocks and bytes that live, by the upper bound of their size.
pub(crate) type Census = BTreeMap<u64, (i64, i64)>;

/// Runs both drivers with one shard and two.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    if options.at.len() < 2 || !options.at.is_sorted_by(|a, b| a < b) {
        return Err(io::Error::other("--at takes two counts or more, each larger than the one before"));
    }
    let folder = Folder::new("memory")?;
    let world = World { throng, options, data: folder.path().join("data") };
    world.plan(throng, "uring", 1).import((0..world.most()).map(name))?;
    let (mut results, mut words, mut met, mut filled) = (Vec::new(), Vec::new(), true, options.contacts == 0);
    for driver in ["uring", "epoll"].into_iter().filter(|d| options.driver.as_deref().is_none_or(|wanted| wanted == *d))
    {
        for shards in [1, 2].into_iter().filter(|n| options.shards.is_none_or(|wanted| wanted == *n)) {
            let mut slopes = Vec::new();
            let mut runs = Vec::new();
            for _ in 0..options.runs {
                let seen = world.one(throng, driver, shards, filled)?;
                filled = true;
                met &= seen.points.iter().all(|point| point.settled);
                let line = seen.line(&|point| point.memory.anonymous as f64);
                eprintln!("{driver}, {shards} shards: {:.0} bytes a session resident", line.slope);
                runs.push(resident_run(&seen, line));
                slopes.push(line.slope);
            }
            let slope = median(slopes.clone());
            let (live, live_slope) = match options.weighed.exists() {
                true => world.live(driver, shards)?,
                false => (Value::Null, f64::NAN),
            };
            words.push(format!("{driver}, {shards} shards: {slope:.0} resident, {live_slope:.0} live"));
            // Memory that shrinks while sessions come says nothing of them. What lives counts as well: new sessions may fill
            // pages that the warming has left resident. `max` passes over a figure that is not there.
            met &= slope > 0.0 && slope.max(live_slope) <= options.bytes_most();
            results.push(json!({
                "driver": driver,
                "shards": shards,
                "bytes_a_session": spread(slopes.into_iter()),
                "runs": runs,
                "live": live,
            }));
        }
    }
    let value = json!({
        "what": "growth of the server's anonymous resident memory, and of the bytes its allocator has handed out, with \
                 authenticated (SCRAM), available, idle sessions of distinct users",
        "tls": options.tls == TlsUse::Direct,
        "managed": options.managed,
        "in_use": options.in_use,
        "contacts": options.contacts,
        "target_bytes_a_session": options.bytes_most(),
        "results": results,
        "met": met,
    });
    Ok(Outcome {
        name: "memory",
        line: format!("memory, bytes a session, at most {}: {}", options.bytes_most(), words.join("; ")),
        met,
        value,
    })
}

fn name(number: usize) -> String {
    format!("user{number:06}")
}

fn resident_run(seen: &Seen, line: Line) -> Value {
    let points = &seen.points;
    json!({
        "at_start_bytes": seen.at_start.anonymous,
        "bytes_a_session": line.slope.round(),
        "start_bytes": line.start.round(),
        "residual_most_bytes": line.residual_most.round(),
        "sessions": points.iter().map(|p| p.sessions).collect::<Vec<_>>(),
        "anonymous_bytes": points.iter().map(|p| p.memory.anonymous).collect::<Vec<_>>(),
        "huge_page_bytes": points.iter().map(|p| p.memory.huge).collect::<Vec<_>>(),
        "settled": points.iter().all(|p| p.settled),
        "panics": seen.panics,
    })
}

/// What was seen at one count of sessions.
struct Point {
    sessions: usize,
    memory: Memory,
    /// It stood still.
    settled: bool,
    census: Census,
    /// What the store says it holds, bytes: see [`STORE`].
    store: i64,
}

impl Point {
    fn live(&self) -> i64 {
        self.census.values().map(|(_, bytes)| bytes).sum()
    }
}

/// What was seen of one server.
struct Seen {
    /// Before the first connection.
    at_start: Memory,
    points: Vec<Point>,
    panics: Vec<String>,
}

impl Seen {
    /// The line through a figure over the counts.
    fn line(&self, figure: &dyn Fn(&Point) -> f64) -> Line {
        fit::line(&self.points.iter().map(|point| (point.sessions as f64, figure(point))).collect::<Vec<_>>())
    }
}

struct World<'a> {
    throng: &'a Path,
    options: &'a Options,
    data: PathBuf,
}

impl World<'_> {
    fn most(&self) -> usize {
        self.options.at.last().copied().unwrap_or_default()
    }

    fn plan(&self, program: &Path, driver: &str, shards: u16) -> Plan {
        let mut plan = Plan::new(program, &self.data).driver(driver).shards(shards).flag("--cache-seconds=2");
        plan.tls = self.options.tls == TlsUse::Direct;
        plan
    }

    /// The exact side: what lives, by size.
    fn live(&self, driver: &str, shards: u16) -> io::Result<(Value, f64)> {
        let seen = self.one(&self.options.weighed, driver, shards, true)?;
        let over = |of: &dyn Fn(&Census) -> i64| seen.line(&|point| of(&point.census) as f64);
        let points = &seen.points;
        let own = seen.line(&|point| (point.live() - point.store) as f64);
        let sizes: std::collections::BTreeSet<u64> = points.iter().flat_map(|p| p.census.keys().copied()).collect();
        let rows: Vec<Value> = sizes
            .into_iter()
            .map(|size| {
                let of = |census: &Census| census.get(&size).copied().unwrap_or_default();
                (size, over(&|census| of(census).0).slope, over(&|census| of(census).1).slope)
            })
            .filter(|(_, _, bytes)| bytes.abs() >= 1.0)
            .map(|(size, blocks, bytes)| {
                let round = |n: f64| (n * 100.0).round() / 100.0;
                json!({ "size_up_to": size, "blocks_a_session": round(blocks), "bytes_a_session": round(bytes) })
            })
            .collect();
        eprintln!("{driver}, {shards} shards: {:.0} bytes a session live", own.slope);
        let value = json!({
            "bytes_a_session": own.slope.round(),
            "residual_most_bytes": own.residual_most.round(),
            "bytes": points.iter().map(Point::live).collect::<Vec<_>>(),
            "of_these_the_stores": points.iter().map(|p| p.store).collect::<Vec<_>>(),
            "anonymous_bytes": points.iter().map(|p| p.memory.anonymous).collect::<Vec<_>>(),
            "by_size": rows,
        });
        Ok((value, own.slope))
    }

    /// Starts a server, warms it and weighs it at each count.
    fn one(&self, program: &Path, driver: &str, shards: u16, filled: bool) -> io::Result<Seen> {
        let counts = self.data.with_extension("counts");
        let _ = std::fs::remove_file(&counts);
        let mut server = self.plan(program, driver, shards).env("THRONG_WEIGH", &counts).start()?;
        let at_start = server.settled_memory(LOOKS_WITHIN, PATIENCE)?;
        let wave = self.options.at[0];
        for first in (0..self.most()).step_by(wave) {
            let mut swarm = Swarm::new()?;
            let numbers = first..(first + wave).min(self.most());
            self.log_in(&server, &mut swarm, numbers, !filled)?;
            drop(swarm);
            self.wait_for(0)?;
        }
        let (mut swarm, mut points) = (Swarm::new()?, Vec::new());
        for &sessions in &self.options.at {
            let numbers = swarm.conns.len()..sessions;
            self.log_in(&server, &mut swarm, numbers, false)?;
            self.wait_for(sessions)?;
            let (memory, settled) = self.settle(&server, &mut swarm)?;
            let (census, store) = (census(&counts)?, self.store()?);
            points.push(Point { sessions, memory, settled, census, store });
        }
        let open = swarm.conns.iter().filter(|conn| conn.is_open()).count();
        if open != self.most() || !server.runs() {
            return Err(io::Error::other(format!("{open} of {} sessions are left", self.most())));
        }
        Ok(Seen { at_start, points, panics: server.panics() })
    }

    /// Logs users in; with `fill` they also make their rosters.
    fn log_in(
        &self,
        server: &Server,
        swarm: &mut Swarm,
        numbers: std::ops::Range<usize>,
        fill: bool,
    ) -> io::Result<()> {
        let (tls, managed) = (self.options.tls == TlsUse::Direct, self.options.managed || fill);
        let to = if tls { server.tls } else { server.plain };
        let resource = "phone".to_owned();
        let logins = numbers.map(|n| Login {
            name: name(n),
            resource: resource.clone(),
            managed,
            available: true,
            in_use: self.options.in_use,
            ..Login::default()
        });
        let indices = swarm.log_in_by(to, tls, logins.collect(), 100)?;
        if self.options.contacts == 0 {
            return Ok(());
        }
        for &index in &indices {
            swarm.say(index, "<iq type='get' id='g'><query xmlns='jabber:iq:roster'/></iq>");
        }
        if fill { self.fill(swarm, &indices) } else { Ok(()) }
    }

    /// Gives each user as many contacts as wanted.
    fn fill(&self, swarm: &mut Swarm, indices: &[usize]) -> io::Result<()> {
        let sets: String = (0..self.options.contacts)
            .map(|n| {
                let item = format!("<item jid='contact{n}@localhost' name='Contact {n}'><group>Friends</group></item>");
                format!("<iq type='set' id='s'><query xmlns='jabber:iq:roster'>{item}</query></iq>")
            })
            .collect();
        // The presence, the roster's request, the contacts; and what else a login has asked for.
        let handled = 2 + self.options.contacts as u32;
        for some in indices.chunks(200) {
            for &index in some {
                swarm.say(index, &sets);
                swarm.say(index, "<r xmlns='urn:xmpp:sm:3'/>");
            }
            let (mut done, end) = (0, Instant::now() + PATIENCE);
            while done < some.len() {
                swarm.turn(Duration::from_millis(100), &mut |_, news| {
                    done += usize::from(matches!(news, News::Said(Said::Handled(count)) if count >= handled));
                })?;
                if Instant::now() > end {
                    return Err(io::Error::other(format!("{done} of {} rosters are made", some.len())));
                }
            }
        }
        Ok(())
    }

    /// Waits until the server itself says that it has as many connections and available sessions, with nothing to send.
    fn wait_for(&self, sessions: usize) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.plan(self.throng, "uring", 1).status()?;
            let counter = |name: &str| status["counters"][name].as_u64();
            let now = [status["connections"].as_u64(), counter("sessions_available"), counter("outbound_bytes")];
            if now == [Some(sessions as u64), Some(sessions as u64), Some(0)] {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(io::Error::other(format!(
                    "connections, available, bytes to send: {now:?}, not {sessions}"
                )));
            }
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    /// What the store says it holds, bytes.
    fn store(&self) -> io::Result<i64> {
        let memory = &self.plan(self.throng, "uring", 1).status()?["memory"];
        let part =
            |name: &&str| memory[name].as_i64().ok_or_else(|| io::Error::other(format!("no {name} in the status")));
        STORE.iter().map(part).sum()
    }

    /// Memory once it stands still, and whether it does.
    fn settle(&self, server: &Server, swarm: &mut Swarm) -> io::Result<(Memory, bool)> {
        let (start, mut looks) = (Instant::now(), Vec::new());
        loop {
            let next = Instant::now() + Duration::from_millis(500);
            while Instant::now() < next {
                swarm.turn(next.saturating_duration_since(Instant::now()), &mut |_, _| {})?;
            }
            if start.elapsed() < Duration::from_secs(self.options.settle) {
                continue;
            }
            let memory = server.memory()?;
            looks.push(memory);
            let last = &looks[looks.len().saturating_sub(LOOKS)..];
            let bytes = || last.iter().map(|look| look.anonymous);
            let apart = bytes().max().unwrap_or(0) - bytes().min().unwrap_or(0);
            let settled = last.len() == LOOKS && apart <= LOOKS_WITHIN;
            if settled || start.elapsed() > PATIENCE {
                return Ok((memory, settled));
            }
        }
    }
}

/// Reads what the counting allocator tells, if it is there.
pub(crate) fn census(path: &Path) -> io::Result<Census> {
    for _ in 0..20 {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Census::new()),
            other => other?,
        };
        if let Some(rows) = text.strip_suffix("end\n") {
            let row = |line: &str| {
                let mut words = line.split(' ');
                let size = words.next()?.parse().ok()?;
                Some((size, (words.next()?.parse().ok()?, words.next()?.parse().ok()?)))
            };
            return rows.lines().map(|line| row(line).ok_or_else(|| io::ErrorKind::InvalidData.into())).collect();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(io::Error::other("the counts are never whole"))
}
