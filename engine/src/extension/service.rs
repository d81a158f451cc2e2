//! The operator's description of services outside XMPP, which [`services`](super::services) offers
//! to clients.

use crate::wire::jid::normalise_domain;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;

/// The services outside XMPP that are offered to clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Services {
    /// The services.
    pub list: Arc<[Service]>,
    /// The secret shared with the TURN servers; without it no credentials are issued.
    pub secret: Option<SharedSecret>,
    /// Lifetime of credentials in seconds.
    pub lifetime_s: u32,
}

/// A secret shared with TURN servers.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedSecret(pub Arc<str>);

impl fmt::Debug for SharedSecret {
    /// It must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret")
    }
}

/// The kind of service, by the registry of XEP-0215 8.2 and the schemes of RFC 7064 and RFC 7065.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceKind {
    /// STUN (RFC 5389).
    Stun,
    /// STUN over TLS or DTLS.
    Stuns,
    /// TURN (RFC 5766).
    Turn,
    /// TURN over TLS or DTLS.
    Turns,
}

impl ServiceKind {
    const ALL: [ServiceKind; 4] = [ServiceKind::Stun, ServiceKind::Stuns, ServiceKind::Turn, ServiceKind::Turns];

    /// Its name in the registry, which is also its URI scheme.
    pub const fn name(self) -> &'static str {
        match self {
            ServiceKind::Stun => "stun",
            ServiceKind::Stuns => "stuns",
            ServiceKind::Turn => "turn",
            ServiceKind::Turns => "turns",
        }
    }

    const fn is_encrypted(self) -> bool {
        matches!(self, ServiceKind::Stuns | ServiceKind::Turns)
    }

    /// Whether it takes credentials.
    pub const fn is_relay(self) -> bool {
        matches!(self, ServiceKind::Turn | ServiceKind::Turns)
    }
}

/// One service: `turn:relay.example.org:3478?transport=udp` (RFC 7065; for STUN RFC 7064, with the
/// same `transport`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Its kind.
    pub kind: ServiceKind,
    /// Domain name or IP address; an IPv6 address has no brackets.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// Whether its transport is TCP, not UDP.
    pub tcp: bool,
}

impl FromStr for Service {
    type Err = ();

    /// Parses the URI. The default port and transport are 3478 and UDP; for `stuns` and `turns`
    /// 5349 and TCP.
    fn from_str(text: &str) -> Result<Service, ()> {
        let (scheme, rest) = text.split_once(':').ok_or(())?;
        let kind = ServiceKind::ALL.into_iter().find(|kind| kind.name() == scheme).ok_or(())?;
        let (place, tcp) = match rest.split_once('?') {
            None => (rest, kind.is_encrypted()),
            Some((place, "transport=udp")) => (place, false),
            Some((place, "transport=tcp")) => (place, true),
            Some(_) => return Err(()),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(address) => {
                let (host, port) = address.split_once(']').ok_or(())?;
                host.parse::<Ipv6Addr>().map_err(drop)?;
                (host, port.strip_prefix(':').or(port.is_empty().then_some("")).ok_or(())?)
            }
            None => place.split_once(':').unwrap_or((place, "")),
        };
        let port = match port {
            "" if kind.is_encrypted() => 5349,
            "" => 3478,
            digits => digits.parse().ok().filter(|port| *port != 0).ok_or(())?,
        };
        if !host.contains(':') && (host.is_empty() || normalise_domain(host).is_err()) {
            return Err(());
        }
        Ok(Service { kind, host: host.into(), port, tcp })
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        let Service { kind, host, port, .. } = self;
        write!(f, "{}:{open}{host}{close}:{port}?transport={}", kind.name(), self.transport())
    }
}

impl Service {
    /// The name of its transport.
    pub const fn transport(&self) -> &'static str {
        if self.tcp { "tcp" } else { "udp" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_of_rfc_7064_and_rfc_7065_are_read() {
        for (uri, shown) in [
            ("stun:example.org", "stun:example.org:3478?transport=udp"),
            ("stuns:example.org", "stuns:example.org:5349?transport=tcp"),
            ("turn:192.0.2.1:8000", "turn:192.0.2.1:8000?transport=udp"),
            ("turn:example.org?transport=tcp", "turn:example.org:3478?transport=tcp"),
            ("turns:[2001:db8::1]:443?transport=udp", "turns:[2001:db8::1]:443?transport=udp"),
            ("stun:[2001:db8::1]", "stun:[2001:db8::1]:3478?transport=udp"),
        ] {
            let service: Service = uri.parse().expect(uri);
            assert_eq!(service.to_string(), shown);
            assert_eq!(shown.parse(), Ok(service), "{shown}");
        }
        for bad in [
            "",
            "stun",
            "stun:",
            "http:a",
            "turn:a:0",
            "turn:a:70000",
            "turn:a?transport=sctp",
            "turn:[::1",
            "turn:a b",
        ] {
            assert_eq!(bad.parse::<Service>(), Err(()), "{bad}");
        }
    }
}
