//! Connections that move from thread to thread.

use super::*;
use std::collections::HashMap;
use std::io::Write;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

/// A thread that takes connections over and echoes on them until the peer closes.
pub(super) struct Other {
    pub(super) peer: Peer,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Seen>>,
}

impl Other {
    pub(super) fn start(kind: On, settings: Settings) -> Other {
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
                driver.wait(None, &mut |event| seen.extend(keep(event))).unwrap();
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

    pub(super) fn stop(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Release);
        self.peer.wake();
        self.thread.join().unwrap()
    }
}

fn a_move_loses_nothing(kind: On) {
    const ROUNDS: u64 = 30;
    let mut world = World::new(kind);
    let other = Other::start(kind, Settings::default());
    for round in 0..ROUNDS {
        world.seen.clear();
        let (conn, mut client) = world.connect();
        // Bytes are in flight in both directions when the order arrives: the client writes without
        // a pause, and is sent more than the kernel takes at once.
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

fn moving_to_a_full_table_fails_and_the_connection_stays(kind: On) {
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

fn moving_to_a_thread_that_is_gone_fails(kind: On) {
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

fn moving_to_the_other_kind_fails(kind: On) {
    let mut world = World::new(kind);
    let stranger = make(if kind == On::Epoll { On::Uring } else { On::Epoll }, &Settings::default());
    let (conn, mut client) = world.connect();
    world.driver.depart(conn, &stranger.peer(), 1);
    world.until_seen(&Seen::DepartureFailed(conn, 1));
    client.write_all(b"still").unwrap();
    world.until_bytes(conn, b"still");
}

fn closing_a_departing_connection_ends_it_once(kind: On) {
    let mut world = World::new(kind);
    let other = Other::start(kind, Settings::default());
    for (key, how) in [(1, Close::Now), (2, Close::AfterSend)] {
        // An unfinished send delays the departure.
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

fn five_thousand_connections_moved(kind: On) {
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

/// Departing connections are sent to the other ring's tables in rotation, and to the remaining ones
/// while one of them has room: the last free place is found from any starting point.
fn moving_fills_the_other_thread_to_its_last_place_and_back(kind: On) {
    const SLOTS: usize = 40;
    let few = Settings { slots: SLOTS as u32, linger: Duration::ZERO, ..Settings::default() };
    let mut here = World::new(kind);
    let mut there = World::with(kind, &few);
    there.turn(Duration::ZERO);
    let mut conns: Vec<(ConnId, TcpStream)> = (0..SLOTS + 5).map(|_| here.connect()).collect();
    for round in 0..3 {
        let to = there.driver.peer();
        for (key, (conn, _)) in conns.iter().enumerate() {
            here.driver.depart(*conn, &to, key as u64);
        }
        let start = Instant::now();
        let answers = |seen: &[Seen]| {
            let (mut gone, mut stayed) = (0, 0);
            for event in seen {
                gone += usize::from(matches!(event, Seen::Departed(..)));
                stayed += usize::from(matches!(event, Seen::DepartureFailed(..)));
            }
            (gone, stayed)
        };
        let arrivals = |seen: &[Seen]| seen.iter().filter(|event| matches!(event, Seen::Arrived(..))).count();
        while answers(&here.seen) != (SLOTS, 5) || arrivals(&there.seen) < SLOTS {
            assert!(start.elapsed() < PATIENCE, "round {round}: {:?}", answers(&here.seen));
            here.turn(Duration::from_millis(1));
            there.turn(Duration::from_millis(1));
        }
        assert_eq!((here.driver.connections(), there.driver.connections()), (5, SLOTS as u32));
        let mut there_now = HashMap::new();
        for event in std::mem::take(&mut there.seen) {
            if let Seen::Arrived(key, conn) = event {
                assert!(there_now.insert(key, conn).is_none(), "arrived twice");
            }
        }
        // Every moved connection works at the other thread, and returns.
        let back = here.driver.peer();
        for (key, conn) in &there_now {
            let client = &mut conns[*key as usize].1;
            client.write_all(b"moved").unwrap();
            there.until_bytes(*conn, b"moved");
            there.driver.depart(*conn, &back, *key);
        }
        here.seen.clear();
        while here.driver.connections() < SLOTS as u32 + 5 || there.driver.connections() > 0 {
            assert!(start.elapsed() < PATIENCE, "round {round}: {} are back", here.driver.connections());
            here.turn(Duration::from_millis(1));
            there.turn(Duration::from_millis(1));
        }
        for event in std::mem::take(&mut here.seen) {
            if let Seen::Arrived(key, conn) = event {
                conns[key as usize].0 = conn;
            }
        }
        there.seen.clear();
    }
}

on_both! {
    a_move_loses_nothing moving_to_a_full_table_fails_and_the_connection_stays moving_to_a_thread_that_is_gone_fails
    moving_to_the_other_kind_fails closing_a_departing_connection_ends_it_once five_thousand_connections_moved
    moving_fills_the_other_thread_to_its_last_place_and_back
}
