//! TLS for one client, as small when idle as the server's: for programs that simulate very many
//! clients on one machine.
//!
//! It accepts any certificate: these programs measure the server, and have no need to authenticate
//! it.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

use crate::{CapturedSecrets, Handshake, TlsFault, TlsVersion, Traffic};

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

/// What all clients' TLS has in common: the certificate verifier, and the server's name. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub struct Terms {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Terms {
    /// Accepts any certificate, and only checks that the server has its key. Each session is a full
    /// handshake: the savings by a server's tickets are not measured.
    ///
    /// # Errors
    /// The domain is neither a DNS name nor an address.
    pub fn trusting_anyone(domain: &str) -> Result<Terms, String> {
        let name = match domain.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(domain.to_owned()).map_err(|error| format!("domain {domain}: {error}"))?,
        };
        Ok(Terms::new(name, ring::default_provider(), rustls::ALL_VERSIONS))
    }

    /// The same for clients of another protocol than XMPP (RFC 7301), such as `http/1.1`.
    pub fn speaking(self, protocol: &str) -> Terms {
        let mut config = (*self.config).clone();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Terms { config: Arc::new(config), ..self }
    }

    pub(crate) fn new(
        name: ServerName<'static>,
        provider: CryptoProvider,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Terms {
        let config = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
            .with_protocol_versions(versions)
            .expect("ring speaks both versions");
        let trusting = config.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)));
        let mut config = trusting.with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        // XEP-0368 4: the client offers its protocol.
        config.alpn_protocols = vec![b"xmpp-client".to_vec()];
        // The handshake's object is exchanged for its secrets.
        config.enable_secret_extraction = true;
        config.key_log = Arc::new(CapturedSecrets);
        Terms { config: Arc::new(config), name }
    }
}

/// One client's TLS: 248 bytes, and no heap once the handshake is done.
///
/// [`receive`](Self::receive) takes the socket's bytes in; [`send`](Self::send) takes plaintext
/// out, together with all output of TLS itself, and must be called whenever
/// [`wants_send`](Self::wants_send).
pub struct TlsClient(State);

const _: () = assert!(size_of::<TlsClient>() <= 248, "an idle client over TLS costs this much");

#[expect(clippy::large_enum_variant, reason = "nearly all clients are in the largest, which is so one allocation")]
enum State {
    Starting(Box<Starting>),
    Traffic(Traffic),
    /// A fault has ended it; the bytes are an alert still to be sent to the server.
    Over(Vec<u8>),
}

/// State until the last handshake message has been taken to be sent.
struct Starting {
    handshake: Handshake,
    flight: Vec<u8>,
    /// The result of the handshake.
    done: Option<Traffic>,
}

impl TlsClient {
    /// A handshake whose first message waits to be sent.
    ///
    /// # Errors
    /// rustls refuses the terms.
    pub fn new(terms: &Terms) -> Result<TlsClient, TlsFault> {
        let library = ClientConnection::new(terms.config.clone(), terms.name.clone())
            .map_err(|error| TlsFault::from_library(&error))?;
        let mut flight = Vec::new();
        let handshake = Handshake::begin(library, &mut flight)?;
        Ok(TlsClient(State::Starting(Box::new(Starting { handshake, flight, done: None }))))
    }

    pub(crate) fn traffic(&self) -> Option<&Traffic> {
        match &self.0 {
            State::Starting(starting) => starting.done.as_ref(),
            State::Traffic(traffic) => Some(traffic),
            State::Over(_) => None,
        }
    }

    /// The negotiated version, once the handshake is done and while nothing has failed.
    pub fn version(&self) -> Option<TlsVersion> {
        self.traffic().map(Traffic::version)
    }

    /// Whether the server has announced that it sends no more.
    pub fn peer_closed(&self) -> bool {
        self.traffic().is_some_and(Traffic::peer_closed)
    }

    /// Bytes of heap behind this object: once the handshake is complete and sent, only the start of
    /// a record, if any; an estimate before.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            State::Starting(starting) => {
                size_of::<Starting>() + starting.handshake.heap_bytes() + starting.flight.capacity()
            }
            State::Traffic(traffic) => traffic.heap_bytes(),
            State::Over(alert) => alert.capacity(),
        }
    }

    /// Decrypts received records in place, in any pieces; appends their content to `plaintext`.
    ///
    /// # Errors
    /// They are not TLS, or the server has sent an alert, in this call or before.
    /// [`send`](Self::send) then has the alert for the server.
    pub fn receive(&mut self, mut records: &mut [u8], plaintext: &mut Vec<u8>) -> Result<(), TlsFault> {
        let mut alert = Vec::new();
        let outcome = self.advance(&mut records, plaintext, &mut alert);
        if outcome.is_err() {
            let mut last = match &mut self.0 {
                State::Starting(starting) => std::mem::take(&mut starting.flight),
                State::Traffic(_) => Vec::new(),
                State::Over(last) => std::mem::take(last),
            };
            last.append(&mut alert);
            self.0 = State::Over(last);
        }
        outcome
    }

    fn advance(
        &mut self,
        records: &mut &mut [u8],
        plaintext: &mut Vec<u8>,
        alert: &mut Vec<u8>,
    ) -> Result<(), TlsFault> {
        let traffic = match &mut self.0 {
            State::Traffic(traffic) => traffic,
            State::Over(_) => return Err(TlsFault::Closed),
            State::Starting(starting) => {
                let Starting { handshake, flight, done } = &mut **starting;
                match done {
                    Some(traffic) => traffic,
                    none => {
                        let begun = || Err(Error::General("the handshake was begun without the library".into()));
                        if !handshake.receive(begun, records, flight)? {
                            return Ok(());
                        }
                        none.insert(handshake.finish()?.0)
                    }
                }
            }
        };
        traffic.receive(records, plaintext, alert)
    }

    /// Whether TLS itself has output (its handshake, the answer to a key update, an alert), or data
    /// that waited for the end of the handshake can be sent.
    pub fn wants_send(&self) -> bool {
        match &self.0 {
            State::Starting(starting) => starting.done.is_some() || !starting.flight.is_empty(),
            State::Traffic(traffic) => traffic.wants_flush(),
            State::Over(alert) => !alert.is_empty(),
        }
    }

    /// Appends the output of TLS itself to `records` and, once the handshake is done, all of
    /// `plaintext`, which is emptied. Before that, `plaintext` is left unchanged.
    ///
    /// # Errors
    /// [`TlsFault::Closed`] after a fault, and [`TlsFault::KeysExhausted`] after 2^24 records over
    /// TLS 1.2.
    pub fn send(&mut self, plaintext: &mut Vec<u8>, records: &mut Vec<u8>) -> Result<(), TlsFault> {
        match &mut self.0 {
            State::Starting(starting) => {
                records.append(&mut starting.flight);
                let Some(traffic) = starting.done.take() else { return Ok(()) };
                self.0 = State::Traffic(traffic);
                self.send(plaintext, records)
            }
            State::Traffic(traffic) => {
                traffic.flush(records);
                if !plaintext.is_empty() {
                    traffic.send(plaintext, records)?;
                }
                plaintext.clear();
                Ok(())
            }
            State::Over(alert) => {
                records.append(alert);
                Err(TlsFault::Closed)
            }
        }
    }
}
