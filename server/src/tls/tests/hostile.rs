//! Peers that break the protocol: a fault, an alert, and no retained state.

use proptest::prelude::*;

use throng_tls::testing::{
    ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, HANDSHAKE_BYTES_MAX, HANDSHAKE_RECORDS_MAX,
};

use super::*;

/// A fresh server's fault on `bytes`, and its output.
fn noise(scene: &Scene, bytes: &[u8]) -> (TlsFault, Vec<u8>) {
    let mut server = TlsConnection::accept(&scene.certificates.direct());
    let (mut got, mut to_send) = (Vec::new(), Vec::new());
    let fault = server.receive(&mut bytes.to_vec(), &mut got, &mut to_send).unwrap_err();
    assert!(got.is_empty());
    assert_eq!(server.heap_bytes(), 0);
    (fault, to_send)
}

/// The alert that ends an unprotected stream of records.
fn alert(bytes: &[u8]) -> u8 {
    let &[ALERT, 3, _, 0, 2, 2, description] = bytes else {
        panic!("no fatal alert: {bytes:?}");
    };
    description
}

#[test]
fn http_is_no_tls() {
    let scene = Scene::new();
    let (fault, to_send) = noise(&scene, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(matches!(fault, TlsFault::PeerMisbehaved(_)), "{fault}");
    assert_eq!(alert(&to_send), 50, "decode_error");
    let (fault, _) = noise(&scene, b"<?xml version='1.0'?><stream:stream>");
    assert!(matches!(fault, TlsFault::PeerMisbehaved(_)), "{fault}");
    // One byte suffices.
    noise(&scene, b"G");
}

#[test]
fn tls_1_1_is_refused_rfc_8996() {
    let scene = Scene::new();
    // A ClientHello for version 3.2 with AES-CBC and no extensions.
    let mut hello = vec![1, 0, 0, 45, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 4, 0xc0, 0x13, 0xc0, 0x14, 1, 0]);
    hello[3] = (hello.len() - 4) as u8;
    let mut bytes = vec![HANDSHAKE, 3, 1, 0, hello.len() as u8];
    bytes.extend(hello);
    let (fault, to_send) = noise(&scene, &bytes);
    assert!(matches!(fault, TlsFault::PeerIncompatible(_)), "{fault}");
    // handshake_failure: such an old hello has no signature algorithms either.
    assert_eq!(alert(&to_send), 40, "{fault}");
}

#[test]
fn records_too_long_for_any_version_are_refused() {
    let scene = Scene::new();
    let (_, to_send) = noise(&scene, &[HANDSHAKE, 3, 1, 0x48, 0x01]);
    // RFC 8446 5.2 requires record_overflow; the library reports a decoding error.
    assert_eq!(alert(&to_send), 50, "decode_error");
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        let mut to_send = Vec::new();
        let mut header = [APPLICATION_DATA, 3, 3, 0x48, 0x01];
        let outcome = pair.server.receive(&mut header, &mut pair.got, &mut to_send);
        assert!(matches!(outcome, Err(TlsFault::PeerMisbehaved(_))));
        assert_eq!(pair.deliver(&to_send), Err(rustls::Error::AlertReceived(rustls::AlertDescription::RecordOverflow)));
    }
}

#[test]
fn a_handshake_is_bounded_in_bytes_and_records() {
    let scene = Scene::new();
    // A ClientHello that claims to be 16 MB long, in 4,000-byte records.
    let mut record = vec![HANDSHAKE, 3, 1, 15, 160];
    record.extend([0; 4000]);
    record[5..9].copy_from_slice(&[1, 255, 255, 255]);
    let mut server = TlsConnection::accept(&scene.certificates.direct());
    let mut sent = 0;
    let fault = loop {
        sent += record.len();
        assert!(sent < HANDSHAKE_BYTES_MAX + 2 * record.len());
        let outcome = server.receive(&mut record.clone(), &mut vec![], &mut vec![]);
        if let Err(fault) = outcome {
            break fault;
        }
        record[5..9].copy_from_slice(&[0; 4]);
    };
    assert!(matches!(fault, TlsFault::PeerMisbehaved(_)), "{fault}");

    // The same, one byte at a time.
    let mut server = TlsConnection::accept(&scene.certificates.direct());
    let message = [[1, 0, 255, 255].as_slice(), &[0; 60_000]].concat();
    let started = std::time::Instant::now();
    let records = message.iter().position(|&byte| {
        let mut record = [HANDSHAKE, 3, 1, 0, 1, byte];
        let outcome = server.receive(&mut record, &mut vec![], &mut vec![]);
        outcome.is_err()
    });
    let spent = started.elapsed();
    assert!(records.unwrap() <= usize::from(HANDSHAKE_RECORDS_MAX));
    assert!(spent.as_secs() < 5, "{spent:?}");
}

#[test]
fn an_altered_record_is_refused() {
    let scene = Scene::new();
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        let mut rogue = pair.rogue();
        let mut bytes = Vec::new();
        rogue.send(b"pay 10 to juliet", &mut bytes).unwrap();
        for at in 0..bytes.len() {
            let mut server = pair.server.traffic_mut().twin();
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            let (mut got, mut to_send) = (Vec::new(), Vec::new());
            // A header that announces more bytes waits for them; then it fails.
            altered.extend([0; 600]);
            let outcome = server.receive(&mut &mut altered[..], &mut got, &mut to_send);
            assert!(matches!(outcome, Err(TlsFault::PeerMisbehaved(_))), "{at}");
            assert!(got.is_empty(), "byte {at}");
            assert!(!to_send.is_empty(), "an alert is due");
        }
        // The client receives the alert, and the connection is closed.
        bytes[20] ^= 1;
        assert!(pair.serve(&mut bytes.clone()).is_err());
        assert_eq!(pair.serve(&mut bytes), Err(TlsFault::Closed));
        assert_eq!(pair.server.send(b"x", &mut Vec::new()), Err(TlsFault::Closed));
    }
}

#[test]
fn the_alert_for_an_altered_record_is_bad_record_mac() {
    let scene = Scene::new();
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        pair.client_says(b"text");
        let mut bytes = pair.client_bytes();
        *bytes.last_mut().unwrap() ^= 1;
        let mut to_send = Vec::new();
        let outcome = pair.server.receive(&mut bytes, &mut pair.got, &mut to_send);
        assert!(outcome.is_err());
        assert_eq!(pair.deliver(&to_send), Err(rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)));
    }
}

#[test]
fn replayed_and_reordered_records_are_refused() {
    let scene = Scene::new();
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        let mut rogue = pair.rogue();
        let (mut one, mut two) = (Vec::new(), Vec::new());
        rogue.send(b"one", &mut one).unwrap();
        rogue.send(b"two", &mut two).unwrap();
        let mut server = pair.server.traffic_mut().twin();
        let (mut got, mut to_send) = (Vec::new(), Vec::new());
        let early = server.receive(&mut &mut two.clone()[..], &mut got, &mut to_send);
        assert!(early.is_err());
        pair.serve(&mut one.clone()).unwrap();
        assert!(pair.serve(&mut one).is_err());
        assert_eq!(pair.got, b"one");
    }
}

/// A server's fault on one sealed record after the handshake.
fn sealed(
    scene: &Scene,
    version: &'static rustls::SupportedProtocolVersion,
    kind: u8,
    content: &[u8],
) -> (Option<TlsFault>, Option<rustls::Error>) {
    let mut pair = scene.pair(version);
    let mut rogue = pair.rogue();
    let mut bytes = Vec::new();
    rogue.seal(kind, content, &mut bytes);
    let mut to_send = Vec::new();
    let outcome = pair.server.receive(&mut bytes, &mut pair.got, &mut to_send);
    (outcome.err(), pair.deliver(&to_send).err())
}

#[test]
fn renegotiation_is_refused_rfc_5246_7_2_2() {
    let scene = Scene::new();
    let (fault, _) = sealed(&scene, V12, HANDSHAKE, &[1, 0, 0, 4, 3, 3, 0, 0]);
    assert!(matches!(fault, Some(TlsFault::PeerMisbehaved(_))));
    // TLS 1.3 has none (RFC 8446 4.1.2).
    let (fault, heard) = sealed(&scene, V13, HANDSHAKE, &[1, 0, 0, 4, 3, 3, 0, 0]);
    assert!(matches!(fault, Some(TlsFault::PeerMisbehaved(_))));
    assert_eq!(heard, Some(rustls::Error::AlertReceived(rustls::AlertDescription::UnexpectedMessage)));
}

#[test]
fn what_has_no_place_after_the_handshake_is_refused() {
    let scene = Scene::new();
    let cases: [(u8, &[u8]); 8] = [
        (CHANGE_CIPHER_SPEC, &[1]),
        (HANDSHAKE, &[]),
        (HANDSHAKE, &[24, 0, 0, 1, 2]),     // no such request
        (HANDSHAKE, &[24, 0, 0, 1, 0, 24]), // more after a key change
        (HANDSHAKE, &[4, 0, 0, 0]),         // a ticket from a client
        (ALERT, &[]),
        (ALERT, &[2, 0, 0]),
        (0, &[0; 100]), // nothing but padding
    ];
    for (kind, content) in cases {
        for version in [V12, V13] {
            let (fault, _) = sealed(&scene, version, kind, content);
            assert!(matches!(fault, Some(TlsFault::PeerMisbehaved(_))), "{kind} {content:?}: {fault:?}");
        }
    }
    let (fault, _) = sealed(&scene, V13, ALERT, &[2, 40]);
    assert_eq!(fault, Some(TlsFault::PeerAlert(40)));
}

#[test]
fn data_inside_a_cut_key_update_is_refused_rfc_8446_5_1() {
    let scene = Scene::new();
    let mut pair = scene.pair(V13);
    let mut rogue = pair.rogue();
    let mut bytes = Vec::new();
    rogue.seal(HANDSHAKE, &[24, 0], &mut bytes);
    rogue.send(b"data", &mut bytes).unwrap();
    assert!(pair.serve(&mut bytes).is_err());
    assert!(pair.got.is_empty());
}

#[test]
fn plaintext_records_after_the_handshake_are_refused_rfc_8446_5() {
    let scene = Scene::new();
    for record in [
        &mut [CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1][..],
        &mut [ALERT, 3, 3, 0, 2, 1, 0],
        &mut [HANDSHAKE, 3, 3, 0, 1, 1],
        &mut [APPLICATION_DATA, 3, 3, 0, 0],
        &mut [99, 3, 3, 0, 0],
    ] {
        for version in [V12, V13] {
            let mut pair = scene.pair(version);
            let outcome = pair.serve(&mut record.to_vec());
            assert!(matches!(outcome, Err(TlsFault::PeerMisbehaved(_))));
            assert!(!pair.peer_closed, "an unprotected close_notify is no end");
        }
    }
}

#[test]
fn floods_without_content_end() {
    let scene = Scene::new();
    let flood = |version, kind, content: &[u8], keys: bool| {
        let mut pair = scene.pair(version);
        let mut rogue = pair.rogue();
        (1..1000).find(|_| {
            let mut bytes = Vec::new();
            rogue.seal(kind, content, &mut bytes);
            if keys {
                rogue.step_sending();
            }
            pair.serve(&mut bytes).is_err()
        })
    };
    for version in [V12, V13] {
        assert_eq!(flood(version, APPLICATION_DATA, &[], false), Some(33));
    }
    assert_eq!(flood(V13, HANDSHAKE, &[24, 0, 0, 1, 0], true), Some(33));
    assert_eq!(flood(V13, HANDSHAKE, &[24, 0, 0, 1, 1], true), Some(33));
    assert_eq!(flood(V13, ALERT, &[1, 90], false), Some(5));
    assert_eq!(flood(V12, ALERT, &[1, 112], false), Some(5));
}

#[test]
fn too_much_plaintext_in_a_record_is_refused_rfc_8446_5_2() {
    let scene = Scene::new();
    for version in [V12, V13] {
        let mut pair = scene.pair(version);
        let mut rogue = pair.rogue();
        let mut bytes = Vec::new();
        rogue.seal(APPLICATION_DATA, &[1; 1 << 14], &mut bytes);
        pair.serve(&mut bytes).unwrap();
        assert_eq!(pair.got.len(), 1 << 14);
        bytes.clear();
        rogue.seal(APPLICATION_DATA, &[1; (1 << 14) + 1], &mut bytes);
        assert!(pair.serve(&mut bytes).is_err());
        assert_eq!(pair.got.len(), 1 << 14);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_never_panic_and_never_establish(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        tls_like in any::<bool>(),
        cut in 1usize..200,
    ) {
        let scene = noise_scene();
        let mut server = TlsConnection::accept(&scene.certificates.direct());
        let mut bytes = bytes;
        if tls_like && bytes.len() > 5 {
            let len = bytes.len() - 5;
            bytes[..5].copy_from_slice(&[HANDSHAKE, 3, 1, (len >> 8) as u8, len as u8]);
        }
        for piece in bytes.chunks_mut(cut) {
            let mut got = Vec::new();
            let mut to_send = Vec::new();
            if server.receive(piece, &mut got, &mut to_send).is_err() {
                break;
            }
            prop_assert!(got.is_empty());
        }
        prop_assert!(!server.is_established());
    }

    #[test]
    fn an_altered_handshake_fails_or_agrees_with_the_client(
        at in 0usize..600,
        with in 1u8..=255,
        flight in 0usize..2,
        old in any::<bool>(),
    ) {
        let scene = noise_scene();
        let version = if old { V12 } else { V13 };
        let client = scene.client_config_for(&[version]);
        let mut pair = Pair::new(client, &scene.certificates.direct());
        let mut failed = false;
        for number in 0.. {
            let mut bytes = pair.client_bytes();
            if bytes.is_empty() || failed {
                break;
            }
            let end = bytes.len();
            if number == flight {
                bytes[at % end] ^= with;
            }
            failed = match pair.serve(&mut bytes) {
                Ok(back) => pair.deliver(&back).is_err(),
                Err(_) => true,
            };
        }
        if let (false, Some(info)) = (failed || pair.client.is_handshaking(), &pair.info) {
            // Only a byte that TLS ignores can have been altered.
            let seen = pair.client.export_keying_material(
                [0; 32], b"EXPORTER-Channel-Binding", Some(b""),
            );
            prop_assert_eq!(info.tls_exporter, Some(seen.unwrap()));
        }
    }
}

/// One scene for all cases: generating keys is the slow part.
fn noise_scene() -> &'static Scene {
    static SCENE: std::sync::OnceLock<Scene> = std::sync::OnceLock::new();
    SCENE.get_or_init(Scene::new)
}
