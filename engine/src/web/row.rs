//! What a row of the table of paths says.

use super::channel::Asked;
use super::handshake::Accept;
use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;

/// One path.
#[derive(Debug)]
pub struct Row {
    /// The path, which is compared byte for byte; one that ends with `/` stands for all that begin with it.
    pub path: &'static str,
    /// What may be asked there; HEAD goes along with GET.
    pub methods: &'static [Method],
    /// The longest body, bytes.
    pub body_bytes_max: usize,
    /// Pages of which origins may ask.
    pub origins: Origins,
    /// Who answers.
    pub handle: fn(&Request<'_>, &Site<'_>) -> Answer,
}

/// Pages of which origins may ask, and read the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Any: what is answered is nobody's secret.
    Any,
    /// Those of the operator's policy.
    Policy,
}

/// What is done about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is answered.
    Response(Response),
    /// The connection becomes a WebSocket (RFC 6455 4.2.2).
    WebSocket {
        /// `Sec-WebSocket-Accept`.
        accept: Accept,
    },
    /// It is for a session of BOSH (XEP-0124), which answers it.
    Bosh,
    /// The connection becomes a WebSocket on which commands of Centrifugo's protocol come. Which channels they are for, they say.
    Commands {
        /// `Sec-WebSocket-Accept`.
        accept: Accept,
        /// The subprotocol is named in the answer, as in the request.
        named: bool,
    },
    /// The connection becomes a WebSocket whose messages come back.
    #[cfg(debug_assertions)]
    Echo {
        /// `Sec-WebSocket-Accept`.
        accept: Accept,
    },
    /// It is for channels of notifications, whose homes answer.
    Channels(Box<Asked>),
}
