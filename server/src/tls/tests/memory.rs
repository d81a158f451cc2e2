//! Memory and time costs of TLS connections.

use super::*;

/// The allocator's size class of the state; the budget for a whole session over TLS is 1,024 bytes.
const IDLE_BYTES_MAX: usize = 256;

#[test]
fn an_idle_connection_is_one_small_box() {
    let scene = Scene::new();
    assert_eq!(size_of::<TlsConnection>(), 16);
    let waiting = TlsConnection::accept(&scene.certificates.direct());
    assert_eq!(waiting.heap_bytes(), 104);
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        assert!(pair.server.heap_bytes() <= IDLE_BYTES_MAX);
        pair.client_says(&[b'x'; 50_000]);
        let mut bytes = pair.client_bytes();
        let at = bytes.len() - 1;
        pair.serve(&mut bytes[..at]).unwrap();
        assert!(pair.server.heap_bytes() > IDLE_BYTES_MAX, "a cut record waits");
        pair.serve(&mut bytes[at..]).unwrap();
        assert!(pair.server.heap_bytes() <= IDLE_BYTES_MAX, "and is gone");
    }
}

/// Resident pages of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// `cargo test --release -p throng --lib tls::tests::memory -- --ignored --nocapture --test-threads
/// 1`
#[test]
#[ignore = "takes a minute; prints the figures of docs/decisions/0002-tls.md"]
fn figures() {
    const CONNECTIONS: usize = 20_000;
    let scene = Scene::new();
    for version in [V12, V13] {
        let client = scene.client_config_for(&[version]);
        let mut idle = Vec::with_capacity(CONNECTIONS);
        let mut before = 0;
        for number in 0..CONNECTIONS {
            if number == CONNECTIONS / 2 {
                before = resident();
            }
            let mut pair = Pair::new(client.clone(), &scene.certificates.direct());
            pair.pump().unwrap();
            assert!(pair.info.is_some());
            idle.push(pair.server);
        }
        println!(
            "{version:?}: {} bytes of RSS an idle connection, {} by its own count",
            (resident() - before) / (CONNECTIONS / 2),
            idle[0].heap_bytes(),
        );
        drop(idle);
        handshake_costs(&scene, version);
        message_costs(&scene, version);
    }
}

/// Server time of a handshake, in full and by ticket.
fn handshake_costs(scene: &Scene, version: &'static rustls::SupportedProtocolVersion) {
    const HANDSHAKES: u32 = 3_000;
    for resume in [false, true] {
        let mut client = scene.client_config_for(&[version]);
        if !resume {
            client.resumption = rustls::client::Resumption::disabled();
        }
        let mut spent = std::time::Duration::ZERO;
        let mut resumed = 0;
        for _ in 0..HANDSHAKES {
            let mut pair = Pair::new(client.clone(), &scene.certificates.direct());
            loop {
                let mut bytes = pair.client_bytes();
                if bytes.is_empty() {
                    break;
                }
                let started = std::time::Instant::now();
                let back = pair.serve(&mut bytes).unwrap();
                spent += started.elapsed();
                pair.deliver(&back).unwrap();
            }
            resumed += u32::from(pair.info.unwrap().resumed);
        }
        println!(
            "{version:?}: {} us of the server's time a handshake, {resumed} of {HANDSHAKES} resumed",
            (spent / HANDSHAKES).as_micros(),
        );
    }
}

/// Time to open and to seal a message of 200 bytes, in one call each.
fn message_costs(scene: &Scene, version: &'static rustls::SupportedProtocolVersion) {
    const MESSAGES: usize = 200_000;
    for size in [200, 16_384] {
        let mut pair = scene.pair(version);
        let mut rogue = pair.rogue();
        let messages = MESSAGES * 200 / size;
        let text = vec![b'x'; size];
        let (mut bytes, mut got, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let (mut opening, mut sealing) = (std::time::Duration::ZERO, std::time::Duration::ZERO);
        for _ in 0..messages {
            bytes.clear();
            got.clear();
            out.clear();
            rogue.send(&text, &mut bytes).unwrap();
            let started = std::time::Instant::now();
            pair.server.receive(&mut bytes, &mut got, &mut out).unwrap();
            opening += started.elapsed();
            assert_eq!(got.len(), size);
            let started = std::time::Instant::now();
            pair.server.send(&text, &mut out).unwrap();
            sealing += started.elapsed();
        }
        let each = |time: std::time::Duration| time.as_nanos() as usize / messages;
        println!(
            "{version:?} {}: {size} bytes opened in {} ns, sealed in {} ns",
            pair.info.unwrap().cipher_suite,
            each(opening),
            each(sealing),
        );
    }
}
