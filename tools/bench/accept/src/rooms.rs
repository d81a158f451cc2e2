//! Rooms for group chat (XEP-0045): CPU of a message to the occupants of one large room, with few and
//! with very many members; entries per second; messages to many small rooms; memory of an occupant;
//! and what rooms cost that nobody is in.
//!
//! Occupants are `throng load --rooms`, a process of its own; it checks each message that comes.
//! What is measured is the server, by `/proc`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::report::{Outcome, median, spread};
use crate::server::{Folder, Plan, Server};

/// What a delivery may cost, times a bare send.
const TIMES_MOST: f64 = 1.3;
/// What the p99 of pairs beside the large room may be, ms.
const OTHERS_MS_MOST: f64 = 20.0;
/// What the p99 of messages to many small rooms may be, ms.
const MANY_MS_MOST: f64 = 10.0;
/// Entries per second that have to be reached.
const JOINS_LEAST: f64 = 10_000.0;
/// What a message may cost in a room with very many members, times that of one whose members are all there.
const MEMBERS_TIMES_MOST: f64 = 1.1;
/// What the start of a server may take longer because of rooms at rest, seconds.
const REST_START_S_MOST: f64 = 0.5;
/// What a room at rest may take, bytes of memory.
const REST_BYTES_MOST: f64 = 1.0;
/// What an occupant may take, bytes.
const OCCUPANT_BYTES_MOST: f64 = 200.0;
/// Logins begun per second.
const RAMP_PER_S: u32 = 4_000;
/// Receivers of the bare sends at most: their program has a descriptor for each.
const BARE_MOST: u32 = 15_000;
/// Sessions for which a shard has room without being told.
const ONE_TABLE: u32 = 15_000;
/// Sessions of the pairs beside the large room.
const OTHERS: u32 = 100;
/// Occupants of a small room.
const SMALL: u32 = 20;
/// Small rooms of each session where these are many.
const ROOMS_EACH: u32 = 10;
/// How long the sessions of a run may take to be there.
const PATIENCE: Duration = Duration::from_secs(300);

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fan-out,members,joins,many,memory,rest")]
    parts: Vec<Part>,
    /// Occupants of the large room.
    #[arg(long, value_delimiter = ',', default_value = "10000")]
    occupants: Vec<u32>,
    /// Deliveries per second of the large room.
    #[arg(long, default_value_t = 20_000.0)]
    deliveries: f64,
    /// Members of the room with very many.
    #[arg(long, default_value_t = 1_000_000)]
    members: u32,
    /// Rooms that nobody is in.
    #[arg(long, default_value_t = 1_000_000)]
    at_rest: u32,
    /// Entries per second to ask for.
    #[arg(long, default_value_t = 12_000.0)]
    joins: f64,
    /// Small rooms of 20 occupants, each session in ten.
    #[arg(long, default_value_t = 10_000)]
    rooms: u32,
    /// Messages per second to the small rooms together.
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    /// Seconds of each run.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Runs of each.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Keep everything in memory, so that no message waits for a disk: the folder of the data.
    #[arg(long, value_name = "FOLDER")]
    at: Option<PathBuf>,
    /// The server's driver.
    #[arg(long, default_value = "uring")]
    driver: String,
    /// Shards of the server.
    #[arg(long, default_value_t = 2)]
    shards: u16,
    /// The program of the bare sends.
    #[arg(long, default_value = "target/dist/raw")]
    raw: PathBuf,
}

/// One of the things that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// CPU of a message to a large room, and what others see meanwhile.
    FanOut,
    /// The same in a room with very many members, few of whom are there.
    Members,
    /// Entries of a large room per second.
    Joins,
    /// Messages to many small rooms, archived.
    Many,
    /// Memory of an occupant of small rooms.
    Memory,
    /// Start and memory of a server with rooms that nobody is in.
    Rest,
}

/// What came of one part.
struct Judged {
    met: bool,
    sentence: String,
    value: Value,
}

/// Runs the parts.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let (mut value, mut words, mut met) = (Map::new(), Vec::new(), true);
    for part in &options.parts {
        let (name, judged) = match part {
            Part::FanOut => ("fan_out", fan_out(throng, options)?),
            Part::Members => ("members", members(throng, options)?),
            Part::Joins => ("joins", joins(throng, options)?),
            Part::Many => ("many", many(throng, options)?),
            Part::Memory => ("memory", memory(throng, options)?),
            Part::Rest => ("rest", rest(throng, options)?),
        };
        eprintln!("{}", judged.sentence);
        met &= judged.met;
        words.push(judged.sentence);
        value.insert(name.into(), judged.value);
    }
    value.insert("driver".into(), json!(options.driver));
    value.insert("shards".into(), json!(options.shards));
    value.insert("met".into(), json!(met));
    Ok(Outcome { name: "rooms", line: words.join("; "), met, value: Value::Object(value) })
}

/// A message to all occupants of one room, against as many bare sends in the same run.
fn fan_out(throng: &Path, options: &Options) -> io::Result<Judged> {
    let (mut rows, mut words, mut met) = (Vec::new(), Vec::new(), true);
    for &occupants in &options.occupants {
        let (mut cost, mut floor, mut latency, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut bytes = 0.0;
        let rate = options.deliveries / f64::from(occupants);
        for _ in 0..options.runs.max(1) {
            let world = World::new(throng, options, occupants + OTHERS)?;
            let load = world.load("room.json", &world.room(occupants, &format!("--room-rate={rate}")))?;
            world.wait_for_occupants(occupants)?;
            let beside = world.load(
                "others.json",
                &words_of(&format!(
                    "--user-first={occupants} --sessions={OTHERS} --pairs={} --in-flight=0 --rate=20 --hold-s={}",
                    OTHERS / 2,
                    (options.seconds - 2.0).max(1.0)
                )),
            )?;
            let (told, beside) = (load.result()?, beside.result()?);
            let received = figure(&told, "/messages/received")?;
            bytes = figure(&told, "/messages/bytes_each")?;
            cost.push(figure(&told, "/server/cpu_us_per_message")?);
            latency.push(figure(&told, "/messages/latency_ms/p99")?);
            others.push(figure(&beside, "/messages/latency_ms/p99")?);
            drop(world);
            floor.push(bare(options, occupants, rate, bytes as usize)?);
            eprintln!(
                "{occupants} occupants: {:.2} us a delivery, {:.2} us a bare send of {bytes:.0} bytes, {received} came; pairs {:.1} ms",
                cost.last().unwrap_or(&f64::NAN),
                floor.last().unwrap_or(&f64::NAN),
                others.last().unwrap_or(&f64::NAN)
            );
        }
        let times = median(cost.clone()) / median(floor.clone());
        let others_ms = median(others.clone());
        met &= times <= TIMES_MOST && others_ms <= OTHERS_MS_MOST;
        words.push(format!("{occupants}: {times:.2}, pairs {others_ms:.1} ms"));
        rows.push(json!({
            "occupants": occupants, "cpu_us": spread(cost.into_iter()), "bare_send_us": spread(floor.into_iter()),
            "bytes_each": bytes.round(), "messages_per_s": rate, "latency_ms_p99": spread(latency.into_iter()),
            "others_latency_ms_p99": spread(others.into_iter()), "times_bare_sends": two(times),
        }));
    }
    Ok(Judged {
        met,
        sentence: format!(
            "CPU of a message to a room, times bare sends, at most {TIMES_MOST}, and p99 of pairs, at most {OTHERS_MS_MOST} ms: {}",
            words.join(", ")
        ),
        value: json!({
            "what": "server CPU, user and system, of a message for each occupant, and of a bare send",
            "target_times": TIMES_MOST, "target_others_ms": OTHERS_MS_MOST, "rows": rows, "met": met,
        }),
    })
}

/// A message to the occupants of a room with as many members, and with very many.
fn members(throng: &Path, options: &Options) -> io::Result<Judged> {
    let occupants = options.occupants.first().copied().unwrap_or(10_000);
    let rate = options.deliveries / f64::from(occupants);
    let [mut few, mut many] = [Vec::new(), Vec::new()];
    let [mut enter_few, mut enter_many] = [Vec::new(), Vec::new()];
    for _ in 0..options.runs.max(1) {
        for (members, costs, enters) in
            [(occupants, &mut few, &mut enter_few), (options.members, &mut many, &mut enter_many)]
        {
            let world = World::with(throng, options, occupants, &|plan| {
                import_rooms(plan, &mut |out| {
                    room(
                        out,
                        "room0",
                        (0..members).map(|number| (number, if number == 0 { "owner" } else { "member" })),
                    )
                })
            })?;
            let told = world.load("room.json", &world.room(occupants, &format!("--room-rate={rate}")))?.result()?;
            costs.push(figure(&told, "/server/cpu_us_per_message")?);
            enters.push(figure(&told, "/server/cpu_us_per_login")?);
        }
    }
    let [few_us, many_us] = [median(few.clone()), median(many.clone())];
    let times = many_us / few_us;
    let met = times <= MEMBERS_TIMES_MOST;
    Ok(Judged {
        met,
        sentence: format!(
            "CPU of a message to {occupants} occupants of {} members, times one of as many members as occupants, \
             at most {MEMBERS_TIMES_MOST}: {times:.2}",
            options.members
        ),
        value: json!({
            "what": "server CPU of a message for each occupant, by the number of members", "occupants": occupants,
            "members": options.members, "cpu_us": spread(many.into_iter()), "cpu_us_few_members": spread(few.into_iter()),
            "cpu_us_per_login_and_entry": spread(enter_many.into_iter()),
            "cpu_us_per_login_and_entry_few_members": spread(enter_few.into_iter()),
            "times": two(times), "target_times": MEMBERS_TIMES_MOST, "met": met,
        }),
    })
}

/// Start and memory of a server with no rooms, and with very many that nobody is in.
fn rest(throng: &Path, options: &Options) -> io::Result<Judged> {
    let mut points = Vec::new();
    for rooms in [0, options.at_rest] {
        let began = Instant::now();
        let first = World::with(throng, options, 1, &|plan| {
            import_rooms(plan, &mut |out| {
                (0..rooms).try_for_each(|number| room(out, &format!("room{number}"), [(0, "owner")].into_iter()))
            })
        })?;
        let imported_s = began.elapsed().as_secs_f64();
        let World { server, plan, .. } = &first;
        server.settled_memory(256 << 10, Duration::from_secs(30))?;
        let _ = Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
        let end = Instant::now() + Duration::from_secs(60);
        while Path::new(&format!("/proc/{}/cmdline", server.id())).metadata().is_ok_and(|_| !is_gone(server.id())) {
            if Instant::now() > end {
                return Err(io::Error::other("the server has not stopped within a minute"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let (mut starts, mut bytes) = (Vec::new(), Vec::new());
        for _ in 0..options.runs.max(1) {
            let server = plan.start()?;
            starts.push(server.accepting.as_secs_f64());
            bytes.push(server.settled_memory(256 << 10, Duration::from_secs(30))?.anonymous as f64);
        }
        eprintln!("{rooms} rooms, imported in {imported_s:.0} s: start {:.3} s", median(starts.clone()));
        points.push((median(starts), median(bytes)));
    }
    let [(start_none, bytes_none), (start_all, bytes_all)] = points[..] else {
        return Err(io::ErrorKind::Other.into());
    };
    let each = (bytes_all - bytes_none) / f64::from(options.at_rest);
    let met = start_all - start_none <= REST_START_S_MOST && each <= REST_BYTES_MOST;
    Ok(Judged {
        met,
        sentence: format!(
            "{} rooms that nobody is in: start {start_all:.2} s, {start_none:.2} s without; {each:.2} bytes of memory each",
            options.at_rest
        ),
        value: json!({
            "what": "start and anonymous memory of a server with rooms that nobody is in, and without",
            "rooms": options.at_rest, "start_s": start_all, "start_s_without": start_none, "bytes_each": two(each),
            "target_start_s_more": REST_START_S_MOST, "target_bytes_each": REST_BYTES_MOST, "met": met,
        }),
    })
}

/// Whether a child that was asked to end has ended.
fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z') || rest.is_empty())
}

/// Writes a persistent room with these users and affiliations, as `throng room import` reads it.
fn room(out: &mut dyn Write, name: &str, users: impl Iterator<Item = (u32, &'static str)>) -> io::Result<()> {
    write!(out, "<room xmlns='urn:throng:room:0' name='{name}'><x xmlns='jabber:x:data' type='submit'>")?;
    write!(out, "<field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>")?;
    write!(out, "<field var='muc#roomconfig_persistentroom'><value>1</value></field></x>")?;
    for (user, affiliation) in users {
        let item = "<item xmlns='http://jabber.org/protocol/muc#admin'";
        write!(out, "{item} affiliation='{affiliation}' jid='u{user}@localhost'/>")?;
    }
    writeln!(out, "</room>")
}

/// Imports the rooms that `write` writes, while the server is stopped.
fn import_rooms(plan: &Plan, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let file = plan.data.with_extension("xml");
    let mut out = io::BufWriter::new(std::fs::File::create(&file)?);
    writeln!(out, "<?xml version='1.0'?><server-data xmlns='urn:xmpp:pie:0'><host jid='conference.localhost'>")?;
    write(&mut out)?;
    writeln!(out, "</host></server-data>")?;
    out.flush()?;
    drop(out);
    let done = Command::new(&plan.throng).args(["room", "import"]).arg(&file).arg("--data").arg(&plan.data).output()?;
    std::fs::remove_file(&file)?;
    if done.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))
    }
}

/// Occupants of a large room leave it and enter again.
fn joins(throng: &Path, options: &Options) -> io::Result<Judged> {
    let occupants = options.occupants.first().copied().unwrap_or(10_000);
    let (mut rate, mut cost) = (Vec::new(), Vec::new());
    for _ in 0..options.runs.max(1) {
        let world = World::new(throng, options, occupants)?;
        let flags = world.room(occupants, &format!("--room-moves-per-s={}", options.joins));
        let told = world.load("joins.json", &flags)?.result()?;
        let hold_s = figure(&told, "/hold_s")?;
        // Each occupant has entered once before.
        let again = figure(&told, "/rooms/entered")? - f64::from(occupants);
        rate.push(again / hold_s);
        cost.push(figure(&told, "/server/cores_in_hold")? * 1e6 * hold_s / again);
    }
    let reached = median(rate.clone());
    let met = reached >= JOINS_LEAST;
    Ok(Judged {
        met,
        sentence: format!(
            "entries of a room of {occupants} per second, at least {JOINS_LEAST:.0}: {reached:.0}, {:.0} us each with a departure",
            median(cost.clone())
        ),
        value: json!({
            "what": "occupants of one room leave and enter again, an entry and a departure each",
            "occupants": occupants, "asked_per_s": options.joins, "entries_per_s": spread(rate.into_iter()),
            "server_cpu_us": spread(cost.into_iter()), "target_per_s": JOINS_LEAST, "met": met,
        }),
    })
}

/// Messages to many rooms of 20 occupants.
fn many(throng: &Path, options: &Options) -> io::Result<Judged> {
    let sessions = (options.rooms * SMALL / ROOMS_EACH).max(SMALL);
    let (mut latency, mut cost, mut late, mut lost) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for _ in 0..options.runs.max(1) {
        let world = World::new(throng, options, sessions)?;
        let mut flags = world.sessions(sessions);
        let [rooms, rate] = [f64::from(options.rooms), options.rate];
        flags.extend(words_of(&format!("--rooms={rooms} --room-occupants={SMALL} --room-rate={rate}")));
        let told = world.load("many.json", &flags)?.result()?;
        latency.push(figure(&told, "/messages/latency_ms/p99")?);
        cost.push(figure(&told, "/server/cpu_us_per_message")?);
        late.push(figure(&told, "/generator/sent_late_ms/p99")?);
        lost += figure(&told, "/messages/lost")?;
    }
    let p99_ms = median(latency.clone());
    let met = p99_ms <= MANY_MS_MOST && lost == 0.0;
    Ok(Judged {
        met,
        sentence: format!(
            "p99 of {:.0} messages/s to {} rooms of {SMALL}, at most {MANY_MS_MOST} ms: {p99_ms:.1}, {:.2} us a delivery, {lost} lost",
            options.rate,
            options.rooms,
            median(cost.clone())
        ),
        value: json!({
            "what": "messages to many rooms, archived, from an occupant of each", "rooms": options.rooms,
            "occupants": SMALL, "messages_per_s": options.rate, "latency_ms_p99": spread(latency.into_iter()),
            "sent_late_ms_p99": spread(late.into_iter()), "server_cpu_us_per_delivery": spread(cost.into_iter()),
            "lost": lost, "target_ms": MANY_MS_MOST, "met": met,
        }),
    })
}

/// How the server's memory grows with the number of rooms that the same sessions are in.
fn memory(throng: &Path, options: &Options) -> io::Result<Judged> {
    let sessions = 10_000;
    let mut slopes = Vec::new();
    for _ in 0..options.runs.max(1) {
        let mut points = Vec::new();
        for each in [0, 2, 4, 6] {
            let world = World::new(throng, options, sessions)?;
            let mut flags = world.sessions(sessions);
            flags.push("--hold-s=120".into());
            if each > 0 {
                flags.extend(words_of(&format!("--rooms={} --room-occupants={SMALL}", sessions * each / SMALL)));
            }
            let load = world.load("memory.json", &flags)?;
            world.wait_for("conns_bound", sessions)?;
            world.wait_for_occupants(sessions * each)?;
            std::thread::sleep(Duration::from_secs(15));
            let seen = world.server.settled_memory(256 << 10, Duration::from_secs(60))?;
            points.push((f64::from(sessions * each), seen.anonymous as f64));
            drop(load);
        }
        let line = crate::fit::line(&points);
        eprintln!("{:.0} bytes an occupant, of {points:?}", line.slope);
        slopes.push(line.slope);
    }
    let slope = median(slopes.clone());
    let met = slope <= OCCUPANT_BYTES_MOST;
    Ok(Judged {
        met,
        sentence: format!("memory of an occupant, at most {OCCUPANT_BYTES_MOST} bytes: {slope:.0}"),
        value: json!({
            "what": "growth of the server's anonymous memory with occupants, of 10,000 sessions in rooms of 20",
            "bytes_an_occupant": spread(slopes.into_iter()), "target_bytes": OCCUPANT_BYTES_MOST, "met": met,
        }),
    })
}

/// A server with accounts, without the limits that keep one user from being many.
struct World<'a> {
    server: Server,
    plan: Plan,
    throng: &'a Path,
    folder: Folder,
    seconds: f64,
}

impl<'a> World<'a> {
    fn new(throng: &'a Path, options: &Options, sessions: u32) -> io::Result<World<'a>> {
        World::with(throng, options, sessions, &|_| Ok(()))
    }

    /// With what `prepare` puts into the store before the start.
    fn with(
        throng: &'a Path,
        options: &Options,
        sessions: u32,
        prepare: &dyn Fn(&Plan) -> io::Result<()>,
    ) -> io::Result<World<'a>> {
        let folder = Folder::new("rooms")?;
        let data = options.at.clone().unwrap_or_else(|| folder.path().to_owned()).join("data");
        let _ = std::fs::remove_dir_all(&data);
        let mut plan = Plan::new(throng, &data).driver(&options.driver).shards(options.shards);
        plan = plan.flag("--room-joins-per-second=0");
        if sessions > ONE_TABLE {
            let each = sessions / u32::from(options.shards.max(1)) * 5 / 4;
            plan.flags.push(format!("--shard-connections-max={each}"));
        }
        plan.import((0..sessions).map(|number| format!("u{number}")))?;
        prepare(&plan)?;
        let server = plan.start()?;
        Ok(World { server, plan, throng, folder, seconds: options.seconds })
    }

    /// Flags of a generator with so many sessions.
    fn sessions(&self, sessions: u32) -> Vec<String> {
        let ramp_s = PATIENCE.as_secs();
        words_of(&format!(
            "--sessions={sessions} --ramp-per-s={RAMP_PER_S} --under-way-max=2000 --ramp-s-max={ramp_s} --pipelined \
             --auth=scram-sha-256 --drain-s=20 --hold-s={}",
            self.seconds
        ))
    }

    /// All of them in one room.
    fn room(&self, occupants: u32, more: &str) -> Vec<String> {
        let mut flags = self.sessions(occupants);
        flags.extend(words_of(&format!("--rooms=1 --room-occupants={occupants}")));
        flags.push(more.into());
        flags
    }

    /// `throng load` against it, begun. Its result goes to `out` in the folder.
    fn load(&self, out: &str, flags: &[String]) -> io::Result<Load> {
        let out = self.folder.path().join(out);
        let mut command = Command::new(self.throng);
        command.args(["load", "--quiet", "--to", &self.server.plain.to_string()]);
        command.args(["--password", crate::account::PASSWORD, "--out"]).arg(&out).args(flags);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        Ok(Load { child: Some(child), out })
    }

    /// Until the server counts so many.
    fn wait_for(&self, counter: &str, wanted: u32) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let Ok(status) = self.plan.status() else { continue };
            let count = figure(&status, &format!("/counters/{counter}"))?;
            if count >= f64::from(wanted) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(io::Error::other(format!("{counter} is {count}, not {wanted}, after {PATIENCE:?}")));
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn wait_for_occupants(&self, wanted: u32) -> io::Result<()> {
        self.wait_for("room_occupants", wanted)
    }
}

/// A `throng load` that runs; killed with this value.
struct Load {
    child: Option<Child>,
    out: PathBuf,
}

impl Load {
    /// Waits for its end, and reads its result. Faults of the server are an error.
    fn result(mut self) -> io::Result<Value> {
        let Some(child) = self.child.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let done = child.wait_with_output()?;
        let text = std::fs::read_to_string(&self.out)
            .map_err(|_| io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))?;
        let result: Value = serde_json::from_str(&text).map_err(io::Error::other)?;
        if result["good"] == true { Ok(result) } else { Err(io::Error::other(result["verdict"].to_string())) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// CPU of a bare send, microseconds.
fn bare(options: &Options, occupants: u32, rate: f64, bytes: usize) -> io::Result<f64> {
    let receivers = occupants.min(BARE_MOST);
    let rate = rate * f64::from(occupants) / f64::from(receivers);
    let done = Command::new(&options.raw)
        .args(["fan-out", "--receivers", &receivers.to_string(), "--rate", &rate.to_string()])
        .args(["--bytes", &bytes.to_string(), "--seconds", &options.seconds.to_string()])
        .output()?;
    if !done.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
    }
    figure(&serde_json::from_slice(&done.stdout)?, "/server_cpu_us_per_delivery")
}

fn words_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A figure of a result.
fn figure(result: &Value, path: &str) -> io::Result<f64> {
    result.pointer(path).and_then(Value::as_f64).ok_or_else(|| io::Error::other(format!("no {path} in the result")))
}

fn two(n: f64) -> f64 {
    (n * 100.0).round() / 100.0
}
