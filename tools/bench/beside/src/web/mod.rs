//! The web side: what tells many subscribers of items, and one load for all of them.
//!
//! ```text
//! peers (a row a server) ──> ways (a row a protocol) ──> client (epoll) ──> items: counts, latencies
//! ```
//!
//! A protocol is one file here and one row where a server speaks it. [`Talk`] is what a subscriber says and reads; [`Publish`]
//! is how items get in. The [`client`] knows sockets and time and no protocol; the protocols know bytes and no sockets.

mod centrifugo;
pub(crate) mod client;
mod events;
mod http;
mod item;
mod mqtt;
mod nats;
pub(crate) mod peers;
mod poll;
mod websocket;

/// Why a connection is of no more use.
pub(crate) type Fault = String;

/// Most bytes of anything that is read as a whole.
const WHOLE_BYTES_MAX: usize = 256 << 10;

/// How far a subscriber's connection is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Stage {
    /// HTTP has answered: what comes is a stream.
    pub(crate) streams: bool,
    /// The server has said that it will tell of items.
    pub(crate) ready: bool,
}

/// What came is taken up to here, or it is not whole.
pub(crate) type Taken = Result<Option<usize>, Fault>;

/// One answer to a publisher is taken up to here, or it is not whole; and whether the server ends the connection behind it.
pub(crate) type Answered = Result<Option<(usize, bool)>, Fault>;

/// A subscriber's side of a protocol.
pub(crate) trait Talk: Sync {
    /// What it sends first.
    fn begin(&self, channel: &str, out: &mut Vec<u8>);

    /// Reads one unit of what came, answers it if it has to be, and tells the contents in it.
    ///
    /// # Errors
    /// What is wrong.
    fn read(
        &self,
        stage: &mut Stage,
        channel: &str,
        bytes: &[u8],
        out: &mut Vec<u8>,
        on_content: &mut dyn FnMut(&[u8]),
    ) -> Taken;

    /// Nobody says that such a subscriber waits: it does once it has asked.
    fn is_silent(&self) -> bool {
        false
    }
}

/// A publisher's side of a protocol.
pub(crate) trait Publish: Sync {
    /// What it sends first.
    fn begin(&self, _out: &mut Vec<u8>) {}

    /// One item.
    fn publish(&self, channel: &str, content: &str, out: &mut Vec<u8>);

    /// Each publication is answered, and only then the next is sent on this connection.
    fn is_answered(&self) -> bool;

    /// Reads one unit of what came, and answers it if it has to be. For publications that are answered: one answer.
    ///
    /// # Errors
    /// A refusal, or what is wrong.
    fn read(&self, bytes: &[u8], out: &mut Vec<u8>) -> Answered;
}
