//! The client address in a proxy's `X-Forwarded-For`: the last address of the list, which the proxy
//! itself has added. Some proxies append a port, and put an IPv6 address in brackets.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::head::Head;

/// The client of a request according to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded<'a> {
    /// No client: the request is the proxy's own.
    Nothing,
    /// The client's address.
    Client(IpAddr),
    /// A value that is not an address.
    Unreadable(&'a str),
}

/// Parses the client address that a proxy has added to a request.
pub fn client<'a>(head: &'a Head<'_>) -> Forwarded<'a> {
    match head.list("x-forwarded-for").last() {
        None => Forwarded::Nothing,
        Some(text) => {
            address(text).map_or(Forwarded::Unreadable(text), |client| Forwarded::Client(client.to_canonical()))
        }
    }
}

fn address(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().map(|both| both.ip());
    text.parse().ok().or_else(with_port).or_else(bracketed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::head;

    fn said(fields: &str) -> String {
        let text = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let head = head::read(text.as_bytes(), 0).expect("a head").expect("all of it");
        match client(&head) {
            Forwarded::Nothing => "-".into(),
            Forwarded::Client(address) => address.to_string(),
            Forwarded::Unreadable(text) => format!("? {text}"),
        }
    }

    #[test]
    fn addresses_are_read_as_proxies_write_them() {
        for (value, expected) in [
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:49152", "203.0.113.7"),
            ("198.51.100.1, 203.0.113.7:1", "203.0.113.7"),
            ("2001:db8::7", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]:443", "2001:db8::7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("[::ffff:203.0.113.7]:80", "203.0.113.7"),
            ("", "-"),
            (" , ", "-"),
        ] {
            assert_eq!(said(&format!("X-Forwarded-For: {value}\r\n")), expected, "{value}");
        }
        for unreadable in [
            "unknown",
            "_hidden",
            "203.0.113.7:",
            "203.0.113.7:65536",
            "[203.0.113.7]",
            "[2001:db8::7",
            "203.0.113.7, x",
        ] {
            let expected = format!("? {}", unreadable.rsplit(", ").next().unwrap());
            assert_eq!(said(&format!("X-Forwarded-For: {unreadable}\r\n")), expected);
        }
        assert_eq!(said(""), "-");
        assert_eq!(said("X-Forwarded-For: 203.0.113.8\r\nX-Forwarded-For: 203.0.113.7\r\n"), "203.0.113.7");
    }
}
