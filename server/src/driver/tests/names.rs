//! Tests of `Driver::peer_addresses`.

use super::*;
use std::io::Write;

/// Runs turns until `done`; appends accepted connections and received bytes.
fn turn(
    driver: &mut dyn Driver,
    accepted: &mut Vec<(ConnId, SocketAddr)>,
    received: &mut usize,
    done: impl Fn(usize, usize) -> bool,
) {
    let end = Instant::now() + PATIENCE;
    while !done(accepted.len(), *received) {
        assert!(Instant::now() < end, "{} accepted, {received} bytes received", accepted.len());
        let on_event = &mut |event: Event<'_>| match event {
            Event::Accepted { conn, peer, .. } => accepted.push((conn, peer)),
            Event::Received { bytes, .. } => *received += bytes.len(),
            _ => {}
        };
        driver.wait(Some(Duration::from_millis(20)), on_event).unwrap();
    }
}

fn peers_are_asked_for_and_nothing_is_lost(kind: On) {
    // More than one query's batch, of both families, with events in between.
    const EACH: usize = 70;
    let mut driver = make(kind, &Settings::default());
    let mut addresses = Vec::new();
    for (tag, address) in ["127.0.0.1:0", "[::1]:0", "[::]:0"].into_iter().enumerate() {
        let listener = shared_listener(address.parse().unwrap(), 128).unwrap();
        addresses.push(listener.local_addr().unwrap());
        driver.listen(listener, ListenerTag(tag as u8)).unwrap();
    }
    // An IPv4 peer of the IPv6 wildcard.
    addresses[2].set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    let (mut accepted, mut received) = (Vec::new(), 0);
    let mut clients = Vec::new();
    for _ in 0..EACH {
        clients.extend(addresses.iter().map(|address| TcpStream::connect(address).unwrap()));
    }
    turn(&mut *driver, &mut accepted, &mut received, |accepted, _| accepted == 3 * EACH);
    for client in &mut clients {
        client.write_all(b"while they are asked for").unwrap();
    }
    let more = TcpStream::connect(addresses[0]).unwrap();
    let conns: Vec<ConnId> = accepted.iter().map(|(conn, _)| *conn).collect();
    let peers = driver.peer_addresses(&conns);
    let told: Vec<Option<SocketAddr>> = accepted.iter().map(|(_, peer)| Some(*peer)).collect();
    assert_eq!(peers, told);
    let sent = clients.len() * b"while they are asked for".len();
    turn(&mut *driver, &mut accepted, &mut received, |accepted, received| accepted == 3 * EACH + 1 && received == sent);
    drop(more);
    // A closed connection has no address, even when its slot is reused; the others have theirs.
    driver.close(conns[1], Close::Now);
    assert_eq!(driver.peer_addresses(&conns[..3]), [told[0], None, told[2]]);
    let stale = ConnId { generation: conns[0].generation.wrapping_add(1), ..conns[0] };
    assert_eq!(driver.peer_addresses(&[stale]), [None]);
    assert_eq!(driver.peer_addresses(&[]), []);
}

on_both! { peers_are_asked_for_and_nothing_is_lost }
