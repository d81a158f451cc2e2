//! Connections that move from one thread to another, with each event of the two drivers at a moment
//! that the test chooses. Races of real sockets are reproduced deterministically.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::sync_channel;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use throng_engine::counters::Counters;
use throng_engine::io::{AccountCommand, ListenerKind, PutMode};
use throng_engine::settings::Settings;

use super::*;
use crate::admin::ScramKeys;
use crate::disk::{Committer, Engine, MemoryEngine, Readers, Wake};
use crate::driver::{self, Kind, ListenerTag, Preference, choose};
use crate::log::Secret;
use crate::tls::TlsEntries;
use crate::tls::tests::Scene;

const PATIENCE: Duration = Duration::from_secs(60);
const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
                      to='localhost' version='1.0'>";
/// The listener of direct TLS.
const TLS: ListenerTag = ListenerTag(0);

/// An owned event.
enum Happens {
    Accepted(ConnId),
    Received(ConnId, Vec<u8>),
    Sent(ConnId),
    Closed(ConnId),
    Departed(ConnId, u64),
    DepartureFailed(ConnId, u64),
    Arrived(u64, ConnId),
    Failed(ConnId, Cause),
}

/// An order that a driver was given.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Send(ConnId, Vec<u8>),
    Close(ConnId, Close),
    Depart(ConnId, u64),
}

/// The state shared by a test and the driver of one thread.
#[derive(Default)]
struct Stage {
    /// The events of the next wait.
    next: Vec<Happens>,
    did: Vec<Did>,
    /// Sends finish only when the test says so.
    holds: bool,
    /// The timeout of the last wait.
    timeout: Option<Duration>,
    /// The last settings given to the driver.
    tuning: driver::Tuning,
}

/// A driver without sockets.
struct Puppet {
    stage: Rc<RefCell<Stage>>,
    peer: Peer,
}

impl Driver for Puppet {
    fn gather(&mut self, _: Duration) {}

    fn kind(&self) -> Kind {
        Kind::Epoll
    }

    fn listen(&mut self, _: std::net::TcpListener, _: ListenerTag) -> std::io::Result<()> {
        unreachable!("nobody listens")
    }

    fn close_listeners(&mut self) {}

    fn wait(&mut self, timeout: Option<Duration>, on_event: &mut dyn FnMut(Event<'_>)) -> std::io::Result<()> {
        self.stage.borrow_mut().timeout = timeout;
        for event in std::mem::take(&mut self.stage.borrow_mut().next) {
            match event {
                Happens::Accepted(conn) => {
                    let peer = SocketAddr::from(([127, 0, 0, 1], 4000));
                    on_event(Event::Accepted { conn, tag: TLS, peer });
                }
                Happens::Received(conn, mut bytes) => on_event(Event::Received { conn, bytes: &mut bytes }),
                Happens::Sent(conn) => on_event(Event::Sent { conn, buffer: Vec::new() }),
                Happens::Closed(conn) => on_event(Event::Closed { conn }),
                Happens::Departed(conn, key) => on_event(Event::Departed { conn, key }),
                Happens::DepartureFailed(conn, key) => {
                    on_event(Event::DepartureFailed { conn, key, error: std::io::ErrorKind::StorageFull });
                }
                Happens::Arrived(key, conn) => on_event(Event::Arrived { key, conn }),
                Happens::Failed(conn, cause) => on_event(Event::Failed { conn, cause }),
            }
        }
        Ok(())
    }

    fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> std::io::Result<()> {
        self.wait(None, on_event)
    }

    fn send(&mut self, conn: ConnId, bytes: Vec<u8>) {
        let mut stage = self.stage.borrow_mut();
        stage.did.push(Did::Send(conn, bytes));
        if !stage.holds {
            stage.next.push(Happens::Sent(conn));
        }
    }

    fn pause(&mut self, _: ConnId) {}

    fn resume(&mut self, _: ConnId) {}

    fn favour(&mut self, _: ConnId) {}

    fn close(&mut self, conn: ConnId, how: Close) {
        self.stage.borrow_mut().did.push(Did::Close(conn, how));
    }

    fn depart(&mut self, conn: ConnId, _: &Peer, key: u64) {
        self.stage.borrow_mut().did.push(Did::Depart(conn, key));
    }

    fn peer_addresses(&mut self, conns: &[ConnId]) -> Vec<Option<SocketAddr>> {
        vec![None; conns.len()]
    }

    fn peer(&self) -> Peer {
        self.peer.clone()
    }

    fn connections(&self) -> u32 {
        0
    }

    fn tune(&mut self, tuning: &driver::Tuning) {
        self.stage.borrow_mut().tuning = *tuning;
    }
}

/// Two threads, whose turns the test controls, over a store in memory.
struct World {
    threads: Vec<Thread>,
    stages: Vec<Rc<RefCell<Stage>>>,
    asks: Vec<SyncSender<Ask>>,
    client: Arc<ClientConfig>,
    /// A user whose home is the second thread.
    user: String,
    _store: (Committer, Readers, Scene),
}

impl World {
    fn new() -> World {
        let scene = Scene::new();
        let options = disk::Options::default();
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let sleepers = Readers::sleepers(&options);
        let wakes: Vec<Arc<dyn Wake>> = (0..2).map(|_| Arc::new(|| {}) as Arc<dyn Wake>).collect();
        let all = wakes.iter().cloned().chain(sleepers.iter().map(|s| s.clone() as Arc<dyn Wake>)).collect();
        let fatal: disk::commit::Fatal = Arc::new(|error| panic!("{error}"));
        let (committer, submitters) = Committer::start(engine.clone(), None, 2, all, &options, fatal.clone()).unwrap();
        let (readers, reads) = Readers::start(&engine, &committer, sleepers, 2, &options, &fatal).unwrap();
        let jobs = crate::jobs::start(1, &wakes).unwrap();
        let (mut outside, _) = crate::extauth::start(Vec::new(), &wakes).unwrap();
        let (mut pushes, _) = crate::webpush::start(None, &wakes).unwrap();
        let mut orders = crate::orders::ports(&wakes).0;
        let mut activations = crate::bytestreams::ports(&wakes).0;
        let settings = Arc::new(Settings::new("localhost", 2, [1; 32], 0));
        let (mut threads, mut stages, mut asks) = (Vec::new(), Vec::new(), Vec::new());
        let driver = || choose(Preference::Epoll, &crate::driver::Settings::default()).unwrap().driver;
        let peers: Vec<Peer> = (0..2).map(|_| driver().peer()).collect();
        let clock = Clock::start();
        let parts = submitters.into_iter().zip(reads).zip(jobs).zip(crate::letters::letter_rings(2, 16)).enumerate();
        for (index, (((submitter, reads), jobs), letters)) in parts {
            let stage = Rc::new(RefCell::new(Stage::default()));
            let (ask, asked) = sync_channel(4);
            let counters = Arc::new(Counters::default());
            threads.push(Thread::new(Parts {
                shard: Shard::new(ShardId(index as u16), settings.clone(), counters, [index as u8; 32]),
                driver: Box::new(Puppet { stage: stage.clone(), peer: peers[index].clone() }),
                submitter,
                reads,
                jobs,
                outside: outside.remove(0),
                pushes: pushes.remove(0),
                orders: orders.remove(0),
                activations: activations.remove(0),
                letters,
                peers: peers.clone(),
                listeners: vec![Entrance {
                    kind: ListenerKind { direct_tls: true, starttls: false, plain_auth: false, registration: false },
                    proxied: false,
                    component: false,
                    http: false,
                    address: SocketAddr::from(([127, 0, 0, 1], 5223)),
                }],
                more_room: "none".into(),
                tls: Some(TlsEntries::of(&scene.certificates)),
                asks: asked,
                tuning: Tuning::default(),
                clock,
                ending: Arc::new(Ending::new(2)),
                timings: Arc::default(),
            }));
            stages.push(stage);
            asks.push(ask);
        }
        let home = |name: &String| threads[0].p.shard.home(&format!("{name}@localhost")) == ShardId(1);
        let user = (0..).map(|n| format!("user{n}")).find(home).unwrap();
        let client = Arc::new(scene.client_config());
        let mut world = World { threads, stages, asks, client, user, _store: (committer, readers, scene) };
        world.add_user();
        world
    }

    fn add_user(&mut self) {
        let keys = ScramKeys::derive(&Secret::new("secret"), 4096, &[3; 16]).unwrap();
        let (reply, replied) = sync_channel(1);
        let account = format!("{}@localhost", self.user).into();
        let command = Command::Account(AccountCommand::Put {
            account,
            credentials: Box::new(keys.credentials(0)),
            mode: PutMode::Add,
        });
        self.asks[1].try_send(Ask { command, tuning: None, reply }).unwrap();
        self.until("the account", |_| replied.try_recv().ok().map(|answer| assert_eq!(answer.reply, Reply::Done(1))));
    }

    /// Runs one turn of a thread, with these events.
    fn turn(&mut self, thread: usize, events: Vec<Happens>) {
        self.stages[thread].borrow_mut().next.extend(events);
        self.threads[thread].turn().unwrap();
    }

    /// Runs turns of both until the test finds what it looks for.
    fn until<T>(&mut self, what: &str, mut found: impl FnMut(&mut World) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            assert!(start.elapsed() < PATIENCE, "no {what}");
            self.turn(0, Vec::new());
            self.turn(1, Vec::new());
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// The next order of a thread's driver for which `which` returns something.
    fn next_order<T>(&mut self, thread: usize, what: &str, which: impl Fn(&Did) -> Option<T>) -> T {
        self.until(what, |world| {
            let mut stage = world.stages[thread].borrow_mut();
            let (at, found) = stage.did.iter().enumerate().find_map(|(at, did)| Some((at, which(did)?)))?;
            stage.did.remove(at);
            Some(found)
        })
    }

    fn connections(&self, thread: usize) -> u64 {
        self.threads[thread].p.shard.counters().connections.get()
    }
}

/// One client and its location.
struct Client {
    thread: usize,
    conn: ConnId,
    tls: ClientConnection,
    heard: String,
}

impl Client {
    /// Connects to the first thread.
    fn accept(world: &World, conn: ConnId) -> (Client, Happens) {
        let tls = ClientConnection::new(world.client.clone(), ServerName::try_from("localhost").unwrap()).unwrap();
        (Client { thread: 0, conn, tls, heard: String::new() }, Happens::Accepted(conn))
    }

    /// Its pending output, as records.
    fn records(&mut self, text: &str) -> Vec<u8> {
        self.tls.writer().write_all(text.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    fn say(&mut self, world: &mut World, text: &str) {
        let bytes = self.records(text);
        world.turn(self.thread, vec![Happens::Received(self.conn, bytes)]);
    }

    /// Receives until `mark` has arrived.
    fn until(&mut self, world: &mut World, mark: &str) {
        world.until(mark, |world| {
            self.hear(world);
            self.heard.contains(mark).then_some(())
        });
    }

    fn hear(&mut self, world: &mut World) {
        let mut stage = world.stages[self.thread].borrow_mut();
        let mut to_send = Vec::new();
        for did in std::mem::take(&mut stage.did) {
            match did {
                Did::Send(conn, bytes) if conn == self.conn => {
                    let mut bytes = &bytes[..];
                    while self.tls.read_tls(&mut bytes).unwrap() > 0 {
                        self.tls.process_new_packets().expect("records in order, sealed with the keys agreed on");
                    }
                }
                other => stage.did.push(other),
            }
        }
        // An end of file and an empty buffer both mean that nothing more is available.
        let _ = self.tls.reader().read_to_end(&mut to_send);
        self.heard.push_str(std::str::from_utf8(&to_send).unwrap());
        to_send.clear();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut to_send).unwrap();
        }
        if !to_send.is_empty() {
            stage.next.push(Happens::Received(self.conn, to_send));
        }
    }

    /// Logs in up to the point where the client has read `<success/>` and the server does not know
    /// yet that it was sent. The connection is leaving by then.
    fn log_in(world: &mut World, conn: ConnId) -> Client {
        let (mut client, accepted) = Client::accept(world, conn);
        world.turn(0, vec![accepted]);
        client.say(world, HEADER);
        client.until(world, "</stream:features>");
        world.until("rest", |world| world.stages[0].borrow().next.is_empty().then_some(()));
        world.stages[0].borrow_mut().holds = true;
        let token = STANDARD.encode(format!("\0{}\0secret", world.user));
        client.say(world, &format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{token}</auth>"));
        client.until(world, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'");
        assert!(world.threads[0].p.shard.is_departing(conn));
        client.heard.clear();
        client
    }

    /// The key of its departure, once its last bytes are sent.
    fn departure(&self, world: &mut World, sent: Vec<Happens>) -> u64 {
        world.stages[0].borrow_mut().holds = false;
        world.turn(0, sent);
        let conn = self.conn;
        world.next_order(0, "departure", |did| match did {
            Did::Depart(who, key) if *who == conn => Some(*key),
            _ => None,
        })
    }
}

fn conn(slot: u32, generation: u32) -> ConnId {
    ConnId { slot, generation }
}

/// The kernel may refill a slot as soon as it is free, and report both at the same time.
#[test]
fn a_slot_filled_again_in_the_wait_of_a_departure_is_the_newcomers() {
    let mut world = World::new();
    let mut leaver = Client::log_in(&mut world, conn(5, 0));
    let key = leaver.departure(&mut world, vec![Happens::Sent(leaver.conn)]);
    let (mut newcomer, accepted) = Client::accept(&world, conn(5, 1));
    world.turn(0, vec![Happens::Departed(leaver.conn, key), accepted]);
    assert_eq!(world.connections(0), 1, "the newcomer");
    (leaver.thread, leaver.conn) = (1, conn(5, 7));
    world.turn(1, vec![Happens::Arrived(key, leaver.conn)]);
    // The departed client continues with its own keys, and the new one is served (RFC 6120 6.4.6,
    // 4.3.2).
    leaver.say(&mut world, HEADER);
    leaver.until(&mut world, "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'");
    newcomer.say(&mut world, HEADER);
    newcomer.until(&mut world, "<mechanism>");
    assert_eq!((world.connections(0), world.connections(1)), (1, 1));
    world.turn(0, vec![Happens::Closed(newcomer.conn)]);
    assert_eq!(world.connections(0), 0, "nothing is kept of either");
}

/// Moments of a move at which bytes of the peer may arrive.
const MOMENTS: usize = 7;

/// RFC 6120 6.4.6: the new stream header may arrive as soon as `<success/>` is read, at any moment
/// of the move.
#[test]
fn a_stream_header_is_kept_at_every_moment_of_a_move() {
    let mut world = World::new();
    let mut generation = 0;
    for state_first in [false, true] {
        for first in 0..MOMENTS {
            for second in first..MOMENTS {
                let mut client = Client::log_in(&mut world, conn(0, generation));
                let header = client.records(HEADER);
                let (early, late) = header.split_at(header.len() / 2);
                let halves = [(first, early.to_vec()), (second, late.to_vec())];
                // The input at a moment, as events of the connection's id at that time.
                let at = |moment: usize, conn: ConnId| {
                    halves
                        .iter()
                        .filter(move |(at, _)| *at == moment)
                        .map(move |(_, b)| Happens::Received(conn, b.clone()))
                };
                let here = client.conn;
                // Before the last bytes are known to be sent, in the same wait, after it, and
                // together with the departure.
                world.turn(0, at(0, here).collect());
                let key = client.departure(&mut world, [Happens::Sent(here)].into_iter().chain(at(1, here)).collect());
                world.turn(0, at(2, here).collect());
                world.turn(0, at(3, here).chain([Happens::Departed(here, key)]).collect());
                // At the new home: with the arrival, after it, and when the move is complete.
                let there = conn(0, generation);
                (client.thread, client.conn) = (1, there);
                let arrival: Vec<Happens> = [Happens::Arrived(key, there)].into_iter().chain(at(4, there)).collect();
                if state_first {
                    world.turn(1, Vec::new());
                }
                world.turn(1, arrival);
                world.turn(1, at(5, there).collect());
                world.turn(1, Vec::new());
                world.turn(1, at(6, there).collect());
                client.until(&mut world, "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'");
                world.turn(1, vec![Happens::Closed(there)]);
                generation += 1;
            }
        }
    }
    assert_eq!((world.connections(0), world.connections(1)), (0, 0));
}

/// RFC 6120 4.9.3.17, 4.9.1.2: if the home has no free slot, the client is told on a stream that
/// the server opens.
#[test]
fn a_move_that_fails_is_told() {
    let mut world = World::new();
    let mut client = Client::log_in(&mut world, conn(2, 0));
    let key = client.departure(&mut world, vec![Happens::Sent(client.conn)]);
    world.turn(0, vec![Happens::DepartureFailed(client.conn, key)]);
    client.until(&mut world, "</stream:stream>");
    assert!(client.heard.starts_with("<?xml version='1.0'?><stream:stream "), "{}", client.heard);
    assert!(client.heard.contains("<resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"));
    let how = world.next_order(0, "close", |did| match did {
        Did::Close(who, how) if *who == conn(2, 0) => Some(*how),
        _ => None,
    });
    assert_eq!(how, Close::AfterSend);
    world.turn(0, vec![Happens::Closed(client.conn)]);
    assert_eq!(world.connections(0), 0);
}

/// The connection dies while its state is in flight: the keys and all other state are dropped.
#[test]
fn of_a_moved_connection_that_dies_before_its_state_comes_nothing_is_kept() {
    let mut world = World::new();
    let client = Client::log_in(&mut world, conn(5, 0));
    let key = client.departure(&mut world, vec![Happens::Sent(client.conn)]);
    let there = conn(5, 7);
    world.turn(1, vec![Happens::Arrived(key, there)]);
    world.turn(1, vec![Happens::Failed(there, Cause::Reset)]);
    let how = world.next_order(1, "close", |did| match did {
        Did::Close(who, how) if *who == there => Some(*how),
        _ => None,
    });
    assert_eq!(how, Close::Now);
    world.turn(1, vec![Happens::Closed(there)]);
    world.turn(0, vec![Happens::Departed(client.conn, key)]);
    world.turn(1, Vec::new());
    assert_eq!((world.connections(0), world.connections(1)), (0, 0));
    assert_eq!([0, 1].map(|thread| world.threads[thread].moving.kept()), [[0; 4]; 2]);
}

/// If a peer disconnects before its state arrives, no session may remain that is never ended.
#[test]
fn an_end_seen_before_the_state_of_a_moved_connection_ends_it() {
    let mut world = World::new();
    // The state arrives later, or in the same wait as the end; with bytes before the end, or
    // without.
    for (generation, later, bytes) in [(0, true, false), (1, true, true), (2, false, false), (3, false, true)] {
        let mut client = Client::log_in(&mut world, conn(5, generation));
        let header = client.records(HEADER);
        let key = client.departure(&mut world, vec![Happens::Sent(client.conn)]);
        let there = conn(5, generation);
        let mut events = vec![Happens::Arrived(key, there)];
        events.extend(bytes.then_some(Happens::Received(there, header)));
        events.push(Happens::Failed(there, Cause::PeerClosed));
        if later {
            world.turn(1, events);
            world.turn(0, vec![Happens::Departed(client.conn, key)]);
            world.turn(1, Vec::new());
        } else {
            world.turn(0, vec![Happens::Departed(client.conn, key)]);
            world.turn(1, Vec::new());
            world.turn(1, events);
        }
        let how = world.next_order(1, "close", |did| match did {
            Did::Close(who, how) if *who == there => Some(*how),
            _ => None,
        });
        assert_eq!(how, Close::AfterSend);
        world.turn(1, vec![Happens::Closed(there)]);
        world.stages[1].borrow_mut().did.clear();
        assert_eq!((world.connections(0), world.connections(1)), (0, 0));
        assert_eq!([0, 1].map(|thread| world.threads[thread].moving.kept()), [[0; 4]; 2]);
    }
}

/// A departure that was ordered ends with the connection, if it closes before it leaves.
#[test]
fn of_a_departing_connection_that_is_closed_nothing_is_kept() {
    let mut world = World::new();
    let client = Client::log_in(&mut world, conn(5, 0));
    client.departure(&mut world, vec![Happens::Sent(client.conn)]);
    world.turn(0, vec![Happens::Failed(client.conn, Cause::Reset)]);
    world.turn(0, vec![Happens::Closed(client.conn)]);
    assert_eq!(world.connections(0), 0);
    assert_eq!(world.threads[0].moving.kept(), [0; 4]);
}

/// The alert with the reason may wait for a peer that does not read, but not forever (RFC 8446
/// 6.2).
#[test]
fn a_close_after_a_fault_of_tls_has_a_limit_of_time() {
    let mut world = World::new();
    let at = conn(3, 0);
    let (mut client, accepted) = Client::accept(&world, at);
    world.turn(0, vec![accepted]);
    world.stages[0].borrow_mut().holds = true;
    // The answer to the first flight is not read, and what follows is not TLS.
    let hello = client.records("");
    world.turn(0, vec![Happens::Received(at, hello)]);
    world.turn(0, vec![Happens::Received(at, vec![0x16, 3, 3, 0, 1, 0xff])]);
    let closes = |world: &World| {
        let stage = world.stages[0].borrow();
        let closes = stage.did.iter().filter_map(|did| match did {
            Did::Close(_, how) => Some(*how),
            _ => None,
        });
        closes.collect::<Vec<_>>()
    };
    assert_eq!(closes(&world), [], "its last words are behind a send");
    let Thread { links, p, .. } = &mut world.threads[0];
    links.end_patience(&mut *p.driver, Instant::now() + Duration::from_secs(11));
    assert_eq!(closes(&world), [Close::Now]);
}

/// RFC 5246 has no key update, and RFC 8446 5.5 limits what AES-GCM may encrypt with one key. RFC
/// 6120 4.9.3.16 defines the condition for it.
#[test]
fn a_stream_is_ended_with_a_word_before_the_keys_of_tls_1_2_are_used_up() {
    let mut world = World::new();
    world.client = Arc::new(world._store.2.client_config_for(&[&rustls::version::TLS12]));
    let at = conn(4, 0);
    let (mut client, accepted) = Client::accept(&world, at);
    world.turn(0, vec![accepted]);
    client.say(&mut world, HEADER);
    client.until(&mut world, "</stream:features>");
    let traffic = world.threads[0].links.tls(at).expect("TLS").traffic_mut();
    // As if this many records had been sent: one more may be sent before the end begins.
    traffic.set_sent(throng_tls::testing::SEALED_RECORDS_MAX - (1 << 16) - 1);
    let mut peer = traffic.peer();
    let mut bytes = Vec::new();
    let unknown = b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='NONE'/>";
    peer.send(unknown, &mut bytes).unwrap();
    world.turn(0, vec![Happens::Received(at, bytes)]);
    let mut heard = Vec::new();
    let how = world.until("the end", |world| {
        let mut how = None;
        for did in std::mem::take(&mut world.stages[0].borrow_mut().did) {
            match did {
                Did::Send(_, mut bytes) => {
                    peer.receive(&mut &mut bytes[..], &mut heard, &mut Vec::new()).expect("records in order");
                }
                Did::Close(_, close) => how = Some(close),
                Did::Depart(..) => unreachable!("nobody has logged in"),
            }
        }
        how
    });
    let heard = String::from_utf8(heard).unwrap();
    assert!(heard.contains("<invalid-mechanism/>"), "{heard}");
    assert!(heard.contains("<reset xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"), "{heard}");
    assert!(heard.ends_with("</stream:stream>") && peer.peer_closed(), "{heard}");
    assert_eq!(how, Close::AfterSend);
    world.turn(0, vec![Happens::Closed(at)]);
    assert_eq!(world.connections(0), 0);
}

#[test]
fn what_an_operator_turns_reaches_thread_shard_and_driver_with_one_question() {
    let mut world = World::new();
    let settings = Settings { sessions_per_user_max: 1, ..Settings::new("localhost", 2, [0; 32], 0) };
    let command = Command::Turn(Arc::new(settings));
    let network = driver::Tuning { events: 7, others: 5, receive_buffer_bytes: 1 << 20 };
    let tuning = Tuning { network, letters_a_turn: 3, gate_bytes_max: 1 << 20, ..Tuning::default() };
    assert_eq!(world.stages[1].borrow().tuning, driver::Tuning::default(), "as it was started with");
    let (reply, replied) = sync_channel(1);
    world.asks[1].try_send(Ask { command, tuning: Some(tuning), reply }).unwrap();
    world.until("the answer", |_| replied.try_recv().ok().map(|answer| assert_eq!(answer.reply, Reply::Done(0))));
    assert_eq!(world.stages[1].borrow().tuning, network);
    assert_eq!(world.threads[1].p.tuning, tuning);
    assert_eq!(world.threads[0].p.tuning, Tuning::default(), "each thread has its own");
}

#[test]
fn a_thread_that_polls_does_not_sleep_until_its_time_is_over() {
    let mut world = World::new();
    let slept = |world: &World| world.stages[0].borrow().timeout.is_some_and(|timeout| !timeout.is_zero());
    world.threads[0].p.tuning.busy_poll = Duration::from_millis(200);
    world.until("a sleep", |world| slept(world).then_some(()));
    world.turn(0, vec![Happens::Accepted(conn(1, 0))]);
    let began = Instant::now();
    world.turn(0, Vec::new());
    assert!(!slept(&world) || began.elapsed() >= Duration::from_millis(200));
    world.until("the next sleep", |world| slept(world).then_some(()));
    assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
    world.threads[0].p.tuning.busy_poll = Duration::ZERO;
    world.turn(0, vec![Happens::Closed(conn(1, 0))]);
    world.until("sleep as before", |world| slept(world).then_some(()));
}
