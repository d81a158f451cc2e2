//! Why streams end. Each connection whose stream ends here is counted once, by its reason.

use crate::io::Lost;
use crate::wire::error::StreamCondition;

/// Why a stream has ended; each has a counter of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The client wished so, in good order.
    Client,
    /// The client vanished, or reset the connection.
    Lost,
    /// TLS failed.
    Tls,
    /// What came was not the protocol.
    Protocol,
    /// Not authorized, or against a rule of this server.
    Refused,
    /// The client does not read, or acknowledges nothing.
    Unread,
    /// The client was silent, or had no session in time.
    Timeout,
    /// Another connection took over the session or its resource.
    Replaced,
    /// The operator, or the removal of the account.
    Operator,
    /// The server stops.
    Shutdown,
    /// The server has no room, or made a mistake.
    Server,
}

impl Ended {
    /// What a stream error of this condition is mostly for. Who means something else says so.
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

    /// What a connection ended by that nobody here has closed.
    pub(crate) fn by(lost: Option<Lost>) -> Ended {
        match lost {
            Some(Lost::Finished) => Ended::Client,
            Some(Lost::Tls) => Ended::Tls,
            Some(Lost::Misled) => Ended::Protocol,
            Some(Lost::Broken) | None => Ended::Lost,
        }
    }
}
