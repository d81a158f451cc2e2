//! What shards say to each other: one [`Letters`] a turn and destination, many [`Letter`]s in it.
//!
//! All stanzas of a batch stand in one buffer, all addresses in another, and letters point into them, so that a stanza crosses
//! shards without an allocation of its own and a payload that goes to many receivers of a shard crosses once. Letters to the own
//! shard take the same way. This module knows the form of letters, not what is done about them.

mod bosh;
mod channel;
mod login;
mod node;
mod user;

use crate::extension::offline::Keep;
use crate::id::{ConnId, DomainId, Gate, SessionId, ShardId};

pub use bosh::{BoshAsked, BoshLetter};
pub use channel::ChannelLetter;
pub use login::{Answer, Apply, Filing, Gained, Leave, LoginLetter, Question, Redeem, Settle, Shows};
pub use node::NodeLetter;
pub use user::{PresenceNews, UserLetter};

/// A piece of a batch's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.len) as usize
    }

    /// Of what has been appended behind `start`.
    fn since(start: usize, end: usize) -> Span {
        let end = u32::try_from(end).expect("a turn's letters stay below 4 GiB");
        Span { start: start as u32, len: end - start as u32 }
    }
}

/// A piece of a batch's addresses: kept as characters, so that nobody checks them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Name(Span);

/// Who waits for the confirmation of a stanza: responsibility stays with the sender's session until it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The sender's home shard.
    pub shard: ShardId,
    /// The sender's session there.
    pub session: SessionId,
    /// The stanza's number in that session's inbound count (XEP-0198 4).
    pub seq: u32,
    /// The number of the entry in the sender's log that says that it was sent; 0 if none does. With [`AGAIN`], the receiver may
    /// have it since before a crash.
    pub entry: u64,
}

/// A bit of the number of a [`PresenceNews::Probe`]: whoever asks has missed presence, and is told, too, that nobody is there.
pub const TELLS_GONE: u64 = 1 << 63;

/// A bit of [`Origin::entry`]: it is sent again after a crash, and nobody knows whether the receiver has it already.
pub const AGAIN: u64 = 1 << 63;

/// The three stanza kinds (RFC 6120 8.2) with the types that routing asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message, and whether an absent receiver gets it later (XEP-0160 3, XEP-0334).
    Message {
        /// Its `type` attribute.
        class: MessageClass,
        /// Whether it may wait in the receiver's log, and stay there.
        keep: Keep,
    },
    /// An IQ request, get or set.
    Request,
    /// An IQ result or error.
    Response,
    /// Presence sent to one address (RFC 6121 4.6).
    Directed {
        /// Whether it says "unavailable".
        unavailable: bool,
    },
}

/// `type` of a message (RFC 6121 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageClass {
    /// `normal`, or none, or one not known.
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
    /// That of a `type` attribute.
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

/// One thing that a shard tells another.
#[derive(Clone, Debug, PartialEq)]
pub enum Letter {
    /// A stanza for the user, or one session of the user, at this home.
    Stanza {
        /// Kind and type.
        kind: Kind,
        /// Whom to tell that the stanza is in safe hands.
        origin: Option<Origin>,
        /// The sender's full JID.
        from: Name,
        /// The receiver's bare or full JID.
        to: Name,
        /// The whole stanza with `from` and `to` stamped, content namespace `jabber:client`, never self-closed.
        xml: Span,
    },
    /// What has become of a stanza, for the home of its sender.
    Delivery(Delivery),
    /// For users of this home.
    User(UserLetter),
    /// For nodes of services, and from them.
    Node(NodeLetter),
    /// For channels of this home, their watchers and those who publish.
    Channel(ChannelLetter),
    /// For accounts of this home, and for connections that log in.
    Login(LoginLetter),
    /// For sessions of BOSH, and for connections of their requests.
    Bosh(BoshLetter),
    /// The component of a domain has come, or has gone.
    Component {
        /// The domain.
        domain: DomainId,
        /// It is there.
        there: bool,
    },
}

/// What has become of a stanza, for the home of its sender.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// The stanza `seq` of that session is in safe hands.
    Confirm {
        /// The sender's session.
        session: SessionId,
        /// The stanza's number.
        seq: u32,
    },
    /// A component's connection has room for a stanza of that session: it is under way no more, and in safe hands when
    /// [`Delivery::Safe`] comes.
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
    /// A message was refused: the entry of its sender's log that says that it was sent is void.
    Refused {
        /// The sender's JID.
        from: Name,
        /// The entry's number.
        entry: u64,
    },
}

/// A connection of some shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnRef {
    /// The shard.
    pub shard: ShardId,
    /// The connection there.
    pub conn: ConnId,
}

impl ConnRef {
    /// No connection of a shard: nobody waits there for an answer.
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
    /// What the sender's state of this turn rests on; nothing that follows from the batch leaves the process before it.
    pub after: Gate,
    /// Its place among those from this sender to this receiver, which count from 1: what comes again is not read again.
    pub number: u64,
    text: Vec<u8>,
    names: String,
    letters: Vec<Letter>,
    expects: Expects,
}

/// How large a batch is likely to become: nearly as large as the largest of those shortly before it, because batches with messages and
/// batches with their confirmations alternate. Memory is taken with the first letter, at once.
#[derive(Clone, Copy, Debug, Default)]
struct Expects {
    text: usize,
    names: usize,
    letters: usize,
}

/// No more memory than this is taken before it is needed, bytes of text and addresses, and letters.
const EXPECTS_MAX: Expects = Expects { text: 64 << 10, names: 32 << 10, letters: 512 };

/// What is kept for a shard's letters to itself.
const ROOM: Expects = Expects { text: 16 << 10, names: 8 << 10, letters: 128 };

impl Letters {
    /// An empty batch of a sender.
    pub fn new(from: ShardId) -> Letters {
        Letters { from, ..Letters::default() }
    }

    /// Takes the letters out under the next number; what stays expects as much again.
    pub fn take(&mut self) -> Letters {
        self.number += 1;
        let likely = |len: usize, expected: usize, max: usize| len.max(expected - expected.div_ceil(8)).min(max);
        let expects = Expects {
            text: likely(self.text.len(), self.expects.text, EXPECTS_MAX.text),
            names: likely(self.names.len(), self.expects.names, EXPECTS_MAX.names),
            letters: likely(self.letters.len(), self.expects.letters, EXPECTS_MAX.letters),
        };
        std::mem::replace(self, Letters { expects, number: self.number, ..Letters::new(self.from) })
    }

    /// An empty batch with room for the letters of an ordinary turn.
    pub fn roomy(from: ShardId) -> Letters {
        let mut batch = Letters::new(from);
        batch.text.reserve_exact(ROOM.text);
        batch.names.reserve_exact(ROOM.names);
        batch.letters.reserve_exact(ROOM.letters);
        batch
    }

    /// An empty batch in the memory of one that has been read: as much as [`Letters::roomy`] takes, whatever was in it.
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

    /// Takes the memory of an empty batch, if this one says nothing yet.
    pub fn take_memory(&mut self, empty: Letters) {
        if self.is_empty() {
            (self.text, self.names, self.letters) = (empty.text, empty.names, empty.letters);
        }
    }

    /// Whether it says nothing.
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

    /// Adds text and names it.
    pub fn write(&mut self, text: &[u8]) -> Span {
        self.write_with(|out| out.extend_from_slice(text))
    }

    /// Adds text that `fill` appends, and names it.
    pub fn write_with(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Span {
        if self.text.capacity() == 0 {
            self.text.reserve(self.expects.text);
        }
        let start = self.text.len();
        fill(&mut self.text);
        Span::since(start, self.text.len())
    }

    /// Adds an address, or a part of one, and names it.
    pub fn name(&mut self, name: &str) -> Name {
        if self.names.capacity() == 0 {
            self.names.reserve(self.expects.names);
        }
        let start = self.names.len();
        self.names.push_str(name);
        Name(Span::since(start, self.names.len()))
    }

    /// Adds a letter whose spans were written to this batch.
    pub fn push(&mut self, letter: Letter) {
        if self.letters.capacity() == 0 {
            self.letters.reserve(self.expects.letters);
        }
        self.letters.push(letter);
    }

    /// The bytes of a piece.
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.text[span.range()]
    }

    /// An address.
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
