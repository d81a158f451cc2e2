//! One run: accounts, the server, the generator, a look a second, and the end of all.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Options;
use crate::proc::{Look, descriptors_max, look};

/// Partitions that users are dealt out over.
const PARTITIONS: u64 = 4_096;

/// The most that a shard takes (`shard_connections_max`).
const ROOM_MAX: u64 = 1_000_000;

/// How long the server has to close what is left.
const STOP_MAX: Duration = Duration::from_secs(30);

/// What a run has shown.
pub(crate) struct Measured {
    /// Shards of the server.
    pub(crate) shards: u64,
    /// Tables of descriptors of each.
    pub(crate) tables: u64,
    /// The machine before the server was started.
    pub(crate) before: Look,
    /// A look a second, with its time since the generator was started.
    pub(crate) looks: Vec<(f64, Look)>,
    /// The generator's result; nothing if it wrote none.
    pub(crate) load: Value,
    /// Why the run was ended before its time.
    pub(crate) ended_by: Option<String>,
}

/// A program that is ended by its id when dropped.
struct Program {
    child: Child,
}

impl Program {
    fn start(command: &mut Command) -> io::Result<Program> {
        command.spawn().map(|child| Program { child })
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, as an operator does.
    fn terminate(&self) {
        let _ = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
    }

    /// Waits for its end at most so long, then ends it.
    fn end(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Connections that each shard must have room for: users are not spread quite evenly, a connection may be accepted by any
/// shard, and no table may fill up.
pub(crate) fn room(connections: u64, shards: u64) -> u64 {
    (connections * PARTITIONS.div_ceil(shards) / PARTITIONS * 110 / 100 + 4_096).min(ROOM_MAX)
}

fn checked(what: &str, command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{what}: {status}"))) }
}

/// Makes the accounts, unless an earlier run has left as many.
fn accounts(options: &Options, data: &Path) -> io::Result<()> {
    let mark = options.folder.join("accounts");
    let there = fs::read_to_string(&mark).ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
    if there >= options.sessions {
        return Ok(());
    }
    let csv = options.folder.join("accounts.csv");
    let sessions = options.sessions.to_string();
    let load = &mut Command::new(&options.throng);
    checked("write accounts", load.args(["load", "--sessions", &sessions, "--write-accounts"]).arg(&csv))?;
    let import = &mut Command::new(options.server());
    checked("import accounts", import.args(["user", "import", "--domain", "localhost", "--data"]).arg(data).arg(&csv))?;
    fs::remove_file(&csv)?;
    fs::write(mark, sessions)
}

fn free_port() -> io::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// Starts the server and waits until it serves.
fn serve(options: &Options, data: &Path, room: u64, to: &str) -> io::Result<Program> {
    let log = File::create(options.folder.join("serve.log"))?;
    let mut command = Command::new(options.server());
    // In a storm all come at once: for whoever finds the queue full, half a minute passes until the kernel asks again.
    command.args(["serve", "--driver", "uring", "--plain-auth", "--backlog", "65535"]);
    command.arg("--data").arg(data).args(["--shards", &options.shards.to_string()]);
    command.args(["--shard-connections-max", &room.to_string()]);
    // A ring for each pair of shards: short ones, for there are many.
    command.args(["--letter-ring-slots", "128", "--store-cache-bytes", "64MiB"]);
    // Those that chat send faster than people do. Builds that have no such rate know no such flag.
    command.env("THRONG_ACCOUNT_STANZAS_PER_SECOND", "0");
    command.args(if options.tls { ["--c2s", "off", "--c2s-tls", to] } else { ["--c2s", to, "--c2s-tls", "off"] });
    let mut server = Program::start(command.stdout(Stdio::piped()).stderr(log))?;
    let said = server.child.stdout.take().expect("it is piped");
    for line in BufReader::new(said).lines() {
        if line?.starts_with("Stop with") {
            return Ok(server);
        }
    }
    Err(io::Error::other(format!("the server does not serve: see {}", options.folder.join("serve.log").display())))
}

/// The generator's arguments.
fn load_arguments(options: &Options, to: &str, server: u32) -> Vec<String> {
    let pairs = options.pairs.unwrap_or(options.sessions / 200).min(options.sessions / 2);
    let mut flags = vec![
        ("to", to.to_owned()),
        ("server-pid", server.to_string()),
        ("sessions", options.sessions.to_string()),
        ("auth", options.auth.clone()),
        ("login", options.login.clone()),
        ("resume", options.resume.to_string()),
        ("pairs", pairs.to_string()),
        ("in-flight", u8::from(options.rate == 0.0).to_string()),
        ("rate", if pairs == 0 { 0.0 } else { options.rate }.to_string()),
        ("presence-per-s", options.presence_per_s.to_string()),
        ("presence-bytes", options.presence_bytes.to_string()),
        ("ramp-per-s", "100000".into()),
        ("under-way-max", options.under_way_max.to_string()),
        ("ramp-s-max", options.ramp_s_max.to_string()),
        ("hold-s", options.hold_s.to_string()),
        ("drain-s", "10".into()),
        ("storm-share", options.storm_share.to_string()),
        ("storm-at-s", "10".into()),
        ("storm-spread-s", options.storm_spread_s.to_string()),
        ("processes", options.processes.to_string()),
        ("threads", options.workers.div_ceil(options.processes).to_string()),
        ("driver", "uring".into()),
    ];
    if options.tls {
        flags.extend([("tls", "direct".into()), ("tls-insecure", "true".into())]);
    }
    if options.pipelined {
        flags.push(("pipelined", "true".into()));
    }
    flags.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// Does it all. `stopped` says whether somebody has wished to end it.
pub(crate) fn run(options: &Options, stopped: &dyn Fn() -> bool) -> io::Result<Measured> {
    fs::create_dir_all(&options.folder)?;
    let data = options.folder.join("data");
    accounts(options, &data)?;
    // In a storm the old connection of a session may still be there when the new one comes.
    let connections = (options.sessions as f64 * (1.0 + options.storm_share)) as u64;
    let room = room(connections, options.shards);
    let tables = room.div_ceil(descriptors_max());
    let result = options.folder.join("load.json");
    let _ = fs::remove_file(&result);
    // Written pages of the store count against what is available until they are on the disk.
    let _ = Command::new("sync").status();
    let before = look(None, None);
    let to = free_port()?;
    let mut server = serve(options, &data, room, &to)?;
    let each = options.sessions.div_ceil(options.workers).div_ceil(descriptors_max());
    eprintln!("serving  {to} with {} shards of {tables} tables, process {}", options.shards, server.id());
    eprintln!("loading  with {} workers of {each} tables", options.workers);
    let arguments = load_arguments(options, &to, server.id());
    let mut load = Program::start(Command::new(&options.throng).arg("load").arg("--out").arg(&result).args(arguments))?;
    let start = Instant::now();
    let (mut looks, mut ended_by) = (Vec::new(), None);
    while load.child.try_wait()?.is_none() {
        let seen = look(Some(server.id()), Some(load.id()));
        looks.push((start.elapsed().as_secs_f64(), seen));
        let why = if seen.left < options.memory_left_min << 20 {
            Some(format!("less than {} MiB of memory left", options.memory_left_min))
        } else if server.child.try_wait()?.is_some() {
            Some("the server has ended".into())
        } else {
            stopped().then(|| "somebody ended it".into())
        };
        if let (Some(why), None) = (why, &ended_by) {
            eprintln!("ending   {why}");
            load.terminate();
            ended_by = Some(why);
        }
        let next = start + Duration::from_secs(looks.len() as u64);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    server.terminate();
    server.end(STOP_MAX);
    let load = fs::read_to_string(&result).ok().and_then(|text| serde_json::from_str(&text).ok());
    if !options.keep {
        fs::remove_dir_all(&options.folder)?;
    }
    Ok(Measured { shards: options.shards, tables, before, looks, load: load.unwrap_or_default(), ended_by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shard_has_more_sessions_than_it_has_room() {
        for sessions in [1, 20_000, 100_000, 1_000_000, 2_000_000] {
            for shards in [1, 2, 8, 54] {
                let share = sessions * PARTITIONS.div_ceil(shards) / PARTITIONS;
                let room = room(sessions, shards);
                assert!(room > share + share / 20 || room == ROOM_MAX, "{sessions} over {shards}: {room}");
            }
        }
        assert_eq!(room(1_000_000, 8), 141_596);
    }
}
