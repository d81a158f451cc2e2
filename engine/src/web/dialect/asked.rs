//! Requests for channels of notifications, as data.

use std::borrow::Cow;

use crate::id::PushId;
use crate::web::access::Act;
use crate::web::access::shown::Shown;
use crate::web::dialect::{Dialect as _, Publisher, Subscriber, Way};
use crate::web::inquiry::Sent;
use crate::web::push;
use crate::web::response::Response;
use crate::web::status::Status;

/// A request for channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The channels: exactly one for a publication; without duplicates, at most
    /// [`NOTIFY_CHANNELS_MAX`](crate::limits::NOTIFY_CHANNELS_MAX).
    pub channels: Vec<Place>,
    /// The requested operation.
    pub wish: Wish,
    /// A streaming subscriber also wants the subscribers of the channels, and each change to them.
    pub occupancy: bool,
    /// The subscriber's registration for push messages, which gets none meanwhile.
    pub push: Option<PushId>,
    /// The credentials of the client.
    pub shown: Shown,
    /// What the operator's authorization service is sent about the request, if it is asked.
    pub sent: Sent,
    /// Header fields of the response, for pages of other origins.
    pub fields: Vec<(&'static str, Cow<'static, str>)>,
}

/// The response to a request that is not carried out.
pub type Refused = Box<Response>;

/// Refuses a request, with a sentence that says why.
///
/// # Errors
/// Always.
pub fn refuse<T>(status: Status, text: &'static str) -> Result<T, Refused> {
    Err(Box::new(Response::text(status, text)))
}

/// Refuses a malformed request.
///
/// # Errors
/// Always.
pub fn bad<T>(text: &'static str) -> Result<T, Refused> {
    refuse(Status::BadRequest, text)
}

impl Asked {
    /// A request for these channels. The table of paths adds what all paths have in common.
    pub fn of(channels: Vec<Place>, wish: Wish, shown: Shown) -> Asked {
        Asked { channels, wish, occupancy: false, push: None, shown, sent: Sent::default(), fields: Vec::new() }
    }

    /// Memory used, in bytes.
    pub fn bytes(&self) -> usize {
        let places = self.channels.iter().map(|place| place.channel.len() + place.after.bytes() + size_of::<Place>());
        let wish = match &self.wish {
            Wish::Publish(publication) => {
                let keys = publication.keys.iter().map(|key| key.len() + size_of::<Box<str>>());
                publication.body.len() + publication.kind.len() + keys.sum::<usize>()
            }
            Wish::Subscribe(own, _) => own.memory_bytes(),
            Wish::Register(subscription) => size_of::<push::Subscription>() + subscription.endpoint.len(),
            _ => 0,
        };
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len());
        size_of::<Asked>() + places.sum::<usize>() + wish + fields.sum::<usize>() + self.sent.bytes()
    }
}

/// A channel, and the position in it after which items are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The channel's name; with a trailing `*`, all channels whose names begin with the rest.
    pub channel: Box<str>,
    /// The position after which items are wanted.
    pub after: After,
}

/// The position after which items are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Only items published from now on.
    Now,
    /// Items after the one with this number.
    Number(u64),
    /// Of a prefix: items after these numbers, one per home.
    Numbers(Box<[u64]>),
    /// The same for a position in a feed with (`true`) or without private channels. It is not valid
    /// for the other kind of feed.
    Among(bool, Box<[u64]>),
}

impl After {
    /// Heap memory used, in bytes.
    fn bytes(&self) -> usize {
        if let After::Numbers(numbers) | After::Among(_, numbers) = self { size_of_val(&**numbers) } else { 0 }
    }
}

impl From<Option<u64>> for After {
    fn from(number: Option<u64>) -> After {
        number.map_or(After::Now, After::Number)
    }
}

/// The operation of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Publish an item.
    Publish(Publication),
    /// Wait for items, in the words of a dialect; a poll for so many seconds.
    Subscribe(Subscriber, u32),
    /// Query the subscribers of the channel.
    Occupancy,
    /// Register a page at the channel for push messages.
    Register(Box<push::Subscription>),
    /// Remove such a registration.
    Unregister(PushId),
    /// Query the channel's information; `true` to delete its items as well.
    Info(Publisher, bool),
}

impl Wish {
    /// The right that the operation needs.
    pub fn act(&self) -> Act {
        match self {
            Wish::Publish(_) | Wish::Info(..) => Act::Publish,
            Wish::Subscribe(..) | Wish::Register(_) | Wish::Unregister(_) => Act::Subscribe,
            Wish::Occupancy => Act::Presence,
        }
    }

    /// Whether items of private channels are checked one by one.
    pub fn selects(&self) -> bool {
        matches!(self, Wish::Subscribe(own, _) if own.selects())
    }

    /// Whether it deletes the channel's items.
    pub fn deletes(&self) -> bool {
        matches!(self, Wish::Info(_, true))
    }

    /// Whether it waits for new items: for as long as the connection is open, or as a poll.
    pub fn waits(&self) -> bool {
        matches!(self, Wish::Subscribe(own, wait_s) if own.way() != Way::Poll || *wait_s > 0)
    }
}

/// An item to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Its content type as given by the publisher.
    pub kind: Box<str>,
    /// The publisher's idempotency key: a repeated publication with it is ignored.
    pub key: Option<Box<str>>,
    /// The key of each item, by which it replaces an earlier one: 1 to
    /// [`NOTIFY_KEY_BYTES_MAX`](crate::limits::NOTIFY_KEY_BYTES_MAX) visible ASCII characters.
    /// Empty if the items have no keys.
    pub keys: Vec<Box<str>>,
    /// The number of items of a batch, which are its [`lines`]: at most
    /// [`NOTIFY_BATCH_ITEMS_MAX`](crate::limits::NOTIFY_BATCH_ITEMS_MAX). `None` for a single item.
    pub batch: Option<usize>,
    /// The form of the response.
    pub answered: Publisher,
    /// The content as received.
    pub body: Vec<u8>,
}

/// The items of a batch: one JSON value per line. Empty lines are skipped.
pub fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}
