//! Status codes of responses (RFC 9110 15), and refusals of malformed requests.

/// A status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 200
    Ok,
    /// 201
    Created,
    /// 202
    Accepted,
    /// 204
    NoContent,
    /// 304
    NotModified,
    /// 400
    BadRequest,
    /// 401
    Unauthorized,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 405
    MethodNotAllowed,
    /// 408
    RequestTimeout,
    /// 410
    Gone,
    /// 413
    ContentTooLarge,
    /// 414
    UriTooLong,
    /// 417
    ExpectationFailed,
    /// 426
    UpgradeRequired,
    /// 429 (RFC 6585 4)
    TooManyRequests,
    /// 431 (RFC 6585 5)
    HeaderFieldsTooLarge,
    /// 501
    NotImplemented,
    /// 503
    ServiceUnavailable,
    /// 505
    VersionNotSupported,
}

impl Status {
    /// Whether it reports that the request was not carried out.
    pub fn is_refusal(self) -> bool {
        !matches!(self, Status::Ok | Status::Created | Status::Accepted | Status::NoContent | Status::NotModified)
    }

    /// The code and its reason phrase.
    pub fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::Created => "201 Created",
            Status::Accepted => "202 Accepted",
            Status::NoContent => "204 No Content",
            Status::NotModified => "304 Not Modified",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::RequestTimeout => "408 Request Timeout",
            Status::Gone => "410 Gone",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::UriTooLong => "414 URI Too Long",
            Status::ExpectationFailed => "417 Expectation Failed",
            Status::UpgradeRequired => "426 Upgrade Required",
            Status::TooManyRequests => "429 Too Many Requests",
            Status::HeaderFieldsTooLarge => "431 Request Header Fields Too Large",
            Status::NotImplemented => "501 Not Implemented",
            Status::ServiceUnavailable => "503 Service Unavailable",
            Status::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// A malformed request, after which the next one cannot be located: it is answered, and the
/// connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the response.
    pub status: Status,
    /// What is wrong, as a sentence without a full stop.
    pub text: &'static str,
}

impl Refusal {
    /// A refusal with status 400, for input that is not valid HTTP.
    pub fn bad(text: &'static str) -> Refusal {
        Refusal { status: Status::BadRequest, text }
    }

    /// A refusal with another status.
    pub fn of(status: Status, text: &'static str) -> Refusal {
        Refusal { status, text }
    }
}
