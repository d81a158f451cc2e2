//! What an operator may want of HTTP and WebSocket.

use std::sync::Arc;

use super::access::Access;
use super::push::Push;

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
    /// Channels of notifications.
    pub channels: Channels,
    /// Tests want an echo of the messages of WebSockets.
    #[cfg(debug_assertions)]
    pub echo: bool,
}

impl Policy {
    /// Whether a page of this origin may connect; who is no page has none.
    pub fn allows(&self, origin: Option<&str>) -> bool {
        match (&self.origins, origin) {
            (None, _) | (_, None) => true,
            (Some(origins), Some(origin)) => origins.iter().any(|own| own.eq_ignore_ascii_case(origin)),
        }
    }

    /// Whether the operator has named this origin.
    pub fn lists(&self, origin: &str) -> bool {
        self.origins.is_some() && self.allows(Some(origin))
    }
}

/// What an operator wants of channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Channels whose names begin so are open to everybody; without one there are none, and an empty one is of all.
    pub prefixes: Box<[Box<str>]>,
    /// Channels whose names begin so are there for those who have a token for them, whatever `prefixes` says.
    pub private: Box<[Box<str>]>,
    /// Channels whose names begin so tell who subscribes to them.
    pub occupancy: Box<[Box<str>]>,
    /// Prefixes that begin so may be subscribed to: all channels at once whose names begin with one.
    pub wildcards: Box<[Box<str>]>,
    /// Channels whose names begin so keep their items in memory, and not on disk.
    pub in_memory: Box<[Box<str>]>,
    /// What these items take at most at one shard, bytes.
    pub in_memory_bytes: usize,
    /// Of which channels others are asked who may.
    pub asks: Asks,
    /// Everybody may publish at those that are open.
    pub publish_open: bool,
    /// They are topics of Mercure, too.
    pub mercure: bool,
    /// Clients of Centrifugo's protocol have them, too.
    pub centrifugo: bool,
    /// Clients of Nchan's protocol have them, too.
    pub nchan: bool,
    /// Who shows this may publish at all.
    pub token: Option<Token>,
    /// What tokens of others are held against that grant some channels; `None`: there are no such tokens.
    pub access: Option<Arc<Access>>,
    /// Pages may register for pushes; `None`: there are none.
    pub push: Option<Arc<Push>>,
    /// Most items that a channel keeps which is made by a publication here; at most
    /// [`NOTIFY_ITEMS_MAX`](crate::limits::NOTIFY_ITEMS_MAX).
    pub items_max: u32,
    /// For how long it keeps each, seconds; 0 for ever.
    pub items_s: u32,
    /// Most requests of one address (IPv6: of its /64) that wait at once.
    pub waiting_max: u32,
    /// Publications a second of one address, in the long run; 0 for any number.
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
    /// Whether there are any.
    pub fn any(&self) -> bool {
        !(self.prefixes.is_empty() && self.private.is_empty() && self.asks.prefixes.is_empty())
    }

    /// Whether a channel of this name is there, for everybody or for some.
    pub fn is_there(&self, name: &str) -> bool {
        begins(&self.prefixes, name) || self.is_private(name)
    }

    /// Whether a channel of this name is not for everybody: it needs a token, or others are asked.
    pub fn is_private(&self, name: &str) -> bool {
        begins(&self.private, name) || self.asks(name)
    }

    /// Whether others are asked who may at a channel of this name.
    pub fn asks(&self, name: &str) -> bool {
        begins(&self.asks.prefixes, name)
    }

    /// Whether a channel of this name tells who subscribes to it.
    pub fn tells(&self, name: &str) -> bool {
        begins(&self.occupancy, name)
    }

    /// Whether a node of a service, `service/name`, is a channel that keeps its items in memory.
    pub fn keeps_in_memory(&self, actor: &str) -> bool {
        !self.in_memory.is_empty() && actor.split_once('/').is_some_and(|(_, name)| begins(&self.in_memory, name))
    }

    /// Whether a prefix may be subscribed to.
    pub fn takes_prefix(&self, prefix: &str) -> bool {
        begins(&self.wildcards, prefix)
    }

    /// Whether a channel whose name begins so may be there.
    pub fn has_some(&self, prefix: &str) -> bool {
        self.has_private(prefix)
            || begins(&self.prefixes, prefix)
            || self.prefixes.iter().any(|own| own.starts_with(prefix))
    }

    /// Whether a channel whose name begins so may be not for everybody.
    pub fn has_private(&self, prefix: &str) -> bool {
        self.is_private(prefix) || self.private.iter().chain(&self.asks.prefixes).any(|own| own.starts_with(prefix))
    }
}

/// What an operator wants who is asked itself, or has others asked, whether something may be done at channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// About channels whose names begin so.
    pub prefixes: Box<[Box<str>]>,
    /// It is told of these header fields of a request; names in lower case, each once.
    pub fields: Box<[Box<str>]>,
    /// Questions a second for one address, in the long run; 0 for any number.
    pub questions_s: u32,
}

impl Asks {
    /// Whether it is told of cookies.
    pub fn takes_cookies(&self) -> bool {
        self.fields.iter().any(|name| **name == *"cookie")
    }
}

fn begins(prefixes: &[Box<str>], name: &str) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(&**prefix))
}

/// What publishers have to show.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub Box<str>);

impl Token {
    /// Whether this is it. How long that takes says nothing about what is in it.
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
