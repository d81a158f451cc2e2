//! BOSH (XEP-0124, XEP-0206) as bytes and data: an XML stream in the bodies of requests and
//! responses.
//!
//! - [`read`] parses the `<body/>` of requests, [`write`](mod@write) writes that of responses.
//! - [`wrapped`] converts the output of a stream to the content of a `<body/>`.
//!
//! The module knows neither the order in which a session accepts requests nor what they do.

pub mod read;
pub mod wrapped;
pub mod write;

#[cfg(test)]
mod tests;

use super::head::Method;
use super::row::{Answer, Origins, Row};
use crate::id::ShardId;
use crate::limits::BOSH_BODY_BYTES_MAX;

/// The path of requests.
pub const PATH: &str = "/http-bind";

/// The namespace of `<body/>` (XEP-0124 6).
pub const HTTPBIND: &str = "http://jabber.org/protocol/httpbind";

/// The namespace of attributes that concern XMPP (XEP-0206 2).
pub const XBOSH: &str = "urn:xmpp:xbosh";

/// The row of this path.
pub const ROW: Row =
    Row { body_bytes_max: BOSH_BODY_BYTES_MAX, ..Row::of(PATH, &[Method::Post], Origins::Policy, |_, _| Answer::Bosh) };

/// A session identifier (XEP-0124 7.2): the shard where the session began, and a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Sid {
    /// The shard where the session began. The session may have moved since.
    pub shard: ShardId,
    /// 128 bits of entropy.
    pub key: [u8; 16],
}

impl Sid {
    /// Formats the identifier.
    pub fn text(&self) -> String {
        let all = self.shard.0.to_be_bytes().into_iter().chain(self.key);
        all.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses an identifier; `None` if it does not have the form of this server's identifiers.
    pub fn parse(text: &str) -> Option<Sid> {
        let bytes: [u8; 18] = hex(text)?;
        let (shard, key) = bytes.split_first_chunk()?;
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        lower.then(|| Some(Sid { shard: ShardId(u16::from_be_bytes(*shard)), key: key.try_into().ok()? }))?
    }
}

/// Decodes hexadecimal digits of either case.
pub(crate) fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Why a session or request ends (XEP-0124 17.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Condition {
    /// The request is malformed.
    BadRequest,
    /// The domain is not served here.
    HostUnknown,
    /// The request names no domain.
    ImproperAddressing,
    /// Unknown session or response, a request that is out of order, or a wrong key.
    ItemNotFound,
    /// The client violates a limit that the server has announced.
    PolicyViolation,
    /// The stream has ended with an error, which is in the body.
    RemoteStreamError,
    /// The server is shutting down.
    SystemShutdown,
}

impl Condition {
    /// The condition's name.
    pub fn name(self) -> &'static str {
        match self {
            Condition::BadRequest => "bad-request",
            Condition::HostUnknown => "host-unknown",
            Condition::ImproperAddressing => "improper-addressing",
            Condition::ItemNotFound => "item-not-found",
            Condition::PolicyViolation => "policy-violation",
            Condition::RemoteStreamError => "remote-stream-error",
            Condition::SystemShutdown => "system-shutdown",
        }
    }
}
