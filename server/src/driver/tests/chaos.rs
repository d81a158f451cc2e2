//! Orders and peers in random order.

use super::moving::Other;
use super::*;
use std::io::Write;
use std::net::Shutdown;

/// A seeded generator, without a crate for it (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Random orders and peers: each connection ends exactly once, and all slots become free again.
fn chaos_leaves_nothing_behind(kind: On) {
    let seeds = std::env::var("THRONG_TEST_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for seed in 1..=seeds {
        chaos(kind, seed);
    }
}

fn chaos(kind: On, seed: u64) {
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

on_both! { chaos_leaves_nothing_behind }
