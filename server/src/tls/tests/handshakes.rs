//! The parameters that a handshake negotiates.

use ring::digest;
use rustls::crypto::ring::cipher_suite;

use super::openssl::AnyCertificate;
use super::*;

/// The client's own view of `tls-exporter` (RFC 9266).
fn exporter_of_client(pair: &Pair) -> [u8; 32] {
    pair.client.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b"")).unwrap()
}

#[test]
fn both_versions_shake_hands_and_exchange_data() {
    let scene = Scene::new();
    for (version, expected) in [(V12, TlsVersion::V1_2), (V13, TlsVersion::V1_3)] {
        let mut pair = scene.pair(version);
        assert_eq!(pair.info.as_ref().unwrap().version, expected);
        assert!(pair.server.is_established());
        for round in 0..10 {
            let (ping, pong) = (format!("ping {round}"), format!("pong {round}"));
            pair.client_says(ping.as_bytes());
            pair.pump().unwrap();
            pair.server_says(pong.as_bytes());
            assert_eq!(std::mem::take(&mut pair.got), ping.as_bytes());
            assert_eq!(pair.client_read(), pong.as_bytes());
        }
    }
}

#[test]
fn every_cipher_suite_of_the_library_goes_on_after_the_handshake() {
    // Two certificates, so that both kinds of TLS 1.2 suite can be negotiated.
    let ecdsa = Scene::new();
    let rsa = Scene::with_openssl(&["-newkey", "rsa:2048", "-sha256"]);
    for suite in cipher_suite_list() {
        let name = format!("{:?}", suite.suite());
        let scene = if name.contains("RSA") { &rsa } else { &ecdsa };
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites = vec![suite];
        let mut roots = RootCertStore::empty();
        roots.add(scene.certificate()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[suite.version()])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut pair = Pair::new(client, &scene.certificates.starttls());
        pair.pump().unwrap();
        let told = pair.info.as_ref().unwrap().cipher_suite;
        assert_eq!(told.replace("TLS_", "").replace("TLS13_", ""), name.replace("TLS13_", "").replace("TLS_", ""));
        pair.client_says(b"one");
        pair.client_says(b"two");
        pair.pump().unwrap();
        pair.server_says(b"three");
        pair.server_says(b"four");
        assert_eq!(pair.got, b"onetwo", "{name}");
        assert_eq!(pair.client_read(), b"threefour", "{name}");
    }
}

fn cipher_suite_list() -> Vec<rustls::SupportedCipherSuite> {
    vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ]
}

#[test]
fn of_what_a_client_offers_the_cheapest_suite_is_taken_rfc_8446_9_1() {
    let scene = Scene::new();
    for (version, name) in [(V12, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), (V13, "TLS_AES_128_GCM_SHA256")] {
        // The client's own order has AES-256 first.
        assert_eq!(scene.pair(version).info.unwrap().cipher_suite, name);
    }
}

#[test]
fn the_exporter_is_the_clients_rfc_9266() {
    let scene = Scene::new();
    for version in [V12, V13] {
        let first = scene.pair(version);
        let second = scene.pair(version);
        let binding = |pair: &Pair| pair.info.as_ref().unwrap().tls_exporter.unwrap();
        assert_eq!(binding(&first), exporter_of_client(&first));
        assert_eq!(binding(&second), exporter_of_client(&second));
        assert_ne!(binding(&first), binding(&second));
    }
}

#[test]
fn the_end_point_is_the_certificates_hash_rfc_5929_4_1() {
    let ec = |curve| format!("ec_paramgen_curve:{curve}");
    let (p256, p384) = (ec("P-256"), ec("P-384"));
    let cases: [(&[&str], &digest::Algorithm); 6] = [
        (&["-newkey", "ec", "-pkeyopt", &p256, "-sha256"], &digest::SHA256),
        (&["-newkey", "ec", "-pkeyopt", &p384, "-sha384"], &digest::SHA384),
        (&["-newkey", "ec", "-pkeyopt", &p384, "-sha512"], &digest::SHA512),
        (&["-newkey", "rsa:2048", "-sha256"], &digest::SHA256),
        (&["-newkey", "rsa:2048", "-sha512"], &digest::SHA512),
        (&["-newkey", "rsa:2048", "-sha384", "-sigopt", "rsa_padding_mode:pss"], &digest::SHA384),
    ];
    for (arguments, hash) in cases {
        let scene = Scene::with_openssl(arguments);
        // The client's verifier does not support every signature: only the server's report is
        // compared, with the client's copy.
        let mut config = scene.client_config();
        config.dangerous().set_certificate_verifier(Arc::new(openssl::AnyCertificate));
        let mut pair = Pair::new(config, &scene.certificates.direct());
        pair.pump().unwrap();
        let seen = &pair.client.peer_certificates().unwrap()[0];
        let expected = digest::digest(hash, seen).as_ref().to_vec();
        let told = pair.info.unwrap().server_end_point;
        assert_eq!(told, Some(expected), "{arguments:?}");
    }
}

#[test]
fn sha_1_signatures_bind_with_sha_256_and_ed25519_not_at_all_rfc_5929_4_1() {
    let scene = Scene::with_openssl(&["-newkey", "rsa:2048", "-sha1"]);
    let der = scene.certificate();
    let expected = digest::digest(&digest::SHA256, &der).as_ref().to_vec();
    assert_eq!(x509::facts(&der).unwrap().end_point, Some(expected));
    let scene = Scene::with_openssl(&["-newkey", "ed25519"]);
    assert_eq!(x509::facts(&scene.certificate()).unwrap().end_point, None);
}

#[test]
fn alpn_is_agreed_absent_or_refused_xep_0368_2() {
    let scene = Scene::new();
    let offer = |protocols: &[&str], config: &TlsConfig| {
        let mut client = scene.client_config();
        client.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        let mut pair = Pair::new(client, config);
        pair.pump().map(|()| pair.info.unwrap().alpn)
    };
    let direct = scene.certificates.direct();
    let agreed = Ok(Some(b"xmpp-client".to_vec()));
    assert_eq!(offer(&["xmpp-client"], &direct), agreed);
    assert_eq!(offer(&["h2", "xmpp-client"], &direct), agreed);
    assert_eq!(offer(&[], &direct), Ok(None));
    let refused = offer(&["h2", "xmpp-server"], &direct).unwrap_err();
    assert!(matches!(refused, TlsFault::PeerIncompatible(_)), "{refused}");
    // After STARTTLS the protocol is known.
    assert_eq!(offer(&["h2"], &scene.certificates.starttls()), Ok(None));
}

#[test]
fn the_server_name_is_reported() {
    let scene = Scene::new();
    let mut pair = Pair::named(scene.client_config(), &scene.certificates.direct(), "EXAMPLE.org");
    pair.pump().unwrap();
    assert_eq!(pair.info.unwrap().sni.as_deref(), Some("example.org"));
}

#[test]
fn tickets_resume_in_both_versions() {
    let scene = Scene::new();
    for version in [V12, V13] {
        let client = scene.client_config_for(&[version]);
        let mut resumed = Vec::new();
        let mut end_points = Vec::new();
        for _ in 0..3 {
            let mut pair = Pair::new(client.clone(), &scene.certificates.direct());
            pair.pump().unwrap();
            let exporter = exporter_of_client(&pair);
            let info = pair.info.clone().unwrap();
            assert_eq!(info.tls_exporter, Some(exporter));
            resumed.push(info.resumed);
            end_points.push(info.server_end_point);
            pair.client_says(b"again");
            pair.pump().unwrap();
            assert_eq!(pair.got, b"again");
        }
        assert_eq!(resumed, [false, true, true]);
        assert_eq!(end_points[0], end_points[1]);
    }
}

#[test]
fn tickets_can_be_switched_off() {
    let scene = Scene::with_options(TlsOptions { tickets: false, ..TlsOptions::default() });
    for version in [V12, V13] {
        let client = scene.client_config_for(&[version]);
        for _ in 0..2 {
            let mut pair = Pair::new(client.clone(), &scene.certificates.direct());
            pair.pump().unwrap();
            assert!(!pair.info.unwrap().resumed);
        }
    }
}

#[test]
fn the_oldest_version_is_an_option() {
    let scene = Scene::with_options(TlsOptions { min_version: TlsVersion::V1_3, ..TlsOptions::default() });
    let mut pair = Pair::new(scene.client_config_for(&[V12]), &scene.certificates.direct());
    assert!(matches!(pair.pump(), Err(TlsFault::PeerIncompatible(_))));
    assert!(pair.server.receive(&mut [], &mut vec![], &mut vec![]).is_err());
}

#[test]
fn nothing_is_sent_before_the_handshake_is_done() {
    let scene = Scene::new();
    let mut server = TlsConnection::accept(&scene.certificates.direct());
    let mut to_send = Vec::new();
    assert_eq!(server.send(b"<stream:stream>", &mut to_send), Err(TlsFault::NotEstablished));
    assert!(to_send.is_empty());
}

/// RFC 8737 3: a client that offers `acme-tls/1` alone is shown a certificate for the asked name,
/// self-signed, with the digest in a critical extension; and nothing follows (RFC 8737 4).
#[test]
fn a_challenge_is_answered_by_a_certificate_of_its_own_and_other_clients_see_nothing_of_it() {
    let scene = Scene::with_options(TlsOptions { challenges: true, ..TlsOptions::default() });
    let challenge = scene.certificates.challenge().unwrap();
    let client = |offered: &[&[u8]]| {
        let mut config = scene.client_config();
        // As an authority does before it looks at one: the library knows no extension of this kind.
        config.dangerous().set_certificate_verifier(Arc::new(AnyCertificate));
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        config
    };
    let shown = |offered: &[&[u8]], server: &TlsConfig, name| {
        let mut pair = Pair::named(client(offered), server, name);
        let ended = pair.pump();
        let chain = pair.client.peer_certificates().map(|chain| chain[0].to_vec());
        (ended, chain)
    };
    let own = scene.certificate().to_vec();
    let entries = || [(scene.certificates.direct(), &b"xmpp-client"[..]), (scene.certificates.web(), b"http/1.1")];
    for (server, _) in entries() {
        let (ended, chain) = shown(&[b"acme-tls/1"], &server, "example.org");
        assert!(matches!(ended, Err(TlsFault::Internal(_) | TlsFault::PeerMisbehaved(_))), "no order: {ended:?}");
        assert_eq!(chain, None);
    }
    challenge.show("example.org", &[7; 32]).unwrap();
    let digest = [&[0x06, 8, 0x2b, 6, 1, 5, 5, 7, 1, 31, 1, 1, 0xff, 4, 34, 4, 32][..], &[7; 32]].concat();
    for (server, usual) in entries() {
        let (ended, chain) = shown(&[b"acme-tls/1"], &server, "example.org");
        assert_eq!(ended, Err(TlsFault::Closed), "it ends with the handshake");
        let chain = chain.unwrap();
        assert!(chain != own && chain.windows(digest.len()).any(|part| part == digest));
        // Another name, and clients of the usual protocol, also if they offer both.
        assert_eq!(shown(&[b"acme-tls/1"], &server, "localhost").1, None);
        for offered in [&[][..], &[usual], &[b"acme-tls/1", usual]] {
            let (ended, chain) = shown(offered, &server, "example.org");
            assert_eq!((ended, chain.as_ref()), (Ok(()), Some(&own)), "{offered:?}");
        }
    }
    // After STARTTLS protocols are ignored.
    assert_eq!(shown(&[b"acme-tls/1"], &scene.certificates.starttls(), "example.org").1, Some(own.clone()));
    challenge.hide();
    assert_eq!(shown(&[b"acme-tls/1"], &scene.certificates.direct(), "example.org").1, None);
}
