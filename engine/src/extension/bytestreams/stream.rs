//! The identity of a bytestream (XEP-0065), and the outcomes of its activation: the closed types
//! between the extension, the shard and its host.

use crate::store::hash::HashKind;

/// The address at which clients reach the proxy by SOCKS5.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamHost {
    /// A domain name or an IP address; an IPv6 address has no brackets (RFC 5952).
    pub host: Box<str>,
    /// A TCP port.
    pub port: u16,
}

/// A bytestream as the proxy knows it: the SHA-1 of its id, its requester and its target (XEP-0065
/// 6.3.2).
pub type StreamHash = [u8; 20];

/// A request to activate a bytestream.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Activation {
    /// Bare JID of the requester: a user of this server.
    pub user: Box<str>,
    /// The bytestream.
    pub stream: StreamHash,
}

/// The outcome of an activation (XEP-0065 6.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activated {
    /// Bytes are relayed.
    Done,
    /// Nobody has connected for it: the requester, the target or the id differs.
    Unknown,
    /// One party has connected.
    Alone,
    /// The limit of bytestreams of the requester, or of all users, is reached.
    TooMany,
    /// The proxy does not work.
    Failed,
}

/// The hash by which both parties name a bytestream to the proxy (XEP-0065 6.3.2). The addresses
/// are normalised.
pub fn stream_hash(sid: &str, requester: &str, target: &str) -> StreamHash {
    let hash = HashKind::Sha1.digest(&[sid.as_bytes(), requester.as_bytes(), target.as_bytes()]);
    *hash.as_bytes().first_chunk().expect("20 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XEP-0065 6.3.2. The digest is that of `printf '%s' ... | sha1sum`.
    #[test]
    fn a_stream_is_the_hash_of_id_requester_and_target_xep0065_6_3_2() {
        let hash = stream_hash("vxf9n471bn46", "requester@example.com/foo", "target@example.org/bar");
        let text = hash.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(text, "98b8d688d0f5d895fd41c5e7309a2e9e33ba32ff");
    }
}
