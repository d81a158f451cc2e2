//! Accepting: addresses, limits, and behaviour at the limits.

use super::*;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

/// Runs the test `name` of this suite again in its own process; true in that process.
fn in_a_process_of_its_own(kind: On, name: &str) -> bool {
    const MARK: &str = "THRONG_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let module = match kind {
        On::Uring => "uring",
        On::Tables => "tables",
        On::Epoll => "epoll",
    };
    let test = format!("driver::tests::accepting::{module}::{name}");
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
    false
}

fn a_full_table_pauses_accepting(kind: On) {
    let mut world = World::with(kind, &Settings { slots: 8, linger: Duration::ZERO, ..Settings::default() });
    let mut clients: Vec<TcpStream> = (0..6).map(|_| world.connect().1).collect();
    clients.extend((0..5).map(|_| TcpStream::connect(world.addr).unwrap()));
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
    // Accepting resumes by itself.
    let (conn, mut client) = world.connect();
    client.write_all(b"in").unwrap();
    world.until_bytes(conn, b"in");
}

fn without_descriptors_accepting_rests(kind: On) {
    if !in_a_process_of_its_own(kind, "without_descriptors_accepting_rests") {
        return;
    }
    let mut world = World::new(kind);
    let mut clients: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(world.addr).unwrap()).collect();
    let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("a lower limit");
    let mut hoard = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    assert!(!hoard.is_empty());
    let accepted = |seen: &[Seen]| seen.iter().filter(|event| matches!(event, Seen::Accepted(..))).count();
    if kind != On::Epoll {
        // A direct descriptor does not count as one of the process's.
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

fn peers_are_told_by_their_address(kind: On) {
    let mut driver = make(kind, &Settings::default());
    // An IPv6 wildcard, with peers of both families.
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

fn more_drivers_than_cores(kind: On) {
    const DRIVERS: usize = 40;
    const CLIENTS: usize = 400;
    let listeners = own_listeners("127.0.0.1:0".parse().unwrap(), false, DRIVERS, 256).unwrap();
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

/// Serves and closes every accepted connection, until `count` have been.
fn serve(world: &mut World, count: usize) {
    let (start, mut served) = (Instant::now(), 0);
    while served < count {
        assert!(start.elapsed() < PATIENCE, "{served} of {count} were accepted");
        world.turn(Duration::from_millis(20));
        for event in std::mem::take(&mut world.seen) {
            if let Seen::Accepted(conn, ..) = event {
                served += 1;
                world.driver.send(conn, b"served".to_vec());
                world.driver.close(conn, Close::AfterSend);
            }
        }
    }
    while world.driver.connections() > 0 {
        assert!(start.elapsed() < PATIENCE, "{} are still there", world.driver.connections());
        world.turn(Duration::from_millis(20));
    }
}

/// Connections beyond the limit wait in the kernel's queue; none is closed without an event.
fn a_full_table_loses_nobody(kind: On) {
    const COUNT: usize = 200;
    let mut world = World::with(kind, &Settings { slots: 8, linger: Duration::ZERO, ..Settings::default() });
    let second = shared_listener("127.0.0.1:0".parse().unwrap(), 1024).unwrap();
    let addresses = [world.addr, second.local_addr().unwrap()];
    world.driver.listen(second, ListenerTag(8)).unwrap();
    let clients: Vec<TcpStream> = (0..COUNT).map(|i| TcpStream::connect(addresses[i % 2]).unwrap()).collect();
    serve(&mut world, COUNT);
    for mut client in clients {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(read_all(&mut client).unwrap(), b"served");
    }
}

/// The same, when the table has filled up by connections of other threads.
fn a_table_full_of_arrivals_loses_nobody(kind: On) {
    const SLOTS: u32 = 8;
    let mut world = World::with(kind, &Settings { slots: SLOTS, linger: Duration::ZERO, ..Settings::default() });
    let mut source = World::new(kind);
    world.turn(Duration::ZERO);
    let arrivals: Vec<(ConnId, TcpStream)> = (0..SLOTS).map(|_| source.connect()).collect();
    for (key, (conn, _)) in arrivals.iter().enumerate() {
        source.driver.depart(*conn, &world.driver.peer(), key as u64);
    }
    let arrived = |seen: &[Seen]| {
        let conns = seen.iter().filter_map(|e| if let Seen::Arrived(_, conn) = e { Some(*conn) } else { None });
        let conns: Vec<ConnId> = conns.collect();
        (conns.len() == SLOTS as usize).then_some(conns)
    };
    let start = Instant::now();
    while arrived(&world.seen).is_none() {
        assert!(start.elapsed() < PATIENCE, "{:?}", world.seen);
        source.turn(Duration::from_millis(2));
        world.turn(Duration::from_millis(2));
    }
    let conns = arrived(&world.seen).unwrap();
    let clients: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(world.addr).unwrap()).collect();
    world.quiet(30);
    assert!(!world.seen.iter().any(|event| matches!(event, Seen::Accepted(..))), "there is no room");
    for conn in conns {
        world.driver.close(conn, Close::Now);
    }
    serve(&mut world, 20);
    for mut client in clients {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(read_all(&mut client).unwrap(), b"served");
    }
}

/// If a connection takes a descriptor of the process, connections take no more than their share.
fn the_descriptors_of_others_are_left_to_them(kind: On) {
    let mut world = World::with(kind, &Settings { descriptors: 4, linger: Duration::ZERO, ..Settings::default() });
    let clients: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(world.addr).unwrap()).collect();
    if kind == On::Epoll {
        world.until_seen(&Seen::AcceptPaused(Exhausted::Slots));
        world.quiet(30);
        assert_eq!(world.driver.connections(), 4);
        let conns: Vec<ConnId> = world
            .seen
            .iter()
            .filter_map(|e| if let Seen::Accepted(conn, ..) = e { Some(*conn) } else { None })
            .collect();
        conns.iter().for_each(|conn| world.driver.close(*conn, Close::Now));
        world.seen.clear();
        serve(&mut world, clients.len() - 4);
    } else {
        serve(&mut world, clients.len());
    }
}

on_both! {
    the_descriptors_of_others_are_left_to_them
    a_full_table_loses_nobody a_table_full_of_arrivals_loses_nobody
    a_full_table_pauses_accepting without_descriptors_accepting_rests peers_are_told_by_their_address
    more_drivers_than_cores
}
