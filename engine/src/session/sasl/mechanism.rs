//! The mechanisms, which of them a connection is offered, and what binds a login to its TLS
//! channel.

use super::Form;
use crate::ns;
use crate::store::hash::{HashKind, Hashes};
use crate::store::token::TokenKind;
use base64::Engine as _;

/// Namespace of the channel-binding announcement (XEP-0440 2).
pub const NS_SASL_CB: &str = "urn:xmpp:sasl-cb:0";

/// A SASL mechanism of this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Mechanism {
    /// SCRAM-SHA-512-PLUS (by analogy with RFC 7677), bound to the TLS channel.
    ScramSha512Plus,
    /// SCRAM-SHA-256-PLUS (RFC 7677), bound to the TLS channel.
    ScramSha256Plus,
    /// SCRAM-SHA-1-PLUS (RFC 5802), bound to the TLS channel.
    ScramSha1Plus,
    /// SCRAM-SHA-512.
    ScramSha512,
    /// SCRAM-SHA-256 (RFC 7677).
    ScramSha256,
    /// SCRAM-SHA-1 (RFC 5802).
    ScramSha1,
    /// PLAIN (RFC 4616).
    Plain,
    /// EXTERNAL (RFC 4422 A): the client's certificate (XEP-0178).
    External,
    /// HT-SHA-256-EXPR: a FAST token (XEP-0484), bound to the TLS channel.
    TokenExporter,
    /// HT-SHA-256-ENDP: a token, bound to the server's certificate.
    TokenEndPoint,
    /// HT-SHA-256-NONE: a token without channel binding.
    TokenUnbound,
}

impl Mechanism {
    /// All password mechanisms in order of preference: bound before unbound, newer hashes first,
    /// PLAIN last.
    pub const PASSWORDS: [Mechanism; 7] = [
        Mechanism::ScramSha512Plus,
        Mechanism::ScramSha256Plus,
        Mechanism::ScramSha1Plus,
        Mechanism::ScramSha512,
        Mechanism::ScramSha256,
        Mechanism::ScramSha1,
        Mechanism::Plain,
    ];

    /// All token mechanisms, in the same order.
    pub const TOKENS: [Mechanism; 3] = [Mechanism::TokenExporter, Mechanism::TokenEndPoint, Mechanism::TokenUnbound];

    /// All mechanisms except those for tokens, in order of preference (RFC 6120 6.3.3). A client
    /// with a certificate needs no password.
    fn without_tokens() -> impl Iterator<Item = Mechanism> {
        std::iter::once(Mechanism::External).chain(Mechanism::PASSWORDS)
    }

    /// The registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha512Plus => "SCRAM-SHA-512-PLUS",
            Mechanism::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Mechanism::ScramSha1Plus => "SCRAM-SHA-1-PLUS",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::Plain => "PLAIN",
            Mechanism::External => "EXTERNAL",
            Mechanism::TokenExporter => "HT-SHA-256-EXPR",
            Mechanism::TokenEndPoint => "HT-SHA-256-ENDP",
            Mechanism::TokenUnbound => "HT-SHA-256-NONE",
        }
    }

    /// The mechanism of a registered name; names are upper case (RFC 4422 3.1).
    pub fn from_name(name: &str) -> Option<Mechanism> {
        let mut all = Mechanism::without_tokens().chain(Mechanism::TOKENS);
        all.find(|mechanism| mechanism.name() == name)
    }

    /// The binding of a token for this mechanism; `None` for a password mechanism.
    pub const fn token(self) -> Option<TokenKind> {
        match self {
            Mechanism::TokenExporter => Some(TokenKind::Exporter),
            Mechanism::TokenEndPoint => Some(TokenKind::EndPoint),
            Mechanism::TokenUnbound => Some(TokenKind::Unbound),
            _ => None,
        }
    }

    /// The hash function of a SCRAM mechanism.
    pub const fn hash(self) -> Option<HashKind> {
        match self {
            Mechanism::ScramSha512Plus | Mechanism::ScramSha512 => Some(HashKind::Sha512),
            Mechanism::ScramSha256Plus | Mechanism::ScramSha256 => Some(HashKind::Sha256),
            Mechanism::ScramSha1Plus | Mechanism::ScramSha1 => Some(HashKind::Sha1),
            _ => None,
        }
    }

    /// Whether the mechanism requires channel binding.
    pub const fn is_bound(self) -> bool {
        matches!(self, Mechanism::ScramSha512Plus | Mechanism::ScramSha256Plus | Mechanism::ScramSha1Plus)
    }
}

/// What may be offered besides what the channel permits. It does not depend on the client's claimed
/// identity, so it does not reveal which accounts exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// PLAIN, on connections of this kind.
    pub plain: bool,
    /// SCRAM with these hash functions.
    pub hashes: Hashes,
    /// EXTERNAL: the client's certificate names a user of the domain.
    pub external: bool,
    /// Tokens (XEP-0484).
    pub tokens: bool,
}

impl Default for Allowed {
    /// Everything except EXTERNAL.
    fn default() -> Allowed {
        Allowed { plain: true, hashes: Hashes::ALL, external: false, tokens: true }
    }
}

impl Allowed {
    /// For an external back end, which needs the password itself. There are no stored keys that
    /// SCRAM could use, and a certificate does not prove that its user still exists.
    pub fn outside(tokens: bool) -> Allowed {
        Allowed { plain: true, hashes: Hashes::default(), external: false, tokens }
    }

    fn hash(self, mechanism: Mechanism) -> bool {
        mechanism.hash().is_none_or(|kind| self.hashes.contains(kind))
    }
}

/// The task that adds keys of a hash function to an account (XEP-0480 2.1, 3).
pub const fn upgrade_name(kind: HashKind) -> &'static str {
    match kind {
        HashKind::Sha1 => "UPGR-SCRAM-SHA-1",
        HashKind::Sha256 => "UPGR-SCRAM-SHA-256",
        HashKind::Sha512 => "UPGR-SCRAM-SHA-512",
    }
}

/// The hash function of such a task.
pub fn upgrade_of(name: &str) -> Option<HashKind> {
    HashKind::ALL.into_iter().find(|kind| upgrade_name(*kind) == name)
}

/// A set of mechanisms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mechanisms(u16);

impl Mechanisms {
    /// Whether the set contains this mechanism.
    pub const fn contains(self, mechanism: Mechanism) -> bool {
        self.0 & (1 << mechanism as u8) != 0
    }

    /// The members in order of preference.
    pub fn iter(self) -> impl Iterator<Item = Mechanism> {
        Mechanism::without_tokens().filter(move |&mechanism| self.contains(mechanism))
    }

    /// Whether the set contains a mechanism that requires channel binding.
    pub fn any_bound(self) -> bool {
        self.iter().any(Mechanism::is_bound)
    }
}

/// The token mechanisms that a connection is offered (XEP-0484 3.1): a bound one only if the
/// channel has its binding.
pub fn tokens_offered(secured: Option<&ChannelBindings>) -> impl Iterator<Item = Mechanism> {
    let has = move |kind| secured.is_some_and(|bindings| bindings.data(kind).is_some());
    let (exporter, end_point) = (has(BindingType::TlsExporter), has(BindingType::TlsServerEndPoint));
    Mechanism::TOKENS.into_iter().filter(move |mechanism| match mechanism {
        Mechanism::TokenExporter => exporter,
        Mechanism::TokenEndPoint => end_point,
        _ => true,
    })
}

/// The mechanisms that a connection is offered. `secured` is set if it uses TLS; bound mechanisms
/// need a channel binding in it.
pub fn offered(secured: Option<&ChannelBindings>, allowed: Allowed) -> Mechanisms {
    let bound = secured.is_some_and(|bindings| bindings.types().next().is_some());
    let members = Mechanism::without_tokens().filter(|mechanism| match mechanism {
        Mechanism::Plain => allowed.plain,
        Mechanism::External => allowed.external,
        mechanism => (bound || !mechanism.is_bound()) && allowed.hash(*mechanism),
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

/// Channel-binding data of the TLS layer. Every TLS connection has this value, even if it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelBindings {
    /// 32 bytes exported with the label `EXPORTER-Channel-Binding` and an empty context (RFC 9266
    /// 2). Under TLS 1.2 only with an extended master secret (RFC 9266 4.2).
    pub exporter: Option<[u8; 32]>,
    /// Hash of the certificate by its own signature's hash function, or SHA-256 instead of MD5 and
    /// SHA-1 (RFC 5929 4.1). Up to 64 bytes.
    pub server_end_point: Option<Box<[u8]>>,
}

impl ChannelBindings {
    /// The data of a kind, if available.
    pub fn data(&self, kind: BindingType) -> Option<&[u8]> {
        match kind {
            BindingType::TlsExporter => self.exporter.as_ref().map(|data| &data[..]),
            BindingType::TlsServerEndPoint => self.server_end_point.as_deref(),
        }
    }

    /// The available kinds, the stronger first.
    pub fn types(&self) -> impl Iterator<Item = BindingType> {
        BindingType::ALL.into_iter().filter(|&kind| self.data(kind).is_some())
    }
}

/// The kinds of binding that are announced to a connection: none if no offered mechanism requires
/// one.
fn announced(secured: Option<&ChannelBindings>, mechanisms: Mechanisms) -> impl Iterator<Item = BindingType> {
    secured.filter(|_| mechanisms.any_bound()).into_iter().flat_map(ChannelBindings::types)
}

/// Appends the channel-binding types, if there are any (XEP-0440 2).
pub fn write_bindings(out: &mut Vec<u8>, secured: Option<&ChannelBindings>, allowed: Allowed) {
    let mut kinds = announced(secured, offered(secured, allowed)).peekable();
    if kinds.peek().is_some() {
        put(out, &["<sasl-channel-binding xmlns='", NS_SASL_CB, "'>"]);
        for kind in kinds {
            put(out, &["<channel-binding type='", kind.name(), "'/>"]);
        }
        put(out, &["</sasl-channel-binding>"]);
    }
}

/// Appends a stream feature of authentication: the mechanisms (RFC 6120 6.4.1), or those of SASL 2
/// (XEP-0388 2.1). For SASL 2, `inline` is followed by FAST with the token mechanisms (XEP-0484
/// 3.1) and the upgrades that accounts can gain (XEP-0480 2.1).
pub fn write_features(
    out: &mut Vec<u8>,
    form: Form,
    secured: Option<&ChannelBindings>,
    allowed: Allowed,
    inline: &[u8],
    upgrades: Hashes,
) {
    let element = if form == Form::Sasl2 { "authentication" } else { "mechanisms" };
    put(out, &["<", element, " xmlns='", form.namespace(), "'>"]);
    for mechanism in offered(secured, allowed).iter() {
        put(out, &["<mechanism>", mechanism.name(), "</mechanism>"]);
    }
    if form == Form::Sasl2 {
        put(out, &["<inline>"]);
        out.extend_from_slice(inline);
        if allowed.tokens {
            put(out, &["<fast xmlns='", ns::FAST, "'>"]);
            for mechanism in tokens_offered(secured) {
                put(out, &["<mechanism>", mechanism.name(), "</mechanism>"]);
            }
            put(out, &["</fast>"]);
        }
        put(out, &["</inline>"]);
        for kind in upgrades.iter() {
            put(out, &["<upgrade xmlns='", ns::SASL_UPGRADE, "'>", upgrade_name(kind), "</upgrade>"]);
        }
    }
    put(out, &["</", element, ">"]);
}

/// The hash of the offer, in base64, by which a client detects a modification in transit (XEP-0474
/// 5.1). The mechanisms are the same for both forms of SASL.
pub(super) fn offer_hash(hash: HashKind, secured: Option<&ChannelBindings>, allowed: Allowed) -> String {
    let mechanisms = offered(secured, allowed);
    let mut names: Vec<_> = mechanisms.iter().map(Mechanism::name).collect();
    let mut kinds: Vec<_> = announced(secured, mechanisms).map(BindingType::name).collect();
    names.sort_unstable();
    kinds.sort_unstable();
    let mut offer = names.join("\x1e");
    if !kinds.is_empty() {
        offer.push('\x1f');
        offer.push_str(&kinds.join("\x1e"));
    }
    super::BASE64.encode(hash.digest(&[offer.as_bytes()]).as_bytes())
}

fn put(out: &mut Vec<u8>, pieces: &[&str]) {
    for piece in pieces {
        out.extend_from_slice(piece.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PLAIN: Allowed = Allowed { plain: false, hashes: Hashes::ALL, external: false, tokens: true };

    fn names(secured: Option<&ChannelBindings>, allowed: Allowed) -> Vec<&'static str> {
        offered(secured, allowed).iter().map(Mechanism::name).collect()
    }

    /// RFC 6120 6.3.3: the server's order of preference. RFC 5802 6: -PLUS only where the channel
    /// can be bound.
    #[test]
    fn rfc6120_6_3_3_the_offer_follows_the_channel() {
        let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: None };
        let all = Allowed::default();
        assert_eq!(names(None, NO_PLAIN), ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1"]);
        assert_eq!(names(None, all), ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]);
        let unbound = ChannelBindings::default();
        assert_eq!(names(Some(&unbound), NO_PLAIN), ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1"]);
        assert_eq!(
            names(Some(&bindings), all),
            [
                "SCRAM-SHA-512-PLUS",
                "SCRAM-SHA-256-PLUS",
                "SCRAM-SHA-1-PLUS",
                "SCRAM-SHA-512",
                "SCRAM-SHA-256",
                "SCRAM-SHA-1",
                "PLAIN"
            ]
        );
        assert_eq!(names(None, Allowed { external: true, ..NO_PLAIN })[..2], ["EXTERNAL", "SCRAM-SHA-512"]);
        assert_eq!(Mechanism::from_name("EXTERNAL"), Some(Mechanism::External));
        let two = Allowed { hashes: Hashes::ALL.without(HashKind::Sha512), ..all };
        assert_eq!(
            names(Some(&bindings), two),
            ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-1-PLUS", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"]
        );
        for kind in HashKind::ALL {
            assert_eq!(upgrade_of(upgrade_name(kind)), Some(kind));
        }
        // XEP-0480 2.1: without a suffix for channel binding.
        assert_eq!((upgrade_of("UPGR-SCRAM-SHA-512-PLUS"), upgrade_of("SCRAM-SHA-512")), (None, None));
        for mechanism in Mechanism::PASSWORDS.into_iter().chain(Mechanism::TOKENS) {
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
        }
        assert_eq!(Mechanism::from_name("plain"), None);
        assert_eq!(Mechanism::from_name("SCRAM-SHA-384"), None);
    }

    /// XEP-0440 2, example 1, with this server's mechanisms.
    #[test]
    fn xep0440_2_the_features_name_the_binding_types() {
        let mut out = Vec::new();
        let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: Some([2; 32].into()) };
        write_bindings(&mut out, Some(&bindings), NO_PLAIN);
        write_features(&mut out, Form::Sasl1, Some(&bindings), NO_PLAIN, b"", Hashes::ALL);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'><channel-binding type='tls-exporter'/>\
             <channel-binding type='tls-server-end-point'/></sasl-channel-binding>\
             <mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-512-PLUS</mechanism>\
             <mechanism>SCRAM-SHA-256-PLUS</mechanism><mechanism>SCRAM-SHA-1-PLUS</mechanism>\
             <mechanism>SCRAM-SHA-512</mechanism><mechanism>SCRAM-SHA-256</mechanism>\
             <mechanism>SCRAM-SHA-1</mechanism></mechanisms>"
        );
        let mut out = Vec::new();
        write_bindings(&mut out, None, Allowed::default());
        write_features(&mut out, Form::Sasl1, None, Allowed::default(), b"", Hashes::ALL);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-512</mechanism>\
             <mechanism>SCRAM-SHA-256</mechanism><mechanism>SCRAM-SHA-1</mechanism>\
             <mechanism>PLAIN</mechanism></mechanisms>"
        );
    }

    /// XEP-0388 2.1, XEP-0480 2.1, XEP-0484 3.1: upgrades, and tokens that are bound only if the
    /// channel has their binding.
    #[test]
    fn xep0484_3_1_the_offer_of_sasl_2() {
        let offer = |secured: Option<&ChannelBindings>| {
            let mut out = Vec::new();
            let two = Allowed { hashes: Hashes::ALL.without(HashKind::Sha512), ..Allowed::default() };
            write_features(&mut out, Form::Sasl2, secured, two, b"<x/>", two.hashes.others());
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            offer(None),
            "<authentication xmlns='urn:xmpp:sasl:2'><mechanism>SCRAM-SHA-256</mechanism>\
             <mechanism>SCRAM-SHA-1</mechanism><mechanism>PLAIN</mechanism><inline><x/><fast xmlns='urn:xmpp:fast:0'>\
             <mechanism>HT-SHA-256-NONE</mechanism></fast></inline>\
             <upgrade xmlns='urn:xmpp:sasl:upgrade:0'>UPGR-SCRAM-SHA-512</upgrade></authentication>"
        );
        let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: Some([2; 32].into()) };
        let all = "<mechanism>HT-SHA-256-EXPR</mechanism><mechanism>HT-SHA-256-ENDP</mechanism>\
                   <mechanism>HT-SHA-256-NONE</mechanism></fast>";
        assert!(offer(Some(&bindings)).contains(all));
        let bindings = ChannelBindings { exporter: None, ..bindings };
        assert!(!offer(Some(&bindings)).contains("EXPR") && offer(Some(&bindings)).contains("ENDP"));
    }

    /// XEP-0474 5.1, 5.3: sorted by octets, with the separators of the text.
    #[test]
    fn xep0474_5_1_the_hash_of_the_offer() {
        let hash = |text: &str| super::super::BASE64.encode(HashKind::Sha256.digest(&[text.as_bytes()]).as_bytes());
        let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: Some([2; 32].into()) };
        assert_eq!(
            offer_hash(HashKind::Sha256, Some(&bindings), Allowed::default()),
            hash(
                "PLAIN\x1eSCRAM-SHA-1\x1eSCRAM-SHA-1-PLUS\x1eSCRAM-SHA-256\x1eSCRAM-SHA-256-PLUS\x1e\
                 SCRAM-SHA-512\x1eSCRAM-SHA-512-PLUS\x1ftls-exporter\x1etls-server-end-point"
            )
        );
        // Without announced bindings, the text has none.
        let two = Allowed { hashes: Hashes::ALL.without(HashKind::Sha512), ..NO_PLAIN };
        assert_eq!(offer_hash(HashKind::Sha256, None, two), hash("SCRAM-SHA-1\x1eSCRAM-SHA-256"));
        // The example of 5.3.
        let example =
            HashKind::Sha1.digest(&[b"SCRAM-SHA-1\x1eSCRAM-SHA-1-PLUS\x1ftls-exporter\x1etls-server-end-point"]);
        assert_eq!(super::super::BASE64.encode(example.as_bytes()), "G6k/rBLDqgOhRRaCuuatSDFkJ08=");
    }
}
