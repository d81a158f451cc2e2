//! HTTP/1.1 (RFC 9112), WebSocket (RFC 6455, RFC 7395) and BOSH (XEP-0124) as bytes and data.
//!
//! What a peer sends becomes requests, and messages; what it is told becomes responses, and frames. Nothing here keeps anything between
//! calls but what an unfinished request or message has brought so far, and nothing knows a connection, a stream or a session.
//!
//! - [`head`] reads the head of a request, [`body`] its body, both strictly: what two parsers could read in two ways is refused.
//! - [`table`] has a [`row`] for each path: what may be asked there, and by whom it is answered. A new path is a file and a row.
//! - [`handshake`] answers the opening one of a WebSocket, [`websocket`] that for XMPP, [`host_meta`] tells where it is. [`bosh`] is a stream in requests.
//! - [`response`] writes answers; [`status`] names what is wrong with a request.
//! - [`notify`] reads what is asked of channels of notifications ([`channel`]), whose homes answer. [`access`] says who may ask, and [`keys`]
//!   which items replace each other. A [`prefix`] is many channels at once.
//! - [`push`] reads the registrations of pages that are to be told while they are closed.
//! - [`inquiry`] is what others are asked of a request, where the operator wants that, and what they may answer.
//! - [`item`] reads an item as homes write it, for the protocols of others.
//! - [`mercure`] reads what clients of that protocol ask of the same channels, and writes what they are told.
//! - [`centrifugo`] reads commands of clients of that protocol, and writes replies and pushes.
//! - [`nchan`] reads what clients of that protocol ask, and writes what they are told.
//! - [`throng_js`] has the client for pages.
//! - [`frame`] reads frames to messages; [`framed`] writes what a stream sends as messages (RFC 7395 3.3); [`open`] reads `<open/>`.

pub mod access;
pub mod body;
pub mod bosh;
pub mod centrifugo;
pub mod channel;
#[cfg(debug_assertions)]
pub mod echo;
pub mod forwarded;
pub mod frame;
pub mod framed;
pub mod handshake;
pub mod head;
pub mod host_meta;
pub mod inquiry;
pub mod item;
pub mod keys;
pub mod mercure;
pub mod nchan;
pub mod notify;
pub mod open;
pub mod policy;
pub mod prefix;
pub mod push;
pub mod request;
pub mod response;
pub mod row;
pub mod status;
pub mod table;
pub mod throng_js;
pub mod websocket;

#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod head_tests;
#[cfg(test)]
mod table_tests;

/// How the bytes of a connection are to be read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// An XML stream (RFC 6120 4).
    #[default]
    Stream,
    /// Requests and responses (RFC 9112).
    Http,
    /// An XML stream in the messages of a WebSocket (RFC 7395).
    WebSocket,
    /// The same when this side has sent its last frame (RFC 6455 5.5.1).
    Closed,
    /// An XML stream in the bodies of requests of other connections (XEP-0124).
    Bosh,
    /// A WebSocket on which items of channels come, written as the frames that they are.
    Channels,
    /// The same, on which commands of Centrifugo's protocol go the other way.
    Commands,
    /// A WebSocket whose messages come back.
    #[cfg(debug_assertions)]
    Echo,
}

impl Transport {
    /// Whether what is sent has to be framed.
    pub fn is_framed(self) -> bool {
        matches!(self, Transport::WebSocket | Transport::Closed)
    }

    /// Whether it is a WebSocket.
    pub fn is_websocket(self) -> bool {
        self.is_framed() || matches!(self, Transport::Channels | Transport::Commands)
    }
}

/// What a connection has begun to send and has not ended, beside bytes that nobody has looked at.
#[derive(Debug)]
pub enum Begun {
    /// A head, of which so many bytes have been looked at.
    Head(usize),
    /// A request whose body is on its way.
    Request(Box<request::Awaited>),
    /// A message.
    Message(Box<frame::Assembly>),
}

/// How far one step of reading has come.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Bytes used up.
    pub used: usize,
    /// There may be another step with what is left.
    pub goes_on: bool,
}

impl Begun {
    /// Bytes that it keeps.
    pub fn bytes(&self) -> usize {
        match self {
            Begun::Head(_) => 0,
            Begun::Request(awaited) => awaited.bytes(),
            Begun::Message(message) => message.bytes().len(),
        }
    }
}
