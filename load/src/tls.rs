//! TLS of one client: records in and plaintext out, and back, by rustls.
//!
//! It must never know a socket or a stanza. A session's memory is rustls's own, several kilobytes: an idle client over TLS
//! costs that much more, which the result states (`client_bytes_per_session`).

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

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

/// What all clients' TLS has in common: whom to trust, and the server's name.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Terms {
    /// Takes whatever certificate comes, and checks only that the server has its key. Each session is a full handshake:
    /// what a server's own tickets save is not measured.
    ///
    /// # Errors
    /// The domain is no DNS name and no address.
    pub(crate) fn trusting_anyone(domain: &str) -> Result<Terms, String> {
        let name = match domain.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(domain.to_owned()).map_err(|error| format!("domain {domain}: {error}"))?,
        };
        let provider = ring::default_provider();
        let config = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks both versions");
        let trusting = config.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)));
        let mut config = trusting.with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        // XEP-0368 4: the client says which protocol it speaks.
        config.alpn_protocols = vec![b"xmpp-client".to_vec()];
        Ok(Terms { config: Arc::new(config), name })
    }
}

/// One client's TLS.
#[derive(Debug)]
pub(crate) struct Tls(ClientConnection);

impl Tls {
    /// A handshake that has not begun.
    ///
    /// # Errors
    /// rustls refuses the terms.
    pub(crate) fn new(terms: &Terms) -> io::Result<Tls> {
        ClientConnection::new(terms.config.clone(), terms.name.clone()).map(Tls).map_err(io::Error::other)
    }

    /// Whether nothing can be said yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Records came; appends what they say to `plaintext`.
    ///
    /// # Errors
    /// They are no TLS, or the peer has sent an alert.
    pub(crate) fn receive(&mut self, mut records: &[u8], plaintext: &mut Vec<u8>) -> io::Result<()> {
        while !records.is_empty() {
            self.0.read_tls(&mut records)?;
            let state = self.0.process_new_packets().map_err(io::Error::other)?;
            let start = plaintext.len();
            plaintext.resize(start + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut plaintext[start..])?;
        }
        Ok(())
    }

    /// Takes `plaintext`, once the handshake is done, and appends the records to be sent.
    ///
    /// # Errors
    /// rustls's own; none is known for a buffer that grows.
    pub(crate) fn send(&mut self, plaintext: &mut Vec<u8>, records: &mut Vec<u8>) -> io::Result<()> {
        if !self.0.is_handshaking() {
            let mut rest = plaintext.as_slice();
            while !rest.is_empty() {
                let taken = self.0.writer().write(rest)?;
                rest = &rest[taken..];
                while self.0.wants_write() {
                    self.0.write_tls(records)?;
                }
            }
            plaintext.clear();
        }
        while self.0.wants_write() {
            self.0.write_tls(records)?;
        }
        Ok(())
    }
}
