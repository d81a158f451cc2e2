//! Errors as the peer sees them: the defined conditions of RFC 6120.
//!
//! Three tables (stream 4.9.3, stanza 8.3.3, SASL 6.5), each one row a condition, and writers that append the XML. This file must never
//! know what happens to the stream or stanza afterwards.

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

/// A closed set of conditions from one table: name on the wire and the clause that defines it.
macro_rules! conditions {
    ($(#[$doc:meta])* $set:ident: $($(#[$row:meta])* $case:ident = $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $set { $($(#[$row])* $case,)* }

        impl $set {
            /// All conditions, in the order of the RFC.
            pub const ALL: &'static [$set] = &[$($set::$case),*];

            /// The element's name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $($set::$case => $name,)* }
            }

            /// The condition of an element's name.
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
    /// RFC 6120 4.9.3.1: XML that cannot be processed, where nothing more specific fits.
    BadFormat = "bad-format",
    /// RFC 6120 4.9.3.2: an unknown or missing prefix.
    BadNamespacePrefix = "bad-namespace-prefix",
    /// RFC 6120 4.9.3.3: another stream of the same entity stands in the way, or took this one's place.
    Conflict = "conflict",
    /// RFC 6120 4.9.3.4: nothing was heard for too long.
    ConnectionTimeout = "connection-timeout",
    /// RFC 6120 4.9.3.5: the domain is no longer served here.
    HostGone = "host-gone",
    /// RFC 6120 4.9.3.6: the domain is not served here.
    HostUnknown = "host-unknown",
    /// RFC 6120 4.9.3.7: no `to` or `from` between servers.
    ImproperAddressing = "improper-addressing",
    /// RFC 6120 4.9.3.8: our fault.
    InternalServerError = "internal-server-error",
    /// RFC 6120 4.9.3.9: the `from` is not the sender's.
    InvalidFrom = "invalid-from",
    /// RFC 6120 4.9.3.10: the stream's or the content's namespace is not a known one.
    InvalidNamespace = "invalid-namespace",
    /// RFC 6120 4.9.3.11: invalid over against a schema.
    InvalidXml = "invalid-xml",
    /// RFC 6120 4.9.3.12: something that needs authentication came before it.
    NotAuthorized = "not-authorized",
    /// RFC 6120 4.9.3.13: not well-formed XML, or not namespace-well-formed.
    NotWellFormed = "not-well-formed",
    /// RFC 6120 4.9.3.14: a local rule was broken, for example a size limit.
    PolicyViolation = "policy-violation",
    /// RFC 6120 4.9.3.15: another server, needed for authentication, is out of reach.
    RemoteConnectionFailed = "remote-connection-failed",
    /// RFC 6120 4.9.3.16: the stream has to be negotiated anew, for example under new TLS material.
    Reset = "reset",
    /// RFC 6120 4.9.3.17: the server lacks what it takes to serve the stream.
    ResourceConstraint = "resource-constraint",
    /// RFC 6120 4.9.3.18: comment, processing instruction, DTD or entity reference (11.1).
    RestrictedXml = "restricted-xml",
    /// RFC 6120 4.9.3.19: to be served elsewhere; the element holds where.
    SeeOtherHost = "see-other-host",
    /// RFC 6120 4.9.3.20: the server goes down.
    SystemShutdown = "system-shutdown",
    /// RFC 6120 4.9.3.21: what an application-specific condition says.
    UndefinedCondition = "undefined-condition",
    /// RFC 6120 4.9.3.22: not UTF-8.
    UnsupportedEncoding = "unsupported-encoding",
    /// RFC 6120 4.9.3.23: a mandatory feature is not there.
    UnsupportedFeature = "unsupported-feature",
    /// RFC 6120 4.9.3.24: a first-level element that is no known stanza.
    UnsupportedStanzaType = "unsupported-stanza-type",
    /// RFC 6120 4.9.3.25: another version of XMPP.
    UnsupportedVersion = "unsupported-version",
}

conditions! {
    /// Why a stanza was not served (RFC 6120 8.3.3). The stream goes on.
    StanzaCondition:
    /// RFC 6120 8.3.3.1: malformed content.
    BadRequest = "bad-request",
    /// RFC 6120 8.3.3.2: something of that name exists.
    Conflict = "conflict",
    /// RFC 6120 8.3.3.3: understood in general, but not implemented.
    FeatureNotImplemented = "feature-not-implemented",
    /// RFC 6120 8.3.3.4: the sender lacks the right.
    Forbidden = "forbidden",
    /// RFC 6120 8.3.3.5: no longer at this address; the element may hold the new one.
    Gone = "gone",
    /// RFC 6120 8.3.3.6: our fault.
    InternalServerError = "internal-server-error",
    /// RFC 6120 8.3.3.7: the address or item does not exist.
    ItemNotFound = "item-not-found",
    /// RFC 6120 8.3.3.8: the address is no JID.
    JidMalformed = "jid-malformed",
    /// RFC 6120 8.3.3.9: understood, but does not meet the criteria.
    NotAcceptable = "not-acceptable",
    /// RFC 6120 8.3.3.10: nobody may do this.
    NotAllowed = "not-allowed",
    /// RFC 6120 8.3.3.11: needs credentials first.
    NotAuthorized = "not-authorized",
    /// RFC 6120 8.3.3.12: a local rule was broken.
    PolicyViolation = "policy-violation",
    /// RFC 6120 8.3.3.13: the recipient is not there for the moment.
    RecipientUnavailable = "recipient-unavailable",
    /// RFC 6120 8.3.3.14: ask elsewhere; the element holds where.
    Redirect = "redirect",
    /// RFC 6120 8.3.3.15: registration comes first.
    RegistrationRequired = "registration-required",
    /// RFC 6120 8.3.3.16: the other server does not exist or was not found.
    RemoteServerNotFound = "remote-server-not-found",
    /// RFC 6120 8.3.3.17: the other server did not answer in time.
    RemoteServerTimeout = "remote-server-timeout",
    /// RFC 6120 8.3.3.18: the server or recipient lacks the resources.
    ResourceConstraint = "resource-constraint",
    /// RFC 6120 8.3.3.19: the service is not provided.
    ServiceUnavailable = "service-unavailable",
    /// RFC 6120 8.3.3.20: a subscription comes first.
    SubscriptionRequired = "subscription-required",
    /// RFC 6120 8.3.3.21: what an application-specific condition says.
    UndefinedCondition = "undefined-condition",
    /// RFC 6120 8.3.3.22: understood, but not at this point.
    UnexpectedRequest = "unexpected-request",
}

conditions! {
    /// Why an authentication attempt failed (RFC 6120 6.5). The peer may try again.
    SaslCondition:
    /// RFC 6120 6.5.1: the peer gave up.
    Aborted = "aborted",
    /// RFC 6120 6.5.2: the account is out of use.
    AccountDisabled = "account-disabled",
    /// RFC 6120 6.5.3: the credentials are too old.
    CredentialsExpired = "credentials-expired",
    /// RFC 6120 6.5.4: this mechanism only over TLS.
    EncryptionRequired = "encryption-required",
    /// RFC 6120 6.5.5: not base64, or padded badly.
    IncorrectEncoding = "incorrect-encoding",
    /// RFC 6120 6.5.6: the authorization identity is not the peer's to take.
    InvalidAuthzid = "invalid-authzid",
    /// RFC 6120 6.5.7: not an offered mechanism.
    InvalidMechanism = "invalid-mechanism",
    /// RFC 6120 6.5.8: not a message of the mechanism.
    MalformedRequest = "malformed-request",
    /// RFC 6120 6.5.9: weaker than local rules allow for this peer.
    MechanismTooWeak = "mechanism-too-weak",
    /// RFC 6120 6.5.10: wrong credentials; says nothing on which part was wrong.
    NotAuthorized = "not-authorized",
    /// RFC 6120 6.5.11: cannot tell for the moment, or too many failures of late.
    TemporaryAuthFailure = "temporary-auth-failure",
}

/// What the sender of a stanza that failed can do about it (RFC 6120 8.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ErrorType {
    /// Retry after giving credentials.
    Auth,
    /// Do not retry.
    Cancel,
    /// Proceed: it was only a warning.
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
    /// The error type that RFC 6120 8.3.3 gives as the usual one ("the associated error type SHOULD be").
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

/// What an extension's own condition has beside its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// Nothing.
    #[default]
    Nothing,
    /// The longest file, bytes (XEP-0363 6).
    MaxFileSize(u64),
    /// When to try again, as XEP-0082 writes it with seconds in UTC.
    Stamp([u8; 20]),
}

/// A condition of an extension, written beside the defined one (RFC 6120 4.9.4, 8.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppCondition<'a> {
    /// XEP-0198 4: the peer has acknowledged more stanzas than were sent. Goes with
    /// [`StreamCondition::UndefinedCondition`].
    HandledCountTooHigh {
        /// The `h` that the peer has sent.
        h: u32,
        /// The number of stanzas sent to it.
        send_count: u32,
    },
    /// Any element; both texts are constants of a feature and are written as they stand.
    Extension {
        /// The element's name.
        name: &'a str,
        /// Its namespace.
        xmlns: &'a str,
        /// What it says.
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

/// Appends a stream error (RFC 6120 4.9.2). The `stream` prefix must be bound in the stream's header. Closing the stream is the caller's.
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

/// Appends the `<error/>` child of a stanza of type `error`, with the condition's usual type (RFC 6120 8.3.2).
pub fn write_stanza_error(out: &mut Vec<u8>, condition: StanzaCondition, text: Option<&str>) {
    write_typed_stanza_error(out, condition.default_type(), condition, text, None);
}

/// Appends the `<error/>` child of a stanza of type `error` with all that it can hold (RFC 6120 8.3.2).
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
