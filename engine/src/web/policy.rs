//! What an operator may want of HTTP and WebSocket.

/// It, the same for all shards of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Pages of these origins may connect (RFC 6454), in lower case; `None`: those of any.
    pub origins: Option<Box<[Box<str>]>>,
    /// Where clients reach the WebSocket, a `wss` address; `None`: where they have asked.
    pub websocket_url: Option<Box<str>>,
    /// Where clients reach BOSH (XEP-0124), an `https` address; `None`: where they have asked.
    pub bosh_url: Option<Box<str>>,
    /// Who connects in the clear is a proxy, and says for whom.
    pub forwarded: bool,
}

impl Policy {
    /// Whether a page of this origin may connect; who is no page has none.
    pub fn allows(&self, origin: Option<&str>) -> bool {
        match (&self.origins, origin) {
            (None, _) | (_, None) => true,
            (Some(origins), Some(origin)) => origins.iter().any(|own| own.eq_ignore_ascii_case(origin)),
        }
    }
}
