//! The server side of a connection until its handshake is done: the certificate shown, and the
//! negotiated parameters.

use std::sync::Arc;

use rustls::Connection;
use rustls::server::ServerConnection;
use throng_tls::{TlsFault, Traffic};

use super::TlsInfo;
use super::certificate::{Entry, Generation};

/// RFC 9266 4.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// One connection's handshake.
pub(super) struct Handshake {
    generation: Arc<Generation>,
    entry: Entry,
    shared: throng_tls::Handshake,
}

impl Handshake {
    pub(super) fn new(generation: Arc<Generation>, entry: Entry) -> Self {
        Self { generation, entry, shared: throng_tls::Handshake::default() }
    }

    /// Takes bytes in until the handshake is done or they are used up. When it is done, `input` is
    /// left with what follows.
    pub(super) fn receive(
        &mut self,
        input: &mut &mut [u8],
        to_send: &mut Vec<u8>,
    ) -> Result<Option<(Traffic, TlsInfo)>, TlsFault> {
        let config = || self.generation.config(self.entry);
        if !self.shared.receive(|| ServerConnection::new(config()).map(Connection::from), input, to_send)? {
            return Ok(None);
        }
        self.finish().map(Some)
    }

    /// Queries the library for the negotiated parameters, and exchanges it for the traffic keys.
    fn finish(&mut self) -> Result<(Traffic, TlsInfo), TlsFault> {
        let Some(Connection::Server(library)) = self.shared.library() else {
            return Err(TlsFault::Internal("no library".into()));
        };
        let exporter = library
            .export_keying_material([0; 32], EXPORTER_LABEL, Some(&[]))
            .map_err(|error| TlsFault::from_library(&error))?;
        let alpn = library.alpn_protocol().map(<[u8]>::to_vec);
        let sni = library.server_name().map(str::to_ascii_lowercase);
        let resumed = library.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        let client = self.generation.client_names(library.peer_certificates(), resumed);
        let (traffic, cipher_suite) = self.shared.finish()?;
        let info = TlsInfo {
            version: traffic.version(),
            cipher_suite,
            tls_exporter: Some(exporter),
            server_end_point: self.generation.end_point(sni.as_deref()),
            alpn,
            sni,
            resumed,
            client,
        };
        Ok((traffic, info))
    }

    /// Informs a peer in the middle of a handshake that the connection is closed.
    pub(super) fn close(&mut self, to_send: &mut Vec<u8>) {
        self.shared.close(to_send);
    }

    /// Heap bytes, including this object's own; an estimate.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.shared.heap_bytes()
    }
}
