//! Channels at `/n/`: memory of a subscriber that waits, CPU of an item for many, durable publications a second, and what those see
//! who drop and return.
//!
//! Subscribers and publishers are `throng load channels`, as processes of their own; it checks each item that it is told. What is
//! measured is the server, by `/proc` and by its allocator's count.

mod fan_out;
mod memory;
mod publish;
mod returns;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value, json};

use crate::report::Outcome;
use crate::server::{Folder, Plan};

/// Subscribers for which a shard has room without being told.
const ONE_TABLE: u32 = 15_000;

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "memory,fan-out,publish")]
    parts: Vec<Part>,
    /// The ways to subscribe that are weighed, and by which items are told: poll, events, websocket.
    #[arg(long, value_delimiter = ',', default_value = "poll,events,websocket")]
    by: Vec<String>,
    /// The server's driver.
    #[arg(long, default_value = "uring")]
    driver: String,
    /// Shards of the server.
    #[arg(long, default_value_t = 2)]
    shards: u16,
    #[command(flatten)]
    memory: memory::Options,
    #[command(flatten)]
    fan_out: fan_out::Options,
    #[command(flatten)]
    publish: publish::Options,
    #[command(flatten)]
    returns: returns::Options,
}

/// One of the things that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Memory of a subscriber that waits.
    Memory,
    /// CPU of an item for many.
    FanOut,
    /// Durable publications a second.
    Publish,
    /// What subscribers see who drop and return, by a server that is killed: an hour, unless told otherwise.
    Returns,
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
            Part::Memory => ("memory", memory::run(throng, options)?),
            Part::FanOut => ("fan_out", fan_out::run(throng, options)?),
            Part::Publish => ("publish", publish::run(throng, options)?),
            Part::Returns => ("returns", returns::run(throng, options)?),
        };
        met &= judged.met;
        words.push(judged.sentence);
        value.insert(name.into(), judged.value);
    }
    value.insert("driver".into(), json!(options.driver));
    value.insert("shards".into(), json!(options.shards));
    value.insert("met".into(), json!(met));
    Ok(Outcome { name: "channels", line: words.join("; "), met, value: Value::Object(value) })
}

/// A server with channels for everybody, without the limits that keep one address from being many.
struct Channels {
    plan: Plan,
    http: SocketAddr,
    folder: Folder,
}

impl Channels {
    fn new(program: &Path, options: &Options) -> io::Result<Channels> {
        let folder = Folder::new("channels")?;
        let http = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut plan = Plan::new(program, &folder.path().join("data")).driver(&options.driver).shards(options.shards);
        // By io_uring, of which a shard has as many tables of descriptors as it needs for so many.
        let most = options.memory.most().max(options.fan_out.subscribers());
        if most > ONE_TABLE {
            plan.flags.push(format!("--shard-connections-max={}", most / u32::from(options.shards.max(1)) * 5 / 4));
        }
        let flags = [
            "--domain=localhost".into(),
            format!("--http={http}"),
            "--notify=load.".into(),
            "--notify-publish-open".into(),
            "--notify-publications-per-second=0".into(),
            "--notify-items-max=150".into(),
            "--notify-waiting-per-address-max=1000000".into(),
            "--unauthenticated-per-address-max=0".into(),
        ];
        flags.iter().for_each(|flag: &String| plan.flags.push(flag.clone()));
        Ok(Channels { plan, http, folder })
    }

    /// `throng load channels` against it, begun. Its result goes to `out` in the folder.
    fn load(&self, throng: &Path, out: &str, flags: &[String]) -> io::Result<Load> {
        let out = self.folder.path().join(out);
        let mut command = Command::new(throng);
        command.args(["load", "channels", "--quiet", "--to", &self.http.to_string(), "--out"]).arg(&out).args(flags);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        Ok(Load { child: Some(child), out })
    }
}

/// The longest commit of a server that has ended, as its recorder has it, ms. A disk that stands still holds up every publication.
fn longest_commit_ms(throng: &Path, folder: &Folder) -> io::Result<f64> {
    let recordings = folder.path().join("data/recorder");
    let sar = Command::new(throng)
        .args(["sar", "--summary", "--json", "store.commit_max", "--from"])
        .arg(recordings)
        .output()?;
    if !sar.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&sar.stderr).into_owned()));
    }
    figure(&serde_json::from_slice(&sar.stdout)?, "/store/commit_max/max")
}

/// Moves the recorder's files of a server that has ended out of its folder, which goes: they tell why a run was slow.
fn keep_recordings(folder: &Folder, name: &str, why: &str) -> io::Result<()> {
    let kept = std::env::temp_dir().join(format!("throng-accept-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&kept);
    std::fs::rename(folder.path().join("data/recorder"), &kept)?;
    eprintln!("{why}: what the server recorded is kept; see `throng sar --from {}`", kept.display());
    Ok(())
}

/// A `throng load channels` that runs; killed with this value.
struct Load {
    child: Option<Child>,
    out: PathBuf,
}

impl Load {
    /// Waits for its end, and reads its result.
    fn result(mut self) -> io::Result<Value> {
        let Some(child) = self.child.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let done = child.wait_with_output()?;
        if !done.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
        }
        serde_json::from_str(&std::fs::read_to_string(&self.out)?).map_err(io::Error::other)
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

/// Flags of pairs of a name and a value.
fn flags(of: &[(&str, String)]) -> Vec<String> {
    of.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// A figure of a result.
fn figure(result: &Value, path: &str) -> io::Result<f64> {
    result.pointer(path).and_then(Value::as_f64).ok_or_else(|| io::Error::other(format!("no {path} in the result")))
}

fn two(n: f64) -> f64 {
    (n * 100.0).round() / 100.0
}
