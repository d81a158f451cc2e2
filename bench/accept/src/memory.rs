//! Memory of an idle session: the slope of the server's resident memory over authenticated, available, silent sessions.
//!
//! Sessions are opened up to a first count and up to a second; each time the program waits until the server has let go of
//! what it caches and its resident memory stands still. Kernel memory of sockets is not in it.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Login;
use crate::report::Outcome;
use crate::server::{Folder, Memory, Plan, Server};
use crate::swarm::Swarm;

/// Target, bytes a session.
const BYTES_MOST: f64 = 1024.0;

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// First count of sessions.
    #[arg(long, default_value_t = 5_000)]
    from: usize,
    /// Second count of sessions.
    #[arg(long, default_value_t = 15_000)]
    to: usize,
    /// Seconds to wait before memory is looked at: a user's state is dropped from the cache after two here.
    #[arg(long, default_value_t = 8)]
    settle: u64,
    /// Only this driver.
    #[arg(long)]
    driver: Option<String>,
    /// Only this number of shards.
    #[arg(long)]
    shards: Option<u16>,
}

/// Runs both drivers with one shard and two.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let (mut results, mut words, mut met) = (Vec::new(), Vec::new(), true);
    for driver in ["uring", "epoll"].into_iter().filter(|d| options.driver.as_deref().is_none_or(|wanted| wanted == *d))
    {
        for shards in [1, 2].into_iter().filter(|n| options.shards.is_none_or(|wanted| wanted == *n)) {
            let (value, slope) = one(throng, options, driver, shards)?;
            words.push(format!("{driver}, {shards} shards: {slope:.0}"));
            // Memory that shrinks while sessions come says that the start was still being given back, and nothing of them.
            met &= slope > 0.0 && slope <= BYTES_MOST;
            results.push(value);
        }
    }
    let value = json!({
        "what": "slope of the server's anonymous resident memory over idle, authenticated, available sessions, plain",
        "target_bytes_a_session": BYTES_MOST,
        "results": results,
        "met": met,
    });
    Ok(Outcome { name: "memory", line: format!("memory, bytes a session: {}", words.join("; ")), met, value })
}

fn one(throng: &Path, options: &Options, driver: &str, shards: u16) -> io::Result<(Value, f64)> {
    let folder = Folder::new("memory")?;
    let plan = Plan::new(throng, &folder.path().join("data")).driver(driver).shards(shards);
    let plan = plan.flag("--cache-seconds=2");
    plan.import((0..options.to).map(|i| format!("user{i:06}")))?;
    let mut server = plan.start()?;
    // What the start has left is given back to the kernel by and by: a first round brings that about.
    let empty = server.memory()?;
    let mut swarm = Swarm::new()?;
    grow(&server, &mut swarm, options.from, options.settle)?;
    drop(swarm);
    std::thread::sleep(Duration::from_secs(options.settle));
    let mut swarm = Swarm::new()?;
    let first = grow(&server, &mut swarm, options.from, options.settle)?;
    let second = grow(&server, &mut swarm, options.to, options.settle)?;
    let open = swarm.conns.iter().filter(|conn| conn.is_open()).count();
    if open != options.to || !server.runs() {
        return Err(io::Error::other(format!("{open} of {} sessions are left", options.to)));
    }
    let a_session =
        |of: fn(&Memory) -> u64| (of(&second) as f64 - of(&first) as f64) / (options.to - options.from) as f64;
    let (slope, rss) = (a_session(|m| m.anonymous), a_session(|m| m.rss));
    eprintln!("{driver}, {shards} shards: {slope:.0} bytes a session (rss {rss:.0}); {empty:?} {first:?} {second:?}");
    let value = json!({
        "driver": driver,
        "shards": shards,
        "sessions": [options.from, options.to],
        "anonymous_bytes": [empty.anonymous, first.anonymous, second.anonymous],
        "rss_bytes": [empty.rss, first.rss, second.rss],
        "bytes_a_session": slope.round(),
        "rss_bytes_a_session": rss.round(),
        "panics": server.panics(),
    });
    Ok((value, slope))
}

/// Opens sessions until there are `count`, waits until the server has settled.
fn grow(server: &Server, swarm: &mut Swarm, count: usize, settle: u64) -> io::Result<Memory> {
    let logins = (swarm.conns.len()..count).map(|i| Login {
        name: format!("user{i:06}"),
        resource: "phone".into(),
        managed: false,
        available: true,
    });
    swarm.log_in(server.plain, logins.collect(), 100)?;
    let end = Instant::now() + Duration::from_secs(settle);
    while Instant::now() < end {
        swarm.turn(Duration::from_millis(200), &mut |_, _| {})?;
    }
    server.settled_memory(64 << 10, Duration::from_secs(30))
}
