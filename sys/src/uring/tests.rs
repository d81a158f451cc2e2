//! Rings of several tables with few slots each.

use super::*;
use crate::Advance;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

/// An accepting ring, and its completions.
struct Bench {
    ring: Ring,
    listener: TcpListener,
    to: SocketAddr,
    told: Vec<Done>,
}

impl Bench {
    fn new(slots: u32, table_slots_max: u32) -> Bench {
        let mut ring = Ring::new(slots, table_slots_max, Use::Accepting).expect("this host has io_uring");
        ring.set_buffer_bytes(128);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let to = listener.local_addr().expect("its address");
        Bench { ring, listener, to, told: Vec::new() }
    }

    /// Sleeps until an operation of this kind has completed, and takes it out.
    fn until(&mut self, op: Op) -> Done {
        let start = Instant::now();
        loop {
            if let Some(at) = self.told.iter().position(|done| done.word.op() == op) {
                return self.told.remove(at);
            }
            assert!(start.elapsed() < PATIENCE, "no {op:?} among {:?}", self.told);
            self.ring.sleep(Some(PATIENCE), Duration::ZERO).expect("a sleep");
            self.ring.collect(&mut self.told);
        }
    }

    fn accept(&mut self, table: u32) -> (Result<u32, i32>, TcpStream) {
        let client = TcpStream::connect(self.to).expect("a connection");
        self.ring.accept(self.listener.as_raw_fd(), table, 1);
        let result = self.until(Op::Accept).result;
        if result >= 0 {
            assert_eq!(self.ring.accepted_from(1), client.local_addr().ok());
        }
        (u32::try_from(result).map_err(|_| -result), client)
    }

    /// Receives the available bytes of a polled slot.
    fn receive(&mut self, slot: u32) -> Vec<u8> {
        assert_eq!(self.ring.divide(2, 64), 64);
        self.ring.receive(slot, 1);
        self.ring.submit().expect("a submit");
        self.ring.collect(&mut self.told);
        let word = Word::new(Op::Receive, slot, 1);
        let at = self.told.iter().position(|done| done.word == word).expect("a receive that does not wait is done");
        let count = usize::try_from(self.told.remove(at).result).expect("bytes are there");
        self.ring.received(1, count).to_vec()
    }
}

#[test]
fn slots_are_dealt_out_among_as_few_tables_as_hold_them() {
    for (slots, most, tables, each) in [(8, 8, 1, 8), (9, 8, 2, 5), (24, 8, 3, 8), (20, 8, 3, 7), (2, u32::MAX, 1, 2)] {
        let ring = Ring::new(slots, most, Use::Accepting).expect("this host has io_uring");
        assert_eq!((ring.tables(), ring.table_slots()), (tables, each), "{slots} of {most}");
        assert!((0..tables * each).all(|slot| ring.table_of(slot) == slot % tables));
        assert_eq!(ring.duplicates().expect("descriptors").len(), tables as usize);
    }
}

#[test]
fn a_table_is_filled_to_its_end_and_no_further() {
    let mut bench = Bench::new(6, 2);
    let mut clients = Vec::new();
    for table in 0..3 {
        let mut slots = Vec::new();
        for _ in 0..2 {
            let (slot, client) = bench.accept(table);
            slots.push(slot.expect("there is room"));
            clients.push(client);
        }
        slots.sort_unstable();
        assert_eq!(slots, [table, table + 3], "table {table}");
        assert_eq!(bench.accept(table).0, Err(libc::ENFILE));
    }
    // A released place belongs to its own table.
    bench.ring.close(4, true, 0);
    assert_eq!(bench.until(Op::Close).word.slot(), 4);
    assert_eq!(bench.accept(2).0, Err(libc::ENFILE));
    assert_eq!(bench.accept(1).0, Ok(4));
}

/// The thread sleeps on the first table alone: each event of another must end the sleep, however
/// often, and nothing else may.
#[test]
fn bytes_for_any_table_end_a_sleep() {
    let mut bench = Bench::new(16, 4);
    let mut all: Vec<(u32, TcpStream)> = (0..8)
        .map(|number| {
            let (slot, client) = bench.accept(number % 4);
            (slot.expect("there is room"), client)
        })
        .collect();
    for (slot, _) in &all {
        bench.ring.arm_poll(*slot, 0);
    }
    for round in 0..200usize {
        let (slot, client) = &mut all[round * 5 % 8];
        let (slot, mut client) = (*slot, client.try_clone().expect("a descriptor"));
        // Every other time the thread sleeps before the bytes arrive.
        let writer = std::thread::spawn(move || {
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            client.write_all(&[round as u8]).expect("a write");
        });
        let fired = bench.until(Op::Poll);
        assert_eq!((fired.word.slot(), fired.more), (slot, true), "round {round}");
        assert_eq!(bench.receive(slot), [round as u8]);
        writer.join().expect("a writer");
        assert!(bench.told.is_empty(), "{:?}", bench.told);
    }
    let (start, mut sleeps) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(100) {
        bench.ring.sleep(Some(Duration::from_millis(50)), Duration::ZERO).expect("a sleep");
        bench.ring.collect(&mut bench.told);
        sleeps += 1;
    }
    assert!(sleeps <= 4 && bench.told.is_empty(), "{sleeps} sleeps with nothing to do, {:?}", bench.told);
}

/// Requests to another table are submitted with the sleep, and immediate completions end it.
#[test]
fn what_is_pending_in_any_table_leaves_before_a_sleep() {
    let mut bench = Bench::new(6, 2);
    let (slot, mut client) = bench.accept(2);
    let slot = slot.expect("there is room");
    let send = bench.ring.send(slot, b"hello".to_vec());
    let start = Instant::now();
    let done = bench.until(Op::Send);
    assert_eq!((done.word.low(), done.result), (send, 5));
    assert_eq!((bench.ring.advance(send, 5), bench.ring.take_sent(send)), (Advance::Whole, b"hello".to_vec()));
    assert!(start.elapsed() < PATIENCE / 2, "the sleep lasted though the send was done");
    let mut got = [0; 5];
    client.read_exact(&mut got).expect("bytes");
    assert_eq!(&got, b"hello");
}

/// Completions that overflow another table's queue are neither lost nor slept over.
#[test]
fn more_completions_than_have_room_all_come() {
    const COUNT: usize = 10_000;
    let mut bench = Bench::new(4, 2);
    let (slot, _client) = bench.accept(1);
    let slot = slot.expect("there is room");
    bench.ring.set_buffer_bytes(COUNT);
    bench.ring.divide(COUNT, 1);
    for number in 0..COUNT as u32 {
        bench.ring.receive(slot, number);
    }
    let start = Instant::now();
    let mut seen = vec![false; COUNT];
    while seen.iter().any(|seen| !seen) {
        assert!(start.elapsed() < PATIENCE, "{} are missing", seen.iter().filter(|seen| !**seen).count());
        bench.ring.sleep(Some(PATIENCE), Duration::ZERO).expect("a sleep");
        bench.ring.collect(&mut bench.told);
        for done in bench.told.drain(..).filter(|done| done.word.op() == Op::Receive) {
            assert_eq!(done.result, -libc::EAGAIN);
            assert!(!std::mem::replace(&mut seen[done.word.low() as usize], true), "told twice");
        }
    }
}

/// A socket moves from a table of one ring to a table of another, and only to one with room.
#[test]
fn a_socket_departs_to_the_table_it_is_sent_to() {
    let (mut here, mut there) = (Bench::new(4, 2), Bench::new(2, 1));
    let doors = there.ring.duplicates().expect("descriptors");
    let mut clients = Vec::new();
    for (key, (door, room)) in [(1, true), (0, true), (1, false), (0, false)].into_iter().enumerate() {
        let (slot, client) = here.accept(key as u32 % 2);
        let slot = slot.expect("there is room");
        clients.push(client);
        here.ring.depart(slot, doors[door].as_fd(), 0);
        if !room {
            here.ring.submit().expect("a submit");
            // The thread of the first table puts the socket in place itself, when it next enters
            // the kernel.
            there.ring.poll().expect("a poll");
            assert_eq!(here.until(Op::Depart).result, -libc::ENFILE);
            assert_eq!(here.until(Op::Left).result, -libc::ECANCELED, "the connection stays");
            continue;
        }
        here.ring.submit().expect("a submit");
        there.ring.poll().expect("a poll");
        // The only place of that table.
        assert_eq!(here.until(Op::Depart).result, 0);
        assert!(here.until(Op::Left).result >= 0);
        there.ring.collect(&mut there.told);
        assert!(there.told.is_empty(), "nothing is told over there that memory could be missing for");
        let arrived = door as u32;
        clients[key].write_all(b"hello").expect("sent");
        there.ring.arm_poll(arrived, 0);
        there.until(Op::Poll);
        assert_eq!(there.receive(arrived), b"hello");
    }
}

#[test]
fn peers_are_told_of_the_slots_that_are_asked_for() {
    let mut bench = Bench::new(300, 100);
    let mut clients: Vec<(u32, TcpStream)> = (0..150)
        .map(|number| {
            let (slot, client) = bench.accept(number % 3);
            (slot.expect("there is room"), client)
        })
        .collect();
    // Completions that occur in the meantime are reported later.
    let (polled, client) = &mut clients[7];
    bench.ring.arm_poll(*polled, 0);
    client.write_all(b"hello").expect("sent");
    let asked: Vec<Option<u32>> = clients.iter().map(|(slot, _)| (slot % 5 > 0).then_some(*slot)).collect();
    let told = bench.ring.peer_names(&asked);
    assert_eq!(told.len(), asked.len());
    for (((_, client), asked), told) in clients.iter().zip(asked).zip(told) {
        assert_eq!(told, asked.and(client.local_addr().ok()));
    }
    assert_eq!(bench.until(Op::Poll).word.slot(), clients[7].0);
}

/// A peer that does not read delays a send indefinitely: it then continues where it was, and its
/// bytes are returned at its end.
#[test]
fn a_send_goes_on_until_all_is_taken() {
    const BYTES: usize = 3 << 20;
    let mut bench = Bench::new(2, 2);
    let (slot, mut client) = bench.accept(0);
    let slot = slot.expect("there is room");
    let reader = std::thread::spawn(move || {
        let mut read = Vec::new();
        client.read_to_end(&mut read).map(|_| read)
    });
    let bytes: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    let (send, mut operations) = (bench.ring.send(slot, bytes.clone()), 1);
    loop {
        let done = bench.until(Op::Send);
        let taken = usize::try_from(done.result).expect("bytes are taken");
        assert!(taken <= SEND_BYTES_MAX);
        if bench.ring.advance(send, taken) == Advance::Whole {
            break;
        }
        bench.ring.send_rest(slot, send);
        operations += 1;
    }
    assert!(operations >= BYTES / SEND_BYTES_MAX);
    assert_eq!((bench.ring.take_sent(send) == bytes, bench.ring.sends()), (true, 0));
    bench.ring.close(slot, false, 0);
    bench.until(Op::Close);
    assert!(reader.join().expect("it ends").expect("all is read") == bytes);
}
