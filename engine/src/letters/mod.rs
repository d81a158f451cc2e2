//! Messages between shards: one [`Letters`] per turn and destination, with many [`Letter`]s in it.
//!
//! All stanzas of a batch are in one buffer and all addresses in another, and letters point into
//! them. A stanza thus crosses shards without an allocation of its own, and a payload for many
//! receivers at a shard crosses once. Letters to the own shard take the same path. This module
//! knows the form of letters, not how they are handled.

mod bosh;
mod channel;
mod login;
mod node;
mod room;
mod user;
mod written;

use crate::extension::offline::{Keep, keep};
use crate::id::{ConnId, DomainId, Gate, SessionId, ShardId};
use crate::wire::Element;

pub use bosh::{BoshAsked, BoshLetter};
pub use channel::ChannelLetter;
pub use login::{Answer, Apply, Filing, Gained, Leave, LoginLetter, Question, Redeem, Settle, Shows};
pub use node::NodeLetter;
pub use room::RoomLetter;
pub use user::{PresenceNews, UserLetter};

/// A piece of a batch's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }

    /// The range, if it is one: a span that was read from another process may not be.
    fn checked(self) -> Option<std::ops::Range<usize>> {
        Some(self.start as usize..self.start.checked_add(self.len)? as usize)
    }

    /// The text that was appended since `start`.
    fn since(start: usize, end: usize) -> Span {
        let end = u32::try_from(end).expect("a turn's letters stay below 4 GiB");
        Span { start: start as u32, len: end - start as u32 }
    }
}

/// A piece of a batch's addresses, stored as characters so that they need not be validated again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Name(Span);

/// The session that waits for the confirmation of a stanza. It remains responsible for the stanza
/// until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Origin {
    /// The sender's home shard.
    pub shard: ShardId,
    /// The sender's session there.
    pub session: SessionId,
    /// The stanza's number in that session's inbound count (XEP-0198 4).
    pub seq: u32,
    /// The number of the entry in the sender's log that records the stanza; 0 for none. With
    /// [`AGAIN`], the receiver may have it since before a crash.
    pub entry: u64,
}

/// A bit in the number of a [`PresenceNews::Probe`]: the probing session has missed presence, and
/// is also told if the contact is unavailable.
pub const TELLS_GONE: u64 = 1 << 63;

/// A bit of [`Origin::entry`]: the stanza is repeated after a crash, and the receiver may already
/// have it.
pub const AGAIN: u64 = 1 << 63;

/// The three stanza kinds (RFC 6120 8.2) with the types that routing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// A message, and whether an absent receiver gets it later (XEP-0160 3, XEP-0334).
    Message {
        /// Its `type` attribute.
        class: MessageClass,
        /// Whether it may wait in the receiver's log, and is retained there.
        keep: Keep,
    },
    /// An IQ request, get or set.
    Request,
    /// An IQ result or error.
    Response,
    /// Presence sent to one address (RFC 6121 4.6).
    Directed {
        /// Whether its type is "unavailable".
        unavailable: bool,
    },
}

/// `type` of a message (RFC 6121 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MessageClass {
    /// `normal`, absent, or unknown.
    Normal,
    /// `chat`.
    Chat,
    /// `groupchat`.
    Groupchat,
    /// `headline`.
    Headline,
    /// `error`.
    Error,
}

impl MessageClass {
    /// Whether a message of this class and `type` waits for an absent receiver, and is retained.
    pub fn keeps(self, kind: &str, element: &Element<'_>) -> Keep {
        match self {
            MessageClass::Normal | MessageClass::Chat => keep(kind, element.children().map(|child| child.raw())),
            MessageClass::Headline | MessageClass::Groupchat | MessageClass::Error => Keep::Nothing,
        }
    }

    /// The class for a `type` attribute.
    pub fn of_type(kind: &str) -> MessageClass {
        match kind {
            "chat" => MessageClass::Chat,
            "groupchat" => MessageClass::Groupchat,
            "headline" => MessageClass::Headline,
            "error" => MessageClass::Error,
            _ => MessageClass::Normal,
        }
    }
}

/// One message from a shard to another.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Letter {
    /// A stanza for a user of this home, or for one of the user's sessions.
    Stanza {
        /// Kind and type.
        kind: Kind,
        /// The session to inform when the stanza is safe.
        origin: Option<Origin>,
        /// The sender's full JID.
        from: Name,
        /// The receiver's bare or full JID.
        to: Name,
        /// The complete stanza with `from` and `to` stamped, content namespace `jabber:client`,
        /// never self-closed.
        xml: Span,
    },
    /// The fate of a stanza, for the home of its sender.
    Delivery(Delivery),
    /// For users of this home.
    User(UserLetter),
    /// For nodes of services, and from them.
    Node(NodeLetter),
    /// For rooms of this home, and from them.
    Room(RoomLetter),
    /// For channels of this home, their watchers and publishers.
    Channel(ChannelLetter),
    /// For accounts of this home, and for connections that log in.
    Login(LoginLetter),
    /// For BOSH sessions, and for connections of their requests.
    Bosh(BoshLetter),
    /// The component of a domain has connected or disconnected.
    Component {
        /// The domain.
        domain: DomainId,
        /// Whether it is connected.
        there: bool,
    },
}

/// The fate of a stanza, for the home of its sender.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Delivery {
    /// The stanza `seq` of that session is safe.
    Confirm {
        /// The sender's session.
        session: SessionId,
        /// The stanza's number.
        seq: u32,
    },
    /// A component's connection has room for a stanza of that session. The stanza is no longer in
    /// flight, and is safe when [`Delivery::Safe`] arrives.
    Took {
        /// The sender's session.
        session: SessionId,
    },
    /// The network has taken the stanza `seq` of that session for a component.
    Safe {
        /// The sender's session.
        session: SessionId,
        /// The stanza's number.
        seq: u32,
    },
    /// A message was refused: the entry in its sender's log that records it is void.
    Refused {
        /// The sender's JID.
        from: Name,
        /// The entry's number.
        entry: u64,
    },
}

/// A connection of some shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ConnRef {
    /// The shard.
    pub shard: ShardId,
    /// The connection there.
    pub conn: ConnId,
}

impl ConnRef {
    /// Names no connection of a shard: no client waits there for an answer.
    pub fn nobody(shard: ShardId) -> ConnRef {
        ConnRef { shard, conn: ConnId { slot: u32::MAX, generation: 0 } }
    }
}

const _: () = assert!(size_of::<Letter>() <= 80, "all letters are as large as the largest");

/// The letters of one turn from one shard to another.
#[derive(Clone, Debug, Default)]
pub struct Letters {
    /// The sender.
    pub from: ShardId,
    /// What the sender's state of this turn depends on. No consequence of the batch leaves the
    /// process before that is durable.
    pub after: Gate,
    text: Vec<u8>,
    names: String,
    letters: Vec<Letter>,
    expects: Expects,
}

/// The expected size of a batch: nearly that of the largest recent ones, because batches with
/// messages and batches with their confirmations alternate. All memory is allocated with the first
/// letter.
#[derive(Clone, Copy, Debug, Default)]
struct Expects {
    text: usize,
    names: usize,
    letters: usize,
}

/// Maximum memory that is allocated in advance: bytes of text and addresses, and letters.
const EXPECTS_MAX: Expects = Expects { text: 64 << 10, names: 32 << 10, letters: 512 };

/// Memory that is retained for a shard's letters to itself.
const ROOM: Expects = Expects { text: 16 << 10, names: 8 << 10, letters: 128 };

impl Letters {
    /// Creates an empty batch of a sender.
    pub fn new(from: ShardId) -> Letters {
        Letters { from, ..Letters::default() }
    }

    /// Takes the letters out. The remaining batch expects as many again.
    pub fn take(&mut self) -> Letters {
        let likely = |len: usize, expected: usize, max: usize| len.max(expected - expected.div_ceil(8)).min(max);
        let expects = Expects {
            text: likely(self.text.len(), self.expects.text, EXPECTS_MAX.text),
            names: likely(self.names.len(), self.expects.names, EXPECTS_MAX.names),
            letters: likely(self.letters.len(), self.expects.letters, EXPECTS_MAX.letters),
        };
        std::mem::replace(self, Letters { expects, ..Letters::new(self.from) })
    }

    /// Creates an empty batch with room for the letters of an ordinary turn.
    pub fn roomy(from: ShardId) -> Letters {
        let mut batch = Letters::new(from);
        batch.text.reserve_exact(ROOM.text);
        batch.names.reserve_exact(ROOM.names);
        batch.letters.reserve_exact(ROOM.letters);
        batch
    }

    /// Turns a batch that has been read into an empty one. It retains as much memory as
    /// [`Letters::roomy`] allocates, whatever it contained.
    pub fn recycle(mut self) -> Letters {
        self.text.clear();
        self.names.clear();
        self.letters.clear();
        let kept = (self.text.capacity(), self.names.capacity(), self.letters.capacity());
        match kept == (ROOM.text, ROOM.names, ROOM.letters) {
            true => self,
            false => Letters::roomy(self.from),
        }
    }

    /// Takes the memory of an empty batch, if this one is still empty.
    pub fn take_memory(&mut self, empty: Letters) {
        if self.is_empty() {
            (self.text, self.names, self.letters) = (empty.text, empty.names, empty.letters);
        }
    }

    /// Whether there are no letters.
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// Number of letters.
    pub fn len(&self) -> usize {
        self.letters.len()
    }

    /// Bytes of text and addresses.
    pub fn text_bytes(&self) -> usize {
        self.text.len() + self.names.len()
    }

    /// The letters in the order in which they were written.
    pub fn letters(&self) -> &[Letter] {
        &self.letters
    }

    /// Appends text and returns its span.
    pub fn write(&mut self, text: &[u8]) -> Span {
        self.write_with(|out| out.extend_from_slice(text))
    }

    /// Appends the text that `fill` writes, and returns its span.
    pub fn write_with(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Span {
        if self.text.capacity() == 0 {
            self.text.reserve(self.expects.text);
        }
        let start = self.text.len();
        fill(&mut self.text);
        Span::since(start, self.text.len())
    }

    /// Appends an address or a part of one, and returns its span.
    pub fn name(&mut self, name: &str) -> Name {
        if self.names.capacity() == 0 {
            self.names.reserve(self.expects.names);
        }
        let start = self.names.len();
        self.names.push_str(name);
        Name(Span::since(start, self.names.len()))
    }

    /// Appends a letter whose spans were written to this batch.
    pub fn push(&mut self, letter: Letter) {
        if self.letters.capacity() == 0 {
            self.letters.reserve(self.expects.letters);
        }
        self.letters.push(letter);
    }

    /// Returns the bytes of a span.
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.text[span.range()]
    }

    /// Returns an address.
    pub fn str(&self, name: Name) -> &str {
        &self.names[name.0.range()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        let mut batch = Letters::new(ShardId(3));
        let a = batch.name("romeo@localhost/orchard");
        let b = batch.write_with(|out| out.extend_from_slice(b"<presence/>"));
        let c = batch.name("\u{e9}t\u{e9}");
        assert_eq!(batch.str(a), "romeo@localhost/orchard");
        assert_eq!(batch.bytes(b), b"<presence/>");
        assert_eq!(batch.str(c), "\u{e9}t\u{e9}");
        assert_eq!(batch.text_bytes(), 39);
    }
}
