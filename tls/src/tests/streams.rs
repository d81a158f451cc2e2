//! The client and a rustls server: versions, suites, pieces, key updates, tickets, closing, and
//! peers that break the protocol.

use proptest::prelude::*;
use rustls::crypto::ring::cipher_suite;

use super::*;
use crate::testing::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE};
use crate::{TlsFault, TlsVersion};

#[test]
fn both_versions_shake_hands_and_exchange_data_and_keep_nothing() {
    for (version, expected) in [(V12, TlsVersion::V1_2), (V13, TlsVersion::V1_3)] {
        let mut pair = Pair::established(version);
        assert_eq!(pair.client.version(), Some(expected));
        // XEP-0368 4.
        assert_eq!(pair.server.alpn_protocol(), Some(&b"xmpp-client"[..]));
        for round in 0..10 {
            let (ping, pong) = (format!("ping {round}"), format!("pong {round}"));
            pair.said.extend_from_slice(ping.as_bytes());
            pair.pump();
            assert_eq!(pair.server_read(), ping.as_bytes());
            pair.server_says(pong.as_bytes());
            pair.pump();
            assert_eq!(std::mem::take(&mut pair.got), pong.as_bytes());
        }
        assert_eq!(pair.client.heap_bytes(), 0, "an idle client is its own 248 bytes");
    }
}

#[test]
fn every_cipher_suite_goes_on_after_the_handshake() {
    for suite in [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ] {
        let version = if suite.version() == V12 { V12 } else { V13 };
        let provider = CryptoProvider { cipher_suites: vec![suite], ..ring::default_provider() };
        let mut pair = Pair::new(&terms_of(provider, version), 2);
        pair.pump();
        for round in 0..40u8 {
            if version == V13 {
                pair.server.refresh_traffic_keys().unwrap();
            }
            pair.said.push(round);
            pair.server_says(&[round]);
            pair.pump();
            assert_eq!(pair.server_read(), [round]);
        }
        assert_eq!(pair.got, (0..40).collect::<Vec<u8>>());
    }
}

#[test]
fn what_is_said_before_the_end_of_the_handshake_waits_for_it() {
    for version in [V12, V13] {
        let mut pair = Pair::new(&terms(version), 2);
        pair.said.extend_from_slice(b"<stream:stream>");
        assert!(pair.client.wants_send());
        let hello = pair.client_bytes();
        assert_eq!(pair.said, b"<stream:stream>", "not in the clear");
        pair.server_hears(&hello).unwrap();
        pair.pump();
        assert_eq!(pair.server_read(), b"<stream:stream>");
        assert!(pair.said.is_empty() && !pair.client.wants_send());
    }
}

/// RFC 8446 4.6.1, 2.3: tickets and data arrive right after the server's last handshake message, in
/// the same read.
#[test]
fn what_comes_along_with_the_end_of_the_handshake_comes_out_in_the_same_call() {
    for version in [V12, V13] {
        let mut pair = Pair::new(&terms(version), 4);
        if version == V13 {
            // A server may send data before the client's Finished (half-RTT data).
            let hello = pair.client_bytes();
            pair.server_hears(&hello).unwrap();
            pair.server_says(b"early ");
            let mut flight = pair.server_bytes();
            pair.client.receive(&mut flight, &mut pair.got).unwrap();
            assert_eq!(pair.got, b"early ");
        } else {
            let hello = pair.client_bytes();
            pair.server_hears(&hello).unwrap();
            let mut flight = pair.server_bytes();
            pair.client.receive(&mut flight, &mut pair.got).unwrap();
        }
        let finished = pair.client_bytes();
        pair.server_hears(&finished).unwrap();
        pair.server_says(b"words");
        let mut tail = pair.server_bytes();
        pair.client.receive(&mut tail, &mut pair.got).unwrap();
        assert!(pair.got.ends_with(b"words"));
        pair.pump();
        assert_eq!(pair.client.heap_bytes(), 0);
    }
}

#[test]
fn any_size_of_read_gives_the_same() {
    for version in [V12, V13] {
        for piece in (1..32).chain([100, 255, 256, 517, 1000, 4095, 4096]) {
            let mut pair = Pair::new(&terms(version), 2);
            pair.piece = piece;
            pair.pump();
            pair.server_says(b"<a/>");
            pair.server_says(&[b'x'; 3000]);
            pair.pump();
            assert_eq!(pair.got.len(), 3004, "{piece}");
            assert!(pair.got.starts_with(b"<a/>xxx"));
            assert_eq!(pair.client.heap_bytes(), 0);
        }
    }
}

/// Everything that a server may send, cut in two at every byte.
#[test]
fn every_split_in_two_of_an_established_stream_gives_the_same() {
    for version in [V12, V13] {
        let mut pair = Pair::established(version);
        let mut rogue = pair.rogue();
        let mut bytes = Vec::new();
        rogue.send(b"one", &mut bytes).unwrap();
        if version == V13 {
            rogue.seal(HANDSHAKE, &ticket(70), &mut bytes);
            rogue.request_update(&mut bytes);
        }
        rogue.send(b"two", &mut bytes).unwrap();
        rogue.close(&mut bytes);
        for at in 0..=bytes.len() {
            let mut client = pair.client.traffic().unwrap().twin();
            let (mut got, mut to_send) = (Vec::new(), Vec::new());
            let mut copy = bytes.clone();
            let (mut head, mut tail) = copy.split_at_mut(at);
            client.receive(&mut head, &mut got, &mut to_send).unwrap();
            client.receive(&mut tail, &mut got, &mut to_send).unwrap();
            assert_eq!(got, b"onetwo", "split at {at}");
            assert!(client.peer_closed() && to_send.is_empty());
            assert_eq!(client.wants_flush(), version == V13);
        }
    }
}

/// A `NewSessionTicket` of this many bytes, including its head.
fn ticket(bytes: usize) -> Vec<u8> {
    let left = (bytes - 4) as u32;
    let mut message = [&[4], &left.to_be_bytes()[1..]].concat();
    message.resize(bytes, 7);
    message
}

#[test]
fn tickets_are_passed_over_however_they_are_cut_rfc_8446_4_6_1() {
    let mut pair = Pair::established(V13);
    let mut rogue = pair.rogue();
    // Two tickets, one over 300 bytes, followed by a key update, in records of any length.
    let messages = [ticket(300), ticket(5), vec![24, 0, 0, 1, 0]].concat();
    for length in 1..messages.len() {
        let mut bytes = Vec::new();
        for piece in messages.chunks(length) {
            rogue.seal(HANDSHAKE, piece, &mut bytes);
        }
        rogue.step_sending();
        rogue.send(b"data", &mut bytes).unwrap();
        pair.client.receive(&mut bytes, &mut pair.got).unwrap();
        assert_eq!(std::mem::take(&mut pair.got), b"data", "{length}");
        assert!(!pair.client.wants_send());
    }
}

#[test]
fn a_key_update_is_answered_once_and_before_the_next_data_rfc_8446_4_6_3() {
    let mut pair = Pair::established(V13);
    let (mut rogue, mut bytes) = (pair.rogue(), Vec::new());
    for _ in 0..20 {
        rogue.request_update(&mut bytes);
    }
    rogue.send(b"data", &mut bytes).unwrap();
    pair.client.receive(&mut bytes, &mut pair.got).unwrap();
    assert_eq!(pair.got, b"data");
    assert!(pair.client.wants_send());
    let answer = pair.client_bytes();
    assert_eq!(answer.len(), 5 + 5 + 1 + 16, "one record with one key update");
    assert!(!pair.client.wants_send());
    pair.server_hears(&answer).unwrap();
    pair.said.extend_from_slice(b"heard");
    let bytes = pair.client_bytes();
    pair.server_hears(&bytes).unwrap();
    assert_eq!(pair.server_read(), b"heard");
}

#[test]
fn close_notify_is_heard_rfc_8446_6_1() {
    for version in [V12, V13] {
        let mut pair = Pair::established(version);
        pair.server_says(b"bye");
        pair.server.send_close_notify();
        let mut bytes = pair.server_bytes();
        bytes.extend_from_slice(b"what follows does not count");
        pair.client.receive(&mut bytes, &mut pair.got).unwrap();
        assert!(pair.client.peer_closed());
        assert_eq!(pair.got, b"bye");
        // The client's direction is still open.
        pair.said.extend_from_slice(b"goodbye");
        let bytes = pair.client_bytes();
        pair.server_hears(&bytes).unwrap();
        assert_eq!(pair.server_read(), b"goodbye");
    }
}

/// The client's fault on bytes from a server after the handshake, and the alert that the server
/// receives.
fn refused(pair: &mut Pair, mut bytes: Vec<u8>) -> (TlsFault, Option<rustls::Error>) {
    let fault = pair.client.receive(&mut bytes, &mut pair.got).unwrap_err();
    let mut alert = Vec::new();
    pair.said.extend_from_slice(b"nothing more");
    assert!(pair.client.wants_send());
    assert_eq!(pair.client.send(&mut pair.said, &mut alert), Err(TlsFault::Closed));
    assert_eq!(pair.client.receive(&mut [], &mut pair.got), Err(TlsFault::Closed));
    assert!(!pair.client.wants_send() && pair.client.version().is_none());
    (fault, pair.server_hears(&alert).err())
}

#[test]
fn an_altered_replayed_or_reordered_record_is_refused_with_bad_record_mac_rfc_8446_5_2() {
    for version in [V12, V13] {
        for wrong in ["altered", "replayed", "reordered"] {
            let mut pair = Pair::established(version);
            let (mut rogue, mut one, mut two) = (pair.rogue(), Vec::new(), Vec::new());
            rogue.send(b"one", &mut one).unwrap();
            rogue.send(b"two", &mut two).unwrap();
            let bytes = match wrong {
                "altered" => {
                    *one.last_mut().unwrap() ^= 1;
                    one
                }
                "replayed" => [one.clone(), one].concat(),
                _ => two,
            };
            let (fault, heard) = refused(&mut pair, bytes);
            assert!(matches!(fault, TlsFault::PeerMisbehaved(_)), "{fault}");
            let mac = rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac);
            assert_eq!(heard, Some(mac), "{wrong}");
            assert_eq!(pair.got, if wrong == "replayed" { &b"one"[..] } else { b"" });
        }
    }
}

#[test]
fn what_has_no_place_after_the_handshake_is_refused() {
    let cases: [(u8, Vec<u8>); 9] = [
        (CHANGE_CIPHER_SPEC, vec![1]),
        (HANDSHAKE, vec![]),
        (HANDSHAKE, vec![24, 0, 0, 1, 2]),     // no such request
        (HANDSHAKE, vec![24, 0, 0, 1, 0, 24]), // more after a key change (RFC 8446 5.1)
        (HANDSHAKE, vec![4, 1, 0, 0]),         // a ticket of 64 KiB
        (HANDSHAKE, vec![13, 0, 0, 0]),        // CertificateRequest, which was not offered (RFC 8446 4.6.2)
        (HANDSHAKE, vec![0, 0, 0, 0, 0]),      // more than a HelloRequest
        (ALERT, vec![2, 0, 0]),
        (0, vec![0; 100]), // nothing but padding
    ];
    for (kind, content) in cases {
        for version in [V12, V13] {
            let mut pair = Pair::established(version);
            let mut bytes = Vec::new();
            pair.rogue().seal(kind, &content, &mut bytes);
            let (fault, heard) = refused(&mut pair, bytes);
            assert!(matches!(fault, TlsFault::PeerMisbehaved(_)), "{kind} {content:?}: {fault:?}");
            // TLS 1.2 refuses a renegotiation with a warning.
            assert!(heard.is_some() || version == V12, "{kind} {content:?}");
        }
    }
}

#[test]
fn data_inside_a_cut_ticket_is_refused_rfc_8446_5_1() {
    let mut pair = Pair::established(V13);
    let (mut rogue, mut bytes) = (pair.rogue(), Vec::new());
    rogue.seal(HANDSHAKE, &ticket(50)[..40], &mut bytes);
    rogue.send(b"data", &mut bytes).unwrap();
    refused(&mut pair, bytes);
    assert!(pair.got.is_empty());
}

#[test]
fn floods_without_content_end() {
    let flood = |version, kind, content: &[u8]| {
        let mut pair = Pair::established(version);
        let (mut rogue, mut bytes) = (pair.rogue(), Vec::new());
        // The handshake's own tickets no longer count.
        rogue.send(b"data", &mut bytes).unwrap();
        pair.client.receive(&mut bytes, &mut pair.got).unwrap();
        (1..1000).find(|_| {
            let mut bytes = Vec::new();
            rogue.seal(kind, content, &mut bytes);
            pair.client.receive(&mut bytes, &mut pair.got).is_err()
        })
    };
    assert_eq!(flood(V13, APPLICATION_DATA, &[]), Some(33));
    assert_eq!(flood(V13, HANDSHAKE, &ticket(20)), Some(33));
    // RFC 5246 7.4.1.1: a client may ignore a HelloRequest.
    assert_eq!(flood(V12, HANDSHAKE, &[0, 0, 0, 0]), Some(5));
}

#[test]
fn a_server_that_speaks_no_tls_or_refuses_is_a_fault_that_says_so() {
    let mut client = TlsClient::new(&terms(V13)).unwrap();
    let mut http = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    let fault = client.receive(&mut http, &mut Vec::new()).unwrap_err();
    assert!(matches!(fault, TlsFault::PeerMisbehaved(_)), "{fault}");
    // RFC 8446 6.2: handshake_failure.
    let mut client = TlsClient::new(&terms(V13)).unwrap();
    let fault = client.receive(&mut [ALERT, 3, 3, 0, 2, 2, 40], &mut Vec::new()).unwrap_err();
    assert_eq!(fault, TlsFault::PeerAlert(40));
}

/// RFC 8446 4.4.3: any server must have the certificate's key.
#[test]
fn a_server_without_its_certificates_key_is_refused() {
    let other = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(other.signing_key.serialize_der()));
    let key = ring::sign::any_supported_type(&key).unwrap();
    // Built without the check that a server's own configuration performs.
    let shown = rustls::sign::CertifiedKey::new(vec![certificate().cert.der().clone()], key);
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(shown)));
    for version in [V12, V13] {
        let mut pair = Pair::new(&terms(version), 0);
        pair.server = ServerConnection::new(Arc::new(config.clone())).unwrap();
        let hello = pair.client_bytes();
        pair.server_hears(&hello).unwrap();
        let mut flight = pair.server_bytes();
        let fault = pair.client.receive(&mut flight, &mut Vec::new()).unwrap_err();
        assert!(fault.to_string().contains("BadSignature"), "{fault}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_writes_in_any_reads_come_out_in_order(
        writes in prop::collection::vec(0usize..20_000, 1..6),
        cuts in prop::collection::vec(1usize..9_000, 1..40),
        old in any::<bool>(),
        updates in any::<bool>(),
    ) {
        let version = if old { V12 } else { V13 };
        let mut pair = Pair::established(version);
        let (mut rogue, mut bytes, mut said) = (pair.rogue(), Vec::new(), Vec::new());
        for (n, &len) in writes.iter().enumerate() {
            if updates && !old {
                rogue.request_update(&mut bytes);
                rogue.seal(HANDSHAKE, &ticket(200), &mut bytes);
            }
            let text: Vec<u8> = (0..len).map(|at| (at * 31 + n) as u8).collect();
            rogue.send(&text, &mut bytes).unwrap();
            said.extend(text);
        }
        let mut rest = &mut bytes[..];
        let mut cuts = cuts.into_iter().cycle();
        while !rest.is_empty() {
            let at = cuts.next().unwrap().min(rest.len());
            let (head, tail) = rest.split_at_mut(at);
            pair.client.receive(head, &mut pair.got).unwrap();
            rest = tail;
        }
        prop_assert!(pair.got == said);
        prop_assert_eq!(pair.client.heap_bytes(), 0);
    }

    #[test]
    fn random_bytes_never_panic_and_never_establish(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        tls_like in any::<bool>(),
        cut in 1usize..200,
    ) {
        let mut client = TlsClient::new(&terms(V13)).unwrap();
        let mut bytes = bytes;
        if tls_like && bytes.len() > 5 {
            let len = bytes.len() - 5;
            bytes[..5].copy_from_slice(&[HANDSHAKE, 3, 3, (len >> 8) as u8, len as u8]);
        }
        let mut got = Vec::new();
        for piece in bytes.chunks_mut(cut) {
            if client.receive(piece, &mut got).is_err() {
                break;
            }
        }
        prop_assert!(got.is_empty() && client.version().is_none());
    }
}
