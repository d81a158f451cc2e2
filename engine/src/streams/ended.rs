//! Reasons for which streams end. Each connection whose stream ends here is counted once, by its
//! reason.

use crate::io::Lost;
use crate::wire::error::StreamCondition;

/// Why a stream has ended. Each reason has its own counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client closed the stream in an orderly way.
    Client,
    /// The client disappeared, or reset the connection.
    Lost,
    Tls,
    /// The input violated the protocol.
    Protocol,
    /// The client was not authorized, or violated a policy of this server.
    Refused,
    /// The client does not read its output, or acknowledges nothing.
    Unread,
    /// The client was silent, or did not bind a session in time.
    Timeout,
    /// Another connection took over the session or its resource.
    Replaced,
    /// The operator ended it, or the account was removed.
    Operator,
    /// The server is shutting down.
    Shutdown,
    /// The server lacks resources, or has failed internally.
    Server,
}

impl Ended {
    /// The usual reason for a stream error with this condition. Callers with another reason give it
    /// themselves.
    pub(crate) fn of(condition: StreamCondition) -> Ended {
        use StreamCondition as C;
        match condition {
            C::BadFormat
            | C::BadNamespacePrefix
            | C::HostGone
            | C::HostUnknown
            | C::ImproperAddressing
            | C::InvalidFrom
            | C::InvalidNamespace
            | C::InvalidXml
            | C::NotWellFormed
            | C::RestrictedXml
            | C::UndefinedCondition
            | C::UnsupportedEncoding
            | C::UnsupportedFeature
            | C::UnsupportedStanzaType
            | C::UnsupportedVersion => Ended::Protocol,
            C::NotAuthorized | C::PolicyViolation => Ended::Refused,
            C::ResourceConstraint => Ended::Unread,
            C::ConnectionTimeout => Ended::Timeout,
            C::Conflict => Ended::Replaced,
            C::SystemShutdown => Ended::Shutdown,
            C::InternalServerError | C::RemoteConnectionFailed | C::Reset | C::SeeOtherHost => Ended::Server,
        }
    }

    /// The reason for a connection that this server did not close.
    pub(crate) fn by(lost: Option<Lost>) -> Ended {
        match lost {
            Some(Lost::Finished) => Ended::Client,
            Some(Lost::Tls) => Ended::Tls,
            Some(Lost::Misled) => Ended::Protocol,
            Some(Lost::Broken) | None => Ended::Lost,
        }
    }
}
