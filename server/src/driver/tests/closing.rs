//! The ends of connections, and the reuse of their slots.

use super::*;
use std::io::Write;
use std::net::Shutdown;

fn close_after_send_delivers_everything(kind: On) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    // Unread bytes must not turn the close into a reset that destroys the answer.
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

fn close_now_resets(kind: On) {
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

fn close_now_ends_a_close_after_send(kind: On) {
    let mut world = World::new(kind);
    let (conn, _client) = world.connect();
    world.driver.send(conn, pattern(48 << 20));
    world.driver.close(conn, Close::AfterSend);
    world.quiet(50);
    assert!(!world.has(&Seen::Closed(conn)), "the peer has not read");
    world.driver.close(conn, Close::Now);
    world.until_seen(&Seen::Closed(conn));
}

fn lingering_ends(kind: On) {
    let mut world = World::new(kind);
    let (conn, mut client) = world.connect();
    let start = Instant::now();
    world.driver.close(conn, Close::AfterSend);
    // The peer never closes.
    world.until_seen(&Seen::Closed(conn));
    let took = start.elapsed();
    assert_eq!(read_all(&mut client).unwrap(), b"");
    assert!(took >= Duration::from_millis(290) && took < PATIENCE, "{took:?}");
}

/// A peer that sends on after the FIN may finish what it had in flight, and is reset when it
/// floods.
fn lingering_is_no_sink(kind: On) {
    let mut world = World::with(kind, &Settings { linger: Duration::from_secs(600), ..Settings::default() });
    let (conn, mut client) = world.connect();
    world.driver.send(conn, b"last words".to_vec());
    world.driver.close(conn, Close::AfterSend);
    let modest = std::thread::spawn(move || {
        client.write_all(&pattern(LINGER_BYTES / 2)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        read_all(&mut client).unwrap()
    });
    world.until_seen(&Seen::Closed(conn));
    assert_eq!(modest.join().unwrap(), b"last words");

    let (conn, mut client) = world.connect();
    world.driver.close(conn, Close::AfterSend);
    let flooding = std::thread::spawn(move || {
        let block = pattern(1 << 16);
        let mut taken = 0_usize;
        while let Ok(count @ 1..) = client.write(&block) {
            taken += count;
        }
        taken
    });
    world.until_seen(&Seen::Closed(conn));
    let taken = flooding.join().unwrap();
    // The kernel's buffers of both sides lie between the bytes taken and the bytes discarded.
    assert!(taken > LINGER_BYTES && taken < LINGER_BYTES + (32 << 20), "{taken}");
    assert_eq!(world.driver.connections(), 0);
}

fn half_close_still_sends(kind: On) {
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

fn a_slot_is_used_again_under_another_generation(kind: On) {
    let mut world = World::with(kind, &Settings { slots: 4, ..Settings::default() });
    let mut earlier: Vec<ConnId> = Vec::new();
    for _ in 0..20 {
        let (conn, mut client) = world.connect();
        assert!(!earlier.contains(&conn), "a name is used once");
        for old in &earlier {
            // Orders for a closed connection do not affect its successor.
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

/// Ending a connection never ends another one, however fast its slot is reused.
fn a_goodbye_reaches_its_own_connection_only(kind: On) {
    let mut world = World::with(kind, &Settings { slots: 2, ..Settings::default() });
    let (mut conn, mut client) = world.connect();
    for _ in 0..300 {
        world.seen.clear();
        world.driver.close(conn, Close::AfterSend);
        world.driver.close(conn, Close::Now);
        let (next, mut newcomer) = world.connect();
        world.driver.send(next, b"hello".to_vec());
        world.until_seen(&Seen::Sent(next));
        let mut hello = [0; 5];
        newcomer.read_exact(&mut hello).unwrap();
        newcomer.write_all(b"here").unwrap();
        world.until_bytes(next, b"here");
        world.driver.send(next, b"again".to_vec());
        world.turn(Duration::from_millis(1));
        newcomer.read_exact(&mut hello).unwrap();
        drop(std::mem::replace(&mut client, newcomer));
        conn = next;
    }
}

on_both! {
    a_goodbye_reaches_its_own_connection_only
    close_after_send_delivers_everything close_now_resets close_now_ends_a_close_after_send lingering_ends
    lingering_is_no_sink
    half_close_still_sends a_slot_is_used_again_under_another_generation
}
