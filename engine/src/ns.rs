//! XML namespaces that more than one module uses.

pub use crate::wire::ns::{CLIENT, COMPONENT, SERVER, STREAM};

/// STARTTLS (RFC 6120 5).
pub const TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
/// SASL (RFC 6120 6).
pub const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
/// SASL 2 (XEP-0388).
pub const SASL2: &str = "urn:xmpp:sasl:2";
/// Upgrade tasks, by which an account gains keys (XEP-0480 2).
pub const SASL_UPGRADE: &str = "urn:xmpp:sasl:upgrade:0";
/// Upgrade tasks of SCRAM (XEP-0480 3).
pub const SCRAM_UPGRADE: &str = "urn:xmpp:scram-upgrade:0";
/// Bind 2 (XEP-0386).
pub const BIND2: &str = "urn:xmpp:bind:0";
/// FAST (XEP-0484).
pub const FAST: &str = "urn:xmpp:fast:0";
/// SASL channel-binding types (XEP-0440).
pub const SASL_CB: &str = "urn:xmpp:sasl-cb:0";
/// Resource binding (RFC 6120 7).
pub const BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
/// Stream management (XEP-0198).
pub const SM: &str = "urn:xmpp:sm:3";
/// Stanza ids (XEP-0359).
pub const STANZA_ID: &str = "urn:xmpp:sid:0";
/// Occupant ids (XEP-0421).
pub const OCCUPANT_ID: &str = "urn:xmpp:occupant-id:0";
/// Result Set Management (XEP-0059).
pub const RSM: &str = "http://jabber.org/protocol/rsm";
/// Delayed delivery (XEP-0203).
pub const DELAY: &str = "urn:xmpp:delay";
/// Stream limits (XEP-0478).
pub const STREAM_LIMITS: &str = "urn:xmpp:stream-limits:0";
