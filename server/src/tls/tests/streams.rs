//! Established connections: pieces, sizes, key updates, closing.

use proptest::prelude::*;

use throng_tls::testing::{ALERT, HANDSHAKE};

use super::*;

/// Recorded client bytes of a session are useless against another server, so each split performs a
/// new handshake.
fn session_in_pieces(scene: &Scene, version: &'static rustls::SupportedProtocolVersion, size: usize) {
    let mut pair = Pair::new(scene.client_config_for(&[version]), &scene.certificates.direct());
    let mut said = false;
    loop {
        if !pair.client.is_handshaking() && !said {
            said = true;
            pair.client_says(b"<a/>");
            pair.client_says(&[b'x'; 3000]);
        }
        let bytes = pair.client_bytes();
        if bytes.is_empty() {
            break;
        }
        let mut back = Vec::new();
        for piece in bytes.chunks(size) {
            back.extend(pair.serve(&mut piece.to_vec()).unwrap());
        }
        pair.deliver(&back).unwrap();
    }
    assert_eq!(pair.got.len(), 3004);
    assert!(pair.got.starts_with(b"<a/>xxx"));
    assert_eq!(pair.server.heap_bytes(), size_of::<Traffic>());
}

#[test]
fn any_size_of_read_gives_the_same() {
    let scene = Scene::new();
    for size in (1..32).chain([100, 255, 256, 517, 1000, 4095, 4096]) {
        session_in_pieces(&scene, V12, size);
        session_in_pieces(&scene, V13, size);
    }
}

#[test]
fn every_split_in_two_of_an_established_stream_gives_the_same() {
    let scene = Scene::new();
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        let mut rogue = pair.rogue();
        let mut bytes = Vec::new();
        rogue.send(b"one", &mut bytes).unwrap();
        rogue.send(b"two", &mut bytes).unwrap();
        rogue.close(&mut bytes);
        for at in 0..=bytes.len() {
            let mut server = pair.server.traffic_mut().twin();
            let mut got = Vec::new();
            let mut to_send = Vec::new();
            let mut copy = bytes.clone();
            let (mut head, mut tail) = copy.split_at_mut(at);
            server.receive(&mut head, &mut got, &mut to_send).unwrap();
            server.receive(&mut tail, &mut got, &mut to_send).unwrap();
            assert_eq!(got, b"onetwo", "split at {at}");
            assert!(server.peer_closed());
            assert!(to_send.is_empty());
        }
    }
}

#[test]
fn data_behind_the_end_of_the_handshake_comes_out_in_the_same_call() {
    let scene = Scene::new();
    for version in [V12, V13] {
        // A TLS 1.2 client sends the last handshake message only when it resumes a session.
        let client = scene.client_config_for(&[version]);
        let mut first = Pair::new(client.clone(), &scene.certificates.direct());
        first.pump().unwrap();
        let mut pair = Pair::new(client, &scene.certificates.direct());
        let mut hello = pair.client_bytes();
        let back = pair.serve(&mut hello).unwrap();
        pair.deliver(&back).unwrap();
        pair.client_says(b"<stream:stream>");
        let mut flight = pair.client_bytes();
        assert!(pair.info.is_none());
        pair.serve(&mut flight).unwrap();
        assert!(pair.info.is_some());
        assert_eq!(pair.got, b"<stream:stream>");
    }
}

#[test]
fn large_data_goes_both_ways() {
    let scene = Scene::new();
    let large: Vec<u8> = (0..1_000_000u32).map(|n| (n * 7 % 251) as u8).collect();
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        for part in large.chunks(40_000) {
            pair.client_says(part);
            pair.pump().unwrap();
        }
        assert!(pair.got == large);
        let mut back = Vec::new();
        for part in large.chunks(100_000) {
            let mut to_send = Vec::new();
            pair.server.send(part, &mut to_send).unwrap();
            for piece in to_send.chunks(10_000) {
                pair.deliver(piece).unwrap();
                back.extend(pair.client_read());
            }
        }
        assert!(back == large);
        assert_eq!(pair.server.heap_bytes(), size_of::<Traffic>());
    }
}

#[test]
fn the_client_may_update_its_keys_rfc_8446_4_6_3() {
    let scene = Scene::new();
    for suite in [
        rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
        rustls::crypto::ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
        rustls::crypto::ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites = vec![suite];
        let mut roots = RootCertStore::empty();
        roots.add(scene.certificate()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[V13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut pair = Pair::new(client, &scene.certificates.direct());
        pair.pump().unwrap();
        for round in 0..40u8 {
            pair.client.refresh_traffic_keys().unwrap();
            pair.client_says(&[round]);
            pair.pump().unwrap();
            pair.server_says(&[round]);
            assert_eq!(pair.client_read(), [round]);
        }
        assert_eq!(pair.got, (0..40).collect::<Vec<u8>>());
    }
}

#[test]
fn one_answer_serves_for_many_key_updates_rfc_8446_4_6_3() {
    let scene = Scene::new();
    let mut pair = scene.pair(V13);
    let mut rogue = pair.rogue();
    let mut bytes = Vec::new();
    for _ in 0..20 {
        rogue.seal(HANDSHAKE, &[24, 0, 0, 1, 1], &mut bytes);
        rogue.step_sending();
    }
    rogue.send(b"data", &mut bytes).unwrap();
    let back = pair.serve(&mut bytes).unwrap();
    assert_eq!(pair.got, b"data");
    assert_eq!(back.len(), 5 + 5 + 1 + 16, "one record with one key update");
    pair.deliver(&back).unwrap();
    pair.server_says(b"heard");
    assert_eq!(pair.client_read(), b"heard");
}

#[test]
fn a_key_update_may_come_in_single_bytes() {
    let scene = Scene::new();
    let mut pair = scene.pair(V13);
    let mut rogue = pair.rogue();
    let mut bytes = Vec::new();
    for byte in [24, 0, 0, 1, 0] {
        rogue.seal(HANDSHAKE, &[byte], &mut bytes);
    }
    rogue.step_sending();
    rogue.send(b"data", &mut bytes).unwrap();
    let back = pair.serve(&mut bytes).unwrap();
    assert_eq!(pair.got, b"data");
    assert!(back.is_empty(), "none was asked for");
}

#[test]
fn worn_keys_are_updated_or_refused_rfc_8446_5_5() {
    let scene = Scene::new();
    let limit = throng_tls::testing::SEALED_RECORDS_MAX;
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        let mut peer = pair.rogue();
        // As if this many records had been sent and received.
        pair.server.traffic_mut().set_sent(limit - 1);
        peer.set_received(limit - 1);
        let mut to_send = Vec::new();
        pair.server.send(b"last", &mut to_send).unwrap();
        let next = pair.server.send(b"next", &mut to_send);
        let mut got = Vec::new();
        let outcome = peer.receive(&mut &mut to_send[..], &mut got, &mut Vec::new());
        assert_eq!(outcome, Ok(()));
        if version == V12 {
            assert_eq!(next, Err(TlsFault::KeysExhausted));
            assert_eq!(got, b"last");
        } else {
            assert_eq!(next, Ok(()));
            assert_eq!(got, b"lastnext");
            assert_eq!(pair.server.traffic_mut().sent(), 1);
        }
    }
}

#[test]
fn close_notify_is_heard_and_said_rfc_8446_6_1() {
    let scene = Scene::new();
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        pair.client_says(b"bye");
        pair.client.send_close_notify();
        let mut bytes = pair.client_bytes();
        bytes.extend_from_slice(b"what follows does not count");
        let back = pair.serve(&mut bytes).unwrap();
        assert!(back.is_empty());
        assert!(pair.peer_closed);
        assert_eq!(pair.got, b"bye");
        // Our direction is still open, until we close it, once.
        pair.server_says(b"goodbye");
        assert_eq!(pair.client_read(), b"goodbye");
        let mut to_send = Vec::new();
        pair.server.close(&mut to_send);
        let length = to_send.len();
        assert!(length > 0);
        pair.server.close(&mut to_send);
        assert_eq!(to_send.len(), length);
        assert_eq!(pair.server.send(b"x", &mut to_send), Err(TlsFault::Closed));
        let mut bytes = &to_send[..];
        pair.client.read_tls(&mut bytes).unwrap();
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn after_our_close_the_peer_may_finish() {
    let scene = Scene::new();
    let mut pair = scene.pair(V13);
    let mut to_send = Vec::new();
    pair.server.close(&mut to_send);
    pair.client_says(b"late");
    pair.pump().unwrap();
    assert_eq!(pair.got, b"late");
    assert!(!pair.peer_closed, "a socket that ends here is truncated");
}

#[test]
fn a_handshake_can_be_called_off() {
    let scene = Scene::new();
    let mut pair = Pair::new(scene.client_config(), &scene.certificates.direct());
    let mut to_send = Vec::new();
    let mut bytes = pair.client_bytes();
    let back = pair.serve(&mut bytes).unwrap();
    pair.deliver(&back).unwrap();
    pair.server.close(&mut to_send);
    assert!(!to_send.is_empty());
    assert_eq!(pair.server.receive(&mut [22], &mut vec![], &mut vec![]).unwrap_err(), TlsFault::Closed);
    // A connection that never began sends nothing.
    let mut server = TlsConnection::accept(&scene.certificates.direct());
    to_send.clear();
    server.close(&mut to_send);
    assert!(to_send.is_empty());
}

#[test]
fn padding_is_taken_off_rfc_8446_5_4() {
    let scene = Scene::new();
    let mut pair = scene.pair(V13);
    let mut rogue = pair.rogue();
    let mut bytes = Vec::new();
    // The sealer adds a content type of zero, which is then padding.
    let mut padded = b"text".to_vec();
    padded.push(throng_tls::testing::APPLICATION_DATA);
    padded.resize(300, 0);
    rogue.seal(0, &padded, &mut bytes);
    pair.serve(&mut bytes).unwrap();
    assert_eq!(pair.got, b"text");
}

#[test]
fn a_connection_moves_between_threads() {
    fn is_send<T: Send + 'static>(_: &T) {}
    let scene = Scene::new();
    let mut pair = scene.pair(V13);
    is_send(&pair.server);
    pair.client_says(b"here");
    let mut bytes = pair.client_bytes();
    let mut server = pair.server;
    let got = std::thread::spawn(move || {
        let mut got = Vec::new();
        server.receive(&mut bytes, &mut got, &mut Vec::new()).unwrap();
        got
    });
    assert_eq!(got.join().unwrap(), b"here");
}

#[test]
fn user_canceled_closes_nothing_rfc_8446_6_1() {
    let scene = Scene::new();
    let mut pair = scene.pair(V13);
    let mut rogue = pair.rogue();
    let mut bytes = Vec::new();
    rogue.seal(ALERT, &[1, 90], &mut bytes);
    rogue.send(b"still here", &mut bytes).unwrap();
    pair.serve(&mut bytes).unwrap();
    assert_eq!(pair.got, b"still here");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_writes_in_any_reads_come_out_in_order(
        writes in prop::collection::vec(0usize..20_000, 1..6),
        cuts in prop::collection::vec(1usize..9_000, 1..40),
        old in any::<bool>(),
    ) {
        let scene = Scene::new();
        let mut pair = scene.pair(if old { V12 } else { V13 });
        let mut rogue = pair.rogue();
        let mut bytes = Vec::new();
        let mut said = Vec::new();
        for (n, &len) in writes.iter().enumerate() {
            let text: Vec<u8> = (0..len).map(|at| (at * 31 + n) as u8).collect();
            rogue.send(&text, &mut bytes).unwrap();
            said.extend(text);
        }
        let mut rest = &mut bytes[..];
        let mut cuts = cuts.into_iter().cycle();
        while !rest.is_empty() {
            let at = cuts.next().unwrap().min(rest.len());
            let (head, tail) = rest.split_at_mut(at);
            pair.serve(head).unwrap();
            rest = tail;
        }
        prop_assert!(pair.got == said);
        prop_assert_eq!(pair.server.heap_bytes(), size_of::<Traffic>());
    }
}
