//! Rows of the table of paths.

use super::dialect::asked::{Asked, Refused};
use super::handshake::Accept;
use super::head::Method;
use super::policy::Policy;
use super::request::{Request, Site};
use super::response::Response;

/// A path of the server.
#[derive(Debug)]
pub struct Row {
    /// The path, compared byte by byte; one that ends with `/` covers all paths below it, except for
    /// the root.
    pub path: &'static str,
    /// The accepted methods; GET includes HEAD.
    pub methods: &'static [Method],
    /// Limit on the length of the body, in bytes.
    pub body_bytes_max: usize,
    /// The origins whose pages may send requests.
    pub origins: Origins,
    /// Header fields that a page of another origin may send (Fetch 3.3.2).
    pub fields: &'static str,
    /// Whether pages of listed origins may send cookies.
    pub cookies: fn(&Policy) -> bool,
    /// The handler of requests.
    pub handle: fn(&Request<'_>, &Site<'_>) -> Answer,
}

impl Row {
    /// A path that takes no body and no cookies.
    pub const fn of(
        path: &'static str,
        methods: &'static [Method],
        origins: Origins,
        handle: fn(&Request<'_>, &Site<'_>) -> Answer,
    ) -> Row {
        Row { path, methods, body_bytes_max: 0, origins, fields: "Content-Type", cookies: |_| false, handle }
    }
}

/// The origins whose pages may send requests and read the responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Any origin: the responses are not confidential.
    Any,
    /// The origins of the operator's policy.
    Policy,
}

/// The result of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A response.
    Response(Response),
    /// The connection becomes a WebSocket (RFC 6455 4.2.2).
    WebSocket {
        /// `Sec-WebSocket-Accept`.
        accept: Accept,
    },
    /// The request belongs to a BOSH session (XEP-0124), which answers it.
    Bosh,
    /// The connection becomes a WebSocket of Centrifugo's protocol, whose commands name the
    /// channels.
    Commands {
        /// `Sec-WebSocket-Accept`.
        accept: Accept,
        /// The response names the subprotocol, as the request did.
        named: bool,
    },
    /// The connection becomes a WebSocket that echoes messages.
    #[cfg(debug_assertions)]
    Echo {
        /// `Sec-WebSocket-Accept`.
        accept: Accept,
    },
    /// The request is for channels of notifications, whose homes answer it.
    Channels(Box<Asked>),
}

impl From<Result<Asked, Refused>> for Answer {
    fn from(read: Result<Asked, Refused>) -> Answer {
        match read {
            Ok(asked) => Answer::Channels(Box::new(asked)),
            Err(response) => Answer::Response(*response),
        }
    }
}
