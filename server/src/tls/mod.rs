//! TLS between the driver (bytes of a socket) and a shard (plaintext).
//!
//! This module transforms bytes: it has no socket, no thread and no timer. A [`TlsConnection`]
//! belongs to one connection and moves between threads with it. It must never know what the
//! plaintext means, and never expose a type of the TLS library to its callers, so that the
//! implementation can change.
//!
//! ```text
//!            from the socket                       plaintext
//!   driver ------------------> TlsConnection ------------------> shard
//!          <------------------  (one per peer) <-----------------
//!             to the socket                        plaintext
//! ```
//!
//! It has two states, both from the crate `throng-tls`, which the load generator also uses. During
//! the handshake `rustls` does the work. When it is done, the library's object is dropped and only
//! the traffic keys, their sequence numbers and a few counters remain (248 bytes, see
//! [`TlsConnection::heap_bytes`]). The records are then sealed and opened by the AEADs of `ring`.
//! This module adds what only a server has: certificates, tickets, and the negotiated parameters.
//! The figures are in `docs/decisions/0002-tls.md`.
//!
//! # Obligations of the caller
//!
//! * **No plaintext crosses STARTTLS** (RFC 6120 5.3.1, 5.4.3.3). A peer may send nothing between
//!   `<starttls/>` and the `ClientHello` that follows our `<proceed/>`. So bytes received in the
//!   same read *after* the `<starttls/>` element are an attempt to inject plaintext: close the
//!   stream with `<policy-violation/>`, do not pass them to this module, and do not keep them for
//!   the stream after the handshake. The stream's state is reset when [`Received::handshake_done`]
//!   is reported.
//! * `<proceed/>` is sent in clear text, before everything that this module puts into `to_send`.
//! * The bytes in `to_send` are sent even when a call returned a [`TlsFault`]: they are the alert
//!   that gives the peer the reason. After that the socket is closed.
//! * The socket's end without a prior [`Received::peer_closed`] is a truncation (RFC 8446 6.1).
//!   XMPP closes its own streams, so the session layer sees a missing `</stream:stream>` and treats
//!   it as an abrupt close.
//! * A peer that does not proceed with its handshake is closed by the pre-authentication sweep;
//!   this module has no timer.

mod certificate;
mod challenge;
mod clients;
mod connection;
mod handshake;
mod pem;
mod self_signed;
mod standing;
#[cfg(test)]
pub(crate) mod tests;
mod x509;

pub use certificate::{
    CertificateSource, Certificates, Issued, LOCALHOST, Reloaded, TlsConfig, TlsEntries, TlsOptions,
};
pub use challenge::Challenge;
pub use clients::{ClientNames, ClientSource, NamedBy};
pub use connection::{Received, TlsConnection};
pub use pem::CertificateError;
pub use self_signed::{ensure_self_signed, private_folder, self_signed_in, write_whole};
pub use standing::{Host, Standing, date, self_signed};
pub use throng_tls::{TlsFault, TlsVersion};

/// The parameters that a finished handshake negotiated. Reported once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    /// The negotiated version.
    pub version: TlsVersion,
    /// The cipher suite's name in the IANA registry.
    pub cipher_suite: &'static str,
    /// Channel binding `tls-exporter` (RFC 9266): always present, because TLS 1.2 is only accepted
    /// with the extended master secret.
    pub tls_exporter: Option<[u8; 32]>,
    /// Channel binding `tls-server-end-point` (RFC 5929 4.1): the hash of the certificate sent, 32,
    /// 48 or 64 bytes. `None` where the RFC leaves it undefined (a signature without a hash
    /// function, e.g. Ed25519).
    pub server_end_point: Option<Vec<u8>>,
    /// The application protocol negotiated by ALPN, if the client offered one.
    pub alpn: Option<Vec<u8>>,
    /// The server name that the client requested, in lower case.
    pub sni: Option<String>,
    /// Whether the session was resumed by a ticket.
    pub resumed: bool,
    /// The identities in the client's certificate, if one was requested and shown: one of the
    /// operator's authorities has issued it.
    pub client: Option<ClientNames>,
}
