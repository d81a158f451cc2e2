//! Receiving, sending, pauses and wake-ups.

use super::*;
use std::cell::Cell;
use std::io::Write;
use std::net::Shutdown;

fn echo(kind: On) {
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

fn a_sleep_is_told_first_and_only_if_there_was_one(kind: On) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    world.quiet(20);
    let wait = |world: &mut World, timeout_ms| {
        let mut kinds = Vec::new();
        let on_event = &mut |event: Event<'_>| kinds.push(matches!(event, Event::Slept));
        world.driver.wait(Some(Duration::from_millis(timeout_ms)), on_event).unwrap();
        kinds
    };
    assert!(wait(&mut world, 0).is_empty(), "it looked and did not sleep");
    assert_eq!(wait(&mut world, 5), [true], "nothing else happened");
    client.write_all(b"hello").unwrap();
    let start = Instant::now();
    let woken_by_bytes = loop {
        let kinds = wait(&mut world, 20);
        if kinds.len() > 1 {
            break kinds;
        }
        assert!(start.elapsed() < PATIENCE, "no bytes from {conn:?}");
    };
    assert_eq!(woken_by_bytes, [true, false]);
}

fn what_comes_right_after_falling_asleep_is_taken_together(kind: On) {
    let mut world = World::new(kind);
    let (one, mut first) = world.connect();
    let (two, mut second) = world.connect();
    world.quiet(20);
    world.driver.gather(Duration::from_millis(400));
    // A busy machine may let the sender run before this thread sleeps, or after the time to gather.
    let mut attempts = 20;
    let mut first = loop {
        let (peer, before) = (world.driver.peer(), world.seen.len());
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            first.write_all(b"one").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            second.write_all(b"two").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            peer.wake();
            (first, second)
        });
        world.turn(PATIENCE);
        let came = world.seen[before..].to_vec();
        (first, second) = sender.join().unwrap();
        let expected = [Seen::Received(one, b"one".to_vec()), Seen::Received(two, b"two".to_vec()), Seen::Woken];
        if expected.iter().all(|event| came.contains(event)) {
            break first;
        }
        attempts -= 1;
        assert!(attempts > 0, "no wait had all: {came:?}");
        while expected.iter().any(|event| !world.seen[before..].contains(event)) {
            world.turn(PATIENCE);
        }
    };
    // What arrives later is not gathered.
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(600));
        first.write_all(b"late").unwrap();
        first
    });
    let (start, before) = (Instant::now(), world.seen.len());
    while world.seen.len() == before {
        world.turn(PATIENCE);
    }
    assert!(start.elapsed() < PATIENCE / 2, "it did not sleep on");
    assert_eq!(world.seen[before..], [Seen::Received(one, b"late".to_vec())]);
    drop(sender.join().unwrap());
}

fn an_empty_send_completes(kind: On) {
    let mut world = World::new(kind);
    let (conn, _client) = world.connect();
    world.driver.send(conn, Vec::new());
    world.until_seen(&Seen::Sent(conn));
}

fn a_second_send_in_flight_is_the_callers_error(kind: On) {
    let mut world = World::new(kind);
    let (conn, _client) = world.connect();
    world.driver.send(conn, b"one".to_vec());
    let second = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.driver.send(conn, b"two".to_vec())));
    assert!(second.is_err());
}

fn many_connections(kind: On) {
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

fn a_wait_hands_over_as_many_events_as_the_operator_wants(kind: On) {
    const COUNT: usize = 48;
    let mut world = World::new(kind);
    let mut all: Vec<(ConnId, TcpStream)> = (0..COUNT).map(|_| world.connect()).collect();
    let mut waits_for_all = |events: usize| {
        world.driver.tune(&Tuning { events, ..Tuning::default() });
        all.iter_mut().for_each(|(_, client)| client.write_all(b"hello").unwrap());
        let (mut told, mut waits) = (0, 0);
        while told < COUNT {
            world.seen.clear();
            world.turn(PATIENCE);
            let now = world.seen.iter().filter(|event| matches!(event, Seen::Received(..))).count();
            assert!(now > 0 && now <= 2 * events, "{now} with {events}, after {told}");
            told += now;
            waits += 1;
        }
        waits
    };
    assert!(waits_for_all(8) >= COUNT / 16);
    assert!(waits_for_all(256) < COUNT / 8, "and more again");
}

fn the_operator_changes_the_buffer_while_bytes_come(kind: On) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    let large = pattern(8 << 20);
    let copy = large.clone();
    let writer = std::thread::spawn(move || client.write_all(&copy).map(|()| client));
    let (mut got, mut sizes) = (Vec::new(), [64 << 10, 1 << 20, 0, 200_000].into_iter().cycle());
    while got.len() < large.len() {
        let receive_buffer_bytes: usize = sizes.next().expect("without end");
        world.driver.tune(&Tuning { receive_buffer_bytes, ..Tuning::default() });
        world.seen.clear();
        world.turn(PATIENCE);
        for event in world.seen.drain(..) {
            if let Seen::Received(from, bytes) = event {
                assert_eq!(from, conn);
                assert!(bytes.len() <= receive_buffer_bytes.max(64 << 10), "{} of {receive_buffer_bytes}", bytes.len());
                got.extend(bytes);
            }
        }
    }
    assert!(got == large, "every byte in its place");
    drop(writer.join().unwrap().unwrap());
}

fn split_and_large_reads(kind: On) {
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

fn received_bytes_may_be_changed_in_place(kind: On) {
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

fn a_slow_reader_holds_sent_back(kind: On) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    let large = pattern(48 << 20);
    world.driver.send(conn, large.clone());
    world.quiet(150);
    assert!(!world.has(&Seen::Sent(conn)), "Sent although most of it is not with the kernel");
    // Reading from it continues in the meantime.
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

/// A peer that takes bytes, however slowly, is distinguished from one that takes none
/// (`send_timeout_seconds`).
fn a_send_that_goes_on_is_told_and_one_that_stands_is_not(kind: On) {
    const BYTES: usize = 4 << 20;
    const READ_BYTES: usize = 512 << 10;
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    socket2::SockRef::from(&client).set_recv_buffer_size(16 << 10).unwrap();
    let (steps, sent) = (Cell::new(0), Cell::new(0));
    let turn = |world: &mut World, timeout_ms| {
        let on_event = &mut |event: Event<'_>| match event {
            Event::Progressed { conn: of } => {
                assert_eq!((of, sent.get()), (conn, 0));
                steps.set(steps.get() + 1);
            }
            Event::Sent { .. } => sent.set(sent.get() + 1),
            _ => {}
        };
        world.driver.wait(Some(Duration::from_millis(timeout_ms)), on_event).unwrap();
    };
    let steps_while_nothing_is_read = |world: &mut World| {
        (0..20).for_each(|_| turn(world, 5));
        let before = steps.get();
        (0..20).for_each(|_| turn(world, 5));
        steps.get() - before
    };
    let large = pattern(BYTES);
    let mut got = vec![0; BYTES];
    world.driver.send(conn, large.clone());
    assert_eq!(steps_while_nothing_is_read(&mut world), 0);
    let before = steps.get();
    for piece in got[..READ_BYTES].chunks_mut(8 << 10) {
        client.read_exact(piece).unwrap();
        turn(&mut world, 1);
    }
    // The kernel reports room when half of what it buffers, and what was in flight, has been taken;
    // io_uring then completes a whole operation.
    let wanted = READ_BYTES / (4 * UNSENT_BYTES as usize);
    assert!(steps.get() - before >= wanted, "{} steps of {wanted}", steps.get() - before);
    assert_eq!((steps_while_nothing_is_read(&mut world), sent.get()), (0, 0));
    let reader = std::thread::spawn(move || client.read_exact(&mut got[READ_BYTES..]).map(|()| (client, got)));
    while sent.get() == 0 {
        turn(&mut world, 20);
    }
    let (_client, got) = reader.join().unwrap().unwrap();
    assert!(got == large, "every byte in its place");
    assert!(steps.get() <= BYTES / PROGRESS_BYTES, "{} steps", steps.get());
    assert_eq!((steps_while_nothing_is_read(&mut world), sent.get()), (0, 1));
}

fn a_reset_during_a_send_fails_it(kind: On) {
    let mut world = World::new(kind);
    let (conn, client) = world.connect();
    world.driver.send(conn, pattern(48 << 20));
    world.quiet(50);
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    world.until_seen(&Seen::Failed(conn, Cause::Reset));
    assert!(!world.has(&Seen::Sent(conn)));
    // Nothing more is sent, and the only further event is the end.
    world.seen.clear();
    world.driver.send(conn, b"lost".to_vec());
    world.quiet(30);
    world.driver.close(conn, Close::AfterSend);
    world.until_seen(&Seen::Closed(conn));
    assert_eq!(world.seen, [Seen::Closed(conn)]);
    assert_eq!(world.driver.connections(), 0);
}

fn pause_and_resume(kind: On) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    for round in 0..3 {
        world.seen.clear();
        world.driver.pause(conn);
        client.write_all(b"held").unwrap();
        world.quiet(50);
        client.write_all(b" back").unwrap();
        // Costs no wake-ups: every turn of the next 100 ms lasts its full time.
        world.quiet(20);
        let (start, mut turns) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(100) {
            client.write_all(b".").unwrap();
            world.turn(Duration::from_millis(20));
            turns += 1;
        }
        assert!(turns <= 7, "{turns} turns in round {round}");
        assert!(world.bytes(conn).is_empty(), "received while paused");
        // A send continues.
        world.driver.send(conn, b"go".to_vec());
        world.until_seen(&Seen::Sent(conn));
        client.read_exact(&mut [0; 2]).unwrap();
        world.driver.resume(conn);
        let mut whole = b"held back".to_vec();
        whole.extend(std::iter::repeat_n(b'.', turns));
        world.until_bytes(conn, &whole);
    }
    // A pause without any effect, and bytes after it.
    world.seen.clear();
    world.driver.pause(conn);
    world.driver.resume(conn);
    client.write_all(b"after").unwrap();
    world.until_bytes(conn, b"after");
}

fn who_sends_without_end_is_read_once_a_turn(kind: On) {
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

fn wake_from_another_thread(kind: On) {
    let mut world = World::new(kind);
    let peer = world.driver.peer();
    // Awake: the next wait does not sleep.
    peer.wake();
    peer.wake();
    let start = Instant::now();
    world.turn(2 * PATIENCE);
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
    assert!(start.elapsed() < PATIENCE);
    world.seen.clear();
    world.turn(Duration::from_millis(10));
    world.turn(Duration::from_millis(10));
    assert!(!world.has(&Seen::Woken), "not woken without a call");
}

fn a_time_out_is_kept(kind: On) {
    let mut world = World::new(kind);
    world.turn(Duration::ZERO);
    let start = Instant::now();
    world.turn(Duration::from_millis(60));
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(55) && took < Duration::from_secs(2), "{took:?}");
}

on_both! {
    a_wait_hands_over_as_many_events_as_the_operator_wants
    the_operator_changes_the_buffer_while_bytes_come
    echo an_empty_send_completes a_second_send_in_flight_is_the_callers_error many_connections split_and_large_reads
    received_bytes_may_be_changed_in_place a_slow_reader_holds_sent_back a_send_that_goes_on_is_told_and_one_that_stands_is_not a_reset_during_a_send_fails_it
    a_sleep_is_told_first_and_only_if_there_was_one what_comes_right_after_falling_asleep_is_taken_together pause_and_resume who_sends_without_end_is_read_once_a_turn wake_from_another_thread a_time_out_is_kept
}
