//! Errors as the peer sees them: the defined conditions of RFC 6120.
//!
//! There are three tables (stream 4.9.3, stanza 8.3.3, SASL 6.5), each with one row per condition,
//! and functions that append the XML. This file must never know what happens to the stream or
//! stanza afterwards.

use super::text::escape_into;
use std::fmt;

/// Namespace of stream error conditions (RFC 6120 4.9.2).
pub const NS_STREAMS: &str = "urn:ietf:params:xml:ns:xmpp-streams";
/// Namespace of stanza error conditions (RFC 6120 8.3.2).
pub const NS_STANZAS: &str = "urn:ietf:params:xml:ns:xmpp-stanzas";
/// Namespace of SASL negotiation (RFC 6120 6.3).
pub const NS_SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
/// Namespace of stream management (XEP-0198).
pub const NS_SM: &str = "urn:xmpp:sm:3";

/// A closed set of conditions from one table: the name on the wire and the clause that defines it.
macro_rules! conditions {
    ($(#[$doc:meta])* $set:ident: $($(#[$row:meta])* $case:ident = $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $set { $($(#[$row])* $case,)* }

        impl $set {
            /// All conditions, in the order of the RFC.
            pub const ALL: &'static [$set] = &[$($set::$case),*];

            /// The element's name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $($set::$case => $name,)* }
            }

            /// The condition with this element name.
            pub fn from_name(name: &str) -> Option<$set> {
                $set::ALL.iter().copied().find(|condition| condition.name() == name)
            }
        }

        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

conditions! {
    /// Why a stream ends (RFC 6120 4.9.3). A stream error is always final.
    StreamCondition:
    /// RFC 6120 4.9.3.1: XML that cannot be processed, if no other condition is more specific.
    BadFormat = "bad-format",
    /// RFC 6120 4.9.3.2: an unknown or missing prefix.
    BadNamespacePrefix = "bad-namespace-prefix",
    /// RFC 6120 4.9.3.3: another stream of the same entity conflicts with this one or replaced it.
    Conflict = "conflict",
    /// RFC 6120 4.9.3.4: the peer was silent for too long.
    ConnectionTimeout = "connection-timeout",
    /// RFC 6120 4.9.3.5: the server no longer serves the domain.
    HostGone = "host-gone",
    /// RFC 6120 4.9.3.6: the server does not serve the domain.
    HostUnknown = "host-unknown",
    /// RFC 6120 4.9.3.7: a stanza between servers lacks `to` or `from`.
    ImproperAddressing = "improper-addressing",
    /// RFC 6120 4.9.3.8: an error of this server.
    InternalServerError = "internal-server-error",
    /// RFC 6120 4.9.3.9: the `from` does not belong to the sender.
    InvalidFrom = "invalid-from",
    /// RFC 6120 4.9.3.10: the stream or content namespace is unknown.
    InvalidNamespace = "invalid-namespace",
    /// RFC 6120 4.9.3.11: the XML does not conform to its schema.
    InvalidXml = "invalid-xml",
    /// RFC 6120 4.9.3.12: the peer sent data before it authenticated.
    NotAuthorized = "not-authorized",
    /// RFC 6120 4.9.3.13: XML that is not well-formed or not namespace-well-formed.
    NotWellFormed = "not-well-formed",
    /// RFC 6120 4.9.3.14: the peer violated a local policy, for example a size limit.
    PolicyViolation = "policy-violation",
    /// RFC 6120 4.9.3.15: another server that is needed for authentication cannot be reached.
    RemoteConnectionFailed = "remote-connection-failed",
    /// RFC 6120 4.9.3.16: the stream must be negotiated again, for example under a new certificate.
    Reset = "reset",
    /// RFC 6120 4.9.3.17: the server lacks the resources to serve the stream.
    ResourceConstraint = "resource-constraint",
    /// RFC 6120 4.9.3.18: a comment, processing instruction, DTD or entity reference (11.1).
    RestrictedXml = "restricted-xml",
    /// RFC 6120 4.9.3.19: the client should use another server, which the element names.
    SeeOtherHost = "see-other-host",
    /// RFC 6120 4.9.3.20: the server is shutting down.
    SystemShutdown = "system-shutdown",
    /// RFC 6120 4.9.3.21: defined by an application-specific condition.
    UndefinedCondition = "undefined-condition",
    /// RFC 6120 4.9.3.22: an encoding other than UTF-8.
    UnsupportedEncoding = "unsupported-encoding",
    /// RFC 6120 4.9.3.23: a mandatory feature is not supported.
    UnsupportedFeature = "unsupported-feature",
    /// RFC 6120 4.9.3.24: a first-level element that is not a known stanza.
    UnsupportedStanzaType = "unsupported-stanza-type",
    /// RFC 6120 4.9.3.25: an unsupported version of XMPP.
    UnsupportedVersion = "unsupported-version",
}

conditions! {
    /// Why a stanza was rejected (RFC 6120 8.3.3). The stream continues.
    StanzaCondition:
    /// RFC 6120 8.3.3.1: malformed content.
    BadRequest = "bad-request",
    /// RFC 6120 8.3.3.2: an entity with this name exists.
    Conflict = "conflict",
    /// RFC 6120 8.3.3.3: the feature is not implemented.
    FeatureNotImplemented = "feature-not-implemented",
    /// RFC 6120 8.3.3.4: the sender lacks permission.
    Forbidden = "forbidden",
    /// RFC 6120 8.3.3.5: the recipient has left this address; the element may hold the new one.
    Gone = "gone",
    /// RFC 6120 8.3.3.6: an error of this server.
    InternalServerError = "internal-server-error",
    /// RFC 6120 8.3.3.7: the address or item does not exist.
    ItemNotFound = "item-not-found",
    /// RFC 6120 8.3.3.8: the address is not a valid JID.
    JidMalformed = "jid-malformed",
    /// RFC 6120 8.3.3.9: the request is understood, but does not meet the criteria.
    NotAcceptable = "not-acceptable",
    /// RFC 6120 8.3.3.10: the action is not allowed for any sender.
    NotAllowed = "not-allowed",
    /// RFC 6120 8.3.3.11: the sender must present credentials first.
    NotAuthorized = "not-authorized",
    /// RFC 6120 8.3.3.12: the sender violated a local policy.
    PolicyViolation = "policy-violation",
    /// RFC 6120 8.3.3.13: the recipient is temporarily unavailable.
    RecipientUnavailable = "recipient-unavailable",
    /// RFC 6120 8.3.3.14: the sender should use another address, which the element names.
    Redirect = "redirect",
    /// RFC 6120 8.3.3.15: the sender must register first.
    RegistrationRequired = "registration-required",
    /// RFC 6120 8.3.3.16: the other server does not exist or was not found.
    RemoteServerNotFound = "remote-server-not-found",
    /// RFC 6120 8.3.3.17: the other server did not answer in time.
    RemoteServerTimeout = "remote-server-timeout",
    /// RFC 6120 8.3.3.18: the server or recipient lacks the resources.
    ResourceConstraint = "resource-constraint",
    /// RFC 6120 8.3.3.19: the service is not provided.
    ServiceUnavailable = "service-unavailable",
    /// RFC 6120 8.3.3.20: the sender must subscribe first.
    SubscriptionRequired = "subscription-required",
    /// RFC 6120 8.3.3.21: defined by an application-specific condition.
    UndefinedCondition = "undefined-condition",
    /// RFC 6120 8.3.3.22: the request is understood, but unexpected at this point.
    UnexpectedRequest = "unexpected-request",
}

conditions! {
    /// Why an authentication attempt failed (RFC 6120 6.5). The peer may try again.
    SaslCondition:
    /// RFC 6120 6.5.1: the peer aborted the exchange.
    Aborted = "aborted",
    /// RFC 6120 6.5.2: the account is disabled.
    AccountDisabled = "account-disabled",
    /// RFC 6120 6.5.3: the credentials have expired.
    CredentialsExpired = "credentials-expired",
    /// RFC 6120 6.5.4: the mechanism requires TLS.
    EncryptionRequired = "encryption-required",
    /// RFC 6120 6.5.5: invalid base64 or wrong padding.
    IncorrectEncoding = "incorrect-encoding",
    /// RFC 6120 6.5.6: the peer may not use this authorization identity.
    InvalidAuthzid = "invalid-authzid",
    /// RFC 6120 6.5.7: the mechanism was not offered.
    InvalidMechanism = "invalid-mechanism",
    /// RFC 6120 6.5.8: a malformed message of the mechanism.
    MalformedRequest = "malformed-request",
    /// RFC 6120 6.5.9: the mechanism is weaker than local policy allows for this peer.
    MechanismTooWeak = "mechanism-too-weak",
    /// RFC 6120 6.5.10: wrong credentials; does not reveal which part was wrong.
    NotAuthorized = "not-authorized",
    /// RFC 6120 6.5.11: the server cannot decide at the moment, or there were too many recent
    /// failures.
    TemporaryAuthFailure = "temporary-auth-failure",
}

/// What the sender of a failed stanza can do about it (RFC 6120 8.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, serde::Serialize, serde::Deserialize)]
pub enum ErrorType {
    /// Retry after providing credentials.
    Auth,
    /// Do not retry.
    Cancel,
    /// Proceed: the error was only a warning.
    Continue,
    /// Retry after changing the data.
    Modify,
    /// Retry after waiting.
    Wait,
}

impl ErrorType {
    /// The value of the `type` attribute.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorType::Auth => "auth",
            ErrorType::Cancel => "cancel",
            ErrorType::Continue => "continue",
            ErrorType::Modify => "modify",
            ErrorType::Wait => "wait",
        }
    }
}

impl StanzaCondition {
    /// The error type that RFC 6120 8.3.3 recommends ("the associated error type SHOULD be").
    pub const fn default_type(self) -> ErrorType {
        use StanzaCondition as C;
        match self {
            C::Forbidden | C::NotAuthorized | C::RegistrationRequired | C::SubscriptionRequired => ErrorType::Auth,
            C::BadRequest | C::JidMalformed | C::NotAcceptable | C::PolicyViolation | C::Redirect => ErrorType::Modify,
            C::RecipientUnavailable | C::RemoteServerTimeout | C::ResourceConstraint | C::UnexpectedRequest => {
                ErrorType::Wait
            }
            C::Conflict
            | C::FeatureNotImplemented
            | C::Gone
            | C::InternalServerError
            | C::ItemNotFound
            | C::NotAllowed
            | C::RemoteServerNotFound
            | C::ServiceUnavailable
            | C::UndefinedCondition => ErrorType::Cancel,
        }
    }
}

/// The content of an extension's own condition, besides its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Detail {
    /// No content.
    #[default]
    Nothing,
    /// The maximum file size in bytes (XEP-0363 6).
    MaxFileSize(u64),
    /// When to retry, in the format of XEP-0082 with seconds in UTC.
    Stamp([u8; 20]),
}

/// A condition of an extension, written beside the defined one (RFC 6120 4.9.4, 8.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppCondition<'a> {
    /// XEP-0198 4: the peer has acknowledged more stanzas than were sent. Used with
    /// [`StreamCondition::UndefinedCondition`].
    HandledCountTooHigh {
        /// The `h` that the peer sent.
        h: u32,
        /// The number of stanzas sent to it.
        send_count: u32,
    },
    /// Any element. Both strings are constants of a feature and are written unescaped.
    Extension {
        /// The element's name.
        name: &'a str,
        /// The element's namespace.
        xmlns: &'a str,
        /// The element's content.
        detail: Detail,
    },
}

impl AppCondition<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            AppCondition::HandledCountTooHigh { h, send_count } => {
                let attributes = format!("' h='{h}' send-count='{send_count}'/>");
                put(out, &["<handled-count-too-high xmlns='", NS_SM, &attributes]);
            }
            AppCondition::Extension { name, xmlns, detail } => {
                put(out, &["<", name, " xmlns='", xmlns]);
                match detail {
                    Detail::Nothing => put(out, &["'/>"]),
                    Detail::Stamp(stamp) => put(out, &["' stamp='", &String::from_utf8_lossy(stamp), "'/>"]),
                    Detail::MaxFileSize(bytes) => {
                        let bytes = bytes.to_string();
                        put(out, &["'><max-file-size>", &bytes, "</max-file-size></", name, ">"]);
                    }
                }
            }
        }
    }
}

/// Appends a stream error (RFC 6120 4.9.2). The `stream` prefix must be bound in the stream's
/// header. The caller closes the stream.
pub fn write_stream_error(
    out: &mut Vec<u8>,
    condition: StreamCondition,
    text: Option<&str>,
    app: Option<AppCondition<'_>>,
) {
    put(out, &["<stream:error>"]);
    write_condition(out, condition.name(), NS_STREAMS, text);
    if let Some(app) = app {
        app.write(out);
    }
    put(out, &["</stream:error>"]);
}

/// Appends the `<error/>` child of a stanza of type `error`, with the condition's default type (RFC
/// 6120 8.3.2).
pub fn write_stanza_error(out: &mut Vec<u8>, condition: StanzaCondition, text: Option<&str>) {
    write_typed_stanza_error(out, condition.default_type(), condition, text, None);
}

/// Appends the `<error/>` child of a stanza of type `error`, with all optional parts (RFC 6120
/// 8.3.2).
pub fn write_typed_stanza_error(
    out: &mut Vec<u8>,
    error_type: ErrorType,
    condition: StanzaCondition,
    text: Option<&str>,
    app: Option<AppCondition<'_>>,
) {
    put(out, &["<error type='", error_type.name(), "'>"]);
    write_condition(out, condition.name(), NS_STANZAS, text);
    if let Some(app) = app {
        app.write(out);
    }
    put(out, &["</error>"]);
}

/// Appends a SASL failure (RFC 6120 6.4.5).
pub fn write_sasl_failure(out: &mut Vec<u8>, condition: SaslCondition, text: Option<&str>) {
    put(out, &["<failure xmlns='", NS_SASL, "'><", condition.name(), "/>"]);
    if let Some(text) = text {
        put(out, &["<text xml:lang='en'>"]);
        escape_into(out, text);
        put(out, &["</text>"]);
    }
    put(out, &["</failure>"]);
}

fn write_condition(out: &mut Vec<u8>, name: &str, xmlns: &str, text: Option<&str>) {
    put(out, &["<", name, " xmlns='", xmlns, "'/>"]);
    if let Some(text) = text {
        put(out, &["<text xmlns='", xmlns, "' xml:lang='en'>"]);
        escape_into(out, text);
        put(out, &["</text>"]);
    }
}

fn put(out: &mut Vec<u8>, pieces: &[&str]) {
    for piece in pieces {
        out.extend_from_slice(piece.as_bytes());
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
