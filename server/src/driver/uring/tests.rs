//! Internal behaviour: operations that are in progress in the kernel.

use super::conn::POLLING;
use super::*;
use crate::driver::shared_listener;
use std::net::TcpStream;

/// The kernel ends our direction in a worker thread, some time after the request, and looks the
/// slot up only then. The FIN must not reach a connection that has the slot by that time.
#[test]
fn a_slot_is_kept_until_its_fin_is_out() {
    let mut driver = Uring::new(&Settings::default()).expect("this host has io_uring");
    let listener = shared_listener("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    driver.listen(listener, ListenerTag(0)).unwrap();
    let (mut accepted, mut closed) = (None, false);
    while accepted.is_none() {
        driver
            .wait(Some(Duration::from_secs(1)), &mut |event| {
                if let Event::Accepted { conn, .. } = event {
                    accepted = Some(conn);
                }
            })
            .unwrap();
    }
    let conn = accepted.unwrap();
    driver.close(conn, Close::AfterSend);
    driver.close(conn, Close::Now);
    // The poll may end long before the worker gets to the FIN.
    driver.slot(conn.slot).flags &= !POLLING;
    driver.settle(conn.slot);
    assert_eq!(driver.slot(conn.slot).state, State::Closing, "the slot is not given up");
    driver.slot(conn.slot).flags |= POLLING;
    while !closed {
        driver
            .wait(Some(Duration::from_secs(1)), &mut |event| closed |= matches!(event, Event::Closed { .. }))
            .unwrap();
    }
    assert_eq!(driver.slot(conn.slot).state, State::Free);
}

/// A send that waits for its peer very often is given to a kernel thread, which then waits for as
/// long as the peer pleases. A peer that reads in small amounts must not occupy one.
#[test]
fn a_peer_that_reads_by_drops_takes_no_thread_of_the_kernel() {
    use std::io::Read;
    let mut driver = Uring::new(&Settings::default()).expect("this host has io_uring");
    let listener = shared_listener("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    // Small buffers, so that room becomes available very often: accepted sockets inherit the size.
    socket2::SockRef::from(&listener).set_send_buffer_size(8 << 10).unwrap();
    let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    client.set_recv_buffer_size(4 << 10).unwrap();
    client.connect(&listener.local_addr().unwrap().into()).unwrap();
    let mut client = TcpStream::from(client);
    driver.listen(listener, ListenerTag(0)).unwrap();
    until(&mut driver, 1);
    let conn = driver.id((0..).find(|slot| driver.slots[*slot as usize].state == State::Open).unwrap());
    const BYTES: usize = 1 << 20;
    driver.send(conn, vec![7; BYTES]);
    let worker = format!("iou-wrk-{}", rustix::thread::gettid().as_raw_nonzero());
    let (mut read, mut drop, mut sent) = (0, [0; 1024], false);
    while read < BYTES {
        driver.wait(Some(Duration::ZERO), &mut |event| sent |= matches!(event, Event::Sent { .. })).unwrap();
        read += client.read(&mut drop).unwrap();
        let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let mut names = names.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        assert!(!names.any(|name| name.trim() == worker), "a thread of the kernel sends, after {read} bytes");
    }
    while !sent {
        driver.wait(Some(Duration::from_secs(1)), &mut |event| sent |= matches!(event, Event::Sent { .. })).unwrap();
    }
}

fn with_tables(slots: u32, table_slots: u32) -> (Uring, std::net::SocketAddr) {
    let settings = Settings { slots, table_slots, linger: Duration::ZERO, ..Settings::default() };
    let mut driver = Uring::new(&settings).expect("this host has io_uring");
    let listener = shared_listener("127.0.0.1:0".parse().unwrap(), 64).unwrap();
    let address = listener.local_addr().unwrap();
    driver.listen(listener, ListenerTag(0)).unwrap();
    (driver, address)
}

/// Waits until this many connections exist.
fn until(driver: &mut Uring, count: u32) {
    for _ in 0..1000 {
        if driver.connections() == count {
            return;
        }
        driver.wait(Some(Duration::from_millis(10)), &mut |_| {}).unwrap();
    }
    panic!("{} connections instead of {count}", driver.connections());
}

/// Each table takes its share, and all are filled up to their ceiling before accepting pauses.
#[test]
fn accepting_fills_all_tables_evenly() {
    let (mut driver, address) = with_tables(32, 8);
    let _clients: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    until(&mut driver, 28);
    assert_eq!(driver.used_of, [7; 4]);
    assert!(driver.listeners[0].resting.is_some());
}

/// If arrivals fill a table while an accept waits in it, the accept moves to another table: the
/// next connection is accepted.
#[test]
fn an_accept_moves_from_a_table_that_has_filled_up() {
    let (mut driver, address) = with_tables(16, 8);
    driver.wait(Some(Duration::ZERO), &mut |_| {}).unwrap();
    let table = driver.listeners[0].armed.expect("an accept waits");
    let (mut source, from) = with_tables(16, 16);
    let _moving: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(from).unwrap()).collect();
    let mut conns = Vec::new();
    while conns.len() < 8 {
        let mut note = |event: Event<'_>| {
            if let Event::Accepted { conn, .. } = event {
                conns.push(conn);
            }
        };
        source.wait(Some(Duration::from_millis(10)), &mut note).unwrap();
    }
    // All into that one table.
    let peer = driver.peer();
    for (key, conn) in conns.iter().enumerate() {
        source.depart(*conn, &peer, key as u64);
        let leaving = source.departing.get_mut(&conn.slot).unwrap();
        (leaving.table, leaving.tries_left) = (table, 0);
    }
    for _ in 0..1000 {
        source.wait(Some(Duration::from_millis(1)), &mut |_| {}).unwrap();
        driver.wait(Some(Duration::from_millis(1)), &mut |_| {}).unwrap();
        if source.connections() == 0 && driver.listeners[0].armed == Some(1 - table) {
            break;
        }
    }
    assert_eq!((driver.used_of[table as usize], driver.listeners[0].armed), (8, Some(1 - table)));
    let _client = TcpStream::connect(address).unwrap();
    until(&mut driver, 9);
}

/// Bytes for a connection of any table wake a sleeping thread at once; without any, it sleeps.
#[test]
fn a_sleeping_thread_hears_all_tables() {
    use std::io::Write;
    let (mut driver, address) = with_tables(32, 8);
    let mut clients: Vec<TcpStream> = (0..12).map(|_| TcpStream::connect(address).unwrap()).collect();
    until(&mut driver, 12);
    for round in 0..120usize {
        let mut client = clients[round * 5 % 12].try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(round as u64 * 20));
            client.write_all(&[round as u8]).unwrap();
        });
        let (mut got, start) = (Vec::new(), std::time::Instant::now());
        while got.is_empty() {
            let mut note = |event: Event<'_>| {
                if let Event::Received { bytes, .. } = event {
                    got.extend_from_slice(bytes);
                }
            };
            driver.wait(Some(Duration::from_secs(10)), &mut note).unwrap();
        }
        writer.join().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "round {round}: the sleep lasted");
        assert_eq!(got, [round as u8]);
    }
    clients.clear();
}

/// Completions that were taken along with other answers are kept for the next turn, which must not
/// sleep until further ones arrive.
#[test]
fn no_sleep_on_completions_that_are_held() {
    use std::io::Write;
    for (slots, table_slots) in [(16, 16), (32, 8)] {
        let (mut driver, address) = with_tables(slots, table_slots);
        let mut clients: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
        until(&mut driver, 4);
        let open = driver.slots.iter().enumerate().filter(|(_, slot)| slot.state == State::Open);
        let conns: Vec<ConnId> = open.map(|(slot, _)| slot as u32).map(|slot| driver.id(slot)).collect();
        // Leftovers of accepting must not end the sleep.
        driver.wait(Some(Duration::from_millis(10)), &mut |_| {}).unwrap();
        clients[0].write_all(b"x").unwrap();
        assert!(driver.peer_addresses(&conns).iter().all(Option::is_some));
        let (start, mut got) = (std::time::Instant::now(), 0);
        let mut note = |event: Event<'_>| got += usize::from(matches!(event, Event::Received { .. }));
        driver.wait(Some(Duration::from_secs(30)), &mut note).unwrap();
        assert!(start.elapsed() < Duration::from_secs(15), "it slept, with {table_slots} slots a table");
        assert_eq!(got, 1);
    }
}

/// Bytes of favoured connections are received first; of all others, including an end of a favoured
/// one, one `wait` handles only some.
#[test]
fn a_storm_of_others_goes_behind_favoured_connections() {
    use std::io::Write;
    let (mut driver, address) = with_tables(512, 512);
    let (mut clients, mut known) = (Vec::new(), HashMap::new());
    while known.len() < 300 {
        if clients.len() < 300 {
            clients.push(TcpStream::connect(address).unwrap());
        }
        let mut note = |event: Event<'_>| {
            if let Event::Accepted { conn, peer, .. } = event {
                known.insert(peer, conn);
            }
        };
        driver.wait(Some(Duration::from_millis(10)), &mut note).unwrap();
    }
    let (first, gone) = (clients[280].local_addr().unwrap(), clients[3].local_addr().unwrap());
    driver.favour(known[&first]);
    driver.favour(known[&gone]);
    let reset = clients.remove(3);
    socket2::SockRef::from(&reset).set_linger(Some(Duration::ZERO)).unwrap();
    drop(reset);
    clients.iter_mut().for_each(|client| client.write_all(b"hello").unwrap());
    driver.tune(&Tuning { others: 20, ..Tuning::default() });
    let mut waits: Vec<Vec<ConnId>> = Vec::new();
    while waits.iter().flatten().count() < 300 {
        let mut told = Vec::new();
        let mut note = |event: Event<'_>| match event {
            Event::Received { conn, .. } | Event::Failed { conn, .. } => told.push(conn),
            _ => {}
        };
        driver.wait(Some(Duration::from_secs(5)), &mut note).unwrap();
        assert!(!told.is_empty(), "{} of 300 are told", waits.iter().flatten().count());
        waits.push(told);
    }
    assert_eq!(waits[0][0], known[&first]);
    assert!(waits.iter().all(|told| told.len() <= 20 + 1), "{:?}", waits.iter().map(Vec::len).collect::<Vec<_>>());
    assert!(waits.iter().flatten().any(|conn| *conn == known[&gone]));
}
