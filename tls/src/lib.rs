//! The part of TLS that Throng's server and its load generator retain per connection, and the
//! handshake that leads to it.
//!
//! ```text
//!   handshake ── rustls, fed whole records ──> traffic: cipher, keys, IVs, sequence numbers
//!                  (dropped when done)            │ record: cuts     cipher: seals and opens
//! ```
//!
//! [`Handshake`] drives the library, on either side, and exchanges it for a [`Traffic`] of 248
//! bytes, which then seals, opens, follows key updates and answers alerts. [`client`] builds a
//! complete client from the two; server-only features (certificates, tickets, the negotiated
//! parameters) are in the server. The crate processes bytes without interpreting them: no socket,
//! no clock, no thread. The figures are in `docs/decisions/0002-tls.md`.
#![forbid(unsafe_code)]

mod cipher;
pub mod client;
mod fault;
mod handshake;
mod record;
mod secrets;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod traffic;

pub use fault::TlsFault;
pub use handshake::Handshake;
pub use secrets::CapturedSecrets;
pub use traffic::{Side, Traffic};

/// A TLS version that Throng supports. 1.1 and older are refused (RFC 8996).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// RFC 5246, only with AEAD; the server accepts it only with the extended master secret (RFC
    /// 7627).
    V1_2,
    /// RFC 8446.
    V1_3,
}

impl TlsVersion {
    /// The display name: `TLSv1.2` or `TLSv1.3`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1_2 => "TLSv1.2",
            Self::V1_3 => "TLSv1.3",
        }
    }
}
