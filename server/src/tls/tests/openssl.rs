//! An independent peer: `openssl s_client` over a loopback socket.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::UnixTime;
use rustls::{DigitallySignedStruct, SignatureScheme};

use super::*;

/// A verifier that accepts any certificate, for tests of the server's report on certificates that
/// the client's library does not support.
#[derive(Debug)]
pub(super) struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The outcome of a run of `s_client`.
struct Run {
    info: Option<TlsInfo>,
    fault: Option<TlsFault>,
    peer_closed: bool,
    output: String,
}

/// Serves one connection, which echoes its input in capitals until the client closes. Each of the
/// `lines` is typed when s_client has printed the text that the previous one waits for: s_client
/// takes a letter for a command only at the start of a read.
fn s_client(scene: &Scene, arguments: &[&str], lines: &[(&str, &str)]) -> Run {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = scene.certificates.direct();
    let server = std::thread::spawn(move || serve(&listener, &config));
    let mut child = Command::new("sh")
        .args(["-c", "exec openssl s_client \"$@\" 2>&1", "s_client"])
        .args(["-connect", &address, "-servername", "example.org"])
        .args(["-verify_return_error", "-verify_hostname", "example.org"])
        .arg("-CAfile")
        .arg(scene.dir.path().join("cert.pem"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh and openssl are installed");
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut output = String::new();
    for (line, awaited) in lines {
        // In one write; s_client has ended if the server has refused it.
        let _ = stdin.write_all(format!("{line}\n").as_bytes());
        let mark = output.len();
        let mut some = [0; 4096];
        while awaited.is_empty() || !output[mark..].contains(awaited) {
            match stdout.read(&mut some).unwrap() {
                0 => break,
                read => output.push_str(&String::from_utf8_lossy(&some[..read])),
            }
        }
    }
    drop(stdin);
    child.wait().unwrap();
    let (info, fault, peer_closed) = server.join().unwrap();
    Run { info, fault, peer_closed, output }
}

fn serve(listener: &TcpListener, config: &TlsConfig) -> (Option<TlsInfo>, Option<TlsFault>, bool) {
    let (mut socket, _) = listener.accept().unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut tls = TlsConnection::accept(config);
    let mut info = None;
    let mut buffer = [0; 4096];
    loop {
        let read = match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return (info, None, false),
            Ok(read) => read,
        };
        let (mut plaintext, mut to_send) = (Vec::new(), Vec::new());
        let received = tls.receive(&mut buffer[..read], &mut plaintext, &mut to_send);
        let ended = match received {
            Ok(received) => {
                if let Some(done) = received.handshake_done {
                    info = Some(*done);
                }
                plaintext.make_ascii_uppercase();
                if !plaintext.is_empty() {
                    tls.send(&plaintext, &mut to_send).unwrap();
                }
                if received.peer_closed {
                    tls.close(&mut to_send);
                }
                received.peer_closed.then_some((None, true))
            }
            Err(fault) => Some((Some(fault), false)),
        };
        let _ = socket.write_all(&to_send);
        if let Some((fault, closed)) = ended {
            return (info, fault, closed);
        }
    }
}

/// The hexadecimal value after `label` in s_client's output.
fn keying_material(output: &str) -> String {
    let (_, rest) = output.split_once("Keying material: ").unwrap_or_else(|| panic!("{output}"));
    rest.lines().next().unwrap().trim().to_owned()
}

#[test]
fn openssl_speaks_both_versions() {
    let scene = Scene::new();
    for (argument, version) in [("-tls1_3", TlsVersion::V1_3), ("-tls1_2", TlsVersion::V1_2)] {
        let run = s_client(
            &scene,
            &[argument, "-alpn", "xmpp-client", "-keymatexport", "EXPORTER-Channel-Binding", "-keymatexportlen", "32"],
            &[("hello from openssl", "HELLO FROM OPENSSL"), ("and again", "AND AGAIN"), ("Q", "")],
        );
        let info = run.info.unwrap_or_else(|| panic!("{}", run.output));
        assert_eq!(run.fault, None);
        assert_eq!(info.version, version);
        assert_eq!(info.sni.as_deref(), Some("example.org"));
        assert_eq!(info.alpn.as_deref(), Some(&b"xmpp-client"[..]));
        assert!(run.output.contains("ALPN protocol: xmpp-client"));
        assert!(run.output.contains("Verify return code: 0 (ok)"));
        assert!(run.output.contains("HELLO FROM OPENSSL"), "{}", run.output);
        assert!(run.output.contains("AND AGAIN"), "{}", run.output);
        assert!(run.peer_closed, "Q sends close_notify");
        if version == TlsVersion::V1_3 {
            // In TLS 1.2 this command exports without a context, which by RFC 5705 4 differs from
            // RFC 9266's empty one.
            let told: String = info.tls_exporter.unwrap().iter().map(|byte| format!("{byte:02X}")).collect();
            assert_eq!(keying_material(&run.output), told);
        }
    }
}

#[test]
fn openssl_updates_its_keys() {
    let scene = Scene::new();
    // s_client: `K` updates the keys and requests ours, `k` only updates its own.
    let run = s_client(
        &scene,
        &["-tls1_3"],
        &[
            ("wherefore", "WHEREFORE"),
            ("K", "KEYUPDATE"),
            ("art thou", "ART THOU"),
            ("k", "KEYUPDATE"),
            ("o romeo", "O ROMEO"),
            ("K", "KEYUPDATE"),
            ("K", "KEYUPDATE"),
            ("my lord", "MY LORD"),
            ("Q", ""),
        ],
    );
    assert_eq!(run.fault, None);
    for word in ["WHEREFORE", "ART THOU", "O ROMEO", "MY LORD"] {
        assert!(run.output.contains(word), "{word} in {}", run.output);
    }
    assert!(run.peer_closed);
}

#[test]
fn openssl_is_refused_a_renegotiation() {
    let scene = Scene::new();
    let run =
        s_client(&scene, &["-tls1_2"], &[("wherefore", "WHEREFORE"), ("R", "RENEGOTIATING"), ("art thou", "ART THOU")]);
    assert!(run.output.contains("WHEREFORE"), "{}", run.output);
    assert!(matches!(run.fault, Some(TlsFault::PeerMisbehaved(_))), "{:?} {}", run.fault, run.output);
    assert!(!run.output.contains("ART THOU"));
}

#[test]
fn openssl_resumes_by_ticket() {
    let scene = Scene::new();
    for version in ["-tls1_3", "-tls1_2"] {
        let ticket = scene.dir.path().join("ticket.pem");
        let ticket = ticket.to_str().unwrap();
        let first = s_client(&scene, &[version, "-sess_out", ticket], &[("wherefore", "WHEREFORE"), ("Q", "")]);
        assert!(!first.info.unwrap().resumed);
        let second = s_client(&scene, &[version, "-sess_in", ticket], &[("art thou", "ART THOU"), ("Q", "")]);
        assert!(second.info.unwrap().resumed, "{}", second.output);
        assert!(second.output.contains("ART THOU"), "{}", second.output);
    }
}

#[test]
fn openssl_with_tls_1_1_is_refused_rfc_8996() {
    let scene = Scene::new();
    let run = s_client(&scene, &["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"], &[("wherefore", "WHEREFORE")]);
    assert_eq!(run.info, None);
    assert!(matches!(run.fault, Some(TlsFault::PeerIncompatible(_))), "{:?} {}", run.fault, run.output);
}
