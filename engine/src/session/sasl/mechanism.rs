//! Which mechanisms there are, which of them a connection is offered, and what binds a login to its TLS channel.

use crate::store::hash::HashKind;
use crate::wire::error::NS_SASL;

/// Namespace of the channel-binding announcement (XEP-0440 2).
pub const NS_SASL_CB: &str = "urn:xmpp:sasl-cb:0";

/// A SASL mechanism of this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Mechanism {
    /// SCRAM-SHA-256-PLUS (RFC 7677), bound to the TLS channel.
    ScramSha256Plus,
    /// SCRAM-SHA-1-PLUS (RFC 5802), bound to the TLS channel.
    ScramSha1Plus,
    /// SCRAM-SHA-256 (RFC 7677).
    ScramSha256,
    /// SCRAM-SHA-1 (RFC 5802).
    ScramSha1,
    /// PLAIN (RFC 4616).
    Plain,
}

impl Mechanism {
    /// All mechanisms in order of preference: bound before unbound, the newer hash first, the bare password last.
    pub const ALL: [Mechanism; 5] = [
        Mechanism::ScramSha256Plus,
        Mechanism::ScramSha1Plus,
        Mechanism::ScramSha256,
        Mechanism::ScramSha1,
        Mechanism::Plain,
    ];

    /// The registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Mechanism::ScramSha1Plus => "SCRAM-SHA-1-PLUS",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::Plain => "PLAIN",
        }
    }

    /// The mechanism of a registered name; names are upper case (RFC 4422 3.1).
    pub fn from_name(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// The hash function of a SCRAM mechanism.
    pub const fn hash(self) -> Option<HashKind> {
        match self {
            Mechanism::ScramSha256Plus | Mechanism::ScramSha256 => Some(HashKind::Sha256),
            Mechanism::ScramSha1Plus | Mechanism::ScramSha1 => Some(HashKind::Sha1),
            Mechanism::Plain => None,
        }
    }

    /// Whether the mechanism requires channel binding.
    pub const fn is_bound(self) -> bool {
        matches!(self, Mechanism::ScramSha256Plus | Mechanism::ScramSha1Plus)
    }
}

/// A set of mechanisms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mechanisms(u8);

impl Mechanisms {
    /// Whether this one is in the set.
    pub const fn contains(self, mechanism: Mechanism) -> bool {
        self.0 & (1 << mechanism as u8) != 0
    }

    /// The members in order of preference.
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL.into_iter().filter(move |&mechanism| self.contains(mechanism))
    }

    /// Whether a mechanism that requires channel binding is in the set.
    pub const fn any_bound(self) -> bool {
        self.contains(Mechanism::ScramSha256Plus) || self.contains(Mechanism::ScramSha1Plus)
    }
}

/// What a connection is offered. `secured` is there if it is over TLS; the bound mechanisms need a channel binding in
/// it. `plain_allowed` is the operator's word on PLAIN for connections of this kind.
pub fn offered(secured: Option<&ChannelBindings>, plain_allowed: bool) -> Mechanisms {
    let bound = secured.is_some_and(|bindings| bindings.types().next().is_some());
    let members = Mechanism::ALL.into_iter().filter(|mechanism| match mechanism {
        Mechanism::Plain => plain_allowed,
        mechanism => bound || !mechanism.is_bound(),
    });
    Mechanisms(members.fold(0, |set, mechanism| set | 1 << mechanism as u8))
}

/// A kind of channel-binding data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindingType {
    /// Keying material of the connection itself (RFC 9266).
    TlsExporter,
    /// The hash of the server's certificate (RFC 5929 4).
    TlsServerEndPoint,
}

impl BindingType {
    /// Both kinds, the stronger first.
    pub const ALL: [BindingType; 2] = [BindingType::TlsExporter, BindingType::TlsServerEndPoint];

    /// The registered unique prefix.
    pub const fn name(self) -> &'static str {
        match self {
            BindingType::TlsExporter => "tls-exporter",
            BindingType::TlsServerEndPoint => "tls-server-end-point",
        }
    }
}

/// What the TLS layer knows of a connection that a login can be bound to. A connection over TLS has one of these even if
/// nothing is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelBindings {
    /// 32 bytes exported with the label `EXPORTER-Channel-Binding` and an empty context (RFC 9266 2). Under TLS 1.2
    /// only with an extended master secret (RFC 9266 4.2).
    pub exporter: Option<[u8; 32]>,
    /// Hash of the certificate by its own signature's hash function, SHA-256 in the place of MD5 and SHA-1
    /// (RFC 5929 4.1). Up to 64 bytes.
    pub server_end_point: Option<Box<[u8]>>,
}

impl ChannelBindings {
    /// The data of a kind, if it is there.
    pub fn data(&self, kind: BindingType) -> Option<&[u8]> {
        match kind {
            BindingType::TlsExporter => self.exporter.as_ref().map(|data| &data[..]),
            BindingType::TlsServerEndPoint => self.server_end_point.as_deref(),
        }
    }

    /// The kinds that are there, the stronger first.
    pub fn types(&self) -> impl Iterator<Item = BindingType> {
        BindingType::ALL.into_iter().filter(|&kind| self.data(kind).is_some())
    }
}

/// Appends the stream features of authentication: the channel-binding types, if any is there (XEP-0440 2), and the
/// mechanisms (RFC 6120 6.4.1).
pub fn write_features(out: &mut Vec<u8>, secured: Option<&ChannelBindings>, plain_allowed: bool) {
    let mechanisms = offered(secured, plain_allowed);
    if let Some(bindings) = secured.filter(|_| mechanisms.any_bound()) {
        put(out, &["<sasl-channel-binding xmlns='", NS_SASL_CB, "'>"]);
        for kind in bindings.types() {
            put(out, &["<channel-binding type='", kind.name(), "'/>"]);
        }
        put(out, &["</sasl-channel-binding>"]);
    }
    put(out, &["<mechanisms xmlns='", NS_SASL, "'>"]);
    for mechanism in mechanisms.iter() {
        put(out, &["<mechanism>", mechanism.name(), "</mechanism>"]);
    }
    put(out, &["</mechanisms>"]);
}

fn put(out: &mut Vec<u8>, pieces: &[&str]) {
    for piece in pieces {
        out.extend_from_slice(piece.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(secured: Option<&ChannelBindings>, plain_allowed: bool) -> Vec<&'static str> {
        offered(secured, plain_allowed).iter().map(Mechanism::name).collect()
    }

    /// RFC 6120 6.3.3: the server's order of preference. RFC 5802 6: -PLUS only where the channel can be bound.
    #[test]
    fn rfc6120_6_3_3_the_offer_follows_the_channel() {
        let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: None };
        assert_eq!(names(None, false), ["SCRAM-SHA-256", "SCRAM-SHA-1"]);
        assert_eq!(names(None, true), ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]);
        assert_eq!(names(Some(&ChannelBindings::default()), true), ["SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]);
        assert_eq!(
            names(Some(&bindings), true),
            ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-1-PLUS", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]
        );
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
        }
        assert_eq!(Mechanism::from_name("plain"), None);
        assert_eq!(Mechanism::from_name("SCRAM-SHA-512"), None);
    }

    /// XEP-0440 2, example 1, with this server's mechanisms.
    #[test]
    fn xep0440_2_the_features_name_the_binding_types() {
        let mut out = Vec::new();
        let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: Some([2; 32].into()) };
        write_features(&mut out, Some(&bindings), false);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'><channel-binding type='tls-exporter'/>\
             <channel-binding type='tls-server-end-point'/></sasl-channel-binding>\
             <mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-256-PLUS</mechanism>\
             <mechanism>SCRAM-SHA-1-PLUS</mechanism><mechanism>SCRAM-SHA-256</mechanism>\
             <mechanism>SCRAM-SHA-1</mechanism></mechanisms>"
        );
        let mut out = Vec::new();
        write_features(&mut out, None, true);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-256</mechanism>\
             <mechanism>SCRAM-SHA-1</mechanism><mechanism>PLAIN</mechanism></mechanisms>"
        );
    }
}
