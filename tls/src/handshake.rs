//! A connection until its handshake is done: the only file that drives the TLS library, for either
//! side.
//!
//! The library is fed whole records, one at a time. So when the peer's `Finished` has been
//! processed, the library holds nothing that follows it (data, tickets), and the object can be
//! exchanged for the traffic keys at once.

use rustls::{CipherSuite, Connection, ConnectionTrafficSecrets, ProtocolVersion};

use crate::cipher::{Algorithm, Keys, Suite};
use crate::record::{self, Next};
use crate::secrets::{CapturedSecrets, Secret, Secrets};
use crate::traffic::{Side, Traffic};
use crate::{TlsFault, TlsVersion};

/// Maximum bytes that a peer may send in a handshake, the same as the library buffers. A
/// `ClientHello` with post-quantum shares and tickets has about 4 KiB.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of records in a peer's handshake. More than a few are never seen; each costs the
/// library a pass over what it has joined so far.
pub(crate) const HANDSHAKE_RECORDS_MAX: u16 = 2048;

/// One connection's handshake.
///
/// The library's configuration must log its keys to [`CapturedSecrets`](crate::CapturedSecrets) and
/// permit the extraction of secrets. The library's object is created when it is first needed: a
/// connection that has sent nothing costs a few words.
#[derive(Default)]
pub struct Handshake {
    library: Option<Box<Connection>>,
    pending: Vec<u8>,
    bytes: u32,
    records: u16,
    secrets: Secrets,
}

impl Handshake {
    /// The handshake of the side that sends first; appends its first flight.
    ///
    /// # Errors
    /// The library's.
    pub fn begin(library: impl Into<Connection>, to_send: &mut Vec<u8>) -> Result<Self, TlsFault> {
        let library = Box::new(library.into());
        let mut handshake = Self { library: Some(library), ..Self::default() };
        handshake.collect(to_send)?;
        Ok(handshake)
    }

    /// Takes bytes in until the handshake is done or they are used up. Returns true when it is
    /// done, and leaves what follows in `input`. `make` creates the library's object at the first
    /// whole record, if there is none yet.
    ///
    /// # Errors
    /// A [`TlsFault`] ends the connection; its alert is appended to `to_send`.
    pub fn receive(
        &mut self,
        mut make: impl FnMut() -> Result<Connection, rustls::Error>,
        input: &mut &mut [u8],
        to_send: &mut Vec<u8>,
    ) -> Result<bool, TlsFault> {
        loop {
            let before = input.len();
            let next = record::next(&mut self.pending, input);
            self.bytes = self.bytes.saturating_add((before - input.len()) as u32);
            if self.bytes as usize > HANDSHAKE_BYTES_MAX {
                return Err(TlsFault::misbehaved("the handshake is too long"));
            }
            match next {
                Next::Drained => return Ok(false),
                Next::Record(mut record) => {
                    self.records += 1;
                    if self.records > HANDSHAKE_RECORDS_MAX {
                        return Err(TlsFault::misbehaved("the handshake has too many records"));
                    }
                    self.feed(&mut make, record.bytes_mut(), to_send)?;
                    if self.library().is_some_and(|library| !library.is_handshaking()) {
                        return Ok(true);
                    }
                }
                Next::Bad(_) => {
                    // The library produces the right alert for it.
                    let noise = if self.pending.is_empty() {
                        std::mem::take(input).to_vec()
                    } else {
                        std::mem::take(&mut self.pending)
                    };
                    self.feed(&mut make, &noise[..noise.len().min(record::HEADER_BYTES)], to_send)?;
                    return Err(TlsFault::misbehaved("no TLS record"));
                }
            }
        }
    }

    /// Passes bytes to the library and collects its output.
    fn feed(
        &mut self,
        make: &mut impl FnMut() -> Result<Connection, rustls::Error>,
        mut bytes: &[u8],
        to_send: &mut Vec<u8>,
    ) -> Result<(), TlsFault> {
        let library = match &mut self.library {
            Some(library) => library,
            none => none.insert(Box::new(make().map_err(|error| TlsFault::from_library(&error))?)),
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
        self.collect(to_send)?;
        outcome
    }

    fn collect(&mut self, to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        if let Some(library) = &mut self.library {
            while library.wants_write() {
                library.write_tls(to_send).map_err(|error| TlsFault::Internal(error.to_string().into()))?;
            }
        }
        Ok(())
    }

    /// The library's object, from the first whole record until [`finish`](Self::finish): it can be
    /// queried for the negotiated parameters.
    pub fn library(&self) -> Option<&Connection> {
        self.library.as_deref()
    }

    /// Exchanges the library's object for the traffic keys, once [`receive`](Self::receive) has
    /// returned that the handshake is done. Also returns the cipher suite's name in the IANA
    /// registry.
    ///
    /// # Errors
    /// The library does not provide usable keys; not the peer's fault.
    pub fn finish(&mut self) -> Result<(Traffic, &'static str), TlsFault> {
        let internal = |what: &str| TlsFault::Internal(what.into());
        let library = self.library.take().ok_or_else(|| internal("no library"))?;
        let version = match library.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::V1_2,
            Some(ProtocolVersion::TLSv1_3) => TlsVersion::V1_3,
            _ => return Err(internal("an unknown version")),
        };
        let name = library.negotiated_cipher_suite().ok_or_else(|| internal("no cipher suite"))?.suite();
        let (algorithm, name) = suite_by_name(name).ok_or_else(|| internal("an unknown cipher suite"))?;
        let suite = Suite { version, algorithm };
        let Secrets { client, server } = std::mem::take(&mut self.secrets);
        let (side, receive, send) = match *library {
            Connection::Client(_) => (Side::Client, server, client),
            Connection::Server(_) => (Side::Server, client, server),
        };
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
        let (receive, send) = (keys(&extracted.rx, &receive)?, keys(&extracted.tx, &send)?);
        Ok((Traffic::new(side, suite, receive, send), name))
    }

    /// Informs a peer in the middle of a handshake that the connection is closed.
    pub fn close(&mut self, to_send: &mut Vec<u8>) {
        if let Some(library) = &mut self.library {
            library.send_close_notify();
            while library.wants_write() && library.write_tls(to_send).is_ok() {}
        }
    }

    /// Bytes on the heap behind this object; the library's part is a measured figure
    /// (docs/decisions/0002-tls.md).
    pub fn heap_bytes(&self) -> usize {
        const LIBRARY_BYTES: usize = 12 * 1024;
        self.pending.capacity() + self.library.as_ref().map_or(0, |_| LIBRARY_BYTES)
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
