//! Both drivers against plain sockets of the test.

use super::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Told {
    Connected(u32),
    Received(u32, Vec<u8>),
    Sent(u32),
    Ended(u32, bool),
    Closed(u32),
}

struct Bench {
    driver: Box<dyn Driver>,
    told: Vec<Told>,
    listener: TcpListener,
}

impl Bench {
    fn new(on: On, sources: Vec<IpAddr>) -> Bench {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let to = listener.local_addr().expect("its address");
        let driver =
            open(on.kind, &Settings { clients: 8, table_slots: on.table_slots, to, sources }).expect("a driver");
        Bench { driver, told: Vec::new(), listener }
    }

    fn turn(&mut self, timeout: Duration) {
        let told = &mut self.told;
        let mut note = |event: Event<'_>| {
            told.push(match event {
                Event::Connected(client) => Told::Connected(client),
                Event::Received(client, bytes) => Told::Received(client, bytes.to_vec()),
                Event::Sent(client, buffer) => {
                    assert!(buffer.is_empty(), "the buffer comes back empty");
                    Told::Sent(client)
                }
                Event::Ended(client, errno) => Told::Ended(client, errno.is_some()),
                Event::Closed(client) => Told::Closed(client),
            });
        };
        self.driver.wait(timeout, &mut note).expect("a wait");
    }

    fn until(&mut self, done: impl Fn(&[Told]) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !done(&self.told) {
            assert!(Instant::now() < end, "only {:?}", self.told);
            self.turn(Duration::from_millis(20));
        }
    }

    fn connected(&mut self, client: u32) -> TcpStream {
        self.driver.connect(client, client as usize);
        self.until(|told| told.contains(&Told::Connected(client)));
        let (stream, _) = self.listener.accept().expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream
    }
}

fn received(told: &[Told], client: u32) -> Vec<u8> {
    let of_client = told.iter().filter_map(|told| match told {
        Told::Received(of, bytes) if *of == client => Some(bytes.as_slice()),
        _ => None,
    });
    of_client.flatten().copied().collect()
}

/// What a test runs on: io_uring with one table and with several, too.
#[derive(Clone, Copy)]
struct On {
    kind: Kind,
    table_slots: u32,
}

fn on_all(test: impl Fn(On)) {
    test(On { kind: Kind::Epoll, table_slots: u32::MAX });
    // Where a sandbox hides io_uring the other half is all that can be tried.
    if uring_works().is_ok() {
        test(On { kind: Kind::Uring, table_slots: u32::MAX });
        test(On { kind: Kind::Uring, table_slots: 3 });
    }
}

#[test]
fn bytes_go_both_ways_and_the_end_is_told() {
    on_all(|on| {
        let mut bench = Bench::new(on, Vec::new());
        let mut peer = bench.connected(3);
        bench.driver.send(3, b"hello".to_vec());
        bench.until(|told| told.contains(&Told::Sent(3)));
        let mut got = [0; 5];
        peer.read_exact(&mut got).expect("bytes");
        assert_eq!(&got, b"hello");
        peer.write_all(b"good ").expect("a write");
        peer.write_all(b"day").expect("a write");
        bench.until(|told| received(told, 3) == b"good day");
        peer.shutdown(Shutdown::Write).expect("a FIN");
        bench.until(|told| told.contains(&Told::Ended(3, false)));
        bench.driver.close(3, false);
        bench.until(|told| told.contains(&Told::Closed(3)));
        assert_eq!(peer.read(&mut got).expect("an end"), 0);
    });
}

#[test]
fn a_number_connects_again_after_its_close_from_its_own_address() {
    on_all(|on| {
        let sources = ["127.0.0.2".parse().expect("an address"), "127.0.0.3".parse().expect("an address")];
        let mut bench = Bench::new(on, sources.to_vec());
        for _ in 0..3 {
            bench.told.clear();
            let peer = bench.connected(1);
            assert_eq!(peer.peer_addr().expect("an address").ip(), sources[1]);
            bench.driver.close(1, true);
            bench.until(|told| told.contains(&Told::Closed(1)));
            // An aborted connection is reset (RFC 9293 3.10.5), which a reader sees as an error.
            let error = (&peer).read(&mut [0; 1]).expect_err("a reset");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    });
}

#[test]
fn nobody_listening_is_an_end_with_an_error() {
    on_all(|on| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let to = listener.local_addr().expect("its address");
        drop(listener);
        let mut bench = Bench::new(on, Vec::new());
        bench.driver = open(on.kind, &Settings { clients: 1, table_slots: on.table_slots, to, sources: Vec::new() })
            .expect("a driver");
        bench.driver.connect(0, 0);
        bench.until(|told| told.contains(&Told::Ended(0, true)));
        bench.driver.close(0, false);
        bench.until(|told| told.contains(&Told::Closed(0)));
    });
}

#[test]
fn what_comes_in_a_pause_comes_after_it() {
    on_all(|on| {
        let mut bench = Bench::new(on, Vec::new());
        let mut peer = bench.connected(0);
        bench.driver.pause(0);
        peer.write_all(&[b'x'; 1000]).expect("a write");
        for _ in 0..5 {
            bench.turn(Duration::from_millis(10));
        }
        assert_eq!(received(&bench.told, 0), b"");
        bench.driver.resume(0);
        bench.until(|told| received(told, 0).len() == 1000);
    });
}

#[test]
fn a_send_that_the_peer_does_not_read_is_given_up_with_the_close() {
    on_all(|on| {
        let mut bench = Bench::new(on, Vec::new());
        let peer = bench.connected(0);
        bench.driver.send(0, vec![0; 32 << 20]);
        for _ in 0..5 {
            bench.turn(Duration::from_millis(10));
        }
        assert!(!bench.told.contains(&Told::Sent(0)));
        bench.driver.close(0, true);
        bench.until(|told| told.contains(&Told::Closed(0)));
        assert!(!bench.told.iter().any(|told| matches!(told, Told::Sent(_) | Told::Ended(..))), "{:?}", bench.told);
        drop(peer);
    });
}

/// Each client in turn, while all others are there: whichever table it is in, its events end the wait.
#[test]
fn all_clients_are_heard_and_can_be_closed_and_connected_again() {
    on_all(|on| {
        let mut bench = Bench::new(on, Vec::new());
        let mut peers: Vec<TcpStream> = (0..8).map(|client| bench.connected(client)).collect();
        for round in 0..40 {
            let client = round * 5 % 8;
            let peer = &mut peers[client as usize];
            peer.write_all(b"to you").expect("a write");
            bench.told.clear();
            let start = Instant::now();
            while received(&bench.told, client) != b"to you" {
                bench.turn(Duration::from_secs(120));
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the wait lasted beyond the event");
            bench.driver.send(client, b"and you".to_vec());
            bench.until(|told| told.contains(&Told::Sent(client)));
            let mut got = [0; 7];
            peer.read_exact(&mut got).expect("bytes");
            assert_eq!(&got, b"and you");
            if round % 3 == 0 {
                bench.driver.close(client, round % 2 == 0);
                bench.until(|told| told.contains(&Told::Closed(client)));
                bench.told.clear();
                peers[client as usize] = bench.connected(client);
            }
        }
    });
}

/// What comes to favoured clients does not wait behind what comes to others.
#[test]
fn favoured_clients_are_read_from_first() {
    let mut bench = Bench::new(On { kind: Kind::Uring, table_slots: 8 }, Vec::new());
    let mut peers: Vec<TcpStream> = (0..8).map(|client| bench.connected(client)).collect();
    bench.driver.favour(6);
    bench.told.clear();
    peers.iter_mut().for_each(|peer| peer.write_all(b"to you").expect("a write"));
    bench.until(|told| told.len() == 8);
    assert_eq!(bench.told[0], Told::Received(6, b"to you".to_vec()));
    // Only that connection: not the next one of the same client.
    bench.driver.close(6, true);
    bench.until(|told| told.contains(&Told::Closed(6)));
    peers[6] = bench.connected(6);
    bench.told.clear();
    peers.iter_mut().for_each(|peer| peer.write_all(b"to you").expect("a write"));
    bench.until(|told| told.len() == 8);
    assert_eq!(bench.told[0], Told::Received(0, b"to you".to_vec()));
}
