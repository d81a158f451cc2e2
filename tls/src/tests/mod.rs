//! The client against independent servers, and both sides of the record layer against each other.

mod openssl;
mod streams;

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use crate::client::{Terms, TlsClient};

const V12: &SupportedProtocolVersion = &rustls::version::TLS12;
const V13: &SupportedProtocolVersion = &rustls::version::TLS13;

fn certificate() -> &'static CertifiedKey<rcgen::KeyPair> {
    static MADE: std::sync::OnceLock<CertifiedKey<rcgen::KeyPair>> = std::sync::OnceLock::new();
    MADE.get_or_init(|| generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap())
}

/// A plain rustls server that sends this many tickets.
fn server_config(tickets: usize) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certificate().signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate().cert.der().clone()], key)
        .unwrap();
    config.ticketer = ring::Ticketer::new().unwrap();
    config.send_tls13_tickets = tickets;
    config.send_half_rtt_data = true;
    config.alpn_protocols = vec![b"xmpp-client".to_vec()];
    // The test simulates the server with its keys.
    config.enable_secret_extraction = true;
    config.key_log = Arc::new(crate::CapturedSecrets);
    Arc::new(config)
}

fn terms(version: &'static SupportedProtocolVersion) -> Terms {
    terms_of(ring::default_provider(), version)
}

fn terms_of(provider: CryptoProvider, version: &'static SupportedProtocolVersion) -> Terms {
    Terms::new(ServerName::try_from("localhost").unwrap(), provider, &[version])
}

/// A client of this crate and a rustls server, joined in memory.
struct Pair {
    client: TlsClient,
    server: ServerConnection,
    /// The client's pending plaintext.
    said: Vec<u8>,
    /// The plaintext that the client received.
    got: Vec<u8>,
    /// Maximum bytes that the client reads at once.
    piece: usize,
}

impl Pair {
    fn new(terms: &Terms, tickets: usize) -> Pair {
        Pair {
            client: TlsClient::new(terms).unwrap(),
            server: ServerConnection::new(server_config(tickets)).unwrap(),
            said: Vec::new(),
            got: Vec::new(),
            piece: usize::MAX,
        }
    }

    fn established(version: &'static SupportedProtocolVersion) -> Pair {
        let mut pair = Pair::new(&terms(version), 2);
        pair.pump();
        assert!(pair.client.version().is_some());
        pair
    }

    /// All pending output of the client.
    fn client_bytes(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        self.client.send(&mut self.said, &mut records).unwrap();
        records
    }

    fn server_hears(&mut self, mut bytes: &[u8]) -> Result<(), rustls::Error> {
        while !bytes.is_empty() {
            if self.server.read_tls(&mut bytes).unwrap() == 0 {
                break;
            }
            self.server.process_new_packets()?;
        }
        Ok(())
    }

    fn server_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Transfers bytes both ways until neither side has output.
    fn pump(&mut self) {
        loop {
            let there = self.client_bytes();
            self.server_hears(&there).unwrap();
            let mut back = self.server_bytes();
            if there.is_empty() && back.is_empty() {
                return;
            }
            for piece in back.chunks_mut(self.piece) {
                self.client.receive(piece, &mut self.got).unwrap();
            }
        }
    }

    fn server_says(&mut self, text: &[u8]) {
        use std::io::Write;
        self.server.writer().write_all(text).unwrap();
    }

    fn server_read(&mut self) -> Vec<u8> {
        use std::io::Read;
        let mut all = Vec::new();
        let mut some = [0; 4096];
        while let Ok(n @ 1..) = self.server.reader().read(&mut some) {
            all.extend_from_slice(&some[..n]);
        }
        all
    }

    /// A side that has the server's keys and ignores the protocol.
    fn rogue(&mut self) -> crate::Traffic {
        self.client.traffic().unwrap().peer()
    }
}
