//! BOSH (XEP-0124, XEP-0206) as bytes and data: an XML stream in the bodies of requests and their answers.
//!
//! - [`read`] reads `<body/>` as clients send it, [`write`](mod@write) writes those that they are answered with.
//! - [`wrapped`] turns what a stream sends into what stands in a `<body/>`.
//!
//! Which requests a session takes in which order is not known here, and what they lead to even less.

pub mod read;
pub mod wrapped;
pub mod write;

#[cfg(test)]
mod tests;

use super::head::Method;
use super::row::{Answer, Origins, Row};
use crate::id::ShardId;
use crate::limits::BOSH_BODY_BYTES_MAX;

/// Where clients ask.
pub const PATH: &str = "/http-bind";

/// The namespace of `<body/>` (XEP-0124 6).
pub const HTTPBIND: &str = "http://jabber.org/protocol/httpbind";

/// The namespace of what concerns XMPP (XEP-0206 2).
pub const XBOSH: &str = "urn:xmpp:xbosh";

/// Its row.
pub const ROW: Row = Row {
    path: PATH,
    methods: &[Method::Post],
    body_bytes_max: BOSH_BODY_BYTES_MAX,
    origins: Origins::Policy,
    handle: |_, _| Answer::Bosh,
};

/// The name of a session (XEP-0124 7.2): the shard where it began, and what nobody can guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sid {
    /// Where it began. It may have moved since.
    pub shard: ShardId,
    /// 128 bits of entropy.
    pub key: [u8; 16],
}

impl Sid {
    /// As it is written.
    pub fn text(&self) -> String {
        let all = self.shard.0.to_be_bytes().into_iter().chain(self.key);
        all.map(|byte| format!("{byte:02x}")).collect()
    }

    /// That of a text; none if it is in no form that this server writes.
    pub fn parse(text: &str) -> Option<Sid> {
        let bytes: [u8; 18] = hex(text)?;
        let (shard, key) = bytes.split_first_chunk()?;
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        lower.then(|| Some(Sid { shard: ShardId(u16::from_be_bytes(*shard)), key: key.try_into().ok()? }))?
    }
}

/// Bytes written in hexadecimal digits of either case.
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

/// Why a session ends, or a request does (XEP-0124 17.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The request cannot be read.
    BadRequest,
    /// The domain is not served here.
    HostUnknown,
    /// No domain is named.
    ImproperAddressing,
    /// No such session, no such answer, a request that is not due, or a key that is wrong.
    ItemNotFound,
    /// The client does what it was told not to do.
    PolicyViolation,
    /// The stream has ended with an error, which stands in the body.
    RemoteStreamError,
    /// The server stops.
    SystemShutdown,
}

impl Condition {
    /// Its name.
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
