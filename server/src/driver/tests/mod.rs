//! One suite, run on both drivers: the guarantees of `Driver`.

use super::*;
use std::io::Read;
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::Instant;

/// Runs each of the named tests on each driver.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod uring { $(#[test] fn $name() { super::$name(super::On::Uring) })* }
        mod tables { $(#[test] fn $name() { super::$name(super::On::Tables) })* }
        mod epoll { $(#[test] fn $name() { super::$name(super::On::Epoll) })* }
    };
}

mod accepting;
mod chaos;
mod closing;
mod moving;
mod names;
mod traffic;

/// The driver under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    Uring,
    /// io_uring with several tables: two of few slots, or four.
    Tables,
    Epoll,
}

/// An owned copy of an event.
#[derive(Debug, PartialEq, Eq, Clone)]
enum Seen {
    Accepted(ConnId, ListenerTag, SocketAddr),
    Received(ConnId, Vec<u8>),
    Sent(ConnId),
    Failed(ConnId, Cause),
    Closed(ConnId),
    Arrived(u64, ConnId),
    Departed(ConnId, u64),
    DepartureFailed(ConnId, u64),
    AcceptPaused(Exhausted),
    Woken,
}

/// `None` for events that concern no connection and follow no order.
fn keep(event: Event<'_>) -> Option<Seen> {
    let seen = match event {
        Event::Accepted { conn, tag, peer } => Seen::Accepted(conn, tag, peer),
        Event::Received { conn, bytes } => Seen::Received(conn, bytes.to_vec()),
        Event::Sent { conn, buffer } => {
            assert!(buffer.is_empty());
            Seen::Sent(conn)
        }
        Event::Failed { conn, cause } => Seen::Failed(conn, cause),
        Event::Closed { conn } => Seen::Closed(conn),
        Event::Arrived { key, conn } => Seen::Arrived(key, conn),
        Event::Departed { conn, key } => Seen::Departed(conn, key),
        Event::DepartureFailed { conn, key, .. } => Seen::DepartureFailed(conn, key),
        Event::AcceptPaused { cause, .. } => Seen::AcceptPaused(cause),
        Event::Woken => Seen::Woken,
        Event::Slept | Event::Progressed { .. } => return None,
    };
    Some(seen)
}

const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    driver: Box<dyn Driver>,
    addr: SocketAddr,
    seen: Vec<Seen>,
}

fn make(kind: On, settings: &Settings) -> Box<dyn Driver> {
    let (preference, tables) = match kind {
        On::Uring => (Preference::Uring, 1),
        On::Tables => (Preference::Uring, if settings.slots < 64 { 2 } else { 4 }),
        On::Epoll => (Preference::Epoll, 1),
    };
    let settings = Settings { table_slots: settings.slots.div_ceil(tables), ..settings.clone() };
    choose(preference, &settings).expect("this host has the driver under test").driver
}

impl World {
    fn new(kind: On) -> World {
        World::with(kind, &Settings { linger: Duration::from_millis(300), ..Settings::default() })
    }

    fn with(kind: On, settings: &Settings) -> World {
        let mut driver = make(kind, settings);
        let listener = shared_listener("127.0.0.1:0".parse().unwrap(), 1024).unwrap();
        let addr = listener.local_addr().unwrap();
        driver.listen(listener, ListenerTag(7)).unwrap();
        World { driver, addr, seen: Vec::new() }
    }

    fn turn(&mut self, timeout: Duration) {
        let seen = &mut self.seen;
        self.driver.wait(Some(timeout), &mut |event| seen.extend(keep(event))).unwrap();
    }

    /// Runs turns until `what` finds what it looks for among all events so far.
    fn until<T>(&mut self, text: &str, what: impl Fn(&[Seen]) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = what(&self.seen) {
                return found;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "no {text} among {:?}",
                &self.seen[self.seen.len().saturating_sub(20)..]
            );
            self.turn(Duration::from_millis(20));
        }
    }

    fn until_seen(&mut self, event: &Seen) {
        self.until(&format!("{event:?}"), |seen| seen.contains(event).then_some(()));
    }

    fn connect(&mut self) -> (ConnId, TcpStream) {
        let client = TcpStream::connect(self.addr).unwrap();
        let local = client.local_addr().unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let conn = self.until("Accepted", |seen| {
            seen.iter().rev().find_map(|event| match event {
                Seen::Accepted(conn, ListenerTag(7), peer) if *peer == local => Some(*conn),
                _ => None,
            })
        });
        (conn, client)
    }

    fn bytes(&self, conn: ConnId) -> Vec<u8> {
        let mut all = Vec::new();
        for event in &self.seen {
            if let Seen::Received(from, bytes) = event
                && *from == conn
            {
                all.extend_from_slice(bytes);
            }
        }
        all
    }

    fn until_bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        let start = Instant::now();
        while self.bytes(conn).len() < bytes.len() {
            assert!(start.elapsed() < PATIENCE, "{} of {} bytes", self.bytes(conn).len(), bytes.len());
            self.turn(Duration::from_millis(20));
        }
        assert!(self.bytes(conn) == bytes, "other bytes than were sent");
    }

    /// Runs turns until nothing has happened for a while.
    fn quiet(&mut self, for_ms: u64) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(for_ms) {
            self.turn(Duration::from_millis(5));
        }
    }

    fn has(&self, event: &Seen) -> bool {
        self.seen.contains(event)
    }
}

fn pattern(length: usize) -> Vec<u8> {
    // Tests ask for megabytes in an unoptimised build: the repeating part is copied.
    static PERIOD: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..251 * 256).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect());
    let mut all = Vec::with_capacity(length);
    while all.len() < length {
        all.extend_from_slice(&PERIOD[..PERIOD.len().min(length - all.len())]);
    }
    all
}

fn read_all(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    client.read_to_end(&mut all).map(|_| all)
}

#[test]
fn what_was_asked_for_is_chosen() {
    let chosen = choose(Preference::Epoll, &Settings::default()).unwrap();
    assert_eq!((chosen.driver.kind(), chosen.fallback), (Kind::Epoll, None));
    let chosen = choose(Preference::Auto, &Settings::default()).unwrap();
    // Either io_uring works, or the reason is given.
    assert_eq!(chosen.fallback.is_some(), chosen.driver.kind() == Kind::Epoll);
}
