//! Letters about sessions of BOSH (XEP-0124).

use crate::id::ConnId;
use crate::session::bosh::{Place, Reply};
use crate::session::moved::Handover;
use crate::web::bosh::read::Wrapper;

/// Letters between shards about BOSH sessions (XEP-0124).
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum BoshLetter {
    /// A request for a BOSH session (XEP-0124) that began at the receiver, or has moved there.
    Asked(Box<BoshAsked>),
    /// The answer to such a request, for the connection on which it arrived.
    Answer {
        /// The connection.
        conn: ConnId,
        /// The number of the request. The letter is ignored if the connection has another one.
        number: u32,
        /// The answer.
        reply: Box<Reply>,
    },
    /// The connection of such a request has closed, or its client has sent more on it, so that the
    /// request is to be answered at once.
    Left {
        /// The session.
        key: [u8; 16],
        /// The request.
        place: Place,
        /// Whether the client has sent more.
        hurries: bool,
    },
    /// A BOSH session moves to the receiver, its user's home.
    Moves(Box<Handover>),
}

/// A request for a session of BOSH.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct BoshAsked {
    /// The session.
    pub key: [u8; 16],
    /// The destination of the answer.
    pub place: Place,
    /// Whether it arrived over TLS.
    pub secured: bool,
    /// Its `<body/>`.
    pub wrapper: Box<Wrapper>,
}
