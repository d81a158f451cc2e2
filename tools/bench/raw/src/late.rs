//! The floor of latency at a rate: a relay that makes each message durable, under an open loop.
//!
//! The relay reads all that has come, writes it behind each other into a file that has its blocks already, syncs once
//! (`fdatasync`), and only then passes it on: the least that a server does which acknowledges nothing that it could lose.
//! Messages are due at random times (a Poisson process), as those of `throng load --in-flight 0 --rate`, and latency counts
//! from when each was due.

use crate::report::Server;
use clap::Args;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use serde::Serialize;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LISTENER: u64 = u64::MAX;
/// Bytes of the file, which is written over again and again.
const FILE_BYTES: u64 = 8 << 20;
/// Time before the measured one.
const WARM_UP: Duration = Duration::from_secs(1);

/// How much load, and where the file is.
#[derive(Clone, Debug, Args)]
pub(crate) struct Late {
    /// Pairs of connections.
    #[arg(long, default_value_t = 100)]
    pairs: usize,
    /// Messages a second over all pairs.
    #[arg(long, default_value_t = 5000.0)]
    rate: f64,
    /// Bytes of a message.
    #[arg(long, default_value_t = 180)]
    bytes: usize,
    /// Measured time, seconds.
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// Folder for the file; without one nothing is written.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Relays until killed; syncs what it relays if there is a folder.
pub(crate) fn serve(dir: Option<&Path>) -> io::Result<()> {
    let listener = throng::driver::shared_listener(SocketAddr::from(([127, 0, 0, 1], 0)), 4096)?;
    println!("{}", listener.local_addr()?);
    let file = dir.map(written_file).transpose()?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut conns: Vec<TcpStream> = Vec::new();
    let mut events = Vec::with_capacity(256);
    let (mut group, mut parts, mut at) = (Vec::new(), Vec::new(), 0);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match epoll::wait(&poll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                let (conn, _) = listener.accept()?;
                conn.set_nonblocking(true)?;
                epoll::add(&poll, &conn, epoll::EventData::new_u64(conns.len() as u64), epoll::EventFlags::IN)?;
                conns.push(conn);
                continue;
            }
            let index = event.data.u64() as usize;
            match conns[index].read(&mut buffer) {
                Ok(0) => epoll::delete(&poll, &conns[index])?,
                Ok(count) => {
                    parts.push((index ^ 1, group.len()..group.len() + count));
                    group.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(file) = file.as_ref().filter(|_| !group.is_empty()) {
            if at + group.len() as u64 > FILE_BYTES {
                at = 0;
            }
            file.write_all_at(&group, at)?;
            file.sync_data()?;
            at += group.len() as u64;
        }
        for (to, part) in parts.drain(..) {
            conns[to].write_all(&group[part])?;
        }
        group.clear();
    }
}

/// A file whose blocks have all been written, so that a sync has no metadata to write.
fn written_file(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!("raw-durable-{}", std::process::id()));
    let file = File::create_new(&path)?;
    // It has no name any more, so nothing is left of it.
    std::fs::remove_file(&path)?;
    let block = vec![1; 1 << 20];
    for at in (0..FILE_BYTES).step_by(block.len()) {
        file.write_all_at(&block, at)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Milliseconds from when a message was due.
#[derive(Debug, Serialize)]
struct Spread {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Spread {
    fn of(mut times: Vec<Duration>) -> Spread {
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        Spread { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

#[derive(Debug, Serialize)]
struct Outcome {
    durable: bool,
    messages: usize,
    latency_ms: Spread,
    sent_late_ms: Spread,
    server_cpu_us_per_message: f64,
}

/// Runs the relay in a process of its own and the load in this one; prints what came of it as JSON.
pub(crate) fn run(late: &Late) -> io::Result<()> {
    let dir = late.dir.as_ref().map(|dir| dir.display().to_string());
    let arguments = ["durable-server".to_owned()].into_iter().chain(dir.map(|dir| format!("--dir={dir}")));
    let (server, addr) = Server::start(&arguments.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>())?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for index in 0..late.pairs {
        let (one, other) = (TcpStream::connect(addr)?, TcpStream::connect(addr)?);
        one.set_nodelay(true)?;
        other.set_nonblocking(true)?;
        epoll::add(&poll, &other, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        from.push(one);
        to.push((other, Vec::new()));
    }
    let cpu = || crate::load::cpu_ns(&server.id().to_string());
    let (start, mut random) = (Instant::now(), 0x9e37_79b9_7f4a_7c15_u64);
    let end = WARM_UP + Duration::from_secs_f64(late.seconds);
    let (mut due, mut measured) = (WARM_UP / 10, None);
    let (mut latency, mut sent_late) = (Vec::new(), Vec::new());
    let mut message = vec![b'm'; late.bytes.max(8)];
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 << 10];
    while start.elapsed() < end + WARM_UP / 10 {
        let mut now = start.elapsed();
        if measured.is_none() && now >= WARM_UP {
            measured = Some(cpu()?);
        }
        while due <= now && due < end {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            message[..8].copy_from_slice(&(due.as_nanos() as u64).to_le_bytes());
            from[(random >> 33) as usize % late.pairs].write_all(&message)?;
            now = start.elapsed();
            if due >= WARM_UP {
                sent_late.push(now - due);
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let part = ((random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            due += Duration::from_secs_f64(-part.ln() / late.rate);
        }
        let rest = if due < end { due.saturating_sub(now) } else { Duration::from_millis(1) };
        let timeout = Timespec { tv_sec: 0, tv_nsec: rest.subsec_nanos().into() };
        // Its time is exact, that of epoll is rounded up to a millisecond.
        let ready = rustix::event::poll(&mut [PollFd::new(&poll, PollFlags::IN)], Some(&timeout));
        match ready {
            Err(error) if error != rustix::io::Errno::INTR => return Err(error.into()),
            _ => {}
        }
        epoll::wait(&poll, spare_capacity(&mut events), Some(&Timespec::default()))?;
        for event in events.drain(..) {
            let (conn, part) = &mut to[event.data.u64() as usize];
            let count = conn.read(&mut buffer)?;
            let now = start.elapsed();
            part.extend_from_slice(&buffer[..count]);
            while part.len() >= message.len() {
                let due = Duration::from_nanos(u64::from_le_bytes(*part.first_chunk().expect("a whole message")));
                if due >= WARM_UP {
                    latency.push(now - due);
                }
                part.drain(..message.len());
            }
        }
    }
    let used = cpu()? - measured.unwrap_or_default();
    if latency.len() != sent_late.len() || latency.is_empty() {
        return Err(io::Error::other(format!("{} of {} messages came", latency.len(), sent_late.len())));
    }
    let outcome = Outcome {
        durable: late.dir.is_some(),
        messages: latency.len(),
        server_cpu_us_per_message: used as f64 / 1e3 / latency.len() as f64,
        latency_ms: Spread::of(latency),
        sent_late_ms: Spread::of(sent_late),
    };
    println!("{}", serde_json::to_string_pretty(&outcome)?);
    Ok(())
}
