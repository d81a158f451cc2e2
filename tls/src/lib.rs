//! What Throng's server and its load generator keep of TLS, and how they come to it.
//!
//! ```text
//!   handshake ── rustls, fed whole records ──> traffic: cipher, keys, IVs, sequence numbers
//!                  (dropped when done)            │ record: cuts     cipher: seals and opens
//! ```
//!
//! [`Handshake`] drives the library, either end of it, and exchanges it for a [`Traffic`] of 248 bytes, which seals, opens,
//! follows key updates and answers alerts from then on. [`client`] makes a whole client of the two; what only a server needs
//! (certificates, tickets, what a handshake agreed on) stands in the server. The crate knows bytes and nothing of what they
//! say: no socket, no clock, no thread. The figures are in `docs/decisions/0002-tls.md`.
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

/// A version of TLS that Throng speaks. 1.1 and older are refused (RFC 8996).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// RFC 5246, only with AEAD; the server takes it only with the extended master secret (RFC 7627).
    V1_2,
    /// RFC 8446.
    V1_3,
}

impl TlsVersion {
    /// The name that is shown to people: `TLSv1.2` or `TLSv1.3`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1_2 => "TLSv1.2",
            Self::V1_3 => "TLSv1.3",
        }
    }
}
