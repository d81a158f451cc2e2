//! A connection until its handshake is done: the only file that drives the
//! TLS library.
//!
//! The library is fed whole records, one at a time. So when the client's
//! `Finished` has been taken, the library holds nothing that comes after it,
//! and the object can be exchanged for the traffic keys on the spot. It is
//! made at the first whole record: a connection that says nothing costs a few
//! words.

use std::sync::Arc;

use rustls::server::ServerConnection;
use rustls::{CipherSuite, ConnectionTrafficSecrets, ProtocolVersion};

use super::certificate::{Entry, Generation};
use super::cipher::{Algorithm, Keys, Suite};
use super::record::{self, Next};
use super::secrets::{CapturedSecrets, Secret, Secrets};
use super::traffic::Traffic;
use super::{TlsFault, TlsInfo, TlsVersion};

/// Bytes that a peer may send in a handshake, as many as the library keeps of
/// one. A `ClientHello` with post-quantum shares and tickets has about 4 KiB.
pub(super) const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;
/// Records that a peer may cut its handshake into. More than a few is unheard
/// of; each costs the library a pass over what it has joined so far.
pub(super) const HANDSHAKE_RECORDS_MAX: u16 = 2048;

/// RFC 9266 4.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// One connection's handshake.
pub(super) struct Handshake {
    generation: Arc<Generation>,
    entry: Entry,
    library: Option<Box<ServerConnection>>,
    pending: Vec<u8>,
    bytes: usize,
    records: u16,
    secrets: Secrets,
}

impl Handshake {
    pub(super) fn new(generation: Arc<Generation>, entry: Entry) -> Self {
        Self {
            generation,
            entry,
            library: None,
            pending: Vec::new(),
            bytes: 0,
            records: 0,
            secrets: Secrets::default(),
        }
    }

    /// Takes bytes in until the handshake is done or they are used up. When it
    /// is done, `input` is left with what follows.
    pub(super) fn receive(
        &mut self,
        input: &mut &mut [u8],
        to_send: &mut Vec<u8>,
    ) -> Result<Option<(Traffic, TlsInfo)>, TlsFault> {
        loop {
            let before = input.len();
            let next = record::next(&mut self.pending, input);
            self.bytes += before - input.len();
            if self.bytes > HANDSHAKE_BYTES_MAX {
                return Err(TlsFault::misbehaved("the handshake is too long"));
            }
            match next {
                Next::Drained => return Ok(None),
                Next::Record(mut record) => {
                    self.records += 1;
                    if self.records > HANDSHAKE_RECORDS_MAX {
                        return Err(TlsFault::misbehaved("the handshake has too many records"));
                    }
                    self.feed(record.bytes_mut(), to_send)?;
                    if self.library.as_ref().is_some_and(|l| !l.is_handshaking()) {
                        return self.finish().map(Some);
                    }
                }
                Next::Bad(_) => {
                    // The library has the right alert for it.
                    let noise = if self.pending.is_empty() {
                        std::mem::take(input).to_vec()
                    } else {
                        std::mem::take(&mut self.pending)
                    };
                    self.feed(&noise[..noise.len().min(record::HEADER_BYTES)], to_send)?;
                    return Err(TlsFault::misbehaved("no TLS record"));
                }
            }
        }
    }

    /// Hands bytes to the library and collects what it wants to send.
    fn feed(&mut self, mut bytes: &[u8], to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        let library = match &mut self.library {
            Some(library) => library,
            none => {
                let config = self.generation.config(self.entry);
                let made = ServerConnection::new(config).map_err(|error| TlsFault::from_library(&error))?;
                none.insert(Box::new(made))
            }
        };
        let mut outcome = Ok(());
        while outcome.is_ok() && !bytes.is_empty() {
            outcome = match library.read_tls(&mut bytes) {
                Ok(0) | Err(_) => Err(TlsFault::misbehaved("the handshake is too long")),
                Ok(_) => {
                    let processed = library.process_new_packets();
                    self.secrets.absorb(CapturedSecrets::take());
                    processed.map(drop).map_err(|error| TlsFault::from_library(&error))
                }
            };
        }
        while library.wants_write() {
            library.write_tls(to_send).map_err(|error| TlsFault::Internal(error.to_string().into()))?;
        }
        outcome
    }

    /// Exchanges the library's object for the traffic keys.
    fn finish(&mut self) -> Result<(Traffic, TlsInfo), TlsFault> {
        let internal = |what: &str| TlsFault::Internal(what.into());
        let library = self.library.take().ok_or_else(|| internal("no library"))?;
        let (suite, info) = self.describe(&library)?;
        let extracted = library.dangerous_extract_secrets().map_err(|error| TlsFault::from_library(&error))?;
        let keys = |(seq, secrets): &(u64, ConnectionTrafficSecrets), secret: &Secret| {
            let (algorithm, key, iv) = match secrets {
                ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Algorithm::Aes128Gcm, key, iv),
                ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Algorithm::Aes256Gcm, key, iv),
                ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Algorithm::Chacha20Poly1305, key, iv),
                _ => return Err(internal("an unknown kind of keys")),
            };
            if algorithm != suite.algorithm {
                return Err(internal("keys that are not the cipher suite's"));
            }
            Keys::new(suite, *seq, key.as_ref(), iv.as_ref(), secret.get())
        };
        let receive = keys(&extracted.rx, &self.secrets.client)?;
        let send = keys(&extracted.tx, &self.secrets.server)?;
        Ok((Traffic::new(suite, receive, send), info))
    }

    /// What was agreed on.
    fn describe(&self, library: &ServerConnection) -> Result<(Suite, TlsInfo), TlsFault> {
        let internal = |what: &str| TlsFault::Internal(what.into());
        let version = match library.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::V1_2,
            Some(ProtocolVersion::TLSv1_3) => TlsVersion::V1_3,
            _ => return Err(internal("an unknown version")),
        };
        let name = library.negotiated_cipher_suite().ok_or_else(|| internal("no cipher suite"))?.suite();
        let (algorithm, cipher_suite) = suite_by_name(name).ok_or_else(|| internal("an unknown cipher suite"))?;
        let exporter = library
            .export_keying_material([0; 32], EXPORTER_LABEL, Some(&[]))
            .map_err(|error| TlsFault::from_library(&error))?;
        let sni = library.server_name().map(str::to_ascii_lowercase);
        let info = TlsInfo {
            version,
            cipher_suite,
            tls_exporter: Some(exporter),
            server_end_point: self.generation.end_point(sni.as_deref()),
            alpn: library.alpn_protocol().map(<[u8]>::to_vec),
            sni,
            resumed: library.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
        };
        Ok((Suite { version, algorithm }, info))
    }

    /// Tells a peer in the middle of a handshake that it is over.
    pub(super) fn close(&mut self, to_send: &mut Vec<u8>) {
        if let Some(library) = &mut self.library {
            library.send_close_notify();
            while library.wants_write() && library.write_tls(to_send).is_ok() {}
        }
    }

    /// Bytes on the heap, this object's own included; the library's part is
    /// a measured figure (docs/decisions/0002-tls.md).
    pub(super) fn heap_bytes(&self) -> usize {
        const LIBRARY_BYTES: usize = 12 * 1024;
        size_of::<Self>() + self.pending.capacity() + self.library.as_ref().map_or(0, |_| LIBRARY_BYTES)
    }
}

/// The registry's names (RFC 8446 B.4, RFC 5289, RFC 7905).
fn suite_by_name(suite: CipherSuite) -> Option<(Algorithm, &'static str)> {
    use Algorithm::{Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
    Some(match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => (Aes128Gcm, "TLS_AES_128_GCM_SHA256"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => (Aes256Gcm, "TLS_AES_256_GCM_SHA384"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => (Chacha20Poly1305, "TLS_CHACHA20_POLY1305_SHA256"),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => (Aes128Gcm, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => (Aes256Gcm, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
            (Chacha20Poly1305, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256")
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => (Aes128Gcm, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => (Aes256Gcm, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => {
            (Chacha20Poly1305, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")
        }
        _ => return None,
    })
}
