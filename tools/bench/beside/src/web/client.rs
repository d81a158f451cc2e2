//! The load: subscribers that wait, and publishers that publish on time, on one thread with one epoll.
//!
//! The loop is open: items are due at even intervals whatever the server does, and a delivery's time counts from then. The same
//! code reads for all servers; only what a protocol says differs.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::item::{Faults, Item, find, take};
use super::{Publish, Stage, Talk};

/// Connections that publish. A channel has one of them, so its items have an order.
const PUBLISHERS: u32 = 16;
/// Connections made per second.
const RAMP_PER_S: f64 = 4_000.0;
/// Of these so many at once wait for the server's word.
const UNDER_WAY_MAX: usize = 128;
/// All have to wait within this time.
const RAMP_WITHIN: Duration = Duration::from_secs(60);
/// The first item of every channel has to have come within this time.
const FIRST_WITHIN: Duration = Duration::from_secs(30);
/// What was published has to have come within this time after the last item.
const DRAIN: Duration = Duration::from_secs(5);
/// Bytes of a content.
const CONTENT_BYTES: usize = 100;
/// Events taken in one call.
const EVENTS: usize = 256;

/// What is to be published.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Rate {
    /// Items per second in all.
    pub(crate) items_per_s: f64,
    /// For so long.
    pub(crate) seconds: f64,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Told {
    /// Items that came, each to each.
    pub(crate) deliveries: u64,
    /// What did not come once and in order.
    pub(crate) faults: u64,
    /// Of deliveries, from when the item was due, milliseconds.
    pub(crate) p50_ms: f64,
    /// The same.
    pub(crate) p99_ms: f64,
    /// How long the first item of every channel took, seconds: publishers as fast as the server, before what is measured.
    pub(crate) first_s: f64,
    /// How late items were handed to the kernel, milliseconds: the load's own part, and that of publications under way.
    pub(crate) late_p99_ms: f64,
}

/// Where and how.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// Where subscribers connect.
    pub(crate) at: SocketAddr,
    /// What they speak.
    pub(crate) talk: &'static dyn Talk,
    /// Where publishers connect.
    pub(crate) publish_at: SocketAddr,
    /// What they speak.
    pub(crate) publish: &'static dyn Publish,
    /// Channels, over which subscribers are spread evenly.
    pub(crate) channels: u32,
}

struct Subscriber {
    stream: TcpStream,
    stage: Stage,
    channel: u32,
    /// The number of the last item.
    seen: u32,
    /// What is not whole.
    partial: Vec<u8>,
}

struct Publisher {
    stream: TcpStream,
    partial: Vec<u8>,
    /// Items that wait for the answer before; bounded by the items of a run.
    waiting: VecDeque<Item>,
    is_busy: bool,
}

/// See the module.
pub(crate) struct Client {
    target: Target,
    epoll: OwnedFd,
    /// The first of them are named from 0 to the kernel, publishers from [`FIRST_PUBLISHER`].
    subscribers: Vec<Subscriber>,
    publishers: Vec<Publisher>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    start: Instant,
    ready: usize,
    /// The last number of each channel.
    numbers: Vec<u32>,
    deliveries: u64,
    faults: Faults,
    took_us: Vec<u32>,
    late_us: Vec<u32>,
}

/// Makes room for so many connections, in this process and in those that it starts: the limit of descriptors may be raised up
/// to a hard one.
///
/// # Errors
/// The hard one is lower.
pub(crate) fn make_room(connections: usize) -> io::Result<()> {
    let wanted = connections as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if let Some(hard) = limit.maximum.filter(|hard| *hard < wanted) {
        let told = format!(
            "{connections} connections need {wanted} descriptors, and no more than {hard} are allowed (ulimit -Hn)"
        );
        return Err(io::Error::other(told));
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })?)
}

/// Descriptors for all else.
const OTHER_DESCRIPTORS: u64 = 500;

const FIRST_PUBLISHER: u64 = 1 << 32;

fn name(channel: u32) -> String {
    format!("load.{channel}")
}

fn failed(who: &str, number: usize, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{who} {number}: {why}"))
}

/// The value that this share of all does not exceed.
fn quantile(sorted: &[u32], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).map_or(0.0, |us| f64::from(*us) / 1000.0)
}

impl Client {
    /// Nobody subscribes yet.
    pub(crate) fn new(target: Target) -> io::Result<Client> {
        Ok(Client {
            target,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            subscribers: Vec::new(),
            publishers: Vec::new(),
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; 128 << 10],
            start: Instant::now(),
            ready: 0,
            numbers: vec![0; target.channels as usize],
            deliveries: 0,
            faults: Faults::default(),
            took_us: Vec::new(),
            late_us: Vec::new(),
        })
    }

    fn connect(&self, at: SocketAddr, number: u64, first: &[u8]) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        stream.write_all(first)?;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        Ok(stream)
    }

    /// Connects until there are so many subscribers and all of them wait.
    ///
    /// # Errors
    /// One is refused or ended, or not all wait in time.
    pub(crate) fn subscribe(&mut self, count: usize) -> io::Result<()> {
        let started = Instant::now();
        let before = self.subscribers.len();
        while self.ready < count {
            if started.elapsed() > RAMP_WITHIN {
                let told = format!("only {} of {count} subscribers wait after {RAMP_WITHIN:?}", self.ready);
                return Err(io::Error::other(told));
            }
            let may = before + (started.elapsed().as_secs_f64() * RAMP_PER_S) as usize + 1;
            while self.subscribers.len() < count.min(may) && self.subscribers.len() - self.ready < UNDER_WAY_MAX {
                self.subscribe_one()?;
            }
            self.serve(Duration::from_millis(1))?;
        }
        Ok(())
    }

    fn subscribe_one(&mut self) -> io::Result<()> {
        let number = self.subscribers.len();
        let channel = number as u32 % self.target.channels;
        let mut first = Vec::new();
        self.target.talk.begin(&name(channel), &mut first);
        let stream = self
            .connect(self.target.at, number as u64, &first)
            .map_err(|error| failed("subscriber", number, format!("no connection: {error}")))?;
        let ready = self.target.talk.is_silent();
        self.ready += usize::from(ready);
        let stage = Stage { ready, ..Stage::default() };
        self.subscribers.push(Subscriber { stream, stage, channel, seen: 0, partial: Vec::new() });
        Ok(())
    }

    /// Serves the connections for so long, or once if something is due sooner.
    pub(crate) fn serve(&mut self, at_most: Duration) -> io::Result<()> {
        self.serve_between(at_most, &mut |_| Ok(()))
    }

    /// Serves once; `between` is called before each event and may publish.
    fn serve_between(
        &mut self,
        at_most: Duration,
        between: &mut dyn FnMut(&mut Client) -> io::Result<()>,
    ) -> io::Result<()> {
        let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        let mut events = std::mem::take(&mut self.events);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            other => {
                other?;
            }
        }
        for event in events.drain(..) {
            between(self)?;
            match event.data.u64() {
                number @ ..FIRST_PUBLISHER => self.read_subscriber(number as usize)?,
                number => self.read_publisher((number - FIRST_PUBLISHER) as usize)?,
            }
        }
        self.events = events;
        Ok(())
    }

    fn read_subscriber(&mut self, number: usize) -> io::Result<()> {
        let Client { subscribers, buffer, target, .. } = self;
        let subscriber = &mut subscribers[number];
        let Some(bytes) = read_more(&mut subscriber.stream, &mut subscriber.partial, buffer, "subscriber", number)?
        else {
            return Ok(());
        };
        let now_us = self.start.elapsed().as_micros() as u64;
        let (mut rest, mut out) = (&bytes[..], Vec::new());
        let was_ready = subscriber.stage.ready;
        let Subscriber { stage, channel, seen, .. } = subscriber;
        let (deliveries, faults, took_us) = (&mut self.deliveries, &mut self.faults, &mut self.took_us);
        let mut on_content = |content: &[u8]| {
            find(content, &mut |item| {
                if take(seen, *channel, item, faults) {
                    *deliveries += 1;
                    let due_us = item.map_or(now_us, |item| item.due_us);
                    took_us.push(now_us.saturating_sub(due_us).try_into().unwrap_or(u32::MAX));
                }
            });
        };
        // Only a handshake asks for the name again.
        let own_name = if was_ready && !target.talk.is_silent() { String::new() } else { name(*channel) };
        while let Some(used) = target
            .talk
            .read(stage, &own_name, rest, &mut out, &mut on_content)
            .map_err(|why| failed("subscriber", number, why))?
        {
            rest = &rest[used..];
        }
        let rest = rest.to_vec();
        if !out.is_empty() {
            subscriber.stream.write_all(&out).map_err(|error| failed("subscriber", number, error))?;
        }
        self.ready += usize::from(!was_ready && subscriber.stage.ready);
        subscriber.partial = rest;
        Ok(())
    }

    fn read_publisher(&mut self, number: usize) -> io::Result<()> {
        let Client { publishers, buffer, target, .. } = self;
        let publisher = &mut publishers[number];
        let mut is_over = false;
        let Some(bytes) = read_more(&mut publisher.stream, &mut publisher.partial, buffer, "publisher", number)? else {
            return Ok(());
        };
        let (mut rest, mut out) = (&bytes[..], Vec::new());
        while let Some((used, closes)) =
            target.publish.read(rest, &mut out).map_err(|why| failed("publisher", number, why))?
        {
            rest = &rest[used..];
            publisher.is_busy = false;
            is_over |= closes;
        }
        publisher.partial = rest.to_vec();
        if !out.is_empty() {
            publisher.stream.write_all(&out)?;
        }
        // A server may bound the requests of a connection.
        if is_over {
            let stream = self.connect_publisher(number)?;
            self.publishers[number].stream = stream;
            self.publishers[number].partial.clear();
        }
        self.publish_next(number)
    }

    /// Sends what waits, unless an answer has to come first.
    fn publish_next(&mut self, number: usize) -> io::Result<()> {
        let publisher = &mut self.publishers[number];
        let is_answered = self.target.publish.is_answered();
        while !publisher.is_busy {
            let Some(item) = publisher.waiting.pop_front() else { return Ok(()) };
            let mut out = Vec::new();
            self.target.publish.publish(&name(item.channel), &item.write(CONTENT_BYTES), &mut out);
            publisher.stream.write_all(&out).map_err(|error| failed("publisher", number, error))?;
            publisher.is_busy = is_answered;
            let late_us = (self.start.elapsed().as_micros() as u64).saturating_sub(item.due_us);
            self.late_us.push(late_us.try_into().unwrap_or(u32::MAX));
        }
        Ok(())
    }

    fn connect_publisher(&self, number: usize) -> io::Result<TcpStream> {
        let mut first = Vec::new();
        self.target.publish.begin(&mut first);
        self.connect(self.target.publish_at, FIRST_PUBLISHER + number as u64, &first)
            .map_err(|error| failed("publisher", number, format!("no connection: {error}")))
    }

    fn connect_publishers(&mut self) -> io::Result<()> {
        for number in 0..PUBLISHERS.min(self.target.channels) as usize {
            let stream = self.connect_publisher(number)?;
            self.publishers.push(Publisher { stream, partial: Vec::new(), waiting: VecDeque::new(), is_busy: false });
        }
        Ok(())
    }

    /// Hands each item that is due to its publisher. `made` counts them.
    fn publish_due(&mut self, rate: Rate, began: Duration, made: &mut u64) -> io::Result<()> {
        let all = (rate.items_per_s * rate.seconds) as u64;
        while *made < all {
            let due = began + Duration::from_secs_f64(*made as f64 / rate.items_per_s);
            if self.start.elapsed() < due {
                break;
            }
            // All channels in turn, but not neighbours one after the other.
            let channel = (*made * 7919 % u64::from(self.target.channels)) as u32;
            *made += 1;
            let number = &mut self.numbers[channel as usize];
            *number += 1;
            let item = Item { channel, number: *number, due_us: due.as_micros() as u64 };
            let publisher = channel as usize % self.publishers.len();
            self.publishers[publisher].waiting.push_back(item);
            self.publish_next(publisher)?;
        }
        Ok(())
    }

    /// Publishes, and waits until all of it has come, or long enough. Publishers connect a moment before.
    ///
    /// # Errors
    /// A connection is refused or ended.
    pub(crate) fn run(&mut self, rate: Rate, on_begin: &mut dyn FnMut() -> io::Result<()>) -> io::Result<Told> {
        self.connect_publishers()?;
        let rest = Instant::now();
        while rest.elapsed() < Duration::from_secs(1) {
            self.serve(Duration::from_millis(20))?;
        }
        let first_s = self.publish_first()?;
        let rest = Instant::now();
        while rest.elapsed() < Duration::from_millis(500) {
            self.serve(Duration::from_millis(20))?;
        }
        on_begin()?;
        let began = self.start.elapsed();
        let all = (rate.items_per_s * rate.seconds) as u64;
        let mut made = 0;
        while made < all {
            self.publish_due(rate, began, &mut made)?;
            let due = began + Duration::from_secs_f64(made as f64 / rate.items_per_s);
            let wait = due.saturating_sub(self.start.elapsed()).min(Duration::from_millis(20));
            let mut again = made;
            self.serve_between(wait, &mut |client| client.publish_due(rate, began, &mut again))?;
            made = again;
        }
        let wanted = self.wanted();
        let drain = Instant::now();
        while self.deliveries < wanted && drain.elapsed() < DRAIN {
            self.serve(Duration::from_millis(5))?;
        }
        self.told(wanted, first_s)
    }

    /// One item to every channel, so that all are made; it does not count.
    fn publish_first(&mut self) -> io::Result<f64> {
        let began = self.start.elapsed();
        for channel in 0..self.target.channels {
            let publisher = channel as usize % self.publishers.len();
            let item = Item { channel, number: 1, due_us: began.as_micros() as u64 };
            self.numbers[channel as usize] = 1;
            self.publishers[publisher].waiting.push_back(item);
            self.publish_next(publisher)?;
        }
        let wanted = self.subscribers.len() as u64;
        while self.deliveries < wanted {
            if self.start.elapsed() - began > FIRST_WITHIN {
                let told = format!("of {wanted} first items only {} have come in {FIRST_WITHIN:?}", self.deliveries);
                return Err(io::Error::other(told));
            }
            self.serve(Duration::from_millis(5))?;
        }
        self.deliveries = 0;
        self.took_us.clear();
        self.late_us.clear();
        Ok((self.start.elapsed() - began).as_secs_f64())
    }

    /// Deliveries that there have to be, without the first of each channel.
    fn wanted(&self) -> u64 {
        let of = |subscriber: &Subscriber| u64::from(self.numbers[subscriber.channel as usize] - 1);
        self.subscribers.iter().map(of).sum()
    }

    fn told(&mut self, wanted: u64, first_s: f64) -> io::Result<Told> {
        if self.deliveries == 0 {
            return Err(io::Error::other("nothing of what was published has come to any subscriber"));
        }
        self.took_us.sort_unstable();
        self.late_us.sort_unstable();
        // What was passed over is among what has not come.
        let (missing, faults) = (wanted.saturating_sub(self.deliveries), self.faults);
        Ok(Told {
            deliveries: self.deliveries,
            faults: faults.sum() - faults.lost + missing,
            p50_ms: quantile(&self.took_us, 0.5),
            p99_ms: quantile(&self.took_us, 0.99),
            first_s,
            late_p99_ms: quantile(&self.late_us, 0.99),
        })
    }
}

/// What was not whole with what has come now; none: nothing has.
fn read_more(
    stream: &mut TcpStream,
    partial: &mut Vec<u8>,
    buffer: &mut [u8],
    who: &str,
    number: usize,
) -> io::Result<Option<Vec<u8>>> {
    match stream.read(buffer) {
        Ok(0) => {
            let told = String::from_utf8_lossy(&partial[..partial.len().min(300)]).into_owned();
            Err(failed(who, number, format!("the server has ended the connection {told}")))
        }
        Ok(count) => {
            let mut bytes = std::mem::take(partial);
            bytes.extend_from_slice(&buffer[..count]);
            Ok(Some(bytes))
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(failed(who, number, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::nats::Nats;
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    /// A server that speaks as much of NATS as it takes, and loses the items with the number `lost`.
    fn server(lost: &'static str) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let at = listener.local_addr().expect("it has one");
        let all: Arc<Mutex<Vec<(String, TcpStream)>>> = Arc::default();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let all = all.clone();
                std::thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().expect("a clone")).lines();
                    while let Some(Ok(line)) = lines.next() {
                        let words: Vec<_> = line.split(' ').collect();
                        match words[..] {
                            ["SUB", channel, _] => {
                                let own = stream.try_clone().expect("a clone");
                                all.lock().expect("no panic").push((channel.to_owned(), own));
                            }
                            ["PING"] => (&stream).write_all(b"PONG\r\n").expect("it reads"),
                            ["PUB", channel, length] => {
                                let content = lines.next().expect("a content").expect("text");
                                if content.split('.').nth(1) == Some(lost) {
                                    continue;
                                }
                                let text = format!("MSG {channel} 1 {length}\r\n{content}\r\n");
                                for (_, to) in all.lock().expect("no panic").iter_mut().filter(|to| to.0 == channel) {
                                    to.write_all(text.as_bytes()).expect("it reads");
                                }
                            }
                            _ => {}
                        }
                    }
                });
            }
        });
        at
    }

    fn told(lost: &'static str) -> Told {
        let at = server(lost);
        let target = Target { at, talk: &Nats, publish_at: at, publish: &Nats, channels: 3 };
        let mut client = Client::new(target).expect("an epoll");
        client.subscribe(7).expect("all wait");
        let mut begun = false;
        let rate = Rate { items_per_s: 100.0, seconds: 0.3 };
        let on_begin = &mut || {
            begun = true;
            Ok(())
        };
        let told = client.run(rate, on_begin).expect("it runs");
        assert!(begun);
        told
    }

    #[test]
    fn each_delivery_is_counted_and_its_time_is_from_when_it_was_due() {
        let told = told("none");
        // Thirty items over three channels, with three, two and two subscribers.
        assert_eq!((told.deliveries, told.faults), (70, 0));
        assert!(told.p50_ms <= told.p99_ms && told.p99_ms < 1000.0, "{told:?}");
    }

    #[test]
    fn what_a_server_loses_is_a_fault_for_each_who_waits_for_it() {
        let told = told("2");
        assert_eq!((told.deliveries, told.faults), (63, 7));
    }

    #[test]
    fn who_is_refused_is_told() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let at = listener.local_addr().expect("it has one");
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(b"-ERR 'maximum connections exceeded'\r\n").expect("it reads");
            std::thread::sleep(Duration::from_secs(5));
        });
        let target = Target { at, talk: &Nats, publish_at: at, publish: &Nats, channels: 1 };
        let error = Client::new(target).expect("an epoll").subscribe(1).expect_err("a refusal").to_string();
        assert!(error.contains("subscriber 0") && error.contains("maximum connections"), "{error}");
    }

    #[test]
    fn more_connections_than_descriptors_are_refused_with_both_numbers() {
        assert!(make_room(1).is_ok());
        if let Some(hard) = getrlimit(Resource::Nofile).maximum.filter(|hard| *hard < 1 << 40) {
            let told = make_room(hard as usize).expect_err("no room").to_string();
            assert!(told.contains(&hard.to_string()) && told.contains(&(hard + 500).to_string()), "{told}");
        }
    }

    #[test]
    fn a_quantile_is_a_value_that_was_seen() {
        let all: Vec<u32> = (1..=100).map(|ms| ms * 1000).collect();
        assert_eq!((quantile(&all, 0.5), quantile(&all, 0.99), quantile(&all, 1.0)), (50.0, 99.0, 100.0));
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
