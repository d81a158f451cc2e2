//! A connection of Centrifugo's protocol, as data: its subscriptions, and the commands that wait
//! for the home of a channel.

use std::sync::Arc;

use super::reply::{self, push};
use super::{crowd, publication};
use crate::limits::CENTRIFUGO_QUESTIONS_MAX;
use crate::web::access::Grant;
use crate::web::dialect::places::{Place, Position};
use crate::web::dialect::{Dialect, Telling, Way};
use crate::web::feed_names::channel_of;
use crate::web::frame::FrameFault;

/// The stage of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The first command is expected.
    ExpectConnect,
    /// The first command is answered once all homes have answered.
    Connecting {
        /// The number of the command.
        id: u32,
        /// The channels by the client's names, with the content of the reply for each.
        subs: Vec<(Box<str>, Vec<u8>)>,
        /// The number of homes that have not answered.
        left: usize,
    },
    /// Any command may follow.
    Connected,
}

/// The stage of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The home was asked for the channel's position.
    Asked {
        /// The number of the command; 0 if the server subscribes.
        id: u32,
        /// It recovers from an earlier position.
        recovers: bool,
    },
    /// The position is known and will be in the reply to the first command.
    Gathered,
    /// The client has been notified.
    Begun,
}

/// A subscription, apart from its position in the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sub {
    /// The client's name for the channel, if it differs from the channel's own.
    pub(crate) name: Option<Box<str>>,
    /// The grant of the subscription's own token.
    pub(crate) grant: Option<Arc<Grant>>,
    pub(crate) step: Step,
    /// Second (monotonic) of the latest question to the home.
    pub(crate) since_s: u32,
}

const _: () = assert!(size_of::<Sub>() <= 48, "each subscription costs this much, and its place");

/// What a command asks of the home of a channel, other than a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A publication.
    Publish {
        /// When the command arrived, in microseconds (wall clock).
        since_us: u64,
    },
    /// The subscribers.
    Presence,
    /// The number of subscribers.
    PresenceStats,
    /// Earlier publications.
    History {
        node: Arc<str>,
        /// The number after which publications are wanted, without a gap.
        after: Option<u64>,
    },
}

/// A waiting command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The number of the question to the home.
    pub(crate) number: u32,
    /// The number of the command.
    pub(crate) id: u32,
    /// What it asks.
    pub(crate) what: What,
    /// Second (monotonic) since when it waits.
    pub(crate) since_s: u32,
}

/// The protocol state of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Talker {
    /// The connection's name for its client.
    pub(crate) name: Box<str>,
    pub(crate) stage: Stage,
    /// One per position of the listener, in the same order.
    pub(crate) subs: Vec<Sub>,
    /// Waiting commands, except those for subscriptions.
    pub(crate) waiting: Vec<Waiting>,
    /// Questions that homes have not answered yet, including those for commands that no longer
    /// wait.
    pub(crate) questions: u16,
    /// It was pinged and has sent nothing since.
    pub(crate) pinged: bool,
}

/// Memory used by so many connections with so many subscriptions, in bytes.
pub(crate) fn memory_bytes(connections: usize, subscriptions: usize) -> usize {
    connections * size_of::<Talker>() + subscriptions * size_of::<Sub>()
}

impl Talker {
    /// Creates the state of a new connection.
    pub(crate) fn new(name: String) -> Talker {
        Talker {
            name: name.into(),
            stage: Stage::ExpectConnect,
            subs: Vec::new(),
            waiting: Vec::new(),
            questions: 0,
            pinged: false,
        }
    }

    /// The client's name of the channel at one of its positions.
    pub(crate) fn called<'a>(&'a self, places: &'a [Place], index: usize) -> &'a str {
        let own = self.subs.get(index).and_then(|sub| sub.name.as_deref());
        own.unwrap_or_else(|| channel_of(&places[index].node))
    }
    /// Whether another question may be sent to a home.
    pub(crate) fn may_ask(&self) -> bool {
        self.questions < CENTRIFUGO_QUESTIONS_MAX
    }

    /// How many waiting commands ask for earlier publications.
    pub(crate) fn histories(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting.what, What::History { .. })).count()
    }

    /// Removes and returns the waiting command of a question.
    pub(crate) fn take_waiting(&mut self, number: u32) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.number == number)?;
        Some(self.waiting.swap_remove(at))
    }
}

impl Dialect for Box<Talker> {
    fn way(&self) -> Way {
        Way::Socket
    }

    fn has_begun(&self) -> bool {
        true
    }

    fn has_commands(&self) -> bool {
        true
    }

    /// A push.
    fn item(&self, telling: &mut Telling, position: Position<'_>, item: &[u8]) {
        let mut content = Vec::with_capacity(item.len() + 32);
        publication::write(&mut content, position.number, item);
        push(&mut telling.out, self.called(position.places, position.index), "pub", &content);
    }

    fn occupancy(&self, out: &mut Vec<u8>, places: &[Place], index: usize, occupancy: &[u8]) {
        crowd::changes(out, self.called(places, index), occupancy);
    }

    fn shutdown(&self) -> Option<FrameFault> {
        Some(reply::SHUTDOWN)
    }
}
