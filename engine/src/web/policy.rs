//! The operator's policy for HTTP and WebSocket.

use std::sync::Arc;

use super::access::Access;
use super::push::Push;

/// The policy, shared by all shards of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Origins whose pages may connect (RFC 6454), in lower case; `None` for any.
    pub origins: Option<Box<[Box<str>]>>,
    /// The public `wss` address of the WebSocket; `None` for the host of the request.
    pub websocket_url: Option<Box<str>>,
    /// The public `https` address of BOSH (XEP-0124); `None` for the host of the request.
    pub bosh_url: Option<Box<str>>,
    /// Clients without TLS are proxies, which report the address of the actual client.
    pub forwarded: bool,
    /// The chat page is served.
    pub chat_page: bool,
    /// The challenge that a certificate authority is asking for, if any.
    pub challenge: Option<Challenge>,
    /// The policy for channels of notifications.
    pub channels: Channels,
    /// Tests use an echo of WebSocket messages.
    #[cfg(debug_assertions)]
    pub echo: bool,
}

impl Policy {
    /// Whether a page of this origin may connect; clients that are not pages have none.
    pub fn allows(&self, origin: Option<&str>) -> bool {
        match (&self.origins, origin) {
            (None, _) | (_, None) => true,
            (Some(origins), Some(origin)) => origins.iter().any(|own| own.eq_ignore_ascii_case(origin)),
        }
    }

    /// Whether the operator has listed this origin explicitly.
    pub fn lists(&self, origin: &str) -> bool {
        self.origins.is_some() && self.allows(Some(origin))
    }
}

/// The path of challenges, before the token.
pub const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// A challenge of a certificate authority (RFC 8555 8.3), while an order is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The authority's token, the end of the path.
    pub token: Box<str>,
    /// The key authorization, which is the response (RFC 8555 8.1).
    pub answer: Box<str>,
}

impl Challenge {
    /// Whether this path asks for it.
    pub fn is_at(&self, path: &str) -> bool {
        path.strip_prefix(CHALLENGES) == Some(&*self.token)
    }
}

/// The operator's policy for channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Prefixes of public channels. Without one there are none; the empty prefix covers all names.
    pub prefixes: Box<[Box<str>]>,
    /// Prefixes of channels that need a token, whatever `prefixes` contains.
    pub private: Box<[Box<str>]>,
    /// Prefixes of channels that report their subscribers.
    pub occupancy: Box<[Box<str>]>,
    /// Prefixes below which clients may subscribe to prefixes, that is, to all channels whose names
    /// begin with one.
    pub wildcards: Box<[Box<str>]>,
    /// Prefixes of channels whose items are stored in memory and not on disk.
    pub in_memory: Box<[Box<str>]>,
    /// Limit on the memory of these items per shard, in bytes.
    pub in_memory_bytes: usize,
    /// Channels about which the authorization service is asked.
    pub asks: Asks,
    /// Everybody may publish at public channels.
    pub publish_open: bool,
    /// Channels are available as topics of Mercure.
    pub mercure: bool,
    /// Channels are available by Centrifugo's protocol.
    pub centrifugo: bool,
    /// Channels are available by Nchan's protocol.
    pub nchan: bool,
    /// The operator's token, which allows its bearer to publish at all channels.
    pub token: Option<Token>,
    /// The keys and rules for tokens of issuers; `None` if there are none.
    pub access: Option<Arc<Access>>,
    /// Settings for push messages; `None` if they are disabled.
    pub push: Option<Arc<Push>>,
    /// Items retained by a channel that a publication here creates; at most
    /// [`NOTIFY_ITEMS_MAX`](crate::limits::NOTIFY_ITEMS_MAX).
    pub items_max: u32,
    /// How long such a channel retains an item, in seconds; 0 for ever.
    pub items_s: u32,
    /// Limit on the waiting requests per address (for IPv6 per /64).
    pub waiting_max: u32,
    /// Limit on the publications per address and second, averaged over time; 0 for no limit.
    pub publications_s: u32,
}

impl Default for Channels {
    fn default() -> Channels {
        Channels {
            prefixes: Box::default(),
            private: Box::default(),
            occupancy: Box::default(),
            wildcards: Box::default(),
            in_memory: Box::default(),
            in_memory_bytes: 64 << 20,
            asks: Asks::default(),
            publish_open: false,
            mercure: false,
            centrifugo: false,
            nchan: false,
            token: None,
            access: None,
            push: None,
            items_max: 100,
            items_s: 86_400,
            waiting_max: 10_000,
            publications_s: 20,
        }
    }
}

impl Channels {
    /// Whether homes are notified promptly of subscribers that leave, because publishers are
    /// answered how many there are.
    pub fn counts_subscribers(&self) -> bool {
        self.nchan
    }

    /// Whether any channels are offered.
    pub fn any(&self) -> bool {
        !(self.prefixes.is_empty() && self.private.is_empty() && self.asks.prefixes.is_empty())
    }

    /// Whether a channel of this name is offered, public or private.
    pub fn is_there(&self, name: &str) -> bool {
        begins(&self.prefixes, name) || self.is_private(name)
    }

    /// Whether a channel of this name is private: it needs a token or a permission of the
    /// authorization service.
    pub fn is_private(&self, name: &str) -> bool {
        begins(&self.private, name) || self.asks(name)
    }

    /// Whether the authorization service is asked about a channel of this name.
    pub fn asks(&self, name: &str) -> bool {
        begins(&self.asks.prefixes, name)
    }

    /// Whether a channel of this name reports its subscribers.
    pub fn tells(&self, name: &str) -> bool {
        begins(&self.occupancy, name)
    }

    /// Whether a node, `service/name`, is a channel whose items are stored in memory.
    pub fn keeps_in_memory(&self, actor: &str) -> bool {
        !self.in_memory.is_empty() && actor.split_once('/').is_some_and(|(_, name)| begins(&self.in_memory, name))
    }

    /// Whether clients may subscribe to a prefix.
    pub fn takes_prefix(&self, prefix: &str) -> bool {
        begins(&self.wildcards, prefix)
    }

    /// Whether any channel below this prefix may be offered.
    pub fn has_some(&self, prefix: &str) -> bool {
        self.has_private(prefix)
            || begins(&self.prefixes, prefix)
            || self.prefixes.iter().any(|own| own.starts_with(prefix))
    }

    /// Whether any channel below this prefix may be private.
    pub fn has_private(&self, prefix: &str) -> bool {
        self.is_private(prefix) || self.private.iter().chain(&self.asks.prefixes).any(|own| own.starts_with(prefix))
    }
}

/// The operator's settings for the authorization service (`notify_ask_url`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// Prefixes of the channels that it decides about.
    pub prefixes: Box<[Box<str>]>,
    /// Header fields of a request that it is sent, by lower-case name, without duplicates.
    pub fields: Box<[Box<str>]>,
    /// Limit on the questions per address and second, averaged over time; 0 for no limit.
    pub questions_s: u32,
}

impl Asks {
    /// Whether it is sent cookies.
    pub fn takes_cookies(&self) -> bool {
        self.fields.iter().any(|name| **name == *"cookie")
    }
}

fn begins(prefixes: &[Box<str>], name: &str) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(&**prefix))
}

/// The operator's token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub Box<str>);

impl Token {
    /// Compares a token in time that does not depend on the content.
    pub fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        let differing = own.iter().zip(shown).fold(0, |all, (own, shown)| all | (own ^ shown));
        own.len() == shown.len() && differing == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}
