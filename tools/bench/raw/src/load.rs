//! The generator: keeps `in_flight` messages on their way in each pair, from its first connection to its second.

use crate::Window;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What one run has shown.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Outcome {
    /// Messages that reached the far end, a second.
    pub(crate) messages_per_s: f64,
    /// CPU time of the server, user and system, a message, in microseconds; zero if its process was not told.
    pub(crate) server_cpu_us_per_message: f64,
    /// The same of the generator.
    pub(crate) generator_cpu_us_per_message: f64,
}

struct Pair {
    from: TcpStream,
    to: TcpStream,
    /// Bytes of a message that has not arrived whole.
    part: usize,
}

/// CPU time of a process with one thread, in nanoseconds.
pub(crate) fn cpu_ns(process: &str) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat"))?;
    text.split_whitespace().next().and_then(|word| word.parse().ok()).ok_or(io::ErrorKind::InvalidData.into())
}

/// Connects, warms up for a second, measures.
pub(crate) fn run(addr: SocketAddr, window: Window, server: Option<u32>) -> io::Result<Outcome> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut pairs = Vec::with_capacity(window.pairs);
    for index in 0..window.pairs {
        let (from, to) = (TcpStream::connect(addr)?, TcpStream::connect(addr)?);
        from.set_nodelay(true)?;
        to.set_nonblocking(true)?;
        epoll::add(&poll, &to, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        pairs.push(Pair { from, to, part: 0 });
    }
    let message = vec![b'm'; window.bytes];
    for _ in 0..window.in_flight {
        for pair in &mut pairs {
            pair.from.write_all(&message)?;
        }
    }
    let mut turn = Turn { poll, pairs, message, events: Vec::with_capacity(256), buffer: vec![0; 64 << 10] };
    turn.until(Instant::now() + Duration::from_secs(1))?;
    let server = server.map(|pid| pid.to_string());
    let cpu = |process: &Option<String>| process.as_deref().map_or(Ok(0), cpu_ns);
    let own = Some("thread-self".to_owned());
    let (start, server_from, own_from) = (Instant::now(), cpu(&server)?, cpu(&own)?);
    let messages = turn.until(start + Duration::from_secs_f64(window.seconds))? as f64;
    let took = start.elapsed().as_secs_f64();
    if messages == 0.0 {
        return Err(io::Error::other("no message came through"));
    }
    Ok(Outcome {
        messages_per_s: messages / took,
        server_cpu_us_per_message: (cpu(&server)? - server_from) as f64 / 1000.0 / messages,
        generator_cpu_us_per_message: (cpu(&own)? - own_from) as f64 / 1000.0 / messages,
    })
}

struct Turn {
    poll: std::os::fd::OwnedFd,
    pairs: Vec<Pair>,
    message: Vec<u8>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl Turn {
    /// Answers each message that arrives with the next, and counts them.
    fn until(&mut self, end: Instant) -> io::Result<u64> {
        let mut messages = 0;
        while Instant::now() < end {
            let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            match epoll::wait(&self.poll, spare_capacity(&mut self.events), Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            for event in self.events.drain(..) {
                let pair = &mut self.pairs[event.data.u64() as usize];
                let count = pair.to.read(&mut self.buffer)?;
                if count == 0 {
                    return Err(io::Error::other("the relay has closed a connection"));
                }
                let whole = (pair.part + count) / self.message.len();
                pair.part = (pair.part + count) % self.message.len();
                messages += whole as u64;
                for _ in 0..whole {
                    pair.from.write_all(&self.message)?;
                }
            }
        }
        Ok(messages)
    }
}
