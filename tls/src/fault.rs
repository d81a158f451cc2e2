//! Reasons why a TLS connection ended, by blame.

use std::fmt;

/// A fault ends the connection. The alert for the peer, if one is due, has already been appended to
/// `to_send`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The peer broke the protocol, or did not send TLS at all.
    PeerMisbehaved(Box<str>),
    /// No version, cipher suite, signature or application protocol in common.
    PeerIncompatible(Box<str>),
    /// The peer sent this fatal alert (RFC 8446 6.2).
    PeerAlert(u8),
    /// The keys have sealed as many records as is safe (RFC 8446 5.5) and this version cannot
    /// change them.
    KeysExhausted,
    /// Plaintext was to be sent before the handshake was done: a bug of ours.
    NotEstablished,
    /// The connection was already closed or had failed.
    Closed,
    /// The TLS library failed for a reason that is not the peer's fault.
    Internal(Box<str>),
}

impl TlsFault {
    /// A fault of the peer, with a description.
    pub fn misbehaved(what: impl Into<Box<str>>) -> Self {
        Self::PeerMisbehaved(what.into())
    }

    /// Classifies an error of the library by blame.
    pub fn from_library(error: &rustls::Error) -> Self {
        use rustls::Error as E;
        match error {
            E::AlertReceived(description) => Self::PeerAlert(u8::from(*description)),
            E::PeerIncompatible(_) | E::NoApplicationProtocol => Self::PeerIncompatible(error.to_string().into()),
            E::General(_) | E::FailedToGetRandomBytes | E::FailedToGetCurrentTime | E::Other(_) => {
                Self::Internal(error.to_string().into())
            }
            _ => Self::PeerMisbehaved(error.to_string().into()),
        }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerMisbehaved(what) => write!(f, "the peer broke the TLS protocol: {what}"),
            Self::PeerIncompatible(what) => write!(f, "nothing in common with the peer: {what}"),
            Self::PeerAlert(code) => write!(f, "the peer sent the fatal alert {code}"),
            Self::KeysExhausted => f.write_str("the connection's keys are used up"),
            Self::NotEstablished => f.write_str("the handshake is not done yet"),
            Self::Closed => f.write_str("the TLS connection is closed"),
            Self::Internal(what) => write!(f, "the TLS library failed: {what}"),
        }
    }
}

impl std::error::Error for TlsFault {}
