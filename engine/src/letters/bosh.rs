//! Letters about sessions of BOSH (XEP-0124).

use crate::id::ConnId;
use crate::session::bosh::{Place, Reply};
use crate::session::moved::Handover;
use crate::web::bosh::read::Wrapper;

/// What shards say to each other about sessions of BOSH (XEP-0124).
#[derive(Clone, Debug, PartialEq)]
pub enum BoshLetter {
    /// A request for a session of BOSH (XEP-0124) that began at the receiver, or has moved there.
    Asked(Box<BoshAsked>),
    /// The answer to such a request, for the connection on which it came.
    Answer {
        /// The connection.
        conn: ConnId,
        /// The number of its request. To another one it says nothing.
        number: u32,
        /// The answer.
        reply: Box<Reply>,
    },
    /// The connection of such a request has gone; or its client has sent more on it, and the request is to be answered at once.
    Left {
        /// The session.
        key: [u8; 16],
        /// The request.
        place: Place,
        /// The latter.
        hurries: bool,
    },
    /// A session of BOSH comes over: its user's home is here.
    Moves(Box<Handover>),
}

/// A request for a session of BOSH.
#[derive(Clone, Debug, PartialEq)]
pub struct BoshAsked {
    /// The session.
    pub key: [u8; 16],
    /// Where the answer goes.
    pub place: Place,
    /// It came by TLS.
    pub secured: bool,
    /// What it says.
    pub wrapper: Box<Wrapper>,
}
