//! The generators of the two other floors: one stanza to many receivers, and connections that are only made.

use crate::load::cpu_ns;
use crate::report::Server;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use serde_json::json;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Time for what is under way to come to its end.
const SETTLE: Duration = Duration::from_millis(300);

/// One connection sends, all others of a channel are sent it, the channels in turn. Prints JSON.
pub(crate) fn fan_out(receivers: usize, channels: usize, rate: f64, bytes: usize, seconds: f64) -> io::Result<()> {
    if channels == 0 || !receivers.is_multiple_of(channels) {
        return Err(io::Error::other(
            "each channel has as many receivers: --receivers has to be a multiple of --channels",
        ));
    }
    let (server, addr) = Server::start(&["fan-server", "--channels", &channels.to_string()])?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut sender = TcpStream::connect(addr)?;
    sender.set_nodelay(true)?;
    let mut conns = Vec::with_capacity(receivers);
    for index in 0..receivers {
        let conn = TcpStream::connect(addr)?;
        conn.set_nonblocking(true)?;
        epoll::add(&poll, &conn, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        conns.push(conn);
    }
    std::thread::sleep(SETTLE);
    let stanza = vec![b'p'; bytes];
    let process = server.id().to_string();
    let (start, before) = (Instant::now(), cpu_ns(&process)?);
    let (mut sent, mut received) = (0_u32, 0);
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 << 10];
    let end = start + Duration::from_secs_f64(seconds);
    while Instant::now() < end + SETTLE {
        let due = start + Duration::from_secs_f64(f64::from(sent) / rate);
        if Instant::now() >= due && due < end {
            sender.write_all(&stanza)?;
            sent += 1;
        }
        let wait = due.saturating_duration_since(Instant::now()).min(Duration::from_millis(10));
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        match epoll::wait(&poll, spare_capacity(&mut events), Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for event in events.drain(..) {
            match conns[event.data.u64() as usize].read(&mut buffer) {
                Ok(0) => return Err(io::Error::other("the server has closed a connection")),
                Ok(count) => received += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    let deliveries = received / bytes;
    let due = sent as usize * (receivers / channels);
    if deliveries != due {
        return Err(io::Error::other(format!("{deliveries} of {due} came")));
    }
    let us = (cpu_ns(&process)? - before) as f64 / 1000.0;
    let out = json!({
        "receivers": receivers, "channels": channels, "stanza_bytes": bytes, "stanzas": sent, "deliveries_per_s": deliveries as f64 / seconds,
        "server_cpu_us_per_delivery": (us / deliveries as f64 * 1000.0).round() / 1000.0,
    });
    println!("{out:#}");
    Ok(())
}

/// Connections one after the other, all kept. Prints JSON.
pub(crate) fn accept(connections: usize) -> io::Result<()> {
    let (server, addr) = Server::start(&["fan-server", "--accept"])?;
    let process = server.id().to_string();
    let (start, before) = (Instant::now(), cpu_ns(&process)?);
    let conns = (0..connections).map(|_| TcpStream::connect(addr)).collect::<io::Result<Vec<_>>>()?;
    let took = start.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    let us = (cpu_ns(&process)? - before) as f64 / 1000.0;
    let out = json!({
        "connections": conns.len(), "connections_per_s": (connections as f64 / took).round(),
        "server_cpu_us_per_connection": (us / connections as f64 * 100.0).round() / 100.0,
    });
    println!("{out:#}");
    Ok(())
}
