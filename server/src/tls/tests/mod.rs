//! A client and this module's server, joined in memory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tempfile::TempDir;

use super::*;
use throng_tls::Traffic;

mod certificates;
mod clients;
mod handshakes;
mod hostile;
mod memory;
mod openssl;
mod streams;

/// Certificates in their own folder.
pub(crate) struct Scene {
    dir: TempDir,
    pub(crate) certificates: Arc<Certificates>,
}

impl Scene {
    /// A self-signed certificate for `localhost` and `example.org`.
    pub(crate) fn new() -> Self {
        Self::with_options(TlsOptions::default())
    }

    fn with_options(options: TlsOptions) -> Self {
        let dir = TempDir::new().unwrap();
        let source = ensure_self_signed(dir.path(), "example.org", SystemTime::now()).unwrap();
        let certificates = Certificates::load(vec![source], options).unwrap();
        Self { dir, certificates }
    }

    /// A certificate created by `openssl req` with these arguments.
    fn with_openssl(arguments: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let source = openssl_certificate(dir.path(), arguments);
        let certificates = Certificates::load(vec![source], TlsOptions::default()).unwrap();
        Self { dir, certificates }
    }

    fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.dir.path().join("cert.pem")).unwrap()
    }

    /// A client that trusts the scene's certificate.
    pub(crate) fn client_config(&self) -> ClientConfig {
        self.client_config_for(rustls::ALL_VERSIONS)
    }

    pub(crate) fn client_config_for(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
        client_config(self.certificate(), versions)
    }

    /// A client after a handshake over direct TLS.
    fn pair(&self, version: &'static rustls::SupportedProtocolVersion) -> Pair {
        let mut pair = Pair::new(self.client_config_for(&[version]), &self.certificates.direct());
        pair.pump().unwrap();
        assert!(pair.info.is_some());
        pair
    }
}

fn client_config(
    root: CertificateDer<'static>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn openssl_certificate(dir: &Path, arguments: &[&str]) -> CertificateSource {
    let source = CertificateSource { made_here: false, ..self_signed_in(dir) };
    let made = Command::new("openssl")
        .args(["req", "-x509", "-nodes", "-subj", "/CN=example.org"])
        .args(["-addext", "subjectAltName=DNS:localhost,DNS:example.org"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(arguments)
        .arg("-keyout")
        .arg(&source.key)
        .arg("-out")
        .arg(&source.chain)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{made:?}");
    source
}

/// Both sides of one connection.
struct Pair {
    client: ClientConnection,
    server: TlsConnection,
    info: Option<TlsInfo>,
    /// The plaintext that the server received.
    got: Vec<u8>,
    peer_closed: bool,
}

impl Pair {
    fn new(client: ClientConfig, server: &TlsConfig) -> Self {
        Self::named(client, server, "localhost")
    }

    fn named(client: ClientConfig, server: &TlsConfig, name: &'static str) -> Self {
        let name = ServerName::try_from(name).unwrap();
        Self {
            client: ClientConnection::new(Arc::new(client), name).unwrap(),
            server: TlsConnection::accept(server),
            info: None,
            got: Vec::new(),
            peer_closed: false,
        }
    }

    /// All pending output of the client.
    fn client_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Passes one read to the server.
    fn serve(&mut self, bytes: &mut [u8]) -> Result<Vec<u8>, TlsFault> {
        let mut to_send = Vec::new();
        let outcome = self.server.receive(bytes, &mut self.got, &mut to_send);
        match outcome {
            Ok(received) => {
                if let Some(info) = received.handshake_done {
                    assert!(self.info.is_none(), "reported once");
                    self.info = Some(*info);
                }
                self.peer_closed = received.peer_closed;
                Ok(to_send)
            }
            Err(fault) => {
                // The client receives the reason.
                let _ = self.deliver(&to_send);
                Err(fault)
            }
        }
    }

    fn deliver(&mut self, mut bytes: &[u8]) -> Result<(), rustls::Error> {
        while !bytes.is_empty() {
            if self.client.read_tls(&mut bytes).unwrap() == 0 {
                break;
            }
            self.client.process_new_packets()?;
        }
        Ok(())
    }

    /// Transfers bytes both ways until neither side has output.
    fn pump(&mut self) -> Result<(), TlsFault> {
        loop {
            let mut bytes = self.client_bytes();
            if bytes.is_empty() {
                return Ok(());
            }
            let back = self.serve(&mut bytes)?;
            self.deliver(&back).map_err(|error| TlsFault::Internal(format!("client: {error}").into()))?;
        }
    }

    fn client_says(&mut self, text: &[u8]) {
        use std::io::Write;
        assert_eq!(self.client.writer().write(text).unwrap(), text.len());
    }

    fn client_read(&mut self) -> Vec<u8> {
        use std::io::Read;
        let mut all = Vec::new();
        let mut some = [0; 4096];
        while let Ok(n @ 1..) = self.client.reader().read(&mut some) {
            all.extend_from_slice(&some[..n]);
        }
        all
    }

    fn server_says(&mut self, text: &[u8]) {
        let mut to_send = Vec::new();
        self.server.send(text, &mut to_send).unwrap();
        self.deliver(&to_send).unwrap();
    }

    /// A side that has the client's keys and ignores the protocol: it seals any records that a test
    /// needs.
    fn rogue(&mut self) -> Traffic {
        self.server.traffic_mut().peer()
    }
}

const V12: &rustls::SupportedProtocolVersion = &rustls::version::TLS12;
const V13: &rustls::SupportedProtocolVersion = &rustls::version::TLS13;
