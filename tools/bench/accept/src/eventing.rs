//! CPU of the server for a publication to many interested contacts (XEP-0163 4.3), against as many bare sends in the same run.
//!
//! One user publishes items of a node on the own account; every contact's client has said by its capabilities (XEP-0115) that it is
//! interested. The next item is published when its time has come and all contacts have the one before. The floor is `raw fan-out`: one
//! connection sends, all others are sent it, at the same rate and with the bytes of a notification. Both take turns; medians are compared.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use serde_json::{Value, json};

use crate::client::Login;
use crate::report::{Outcome, median, spread};
use crate::server::{Folder, Plan, Server};
use crate::swarm::Swarm;

/// What a publication may cost, times the bare sends.
const MOST: f64 = 1.3;
const NODE: &str = "http://jabber.org/protocol/tune";
/// The hash (XEP-0115 5.1) of `client/pc//accept<http://jabber.org/protocol/tune+notify<`.
const HASH: &str = "IwriJOo6ZvEvSrspBWfrAA+vc9k=";
const END: &[u8] = b"</message>";

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Contacts that are interested.
    #[arg(long, default_value_t = 1_000)]
    contacts: usize,
    /// Items that are published in a run; two more come first.
    #[arg(long, default_value_t = 20)]
    items: usize,
    /// Items per second.
    #[arg(long, default_value_t = 2.0)]
    rate: f64,
    /// Runs of each.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Bytes of an item's text.
    #[arg(long, default_value_t = 60)]
    bytes: usize,
    /// The program of the bare sends.
    #[arg(long, default_value = "target/dist/raw")]
    raw: PathBuf,
    /// The server's driver.
    #[arg(long, default_value = "uring")]
    driver: String,
    /// Shards of the server.
    #[arg(long, default_value_t = 2)]
    shards: u16,
}

/// Runs everything.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let (mut floor, mut cost) = (Vec::new(), Vec::new());
    for _ in 0..options.runs.max(1) {
        let (cpu_us, bytes) = publications(throng, options)?;
        let bare_us = bare(options, bytes)?;
        eprintln!("{cpu_us:.2} us for each contact, {bare_us:.2} us for a bare send of {bytes} bytes");
        cost.push(cpu_us);
        floor.push(bare_us);
    }
    let times = median(cost.clone()) / median(floor.clone());
    let met = times <= MOST;
    let verdict = if met { "met" } else { "NOT met" };
    let line = format!(
        "an item to {} interested contacts: {times:.2} x as many bare sends, at most {MOST} x: {verdict}",
        options.contacts
    );
    let value = json!({
        "what": "server CPU, user and system, of a publication for each interested contact, and of a bare send",
        "contacts": options.contacts, "items_a_run": options.items, "items_per_s": options.rate, "shards": options.shards,
        "driver": options.driver, "cpu_us": spread(cost.into_iter()), "bare_send_us": spread(floor.into_iter()),
        "times_bare_sends": (times * 100.0).round() / 100.0, "met": met,
    });
    Ok(Outcome { name: "eventing", line, met, value })
}

/// CPU of a bare send, microseconds.
fn bare(options: &Options, bytes: usize) -> io::Result<f64> {
    let seconds = options.items as f64 / options.rate;
    let done = std::process::Command::new(&options.raw)
        .args(["fan-out", "--receivers", &options.contacts.to_string(), "--rate", &options.rate.to_string()])
        .args(["--bytes", &bytes.to_string(), "--seconds", &seconds.to_string()])
        .output()?;
    if !done.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
    }
    let figures: Value = serde_json::from_slice(&done.stdout)?;
    figures["server_cpu_us_per_delivery"].as_f64().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// CPU of the server for each contact that is told, microseconds, and bytes of what it is told.
fn publications(throng: &Path, options: &Options) -> io::Result<(f64, usize)> {
    let folder = Folder::new("eventing")?;
    let plan = Plan::new(throng, &folder.path().join("data")).driver(&options.driver).shards(options.shards);
    plan.import((0..options.contacts).map(contact).chain(["publisher".to_owned()]))?;
    let server = plan.start()?;
    let mut crowd = Crowd::new(&server, options)?;
    let item = |n: usize| {
        let text = "t".repeat(options.bytes);
        format!(
            "<iq type='set' id='p{n}'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='{NODE}'><item id='{n}'>\
             <tune xmlns='{NODE}'><title>{text}</title></tune></item></publish></pubsub></iq>"
        )
    };
    let cpu = || server.cpu().map(|threads| threads.iter().map(|(_, ns)| *ns as f64).sum::<f64>());
    let mut began = (Instant::now(), 0.0, 0);
    for n in 0..options.items + 2 {
        if n == 2 {
            began = (Instant::now(), cpu()?, crowd.bytes);
        }
        crowd.publisher.write_all(item(n).as_bytes())?;
        crowd.all_told(n + 1)?;
        let due = began.0 + Duration::from_secs_f64((n.saturating_sub(1)) as f64 / options.rate);
        crowd.until(due)?;
    }
    let told = options.contacts * options.items;
    Ok(((cpu()? - began.1) / 1_000.0 / told as f64, (crowd.bytes - began.2) / told))
}

fn contact(n: usize) -> String {
    format!("contact{n:05}")
}

/// The publisher, and the contacts, who are interested.
struct Crowd {
    publisher: TcpStream,
    contacts: Vec<TcpStream>,
    poll: std::os::fd::OwnedFd,
    /// Notifications that each has got.
    told: Vec<usize>,
    /// Bytes that have come to contacts.
    bytes: usize,
    tails: Vec<Vec<u8>>,
}

impl Crowd {
    fn new(server: &Server, options: &Options) -> io::Result<Crowd> {
        let mut swarm = Swarm::new()?;
        let login = |name: String| Login { name, resource: "r".into(), ..Login::default() };
        let logins = (0..options.contacts).map(contact).chain(["publisher".to_owned()]).map(login);
        swarm.log_in(server.plain, logins.collect(), 100)?;
        let mut contacts = swarm.into_streams();
        let mut publisher = contacts.pop().ok_or(ErrorKind::NotConnected)?;
        publisher.set_nonblocking(false)?;
        // RFC 6121 3.4: approved before they ask.
        for n in 0..options.contacts {
            publisher.write_all(format!("<presence type='subscribed' to='{}@localhost'/>", contact(n)).as_bytes())?;
        }
        publisher.write_all(b"<presence/>")?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let tails = vec![Vec::new(); contacts.len()];
        let told = vec![0; contacts.len()];
        let mut crowd = Crowd { publisher, contacts, poll, told, bytes: 0, tails };
        for (index, stream) in crowd.contacts.iter().enumerate() {
            epoll::add(&crowd.poll, stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        }
        crowd.drain_publisher()?;
        for stream in &mut crowd.contacts {
            let caps =
                format!("<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:accept' ver='{HASH}'/>");
            let says = format!("<presence type='subscribe' to='publisher@localhost'/><presence>{caps}</presence>");
            stream.write_all(says.as_bytes())?;
        }
        crowd.until(Instant::now() + Duration::from_secs(3))?;
        Ok(crowd)
    }

    /// Takes what the publisher is sent, for a moment: answers are nothing to it.
    fn drain_publisher(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        self.publisher.set_read_timeout(Some(Duration::from_millis(500)))?;
        loop {
            match self.publisher.read(&mut buffer) {
                Ok(0) => return Err(io::Error::other("the server has closed the publisher's connection")),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => return Err(error),
            }
        }
        self.publisher.set_read_timeout(None)
    }

    /// All contacts have got so many.
    fn all_told(&mut self, wanted: usize) -> io::Result<()> {
        let end = Instant::now() + Duration::from_secs(20);
        while self.told.iter().any(|told| *told < wanted) {
            if Instant::now() > end {
                let came = self.told.iter().filter(|told| **told >= wanted).count();
                return Err(io::Error::other(format!("item {wanted} came to {came} of {}", self.told.len())));
            }
            self.turn(Duration::from_millis(50))?;
        }
        Ok(())
    }

    fn until(&mut self, end: Instant) -> io::Result<()> {
        while Instant::now() < end {
            self.turn(end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)))?;
        }
        Ok(())
    }

    fn turn(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        match epoll::wait(&self.poll, spare_capacity(&mut events), Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        let mut buffer = vec![0; 16 << 10];
        for event in events.drain(..) {
            let index = event.data.u64() as usize;
            let count = match self.contacts[index].read(&mut buffer) {
                Ok(0) => return Err(io::Error::other("the server has closed a connection")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            self.bytes += count;
            self.came(index, &buffer[..count])?;
        }
        Ok(())
    }

    /// Counts notifications, and answers who asks what the client can do.
    fn came(&mut self, index: usize, bytes: &[u8]) -> io::Result<()> {
        let tail = &mut self.tails[index];
        tail.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(tail).into_owned();
        self.told[index] += text.matches("#event").count().min(text.matches("</message>").count());
        if let Some(asks) = text.split("<iq ").find(|iq| iq.contains("disco#info") && iq.contains("type='get'")) {
            let id = asks.split("id='").nth(1).and_then(|rest| rest.split('\'').next()).unwrap_or_default();
            let answer = format!(
                "<iq type='result' id='{id}' to='localhost'><query xmlns='http://jabber.org/protocol/disco#info'>\
                 <identity category='client' type='pc' name='accept'/><feature var='{NODE}+notify'/></query></iq>"
            );
            self.contacts[index].write_all(answer.as_bytes())?;
        }
        // What is not whole yet is looked at again with the rest of it.
        let whole = text.rfind('>').map_or(0, |at| at + 1);
        let is_whole = text.ends_with('>') && (!text.contains("<message") || text.ends_with("</message>"));
        if is_whole && whole > 0 {
            tail.clear();
        } else if text.contains("</message>") {
            let at = text.rfind("</message>").map_or(0, |at| at + END.len());
            tail.drain(..at);
        }
        Ok(())
    }
}
