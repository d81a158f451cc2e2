//! Certificates: created, loaded, chosen by name, replaced.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    x509::facts(certificate).unwrap().end_point
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_first_start_makes_a_certificate_and_the_next_keeps_it() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("tls");
    let now = UNIX_EPOCH + Duration::from_secs(1_772_236_800); // 2026-02-28
    let source = ensure_self_signed(&folder, "Example.ORG", now).unwrap();
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&source.chain), 0o600);
    assert_eq!(mode(&source.key), 0o600);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left");
    let first = fs::read(&source.chain).unwrap();
    assert_eq!(ensure_self_signed(&folder, "example.org", now).unwrap(), source);
    assert_eq!(fs::read(&source.chain).unwrap(), first);

    let text = Command::new("openssl")
        .args(["x509", "-noout", "-text", "-in"])
        .arg(&source.chain)
        .output()
        .expect("openssl is installed");
    let text = String::from_utf8(text.stdout).unwrap();
    for expected in [
        "DNS:localhost, DNS:example.org",
        "CA:FALSE",
        "prime256v1",
        "Not Before: Feb 27 00:00:00 2026 GMT",
        "Not After : Feb 27 00:00:00 2036 GMT",
        "TLS Web Server Authentication",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let certificates = Certificates::load(vec![source], TlsOptions::default()).unwrap();
    let host = Host { domain: "example.org", ascii: "example.org" };
    assert_eq!(certificates.standing(host, 1_772_236_800).ends_s, 2_087_683_200);
}

#[test]
fn a_start_after_a_crash_between_the_two_files_completes_them() {
    let dir = TempDir::new().unwrap();
    let source = ensure_self_signed(dir.path(), "example.org", SystemTime::now()).unwrap();
    let key = fs::read(&source.key).unwrap();
    fs::remove_file(&source.chain).unwrap();
    ensure_self_signed(dir.path(), "example.org", SystemTime::now()).unwrap();
    assert_eq!(fs::read(&source.key).unwrap(), key, "a key is never overwritten");
    Certificates::load(vec![source], TlsOptions::default()).unwrap();
}

#[test]
fn what_cannot_be_made_or_written_is_told() {
    let dir = TempDir::new().unwrap();
    let now = SystemTime::now();
    let error = ensure_self_signed(dir.path(), "exämple.org", now).unwrap_err();
    assert!(matches!(error, CertificateError::Make(_)), "{error}");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = ensure_self_signed(&file.join("tls"), "example.org", now).unwrap_err();
    assert!(matches!(error, CertificateError::Write(..)), "{error}");
}

#[test]
fn a_reload_serves_new_connections_while_old_ones_go_on() {
    let scene = Scene::new();
    let old = scene.certificate();
    let mut established = scene.pair(V13);
    let mut halfway = Pair::new(scene.client_config(), &scene.certificates.direct());
    let mut bytes = halfway.client_bytes();
    let back = halfway.serve(&mut bytes).unwrap();

    assert_eq!(scene.certificates.reload().unwrap(), Reloaded::Unchanged);
    fs::remove_file(scene.dir.path().join("cert.pem")).unwrap();
    fs::remove_file(scene.dir.path().join("key.pem")).unwrap();
    ensure_self_signed(scene.dir.path(), "example.org", SystemTime::now()).unwrap();
    let new = scene.certificate();
    assert_ne!(old, new);
    assert_eq!(scene.certificates.reload().unwrap(), Reloaded::Changed);

    let fresh = scene.pair(V13);
    assert_eq!(fresh.client.peer_certificates().unwrap()[0], new);
    assert_eq!(fresh.info.unwrap().server_end_point, end_point(&new));
    established.client_says(b"still here");
    established.pump().unwrap();
    assert_eq!(established.got, b"still here");
    // A connection in the middle of its handshake reports the certificate that it was shown.
    halfway.deliver(&back).unwrap();
    halfway.pump().unwrap();
    assert_eq!(halfway.info.unwrap().server_end_point, end_point(&old));
}

#[test]
fn a_ticket_does_not_outlive_its_certificate() {
    let scene = Scene::new();
    let mut client = scene.client_config_for(&[V13]);
    client.dangerous().set_certificate_verifier(Arc::new(openssl::AnyCertificate));
    let connect = || {
        let mut pair = Pair::new(client.clone(), &scene.certificates.direct());
        pair.pump().unwrap();
        pair.info.unwrap()
    };
    connect();
    assert!(connect().resumed);
    fs::remove_file(scene.dir.path().join("cert.pem")).unwrap();
    ensure_self_signed(scene.dir.path(), "example.com", SystemTime::now()).unwrap();
    assert_eq!(scene.certificates.reload().unwrap(), Reloaded::Changed);
    let info = connect();
    assert!(!info.resumed);
    assert_eq!(info.server_end_point, end_point(&scene.certificate()));
}

#[test]
fn a_failed_reload_changes_nothing_and_is_told() {
    let scene = Scene::new();
    let chain = scene.dir.path().join("cert.pem");
    let old = scene.certificate();
    let other = Scene::new();
    let good = fs::read(&chain).unwrap();
    for (bad, what) in [
        (&b"no certificate"[..], "no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "malformed"),
        (&fs::read(other.dir.path().join("cert.pem")).unwrap(), "it is not the key of the certificate in"),
    ] {
        fs::write(&chain, bad).unwrap();
        let error = scene.certificates.reload().unwrap_err();
        assert!(matches!(error, CertificateError::Unusable(..)), "{error}");
        let told = error.to_string().to_lowercase();
        assert!(told.contains(what), "{told}");
    }
    fs::remove_file(&chain).unwrap();
    let error = scene.certificates.reload().unwrap_err();
    assert!(matches!(error, CertificateError::Read(..)), "{error}");

    let mut pair = Pair::new(client_config(old.clone(), &[V13]), &scene.certificates.direct());
    pair.pump().unwrap();
    assert_eq!(pair.client.peer_certificates().unwrap()[0], old);
    fs::write(&chain, good).unwrap();
    assert_eq!(scene.certificates.reload().unwrap(), Reloaded::Unchanged);
}

#[test]
fn the_certificate_is_chosen_by_server_name() {
    let dirs: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
    let names = [vec![], vec!["Rooms.Example.org".to_owned()], vec!["*.example.com".to_owned()]];
    let sources: Vec<_> = dirs
        .iter()
        .zip(names)
        .map(|(dir, names)| CertificateSource {
            names,
            ..ensure_self_signed(dir.path(), "example.org", SystemTime::now()).unwrap()
        })
        .collect();
    let certificates = Certificates::load(sources.clone(), TlsOptions::default()).unwrap();
    for (name, expected) in [
        ("example.org", 0),
        ("rooms.example.org", 1),
        ("ROOMS.example.org", 1),
        ("a.example.com", 2),
        ("a.b.example.com", 0),
        ("example.com", 0),
    ] {
        let certificate = CertificateDer::from_pem_file(&sources[expected].chain).unwrap();
        let mut client = client_config(certificate.clone(), &[V13]);
        client.dangerous().set_certificate_verifier(Arc::new(openssl::AnyCertificate));
        let mut pair = Pair::named(client, &certificates.direct(), name);
        pair.pump().unwrap();
        let shown = &pair.client.peer_certificates().unwrap()[0];
        assert!(*shown == certificate, "{name}");
        assert_eq!(pair.info.unwrap().server_end_point, end_point(&certificate));
    }
}

#[test]
fn no_certificate_is_an_error() {
    let error = Certificates::load(Vec::new(), TlsOptions::default()).unwrap_err();
    assert!(matches!(error, CertificateError::None));
}

/// RFC 7633: the server sends no OCSP responses, so clients that know the extension refuse.
#[test]
fn a_certificate_that_demands_a_stapled_response_is_a_fault_in_words() {
    let host = Host { domain: "example.org", ascii: "example.org" };
    for (arguments, faults) in [(&[][..], 0), (&["-addext", "tlsfeature=status_request"][..], 1)] {
        let dir = TempDir::new().unwrap();
        let source = openssl_certificate(
            dir.path(),
            &[&["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"], arguments].concat(),
        );
        let standing = Certificates::look(&source, host, now_s()).unwrap();
        assert_eq!(standing.faults.len(), faults, "{standing:?}");
        let sentence = "demands a stapled OCSP response (RFC 7633), which this server does not send";
        assert!(standing.faults.iter().all(|fault| fault.contains(sentence)), "{standing:?}");
    }
}

/// A certificate of six days is not reported all its life.
#[test]
fn a_short_life_ends_soon_only_at_its_end() {
    let dir = TempDir::new().unwrap();
    let source =
        openssl_certificate(dir.path(), &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "6"]);
    let host = Host { domain: "example.org", ascii: "example.org" };
    let soon = |days: i64| Certificates::look(&source, host, now_s() + days * 86_400).unwrap().soon.is_some();
    assert_eq!([0, 4, 5].map(soon), [false, false, true]);
}

fn now_s() -> i64 {
    SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed()
}
