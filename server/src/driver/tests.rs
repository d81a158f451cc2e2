//! One suite, run on both drivers: what `Driver` promises.

use super::*;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// An event that may be kept.
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

fn keep(event: Event<'_>) -> Seen {
    match event {
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
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

struct World {
    driver: Box<dyn Driver>,
    addr: SocketAddr,
    seen: Vec<Seen>,
}

fn make(kind: Preference, settings: &Settings) -> Box<dyn Driver> {
    choose(kind, settings).expect("this host has the driver under test").driver
}

impl World {
    fn new(kind: Preference) -> World {
        World::with(kind, &Settings { linger: Duration::from_millis(300), ..Settings::default() })
    }

    fn with(kind: Preference, settings: &Settings) -> World {
        let mut driver = make(kind, settings);
        let listener = shared_listener("127.0.0.1:0".parse().unwrap(), 1024).unwrap();
        let addr = listener.local_addr().unwrap();
        driver.listen(listener, ListenerTag(7)).unwrap();
        World { driver, addr, seen: Vec::new() }
    }

    fn turn(&mut self, timeout: Duration) {
        let seen = &mut self.seen;
        self.driver.wait(Some(timeout), &mut |event| seen.push(keep(event))).unwrap();
    }

    /// Turns until `what` finds what it looks for among all events so far.
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

    /// Turns until nothing has happened for a while.
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
    (0..length).map(|i| (i % 251) as u8 ^ (i / 251 % 256) as u8).collect()
}

fn read_all(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    client.read_to_end(&mut all).map(|_| all)
}

fn echo(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    for round in 0..50u8 {
        let message = vec![round; 180];
        client.write_all(&message).unwrap();
        let before = world.seen.len();
        world.until("Received", |seen| {
            seen[before..].iter().any(|event| matches!(event, Seen::Received(..))).then_some(())
        });
        let got: Vec<u8> = world.seen[before..]
            .iter()
            .flat_map(|event| if let Seen::Received(_, bytes) = event { bytes.clone() } else { Vec::new() })
            .collect();
        assert_eq!(got, message);
        world.driver.send(conn, got);
        let before = world.seen.len();
        world.until("Sent", |seen| seen[before..].contains(&Seen::Sent(conn)).then_some(()));
        let mut back = vec![0; 180];
        client.read_exact(&mut back).unwrap();
        assert_eq!(back, message);
    }
    assert_eq!(world.driver.connections(), 1);
}

fn an_empty_send_completes(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, _client) = world.connect();
    world.driver.send(conn, Vec::new());
    world.until_seen(&Seen::Sent(conn));
}

fn a_second_send_in_flight_is_the_callers_error(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, _client) = world.connect();
    world.driver.send(conn, b"one".to_vec());
    let second = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.driver.send(conn, b"two".to_vec())));
    assert!(second.is_err());
}

fn many_connections(kind: Preference) {
    const COUNT: usize = 600;
    let mut world = World::new(kind);
    let mut all: Vec<(ConnId, TcpStream)> = (0..COUNT).map(|_| world.connect()).collect();
    let mut slots: Vec<u32> = all.iter().map(|(conn, _)| conn.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), COUNT, "a slot each");
    for (index, (_, client)) in all.iter_mut().enumerate() {
        client.write_all(format!("hello {index}").as_bytes()).unwrap();
    }
    world.until("all bytes", |seen| {
        (seen.iter().filter(|event| matches!(event, Seen::Received(..))).count() >= COUNT).then_some(())
    });
    for (index, (conn, client)) in all.iter_mut().enumerate() {
        assert_eq!(world.bytes(*conn), format!("hello {index}").into_bytes());
        world.driver.send(*conn, format!("bye {index}").into_bytes());
        world.driver.close(*conn, Close::AfterSend);
        client.shutdown(Shutdown::Write).unwrap();
    }
    world.until("all closed", |seen| {
        (seen.iter().filter(|event| matches!(event, Seen::Closed(..))).count() == COUNT).then_some(())
    });
    for (index, (_, client)) in all.iter_mut().enumerate() {
        assert_eq!(read_all(client).unwrap(), format!("bye {index}").into_bytes());
    }
    assert_eq!(world.driver.connections(), 0);
}

fn split_and_large_reads(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    for byte in b"in pieces" {
        client.write_all(&[*byte]).unwrap();
        world.turn(Duration::from_millis(2));
    }
    world.until_bytes(conn, b"in pieces");
    world.seen.clear();
    let large = pattern(5 << 20);
    let copy = large.clone();
    let writer = std::thread::spawn(move || client.write_all(&copy).map(|()| client));
    world.until_bytes(conn, &large);
    drop(writer.join().unwrap().unwrap());
    world.until_seen(&Seen::Failed(conn, Cause::PeerClosed));
}

fn received_bytes_may_be_changed_in_place(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    client.write_all(b"abc").unwrap();
    let mut changed = Vec::new();
    let start = Instant::now();
    while changed.is_empty() && start.elapsed() < PATIENCE {
        world
            .driver
            .wait(Some(Duration::from_millis(20)), &mut |event| {
                if let Event::Received { bytes, .. } = event {
                    bytes.make_ascii_uppercase();
                    changed.extend_from_slice(bytes);
                }
            })
            .unwrap();
    }
    world.driver.send(conn, changed);
    world.until_seen(&Seen::Sent(conn));
    let mut back = [0; 3];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ABC");
}

fn a_slow_reader_holds_sent_back(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    let large = pattern(48 << 20);
    world.driver.send(conn, large.clone());
    world.quiet(150);
    assert!(!world.has(&Seen::Sent(conn)), "Sent although most of it is not with the kernel");
    // Reading from it goes on meanwhile.
    client.write_all(b"still here").unwrap();
    world.until_bytes(conn, b"still here");
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; 48 << 20];
        client.read_exact(&mut all).unwrap();
        all
    });
    world.until_seen(&Seen::Sent(conn));
    assert!(reader.join().unwrap() == large);
}

fn a_reset_during_a_send_fails_it(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, client) = world.connect();
    world.driver.send(conn, pattern(48 << 20));
    world.quiet(50);
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    world.until_seen(&Seen::Failed(conn, Cause::Reset));
    assert!(!world.has(&Seen::Sent(conn)));
    // Nothing more goes, and nothing more is told but the end.
    world.seen.clear();
    world.driver.send(conn, b"lost".to_vec());
    world.quiet(30);
    world.driver.close(conn, Close::AfterSend);
    world.until_seen(&Seen::Closed(conn));
    assert_eq!(world.seen, [Seen::Closed(conn)]);
    assert_eq!(world.driver.connections(), 0);
}

fn pause_and_resume(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    for round in 0..3 {
        world.seen.clear();
        world.driver.pause(conn);
        client.write_all(b"held").unwrap();
        world.quiet(50);
        client.write_all(b" back").unwrap();
        // Costs no wake-ups: every turn of the next 100 ms lasts its whole time.
        world.quiet(20);
        let (start, mut turns) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(100) {
            client.write_all(b".").unwrap();
            world.turn(Duration::from_millis(20));
            turns += 1;
        }
        assert!(turns <= 7, "{turns} turns in round {round}");
        assert!(world.bytes(conn).is_empty(), "received while paused");
        // A send goes on.
        world.driver.send(conn, b"go".to_vec());
        world.until_seen(&Seen::Sent(conn));
        client.read_exact(&mut [0; 2]).unwrap();
        world.driver.resume(conn);
        let mut whole = b"held back".to_vec();
        whole.extend(std::iter::repeat_n(b'.', turns));
        world.until_bytes(conn, &whole);
    }
    // A pause that nobody notices, and bytes after it.
    world.seen.clear();
    world.driver.pause(conn);
    world.driver.resume(conn);
    client.write_all(b"after").unwrap();
    world.until_bytes(conn, b"after");
}

fn close_after_send_delivers_everything(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    // Bytes that nobody will read must not turn the close into a reset that destroys the answer.
    client.write_all(&pattern(100_000)).unwrap();
    let answer = pattern(8 << 20);
    world.driver.send(conn, answer.clone());
    world.driver.close(conn, Close::AfterSend);
    let reader = std::thread::spawn(move || {
        let all = read_all(&mut client);
        (all, client)
    });
    world.until_seen(&Seen::Closed(conn));
    let (all, _client) = reader.join().unwrap();
    assert!(all.unwrap() == answer);
    assert_eq!(world.seen.last(), Some(&Seen::Closed(conn)));
    assert!(!world.has(&Seen::Sent(conn)), "after close there is one event only");
}

fn close_now_resets(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    world.driver.send(conn, pattern(48 << 20));
    world.quiet(20);
    world.driver.close(conn, Close::Now);
    world.until_seen(&Seen::Closed(conn));
    assert!(!world.has(&Seen::Sent(conn)));
    let error = read_all(&mut client).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(world.driver.connections(), 0);
}

fn close_now_ends_a_close_after_send(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, _client) = world.connect();
    world.driver.send(conn, pattern(48 << 20));
    world.driver.close(conn, Close::AfterSend);
    world.quiet(50);
    assert!(!world.has(&Seen::Closed(conn)), "the peer has not read");
    world.driver.close(conn, Close::Now);
    world.until_seen(&Seen::Closed(conn));
}

fn lingering_ends(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    let start = Instant::now();
    world.driver.close(conn, Close::AfterSend);
    // The peer never closes.
    world.until_seen(&Seen::Closed(conn));
    let took = start.elapsed();
    assert_eq!(read_all(&mut client).unwrap(), b"");
    assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(5), "{took:?}");
}

fn half_close_still_sends(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    client.write_all(b"last words").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    world.until_seen(&Seen::Failed(conn, Cause::PeerClosed));
    assert_eq!(world.bytes(conn), b"last words");
    world.quiet(30);
    let ends = world.seen.iter().filter(|event| matches!(event, Seen::Failed(..))).count();
    assert_eq!(ends, 1, "told once");
    world.driver.send(conn, b"answer".to_vec());
    world.until_seen(&Seen::Sent(conn));
    world.driver.close(conn, Close::AfterSend);
    world.until_seen(&Seen::Closed(conn));
    assert_eq!(read_all(&mut client).unwrap(), b"answer");
}

fn a_slot_is_used_again_under_another_generation(kind: Preference) {
    let mut world = World::with(kind, &Settings { slots: 4, ..Settings::default() });
    let mut earlier: Vec<ConnId> = Vec::new();
    for _ in 0..20 {
        let (conn, mut client) = world.connect();
        assert!(!earlier.contains(&conn), "a name is used once");
        for old in &earlier {
            // Orders for what is gone do nothing to what is.
            world.driver.send(*old, b"wrong".to_vec());
            world.driver.pause(*old);
            world.driver.close(*old, Close::Now);
        }
        world.driver.send(conn, b"right".to_vec());
        world.until_seen(&Seen::Sent(conn));
        client.read_exact(&mut [0; 5]).unwrap();
        client.write_all(b"x").unwrap();
        world.until_bytes(conn, b"x");
        world.driver.close(conn, Close::Now);
        world.until_seen(&Seen::Closed(conn));
        earlier.push(conn);
    }
    assert!(earlier.iter().any(|a| { earlier.iter().any(|b| a.slot == b.slot && a.generation != b.generation) }));
}

fn a_full_table_pauses_accepting(kind: Preference) {
    let mut world = World::with(kind, &Settings { slots: 8, linger: Duration::ZERO, ..Settings::default() });
    let mut clients: Vec<TcpStream> = (0..6).map(|_| world.connect().1).collect();
    clients.extend((0..6).map(|_| TcpStream::connect(world.addr).unwrap()));
    world.until_seen(&Seen::AcceptPaused(Exhausted::Slots));
    world.quiet(50);
    assert!(world.driver.connections() <= 8);
    let conns: Vec<ConnId> = world
        .seen
        .iter()
        .filter_map(|event| if let Seen::Accepted(conn, ..) = event { Some(*conn) } else { None })
        .collect();
    let (start, mut turns) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(100) {
        world.turn(Duration::from_millis(20));
        turns += 1;
    }
    assert!(turns <= 7, "{turns} turns of a driver that has nothing to do");
    for conn in conns {
        world.driver.close(conn, Close::AfterSend);
    }
    drop(clients);
    // And goes on by itself.
    let (conn, mut client) = world.connect();
    client.write_all(b"in").unwrap();
    world.until_bytes(conn, b"in");
}

fn wake_from_another_thread(kind: Preference) {
    let mut world = World::new(kind);
    let peer = world.driver.peer();
    // Awake: the next wait does not sleep.
    peer.wake();
    peer.wake();
    let start = Instant::now();
    world.turn(Duration::from_secs(10));
    assert_eq!(world.seen, [Seen::Woken], "several calls, one event");
    // Asleep.
    for _ in 0..20 {
        world.seen.clear();
        let peer = world.driver.peer();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(3));
            peer.wake();
        });
        world.until_seen(&Seen::Woken);
        other.join().unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(5));
    world.seen.clear();
    world.turn(Duration::from_millis(10));
    world.turn(Duration::from_millis(10));
    assert!(!world.has(&Seen::Woken), "not woken without a call");
}

fn a_time_out_is_kept(kind: Preference) {
    let mut world = World::new(kind);
    world.turn(Duration::ZERO);
    let start = Instant::now();
    world.turn(Duration::from_millis(60));
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(55) && took < Duration::from_secs(2), "{took:?}");
}

/// A thread that takes connections over and echoes on them until their peer closes.
struct Other {
    peer: Peer,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Seen>>,
}

impl Other {
    fn start(kind: Preference, settings: Settings) -> Other {
        let (sender, receiver) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut driver = make(kind, &settings);
            sender.send(driver.peer()).unwrap();
            let mut seen = Vec::new();
            let mut waiting = HashMap::<ConnId, Vec<u8>>::new();
            let mut ended = Vec::new();
            while !stopped.load(Ordering::Acquire) {
                let from = seen.len();
                driver.wait(None, &mut |event| seen.push(keep(event))).unwrap();
                for event in &seen[from..] {
                    match event {
                        Seen::Received(conn, bytes) => match waiting.get_mut(conn) {
                            Some(more) => more.extend_from_slice(bytes),
                            None => {
                                waiting.insert(*conn, Vec::new());
                                driver.send(*conn, bytes.clone());
                            }
                        },
                        Seen::Sent(conn) => match waiting.remove(conn) {
                            Some(more) if !more.is_empty() => {
                                waiting.insert(*conn, Vec::new());
                                driver.send(*conn, more);
                            }
                            _ => {}
                        },
                        Seen::Failed(conn, _) => ended.push(*conn),
                        _ => {}
                    }
                }
                ended.retain(|conn| {
                    let busy = waiting.contains_key(conn);
                    if !busy {
                        driver.close(*conn, Close::AfterSend);
                    }
                    busy
                });
            }
            seen
        });
        Other { peer: receiver.recv().unwrap(), stop, thread }
    }

    fn stop(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Release);
        self.peer.wake();
        self.thread.join().unwrap()
    }
}

fn a_move_loses_nothing(kind: Preference) {
    const ROUNDS: u64 = 30;
    let mut world = World::new(kind);
    let other = Other::start(kind, Settings::default());
    for round in 0..ROUNDS {
        world.seen.clear();
        let (conn, mut client) = world.connect();
        // Bytes in flight in both directions when the order comes: the client writes without a pause, and what is sent
        // to it is more than the kernel takes at once.
        let upstream = pattern(300_000 + round as usize * 1000);
        let hello = pattern(6 << 20);
        let (mut writer, copy) = (client.try_clone().unwrap(), upstream.clone());
        let writing = std::thread::spawn(move || {
            for piece in copy.chunks(1111) {
                writer.write_all(piece).unwrap();
            }
            writer.shutdown(Shutdown::Write).unwrap();
        });
        world.driver.send(conn, hello.clone());
        if round % 3 > 0 {
            world.until("the first bytes", |seen| {
                seen.iter().any(|event| matches!(event, Seen::Received(..))).then_some(())
            });
        }
        if round % 3 == 2 {
            world.driver.pause(conn);
            world.quiet(5);
        }
        let so_far = world.bytes(conn);
        world.driver.depart(conn, &other.peer, round);
        let reading = std::thread::spawn(move || read_all(&mut client).unwrap());
        world.until_seen(&Seen::Departed(conn, round));
        assert!(world.has(&Seen::Sent(conn)), "the send in flight is finished here");
        assert_eq!(world.bytes(conn).len(), so_far.len(), "nothing is received here after the order");
        writing.join().unwrap();
        let back = reading.join().unwrap();
        assert!(upstream.starts_with(&so_far));
        let (first, echoed) = back.split_at(hello.len());
        assert!(first == hello, "what was sent before the move");
        assert!(echoed == &upstream[so_far.len()..], "bytes lost or reordered by the move in round {round}");
    }
    let there = other.stop();
    for round in 0..ROUNDS {
        let arrived = there.iter().filter(|event| matches!(event, Seen::Arrived(key, _) if *key == round)).count();
        assert_eq!(arrived, 1);
    }
    assert_eq!(world.driver.connections(), 0);
}

fn moving_to_a_full_table_fails_and_the_connection_stays(kind: Preference) {
    let mut world = World::new(kind);
    let other = Other::start(kind, Settings { slots: 4, ..Settings::default() });
    let mut all: Vec<(ConnId, TcpStream)> = (0..10).map(|_| world.connect()).collect();
    for (key, (conn, _)) in all.iter().enumerate() {
        world.driver.depart(*conn, &other.peer, key as u64);
    }
    world.until("all answers", |seen| {
        let answers = seen.iter().filter(|e| matches!(e, Seen::Departed(..) | Seen::DepartureFailed(..)));
        (answers.count() == 10).then_some(())
    });
    let mut stayed = 0;
    for (key, (conn, client)) in all.iter_mut().enumerate() {
        client.write_all(b"where am I").unwrap();
        if world.has(&Seen::DepartureFailed(*conn, key as u64)) {
            stayed += 1;
            world.until_bytes(*conn, b"where am I");
            world.driver.send(*conn, b"here".to_vec());
            let mut answer = [0; 4];
            world.until_seen(&Seen::Sent(*conn));
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"here");
        } else {
            let mut answer = [0; 10];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"where am I");
        }
    }
    assert_eq!(stayed, 6);
    assert_eq!(world.driver.connections(), 6);
    other.stop();
}

fn moving_to_a_thread_that_is_gone_fails(kind: Preference) {
    let mut world = World::new(kind);
    let other = Other::start(kind, Settings::default());
    let peer = other.peer.clone();
    other.stop();
    let (conn, mut client) = world.connect();
    world.driver.depart(conn, &peer, 1);
    world.until_seen(&Seen::DepartureFailed(conn, 1));
    client.write_all(b"still").unwrap();
    world.until_bytes(conn, b"still");
}

fn moving_to_the_other_kind_fails(kind: Preference) {
    let mut world = World::new(kind);
    let stranger =
        make(if kind == Preference::Epoll { Preference::Uring } else { Preference::Epoll }, &Settings::default());
    let (conn, mut client) = world.connect();
    world.driver.depart(conn, &stranger.peer(), 1);
    world.until_seen(&Seen::DepartureFailed(conn, 1));
    client.write_all(b"still").unwrap();
    world.until_bytes(conn, b"still");
}

fn closing_a_departing_connection_ends_it_once(kind: Preference) {
    let mut world = World::new(kind);
    let other = Other::start(kind, Settings::default());
    for (key, how) in [(1, Close::Now), (2, Close::AfterSend)] {
        // A send that is not finished holds the departure back.
        let (conn, client) = world.connect();
        world.driver.send(conn, pattern(48 << 20));
        world.driver.depart(conn, &other.peer, key);
        world.quiet(20);
        world.seen.clear();
        world.driver.close(conn, how);
        world.quiet(20);
        drop(client);
        world.until_seen(&Seen::Closed(conn));
        assert_eq!(world.seen, [Seen::Closed(conn)]);
    }
    assert!(!other.stop().iter().any(|event| matches!(event, Seen::Arrived(..))));
}

fn five_thousand_connections_moved(kind: Preference) {
    const COUNT: usize = 5000;
    let mut world = World::new(kind);
    let other = Other::start(kind, Settings::default());
    let mut clients: Vec<TcpStream> = Vec::new();
    for batch in 0..COUNT / 500 {
        for _ in 0..500 {
            clients.push(TcpStream::connect(world.addr).unwrap());
        }
        world.until("accepted", |seen| {
            let count = seen.iter().filter(|event| matches!(event, Seen::Accepted(..))).count();
            (count == (batch + 1) * 500).then_some(())
        });
    }
    let conns: Vec<ConnId> = world
        .seen
        .iter()
        .filter_map(|event| if let Seen::Accepted(conn, ..) = event { Some(*conn) } else { None })
        .collect();
    for client in &mut clients {
        client.write_all(b"moved?").unwrap();
    }
    for (key, conn) in conns.iter().enumerate() {
        world.driver.depart(*conn, &other.peer, key as u64);
    }
    world.until("departed", |seen| {
        (seen.iter().filter(|event| matches!(event, Seen::Departed(..))).count() == COUNT).then_some(())
    });
    assert_eq!(world.driver.connections(), 0);
    for client in &mut clients {
        let mut answer = [0; 6];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"moved?");
    }
    let there = other.stop();
    let mut keys: Vec<u64> =
        there.iter().filter_map(|event| if let Seen::Arrived(key, _) = event { Some(*key) } else { None }).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..COUNT as u64).collect::<Vec<_>>());
}

/// Runs the test `name` of this suite again in a process of its own; true in that process.
fn in_a_process_of_its_own(kind: Preference, name: &str) -> bool {
    const MARK: &str = "THRONG_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let module = if kind == Preference::Uring { "uring" } else { "epoll" };
    let test = format!("driver::tests::{module}::{name}");
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
    false
}

fn without_descriptors_accepting_rests(kind: Preference) {
    if !in_a_process_of_its_own(kind, "without_descriptors_accepting_rests") {
        return;
    }
    let mut world = World::new(kind);
    let mut clients: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(world.addr).unwrap()).collect();
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a valid structure, read during the call only.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0);
    let mut hoard = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    assert!(!hoard.is_empty());
    let accepted = |seen: &[Seen]| seen.iter().filter(|event| matches!(event, Seen::Accepted(..))).count();
    if kind == Preference::Uring {
        // A direct descriptor is none of the process's.
        world.until("accepted", |seen| (accepted(seen) == 5).then_some(()));
        return;
    }
    world.until_seen(&Seen::AcceptPaused(Exhausted::Descriptors));
    let (start, mut turns) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(450) {
        world.turn(Duration::from_secs(1));
        turns += 1;
    }
    assert!(turns <= 20, "{turns} turns of a driver that can do nothing");
    assert_eq!(accepted(&world.seen), 0);
    drop(hoard);
    world.until("accepted", |seen| (accepted(seen) == 5).then_some(()));
    clients[0].write_all(b"in").unwrap();
    world.until("bytes", |seen| {
        seen.iter().any(|event| matches!(event, Seen::Received(_, bytes) if bytes == b"in")).then_some(())
    });
}

fn peers_are_told_by_their_address(kind: Preference) {
    let mut driver = make(kind, &Settings::default());
    // An IPv6 wildcard, with peers of both kinds.
    let listener = shared_listener("[::]:0".parse().unwrap(), 16).unwrap();
    let port = listener.local_addr().unwrap().port();
    driver.listen(listener, ListenerTag(7)).unwrap();
    let mut world = World { driver, addr: SocketAddr::from(([127, 0, 0, 1], port)), seen: Vec::new() };
    // `connect` looks for the client's own address among the accepted.
    let (four, _client_four) = world.connect();
    world.addr = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port));
    let (six, _client_six) = world.connect();
    assert_ne!(four, six);
}

fn more_drivers_than_cores(kind: Preference) {
    const DRIVERS: usize = 40;
    const CLIENTS: usize = 400;
    let listeners = shared_listeners("127.0.0.1:0".parse().unwrap(), DRIVERS, 256).unwrap();
    let addr = listeners[0].local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = listeners
        .into_iter()
        .map(|listener| {
            let (stop, sender) = (stop.clone(), sender.clone());
            std::thread::spawn(move || {
                let mut driver = make(kind, &Settings::default());
                driver.listen(listener, ListenerTag(0)).unwrap();
                sender.send(driver.peer()).unwrap();
                let mut accepted = 0;
                while !stop.load(Ordering::Acquire) {
                    let mut answers = Vec::new();
                    driver
                        .wait(None, &mut |event| match event {
                            Event::Accepted { .. } => accepted += 1,
                            Event::Received { conn, bytes } => answers.push((conn, bytes.to_vec())),
                            _ => {}
                        })
                        .unwrap();
                    for (conn, bytes) in answers {
                        driver.send(conn, bytes);
                    }
                }
                accepted
            })
        })
        .collect();
    let peers: Vec<Peer> = (0..DRIVERS).map(|_| receiver.recv().unwrap()).collect();
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| TcpStream::connect(addr).unwrap()).collect();
    for client in &mut clients {
        client.write_all(b"ping").unwrap();
    }
    for client in &mut clients {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping");
    }
    stop.store(true, Ordering::Release);
    peers.iter().for_each(Peer::wake);
    let accepted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(accepted, CLIENTS);
}

/// Seeded, without a crate for it (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Orders and peers in no sensible order: whatever happens, each connection ends once, and all slots come back.
fn chaos_leaves_nothing_behind(kind: Preference) {
    let seeds = std::env::var("THRONG_TEST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for seed in 1..=seeds {
        chaos(kind, seed);
    }
}

fn chaos(kind: Preference, seed: u64) {
    let mut world = World::with(kind, &Settings { linger: Duration::from_millis(5), ..Settings::default() });
    let other = Other::start(kind, Settings { slots: 8, linger: Duration::from_millis(5), ..Settings::default() });
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (mut clients, mut sending) = (Vec::<TcpStream>::new(), std::collections::HashSet::new());
    let (mut live, mut accepted, mut ended) = (Vec::<ConnId>::new(), 0, 0);
    for round in 0..3000 {
        if round % 8 == 0 && clients.len() < 100 {
            clients.push(TcpStream::connect(world.addr).unwrap());
        }
        if !clients.is_empty() {
            let client = dice.below(clients.len() as u64) as usize;
            clients[client].set_nonblocking(true).unwrap();
            match dice.below(12) {
                0 => drop(clients.swap_remove(client)),
                1 => {
                    socket2::SockRef::from(&clients[client]).set_linger(Some(Duration::ZERO)).unwrap();
                    drop(clients.swap_remove(client));
                }
                2 => drop(clients[client].shutdown(Shutdown::Write)),
                3..6 => drop(clients[client].read(&mut vec![0; 100_000])),
                _ => drop(clients[client].write(&pattern(dice.below(20_000) as usize))),
            }
        }
        if !live.is_empty() {
            let conn = live[dice.below(live.len() as u64) as usize];
            match dice.below(12) {
                0 => world.driver.close(conn, Close::Now),
                1 => world.driver.close(conn, Close::AfterSend),
                2 => world.driver.depart(conn, &other.peer, round),
                3 => world.driver.pause(conn),
                4 | 5 => world.driver.resume(conn),
                _ if sending.insert(conn) => world.driver.send(conn, pattern(dice.below(300_000) as usize)),
                _ => {}
            }
        }
        world.turn(Duration::ZERO);
        for event in &world.seen {
            match event {
                Seen::Accepted(conn, ..) => {
                    accepted += 1;
                    live.push(*conn);
                }
                Seen::Closed(conn) | Seen::Departed(conn, _) => {
                    ended += 1;
                    assert!(live.contains(conn), "{conn:?} ends a second time");
                    live.retain(|other| other != conn);
                    sending.remove(conn);
                }
                Seen::Sent(conn) => assert!(sending.remove(conn), "Sent without a send"),
                Seen::Received(conn, _) | Seen::Failed(conn, _) => {
                    assert!(live.contains(conn), "an event after the end")
                }
                _ => {}
            }
        }
        world.seen.clear();
    }
    drop(clients);
    world.quiet(50);
    for event in std::mem::take(&mut world.seen) {
        match event {
            Seen::Accepted(conn, ..) => {
                accepted += 1;
                live.push(conn);
            }
            Seen::Closed(conn) | Seen::Departed(conn, _) => {
                ended += 1;
                live.retain(|other| *other != conn);
            }
            _ => {}
        }
    }
    for conn in &live {
        world.driver.close(*conn, Close::Now);
    }
    let start = Instant::now();
    while world.driver.connections() > 0 {
        assert!(start.elapsed() < PATIENCE, "{} slots are kept", world.driver.connections());
        world.turn(Duration::from_millis(5));
    }
    ended += world.seen.iter().filter(|event| matches!(event, Seen::Closed(_) | Seen::Departed(..))).count();
    assert!(accepted > 200, "{accepted}");
    assert_eq!(ended, accepted);
    other.stop();
}

fn who_sends_without_end_is_read_once_a_turn(kind: Preference) {
    let mut world = World::new(kind);
    let (conn, client) = world.connect();
    client.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while let Ok(count) = (&client).write(&[7; 65_536]) {
        sent += count;
    }
    assert!(sent > 300 << 10, "more than one receive takes: {sent}");
    for _ in 0..100 {
        let before = world.seen.len();
        world.turn(Duration::from_millis(20));
        assert!(world.seen[before..].iter().filter(|e| matches!(e, Seen::Received(..))).count() <= 1);
    }
    assert_eq!(world.bytes(conn).len(), sent);
}

#[test]
fn what_was_asked_for_is_chosen() {
    let chosen = choose(Preference::Epoll, &Settings::default()).unwrap();
    assert_eq!((chosen.driver.kind(), chosen.fallback), (Kind::Epoll, None));
    let chosen = choose(Preference::Auto, &Settings::default()).unwrap();
    // Either io_uring works here, or it is said why not.
    assert_eq!(chosen.fallback.is_some(), chosen.driver.kind() == Kind::Epoll);
}

macro_rules! on_both {
    ($($name:ident)*) => {
        mod uring { $(#[test] fn $name() { super::$name(super::Preference::Uring) })* }
        mod epoll { $(#[test] fn $name() { super::$name(super::Preference::Epoll) })* }
    };
}

on_both! {
    echo an_empty_send_completes a_second_send_in_flight_is_the_callers_error many_connections split_and_large_reads
    received_bytes_may_be_changed_in_place a_slow_reader_holds_sent_back a_reset_during_a_send_fails_it pause_and_resume
    close_after_send_delivers_everything close_now_resets close_now_ends_a_close_after_send lingering_ends
    half_close_still_sends a_slot_is_used_again_under_another_generation a_full_table_pauses_accepting
    wake_from_another_thread a_time_out_is_kept a_move_loses_nothing
    moving_to_a_full_table_fails_and_the_connection_stays moving_to_a_thread_that_is_gone_fails
    moving_to_the_other_kind_fails closing_a_departing_connection_ends_it_once five_thousand_connections_moved
    without_descriptors_accepting_rests peers_are_told_by_their_address more_drivers_than_cores
    chaos_leaves_nothing_behind who_sends_without_end_is_read_once_a_turn
}
