//! Connections that a proxy makes on behalf of clients: the first bytes name the client (the PROXY
//! protocol, versions 1 and 2, of HAProxy's `doc/proxy-protocol.txt`).

use std::collections::HashMap;
use std::net::SocketAddr;

use ppp::{v1, v2};
use throng_engine::id::ConnId;

/// Maximum bytes of a header: 16, two addresses, and additional fields (TLVs), which are ignored.
const HEADER_BYTES_MAX: usize = 2_048;

/// The longest header of version 1, including its end of line (2.1).
const V1_BYTES_MAX: usize = 107;

/// The proxied connections of one thread. Other connections cost nothing.
#[derive(Default)]
pub(super) struct Fronted {
    /// Incomplete headers; bounded by the connections that the shard lets open at once, and
    /// `HEADER_BYTES_MAX`. `None` after a malformed header: further bytes are ignored until the
    /// connection is closed.
    heads: HashMap<ConnId, Option<Vec<u8>>>,
    /// The clients' addresses, where the kernel knows only the proxy.
    clients: HashMap<ConnId, SocketAddr>,
}

/// The result of parsing the first bytes.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Head {
    /// No header is expected: all bytes are the client's.
    No,
    /// The header is incomplete.
    Partial,
    /// The header is complete. It names a client, or the proxy itself (`LOCAL`, `UNKNOWN`); the
    /// rest are the client's bytes.
    Whole {
        /// The client.
        client: Option<SocketAddr>,
        /// The bytes after the header.
        rest: Vec<u8>,
    },
    /// The header is malformed: the connection must end.
    Wrong,
}

impl Fronted {
    /// Registers a proxy's connection that was accepted.
    pub(super) fn expect(&mut self, conn: ConnId) {
        self.heads.insert(conn, Some(Vec::new()));
    }

    /// Processes bytes of a connection until its header is complete.
    pub(super) fn received(&mut self, conn: ConnId, bytes: &[u8]) -> Head {
        if self.heads.is_empty() {
            return Head::No;
        }
        let Some(awaited) = self.heads.get_mut(&conn) else { return Head::No };
        let Some(head) = awaited else { return Head::Wrong };
        head.extend_from_slice(bytes);
        let (client, end) = match parse(head) {
            Parsed::Whole(client, end) => (client, end),
            Parsed::Partial if head.len() <= HEADER_BYTES_MAX => return Head::Partial,
            Parsed::Partial | Parsed::Wrong => {
                *awaited = None;
                return Head::Wrong;
            }
        };
        let mut rest = self.heads.remove(&conn).flatten().unwrap_or_default();
        rest.drain(..end);
        if let Some(client) = client {
            self.clients.insert(conn, client);
        }
        Head::Whole { client, rest }
    }

    /// Registers a connection that arrived from another thread.
    pub(super) fn arrived(&mut self, conn: ConnId, client: Option<SocketAddr>) {
        if let Some(client) = client {
            self.clients.insert(conn, client);
        }
    }

    /// The client behind a proxy's connection.
    pub(super) fn client(&self, conn: ConnId) -> Option<SocketAddr> {
        self.clients.get(&conn).copied()
    }

    /// Removes a connection. Returns its client, for one that has moved to another thread.
    pub(super) fn closed(&mut self, conn: ConnId) -> Option<SocketAddr> {
        self.heads.remove(&conn);
        self.clients.remove(&conn)
    }
}

/// Progress in a header.
enum Parsed {
    /// Complete: the client, and the length in bytes.
    Whole(Option<SocketAddr>, usize),
    Partial,
    Wrong,
}

/// The first bytes identify the version; the library takes a prefix of neither for a prefix of
/// version 1.
fn parse(head: &[u8]) -> Parsed {
    let signature = v2::PROTOCOL_PREFIX;
    if head.len() < signature.len() && signature.starts_with(head) {
        return Parsed::Partial;
    }
    if head.starts_with(signature) {
        return match v2::Header::try_from(head) {
            Ok(header) => Parsed::Whole(client_v2(&header), header.len()),
            Err(v2::ParseError::Incomplete(_) | v2::ParseError::Partial(..)) => Parsed::Partial,
            Err(_) => Parsed::Wrong,
        };
    }
    let begins = head.iter().zip(v1::PROTOCOL_PREFIX.as_bytes()).all(|(a, b)| a == b);
    let line = head.windows(2).position(|end| end == b"\r\n").map(|at| at + 2);
    match line.map(|end| (v1::Header::try_from(&head[..end]), end)) {
        None if begins && head.len() < V1_BYTES_MAX => Parsed::Partial,
        Some((Ok(header), end)) => Parsed::Whole(client_v1(&header.addresses), end),
        _ => Parsed::Wrong,
    }
}

fn client_v1(addresses: &v1::Addresses) -> Option<SocketAddr> {
    match addresses {
        v1::Addresses::Tcp4(tcp) => Some((tcp.source_address, tcp.source_port).into()),
        v1::Addresses::Tcp6(tcp) => Some((tcp.source_address, tcp.source_port).into()),
        v1::Addresses::Unknown => None,
    }
}

fn client_v2(header: &v2::Header<'_>) -> Option<SocketAddr> {
    match (header.command, &header.addresses) {
        (v2::Command::Local, _) => None,
        (_, v2::Addresses::IPv4(ip)) => Some((ip.source_address, ip.source_port).into()),
        (_, v2::Addresses::IPv6(ip)) => Some((ip.source_address, ip.source_port).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONN: ConnId = ConnId { slot: 3, generation: 1 };

    fn fronted() -> Fronted {
        let mut fronted = Fronted::default();
        fronted.expect(CONN);
        fronted
    }

    fn v2_header() -> Vec<u8> {
        // 2.2: signature, version and command, family, length; 192.0.2.7:40000 to
        // 198.51.100.1:5222, and a TLV.
        let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x10".to_vec();
        bytes.extend([192, 0, 2, 7, 198, 51, 100, 1, 0x9c, 0x40, 0x14, 0x66, 0x04, 0x00, 0x01, 0x00]);
        bytes
    }

    #[test]
    fn a_header_of_either_version_names_the_client() {
        let client = Some("192.0.2.7:40000".parse().expect("an address"));
        for header in [b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 5222\r\n".to_vec(), v2_header()] {
            let mut fronted = fronted();
            let bytes = [&header[..], b"<stream"].concat();
            assert_eq!(fronted.received(CONN, &bytes), Head::Whole { client, rest: b"<stream".to_vec() });
            assert_eq!((fronted.client(CONN), fronted.received(CONN, b"more")), (client, Head::No));
            assert_eq!((fronted.closed(CONN), fronted.client(CONN)), (client, None));
        }
    }

    #[test]
    fn a_header_may_come_byte_by_byte() {
        for header in [b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 5222\r\n".to_vec(), v2_header()] {
            let mut fronted = fronted();
            for byte in &header[..header.len() - 1] {
                assert_eq!(fronted.received(CONN, &[*byte]), Head::Partial);
            }
            let last = fronted.received(CONN, &header[header.len() - 1..]);
            assert!(matches!(last, Head::Whole { client: Some(_), ref rest } if rest.is_empty()), "{last:?}");
        }
    }

    #[test]
    fn a_proxy_may_speak_for_itself() {
        // 2.2: LOCAL, as health checks are; 2.1: UNKNOWN.
        let local = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00".to_vec();
        for header in [local, b"PROXY UNKNOWN\r\n".to_vec()] {
            let mut fronted = fronted();
            assert_eq!(fronted.received(CONN, &header), Head::Whole { client: None, rest: Vec::new() });
            assert_eq!(fronted.client(CONN), None);
        }
    }

    #[test]
    fn what_is_no_header_ends_the_connection_and_takes_no_memory() {
        for bytes in [&b"<?xml version='1.0'?><stream:stream"[..], b"\x16\x03\x01\x02\x00\x01\x00", &[b'P'; 4096]] {
            let mut fronted = fronted();
            assert_eq!(fronted.received(CONN, bytes), Head::Wrong);
            assert_eq!(fronted.received(CONN, b"PROXY UNKNOWN\r\n"), Head::Wrong, "not even if one comes behind it");
            assert_eq!(fronted.heads[&CONN], None, "and nothing of it is kept");
        }
        let mut endless = fronted();
        let long = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff"[..], &[0; 1_000]].concat();
        assert_eq!(endless.received(CONN, &long), Head::Partial);
        assert_eq!(endless.received(CONN, &[0; 2_000]), Head::Wrong, "more than a header may have");
    }
}
