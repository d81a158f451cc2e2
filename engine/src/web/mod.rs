//! HTTP/1.1 (RFC 9112), WebSocket (RFC 6455, RFC 7395) and BOSH (XEP-0124) as bytes and data.
//!
//! Input of a peer becomes requests and messages; output becomes responses and frames. No state is
//! kept between calls except that of an unfinished request or message. Nothing here knows
//! connections, streams or sessions.
//!
//! - [`head`] parses the head of a request, [`body`] its body. Both are strict: input that two
//!   parsers could interpret differently is refused.
//! - [`table`] has a [`row`] for each path: the methods that it accepts, and its handler. A new
//!   path is a file and a row.
//! - [`handshake`] answers the opening handshake of a WebSocket, [`websocket`] that for XMPP;
//!   [`host_meta`] publishes its address. [`bosh`] is a stream in requests.
//! - [`response`] writes responses; [`status`] names what is wrong with a request.
//! - [`dialect`] has the protocols of channels of notifications, whose homes answer their requests.
//!   [`access`] decides who is authorized, [`keys`] which items replace each other. A [`prefix`]
//!   stands for many channels, and `feed_names` has the names under which shards follow it.
//! - [`push`] parses the registrations of pages for push messages while they are closed.
//! - [`inquiry`] has the questions to the operator's authorization service, and its answers.
//! - [`item`] parses an item as homes write it, for other protocols; [`form`] parses names and values.
//! - [`acme`] answers certificate authorities.
//! - [`throng_js`] has the client library for pages; [`chat_page`] has a page.
//! - [`frame`] assembles frames to messages; [`framed`] converts the output of a stream to messages
//!   (RFC 7395 3.3); [`open`] parses `<open/>`.

pub mod access;
pub mod acme;
pub mod body;
pub mod bosh;
pub mod chat_page;
pub mod dialect;
#[cfg(debug_assertions)]
pub mod echo;
pub(crate) mod feed_names;
pub mod file;
pub mod form;
pub mod forwarded;
pub mod frame;
pub mod framed;
pub mod handshake;
pub mod head;
pub mod host_meta;
pub mod inquiry;
pub mod item;
pub mod keys;
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

/// How the bytes of a connection are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Transport {
    /// An XML stream (RFC 6120 4).
    #[default]
    Stream,
    /// Requests and responses (RFC 9112).
    Http,
    /// An XML stream in the messages of a WebSocket (RFC 7395).
    WebSocket,
    /// The same after this side has sent its last frame (RFC 6455 5.5.1).
    Closed,
    /// An XML stream in the bodies of requests on other connections (XEP-0124).
    Bosh,
    /// A WebSocket that delivers items of channels. The output consists of complete frames.
    Channels,
    /// The same, on which the client sends commands of Centrifugo's protocol.
    Commands,
    /// A WebSocket that echoes messages.
    #[cfg(debug_assertions)]
    Echo,
}

impl Transport {
    /// Whether the output has to be framed.
    pub fn is_framed(self) -> bool {
        matches!(self, Transport::WebSocket | Transport::Closed)
    }

    /// Whether it is a WebSocket.
    pub fn is_websocket(self) -> bool {
        self.is_framed() || matches!(self, Transport::Channels | Transport::Commands)
    }
}

/// The unfinished input of a connection, apart from unread bytes.
#[derive(Debug)]
pub enum Begun {
    /// A head, of which this many bytes have been examined.
    Head(usize),
    /// A request whose body is being received.
    Request(Box<request::Awaited>),
    /// A message that is being received.
    Message(Box<frame::Assembly>),
}

/// The result of one step of reading.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The number of bytes consumed.
    pub used: usize,
    /// Another step may follow with the remaining bytes.
    pub goes_on: bool,
}

impl Begun {
    /// Memory used, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Begun::Head(_) => 0,
            Begun::Request(awaited) => awaited.bytes(),
            Begun::Message(message) => message.bytes().len(),
        }
    }
}
