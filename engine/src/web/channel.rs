//! What may be asked of channels of notifications, as data.

use std::borrow::Cow;
use std::sync::Arc;

use super::access::Act;
use super::access::shown::Shown;
use super::handshake::Accept;
use super::inquiry::Sent;
use super::mercure::selector::Selectors;
use super::nchan::info::Format;
use super::nchan::subscription::Subscription;
use super::push;
use crate::id::PushId;

/// What is asked of channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Of which: one, if it is a publication; each once, at most [`NOTIFY_CHANNELS_MAX`](crate::limits::NOTIFY_CHANNELS_MAX).
    pub channels: Vec<Place>,
    /// What.
    pub wish: Wish,
    /// Who takes all items wants to be told as well who subscribes to the channels, and of each change of that.
    pub occupancy: bool,
    /// Who takes the items has this registration for pushes, which is told nothing meanwhile.
    pub push: Option<PushId>,
    /// What shows that the client may.
    pub shown: Shown,
    /// What whoever the operator has named is told of the request, if they are asked.
    pub sent: Sent,
    /// Header fields of the answer, for pages of other origins.
    pub fields: Vec<(&'static str, Cow<'static, str>)>,
}

impl Asked {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let places = self.channels.iter().map(|place| place.channel.len() + place.after.bytes() + size_of::<Place>());
        let wish = match &self.wish {
            Wish::Publish(publication) => {
                let keys = publication.keys.iter().map(|key| key.len() + size_of::<Box<str>>());
                publication.body.len() + publication.kind.len() + keys.sum::<usize>()
            }
            Wish::Updates(id, selectors) => id.as_ref().map_or(0, |id| id.len()) + selectors.memory_bytes(),
            Wish::Register(subscription) => size_of::<push::Subscription>() + subscription.endpoint.len(),
            Wish::Nchan(wants) => wants.from.as_ref().map_or(0, |(_, tag)| tag.len()),
            _ => 0,
        };
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len());
        size_of::<Asked>() + places.sum::<usize>() + wish + fields.sum::<usize>() + self.sent.bytes()
    }
}

/// A channel, and the place in it from which items are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name; with a `*` behind it, all channels that begin so.
    pub channel: Box<str>,
    /// Which items are wanted.
    pub after: After,
}

/// From where items are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Those that are published from now on.
    Now,
    /// Those behind the one of this number.
    Number(u64),
    /// Of a prefix, those behind these numbers, one of each home.
    Numbers(Box<[u64]>),
    /// The same, if the place was one among what needs a token, or among what does not; of the other kind it says nothing.
    Among(bool, Box<[u64]>),
}

impl After {
    /// Bytes that it takes beside itself.
    fn bytes(&self) -> usize {
        if let After::Numbers(numbers) | After::Among(_, numbers) = self { size_of_val(&**numbers) } else { 0 }
    }
}

impl From<Option<u64>> for After {
    fn from(number: Option<u64>) -> After {
        number.map_or(After::Now, After::Number)
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// An item is to be published.
    Publish(Publication),
    /// The next items, for which the client waits so many seconds.
    Poll(u32),
    /// All items, as server-sent events.
    Stream,
    /// All items, as events of Mercure; of those below prefixes no more than selectors mean. Who goes on where it was is told by which
    /// identifier, if nothing is missing.
    Updates(Option<Box<str>>, Arc<Selectors>),
    /// All items, as messages of a WebSocket, whose opening handshake is answered with this; or, if it says so, as binary ones.
    Socket(Box<Accept>, bool),
    /// What a subscriber of Nchan wants.
    Nchan(Subscription),
    /// Who subscribes to the one channel.
    Occupancy,
    /// A page registers at the one channel for pushes.
    Register(Box<push::Subscription>),
    /// It does not want them any more.
    Unregister(PushId),
    /// What publishers are told of the one channel by Nchan's protocol; and it is emptied, or not.
    Info(Format, bool),
}

impl Wish {
    /// What is done at the channels.
    pub fn act(&self) -> Act {
        match self {
            Wish::Publish(_) | Wish::Info(..) => Act::Publish,
            Wish::Poll(_)
            | Wish::Stream
            | Wish::Updates(..)
            | Wish::Socket(..)
            | Wish::Nchan(_)
            | Wish::Register(_)
            | Wish::Unregister(_) => Act::Subscribe,
            Wish::Occupancy => Act::Presence,
        }
    }
}

/// An item that is to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Its content type as it was said.
    pub kind: Box<str>,
    /// What the publisher knows the publication by: it is not published a second time.
    pub key: Option<Box<str>>,
    /// Of each item the key by which it replaces the one before, 1 to [`NOTIFY_KEY_BYTES_MAX`](crate::limits::NOTIFY_KEY_BYTES_MAX)
    /// visible characters of ASCII; none of any if it is empty.
    pub keys: Vec<Box<str>>,
    /// It is a batch of so many items, which are its [`lines`]: at most
    /// [`NOTIFY_BATCH_ITEMS_MAX`](crate::limits::NOTIFY_BATCH_ITEMS_MAX); `None`: one item.
    pub batch: Option<usize>,
    /// How it is answered.
    pub answered: Answered,
    /// The content.
    pub body: Vec<u8>,
}

/// What a publisher is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The number of the item.
    Item,
    /// The identifier of the update, by Mercure.
    Update,
    /// What there is to tell of the channel, by Nchan's protocol.
    Info(Format),
}

/// The items of a batch: lines, of which each is JSON. What is empty is none.
pub fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}
