//! The proxy with real sockets: relayed data between two clients, and interference by others.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};
use throng_engine::extension::bytestreams::{Activated, Activation, StreamHash};

use super::{ActivationPort, Bounds, EARLY_BYTES_MAX, StreamCounters, StreamServer, ports};
use crate::disk::Wake;

/// Maximum time for an expected event.
const SOON: Duration = Duration::from_secs(60);
/// Time in which an unexpected event would happen.
const A_WHILE: Duration = Duration::from_millis(300);

fn bounds() -> Bounds {
    Bounds {
        waiting_max: 500,
        per_address_max: 0,
        streams_max: 20,
        per_user_max: 5,
        user_bytes_per_second: 0,
        idle: SOON,
        handshake: SOON,
        activation: SOON,
    }
}

struct Scene {
    address: SocketAddr,
    port: ActivationPort,
    counters: Arc<StreamCounters>,
    token: u64,
    _server: StreamServer,
}

impl Scene {
    fn new(bounds: Bounds) -> Scene {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let wakes: Vec<Arc<dyn Wake>> = vec![Arc::new(|| {})];
        let (mut ports, activations) = ports(&wakes);
        let counters = Arc::new(StreamCounters::default());
        let server = StreamServer::start(vec![listener], activations, bounds, counters.clone()).expect("a server");
        Scene { address: server.addresses()[0], port: ports.remove(0), counters, token: 0, _server: server }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        stream
    }

    /// The same from another address of this machine.
    fn connect_from(&self, last: u8) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).expect("an address");
        socket.connect(&self.address.into()).expect("a connection");
        socket.set_read_timeout(Some(SOON)).expect("a timeout");
        socket.into()
    }

    /// A connection that has named a stream.
    fn party(&self, stream: u8) -> TcpStream {
        let mut party = self.connect();
        assert_eq!(name(&mut party, stream), Some(0));
        party
    }

    fn activate(&mut self, user: &str, stream: u8) -> Activated {
        self.token += 1;
        let activation = Activation { user: user.into(), stream: hash(stream) };
        self.port.submit(self.token, Box::new(activation));
        let mut done = None;
        soon("an answer", || {
            done = self.port.poll();
            done.is_some()
        });
        let (token, activated) = done.expect("an answer");
        assert_eq!(token, self.token);
        activated
    }

    /// Two parties to a stream that has begun.
    fn stream(&mut self, user: &str, stream: u8) -> (TcpStream, TcpStream) {
        let parties = (self.party(stream), self.party(stream));
        assert_eq!(self.activate(user, stream), Activated::Done);
        parties
    }
}

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn hash(stream: u8) -> StreamHash {
    [stream; 20]
}

fn digits(stream: u8) -> String {
    hash(stream).iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"))
}

/// Names a stream; returns the reply's code, or `None` if the connection ends before.
fn name(party: &mut TcpStream, stream: u8) -> Option<u8> {
    let mut answer = [0; 2];
    party.write_all(&[5, 1, 0]).ok()?;
    party.read_exact(&mut answer).ok()?;
    assert_eq!(answer, [5, 0]);
    let request = [&[5, 1, 0, 3, 40][..], digits(stream).as_bytes(), &[0, 0]].concat();
    party.write_all(&request).ok()?;
    let mut reply = [0; 47];
    party.read_exact(&mut reply).ok()?;
    assert_eq!((&reply[2..5], &reply[5..45]), (&[0, 3, 40][..], digits(stream).as_bytes()), "XEP-0065 6.3.2");
    Some(reply[1])
}

/// Whether the other side closes, or has closed.
fn is_closed(party: &mut TcpStream) -> bool {
    match party.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

fn is_silent(party: &mut TcpStream) -> bool {
    party.set_read_timeout(Some(A_WHILE)).expect("a timeout");
    let error = party.read(&mut [0; 1]).expect_err("nothing comes");
    party.set_read_timeout(Some(SOON)).expect("a timeout");
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}

/// XEP-0065 6.3.5, 10.1: bytes are relayed both ways, and the end of one direction is passed on
/// while the other continues.
#[test]
fn bytes_go_both_ways_and_each_way_ends_for_itself_xep0065_10_1() {
    let mut scene = Scene::new(bounds());
    let (mut requester, mut target) = scene.stream("romeo@a", 1);
    let sent = pattern(3_000_000);
    let sending = sent.clone();
    let sender = std::thread::spawn(move || {
        requester.write_all(&sending).expect("taken");
        requester.shutdown(Shutdown::Write).expect("an end");
        let mut answer = Vec::new();
        requester.read_to_end(&mut answer).expect("an answer");
        answer
    });
    let mut came = Vec::new();
    target.read_to_end(&mut came).expect("all of it");
    assert!(came == sent, "{} bytes", came.len());
    target.write_all(b"thank you").expect("the other way goes on");
    drop(target);
    assert_eq!(sender.join().expect("no panic"), b"thank you");
    soon("it has ended", || scene.counters.relayed.get() == 0);
    assert_eq!((scene.counters.streams.get(), scene.counters.stream_bytes.get()), (1, 3_000_009));
    assert_eq!(scene.activate("romeo@a", 1), Activated::Unknown, "it is over");
}

/// XEP-0065 10.1: bytes before the activation are ignored.
#[test]
fn no_byte_passes_before_the_activation_xep0065_10_1() {
    let mut scene = Scene::new(bounds());
    let (mut requester, mut target) = (scene.party(1), scene.party(1));
    requester.write_all(b"early").expect("taken");
    assert!(is_silent(&mut target));
    soon("it was dropped", || scene.counters.early_bytes.get() == 5);
    assert_eq!(scene.activate("romeo@a", 1), Activated::Done);
    requester.write_all(b"late").expect("taken");
    let mut came = [0; 4];
    target.read_exact(&mut came).expect("it comes");
    assert_eq!(&came, b"late");
    // Too many of them end the connection.
    let mut loud = scene.party(2);
    let _ = loud.write_all(&vec![0; 2 * EARLY_BYTES_MAX]);
    assert!(is_closed(&mut loud));
    assert_eq!(scene.activate("romeo@a", 2), Activated::Unknown);
}

/// XEP-0065 6.3.5: one party alone is not a stream, and another requester, target or id names
/// another stream.
#[test]
fn streams_of_others_cannot_be_begun_or_joined() {
    let mut scene = Scene::new(bounds());
    assert_eq!(scene.activate("romeo@a", 1), Activated::Unknown);
    let first = scene.party(1);
    assert_eq!(scene.activate("romeo@a", 1), Activated::Alone);
    let mut target = scene.party(1);
    assert_eq!(name(&mut scene.connect(), 1), Some(2), "a third one");
    assert_eq!(scene.activate("mallory@a", 9), Activated::Unknown, "of another hash");
    drop(first);
    soon("it has gone", || scene.counters.waiting.get() == 1);
    assert_eq!(scene.activate("romeo@a", 1), Activated::Alone);
    let mut requester = scene.party(1);
    assert_eq!(scene.activate("romeo@a", 1), Activated::Done);
    assert_eq!(scene.activate("romeo@a", 1), Activated::Done, "asked again");
    assert_eq!(name(&mut scene.connect(), 1), Some(2), "a third one, late");
    requester.write_all(b"x").expect("taken");
    target.read_exact(&mut [0; 1]).expect("it is theirs");
}

/// Guessing hashes reveals nothing: any free hash is accepted, and each costs a place.
#[test]
fn guessing_hashes_finds_no_stream() {
    let scene = Scene::new(bounds());
    let _victims = (scene.party(200), scene.connect());
    let guesses: Vec<TcpStream> = (0..100).map(|stream| scene.party(stream)).collect();
    assert_eq!(scene.counters.waiting.get(), 102);
    drop(guesses);
    soon("places are free again", || scene.counters.waiting.get() == 2);
}

#[test]
fn what_is_no_socks5_is_closed_and_slow_ones_are_too() {
    let scene = Scene::new(Bounds { handshake: A_WHILE, ..bounds() });
    for garbage in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &[0; 300], &[5, 1, 0, 5, 2, 0, 3, 40], &[22, 3, 1, 0]] {
        let mut party = scene.connect();
        party.write_all(garbage).expect("taken");
        let mut said = Vec::new();
        let _ = party.read_to_end(&mut said);
        assert!(said.len() <= 12, "{said:?}");
    }
    let mut slow: Vec<TcpStream> = (0..50).map(|_| scene.connect()).collect();
    for party in &mut slow {
        party.write_all(&[5]).expect("taken");
    }
    // An occasional byte does not help: the time is for the whole handshake.
    for _ in 0..3 {
        std::thread::sleep(A_WHILE / 2);
        slow.iter_mut().for_each(|party| drop(party.write_all(&[200])));
    }
    soon("none is left", || scene.counters.waiting.get() == 0);
    assert!(slow.iter_mut().all(is_closed));
    assert_eq!(scene.counters.handshakes_failed.get(), 54);
}

#[test]
fn streams_that_nobody_begins_end() {
    let mut scene = Scene::new(Bounds { activation: A_WHILE, ..bounds() });
    let (mut one, mut other) = (scene.party(1), scene.party(1));
    assert!(is_closed(&mut one) && is_closed(&mut other));
    soon("they are forgotten", || scene.counters.waiting.get() == 0);
    assert_eq!(scene.activate("romeo@a", 1), Activated::Unknown);
}

/// One address may connect as often as it likes: connections of others stay, and a running stream
/// is not affected.
#[test]
fn thousands_of_connections_harm_nobody_else() {
    let mut scene = Scene::new(Bounds { waiting_max: 40, ..bounds() });
    let (mut requester, mut target) = scene.stream("romeo@a", 1);
    let mut waiting = [scene.connect_from(2), scene.connect_from(3)];
    assert!(waiting.iter_mut().all(|party| name(party, 2) == Some(0)));
    let mut flood = std::collections::VecDeque::new();
    for n in 0..3_000 {
        let mut party = scene.connect();
        // Some send nothing, some begin, some name a stream of their own.
        match n % 3 {
            0 => {}
            1 => drop(party.write_all(&[5, 1])),
            _ => drop(party.write_all(
                &[&[5, 1, 0, 5, 1, 0, 3, 40][..], digits((n % 100) as u8 + 50).as_bytes(), &[0, 0]].concat(),
            )),
        }
        flood.push_back(party);
        if flood.len() > 300 {
            flood.pop_front();
        }
    }
    assert!(scene.counters.waiting.get() <= 40);
    assert!(scene.counters.connections_displaced.get() > 2_000, "{}", scene.counters.connections_displaced.get());
    requester.write_all(b"x").expect("taken");
    target.read_exact(&mut [0; 1]).expect("it goes on");
    assert_eq!(scene.activate("juliet@a", 2), Activated::Done, "those of other addresses have stayed");
    let [mut one, mut other] = waiting;
    one.write_all(b"y").expect("taken");
    other.read_exact(&mut [0; 1]).expect("it goes");
}

#[test]
fn an_address_has_so_many_connections_that_wait() {
    let scene = Scene::new(Bounds { per_address_max: 3, ..bounds() });
    let held: Vec<TcpStream> = (1..=3).map(|stream| scene.party(stream)).collect();
    assert!(is_closed(&mut scene.connect()));
    assert_eq!(name(&mut scene.connect_from(9), 9), Some(0), "another address");
    drop(held);
    soon("there is room again", || scene.counters.waiting.get() == 0);
    scene.party(4);
    assert_eq!(scene.counters.connections_refused.get(), 1);
}

#[test]
fn a_user_has_so_many_streams_and_leaves_room_for_others() {
    let mut scene = Scene::new(Bounds { per_user_max: 2, streams_max: 3, ..bounds() });
    let mut held: Vec<_> = (1..=2).map(|stream| scene.stream("mallory@a", stream)).collect();
    held.push((scene.party(3), scene.party(3)));
    assert_eq!(scene.activate("mallory@a", 3), Activated::TooMany);
    held.push(scene.stream("romeo@a", 4));
    held.push((scene.party(5), scene.party(5)));
    assert_eq!(scene.activate("juliet@a", 5), Activated::TooMany, "all are taken");
    held.remove(0);
    soon("one has ended", || scene.counters.relayed.get() == 2);
    assert_eq!(scene.activate("juliet@a", 5), Activated::Done, "it has waited");
    assert_eq!((scene.counters.streams_refused.get(), scene.counters.streams_full.get()), (2, 2));
}

/// What a receiver does not take is not read from the sender: the stream uses only its pieces and
/// the kernel's buffers, however much is sent.
#[test]
fn a_slow_receiver_holds_its_sender_and_nobody_else() {
    let mut scene = Scene::new(bounds());
    let (requester, mut target) = scene.stream("romeo@a", 1);
    requester.set_nonblocking(true).expect("a mode");
    let (all, mut sent, mut stands) = (pattern(32 << 20), 0, 0);
    while stands < 20 && sent < all.len() {
        match (&requester).write(&all[sent..]) {
            Ok(went) => (sent, stands) = (sent + went, 0),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                stands += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    // The proxy's two sockets take at most 1 MiB of it, as counted by the kernel; the clients' own
    // have the sizes set here.
    assert!(sent < 16 << 20, "{sent} bytes were taken of a stream that nobody reads");
    let relayed = scene.counters.stream_bytes.get();
    let held = SockRef::from(&requester).send_buffer_size().expect("a size") as u64;
    assert!(sent as u64 <= relayed + held + (2 << 20), "{sent} sent, {relayed} passed on, {held} of the sender's own");
    // Another stream continues in the meantime.
    let (mut one, mut other) = scene.stream("juliet@a", 2);
    let sender = std::thread::spawn(move || one.write_all(&pattern(5_000_000)).map(|()| one));
    let mut came = vec![0; 5_000_000];
    other.read_exact(&mut came).expect("it comes");
    assert!(came == pattern(5_000_000));
    drop(sender.join());
    // And this one, when its receiver reads again.
    requester.set_nonblocking(false).expect("a mode");
    let rest = all[sent..].to_vec();
    let sender = std::thread::spawn(move || (&requester).write_all(&rest));
    let mut came = Vec::new();
    target.read_to_end(&mut came).expect("all of it");
    assert!(came == all, "{} bytes", came.len());
    assert!(sender.join().expect("no panic").is_ok());
}

#[test]
fn a_receiver_that_goes_away_ends_the_stream() {
    let mut scene = Scene::new(bounds());
    let (mut requester, target) = scene.stream("romeo@a", 1);
    requester.write_all(&[1; 1_000]).expect("taken");
    SockRef::from(&target).set_linger(Some(Duration::ZERO)).expect("a reset");
    drop(target);
    soon("it has ended", || {
        let _ = requester.write_all(&[1; 1_000]);
        scene.counters.relayed.get() == 0
    });
    assert!(is_closed(&mut requester));
}

#[test]
fn a_stream_that_stands_still_ends_and_one_that_goes_on_does_not() {
    let mut scene = Scene::new(Bounds { idle: 2 * A_WHILE, ..bounds() });
    let (mut requester, mut target) = scene.stream("romeo@a", 1);
    for _ in 0..6 {
        std::thread::sleep(A_WHILE / 2);
        requester.write_all(b"x").expect("taken");
        target.read_exact(&mut [0; 1]).expect("it comes");
    }
    assert!(is_closed(&mut target) && is_closed(&mut requester));
    soon("it was counted", || scene.counters.streams_idle.get() == 1);
}

/// The limit applies to all streams of a user together, and affects no other user.
#[test]
fn a_user_has_so_many_bytes_a_second() {
    let mut scene = Scene::new(Bounds { user_bytes_per_second: 1_000_000, ..bounds() });
    let began = Instant::now();
    let pairs = [scene.stream("romeo@a", 1), scene.stream("romeo@a", 2)];
    let run = |(mut from, mut to): (TcpStream, TcpStream), bytes: usize| {
        let sender = std::thread::spawn(move || from.write_all(&pattern(bytes)).expect("taken"));
        std::thread::spawn(move || {
            to.read_exact(&mut vec![0; bytes]).expect("it comes");
            sender.join().expect("no panic");
        })
    };
    let ends = pairs.map(|pair| run(pair, 1_200_000));
    let juliet = scene.stream("juliet@a", 3);
    run(juliet, 200_000).join().expect("no panic");
    assert!(ends.iter().all(|end| !end.is_finished()), "another user is as fast as ever");
    ends.into_iter().for_each(|end| end.join().expect("no panic"));
    let took = began.elapsed();
    assert!(took > Duration::from_millis(2_050), "{took:?} for 2.4 MB at 1 MB a second, less a burst");
}

/// Each activation of one turn is answered, in any order.
#[test]
fn activations_are_answered_once_each() {
    let mut scene = Scene::new(bounds());
    let _parties: Vec<_> = (0..5).map(|stream| (scene.party(stream), scene.party(stream))).collect();
    for token in 0..10_u64 {
        let activation = Activation { user: "romeo@a".into(), stream: hash(token as u8) };
        scene.port.submit(token, Box::new(activation));
    }
    let mut answers = Vec::new();
    soon("ten answers", || {
        answers.extend(scene.port.poll());
        answers.len() == 10
    });
    answers.sort_by_key(|(token, _)| *token);
    let expected = |token: u64| if token < 5 { Activated::Done } else { Activated::Unknown };
    assert!(
        answers
            .iter()
            .enumerate()
            .all(|(at, (token, activated))| { *token == at as u64 && *activated == expected(*token) }),
        "{answers:?}"
    );
    assert_eq!(scene.port.poll(), None);
}

#[test]
fn who_is_asked_when_the_proxy_has_stopped_fails() {
    let Scene { mut port, _server: server, .. } = Scene::new(bounds());
    drop(server);
    port.submit(1, Box::new(Activation { user: "romeo@a".into(), stream: hash(1) }));
    assert_eq!(port.poll(), Some((1, Activated::Failed)));
}
