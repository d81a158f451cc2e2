//! TLS for clients that trust whoever answers: the server's certificate is its own business here.

use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

#[derive(Debug)]
struct Anyone(CryptoProvider);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// One client's TLS.
pub(crate) struct Tls(Box<ClientConnection>);

impl Tls {
    /// A handshake that has not begun.
    pub(crate) fn new() -> io::Result<Tls> {
        static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
        let config = CONFIG.get_or_init(|| {
            let provider = ring::default_provider();
            let config = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
                .with_safe_default_protocol_versions()
                .expect("ring speaks both versions");
            let trusting = config.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)));
            Arc::new(trusting.with_no_client_auth())
        });
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(config.clone(), name).map(|conn| Tls(Box::new(conn))).map_err(io::Error::other)
    }

    /// Records came; appends what they say.
    pub(crate) fn receive(&mut self, mut records: &[u8], plaintext: &mut Vec<u8>) -> io::Result<()> {
        while !records.is_empty() {
            self.0.read_tls(&mut records)?;
            let state = self.0.process_new_packets().map_err(io::Error::other)?;
            let mut there = vec![0; state.plaintext_bytes_to_read()];
            self.0.reader().read_exact(&mut there)?;
            plaintext.extend_from_slice(&there);
        }
        Ok(())
    }

    /// Takes `plaintext` and appends the records to be sent. Before the handshake is done what is said waits.
    pub(crate) fn send(&mut self, plaintext: &mut Vec<u8>, records: &mut Vec<u8>) -> io::Result<()> {
        if !self.0.is_handshaking() {
            self.0.writer().write_all(plaintext)?;
            plaintext.clear();
        }
        while self.0.wants_write() {
            self.0.write_tls(records)?;
        }
        Ok(())
    }
}
